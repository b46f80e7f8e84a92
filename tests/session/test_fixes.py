"""What was done about an error: recorded by hooks, told by the command and by a search."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.command_line import command_line
from tests.app.hooks.events import bash, context_of, report
from tests.scenarios.agent import Agent

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.session.fixes import MOST_CALLS, find_fixes

MISSING = "ModuleNotFoundError: No module named 'yaml'"


def fail(project: Path, command: str, error: str, call_id: str, session: str = "S1") -> None:
    tool = {"tool_name": "Bash", "tool_input": {"command": command}, "error": f"Exit code 1\n{error}"}
    report(project, "PostToolUseFailure", session, tool_use_id=call_id, **tool)


@pytest.fixture
def met(engine: Engine, project: Path) -> Engine:
    """A session that overcame an error by another command, one that overcame one by a variable, one that gave up."""
    fail(project, "pytest tests", f"/tmp/a1/x.py:3: in main\n{MISSING}", "t1")
    bash(project, "ls", "x.py", "t2")
    bash(project, "pip install pyyaml", "Successfully installed pyyaml-6", "t3")
    bash(project, "pytest tests -q", "4 passed", "t4")
    fail(project, "make serve", "Error: address in use by another server", "t1", "S2")
    bash(project, "PORT=8444 make serve", "listening", "t2", "S2")
    fail(project, "cargo run", "error[E0382]: borrow of moved value: `till`", "t1", "S3")
    return engine


def test_a_cure_by_another_command_is_told_with_its_place(met: Engine) -> None:
    (fix,) = find_fixes(met.sessions, "E   ModuleNotFoundError: No module named 'yaml'")
    assert (fix.origin, fix.error, fix.command) == ("session:S1#e1", MISSING, "pytest tests")
    assert (fix.done, fix.helped, fix.passed) == (("`pip install pyyaml`",), True, "#e4")
    assert len(fix.date) == len("2026-01-31")


def test_a_cure_by_a_variable_is_told(met: Engine) -> None:
    (fix,) = find_fixes(met.sessions, "Error: address in use by another server")
    assert (fix.done, fix.helped) == (("with `PORT=8444`",), True)


def test_a_failure_that_was_left_is_told_as_that(met: Engine) -> None:
    (fix,) = find_fixes(met.sessions, "error[E0382]: borrow of moved value: `drawer`")
    assert (fix.done, fix.helped, fix.passed) == ((), None, "")


def test_an_old_error_is_found_among_newer_calls_that_share_its_words(met: Engine, project: Path) -> None:
    for number in range(MOST_CALLS):
        fail(project, f"walk {number}", f"Error: no module of the harbour {number}", f"w{number}", "S5")
    fix, *_ = find_fixes(met.sessions, "no module named 'yaml'")
    assert fix.error == MISSING


def test_a_word_with_a_hyphen_is_one_and_no_line_for_information_is_the_error(engine: Engine, project: Path) -> None:
    fail(project, "git commit -m x", "`pre-commit` not found.  Did you forget to activate your virtualenv?", "t1")
    bash(project, "source .venv/bin/activate && git commit -m x", "[main 1a2b3c4] x", "t2")
    for number in range(MOST_CALLS):
        lines = f"[INFO] Stashing to /home/.cache/pre-commit/patch{number}.\nruff: 1 fault, none fixed, commit refused"
        fail(project, f"git commit -m {number}", lines, f"c{number}", "S2")
    (fix,) = find_fixes(engine.sessions, "pre-commit not found")
    assert fix.error.startswith("`pre-commit` not found.")
    assert find_fixes(engine.sessions, "Error: commit not found") == []


def test_an_error_is_found_in_a_line_that_a_terminal_broke(engine: Engine, project: Path) -> None:
    fail(project, "git push", f"error: {'the harbour master waits for the tide ' * 2}and\nrefuses the upload", "t1")
    (fix,) = find_fixes(engine.sessions, "error: the tide refuses the upload")
    assert fix.command == "git push"


def test_where_no_cure_is_certain_it_says_what_was_said_and_done(engine: Engine, project: Path) -> None:
    fail(project, "make deploy", "Error: the lock of the harbour is held by 4711", "t1")
    said = "The old deployment of the harbour still holds its lock."
    report(project, "Stop", "S1", last_assistant_message=said)
    bash(project, "make unlock", "ok", "t2")
    bash(project, "make clean", "ok", "t3")
    bash(project, "make deploy", "deployed", "t4")
    (fix,) = find_fixes(engine.sessions, "Error: the lock of the harbour is held by 12")
    assert (fix.said, fix.done) == (said, ("`make unlock`", "`make clean`"))


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ("git submodule update --init --recursive", True),
        ("git lfs pull && git status", True),
        ("git clone https://example.org/harbour-tests vendor/harbour", True),
        ("make test-deps", True),
        ("git -C vendor status", False),
        ("git add -A; git commit -qm x", False),
        ("git log -3", False),
        ("make test", False),
    ],
)
def test_what_git_fetched_may_be_the_cure_and_what_it_recorded_is_none(
    engine: Engine, project: Path, command: str, is_told: bool
) -> None:
    fail(project, "make deploy", "Error: the lock of the harbour is held by 4711", "t1")
    for number, each in enumerate(["make unlock", "make clean", command, "make deploy"]):
        bash(project, each, "ok", f"c{number}")
    (fix,) = find_fixes(engine.sessions, "Error: the lock of the harbour is held by 12")
    assert (f"`{command}`" in fix.done) == is_told


def test_an_error_that_a_session_met_again_and_again_is_told_once(engine: Engine, project: Path) -> None:
    for number in range(3):
        fail(project, "make deploy", "Error: the lock of the harbour is held", f"t{number}")
        bash(project, "make deploy", "deployed", f"d{number}")
    assert len(find_fixes(engine.sessions, "Error: the lock of the harbour is held")) == 1


def test_an_error_that_gave_way_to_another_one_was_fixed(engine: Engine, project: Path) -> None:
    fail(project, "make deploy", "Error: the lock of the harbour is held by 4711", "t1")
    bash(project, "make unlock", "ok", "t2")
    fail(project, "make deploy", "Error: the tide is out", "t3")
    (fix,) = find_fixes(engine.sessions, "Error: the lock of the harbour is held by 12")
    assert (fix.done, fix.helped, fix.passed) == (("`make unlock`",), True, "#e3")


SHUT = "TypeError: the till of the harbour is undefined"


def edit(project: Path, call_id: str, session: str) -> None:
    change = {"file_path": "till.js", "old_string": "open(tide)", "new_string": "open(tide ?? null)"}
    report(
        project, "PostToolUse", session, tool_use_id=call_id, tool_name="Edit", tool_input=change, tool_response="ok"
    )


@pytest.mark.parametrize("how", ["prompt", "log", "docker"])
def test_an_error_that_a_person_pastes_or_a_log_shows_is_found(how: str, engine: Engine, project: Path) -> None:
    text = f"The page is blank:\n\nUncaught {SHUT}\n    at till.js:7"
    report(project, "UserPromptSubmit", "S1", prompt=text if how == "prompt" else "Why is the page blank?")
    if how != "prompt":
        bash(project, "tail -50 logs/web.log" if how == "log" else "docker logs web", text, "t0")
    edit(project, "t1", "S1")
    bash(project, "npm test", "3 passing", "t2")
    report(project, "Stop", "S1", last_assistant_message="The tide was missing at the first call of the till.")
    report(project, "UserPromptSubmit", "S1", prompt="Thanks, now the colours.")
    (fix,) = find_fixes(engine.sessions, SHUT)
    assert SHUT in fix.error
    assert (fix.command, fix.helped) == ("", True)
    assert fix.done == ("edited till.js",)
    assert fix.said == "The tide was missing at the first call of the till."


def test_a_report_without_tests_is_found_with_the_closing_answer(engine: Engine, project: Path) -> None:
    report(project, "UserPromptSubmit", "S1", prompt=SHUT)
    edit(project, "t1", "S1")
    report(project, "Stop", "S1", last_assistant_message="The till now waits for the tide of the harbour.")
    (fix,) = find_fixes(engine.sessions, SHUT)
    assert (fix.done, fix.helped, fix.passed) == (("edited till.js",), None, "")
    assert fix.said == "The till now waits for the tide of the harbour."
    assert "fixes" not in Agent(engine, "S2").call("memory_search", query=SHUT)


def test_of_an_error_that_is_reported_again_the_last_report_counts(engine: Engine, project: Path) -> None:
    for number in range(2):
        report(project, "UserPromptSubmit", "S1", prompt=f"Still there:\n{SHUT}" if number else SHUT)
        edit(project, f"t{number}", "S1")
        bash(project, "npm test", "3 passing", f"n{number}")
    (fix,) = find_fixes(engine.sessions, SHUT)
    assert fix.origin == "session:S1#e4"


def test_an_error_of_numbers_alone_is_found_by_them(engine: Engine, project: Path) -> None:
    fail(project, "pytest", "AssertionError: 0.30000000000000004 != 0.3", "t1")
    assert find_fixes(engine.sessions, "0.30000000000000004 != 0.3")


def test_an_error_that_nobody_met_has_no_fix(met: Engine) -> None:
    assert find_fixes(met.sessions, "KeyError: 'harbour'") == []
    assert find_fixes(met.sessions, "?") == []


def test_the_command_and_a_search_tell_it(met: Engine, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = command_line(capsys)
    (told,) = cli("fix", MISSING, "--json", "--project", str(project)).json
    assert "pip install pyyaml" in cli("fix", MISSING, "--project", str(project)).out
    assert told["done"] == ["`pip install pyyaml`"]
    (fix,) = Agent(met, "S4").call("memory_search", query=MISSING)["fixes"]
    assert fix["passed"] == "#e4"
    assert "fixes" not in Agent(met, "S4").call("memory_search", query="which modules are there?")


def test_a_prompt_that_quotes_an_error_is_told_what_helped_in_another_session(met: Engine, project: Path) -> None:
    asked = f"it is red again!! I thought we had that\n\n  File x.py, line 3\nNov 26 23:14:02 shop cron[81]: {MISSING}"
    scan(met)
    told = context_of(report(project, "UserPromptSubmit", "S5", prompt=asked))
    assert f"(session:S1#e1, trust tool): {MISSING} - `pip install pyyaml`" in told
    assert report(project, "UserPromptSubmit", "S1", prompt=asked) == ""
    assert report(project, "UserPromptSubmit", "S5", prompt="KeyError: 'harbour'") == ""
    assert report(project, "UserPromptSubmit", "S5", prompt="ModuleNotFoundError: 12 != 13") == ""
    assert report(project, "UserPromptSubmit", "S5", prompt="which error was it that yaml had?") == ""


def test_a_question_that_only_shares_words_with_an_output_is_told_no_fix(engine: Engine, project: Path) -> None:
    output = "Error: the hook left\nFix the harbour test\nCount walruses in the report"
    fail(project, "git commit -m harbour", output, "t1")
    bash(project, "git commit -m harbour", "done", "t2")
    asked = "Which harbour test of walruses failed in the report?"
    assert find_fixes(engine.sessions, asked) == []
    assert "fixes" not in Agent(engine, "S2").call("memory_search", query=asked)
    assert Agent(engine, "S2").call("memory_search", query="Error: the hook left")["fixes"]
