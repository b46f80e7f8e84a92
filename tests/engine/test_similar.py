"""Sameness while others write."""

from __future__ import annotations

import pytest

from scrimshaw.engine import Engine
from scrimshaw.engine.links import find_shared_titles, link
from scrimshaw.engine.write import NewText, find_similar_memories, save
from scrimshaw.models import Relation

PARAGRAPH = (
    "We chose apsw over the standard library because the interpreter links an old SQLite whose write-ahead log "
    "can be reset twice and then corrupts the database under two writers. "
)


def test_a_near_duplicate_that_is_deleted_meanwhile_is_not_told(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(engine, NewText(content=PARAGRAPH * 2, id="original"))
    assert [each.id for each in find_similar_memories(engine, PARAGRAPH * 2 + "So be it.")] == ["original"]
    monkeypatch.setattr(type(engine.index), "get", lambda index, ids: {})
    assert find_similar_memories(engine, PARAGRAPH * 2 + "So be it.") == ()


@pytest.mark.parametrize(
    ("known", "new", "kinds"),
    [
        ("Staging database is reset every Sunday at 4:00.", "Staging DB gets reset every Sunday at 4 am.", ["related"]),
        ("Redis 7 is used for sessions; TTL is 12 hours.", "Redis 7 is used for sessions; TTL 24 hours.", ["related"]),
        ("The Sentry DSN is in values.yaml.", "Sentry DSN: values.yaml", ["near_duplicate"]),
        ("Staging database is reset every Sunday at 4:00.", "Backups of the database run every night.", []),
        (
            "Staging database is reset every Sunday at 4:00.",
            "Staging is reset every Sunday. " + "Others say more. " * 40,
            [],
        ),
        ("Staging database is reset.", "?!", []),
    ],
)
def test_a_brief_text_in_other_words_is_similar_by_its_words(
    engine: Engine, known: str, new: str, kinds: list[str]
) -> None:
    save(engine, NewText(content=known, id="original"))
    assert [each.kind for each in find_similar_memories(engine, new)] == kinds


def test_memories_of_one_title_are_told_and_proposed_to_be_superseded(engine: Engine) -> None:
    texts = (
        "Run make deploy after the smoke test on staging; ask Bo for the key of the VPN first.",
        "The release bot ships what is merged once somebody comments /release on the request.",
    )
    first = save(engine, NewText(content=texts[0], title="How to deploy", id="ops/deploying"))
    other = save(engine, NewText(content="Deploying needs a quiet harbour.", title="When to deploy"))
    saved = save(engine, NewText(content=texts[1], title="how to  Deploy"))
    assert [(each.id, each.kind) for each in saved.similar] == [(first.id, "same_title")]
    assert [(each.target, each.why) for each in saved.proposals] == [(first.id, "it has the same title")]
    assert other.similar == ()
    assert find_shared_titles(engine) == [[saved.id, first.id]]
    link(engine, saved.id, first.id, Relation.SUPERSEDES)
    assert find_shared_titles(engine) == []
