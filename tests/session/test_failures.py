"""What was done about a failure: events written down by hand, and what drafts, states and fixes make of them."""

from __future__ import annotations

import pytest
from tests.session.recording import Recording

from scrimshaw.session.failures import Failure, find_edits, find_failures, find_runs

LIMIT = "E   KeyError: 'limit'\n1 failed"
PORT = "E   OSError: port 8443 in use\n1 failed"


def follow(recording: Recording) -> list[Failure]:
    events, items = recording.events, recording.items
    return [*find_failures(events, items, find_runs(events, items), find_edits(events, items))]


def problems(recording: Recording) -> list[tuple[str, str]]:
    return [(each.text, each.note) for each in recording.draft().problems]


@pytest.mark.parametrize(
    ("failing", "passing", "cure"),
    [
        ("pytest tests", "source .venv/bin/activate && pytest tests", "with `source .venv/bin/activate`"),
        ("git push", "git push --set-upstream origin main", "with `--set-upstream origin main`"),
        ("make serve", "PORT=8444 make serve", "with `PORT=8444`"),
        ('psql -c "create index a"', "PGOPTIONS='-c statement_timeout=0' psql -c \"create index a\"",
         "with `PGOPTIONS='-c statement_timeout=0'`"),
        ("pip install rich", "python -m venv .venv && .venv/bin/pip install rich", "with `python -m venv .venv`"),
        ("mix test", "cd app && mix deps.get && mix test", "with `mix deps.get`"),
    ],
)  # fmt: skip
def test_what_the_passing_run_had_more_is_the_cure(failing: str, passing: str, cure: str) -> None:
    (failure,) = follow(Recording().bash(failing, "error: refused", failed=True).bash(passing, "done"))
    assert failure.cure[0] == cure


@pytest.mark.parametrize(
    ("failing", "other"),
    [
        ('psql -c "create index a"', 'psql -c "drop index b"'),
        ("helm -n shop upgrade api ./chart", "helm -n shop list --pending"),
    ],
)
def test_the_same_program_with_another_task_is_another_command(failing: str, other: str) -> None:
    (failure,) = follow(Recording().bash(failing, "error: refused", failed=True).bash(other, "done"))
    assert (failure.following, failure.passed, [*failure.cure]) == (None, None, [])


def test_hosts_that_changed_are_no_failures() -> None:
    recap = "PLAY RECAP\napi-02 : ok=9 changed=2 failed=0\napi-03 : ok=9 changed=2 failed=0"
    assert not follow(Recording().bash("ansible-playbook site.yml", recap))


def test_a_variable_that_was_set_before_another_error_is_the_cure() -> None:
    tests = "go test ./tides -run TestQuiet"
    detail = "--- FAIL: TestQuiet (0.01s)\n    suite_test.go:41: fork/exec /usr/local/bin/etcd: no such file"
    recording = Recording().bash(tests, detail, failed=True)
    other = "--- FAIL: TestQuiet (9.62s)\n    tides_test.go:15: the tide was written 10 times"
    recording.bash(f"make etcd && export ASSETS=$(bin/etcd path) && {tests}", other, failed=True)
    first = follow(recording.edit("tides.go").bash(tests, "ok"))[0]
    assert (first.error[-12:], [*first.cure]) == ("no such file", ["with `export ASSETS=$(bin/etcd path)`"])


def test_a_count_of_no_failures_is_none() -> None:
    recording = Recording().bash("airflow dags backfill", "Backfill done. succeeded: 1 failed: 0")
    assert follow(recording) == []


def test_each_way_to_fail_has_the_cure_that_came_before_the_next_run() -> None:
    recording = Recording().bash("pytest tests", LIMIT, failed=True).edit("config.py", "+ limit = 3")
    recording.bash("pytest tests", PORT, failed=True).edit("serve.py", "+ port = 0").bash("pytest tests", "4 passed")
    first, second = follow(recording)
    assert (first.run.event.number, list(first.cure)) == (1, ["edited config.py: + limit = 3"])
    assert (second.run.event.number, list(second.cure)) == (3, ["edited serve.py: + port = 0"])
    assert first.passed is second.passed is recording.events[4]
    assert not first.is_open


@pytest.mark.parametrize("command", ["pytest", "pytest tests/"])
def test_a_run_of_all_tests_takes_a_failure_of_one_back(command: str) -> None:
    (failure,) = follow(
        Recording().bash("pytest tests/a.py", LIMIT, failed=True).edit("a.py").bash(command, "9 passed")
    )
    assert failure.passed


@pytest.mark.parametrize(
    ("failing", "passing", "is_answered"),
    [
        ("go test ./up -run Resume", "go test ./up -run Cap", False),
        ("go test ./up -run Resume", "go test ./up -run Resume", True),
        ("go test ./up -run Resume", "go test ./up", True),
        ("go test ./up -run Resume", "go test ./up -run 'Cap|ResumeSkips'", True),
        ("go test ./up", "go test ./up -run=TestResumeSkipsStored", True),
        ("go test ./up", "go test ./up -run Cap", False),
        ("cargo test -- up::resume", "cargo test -- up::cap", False),
        ("rspec spec/jobs/renew", "rspec spec/jobs/renew spec/loans", True),
        ("rspec spec/jobs/renew", "rspec spec/loans spec/jobs", True),
        ("rspec spec/jobs/renew", "rspec spec/loans spec/job", False),
        ("rspec spec/jobs spec/loans", "rspec spec/loans", False),
        ("rspec spec/jobs", "rspec spec/jobs/renew", False),
        ("rspec", "rspec spec/jobs spec/loans", False),
    ],
)
def test_a_run_of_other_tests_does_not_answer_a_failure(failing: str, passing: str, *, is_answered: bool) -> None:
    recording = Recording().bash(failing, "--- FAIL: TestResumeSkipsStored (0.00s)\n    a.go:5: want 0", failed=True)
    failure = follow(recording.edit("cap.go").bash(passing, "ok up 0.009s"))[0]
    assert bool(failure.passed) is is_answered


@pytest.mark.parametrize(
    ("command", "output", "error", "suspect"),
    [
        ("go test ./... && go run ./app take", "ok  \tpack\t0.380s\nindex is locked", "index is locked", "go run take"),
        ("date -u; go run ./app put", "Tue Nov 24 08:52:11\nput: NoMatch", "put: NoMatch", "go run put"),
        ("go test ./...", "ok  \tpack\t0.380s\ncoverage too low", "coverage too low", "go test"),
        ("go run ./app put", "put: NoMatch\nexit status 1", "put: NoMatch", "go run put"),
        ("go test ./... && go run ./app", "--- FAIL: TestCut (0.0s)\nFAIL", "--- FAIL: TestCut (0.0s)", "go test"),
    ],
)
def test_what_failed_is_the_step_that_ends_the_output(command: str, output: str, error: str, suspect: str) -> None:
    failure = follow(Recording().bash(command, output, failed=True))[0]
    assert (failure.error, failure.run.suspect) == (error, suspect)


def test_what_was_never_run_again_stays_open_until_anything_passes() -> None:
    recording = Recording().bash("make deploy", "error: no host", failed=True).bash("make lint", "bad", failed=True)
    assert [each.is_open for each in follow(recording)] == [True, True]
    assert [each.is_open for each in follow(recording.bash("ruff check", "ok"))] == [False, False]


def test_a_line_of_code_is_no_command_that_fails() -> None:
    assert follow(Recording().bash("python -c 'print(A)'", "NameError: name 'A'", failed=True)) == []


@pytest.mark.parametrize(
    ("changes", "cure"),
    [
        ({"config.py": "+ port = 1", "limits.py": "+ size = 3"}, ["edited limits.py: + size = 3"]),
        ({"config.py": "+ limits = 3", "serve.py": "+ port = 0"}, ["edited config.py: + limits = 3"]),
        ({"config.py": "+ port = 1", "serve.py": "+ size = 3"}, []),
        ({"serve.py": "+ port = 0"}, ["edited serve.py: + port = 0"]),
        ({"serve.py": "+ port = 0", "/tmp/try.py": "+ 1"}, []),
    ],
)
def test_of_several_changes_only_what_the_error_names_is_a_cure(changes: dict[str, str], cure: list[str]) -> None:
    recording = Recording().bash("pytest tests", "limits.py:3: in read\nE   KeyError: 'limits'\n1 failed", failed=True)
    for path, change in changes.items():
        recording.edit(path, change)
    assert list(follow(recording.bash("pytest tests", "4 passed"))[0].cure) == cure


def test_what_the_error_does_not_name_is_no_cure_where_the_next_run_failed_too() -> None:
    recording = Recording().bash("pytest tests", LIMIT, failed=True).edit("a.py", "+ x = 3")
    recording.bash("pytest tests", "E   SyntaxError: invalid syntax\n1 failed", failed=True).edit("b.py", "+ x = [3]")
    assert [list(each.cure) for each in follow(recording.bash("pytest tests", "4 passed"))] == [
        [],
        ["edited b.py: + x = [3]"],
    ]


def test_a_repair_of_the_sessions_own_edit_is_no_cure() -> None:
    recording = (
        Recording().edit("a.py", "+ import").bash("pytest tests", LIMIT, failed=True).edit("a.py", "+ limit = 3")
    )
    assert not follow(recording.bash("pytest tests", "4 passed"))[0].cure


def test_what_had_to_be_done_anew_before_the_pass_was_not_the_cure() -> None:
    recording = Recording().bash("make check", "ImportError: antlr is missing", failed=True).bash("pip install antlr")
    recording.bash("make check", "ValueError: version 3 expected", failed=True)
    assert [list(each.cure) for each in follow(recording.bash("pip install antlr==4.7").bash("make check"))] == [
        [],
        ["`pip install antlr==4.7`"],
    ]


SUM = "E   OSError: the till is shut\n"
NAMED = "FAILED tests/test_till.py::test_sum - {0}"
GONE = ["edited a.py: + x = 3"]


@pytest.mark.parametrize(
    ("output", "later", "cure"),
    [
        ("error: port 8443 is taken", "error: the queue is full", GONE),
        (SUM + NAMED, "E   KeyError: 'limit'\nFAILED tests/test_till.py::test_limit - KeyError", GONE),
        (f"{SUM}a.py:3: OSError\n{LIMIT}", LIMIT, GONE),  # the first of two errors is gone
        (f"{LIMIT}\na.py:3: KeyError\n{SUM}", LIMIT, GONE),  # and the second
        (SUM + NAMED, f"E   KeyError: 'limit'\n{NAMED}", []),  # the same test still fails
        (SUM, "ModuleNotFoundError: No module named 'yaml'", []),  # this one may hide the first
        (SUM, f"{LIMIT}\n[...]\nthe end", []),  # what was cut may report it
        (SUM, "1 failed", []),
    ],
)
def test_an_error_that_the_next_run_no_longer_reports_was_overcome(output: str, later: str, cure: list[str]) -> None:
    recording = Recording().bash("pytest tests", output, failed=True).edit("a.py", "+ x = 3")
    first, *_ = follow(recording.bash("pytest tests", later, failed=True))
    assert (first.run.event.number, list(first.cure)) == (1, cure)
    assert first.overcome is (recording.events[2] if cure else None)


def test_a_failure_that_came_back_is_told_once_with_what_helped_in_the_end() -> None:
    recording = Recording().bash("make serve", "error: port 8443 is taken", failed=True).edit("a.py", "+ x = 3")
    recording.bash("make serve", "error: the queue is full", failed=True).edit("b.py", "+ y = 3")
    recording.bash("make serve", "error: port 8444 is taken", failed=True).edit("c.py", "+ z = 3")
    assert [(each.error, [*each.cure]) for each in follow(recording.bash("make serve", "ok"))] == [
        ("error: the queue is full", ["edited b.py: + y = 3"]),
        ("error: port 8444 is taken", ["edited c.py: + z = 3"]),
    ]


@pytest.mark.parametrize(
    ("command", "is_overcome"),
    [("pytest -k test_sum", True), ("pytest tests/test_till.py::test_sum", True), ("pytest -k test_open", False)],
)
def test_a_run_of_the_failed_test_alone_shows_that_it_passes(command: str, is_overcome: bool) -> None:
    recording = Recording().bash("pytest", SUM + NAMED, failed=True).edit("a.py", "+ x = 3")
    assert bool(follow(recording.bash(command, "1 passed"))[0].overcome) == is_overcome


def test_a_cause_is_told_with_its_error_where_the_next_run_failed_in_another_way() -> None:
    recording = Recording().prompt("Fix the parser.").bash("pytest tests", LIMIT, failed=True)
    recording.answer(cause := "The root cause is a fixture without a limit.").edit("fixture.py", "+ x")
    recording.bash("pytest tests", "E   ImportError: no port\n1 failed", failed=True).edit("serve.py", "+ port = 0")
    (first, second) = problems(recording.bash("pytest tests", "4 passed"))
    assert first == ("E KeyError: 'limit'", f"`pytest tests` passed in e7 after: (e3) {cause}")
    assert cause not in second[1]


@pytest.mark.parametrize("line", ['E   File "/shop/test_a.py", line 2', "Error: ....sF.FFF [100%]"])
def test_a_line_that_says_nothing_of_the_error_is_not_quoted(line: str) -> None:
    assert follow(Recording().bash("pytest tests", f"{line}\n1 failed", failed=True))[0].error == "1 failed"


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ("error during build:\n[css] Cannot apply unknown class `bg-stone`", "error during build: [css] Cannot apply"),
        ("💥 maturin failed\n  Caused by: Both prefixes are set", "💥 maturin failed Caused by: Both prefixes are set"),
        (
            "FAILED  Feature\\TideTest\n  Cannot add a column (sqlite)\n\n1 failed",
            "FAILED Feature\\TideTest Cannot add",
        ),
        ("FAILED tests/test_a.py::test_x\nFAILED tests/test_a.py::test_y", "FAILED tests/test_a.py::test_x"),
    ],
)
def test_a_headline_is_told_with_the_message_below_it(output: str, error: str) -> None:
    first = follow(Recording().bash("npm run build", output, failed=True))[0].error
    assert first.startswith(error)
    assert first.count("FAILED") < 2


def test_a_change_that_was_taken_back_is_no_cure() -> None:
    recording = Recording().bash("pytest tests", LIMIT, failed=True).edit("src/a.py").bash("pytest tests", "4 passed")
    assert follow(recording)[0].cure
    assert not follow(recording.bash("git checkout src/a.py"))[0].cure


@pytest.mark.parametrize(("answer", "is_lasting"), [("M a.py\nD src/b.py", False), ("A src/b.py\nD src/b.py", True)])
def test_a_file_that_a_patch_deletes_is_no_change(answer: str, *, is_lasting: bool) -> None:
    recording = Recording().edit("src/b.py")
    recording.edit("src/b.py", f"*** Delete File: src/b.py\nSuccess. Updated the following files:\n{answer}")
    assert ("src/b.py" in find_edits(recording.events, recording.items)) == is_lasting


@pytest.mark.parametrize(
    ("command", "lasting"),
    [
        ("git checkout main", ["src/a.py", "b.py"]),
        ("git checkout -b b.py", ["src/a.py", "b.py"]),
        ("git stash", ["src/a.py", "b.py"]),
        ("git restore --staged b.py", ["src/a.py", "b.py"]),
        ("git reset HEAD b.py", ["src/a.py", "b.py"]),
        ("rm x.log && python b.py", ["src/a.py", "b.py"]),
        ("git checkout HEAD -- b.py && pytest src/a.py", ["src/a.py"]),
        ("git checkout src/a.py", ["b.py"]),
        ("git checkout -- src", ["b.py"]),
        ("git restore .", []),
        ("git reset --hard HEAD", []),
    ],
)
def test_a_change_is_taken_back_where_its_file_is(command: str, lasting: list[str]) -> None:
    recording = Recording().edit("src/a.py").edit("b.py").bash(command)
    assert [*find_edits(recording.events, recording.items)] == lasting


def test_what_was_committed_outlasts_a_reset() -> None:
    recording = Recording().edit("a.py").bash("git commit -am x", "[main 1a2b3c4] Add a").edit("a.py").edit("b.py")
    assert find_edits(recording.bash("git reset --hard").events, recording.items) == {"a.py": [1]}


def test_a_cure_that_nobody_saw_is_not_told() -> None:
    recording = Recording().prompt("Fix the parser.").bash("make lint", "error: no config", failed=True)
    assert problems(recording.bash("make lint", "ok")) == []


def test_edits_of_another_time_are_no_cure() -> None:
    recording = Recording().prompt("Fix the parser.").bash("make lint", "error: no config", failed=True).edit("a.py")
    for number in range(40):
        recording.read(f"b{number}.py")
    assert problems(recording.bash("make lint", "ok")) == []


def test_what_the_agent_said_between_a_failure_and_its_change_is_told() -> None:
    recording = Recording().prompt("Raise the version.").bash("pre-commit run --all-files", LIMIT, failed=True)
    recording.answer("It seems ruff doesn't support py313 yet. Let's keep it at py312:")
    recording.edit("pyproject.toml", '+ target-version = "py312"')
    ((said, _),) = problems(recording)
    assert said == "It seems ruff doesn't support py313 yet. Let's keep it at py312:"


def test_a_cause_and_its_command_are_told_although_no_call_failed_before() -> None:
    recording = (
        Recording().prompt("Build the app.").edit("src/app.ex").answer("Stale build artifacts. Let me force a compile.")
    )
    assert problems(recording.read("mix.exs").bash("mix compile --force", "ok")) == [
        ("Stale build artifacts. Let me force a compile.", "`mix compile --force`")
    ]


def test_a_thought_that_the_agent_doubts_is_no_cause() -> None:
    recording = Recording().prompt("Raise the version.").bash("pre-commit run --all-files", LIMIT, failed=True)
    recording.answer("The parser doesn't support py313. Let's keep it at py312. Wait, the parser is fine.")
    recording.edit("pyproject.toml", '+ target-version = "py312"')
    assert not problems(recording)


def test_a_cause_that_the_agent_named_stands_beside_the_cure() -> None:
    recording = Recording().prompt("Fix the parser.").bash("pytest tests", LIMIT, failed=True)
    recording.answer("The test fails because the fixture has no limit. I'll add the limit to the fixture.")
    recording.edit("fixture.py", "+ limit = 3").bash("pytest tests", "4 passed")
    ((error, note),) = problems(recording)
    assert error == "E KeyError: 'limit'"
    assert note.startswith("`pytest tests` passed in e5 after: (e3) The test fails because the fixture has no limit. ")
    assert note.endswith("edited fixture.py: + limit = 3")


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        ("The root cause is a fixture without a limit.", True),
        ("The import fails because the fixture has no limit.", True),
        ("The cause: the fixture has no limit for tenants.", True),
        ("Cause - the fixture has no limit for tenants.", True),
        ("The fixture is missing the limit. Let me fix the fixture.", False),
        ("The problem was caused by my fixture and its limit.", False),
        ("The issue is probably the limit of the fixture.", False),
        ("That happens because of it.", False),
        ("The issue is that the parser reads dates twice.", False),
    ],
)
def test_a_cause_is_told_where_it_says_more_than_the_task_and_something_was_changed(said: str, is_told: bool) -> None:
    recording = Recording().prompt("Fix the parser: the parser reads dates twice, which is an issue.").answer(said)
    assert problems(recording) == []
    assert problems(recording.edit("fixture.py")) == ([(said, "")] if is_told else [])


@pytest.mark.parametrize("announced", ["**Found the cause.**", "Found what the problem is."])
def test_a_cause_may_follow_the_sentence_that_announces_it(announced: str) -> None:
    recording = (
        Recording().prompt("Fix the parser of the tides.").answer(f"{announced} The fixture has no limit for it.")
    )
    assert problems(recording.edit("fixture.py")) == [("The fixture has no limit for it.", "")]


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("sed -i s/a/b/ src/a.py src/b.py && pytest", {"src/a.py", "src/b.py"}),
        ("cat > src/new.py && python src/new.py", {"src/new.py"}),
        ("git mv src/old.py src/lib/ && pytest", {"src/lib/old.py"}),
        ("mv src/old.py src/new.py; make", {"src/new.py"}),
        ("pytest 2>&1 | tail > /dev/null", set[str]()),
        ("mv build out", set[str]()),
    ],
)
def test_what_a_command_writes_beside_what_it_runs_is_a_change(command: str, files: set[str]) -> None:
    recording = Recording().bash(command, "ok")
    assert set(find_edits(recording.events, recording.items)) == files


def test_a_moved_file_keeps_its_edits_under_its_new_name() -> None:
    recording = Recording().edit("src/old.py").bash("git mv src/old.py src/new.py", "")
    assert find_edits(recording.events, recording.items) == {"src/new.py": [1, 2]}


def test_a_file_is_gone_although_another_one_could_not_be_removed() -> None:
    recording = Recording().edit("src/a.py").edit("notes.py")
    recording.bash("rm notes.py other.py", "rm: cannot remove 'other.py': No such file or directory", failed=True)
    assert set(find_edits(recording.events, recording.items)) == {"src/a.py"}


def test_a_file_that_was_removed_is_neither_a_change_nor_a_cure() -> None:
    recording = Recording().prompt("Fix the parser.").edit("src/try_parser.py").edit("src/parser.py").edit("out/a/b.py")
    recording.bash("rm -rf src/try_*.py out", "")
    assert [each.text for each in recording.draft().changed if each.text.endswith(".py")] == ["src/parser.py"]


def test_a_cause_that_was_named_much_later_and_acted_on_is_told_with_its_error() -> None:
    recording = Recording().prompt("Fix the parser.").bash("pytest tests", LIMIT, failed=True)
    for number in range(8):
        recording.read(f"b{number}.py")
    recording.answer("The root cause is a fixture without a limit.").edit("fixture.py", "+ limit = 3")
    ((_, told),) = problems(recording.bash("pytest tests", "4 passed"))
    cause = "(e11) The root cause is a fixture without a limit."
    assert told == f"`pytest tests` passed in e13 after: {cause}; edited fixture.py: + limit = 3"


def test_causes_are_told_beside_the_failures_that_were_overcome() -> None:
    recording = Recording().prompt("Fix the parser.")
    for number in range(4):
        recording.bash(f"make part{number}", f"error: part {number} is gone", failed=True)
        recording.edit(f"part{number}.py").bash(f"make part{number}", "ok")
    for number in range(4):
        recording.answer(f"The fixture {number} breaks because its limit is gone.").edit(f"fixture{number}.py")
    told = [text for text, _ in problems(recording)]
    assert told[:-1] == [f"error: part {number} is gone" for number in range(4)]
    assert told[-1].endswith("breaks because its limit is gone.")  # of four alike


@pytest.mark.parametrize(
    ("failing", "passing", "is_overcome"),
    [
        ("uv venv --path .venv", "uv venv .venv", True),
        ("uv venv --path .venv", "uv venv --help", False),
        ("cd /shop && pytest", "cd /shop && . .venv/bin/activate && pytest", True),
        ("cd /shop && pytest", "cd /till && . .venv/bin/activate && pytest", False),
        ("pytest tests/a.py", "PYTHONPATH=src poetry run pytest tests/a.py", False),
        ("pytest tests/a.py", "poetry run pytest tests/a.py", True),
        ("pytest tests/a.py", "env PYTHONPATH=src pytest tests/a.py", True),
    ],
)
def test_the_same_command_in_another_environment_passed_but_no_look_and_no_other_project(
    failing: str, passing: str, is_overcome: bool
) -> None:
    (failure,) = follow(Recording().bash(failing, LIMIT, failed=True).bash(passing, "4 passed"))
    assert bool(failure.passed) == is_overcome


@pytest.mark.parametrize(
    "command",
    [
        "ruff check . && pytest -q",
        "cargo build; cargo test",
        "timeout 60 pytest -q",
        "docker compose exec web pytest -q",
        "python -c 'import harbour; harbour.test()'",
        "mvn -q verify",
        "cd berths && ./gradlew check",
    ],
)
def test_tests_are_seen_behind_other_steps_and_wrappers(command: str) -> None:
    recording = Recording().bash("pytest -q", "21 passed in 1.0s").edit("a.py")
    recording.bash(command, "1 failed, 20 passed in 1.1s", failed=True)
    assert [(each.event, each.note) for each in recording.draft().tests][-1] == (3, "red, 1 failed, 20 passed in 1.1s")


@pytest.mark.parametrize(
    ("output", "failed", "told"),
    [
        ("test result: ok. 14 passed; 0 failed\n\ntest result: ok. 0 passed; 0 failed", False, "14 passed"),
        ("  1 failed\n  2 passed (3.1s)", True, "red, 1 failed"),
        ("ok  \ta\t0.1s\n--- FAIL: TestX (0.00s)\nFAIL\tb\nok  \tc\t0.1s", True, "red, --- FAIL: TestX"),
    ],
)
def test_the_tally_that_says_most_is_told(output: str, failed: bool, told: str) -> None:
    (run,) = Recording().bash("make test", output, failed=failed).draft().tests
    assert told in run.note


def test_a_quoted_semicolon_ends_no_step() -> None:
    recording = Recording().prompt("Split the settings.").edit("settings.py")
    recording.bash("python -c 'import settings; print(settings.DEBUG)'", "AttributeError: no DEBUG", failed=True)
    assert [each.note for each in recording.draft().open] == []


@pytest.mark.parametrize(
    ("failing", "passing", "is_overcome"),
    [
        ("ruff check .; cargo +1.74 check", "cargo +1.74 check", True),
        ("ruff check .; cargo +1.74 check", "ruff check .", False),
        ("make wheel && pytest -q", "make wheel", True),
        ("helm --kube-context staging -n loki upgrade loki ./chart", "helm -n loki upgrade loki ./chart", True),
        ("helm --kube-context staging -n loki upgrade loki ./chart", "helm -n loki history loki", False),
    ],
)
def test_the_step_that_failed_has_to_run_again(failing: str, passing: str, is_overcome: bool) -> None:
    (failure,) = follow(Recording().bash(failing, "error: refused", failed=True).edit("a.py").bash(passing, "done"))
    assert bool(failure.overcome) == is_overcome


def test_tests_that_ran_show_that_the_steps_before_them_passed() -> None:
    recording = Recording().bash("make wheel && pytest -q", "error: two environments are set", failed=True)
    run = "unset CONDA_PREFIX; make wheel && pytest -q"
    recording.bash(run, "FAILED test_a.py::test_b - TypeError: unexpected keyword argument 'x'\n1 failed", failed=True)
    failure = follow(recording)[0]
    assert failure.overcome == recording.events[1]
    assert [*failure.cure] == ["with `unset CONDA_PREFIX`"]


def test_an_error_that_gave_way_is_told_with_what_was_said_of_it() -> None:
    recording = Recording().prompt("Import the stock.").edit("stock.py", "+ read = 1")
    recording.bash("make stock", "error: 80000 parameters, at most 65535 are allowed", failed=True)
    recording.answer(why := "A statement takes 65535 parameters, so `CHUNK` has to be smaller.").edit("stock.py")
    recording.bash("make stock", "error: the queue is full", failed=True)
    assert problems(recording) == [
        ("error: 80000 parameters, at most 65535 are allowed", f"`make stock` got further in e6 after: (e4) {why}")
    ]


@pytest.mark.parametrize(("prompt", "is_told"), [("fix it, then commit all of it", True), ("fix it", False)])
def test_files_are_uncommitted_where_a_commit_was_asked_for(prompt: str, is_told: bool) -> None:
    assert bool(Recording().prompt(prompt).edit("src/board.py").draft().uncommitted) == is_told


def test_tests_that_run_at_last_have_got_further() -> None:
    recording = (
        Recording().prompt("Mend the gauge.").bash("cargo test", "error: can't find crate for `test`", failed=True)
    )
    recording.answer("The host needs a target.").bash(
        "cargo test --target x86_64", "test result: FAILED. 1 failed", failed=True
    )
    recording.edit("wake.rs").bash("cargo test --target x86_64", "test result: ok. 31 passed; 0 failed")
    first, _ = recording.draft().problems
    assert first.note.startswith("`cargo test` got further in e4 after: (e3) The host needs a target.")


def test_another_program_replaces_one_that_failed() -> None:
    recording = Recording().prompt("Print the chart.").bash("latexmk -cd paper/main.tex", "no siunitx.sty", failed=True)
    recording.bash("tlmgr install siunitx", "tlmgr: frozen", failed=True)
    recording.bash("tectonic -X compile paper/main.tex", "Writing main.pdf")
    (problem,) = recording.draft().problems
    assert problem.note == ("`latexmk paper/main.tex` was replaced in e4: `tectonic -X compile paper/main.tex` instead")
    assert not recording.draft().open


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("git add src/a.py && git commit -m 'a'", "b.py"),
        ("git add src && git commit -m 'a'", "b.py"),
        ("git add -A && git commit -m 'a'", ""),
        ("git add src/a.py; git add . && git commit -m 'a'", ""),
        ("git add src/a.py && git commit -am 'a'", ""),
        ("git commit -m 'a'", ""),
    ],
)
def test_what_a_commit_leaves_out_is_not_committed(command: str, left: str) -> None:
    recording = Recording().prompt("Fix the tide and commit it.").edit("src/a.py").edit("b.py").edit("/tmp/try.py")
    uncommitted = recording.bash(command, "[main 1f2e3d4] a").draft().uncommitted
    assert [each.text.removesuffix(", unless by hand since then") for each in uncommitted] == [left] * bool(left)


def test_a_file_is_moved_to_its_new_name_and_not_to_a_redirection() -> None:
    recording = Recording().edit("V1.sql").bash("git mv V1.sql V2.sql 2>/dev/null || mv V1.sql V2.sql")
    assert [*find_edits(recording.events, recording.items)] == ["V2.sql"]


@pytest.mark.parametrize("path", ["/tmp/tide.py", "~/.zshrc"])
def test_a_file_in_no_repository_is_not_told_as_uncommitted(path: str) -> None:
    assert not Recording().prompt("Fix the tide and commit it.").edit(path).draft().uncommitted


@pytest.mark.parametrize(
    "look", ["pytest --co -q tests", "npx jest --listTests", "npx playwright show-trace trace.zip"]
)
def test_a_look_at_tests_is_no_run_of_them(look: str) -> None:
    recording = Recording().prompt("Add coins.").edit("till.py").bash("pytest tests", "9 passed in 1s")
    (test,) = recording.bash(look, "1 failed, 9 errors in 2s", failed=True).draft().tests
    assert test.text == "pytest tests"
