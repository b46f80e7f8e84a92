"""The ports under test, once per engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.contract import INDEXES, JOURNALS

from scrimshaw.storage.ports import Index, Journal


@pytest.fixture(params=INDEXES)
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Index]:
    opened = INDEXES[request.param](tmp_path)
    yield opened
    opened.close()


@pytest.fixture(params=JOURNALS)
def journal_engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def journal(journal_engine: str, tmp_path: Path) -> Iterator[Journal]:
    opened = JOURNALS[journal_engine](tmp_path)
    yield opened
    opened.close()
