"""What git remembers of a text or a file, in all objects it has; looked for, never changed.

The text is never an argument of git's, where every user of the machine could read it: git hands out its objects, and
they are searched here.
"""

from __future__ import annotations

import shlex
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct

from scrimshaw.errors import StorageFailure
from scrimshaw.models import PURGED, Degradation
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.git import ask_git, work_tree
from scrimshaw.storage.ports import Traces

TIMEOUT_S = 60.0
MOST_PLACES = 50
_KEPT = "../purged-today.tar"


class GitPlace(Struct, frozen=True, kw_only=True):
    """An object of git that holds it: the last commit that brought it or took it away ("" for none), and its path."""

    object: str
    kind: str
    commit: str = ""
    path: str = ""


class GitTraces(Struct, frozen=True, kw_only=True):
    """What was found in so many objects, at most MOST_PLACES of them by place; `commands` would rewrite history."""

    objects: int = 0
    found: int = 0
    places: tuple[GitPlace, ...] = ()
    commands: tuple[str, ...] = ()
    degradation: Degradation | None = None


def git_traces(project: Path, traces: Traces, paths: Sequence[Path] = ()) -> GitTraces:
    """Look for a text, and for files, in everything that the repository around a project has."""
    try:
        top = work_tree(project)
        if not top:
            return GitTraces()
        objects, found = _search(Path(top), traces)
        places = [place for name, kind in found[:MOST_PLACES] if (place := _placed(Path(top), name, kind))]
        places += _of_files(Path(top), paths)
        return GitTraces(
            objects=objects,
            found=len(found) + len(places) - min(len(found), MOST_PLACES),
            places=tuple(_masked(place, traces) for place in places),
            commands=_commands(Path(top), places) if places else (),
        )
    except StorageFailure as error:
        return GitTraces(degradation=_without(error))


def _search(top: Path, traces: Traces) -> tuple[int, list[tuple[str, str]]]:
    """(objects read, name and kind of those that hold it)."""
    command = ["git", "-C", str(top), "cat-file", "--batch", "--batch-all-objects", "--unordered"]
    objects, found = 0, []
    with (
        storage_errors("ask git in", top),
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process,
    ):
        clock = threading.Timer(TIMEOUT_S, process.kill)
        clock.start()
        try:
            for name, kind, data in _objects(process.stdout):
                objects += 1
                if traces.count(data):
                    found.append((name, kind))
        finally:
            clock.cancel()
    if process.returncode:
        raise StorageFailure(f"git could not be asked: it ended with {process.returncode} after {objects} objects.")
    return objects, found


def _objects(stream: IO[bytes] | None) -> Iterator[tuple[str, str, bytes]]:
    """(name, kind, content) of what `git cat-file --batch` tells."""
    while stream and len(head := stream.readline().decode().split()) == 3:
        name, kind, size = head
        data = stream.read(int(size))
        stream.read(1)
        yield name, kind, data


def _placed(top: Path, name: str, kind: str) -> GitPlace:
    if kind == "commit":
        return GitPlace(object=name, kind=kind, commit=name)
    told = ask_git(top, "log", "--all", "-1", f"--find-object={name}", "--format=%H", "--name-only", "-m", "-t", "-z")
    commit, _, rest = told.partition("\0")
    return GitPlace(object=name, kind=kind, commit=commit.strip(), path=rest.strip("\0\n").partition("\0")[0])


def _of_files(top: Path, paths: Sequence[Path]) -> list[GitPlace]:
    """The newest commit that changed each of these files, as far as git knows them."""
    names = [path.resolve().relative_to(top).as_posix() for path in paths if path.resolve().is_relative_to(top)]
    newest = {name: ask_git(top, "log", "--all", "-1", "--format=%H", "--", f":(top,literal){name}") for name in names}
    return [
        GitPlace(object="", kind="file", commit=commit.strip(), path=name) for name, commit in newest.items() if commit
    ]


def _masked(place: GitPlace, traces: Traces) -> GitPlace:
    path = traces.erase(place.path.encode(errors="replace")).decode(errors="replace")
    return GitPlace(object=place.object, kind=place.kind, commit=place.commit, path=path)


def _commands(top: Path, places: Sequence[GitPlace]) -> tuple[str, ...]:
    """What rewrites history, to be run by the user: with git filter-repo where it is installed."""
    files = sorted({place.path for place in places if place.kind == "file"})
    paths = sorted({place.path for place in places if place.path and place.kind != "tree"})
    steps = _filter_repo(files) if _has_filter_repo(top) else _filter_branch(top, paths)
    return (
        *steps,
        "git reflog expire --expire=now --expire-unreachable=now --all",
        "git gc --prune=now --aggressive",
        "git push --force --all && git push --force --tags",
    )


def _has_filter_repo(top: Path) -> bool:
    try:
        ask_git(top, "filter-repo", "--version")
    except StorageFailure:
        return False
    return True


def _filter_repo(files: Sequence[str]) -> tuple[str, ...]:
    """Out of all files by a list of texts that only its owner may read, or whole files."""
    if files:
        return (f"git filter-repo --invert-paths {' '.join(f'--path {shlex.quote(name)}' for name in files)}",)
    return (
        f"(umask 077; printf 'literal:%s==>{PURGED}\\n' \"$(cat FILE_WITH_THE_SECRET)\" > replacements.txt)",
        "git filter-repo --replace-text replacements.txt --replace-message replacements.txt && rm replacements.txt",
    )


def _filter_branch(top: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """Whole files out of all commits, those of today put back: the text itself would stand in the shell's history."""
    if not paths:
        return ()
    names = " ".join(map(shlex.quote, paths))
    remove = shlex.quote(f"git rm -r -q --cached --ignore-unmatch -- {names}")
    today = " ".join(shlex.quote(path) for path in paths if (top / path).is_file())
    keep = (f"tar -cf {_KEPT} {today}",) if today else ()
    back = (f"tar -xf {_KEPT} && git add {today} && git commit -m 'Without what was purged'",) if today else ()
    return (
        *keep,
        f"git filter-branch --force --index-filter {remove} --tag-name-filter cat -- --all",
        "git for-each-ref --format='delete %(refname)' refs/original | git update-ref --stdin",
        *back,
    )


def _without(error: StorageFailure) -> Degradation:
    return Degradation(
        failure_mode=error.message,
        fallback_mode="its history was not searched",
        confidence_impact="nothing is known of what git still has",
        retry_recommendation="Install git, or search with `git log --all -p`.",
    )
