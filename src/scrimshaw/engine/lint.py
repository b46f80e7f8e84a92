"""Judging memory files on disk, by the quality gate, references and statistics; and repairing stale references."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from difflib import unified_diff
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import Settings
from scrimshaw.engine.core import GLOBAL, MEMORIES, Engine, list_project_sources
from scrimshaw.engine.read import list_own
from scrimshaw.engine.write import rewrite
from scrimshaw.errors import InvalidRequest, NotFound, UnreadableFile, describe_os_error
from scrimshaw.ingest import references
from scrimshaw.ingest.front_matter import find_slips, find_wrong_values, parse_phrases, parse_quality, parse_time
from scrimshaw.ingest.markdown import parse_relations
from scrimshaw.ingest.memory_file import MemoryFile, decode_text, parse_memory_file
from scrimshaw.ingest.quality import BANDS, band, find_decisions, judge, read_contents
from scrimshaw.ingest.references import Reference, ReferenceKind, Rename, find_references, rewrite_references
from scrimshaw.models import Action, Entry, Filters, Skip, format_time
from scrimshaw.storage.durable import write_file
from scrimshaw.storage.git import list_moved_files
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.scan import SPEC_FOLDERS, Source, scan
from scrimshaw.storage.toml_files import GOLDEN_FILE, read_golden
from scrimshaw.toml_text import read_regular_file

UNREADABLE, WRONG_VALUE = "unreadable_file", "wrong_value"
_QUOTED = re.compile(r"(?<!\w)'([^'\n]{2,})'|(\[[^\]\n]+\])")
_AT_LINE = re.compile(r"\bat line (\d+): ")
_MOST_RENAMES = 3
DAYS = 14  # the window of the figures: two weeks show a change of habit

LintState = StrEnum("LintState", "REJECTED WARNED SKIPPED CLEAN")  # worst first; a skipped file was not read


class Linted(Struct, frozen=True, kw_only=True):
    """The verdict on one file, named relative to the project where it is in it."""

    path: str
    state: LintState
    score: float = 0.0  #: of the quality gate, 0..1
    flags: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()  #: each with its line, 0 if unknown
    lines: tuple[int, ...] = ()
    references: int = 0
    stale: tuple[Reference, ...] = ()  #: references that lead nowhere


class Repair(Struct, frozen=True, kw_only=True):
    """How renames change one file: the stale paths with their new names, each once, and the change as a diff."""

    id: str  #: empty for a file that is not one of our memories
    path: str
    paths: tuple[Rename, ...]
    diff: str


class ProjectFiles:
    """The files that references of a project's memories may lead to; each path is looked up on disk once."""

    def __init__(self, settings: Settings) -> None:
        self.project = settings.project.resolve()
        vault = (settings.folder / MEMORIES).resolve()
        ids = [path.relative_to(vault).as_posix().removesuffix(SUFFIX) for path in list_markdown(settings, vault)]
        inside = (vault.relative_to(self.project).as_posix(),) if vault.is_relative_to(self.project) else ()
        names = {name for memory_id in ids for name in (memory_id, memory_id.rpartition("/")[2])}
        names.update(name for _, _, files in os.walk(vault) for name in files)  # embeds name them without folders
        self._names = frozenset(map(str.casefold, names))
        # Where paths may start: at the root, in the vault, in the folders of specs.
        self._roots = ("", *inside, *(folder for folder in SPEC_FOLDERS if (self.project / folder).is_dir()))
        self.exists = cache(lambda path: os.path.exists(self.project / path))  # noqa: PTH110 - false for impossible names

    def find_stale(self, found: Sequence[Reference], path: Path) -> tuple[Reference, ...]:
        """The references of a file to paths that do not exist; none for a file outside the project."""
        if not path.is_relative_to(self.project):
            return ()
        return references.find_stale(found, self._folder(path), self.exists, roots=self._roots, names=self._names)

    def changes(self, text: str, path: Path, renames: Sequence[Rename]) -> list[tuple[Reference, str]]:
        """The stale references of a file that the renames lead to something that exists, each with its new path."""
        stale = self.find_stale(find_references(text), path)
        new = ((one, references.follow_renames(one, self._folder(path), renames)) for one in stale)
        return [(one, to) for one, to in new if to != one.path and not self.find_stale([replace(one, path=to)], path)]

    def _folder(self, path: Path) -> str:
        folder = path.parent.relative_to(self.project).as_posix()
        return "" if folder == "." else folder


def lint(settings: Settings, paths: Sequence[Path] = (), *, follow: bool = False) -> list[Linted]:
    """The verdict on every Markdown file under `paths`, by default on the vault's, worst first; raises NotFound."""
    # With `follow` also on their references; a stale one turns a clean verdict into a warning.
    known = ProjectFiles(settings) if follow else None
    files = _list_files(settings, paths or [settings.folder / MEMORIES])
    found, order = [_lint_file(settings, file, known) for file in files], list(LintState)
    golden = settings.folder / GOLDEN_FILE
    try:
        read_golden(golden, str, None if not paths else "")
    except UnreadableFile as error:
        name, reason = _relative(settings, golden.resolve()), error.message.removeprefix(f"{golden}: ")
        found.append(Linted(path=name, state=LintState.REJECTED, flags=(UNREADABLE,), reasons=(reason,), lines=(0,)))
    return sorted(found, key=lambda one: (order.index(one.state), one.score, one.path))


def list_markdown(settings: Settings, folder: Path) -> list[Path]:
    """The Markdown files below a folder as a vault would read them; none without a folder."""
    return [path for path in _list_files(settings, [folder]) if isinstance(path, Path)] if folder.is_dir() else []


def read_markdown(path: Path) -> str | None:
    """The text of a file, None if it cannot be read or is not text."""
    with suppress(OSError, UnreadableFile):
        return decode_text(read_regular_file(path), str(path))
    return None


def _list_files(settings: Settings, paths: Sequence[Path]) -> dict[Path | Skip, None]:
    """The files that are named, and those below folders as a vault would read them; raises NotFound."""
    files = dict[Path | Skip, None]()
    vaults = {source.root: source for source in list_project_sources(settings) if source.writable}
    for path in paths:
        if path.is_dir():
            found = scan(vaults.get(path.absolute(), Source(name="lint", root=path)), settings.index.max_file_bytes)
            files |= dict.fromkeys(file if isinstance(file, Skip) else Path(file.path) for file in found)
        elif path.exists():
            files[path.resolve()] = None
        else:
            raise NotFound(f"There is no {path}.", "Name files or folders that are there.", path=str(path))
    return files


def _lint_file(settings: Settings, path: Path | Skip, known: ProjectFiles | None) -> Linted:
    name = _relative(settings, Path(path.path) if isinstance(path, Skip) else path)
    if isinstance(path, Skip):
        return Linted(path=name, state=LintState.SKIPPED, reasons=(path.reason,), lines=(0,))
    try:
        file = parse_memory_file(read_regular_file(path), name).demand_readable()
    except (UnreadableFile, OSError) as error:
        reason, line = f"{name} cannot be read: {describe_os_error(error)}.", 0
        if isinstance(error, UnreadableFile):
            line = int(error.details.get("line", 0))
            reason = error.message.removeprefix(name).partition(": ")[2] if line else error.message  # without the place
        return Linted(path=name, state=LintState.REJECTED, flags=(UNREADABLE,), reasons=(reason,), lines=(line,))
    verdict = judge(file, phrases=settings.quality.phrases)
    found = find_references(file.text) if known and path.is_relative_to(known.project) else ()
    found += find_relations(file) if known else ()
    stale = known.find_stale(found, path) if known else ()
    wrong, reasons, lines = (*find_wrong_values(file.values), *find_slips(file.values)), list[str](), list[int]()
    flags = (*verdict.flags, *[WRONG_VALUE] * bool(wrong))
    unless_rejected = LintState.WARNED if flags or stale else LintState.CLEAN
    for reason in (*verdict.reasons, *wrong):  # at the first line with most of what it quotes; 0 if no line has any
        stated = _AT_LINE.search(reason)
        pieces = [match[1] or match[2] for match in _QUOTED.finditer(reason)]
        counts = [sum(piece in line for piece in pieces) for line in file.text.splitlines()]
        lines.append(int(stated[1]) if stated else counts.index(max(counts)) + 1 if any(counts) else 0)
        reasons.append(_AT_LINE.sub("", reason, 1))
    return Linted(
        path=name,
        state=unless_rejected if verdict.is_accepted else LintState.REJECTED,
        score=verdict.score,
        flags=flags,
        reasons=tuple(reasons),
        lines=tuple(lines),
        references=len(found),
        stale=stale,
    )


def find_relations(file: MemoryFile) -> tuple[Reference, ...]:
    """What the relations in a file's front matter name, as references."""
    names = [edge.target for edge in parse_relations(file.values, "", str) if not edge.target.startswith(GLOBAL)]
    starts = {name: max(file.text.find(name), 0) for name in names}
    places = ((name, start, file.text.count("\n", 0, start) + 1) for name, start in starts.items())
    return tuple(Reference(path=name, kind=ReferenceKind.WIKILINK, line=at, start=start) for name, start, at in places)


def _relative(settings: Settings, path: Path) -> str:
    project = settings.project.resolve()
    return (path.relative_to(project) if path.is_relative_to(project) else path).as_posix()


def parse_rename(text: str) -> Rename:
    """`OLD=NEW` as a rename, without slashes at the ends; NEW may be empty. Raises InvalidRequest."""
    old, equals, new = (part.strip() for part in text.replace("\\", "/").partition("="))
    old, new = old.removeprefix("./").rstrip("/"), new.removeprefix("./").rstrip("/")
    if not equals or not old or old == new:
        raise InvalidRequest(f"{text!r} is not a rename.", "Write OLD=NEW, such as specs=docs/specs.")
    return old, new


def plan_repairs(engine: Engine, renames: Sequence[Rename], paths: Sequence[Path] = ()) -> list[Repair]:
    """What renames change in stale references below `paths`, or in own memories; raises NotFound, InvalidRequest."""
    known, repairs = ProjectFiles(engine.settings), []
    for name, path, before in _read_files(engine, paths):
        if changes := known.changes(before, path, renames):
            after, places = rewrite_references(before, changes), dict.fromkeys((one.path, new) for one, new in changes)
            file = _relative(engine.settings, path)
            lines = unified_diff(before.splitlines(), after.splitlines(), f"a/{file}", f"b/{file}", n=0, lineterm="")
            repairs.append(Repair(id=name, path=str(path), paths=tuple(places), diff="\n".join(lines)))
    return repairs


def propose_renames(engine: Engine, paths: Sequence[Path] = ()) -> list[Rename]:
    """The renames in git's history that lead a stale reference to an existing file; raises like `plan_repairs`."""
    files = [*_read_files(engine, paths)]
    renames = list(dict.fromkeys(widen_rename(old, new) for old, new in list_moved_files(engine.settings.project)))
    known, useful = ProjectFiles(engine.settings), set[Rename]()
    for _, path, text in files:
        for reference in known.find_stale(find_references(text), path):
            place, steps = reference.path, list[Rename]()
            for rename in renames:
                if (after := references.rename_path(place, [rename])) != place:
                    place = after
                    steps.append(rename)
            # Renames to a path that does not exist either are useless.
            useful.update(steps if known.exists(place) else ())
    return [rename for rename in renames if rename in useful]


def widen_rename(old: str, new: str) -> Rename:
    """The rename of a file as a rename of folders: what precedes the common end of both paths."""
    olds, news = old.split("/"), new.split("/")
    while len(olds) > 1 and len(news) > 1 and olds[-1] == news[-1]:
        del olds[-1], news[-1]
    return "/".join(olds), "/".join(news)


def apply_repairs(engine: Engine, repairs: Sequence[Repair], renames: Sequence[Rename]) -> None:
    """Rewrite references, each file read again; a memory under the lock, as a person's. Raises like `write.update`."""
    known = ProjectFiles(engine.settings)

    def rename_paths(file: MemoryFile, path: Path) -> MemoryFile:
        return parse_memory_file(rewrite_references(file.text, known.changes(file.text, path, renames)))

    texts = ", ".join(f"{old} -> {new or '.'}" for old, new in renames[:_MOST_RENAMES])
    more = f" and {len(renames) - _MOST_RENAMES} more" if len(renames) > _MOST_RENAMES else ""
    for repair in repairs:
        path = Path(repair.path)
        if repair.id:
            reason = f"paths renamed: {texts}{more}"
            entry = Entry(action=Action.UPDATE, memory_id=repair.id, reason=reason, actor="human")
            rewrite(engine, engine.memory(repair.id), partial(rename_paths, path=path), entry)
        elif text := read_markdown(path):
            write_file(path, rewrite_references(text, known.changes(text, path, renames)).encode())


def _read_files(engine: Engine, paths: Sequence[Path]) -> Iterator[tuple[str, Path, str]]:
    """(id of a writable memory, path, text) of the files below `paths`, by default of the project's own memories."""
    memories = {Path(memory.path): memory.id for memory in list_own(engine)}  # the user's refer to other projects
    for path in paths:
        if not path.resolve().is_relative_to(engine.settings.project.resolve()):
            raise InvalidRequest(f"{path} is outside of the project.", "Name files in it.", parameter="paths")
    files = [path for path in _list_files(engine.settings, paths) if isinstance(path, Path)]
    for path in files if paths else memories:
        yield memories.get(path, ""), path, read_markdown(path) or ""


class Graded(NamedTuple):
    """What the figures count of a memory; `score` is None if no gate has judged it."""

    score: float | None
    flags: Sequence[str]
    has_phrases: bool
    has_topics: bool
    is_scored: bool  #: its file states a score and flags
    has_decisions: bool | None = None  #: None for a note that is not a record of a session, or if nobody looked


def measure_quality(settings: Settings, *, days: float = DAYS) -> dict[str, Any]:
    """Judge every memory of the project's vault again, with statistics of those created in the last `days` days."""
    # `undated` files state no time of creation and are left out; a time without an offset is taken as UTC.
    since = datetime.now(UTC) - timedelta(days=days)
    paths = list_markdown(settings, settings.folder / MEMORIES)
    files = [parse_memory_file(text) for path in paths if (text := read_markdown(path)) is not None]
    graded, undated = list[Graded](), 0
    for file in files:
        contents = read_contents(file)
        text = parse_time(contents.values.get("created")) or parse_time(contents.values.get("created_at"))
        undated += not text
        created = datetime.fromisoformat(text) if text else None
        if created and created.replace(tzinfo=created.tzinfo or UTC) >= since:
            verdict, values = judge(file, phrases=settings.quality.phrases), contents.values
            phrases, topics = (parse_phrases(values, name) for name in ("trigger_phrases", "topics"))
            topics = topics or parse_phrases(values, "key_topics")
            decisions = bool(find_decisions(contents)) if contents.is_session else None
            quality = values.get("quality")
            has_flags = "flags" in quality if isinstance(quality, Mapping) else "quality_flags" in values
            is_scored = has_flags and parse_quality(values) is not None
            graded.append(Graded(verdict.score, verdict.flags, bool(phrases), bool(topics), is_scored, decisions))
    about = {"days": days, "since": format_time(since.timestamp()), "undated": undated}
    return {**about, "unreadable": len(paths) - len(files), **sum_grades(graded)}


def list_grades(engine: Engine, days: int) -> list[tuple[int, Graded]]:
    """The memories of the project's vault created in the last days, by age in days, as graded when they were saved."""
    today, found = datetime.fromtimestamp(engine.clock(), UTC).date(), list[tuple[int, Graded]]()
    vault = Filters(source=engine.sources[0].name, since=str(today - timedelta(days - 1)), include_deprecated=True)
    for memory in engine.index.select(vault):
        quality, created = memory.quality, memory.created[:10]
        age = (today - date.fromisoformat(created)).days if created else days
        score, flags = (quality.score, quality.flags) if quality else (None, ())
        graded = Graded(score, flags, bool(memory.triggers), bool(memory.topics), quality is not None)
        found += [(max(0, age), graded)] if age < days else []
    return found


def sum_grades(grades: Sequence[Graded]) -> dict[str, Any]:
    """The number of memories in each band, and the measures with their targets."""
    bands = [band(each.score) for each in grades if each.score is not None]
    flags = [each.flags for each in grades if each.score is not None]
    decided = [each.has_decisions for each in grades if each.has_decisions is not None]
    measures = [
        measure("placeholder leakage", ["has_placeholders" in each for each in flags], 0.02),
        measure("fallback decisions", ["has_fallback_decision" in each for each in flags], 0.10),
        measure("contamination", ["has_contamination" in each for each in flags], 0.01),
        measure("empty trigger phrases", [not each.has_phrases for each in grades], 0.05),
        measure("empty topics", [not each.has_topics for each in grades], 0.05),
        measure("decisions captured", decided, 0.70, at_most=False),
        measure("bands A and B", [each in "AB" for each in bands], 0.70, at_most=False),
        measure("score and flags present", [each.is_scored for each in grades], 1.0, at_most=False),
    ]
    return {"files": len(grades), "bands": {name: bands.count(name) for name in BANDS}, "measures": measures}


def measure(name: str, holds: Sequence[bool], target: float, *, at_most: bool = True) -> dict[str, Any]:
    """The share of files that pass, None without files, and whether the target is met."""
    share = sum(holds) / len(holds) if holds else None
    is_met = share is None or (share <= target if at_most else share >= target)
    counts = {"name": name, "count": sum(holds), "of": len(holds)}
    return counts | {"target": target, "at_most": at_most, "share": share, "met": is_met}
