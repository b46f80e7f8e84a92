"""Causal relations between memories: stating them, taking them back, and asking them why something changed.

A relation stands in the front matter of its source. Where the source is a document that is never written, it stands
in the project's links file instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine import trust
from scrimshaw.engine.core import Engine
from scrimshaw.engine.ledger import RecordedChange, apply_changes, links_path, read_file
from scrimshaw.engine.write import rewrite
from scrimshaw.errors import InvalidRequest, NotFound, ReadOnly
from scrimshaw.ingest.memory_file import MemoryFile, add_relation, remove_relation
from scrimshaw.ingest.redact import redact, redact_edit
from scrimshaw.models import Action, Edge, EdgeKind, Entry, Filters, Memory, Relation
from scrimshaw.storage.ports import Neighbor
from scrimshaw.storage.toml_files import LINKS_FILE, read_links, render_links

DEEPEST = 10

_Links = tuple[Edge, ...]


class Linked(Struct, frozen=True, kw_only=True):
    """A relation as it was stated or taken back; `status` is `linked`, `updated` or `unlinked`.

    `path` is the file that holds it, `evidence` is redacted.
    """

    source: str
    target: str
    relation: Relation
    status: str
    path: str
    strength: float = 1.0
    evidence: str = ""


class GraphStats(Struct, frozen=True, kw_only=True):
    """Exact counts of causal relations. `coverage` is the share 0..1 of memories that have one; `dangling` are those
    whose target is no memory.
    """

    edges: int
    by_relation: Mapping[str, int]
    memories: int
    linked: int
    coverage: float
    dangling: tuple[Edge, ...]


class Drift(Struct, frozen=True, kw_only=True):
    """What a memory hangs together with, and what came after it.

    `replaced_by` are the `supersedes` edges that lead to it, newest replacement first; `replaces` those that lead from
    it, nearest first. `chain` are the edges of the walk by relation, `memories` what they name, where asked for.
    """

    id: str
    replaced_by: tuple[Neighbor, ...]
    replaces: tuple[Neighbor, ...]
    chain: Mapping[str, tuple[Neighbor, ...]]
    memories: Mapping[str, Memory]


def link(
    engine: Engine,
    source: str,
    target: str,
    relation: Relation,
    strength: float = 1.0,
    evidence: str = "",
    *,
    actor: str = "agent",
    session: str = "",
) -> Linked:
    """State a relation between two memories; one that stands already gets the new strength (0..1) and evidence.

    Raises NotFound for an unknown id, InvalidRequest for a memory linked to itself, ReadOnly where a document that is
    never written states the relation itself, UnreadableFile, VaultBusy, StorageFailure.
    """
    if source == target:
        raise InvalidRequest(f"{source!r} cannot be linked to itself.", "Name another target.", parameter="target_id")
    if not 0 <= strength <= 1:
        raise InvalidRequest(f"A strength is 0 to 1, not {strength:g}.", "Use 1.0 when sure.", parameter="strength")
    memory, _ = engine.memory(source), engine.memory(target)
    known = _stated(engine, source, target, relation)
    if not memory.writable and any(edge.kind == EdgeKind.RELATION for edge in known):
        raise ReadOnly(f"{memory.path} states this itself, and Scrimshaw never writes it.", "Edit the file yourself.")
    edge = Edge(
        source=source,
        target=target,
        relation=relation,
        kind=EdgeKind.RELATION if memory.writable else EdgeKind.EXTERNAL,
        strength=strength,
        evidence=_clean(" ".join(evidence.split())),
    )
    entry = _entry(Action.LINK, memory, edge, actor, session)
    if memory.writable:
        rewrite(engine, source, lambda file: _related(_unrelated(file, known), edge), entry)
    else:
        _change_links(engine, memory, lambda links: (*_without(links, [*known, edge]), edge), entry)
    return _linked(engine, memory, edge, "updated" if known else "linked")


def unlink(
    engine: Engine, source: str, target: str, relation: Relation, *, actor: str = "agent", session: str = ""
) -> Linked:
    """Take a relation back; the target may be gone already.

    Raises NotFound where it is not stated, ReadOnly where a document that is never written states it itself.
    """
    memory = engine.memory(source)
    known = _stated(engine, source, target, relation)
    if not known:
        raise NotFound(f"{source!r} does not say that it {relation} {target!r}.", "See memory_drift_why for its edges.")
    outside = [edge for edge in known if edge.kind == EdgeKind.EXTERNAL]
    inside = [edge for edge in known if edge.kind == EdgeKind.RELATION]
    entry = _entry(Action.UNLINK, memory, known[0], actor, session)
    if outside:
        trust.demand_label_kept(engine, memory, relation, actor)
        _change_links(engine, memory, lambda links: _without(links, outside), entry)
    if inside:
        rewrite(engine, source, lambda file: _unrelated(_labelled(engine, entry, file), inside), entry)
    return _linked(engine, memory, known[0], "unlinked")


def _labelled(engine: Engine, entry: Entry, file: MemoryFile) -> MemoryFile:
    """The file with the label that its sources gave it, before one of them is taken away."""
    is_source = entry.decision_meta["relation"] == Relation.DERIVED_FROM
    return trust.unlinked(engine, entry.memory_id, file, entry.actor) if is_source else file


def stats(engine: Engine) -> GraphStats:
    """Counts over all causal relations; links in texts are not among them."""
    stated = [(edge, meant) for edge, meant in engine.index.edges() if edge.kind != EdgeKind.LINK]
    linked = {name for edge, meant in stated if meant for name in (edge.source, meant)}
    counts = Counter(edge.relation for edge, _ in stated)
    memories = engine.index.count(Filters(include_deprecated=True))[""]
    return GraphStats(
        edges=len(stated),
        by_relation={relation.value: counts[relation] for relation in Relation},
        memories=memories,
        linked=len(linked),
        coverage=round(len(linked) / memories, 4) if memories else 0.0,
        dangling=tuple(edge for edge, meant in stated if not meant),
    )


def drift_why(
    engine: Engine,
    memory_id: str,
    *,
    max_depth: int = 3,
    direction: str = "both",
    relations: Sequence[Relation] = (),
    details: bool = True,
) -> Drift:
    """What replaced a memory and why, and its causal chain of `max_depth` hops (1..10) in a direction.

    What replaced it is always told in full; `direction` and `relations` (none: all six) restrict the chain alone.
    Raises NotFound, InvalidRequest.
    """
    if not 1 <= max_depth <= DEEPEST:
        raise InvalidRequest(f"A chain has 1 to {DEEPEST} hops.", "Use 3.", parameter="max_depth")
    engine.memory(memory_id)
    walked = engine.index.neighbors(
        [memory_id], hops=max_depth, direction=direction, relations=tuple(relations or Relation)
    )
    later = _superseding(engine, memory_id, "incoming")
    earlier = _superseding(engine, memory_id, "outgoing")
    named = {name for edge in (*walked, *later, *earlier) for name in (edge.source, edge.target)}
    memories = engine.index.get(sorted(named))
    return Drift(
        id=memory_id,
        replaced_by=tuple(newest_first(later, {name: memory.created for name, memory in memories.items()})),
        replaces=tuple(earlier),
        chain={name: tuple(edge for edge in walked if edge.relation == name) for name in _relations_of(walked)},
        memories=memories if details else {},
    )


def newest_first(superseding: Sequence[Neighbor], created: Mapping[str, str]) -> list[Neighbor]:
    """`supersedes` edges ordered by their source: first what nothing else supersedes; equals by date, then id."""
    newer: dict[str, set[str]] = {}
    for edge in superseding:
        newer.setdefault(edge.target, set()).add(edge.source)
    ordered = sorted(superseding, key=lambda edge: (edge.source, edge.target))
    ordered.sort(key=lambda edge: created.get(edge.source, ""), reverse=True)
    return sorted(ordered, key=lambda edge: len(_all_newer(edge.source, newer)))


def _all_newer(name: str, newer: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = [name]
    while pending:
        fresh = newer.get(pending.pop(), set()) - found
        found |= fresh
        pending += fresh
    return found


def _superseding(engine: Engine, memory_id: str, direction: str) -> list[Neighbor]:
    return engine.index.neighbors([memory_id], hops=DEEPEST, direction=direction, relations=(Relation.SUPERSEDES,))


def _relations_of(edges: Iterable[Neighbor]) -> list[str]:
    present = {edge.relation for edge in edges}
    return [relation.value for relation in Relation if relation in present]


def _stated(engine: Engine, source: str, target: str, relation: Relation) -> list[Edge]:
    """The edges that say this already, in whatever words they name the target."""
    return [
        edge
        for edge, meant in engine.index.edges(source)
        if edge.relation == relation and target in (meant, edge.target)
    ]


def _related(file: MemoryFile, edge: Edge) -> MemoryFile:
    return add_relation(file, Relation(edge.relation), edge.target, edge.strength, edge.evidence)


def _unrelated(file: MemoryFile, edges: Iterable[Edge]) -> MemoryFile:
    for edge in edges:
        file = remove_relation(file, Relation(edge.relation), edge.target)
    return file


def _without(links: _Links, edges: Iterable[Edge]) -> _Links:
    gone = {(edge.source, edge.relation, edge.target) for edge in edges}
    return tuple(link for link in links if (link.source, link.relation, link.target) not in gone)


def _change_links(engine: Engine, memory: Memory, change: Callable[[_Links], _Links], entry: Entry) -> None:
    """Links file, journal, index, in this order, under the vault's lock."""
    path = links_path(engine)
    engine.vault_of(memory.id)  # raises ReadOnly where the project was opened for reading only
    entry = replace(entry, decision_meta={**entry.decision_meta, "file": LINKS_FILE})
    with engine.write_lock():
        before = read_links(path, _clean)
        after = change(before)
        text = redact_edit(render_links(before), render_links(after))
        if text.text == render_links(before):
            return
        apply_changes(engine, [RecordedChange(entry, read_file(engine, LINKS_FILE), text)])
        engine.index.put_links(after)


def _clean(text: str) -> str:
    return redact(text).text


def _entry(action: Action, memory: Memory, edge: Edge, actor: str, session: str) -> Entry:
    """A ledger row; the hashes of the file that states the relation are put in where it is written."""
    return Entry(
        action=action,
        memory_id=memory.id,
        reason=f"{edge.relation} {edge.target}",
        prior_hash="",
        new_hash="",
        actor=actor,
        session=session,
        linked_memory_ids=(edge.source, edge.target),
        decision_meta={"relation": str(edge.relation), "strength": edge.strength},
    )


def _linked(engine: Engine, memory: Memory, edge: Edge, status: str) -> Linked:
    outside = edge.kind == EdgeKind.EXTERNAL
    return Linked(
        source=edge.source,
        target=edge.target,
        relation=Relation(edge.relation),
        status=status,
        path=str(links_path(engine)) if outside else memory.path,
        strength=edge.strength,
        evidence=edge.evidence,
    )
