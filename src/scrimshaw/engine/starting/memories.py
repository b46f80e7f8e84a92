"""Memories that other tools keep, saved like any new memory: redacted, judged, and once however often it is run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine import review
from scrimshaw.engine.core import Engine
from scrimshaw.engine.importing import save_file
from scrimshaw.engine.memory_ids import slug
from scrimshaw.engine.starting.taken import Taken
from scrimshaw.engine.write import NewText, save, update
from scrimshaw.errors import ScrimshawError, UnreadableFile
from scrimshaw.ingest.documents import text_hash
from scrimshaw.ingest.elsewhere import OtherMemory
from scrimshaw.ingest.elsewhere.basic_memory import parse_note
from scrimshaw.ingest.elsewhere.entity_graph import parse_graph
from scrimshaw.ingest.elsewhere.guidance import parse_guidance
from scrimshaw.ingest.front_matter import parse_time
from scrimshaw.ingest.markdown import parse_headings
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.redact import redact
from scrimshaw.models import ArtifactClass, Degradation, Edge, MemoryType, Trust, content_hash
from scrimshaw.storage.artifacts import artifact_class
from scrimshaw.storage.git import Deleted, deleted_files, last_text

GUIDANCE = ("CLAUDE.md", "AGENTS.md", "GEMINI.md")
# A history with more deleted decision records than this is that of another kind of project.
MOST_DECISIONS = 200
ORIGIN = "import"
_FOLDERS = MappingProxyType(
    {"basic-memory": "notes", "instructions": "guidance", "memory-json": "entities", "decisions": "decisions"}
)


# Digits that tell apart what would get the same id.
_MARK = 8
# Status, ids of memories, reasons.
_Outcome = tuple[str, tuple[str, ...], tuple[str, ...]]


class _Origin(Struct, frozen=True, kw_only=True):
    """Where memories come from, and who vouches for them."""

    source: str
    place: str
    trust: Trust


_Found = tuple[_Origin, OtherMemory]


def import_notes(engine: Engine, folder: Path, *, dry_run: bool = False) -> Iterator[Taken]:
    """The notes of a basic-memory folder; relations between them are kept where they mean one of ours."""
    notes: list[_Found] = []
    for file in sorted(folder.rglob("*.md")):
        origin = _Origin(source="basic-memory", place=str(file), trust=Trust.AGENT)
        try:
            notes.append((origin, parse_note(_text(file), file.relative_to(folder).with_suffix("").as_posix())))
        except UnreadableFile as error:
            yield Taken(source=origin.source, place=origin.place, status="left", reasons=(error.message,))
    yield from _put_all(engine, notes, dry_run)


def import_guidance(engine: Engine, files: Iterable[Path], *, dry_run: bool = False) -> Iterator[Taken]:
    """The sections of guidance files, each a memory that a person vouches for."""
    sections: list[_Found] = []
    for file in files:
        origin = _Origin(source="instructions", place=str(file), trust=Trust.HUMAN)
        try:
            sections += ((origin, each) for each in parse_guidance(_text(file), file.stem))
        except UnreadableFile as error:
            yield Taken(source=origin.source, place=origin.place, status="left", reasons=(error.message,))
    yield from _put_all(engine, sections, dry_run)


def import_graph(engine: Engine, file: Path, *, dry_run: bool = False) -> Iterator[Taken]:
    """The entities in the file of the reference MCP memory server; raises UnreadableFile."""
    origin = _Origin(source="memory-json", place=str(file), trust=Trust.AGENT)
    found, skipped = parse_graph(_text(file))
    if skipped:
        reason = f"{skipped} lines are no entity and no relation"
        yield Taken(source=origin.source, place=origin.place, status="left", reasons=(reason,), skipped=skipped)
    yield from _put_all(engine, [(origin, each) for each in found], dry_run)


def import_decisions(engine: Engine, *, dry_run: bool = False) -> Iterator[Taken]:
    """The last text of decision records that the project deleted and git remembers, under a note that says so."""
    project = engine.settings.project
    found = deleted_decisions(project)
    if isinstance(found, Degradation):
        yield Taken(source="decisions", place=str(project), status="left", reasons=(found.failure_mode,))
        return
    records: list[_Found] = []
    for deleted in found[:MOST_DECISIONS]:
        text = last_text(project, deleted)
        if isinstance(text, Degradation):
            yield Taken(source="decisions", place=_place(deleted), status="left", reasons=(text.failure_mode,))
            continue
        same = engine.index.same_text(text_hash(redact(_body(text, deleted.path)).text))
        if same:
            yield Taken(source="decisions", place=_place(deleted), status="unchanged", memories=(same[0],))
        else:
            records.append(_decision(deleted, text))
    yield from _put_all(engine, records, dry_run)


def deleted_decisions(project: Path) -> list[Deleted] | Degradation:
    """The decision records that history deleted, newest first."""
    found = deleted_files(project, ".md")
    if isinstance(found, Degradation):
        return found
    return [each for each in found if artifact_class(PurePosixPath(each.path)) is ArtifactClass.DECISION_RECORD]


def import_files(engine: Engine, files: Iterable[Path], *, dry_run: bool = False) -> Iterator[Taken]:
    """Markdown files as they are: a copy of each in the vault, or nothing but indexed where a source holds it."""
    for file in files:
        taken = partial(Taken, source="files", place=str(file))
        try:
            saved = save_file(engine, file, dry_run=dry_run)
        except ScrimshawError as error:
            yield taken(status="left", reasons=(error.message,))
            continue
        yield taken(status=_STATUS[saved.status], memories=(saved.id,), reasons=saved.reasons)


_STATUS: Mapping[str, str] = MappingProxyType(
    {
        "saved": "taken",
        "updated": "taken",
        "indexed": "unchanged",
        "duplicate": "unchanged",
        "rejected": "left",
        "dry_run": "found",
    }
)


def _place(deleted: Deleted) -> str:
    return f"{deleted.commit[:12]}:{deleted.path}"


def _decision(deleted: Deleted, text: str) -> _Found:
    """A deleted record as a memory, with a note of where it was."""
    body = _body(text, deleted.path)
    note = f"> Deleted from the project on {deleted.at[:10]}, in commit {deleted.commit[:12]}: `{deleted.path}`."
    name = PurePosixPath(deleted.path).stem
    other = OtherMemory(
        name=name,
        title=_title(body) or name,
        content=f"{note}\n\n{body.strip()}",
        type=MemoryType.DECISION,
        created=parse_time(deleted.at),
    )
    return _Origin(source="decisions", place=_place(deleted), trust=Trust.HUMAN), other


def _put_all(engine: Engine, found: Sequence[_Found], dry_run: bool) -> Iterator[Taken]:
    """Save them all; what they call each other becomes the id it gets here."""
    names = _ids(found)
    ids = {
        called.casefold(): name
        for name, (_, other) in zip(names, found, strict=True)
        for called in (other.name, other.title)
    }
    for name, each in zip(names, found, strict=True):
        yield _put(engine, name, each, ids, dry_run)


def _put(engine: Engine, name: str, found: _Found, ids: Mapping[str, str], dry_run: bool) -> Taken:
    """Save one memory as `name`, or bring up to date what an earlier import saved and nobody changed since."""
    origin, other = found
    taken = partial(Taken, source=origin.source, place=f"{origin.place}#{other.name}")
    new = NewText(
        content=other.content,
        id=name,
        title=other.title,
        type=other.type,
        topics=other.topics,
        origin=ORIGIN,
        trust=origin.trust,
        reason=f"imported from {origin.source}",
        created=other.created,
        relations=tuple(_relations(other, ids)),
    )
    try:
        if engine.index.twins(new.id):
            status, names, reasons = _renewed(engine, new, dry_run)
            return taken(status=status, memories=names, reasons=reasons)
        saved = save(engine, new, dry_run=dry_run)
    except ScrimshawError as error:
        return taken(status="left", reasons=(error.message,))
    if saved.status == "saved":
        # What is old would count as forgotten; taking it in today recalls it.
        review.touch(engine, [engine.memory(saved.id)])
    return taken(status=_STATUS[saved.status], memories=(saved.id,), reasons=saved.reasons)


def _renewed(engine: Engine, new: NewText, dry_run: bool) -> _Outcome:
    """What becomes of a memory that an earlier import made: a change made here since then is never written over."""
    memory = engine.memory(engine.index.twins(new.id)[0])
    if memory.id in engine.index.same_text(text_hash(redact(new.content).text)):
        return "unchanged", (memory.id,), ()
    last = engine.journal.history(memory.id, 1)
    if not last or (last[0]["actor"], last[0]["new_hash"]) != (new.origin, memory.content_hash):
        return "left", (), (f"{memory.id} was changed here since",)
    if not dry_run:
        update(engine, memory.id, {}, content=new.content, reason=new.reason, actor=new.origin)
    return "found" if dry_run else "taken", (memory.id,), ()


def _relations(other: OtherMemory, ids: Mapping[str, str]) -> Iterator[Edge]:
    """The relations to memories that were found with it; what leads elsewhere stays a link in the text."""
    for edge in other.relations:
        target = ids.get(edge.target.casefold())
        if target:
            yield replace(edge, target=target, evidence=redact(edge.evidence).text)


def _ids(found: Iterable[_Found]) -> list[str]:
    """An id for each. Where several would get the same, as `C++` and `C#`, each gets a mark of where it comes from."""
    plain = [(_id(origin, other), f"{origin.place}#{other.name}") for origin, other in found]
    shared = Counter(name for name, _ in plain)
    return [f"{name}-{content_hash(of.encode())[:_MARK]}" if shared[name] > 1 else name for name, of in plain]


def _id(origin: _Origin, other: OtherMemory) -> str:
    return "/".join([_FOLDERS[origin.source], *(slug(part) for part in other.name.split("/") if part.strip())])


def _body(text: str, path: str) -> str:
    file = parse_memory_file(text, path)
    return text if file.problem else file.body


def _title(body: str) -> str:
    found = (each.text for each in parse_headings(body) if each.text)
    return next(found, "")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{file} is not UTF-8 text.", "Save it as UTF-8.") from error
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read: {error.strerror}.", "Check the path.") from error
