"""A secret that came in by every door is in no byte of any file after a purge, or the answer names the file."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import pytest
from tests.app.command_line import Cli, command_line
from tests.app.hooks.events import handle, payload_of

from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.engine.index import scan

# Nothing that redaction knows.
SECRETS = ("Zanzibar-Walrus-77-Keel", "Krokodile7Running", "Tr0ub4dor&3 pelican's quay", "Grüße-Wölfe-Äpfel")


class Doors:
    """A project in a home of its own, and the ways into its memory."""

    def __init__(self, root: Path, cli: Cli) -> None:
        self.root, self.cli = root, cli
        self.project, self.home = root / "project", root / "user"

    def report(self, event: str, **fields: Any) -> None:
        handle(self.project, payload_of(self.project, event, **fields), home=self.home / ".scrimshaw")

    def call(self, number: int, tool: str, arguments: dict[str, str], output: str) -> None:
        response = {"stdout": output, "stderr": "", "interrupted": False}
        name: dict[str, Any] = {"tool_name": tool, "tool_input": arguments, "tool_response": response}
        self.report("PostToolUse", tool_use_id=f"t{number}", **name)

    def run_session(self, secret: str) -> None:
        self.report("SessionStart", source="startup")
        self.report(
            "UserPromptSubmit", prompt=f"Open the harbour door with {secret}: {secret} is the word of the door."
        )
        self.call(1, "Bash", {"command": "make door"}, f"FAILED door error: no such door {secret}")
        self.call(2, "Edit", {"file_path": str(self.project / f"src/{secret}.py"), "old_string": "a"}, "ok")
        self.call(3, "Bash", {"command": f"git commit -m '{secret}'"}, f"[main 1a2b3c4] {secret}\n 1 file changed")
        self.report(
            "Stop", last_assistant_message=f"I decided to use {secret} as the word, since it is easy to recall."
        )
        self.report("SessionEnd", reason="exit")

    def write_transcript(self, secret: str) -> Path:
        def row(kind: str, content: Any) -> str:
            about = {"sessionId": "imp", "cwd": str(self.project), "timestamp": "2026-11-20T10:00:00Z"}
            return json.dumps({**about, "type": kind, "message": {"role": kind, "content": content}})

        folder = "".join(char if char.isalnum() else "-" for char in str(self.project))
        path = self.home / f".claude/projects/{folder}/imp.jsonl"
        path.parent.mkdir(parents=True)
        commit = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": f"git commit -m 'Say {secret}'"}}
        output = {"type": "tool_result", "tool_use_id": "c1", "content": f"[main 1a2b3c4] {secret}\n 1 file changed"}
        rows = (row("user", f"Say {secret} at the door"), row("assistant", [commit]), row("user", [output]))
        path.write_text("\n".join(rows) + "\n")
        return path

    def fill(self, secret: str) -> Path:
        """Put it into a text, a title, a trigger, a topic, a tag, a path, by every door; the client's transcript."""
        vault = self.project / ".scrimshaw/memories"
        words = ("--trigger", secret, "--topic", secret, "--yes")
        assert self.cli("save", f"The door opens with {secret}.", "--title", f"Door {secret}", *words).code == 0
        assert self.cli("save", "The title says it.", "--title", secret, "--yes").code == 0
        assert self.cli("save", f"It was {secret}.", "--id", "changed", "--yes").code == 0
        assert self.cli("edit", "changed", "--content", "It is another.").code == 0
        path = vault / secret / f"{secret}.md"
        path.parent.mkdir()
        path.write_text(
            f"---\ntitle: On it\ntags: ['{secret.replace(chr(39), chr(39) * 2)}']\n---\nSee [[{secret}]].\n"
        )
        self.run_session(secret)
        elsewhere = self.root / f"{secret}.md"
        elsewhere.write_text(f"# The word {secret}\n\nIt is said that {secret} opens the door of the harbour.\n")
        assert self.cli("import", str(elsewhere)).code == 0
        elsewhere.unlink()
        assert self.cli("search", f"what does {secret} open").code == 0
        transcript = self.write_transcript(secret)
        assert "taken" in self.cli("import", "claude").out
        assert self.cli("jobs", "run", "--once").code == 0
        assert self.cli("checkpoint", "create", "before").code == 0
        with open_engine(load(self.project), for_team=True) as engine:  # as a team's server does
            scan(engine)
        return transcript

    def holders(self, secret: str) -> set[str]:
        """The files below project and home that hold it in a form that the product writes, in bytes or in the name."""
        forms = {form for text in (secret, secret.lower(), secret.casefold()) for form in _forms(text)}
        stem = _stems(secret)
        forms |= stem if len(stem) == 1 else set()
        return {
            path.relative_to(self.root).as_posix()
            for path in self.root.rglob("*")
            if any(form in data for data in _contents(path) for form in forms)
        }

    def vocabulary(self) -> set[bytes]:
        """The stems in the index, which its bytes hold in pieces."""
        index = apsw.Connection(str(self.project / ".scrimshaw/index.db"))
        index.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, memory_text, 'row')")
        found = {row[0].encode() for row in index.execute("SELECT term FROM temp.words")}
        index.close()
        return found


def _forms(text: str) -> Iterator[bytes]:
    slug = re.sub(r"[^\w]+", "-", text)
    yield from (text.encode(), json.dumps(text)[1:-1].encode(), slug.encode(), base64.b64encode(text.encode())[:-4])
    yield from (quote(text).encode(), quote(text, safe="").encode())


def _stems(text: str) -> set[bytes]:
    memory = apsw.Connection(":memory:")
    memory.execute("CREATE VIRTUAL TABLE text USING fts5 (it, tokenize = 'porter unicode61')")
    memory.execute("CREATE VIRTUAL TABLE words USING fts5vocab(text, 'row')")
    memory.execute("INSERT INTO text VALUES (?)", (text,))
    return {row[0].encode() for row in memory.execute("SELECT term FROM words")}


def _contents(path: Path) -> Iterator[bytes]:
    yield os.fsencode(path.name)
    if not path.is_file():
        return
    data = path.read_bytes()
    yield data
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as opened:
            parts = [opened.read(name) for name in opened.namelist()]
        yield from parts
        for encoded in re.findall(rb'"((?:[A-Za-z0-9+/]{4}){2,}[A-Za-z0-9+/]{0,4}=*)"', b"\n".join(parts)):
            with suppress(ValueError):
                yield base64.b64decode(encoded)


@pytest.fixture
def doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doors:
    found = Doors(tmp_path, command_line(capsys))
    found.project.mkdir()
    found.home.mkdir()
    monkeypatch.setenv("HOME", str(found.home))
    monkeypatch.setenv("SCRIMSHAW_HOME", str(found.home / ".scrimshaw"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    monkeypatch.chdir(found.project)
    git(found.project, "init", "-q")
    assert found.cli("init").code == 0
    return found


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def purge(doors: Doors, monkeypatch: pytest.MonkeyPatch, secret: str) -> tuple[int, Any]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(secret.encode()), encoding="utf-8"))
    run = doors.cli("purge", "--secret", "-", "--yes", "--json")
    assert secret not in run.out
    return run.code, run.json


@pytest.mark.parametrize("secret", SECRETS)
def test_no_byte_of_any_file_holds_a_form_of_a_purged_secret(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    transcript = doors.fill(secret)
    assert len(doors.holders(secret)) > 8
    code, answer = purge(doors, monkeypatch, secret)
    assert doors.holders(secret) == {transcript.relative_to(doors.root).as_posix()}
    assert (code, [trace["place"] for trace in answer["documents"]]) == (1, [str(transcript)])
    if len(_stems(secret)) == 1:
        assert _stems(secret).isdisjoint(doors.vocabulary())
    transcript.unlink()
    assert purge(doors, monkeypatch, secret)[0] == 0


@pytest.mark.parametrize("secret", SECRETS[:1])
def test_what_git_or_a_document_keeps_makes_the_exit_code_1(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    places = ("docs/guide.md", "notes/draft.txt")
    for place in places:
        (doors.project / place).parent.mkdir()
        (doors.project / place).write_text(f"It is {secret.lower()}.")
    code, answer = purge(doors, monkeypatch, secret)
    kept = [trace["place"] for trace in answer["documents"]] + [place["path"] for place in answer["git"]["places"]]
    assert (code, kept) == (1, [str(doors.project / places[0]), *places])
    assert answer["git"]["commands"] == []  # nothing is in the history that they rewrite
    git(doors.project, "add", ".")
    git(doors.project, "commit", "-qm", "x")
    for place in places:
        shutil.rmtree((doors.project / place).parent)
    code, answer = purge(doors, monkeypatch, secret)
    assert (code, [place["kind"] for place in answer["git"]["places"]]) == (1, ["blob"])
    assert answer["git"]["commands"]


def test_phrases_that_a_draft_made_of_some_words_of_it_go_too(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, parts = "copper lantern ninth gate", (b"copper lantern", b"lantern ninth", b"ninth gate")
    doors.report("SessionStart", source="startup")
    doors.report("UserPromptSubmit", prompt=f"Make the vault of the office open with {secret}, and store {secret}.")
    doors.call(1, "Edit", {"file_path": str(doors.project / "vault.py"), "old_string": "a", "new_string": secret}, "ok")
    doors.report("Stop", last_assistant_message=f"I decided to keep {secret} in the vault, because {secret} is easy.")
    assert [each["status"] for each in doors.cli("drafts", "make", "--json").json] == ["accepted"]
    (memory,) = doors.project.glob(".scrimshaw/memories/sessions/*.md")
    assert "trigger_phrases: [copper lantern" in memory.read_text()
    assert purge(doors, monkeypatch, secret)[0] == 0
    files = (path for path in doors.root.rglob("*") if path.is_file())
    assert [path for path in files for data in _contents(path) if any(part in data.lower() for part in parts)] == []
