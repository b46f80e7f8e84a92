"""Which sentences count as choices, and which look like one."""

from __future__ import annotations

import pytest
from tests.session.recording import Recording


def found(recording: Recording) -> list[str]:
    return [each.text for each in recording.decisions()]


@pytest.mark.parametrize(
    "said",
    [
        "Let's use apsw, not sqlite3.",
        "No, I'd rather keep the old parser.",
        "Don't add a dependency for that, the standard library has urllib.",
        "Let's go with the second proposal for the cache.",
        "We should keep the fixtures instead of mocking the database.",
    ],
)
def test_a_user_decides(said: str) -> None:
    assert found(Recording().prompt("Implement the storage layer.").prompt(said)) == [said.rstrip()]


@pytest.mark.parametrize(
    "said",
    [
        "I'll use apsw instead of sqlite3 because its wheel bundles a newer SQLite.",
        "I decided to store the vectors as float16.",
        "I'm going with a queue table rather than a spool file.",
        "We rejected the daemon since hooks must not start processes.",
        "The cleanest solution is one writer, and I'll follow it in the worker.",
        "I'll wrap the call in a timeout so that a dead peer cannot stall the search.",
    ],
)
def test_an_agent_decides(said: str) -> None:
    assert found(Recording().prompt("Implement the storage layer.").answer(said)) == [said]


@pytest.mark.parametrize(
    "said",
    [
        "Should we use apsw instead of sqlite3?",
        "If we use apsw instead of sqlite3, the wheel grows.",
        "Let me check the parser instead of guessing.",
        "Let me read the configuration because it names the port.",
        "The function returns None instead of the removed header.",
        "Maybe I'll use apsw instead of sqlite3.",
        "We haven't decided on a storage engine yet.",
        "I'll run the parser tests again.",
        "I used the search because the file was long.",
        "I'll use a temporary script instead of the shell.",
        "I should add an upload limit because operators change it.",
        "Also replace the old parser with the new one.",
        "Replaced the hand-written parser with tomllib.",
        "I've updated the parser because the table grew.",
        "That is why we keep the parser instead of tomllib.",
        "I'll define an app config or just use the migrations instead.",
    ],
)
def test_what_only_looks_like_a_choice(said: str) -> None:
    assert found(Recording().prompt("Implement the storage layer.").answer(said)) == []


@pytest.mark.parametrize("said", ["which storage engine is better, sqlite or postgres?", "ok go on", "run the tests"])
def test_a_question_or_a_nod_is_no_choice(said: str) -> None:
    assert found(Recording().prompt("Implement the storage layer.").prompt(said)) == []


def test_the_cause_stands_before_a_step_that_names_none() -> None:
    said = "SQLite doesn't support that change of a column. I'll rewrite the whole table in the migration."
    assert found(Recording().answer(said)) == [said]


def test_lines_under_a_heading_of_decisions_count() -> None:
    said = "## Decisions\n- One writer only\n- Vectors stay in the index file\n## Tests\n- All twelve of them ran\n"
    assert found(Recording().answer(said)) == ["Vectors stay in the index file"]
    # four words make a statement, three are a label
    assert (
        found(Recording().answer(said.replace("One writer only", "Only one writer per vault")))[0]
        == "Only one writer per vault"
    )


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        ("Decision: the refunds stay with the old ledger until March.", True),
        ("**Decision:** the refunds stay with the old ledger until March.", True),
        ("- Our decision: the refunds stay with the old ledger until March.", True),
        ("Entscheidung: die Gutschriften bleiben bis März im alten Hauptbuch.", True),
        ("Décision : les remboursements restent dans l'ancien ledger jusqu'en mars.", True),
        ("Decision needed: whether the refunds stay with the old ledger.", False),
        ("No decision: the refunds stay with the old ledger as they were.", False),
    ],
)
def test_a_line_with_the_label_of_a_decision_is_one(said: str, is_told: bool) -> None:
    recording = Recording().prompt("Move the refunds to the new ledger").edit("refunds.py")
    decided = recording.answer(f"The refunds use the new ledger now.\n\n{said}").decisions()
    assert bool(decided) is is_told


def test_a_choice_is_told_once() -> None:
    recording = Recording()
    recording.answer("I'll use apsw instead of sqlite3 for the journal.")
    recording.answer("So I'll use apsw instead of sqlite3 for the journal here.")
    assert len(found(recording)) == 1


def test_of_two_words_on_one_choice_the_last_counts() -> None:
    recording = Recording().answer("I'll use apsw instead of sqlite3 for the journal because its wheel is newer.")
    last = "I'll use sqlite3 instead of apsw for the journal because its wheel is smaller."
    assert found(recording.answer(last)) == [last]


def test_what_a_person_takes_back_is_no_choice_any_more() -> None:
    recording = Recording().prompt("Implement the storage layer.").edit("src/storage.py")
    recording.answer("I'll use apsw instead of sqlite3 for the journal. I added the journal writer.")
    assert found(recording) != []
    made = recording.prompt("nah, revert that please").draft()
    assert (made.decisions, [each.text for each in made.changed]) == ((), ["src/storage.py"])


def test_a_wish_that_a_person_takes_back_is_told_as_taken_back() -> None:
    recording = Recording().prompt("Add the metrics of the harbour.").edit("metrics.py").answer("They are there.")
    recording.prompt("Limit the rate: use a token bucket, not fixed windows, because bursts doubled the load.")
    recording.edit("limit.py").answer("Added a bucket in `limit.py`.")
    (taken,) = recording.prompt("hm actually revert that, ops limits the rate in nginx").edit("limit.py").decisions()
    assert taken.text == "hm actually revert that, ops limits the rate in nginx"
    assert (
        taken.note
        == "takes back (e4): Limit the rate: use a token bucket, not fixed windows, because bursts doubled the load."
    )


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("no!! never float for money. cast the old ones to decimal", None),
        ("I don't want bigger runners then. budget is frozen until january", None),
        ("Please store the fees in cents, not floats. The export truncates.", None),
        ("ok scratch that. I asked the office: one sum per ferry, not per seat. Group by ferry please.", None),
        ("Not Tuesday, I'm away; make it Thursday the 26th for the ferry.", None),
        ("I'd rather not paper over the fees with a timeout, if it's all the same to you.", None),
        ("btw do not raise the slot size, the layout is frozen since 200 units have it", None),
        ("Is it slow? Never cache the tides, they change hourly.", "Never cache the tides, they change hourly."),
    ],
)
def test_a_person_s_decision_is_told_with_what_is_around_it(prompt: str, told: str | None) -> None:
    recording = (
        Recording().prompt("Compute the fees of the harbour.").edit("a.py").answer("I used floats for the fees.")
    )
    assert found(recording.prompt(prompt).edit("b.py")) == [told or prompt]


@pytest.mark.parametrize(
    "said",
    [
        "no new deps pls. we ship to air gapped boxes",
        "dont roll back, 2.9 has the kafka fix",
        "alerts go to slack only. nobody gets woken up for this",
    ],
)
def test_what_a_person_rules_out_in_few_words_is_a_decision(said: str) -> None:
    recording = Recording().prompt("Compute the fees of the harbour.").edit("a.py").answer("They are computed.")
    assert found(recording.prompt(said).edit("b.py")) == [said]


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        ("I'm hoisting the draft into the ViewModel, because a bundle holds 1 MB.", True),
        ("I'll put a guard around the sensor, so an early return can't leave the bus slow.", True),
        ("I'm checking the sensor, because the bus is slow.", False),
    ],
)
def test_what_an_agent_does_for_a_reason_is_a_decision(said: str, *, is_told: bool) -> None:
    recording = Recording().prompt("Mend the sensor of the harbour.").answer(said).edit("sensor.cpp")
    assert found(recording) == [said] * is_told


LAZILY = "I decided to load every chart lazily, because most are below the fold."


@pytest.mark.parametrize(
    ("then", "decided"),
    [
        ("that breaks printing. revert this and only defer the map",
         ["that breaks printing. revert this and only defer the map"]),
        ("Undo all of that, please.", []),
        ("Can you revert this?", []),
        ("How do I undo this?", [LAZILY]),
        ("Should the board show the tides, or forget it?", [LAZILY]),
        ("Don't revert this, it is fine.", [LAZILY, "Don't revert this, it is fine."]),
        ("Stop the chart server and run the tests.", [LAZILY]),
        ("No more charts are missing, commit it.", [LAZILY]),
    ],
)  # fmt: skip
def test_a_turn_is_taken_back_by_any_sentence_that_asks_for_it(then: str, decided: list[str]) -> None:
    recording = Recording().prompt("Make the harbour board fast.").edit("src/board.py").answer(LAZILY)
    assert found(recording.prompt(then).edit("src/map.py")) == decided


def test_a_refusal_takes_back_what_it_names_and_its_wishes_are_choices() -> None:
    recording = Recording().prompt("Add caching to the weather client.")
    recording.answer(
        "I'll use Redis for the cache, because workers share it. I'll keep the HTTP timeout, since tests rely on it."
    )
    recording.edit("weather.py").prompt("no, not redis, we have none. use an in-process cache, it is there already")
    assert found(recording) == [
        "I'll keep the HTTP timeout, since tests rely on it.",
        "no, not redis, we have none. use an in-process cache, it is there already",
    ]


@pytest.mark.parametrize(
    ("reply", "is_told"),
    [
        ("are you mad, the harbour's logs exist only here. never drop a table", False),
        ("that folder belongs to the port authority, nobody touches it", False),
        ("fine, but the fallback stays", True),
        ("do it in the template too", True),
    ],
)
def test_a_proposal_that_is_met_with_something_else_than_yes_is_no_choice(reply: str, is_told: bool) -> None:
    proposal = (
        "`tides.py` reads the berth too; I'd drop the old table there as well so that a null doesn't get through."
    )
    recording = Recording().prompt("Why does the harbour hang?").read("tides.py").answer(proposal).prompt(reply)
    assert (proposal in found(recording)) is is_told


@pytest.mark.parametrize(
    ("reply", "is_told"),
    [
        ("hm no, other way. cooldown, 6h, sailors understand it", False),
        ("nah, the skippers watch it themselves", False),
        ("no. the tides need none of it", False),
        ("ok, hysteresis then", True),
    ],
)
def test_a_proposal_is_refused_though_the_refusal_does_not_name_it(reply: str, *, is_told: bool) -> None:
    recording = Recording().prompt("The gauge wobbles around the mark, what helps?").read("gauge.py")
    recording.answer("A cooldown hides a second wave. I would go with hysteresis.").prompt(reply)
    assert ("I would go with hysteresis." in found(recording.edit("gauge.py"))) is is_told


@pytest.mark.parametrize(
    "text", ["harbour warnings must never be cached", "leave the export as is, keep the old name", "good. go with apsw"]
)
def test_what_a_person_demands_or_leaves_is_a_choice(text: str) -> None:
    (choice,) = found(Recording().prompt("Look at the export of the harbour.").answer("I looked.").prompt(text))
    assert choice in text


def test_what_a_person_guesses_is_none() -> None:
    guess = "it must be the cache of the harbour export"
    assert found(Recording().prompt("Look at the export of the harbour.").answer("I looked.").prompt(guess)) == []


@pytest.mark.parametrize(
    "text",
    [
        "I'm using Decimal and not float, because cents add up.",
        "I would use rq and not Celery, since one queue is enough.",
    ],
)
def test_an_agents_choice_is_one_in_any_tense(text: str) -> None:
    assert found(Recording().prompt("Move the jobs to a queue.").answer(text)) == [text]


@pytest.mark.parametrize(
    ("reply", "note"),
    [
        ("do it", "agreed in e4"),
        ("ok, go for it!", "agreed in e4"),
        ("do it. rule from now on: utc inside", "agreed in e4: rule from now on: utc inside"),
        ("do it. thx", "agreed in e4"),
        ("ok", ""),
        ("what does that cost?", ""),
    ],
)
def test_who_says_to_go_ahead_agrees_to_the_last_proposal(reply: str, note: str) -> None:
    recording = Recording().prompt("Why is the tide shifted?").read("tide.py")
    recording.answer("## Fix\n\nConvert to UTC in `tide.py`. The notebook reads UTC.").prompt(reply)
    told = [(each.text, each.note) for each in recording.edit("tide.py").decisions()]
    assert told == [("Convert to UTC in `tide.py`.", note)] * bool(note)


def test_an_agreement_may_go_on() -> None:
    recording = Recording().prompt("Build the harbour for fewer machines.").edit("build.yml")
    recording.answer("The old machines need a second build. Should I drop the build for darwin?")
    (agreed,) = recording.prompt("yes, but only next release. announce it").decisions()
    assert (agreed.text, agreed.note) == (
        "Should I drop the build for darwin?",
        "agreed in e4: but only next release. announce it",
    )


def test_a_pick_may_go_on() -> None:
    recording = (
        Recording().prompt("Where do flags live?").answer("1. In the database table flags\n2. In a file flags.toml")
    )
    recording.prompt("2, but flags must be readable without the database")
    assert "In a file flags.toml" in found(recording)
    assert recording.decisions()[0].note == "chosen in e3: but flags must be readable without the database"


@pytest.mark.parametrize(
    ("refusal", "is_told"), [("NEVER apply from a laptop.", False), ("no no. use the pipeline", True), ("go on", True)]
)
def test_what_a_person_forbids_is_taken_back(refusal: str, *, is_told: bool) -> None:
    plan = "I'm applying the role, because the workflow needs it."
    recording = Recording().prompt("Use roles in the harbour.").edit("oidc.tf").answer(plan)
    assert (plan in found(recording.prompt(refusal).edit("plan.yml"))) == is_told


@pytest.mark.parametrize(
    "said",
    [
        "The notify goes into a trigger rather than into the code, because the backfill script would be missed.",
        "The harbour restarts each night. A lost key means a second label, so I'm putting keys into Postgres.",
        "The readers fight for one lock. I am taking it out again, since it is slower.",
    ],
)
def test_a_choice_needs_no_agent_and_has_its_ground_before_it(said: str) -> None:
    assert found(Recording().prompt("Print labels for the harbour.").answer(said).edit("keys.sql")) == [said]


def test_what_an_agent_muses_it_left_alone_is_no_choice() -> None:
    said = "I did not touch the tenant cache."
    recording = Recording().prompt("Fix the loader.").edit("src/load.py")
    assert found(recording.answer(f"Why are rows doubled? {said} Its key is the tenant. So the loader is it.")) == []


def test_code_is_not_read() -> None:
    said = "Done with the loader.\n```python\n# I'll use apsw instead of sqlite3\n```\n"
    assert found(Recording().answer(said)) == []


def test_there_are_few_of_them_in_a_short_session() -> None:
    recording = Recording()
    names = ("parser", "writer", "lexer", "cache", "vault", "ledger", "journal", "router")
    for name in names:
        recording.answer(f"For the {name} I'll use plan {name}-a instead of {name}-b, {name * 2} wins.")
    assert 0 < len(found(recording)) <= 4


def test_what_was_decided_last_is_not_crowded_out() -> None:
    recording = Recording().prompt("Implement the storage layer.")
    for number in range(6):
        recording.answer(
            f"I decided to reject table {number} instead of the {'abcdef'[number] * 9} index because it is slow."
        )
    recording.answer("I'll keep the journal file rather than the spool.")
    assert "I'll keep the journal file rather than the spool." in found(recording)


@pytest.mark.parametrize(
    "said",
    ["I want to use it on an old laptop, too.", "I disagree, consider what a new laptop needs for the exporter."],
)
def test_a_goal_and_a_retort_without_their_object_are_no_decisions(said: str) -> None:
    assert found(Recording().prompt("Extend the exporter.").edit("src/export.py").prompt(said).answer("Ok.")) == []


@pytest.mark.parametrize(
    "said",
    [
        "And never log file names, they contain personal data.",
        "Remember: we never mock the database in tests.",
        "the columns hold utc from now on",
        "and NO dashboard.",
        "the server is mx.example. et jamais plus de 20 destinataires par mail",
        "uploads go through mx.example, never more than 20 recipients per mail",
        "max 20 recipients per mail",
        "uploads go to the harbour box, always with a checksum",
        "keine neuen Pakete bitte",
        "w/o aiosmtpd, I don't want another package",
        "we are NOT doing coupon codes, boss dropped it.",
        "sorry to interrupt, but I wanted to remind you to always run specs before a push",
        "So no Open-Meteo.",
        "then the window goes away",
        "dann nehmen wir die alten Karten",
        "MAE remains for us, internal",
        "the timetable comparison I don't like",
        "field units stay crc forever, fine.",
        "By hand is ok, I read the paper anyway.",
    ],
)
def test_a_rule_that_a_person_gives_is_a_decision(said: str) -> None:
    recording = Recording().prompt("Store uploads on the disk.").edit("storage.py").answer("The uploads are stored.")
    recording.edit("README.md").answer("The guide tells it.")
    assert found(recording.prompt(said).edit("b.py").answer("Noted.")) == [said]


@pytest.mark.parametrize(
    "said",
    [
        "the upload crashes at night and never recovers",
        "the upload always fails at night",
        "no errors in the log",
        "only 3 of 5 uploads arrive",
        "the harbour api takes ids, iirc max 20 ids",
    ],
)
def test_what_a_person_reports_is_no_rule(said: str) -> None:
    recording = Recording().prompt("Store uploads on the disk.").edit("storage.py").answer("The uploads are stored.")
    recording.edit("README.md").answer("The guide tells it.")
    assert found(recording.prompt(said).edit("b.py").answer("Noted.")) == []


@pytest.mark.parametrize(
    "said",
    [
        "I cached the rates with lru_cache rather than Redis since there is one process.",
        "We answer with 204 instead of 200 because the body is empty.",
    ],
)
def test_a_preference_with_its_reason_is_a_decision(said: str) -> None:
    assert found(Recording().prompt("Make the rates faster.").edit("rates.py").answer(said)) == [said]


@pytest.mark.parametrize(
    ("heading", "is_told"),
    [
        ("## Root cause", False),
        ("**Problem:**", False),
        ("## Ursache", False),
        ("## Root cause and fix", True),
        ("## Design", True),
    ],
)
def test_what_explains_a_fault_is_no_decision(heading: str, *, is_told: bool) -> None:
    said = "We keep the string of the tide as it is, and the notebook cuts the offset off."
    recording = Recording().prompt("Why is the tide shifted?").read("tide.py").answer(f"{heading}\n\n{said}")
    assert (said in found(recording.prompt("mend it in the export").edit("tide.py"))) is is_told


def test_what_was_left_alone_on_purpose_is_a_decision() -> None:
    recording = Recording().prompt("Fix the loader.").edit("src/load.py")
    recording.answer("I kept the old exporter as it is. We share the tenant cache on purpose.")
    assert [each.text for each in recording.decisions()] == [
        "I kept the old exporter as it is.",
        "We share the tenant cache on purpose.",
    ]


@pytest.mark.parametrize(
    "said",
    ["So we ran it again on the box.", "then we see the error in the log", "The chart is fine, but the log is empty."],
)
def test_what_a_person_tells_of_is_no_conclusion(said: str) -> None:
    recording = Recording().prompt("Store uploads on the disk.").edit("storage.py").answer("The uploads are stored.")
    assert found(recording.prompt(said).edit("b.py").answer("Noted.")) == []


def test_a_conclusion_may_say_little_by_itself_and_a_refusal_stand_within_a_prompt() -> None:
    recording = Recording().prompt("Report the depths of the harbour.").edit("report.py").answer("It reports them.")
    recording.prompt("The customer has her contract. So we pass to 5, ok.").edit("report.py").answer("It has 5.")
    recording.prompt("Half were false alarms. No, let's throw away the P80.").edit("report.py")
    said = [
        "The customer has her contract. So we pass to 5, ok.",
        "Half were false alarms. No, let's throw away the P80.",
    ]
    assert found(recording.answer("It is gone.")) == said


@pytest.mark.parametrize(
    "said",
    [
        "I want to treat the hard-coded path as a failing test case.",
        "I still want ruff on the specs of the exporter.",
        "I disagree with the bias of the reviewer.",
        "The update of the guide was incorrect and should be reverted!",
        "We should have started from the acceptance test.",
    ],
)
def test_what_a_person_insists_on_is_a_decision(said: str) -> None:
    recording = Recording().prompt("Extend the exporter.").edit("src/export.py").prompt(said)
    assert [each.text for each in recording.answer("Ok.").decisions()] == [said]


CHOSEN = "Which storage should we use? SQLite: no server to install (not PostgreSQL)"


def test_what_a_person_chose_in_a_dialog_is_a_decision() -> None:
    recording = Recording().prompt("Implement the storage layer.").dialog("questions answered", CHOSEN, "Log it? Yes")
    assert found(recording) == [CHOSEN, "Log it? Yes"]


def test_an_approved_plan_is_a_decision_with_its_approach() -> None:
    plan = "# Plan: Add a cache\n\n## Context\n\nSlow.\n\n## Approach\n\n### How\n\nUse an LRU cache, not Redis.\nx"
    (told,) = Recording().prompt("Make the search faster.").dialog("plan approved", plan).decisions()
    assert (told.text, told.note) == ("Plan: Add a cache", "plan approved: Use an LRU cache, not Redis.")


def test_what_a_person_adds_to_an_agreement_is_told_with_it() -> None:
    recording = Recording().prompt("Implement the storage layer.").answer("Should I store the vectors as float16?")
    (told,) = recording.prompt("yes. but make it float32, recall matters").decisions()
    assert told.note == "agreed in e3: but make it float32, recall matters"


@pytest.mark.parametrize(
    ("answer", "reply", "told"),
    [
        (
            "I'd read both files. So: CSV for us, PDF for the office.",
            "Yes that's reasonable. Anything to do today, no?",
            1,
        ),
        ("I'd show the depth and the tide, those are what people remember.", "I agree with these two.", 0),
        ("The gauge is on pin 4, and an early crash would hang forever.", "do that", None),
        ("The log is a table. All depths are written.", "fine", None),
    ],
)
def test_few_words_agree_to_what_the_answer_proposes_or_sums_up(answer: str, reply: str, told: int | None) -> None:
    recording = Recording().prompt("Look at the harbour charts.").read("chart.py").answer(answer).prompt(reply)
    whole = answer.split(". ", told or 0)[-1]
    notes = [(each.text, each.note) for each in recording.decisions() if each.note.startswith("agreed")]
    assert notes == ([] if told is None else [(whole, "agreed in e4")])


@pytest.mark.parametrize("reply", ["yes", "OK, do it.", "Sounds good!", "I agree completely. Then commit.", "lgtm"])
@pytest.mark.parametrize(
    ("proposal", "told"),
    [
        ("Should I store the vectors as float16?", "Should I store the vectors as float16?"),
        (
            "The vectors take half the space as float16. Want me to do that?",
            "The vectors take half the space as float16.",
        ),
    ],
)
def test_what_a_person_agrees_to_is_a_decision(reply: str, proposal: str, told: str) -> None:
    recording = Recording().prompt("Implement the storage layer.").answer(proposal).prompt(reply)
    assert [(each.text, each.note) for each in recording.decisions()] == [(told, "agreed in e3")]


@pytest.mark.parametrize(
    ("proposal", "reply"),
    [
        ("Should I store the vectors as float16?", "no"),
        ("Should I store the vectors as float16?", "yes, but what does it cost?"),
        ("Should I store the vectors as float16?", "Explain it first."),
        ("The vectors are stored as float16.", "ok"),
        ("Should I proceed with the vectors?", "yes"),
    ],
)
def test_what_is_not_proposed_or_not_agreed_to_is_none(proposal: str, reply: str) -> None:
    assert found(Recording().prompt("Implement the storage layer.").answer(proposal).prompt(reply)) == []


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("2", "a queue table in the journal"),
        ("Option 2 please", "a queue table in the journal"),
        ("let's go with 1", "a spool file"),
        ("the 2 is a definite winner.", "a queue table in the journal"),
        ("1. It has to be fast. 2. And small.", None),
        ("2 more things, please", None),
        ("Is 2 faster?", None),
    ],
)
def test_what_a_person_picks_by_number_is_a_decision(reply: str, told: str | None) -> None:
    offered = "There are two ways:\n\n1. a spool file\n2. **a queue table in the journal**\n\nWhich do you prefer?"
    recording = Recording().prompt("Implement the storage layer.").answer(offered).prompt(reply)
    told_of = [(told, "chosen in e3")] if told else []
    assert [(each.text, each.note) for each in recording.decisions()] == told_of


@pytest.mark.parametrize(("after", "is_told"), [("It takes little.", True), (f"It takes {'very ' * 66}little.", False)])
def test_a_choice_in_a_long_prompt_comes_with_what_fits_before_it(after: str, *, is_told: bool) -> None:
    why = f"WAL on that share is a no go. I'd rather have no database at all. {after}"
    recording = Recording().prompt("Index the tide tables.").edit("index.py").answer("The index works.")
    recording.prompt(f"Tried it on the box{' and again' * 40}. {why}")
    assert found(recording) == [why if is_told else "I'd rather have no database at all."]


@pytest.mark.parametrize(
    ("says", "is_told"),
    [("sqlite then.", True), ("the manifests then", True), ("dry run then", False), ("and then?", False)],
)
def test_what_the_answer_named_is_chosen_by_then(says: str, *, is_told: bool) -> None:
    recording = Recording().prompt("Make an index of the chunks of a tide table.").read("chunks.go")
    recording.answer("SQLite is one file, and quick. Manifests are trivial.")
    assert found(recording.prompt(says).edit("index.go")) == [says] * is_told


SIZES = "| size | chunks |\n|---|---|\n| 1 MiB | 37204 |\n| 4 MiB | 9377 |\n\n"


@pytest.mark.parametrize(
    ("offered", "reply", "told"),
    [
        (
            f"{SIZES}A request has its price, so 4 MiB is better.",
            "4 it is",
            "A request has its price, so 4 MiB is better.",
        ),
        (f"{SIZES}It would take 14.4 hours with 4x the chunks.", "4 it is", "4 MiB | 9377"),
        ("| 1 | a spool file |\n| 4 | a queue table |", "4 it is", "a queue table"),
        ("1 - a spool file\n**4** a queue table", "4 it is", "a queue table"),
        ("Two ways:\n\n- **A:** a spool file\n- **B:** a queue table", "B", "a queue table"),
        ("It would take 14.4 hours with 4x the chunks.", "4 it is", None),
        ("The fastest is a spool file.", "A", None),
        ("1. a spool file\n2. a queue table\n\nEither holds 4 days.", "4 it is", None),
    ],
)
def test_a_number_names_an_item_or_else_what_was_said_with_it(offered: str, reply: str, told: str | None) -> None:
    recording = Recording().prompt("Implement the storage layer.").answer(offered).prompt(reply)
    told_of = [each.text for each in recording.decisions() if each.note.startswith("chosen in e3")]
    assert told_of == ([told] if told else [])


def test_what_is_agreed_to_after_other_work_is_none() -> None:
    recording = Recording().prompt("Implement the storage layer.").answer("Should I store the vectors as float16?")
    assert found(recording.bash("ls").prompt("yes")) == []


def test_a_choice_of_the_agent_with_its_reason_counts_once_it_is_carried_out() -> None:
    said = "I take the number into the key because a second one after a decline has to be a new payment."
    recording = Recording().prompt("Make the key of the berth stable.").read("key.py").answer(said)
    assert found(recording) == []
    assert found(recording.edit("key.py")) == [said]
