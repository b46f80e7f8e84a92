"""The Sessions port in SQLite, in the journal's file: every commit is forced to disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import msgspec
from msgspec.structs import asdict, replace

from scrimshaw.errors import NotFound
from scrimshaw.models import (
    Drafted,
    EventKind,
    Injected,
    Item,
    ItemSource,
    NewItem,
    Observation,
    RecordedEvent,
    Session,
    SessionState,
)
from scrimshaw.storage.ports import Admit, Learning
from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import Database

_SESSION = Session.__struct_fields__
_SOURCE = ItemSource.__struct_fields__
_ITEM = (*(name for name in Item.__struct_fields__ if name != "source"), *_SOURCE)
_LEARNING = Learning.__struct_fields__
_EVENT = RecordedEvent.__struct_fields__
_INJECTED = Injected.__struct_fields__
_DRAFTED = Drafted.__struct_fields__
_COUNTED = (EventKind.TOOL, EventKind.PROMPT)
_NEWEST = "ORDER BY last_event DESC, rowid DESC"


class SqliteSessions:
    """The Sessions port over the journal's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # Sessions

    def open(
        self, session: str, *, client: str = "", process: int = 0, now: float, silent_since: float | None = None
    ) -> tuple[Session, bool]:
        with self._database.write() as write:
            if silent_since is not None:
                write.execute(
                    "UPDATE sessions SET state = 'interrupted' WHERE state = 'active' AND last_event < ?",
                    (silent_since,),
                )
            is_new = _open(write, session, client, process, now)
            (found,) = _sessions(write, "id = ?", (session,), limit=1)
        return found, is_new

    def get(self, session: str) -> Session | None:
        with self._database.lend() as connection:
            found = _sessions(connection, "id = ?", (session,), limit=1)
        return found[0] if found else None

    def latest(self, *, before: str = "", processes: Sequence[int] | None = None, limit: int = 1) -> list[Session]:
        where, arguments = "id <> ?", [before]
        if processes is not None:
            where += f" AND state = 'active' AND process <> 0 AND process IN ({marks(processes)})"
        with self._database.lend() as connection:
            return _sessions(connection, where, (*arguments, *(processes or ())), limit=limit)

    def tick(self, session: str, *, now: float, modulus: int, injected: Injected | None = None) -> int:
        with self._database.write() as write:
            if injected:
                _add_injected(write, injected)
            return _tick(write, session, now, modulus)

    # Items

    def remember(self, session: str, item: NewItem, admit: Admit, *, now: float, modulus: int) -> Item:
        with self._database.write() as write:
            return _remember(write, session, item, admit, now, modulus)

    def observe(self, seen: Observation, admit: Admit, *, now: float, modulus: int) -> bool:
        with self._database.write() as write:
            is_over = seen.kind is EventKind.END
            state = SessionState.COMPLETED if is_over else SessionState.ACTIVE
            _open(write, seen.session, seen.client, seen.process, now, state)
            event = RecordedEvent(
                session=seen.session,
                number=_next_number(write, "events", seen.session),
                kind=seen.kind,
                tool=seen.tool,
                call_id=seen.call_id,
                text=seen.text.text,
                at=now,
                path=seen.path,
                failed=seen.failed,
            )
            if not _insert(write, "INSERT OR IGNORE INTO events", asdict(event)):
                return False
            if seen.kind in _COUNTED:
                _tick(write, seen.session, now, modulus)
            if seen.task is not None or seen.context_used is not None:
                # The task of a session is what was asked first; how full the context is changes.
                write.execute(
                    "UPDATE sessions SET task = coalesce(nullif(task, ''), ?, ''),"
                    " context_used = coalesce(?, context_used) WHERE id = ?",
                    (seen.task.text if seen.task else None, seen.context_used, seen.session),
                )
            if seen.injected:
                _add_injected(write, seen.injected)
            if item := seen.item:
                write.execute(
                    "UPDATE items SET mentions = mentions + 1 WHERE session = ? AND held AND kind = ?"
                    " AND (text = ? OR (kind = 'file' AND path <> '' AND path = ?))",
                    (seen.session, item.kind, item.text.text, item.path),
                )
                if not write.changes():
                    _remember(write, seen.session, item, admit, now, modulus)
        return True

    def events(self, session: str, *, after: int = 0) -> list[RecordedEvent]:
        sql = f"SELECT {', '.join(_EVENT)} FROM events WHERE session = ? AND number > ? ORDER BY number"
        rows = self._database.rows(sql, (session, after))
        return [msgspec.convert(dict(zip(_EVENT, row, strict=True)), RecordedEvent, strict=False) for row in rows]

    def mention(self, session: str, number: int) -> None:
        with self._database.write() as write:
            write.execute(
                "UPDATE items SET mentions = mentions + 1 WHERE session = ? AND number = ?", (session, number)
            )
            if not write.changes():
                raise NotFound(f"Session {session!r} has no item {number}.", "List its items.", session=session)

    def items(self, session: str, *, held: bool | None = None) -> list[Item]:
        with self._database.lend() as connection:
            return _items(connection, session, {None: "", True: "AND held", False: "AND NOT held"}[held])

    # Drafts

    def draft(self, session: str) -> Drafted | None:
        rows = self._database.rows(f"SELECT {', '.join(_DRAFTED)} FROM drafts WHERE session = ?", (session,))
        return Drafted(**dict(zip(_DRAFTED, rows[0], strict=True))) if rows else None

    def record_draft(self, draft: Drafted) -> None:
        with self._database.write() as write:
            _insert(write, "INSERT OR REPLACE INTO drafts", asdict(draft))

    def sessions_to_draft(self, *, silent_since: float) -> list[str]:
        sql = (
            "SELECT id FROM sessions WHERE (state <> 'active' OR last_event < ?) AND EXISTS (SELECT 1 FROM events"
            " WHERE session = id AND kind = 'tool' AND number > coalesce((SELECT events FROM drafts"
            " WHERE drafts.session = id), 0)) ORDER BY last_event"
        )
        return self._database.column(sql, (silent_since,))

    # What was shown, and learned

    def mark_shown(
        self, session: str, hashes: Mapping[str, str], *, now: float, injected: Injected | None = None
    ) -> None:
        with self._database.write() as write:
            _counter(write, session)
            write.executemany(
                "INSERT INTO shown (session, memory_id, content_hash, at) VALUES (?,?,?,?) "
                "ON CONFLICT DO UPDATE SET content_hash = excluded.content_hash, at = excluded.at",
                [(session, memory_id, content_hash, now) for memory_id, content_hash in hashes.items()],
            )
            if injected:
                _add_injected(write, injected)

    def hashes_shown(self, session: str) -> dict[str, str]:
        return dict(self._database.rows("SELECT memory_id, content_hash FROM shown WHERE session = ?", (session,)))

    def injections(self, session: str = "") -> list[Injected]:
        sql = f"SELECT {', '.join(_INJECTED)} FROM injected WHERE ? IN ('', session) ORDER BY session, occasion"
        return [Injected(**dict(zip(_INJECTED, row, strict=True))) for row in self._database.rows(sql, (session,))]

    def record_learning(self, row: Learning) -> None:
        values = asdict(row) | {"gaps": msgspec.json.encode(row.gaps).decode()}
        with self._database.write() as write:
            _insert(write, "INSERT OR REPLACE INTO learnings", values)

    def learnings(self, folder: str, *, session: str = "", limit: int = 10) -> list[Learning]:
        sql = (
            f"SELECT {', '.join(_LEARNING)} FROM learnings WHERE folder = ? AND (? = '' OR session = ?) "
            "ORDER BY at DESC, rowid DESC LIMIT ?"
        )
        found = []
        for row in self._database.rows(sql, (folder, session, session, limit)):
            values = dict(zip(_LEARNING, row, strict=True))
            found.append(msgspec.convert(values | {"gaps": msgspec.json.decode(values["gaps"])}, Learning))
        return found


def _open(
    write: apsw.Connection,
    session: str,
    client: str,
    process: int,
    now: float,
    state: SessionState = SessionState.ACTIVE,
) -> bool:
    """Open or revive a session; whether it is new. It goes on from the newest before it, not from a later one."""
    before = write.execute(f"SELECT id FROM sessions WHERE last_event <= ? {_NEWEST} LIMIT 1", (now,)).get or ""
    given = Session(
        id=session, client=client, process=process, state=state, started=now, last_event=now, continues=before
    )
    is_new = _insert(write, "INSERT OR IGNORE INTO sessions", asdict(given))
    if not is_new:
        write.execute(
            "UPDATE sessions SET state = ?, last_event = max(last_event, ?), "
            "client = coalesce(nullif(?, ''), client), process = coalesce(nullif(?, 0), process) WHERE id = ?",
            (state, now, client, process, session),
        )
    return is_new


def _tick(write: apsw.Connection, session: str, now: float, modulus: int) -> int:
    sql = (
        "UPDATE sessions SET counter = (counter + 1) % ?, last_event = max(last_event, ?) WHERE id = ? "
        "RETURNING counter"
    )
    return _require_counter(session, write.execute(sql, (modulus, now, session)).get)


def _remember(write: apsw.Connection, session: str, new: NewItem, admit: Admit, now: float, modulus: int) -> Item:
    newcomer = replace(new, attention=min(1.0, max(0.0, new.attention)))
    counter = _counter(write, session) % modulus
    admission = admit(_items(write, session, "AND held"), newcomer, counter)
    for leaving in admission.leaving:
        write.execute("UPDATE items SET held = 0 WHERE session = ? AND number = ?", (session, leaving))
    number = _next_number(write, "items", session)
    values = asdict(newcomer) | {"text": new.text.text}
    item = Item(**values, session=session, number=number, event=counter, at=now, held=admission.admitted)
    columns = asdict(item) | asdict(item.source)
    del columns["source"]
    _insert(write, "INSERT INTO items", columns)
    return item


def _add_injected(write: apsw.Connection, row: Injected) -> None:
    """Add to what the session was handed on the occasion."""
    values = asdict(row)
    sums = ", ".join(f"{name} = {name} + excluded.{name}" for name in ("times", "tokens", "hits"))
    write.execute(
        f"INSERT INTO injected ({', '.join(values)}) VALUES ({marks(values)})"
        f" ON CONFLICT DO UPDATE SET {sums}, at = max(at, excluded.at)",
        tuple(values.values()),
    )


def _insert(write: apsw.Connection, insert_into: str, values: Mapping[str, Any]) -> bool:
    """Whether a row was inserted."""
    write.execute(f"{insert_into} ({', '.join(values)}) VALUES ({marks(values)})", tuple(values.values()))
    return write.changes() > 0


def _sessions(connection: apsw.Connection, where: str, arguments: Sequence[Any], *, limit: int) -> list[Session]:
    sql = f"SELECT {', '.join(_SESSION)} FROM sessions WHERE {where} {_NEWEST} LIMIT ?"
    rows = connection.execute(sql, (*arguments, limit))
    return [msgspec.convert(dict(zip(_SESSION, row, strict=True)), Session) for row in rows]


def _counter(connection: apsw.Connection, session: str) -> int:
    """The counter of a session; raises NotFound."""
    return _require_counter(session, connection.execute("SELECT counter FROM sessions WHERE id = ?", (session,)).get)


def _require_counter(session: str, counter: int | None) -> int:
    if counter is None:
        raise NotFound(f"There is no session {session!r}.", "Open it first.", session=session)
    return int(counter)


def _next_number(connection: apsw.Connection, table: str, session: str) -> int:
    return 1 + int(
        connection.execute(f"SELECT coalesce(max(number), 0) FROM {table} WHERE session = ?", (session,)).get
    )


def _items(connection: apsw.Connection, session: str, which: str) -> list[Item]:
    sql = f"SELECT {', '.join(_ITEM)} FROM items WHERE session = ? {which} ORDER BY number"
    items = []
    for row in connection.execute(sql, (session,)):
        values = dict(zip(_ITEM, row, strict=True))
        values["source"] = dict(zip(_SOURCE, row[-len(_SOURCE) :], strict=True))
        items.append(msgspec.convert(values, Item, strict=False))  # SQLite's booleans are 0 and 1
    return items
