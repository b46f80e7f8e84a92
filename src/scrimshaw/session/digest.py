"""What others did to a project's memories since a given time, and who did it.

Others are authors whose address is not the one configured for git here, and owners of tokens that a server
wrote into the ledger. A commit counts from when it came into this checkout, not from when it was made.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import takewhile
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from scrimshaw.config import GLOBAL, MEMORIES, PROJECT_FOLDER, Settings
from scrimshaw.errors import StorageFailure
from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.ingest.invisible_characters import replace_invisible
from scrimshaw.ingest.memory_file import is_private_text
from scrimshaw.models import format_time
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.durable import read_if_there
from scrimshaw.storage.git import CommitAuthor, find_author, list_changed_files, read_before
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.place import find_arrivals
from scrimshaw.storage.scan import SERENA, SERENA_MEMORIES

SAVED, CHANGED, DELETED = "saved", "changed", "deleted"
MOST_NAMED = 4  # ids of a kind in a sentence
_VAULTS = {"": f"{PROJECT_FOLDER}/{MEMORIES}", SERENA: SERENA_MEMORIES}
_WHAT = {"A": SAVED, "D": DELETED}  # git's status letters; any other means a change


class OthersChange(Struct, frozen=True, kw_only=True):
    """A change of a memory, and who made it."""

    id: str
    what: str
    by: tuple[str, ...]
    at: str  #: ISO time of the last change


class _FileStep(NamedTuple):
    """One change of a file, by its path below the project."""

    path: str
    what: str
    by: str
    at: float
    read_last: Callable[[], str | None]  #: the last text of a deleted file


def list_others_changes(storage: Storage, settings: Settings, since: float) -> list[OthersChange]:
    """The memories that others saved, changed or deleted, newest first, except private ones; raises StorageFailure.

    Memories saved and deleted again are left out, as are those restored or deleted here.
    """
    own = find_author(settings.project)
    made = {f"{_VAULTS['']}/{each.memory_id}{SUFFIX}" for each in storage.sessions.records()}
    steps = [*list_committed(settings.project, since, own), *list_recorded(storage, since, own)]
    by_path = defaultdict[str, list[_FileStep]](list)
    for step in sorted(steps, key=attrgetter("at")):
        if step.what != SAVED or step.path not in made:  # somebody's commit may bring the memory of a session here
            by_path[step.path].append(step)
    found = list[OthersChange]()
    for path, each in by_path.items():
        raw, first, what = read_if_there(settings.project / path), each[0].what, each[-1].what
        if (raw is None) != (what == DELETED) or (first == SAVED and what == DELETED):  # reverted by them, or here
            continue
        if what != DELETED:
            what = SAVED if first == SAVED else CHANGED
        if may_be_told(path, raw, each[-1]):
            vault = next(vault for vault in _VAULTS.values() if path.startswith(f"{vault}/"))
            memory_id = path.removeprefix(f"{vault}/").removesuffix(SUFFIX)
            names = tuple(dict.fromkeys(map(attrgetter("by"), each)))
            found.append(OthersChange(id=memory_id, what=what, by=names, at=format_time(each[-1].at)))
    return sorted(found, key=attrgetter("at", "id"), reverse=True)


def describe_changes(changes: Iterable[OthersChange]) -> str:
    """The changes as one sentence: "Ana saved gate, quay on 2026-01-31; Bo deleted crane on 2026-01-30"."""
    ids = defaultdict[tuple[str, str], dict[str, list[str]]](lambda: defaultdict(list))
    for each in changes:
        ids[" and ".join(each.by), each.at[:10]][each.what].append(each.id)
    sentence = []
    for (names, day), kinds in ids.items():
        more = {what: f" and {len(some) - MOST_NAMED} more" * (len(some) > MOST_NAMED) for what, some in kinds.items()}
        parts = (f"{what} {', '.join(some[:MOST_NAMED])}{more[what]}" for what, some in kinds.items())
        sentence.append(f"{names} {', '.join(parts)} on {day}")
    return "; ".join(sentence)


def list_committed(project: Path, since: float, own: CommitAuthor) -> Iterator[_FileStep]:
    """The changes in commits of others that came into this checkout."""
    before, _ = find_arrivals(project, since)
    for each in list_changed_files(project, before, since, [*_VAULTS.values()]):
        is_own = own.includes(each.author.name) if each.author.is_of_server else each.author.address == own.address
        if each.path.endswith(SUFFIX) and not is_own:
            read = partial(read_before, project, each.commit, each.path)
            yield _FileStep(each.path, _WHAT.get(each.status, CHANGED), _show_name(each.author.name), each.at, read)


def list_recorded(storage: Storage, since: float, own: CommitAuthor) -> Iterator[_FileStep]:
    """The changes in this checkout that others made through a server."""
    for row in takewhile(lambda each: each["at"] >= since, storage.journal.history()):
        name, meta, person = row["memory_id"], row["decision_meta"], row["actor"].partition(":")[2]
        if name and person and not own.includes(person) and "file" not in meta and not name.startswith(GLOBAL):
            what = SAVED if not row["prior_hash"] else CHANGED if row["new_hash"] else DELETED
            read = partial(storage.journal.prior_text, name, row["prior_hash"])
            path = f"{_VAULTS[meta.get('vault', '')]}/{name}{SUFFIX}"
            yield _FileStep(path, what, _show_name(person), row["at"], read)


def _show_name(name: str) -> str:
    return "somebody" if is_suspicious(name) else replace_invisible(name)  # a name may speak to the agent


def may_be_told(path: str, raw: bytes | None, last: _FileStep) -> bool:
    """Whether a memory is neither private nor has a deceptive name; false if that is unknown."""
    if replace_invisible(path) != path or is_suspicious(path.replace("_", " ")):
        return False
    try:
        text = last.read_last() if raw is None else raw.decode(errors="replace")
        return not (text is None or is_private_text(text))
    except StorageFailure:
        return False
