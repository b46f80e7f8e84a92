"""A process that works until it is killed, and reports each step: python -m scrimshaw_lab.proving.writer ORDER"""

import dataclasses
import hashlib
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from scrimshaw.config import Settings, load
from scrimshaw.engine import checkpoints, history, index, links, open_engine, restore, sessions, write
from scrimshaw.engine.core import Engine
from scrimshaw.engine.read import search
from scrimshaw.errors import Conflict, DamagedDatabase, ScrimshawError
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EventKind, Filters, ItemKind, NewItem, Observation, Relation, content_hash
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.durable import replace_file
from scrimshaw_lab.proving.faults import Recorder, install_fault, install_points, move_ground, stop_at
from scrimshaw_lab.proving.plan import Ack, Fault, Intent, Message, Operation, Order, Point, Ready, Refused, Role, line

# Memories that every writer changes.
SHARED = ("shared/first", "shared/second", "shared/third")
JOB = "proof"

_LONGEST = 400
_LINES = (
    "The lock is taken before the file is read, since a reader that comes later would see the older text.",
    "Measured on two machines: the second run was slower, and nobody has looked at why.",
    "Open question: does the queue drain when the worker is stopped while a job is running?",
    "The migration adds a column and fills it in the same transaction.",
)


@dataclass
class Desk:
    """The state of a process: its open memory, its own memories, and its last change, which may be undone."""

    engine: Engine
    name: str
    role: Role
    chance: Random
    own: list[str] = field(default_factory=list)
    last: tuple[int, str] | None = None
    checkpoint: str = ""
    kept: dict[str, str] = field(default_factory=dict)  #: the hashes of its own memories in that checkpoint

    def path(self, memory_id: str) -> Path:
        """The file of a memory."""
        vault, inside = self.engine.vault_of(memory_id)
        return vault.root / f"{inside}.md"


class Planned(NamedTuple):
    """An intent, and the function that carries it out."""

    intent: Intent
    act: Callable[[], Ack]


Plan = Callable[[Desk, str], Planned | None]


def next_plan(desk: Desk, token: str) -> Planned:
    """The next random operation of a process; one that is not possible yet becomes a save."""
    plan = desk.chance.choices(*_PLANS[desk.role])[0]
    if not desk.own and plan in (_update, _delete, _link, _edit):
        plan = _save
    return plan(desk, token) or _save(desk, token)


def own_memories(engine: Engine, name: str) -> list[str]:
    """The ids of the memories that a process of this name wrote."""
    found = engine.index.select(Filters(folder=name, include_deprecated=True))
    return [memory.id for memory in found]


def body_hash(body: str) -> str:
    """SHA-256 of a body."""
    return hashlib.sha256(body.encode()).hexdigest()


def _text(desk: Desk, token: str) -> str:
    lines = desk.chance.choices(_LINES, k=int(_LONGEST ** desk.chance.random()))
    return f"# What {token} says\n\n" + "\n".join(f"{line} {token}" for line in lines) + "\n"


def _ack(desk: Desk, token: str, memory_id: str, digest: str) -> Ack:
    """The acknowledgement, with the number of the memory's newest ledger row."""
    row = desk.engine.journal.history(memory_id, 1)[0]
    desk.last = (int(row["seq"]), memory_id)
    return Ack(token=token, hash=digest, number=int(row["seq"]))


def _save(desk: Desk, token: str) -> Planned:
    memory_id, body = f"{desk.name}/{token}", _text(desk, token)

    def act() -> Ack:
        new = write.NewText(content=body, id=memory_id, session=token, topics=("proof",))
        saved = write.save(desk.engine, new, force=True)
        desk.own.append(memory_id)
        return _ack(desk, token, memory_id, saved.content_hash)

    return Planned(Intent(token=token, operation=Operation.SAVE, id=memory_id, body=body_hash(body)), act)


def _update(desk: Desk, token: str) -> Planned:
    return _updated(desk, token, desk.chance.choice(desk.own))


def _update_shared(desk: Desk, token: str) -> Planned:
    return _updated(desk, token, desk.chance.choice(SHARED))


def _updated(desk: Desk, token: str, memory_id: str) -> Planned:
    body = _text(desk, token)

    def act() -> Ack:
        done = write.update(desk.engine, memory_id, {}, content=body, session=token)
        row = desk.engine.journal.history(memory_id, 1, session=token)[0]
        desk.last = None if memory_id in SHARED else (int(row["seq"]), memory_id)
        return Ack(token=token, hash=done.content_hash, number=int(row["seq"]))

    return Planned(Intent(token=token, operation=Operation.UPDATE, id=memory_id, body=body_hash(body)), act)


def _delete(desk: Desk, token: str) -> Planned:
    memory_id = desk.chance.choice(desk.own)

    def act() -> Ack:
        write.delete(desk.engine, [memory_id], session=token)
        desk.own.remove(memory_id)
        return _ack(desk, token, memory_id, "")

    return Planned(Intent(token=token, operation=Operation.DELETE, id=memory_id, exact=""), act)


def _link(desk: Desk, token: str) -> Planned:
    memory_id, target = desk.chance.choice(desk.own), desk.chance.choice(SHARED)
    body = body_hash(parse_memory_file(desk.path(memory_id).read_bytes()).body)

    def act() -> Ack:
        links.link(desk.engine, memory_id, target, Relation.SUPPORTS, 0.5, token, session=token)
        return _ack(desk, token, memory_id, _hash(desk, memory_id))

    return Planned(Intent(token=token, operation=Operation.LINK, id=memory_id, body=body), act)


def _edit(desk: Desk, token: str) -> Planned:
    """Change a file as a careful editor does, and scan."""
    memory_id = desk.chance.choice(desk.own)
    body = _text(desk, token)
    data = f"---\ntitle: By hand {token}\n---\n{body}".encode()

    def act() -> Ack:
        replace_file(desk.path(memory_id), data)
        index.scan(desk.engine)
        return _ack(desk, token, memory_id, content_hash(data))

    return Planned(Intent(token=token, operation=Operation.EDIT, id=memory_id, exact=content_hash(data)), act)


def _undo(desk: Desk, token: str) -> Planned | None:
    """Undo the last change of this process, if the text before it is known."""
    if desk.last is None:
        return None
    entry, memory_id = desk.last
    row = desk.engine.journal.history(memory_id, 1)[0]
    prior = str(row["prior_hash"])
    if row["seq"] != entry or (prior and desk.engine.journal.prior_text(memory_id, prior) is None):
        return None

    def act() -> Ack:
        if not history.undo(desk.engine, entry=entry).undone:
            raise Conflict(f"Entry {entry} was not undone.")
        desk.own = own_memories(desk.engine, desk.name)
        return _ack(desk, token, memory_id, prior)

    return Planned(Intent(token=token, operation=Operation.UNDO, id=memory_id, exact=prior), act)


def _event(desk: Desk, token: str) -> Planned:
    seen = Observation(
        session=f"session-{desk.name}",
        kind=EventKind.TOOL,
        tool="Bash",
        call_id=token,
        text=redact(f"make test\n{token}"),
        item=NewItem(text=redact(f"tests failed: {token}"), kind=ItemKind.ERROR, attention=0.8),
    )

    return _plan_work(token, Operation.EVENT, partial(sessions.record_event, desk.engine, seen), seen.session)


def _job(desk: Desk, token: str) -> Planned:
    def act() -> Ack:
        return Ack(token=token, number=desk.engine.journal.enqueue(JOB, token, {"token": token}))

    return Planned(Intent(token=token, operation=Operation.JOB, id=token), act)


def _checkpoint(desk: Desk, token: str) -> Planned:
    def act() -> Ack:
        checkpoints.create(desk.engine, token)
        desk.checkpoint = token
        desk.kept = {name: _hash(desk, name) for name in desk.own if desk.path(name).exists()}
        return Ack(token=token)

    return Planned(Intent(token=token, operation=Operation.CHECKPOINT, id=token), act)


def _restore(desk: Desk, token: str) -> Planned | None:
    """Restore the only memory that was deleted since the checkpoint."""
    gone = [name for name in desk.kept if not desk.path(name).exists()]
    if len(gone) != 1:
        return None
    digest = desk.kept[gone[0]]

    def act() -> Ack:
        restore.restore(desk.engine, checkpoints.path_of(desk.engine, desk.checkpoint))
        desk.own.append(gone[0])
        return _ack(desk, token, gone[0], digest)

    return Planned(Intent(token=token, operation=Operation.RESTORE, id=gone[0], exact=digest), act)


def _scan(desk: Desk, token: str) -> Planned:
    return _plan_work(token, Operation.SCAN, partial(index.scan, desk.engine))


def _rebuild(desk: Desk, token: str) -> Planned:
    return _plan_work(token, Operation.REBUILD, partial(index.rebuild, desk.engine))


def _search(desk: Desk, token: str) -> Planned:
    request = SearchRequest(query=desk.chance.choice(_LINES))
    return _plan_work(token, Operation.SEARCH, partial(search, desk.engine, request))


def _plan_work(token: str, operation: Operation, work: Callable[[], object], subject: str = "") -> Planned:
    """An operation of which the acknowledgement says no more than that it is done."""

    def act() -> Ack:
        work()
        return Ack(token=token)

    return Planned(Intent(token=token, operation=operation, id=subject), act)


def _hash(desk: Desk, memory_id: str) -> str:
    return content_hash(desk.path(memory_id).read_bytes())


# What each role does, and its weight.
_PLANS: dict[Role, tuple[tuple[Plan, ...], tuple[int, ...]]] = {
    Role.WRITER: (
        (_save, _update, _update_shared, _delete, _link, _edit, _undo, _event, _job, _checkpoint, _scan, _rebuild),
        (26, 18, 8, 8, 10, 5, 6, 9, 3, 3, 2, 2),
    ),
    Role.ERASER: ((_save, _checkpoint, _delete, _undo, _restore), (25, 15, 25, 15, 20)),
    Role.READER: ((_search, _scan), (95, 5)),
    Role.HOOK: ((_event,), (100,)),
}


def say(message: Message) -> None:
    """Send a message to the prover at once."""
    sys.stdout.write(f"{line(message)}\n")
    sys.stdout.flush()


def main(order: Order) -> None:
    """Carry out an order."""
    chance = Random(order.seed)
    settings = load(Path(order.project), home=Path(order.home), environment={})
    if order.disk_log:
        Recorder(settings.project, Path(order.disk_log)).install()
    weather = install_fault(order.fault, chance, settings.folder / "memories")
    if order.fault != Fault.GROUND_MOVED:
        install_points(stop_at(order.point, order.passage, _stand_still))
    engine = dataclasses.replace(open_mended(settings, index.scan), clock=lambda: time.time())
    index.scan(engine)
    desk = Desk(engine, order.name, order.role, chance, own_memories(engine, order.name))
    if order.fault == Fault.GROUND_MOVED:
        install_points(stop_at(order.point, order.passage, partial(move_ground, settings.folder, chance)))
    say(Ready())
    with desk.engine:
        for number in range(order.operations):
            weather()
            _perform(desk, f"{order.prefix}x{number}")


def _perform(desk: Desk, token: str) -> None:
    try:
        planned = next_plan(desk, token)
        say(planned.intent)
        ack = planned.act()
    except ScrimshawError as error:
        say(Refused(token=token, code=error.code, message=error.message))
    except OSError as error:  # an edit by hand does not go through the engine
        say(Refused(token=token, code="os", message=str(error)))
    else:
        say(ack)


def open_mended(settings: Settings, is_sound: Callable[[Engine], object]) -> Engine:
    """Open the memory; a damaged index, which `is_sound` denies or stumbles over, is replaced, as its error advises."""
    try:
        engine = open_engine(settings)
    except DamagedDatabase as error:
        if Path(error.details["path"]).name != "index.db":
            raise
    else:
        with suppress(DamagedDatabase):
            if is_sound(engine):
                return engine
        engine.close()
    for path in settings.folder.glob("index.db*"):
        path.unlink(missing_ok=True)
    return open_engine(settings)


def _stand_still(name: str) -> None:
    """Wait to be killed; if the prover is gone, exit."""
    say(Point(name))
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Order))
