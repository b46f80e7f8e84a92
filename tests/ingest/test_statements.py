"""What a sentence settles or plans, and what it does not."""

from __future__ import annotations

import pytest

from scrimshaw.ingest.extraction import LONGEST_STATEMENT, find_statement
from scrimshaw.models import ItemKind

DECISION, PLAN = ItemKind.DECISION, ItemKind.PLAN


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I looked around. I decided to keep one lock per vault.", DECISION),
        ("We'll store hashes rather than texts.", DECISION),
        ("- Use apsw instead of the interpreter's sqlite3", DECISION),
        ("The importer still needs a test for empty files.", PLAN),
        ("All tests pass.\nNext, the lock goes into the importer.", PLAN),
        ("Should we store hashes rather than texts?", None),
        ("Let me check whether we should use apsw instead.", None),
        ("If we decided to drop it, nothing would break.", None),
        ("```\nI decided to be code, as a comment.\n```\n> We decided what is quoted.", None),
        ("The tests pass now.", None),
    ],
)
def test_an_agent_settles_or_plans(text: str, kind: ItemKind | None) -> None:
    found = find_statement(text)
    assert (found and found[0]) == kind


@pytest.mark.parametrize(
    ("text", "is_settled"),
    [
        ("Don't put comments into the snippets.", True),
        ("I'd rather exclude the diary folder from the checks", True),
        ("ok, let's use uv for this project", True),
        ("I don't know what happened here, please look.", False),
        ("Let's look at the failing test together.", False),
        ("Why don't we use apsw for that?", False),
    ],
)
def test_a_person_settles(text: str, is_settled: bool) -> None:
    assert bool(find_statement(text, by_person=True)) == is_settled


def test_a_text_is_kept_in_its_own_last_sentences() -> None:
    found = find_statement(" ".join(f"We decided on number {number} of the harbour's gates." for number in range(20)))
    assert found is not None
    assert found[1].endswith("number 19 of the harbour's gates.")
    assert len(found[1]) <= LONGEST_STATEMENT
