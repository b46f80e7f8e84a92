"""What must be there after a round: what stood before it, what was acknowledged since, and what may have happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.models import content_hash
from scrimshaw_lab.proving.operations import body_hash
from scrimshaw_lab.proving.protocol import Ack, Intent, Message, Operation, Refused

OF_A_MEMORY = frozenset(
    {Operation.SAVE, Operation.UPDATE, Operation.DELETE, Operation.LINK, Operation.EDIT, Operation.UNDO}
)


@dataclass
class Account:
    """What a project holds for certain: hashes of files by id, and the events, jobs and checkpoints acknowledged."""

    files: dict[str, str] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)
    jobs: dict[int, str] = field(default_factory=dict)
    checkpoints: list[str] = field(default_factory=list)


class Step(Struct, frozen=True, kw_only=True):
    """An intent of the `writer`-th process, its `place` in that one's talk, and the answer, None where none came."""

    writer: int
    place: int
    intent: Intent
    answer: Ack | Refused | None = None

    @property
    def ack(self) -> Ack | None:
        """The answer, if it is an acknowledgement."""
        return self.answer if isinstance(self.answer, Ack) else None


class Expected(Struct, frozen=True, kw_only=True):
    """What the file of a memory may be: of the SHA-256 `certain` ("" for none), or as a `pending` intent says.

    `former` are the hashes that it had before and that were acknowledged since, the certain one among them.
    `is_plain` says that at most one intent is open, none was refused and none is an edit by hand: the ledger cannot be
    of another mind then.
    """

    certain: str
    pending: tuple[Intent, ...]
    former: frozenset[str]
    is_plain: bool

    def allows(self, raw: bytes | None) -> bool:
        """Whether a file of these bytes, or no file, is as it should be."""
        digest = "" if raw is None else content_hash(raw)
        return digest == self.certain or any(_fulfils(intent, raw, digest) for intent in self.pending)


def steps(talk: Sequence[Sequence[Message]]) -> list[Step]:
    """The intents of every process with their answers."""
    found = []
    for writer, messages in enumerate(talk):
        answers = {each.token: each for each in messages if isinstance(each, Ack | Refused)}
        intents = [each for each in messages if isinstance(each, Intent)]
        for place, intent in enumerate(intents):
            found.append(Step(writer=writer, place=place, intent=intent, answer=answers.get(intent.token)))
    return found


def expectations(held: Mapping[str, str], taken: Iterable[Step]) -> dict[str, Expected]:
    """What every memory that stood before or was named since may be."""
    by_id: dict[str, list[Step]] = {name: [] for name in held}
    for step in taken:
        if step.intent.operation in OF_A_MEMORY:
            by_id.setdefault(step.intent.id, []).append(step)
    return {name: _expected(held.get(name, ""), found) for name, found in by_id.items()}


def book(account: Account, taken: Iterable[Step]) -> None:
    """Enter what is not a file and was acknowledged."""
    for step in taken:
        if not step.ack:
            continue
        match step.intent.operation:
            case Operation.EVENT:
                account.events.append((step.intent.id, step.intent.token))
            case Operation.JOB:
                account.jobs[step.ack.number] = step.intent.id
            case Operation.CHECKPOINT:
                account.checkpoints.append(step.intent.id)


def rows(taken: Iterable[Step]) -> Iterator[tuple[int, str, str]]:
    """(ledger row, memory, its hash then) of every acknowledged change, but for edits by hand."""
    for step in taken:
        if step.ack and step.intent.operation in OF_A_MEMORY - {Operation.EDIT}:
            yield step.ack.number, step.intent.id, step.ack.hash


def _expected(held: str, found: Sequence[Step]) -> Expected:
    """The ledger's numbers tell which acknowledged change was the last; an edit may have that of the change before."""
    acknowledged = [(step.ack.number, step, step.ack.hash) for step in found if step.ack]
    last = max(acknowledged, key=lambda each: (each[0], each[1].place), default=None)
    open_steps = [step for step in found if not step.ack]
    pending = [step.intent for step in open_steps if last is None or _may_follow(step, last[1])]
    return Expected(
        certain=last[2] if last else held,
        pending=tuple(pending),
        former=frozenset({held, *(digest for _, _, digest in acknowledged)}),
        is_plain=len(open_steps) <= 1 and not any(map(_is_untold, found)),
    )


def _is_untold(step: Step) -> bool:
    """Whether the ledger may know nothing of a step that changed the file."""
    return isinstance(step.answer, Refused) or step.intent.operation == Operation.EDIT


def _may_follow(step: Step, last: Step) -> bool:
    return step.writer != last.writer or step.place > last.place


def _fulfils(intent: Intent, raw: bytes | None, digest: str) -> bool:
    if raw is None or intent.exact is not None:
        return intent.exact == digest
    return intent.token.encode() in raw and _body_hash(raw) == intent.body


def _body_hash(raw: bytes) -> str:
    """The hash of a file's body, "" for a file that cannot be read."""
    try:
        return body_hash(parse_memory_file(raw).body)
    except (UnreadableFile, UnicodeDecodeError):
        return ""
