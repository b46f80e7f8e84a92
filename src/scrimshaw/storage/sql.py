"""SQL that every engine with SQL shares: filters as conditions, rows as memories, dates as they are compared."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from scrimshaw.errors import InvalidRequest
from scrimshaw.models import Filters, Memory, Tier

_PLAIN = (
    "id", "source", "path", "title", "type", "tier", "artifact", "created", "updated", "content_hash", "tokens",
    "label_tokens", "length", "writable",
)  # fmt: skip
MEMORY_COLUMNS = f"m.{', m.'.join(_PLAIN)}, m.triggers, m.topics, m.origin, m.trust, m.session, m.quality, m.flags"
SORTS = {
    "id": "m.id",
    "title": "m.title, m.id",
    "created": "m.created DESC, m.id",
    "updated": "m.updated DESC, m.id",
}
GROUPS = {
    "": "''",
    "tier": "m.tier",
    "type": "m.type",
    "artifact": "m.artifact",
    "source": "m.source",
    "folder": "CASE WHEN instr(m.id, '/') THEN substr(m.id, 1, instr(m.id, '/') - 1) ELSE '' END",
    "topic": "t.topic",
}
# A date alone begins its day; what ends in Z would come behind its own fractions of a second.
_UPDATED = "rtrim(CASE length(m.updated) WHEN 10 THEN m.updated || 'T00:00:00' ELSE m.updated END, 'Z')"
_YEAR_OR_MONTH = re.compile(r"\d{4}(-\d\d)?")
_DAY_LENGTH = len("2026-11-21")


def conditions(filters: Filters) -> tuple[str, list[Any]]:
    """The filters as a condition on `memories m`, with its arguments; `1` when nothing restricts.

    Raises InvalidRequest for an impossible date.
    """
    parts: list[str] = []
    arguments: list[Any] = []

    def add(condition: str, *values: Any) -> None:
        parts.append(condition)
        arguments.extend(values)

    for column, wanted in (("tier", filters.tiers), ("type", filters.types), ("artifact", filters.artifacts)):
        if wanted:
            add(f"m.{column} IN ({marks(wanted)})", *map(str, wanted))
    if not filters.include_deprecated and Tier.DEPRECATED not in filters.tiers:
        add("m.tier <> 'deprecated'")
    for topic in filters.topics:
        add("m.row IN (SELECT memory FROM topics WHERE topic = ?)", topic.casefold())
    _add_ranges(filters, add)
    if filters.only is not None:
        add(f"m.id IN ({marks(filters.only)})", *filters.only)
    if filters.exclude:
        add(f"m.id NOT IN ({marks(filters.exclude)})", *filters.exclude)
    return " AND ".join(parts) or "1", arguments


def _add_ranges(filters: Filters, add: Any) -> None:
    if filters.folder:
        folder = filters.folder.rstrip("/")
        add("(m.id = ? OR substr(m.id, 1, ?) = ?)", folder, len(folder) + 1, folder + "/")
    if filters.source:
        add("m.source = ?", filters.source)
    if filters.since:
        add(f"{_UPDATED} >= ?", earliest(filters.since))
    if filters.until:
        # What bears no date is not known to be old.
        add(f"m.updated <> '' AND {_UPDATED} <= ?", latest(filters.until))
    if filters.min_quality_score is not None:
        # A file written by hand is never hidden, whatever it scores.
        add("(m.origin = 'file' OR m.quality IS NULL OR m.quality >= ?)", filters.min_quality_score)


def marks(values: Collection[Any]) -> str:
    """As many question marks as there are values."""
    return ",".join("?" * len(values))


def memory(row: Sequence[Any]) -> Memory:
    """A row of MEMORY_COLUMNS as a Memory."""
    *plain, triggers, topics, origin, trust, session, quality, flags = row
    values = dict(zip(_PLAIN, plain, strict=True)) | {
        "triggers": msgspec.json.decode(triggers),
        "topics": msgspec.json.decode(topics),
        "provenance": {"source": origin, "trust": trust, "session": session},
        "quality": None if quality is None else {"score": quality, "flags": msgspec.json.decode(flags)},
    }
    return msgspec.convert(values, Memory, strict=False)  # SQLite's booleans are 0 and 1


def earliest(date: str) -> str:
    """The first moment of a year, month or day, or the moment itself, in UTC; raises InvalidRequest for no date."""
    return _first_moment(date).isoformat()


def latest(date: str) -> str:
    """The last moment of a year, month or day, or the moment itself, in UTC; raises InvalidRequest for no date."""
    begin = _first_moment(date)
    if len(date) > _DAY_LENGTH:
        return begin.isoformat()
    if not _YEAR_OR_MONTH.fullmatch(date):
        return begin.replace(hour=23, minute=59, second=59, microsecond=999_999).isoformat()
    is_year = len(date) == len("2026")
    year, month = (begin.year + 1, 1) if is_year or begin.month == 12 else (begin.year, begin.month + 1)
    if year > datetime.max.year:
        return datetime.max.isoformat()
    return (datetime(year, month, 1) - timedelta.resolution).isoformat()


def _first_moment(date: str) -> datetime:
    whole = f"{date}-01-01"[:_DAY_LENGTH] if _YEAR_OR_MONTH.fullmatch(date) else date
    try:
        found = datetime.fromisoformat(whole)
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(
            f"{date!r} is no ISO date.", "Give a date such as 2026-11-21 or 2026-11-21T08:00:00Z.", date=date
        ) from error
