"""The commands that take a text out of a repository's history, for its owner to run; they never show the text.

Where it is needed they read it from FILE_WITH_THE_SECRET, one line in a file that only its owner may read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from msgspec import Struct

from scrimshaw.models import PURGED

FILE = "FILE_WITH_THE_SECRET"
_KEPT = "../purged-today.tar"
# Filters run in a folder of their own.
_WITH_FILE = f'SECRET_FILE="$(cd "$(dirname {FILE})" && pwd)/$(basename {FILE})"'
# Written anew by git when it needs them.
_SCRATCH = ("COMMIT_EDITMSG", "MERGE_MSG", "SQUASH_MSG", "TAG_EDITMSG", "NOTES_EDITMSG", "FETCH_HEAD", "ORIG_HEAD")
_LOGS = "logs/"
_INDEX = "index"
# awk knows no other way to replace a text that is no expression.
_MESSAGES = (
    """awk 'BEGIN { getline s < ENVIRON["SECRET_FILE"]; sub(/\\r$/, "", s) } { r = $0; o = ""; """
    """while (s != "" && (i = index(r, s))) { o = o substr(r, 1, i - 1) "MARKER"; r = substr(r, i + length(s)) } """
    """print o r }'"""
).replace("MARKER", PURGED)


class Found(Struct, frozen=True, kw_only=True):
    """Where it stands in a repository; no path or name here holds it, those that do are told by a bool.

    `files` shall go as a whole; `paths` hold it in some commit, `today` are those that there are now; `tags` hold it in
    their message, `refs` are the kinds of refs whose names do, `own` files of git's own.
    """

    files: tuple[str, ...]
    paths: tuple[str, ...]
    today: tuple[str, ...]
    is_in_names: bool
    is_in_messages: bool
    is_in_people: bool
    tags: tuple[str, ...]
    refs: frozenset[str]
    own: tuple[str, ...]
    is_in_own_names: bool
    has_more: bool
    has_stash: bool
    has_work_trees: bool
    has_filter_repo: bool


def told(found: Found) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(commands to be run in order, what they leave)."""
    history = _filter_repo(found) if found.has_filter_repo else _filter_branch(found)
    commands = (
        *_renames(found),
        *history,
        *_own(found),
        "git reflog expire --expire=now --expire-unreachable=now --all",
        "git gc --prune=now --aggressive",
        "git push --force --all && git push --force --tags",
    )
    return commands, tuple(_stays(found))


def _renames(found: Found) -> Iterator[str]:
    """Names first, since every later step shows them."""
    if "branch" in found.refs:
        rename = 'git branch -m "$name" "purged-branch-$number"'
        yield f"number=0; {_named('refs/heads')} | while read -r name; do number=$((number + 1)); {rename}; done"
    if "tag name" in found.refs:
        yield f'{_named("refs/tags")} | while read -r name; do git tag -d "$name"; done'
    if "ref" in found.refs:
        rest = (
            f"git for-each-ref --format='%(refname)' | grep -v -e '^refs/heads/' -e '^refs/tags/' | grep -F -f {FILE}"
        )
        yield f'{rest} | while read -r name; do git update-ref -d "$name"; done'
    for tag in found.tags:
        yield f"git tag -d {shlex.quote(tag)}"


def _named(refs: str) -> str:
    return f"git for-each-ref --format='%(refname:strip=2)' {refs} | grep -F -f {FILE}"


def _filter_repo(found: Found) -> tuple[str, ...]:
    """Out of all files by a list of texts that only its owner may read, or whole files."""
    if found.files:
        return (f"git filter-repo --force --invert-paths {' '.join(f'--path {shlex.quote(n)}' for n in found.files)}",)
    if not (found.paths or found.is_in_messages or found.is_in_names):
        return ()
    steps = [
        f"(umask 077; printf 'literal:%s==>{PURGED}\\n' \"$(cat {FILE})\" > replacements.txt)",
        "git filter-repo --force --replace-text replacements.txt --replace-message replacements.txt",
        "rm replacements.txt",
    ]
    if found.is_in_names:
        callback = (
            "import os; s = open(os.environ['SECRET_FILE'], 'rb').readline().strip();"
            " return filename.replace(s, b'redacted-purged')"
        )
        steps.append(f"{_WITH_FILE} git filter-repo --force --filename-callback {shlex.quote(callback)}")
    return tuple(steps)


def _filter_branch(found: Found) -> tuple[str, ...]:
    """Whole files out of all commits, those of today put back, and the text out of the messages."""
    filters = []
    removals = []
    if found.paths:
        removals.append(f"git rm -r -q --cached --ignore-unmatch -- {' '.join(map(shlex.quote, found.paths))}")
    if found.is_in_names:
        listed = 'git -c core.quotePath=false ls-files | grep -F -f "$SECRET_FILE"'
        removals.append(f"{listed} | git update-index --force-remove --stdin")
    if removals:
        filters.append(f"--index-filter {shlex.quote('; '.join(removals))}")
    if found.is_in_messages:
        filters.append(f"--msg-filter {shlex.quote(_MESSAGES)}")
    if not filters:
        return ()
    today = " ".join(map(shlex.quote, found.today))
    keep = (f"tar -cf {_KEPT} {today}",) if today else ()
    back = (f"tar -xf {_KEPT} && git add {today} && git commit -m 'Without what was purged'",) if today else ()
    needs_file = found.is_in_messages or found.is_in_names
    return (
        *keep,
        f"{_WITH_FILE + ' ' if needs_file else ''}git filter-branch --force {' '.join(filters)}"
        " --tag-name-filter cat -- --all",
        "git for-each-ref --format='delete %(refname)' refs/original | git update-ref --stdin",
        *back,
    )


def _own(found: Found) -> Iterator[str]:
    names = " ".join(name for name in found.own if name in _SCRATCH)
    if names:
        yield f'(cd "$(git rev-parse --git-common-dir)" && rm -f {names})'


def _stays(found: Found) -> Iterator[str]:
    others = [n for n in found.own if n not in _SCRATCH and n != _INDEX and not n.startswith(_LOGS)]
    cases = (
        (others, f"in the folder of git: {', '.join(others)}; edit or remove it yourself"),
        (found.is_in_own_names, "names of files in the folder of git; look for them when the commands are done"),
        (
            found.is_in_people,
            "the head of commits, such as the name or address of who made them; see `git filter-branch --env-filter`",
        ),
        (
            found.tags or "tag name" in found.refs,
            "tags that go: make them anew, and delete them where they were pushed",
        ),
        ({"branch", "ref"} & found.refs, "branches and refs where they were pushed under their old names; delete them"),
        (
            found.is_in_names and not found.has_filter_repo,
            "files whose name holds it, which go from the work tree as well: rename and commit them first",
        ),
        (found.has_stash, "older stashes, which go with the reflog: apply what you need before"),
        (
            found.has_work_trees,
            "what other work trees of this repository have checked out: remove them before with `git worktree remove`",
        ),
        (found.has_more, "objects beyond those placed above"),
    )
    yield from (text for holds, text in cases if holds)
    yield "a text over several lines, or in another form than in the file: search again when the commands are done"
