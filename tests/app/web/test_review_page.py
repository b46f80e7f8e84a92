"""The page of drafts: what a session left is accepted or rejected by a form of its own, and either is taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.app.web.conftest import ACCESS
from tests.app.web.documents import Document
from tests.app.web.test_reading import read
from tests.app.web.test_sessions_page import work
from tests.conftest import OpenMemory

from scrimshaw.app.web.server import ACTIONS, build_app
from scrimshaw.engine import Engine
from scrimshaw.engine.drafts import list_rejected, make_draft

OWN = {"Origin": "http://127.0.0.1:8300"}


@pytest.fixture
def engine(open_memory: OpenMemory) -> Engine:
    return open_memory("[drafts]\nreview = true\n")


@pytest.fixture(autouse=True)
def draft(engine: Engine, project: Path) -> None:
    """What a session left waits."""
    work(project)
    assert make_draft(engine, "S1").status == "waiting"


def find_form(page: Document, action: str) -> dict[str, str]:
    """The values that the one form with this address sends."""
    names = [(each.name, each.attributes) for each in page.elements if each.name in ("form", "input")]
    at = next(place for place, (name, values) in enumerate(names) if name == "form" and values["action"] == action)
    following = names[at + 1 :]
    end = next((place for place, (name, _) in enumerate(following) if name == "form"), len(following))
    return {values["name"]: values["value"] for _, values in following[:end]}


def press(browser: TestClient, page: Document, action: str) -> Document:
    """The page that a button leads to."""
    answer = browser.post(action, data=find_form(page, action), headers=OWN)
    assert answer.status_code == 200, answer.text
    return Document(answer.text)


def test_pages_only_show_unless_a_person_may_edit(engine: Engine, vault: Path) -> None:
    with TestClient(build_app(engine, ACCESS), base_url=f"http://127.0.0.1:{ACCESS.port}") as client:
        client.get(ACCESS.url)
        (draft,) = list_rejected(engine)
        for path in ("/drafts", "/changes"):
            page = read(client, path)
            assert "scrimshaw ui --edit" in page.text
            assert not [*page.find("form")]
        for action in ACTIONS:
            sent = client.post(action, data={"name": draft.name, "entry": "1", "token": ""}, headers=OWN)
            assert sent.status_code in (404, 405)
    assert len(list_rejected(engine)) == 1
    assert not [*vault.rglob("*.md")]


def test_a_draft_is_accepted_and_taken_back(browser: TestClient, engine: Engine, vault: Path) -> None:
    page = read(browser, "/drafts")
    assert "mend the gate" in page.text
    assert [each.text for each in page.find("span", **{"class": "badge"})] == ["1"]
    accepted = press(browser, page, "/drafts/accept")
    (memory,) = vault.rglob("*.md")
    assert "Accepted: sessions/" in accepted.text
    assert list_rejected(engine) == []
    (name,) = [each.attributes["href"] for each in accepted.find("a") if each.text.startswith("sessions/")]
    memory_page = read(browser, name)
    assert "mend the gate" in memory_page.text
    assert [each.text for each in memory_page.find("a", href="/sessions/S1#e3")]
    undone = press(browser, accepted, "/undo")
    assert not memory.exists()
    assert "mend the gate" in undone.text
    press(browser, undone, "/drafts/accept")
    assert memory.exists()


def test_a_draft_is_rejected_and_taken_back(browser: TestClient, engine: Engine, vault: Path) -> None:
    (before,) = list_rejected(engine)
    text = Path(before.path).read_bytes()
    rejected = press(browser, read(browser, "/drafts"), "/drafts/reject")
    assert list_rejected(engine) == []
    press(browser, rejected, "/undo")
    assert Path(before.path).read_bytes() == text
    assert not [*vault.rglob("*.md")]
    stale = browser.post("/undo", data=find_form(rejected, "/undo"), headers=OWN)
    assert stale.status_code == 404


def test_a_renewed_memory_is_shown_as_a_difference(
    browser: TestClient, engine: Engine, project: Path, vault: Path
) -> None:
    press(browser, read(browser, "/drafts"), "/drafts/accept")
    (memory,) = vault.rglob("*.md")
    before = memory.read_bytes()
    work(project, 2, "lamp")
    make_draft(engine, "S1")
    page = read(browser, "/drafts")
    assert any("lamp" in each.text for each in page.find("span", **{"class": "added"}))
    accepted = press(browser, page, "/drafts/accept")
    assert b"lamp" in memory.read_bytes()
    press(browser, accepted, "/undo")
    assert memory.read_bytes() == before


def test_a_memory_that_was_changed_since_stays(browser: TestClient, vault: Path) -> None:
    accepted = press(browser, read(browser, "/drafts"), "/drafts/accept")
    (memory,) = vault.rglob("*.md")
    memory.write_text(memory.read_text() + "\nMore.\n")
    answer = browser.post("/undo", data=find_form(accepted, "/undo"), headers=OWN)
    assert answer.status_code == 409
    assert memory.read_text().endswith("More.\n")


@pytest.mark.parametrize(
    ("headers", "token", "status"),
    [
        ({}, None, 403),
        ({"Origin": "null"}, None, 403),
        ({"Origin": "https://evil.example"}, None, 403),
        ({"Origin": "http://127.0.0.1:8301"}, None, 403),
        (OWN, "guessed", 403),
        (OWN, "", 403),
        ({**OWN, "Cookie": ""}, None, 403),
    ],
)
def test_a_form_of_another_page_changes_nothing(
    browser: TestClient, engine: Engine, headers: dict[str, str], token: str | None, status: int
) -> None:
    values = find_form(read(browser, "/drafts"), "/drafts/accept")
    values |= {} if token is None else {"token": token}
    if "Cookie" in headers:
        browser.cookies.clear()
    answer = browser.post("/drafts/accept", data=values, headers={key: text for key, text in headers.items() if text})
    assert answer.status_code == status
    assert len(list_rejected(engine)) == 1


def test_looking_changes_nothing(browser: TestClient, engine: Engine) -> None:
    for path in ("/drafts/accept", "/drafts/reject", "/undo"):
        assert browser.get(path, params=find_form(read(browser, "/drafts"), "/drafts/accept")).status_code == 405
    assert len(list_rejected(engine)) == 1


@pytest.mark.parametrize("name", ["../memories/north", "none", "", "../../config"])
def test_only_a_draft_is_accepted(browser: TestClient, engine: Engine, name: str) -> None:
    values = find_form(read(browser, "/drafts"), "/drafts/accept") | {"name": name}
    for action in ("/drafts/accept", "/drafts/reject"):
        assert browser.post(action, data=values, headers=OWN).status_code in (400, 404)
    assert len(list_rejected(engine)) == 1
