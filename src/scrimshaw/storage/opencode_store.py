"""Where OpenCode keeps its sessions: a SQLite database, before 1.2 a tree of JSON files. Read, never written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from scrimshaw.errors import UnreadableFile

DATABASE = "opencode.db"
TREE = "storage"
_BUSY_MS = 3000

_SESSIONS = "SELECT id, coalesce(parent_id, ''), directory, time_created FROM session ORDER BY time_created, id"
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY message_id, id"


class OpenCodeSession(Struct, frozen=True, kw_only=True):
    """A session as OpenCode lists it; `parent` is the session that started it as a sub-agent, or empty.

    `created` is in seconds since 1970.
    """

    id: str
    parent: str
    directory: str
    created: float


def holds_sessions(folder: Path) -> bool:
    """Whether a folder is OpenCode's data folder."""
    return (folder / DATABASE).is_file() or (folder / TREE).is_dir()


def opencode_sessions(folder: Path) -> list[OpenCodeSession]:
    """The sessions in OpenCode's data folder, oldest first; none where it holds none. Raises UnreadableFile."""
    if (folder / DATABASE).is_file():
        return [_listed(*row) for row in _rows(folder, _SESSIONS)]
    about = (_json(path) for path in sorted((folder / TREE / "session").glob("*/*.json")))
    found = [_session(each) for each in about if isinstance(each.get("id"), str)]
    return sorted(found, key=lambda session: (session.created, session.id))


def opencode_export(folder: Path, session: OpenCodeSession) -> str:
    """A session as `{"info": ..., "messages": [{"info": ..., "parts": [...]}]}`; raises UnreadableFile."""
    info = {"id": session.id, "parentID": session.parent, "directory": session.directory}
    read = _messages_in_database if (folder / DATABASE).is_file() else _messages_in_tree
    return msgspec.json.encode({"info": info, "messages": list(read(folder, session.id))}).decode()


def _messages_in_database(folder: Path, session: str) -> Iterator[Mapping[str, Any]]:
    parts: dict[str, list[Any]] = {}
    for message, data in _rows(folder, _PARTS, session):
        parts.setdefault(message, []).append(_decoded(data))
    for message, data in _rows(folder, _MESSAGES, session):
        yield {"info": _decoded(data), "parts": parts.get(message, [])}


def _messages_in_tree(folder: Path, session: str) -> Iterator[Mapping[str, Any]]:
    tree = folder / TREE
    for path in sorted((tree / "message" / session).glob("*.json")):
        about = _json(path)
        parts = sorted((tree / "part" / str(about.get("id", path.stem))).glob("*.json"))
        yield {"info": about, "parts": [_json(part) for part in parts]}


def _rows(folder: Path, sql: str, *arguments: str) -> list[tuple[Any, ...]]:
    path = folder / DATABASE
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(_BUSY_MS)
            return connection.execute(sql, arguments).fetchall()
        finally:
            connection.close()
    except apsw.Error as error:
        raise UnreadableFile(
            f"{path} cannot be read: {error}.", "Export a session with `opencode export` and import that file."
        ) from error


def _session(about: Mapping[str, Any]) -> OpenCodeSession:
    times = about.get("time")
    created = times.get("created") if isinstance(times, Mapping) else 0
    return _listed(str(about["id"]), about.get("parentID"), about.get("directory"), created)


def _listed(name: str, parent: object, directory: object, created_ms: object) -> OpenCodeSession:
    return OpenCodeSession(
        id=name,
        parent=str(parent or ""),
        directory=str(directory or ""),
        created=created_ms / 1000 if isinstance(created_ms, int | float) else 0.0,
    )


def _json(path: Path) -> Mapping[str, Any]:
    try:
        return _decoded(path.read_bytes())
    except OSError:
        return {}


def _decoded(raw: bytes | str) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}
