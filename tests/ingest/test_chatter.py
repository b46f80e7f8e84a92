"""Chatter goes in whole sentences; what carries information, and what is quoted, stays to the byte."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.ingest.chatter import (
    find_chatter,
    remove_chatter,
    split_blocks,
    split_lines,
    split_sentences,
)

FACT = "The reset bug is in SQLite 3.45."

CHATTER = [
    "I'll execute this step by step.",
    "Let me analyze the following:",
    "Let me first get the full changelog.",
    "Now I'll check the configuration.",
    "First, let me start by reading the current format.",
    "I\u2019ll run the migration script and then check the output.",
    "I'm going to look at the tests next.",
    "I need to understand the schema first.",
    "Perfect!",
    "All done!",
    "Great, now let me verify that it builds.",
    "Now I have a clear picture.",
    "You're absolutely right.",
    "Let me know if anything is missing!",
    "Would you like me to open a pull request?",
    "Here is a summary of what changed:",
    "Moving on to the second phase.",
]

INFORMATION = [
    "I'll use apsw because the standard module misses hooks.",
    "I'll check nulls in SQL instead of Python.",
    "I will never run the migration twice.",
    "We let me-too entries through.",
    "The user let me choose the port.",
    "Letting readers wait is fine.",
    "Perfect hashing is not needed here.",
    "Done: the parser reads tabs.",
    "Great Expectations checks the tables!",
    "Here is the layout of the archive:",
    "Step 1: install the package.",
    'The requirement is "Let me choose a theme. Let me check it first.".',
    "The button says `Let me check`.",
    "\u201cLet me in. Let me see the list.\u201d is what the user wants.",
    "'Let me start over' is the label.",
    '\u274c "I will check for skills" is no proof.',
    "**Perfect! It builds** on Windows too.",
    "Tool: a script that counts.",
    "Tools: ruff, mypy.",
    "The <system-reminder> tag is stripped by the reader.",
]

TRACES = [
    "Tool: read",
    "**Tool: bash**",
    "- Tool: grep",
    "Tool: sequential_thinking | Status: completed",
    "Used tools: bash, grep.",
    '{"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "a"}}',
    '{"name": "Bash", "arguments": {"command": "ls"}}',
    "\u23fa Read(src/app.py)",
    "\u23bf  Read 20 lines",
    "<function_calls>\n<invoke name='x'>\n\nLet it be.\n</invoke>\n</function_calls>",
    "<system-reminder>\nThe file was changed. Do not say so.\n</system-reminder>",
    "<local-command-caveat>Caveat: the messages below</local-command-caveat>",
    "<command-name>/clear</command-name>",
]

UNTOUCHED = [
    "## Let me know your defaults",
    "# Perfect!",
    "> Let me check the logs, says the customer.",
    "```text\nLet me check.\nTool: read\n```",
    "~~~\nPerfect!\n~~~",
    "    Let me check.",
    "<!-- Let me check. -->",
    '---\ntitle: x\nasked: |\n  Let me check.\n---\n"Fine."',
]


@pytest.mark.parametrize("sentence", CHATTER)
def test_chatter_goes_and_the_fact_beside_it_stays(sentence: str) -> None:
    assert remove_chatter(f"{sentence} {FACT}") == FACT
    assert remove_chatter(f"{FACT} {sentence}") == FACT
    assert remove_chatter(f"{FACT}\n\n- {sentence}\n- kept\n") == f"{FACT}\n\n- kept\n"


@pytest.mark.parametrize("sentence", INFORMATION)
def test_what_carries_information_stays(sentence: str) -> None:
    assert remove_chatter(sentence) == sentence
    assert not find_chatter(sentence)


@pytest.mark.parametrize("trace", TRACES)
def test_traces_go_with_their_lines(trace: str) -> None:
    found = remove_chatter(f"{FACT}\n\n{trace}\n\n- kept")
    assert found == f"{FACT}\n\n\n- kept"
    assert {piece.kind for piece in find_chatter(trace)} == {"tool trace"}


@pytest.mark.parametrize("text", UNTOUCHED)
def test_headings_code_comments_and_quotations_are_not_touched(text: str) -> None:
    assert remove_chatter(text) == text


def test_a_sentence_over_several_lines_goes_whole() -> None:
    text = "It fails on macOS. Let me check\nwhat the loader does\nthere. It works on Linux."
    assert remove_chatter(text) == "It fails on macOS. It works on Linux."


def test_a_label_goes_with_what_it_labels() -> None:
    assert remove_chatter("**Summary:** Let me look.\n**Recent:** Let me look. Fixed the port.\n") == (
        "**Recent:** Fixed the port.\n"
    )


def test_a_table_keeps_its_shape() -> None:
    row = "| Last | Tests pass. Let me compile the results. |\n| Next | Let me check. |"
    assert remove_chatter(row) == "| Last | Tests pass. |\n| Next |  |"


def test_kinds_and_places_are_told() -> None:
    text = "Perfect! Let me check.\nTool: read\n"
    assert [(piece.kind, text[piece.start : piece.end].strip()) for piece in find_chatter(text)] == [
        ("chat reply", "Perfect!"),
        ("narration", "Let me check."),
        ("tool trace", "Tool: read"),
    ]


def test_a_users_phrase_is_plain_text_and_begins_a_sentence() -> None:
    phrases, text = ("As your (.*) assistant", "Beep"), "As your (.*) assistant, I care. Beep boop. It beeps."
    assert [text[each.start : each.end] for each in find_chatter(text, phrases)] == [
        "As your (.*) assistant, I care. ",
        "Beep boop. ",
    ]
    assert not find_chatter("As your coding assistant, I care.", phrases)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "<system-reminder>\n",
        '"',
        "`",
        "\u201c",
        "|",
        "(",
        "a. ",
        "<!--\n",
        "```\n",
        "- ",
        "Let me check. ",
        "**a",
        "  \n",
    ],
)
def test_the_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    text = piece * (400_000 // len(piece))
    start = time.thread_time()
    remove_chatter(text)
    assert time.thread_time() - start < 30  # quadratic would be minutes


PIECES = st.sampled_from(
    [
        *CHATTER,
        *INFORMATION,
        *TRACES,
        *UNTOUCHED,
        FACT,
        '"',
        "`",
        "\u201c",
        "(",
        "**",
        "- ",
        "1. ",
        "| ",
        " |",
        "Note: ",
        "    ",
        "\t",
        "---",
        "<!--",
        "-->",
        "```",
        "</system-reminder>",
    ]
)
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from([" ", "\n", "\n\n", "", "\r\n"])), max_size=12).map(
    lambda parts: "".join(piece + end for piece, end in parts)
) | st.text(max_size=200)


@given(TEXTS)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    once = remove_chatter(text)
    assert remove_chatter(once) == once
    assert not find_chatter(once)


@given(TEXTS)
def test_what_stays_is_whole_sentences_in_their_order(text: str) -> None:
    prose = (block for block in split_blocks(text) if not block.is_trace)
    whole = [text[start:end] for block in prose for start, end in split_sentences(text, block.start, block.end)]
    gone = [text[piece.start : piece.end] for piece in find_chatter(text)]
    rest = "".join(remove_chatter(text).split())
    for sentence in whole:
        if sentence not in gone and re.search(r"[^\W_]", sentence):
            squeezed = "".join(sentence.split())
            assert squeezed in rest
            rest = rest[rest.index(squeezed) + len(squeezed) :]


@given(TEXTS, st.text(max_size=40).filter(lambda code: "`" not in code))
def test_fenced_code_stays_to_the_byte(text: str, code: str) -> None:
    fence = f"````\n{code}\n````"
    assert fence in remove_chatter(f"{fence}\n{text}")


@given(TEXTS)
def test_lines_and_sentences_leave_no_gaps(text: str) -> None:
    assert "".join(text[line.start : line.end] for line in split_lines(text)) == text
    for block in split_blocks(text):
        parts = "".join(text[start:end] for start, end in split_sentences(text, block.start, block.end))
        assert parts == text[block.start : block.end]


@given(st.lists(st.sampled_from(CHATTER), min_size=1, max_size=5))
def test_of_chatter_alone_nothing_stays(spoken: list[str]) -> None:
    assert not re.search(r"\w", remove_chatter(" ".join(spoken)))
