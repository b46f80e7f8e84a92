"""What a person does all day on the command line: look, open, write, relate, configure, take back."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.app.command_line import Cli
from tests.app.hooks.events import report
from tests.samples import write_memory

from scrimshaw.app.cli import output
from scrimshaw.config import load


@pytest.fixture
def notes(cli: Cli, project: Path) -> Path:
    """Seven notes about lanterns, in the folder that it gives."""
    folder = project / ".scrimshaw/memories"
    for number in range(7):
        text = f"# Note {number}\n\nFirst words.\n\n## Lanterns\nThe lantern of gate {number} burns oil.\n"
        write_memory(folder, f"gates/n{number}", text)
    return folder


def use_editor(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """An editor that runs a line of Python with the path of the file last in sys.argv."""
    monkeypatch.setenv("VISUAL", shlex.join([sys.executable, "-c", script]))


def test_a_search_is_short_and_says_where_the_passage_is(cli: Cli, notes: Path) -> None:
    said = cli("search", "lantern", "gate", "3").out
    assert said.count("gates/n") == 10  # five hits, each with its id and its file
    assert said.startswith("1. Note 3")
    place = next(line.strip() for line in said.splitlines() if line.strip().startswith(".scrimshaw"))
    path, _, number = place.rpartition(":")
    assert (Path(path).name, number) == ("n3.md", "1")
    (notes / "gates/n9.md").write_text("---\ntitle: Nine\n---\nUnlike.\n\n## Pilots\nThe pilot comes aboard.\n")
    assert "gates/n9.md:4" in cli("search", "pilot").out
    assert cli("search", "lantern", "-n", "2").out.count("gates/n") == 4


def test_the_words_that_match_are_marked(cli: Cli, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output._Console, "is_terminal", True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "The \x1b[1;33mlantern\x1b[0m of gate" in cli("search", "lantern").out


def test_progress_is_told_in_a_pipe_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with output.progress("Making vectors") as advance:
        for done in range(100):
            now[0] = done
            advance(done, 100)
    lines = [f"Making vectors: {done} of 100" for done in (30, 60, 90)]
    assert capsys.readouterr().err.splitlines() == lines


def test_a_hit_opens_in_the_editor(cli: Cli, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_editor(monkeypatch, "import sys; open(sys.argv[1], 'a').write('Seen.')")
    cli("search", "lantern gate 3", "--open", "1")
    assert (notes / "gates/n3.md").read_text().endswith("Seen.")
    refused = cli("search", "lantern", "--open", "99")
    assert (refused.code, "There is no hit 99" in refused.err) == (1, True)


def test_a_hit_opens_by_the_number_it_is_shown_with(cli: Cli, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report(notes.parents[1], "UserPromptSubmit", "s1", prompt="Please paint the lantern of the harbour crane green.")
    use_editor(monkeypatch, "import sys; open(sys.argv[1], 'a').write('Seen.')")
    asked = ("search", "lantern of the harbour crane", "-n", "20")
    hits = [each["memory"] for each in cli(*asked, "--json").json["hits"]]
    passage = next(number for number, each in enumerate(hits, start=1) if each["source"] == "record")
    assert cli(*asked, "--open", f"{passage}").code == 1
    cli(*asked, "--open", f"{passage + 1}")
    assert Path(hits[passage]["path"]).read_text().endswith("Seen.")


@pytest.mark.parametrize(
    "name",
    [
        "gates/n3",
        "[[gates/n3#lanterns]]",
        "gates/n3.md",
        "gates/n3#lanterns",
        ".scrimshaw/memories/gates/n3.md",
        "{path}:5",
    ],
)
def test_what_a_search_prints_can_be_read(cli: Cli, notes: Path, name: str) -> None:
    cli("scan")
    assert "gate 3 burns oil" in cli("get", name.format(path=notes / "gates/n3.md")).out


def test_a_memory_that_may_not_be_read_is_told(cli: Cli, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (notes.parent.parent / "docs").mkdir()
    (notes.parent.parent / "docs/hidden.md").write_text("Not a memory.\n")
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda path, mode: not str(path).endswith(("n1.md", "hidden.md")))
        for command in (("list",), ("search", "lanterns")):
            done = cli(*command)
            assert "gates/n1" not in done.out
            assert done.err.count(f"1 memory file cannot be read: {notes / 'gates/n1.md'}.") == 1
            assert "Give yourself permission" in done.err
    assert (cli("list").err, "gates/n1" in cli("list").out) == ("", True)


def test_an_editor_writes_a_memory(cli: Cli, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda _: True})())
    use_editor(monkeypatch, "import sys; open(sys.argv[1], 'w').write('The ferry waits for the tide.')")
    assert cli("save", "--title", "Ferry").out == "ferry  saved\n"
    assert (notes / "ferry.md").read_bytes().endswith(b"tide.\n")
    use_editor(monkeypatch, "pass")
    assert cli("save").code == 1


def test_relations_are_stated_followed_and_taken_back(cli: Cli, notes: Path) -> None:
    cli("scan")
    assert cli("link", "gates/n2", "supersedes", ".scrimshaw/memories/gates/n1.md", "--evidence", "rebuilt").code == 0
    assert "gates/n2 supersedes gates/n1  rebuilt" in cli("graph", "gates/n1").out
    assert cli("why", "gates/n1").out.startswith("Replaced by gates/n2")
    assert cli("graph").out.startswith("1 relation; in 2 of 7 memories")
    assert "unlinked" in cli("unlink", "gates/n2", "supersedes", "gates/n1").out
    assert cli("graph", "gates/n1").out == "No relation leads there.\n"


def test_one_key_is_set_and_all_else_stays(cli: Cli, project: Path) -> None:
    cli("init")
    file = project / ".scrimshaw/config.toml"
    before = file.read_text()
    assert cli("config", "set", "search.limit", "7").out == "search.limit = 7\n"
    assert load(project).search.limit == 7
    assert file.read_text().startswith(before.rstrip())
    refused = cli("config", "set", "search.limit", "many")
    assert (refused.code, "search.limit" in refused.err) == (2, True)
    assert load(project).search.limit == 7
    assert cli("config", "get", "search.limit").out == "search.limit = 7\n"
    assert "Did you mean search.limit" in cli("config", "get", "search.limt").err


def test_an_edited_configuration_is_checked(cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_editor(monkeypatch, "import sys; open(sys.argv[1], 'a').write('[search]\\nlimit = 9\\n')")
    assert cli("config", "edit").code == 0
    use_editor(monkeypatch, "import sys; open(sys.argv[1], 'a').write('limit = 0\\n')")
    assert cli("config", "edit").code == 2


@pytest.mark.parametrize("broken", ["[search]\nlimit = 0\n", "[search\n", "[[vaults]]\n"])
def test_a_configuration_that_cannot_be_used_can_be_edited(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    file = project / ".scrimshaw/config.toml"
    file.write_text(broken)
    assert cli("list").code == 2
    use_editor(monkeypatch, "import sys; open(sys.argv[1], 'w').write('[search]\\nlimit = 9\\n')")
    assert (cli("config", "edit").code, cli("config", "get", "search.limit").out) == (0, "search.limit = 9\n")
    file.unlink()
    project.joinpath(".scrimshaw").rename(project / "moved")
    assert "has no memory yet" in cli("config", "edit").err


def test_a_key_without_effect_is_named_and_stops_nothing(cli: Cli, project: Path) -> None:
    (project / ".scrimshaw/config.toml").write_text("[search]\nsnippet_tokens = 60\n[serach]\nlimit = 2\n")
    listed, got = cli("list", "--json"), cli("config", "get", "search.limit")
    assert (listed.code, listed.json["memories"], got.code) == (0, [], 0)
    for said in (listed.err, got.err):
        assert said.count("config.toml: search.snippet_tokens = 60 is not known, and has no effect.") == 1
        assert said.count("config.toml: serach (not shown) is not known, and has no effect; the sections are") == 1
    examined = cli("doctor")
    assert (examined.code, examined.err) == (0, "")
    assert examined.out.count("warning  config: ") == 2


def test_a_name_with_a_line_break_or_a_tab_breaks_no_line(cli: Cli, project: Path) -> None:
    for name in ("docs/new\nline", "docs/tab\tname"):
        write_memory(project, name, f"# Tide\n\nThe tide of {name.split('/')[1].split()[0]} turns at noon.\n")
    listed = cli("list").out.splitlines()
    assert [len(each.split("\t")) for each in listed] == [5] * len(listed)
    assert {r"docs/new\nline", r"docs/tab\tname"} <= {each.split("\t")[0] for each in listed}
    found = cli("search", "tide turns at noon").out
    assert r"   docs/new\nline#tide  docs" in found
    assert r"   docs/new\nline.md:1" in found
    assert r"   docs/tab\tname#tide  docs" in found


def test_the_last_change_is_taken_back(cli: Cli, notes: Path) -> None:
    cli("save", "One.", "--id", "one")
    cli("save", "Two.", "--id", "two")
    assert "create  two" in cli("undo", "--dry-run").out
    assert cli("undo", "--yes").code == 0
    assert cli("undo", "--yes").code == 0
    assert not (notes / "one.md").exists()
    assert "There is no change to undo" in cli("undo").err


def test_a_list_in_a_pipe_is_whole(cli: Cli, notes: Path) -> None:
    for number in range(30):
        write_memory(notes, f"more/n{number}", "text")
    assert len(cli("list").out.splitlines()) == 37
    assert len(cli("list", "-n", "5").out.splitlines()) == 5


def test_unknown_names_are_errors_that_name_the_nearest(cli: Cli, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("scan")
    assert "Did you mean gates?" in cli("list", "--folder", "gate").err
    assert "Did you mean vault?" in cli("search", "x", "--source", "valt").err
    assert "'important'" in cli("list", "--tier", "importnt").err
    monkeypatch.setenv("SCRIMSHAW_SERCH_LIMIT", "3")
    told = cli("list")
    assert (told.code, "Did you mean SCRIMSHAW_SEARCH_LIMIT" in told.err) == (0, True)
    monkeypatch.delenv("SCRIMSHAW_SERCH_LIMIT")
    monkeypatch.setenv("SPECKIT_TEMPLATE_FOLDER", "of another tool")
    assert cli("list").code == 0


def test_a_memory_without_memories_says_so(cli: Cli) -> None:
    said = cli("search", "anything")
    assert said.out == "No memory matches.\n"
    assert "no memories yet" in said.err
    assert "again" not in said.err
    assert "Instead: none" not in said.err


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("scrimshaw get gates/n", 7),
        ("scrimshaw link a supersedes gates/n", 7),
    ],
)
def test_the_shell_completes_ids(cli: Cli, notes: Path, words: str, found: int) -> None:
    cli("scan")
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_SCRIMSHAW_COMPLETE": "complete_bash"}
    program = "import sys; sys.argv = ['scrimshaw']; from scrimshaw.app.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True, check=False
    )
    last = words.split()[-1].encode()
    assert [line.startswith(last) for line in done.stdout.split()] == [True] * found


def test_searches_are_counted_with_what_was_read_of_them(cli: Cli, notes: Path) -> None:
    cli("search", "lantern", "gate", "3")
    cli("get", "gates/n3")
    cli("search", "zeppelin", "--min-confidence", "1")
    found = cli("stats", "--searches", "--json").json
    assert (found["searches"], found["refused"], found["read"], found["read_first"]) == (2, 0.5, 1.0, 1.0)
    assert "Searches: 2 in 14 days" in cli("stats", "--searches").out
    assert cli("stats", "--searches", "--quality").code == 2
    assert cli("stats", "--check").code == 2


def test_a_missed_bound_of_quality_fails_the_check(cli: Cli, project: Path) -> None:
    assert cli("stats", "--quality", "--check").code == 0  # of no memories all bounds are kept
    note = '---\ncreated: "2099-01-01T00:00:00Z"\ntitle: x\n---\n[TODO: add what was decided]\n'
    (project / ".scrimshaw/memories/x.md").write_text(note)
    assert cli("stats", "--quality").code == 0
    checked = cli("stats", "--quality", "--check")
    assert checked.code == 1
