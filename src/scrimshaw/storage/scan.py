"""Find the Markdown files of a source, in a fixed order, and say why a file was passed over."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from scrimshaw.errors import ConfigError
from scrimshaw.models import ArtifactClass, Skip, SourceFile, Trust
from scrimshaw.storage.artifacts import artifact_class
from scrimshaw.storage.globs import compile_globs, folder_depth, literal_folder
from scrimshaw.storage.paths import SUFFIX, printable

IGNORED_FOLDERS = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True)
class Limits:
    """`max_bytes`: a larger file is skipped; 2 MiB is some 500,000 tokens, no note a person wrote."""

    max_bytes: int = 2 * 1024 * 1024


@dataclass(frozen=True)
class Source:
    """A folder to read, and how.

    `include` and `exclude` are patterns of `scrimshaw.storage.globs`, relative to `root`. Hidden folders are
    entered only where a pattern names them in front of its first wildcard. `artifact` overrides the class told
    by the path; `id_prefix` goes in front of every id. `ignored` and `read_only` are regular expressions (RE2)
    over whole ids. `trust` is who vouches for a file that does not say so itself.
    """

    name: str
    root: Path
    include: tuple[str, ...] = ("**/*.md",)
    exclude: tuple[str, ...] = ()
    writable: bool = False
    artifact: ArtifactClass | None = None
    id_prefix: str = ""
    ignored: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    trust: Trust = Trust.HUMAN


@dataclass(frozen=True)
class _Found:
    """A Markdown file the walk met: `name` is its path under the source's root."""

    name: str
    entry: os.DirEntry[str]

    @property
    def path(self) -> str:
        return self.entry.path


def scan(source: Source, limits: Limits) -> Iterator[SourceFile | Skip]:
    """Every Markdown file that the source asks for, as SourceFile or, with the reason, as Skip.

    Paths are real paths. No linked folder is followed; a linked file is read if its target lies inside the
    root and is not itself in the source, and comes after the plain files. What the patterns leave out is not
    skipped: nobody asked for it. ConfigError if an expression of the source cannot be used.
    """
    root = os.path.realpath(source.root)
    judge = _Judge(source, limits, _expressions(source.ignored), _expressions(source.read_only))
    seen: set[str] = set()
    links: list[_Found] = []
    for found in _walk_all(source, root):
        if found.path in seen:
            continue
        seen.add(found.path)
        if isinstance(found, Skip):
            yield found
        elif found.entry.is_symlink():
            links.append(found)
        else:
            yield from judge.verdict(found, found.path)
    for link in links:
        yield from _follow(link, root, seen, judge)


def _follow(link: _Found, root: str, seen: set[str], judge: _Judge) -> Iterator[SourceFile | Skip]:
    target = os.path.realpath(link.path)
    if not Path(target).is_relative_to(root):
        yield _skip(link.path, "symbolic link out of the source")
    elif target in seen and target != link.path:
        yield _skip(link.path, "symbolic link to a file that has its own entry")
    else:
        seen.add(target)
        yield from judge.verdict(link, target)


def _walk_all(source: Source, root: str) -> Iterator[_Found | Skip]:
    """What each pattern finds, in turn; a file may come more than once."""
    excluded = compile_globs(source.exclude)
    for glob in source.include:
        start = literal_folder(glob)
        folder = os.path.realpath(f"{root}/{start}")
        if not Path(folder).is_relative_to(root):
            yield _skip(f"{root}/{start}", "symbolic link out of the source")
            continue
        wanted = compile_globs([glob])
        for found in _walk(_Folder(folder, f"{start}/" if start else "", folder_depth(glob)), excluded):
            if isinstance(found, Skip) or wanted.fullmatch(found.name):
                yield found


@dataclass(frozen=True)
class _Folder:
    """A folder to walk: its real path, its name under the root with a final `/`, and how deep to go (None: all)."""

    path: str
    name: str
    depth: int | None

    def child(self, entry: os.DirEntry[str]) -> _Folder:
        depth = None if self.depth is None else self.depth - 1
        return _Folder(entry.path, f"{self.name}{entry.name}/", depth)


def _walk(top: _Folder, excluded: re.Pattern[str]) -> Iterator[_Found | Skip]:
    """Markdown files, each folder's own before those below; folders that are not entered come as Skip."""
    pending = [top]
    while pending:
        folder = pending.pop()
        try:
            entries = _entries(folder.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield _skip(folder.path, f"the folder cannot be read: {error.strerror}")
            continue
        yield from _notes(folder, entries, excluded)
        if folder.depth != 0:
            below = _folders(folder, entries, excluded)
            yield from (_skip(entry.path, "symbolic link to a folder") for entry in below if entry.is_symlink())
            pending += [folder.child(entry) for entry in reversed(below) if not entry.is_symlink()]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _notes(folder: _Folder, entries: list[os.DirEntry[str]], excluded: re.Pattern[str]) -> Iterator[_Found]:
    for entry in entries:
        if entry.name.lower().endswith(SUFFIX) and not _is_folder(entry):
            name = f"{folder.name}{entry.name[: -len(SUFFIX)]}{SUFFIX}"
            if not excluded.fullmatch(name):
                yield _Found(name, entry)


def _folders(folder: _Folder, entries: list[os.DirEntry[str]], excluded: re.Pattern[str]) -> list[os.DirEntry[str]]:
    """The folders inside, without hidden, ignored and excluded ones."""
    return [
        entry
        for entry in entries
        if not entry.name.startswith(".")
        and entry.name not in IGNORED_FOLDERS
        and _is_folder(entry)
        and not excluded.fullmatch(f"{folder.name}{entry.name}/")
    ]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    # An entry's own is_dir() raises on a link that points at itself.
    return Path(entry.path).is_dir() if entry.is_symlink() else entry.is_dir()


@dataclass(frozen=True)
class _Judge:
    """Decides what becomes of a file that was found."""

    source: Source
    limits: Limits
    ignored: Callable[[str], bool]
    read_only: Callable[[str], bool]

    def verdict(self, found: _Found, path: str) -> Iterator[SourceFile | Skip]:
        """One SourceFile or Skip; nothing for an ignored id or a file that is gone."""
        name = found.name[: -len(SUFFIX)]
        memory_id = f"{self.source.id_prefix}{name}"
        try:
            info = found.entry.stat()
        except OSError as error:
            if not isinstance(error, FileNotFoundError) or found.entry.is_symlink():
                yield _skip(found.path, f"it cannot be read: {error.strerror}")
            return
        reason = self._objection(found, path, info)
        if reason:
            yield _skip(found.path, reason)
        elif not self.ignored(memory_id):
            yield SourceFile(
                source=self.source.name,
                memory_id=memory_id,
                path=path,
                size=info.st_size,
                mtime_ns=info.st_mtime_ns,
                writable=self.source.writable and not self.read_only(memory_id),
                artifact=self.source.artifact or artifact_class(PurePosixPath(found.name)),
                trust=self.source.trust,
            )

    def _objection(self, found: _Found, path: str, info: os.stat_result) -> str:
        if found.entry.name.startswith("."):
            return "hidden file"
        if not found.entry.name.endswith(SUFFIX):
            return f"its name does not end in {SUFFIX} in small letters"
        if printable(found.path) != found.path:
            return "its name is not UTF-8"
        if not stat.S_ISREG(info.st_mode):
            return "not a regular file"
        if info.st_size > self.limits.max_bytes:
            return f"{info.st_size} bytes are more than the limit of {self.limits.max_bytes}"
        return "" if os.access(path, os.R_OK) else "no permission to read it"


def _expressions(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """A test whether any of the expressions takes a whole id."""
    if not patterns:
        return lambda memory_id: False
    import re2  # noqa: PLC0415 - native and needed only where a source has expressions

    try:
        compiled = [re2.compile(pattern) for pattern in patterns]
    except re2.error as error:
        raise ConfigError(
            f"The sources' id patterns {patterns} cannot be used: {error}.",
            "Use RE2 syntax: no look-around, no back-references.",
        ) from error
    return lambda memory_id: any(pattern.fullmatch(memory_id) for pattern in compiled)


def _skip(path: str, reason: str) -> Skip:
    return Skip(path=printable(path), reason=reason)
