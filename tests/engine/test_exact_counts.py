"""Exact answers agree with the files: every count is made again by reading the vault without the product."""

from __future__ import annotations

import tempfile
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from tests.samples import write_memory

from scrimshaw.app.mcp.tools.browse import (
    ListCall,
    StatsCall,
    memory_dependencies,
    memory_list,
    memory_stats,
)
from scrimshaw.config import load
from scrimshaw.engine import Engine, open_engine
from scrimshaw.engine.counts import count_memories, page
from scrimshaw.engine.index import scan
from scrimshaw.models import Filters, MemoryType, Tier

DAYS = [f"2026-0{month}-1{day}" for month in range(1, 4) for day in range(3)]
TOPICS = ["sqlite", "hooks", "Étude"]
NAMES = ["a", "b", "in/a", "in/b", "in/deep/c", "inside/a", "other/z"]


class Note(Struct, frozen=True, kw_only=True):
    """A file as the test reads it: an id, plain front matter, links by id."""

    id: str
    tier: str = "normal"
    type: str = "general"
    updated: str = ""
    topics: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


notes = st.builds(
    Note,
    id=st.sampled_from(NAMES),
    tier=st.sampled_from([str(tier) for tier in Tier]),
    type=st.sampled_from([str(kind) for kind in MemoryType]),
    updated=st.sampled_from(DAYS),
    topics=st.lists(st.sampled_from(TOPICS), unique=True, max_size=2).map(tuple),
    links=st.lists(st.sampled_from(NAMES), unique=True, max_size=2).map(tuple),
)
vaults = st.lists(notes, unique_by=lambda note: note.id, max_size=len(NAMES))
filters = st.builds(
    Filters,
    tiers=st.lists(st.sampled_from(Tier), unique=True, max_size=2).map(tuple),
    types=st.lists(st.sampled_from(MemoryType), unique=True, max_size=3).map(tuple),
    topics=st.lists(st.sampled_from(TOPICS), max_size=1).map(tuple),
    folder=st.sampled_from(["", "in", "in/", "in/deep", "nowhere"]),
    since=st.sampled_from(["", *DAYS]),
    until=st.sampled_from(["", "2026", *DAYS]),
    include_deprecated=st.booleans(),
)


@contextmanager
def memory_of(written: list[Note], broken: int) -> Iterator[Engine]:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        vault = project / ".scrimshaw/memories"
        vault.mkdir(parents=True)
        for note in written:
            body = f"Of {note.id}. " + " ".join(f"[[{target}]]" for target in note.links)
            head = (f"tier: {note.tier}", f"type: {note.type}", f"updated: {note.updated}")
            write_memory(vault, note.id, body, "\n".join((*head, f"topics: [{', '.join(note.topics)}]")))
        for number in range(broken):
            (vault / f"broken-{number}.md").write_bytes(b"\xff\xfe\x00")
        (project / ".scrimshaw/config.toml").write_text('[embedding]\nprovider = "none"\n')
        with open_engine(load(project, home=Path(folder) / "home", environment={})) as engine:
            scan(engine)
            yield engine


def on_disk(vault: Path) -> list[Note]:
    """The files that are text, read line by line; a file alone makes no law, so what claims to be one is important."""
    found = []
    for path in sorted(vault.rglob("*.md")):
        if path.name.startswith("broken"):
            continue
        _, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
        values = dict(line.split(": ", 1) for line in head.splitlines())
        topics = tuple(filter(None, values["topics"].strip("[]").split(", ")))
        links = tuple(word[2:-2] for word in body.split() if word.startswith("[["))
        name = path.relative_to(vault).with_suffix("").as_posix()
        tier = "important" if values["tier"] == "constitutional" else values["tier"]
        found.append(Note(id=name, tier=tier, type=values["type"], updated=values["updated"],
                          topics=topics, links=links))  # fmt: skip
    return found


def satisfies(note: Note, wanted: Filters) -> bool:
    folder = wanted.folder.rstrip("/")
    hidden = note.tier == "deprecated" and not wanted.include_deprecated and Tier.DEPRECATED not in wanted.tiers
    return (
        not hidden
        and (not wanted.tiers or note.tier in wanted.tiers)
        and (not wanted.types or note.type in wanted.types)
        and all(topic.casefold() in {own.casefold() for own in note.topics} for topic in wanted.topics)
        and (not folder or note.id == folder or note.id.startswith(f"{folder}/"))
        and note.updated >= wanted.since
        and (not wanted.until or note.updated[: len(wanted.until)] <= wanted.until)
    )


def counted(values: list[str]) -> dict[str, int]:
    return dict(Counter(values))


def top_folder(note: Note) -> str:
    return note.id.split("/")[0] if "/" in note.id else ""


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(vaults, filters, st.integers(0, 2))
def test_every_count_is_what_counting_the_files_gives(written: list[Note], wanted: Filters, broken: int) -> None:
    with memory_of(written, broken) as engine:
        kept = [note for note in on_disk(engine.folder / "memories") if satisfies(note, wanted)]
        found = count_memories(engine, wanted)
        assert found.total == len(kept)
        assert found.by_tier == counted([note.tier for note in kept])
        assert found.by_type == counted([note.type for note in kept])
        assert {folder.name: folder.count for folder in found.folders} == counted([top_folder(note) for note in kept])
        assert len(found.skipped) == broken
        dates = sorted(note.updated for note in kept)
        assert (found.oldest, found.newest) == ((dates[0], dates[-1]) if dates else ("", ""))
        assert engine.index.count(wanted) == {"": len(kept)}
        assert engine.index.count(wanted, by="tier") == found.by_tier
        assert engine.index.count(wanted, by="type") == found.by_type
        assert engine.index.count(wanted, by="folder") == counted([top_folder(note) for note in kept])
        every_topic = [topic.casefold() for note in kept for topic in note.topics]
        assert engine.index.count(wanted, by="topic") == counted(every_topic)
        listed = page(engine, wanted, sort="id", limit=100, offset=0)
        assert [memory.id for memory in listed.memories] == sorted(note.id for note in kept)
        assert listed.total == len(kept)


@settings(max_examples=15, deadline=None)
@given(vaults, st.sampled_from([None, *Tier]), st.sampled_from([None, *MemoryType]), st.sampled_from(["", *TOPICS]),
       st.sampled_from(["", "in"]), st.sampled_from(["", *DAYS]), st.sampled_from(["", *DAYS]), st.booleans(),
       st.sampled_from(["", "vault", "docs"]))  # fmt: skip
def test_the_tools_take_every_filter(
    written: list[Note],
    tier: Tier | None,
    kind: MemoryType | None,
    topic: str,
    folder: str,
    since: str,
    until: str,
    deprecated: bool,
    source: str,
) -> None:
    wanted = Filters(
        tiers=(tier,) if tier else (), types=(kind,) if kind else (), topics=(topic,) if topic else (),
        folder=folder, since=since, until=until, include_deprecated=deprecated,
    )  # fmt: skip
    options = {
        "tier": tier, "type": kind, "topic": topic, "folder": folder, "since": since, "until": until,
        "include_deprecated": deprecated, "source": source,
    }  # fmt: skip
    with memory_of(written, 0) as engine:
        kept = [note for note in on_disk(engine.folder / "memories") if satisfies(note, wanted) and source != "docs"]
        told = memory_stats.run(engine, StatsCall(**options))  # type: ignore[arg-type]  # a table of mixed types
        listed = memory_list.run(engine, ListCall(limit=100, sort_by="id", **options))  # type: ignore[arg-type]  # a table of mixed types
        assert (told.total, listed.total) == (len(kept), len(kept))
        assert [memory["id"] for memory in listed.memories] == sorted(note.id for note in kept)


@settings(max_examples=20, deadline=None)
@given(vaults, st.sampled_from(NAMES), st.integers(1, 4), st.sampled_from(["outgoing", "incoming", "both"]))
def test_dependencies_are_those_that_the_files_state(
    written: list[Note], start: str, depth: int, direction: str
) -> None:
    written = [note for note in written if note.id != start] + [Note(id=start, updated=DAYS[0], links=("in/a", "b"))]
    with memory_of(written, 0) as engine:
        told = memory_dependencies.run(engine, id=start, max_depth=depth, direction=direction)
        again = memory_dependencies.run(engine, id=start, max_depth=depth, direction=direction)
        found = on_disk(engine.folder / "memories")
    assert told == again
    resolved = {(each["source"], each["target"]) for each in told.edges if not each.get("unresolved")}
    assert resolved == walked(links_of(found), start, depth, direction)
    nowhere = {(each["source"], each["target"]) for each in told.edges if each.get("unresolved")}
    own = {link for source, link in nowhere if source == start}
    assert own == (set() if direction == "incoming" else lost(found, start))
    assert all(link in lost(found, source) for source, link in nowhere)


def links_of(found: list[Note]) -> set[tuple[str, str]]:
    """Edges with the id they mean: one of that name, or else the first memory whose last name it is.

    None to itself, and one by its own last name is taken for that.
    """
    names = sorted(note.id for note in found)
    meant = {name: name for name in names}
    for name in reversed(names):
        meant.setdefault(name.rsplit("/", 1)[-1], name)
        if name.rsplit("/", 1)[-1] not in names:
            meant[name.rsplit("/", 1)[-1]] = name
    stated = ((note.id, link) for note in found for link in note.links if link != note.id.rsplit("/", 1)[-1])
    return {(source, meant[link]) for source, link in stated if meant.get(link, source) != source}


def lost(found: list[Note], source: str) -> set[str]:
    """The links of a memory that are neither the id nor the last name of any."""
    known = {name for note in found for name in (note.id, note.id.rsplit("/", 1)[-1])}
    return {link for note in found if note.id == source for link in note.links if link not in known}


def walked(edges: set[tuple[str, str]], start: str, depth: int, direction: str) -> set[tuple[str, str]]:
    met: set[tuple[str, str]] = set()
    seen, waiting = {start}, deque([(start, 0)])
    while waiting:
        place, hop = waiting.popleft()
        if hop == depth:
            continue
        for source, target in edges:
            outward = direction in ("outgoing", "both") and source == place
            inward = direction in ("incoming", "both") and target == place
            for taken, following in ((outward, target), (inward, source)):
                if taken:
                    met.add((source, target))
                    if following not in seen:
                        seen.add(following)
                        waiting.append((following, hop + 1))
    return met
