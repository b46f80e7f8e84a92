"""Files and their ledger rows: changed together, and rows added for files that a person changed by hand.

If the process dies in between, the next scan records a single change as made by hand, and several changes are
reverted by whoever locks the vault next.
"""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from scrimshaw.engine.core import GLOBAL, Engine
from scrimshaw.errors import InvalidMemoryId, StorageFailure, VaultBusy
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Entry, Redacted, content_hash
from scrimshaw.storage.durable import read_if_there, storage_errors
from scrimshaw.storage.git import find_last_commit
from scrimshaw.storage.paths import Vault, locate
from scrimshaw.storage.ports import StoredText
from scrimshaw.storage.scan import SERENA
from scrimshaw.storage.toml_files import LINKS_FILE
from scrimshaw.storage.transaction import FileChange, atomic_file_changes, lock, make_conflict

SHARED_TIMEOUT_S = 10.0  # for one file of a vault that other projects write too
_UNKNOWN = (StorageFailure, InvalidMemoryId)  # the file's existence is unknown, as behind a link that leads out
_CHANGED = re.compile(r"\[REDACTED:|\ufffd")  # in a stored text, which may then differ from the file
PUBLIC_NAMES = {"memory_id": "id", "linked_memory_ids": "linked_ids"}  # what answers call columns of the ledger
IN_VAULT = {SERENA: {"vault": SERENA}}  # meta of rows for files there, so that an undo restores them there
EXTERNAL_BATCH = 500  # files seen for the first time per commit, so that their texts fit in memory
_MOST_COMMITS = 50  # files whose last commit git is asked for; it takes milliseconds each


class LedgerFile(NamedTuple):
    """A file as it is now, by its name in the ledger: the memory's id, or that of the links file."""

    name: str
    path: Path
    root: Path  #: Folders below this one are removed with their last file.
    data: bytes | None  #: None if there is no file; `hash` is empty then.
    hash: str
    source: str = ""  #: The name of its vault, and the lock of a vault that other projects write too.
    shared_lock: Path | None = None
    is_stored: bool = False  #: Whether the journal is known to have its text.


class RecordedChange(NamedTuple):
    """A file's new text, None to remove it, with the row to record; the row's hashes are filled in."""

    entry: Entry
    file: LedgerFile
    text: Redacted | None
    is_clean: bool = False  #: Whether all of the text was redacted, not only what an edit brought.
    new_hash: str = ""  #: The hash of the new bytes, where it is known already.


def links_path(engine: Engine) -> Path:
    """The file of the relations whose source is a document that is never written."""
    return engine.settings.folder / LINKS_FILE


def read_file(
    engine: Engine, name: str, expected_hash: str | None = None, known_hash: str = "", vault_name: str = ""
) -> LedgerFile:
    """A file of the ledger, from the named vault or the one that has it; raises Conflict unless it has `expected_hash`.

    A hash "" means no file, None any file. One with just the journal's text of `known_hash` is not hashed again.
    """
    if name == LINKS_FILE:
        vault = Vault(engine.settings.folder.resolve(), "")
        path = vault.root / LINKS_FILE
    else:
        vault, inside = engine.vault_of(name, vault_name)
        path = locate(vault.root, inside)
    with storage_errors("read", path):
        data = read_if_there(path)
    stored = engine.journal.prior_text(name, known_hash) if known_hash else None
    is_stored = stored is not None and stored.encode() == data and not _CHANGED.search(stored)
    digest = known_hash if is_stored else hash_of(data)
    if expected_hash is not None and expected_hash != digest:
        raise make_conflict(name, digest, expected_hash)
    return LedgerFile(name, path, vault.root.resolve(), data, digest, vault.name, vault.shared, is_stored)


def apply_changes(engine: Engine, changes: Sequence[RecordedChange], jobs: Sequence[tuple[str, str]] = ()) -> None:
    """Change files and record them and the jobs in one commit; when it raises, as ReadOnly, every file is as it was."""
    if not changes:
        return
    for each in changes:
        if each.file.source == SERENA:
            engine.demand_open_to_writers(each.file.name)
    _record_unseen(engine, changes)
    mark = secrets.token_hex(16) if len(changes) > 1 else ""
    files, entries, texts = list[FileChange](), list[Entry](), list[StoredText]()
    by = f":{engine.person}" if engine.person else ""
    for entry, file, text, is_clean, known_hash in changes:
        change = FileChange(file.path, file.root, file.data, text, file.name)
        after = change.after
        new_hash = known_hash or hash_of(after)
        meta = {**entry.decision_meta, **({"mark": mark} if mark else {}), **IN_VAULT.get(file.source, {})}
        files.append(change)
        actor = f"{entry.actor}{by}"
        entries.append(replace(entry, actor=actor, prior_hash=file.hash, new_hash=new_hash, decision_meta=meta))
        if text is not None and after is not None:
            whole = StoredText(file.name, new_hash, text) if is_clean else redact_text(file.name, new_hash, after)
            texts.append(whole)
    shared = [*filter(None, map(attrgetter("file.shared_lock"), changes))]
    shared_lock = lock(shared[0], SHARED_TIMEOUT_S, makes_folder=True) if shared else nullcontext()
    with shared_lock, atomic_file_changes(engine.folder, mark, files):
        engine.journal.record(entries, jobs, texts)


def _record_unseen(engine: Engine, changes: Sequence[RecordedChange]) -> None:
    """Record unknown states of the files before they change."""
    entries, texts, hashes = list[Entry](), list[StoredText](), engine.journal.last_hashes()
    for change in changes:
        name, data, current = change.file.name, change.file.data, change.file.hash
        recorded = hashes.get(name)
        if current != (recorded or ""):
            entries.append(make_external_entry(change.file, recorded))
        if data is not None and not change.file.is_stored and engine.journal.prior_text(name, current) is None:
            texts.append(redact_text(name, current, data))
    if entries or texts:
        engine.journal.record(entries, (), texts)


def _find_unrecorded(engine: Engine) -> Iterator[tuple[LedgerFile, str | None]]:
    """Files of the vaults that are not as the ledger says, with the hash it says, None for one it never recorded."""
    if not engine.sources[0].writable:
        return
    recorded = engine.journal.last_hashes()
    manifests = (engine.index.manifest(source.name) for source in engine.sources if source.writable)
    indexed = {state.memory_id: state.content_hash for manifest in manifests for state in manifest.values()}
    with suppress(*_UNKNOWN):
        indexed[LINKS_FILE] = read_file(engine, LINKS_FILE).hash
    names = sorted(filter(None, recorded.keys() | indexed.keys()))
    if engine.team:  # its index lacks private files and the user's own vault
        names = [name for name in names if name in indexed]
    for name in names:
        if recorded.get(name, "") != indexed.get(name, ""):
            with suppress(*_UNKNOWN):  # the index may be out of date: only the file itself is proof
                if (file := read_file(engine, name)).hash != recorded.get(name, ""):
                    yield file, recorded.get(name)


def record_external_changes(engine: Engine, renames: Mapping[str, str]) -> bool:
    """Record files changed or removed by hand, once each, those gone with new ids in `renames`; whether any were."""
    if not any(_find_unrecorded(engine)):
        return False
    # The holder of the lock may be writing these rows just now; the next scan adds what is missing.
    with suppress(VaultBusy), engine.write_lock():
        found, left = _find_unrecorded(engine), _MOST_COMMITS
        while batch := [*islice(found, EXTERNAL_BATCH)]:
            changed = [file for file, recorded in batch if recorded is not None]
            commits = {file.name: find_last_commit(file.path) for file in changed[:left]}
            left -= len(commits)
            entries = [
                make_external_entry(file, recorded, renames.get(file.name, ""), commits.get(file.name, ""))
                for file, recorded in batch
            ]
            texts = [redact_text(file.name, file.hash, file.data) for file, _ in batch if file.data is not None]
            engine.journal.record(entries, (), texts)
    return True


def hash_of(data: bytes | None) -> str:
    """The hash of a file's bytes as the ledger stores it, empty if there is no file."""
    return "" if data is None else content_hash(data)


def redact_text(name: str, digest: str, data: bytes) -> StoredText:
    """What the journal keeps of a file for undo: its text, redacted."""
    return StoredText(name, digest, redact(data.decode(errors="replace")))


def make_external_entry(file: LedgerFile, recorded: str | None, new_name: str = "", commit: str = "") -> Entry:
    """The row of a change that no tool made: `recorded` is the ledger's last hash, None for a file new to it.

    With `commit`, the commit and author that git has of the same change, nobody here made it.
    """
    name, current = file.name, file.hash
    event = "was removed" if not current else "changed" if recorded else "came back"
    renamed = {"renamed_to": new_name} if new_name and not current else {}
    how = f"with git, commit {commit}" if commit else "outside Scrimshaw"
    reason = "first seen" if recorded is None else redact(f"the file {event} {how}").text
    is_own = not commit and file.source != SERENA and not name.startswith(GLOBAL)
    actor, before = "human" if is_own else "external", recorded or ""
    return Entry(
        action=Action.EXTERNAL,
        memory_id=name,
        reason=reason,
        prior_hash=before,
        new_hash=current,
        actor=actor,
        decision_meta={**IN_VAULT.get(file.source, {}), **renamed, **({"commit": commit.split()[0]} if commit else {})},
    )
