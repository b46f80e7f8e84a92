"""Archives: written whole, read only when every byte is what was written."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import digest

from scrimshaw.errors import NotFound, StorageFailure, UnusableArchive
from scrimshaw.models import Redacted, content_hash
from scrimshaw.storage import archive
from scrimshaw.storage.archive import ArchivedFile, Manifest, open_archive, write_archive
from scrimshaw.storage.sqlite.database import Database, find_newest_migration
from scrimshaw.storage.sqlite.maintenance import SqliteMaintenance, dump, stage

SCHEMA = find_newest_migration("journal")
HEAD = Manifest(format=archive.FORMAT, schema=SCHEMA, name="one", created=1.5, metadata={"why": "x"}, parts={})
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("t", {"a": 1, "b": "ü"}),
    ("t", {"a": 2, "b": None}),
    ("u", {"c": b"\x00\xff"}),
]


def kept(name: str, text: str) -> ArchivedFile:
    return ArchivedFile(name=name, text=Redacted(text=text), content_hash=digest(text))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An archive of two files and three rows, and a file that is no text."""
    path = tmp_path / "deep/one.scrim"
    files = [
        kept("memories/a.md", "\ufeffone\r\n"),
        kept("memories/b.md", ""),
        ArchivedFile(name="c", text=None, content_hash="x"),
    ]
    write_archive(path, HEAD, files, ROWS)
    return path


def everything(path: Path, schema: int = SCHEMA) -> tuple[dict[str, str], list[tuple[str, dict[str, Any]]]]:
    with open_archive(path, schema) as opened:
        return {name: opened.text(name) for name in opened.manifest.files}, list(opened.rows())


def test_what_was_written_is_read(path: Path) -> None:
    files, rows = everything(path)
    assert files == {"memories/a.md": "\ufeffone\r\n", "memories/b.md": ""}
    assert rows == [*ROWS[:2], ("u", {"c": "AP8="})]
    with open_archive(path, SCHEMA) as opened:
        assert opened.manifest.rows == {"t": 2, "u": 1}
        assert (opened.manifest.left_out, opened.manifest.metadata) == (("c",), {"why": "x"})
    assert [each.name for each in path.parent.iterdir()] == ["one.scrim"]


@pytest.mark.skipif(os.name == "nt", reason="no such modes")
def test_an_archive_is_for_its_owner(path: Path) -> None:
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]


def test_a_failing_source_leaves_no_file(tmp_path: Path) -> None:
    def fail() -> Iterator[tuple[str, dict[str, Any]]]:
        yield ROWS[0]
        raise StorageFailure("gone")

    with pytest.raises(StorageFailure):
        write_archive(tmp_path / "x.scrim", HEAD, [], fail())
    assert list(tmp_path.iterdir()) == []


def test_the_folders_of_a_project_that_moved_are_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(StorageFailure, match="Cannot write"):
        write_archive(tmp_path / "project/.scrimshaw/checkpoints/x.scrim", HEAD, [], ROWS)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        everything(tmp_path / "nothing.scrim")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(share=st.floats(0, 0.999))
def test_a_cut_archive_is_refused(tmp_path_factory: pytest.TempPathFactory, share: float) -> None:
    file = tmp_path_factory.mktemp("cut") / "x.scrim"
    write_archive(file, HEAD, [kept("memories/a.md", "text " * 200)], ROWS)
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(UnusableArchive, match="cannot be used"):
        everything(file)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_flipped_byte_changes_nothing_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, place: int, flip: int
) -> None:
    file = tmp_path_factory.mktemp("flip") / "x.scrim"
    write_archive(file, HEAD, [kept("memories/a.md", "text " * 20)], ROWS)
    whole = everything(file)
    data = bytearray(file.read_bytes())
    data[place % len(data)] ^= flip
    file.write_bytes(data)
    try:
        assert everything(file) == whole
    except UnusableArchive:
        return


@pytest.mark.slow
def test_no_byte_of_the_directory_goes_unnoticed(tmp_path: Path) -> None:
    file = tmp_path / "x.scrim"
    write_archive(file, HEAD, [kept("memories/a.md", "text")], ROWS)
    whole, data = everything(file), file.read_bytes()
    for place in range(data.index(b"PK\x01\x02"), len(data)):
        for flip in (1, 0x80):
            file.write_bytes(data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :])
            with suppress(UnusableArchive):
                assert everything(file) == whole


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> None:
    """Change an archive's manifest and entries, with a checksum that fits again."""
    with zipfile.ZipFile(path) as opened:
        entries = {name: opened.read(name) for name in opened.namelist()}
    manifest = json.loads(entries.pop("manifest.json"))
    change(manifest, entries)
    data = msgspec.json.encode(manifest)
    with zipfile.ZipFile(path, "w") as opened:
        for name, content in entries.items():
            opened.writestr(name, content)
        opened.writestr("manifest.json", data)
        opened.comment = content_hash(data).encode()


CHANGES: dict[str, tuple[Callable[[dict[str, Any], dict[str, bytes]], Any], str]] = {
    "newer format": (lambda manifest, _: manifest.update(format=99), "newer version"),
    "newer schema": (lambda manifest, _: manifest.update(schema=SCHEMA + 1), "newer version"),
    "odd format": (lambda manifest, _: manifest.update(format="one"), "damaged"),
    "no parts": (lambda manifest, _: manifest.pop("parts"), "damaged"),
    "unnamed entry": (lambda _, entries: entries.update({"files/x": b""}), "does not hold"),
    "missing entry": (lambda _, entries: entries.pop("files/memories/b.md"), "does not hold"),
    "other text": (lambda _, entries: entries.update({"files/memories/a.md": b"other"}), "not what was written"),
    "longer text": (lambda _, entries: entries.update({"files/memories/b.md": b"x" * 9**5}), "not what was written"),
    "other row": (lambda _, entries: entries.update({"tables/t.jsonl": b'{"a":1}\n{"a":2}\n'}), "not what was written"),
    "no JSON": (lambda _, entries: entries.update({"tables/t.jsonl": b"nothing\n"}), "damaged"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_archive_is_refused(path: Path, name: str) -> None:
    change, reason = CHANGES[name]
    rewritten(path, change)
    with pytest.raises(UnusableArchive, match=reason):
        everything(path)


def test_a_manifest_without_its_checksum_is_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as opened:
        opened.comment = b"0" * 64
    with pytest.raises(UnusableArchive, match="checksum"):
        everything(path)


# Rows and their schema


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "journal.db", "journal", durable=True, busy_timeout_ms=1000)
    with database.write() as write:
        write.execute(
            "INSERT INTO sessions (id, client, process, state, counter, task, started, last_event, continues)"
            " VALUES ('s', 'c', 1, 'active', 2, '', 1.0, 2.5, '')"
        )
        write.execute("INSERT INTO shown VALUES ('s', 'a', 'h', 3.0)")
        write.execute("INSERT INTO contents VALUES ('h', 'a', ?, 4.0)", (b"\x00text",))
    yield database
    database.close()


def as_read(live: Database) -> list[tuple[str, dict[str, Any]]]:
    """The rows as they come out of an archive."""
    return [(table, msgspec.json.decode(msgspec.json.encode(row))) for table, row in dump(live)]


def test_all_rows_go_through(live: Database, tmp_path: Path) -> None:
    rows = as_read(live)
    assert [table for table, _ in rows] == ["contents", "sessions", "shown"]
    staged = stage(tmp_path / "staged.db", SCHEMA, rows)
    assert list(dump(staged)) == list(dump(live))
    with live.write() as write:
        assert set(SqliteMaintenance.insert_staged(write, staged, clear=False).values()) == {0}
        write.execute("DELETE FROM shown")
        assert SqliteMaintenance.insert_staged(write, staged, clear=False)["shown"] == 1
        write.execute("INSERT INTO shown VALUES ('s', 'b', 'h', 3.0)")
        assert SqliteMaintenance.insert_staged(write, staged, clear=True)["shown"] == 1
    assert list(dump(staged)) == list(dump(live))
    staged.close()


def test_a_table_of_a_later_migration_is_not_forgotten(live: Database) -> None:
    with live.write() as write:
        write.execute("CREATE TABLE later (x INTEGER); INSERT INTO later VALUES (7)")
    assert ("later", {"x": 7}) in list(dump(live))


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown table": ("migrants", {}, "columns"),
    "unknown column": ("shown", {"colour": "red"}, "columns"),
    "number for text": ("shown", {"memory_id": 7}, "shown.memory_id holds int, not TEXT"),
    "text for number": ("shown", {"at": "now"}, "shown.at holds str, not REAL"),
    "fraction for integer": ("sessions", {"counter": 1.5}, "sessions.counter holds float, not INTEGER"),
    "true for integer": ("sessions", {"counter": True}, "sessions.counter holds bool, not INTEGER"),
    "nothing where something must be": ("shown", {"content_hash": None}, "contradict"),
    "the same key twice": ("sessions", {}, "contradict"),
    "a session that is not there": ("shown", {"session": "t"}, "contradict"),
    "broken bytes": ("contents", {"content": "*"}, "base64"),
}


@pytest.mark.parametrize("name", WRONG)
def test_every_row_is_checked(live: Database, tmp_path: Path, name: str) -> None:
    table, change, reason = WRONG[name]
    rows = as_read(live)
    row = next((row for found, row in rows if found == table), {})
    with pytest.raises(UnusableArchive, match=reason):
        stage(tmp_path / "staged.db", SCHEMA, [*rows, (table, {**row, **change})])


def test_a_missing_column_is_refused(live: Database, tmp_path: Path) -> None:
    rows = as_read(live)
    rows[0][1].pop("at")
    with pytest.raises(UnusableArchive, match="columns"):
        stage(tmp_path / "staged.db", SCHEMA, rows)


def test_rows_of_an_older_schema_are_brought_up_to_date(tmp_path: Path) -> None:
    old = Database(tmp_path / "old.db", "journal", durable=True, busy_timeout_ms=1000, through=3)
    with old.write() as write:
        write.execute(
            "INSERT INTO sessions (id, client, process, state, counter, task, started, last_event, continues)"
            " VALUES ('s', 'c', 1, 'active', 2, '', 1.0, 2.5, '')"
        )
        write.execute(
            "INSERT INTO events (session, number, kind, tool, call_id, text, at)"
            " VALUES ('s', 1, 'tool', '', '', 'x', 1.0)"
        )
    rows = as_read(old)
    old.close()
    assert "failed" not in rows[0][1]
    staged = stage(tmp_path / "staged.db", 3, rows)
    assert dict(dump(staged))["events"]["failed"] is None
    staged.close()


def test_the_ledger_is_taken_only_where_there_is_none(live: Database, tmp_path: Path) -> None:
    insert = "INSERT INTO ledger VALUES (1, 1.0, '{}', 'a', '', '', '', '[]', '{{}}', '', '', 'chain')"
    with live.write() as write:
        write.execute(insert.format("create"))
    staged = stage(tmp_path / "staged.db", SCHEMA, as_read(live))
    empty = Database(tmp_path / "empty.db", "journal", durable=True, busy_timeout_ms=1000)
    other = Database(tmp_path / "other.db", "journal", durable=True, busy_timeout_ms=1000)
    with empty.write() as write:
        assert SqliteMaintenance.insert_staged(write, staged, clear=True)["ledger"] == 1
    with other.write() as write:
        write.execute(insert.format("purge"))
        taken = SqliteMaintenance.insert_staged(write, staged, clear=True)
    assert ("ledger" in taken, taken["contents"]) == (False, 0)
    assert other.value("SELECT action FROM ledger") == "purge"
    for database in (staged, empty, other):
        database.close()


def test_a_clock_before_1980_is_no_hindrance(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    write_archive(path, HEAD, [kept("memories/a.md", "one")], ROWS)
    with open_archive(path, SCHEMA) as opened:
        assert opened.text("memories/a.md") == "one"
