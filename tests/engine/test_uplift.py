"""Shares of sessions that have a part, and what those differ in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.samples import write_memory

from scrimshaw.config import RolloutSettings
from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.engine.sessions import collect_signals, record_event
from scrimshaw.engine.usage import measure_uplift
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EventKind, Observation, Session

NAMES = [f"session-{number}" for number in range(1000)]


@pytest.mark.parametrize("percent", [0, 1, 30, 50, 99, 100])
def test_about_so_many_sessions_have_a_part_and_more_never_takes_it_away(percent: int) -> None:
    given, more = (
        {name for name in NAMES if RolloutSettings(injection=share).includes("injection", name)}
        for share in (percent, min(100, percent + 10))
    )
    assert len(given) == pytest.approx(10 * percent, abs=60 * (0 < percent < 100))
    assert given <= more
    assert 0 < percent < 100 or given in (set(), set(NAMES))


def limit(engine: Engine, **rollout: Any) -> Engine:
    settings = structs.replace(engine.settings, rollout=RolloutSettings(**rollout))
    return replace(engine, settings=settings)


def test_a_session_without_a_part_is_not_lifted(engine: Engine, vault: Path) -> None:
    write_memory(vault, "gate", "The gate is oak.")
    scan(engine)
    session = Session(id="s")
    assert collect_signals(engine, session, "gate", 5).boosts is not None
    assert collect_signals(limit(engine, session_boost=0, causal_boost=0), session, "gate", 5).boosts is None


def work(engine: Engine, name: str, failures: int) -> None:
    engine.sessions.open(name, now=engine.clock())
    for number in range(6):
        failed = number < failures
        text = redact("make test\nFAILED one" if failed else f"ls {number}\nok")
        call = Observation(
            session=name, kind=EventKind.TOOL, tool="Bash", call_id=f"{name}{number}", text=text, failed=failed
        )
        record_event(engine, call)


def test_sessions_with_and_without_are_compared(engine: Engine) -> None:
    half = limit(engine, injection=50)
    assert measure_uplift(half).differences == ()
    for name in NAMES[:20]:
        work(half, name, failures=1 if half.settings.rollout.includes("injection", name) else 3)
    found = measure_uplift(half)
    assert found.told + found.untold == 20
    by_name = {each.name: each for each in found.differences}
    again = by_name["failures again"]
    assert (again.told, again.untold, again.is_sure) == (0.0, 2.0, True)
    calls = by_name["calls"]
    assert (calls.told, calls.untold, calls.is_sure) == (6.0, 6.0, False)
