"""What git remembers of a text or a file: its objects, the names of branches and tags, its logs and settings.

They are looked for, never changed. The text is never an argument of git's, where every user of the machine could read
it: git hands out what it has, and that is searched here. No command that is told shows it either.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct

from scrimshaw.errors import StorageFailure
from scrimshaw.models import Degradation
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.git import ask_git, work_tree
from scrimshaw.storage.git_commands import Found, told
from scrimshaw.storage.packed import Closed, unpacked
from scrimshaw.storage.ports import Traces

TIMEOUT_S = 60.0
MOST_PLACES = 50
# A larger file of git's own, beside its objects, was put there by something else.
MOST_BYTES = 64 * 1024 * 1024
_BRANCH, _TAG = "refs/heads/", "refs/tags/"
# Searched by git itself, as objects and as names.
_SEARCHED = frozenset({"objects", "refs", "packed-refs"})
# Repositories and stores of their own.
_OTHERS = frozenset({"modules", "lfs", "annex"})


class GitPlace(Struct, frozen=True, kw_only=True):
    """What of git holds it: an object, the last commit that brought it or took it away ("" for none), and its path.

    Names of branches, tags and other refs, and files of git's own, have a path alone.
    """

    object: str
    kind: str
    commit: str = ""
    path: str = ""


class GitTraces(Struct, frozen=True, kw_only=True):
    """What was found in so many objects and other places, at most MOST_PLACES of the objects by place.

    `commands` would rewrite history; `stays` says what these leave, `unsearched` what nobody looked into.
    """

    objects: int = 0
    found: int = 0
    places: tuple[GitPlace, ...] = ()
    commands: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()
    degradation: Degradation | None = None


def git_traces(project: Path, traces: Traces, paths: Sequence[Path] = ()) -> GitTraces:
    """Look for a text, and for files, in everything that the repository around a project has."""
    try:
        top = work_tree(project)
        if not top:
            _demand_none(project)
            return GitTraces()
        return _traces(Path(top), traces, paths)
    except StorageFailure as error:
        return GitTraces(degradation=_without(error))


def _demand_none(project: Path) -> None:
    """Raise StorageFailure where there is a repository, and git refuses it, as one of another user."""
    if any((folder / ".git").exists() for folder in (project, *project.absolute().parents)):
        ask_git(project, "rev-parse", "--show-toplevel")


def _traces(top: Path, traces: Traces, paths: Sequence[Path]) -> GitTraces:
    objects, found, closed = _search(top, traces)
    names = [name for name in ask_git(top, "for-each-ref", "--format=%(refname)").splitlines() if _in(name, traces)]
    files, unsearched = _files(Path(ask_git(top, "rev-parse", "--git-common-dir").strip()), top, traces)
    places = [place for name, kind, _ in found[:MOST_PLACES] if (place := _placed(top, name, kind))]
    places += _of_files(top, paths)
    others = [GitPlace(object="", kind=_kind(name), path=name) for name in names]
    others += [GitPlace(object="", kind="file of git", path=name) for name in files]
    trees = _work_trees(top)
    commands, stays = told(_found(top, traces, found, places, names, files, trees)) if places or others else ((), ())
    return GitTraces(
        objects=objects,
        found=len(found) + len(places) - min(len(found), MOST_PLACES) + len(others),
        places=tuple(_masked(place, traces) for place in (*places, *others)),
        commands=commands,
        stays=stays,
        unsearched=tuple(_shown(name, traces) for name in (*unsearched, *closed, *trees)),
    )


def _found(
    top: Path,
    traces: Traces,
    objects: Sequence[tuple[str, str, bool]],
    places: Sequence[GitPlace],
    names: Sequence[str],
    files: Sequence[str],
    trees: Sequence[str],
) -> Found:
    """What the commands depend on; nothing in it holds the text."""
    paths = {place.path for place in places if place.path and place.kind != "tree"}
    clean = sorted(path for path in paths if not _in(path, traces))
    kinds = {kind for _, kind, _ in objects}
    return Found(
        files=tuple(sorted({place.path for place in places if place.kind == "file"})),
        paths=tuple(clean),
        today=tuple(path for path in clean if (top / path).is_file()),
        is_in_names=bool("tree" in kinds or len(clean) < len(paths)),
        is_in_messages=any(kind == "commit" and in_message for _, kind, in_message in objects),
        is_in_people=any(kind == "commit" and not in_message for _, kind, in_message in objects),
        tags=tuple(_tags(top, traces, {name for name, kind, _ in objects if kind == "tag"})),
        refs=frozenset(_kind(name) for name in names),
        own=tuple(name for name in files if not _in(name, traces)),
        is_in_own_names=any(_in(name, traces) for name in files),
        has_more=len(objects) > MOST_PLACES,
        has_stash="refs/stash" in ask_git(top, "for-each-ref", "--format=%(refname)", "refs/stash"),
        has_work_trees=bool(trees),
        has_filter_repo=_has_filter_repo(top),
    )


def _in(name: str, traces: Traces) -> bool:
    return traces.count(name.encode(errors="replace")) > 0


def _kind(ref: str) -> str:
    if ref.startswith(_BRANCH):
        return "branch"
    return "tag name" if ref.startswith(_TAG) else "ref"


def _tags(top: Path, traces: Traces, objects: set[str]) -> Iterator[str]:
    """The tags whose message holds it, but for those whose name does."""
    for line in ask_git(top, "for-each-ref", "--format=%(objectname) %(refname:strip=2)", "refs/tags").splitlines():
        name, _, tag = line.partition(" ")
        if name in objects and not _in(tag, traces):
            yield tag


def _files(folder: Path, top: Path, traces: Traces) -> tuple[list[str], list[str]]:
    """(files of git's own that hold it: logs, settings, messages that were begun; what was not searched), by path."""
    holding, unsearched = [], []
    folder = top / folder
    with storage_errors("look into", folder):
        for where, inside, names in os.walk(folder, onerror=_refused):
            if Path(where) == folder:
                unsearched += [str(folder / name) for name in inside if name in _OTHERS]
                inside[:] = [name for name in inside if name not in (*_SEARCHED, *_OTHERS)]
                names[:] = [name for name in names if name not in _SEARCHED]
            for path in sorted(Path(where, name) for name in names):
                data = _contents(path)
                if data is None:
                    unsearched.append(str(path))
                elif _in(path.relative_to(folder).as_posix(), traces) or traces.count(data):
                    holding.append(path.relative_to(folder).as_posix())
    return holding, unsearched


def _refused(error: OSError) -> None:
    raise error


def _contents(path: Path) -> bytes | None:
    """The bytes of a file, None of one that is too large."""
    try:
        if not path.is_file():
            return b""
        return path.read_bytes() if path.stat().st_size <= MOST_BYTES else None
    except FileNotFoundError:  # a lock, or a message that was sent off
        return b""


def _work_trees(top: Path) -> list[str]:
    """The other work trees of the repository; their files are their own, and they keep the objects checked out."""
    blocks = ask_git(top, "worktree", "list", "--porcelain").split("\n\n")
    lines = [block.splitlines() for block in blocks if block.startswith("worktree ")]
    paths = [each[0].removeprefix("worktree ") for each in lines if "bare" not in each]
    return [f"{path}, another work tree" for path in paths if Path(path).resolve() != top.resolve()]


def _search(top: Path, traces: Traces) -> tuple[int, list[tuple[str, str, bool]], list[str]]:
    """(objects read; name and kind of those that hold it, and whether it stands in the message; what stayed closed)."""
    command = ["git", "-C", str(top), "cat-file", "--batch", "--batch-all-objects", "--unordered"]
    objects, found, closed = 0, list[tuple[str, str, bool]](), list[str]()
    with (
        storage_errors("ask git in", top),
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process,
    ):
        clock = threading.Timer(TIMEOUT_S, process.kill)
        clock.start()
        try:
            for name, kind, data in _objects(process.stdout):
                objects += 1
                if traces.count(data) or (kind == "blob" and _is_packed_in(data, name, traces, closed)):
                    found.append((name, kind, traces.count(data.partition(b"\n\n")[2]) > 0))
        finally:
            clock.cancel()
    if process.returncode:
        raise StorageFailure(f"git could not be asked: it ended with {process.returncode} after {objects} objects.")
    told = f"{len(closed)} objects that are packed and cannot be looked into, such as {closed[0]}" if closed else ""
    return objects, found, [told] if told else []


def _is_packed_in(data: bytes, name: str, traces: Traces, closed: list[str]) -> bool:
    """Whether it stands in what is packed in a blob; one that cannot be looked into is added to `closed`."""
    try:
        return any(traces.count(part) > 0 for part in unpacked(data))
    except Closed as error:
        closed.append(f"{name}: {error}")
        return False


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
    return GitPlace(object=place.object, kind=place.kind, commit=place.commit, path=_shown(place.path, traces))


def _shown(name: str, traces: Traces) -> str:
    return traces.erase(name.encode(errors="replace")).decode(errors="replace")


def _has_filter_repo(top: Path) -> bool:
    try:
        ask_git(top, "filter-repo", "--version")
    except StorageFailure:
        return False
    return True


def _without(error: StorageFailure) -> Degradation:
    return Degradation(
        failure_mode=error.message,
        fallback_mode="its history was not searched",
        confidence_impact="nothing is known of what git still has",
        retry_recommendation="Make git run here, or search with `git log --all -p`.",
    )
