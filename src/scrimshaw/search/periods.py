"""The days that a question names: "yesterday", "last week", "on Monday", "in March", "2026-11-24"."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, time, timedelta

from msgspec import Struct

from scrimshaw.models import format_time

LONGEST_QUESTION = 300  # characters
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NEAR = {"today": 0, "this morning": 0, "this afternoon": 0, "yesterday": 1, "last night": 1, "day before yesterday": 2}
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "couple of": 2, "three": 3, "few": 3, "four": 4, "five": 5, "six": 6}
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


class Period(Struct, frozen=True):
    """The days that a question names, by the clock here."""

    start: str  #: their first moment, ISO time in UTC
    end: str  #: the moment after the last one
    rest: str  #: the question without the words that name the days

    def includes(self, time: str) -> bool:
        """Whether an ISO time in UTC is on one of the days."""
        return self.start <= time < self.end


def find_period(question: str, now: float) -> Period | None:
    """The days that a question names, or None; without a year or a week those that came last before `now`, in seconds.

    A day is that of the clock here. Dates in a long text are part of what it tells. Two days, "before July 8" and "the
    week of July 6" are not understood.
    """
    today, text = date.fromtimestamp(now), " ".join(question.lower().split())
    if len(text) > LONGEST_QUESTION:
        return None
    for pattern, (read, needs_word) in _READERS.items():
        named = list[tuple[re.Match[str], re.Match[str] | None]]()
        for each in pattern.finditer(text):
            before = _BEFORE.search(text, max(0, each.start() - _LONGEST_BEFORE), each.start())
            named += [(each, before)] if before or not needs_word else []
        if not named:
            continue
        (found, before), *others = named
        if others or _UNLESS.search(text, 0, found.start()):
            return None
        with suppress(ValueError, OSError):  # no such day: "February 30"
            start, end = read(today, **found.groupdict(""))
            end = today + timedelta(1) if before and before[1] == "since" else end
            first, after = (format_time(datetime.combine(day, time.min).timestamp()) for day in (start, end))
            rest = f"{text[: before.start() if before else found.start()]} {text[found.end() :]}"
            return Period(first, after, " ".join(rest.split()))
    return None


def _read_near(today: date, near: str) -> tuple[date, date]:
    start = today - timedelta(_NEAR[near])
    return start, start + timedelta(1)


def _read_ago(today: date, count: str, unit: str) -> tuple[date, date]:
    """Three days ago is that day, two weeks ago up to six days before or after it, two months ago a calendar month."""
    if unit == "month":
        return _find_month(today.year, today.month - _read_count(count))
    day, slack = today - timedelta(_read_count(count) * _DAYS[unit]), _DAYS[unit] - 1
    return day - timedelta(slack), day + timedelta(slack + 1)


def _read_recent(today: date, count: str, unit: str) -> tuple[date, date]:
    return today - timedelta(_read_count(count) * _DAYS[unit]), today + timedelta(1)


def _read_calendar(today: date, which: str, unit: str) -> tuple[date, date]:
    if which == "past":
        return today - timedelta(_DAYS[unit]), today + timedelta(1)
    ago = int(which != "this")
    if unit == "month":
        return _find_month(today.year, today.month - ago)
    if unit == "year":
        return date(today.year - ago, 1, 1), date(today.year - ago + 1, 1, 1)
    monday = today - timedelta(today.weekday() + 7 * ago)
    return monday, monday + timedelta(7)


def _read_weekday(today: date, weekday: str) -> tuple[date, date]:
    """The last day of this name before today."""
    start = today - timedelta((today.weekday() - _WEEKDAYS.index(weekday[:3]) - 1) % 7 + 1)
    return start, start + timedelta(1)


def _read_date(today: date, month: str, day: str = "", year: str = "") -> tuple[date, date]:
    """A day, or without one a month, by number or name; without a year the last one that is not in the future."""
    number = int(month) if month.isdecimal() else _MONTHS.index(month[:3]) + 1
    if not day:
        return _find_month(int(year or today.year - (number > today.month)), number)
    start = date(int(year or today.year), number, int(day))
    if not year and start > today:
        start = date(today.year - 1, number, int(day))
    return start, start + timedelta(1)


def _find_month(year: int, month: int) -> tuple[date, date]:
    """The first day of a month, and of the next one; month 0 is December of the year before."""
    months = year * 12 + month - 1
    return date(months // 12, months % 12 + 1, 1), date((months + 1) // 12, (months + 1) % 12 + 1, 1)


def _read_count(number: str) -> int:
    return int(number) if number.isdecimal() else _COUNTS[number]


def _compile(body: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){body}(?:'s)?(?![\w-])")


_AGO = rf"(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)}) (?P<unit>day|week|month)s?"
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?", r"(?P<year>20\d\d)"
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAY = "(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
_LONGEST_BEFORE = 12  # characters of "within last "
_BEFORE = re.compile(r"(?<!\w)(since|on|in|of|from|by|during|for|over|within|last)(?: the| last)? $")
_UNLESS = re.compile(r"(?<!\w)(?:before|after|until|till|through|than|to|between|week of|day of)(?: the)? $")
# By pattern: the function that reads it, and whether it names days only after such a word, as "may" and a "Sunday".
_READERS: dict[re.Pattern[str], tuple[Callable[..., tuple[date, date]], bool]] = {
    _compile(rf"{_YEAR}-(?P<month>\d\d)(?:-(?P<day>\d\d))?"): (_read_date, False),
    _compile(rf"{_DAY}(?P<month>\d{{1,2}})\.{_YEAR}"): (_read_date, False),
    _compile(rf"{_MONTH}\.? {_DAY}(?:,? {_YEAR})?"): (_read_date, False),
    _compile(rf"{_DAY} (?:of )?(?!may [a-z]){_MONTH}(?: {_YEAR})?"): (_read_date, False),
    _compile(rf"{_MONTH}\.?(?: of|,)? {_YEAR}"): (_read_date, False),
    _compile(_MONTH): (_read_date, True),
    _compile(rf"(?P<near>{'|'.join(_NEAR)})"): (_read_near, False),
    _compile(rf"{_AGO} (?:ago|back)"): (_read_ago, False),
    _compile(rf"(?:last|past) {_AGO}"): (_read_recent, False),
    _compile("(?P<which>this|last|past|previous) (?P<unit>week|month|year)"): (_read_calendar, False),
    _compile(_WEEKDAY): (_read_weekday, True),
}
