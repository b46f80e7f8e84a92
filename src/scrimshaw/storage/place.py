"""Where journal and checkpoints are stored: in git's folder, which `git clean -fdx` skips. Light to import for hooks.

git itself is not run: it takes milliseconds.
"""

import os
import re
import sys
from _blake2 import blake2b  # `hashlib` takes a hook a millisecond
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

from scrimshaw.config import PROJECT_FOLDER
from scrimshaw.storage.durable import PRIVATE_FOLDER, make_folders, read_if_there, replace_file
from scrimshaw.toml_text import read_regular_file

JOURNAL, CHECKPOINTS = "journal.db", "checkpoints"
OWNER = "project"  # the file that names the project's folder
MOST_SIBLINGS = 12  # each takes a session's start a millisecond, and removed work trees leave theirs behind
_OWN_COMMITS = ("commit:", "commit (amend):", "commit (initial):")  # a `commit (merge)` brings commits of others
_MOVE = re.compile(r"(?:checkout: moving from |Branch: renamed refs/heads/)(\S+) to (?:refs/heads/)?(\S+)")
_MERGE, _IS_BRANCH = re.compile(r"merge (\S+):"), re.compile(r"(?![0-9a-f]{7,40}\Z)[^~^@]+\Z").match
_EXCLUDED = b"\n**/.scrimshaw/*\n!**/.scrimshaw/memories/\n!**/.scrimshaw/*.toml\n!**/.scrimshaw/.git*\n"
_LABEL_CHARACTERS, _REMOVED = 40, ", which is removed"


def find_place(folder: Path) -> Path:
    """The folder of the journal and checkpoints of a Scrimshaw folder: itself, until `move_journal` has moved them."""
    place = place_below_git(folder)
    if place is None or (not os.path.lexists(place / JOURNAL) and os.path.lexists(folder / JOURNAL)):
        return folder
    return place


def place_below_git(folder: Path) -> Path | None:
    """Their place in a repository; None without one, if it is not writable, or for a copy of a work tree."""
    real = Path(os.path.realpath(folder))
    try:
        place = _name_place(*_locate(real.parent))
    except (OSError, ValueError):  # no repository, or not in git's format
        return None
    with suppress(OSError, ValueError):  # not owned yet, or the owner was moved
        owner = Path(_read(place / OWNER))
        if not owner.samefile(real.parent) and _name_place(*_locate(owner)) == place:
            return None  # a copied work tree points to the same folder in git
    there = next(each for each in (place, *place.parents) if os.path.lexists(each))
    is_usable = os.path.lexists(place / JOURNAL) or os.access(there, os.W_OK)
    return place if is_usable and real.name == PROJECT_FOLDER else None


def claim_place(place: Path, folder: Path) -> None:
    """Create the place of a Scrimshaw folder and note its project in it. Raises OSError."""
    project = os.fsencode(os.path.realpath(folder.parent))
    make_folders(place, PRIVATE_FOLDER)
    with suppress(OSError):  # such as a full disk, which does not matter to a reader
        if read_if_there(place / OWNER) != project:
            replace_file(place / OWNER, project, private=True)


def find_former(place: Path, folder: Path) -> list[Path]:
    """The places of projects, now gone, that may have been moved inside their work tree to here: of the likest path."""
    project = Path(os.path.realpath(folder)).parent
    found, tree = dict[Path, int](), _locate(project)[:2]
    for each in place.parent.glob(f"*/{OWNER}"):
        with suppress(OSError, ValueError):
            owner = Path(_read(each))
            if _locate(owner)[:2] == tree and not os.path.lexists(owner / PROJECT_FOLDER):
                parts = owner.parts[::-1], project.parts[::-1]
                found[each.parent] = len(os.path.commonprefix(parts))  # noqa: RUF071 - not of texts
    return sorted(each for each, alike in found.items() if alike == max(found.values()))


def name_project(project: Path) -> str:
    """A name for a project, which all work trees of its repository share; it changes if the repository is moved."""
    real = Path(os.path.realpath(project))
    try:
        common, _, inside = _locate(real)
        top = common.parent if common.name == ".git" else common
    except (OSError, ValueError):
        common, top, inside = real, real, ""
    label = re.sub("[^A-Za-z0-9._-]+", "_", Path(inside).name or top.name)[:_LABEL_CHARACTERS]
    digest = blake2b(os.fsencode(f"{common}\n{inside}"), digest_size=4).hexdigest()
    return f"{label}-{digest}"


def find_siblings(folder: Path, *, every: bool = False) -> list[Path]:
    """The places of a project in the other work trees of its repository, even removed ones: the last written."""
    if (own := place_below_git(folder)) is None:
        return []
    common, _, inside = _locate(Path(os.path.realpath(folder)).parent)
    # The place still has the name of a removed work tree.
    labels = (each.name.rpartition("-")[0].removesuffix(f"-{Path(inside).name}") for each in own.parent.glob("*"))
    found, trees = list[tuple[float, Path]](), {*labels, *map(attrgetter("name"), common.glob("worktrees/*"))}
    for tree in (".", *(f"worktrees/{name}" for name in trees)):
        place = _name_place(common, tree, inside)
        with suppress(OSError):  # nothing was recorded there
            info = os.stat(place / JOURNAL)  # noqa: PTH116 - faster than that of a Path
            found += [(info.st_mtime, place)] if info.st_size and place != own else []
    return [place for _, place in sorted(found, reverse=True)[: None if every else MOST_SIBLINGS]]


def is_removed(work_tree: str) -> bool:
    """Whether `describe_work_tree` says so of a work tree."""
    return work_tree.endswith(_REMOVED)


def find_main_tree(project: Path) -> Path:
    """The first work tree of the repository around a project; the project itself without one."""
    real = Path(os.path.realpath(project))
    try:
        top, _, common = find_git(real)
    except (OSError, ValueError):
        return real
    return common.parent if common.name == ".git" else top


def find_projects(project: Path) -> list[Path]:
    """The folders of the projects with a memory in the repository around a project, in all its work trees."""
    place = place_below_git(project / PROJECT_FOLDER)
    return [Path(_read(owner)) for owner in sorted(place.parent.glob(f"*/{OWNER}"))] if place else []


def find_arrivals(project: Path, since: float) -> tuple[str, bool]:
    """(the commit that was checked out at a given time, whether more than commits made here came since).

    It reads git's reflog of HEAD, and names no commit if that does not go back so far. git itself is not run.
    """
    before, is_any = "", False
    for at, _, new, what in _read_reflog(project):
        if at < int(since):
            before = new
        else:
            is_any |= not what.startswith(_OWN_COMMITS)
    return before, is_any


def find_branch(project: Path, at: float) -> tuple[str, str]:
    """(the branch checked out at a given time, the last commit made on it then), empty if the current one has its work.

    It reads git's reflog of HEAD, which tells of merges by name, but not of those that a pull brought.
    """
    current, branch, commit, holders = "", "", "", set[str]()
    for moment, old, new, what in _read_reflog(project):
        if move := _MOVE.match(what):
            current = move[2]
            if moment <= at:
                branch, commit, holders = current, "", {current}
            elif not holders:  # nothing was checked out before
                branch, holders = move[1], {move[1]}
            holders |= {current} if old == new and move[1] in holders else set()
        elif moment <= at:
            commit = new if what.startswith("commit") else commit
        elif (merge := _MERGE.match(what)) and merge[1] in holders:
            holders.add(current)
    return ("", "") if current in holders or not _IS_BRANCH(branch) else (branch, commit)


def _read_reflog(project: Path) -> Sequence[tuple[int, str, str, str]]:
    with suppress(OSError, ValueError):
        log = find_git(Path(os.path.realpath(project)))[1] / "logs/HEAD"
        return parse_reflog(log, log.stat().st_mtime_ns)
    return ()


@lru_cache(maxsize=2)  # a server reads it for each hit
def parse_reflog(log: Path, mtime_ns: int) -> Sequence[tuple[int, str, str, str]]:
    """(seconds since 1970, commit before, commit after, what happened) of the changes of HEAD in a checkout."""
    found = list[tuple[int, str, str, str]]()
    for line in (read_if_there(log) or b"").decode(errors="replace").split("\n"):
        head, _, what = line.partition("\t")  # `OLD NEW NAME <ADDRESS> SECONDS ZONE`
        with suppress(ValueError):  # a line that git did not write
            old, new, *_, seconds, _ = head.split()
            found.append((int(seconds), old, new, what))
    return found


def hide_from_git(folder: Path) -> None:
    """Let git ignore what is no memory also on branches without `.gitignore`."""
    if folder.name == PROJECT_FOLDER:
        exclude_files(folder.parent, _EXCLUDED)


def exclude_files(project: Path, lines: bytes, *, is_wanted: bool = True) -> bool:
    """Let git ignore files in a repository's work trees, or no longer, by a file outside checkouts; whether it does."""
    with suppress(OSError, ValueError):
        path = find_git(Path(os.path.realpath(project)))[2] / "info/exclude"
        before = read_if_there(path) or b""
        if (lines in before) != is_wanted:
            replace_file(path.resolve(), before + lines if is_wanted else before.replace(lines, b""))
        return is_wanted
    return False


def describe_work_tree(place: Path) -> str:
    """The work tree of a place, and its branch; for a removed one only the name."""
    try:
        top, git, _ = find_git(Path(_read(place / OWNER)))
        return f"{top.name}, {_read(git / 'HEAD').replace('ref: refs/heads/', 'branch ')}"
    except (OSError, ValueError):
        return f"{place.name.rpartition('-')[0]}{_REMOVED}"


def _locate(project: Path) -> tuple[Path, str, str]:
    """(git's folder of all work trees, that of the project's work tree in it, the project's in the work tree).

    Raises OSError, ValueError without a repository in git's format.
    """
    top, git, common = find_git(project)
    inside, tree = (Path(os.path.relpath(*each)).as_posix() for each in ((project, top), (git, common)))
    if sys.platform in ("darwin", "win32"):  # where names of folders ignore case
        inside = inside.casefold()
    return common, tree, inside


def _name_place(common: Path, tree: str, inside: str) -> Path:
    name = f"{Path(tree).name or 'main'}-{Path(inside).name}".rstrip("-")
    digest = blake2b(os.fsencode(f"{tree}\n{inside}"), digest_size=4).hexdigest()
    return common / "scrimshaw" / f"{re.sub('[^A-Za-z0-9._-]+', '_', name)[:_LABEL_CHARACTERS]}-{digest}"


def find_git(project: Path) -> tuple[Path, Path, Path]:
    """(top of the work tree around a project, its folder in git, that of all work trees)."""
    for top in (project, *project.parents):
        if not os.path.lexists(git := top / ".git"):
            continue
        if git.is_file():
            git = Path(os.path.realpath(top / _read(git).removeprefix("gitdir: ")))
        elif not (git / "HEAD").is_file():
            continue  # as git does
        git = common = Path(os.path.realpath(git))
        if (git / "commondir").is_file():
            common = Path(os.path.realpath(git / _read(git / "commondir")))
        _read(common / "HEAD")
        return top, git, common
    raise FileNotFoundError


def _read(path: Path) -> str:
    return os.fsdecode(read_regular_file(path)).rstrip("\r\n")
