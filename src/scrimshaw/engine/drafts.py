"""From sessions to memories: judged drafts of what was recorded, and one memory for several sessions on a topic."""

import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import unified_diff

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.purge import PurgeTarget, target_memories
from scrimshaw.engine.read import touch
from scrimshaw.engine.sessions import ITEM_PREFIX
from scrimshaw.engine.write import DRAFTED, LASTING, NewText, Saved, compose_memory, retire, rewrite, save, slug
from scrimshaw.errors import NotFound, ScrimshawError, StorageFailure
from scrimshaw.ingest.markdown import parse_headings
from scrimshaw.ingest.memory_file import MemoryFile, edit_memory_file, parse_memory_file
from scrimshaw.ingest.redact import redact
from scrimshaw.models import (
    DRAFT_JOB,
    DRAFTS,
    PURGED,
    SESSIONS,
    WAITS,
    Action,
    Document,
    Drafted,
    Edge,
    Entry,
    EventKind,
    Filters,
    Memory,
    MemoryType,
    Quality,
    RecordedEvent,
    Relation,
    SourceFile,
    Tier,
    Trust,
    format_time,
)
from scrimshaw.search.candidates import DAY_S
from scrimshaw.search.lineage import lowest_trust
from scrimshaw.session.draft import Draft, build_draft, render_body
from scrimshaw.session.statements import LANGUAGES
from scrimshaw.storage.durable import remove_file, storage_errors, write_file
from scrimshaw.storage.git import is_on_another_branch
from scrimshaw.storage.paths import Vault, locate
from scrimshaw.storage.place import is_removed

TALK = "only questions and answers, nothing was changed"
_UNDECIDED = f"{TALK}, and no decision by a person was found"
_TITLE_IN_ID = 50
MOST_SESSIONS = 12  # a memory of more sessions would be a log
MOST_PHRASES = 8
_EVENT = re.compile(r"\s*\(e\d+(?:, e\d+)*\)\s*$")


class DraftOutcome(Struct, frozen=True, kw_only=True, rename={"memory_id": "id"}):
    session: str
    #: `accepted` (a memory now), `rejected` (set aside in `path`, for `reasons`), `waiting` there for a review, `empty`
    #: (nothing worth keeping) or `unchanged`: nothing new, or its memory was changed by hand and is left alone.
    status: str
    memory_id: str = ""
    path: str = ""
    quality: Quality | None = None
    reasons: tuple[str, ...] = ()


class RejectedDraft(Struct, frozen=True, kw_only=True):
    """A draft that was set aside, by the name of its file."""

    name: str
    title: str
    session: str
    path: str
    quality: Quality | None
    reasons: tuple[str, ...]
    expires: float  #: Seconds since 1970.


def make_draft(engine: Engine, session_id: str) -> DraftOutcome:
    """Make or update the memory of a session from its events; raises NotFound, ReadOnly, VaultBusy, StorageFailure."""
    if (session := engine.sessions.get(session_id)) is None:
        raise NotFound(f"There is no session {session_id!r}.", "`scrimshaw ui` lists the sessions.", session=session_id)
    events = engine.sessions.events(session_id)
    last = find_draft(engine, session_id)
    last = None if _is_memory_lost(engine, last) else last
    if not events or (last and last.events >= events[-1].number):
        reasons = (_UNDECIDED,) if list_talks(engine, session_id) else ()
        return DraftOutcome(session=session_id, status="unchanged" if last else "empty", reasons=reasons)
    draft = build_draft(session, events, engine.sessions.items(session_id))
    new, former_id = make_new_text(draft, events), last.memory_id if last else ""
    if not (draft.is_worth_keeping and new.content):
        reasons = () if former_id else (_UNDECIDED,)
        outcome = DraftOutcome(session=session_id, status="empty", memory_id=former_id, reasons=reasons)
    else:
        outcome = _renew_memory(engine, new, former_id) if former_id else _save_draft(engine, new)
    if outcome.status == "accepted" and (_vault(engine).root / f"{slug(session_id)}.md").is_file():
        discard_drafts(engine, [slug(session_id)])  # an older one, which would take back what came since
    drafted = Drafted(session=session_id, events=events[-1].number, memory_id=outcome.memory_id, at=engine.clock())
    engine.sessions.record_draft(drafted)
    # Used are the memories whose files the session opened, and those it was given and then named by id or title.
    paths = {os.path.realpath(engine.settings.project / each.path) for each in events if each.path}
    given = engine.index.get([*engine.sessions.hashes_shown(session_id)])
    said = "\n".join(each.text for each in events if each.kind in (EventKind.ANSWER, EventKind.TOOL))
    named = (name for name, memory in given.items() if memory.title in said or ("/" in name and name in said))
    touch(engine, engine.index.get([*engine.index.find_ids(paths=[*paths]), *named]).values())
    return outcome


def make_new_text(draft: Draft, events: Sequence[RecordedEvent]) -> NewText:
    """The memory of a draft: it has the lowest trust of what it quotes of the events, and at most an agent's."""
    statements = [*draft.decisions, *draft.changed, *draft.problems, *draft.open, draft.task, draft.next_step]
    quoted = {each.event for each in statements if each}
    tools = {each.tool for each in events if each.number in quoted and each.kind == EventKind.TOOL}
    created = format_time(draft.ended)
    return NewText(
        content=render_body(draft),
        id=_memory_id(created, draft.title, draft.session),
        title=draft.title,
        type=MemoryType.SESSION,
        triggers=draft.trigger_phrases,
        topics=draft.topics,
        session=draft.session,
        origin=DRAFTED,
        trust=Trust.WEB if "Web" in tools else Trust.TOOL if tools else Trust.AGENT,
        reason="the session ended",
        created=created,
        tool_calls=draft.tool_calls,
        facts={"tool_calls": draft.tool_calls, "decision_count": len(draft.decisions)},
    )


def queue_drafts(engine: Engine) -> int:
    """Queue drafts of all sessions that ended, or fell silent, without one; returns how many."""
    silent_since = engine.clock() - engine.settings.drafts.idle_minutes * 60.0
    waiting = find_undrafted(engine, silent_since) if engine.settings.features.drafts else []
    for session in waiting:
        engine.journal.enqueue(DRAFT_JOB, session, {})
    return len(waiting)


def find_undrafted(engine: Engine, silent_since: float) -> list[str]:
    """The sessions that ended, or fell silent before that time, and have no draft yet; oldest first."""
    return [
        each.session
        for each in reversed(engine.sessions.records())
        if each.waits_for_draft(silent_since) or _is_memory_lost(engine, each.draft)
    ]


def _is_memory_lost(engine: Engine, drafted: Drafted | None) -> bool:
    """Whether a session's memory was in a work tree that is removed, and came neither here nor into a commit."""
    if not (drafted and drafted.memory_id) or engine.journal.history(drafted.memory_id, 1):
        return False
    session = engine.sessions.get(drafted.session)
    is_gone = session is not None and is_removed(session.work_tree)
    return is_gone and not is_on_another_branch(engine.sources[0].root / f"{drafted.memory_id}.md")


def find_draft(engine: Engine, session: str) -> Drafted | None:
    return next((each.draft for each in engine.sessions.records(session)), None)


def target_session(engine: Engine, session: str) -> PurgeTarget:
    """What a purge of a session erases: its record, memory and draft; raises NotFound."""
    if engine.sessions.get(session) is None:
        raise NotFound(f"There is no session {session!r}.", "`scrimshaw ui` lists the sessions.", session=session)
    last, all_sessions = find_draft(engine, session), Filters(types=(MemoryType.SESSION,), include_deprecated=True)
    made = [each for each in engine.index.select(all_sessions) if each.provenance.session == session]
    names = {each.id for each in made if each.provenance.source == DRAFTED} | {last.memory_id if last else ""}
    names |= {row["memory_id"] for row in engine.journal.history(session=session) if row["actor"] == DRAFTED}
    entry = Entry(action=Action.PURGE, memory_id=f"{ITEM_PREFIX}{session}", reason="session purged", actor="human")
    drafts = [locate(_vault(engine).root, slug(session)).resolve()]
    return target_memories(engine, sorted(names - {"", PURGED}), entry, session=session, drafts=drafts)


def _save_draft(engine: Engine, new: NewText) -> DraftOutcome:
    """Save a draft as a memory, or set it aside with the reasons; a text that already exists is not saved again."""
    if (saved := save(engine, new, dry_run=engine.settings.drafts.review)).status == "duplicate":
        return DraftOutcome(session=new.session, status="unchanged")
    outcome = DraftOutcome(session=new.session, status="accepted", quality=saved.quality)
    if saved.status != "saved":
        return _set_aside(engine, new, outcome, saved.reasons or (WAITS,))
    return replace(outcome, memory_id=saved.id, path=saved.path)


def _set_aside(engine: Engine, new: NewText, outcome: DraftOutcome, reasons: Sequence[str]) -> DraftOutcome:
    """Write a draft where nothing searches, with the reasons."""
    path = _vault(engine).root / f"{slug(new.session)}.md"
    draft = replace(new, tier=Tier.TEMPORARY, facts={**new.facts, "rejected": list(reasons)})
    _, text, _ = compose_memory(engine, draft, redact(new.title).text, redact(new.content))
    with engine.write_lock():
        write_file(path, text.text.encode(), private=True)
    status = "waiting" if WAITS in reasons else "rejected"
    return replace(outcome, status=status, path=str(path), reasons=tuple(reasons))


def _renew_memory(engine: Engine, new: NewText, memory_id: str) -> DraftOutcome:
    """Update a session's memory from its newer draft, unless someone changed or removed it or another branch has it."""
    written = next((row for row in engine.journal.history(memory_id) if row["action"] != Action.EXTERNAL), None)
    current = engine.index.get([memory_id]).get(memory_id)
    unchanged = DraftOutcome(session=new.session, status="unchanged", memory_id=memory_id)
    waits = engine.settings.drafts.review  # so nothing is overwritten unseen
    if not current or not written:
        if written and written["actor"] == DRAFTED and is_on_another_branch(engine.sources[0].root / f"{memory_id}.md"):
            return _save_draft(engine, replace(new, id=f"{new.id}-{new.tool_calls}"))  # a merge will bring the other
        return unchanged
    if not waits and (written["actor"], written["new_hash"]) != (DRAFTED, current.content_hash):
        return unchanged
    file, _, verdict = compose_memory(engine, new, redact(new.title).text, redact(new.content))
    if not verdict.is_accepted:
        return replace(unchanged, reasons=verdict.reasons)
    if waits:
        return _set_aside(engine, new, unchanged, (WAITS,))
    reason = "the session went on"
    entry = Entry(action=Action.UPDATE, memory_id=memory_id, reason=reason, actor=DRAFTED, session=new.session)
    saved = rewrite(engine, current, lambda _: file, entry, expected_hash=current.content_hash)
    quality = Quality(score=verdict.score, flags=verdict.flags)
    return replace(unchanged, status="accepted", path=saved.path, quality=quality)


def _memory_id(created: str, title: str, session_id: str) -> str:
    """`sessions/DAY-TITLE-SESSION`: the day sorts, the title describes, the session makes it unique."""
    short = textwrap.shorten(slug(title).replace("-", " "), _TITLE_IN_ID, placeholder="").replace(" ", "-")
    return f"{SESSIONS}/{created[:10]}-{short or 'session'}-{slug(session_id)[-6:].strip('-')}"


def list_rejected(engine: Engine) -> list[RejectedDraft]:
    """The rejected drafts, newest first."""
    found = []
    for path in _vault(engine).root.glob("*.md"):
        with suppress(OSError, ScrimshawError):
            file, document = _parse_rejected(engine, path.stem)
            reasons = file.values.get("rejected")
            draft = RejectedDraft(
                name=path.stem,
                title=document.title,
                session=document.provenance.session,
                path=str(path),
                quality=document.quality,
                reasons=tuple(map(str, reasons)) if isinstance(reasons, list) else (),
                expires=path.stat().st_mtime + engine.settings.drafts.expire_days * DAY_S,
            )
            found.append(draft)
    return sorted(found, key=lambda each: (-each.expires, each.name))


def list_talks(engine: Engine, session: str = "") -> list[RejectedDraft]:
    """The sessions of the last days, or one, that had nothing for a draft to keep, without a `path`; newest first."""
    found, lasting_s = list[RejectedDraft](), engine.settings.drafts.expire_days * DAY_S
    for each in engine.sessions.records(session):
        is_open = not each.draft or each.has_news or (each.at + lasting_s < engine.clock() and not session)
        known = None if is_open or each.memory_id else engine.sessions.get(each.session)
        if known and not (_vault(engine).root / f"{slug(known.id)}.md").exists():
            draft = build_draft(known, engine.sessions.events(known.id), engine.sessions.items(known.id))
            about = {"name": slug(known.id), "title": draft.title or known.task.partition("\n")[0], "session": known.id}
            talk = RejectedDraft(**about, path="", quality=None, reasons=(_UNDECIDED,), expires=each.at + lasting_s)
            found += [] if draft.is_worth_keeping else [talk]
    return found


def read_rejected(engine: Engine, name: str) -> str:
    """The file of a rejected draft; raises NotFound."""
    return _vault(engine).read(name).decode(errors="replace")


def promote_draft(engine: Engine, name: str) -> Saved:
    """Make a draft a memory as it is, or update its session's; raises NotFound, UnreadableFile and as `save`."""
    file, document = _parse_rejected(engine, name)
    session = document.provenance.session
    new = NewText(
        content=file.body,
        id=_memory_id(document.created, document.title, session),
        **{name: getattr(document, name) for name in ("title", "triggers", "topics", "questions", "created")},
        type=MemoryType.SESSION,
        session=session,
        origin=DRAFTED,
        actor="human",
        trust=document.provenance.trust,
        reason="promoted by hand",
    )
    last = find_draft(engine, session)
    if last and (memory := engine.index.get([last.memory_id]).get(last.memory_id)):
        renewed, _, verdict = compose_memory(engine, new, redact(new.title).text, redact(new.content))
        # What was stated of the memory since, such as its tier and relations, is not the draft's to change.
        changes = {key: value for key, value in renewed.values.items() if key != "tier"}
        changes["quality"] = {"score": verdict.score, "flags": list(verdict.flags)}  # with its score as a number
        entry = Entry(action=Action.UPDATE, memory_id=last.memory_id, reason=new.reason, actor="human", session=session)
        saved = rewrite(engine, memory, lambda before: edit_memory_file(before, changes, renewed.body), entry)
    else:
        saved = save(engine, new, force=True)
    with suppress(StorageFailure):  # a draft left behind expires later
        if last:
            engine.sessions.record_draft(replace(last, memory_id=saved.id))
        discard_drafts(engine, [name])
    return saved


def compare_draft(engine: Engine, draft: RejectedDraft) -> str:
    """What accepting a draft changes, as a unified diff to the session's existing memory, if any."""
    last = find_draft(engine, draft.session)
    known = last.memory_id if last else ""
    before = engine.index.bodies([known]).get(known, "") if known else ""
    after = _parse_rejected(engine, draft.name)[0].body
    lines = unified_diff(before.splitlines(), after.splitlines(), known or "nothing", draft.title, lineterm="")
    return "\n".join(lines)


def discard_drafts(engine: Engine, names: Sequence[str]) -> None:
    """Remove rejected drafts; raises NotFound."""
    if names:
        with engine.write_lock():
            vault = _vault(engine)
            for name in names:
                vault.read(name)  # raises NotFound
                path = locate(vault.root, name)
                with storage_errors("remove", path):
                    remove_file(path, path.parent)


def restore_draft(engine: Engine, name: str, text: str) -> None:
    """Put back a draft that was discarded or promoted, with the text that it had."""
    path = locate(_vault(engine).root, name)
    with engine.write_lock():
        write_file(path, redact(text).text.encode(), private=True)


def expire_drafts(engine: Engine) -> tuple[list[str], list[str]]:
    """Remove expired drafts and retire expired temporary memories, except a person's: (drafts, memory ids)."""
    now = engine.clock()
    drafts = [each.name for each in list_rejected(engine) if each.expires <= now and WAITS not in each.reasons]
    discard_drafts(engine, drafts)
    before = format_time(now - engine.settings.drafts.expire_days * DAY_S)
    temporary = engine.index.select(Filters(tiers=(Tier.TEMPORARY,), until=before))
    gone = [each for each in temporary if each.writable and each.provenance.trust not in LASTING]
    return drafts, retire(engine, gone, "temporary, and its time is over", "retention", only_unchanged=True)


def _parse_rejected(engine: Engine, name: str) -> tuple[MemoryFile, Document]:
    file = parse_memory_file(_vault(engine).read(name), name).demand_readable()
    return file, engine.parse(SourceFile(source=DRAFTS, memory_id=name, path=name, size=0, mtime_ns=0), file)


def _vault(engine: Engine) -> Vault:
    return Vault(engine.settings.folder / DRAFTS, DRAFTS)


class Consolidation(Struct, frozen=True, kw_only=True):
    """A memory that could be made from `sources`, ids of memories from old to new."""

    title: str
    topic: str
    content: str
    sources: tuple[str, ...]
    topics: tuple[str, ...]
    triggers: tuple[str, ...]
    trust: Trust


def propose(engine: Engine, *, topic: str = "", days: float | None = None) -> list[Consolidation]:
    """A proposal for each topic that several recent session memories share, largest first; each memory in only one."""
    since = engine.clock() - (days or engine.settings.drafts.consolidate_days) * DAY_S
    filters = Filters(types=(MemoryType.SESSION,), since=format_time(since), topics=(topic,) if topic else ())
    left = [each for each in engine.index.select(filters) if each.writable and each.provenance.source == DRAFTED]
    left.sort(key=lambda memory: (memory.created, memory.id))
    proposals = []
    topics = _rank_by_count(each for memory in left for each in memory.topics if each not in LANGUAGES.values())
    for name in [topic] if topic else topics:
        group = [each for each in left if name.casefold() in map(str.casefold, each.topics)][-MOST_SESSIONS:]
        if len(group) < 2:
            continue
        left = [memory for memory in left if memory not in group]
        ids = [memory.id for memory in group]
        edges = engine.index.neighbors(ids, hops=1, direction="incoming", relations=(Relation.DERIVED_FROM,))
        if max(Counter(edge.source for edge in edges).values(), default=0) < len(group):
            bodies = engine.index.bodies(ids)
            group = [memory for memory in group if memory.id in bodies]  # the rest may have been deleted meanwhile
            proposals += [_propose_one(name, group, bodies)] if len(group) > 1 else []
    return proposals


def consolidate(engine: Engine, proposal: Consolidation) -> Saved:
    """Write the proposed memory, derived from its sources; raises what `save` raises."""
    new = NewText(
        **{name: getattr(proposal, name) for name in ("content", "title", "topics", "triggers", "trust")},
        type=MemoryType.SESSION,
        origin="consolidation",
        reason=f"consolidated from {len(proposal.sources)} sessions",
        relations=tuple(Edge(source="", target=source, relation=Relation.DERIVED_FROM) for source in proposal.sources),
    )
    return save(engine, new)


def _propose_one(topic: str, group: Sequence[Memory], bodies: Mapping[str, str]) -> Consolidation:
    """The sections of all bodies by heading, each line once, below a link to the session that has it first."""
    sections: dict[str, dict[str, list[str]]] = {}
    known: set[str] = set()
    for memory in group:
        body, heading = bodies[memory.id], ""
        marks = {body.count("\n", 0, each.start): each.text for each in parse_headings(body)}
        for number, line in enumerate(body.splitlines()):
            heading, text = marks.get(number, heading), _EVENT.sub("", line).casefold()
            if line.strip() and number not in marks and text not in known:
                known.add(text)
                sections.setdefault(heading, {}).setdefault(memory.id, []).append(line)
    parts = []
    for heading, by_session in sections.items():
        parts += [f"## {heading}"] if heading else []
        parts += [f"From [[{name}]]:\n\n" + "\n".join(lines) for name, lines in by_session.items()]
    return Consolidation(
        title=f"{topic}: {len(group)} sessions, {group[0].created[:10]} to {group[-1].created[:10]}",
        topic=topic,
        content="\n\n".join(parts),
        sources=tuple(memory.id for memory in group),
        topics=_rank_by_count(topic for memory in group for topic in memory.topics)[:MOST_PHRASES],
        triggers=_rank_by_count(phrase for memory in group for phrase in memory.triggers)[:MOST_PHRASES],
        trust=lowest_trust(memory.provenance.trust for memory in group),
    )


def _rank_by_count(values: Iterable[str]) -> tuple[str, ...]:
    counts = Counter(values)
    return tuple(sorted(counts, key=lambda value: (-counts[value], value)))
