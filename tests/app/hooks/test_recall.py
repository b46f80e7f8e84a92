"""What a prompt brings up: three passages and 250 tokens at most, nothing unless it is sure, and laws once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.app.hooks.events import bash, context_of, report
from tests.samples import vouch_for, write_memory

from scrimshaw.app.hooks.injection import MOST_RECALLED, RECALL_TOKENS, is_about
from scrimshaw.engine import Engine
from scrimshaw.engine.drafts import make_draft
from scrimshaw.engine.index import scan

FACT = "The harbour crane lifts boats at low tide because the lock gate sticks when the river is high. " * 12
CRANE = "why does the harbour crane lift boats at low tide"
SESSION = "provenance: {source: session, trust: tool}\ntype: session"


def test_a_sure_match_is_brought_within_its_budget(engine: Engine, project: Path, vault: Path) -> None:
    for number in range(5):
        write_memory(vault, f"crane-{number}", f"# Crane {number}\n\n{number} {FACT}", SESSION)
    write_sheets(vault)
    scan(engine)
    told = context_of(report(project, "UserPromptSubmit", prompt=CRANE))
    assert 1 < told.count("\n- ") <= MOST_RECALLED
    assert len(told) / 3 <= RECALL_TOKENS
    assert "harbour crane lifts boats" in told
    again = context_of(report(project, "UserPromptSubmit", prompt=CRANE))
    assert not {line for line in told.splitlines() if line[:1] == "-"} & {*again.splitlines()}


TORN = f"<<<<<<< ours\n{FACT}\n=======\nThe harbour crane lifts boats at high tide.\n>>>>>>> theirs\n"


def test_both_sides_of_a_merge_are_told_as_nobodys_word(engine: Engine, project: Path, vault: Path) -> None:
    for name, text in (("crane", TORN), ("law", f"The law is old.\n{TORN}"), ("whole", FACT)):
        write_memory(vault, name, f"# Of the {name}\n\n{text}", "tier: constitutional" if name == "law" else SESSION)
    vouch_for(engine, "law")
    scan(engine)
    told = context_of(report(project, "SessionStart", source="startup"))
    told += context_of(report(project, "UserPromptSubmit", prompt=CRANE))
    assert "memory crane, trust tool: merge_conflict, not shown" in told
    assert "The harbour crane lifts boats at low tide" in told
    assert [word for word in ("high tide", "law is old", "<<<<<<<", "=======", ">>>>>>>") if word in told] == []


def test_what_a_colleagues_session_left_is_not_told_between_the_marks_of_a_merge(project: Path, vault: Path) -> None:
    front = "type: session\nprovenance: {source: session, trust: tool, session: S9}\nupdated: 2099-01-01"
    item = "<<<<<<< ours\n- Chose {0} for the gate.\n=======\n- Chose iron for the gate.\n>>>>>>> theirs\n"
    write_memory(vault, "sessions/2099-01-01-gate", f"# Gate\n\n## Decisions\n{item.format('oak')}", front)
    write_memory(vault, "sessions/2099-01-01-quay", "# Quay\n\n## Decisions\n- Chose stone for the quay.\n", front)
    report(project, "UserPromptSubmit", session="S0", prompt="Build the quay of stone, please.")
    told = context_of(report(project, "SessionStart", source="startup"))
    assert [word for word in ("<<<<<<<", ">>>>>>>", "oak", "iron") if word in told] == []


def test_a_session_is_not_told_of_its_own_memory(engine: Engine, project: Path, vault: Path) -> None:
    write_memory(vault, "crane", FACT, "provenance: {source: session, trust: tool, session: S1}\ntype: session")
    scan(engine)
    assert report(project, "UserPromptSubmit", prompt=CRANE) == ""
    assert "memory crane" in context_of(report(project, "UserPromptSubmit", session="S2", prompt=CRANE))


@pytest.mark.parametrize(
    "prompt",
    [
        "yes, go on",
        "commit it",
        "ok, let's look at the harbour then",
        "why does the cow jump over the low fence at the old mill of the next village",
        "crane",
        "is the oat bid a liberal cup",  # the middles of words are no words
        "x" * 30_000,
        "",
    ],
)
def test_an_unsure_match_is_left_out(engine: Engine, project: Path, vault: Path, prompt: str) -> None:
    text = f"{FACT} Whoever floats and forbids is deliberate about the hiccups."
    write_memory(vault, "crane", text, f"{SESSION}\ntrigger_phrases: [crane, harbour]")
    scan(engine)
    assert report(project, "UserPromptSubmit", prompt=prompt) == ""


def test_a_prompt_in_a_large_memory_waits_for_no_lists_of_words(engine: Engine, project: Path, vault: Path) -> None:
    """They and numpy took half of a hook's time from 1,000 pieces on."""
    write_memory(vault, "crane", FACT)
    scan(engine)
    payload = {"session_id": "S1", "cwd": str(project), "hook_event_name": "UserPromptSubmit", "prompt": CRANE}
    code = "import sys; from scrimshaw.storage.sqlite.index import SqliteIndex; SqliteIndex.few_chunks = 0\n"
    code += "from scrimshaw.app.hooks import record\n"
    code += "print(record.handle_payload(['claude'], sys.stdin.buffer.read()), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(payload).encode(), capture_output=True)
    loaded = done.stdout.decode().split()
    assert "crane" in done.stdout.decode(), done.stderr
    assert {"numpy", "scrimshaw.storage.sqlite.words"}.isdisjoint(loaded)


def test_a_question_in_other_words_makes_a_match_sure(engine: Engine, project: Path, vault: Path) -> None:
    write_memory(vault, "crane", FACT, "questions: [How do we unload heavy cargo at the pier?]")
    write_memory(vault, "other", "Nothing of that stands in this note.")
    scan(engine)
    told = context_of(report(project, "UserPromptSubmit", prompt="show me how to unload heavy cargo from the pier"))
    assert "lifts boats" in told
    assert "cargo" not in told


@pytest.mark.parametrize(
    ("head", "is_told"),
    [
        ("trigger_phrases: [crane]", True),
        (f"{SESSION}\ntrigger_phrases: [crane]", False),
        (f"{SESSION}\ntrigger_phrases: [old crane]", True),
    ],
)
def test_one_word_of_a_session_is_no_certain_phrase(
    engine: Engine, project: Path, vault: Path, head: str, is_told: bool
) -> None:
    write_memory(vault, "lifting", f"# Lifting\n\n{FACT}", head)
    scan(engine)
    assert bool(report(project, "UserPromptSubmit", prompt="paint the old crane")) is is_told


def test_laws_are_told_once_in_a_context(engine: Engine, project: Path, vault: Path) -> None:
    write_memory(vault, "law", "Never sail on a Friday.\n\n- Not even at noon.", "tier: constitutional")
    write_memory(vault, "claim", "Always sail on a Monday.", "tier: constitutional")
    vouch_for(engine, "law")
    for source in ("startup", "compact", "clear"):
        told = context_of(report(project, "SessionStart", source=source))
        assert "Never sail on a Friday.\n\n- Not even at noon." in told
        assert "Monday" not in told
        assert report(project, "UserPromptSubmit", prompt="go on with the mast") == ""
    assert "Friday" not in context_of(report(project, "SessionStart", source="resume"))


ASKED = "which glue is the figurehead of the Albatros held by, epoxy or another"
SAID = "The figurehead of the Albatros is held to her bow by resorcinol glue, since epoxy softened in the sun."


def write_sheets(vault: Path) -> None:
    for number in range(50):
        write_memory(
            vault, f"sheet-{number}", f"Sheet {number} of the harbour plan is drawn by hand since May.", SESSION
        )


def record_session(engine: Engine, project: Path) -> None:
    """A session in which it was said, beside many notes that share other words."""
    report(project, "UserPromptSubmit", "past", prompt="mend the bow")
    report(project, "Stop", "past", last_assistant_message=SAID)
    write_sheets(engine.settings.folder / "memories")
    scan(engine)


def test_a_passage_of_another_session_is_brought(engine: Engine, project: Path) -> None:
    record_session(engine, project)
    told = context_of(report(project, "UserPromptSubmit", "new", prompt=ASKED))
    assert "resorcinol glue" in told
    assert "(memory session:past#e" in told
    assert told.count("\n- ") == 1
    assert "resorcinol" not in report(project, "UserPromptSubmit", "new", prompt=f"{ASKED}, again")


@pytest.mark.parametrize("is_indexed", [True, False])
def test_what_was_decided_anew_comes_instead_of_what_it_replaces(
    engine: Engine, project: Path, vault: Path, is_indexed: bool
) -> None:
    record_session(engine, project)
    report(project, "UserPromptSubmit", "older", prompt="mend the figurehead")
    report(
        project, "Stop", "older", last_assistant_message="Decision: the figurehead of the Albatros is held by epoxy."
    )
    scan(engine)
    prompt = "which glue is the figurehead of the Albatros held by"
    assert "held by epoxy" in report(project, "UserPromptSubmit", "first", prompt=prompt)
    body = "## Decisions\n\n- The figurehead of the Albatros is held by bolts and not epoxy. (e8)\n"
    head = "type: session\nprovenance: {source: session, session: S9, trust: tool}\nupdated: 2099-01-01T00:00:00Z"
    path = write_memory(vault, "sessions/2099-01-01-bolts", body, head)
    os.utime(path, (time.time() + 5, time.time() + 5))  # times are of whole seconds
    if is_indexed:
        scan(engine)
    told = context_of(report(project, "UserPromptSubmit", "new", prompt=prompt))
    assert "by bolts" in told
    assert "held by epoxy" not in told
    assert "epoxy" not in report(project, "UserPromptSubmit", "new", prompt=f"{prompt}, again")


@pytest.mark.parametrize(
    ("prompt", "is_told"),
    [
        ("why resorcinol and no epoxy?", True),  # both of two words
        ("is resorcinol cheap?", False),
        ("plan drawn by hand", False),  # all words, but every sheet has them
        ("did the epoxy of the figurehead get soft in the sun", True),
        ("which Albatros, of all albatrosses, has epoxy on the mast", False),  # the same word twice
    ],
)
def test_most_words_of_a_prompt_or_both_of_two_bring_a_passage(
    engine: Engine, project: Path, prompt: str, is_told: bool
) -> None:
    record_session(engine, project)
    assert bool(report(project, "UserPromptSubmit", "new", prompt=prompt)) is is_told


def test_the_more_words_a_text_has_the_less_rare_they_need_to_be() -> None:
    text, least, most = "resorcinol glue, since epoxy softened", 2.0, 3.4
    half = ("glue", "epoxy", "since", "mast", "deck", "rail")
    assert [is_about(text, half, score, 1.0) for score in (least, most - 0.1, most)] == [False, False, True]
    assert [is_about(text, half[:4], score, 1.0) for score in (least, (least + most) / 2)] == [False, True]
    assert [is_about(text, half[:3], score, 1.0) for score in (least - 0.1, least)] == [False, True]


def test_a_session_is_not_brought_what_it_said_itself(engine: Engine, project: Path) -> None:
    record_session(engine, project)
    assert report(project, "UserPromptSubmit", "past", prompt=ASKED) == ""


def test_the_same_prompt_of_another_session_is_not_brought(engine: Engine, project: Path) -> None:
    template = "Plan the harbour drawing: count the pencils, sharpen them all, and write the sum into the log."
    for session, answer in {"monday": "Done.", "tuesday": "Three of 14 pencils are too short for the compass."}.items():
        report(project, "UserPromptSubmit", session, prompt=template)
        report(project, "Stop", session, last_assistant_message=answer)
    scan(engine)
    told = context_of(report(project, "UserPromptSubmit", "new", prompt=template))
    assert "session:tuesday#" in told
    assert "session:monday#" not in told


def test_who_asks_what_was_done_on_a_day_is_told_its_sessions(engine: Engine, project: Path) -> None:
    record_session(engine, project)
    told = context_of(report(project, "UserPromptSubmit", "new", prompt="What did we do today?"))
    assert "(session:past, trust file): mend the bow" in told
    assert len(told) / 3 <= RECALL_TOKENS
    none = report(project, "UserPromptSubmit", "new", prompt="What did we do last year?")
    assert "no session was recorded here" in none
    for prompt in ("make the change on Thursday", "what should I do today"):
        assert "session" not in report(project, "UserPromptSubmit", "new", prompt=prompt)
    assert "session:past" not in report(project, "UserPromptSubmit", "past", prompt="What did we do today?")


@pytest.mark.parametrize(
    ("name", "head", "label"),
    [
        ("ops/crane", "", "2026-05-04 Cranes (memory ops/crane, trust file)"),
        ("sessions/2026-05-04-cranes-1a2b3c", f"{SESSION}\n", "(memory sessions/2026-05-04-cranes-1a2b3c, trust tool)"),
        ("sessions/2026-05-03-cranes-1a2b3c", f"{SESSION}\n", "2026-05-04 Cranes (memory sessions/2026-05-03-cranes-"),
    ],
)
def test_a_line_names_the_day_the_place_and_the_trust(
    engine: Engine, project: Path, vault: Path, name: str, head: str, label: str
) -> None:
    write_memory(vault, name, f"# Cranes\n\n{FACT}", f"{head}updated: 2026-05-04T08:00:00Z")
    scan(engine)
    assert f"\n- {label}" in context_of(report(project, "UserPromptSubmit", prompt=CRANE))


def test_a_session_is_brought_once_by_its_memory(engine: Engine, project: Path, vault: Path) -> None:
    record_session(engine, project)
    named = SESSION.replace("source: session", "source: session, session: past")
    write_memory(vault, "bow", f"# Mend the bow\n\nWe mend it: {SAID}", named)
    write_memory(vault, "mast", f"# Masts\n\n{SAID} The masts are not.")
    scan(engine)
    told = context_of(report(project, "UserPromptSubmit", "new", prompt=ASKED))
    assert ("session:past#" in told, "memory bow" in told, "memory mast" in told) == (False, True, True)


def record_rigging(engine: Engine, project: Path) -> None:
    """Two sessions on one matter: what the first one left open, the second one did, up to a point of its own."""
    said = {
        "Move the ropes of the Albatros from hemp to steel": "The stays are of steel now.\n\n"
        "Still open: lanterns on the topmast of the Albatros at night, and the log of the yard is not signed.",
        "Hang lanterns on the topmast of the Albatros at night": "Three lanterns of brass burn on the topmast, tested"
        " at the pier.\n\nStill open: light them at sea after the visit of the guild on 5 December.",
    }
    for name, (asked, answer) in zip(("early", "late"), said.items(), strict=True):
        report(project, "UserPromptSubmit", name, prompt=asked)
        bash(project, f"git commit -m '{asked}'", f"[main 24ab54d] {asked}\n 1 file changed", f"{name}1", name)
        report(project, "Stop", name, last_assistant_message=answer)
        assert make_draft(engine, name).memory_id
        scan(engine)


@pytest.mark.parametrize(
    "prompt",
    [
        "Hang lanterns on the topmast of the Albatros at night and at sea",
        "please look after the lanterns on the topmast of the Albatros at night",
    ],
)
def test_a_prompt_is_told_the_outcome_and_what_is_open_now(engine: Engine, project: Path, prompt: str) -> None:
    record_rigging(engine, project)
    _, late, early, _ = context_of(report(project, "UserPromptSubmit", "new", prompt=prompt)).splitlines()
    assert "tested at the pier" in late
    assert "after the visit of the guild on 5 December" in late
    assert "log of the yard" in early
    assert not any(mark in late + early for mark in ("Task", "Bash:", "Edit:", "commit", "## Changed"))


def test_what_older_sessions_left_open_is_not_told(engine: Engine, project: Path) -> None:
    record_rigging(engine, project)
    prompt = "Move the ropes of the Albatros from hemp to steel once more"
    assert "log of the yard" in context_of(report(project, "UserPromptSubmit", "new", prompt=prompt))
    for session in ("third", "fourth"):
        report(project, "UserPromptSubmit", session, prompt="Paint the boathouse.")
        bash(project, "make paint", "painted", f"{session}1", session)
    told = context_of(report(project, "UserPromptSubmit", "newest", prompt=prompt))
    assert "The stays are of steel now." in told
    assert "log of the yard" not in told


def test_a_passage_with_more_words_than_the_memory_of_its_session_is_told(engine: Engine, project: Path) -> None:
    record_rigging(engine, project)
    asked, answer = (
        "Which oil do the blocks of the winch get?",
        "The blocks of the winch get linseed oil, twice a year.",
    )
    report(project, "UserPromptSubmit", "late", prompt=asked)
    report(project, "Stop", "late", last_assistant_message=answer)
    scan(engine)
    told = context_of(report(project, "UserPromptSubmit", "new", prompt="how often do blocks of the winch get oil"))
    assert "twice a year" in told


def test_calls_are_not_told_where_a_statement_is(engine: Engine, project: Path) -> None:
    record_rigging(engine, project)
    prompt = "move the ropes of the Albatros's boats from hemp to steel too"
    told = context_of(report(project, "UserPromptSubmit", "new", prompt=prompt))
    assert "The stays are of steel now." in told
    assert "Bash:" not in told


def test_an_excerpt_begins_after_the_title(engine: Engine, project: Path) -> None:
    asked = "Glue the figurehead of the Albatros to her bow"
    report(project, "UserPromptSubmit", "past", prompt=f"{asked}, please.")
    report(project, "Stop", "past", last_assistant_message="Resorcinol holds it now.")
    scan(engine)
    prompt = "which glue for the figurehead of the Albatros"
    told = context_of(report(project, "UserPromptSubmit", "new", prompt=prompt))
    assert told.count("Glue the figurehead") == 1
    assert "trust agent): Resorcinol holds it now." in told


def test_a_question_without_an_answer_is_not_brought(engine: Engine, project: Path) -> None:
    report(project, "UserPromptSubmit", "past", prompt="is the keel of the Pelican caulked with oakum or pitch?")
    scan(engine)
    prompt = "with what is the keel of the Pelican caulked"
    assert report(project, "UserPromptSubmit", "new", prompt=prompt) == ""
    report(project, "Stop", "past", last_assistant_message="With oakum, as the yard's book says.")
    scan(engine)
    assert "With oakum" in context_of(report(project, "UserPromptSubmit", "newer", prompt=prompt))


def test_words_that_many_notes_share_bring_none_of_them(engine: Engine, project: Path) -> None:
    record_session(engine, project)
    assert report(project, "UserPromptSubmit", "new", prompt="is the sheet of the harbour plan drawn by hand") == ""
