"""Which tool calls are kept, by which rule, and what of them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrimshaw.ingest.extraction import (
    LONGEST_SUMMARY,
    Rule,
    Summarizer,
    default_rules,
    extract,
    order_rules,
    summarize,
)
from scrimshaw.ingest.tool_calls import ToolCall, canonical_tool, describe_call
from scrimshaw.models import ItemKind

SOURCE = "\n".join(f"{number}\tdef step_{number}(): ..." for number in range(1, 81))
TRACEBACK = "Traceback (most recent call last):\n  File \"app.py\", line 3, in <module>\nKeyError: 'port'"
EDIT = {"file_path": "src/app.py", "old_string": "retries = 1", "new_string": "retries = 3"}


def bash(command: str, output: str = "", failed: bool | None = None) -> ToolCall:
    return ToolCall(tool="Bash", arguments={"command": command}, output=output, failed=failed)


def read(path: str, output: str = "text", **arguments: int) -> ToolCall:
    return ToolCall(tool="Read", arguments={"file_path": path, **arguments}, output=output)


KEPT = [
    (read("specs/001/spec.md", "# Goal"), "spec-read", 0.9, ItemKind.FILE, ["specs/001/spec.md", "# Goal"]),
    (bash("cat specs/001/spec.md", "# Goal"), "spec-read", 0.9, ItemKind.FILE, ["# Goal"]),
    (read("specs/001/plan.md", "# Steps"), "plan-read", 0.9, ItemKind.FILE, ["# Steps"]),
    (read("docs/adr/0007-cache.md", "# Cache"), "adr-read", 0.9, ItemKind.FILE, ["0007-cache.md"]),
    (read(".scrimshaw/memories/wal.md", "WAL."), "memory-read", 0.6, ItemKind.FILE, ["WAL."]),
    (read("README.md", "# App\n" * 9), "guide-read", 0.6, ItemKind.FILE, ["README.md", "# App"]),
    (
        bash("gh issue view 7", "Crash\nstate: open\nsteps"),
        "issue-read",
        0.9,
        ItemKind.FILE,
        ["gh issue view 7", "Crash"],
    ),
    (
        ToolCall(tool="Grep", arguments={"pattern": "timeout"}, output="app.log:9: ERROR: timeout"),
        "grep-error",
        0.8,
        ItemKind.ERROR,
        ["timeout", "app.log", "1 line in 1 file"],
    ),
    (bash("grep timeout app.log", "ERROR: timeout"), "grep-error", 0.8, ItemKind.ERROR, ["ERROR: timeout"]),
    (
        bash("git add . && git commit -m 'fix: port'", "[main 1a2b3c4] fix: port\n 1 file changed, 2 insertions(+)"),
        "commit",
        0.7,
        ItemKind.COMMIT,
        ["1a2b3c4", "fix: port", "1 file changed"],
    ),
    (bash("git commit -qm 'fix: port'"), "commit-quiet", 0.7, ItemKind.COMMIT, ["fix: port"]),
    (
        bash("git merge dev", "CONFLICT (content): Merge conflict in a.py\nAutomatic merge failed"),
        "git-conflict",
        0.8,
        ItemKind.ERROR,
        ["Merge conflict in a.py"],
    ),
    (
        bash("git push", "   f0b86dd..3114215  main -> main"),
        "git-moved",
        0.7,
        ItemKind.RESULT,
        ["f0b86dd..3114215"],
    ),
    (
        bash("pytest tests", "FAILED tests/a.py::test_x - boom\n== 1 failed, 2 passed in 1s =="),
        "test-failure-counted",
        0.8,
        ItemKind.ERROR,
        ["1 failed, 2 passed", "tests/a.py::test_x"],
    ),
    (bash("npm test", "Exit code 1\nboom"), "test-failure", 0.8, ItemKind.ERROR, ["npm test", "boom"]),
    (bash("cargo test", "test result: ok. 3 passed; 0 failed"), "test-pass", 0.5, ItemKind.RESULT, ["3 passed"]),
    (bash("mix test", "14 tests, 0 failures"), "test-pass", 0.5, ItemKind.RESULT, ["14 tests, 0 failures"]),
    (bash("go test ./...", "--- FAIL: TestX (0.0s)"), "test-failure-counted", 0.8, ItemKind.ERROR, ["TestX"]),
    (bash("python app.py", TRACEBACK), "exception", 0.8, ItemKind.ERROR, ["KeyError: 'port'"]),
    (bash("gcc a.c", "a.c:3:1: error: expected ';'"), "exception", 0.8, ItemKind.ERROR, ["expected ';'"]),
    (bash("terraform plan", "no credentials", True), "failed-command", 0.7, ItemKind.ERROR, ["no credentials"]),
    (bash("bd close x-1", "Closed x-1"), "issue-changed", 0.7, ItemKind.RESULT, ["bd close x-1"]),
    (bash("pip install rich", "Successfully installed rich-15"), "installed", 0.6, ItemKind.RESULT, ["rich-15"]),
    (bash("mypy src", "Success: no issues"), "linted", 0.5, ItemKind.RESULT, ["no issues"]),
    (bash("./bench.sh", "Decision: keep SQLite"), "decision-stated", 0.8, ItemKind.DECISION, ["keep SQLite"]),
    (bash("python3 reproduce.py", "344"), "script-run", 0.5, ItemKind.RESULT, ["reproduce.py", "344"]),
    (
        ToolCall(tool="Edit", arguments=EDIT, output="The file has been updated"),
        "edit",
        0.7,
        ItemKind.FILE,
        ["src/app.py", "+retries = 3", "-retries = 1"],
    ),
    (
        bash("sed -i 's/retries = 1/retries = 3/' src/app.py"),
        "edit",
        0.7,
        ItemKind.FILE,
        ["src/app.py", "retries = 3"],
    ),
    (
        ToolCall(tool="Write", arguments={"file_path": "docs/plan.md", "content": "# Plan\nUse RRF"}),
        "decision-written",
        0.8,
        ItemKind.DECISION,
        ["docs/plan.md", "Use RRF"],
    ),
    (
        ToolCall(tool="Plan", output="User has approved your plan.\n## Approved Plan:\nUse RRF"),
        "plan-approved",
        0.9,
        ItemKind.DECISION,
        ["Use RRF"],
    ),
    (
        ToolCall(tool="Bash", output="The user doesn't want to proceed. the user said: use uv"),
        "declined-with-reason",
        0.9,
        ItemKind.DECISION,
        ["use uv"],
    ),
    (
        ToolCall(tool="WebFetch", arguments={"url": "https://docs.example/x"}, output="The limit is 10 MB."),
        "web-page",
        0.4,
        ItemKind.RESULT,
        ["The limit is 10 MB."],
    ),
    (ToolCall(tool="Mcp", output="Port 8443 is taken by the till."), "fact-stated", 0.4, ItemKind.RESULT, ["8443"]),
    (ToolCall(tool="browser_status", output="url: https://till.example"), "fact-stated", 0.4, ItemKind.RESULT, ["url"]),
    (read("src/app.py", SOURCE), "source-read", 0.5, ItemKind.FILE, ["src/app.py", "def step_1", "80 lines"]),
    (read("src/app.py", SOURCE, offset=40, limit=80), "source-range", 0.5, ItemKind.FILE, ["src/app.py"]),
]

LEFT_ALONE = [
    bash("ls -la", "total 12"),
    bash("git status", "On branch main"),
    bash("mkdir -p build"),
    bash("make", ""),
    bash("ansible-playbook site.yml", "api-02 : ok=9 changed=2 failed=0"),
    bash("cat tests/test_app.py", SOURCE),
    bash("head -n 60 src/app.py", SOURCE),
    bash("curl localhost", '<p class="mt-2 error text-secret-500 failed">'),
    ToolCall(tool="Grep", arguments={"pattern": "alert"}, output='a.html:3: <p class="alert error fatal">'),
    ToolCall(tool="Grep", arguments={"pattern": "Invalid"}, output="3:class InvalidError(Exception):"),
    ToolCall(
        tool="WebSearch", arguments={"query": "q"}, output='Web search results:\n\nLinks: [\n{"title": "a is b"}]\n'
    ),
    ToolCall(tool="write_todos", arguments={"todos": [{"content": "it is open"}]}),
    ToolCall(tool="odd_one", output="42"),
    bash("grep -n needle src/app.py", "3: needle"),
    bash("sed -i '9i\\print(f\"DEBUG: x={x}\")' src/app.py"),
    bash("python app.py", "Please always provide EXACTLY ONE action"),
    read("src/small.py", "x = 1"),
    read("src/app.py", SOURCE, limit=80),
    read("missing.py", "File does not exist."),
    ToolCall(tool="Glob", arguments={"pattern": "**/*.py"}, output="a.py\nb.py"),
    ToolCall(tool="Edit", arguments=EDIT, output="String to replace not found", failed=True),
    ToolCall(tool="Edit", arguments=EDIT, output="<tool_use_error>not read yet</tool_use_error>"),
    ToolCall(tool="Bash", arguments={"command": "rm -rf /"}, output="The user doesn't want to proceed with this"),
    ToolCall(tool="Unknown"),
]


@pytest.mark.parametrize(("call", "rule_id", "attention", "kind", "keys"), KEPT)
def test_call_is_kept(call: ToolCall, rule_id: str, attention: float, kind: ItemKind, keys: list[str]) -> None:
    found = extract(describe_call(call), default_rules())
    assert found is not None
    rule, text = found
    assert (rule.id, rule.attention, rule.kind) == (rule_id, attention, kind)
    assert [key for key in keys if key not in text] == []


@pytest.mark.parametrize("call", LEFT_ALONE)
def test_call_is_left_alone(call: ToolCall) -> None:
    assert extract(describe_call(call), default_rules()) is None


def test_default_rules_are_given_in_the_order_of_trial() -> None:
    assert order_rules(default_rules()) == default_rules()


def test_path_is_the_file_the_call_is_about() -> None:
    assert describe_call(bash("sed -i 's/one/two/' src/app.py")).path == "src/app.py"


def test_attention_of_zero_ends_the_search() -> None:
    rules = [Rule(id="quiet", tool="", attention=0.0), Rule(id="all", tool="", attention=1.0)]
    assert extract(describe_call(bash("make")), rules) is None
    assert extract(describe_call(bash("make")), rules[1:]) is not None


@pytest.mark.parametrize("tool", ["^Read", "^Bash$"])
def test_rule_may_name_the_activity_or_the_tool(tool: str) -> None:
    assert extract(describe_call(bash("cat notes.md", "x")), [Rule(id="mine", tool=tool, attention=0.4)]) is not None


@pytest.mark.parametrize(
    ("output", "failed", "expected"),
    [
        ("Exit code 2\nboom", None, True),
        ("Exit Code: 0\nfine", None, None),
        ("Exit code 0\nfine", None, False),
        ("Exit code 2", False, False),
        ("fine", None, None),
        ("", True, True),
    ],
)
def test_outcome_is_what_the_client_says_else_what_the_text_says(
    output: str, failed: bool | None, expected: bool | None
) -> None:
    assert describe_call(bash("make", output, failed)).failed is expected


@pytest.mark.parametrize("command", [["bash", "-lc", "cat spec.md"], ["cat", "spec.md"], "cat spec.md"])
def test_command_may_be_a_list_of_words(command: object) -> None:
    call = ToolCall(tool="shell", arguments={"command": command}, output="# Goal")
    found = extract(describe_call(call), default_rules())
    assert found is not None
    assert found[0].id == "spec-read"


@pytest.mark.parametrize(
    ("window", "name"),
    [
        ({}, "Read"),
        ({"offset": 1, "limit": 20}, "ReadPart"),
        ({"offset": 90, "limit": 20}, "ReadRange"),
        ({"start_line": 1, "end_line": 20}, "ReadPart"),
        ({"start_line": 90}, "ReadRange"),
    ],
)
def test_a_part_of_a_file_is_not_the_file(window: dict[str, int], name: str) -> None:
    assert describe_call(ToolCall(tool="Read", arguments={"path": "src/a.py", **window})).name == name


@pytest.mark.parametrize("key", ["input", "patch", "patchText"])
def test_patch_names_its_file(key: str) -> None:
    patch = "*** Begin Patch\n*** Update File: src/app.py\n@@\n-retries = 1\n+retries = 3\n*** End Patch"
    call = ToolCall(tool=canonical_tool("apply_patch"), arguments={key: patch})
    found = extract(describe_call(call), default_rules())
    assert found is not None
    rule, text = found
    assert (rule.id, describe_call(call).path) == ("edit", "src/app.py")
    assert "+retries = 3" in text


def test_long_head_and_many_lines_stay_within_the_limit() -> None:
    long = read("deep/" * 60 + "app.py", "\n".join(f"def {'x' * 151}{number:04}" for number in range(9000)))
    assert len(summarize(describe_call(long), Summarizer.OUTLINE)) == LONGEST_SUMMARY


def test_end_of_a_huge_output_is_still_seen() -> None:
    output = "noise\n" * 64_000 + "== 1 failed, 2 passed in 9s =="
    found = extract(describe_call(bash("pytest", output)), default_rules())
    assert found is not None
    assert "1 failed, 2 passed" in found[1]


@pytest.mark.parametrize(
    ("summarizer", "output", "kept", "dropped"),
    [
        (Summarizer.FIRST_LAST_500, "start" + " filler" * 300 + " end", ["start", "end"], []),
        (Summarizer.ERRORS, "Compiling x\n" * 90 + TRACEBACK + "\nretry\n" * 90, ["KeyError: 'port'"], ["Compiling"]),
        (
            Summarizer.TEST_RUN,
            "ok\n" * 300 + "E   ValueError: bad port\nFAILED tests/a.py::test_x\n3 failed, 7 passed in 2s\n",
            ["ValueError: bad port", "tests/a.py::test_x", "3 failed, 7 passed"],
            [],
        ),
        (Summarizer.STDOUT, "Collecting x\n" * 90 + "Successfully installed x-1\n", ["installed x-1"], ["Collecting"]),
        (Summarizer.MATCH_COUNT, "a.py:1: x\n" * 30 + "b.py:2: y\n", ["31 lines in 2 files: a.py, b.py"], []),
        (Summarizer.OUTLINE, SOURCE + "\nx = 1" * 90, ["170 lines", "def step_1()"], []),
        (Summarizer.COMMIT, "hook output\n" * 90 + "[main 1a2b3c4] fix", ["[main 1a2b3c4] fix"], []),
    ],
)
def test_summary_keeps_the_lines_that_matter(
    summarizer: Summarizer, output: str, kept: list[str], dropped: list[str]
) -> None:
    text = summarize(describe_call(bash("make all", output)), summarizer)
    assert [word for word in kept if word not in text] == []
    assert [word for word in dropped if word in text] == []


lines = st.lists(st.one_of(st.text(max_size=300), st.sampled_from([TRACEBACK, "1 failed", "E  x", "+a"])), max_size=40)
calls = st.builds(
    ToolCall,
    tool=st.sampled_from(["Bash", "Read", "Edit", "Grep", "Write", "Odd"]),
    arguments=st.dictionaries(
        st.sampled_from(["command", "file_path", "content", "new_string", "pattern", "edits", "limit"]),
        st.one_of(st.text(max_size=400), st.integers(), st.lists(st.text(max_size=9), max_size=3)),
    ),
    output=lines.map("\n".join),
    failed=st.sampled_from([True, False, None]),
)


@settings(deadline=None)
@given(calls, st.sampled_from(Summarizer))
def test_summary_is_short_and_always_the_same(call: ToolCall, summarizer: Summarizer) -> None:
    text = summarize(describe_call(call), summarizer)
    assert 0 < len(text) <= LONGEST_SUMMARY
    assert text == summarize(describe_call(call), summarizer)


@settings(deadline=None)
@given(calls)
def test_first_rule_that_matches_wins(call: ToolCall) -> None:
    found = extract(describe_call(call), default_rules())
    alone = [
        rule for rule in default_rules() if extract(describe_call(call), [msgspec.structs.replace(rule, attention=0.5)])
    ]
    winner = alone[0] if alone and alone[0].attention else None
    assert (found[0].id if found else None) == (winner.id if winner else None)
