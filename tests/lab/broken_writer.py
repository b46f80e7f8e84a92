"""A writer of a build that is broken on purpose: `python broken_writer.py WHAT ORDER`. The proof must find it out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import msgspec

from scrimshaw.engine import ledger
from scrimshaw.engine.degradations import ProcessDegradations
from scrimshaw.storage import durable
from scrimshaw.storage.journal import Journal
from scrimshaw.storage.sqlite.database import Database
from scrimshaw.storage.transaction import FileChange
from scrimshaw_lab.proving import writer
from scrimshaw_lab.proving.plan import Order

GROUP = 5


def file_not_forced() -> None:
    """A new file's bytes are left to the system."""

    def stage_file(path: Path, data: bytes, *, temporary: Path | None = None, **_: object) -> Path:
        durable.make_folders(path.parent)
        staged = temporary or durable.temporary_of(path)
        staged.write_bytes(data)
        return staged

    put(durable, "stage_file", stage_file)


def names_not_forced() -> None:
    """Renames and removals are left to the system."""
    put(durable, "sync_folder", lambda folder: None)


def written_in_place() -> None:
    """A file is overwritten where it stands, in two writes."""

    def replace_file(path: Path, data: bytes, **_: object) -> None:
        durable.make_folders(path.parent)
        with path.open("wb") as file:
            for part in (data[: len(data) // 2], data[len(data) // 2 :]):
                file.write(part)
                file.flush()
                os.fsync(file.fileno())
        durable.sync_folder(path.parent)

    put(durable, "replace_file", replace_file)


def journal_before_file() -> None:
    """The ledger tells of a file that is written afterwards."""
    replace, record = durable.replace_file, Journal.record
    later: list[Callable[[], object]] = []

    def replace_later(path: Path, data: bytes, **_: object) -> None:
        later.append(lambda: replace(path, data))

    def record_first(self: Journal, *given: Sequence[Any]) -> list[int]:
        numbers = record(self, *given)
        while later:
            later.pop()()
        return numbers

    put(durable, "replace_file", replace_later)
    put(Journal, "record", record_first)


def answer_before_commit() -> None:
    """Several transactions of the journal are committed together, after the first of them were acknowledged."""
    original = Database.write
    written = 0

    @contextmanager
    def write(self: Database) -> Iterator[Any]:
        nonlocal written
        if self.path.name != "journal.db":
            with original(self) as connection:
                yield connection
            return
        with self.lend() as connection:
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            yield connection
            written += 1
            if written % GROUP == 0:
                connection.execute("COMMIT")

    put(Database, "write", write)


def put_back_by_writing() -> None:
    """A refused change writes the old bytes again, for which a full disk has no room."""

    def swap(change: FileChange, data: bytes | None) -> None:
        if data is None:
            durable.remove_file(change.path, change.root)
        else:
            durable.replace_file(change.path, data)

    @contextmanager
    def change_files(_folder: Path, _mark: str, changes: Sequence[FileChange]) -> Iterator[None]:
        for change in changes:
            with durable.storage_errors("change", change.path):
                swap(change, change.after)
        try:
            yield
        except BaseException:
            for change in changes:
                with suppress(OSError):
                    swap(change, change.before)
            raise

    put(ledger, "atomic_file_changes", change_files)


def index_has_the_last_word() -> None:
    """A change that the index refuses is refused, though files and ledger have it."""
    put(ProcessDegradations, "note_failure", lambda self, part: nullcontext())


def moves_not_seen() -> None:
    """What was opened once is written to, wherever it is."""
    put(Database, "_identify", lambda self: [None, None])


BREAKS = {
    each.__name__: each
    for each in (
        file_not_forced,
        names_not_forced,
        written_in_place,
        journal_before_file,
        answer_before_commit,
        put_back_by_writing,
        index_has_the_last_word,
        moves_not_seen,
    )
}


def put(place: Any, name: str, value: object) -> None:
    assert hasattr(place, name), f"{place} has no {name}: nothing would be broken"
    setattr(place, name, value)


if __name__ == "__main__":
    BREAKS[sys.argv[1]]()
    writer.main(msgspec.json.decode(sys.argv[2], type=Order))
