"""`scrimshaw lint` and `scrimshaw stats --quality` on real files, as a person and as a program read them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from scrimshaw.app.cli.main import main
from scrimshaw.engine.lint import measure
from scrimshaw.ingest.quality import band

NOTE = """\
---
title: The write-ahead log needs a current SQLite
type: decision
trigger_phrases: [wal reset, database is malformed]
topics: [sqlite]
created: {created}
---
The interpreter's SQLite has a bug in resetting its write-ahead log, so we bundle another one with apsw. Every
connection goes through `src/db.py`.
"""
SESSION = """\
---
title: Retry the upload queue with a growing pause
type: decision
trigger_phrases: [upload queue, growing pause]
topics: [uploads]
created: {created}
provenance: {{source: session, session: s1, trust: agent}}
quality: {{score: 1.0, flags: []}}
decision_count: 1
---
## Decisions
- Chose a growing pause between retries, because a fixed one kept the server of the partner down for an hour.

## Done
- Changed the queue worker, its configuration and the page that tells operators about uploads which wait.
"""
PLACEHOLDER = """\
---
title: "[TBD]"
trigger_phrases: []
created: {created}
---
## Decisions
- Decision: [TBD]
"""
GONE = "- `src/gone.py` and `src/gone.py:2`\n"


def today(days_ago: float = 0) -> str:
    return (datetime.now(UTC) - timedelta(days=days_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command line in a project that has a vault."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(project.parent / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def files(project: Path, vault: Path) -> Path:
    """One file of each verdict; the worst has a reference to a file that is gone."""
    (project / "src").mkdir()
    (project / "src/db.py").write_text("")
    (vault / "note.md").write_text(NOTE.format(created=today(1)))
    (vault / "placeholder.md").write_text(
        PLACEHOLDER.format(created=today(1)) + "- `src/gone.py` and `src/gone.py:2`\n"
    )
    (vault / "broken.md").write_text("---\ntitle: a\nx: [\n---\n")
    return vault


class TestLint:
    def test_the_worst_comes_first_and_a_summary_last(self, cli: Cli, files: Path, project: Path) -> None:
        code, out, _ = cli("lint", "--references")
        lines = [line for line in out.splitlines() if not line.startswith(" ")]
        assert code == 1
        assert [line.split()[0] for line in lines[:3]] == ["rejected", "rejected", "clean"]
        assert lines[-2:] == ["3 files: 2 rejected, 1 clean", "2 of 3 references lead nowhere (66.7%)"]
        assert "line 8: src/gone.py leads nowhere" in out
        assert "         line 4: the front matter is not valid YAML" in out
        assert not (project / ".scrimshaw/index.db").exists()
        assert not (project / ".scrimshaw/journal.db").exists()

    def test_embeds_and_links_are_resolved_as_a_notes_program_does(self, cli: Cli, vault: Path) -> None:
        (vault / "Fees.md").write_text("# Fees\nThe fee is 12 euros since January because of the new crane.\n")
        (vault / "Home.md").write_text(
            "# Home\nSee [[fees]], ![[map.png]] and ![[Plan#2026]].\nBut not ![[gone.png]].\n"
        )
        (vault / "Plan.md").write_text(
            "# Plan\n## 2026\nBerth 4 is kept free for the pilot since the council said so.\n"
        )
        (vault / "img").mkdir()
        (vault / "img/map.png").write_bytes(b"x")
        assert "1 of 4 references lead nowhere" in cli("lint", "--references")[1]
        assert cli("get", "[[fees]]")[0] == 0
        assert cli("scan")[0] == 0
        graph = cli("graph", "Home")[1]
        assert [line.split()[1:] for line in graph.splitlines()] == [["link", "Fees"], ["link", "Plan"]]
        (vault / "img/chart.png").write_bytes(b"x")
        (vault / "Plan.md").write_text("# Plan\nBerth 5.\n")
        assert cli("scan")[0] == 0
        assert cli("graph", "Home")[1] == graph

    def test_a_clean_vault_is_a_success(self, cli: Cli, vault: Path) -> None:
        (vault / "note.md").write_text(NOTE.format(created=today()))
        assert cli("lint")[0] == 0
        code, out, _ = cli("lint", "--references")
        assert (code, "1 file: 1 warned" in out) == (0, True)

    @pytest.mark.parametrize(("strict", "code"), [((), 0), (("--strict",), 1)])
    def test_strict_takes_warnings_too(self, cli: Cli, vault: Path, strict: tuple[str, ...], code: int) -> None:
        (vault / "note.md").write_text(NOTE.format(created=today()))
        assert cli("lint", "--references", *strict)[0] == code

    def test_json_says_all_a_program_needs(self, cli: Cli, files: Path) -> None:
        code, out, _ = cli("lint", "--references", "--json")
        report = json.loads(out)
        worst = next(one for one in report["files"] if one["path"].endswith("placeholder.md"))
        assert code == 1
        assert report["counts"] == {"rejected": 2, "warned": 0, "skipped": 0, "clean": 1}
        assert (report["references"], report["stale"]) == (3, 2)
        assert "has_placeholders" in worst["flags"]
        assert len(worst["reasons"]) == len(worst["lines"]) >= 1

    def test_named_files_need_no_memory(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "alone.md").write_text(NOTE.format(created=today()))
        code, out, _ = cli("lint", str(tmp_path / "alone.md"), "--project", str(tmp_path))
        assert (code, out.splitlines()[-1]) == (0, "1 file: 1 clean")

    def test_what_is_not_there_is_said(self, cli: Cli) -> None:
        code, _, err = cli("lint", "nowhere")
        assert (code, "There is no nowhere" in err) == (1, True)


class TestFixPaths:
    def test_a_rename_is_shown_then_done_once(self, cli: Cli, files: Path, project: Path) -> None:
        (project / "lib").mkdir()
        (project / "lib/gone.py").write_text("")
        path = files / "placeholder.md"
        before = path.read_text()
        code, out, _ = cli("lint", "--fix-paths", "src/gone.py=lib/gone.py", "--dry-run")
        assert (code, path.read_text()) == (0, before)
        assert "+- `lib/gone.py` and `lib/gone.py:2`" in out
        code, _, err = cli("lint", "--fix-paths", "src=lib")
        assert (code, "Add --yes" in err, path.read_text()) == (1, True, before)
        code, out, _ = cli("lint", "--fix-paths", "src=lib", "--yes")
        assert (code, out.splitlines()[-1]) == (0, "1 file changed")
        assert path.read_text() == before.replace("src/gone.py", "lib/gone.py")
        assert cli("lint", "--fix-paths", "src=lib", "--yes")[1] == "0 files changed\n"

    def test_json_names_the_renames(self, cli: Cli, files: Path, project: Path) -> None:
        assert json.loads(cli("lint", "--fix-paths", "src=lib", "--dry-run", "--json")[1])["files"] == []  # no lib yet
        (project / "lib").mkdir()
        (project / "lib/gone.py").write_text("")
        _, out, _ = cli("lint", "--fix-paths", "src=lib", "--dry-run", "--json")
        (repair,) = json.loads(out)["files"]
        assert repair["paths"] == [["src/gone.py", "lib/gone.py"]]

    def test_documents_that_are_named_follow_the_renames_that_git_knows(
        self, cli: Cli, files: Path, project: Path
    ) -> None:
        (project / "src/gone.py").write_text("def gone():\n    return 1\n")
        git(project, "init", "-q")
        commit(project)
        (project / "lib").mkdir()
        (project / "src/gone.py").rename(project / "lib/gone.py")
        commit(project)
        document, other = project / "docs/plan.md", project / "docs/other.md"
        document.parent.mkdir()
        text = "\ufeff# Plan\r\n\r\nSee `src/gone.py`.\r\n"
        for path in (document, other):
            path.write_bytes(text.encode())
        memory = (files / "placeholder.md").read_text()
        code, out, _ = cli("lint", "--fix-paths", "docs/plan.md", "--dry-run")
        assert (code, "+See `lib/gone.py`." in out, document.read_bytes()) == (0, True, text.encode())
        code, _, err = cli("lint", "--fix-paths", "docs/plan.md")
        assert (code, "-See `src/gone.py`." in err, document.read_bytes()) == (1, True, text.encode())
        assert cli("lint", "--fix-paths", "docs/plan.md", "--yes")[1].splitlines()[-1] == "1 file changed"
        assert document.read_bytes() == text.replace("src/gone", "lib/gone").encode()
        assert (other.read_bytes(), (files / "placeholder.md").read_text()) == (text.encode(), memory)
        assert cli("lint", "docs", "--fix-paths", "src=lib", "--yes")[1].splitlines()[-1] == "1 file changed"
        assert cli("lint", "--fix-paths", "docs", "--yes")[1] == "0 files changed\n"

    def test_what_is_no_file_of_the_project_is_refused(self, cli: Cli, files: Path, tmp_path: Path) -> None:
        (tmp_path / "elsewhere.md").write_text("See `src/gone.py`.\n")
        assert cli("lint", "--fix-paths", "nowhere.md")[0] == 1
        assert cli("lint", str(tmp_path / "elsewhere.md"), "--fix-paths", "src=lib")[0] == 1


class TestPropose:
    def test_renames_that_stale_references_would_follow_come_out_of_git(
        self, cli: Cli, files: Path, project: Path
    ) -> None:
        old = {"src/gone.py": "def gone():\n    return 1\n", "src/idle.py": "IDLE = 2\n\n\nMORE = 3\n"}
        for name, text in old.items():
            (project / name).write_text(text)
        git(project, "init", "-q")
        commit(project)
        (project / "lib").mkdir()
        (project / "src/gone.py").rename(project / "lib/gone.py")
        (project / "src/idle.py").rename(project / "idle.py")
        commit(project)
        (project / "lib").rename(project / "library")
        (project / "idle.py").unlink()
        (files / "idle.md").write_text("Once there was `src/idle.py`, which is deleted now.\n")
        commit(project)
        code, out, _ = cli("lint", "--fix-paths", str(files), "--yes", "--json")
        places = [each["paths"] for each in json.loads(out)["files"]]
        assert (code, places) == (0, [[["src/gone.py", "library/gone.py"]]])
        assert "`src/idle.py`" in (files / "idle.md").read_text()
        assert "`library/gone.py:2`" in (files / "placeholder.md").read_text()
        assert cli("lint", "--fix-paths", str(files))[1] == "0 files changed\n"

    def test_without_a_repository_it_says_what_to_do(self, cli: Cli, files: Path, project: Path) -> None:
        (project / ".git").write_text("gitdir: nowhere\n")
        code, _, err = cli("lint", "--fix-paths", str(files))
        assert (code, "--fix-paths OLD=NEW" in err) == (3, True)


def git(project: Path, *arguments: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *name, *arguments], cwd=project, check=True, capture_output=True)


def commit(project: Path) -> None:
    git(project, "add", "--all")
    git(project, "commit", "-q", "-m", "step")


class TestQualityFigures:
    def test_only_what_was_created_in_the_window_counts(self, cli: Cli, files: Path) -> None:
        (files / "session.md").write_text(SESSION.format(created=today(13)))
        (files / "old.md").write_text(PLACEHOLDER.format(created=today(15)))
        (files / "undated.md").write_text("A note without a date.\n")
        code, out, _ = cli("stats", "--quality", "--json")
        figures = json.loads(out)
        measures = {one["name"]: one for one in figures["measures"]}
        assert code == 0
        assert (figures["files"], figures["undated"], figures["unreadable"]) == (3, 2, 0)
        assert sum(figures["bands"].values()) == 3
        assert {name: (one["count"], one["of"]) for name, one in measures.items()} == {
            "placeholder leakage": (1, 3),
            "fallback decisions": (0, 3),
            "contamination": (0, 3),
            "empty trigger phrases": (1, 3),
            "empty topics": (1, 3),
            "decisions captured": (1, 1),
            "bands A and B": (2, 3),
            "score and flags present": (1, 3),
        }
        assert (measures["placeholder leakage"]["target"], measures["placeholder leakage"]["met"]) == (0.02, False)
        assert (measures["decisions captured"]["target"], measures["decisions captured"]["met"]) == (0.7, True)
        assert json.loads(cli("stats", "--quality", "--days", "16", "--json")[1])["files"] == 4

    @pytest.mark.parametrize(
        "options",
        [
            ("--quality", "--context"),
            ("--quality", "--tier", "normal"),
            ("--quality", "--min-quality", "0.5"),
            ("--quality", "--by", "tier"),
            ("--context", "--folder", "a"),
            ("--context", "--exclude", "a"),
            ("--days", "3"),
            ("--context", "--days", "3"),
        ],
        ids=" ".join,
    )
    def test_options_that_would_have_no_effect_are_refused(self, cli: Cli, files: Path, options: tuple[str]) -> None:
        code, _, said = cli("stats", *options)
        assert code == 2
        assert "--quality" in said

    def test_a_person_sees_the_target_beside_each(self, cli: Cli, files: Path) -> None:
        _, out, _ = cli("stats", "--quality")
        assert "missed placeholder leakage      50.0%  1 of 2, at most 2%" in out
        assert "bands A 1, B 0, C 1, D 0" in out

    def test_without_memories_no_target_is_missed_and_no_share_is_made_up(self, cli: Cli, vault: Path) -> None:
        _, out, _ = cli("stats", "--quality")
        assert "missed" not in out
        assert "%  0 of 0" not in out

    @pytest.mark.parametrize(
        ("score", "name"), [(1.0, "A"), (0.85, "A"), (0.84, "B"), (0.65, "B"), (0.4, "C"), (0.39, "D"), (0.0, "D")]
    )
    def test_a_score_has_a_band(self, score: float, name: str) -> None:
        assert band(score) == name

    @pytest.mark.parametrize(
        ("count", "at_most", "met"), [(2, True, True), (3, True, False), (2, False, True), (1, False, False)]
    )
    def test_a_target_is_met_where_it_is_reached(self, count: int, at_most: bool, met: bool) -> None:
        found = measure("m", [number < count for number in range(100)], 0.02, at_most=at_most)
        assert found["met"] is met
