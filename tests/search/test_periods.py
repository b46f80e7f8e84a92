"""The days that a question names."""

from __future__ import annotations

import time

import pytest

from scrimshaw.search.periods import LONGEST_QUESTION, find_period

NOW = time.mktime((2026, 11, 29, 12, 0, 0, 0, 0, -1))  # a Sunday


def iso(day: str) -> str:
    """The first moment of a day here, as an ISO time in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.mktime(time.strptime(day, "%Y-%m-%d"))))


@pytest.mark.parametrize(
    ("question", "start", "end", "rest"),
    [
        ("What did we do yesterday?", "2026-11-28", "2026-11-29", "what did we do ?"),
        ("what did I do today", "2026-11-29", "2026-11-30", "what did i do"),
        ("the day before yesterday", "2026-11-27", "2026-11-28", "the"),
        ("why did we drop the cache last week", "2026-11-16", "2026-11-23", "why did we drop the cache"),
        ("this week", "2026-11-23", "2026-11-30", ""),
        ("last year", "2025-01-01", "2026-01-01", ""),
        ("on Monday", "2026-11-23", "2026-11-24", ""),
        ("last Sunday", "2026-11-22", "2026-11-23", ""),
        ("what changed since Friday", "2026-11-27", "2026-11-30", "what changed"),
        ("since 2026-11-20", "2026-11-20", "2026-11-30", ""),
        ("what changed since last Friday", "2026-11-27", "2026-11-30", "what changed"),
        ("in the past week", "2026-11-22", "2026-11-30", ""),
        ("Nov. 24", "2026-11-24", "2026-11-25", ""),
        ("July of 2025", "2025-07-01", "2025-08-01", ""),
        ("why may it break in March", "2026-03-01", "2026-04-01", "why may it break"),
        ("3 days ago", "2026-11-26", "2026-11-27", ""),
        ("two weeks ago", "2026-11-09", "2026-11-22", ""),
        ("a month ago", "2026-10-01", "2026-11-01", ""),
        ("in the last few days", "2026-11-26", "2026-11-30", ""),
        ("2026-11-24 release", "2026-11-24", "2026-11-25", "release"),
        ("2026-03", "2026-03-01", "2026-04-01", ""),
        ("24.11.2026", "2026-11-24", "2026-11-25", ""),
        ("the incident in March", "2026-03-01", "2026-04-01", "the incident"),
        ("in December", "2025-12-01", "2026-01-01", ""),
        ("March 2025 figures", "2025-03-01", "2025-04-01", "figures"),
        ("on Nov 24th", "2026-11-24", "2026-11-25", ""),
        ("the 3rd of December", "2025-12-03", "2025-12-04", "the"),
    ],
)
def test_days_are_those_before_now(question: str, start: str, end: str, rest: str) -> None:
    period = find_period(question, NOW)
    assert period
    assert (period.start, period.end, period.rest) == (iso(start), iso(end), rest)
    assert period.includes(iso(start))
    assert not period.includes(iso(end))


@pytest.mark.parametrize(
    "question",
    [
        "what may break the march of the crane",
        "the backup runs every Sunday",
        "python 3 may break",
        "version 1.2.0 of 3",
        "yesterday and today",
        "between July 8 and July 10",
        "before 2026-07-08",
        "until July 8",
        "the week of 7 September",
        "the first week of September",
        "sessions/2026-11-24-crane",
        "February 30",
        "x" * LONGEST_QUESTION + " yesterday",
    ],
)
def test_other_questions_name_no_day(question: str) -> None:
    assert find_period(question, NOW) is None
