"""A browser without a window, on the dashboard of a project in a scratch folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from scrimshaw.app.web.server import Access, build_app
from scrimshaw.engine import Engine

ACCESS = Access(port=8300, token="the-key")


@pytest.fixture
def stranger(engine: Engine) -> Iterator[TestClient]:
    """A browser that has not been given the token."""
    app = build_app(engine, ACCESS, can_edit=True)
    with TestClient(app, base_url=f"http://127.0.0.1:{ACCESS.port}", follow_redirects=False) as client:
        yield client


@pytest.fixture
def browser(stranger: TestClient) -> TestClient:
    """A browser that opened the address with the token."""
    assert stranger.get(ACCESS.url).status_code == 303
    stranger.follow_redirects = True
    return stranger
