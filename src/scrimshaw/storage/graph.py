"""Walks over edges read from a database, and matches and passages made from its rows. Shared by every engine."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from scrimshaw.models import QUESTIONS, Match, Memory, Neighbor, Trust

# The share of a session's score added to its passages; from .15 to .5 hardly anything changes (measured).
SESSION_SHARE = 0.3


class Link(NamedTuple):
    """An edge between two memories that exist."""

    source: str
    target: str
    relation: str
    strength: float
    evidence: str


def walk(starts: Iterable[str], links: Iterable[Link], *, hops: int, direction: str) -> list[Neighbor]:
    """The edges within `hops` of each start, each once, at its nearest hop; sorted by start, hop, source and target.

    Of several edges with the same relation between two memories the strongest counts.
    """
    # Node -> the edges to follow from there, strongest first, and whether that is from source to target.
    ahead: dict[str, list[tuple[Link, bool]]] = {}
    for link in sorted(links, key=lambda link: (-link.strength, link.evidence)):
        if direction in ("outgoing", "both"):
            ahead.setdefault(link.source, []).append((link, True))
        if direction in ("incoming", "both"):
            ahead.setdefault(link.target, []).append((link, False))
    found = [neighbor for start in set(starts) for neighbor in _walk_from(start, ahead, hops)]
    return sorted(found, key=attrgetter("start", "hop", "source", "target", "relation"))


def _walk_from(start: str, ahead: Mapping[str, Sequence[tuple[Link, bool]]], hops: int) -> list[Neighbor]:
    found: dict[tuple[str, str, str], Neighbor] = {}
    seen, ring = {start}, {start: 1.0}
    for hop in range(1, hops + 1):
        reached: dict[str, float] = {}
        for place, way in sorted(ring.items(), key=lambda item: (-item[1], item[0])):
            for link, outward in ahead.get(place, ()):
                if link[:3] in found:
                    continue
                neighbor = Neighbor(start=start, hop=hop, path_strength=way, outward=outward, **link._asdict())
                found[link[:3]] = neighbor
                if neighbor.place not in seen:
                    reached[neighbor.place] = max(way * link.strength, reached.get(neighbor.place, 0.0))
        seen |= reached.keys()
        ring = reached
    return list(found.values())


def fold_chunks(rows: Iterable[tuple[str, int, float]]) -> list[Match]:
    """Rows of (id, ordinal or -1 for the whole, score), best first, as one match per memory.

    The score is the mean of the whole's and of the best chunk's; a memory of a single chunk has no row for the whole.
    A question counts as a chunk; if it is the best one, the match names it and the best chunk of the body.
    """
    whole, best, bodies = dict[str, float](), dict[str, tuple[float, int]](), dict[str, int]()
    for name, ordinal, score in rows:
        if ordinal < 0:
            whole[name] = score
        else:
            best.setdefault(name, (score, ordinal))
            if ordinal < QUESTIONS:
                bodies.setdefault(name, ordinal)
    matches = []
    for name in whole.keys() | best.keys():
        chunk, ordinal = best.get(name, (0.0, -1))
        matches.append(make_match(name, (whole.get(name, chunk) + chunk) / 2, ordinal, bodies))
    return sorted(matches, key=lambda match: (-match.score, match.id))


def make_match(name: str, score: float, ordinal: int, bodies: Mapping[str, int]) -> Match:
    """The match of a chunk; a question's names it, and the best chunk of the memory's body in `bodies`."""
    if ordinal < QUESTIONS:
        return Match(id=name, score=score, chunk=ordinal)
    return Match(id=name, score=score, chunk=bodies.get(name, -1), question=ordinal - QUESTIONS)


def rank_passages(rows: Sequence[tuple[str, int, float]], limit: int) -> list[Match]:
    """The best passages in such rows, with a share of their whole session's score."""
    passages = [each for each in rows if each[1] >= 0]
    whole = {name: score for name, _, score in reversed(passages)}  # a session of one passage has no row for the whole
    whole |= {name: score for name, ordinal, score in rows if ordinal < 0}
    unit = SESSION_SHARE * (passages[0][2] if passages else 0.0) / max(whole.values(), default=1.0)
    matches = [
        Match(id=name, score=(score + unit * whole[name]) / (1 + SESSION_SHARE), chunk=ordinal)
        for name, ordinal, score in passages[:limit]
    ]
    return sorted(matches, key=lambda match: (-match.score, match.id, match.chunk))


def make_passage(record: Memory, anchor: str, at: str, length: int, trust: str, worth: float | None) -> Memory:
    """A chunk of a session's record as a memory, which no file has."""
    origin, name = replace(record.provenance, trust=Trust(trust)), f"{record.id}#{anchor}"
    return replace(record, id=name, updated=at, length=length, provenance=origin, worth=worth, content_hash="")
