"""The commands golden add, golden list, eval golden and capabilities, and what the doctor says of a loss."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.engine.breaking import tamper
from tests.samples import write_memory

from scrimshaw.app.cli.main import main

Cli = Callable[..., tuple[int, str, str]]
OTHER_WORDS = "UPDATE memory_text SET name = 'x', title = 'x', triggers = 'x', body = 'x'"


@pytest.fixture
def cli(project: Path, vault: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(project)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(project.parent / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    monkeypatch.setattr("scrimshaw.app.setup.all_clients", dict)
    write_memory(vault, "tides", "# Tides\nThe tide turns at noon.")
    write_memory(vault, "beef", "# Salt beef\nIt is kept in barrels.")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def findings(out: str) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(out)["findings"]}


def test_a_query_is_kept_listed_and_asked(cli: Cli, project: Path) -> None:
    assert "none yet" in cli("golden", "list")[2]
    code, out, _ = cli("golden", "add", "when does the tide turn", "tides", "--within", "2", "--json")
    assert (code, json.loads(out)) == (0, {"text": "when does the tide turn", "expect": ["tides"], "within": 2})
    assert "tides" in cli("golden", "list")[1]
    assert (project / ".scrimshaw/golden.toml").is_file()
    code, out, _ = cli("eval", "golden", "--json")
    found = json.loads(out)
    assert (code, found["asked"], found["judged"], found["unjudged"], found["lost"]) == (0, 3, 3, 0, [])


def test_golden_queries_travel_with_git(cli: Cli, project: Path) -> None:
    from scrimshaw.app.cli.project_files import GITIGNORE, HIDDEN

    assert "!/golden.toml" in GITIGNORE.splitlines()
    assert "golden.toml" not in HIDDEN


def test_a_query_for_an_unknown_memory_is_refused(cli: Cli, project: Path) -> None:
    code, _, err = cli("golden", "add", "moon", "moon")
    assert (code, "'moon'" in err) == (1, True)
    assert not (project / ".scrimshaw/golden.toml").exists()


def test_a_query_finds_a_renamed_memory_by_its_old_id(cli: Cli, project: Path, vault: Path) -> None:
    cli("golden", "add", "how is meat kept in barrels", "beef")
    (vault / "beef.md").rename(vault / "meat.md")
    assert cli("eval", "golden")[0] == 0
    assert cli("get", "beef")[0] == 0


def test_lint_rejects_a_file_of_queries_that_cannot_be_read(cli: Cli, project: Path) -> None:
    cli("golden", "add", "how is meat kept in barrels", "beef")
    assert "golden" not in cli("lint")[1]
    (project / ".scrimshaw/golden.toml").write_text("<<<<<<< ours\n")
    code, out, _ = cli("lint")
    assert (code, ".scrimshaw/golden.toml  unreadable_file\n" in out, "from line 1 on" in out) == (1, True, True)
    assert cli("lint", ".scrimshaw/memories")[0] == 0


def test_what_a_query_does_not_find_now_is_said_at_once(cli: Cli, project: Path) -> None:
    code, _, err = cli("golden", "add", "what is the price of oil", "beef")
    assert (code, "'what is the price of oil' in golden.toml lost 1 of 1" in err) == (0, True)
    advice = findings(cli("doctor", "--json")[1])["recall"]["fix"]
    assert "change or remove the query in .scrimshaw/golden.toml" in err
    assert advice in err


def test_a_loss_fails_ci_and_the_doctor(cli: Cli, vault: Path) -> None:
    cli("golden", "add", "how is meat kept in barrels", "beef")
    (vault / "beef.md").unlink()
    sentence = "The golden query 'how is meat kept in barrels' in golden.toml lost 1 of 1; no longer exists: beef."
    code, out, _ = cli("eval", "golden")
    assert (code, sentence in out) == (1, True)
    code, out, _ = cli("doctor", "--json")
    found = findings(out)["recall"]
    assert (code, found["verdict"], found["detail"].startswith(sentence)) == (1, "problem", True)
    assert found["fix"]


def test_the_doctor_finds_an_index_that_lost_its_words(cli: Cli, project: Path) -> None:
    assert cli("doctor")[0] == 0
    tamper(project / ".scrimshaw/index.db", OTHER_WORDS)
    code, out, _ = cli("doctor", "--json")
    assert (code, findings(out)["recall"]["verdict"]) == (1, "problem")
    assert "is not found by words of its own" in findings(out)["recall"]["detail"]
    assert findings(out)["databases"]["verdict"] == "ok"
    assert cli("rebuild", "--yes")[0] == 0
    assert cli("doctor")[0] == 0


def test_capabilities_show_what_changed(cli: Cli, project: Path) -> None:
    rows = {row["name"]: row for row in json.loads(cli("capabilities", "--json")[1])["capabilities"]}
    assert {name: row["status"] for name, row in rows.items() if row["status"] != "on"} == {"vectors": "off"}
    assert not any("was" in row for row in rows.values())
    cli("scan")
    tamper(project / ".scrimshaw/index.db", "DROP TABLE edges")
    rows = {row["name"]: row for row in json.loads(cli("capabilities", "--json")[1])["capabilities"]}
    assert (rows["graph"]["status"], rows["graph"]["was"], len(rows["graph"]["since"])) == ("off", "on", 25)
    assert "on -> off since 20" in cli("capabilities")[1]


def test_what_could_not_be_judged_has_its_own_exit_code(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "http")
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_URL", "http://127.0.0.1:9/v1")
    code, out, _ = cli("eval", "golden", "--json")
    found = json.loads(out)
    assert (code, found["asked"], found["judged"], found["unjudged"]) == (3, 4, 2, 2)
    assert found["notes"][0].startswith("2 not judged: ")
    shown = cli("eval", "golden")[1]
    assert "4 questions asked, 2 judged, 2 not, 0 lost" in shown
    assert "2 not judged: " in shown


def test_where_nothing_is_there_to_ask_it_says_so(cli: Cli, vault: Path, project: Path) -> None:
    for file in vault.glob("*.md"):
        file.unlink()
    (project / ".scrimshaw/golden.toml").write_text("")
    code, out, _ = cli("eval", "golden")
    assert (code, "There are no golden queries of your own." in out, "There are no memories." in out) == (0, True, True)


def test_a_query_that_cannot_be_asked_is_named(cli: Cli, project: Path) -> None:
    text = '[[query]]\ntext = "tide"\nexpect = ["tides"]\n[[query]]\ntext = "  "\nexpect = ["beef"]\n'
    (project / ".scrimshaw/golden.toml").write_text(text)
    code, out, err = cli("golden", "list")
    assert (code, "tides" in out, "golden.toml, query 2: " in err) == (0, True, True)
    code, out, _ = cli("eval", "golden")
    assert (code, "golden.toml, query 2: " in out, "Correct the file." in out) == (1, True, True)


@pytest.mark.parametrize("command", [("golden", "add"), ("golden", "list"), ("eval", "golden"), ("capabilities",)])
def test_help_has_an_example(cli: Cli, command: tuple[str, ...]) -> None:
    code, out, _ = cli(*command, "--help")
    assert (code, "Example: " in out) == (0, True)
