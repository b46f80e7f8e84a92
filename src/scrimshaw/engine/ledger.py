"""Changes of files with their rows in the ledger: both, or neither.

The journal keeps the text of every file as its last row left it, so that what a change replaces is durable before the
file is touched. Where the row is refused the files are put back. Where the process dies in between, the next scan sees
a change that nobody recorded, and undo finds the text before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.index import external, hash_of, kept, ledger_file
from scrimshaw.errors import Conflict, StorageFailure
from scrimshaw.models import Entry, Redacted
from scrimshaw.storage.durable import remove_file, replace_file, storage_errors
from scrimshaw.storage.files import demand_hash
from scrimshaw.storage.kept import Kept
from scrimshaw.storage.links import LINKS_FILE


class Change(NamedTuple):
    """What `act` does to a file whose hash it is given: the text it leaves, None for no file, and the row, whose hashes
    are put in here. `expected` is the hash that the file must have, "" for none, None for any.
    """

    entry: Entry
    then: Redacted | None
    act: Callable[[str], object]
    expected: str | None = None


class _File(NamedTuple):
    """A file before and after its change."""

    name: str
    path: Path
    root: Path
    before: bytes | None
    after: bytes | None


def apply_changes(engine: Engine, changes: Sequence[Change], jobs: Sequence[tuple[str, str]] = ()) -> None:
    """Change files, then record them in one commit with the jobs; the vault's lock is held.

    A hand's change that the ledger has not heard of gets a row of its own first. Raises what the acts raise, and
    StorageFailure; then every file is as it was.
    """
    files = [_file(engine, change) for change in changes]
    rows = [
        replace(change.entry, prior_hash=hash_of(file.before), new_hash=hash_of(file.after))
        for change, file in zip(changes, files, strict=True)
    ]
    tried: list[_File] = []
    try:
        _catch_up(engine, files)
        for change, file in zip(changes, files, strict=True):
            tried.append(file)
            change.act(hash_of(file.before))
        # Anew, since what an edit left of a hand's file was not redacted.
        texts = [text for file in files for text in kept(file.name, file.after)]
        engine.journal.record([(row, None) for row in rows], jobs, texts)
    except BaseException as error:
        stuck = _put_back(engine, tried)
        if isinstance(error, StorageFailure):
            raise _told(error, stuck) from error
        raise


def _file(engine: Engine, change: Change) -> _File:
    name = str(change.entry.decision_meta.get("file") or change.entry.memory_id)
    path, root = ledger_file(engine, name)
    with storage_errors("read", path):
        before = path.read_bytes() if path.is_file() else None
    demand_hash(name, before, change.expected)
    after = None if change.then is None else change.then.text.encode(errors="replace")
    return _File(name, path, root, before, after)


def _catch_up(engine: Engine, files: Sequence[_File]) -> None:
    """Record what the journal does not know of the files, while they stand."""
    rows: list[tuple[Entry, None]] = []
    texts: list[Kept] = []
    for file in files:
        said, stands = _said(engine, file.name), hash_of(file.before)
        if stands != (said or ""):
            rows.append((external(file.name, said, stands), None))
        if stands and engine.journal.prior(file.name, stands) is None:
            texts += kept(file.name, file.before)
    if rows or texts:
        engine.journal.record(rows, (), texts)


def _said(engine: Engine, name: str) -> str | None:
    """The hash that the ledger has for a file, None for one it never heard of."""
    newest = engine.journal.history(name, 1)
    if name == LINKS_FILE or any("file" in row["decision_meta"] for row in newest):
        return engine.journal.last_hashes().get(name)
    return str(newest[0]["new_hash"]) if newest else None


def _put_back(engine: Engine, files: Sequence[_File]) -> list[str]:
    """Take the changes back; the paths of files for which that was refused too."""
    stuck = []
    for file in reversed(files):
        try:
            _as_before(file)
        except OSError:
            stuck.append(str(file.path))
    with suppress(StorageFailure):
        # Another process may have read a new file meanwhile.
        engine.index.retire([str(file.path) for file in files if file.before is None])
    return stuck


def _as_before(file: _File) -> None:
    """What somebody else put there meanwhile stays."""
    stands = _standing(file)
    if stands != file.after or stands == file.before:
        return
    if file.before is None:
        remove_file(file.path, file.root)
        return
    with suppress(Conflict):
        replace_file(file.path, file.before, check=lambda: demand_hash(file.name, _standing(file), hash_of(file.after)))


def _standing(file: _File) -> bytes | None:
    return file.path.read_bytes() if file.path.is_file() else None


def _told(error: StorageFailure, stuck: Sequence[str]) -> StorageFailure:
    """The error with what became of the files."""
    left = "Nothing was changed."
    if stuck:
        left = f"{', '.join(stuck)} could not be put back; the text before is in the journal: see `scrimshaw undo`."
    return type(error)(f"{error.message} {left}", error.hint, **error.details)
