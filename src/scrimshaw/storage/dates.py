"""The dates that somebody asks for, as `updated` is compared with them: in UTC, with every part of the time told."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from scrimshaw.errors import InvalidRequest

# A date alone begins its day; what ends in Z would come behind its own fractions of a second.
COMPARED = "rtrim(CASE length(m.updated) WHEN 10 THEN m.updated || 'T00:00:00' ELSE m.updated END, 'Z')"

_SHORT = re.compile(r"\d{4}(-\d\d)?")
_DAY = 10


def earliest(date: str) -> str:
    """The first moment of a year, month or day, or the moment itself; without a zone it is UTC.

    Raises InvalidRequest for what is no date.
    """
    return _told(_begin(date, date))


def latest(date: str) -> str:
    """The last moment of a year, month or day, or the moment itself; without a zone it is UTC.

    Raises InvalidRequest for what is no date.
    """
    begin = _begin(date, date)
    if len(date) > _DAY:
        return _told(begin)
    if _SHORT.fullmatch(date):
        is_year = len(date) == len("2026")
        year, month = (begin.year + 1, 1) if is_year or begin.month == 12 else (begin.year, begin.month + 1)
        if year > datetime.max.year:
            return _told(datetime.max)
        return _told(datetime(year, month, 1) - timedelta.resolution)
    return _told(begin.replace(hour=23, minute=59, second=59, microsecond=999_999))


def _begin(date: str, asked: str) -> datetime:
    if _SHORT.fullmatch(date):
        return _begin(f"{date}-01-01"[:_DAY], asked)
    try:
        found = datetime.fromisoformat(date)
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(
            f"{asked!r} is no ISO date.", "Give a date such as 2026-11-21 or 2026-11-21T08:00:00Z.", date=asked
        ) from error


def _told(moment: datetime) -> str:
    return moment.isoformat()
