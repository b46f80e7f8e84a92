"""What the output of a test runner or linter says: how it ended, which test failed, and where a fault is."""

from __future__ import annotations

import pytest
from tests.session.recording import Recording

from scrimshaw.ingest.extraction import default_rules, extract
from scrimshaw.ingest.tool_calls import ToolCall, describe_call
from scrimshaw.models import ItemKind
from scrimshaw.session.failures import find_runs

NODE = """✔ opens the till (0.8ms)
✖ adds two coins (1.2ms)
ℹ tests 2
ℹ suites 0
ℹ pass 1
ℹ fail {0}
ℹ cancelled 0
ℹ duration_ms 52.3

✖ failing tests:

test at test/till.test.js:5:1
✖ adds two coins (1.2ms)
  AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:

  3 !== 4
"""
NODE_TAP = """TAP version 13
ok 1 - opens the till
not ok 2 - adds two coins
  ---
  duration_ms: 1.2
  ...
# tests 2
# pass 1
# fail 1
"""
DOTNET = """  Failed Shop.Tests.TillTests.AddsTwoCoins [12 ms]
  Error Message:
   Assert.Equal() Failure: Values differ
Expected: 3
Actual:   4
  Stack Trace:
     at Shop.Tests.TillTests.AddsTwoCoins() in /shop/TillTests.cs:line 12

Failed!  - Failed:     1, Passed:     3, Skipped:     0, Total:     4, Duration: 32 ms - Shop.Tests.dll (net8.0)
"""
DOTNET_9 = """  Shop.Tests test failed with 1 error(s) (1.2s)
    /shop/TillTests.cs(12): error TESTERROR:
      Shop.Tests.TillTests.AddsTwoCoins (8ms): Error Message: Assert.Equal() Failure: Values differ

Test summary: total: 4, failed: 1, succeeded: 3, skipped: 0, duration: 1.2s
Build failed with 1 error(s) in 2.3s
"""
MAVEN = """[INFO] Running shop.TillTest
[ERROR] Tests run: 4, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.05 s <<< FAILURE! -- in shop.TillTest
[ERROR] shop.TillTest.addsTwoCoins -- Time elapsed: 0.01 s <<< FAILURE!
org.opentest4j.AssertionFailedError: expected: <3> but was: <4>
	at shop.TillTest.addsTwoCoins(TillTest.java:12)

[ERROR] Failures:
[ERROR]   TillTest.addsTwoCoins:12 expected: <3> but was: <4>
[INFO]
[ERROR] Tests run: 4, Failures: 1, Errors: 0, Skipped: 0
[INFO]
[INFO] BUILD FAILURE
[ERROR] Failed to execute goal org.apache.maven.plugins:maven-surefire-plugin:3.2.5:test (default-test) on project shop
"""
PHPUNIT = """PHPUnit 11.2.5 by Sebastian Bergmann and contributors.

..F.                                                                4 / 4 (100%)

There was 1 failure:

1) Shop\\TillTest::testAddsTwoCoins
Failed asserting that 4 matches expected 3.

/shop/tests/TillTest.php:12

FAILURES!
Tests: 4, Assertions: 7, Failures: 1.
"""
FLUTTER = """00:01 +0: loading /shop/test/till_test.dart
00:02 +3: Till opens
00:02 +3 -1: Till adds two coins [E]
  Expected: <3>
    Actual: <4>

  package:matcher                                     expect
  test/till_test.dart 12:5                            main.<fn>

00:02 +3 -1: Some tests failed.
"""
PNPM = """Scope: 2 of 3 workspace projects
packages/till test$ vitest run
packages/till test:  RUN  v1.6.0 /shop/packages/till
packages/till test:  ❯ src/till.test.ts  (4 tests | 1 failed) 8ms
packages/till test:    × Till > adds two coins 4ms
packages/till test:  FAIL  src/till.test.ts > Till > adds two coins
packages/till test: AssertionError: expected 4 to be 3 // Object.is equality
packages/till test:  Test Files  1 failed (1)
packages/till test:       Tests  1 failed | 3 passed (4)
packages/till test: Failed
/shop/packages/till:
 ERR_PNPM_RECURSIVE_RUN_FIRST_FAIL  till@1.0.0 test: `vitest run`
Exit status 1
"""
VITEST = """ ❯ src/till.test.ts (4 tests | 1 failed) 8ms
   × Till > adds two coins 4ms
     → expected 4 to be 3 // Object.is equality

 FAIL  src/till.test.ts > Till > adds two coins
AssertionError: expected 4 to be 3 // Object.is equality
 ❯ src/till.test.ts:8:15

 Test Files  1 failed (1)
      Tests  1 failed | 3 passed (4)
   Duration  350ms
"""
JEST = """FAIL src/till.test.js
  Till
    ✓ opens (2 ms)
    ✕ adds two coins (3 ms)

  ● Till › adds two coins

    expect(received).toBe(expected) // Object.is equality

    Expected: 3
    Received: 4

Test Suites: 1 failed, 1 total
Tests:       1 failed, 3 passed, 4 total
Time:        0.5 s
"""
MOCHA = """  Till
    ✔ opens
    1) adds two coins


  3 passing (12ms)
  1 failing

  1) Till
       adds two coins:

      AssertionError [ERR_ASSERTION]: 4 == 3
      + expected - actual
"""
PYTEST_V = """tests/test_till.py::test_opens PASSED                            [ 50%]
tests/test_till.py::test_adds_two_coins FAILED                   [100%]
=========== 1 failed, 1 passed in 0.02s ===========
"""


@pytest.mark.parametrize(
    ("command", "output", "tally", "error", "name"),
    [
        ("node --test", NODE.format(1), "fail 1", "AssertionError [ERR_ASSERTION]: Expected", "adds two coins"),
        ("node --test", NODE_TAP, "fail 1", "not ok 2 - adds two coins", "adds two coins"),
        ("dotnet test", DOTNET, "Failed!  - Failed:     1, Passed:     3", "Failed Shop.Tests", "AddsTwoCoins"),
        ("dotnet test", DOTNET_9, "Test summary: total: 4, failed: 1", "Shop.Tests.TillTests.AddsTwo", "AddsTwoCoins"),
        ("mvn -q test", MAVEN, "Tests run: 4, Failures: 1", "org.opentest4j.AssertionFailed", "addsTwoCoins"),
        (
            "vendor/bin/phpunit",
            PHPUNIT,
            "Tests: 4, Assertions: 7, Failures: 1.",
            "1) Shop\\TillTest",
            "testAddsTwoCoins",
        ),
        ("flutter test", FLUTTER, "+3 -1: Some tests failed.", "+3 -1: Till adds two coins", "Till adds two coins"),
        ("pnpm -r test", PNPM, "Tests  1 failed | 3 passed (4)", "× Till > adds two coins", "adds two coins"),
        ("npx vitest run", VITEST, "Tests  1 failed | 3 passed (4)", "AssertionError: expected", "adds two coins"),
        ("npx jest", JEST, "Tests:       1 failed, 3 passed", "✕ adds two coins", "adds two coins"),
        ("npx mocha", MOCHA, "1 failing", "AssertionError [ERR_ASSERTION]: 4 == 3", "adds two coins"),
        ("pytest -v", PYTEST_V, "1 failed, 1 passed", "tests/test_till.py::test_adds", "test_adds_two_coins"),
    ],
)
def test_a_red_run_is_told_with_its_tally_and_its_failed_test(
    command: str, output: str, tally: str, error: str, name: str
) -> None:
    recording = Recording().prompt("Add coins.").edit("till.py").bash(f"{command} 2>&1 | tail -50", output)
    (test,) = recording.draft().tests
    assert test.note.startswith("red, ")
    assert tally in test.note
    (run,) = find_runs(recording.events, recording.items)
    assert error in run.errors[0]
    assert any(each.endswith(name) for each in run.tests), run.tests
    call = ToolCall(tool="Bash", arguments={"command": command}, output=output)
    found = extract(describe_call(call), default_rules())
    assert found is not None
    rule, text = found
    assert rule.kind is ItemKind.ERROR
    assert tally.split(":")[0] in text
    assert name in text


@pytest.mark.parametrize(
    ("command", "output", "tally"),
    [
        ("node --test", NODE.format(0).partition("✖ failing")[0].replace("✖", "✔"), "pass 1"),
        ("node --test", "TAP version 13\nok 1 - opens\n# tests 1\n# pass 1\n# fail 0\n", "pass 1"),
        ("dotnet test", "Passed!  - Failed:     0, Passed:     4, Skipped:     0, Total:     4", "Passed:     4"),
        ("dotnet test", "Test summary: total: 4, failed: 0, succeeded: 4, skipped: 0, duration: 1s", "succeeded: 4"),
        ("mvn test", "[INFO] Tests run: 4, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS", "Tests run: 4"),
        ("vendor/bin/phpunit", "....   4 / 4 (100%)\n\nOK (4 tests, 7 assertions)", "OK (4 tests, 7 assertions)"),
        ("flutter test", "00:02 +3: Till adds two coins\n00:02 +4: All tests passed!", "+4: All tests passed!"),
        ("pnpm -r test", "packages/till test:       Tests  4 passed (4)\npackages/till test: Done", "4 passed (4)"),
        ("npx vitest run", " Test Files  1 passed (1)\n      Tests  4 passed (4)", "4 passed (4)"),
        ("npx jest", "Test Suites: 1 passed, 1 total\nTests:       4 passed, 4 total", "4 passed, 4 total"),
        ("npx mocha", "  Till\n    ✔ opens\n\n\n  4 passing (12ms)", "4 passing"),
        ("ceedling test:all", "TESTED:  14\nPASSED:  14\nFAILED:   0\nIGNORED: 0", "FAILED:   0"),
    ],
)
def test_a_green_run_is_told_with_its_tally(command: str, output: str, tally: str) -> None:
    recording = Recording().prompt("Add coins.").edit("till.py").bash(command, output)
    (test,) = recording.draft().tests
    assert test.note.startswith("green, ")
    assert tally in test.note
    call = ToolCall(tool="Bash", arguments={"command": command}, output=output)
    found = extract(describe_call(call), default_rules())
    assert found is not None
    rule, text = found
    assert rule.kind is ItemKind.RESULT
    assert tally.split(":")[0] in text


ESLINT = "/shop/src/till.js\n  3:7  warning  Odd name  camelcase\n  9:7  error  'limit' is never used  no-unused-vars\n"


@pytest.mark.parametrize(
    ("command", "output", "error"),
    [
        ("npx eslint src", f"{ESLINT}\n✖ 2 problems (1 error, 1 warning)\n", "9:7 error 'limit' is never used"),
        ("ruff check", "till.py:26:89: E501 Line too long (90 > 88)\nFound 1 error.", "till.py:26:89: E501 Line too"),
        ("mypy .", 'till.py:4: error: "Till" has no attribute "sum"\nFound 1 error in 1 file', "till.py:4: error:"),
        ("npx tsc", "src/till.ts(4,7): error TS2339: Property 'sum' does not exist", "src/till.ts(4,7): error TS2339"),
        ("/usr/bin/python3 -m pytest x.py", "/usr/bin/python3: No module named pytest", "No module named pytest"),
        ("git add a.css", "The following paths are ignored by one of your .gitignore files:", "are ignored by one of"),
    ],
)
def test_a_fault_is_told_by_its_line_and_not_by_the_tally(command: str, output: str, error: str) -> None:
    recording = Recording().bash(command, output, failed=True)
    (run,) = find_runs(recording.events, recording.items)
    assert error in run.errors[0]


@pytest.mark.parametrize(
    ("command", "output", "shown"),
    [
        (
            "godot --headless -s addons/gut/gut_cmdln.gd",
            "Tests   22\n  Passing   20\n  Failing    2",
            "red, Failing    2",
        ),
        ("./build/tests", "All tests passed (40 assertions in 12 test cases)", "green, All tests passed"),
        ("busted spec", "12 successes / 0 failures / 0 errors / 0 pending", "green, 12 successes"),
        ("swift test", "✘ Test run with 12 tests failed after 0.1 seconds with 1 issue.", "red, ✘ Test run"),
        ("xcodebuild test", "** TEST SUCCEEDED **", "green, ** TEST"),
        ("./gradlew test", "BUILD SUCCESSFUL in 3s", "green, BUILD"),
        ("ctest --test-dir build", "92% tests passed, 1 tests failed out of 12", "red, 92%"),
        ("zig build test", "All 12 tests passed.", "green, All 12"),
        ("Rscript -e 'devtools::test()'", "[ FAIL 1 | WARN 0 | SKIP 0 | PASS 11 ]", "red, [ FAIL 1"),
        ("prove -l t", "All tests successful.\nFiles=3, Tests=12\nResult: PASS", "green, Result: PASS"),
        ("sbt test", "[info] Tests: succeeded 12, failed 0, canceled 0", "green, [info] Tests"),
        ("ginkgo", "SUCCESS! -- 12 Passed | 0 Failed", "green, SUCCESS"),
        ("dbt test", "Done. PASS=11 WARN=0 ERROR=1 SKIP=0 TOTAL=12", "red, Done."),
    ],
)
def test_tallies_of_many_runners_are_told(command: str, output: str, shown: str) -> None:
    recording = Recording().prompt("Run the tests of the harbour.").bash(command, output)
    (run,) = recording.draft().tests
    assert (run.text, run.note[: len(shown)]) == (command, shown)


def test_a_failed_test_of_googletest_is_named() -> None:
    output = "[ RUN      ] Reader.Window\n[  FAILED  ] Reader.Window (11 ms)\n[  FAILED  ] 1 test, listed below:"
    recording = Recording().bash("ctest --test-dir build", output, failed=True)
    (run,) = find_runs(recording.events, recording.items)
    assert run.tests == ["Reader.Window"]
