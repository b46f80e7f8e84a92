"""Who may see the dashboard: the browser that was given the token, and no page in it but the dashboard's own."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from tests.app.web.conftest import ACCESS


def test_the_address_with_the_token_opens_the_pages(stranger: TestClient) -> None:
    opened = stranger.get(f"/?token={ACCESS.token}&q=harbour")
    assert (opened.status_code, opened.headers["location"]) == (303, "/?q=harbour")
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert stranger.get("/").status_code == 200


@pytest.mark.parametrize("path", ["/", "/memory/north", "/nowhere", "/?token=guessed", "/?token="])
def test_nobody_else_sees_anything(stranger: TestClient, path: str) -> None:
    refused = stranger.get(path)
    assert refused.status_code == 403
    assert "scrimshaw ui" in refused.text


@pytest.mark.parametrize("host", ["evil.example:8300", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:8300", ""])
def test_a_foreign_name_that_leads_here_is_refused(browser: TestClient, host: str) -> None:
    assert browser.get("/", headers={"Host": host}).status_code == 421
    assert browser.get("/assets/style.css", headers={"Host": host}).status_code == 421


def test_every_answer_forbids_scripts_and_frames(browser: TestClient) -> None:
    for path in ("/", "/memory/none", "/nowhere", "/assets/keys.js"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_assets_are_the_only_files(browser: TestClient) -> None:
    assert browser.get("/assets/style.css").headers["content-type"].startswith("text/css")
    for name in ("page.py", "..%2fserver.py", "%2e%2e/server.py"):
        assert browser.get(f"/assets/{name}").status_code == 404


def test_a_bug_is_told_without_what_it_quotes(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch, vault: object, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("password=hunter2hunter2")

    monkeypatch.setattr("scrimshaw.app.web.search.render_newest", fail)
    client = TestClient(
        browser.app, base_url=str(browser.base_url), cookies=browser.cookies, raise_server_exceptions=False
    )
    answer = client.get("/")
    assert answer.status_code == 500
    assert answer.headers["cache-control"] == "no-store"
    assert "hunter2" not in answer.text + caplog.text
    assert "ZeroDivisionError" in caplog.text
