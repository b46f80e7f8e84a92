"""Purging: what was planted in each place is there before, and in no byte of any file afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import apsw
import pytest
from msgspec import structs
from tests.conftest import OpenMemory
from tests.samples import report, write_memory
from tests.storage.contract import remember

from scrimshaw.engine import Engine, checkpoints, open_engine, sessions, write
from scrimshaw.engine import purge as purging
from scrimshaw.engine.index import scan
from scrimshaw.engine.purge import Purged, target_memories, target_secret
from scrimshaw.engine.read import search
from scrimshaw.engine.restore import restore
from scrimshaw.errors import InvalidRequest, NotFound, ReadOnly, StorageFailure
from scrimshaw.models import DRAFTS, EventKind, ItemKind, ItemSource, JobState, NewItem, Observation, Redacted
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.durable import TEMP_PREFIX
from scrimshaw.storage.ports import Admission, Learning

# Nothing that the redaction gate knows, so that it stands wherever it is put.
NEEDLE = "zanzibar-walrus-77-keel"
WALRUS = "The walrus of Nantucket was carved by the harbour master himself."


def planted(folder: Path, *names: str, content: str = NEEDLE) -> str:
    """The files below a folder that hold it, packed or not, as somebody else would look for it."""
    return " ".join(sorted(name for name in _holders(folder, content.encode()) if not names or name in names))


def _holders(folder: Path, needle: bytes) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and (needle in path.read_bytes() or needle in path.name.encode() or _packed(path, needle)):
            yield path.relative_to(folder).as_posix()


def _packed(path: Path, needle: bytes) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as opened:
        return any(needle in opened.read(name) for name in opened.namelist())


def purge(engine: Engine, text: str = NEEDLE, **how: bool) -> Purged:
    scope = [(engine, target_secret(text))]
    return purging.purge([(engine, structs.replace(scope[0][1], **how))], purging.find_traces(scope))


def purge_memory(engine: Engine, memory_id: str, **how: bool) -> Purged:
    scope = [(engine, target_memories(engine, [memory_id]))]
    return purging.purge([(engine, structs.replace(scope[0][1], **how))], purging.find_traces(scope))


@contextmanager
def raw(engine: Engine, name: str) -> Iterator[apsw.Connection]:
    """A database as a program without our care opens it."""
    connection = apsw.Connection(str(engine.folder / name))
    try:
        yield connection
    finally:
        connection.close()


# The places


def in_vault_file(engine: Engine, stack: ExitStack) -> str:
    write_memory(engine.folder / "memories", "note", f"It is {NEEDLE}.\n")
    return "memories/note.md"


def in_index_row(engine: Engine, stack: ExitStack) -> str:
    in_vault_file(engine, stack)
    scan(engine)
    engine.maintenance.compact()
    return "index.db"


def in_free_page(engine: Engine, stack: ExitStack) -> str:
    with raw(engine, "index.db") as index:
        index.pragma("secure_delete", False)
        index.execute("CREATE TABLE junk (text)")
        index.executemany("INSERT INTO junk VALUES (?)", [(NEEDLE * 50,)] * 50)
        index.execute("DROP TABLE junk; PRAGMA wal_checkpoint(TRUNCATE)")
        assert index.pragma("freelist_count") > 0
        assert "junk" not in {row[0] for row in index.execute("SELECT name FROM sqlite_master")}
    return "index.db"


def in_log(engine: Engine, stack: ExitStack) -> str:
    journal = stack.enter_context(raw(engine, "journal.db"))
    journal.pragma("wal_autocheckpoint", 0)
    journal.execute("CREATE TABLE junk (text); INSERT INTO junk VALUES (?)", (NEEDLE * 50,))
    journal.execute("DROP TABLE junk")
    return "journal.db-wal"


def in_prior_content(engine: Engine, stack: ExitStack) -> str:
    write.save(engine, write.NewText(content=f"First it was {NEEDLE}.", id="prior"))
    write.update(engine, "prior", {}, content="Then it was nothing of the kind.")
    engine.maintenance.compact()
    return "journal.db"


def in_checkpoint(engine: Engine, stack: ExitStack) -> str:
    in_prior_content(engine, stack)
    checkpoints.create(engine, "kept", metadata={"why": NEEDLE})
    return "checkpoints/kept.scrim"


def in_backup(engine: Engine, stack: ExitStack) -> str:
    in_vault_file(engine, stack)
    checkpoints.backup(engine, engine.folder / "checkpoints/by-hand.scrim")
    return "checkpoints/by-hand.scrim"


def in_job(engine: Engine, stack: ExitStack) -> str:
    engine.journal.enqueue("embed", "k", {"text": NEEDLE})
    job = engine.journal.claim(["embed"], 60.0)
    assert job
    engine.journal.finish(job, JobState.FAILED, f"could not embed {NEEDLE}")
    engine.maintenance.compact()
    return "journal.db"


def in_hook_log(engine: Engine, stack: ExitStack) -> str:
    (engine.folder / "hook.log").write_text(f"2026-11-21T20:40:00 {NEEDLE}\n2026-11-21T20:41:00 fine\n")
    return "hook.log"


def in_session(engine: Engine, stack: ExitStack) -> str:
    sessions.bind_session(engine, "s1")
    report(engine.sessions, "s1", task=f"find {NEEDLE}")
    seen = Observation(session="s1", kind=EventKind.TOOL, tool="Bash", call_id="1", text=Redacted(text=NEEDLE))
    engine.sessions.observe(seen, admit, now=1.0, modulus=100)
    remember(engine.sessions, item(NEEDLE), admit, "s1")
    engine.sessions.record_learning(
        Learning(folder="f", task=NEEDLE, phase="pre", session="s1", knowledge=1, uncertainty=2, context=3, gaps=("x",))
    )
    engine.maintenance.compact()
    return "journal.db"


def in_ledger(engine: Engine, stack: ExitStack) -> str:
    write.save(engine, write.NewText(content="A note.", id="told", reason=f"because of {NEEDLE}"))
    engine.maintenance.compact()
    return "journal.db"


def in_draft(engine: Engine, stack: ExitStack) -> str:
    write_memory(engine.folder / DRAFTS, "s1", f"Draft of {NEEDLE}.\n")
    return "drafts/s1.md"


def in_temporary_file(engine: Engine, stack: ExitStack) -> str:
    (engine.folder / "memories" / f"{TEMP_PREFIX}1").write_text(NEEDLE)
    return f"memories/{TEMP_PREFIX}1"


def in_links(engine: Engine, stack: ExitStack) -> str:
    (engine.folder / "links.toml").write_text(f"# {NEEDLE}\n")
    return "links.toml"


def in_file_name(engine: Engine, stack: ExitStack) -> str:
    write_memory(engine.folder / "memories", f"deep/{NEEDLE}", "A note.\n")
    return f"memories/deep/{NEEDLE}.md"


def in_broken_file(engine: Engine, stack: ExitStack) -> str:
    (engine.folder / "memories/broken.md").write_bytes(b"\xff\xfe\xff" + NEEDLE.encode())
    return "memories/broken.md"


PLACES: tuple[Callable[[Engine, ExitStack], str], ...] = (
    in_vault_file, in_index_row, in_free_page, in_prior_content, in_checkpoint, in_backup, in_job, in_hook_log,
    in_session, in_ledger, in_draft, in_temporary_file, in_links, in_file_name, in_broken_file,
    in_log,
)  # fmt: skip


def item(text: str, memory_id: str = "") -> NewItem:
    source = ItemSource(source_tool="Bash", source_call_id="1", extraction_rule_id="r", redaction_applied=False)
    return NewItem(text=Redacted(text=text), kind=ItemKind.RESULT, attention=0.7, source=source, memory_id=memory_id)


def admit(*_: object) -> Admission:
    return Admission(admitted=True)


@pytest.mark.parametrize("plant", PLACES, ids=lambda plant: plant.__name__)
def test_what_is_planted_is_gone_afterwards(engine: Engine, plant: Callable[[Engine, ExitStack], str]) -> None:
    with ExitStack() as stack:
        place = plant(engine, stack)
        assert planted(engine.folder, place) == place
        done = purge(engine)
        assert planted(engine.folder) == ""
    assert done.is_clean
    assert done.places
    assert NEEDLE not in repr(done)
    assert done.searched_bytes > 100_000
    assert engine.journal.verify()[1] == 0
    assert engine.maintenance.check("index") == engine.maintenance.check("journal") == []


def test_purge_erases_a_secret_from_every_place_at_once(engine: Engine) -> None:
    with ExitStack() as stack:
        places = {plant(engine, stack) for plant in PLACES if plant is not in_prior_content}
        assert planted(engine.folder, *places).split() == sorted(places)
        assert purge(engine).is_clean
        assert planted(engine.folder) == ""
    again = purge(engine)
    assert (again.is_clean, again.places) == (True, ())


def test_a_dry_run_tells_the_places_and_changes_nothing(engine: Engine) -> None:
    with ExitStack() as stack:
        for plant in (in_vault_file, in_job, in_backup, in_hook_log):
            plant(engine, stack)
        before = planted(engine.folder)
        rows = len(engine.journal.history())
        told = purging.find_traces([(engine, target_secret(NEEDLE))])
        assert planted(engine.folder) == before
    counts = {Path(trace.place).name: trace.count for trace in told.places}
    assert counts["note.md"] == counts["hook.log"] == counts["journal.db: jobs"] == 1
    assert counts["by-hand.scrim"] >= 1
    assert (told.dry_run, told.left, len(engine.journal.history())) == (True, (), rows)


def test_the_rest_of_a_file_and_the_memory_stay(engine: Engine, vault: Path) -> None:
    write_memory(vault, "note", f"The harbour is deep.\nIt is {NEEDLE}.\n", "title: Harbour")
    vault.joinpath("note.md").chmod(0o640)
    scan(engine)
    purge(engine)
    assert vault.joinpath("note.md").read_text() == (
        "---\ntitle: Harbour\n---\nThe harbour is deep.\nIt is [REDACTED:purged].\n"
    )
    assert vault.joinpath("note.md").stat().st_mode & 0o777 == 0o640
    (hit,) = search(engine, SearchRequest(query="harbour deep")).hits
    assert hit.memory.id == "note"
    assert search(engine, SearchRequest(query="zanzibar walrus keel")).hits == ()


def test_the_ledger_tells_of_the_purge(engine: Engine, vault: Path) -> None:
    with ExitStack() as stack:
        in_ledger(engine, stack)
        head = engine.journal.history(limit=1)[0]["chain"]
        engine.journal.last_hashes()  # which are read again once the rows were rewritten
        in_vault_file(engine, stack)
        scan(engine)
        purge(engine)
    whole, file, *_ = engine.journal.history()
    assert (whole["action"], whole["memory_id"]) == ("purge", "")
    assert whole["decision_meta"]["rows"] == {"contents": 1, "ledger": 1}
    assert whole["decision_meta"]["chain_before"] != head  # the scan came in between
    assert (file["action"], file["memory_id"]) == ("purge", "note")
    assert engine.journal.last_hashes()["note"] == file["new_hash"]
    assert scan(engine).updated == 0
    assert engine.journal.history(limit=1)[0]["seq"] == whole["seq"]
    assert engine.journal.history("told")[-1]["reason"] == "because of [REDACTED:purged]"


def test_a_checkpoint_without_it_is_still_one(engine: Engine, vault: Path) -> None:
    with ExitStack() as stack:
        in_ledger(engine, stack)
        in_session(engine, stack)
    write_memory(vault, "other", f"Other: {NEEDLE}.\n")
    made = checkpoints.create(engine, "kept")
    path = Path(made.path)
    os.utime(path, ns=(1_000_000_000, 2_000_000_000))
    purge(engine)
    assert path.stat().st_mtime_ns == 2_000_000_000
    (kept,) = checkpoints.list_checkpoints(engine)
    assert (kept.problem, kept.files, kept.rows) == ("", made.files, made.rows)
    shutil.rmtree(vault)
    (engine.folder / "journal.db").unlink()
    engine.close()
    with open_engine(engine.settings, replace_lost_journal=True) as again:
        restore(again, path)
        assert vault.joinpath("other.md").read_text() == "Other: [REDACTED:purged].\n"
        assert again.journal.verify()[1] == 0
        assert [each.text for each in again.sessions.items("s1")][-1] == "[REDACTED:purged]"


@pytest.mark.parametrize("other", ["éééé", "abcd", "ab=="])
def test_texts_that_may_stand_for_bytes_are_no_hindrance(engine: Engine, other: str) -> None:
    engine.journal.enqueue("work", other, {})
    with ExitStack() as stack:
        in_checkpoint(engine, stack)
    assert purge(engine).is_clean
    assert planted(engine.folder) == ""


def test_words_are_gone_from_the_full_text_too(engine: Engine, vault: Path) -> None:
    """A deleted row of a full-text table leaves its words in the table's blocks, where a merge alone finds them."""
    for number in range(30):
        write_memory(vault, f"other-{number}", f"Another note, the one of day {number}.\n")
    with ExitStack() as stack:
        in_index_row(engine, stack)
    with raw(engine, "index.db") as index:
        index.execute("INSERT INTO memory_text (memory_text) VALUES ('optimize')")
    blocks = "SELECT count(*) FROM memory_text_data WHERE instr(block, CAST('zanzibar' AS BLOB))"
    for expected in (True, False):
        with raw(engine, "index.db") as index:
            assert bool(index.execute(blocks).get) is expected
        purge(engine)
    assert planted(engine.folder, content="zanzibar") == ""


# What cannot be read, and what is not ours


@pytest.mark.parametrize("name", ["checkpoints/torn.scrim", "journal.db.damaged-20261121T000000Z"])
def test_what_cannot_be_cut_is_told_and_goes_if_wanted(engine: Engine, name: str) -> None:
    path = engine.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"SQLite format 3\0" + b"\1" * 50 + NEEDLE.encode())
    done = purge(engine)
    assert not done.is_clean
    assert [Path(trace.place).name for trace in done.unreadable] == [path.name]
    assert path.exists()
    done = purge(engine, remove_unreadable=True)
    assert (done.is_clean, done.removed) == (True, (str(path.resolve()),))
    assert not path.exists()


def test_what_a_killed_process_left_unfinished_goes_unread(engine: Engine) -> None:
    with ExitStack() as stack:
        in_checkpoint(engine, stack)
    whole = (engine.folder / "checkpoints/kept.scrim").read_bytes()
    left = engine.folder / "checkpoints" / f"{TEMP_PREFIX}1"
    left.write_bytes(whole[: len(whole) // 2])
    assert purging.find_traces([(engine, target_secret(NEEDLE))]).unreadable
    assert purge(engine).is_clean
    assert not left.exists()


def test_the_users_own_vault_is_cleaned_only_if_asked(engine: Engine, vault: Path) -> None:
    path = write_memory(engine.settings.home / "memories", "shared", f"All projects: {NEEDLE}.\n")
    done = purge(engine)
    assert not done.is_clean
    assert {trace.place for trace in done.left if "--global" in trace.why} == {str(path.resolve())}
    assert purge(engine, include_global=True).is_clean
    assert path.read_text() == "All projects: [REDACTED:purged].\n"
    assert engine.journal.history("global/shared", 1)[0]["action"] == "purge"


def test_documents_are_told_and_left(open_memory: OpenMemory, project: Path) -> None:
    path = write_memory(project / "docs", "guide", f"Set it to {NEEDLE}.\n")
    done = purge(open_memory())
    assert [trace.place for trace in done.documents] == [str(path)]
    assert NEEDLE in path.read_text()
    assert not done.is_clean
    assert {trace.place for trace in done.left} >= {f"{project}/.scrimshaw/index.db: memories"}


def test_a_vault_for_reading_only_is_refused(engine: Engine) -> None:
    sources = (replace(engine.sources[0], writable=False), *engine.sources[1:])
    with pytest.raises(ReadOnly):
        purge(replace(engine, sources=sources))


# A memory


def remembered(engine: Engine) -> Path:
    """A memory with a past, in a checkpoint, and in the record of a session."""
    write.save(engine, write.NewText(content=f"{WALRUS}\nA first version of the note about ivory.", id="deep/walrus"))
    write.update(engine, "deep/walrus", {}, content=f"{WALRUS}\nA second version of the note about ivory.")
    write.save(engine, write.NewText(content=f"Another: see the walrus.\n{NEEDLE}", id="other"))
    checkpoints.create(engine, "kept")
    sessions.bind_session(engine, "s1")
    path = ".scrimshaw/memories/deep/walrus.md"
    for number, of in enumerate((path, "")):
        seen = Observation(
            session="s1",
            kind=EventKind.TOOL,
            tool="Read",
            call_id=f"{number}",
            text=Redacted(text=f"{WALRUS} x"),
            path=of,
        )
        engine.sessions.observe(seen, admit, now=1.0, modulus=100)
    remember(engine.sessions, item("linked by its id", memory_id="deep/walrus"), admit, "s1")
    remember(engine.sessions, item("of another"), admit, "s1")
    engine.sessions.mark_shown("s1", {"deep/walrus": "hash", "other": "hash"}, now=2.0)
    return engine.folder / "memories/deep/walrus.md"


@pytest.mark.parametrize("retired", [False, True])
def test_a_memory_goes_with_all_that_is_its_own(engine: Engine, retired: bool) -> None:
    path = remembered(engine)
    if retired:
        write.delete(engine, ["deep/walrus"])
    done = purge_memory(engine, "deep/walrus")
    assert done.is_clean
    assert not path.exists()
    assert planted(engine.folder, content="harbour master himself") == ""
    assert planted(engine.folder, content="version of the note") == ""
    assert engine.memory("other").title
    assert [each.text for each in engine.sessions.items("s1")] == ["of another"]
    assert [each.text for each in engine.sessions.events("s1") if each.text] == ["[REDACTED:purged] x"]
    assert engine.sessions.hashes_shown("s1") == {"other": "hash"}
    newest = engine.journal.history("deep/walrus", 1)[0]
    assert (newest["action"], newest["new_hash"], bool(newest["prior_hash"])) == ("purge", "", not retired)
    (kept,) = checkpoints.list_checkpoints(engine)
    assert (kept.problem, kept.files) == ("", 2)


def test_what_another_memory_says_as_well_is_not_its_own(engine: Engine, vault: Path) -> None:
    write_memory(vault, "a", f"{WALRUS}\nOnly in the first of the two memories.\n")
    other = write_memory(vault, "b", f"{WALRUS} And more.\n")
    scan(engine)
    checkpoints.create(engine, "kept")
    assert purge_memory(engine, "a").is_clean
    assert other.read_text() == f"{WALRUS} And more.\n"
    assert planted(engine.folder, content="Only in the first") == ""
    assert "checkpoints/kept.scrim" in planted(engine.folder, content=WALRUS)


def test_delete_with_purge_comes_through_the_same_door(engine: Engine) -> None:
    path = remembered(engine)
    assert write.delete(engine, ["deep/walrus", "other"], purge=True, session="s1", actor="agent") == [
        "deep/walrus",
        "other",
    ]
    assert not path.exists()
    assert planted(engine.folder) == planted(engine.folder, content="harbour master himself") == ""
    assert {(row["memory_id"], row["session"]) for row in engine.journal.history(limit=2)} == {
        ("deep/walrus", "s1"),
        ("other", "s1"),
    }


def test_a_memory_nobody_knows_is_refused(engine: Engine) -> None:
    with pytest.raises(NotFound):
        target_memories(engine, ["nobody"])
    with pytest.raises(InvalidRequest):
        target_memories(engine, ["../outside"])


# Other processes, and the end of this one

READER = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.pragma("journal_mode", "wal")
if sys.argv[2] == "reading":
    connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM ledger").get
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def beside(engine: Engine, what: str) -> Iterator[None]:
    """Another process with the journal open."""
    command = [sys.executable, "-c", READER, str(engine.folder / "journal.db"), what]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            process.communicate("end\n", timeout=120)


def test_another_process_that_reads_nothing_is_no_hindrance(engine: Engine) -> None:
    with ExitStack() as stack:
        in_prior_content(engine, stack)
        with beside(engine, "idle"):
            assert purge(engine).is_clean
            assert planted(engine.folder) == ""


@pytest.mark.slow
def test_what_another_process_holds_is_told_and_goes_later(open_memory: OpenMemory) -> None:
    engine = open_memory("[index]\nbusy_timeout_ms = 500\n")
    with ExitStack() as stack:
        in_prior_content(engine, stack)
        with beside(engine, "reading"):
            done = purge(engine)
            assert planted(engine.folder) != ""
            assert not done.is_clean
            assert {Path(name).name for name in done.held} >= {"journal.db-wal"}
            assert {Path(trace.place).name for trace in done.left} >= {"journal.db"}
            with pytest.raises(StorageFailure, match=r"journal\.db"):
                write.delete(engine, ["prior"], purge=True)
        assert purge(engine).is_clean
        assert planted(engine.folder) == ""


KILLED = """
import os, signal, sys
from pathlib import Path
from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.engine import purge as purging
from scrimshaw.storage import erasing
from scrimshaw.storage.sqlite.maintenance import SqliteMaintenance

def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

project, home, where, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
place = erasing if where.endswith("archive") else SqliteMaintenance if where == "compact" else purging
if where == "files":  # while a memory's file is away and its rows are not
    place, where = (SqliteMaintenance, "erase") if name == "memory" else (purging, "replace_file")
setattr(place, where, killed)
with open_engine(load(project, home=home, environment={})) as engine:
    memory = name == "memory"
    target = purging.target_memories(engine, ["deep/walrus"]) if memory else purging.target_secret(name)
    purging.erase(engine, target)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("name", ["memory", NEEDLE])
@pytest.mark.parametrize("where", ["remake_archive", "write_archive", "files", "compact"])
def test_a_killed_purge_is_completed_by_the_next(engine: Engine, project: Path, where: str, name: str) -> None:
    remembered(engine)
    command = [sys.executable, "-c", KILLED, str(project), str(engine.settings.home), where, name]
    assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGKILL
    needle = "harbour master himself" if name == "memory" else NEEDLE
    assert planted(engine.folder, content=needle) != ""
    done = purge_memory(engine, "deep/walrus") if name == "memory" else purge(engine)
    assert done.is_clean
    assert planted(engine.folder, content=needle) == ""
    assert engine.journal.verify()[1] == 0
    assert [kept.problem for kept in checkpoints.list_checkpoints(engine)] == [""]


@pytest.mark.parametrize("for_team", [False, True])
def test_an_index_of_a_teams_server_and_the_own_one_are_erased_from_either(
    open_memory: OpenMemory, project: Path, vault: Path, *, for_team: bool
) -> None:
    write_memory(vault, "walrus", f"# Walrus\n{WALRUS}\n")
    with open_memory() as own, open_engine(own.settings, for_team=True) as team:
        scan(own)
        scan(team)
        holders = planted(project / ".scrimshaw", content=WALRUS).replace("-wal", "").split()
        assert {"index.db", "team/index.db"} <= {*holders}
        write.delete(team if for_team else own, ["walrus"], purge=True, actor="human")
    assert planted(project / ".scrimshaw", content=WALRUS) == ""
