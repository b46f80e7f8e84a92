"""Checkpoints: what is kept, what comes back, what is never lost on the way."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import apsw
import pytest
from tests.conftest import OpenMemory
from tests.samples import SECRET, write_memory
from tests.storage.contract import remember

from scrimshaw.app.background import Background
from scrimshaw.config import load
from scrimshaw.engine import Engine, checkpoints, open_engine, sessions, write
from scrimshaw.engine.checkpoints import backup, backup_if_due, create, delete, list_checkpoints, path_of
from scrimshaw.engine.history import undo
from scrimshaw.engine.index import scan, tidy
from scrimshaw.engine.links import link
from scrimshaw.engine.read import search
from scrimshaw.engine.restore import Restored, restore, restore_newest, set_aside
from scrimshaw.errors import (
    AlreadyExists,
    Conflict,
    InvalidRequest,
    NotFound,
    ScrimshawError,
    StorageFailure,
    UnusableArchive,
)
from scrimshaw.models import Action, ItemKind, ItemSource, NewItem, Redacted, Relation
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage import transaction
from scrimshaw.storage.archive import ArchivedFile, Manifest, write_archive
from scrimshaw.storage.maintenance import Maintenance
from scrimshaw.storage.ports import Admission, Learning


def save(engine: Engine, memory_id: str, text: str) -> None:
    write.save(engine, write.NewText(content=text, id=memory_id), force=True)


def tree(folder: Path) -> dict[str, bytes]:
    files = [*folder.joinpath("memories").rglob("*"), folder / "links.toml"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files if path.is_file()}


def rows(folder: Path, *, history: bool = False) -> dict[str, list[tuple[object, ...]]]:
    """The rows of the journal by table; of the history only if asked."""
    connection = apsw.Connection(str(folder / "journal.db"))
    try:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        left = {"migrations", "seals", "sqlite_sequence"} | (set() if history else {"ledger", "contents"})
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in names if name not in left
        }
    finally:
        connection.close()


def item(text: str) -> NewItem:
    source = ItemSource(source_tool="Bash", source_call_id="1", extraction_rule_id="r", redaction_applied=False)
    return NewItem(text=Redacted(text=text), kind=ItemKind.RESULT, attention=0.7, source=source)


def work(engine: Engine) -> None:
    """A session with working memory, a review of itself, and something shown."""
    session = sessions.bind_session(engine, "s1")
    assert session
    remember(engine.sessions, item("the harbour is deep"), sessions_admit, "s1")
    engine.sessions.mark_shown("s1", {"a": "hash"}, now=2.0)
    engine.sessions.record_learning(
        Learning(folder="f", task="t", phase="pre", session="s1", knowledge=1, uncertainty=2, context=3, gaps=("x",))
    )


def sessions_admit(*_: object) -> Admission:
    return Admission(admitted=True)


@pytest.fixture
def home(project: Path) -> Path:
    return project / ".scrimshaw"


@pytest.fixture
def notes(open_memory: OpenMemory, vault: Path, project: Path) -> Engine:
    """Memories of a person and of an agent, a relation of a document, a session."""
    write_memory(vault, "a", "Harpoons are kept dry.\n")
    write_memory(project / "docs", "guide", "Whaling for beginners.\n")
    engine = open_memory()
    scan(engine)
    save(engine, "deep/b", "Ropes are coiled clockwise.")
    write.update(engine, "deep/b", {}, content="Ropes are coiled anticlockwise.")
    link(engine, "docs/guide", "a", Relation.SUPPORTS)
    work(engine)
    return engine


def wreck(engine: Engine) -> None:
    """Changes through our own doors."""
    write.delete(engine, ["a"])
    write.update(engine, "deep/b", {}, content="Wrong.")
    save(engine, "new/c", "Something else entirely.")
    link(engine, "docs/guide", "new/c", Relation.CAUSED)
    remember(engine.sessions, item("x"), lambda *_: Admission(admitted=False, leaving=(1,)), "s1", now=3.0)
    sessions.bind_session(engine, "s2")


def test_a_checkpoint_holds_everything_durable(notes: Engine, home: Path) -> None:
    made = create(notes, "one", metadata={"why": f"before {SECRET}"})
    with zipfile.ZipFile(made.path) as opened:
        names = set(opened.namelist())
    tables = {f"tables/{name}.jsonl" for name, kept in rows(home, history=True).items() if kept}
    assert names == {
        "manifest.json", "files/memories/a.md", "files/memories/deep/b.md", "files/links.toml", "files/config.toml",
        *tables,
    }  # fmt: skip
    assert {"tables/items.jsonl", "tables/ledger.jsonl", "tables/contents.jsonl"} <= tables
    assert SECRET not in str(made.metadata)
    assert list_checkpoints(notes)[0] == made


def test_exactly_that_state_comes_back(notes: Engine, home: Path) -> None:
    create(notes, "one")
    before, tables = tree(home), rows(home)
    wreck(notes)
    ledger = notes.journal.verify()[0]
    back = restore(notes, path_of(notes, "one"), clear_existing=True)
    assert tree(home) == before
    assert rows(home) == tables
    assert (back.written, back.removed) == (
        ("links.toml", "memories/a.md", "memories/deep/b.md"), ("memories/new/c.md",),
    )  # fmt: skip
    assert (back.sampled, back.found, back.missing) == (2, 2, ())
    assert [hit.memory.id for hit in search(notes, SearchRequest(query="anticlockwise")).hits] == ["deep/b"]
    assert search(notes, SearchRequest(query="something else entirely")).hits == ()
    assert notes.journal.verify() == (ledger + 5, 0)
    assert {row["action"] for row in notes.journal.history(limit=5)} == {Action.RESTORE}
    assert scan(notes).changes == ()
    assert notes.journal.verify() == (ledger + 5, 0)


def test_the_backup_before_brings_the_wreck_back(notes: Engine, home: Path) -> None:
    create(notes, "one")
    wreck(notes)
    wrecked, tables = tree(home), rows(home)
    back = restore(notes, path_of(notes, "one"), clear_existing=True)
    restore(notes, path_of(notes, back.backup), clear_existing=True)
    assert tree(home) == wrecked
    assert rows(home) == tables


def test_a_merge_brings_back_what_is_missing_and_keeps_the_rest(notes: Engine, home: Path, vault: Path) -> None:
    create(notes, "one")
    write.delete(notes, ["a"])
    write.update(notes, "deep/b", {}, content="Newer.")
    save(notes, "new/c", "Something else entirely.")
    changed = (vault / "deep/b.md").read_bytes()
    back = restore(notes, path_of(notes, "one"))
    assert (back.written, back.removed, back.kept) == (("memories/a.md",), (), 4)
    assert (vault / "deep/b.md").read_bytes() == changed
    assert (vault / "new/c.md").exists()
    assert (vault / "a.md").read_text() == "Harpoons are kept dry.\n"


def test_a_restored_file_can_be_undone(notes: Engine, home: Path) -> None:
    create(notes, "one")
    wreck(notes)
    wrecked = tree(home)
    restore(notes, path_of(notes, "one"), clear_existing=True)
    for row in notes.journal.history(limit=4):
        undo(notes, entry=row["seq"])
    assert tree(home) == wrecked


def test_rows_that_are_missing_come_back(notes: Engine, home: Path) -> None:
    create(notes, "one")
    tables = rows(home)
    connection = apsw.Connection(str(home / "journal.db"))
    connection.execute("DELETE FROM items; DELETE FROM shown; DELETE FROM learnings")
    connection.close()
    back = restore(notes, path_of(notes, "one"))
    assert rows(home) == tables
    assert {name: back.rows[name] for name in ("items", "shown", "learnings")} == {
        "items": 1,
        "shown": 1,
        "learnings": 1,
    }


@pytest.mark.parametrize("is_scanned", [False, True])
def test_an_edit_by_hand_is_never_overwritten_unasked(notes: Engine, home: Path, vault: Path, is_scanned: bool) -> None:
    create(notes, "one")
    (vault / "a.md").write_text("An hour of work.")
    (vault / "mine.md").write_text("Mine.")
    if is_scanned:
        scan(notes)
    before, tables = tree(home), rows(home)
    with pytest.raises(Conflict, match=r"memories/a\.md, memories/mine\.md") as refused:
        restore(notes, path_of(notes, "one"), clear_existing=True)
    assert refused.value.details["edits"] == ["memories/a.md", "memories/mine.md"]
    assert (tree(home), rows(home)) == (before, tables)
    planned = restore(notes, path_of(notes, "one"), clear_existing=True, dry_run=True)
    assert planned.edits == ("memories/a.md", "memories/mine.md")
    back = restore(notes, path_of(notes, "one"), clear_existing=True, overwrite_edits=True)
    assert (vault / "a.md").read_text() == "Harpoons are kept dry.\n"
    assert not (vault / "mine.md").exists()
    restore(notes, path_of(notes, back.backup), clear_existing=True)
    assert (vault / "a.md").read_text() == "An hour of work."


def test_a_dry_run_changes_nothing(notes: Engine, home: Path) -> None:
    create(notes, "one")
    wreck(notes)
    before, tables = tree(home), rows(home, history=True)
    planned = restore(notes, path_of(notes, "one"), clear_existing=True, dry_run=True)
    assert (planned.written[-1], planned.removed, planned.dry_run) == (
        "memories/deep/b.md",
        ("memories/new/c.md",),
        True,
    )
    assert (tree(home), rows(home, history=True)) == (before, tables)
    assert [each.name for each in list_checkpoints(notes)] == ["one"]


def test_what_was_purged_stays_away(notes: Engine, vault: Path, tmp_path: Path) -> None:
    backup(notes, tmp_path / "one.scrim")
    prior = notes.journal.history("deep/b", 1)[0]["prior_hash"]
    write.delete(notes, ["deep/b"], purge=True)
    back = restore(notes, tmp_path / "one.scrim", clear_existing=True)
    assert back.purged == ("memories/deep/b.md",)
    assert not (vault / "deep/b.md").exists()
    assert notes.journal.prior_text("deep/b", prior) is None


def test_a_secret_written_by_hand_is_not_copied(notes: Engine, vault: Path) -> None:
    (vault / "a.md").write_text(f"The token is {SECRET}.\n")
    scan(notes)
    made = create(notes, "one")
    with zipfile.ZipFile(made.path) as opened:
        assert SECRET.encode() not in opened.read("files/memories/a.md")
    back = restore(notes, path_of(notes, "one"), clear_existing=True)
    assert back.written == ()
    assert SECRET in (vault / "a.md").read_text()


def test_settings_are_brought_back_and_never_replaced(notes: Engine, home: Path) -> None:
    create(notes, "one")
    (home / "config.toml").write_text('[embedding]\nprovider = "none"\n# mine\n')
    restore(notes, path_of(notes, "one"), clear_existing=True)
    assert "# mine" in (home / "config.toml").read_text()
    (home / "config.toml").unlink()
    assert restore(notes, path_of(notes, "one")).written == ("config.toml",)


def test_the_global_vault_is_left_out_unless_asked_for(notes: Engine, home: Path) -> None:
    user = notes.settings.home / "memories"
    write_memory(user, "style", "Tabs are for sails.\n")
    scan(notes)
    create(notes, "without")
    create(notes, "with", include_global=True)
    assert [each.files for each in list_checkpoints(notes)] == [5, 4]
    write.delete(notes, ["global/style"])
    assert restore(notes, path_of(notes, "without"), clear_existing=True).written == ()
    assert restore(notes, path_of(notes, "with"), clear_existing=True).written == ("global/style.md",)
    assert (user / "style.md").read_text() == "Tabs are for sails.\n"


# Names, numbers, age


@pytest.mark.parametrize("name", ["", "a/b", "../up", "con", "a:b", "x" * 300, f"of-{SECRET}", "auto-mine"])
def test_a_name_that_cannot_be_used_is_refused(notes: Engine, name: str) -> None:
    with pytest.raises(InvalidRequest):
        create(notes, name)


def test_a_name_is_used_once(notes: Engine) -> None:
    create(notes, "one")
    with pytest.raises(AlreadyExists):
        create(notes, "one")


def test_ten_of_each_kind_are_kept(notes: Engine) -> None:
    for number in range(12):
        last = create(notes, f"n{number:02}")
    assert last.dropped == ("n01",)
    for _ in range(11):
        checkpoints.checkpoint_before(notes, "delete")
    names = [each.name for each in list_checkpoints(notes, limit=100)]
    assert sum(name.startswith("auto-delete-") for name in names) == 10
    assert [name for name in names if not name.startswith("auto-")] == [f"n{number:02}" for number in range(11, 1, -1)]
    assert len(list_checkpoints(notes, limit=3)) == 3


def test_a_day_has_one_backup_and_three_are_kept(notes: Engine) -> None:
    made = []
    for hour in range(0, 24 * 5, 6):
        late = replace(notes, clock=partial(float, 1_800_000_000 // 86_400 * 86_400 + hour * 3600))
        made.append(backup_if_due(late))
    assert [bool(each) for each in made] == [True, False, False, False] * 5
    assert [each.name for each in list_checkpoints(notes)] == [
        "auto-daily-20270119",
        "auto-daily-20270118",
        "auto-daily-20270117",
    ]


def test_an_empty_memory_needs_no_backup(engine: Engine, home: Path) -> None:
    assert backup_if_due(engine) is None
    assert not (home / "checkpoints").exists()


def test_a_server_makes_the_backup_of_the_day(notes: Engine) -> None:
    background = Background(notes)
    background.start()
    background.wait_until_fresh(60)
    patience = time.monotonic() + 60
    while not list_checkpoints(notes) and time.monotonic() < patience:
        time.sleep(0.02)
    background.stop()
    assert [each.name[:10] for each in list_checkpoints(notes)] == ["auto-daily"]


@pytest.mark.parametrize(("count", "purge", "kept"), [(9, False, 0), (10, False, 1), (10, True, 0)])
def test_before_many_are_deleted_a_checkpoint_is_made(notes: Engine, count: int, purge: bool, kept: int) -> None:
    ids = [f"n{number}" for number in range(count)]
    for name in ids:
        save(notes, name, f"Text of {name}.")
    write.delete(notes, ids, purge=purge)
    assert len(list_checkpoints(notes)) == kept
    if kept:
        assert restore(notes, Path(list_checkpoints(notes)[0].path)).found == 10


def test_a_write_in_between_is_in_the_checkpoint(notes: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    dump = type(notes.maintenance).dump_rows

    def late(maintenance: Maintenance) -> Iterator[tuple[str, Mapping[str, object]]]:
        if not notes.index.get(["late"]):
            save(notes, "late", "Said when the files were read already.")
        yield from dump(maintenance)

    monkeypatch.setattr(type(notes.maintenance), "dump_rows", late)
    made = create(notes, "one")
    with zipfile.ZipFile(made.path) as opened:
        assert "files/memories/late.md" in opened.namelist()


def test_a_checkpoint_is_deleted_by_its_name_said_twice(notes: Engine) -> None:
    create(notes, "one")
    with pytest.raises(InvalidRequest, match="Repeat the name"):
        delete(notes, "one", "two")
    delete(notes, "one", "one")
    assert list_checkpoints(notes) == []
    with pytest.raises(NotFound):
        delete(notes, "one", "one")


def test_a_damaged_checkpoint_is_listed_with_its_fault(notes: Engine) -> None:
    made = create(notes, "one")
    Path(made.path).write_bytes(b"PK nothing of the kind")
    (found,) = list_checkpoints(notes)
    assert (found.name, "damaged" in found.problem) == ("one", True)


# What fails leaves all as it was


@pytest.mark.parametrize(
    "name",
    ["memories/../../../escape.md", "/tmp/escape.md", "memories//tmp/escape.md", "../escape.md", "escape.md",
     "memories/escape.exe", "memories/up/../../links.md", "global/../escape.md", "index.db"],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_is_refused(notes: Engine, home: Path, tmp_path: Path, name: str) -> None:
    wreck(notes)
    before, tables = tree(home), rows(home, history=True)
    head = Manifest(format=1, schema=notes.maintenance.schema, name="x", created=0.0, metadata={}, parts={})
    file = tmp_path / "x.scrim"
    write_archive(file, head, [ArchivedFile(name=name, text=Redacted(text="x"), content_hash="")], [])
    with pytest.raises(InvalidRequest):
        restore(notes, file, clear_existing=True)
    assert (tree(home), rows(home, history=True)) == (before, tables)
    assert not list(tmp_path.rglob("escape*"))


def test_an_unusable_checkpoint_changes_nothing(notes: Engine, home: Path) -> None:
    made = create(notes, "one")
    wreck(notes)
    before, tables = tree(home), rows(home, history=True)
    data = bytearray(Path(made.path).read_bytes())
    place = data.index(b"files/memories/deep/b.md") + 40
    data[place] ^= 0xFF
    Path(made.path).write_bytes(data)
    with pytest.raises(UnusableArchive):
        restore(notes, path_of(notes, "one"), clear_existing=True)
    assert (tree(home), rows(home, history=True)) == (before, tables)
    assert list(home.rglob(".scrimshaw-tmp-*")) == []


def test_a_disk_that_fills_leaves_the_files(notes: Engine, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(notes, "one")
    wreck(notes)
    before, tables = tree(home), rows(home, history=True)
    force, left = os.fsync, iter([None, None, None])

    def full(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode) and next(left, "full"):
            raise OSError(28, "No space left on device")
        force(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFailure, match="No space"):
        restore(notes, path_of(notes, "one"), clear_existing=True)
    assert (tree(home), rows(home, history=True)) == (before, tables)
    assert list(home.rglob(".scrimshaw-tmp-*")) == []


def test_rows_that_do_not_go_in_leave_the_files(notes: Engine, home: Path) -> None:
    create(notes, "one")
    wreck(notes)
    before = tree(home)
    connection = apsw.Connection(str(home / "journal.db"))
    connection.execute("CREATE TRIGGER no BEFORE INSERT ON items BEGIN SELECT raise(ABORT, 'refused'); END")
    tables = rows(home, history=True)
    with pytest.raises(UnusableArchive, match="refused"):
        restore(notes, path_of(notes, "one"), clear_existing=True)
    assert (tree(home), rows(home, history=True)) == (before, tables)
    connection.close()


# A process that is killed in the middle


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_write_of_a_running_server_comes_after_the_recovery(notes: Engine, project: Path, home: Path) -> None:
    create(notes, "one")
    wreck(notes)
    before = tree(home)
    killed(project, "before the commit")
    write.update(notes, "deep/b", {}, content="Said by the server.")
    assert {**tree(home), "memories/deep/b.md": b""} == {**before, "memories/deep/b.md": b""}
    with open_again(project) as engine:
        assert "Said by the server." in engine.index.bodies(["deep/b"])["deep/b"]
        assert b"Said by the server." in tree(home)["memories/deep/b.md"]


def killed(project: Path, moment: str) -> None:
    """A restore that is killed at a moment."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(project), moment], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert transaction.is_interrupted(project / ".scrimshaw")


KILLED = """
import os, signal, sys
from pathlib import Path
from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.engine.checkpoints import path_of
from scrimshaw.engine.restore import restore
from scrimshaw.storage import transaction

project, moment = Path(sys.argv[1]), sys.argv[2]
die = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
engine = open_engine(load(project, home=project.parent / "home", environment={}))
if moment == "after a rename":
    go = transaction._apply_move
    transaction._apply_move = lambda move: (go(move), die())
elif moment == "between the renames":
    transaction.Path.replace, calls = (lambda self, to: os.replace(self, to) if len(done) < 3 else die()), None
    done = []
    real = transaction._apply_move
    transaction._apply_move = lambda move: (done.extend([1, 1]), real(move))
elif moment == "before the commit":
    from scrimshaw.storage.sqlite import maintenance
    maintenance.SqliteMaintenance.insert_staged = die
else:
    transaction._finish = die
restore(engine, path_of(engine, "one"), clear_existing=True)
"""


def open_again(project: Path) -> Engine:
    return open_engine(load(project, home=project.parent / "home", environment={}))


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(
    ("moment", "is_done"),
    [("after a rename", False), ("between the renames", False), ("before the commit", False), ("after it", True)],
)
@pytest.mark.parametrize("by", ["open", "running server"])
def test_a_killed_restore_is_completed_or_taken_back(
    notes: Engine, project: Path, home: Path, moment: str, is_done: bool, by: str
) -> None:
    create(notes, "one")
    there, wanted = tree(home), rows(home)
    wreck(notes)
    before, tables = tree(home), rows(home)
    killed(project, moment)
    engine = notes if by == "running server" else open_again(project)
    tidy(engine)
    assert tree(home) == (there if is_done else before)
    assert rows(home) == (wanted if is_done else tables)
    assert not transaction.is_interrupted(home)
    assert list((home / "memories").rglob(".scrimshaw-tmp-*")) == []
    external = len([row for row in engine.journal.history() if row["action"] == Action.EXTERNAL])
    scan(engine)
    assert len([row for row in engine.journal.history() if row["action"] == Action.EXTERNAL]) == external
    assert engine.journal.verify()[1] == 0
    if engine is not notes:
        engine.close()


RESTLESS = """
import itertools, sys
from pathlib import Path
from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.engine.checkpoints import path_of
from scrimshaw.engine.restore import restore

project = Path(sys.argv[1])
engine = open_engine(load(project, home=project.parent / "home", environment={}))
print("begin", flush=True)
for name in itertools.cycle(("two", "one")):
    restore(engine, path_of(engine, name), clear_existing=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(5))
def test_a_kill_at_any_moment_leaves_one_state_or_the_other(
    notes: Engine, project: Path, home: Path, attempt: int
) -> None:
    create(notes, "one")
    states = [(tree(home), rows(home))]
    wreck(notes)
    create(notes, "two")
    states.append((tree(home), rows(home)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", RESTLESS, str(project)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as restless:
        assert restless.stdout
        restless.stdout.readline()
        time.sleep(random.uniform(0.0, 0.3))
        restless.kill()
    with open_again(project) as engine:
        assert (tree(home), rows(home)) in states
        tidy(engine)
        scan(engine)
        assert engine.journal.verify()[1] == 0
        assert Action.EXTERNAL not in {row["action"] for row in engine.journal.history(limit=3)}


# Another machine, and a damaged journal


def test_a_backup_is_restored_in_another_project(notes: Engine, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "safe.scrim"
    backup(notes, file)
    with pytest.raises(AlreadyExists):
        backup(notes, file)
    other = tmp_path / "other"
    (other / ".scrimshaw/memories").mkdir(parents=True)
    with open_again(other) as engine:
        back = restore(engine, file)
        assert back.found == back.sampled == 2
        assert tree(other / ".scrimshaw") == tree(home)
        assert rows(other / ".scrimshaw") == rows(home)
        ledger = notes.journal.verify()[0]
        assert engine.journal.verify() == (ledger + 4, 0)
        undo(engine, entry=next(row["seq"] for row in notes.journal.history("deep/b", 1)))


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xa5" * 4096
    path.write_bytes(data)


def test_a_damaged_journal_is_set_aside_and_the_newest_sound_backup_comes_back(
    notes: Engine, project: Path, home: Path
) -> None:
    create(notes, "one")
    ledger = notes.journal.verify()[0]
    tables = rows(home)
    save(notes, "later", "Said after the checkpoint.")
    write.delete(notes, ["a"])
    unusable = create(notes, "two")
    Path(unusable.path).write_bytes(b"PK")
    files = tree(home)
    notes.storage.close()
    assert set_aside(notes.settings) is None
    damage(home / "journal.db")
    aside = set_aside(notes.settings)
    assert aside is not None
    assert aside.name.startswith("journal.db.damaged-")
    assert aside.exists()
    with open_engine(notes.settings, replace_lost_journal=True) as engine:
        back, refused = restore_newest(engine, aside=aside)
        assert (back.name, [error.details["path"] for error in refused]) == ("one", [unusable.path])
        assert rows(home) == tables
        assert tree(home) == files
        assert back.unrecorded == 2  # one said since, one deleted since, and neither undone
        assert back.recovery is not None
        assert back.recovery.absent == ("memories/a.md",)
        assert engine.journal.verify() == (ledger + 3, 0)


def test_without_any_checkpoint_there_is_nothing_to_restore(notes: Engine) -> None:
    with pytest.raises(NotFound, match="no checkpoint that can be used"):
        restore_newest(notes)


def test_a_restore_tells_what_it_did(notes: Engine) -> None:
    create(notes, "one")
    assert restore(notes, path_of(notes, "one")) == Restored(
        name="one", clear_existing=False, written=(), removed=(), kept=4, backup=list_checkpoints(notes)[0].name
    )


def test_a_checkpoint_holds_no_half_of_a_change(notes: Engine, vault: Path) -> None:
    save(notes, "anchor", "Anchors are weighed at dawn.")
    before = (vault / "anchor.md").read_bytes()
    change = transaction.FileChange(vault / "anchor.md", vault, before, Redacted(text="Not agreed to."))
    with suppress(ScrimshawError), transaction.atomic_file_changes(notes.folder, "0" * 32, [change]):
        made = create(notes, "one")
        raise StorageFailure("refused", "")
    with zipfile.ZipFile(made.path) as opened:
        assert opened.read("files/memories/anchor.md") == before == (vault / "anchor.md").read_bytes()
