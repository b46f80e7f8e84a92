"""The ledger's rows: how each is chained to the one before it, and the one door through which they may be changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from scrimshaw.errors import StorageFailure

LEDGER = (
    "seq, at, action, memory_id, reason, prior_hash, new_hash, linked_memory_ids, decision_meta, actor, session, chain"
)
_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'ledger'"


def chain(before: str, values: Sequence[Any]) -> str:
    """The hash that ties a row, given without its number and its own hash, to the hash of the one before it."""
    # A value of no type that was ever written comes from damage; then the hash is another one.
    return hashlib.sha256(json.dumps([before, *values], default=repr).encode()).hexdigest()


def first_break(rows: Iterable[Sequence[Any]]) -> tuple[int, int, int]:
    """(rows checked, number of the last sound one, number of the first that breaks the chain, 0 when none does)."""
    last, checked, newest = "", 0, 0
    for row in rows:
        last = chain(last, row[1:-1])
        checked += 1
        if last != row[-1]:
            return checked, newest, int(row[0])
        newest = int(row[0])
    return checked, newest, 0


def verify(connection: apsw.Connection) -> tuple[int, int]:
    """(rows checked, number of the first row that breaks the chain or was cut off its end, 0 when sound)."""
    checked, newest, broken = first_break(connection.execute(f"SELECT {LEDGER} FROM ledger ORDER BY seq"))
    if broken:
        return checked, broken
    given = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'ledger'").get or 0
    # SQLite keeps its own table without types, so that damage can make a text of the number.
    is_cut = not isinstance(given, int) or newest < given
    return checked, newest + 1 if is_cut else 0


@contextmanager
def rewritten(write: apsw.Connection) -> Iterator[None]:
    """The block may change rows of the ledger, inside the transaction of `write`; the chain is made anew behind it.

    Only a purge comes here, and it records what it did. Raises StorageFailure if the new chain is not sound.
    """
    triggers = {str(name): str(sql) for name, sql in write.execute(_TRIGGERS).fetchall()}
    for name in triggers:
        write.execute(f'DROP TRIGGER "{name}"')
    yield
    _chain_anew(write)
    for sql in triggers.values():
        write.execute(sql)
    broken = verify(write)[1]
    if write.execute("SELECT 1 FROM ledger WHERE seq = ?", (broken,)).get:
        raise StorageFailure(f"The ledger could not be chained anew: row {broken}.", "Nothing was changed; try again.")


def _chain_anew(write: apsw.Connection) -> None:
    last = ""
    for row in write.execute(f"SELECT {LEDGER} FROM ledger ORDER BY seq").fetchall():
        last = chain(last, row[1:-1])
        write.execute("UPDATE ledger SET chain = ? WHERE seq = ?", (last, row[0]))
