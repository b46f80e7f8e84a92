"""Every part switched off in turn, for real: what still answers, what the answer says, and what health says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.conftest import OpenMemory
from tests.engine.breaking import (
    locked_by_another,
    make_read_only,
    owned_by_another,
    small_disk,
    tamper,
    written_by_another,
)
from tests.samples import WordEmbedder, vouch_for, write_memory

from scrimshaw.app.checks import PROCESS
from scrimshaw.app.cli.main import main
from scrimshaw.app.mcp.tools.browse import memory_health
from scrimshaw.app.mcp.tools.core import SearchCall, memory_get, memory_save, memory_search
from scrimshaw.config import EmbeddingSettings, load
from scrimshaw.engine import Engine, open_engine, read
from scrimshaw.engine.core import LOCK_FILE
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.health import Health, check_health
from scrimshaw.engine.index import catch_up, embed_pending, scan
from scrimshaw.engine.write import NewText, delete, save
from scrimshaw.errors import DamagedDatabase, StorageFailure, VaultBusy
from scrimshaw.models import Channel, Degradation, JobState, Status, Trust
from scrimshaw.search.embedders import open_embedder
from scrimshaw.search.pipeline import Searcher
from scrimshaw.search.results import SearchRequest, SearchResult

NOTES = {
    "log": ("title: Write-ahead log\ntrigger_phrases: [wal reset]\nrelations: {caused: [starving]}",
            "The log is emptied by a checkpoint."),
    "starving": ("title: Starving readers", "A reader that never ends keeps old pages alive."),
    "law": ("title: House rule\ntier: constitutional", "Never push by force."),
    "ship": ("title: Ship's biscuit", "Baked twice, kept for years."),
}  # fmt: skip
QUERY = "wal reset: what empties the log?"


@dataclass(frozen=True)
class Off:
    """A part of the index that is gone: how it goes, what is said of it, which rows of the matrix turn."""

    sql: str
    said: str
    rows: frozenset[str]
    found: frozenset[str]
    lacks: Channel | None = None


PARTS = {
    "full text": Off("DROP TABLE memory_text", "full_text_damaged", frozenset({"index", "full_text", "recall"}),
                     frozenset({"log", "starving"}), Channel.TEXT),
    "full text, shadow": Off("DELETE FROM memory_text_data", "full_text_damaged", frozenset({"full_text", "recall"}),
                             frozenset({"log"}), Channel.TEXT),
    "vectors": Off("DROP TABLE vectors", "vectors_damaged", frozenset({"index", "vectors"}),
                   frozenset({"log", "starving"}), Channel.VECTOR),
    "vectors, cut": Off("UPDATE vectors SET vector = x'0000'", "vectors_damaged", frozenset({"vectors"}),
                        frozenset({"log", "starving"}), Channel.VECTOR),
    "vectors, of tokens": Off("DROP TABLE token_vectors", "vectors_damaged", frozenset({"index", "vectors"}),
                              frozenset({"log", "starving"}), Channel.VECTOR),
    "triggers": Off("DROP TABLE phrases", "triggers_damaged", frozenset({"index", "triggers"}),
                    frozenset({"log", "starving"}), Channel.TRIGGER),
    "graph": Off("DROP TABLE edges", "graph_damaged", frozenset({"index", "graph"}), frozenset({"log"}), Channel.GRAPH),
}  # fmt: skip


@pytest.fixture
def engine(open_memory: OpenMemory, vault: Path) -> Engine:
    """A memory with every way of finding; the text of `starving` shares no word with the query."""
    for name, (front_matter, body) in NOTES.items():
        write_memory(vault, name, body, front_matter)
    engine = open_memory("[index]\nbusy_timeout_ms = 50\n", embedder=WordEmbedder())
    vouch_for(engine, "law")
    embed_pending(engine)
    return engine


def ask(engine: Engine, query: str = QUERY) -> SearchResult:
    return read.search(engine, SearchRequest(query=query))


def ids(result: SearchResult) -> set[str]:
    return {hit.memory.id for hit in (*result.always_on, *result.hits)}


def turned(found: Health) -> set[str]:
    return {row.name for row in found.capabilities if row.status != Status.ON}


def is_complete(degradation: Degradation) -> bool:
    return all(getattr(degradation, name) for name in Degradation.__struct_fields__)


def index_of(engine: Engine) -> Path:
    return engine.folder / "index.db"


def test_nothing_is_degraded_while_nothing_is_broken(engine: Engine) -> None:
    result = ask(engine)
    assert (result.degradations, ids(result) >= {"log", "starving", "law"}) == ((), True)
    found = check_health(engine, thorough=True, more=PROCESS)
    assert (found.status, turned(found), found.degradations, found.problems) == ("healthy", set(), (), ())


@pytest.mark.parametrize("part", PARTS)
def test_a_search_does_without_a_part_and_says_so(engine: Engine, part: str) -> None:
    off = PARTS[part]
    tamper(index_of(engine), off.sql)
    result = ask(engine)
    assert ids(result) >= off.found
    assert [each.failure_mode.partition(":")[0] for each in result.degradations] == [off.said]
    assert all(map(is_complete, result.degradations))
    assert "scrimshaw rebuild" in result.degradations[0].retry_recommendation
    assert not any(off.lacks in hit.explanation.ranks for hit in result.hits)
    assert len(result.trace) == 6


@pytest.mark.parametrize("part", PARTS)
def test_health_turns_the_row_that_belongs_and_no_other(engine: Engine, part: str) -> None:
    off = PARTS[part]
    tamper(index_of(engine), off.sql)
    found = check_health(engine, more=PROCESS)
    assert turned(found) == off.rows
    assert found.status == ("broken" if "recall" in off.rows else "degraded")
    assert found.degradations
    assert all(map(is_complete, found.degradations))


@pytest.mark.parametrize("part", PARTS)
def test_a_tool_and_the_command_line_say_it_too(
    engine: Engine, part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    off = PARTS[part]
    tamper(index_of(engine), off.sql)
    reply = memory_search.run(engine, SearchCall(query=QUERY))
    assert [each.failure_mode.partition(":")[0] for each in reply.degraded] == [off.said]
    told = memory_health.run(engine)
    assert {row.name for row in told.capabilities if row.status != Status.ON} >= off.rows
    if part.startswith("vectors"):
        return  # the command line of this project has no model to miss them
    monkeypatch.setenv("SCRIMSHAW_HOME", str(engine.settings.home))
    assert main(["search", QUERY, "--no-scan", "--project", str(engine.settings.project)]) == 0
    assert f"Note: {off.said}" in capsys.readouterr().err


def test_rebuild_mends_every_part(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIMSHAW_HOME", str(engine.settings.home))
    project = str(engine.settings.project)
    for sql in (*(off.sql for off in PARTS.values()), "DROP TABLE topics", "DROP TABLE sketches"):
        engine.storage.close()
        tamper(index_of(engine), sql)
        assert main(["rebuild", "--yes", "--project", project]) == 0
        with open_engine(engine.settings) as again:
            assert turned(check_health(again, more=PROCESS)) == {"vectors"}, sql  # switched off in this project


def test_a_lineage_that_cannot_be_read_vouches_for_nothing(engine: Engine) -> None:
    assert [hit.memory.id for hit in ask(engine).always_on] == ["law"]
    tamper(index_of(engine), "DROP TABLE edges")
    fresh = replace(engine, searcher=Searcher(engine.index, engine.settings, engine.embedder))
    result = ask(fresh, "house rule: never push by force")
    assert (result.always_on, "law" in ids(result)) == ((), True)
    assert {hit.memory.provenance.trust for hit in result.hits} == {Trust.WEB}
    read = memory_get.run(fresh, id="law")
    assert (read.memory["trust"], "Never push" in read.content) == (Trust.WEB, True)
    assert read.degraded[0].failure_mode.startswith("graph_damaged")


def test_the_package_of_the_model_is_gone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrimshaw.search.embedders.PACKAGE", "no_package_of_this_name")
    gone = open_embedder(EmbeddingSettings())
    without = replace(engine, embedder=gone, searcher=Searcher(engine.index, engine.settings, gone))
    result = ask(without)
    assert (ids(result) >= {"log"}, result.degradations[0].failure_mode[:16]) == (True, "embedder_missing")
    assert "pip install" in result.degradations[0].retry_recommendation
    assert turned(check_health(without, more=PROCESS)) == {"vectors"}


# The whole index, the journal, the lock


def test_an_index_that_another_process_owns_is_an_error_with_advice(engine: Engine) -> None:
    engine.storage.close()
    with owned_by_another(index_of(engine)):
        with pytest.raises(StorageFailure, match=r"index\.db could not be used") as refused:
            ask(engine)
        assert "try again" in refused.value.hint
        assert check_health(engine).status == "broken"
    assert ids(ask(engine)) >= {"log"}


def test_an_index_of_rubbish_is_an_error_with_advice(engine: Engine) -> None:
    engine.close()
    index_of(engine).write_bytes(b"not a database at all" * 500)
    with pytest.raises(DamagedDatabase) as refused:
        open_engine(engine.settings)
    assert refused.value.hint == "Run `scrimshaw rebuild`."


@pytest.mark.slow
def test_an_index_beside_which_nothing_can_be_written_is_read_alone(engine: Engine) -> None:
    engine.close()
    (engine.folder / "index.db-shm").mkdir()
    with open_engine(engine.settings) as late:
        assert ids(ask(late)) >= {"log"}
        with pytest.raises(StorageFailure, match="readonly"):
            late.index.retire(None)
    (engine.folder / "index.db-wal").write_bytes(b"what was committed last" * 9)
    with pytest.raises(StorageFailure, match=r"index\.db could not be used"):
        open_engine(engine.settings)
    (engine.folder / "index.db-shm").rmdir()  # SQLite waits ten seconds for it, and would when the memory is closed


def test_the_command_line_says_that_a_save_is_not_found_yet(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tamper(index_of(engine), "DROP TABLE memory_text")
    monkeypatch.setenv("SCRIMSHAW_HOME", str(engine.settings.home))
    project = str(engine.settings.project)
    text = "Salt beef is kept in barrels below the waterline."
    assert main(["save", text, "--id", "beef", "--project", project]) == 0
    shown = capsys.readouterr()
    assert ("saved" in shown.out, shown.err.count("index_behind")) == (True, 1)
    assert main(["search", text, "--project", project]) == 0
    assert capsys.readouterr().err.count("index_behind") == 1


def test_a_table_that_nothing_can_do_without_is_an_error(engine: Engine) -> None:
    tamper(index_of(engine), "DROP TABLE memories")
    with pytest.raises(DamagedDatabase, match="no such table"):
        ask(engine)
    assert check_health(engine).status == "broken"


def test_a_journal_in_the_midst_of_a_write_refuses_saves_and_not_reads(engine: Engine) -> None:
    with written_by_another(engine.folder / "journal.db"):
        assert (ids(ask(engine)) >= {"log"}, ask(engine).degradations) == (True, ())
        assert turned(check_health(engine)) == {"journal"}
        with pytest.raises(StorageFailure) as refused:
            save(engine, NewText(content="Salt beef is kept in barrels below the waterline."))
        assert "try again" in refused.value.hint
    assert turned(check_health(engine)) == set()


def test_reviews_that_cannot_be_read_are_left_out_of_the_ranking(engine: Engine) -> None:
    tamper(engine.folder / "journal.db", "DROP TABLE reviews")
    result = ask(engine)
    assert ids(result) >= {"log"}
    assert [each.failure_mode.partition(":")[0] for each in result.degradations] == ["reviews_damaged"]
    assert result.degradations[0].retry_recommendation == "Run `scrimshaw restore --newest`."


def test_a_lock_that_another_process_holds(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrimshaw.engine.core.LOCK_TIMEOUT_S", 0.1)
    with locked_by_another(engine.folder / LOCK_FILE):
        assert turned(check_health(engine)) == {"lock"}
        assert ids(ask(engine)) >= {"log"}
        with pytest.raises(VaultBusy, match="Another writer") as refused:
            save(engine, NewText(content="Salt beef is kept in barrels below the waterline."))
        assert refused.value.hint
    assert turned(check_health(engine)) == set()


def test_jobs_that_were_given_up(engine: Engine) -> None:
    number = engine.journal.enqueue("drafts", "s1", {})
    claimed = engine.journal.claim(["drafts"], 60.0)
    assert claimed is not None
    engine.journal.finish(claimed, JobState.FAILED, "no such event")
    found = check_health(engine)
    assert turned(found) == {"jobs"}
    (told,) = found.degradations
    assert "jobs_given_up: 1 job" in told.failure_mode
    assert "no such event" in told.failure_mode
    assert f"scrimshaw jobs retry {number}" in told.retry_recommendation
    assert engine.journal.change_job(number, JobState.CANCELLED)
    assert turned(check_health(engine)) == set()


# The disk

LONG_TEXT = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A project on a disk of 2 MB of its own."""
    with small_disk(tmp_path / "disk", "2m") as mounted:
        if not mounted:
            pytest.skip("this user may not mount a file system")
        yield tmp_path / "disk"


@pytest.fixture
def on_disk(disk: Path, tmp_path: Path) -> Iterator[Engine]:
    vault = disk / ".scrimshaw/memories"
    vault.mkdir(parents=True)
    write_memory(vault, "log", *reversed(NOTES["log"]))
    (disk / ".scrimshaw/config.toml").write_text('[embedding]\nprovider = "none"\n')
    with open_engine(load(disk, home=tmp_path / "home", environment={})) as engine:
        scan(engine)
        yield engine


def test_a_full_disk_refuses_writes_and_answers_reads(on_disk: Engine, disk: Path) -> None:
    fill(disk)
    assert ids(ask(on_disk)) == {"log"}
    assert turned(check_health(on_disk)) >= {"vault", "vectors"}
    with pytest.raises(StorageFailure) as refused:
        save(on_disk, NewText(content=LONG_TEXT))
    assert "free some space" in refused.value.hint.lower()
    (disk / "filler").unlink()
    assert save(on_disk, NewText(content="Salt beef is kept in barrels below the waterline.")).status == "saved"
    assert turned(check_health(on_disk)) == {"vectors"}


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(b"x" * 4096) == 4096:
            pass


def test_a_disk_that_cannot_be_written_answers_reads(on_disk: Engine, disk: Path) -> None:
    on_disk.storage.close()
    make_read_only(disk)
    assert turned(check_health(on_disk)) >= {"vault", "journal", "lock"}
    with pytest.raises(StorageFailure) as refused:
        save(on_disk, NewText(content="Salt beef is kept in barrels below the waterline."))
    assert refused.value.hint


def test_a_process_that_starts_on_a_full_disk_reads(on_disk: Engine, disk: Path) -> None:
    on_disk.close()
    fill(disk)
    with open_engine(on_disk.settings) as late:
        assert ids(ask(late)) == {"log"}
        assert turned(check_health(late)) >= {"vault", "journal"}
        reply = memory_search.run(late, SearchCall(query=QUERY, session_id="s"))
        assert [hit["id"] for hit in reply.hits] == ["log"]
        assert any(each.failure_mode.startswith("session_off") for each in reply.degraded)
        (disk / "filler").unlink()
        told = memory_search.run(late, SearchCall(query=QUERY, session_id="s"))
        assert not any(each.failure_mode.startswith("session_off") for each in told.degraded)
        assert save(late, NewText(content="Salt beef is kept in barrels below the waterline.")).status == "saved"


def test_a_process_that_starts_on_a_read_only_disk_reads(on_disk: Engine, disk: Path) -> None:
    on_disk.close()
    make_read_only(disk)
    with open_engine(on_disk.settings) as late:
        assert ids(ask(late)) == {"log"}
        assert read.get(late, "log").memory.title == "Write-ahead log"
        assert turned(check_health(late)) >= {"vault", "journal", "lock"}
        with pytest.raises(StorageFailure):
            save(late, NewText(content="Salt beef is kept in barrels below the waterline."))


def test_a_session_that_cannot_be_counted_keeps_no_question_waiting_for_an_answer(engine: Engine) -> None:
    with written_by_another(engine.folder / "journal.db"):
        reply = memory_search.run(engine, SearchCall(query=QUERY, session_id="s"))
    assert "log" in {hit["id"] for hit in reply.hits}
    assert [each.failure_mode.partition(":")[0] for each in reply.degraded] == ["session_off"]
    assert memory_search.run(engine, SearchCall(query=QUERY, session_id="s")).degraded == ()


# Writing while the index refuses


def test_what_is_saved_while_the_index_refuses_is_saved_and_says_so(engine: Engine) -> None:
    tamper(index_of(engine), "DROP TABLE memory_text")
    reply = memory_save.run(engine, content="Salt beef is kept in barrels below the waterline.", id="beef")
    assert (reply.status, Path(reply.path).is_file()) == ("saved", True)
    assert reply.degraded[0].failure_mode.startswith("index_behind")
    assert engine.journal.history("beef")
    assert any(each.failure_mode.startswith("index_behind") for each in ask(engine).degradations)
    assert delete(engine, ["ship"]) == ["ship"]
    assert not (engine.folder / "memories/ship.md").exists()
    with open_engine(engine.settings) as other:
        catch_up(other)
        assert other.degradations.of(INDEX)


def test_a_change_by_hand_that_the_index_refuses_is_said_with_the_answer(
    engine: Engine, vault: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tamper(index_of(engine), "DROP TABLE memory_text")
    write_memory(vault, "late", "The tide turns at noon.")
    monkeypatch.setenv("SCRIMSHAW_HOME", str(engine.settings.home))
    assert main(["search", QUERY, "--project", str(engine.settings.project)]) == 0
    shown = capsys.readouterr()
    assert ("Write-ahead log" in shown.out, "index_behind" in shown.err) == (True, True)


# Around the memory


def test_without_git_health_names_what_is_lost(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = check_health(engine, more=PROCESS)
    assert turned(found) == {"git"}
    assert found.degradations[0].failure_mode.startswith("git_off: git could not be asked")
    assert found.degradations[0].retry_recommendation == "Install git, or put it on the PATH."
    assert ask(engine).degradations == ()


WATCHED = """
import json, sys, time
from pathlib import Path
from scrimshaw.app import background
from scrimshaw.app.checks import PROCESS
from scrimshaw.config import EmbeddingSettings, load
from scrimshaw.engine import open_engine, read
from scrimshaw.engine.health import check_health
from scrimshaw.search.results import SearchRequest

background.POLL_S = 0.2
project = Path(sys.argv[1])
with open_engine(load(project, home=project.parent / "home", environment={})) as engine:
    beside = background.Background(engine)
    beside.start()
    beside.wait_until_fresh(60)
    deadline = time.monotonic() + 60
    while not engine.degradations.of("watcher") and time.monotonic() < deadline:
        time.sleep(0.02)
    (project / ".scrimshaw/memories/late.md").write_text("# Tide\\nThe tide turns at noon.")
    hits = ()
    while not hits and time.monotonic() < deadline:
        time.sleep(0.05)
        hits = read.search(engine, SearchRequest(query="tide turns noon")).hits
    found = check_health(engine, more=PROCESS)
    beside.stop()
    off = [row.name for row in found.capabilities if row.status == "off"]
    said = [each.failure_mode for each in found.degradations]
    instead = [each.fallback_mode for each in found.degradations]
    print(json.dumps({"hits": [hit.memory.id for hit in hits], "off": off, "said": said, "instead": instead}))
"""


def test_where_the_system_watches_no_files_they_are_looked_at_in_turns(engine: Engine) -> None:
    limits = "/proc/sys/user/max_inotify_instances"
    inside = f'echo 0 > {limits} && exec "$0" -c "$1" "$2"'
    try:
        done = subprocess.run(
            ["unshare", "-Ur", "sh", "-c", inside, sys.executable, WATCHED, str(engine.settings.project)],
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
    except OSError:
        pytest.skip("there is no unshare here")
    if "unshare" in done.stderr or limits in done.stderr:
        pytest.skip("this user may not have limits of its own")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["hits"] == ["late"]
    assert "watcher" in told["off"]
    assert any(said.startswith("watcher_off") for said in told["said"])
    assert any("checked every" in instead for instead in told["instead"])
