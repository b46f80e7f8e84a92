"""The rules Scrimshaw comes with. Data, in the form of the user's own; the seeds' three (ADR-004) are the floor."""

from __future__ import annotations

from scrimshaw.ingest.rules import Kind, Rule, Summarizer

_COMMAND = r"(?:^|[;&|]\s?|\n)\s?(?:\w+=\S+ )?"  # where a command starts within a line of several
_PROSE = r"\.(?:md|rst|txt|adoc)$"
_DECISION_DOCS = r"(?i)(?:^|/)(?:plan|tasks|decision[-_]?records?|decisions?|requirements|design|prd|research)" + _PROSE
_ADR = r"(?i)(?:^|/)(?:(?:adrs?|decisions|plans|rfcs?)/[^/\n]{1,200}|adr-?\d[^/\n]{0,200})" + _PROSE
_GUIDES = r"(?i)(?:^|/)(?:readme|claude|agents|gemini|contributing|architecture|copilot-instructions)" + _PROSE
_DOCS = r"(?i)(?:^|/)(?:docs?|specs?|documentation)/[^\n]{1,200}" + _PROSE

_TEST_COMMAND = (
    r"(?i)\b(?:pytest|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|runtests\.py|bin/test|manage\.py test)\b"
    r"|\b(?:npm|yarn|pnpm|bun|cargo|go|mix|gradle|gradlew|mvn|dotnet|swift|rake|make|bazel|deno|just)\b[^;&|\n]{0,40}\b(?:test|check|verify)"
)
_FAILING = (
    r"(?m)\b[1-9]\d* (?:failed|failures?|failing|errors?)\b|^FAILED\b|^(?:--- )?FAIL[: \t]|\btest result: FAILED"
    r"|\((?:failures|errors)=[1-9]|^not ok \d"
)
_PASSING = (
    r"(?m)\b\d+ (?:passed|passing)\b|\b\d+ (?:tests?|examples?)\b[^\n]{0,40}\b0 (?:failures|failed|errors)"
    r"|^OK(?: \(|$)|\btest result: ok|^ok\s\S+\s[\d.]+s|^Tests:\s[^\n]{0,40}passed|\ball tests? pass"
)
_EXCEPTION = (
    r"(?m)^Traceback \(most recent call last\)|^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception): |^\*\* \(\w"
    r"|^thread '[^'\n]{0,80}' panicked|^panic: |^Exception in thread|^\s{0,8}(?:error|fatal)(?:\[\w+\])?: "
    r"|^\S{1,200}:\d{1,6}(?::\d{1,5})?: (?:fatal )?error\b|\berror TS\d"
    r"|^make(?:\[\d+\])?: \*\*\*|^npm ERR!|^CONFLICT |^Segmentation fault"
)
_TRACKER = (
    r"(?:bd|gh (?:issue|pr|release)|glab (?:issue|mr)|jira(?: issue)?|linear(?: issue)?|backlog(?: task)?|task-master)"
)

_OWN_MISTAKE = (
    r"(?i)\A\s*(?:<tool_use_error>|please (?:always )?(?:provide|format|use)\b|InputValidationError|EISDIR|ENOENT"
    r"|File does not exist|File content \(\d|File has (?:not been|been modified)|String to replace not found"
    r"|No changes to make|\[Request interrupted)"
)
_DECLINED = r"(?i)\A\s*The user doesn't want to proceed|\A\s*The tool use was rejected|user (?:declined|denied)"

_SUPPORTING_FILE = (
    r"(?i)(?:^|/)(?:tests?|testing|fixtures?|__tests__|config|node_modules|vendor|site-packages|migrations)/"
    r"|(?:^|/)(?:test_|conftest)[^/]*$|[._](?:test|spec)s?\.\w+$|\.(?:jsonl|csv|tsv|log|lock|svg|snap|map|min\.js|out|txt|toml|cfg|ini)$"
    r"|(?:^|/)(?:setup\.py|package\.json|mix\.exs|Cargo\.toml)$"
)

DEFAULT_RULES: tuple[Rule, ...] = (
    # what the client answers about the call itself teaches nothing about the project
    Rule(id="own-mistake", tool="", content=_OWN_MISTAKE, attention=0.0, priority=10),
    Rule(
        id="declined-with-reason",
        tool="",
        content=r"(?is)(?:doesn't want to proceed|was rejected).*the user said:",
        attention=0.9,
        kind=Kind.DECISION,
        summarizer=Summarizer.FIRST_LAST,
        priority=11,
    ),
    Rule(id="declined", tool="", content=_DECLINED, attention=0.0, priority=12),
    # decisions and what was agreed
    Rule(
        id="plan-approved",
        tool="^ExitPlanMode$",
        content=r"(?i)\bplan:|approved plan",
        attention=0.9,
        kind=Kind.DECISION,
        summarizer=Summarizer.FIRST_LAST,
        priority=20,
    ),
    Rule(
        id="question-answered",
        tool=r"(?i)^ask_?(?:user|follow)",
        content=r"\S",
        attention=0.9,
        kind=Kind.DECISION,
        summarizer=Summarizer.FIRST_LAST,
        priority=21,
    ),
    Rule(
        id="spec-read",
        tool="^Read",
        argument=r"(?i)spec\.md$",
        content=r"\S",
        attention=0.9,  # ADR-004
        kind=Kind.FILE,
        summarizer=Summarizer.FIRST_LAST,
        priority=30,
    ),
    Rule(
        id="plan-read",
        tool="^Read",
        argument=_DECISION_DOCS,
        content=r"\S",
        attention=0.9,
        kind=Kind.FILE,
        summarizer=Summarizer.FIRST_LAST,
        priority=31,
    ),
    Rule(
        id="adr-read",
        tool="^Read",
        argument=_ADR,
        content=r"\S",
        attention=0.9,
        kind=Kind.FILE,
        summarizer=Summarizer.FIRST_LAST,
        priority=32,
    ),
    Rule(
        id="guide-read",
        tool="^Read",
        argument=_GUIDES,
        attention=0.6,
        min_lines=5,
        kind=Kind.FILE,
        summarizer=Summarizer.OUTLINE,
        priority=33,
    ),
    Rule(
        id="doc-read",
        tool="^Read",
        argument=_DOCS,
        attention=0.5,
        min_lines=20,
        kind=Kind.FILE,
        summarizer=Summarizer.OUTLINE,
        priority=34,
    ),
    Rule(
        id="issue-read",
        tool="^Run$",
        argument=_COMMAND + _TRACKER + r" (?:show|view)\b",
        attention=0.9,
        min_lines=3,
        kind=Kind.FILE,
        summarizer=Summarizer.FIRST_LAST,
        priority=35,
    ),
    Rule(
        id="memory-read",
        tool="^Read",
        argument=r"(?:^|[/\\])\.(?:scrimshaw|serena)[/\\]memories[/\\]",
        attention=0.6,
        kind=Kind.FILE,
        summarizer=Summarizer.FIRST_LAST,
        priority=36,
    ),
    Rule(
        id="decision-written",
        tool="^(?:Edit|Write)$",
        argument=r"(?i)\A(?:\S*/)?(?:spec|plan|decision[-_]?records?|decisions?|design|adr-?\d[^/\s]*)\.md\n",
        attention=0.8,
        kind=Kind.DECISION,
        summarizer=Summarizer.EDIT,
        priority=40,
    ),
    # commits and what happens to them
    Rule(
        id="commit",
        tool="^(?:Run|Bash)$",
        argument=r"\bgit\b[^;&|\n]{0,60} commit\b",
        content=r"(?m)^\[[^\]\n]{1,200} [0-9a-f]{7,40}\] ",
        attention=0.7,  # ADR-004
        kind=Kind.COMMIT,
        summarizer=Summarizer.COMMIT,
        priority=50,
    ),
    Rule(
        id="git-conflict",
        tool="^Run$",
        argument=r"\bgit\b",
        content=r"(?m)^CONFLICT |^Automatic merge failed|! \[(?:remote )?rejected\]|^error: failed to push",
        attention=0.8,
        kind=Kind.ERROR,
        summarizer=Summarizer.ERRORS,
        priority=51,
    ),
    # test runs
    Rule(
        id="test-failure",
        tool="^Run$",
        argument=_TEST_COMMAND,
        failed=True,
        content=r"\S",
        attention=0.8,
        kind=Kind.ERROR,
        summarizer=Summarizer.TEST_RUN,
        priority=60,
    ),
    Rule(
        id="test-failure-counted",
        tool="^(?:Run|TaskOutput|BashOutput)$",
        content=_FAILING,
        attention=0.8,
        kind=Kind.ERROR,
        summarizer=Summarizer.TEST_RUN,
        priority=61,
    ),
    Rule(
        id="test-pass",
        tool="^(?:Run|TaskOutput|BashOutput)$",
        content=_PASSING,
        attention=0.5,
        kind=Kind.RESULT,
        summarizer=Summarizer.TEST_RUN,
        priority=62,
    ),
    # errors
    Rule(
        id="exception",
        tool="^(?:Run|Task|BashOutput|Mcp)",
        content=_EXCEPTION,
        attention=0.8,
        kind=Kind.ERROR,
        summarizer=Summarizer.ERRORS,
        priority=70,
    ),
    Rule(
        id="missing-program",
        tool="^Run$",
        content=r"\A\s*(?:\S+: )?(?:line \d+: )?\S+: (?:command )?not found\s*\z",
        attention=0.0,
        priority=71,
    ),
    Rule(
        id="failed-command",
        tool="^(?:Run|Mcp)",
        failed=True,
        content=r"\S",
        attention=0.7,
        kind=Kind.ERROR,
        summarizer=Summarizer.ERRORS,
        priority=72,
    ),
    # changes of state
    Rule(
        id="commit-quiet",
        tool="^(?:Run|Bash)$",
        argument=r"\bgit\b[^;&|\n]{0,60} commit\b",
        attention=0.7,
        kind=Kind.COMMIT,
        summarizer=Summarizer.COMMIT,
        priority=75,
    ),
    Rule(
        id="work-submitted",
        tool="^Run$|^Read",
        argument=r"(?i)submit",
        content=r"(?m)^diff --git ",
        attention=0.7,
        kind=Kind.COMMIT,
        summarizer=Summarizer.COMMIT,
        priority=76,
    ),
    Rule(
        id="git-moved",
        tool="^Run$",
        argument=r"\bgit\b[^;&|\n]{0,40} (?:push|merge|rebase|cherry-pick|revert|tag|switch -c|checkout -b)\b",
        attention=0.7,
        kind=Kind.RESULT,
        priority=77,
    ),
    Rule(
        id="issue-changed",
        tool="^Run$",
        argument=_COMMAND + _TRACKER + r" (?:update|close|create|reopen|comment|edit|merge|done|assign|move)\b",
        content=r"\S",
        attention=0.7,
        kind=Kind.RESULT,
        priority=78,
    ),
    Rule(
        id="installed",
        tool="^Run$",
        argument=_COMMAND
        + r"(?:python3? -m )?(?:pip3?|uv|poetry|pdm|npm|pnpm|yarn|bun|cargo|gem|bundle|composer|brew|conda|mix|apt)\S*"
        + r" [^;&|\n]{0,30}\b(?:install|add|sync|ci|remove|uninstall|deps\.get)\b",
        content=r"\S",
        attention=0.6,
        kind=Kind.RESULT,
        priority=79,
    ),
    Rule(
        id="linted",
        tool="^Run$",
        argument=r"\b(?:credo|ruff check|mypy|pyright|eslint|tsc|clippy|dialyzer|flake8|pylint|rubocop|go vet)\b",
        content=r"\S",
        attention=0.5,
        kind=Kind.RESULT,
        summarizer=Summarizer.ERRORS,
        priority=80,
    ),
    # edits
    Rule(
        id="edit-refused",
        tool="^(?:Edit|Write)$",
        content=r"(?i)\bnot been applied\b|introduced new syntax error|^Error\b",
        attention=0.5,
        kind=Kind.ERROR,
        summarizer=Summarizer.ERRORS,
        priority=84,
    ),
    Rule(id="edit-failed", tool="^(?:Edit|Write|MultiEdit)", failed=True, attention=0.0, priority=85),
    Rule(
        id="debug-edit",
        tool="^(?:Edit|MultiEdit)",
        argument=r"\bDEBUG: |\bDEBUG:/d|(?i)\b(?:print\w{0,3}|console\.log|dbg!?|inspect|puts)\b[^\n]{0,20}\bdebug",
        attention=0.0,
        priority=86,
    ),
    Rule(
        id="edit",
        tool="^(?:Edit|Write|MultiEdit|NotebookEdit|apply_patch)$",
        argument=r"\S\n\s*\S",
        attention=0.7,
        kind=Kind.FILE,
        summarizer=Summarizer.EDIT,
        priority=87,
    ),
    # results
    Rule(
        id="decision-stated",
        tool="^(?:Run|Task|Agent|Mcp|Web)",
        content=r"(?im)^[-*#> ]{0,6}(?:\*\*)?(?:decision|decided|resolution)\b(?:\*\*)?\s?:",
        attention=0.8,
        kind=Kind.DECISION,
        summarizer=Summarizer.FIRST_LAST,
        priority=90,
    ),
    Rule(
        id="script-run",
        tool="^Run$",
        argument=_COMMAND
        + r"(?:(?:\S*/)?(?:python|node|ruby|bash|sh|deno|bun|php|perl|elixir)[\d.]* [\w./-]+\.\w{1,4}\b|\./\w)",
        content=r"\S",
        attention=0.5,
        kind=Kind.RESULT,
        priority=91,
    ),
    Rule(
        id="task-report",
        tool="^(?:Task|Agent)$",
        attention=0.6,
        min_lines=3,
        kind=Kind.RESULT,
        summarizer=Summarizer.FIRST_LAST,
        priority=92,
    ),
    Rule(
        id="web-page",
        tool="^Web",
        attention=0.4,
        min_lines=3,
        kind=Kind.RESULT,
        summarizer=Summarizer.FIRST_LAST,
        priority=93,
    ),
    # searches and sources
    Rule(
        id="grep-error",
        tool="^Grep",
        content=r"(?i)\berrors?\b|\bexception\b|\btraceback\b|\bfatal\b|\bpanic\b",
        attention=0.8,  # ADR-004
        kind=Kind.ERROR,
        summarizer=Summarizer.MATCH_COUNT,
        priority=95,
    ),
    Rule(id="head-or-tail", tool="^ReadPart$", attention=0.0, priority=96),
    Rule(id="supporting-file", tool="^Read", argument=_SUPPORTING_FILE, attention=0.0, priority=96),
    Rule(
        id="source-range",
        tool="^ReadRange$",
        attention=0.5,
        min_lines=25,
        kind=Kind.FILE,
        summarizer=Summarizer.OUTLINE,
        priority=97,
    ),
    Rule(
        id="source-read",
        tool="^Read$",
        argument=r"\S",
        attention=0.5,
        min_lines=50,
        kind=Kind.FILE,
        summarizer=Summarizer.OUTLINE,
        priority=98,
    ),
)
