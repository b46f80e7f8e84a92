"""The command line in this process: what each command does to a small real vault."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.app.command_line import Cli, Run
from tests.engine.breaking import locked_by_another, tamper
from tests.samples import write_memory

from scrimshaw import __version__
from scrimshaw.app.cli import output, project_files
from scrimshaw.app.cli.frame import split_command
from scrimshaw.app.cli.main import COMMAND
from scrimshaw.app.clients import CLIENT_NAMES
from scrimshaw.app.mcp.tools.browse import memory_health
from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.errors import ConfigError
from scrimshaw.models import JobState

DECISION = """\
---
title: Use apsw, not the interpreter's sqlite3
type: decision
tier: important
trigger_phrases: [wal reset]
topics: [storage]
created: 2026-01-02
updated: 2026-03-04
---
# Decision
apsw bundles a current SQLite.

## Why
The interpreter's copy has a bug in its write-ahead log.
"""


FILTERS = [
    (("--tier", "important"), True),
    (("--tier", "critical"), False),
    (("--tier", "critical", "--tier", "important"), True),
    (("--type", "decision"), True),
    (("--type", "research"), False),
    (("--folder", "storage"), True),
    (("--folder", "other"), False),
    (("--source", "vault"), True),
    (("--source", "docs"), False),
    (("--topic", "storage"), True),
    (("--topic", "none"), False),
    (("--since", "2026-03-04"), True),
    (("--since", "2026-03-05"), False),
    (("--until", "2026-03-04"), True),
    (("--until", "2026-03-03"), False),
    (("--channels", "text"), True),
    (("--channels", "trigger"), False),
    (("--channels", "text,graph"), True),
]

WRONG = [
    ("--limit", "0"),
    ("--limit", "many"),
    ("--tier", "grand"),
    ("--since", "yesterday"),
    ("--channels", "text,smell"),
    ("--channels", "session"),
    ("--channels", "graph"),
    ("--min-quality", "2"),
    ("--nonsense",),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a decision record, a note of Serena's and a file that is no text; the working folder."""
    folder = tmp_path / "project"
    files = {
        "docs/adr/0001-apsw.md": b"# Choose apsw\nSince its SQLite is current.\n",
        "docs/guide.md": b"# Guide\nHow to deploy.\n",
        "docs/broken.md": b"\x00\x01\x02",
        ".serena/memories/style.md": b"# Style\nSpaces, never tabs.\n",
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    monkeypatch.setattr("scrimshaw.app.setup.all_clients", dict)  # whatever clients this machine has
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    return folder


@pytest.fixture
def vault(project: Path, cli: Cli) -> Path:
    """The vault of the project, initialised, with one decision in it."""
    assert cli("init").code == 0
    folder = project / ".scrimshaw/memories"
    (folder / "storage").mkdir()
    (folder / "storage/apsw.md").write_text(DECISION)
    return folder


def feed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


class TestInit:
    def test_makes_the_folder_and_says_what_it_found(self, cli: Cli, project: Path) -> None:
        done = cli("init", "--json")
        found = {source["name"]: source["memories"] for source in done.json["sources"]}
        assert done.code == 0
        assert found == {"vault": 0, "serena": 1, "docs": 2, "global": 0}
        assert [Path(skip["path"]).name for skip in done.json["skipped"]] == ["broken.md"]
        assert done.json["made"] == ["memories/", "config.toml", ".gitignore"]
        assert sorted(path.name for path in (project / ".scrimshaw").iterdir()) == [
            ".gitignore",
            "config.toml",
            "index.db",
            "journal.db",
            "memories",
            "vault.lock",
        ]

    def test_says_it_to_people_with_the_line_for_clients(self, cli: Cli) -> None:
        said = cli("init").out
        assert f"scrimshaw setup {CLIENT_NAMES[0]}" in said
        assert "broken.md" in said
        assert "1 skipped, or broken" in said

    def test_again_changes_no_file(self, cli: Cli, project: Path) -> None:
        cli("init")
        for name in ("config.toml", ".gitignore"):
            (project / ".scrimshaw" / name).write_text("# mine\n")
        again = cli("init", "--json")
        assert again.code == 0
        assert again.json["made"] == []
        assert (project / ".scrimshaw/config.toml").read_text() == "# mine\n"
        assert (project / ".scrimshaw/.gitignore").read_text() == "# mine\n"

    def test_refuses_the_folder_of_the_user(self, cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SCRIMSHAW_HOME", str(project / ".scrimshaw"))
        assert cli("init").code == 2
        assert not (project / ".scrimshaw").exists()

    def test_a_folder_that_cannot_be_made_is_external(self, cli: Cli, project: Path) -> None:
        (project / ".scrimshaw").mkdir()
        (project / ".scrimshaw/memories").write_text("a file in the way")
        done = cli("init")
        assert done.code == 3
        assert done.err.startswith("Error: ")

    def test_the_configuration_states_the_defaults(self, tmp_path: Path) -> None:
        text = "\n".join(
            line[2:] for line in project_files.render_config().splitlines() if " = " in line or "[" in line
        )
        settings = text.partition("[[sources]]")[0]
        folder = tmp_path / ".scrimshaw"
        folder.mkdir()
        (folder / "config.toml").write_text(settings)
        empty = load(tmp_path / "none", home=tmp_path, environment={})
        stated = load(tmp_path, home=tmp_path / "none", environment={})
        assert tomllib.loads(settings)["search"]["limit"] == 10
        assert (stated.search, stated.context, stated.embedding) == (empty.search, empty.context, empty.embedding)
        assert (stated.index, stated.features) == (empty.index, empty.features)
        assert "name" in tomllib.loads("[[sources]]" + text.partition("[[sources]]")[2])["sources"][0]


class TestWithoutMemory:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("search", "x"),
            ("get", "x"),
            ("list",),
            ("stats",),
            ("save", "x"),
            ("edit", "x", "--title", "y"),
            ("delete", "x", "--yes"),
            ("scan",),
            ("rebuild", "--yes"),
            ("purge", "--memory", "x"),
            ("doctor",),
        ],
    )
    def test_every_command_says_run_init(self, cli: Cli, project: Path, arguments: tuple[str, ...]) -> None:
        done = cli(*arguments)
        assert done.code == 2
        assert "scrimshaw init" in done.err
        assert done.out == ""
        assert not (project / ".scrimshaw").exists()


class TestSearch:
    def test_finds_a_file_written_by_hand_a_moment_ago(self, cli: Cli, vault: Path) -> None:
        (vault / "fresh.md").write_text("# Fresh\nThe harbour closes at dusk.\n")
        assert [hit["memory"]["id"] for hit in cli("search", "harbour", "--json").json["hits"]] == ["fresh"]

    def test_no_scan_does_not(self, cli: Cli, vault: Path) -> None:
        (vault / "fresh.md").write_text("# Fresh\nThe harbour closes at dusk.\n")
        assert cli("search", "harbour", "--no-scan", "--json").json["hits"] == []

    def test_a_removed_index_is_made_again_first(self, cli: Cli, vault: Path) -> None:
        cli("search", "write-ahead")
        for file in vault.parent.glob("index.db*"):
            file.unlink()
        assert len(cli("search", "write-ahead", "--no-scan", "--json").json["hits"]) == 1

    def test_shows_title_place_and_excerpt(self, cli: Cli, vault: Path) -> None:
        said = cli("search", "write-ahead log").out
        assert "1. Use apsw, not the interpreter's sqlite3" in said
        assert "storage/apsw#decision  important  decision  2026-03-04" in said
        assert "bug in its write-ahead log" in said

    def test_filters(self, cli: Cli, vault: Path) -> None:
        for option, finds in FILTERS:
            done = cli("search", "bundles", "--json", *option)
            if option[1] == "other":
                assert (done.code, done.error["code"]) == (1, "not_found")
                continue
            hits = done.json["hits"]
            assert [hit["memory"]["id"] for hit in hits] == (["storage/apsw"] if finds else []), option

    def test_limit_budget_and_content(self, cli: Cli, vault: Path) -> None:
        assert len(cli("search", "apsw", "--json").json["hits"]) == 2
        assert len(cli("search", "apsw", "--limit", "1", "--json").json["hits"]) == 1
        assert cli("search", "apsw", "--budget", "40", "--json").json["omitted"] == 1
        (vault / "long.md").write_text("# Long\nThe lantern. " + "It was lit again. " * 60 + "Put out at dawn.\n")
        assert "dawn" in cli("search", "lantern", "--content").out
        assert "dawn" not in cli("search", "lantern").out

    def test_deprecated_on_request(self, cli: Cli, vault: Path) -> None:
        (vault / "old.md").write_text("---\ntier: deprecated\n---\nThe lighthouse.\n")
        assert cli("search", "lighthouse", "--json").json["hits"] == []
        assert len(cli("search", "lighthouse", "--include-deprecated", "--json").json["hits"]) == 1

    def test_low_quality_on_request(self, cli: Cli, vault: Path) -> None:
        text = "---\nprovenance: {source: agent, trust: agent}\nquality: {score: 0.1}\n---\nThe lighthouse.\n"
        (vault / "draft.md").write_text(text)
        assert cli("search", "lighthouse", "--json").json["hits"] == []
        assert len(cli("search", "lighthouse", "--min-quality", "0", "--json").json["hits"]) == 1

    def test_explain_and_trace(self, cli: Cli, vault: Path) -> None:
        said = cli("search", "wal reset", "--explain", "--trace").out
        assert "trigger 'wal reset'" in said
        assert [line.split()[0] for line in said.splitlines()[-6:]] == [
            "candidate",
            "filter",
            "fusion",
            "rerank",
            "fallback",
            "final-rank",
        ]

    def test_what_could_not_be_done_is_said_beside_the_result(self, cli: Cli, vault: Path) -> None:
        plain, machine = cli("search", "apsw"), cli("search", "apsw", "--json")
        assert "embedder_off" in plain.err
        assert machine.err == ""
        assert machine.json["degradations"][0]["fallback_mode"] == "keyword search"

    def test_nothing_found_is_no_error(self, cli: Cli, vault: Path) -> None:
        done = cli("search", "zyzzyva")
        assert (done.code, done.out) == (0, "No memory matches.\n")

    def test_an_escape_sequence_in_a_memory_stays_text(self, cli: Cli, vault: Path) -> None:
        (vault / "evil.md").write_text("# Evil \x1b]0;owned\x07 [bold]lantern[/bold]\nlantern\n")
        said = cli("search", "lantern").out
        assert "\x1b" not in said
        assert "[bold]lantern[/bold]" in said

    def test_a_wrong_option_is_wrong_usage(self, cli: Cli, vault: Path) -> None:
        for arguments in WRONG:
            done = cli("search", "x", *arguments)
            assert done.code == 2, arguments
            assert done.err.startswith("Error: ")

    def test_an_empty_query_is_invalid(self, cli: Cli, vault: Path) -> None:
        done = cli("search", " ", "--json")
        assert (done.code, done.out, done.error["code"]) == (1, "", "invalid")


class TestGet:
    def test_prints_the_text_alone(self, cli: Cli, vault: Path) -> None:
        assert cli("get", "storage/apsw").out == DECISION.partition("---\n# ")[2].join(("# ", ""))

    def test_a_section(self, cli: Cli, vault: Path) -> None:
        said = cli("get", "storage/apsw", "--anchor", "why").out
        assert "write-ahead log" in said
        assert "bundles" not in said

    @pytest.mark.parametrize("arguments", [("nothing",), ("storage/apsw", "--anchor", "nowhere")])
    def test_what_is_not_there(self, cli: Cli, vault: Path, arguments: tuple[str, ...]) -> None:
        done = cli("get", *arguments, "--json")
        assert (done.code, done.error["code"]) == (1, "not_found")

    def test_json_carries_the_hash_for_an_edit(self, cli: Cli, vault: Path) -> None:
        value = cli("get", "storage/apsw", "--json").json
        changed = cli("edit", "storage/apsw", "--title", "New", "--expect", value["content_hash"])
        assert changed.code == 0
        assert cli("edit", "storage/apsw", "--title", "Newer", "--expect", value["content_hash"]).code == 1


class TestList:
    def test_one_line_each_with_tabs(self, cli: Cli, vault: Path) -> None:
        lines = [line.split("\t") for line in cli("list", "--sort", "id").out.splitlines()]
        assert [fields[0] for fields in lines] == ["docs/adr/0001-apsw", "docs/guide", "storage/apsw", "style"]
        assert lines[2][1:] == ["important", "decision", "2026-03-04", "Use apsw, not the interpreter's sqlite3"]

    def test_pages_and_filters(self, cli: Cli, vault: Path) -> None:
        page = cli("list", "--sort", "id", "--limit", "2", "--offset", "1", "--json").json
        assert [memory["id"] for memory in page["memories"]] == ["docs/guide", "storage/apsw"]
        assert (page["total"], page["offset"]) == (4, 1)
        assert cli("list", "--type", "decision", "--json").json["total"] == 1

    def test_an_unknown_order_is_wrong_usage(self, cli: Cli, vault: Path) -> None:
        assert cli("list", "--sort", "colour").code == 2


class TestStats:
    def test_counts(self, cli: Cli, vault: Path) -> None:
        value = cli("stats", "--json").json
        assert value["total"] == 4
        assert value["by_tier"] == {"important": 1, "normal": 3}

    def test_by_shows_that_group_alone(self, cli: Cli, vault: Path) -> None:
        said = cli("stats", "--by", "folder").out
        assert "by folder" in said
        assert "by tier" not in said
        assert "      2  docs\n" in said

    def test_exclude(self, cli: Cli, vault: Path) -> None:
        assert cli("stats", "--exclude", "docs/*", "--json").json["total"] == 2


class TestSave:
    def test_writes_a_file_that_is_found(self, cli: Cli, vault: Path) -> None:
        done = cli("save", "# Lantern\nLit at dusk.", "--type", "decision", "--tier", "critical", "--topic", "sea")
        assert (done.code, done.out) == (0, "lantern  saved\n")
        memory = cli("search", "dusk", "--json").json["hits"][0]["memory"]
        assert (memory["id"], memory["type"], memory["tier"], memory["topics"]) == (
            "lantern",
            "decision",
            "critical",
            ["sea"],
        )

    def test_a_question_finds_it_and_is_the_reason(self, cli: Cli, vault: Path) -> None:
        questions = ("--question", "When do ships see the coast?", "--question", "Who buys the oil?")
        assert cli("save", "# Lantern\nLit at dusk.", *questions).code == 0
        (hit,) = cli("search", "ships coast", "--json").json["hits"]
        assert (hit["memory"]["id"], hit["explanation"]["answers"]) == ("lantern", "When do ships see the coast?")
        assert hit["memory"]["questions"] == ["When do ships see the coast?", "Who buys the oil?"]
        said = cli("search", "ships coast").out
        assert "   Answers: When do ships see the coast?\n   # Lantern\n" in said

    def test_from_standard_input_and_from_a_file(
        self, cli: Cli, vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        feed(monkeypatch, "# Über\nGrüße".encode())
        assert cli("save", "-", "--json").json["id"] == "über"
        (tmp_path / "note.md").write_text("# From a file\nwords")
        assert cli("save", "--file", str(tmp_path / "note.md"), "--id", "notes/one", "--json").json["id"] == "notes/one"

    def test_standard_input_that_is_not_utf8(self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        feed(monkeypatch, b"caf\xe9")
        done = cli("save", "-")
        assert done.code == 1
        assert "not UTF-8" in done.err

    def test_says_what_was_redacted(self, cli: Cli, vault: Path) -> None:
        secret = "ghp_" + "a1B2" * 9
        done = cli("save", f"The token is {secret} and it opens the gate to the harbour at night.")
        assert "Redacted: " in done.err
        assert secret not in "".join(path.read_text() for path in vault.rglob("*.md"))

    def test_dry_run_writes_nothing(self, cli: Cli, vault: Path) -> None:
        before = sorted(vault.rglob("*"))
        assert cli("save", "A thought", "--dry-run").out == "a-thought  would be saved\n"
        assert sorted(vault.rglob("*")) == before

    def test_the_same_text_twice_is_a_duplicate_unless_forced(self, cli: Cli, vault: Path) -> None:
        cli("save", "A thought")
        assert cli("save", "A thought", "--json").json["status"] == "duplicate"
        assert cli("save", "A thought", "--force", "--json").json["id"] == "a-thought-2"

    def test_a_pipe_needs_no_argument(self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        feed(monkeypatch, b"# Tides\nThe tide turns at noon.\n")
        assert cli("save", "--json").json["id"] == "tides"
        feed(monkeypatch, b"")
        assert "there is nothing to save" in cli("save").err.lower()

    @pytest.mark.parametrize("arguments", [("text", "--file", "docs/guide.md"), ("--file", "nowhere.md")])
    def test_one_text_is_needed(self, cli: Cli, vault: Path, arguments: tuple[str, ...]) -> None:
        assert cli("save", *arguments).code == 2

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [(("a thought", "--id", "../out"), "invalid_id"), (("a thought", "--id", "storage/apsw"), "exists")],
    )
    def test_ids_that_cannot_be(self, cli: Cli, vault: Path, arguments: tuple[str, ...], code: str) -> None:
        done = cli("save", *arguments, "--json")
        assert (done.code, done.error["code"]) == (1, code)


class TestEdit:
    def test_changes_keys_and_leaves_the_rest(self, cli: Cli, vault: Path) -> None:
        assert cli("edit", "storage/apsw", "--tier", "critical", "--add-trigger", "malformed").code == 0
        text = (vault / "storage/apsw.md").read_text()
        assert "tier: critical" in text
        assert text.endswith(DECISION.partition("# Decision")[2])
        memory = cli("get", "storage/apsw", "--json").json["memory"]
        assert memory["triggers"] == ["wal reset", "malformed"]

    def test_removes_from_lists(self, cli: Cli, vault: Path) -> None:
        cli(
            "edit",
            "storage/apsw",
            "--remove-trigger",
            "wal reset",
            "--add-topic",
            "sqlite",
            "--remove-topic",
            "storage",
        )
        memory = cli("get", "storage/apsw", "--json").json["memory"]
        assert (memory["triggers"], memory["topics"]) == ([], ["sqlite"])

    def test_questions_are_added_and_removed(self, cli: Cli, vault: Path) -> None:
        asked, other = "Why is there no system SQLite?", "Which SQLite, and why?"
        assert cli("edit", "storage/apsw", "--add-question", asked, "--add-question", other).code == 0
        assert cli("edit", "storage/apsw", "--remove-question", asked).code == 0
        assert cli("get", "storage/apsw", "--json").json["memory"]["questions"] == [other]

    def test_a_new_text(self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        feed(monkeypatch, b"All new.\n")
        cli("edit", "storage/apsw", "--content", "-")
        assert cli("get", "storage/apsw").out == "All new.\n"

    def test_documents_are_read_only(self, cli: Cli, vault: Path) -> None:
        done = cli("edit", "docs/guide", "--title", "x", "--json")
        assert (done.code, done.error["code"]) == (1, "read_only")

    def test_without_options_the_editor_opens(self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EDITOR", "sed -i s/bundles/carries/")
        assert cli("edit", "storage/apsw").out == "storage/apsw  updated\n"
        assert len(cli("search", "carries", "--no-scan", "--json").json["hits"]) == 1
        assert cli("edit", "storage/apsw").out == "storage/apsw  unchanged\n"

    def test_a_path_of_windows_in_the_editors_name(self) -> None:
        command = r'"C:\Program Files\Code\bin\code.cmd" --wait'
        assert split_command(command, on_windows=True) == [r"C:\Program Files\Code\bin\code.cmd", "--wait"]
        assert split_command("vim -u 'my vimrc'", on_windows=False) == ["vim", "-u", "my vimrc"]

    @pytest.mark.parametrize("editor", ["", "false", "no-such-editor-here", "'unbalanced"])
    def test_an_editor_that_does_not_work(
        self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch, editor: str
    ) -> None:
        monkeypatch.setenv("EDITOR", editor)
        done = cli("edit", "storage/apsw")
        assert done.code == 1
        assert "EDITOR" in done.err


class TestDelete:
    def test_takes_the_files(self, cli: Cli, vault: Path) -> None:
        cli("save", "A thought")
        done = cli("delete", "storage/apsw", "a-thought", "--yes", "--json")
        assert done.json == {"ids": ["storage/apsw", "a-thought"], "purged": False, "dry_run": False}
        assert list(vault.rglob("*.md")) == []

    def test_dry_run_and_refusals_leave_them(self, cli: Cli, vault: Path) -> None:
        assert cli("delete", "storage/apsw", "--dry-run").out == "storage/apsw  would be deleted\n"
        assert cli("delete", "docs/guide", "--dry-run").code == 1
        assert cli("delete", "storage/apsw", "nothing", "--yes").code == 1
        assert (vault / "storage/apsw.md").exists()

    @pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1)])
    def test_asks(self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, code: int) -> None:
        feed(monkeypatch, answer)
        monkeypatch.setattr(output, "is_interactive", lambda: True)
        assert cli("delete", "storage/apsw").code == code
        assert (vault / "storage/apsw.md").exists() == (code == 1)

    def test_does_not_wait_where_nobody_can_answer(
        self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        feed(monkeypatch, b"y\n")
        done = cli("delete", "storage/apsw", "--json")
        assert (done.code, done.out, "--yes" in done.error["hint"]) == (1, "", True)
        assert (vault / "storage/apsw.md").exists()


class TestScanAndRebuild:
    def test_scan_counts_changes(self, cli: Cli, vault: Path) -> None:
        first = cli("scan", "--json").json
        assert (first["files"], first["added"], first["changes"][0]["id"]) == (5, 1, "storage/apsw")
        (vault / "storage/apsw.md").unlink()
        second = cli("scan", "--json").json
        assert (second["added"], second["removed"], len(second["skipped"])) == (0, 1, 1)

    def test_force_reads_again(self, cli: Cli, vault: Path) -> None:
        cli("scan")
        assert cli("scan", "--json").json["unchanged"] == 4
        assert cli("scan", "--force", "--json").json["unchanged"] == 0

    def test_rebuild_asks(self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        feed(monkeypatch, b"")
        assert cli("rebuild").code == 1
        assert cli("rebuild", "--yes").code == 0

    @pytest.mark.parametrize("offset", [0, 4096 * 3 + 100])
    def test_rebuild_heals_a_damaged_index_and_keeps_the_journal(self, cli: Cli, vault: Path, offset: int) -> None:
        cli("edit", "storage/apsw", "--title", "Kept")
        index = vault.parent / "index.db"
        with index.open("r+b") as file:
            file.seek(offset)
            file.write(b"\xaa" * 3000)
        assert cli("doctor").code == 1
        healed = cli("rebuild", "--yes")
        assert healed.code == 0
        assert "damaged" in healed.err
        assert cli("doctor").code == 0
        assert "3 entries in the ledger" in cli("doctor").out
        assert len(cli("search", "write-ahead", "--no-scan", "--json").json["hits"]) == 1

    def test_rebuild_does_not_touch_a_damaged_journal(self, cli: Cli, vault: Path) -> None:
        journal = vault.parent / "journal.db"
        journal.write_bytes(b"not a database at all" * 500)
        done = cli("rebuild", "--yes")
        assert done.code == 3
        assert "journal.db is damaged" in done.err
        assert "index was damaged" not in done.err
        assert journal.read_bytes().startswith(b"not a database")


class TestDoctor:
    def findings(self, done: Run) -> dict[str, str]:
        return {finding["name"]: finding["verdict"] for finding in done.json["findings"]}

    def test_a_healthy_project(self, cli: Cli, vault: Path) -> None:
        done = cli("doctor", "--json")
        assert (done.code, done.json["healthy"]) == (0, True)
        assert self.findings(done) == {
            "project": "ok",
            "vault": "ok",
            "git": "note",
            "rules": "ok",
            "index": "ok",
            "full_text": "ok",
            "vectors": "note",
            "triggers": "ok",
            "graph": "ok",
            "recall": "ok",
            "redaction": "ok",
            "journal": "ok",
            "jobs": "ok",
            "lock": "ok",
            "trust": "ok",
            "watcher": "ok",
            "hook": "ok",
            "databases": "ok",
            "files": "note",
        }

    def test_a_vault_that_is_gone_is_made_with_the_next_save(self, cli: Cli, vault: Path) -> None:
        shutil.rmtree(vault)
        done = cli("doctor", "--json")
        assert (done.code, self.findings(done)["vault"]) == (0, "ok")

    def test_a_file_in_the_place_of_the_vault(self, cli: Cli, vault: Path) -> None:
        shutil.rmtree(vault)
        vault.write_text("no folder")
        done = cli("doctor", "--json")
        assert (done.code, done.json["status"], self.findings(done)["vault"]) == (1, "broken", "problem")

    def test_a_model_that_cannot_be_reached(self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "http")
        done = cli("doctor", "--json")
        assert (done.code, done.json["status"], self.findings(done)["vectors"]) == (0, "degraded", "warning")
        assert all(finding["fix"] for finding in done.json["findings"] if finding["verdict"] in ("warning", "problem"))
        assert "degraded: it works" in cli("doctor").out

    @pytest.mark.slow
    def test_it_says_what_each_part_needs_and_agrees_with_health(
        self, cli: Cli, vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (vault.parent / "links.toml").write_text("[[link]]\nsource =\n")
        settings = load(vault.parent.parent)
        with open_engine(settings) as engine:
            number = engine.journal.enqueue("drafts", "s1", {})
            claimed = engine.journal.claim(["drafts"], 60.0)
            assert claimed
            engine.journal.finish(claimed, JobState.FAILED, "no such event")
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr("scrimshaw.engine.health.LOCK_PATIENCE_S", 0.05)
        monkeypatch.setattr("scrimshaw.engine.core.LOCK_TIMEOUT_S", 0.05)
        with locked_by_another(vault.parent / "vault.lock"):
            done = cli("doctor", "--json")
            with open_engine(settings) as engine:
                told = memory_health.run(engine)
        found = {finding["name"]: (finding["verdict"], finding["fix"]) for finding in done.json["findings"]}
        assert (done.code, done.json["status"], told.status) == (0, "degraded", "degraded")
        assert found["jobs"][0] == "warning"
        assert f"scrimshaw jobs retry {number}" in found["jobs"][1]
        assert found["lock"] == ("warning", "Try again when the other writer has ended.")
        assert found["graph"] == ("warning", "Correct the file.")
        assert found["git"] == ("warning", "Install git, or put it on the PATH.")
        assert found["vectors"][0] == "note"
        off = {row.name for row in told.capabilities if row.status != "on" and ":" not in row.name}
        assert off == {"jobs", "lock", "graph", "git", "vectors"}

    def test_pieces_that_a_waiting_job_will_embed_are_a_note(
        self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "minilm")
        assert cli("scan").code == 0
        (vault / "new.md").write_text("# New\nSalt beef is kept in barrels.\n")
        done = cli("doctor", "--json")
        (vectors,) = (finding for finding in done.json["findings"] if finding["name"] == "vectors")
        assert (done.code, done.json["status"], vectors["verdict"]) == (0, "healthy", "note")
        assert "pieces with one" in vectors["detail"]

    def test_a_table_that_is_gone_is_told_by_counts_and_doctor(self, cli: Cli, vault: Path) -> None:
        cli("scan")
        tamper(vault.parent / "index.db", "DROP TABLE files")
        done = cli("stats", "--no-scan")
        assert (done.code, "4 memories" in done.out) == (0, True)
        assert "Note: files_damaged" in done.err
        done = cli("doctor", "--json")
        (found,) = (finding for finding in done.json["findings"] if finding["name"] == "index")
        assert (done.code, found["fix"]) == (1, "Run `scrimshaw rebuild`.")

    def test_a_database_that_is_damaged(self, cli: Cli, vault: Path) -> None:
        (vault.parent / "index.db").write_bytes(b"not a database at all" * 500)
        done = cli("doctor")
        assert done.code == 1
        assert "scrimshaw rebuild" in done.out


class TestEval:
    def test_measures_judged_queries(self, cli: Cli, vault: Path, tmp_path: Path) -> None:
        queries = tmp_path / "judged.jsonl"
        queries.write_text('{"id": "q1", "query": "write-ahead log bug", "relevant": {"storage/apsw": 2}}\n')
        options = ("eval", "search", "--vault", str(vault), "--queries", str(queries))
        value = cli(*options, "--json").json
        assert value["fused"]["hit@1"] == 1.0
        assert (value["queries"], value["missed"], value["memories"]) == (1, [], 1)
        said = cli(*options, "--channels", "text", "--exclude", "storage/*").out
        assert "missed: q1" in said
        assert "judged but not in the vault: storage/apsw" in said

    def test_a_broken_line_is_named(self, cli: Cli, vault: Path, tmp_path: Path) -> None:
        queries = tmp_path / "judged.jsonl"
        queries.write_text("{}\n")
        done = cli("eval", "search", "--vault", str(vault), "--queries", str(queries))
        assert done.code == 1
        assert "line 1" in done.err


def subcommands(command: Any) -> dict[str, Any]:
    context = typer.Context(command)
    return {name: command.get_command(context, name) for name in command.list_commands(context)}


def command_paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, typer.core.TyperGroup):
        for name, each in subcommands(command).items():
            yield from command_paths(each, (*path, name))


class TestProgram:
    def test_version(self, cli: Cli) -> None:
        assert cli("--version").out == f"scrimshaw {__version__}\n"

    def test_every_command_has_a_help_with_an_example(self, cli: Cli) -> None:
        commands = list(command_paths(COMMAND))
        assert len(commands) > 40
        helps = {path: cli(*path, "--help") for path in commands}
        assert {path: done.code for path, done in helps.items() if done.code} == {}
        assert [path for path, done in helps.items() if "Example: " not in done.out] == []

    def test_the_help_is_one_screen_in_groups(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        shown = cli("help").out
        assert shown == cli("--help").out
        assert len(shown.splitlines()) <= 75  # lines, about a screen
        panels = re.findall(r"^╭─ (\w[\w ]*) ─", shown, re.MULTILINE)
        assert panels == ["Options", "Options of every command", "Use", "Review", "Recover", "Operate"]
        listed = re.findall(r"^│ ([a-z]+) ", shown, re.MULTILINE)
        assert set(listed) == {name for name, command in subcommands(COMMAND).items() if not command.hidden}

    def test_the_help_of_a_command_is_asked_for_by_name(self, cli: Cli) -> None:
        assert cli("help", "drafts", "show").out == cli("drafts", "show", "--help").out

    def test_options_of_every_command_stand_before_or_after_it(self, cli: Cli, vault: Path, tmp_path: Path) -> None:
        project = str(vault.parent.parent)
        before = cli("--project", project, "--json", "list")
        after = cli("list", "--project", project, "--json")
        assert before.json == after.json
        assert cli("--project", str(tmp_path), "list").code == 2
        assert cli("list", "--project", str(tmp_path / "nowhere")).code == 2

    def test_a_project_is_found_from_below(self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(vault / "storage")
        assert cli("list", "--json").json["total"] == 4

    def test_a_broken_configuration_is_named(self, cli: Cli, vault: Path) -> None:
        (vault.parent / "config.toml").write_text("[search]\nlimit = 1000\n")
        done = cli("list", "--json")
        assert (done.code, done.error["code"]) == (ConfigError.exit_code, "config")
        assert "search.limit = 1000" in done.error["message"]

    @pytest.mark.parametrize(
        ("arguments", "message", "helps"),
        [
            (["list", "--tier", "nope"], "Invalid value for '--tier': 'nope' is not one of", "scrimshaw list --help"),
            (["drafts", "show"], "Missing argument 'NAME'", "scrimshaw drafts show --help"),
            (["jobs", "nope"], "No such command 'nope'", "scrimshaw jobs --help"),
            (["list", "--since", "2026-02-30"], "'2026-02-30' is not an ISO date", "scrimshaw list --help"),
            (["nope"], "No such command 'nope'", "scrimshaw --help"),
        ],
    )
    def test_a_wrong_use_names_the_help_of_its_command(
        self, cli: Cli, arguments: list[str], message: str, helps: str
    ) -> None:
        done = cli(*arguments, "--json")
        assert (done.code, done.error["hint"]) == (2, f"See `{helps}`.")
        assert message in done.error["message"]

    @pytest.mark.parametrize(
        ("editor", "said"), [("false", "it ended with exit code 1."), ("/no/such/editor", "No such file or directory.")]
    )
    def test_an_editor_that_fails_is_told_in_words(
        self, cli: Cli, vault: Path, monkeypatch: pytest.MonkeyPatch, editor: str, said: str
    ) -> None:
        monkeypatch.setenv("EDITOR", editor)
        monkeypatch.delenv("VISUAL", raising=False)
        done = cli("edit", "storage/apsw", "--json")
        assert done.error["message"] == f"The editor {editor!r} failed: {said}"

    def test_a_configuration_that_cannot_be_read_is_told_in_words(self, cli: Cli, vault: Path) -> None:
        (vault.parent / "config.toml").write_bytes(b"a = '\xff'")
        assert cli("list", "--json").error["message"].endswith("cannot be read: it is not UTF-8 at byte 6.")

    def test_nothing_asked_shows_the_help(self, cli: Cli) -> None:
        done = cli()
        assert (done.code, done.err) == (2, "")
        assert "search" in done.out

    def test_an_argument_that_is_not_utf8(self, cli: Cli, vault: Path) -> None:
        done = cli("save", "caf\udce9")
        assert done.code == 2
        assert "not UTF-8" in done.err


@pytest.mark.parametrize(("name", "command"), [("uninstall", "setup CLIENT --remove"), ("forget", "purge")])
def test_another_name_for_a_command_leads_to_it(cli: Cli, name: str, command: str) -> None:
    said = cli(name, "x")
    assert said.code == 2
    assert f"That is `scrimshaw {command}`." in said.err


def test_the_end_of_a_sessions_memory_names_it(cli: Cli, vault: Path) -> None:
    for name in ("sessions/2026-01-02-mend-the-mast-0e24ab", "sessions/2026-01-02-mend-the-sail-77f1cd", "x-0e24ab"):
        write_memory(vault, name, f"The text of {name}.\n")
    assert cli("get", "0e24ab").out == "The text of sessions/2026-01-02-mend-the-mast-0e24ab.\n"
    assert cli("get", "24ab").code == 1
    write_memory(vault, "77f1cd", "Its own.\n")
    assert cli("get", "77f1cd").out == "Its own.\n"


def test_the_package_is_a_program(project: Path) -> None:
    run = subprocess.run([sys.executable, "-m", "scrimshaw", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("scrimshaw ")
