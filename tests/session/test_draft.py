"""Drafts of sessions: what goes in, what stays out, and that every statement stands in its event."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.session.recording import Recording

from scrimshaw.models import EventKind, ItemKind, RecordedEvent, Session
from scrimshaw.session.draft import LONGEST_BODY, MOST_BODY_LINES, Draft, build_draft, render_body
from scrimshaw.session.failures import find_commits, find_edits
from scrimshaw.session.record import Record
from scrimshaw.session.sections import find_next_step, repeats_change
from scrimshaw.session.selection import is_settled
from scrimshaw.session.statements import AGENT, USER, Statement, contains_text, split_sentences

FAILED = "FAILED tests/test_login.py::test_expired - AssertionError: 401 != 200\n1 failed, 3 passed"
SUMMARY = (
    "This session is being continued from a previous conversation that ran out of context.\n\n"
    "1. Initial Request: User asked to migrate the ledger to the new journal.\n"
    "2. I used one writer instead of two because SQLite locks the file.\n"
)


def statements(made: Draft) -> list[Statement]:
    single = [each for each in (made.task, made.next_step) if each]
    return [*single, *made.requests, *made.decisions, *made.changed, *made.findings, *made.problems, *made.open]


def texts(told: Sequence[Statement]) -> list[str]:
    return [each.text for each in told]


def login() -> Recording:
    """A session with everything in it."""
    recording = Recording().prompt("Fix the expired token check in the login handler. It rejects fresh tokens.")
    recording.read("/home/ann/shop/src/login.py")
    recording.bash("uv run pytest tests/test_login.py 2>&1 | tail -5", FAILED)
    recording.edit("/home/ann/shop/src/login.py", "+if token.expires < now:").edit("/home/ann/shop/src/login.py")
    recording.edit("/home/ann/shop/tests/test_login.py")
    recording.bash("uv run pytest tests/test_login.py", "4 passed in 0.2s")
    recording.bash("git commit -am 'x'", "[main 0123abc] fix: compare token expiry in UTC\n 2 files changed")
    recording.answer("The root cause was a naive datetime in the login handler.")
    recording.answer("I'll compare in UTC instead of local time because servers differ.")
    recording.answer("I fixed the expiry check in `login.py`.\n\nWant me to update the session refresh next?")
    return recording


def test_a_session_with_everything() -> None:
    made = login().draft()
    assert made.task == Statement(
        text="Fix the expired token check in the login handler. It rejects fresh tokens.", event=1
    )
    assert made.title == "Fix the expired token check in the login handler"
    assert texts(made.decisions) == ["I'll compare in UTC instead of local time because servers differ."]
    assert len(made.decisions) == 1
    assert texts(made.changed) == [
        "fix: compare token expiry in UTC",
        "src/login.py",
        "tests/test_login.py",
    ]
    assert made.problems[0] == Statement(
        text="FAILED tests/test_login.py::test_expired - AssertionError: 401 != 200",
        event=3,
        note="`pytest tests/test_login.py` passed in e7 after: edited login.py: +if token.expires < now:; "
        "+something new; edited test_login.py: +something new",
    )
    assert made.open == ()
    assert made.next_step == Statement(text="Want me to update the session refresh next?", event=11)
    assert (made.tool_calls, made.ended) == (7, 11.0)
    assert "login handler" in made.trigger_phrases
    assert made.topics[0] == "login"


def test_the_folders_of_edited_files_are_topics_and_languages_and_common_folders_none() -> None:
    recording = Recording().prompt("Add reasons to the form, in Python").edit("src/payments/core.py").edit("tests/x.py")
    topics = recording.bash("pytest", "9 passed in 1s").answer("A reason is asked for.").draft().topics
    assert topics[0] == "payments"
    assert {"python", "pytest", "tests"}.isdisjoint(topics)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_task_goes_on_after_the_code_that_interrupts_it(end: str) -> None:
    parts = ("Multiplying zero blocks fails. When a matrix of blocks is defined", "then one product works:",
             "but the second raises an error.", "INSTRUCTIONS: edit the file.")  # fmt: skip
    draft = Recording().prompt("\n\n```\n>>> b * b\n```\n\n".replace("\n", end).join(parts)).draft()
    assert draft.task == Statement(parts[0], 1, "then one product works: … but the second raises an error.")


def test_the_body_names_the_event_of_every_line() -> None:
    text = render_body(login().draft())
    assert text.startswith("## Task\n\n- Fix the expired token check")
    assert "- commit 0123abc: fix: compare token expiry in UTC (e8)\n" in text
    assert "- src/: login.py (e4)\n" in text
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert all(re.search(r"\(e\d+(?:, e\d+)*\)$", line) for line in lines)
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
        "Task",
        "Decisions",
        "Changed",
        "Tests",
        "Learned",
        "Outcome",
        "Next",
    ]


@pytest.mark.parametrize("rulings", [0, 40])
def test_files_beyond_four_folders_share_a_line_if_there_is_room(rulings: int) -> None:
    recording = Recording().prompt("Read the gauges of all harbours.")
    for folder in "abcdef":
        recording.edit(f"{folder}/gauge.py").bash("git commit -m 'Read a gauge'", "[main 1234567] Read a gauge")
    for number in range(rulings):
        ruling = f"No, from now on gauge {number} of harbour {number} is read {'very ' * 40}slowly."
        recording.edit("a/gauge.py").answer(f"Shall I read gauge {number} at once?").prompt(ruling)
    body = render_body(recording.draft())
    assert ("\n- also e/gauge.py, f/gauge.py (e10, e12)\n" in body) == (not rulings)


def test_an_empty_session_has_an_empty_draft() -> None:
    made = build_draft(Session(id="s", started=5.0, last_event=9.0), (), ())
    assert statements(made) == []
    assert (made.title, made.trigger_phrases, made.topics, render_body(made)) == ("", (), (), "")
    assert made.ended == 9.0


@pytest.mark.parametrize(
    ("prompts", "task"),
    [
        (["Hello!", "Add paging to the order list."], "Add paging to the order list."),
        (["/model opus", "Add paging to the order list."], "Add paging to the order list."),
        (["continue", "Add paging to the order list."], "Add paging to the order list."),
        (["what does this module do?", "Add paging to the order list."], "Add paging to the order list."),
        (["run tree to orient yourself", "Add paging to the order list."], "Add paging to the order list."),
        (["Add paging to the order list.", "Fix the footer colours."], "Add paging to the order list."),
        (["Implement SHOP-42"], "Implement SHOP-42"),
        (["修复登录页面的错误"], "修复登录页面的错误"),
        (["Bitte repariere die Anmeldung im Shop"], "Bitte repariere die Anmeldung im Shop"),
        (["<system-reminder>Add nothing.</system-reminder>Add paging to the list."], "Add paging to the list."),
        (["[Request interrupted by user]Add paging to the list."], "Add paging to the list."),
        (["Add paging.\n```\nTraceback: boom\n```"], "Add paging."),
        ([SUMMARY], "migrate the ledger to the new journal."),
    ],
)
def test_the_task_is_what_was_asked_for(prompts: list[str], task: str) -> None:
    recording = Recording()
    for prompt in prompts:
        recording.prompt(prompt)
    made = recording.draft()
    assert made.task
    assert made.task.text == task


def test_a_long_request_is_cut_at_a_sentence() -> None:
    made = Recording().prompt("Rework the importer. " + "It should read every dialect of the format. " * 30).draft()
    assert made.task
    assert len(made.task.text) <= 700
    assert made.task.text.endswith("format.")


def test_later_requests_are_told_and_nods_are_not() -> None:
    recording = Recording().prompt("Add paging to the order list.").prompt("yes").prompt("commit")
    recording.prompt("Now also sort the customers by country.").edit("a.py").prompt("Let's discuss the exporter.")
    recording.prompt("Let's remove the legacy exporter for good, as nobody uses it.").bash("git rm exporter.py")
    recording.answer("Ok.").prompt("The upload of invoices fails on Windows. Find out why and fix it.").edit(
        "b.py"
    ).answer("Ok.")
    assert texts(recording.draft().requests) == [
        "Now also sort the customers by country.",
        "Let's remove the legacy exporter for good, as nobody uses it.",
        "The upload of invoices fails on Windows. Find out why and fix it.",
    ]


DOUBLE_NUMBERS = "Die Rechnungen der Filiale haben doppelte Nummern"


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Please add paging to the order list of the shop.", "Add paging to the order list of the shop"),
        ("Hi Claude, I want you to migrate the ledger tables to uuids.", "Migrate the ledger tables to uuids"),
        ("Work on SHOP-42.", "Work on SHOP-42"),
        ("Guten Morgen! Die Rechnungen der Filiale haben doppelte Nummern.", DOUBLE_NUMBERS),
        ("Quick one between two calls: die Rechnungen der Filiale haben doppelte Nummern.", DOUBLE_NUMBERS),
        (
            "Implement the following plan:\n\n# Plan: Add a cache to the search\n\n## Context\n\nSearches are slow.\n",
            "Add a cache to the search",
        ),
        ("Please mend the ledger rows that order # 5 left behind.", "Mend the ledger rows that order # 5 left behind"),
        ("bulk_create() ignores the batch size of the backend", "bulk_create() ignores the batch size of the backend"),
    ],
)
def test_titles_are_specific(prompt: str, title: str) -> None:
    recording = Recording().prompt(prompt).edit("a.py")
    for place in range(3):
        recording.answer(f"Rechnungen mit doppelten Nummern, Filiale {place}.")
    assert recording.draft().title == title


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("order mails. here is the .env:\nMAIL_USER=crane@harbour.example\nMAIL_HOST=harbour.example", "Order mails"),
        ("locked again!!!\n\nNov 26 23:14:02 shop cron[81]: harbour ledger crane is locked\n\nmend it", "Locked again"),
    ],
)
def test_pasted_settings_and_logs_are_no_titles(prompt: str, title: str) -> None:
    recording = Recording().prompt(prompt).edit("a.py")
    for _ in range(3):
        recording.answer(
            "The mail host of the harbour knows MAIL_USER and the crane; shop cron met the harbour ledger."
        )
    assert recording.draft().title == title


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Look at the TODO.", "Ledger: import the last row"),
        ("The ledger importer drops the last row of a ledger.", "The ledger importer drops the last row of a ledger"),
        ("I thought about the ledger importer over night.", "Ledger: import the last row"),
        ("My laptop died in the middle of it yesterday.", "Ledger: import the last row"),
    ],
)
def test_the_title_is_the_request_or_commit_that_most_was_said_of(prompt: str, title: str) -> None:
    recording = Recording().prompt(prompt)
    recording.answer("The importer of the ledger drops the last row. So the ledger is short.")
    recording.edit("ledger.py").bash("git commit -am 'x'", "[main 0123abc] fix(ledger): import the last row\n")
    recording.edit("README.md").bash("git commit -am 'x'", "[main 1123abc] docs: mention the sponsors\n")
    assert recording.draft().title == title


def test_a_request_that_names_nothing_is_entitled_by_what_the_session_goes_on_about() -> None:
    recording = Recording().prompt(
        "Hi, 215 is in. The buoys of the harbour drift at night. Find why and we make chains longer."
    )
    for hour in range(6):
        recording.answer(f"At {hour} the buoys of the harbour drift by {hour} metres.")
    assert recording.draft().title == "The buoys of the harbour drift at night"


def test_a_title_is_short_and_ends_in_a_word_that_matters() -> None:
    made = Recording().prompt("Rewrite " + "the ledger importer and the exporter with " * 9 + "care.").draft()
    assert len(made.title) <= 90
    assert made.title.split()[-1] not in ("and", "the", "with")


def test_a_failure_that_was_given_up_early_is_not_open() -> None:
    recording = Recording().prompt("Set up the linter.").bash("flake8 src", "fatal: no config", failed=True)
    for _ in range(9):
        recording.bash("ruff check src", "All checks passed!")
    assert recording.draft().open == ()


def test_a_last_failure_is_open_until_something_of_its_program_passes() -> None:
    recording = Recording().prompt("Fix the parser tests.").bash("make lint", "ok").bash("uv run pytest", FAILED)
    assert texts(recording.draft().open) == ["FAILED tests/test_login.py::test_expired - AssertionError: 401 != 200"]
    recording.bash("uv run pytest tests", "4 passed")
    assert recording.draft().open == ()
    assert recording.draft().problems == ()  # nothing was done about it


def test_looking_around_does_not_fail() -> None:
    recording = Recording().prompt("Fix the parser.").bash("ls missing", "ls: missing: No such file", failed=True)
    recording.bash("ls here", "a").bash("grep x y", "grep: y: No such file", failed=True)
    made = recording.draft()
    assert (made.problems, made.open) == ((), ())


@pytest.mark.parametrize(
    ("said", "is_open"),
    [
        ("The exporter still needs a test for empty files.", True),
        ("Known limitation: dates before 1970 are refused.", True),
        ("I filed SHOP-43 for the broken refresh.", True),
        ("There is nothing left to do in the exporter.", False),
        ("Let me fix the remaining tests of the exporter.", False),
        ("✅ Updated the pending list in the notes.", False),
        ("To be sure I should check whether the exporter is still missing.", False),
    ],
)
def test_what_is_left_open(said: str, is_open: bool) -> None:
    made = Recording().prompt("Extend the exporter.").edit("src/export.py").answer(said).draft()
    assert (said in texts(made.open)) == is_open


@pytest.mark.parametrize(
    ("said", "step"),
    [
        ("Now let me run the migration on a copy.", "Now let me run the migration on a copy."),
        ("The next step is to wire the exporter.", "The next step is to wire the exporter."),
        ("All done.", None),
        ("The exporter writes one file for each table.", None),
        ("Great, the harbour office gets its tables.", None),
        ("OK, the `export` function remains synchronous.", None),
        (
            "Great, run the exporter once for the harbour office.",
            "Great, run the exporter once for the harbour office.",
        ),
    ],
)
def test_the_next_step_is_what_was_last_announced(said: str, step: str | None) -> None:
    made = Recording().prompt("Extend the exporter.").edit("src/export.py").answer(said).draft()
    assert (made.next_step.text if made.next_step else None) == step


def test_steps_that_the_last_answer_lists_are_next_in_their_order() -> None:
    recording = Recording().prompt("Move the project to uv and share it.")
    steps = "1. Create the repository.\n2. Push the branch to it.\n3. Install it on the laptop.\n4. Tell the team."
    step = recording.answer(f"It is moved. Here's a summary of what you need to do next:\n\n{steps}").draft().next_step
    note = "then: Push the branch to it; Install it on the laptop"
    assert step == Statement("Create the repository.", 2, note)


def test_a_step_that_the_last_call_took_is_not_next() -> None:
    recording = Recording().prompt("Extend the exporter.").bash("git push origin main", "done")
    assert recording.answer("Now push the branch.").draft().next_step is None


def test_a_prompt_without_an_answer_is_next() -> None:
    made = Recording().prompt("Extend the exporter.").edit("src/export.py").prompt("Now document it, too.").draft()
    assert made.next_step == Statement(text="Now document it, too.", event=3)


def test_what_is_not_to_be_done_is_no_step() -> None:
    recording = Recording().prompt("Extend the exporter.").edit("src/export.py")
    recording.prompt("We are NOT doing coupon codes, boss dropped it. Now add paging to the order list.")
    step = find_next_step(Record(recording.events, ()))
    assert step == Statement(text="Now add paging to the order list.", event=3)


@pytest.mark.parametrize("answer", ["Okay, I will add it to AGENTS.md. First, I'll read it.", ""])
def test_a_request_that_was_only_announced_is_next(answer: str) -> None:
    recording = Recording().prompt("Extend the exporter.").edit("src/export.py").answer("I extended the exporter.")
    recording.prompt("Good. The layout of the stories has to be described in AGENTS.md and CLAUDE.md.")
    recording = (recording.answer(answer) if answer else recording).read("AGENTS.md").prompt("retry")
    step = recording.draft().next_step
    assert step
    assert step.text == "The layout of the stories has to be described in AGENTS.md and CLAUDE.md."
    assert recording.answer("I added the layout of the stories to both.").draft().next_step is None


def test_a_stop_repeats_the_last_answer_and_does_not_count() -> None:
    recording = Recording().prompt("Extend the exporter.").edit("src/export.py")
    recording.stop("I added CSV to the exporter.").answer("I added CSV to the exporter.")
    assert recording.draft().changed[0].event == 4


def test_what_was_decided_is_not_told_again_as_done() -> None:
    recording = Recording().prompt("Let the exporter write CSV.")
    recording.answer("I'll use the csv module in `export_rows` instead of joining strings by commas.")
    recording.edit("src/export.py", "+writer = csv.writer(out)")
    recording.answer(
        "Replaced joining strings by commas with the csv module in `export_rows`.\n\nAdded a header to each sheet."
    )
    draft = recording.draft()
    assert [each.event for each in draft.decisions] == [2]
    assert [each.text for each in draft.changed] == ["Added a header to each sheet.", "src/export.py"]


def test_a_file_that_a_result_names_is_not_listed_again() -> None:
    recording = Recording().prompt("Let the exporter write CSV.").edit("src/export.py").edit("src/sheets.py")
    recording.answer("Changed `src/export.py`: every row is quoted now.")
    assert [each.text for each in recording.draft().changed] == [
        "Changed `src/export.py`: every row is quoted now.",
        "src/sheets.py",
    ]


def test_the_last_difference_stands_in_for_commits() -> None:
    recording = Recording().prompt("Fix the header merge.").edit("requests/sessions.py")
    shown = "diff --git a/requests/sessions.py b/requests/sessions.py\n--- a/requests/sessions.py\n"
    recording.bash("git diff", shown + "+++ b/requests/sessions.py\n+    for key in list(merged):\n+\n+    # why\n")
    changes = recording.draft().changed
    assert changes == (Statement(text="requests/sessions.py", event=3, note="`for key in list(merged):`"),)


READS = [f"value{each} = read_it()" for each in range(10, 30)]
SHOWN = " ⏎ ".join(READS[:10])


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("-row = b[1]\n+row = b.get(1)\n", "`row = b.get(1)` for `row = b[1]`"),
        ("-row = b[1]\n", "without `row = b[1]`"),
        ("@@ -1,2 +1,2 @@ def merge(headers):\n+" + "\n+".join(READS), f"in `merge`: `{SHOWN} ⏎ {READS[10]}`"),
        ("+def split(headers):\n+    " + "\n+    ".join(READS), f"in `split`: `def split(headers): ⏎ {SHOWN}`"),
        ("+row = b.get(1)\n" * 2, "`row = b.get(1)`"),
        ("+if a:\n+    return\n+if b:\n+    return\n+go()\n", "`if a: ⏎ return ⏎ if b: ⏎ return ⏎ go()`"),
        ("+for row in rows:\n+    if k == 0:\n+        break\n", "`for row in rows: ⏎ if k == 0: ⏎ break`"),
    ],
)
def test_a_file_is_told_with_what_the_last_difference_does_to_it(body: str, note: str) -> None:
    recording = Recording().prompt("Fix the header merge.").edit("requests/sessions.py")
    path = "requests/sessions.py"
    recording.bash("git diff", f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n{body}")
    assert [(each.text, each.note) for each in recording.draft().changed] == [(path, note)]


def test_issues_that_were_closed_are_told() -> None:
    recording = Recording().prompt("Work on SHOP-42.").bash("bd close SHOP-42", "✓ Closed SHOP-42: paging works now")
    recording.item(ItemKind.RESULT, "$ bd close", rule="issue-changed")
    assert texts(recording.draft().changed) == ["✓ Closed SHOP-42: paging works now"]


def test_shell_edits_count_by_their_items() -> None:
    recording = Recording().prompt("Fix the importer.").bash("src/load.py x", "")
    recording.events[-1] = RecordedEvent(
        session="s", number=2, kind=EventKind.TOOL, tool="Bash", call_id="c2", text="src/load.py x\n", at=2.0,
        path="src/load.py",
    )  # fmt: skip
    assert recording.draft().changed == ()
    assert texts(recording.item(ItemKind.FILE, "Edit src/load.py\n+x").draft().changed) == ["src/load.py"]


def test_five_calls_are_enough_for_phrases_and_topics() -> None:
    recording = Recording().prompt("ok")
    for name in ("invoice_export", "tax_rules", "currency_table", "vat_report", "ledger_sync"):
        recording.edit(f"src/billing/{name}.py")
    made = recording.draft()
    assert len(made.trigger_phrases) >= 2
    assert made.topics


@pytest.mark.parametrize("junk", ["the", "py", "0123abcdef0123", "42", "please", "step", "file", "https"])
def test_junk_is_no_phrase(junk: str) -> None:
    recording = Recording().prompt(
        f"Please check {junk} in the invoice exporter for {junk} and the tax rules of {junk}."
    )
    made = recording.edit("src/invoice_export.py").draft()
    words = {word for phrase in made.trigger_phrases for word in phrase.lower().split()}
    assert junk not in words
    assert junk not in made.topics


def test_a_summary_is_read_but_its_wrapping_is_not() -> None:
    made = Recording().compact(SUMMARY).edit("src/ledger.py").draft()
    assert made.task
    assert made.task.text == "migrate the ledger to the new journal."
    assert all("continued from" not in each.text for each in statements(made))


def test_chatter_stays_out() -> None:
    recording = Recording().prompt("Extend the exporter.").edit("src/export.py")
    recording.answer("I'll execute this step by step. Let me analyze the following. I added CSV to the exporter.")
    text = render_body(recording.draft())
    assert "I added CSV to the exporter." in text
    assert "step by step" not in text
    assert "Let me analyze" not in text


@pytest.mark.parametrize(
    "said",
    ["Understood, nothing against prod, reads included.", "Running the tides again now that the chart is loaded."],
)
def test_what_is_acknowledged_or_announced_was_not_found(said: str) -> None:
    recording = Recording().prompt("Find out which tables the exporter skips.").read("src/export.py").answer(said)
    assert not recording.draft().findings


def test_a_session_that_changed_nothing_tells_what_was_found() -> None:
    recording = Recording().prompt("Find out which tables the exporter skips.").read("src/export.py")
    recording.answer("The exporter skips views and temporary tables. Shall I change that?")
    made = recording.draft()
    assert texts(made.findings) == ["The exporter skips views and temporary tables."]
    assert "## Outcome\n\n- The exporter skips" in render_body(made)


def test_what_an_agent_muses_accounts_for_nothing() -> None:
    recording = Recording().prompt("Fix the loader.").edit("src/load.py")
    recording.answer("The loader keeps stale rows, which ensures speed. Wait, the cache skips stale rows.")
    recording.answer("Next I'll look at the cache.")
    assert not recording.draft().findings


def test_expected_failures_are_no_red_run() -> None:
    made = Recording().bash("python tests/runtests.py queries", "OK (skipped=13, expected failures=2)").draft()
    assert [each.note for each in made.tests] == ["green, OK (skipped=13, expected failures=2)"]


def test_a_change_is_not_told_again_in_other_words() -> None:
    recording = Recording().prompt("Move the linter settings.").edit("/shop/pyproject.toml")
    recording.bash("git commit -am 'x'", "[main 0123abc] Remove .flake8 and migrate settings to pyproject.toml")
    recording.answer(
        "- Migrated settings from .flake8 to pyproject.toml\n"
        "- Removed .flake8 from the git repository\n"
        "- Added ignores for two rules that contradict each other\n"
        "- Resolved all warnings of the linter, and pushed it to the server\n"
        "- Added a regression test to the suite\n"
        "- Fixed the parser\n"
    )
    made = recording.draft()
    assert texts(made.changed)[:2] == [
        "Added ignores for two rules that contradict each other",
        "Remove .flake8 and migrate settings to pyproject.toml",
    ]
    assert not [text for text in texts(made.findings) if "flake8" in text]


def test_without_a_commit_a_result_that_was_pushed_is_told() -> None:
    recording = Recording().prompt("Move the linter settings.").edit("/shop/pyproject.toml")
    recording.answer("I moved the linter settings to the lint section and pushed them.")
    assert texts(recording.draft().changed)[0].startswith("I moved the linter settings")


@pytest.mark.parametrize(
    ("prompt", "task", "rest"),
    [
        ("Paging of orders fails.\n\n### Steps to reproduce\n\n```\nx\n```", "Paging of orders fails.", ""),
        ("Paging of orders fails. Here is the offending line:\n```\nx\n```", "Paging of orders fails.", ""),
        ("Paging of orders fails.\n$ run\nTraceback (most recent call last):\n  File x", "Paging of orders fails.", ""),
        ("Paging of orders fails for\nclass Order(Model):\n\tpages = Field()\nwhich ends early.",
         "Paging of orders fails for", "which ends early."),
        ("Paging bug of orders\n<!-- Summary. -->\nThe second page is empty.\n<!-- End -->",
         "Paging bug of orders", "The second page is empty."),
    ],
)  # fmt: skip
def test_a_task_ends_before_code_and_what_introduces_it(prompt: str, task: str, rest: str) -> None:
    assert Recording().prompt(prompt).draft().task == Statement(task, 1, rest)


def test_the_last_run_of_googletest_is_green() -> None:
    recording = (
        Recording().edit("a.cpp").bash("make test", "[  FAILED  ] 1 test, listed below:\n 1 FAILED TEST", failed=True)
    )
    made = recording.edit("a.cpp").bash("make test", "[  PASSED  ] 41 tests.").draft()
    assert [each.note for each in made.tests] == ["green, [  PASSED  ] 41 tests."]


def test_a_commit_does_not_settle_what_the_work_left_open() -> None:
    left = "I have not touched the nightly job yet: it needs the mail account of the harbour."
    recording = Recording().prompt("Add an export, and let the nightly job mail it.").edit("export.py")
    recording.answer(f"The export works. {left}").prompt("pls commit and push")
    recording.bash("git add -A && git commit -m 'Export'", "[main 1a2b3c4] Export").bash("git push", "main -> main")
    assert texts(recording.answer("Committed as `Export` and pushed to `origin/main`.").draft().open) == [left]


@pytest.mark.parametrize(
    ("reply", "decides"),
    [
        ("hm let me ask Tom, gotta run", False),
        ("keine ahnung, frag mich morgen nochmal", False),
        ("not sure, I'll think about it over lunch", False),
        ("encode it first, the harbours have umlauts", True),
    ],
)
def test_a_question_that_is_put_off_is_open(reply: str, *, decides: bool) -> None:
    question = "Should I check the address with `harbour-mail`, or encode it first?"
    recording = (
        Recording()
        .prompt("Make `send()` check the addresses of harbours.")
        .edit("send.py")
        .answer(question)
        .prompt(reply)
    )
    made = recording.answer("OK.").draft()
    assert texts(recording.decisions()) == [reply] * decides
    assert [(each.text, each.note) for each in made.open] == [(question, "not decided in e4")] * (not decides)


@pytest.mark.parametrize(
    ("reply", "is_open"),
    [
        ("ok that's fine. the harbours get a letter, I'll ask Tom for it", False),
        ("ok let me ask Tom about the harbours first", True),
        ("The harbours are new to me. I'll ask Tom. Ok, bye", True),
    ],
)
def test_a_question_that_is_agreed_to_is_not_open(reply: str, *, is_open: bool) -> None:
    recording = Recording().prompt("Make `send()` check the addresses of harbours.").edit("send.py")
    recording.answer("Should I check the address with `harbour-mail`?").prompt(reply)
    notes = [each.note for each in recording.draft().open]
    assert ("not decided in e4" in notes) == is_open


@pytest.mark.parametrize(
    ("command", "output", "state"),
    [
        ("go test ./... && go run ./app take", "ok  \tpack\t0.380s\nindex: database is locked", "green"),
        ("go test ./... && go run ./app take", "ok  \tpack\t0.380s\n--- FAIL: TestCut (0.0s)\nFAIL", "red"),
        ("go vet ./... && go test ./...", "ok  \tpack\t0.380s\ncoverage too low", "red"),
    ],
)
def test_tests_before_a_step_that_failed_are_green(command: str, output: str, state: str) -> None:
    recording = Recording().prompt("Show the progress of a tide table.").edit("progress.go")
    made = recording.bash(command, output, failed=True).draft()
    assert [(each.text, each.note.split(",")[0]) for each in made.tests] == [("go test ./...", state)]


def test_a_cure_of_two_errors_is_told_once() -> None:
    recording = Recording().prompt("Upload the tide tables.").bash("go run ./app put", "put: NoMatch", failed=True)
    recording.bash("date; go run ./app put -v", "Tue Nov 24\nput: Denied", failed=True)
    recording.answer("The gateway is asked for the wrong host: Ceph needs `lookup = path` in the settings.")
    made = recording.edit("tides.toml").edit("store.go").bash("go run ./app put", "put ok").draft()
    assert texts(made.problems) == ["put: NoMatch"]


def test_what_is_left_is_told_once_and_not_of_the_tests_again() -> None:
    left = "Still to do: the old key has to warn (`test_old_key` fails)."
    made = (
        Recording()
        .edit("a.py")
        .bash("pytest", "FAILED test_old_key\n1 failed in 0.1s", failed=True)
        .answer(left)
        .draft()
    )
    assert [each.note for each in made.tests] == ["red, 1 failed in 0.1s: test_old_key"]
    assert left in texts(made.open)


def test_of_runs_of_the_same_tests_the_last_is_told() -> None:
    recording = Recording().prompt("Fix the parser.").bash("pytest tests/test_a.py", "2 passed in 0.1s")
    recording.bash("python try.py", "Case 2 passed.").bash("cd shop && pytest 2>&1 | tail -3", "9 passed in 2s")
    recording.bash("pytest -W ignore", "9 passed in 3s")
    assert [(each.text, each.event) for each in recording.draft().tests] == [
        ("python try.py", 3),
        ("pytest -W ignore", 5),
    ]
    recording = Recording().prompt("Fix the parser.").bash("pytest && curl :80/health", "6 passed in 1s\n{}")
    recording.bash("pytest", "8 passed in 1s")
    assert [(each.text, each.note) for each in recording.draft().tests] == [("pytest", "green, 8 passed in 1s")]


def test_scripts_that_ran_since_the_last_change_are_told_with_their_last_line() -> None:
    recording = Recording().prompt("Round the totals of the till.").bash("python repro.py", "total: 344")
    recording.edit("src/till.py").bash("cd shop && python3 repro.py 2>&1 | tail -1", "total: 344").edit("src/till.py")
    recording.bash("python repro.py", "reading\ntotal: 345\n\n---").bash("python empty.py", "")
    recording.bash("node edge.js", "TypeError: x", failed=True).bash("cargo run -q -- --dry", "0 rows")
    recording.bash("ls shop", "till.py").bash("python -c 'print(1)'", "1")
    assert [(each.text, each.note, each.event) for each in recording.draft().tests] == [
        ("cargo run -q -- --dry", "printed: 0 rows; python repro.py printed: total: 345", 9),
        ("till.py", "no test run was seen", 5),
    ]


@pytest.mark.parametrize(
    ("recording", "is_untried"),
    [
        (Recording().edit("src/till.py"), True),
        (Recording().edit("src/till.py").bash("python src/till.py", "345"), False),
        (Recording().edit("src/till.py").bash("pytest", "…"), False),
        (Recording().edit("docs/till.md"), False),
        (Recording().edit("src/till.py", "+x", tool="Write"), False),
    ],
)
def test_code_that_was_changed_without_a_test_is_told(recording: Recording, is_untried: bool) -> None:
    notes = [each.note for each in Record(recording.events, recording.items).checks]
    assert ("no test run was seen" in notes) == is_untried


@pytest.mark.parametrize(
    "said", ["", "They fail without my changes, too.", "It persists even after reverting changes."]
)
def test_a_run_without_the_change_says_only_whether_the_change_made_a_difference(said: str) -> None:
    recording = Recording().prompt("Fix the parser.").edit("src/parser.py").bash("pytest tests", FAILED)
    if not said:
        recording.bash("git stash && pytest tests; git stash pop", FAILED)
    else:
        recording.edit("src/parser.py", "-x").bash("pytest tests", FAILED)
        recording.answer(said).edit("src/parser.py")
    assert [(each.event, each.note) for each in recording.draft().tests] == [
        (3, "red, 1 failed, 3 passed: test_expired; the same without the change")
    ]
    recording.bash("pytest tests", "4 passed")
    assert [each.note for each in recording.draft().tests] == ["green, 4 passed"]


def test_a_bare_command_does_not_tell_how_the_session_ended() -> None:
    recording = Recording().prompt("Solve the harbour riddle.").edit("solve.py")
    assert [recording.bash(command).draft().findings for command in ("submit", "submit '125'")] == [(), ()]


def test_a_task_that_a_commit_names_is_not_open() -> None:
    recording = (
        Recording()
        .prompt("Extend the exporter.")
        .dialog("task list", "[pending] Fix the slash command", "[pending] Tell Ann")
    )
    recording.bash("git commit -m 'Add /hi slash command'")
    assert texts(recording.draft().open) == ["Tell Ann"]


def test_an_argument_is_not_open_and_a_heading_is_no_finding() -> None:
    recording = Recording().prompt("Extend the exporter.").edit("src/export.py")
    recording.answer(
        "The exporter now writes one file for each table.\n\n"
        "- Practical frameworks\n\nReasons against it:\n- The exporter guide is not yet finished\n"
        "· Hatching… (0s · esc to interrupt)"
    )
    made = recording.draft()
    assert (texts(made.open), "Hatching" in made.title) == ([], False)
    assert not [each for each in texts(made.findings) if "framework" in each or "esc to" in each]


def test_that_all_is_finished_counts_only_in_the_last_turn() -> None:
    said = "I've successfully completed the analysis of the exporter, the journal and the spool."
    recording = Recording().prompt("Analyse the exporter.").edit("notes.md").answer(said)
    assert said in texts(recording.draft().changed)
    recording.prompt("The figures of the exporter are wrong.").edit("notes.md").answer("I've corrected the figures.")
    assert said not in texts(recording.draft().changed)


def test_the_file_of_a_test_is_not_listed_beside_words_on_tests() -> None:
    recording = Recording().prompt("Fix the parser.").edit("/shop/src/parser.py").edit("/shop/tests/test_parser.py")
    assert texts(recording.draft().changed) == ["src/parser.py", "tests/test_parser.py"]
    recording.answer(said := "I updated the dialect of the parser and the test data of the exporter.")
    assert texts(recording.draft().changed) == [said, "src/parser.py"]


def test_an_account_of_a_difference_stands_beside_its_code() -> None:
    recording = Recording().prompt("Let the cache load rows of one tenant.").edit("/shop/src/cache.py")
    change = "-rows = load_rows()\n+rows = load_rows(tenant=self.tenant)"
    recording.bash("git diff", f"\ndiff --git a/src/cache.py b/src/cache.py\n+++ b/src/cache.py\n@@ -1 +1 @@\n{change}")
    recording.answer("Fixed the tenant of `load_rows` in `src/cache.py`.")
    made = recording.draft()
    assert texts(made.changed) == ["Fixed the tenant of `load_rows` in `src/cache.py`.", "src/cache.py"]
    assert made.findings == ()


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ("Both parts are done. Left: the nightly harbour report.", "Left: the nightly harbour report."),
        (
            "## Not included\n\n- The admin API of the harbour has no limit.",
            "The admin API of the harbour has no limit.",
        ),
        (
            "`phonenumbers` was missing from the venv. It is not in `pyproject.toml`, someone should add it.",
            "`phonenumbers` was missing from the venv. It is not in `pyproject.toml`, someone should add it.",
        ),
        ("The expiry is still not checked on Get.", "The expiry is still not checked on Get."),
        ("Nothing of the queue runs on Windows yet.", "Nothing of the queue runs on Windows yet."),
        ("The migration is written but not applied.", "The migration is written but not applied."),
        ("Sidekiq must go to version 7 before production.", "Sidekiq must go to version 7 before production."),
        ("I haven't added a harbour test for it.", "I haven't added a harbour test for it."),
        ("## For Monday\n\n- harbour page", "harbour page"),
        ("What's left: nobody has read the harbour gauge.", "What's left: nobody has read the harbour gauge."),
        ("Left on the harbour page: a chart, a map.", "Left on the harbour page: a chart, a map."),
        ("Summary of today:\n\n- to do: sign the harbour file", "to do: sign the harbour file"),
        ("- [x] harbour page read\n- [ ] harbour chart", "harbour chart"),
        ("## Left to do\n\n- [x] harbour page read\n- [ ] harbour chart", "harbour chart"),
        ("Only the map is deferred now.", ""),
        ("## Open the page:\n\n- The harbour page is at port 8000.", ""),
    ],
)
@pytest.mark.parametrize("is_followed", [False, True])
def test_what_the_answer_after_the_last_change_leaves_is_open(answer: str, left: str, *, is_followed: bool) -> None:
    recording = Recording().prompt("Let the upload queue of the harbour retry.").edit("a.py").answer(answer)
    if is_followed:
        recording.prompt("How long is the queue kept?").read("a.py").read("b.py").answer("It is kept for a day.")
    assert [each.text for each in recording.draft().open] == [left] * bool(left)


def test_a_request_below_a_pasted_error_begins_above_it() -> None:
    error = "```\nTraceback (most recent call last):\nAttributeError: no attribute 'street'\n```"
    made = (
        Recording()
        .prompt(f"I get this in production when a customer has no address:\n\n{error}\n\nPlease fix it.")
        .draft()
    )
    assert made.title == "I get this in production when a customer has no address"
    assert made.task == Statement("I get this in production when a customer has no address:", 1, "Please fix it.")


def test_a_turn_that_came_to_rest_is_answered_whatever_was_said() -> None:
    recording = Recording().prompt("Rename the harbour queue.").edit("queue.py").answer("Done.").stop("Done.")
    recording.prompt("Also pin httpx below 0.29 in the harbour.").edit("pyproject.toml")
    assert recording.draft().next_step is not None
    assert recording.stop("Done.").draft().next_step is None


def test_an_answer_that_also_announces_is_an_answer() -> None:
    recording = Recording().prompt("Rename the harbour queue.").edit("queue.py").answer("Renamed.")
    recording.prompt("What is the command for a dump of the harbour again?")
    recording.answer("It is `pg_dump -Fc harbour > harbour.dump`. I'll keep the old name in the export.")
    assert recording.draft().next_step is None


@pytest.mark.parametrize(("after", "open_points"), [(8, 0), (0, 1)])
def test_a_limitation_is_open_only_where_the_work_ended_with_it(after: int, open_points: int) -> None:
    recording = Recording().prompt("Let the upload queue of the harbour retry.").read("a.py").read("b.py").read("c.py")
    recording.answer("The upload queue has a known limitation in release 3.")
    for number in range(after):
        recording.edit(f"{number}.py")
    assert len(recording.draft().open) == open_points


def test_an_item_of_an_outcome_is_told_with_the_heading_of_its_list() -> None:
    recording = Recording().prompt("Import the stock list of the harbour shop.").edit("stock.ex")
    items = "- a table for uploaded files\n- the upload handler writes each file into Postgres"
    recording.answer(f"The import reads the stock list row by row now.\n\nFor the office:\n{items}")
    body = render_body(recording.draft())
    assert "- the upload handler writes each file into Postgres — For the office (e3)" in body


@pytest.mark.parametrize(
    ("says", "step"),
    [
        ("Spot on. I'll move the stock table on Monday myself.", "I'll move the stock table on Monday myself."),
        ("The last point is important, thank you. I ask Gareth for the list.", "I ask Gareth for the list."),
    ],
)
def test_what_a_person_says_to_do_next_is_told_without_thanks(says: str, step: str) -> None:
    recording = Recording().prompt("Find out why the harbour sells twice.").read("stock.ex").answer("It has no lock.")
    made = recording.prompt(says).draft()
    assert made.next_step is not None
    assert (made.next_step.text, made.open) == (step, ())  # which is not told twice


def test_a_list_after_the_last_work_tells_how_it_ended() -> None:
    done = "The batches of the sink are in `sink.go`. A ticker flushes the harbour for each berth."
    recording = Recording().prompt("Find out why the sink of the harbour is slow.").read("sink.go").answer(done)
    recording.prompt("stop, no deploy. where are we").answer(
        "I don't deploy.\n\nWhere we are:\n- batches of 4000 rows and a ticker each second\n"
        "- offsets are written only after a flush\n- the load test of the harbour has a lag of .9 s"
    )
    assert "offsets are written only after a flush" in texts(recording.draft().findings)


def test_an_explanation_is_no_result() -> None:
    recording = Recording().prompt("Find out why the berth does not build, and mend it.").edit("berth.c")
    recording.answer("`__berth_node` undefined means that no driver was built for the harbour.")
    assert "means that no driver" not in "".join(texts(recording.draft().changed))


def test_a_constraint_of_the_task_is_told_in_the_task_alone() -> None:
    recording = Recording().prompt("Renew the key of the harbour. Use the bench key, not production.").edit("key.py")
    made = recording.draft()
    assert made.task is not None
    assert "not production" in made.task.text
    assert made.decisions == ()


def test_a_heading_may_be_followed_by_a_note_in_brackets() -> None:
    recording = Recording().prompt("What does the new backup of the harbour need?").read("backup.yml")
    tonight = "**Tonight**\n- the cron line of the harbour node needs an owner"
    may = "**After May** (inspection)\n- the berth node of the harbour needs a disk"
    recording.answer(f"The backup of the harbour runs on the new node now.\n\n{tonight}\n\n{may}")
    assert [each.note for each in recording.draft().findings][-2:] == ["Tonight", "After May (inspection)"]


def test_long_sessions_stay_short() -> None:
    recording = Recording().prompt("Rework the whole billing pipeline.")
    for number in range(150):
        recording.edit(f"src/part{number % 50}/module_{number}.py")
        recording.bash(
            f"git commit -m 'x{number}'", f"[main {number:07x}] Rework the part number {number} of billing\n"
        )
        recording.answer(f"I added case number {number} to the billing pipeline and its many callers. " * 3)
    text = render_body(recording.draft())
    assert len(text) <= LONGEST_BODY + 200
    assert text.count("\n- ") <= MOST_BODY_LINES


def test_every_commit_of_a_command_is_told_with_its_hash() -> None:
    listed = "e41c2fa graph: label points of the harbour\nb7730d9 refresh: use a worker\n51aa9c3 older"
    recording = Recording().prompt("Refresh the harbour graph, then commit.").edit("graph.kt").edit("worker.kt")
    command = "git commit -qm 'refresh: use a worker' && git commit -qam 'graph: label points of the harbour'"
    recording.bash(f"{command} && git log --oneline -3", listed)
    body = render_body(recording.draft())
    assert "- commit b7730d9: refresh: use a worker (e4)\n- commit e41c2fa: graph: label points of the harbour" in body
    recording.bash(
        "git commit -q --amend --no-edit && git log --oneline -1", "0b2e6c07 graph: label points of the harbour"
    )
    assert "- commit 0b2e6c07: graph: label points of the harbour" in render_body(recording.draft())


def test_what_an_amended_commit_takes_up_is_committed() -> None:
    recording = Recording().prompt("Ignore the builds of the harbour.").edit("game.gd")
    recording.bash("git commit -qam 'Carry the frog'", "[main 1234567] Carry the frog\n 1 file")
    recording.bash("echo build/ >> .gitignore && git add .gitignore && git commit -q --amend --no-edit")
    assert recording.draft().uncommitted == ()


def test_a_file_written_after_a_change_of_folder_has_that_folder() -> None:
    recording = Recording().prompt("Find out where the fish of the harbour are.").bash("cd lib && sed -i s/a/b/ sum.R")
    assert texts(recording.draft().changed) == ["lib/sum.R"]
    recording = (
        Recording().prompt("Sum the fish of the harbour.").edit("fish.R").bash("cd /tmp/x && sed -i s/a/b/ ord.R")
    )
    assert texts(recording.draft().changed) == ["fish.R"]


def test_what_leads_to_a_list_is_no_label_of_its_items() -> None:
    items = "- Servers of the harbour keep three clocks\n- The tide table of the harbour was never read"
    recording = (
        Recording().prompt("Find out why the harbour is late.").read("tide.py").answer(f"I have found:\n{items}")
    )
    assert [each.note for each in recording.draft().findings] == ["", ""]


@pytest.mark.parametrize(
    ("says", "is_open"),
    [
        ("i'll tag 0.4.3 of the harbour myself tomorrow", True),
        ("the reboots that are left: leave that to me", True),
        ("Auf prod spiele ich das heute Abend selbst ein.", True),
        ("I will never let you tag the harbour", False),
        ("w8, I'll revert the harbour page", False),
    ],
)
def test_what_a_person_will_do_is_open(says: str, is_open: bool) -> None:
    recording = (
        Recording().prompt("Mend the harbour page.").edit("page.ts").answer("The page of the harbour is mended.")
    )
    made = recording.prompt(says).answer("Fine.").draft()
    assert (says in texts([*made.open, *filter(None, [made.next_step])])) == is_open


def test_what_was_announced_before_a_session_broke_off_is_next() -> None:
    recording = Recording().prompt("Count the retries of the harbour.").edit("retry.c").answer("3 of 3 pass.")
    recording.prompt("flash it").answer("Flashing the harbour release and counting retries.").bash("west flash", "ok")
    step = recording.draft().next_step
    assert step is not None
    assert step.text == "Flashing the harbour release and counting retries."


def test_uncommitted_files_are_told_where_somebody_speaks_of_commits() -> None:
    recording = Recording().prompt("Mend the harbour page.").edit("page.ts").answer("Mended. Nothing is committed.")
    assert [each.text.partition(",")[0] for each in recording.draft().uncommitted] == ["page.ts"]


said = st.text(max_size=200) | st.sampled_from(
    [
        "Use apsw, not sqlite3. **Bold** `a.b c...` text.\n- item one (e.g. this)\n\n```\ncode",
        "I'll use `x` instead of y because z fails. Next: run it. TODO: write tests.",
        "Error: boom\n1 failed\nTraceback (most recent call last)\nValueError: no",
        "diff --git a/x b/x\n+++ b/x\n+added line of text here\n",
        SUMMARY,
        "[REDACTED:email] closed created 2 tests pass",
    ]
)
events = st.lists(
    st.tuples(
        st.sampled_from(list(EventKind)),
        said,
        st.sampled_from(["", "Bash", "Edit", "Read"]),
        st.sampled_from(["", "src/a.py", "/x/y/z.ts", "\\\\host\\b"]),
        st.sampled_from([None, True, False]),
    ),
    max_size=12,
)


@given(events)
@settings(max_examples=150, deadline=None)
def test_every_statement_stands_in_its_event(rows: list[tuple[EventKind, str, str, str, bool | None]]) -> None:
    recorded = [
        RecordedEvent(
            session="s",
            number=number,
            kind=kind,
            tool=tool if kind == EventKind.TOOL else "",
            call_id=f"c{number}",
            text=text,
            at=float(number),
            path=path if kind == EventKind.TOOL else "",
            failed=failed,
        )
        for number, (kind, text, tool, path, failed) in enumerate(rows, 1)
    ]
    made = build_draft(Session(id="s"), recorded, ())
    assert made == build_draft(Session(id="s"), recorded, ())
    assert all(contains_text(recorded[each.event - 1], each.text) for each in statements(made))
    assert all(each.text.strip() for each in statements(made))
    assert len(made.title) <= 90
    assert "TBD" not in render_body(made)


def test_the_time_of_a_draft_grows_with_its_events_and_not_with_their_square() -> None:
    def measure(rounds: int) -> float:
        recording = Recording().prompt("Rework the whole billing pipeline.")
        for number in range(rounds):
            recording.edit(f"src/module_{number}.py")
            recording.bash("uv run pytest", f"{number} passed\n" + "some line of output\n" * 100)
            recording.answer(f"I moved case {number} to the writer instead of the reader. It still needs a test. " * 5)
        taken = []
        for _ in range(3):
            began = time.process_time()
            recording.draft()
            taken.append(time.process_time() - began)
        return min(taken)

    assert measure(100) < 12 * measure(20)


def test_unfinished_tasks_of_the_last_list_stay_open() -> None:
    recording = Recording().prompt("Write the parser of the log format and tell the readers.")
    recording.dialog("task list", "[in_progress] Write the parser", "[pending] Write its tests")
    recording.dialog(
        "task list", "[completed] Write the parser", "[in_progress] Write its tests", "[pending] Tell the readers"
    )
    assert [(each.text, each.event) for each in recording.draft().open] == [
        ("Write its tests", 3),
        ("Tell the readers", 3),
    ]


def test_a_list_of_tasks_of_which_none_was_done_stays_open() -> None:
    recording = (
        Recording().prompt("Upgrade the shop.").dialog("task list", "[pending] Run specs", "[pending] Fix enums")
    )
    for request in ("Use ruff instead", "Bump devise", "Describe the harbour"):
        recording.prompt(request).edit("README.md").answer("That is done.")
    assert texts(recording.draft().open) == ["Run specs", "Fix enums"]


def test_what_limits_a_later_request_is_told_with_it() -> None:
    recording = Recording().prompt("Extend the exporter.").edit("a.py").answer("Done. The old dumps are still there.")
    says = "Test the restore on berth 904. Berth 901 is taken by the school until the end of the month."
    recording.prompt(says).edit("restore.py").answer("The restore works.")
    assert texts(recording.draft().requests) == [says]


def test_thanks_are_no_next_step() -> None:
    recording = Recording().prompt("Rename the harbour queue.").edit("queue.py").answer("The queue is renamed.")
    assert recording.prompt("perfect thx").draft().next_step is None
    assert recording.prompt("👍 thx thats it for today").draft().next_step is None
    assert recording.prompt("thx, tomorrow").draft().next_step is None
    assert recording.prompt("merci, à demain").draft().next_step is None
    assert recording.prompt("perfect, now rename the harbour topic").draft().next_step
    assert recording.answer("Renamed.").prompt("Exactly so. My train leaves, see you!").draft().next_step is None
    assert recording.prompt("push the queue, i have to go").draft().next_step


@pytest.mark.parametrize(
    "said",
    [
        "ok then leave it, remind me after the image bump",
        "I want to talk to Karim about the tide index.",
        "I would love that, but not yet: our lawyer has to write the text first.",
        "The chart on paper, and the one for divers. Not now, both.",
        "la démo devant le comité c'est le 9 décembre, d'ici là faut que --since marche",
        "the tide export has to work for the demo on 9 December",
        "the berth committee wants the tides by Friday",
        "bis Mittwoch brauchen die Segler den Hafenplan",
        "the skipper needs the harbour chart by wed evening",
        "harbour chart tomorrow",
        "den Hafenplan mache ich morgen",
    ],
)
def test_what_a_person_puts_off_is_open(said: str) -> None:
    recording = Recording().prompt("Scan the images of the harbour.").edit("a.py").answer("Scanned.").prompt(said)
    made = recording.answer("Sure.").draft()
    assert texts([*made.open, *filter(None, [made.next_step])]) == [said]


def test_words_that_only_join_others_are_no_phrases_in_german_either() -> None:
    asked = "Bitte baue eine Suche über die Namen der Kunden ein, egal ob mit oder ohne Umlaute."
    made = Recording().prompt(asked).edit("suche.py").answer("Die Suche findet die Namen ohne Umlaute.").draft()
    words = {word for each in made.trigger_phrases for word in each.split()}
    assert "suche" in words
    assert not words & {"bitte", "eine", "über", "die", "der", "egal", "mit", "oder", "ohne"}


def test_the_mark_of_a_removed_secret_is_no_phrase() -> None:
    recording = Recording().prompt("Deploy the harbour API to staging, the key is [REDACTED:anthropic-key].")
    made = recording.edit("deploy.py").answer("Deployed the harbour API to staging.").draft()
    assert not any("anthropic" in each for each in (*made.trigger_phrases, *made.topics))


def test_a_short_session_has_more_than_one_phrase_and_its_open_point() -> None:
    recording = Recording().prompt("Make the tests pass and put the parsing of prices in one helper.").edit("cart.py")
    recording.bash("git commit -am 'Parse money in one place'", "[main 1a2b3c4] Parse money in one place")
    said = "Only the cart parses prices."
    left = "Left to do: use the helper when supplier prices are imported."
    made = recording.answer(f"{said} {left}").stop("").stop("").draft()
    assert len(made.trigger_phrases) >= 2
    assert texts(made.open) == [left]


def test_of_runs_of_the_same_selected_tests_the_last_counts() -> None:
    recording = Recording().prompt("Limit the rate of the API.").edit("api.py")
    recording.bash("pytest tests/api.py::test_limit", "1 failed, 3 passed in 0.1s", failed=True).edit(
        "api.py", "+ limit"
    )
    (run,) = recording.bash("pytest tests/api.py::test_limit", "1 passed in 0.1s").draft().tests
    assert run.note == "green, 1 passed in 0.1s"


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("vendor/bin/pest tests/Unit/VatTest.php", "vendor/bin/pest"),
        ("vendor/bin/pest --filter=Vat", 'sh -c "vendor/bin/phpstan analyse && vendor/bin/pest"'),
        ('./gradlew clean test --tests "*VatTest"', "./gradlew test --console=plain"),
    ],
)
def test_a_green_run_of_all_tests_settles_a_red_one_of_a_part(part: str, whole: str) -> None:
    recording = Recording().prompt("Round the tax of the harbour.").edit("vat.php")
    recording.bash(part, "1 failed, 1 passed", failed=True).edit("vat.php", "+round").bash(whole, "302 passed")
    assert [each.note for each in recording.draft().tests] == ["green, 302 passed"]


def test_a_whole_run_says_more_than_selections_of_it() -> None:
    recording = Recording().prompt("Fix the printer.").edit("src/latex.py")
    recording.bash("./bin/test tests/latex.py", "143 passed, 2 failed", failed=True)
    recording.bash("./bin/test tests/latex.py -k subs", "2 passed").bash(
        "./bin/test tests/latex.py -k sums", "1 passed"
    )
    assert [(each.event, each.note) for each in recording.draft().tests] == [
        (3, "red, 143 passed, 2 failed"),
        (5, "green, 1 passed"),
    ]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("`test_bad_url` failed, but it is unrelated to my change.", True),
        ("I broke the test of rank 0, which asserts the old length.", True),
        ("I should look at what failed.", False),
        ("That happens if the socket fails.", False),
        ("But it FAILS.", False),
        ("Why did it fail?", False),
    ],
)
def test_what_the_agent_says_of_a_failed_run_is_told_with_it(said: str, told: bool) -> None:
    recording = Recording().prompt("Fix the printer.").edit("src/latex.py").bash("pytest", "1 failed", failed=True)
    note = f"red, 1 failed; (e4) {said}" if told else "red, 1 failed"
    assert [each.note for each in recording.answer(f"Hm. {said}").draft().tests] == [note]


def test_a_turn_that_broke_off_is_still_to_do() -> None:
    recording = Recording().prompt("Fix the login.").edit("src/login.py").answer("I fixed the login.")
    recording.prompt("Careful, the diary folder is alive and well!").answer("Let me check the diary folder again.")
    made = recording.bash("ls diary", "blocked", failed=True).draft()
    assert made.next_step
    assert made.next_step.text == "Careful, the diary folder is alive and well!"


def test_the_items_of_a_list_are_told_however_alike() -> None:
    items = [f"`{name}Constraint`: `__init__`, `validate`, `__repr__`, `__eq__`" for name in ("Check", "Unique")]
    recording = Recording().prompt("Let constraints have a code.").edit("src/constraints.py")
    listed = "\n".join(f"- {each}" for each in items)
    assert texts(recording.answer(f"I updated:\n\n{listed}").draft().changed)[:2] == items


def test_a_task_set_by_itself_stays_open_until_it_is_done() -> None:
    recording = Recording().prompt("Write the parser of the log format and tell the readers.")
    recording.dialog("task #1", "[pending] Write the parser").dialog("task #2", "[pending] Tell the readers")
    recording.dialog("task #3", "[pending] Ask Bob").dialog("task #1", "[in_progress]").dialog("task #1", "[completed]")
    recording.dialog("task #3", "[deleted]").dialog("task #2", "[in_progress]").dialog("task #9", "[pending]")
    assert [(each.text, each.event) for each in recording.draft().open] == [("Tell the readers", 3)]
    recording.dialog("task #2", "[pending] Announce the format in the newsletter")
    assert texts(recording.draft().open) == ["Announce the format in the newsletter"]


def test_what_a_review_found_stays_open_until_it_is_mended() -> None:
    recording = Recording().prompt("Review the importer.").dialog("task list", "[pending] Tell the readers")
    recording.dialog("findings reported", "[open] io.py:9 A file is left open", "[open] io.py:30 The last row is lost")
    assert texts(recording.draft().open)[1:] == ["io.py:9 A file is left open", "io.py:30 The last row is lost"]
    recording.dialog("findings reported", "[fixed] io.py:9 A file is left open", "[open] io.py:30 The last row is lost")
    assert texts(recording.draft().open) == ["Tell the readers", "io.py:30 The last row is lost"]


def test_a_report_that_ends_in_a_question_is_the_task_where_no_prompt_wants_more() -> None:
    asked = "I can no longer commit the diary in Tower: pre-commit is not found. What is the cause?"
    recording = Recording().prompt(asked).answer("There are three options.")
    made = recording.prompt("I'm leaning towards option 2, but explain what options 2 and 3 would entail.").draft()
    assert made.task
    assert made.task.event == 1


# What is told, and what is not


def test_a_result_comes_from_a_turn_that_changed_something() -> None:
    recording = Recording().prompt("Add an upload limit to the server settings.")
    recording.edit("/home/ann/shop/src/upload.py").answer("I added the upload limit to the server.")
    recording.prompt("What did we do about the login before?").read("/home/ann/shop/src/login.py")
    recording.answer("I fixed the expired login check with a cookie last week.")
    assert texts(recording.draft().changed) == ["I added the upload limit to the server.", "src/upload.py"]


def test_what_was_taken_back_is_not_told() -> None:
    recording = Recording().prompt("Add an upload limit to the server.").edit("/home/ann/shop/src/upload.py")
    assert recording.bash("git checkout -- src/upload.py").draft().changed == ()
    recording.bash("git commit -am x", "[main 1a2b3c4] Add the limit").bash("git commit -am x", "[main 2a2b3c4] Log it")
    recording.bash("git commit --amend -m x", "[main 3a2b3c4] Log the upload")
    assert texts(recording.draft().changed) == ["Add the limit", "Log the upload"]
    recording.bash("git revert HEAD~1", '[main 4a2b3c4] Revert "Add the limit"')
    assert texts(recording.draft().changed) == ["Log the upload", 'Revert "Add the limit"']
    assert texts(recording.bash("git reset --hard HEAD~1").draft().changed) == ["Log the upload"]


@pytest.mark.parametrize(
    ("command", "answer", "files"),
    [
        ("git revert --no-edit HEAD~1", '[main 4a2b3c4] Revert "Add the limit"', ["log.py"]),
        ("git revert --no-edit HEAD | tail -1", " 1 file changed", ["limit.py"]),
        ("git revert --abort", "", ["limit.py", "log.py"]),
        ("git reset HEAD~1", "Unstaged changes after reset:", ["limit.py", "log.py"]),
    ],
)
def test_a_commit_that_was_undone_changed_nothing(command: str, answer: str, files: list[str]) -> None:
    recording = Recording().prompt("Add an upload limit.").edit("limit.py")
    recording.bash("git commit -am x", "[main 1a2b3c4] Add the limit").edit("log.py")
    recording.bash("git commit -am x", "[main 2a2b3c4] Log it").bash(command, answer)
    assert [*find_edits(recording.events, recording.items)] == files


def test_the_last_commit_stays_where_a_draft_is_too_long() -> None:
    commits = tuple(
        Statement(f"Refactor part {number} {'of the shop ' * 30}", number, commit="") for number in range(30)
    )
    draft = msgspec.structs.replace(Recording().prompt("Improve the shop.").draft(), changed=commits)
    body = render_body(draft)
    assert body.count("- commit: ") < 30
    assert "Refactor part 29 " in body


def test_a_commit_is_told_by_the_file_that_has_its_message() -> None:
    recording = Recording().prompt("Add an upload limit.").edit("/tmp/message", "+Add the limit +It is 3 MB.")
    recording.bash("git commit -q -F /tmp/message", "")
    assert [each.text for each in find_commits(recording.events)] == ["Add the limit"]


@pytest.mark.parametrize(
    ("said", "commits"),
    [
        ("ruff-format....................Failed\n- files were modified by this hook", []),
        ("[WARNING] Stashed changes conflicted with hook auto-fixes... Rolling back fixes...", []),
        ("On branch main\nnothing to commit, working tree clean", []),
        ("ruff.....................Passed\n... 9 more lines", ["Add the limit"]),
        ("ruff.....................Failed\n[main 1a2b3c4] Add the limit", ["Add the limit"]),
    ],
)
def test_a_commit_that_was_refused_is_not_told(said: str, commits: list[str]) -> None:
    recording = Recording().prompt("Add an upload limit to the server.")
    assert texts(recording.bash("git commit -m 'Add the limit'", said).draft().changed) == commits


def test_a_failure_carries_what_was_done_about_it() -> None:
    recording = login()
    recording.bash("make bundle", "error: no module named terser", failed=True)
    recording.bash("npm install terser", "added 1 package")
    recording.bash("make bundle", "bundled")
    (problem,) = [each for each in recording.draft().problems if "terser" in each.text]
    assert problem.note == "`make bundle` passed in e14 after: `npm install terser`"


def test_a_failure_that_was_there_before_is_no_failure_of_this_session() -> None:
    recording = Recording().prompt("Add an upload limit to the server.").edit("/home/ann/shop/src/upload.py")
    recording.bash("pytest tests", FAILED, failed=True)
    said = "The test test_expired fails even without my changes."
    assert texts(recording.answer(said).draft().open) == [said]


def test_a_request_that_nobody_answered_comes_next() -> None:
    recording = login().prompt("Now also refresh the session cookie of the login page.")
    step = recording.read("/home/ann/shop/src/cookie.py").draft().next_step
    assert step is not None
    assert step.text == "Now also refresh the session cookie of the login page."


def test_a_step_that_calls_follow_is_not_next() -> None:
    assert login().bash("uv run pytest tests/test_refresh.py", "4 passed").draft().next_step is None


def test_what_the_agent_asks_at_its_end_is_next_although_it_was_pushed_then() -> None:
    recording = login().answer("The cookie page is green. Shall the refresh of the session move into the worker?")
    step = recording.bash("git push origin main", "main -> main").draft().next_step
    assert step is not None
    assert step.text == "Shall the refresh of the session move into the worker?"


def test_files_never_push_out_what_was_committed() -> None:
    recording = Recording().prompt("Rename the shop modules.")
    for number in range(60):
        recording.edit(f"/home/ann/shop/part{number}/module_{number}_with_a_rather_long_name_for_a_file.py")
    for number in range(8):
        recording.bash(
            "git commit -am x", f"[main 0{number}23abc] feat: rename the shop module number {number}\n 1 file"
        )
    body = render_body(recording.draft())
    assert all(f"rename the shop module number {number}" in body for number in range(8))


def test_a_session_that_only_asked_leaves_nothing_to_keep() -> None:
    asked = Recording().prompt("How does the tide clock know the moon phase?").read("/home/ann/clock/moon.py")
    assert not asked.answer("It reads a table of lunar phases.").draft().is_worth_keeping
    assert login().draft().is_worth_keeping


def test_an_edit_that_was_refused_changed_nothing() -> None:
    recording = Recording().prompt("Fix the upload limit.").edit("src/upload.py", "+x\nError: no such text")
    assert recording.draft().changed == ()


@pytest.mark.parametrize(
    "said", ["All tests passed.", "The changes have been committed and pushed.", "CI is passing!", "Pushed to main."]
)
def test_what_is_done_anyway_is_no_result(said: str) -> None:
    recording = Recording().prompt("Fix the upload limit.").edit("src/upload.py").answer(said)
    assert said not in texts(recording.draft().changed)


@pytest.mark.parametrize(
    ("said", "repeats"),
    [
        ("All of it is committed and pushed.", True),
        ("The dump of the harbour is not committed, since it holds mails.", False),
        ("The lantern is mended. Committed. Expect the buoys on Monday.", False),
        ("The lantern is committed but not deployed.", False),
    ],
)
def test_what_says_more_than_that_a_commit_was_made_is_told(said: str, *, repeats: bool) -> None:
    commit = Statement("Paint the berths of the harbour", 3, commit="1a2b3c4")
    assert repeats_change([commit], Statement(said, 4)) is repeats


@pytest.mark.parametrize(
    "said",
    ["Prepare these for the release.", "Let's think about the release, where are we now?", "Add this to the list."],
)
def test_a_question_or_an_order_that_names_nothing_is_not_told_later(said: str) -> None:
    recording = Recording().prompt("Add paging to the order list.").answer("Ok.").prompt(said).answer("Ok.")
    assert said not in texts(recording.draft().requests)


def test_the_answer_before_the_last_tells_what_was_found_where_the_last_tells_nothing() -> None:
    recording = Recording().prompt("Find out which tables the exporter skips.").read("src/export.py")
    recording.answer("The exporter skips views and temporary tables.").answer("Let me know what you think.")
    assert texts(recording.draft().findings) == ["The exporter skips views and temporary tables."]


@pytest.mark.parametrize(
    ("commands", "told"),
    [
        ([("git commit -qm 'Print tides'", "", False)], ""),
        ([("git commit -m x", "[detached HEAD 1a2b3c4] Print tides", False)], ""),
        ([("git commit -m x", "[main (root-commit) 1a2b3c4] Print tides", False)], "- committed on `main` (e2)"),
        ([("git commit -m x && git push", "[fix/tides 1a2b3c4] Print tides", False)], "- pushed on `fix/tides` (e2)"),
        (
            [("git commit -m x", "[main 1a2b3c4] Print tides", False), ("git push", "rejected", True)],
            "- committed on `main` (e2)",
        ),
        (
            [("git push", "ok", False), ("git commit -m x", "[main 1a2b3c4] Print tides", False)],
            "- committed on `main` (e3)",
        ),
        (
            [("git commit -m x", "[main 1a2b3c4] Print tides", False), ("git push", "ok", False)],
            "- pushed on `main` (e3)",
        ),
        ([("git push", "ok", False)], ""),
    ],
)
def test_where_the_last_commit_is_and_that_it_was_pushed(commands: list[tuple[str, str, bool]], told: str) -> None:
    recording = Recording().prompt("Print the tide tables of the harbour.")
    for command, output, failed in commands:
        recording.bash(command, output, failed=failed)
    lines = render_body(recording.draft()).splitlines()
    assert [line for line in lines if "pushed" in line or "committed" in line] == [told] * bool(told)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (
            "### Offen\n- **Haus 17**: richtige Seriennummer\n- PDF-Bericht für den Vorstand",
            ["Haus 17: richtige Seriennummer", "PDF-Bericht für den Vorstand"],
        ),
        ("Pendiente:\n- **El informe**: falta el logotipo del puerto", ["El informe: falta el logotipo del puerto"]),
        ("**Works**\n- The berths are listed, pending ones too", []),
        ("**Reste à faire**\n- La traduction du courrier", ["La traduction du courrier"]),
        (
            "Die Ortszeit der Tabelle ist noch nicht umgestellt.",
            ["Die Ortszeit der Tabelle ist noch nicht umgestellt."],
        ),
        (
            "## State\n| Part | State |\n|---|:--|\n| Berth fees | done |\n| Night tariff | open, waits for Rolf |",
            ["Night tariff | open, waits for Rolf"],
        ),
    ],
)
def test_what_is_left_is_open_in_other_languages_and_in_tables(said: str, left: list[str]) -> None:
    recording = (
        Recording().prompt("Move the pipeline of the harbour.").edit("pipeline.yml").answer(f"It runs.\n\n{said}")
    )
    assert texts(recording.draft().open) == left


def test_a_row_of_a_table_is_an_item_below_the_heading_but_not_in_pasted_output() -> None:
    table = "## Runs\n\n| Run | Result |\n|---|---|\n| berths | 58 passed in 3 s |"
    recording = Recording().prompt(f"Why?\n{table}").answer(f"So it is.\n{table}")
    found = [(each.text, each.heading, each.is_item) for each in split_sentences(recording.events) if each.by == AGENT]
    assert found[-1] == ("berths | 58 passed in 3 s", "Runs", True)
    assert not [each for each in split_sentences(recording.events) if each.by == USER and "berths" in each.text]


def test_the_items_of_a_closing_list_of_what_is_left_are_open() -> None:
    said = (
        "The pipeline of the harbour runs.\n\n**Before merge**\n- [ ] Rolf reviews the trust policy\n\n"
        "**Waiting for somebody**\n- Petersen: does the berth fee belong on the invoice?\n\n**Numbers**\n- 4m12s"
    )
    recording = Recording().prompt("Move the pipeline of the harbour.").edit("pipeline.yml").answer(said)
    left = ["Rolf reviews the trust policy", "Petersen: does the berth fee belong on the invoice?"]
    assert texts(recording.draft().open) == left


def test_what_a_note_of_an_event_has_is_not_told_again() -> None:
    why = "`claim` of the harbour calls `update_reward`, which reverts below the old rate."
    until = "At the present rate of the harbour that takes 9.6 days."
    recording = Recording().prompt("Why does the harbour claim fail?").read("pool.sol").answer(f"{why}\n\n- {until}")
    body = render_body(recording.draft())
    assert body.count(until) == 1


def test_good_wishes_are_no_outcome() -> None:
    recording = (
        Recording().prompt("Mend the harbour page.").edit("page.ts").answer("The berths are mended in `page.ts`.")
    )
    body = render_body(recording.prompt("i deploy it").answer("Good luck with the harbour on Saturday!").draft())
    assert "Good luck" not in body


@pytest.mark.parametrize(
    ("says", "report", "step"),
    [
        (
            "tested on the tablet, both fine. merged. flag for the pier tmrw",
            "tested on the tablet, both fine. merged.",
            2,
        ),
        (
            "the harbourmaster ran it, 11 minutes. chart is live",
            "the harbourmaster ran it, 11 minutes. chart is live",
            0,
        ),
        (
            "good, told him. he pushed, I checked the diff and merged. bye",
            "he pushed, I checked the diff and merged.",
            0,
        ),
        ("need to run, the printer is stuck. dont commit yet", "", "dont commit yet"),
        ("not merging till the pilots return the sheet", "", "not merging till the pilots return the sheet"),
        (
            "3 days offline: 8640 expected, 8638 in db. ship it with 1.14",
            "3 days offline: 8640 expected, 8638 in db.",
            1,
        ),
        ("der Pegel läuft seit gestern im Keller. push mach ich morgen", "der Pegel läuft seit gestern im Keller.", 1),
        ("the chart still has the wrong berths", "", "the chart still has the wrong berths"),
        ("thanks, my head is empty now", "", 0),
    ],
)
def test_a_last_prompt_reports_up_to_what_it_plans(says: str, report: str, step: str | int) -> None:
    recording = Recording().prompt("Draw the harbour chart.").edit("chart.py").answer("The chart is drawn.")
    made = recording.prompt(says).draft()
    following = step if isinstance(step, str) else says.split(". ")[step] if step else ""
    told = [each.text for each in (*made.findings, made.next_step) if each and each.event == 4]
    assert told == [each for each in (report, following) if each]


def test_a_last_answer_to_a_question_is_told_with_it() -> None:
    recording = (
        Recording().prompt("Draw the chart.").edit("chart.py").answer("The chart is drawn. Is 12 the right berth?")
    )
    (told,) = recording.prompt("no, that berth has been closed since May").draft().decisions
    assert (told.event, told.note) == (4, "on (e3): The chart is drawn. Is 12 the right berth?")


def test_a_brief_session_tells_its_last_answers_whole() -> None:
    recording = Recording().prompt("The workers time out at 2. Why?").read("src/a.py")
    recording.answer("The pool has 5 connections and the backup takes 4 of them. Set pool_size to 20.")
    recording.prompt("Good, do it").edit("src/a.py").bash(
        "git commit -qam 'Raise the pool size'", "[main 1f2e3d4] Raise the pool size"
    )
    made = recording.answer("pool_size is 20 now.").draft()
    assert texts(made.findings) == [
        "The pool has 5 connections and the backup takes 4 of them.",
        "pool_size is 20 now.",
    ]
    assert [(each.text, each.note) for each in made.decisions] == [("Set pool_size to 20.", "agreed in e4")]


def test_a_request_that_a_decision_quotes_and_a_file_left_uncommitted_are_told_once() -> None:
    recording = (
        Recording().prompt("Draw the chart, then commit.").edit("src/chart.py").answer("Drawn. A border as well?")
    )
    made = (
        recording.prompt("no border, never. draw the berths in red instead")
        .edit("src/berths.py")
        .answer("Red.")
        .draft()
    )
    body = render_body(made)
    assert body.count("draw the berths in red") == 1
    assert body.partition("## Tests")[0].count("berths.py") == 1


def test_points_that_a_list_names_are_behind_what_else_is_open() -> None:
    needs = "What the harbour still needs:\n\n- the crane has to be drawn\n- a gauge for the tide of the night\n"
    recording = Recording().prompt("Extend the exporter.").dialog("task list", "[pending] Fix the enums")
    made = recording.edit("a.py").answer(f"The exporter writes one file for each table now.\n\n{needs}").draft()
    assert texts(made.open)[-1] == "Fix the enums"
    assert len(made.open) > 1


def test_what_a_person_reports_as_done_is_not_open() -> None:
    recording = Recording().prompt("Draw the harbour chart.").edit("chart.py").answer("Drawn.")
    recording.prompt("harbour chart tomorrow").answer("Sure.")
    assert (step := recording.draft().next_step)
    assert step.text == "harbour chart tomorrow"
    made = recording.prompt("the harbour chart is live since 2:10, zero errors").answer("Good.").draft()
    assert (made.open, made.next_step) == ((), None)
    assert "the harbour chart is live since 2:10, zero errors" in texts(made.findings)


def test_after_the_last_call_a_person_tells_how_it_went_in_any_words() -> None:
    recording = Recording().prompt("Draw the harbour chart.").edit("chart.py")
    recording.answer("Drawn.\n\nLeft to do:\n\n- the pilots have to swap their old charts\n- buoys are missing\n")
    assert texts(recording.draft().open) == ["the pilots have to swap their old charts", "buoys are missing"]
    made = recording.prompt("The pilots swapped all charts at noon, 28 of them. Harbour office told").draft()
    assert texts(made.open) == ["buoys are missing"]


def test_what_was_opened_on_a_forge_is_told() -> None:
    recording = Recording().prompt("Draw the harbour chart and open a request.").edit("chart.py")
    recording.bash("git push -q && gh pr create --fill | tail -1", "https://forge.example/harbour/chart/pull/612")
    recording.bash("gh pr view 600", "https://forge.example/harbour/chart/pull/600")
    body = render_body(recording.answer("It is up.").draft())
    assert "- opened https://forge.example/harbour/chart/pull/612 (e3)" in body
    assert "pull/600" not in body


@pytest.mark.parametrize(
    ("says", "is_told"),
    [
        ("Ops tried the chart in production, opens in 2 seconds", True),
        ("gonna have a bath, long day", False),
        ("Does the chart open on the tablet as well? I tried nothing", False),
    ],
)
def test_a_report_is_told_though_the_agent_answers_it(says: str, *, is_told: bool) -> None:
    recording = Recording().prompt("Draw the harbour chart.").edit("chart.py").answer("The chart is drawn.")
    made = (
        recording.prompt(says).answer("Good to hear. The buoys are a matter of their own, whenever you like.").draft()
    )
    assert (says in texts(made.findings)) == is_told


def test_what_comes_next_is_not_listed_as_open_once_more() -> None:
    recording = Recording().prompt("Draw the harbour chart.").edit("chart.py").answer("The chart is drawn.")
    made = recording.prompt("the tablet ran all weekend, 0 missing. kiln chart tomorrow").draft()
    assert texts(made.findings)[-1] == "the tablet ran all weekend, 0 missing."
    assert (made.next_step and made.next_step.text, made.open) == ("kiln chart tomorrow", ())


def test_who_asks_does_not_explain_a_failure() -> None:
    recording = Recording().prompt("Fix the login.").bash("pytest", FAILED, failed=True)
    recording.answer("Looking.").prompt("812? the deploy of the harbour takes for ever already. why?")
    recording.bash("pip install login", "Installed login")
    (told,) = recording.bash("pytest", "4 passed").answer("Fixed.").draft().problems or [None]
    assert told is None or "deploy of the harbour" not in told.note


@pytest.mark.parametrize(
    "says",
    [
        "the harbour chart is still not live, why?",
        "is the harbour chart live?",
        "nobody confirmed the harbour chart yet",
        "Add the harbour chart to the list.",
        "the captain likes the harbour chart",
    ],
)
def test_what_is_asked_or_still_missing_stays_open(says: str) -> None:
    recording = Recording().prompt("Draw the harbour chart.").edit("chart.py").answer("Drawn.")
    recording.prompt("harbour chart tomorrow").answer("Sure.").prompt(says)
    record = Record(recording.events, recording.items)
    assert not is_settled(record, Statement("harbour chart tomorrow", 4))


@pytest.mark.parametrize("path", ["src/login.py", "src\\login.py"])
def test_a_cure_is_told_whatever_the_path_looks_like(path: str) -> None:
    recording = Recording().prompt("Fix the login.").bash("pytest", FAILED, failed=True).edit(path)
    assert len(recording.bash("pytest", "4 passed").answer("Fixed.").draft().problems) == 1


def test_a_path_with_backslashes_is_the_same_file() -> None:
    recording = Recording().prompt("Export the tides and commit.").edit("tools\\export.py").edit("tools/export.py")
    recording.bash("git add tools && git commit -qm 'Export the tides'", "[main 1f2e3d4] Export the tides")
    made = recording.answer("Committed.").draft()
    assert made.uncommitted == ()
    assert texts(made.changed)[-1] == "tools/export.py"


@pytest.mark.parametrize(
    ("says", "is_kept"), [("Please do not edit files in src/vendored.", True), ("Hello there.", False)]
)
def test_a_rule_alone_is_worth_a_memory(says: str, *, is_kept: bool) -> None:
    assert Recording().prompt(says).answer("Understood.").draft().is_worth_keeping == is_kept


@pytest.mark.parametrize(
    ("says", "works", "is_done"),
    [
        ("Done, the harbour chart shows the sandbank now.", True, True),
        ("Done, the harbour chart shows the sandbank now.", False, False),
        ("The harbour chart could show the sandbank.", True, False),
        ("Done, the lock of the gate is oiled.", True, False),
    ],
)
def test_what_the_agent_did_after_it_was_left_is_not_open(says: str, *, works: bool, is_done: bool) -> None:
    recording = Recording().prompt("Draw the harbour chart.").edit("chart.py")
    recording.answer("Open: the harbour chart shows no sandbank.").prompt("please do that")
    recording = (recording.edit("chart.py") if works else recording).answer(says)
    record = Record(recording.events, recording.items)
    assert is_settled(record, Statement("Open: the harbour chart shows no sandbank.", 3)) is is_done
