"""What the start of a session tells of sessions before the last one, and of files that are gone."""

from __future__ import annotations

import os
import re
import time
from datetime import datetime
from pathlib import Path

import pytest
from tests.app.hooks.events import bash, context_of, report
from tests.git_folders import run_git
from tests.samples import SECRET, write_memory

from scrimshaw.engine import Engine, drafts
from scrimshaw.engine.context import ContextRequest, context
from scrimshaw.engine.index import scan
from scrimshaw.engine.record import sync_record
from scrimshaw.models import format_time
from scrimshaw.session import state
from scrimshaw.session.arrivals import LARGEST
from scrimshaw.session.resume import find_asked

POINT = "Still open: `aiosmtplib` isn't pinned in the requirements."


def edit(project: Path, path: str, session: str) -> None:
    """Write a file, and report it."""
    (project / path).write_text("x\n", encoding="utf-8")
    written = {"file_path": str(project / path), "content": "x"}
    report(project, "PostToolUse", session, tool_name="Write", tool_use_id=path, tool_input=written, tool_response={})


def work(project: Path, session: str, asked: str, said: str, *, commit: str = "", branch: str = "main") -> None:
    """A session that is asked for something, writes a file, maybe commits, and answers."""
    report(project, "UserPromptSubmit", session, prompt=asked)
    edit(project, f"{session}.py", session)
    if commit:
        bash(project, f"git commit -am '{commit}'", f"[{branch} 1a2b3c4] {commit}\n 1 file changed", "c1", session)
    report(project, "Stop", session, last_assistant_message=said)


def start(project: Path, source: str = "startup") -> str:
    return context_of(report(project, "SessionStart", "S9", source=source))


@pytest.mark.parametrize("has_memory", [True, False])
def test_what_an_earlier_session_left_open_outlasts_a_small_one(
    engine: Engine, project: Path, has_memory: bool
) -> None:
    work(project, "S1", "Move the mailer to asyncio", f"The mailer is async now. {POINT}", commit="Async mailer")
    if has_memory:
        assert drafts.make_draft(engine, "S1").status == "accepted"
    work(project, "S2", "Fix the typo in the readme", "Fixed the typo.", commit="Typo")
    lines = start(project).splitlines()
    told = [line for line in lines if POINT in line]
    assert [line.partition(" (")[0] for line in told] == ["- open before"]
    assert ("(sessions/" if has_memory else "(session:S1#e") in told[0]
    assert lines.index(told[0]) > max(number for number, line in enumerate(lines) if "(#e" in line)


@pytest.mark.parametrize(
    ("asked", "commit"),
    [
        ("Pin aiosmtplib in the requirements", ""),
        ("Mend the build", "Pin aiosmtplib in requirements.txt"),
        ("Mend the build", "Pin each aiosmtplib as it is required"),
    ],
)
def test_what_a_later_session_dealt_with_is_not_open(engine: Engine, project: Path, asked: str, commit: str) -> None:
    work(project, "S1", "Move the mailer to asyncio", f"The mailer is async now. {POINT}")
    work(project, "S2", asked, "That is done.", commit=commit)
    work(project, "S3", "Fix the typo in the readme", "Fixed the typo.")
    assert "open before" not in start(project)


def test_words_and_folders_of_any_work_close_no_point(engine: Engine, project: Path) -> None:
    point = "Still open: shop/pdf.py is not committed, tests/test_pdf.py fails, the font has to be registered."
    work(project, "S1", "Print the invoices", f"The invoice has a page. {point}")
    work(project, "S2", "Open the shop at nine. tests/test_rules.py fails if a file opens it.", "Done.", commit="Tests")
    bash(project, "git add shop/box.py tests/test_rules.py && git commit -m 'Rules'", "[main 1] Rules", "c2", "S2")
    for number in range(3, 9):  # many small sessions may lie between
        work(project, f"S{number}", f"Fix the typo {number} in the readme", "Fixed the typo.")
    assert "shop/pdf.py is not committed" in context_of(report(project, "SessionStart", "S0", source="startup"))


def test_a_question_or_a_failure_of_an_earlier_session_is_not_told(engine: Engine, project: Path) -> None:
    work(
        project,
        "S1",
        "Move the mailer to asyncio",
        "The mailer is async now. Shall I port the queue of the mailer too?",
    )
    work(project, "S2", "Fix the typo in the readme", "Fixed the typo.")
    assert "port the queue" not in start(project)


def test_a_clear_context_is_not_told_what_is_open_elsewhere(engine: Engine, project: Path) -> None:
    work(project, "S1", "Move the mailer to asyncio", f"The mailer is async now. {POINT}")
    work(project, "S2", "Fix the typo in the readme", "Fixed the typo.")
    assert POINT not in start(project, "clear")


def test_a_parallel_session_that_is_over_is_told_with_its_outcome(engine: Engine, project: Path) -> None:
    report(project, "UserPromptSubmit", "S1", prompt="Move the mailer to asyncio")
    report(project, "UserPromptSubmit", "S2", prompt="Fix the typo in the readme")
    work(project, "S1", "Go on with it please", f"The mailer is async now. {POINT}", commit="Async mailer")
    work(project, "S2", "And the other typo", "Fixed both.", commit="Typo")
    told = [line.partition(" (")[0] for line in start(project).splitlines() if "session:S1#" in line]
    assert "- beside it" in told
    assert {"- open beside it", "- commits beside it"} & {*told}
    whole = start(project)
    assert POINT in whole
    assert "Async mailer" in whole
    assert drafts.make_draft(engine, "S1").status == "accepted"
    assert "): 1a2b3c4 Async mailer" in start(project)  # from its memory, which says "commit 1a2b3c4: ..."


@pytest.fixture
def repository(engine: Engine, project: Path) -> Path:
    """The project as a repository that was on the branch `dark`."""
    run_git(project, "init", "-q", "-b", "main")
    run_git(project, "commit", "-q", "--allow-empty", "-m", "x")
    run_git(project, "switch", "-q", "-c", "dark")
    run_git(project, "commit", "-q", "--allow-empty", "-m", "Dark theme")
    work(project, "S1", "Try a dark theme", "It is on branch `dark`.", commit="Dark theme", branch="dark")
    edit(project, "extra.css", "S1")
    report(project, "Stop", "S1", last_assistant_message=f"Its styles are in `extra.css`. {POINT}")
    run_git(project, "switch", "-q", "main")
    return project


def test_a_file_that_is_gone_is_not_told_as_if_it_were_there(repository: Path) -> None:
    assert "committed on `dark`" in start(repository)
    assert "extra.css, unless by hand" in start(repository)
    (repository / "extra.css").unlink()
    assert "not committed" not in start(repository)


@pytest.mark.parametrize("merge", [("merge", "-q", "dark"), ("merge", "-q", "--squash", "dark"), ()])
def test_what_is_open_of_a_removed_branch_is_told(repository: Path, merge: tuple[str, ...]) -> None:
    if merge:  # a squashed branch is merged, though git does not say so
        run_git(repository, *merge)
    run_git(repository, "branch", "-D", "dark")
    work(repository, "S2", "Fix the typo in the readme", "Fixed the typo.")
    assert POINT in start(repository)


def test_a_point_is_closed_by_what_a_later_session_says_of_it(engine: Engine, project: Path) -> None:
    point = "Still open: whether the beekeeper's postal address belongs on the label."
    work(project, "S1", "Draw the labels of the jars", f"The labels are drawn. {point}")
    assert drafts.make_draft(engine, "S1").status == "accepted"
    work(project, "S2", "Fix the typo in the readme", "Fixed the typo.")
    assert point in start(project)
    work(project, "S3", "The beekeeper's address is not wanted on the label, only ours.", "Only ours is on it now.")
    work(project, "S4", "Fix the typo in the changelog", "Fixed the typo.")
    assert "postal address" not in start(project)


def test_a_request_without_a_subject_is_not_told_for_ever(engine: Engine, project: Path) -> None:
    work(project, "S1", "Draw the labels of the jars", f"The labels are drawn. {POINT}", commit="Draw the labels")
    report(project, "UserPromptSubmit", "S1", prompt="and do that one too please")
    assert drafts.make_draft(engine, "S1").status == "accepted"
    work(project, "S2", "Fix the typo in the readme", "Fixed the typo.")
    assert "do that one too" not in start(project)


def test_after_a_brief_session_the_work_before_it_is_told(engine: Engine, project: Path) -> None:
    report(project, "UserPromptSubmit", "S1", prompt="Write the templates of all mails of the waiting list")
    for number in range(14):
        edit(project, f"mail{number}.txt", "S1")
    work(project, "S2", "Fix the typo in the readme", "Fixed the typo.")
    parts = {line.partition(" (")[0]: line for line in start(project).splitlines()}
    assert "templates of all mails" in parts["- task before"]
    assert "mail13.txt" in parts["- broke off before"]
    for number in range(14):
        edit(project, f"page{number}.txt", "S3")
    work(project, "S3", "Draw the pages of the shop", "The pages are drawn.")
    assert "- task before" not in start(project)


def test_what_came_next_long_ago_is_told_no_more(engine: Engine, project: Path) -> None:
    step = "Next: port the queue of the mailer to asyncio as well."
    work(project, "S1", "Move the mailer to asyncio", f"The mailer is async now. {POINT}\n\n{step}")
    assert drafts.make_draft(engine, "S1").status == "accepted"
    for number in (2, 3):
        work(project, f"S{number}", f"Fix the typo {number} in the readme", "Fixed the typo.")
        assert "- next before" in start(project)
    work(project, "S4", "Fix the typo in the changelog", "Fixed the typo.")
    told = start(project)
    assert "port the queue" not in told
    assert POINT in told


def test_rules_of_earlier_sessions_are_told_at_each_start(engine: Engine, project: Path, vault: Path) -> None:
    rules = ("no ORM here, ever.", "and NO dashboard in the shop", "rule from now on: utc everywhere inside")
    work(project, "S1", f"Count the stock with plain SQL. {rules[0]}", "Counted. A hold never expires without a job.")
    work(project, "S1", f"the night job next. {rules[1]}, grafana does that", "I would keep its times in UTC. Shall I?")
    work(project, "S1", f"do it. {rules[2]}", "Done. The night job never looks at the wall clock.")
    assert drafts.make_draft(engine, "S1").status == "accepted"
    for name, head in (("conventions", "trust: agent"), ("blog", "trust: web")):
        text = f"# Style of {name}\n\n- plain functions\n- tests with real files\n"
        write_memory(vault, name, text, f"title: Style of {name}\ntype: preference\nprovenance: {{source: x, {head}}}")
    scan(engine)
    assert not [line for line in start(project).splitlines() if line.startswith("- rule (sessions")]
    for number in range(2, 5):
        work(project, f"S{number}", f"Fix the typo {number} in the readme", "Fixed the typo.")
    told = [line for line in start(project).splitlines() if line.startswith("- rule")]
    assert any(line.endswith("(conventions, trust agent): plain functions; tests with real files") for line in told)
    assert all(any("(sessions/" in line and rule in line for line in told) for rule in rules)
    assert not any("blog" in line or "never" in line for line in told)
    for source in ("clear", "compact", "resume"):
        assert all(rule in start(project, source) for rule in rules)


def arrive(
    vault: Path, name: str, title: str, body: str, head: str = "", updated: str = "2027-01-02T10:00:00Z"
) -> None:
    """The file of a session's memory that another clone committed."""
    origin = f"provenance: {{source: session, session: {name}, trust: tool}}\ntype: session\nupdated: {updated}\n{head}"
    write_memory(vault, f"sessions/2027-01-02-{name}", body, f"title: {title}\n{origin}")


def test_rules_in_files_that_the_index_has_not_read_are_told(engine: Engine, project: Path, vault: Path) -> None:
    work(project, "S1", "Move the mailer to asyncio", "The mailer is async now.", commit="Async mailer")
    arrive(
        vault,
        "theirs",
        "Pin the requirements",
        "## Task\n\n- Pin them. Please do not edit files in src/vendored. (e2)\n",
    )
    for number in range(6):
        arrive(vault, f"x{number}", f"Typo {number}", f"## Outcome\n\n- Typo {number} is fixed. (e2)\n")
    assert "- rule (sessions/2027-01-02-theirs, trust tool): Please do not edit files" in start(project)


@pytest.mark.parametrize(
    ("prompt", "is_touched"),
    [
        ("Then clean up src/tidelog/vendored/nmea.py, the code is ugly", True),
        ("Publish 0.4.0 to PyPI please", True),
        ("push it to main", True),
        ("Commit the files", False),
        ("Edit the readme, it names the wrong contract", False),
        ("Add a test of the parser in src/tidelog", False),
    ],
)
def test_a_prompt_brings_up_the_rules_that_it_may_break(
    engine: Engine, project: Path, vault: Path, prompt: str, is_touched: bool
) -> None:
    rules = ("Not PyPI, ever: the library is under contract.", "Please do not edit files in src/vendored.")
    for number, rule in enumerate((*rules, "Never push to main directly, always open a pull request.")):
        arrive(vault, f"s{number}", f"Work {number}", f"## Task\n\n- Write the parser of the gauges. {rule} (e2)\n")
    scan(engine)
    told = context_of(report(project, "UserPromptSubmit", "S9", prompt=prompt))
    assert ("ruled for good" in told) == is_touched
    assert told.count("\n- rule (sessions/") == is_touched
    state_lines = context(engine, ContextRequest(query=prompt)).state
    assert [line.part for line in state_lines] == ["rule"] * is_touched


def test_a_rule_with_a_frequent_word_is_not_brought_up_by_it(engine: Engine, project: Path, vault: Path) -> None:
    for number in range(40):
        arrive(vault, f"g{number}", f"Gauge {number}", f"## Outcome\n\n- Gauge {number} is read. (e2)\n")
    arrive(
        vault, "rule", "Dates", "## Task\n\n- Never cut the dates of a gauge. (e2)\n", updated="2027-01-03T10:00:00Z"
    )
    scan(engine)
    assert "ruled for good" not in context_of(report(project, "UserPromptSubmit", "S9", prompt="Read gauge 41 as well"))


PINNED = (
    "## Outcome\n\n- aiosmtplib is pinned in the requirements. (e5)\n\n## Open\n\n- The retry of the mailer. (e5)\n"
)


def test_who_pulls_is_told_what_others_did_and_left_open_since(engine: Engine, project: Path, vault: Path) -> None:
    work(project, "S1", "Move the mailer to asyncio", f"The mailer is async now.\n\n{POINT}")
    assert "- open (" in start(project)
    asked = "## Task\n\n- pin it all. a build must not change over night (e2)\n\n"
    arrive(vault, "theirs", "Pin the requirements", f"{asked}{PINNED}")
    lines = start(project).splitlines()
    assert any(line.endswith("Pin the requirements | pin it all. a build must not change over night") for line in lines)
    told = [line.partition(" (")[0] for line in lines]
    assert "- open" not in told
    since = [re.sub(r" of [-\d]{10}", "", each) for each in told if each.endswith("since")]
    assert since == ["- task since", "- open since", "- said since"]
    assert "(same, trust tool): The retry of the mailer." in lines[told.index("- open since")]
    assert "since" not in start(project, "compact")
    for name, head, updated in (
        ("private", "visibility: private", "2027-01-02T11:00:00Z"),
        ("earlier", "", "2020-01-02T11:00:00Z"),
        ("broken", "tier: [", "2027-01-02T11:00:00Z"),
    ):
        arrive(vault, name, "Paint the harbour", PINNED, head, updated)
    assert "harbour" not in start(project)


def test_of_many_memories_of_others_the_newest_are_told_and_the_rest_are_counted(
    engine: Engine, project: Path, vault: Path
) -> None:
    work(project, "S1", "Move the mailer to asyncio", f"The mailer is async now.\n\n{POINT}")
    now, days = time.time(), list[str]()
    for hours in range(1, 25):
        at = now - hours * 3600
        days.append(datetime.fromtimestamp(at).strftime("%Y-%m-%d"))
        arrive(vault, f"{hours:02}", f"Paint quay {hours}", "## Outcome\n", updated=format_time(at))
        os.utime(vault / f"sessions/2027-01-02-{hours:02}.md", (now + 60, now + 60))
    told = [re.sub(r" \(.*?\)", "", line) for line in start(project).splitlines() if "since (" in line]
    newest = [f"- task of {days[hours - 1]} since: Paint quay {hours}" for hours in range(1, 6)]
    assert told == [*newest, "- since: and 19 more: `scrimshaw digest`"]


def test_a_session_is_told_with_what_it_decided_against(engine: Engine, project: Path) -> None:
    ruling = "Renamed nothing after all: the rename of till was decided against, since three shops import till by name."
    work(project, "S1", "Rename the module till to register everywhere", ruling)
    assert [line.partition("): ")[2] for line in start(project).splitlines() if line[:12] == "- decisions "] == [ruling]
    assert drafts.make_draft(engine, "S1").status == "accepted"
    assert "decision_count: 1" in next((engine.folder / "memories/sessions").glob("*till*")).read_text("utf-8")


def test_memories_of_others_are_read_as_a_scan_reads_them(engine: Engine, project: Path, vault: Path) -> None:
    work(project, "S1", "Move the mailer to asyncio", f"The mailer is async now.\n\n{POINT}")
    arrive(vault, "secret", "Paint the quay", f"## Open\n\n- Use {SECRET} <private>for the bank</private>. (e2)\n")
    arrive(vault, "gone", "Paint the harbour", PINNED, "tier: deprecated\n")
    arrive(vault, "long", "Paint the lighthouse", f"{'x ' * LARGEST}\n")
    write_memory(project, "outside", PINNED, "title: Paint the fence\nprovenance: {source: session, session: X}")
    (vault / "sessions/2027-01-02-link.md").symlink_to(project / "outside.md")
    told = start(project)
    assert "Paint the quay" in told
    assert "harbour" not in told
    assert "lighthouse" not in told
    assert "fence" not in told
    assert SECRET not in told
    assert "bank" not in told


def test_who_asked_for_a_subject_does_not_hide_its_work(engine: Engine, project: Path) -> None:
    work(project, "S1", "Move the mailer to asyncio", f"The mailer is async now.\n\n{POINT}")
    for session in ("S2", "S3"):
        report(project, "UserPromptSubmit", session, prompt="what is still open in the mailer?")
        report(project, "Stop", session, last_assistant_message=f"One point of the mailer: {POINT}")
    scan(engine)
    told = context_of(report(project, "UserPromptSubmit", "S9", prompt="what is left to do for the mailer?"))
    assert "session:S1#" in told
    assert POINT in told


def test_a_long_paste_is_no_question(project: Path) -> None:
    assert not find_asked("what is left, " * 20_000)


def test_the_first_start_in_a_clone_tells_the_last_session_of_others(
    engine: Engine, project: Path, vault: Path
) -> None:
    assert start(project) == ""
    arrive(vault, "older", "Move the mailer", f"## Open\n\n- {POINT} (e4)\n", updated="2027-01-02T09:00:00Z")
    arrive(vault, "newer", "Pin the requirements", PINNED)
    lines = start(project).splitlines()
    parts = [re.sub(r" of [-\d]{10}", "", line.partition(" (")[0]) for line in lines[1:-1]]
    assert parts == ["- task", "- said", "- open", "- task before"]
    assert "trust tool" in lines[1]
    scan(engine)
    report(project, "UserPromptSubmit", "S9", prompt="Good morning.")  # what the start told is not told again at once
    told = context_of(report(project, "UserPromptSubmit", "S9", prompt="what is still open in the mailer?"))
    assert "The retry of the mailer" in told
    assert POINT not in told


@pytest.mark.parametrize("looks", [False, True])
def test_work_before_many_sessions_that_only_asked_is_told(engine: Engine, project: Path, looks: bool) -> None:
    work(project, "S1", "Move the mailer to asyncio", f"The mailer is async now. {POINT}", commit="Async mailer")
    for number in range(state.MOST_EMPTY + 2):
        session = f"A{number}"
        report(project, "UserPromptSubmit", session, prompt=f"What is in chapter {number}?")
        if looks:
            bash(project, f"cat chapter-{number}.md", "A chapter.", "c1", session)
        report(project, "Stop", session, last_assistant_message=f"Chapter {number} is about the sea.")
        report(project, "SessionEnd", session, reason="exit")
    told = start(project)
    assert "Move the mailer to asyncio" in told
    assert "Async mailer" in told


def test_what_a_start_just_told_its_first_prompt_does_not_tell_again(engine: Engine, project: Path) -> None:
    asked = "What is still open for the mailer?"
    work(project, "S1", "Move the mailer to asyncio", f"The mailer is async now. {POINT}")
    report(project, "SessionEnd", "S1", reason="exit")
    sync_record(engine)
    assert POINT in start(project)
    assert context_of(report(project, "UserPromptSubmit", "S9", prompt=asked)) == ""
    assert POINT in context_of(report(project, "UserPromptSubmit", "S9", prompt=f"{asked} Say it again."))
