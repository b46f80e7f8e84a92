"""A change and its row in the ledger: both or neither, whatever refuses or dies, and no text is lost in between."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.conftest import OpenMemory
from tests.engine.breaking import small_disk, tamper, written_by_another
from tests.samples import SECRET, write_memory

from scrimshaw.config import load
from scrimshaw.engine import Engine, open_engine, write
from scrimshaw.engine.drafts import Consolidation, consolidate
from scrimshaw.engine.history import undo
from scrimshaw.engine.index import scan
from scrimshaw.engine.ledger import LedgerFile, make_external_entry
from scrimshaw.engine.links import link
from scrimshaw.engine.restore import is_lost
from scrimshaw.errors import AlreadyExists, Conflict, DamagedDatabase, ScrimshawError, StorageFailure
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Relation, Trust, content_hash
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.durable import TEMP_PREFIX
from scrimshaw.storage.sqlite.database import Database
from scrimshaw.storage.sync import sync_index

IMPATIENT = "[index]\nbusy_timeout_ms = 50\n"


def save(engine: Engine, memory_id: str, text: str) -> None:
    write.save(engine, write.NewText(content=text, id=memory_id), force=True)


def tree(folder: Path) -> dict[str, bytes]:
    """What a person sees of a project's memory: the vault and the relations of documents."""
    files = [*folder.joinpath("memories").rglob("*"), folder / "links.toml"]
    seen = (path for path in files if path.is_file() and not path.name.startswith(TEMP_PREFIX))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in seen}


def acts(engine: Engine, memory_id: str = "") -> list[tuple[str, str, str]]:
    """(action, id, actor) of the ledger's rows, oldest first."""
    return [(row["action"], row["memory_id"], row["actor"]) for row in reversed(engine.journal.history(memory_id))]


def newest(engine: Engine, memory_id: str = "") -> int:
    return int(engine.journal.history(memory_id, 1)[0]["seq"])


@pytest.fixture
def notes(open_memory: OpenMemory, vault: Path, project: Path) -> Engine:
    """A memory by a tool, one by hand, and a document that has a relation; nobody waits for the journal."""
    write_memory(vault, "hand", "Harpoons\r\nare kept dry.\n", "title: Harpoons  # dry")
    write_memory(project / "docs", "guide", "Whaling for beginners.\n")
    engine = open_memory(IMPATIENT)
    scan(engine)
    save(engine, "tool", "Ropes are coiled.")
    link(engine, "docs/guide", "tool", Relation.SUPPORTS)
    return engine


CHANGES: Mapping[str, Callable[[Engine], object]] = {
    "save": lambda engine: save(engine, "deep/new", "Blubber is rendered at sea."),
    "update": lambda engine: write.update(engine, "tool", {}, content="Ropes are cut."),
    "update of a hand's file": lambda engine: write.update(engine, "hand", {"tier": "critical"}),
    "delete": lambda engine: write.delete(engine, ["tool", "hand"]),
    "link": lambda engine: link(engine, "tool", "hand", Relation.CAUSED),
    "link of a document": lambda engine: link(engine, "docs/guide", "hand", Relation.CAUSED),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_journal_that_is_held_leaves_the_files(
    notes: Engine, project: Path, change: Callable[[Engine], object]
) -> None:
    before, rows = tree(project / ".scrimshaw"), acts(notes)
    with written_by_another(notes.folder / "journal.db"), pytest.raises(StorageFailure, match="Nothing was changed"):
        change(notes)
    assert tree(project / ".scrimshaw") == before
    assert not (project / ".scrimshaw/memories/deep").exists()
    scan(notes)
    assert acts(notes) == rows
    change(notes)  # the same again, as the answer said
    assert Action.EXTERNAL not in [action for action, _, _ in acts(notes)[len(rows) :]]


def scan_index_only(engine: Engine) -> None:
    most = engine.settings.index.max_file_bytes
    sync_index(engine.index, engine.sources, engine.parse, most, force=False, progress=None)
    assert engine.index.find_ids(differing_in_case="new")


def test_what_somebody_else_wrote_meanwhile_is_not_put_back(notes: Engine, vault: Path) -> None:
    def refuse(*_: object) -> list[int]:
        (vault / "tool.md").write_text("By hand.")
        raise StorageFailure("The disk is full.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notes.journal, "record", refuse)
        with pytest.raises(StorageFailure):
            write.update(notes, "tool", {}, content="Ropes are cut.")
    assert (vault / "tool.md").read_text() == "By hand."


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes, and links need rights")
@pytest.mark.parametrize("stands", ["pipe", "folder", "link out", "nothing to read"])
def test_a_file_that_cannot_be_read_is_not_recorded_as_removed(
    notes: Engine, vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stands: str
) -> None:
    save(notes, "deep/rope", "Ropes are coiled clockwise.")
    before, file = acts(notes, "deep/rope"), vault / "deep/rope.md"
    if stands == "link out":
        shutil.move(vault / "deep", tmp_path / "deep")
        (vault / "deep").symlink_to(tmp_path / "deep")
    elif stands == "nothing to read":
        monkeypatch.setattr(Path, "read_bytes", refuse_to_read)
    else:
        file.unlink()
        os.mkfifo(file) if stands == "pipe" else file.mkdir()
    notes.index.retire([str(file)])
    scan(notes)
    for change in (
        lambda: save(notes, "deep/rope", "Another."),
        lambda: write.delete(notes, ["deep/rope"]),
        lambda: undo(notes, entry=newest(notes, "deep/rope")),
    ):
        with pytest.raises(ScrimshawError):
            change()
    assert acts(notes, "deep/rope") == before


def refuse_to_read(path: Path) -> bytes:
    raise PermissionError(13, "Permission denied", str(path))


def test_a_file_that_cannot_be_put_back_is_named(notes: Engine, vault: Path) -> None:
    def refuse(*_: object) -> list[int]:
        vault.rename(vault.with_name("gone"))
        vault.write_text("in the way")
        raise StorageFailure("The disk is full.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notes.journal, "record", refuse)
        with pytest.raises(
            StorageFailure, match=r"tool\.md could not be restored; its previous text is in the journal"
        ):
            write.delete(notes, ["tool"])


@pytest.fixture
def on_full_disk(tmp_path: Path) -> Iterator[Engine]:
    """The journal's disk is full, the disk of the user's own vault is not."""
    disk = tmp_path / "disk"
    with small_disk(disk, "2m") as mounted:
        if not mounted:
            pytest.skip("this user may not mount a file system")
        (disk / ".scrimshaw/memories").mkdir(parents=True)
        (disk / ".scrimshaw/config.toml").write_text('[embedding]\nprovider = "none"\n')
        with open_engine(load(disk, home=tmp_path / "home", environment={})) as engine:
            save(engine, "global/rope", "Ropes are coiled.")
            fill(disk)
            yield engine


def fill(disk: Path) -> None:
    with (disk / "fill").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 512):
            pass


def test_a_full_disk_of_the_journal_leaves_the_files(on_full_disk: Engine, tmp_path: Path) -> None:
    path = tmp_path / "home/memories/rope.md"
    before = path.read_bytes()
    big = "Ropes are cut. " * 2000
    for change in (
        lambda: write.update(on_full_disk, "global/rope", {}, content=big),
        lambda: save(on_full_disk, "global/new", big),
    ):
        with pytest.raises(StorageFailure, match="Nothing was changed"):
            change()
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == {"rope.md": before}


KILLED = """
import os, signal, sys
from pathlib import Path
from scrimshaw.config import load
from scrimshaw.engine import links, open_engine, write
from scrimshaw.models import Relation

project = Path(sys.argv[1])
engine = open_engine(load(project, home=project.parent / "home", environment={}))
real = engine.journal.record

def record(entries, *more):
    if [entry for entry in entries if entry.action != "external"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(entries, *more)

engine.journal.record = record
exec(sys.argv[2])
"""

KILLS = {
    "update": ("write.update(engine, 'tool', {}, content='Ropes are cut.')", "tool"),
    "update of a hand's file": ("write.update(engine, 'hand', {}, content='Cut.')", "hand"),
    "delete": ("write.delete(engine, ['tool'])", "tool"),
    "link": ("links.link(engine, 'tool', 'hand', Relation.CAUSED)", "tool"),
    "link of a document": ("links.link(engine, 'docs/guide', 'hand', Relation.CAUSED)", "links.toml"),
}


def killed(project: Path, code: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(project), code], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(("code", "name"), KILLS.values(), ids=KILLS)
def test_what_a_killed_process_changed_can_be_undone(notes: Engine, project: Path, code: str, name: str) -> None:
    before = tree(project / ".scrimshaw")
    killed(project, code)
    assert tree(project / ".scrimshaw") != before
    scan(notes)
    assert acts(notes, name)[-1][0] == Action.EXTERNAL
    assert undo(notes, entry=newest(notes, name)).undone == 1
    assert tree(project / ".scrimshaw") == before


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_delete_of_several_is_taken_back_by_the_next_writer(notes: Engine, project: Path) -> None:
    before, rows = tree(project / ".scrimshaw"), acts(notes)
    killed(project, "write.delete(engine, ['tool', 'hand'])")
    assert tree(project / ".scrimshaw") != before
    with notes.write_lock():
        assert tree(project / ".scrimshaw") == before
    scan(notes)
    assert acts(notes) == rows


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_hands_change_just_before_is_not_lost_with_a_killed_process(
    notes: Engine, project: Path, vault: Path
) -> None:
    (vault / "tool.md").write_text("Between two scans.")
    killed(project, KILLS["delete"][0])
    scan(notes)
    assert undo(notes, entry=newest(notes, "tool")).undone == 1
    assert (vault / "tool.md").read_text() == "Between two scans."


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_texts_that_an_older_version_did_not_keep_are_kept_before_a_change(
    notes: Engine, project: Path, vault: Path
) -> None:
    tamper(notes.folder / "journal.db", "DELETE FROM contents")
    before = tree(project / ".scrimshaw")
    killed(project, KILLS["delete"][0])
    scan(notes)
    assert undo(notes, entry=newest(notes, "tool")).undone == 1
    assert tree(project / ".scrimshaw") == before


@pytest.mark.parametrize(
    ("change", "commits"),
    [("save", 1), ("update", 1), ("update of a hand's file", 1), ("delete", 1), ("link of a document", 1)],
)
def test_a_change_of_what_the_ledger_knows_is_one_commit(
    notes: Engine, monkeypatch: pytest.MonkeyPatch, change: str, commits: int
) -> None:
    calls = []
    journal = type(notes.journal)
    record = journal.record

    def counted(*given: Any) -> list[int]:
        calls.append(given)
        return record(*given)

    monkeypatch.setattr(journal, "record", counted)
    CHANGES[change](notes)
    assert len(calls) == commits


# What a hand did


def test_a_hands_change_before_a_tools_has_a_row_of_its_own(notes: Engine, vault: Path) -> None:
    (vault / "tool.md").write_text("By hand.")
    write.update(notes, "tool", {}, content="By a tool.")
    (vault / "hand.md").unlink()
    notes.index.retire([str(vault.resolve() / "hand.md")])
    save(notes, "hand", "Anew.")
    assert acts(notes, "tool")[-2:] == [("external", "tool", "human"), ("update", "tool", "agent")]
    assert acts(notes, "hand") == [("external", "hand", "human")] * 2 + [("create", "hand", "agent")]
    (vault / "tool.md").write_text("By hand again.")
    write.delete(notes, ["tool"])
    assert undo(notes, entry=newest(notes, "tool")).undone == 1
    assert (vault / "tool.md").read_text() == "By hand again."
    assert notes.journal.verify()[1] == 0


def test_a_refused_change_leaves_no_row(notes: Engine, vault: Path) -> None:
    rows = acts(notes)
    (vault / "tool.md").write_text("By hand.")
    with pytest.raises(Conflict):
        write.update(notes, "tool", {}, content="two", expected_hash="0" * 64)
    write_memory(vault, "unseen", "By hand.")
    with pytest.raises(AlreadyExists):
        save(notes, "unseen", "By a tool.")
    assert acts(notes) == rows


@pytest.mark.parametrize("name", ["tool", "hand"])
def test_a_hands_removal_and_edit_can_be_undone(notes: Engine, vault: Path, name: str) -> None:
    path = vault / f"{name}.md"
    before = path.read_bytes()
    path.unlink()
    scan(notes)
    assert undo(notes, entry=newest(notes, name)).undone == 1
    assert path.read_bytes() == before
    path.write_text("First by hand.")
    scan(notes)
    path.write_text("Second by hand.")
    scan(notes)
    assert undo(notes, entry=newest(notes, name)).undone == 1
    assert path.read_text() == "First by hand."


def test_many_first_sights_keep_every_text(
    open_memory: OpenMemory, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrimshaw.engine.ledger.EXTERNAL_BATCH", 3)
    for number in range(7):
        write_memory(vault, f"n{number}", f"Number {number}.")
    engine = open_memory()
    scan(engine)
    assert [acts(engine, f"n{number}") for number in range(7)] == [
        [("external", f"n{number}", "human")] for number in range(7)
    ]
    rows = [engine.journal.history(f"n{number}")[0] for number in range(7)]
    texts = [engine.journal.prior_text(row["memory_id"], row["new_hash"]) for row in rows]
    assert texts == [f"Number {number}." for number in range(7)]


def test_a_first_sight_says_so_and_is_not_undone(notes: Engine, vault: Path) -> None:
    (row,) = notes.journal.history("hand")
    assert (row["reason"], row["prior_hash"]) == ("first seen", "")
    done = undo(notes, entry=row["seq"])
    assert (done.undone, "no state before the file appeared" in done.steps[0].trouble) == (0, True)
    assert (vault / "hand.md").exists()


@pytest.mark.parametrize(
    ("said", "now", "reason"),
    [
        (None, "h", "first seen"),
        ("", "h", "the file came back outside Scrimshaw"),
        ("g", "h", "the file changed outside Scrimshaw"),
        ("g", "", "the file was removed outside Scrimshaw"),
    ],
)
def test_an_external_row_claims_no_more_than_was_seen(said: str | None, now: str, reason: str) -> None:
    nowhere = Path()
    own, shared, serenas = (
        make_external_entry(LedgerFile(name, nowhere, nowhere, None, now, source), said)
        for name, source in (("a", "vault"), ("global/a", "global"), ("a", "serena"))
    )
    assert (own.reason, own.actor, shared.reason, shared.actor) == (reason, "human", reason, "external")
    assert (serenas.actor, serenas.decision_meta) == ("external", {"vault": "serena"})


def test_another_projects_change_of_the_shared_vault_is_nobodys(open_memory: OpenMemory, tmp_path: Path) -> None:
    engine = open_memory()
    other = tmp_path / "other"
    (other / ".scrimshaw/memories").mkdir(parents=True)
    (other / ".scrimshaw/config.toml").write_text('[embedding]\nprovider = "none"\n')
    with open_engine(load(other, home=tmp_path / "home", environment={})) as theirs:
        save(theirs, "global/note", "Of the other project.")
    scan(engine)
    assert acts(engine) == [("external", "global/note", "external")]


# The ledger's own guard


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_a_row_is_not_put_in_the_place_of_another(notes: Engine, seq: int) -> None:
    rows = notes.journal.verify()
    assert rows == (3, 0)
    replaced = f"INSERT OR REPLACE INTO ledger SELECT {seq}, at, 'x', memory_id, reason, prior_hash, new_hash,"
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        tamper(
            notes.folder / "journal.db",
            f"{replaced} linked_memory_ids, decision_meta, actor, session, chain FROM ledger WHERE seq = {seq}",
        )
    save(notes, "more", "More.")
    assert notes.journal.verify() == (4, 0)


def test_texts_of_an_older_journal_are_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    old = Database(path, "journal", durable=True, busy_timeout_ms=1000, through=6)
    with old.write() as write:
        write.execute("INSERT INTO contents VALUES ('h', 'a', ?, 1.0)", (b"text of a",))
    old.close()
    with closing(Storage(tmp_path, busy_timeout_ms=1000)) as storage:
        assert (storage.journal.prior_text("a", "h"), storage.maintenance.check("journal")) == ("text of a", [])


# Rows that say who and what


def test_a_change_that_changes_nothing_leaves_no_row(notes: Engine, vault: Path) -> None:
    write.update(notes, "tool", {"tier": "critical"})
    rows, before = acts(notes), (vault / "tool.md").read_bytes()
    assert write.update(notes, "tool", {"tier": "critical"}).status == "unchanged"
    hand = notes.index.bodies(["hand"])["hand"]
    assert write.update(notes, "hand", {}, content=hand).status == "unchanged"
    link(notes, "docs/guide", "tool", Relation.SUPPORTS)
    assert (acts(notes), (vault / "tool.md").read_bytes()) == (rows, before)
    with pytest.raises(Conflict):
        write.update(notes, "tool", {"tier": "critical"}, expected_hash="0" * 64)


def test_a_merge_names_each_source_once(notes: Engine) -> None:
    body = "The compass is read at noon since the needle swings in the morning, and the log says so twice.\n"
    for number in range(2):
        save(notes, f"s{number}", f"# Session {number}\n\n{body}")
    proposal = Consolidation(
        title="ship: 2 sessions", topic="ship", content=f"# Ship\n\n{body}", sources=("s0", "s1"), topics=("ship",),
        triggers=("ship compass", "needle at noon"), trust=Trust.AGENT,
    )  # fmt: skip
    (row,) = notes.journal.history(consolidate(notes, proposal).id)
    named = row["linked_memory_ids"]
    assert {"s0", "s1"} <= set(named)
    assert len(named) == len(set(named))


def test_a_secret_in_a_hands_file_is_kept_out_of_the_journal(notes: Engine, vault: Path) -> None:
    write_memory(vault, "leak", f"The token is {SECRET}.\n")
    scan(notes)
    write.update(notes, "leak", {"tier": "critical"})
    stored = b"".join(path.read_bytes() for path in notes.folder.glob("journal.db*"))
    assert SECRET.encode() not in stored


def test_a_file_that_is_as_its_redacted_text_has_a_hash_of_its_own(notes: Engine, vault: Path) -> None:
    path = write_memory(vault, "leak", f"The token is {SECRET}.\n")
    scan(notes)
    path.write_text(redact(path.read_text()).text)
    now = content_hash(path.read_bytes())
    write.update(notes, "leak", {"tier": "critical"}, expected_hash=now)
    assert acts(notes, "leak") == [("external", "leak", "human")] * 2 + [("update", "leak", "agent")]
    assert notes.journal.history("leak", 1)[0]["prior_hash"] == now


@pytest.mark.parametrize("value", ["CAST(x'ff' AS BLOB)", "7"])
def test_a_kept_text_that_is_none_is_damage(notes: Engine, value: str) -> None:
    tamper(notes.folder / "journal.db", f"UPDATE contents SET content = {value}")
    with pytest.raises(DamagedDatabase):
        write.update(notes, "hand", {}, content="New.")
    assert is_lost(notes.settings)
