"""Walks over edges that a database brought: which hop, which way, how strong. Shared by every engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from scrimshaw.storage.ports import Neighbor


class Link(NamedTuple):
    """An edge between two memories that exist."""

    source: str
    target: str
    relation: str
    strength: float
    evidence: str


_Ahead = Mapping[str, Sequence[tuple[Link, bool]]]


def walk(starts: Iterable[str], links: Iterable[Link], *, hops: int, direction: str) -> list[Neighbor]:
    """The edges within `hops` of each start, each once, at its nearest hop; by start, hop, source and target.

    Of several edges between the same memories in the same relation the strongest counts.
    """
    ahead = _ahead(links, direction)
    found = [neighbor for start in set(starts) for neighbor in _walk_from(start, ahead, hops)]
    return sorted(found, key=attrgetter("start", "hop", "source", "target", "relation"))


def _ahead(links: Iterable[Link], direction: str) -> _Ahead:
    """Place -> the edges to follow from there, strongest first, and whether that is from source to target."""
    ahead: dict[str, list[tuple[Link, bool]]] = {}
    for link in sorted(links, key=lambda link: (-link.strength, link.evidence)):
        if direction in ("outgoing", "both"):
            ahead.setdefault(link.source, []).append((link, True))
        if direction in ("incoming", "both"):
            ahead.setdefault(link.target, []).append((link, False))
    return ahead


def _walk_from(start: str, ahead: _Ahead, hops: int) -> list[Neighbor]:
    found: dict[tuple[str, str, str], Neighbor] = {}
    seen, ring = {start}, {start: 1.0}
    for hop in range(1, hops + 1):
        reached: dict[str, float] = {}
        for place, way in sorted(ring.items(), key=lambda item: (-item[1], item[0])):
            for link, outward in ahead.get(place, ()):
                if link[:3] in found:
                    continue
                neighbor = found[link[:3]] = _neighbor(start, hop, link, way, outward)
                if neighbor.place not in seen:
                    strength = way * link.strength
                    reached[neighbor.place] = max(strength, reached.get(neighbor.place, 0.0))
        seen |= reached.keys()
        ring = reached
    return list(found.values())


def _neighbor(start: str, hop: int, link: Link, way: float, outward: bool) -> Neighbor:
    return Neighbor(
        start=start,
        hop=hop,
        source=link.source,
        target=link.target,
        relation=link.relation,
        strength=link.strength,
        evidence=link.evidence,
        path_strength=way,
        outward=outward,
    )
