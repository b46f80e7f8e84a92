"""From a session to a memory: a draft of what was recorded, judged; kept in the vault, or set aside with the reasons.

What is set aside lies as a Markdown file in the project's `drafts` folder, which no search reads and git does not see,
until it is promoted, discarded or expires.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.clock import format_time
from scrimshaw.engine.checkpoints import checkpoint_before
from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import INDEX, index_behind
from scrimshaw.engine.index import KeepGoing
from scrimshaw.engine.ledger import RecordedChange, apply_changes, read_file
from scrimshaw.engine.memory_ids import slug
from scrimshaw.engine.quality import quality_of
from scrimshaw.engine.write import MANY, NewText, Saved, composed, rewrite, save
from scrimshaw.errors import NotFound, ScrimshawError, StorageFailure
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.redact import redact
from scrimshaw.models import (
    DRAFT_JOB,
    Action,
    Drafted,
    Entry,
    EventKind,
    Filters,
    Job,
    Memory,
    MemoryType,
    Quality,
    RecordedEvent,
    Session,
    SourceFile,
    Tier,
    Trust,
    content_hash,
)
from scrimshaw.session.draft import Draft, build_draft, render_body
from scrimshaw.session.statements import Statement
from scrimshaw.storage.files import Vault

DRAFTS = "drafts"
SESSIONS = "sessions"
ORIGIN = "session"
_TRUST = (Trust.HUMAN, Trust.AGENT, Trust.TOOL, Trust.WEB)
_DAY_S = 86_400.0
_TITLE_IN_ID = 50


class DraftOutcome(Struct, frozen=True, kw_only=True):
    """What became of the draft of a session.

    `status` is `accepted` (a memory now), `rejected` (set aside in `path`, for `reasons`), `unchanged` (nothing new
    since the last draft, or its memory was changed by hand and is left alone) or `empty` (nothing worth telling).
    """

    session: str
    status: str
    memory_id: str = ""
    path: str = ""
    quality: Quality | None = None
    reasons: tuple[str, ...] = ()


class SetAside(Struct, frozen=True, kw_only=True):
    """A rejected draft, by the name of its file; `expires` is in seconds since 1970."""

    name: str
    title: str
    session: str
    path: str
    quality: Quality | None
    reasons: tuple[str, ...]
    expires: float


def make_draft(engine: Engine, session_id: str) -> DraftOutcome:
    """Make or renew the memory of a session from its recorded events.

    Raises NotFound for an unknown session, ReadOnly, VaultBusy, StorageFailure.
    """
    session = engine.sessions.get(session_id)
    if session is None:
        raise NotFound(f"There is no session {session_id!r}.", "See `scrimshaw sessions`.", session=session_id)
    events = engine.sessions.events(session_id)
    last = engine.sessions.drafted(session_id)
    if not events or (last and last.events >= events[-1].number):
        return DraftOutcome(session=session_id, status="unchanged" if last else "empty")
    outcome = _outcome(engine, session, events, last)
    engine.sessions.record_draft(
        Drafted(session=session_id, events=events[-1].number, memory_id=outcome.memory_id, at=engine.clock())
    )
    return outcome


def run_draft_job(engine: Engine, job: Job, keep_going: KeepGoing) -> str:
    """The work of a draft job: nothing while drafts are switched off. Answers why a draft was rejected."""
    if not engine.settings.features.drafts:
        return ""
    outcome = make_draft(engine, job.key)
    keep_going(1, 1)
    return "\n".join(outcome.reasons)


def queue_drafts(engine: Engine) -> int:
    """Ask for drafts of all sessions that ended, or fell silent, without one; how many."""
    silent_since = engine.clock() - engine.settings.drafts.idle_minutes * 60.0
    waiting = engine.sessions.undrafted(silent_since=silent_since) if engine.settings.features.drafts else []
    for session in waiting:
        engine.journal.enqueue(DRAFT_JOB, session, {})
    return len(waiting)


# What was set aside


def set_aside(engine: Engine) -> list[SetAside]:
    """The rejected drafts, newest first."""
    found = [_read(engine, path) for path in _folder(engine).glob("*.md")]
    return sorted((each for each in found if each), key=lambda each: (-each.expires, each.name))


def text_of(engine: Engine, name: str) -> str:
    """The file of a rejected draft; raises NotFound."""
    return _vault(engine).read(name).decode(errors="replace")


def promote(engine: Engine, name: str) -> Saved:
    """Make a memory of a rejected draft as it stands; raises NotFound, UnreadableFile and what `save` raises."""
    text = text_of(engine, name)
    file = parse_memory_file(text, name)
    document = engine.document(_file(name), file)
    new = NewText(
        content=file.body,
        id=_memory_id(document.created, document.title, document.provenance.session),
        title=document.title,
        type=MemoryType.SESSION,
        triggers=document.triggers,
        topics=document.topics,
        session=document.provenance.session,
        origin=ORIGIN,
        actor="human",
        trust=document.provenance.trust,
        reason="promoted by hand",
        created=document.created,
    )
    saved = save(engine, new, force=True)
    last = engine.sessions.drafted(new.session)
    if last:
        engine.sessions.record_draft(replace(last, memory_id=saved.id))
    discard(engine, [name])
    return saved


def discard(engine: Engine, names: Sequence[str]) -> None:
    """Remove rejected drafts; raises NotFound."""
    if not names:
        return
    with engine.write_lock():
        for name in names:
            _vault(engine).remove(name, None)


def expire(engine: Engine) -> tuple[list[str], list[str]]:
    """Remove rejected drafts and retire temporary memories whose time is over: (drafts, memory ids).

    A temporary memory that a person wrote stays, and one whose file is not as the index read it; what is retired can be
    brought back by undo.
    """
    now = engine.clock()
    drafts = [each.name for each in set_aside(engine) if each.expires <= now]
    discard(engine, drafts)
    before = format_time(now - engine.settings.drafts.expire_days * _DAY_S)
    temporary = engine.index.select(Filters(tiers=(Tier.TEMPORARY,), until=before), sort="id", limit=-1, offset=0)
    over = [each for each in temporary if each.writable and each.provenance.trust != Trust.HUMAN]
    return drafts, _retired(engine, over) if over else []


def _retired(engine: Engine, seen: Sequence[Memory]) -> list[str]:
    """Retire those of the memories whose file is as it was seen; their ids."""
    if len(seen) >= MANY:
        checkpoint_before(engine, "delete")
    with engine.write_lock():
        same = [memory for memory in seen if _hash_now(engine, memory.id) == memory.content_hash]
        apply_changes(engine, [_retirement(engine, memory) for memory in same])
        try:
            engine.index.retire([memory.path for memory in same])
        except StorageFailure as error:
            engine.degradations.put(INDEX, index_behind(error))
    return [memory.id for memory in same]


def _retirement(engine: Engine, memory: Memory) -> RecordedChange:
    entry = Entry(
        action=Action.RETIRE,
        memory_id=memory.id,
        reason="temporary, and its time is over",
        prior_hash="",
        new_hash="",
        actor="retention",
    )
    return RecordedChange(entry, read_file(engine, memory.id, memory.content_hash), None)


def _hash_now(engine: Engine, memory_id: str) -> str:
    """The hash of a memory's file, empty where there is none."""
    vault, name = engine.vault_of(memory_id)
    try:
        return content_hash(vault.read(name))
    except NotFound:
        return ""


# How a draft is kept


def _outcome(engine: Engine, session: Session, events: Sequence[RecordedEvent], last: Drafted | None) -> DraftOutcome:
    made = build_draft(session, events, engine.sessions.items(session.id))
    body = render_body(made)
    if not body.strip() or not made.tool_calls:
        return DraftOutcome(session=session.id, status="empty", memory_id=last.memory_id if last else "")
    new = _new_text(made, body, events)
    if last and last.memory_id:
        return _renewed(engine, new, last.memory_id)
    return _settled(engine, new, save(engine, new))


def _settled(engine: Engine, new: NewText, saved: Saved) -> DraftOutcome:
    """What a save came to; a text that is there already is nothing new."""
    if saved.status == "duplicate":
        return DraftOutcome(session=new.session, status="unchanged")
    if saved.status == "rejected":
        path = str(_put_aside(engine, new, saved.reasons))
        return DraftOutcome(
            session=new.session, status="rejected", path=path, quality=saved.quality, reasons=saved.reasons
        )
    _forget_aside(engine, new.session)
    return DraftOutcome(
        session=new.session, status="accepted", memory_id=saved.id, path=saved.path, quality=saved.quality
    )


def _new_text(made: Draft, body: str, events: Sequence[RecordedEvent]) -> NewText:
    created = format_time(made.ended)
    return NewText(
        content=body,
        id=_memory_id(created, made.title, made.session),
        title=made.title,
        type=MemoryType.SESSION,
        triggers=made.trigger_phrases,
        topics=made.topics,
        session=made.session,
        origin=ORIGIN,
        trust=_trust(made, events),
        reason="the session ended",
        created=created,
        tool_calls=made.tool_calls,
        facts={"tool_calls": made.tool_calls, "decision_count": len(made.decisions)},
    )


def _renewed(engine: Engine, new: NewText, memory_id: str) -> DraftOutcome:
    """Write the new draft over the old one, unless somebody changed or removed that."""
    history = engine.journal.history(memory_id, 1)
    current = engine.index.get([memory_id]).get(memory_id)
    untouched = current and history and history[0]["actor"] == ORIGIN
    if not untouched or current is None or history[0]["new_hash"] != current.content_hash:
        return DraftOutcome(session=new.session, status="unchanged", memory_id=memory_id)
    file, _, verdict = composed(engine, new, redact(new.title).text, redact(new.content))
    if not verdict.accepted:
        return DraftOutcome(session=new.session, status="unchanged", memory_id=memory_id, reasons=verdict.reasons)
    entry = Entry(
        action=Action.UPDATE,
        memory_id=memory_id,
        reason="the session went on",
        prior_hash="",
        new_hash="",
        actor=ORIGIN,
        session=new.session,
    )
    memory, _ = rewrite(engine, memory_id, lambda _: file, entry, expected_hash=current.content_hash)
    return DraftOutcome(
        session=new.session,
        status="accepted",
        memory_id=memory_id,
        path=memory.path,
        quality=quality_of(verdict),
    )


def _put_aside(engine: Engine, new: NewText, reasons: Sequence[str]) -> Path:
    kept = replace(new, tier=Tier.TEMPORARY, facts={**new.facts, "rejected": list(reasons)})
    _, text, _ = composed(engine, kept, redact(new.title).text, redact(new.content))
    name = slug(new.session)
    with engine.write_lock():
        _vault(engine).write(name, text, expected_hash=None)
    return _folder(engine) / f"{name}.md"


def _forget_aside(engine: Engine, session_id: str) -> None:
    name = slug(session_id)
    if (_folder(engine) / f"{name}.md").is_file():
        discard(engine, [name])


def _read(engine: Engine, path: Path) -> SetAside | None:
    try:
        file = parse_memory_file(path.read_bytes(), path.name)
        document = engine.document(_file(path.stem), file)
        changed = path.stat().st_mtime
    except (OSError, ScrimshawError):
        return None
    reasons = file.values.get("rejected")
    return SetAside(
        name=path.stem,
        title=document.title,
        session=document.provenance.session,
        path=str(path),
        quality=document.quality,
        reasons=tuple(map(str, reasons)) if isinstance(reasons, list) else (),
        expires=changed + engine.settings.drafts.expire_days * _DAY_S,
    )


def _file(name: str) -> SourceFile:
    return SourceFile(source=DRAFTS, memory_id=name, path=name, size=0, mtime_ns=0)


def _trust(made: Draft, events: Sequence[RecordedEvent]) -> Trust:
    """The lowest trust of what the draft quotes, and at most that of the agent that made it."""
    quoted = {statement.event for statement in _statements(made)}
    return max((_trust_of(event) for event in events if event.number in quoted), key=_TRUST.index, default=Trust.AGENT)


def _trust_of(event: RecordedEvent) -> Trust:
    if event.kind != EventKind.TOOL:
        return Trust.AGENT
    return Trust.WEB if event.tool == "Web" else Trust.TOOL


def _statements(made: Draft) -> Iterator[Statement]:
    yield from (*made.decisions, *made.changed, *made.problems, *made.open)
    yield from (each for each in (made.task, made.next_step) if each)


def _memory_id(created: str, title: str, session_id: str) -> str:
    """`sessions/DAY-TITLE-SESSION`: the day sorts, the title tells, the session makes it one of a kind."""
    told = textwrap.shorten(slug(title).replace("-", " "), _TITLE_IN_ID, placeholder="").replace(" ", "-")
    return f"{SESSIONS}/{created[:10]}-{told or 'session'}-{slug(session_id)[-6:].strip('-')}"


def _folder(engine: Engine) -> Path:
    return engine.settings.folder / DRAFTS


def _vault(engine: Engine) -> Vault:
    return Vault(_folder(engine), DRAFTS, writable=True, private=True)
