"""Keeping up with the files: scan, rebuild, and filling vectors as durable work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from scrimshaw.engine.core import LOCK_TIMEOUT_S, Engine
from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Degradation, Entry, Job, Skip, SourceFile
from scrimshaw.storage.files import Vault, lock
from scrimshaw.storage.links import LINKS_FILE, read_links
from scrimshaw.storage.ports import PendingChunk
from scrimshaw.storage.sync import Change, Progress, Synchronizer, SyncReport

EMBED = "embed"
# Texts per commit: small enough that a killed worker loses under a second of work.
EMBED_BATCH = 16

KeepGoing = Callable[[int, int], bool]


def scan(engine: Engine, *, force: bool = False, progress: Progress | None = None) -> SyncReport:
    """Bring the index up to date with the files, record what changed outside, and ask for missing vectors."""
    report = Synchronizer(engine.index, engine.parse, engine.limits()).sync(
        engine.sources, force=force, progress=progress
    )
    for old, new in report.renames():
        engine.journal.rename(old, new)
    _record_external(engine, report)
    skipped = _follow_links(engine)
    done, total = vectors_ready(engine)
    if done < total:
        engine.journal.enqueue(EMBED, "", {})
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
    """Remove what killed writers left in the vaults; raises VaultBusy."""
    with lock(engine.lock_path(), LOCK_TIMEOUT_S):
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


def _record_external(engine: Engine, report: SyncReport) -> None:
    """Ledger rows for vault files that somebody changed by hand, once each."""
    known = engine.journal.last_hashes()
    vaults = {source.root.resolve() for source in engine.sources if source.writable}
    outside = [
        change
        for change in report.changes
        if known.get(change.memory_id, "") != change.new_hash and vaults & set(Path(change.path).parents)
    ]
    if outside:
        engine.journal.record([(_external(change, known), None) for change in outside])


def _external(change: Change, known: dict[str, str]) -> Entry:
    return Entry(
        action=Action.EXTERNAL,
        memory_id=change.memory_id,
        reason="the file changed outside Scrimshaw",
        prior_hash=known.get(change.memory_id, change.prior_hash),
        new_hash=change.new_hash,
        actor="human",
    )
