"""Import: Markdown files, memories of other tools, deleted decision records and earlier sessions."""

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import asdict, replace

from scrimshaw.config import PAUSED, RESUMED
from scrimshaw.engine.core import Engine
from scrimshaw.engine.drafts import TALK, make_draft
from scrimshaw.engine.index import KeepGoing, scan
from scrimshaw.engine.ledger import hash_of
from scrimshaw.engine.read import touch
from scrimshaw.engine.sessions import record_event
from scrimshaw.engine.trust import describe_claim
from scrimshaw.engine.write import IMPORTED, NewText, Saved, save, slug, update
from scrimshaw.errors import InvalidRequest, NotFound, ScrimshawError, StorageFailure, UnreadableFile
from scrimshaw.ingest import other_memories
from scrimshaw.ingest.comparison import hash_normalised_text
from scrimshaw.ingest.events import Event, StoredSession, Transcript, hash_text, make_answers, make_observation
from scrimshaw.ingest.extraction import Rule
from scrimshaw.ingest.front_matter import parse_time
from scrimshaw.ingest.memory_file import BOM, decode_text, is_private, parse_memory_file
from scrimshaw.ingest.other_memories import OtherMemory, ParsedMemories, first_heading
from scrimshaw.ingest.quality import band
from scrimshaw.ingest.redact import redact
from scrimshaw.models import ArtifactClass, EventKind, Job, MemoryType, Relation, SessionState, SourceFile, Tier, Trust
from scrimshaw.search.lineage import lowest_trust
from scrimshaw.storage.databases import read_foreign_tables
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.git import Commit, list_deleted_notes, read_before
from scrimshaw.storage.paths import replace_undecodable
from scrimshaw.storage.scan import classify_artifact

INGEST = "ingest"
SUFFIXES = (".md", ".markdown")
_MOST_REPORT_LINES = 50
MOST_DECISIONS = 200  # deleted records; more are not the history of a normal project
NOTES, GUIDANCE, GRAPH, DECISIONS = "basic-memory", "instructions", "memory-json", "decisions"
FORGETFUL, CLAUDE_MEM, MEM0, SPEC_KIT = "forgetful", "claude-mem", "mem0", "speckit"
# Source -> the folder of its memories here, if it is not named like the source.
_FOLDERS = {NOTES: "notes", GUIDANCE: "guidance", GRAPH: "entities"}
_DATABASES = {  # databases of other tools: the tables that are read, and what reads their rows
    FORGETFUL: (("memories", "projects", "memory_project_association"), other_memories.parse_forgetful),
    CLAUDE_MEM: (("observations", "session_summaries"), other_memories.parse_claude_mem),
}
_OF_PEOPLE = (GUIDANCE, DECISIONS)  # the others have an agent's trust
_MARK_LENGTH = 8  # digits that distinguish memories of the same id
_EVENT_PREFIX = "transcript:"  # of the ids of events that only an import makes; no client has such ids
_START_ID = f"{_EVENT_PREFIX}start"
_KEY = attrgetter("kind", "call_id")  # of an event within its session
# Status of a save -> status of the import: `unchanged` for a text that already exists here.
_STATUS = {"saved": "taken", "updated": "taken", "rejected": "left", "dry_run": "found", "indexed": "read"}


class ImportResult(Struct, frozen=True, kw_only=True):
    """The result for one thing that was found."""

    source: str
    place: str
    #: `taken`, `unchanged` (all of it was there), `read` (in place, by every scan), `left` (for `reasons`), `failed`
    #: (for `reasons` that may pass) or `found` (by a dry run).
    status: str
    events: int = 0  #: Events recorded now of a session.
    memories: tuple[str, ...] = ()
    text_hash: str = ""  #: Of a text that a dry run found, which it may find twice.
    reasons: tuple[str, ...] = ()  #: For a session that was imported but became no memory, why.
    skipped: int = 0  #: Lines that could not be read.


# A memory of another tool with its location, or the result for one that cannot be read.
FoundMemories = Iterator[tuple[str, OtherMemory] | ImportResult]


def save_file(
    engine: Engine, path: Path, *, force: bool = False, dry_run: bool = False, session: str = "", vault: str = ""
) -> Saved:
    """Index a source's file, or save a copy of another; raises NotFound, InvalidRequest, UnreadableFile."""
    path = engine.settings.project / path
    if any(Path(os.path.realpath(path)).is_relative_to(source.root.resolve()) for source in engine.sources):
        scan(engine)
    return _save_path(engine, path, session=session, force=force, dry_run=dry_run, vault=vault)


def start_ingest(engine: Engine, paths: Sequence[str]) -> int:
    """Queue the import of files and folders; the job's id. Raises InvalidRequest, also for a secret in a path."""
    if not all(path.strip() for path in paths):
        raise InvalidRequest("A path is empty.", "Name a file or a folder; `.` is the project.", parameter="paths")
    if any(redact(path).spans for path in paths):
        raise InvalidRequest("A path holds a secret.", "Rename it, or name its folder.", parameter="paths")
    demand_inside(engine, *paths)
    key = hash_of("\0".join(sorted(paths)).encode())[:16]
    return engine.journal.enqueue(INGEST, key, {"paths": list(paths)}, total=len(paths))


def demand_inside(engine: Engine, *paths: str) -> None:
    """Raise InvalidRequest if an agent's path leads out of the project and its sources, even through links."""
    roots = [os.path.realpath(root) for root in (engine.settings.project, *(each.root for each in engine.sources))]
    for path in paths:
        place = engine.settings.project / path
        if "\0" in path or not any(Path(os.path.realpath(place)).is_relative_to(root) for root in roots):
            message = f"{path!r} is outside of the project and its sources."
            raise InvalidRequest(message, "A person can import it with `scrimshaw import`.", parameter="paths")


def find_ingest_job(engine: Engine, job_id: int) -> Job:
    """An import job; raises NotFound."""
    job = next(iter(engine.journal.jobs(number=job_id)), None)
    if job is None or job.kind != INGEST:
        raise NotFound(f"There is no import {job_id}.", "Start one with memory_ingest_start.")
    return job


def run_ingest_job(engine: Engine, job: Job, keep_going: KeepGoing) -> str:
    """Import every file, from where the job stopped; returns a line for each that became no new memory."""
    files = list[Path]()
    for path in (engine.settings.project / str(each) for each in job.payload["paths"]):
        with storage_errors("read", path):
            files += list_markdown_files(path)
    start = job.done if job.total == len(files) else 0
    counts, lines = Counter[str](), list[str]()
    for number, each in enumerate(import_files(engine, files[start:], is_for_agent=True), start=start + 1):
        counts[each.status] += 1
        if each.reasons:
            what = "rejected: " if each.memories else ""
            lines.append(f"{redact(each.place).text}: {what}{'; '.join(each.reasons)}")
        if not keep_going(number, len(files)):
            break
    report = lines[:_MOST_REPORT_LINES] if files else ["no Markdown file was found at these paths"]
    if len(lines) > _MOST_REPORT_LINES:
        report.append(f"and {len(lines) - _MOST_REPORT_LINES} more")
    if counts["unchanged"]:
        report.append(f"files that say what a memory says already: {counts['unchanged']} of {counts.total()}")
    return "\n".join(report)


def list_markdown_files(path: Path) -> list[Path]:
    """The Markdown files below a folder, in order, or the file itself."""
    found = (each for each in path.rglob("*") if each.suffix.lower() in SUFFIXES and not each.is_dir())
    return sorted(found) if path.is_dir() else [path]


def import_files(
    engine: Engine, files: Iterable[Path], *, dry_run: bool = False, is_for_agent: bool = False
) -> Iterator[ImportResult]:
    """Import Markdown files as they are: copy each to the vault, or only index it if a source has it."""
    scan(engine)
    for file in files:
        place = replace_undecodable(str(file))
        try:
            if is_for_agent:
                demand_inside(engine, str(file))
            saved = _save_path(engine, file, dry_run=dry_run)
        except ScrimshawError as error:
            yield leave_out("files", place, error)
        else:
            text = parse_memory_file(file.read_bytes()).body if dry_run else ""
            yield _describe_saved(saved, text, partial(ImportResult, source="files", place=place))


def _describe_saved(saved: Saved, text: str, result: partial[ImportResult]) -> ImportResult:
    """The result for a memory that was, or would be, saved with a text."""
    status, is_found = _STATUS.get(saved.status, "unchanged"), saved.status == "dry_run"
    text_hash = hash_normalised_text(redact(text).text) if is_found else ""
    return result(status=status, memories=(saved.id,), text_hash=text_hash, reasons=saved.reasons)


def leave_out(source: str, place: str, reason: str | ScrimshawError, skipped: int = 0) -> ImportResult:
    """The result for what is not imported: `failed` for a reason that may pass, such as a full disk, or `left`."""
    error = ScrimshawError(reason) if isinstance(reason, str) else reason
    status = "failed" if error.exit_code == StorageFailure.exit_code else "left"
    return ImportResult(source=source, place=place, status=status, reasons=(error.message,), skipped=skipped)


def _save_path(
    engine: Engine, path: Path, *, session: str = "", force: bool = False, dry_run: bool = False, vault: str = ""
) -> Saved:
    """The memory that a source read from this file; a copy of the file if no source has it."""
    if (name := replace_undecodable(str(path))) != str(path):  # no database can store it
        raise UnreadableFile(f"{name} cannot be imported: its name is not UTF-8.", "Rename the file.")
    with storage_errors("read", path):
        is_there = path.is_file()
    if not is_there:
        raise NotFound(f"There is no file {path}.", "Check the path; it is relative to the project's folder.")
    if path.suffix.lower() not in SUFFIXES and not find_document(engine, path):
        raise InvalidRequest(f"{path} is not a Markdown file.", f"Files that end in {' or '.join(SUFFIXES)} are read.")
    path = path.resolve()
    if state := engine.index.manifest().get(str(path)):
        if state.reason:
            raise UnreadableFile(f"{path} cannot be a memory: {state.reason}.", "Correct the file.")
        known = Saved(id=state.memory_id, status="indexed", content_hash=state.content_hash, path=state.path)
        return replace(known, notices=tuple(filter(None, [describe_claim(engine.memory(state.memory_id))])))
    with storage_errors("read", path):
        size, most = path.stat().st_size, engine.settings.index.max_file_bytes
        if size > most:
            raise UnreadableFile(f"{path} has {size} bytes, more than {most}.", "Split it.")
        raw = path.read_bytes()
    file = SourceFile(source=INGEST, memory_id=path.stem, path=str(path), size=size, mtime_ns=0, writable=True)
    parsed = parse_memory_file(raw, str(path)).demand_readable()
    document = engine.parse(file, parsed)
    new = NewText(
        content=document.body.text,
        **{n: getattr(document, n) for n in ("title", "type", "tier", "triggers", "topics", "questions", "created")},
        origin=IMPORTED,
        trust=lowest_trust((Trust.AGENT, document.provenance.trust)),
        relations=tuple(edge for edge in document.edges if edge.relation == Relation.DERIVED_FROM),
        facts={"visibility": "private"} if is_private(parsed) else {},
        reason=f"imported from {redact(path.name).text}",
        session=session,
        vault=vault,
    )
    return save(engine, new, force=force, dry_run=dry_run)


def import_memories(
    engine: Engine, source: str, place: Path, *, dry_run: bool = False, all_projects: bool = False
) -> Iterator[ImportResult]:
    """Import a tool's memories, of this project unless `all_projects`, or deleted decisions; raises UnreadableFile."""
    yield from save_memories(engine, source, _read_source(engine, source, place, all_projects), dry_run=dry_run)


def save_memories(engine: Engine, source: str, entries: FoundMemories, *, dry_run: bool) -> Iterator[ImportResult]:
    """Save memories that were read, under ids of their source, with their relations among each other."""
    found: dict[str, OtherMemory] = {}
    for entry in entries:
        if isinstance(entry, ImportResult):
            yield entry
        else:
            found[f"{entry[0]}#{entry[1].place or entry[1].id}"] = entry[1]
    names = assign_ids(source, [other.id for other in found.values()], list(found))
    ids: dict[str, str] = {}
    for name, other in zip(names, found.values(), strict=True):
        ids |= {other.id.casefold(): name, other.title.casefold(): name}
    trust, reason = Trust.HUMAN if source in _OF_PEOPLE else Trust.AGENT, f"imported from {source}"
    for name, (where, other) in zip(names, found.items(), strict=True):
        # A relation whose target was not found with it stays a link in the text.
        ends = ((edge, ids.get(edge.target.casefold())) for edge in other.relations)
        relations = [replace(edge, target=end, evidence=redact(edge.evidence).text) for edge, end in ends if end]
        content = other_memories.rewrite_links(other.content, ids)
        fields = asdict(replace(other, id=name, content=content, relations=tuple(relations)))
        facts = {"imported_from": f"{source} {fields.pop('place') or other.id}"}
        try:
            text = NewText(**fields, origin=IMPORTED, trust=trust, reason=reason, facts=facts)
            yield _save_other(engine, text, partial(ImportResult, source=source, place=where), dry_run)
        except ScrimshawError as error:
            yield leave_out(source, where, error)


def _read_source(engine: Engine, source: str, place: Path, all_projects: bool) -> FoundMemories:
    match source:
        case "forgetful" | "claude-mem":
            names, parse = _DATABASES[source]
            tables = read_foreign_tables(place, names, hint=f"Name the database of {source}.")
            yield from _list_parsed(source, place, parse(tables, "" if all_projects else engine.settings.project.name))
        case "mem0" | "memory-json":
            parse_text = other_memories.parse_mem0 if source == MEM0 else other_memories.parse_graph
            found, left = parse_text(_read_text(place))
            if not found and (count := left[other_memories.NO_JSON]):
                message = f"{place} has no memories; {other_memories.NO_JSON}: {count}."
                raise UnreadableFile(message, "Name another file.")
            yield from _list_parsed(source, place, (found, left))
        case "basic-memory":
            top = place if place.is_dir() else place.parent
            for file in list_markdown_files(place):
                name = file.relative_to(top).with_suffix("").as_posix()
                yield from read_page(source, file, other_memories.parse_note, name)
        case "instructions" if known := find_document(engine, place):  # a copy would soon say something else
            yield ImportResult(source=source, place=str(place), status="read", memories=(known,))
        case "instructions":
            yield from read_page(source, place, other_memories.parse_guidance, place.stem)
        case _:
            yield from _read_decisions(engine)


def find_document(engine: Engine, path: Path) -> str:
    """The id under which a source reads a file where it is; empty if none does."""
    state = engine.index.manifest().get(str(path.resolve()))
    return state.memory_id if state else ""


def _list_parsed(source: str, place: Path, parsed: ParsedMemories) -> FoundMemories:
    """The memories that were read from a file, after a result for each reason why others were skipped, with a count."""
    for reason, count in parsed[1].items():
        yield leave_out(source, str(place), f"{reason}: {count}")
    yield from ((str(place), each) for each in parsed[0])


def read_page(
    source: str, file: Path, parse: Callable[[str, str], OtherMemory | tuple[OtherMemory, ...]], name: str
) -> FoundMemories:
    try:
        found = parse(_read_text(file), name)
    except ScrimshawError as error:
        yield leave_out(source, str(file), error.message)
    else:
        yield from ((str(file), each) for each in (found if isinstance(found, tuple) else (found,)))


def _read_decisions(engine: Engine) -> FoundMemories:
    """The last texts of decision records deleted in git, each under a note that says so, except those still here."""
    project = engine.settings.project
    try:
        records = find_deleted_decisions(project)
    except StorageFailure as error:
        yield leave_out(DECISIONS, str(project), error.message)
        return
    for deleted in records[:MOST_DECISIONS]:
        commit, name = deleted.commit[:12], PurePosixPath(deleted.path).stem
        place = f"{commit}:{deleted.path}"
        try:
            text = read_before(project, deleted.commit, deleted.path)
        except StorageFailure as error:
            yield leave_out(DECISIONS, place, error.message)
            continue
        file = parse_memory_file(text, deleted.path)
        body = text if file.problem else file.body
        if same := engine.index.find_ids(text_hash=hash_normalised_text(redact(body).text)):
            yield ImportResult(source=DECISIONS, place=place, status="unchanged", memories=(same[0],))
            continue
        note = f"> Deleted from the project on {deleted.at[:10]}, in commit {commit}: `{deleted.path}`."
        title, text, at = first_heading(body) or name, f"{note}\n\n{body.strip()}", parse_time(deleted.at)
        yield place, OtherMemory(id=name, title=title, content=text, type=MemoryType.DECISION, created=at)


def find_deleted_decisions(project: Path) -> list[Commit]:
    """The commits that deleted decision records, newest first; raises StorageFailure."""
    found = list_deleted_notes(project)
    return [each for each in found if classify_artifact(PurePosixPath(each.path)) is ArtifactClass.DECISION_RECORD]


def assign_ids(source: str, names: Sequence[str], places: Sequence[str]) -> list[str]:
    """An id for each name in a source. If several would get the same, each gets a hash of its location."""
    folder = _FOLDERS.get(source, source)
    ids = ["/".join([folder, *(slug(part) for part in name.split("/") if part.strip())]) for name in names]
    shared = Counter(ids)  # as for `C++` and `C#`
    return [
        f"{name}-{hash_of(place.encode())[:_MARK_LENGTH]}" if shared[name] > 1 else name
        for name, place in zip(ids, places, strict=True)
    ]


def _save_other(engine: Engine, new: NewText, result: partial[ImportResult], dry_run: bool) -> ImportResult:
    """Save a memory, or update what an earlier import saved; a change made here since is never lost."""
    if not (earlier := engine.index.find_ids(differing_in_case=new.id)):
        saved = save(engine, new, dry_run=dry_run)
        if saved.status == "rejected" and result.keywords["source"] == SPEC_KIT and saved.quality:
            # Somebody wrote these to be kept: even the lowest quality is kept for a while.
            tier = Tier.TEMPORARY if band(saved.quality.score) == "D" else new.tier
            saved = save(engine, replace(new, tier=tier), force=True, dry_run=dry_run)
        if saved.status == "saved":
            touch(engine, engine.index.get([saved.id]).values())  # by its own day it would count as forgotten
        return _describe_saved(saved, new.content, result)
    memory = engine.memory(earlier[0])
    if memory.id in engine.index.find_ids(text_hash=hash_normalised_text(redact(new.content).text)):
        return result(status="unchanged", memories=(memory.id,))
    last = engine.journal.history(memory.id, 1)
    if not last or (last[0]["actor"], last[0]["new_hash"]) != (new.origin, memory.content_hash):
        return result(status="left", reasons=(f"{memory.id} was changed here since",))
    if not dry_run:
        update(engine, memory.id, {}, content=new.content, reason=new.reason, actor=new.origin)
    return result(status="found" if dry_run else "taken", memories=(memory.id,))


def _read_text(file: Path) -> str:
    with storage_errors("read", file):
        return decode_text(file.read_bytes(), str(file)).removeprefix(BOM)


def import_session(
    engine: Engine, stored: StoredSession, rules: Sequence[Rule], *, dry_run: bool = False
) -> ImportResult:
    """Record a transcript as if hooks had seen it, close the session and make its draft; known events are skipped."""
    leave, session = partial(leave_out, stored.client, stored.place), engine.sessions.get(stored.session)
    is_purged = session and session.state is SessionState.PURGED
    known = engine.sessions.events(stored.session)
    # A session that only an import recorded has one start, the import's.
    if is_purged or (known and [each.call_id for each in known if each.kind is EventKind.START] != [_START_ID]):
        return leave("it was purged" if is_purged else "its hooks recorded it while it ran")
    try:
        transcript, digest = read_session(stored)
        pauses = list_pauses(engine.folder)
        heard = [x for x in transcript.events if not any(since <= x.at <= until for since, until in pauses)]
        if not any(event.kind is EventKind.TOOL for event in heard):
            is_paused = len(heard) < len(transcript.events)
            why = "its recording was paused" if is_paused else TALK if heard else "it holds no prompt and no answer"
            return leave(why, transcript.skipped)
        transcript = replace(transcript, events=tuple(heard))
        keys, reports = set(map(_KEY, known)), list_reports(transcript, digest, engine.settings.project)
        new = [event for event in reports if _KEY(event) not in keys] if _KEY(reports[-1]) not in keys else []
        added = len(set(map(_KEY, new))) if dry_run else _record_events(engine, new, rules)
    except ScrimshawError as error:
        return leave(error)
    result = partial(ImportResult, source=stored.client, place=stored.place, events=added, skipped=transcript.skipped)
    status = "unchanged" if not added else "found" if dry_run else "taken"
    if dry_run or not engine.settings.features.drafts:
        return result(status=status, reasons=() if dry_run else ("drafts are switched off",))
    try:
        outcome = make_draft(engine, stored.session)
    except ScrimshawError as error:
        failed = leave(error).status == "failed"
        return result(status="failed" if failed else status, reasons=(error.message,))
    if not outcome.memory_id:
        return result(status=status, reasons=("it adds no memory, but is searched", *outcome.reasons))
    if outcome.status == "accepted":
        touch(engine, engine.index.get([outcome.memory_id]).values())  # as for other imports
    return result(status="taken", memories=(outcome.memory_id,), reasons=outcome.reasons)


def list_pauses(folder: Path) -> list[tuple[float, float]]:
    """Since and until when recording was paused, in seconds since 1970; the last pause may not have ended."""
    resumed, paused = folder / RESUMED, folder / PAUSED
    ended = re.findall(r"(?m)^([\d.]+) ([\d.]+)$", resumed.read_text()) if resumed.exists() else []
    times = [*ended, *([(paused.stat().st_mtime, math.inf)] if paused.exists() else [])]
    return [(float(since), float(until)) for since, until in times]


def read_session(stored: StoredSession) -> tuple[Transcript, str]:
    """The session with the events of its sub-agents in between, by time, and the SHA-256 of everything read."""
    texts = stored.read_texts()
    parts = [stored.parse(text) for text in texts]
    events = sorted((event for part in parts for event in part.events), key=lambda event: event.at)
    skipped = sum(part.skipped for part in parts)
    digest = hash_of("".join(texts).encode("utf-8", "replace"))
    return replace(parts[0], session=stored.session, events=tuple(events), skipped=skipped), digest


def list_reports(transcript: Transcript, digest: str, project: Path) -> list[Event]:
    """The events as hooks would have reported them: of sub-agents only tool calls, and last an end with the digest."""
    events, session, cwd = transcript.events, transcript.session, transcript.cwd or str(project)
    start = Event(
        kind=EventKind.START, client=transcript.client, session=session, cwd=cwd, at=events[0].at, call_id=_START_ID
    )
    reports = [start]
    for event in events:
        ours = replace(event, session=session, cwd=cwd)
        if event.kind is EventKind.ANSWER:  # stored under the hash of its text, as if a hook had read it
            ours = replace(ours, call_id=hash_text(event.output))
        elif event.kind is not EventKind.TOOL:
            ours = replace(ours, call_id=_EVENT_PREFIX + hash_text(f"{event.at} {event.prompt or event.output}"))
        if event.kind is EventKind.TOOL or not event.agent:
            reports.append(ours)
    return [*reports, replace(start, kind=EventKind.END, at=events[-1].at, call_id=f"{_EVENT_PREFIX}{digest}")]


def _record_events(engine: Engine, events: Iterable[Event], rules: Sequence[Rule]) -> int:
    """Record events, each at its own time; returns how many were new."""
    extraction, drop_ratio = engine.settings.features.extraction, engine.settings.redaction.drop_ratio
    count = 0
    for event in events:
        if event.kind is EventKind.ANSWER:
            (observation,) = make_answers(event, [event.output])
        else:
            observation = make_observation(event, rules, process=0, extraction=extraction, drop_ratio=drop_ratio)
        count += record_event(engine, observation, at=event.at)
    return count
