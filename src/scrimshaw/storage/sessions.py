"""Sessions in the journals of a project's work trees: every commit is forced to disk."""

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, repeat
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from scrimshaw.errors import NotFound, StorageFailure
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
from scrimshaw.storage.place import describe_work_tree, is_removed
from scrimshaw.storage.ports import Admit, Learning, SessionRecord
from scrimshaw.storage.sql import SqlConnection, SqlDatabase, insert, make_struct, marks

_ITEM = (*(name for name in Item.__struct_fields__ if name != "source"), *ItemSource.__struct_fields__)
_LEARNING = Learning.__struct_fields__
_Value = TypeVar("_Value")
_COLUMNS = [name for name in Session.__struct_fields__ if name != "work_tree"]
_SESSIONS = f"(SELECT rowid, {', '.join(_COLUMNS)}, ? AS work_tree FROM sessions) AS known"
_OBSERVED = ("session", "kind", "tool", "call_id", "path", "failed")  # of an event, as a client reports it
MOST_SHOWN = 100
_NEWEST = "ORDER BY last_event DESC, rowid DESC"
_REOPENED = (
    f"state = CASE WHEN sessions.state = '{SessionState.PURGED}' OR excluded.last_event < sessions.last_event"
    " THEN sessions.state ELSE excluded.state END,"
    " last_event = max(sessions.last_event, excluded.last_event),"
    " client = coalesce(nullif(excluded.client, ''), sessions.client),"
    " process = coalesce(nullif(excluded.process, 0), sessions.process)"
)
_RECORDS = """
SELECT s.id, count(e.number), max(e.number), s.last_event, s.state <> 'active', EXISTS (
    SELECT 1 FROM events WHERE session = s.id AND number > coalesce(d.events, 0)
    AND (kind = 'tool' OR (kind = 'prompt' AND coalesce(d.memory_id, '') = ''))) AND ?, d.*
FROM sessions s JOIN events e ON e.session = s.id LEFT JOIN drafts d ON d.session = s.id
WHERE {} GROUP BY s.id, d.session ORDER BY s.last_event DESC, s.rowid DESC"""
_NEXT_NUMBER = "SELECT 1 + coalesce(max(number), 0) FROM {} WHERE session = ?"
_IS_CHANGE = "kind = 'commit' OR extraction_rule_id = 'edit'"  # of an item
_SUMMED = ", ".join(f"{name} = injected.{name} + excluded.{name}" for name in ("times", "tokens", "hits"))
_MENTIONED = "UPDATE items SET mentions = mentions + 1 WHERE session = ?"


class Sessions:
    """Durable: sessions of all work trees of a repository, their events, and what they were shown.

    A session stays in the journal where it began, wherever it goes on; of duplicates this project's own counts. A
    change of a session or an item that does not exist raises NotFound.
    """

    def __init__(self, database: SqlDatabase, find_others: Callable[[], Iterable[SqlDatabase]] = tuple) -> None:
        self._database, self._find_others = database, find_others

    def _read_all(self, read: Callable[[SqlDatabase], Iterable[_Value]]) -> Iterator[_Value]:
        """The result for each journal, this project's first; unreadable ones of others are skipped."""
        yield from read(self._database)
        for database in self._find_others():
            with suppress(StorageFailure):
                yield from read(database)

    def _find_home(self, session: str) -> SqlDatabase | None:
        """The journal that has a session."""
        known = "SELECT 1 FROM sessions WHERE id = ?"
        if self._database.value(known, (session,)):
            return self._database
        return next(self._read_all(lambda each: [each] if each.value(known, (session,)) else []), None)

    def _home(self, session: str) -> SqlDatabase:
        """The journal that has a session, or this project's for a new one."""
        return self._find_home(session) or self._database

    def _prepare(self, session: Session) -> tuple[SqlDatabase, Session]:
        """The journal of a session, and the session: a new one continues the newest before it, never a later one."""
        if home := self._find_home(session.id):
            return home, session
        before = f"SELECT last_event, id FROM sessions WHERE last_event <= ? {_NEWEST} LIMIT 1"
        earlier = self._read_all(lambda each: each.rows(before, (session.last_event,)))
        _, continues = max(earlier, key=itemgetter(0), default=(0.0, ""))
        return self._database, replace(session, continues=continues)

    def open(
        self, session: str, *, client: str = "", process: int = 0, now: float, silent_since: float | None = None
    ) -> Session:
        """Open the session of this id, active again if it had ended.

        A client or process that is not given stays unchanged. Sessions silent since `silent_since` are interrupted.
        """
        home, new = self._prepare(Session(id=session, client=client, process=process, started=now, last_event=now))
        with home.write() as write:
            if silent_since is not None:
                silent = "UPDATE sessions SET state = 'interrupted' WHERE state = 'active' AND last_event < ?"
                write.execute(silent, (silent_since,))
            return _open(write, new)

    def _select_sessions(self, rest: str, arguments: Sequence[Any], database: SqlDatabase) -> list[Session]:
        work_tree = describe_work_tree(database.path.parent) if database is not self._database else ""
        return database.structs(Session, f"{_SESSIONS} {rest}", (work_tree, *arguments))

    def get(self, session: str) -> Session | None:
        return next(self._read_all(partial(self._select_sessions, "WHERE id = ?", (session,))), None)

    def latest(
        self,
        *,
        before: str = "",
        processes: Sequence[int] | None = None,
        limit: int = 1,
        with_work: bool = False,
        with_changes: bool = False,
    ) -> list[Session]:
        """Sessions except `before`, newest event first; with `processes` only active ones of these clients, 0 for none.

        `with_work` leaves out those without prompts, calls or answers, `with_changes` those without edits and commits.
        """
        where = f"WHERE id <> ? AND state <> '{SessionState.PURGED}'"
        if with_work:
            where += " AND EXISTS (SELECT 1 FROM events WHERE session = id AND kind IN ('prompt', 'tool', 'answer'))"
        if with_changes:
            where += f" AND EXISTS (SELECT 1 FROM items WHERE session = id AND ({_IS_CHANGE}))"
        if processes is not None:
            where += f" AND state = 'active' AND process <> 0 AND process IN ({marks(processes)})"
        arguments = (before, *(processes or ()), limit)
        rows = self._read_all(partial(self._select_sessions, f"{where} {_NEWEST} LIMIT ?", arguments))
        if processes is not None:  # for calls of tools: those of others only if this project has none
            rows = islice(rows, limit)
        found = dict[str, Session]()
        for each in rows:
            found.setdefault(each.id, each)  # of duplicates the one of this project
        return sorted(found.values(), key=attrgetter("last_event"), reverse=True)[:limit]

    def tick(self, session: str, *, now: float, modulus: int, injected: Injected | None = None) -> int:
        """Count one event, and what the model was given with it; returns the new counter, unique for each caller."""
        with self._home(session).write() as write:
            if injected:
                _add_injected(write, injected)
            return _tick(write, session, now, modulus)

    def observe(self, seen: Observation, admit: Admit, *, now: float, modulus: int) -> bool:
        """Open the session, store the event, count calls and prompts, store its item; False if it is a repetition.

        All or nothing, and nothing of a purged session; `admit` decides what working memory keeps. An item that it
        already has, or the same file again, counts as a mention, and an edit replaces what is kept of the file. `end`
        completes the session.
        """
        state = SessionState.COMPLETED if seen.kind is EventKind.END else SessionState.ACTIVE
        session, client, process = seen.session, seen.client, seen.process
        new = Session(id=session, client=client, process=process, state=state, started=now, last_event=now)
        home, new = self._prepare(new)
        with home.write() as write:
            if (opened := _open(write, new)).state is SessionState.PURGED:
                return False
            counter = opened.counter
            if seen.kind in (EventKind.START, EventKind.COMPACT):  # what was shown is no longer in the context
                write.execute("DELETE FROM shown WHERE session = ?", (session,))
            event = dict(zip(_OBSERVED, attrgetter(*_OBSERVED)(seen), strict=True))
            number = write.execute(_NEXT_NUMBER.format("events"), (session,)).get
            event |= {"number": number, "text": seen.text.text, "at": now}
            insert(write, "events", event, "ON CONFLICT DO NOTHING")
            if not write.changes():
                return False
            if seen.kind in (EventKind.TOOL, EventKind.PROMPT):
                counter = _tick(write, session, now, modulus)
            if seen.task is not None or seen.context_used is not None:
                write.execute(  # the first prompt is a session's task; how full the context is changes
                    "UPDATE sessions SET task = coalesce(nullif(task, ''), ?, ''),"
                    " context_used = coalesce(?, context_used) WHERE id = ?",
                    (seen.task.text if seen.task else None, seen.context_used, session),
                )
            if seen.injected:
                _add_injected(write, seen.injected)
            if seen.item:
                _take_in(write, session, seen.item, admit, now, counter % modulus)
        return True

    def events(self, session: str, *kinds: EventKind, last: int = 2**62) -> list[RecordedEvent]:
        """The last events of a session in order, all if no number is given, of all kinds or of these."""
        which = f"AND kind IN ({marks(kinds)})" if kinds else ""
        rest = f"events WHERE session = ? {which} ORDER BY number DESC LIMIT ?"
        return self._home(session).structs(RecordedEvent, rest, (session, *kinds, last))[::-1]

    def find_calls(self, words: Sequence[str], limit: int) -> list[RecordedEvent]:
        """Calls and prompts of all sessions by how many of these words they have, ignoring case, then the newest."""
        count = " + ".join(["CASE WHEN text LIKE ? THEN 1 ELSE 0 END"] * len(words)) or "0 + 0"
        which = f"{count} > 0 ORDER BY {count} DESC, at DESC, number DESC LIMIT ?"
        rest = f"events WHERE kind IN ('tool', 'prompt') AND {which}"
        patterns = [f"%{word}%" for word in words]
        found = self._read_all(lambda each: each.structs(RecordedEvent, rest, (*patterns, *patterns, limit)))
        lower = [*map(str.lower, words)]
        return sorted(found, key=lambda x: (sum(word in x.text.lower() for word in lower), x.at), reverse=True)[:limit]

    def records(self, session: str = "") -> list[SessionRecord]:
        """The extent of the record of every session with events, or of one, newest session first."""
        which = "s.id = ?" if session else "? = ''"

        def read(database: SqlDatabase) -> Iterable[tuple[Any, ...]]:
            # In a removed work tree nobody is left to draft its sessions.
            is_ours = database is self._database or is_removed(describe_work_tree(database.path.parent))
            return database.rows(_RECORDS.format(which), (is_ours, session))

        found = dict[str, SessionRecord]()
        for row in self._read_all(read):
            draft = make_struct(Drafted, row[6:]) if row[6] else None
            found.setdefault(row[0], SessionRecord._make((*row[:6], draft)))
        return sorted(found.values(), key=attrgetter("at"), reverse=True)

    def mention(self, session: str, number: int) -> None:
        """Add 1 to the mentions of an item; neither its base nor its clock changes."""
        with self._home(session).write() as write:
            write.execute(f"{_MENTIONED} AND number = ?", (session, number))
            if not write.changes():
                raise NotFound(f"Session {session!r} has no item {number}.", "List its items.", session=session)

    def items(self, session: str, *, held: bool = False) -> list[Item]:
        """The items of a session in order; with `held` only those in working memory."""
        with self._home(session).lend() as connection:
            return _items(connection, session, "AND held" if held else "")

    def record_draft(self, draft: Drafted) -> None:
        """Store or replace the state of a session's last draft."""
        with self._home(draft.session).write() as write:
            write.execute("DELETE FROM drafts WHERE session = ?", (draft.session,))
            insert(write, "drafts", asdict(draft))

    def mark_shown(
        self, session: str, hashes: Mapping[str, str], *, now: float, injected: Injected | None = None
    ) -> None:
        """Store that the session was shown these (id -> digest of the passage), and what it was given with them."""
        if (home := self._find_home(session)) is None:
            raise _absence_error(session)
        with home.write() as write:
            write.executemany(
                "INSERT INTO shown (session, memory_id, content_hash, at) VALUES (?,?,?,?) "
                "ON CONFLICT (session, memory_id) DO UPDATE SET content_hash = excluded.content_hash, at = excluded.at",
                zip(repeat(session), hashes.keys(), hashes.values(), repeat(now)),
            )
            if injected:
                _add_injected(write, injected)

    def hashes_shown(self, session: str, *, since: float = 0.0, until: float = math.inf) -> dict[str, str]:
        """The last 100 things that the session was shown from then to then, in its context of now: id -> digest."""
        sql = "SELECT memory_id, content_hash FROM shown WHERE session = ? AND at BETWEEN ? AND ?"
        return dict(self._home(session).rows(f"{sql} ORDER BY at DESC LIMIT ?", (session, since, until, MOST_SHOWN)))

    def injections(self, session: str = "") -> list[Injected]:
        """What the model of a session, or of every session, was given, summed by session and occasion, in order."""
        rest = "injected WHERE ? IN ('', session) ORDER BY session, occasion"
        return [*self._read_all(lambda each: each.structs(Injected, rest, (session,)))]

    def record_learning(self, row: Learning) -> None:
        """Store or replace the pre- or postflight of a task."""
        with self._database.write() as write:
            same = "DELETE FROM learnings WHERE folder = ? AND task = ? AND phase = ?"
            write.execute(same, (row.folder, row.task, row.phase))
            insert(write, "learnings", asdict(row) | {"gaps": msgspec.json.encode(row.gaps).decode()})

    def learnings(self, folder: str, *, session: str = "") -> list[Learning]:
        """Pre- and postflights of a folder's tasks, newest first."""
        which = "folder = ? AND ? IN ('', session) ORDER BY at DESC, rowid DESC"
        sql = f"SELECT {', '.join(_LEARNING)} FROM learnings WHERE {which}"
        rows = [dict(zip(_LEARNING, row, strict=True)) for row in self._database.rows(sql, (folder, session))]
        return [msgspec.convert(row | {"gaps": msgspec.json.decode(row["gaps"])}, Learning) for row in rows]


def _open(write: SqlConnection, session: Session) -> Session:
    """Open or revive a session."""
    values = dict(zip(_COLUMNS, attrgetter(*_COLUMNS)(session), strict=True))
    rest = f"ON CONFLICT (id) DO UPDATE SET {_REOPENED} RETURNING {', '.join(_COLUMNS)}, ''"
    return make_struct(Session, insert(write, "sessions", values, rest).fetchall()[0])


def _tick(write: SqlConnection, session: str, now: float, modulus: int) -> int:
    """Count an event of a session; returns the new counter. Raises NotFound."""
    counted = "UPDATE sessions SET counter = (counter + 1) % ?, last_event = max(last_event, ?) WHERE id = ?"
    counter = write.execute(f"{counted} RETURNING counter", (modulus, now, session)).get
    if counter is None:
        raise _absence_error(session)
    return int(counter)


def _absence_error(session: str) -> NotFound:
    return NotFound(f"There is no session {session!r}.", "Open it first.", session=session)


def _take_in(write: SqlConnection, session: str, new: NewItem, admit: Admit, now: float, counter: int) -> None:
    """Remember an item, or count a mention of the held one that says the same; an edited file as it is edited now."""
    new = replace(new, attention=min(1.0, max(0.0, new.attention)))
    same = "held AND kind = ? AND (text = ? OR (kind = 'file' AND path <> '' AND path = ?))"
    known = (session, new.kind, new.text.text, new.path)
    write.execute(f"{_MENTIONED} AND {same}", known)
    if write.changes() and new.source.extraction_rule_id == "edit":
        newer = {"text": new.text.text, "attention": new.attention, "event": counter, "at": now, **asdict(new.source)}
        columns = ", ".join(f"{name} = ?" for name in newer)
        write.execute(f"UPDATE items SET {columns} WHERE session = ? AND {same}", (*newer.values(), *known))
    elif not write.changes():
        admission = admit(_items(write, session, "AND held"), new, counter)
        for leaving in admission.leaving:
            write.execute("UPDATE items SET held = false WHERE session = ? AND number = ?", (session, leaving))
        values = asdict(new) | {"text": new.text.text, "session": session, "event": counter, "at": now}
        values |= asdict(values.pop("source")) | {"number": write.execute(_NEXT_NUMBER.format("items"), (session,)).get}
        insert(write, "items", values | {"mentions": 0, "held": admission.admitted})


def is_running(session: Session) -> bool:
    """Whether the session's client still runs, and its number does not belong to a process that began later."""
    with suppress(OSError):  # after the name, which may contain anything, the twentieth field tells when it began
        ticks = Path(f"/proc/{session.process}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
        return time.time() - uptime_s + int(ticks) / os.sysconf("SC_CLK_TCK") <= session.last_event
    return False


def _add_injected(write: SqlConnection, row: Injected) -> None:
    rest = f"ON CONFLICT (session, occasion) DO UPDATE SET {_SUMMED}, at = max(injected.at, excluded.at)"
    insert(write, "injected", asdict(row), rest)


def _items(connection: SqlConnection, session: str, which: str) -> list[Item]:
    sql = f"SELECT {', '.join(_ITEM)} FROM items WHERE session = ? {which} ORDER BY number"
    items = []
    for values in connection.execute(sql, (session,)):
        row = dict(zip(_ITEM, values, strict=True))
        items.append(msgspec.convert({**row, "source": row}, Item, strict=False))  # SQLite's booleans are 0 and 1
    return items
