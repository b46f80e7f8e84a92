"""Token vectors as durable work, and what they do to the order of hits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenMemory
from tests.samples import WordEmbedder, write_memory

from scrimshaw.engine import Engine
from scrimshaw.engine.core import EMBED
from scrimshaw.engine.index import embed_pending, lacks_vectors, scan
from scrimshaw.engine.read import get, search
from scrimshaw.models import Channel, Filters, JobState
from scrimshaw.search.embedders import MiniLMEmbedder
from scrimshaw.search.results import Hit, SearchRequest, SessionSignals


def fill(engine: Engine, vault: Path, texts: dict[str, str]) -> None:
    """Memories of these texts, with their vectors."""
    for name, text in texts.items():
        write_memory(vault, name, text)
    scan(engine)
    embed_pending(engine)


def tokens_of(hit: Hit) -> float:
    return hit.explanation.terms.get("tokens", 0.0)


NOTES = {
    "walrus": "The walrus sleeps on the ice, and the seal watches the harbour.",
    "seal": "The seal sleeps on the ice, and the walrus watches the harbour.",
    "harbour": "The harbour has ice in winter. Seals and walruses are rare.",
}


def test_the_passage_that_meets_the_words_of_a_query_gains_on_the_others(
    open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder
) -> None:
    engine = open_memory(embedder=minilm)
    tabs = "The parser rejects tabs in front matter, so they become spaces before it reads the file."
    fill(engine, vault, {**NOTES, "tabs": tabs, "bread": "Bake the bread for forty minutes in front of the window."})
    hits = search(engine, SearchRequest(query="why do tabs break the parser?")).hits
    terms = {hit.memory.id: tokens_of(hit) for hit in hits}
    assert hits[0].memory.id == max(terms, key=lambda name: terms[name]) == "tabs"
    assert terms["tabs"] > 0.1
    assert sum(terms.values()) == pytest.approx(0, abs=1e-5)  # compared with each other


def test_what_has_no_vector_yet_is_found_by_its_words_among_those_that_have_one(
    open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder
) -> None:
    engine = open_memory(embedder=minilm)
    fill(
        engine,
        vault,
        {**NOTES, "ice": "Ice on the harbour: ships wait for the spring, and the parser of the log rests."},
    )
    write_memory(vault, "tabs", "The parser rejects tabs in front matter, so they become spaces before it reads.")
    scan(engine)
    found = search(engine, SearchRequest(query="why do tabs in front matter break the parser?"))
    assert found.hits[0].memory.id == "tabs"
    assert tokens_of(found.hits[0]) > 0.1  # taken to meet the query as well as its words do
    assert found.degradations[0].failure_mode.startswith("vectors_pending: 1 of 5")


def test_of_two_notes_the_one_near_the_best_gains_and_the_longer_one_loses(
    open_memory: OpenMemory, vault: Path
) -> None:
    engine = open_memory(embedder=WordEmbedder())
    fill(engine, vault, {**NOTES, "long": NOTES["seal"] + " " + "Gulls and ravens shout. " * 30})
    terms = {hit.memory.id: hit.explanation.terms for hit in search(engine, SearchRequest(query="seal on ice")).hits}
    assert all(set(each) == {"tokens", "agreement", "length"} for each in terms.values())
    assert min(terms, key=lambda name: terms[name]["length"]) == "long"
    assert terms["walrus"]["agreement"] > terms["harbour"]["agreement"]


@pytest.mark.parametrize(
    ("fields", "factors"),
    [
        ({}, {"length"}),
        ({"query": "spec of the seal on ice"}, {"length", "artifact", "floor"}),
        ({"query": "se", "channels": (Channel.TEXT,)}, {"length", "prefix"}),
    ],
)
def test_a_score_can_be_computed_by_hand(
    open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder, fields: dict[str, Any], factors: set[str]
) -> None:
    engine = open_memory(embedder=minilm)
    notes = {f"note-{number}": f"{NOTES['harbour']} Day {number}, ship {number * 7}." for number in range(20)}
    fill(engine, vault, {**NOTES, **notes, "short": "Seal on ice."})
    context = SessionSignals(boosts=lambda ids, _: {name: {"session": 0.1, "causal": 0.03} for name in ids[::2]})
    request = SearchRequest(**{"query": "seal on ice", "limit": 30, **fields})
    hits = engine.searcher.search(request, context).hits
    for why, score in ((hit.explanation, hit.score) for hit in hits):
        total = max(0.0, why.fused + sum(why.terms.values())) * math.prod(why.factors.values())
        assert round(total * (1 + sum(why.boosts.values())), 6) == score
    assert {name for hit in hits for name in hit.explanation.factors} == factors
    assert hits[0].score > 1 or fields
    assert any(hit.explanation.terms for hit in hits) == ("channels" not in fields)


def test_what_lacks_token_vectors_is_told_and_made_without_being_asked(open_memory: OpenMemory, vault: Path) -> None:
    off = open_memory(toml="[index]\ntoken_vectors = 0", embedder=WordEmbedder())
    fill(off, vault, NOTES)
    plain = search(off, SearchRequest(query="seal on ice"))
    assert (off.index.vector_counts().with_tokens, plain.degradations, lacks_vectors(off)) == (0, (), False)
    engine = open_memory(embedder=WordEmbedder())  # as after an upgrade: vectors are there
    result = search(engine, SearchRequest(query="seal on ice"))
    assert [each.failure_mode.partition(":")[0] for each in result.degradations] == ["tokens_pending"]
    assert [hit.memory.id for hit in result.hits] == [hit.memory.id for hit in plain.hits]
    assert embed_pending(engine, record=False) == 0  # in haste only what cannot be found by meaning
    scan(engine)
    assert [job.kind for job in engine.journal.jobs([JobState.QUEUED])] == [EMBED]
    assert embed_pending(engine) == 3
    assert not lacks_vectors(engine)
    assert search(engine, SearchRequest(query="seal on ice")).degradations == ()


def test_no_more_passages_have_them_than_the_limit_says(open_memory: OpenMemory, vault: Path) -> None:
    engine = open_memory(toml="[index]\ntoken_vectors = 16", embedder=WordEmbedder())
    fill(engine, vault, {f"n{number}": f"text {number}" for number in range(40)})
    assert (engine.index.vector_counts().with_tokens, lacks_vectors(engine)) == (16, False)


LOCKS = "Writers wait at most five seconds for the lock of the vault, and then they are told who holds it."


def dated(month: int, text: str, more: str = "") -> str:
    return f"---\nupdated: 2026-0{month}-01T00:00:00Z\n{more}---\n{text}"


@pytest.mark.parametrize(("older", "newer"), [("a", "z"), ("z", "a")])
def test_of_two_versions_of_a_text_the_newer_comes_first(
    open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder, older: str, newer: str
) -> None:
    engine = open_memory(embedder=minilm)
    versions = {older: dated(1, LOCKS), newer: dated(3, LOCKS.replace("at most five", "up to nine"))}
    fill(engine, vault, {**NOTES, **versions})
    hits = search(engine, SearchRequest(query="how long do writers wait for the lock?", decay=False)).hits
    assert [hit.memory.id for hit in hits[:2]] == [newer, older]
    is_lifted = "newer" in hits[0].explanation.terms
    assert is_lifted == (0 < hits[0].score - hits[1].score < 1e-5) == (newer == "z")


def test_a_word_that_only_the_older_version_has_does_not_keep_it_first(
    open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder
) -> None:
    engine = open_memory(embedder=minilm)
    texts = {"z": dated(1, LOCKS, "title: Locks\n"), "a": dated(3, LOCKS.replace("five", "nine"), "title: Locks\n")}
    fill(engine, vault, {**NOTES, **texts})
    hits = search(engine, SearchRequest(query="do writers wait five seconds for the lock?", decay=False)).hits
    assert [hit.memory.id for hit in hits[:2]] == ["a", "z"]


@pytest.mark.parametrize("number", range(12))
def test_of_texts_from_one_template_that_with_the_words_of_the_query_comes_first(
    open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder, number: int
) -> None:
    engine = open_memory(embedder=minilm)
    rest = "No rollback was needed. Canary was at 10 percent for one hour."
    for each in range(12):
        migration = f"Migration V{20 + each} ran in {each + 2} minutes."
        text = f"Released on the 3rd. {migration} Ticket SHOP-{1200 + 7 * each}. {rest}"
        front = f"---\ntitle: Release 1.{each}.0\nupdated: 2026-{each + 1:02}-03\n---\n"
        fill(engine, vault, {f"r{each}": f"{front}# Release 1.{each}.0\n\n{text}\n"})
    for query in (f"who released 1.{number}.0?", f"how long did migration V{20 + number} take?"):
        assert search(engine, SearchRequest(query=query, decay=False)).hits[0].memory.id == f"r{number}"


def test_what_supersedes_comes_first_and_says_so_if_it_is_trusted_as_much(
    open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder
) -> None:
    engine, query = open_memory(embedder=minilm), "how long do writers wait for the lock of the vault?"
    relation = "relations: {supersedes: [old]}\n"
    new = dated(3, "Nobody waits any more: the vault has a queue, and who writes is told its place there.", relation)
    fill(engine, vault, {**NOTES, "old": dated(1, LOCKS), "new": new})
    hits = search(engine, SearchRequest(query=query, decay=False)).hits
    assert [(hit.memory.id, hit.superseded_by) for hit in hits[:2]] == [("new", ()), ("old", ("new",))]
    fill(engine, vault, {"new": new.replace("relations:", "provenance: {source: agent, trust: web}\nrelations:")})
    assert search(engine, SearchRequest(query=query, decay=False)).hits[0].memory.id == "old"


def test_what_is_superseded_says_so_wherever_it_is_read_without_the_new_one(
    open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder
) -> None:
    engine, query = open_memory(embedder=minilm), "how long do writers wait for the lock of the vault?"
    new = dated(3, "Harbour bells ring at noon.", "relations: {supersedes: [ops/old]}\n")
    fill(engine, vault, {**NOTES, "ops/old": dated(1, LOCKS), "new": new})
    hits = search(engine, SearchRequest(query=query, decay=False, filters=Filters(folder="ops"))).hits
    assert [(hit.memory.id, hit.superseded_by) for hit in hits] == [("ops/old", ("new",))]
    assert get(engine, "ops/old").superseded_by == ("new",)
    assert get(engine, "new").superseded_by == ()
