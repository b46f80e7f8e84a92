"""Keeping up with the files: scan, rebuild, and filling vectors as durable work."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.ledger import links_path, record_external_changes
from scrimshaw.engine.record import sync_record
from scrimshaw.errors import DamagedDatabase, UnreadableFile
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Degradation, Job, Skip, SourceFile
from scrimshaw.search.token_vectors import pack_tokens
from scrimshaw.storage.databases import note_ledger_end
from scrimshaw.storage.durable import delete_leftovers
from scrimshaw.storage.place import CHECKPOINTS
from scrimshaw.storage.ports import Review
from scrimshaw.storage.scan import find_left_out
from scrimshaw.storage.sync import Progress, SyncReport, sync_index
from scrimshaw.storage.toml_files import LINKS_FILE, read_links

EMBED = "embed"
EMBED_BATCH = 16  # texts per commit: small enough that a killed worker loses under a second of work

KeepGoing = Callable[[int, int], bool]


def scan(engine: Engine, *, force: bool = False, progress: Progress | None = None) -> SyncReport:
    """Bring the index up to date with the files, record what changed outside, and ask for missing vectors."""
    max_bytes = engine.settings.index.max_file_bytes
    report = sync_index(engine.index, engine.sources, engine.parse, max_bytes, force=force, progress=progress)
    for old, new in report.renames():
        engine.journal.update_review(old, partial(_rename, new))
    record_external_changes(engine)
    skipped = _follow_links(engine)
    sync_record(engine)
    with suppress(DamagedDatabase):  # of which every search tells
        if lacks_vectors(engine):
            engine.journal.enqueue(EMBED, "", {})
    engine.degradations.clear(INDEX)
    note_ledger_end(engine.folder)
    return replace(report, skipped=(*report.skipped, *skipped))


def _rename(new: str, review: Review | None) -> Review | None:
    return review and replace(review, memory_id=new)


def rebuild(engine: Engine, *, progress: Progress | None = None) -> SyncReport:
    """Read every file again; what the journal knows is kept."""
    engine.index.retire(None)
    tidy(engine)
    return scan(engine, progress=progress)


def tidy(engine: Engine) -> None:
    """End or remove what killed writers left in the vaults; raises VaultBusy."""
    with engine.write_lock():
        for folder in (engine.folder, engine.storage.place / CHECKPOINTS):
            if folder.is_dir():
                delete_leftovers(folder)
        for source in engine.sources:
            if source.writable:
                delete_leftovers(source.root, "**/")


def embed_pending(engine: Engine, keep_going: KeepGoing | None = None, *, record: bool = True) -> int:
    """Give every chunk a vector of the model, those of records last, or not now; how many texts.

    Token vectors come with it while there is room for them, and last to chunks that have a vector already, or not now.
    `keep_going(done, total)` is asked after every batch.
    """
    if isinstance(engine.embedder, Degradation):
        return 0
    model, embedded, places = engine.embedder.model, 0, dict[tuple[bool, bool], int]()
    find, kinds = partial(engine.index.chunks_to_embed, model, limit=EMBED_BATCH), (False, True)[: 1 + record]
    while True:
        has_room = engine.index.vector_counts().with_tokens < engine.settings.index.token_vectors
        lacks = [(without, of) for without in (False, True)[: 1 + (record and has_room)] for of in kinds]
        # Once more from the start at the end, for what came in between.
        asked = dict.fromkeys([*((lack, places.get(lack, 0)) for lack in lacks), *((lack, 0) for lack in lacks)])
        found = ((lack, find(after=at, tokens=lack[0], record=lack[1])) for lack, at in asked)
        lack, pending = next((each for each in found if each[1]), ((False, False), []))
        if not pending:
            break
        if not lack[1]:  # a session that ends meanwhile comes before older ones
            places[lack] = pending[-1].place
        # One text at a time: a batch would be padded, and the vector of a text would depend on its neighbours.
        rows = {chunk.key: engine.embedder.embed_tokens(chunk.text) for chunk in {c.key: c for c in pending}.values()}
        packed = {key: pack_tokens(tokens) for key, (_, tokens) in rows.items() if has_room}
        engine.index.put_vectors(model, [(key, vector) for key, (vector, _) in rows.items()], tokens=packed)
        embedded += len(rows)
        counts = [engine.index.vector_counts(record=of).progress(model) for of in kinds]
        if keep_going and not keep_going(*map(sum, zip(*counts, strict=True))):
            return embedded
    if record and engine.index.vector_counts().by_model.keys() - {model}:
        engine.index.put_vectors(model, (), only=True)
    return embedded


def run_embed_job(engine: Engine, job: Job, keep_going: KeepGoing) -> str:
    """The work of an embed job; raises EmbedderUnavailable to be tried again later."""
    embed_pending(engine, keep_going)
    return ""


def lacks_vectors(engine: Engine) -> bool:
    """Whether a chunk has no vector of the model, or no token vectors although there is room for them."""
    if isinstance(engine.embedder, Degradation):
        return False
    (done, total), with_tokens = vectors_ready(engine), engine.index.vector_counts().with_tokens
    return done < total or with_tokens < min(total, engine.settings.index.token_vectors)


def vectors_ready(engine: Engine, *, record: bool = True) -> tuple[int, int]:
    """(chunks with a vector of the configured model, all chunks), those of records too, or without them."""
    if isinstance(engine.embedder, Degradation):
        return 0, 0
    counts = (engine.index.vector_counts(record=of) for of in (False, True)[: 1 + record])
    done, total = map(sum, zip(*(each.progress(engine.embedder.model) for each in counts), strict=True))
    return done, total


def skipped_files(engine: Engine) -> list[Skip]:
    """The files that were passed over, by path, and those that are found by their text alone."""
    broken = (state for state in engine.index.manifest().values() if state.reason)
    return [Skip(path=each.path, reason=each.reason, is_found=bool(each.memory_id)) for each in broken]


def left_out_documents(engine: Engine) -> dict[str, dict[str, int]]:
    """How many documents of the project no source reads, by reason and by their folder; most first."""
    settings, groups = engine.settings, dict[str, Counter[str]]()
    for name, reason in find_left_out(settings.project, engine.index.manifest(), settings.index.exclude):
        reason = "unnamed" if settings.sources and reason != "excluded" else reason
        groups.setdefault(reason, Counter())["/".join(name.split("/")[:-1][:2]) or name] += 1
    return {reason: dict(folders.most_common()) for reason, folders in groups.items()}


def catch_up(engine: Engine) -> None:
    """Scan before an answer or after a change; where the index refuses, the answer says so."""
    with engine.degradations.note_failure(INDEX):
        scan(engine)


def _follow_links(engine: Engine) -> list[Skip]:
    """Take the links file into the index; one that cannot be used is reported by name, and the links known stay."""
    path = links_path(engine)
    try:
        links = read_links(path, lambda text: redact(text).text)
    except UnreadableFile as error:
        file = SourceFile(source=LINKS_FILE, memory_id="", path=str(path), size=0, mtime_ns=0)
        engine.index.record_file(file, "", skipped=error.message)
        return [Skip(path=str(path), reason=error.message)]
    if engine.index.manifest(LINKS_FILE):
        engine.index.retire([str(path)])
    engine.index.put_links(links)
    return []
