"""The truth matrix: each row is measured, turns when its part goes off, and remembers what changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import apsw
import pytest
from msgspec import to_builtins
from msgspec.structs import replace as replace_probe
from tests.conftest import OpenMemory
from tests.engine.breaking import locked_by_another, tamper, written_by_another
from tests.samples import WordEmbedder, write_memory

from scrimshaw import storage
from scrimshaw.app import checks as app_checks
from scrimshaw.app.background import POLL_S
from scrimshaw.app.checks import ALL_CHECKS
from scrimshaw.app.cli.main import main
from scrimshaw.engine import Engine
from scrimshaw.engine.core import LOCK_FILE, LOCK_TIMEOUT_S
from scrimshaw.engine.health import CHECKS, Result, check_health
from scrimshaw.engine.index import embed_pending, scan
from scrimshaw.engine.write import NewText, save
from scrimshaw.errors import StorageFailure
from scrimshaw.models import Capability, Degradation, Status
from scrimshaw.search.pipeline import Searcher
from scrimshaw.storage.sqlite.database import Database

EVERY = (*CHECKS, *app_checks.PROCESS)


def index_tables() -> list[str]:
    """The tables that the schema makes, without those that FTS5 keeps for itself."""
    base = apsw.Connection(":memory:")
    for file in sorted(Path(storage.__file__).with_name("sqlite").glob("schema/index/*.sql")):
        base.execute(file.read_text(encoding="utf-8"))
    names = [str(row[0]) for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return sorted(name for name in names if not name.startswith(("memory_text_", "sqlite_")))


@pytest.fixture
def engine(open_memory: OpenMemory, vault: Path) -> Engine:
    write_memory(vault, "log", "Emptied by a checkpoint.",
                 "title: Write-ahead log\ntrigger_phrases: [wal reset]\nrelations: {caused: [other]}")  # fmt: skip
    write_memory(vault, "other", "Kept for years.", "title: Ship's biscuit")
    engine = open_memory("[index]\nbusy_timeout_ms = 50\n", embedder=WordEmbedder())
    scan(engine)
    embed_pending(engine)
    return engine


def statuses(engine: Engine) -> dict[str, Status]:
    return {row.name: row.status for row in check_health(engine, more=app_checks.PROCESS).capabilities}


def turned(engine: Engine) -> dict[str, Status]:
    return {name: status for name, status in statuses(engine).items() if status != Status.ON}


def break_index(sql: str) -> Callable[[Engine, pytest.MonkeyPatch], None]:
    return lambda engine, _: tamper(engine.folder / "index.db", sql)


def lose_golden(engine: Engine, _: pytest.MonkeyPatch) -> None:
    (engine.folder / "golden.toml").write_text('[[query]]\ntext = "moon"\nexpect = ["moon"]\n')


def let_secrets_pass(_: Engine, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("scrimshaw.ingest.redact._find_all", lambda text: [])


def put_a_file_for_the_vault(engine: Engine, _: pytest.MonkeyPatch) -> None:
    vault = engine.folder / "memories"
    vault.rename(engine.folder / "aside")
    vault.write_text("no folder")


def hide_git(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PATH", str(engine.folder / "memories"))


def hide_programs(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("sysconfig.get_path", lambda _: str(engine.folder))
    patch.setattr("sys.argv", [str(engine.folder / "x")])


def refuse_to_watch(_: Engine, patch: pytest.MonkeyPatch) -> None:
    # The real refusal is in the matrix, in a process with limits of its own.
    patch.setattr("scrimshaw.app.checks.find_outermost_folders", lambda _: [Path("/no/such/folder")])


OFF: dict[str, Callable[[Engine, pytest.MonkeyPatch], None]] = {
    "index": break_index("DROP TABLE topics"),
    "full_text": break_index("DELETE FROM memory_text_docsize"),
    "vectors": break_index("DROP TABLE vectors"),
    "triggers": break_index("UPDATE phrases SET head = 'nowhere'"),
    "graph": break_index("DROP TABLE edges"),
    "recall": lose_golden,
    "redaction": let_secrets_pass,
    "vault": put_a_file_for_the_vault,
    "git": hide_git,
    "watcher": refuse_to_watch,
    "hook": hide_programs,
}
ALONG = {"full_text": {"recall"}, "vectors": {"index"}, "graph": {"index"}}


def test_a_sound_project_has_every_capability_on(engine: Engine) -> None:
    assert turned(engine) == {}
    assert (
        set(statuses(engine)) == {*OFF, "journal", "lock", "jobs", "files", "trust"} == {probe.name for probe in EVERY}
    )


@pytest.mark.parametrize("row", OFF)
def test_the_row_that_belongs_goes_off_and_the_others_stay(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    OFF[row](engine, monkeypatch)
    assert set(turned(engine)) == {row, *ALONG.get(row, ())}
    assert turned(engine)[row] == Status.OFF


def test_the_journal_row_goes_off(engine: Engine) -> None:
    with written_by_another(engine.folder / "journal.db"):
        assert turned(engine) == {"journal": Status.OFF}


def test_the_lock_row_is_degraded_while_another_writes(engine: Engine) -> None:
    with locked_by_another(engine.folder / LOCK_FILE):
        assert turned(engine) == {"lock": Status.DEGRADED}


@pytest.mark.parametrize("table", index_tables())
def test_the_loss_of_any_table_is_seen_at_once(engine: Engine, table: str) -> None:
    tamper(engine.folder / "index.db", f"PRAGMA foreign_keys = off; DROP TABLE {table}")
    assert statuses(engine)["index"] == Status.OFF
    found = check_health(engine)
    assert found.status != "healthy"
    assert found.advice["index"] == "Run `scrimshaw rebuild`."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[link]]\nsource = "log"\ntarget =\n', "links.toml: Invalid value (at line 3"),
        ('[[link]]\nsource = "log"\ntarget = "other"\nrelation = "caused"\n\n[[link]]\nsource = "x"\n', "link[1]"),
    ],
)
def test_a_broken_links_file_degrades_the_graph_and_is_named_with_its_place(
    engine: Engine, text: str, said: str
) -> None:
    (engine.folder / "links.toml").write_text(text)
    assert turned(engine) == {"graph": Status.DEGRADED}
    (told,) = check_health(engine, more=app_checks.PROCESS).degradations
    assert told.failure_mode.startswith(f"links_unreadable: {engine.folder / 'links.toml'}")
    assert said in told.failure_mode
    assert (told.retry_recommendation, check_health(engine).status) == ("Correct the file.", "degraded")


@pytest.mark.parametrize("text", ["---\ntier: [\n---\nBroken.\n", "<<<<<<< a\nOak.\n=======\nIron.\n>>>>>>> b\n"])
def test_a_file_to_correct_degrades_a_memory(engine: Engine, vault: Path, text: str) -> None:
    (vault / "gate.md").write_text(text)
    scan(engine)
    assert turned(engine)["files"] == Status.DEGRADED
    assert (found := check_health(engine)).status == "degraded"
    assert "1 file to correct" in next(each.failure_mode for each in found.degradations if "files" in each.failure_mode)


def test_an_error_that_stops_many_parts_is_quoted_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(database: Database) -> NoReturn:
        raise StorageFailure("The server is away.", "Start it.", path=str(database.path))

    monkeypatch.setattr(Database, "lend", refuse)
    found = check_health(engine)
    parts = {each.name: each.detail for each in found.capabilities if each.status == Status.OFF}
    assert parts.keys() >= {"index", "full_text", "triggers", "journal", "jobs"}
    assert {*parts.values()} == {"The server is away.", "as index"}
    assert found.problems.count("The server is away. Start it.") == 1
    assert found.advice["index"] == "Start it."
    assert str(to_builtins(found)).count("server is away") == 3  # the part, what is lost, the problem


def test_a_bug_in_one_probe_hides_nothing_else(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    secret = "what the memory says"

    def broken(_: Engine) -> Result:
        raise KeyError(secret)

    found = check_health(engine, more=[replace_probe(CHECKS[0], name="new", run=broken)])
    (row,) = (row for row in found.capabilities if row.status != Status.ON)
    assert (row.name, row.status, found.status) == ("new", Status.OFF, "degraded")
    assert "a bug in Scrimshaw stopped the probe: KeyError; the log on standard error" in row.detail
    assert secret not in f"{found}{caplog.text}"
    assert "test_health.py" in caplog.text


def test_a_vault_that_is_made_with_the_first_save_is_on(engine: Engine, vault: Path) -> None:
    for file in vault.iterdir():
        file.unlink()
    vault.rmdir()
    scan(engine)
    assert "vault" not in turned(engine)
    assert not vault.exists()
    assert save(engine, NewText(content="Salt beef is kept in barrels.")).status == "saved"


def test_what_is_merely_degraded_is_not_called_off(engine: Engine) -> None:
    with locked_by_another(engine.folder / LOCK_FILE):
        truth = check_health(engine, more=app_checks.PROCESS)
    (told,) = truth.degradations
    assert told.failure_mode.startswith("lock_degraded: Another writer held")
    assert told.confidence_impact == f"a save waits up to {LOCK_TIMEOUT_S:g} s, then is refused"
    assert (truth.verdicts["lock"], truth.advice["lock"]) == ("warning", "Try again when the other writer has ended.")


def test_vectors_that_are_not_made_yet_are_degraded(engine: Engine, vault: Path) -> None:
    write_memory(vault, "new", "The tide turns at noon.")
    scan(engine)
    assert turned(engine) == {"vectors": Status.DEGRADED}
    assert "vectors_pending: " in check_health(engine, more=app_checks.PROCESS).degradations[0].failure_mode


def test_a_client_that_lost_its_server_is_off(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = engine.settings.project
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("SCRIMSHAW_HOME", str(engine.settings.home))
    (tmp_path / "user/.claude").mkdir(parents=True)
    row = client_row(engine, "client:claude")
    assert (row.status, row.detail) == (Status.OFF, "not connected")
    assert main(["setup", "claude", "--user", "--yes", "--project", str(project)]) == 0
    assert client_row(engine, "client:claude").status != Status.OFF
    config = tmp_path / "user/.claude.json"
    config.write_text(config.read_text().replace('/scrimshaw"', '/gone/scrimshaw"'))
    assert client_row(engine, "client:claude").status == Status.OFF
    assert check_health(engine, more=app_checks.list_process_checks(engine.settings)).status == "healthy"


def client_row(engine: Engine, name: str) -> Capability:
    rows = check_health(engine, more=app_checks.list_process_checks(engine.settings)).capabilities
    return next(row for row in rows if row.name == name)


def test_every_row_says_how_it_is_measured_and_what_is_lost() -> None:
    assert len({probe.name for probe in ALL_CHECKS}) == len(ALL_CHECKS)
    for probe in ALL_CHECKS:
        assert all((probe.measures, probe.lost, probe.instead))


def test_the_texts_state_the_times_of_the_code() -> None:
    texts = {check.name: f"{check.lost} {check.instead}" for check in ALL_CHECKS}
    assert f"every {POLL_S:g} s" in texts["watcher"]
    assert f"up to {LOCK_TIMEOUT_S:g} s" in texts["lock"]


# What changed


def test_a_change_is_kept_with_its_time(engine: Engine) -> None:
    engine = replace(engine, clock=lambda: 1_763_600_000.0)
    assert all((row.was, row.since) == ("", "") for row in check_health(engine).capabilities)
    without = replace(engine, embedder=off(engine), searcher=Searcher(engine.index, engine.settings, off(engine)))
    (row,) = (row for row in check_health(without).capabilities if row.name == "vectors")
    assert (row.status, row.was, row.since) == (Status.OFF, "on", "2025-11-20T00:53:20+00:00")
    later = replace(without, clock=lambda: 1_763_700_000.0)
    assert row in check_health(later).capabilities
    back = replace(engine, clock=lambda: 1_763_800_000.0)
    (row,) = (row for row in check_health(back).capabilities if row.name == "vectors")
    assert (row.status, row.was, row.since[:10]) == (Status.ON, "off", "2025-11-22")


def off(engine: Engine) -> Degradation:
    return Degradation(
        failure_mode="embedder_off: gone", fallback_mode="words", confidence_impact="some", retry_recommendation="try"
    )


def test_only_changes_are_rows_and_they_do_not_pile_up(engine: Engine) -> None:
    for number in range(500):
        last = engine.maintenance.record_statuses({"a": f"status {number % 2}", "b": "on"}, now=float(number))
    rows = engine.maintenance.dump_rows()
    kept = [row["name"] for table, row in rows if table == "capabilities"]
    assert (kept.count("a"), kept.count("b")) == (100, 1)
    assert (last["a"].status, last["a"].was, last["a"].at) == ("status 1", "status 0", 499.0)


def test_the_probe_of_the_journal_leaves_nothing(engine: Engine) -> None:
    assert engine.maintenance.check("journal", quick=True) == []
    assert engine.maintenance.record_statuses({}, now=1.0) == {}
