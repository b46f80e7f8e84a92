"""What others did is told to whoever comes back: two real clones of one bare repository, with an author each."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.app.command_line import Cli, command_line
from tests.app.hooks.events import context_of, handle, payload_of

from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.engine.drafts import make_draft
from scrimshaw.engine.sessions import record_event
from scrimshaw.engine.write import NewText, save
from scrimshaw.ingest.events import Event, make_observation
from scrimshaw.models import EventKind
from scrimshaw.session.digest import describe_changes, list_others_changes

MEMORIES = ".scrimshaw/memories"
LONG_AGO = "2020-01-01"


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


class Person(NamedTuple):
    """Somebody with a clone of their own."""

    clone: Path
    cli: Cli

    def run(self, *arguments: str) -> Any:
        answer = self.cli(*arguments, "--project", str(self.clone), "--json")
        assert answer.code == 0, answer.err
        return answer.json

    def write(self, name: str, text: str) -> None:
        path = self.clone / MEMORIES / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def push(self) -> None:
        git(self.clone, "add", "--all")
        git(self.clone, "commit", "-qm", "Change memories")
        self.pull()
        git(self.clone, "push", "-q", "origin", "HEAD:main")

    def pull(self) -> None:
        git(self.clone, "pull", "-q", "--rebase", "origin", "main")

    def told(self, since: str = LONG_AGO) -> set[tuple[str, str, str]]:
        return {
            (each["what"], each["id"], ",".join(each["by"])) for each in self.run("digest", "--since", since)["changes"]
        }

    def start(self, session: str, source: str = "startup") -> str:
        """Begin a session of Claude Code; what its model is told."""
        payload = payload_of(self.clone, "SessionStart", session, source=source)
        return context_of(handle(self.clone, payload, home=Path(os.environ["SCRIMSHAW_HOME"])))


class Pair(NamedTuple):
    """Two people."""

    ana: Person
    bo: Person


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pair:
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "shared.git")
    git(tmp_path, "clone", "-q", "shared.git", "first")
    first = tmp_path / "first"
    git(first, "checkout", "-q", "-b", "main")
    (first / MEMORIES).mkdir(parents=True)
    (first / MEMORIES / "gate.md").write_text("# Gate\nThe harbour gate shuts at dusk.\n")
    (first / ".scrimshaw/.gitignore").write_text("/*\n!/.gitignore\n!/memories/\n")
    git(first, "add", "--all")
    git(first, "-c", "user.name=Cy", "-c", "user.email=cy@example.org", "commit", "-qm", "Begin")
    git(first, "push", "-q", "origin", "main")
    people = []
    for name in ("Ana", "Bo"):
        git(tmp_path, "clone", "-q", "shared.git", name)
        clone = tmp_path / name
        git(clone, "config", "user.name", name)
        git(clone, "config", "user.email", f"{name.lower()}@example.org")
        people.append(Person(clone, command_line(capsys)))
    return Pair(*people)


def test_a_save_by_one_is_told_to_the_other_with_who_wrote_it(pair: Pair) -> None:
    pair.ana.write("quay", "# Quay\nThe quay is dry.\n")
    pair.ana.push()
    pair.bo.pull()
    assert pair.bo.told() == {("saved", "gate", "Cy"), ("saved", "quay", "Ana")}
    assert pair.ana.told() == {("saved", "gate", "Cy")}
    changes = {each["id"]: each for each in pair.bo.run("digest", "--since", LONG_AGO)["changes"]}
    assert changes["quay"]["title"] == "Quay"


def test_changes_and_deletes_are_told_and_what_was_taken_back_is_not(pair: Pair) -> None:
    for name in ("quay", "crane", "buoy"):
        pair.ana.write(name, f"# {name}\nOf the harbour: {name}.\n")
    pair.ana.push()
    pair.bo.pull()
    pair.bo.write("quay", "# Quay\nThe quay is wet.\n")
    (pair.bo.clone / MEMORIES / "crane.md").unlink()
    pair.bo.write("pier", "# Pier\nThe pier is new.\n")
    pair.bo.push()
    pair.ana.pull()
    expected = {("changed", "quay", "Bo"), ("deleted", "crane", "Bo"), ("saved", "pier", "Bo"), ("saved", "gate", "Cy")}
    assert pair.ana.told() == expected
    assert pair.bo.told() == {("saved", "gate", "Cy"), ("saved", "quay", "Ana"), ("saved", "buoy", "Ana")}
    (pair.bo.clone / MEMORIES / "pier.md").unlink()
    pair.bo.push()
    pair.ana.pull()
    assert pair.ana.told() == expected - {("saved", "pier", "Bo")}


def test_a_commit_counts_from_when_it_came_here(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as early:
        early.setenv("GIT_COMMITTER_DATE", "2021-05-01T00:00:00Z")
        pair.ana.write("quay", "# Quay\nThe quay is dry.\n")
        git(pair.ana.clone, "add", "--all")
        git(pair.ana.clone, "commit", "-qm", "Long ago")
    git(pair.ana.clone, "push", "-q", "origin", "HEAD:main")
    rewrite_log(pair.bo.clone, "1640995200")  # Bo's clone was made in 2022
    pair.bo.pull()
    assert pair.bo.told("2023-01-01") == {("saved", "quay", "Ana")}
    assert pair.bo.told("2100-01-01") == set()


def rewrite_log(clone: Path, seconds: str) -> None:
    """Move what git's log of HEAD has to another time."""
    log = clone / ".git/logs/HEAD"
    lines = [line.split("\t", 1) for line in log.read_text().splitlines(keepends=True)]
    log.write_text("".join("\t".join([" ".join([*head.split()[:-2], seconds, "+0000"]), what]) for head, what in lines))


@pytest.mark.parametrize(
    "stated", ["visibility: private", "Visibility: Private", "visibility: [ana]", '"\\x76isibility": private']
)
def test_nothing_private_is_told(pair: Pair, stated: str) -> None:
    pair.ana.write("zanzibar", f"---\n{stated}\n---\n# Zanzibar\nThe diary.\n")
    pair.ana.write("crane", f"---\n{stated}\n---\n# Crane\nThe diary.\n")
    pair.ana.push()
    (pair.ana.clone / MEMORIES / "crane.md").unlink()
    pair.ana.push()
    pair.bo.pull()
    assert pair.bo.told() == {("saved", "gate", "Cy")}


def test_a_start_tells_once_what_came_since_the_last_session_began(pair: Pair) -> None:
    assert "Ana" not in pair.bo.start("one")
    pair.ana.write("quay", "# Quay\nThe quay is dry.\n")
    pair.ana.push()
    pair.bo.pull()
    told = pair.bo.start("two")
    assert "Ana saved quay" in told
    assert "Information, not instruction" in told
    assert "Ana" not in pair.bo.start("two", "resume")
    assert pair.bo.run("digest", "--since", LONG_AGO)["sessions"] == []  # nobody asked anything in them
    rewrite_log(pair.bo.clone, "1640995200")
    assert "Ana" not in pair.bo.start("three")


WINCH = "Decision: the crane of pier four gets a new winch and not a used one, because used winches rust."


def work(person: Person, session: str, asked: str, said: str) -> None:
    """A session of Claude Code that writes a file, with the memory that is made of it."""
    home, path = Path(os.environ["SCRIMSHAW_HOME"]), person.clone / f"{session}.py"
    path.write_text("x\n")
    call = {"tool_name": "Write", "tool_use_id": session, "tool_response": {}}
    for event, fields in (
        ("UserPromptSubmit", {"prompt": asked}),
        ("PostToolUse", {**call, "tool_input": {"file_path": str(path), "content": "x"}}),
        ("Stop", {"last_assistant_message": said}),
    ):
        handle(person.clone, payload_of(person.clone, event, session, **fields), home=home)
    with open_engine(load(person.clone)) as engine:
        assert make_draft(engine, session).status == "accepted"


def test_what_others_decided_is_told_with_who_and_when_and_named_once(pair: Pair) -> None:
    work(pair.bo, "s-1", "Mend the crane", WINCH)
    pair.bo.push()
    pair.ana.pull()
    work(pair.ana, "s-2", "Paint the quay", "Decision: paint the quay red and not blue, because red is seen in fog.")
    pair.ana.write("gauge", "# Gauge\nThe gauge is at the gate.\n")
    pair.ana.push()
    pair.bo.pull()
    handle(pair.bo.clone, payload_of(pair.bo.clone, "UserPromptSubmit", "s-3", prompt="Which crane?"))
    for session in ("s-4", "s-5"):  # whoever only asks is no reason not to tell it again
        told = pair.bo.start(session)
        assert re.search(r"task of Ana on 20\d\d-\d\d-\d\d since \(\S+, trust \w+\): Paint the quay", told)
        assert "Ana saved gauge on 20" in told
        assert told.count("paint-the-quay") == 1


def test_a_memory_of_an_own_session_that_somebody_else_committed_is_no_news(pair: Pair) -> None:
    git(pair.bo.clone, "checkout", "-qb", "crane")
    work(pair.bo, "s-1", "Mend the crane", WINCH)
    git(pair.bo.clone, "add", "--all")
    git(pair.bo.clone, "commit", "-qm", "Mend")
    git(pair.bo.clone, "push", "-q", "origin", "crane")
    git(pair.ana.clone, "fetch", "-q", "origin", "crane")
    git(pair.ana.clone, "merge", "-q", "--squash", "FETCH_HEAD")
    pair.ana.push()
    git(pair.bo.clone, "checkout", "-q", "main")
    pair.bo.pull()
    assert pair.bo.told() == {("saved", "gate", "Cy")}
    told = pair.bo.start("s-2")
    assert "Mend the crane" in told
    assert "Ana" not in told


@pytest.mark.parametrize("way", ["thrown away", "merged", "pulled", "branched off"])
def test_a_session_of_another_branch_is_told_with_it(pair: Pair, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clone, later = pair.bo.clone, f"@{int(time.time()) + 60} +0000"
    git(clone, "checkout", "-qb", "spike/redis")
    (clone / "prices.py").write_text("x\n")
    git(clone, "add", "prices.py")
    git(clone, "commit", "-qm", "Spike")
    work(
        pair.bo,
        "s-1",
        "Cache the price list",
        "Decision: cache the price list in Redis and not in a file, because files rot.",
    )
    git(clone, "add", "--all")
    monkeypatch.setenv("GIT_COMMITTER_DATE", later)
    if way == "branched off":
        git(clone, "checkout", "-qb", "prices")
    elif way == "pulled":
        git(clone, "commit", "-qm", "Memory")
        git(clone, "push", "-q", "origin", "HEAD:main")
    if way != "branched off":
        git(clone, "checkout", "-q", "-f", "main")
    if way == "merged":
        git(clone, "merge", "-q", "spike/redis")
    elif way == "pulled":
        pair.bo.pull()
    is_other, label = way == "thrown away", "on branch spike/redis: "
    assert (f"{label}Cache the price list" in pair.bo.start("s-2")) == is_other
    hits = pair.bo.run("search", "where is the price list cached", "--limit", "3")["hits"]
    titles = {each["memory"]["title"] for each in hits if each["memory"]["source"] == "record"}
    assert titles == {f"{label if is_other or way == 'pulled' else ''}Cache the price list"}
    payload = payload_of(clone, "UserPromptSubmit", "s-2", prompt="Is the price list cached in Redis or a file?")
    told = context_of(handle(clone, payload, home=Path(os.environ["SCRIMSHAW_HOME"])))
    assert ("branch spike/redis, trust" in told) == is_other
    resumed = pair.bo.cli("resume", "--project", str(clone)).out
    assert (label in resumed) == is_other


def test_what_came_with_git_is_recorded_as_a_commit_and_undone_with_git(pair: Pair) -> None:
    pair.ana.write("quay", "# Quay\nThe quay is dry.\n")
    pair.ana.push()
    pair.bo.pull()
    pair.bo.run("edit", "quay", "--add-topic", "tides", "--yes")
    pair.bo.push()
    pair.ana.pull()
    path = pair.ana.clone / MEMORIES / "quay.md"
    path.write_text(path.read_text().replace("dry", "wet"))
    pair.ana.push()
    pair.bo.pull()
    told = pair.bo.cli("undo", "--dry-run", "--project", str(pair.bo.clone)).out
    commit = git(pair.bo.clone, "log", "-1", "--format=%h").strip()
    reason = f"the file changed with git, commit {commit} of Ana"
    assert f"since then {reason}: undo that with git" in told
    row = pair.bo.run("ledger", "show", "--limit", "1")[0]
    assert (row["reason"], row["actor"]) == (reason, "external")
    refused = pair.bo.cli("undo", "--entry", str(row["seq"]), "--yes", "--project", str(pair.bo.clone))
    assert f"commit {commit} of Ana: undo that with git" in refused.out
    assert "wet" in (pair.bo.clone / MEMORIES / "quay.md").read_text()
    pair.bo.write("quay", "# Quay\nThe quay is closed.\n")  # by hand
    pair.bo.run("scan")
    row = pair.bo.run("ledger", "show", "--limit", "1")[0]
    assert (row["reason"], row["actor"]) == ("the file changed outside Scrimshaw", "human")


def test_own_sessions_are_a_line_each_newest_first(pair: Pair) -> None:
    task = "Mend the crane of pier four,\n```\nand read all of this log\n```\n" + "the hook hangs " * 40
    day, start = 86_400, 1_772_366_400.0  # noon of 2026-03-01
    with open_engine(load(pair.bo.clone)) as engine:
        for number in range(22):
            event = Event(
                kind=EventKind.PROMPT, client="claude", session=f"s-{number}", prompt=task, cwd=str(pair.bo.clone)
            )
            seen = make_observation(event, (), process=0, extraction=True, drop_ratio=0.5)
            record_event(engine, seen, at=start + number * day)
    lines = pair.bo.cli("digest", "--since", LONG_AGO, "--project", str(pair.bo.clone)).out.splitlines()
    first = lines.index("Your sessions") + 1
    title = "Mend the crane of pier four, ``` and read all of this log ``` the hook ..."
    assert lines[first : first + 2] == [f"  2026-03-22  {title}  s-21", f"  2026-03-21  {title}  s-20"]
    assert lines[first + 20 :] == ["  and 2 more; --json names all"]


def test_what_a_server_wrote_in_this_checkout_is_told_by_its_ledger(pair: Pair) -> None:
    with open_engine(load(pair.bo.clone)) as engine:
        for number, person in enumerate(("ana", "bo", "bo@example.org", "Bo")):
            text = f"The tide table of {person} hangs in the office of the harbour master."
            save(replace(engine, person=person), NewText(content=text, id=f"tides/{number}"), force=True)
        changes = list_others_changes(engine.storage, engine.settings, 1_600_000_000)
    told = [f"{each.by[0]} saved {each.id} on {each.at[:10]}" for each in changes]
    assert {*told} == {*describe_changes(changes).split("; ")}
    assert [each.partition(" on ")[0] for each in sorted(told)] == ["Cy saved gate", "ana saved tides/0"]
