"""Finding and reading through the engine, with words alone and with the bundled model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenMemory
from tests.samples import SECRET, WordEmbedder, vouch_for, write_memory

from scrimshaw.engine import Engine
from scrimshaw.engine.context import Context, ContextRequest, context
from scrimshaw.engine.index import embed_pending, rebuild, scan
from scrimshaw.engine.links import list_dependencies
from scrimshaw.engine.read import get, match_triggers, search, validate
from scrimshaw.engine.write import NewText, save
from scrimshaw.errors import NotFound, UnreadableFile
from scrimshaw.ingest.comparison import count_tokens
from scrimshaw.models import Channel, Filters, Intent, MemoryType, Mode, Stage, Tier
from scrimshaw.search.embedders import MiniLMEmbedder
from scrimshaw.search.results import SearchRequest, SearchResult

find_triggered = partial(match_triggers, folder="", session=None, turn=None, cognitive=True)

BODIES = {
    "storage/wal": "# WAL reset\n\nTwo writers reset the write-ahead log and the database is malformed. "
    "We ship our own SQLite since.",
    "storage/apsw": "We chose apsw because most interpreters link an SQLite with the corruption bug.",
    "hooks/open": "A hook that fails must fail open: the agent goes on working without its memory.",
    "hooks/budget": "Hooks have five milliseconds in the queue path and start no child process.",
    "search/fusion": "Scores are fused by their shape, not by rank; a standout counts more than a flat list.",
    "search/decay": "Attention decays by events and not by minutes, so a pause over lunch forgets nothing.",
    "release/steps": "To publish: bump the version, tag it, push, and let the workflow upload the wheel.",
    "style/errors": "Every error message tells what happened, where, and what to do next.",
    "notes/bread": "Bread is baked for forty minutes; steam in the first ten makes the crust.",
    "notes/ivory": "Scrimshaw is the carving of whale bone and walrus ivory by sailors at sea.",
    "notes/garden": "Tomatoes want sun and water in the morning, never on the leaves.",
    "notes/train": "The night train to Hamburg leaves at ten past nine from platform seven.",
}
QUERIES = (
    "why not the standard library's sqlite",
    "what should happen when a hook crashes",
    "how to release a new version",
    "cooking",
    "database is malformed",
    "sailors",
)


def ask(engine: Engine, query: str, **fields: Any) -> SearchResult:
    return search(engine, SearchRequest(query=query, **fields))


def ids(result: SearchResult) -> list[str]:
    return [hit.memory.id for hit in result.hits]


@pytest.fixture
def library(open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder) -> Engine:
    """Twelve small memories with vectors of the bundled model."""
    for name, body in BODIES.items():
        write_memory(vault, name, body)
    engine = open_memory(embedder=minilm)
    scan(engine)
    embed_pending(engine)
    return engine


def shown(engine: Engine, query: str) -> list[tuple[str, str, str, dict[str, int]]]:
    """What a search shows, but for scores: those of dated memories fade from one second to the next."""
    return [(h.memory.id, h.anchor, h.text, dict(h.explanation.ranks)) for h in ask(engine, query).hits]


# With the bundled model


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("why not the standard library's sqlite", "storage/apsw"),
        ("what should happen when a hook crashes", "hooks/open"),
        ("how to release a new version", "release/steps"),
        ("cooking", "notes/bread"),
        ("vegetables", "notes/garden"),
    ],
)
def test_other_words_of_the_same_meaning_find_it(library: Engine, query: str, expected: str) -> None:
    result = ask(library, query)
    assert ids(result)[0] == expected
    assert result.degradations == ()


def test_a_rebuilt_index_answers_the_same(
    library: Engine, open_memory: OpenMemory, project: Path, minilm: MiniLMEmbedder
) -> None:
    """The index is derived: without index.db the files and the journal give back every hit and every review."""
    saved = save(library, NewText(content="Sailors carved at sea, with a needle.", title="Aboard", tier=Tier.TEMPORARY))
    embed_pending(library)
    validate(library, "notes/ivory", useful=False)
    before = [shown(library, query) for query in QUERIES]
    library.close()
    for name in ("index.db", "index.db-wal", "index.db-shm"):
        (project / ".scrimshaw" / name).unlink(missing_ok=True)
    engine = open_memory(embedder=minilm)
    assert ids(ask(engine, "sailors")) == []
    scan(engine)
    embed_pending(engine)
    assert [shown(engine, query) for query in QUERIES] == before
    assert engine.journal.reviews(["notes/ivory"])["notes/ivory"].confidence == 0.45
    assert "validation" in next(
        hit.explanation.factors for hit in ask(engine, "walrus ivory").hits if hit.memory.id == "notes/ivory"
    )
    assert engine.journal.last_hashes()[saved.id] == saved.content_hash
    rebuild(engine)
    embed_pending(engine)
    assert [shown(engine, query) for query in QUERIES] == before


# With words


def test_a_search_has_six_stages(engine: Engine, vault: Path) -> None:
    write_memory(vault, "a", "walrus")
    scan(engine)
    assert [stage.stage for stage in ask(engine, "walrus").trace] == list(Stage)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(), ["a", "b", "c/d", "e"]),
        (Filters(tiers=(Tier.CRITICAL,)), ["a"]),
        (Filters(types=(MemoryType.DECISION,)), ["b"]),
        (Filters(topics=("ivory",)), ["c/d"]),
        (Filters(folder="c"), ["c/d"]),
        (Filters(source="vault", exclude=("a",)), ["b", "c/d", "e"]),
        (Filters(source="elsewhere"), []),
        (Filters(since="2026-01-01"), ["b", "c/d", "e"]),  # c/d says no date, and was written just now
        (Filters(until="2025-12-31"), ["a"]),
        (Filters(only=("a", "old")), ["a"]),
        (Filters(include_deprecated=True), ["a", "b", "c/d", "e", "old"]),
        (Filters(min_quality_score=0.0), ["a", "agent", "b", "c/d", "e"]),
    ],
)
def test_filters_reach_the_search(engine: Engine, vault: Path, filters: Filters, expected: list[str]) -> None:
    write_memory(vault, "a", "walrus", "tier: critical\nupdated: 2025-05-05")
    write_memory(vault, "b", "walrus", "type: decision\nupdated: 2026-05-05\nquality: {score: 0.05}")
    write_memory(vault, "c/d", "walrus", "topics: [Ivory]")
    write_memory(vault, "e", "walrus", "created: 2026-05-05")
    write_memory(vault, "old", "walrus", "tier: deprecated")
    write_memory(vault, "agent", "walrus", "provenance: {source: agent, trust: agent}\nquality: {score: 0.05}")
    scan(engine)
    assert sorted(ids(ask(engine, "walrus", filters=filters))) == expected


def test_constitutional_memories_come_first_within_their_room(open_memory: OpenMemory, vault: Path) -> None:
    for number in range(5):
        write_memory(vault, f"law/{number}", "Tabs are never used. " * 10, "tier: constitutional")
    write_memory(vault, "a", "walrus")
    engine = open_memory("[search]\nconstitutional_tokens = 150\n")
    vouch_for(engine, *(f"law/{number}" for number in range(5)))
    result = ask(engine, "walrus")
    assert [hit.memory.id for hit in result.always_on] == ["law/0", "law/1"]
    assert sum(count_tokens(hit.text) for hit in result.always_on) <= 150


def test_vectors_that_are_missing_yet_still_leave_words(open_memory: OpenMemory, vault: Path) -> None:
    write_memory(vault, "a", "walrus ivory")
    engine = open_memory(embedder=WordEmbedder())
    scan(engine)
    (hit,) = ask(engine, "walrus").hits
    assert set(hit.explanation.ranks) == {Channel.TEXT}
    embed_pending(engine)
    (hit,) = ask(engine, "walrus").hits
    assert set(hit.explanation.ranks) == {Channel.TEXT, Channel.VECTOR}


# Get


def test_a_memory_is_read_from_its_file(engine: Engine, vault: Path) -> None:
    path = write_memory(vault, "a", "old text", "title: T")
    scan(engine)
    indexed = get(engine, "a")
    assert (indexed.body, indexed.memory.title, indexed.content_hash) == ("old text", "T", indexed.memory.content_hash)
    path.write_text("new text")
    now = get(engine, "a")
    assert now.body == "new text"
    assert now.content_hash != now.memory.content_hash


def test_a_section_is_read_by_its_anchor(engine: Engine, vault: Path) -> None:
    write_memory(vault, "a", "intro\n\n# One\n\nfirst\n\n## Deeper\n\ninside\n\n# Two\n\nlast\n")
    scan(engine)
    assert get(engine, "a", "one").body.split() == ["#", "One", "first", "##", "Deeper", "inside"]
    assert get(engine, "a", "two").body.split() == ["#", "Two", "last"]
    with pytest.raises(NotFound, match="one, deeper, two"):
        get(engine, "a", "three")


@pytest.mark.parametrize("name", ["mem:notes/a", "notes/a.md", "[[notes/a]]", "mem:notes/a#one", "[[notes/a#one]]"])
def test_a_memory_is_read_by_the_name_that_texts_give_it(engine: Engine, vault: Path, name: str) -> None:
    write_memory(vault, "notes/a", "intro\n\n# One\n\nfirst\n")
    scan(engine)
    found = get(engine, name)
    assert found.memory.id == "notes/a"
    assert ("intro" in found.body) == ("#" not in name)
    with pytest.raises(NotFound, match="notes/b"):
        get(engine, name.replace("/a", "/b"))


def test_a_secret_in_a_file_is_not_shown(engine: Engine, vault: Path) -> None:
    write_memory(vault, "a", f"the token is {SECRET} here")
    scan(engine)
    read = get(engine, "a")
    assert SECRET not in read.body
    assert len(read.redacted) == 1
    assert SECRET not in ask(engine, "token").hits[0].text


def test_what_cannot_be_read_is_told(engine: Engine, vault: Path) -> None:
    path = write_memory(vault, "a", "text")
    scan(engine)
    with pytest.raises(NotFound, match="absent"):
        get(engine, "absent")
    path.write_bytes(b"\xff\xff")
    with pytest.raises(UnreadableFile, match=r"a\.md"):
        get(engine, "a")
    path.unlink()
    with pytest.raises(NotFound, match="is gone"):
        get(engine, "a")


# Triggers


def test_memories_are_found_by_their_phrases(engine: Engine, vault: Path) -> None:
    write_memory(vault, "in/a", "body a", "trigger_phrases: [wal reset, malformed]")
    write_memory(vault, "b", "body b", "trigger_phrases: [wal]")
    write_memory(vault, "old", "body", "trigger_phrases: [wal]\ntier: deprecated")
    scan(engine)
    matches = find_triggered(engine, "The WAL reset left it malformed", 5)
    assert [(match.memory.id, match.phrases, match.body) for match in matches] == [
        ("in/a", ("malformed", "wal reset"), "body a"),
        ("b", ("wal",), "body b"),
    ]
    assert [match.memory.id for match in find_triggered(engine, "wal reset", 1)] == ["in/a"]
    assert [match.memory.id for match in find_triggered(engine, "wal reset", 5, folder="in")] == ["in/a"]
    assert find_triggered(engine, "nothing", 5) == []
    write_memory(vault, "c", "body c", "trigger_phrases: [nothing]")
    scan(engine)
    assert [match.memory.id for match in find_triggered(engine, "nothing", 5)] == ["c"]


# Context and graph


def answer(engine: Engine, query: str, **fields: Any) -> Context:
    return context(engine, ContextRequest(query=query, **fields))


@pytest.mark.parametrize(
    ("query", "intent", "expected"),
    [
        ("walrus", None, Mode.FOCUSED),
        ("what are the rules that every new command must keep to in this project", None, Mode.FOCUSED),
        ("refactor the duplicated code of the channels into one place and rename it", None, Mode.DEEP),
        ("walrus", Intent.ADD_FEATURE, Mode.DEEP),
        ("walrus", Intent.FIX_BUG, Mode.FOCUSED),
    ],
)
def test_a_mode_is_chosen_by_the_question(engine: Engine, query: str, intent: Intent | None, expected: Mode) -> None:
    result = answer(engine, query, intent=intent)
    assert (result.mode, result.requested_mode) == (expected, Mode.AUTO)


@pytest.mark.parametrize("mode", [Mode.QUICK, Mode.FOCUSED, Mode.DEEP])
def test_a_mode_has_its_budget_and_its_limit(open_memory: OpenMemory, vault: Path, mode: Mode) -> None:
    for number in range(20):
        write_memory(vault, f"n{number}", f"walrus {number} " * 200)
    engine = open_memory(f"[context]\n{mode}_tokens = 150\n{mode}_limit = 3\n")
    scan(engine)
    result = answer(engine, "walrus", mode=mode)
    assert (result.mode, result.token_budget, len(result.result.hits)) == (mode, 150, 3)
    assert len(answer(engine, "walrus", mode=mode, limit=2).result.hits) == 2


def test_filters_reach_the_context(engine: Engine, vault: Path) -> None:
    for name in ("in/a", "out/b"):
        write_memory(vault, name, "walrus")
    scan(engine)
    assert ids(answer(engine, "walrus", filters=Filters(folder="in")).result) == ["in/a"]


def test_dependencies_are_what_the_files_state(engine: Engine, vault: Path) -> None:
    write_memory(vault, "a", "see [[b]]", "relations: {supersedes: [c], supports: [{id: b, strength: 0.5}]}")
    write_memory(vault, "b", "text")
    write_memory(vault, "c", "text of c, from [a](a.md)")
    scan(engine)
    found = [(edge.hop, edge.source, edge.relation, edge.target) for edge in
             list_dependencies(engine, "a", hops=1, direction="outgoing")]  # fmt: skip
    assert found == [(1, "a", "link", "b"), (1, "a", "supports", "b"), (1, "a", "supersedes", "c")]
    assert not any(edge.unresolved for edge in list_dependencies(engine, "a", hops=3, direction="both"))
    incoming = list_dependencies(engine, "a", hops=1, direction="incoming")
    assert [(edge.source, edge.relation) for edge in incoming] == [("c", "link")]
    with pytest.raises(NotFound):
        list_dependencies(engine, "absent", hops=1, direction="both")


def test_a_link_to_nowhere_is_shown_as_such(engine: Engine, vault: Path) -> None:
    write_memory(vault, "a", "see [[b]] and [[gone]]", "relations: {supersedes: [lost]}")
    write_memory(vault, "b", "see [[never/was]]")
    scan(engine)

    def shown(start: str, hops: int, direction: str) -> list[tuple[int, str, str]]:
        found = list_dependencies(engine, start, hops=hops, direction=direction)
        return [(edge.hop, edge.source, edge.target) for edge in found if edge.unresolved]

    assert shown("a", 1, "outgoing") == [(1, "a", "gone"), (1, "a", "lost")]
    assert shown("a", 2, "outgoing") == [(1, "a", "gone"), (1, "a", "lost"), (2, "b", "never/was")]
    assert shown("b", 1, "both") == [(1, "b", "never/was")]
    assert shown("b", 1, "incoming") == []
    write_memory(vault, "gone", "Here I am.")
    scan(engine)
    assert shown("a", 1, "both") == [(1, "a", "lost")]


def test_what_is_deleted_while_phrases_are_looked_up_is_passed_over(
    engine: Engine, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_memory(vault, "a", "text", "trigger_phrases: [heron host]")
    write_memory(vault, "b", "text", "trigger_phrases: [heron host]")
    scan(engine)
    read = type(engine.index).bodies

    def delete_in_between(index: Any, ids: Any) -> dict[str, str]:
        index.retire([str(vault / "a.md")])
        return read(index, ids)

    monkeypatch.setattr(type(engine.index), "bodies", delete_in_between)
    assert [match.memory.id for match in find_triggered(engine, "the heron host", 5)] == ["b"]


def test_attention_fades_over_any_number_of_turns(engine: Engine, vault: Path) -> None:
    write_memory(vault, "note", "walrus", "trigger_phrases: [walrus]")
    scan(engine)
    (match,) = find_triggered(engine, "a walrus", 1, turn=10**400)
    assert match.attention == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("query", ["First of June", "what happened on the first of june?", "k8s"])
def test_a_note_is_found_by_its_aliases(library: Engine, vault: Path, query: str) -> None:
    write_memory(vault, "2026-06-01", "Standup notes, and lunch with Ana.\n", "aliases: [First of June, k8s]")
    scan(library)
    embed_pending(library)
    assert ids(ask(library, query))[:1] == ["2026-06-01"]
    assert find_triggered(library, query, 5) == []
    memory = library.memory("2026-06-01")
    assert (memory.title, memory.triggers, memory.topics) == ("2026 06 01", (), ())
