"""Numbered migrations: each in one transaction with its record, each once, whoever opens first."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from tests.storage.contract import BUSY_MS

from scrimshaw.errors import StorageFailure
from scrimshaw.storage.sql import read_migrations
from scrimshaw.storage.sqlite import database
from scrimshaw.storage.sqlite.database import Database

FIRST = (1, "0001_one.sql", "CREATE TABLE one (x); INSERT INTO one VALUES (1)")
SECOND = (2, "0002_two.sql", "CREATE TABLE two (x); INSERT INTO one VALUES (2); INSERT INTO two VALUES (3)")
BROKEN = (2, "0002_two.sql", "CREATE TABLE two (x); INSERT INTO one VALUES (2); INSERT INTO nowhere VALUES (3)")


def opened(path: Path) -> Database:
    return Database(path, "index", durable=True, busy_timeout_ms=BUSY_MS)


def given(monkeypatch: pytest.MonkeyPatch, *migrations: tuple[int, str, str]) -> None:
    monkeypatch.setattr(database, "read_migrations", lambda _: list(migrations))


def recorded(path: Path) -> list[tuple[int, str]]:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(BUSY_MS)
    try:
        return [(row[0], row[1]) for row in connection.execute("SELECT number, name FROM migrations ORDER BY number")]
    finally:
        connection.close()


def open_briefly(path: str) -> list[tuple[int, str]]:
    """A function at the top, so that another process can run it."""
    opened(Path(path)).close()
    return recorded(Path(path))


@pytest.mark.parametrize("schema", ["index", "journal", "vectors"])
def test_the_shipped_migrations_are_numbered_without_gaps(schema: str, tmp_path: Path) -> None:
    found = read_migrations(database._SCHEMAS / schema)
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1))
    Database(tmp_path / "x.db", schema, durable=True, busy_timeout_ms=BUSY_MS).close()
    assert recorded(tmp_path / "x.db") == [(number, name) for number, name, _ in found]


def test_opening_twice_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, FIRST, SECOND)
    path = tmp_path / "x.db"
    for _ in range(2):
        database = opened(path)
        assert database.rows("SELECT x FROM one") == [(1,), (2,)]
        database.close()
    assert recorded(path) == [(1, "0001_one.sql"), (2, "0002_two.sql")]


def test_a_failing_migration_takes_those_before_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.db"
    given(monkeypatch, FIRST, BROKEN)
    with pytest.raises(StorageFailure, match="nowhere"):
        opened(path)
    assert recorded(path) == []
    given(monkeypatch, FIRST)
    database = opened(path)
    assert database.rows("SELECT x FROM one") == [(1,)]
    assert database.rows("SELECT name FROM sqlite_master WHERE name = 'two'") == []
    database.close()


def test_a_repaired_migration_runs_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.db"
    given(monkeypatch, FIRST, BROKEN)
    with pytest.raises(StorageFailure):
        opened(path)
    given(monkeypatch, FIRST, SECOND)
    database = opened(path)
    assert database.rows("SELECT x FROM one UNION ALL SELECT x FROM two") == [(1,), (2,), (3,)]
    database.close()


@pytest.mark.slow
def test_processes_open_a_new_database_at_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number in range(8):
            path = str(tmp_path / f"{number}/x.db")
            one, two = (pool.submit(open_briefly, path) for _ in range(2))
            assert one.result() == two.result() == recorded(Path(path))


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    path.write_bytes(b"not a database at all" * 300)
    with pytest.raises(StorageFailure, match=r"index\.db is damaged") as caught:
        opened(path)
    assert "rebuild" in caught.value.hint


def test_a_place_that_cannot_hold_a_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.db").mkdir()
    with pytest.raises(StorageFailure, match=r"index\.db"):
        opened(tmp_path / "index.db")


def test_a_block_that_raises_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, FIRST)
    database = opened(tmp_path / "x.db")
    with pytest.raises(StorageFailure, match="nowhere"), database.write() as write:
        write.execute("INSERT INTO one VALUES (9); INSERT INTO nowhere VALUES (1)")
    with database.write() as write:
        write.execute("INSERT INTO one VALUES (2)")
    assert database.rows("SELECT x FROM one") == [(1,), (2,)]
    database.close()


def test_another_writer_is_waited_for_and_then_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, FIRST)
    path = tmp_path / "x.db"
    holder = opened(path)
    impatient = Database(path, "index", durable=True, busy_timeout_ms=20)
    with holder.write(), pytest.raises(StorageFailure, match="could not be used"), impatient.write():
        pass
    with impatient.write() as write:
        write.execute("INSERT INTO one VALUES (2)")
    for opened_file in (holder, impatient):
        opened_file.close()


def test_a_long_log_is_taken_into_the_file_once_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_LONG_LOG_BYTES", 300_000)
    index = Database(tmp_path / "index.db", "index", durable=False, busy_timeout_ms=BUSY_MS)
    log = tmp_path / "index.db-wal"

    def put(path: str) -> None:
        with index.write() as write:
            write.execute("INSERT INTO files VALUES (?, 'vault', 1, 1, ?, '', '')", (path, "x" * 200_000))

    with closing(apsw.Connection(str(tmp_path / "index.db"))) as reader:
        reader.execute("BEGIN; SELECT count(*) FROM files").fetchall()
        for number in range(30):
            put(str(number))
        assert log.stat().st_size > 5_000_000
    put("into the file")
    put("from the start of the log")
    assert log.stat().st_size <= 300_000
    assert index.value("SELECT count(*) FROM files") == 32
    index.close()
