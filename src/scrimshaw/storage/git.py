"""Runs git, which may be missing: work trees, deleted and moved files, old content.

A text to search for is never an argument of git, where every user of the machine could read it: git prints its
objects, and the comparison is done here.
"""

import os
import re
import shlex
import subprocess
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import environment_for_git
from scrimshaw.errors import NotFound, StorageFailure, describe_os_error
from scrimshaw.models import PURGED, Degradation, Traces, format_time
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.paths import replace_undecodable
from scrimshaw.storage.place import find_git

TIMEOUT_S = 30.0
PRESENT_S = 10.0  # for commands that read no history: somebody waits for the answer
SEARCH_S = 60.0
MOST_PLACES = 50
_MOST_CONFLICTS = 127  # `git merge-file` counts up to these in its exit code; a higher one is an error
SECRET_FILE = "FILE_WITH_THE_SECRET"

_MARK = "\x01"
_SERVER_DOMAIN = "scrimshaw.invalid"  # of the addresses of tokens whose names are not addresses
SERVER_ADDRESS = f"server@{_SERVER_DOMAIN}"  # of the committer
PLAIN = ("-c", f"core.hooksPath={os.devnull}", "-c", "commit.gpgSign=false")  # nothing that may wait for a person
_CURE = re.compile(rb"git config --global --add safe\.directory .+")  # in git's words, which may be in any language
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]|\Z)")
_PATCHED = re.compile(r"^(?:\+\+\+ b/|rename to |--- a/)([^\n]+)", re.MULTILINE)
_REPLACE_TEXT = (
    f"(umask 077; printf 'literal:%s==>{PURGED}\\n' \"$(cat {SECRET_FILE})\" > replacements.txt)",
    "git filter-repo --force --replace-text replacements.txt --replace-message replacements.txt",
    "rm replacements.txt",
)
_FORGET = (
    "git reflog expire --expire=now --expire-unreachable=now --all",
    "git gc --prune=now --aggressive",
    "git push --force --all && git push --force --tags",
)
_LEFTOVERS = (
    "names of files and folders: add `--path-rename OLD:NEW` to `git filter-repo`",
    "the name or address of who made a commit: see `--mailmap` of `git filter-repo`",
    "names of branches, tags and other refs: rename or delete them, here and where they were pushed",
    "files of git's own, such as its settings, logs and begun messages: edit or remove them",
    "stashes, which go with the reflog, and what other work trees have checked out",
    "a text over several lines, or in another form than in the file: search again when the commands are done",
)
# In git's folder: what git searches itself, and separate repositories and stores.
_SEARCHED, _OTHERS = ("objects", "refs", "packed-refs", "scrimshaw"), ("modules", "lfs", "annex")


def merge_texts(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, bool]:
    """A three-way merge of texts by git, and whether it left marked conflicts."""
    with TemporaryDirectory(prefix="scrimshaw-") as folder:
        paths = [Path(folder) / name for name in ("ours", "base", "theirs")]
        for path, text in zip(paths, (ours, base, theirs), strict=True):
            path.write_bytes(text)
        labels = [word for name in ("ours", "base", "theirs") for word in ("-L", name)]
        command = ["git", "merge-file", "-p", *labels, *map(str, paths)]
        with storage_errors("run git in", paths[0].parent):
            done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    if done.returncode > _MOST_CONFLICTS:
        raise StorageFailure(f"git could not merge: {done.stderr.decode(errors='replace').strip()}", "Merge by hand.")
    return done.stdout, bool(done.returncode)


def ask_git(
    folder: Path, *arguments: str, answers: Collection[int] = (0,), timeout_s: float | None = None, **variables: str
) -> str:
    """The output of git in a folder; raises StorageFailure if it is missing, refuses or takes too long."""
    command = ["git", "-c", "core.quotePath=false", "-C", str(folder), *arguments]
    known = {"GIT_OPTIONAL_LOCKS": "0", **environment_for_git(), **variables}  # a commit of the user's goes first
    timeout_s, nobody = timeout_s or TIMEOUT_S, subprocess.DEVNULL
    try:
        done = subprocess.run(command, stdin=nobody, capture_output=True, timeout=timeout_s, check=False, env=known)
    except (OSError, subprocess.TimeoutExpired) as error:
        why = describe_os_error(error) if isinstance(error, OSError) else f"it timed out after {error.timeout:g} s"
        raise StorageFailure(f"git could not be asked: {why}.", "Install git, or put it on the PATH.") from error
    if done.returncode and (cure := _CURE.search(done.stderr)):  # whatever codes are answers
        what = f"git refuses the repository around {folder} for dubious ownership: it belongs to another account."
        raise StorageFailure(what, f"If you trust it, run `{os.fsdecode(cure[0])}`.")
    if done.returncode not in answers:
        said = done.stderr.decode(errors="replace").strip().splitlines()[:2]  # the second may name a file in the way
        why = " ".join(" ".join(said).split())
        hint = "Make a repository with `git init`." if "a git repository" in why else "Ask git the same yourself."
        raise StorageFailure(f"git could not be asked: {why}.", hint)
    # Names to open are as the system has them, even if they are not UTF-8.
    return done.stdout.decode(errors="surrogateescape" if arguments[:2] == ("ls-files", "-z") else "replace")


def is_left_out(path: Path) -> bool:
    """Whether a sparse checkout leaves a folder out, or a part of it, that git has."""
    with suppress(StorageFailure):
        return "\nS " in "\n" + ask_git(path.parent, "ls-files", "-t", "--", path.name)
    return False


def commit_files(project: Path, paths: Sequence[str], author: str, message: str) -> None:
    """Commit the changes at these paths below a project, but nothing else that is staged; raises StorageFailure.

    The author is a name or an address. Hooks and signing do not run: they are the user's own and may wait for a person.
    """
    name = re.sub(r"[<>\n]", "", author)
    address = name if "@" in name else f"{re.sub('[^A-Za-z0-9._-]+', '-', name)}@{_SERVER_DOMAIN}"
    there = [path for path in paths if Path(path).exists() or ask_git(project, "ls-files", "--", path)]
    if not there or not ask_git(project, "status", "--porcelain", "--", *there):
        return
    ask_git(project, "add", "--all", "--", *there)
    committer = ("-c", "user.name=Scrimshaw", "-c", f"user.email={SERVER_ADDRESS}")
    author = f"--author={name} <{address}>"
    ask_git(project, *committer, *PLAIN, "commit", "--quiet", author, "--message", message, "--only", "--", *there)


class CommitAuthor(NamedTuple):
    name: str
    address: str

    @property
    def is_of_server(self) -> bool:
        """Whether the commit was made by a server, under the name of a token."""
        return self.address.endswith(f"@{_SERVER_DOMAIN}")

    def includes(self, person: str) -> bool:
        """Whether the name of a token is this author's name, address, or the beginning of the address."""
        return person.casefold() in map(str.casefold, (self.name, self.address, self.address.partition("@")[0]))


def find_author(project: Path) -> CommitAuthor:
    """The author of a new commit in a project; without names if git has none. Raises StorageFailure."""
    ident = ask_git(project, "var", "GIT_AUTHOR_IDENT", answers=(0, 128), timeout_s=PRESENT_S)
    name, _, rest = ident.partition(" <")
    return CommitAuthor(name, rest.partition(">")[0])


class CommittedChange(NamedTuple):
    """The change of a file by a commit, by its path below the project."""

    path: str
    status: str  #: git's letter: A, M, D and the like
    commit: str
    at: float
    author: CommitAuthor


def list_changed_files(
    project: Path, before: str, since: float, folders: Sequence[str], head: str = "HEAD"
) -> list[CommittedChange]:
    """The changes of files below these folders by the commits after one, or without one by those made since a moment.

    Newest first; a moved file counts as deleted and added. Raises StorageFailure.
    """
    revisions = [f"{before}..{head}"] if before else [f"--since={format_time(since)}", head]
    options = ("-z", "--no-merges", "--no-renames", "--name-status", "--relative")
    command = ("log", *options, f"--format={_MARK}%H%x00%ct%x00%aN%x00%aE", *revisions, "--", *folders)
    log, found = ask_git(project, *command, answers=(0, 128)), list[CommittedChange]()
    for block in log.split(_MARK)[1:]:
        commit, at, name, address, *rest = block.split("\0")
        fields = filter(None, map(str.strip, rest))
        for status, path in zip(fields, fields, strict=False):
            found.append(CommittedChange(path, status, commit, float(at), CommitAuthor(name, address)))
    return found


def work_tree(project: Path) -> str:
    """The top of the project's git work tree, empty if there is none; raises StorageFailure without git."""
    return ask_git(project, "rev-parse", "--show-toplevel", answers=(0, 128), timeout_s=PRESENT_S).strip()


def list_other_work_trees(project: Path) -> list[Path]:
    """The project's folder in the other work trees of its repository; raises StorageFailure without git."""
    if not (top := work_tree(project)):
        return []
    blocks = ask_git(project, "worktree", "list", "--porcelain", timeout_s=PRESENT_S).split("\n\n")
    lines = [block.splitlines() for block in blocks if block.startswith("worktree ")]
    tops = [Path(each[0].removeprefix("worktree ")).resolve() for each in lines if "bare" not in each]
    inside = project.resolve().relative_to(Path(top).resolve())
    return [other / inside for other in tops if other != Path(top).resolve()]


def list_visible_files(project: Path, suffixes: Sequence[str], starts: Sequence[str]) -> list[str] | None:
    """The files below a folder, whose paths start and end so, that git does not ignore; None if git does not answer."""
    # In a folder without a tracked file git's own `:(icase)` finds nothing.
    ends = [re.sub("[a-z]", lambda each: f"[{each[0]}{each[0].upper()}]", f"*{suffix}") for suffix in suffixes]
    patterns = ("--", *(f"{start}{end}" for start in starts for end in ends))
    options = ("--cached", "--others", "--exclude-standard", "--deduplicate")
    if (names := _list_files(project, *options, *patterns)) is not None:
        return names
    with suppress(OSError, ValueError, StorageFailure), TemporaryDirectory(prefix="scrimshaw-") as empty:
        # git refuses the repository, such as another account's, whose settings may run programs: ask an empty one.
        top, _, common = find_git(Path(os.path.realpath(project)))
        excluded = common / "info/exclude"
        own = (f"--exclude-from={excluded}",) if excluded.is_file() else ()
        ask_git(project, "init", "--quiet", "--bare", "--template=", empty)
        names = _list_files(project, *options, *own, *patterns, GIT_DIR=empty, GIT_WORK_TREE=str(top))
    return names


def _list_files(project: Path, *options: str, **variables: str) -> list[str] | None:
    if any((folder / ".git").exists() for folder in (project, *project.absolute().parents)):
        with suppress(StorageFailure):
            listed = ask_git(project, "ls-files", "-z", *options, answers=(0,), timeout_s=PRESENT_S, **variables)
            return sorted(filter(None, listed.split("\0")))
    return None


class CommitDates:
    """When the files of a project were first and last committed; git is asked once, and only about files it has."""

    def __init__(self, project: Path) -> None:
        self._project = Path(os.path.realpath(project))

    def find(self, path: str) -> tuple[str, str]:
        """ISO times of a file's first and last commit; empty if git lacks it, the last also if it has changed since."""
        name = path.removeprefix(f"{self._project}{os.sep}").replace(os.sep, "/")
        if name not in self._tracked:
            return "", ""
        first, last = self._dates.get(name, ("", ""))
        return first, "" if name in self._changed else last

    @cached_property
    def _tracked(self) -> frozenset[str]:
        return frozenset(_list_files(self._project) or ())

    @cached_property
    def _changed(self) -> frozenset[str]:
        return frozenset(_list_files(self._project, "--modified") or ())

    @cached_property
    def _dates(self) -> Mapping[str, tuple[str, str]]:
        with suppress(StorageFailure):  # without dates if reading the history takes too long
            head = ask_git(self._project, "rev-parse", "--verify", "HEAD", timeout_s=PRESENT_S).strip()
            return _read_commit_dates(self._project, head)
        return {}


@lru_cache(maxsize=4)  # a server scans often, and history changes rarely
def _read_commit_dates(project: Path, head: str) -> Mapping[str, tuple[str, str]]:
    """(first, last) author time of each file by its path below the project, under its earlier names too."""
    log = ("log", "-z", "-M", "--name-status", "--relative", f"--format={_MARK}%aI", head)
    dates, names = dict[str, tuple[str, str]](), dict[str, str]()
    for block in ask_git(project, *log, timeout_s=TIMEOUT_S).split(_MARK)[1:]:  # newest first
        at, *rest = block.split("\0")
        fields = iter(rest)
        for field in fields:  # `M NUL path`, or `R097 NUL old NUL new`
            if not (status := field.strip()):
                continue
            path = next(fields, "")
            if status.startswith("R"):
                old, path = path, next(fields, "")
                names.setdefault(old, names.get(path, path))
            path = names.get(path, path)
            dates[path] = (at, dates[path][1] if path in dates else at)
    return dates


class Commit(Struct, frozen=True, kw_only=True):
    """A commit; where it is about a file, with the file's path at the time, and the change as a diff on request."""

    commit: str
    at: str  #: ISO time
    author: str
    subject: str
    path: str = ""
    patch: str = ""


_COMMIT_FORMAT = f"--format={_MARK}%H%x00%cI%x00%an%x00%s%x00"


def list_deleted_notes(project: Path) -> list[Commit]:
    """The commits that deleted Markdown files, which were neither moved nor restored, newest first; StorageFailure."""
    log = ("log", "-z", "-M", "--diff-filter=D", "--name-only", "--relative", _COMMIT_FORMAT)
    found: dict[str, Commit] = {}
    for block in ask_git(project, *log, "--", "*.md").split(_MARK)[1:]:
        name, at, author, subject, *paths = block.split("\0")
        for path in filter(None, (each.strip("\n") for each in paths)):
            found.setdefault(path, Commit(commit=name, at=at, author=author, subject=subject, path=path))
    return [each for each in found.values() if not (project / each.path).exists()]


def read_before(project: Path, commit: str, path: str) -> str:
    """The text of a file before a commit; raises StorageFailure."""
    return ask_git(project, "show", f"{commit}^:./{path}")


def list_moved_files(project: Path, *below: str, timeout_s: float = TIMEOUT_S) -> Iterator[tuple[str, str]]:
    """(old name, new name) of the files moved in git's history, oldest first; raises StorageFailure if git fails."""
    log = ("log", "--reverse", "--diff-filter=R", "--find-renames", "--name-status", "--format=", "--relative", "-z")
    fields = iter(ask_git(project, *log, "--", *below, timeout_s=timeout_s).split("\0"))
    for field in fields:  # `R097 NUL old NUL new NUL`
        if field.strip():
            yield next(fields, ""), next(fields, "")


def find_commit(folder: Path, revision: str) -> Commit:
    """The commit that a branch, a tag, a hash or an ISO date names; raises StorageFailure, NotFound."""
    hint = "Name a branch, a tag, a hash, or a date such as 2026-01-31."
    if _DATE.match(revision):
        hint = "Its first commit is newer."
        # Git would take a bare date for that day at the present time of day.
        moment = revision if len(revision) > len("2026-01-31") else f"{revision} 23:59:59"
        name = ask_git(folder, "rev-list", "-1", f"--before={moment}", "HEAD", "--", answers=(0, 128)).strip()
    else:
        command = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        name = ask_git(folder, *command, answers=(0, 1, 128)).strip()
    if not name:
        hint = hint if ask_git(folder, "rev-list", "-1", "--all") else "There is no commit yet."
        raise NotFound(f"git has no commit {revision!r}.", hint)
    return _read_commits(ask_git(folder, "log", "-1", _COMMIT_FORMAT, name))[0]


def is_on_another_branch(path: Path) -> bool:
    """Whether commits have a file, but none of those that led to the checked-out one; False without git."""
    folder, newest = next(each for each in path.parents if each.is_dir()), ("log", "-1", "--format=%H")
    name = ("--", str(path.relative_to(folder)))
    with suppress(StorageFailure):
        return not ask_git(folder, *newest, *name) and bool(ask_git(folder, *newest, "--all", *name))
    return False


def find_last_commit(path: Path) -> str:
    """The last commit that changed a file and its author ("1a2b3c4 of Ana"), if the file is, or is gone, as there."""
    folder = next(each for each in path.parents if each.is_dir())
    name = ("--", str(path.relative_to(folder)))
    with suppress(StorageFailure):
        if not ask_git(folder, "status", "--porcelain", "--ignored", *name, timeout_s=PRESENT_S):
            return ask_git(folder, "log", "-1", "--format=%h of %an", *name, timeout_s=PRESENT_S).strip()
    return ""


def is_in_history(project: Path, commit: str) -> bool:
    """Whether a commit is the checked-out one or led to it; False without git, or if it is gone."""
    with suppress(StorageFailure):
        return not ask_git(project, "rev-list", "-1", commit, "^HEAD", timeout_s=PRESENT_S)
    return False


def list_commits(path: Path, *, patches: bool = False) -> list[Commit]:
    """The commits that changed a file, newest first, also under earlier names; raises StorageFailure without git.

    Their paths begin at the top of the work tree; outside of one there are none.
    """
    folder = next(each for each in path.parents if each.is_dir())
    if not work_tree(folder):
        return []
    shown = "--patch" if patches else "--name-only"
    # Before the first commit git has no history and exits with 128.
    return _read_commits(ask_git(folder, "log", "--follow", _COMMIT_FORMAT, shown, "--", str(path), answers=(0, 128)))


def read_tree(folder: Path, commit: str, suffixes: Collection[str], most_bytes: int) -> Iterator[tuple[str, bytes]]:
    """(path below the folder, content) of a commit's files with these suffixes; except links and larger ones."""
    listed = ask_git(folder, "ls-tree", "-r", "-z", "--long", commit).split("\0")
    names = dict[str, list[str]]()
    for head, _, path in (each.partition("\t") for each in listed if each):
        mode, _, name, size = head.split()
        if mode.startswith("100") and path.lower().endswith(tuple(suffixes)) and int(size) <= most_bytes:
            names.setdefault(name, []).append(path)
    asked, known = "".join(f"{name}\n" for name in names).encode(), environment_for_git()
    command = ["git", "-C", str(folder), "cat-file", "--batch"]
    with storage_errors("ask git in", folder):
        done = subprocess.run(command, input=asked, capture_output=True, timeout=SEARCH_S, check=True, env=known)
    stream = BytesIO(done.stdout)
    for paths in names.values():  # a line of name, kind and size, the content, a line end
        content = stream.read(int(stream.readline().split()[2]) + 1)[:-1]
        yield from ((path, content) for path in paths)


def _read_commits(output: str) -> list[Commit]:
    commits = list[Commit]()
    for block in output.split(_MARK)[1:]:
        name, at, author, subject, rest = block.split("\0", 4)
        rest = rest.strip("\n")
        patch = rest if rest.startswith("diff ") else ""
        found = _PATCHED.search(patch)
        path = found[1] if found else "" if patch else rest
        commits.append(Commit(commit=name, at=at, author=author, subject=subject, path=path, patch=patch))
    return commits


class GitPlace(Struct, frozen=True, kw_only=True):
    """A place in git that contains the text; a ref, a file of git's own, or an uncommitted one only has a path."""

    object: str = ""
    kind: str
    commit: str = ""  #: the last commit that changed it
    path: str = ""


class GitTraces(Struct, frozen=True, kw_only=True):
    """Where git contains a text; `places` has up to MOST_PLACES objects, and `commands` rewrite history without it."""

    objects: int = 0  #: objects read
    found: int = 0  #: all places that contain it, even beyond MOST_PLACES
    places: tuple[GitPlace, ...] = ()
    commands: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()  #: what the commands leave behind or remove in addition
    unsearched: tuple[str, ...] = ()  #: what was not searched
    degradation: Degradation | None = None


def search_git(project: Path, traces: Traces, paths: Sequence[Path] = (), own: Collection[Path] = ()) -> GitTraces:
    """Search the repository around a folder for a text and for files, except in Scrimshaw's `own` folders."""
    try:
        if top := work_tree(project):
            return _search_repository(Path(top), traces, paths, own)
        if any((folder / ".git").exists() for folder in (project, *project.absolute().parents)):
            ask_git(project, "rev-parse", "--show-toplevel")  # raises: git refuses the repository, and says why
        return GitTraces()
    except StorageFailure as error:
        unasked = Degradation(
            failure_mode=error.message,
            fallback_mode="its history was not searched",
            confidence_impact="nothing is known of what git still has",
            retry_recommendation="Make git run here, or search with `git log --all -p`.",
        )
        return GitTraces(degradation=unasked)


def _search_repository(top: Path, traces: Traces, paths: Sequence[Path], own: Collection[Path]) -> GitTraces:
    top, files = top.resolve(), list[GitPlace]()
    objects, found = _search_objects(top, traces)
    for path in (path.resolve() for path in paths if path.resolve().is_relative_to(top)):
        name = path.relative_to(top).as_posix()
        if commit := ask_git(top, "log", "--all", "-1", "--format=%H", "--", f":(top,literal){name}").strip():
            files.append(GitPlace(kind="file", commit=commit, path=name))
    refs = ask_git(top, "for-each-ref", "--format=%(refname)").splitlines()
    git_files, unsearched = _search_own_files(top, traces, own)
    places = [_locate_object(top, name, kind) for name, kind in found[:MOST_PLACES]] + files
    places += [GitPlace(kind="ref", path=name) for name in refs if traces.count(name.encode())]
    places += [GitPlace(kind="file of git", path=name) for name in git_files]
    is_past = bool(places)  # what the commands are for
    changed = ("ls-files", "-z", "--others", "--modified", "--deduplicate", "--exclude-standard")
    for name in filter(None, ask_git(top, *changed).split("\0")):
        with storage_errors("read", top / name):
            if (top / name).is_file() and traces.count(os.fsencode(name)) + traces.count((top / name).read_bytes()):
                places.append(GitPlace(kind="file not committed", path=replace_undecodable(name)))
    gone = " ".join(f"--path {shlex.quote(place.path)}" for place in files)
    commands = (
        *((f"git filter-repo --force --invert-paths {gone}",) if files else ()),
        *(_REPLACE_TEXT if found and not files else ()),
        *_FORGET,
    )
    return GitTraces(
        objects=objects,
        found=max(len(found) - MOST_PLACES, 0) + len(places),
        places=tuple(replace(each, path=traces.mask(each.path)) for each in places),
        commands=commands if is_past else (),
        stays=_LEFTOVERS if is_past else (),
        unsearched=tuple(map(traces.mask, unsearched)),
    )


def _search_objects(top: Path, traces: Traces) -> tuple[int, list[tuple[str, str]]]:
    """(objects read; name and kind of those that contain it)."""
    command = ["git", "-C", str(top), "cat-file", "--batch", "--batch-all-objects", "--unordered"]
    known, pipe, nobody = environment_for_git(), subprocess.PIPE, subprocess.DEVNULL
    objects, found = 0, list[tuple[str, str]]()
    with storage_errors("ask git in", top), subprocess.Popen(command, stdout=pipe, stderr=nobody, env=known) as process:
        clock = threading.Timer(SEARCH_S, process.kill)
        clock.start()
        try:
            # A line of name, kind and size, the content, a line end.
            while (stream := process.stdout) and len(head := stream.readline().decode().split()) == 3:
                objects += 1
                if traces.count(stream.read(int(head[2]) + 1)[:-1]):
                    found.append((head[0], head[1]))
        finally:
            clock.cancel()
    if process.returncode:
        raise StorageFailure(f"git could not be asked: it ended with {process.returncode} after {objects} objects.")
    return objects, found


def _locate_object(top: Path, name: str, kind: str) -> GitPlace:
    if kind == "commit":
        return GitPlace(object=name, kind=kind, commit=name)
    output = ask_git(top, "log", "--all", "-1", f"--find-object={name}", "--format=%H", "--name-only", "-m", "-t", "-z")
    commit, _, rest = output.partition("\0")
    return GitPlace(object=name, kind=kind, commit=commit.strip(), path=rest.strip("\0\n").partition("\0")[0])


def _search_own_files(top: Path, traces: Traces, own: Collection[Path]) -> tuple[list[str], list[str]]:
    """(git's logs, settings and message drafts that contain it; stores that were not searched)."""
    folder = (top / ask_git(top, "rev-parse", "--git-common-dir").strip()).resolve()
    found = []
    with storage_errors("look into", folder):
        memories = (each for each in (folder / "scrimshaw").glob("*/") if each not in own)  # of other projects
        unsearched = [str(path) for path in (*(folder / name for name in _OTHERS), *memories) if path.exists()]
        for where, inside, names in os.walk(folder):
            if Path(where) == folder:
                inside[:] = [name for name in inside if name not in (*_SEARCHED, *_OTHERS)]
                names = [name for name in names if name not in _SEARCHED]
            for path in sorted(Path(where, name) for name in names):
                name = path.relative_to(folder).as_posix()
                if path.is_file() and (traces.count(os.fsencode(name)) or traces.count(path.read_bytes())):
                    found.append(name)
    return found, unsearched
