"""Which sentences the classifier selects, with what context, and what the weights make of a cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.session.recording import Recording

from scrimshaw.session import selection
from scrimshaw.session.record import Record, make_passages
from scrimshaw.session.selection import (
    KINDS,
    LONGEST_SELECTION,
    MOST_BEST,
    SENTENCES_PER_BEST,
    describe_sentences,
    load_weights,
    rate_passages,
    score_sentences,
)
from scrimshaw.session.statements import Statement, contains_text

UNLIKELY, SURE = -400, 900
# Worth it is only what says "tide" (a finding), "quay" (a decision) or "left" (open); "buoy" is worth it beside these.
WEIGHTS: Mapping[str, Sequence[int]] = {
    "": (UNLIKELY, 0, 0, 0, 0),
    "tide": (SURE, 0, 200, 0, 0),
    "quay": (SURE, 200, 0, 0, 0),
    "left": (SURE, 0, 0, 0, 300),
    "buoy": (-UNLIKELY - 50, 0, 0, 100, 0),  # 0.38
    "crew": (-UNLIKELY - 20, 0, 0, 100, 0),  # 0.45: told if a person says it in the last two turns
}


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "load_weights", lambda: WEIGHTS)


def select(recording: Recording, told: str = "") -> dict[str, list[tuple[str, str]]]:
    record = Record(recording.events, recording.items)
    found = selection.select_statements(record, score_sentences(record), told, LONGEST_SELECTION)
    return {kind: [(each.text, each.note) for each in some] for kind, some in found.items() if some}


def describe(recording: Recording) -> list[set[str]]:
    return [*describe_sentences(Record(recording.events, recording.items))]


@pytest.mark.usefixtures("weights")
def test_a_sentence_is_told_by_its_likeliest_kind() -> None:
    said = "Now I look at the pier. The tide is read in feet. So much for that. I moved the crane to the quay."
    recording = Recording().prompt("Mend the harbour.").answer(said)
    assert select(recording) == {
        "decision": [("I moved the crane to the quay.", "")],
        "finding": [("The tide is read in feet.", "")],
    }


@pytest.mark.usefixtures("weights")
@pytest.mark.parametrize(("turns", "is_told"), [(0, True), (1, True), (2, False)])
def test_of_a_person_s_last_words_more_is_told(turns: int, *, is_told: bool) -> None:
    says = "My crew rows out on Monday and Kim looks after the lamps."
    recording = Recording().prompt("Mend the harbour.").answer("The crew of the crane rows on Friday.").prompt(says)
    for number in range(turns):
        recording.prompt(f"Now look at pier number {number}.").answer(f"Pier {number} is made of wood.")
    assert ("result" in select(recording)) == is_told


@pytest.mark.usefixtures("weights")
@pytest.mark.parametrize(("length", "most"), [(10, 0), (SENTENCES_PER_BEST, 1), (999, MOST_BEST)])
def test_of_a_long_session_the_best_are_told_though_they_are_not_sure(length: int, most: int) -> None:
    said = [f"The buoy {word * 9} {word * 8} {word * 7} {word * 6}." for word in "abcdefgh"]
    rest = [f"Now I look at pier number {number}." for number in range(length)]
    answers = ["\n\n".join(some) for some in zip(said, rest[:8], strict=True)] + rest[8:]
    recording = Recording().prompt("Mend the harbour.")
    for answer in answers:
        recording.answer(answer)
    assert [text for text, _ in select(recording).get("result", ())] == said[:most]


@pytest.mark.usefixtures("weights")
def test_a_sentence_that_only_says_that_all_is_well_is_not_told() -> None:
    said = "All tests of the tide pass. Everything about the tide looks good."
    recording = Recording().prompt("Mend the harbour.").answer(said)
    assert select(recording) == {}


@pytest.mark.usefixtures("weights")
def test_what_quotes_only_what_no_successor_needs_is_left_out() -> None:
    recording = Recording().prompt("I look at the pier.").answer("I look at the crane. The tide is read in feet.")
    recording.answer("I look at the old winch.").bash("make", "no rule")
    record, whole = Record(recording.events, []), "I look at the crane. The tide is read in feet."
    claims = [Statement("at the pier", 1), Statement(whole, 2), Statement("I look at the old winch.", 3)]
    likely = partial(selection.is_likely, record, score_sentences(record))
    assert [each.event for each in [*claims, Statement("no rule", 4)] if likely(each)] == [2, 4]
    assert all(selection.is_likely(record, (), each) for each in claims)


def test_a_reply_that_says_nothing_lasting_is_no_decision_of_the_draft() -> None:
    recording = Recording().prompt("Mend the harbour page.").edit("page.py").answer("Mended. Shall I paint it as well?")
    recording.prompt("Ciao for today! I need to eat now").answer("Enjoy it.")
    assert [each.text for each in recording.decisions()] == ["Ciao for today! I need to eat now"]
    assert recording.draft().decisions == ()


def test_a_sentence_is_described_by_its_cues_and_by_those_beside_it() -> None:
    said = "We use `csv` instead of tabs. Why not tabs? Since tabs break."
    first, second, third = describe(Recording().answer(said))
    assert {"a decisions alternative", "a then why", "a since "} <= first
    assert {"a then since", "a since ."} <= second
    assert "a then " in third


def test_a_sentence_is_described_by_its_place_among_the_changes() -> None:
    recording = Recording().answer("I look at the pier.").edit("a.py").answer("I look at the crane.").edit("b.py")
    stages = [min(each for each in found if "edits" in each) for found in describe(recording.answer("It is mended."))]
    assert stages == ["a edits 0", "a edits 1", "a edits 2"]
    assert "a edits " in describe(Recording().answer("I look at the pier."))[0]


@pytest.mark.usefixtures("weights")
def test_what_was_told_is_not_told_again() -> None:
    recording = Recording().prompt("Mend the harbour.").answer("The tide is read in feet from the old gauge.")
    assert select(recording, "task\nthe old gauge has the tide in feet, which is read by the pier") == {}


@pytest.mark.usefixtures("weights")
def test_the_items_of_a_list_are_of_one_kind_and_name_its_heading() -> None:
    said = (
        "What the harbour still needs:\n\n- the crane at the quay\n- a gauge for the tide\n- what is left of the pier\n"
    )
    assert select(Recording().prompt("Mend the harbour.").answer(said)) == {
        "open": [
            ("the crane at the quay", "What the harbour still needs"),
            ("a gauge for the tide", "What the harbour still needs"),
            ("what is left of the pier", "What the harbour still needs"),
        ]
    }


@pytest.mark.usefixtures("weights")
def test_the_items_of_the_account_of_the_work_share_a_line_if_they_are_not_open() -> None:
    recording = Recording().prompt("Mend the harbour.").answer("I look at the lock of the pier.").prompt("go on")
    account = "Done:\n\n- the lock shuts\n- a gauge for the tide\n- the pier is oiled\n\nLeft to do:\n\n"
    recording.edit("pier.py").answer(f"{account}- what is left of the mole\n- a crane left unpainted")
    assert select(recording) == {
        "finding": [("a gauge for the tide", "Done: the lock shuts; the pier is oiled")],
        "open": [("what is left of the mole", "Left to do"), ("a crane left unpainted", "Left to do")],
    }


@pytest.mark.usefixtures("weights")
def test_what_is_listed_to_choose_from_is_not_told_and_what_is_left_is_open() -> None:
    said = (
        "Three ways out:\n\n- the crane at the quay\n- a gauge for the tide\n\nFor Monday:\n\n- a new buoy at the quay"
    )
    found = select(Recording().prompt("Mend the harbour.").answer(said))
    assert found == {"open": [("a new buoy at the quay", "For Monday")]}


@pytest.mark.usefixtures("weights")
def test_what_is_left_in_the_list_of_what_changed_is_not_open() -> None:
    said = "What changed:\n\n- the fee that is left is paid"
    assert select(Recording().prompt("Mend the harbour.").answer(said)) == {}


@pytest.mark.usefixtures("weights")
def test_a_sentence_is_news_beside_one_that_is_told_and_a_line_of_few_words() -> None:
    recording = Recording().prompt("Mend the harbour.").answer("A buoy drifts. The tide at the pier moves the buoy.")
    assert select(recording, "- tide, buoy (e1)\n- A buoy drifts.") == {
        "finding": [("The tide at the pier moves the buoy.", "")]
    }


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("The buoys are red. A buoy drifts. The tide moves it.", "A buoy drifts. The tide moves it."),
        ("The gauge is old. It shows the tide in feet.", "The gauge is old. It shows the tide in feet."),
        ("The gauge is old. Feet are shown for the tide.", "Feet are shown for the tide."),
    ],
)
@pytest.mark.usefixtures("weights")
def test_what_is_worth_it_beside_a_sentence_or_pointed_to_comes_with_it(said: str, told: str) -> None:
    (found,) = select(Recording().prompt("Mend the harbour.").answer(said)).values()
    assert found == [(told, "")]


@pytest.mark.usefixtures("weights")
def test_a_reply_is_told_whole_with_what_it_replies_to() -> None:
    recording = Recording().prompt("Mend the harbour.").answer("Should I move the crane to the pier?")
    recording.prompt("no, to the quay. the pier is full. is that hard?")
    assert select(recording) == {
        "decision": [("no, to the quay. the pier is full.", "on (e2): Should I move the crane to the pier?")]
    }


@pytest.mark.usefixtures("weights")
def test_what_is_said_at_length_is_not_known_from_the_name_of_a_file() -> None:
    said = "The tide of harbour, pier, berth, lock and mole is measured hourly by gauges beside every single lantern."
    told = "- tide/harbour/pier/berth.py"
    recording = Recording().prompt("Mend the harbour.").answer(said)
    assert select(recording, told) == {"finding": [(said, "")]}


@pytest.mark.usefixtures("weights")
def test_sentences_that_a_quotation_parts_are_not_told_as_one() -> None:
    said = "Keep the crane. The quay is old.\n\n> a mail of somebody\n\nSo a post."
    recording = Recording().prompt("Mend the harbour.").answer("Mended.").prompt(said)
    assert [text for lines in select(recording).values() for text, _ in lines] == ["Keep the crane. The quay is old."]


@pytest.mark.usefixtures("weights")
def test_what_was_taken_back_and_a_summary_are_not_told() -> None:
    taken = Recording().prompt("Mend the harbour.").edit("a.py").answer("I put the crane on the quay.").prompt("revert")
    assert select(taken) == {}
    assert select(Recording().compact("The crane was put on the quay.").prompt("Go on with the pier.")) == {}


@pytest.mark.usefixtures("weights")
def test_a_selection_is_short() -> None:
    recording = Recording().prompt("Mend the harbour.")
    for number in range(60):
        names = " ".join([f"{chr(97 + number % 26)}{number}{other * 5}" for other in "abcdefghijkl"])
        recording.answer(f"The tide is read by {names}.")
    (found,) = select(recording).values()
    assert len(found) > 5
    assert sum(len(text) for text, _ in found) <= LONGEST_SELECTION


@pytest.mark.usefixtures("weights")
def test_a_pasted_line_costs_little_and_is_not_told() -> None:
    pasted = f"The tide is {'a' * 200_000} {'abc/' * 50_000}"
    assert select(Recording().prompt("Mend the harbour.").answer("Which one?").prompt(pasted)) == {}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Root cause: `parse_offset` in `tz.py` drops the minutes, so Nepal (UTC+5:45) is read as UTC+5.", "finding"),
        ("Found it: the pool hands out closed sockets, because `release()` is called twice on a timeout.", "finding"),
    ],
)
def test_the_weights_know_a_cause(said: str, kind: str) -> None:
    recording = Recording().prompt("Why is Nepal off by 45 minutes?").read("tz.py").bash("pytest", "x", failed=True)
    recording.answer(said).edit("tz.py").bash("pytest", "12 passed").answer("Let me look at the file.")
    record = Record(recording.events, [])
    scores = dict(zip([each.text for each in record.sentences], score_sentences(record), strict=True))
    assert scores[said][1] == kind
    assert max(scores, key=lambda text: scores[text][0]) == said


def test_each_weight_says_something_of_worth_and_of_each_kind() -> None:
    weights = load_weights()
    assert {len(each) for each in weights.values()} == {1 + len(KINDS)}
    assert all(any(each) for each in weights.values())
    assert "" in weights


@pytest.mark.usefixtures("weights")
def test_a_passage_is_worth_what_it_quotes_by_length() -> None:
    recording = Recording().prompt("Mend the harbour.").answer(f"The **tide** is in feet. {'I look at the pier. ' * 4}")
    recording.bash("make tide", "ok").prompt("And now?").answer("I look at the crane.")
    recording.prompt("What is left?").answer("It is moved to the quay.")
    passages = make_passages(recording.events)
    worths = rate_passages(Record(recording.events, recording.items), passages)
    rated = {each.text.splitlines()[0]: worth for each, worth in zip(passages, worths, strict=True)}
    assert rated["Bash: make tide"] == 0.0
    assert 0 < rated["> And now?"] < 0.1 < rated["> Mend the harbour."] < 0.5 < rated["> What is left?"] < 1


SAID = "The tide is read. | We moved it because it is late | - an item: | `code` | ## Left | ?"
WORDS = st.lists(st.sampled_from(SAID.split()), max_size=40).map(" ".join)


@given(st.lists(st.tuples(st.sampled_from(["prompt", "answer", "stop", "compact"]), WORDS), max_size=8))
def test_every_selected_text_is_quoted_from_its_event(turns: list[tuple[str, str]]) -> None:
    recording = Recording()
    for kind, text in turns:
        getattr(recording, kind)(text.replace("|", "\n"))
        recording.bash("ls", "a")
    record = Record(recording.events, recording.items)
    assert len([*describe_sentences(record)]) == len(score_sentences(record)) == len(record.sentences)
    events = {each.number: each for each in recording.events}
    rated = [*rate_passages(record, passages := make_passages(recording.events))]
    assert len(rated) == len(passages)
    assert all(0 <= worth <= 1 for worth in rated)
    selected = selection.select_statements(record, score_sentences(record), "", LONGEST_SELECTION)
    told: list[Statement] = [each for some in selected.values() for each in some]
    assert all(contains_text(events[each.event], each.text) for each in told)
