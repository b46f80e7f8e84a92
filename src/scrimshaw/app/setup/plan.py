"""From edits to changes of files: worked out first, shown, then written."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from scrimshaw.app.setup.edits import Edit
from scrimshaw.errors import ConfigError, Conflict
from scrimshaw.storage.durable import remove_file, replace_file, storage_errors

BACKUP = ".before-scrimshaw"


class Change(Struct, frozen=True, kw_only=True):
    """A file below `root` as it is and as it shall be; None where there is no file.

    `keep` asks for a copy of what it was. `is_original` says that it becomes what its copy says; the copy goes then.
    """

    root: Path
    path: Path
    before: str | None
    after: str | None
    is_executable: bool = False
    keep: bool = False
    is_original: bool = False

    @property
    def action(self) -> str:
        """What happens to the file: create, change or remove."""
        if self.before is None:
            return "create"
        return "remove" if self.after is None else "change"

    def diff(self) -> str:
        """The change as a unified diff."""
        sides = [(self.before, f"{self.path}"), (self.after, f"{self.path}")]
        (old, old_name), (new, new_name) = [(text or "", "/dev/null" if text is None else name) for text, name in sides]
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="")
        return "\n".join(lines)


def additions(edits: Iterable[Edit], root: Path) -> Iterator[Change]:
    """The changes that put our part into files; none for a file that has it. Raises ConfigError, Conflict."""
    for edit in edits:
        before = read(edit.path)
        after = edit.added(before or "")
        if after != before:
            keep = edit.is_shared and before is not None and _is_first(edit, before)
            executable = edit.is_executable
            yield Change(root=root, path=edit.path, before=before, after=after, is_executable=executable, keep=keep)


def removals(edits: Iterable[Edit], root: Path) -> Iterator[Change]:
    """The changes that take our part out of files: to the byte as they were, if nothing else changed since."""
    for edit in edits:
        before = read(edit.path)
        if before is None or (rest := edit.removed(before)) == before:
            continue
        original = read(backup_of(edit.path))
        if original is not None and _is_origin(edit, original, rest):
            yield Change(root=root, path=edit.path, before=before, after=original, is_original=True)
        else:
            after = None if original is None and edit.is_bare(rest) else rest
            yield Change(root=root, path=edit.path, before=before, after=after)


def write(change: Change) -> None:
    """Make a change; folders that a removal empties go too. Raises Conflict, StorageFailure."""
    if read(change.path) != change.before:
        raise Conflict(f"{change.path} was changed meanwhile.", "Run the same command again.")
    with storage_errors("write", change.path):
        if change.after is None:
            remove_file(change.path, change.root)
            return
        if change.keep:
            shutil.copy2(change.path, backup_of(change.path))
        target = change.path.resolve()  # a link to the file stays a link
        replace_file(target, change.after.encode())
        if change.is_executable:
            target.chmod(0o755)
        if change.is_original:
            backup_of(change.path).unlink()


def read(path: Path) -> str | None:
    """A file's text with its own line ends, None where there is no file; raises ConfigError, StorageFailure."""
    with storage_errors("read", path):
        try:
            return path.read_bytes().decode()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not UTF-8.", "Correct it, then run setup again.") from error


def backup_of(path: Path) -> Path:
    """Where the copy of a file is that was made before our part came in."""
    return path.with_name(path.name + BACKUP)


def _is_first(edit: Edit, before: str) -> bool:
    """Whether our part is not in the file yet, or was put there by other means than setup."""
    return edit.removed(before) == before or not backup_of(edit.path).exists()


def _is_origin(edit: Edit, original: str, rest: str) -> bool:
    """Whether the copy differs from the file by our part alone."""
    try:
        return edit.removed(original) == original and edit.is_same(edit.removed(edit.added(original)), rest)
    except (ConfigError, Conflict):
        return False
