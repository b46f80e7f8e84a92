"""Undo: what the ledger recorded is taken back, byte for byte, and never over somebody's edit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import OpenMemory
from tests.samples import SECRET, write_memory

from scrimshaw.config import load
from scrimshaw.engine import Engine, history, open_engine, write
from scrimshaw.engine.checkpoints import create, path_of
from scrimshaw.engine.history import Undone, undo
from scrimshaw.engine.index import scan
from scrimshaw.engine.links import link, unlink
from scrimshaw.engine.read import search
from scrimshaw.engine.restore import restore
from scrimshaw.errors import Conflict, InvalidRequest, NotFound, ScrimshawError, StorageFailure
from scrimshaw.models import Action, Relation
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage import transaction
from scrimshaw.storage.ports import Row

S = "session-1"


def save(engine: Engine, memory_id: str, text: str, session: str = S) -> None:
    write.save(engine, write.NewText(content=text, id=memory_id, session=session), force=True)


def tree(folder: Path) -> dict[str, bytes]:
    """What a person sees of a project's memory: the vault and the relations of documents."""
    files = [*folder.joinpath("memories").rglob("*"), folder / "links.toml"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files if path.is_file()}


def troubles(undone: Undone) -> list[tuple[str, str]]:
    return [(step.action, step.trouble) for step in undone.steps]


def edges(engine: Engine) -> list[tuple[str, str, str]]:
    return sorted((edge.source, edge.relation, edge.target) for edge, _ in engine.index.edges())


@pytest.fixture
def notes(open_memory: OpenMemory, vault: Path, project: Path) -> Engine:
    """Two memories by hand and a document."""
    write_memory(vault, "a", "Harpoons are kept dry.\n")
    write_memory(vault, "deep/b", "\ufeffRopes\r\nare coiled.\r\n")
    write_memory(project / "docs", "guide", "Whaling for beginners.\n")
    engine = open_memory()
    scan(engine)
    return engine


def change_everything(engine: Engine) -> None:
    save(engine, "new/c", "Blubber is rendered at sea.")
    write.update(engine, "a", {"tier": "critical"}, session=S)
    write.update(engine, "a", {}, content="Harpoons rust.", session=S)
    link(engine, "a", "new/c", Relation.CAUSED, session=S)
    link(engine, "docs/guide", "a", Relation.SUPPORTS, session=S)
    link(engine, "docs/guide", "new/c", Relation.SUPPORTS, 0.5, session=S)
    unlink(engine, "docs/guide", "a", Relation.SUPPORTS, session=S)
    write.delete(engine, ["deep/b"], session=S)


def test_a_session_is_undone_byte_for_byte(notes: Engine, project: Path) -> None:
    before, graph = tree(project / ".scrimshaw"), edges(notes)
    change_everything(notes)
    assert tree(project / ".scrimshaw") != before
    undone = undo(notes, session=S)
    assert (undone.undone, {trouble for _, trouble in troubles(undone)}) == (8, {""})
    assert tree(project / ".scrimshaw") == before
    assert edges(notes) == graph
    assert not (project / ".scrimshaw/memories/new").exists()
    hits = search(notes, SearchRequest(query="coiled ropes")).hits
    assert [hit.memory.id for hit in hits] == ["deep/b"]
    assert search(notes, SearchRequest(query="blubber")).hits == ()
    assert notes.journal.verify()[1] == 0


def test_an_undo_is_recorded_and_can_be_undone(notes: Engine, project: Path) -> None:
    change_everything(notes)
    after = tree(project / ".scrimshaw")
    numbers = [row["seq"] for row in notes.journal.history(session=S)]
    undo(notes, session=S)
    rows = [row for row in notes.journal.history() if row["action"] == Action.RESTORE]
    assert sorted(row["decision_meta"]["undoes"] for row in rows) == sorted(numbers)
    for row in rows:
        assert troubles(undo(notes, entry=row["seq"])) == [("restore", "")]
    assert tree(project / ".scrimshaw") == after
    assert scan(notes).changes == ()
    again = undo(notes, session=S)
    assert again.undone == 8


def test_an_entry_is_undone_once(notes: Engine) -> None:
    save(notes, "c", "Text.")
    (row,) = notes.journal.history("c")
    undo(notes, entry=row["seq"])
    with pytest.raises(Conflict, match="is undone already"):
        undo(notes, entry=row["seq"])
    with pytest.raises(NotFound, match="left to undo"):
        undo(notes, session=S)


def test_what_a_person_edited_since_is_left_alone(notes: Engine, vault: Path) -> None:
    save(notes, "c", "Text of an agent.")
    write.update(notes, "c", {}, content="Second text.", session=S)
    save(notes, "d", "Another.")
    (vault / "c.md").write_text("By hand.")
    undone = undo(notes, session=S)
    assert troubles(undone) == [
        ("create", ""),
        ("update", "the file was changed since"),
        ("create", "a later change of the same file cannot be undone"),
    ]
    assert (vault / "c.md").read_text() == "By hand."
    assert not (vault / "d.md").exists()


def test_a_change_of_another_session_in_between_stands(notes: Engine, vault: Path) -> None:
    write.update(notes, "a", {}, content="one", session=S)
    write.update(notes, "a", {}, content="two", session="other")
    write.update(notes, "a", {}, content="three", session=S)
    assert [trouble for _, trouble in troubles(undo(notes, session=S))] == [
        "", "the file was changed since, by entry 4: undo that one first",
    ]  # fmt: skip
    assert (vault / "a.md").read_text().endswith("two")


def test_a_dry_run_changes_nothing(notes: Engine, project: Path) -> None:
    change_everything(notes)
    before, rows = tree(project / ".scrimshaw"), notes.journal.verify()
    planned = undo(notes, session=S, dry_run=True)
    assert (planned.undone, planned.dry_run) == (8, True)
    assert (tree(project / ".scrimshaw"), notes.journal.verify()) == (before, rows)


def test_what_was_purged_cannot_come_back(notes: Engine) -> None:
    save(notes, "c", "Text.")
    write.delete(notes, ["c"], purge=True, session=S)
    assert [trouble for _, trouble in troubles(undo(notes, session=S))] == [
        "the previous text was not stored",
        "a later change of the same file cannot be undone",
    ]


def test_a_secret_of_a_person_does_not_come_back(notes: Engine, vault: Path) -> None:
    write_memory(vault, "a", f"The token is {SECRET}.\n")
    scan(notes)
    write.delete(notes, ["a"], session=S)
    assert undo(notes, session=S).undone == 1
    assert SECRET not in (vault / "a.md").read_text()
    rows = notes.journal.verify()[0]
    scan(notes)
    assert notes.journal.verify()[0] == rows


@pytest.mark.parametrize("dry_run", [True, False])
def test_secrets_that_do_not_come_back_are_told(notes: Engine, vault: Path, dry_run: bool) -> None:
    write_memory(vault, "a", f"The token is {SECRET}.\nSo is {SECRET}.\n")
    scan(notes)
    save(notes, "c", "No secret in it.")
    write.delete(notes, ["a", "c"], session=S)
    noted = {step.memory_id: step.note for step in undo(notes, session=S, dry_run=dry_run).steps if step.note}
    assert list(noted) == ["a"]
    assert "2 secrets, never stored" in noted["a"]
    assert "will differ" in noted["a"]


def test_bytes_that_are_no_text_are_not_made_up(notes: Engine, vault: Path) -> None:
    (vault / "a.md").write_bytes(b"Harpoons \xff\xfe are kept dry.\n")
    scan(notes)
    (vault / "a.md").write_text("Mended.\n")
    scan(notes)
    (row, *_) = notes.journal.history("a")
    assert troubles(undo(notes, entry=row["seq"])) == [
        ("external", "the previous file had bytes that are not UTF-8 text, which were not stored")
    ]
    assert (vault / "a.md").read_text() == "Mended.\n"
    (vault / "a.md").write_text("The sign \ufffd is text.\n")
    scan(notes)
    write.delete(notes, ["a"], session=S)
    assert undo(notes, session=S).undone == 1


def test_an_undone_session_is_redone_at_once(notes: Engine, project: Path) -> None:
    before = tree(project / ".scrimshaw")
    change_everything(notes)
    after = tree(project / ".scrimshaw")
    for _ in range(2):
        assert undo(notes, session=S).undone == 8
        assert tree(project / ".scrimshaw") == before
        assert {row["decision_meta"]["session"] for row in notes.journal.history(limit=8)} == {S}
        assert undo(notes, session=S, redo=True).undone == 8
        assert tree(project / ".scrimshaw") == after
    with pytest.raises(NotFound, match="no undo of the session"):
        undo(notes, session=S, redo=True)


def test_undos_out_of_order_name_the_entry_in_the_way(notes: Engine) -> None:
    save(notes, "c", "one")
    write.update(notes, "c", {}, content="two")
    created, updated = (row["seq"] for row in reversed(notes.journal.history("c")))
    undo(notes, entry=updated)
    redo = notes.journal.history("c")[0]["seq"]
    undo(notes, entry=created)
    last = notes.journal.history("c")[0]["seq"]
    told = f"the file was changed since, by entry {last}: undo that one first"
    assert troubles(undo(notes, entry=redo)) == [("restore", told)]
    assert undo(notes, entry=last).undone == undo(notes, entry=redo).undone == 1


def test_a_file_that_went_came_back_and_went_is_not_told_as_renamed(notes: Engine, vault: Path) -> None:
    save(notes, "c", "Text.")
    path, text = vault / "c.md", (vault / "c.md").read_bytes()
    for data in (None, text, None):  # as when branches are switched
        path.unlink() if data is None else path.write_bytes(data)
        scan(notes)
    newest = notes.journal.history("c", 1)[0]["seq"]
    expected = f"the file was changed since, by entry {newest}: undo that one first"
    assert troubles(undo(notes, session=S)) == [("create", expected)]


def test_a_file_that_was_renamed_is_named(notes: Engine, vault: Path) -> None:
    save(notes, "c", "Text.")
    (vault / "c.md").rename(vault / "d.md")
    scan(notes)
    assert troubles(undo(notes, session=S)) == [("create", "the file was renamed to 'd' since")]
    assert (vault / "d.md").exists()


def test_an_entry_of_a_whole_restore_names_its_files(notes: Engine) -> None:
    save(notes, "c", "Text.")
    save(notes, "d", "Text.")
    checkpoint = create(notes, "one")
    write.delete(notes, ["c", "d"])
    restore(notes, path_of(notes, checkpoint.name))
    whole = next(row["seq"] for row in notes.journal.history() if not row["memory_id"])
    with pytest.raises(InvalidRequest, match=f"Entry {whole} records a whole restore") as caught:
        undo(notes, entry=whole)
    assert caught.value.hint == f"Undo its files: entries {whole + 1} to {whole + 2}."


def test_an_unknown_entry_is_refused(notes: Engine) -> None:
    with pytest.raises(NotFound, match="entry 999"):
        undo(notes, entry=999)


def test_a_journal_that_fails_leaves_the_files(notes: Engine, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_everything(notes)
    before = tree(project / ".scrimshaw")

    def refuse(*_: object) -> list[int]:
        raise StorageFailure("The disk is full.")

    monkeypatch.setattr(notes.journal, "record", refuse)
    with pytest.raises(StorageFailure):
        undo(notes, session=S)
    assert tree(project / ".scrimshaw") == before
    assert not transaction.is_interrupted(project / ".scrimshaw")
    assert list(project.rglob(".scrimshaw-tmp-*")) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.engine.history import undo

project = Path(sys.argv[1])
engine = open_engine(load(project, home=project.parent / "home", environment={}))
type(engine.journal).record = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
undo(engine, session="session-1")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_undo_is_taken_back(notes: Engine, project: Path) -> None:
    change_everything(notes)
    before, rows = tree(project / ".scrimshaw"), notes.journal.verify()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(project)], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert tree(project / ".scrimshaw") != before
    with open_engine(load(project, home=project.parent / "home", environment={})) as engine:
        assert tree(project / ".scrimshaw") == before
        scan(engine)
        assert engine.journal.verify() == rows
        assert undo(engine, session=S).undone == 8


# Any sequence of changes

IDS = st.sampled_from(["a", "b", "deep/c", "deep/er/d"])
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(str.strip)
RELATIONS = st.sampled_from(list(Relation))


def _save(engine: Engine, name: str, other: str, text: str, relation: Relation) -> None:
    save(engine, name, text)


def _update(engine: Engine, name: str, other: str, text: str, relation: Relation) -> None:
    write.update(engine, name, {"title": text}, content=text, session=S)


def _delete(engine: Engine, name: str, other: str, text: str, relation: Relation) -> None:
    write.delete(engine, [name], session=S)


def _link(engine: Engine, name: str, other: str, text: str, relation: Relation) -> None:
    link(engine, name, other, relation, 0.5, text, session=S)


def _link_document(engine: Engine, name: str, other: str, text: str, relation: Relation) -> None:
    link(engine, "docs/guide", other, relation, session=S)


def _unlink(engine: Engine, name: str, other: str, text: str, relation: Relation) -> None:
    edge = next(edge for edge, _ in engine.index.edges() if edge.relation in set(Relation))
    unlink(engine, edge.source, edge.target, Relation(edge.relation), session=S)


CHANGES: Mapping[str, Callable[[Engine, str, str, str, Relation], None]] = {
    "save": _save, "update": _update, "delete": _delete, "link": _link, "link document": _link_document,
    "unlink": _unlink,
}  # fmt: skip
OPERATIONS = st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), IDS, IDS, TEXTS, RELATIONS), max_size=12)


@contextmanager
def fresh() -> Iterator[tuple[Engine, Path]]:
    """A project of its own for every example."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name).resolve() / "project"
        write_memory(project / ".scrimshaw/memories", "a", "Harpoons.\r\n", "title: A  # kept\ntopics: [x]")
        write_memory(project / ".scrimshaw/memories", "deep/c", "Ropes without an end")
        write_memory(project / "docs", "guide", "Whaling.\n")
        (project / ".scrimshaw/config.toml").write_text('[embedding]\nprovider = "none"\n')
        with open_engine(load(project, home=project.parent / "home", environment={})) as engine:
            scan(engine)
            yield engine, project / ".scrimshaw"


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(OPERATIONS)
def test_any_changes_are_undone_to_the_byte(operations: list[tuple[str, str, str, str, Relation]]) -> None:
    with fresh() as (engine, folder):
        before, graph = tree(folder), edges(engine)
        for kind, name, other, text, relation in operations:
            try:
                CHANGES[kind](engine, name, other, text, relation)
            except (ScrimshawError, StopIteration):
                continue
        rows = len(engine.journal.history(session=S))
        if rows:
            assert undo(engine, session=S).undone == rows
        assert tree(folder) == before
        assert edges(engine) == graph
        assert engine.journal.verify()[1] == 0
        assert scan(engine).changes == ()


def test_many_files_that_were_changed_are_told_without_reading_the_ledger_for_each(
    open_memory: OpenMemory, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, many, named = open_memory(), 40, 0
    for number in range(many):
        save(engine, f"m{number}", f"Whale {number} was seen.")
        (vault / f"m{number}.md").write_text("By hand.\n")
    scan(engine)
    name = history._name

    def counted(row: Row) -> str:
        nonlocal named
        named += 1
        return name(row)

    monkeypatch.setattr(history, "_name", counted)
    done = undo(engine, session=S)
    assert [trouble.startswith("the file was changed since, by entry") for _, trouble in troubles(done)] == [
        True
    ] * many
    assert named <= 8 * many
