"""The Sessions port, as hooks use it: one event, all or nothing, once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from msgspec.structs import replace

from scrimshaw.config import SessionSettings
from scrimshaw.ingest.secret_encodings import traces_of_passages
from scrimshaw.models import (
    Action,
    Drafted,
    Entry,
    EventKind,
    Injected,
    Item,
    ItemKind,
    ItemSource,
    NewItem,
    Observation,
    Redacted,
    SessionState,
    Wipe,
)
from scrimshaw.session import working_memory
from scrimshaw.storage.maintenance import Maintenance
from scrimshaw.storage.ports import Admission
from scrimshaw.storage.sessions import Sessions

SETTINGS = SessionSettings()
ADMIT = partial(working_memory.admit, now=0.0, settings=SETTINGS, event_decay=True)


def seen(call_id: str = "c1", kind: EventKind = EventKind.TOOL, text: str = "ran", **fields: object) -> Observation:
    values = {"session": "s", "kind": kind, "text": Redacted(text=text), "call_id": call_id, **fields}
    return Observation(**values)  # type: ignore[arg-type]  # the fields are those of the case


def item(text: str = "x") -> NewItem:
    return NewItem(text=Redacted(text=text), kind=ItemKind.ERROR, attention=0.8)


def observe(sessions: Sessions, observation: Observation) -> bool:
    return sessions.observe(observation, ADMIT, now=5.0, modulus=SETTINGS.counter_modulus)


def test_an_event_opens_ticks_keeps_and_remembers(sessions: Sessions) -> None:
    assert observe(sessions, seen(client="claude", process=77, tool="Bash", item=item("boom"), context_used=0.4))
    session = sessions.get("s")
    assert session is not None
    assert (session.counter, session.client, session.process, session.context_used) == (1, "claude", 77, 0.4)
    assert [(event.number, event.kind, event.tool, event.text) for event in sessions.events("s")] == [
        (1, EventKind.TOOL, "Bash", "ran")
    ]
    assert [(each.text, each.event) for each in sessions.items("s")] == [("boom", 1)]


def test_the_same_report_changes_nothing(sessions: Sessions) -> None:
    assert observe(sessions, seen(item=item()))
    assert not observe(sessions, seen(item=item()))
    session = sessions.get("s")
    assert session is not None
    assert (session.counter, len(sessions.items("s")), len(sessions.events("s"))) == (1, 1, 1)


def test_a_purged_session_keeps_its_row_alone_and_takes_nothing_more(
    sessions: Sessions, maintenance: Maintenance
) -> None:
    for name in ("s", "t"):
        observe(sessions, seen(session=name, item=item(), task=Redacted(text="the task"), context_used=0.4))
        sessions.record_draft(Drafted(session=name, events=1, memory_id=f"of-{name}", at=6.0))
    gone = Wipe(traces_of_passages(()), sessions=("s",))
    purge = Entry(action=Action.PURGE, memory_id="session:s", reason="purged", actor="human")
    assert maintenance.erase(gone, purge) == {"drafts": 1, "events": 1, "items": 1}
    assert maintenance.count_traces("journal", gone) == {}
    for kind in (EventKind.START, EventKind.TOOL, EventKind.END):
        assert not observe(sessions, seen(f"more-{kind}", kind, item=item("more")))
    sessions.open("s", now=9.0)
    session = sessions.get("s")
    assert session is not None
    assert (session.state, session.task, session.context_used) == (SessionState.PURGED, "", None)
    assert (sessions.events("s"), sessions.items("s"), sessions.records("s")) == ([], [], [])
    assert [each.id for each in sessions.latest(limit=5)] == ["t"]
    (record,) = sessions.records()
    assert (record.session, record.events, record.memory_id, len(sessions.items("t"))) == ("t", 1, "of-t", 1)


def test_the_same_id_of_another_kind_or_session_is_another_event(sessions: Sessions) -> None:
    assert observe(sessions, seen())
    assert observe(sessions, seen(kind=EventKind.STOP))
    assert observe(sessions, seen(session="t"))
    assert observe(sessions, seen(call_id=""))
    assert observe(sessions, seen(call_id=""))


@pytest.mark.parametrize(
    ("again", "mentions"),
    [
        (item("boom"), [1]),
        (item("bang"), [0, 0]),
        (NewItem(text=Redacted(text="boom"), kind=ItemKind.COMMIT, attention=0.8), [0, 0]),
    ],
    ids=["the same", "other text", "other kind"],
)
def test_what_is_held_already_is_mentioned(sessions: Sessions, again: NewItem, mentions: list[int]) -> None:
    observe(sessions, seen("c1", item=item("boom")))
    observe(sessions, seen("c2", item=again))
    assert [each.mentions for each in sessions.items("s")] == mentions


def test_a_file_read_again_is_mentioned_whatever_it_says_now(sessions: Sessions) -> None:
    for number, path in enumerate(("spec.md", "spec.md", "plan.md")):
        text = Redacted(text=f"version {number}")
        observe(sessions, seen(f"c{number}", item=NewItem(text=text, kind=ItemKind.FILE, attention=0.9, path=path)))
    assert [(each.path, each.mentions) for each in sessions.items("s")] == [("spec.md", 1), ("plan.md", 0)]


def test_a_file_edited_again_is_remembered_as_it_is_now(sessions: Sessions) -> None:
    for number, text in enumerate(("Edit a.py +wrong", "Edit a.py +right")):
        source = ItemSource(source_call_id=f"c{number}", extraction_rule_id="edit")
        new = NewItem(text=Redacted(text=text), kind=ItemKind.FILE, attention=0.7, path="a.py", source=source)
        observe(sessions, seen(f"c{number}", item=new))
    (held,) = sessions.items("s")
    assert (held.number, held.text, held.source.source_call_id, held.mentions) == (1, "Edit a.py +right", "c1", 1)


def test_what_was_handed_with_an_event_is_counted_once(sessions: Sessions) -> None:
    handed = Injected(session="s", occasion="memory_get", tokens=9, hits=0, at=1.0)
    for _ in range(2):
        observe(sessions, seen(injected=handed))
    assert sessions.injections("s") == [handed]


def test_the_first_question_is_the_task(sessions: Sessions) -> None:
    for number, text in enumerate(("fix the deploy", "now the docs")):
        prompt = Redacted(text=text)
        observe(sessions, seen(f"p{number}", EventKind.PROMPT, text, task=prompt))
    session = sessions.get("s")
    assert session is not None
    assert session.task == "fix the deploy"


def test_context_use_is_what_was_told_last(sessions: Sessions) -> None:
    for number, used in enumerate((0.2, None, 0.7, None)):
        observe(sessions, seen(f"c{number}", context_used=used))
    session = sessions.get("s")
    assert session is not None
    assert session.context_used == 0.7


def test_what_fails_leaves_nothing(sessions: Sessions) -> None:
    def refuse(held: Sequence[Item], newcomer: NewItem, counter: int) -> Admission:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        sessions.observe(seen(item=item()), refuse, now=1.0, modulus=10)
    assert sessions.get("s") is None
    assert sessions.events("s") == []


def test_events_of_some_kinds_are_told(sessions: Sessions) -> None:
    for number, kind in enumerate([EventKind.TOOL, EventKind.ANSWER, EventKind.TOOL, EventKind.STOP]):
        observe(sessions, seen(f"c{number}", kind))
    assert [event.number for event in sessions.events("s", EventKind.TOOL)] == [1, 3]
    assert [event.number for event in sessions.events("s", EventKind.ANSWER, EventKind.STOP)] == [2, 4]


def test_the_latest_sessions_with_work_are_those_in_which_something_was_asked_done_or_said(sessions: Sessions) -> None:
    sessions.open("opened", now=1.0)
    for kind in EventKind:
        observe(sessions, seen(kind=kind, session=kind))
    found = {session.id for session in sessions.latest(limit=99, with_work=True)}
    assert found == {EventKind.PROMPT, EventKind.TOOL, EventKind.ANSWER}
    assert {session.id for session in sessions.latest(limit=99, with_work=True, before="tool")} == found - {"tool"}


def test_the_latest_sessions_with_changes_are_found(sessions: Sessions) -> None:
    edit = replace(item("Edit a.py"), source=ItemSource(extraction_rule_id="edit"))
    observe(sessions, seen("c1", EventKind.PROMPT, session="asked"))
    observe(sessions, seen("c2", session="called", item=item()))
    observe(sessions, seen("c3", session="edited", item=edit))
    observe(sessions, seen("c4", session="committed", item=replace(item("c"), kind=ItemKind.COMMIT)))
    assert {each.id for each in sessions.latest(limit=9, with_changes=True)} == {"edited", "committed"}


def test_calls_are_found_by_words_in_all_sessions(sessions: Sessions) -> None:
    for number, (session, text) in enumerate([("s", "Port in use"), ("t", "a PORT"), ("s", "fine"), ("s", "port 3")]):
        kind = EventKind.ANSWER if number == 3 else EventKind.TOOL
        observe(sessions, seen(f"c{number}", kind, text, session=session))
    found = sessions.find_calls(["port", "absent"], 9)
    assert {(event.session, event.text) for event in found} == {("s", "Port in use"), ("t", "a PORT")}
    assert len(sessions.find_calls(["port"], 1)) == 1
    assert sessions.find_calls([], 9) == []


def test_many_hooks_at_once_lose_no_event(sessions: Sessions) -> None:
    reports = [seen(f"c{number % 60}", item=item(str(number))) for number in range(100)]
    with ThreadPoolExecutor(16) as pool:
        kept = list(pool.map(partial(observe, sessions), reports))
    session = sessions.get("s")
    assert session is not None
    assert sum(kept) == session.counter == len(sessions.events("s")) == 60
    assert len(sessions.items("s", held=True)) == SETTINGS.capacity


def test_how_far_every_record_goes_is_told(sessions: Sessions) -> None:
    assert sessions.records() == []
    sessions.open("silent", now=9.0)
    for number, session in enumerate("stts"):
        sessions.observe(seen(f"c{number}", session=session), ADMIT, now=float(number), modulus=9)
    draft = Drafted(session="t", events=2, memory_id="m", at=4.0)
    sessions.record_draft(draft)
    newer, older = ("s", 2, 2, 3.0, False, True, None), ("t", 2, 2, 2.0, False, False, draft)
    assert sessions.records() == [newer, older]
    assert sessions.records("t") == [older]
    assert sessions.records("silent") == sessions.records("nobody's") == []


def test_a_session_with_news_behind_its_draft_waits_once_it_is_over_or_silent(sessions: Sessions) -> None:
    def waits(silent_since: float) -> list[str]:
        return [each.session for each in sessions.records() if each.waits_for_draft(silent_since)]

    observe(sessions, seen("c1", session="works"))
    observe(sessions, seen("c2", session="asks", kind=EventKind.PROMPT))
    at = sessions.records("works")[0].at
    assert (waits(at), waits(at + 1)) == ([], ["asks", "works"])
    sessions.record_draft(Drafted(session="asks", events=1, memory_id="", at=at))
    assert waits(at + 1) == ["works"]
    observe(sessions, seen("", session="works", kind=EventKind.END))
    assert waits(at) == ["works"]
    sessions.record_draft(Drafted(session="works", events=2, memory_id="", at=at))
    assert waits(at + 1) == []
    observe(sessions, seen("c3", session="works"))
    observe(sessions, seen("c4", session="asks", kind=EventKind.PROMPT))
    assert waits(at + 1) == ["asks", "works"]
    for session in ("asks", "works"):
        sessions.record_draft(Drafted(session=session, events=9, memory_id="m", at=at))
        observe(sessions, seen("c5", session=session, kind=EventKind.PROMPT))
    assert waits(at + 1) == []
