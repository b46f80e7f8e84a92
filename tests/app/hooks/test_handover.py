"""What one session or person found out, told to the next one and in a clone of the repository."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from tests.app.command_line import command_line
from tests.app.hooks.events import bash, context_of, report
from tests.git_folders import IDENTITY, run_git
from tests.samples import write_memory
from tests.scenarios.agent import Agent

from scrimshaw.config import load
from scrimshaw.engine import Engine, drafts, open_engine
from scrimshaw.engine.index import scan
from scrimshaw.session.fixes import find_fixes

ERROR = "AssertionError: assert 1004 == 1005"
FAILED = f"FAILED tests/test_parser.py::test_level - {ERROR}"
RED = f"{FAILED}\n1 failed, 1 passed in 0.14s"
TESTS = "python -m pytest -q tests"
SAID = "Fixed: levels are parsed with Decimal, a float truncated 1.005 m to 1004 mm."

LONGEST_START = 5.0  # seconds; a tenth of one is usual


def edit(project: Path, path: str, session: str) -> None:
    change = {"file_path": str(project / path), "old_string": "int(float(x))", "new_string": "int(Decimal(x))"}
    report(project, "PostToolUse", session, tool_use_id=path, tool_name="Edit", tool_input=change, tool_response="ok")


def fail(project: Path, session: str, call: str = "t1", error: str = RED) -> None:
    tool = {"tool_name": "Bash", "tool_input": {"command": TESTS}, "error": f"Exit code 1\n{error}"}
    report(project, "PostToolUseFailure", session, tool_use_id=call, **tool)


def leave_red(project: Path) -> None:
    """A session that ends with a red test, after a commit."""
    report(project, "UserPromptSubmit", "S1", prompt="Write the parser of the gauges")
    edit(project, "src/parser.py", "S1")
    fail(project, "S1")
    bash(project, "git add -A; git commit -qm 'Parse lines'", "", "c1")
    report(project, "Stop", "S1", last_assistant_message="The parser is written; test_level is red.")
    report(project, "SessionEnd", "S1", reason="exit")


def mend(project: Path, command: str = TESTS, session: str = "S2") -> None:
    """A session that edits the parser and runs tests that pass, then does something else."""
    report(project, "UserPromptSubmit", session, prompt="test_level is red: 1004 instead of 1005. Fix it please")
    edit(project, "src/parser.py", session)
    bash(project, "git diff --stat", " src/parser.py | 2 +-", "c0", session)
    bash(project, command, "2 passed in 0.13s", "t2", session)
    bash(project, "git commit -qam 'Parse levels with Decimal'", "", "c1", session)
    report(project, "Stop", session, last_assistant_message=SAID)
    report(project, "UserPromptSubmit", session, prompt="Now the duplicates of Helgoland: keep the last one")
    edit(project, "src/dedupe.py", session)
    report(project, "Stop", session, last_assistant_message="Of duplicate timestamps the last reading is kept.")
    report(project, "SessionEnd", session, reason="exit")


def test_an_error_that_a_later_session_mended_is_told_with_that_cure(
    engine: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_red(project)
    mend(project)
    (fix,) = find_fixes(engine.sessions, ERROR)
    assert (fix.origin, fix.helped, fix.done) == ("session:S1#e3", True, ("edited parser.py",))
    assert fix.passed == f"session:S2#e4 on {fix.date}"
    assert fix.said == SAID
    told = command_line(capsys)("fix", ERROR, "--project", str(project)).out
    assert f"gone in session:S2#e4 on {fix.date}" in told
    assert "commit" not in told
    (found,) = Agent(engine, "S9").call("memory_search", query=ERROR)["fixes"]
    assert found["passed"] == fix.passed


def test_an_edit_of_the_session_that_failed_can_be_the_cure(engine: Engine, project: Path) -> None:
    fail(project, "S1")
    edit(project, "src/gauge.py", "S1")
    edit(project, "src/other.py", "S2")
    bash(project, TESTS, "2 passed", "t2", "S2")
    (fix,) = find_fixes(engine.sessions, ERROR)
    assert fix.done == ("edited gauge.py", "edited other.py")


@pytest.mark.parametrize("command", ["python -m pytest -q tests/test_dedupe.py", "make docs", "git push"])
def test_what_another_session_ran_otherwise_is_no_cure(engine: Engine, project: Path, command: str) -> None:
    leave_red(project)
    mend(project, command)
    (fix,) = find_fixes(engine.sessions, ERROR)
    assert (fix.helped, fix.passed, fix.done) == (None, "", ())


def test_an_error_that_recurs_in_a_later_session_is_told_by_that_one(engine: Engine, project: Path) -> None:
    leave_red(project)
    fail(project, "S2", "t0")
    mend(project)
    (fix,) = find_fixes(engine.sessions, ERROR)
    assert fix.origin == "session:S2#e1"
    assert fix.passed == "#e5"


@pytest.mark.parametrize(("error", "origins"), [(RED, ["session:S2#e2"]), ("ImportError: tide", ["session:S1#e3"])])
def test_an_error_is_followed_past_a_session_that_left_its_tests_red(
    engine: Engine, project: Path, error: str, origins: list[str]
) -> None:
    leave_red(project)
    edit(project, "src/gauge.py", "S2")
    fail(project, "S2", error=error)
    mend(project, session="S3")
    found = find_fixes(engine.sessions, ERROR)
    assert [each.origin for each in found] == origins
    assert [each.passed for each in found] == [f"session:S3#e4 on {each.date}" for each in found]


def test_a_prompt_does_not_wait_for_sessions_after_the_one_that_met_its_error(engine: Engine, project: Path) -> None:
    leave_red(project)
    mend(project)
    (fix,) = find_fixes(engine.sessions, ERROR, among=["S1"])
    assert (fix.origin, fix.helped) == ("session:S1#e3", None)


def test_the_test_of_the_file_that_failed_is_as_good_as_all(engine: Engine, project: Path) -> None:
    leave_red(project)
    mend(project, "python -m pytest -q tests/test_parser.py")
    (fix,) = find_fixes(engine.sessions, ERROR)
    assert fix.helped


@pytest.fixture
def clone(engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of a repository in which a red test was left and mended later, without the journal."""
    run_git(project, "init", "-q", "-b", "main")
    (project / ".scrimshaw/.gitignore").write_text("*\n!memories/**\n!.gitignore\n!memories\n")
    leave_red(project)
    assert drafts.make_draft(engine, "S1").status == "accepted"
    (memory,) = (project / ".scrimshaw/memories/sessions").glob("*.md")
    memory.write_text(re.sub("(?m)^updated: .*$", "updated: 2026-01-02T09:00:00Z", memory.read_text()))
    mend(project)
    assert drafts.make_draft(engine, "S2").status == "accepted"
    run_git(project, "add", "-A")
    run_git(project, *IDENTITY, "commit", "-qm", "memory")
    folder = project.parent / "clone"
    run_git(project.parent, "clone", "-q", str(project), str(folder))
    assert not [*folder.glob("**/*.db")]
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    return folder


def open_clone(folder: Path) -> Engine:
    return open_engine(load(folder, home=folder.parent / "home", environment={"SCRIMSHAW_EMBEDDING_PROVIDER": "none"}))


def start(project: Path) -> str:
    return context_of(report(project, "SessionStart", "S9", source="startup"))


def test_in_a_clone_the_memories_tell_the_failure_and_its_cure(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second, first = sorted(
        (clone / ".scrimshaw/memories/sessions").glob("*.md"), key=lambda each: "parser" in each.name
    )
    (told,) = command_line(capsys)("fix", ERROR, "--json", "--project", str(clone)).json
    assert (told["error"], told["helped"]) == (FAILED, True)
    assert told["origin"] == f"sessions/{first.stem}"
    assert told["passed"].startswith(f"sessions/{second.stem} on ")
    assert "test_level is red: 1004 instead of 1005" in told["said"]
    engine = open_clone(clone)
    try:
        (fix,) = Agent(engine).call("memory_search", query=ERROR)["fixes"]
    finally:
        engine.close()
    assert fix["origin"] == told["origin"]


NOTES = {
    "2027-01-02T09:00:00Z": (
        "old",
        "## Learned\n\n- ModuleNotFoundError: No module named 'yaml' — `pytest` passed in e8 after: (e5) PyYAML was "
        "missing.; `pip install pyyaml` (e4)\n\n## Outcome\n\n- Done: the gaps are filled. Next: daily high and low "
        f"water in extremes.py. (e9)\n\n## Open\n\n- {FAILED} — `pytest` failed when last run (e9)\n",
    ),
    "2027-01-02T10:00:00Z": ("new", "## Outcome\n\n- extremes.py computes daily high and low water. (e5)\n"),
}


def arrive(project: Path, more: str = "") -> None:
    for updated, (name, body) in NOTES.items():
        origin = f"provenance: {{source: session, session: {name}, trust: tool}}\ntype: session\nupdated: {updated}\n"
        text = f"{body}{more if name == 'new' else ''}"
        write_memory(
            project / ".scrimshaw/memories", f"sessions/2027-01-02-{name}", text, f"title: Tide {name}\n{origin}"
        )


def test_a_learned_line_of_a_memory_is_a_fix(project: Path, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    arrive(project)
    (told,) = command_line(capsys)("fix", "No module named yaml", "--json", "--project", str(project)).json
    assert told["origin"] == told["passed"] == "sessions/2027-01-02-old"
    assert told["helped"]
    assert "`pip install pyyaml`" in told["said"]
    (told,) = command_line(capsys)("fix", ERROR, "--json", "--project", str(project)).json
    assert "helped" not in told
    assert told["said"].startswith("Tide old.")


@pytest.mark.parametrize(
    ("more", "is_open"),
    [
        ("", True),
        ("\n## Tests\n\n- python -m pytest -q tests — green, 2 passed in 0.1s (e4)\n", False),
        ("\n## Tests\n\n- pytest tests/test_dedupe.py — green, 2 passed in 0.1s (e4)\n", True),
        ("\n## Tests\n\n- python -m pytest -q tests — red, 1 failed in 0.1s (e4)\n", True),
        (f"\n## Learned\n\n- {FAILED} — `pytest` passed in e8 after: edited parser.py (e4)\n", False),
        (f"\n## Learned\n\n- {FAILED} — `pytest` got further in e9 after: edited parser.py (e4)\n", True),
        (f"\n## Learned\n\n- {FAILED} — `pytest` was replaced in e9: `tox` instead (e4)\n", True),
        (
            f"\n## Learned\n\n- {FAILED} — `pytest` passed in e8 after: edited parser.py (e4)\n"
            "\n## Open\n\n- ValueError: no gauge — `pytest` failed when last run (e9)\n",
            True,
        ),
    ],
)
def test_what_a_later_memory_saw_pass_is_not_open_in_a_first_start(
    engine: Engine, project: Path, more: str, is_open: bool
) -> None:
    arrive(project, more)
    told = start(project)
    assert (f"open before (same, trust tool): {FAILED}" in told) == is_open
    assert "the gaps are filled" in told
    assert "Next: daily high" not in told


def test_a_long_line_of_a_memory_does_not_hold_up_a_start(engine: Engine, project: Path) -> None:
    arrive(project, f"\n## Learned\n\n- {'x — `y` passed in e1' * 1600}\n")
    begin = time.monotonic()
    assert FAILED in start(project)
    assert time.monotonic() - begin < LONGEST_START


def test_a_failure_left_here_that_passed_elsewhere_is_not_open(engine: Engine, project: Path) -> None:
    leave_red(project)
    assert FAILED in start(project)
    arrive(project, "\n## Tests\n\n- pytest -q tests — green, 2 passed in 0.1s (e4)\n")
    assert FAILED not in start(project)
    scan(engine)
    fixes = find_fixes(engine.sessions, ERROR, index=engine.index)
    assert {each.origin for each in fixes} == {"session:S1#e3", "sessions/2027-01-02-old"}
    assert {each.passed for each in fixes} == {"sessions/2027-01-02-new on 2027-01-02"}


def test_a_clone_resumes_as_it_starts(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = command_line(capsys)("resume", "--json", "--project", str(clone)).json
    engine = open_clone(clone)
    try:
        found = Agent(engine).call("memory_context", query="where were we?", mode="resume")["state"]
    finally:
        engine.close()
    told = start(clone)
    assert shown["session"] is None
    assert shown["lines"]
    assert all(each["text"] in told for each in shown["lines"])
    assert found[0]["text"] == shown["lines"][0]["text"]
    assert FAILED not in told


def test_without_any_session_there_is_none_to_resume(
    engine: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = command_line(capsys)("resume", "--json", "--project", str(project))
    assert (done.code, done.error["code"]) == (1, "not_found")
