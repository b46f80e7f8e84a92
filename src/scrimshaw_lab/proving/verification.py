"""What must exist after a round, and whether it does."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random

from msgspec import Struct

from scrimshaw.config import Settings
from scrimshaw.engine import checkpoints, index
from scrimshaw.engine.core import MEMORIES, Engine
from scrimshaw.engine.read import search
from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.models import EVERY, content_hash
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.durable import TEMP_PREFIX
from scrimshaw.storage.toml_files import LINKS_FILE
from scrimshaw_lab.proving.plan import Ack, Fault, Intent, Message, Operation, Refused
from scrimshaw_lab.proving.writer import body_hash, open_mended

OF_A_MEMORY = frozenset(
    {Operation.SAVE, Operation.UPDATE, Operation.DELETE, Operation.LINK, Operation.EDIT}
    | {Operation.UNDO, Operation.RESTORE}
)


@dataclass
class Account:
    """What a project certainly contains: hashes of files by id, and acknowledged events, jobs and checkpoints."""

    files: dict[str, str] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)
    jobs: dict[int, str] = field(default_factory=dict)
    checkpoints: list[str] = field(default_factory=list)


class Step(Struct, frozen=True, kw_only=True):
    """An intent of the `writer`-th process, its `place` among that one's intents, and the answer, if there was one."""

    writer: int
    place: int
    intent: Intent
    answer: Ack | Refused | None = None

    @property
    def ack(self) -> Ack | None:
        """The answer, if it is an acknowledgement."""
        return self.answer if isinstance(self.answer, Ack) else None


class Expected(Struct, frozen=True, kw_only=True):
    """What the file of a memory may be: of the SHA-256 `certain` ("" for none), or as in a `pending` intent.

    `former` are the hashes before and those acknowledged since, including the certain one. `is_plain` says that at most
    one intent is open, none was refused and none is an edit by hand, so the ledger must agree.
    """

    certain: str
    pending: tuple[Intent, ...]
    former: frozenset[str]
    is_plain: bool

    def allows(self, raw: bytes | None) -> bool:
        """Whether a file with these bytes, or no file, is correct."""
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
    """What may have become of every memory that existed before or was named since."""
    by_id: dict[str, list[Step]] = {name: [] for name in held}
    for step in taken:
        if step.intent.operation in OF_A_MEMORY:
            by_id.setdefault(step.intent.id, []).append(step)
    return {name: _expected(held.get(name, ""), found) for name, found in by_id.items()}


def book(account: Account, taken: Iterable[Step]) -> None:
    """Add the acknowledged events, jobs and checkpoints to the account."""
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


def _expected(held: str, found: Sequence[Step]) -> Expected:
    """The ledger's numbers order acknowledged changes; an edit may have the number of the change before."""
    acknowledged = [(step.ack.number, step, step.ack.hash) for step in found if step.ack]
    last = max(acknowledged, key=lambda each: (each[0], each[1].place), default=None)
    open_steps = [step for step in found if not step.ack]
    later = [step for step in open_steps if not last or step.writer != last[1].writer or step.place > last[1].place]
    # These may have changed the file without a ledger row.
    untold = [step for step in found if isinstance(step.answer, Refused) or step.intent.operation == Operation.EDIT]
    return Expected(
        certain=last[2] if last else held,
        pending=tuple(step.intent for step in later),
        former=frozenset({held, *(digest for _, _, digest in acknowledged)}),
        is_plain=len(open_steps) <= 1 and not untold,
    )


def _fulfils(intent: Intent, raw: bytes | None, digest: str) -> bool:
    if raw is None or intent.exact is not None:
        return intent.exact == digest
    try:
        return intent.token.encode() in raw and body_hash(parse_memory_file(raw).body) == intent.body
    except UnreadableFile:
        return False


HURT_INDEX = frozenset({Fault.INDEX_DELETED, Fault.INDEX_DAMAGED, Fault.INDEX_LOG_CUT})
_SAMPLE = 2
# Ten checkpoints are kept, so these cannot have been dropped yet.
_NEWEST = 3


class Kind(StrEnum):
    """The kind of a finding."""

    LOST = "acknowledged_lost"
    CORRUPT = "corrupt_files"
    INDEX = "index_differences"
    LEDGER = "ledger_breaks"
    OTHER = "other_failures"


class Finding(Struct, frozen=True):
    """Something wrong."""

    kind: Kind
    what: str


def verify(settings: Settings, account: Account, taken: list[Step], fault: Fault, chance: Random) -> list[Finding]:
    """All findings after a round; the account is updated."""
    with open_mended(settings, lambda engine: not engine.maintenance.check("index")) as engine:
        # A change that a full disk refuses must change nothing; after other refusals it is unknown.
        is_final = fault == Fault.FULL_AT_A_STEP
        certain = [step for step in taken if not (is_final and isinstance(step.answer, Refused))]
        expected = expectations(account.files, certain)
        files = _files(settings.folder / MEMORIES)
        book(account, taken)
        found = [
            *_wrong_files(expected, files),
            *_wrong_ledger(engine, expected, files, taken),
            *_missing_rows(engine, account),
            *_missing_checkpoints(engine, account),
            *_wrong_index(engine, files, fault),
            *_not_found(engine, files, chance),
        ]
    account.files = {name: content_hash(raw) for name, raw in files.items()}
    return found


def _files(vault: Path) -> dict[str, bytes]:
    """The bytes of every memory on disk, by id."""
    return {
        path.relative_to(vault).with_suffix("").as_posix(): path.read_bytes()
        for path in sorted(vault.rglob("*.md"))
        if not path.name.startswith(TEMP_PREFIX)
    }


def _wrong_files(expected: Mapping[str, Expected], files: Mapping[str, bytes]) -> Iterator[Finding]:
    """A file in an earlier state has lost an acknowledged change; a file in an unannounced state is corrupt."""
    for name in sorted(files.keys() - expected.keys()):
        yield Finding(Kind.CORRUPT, f"{name}: nobody wrote it")
    for name, wanted in expected.items():
        raw = files.get(name)
        if wanted.allows(raw):
            continue
        is_former = raw is None or content_hash(raw) in wanted.former
        state = "gone" if raw is None else f"{len(raw)} bytes, {content_hash(raw)[:12]}"
        if not is_former:
            yield Finding(Kind.CORRUPT, f"{name}: {state}, which nobody announced")
        if is_former or wanted.certain:
            yield Finding(Kind.LOST, f"{name}: {state}, acknowledged {wanted.certain[:12] or 'gone'}")


def _wrong_ledger(
    engine: Engine, expected: Mapping[str, Expected], files: Mapping[str, bytes], taken: Iterable[Step]
) -> Iterator[Finding]:
    """Check the chain, acknowledged rows, rows of changes that never happened, and after a scan all last hashes."""
    checked, broken = engine.journal.verify()
    if broken:
        yield Finding(Kind.LEDGER, f"the chain breaks at row {broken} of {checked}")
    said = {int(row["seq"]): (row["memory_id"], row["new_hash"]) for row in engine.journal.history()}
    for step in taken:
        if step.ack and step.intent.operation in OF_A_MEMORY - {Operation.EDIT}:
            row, name, digest = said.get(step.ack.number), step.intent.id, step.ack.hash
            if row != (name, digest):
                yield Finding(Kind.LOST, f"ledger row {step.ack.number} of {name}: {row}, acknowledged {digest[:12]}")
    hashes = {name: content_hash(raw) for name, raw in files.items()}
    yield from _ahead(engine.journal.last_hashes(), expected, hashes)
    index.scan(engine)
    last = {name: digest for name, digest in engine.journal.last_hashes().items() if digest and name != LINKS_FILE}
    for name in sorted(last.keys() | hashes.keys()):
        if last.get(name) != hashes.get(name):
            yield Finding(Kind.LEDGER, f"{name}: the ledger says {last.get(name)}, the file is {hashes.get(name)}")


def _ahead(last: Mapping[str, str], expected: Mapping[str, Expected], hashes: Mapping[str, str]) -> Iterator[Finding]:
    """A row that matches neither the file nor an acknowledgement records a change that never happened."""
    for name, wanted in expected.items():
        digest = last.get(name, "")
        if wanted.is_plain and digest not in (hashes.get(name, ""), wanted.certain):
            yield Finding(Kind.LEDGER, f"{name}: a row with {digest[:12]}, which no file ever had")


def _missing_rows(engine: Engine, account: Account) -> Iterator[Finding]:
    known = {
        session: "\n".join(event.text for event in engine.sessions.events(session)) for session, _ in account.events
    }
    for session, token in account.events:
        if token not in known[session]:
            yield Finding(Kind.LOST, f"event {token} of {session}")
    for number, key in account.jobs.items():
        if all(job.payload.get("token") != key for job in engine.journal.jobs(number=number)):
            yield Finding(Kind.LOST, f"job {number}")


def _missing_checkpoints(engine: Engine, account: Account) -> Iterator[Finding]:
    listed = {each.name: each.problem for each in checkpoints.list_checkpoints(engine, limit=2 * checkpoints.KEPT)}
    for name, problem in listed.items():
        if problem:
            yield Finding(Kind.CORRUPT, f"checkpoint {name}: {problem}")
    for name in account.checkpoints[-_NEWEST:]:
        if name not in listed:
            yield Finding(Kind.LOST, f"checkpoint {name}")


def _wrong_index(engine: Engine, files: Mapping[str, bytes], fault: Fault) -> Iterator[Finding]:
    """After recovery the index has the files and nothing else; a damaged one is rebuilt first."""
    if fault in HURT_INDEX:
        index.rebuild(engine)
    for skip in index.list_skipped_files(engine):
        yield Finding(Kind.INDEX, f"{skip.path} was skipped: {skip.reason}")
    found = engine.index.select(EVERY)
    held = {memory.id: memory.content_hash for memory in found}
    for name in sorted(held.keys() | files.keys()):
        digest = content_hash(files[name]) if name in files else None
        if held.get(name) != digest:
            yield Finding(Kind.INDEX, f"{name}: indexed {held.get(name)}, the file is {digest}")
    for problem in (*engine.maintenance.check("index"), *engine.maintenance.check("journal")):
        yield Finding(Kind.OTHER, f"integrity check: {problem}")


def _not_found(engine: Engine, files: Mapping[str, bytes], chance: Random) -> Iterator[Finding]:
    """A search for a word of only one memory must find it."""
    for name in chance.sample(sorted(files), min(_SAMPLE, len(files))):
        word = (files[name].decode(errors="replace").split() or [""])[-1]  # of the body, which is its writer's token
        request = SearchRequest(query=word, include_archived=True)
        if word and name not in [hit.memory.id for hit in search(engine, request).hits]:
            yield Finding(Kind.INDEX, f"{name} is not found by its own word {word}")
