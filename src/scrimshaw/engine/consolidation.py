"""Several sessions about one topic as one memory that names them. It proposes; the sessions' own memories stay."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from scrimshaw.clock import format_time
from scrimshaw.engine.core import Engine
from scrimshaw.engine.drafts import ORIGIN
from scrimshaw.engine.write import NewText, save
from scrimshaw.ingest.markdown import parse_headings
from scrimshaw.models import Edge, Filters, Memory, MemoryType, Relation, Trust
from scrimshaw.search.lineage import lowest_trust

# A memory of more sessions than this is a log.
MOST_SESSIONS = 12
MOST_PHRASES = 8
_DAY_S = 86_400.0
_EVENT = re.compile(r"\s*\(e\d+(?:, e\d+)*\)\s*$")


class Consolidation(Struct, frozen=True, kw_only=True):
    """A memory that could be made of `sources`, memory ids from old to new."""

    title: str
    topic: str
    content: str
    sources: tuple[str, ...]
    topics: tuple[str, ...]
    triggers: tuple[str, ...]
    trust: Trust


class ConsolidationOutcome(Struct, frozen=True, kw_only=True):
    """What became of a consolidation: `status` and `reasons` are those of a save."""

    memory_id: str
    status: str
    path: str
    reasons: tuple[str, ...] = ()


def propose(engine: Engine, *, topic: str = "", days: float | None = None) -> list[Consolidation]:
    """One proposal for each topic that several session memories of the last days share, each memory in one only."""
    since = engine.clock() - (days or engine.settings.drafts.consolidate_days) * _DAY_S
    filters = Filters(types=(MemoryType.SESSION,), since=format_time(since), topics=(topic,) if topic else ())
    found = engine.index.select(filters, sort="created", limit=-1, offset=0)
    memories = [memory for memory in found if memory.writable and memory.provenance.source == ORIGIN]
    memories.sort(key=lambda memory: (memory.created, memory.id))
    groups = [(name, group) for name, group in _group_by_topic(memories, topic) if not _is_done(engine, group)]
    return [proposal for proposal in (_propose_one(engine, name, group) for name, group in groups) if proposal]


def consolidate(engine: Engine, proposal: Consolidation) -> ConsolidationOutcome:
    """Write the proposed memory, derived from its sources; raises what `save` raises."""
    new = NewText(
        content=proposal.content,
        title=proposal.title,
        type=MemoryType.SESSION,
        topics=proposal.topics,
        triggers=proposal.triggers,
        origin="consolidation",
        trust=proposal.trust,
        reason=f"consolidated from {len(proposal.sources)} sessions",
        relations=tuple(Edge(source="", target=source, relation=Relation.DERIVED_FROM) for source in proposal.sources),
    )
    saved = save(engine, new)
    return ConsolidationOutcome(memory_id=saved.id, status=saved.status, path=saved.path, reasons=saved.reasons)


def _group_by_topic(memories: Sequence[Memory], only: str) -> Iterator[tuple[str, list[Memory]]]:
    """Groups of at least two, largest topic first; a memory goes with its largest topic."""
    left = list(memories)
    counts = Counter(topic for memory in memories for topic in memory.topics)
    for topic in [only] if only else sorted(counts, key=lambda name: (-counts[name], name)):
        group = [memory for memory in left if topic in memory.topics][-MOST_SESSIONS:]
        if len(group) > 1:
            yield topic, group
            left = [memory for memory in left if memory not in group]


def _is_done(engine: Engine, group: Sequence[Memory]) -> bool:
    """Whether one memory is derived from all of these already."""
    ids = [memory.id for memory in group]
    edges = engine.index.neighbors(ids, hops=1, direction="incoming", relations=(Relation.DERIVED_FROM,))
    return any(count >= len(group) for count in Counter(edge.source for edge in edges).values())


def _propose_one(engine: Engine, topic: str, found: Sequence[Memory]) -> Consolidation | None:
    """The proposal for a group; None where other processes have deleted all but one of it meanwhile."""
    bodies = engine.index.bodies([memory.id for memory in found])
    group = [memory for memory in found if memory.id in bodies]
    if len(group) < 2:
        return None
    return Consolidation(
        title=f"{topic}: {len(group)} sessions, {group[0].created[:10]} to {group[-1].created[:10]}",
        topic=topic,
        content=_merge_bodies({memory.id: bodies[memory.id] for memory in group}),
        sources=tuple(memory.id for memory in group),
        topics=_most_common(topic for memory in group for topic in memory.topics),
        triggers=_most_common(phrase for memory in group for phrase in memory.triggers),
        trust=lowest_trust(memory.provenance.trust for memory in group),
    )


def _merge_bodies(bodies: Mapping[str, str]) -> str:
    """The sections of all bodies by heading, each line once, below a link to the session that has it first."""
    sections: dict[str, dict[str, list[str]]] = {}
    known: set[str] = set()
    for name, body in bodies.items():
        for heading, line in _lines_by_heading(body):
            text = _EVENT.sub("", line).casefold()
            if text not in known:
                known.add(text)
                sections.setdefault(heading, {}).setdefault(name, []).append(line)
    parts = []
    for heading, by_session in sections.items():
        parts += [f"## {heading}"] if heading else []
        parts += [f"From [[{name}]]:\n\n" + "\n".join(lines) for name, lines in by_session.items()]
    return "\n\n".join(parts)


def _lines_by_heading(body: str) -> Iterator[tuple[str, str]]:
    """(heading, line) of every line that says something."""
    marks = {body.count("\n", 0, each.start): each.text for each in parse_headings(body)}
    heading = ""
    for number, line in enumerate(body.splitlines()):
        heading = marks.get(number, heading)
        if line.strip() and number not in marks:
            yield heading, line


def _most_common(values: Iterable[str]) -> tuple[str, ...]:
    counts = Counter(values)
    return tuple(sorted(counts, key=lambda value: (-counts[value], value))[:MOST_PHRASES])
