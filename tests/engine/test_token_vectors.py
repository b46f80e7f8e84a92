"""Token vectors as durable work, and what they do to the order of hits."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.conftest import OpenMemory
from tests.samples import WordEmbedder, write_memory

from scrimshaw.engine import Engine
from scrimshaw.engine.index import EMBED, embed_pending, lacks_vectors, scan
from scrimshaw.engine.read import search
from scrimshaw.models import Channel, JobState
from scrimshaw.search.embedders import MiniLMEmbedder
from scrimshaw.search.results import Hit, SearchRequest


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


def test_a_score_can_be_computed_by_hand(open_memory: OpenMemory, vault: Path) -> None:
    engine = open_memory(embedder=WordEmbedder())
    fill(engine, vault, NOTES)
    result = search(engine, SearchRequest(query="seal on ice"))
    for hit in result.hits:
        why = hit.explanation
        total = max(0.0, why.fused + sum(why.terms.values())) * math.prod(why.factors.values())
        assert hit.score == pytest.approx(total * (1 + sum(why.boosts.values())), abs=1e-5)
    assert any(map(tokens_of, result.hits))
    for plain in ({"rerank": False}, {"channels": (Channel.TEXT,)}):
        assert not any(map(tokens_of, search(engine, SearchRequest(query="seal on ice", **plain)).hits))


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
