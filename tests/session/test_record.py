"""What a session's record says, passage by passage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.session.recording import Recording

from scrimshaw.models import EventKind, RecordedEvent, Trust
from scrimshaw.session.record import PASSAGE_CHARACTERS, find_passage, make_passages
from scrimshaw.session.statements import LONGEST_LINE

SAID = (EventKind.PROMPT, EventKind.ANSWER, EventKind.COMPACT)


def texts(recording: Recording) -> list[str]:
    return [each.text for each in make_passages(recording.events)]


def test_answers_are_packed_and_a_prompt_begins_anew() -> None:
    recording = Recording().prompt("Why does the till beep?").answer("The bell is on.").answer("It can be muted.")
    recording.prompt("Mute it.").answer("Done.").edit("src/till.py")
    asked, done, call = make_passages(recording.events)
    assert asked.text == "> Why does the till beep?\nThe bell is on.\nIt can be muted."
    assert (done.text, call.events) == ("> Mute it.\nDone.", [6])
    # What is asked is not embedded with what was asked before, or it is found by that.
    assert [each.prompt for each in (asked, done, call)] == ["", "", "Mute it."]


def test_a_log_in_a_prompt_is_output_and_what_is_said_of_it_stands_apart() -> None:
    log = "\n".join(f"2026-11-30T10:{minute:02} ERROR till {minute} timed out" for minute in range(40))
    prose = "\n".join(f"The till of table {table} beeps from noon on." for table in range(40))
    for pasted, trust in ((log, Trust.TOOL), (prose, Trust.AGENT)):
        recording = Recording().prompt(f"What is wrong here?\n{pasted}").answer("The fuse is blown.")
        asked, *rest, last = make_passages(recording.events)
        assert asked.trust == Trust.AGENT
        assert {each.trust for each in rest} == {trust}
        assert (last.text == "The fuse is blown.") == (trust == Trust.TOOL)


@pytest.mark.parametrize("thanks", ["great, thanks!", "danke, reicht", "Vielen Dank, das war's"])
def test_thanks_are_no_passage_with_the_prompt_before_them(thanks: str) -> None:
    recording = Recording().prompt("We count in cents, never in floats.").answer("I changed the till.")
    recording.prompt(thanks).answer("You're welcome!")
    recording.prompt("Thanks, now mute the bell.").answer("Done.")
    first, parting, last = make_passages(recording.events)
    assert first.text == "> We count in cents, never in floats.\nI changed the till."
    assert (parting.text, parting.prompt) == ("You're welcome!", thanks)
    assert last.text == "> Thanks, now mute the bell.\nDone."


def test_the_last_answer_counts_once_whoever_reports_it() -> None:
    recording = Recording().prompt("Mute it.").answer("It is muted.")
    recording._add(EventKind.STOP, "It is muted.")
    recording.prompt("And the horn?")
    recording._add(EventKind.STOP, "There is no horn.")
    assert texts(recording) == ["> Mute it.\nIt is muted.", "> And the horn?\nThere is no horn."]


def test_what_was_done_stands_apart_in_lines() -> None:
    recording = (
        Recording().answer("I run the tests.").bash("make test", "collected 3\n2 failed\nKeyError: 'x'", failed=True)
    )
    recording.edit("src/till.py", "+quiet = True").bash("make test", "collected 3\n3 passed").answer("All pass.")
    said, done = make_passages(recording.events)
    assert (said.text, said.trust, said.events) == ("I run the tests.\nAll pass.", Trust.AGENT, [1, 5])
    assert done.text.splitlines() == [
        "Bash: make test",
        "failed: 2 failed",
        "failed: KeyError: 'x'",
        "Edit: src/till.py +quiet = True",
        "Bash: make test",
        "3 passed",
    ]
    assert done.trust == Trust.TOOL


@pytest.mark.parametrize("tool", ["Ask", "Plan", "Agent"])
def test_what_is_said_by_a_tool_is_recorded_whole(tool: str) -> None:
    recording, said = Recording(), "The horn needs 12 V.\n\n- Its fuse is the third."
    recording._add(EventKind.TOOL, f"Find out what the horn needs\n{said}\n", tool=tool, failed=False)
    assert texts(recording) == [f"{tool}: Find out what the horn needs\n{said}"]


def test_what_was_only_looked_at_is_no_passage() -> None:
    assert texts(Recording().read("a.py").bash("grep -rn beep src", "src/a.py:1: beep").bash("ls", "a.py")) == []


def test_a_page_of_the_web_is_told_apart() -> None:
    recording = Recording().bash("make", "ok")
    recording._add(EventKind.TOOL, "https://example.org\nthe page", tool="Web")
    assert [each.trust for each in make_passages(recording.events)] == [Trust.TOOL, Trust.WEB]


def test_a_start_and_a_compaction_end_passages() -> None:
    recording = Recording().answer("One.").compact("The summary.").answer("Two.")
    recording._add(EventKind.START, "").answer("Three.")
    assert texts(recording) == ["One.", "The summary.\nTwo.", "Three."]


kinds = st.sampled_from([EventKind.PROMPT, EventKind.ANSWER, EventKind.TOOL, EventKind.COMPACT, EventKind.START])
words = st.text(st.sampled_from("abc .\n\f>é"), max_size=40).map(lambda text: text * 40)


@given(st.lists(st.tuples(kinds, words, st.booleans()), max_size=12))
def test_every_word_said_stands_in_the_passage_that_its_event_leads_to(said: list[tuple[EventKind, str, bool]]) -> None:
    events = [
        RecordedEvent(session="s", number=n, kind=kind, tool="Bash", call_id="", text=text, at=float(n), failed=failed)
        for n, (kind, text, failed) in enumerate(said, start=1)
    ]
    passages = make_passages(events)
    longest = PASSAGE_CHARACTERS + len("\n> ") + LONGEST_LINE  # a reply to an offer is repeated below it
    assert all(0 < len(each.text) <= longest for each in passages if each.trust == Trust.AGENT)
    assert len({each.anchor for each in passages}) == len(passages)
    assert [each.event for each in passages] == sorted(each.event for each in passages)
    for event in events:
        if event.kind in SAID and event.text.strip():
            place = find_passage(passages, f"e{event.number}")
            assert place is not None
            assert event.number in passages[place].events
            told = "".join("".join(each.text.split()) for each in passages if event.number in each.events)
            assert "".join(event.text.split()) in told


def test_what_was_refused_is_found_with_its_refusal() -> None:
    recording = Recording().prompt("Upgrade the queue.").answer("I'll reset the database.")
    said = texts(recording.prompt("no!! never reset it. write a migration"))
    assert said[0].endswith("I'll reset the database.\n> no!! never reset it. write a migration")
