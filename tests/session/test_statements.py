"""Sentences: where they end, who says them, and what is not one."""

from __future__ import annotations

import pytest
from tests.session.recording import Recording

from scrimshaw.session.record import make_passages
from scrimshaw.session.statements import (
    AGENT,
    PATTERNS,
    SUMMARY,
    USER,
    contains_text,
    flatten,
    split_paragraph,
    split_sentences,
    strip_client_noise,
)


def said(recording: Recording) -> list[str]:
    return [each.text for each in split_sentences(recording.events)]


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        ("One ends. Another starts.", ["One ends.", "Another starts."]),
        ("It uses `ALTER ... MODIFY` here. Next.", ["It uses `ALTER ... MODIFY` here.", "Next."]),
        ("Run git add . and commit it.", ["Run git add . and commit it."]),
        ("Use a parser, e.g. Lark. Or none.", ["Use a parser, e.g. Lark.", "Or none."]),
        (
            "The export takes 4 s. The header is not translated.",
            ["The export takes 4 s.", "The header is not translated."],
        ),
        ("In v1.2.3 it was fixed.", ["In v1.2.3 it was fixed."]),
        ("Export it (Art. 15), till May. Next.", ["Export it (Art. 15), till May.", "Next."]),
        ("It works (all of it.) Next.", ["It works (all of it.)", "Next."]),
        ("终于好了。再试一次。", ["终于好了。", "再试一次。"]),
        ("", []),
    ],
)
def test_a_stop_ends_a_sentence_only_where_it_does(block: str, parts: list[str]) -> None:
    assert [part.strip() for part in split_paragraph(block) if part.strip()] == parts


@pytest.mark.parametrize(
    ("says", "parts"),
    [
        ("16 bits. always 16 bits.", ["16 bits. ", "always 16 bits."]),
        (
            "ALKALINE. they put in the wrong ones. design for that",
            ["ALKALINE. ", "they put in the wrong ones. ", "design for that"],
        ),
        ("It is on port 2. Then approx. ten. Do that.", ["It is on port 2. ", "Then approx. ten. ", "Do that."]),
    ],
)
def test_a_person_may_begin_with_a_capital_and_go_on_in_small_letters(says: str, parts: list[str]) -> None:
    assert [*split_paragraph(says, USER)] == parts


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("<command-name>/mcp</command-name>\n<command-args></command-args>", ""),
        ("<local-command-stdout>Reconnected</local-command-stdout>", ""),
        ("<command-message>x</command-message><command-args>add paging</command-args>", "add paging"),
        ("<instructions>MODIFY nothing", ""),
        ("/model opus", ""),
        ("/create-beads for the linter setup", "/create-beads for the linter setup"),
        ("[Image #1] what is wrong here", "what is wrong here"),
        ("Fix it <!-- a template --> now", "Fix it \n\f\n now"),
        ("See <code_style> and <tests/>, as <b>ever</b>", "See <code_style> and <tests/>, as <b>ever"),
    ],
)
def test_what_a_client_adds_is_not_asked(prompt: str, words: str) -> None:
    assert strip_client_noise(prompt) == words


def test_pasted_output_code_and_tables_are_not_sentences() -> None:
    text = (
        "It fails like this.\n$ make test\nerror: no rule to make target\n| a | b |\n```\nLet's use tables.\n```\nOdd."
    )
    assert said(Recording().prompt(text)) == ["It fails like this.", "Odd."]


def test_items_know_their_heading() -> None:
    found = split_sentences(
        Recording().answer("## Next steps\n\n- Wire the exporter\n- **Bold**: write the docs").events
    )
    assert [(each.text, each.heading, each.is_item) for each in found] == [
        ("Wire the exporter", "Next steps", True),
        ("Bold: write the docs", "Next steps", True),
    ]


def test_a_list_keeps_a_heading_that_is_chatter_by_itself() -> None:
    lead_in = "Here's a summary of what you need to do next:"
    text = f"Great! We've now:\n\n- Built the exporter\n\n{lead_in}\n\n1. Index the notes"
    found = split_sentences(Recording().answer(text).events)
    assert [(each.text, each.heading) for each in found] == [
        ("Built the exporter", "We've now:"),
        ("Index the notes", lead_in),
    ]


def test_wrapped_lines_are_one_sentence() -> None:
    line = "The exporter writes one file for each table of the vault and then a list of them,"
    assert said(Recording().answer(f"{line}\nSorted by name.")) == [f"{line} Sorted by name."]


def test_statements_name_speaker_and_turn() -> None:
    recording = (
        Recording().compact("The goal was paging for lists.").prompt("Add paging here.").answer("I added paging.")
    )
    recording.prompt("Now sort it.")
    assert [(each.by, each.turn) for each in split_sentences(recording.events)] == [
        (SUMMARY, 0),
        (USER, 1),
        (AGENT, 1),
        (USER, 2),
    ]


def test_an_event_holds_its_text_whatever_the_white_space() -> None:
    event = Recording().answer("I **added** paging\nto the list.").events[0]
    assert contains_text(event, "I added paging to the list.")
    assert not contains_text(event, "I added sorting to the list.")


def test_chatter_is_gone_before_anything_is_read() -> None:
    text = "I'll execute this step by step. Let me analyze the following. The exporter writes one file per table."
    assert said(Recording().answer(text)) == ["The exporter writes one file per table."]


def test_marks_of_emphasis_go_and_powers_in_code_stay() -> None:
    recording = Recording().answer("**The window** is `(window**2).sum()` now.")
    assert [each.text for each in split_sentences(recording.events)] == ["The window is `(window**2).sum()` now."]


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("**Note:** keep  it", "Note: keep it"),
        ("((a**3 + b)/c)/1/(c**2)", "((a**3 + b)/c)/1/(c**2)"),
        ("2 ** 3 is `x**2`", "2 ** 3 is `x**2`"),
        ("a (**bold**), b", "a (bold), b"),
    ],
)
def test_emphasis_is_no_power(text: str, flat: str) -> None:
    assert flatten(text) == flat


def test_a_rest_that_joins_the_answers_repeats_them() -> None:
    recording = Recording().answer("The proxy refuses it.").bash("make").answer("It is nginx, at `10m`.")
    said = split_sentences(recording.stop("The proxy refuses it.\nIt is nginx, at `10m`.").events)
    assert [each.event for each in said] == [1, 3]
    assert split_sentences(recording.stop("The proxy refuses it.\nThe limit is raised.").events)[-1].event == 5
    assert [each.text.count("proxy") for each in make_passages(recording.events[:-1])] == [1, 0]


@pytest.mark.parametrize(
    ("section", "cue", "text", "is_met"),
    [
        ("decisions", "explicit", "I'd rather have no database", True),
        ("decisions", "explicit", "I’d rather have no database", True),
        ("decisions", "explicit", "id rather have no database", True),
        ("decisions", "trouble", "it doesnt start", True),
        ("decisions", "concedes", "you’re right", True),
        ("decisions", "stance", "id like to use plain sql", True),
        ("decisions", "intent", "lets keep it", True),
        ("decisions", "intent", "Well, that is all", False),
        ("decisions", "act", "We were using it", False),
        ("decisions", "proposes", "The id is a hash", False),
        ("changes", "not_a_result", "it isnt there", True),
        ("changes", "not_a_result", "Added the component", False),
    ],
)
def test_an_apostrophe_may_be_typographic_or_left_out(section: str, cue: str, text: str, *, is_met: bool) -> None:
    assert bool(PATTERNS[section][cue].search(text)) is is_met
