"""The index in step with the files: what is read again, what is left alone, what is reported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from tests.samples import digest, document
from tests.storage.contract import open_storage

from scrimshaw.errors import UnreadableFile
from scrimshaw.models import RECORD, ArtifactClass, Document, Filters, Skip, SourceFile
from scrimshaw.storage.index import Index
from scrimshaw.storage.maintenance import Maintenance
from scrimshaw.storage.ports import Query
from scrimshaw.storage.scan import MAX_BYTES, Source, scan
from scrimshaw.storage.sqlite.index import SqliteIndex
from scrimshaw.storage.sync import Change, SyncReport, compare_files, sync_index
from scrimshaw.storage.toml_files import LINKS_FILE


class Project:
    """Two sources on disk and one index; `parsed` lists the ids of the files that were parsed."""

    def __init__(self, folder: Path, index: Index, maintenance: Maintenance) -> None:
        self.root, self.docs, self.index = folder / "vault", folder / "docs", index
        self.maintenance = maintenance
        self.sources = [Source("vault", self.root, writable=True), Source("docs", self.docs)]
        self.parsed: list[str] = []
        self.root.mkdir()
        self.docs.mkdir()

    def write(self, name: str, text: str, *, docs: bool = False, mtime_ns: int | None = None) -> Path:
        path = (self.docs if docs else self.root) / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if mtime_ns is not None:
            os.utime(path, ns=(mtime_ns, mtime_ns))
        return path

    def parse(self, file: SourceFile, raw: bytes) -> Document:
        self.parsed.append(file.memory_id)
        text = raw.decode()
        if "broken" in text:
            raise UnreadableFile(f"{Path(file.path).name} is broken.")
        if "explode" in text:
            raise ValueError(file.memory_id)
        return document(file.memory_id, text, file=file, content_hash=digest(text))

    def sync(self, *, force: bool = False, max_bytes: int = MAX_BYTES) -> SyncReport:
        self.parsed.clear()
        return sync_index(self.index, self.sources, self.parse, max_bytes, force=force, progress=None)

    def check(self) -> list[str]:
        return self.maintenance.check("index")

    def skips(self) -> list[Skip]:
        states = self.index.manifest().values()
        return [Skip(path=state.path, reason=state.reason) for state in states if state.reason]

    def ids(self) -> list[str]:
        return [memory.id for memory in self.index.select(Filters(), sort="id", limit=-1, offset=0)]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with open_storage("sqlite", tmp_path) as storage:
        yield Project(tmp_path, storage.index, storage.maintenance)


def counts(report: SyncReport) -> tuple[int, int, int, int, int]:
    return report.files, report.unchanged, report.added, report.updated, report.removed


def test_new_files_are_added_once(project: Project) -> None:
    project.write("a", "one")
    project.write("in/b", "two")
    report = project.sync()
    assert counts(report) == (2, 0, 2, 0, 0)
    assert report.changes[0] == Change(
        memory_id="a",
        path=os.path.realpath(project.root / "a.md"),
        prior_hash="",
        new_hash=digest("one"),
    )
    assert project.ids() == ["a", "in/b"]
    assert counts(project.sync()) == (2, 2, 0, 0, 0)
    assert project.parsed == []


def test_a_change_is_read_again(project: Project) -> None:
    project.write("a", "one")
    project.write("b", "two")
    project.sync()
    project.write("a", "three")
    report = project.sync()
    assert counts(report) == (2, 1, 0, 1, 0)
    assert [(change.prior_hash, change.new_hash) for change in report.changes] == [(digest("one"), digest("three"))]
    assert project.index.bodies(["a"]) == {"a": "three"}
    assert project.parsed == ["a"]


def test_a_change_of_the_same_size_is_seen_by_its_time(project: Project) -> None:
    path = project.write("a", "one", mtime_ns=10**18)
    project.sync()
    project.write("a", "two", mtime_ns=10**18 + 1)
    assert project.sync().updated == 1
    assert project.index.manifest("vault")[os.path.realpath(path)].mtime_ns == 10**18 + 1


def test_a_touched_file_is_not_parsed_again(project: Project) -> None:
    path = project.write("a", "one", mtime_ns=10**18)
    project.sync()
    os.utime(path, ns=(5, 5))
    assert counts(project.sync()) == (1, 1, 0, 0, 0)
    assert project.parsed == []
    assert project.index.manifest("vault")[os.path.realpath(path)].mtime_ns == 5


def test_force_reads_everything_again(project: Project) -> None:
    project.write("a", "one")
    project.sync()
    report = project.sync(force=True)
    assert project.parsed == ["a"]
    assert [(change.prior_hash, change.new_hash) for change in report.changes] == [(digest("one"), digest("one"))]


def test_a_deleted_file_is_retired(project: Project) -> None:
    path = project.write("a", "one")
    project.sync()
    path.unlink()
    report = project.sync()
    assert counts(report) == (0, 0, 0, 0, 1)
    assert report.changes[0].prior_hash == digest("one")
    assert project.ids() == []
    assert counts(project.sync()) == (0, 0, 0, 0, 0)


def test_a_renamed_file_is_told_as_a_rename(project: Project) -> None:
    path = project.write("old/name", "one")
    project.write("other", "two")
    project.sync()
    (project.root / "new").mkdir()
    path.rename(project.root / "new/name.md")
    report = project.sync()
    assert list(report.renames()) == [("old/name", "new/name")]
    assert (report.added, report.removed) == (1, 1)
    assert project.ids() == ["new/name", "other"]


def test_a_copy_is_no_rename(project: Project) -> None:
    project.write("a", "one")
    project.sync()
    project.write("copy", "one")
    assert list(project.sync().renames()) == []


def test_a_broken_file_is_named_and_its_memory_forgotten(project: Project) -> None:
    project.write("a", "one")
    project.write("b", "two")
    project.sync()
    project.write("a", "broken now")
    report = project.sync()
    assert [skip.reason for skip in report.skipped] == ["a.md is broken."]
    assert project.ids() == ["b"]
    assert report.unchanged == 1


def test_a_broken_file_is_named_at_every_scan_but_read_once(project: Project) -> None:
    project.write("a", "broken")
    assert project.sync().skipped == project.sync().skipped != ()
    assert project.parsed == []


def test_a_repaired_file_is_a_memory_again(project: Project) -> None:
    project.write("a", "one")
    project.sync()
    project.write("a", "broken now")
    project.sync()
    project.write("a", "one")
    report = project.sync()
    assert (report.skipped, report.added, project.ids()) == ((), 1, ["a"])
    assert project.skips() == []


def test_a_failure_is_met_again(project: Project) -> None:
    """Size and time are remembered after the parse, so what stopped a scan is not taken for read."""
    path = project.write("a", "explode")
    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            project.sync()
        assert project.parsed == ["a"]
        assert project.index.manifest("vault") == {}
    path.write_text("harmless")
    assert project.sync().added == 1


def test_a_file_that_grew_too_large_is_retired(project: Project) -> None:
    project.write("a", "one")
    project.sync()
    project.write("a", "x" * 100)
    report = project.sync(max_bytes=50)
    assert report.removed == 1
    assert "100 bytes are more than the limit of 50" in report.skipped[0].reason
    assert project.ids() == []


def test_the_first_source_keeps_an_id(project: Project) -> None:
    mine = project.write("a", "mine")
    project.write("a", "theirs", docs=True)
    report = project.sync()
    assert project.index.bodies(["a"]) == {"a": "mine"}
    assert [skip.reason for skip in report.skipped] == [f"a is read from {os.path.realpath(mine)}"]


@pytest.mark.parametrize("is_first", [True, False])
def test_no_memory_hides_a_document(project: Project, is_first: bool) -> None:
    project.sources[0] = Source("vault", project.root, writable=True, artifact=ArtifactClass.MEMORY)
    mine = project.write("a", "mine")
    project.write("a", "theirs", docs=True)
    if not is_first:
        mine.unlink()
        project.sync()
        assert project.index.bodies(["a", "a.md"]) == {"a": "theirs"}
        project.write("a", "mine")
    assert project.sync().skipped == ()
    assert project.index.bodies(["a", "a.md"]) == {"a": "mine", "a.md": "theirs"}
    assert {name: each.source for name, each in project.index.get(["a", "a.md"]).items()} == {
        "a": "vault",
        "a.md": "docs",
    }
    assert project.sync().unchanged == 2
    mine.unlink()
    project.sync()
    assert project.index.bodies(["a", "a.md"]) == {"a": "theirs"}
    assert project.sync().unchanged == 1


def test_a_shadow_comes_to_light_and_goes_again(project: Project) -> None:
    project.write("a", "theirs", docs=True)
    project.sync()
    mine = project.write("a", "mine")
    project.sync()
    assert project.index.bodies(["a"]) == {"a": "mine"}
    assert [state.reason[:15] for state in project.index.manifest("docs").values()] == ["a is read from "]
    mine.unlink()
    project.sync()
    assert project.index.bodies(["a"]) == {"a": "theirs"}
    assert project.index.get(["a"])["a"].source == "docs"
    assert counts(project.sync()) == (1, 1, 0, 0, 0)


def test_a_link_never_takes_over_the_file_of_another_source(project: Project) -> None:
    """Whichever source comes first, and whenever the link comes and goes."""
    kept = project.write("kept", "The harbour.")
    project.sources = [Source("docs", project.docs.parent, include=("docs/**/*.md",)), *project.sources[:1]]
    assert project.sync().added == 1
    link = project.docs / "link.md"
    link.symlink_to("../vault/kept.md")
    second_name = Skip(path=str(link), reason="symbolic link to a file that has its own entry")
    for force in (False, True):
        assert project.sync(force=force).skipped == (second_name,)
        assert project.ids() == ["kept"]
    project.index.retire(None)
    project.sync()
    assert (project.ids(), project.skips()) == (["kept"], [second_name])
    project.sources.reverse()
    assert (project.sync().changes, project.ids()) == ((), ["kept"])
    hidden = kept.rename(kept.with_suffix(".txt"))
    link.unlink()
    link.symlink_to("../vault/kept.txt")
    project.sync()
    assert project.ids() == ["docs/link"]
    hidden.rename(kept)
    link.unlink()
    project.sync()
    assert (project.ids(), project.skips()) == (["kept"], [])


def test_a_file_known_by_the_name_of_a_link_gets_its_own_again(project: Project) -> None:
    kept = project.write("kept", "The harbour.")
    project.sync()
    info = kept.stat()
    as_link = SourceFile(
        source="docs", memory_id="docs/link", path=str(kept), size=info.st_size, mtime_ns=info.st_mtime_ns
    )
    project.index.put([document("docs/link", "The harbour.", file=as_link, content_hash=digest("The harbour."))])
    assert project.ids() == ["docs/link"]
    assert compare_files(project.index, project.sources, MAX_BYTES)["stale"] == ["kept"]
    assert [change.memory_id for change in project.sync().changes] == ["kept"]
    assert (project.ids(), project.sync().changes) == (["kept"], ())
    assert compare_files(project.index, project.sources, MAX_BYTES)["fresh"] == ["kept"]


def test_a_source_that_is_gone_leaves_nothing_but_records_and_links(project: Project) -> None:
    kept, broken = project.write("kept", "one"), project.write("broken", "broken", docs=True)
    project.write("gone", "two", docs=True)
    for source in (RECORD, LINKS_FILE):
        file = SourceFile(source=source, memory_id="", path=source, size=0, mtime_ns=0)
        project.index.record_file(file, "", skipped="no")
    project.sync()
    vault, docs = project.sources
    project.sources = [vault, Source("papers", docs.root, include=("broken.md",))]
    assert compare_files(project.index, project.sources, MAX_BYTES)["orphaned"] == ["gone"]
    assert (project.sync().removed, project.ids()) == (1, ["kept"])
    assert {path: state.source for path, state in project.index.manifest().items()} == {
        RECORD: RECORD,
        LINKS_FILE: LINKS_FILE,
        os.path.realpath(kept): "vault",
        os.path.realpath(broken): "papers",
    }


def test_progress_counts_to_the_end(project: Project) -> None:
    for number in range(3):
        project.write(str(number), "text")
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))

    sync_index(project.index, project.sources, project.parse, MAX_BYTES, force=False, progress=progress)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_more_files_than_a_batch_are_all_stored(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrimshaw.storage.sync.BATCH", 3)
    for number in range(8):
        project.write(f"n{number}", "broken" if number == 7 else f"text {number}")
    assert project.sync().added == 7
    assert len(project.ids()) == 7


def test_what_another_process_adds_during_the_walk_stays(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_walk(source: Source, max_bytes: int) -> Iterator[SourceFile | Skip]:
        yield from list(scan(source, max_bytes))
        monkeypatch.setattr("scrimshaw.storage.sync.scan", scan)
        if not project.ids():
            project.write("added", "meanwhile")
            project.sync()

    monkeypatch.setattr("scrimshaw.storage.sync.scan", slow_walk)
    project.sync()
    assert project.ids() == ["added"]


def test_the_index_keeps_what_a_scan_passes_over_with_the_reasons(project: Project, tmp_path: Path) -> None:
    project.write("a", "text")
    project.write(".hidden", "text")
    project.write("broken", "broken")
    project.write("large", "x" * 200)
    (project.root / "SHOUTED.MD").write_text("text")
    (project.root / "dangling.md").symlink_to(project.root / "nowhere.md")
    (project.root / "out.md").symlink_to(tmp_path / "elsewhere.md")
    (tmp_path / "elsewhere.md").write_text("text")
    report = project.sync(max_bytes=100)
    names = {Path(skip.path).name for skip in report.skipped}
    assert names == {".hidden.md", "broken.md", "large.md", "SHOUTED.MD", "dangling.md", "out.md"}
    assert project.skips() == list(report.skipped)
    generation = project.index.generation()
    assert project.sync(max_bytes=100).skipped == report.skipped
    assert (project.skips(), project.index.generation()) == (list(report.skipped), generation)
    # What may be read again is read, what has gone is forgotten.
    (project.root / "dangling.md").unlink()
    report = project.sync()
    assert {change.memory_id for change in report.changes} == {"large"}
    assert {Path(skip.path).name for skip in project.skips()} == names - {"large.md", "dangling.md"}


def test_a_memory_whose_file_may_not_be_read_any_more_goes_and_is_told(project: Project) -> None:
    project.write("a", "text")
    project.sync()
    project.write("a", "x" * 200)
    report = project.sync(max_bytes=100)
    assert [(change.memory_id, change.new_hash) for change in report.changes] == [("a", "")]
    assert (project.ids(), project.skips()) == ([], list(report.skipped))


def test_words_of_files_that_were_all_read_again_are_merged(project: Project) -> None:
    for number in range(220):
        project.write(f"note-{number}", " ".join(f"w{number * word % 3001}" for word in range(200)))
    segments = list[int]()
    for force in (False, True):
        project.sync(force=force)
        index = cast("SqliteIndex", project.index)
        segments.append(index._file.value("SELECT count(DISTINCT segid) FROM memory_text_idx"))
    assert segments[0] > segments[1] == 1
    assert len(project.index.match_text(Query((("w3",),)), Filters(), 500)) > 1
