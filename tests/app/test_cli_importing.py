"""`init --import`, `import` and `export` on the command line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.command_line import Cli, command_line, wait_for_vectors
from tests.app.test_cli_process import on_a_terminal
from tests.app.test_importing_sessions import SECRET, START, put_session, session_rows
from tests.samples import write_memory

from scrimshaw.app.cli import start
from scrimshaw.app.importing import name_sources
from scrimshaw.engine.importers import ImportResult
from scrimshaw.engine.index import EMBED_BATCH
from scrimshaw.errors import StorageFailure
from scrimshaw.storage.journal import Journal

STYLE = "# Shop\n\n## Style\n\n- Always use tabs in Makefiles and spaces everywhere else; lines end at 120 letters.\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "user"


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a guidance file and one earlier session; the working folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "CLAUDE.md").write_text(STYLE, encoding="utf-8")
    put_session(home, folder, "s-1")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("SCRIMSHAW_HOME", str(home / ".scrimshaw"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    return folder


@pytest.fixture
def cli(project: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys)


@pytest.fixture
def memory(cli: Cli, tmp_path: Path) -> Cli:
    """The same with a memory that holds what there was, and the guidance of another project."""
    assert cli("init", "--import").code == 0
    guidance = tmp_path / "elsewhere/CLAUDE.md"
    guidance.parent.mkdir()
    guidance.write_text(STYLE, encoding="utf-8")
    assert cli("import", "instructions", str(guidance)).code == 0
    return cli


def test_init_takes_in_what_exists_when_told_to(cli: Cli) -> None:
    done = cli("init", "--import", "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["imported"]["counts"], done.json["imported"]["memories"]) == ({"taken": 1, "read": 1}, 1)
    hits = cli("search", "gettext catalogues", "--json").json["hits"]
    assert {hit["memory"]["provenance"]["session"] for hit in hits} == {"s-1"}


@pytest.mark.parametrize("arguments", [("--no-import",), ()])
def test_init_without_a_terminal_takes_nothing_and_asks_nothing(cli: Cli, arguments: tuple[str, ...]) -> None:
    done = cli("init", *arguments, "--json")
    assert (done.code, done.json["imported"]) == (0, None)
    assert done.json["sources"][0]["memories"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "memories"), [(b"y\n", 2), (b"n\n", 1)])
def test_init_asks_a_person(project: Path, answer: bytes, memories: int, cli: Cli) -> None:
    code, seen = on_a_terminal(["init"], answer)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert code == 0
    assert "claude  1" in plain
    assert "CLAUDE.md read in place, nothing to import" in " ".join(plain.split())
    assert cli("stats", "--json").json["total"] == memories


@pytest.mark.slow
def test_init_asks_nothing_where_nothing_is_found(project: Path, home: Path) -> None:
    (project / "CLAUDE.md").unlink()
    for file in home.rglob("*.jsonl"):
        file.unlink()
    code, seen = on_a_terminal(["init"])
    assert code == 0
    assert "Start with" not in seen


def test_import_tells_what_it_took_and_why_it_left_something(cli: Cli) -> None:
    cli("init")
    done = cli("import", "all")
    assert done.code == 0
    assert "taken  claude" in done.out
    assert re.search(r"^read   instructions  .*/CLAUDE.md\n       CLAUDE$", done.out, re.MULTILINE)
    assert done.out.splitlines()[-1] == "1 read in place, 1 taken; 11 events, 1 memory"
    again = cli("import", "all", "--json").json
    assert (again["counts"], again["events"], again["interrupted"]) == ({"unchanged": 1, "read": 1}, 0, False)


def test_a_dry_run_says_what_would_be_taken(cli: Cli) -> None:
    cli("init")
    done = cli("import", "all", "--dry-run", "--json").json
    assert (done["counts"], done["vectors"]) == ({"found": 1, "read": 1}, None)
    assert cli("stats", "--json").json["total"] == 1  # its instructions, read in place


def test_a_dry_run_counts_what_the_import_then_takes(cli: Cli, tmp_path: Path) -> None:
    cli("init")
    texts = {"one": "# Tides\nThe tide turns at noon.\n", "three": "# Tides\nIt turns at midnight too.\n", "four": "\n"}
    for name, text in (texts | {"two": texts["one"]}).items():
        write_memory(tmp_path / "notes", name, text)
    dry, real = (cli("import", str(tmp_path / "notes"), *more, "--json").json for more in (("--dry-run",), ()))
    assert dry["counts"] == {"found": 2, "unchanged": 1, "left": 1}
    assert real["counts"] == {"taken": 2, "unchanged": 1, "left": 1}
    assert dry["memories"] == real["memories"] == 2


def test_a_path_is_relative_to_the_working_folder(cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("init")
    write_memory(project.parent / "notes", "tides", "# Tides\nThe tide turns at noon.\n")
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    assert cli("import", "../../notes", "--json").json["counts"] == {"taken": 1}


def test_a_client_and_a_file(cli: Cli, home: Path, tmp_path: Path) -> None:
    cli("init")
    elsewhere = put_session(home, tmp_path / "elsewhere", "s-2")
    done = cli("import", "claude", str(elsewhere), "--json").json
    assert [Path(each["place"]) for each in done["taken"]] == [elsewhere]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("nonsense",), 1, "basic-memory"),
        (("serena",), 1, "scan"),
        (("claude", "not-there"), 1, "not-there"),
        ((), 2, "source"),
    ],
)
def test_what_cannot_be_imported_is_said(cli: Cli, arguments: tuple[str, ...], code: int, told: str) -> None:
    cli("init")
    done = cli("import", *arguments)
    assert (done.code, done.out) == (code, "")
    assert told in done.err


def test_a_session_whose_draft_could_not_be_written_is_no_success(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[int]:
        raise StorageFailure("The disk is full.")

    assert cli("init", "--no-import").code == 0
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "record", refuse)
        done = cli("import", "all", "--json")
    assert (done.code, done.json["counts"]) == (3, {"failed": 1, "read": 1})
    again = cli("import", "all", "--json")
    assert (again.code, again.json["counts"]) == (0, {"taken": 1, "read": 1})


def test_without_a_memory_there_is_nothing_to_import_into(cli: Cli) -> None:
    assert cli("import", "all").code == 2


def test_ctrl_c_tells_what_was_done_and_how_to_go_on(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_short() -> Iterator[ImportResult]:
        yield ImportResult(source="claude", place="one", status="taken", events=5)
        raise KeyboardInterrupt

    cli("init")
    monkeypatch.setattr(start, "plan_import", lambda *_, **__: (2, cut_short()))
    done = cli("import", "all")
    assert done.code == 1
    assert "1 taken; 5 events" in done.out
    assert "again" in done.err


def test_help_names_every_source_and_an_example(cli: Cli) -> None:
    text = " ".join(cli("import", "--help").out.replace("│", " ").split())
    assert all(name in text for name in name_sources())
    assert "scrimshaw import transcripts" in text


# Export


def test_export_as_markdown(memory: Cli, tmp_path: Path, project: Path) -> None:
    target = tmp_path / "out"
    done = memory("export", "--output", str(target), "--json").json
    assert done == {"memories": 2, "format": "markdown", "place": str(target)}
    for file in target.rglob("*.md"):
        assert file.read_bytes() == (project / ".scrimshaw/memories" / file.relative_to(target)).read_bytes()
    assert (target / "guidance/claude-style.md").is_file()
    assert "Searches find" not in memory("export", "--output", str(target), "--force").err


def test_an_export_into_the_project_warns_that_searches_find_it(memory: Cli, project: Path) -> None:
    assert "Searches find these copies too" in memory("export", "--output", str(project / "backup")).err
    assert "Searches" not in memory("export", "--format", "jsonl", "--output", str(project / "all.jsonl")).err


def test_export_redacts_what_was_written_by_hand(memory: Cli, tmp_path: Path, project: Path) -> None:
    (project / ".scrimshaw/memories/hand.md").write_text(f"# Hand\n\nThe token is {SECRET}.\n", encoding="utf-8")
    for format_, name in (("markdown", "out"), ("jsonl", "out.jsonl")):
        assert memory("export", "--format", format_, "--output", str(tmp_path / name)).code == 0
    exported = [file.read_text(encoding="utf-8") for file in tmp_path.glob("out*/*.md")]
    exported.append((tmp_path / "out.jsonl").read_text(encoding="utf-8"))
    assert len(exported) == 2
    assert all(SECRET not in text and "[REDACTED:" in text for text in exported)


def test_export_as_lines_has_every_field(memory: Cli, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    assert memory("export", "--format", "jsonl", "--output", str(target)).code == 0
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == sorted(line["id"] for line in lines)
    style = lines[0]
    assert (style["id"], style["type"], style["provenance"]["trust"]) == (
        "guidance/claude-style",
        "preference",
        "file",
    )
    assert "Always use tabs" in style["body"]
    assert style["edges"] == []


def test_export_refuses_to_replace_without_being_told(memory: Cli, tmp_path: Path) -> None:
    target = tmp_path / "out"
    (target / "guidance").mkdir(parents=True)
    (target / "guidance/claude-style.md").write_text("mine", encoding="utf-8")
    refused = memory("export", "--output", str(target))
    assert (refused.code, (target / "guidance/claude-style.md").read_text(encoding="utf-8")) == (1, "mine")
    assert "--force" in refused.err
    assert memory("export", "--output", str(target), "--force").code == 0
    assert "Always use tabs" in (target / "guidance/claude-style.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1)])
def test_export_asks_a_person(memory: Cli, tmp_path: Path, answer: bytes, code: int) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("mine", encoding="utf-8")
    ended, seen = on_a_terminal(["export", "--format", "jsonl", "--output", str(target)], answer)
    assert (ended, "is not empty" in seen) == (code, True)
    assert (target.read_text(encoding="utf-8") == "mine") == (code == 1)


def test_markdown_needs_a_folder(memory: Cli) -> None:
    done = memory("export")
    assert (done.code, done.out) == (2, "")
    assert "--output" in done.err


def test_vectors_of_imported_sessions_are_made_in_the_background(
    memory: Cli, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCRIMSHAW_EMBEDDING_PROVIDER")
    monkeypatch.setattr("scrimshaw.app.cli.frame.HEAD_START_S", 0.0)
    for number in range(20):
        put_session(home, project, f"more-{number}")
    assert memory("import", "transcripts", "--json").json["vectors"]["in_background"]
    ready, total = wait_for_vectors(memory)
    assert ready == total > EMBED_BATCH


def test_an_import_that_finds_nothing_names_the_way_of_a_moved_project(cli: Cli, home: Path) -> None:
    assert cli("init", "--no-import").code == 0
    assert "FOLDER" not in cli("import", "transcripts", "--dry-run").err
    shutil.rmtree(home / ".claude/projects")
    assert "`scrimshaw import CLIENT FOLDER --all-projects`" in cli("import", "transcripts", "--dry-run").err


def test_a_dry_run_tells_no_number_of_memories_that_sessions_become(cli: Cli) -> None:
    assert cli("init", "--no-import").code == 0
    assert re.search(r"1 found; \d+ events$", cli("import", "transcripts", "--dry-run").out.strip())


def test_a_session_that_becomes_no_memory_says_why(cli: Cli, project: Path, home: Path) -> None:
    rows = session_rows("s-2", project, START, "till")
    rows[0]["message"]["content"] = "What is in src/till.py?"
    put_session(home, project, "s-2", rows=[rows[0], *rows[2:4]])
    assert cli("init", "--no-import").code == 0
    assert "it adds no memory, but is searched" in cli("import", "claude").out
