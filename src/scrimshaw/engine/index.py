"""Keeping up with the files: scan, rebuild, and filling vectors as durable work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from scrimshaw.engine.core import CHECKPOINTS, GLOBAL, Engine
from scrimshaw.engine.degradations import INDEX, index_behind
from scrimshaw.errors import DamagedDatabase, InvalidMemoryId, StorageFailure, UnreadableFile, VaultBusy
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Degradation, Entry, Job, Skip, SourceFile, content_hash
from scrimshaw.storage.durable import sweep
from scrimshaw.storage.files import Vault
from scrimshaw.storage.journal_file import remember
from scrimshaw.storage.kept import Kept
from scrimshaw.storage.links import LINKS_FILE, read_links
from scrimshaw.storage.paths import locate
from scrimshaw.storage.ports import PendingChunk
from scrimshaw.storage.sync import Progress, Synchronizer, SyncReport

EMBED = "embed"
# Texts per commit: small enough that a killed worker loses under a second of work.
EMBED_BATCH = 16
# Files seen for the first time per commit, so that their texts fit in memory.
EXTERNAL_BATCH = 500

KeepGoing = Callable[[int, int], bool]


def scan(engine: Engine, *, force: bool = False, progress: Progress | None = None) -> SyncReport:
    """Bring the index up to date with the files, record what changed outside, and ask for missing vectors."""
    report = Synchronizer(engine.index, engine.parse, engine.limits()).sync(
        engine.sources, force=force, progress=progress
    )
    for old, new in report.renames():
        engine.journal.rename(old, new)
    _record_external(engine)
    skipped = _follow_links(engine)
    if _lacks_vectors(engine):
        engine.journal.enqueue(EMBED, "", {})
    engine.degradations.clear(INDEX)
    remember(engine.folder)
    return replace(report, skipped=(*report.skipped, *skipped))


def links_path(engine: Engine) -> Path:
    """The file of the relations whose source is a document that is never written."""
    return engine.settings.folder / LINKS_FILE


def rebuild(engine: Engine, *, progress: Progress | None = None) -> SyncReport:
    """Read every file again; what the journal knows is kept."""
    engine.index.clear()
    tidy(engine)
    return scan(engine, progress=progress)


def tidy(engine: Engine) -> None:
    """End or remove what killed writers left in the vaults; raises VaultBusy."""
    with engine.write_lock():
        for folder in (engine.folder, engine.folder / CHECKPOINTS):
            if folder.is_dir():
                sweep(folder, [path.name for path in folder.iterdir()])
        for source in engine.sources:
            if source.writable:
                Vault(source.root, source.name, writable=True).sweep()


def embed_pending(engine: Engine, keep_going: KeepGoing | None = None) -> int:
    """Give every chunk a vector of the configured model; the number of texts embedded.

    `keep_going(done, total)` is asked after every batch. Raises EmbedderUnavailable when the model cannot be used.
    """
    if isinstance(engine.embedder, Degradation):
        return 0
    model, embedded = engine.embedder.model, 0
    place = 0
    while pending := _next_pending(engine, model, place):
        place = pending[-1].place
        # One text at a time: a batch would be padded, and the vector of a text would depend on its neighbours.
        texts = {chunk.key: chunk.text for chunk in pending}
        rows = [(key, engine.embedder.embed([text])[0]) for key, text in texts.items()]
        engine.index.put_vectors(model, rows)
        embedded += len(rows)
        if keep_going and not keep_going(*engine.index.vector_progress(model)):
            return embedded
    for other in engine.index.vector_models():
        if other != model:
            engine.index.drop_vectors(other)
    return embedded


def _next_pending(engine: Engine, model: str, place: int) -> list[PendingChunk]:
    """The next texts to embed behind a place; once more from the start for what came in between."""
    found = engine.index.pending(model, after=place, limit=EMBED_BATCH)
    return found or (engine.index.pending(model, after=0, limit=EMBED_BATCH) if place else [])


def run_embed_job(engine: Engine, job: Job, keep_going: KeepGoing) -> str:
    """The work of an embed job; raises EmbedderUnavailable to be tried again later."""
    embed_pending(engine, keep_going)
    return ""


def vectors_ready(engine: Engine) -> tuple[int, int]:
    """(chunks with a vector of the configured model, all chunks)."""
    if isinstance(engine.embedder, Degradation):
        return 0, 0
    return engine.index.vector_progress(engine.embedder.model)


def catch_up(engine: Engine) -> None:
    """Scan before an answer; where the index refuses, the answer is given from what it holds and says so."""
    try:
        scan(engine)
    except StorageFailure as error:
        engine.degradations.put(INDEX, index_behind(error))


def _lacks_vectors(engine: Engine) -> bool:
    """Whether vectors are to be made; not in a damaged table, of which every search tells."""
    try:
        done, total = vectors_ready(engine)
    except DamagedDatabase:
        return False
    return done < total


def _follow_links(engine: Engine) -> list[Skip]:
    """Take the links file into the index; one that cannot be used is reported by name, and the links known stay."""
    path = links_path(engine)
    try:
        links = read_links(path, lambda text: redact(text).text)
    except UnreadableFile as error:
        file = SourceFile(source=LINKS_FILE, memory_id="", path=str(path), size=0, mtime_ns=0)
        engine.index.skip(file, "", error.message)
        return [Skip(path=str(path), reason=error.message)]
    if engine.index.manifest(LINKS_FILE):
        engine.index.retire([str(path)])
    engine.index.put_links(links)
    return []


def unrecorded(engine: Engine) -> dict[str, tuple[str | None, str]]:
    """Files of the vaults that are not as the ledger says: (hash it says, hash they have), by memory id.

    The links file goes by its name; an empty hash means that there is no file, None that the ledger never heard of it.
    """
    if not engine.sources[0].writable:
        return {}
    said, found = engine.journal.last_hashes(), _hashes(engine)
    differing = [name for name in said.keys() | found.keys() if name and said.get(name, "") != found.get(name, "")]
    # What the index saw may be some time ago: only the file itself is proof.
    now = {name: _hash_on_disk(engine, name) for name in sorted(differing)}
    return {
        name: (said.get(name), seen) for name, seen in now.items() if seen is not None and seen != said.get(name, "")
    }


def ledger_file(engine: Engine, name: str) -> tuple[Path, Path]:
    """The file a ledger entry is about and the folder it may empty; raises ReadOnly, InvalidMemoryId."""
    if name == LINKS_FILE:
        return links_path(engine), engine.settings.folder
    vault, inside = engine.vault_of(name)
    return locate(vault.root, inside), vault.root.resolve()


def _hashes(engine: Engine) -> dict[str, str]:
    """What the index saw of the memories that are ours, and the links file; what is broken by now is absent."""
    states = [
        state for source in engine.sources if source.writable for state in engine.index.manifest(source.name).values()
    ]
    found = {state.memory_id: state.content_hash for state in states if state.memory_id}
    return {**found, LINKS_FILE: _hash_on_disk(engine, LINKS_FILE) or ""}


def _hash_on_disk(engine: Engine, name: str) -> str | None:
    """The hash of a file that is ours, empty where there is none, None where nobody can tell."""
    try:
        return hash_of(_bytes_on_disk(engine, name))
    except OSError:
        return None


def _bytes_on_disk(engine: Engine, name: str) -> bytes | None:
    """A file that is ours, None where there is none; raises OSError where nobody can tell."""
    try:
        return ledger_file(engine, name)[0].read_bytes()
    except (FileNotFoundError, NotADirectoryError, InvalidMemoryId):
        return None


def _record_external(engine: Engine) -> None:
    """Ledger rows for files of the vaults that were changed, broken or removed by hand, once each."""
    if not unrecorded(engine):
        return
    try:
        with engine.write_lock():
            found = [(name, said) for name, (said, _) in unrecorded(engine).items()]
            for start in range(0, len(found), EXTERNAL_BATCH):
                _record_seen(engine, found[start : start + EXTERNAL_BATCH])
    except VaultBusy:
        # Its holder may be writing the very rows; the next scan sees what is missing then.
        return


def _record_seen(engine: Engine, files: Sequence[tuple[str, str | None]]) -> None:
    """A row and the text of each of these files, given with the hash the ledger has for it."""
    entries: list[Entry] = []
    texts: list[Kept] = []
    for name, said in files:
        try:
            data = _bytes_on_disk(engine, name)
        except OSError:
            continue
        entries.append(external(name, said, hash_of(data)))
        texts += kept(name, data)
    engine.journal.record([(entry, None) for entry in entries], (), texts)


def hash_of(data: bytes | None) -> str:
    """The hash of a file's bytes as the ledger has it, empty where there is no file."""
    return "" if data is None else content_hash(data)


def kept(name: str, data: bytes | None) -> list[Kept]:
    """What the journal keeps of a file for undo: its text, redacted; nothing where there is no file."""
    return [] if data is None else [Kept(name, content_hash(data), redact(data.decode(errors="replace")))]


def external(name: str, said: str | None, now: str) -> Entry:
    """The row of a change that no tool made: `said` is the hash the ledger had, None for a file it never heard of.

    The user's own vault is changed from other projects too, so nobody can tell who did.
    """
    if said is None:
        reason = "first seen"
    elif not now:
        reason = "the file was removed outside Scrimshaw"
    else:
        reason = f"the file {'changed' if said else 'came back'} outside Scrimshaw"
    return Entry(
        action=Action.EXTERNAL,
        memory_id=name,
        reason=reason,
        prior_hash=said or "",
        new_hash=now,
        actor="external" if name.startswith(GLOBAL) else "human",
    )
