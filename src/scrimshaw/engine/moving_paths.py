"""Following files that moved: references of memories to old places become references to the new ones."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from functools import partial
from pathlib import Path

from msgspec import Struct

from scrimshaw.engine.core import Engine
from scrimshaw.engine.linting import ProjectFiles, project_files
from scrimshaw.engine.write import rewrite
from scrimshaw.errors import InvalidRequest, UnreadableFile
from scrimshaw.ingest.memory_file import MemoryFile, decode_text, parse_memory_file
from scrimshaw.ingest.references import Reference, Rename, moved, references, renamed, rewritten
from scrimshaw.models import Action, Entry, Filters, Memory
from scrimshaw.storage.git import moved_files

_SHOWN_RENAMES = 3


class Repair(Struct, frozen=True, kw_only=True):
    """What renames make of one memory: the stale paths with their new names, each once, and the change as a diff."""

    id: str
    path: str
    paths: tuple[Rename, ...]
    diff: str


def rename_of(text: str) -> Rename:
    """`OLD=NEW` as a rename, without slashes at the ends; NEW may be empty. Raises InvalidRequest."""
    old, equals, new = (part.strip() for part in text.replace("\\", "/").partition("="))
    old, new = old.removeprefix("./").rstrip("/"), new.removeprefix("./").rstrip("/")
    if not equals or not old or old == new:
        raise InvalidRequest(f"{text!r} is no rename.", "Write OLD=NEW, such as specs=.opencode/specs.")
    return old, new


def planned(engine: Engine, renames: Sequence[Rename]) -> list[Repair]:
    """What the renames would change in the memories of the project's own vault, by id; nothing is written.

    Only stale references follow a rename: one that still leads somewhere stays, and so does one already renamed.
    """
    known = project_files(engine.settings)
    repairs = [_planned(memory, known, renames) for memory in _own(engine)]
    return [repair for repair in repairs if repair is not None]


def worth_following(engine: Engine) -> list[Rename]:
    """The renames in git's history, oldest first, that a stale reference would follow to a file that is there.

    Raises StorageFailure where git is missing or the project is in no repository.
    """
    renames = list(dict.fromkeys(folder_rename(old, new) for old, new in moved_files(engine.settings.project)))
    known = project_files(engine.settings)
    useful: dict[Rename, None] = {}
    for memory in _own(engine):
        for reference in _stale(memory, known):
            useful |= dict.fromkeys(_steps(reference.path, renames, known))
    return [rename for rename in renames if rename in useful]


def folder_rename(old: str, new: str) -> Rename:
    """The rename of a file as that of the folders in front of what both paths end in."""
    olds, news = old.split("/"), new.split("/")
    while len(olds) > 1 and len(news) > 1 and olds[-1] == news[-1]:
        del olds[-1], news[-1]
    return "/".join(olds), "/".join(news)


def apply(engine: Engine, repairs: Sequence[Repair], renames: Sequence[Rename], *, actor: str) -> list[Memory]:
    """Rewrite the references in the memories of `repairs`: recorded, the text before kept for undo.

    Each file is read again under the lock. Raises like `writing.update`; what was rewritten until then stays.
    """
    known = project_files(engine.settings)
    changed = []
    for repair in repairs:
        entry = Entry(
            action=Action.UPDATE,
            memory_id=repair.id,
            reason=f"paths renamed: {_summary(renames)}",
            prior_hash="",
            new_hash="",
            actor=actor,
        )
        change = partial(_rewritten, path=Path(repair.path), known=known, renames=renames)
        memory, _ = rewrite(engine, repair.id, change, entry)
        changed.append(memory)
    return changed


def _own(engine: Engine) -> list[Memory]:
    """The writable memories of the project: those of the user's own vault speak of other projects too."""
    every = engine.index.select(
        Filters(source=engine.sources[0].name, include_deprecated=True), sort="id", limit=-1, offset=0
    )
    return [memory for memory in every if memory.writable]


def _steps(path: str, renames: Sequence[Rename], known: ProjectFiles) -> list[Rename]:
    """The renames that bring a path to a file that is there; none where they lead nowhere either."""
    taken = []
    for rename in renames:
        after = renamed(path, [rename])
        if after != path:
            path = after
            taken.append(rename)
    return taken if known.exists(path) else []


def _stale(memory: Memory, known: ProjectFiles) -> Sequence[Reference]:
    try:
        text = decode_text(Path(memory.path).read_bytes(), memory.path)
    except (OSError, UnreadableFile):
        return ()
    return known.stale(references(text), Path(memory.path))


def _planned(memory: Memory, known: ProjectFiles, renames: Sequence[Rename]) -> Repair | None:
    path = Path(memory.path)
    try:
        before = decode_text(path.read_bytes(), memory.path)
    except (OSError, UnreadableFile):
        return None  # lint names it
    changes = _changes(before, path, known, renames)
    if not changes:
        return None
    after, paths = rewritten(before, changes), dict.fromkeys((one.path, new) for one, new in changes)
    name = path.relative_to(known.project).as_posix() if path.is_relative_to(known.project) else path.name
    lines = unified_diff(before.splitlines(), after.splitlines(), f"a/{name}", f"b/{name}", n=0, lineterm="")
    return Repair(id=memory.id, path=memory.path, paths=tuple(paths), diff="\n".join(lines))


def _rewritten(file: MemoryFile, path: Path, known: ProjectFiles, renames: Sequence[Rename]) -> MemoryFile:
    return parse_memory_file(rewritten(file.text, _changes(file.text, path, known, renames)))


def _changes(text: str, path: Path, known: ProjectFiles, renames: Sequence[Rename]) -> list[tuple[Reference, str]]:
    """The stale references of a file that the renames change, each with its new path."""
    folder = path.parent.relative_to(known.project).as_posix() if path.is_relative_to(known.project) else ""
    new = ((one, moved(one, folder, renames)) for one in known.stale(references(text), path))
    return [(one, target) for one, target in new if target != one.path]


def _summary(renames: Sequence[Rename]) -> str:
    shown = ", ".join(f"{old} -> {new or '.'}" for old, new in renames[:_SHOWN_RENAMES])
    return f"{shown} and {len(renames) - _SHOWN_RENAMES} more" if len(renames) > _SHOWN_RENAMES else shown
