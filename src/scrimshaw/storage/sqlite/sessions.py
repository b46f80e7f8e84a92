"""The Sessions port in SQLite, in the journal's file: every commit is forced to disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

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
from scrimshaw.storage.ports import Admit, Learning, RecordLength
from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import Database, insert, make_struct

_SOURCE = ItemSource.__struct_fields__
_ITEM = (*(name for name in Item.__struct_fields__ if name != "source"), *_SOURCE)
_LEARNING = Learning.__struct_fields__
_SESSION = ", ".join(Session.__struct_fields__)
MOST_SHOWN = 100
_COUNTED = (EventKind.TOOL, EventKind.PROMPT)
_NEWEST = "ORDER BY last_event DESC, rowid DESC"
_REOPENED = (
    "state = excluded.state, last_event = max(last_event, excluded.last_event),"
    " client = coalesce(nullif(excluded.client, ''), client),"
    " process = coalesce(nullif(excluded.process, 0), process)"
)
_LENGTHS = """
SELECT e.session, count(*), max(e.number), s.last_event FROM events e JOIN sessions s ON s.id = e.session
GROUP BY e.session ORDER BY s.last_event DESC, s.rowid DESC"""
_SUMMED = ", ".join(f"{name} = {name} + excluded.{name}" for name in ("times", "tokens", "hits"))
_MENTIONED = "UPDATE items SET mentions = mentions + 1 WHERE session = ?"


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
                silent = "UPDATE sessions SET state = 'interrupted' WHERE state = 'active' AND last_event < ?"
                write.execute(silent, (silent_since,))
            return _open(write, Session(id=session, client=client, process=process, started=now, last_event=now))

    def get(self, session: str) -> Session | None:
        return next(iter(self._database.structs(Session, "sessions WHERE id = ?", (session,))), None)

    def latest(self, *, before: str = "", processes: Sequence[int] | None = None, limit: int = 1) -> list[Session]:
        where = "id <> ?"
        if processes is not None:
            where += f" AND state = 'active' AND process <> 0 AND process IN ({marks(processes)})"
        arguments = (before, *(processes or ()), limit)
        return self._database.structs(Session, f"sessions WHERE {where} {_NEWEST} LIMIT ?", arguments)

    def tick(self, session: str, *, now: float, modulus: int, injected: Injected | None = None) -> int:
        with self._database.write() as write:
            if injected:
                _add_injected(write, injected)
            return _tick(write, session, now, modulus)

    # Events and items

    def observe(self, seen: Observation, admit: Admit, *, now: float, modulus: int) -> bool:
        state = SessionState.COMPLETED if seen.kind is EventKind.END else SessionState.ACTIVE
        session, client, process = seen.session, seen.client, seen.process
        with self._database.write() as write:
            _open(write, Session(id=session, client=client, process=process, state=state, started=now, last_event=now))
            if seen.kind in (EventKind.START, EventKind.COMPACT):  # what was shown is in the context no more
                write.execute("DELETE FROM shown WHERE session = ?", (session,))
            event = RecordedEvent(
                session=session,
                number=_next_number(write, "events", session),
                kind=seen.kind,
                tool=seen.tool,
                call_id=seen.call_id,
                text=seen.text.text,
                at=now,
                path=seen.path,
                failed=seen.failed,
            )
            if not insert(write, "INSERT OR IGNORE INTO events", asdict(event)):
                return False
            if seen.kind in _COUNTED:
                _tick(write, session, now, modulus)
            if seen.task is not None or seen.context_used is not None:
                # The task of a session is what was asked first; how full the context is changes.
                write.execute(
                    "UPDATE sessions SET task = coalesce(nullif(task, ''), ?, ''),"
                    " context_used = coalesce(?, context_used) WHERE id = ?",
                    (seen.task.text if seen.task else None, seen.context_used, session),
                )
            if seen.injected:
                _add_injected(write, seen.injected)
            if item := seen.item:
                same = "held AND kind = ? AND (text = ? OR (kind = 'file' AND path <> '' AND path = ?))"
                write.execute(f"{_MENTIONED} AND {same}", (session, item.kind, item.text.text, item.path))
                if not write.changes():
                    _remember(write, session, item, admit, now, modulus)
        return True

    def events(self, session: str, *, after: int = 0, kind: EventKind | None = None) -> list[RecordedEvent]:
        rest = "events WHERE session = ? AND number > ? AND kind = coalesce(?, kind) ORDER BY number"
        return self._database.structs(RecordedEvent, rest, (session, after, kind))

    def find_calls(self, words: Sequence[str], limit: int) -> list[RecordedEvent]:
        any_word = " OR ".join(["text LIKE ?"] * len(words)) or "0"
        rest = f"events WHERE kind = 'tool' AND ({any_word}) ORDER BY at DESC, number DESC LIMIT ?"
        return self._database.structs(RecordedEvent, rest, (*(f"%{word}%" for word in words), limit))

    def lengths(self) -> list[RecordLength]:
        return [RecordLength(*row) for row in self._database.rows(_LENGTHS)]

    def mention(self, session: str, number: int) -> None:
        with self._database.write() as write:
            write.execute(f"{_MENTIONED} AND number = ?", (session, number))
            if not write.changes():
                raise NotFound(f"Session {session!r} has no item {number}.", "List its items.", session=session)

    def items(self, session: str, *, held: bool | None = None) -> list[Item]:
        with self._database.lend() as connection:
            return _items(connection, session, {None: "", True: "AND held", False: "AND NOT held"}[held])

    # Drafts

    def draft(self, session: str) -> Drafted | None:
        return next(iter(self._database.structs(Drafted, "drafts WHERE session = ?", (session,))), None)

    def record_draft(self, draft: Drafted) -> None:
        with self._database.write() as write:
            insert(write, "INSERT OR REPLACE INTO drafts", asdict(draft))

    def sessions_to_draft(self, *, silent_since: float) -> list[str]:
        sql = (
            "SELECT id FROM sessions WHERE (state <> 'active' OR last_event < ?) AND EXISTS (SELECT 1 FROM events"
            " WHERE session = id AND kind = 'tool' AND number > coalesce((SELECT events FROM drafts"
            " WHERE drafts.session = id), 0)) ORDER BY last_event"
        )
        return self._database.read(sql, (silent_since,), itemgetter(0))

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

    def hashes_shown(self, session: str, *, since: float = 0.0) -> dict[str, str]:
        sql = "SELECT memory_id, content_hash FROM shown WHERE session = ? AND at >= ? ORDER BY at DESC LIMIT ?"
        return dict(self._database.rows(sql, (session, since, MOST_SHOWN)))

    def injections(self, session: str = "") -> list[Injected]:
        rest = "injected WHERE ? IN ('', session) ORDER BY session, occasion"
        return self._database.structs(Injected, rest, (session,))

    def record_learning(self, row: Learning) -> None:
        values = asdict(row) | {"gaps": msgspec.json.encode(row.gaps).decode()}
        with self._database.write() as write:
            insert(write, "INSERT OR REPLACE INTO learnings", values)

    def learnings(self, folder: str, *, session: str = "", limit: int = 10) -> list[Learning]:
        sql = (
            f"SELECT {', '.join(_LEARNING)} FROM learnings WHERE folder = ? AND ? IN ('', session)"
            " ORDER BY at DESC, rowid DESC LIMIT ?"
        )
        rows = [dict(zip(_LEARNING, row, strict=True)) for row in self._database.rows(sql, (folder, session, limit))]
        return [msgspec.convert(row | {"gaps": msgspec.json.decode(row["gaps"])}, Learning) for row in rows]


def _open(write: apsw.Connection, session: Session) -> tuple[Session, bool]:
    """Open or revive a session; whether it is new. It goes on from the newest before it, not from a later one."""
    is_new = write.execute("SELECT 1 FROM sessions WHERE id = ?", (session.id,)).get is None
    before = f"SELECT id FROM sessions WHERE last_event <= ? {_NEWEST} LIMIT 1"
    values = asdict(session) | {"continues": write.execute(before, (session.last_event,)).get or ""}
    row = write.execute(
        f"INSERT INTO sessions ({_SESSION}) VALUES ({marks(values)})"
        f" ON CONFLICT DO UPDATE SET {_REOPENED} RETURNING {_SESSION}",
        tuple(values.values()),
    ).fetchall()[0]
    return make_struct(Session, row), is_new


def _tick(write: apsw.Connection, session: str, now: float, modulus: int) -> int:
    sql = "UPDATE sessions SET counter = (counter + 1) % ?, last_event = max(last_event, ?) WHERE id = ?"
    write.execute(sql, (modulus, now, session))
    return _counter(write, session)


def _remember(write: apsw.Connection, session: str, new: NewItem, admit: Admit, now: float, modulus: int) -> None:
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
    insert(write, "INSERT INTO items", columns)


def _add_injected(write: apsw.Connection, row: Injected) -> None:
    """Add to what the session was handed on the occasion."""
    values = asdict(row)
    write.execute(
        f"INSERT INTO injected ({', '.join(values)}) VALUES ({marks(values)})"
        f" ON CONFLICT DO UPDATE SET {_SUMMED}, at = max(at, excluded.at)",
        tuple(values.values()),
    )


def _counter(connection: apsw.Connection, session: str) -> int:
    """The counter of a session; raises NotFound."""
    counter = connection.execute("SELECT counter FROM sessions WHERE id = ?", (session,)).get
    if counter is None:
        raise NotFound(f"There is no session {session!r}.", "Open it first.", session=session)
    return int(counter)


def _next_number(connection: apsw.Connection, table: str, session: str) -> int:
    last = connection.execute(f"SELECT max(number) FROM {table} WHERE session = ?", (session,)).get
    return 1 + (last or 0)


def _items(connection: apsw.Connection, session: str, which: str) -> list[Item]:
    sql = f"SELECT {', '.join(_ITEM)} FROM items WHERE session = ? {which} ORDER BY number"
    items = []
    for row in connection.execute(sql, (session,)):
        values = dict(zip(_ITEM, row, strict=True))
        values["source"] = dict(zip(_SOURCE, row[-len(_SOURCE) :], strict=True))
        items.append(msgspec.convert(values, Item, strict=False))  # SQLite's booleans are 0 and 1
    return items
