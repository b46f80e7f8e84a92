"""The trust of a memory: the lowest among itself and everything it was derived from."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from scrimshaw.models import Memory, MemoryType, Relation, Trust
from scrimshaw.search.degradation import Degradations, IndexPart
from scrimshaw.storage.index import Index

DEEPEST = 8  # steps from a memory to its sources' sources; consolidations of consolidations are a few steps deep

DECIDING = (MemoryType.SESSION, MemoryType.DECISION)  # types of what may say what was decided
TRUST_RANKS: Mapping[Trust, int] = {trust: rank for rank, trust in enumerate(Trust)}  # 0 is the highest
_LEAST = max(TRUST_RANKS, key=TRUST_RANKS.__getitem__)


def rank_trust(memory: Memory) -> int:
    """Where its trust ranks: a session's memory says what its agent said, though it quotes outputs too."""
    is_agents = memory.type == MemoryType.SESSION and memory.provenance.trust == Trust.TOOL
    return TRUST_RANKS[Trust.AGENT if is_agents else memory.provenance.trust]


def lowest_trust(trusts: Iterable[Trust]) -> Trust:
    """The lowest of them; human if there are none."""
    return max(trusts, key=TRUST_RANKS.__getitem__, default=Trust.HUMAN)


def resolve_trust(index: Index, memories: Mapping[str, Memory], degradations: Degradations) -> dict[str, Memory]:
    """The memories, each with the trust of its lineage; with the lowest trust if the lineage cannot be read."""
    inherited = dict.fromkeys(memories, _LEAST)
    with degradations.tolerate(IndexPart.GRAPH):
        inherited = find_inherited_trusts(index, tuple(memories))
    found = dict(memories)
    for name, trust in inherited.items():
        provenance = found[name].provenance
        lowest = lowest_trust((provenance.trust, trust))
        found[name] = replace(found[name], provenance=replace(provenance, trust=lowest))
    return found


def find_inherited_trusts(index: Index, ids: tuple[str, ...]) -> dict[str, Trust]:
    """Memory id -> the lowest trust among its sources, if no person wrote one; a source that is gone has the lowest."""
    relation = Relation.DERIVED_FROM
    if not ids or not index.edges(*ids, relation=relation):
        return {}
    edges = index.neighbors(ids, hops=DEEPEST + 1, direction="outgoing", relations=(relation,))
    places = dict.fromkeys([*ids, *(edge.place for edge in edges)])
    origins = index.get(list({edge.place for edge in edges})) if edges else {}
    lost = {edge.source for edge, target in index.edges(*places, relation=relation) if not target}
    reached: dict[str, set[str]] = {}
    trusts: dict[str, list[Trust]] = {start: [_LEAST] for start in ids if start in lost}
    for edge in edges:  # for each start, the nearest come first
        visited = reached.setdefault(edge.start, {edge.start})
        is_known = edge.place in origins and edge.place not in lost and (edge.hop <= DEEPEST or edge.place in visited)
        visited.add(edge.place)
        trusts.setdefault(edge.start, []).append(origins[edge.place].provenance.trust if is_known else _LEAST)
    lowest = {start: lowest_trust(each) for start, each in trusts.items()}
    return {start: trust for start, trust in lowest.items() if trust not in (Trust.HUMAN, Trust.FILE)}
