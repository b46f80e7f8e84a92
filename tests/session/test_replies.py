"""What a person's words after an answer decide, whatever words they choose."""

from __future__ import annotations

import pytest
from tests.session.recording import Recording

from scrimshaw.session.record import Record

ASKS = [
    "Green, but the bundle is over its limit. Raise the limit, or take the small library?",
    "Two harbours share the table. Should I split it by harbour?",
    "The base image lost the library. Simplest cure is the larger image, where it is found.",
    "The dialog closes too early. I'd wait a moment before the click.",
    "That was the last test. I'll also return the depth as a third value:",
    "Taken weeks are left out and named. Is that what the port wants?",
    "The token names another subject.\n\nThree ways to mend it:\n- a wildcard\n- the exact name\n- another subject",
    "Setting it to one would hide the race again, and a lock would cure it.",
]
SAYS = [
    "the limit stays, sailors are on slow lines",
    "german goes through the translators",
    "Forgive me for interrupting, but that would break everyone who unpacks two values.",
]


def found(recording: Recording) -> list[tuple[str, str]]:
    return [(each.text, each.note) for each in recording.decisions()]


@pytest.mark.parametrize("says", SAYS)
@pytest.mark.parametrize("asks", ASKS)
def test_the_reply_to_a_choice_or_a_proposal_is_a_decision(asks: str, says: str) -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").answer(asks).prompt(says)
    ((text, _),) = found(recording)
    assert text == says.rstrip()


@pytest.mark.parametrize(
    "said",
    [
        "The chart loads in two seconds now.",
        "The chart is done. Ready for the next step?",
        "I moved the tiles into a cache. Should I go on?\n\nAll tests of the chart pass.",
    ],
)
def test_what_follows_another_answer_is_none(said: str) -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").answer(said)
    assert found(recording.prompt("german goes through the translators")) == []


def test_a_long_prompt_is_no_reply() -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").answer(ASKS[0])
    assert found(recording.prompt("german goes through the translators. " * 12)) == []


@pytest.mark.parametrize(
    ("says", "is_told"),
    [
        ("no sleeps in tests. ever", True),
        ("wait no. code freeze till thursday, i push it then", True),
        ("Ah. No, I'm afraid the published depths have to stay.", True),
        ("Stop please. We lost all pods with it in summer", True),
        ("Stop the chart server and run the tests", False),
        ("No more charts are missing there now", False),
    ],
)
def test_a_refusal_is_a_decision_whatever_was_said_before(says: str, is_told: bool) -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").answer("The chart waits for its tiles.")
    assert bool(found(recording.prompt(says))) == is_told


@pytest.mark.parametrize(
    ("asked", "says", "is_told"),
    [
        ("should the chart show local time?", "yeah harbour time stays, the label comes later", True),
        ("should the chart show local time?", "the label of the chart is too small", False),
        ("make the chart show local time", "yeah harbour time stays, the label comes later", True),
        ("make the chart show local time", "yeah, show the label later", False),
    ],
)
def test_an_agreement_after_a_question_concludes(asked: str, says: str, is_told: bool) -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").answer("It does.").prompt(asked)
    recording.answer("A harbour has one time, and sailors read it there.")
    assert bool(found(recording.prompt(says))) == is_told


@pytest.mark.parametrize(
    ("says", "is_told"),
    [
        ("ok nothing to worry then", False),
        ("ok, pas de souci", False),
        ("ah no worries then", False),
        ("good to know for you: the portal allows 60 requests", True),
        ("ok then one time for the harbour", True),
    ],
)
def test_that_all_is_well_decides_nothing(says: str, *, is_told: bool) -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").answer("It does.").prompt("how big is it?")
    assert bool(found(recording.answer("It has 150 MB, and that is small.").prompt(says))) is is_told


@pytest.mark.parametrize(
    ("answer", "says", "note"),
    [
        ("The chart is drawn twice.", "ah ok. Marek keeps a list of buoys and beacons", ""),
        ("The chart is drawn twice.", "ah ok. the chart needs buoys and beacons", "on (e2): The chart is drawn twice."),
        ("The chart is drawn twice.", "good, the buoys stay in", "on (e2): The chart is drawn twice."),
        ("I would cache it.", "ah ok. Marek keeps a list of buoys and beacons", "on (e2): I would cache it."),
        ("The chart is drawn twice.", "no, the buoys stay as Marek drew them", "on (e2): The chart is drawn twice."),
    ],
)
def test_a_reply_about_something_else_comes_without_the_answer(answer: str, says: str, note: str) -> None:
    recording = Recording().prompt("Why does the harbour chart load slowly?").answer(answer)
    assert found(recording.prompt(says)) == [(says, note)]


def test_a_few_words_come_with_what_they_reply_to() -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").answer(ASKS[0])
    text, note = found(recording.prompt("the second one. sailors are on slow lines"))[0]
    assert text == "the second one. sailors are on slow lines"
    assert note == "on (e2): Raise the limit, or take the small library?"


def test_a_sentence_speaks_for_itself() -> None:
    says = "I should prefer that nothing which worked before stops working, so please copy the soundings then."
    recording = Recording().prompt("Make the harbour chart load faster.").answer(ASKS[0])
    assert found(recording.prompt(says)) == [(says, "")]


def test_a_polite_request_belongs_to_the_reply() -> None:
    says = "No, I'm afraid that won't do, we promised the same depths. Would you take the threads out again?"
    recording = Recording().prompt("Make the harbour chart load faster.").answer("The threads are in.")
    assert found(recording.prompt(says)) == [(says, "on (e2): The threads are in.")]


def test_what_begins_a_reply_decides_though_a_question_follows() -> None:
    says = "You have persuaded me, the policy it is. And who upgrades? I am reluctant to change depths."
    recording = Recording().prompt("Make the harbour chart load faster.").answer(ASKS[1]).prompt(says)
    assert [text for text, _ in found(recording)] == ["You have persuaded me, the policy it is."]


@pytest.mark.parametrize(
    "says", ["Then it is the tide model. Reviewers want errors.", "Good, they stay in. The mirror is not the cause."]
)
def test_a_conclusion_from_an_answer_decides_though_nothing_was_asked(says: str) -> None:
    recording = Recording().prompt("Fit the tides of the harbour.").edit("fit.r").answer("The tide model errs least.")
    assert found(recording.prompt(says))[0][0] == says


def test_what_the_agent_concedes_explains_no_failure() -> None:
    recording = (
        Recording().prompt("Deploy the harbour chart.").bash("make deploy", "Error: not authorized", failed=True)
    )
    recording.answer("The port's role has no thumbprint, so its key is compared. I will add the thumbprint.")
    recording.prompt("I don't think so, they ignore the thumbprint since 2023. Look at the sub claim.")
    recording.answer("You're right, the thumbprint is not it. The port's role wants another `sub` claim.")
    recording.edit("role.tf").bash("make deploy", "done")
    (problem,) = recording.draft().problems
    assert "another `sub` claim" in problem.note
    assert "compared" not in problem.note


def test_a_theory_that_the_agent_calls_wrong_is_withdrawn_by_its_own_words() -> None:
    recording = Recording().prompt("Why does the berth hang?").read("log.txt")
    recording.answer("The gap comes from `ReadFrame`, which opens the serial port late. It takes 40 s.")
    recording.prompt("berth 2 has none, and it hangs too").prompt("here is the stack of today").read("stack.txt")
    recording.answer("Then my serial port theory was wrong, it says. `Spooler.ask` waits for a printer.")
    told = " ".join(f"{each.text} {each.note}" for each in recording.draft().problems)
    assert "serial port late" not in told


@pytest.mark.parametrize(
    ("guess", "retraction"),
    [
        ("The root cause is the retry loop: it resends after a timeout.", "Wait, no. The retry loop checks the id."),
        ("The bug is in `berth_fee()`: it takes the old rate.", "Hmm, I was wrong, `berth_fee()` takes the new one."),
        ("I suspect the pager, it polls the harbour twice.", "The pager is innocent: it polls once."),
    ],
)
def test_a_guess_that_the_agent_s_next_words_call_wrong_is_not_told(guess: str, retraction: str) -> None:
    recording = Recording().prompt("Mails go out twice since monday, find out why.").answer(guess).read("send.py")
    recording.answer(retraction).bash("ssh old crontab -l", "*/5 * * * * /opt/mailer/send")
    found_out = "Confirmed: the old host still runs the cron job, so both hosts send every mail."
    draft = recording.answer(found_out).draft()
    told = " ".join(f"{each.text} {each.note}" for part in (draft.findings, draft.problems) for each in part)
    assert found_out in told
    assert guess not in told


def test_a_number_stands_for_what_was_listed() -> None:
    recording = Recording().prompt("Make the harbour chart load faster.")
    recording.answer("Ways to do it:\n1. store only the tile's name\n2. repair the tile when it is read\n\nWhich one?")
    ((text, note),) = found(recording.prompt("1. no new packages though, the lock file stays"))
    assert (text, note) == ("store only the tile's name", "chosen in e3: no new packages though, the lock file stays")


def test_each_point_of_a_reply_is_told_with_the_item_of_the_list_that_it_answers() -> None:
    recording = Recording().prompt("Read the review of the harbour chart.").read("chart.py")
    recording.answer("1. floats in the tide table\n2. the panel reads the old name\n3. `Berth.get` in a loop")
    says = "1 yes\n2: no. the panel belongs to infra\n3: yep but without the cache"
    assert found(recording.prompt(says)) == [
        ("1 yes", "on (e3): floats in the tide table"),
        ("2: no. the panel belongs to infra", "on (e3): the panel reads the old name"),
        ("3: yep but without the cache", "on (e3): `Berth.get` in a loop"),
    ]


@pytest.mark.parametrize(
    ("says", "points"),
    [
        ("1. 404. 2. no no, nobody does that", ["Should an unknown berth give 404?", "Do you want a log?"]),
        ("1. it has to be fast. 3. no cache", []),
    ],
)
def test_points_with_full_stops_answer_the_questions_of_a_list(says: str, points: list[str]) -> None:
    recording = Recording().prompt("Read the review of the harbour chart.").read("chart.py")
    recording.answer("1. Should an unknown berth give 404?\n2. Do you want a log?\n3. a cache").prompt(says)
    assert [note.removeprefix("on (e3): ") for _, note in found(recording) if note.startswith("on (e3)")] == points


def test_a_place_counts_in_the_last_list_and_what_is_around_it_stays_whole() -> None:
    recording = Recording().prompt("Why is the chart so slow?").read("chart.py")
    recording.answer(
        "## 1. The tiles\n\nAll are read.\n\n## 2. The depths\n\n| A | drop it |\n| B | a mean |\n\nWhich?"
    )
    ((text, note),) = found(recording.prompt("Oh dear. I like the second, because the load runs at 3. Tell me."))
    assert (text, note) == ("a mean", "chosen in e4: Oh dear. because the load runs at 3. Tell me")


def test_what_a_person_quotes_from_a_mail_is_no_reply() -> None:
    recording = Recording().prompt("Test the harbour charts.").read("chart.py").answer("Which limit should they have?")
    ((text, _),) = found(
        recording.prompt("they write:\n\n> Limit to be decided by you, we never do it.\n\n8 metres it is")
    )
    assert text == "8 metres it is"


@pytest.mark.parametrize(
    ("says", "rest"),
    [
        ("2 obviously. the raw file is read only", "the raw file is read only"),
        ("2, a raw file is read only", "a raw file is read only"),
        ("the raw file is read only!! 2", "the raw file is read only!!"),
        ("Not 1, old charts need that file. The second.", "Not 1, old charts need that file"),
        ("2, yes. 1 is out because the file is read only", "yes. 1 is out because the file is read only"),
        ("the last one, but name the depths", "but name the depths"),
    ],
)
def test_a_person_chooses_by_number_or_place(says: str, rest: str) -> None:
    recording = Recording().prompt("Convert the depths of the harbour chart.").read("chart.py")
    recording.answer("Where?\n1. in the raw file\n2. in `prepare()`, by number\n\nI'd take the first.")
    ((text, note),) = found(recording.prompt(says))
    assert (text, note) == ("in `prepare()`, by number", f"chosen in e4: {rest}")


def test_options_within_a_sentence_are_chosen_by_their_letter() -> None:
    recording = Recording().prompt("Convert the depths of the harbour chart.").read("chart.py")
    recording.answer("Two ways: (a) change the raw file, (b) convert in `prepare()`. Which one?")
    ((text, note),) = found(recording.prompt("b. the raw file is read only"))
    assert (text, note) == ("convert in `prepare()`", "chosen in e4: the raw file is read only")


def test_a_guess_that_the_agent_rules_out_decides_nothing() -> None:
    recording = Recording().prompt("Why was the berth charged twice?").read("charge.ex").answer("Only one node ran.")
    recording.prompt("then its the webhook. it takes pending for failed").read("webhook.ex")
    recording.answer("The webhook is innocent: it only syncs, so the berth was charged by something else.")
    assert found(recording) == []


def test_whether_something_exists_is_no_choice() -> None:
    recording = Recording().prompt("Why was the berth charged twice?").read("charge.ex")
    recording.answer("The second payment exists only at the bank. Do you have the list from support?")
    assert found(recording.prompt("yes /tmp/dupes.csv from the dashboard, katrin exported it")) == []


@pytest.mark.parametrize(
    "asks",
    [
        "Could you put it on the scale and tell me what it reads?",
        "Do you send it to Marek or shall I put it somewhere?",
    ],
)
def test_what_a_person_is_asked_to_do_is_no_choice(asks: str) -> None:
    recording = (
        Recording().prompt("Weigh the buoys of the harbour.").read("buoys.c").answer(f"The buoys are built. {asks}")
    )
    assert found(recording.prompt("11.8 kg. better but no cigar")) == []


def test_a_farewell_is_no_reply() -> None:
    recording = Recording().prompt("Weigh the buoys of the harbour.").read("buoys.c").answer("Should the buoys be red?")
    assert found(recording.prompt("gotta run, the buoys sit in the shed")) == []


def test_what_was_taken_back_is_asked_no_more() -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").edit("chart.dart").answer("It is faster.")
    recording.prompt("also delete tiles that belong to no chart").answer("A sweep at the start.").edit("sweep.dart")
    kills = "no wait. if that goes wrong it deletes tiles of people. kill it. we never delete user files automatically"
    draft = recording.prompt(kills).bash("rm sweep.dart").answer("It is gone.").draft()
    assert draft.requests == ()
    assert [each.text for each in draft.decisions] == [kills]


@pytest.mark.parametrize("says", ["great, thanks a lot, that is all", "Good, let do that", "yes i understand."])
def test_an_agreement_alone_decides_nothing(says: str) -> None:
    asks = "Redis is only used by the limiter. I'd leave it out of the probe."
    recording = Recording().prompt("does the probe ask redis?").answer(asks).prompt(says)
    assert says not in [text for text, _ in found(recording)]


def test_an_agreement_is_told_once() -> None:
    recording = Recording().prompt("Make the harbour chart load faster.")
    recording.answer("The tiles are large. Should I store them as webp?").prompt("yes, but keep the png files too")
    ((text, note),) = found(recording)
    assert (text, note) == ("Should I store them as webp?", "agreed in e3: but keep the png files too")


def test_all_replies_of_a_short_session_are_told() -> None:
    says = [
        "the tide stays, sailors know it",
        "buoys go with the next survey",
        "leave cranes to the port office",
        "ferries belong on their own map",
        "moles are drawn by hand",
        "piers only from the register",
    ]
    recording = Recording().prompt("Make the harbour chart load faster.")
    for each in says:
        recording.answer(f"One more is slow: {each.split()[1]}. Should I drop it?").prompt(each)
    assert [text for text, _ in found(recording)] == says


def test_an_agreement_after_a_turn_that_ended_is_told() -> None:
    asks = "The tiles are large. Should I store them as webp?"
    recording = Recording().prompt("Make the harbour chart load faster.").answer(asks).stop(asks)
    ((text, note),) = found(recording.prompt("yes, but keep the png files too"))
    assert (text, note) == ("Should I store them as webp?", "agreed in e4: but keep the png files too")


def test_a_few_words_are_told_with_the_list_they_choose_from() -> None:
    asks = "Should we:\n\n1. Drop the untested branch\n2. Keep line 96, with a test\n3. Then measure the coverage?"
    recording = Recording().prompt("Bring the tide table to full coverage.").answer(asks)
    listed = "Drop the untested branch; Keep line 96, with a test; Then measure the coverage?"
    says = "the branch stays, sailors need it"
    assert found(recording.prompt(says)) == [(says, f"on (e2): Should we: {listed}")]


def test_a_question_without_a_subject_is_told_after_what_it_asks_about() -> None:
    asks = "The level is read once at boot. A timer each hour wakes the converter. Is that right?"
    recording = Recording().prompt("Show the tide level on the display.").answer(asks)
    ((_, note),) = found(recording.prompt("rather each minute, it is cheap"))
    assert note == "on (e2): A timer each hour wakes the converter. Is that right?"


@pytest.mark.parametrize(
    "says",
    [
        "All of this looks too complex. Teach me how the harbour setup works first.",
        "I dunno yet. Something changed in the move of the harbour, please have a look in the diary.",
    ],
)
def test_who_wants_to_look_first_decides_nothing(says: str) -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").answer(ASKS[0])
    assert found(recording.prompt(says)) == []


@pytest.mark.parametrize(
    ("says", "is_told"),
    [
        ("WAIT. never restart two berths at once, drain each one first", True),
        ("commit the chart and its test. not the figures, i look at them first", True),
        ("the list of berths flickers when i scroll", False),
    ],
)
def test_an_objection_while_the_agent_works_is_a_constraint(says: str, is_told: bool) -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").edit("chart.py").prompt(says)
    assert [text for text, _ in found(recording.edit("chart.py"))] == [says] * is_told


@pytest.mark.parametrize(
    "asks",
    [
        "Two ways help:\n\n**First**: the call goes out of the transaction.\n\n**Second**: a counter of its own.",
        "**Option A**: a key by hand.\n\n**Option B**: an intermediate key for each berth.",
        "What we could do:\n\n1. a new exporter for the harbour\n2. the service exports it itself",
        "The sheet is too small.\n\nII. Data Matrix, small and robust.\n\nIII. Larger labels.",
        "The berth has no digit yet. I could add `digit` as a migration.",
    ],
)
def test_options_at_the_end_of_an_answer_are_answered_by_what_follows(asks: str) -> None:
    says = "Nothing that reads all keys of the harbour, the audit would eat me."
    recording = Recording().prompt("Renew the key of the harbour.").answer(asks)
    assert [text for text, _ in found(recording.prompt(says))] == [says]


def test_an_order_of_work_is_concluded_by_a_person() -> None:
    recording = (
        Recording().prompt("Which branch of the harbour first?").answer("The waitlist is ready, the ledger is not.")
    )
    assert [text for text, _ in found(recording.prompt("Waitlist first, then."))] == ["Waitlist first, then."]


@pytest.mark.parametrize(
    "says",
    [
        "It must never come onto a laptop of the harbour with a network, the audit forbids it.",
        "NO that is the telephone of the harbour master, never test on it",
    ],
)
def test_a_rule_may_begin_by_pointing_at_its_subject(says: str) -> None:
    recording = Recording().prompt("Renew the key of the harbour.").answer("I use the key of the test harbour for it.")
    assert [text for text, _ in found(recording.prompt(says))] == [says]


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        ("Three ways:\n\n- **shared**: one count\n- **pin**: a handle\n\nDebug never evicts.", "pin, a plain count"),
        ("Options:\n(a) a cookie\n(b) a skeleton page\n\n(a) never flickers.", "cookie of the harbour"),
        ("Should I keep twelve months too? There is room in the harbour store.", "months of the harbour we don't need"),
        ("Soll ich zwölf Monate eintragen? Platz ist im Hafenspeicher genug.", "Monate brauchen wir im Hafen nicht."),
    ],
)  # fmt: skip
def test_options_and_questions_count_whatever_follows_them(asks: str, says: str) -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").read("chart.py").answer(asks)
    assert [text for text, _ in found(recording.prompt(says))] == [says]


@pytest.mark.parametrize(
    "says",
    [
        "Halt, die Prüfung der Schlüssel schalten wir nicht ab!",
        "no borres los barcos del puerto, usa la copia",
        "So 400 days of the harbour log instead of 180.",
    ],
)
def test_a_ruling_is_known_in_other_words_and_languages(says: str) -> None:
    recording = Recording().prompt("Make the harbour chart load faster.").edit("chart.py").prompt(says)
    assert [text for text, _ in found(recording.edit("chart.py"))] == [says]


def test_a_choice_by_letter_in_german_is_told_with_what_follows() -> None:
    asks = "Zwei Wege:\n\na) RCSI einschalten\nb) die Reihenfolge der Häfen vereinheitlichen\n\nWas soll es sein?"
    recording = Recording().prompt("Beende die Deadlocks im Hafen.").answer(asks)
    ((text, note), *_) = found(recording.prompt("Variante b. Und bitte nirgends NOLOCK."))
    assert text == "die Reihenfolge der Häfen vereinheitlichen"
    assert "nirgends NOLOCK" in note


def test_the_report_of_a_trial_decides_nothing() -> None:
    asks = "The broom of the harbour should move again. Could you try it once more?"
    recording = Recording().prompt("Mend the harbour broom.").edit("broom.ts").answer(asks)
    assert found(recording.prompt("broom of the harbour is back")) == []


@pytest.mark.parametrize(
    "says", ["the page stays blank in the harbour", "there are no changes of the harbour in the list"]
)
def test_a_report_while_the_agent_works_is_no_ruling(says: str) -> None:
    recording = Recording().prompt("Show the harbour page.").edit("page.ts").prompt(says).edit("page.ts")
    assert found(recording) == []


@pytest.mark.parametrize(
    "says", ["no embedded broker in unit tests, takes 40s each time", "wall stays 2.4, the rail fits it"]
)
def test_a_ruling_may_be_long_or_say_what_stays(says: str) -> None:
    recording = (
        Recording().prompt("Test the harbour sink.").edit("sink.scala").answer("The sink of the harbour has a test.")
    )
    assert [text for text, _ in found(recording.prompt(says))] == [says]


@pytest.mark.parametrize(
    ("says", "is_told"),
    [
        ("O relatório em PDF não vamos fazer, um csv chega.", True),
        ("El informe en PDF no vamos a hacerlo, un csv basta.", True),
        ("Le rapport en PDF, on ne fait pas, un csv suffit.", True),
        ("Den Bericht als PDF machen wir nicht, ein CSV reicht.", True),
        ("Wir brauchen dafür keinen Bericht als PDF.", True),
        ("Le rapport en PDF, on ne voit pas les marées.", False),
        ("Wir wissen noch nichts vom Bericht als PDF.", False),
    ],
)
def test_what_is_not_to_be_done_is_decided_in_any_language(says: str, *, is_told: bool) -> None:
    recording = Recording().prompt("Export the tides as CSV.").edit("export.py").answer("The export works.")
    assert [text for text, _ in found(recording.prompt(says))] == [says] * is_told


@pytest.mark.parametrize(
    "says",
    ["muda o nome do pacote pack para chunk", "renomme le paquet pack en chunk", "benenne das Paket pack in chunk um"],
)
def test_a_request_in_another_language_is_told(says: str) -> None:
    recording = Recording().prompt("Add a command that exports the tides of a harbour as CSV.").edit("export.py")
    recording.answer("The export works.")
    made = recording.prompt(says).edit("chunk.py").answer("It is named so now.").draft()
    assert [each.text for each in made.requests] == [says]


@pytest.mark.parametrize(
    ("says", "is_open"),
    [
        ("o relatório em PDF fica para depois do piloto", True),
        ("el informe en PDF queda para mañana", True),
        ("le rapport en PDF, plus tard", True),
        ("den Bericht als PDF auf morgen verschieben", True),
        ("später wird der Bericht als PDF gelesen", False),
    ],
)
def test_what_is_put_off_in_another_language_is_open(says: str, *, is_open: bool) -> None:
    recording = Recording().prompt("Export the tides as CSV.").edit("export.py").answer("The export works.")
    made = recording.prompt(says).answer("OK.").draft()
    assert [each.text for each in (*made.open, made.next_step) if each] == [says] * is_open


HEADINGS = (
    "### 1. Three mails\n\nStripe tries again. I'd do two things:\n"
    "- a table with the id of each event\n- answer at once\n\n"
    "### 2. Deposit\n\nA percentage with a floor?\n\n### 3. Refund button\n\nHalf a day."
)


def test_a_point_is_told_with_what_is_below_its_heading_and_ends_where_the_next_one_begins() -> None:
    recording = Recording().prompt("Three things about Stripe.").answer(HEADINGS)
    told = found(recording.prompt("1 yes both. 2: 25% rounded up, min 5. hang on, 25 / min 5. for 3 no, skip it"))
    assert told == [
        ("1 yes both", "on (e2): Three mails: a table with the id of each event; answer at once"),
        ("2: 25% rounded up, min 5. hang on, 25 / min 5. for 3 no, skip it", "on (e2): Deposit"),
    ]


def test_the_options_that_a_reply_names_are_quoted() -> None:
    offered = (
        "| A | wait 10 s | hides it |\n| B | choose the id ourselves | small |\n| C | extended properties | copies |"
    )
    recording = Recording().prompt("Bookings are doubled.").answer(f"Three ways:\n\n{offered}\n\nWhich one?")
    says = (
        "not A, sleeping in a worker bit us before. B and the constraint then, but do not delete the doubled bookings"
    )
    assert found(recording.prompt(says)) == [(says, "on (e2): B: choose the id ourselves | small")]


@pytest.mark.parametrize("says", ["what limit do you propose for the berths", "und die Liegeplätze, was meinst du"])
def test_a_question_without_its_mark_decides_nothing(says: str) -> None:
    recording = Recording().prompt("Limit the berths.").answer("I would limit the berths to 12. Shall I?")
    assert found(recording.prompt(says).answer("12.")) == []


def test_of_several_questions_the_one_that_is_answered_is_quoted() -> None:
    asked = "Should a berth have two attempts or three? Should we pay the pilot for the failed one?"
    recording = Recording().prompt("Rules for failed moorings.").answer(asked).prompt("two attempts")
    record = Record(recording.events, recording.items)
    assert record.quote_offer(2, "two attempts, three is too many") == "Should a berth have two attempts or three?"
    assert record.quote_offer(2, "the pilot gets half") == asked.partition("? ")[2]
    assert record.quote_offer(2, "fine") == asked.partition("? ")[2]


@pytest.mark.parametrize("says", ["That's wrong. The clock of Kiel does switch.", "no. the clock of Kiel does switch"])
def test_a_claim_that_a_person_contradicts_is_not_told(says: str) -> None:
    recording = Recording().prompt("Read the clocks.").edit("clock.py").answer("The clock of Kiel never switches.")
    recording.prompt(says).edit("clock.py").answer("Corrected: it switches in March.")
    record = Record(recording.events, recording.items)
    assert {"clock", "kiel"} <= record.withdrawn[1]
    assert [each.text for each in record.sentences if record.is_withdrawn(each)] == [
        "The clock of Kiel never switches."
    ]


def test_a_word_about_the_past_contradicts_nothing() -> None:
    recording = Recording().prompt("Draw the berths.").edit("a.py").answer("I use UTC, since pilots differ.")
    recording.prompt("It was wrong before the fix, now the berths are right")
    assert Record(recording.events, recording.items).withdrawn == {}


def test_an_answer_that_denies_the_one_before_withdraws_it() -> None:
    recording = Recording().prompt("Why is Redis full?").answer("That points at fragmentation of the heap.")
    recording.bash("redis-cli dbsize", "411000").answer("No: the keys were never deleted, it is not fragmentation.")
    record = Record(recording.events, recording.items)
    assert [each.text for each in record.sentences if record.is_withdrawn(each)] == [
        "That points at fragmentation of the heap."
    ]


OFFERS = {
    "bullets": "Two ways:\n\n- **a spool file**: simple. One more thing to clean\n"
    "- **a table**: slower\n\nI lean to the second.",
    "question": "The spool has to live somewhere. Keep the oldest reading, or the newest?",
    "fact": "Does the board boot from flash or from the card?",
}


@pytest.mark.parametrize(
    ("offer", "says", "told"),
    [
        ("bullets", "second", ("a table: slower", "chosen in e4")),
        ("bullets", "file. a table locks", ("a spool file: simple. One more thing to clean", "a table locks")),
        ("bullets", "boat", None),
        ("question", "newest", ("newest", "on (e3): Keep the oldest reading, or the newest?")),
        (
            "question",
            "newest\ndisks are small",
            ("newest disks are small", "on (e3): Keep the oldest reading, or the newest?"),
        ),
        ("question", "newest?", None),
        ("question", "commit", None),
        ("fact", "flash", None),
    ],
)
def test_a_reply_of_a_word_takes_what_was_offered(offer: str, says: str, told: tuple[str, str] | None) -> None:
    recording = Recording().prompt("Store the readings of the gauge.").read("gauge.py").answer(OFFERS[offer])
    said = [(text, note.removeprefix("chosen in e4: ")) for text, note in found(recording.prompt(says))]
    assert said == ([told] if told else [])


def test_a_word_may_answer_the_question_before_the_last() -> None:
    recording = Recording().prompt("Store the readings of the gauge.").read("gauge.py").answer(OFFERS["question"])
    recording.prompt("what is the difference in a year?").answer("At most 3 cm: the newest readings follow the tide.")
    assert found(recording.prompt("newest"))[-1] == ("newest", "on (e3): Keep the oldest reading, or the newest?")


def test_a_letter_may_name_an_option_of_an_earlier_answer() -> None:
    recording = Recording().prompt("Store the readings.").read("gauge.py").answer("A: a spool file\n\nB: a queue table")
    recording.prompt("what happens to A when the disk is full?").answer("It stops to write until there is room.")
    assert ("a queue table", "chosen in e6: I don't want that") in found(recording.prompt("I don't want that. B"))


@pytest.mark.parametrize(
    ("answer", "says", "told"),
    [
        ("I'd clear the fault only when somebody asks for it.", "do. it stays until then", True),
        ("I'd clear the fault only when somebody asks for it.", "yes so", True),
        ("I'd clear the fault only when somebody asks for it.", "then it stays?", False),
        ("I'd hide the button of an empty gauge.", "yes hide", True),
        ("I'd hide the button of an empty gauge.", "yes tomorrow", False),
    ],
)
def test_short_words_agree_to_a_proposal(answer: str, says: str, *, told: bool) -> None:
    recording = Recording().prompt("Why does the gauge stop?").read("gauge.py").answer(answer)
    agreed = [(x, y.partition(":")[0]) for x, y in found(recording.prompt(says))]
    assert ((answer, "agreed in e4") in agreed) is told


NUMBERED = "Two ways:\n\n1. a spool file\n2. a queue table\n3. a ring in flash\n\nWhich do you want?"
ALL_THREE = "1: a spool file; 3: a ring in flash; 2: a queue table"
TWO = "Two things would help:\n\n1. a lock\n2. an index\n\nI'd first write a failing test with two gauges."
LETTERED = "- **a)** a spool file\n- **b)** a queue table\n\nb) would be the least code."


@pytest.mark.parametrize(
    ("answer", "says", "told"),
    [
        (NUMBERED, "2 but not before May", ("a queue table", "chosen in e4: but not before May")),
        (NUMBERED, "2! the disk is small", ("a queue table", "chosen in e4: the disk is small")),
        (NUMBERED, "ok, do the last one. it is May", ("a ring in flash", "chosen in e4: it is May")),
        (NUMBERED, "1 and 3, surely", ("1 and 3, surely", "on (e3): 1: a spool file; 3: a ring in flash")),
        (NUMBERED, "1 3 now. 2 no, slow", ("1 3 now. 2 no, slow", f"on (e3): {ALL_THREE}")),
        (NUMBERED, "do all 3. not now", ("do all 3. not now", "on (e3): a spool file; a queue table; a ring in flash")),
        (NUMBERED, "both of them, please wait", None),
        (TWO, "Yes please, both. Disks fail", ("Yes please, both. Disks fail", "on (e3): a lock; an index")),
        (NUMBERED, "4 but not before May", None),
        (NUMBERED, "2, is that safe on ext4?", None),
        (NUMBERED, "2 weeks is too long, and May is far", None),
        (NUMBERED, "2 is a false alarm, i believe", ("2 is a false alarm, i believe", "on (e3): a queue table")),
        (NUMBERED, "2 is a table really slower?", None),
        (NUMBERED, "1: not for the old gauges", ("1: not for the old gauges", "on (e3): a spool file")),
        ("1. which disk?\n2. which month?", "2 as in spring", ("2 as in spring", "on (e3): which month?")),
        (OFFERS["bullets"], "second. a spool fills", ("a table: slower", "chosen in e4: a spool fills")),
        (OFFERS["bullets"], "first the tests", None),
        (
            "q) a spool file\nr) a queue table",
            "r. q fills the disk",
            ("a queue table", "chosen in e4: q fills the disk"),
        ),
        (LETTERED, "B but not before May", ("a queue table", "chosen in e4: but not before May")),
    ],
)
def test_a_reply_begins_with_what_it_chooses(answer: str, says: str, told: tuple[str, str] | None) -> None:
    recording = Recording().prompt("Store the readings of the gauge.").read("gauge.py").answer(answer)
    said = found(recording.prompt(says))
    assert told in said if told else not any("chosen" in note for _, note in said)


def test_what_a_person_leaves_is_not_decided_and_not_open() -> None:
    recording = Recording().prompt("Extend the frames of the gauge.").edit("gauge.py")
    recording.answer("It could carry a version:\n\n- I'd append a new frame `Hello2` with the version of the gauge\n")
    made = recording.prompt("leave it. the firmware's number is enough").answer("Fine.").draft()
    assert [each.text for each in made.decisions] == ["leave it. the firmware's number is enough"]
    assert "Hello2" not in "".join(each.text for each in (*made.open, *made.findings, *made.problems))


def test_an_objection_that_begins_with_a_question_decides_nothing() -> None:
    recording = Recording().prompt("Store the readings.").read("gauge.py").answer(OFFERS["question"])
    assert found(recording.prompt("always? then every reading goes through the flash as well, when online")) == []


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("All 12 tests pass. I added:\n\n- a pager\n- a commit hook", "commit"),
        ("Done:\n\n- Fixed the pager\n- Removed the cache", "fixed"),
        ("Here is what is wrong:\n\n- the index is missing\n- the cache is cold", "the first"),
        ("What about the O(n) scan of the rows?", "the scan"),
        ("I can move the parser into a module of its own.", "yes so that is why the build is slow"),
    ],
)
def test_what_offers_nothing_is_not_chosen_from(answer: str, says: str) -> None:
    assert found(Recording().prompt("Store the readings.").read("gauge.py").answer(answer).prompt(says)) == []


def test_an_option_of_a_list_that_was_answered_is_not_chosen_later() -> None:
    recording = Recording().prompt("Store the readings.").read("gauge.py").answer("A: a spool\n\nB: a queue table")
    recording.prompt("A").edit("spool.py").answer("Done. Which grade has the module in the report?")
    assert [text for text, _ in found(recording.prompt("B"))] == ["a spool"]
