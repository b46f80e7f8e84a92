"""Keeps the copies at a peer in step with the files: one way, by name and hash, never by similarity."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine import Engine
from scrimshaw.errors import PeerFailed, PeerRefused
from scrimshaw.router.copies import CopyRecord, CopyStore, IdMap, MemoryCopy
from scrimshaw.storage.sync import compare_files

WORKERS = 4  # concurrent calls
FEW = 10  # so many copies may be retired without a question
GONE, TWICE = "Its memory was deleted, renamed, deprecated or made private.", "There were two copies of it."
CHANGED = "Its memory was changed, and another copy takes its place."

Notice = Callable[[int, int], None]  # gets how many, and of how many


class Step(Struct, frozen=True, kw_only=True):
    """One change at a peer; `replace` retires a copy and makes it again, if the peer has no update."""

    action: Literal["create", "update", "rename", "replace", "retire"]
    name: str
    peer_id: str = ""
    former_name: str = ""  #: of a rename
    reason: str = ""  #: why the copy is retired, or why the step failed


class PeerSync(Struct, frozen=True, kw_only=True):
    """The result of a sync, or of a dry run."""

    peer: str
    is_full: bool
    dry_run: bool
    in_sync: int
    steps: tuple[Step, ...]  #: what was done
    failed: tuple[Step, ...] = ()  #: what the peer refused
    left: int | None = 0  #: number of changes that were not tried; None if the peer did not list what it has
    fault: str = ""  #: why the sync ended early
    exit_code: int = 0


class Freshness(Struct, frozen=True, kw_only=True):
    """How copies or an index compare with the files: `stale` ones differ, `orphaned` ones have no memory any more."""

    name: str
    in_sync: int = 0
    stale: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    orphaned: tuple[str, ...] = ()
    fault: str = ""  #: why it could not be compared
    exit_code: int = 0

    @property
    def drift(self) -> float:
        """The share of names that are not in sync, 0..1."""
        apart = len(self.stale) + len(self.missing) + len(self.orphaned)
        return apart / max(1, apart + self.in_sync)


def sync_copies(
    name: str,
    store: CopyStore,
    wanted: Mapping[str, MemoryCopy],
    known: IdMap,
    *,
    full: bool = False,
    dry_run: bool = False,
    advance: Notice = lambda done, total: None,
    approve: Notice = lambda retired, total: None,
) -> PeerSync:
    """Bring the copies at a peer in sync with the wanted ones.

    `approve` is called before more than a FEW copies and more than half of all are retired, and may raise.
    The result says what ended a sync early. Raises StorageFailure if the id map cannot be written.
    """
    full = full or known.is_open
    done = PeerSync(peer=name, is_full=full, dry_run=dry_run, in_sync=0, steps=())
    try:
        listed = store.list_copies() if full else None
    except PeerFailed as error:
        return replace(done, left=None, fault=str(error), exit_code=error.exit_code)
    copies, in_sync, steps = plan_sync(store, wanted, known.copies, listed)
    done = replace(done, in_sync=in_sync, steps=steps)
    if dry_run or (not steps and not known.is_open and copies == known.copies):
        return done
    retired = sum(step.action == "retire" for step in steps)
    if retired > max(FEW, len(copies) // 2):
        approve(retired, len(copies))
    known.copies, known.is_open = copies, True
    known.write()
    try:
        done = _take_steps(done, store, wanted, copies, advance)
        known.is_open = done.exit_code > 0
    finally:  # even if the user interrupted it
        known.write()
    return done


def plan_sync(
    store: CopyStore,
    wanted: Mapping[str, MemoryCopy],
    known: Mapping[str, CopyRecord],
    listed: Sequence[tuple[str, CopyRecord]] | None,
) -> tuple[dict[str, CopyRecord], int, tuple[Step, ...]]:
    """(the copies known or `listed` by the peer, how many are as wanted, the changes that bring the rest in sync)."""
    copies, surplus = (dict(known), list[Step]()) if listed is None else _match_listed(known, listed)
    missing = [name for name in wanted if name not in copies]
    stale = [name for name in wanted if name in copies and not is_same(wanted[name], copies[name])]
    gone = [name for name in copies if name not in wanted]
    steps, by_text = list[Step](), dict[str, list[str]]()
    if store.can_rename:
        for name in gone:
            by_text.setdefault(copies[name].text_hash, []).append(name)
    for name in missing:
        if former := by_text.get(wanted[name].text_hash):
            old = former.pop()
            gone.remove(old)
            steps.append(Step(action="rename", name=name, peer_id=copies[old].peer_id, former_name=old))
        else:
            steps.append(Step(action="create", name=name))
    change: Literal["update", "replace"] = "update" if store.can_update else "replace"
    why = "" if store.can_update else CHANGED
    steps += (Step(action=change, name=name, peer_id=copies[name].peer_id, reason=why) for name in stale)
    steps += (Step(action="retire", name=name, peer_id=copies[name].peer_id, reason=GONE) for name in gone)
    return copies, len(wanted) - len(missing) - len(stale), (*surplus, *steps)


def is_same(memory: MemoryCopy, copy: CopyRecord) -> bool:
    """Whether a copy has this memory's current content."""
    return memory.text_hash == copy.text_hash and copy.digest in ("", memory.digest)


def compare_copies(name: str, store: CopyStore, wanted: Mapping[str, MemoryCopy]) -> Freshness:
    """The peer's list compared with the wanted copies; duplicates count as orphaned."""
    try:
        copies, surplus = _match_listed({}, store.list_copies())
    except PeerFailed as error:
        return Freshness(name=name, fault=str(error), exit_code=error.exit_code)
    there = [each for each in copies if each in wanted]
    stale = tuple(each for each in there if not is_same(wanted[each], copies[each]))
    missing = tuple(each for each in wanted if each not in copies)
    orphaned = (*(each for each in copies if each not in wanted), *(step.name for step in surplus))
    code = int(bool(stale or missing or orphaned))
    in_sync = len(there) - len(stale)
    return Freshness(name=name, in_sync=in_sync, stale=stale, missing=missing, orphaned=orphaned, exit_code=code)


def compare_index(engine: Engine) -> Freshness:
    """The index compared with the files, which are all read."""
    found = compare_files(engine.index, engine.sources, engine.settings.index.max_file_bytes)
    fresh, stale, missing, orphaned = (tuple(found[kind]) for kind in ("fresh", "stale", "missing", "orphaned"))
    code = int(bool(stale or missing or orphaned))
    return Freshness(name="index", in_sync=len(fresh), stale=stale, missing=missing, orphaned=orphaned, exit_code=code)


def _match_listed(
    known: Mapping[str, CopyRecord], listed: Iterable[tuple[str, CopyRecord]]
) -> tuple[dict[str, CopyRecord], list[Step]]:
    """The copies that a peer lists, and steps to retire duplicates; a known one stays."""
    ids = {copy.peer_id for copy in known.values()}
    copies, surplus = dict[str, CopyRecord](), list[Step]()
    for name, copy in sorted(listed, key=lambda each: each[1].peer_id not in ids):
        if name in copies:
            surplus.append(Step(action="retire", name=name, peer_id=copy.peer_id, reason=TWICE))
        else:
            noted = known.get(name)
            is_noted = noted and (noted.peer_id, noted.text_hash) == (copy.peer_id, copy.text_hash)
            copies[name] = noted if noted and is_noted else copy
    return copies, surplus


def _take_steps(
    plan: PeerSync, store: CopyStore, wanted: Mapping[str, MemoryCopy], copies: dict[str, CopyRecord], advance: Notice
) -> PeerSync:
    """Take all steps, several at once, until the peer does not answer; `copies` follows what it has acknowledged."""
    ended, lost, done, failed = threading.Event(), list[PeerFailed](), list[Step](), list[Step]()

    def take(step: Step) -> None:
        if ended.is_set():
            return
        try:
            for name, copy in take_step(store, step, wanted.get(step.name)):
                copies.pop(name, None)
                if copy:
                    copies[name] = copy
            done.append(step)
        except PeerRefused as error:
            failed.append(replace(step, reason=str(error)))
        except PeerFailed as error:
            lost.append(error)
            ended.set()

    with ThreadPoolExecutor(WORKERS) as pool:
        try:
            for number, _ in enumerate(pool.map(take, plan.steps), start=1):
                advance(number, len(plan.steps))
        finally:  # even if the user interrupted it
            ended.set()
    code = lost[0].exit_code if lost else int(bool(failed))
    left = len(plan.steps) - len(done) - len(failed)
    fault = str(lost[0]) if lost else ""
    return replace(plan, steps=tuple(done), failed=tuple(failed), left=left, fault=fault, exit_code=code)


def take_step(store: CopyStore, step: Step, memory: MemoryCopy | None) -> Iterator[tuple[str, CopyRecord | None]]:
    """Make one change, and report each copy's new state after each answer of the peer; raises PeerFailed."""
    peer_id = step.peer_id
    if step.action in ("replace", "retire"):
        store.retire(peer_id, step.reason)
        if step.reason != TWICE:
            yield step.name, None
    if memory is None or step.action == "retire":
        return
    if step.action in ("create", "replace"):
        peer_id = store.create(memory)
    else:
        store.update(peer_id, memory)
    yield step.name, CopyRecord(peer_id=peer_id, digest=memory.digest, text_hash=memory.text_hash)
    if step.former_name:
        yield step.former_name, None
