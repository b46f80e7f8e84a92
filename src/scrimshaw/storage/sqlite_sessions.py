"""Sessions in SQLite, in the journal's file: every commit is forced to disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from scrimshaw.storage.sqlite import Database

_SESSION = Session.__struct_fields__
_SOURCE = ItemSource.__struct_fields__
_ITEM = (*(name for name in Item.__struct_fields__ if name != "source"), *_SOURCE)
_LEARNING = Learning.__struct_fields__
_EVENT = RecordedEvent.__struct_fields__
_INJECTED = Injected.__struct_fields__
_DRAFTED = Drafted.__struct_fields__
_DESCRIBE = "task = coalesce(?, task), context_used = coalesce(?, context_used)"
# The task of a session is what was asked first; how full the context is changes.
_FIRST_TOLD = "task = coalesce(nullif(task, ''), ?, ''), context_used = coalesce(?, context_used)"
_COUNTED = (EventKind.TOOL, EventKind.PROMPT)
_NEWEST = "ORDER BY last_event DESC, rowid DESC"


class SqliteSessions:
    """The Sessions port over the journal's database, which whoever opened it closes.

    What would change a session or an item that does not exist raises NotFound; reading it or dropping it does nothing.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    # Sessions

    def open(self, session: str, *, client: str = "", process: int = 0, now: float) -> tuple[Session, bool]:
        """See Sessions. A client or process that is not given stays as it was."""
        with self._database.write() as write:
            new = _opened(write, session, client, process, now)
            (found,) = _sessions(write, "id = ?", (session,), limit=1)
        return found, new

    def get(self, session: str) -> Session | None:
        """See Sessions."""
        return _first(self._find("id = ?", (session,), limit=1))

    def latest(self, *, before: str = "", limit: int = 1) -> list[Session]:
        """See Sessions."""
        return self._find("id <> ?", (before,), limit=limit)

    def of_process(self, processes: Sequence[int]) -> Session | None:
        """See Sessions. Process 0 means unknown and is nobody's."""
        where = f"state = 'active' AND process <> 0 AND process IN ({marks(processes)})"
        return _first(self._find(where, processes, limit=1))

    def tick(self, session: str, *, now: float, modulus: int, injected: Injected | None = None) -> int:
        """See Sessions."""
        with self._database.write() as write:
            if injected:
                _inject(write, injected)
            return _ticked(write, session, now, modulus)

    def close(self, session: str, state: SessionState, *, now: float) -> None:
        """See Sessions."""
        self._change(session, "state = ?, last_event = max(last_event, ?)", (state, now))

    def sweep(self, *, silent_since: float) -> list[str]:
        """See Sessions."""
        sql = "UPDATE sessions SET state = 'interrupted' WHERE state = 'active' AND last_event < ? RETURNING id"
        with self._database.write() as write:
            return sorted(str(row[0]) for row in write.execute(sql, (silent_since,)))

    def describe(self, session: str, *, task: str | None = None, context_used: float | None = None) -> None:
        """See Sessions."""
        self._change(session, _DESCRIBE, (task, context_used))

    # Items

    def remember(self, session: str, item: NewItem, admit: Admit, *, now: float, modulus: int) -> Item:
        """See Sessions. `admit` runs while other writers wait: it may compute, and must not come back here."""
        with self._database.write() as write:
            return _remembered(write, session, item, admit, now, modulus)

    def observe(self, seen: Observation, admit: Admit, *, now: float, modulus: int) -> bool:
        """See Sessions."""
        with self._database.write() as write:
            _opened(write, seen.session, seen.client, seen.process, now)
            if not _kept(write, seen, now):
                return False
            if seen.kind in _COUNTED:
                _ticked(write, seen.session, now, modulus)
            if seen.task is not None or seen.context_used is not None:
                told = (seen.task.text if seen.task else None, seen.context_used, seen.session)
                write.execute(f"UPDATE sessions SET {_FIRST_TOLD} WHERE id = ?", told)
            if seen.injected:
                _inject(write, seen.injected)
            if seen.item is not None and not _mentioned(write, seen.session, seen.item):
                _remembered(write, seen.session, seen.item, admit, now, modulus)
        return True

    def events(self, session: str, *, after: int = 0) -> list[RecordedEvent]:
        """See Sessions."""
        sql = f"SELECT {', '.join(_EVENT)} FROM events WHERE session = ? AND number > ? ORDER BY number"
        rows = self._database.rows(sql, (session, after))
        return [msgspec.convert(dict(zip(_EVENT, row, strict=True)), RecordedEvent, strict=False) for row in rows]

    def mention(self, session: str, number: int) -> None:
        """See Sessions; raises NotFound when there is no such item."""
        with self._database.write() as write:
            write.execute(
                "UPDATE items SET mentions = mentions + 1 WHERE session = ? AND number = ?", (session, number)
            )
            found = write.changes() > 0
        if not found:
            raise NotFound(f"Session {session!r} has no item {number}.", "List its items.", session=session)

    def items(self, session: str, *, held: bool | None = None) -> list[Item]:
        """See Sessions."""
        which = {None: "", True: "AND held", False: "AND NOT held"}[held]
        with self._database.lend() as connection:
            return _items(connection, session, which)

    def drop(self, session: str, numbers: Sequence[int]) -> None:
        """See Sessions; a number that is not held is passed over."""
        with self._database.write() as write:
            _release(write, session, numbers)

    # Drafts

    def drafted(self, session: str) -> Drafted | None:
        """See Sessions."""
        sql = f"SELECT {', '.join(_DRAFTED)} FROM drafts WHERE session = ?"
        rows = self._database.rows(sql, (session,))
        return Drafted(**dict(zip(_DRAFTED, rows[0], strict=True))) if rows else None

    def record_draft(self, draft: Drafted) -> None:
        """See Sessions."""
        with self._database.write() as write:
            _insert(write, "INSERT OR REPLACE INTO drafts", asdict(draft))

    def undrafted(self, *, silent_since: float) -> list[str]:
        """See Sessions."""
        sql = (
            "SELECT id FROM sessions WHERE (state <> 'active' OR last_event < ?) AND EXISTS (SELECT 1 FROM events"
            " WHERE session = id AND kind = 'tool' AND number > coalesce((SELECT events FROM drafts"
            " WHERE drafts.session = id), 0)) ORDER BY last_event"
        )
        return [str(row[0]) for row in self._database.rows(sql, (silent_since,))]

    # What was shown, and learned

    def show(self, session: str, shown: Mapping[str, str], *, now: float) -> None:
        """See Sessions."""
        rows = [(session, memory_id, content_hash, now) for memory_id, content_hash in shown.items()]
        with self._database.write() as write:
            _counter(write, session)
            write.executemany(
                "INSERT INTO shown (session, memory_id, content_hash, at) VALUES (?,?,?,?) "
                "ON CONFLICT DO UPDATE SET content_hash = excluded.content_hash, at = excluded.at",
                rows,
            )

    def shown(self, session: str) -> dict[str, str]:
        """See Sessions."""
        return dict(self._database.rows("SELECT memory_id, content_hash FROM shown WHERE session = ?", (session,)))

    def record_injected(self, row: Injected) -> None:
        """See Sessions."""
        with self._database.write() as write:
            _counter(write, row.session)
            _inject(write, row)

    def injected(self, session: str = "") -> list[Injected]:
        """See Sessions."""
        sql = f"SELECT {', '.join(_INJECTED)} FROM injected WHERE ? IN ('', session) ORDER BY session, occasion"
        return [Injected(**dict(zip(_INJECTED, row, strict=True))) for row in self._database.rows(sql, (session,))]

    def record_learning(self, row: Learning) -> None:
        """See Sessions."""
        with self._database.write() as write:
            _insert(
                write,
                "INSERT OR REPLACE INTO learnings",
                asdict(row) | {"gaps": msgspec.json.encode(row.gaps).decode()},
            )

    def learnings(self, folder: str, *, session: str = "", limit: int = 10) -> list[Learning]:
        """See Sessions."""
        sql = (
            f"SELECT {', '.join(_LEARNING)} FROM learnings WHERE folder = ? AND (? = '' OR session = ?) "
            "ORDER BY at DESC, rowid DESC LIMIT ?"
        )
        return [_learning(row) for row in self._database.rows(sql, (folder, session, session, limit))]

    def _find(self, where: str, arguments: Sequence[Any], *, limit: int) -> list[Session]:
        with self._database.lend() as connection:
            return _sessions(connection, where, arguments, limit=limit)

    def _change(self, session: str, change: str, arguments: Sequence[Any]) -> None:
        with self._database.write() as write:
            write.execute(f"UPDATE sessions SET {change} WHERE id = ?", (*arguments, session))
            found = write.changes() > 0
        if not found:
            raise _no_session(session)


def _opened(write: apsw.Connection, session: str, client: str, process: int, now: float) -> bool:
    """Open or revive a session; whether it is new. It goes on from the newest before it, not from a later one."""
    continues = write.execute(f"SELECT id FROM sessions WHERE last_event <= ? {_NEWEST} LIMIT 1", (now,)).get or ""
    given = Session(id=session, client=client, process=process, started=now, last_event=now, continues=continues)
    new = _insert(write, "INSERT OR IGNORE INTO sessions", asdict(given))
    if not new:
        _revive(write, given)
    return new


def _kept(write: apsw.Connection, seen: Observation, now: float) -> bool:
    """Whether the event is new; then it is kept."""
    number = 1 + int(
        write.execute("SELECT coalesce(max(number), 0) FROM events WHERE session = ?", (seen.session,)).get
    )
    event = RecordedEvent(
        session=seen.session,
        number=number,
        kind=seen.kind,
        tool=seen.tool,
        call_id=seen.call_id,
        text=seen.text.text,
        at=now,
        path=seen.path,
        failed=seen.failed,
    )
    return _insert(write, "INSERT OR IGNORE INTO events", asdict(event))


def _ticked(write: apsw.Connection, session: str, now: float, modulus: int) -> int:
    sql = (
        "UPDATE sessions SET counter = (counter + 1) % ?, last_event = max(last_event, ?) WHERE id = ? "
        "RETURNING counter"
    )
    counter = write.execute(sql, (modulus, now, session)).get
    if counter is None:
        raise _no_session(session)
    return int(counter)


def _remembered(write: apsw.Connection, session: str, item: NewItem, admit: Admit, now: float, modulus: int) -> Item:
    newcomer = replace(item, attention=min(1.0, max(0.0, item.attention)))
    counter = _counter(write, session) % modulus
    admission = admit(_items(write, session, "AND held"), newcomer, counter)
    _release(write, session, admission.leaving)
    kept = _recorded(newcomer, session, _next_number(write, session), counter, now, admission.admitted)
    _insert(write, "INSERT INTO items", _columns(kept))
    return kept


def _mentioned(write: apsw.Connection, session: str, item: NewItem) -> bool:
    """Whether the session holds this already, and so only pays more attention to it: the same text, or file again."""
    write.execute(
        "UPDATE items SET mentions = mentions + 1 WHERE session = ? AND held AND kind = ?"
        " AND (text = ? OR (kind = 'file' AND path <> '' AND path = ?))",
        (session, item.kind, item.text.text, item.path),
    )
    return write.changes() > 0


def _inject(write: apsw.Connection, row: Injected) -> None:
    """Add to what the session was handed on the occasion."""
    values = asdict(row)
    added = ", ".join(f"{name} = {name} + excluded.{name}" for name in ("times", "tokens", "hits"))
    write.execute(
        f"INSERT INTO injected ({', '.join(values)}) VALUES ({marks(tuple(values))})"
        f" ON CONFLICT DO UPDATE SET {added}, at = max(at, excluded.at)",
        tuple(values.values()),
    )


def _no_session(session: str) -> NotFound:
    return NotFound(f"There is no session {session!r}.", "Open it first.", session=session)


def _insert(write: apsw.Connection, insert_into: str, values: Mapping[str, Any]) -> bool:
    """Whether a row was inserted."""
    write.execute(f"{insert_into} ({', '.join(values)}) VALUES ({marks(tuple(values))})", tuple(values.values()))
    return write.changes() > 0


def _sessions(connection: apsw.Connection, where: str, arguments: Sequence[Any], *, limit: int) -> list[Session]:
    sql = f"SELECT {', '.join(_SESSION)} FROM sessions WHERE {where} {_NEWEST} LIMIT ?"
    rows = connection.execute(sql, (*arguments, limit))
    return [msgspec.convert(dict(zip(_SESSION, row, strict=True)), Session) for row in rows]


def _first(sessions: Sequence[Session]) -> Session | None:
    return sessions[0] if sessions else None


def _revive(write: apsw.Connection, given: Session) -> None:
    """An existing session is active again and takes over what its client says of itself."""
    write.execute(
        "UPDATE sessions SET state = 'active', last_event = max(last_event, ?), "
        "client = coalesce(nullif(?, ''), client), process = coalesce(nullif(?, 0), process) WHERE id = ?",
        (given.last_event, given.client, given.process, given.id),
    )


def _counter(connection: apsw.Connection, session: str) -> int:
    """The counter of a session; raises NotFound."""
    counter = connection.execute("SELECT counter FROM sessions WHERE id = ?", (session,)).get
    if counter is None:
        raise _no_session(session)
    return int(counter)


def _next_number(connection: apsw.Connection, session: str) -> int:
    return 1 + int(connection.execute("SELECT coalesce(max(number), 0) FROM items WHERE session = ?", (session,)).get)


def _release(write: apsw.Connection, session: str, numbers: Iterable[int]) -> None:
    write.executemany(
        "UPDATE items SET held = 0 WHERE session = ? AND number = ?", [(session, number) for number in numbers]
    )


def _recorded(new: NewItem, session: str, number: int, event: int, now: float, held: bool) -> Item:
    values = asdict(new) | {"text": new.text.text}
    return Item(**values, session=session, number=number, event=event, at=now, held=held)


def _columns(item: Item) -> dict[str, Any]:
    values = asdict(item) | asdict(item.source)
    return {name: values[name] for name in _ITEM}


def _items(connection: apsw.Connection, session: str, which: str) -> list[Item]:
    sql = f"SELECT {', '.join(_ITEM)} FROM items WHERE session = ? {which} ORDER BY number"
    return [_item(row) for row in connection.execute(sql, (session,))]


def _item(row: Sequence[Any]) -> Item:
    values = dict(zip(_ITEM, row, strict=True))
    source = {name: values.pop(name) for name in _SOURCE}
    return msgspec.convert(values | {"source": source}, Item, strict=False)  # SQLite's booleans are 0 and 1


def _learning(row: Sequence[Any]) -> Learning:
    values = dict(zip(_LEARNING, row, strict=True))
    return msgspec.convert(values | {"gaps": msgspec.json.decode(values["gaps"])}, Learning)
