"""What a search says it does not know, with the bundled model, real files and the tool as an agent calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenMemory
from tests.samples import write_memory

from scrimshaw.app.mcp.backend import recall
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.engine.index import embed_pending, scan
from scrimshaw.search.confidence import CALIBRATED_ON, CALIBRATIONS, has_identifier, judge_answer
from scrimshaw.search.embedders import MODEL, Embedder, MiniLMEmbedder
from scrimshaw.search.pipeline import BESIDE, FALL, MOST_BESIDE

NOTES = {
    "storage/wal": "# Write-ahead log\n\nThe log is truncated after large imports, for it grew to 450 MB.",
    "hooks/open": "# Hooks fail open\n\nA hook that crashes exits with 0, so that no prompt is ever blocked.",
    "release/steps": "# Release\n\nTag the commit, build the wheel, and upload it to the package index.",
    "search/order": "# Order of hits\n\nReciprocal rank fusion joins the channels; equal scores go by trust.",
}
UNKNOWN = ["How long do I boil an egg?", "who won the world cup in 1998", "xyzzy plugh foo", "🎉🎉🎉"]
KNOWN = {
    "what happens to a prompt when a hook crashes": "hooks/open",
    "how do we publish a new version to the package index": "release/steps",
    "size of the write-ahead log after an import": "storage/wal",
}

Ask = Callable[..., Mapping[str, Any]]


@pytest.fixture
def ask(open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder) -> Callable[[Embedder | None], Ask]:
    for name, body in NOTES.items():
        write_memory(vault, name, body)

    def with_embedder(embedder: Embedder | None) -> Ask:
        engine = open_memory(embedder=embedder)
        scan(engine)
        if embedder:
            embed_pending(engine)
        dispatcher = Dispatcher(choose("core"), engine)
        return lambda query, **more: dispatcher.dispatch("memory_search", {"query": query, **more}).reply

    return with_embedder


@pytest.mark.parametrize("query", UNKNOWN)
def test_a_question_about_something_else_gets_no_hits_but_what_is_nearest(
    ask: Any, minilm: MiniLMEmbedder, query: str
) -> None:
    reply = ask(minilm)(query)
    assert (reply["hits"], reply["count"]) == ([], 0)
    assert reply["confidence"] < 0.5
    assert {name.partition(":")[0] for name in reply["nearest"]} <= NOTES.keys()
    assert 0 < len(" ".join(reply["nearest"])) <= 60 * 4


@pytest.mark.parametrize("query", [*UNKNOWN, *KNOWN])
def test_no_later_page_shows_what_the_first_one_leaves_out(ask: Any, minilm: MiniLMEmbedder, query: str) -> None:
    hits = ask(minilm)(query, limit=3, cursor="1", include_trace=True, include_constitutional=False)["hits"]
    assert all(hit["confidence"] >= BESIDE * 0.5 for hit in hits)


@pytest.mark.parametrize("query", KNOWN)
def test_beside_a_sure_hit_the_others_are_as_sure_as_their_scores(ask: Any, minilm: MiniLMEmbedder, query: str) -> None:
    first, *others = ask(minilm)(query, min_confidence=0, include_trace=True)["hits"]
    assert first["confidence"] > 0.9
    for hit in others:
        share = hit["score"] / first["score"]
        assert hit["confidence"] == pytest.approx(first["confidence"] * share**FALL, abs=0.002)
        assert hit["confidence"] < 0.5


def test_the_prompt_says_the_same(ask: Any, open_memory: OpenMemory, minilm: MiniLMEmbedder) -> None:
    known, unknown = "size of the write-ahead log after an import", UNKNOWN[0]
    nearest = ask(minilm)(unknown)["nearest"]
    engine = open_memory(embedder=minilm)
    said = recall.run(engine, topic=unknown)
    assert "Nothing is known about it yet." in said
    assert nearest
    assert all(f"\n{name}\n" in said for name in nearest)
    assert "450 MB" not in said
    assert "450 MB" in recall.run(engine, topic=known)


@pytest.mark.parametrize(("query", "expected"), KNOWN.items())
def test_a_question_that_a_note_answers_gets_it(ask: Any, minilm: MiniLMEmbedder, query: str, expected: str) -> None:
    reply = ask(minilm)(query)
    assert reply["hits"][0]["id"] == expected
    assert reply["confidence"] >= 0.5
    assert "nearest" not in reply


@pytest.mark.parametrize("query", KNOWN)
def test_beside_a_sure_hit_of_a_small_memory_little_else_is_shown(ask: Any, minilm: MiniLMEmbedder, query: str) -> None:
    find = ask(minilm)
    assert all(hit["confidence"] >= MOST_BESIDE * 0.5 for hit in find(query, include_trace=True)["hits"])
    page = find(query, limit=2)
    assert (len(page["hits"]), "next_cursor" in page) == (1, False)  # what is left out does not come on a later page


def test_whoever_asks_for_all_gets_all(ask: Any, minilm: MiniLMEmbedder) -> None:
    reply = ask(minilm)(UNKNOWN[0], min_confidence=0)
    assert len(reply["hits"]) == len(NOTES)
    assert "nearest" not in reply


def test_while_vectors_are_missing_less_confidence_is_enough(
    ask: Any, open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder
) -> None:
    assert ask(minilm)(UNKNOWN[0])["hits"] == []
    write_memory(vault, "notes/late", "# Late\n\nAn index of stamps, read and not yet embedded.")
    engine = open_memory(embedder=minilm)
    scan(engine)
    asked = ["which drawer of the museum has the index of albums"]
    asked += ["where did my foreign album of stamps go, was it read"]
    replies = [Dispatcher(choose("core"), engine).dispatch("memory_search", {"query": query}).reply for query in asked]
    assert [len(reply["hits"]) > 0 for reply in replies] == [False, True]
    assert replies[1]["confidence"] < 0.5


def test_words_alone_refuse_nothing(ask: Any) -> None:
    assert [hit["id"] for hit in ask(None)("how is an index of stamps")["hits"]]


@pytest.mark.parametrize(
    ("text", "cosine", "coverage", "model", "least", "most"),
    [
        ("nothing of it", 0.2, 0.65, MODEL, 0.0, 0.01),
        ("nothing of it", 0.2, 0.85, MODEL, 0.3, 0.7),
        ("nothing of it", 0.5, 0.65, MODEL, 0.5, 0.9),
        ("nothing of it", 0.5, 0.85, MODEL, 0.99, 1.0),
        ("the gate closes at dusk", 0.5, 0.65, MODEL, 0.5, 0.9),
        ("nothing of it", 0.2, None, MODEL, 0.0, 0.01),
        ("the gate closes at dusk", 0.2, None, MODEL, 0.3, 0.7),
        ("nothing of it", 0.5, None, MODEL, 0.9, 1.0),
        ("the gate closes at dusk", None, None, MODEL, 0.99, 1.0),
        ("the gate closes at dusk", 0.9, 0.9, "another model", 0.99, 1.0),
        ("nothing of it", 0.9, 0.9, "another model", 0.0, 0.01),
    ],
)
def test_meaning_and_the_words_of_the_query_make_an_answer_likely(
    text: str, cosine: float | None, coverage: float | None, model: str, least: float, most: float
) -> None:
    assert least <= judge_answer(text, ("gate", "closed", "dusk"), cosine, coverage, model, CALIBRATED_ON) <= most
    assert MODEL in CALIBRATIONS


def test_of_few_passages_the_best_needs_to_be_less_near() -> None:
    def judge(cosine: float | None, coverage: float | None, passages: int) -> float:
        return judge_answer("the gate", ("gate", "dusk"), cosine, coverage, MODEL, passages)

    for coverage in (0.8, None):
        few, many, more = (judge(0.22, coverage, passages) for passages in (100, 5000, 100_000))
        assert few > 2 * many
        assert many == more
    assert judge(None, None, 100) == judge(None, None, 5000)


@pytest.mark.parametrize(
    ("query", "has_it"),
    [
        ("SHOP-1207", True),
        ("which port does shop-1207 use?", True),
        ("shop-12", False),
        ("what is new in 1207", False),  # a number alone may be anything
        ("TLS12", False),  # many have it
        ("TLS12 or E0277", True),
    ],
)
def test_few_passages_have_an_identifier(query: str, has_it: bool) -> None:
    texts = ["| SHOP-1207 | 8137 | TLS12 |", "error[E0277]: TLS12", "SHOP-120 asks for TLS12", "SHOP-12077-b"]
    assert has_identifier(texts, query) is has_it


def test_a_ticket_gets_the_note_that_names_it(ask: Any, vault: Path, minilm: MiniLMEmbedder) -> None:
    for number in range(12):
        body = f"Migration V{20 + number} ran in {number + 2} minutes. Ticket SHOP-{1200 + 7 * number}. No rollback."
        write_memory(
            vault, f"releases/{number}", f"# Release 1.{number}.0\n\n{body} Canary was at 10 percent for one hour."
        )
    reply = ask(minilm)("which judge signed the affidavit for SHOP-1207")
    assert [hit["id"] for hit in reply["hits"]][:1] == ["releases/1"]


def test_what_a_filter_leaves_out_makes_no_answer_less_likely(ask: Any, vault: Path, minilm: MiniLMEmbedder) -> None:
    asked = {"query": "does a crash block anything", "folder": "hooks"}
    before = ask(minilm)(**asked)
    for number in range(20):
        write_memory(vault, f"other/{number}", f"# Shelf {number}\n\nJars of paint, colour {number}.")
    after = ask(minilm)(**asked)
    assert [hit["id"] for hit in before["hits"]] == ["hooks/open"]
    assert after["confidence"] == before["confidence"]


def test_words_that_no_passage_is_near_to_speak_against_an_answer(ask: Any, minilm: MiniLMEmbedder) -> None:
    find = ask(minilm)
    known, unknown = (
        find(f"which {word} joins the channels of a search")["confidence"] for word in ("fusion", "otter")
    )
    assert known > 0.9
    assert unknown < known - 0.2
