"""The Sessions port: sessions and their counters, what happened in them, what they were shown and learned."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.storage import contract
from tests.storage.contract import MODULUS, open_session, open_storage, remember_many, tick_many

from scrimshaw.engine import Engine
from scrimshaw.errors import NotFound
from scrimshaw.models import (
    EventKind,
    Injected,
    Item,
    ItemKind,
    ItemSource,
    NewItem,
    Observation,
    Redacted,
    Session,
    SessionState,
    Trust,
)
from scrimshaw.storage.ports import Admission, Learning
from scrimshaw.storage.sessions import Sessions

SPAWN = multiprocessing.get_context("spawn")


NUMBERS = itertools.count()


def new_item(text: str | None = None, attention: float = 0.5, **fields: object) -> NewItem:
    """An item; of a text of its own where none is given, since the same text again is a mention."""
    own = Redacted(text=f"x{next(NUMBERS)}" if text is None else text)
    return replace(NewItem(text=own, kind=ItemKind.RESULT, attention=attention), **fields)


def welcome(held: Sequence[Item], newcomer: NewItem, counter: int) -> Admission:
    return Admission(admitted=True)


def remember(sessions: Sessions, session: str = "s", item: NewItem | None = None, now: float = 1.0) -> Item:
    return contract.remember(sessions, item or new_item(), welcome, session, now)


def tick(sessions: Sessions, session: str = "s", now: float = 1.0, modulus: int = MODULUS) -> int:
    return sessions.tick(session, now=now, modulus=modulus)


def end(sessions: Sessions, session: str = "s", now: float = 1.0, call_id: str = "") -> bool:
    seen = Observation(session=session, kind=EventKind.END, text=Redacted(text=""), call_id=call_id)
    return sessions.observe(seen, welcome, now=now, modulus=MODULUS)


def found(sessions: Sessions, session: str = "s") -> Session:
    stored = sessions.get(session)
    assert stored is not None
    return stored


# Sessions


def test_a_new_session_starts_at_zero_and_goes_on_from_nobody(sessions: Sessions) -> None:
    session = sessions.open("s", client="claude-code", process=42, now=100.0)
    assert session == Session(id="s", client="claude-code", process=42, started=100.0, last_event=100.0)
    assert session == found(sessions)
    assert sessions.get("unknown") is None


def test_an_end_that_is_reported_again_ends_the_session_again(sessions: Sessions) -> None:
    assert end(sessions, call_id="e1")
    sessions.open("s", now=2.0)
    assert not end(sessions, call_id="e1", now=3.0)
    assert (found(sessions).state, found(sessions).last_event) == (SessionState.COMPLETED, 3.0)


def test_a_new_session_goes_on_from_the_latest_before_it(sessions: Sessions) -> None:
    for name, now in (("a", 1.0), ("b", 3.0), ("c", 2.0)):
        sessions.open(name, now=now)
    tick(sessions, "a", now=9.0)
    assert sessions.open("d", now=10.0).continues == "a"
    assert sessions.open("d", now=11.0).continues == "a"
    assert found(sessions, "c").continues == "a"


def test_an_ended_session_is_active_again_and_counts_on(sessions: Sessions) -> None:
    sessions.open("s", client="codex", process=7, now=1.0)
    assert [tick(sessions) for _ in range(3)] == [1, 2, 3]
    remember(sessions)
    end(sessions, now=5.0)
    assert (found(sessions).state, found(sessions).last_event) == (SessionState.COMPLETED, 5.0)
    session = sessions.open("s", now=6.0)
    assert (session.state, session.counter, session.started) == (SessionState.ACTIVE, 3, 1.0)
    assert (session.client, session.process) == ("codex", 7)
    assert tick(sessions) == 4
    assert len(sessions.items("s", held=True)) == 1


def test_a_client_that_comes_back_in_another_process_is_found_there(sessions: Sessions) -> None:
    sessions.open("s", client="codex", process=7, now=1.0)
    session = sessions.open("s", client="cline", process=8, now=2.0)
    assert (session.client, session.process, session.last_event) == ("cline", 8, 2.0)


def test_latest_sessions_come_newest_first_without_the_one_asked_from(sessions: Sessions) -> None:
    for name, now in (("a", 3.0), ("b", 1.0), ("c", 2.0), ("tie", 3.0)):
        sessions.open(name, now=now)
    assert [session.id for session in sessions.latest(limit=9)] == ["tie", "a", "c", "b"]
    assert [session.id for session in sessions.latest()] == ["tie"]
    assert [session.id for session in sessions.latest(before="tie", limit=2)] == ["a", "c"]


def test_the_session_of_a_process_is_the_most_recent_active_one(sessions: Sessions) -> None:
    for name, process, now in (("old", 7, 1.0), ("new", 7, 2.0), ("ended", 7, 3.0), ("nobody's", 0, 4.0)):
        sessions.open(name, process=process, now=now)
    end(sessions, "ended", now=5.0)

    def of(*processes: int) -> str:
        return "".join(session.id for session in sessions.latest(processes=processes))

    assert of(1, 7) == "new"
    tick(sessions, "old", now=6.0)
    assert of(7) == "old"
    assert [of(), of(0), of(8)] == ["", "", ""]


def test_a_tick_counts_one_event_and_moves_the_last_event_forward_only(sessions: Sessions) -> None:
    sessions.open("s", now=1.0)
    assert [tick(sessions, now=now) for now in (2.0, 9.0, 5.0)] == [1, 2, 3]
    assert (found(sessions).counter, found(sessions).last_event) == (3, 9.0)


def test_the_counter_wraps_at_its_modulus(sessions: Sessions) -> None:
    sessions.open("s", now=1.0)
    assert [tick(sessions, modulus=3) for _ in range(7)] == [1, 2, 0, 1, 2, 0, 1]


def test_silent_sessions_are_interrupted(sessions: Sessions) -> None:
    for name, now in (("b", 1.0), ("a", 2.0), ("ended", 1.0), ("alive", 3.0)):
        sessions.open(name, now=now)
    end(sessions, "ended")
    assert sessions.open("new", now=9.0, silent_since=3.0).continues == "alive"
    assert found(sessions, "a").state is found(sessions, "b").state is SessionState.INTERRUPTED
    assert found(sessions, "ended").state is SessionState.COMPLETED
    assert found(sessions, "alive").state is SessionState.ACTIVE


# Items


def test_an_item_comes_back_as_it_was_recorded(sessions: Sessions) -> None:
    sessions.open("s", now=1.0)
    for _ in range(4):
        tick(sessions)
    source = ItemSource(
        source_tool="Read", source_call_id="t1", extraction_rule_id="r", redaction_applied=True, trust=Trust.WEB
    )
    new = new_item("ünïcode\n🚀", 0.9, kind=ItemKind.FILE, source=source, memory_id="a/b", path="src/x.py")
    kept = remember(sessions, item=new, now=77.5)
    assert kept == Item(
        session="s", number=1, text="ünïcode\n🚀", kind=ItemKind.FILE, attention=0.9, event=4, at=77.5, source=source,
        memory_id="a/b", path="src/x.py", held=True,
    )  # fmt: skip
    assert sessions.items("s") == [kept]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs"])), attention=st.floats())
def test_any_text_and_attention_can_be_recorded(sessions: Sessions, text: str, attention: float) -> None:
    session = str(next(NUMBERS))
    kept = remember(sessions, session, new_item(text, attention))
    assert kept.text == text
    assert 0.0 <= kept.attention <= 1.0
    assert sessions.items(session) == [kept]


def test_numbers_count_from_one_in_each_session(sessions: Sessions) -> None:
    for name in "ab":
        sessions.open(name, now=1.0)
    assert [remember(sessions, name).number for name in "aaba"] == [1, 2, 1, 3]
    assert [item.number for item in sessions.items("a")] == [1, 2, 3]


def test_admit_sees_what_is_held_the_newcomer_and_the_counter(sessions: Sessions) -> None:
    sessions.open("s", now=1.0)
    first = remember(sessions)
    assert not contract.remember(sessions, new_item(), lambda *_: Admission(admitted=False)).held
    assert [tick(sessions, modulus=5) for _ in range(3)] == [1, 2, 3]
    seen: list[tuple[Sequence[Item], NewItem, int]] = []

    def look(held: Sequence[Item], newcomer: NewItem, counter: int) -> Admission:
        seen.append((held, newcomer, counter))
        return Admission(admitted=False)

    item = new_item(attention=1.5)
    contract.remember(sessions, item, look)
    assert seen == [([first], replace(item, attention=1.0), 3)]


def test_who_leaves_stays_in_the_record(sessions: Sessions) -> None:
    sessions.open("s", now=1.0)
    for _ in range(3):
        remember(sessions)

    def swap(held: Sequence[Item], newcomer: NewItem, counter: int) -> Admission:
        return Admission(admitted=True, leaving=(1, 3))

    def refuse(held: Sequence[Item], newcomer: NewItem, counter: int) -> Admission:
        return Admission(admitted=False)

    assert contract.remember(sessions, new_item(), swap).held
    assert not contract.remember(sessions, new_item(), refuse).held
    assert [item.number for item in sessions.items("s", held=True)] == [2, 4]
    assert [item.number for item in sessions.items("s")] == [1, 2, 3, 4, 5]


def test_a_decision_that_fails_records_nothing(sessions: Sessions) -> None:
    sessions.open("s", now=1.0)

    def fail(held: Sequence[Item], newcomer: NewItem, counter: int) -> Admission:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        contract.remember(sessions, new_item(), fail)
    assert sessions.items("s") == []
    assert remember(sessions).number == 1


def test_a_mention_changes_nothing_else(sessions: Sessions) -> None:
    sessions.open("s", now=1.0)
    first, second = remember(sessions), remember(sessions)
    tick(sessions)
    for _ in range(2):
        sessions.mention("s", 1)
    assert sessions.items("s") == [replace(first, mentions=2), second]


UNKNOWN: dict[str, Callable[[Sessions], object]] = {
    "tick": tick,
    "mention": lambda sessions: sessions.mention("s", 1),
    "mark_shown": lambda sessions: sessions.mark_shown("s", {"a": "h"}, now=1.0),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_session_that_was_never_opened_is_refused(sessions: Sessions, name: str) -> None:
    with pytest.raises(NotFound):
        UNKNOWN[name](sessions)
    assert sessions.latest() == []


def test_of_an_unknown_session_nothing_is_known(sessions: Sessions) -> None:
    assert sessions.items("s") == []
    assert sessions.hashes_shown("s") == {}


def test_an_unknown_item_cannot_be_mentioned(sessions: Sessions) -> None:
    sessions.open("s", now=1.0)
    with pytest.raises(NotFound, match="no item 1"):
        sessions.mention("s", 1)


# What was shown, and learned


def test_what_was_shown_is_remembered_with_its_last_hash(sessions: Sessions) -> None:
    for name in "ab":
        sessions.open(name, now=1.0)
    sessions.mark_shown("a", {"x": "1", "y": "1"}, now=1.0)
    sessions.mark_shown("a", {"y": "2", "z": "1"}, now=2.0)
    sessions.mark_shown("a", {}, now=3.0)
    assert sessions.hashes_shown("a") == {"x": "1", "y": "2", "z": "1"}
    assert sessions.hashes_shown("a", since=2.0) == {"y": "2", "z": "1"}
    assert sessions.hashes_shown("a", until=1.0) == {"x": "1"}
    assert sessions.hashes_shown("b") == {}


def test_what_was_injected_is_summed_by_session_and_occasion(sessions: Sessions) -> None:
    for name in "ab":
        sessions.open(name, now=1.0)
    for occasion, tokens, hits, at in (("start", 90, 0, 1.0), ("prompt", 40, 2, 3.0), ("prompt", 60, 1, 2.0)):
        row = Injected(session="a", occasion=occasion, tokens=tokens, hits=hits, at=at)
        sessions.mark_shown("a", {}, now=at, injected=row)
    last = Injected(session="b", occasion="start", tokens=7, hits=1, at=4.0)
    sessions.mark_shown("b", {}, now=4.0, injected=last)
    first = [
        Injected(session="a", occasion="prompt", tokens=100, hits=3, at=3.0, times=2),
        Injected(session="a", occasion="start", tokens=90, hits=0, at=1.0),
    ]
    assert sessions.injections("a") == first
    assert sessions.injections() == [*first, Injected(session="b", occasion="start", tokens=7, hits=1, at=4.0)]
    assert sessions.injections("c") == []
    with pytest.raises(NotFound):
        sessions.mark_shown("c", {}, now=1.0, injected=replace(last, session="c"))
    sessions.tick("b", now=1.0, modulus=MODULUS, injected=Injected(session="b", occasion="x", tokens=5, hits=1, at=1.0))
    assert [row.tokens for row in sessions.injections("b")] == [7, 5]


def learning(task: str, phase: str = "pre", session: str = "", at: float = 1.0, **fields: object) -> Learning:
    row = Learning(
        folder="f", task=task, phase=phase, session=session, knowledge=10.0, uncertainty=80.0, context=5.5, at=at
    )
    return replace(row, **fields)


def test_the_assessments_of_a_folder_come_newest_first(sessions: Sessions) -> None:
    rows = [learning("1"), learning("1", "post", "s", 3.0, gaps=("wo?", "ü")), learning("2", session="s", at=2.0)]
    for row in [*rows, learning("1", folder="other")]:
        sessions.record_learning(row)
    assert sessions.learnings("f") == [rows[1], rows[2], rows[0]]
    assert sessions.learnings("f", session="s") == [rows[1], rows[2]]
    assert sessions.learnings("nowhere") == []


def test_an_assessment_made_again_replaces_the_first(sessions: Sessions) -> None:
    for knowledge in (10.0, 20.0):
        sessions.record_learning(learning("1", knowledge=knowledge, session=f"s{knowledge}"))
    assert sessions.learnings("f") == [learning("1", knowledge=20.0, session="s20.0")]


# Durable, and shared by threads and processes


def test_everything_is_there_after_reopening(durable_engine: str, tmp_path: Path) -> None:
    with open_storage(durable_engine, tmp_path) as storage:
        sessions = storage.sessions
        sessions.open("s", now=1.0)
        tick(sessions)
        kept = remember(sessions)
        sessions.mark_shown("s", {"x": "1"}, now=1.0)
    with open_storage(durable_engine, tmp_path) as storage:
        sessions = storage.sessions
        assert found(sessions).counter == 1
        assert sessions.items("s") == [kept]
        assert sessions.hashes_shown("s") == {"x": "1"}


def test_sessions_live_in_the_journal_of_an_open_memory(engine: Engine) -> None:
    session = engine.sessions.open("s", now=1.0)
    assert engine.maintenance.check("journal") == []
    with open_storage("sqlite", engine.folder) as storage:
        assert storage.sessions.get("s") == session


WRITER = """
import itertools, sys
from pathlib import Path
from scrimshaw.models import ItemKind, NewItem, Redacted
from scrimshaw.storage.ports import Admission
from tests.storage.contract import open_storage, remember

with open_storage(sys.argv[1], Path(sys.argv[2])) as storage:
    sessions = storage.sessions
    sessions.open("s", now=1.0)
    while True:
        counter = sessions.tick("s", now=1.0, modulus=2**31)
        item = NewItem(text=Redacted(text=f"carved {counter}"), kind=ItemKind.RESULT, attention=0.5)
        kept = remember(sessions, item, lambda *_: Admission(admitted=True))
        print(counter, kept.number, flush=True)
"""


def test_a_killed_writer_loses_nothing_that_it_acknowledged(shared_engine: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, shared_engine, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
    counter, number = map(int, [line for line in lines if line.endswith("\n")][-1].split())
    with open_storage(shared_engine, tmp_path) as storage:
        sessions = storage.sessions
        assert found(sessions).counter in (counter, counter + 1)
        assert len(sessions.items("s", held=True)) in (number, number + 1)


def test_threads_lose_no_tick(sessions: Sessions) -> None:
    sessions.open("s", now=1.0)
    with ThreadPoolExecutor(4) as pool:
        counters = list(pool.map(lambda _: tick(sessions), range(80)))
    assert sorted(counters) == list(range(1, 81))


def test_processes_lose_no_tick(sessions: Sessions, shared_engine: str, tmp_path: Path) -> None:
    sessions.open("s", now=1.0)
    with ProcessPoolExecutor(2, mp_context=SPAWN) as pool:
        futures = [pool.submit(tick_many, shared_engine, str(tmp_path), "s", 150) for _ in range(2)]
        one, two = (future.result() for future in futures)
    assert sorted(one + two) == list(range(1, 301))
    assert found(sessions).counter == 300


def test_processes_never_hold_more_than_the_capacity(sessions: Sessions, shared_engine: str, tmp_path: Path) -> None:
    sessions.open("s", now=1.0)
    attentions = [[0.3, 0.9, 0.5, 0.7, 0.1] * 12, [0.8, 0.2, 0.6, 1.0, 0.4] * 12]
    with ProcessPoolExecutor(2, mp_context=SPAWN) as pool:
        futures = [pool.submit(remember_many, shared_engine, str(tmp_path), "s", each) for each in attentions]
        (one, most), (two, most_too) = (future.result() for future in futures)
    assert sorted(one + two) == list(range(1, 121))
    assert most == most_too == len(sessions.items("s", held=True)) == 7


def test_processes_that_open_a_session_at_once_get_the_same_one(
    sessions: Sessions, shared_engine: str, tmp_path: Path
) -> None:
    with ProcessPoolExecutor(2, mp_context=SPAWN) as pool:
        for name in "abcdefgh":
            futures = [pool.submit(open_session, shared_engine, str(tmp_path), name) for _ in range(2)]
            first, second = (future.result() for future in futures)
            assert first == second
    assert len(sessions.latest(limit=99)) == 8
