"""Linting on real files, and references that follow files which moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import OpenMemory

from scrimshaw.config import Settings, load
from scrimshaw.engine import Engine, index
from scrimshaw.engine.lint import Linted, LintState, apply_repairs, lint, parse_rename, plan_repairs, widen_rename
from scrimshaw.errors import InvalidRequest, NotFound
from scrimshaw.models import Action, Skip, SourceFile
from scrimshaw.storage.scan import scan

GOOD = """\
---
title: The write-ahead log needs a current SQLite
type: decision
trigger_phrases: [wal reset, database is malformed]
topics: [sqlite]
---
The interpreter's SQLite has a bug in resetting its write-ahead log, so we bundle another one with apsw. Every
connection goes through `src/db.py`, and the reasons stand in [the record](../../docs/adr.md).
"""
BAD = """\
---
title: Session of today
trigger_phrases: [TBD]
decision: "[TBD]"
---
## Decisions
- Decision: [TBD]
"""


@pytest.fixture
def settings(project: Path) -> Settings:
    for name in ("src/db.py", "docs/adr.md", "new/home/plan.md"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("# There\nIt is here.\n")
    return load(project, home=project.parent / "home", environment={})


def by_path(found: list[Linted]) -> dict[str, LintState]:
    return {one.path.rpartition("/")[2]: one.state for one in found}


class TestLint:
    @pytest.mark.parametrize(
        ("entry", "key", "known"),
        [
            ("tier: very", "tier", "important"),
            ("importanceTier: [critical]", "importanceTier", "important"),
            ("type: 17", "type", "decision"),
            ("relations: {suports: [north]}", "relations", "supports"),
            ("created: in spring", "created", "ISO"),
            ("updated: 2026-13-01", "updated", "ISO"),
        ],
    )
    def test_a_value_that_counts_as_not_stated_is_named(
        self, settings: Settings, vault: Path, entry: str, key: str, known: str
    ) -> None:
        (vault / "wrong.md").write_text(GOOD.replace("type: decision", entry))
        right = "type: Decision\nimportance_tier: critical\ncreated: 2026-11-21T20:40:00Z\nrelations: {supports: [x]}"
        (vault / "good.md").write_text(GOOD.replace("type: decision", right))
        found, other = lint(settings)
        assert (found.state, found.flags, found.lines) == (LintState.WARNED, ("wrong_value",), (3,))
        assert f"'{key}'" in found.reasons[0]
        assert known in found.reasons[0]
        assert (other.state, other.reasons) == (LintState.CLEAN, ())

    @pytest.mark.parametrize("name", ["plan.markdown", "plan.MARKDOWN", "deep/plan.rst"])
    def test_a_document_that_is_no_memory_by_its_name_is_named(self, engine: Engine, vault: Path, name: str) -> None:
        (vault / "deep").mkdir()
        (vault / name).write_text(GOOD)
        (found,) = lint(engine.settings)
        assert (found.state, found.path) == (LintState.SKIPPED, f".scrimshaw/memories/{name}")
        assert index.scan(engine).skipped == (Skip(path=str(vault / name), reason=found.reasons[0]),)
        assert "ends in" in found.reasons[0]

    def test_the_vault_is_judged_without_an_index_and_nothing_is_written(self, settings: Settings, vault: Path) -> None:
        (vault / "deep").mkdir()
        (vault / "deep/good.md").write_text(GOOD)
        (vault / "bad.md").write_text(BAD)
        before = sorted(settings.project.rglob("*"))
        found = lint(settings)
        assert by_path(found) == {"bad.md": LintState.REJECTED, "good.md": LintState.CLEAN}
        assert [one.path for one in found] == [".scrimshaw/memories/bad.md", ".scrimshaw/memories/deep/good.md"]
        assert found[0].flags
        assert found[0].reasons
        assert found[0].score < found[1].score
        assert sorted(settings.project.rglob("*")) == before

    def test_named_files_and_folders_are_judged_once(self, settings: Settings, tmp_path: Path) -> None:
        other = tmp_path / "elsewhere"
        (other / "sub").mkdir(parents=True)
        (other / "sub/a.md").write_text(GOOD)
        (other / "b.txt").write_text(GOOD)
        found = lint(settings, [other, other / "sub/a.md", other / "b.txt"])
        assert sorted(by_path(found)) == ["a.md", "b.txt"]
        assert (other / "sub/a.md").resolve().as_posix() in [one.path for one in found]

    def test_a_path_that_is_not_there_is_an_error(self, settings: Settings) -> None:
        with pytest.raises(NotFound, match="gone"):
            lint(settings, [Path("gone")])

    @pytest.mark.parametrize(
        ("raw", "line"), [(b"fine\n\xff\n", 2), (b"---\ntitle: a\nx: [\n---\n", 4), (b"# a\n\x00", 2)]
    )
    def test_a_file_no_memory_can_be_made_of_is_rejected_at_its_line(
        self, settings: Settings, vault: Path, raw: bytes, line: int
    ) -> None:
        (vault / "broken.md").write_bytes(raw)
        (only,) = lint(settings)
        assert (only.state, only.flags, only.lines) == (LintState.REJECTED, ("unreadable_file",), (line,))

    def test_a_merge_that_nobody_finished_is_rejected_at_its_line(self, settings: Settings, vault: Path) -> None:
        (vault / "merged.md").write_text(f"{GOOD}<<<<<<< HEAD\nOne pool.\n=======\nTwo pools.\n>>>>>>> other\n")
        (merged,) = lint(settings)
        assert merged.state is LintState.REJECTED
        assert "a merge left both sides" in merged.reasons[0]
        assert merged.lines == (1 + GOOD.count("\n"),)

    @pytest.mark.parametrize(
        ("text", "line", "what"),
        [
            ("---\ntitle: a\n---\nWe round up.\n>>>>>>> theirs\n", 5, "a merge left the mark '>>>>>>>'"),
            ("We ship on Fridays.\n=======\nWe ship on Mondays.\n", 2, "a merge left the mark '======='"),
            ("Up.\n```\n<<<<<<< a\n```\n<<<<<<< a\nDown.\n", 5, "a merge left the mark '<<<<<<<'"),
            ("---\ntier: important\ntitle: a\ntier: normal\n---\nWe round up.\n", 4, "the key 'tier' is there twice"),
            ("---\ntier: important\n\nWe round up.\n", 1, "ends with a line of three dashes"),
            ("\n\n---\ntier: important\n---\nWe round up.\n", 3, "front matter begins in line 1"),
            ("---\n<<<<<<< a\ntier: x\n=======\ntier: y\n>>>>>>> b\n---\nUp.\n", 2, "a merge left both sides"),
        ],
    )
    def test_a_file_that_says_something_else_than_it_seems_to_is_rejected(
        self, settings: Settings, vault: Path, text: str, line: int, what: str
    ) -> None:
        (vault / "gate.md").write_text(text)
        (only,) = lint(settings)
        assert (only.state, only.lines[0], what in only.reasons[0]) == (LintState.REJECTED, line, True)

    @pytest.mark.parametrize("marks", ["```\n{}```\n", "  ~~~ text\n{}  ~~~\n"])
    def test_marks_between_fences_are_text(self, settings: Settings, vault: Path, marks: str) -> None:
        (vault / "git.md").write_text(GOOD + marks.format("<<<<<<< HEAD\nmine\n=======\nyours\n>>>>>>> other\n"))
        (vault / "heading.md").write_text(GOOD + "A gate\n=======\n\nThree dashes:\n\n---\n\nSo it is.\n")
        assert [(one.state, one.reasons) for one in lint(settings)] == [(LintState.CLEAN, ())] * 2

    def test_a_key_close_to_a_known_one_is_a_warning(self, settings: Settings, vault: Path) -> None:
        (vault / "a.md").write_text(GOOD.replace("title:", "visibilty: private\nowner: Ann\ndata: x\ntitle:", 1))
        (only,) = lint(settings)
        assert (only.state, only.flags, only.lines) == (LintState.WARNED, ("wrong_value",), (2,))
        assert only.reasons == ("'visibilty' has no effect; did you mean 'visibility'?",)

    def test_a_file_that_is_passed_over_says_why(self, settings: Settings, vault: Path) -> None:
        (vault / ".hidden.md").write_text(GOOD)
        (only,) = lint(settings)
        assert (only.state, only.reasons) == (LintState.SKIPPED, ("hidden file",))

    def test_an_empty_vault_has_nothing_to_judge(self, settings: Settings) -> None:
        assert lint(settings) == []

    def test_stale_references_are_named_on_request(self, settings: Settings, vault: Path) -> None:
        (vault / "good.md").write_text(GOOD + "See `src/gone.py:3`, [[good]], [[lost]] and `new/home/plan.md`.\n")
        assert [one.stale for one in lint(settings)] == [()]
        (only,) = lint(settings, follow=True)
        assert [(one.path, one.line) for one in only.stale] == [("src/gone.py", 9), ("lost", 9)]
        assert (only.state, only.references) == (LintState.WARNED, 6)

    def test_relations_that_lead_nowhere_are_stale(self, settings: Settings, vault: Path) -> None:
        head = "relations:\n  supersedes: [good, lost]\n  supports:\n  - {id: gone/old, strength: 0.5}\n"
        (vault / "good.md").write_text(GOOD)
        (vault / "new.md").write_text(GOOD.replace("---\n", f"---\n{head}", 1))
        stale = {one.path: [(each.path, each.line) for each in one.stale] for one in lint(settings, follow=True)}
        assert [*stale.values()] == [[("lost", 3), ("gone/old", 5)], []]

    def test_a_name_too_long_for_any_file_is_stale(self, settings: Settings, vault: Path) -> None:
        (vault / "long.md").write_text(GOOD + f"`src/{'a' * 300}.py`\n")
        (only,) = lint(settings, follow=True)
        assert len(only.stale) == 1

    def test_files_of_other_places_are_not_judged_by_this_project(self, settings: Settings, tmp_path: Path) -> None:
        (tmp_path / "other.md").write_text("`src/gone.py` " + GOOD)
        (only,) = lint(settings, [tmp_path / "other.md"], follow=True)
        assert (only.stale, only.references) == ((), 0)


class TestMovingPaths:
    def test_only_stale_references_of_writable_memories_follow(self, engine: Engine, project: Path) -> None:
        files = {
            ".scrimshaw/memories/a.md": "---\ntitle: A\nkey_files: [old/home/plan.md]\n---\n"
            "`old/home/plan.md` but old/home/plan.md in prose, and `old/kept.md`, `older/x.md`.\n",
            ".scrimshaw/memories/b.md": "Nothing of the kind, `new/home/plan.md`.\n",
            "docs/guide.md": "Read `old/home/plan.md`.\n",
            "old/kept.md": "kept\n",
            "new/home/plan.md": "plan\n",
        }
        for name, text in files.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_bytes(text.encode())
        index.scan(engine)
        renames = [parse_rename("./old/=new")]
        (repair,) = plan_repairs(engine, renames)
        assert (repair.id, repair.paths) == ("a", (("old/home/plan.md", "new/home/plan.md"),))
        assert "+key_files: [new/home/plan.md]" in repair.diff.splitlines()
        assert {name: (project / name).read_text() for name in files} == files

        apply_repairs(engine, [repair], renames)
        after = files[".scrimshaw/memories/a.md"].replace("[old/home", "[new/home").replace("`old/home", "`new/home")
        assert (project / ".scrimshaw/memories/a.md").read_text() == after
        assert (project / "docs/guide.md").read_text() == files["docs/guide.md"]
        assert plan_repairs(engine, renames) == []

        newest = engine.journal.history("a", 1)[0]
        assert (newest["action"], newest["actor"], newest["reason"]) == (
            Action.UPDATE,
            "human",
            "paths renamed: old -> new",
        )
        assert engine.journal.prior_text("a", newest["prior_hash"]) == files[".scrimshaw/memories/a.md"]

    @pytest.mark.parametrize("text", ["", "old", "=new", "a=a", "a/=a", "/=b"])
    def test_what_renames_nothing_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidRequest, match="is not a rename"):
            parse_rename(text)

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            ("a/b/x.md", "c/b/x.md", ("a", "c")),
            ("a/x.md", "a/y.md", ("a/x.md", "a/y.md")),
            ("x/a.md", "y/x/a.md", ("x", "y/x")),
            ("a.md", "docs/a.md", ("a.md", "docs/a.md")),
        ],
    )
    def test_a_file_that_moved_tells_of_its_folder(self, old: str, new: str, expected: tuple[str, str]) -> None:
        assert widen_rename(old, new) == expected

    def test_windows_separators_are_taken(self) -> None:
        assert parse_rename(r"old\home=.\new\ ".strip()) == ("old/home", "new")


def test_fixtures_and_scratch_of_documents_are_no_memories(open_memory: OpenMemory, project: Path) -> None:
    kept = [
        "docs/testing/how.md",
        "specs/001-x/spec.md",
        "specs/z_archive/000-w/spec.md",
        ".serena/memories/fixtures/s.md",
    ]
    left = [
        "docs/fixtures/a.md",
        "specs/001-x/test-fixtures/b/spec.md",
        "specs/001-x/scratch/c.md",
        "docs/x/testdata/d.md",
    ]
    for name in [*kept, *left, ".scrimshaw/memories/fixtures/mine.md"]:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f"# {name}\nA text about fixtures.\n")
    expected = ["docs/testing/how", "specs/001-x/spec", "specs/z_archive/000-w/spec", "fixtures/s", "fixtures/mine"]
    assert sorted(documents(open_memory())) == sorted(expected)
    everything = open_memory("[index]\nexclude = []\n")
    assert len(documents(everything)) == len(expected) + len(left)


def documents(engine: Engine) -> list[str]:
    """The ids that the sources of an engine give."""
    found = (file for source in engine.sources for file in scan(source, engine.settings.index.max_file_bytes))
    return [file.memory_id for file in found if isinstance(file, SourceFile)]
