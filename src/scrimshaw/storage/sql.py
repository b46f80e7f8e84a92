"""Code shared by the SQL engines: their port, filters as conditions, rows as structs, comparable dates."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from scrimshaw.errors import DamagedDatabase, InvalidRequest, NewerDatabase
from scrimshaw.models import RECORD, Filters, Memory, Tier

_Value = TypeVar("_Value")
_Row = TypeVar("_Row", bound=msgspec.Struct)


class Rows(Protocol):
    @property
    def get(self) -> Any:
        """The first column of the first row, the whole row if it has several columns, or None."""

    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Protocol):
    """A connection that runs statements, with `?` for each argument."""

    def execute(self, statements: str, bindings: Any = (), /) -> Rows: ...
    def executemany(self, statements: str, bindings: Iterable[Sequence[Any]], /) -> Any: ...
    def changes(self) -> int:
        """How many rows the last statement changed."""


class SqlDatabase(ABC):
    """A database that lends connections, in SQLite or PostgreSQL."""

    REPAIR: ClassVar[str]  #: what to do about a damaged journal
    path: Path
    schema: str  #: of which tables it has: `index`, `journal` or `vectors`
    openings: int

    @abstractmethod
    def lend(self) -> AbstractContextManager[SqlConnection]:
        """Lend a connection for one piece of work; errors of the database are raised as StorageFailure."""

    @abstractmethod
    def write(self) -> AbstractContextManager[SqlConnection]:
        """A transaction: committed when the block ends, undone when it raises."""

    @abstractmethod
    def rows(self, sql: str, arguments: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query, as tuples."""

    @abstractmethod
    def size_bytes(self) -> int:
        """Bytes on disk, with logs and indexes."""

    def explain_damage(self, error: Exception) -> DamagedDatabase:
        """The failure for contents that cannot be used."""
        hint = "Run `scrimshaw rebuild`." if self.schema == "index" else self.REPAIR
        message = f"{self.path} is damaged, or was made by another version: {' '.join(str(error).split())}."
        return DamagedDatabase(message, hint, path=str(self.path))

    def explain_newer(self, newest: int, known: int, hint: str) -> NewerDatabase:
        """The failure for the schema of a later version, which is left as it is."""
        message = f"{self.path} was changed by a newer version of Scrimshaw: its schema is {newest}, the newest this "
        return NewerDatabase(f"{message}version knows is {known}. It was left as it is.", hint, path=str(self.path))

    def read(self, sql: str, arguments: Sequence[Any], make: Callable[[Sequence[Any]], _Value]) -> list[_Value]:
        """The result of `make` for the rows of a query; a row it cannot use counts as damage."""
        rows = self.rows(sql, arguments)
        try:
            return list(map(make, rows))
        except (ValueError, TypeError, msgspec.DecodeError) as error:
            raise self.explain_damage(error) from error

    def structs(self, kind: type[_Row], rest: str, arguments: Sequence[Any] = ()) -> list[_Row]:
        """The rows of the table that `rest` begins with, as structs of its columns."""
        sql = f"SELECT {', '.join(kind.__struct_fields__)} FROM {rest}"
        return self.read(sql, arguments, partial(make_struct, kind))

    def value(self, sql: str, arguments: Sequence[Any] = ()) -> Any:
        """The first column of the first row, the whole row if it has several columns, or None."""
        row = next(iter(self.rows(sql, arguments)), None)
        return row[0] if row and len(row) == 1 else row


_PLAIN = (
    "id", "source", "path", "title", "type", "tier", "artifact", "created", "updated", "content_hash", "tokens",
    "length", "writable",
)  # fmt: skip
_COMPOSED = ("triggers", "topics", "questions", "origin", "trust", "session", "quality", "flags")
MEMORY_COLUMNS = ", ".join(f"m.{name}" for name in (*_PLAIN, *_COMPOSED))
# When a memory says it last changed, or otherwise was created. A bare date means the start of its day; one with Z
# would sort after its own fractions of a second.
_STATED = "coalesce(nullif(m.updated, ''), m.created)"
_CHANGED = f"rtrim(CASE length({_STATED}) WHEN 10 THEN {_STATED} || 'T00:00:00' ELSE {_STATED} END, 'Z')"
_FILE_CHANGED = (  # a file that says neither has the time of its last change on disk
    "(SELECT strftime('%Y-%m-%dT%H:%M:%S', f.mtime_ns / 1000000000, 'unixepoch') FROM files f WHERE f.path = m.path)"
)
_BELOW = "(m.id = ? OR substr(m.id, 1, ?) = ?)"
_IN_FOLDER = f"({_BELOW} OR instr('/' || m.id, ?) > 0 AND NOT EXISTS (SELECT 1 FROM memories m WHERE {_BELOW}))"
_TOPIC = "m.row IN (SELECT memory FROM topics WHERE topic = ?)"
_YEAR_OR_MONTH = re.compile(r"\d{4}(-\d\d)?")
_DAY_LENGTH = len("2026-11-21")


def conditions(filters: Filters) -> tuple[str, list[Any]]:
    """The filters as a condition on `memories m`, or `true`, with arguments; InvalidRequest for an impossible date."""
    tiers, folder, only, least = filters.tiers, filters.folder.strip("/"), filters.only, filters.min_quality_score
    below = folder, len(folder) + 1, f"{folder}/"
    since, until = filters.since and earliest(filters.since), filters.until and latest(filters.until)
    restrictions: list[tuple[object, str, Collection[Any]]] = [  # whether each applies, the condition, its arguments
        (tiers, f"m.tier IN ({marks(tiers)})", tiers),
        (filters.types, f"m.type IN ({marks(filters.types)})", filters.types),
        (filters.artifacts, f"m.artifact IN ({marks(filters.artifacts)})", filters.artifacts),
        (not filters.include_deprecated and Tier.DEPRECATED not in tiers, "m.tier <> 'deprecated'", ()),
        *((True, _TOPIC, (topic.casefold(),)) for topic in filters.topics),
        (filters.folder, _IN_FOLDER, (*below, f"/{folder}/", *below)),
        (filters.source, "m.source = ?", (filters.source,)),
        (not filters.source, f"m.source <> '{RECORD}'", ()),
        (since, f"coalesce(nullif({_CHANGED}, ''), {_FILE_CHANGED}) >= ?", (since,)),
        (until, f"{_STATED} <> '' AND {_CHANGED} <= ?", (until,)),  # a memory without a date is not known to be old
        # A file written by hand is never hidden, whatever its score.
        (least is not None, "(m.origin = 'file' OR m.quality IS NULL OR m.quality >= ?)", (least,)),
        (only is not None, f"m.id IN ({marks(only or ())})", only or ()),
        (filters.exclude, f"m.id NOT IN ({marks(filters.exclude)})", filters.exclude),
    ]
    parts, arguments = list[str](), list[Any]()
    for applies, condition, values in restrictions:
        if applies:
            parts.append(condition)
            arguments.extend(values)
    return " AND ".join(parts) or "true", arguments


@cache
def read_migrations(folder: Path) -> list[tuple[int, str, str]]:
    """(number, name, SQL) of the numbered files in a folder, in order."""
    files = sorted(folder.iterdir())
    return [(int(file.name.split("_")[0]), file.name, file.read_text(encoding="utf-8")) for file in files]


def insert(write: SqlConnection, table: str, values: Mapping[str, Any], rest: str = "") -> Rows:
    """Insert a row of these values by column; `rest` says what to do in a conflict and what to return."""
    put = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks(values)}) {rest}"
    return write.execute(put, tuple(values.values()))


def make_struct(kind: type[_Row], row: Sequence[Any]) -> _Row:
    """A row of a struct's columns as that struct; SQLite's booleans are 0 and 1."""
    return msgspec.convert(dict(zip(kind.__struct_fields__, row, strict=True)), kind, strict=False)


def marks(values: Collection[Any]) -> str:
    """As many question marks as there are values."""
    return ",".join("?" * len(values))


def memory(row: Sequence[Any]) -> Memory:
    """A row of MEMORY_COLUMNS as a Memory."""
    values, read = dict(zip(_PLAIN, row, strict=False)), msgspec.json.decode
    triggers, topics, questions, origin, trust, session, quality, flags = row[len(_PLAIN) :]
    values["triggers"], values["topics"] = read(triggers), read(topics)
    values["questions"] = read(questions) if questions else ()
    values["provenance"] = {"source": origin, "trust": trust, "session": session}
    values["quality"] = None if quality is None else {"score": quality, "flags": read(flags)}
    return msgspec.convert(values, Memory, strict=False)  # SQLite's booleans are 0 and 1


def earliest(date: str) -> str:
    """The first moment of a year, month or day, or the moment itself, in UTC; raises InvalidRequest for no date."""
    whole = f"{date}-01-01"[:_DAY_LENGTH] if _YEAR_OR_MONTH.fullmatch(date) else date
    try:
        found = datetime.fromisoformat(whole)
        return (found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found).isoformat()
    except (ValueError, OverflowError) as error:
        hint = "Give a date such as 2026-11-21 or 2026-11-21T08:00:00Z."
        raise InvalidRequest(f"{date!r} is not an ISO date.", hint, date=date) from error


def latest(date: str) -> str:
    """The last moment of a year, month or day, or the moment itself, in UTC; raises InvalidRequest for no date."""
    begin = earliest(date)
    if len(date) > _DAY_LENGTH:
        return begin
    # Dates are compared as texts: no day of any month comes behind its 31st.
    day = date + "-12-31"[len(date) - 4 :] if _YEAR_OR_MONTH.fullmatch(date) else begin[:_DAY_LENGTH]
    return f"{day}T23:59:59.999999"
