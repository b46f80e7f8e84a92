"""The edges in SQLite. References are resolved when read, so a memory that appears later is found."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from scrimshaw.models import Edge, EdgeKind
from scrimshaw.storage.graph import Link
from scrimshaw.storage.sqlite import Database

# An edge's target is the memory of that id, else the first memory whose last name it is.
_TARGET = """coalesce(
    (SELECT row FROM memories WHERE id = e.reference),
    (SELECT row FROM memories WHERE name = e.reference ORDER BY id LIMIT 1))"""

# How the edges at a place are found by index, the place at their other end, and their target.
_STEPS = {
    "outgoing": ("JOIN edges e ON e.source = w.place", _TARGET, _TARGET),
    "incoming": (
        "JOIN memories m ON m.row = w.place"
        f" JOIN edges e ON e.reference IN (m.id, m.name) AND (e.reference = m.id OR {_TARGET} = w.place)",
        "e.source",
        "w.place",
    ),
}
# ?1 are the ids, ?2 the hops, ?3 the relations; an empty list restricts nothing.
_RELATED = "(?3 = '[]' OR e.relation IN (SELECT value FROM json_each(?3)))"

ANY_EXTERNAL = f"SELECT 1 FROM edges WHERE kind = '{EdgeKind.EXTERNAL}'"
_EXTERNAL = f"""
SELECT m.id, e.reference, e.relation, e.strength, e.evidence FROM edges e JOIN memories m ON m.row = e.source
WHERE e.kind = '{EdgeKind.EXTERNAL}'"""


def links_around(
    database: Database, ids: Sequence[str], hops: int, direction: str, relations: Sequence[str]
) -> list[Link]:
    """The edges that a walk of so many hops from these memories can meet, in no order.

    The last joins are CROSS so that SQLite goes from these few edges to their memories, never over all memories.
    """
    steps = [_STEPS[name] for name in ("outgoing", "incoming") if direction in (name, "both")]
    walking = "".join(
        f" UNION SELECT {far}, w.hop + 1 FROM walk w {join} WHERE w.hop < ?2 AND {_RELATED}" for join, far, _ in steps
    )
    meeting = " UNION ".join(
        f"SELECT e.source, {target} AS target, e.relation, e.strength, e.evidence FROM places w {join} WHERE {_RELATED}"
        for join, _, target in steps
    )
    sql = f"""
    WITH RECURSIVE walk (place, hop) AS (
        SELECT row, 1 FROM memories WHERE id IN (SELECT value FROM json_each(?1)){walking}
    ),
    places AS MATERIALIZED (SELECT DISTINCT place FROM walk)
    SELECT a.id, z.id, s.relation, s.strength, s.evidence FROM ({meeting}) s
    CROSS JOIN memories a ON a.row = s.source CROSS JOIN memories z ON z.row = s.target"""
    rows = database.rows(sql, [json.dumps(list(ids)), hops, json.dumps(list(relations))])
    return [Link(*row) for row in rows]


def edges(database: Database, source: str) -> list[tuple[Edge, str]]:
    """See Index."""
    where = "a.id = ?1" if source else "?1 = ''"
    rows = database.rows(
        "SELECT a.id, e.reference, e.relation, e.kind, e.strength, e.evidence,"
        f" coalesce((SELECT id FROM memories WHERE row = {_TARGET}), '')"
        f" FROM edges e JOIN memories a ON a.row = e.source WHERE {where}"
        " ORDER BY a.id, e.relation, e.reference",
        [source],
    )
    return [(_edge(row), row[6]) for row in rows]


def dangling(database: Database, ids: Sequence[str], relation: str) -> set[str]:
    """See Index."""
    sql = f"""
    SELECT DISTINCT a.id FROM memories a CROSS JOIN edges e ON e.source = a.row
    WHERE a.id IN (SELECT value FROM json_each(?)) AND e.relation = ? AND {_TARGET} IS NULL"""
    return {str(row[0]) for row in database.rows(sql, [json.dumps(list(ids)), relation])}


def put_links(write: apsw.Connection, links: Sequence[Edge]) -> bool:
    """Replace the external edges; whether any changed. What a file states itself stands."""
    before = set(write.execute(_EXTERNAL))
    write.execute("DELETE FROM edges WHERE kind = ?", (EdgeKind.EXTERNAL,))
    write.executemany(
        "INSERT OR IGNORE INTO edges (source, reference, relation, kind, strength, evidence)"
        " SELECT row, ?, ?, ?, ?, ? FROM memories WHERE id = ?",
        [(link.target, link.relation, EdgeKind.EXTERNAL, link.strength, link.evidence, link.source) for link in links],
    )
    return before != set(write.execute(_EXTERNAL))


def _edge(row: Sequence[object]) -> Edge:
    source, target, relation, kind, strength, evidence = row[:6]
    return Edge(
        source=str(source),
        target=str(target),
        relation=str(relation),
        kind=EdgeKind(str(kind)),
        strength=float(str(strength)),
        evidence=str(evidence),
    )
