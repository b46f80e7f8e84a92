"""The page of the ledger: changes are listed and undone by a button, and jobs that are not done are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.app.web.test_reading import read
from tests.app.web.test_review_page import OWN, find_form, press

from scrimshaw.engine import Engine
from scrimshaw.engine.write import NewText, save


@pytest.fixture
def saved(engine: Engine) -> str:
    """The id of a memory that was just saved."""
    return save(engine, NewText(content="A float lost a cent on invoice 2044.", id="money/decimal"), force=True).id


def test_a_change_is_undone_and_brought_back(browser: TestClient, saved: str, vault: Path) -> None:
    page = read(browser, "/changes")
    assert saved in page.text
    undone = press(browser, page, "/changes/undo")
    assert not list(vault.rglob("*.md"))
    assert "by 2" in undone.text
    # The undo is a change of its own, and undoing it brings the file back.
    press(browser, undone, "/changes/undo")
    assert [path.stem for path in vault.rglob("*.md")] == [saved.rpartition("/")[2]]


def test_each_cell_names_its_column_where_a_narrow_screen_stacks_them(browser: TestClient, saved: str) -> None:
    page = read(browser, "/changes")
    names = [each.attributes["data-name"] for each in page.find("td")]
    assert names[:6] == ["change", "when", "by", "reason", "entry", "undo"]


def test_a_change_under_a_newer_edit_stays(browser: TestClient, saved: str, vault: Path) -> None:
    page = read(browser, "/changes")
    (file,) = vault.rglob("*.md")
    file.write_text(f"{file.read_text()}\nA person's line.\n")
    answer = browser.post("/changes/undo", data=find_form(page, "/changes/undo"), headers=OWN)
    assert answer.status_code == 409
    assert "was not undone" in answer.text
    assert "A person's line." in file.read_text()


def test_an_undo_without_a_number_changes_nothing_and_says_what_to_do(
    browser: TestClient, saved: str, vault: Path
) -> None:
    form = find_form(read(browser, "/changes"), "/changes/undo")
    answer = browser.post("/changes/undo", data={**form, "entry": ""}, headers=OWN)
    assert answer.status_code == 400
    assert "scrimshaw ledger show" in answer.text
    assert list(vault.rglob("*.md"))


def test_what_a_person_wrote_by_hand_has_no_button(browser: TestClient, vault: Path) -> None:
    (vault / "tides.md").write_text("# Tides\nHigh water is at noon.\n")
    page = read(browser, "/changes")
    assert "tides" in page.text
    assert not list(page.find("form", action="/changes/undo"))


def test_jobs_that_are_not_done_are_listed(browser: TestClient, engine: Engine) -> None:
    assert "Every job is done." in read(browser, "/changes").text
    engine.journal.enqueue("draft", "S1", {})
    page = read(browser, "/changes")
    assert "draft" in page.text
    assert "queued" in page.text
