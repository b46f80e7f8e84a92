"""Judging memory files as they lie on disk: by the quality gate, and by where their references lead. Never writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from pathlib import Path

from msgspec import Struct

from scrimshaw.config import Settings
from scrimshaw.engine.core import MEMORIES
from scrimshaw.engine.quality import judged
from scrimshaw.errors import NotFound, UnreadableFile
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.references import Reference, references, stale
from scrimshaw.models import Skip
from scrimshaw.storage.discover import SPEC_FOLDERS
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.scan import Limits, Source, scan

UNREADABLE = "unreadable_file"
_QUOTED = re.compile(r"(?<!\w)'([^'\n]{2,})'|(\[[^\]\n]+\])")


class LintState(StrEnum):
    """What lint says of a file, worst first; a skipped file was not read, for the reason it carries."""

    REJECTED = "rejected"
    WARNED = "warned"
    SKIPPED = "skipped"
    CLEAN = "clean"


class Linted(Struct, frozen=True, kw_only=True):
    """The verdict on one file.

    `path` is relative to the project where the file lies in it. `score` is that of the gate, 0..1. Each of `reasons`
    has its line in `lines`, 0 where it is not known. `stale` are the references that lead nowhere, of `references`.
    """

    path: str
    state: LintState
    score: float = 0.0
    flags: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    references: int = 0
    stale: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class ProjectFiles:
    """What references of a project's memories may lead to; existence is asked of the disk once per path."""

    project: Path
    roots: tuple[str, ...]
    names: Collection[str]
    exists: Callable[[str], bool]

    def stale(self, found: Sequence[Reference], path: Path) -> tuple[Reference, ...]:
        """The references of a file that lead nowhere; none for a file outside of the project."""
        if not path.is_relative_to(self.project):
            return ()
        folder = path.parent.relative_to(self.project).as_posix()
        return stale(found, "" if folder == "." else folder, self.exists, roots=self.roots, names=self.names)


def project_files(settings: Settings) -> ProjectFiles:
    """The files of a project as of now: its root, its vault and its spec folders are where paths may start."""
    project = settings.project.resolve()
    vault = (settings.folder / MEMORIES).resolve()
    inside = (vault.relative_to(project).as_posix(),) if vault.is_relative_to(project) else ()
    ids = [path.relative_to(vault).as_posix().removesuffix(SUFFIX) for path in memory_files(settings, vault)]
    return ProjectFiles(
        project=project,
        roots=("", *inside, *(folder for folder in SPEC_FOLDERS if (project / folder).is_dir())),
        names=frozenset(name for memory_id in ids for name in (memory_id, memory_id.rpartition("/")[2])),
        exists=cache(partial(_exists, project)),
    )


def _exists(project: Path, path: str) -> bool:
    try:
        return (project / path).exists()
    except OSError:  # such as a name that no file can have
        return False


def lint(settings: Settings, paths: Sequence[Path] = (), *, follow: bool = False) -> list[Linted]:
    """The verdict on every Markdown file under `paths`, without any on those of the project's vault; worst first.

    With `follow` also where their references lead; stale ones make a clean file a warned one. Raises NotFound for a
    path that is not there.
    """
    known = project_files(settings) if follow else None
    found = [
        _skipped(settings, file) if isinstance(file, Skip) else _linted(settings, file, known)
        for file in _files(settings, paths or [settings.folder / MEMORIES])
    ]
    order = {state: place for place, state in enumerate(LintState)}
    return sorted(found, key=lambda one: (order[one.state], one.score, one.path))


def memory_files(settings: Settings, folder: Path) -> list[Path]:
    """The Markdown files below a folder as a vault would read them; none where there is no folder."""
    root = folder.resolve()
    found = _below(settings, root) if root.is_dir() else iter(())
    return [path for path in found if isinstance(path, Path)]


def _files(settings: Settings, paths: Sequence[Path]) -> Iterator[Path | Skip]:
    """Every file once, however often it is named."""
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise NotFound(f"There is no {path}.", "Name files or folders that are there.", path=str(path))
        for file in _below(settings, path) if path.is_dir() else [path.resolve()]:
            if isinstance(file, Skip) or file not in seen:
                yield file
            if not isinstance(file, Skip):
                seen.add(file)


def _below(settings: Settings, folder: Path) -> Iterator[Path | Skip]:
    limits = Limits(max_bytes=settings.index.max_file_bytes)
    for file in scan(Source(name="lint", root=folder), limits):
        yield file if isinstance(file, Skip) else Path(file.path)


def _linted(settings: Settings, path: Path, known: ProjectFiles | None) -> Linted:
    shown = _shown(settings, path)
    try:
        file = parse_memory_file(path.read_bytes(), shown)
        file.raise_problem()
    except UnreadableFile as error:
        return _unreadable(shown, error.message, int(error.details.get("line", 0)))
    except OSError as error:
        return _unreadable(shown, f"{shown} cannot be read: {error.strerror}.")
    verdict = judged(settings, file)
    found = references(file.text) if known and path.is_relative_to(known.project) else ()
    dead = known.stale(found, path) if known else ()
    warned = LintState.WARNED if verdict.flags or dead else LintState.CLEAN
    return Linted(
        path=shown,
        state=warned if verdict.accepted else LintState.REJECTED,
        score=verdict.score,
        flags=verdict.flags,
        reasons=verdict.reasons,
        lines=tuple(_line_of(reason, file.text) for reason in verdict.reasons),
        references=len(found),
        stale=dead,
    )


def _line_of(reason: str, text: str) -> int:
    """The first line that holds most of what a reason quotes; 0 where none holds any."""
    pieces = [match[1] or match[2] for match in _QUOTED.finditer(reason)]
    best = [sum(piece in line for piece in pieces) for line in text.splitlines()]
    most = max(best, default=0)
    return best.index(most) + 1 if most else 0


def _unreadable(shown: str, reason: str, line: int = 0) -> Linted:
    return Linted(path=shown, state=LintState.REJECTED, flags=(UNREADABLE,), reasons=(reason,), lines=(line,))


def _skipped(settings: Settings, skip: Skip) -> Linted:
    return Linted(path=_shown(settings, Path(skip.path)), state=LintState.SKIPPED, reasons=(skip.reason,), lines=(0,))


def _shown(settings: Settings, path: Path) -> str:
    project = settings.project.resolve()
    return (path.relative_to(project) if path.is_relative_to(project) else path).as_posix()
