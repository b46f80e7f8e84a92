"""Causal relations between memories: adding and removing them, and using them to find why something changed."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import asdict, replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.index import index_links
from scrimshaw.engine.ledger import RecordedChange, apply_changes, links_path, read_file
from scrimshaw.engine.trust import demand_label_kept, limit_unlinked
from scrimshaw.engine.write import Saved, rewrite
from scrimshaw.errors import InvalidRequest, NotFound, ReadOnly
from scrimshaw.ingest.comparison import normalise_text
from scrimshaw.ingest.markdown import parse_reference
from scrimshaw.ingest.memory_file import MemoryFile, add_relation, remove_relation
from scrimshaw.ingest.redact import redact, redact_edit
from scrimshaw.models import EVERY, Action, Edge, EdgeKind, Entry, Filters, Memory, Neighbor, Relation
from scrimshaw.storage.scan import SERENA
from scrimshaw.storage.toml_files import LINKS_FILE, read_links, render_links

DEEPEST = 10
_MANY = 1_000  # sources, from which on it is faster to read all edges


class Linked(Edge, frozen=True, kw_only=True):
    """A relation that was added or removed, its evidence redacted."""

    status: str  #: `linked`, `updated` or `unlinked`.
    path: str  #: The file that holds it.


class GraphStats(Struct, frozen=True, kw_only=True):
    edges: int
    by_relation: Mapping[str, int]
    memories: int
    linked: int
    coverage: float  #: The share 0..1 of memories that have a relation.
    dangling: tuple[Edge, ...]  #: Relations whose target does not exist.


class Drift(Struct, frozen=True, kw_only=True):
    """What a memory is connected with, and what replaced it."""

    id: str
    replaced_by: tuple[Neighbor, ...]  #: `supersedes` edges that lead to it, newest replacement first.
    replaces: tuple[Neighbor, ...]  #: `supersedes` edges that lead from it, nearest first.
    chain: Mapping[str, tuple[Neighbor, ...]]  #: The edges of the walk by relation.
    memories: Mapping[str, Memory]  #: The memories that the edges name.


def link(
    engine: Engine,
    source: str,
    target: str,
    relation: Relation,
    strength: float | None = None,
    evidence: str | None = None,
    *,
    actor: str = "agent",
    session: str = "",
) -> Linked:
    """Add a relation, or change its strength (0..1) or evidence; raises NotFound, InvalidRequest, ReadOnly."""
    memory = engine.memory(source)
    source, target = memory.id, engine.memory(target).id
    if source == target:
        raise InvalidRequest(f"{source!r} cannot be linked to itself.", "Name another target.", parameter="target_id")
    walk = partial(engine.index.neighbors, [target], hops=DEEPEST, direction="outgoing", relations=(relation,))
    if relation == Relation.SUPERSEDES and source in (edge.place for edge in walk()):
        raise InvalidRequest(f"{target!r} supersedes {source!r} already.", "Unlink that first.", parameter="target_id")
    known = _find_edges(engine, source, target, relation)
    before = known[0] if known else Edge(source=source, target=target, relation=relation)
    states_itself = any(edge.kind == EdgeKind.RELATION for edge in known)
    if not memory.writable and states_itself:
        raise ReadOnly(f"{memory.path} states this itself, and Scrimshaw never writes it.", "Edit the file yourself.")
    # A memory of Serena's gets no front matter for a relation: its agents read the file as it is.
    is_inside = memory.writable and (memory.source != SERENA or states_itself)
    edge = Edge(
        source=source,
        target=target,
        relation=relation,
        kind=EdgeKind.RELATION if is_inside else EdgeKind.EXTERNAL,
        strength=before.strength if strength is None else strength,
        evidence=before.evidence if evidence is None else redact(" ".join(evidence.split())).text,
    )
    entry = _link_entry(Action.LINK, edge, actor, session)
    if is_inside:
        add = partial(add_relation, relation=relation, target=target, strength=edge.strength, evidence=edge.evidence)
        rewrite(engine, memory, lambda file: add(_remove_edges(file, known)), entry)
    else:
        _change_links(engine, entry, [*known, edge], edge)
    return _describe(engine, memory, edge, "updated" if known else "linked")


def supersede(engine: Engine, saved: Saved, others: Iterable[Memory], session: str) -> Saved:
    """State that a memory which was saved, or has the same text as one to be saved, supersedes others."""
    if saved.status in ("rejected", "dry_run"):
        return saved
    for each in others:
        link(engine, saved.id, each.id, Relation.SUPERSEDES, session=session)
    return replace(saved, content_hash=engine.memory(saved.id).content_hash)


def unlink(
    engine: Engine, source: str, target: str, relation: Relation, *, actor: str = "agent", session: str = ""
) -> Linked:
    """Remove a relation, even to a target that is gone; raises NotFound if it does not exist."""
    memory = engine.memory(source)
    source = memory.id
    if not (known := _find_edges(engine, source, target, relation)):
        raise NotFound(f"{source!r} does not say that it {relation} {target!r}.", "List its relations first.")
    inside = [edge for edge in known if edge.kind == EdgeKind.RELATION]
    entry = _link_entry(Action.UNLINK, known[0], actor, session)
    if outside := [edge for edge in known if edge.kind == EdgeKind.EXTERNAL]:
        demand_label_kept(engine, memory, relation, actor)
        _change_links(engine, entry, outside)

    def change(file: MemoryFile) -> MemoryFile:
        if relation == Relation.DERIVED_FROM:
            file = limit_unlinked(engine, source, file, actor)
        return _remove_edges(file, inside)

    if inside:
        rewrite(engine, memory, change, entry)
    return _describe(engine, memory, known[0], "unlinked")


def count_relations(engine: Engine) -> GraphStats:
    """Counts over all causal relations; links in texts are not among them."""
    stated = [(edge, meant) for edge, meant in engine.index.edges() if edge.kind != EdgeKind.LINK]
    linked = {name for edge, meant in stated if meant for name in (edge.source, meant)}
    counts = Counter(edge.relation for edge, _ in stated)
    memories = engine.index.count(EVERY)[""]
    return GraphStats(
        edges=len(stated),
        by_relation={relation.value: counts[relation] for relation in Relation},
        memories=memories,
        linked=len(linked),
        coverage=round(len(linked) / memories, 4) if memories else 0.0,
        dangling=tuple(edge for edge, meant in stated if not meant),
    )


def explain_drift(
    engine: Engine, memory_id: str, *, max_depth: int = 3, direction: str = "both", relations: Sequence[Relation] = ()
) -> Drift:
    """What replaced a memory, and its causal chain up to so many hops; `relations` restrict only the chain."""
    memory_id = engine.memory(memory_id).id
    walk = partial(engine.index.neighbors, [memory_id])
    walked = walk(hops=max_depth, direction=direction, relations=tuple(relations or Relation))
    replaced = partial(walk, hops=DEEPEST, relations=(Relation.SUPERSEDES,))
    later, earlier = replaced(direction="incoming"), replaced(direction="outgoing")
    named = {name for edge in (*walked, *later, *earlier) for name in (edge.source, edge.target)}
    memories = engine.index.get(sorted(named))
    dates = {name: memory.created for name, memory in memories.items()}
    depths = {edge.source: edge.hop for edge in later}  # the farthest, as the nearest come first
    # What replaces a replacement is newer than it, whatever dates they state.
    later.sort(key=lambda edge: (depths[edge.source], dates.get(edge.source, "")), reverse=True)
    by_relation = {name.value: tuple(edge for edge in walked if edge.relation == name) for name in Relation}
    chain = {name: edges for name, edges in by_relation.items() if edges}
    return Drift(id=memory_id, replaced_by=tuple(later), replaces=tuple(earlier), chain=chain, memories=memories)


def list_dependencies(engine: Engine, memory_id: str, *, hops: int, direction: str) -> list[Neighbor]:
    """The edges to and from a memory, exactly as the files state them, even dangling ones; raises NotFound."""
    memory_id = engine.memory(memory_id).id
    found = engine.index.neighbors([memory_id], hops=hops, direction=direction)
    reached = {memory_id: 0}
    for step in found:
        reached[step.place] = min(step.hop, reached.get(step.place, step.hop))
    # Of the memory, and of those that the walk reached before its last hop.
    sources = {name for name, hop in reached.items() if hop < hops}
    edges = [] if direction == "incoming" else engine.index.edges(*(sources if len(sources) < _MANY else ()))
    for edge, place in edges:
        if not place and edge.source in sources:
            stated = {name: value for name, value in asdict(edge).items() if name != "kind"}
            found.append(Neighbor(start=memory_id, hop=reached[edge.source] + 1, unresolved=True, **stated))
    return sorted(found, key=lambda edge: edge.hop)


def find_shared_titles(engine: Engine) -> list[list[str]]:
    """The ids of own memories that have one title, of each such title; except those that one of them supersedes."""
    groups = defaultdict[str, list[str]](list)
    for memory in engine.index.select(Filters(source=engine.sources[0].name)):
        groups[normalise_text(memory.title)].append(memory.id)
    gone = {target for _, target in engine.index.edges(relation=Relation.SUPERSEDES)}
    current = ([name for name in names if name not in gone] for names in groups.values())
    return [names for names in current if len(names) > 1]


def _find_edges(engine: Engine, source: str, target: str, relation: Relation) -> list[Edge]:
    """The edges that already state this, however they spell the target; raises ReadOnly for what names of files say."""
    edges = engine.index.edges(source, relation=relation)
    known = [edge for edge, meant in edges if {target, parse_reference(target)} & {meant, edge.target}]
    if any(edge.kind == EdgeKind.NEIGHBOURS for edge in known):
        message = "This relation follows from the names of the two files in their folder."
        raise ReadOnly(message, "Rename one of them to end it.")
    return known


def _remove_edges(file: MemoryFile, edges: Iterable[Edge]) -> MemoryFile:
    for edge in edges:
        file = remove_relation(file, Relation(edge.relation), edge.target)
    return file


def _change_links(engine: Engine, entry: Entry, removed: Iterable[Edge], *added: Edge) -> None:
    """Write links file, journal and index, in this order, under the vault's lock."""
    engine.vault_of(entry.memory_id)  # raises ReadOnly if the project was opened for reading only
    entry = replace(entry, decision_meta={**entry.decision_meta, "file": LINKS_FILE})
    gone = {(edge.source, edge.relation, edge.target) for edge in removed}
    with engine.write_lock():
        before = read_links(links_path(engine), lambda text: redact(text).text)
        after = (*(link for link in before if (link.source, link.relation, link.target) not in gone), *added)
        text = redact_edit(render_links(before), render_links(after))
        if text.text != render_links(before):
            apply_changes(engine, [RecordedChange(entry, read_file(engine, LINKS_FILE), text)])
            with engine.degradations.note_failure(INDEX):
                index_links(engine)
        elif not added:
            raise ReadOnly(f"{entry.linked_memory_ids[1]!r} states this itself.", "Edit its file.")


def _link_entry(action: Action, edge: Edge, actor: str, session: str) -> Entry:
    return Entry(
        action=action,
        memory_id=edge.source,
        reason=f"{edge.relation} {edge.target}",
        actor=actor,
        session=session,
        linked_memory_ids=(edge.source, edge.target),
        decision_meta={"relation": str(edge.relation), "strength": edge.strength},
    )


def _describe(engine: Engine, memory: Memory, edge: Edge, status: str) -> Linked:
    path = str(links_path(engine)) if edge.kind == EdgeKind.EXTERNAL else memory.path
    return Linked(**asdict(edge), status=status, path=path)
