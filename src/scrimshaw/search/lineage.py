"""How far a memory can be trusted: as far as the least trusted of itself and of all it was derived from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from scrimshaw.models import Memory, Relation, Trust
from scrimshaw.storage.ports import Index

# Steps from a memory to its sources' sources; consolidations of consolidations are a few steps deep.
DEEPEST = 8

_ORDER = tuple(Trust)
_LEAST = _ORDER[-1]


def lowest(trusts: Iterable[Trust]) -> Trust:
    """The least of them; human where there is none."""
    return max(trusts, key=_ORDER.index, default=Trust.HUMAN)


def rank(trust: Trust) -> int:
    """0 for the highest trust."""
    return _ORDER.index(trust)


def traced(index: Index, memories: Mapping[str, Memory]) -> dict[str, Memory]:
    """The memories, each with the trust of its lineage in its provenance."""
    found = dict(memories)
    for name, trust in sources(index, tuple(memories)).items():
        own = found[name].provenance
        found[name] = replace(found[name], provenance=replace(own, trust=lowest((own.trust, trust))))
    return found


def untraced(memories: Mapping[str, Memory]) -> dict[str, Memory]:
    """The memories with the least trust, for a lineage that cannot be read vouches for nothing."""
    return {
        name: replace(memory, provenance=replace(memory.provenance, trust=_LEAST)) for name, memory in memories.items()
    }


def sources(index: Index, ids: tuple[str, ...]) -> dict[str, Trust]:
    """Memory id -> the lowest trust among what it was derived from, for those that were derived from anything.

    What is gone, was never there, or is too many steps away to be looked up vouches for nothing.
    """
    if not ids:
        return {}
    relation = Relation.DERIVED_FROM
    edges = index.neighbors(ids, hops=DEEPEST + 1, direction="outgoing", relations=(relation,))
    places = dict.fromkeys([*ids, *(edge.place for edge in edges)])
    origins = index.get(list({edge.place for edge in edges})) if edges else {}
    lost = index.dangling(list(places), relation)
    reached: dict[str, set[str]] = {}
    trusts: dict[str, list[Trust]] = {start: [_LEAST] for start in ids if start in lost}
    for edge in edges:  # of each start the nearest come first
        met = reached.setdefault(edge.start, {edge.start})
        is_known = edge.place in origins and edge.place not in lost and (edge.hop <= DEEPEST or edge.place in met)
        met.add(edge.place)
        trusts.setdefault(edge.start, []).append(origins[edge.place].provenance.trust if is_known else _LEAST)
    return {start: lowest(each) for start, each in trusts.items()}
