"""Sessions that lack a boost: what they are shown stays the same, and what the boost would have changed is counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.app.command_line import command_line
from tests.conftest import OpenMemory
from tests.samples import write_memory
from tests.scenarios.agent import Agent, Clock

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.engine.query_log import FILE, LoggedSearch, read_log, search_figures

QUERY = "when does the harbour close"
NONE, DARK = "[rollout]\nsession_boost = 0\ncausal_boost = 0\n", "dark_launch = true\n"
CLOCK = Clock()  # so that nothing fades between two searches
CLOCK.now = datetime.now(UTC)
# The ids that the session's boost and the causal one rank otherwise than the words alone.
PLAIN = ["a-north", "b-south", "c-west", "d-tower"]
BOOSTED = ["b-south", "a-north", "c-west", "d-tower"]


@pytest.fixture
def harbour(vault: Path, engine: Engine) -> Engine:
    """Three memories that answer alike, and a lesser one; sessions work with some of them."""
    write_memory(vault, "d-tower", "# Tower\n\nFrom the tower one sees the town, its roofs, and the harbour.")
    for name in PLAIN[:3]:
        write_memory(vault, name, f"# Harbour {name[2:]}\n\nWhen the harbour of {name[2:]} closes, the bell rings.")
    scan(engine)
    for session, name in (("s", "b-south"), ("t", "c-west"), ("t", "a-north")):
        Agent(engine, session, CLOCK).did("Edit", f"changed the bell of {name}", 1.0, memory_id=name)
    return engine


def ask(engine: Engine, session: str = "s", **fields: object) -> str:
    """The reply of the tool, with all reasons; only its times, which no two searches share, are removed."""
    given = {"enable_dedup": False, "include_trace": True, "min_confidence": 0.0} | fields
    reply = Agent(engine, session, CLOCK).sent("memory_search", query=QUERY, **given)
    return re.sub(r'"ms":[0-9.e-]+', '"ms":0', reply)


def searches(engine: Engine) -> list[LoggedSearch]:
    return [line for line in read_log(engine) if isinstance(line, LoggedSearch)]


def ids(line: LoggedSearch) -> Sequence[str]:
    return [name for name, _ in line.shown]


def test_a_search_without_the_boosts_logs_their_order_and_answers_without_them(
    harbour: Engine, open_memory: OpenMemory
) -> None:
    assert "session" in ask(harbour)
    plain = open_memory(NONE)
    replies = [ask(plain), ask(plain, limit=2)]
    dark = open_memory(NONE + DARK)
    assert [ask(dark), ask(dark, limit=2)] == replies
    assert '"boosts"' not in replies[0]
    boosted, *without, whole, page = searches(dark)
    assert (ids(boosted), boosted.dark, boosted.lifted) == (BOOSTED, None, 1)
    assert [line.dark for line in without] == [None, None]
    assert (ids(whole), whole.dark, whole.lifted) == (PLAIN, tuple(BOOSTED), 0)
    assert (ids(page), page.dark) == (PLAIN[:2], tuple(BOOSTED[:2]))


def test_a_search_with_the_boosts_is_logged_as_ever(harbour: Engine, open_memory: OpenMemory) -> None:
    ask(open_memory())
    plain = (harbour.storage.place / FILE).read_text()
    ask(open_memory("[rollout]\n" + DARK))
    ask(open_memory("[rollout]\nsession_boost = 0\n" + DARK), session="")  # there is no session to boost
    ask(open_memory("[features]\nsession_boost = false\n[rollout]\nsession_boost = 0\n" + DARK))
    assert [line.dark for line in searches(harbour)] == [None] * 4
    assert "dark" not in plain


def test_the_boost_that_is_lacking_is_added_to_the_other(harbour: Engine, vault: Path, open_memory: OpenMemory) -> None:
    text = "# Harbour south\n\nWhen the harbour of south closes, the bell rings."
    write_memory(vault, "b-south", text, "relations: {caused: [c-west]}")
    scan(harbour)
    ask(open_memory("[rollout]\ncausal_boost = 0\n" + DARK))
    (line,) = searches(harbour)
    assert (ids(line), line.dark) == (BOOSTED, ("b-south", "c-west", "a-north", "d-tower"))


def test_only_the_last_stage_runs_again(
    harbour: Engine, open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, kind = list[str](), type(harbour.index)

    def count(name: str) -> None:
        real = getattr(kind, name)

        def call(*given: Any, **named: Any) -> Any:
            calls.append(name)
            return real(*given, **named)

        monkeypatch.setattr(kind, name, call)

    for name in ("match_text", "get", "phrases"):
        count(name)
    counts = []
    for toml in (NONE, NONE + DARK):
        engine = open_memory(toml)
        ask(engine)
        calls.clear()
        ask(engine)
        counts.append(sorted(calls))
    assert counts[0] == counts[1] != []


def test_the_share_of_changed_searches_is_told(
    harbour: Engine, open_memory: OpenMemory, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = command_line(capsys)
    assert "boost" not in run("stats", "--searches", "--project", str(project)).out.replace("a session or a", "")
    engine = open_memory(NONE + DARK)
    ask(engine)
    ask(engine, session="t")
    ask(engine, session="u")  # works with nothing
    found = search_figures(engine, 1).dark
    assert (found.searches, found.changed, found.best_changed) == (3, 0.6667, 0.3333)
    told = " ".join(run("stats", "--searches", "--project", str(project)).out.split())
    assert "3 of the searches lacked a boost. It would have changed the hits of 66.7% of these, and the best" in told
