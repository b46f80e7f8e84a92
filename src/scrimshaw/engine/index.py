"""Keeping the index up to date with the files: scan, rebuild, and vectors made by durable jobs."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from scrimshaw.config import load
from scrimshaw.engine.core import PRIVATE, Engine, list_project_sources
from scrimshaw.engine.degradations import INDEX, describe_loss
from scrimshaw.engine.ledger import links_path, record_external_changes
from scrimshaw.engine.record import sync_record
from scrimshaw.errors import ConfigError, DamagedDatabase, ScrimshawError, UnreadableFile
from scrimshaw.ingest.comparison import BRIEF, compute_minhash, jaccard, split_runs
from scrimshaw.ingest.front_matter import CREATED
from scrimshaw.ingest.markdown import SUPERSEDED_BY, relate_neighbours
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.redact import redact
from scrimshaw.models import ArtifactClass, Degradation, Document, Edge, Job, Relation, Skip, SourceFile, format_count
from scrimshaw.search.token_vectors import pack_tokens
from scrimshaw.storage.databases import note_ledger_end
from scrimshaw.storage.durable import delete_leftovers
from scrimshaw.storage.git import CommitDates
from scrimshaw.storage.place import CHECKPOINTS
from scrimshaw.storage.scan import UNREAD, find_left_out
from scrimshaw.storage.sync import Progress, SyncReport, sync_index
from scrimshaw.storage.toml_files import LINKS_FILE, read_links

RENAMED, NEAREST, MOST_RENAMES = 0.5, 10, 200  # as in git half of a text must remain; more files are another branch
EMBED_BATCH = 16  # texts per commit: small enough that a killed worker loses under a second of work

KeepGoing = Callable[[int, int], bool]


def scan(engine: Engine, *, force: bool = False, progress: Progress | None = None) -> SyncReport:
    """Bring the index up to date with the files, record what changed outside, and ask for missing vectors."""
    max_bytes, canonical = engine.settings.index.max_file_bytes, engine.settings.index.canonical
    sources = sorted(engine.sources, key=lambda each: each.name != canonical)  # the first source with an id keeps it
    parse = partial(_parse, engine, CommitDates(engine.settings.project))
    is_kept = partial(_is_read_by_now, engine)
    report = sync_index(engine.index, sources, parse, max_bytes, force=force, progress=progress, is_kept=is_kept)
    renames = _find_renames(engine, report)
    for old, new in renames.items():
        engine.journal.update_review(old, partial(lambda name, review: review and replace(review, memory_id=name), new))
    if record_external_changes(engine, renames) or report.changes:
        update_renames(engine)
    skipped = index_links(engine)
    sync_record(engine)
    with suppress(DamagedDatabase):  # which every search reports
        if lacks_vectors(engine):
            engine.journal.enqueue(engine.embed_job, "", {})
    engine.degradations.clear(INDEX)
    note_ledger_end(engine.folder)
    public = [skip for skip in report.skipped if skip.reason != PRIVATE]
    unread = [each.path for each in public if each.reason.startswith(UNREAD) and engine.name_file(Path(each.path))]
    if unread and not engine.team:  # whose readers may not know the name of a private memory
        what = f"{format_count(len(unread), 'memory file')} cannot be read: {', '.join(unread[:NEAREST])}"
        engine.degradations.put(INDEX, describe_loss(INDEX, what, "Give yourself permission to read them"))
    return replace(report, files=report.files - len(report.skipped) + len(public), skipped=(*public, *skipped))


def _is_read_by_now(engine: Engine, source: str) -> bool:
    """Whether the project has a source that this process, which may have started before, does not know."""
    with suppress(ConfigError):
        return source in (each.name for each in list_project_sources(load(engine.settings.project)))
    return True


def _find_renames(engine: Engine, report: SyncReport) -> dict[str, str]:
    """The new ids of renamed memories by the old ones: of a file with the same bytes, or the most similar new one."""
    renames = dict(report.renames())
    added = {each.memory_id for each in report.changes if not each.prior_hash} - {*renames.values()}
    gone = [each for each in report.changes if not each.new_hash and each.memory_id not in renames.keys() | added]
    for each in gone if len(report.changes) <= MOST_RENAMES else ():
        text = parse_memory_file(engine.journal.prior_text(each.memory_id, each.prior_hash) or "").body
        sketch, runs = compute_minhash(text), split_runs(text, BRIEF)
        near = engine.index.near_duplicates(sketch, shared=max(1, len(sketch) // 4), limit=NEAREST) if added else []
        bodies = engine.index.bodies([name for name in near if name in added])
        likenesses = ((jaccard(runs, split_runs(body, BRIEF)), name) for name, body in bodies.items())
        likeness, name = max(likenesses, default=(0, ""))
        if likeness >= RENAMED:
            renames[each.memory_id] = name
            added.remove(name)
    return renames


def update_renames(engine: Engine) -> None:
    """Let the index resolve references to a memory's name from before its file was renamed, or in other letters."""
    gone = {name for name, digest in engine.journal.last_hashes().items() if not digest}
    ids = sorted((each.memory_id for each in engine.index.manifest().values()), reverse=True)
    names = {name: each for each in ids for name in (each, each.rpartition("/")[2])}
    lost = {edge.target for edge, _ in engine.index.edges()} - names.keys()
    if lost - gone - {name.rpartition("/")[2] for name in gone}:
        gone |= engine.committed_renames.keys()
    meant = {name.rpartition("/")[2]: name for name in sorted(gone, reverse=True)} | {name: name for name in gone}
    folded = {name.casefold(): each for name, each in names.items()}
    found = {reference: folded.get(reference.casefold(), "") for reference in lost}
    for reference in lost & meant.keys():
        found[reference] = engine.find_new_name(meant[reference]) or found[reference]
    engine.index.put_renames({reference: name for reference, name in found.items() if name})


def _parse(engine: Engine, dates: CommitDates, file: SourceFile, raw: bytes) -> Document:
    """The document of a file; one that states no time gets those of its commits, or keeps those of the index."""
    parsed = parse_memory_file(raw, file.path)
    if not any(key in parsed.values for key in (*CREATED, "updated")):
        known = engine.index.get([file.memory_id]).get(file.memory_id)
        if known and known.created:  # a later change has the file's own time
            is_same = known.content_hash == parsed.content_hash
            file = replace(file, created=known.created, updated=known.updated if is_same else "")
        else:
            created, updated = dates.find(file.path)
            file = replace(file, created=created, updated=updated)
    document = engine.parse(file, parsed)
    related = () if file.artifact == ArtifactClass.MEMORY else relate_neighbours(file.memory_id)
    return replace(document, edges=related + document.edges) if related else document  # its own relations win


def rebuild(engine: Engine, *, progress: Progress | None = None) -> SyncReport:
    """Read every file again; the journal stays as it is."""
    engine.index.retire(None)
    tidy(engine)
    return scan(engine, progress=progress)


def tidy(engine: Engine) -> None:
    """Finish or remove what killed writers left in the vaults; raises VaultBusy."""
    with engine.write_lock():
        for folder in (engine.folder, engine.storage.place / CHECKPOINTS):
            delete_leftovers(folder)
        for source in engine.sources:
            if source.writable:
                delete_leftovers(source.root, "**/")


def embed_pending(engine: Engine, keep_going: KeepGoing | None = None, *, record: bool = True) -> int:
    """Give every chunk a vector of the model, those of records last, or not now; returns the number of texts embedded.

    Token vectors are made as well while there is room, and last for chunks that already have a vector, or not now.
    `keep_going(done, total)` is asked after every batch.
    """
    if isinstance(engine.embedder, Degradation):
        return 0
    model, embedded, places = engine.embedder.model, 0, dict[tuple[bool, bool], int]()
    find, kinds = partial(engine.index.chunks_to_embed, model, limit=EMBED_BATCH), (False, True) if record else (False,)
    while True:
        has_room = engine.index.vector_counts().with_tokens < engine.settings.index.token_vectors
        # What a chunk may lack: token vectors too, or only its own; and whether it is one of a record.
        lacks = [(tokens, of) for tokens in ((False, True) if record and has_room else (False,)) for of in kinds]
        # Start over once at the end, for chunks that were added meanwhile.
        asked = dict.fromkeys([*((lack, places.get(lack, 0)) for lack in lacks), *((lack, 0) for lack in lacks)])
        found = ((lack, find(after=at, tokens=lack[0], record=lack[1])) for lack, at in asked)
        lack, pending = next((each for each in found if each[1]), ((False, False), []))
        if not pending:
            break
        if not lack[1]:  # a session that ends meanwhile comes before older ones
            places[lack] = pending[-1].place
        texts = {chunk.key: chunk.text for chunk in pending}
        cache = None if lack[1] else engine.storage.vectors  # records are not shared by branches
        known = _find_vectors(engine, model, texts, has_room) if cache else {}
        # One text at a time: a batch would be padded, and the vector of a text would depend on its neighbours.
        pairs = {key: engine.embedder.embed(text) for key, text in texts.items() if key not in known}
        made = {key: (vector, pack_tokens(tokens) if has_room else None) for key, (vector, tokens) in pairs.items()}
        rows = known | made
        packed = {key: tokens for key, (_, tokens) in rows.items() if has_room and tokens is not None}
        engine.index.put_vectors(model, [(key, vector) for key, (vector, _) in rows.items()], tokens=packed)
        if cache and made:
            with suppress(ScrimshawError):  # a vector that is not cached is made again
                new = [(key, vector.astype("<f2").tobytes(), tokens) for key, (vector, tokens) in made.items()]
                cache.put(model, new)
        embedded += len(made)
        if keep_going and not keep_going(*count_vectors(engine, record=record)):
            return embedded
    if record and engine.index.vector_counts().by_model.keys() - {model}:
        engine.index.put_vectors(model, (), only=True)
    return embedded


def _find_vectors(engine: Engine, model: str, keys: Iterable[str], packed: bool) -> dict[str, tuple[Any, bytes | None]]:
    """The vectors that other branches and work trees made of these texts."""
    import numpy as np  # noqa: PLC0415 - a search by words does without it

    with suppress(ScrimshawError):
        found = engine.storage.vectors.find(model, [*keys], packed=packed) if engine.storage.vectors else []
        return {key: (np.frombuffer(vector, "<f2"), packed) for key, vector, packed in found}
    return {}


def run_embed_job(engine: Engine, job: Job, keep_going: KeepGoing) -> str:
    """Run an embed job; raises EmbedderUnavailable, so that it is tried again later."""
    embed_pending(engine, keep_going)
    return ""


def lacks_vectors(engine: Engine) -> bool:
    """Whether a chunk has no vector of the model, or no token vectors although there is room for them."""
    if isinstance(engine.embedder, Degradation):
        return False
    (done, total), with_tokens = count_vectors(engine), engine.index.vector_counts().with_tokens
    return done < total or with_tokens < min(total, engine.settings.index.token_vectors)


def count_vectors(engine: Engine, *, record: bool = True) -> tuple[int, int]:
    """(chunks with a vector of the configured model, all chunks), with or without those of records."""
    if isinstance(engine.embedder, Degradation):
        return 0, 0
    done, total = engine.index.vector_counts().progress(engine.embedder.model)
    if record:
        more_done, more = engine.index.vector_counts(record=True).progress(engine.embedder.model)
        done, total = done + more_done, total + more
    return done, total


def list_skipped_files(engine: Engine) -> list[Skip]:
    """The files that were skipped, by path, and those that are found by their text only; never private ones."""
    broken = (state for state in engine.index.manifest().values() if state.reason not in ("", PRIVATE))
    return [Skip(path=each.path, reason=each.reason, is_found=bool(each.memory_id)) for each in broken]


def count_left_out_documents(engine: Engine) -> dict[str, dict[str, int]]:
    """How many documents of the project no source reads, by reason and by their folder; most first."""
    settings, groups = engine.settings, dict[str, Counter[str]]()
    for name, reason in find_left_out(settings.project, engine.index.manifest(), settings.index.exclude):
        reason = "unnamed" if settings.sources and reason != "excluded" else reason
        groups.setdefault(reason, Counter())["/".join(name.split("/")[:-1][:2]) or name] += 1
    return {reason: dict(folders.most_common()) for reason, folders in groups.items()}


def catch_up(engine: Engine) -> None:
    """Scan before an answer or after a change; if the index fails, the answer says so."""
    with engine.degradations.note_failure(INDEX):
        scan(engine)


def index_links(engine: Engine) -> list[Skip]:
    """Index the links file, and what supersedes decision records; an unusable file is reported, and its links stay."""
    path = links_path(engine)
    try:
        links = read_links(path, lambda text: redact(text).text)
    except UnreadableFile as error:
        file = SourceFile(source=LINKS_FILE, memory_id="", path=str(path), size=0, mtime_ns=0)
        engine.index.record_file(file, "", skipped=error.message)
        return [Skip(path=str(path), reason=error.message)]
    if engine.index.manifest(LINKS_FILE):
        engine.index.retire([str(path)])
    stated = [(newer, edge.source) for edge, newer in engine.index.edges(relation=SUPERSEDED_BY) if newer]
    edges = [Edge(source=newer, target=older, relation=Relation.SUPERSEDES) for newer, older in stated]
    engine.index.put_links([*links, *edges])
    return []
