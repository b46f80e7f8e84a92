"""Importing a workspace of Spec Kit.

Documents inside the project are read in place by every scan. Session records outside it are saved, and from
Spec Kit's database comes what no file says: causal links, validations, and the text of records whose file is gone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.importers import SPEC_KIT, FoundMemories, ImportResult, leave_out, read_page, save_memories
from scrimshaw.engine.index import scan
from scrimshaw.engine.links import link
from scrimshaw.engine.read import NOT_USEFUL, USEFUL, begin_review
from scrimshaw.engine.write import IMPORTED
from scrimshaw.errors import ScrimshawError, UnreadableFile
from scrimshaw.ingest.comparison import hash_normalised_text
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.other_memories import parse_record, parse_record_row
from scrimshaw.ingest.payload import Json, number, text
from scrimshaw.ingest.redact import redact
from scrimshaw.models import ArtifactClass, Relation, Tier
from scrimshaw.storage.databases import read_foreign_tables
from scrimshaw.storage.ports import Review
from scrimshaw.storage.scan import classify_artifact

_DATABASES = "context-index*.sqlite"
_TABLES = ("memory_index", "causal_edges", "checkpoints")
_AUTOMATIC = ("auto", "system", "inference")  # creators of automatic links
_CONFIDENCE = 0.5  # of a memory that was never validated, there as here


def import_workspace(engine: Engine, place: Path, *, dry_run: bool = False) -> Iterator[ImportResult]:
    """Import a folder of Spec Kit, with the databases below it, or a database alone; raises UnreadableFile."""
    scan(engine)
    paths = [place] if place.is_file() else sorted(place.rglob(_DATABASES))
    databases = {path: read_foreign_tables(path, _TABLES, hint="Name Spec Kit's database.") for path in paths}
    project, entries = engine.settings.project.resolve(), list[FoundMemories]()
    files = ((Path(state.path), state.memory_id) for state in engine.index.manifest().values() if state.memory_id)
    # The id of each indexed file of the project, by its path there.
    known = {path.relative_to(project).as_posix(): name for path, name in files if path.is_relative_to(project)}
    if place.is_dir():
        entries.append(_read_folder(engine, place))
    entries += (_read_rows(path, tables["memory_index"], known) for path, tables in databases.items())
    yield from save_memories(engine, SPEC_KIT, chain.from_iterable(entries), dry_run=dry_run)
    for path, tables in databases.items():
        ids = {str(row.get("id")): _find_memory(engine, row, known) for row in tables["memory_index"]}
        yield from _import_links(engine, path, tables["causal_edges"], ids, dry_run)
        yield from _import_validations(engine, path, tables["memory_index"], ids, dry_run)
        if count := len(tables["checkpoints"]):
            yield leave_out(SPEC_KIT, str(path), f"checkpoints with rows of that database alone, and no files: {count}")


def _read_folder(engine: Engine, place: Path) -> FoundMemories:
    """The records below a folder that no source reads, and how many documents are read in place or skipped."""
    top, manifest = place.resolve(), engine.index.manifest()
    files = sorted(top.rglob("*.md"))
    if ids := [state.memory_id for file in files if (state := manifest.get(str(file))) and state.memory_id]:
        poor = sum(memory.tier == Tier.TEMPORARY for memory in engine.index.get(ids).values())
        reason = f"documents read in place: {len(ids)}, of these as temporary: {poor}"
        yield ImportResult(source=SPEC_KIT, place=str(place), status="read", reasons=(reason,))
    unread = [file for file in files if str(file) not in manifest]
    records = [file for file in unread if classify_artifact(PurePosixPath(file)) is ArtifactClass.MEMORY]
    for file in records:
        yield from read_page(SPEC_KIT, file, parse_record, file.relative_to(top).with_suffix("").as_posix())
    if left := len(unread) - len(records):
        is_inside = top.is_relative_to(engine.settings.project.resolve())
        remedy = "`scrimshaw init` says why no search reads them" if is_inside else "searches read them in the project"
        yield leave_out(SPEC_KIT, str(place), f"documents that are not records of sessions: {left}; {remedy}")


def _read_rows(path: Path, rows: Sequence[Json], known: Mapping[str, str]) -> FoundMemories:
    """The records whose file does not exist here, with their text from the database."""
    records = (row for row in rows if text(row.get("document_type")) in ("", "memory") and not row.get("parent_id"))
    gone = [row for row in records if not _locate(row, known)]
    written = [row for row in gone if text(row.get("content_text")).strip()]
    for row in written:
        try:
            yield str(path), parse_record_row(row)
        except UnreadableFile as error:
            yield leave_out(SPEC_KIT, str(path), error)
    if left := len(gone) - len(written):
        yield leave_out(SPEC_KIT, str(path), f"records with neither a file here nor a text in the database: {left}")


def _locate(row: Json, known: Mapping[str, str]) -> str:
    """The id of a row's file, by the longest end of its path that leads to one here; empty for none."""
    parts = text(row.get("file_path")).replace("\\", "/").split("/")
    # A name alone, such as `spec.md`, does not identify a file.
    return next(filter(None, (known.get("/".join(parts[start:])) for start in range(len(parts) - 1))), "")


def _find_memory(engine: Engine, row: Json, known: Mapping[str, str]) -> str:
    """The memory of a row: its file here, or the memory saved from its text."""
    if name := _locate(row, known):
        return name
    body = redact(parse_memory_file(text(row.get("content_text"))).body).text
    same = engine.index.find_ids(text_hash=hash_normalised_text(body)) if body.strip() else []
    return same[0] if same else ""


def _import_links(
    engine: Engine, path: Path, rows: Sequence[Json], ids: Mapping[str, str], dry_run: bool
) -> Iterator[ImportResult]:
    counts, left = Counter[str](), Counter[str]()
    for row in rows:
        source, target = (ids.get(str(row.get(end)), "") for end in ("source_id", "target_id"))
        relation = text(row.get("relation")).lower()
        if text(row.get("created_by")).startswith(_AUTOMATIC):
            left["links made by a program"] += 1
        elif not source or not target or source == target or relation not in list(Relation):
            left["links to what is not here"] += 1
        elif any(edge.relation == relation and target == meant for edge, meant in engine.index.edges(source)):
            counts["unchanged"] += 1
        else:
            stated, evidence = number(row.get("strength")), text(row.get("evidence"))
            strength = 1.0 if stated is None else min(1.0, max(0.0, stated))
            try:
                if not dry_run:
                    link(engine, source, target, Relation(relation), strength, evidence, actor=IMPORTED)
                counts["found" if dry_run else "taken"] += 1
            except ScrimshawError as error:
                left[f"links that fail ({error.message.removesuffix('.')})"] += 1
    yield from _count(path, "causal links", counts)
    for reason, count in left.items():
        yield leave_out(SPEC_KIT, str(path), f"{reason}: {count}")


def _import_validations(
    engine: Engine, path: Path, rows: Sequence[Json], ids: Mapping[str, str], dry_run: bool
) -> Iterator[ImportResult]:
    """Import how often each memory was found useful, unless it was reviewed here."""
    counts = Counter[str]()
    for row in rows:
        times, name = int(number(row.get("validation_count")) or 0), ids[str(row.get("id"))]
        if times < 1 or not name:
            continue
        confidence = min(1.0, max(0.0, number(row.get("confidence")) or 0.0))
        # Useful reviews raised the confidence, others lowered it; the database only has the sums.
        useful = round((confidence - _CONFIDENCE + NOT_USEFUL * times) / (USEFUL + NOT_USEFUL))
        useful = min(times, max(0, useful))
        verdict = {"useful": useful, "not_useful": times - useful, "confidence": confidence}

        def change(before: Review | None, name: str = name, verdict: dict[str, Any] = verdict) -> Review:
            state = before or begin_review(engine, engine.memory(name))
            is_new = not (state.useful or state.not_useful)
            counts["taken" if is_new else "unchanged"] += 1
            return replace(state, **verdict) if is_new else state

        if dry_run:
            counts["found"] += 1
        else:
            engine.journal.update_review(name, change)
    yield from _count(path, "validated memories", counts)


def _count(path: Path, what: str, counts: Mapping[str, int]) -> Iterator[ImportResult]:
    for status, count in counts.items():
        yield ImportResult(source=SPEC_KIT, place=str(path), status=status, reasons=(f"{what}: {count}",))
