"""What an agent says between two calls: why something failed, how the code is, that it takes note."""

from __future__ import annotations

import pytest
from tests.session.recording import Recording

from scrimshaw.session.record import Record
from scrimshaw.session.resume import Occasion
from scrimshaw.session.sections import find_problems
from scrimshaw.session.state import session_state
from scrimshaw.session.statements import Statement


def texts(statements: tuple[Statement, ...]) -> list[str]:
    return [each.text for each in statements]


def fail(command: str, output: str, *said: str) -> Recording:
    """A session in which a command failed, the agent said something and edited a file, and the command passed."""
    recording = Recording().prompt("Print the tide tables of the harbour.").bash(command, output, failed=True)
    for each in said:
        recording.answer(each)
    return recording.edit("/harbour/tides.go", "+FOR UPDATE").bash(command, "ok  harbour/tides 0.4s")


RACE = "--- FAIL: TestSameKey (0.31s)\n    tides_test.go:41: duplicate key value (SQLSTATE 23505)"
WHY = "Two requests race for the insert and the loser gets an error. `FOR UPDATE` makes it wait for the winner."


def test_what_the_agent_said_of_a_failure_explains_it() -> None:
    (problem,) = fail("go test ./tides/...", RACE, WHY).draft().problems
    assert problem.text == "--- FAIL: TestSameKey (0.31s) tides_test.go:41: duplicate key value (SQLSTATE 23505)"
    assert problem.note.startswith(f"`go test` passed in e5 after: (e3) {WHY}")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("go test ./tides/...", "Let me check the tide tables of the harbour again."),
        (
            "go test ./tides/...",
            "Hmm, the insert races. But wait, the harbour has a lock? It does. So the table is wrong.",
        ),
        ("python reproduce_tides.py", WHY),
        ("git push", WHY),
    ],
)
def test_what_is_announced_or_mused_explains_nothing(command: str, said: str) -> None:
    problems = fail(command, RACE.replace("--- FAIL: ", "Error: "), said).draft().problems
    assert "(e3)" not in "".join(each.note for each in problems)


def test_after_the_next_prompt_nothing_explains_a_failure() -> None:
    recording = Recording().prompt("Print the tides.").bash("make tides", "Error: no ink in the printer", failed=True)
    recording.prompt("Translate the pilot book.").answer(WHY).edit("/harbour/tides.go").bash("make tides", "ok")
    assert WHY not in "".join(each.note for each in recording.draft().problems)


def test_the_first_line_of_a_short_output_is_the_error() -> None:
    output = '# package store\ndb/keys.sql:1:1: relation "keys" does not exist\ndb/keys.sql:4:1: relation "keys"'
    (problem,) = fail("sqlc generate", output, "The generator reads `schema.sql`, which nobody keeps.").draft().problems
    assert problem.text == 'db/keys.sql:1:1: relation "keys" does not exist'


def test_an_error_that_gives_way_to_another_got_further() -> None:
    recording = Recording().prompt("Test the tides.")
    recording.bash(
        "pytest",
        "ImportError while loading conftest 'tests/conftest.py'.\nE   ModuleNotFoundError: No module named 'tides'",
        failed=True,
    )
    recording.bash("pip install tides").bash("pytest", "E   ConnectionError: refused by the harbour", failed=True)
    recording.edit("/harbour/settings.py").bash("pytest", "1 passed")
    first = recording.draft().problems[0]
    assert first.text == "E ModuleNotFoundError: No module named 'tides'"
    assert first.note == "`pytest` got further in e4 after: `pip install tides`"


def test_the_only_command_before_a_run_that_got_further_is_the_cure_unless_it_uses_git_or_tests() -> None:
    missing = "ERROR! couldn't resolve module/action 'community.general.ufw'."
    for command, is_cure in {
        "cd deploy && ansible-galaxy collection install -r requirements.yml": True,
        "git status": False,
        "pytest deploy": False,
        "ansible-galaxy --help": False,
    }.items():
        recording = Recording().prompt("Deploy the harbour.").bash("ansible-playbook site.yml", missing, failed=True)
        problems = recording.bash(command, "ok").bash("ansible-playbook site.yml", "ok=9").draft().problems
        assert [each.note for each in problems] == [
            f"`ansible-playbook site.yml` passed in e4 after: `{command}`"
        ] * is_cure


def test_a_variable_that_the_failed_run_had_as_well_is_no_cure() -> None:
    recording = Recording().prompt("Show the tides.")
    recording.bash("set -a; . tides.env; cd dbt && dbt show", "Compilation Error\nMissing: dbt_utils", failed=True)
    recording.bash("cd dbt && dbt deps").bash("set -a; . tides.env; cd dbt && dbt show", "12 rows")
    assert [each.note for each in recording.draft().problems] == ["`dbt show` passed in e4 after: `cd dbt && dbt deps`"]


def test_another_branch_is_no_cure() -> None:
    recording = Recording().prompt("Check the tides.").bash("make check", RACE, failed=True)
    problems = recording.bash("git checkout -q main && make check", "ok").draft().problems
    assert "checkout" not in "".join(each.note for each in problems)


def test_giving_up_is_no_cure() -> None:
    conflict = "CONFLICT (content): Merge conflict in harbour.py"
    recording = Recording().prompt("Rebase the harbour.").bash("git rebase main", conflict, failed=True)
    assert recording.bash("git rebase --abort").draft().problems == ()


def test_a_remedy_that_failed_is_no_cure() -> None:
    recording = Recording().prompt("Build the harbour.")
    recording.bash("cargo build", "error: cannot find -lsqlite3", failed=True)
    recording.bash("apt-get install sqlite3", "a password is required", failed=True)
    recording.edit("/harbour/Cargo.toml", "+bundled sqlite3").bash("cargo build", "Finished")
    assert "apt-get" not in recording.draft().problems[0].note


@pytest.mark.parametrize(
    ("failed", "passed", "cure"),
    [
        ("cmake -S harbour", "cmake -S harbour -DTOOLS=vcpkg.cmake", "with `-DTOOLS=vcpkg.cmake`"),
        ("terraform plan", "terraform plan -lock=false", "with `-lock=false`"),
        (
            "docker compose run --rm -e A=1 app php artisan index",
            "docker compose run --rm -e A=1 -e KEY=x app php artisan index",
            "with `KEY=x`",
        ),
        (
            "npx playwright test",
            "npx playwright install chromium && npx playwright test",
            "with `npx playwright install chromium`",
        ),
    ],
)
def test_an_option_a_variable_or_a_step_that_was_added_is_the_cure(failed: str, passed: str, cure: str) -> None:
    recording = Recording().prompt("Index the harbour.").bash(failed, "Error: the harbour is locked", failed=True)
    (problem,) = recording.bash(passed, "done").draft().problems
    assert problem.note.endswith(f"passed in e3 after: {cure}")


FACT = "`useEffect` depends on `packs` and sets `packs`: each result is a new array, which loops without end."


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (FACT, [FACT]),
        ("Ah, `useEffect` sets `packs` without end in the harbour map.", []),
        ("It works on the map.", []),
    ],
)
def test_a_fact_stated_before_a_change_is_a_cause(said: str, told: list[str]) -> None:
    recording = Recording().prompt("The map freezes after a download.").read("/app/Map.tsx").answer(said)
    assert texts(recording.edit("/app/Map.tsx").draft().problems) == told


def test_an_answer_that_repeats_the_prompt_is_no_fact() -> None:
    recording = (
        Recording().prompt("Store amounts in cents.").answer("Cents it is; the `refund` table gets `amount_cents`.")
    )
    assert recording.edit("/shop/refund.sql").draft().problems == ()


NOTED = "Noted: the constraint comes after accounting has credited the duplicates."


def test_an_investigation_is_told_by_its_report_and_not_by_what_came_after() -> None:
    report = "The task was delivered twice by the broker. The run took 78 minutes, and the broker waits for 60."
    recording = Recording().prompt("Find out why two invoices were sent.").read("/shop/tasks.py").answer(report)
    recording.prompt("Let us do the unique constraint first, after accounting.").answer(NOTED)
    draft = recording.draft()
    assert texts(draft.findings) == report.replace(". The", ".|The").split("|")
    assert NOTED not in "".join(texts(draft.decisions + draft.findings + draft.open))


def test_what_a_person_puts_off_is_no_second_point_when_the_agent_takes_note() -> None:
    recording = Recording().prompt("Cut the tiles of the harbour and keep the login sessions.")
    for row in range(5):
        recording.edit(f"/map/cut{row}.rs").bash("cargo test", "ok").answer(f"The tiles of row {row} are cut.")
        recording.prompt(f"and row {row + 1} of the tiles please")
    offer = "The `session` table in sqlite is already there. So: sqlite table, expire rows after 14 days of silence."
    recording.prompt("where do we keep login sessions?").answer(offer)
    recording.prompt("ok sqlite table it is. later: rate limiting on /login, not now. bye")
    echo = "Noted: login sessions stay in the sqlite `session` table, and rate limiting on /login comes later."
    draft = recording.answer(echo).draft()
    (told,) = [each for each in texts(draft.decisions + draft.open) if "rate limiting" in each]
    assert told.endswith("later: rate limiting on /login, not now.")


@pytest.mark.parametrize(
    ("prompt", "step"),
    [
        ("add the antimeridian first, and dont commit until it is green", True),
        ("leave the antimeridian for tomorrow, and dont commit until it is green", True),
        ("leave the antimeridian for another day, and dont commit until it is green", False),  # it is an open point
        ("old boats keep their tiles forever, fine. only new ones get these", False),
        ("I found the chart of the island, mamma mia. Please add it, but not now, in spring", False),
        ("nice, thanks!", False),
        ("great, thanks a lot, that's all i needed!", False),
        ("good work", False),
    ],
)
def test_what_an_agent_only_takes_note_of_comes_next(prompt: str, *, step: bool) -> None:
    recording = Recording().prompt("Cut the tiles of the harbour.").edit("/map/cut.rs").answer("The tiles are cut.")
    found = recording.prompt(prompt).answer("OK, I leave it as it is.").draft().next_step
    assert (found is not None and found.text == prompt) == step


def test_two_questions_at_the_end_come_both_next() -> None:
    recording = Recording().prompt("Send a digest of the harbour.").edit("/mail.py")
    recording.answer(
        "The digest is sent.\n\n1. Should changes after 18:00 go out at once?\n2. Should the office get it?"
    )
    step = recording.draft().next_step
    assert step is not None
    assert (step.text, step.note) == ("Should changes after 18:00 go out at once?", "then: Should the office get it?")


def test_what_a_list_of_changes_calls_open_is_no_open_point() -> None:
    recording = Recording().prompt("Refund tickets of the ferry in parts.").edit("/ferry/refund.kt")
    recording.answer(
        "## What changed\n\n- The refund service accepts an amount; without one it pays what is still open."
    )
    assert recording.draft().open == ()


def test_files_changed_after_a_commit_are_told() -> None:
    recording = Recording().prompt("Bump the compiler of the harbour.").edit("/harbour/gates.go")
    recording.bash("git commit -am 'Close the gates'", "[main 1a2b3c4] Close the gates").edit("/harbour/go.mod")
    assert texts(recording.draft().uncommitted) == ["go.mod, unless by hand since then"]


def test_a_prompt_above_a_log_is_the_task() -> None:
    recording = Recording().prompt("the tide webhook is crashing since this morning:\n\n```\npanic: nil\n```")
    task = recording.edit("/harbour/hook.go").draft().task
    assert task is not None
    assert task.text.startswith("the tide webhook is crashing since this morning")


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("also regions over 6000 tiles fail silently. can u cap or split them", True),
        ("the monthly report of the harbour has to run once, there is a unique option for that", True),
        ("should the monthly report of the harbour run twice?", False),
    ],
)
def test_what_has_to_become_so_is_asked_later(prompt: str, *, asked: bool) -> None:
    recording = (
        Recording().prompt("Print the tide tables of the harbour.").edit("/tides.py").answer("They are printed.")
    )
    assert (prompt in texts(recording.prompt(prompt).edit("/map.ts").answer("So it is.").draft().requests)) == asked


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["⨯ release failed error=", "git is dirty: cannot release"], "git is dirty: cannot release"),
        (["region `FLASH' overflowed: error: no room", "collect2: error: ld returned 1 exit status"],
         "region `FLASH' overflowed: error: no room"),
        (["07:57:59 Encountered an error:", "Error: the package is missing"], "Error: the package is missing"),
    ],
)  # fmt: skip
def test_a_line_that_only_announces_an_error_is_none(lines: list[str], error: str) -> None:
    (problem,) = fail("make release", "\n".join(lines), WHY).draft().problems
    assert problem.text == error


def test_what_is_put_aside_and_taken_back_is_no_cure() -> None:
    recording = Recording().prompt("Mend the harbour.").bash("make test", "Error: the gate is shut", failed=True)
    recording.bash("git stash && make test; git stash pop", "ok")
    assert "stash" not in "".join(each.note for each in recording.draft().problems)


def test_a_line_that_says_ok_is_no_error_and_two_errors_with_one_cause_are_told_once() -> None:
    recording = Recording().prompt("Write the harbour image to the gauge.").edit("/gauge/write.py")
    recording.bash("python write.py", "block 0x400: no answer (3 tries)", failed=True).answer("I look at the times.")
    recording.bash("python write.py -v", "0x300 ack 4 ms\n0x400 no answer", failed=True)
    recording.answer("Found it: the gauge erases a sector at `0x400`, which takes 3 s, and `write.py` waits 1 s.")
    recording.edit("/gauge/write.py", "+wait = 5").bash("python write.py", "12 blocks")
    (found,) = recording.draft().problems
    assert found.text == "block 0x400: no answer (3 tries)"


def test_a_cause_that_was_found_is_told_without_the_news_of_it() -> None:
    cause = "The carrier answers slower than our timeout, and the retry makes a second label."
    recording = Recording().prompt("Some parcels get two labels.").read("/shop/job.rb").answer(f"Found it. {cause}")
    assert texts(recording.edit("/shop/job.rb").draft().problems) == [cause]


def test_a_fact_before_a_question_counts_once_the_person_has_answered() -> None:
    fact = "`fatalError` fires for `.unauthorized`, which is exactly the denied permission of the harbour."
    recording = Recording().prompt("The app dies at launch.").read("/app/Manager.swift")
    recording.answer(f"{fact} Which one do you want: a banner, or nothing?").prompt("a banner")
    assert texts(recording.edit("/app/Banner.swift").draft().problems) == [fact]


def test_what_is_not_pushed_is_open() -> None:
    recording = Recording().prompt("Release the harbour.").edit("/version.go").answer("Tagged v0.9.0, nothing pushed.")
    assert texts(recording.draft().open) == ["Tagged v0.9.0, nothing pushed."]


def test_a_title_names_what_is_wrong_and_not_that_it_is_to_be_found_out() -> None:
    recording = Recording().prompt("some parcels get two labels. find out why and fix it, no new gems pls")
    assert recording.edit("/shop/job.rb").answer("It is fixed.").draft().title == "Some parcels get two labels"


def test_a_request_that_nobody_answered_comes_next_though_another_was_taken_note_of() -> None:
    recording = Recording().prompt("Cut the tiles of the harbour.").edit("/map/cut.rs").answer("The tiles are cut.")
    recording.prompt("leave the antimeridian for tomorrow").answer("OK, I leave it.")
    last = "Write a note on the tide index of the harbour."
    step = recording.prompt(last).draft().next_step
    assert step is not None
    assert step.text == last


def test_the_answer_to_thanks_is_not_the_last_word() -> None:
    recording = (
        Recording().prompt("Close the gate.").edit("/gate.py").answer("The gate of the harbour closes at dusk now.")
    )
    recording.prompt("thanks!").answer("You're welcome! Good luck with the harbour and the ferry.")
    told = [each.text for each in session_state(recording.events, recording.items, Occasion.START)]
    assert any("closes at dusk" in text for text in told)
    assert not any("Good luck" in text for text in told)


@pytest.mark.parametrize("says", ["perfect. thank you", "not now, its late", "Exactly so. My train leaves!"])
def test_a_session_that_a_person_ends_does_not_break_off(says: str) -> None:
    recording = (
        Recording().prompt("Close the gate.").edit("/gate.py").answer("The gate closes at dusk now.").prompt(says)
    )
    told = session_state(recording.events, recording.items, Occasion.START)
    assert {"broke off", "next"}.isdisjoint(each.part for each in told)


LONG = (
    "Reproduced, exactly as reported. `tideShift()` works out the shift once, for the moment of the start, and adds it "
    "to every tide. There are three ways for the printer of the harbour office, and all have a price. A table of the "
    "coming month gets the shift of today, because nothing asks for the day of the tide. The printer had its troubles "
    "before, and the office has known of them for some years by now."
)


def test_of_a_long_explanation_what_names_code_or_a_reason_is_told() -> None:
    (problem,) = fail("go test ./tides/...", RACE, LONG).draft().problems
    assert "`tideShift()` works out the shift once" in problem.note
    assert "because nothing asks for the day" in problem.note
    assert "had its troubles before" not in problem.note


def test_a_refused_way_explains_nothing_and_the_one_that_was_taken_does() -> None:
    recording = Recording().prompt("Print the tide tables.").bash("go test ./tides/...", RACE, failed=True)
    recording.answer("Quickest is to wait a second in the test.").prompt("no sleeps in tests.").answer(WHY)
    (problem,) = recording.edit("/harbour/tides.go", "+FOR UPDATE").bash("go test ./tides/...", "ok").draft().problems
    assert WHY in problem.note
    assert "wait a second" not in problem.note


def test_an_answer_that_was_refused_was_not_acted_on() -> None:
    recording = Recording().prompt("Print the tide tables.").bash("make tides", "error: cannot compile", failed=True)
    recording.answer(why := "The container has no compiler, and the hashing library needs one.").bash(
        "apt-get install gcc", "ok"
    )
    recording.answer("The tables are printed in forty seconds by `tides.go`. Shall I keep it?").prompt(
        "No no. It only hides it"
    )
    (problem,) = recording.bash("git checkout -- other.go", "ok").bash("make tides", "ok").draft().problems
    assert why in problem.note


@pytest.mark.parametrize(("then", "is_told"), [("that is clear, thank you. fix it", True), ("", False)])
def test_what_a_turn_found_that_only_looked_is_told(then: str, is_told: bool) -> None:
    cause = "Each printer signs with its own key: `start.sh` makes a random one at every boot."
    recording = Recording().prompt("why do the tables differ between printers").read("start.sh").answer(cause)
    problems = texts((recording.prompt(then) if then else recording).draft().problems)
    assert problems == [cause] * is_told


def test_what_is_not_committed_was_not_found_out() -> None:
    said = "`start.sh` of the printers exists but is uncommitted; no gauge and no test yet."
    recording = Recording().prompt("terminal crashed. where were we?").read("start.sh").answer(said)
    assert recording.prompt("ok. where do the printer tables come from?").draft().problems == ()


def test_what_an_explanation_leaves_out_parts_it() -> None:
    said = "`start.sh` makes a random key. Perhaps nobody knew. The printers sign with it, so tables differ."
    recording = Recording().prompt("why do the tables differ").read("start.sh").answer(said).prompt("i see, fix it")
    (problem,) = recording.draft().problems
    assert problem.text == "`start.sh` makes a random key."
    assert problem.note == "The printers sign with it, so tables differ."


@pytest.mark.parametrize(
    "ways",
    [
        "Ways to mend it:\n- set `KEY`, since it is read\n- keep one printer",
        "| option | cost |\n|---|---|\n| set `KEY` | it is read |\n| keep one printer | slow |",
        "| # | Verdacht | Aufwand |\n|---|---|---|\n| 1 | `KEY` fehlt, because it is random | klein |",
    ],
)
def test_the_ways_that_an_answer_lists_explain_nothing(ways: str) -> None:
    cause = "`start.sh` makes a random signing key for the printers at every boot."
    said = f"{cause}\n\n{ways}"
    recording = Recording().prompt("why do the tables differ").read("start.sh").answer(said).prompt("i see, fix it")
    assert [(each.text, each.note) for each in recording.draft().problems] == [(cause, "")]


def test_a_suspicion_is_no_cause() -> None:
    said = "The suspicion is that `queue.go` sends pages of the harbour table twice after a broken telephone call."
    recording = Recording().prompt("why do pages come twice").read("queue.go").answer(said).prompt("look at the queue")
    assert find_problems(Record(recording.events, recording.items)) == []


def test_the_answer_to_why_is_learned_before_anything_is_read() -> None:
    cause = "All ones means that the line was high, i.e. the chip slept. Nothing in `read_scale` keeps it awake."
    recording = (
        Recording().prompt("Filter the spikes of the scale.").read("scale.c").answer("A median filter would do.")
    )
    recording.prompt("no filter. WHY is it all ones?").answer(f"{cause} Which calls can take that long?").read("tick.c")
    assert [each.text for each in recording.draft().problems] == [cause]


def test_of_a_long_explanation_all_is_quoted_that_fits() -> None:
    long = "A status write with the same content changes nothing in the server of the harbour, " * 4
    cause = "`show_last_check` writes the time on every pass."
    after = "Each write comes back to the controller as an event and starts another reconciliation."
    recording = Recording().prompt("Find out why the berth loops.").read("loop.go")
    recording.answer(f"{cause} {long.strip()}. {after}").prompt("i see, fix it")
    assert any(after in f"{each.text} {each.note}" for each in recording.draft().problems)


def test_what_was_offered_and_answered_cures_nothing() -> None:
    cause = "`Branch` of the harbour has no digit yet, so the label of the berth fails."
    recording = Recording().prompt("Print the labels of the harbour.").read("label.py")
    recording.answer(f"{cause} I could add `digit` to the berth as a migration.").prompt("take a table in the settings")
    (problem,) = recording.edit("settings.py", "+DIGITS = {}").draft().problems
    assert (problem.text, problem.note) == (cause, "")


@pytest.mark.parametrize(
    "begin",
    ["That's the reason.", "There it is.", "I have to take that back.", "No, wrong guess.", "I see why now."],
)
def test_what_was_found_out_is_told_though_nothing_is_done_at_once(begin: str) -> None:
    found = "`sweep_berths` reads a table of the harbour without an index."
    recording = Recording().prompt("Why does the harbour stand still at night?").read("berths.py")
    recording.answer(f"{begin} {found}").read("a.py").read("b.py").answer("It is slow by day as well.")
    (problem,) = recording.prompt("and then?").draft().problems
    assert found in problem.text


def test_a_cause_that_a_person_replies_to_is_acted_on() -> None:
    cause = "The real cause is in `parse_tide`: it throws the zone of the harbour away."
    recording = Recording().prompt("Mend the tide table.").read("tide.py").answer(f"{cause}\n\nWhich way?")
    for number in range(6):
        recording.read(f"{number}.py")
    assert cause in texts(recording.prompt("the second way").edit("tide.py").draft().problems)


@pytest.mark.parametrize(
    ("says", "is_told"),
    [("ah the fan of the harbour pulls the pin, i unplugged it", True), ("is the pin of the harbour free?", False)],
)
def test_what_a_person_says_between_a_failure_and_its_end_explains_it(says: str, is_told: bool) -> None:
    recording = Recording().prompt("Flash the node of the harbour.").edit("node.cpp")
    recording.bash("pio run -t upload", "A fatal error occurred: Wrong boot mode detected", failed=True)
    recording.prompt(says).bash("pio run -t upload", "Hash of data verified.")
    assert any(says in each.note for each in recording.draft().problems) == is_told
