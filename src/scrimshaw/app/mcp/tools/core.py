"""The toolset `core`: what an agent needs in every session."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from scrimshaw.app.hooks.inject import guarded, told
from scrimshaw.app.mcp.replies import MemoryView, SearchReply, flags, labels, memory_view, said, search_reply
from scrimshaw.app.mcp.schema import tool
from scrimshaw.app.mcp.tools.acting import bound, mark_shown, session_of
from scrimshaw.engine import Engine, importing, read, sessions, trust, write
from scrimshaw.engine.context import Context, ContextRequest, context
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.similar import Similar
from scrimshaw.errors import InvalidRequest
from scrimshaw.models import (
    Degradation,
    Filters,
    Intent,
    MemoryType,
    Mode,
    Retention,
    Tier,
)
from scrimshaw.search.results import SearchRequest
from scrimshaw.search.tokens import count_tokens
from scrimshaw.session.resume import StateLine

# A reply sends its own count of tokens: no number up to 60,000 is more tokens long than this one (measured).
_LONGEST_COUNT = 34_671

Limit = Annotated[int, Meta(ge=1, le=100, description="Most hits.")]
Folder = Annotated[str, Meta(description="Only ids below this folder.", max_length=240)]
Date = Annotated[str, Meta(description="ISO date.", pattern=r"^(\d{4}(-\d\d(-\d\d.*)?)?)?$")]
MemoryId = Annotated[str, Meta(description="Memory id.", min_length=1, max_length=400)]
Content = Annotated[str, Meta(description="Markdown.", max_length=1_000_000)]


class SearchCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Parameters of memory_search."""

    query: Annotated[str, Meta(description="Question, words or an error message.", max_length=20_000)] = ""
    concepts: Annotated[tuple[str, ...], Meta(description="Instead: 2-5 concepts that must all stand.")] = ()
    cursor: Annotated[str, Meta(description="Instead: next_cursor of the page before.")] = ""
    limit: Limit | None = None
    spec_folder: Folder = ""
    source: Annotated[str, Meta(description="Only this source, such as vault, docs, specs.")] = ""
    tier: Tier | None = None
    context_type: MemoryType | None = None
    topic: str = ""
    since: Date = ""
    until: Date = ""
    intent: Annotated[Intent, Meta(description="Found from the query when absent.")] | None = None
    include_content: Annotated[bool, Meta(description="Whole texts, not excerpts.")] = False
    include_constitutional: bool = True
    include_deprecated: bool = False
    min_quality_score: Annotated[float, Meta(ge=0, le=1)] | None = None
    rerank: bool = True
    apply_length_penalty: bool = True
    use_decay: bool = True
    include_archived: bool = False
    min_state: Retention | None = None
    apply_state_limits: bool = False
    session_id: str = ""
    enable_dedup: Annotated[bool, Meta(description="Leave out what the session was shown.")] = True
    track_access: Annotated[bool, Meta(description="Hits count as read.")] = False
    token_budget: Annotated[int, Meta(ge=50, description="Most tokens of all hits.")] | None = None
    include_trace: Annotated[bool, Meta(description="Why each hit stands where it stands.")] = False


class ContextCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_context."""

    input: Annotated[str, Meta(description="The task or question at hand.", min_length=1, max_length=20_000)]
    mode: Annotated[
        Literal["auto", "quick", "focused", "deep", "resume"], Meta(description="resume: where the last session was.")
    ] = "auto"
    intent: Intent | None = None
    spec_folder: Folder = ""
    limit: Annotated[int, Meta(ge=1, le=100)] | None = None
    session_id: str = ""
    enable_dedup: bool = True
    token_usage: Annotated[float, Meta(ge=0, le=1, description="Share of your context in use.")] | None = None
    include_content: bool = False
    include_trace: bool = False


class ContextReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Context for a task; the whole reply has at most `token_budget` tokens, always-on memories apart."""

    mode: str
    requested_mode: str
    token_budget: int
    result: SearchReply
    tokens: int = 0
    pressure_level: str = "unknown"
    pressure: Mapping[str, Any] = {}
    session: Mapping[str, Any] = {}
    state: Sequence[StateLine] = ()
    state_omitted: int = 0


class GetCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_get."""

    id: MemoryId
    anchor: Annotated[str, Meta(description="Only the section of this heading.")] = ""


class GetReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory with its text, fenced where `flags` warn of it; `redacted` names classes of secrets taken out of it."""

    memory: MemoryView
    content: str
    content_hash: str
    flags: Sequence[str] = ()
    redacted: Sequence[str] = ()
    notices: Sequence[str] = ()
    degraded: Sequence[Degradation] = ()


class SaveCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_save."""

    content: Content = ""
    file_path: Annotated[str, Meta(description="Instead: a Markdown file to index or copy.")] = ""
    id: Annotated[str, Meta(description="Made from the title when absent.", max_length=240)] = ""
    title: Annotated[str, Meta(max_length=300)] = ""
    context_type: MemoryType = MemoryType.GENERAL
    importance_tier: Tier = Tier.NORMAL
    trigger_phrases: Annotated[tuple[str, ...], Meta(description="Words that should bring it up.")] = ()
    topics: tuple[str, ...] = ()
    session_id: str = ""
    force: Annotated[bool, Meta(description="Save even if the same text exists.")] = False
    dry_run: bool = False


class SaveReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`status`: saved, updated, unchanged, indexed, duplicate, dry_run, or rejected by the quality gate for `reasons`
    (correct the text, or save with force). `spans` are [start, end, class] of what was redacted.
    """

    id: str
    status: str
    content_hash: str
    path: str = ""
    redacted: Sequence[str] = ()
    spans: Sequence[Sequence[Any]] = ()
    similar: Sequence[Mapping[str, Any]] = ()
    proposals: Sequence[Mapping[str, Any]] = ()
    quality: Mapping[str, Any] | None = None
    reasons: Sequence[str] = ()
    notices: Sequence[str] = ()
    degraded: Sequence[Degradation] = ()


class UpdateCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_update."""

    id: MemoryId
    content: Annotated[str, Meta(description="New text of the memory.", max_length=1_000_000)] | None = None
    title: str | None = None
    context_type: MemoryType | None = None
    importance_tier: Tier | None = None
    trigger_phrases: tuple[str, ...] | None = None
    topics: tuple[str, ...] | None = None
    expected_hash: Annotated[str, Meta(description="content_hash you read; refused if changed since.")] | None = None
    session_id: str = ""


class TriggersCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_match_triggers."""

    prompt: Annotated[str, Meta(min_length=1, max_length=100_000)]
    limit: Annotated[int, Meta(ge=1, le=50)] = 3
    spec_folder: Folder = ""
    session_id: str = ""
    turn_number: Annotated[int, Meta(ge=1)] | None = None
    include_cognitive: Annotated[bool, Meta(description="Text by attention: whole, a start, or none.")] = True


class TriggerView(Struct, frozen=True, kw_only=True):
    """A memory whose phrases stand in the prompt; `flags` warn of its content, which is then fenced, or its title."""

    id: str
    title: str
    matched_phrases: Sequence[str]
    tier: str
    content: str
    attention: float
    state: str
    trust: str
    flags: Sequence[str]


class TriggersReply(Struct, frozen=True, kw_only=True):
    """Matches, strongest first."""

    matches: Sequence[TriggerView]


@tool(toolset="core", layer="L2", read_only=True, idempotent=True)
def memory_search(engine: Engine, call: SearchCall) -> SearchReply:
    """Find memories by meaning and words. Look here before deciding or debugging: it may be known already."""
    continues = bool(call.cursor)
    call, offset = _continued(call)
    if bool(call.query.strip()) == bool(call.concepts):
        raise InvalidRequest("A search takes a query, concepts or a cursor.", "Give exactly one.", parameter="query")
    if call.concepts and not 2 <= len(call.concepts) <= 5:
        raise InvalidRequest("A search takes 2 to 5 concepts.", "Use query for one.", parameter="concepts")
    session = bound(engine, call.session_id)
    result = read.search(
        engine,
        _request(call, offset, first=not continues),
        session,
        deduplicate=call.enable_dedup,
        track_access=call.track_access,
    )
    is_kept_in_mind = mark_shown(engine, session, result.hits)
    following = result.next_offset
    if following is not None and is_kept_in_mind and call.enable_dedup:
        following -= len(sessions.hashes(result.hits))  # these are left out of the next page already
    cursor = "" if following is None else _cursor(call, following)
    return search_reply(result, trace=call.include_trace, cursor=cursor)


@tool(toolset="core", layer="L1", read_only=True, idempotent=True)
def memory_context(engine: Engine, call: ContextCall) -> ContextReply:
    """Bring what is known for a task, within a token budget. Call it first when a task begins."""
    asked = ContextRequest(
        query=call.input,
        mode=Mode(call.mode),
        intent=call.intent,
        filters=Filters(folder=call.spec_folder),
        limit=call.limit,
        include_content=call.include_content,
        token_usage=call.token_usage,
        deduplicate=call.enable_dedup,
    )
    session = bound(engine, call.session_id)
    found = context(engine, asked, session)
    reply = _within_budget(_context_reply(found, call.include_trace))
    sent = {hit.id for hit in reply.result.hits}
    mark_shown(engine, session, [hit for hit in found.result.hits if hit.memory.id in sent])
    return reply


@tool(toolset="core", layer="L2", read_only=True, idempotent=True)
def memory_get(engine: Engine, call: GetCall) -> GetReply:
    """Read a memory, or one section of it."""
    found = read.get(engine, call.id, call.anchor)
    return GetReply(
        memory=memory_view(found.memory),
        content=guarded(found.body, found.memory.provenance.trust),
        content_hash=found.content_hash,
        flags=flags(found.body, found.memory.provenance.trust),
        redacted=found.redacted,
        notices=(notice,) if (notice := trust.notice(found.memory)) else (),
        degraded=found.degradations,
    )


@tool(toolset="core", layer="L2")
def memory_save(engine: Engine, call: SaveCall) -> SaveReply:
    """Keep a decision, finding or fix as Markdown for later sessions. Secrets are taken out; duplicates reported."""
    if bool(call.content) == bool(call.file_path):
        raise InvalidRequest("A save takes content or a file_path.", "Give exactly one.", parameter="content")
    if call.file_path:
        session = session_of(engine, call.session_id)
        path = Path(call.file_path)
        saved = importing.save_file(engine, path, force=call.force, dry_run=call.dry_run, session=session)
    else:
        saved = write.save(engine, _new_text(engine, call), force=call.force, dry_run=call.dry_run)
    return _save_reply(engine, saved)


@tool(toolset="core", layer="L4", idempotent=True)
def memory_update(engine: Engine, call: UpdateCall) -> SaveReply:
    """Change a memory's text or its front matter; what is not named stays as it is."""
    given = {
        "title": call.title,
        "type": call.context_type,
        "tier": call.importance_tier,
        "trigger_phrases": call.trigger_phrases,
        "topics": call.topics,
    }
    changes = {name: _plain(value) for name, value in given.items() if value is not None}
    if not changes and call.content is None:
        raise InvalidRequest("There is nothing to change.", "Name a key or content.", parameter="content")
    saved = write.update(
        engine,
        call.id,
        changes,
        content=call.content,
        expected_hash=call.expected_hash,
        session=session_of(engine, call.session_id),
    )
    return _save_reply(engine, saved)


@tool(toolset="core", layer="L2", read_only=True, idempotent=True)
def memory_match_triggers(engine: Engine, call: TriggersCall) -> TriggersReply:
    """Memories whose trigger phrases stand in a prompt, without a model."""
    found = read.match_triggers(
        engine,
        call.prompt,
        call.limit,
        folder=call.spec_folder,
        session=bound(engine, call.session_id),
        turn=call.turn_number,
        cognitive=call.include_cognitive,
    )
    return TriggersReply(matches=[_trigger_view(match) for match in found])


TOOLS = (
    memory_context,
    memory_search,
    memory_get,
    memory_save,
    memory_update,
    memory_match_triggers,
)


def _trigger_view(match: read.TriggerMatch) -> TriggerView:
    memory = match.memory
    trust = memory.provenance.trust
    return TriggerView(
        id=memory.id,
        title=labels(memory).title,
        matched_phrases=said(match.phrases, trust),
        tier=memory.tier,
        content=guarded(match.body, trust),
        attention=round(match.attention, 3),
        state=match.state,
        trust=trust,
        flags=flags("\n".join((memory.title, *match.phrases, match.body)), trust),
    )


def _request(call: SearchCall, offset: int, *, first: bool) -> SearchRequest:
    return SearchRequest(
        query=call.query or " ".join(call.concepts),
        all_of=call.concepts,
        filters=Filters(
            tiers=(call.tier,) if call.tier else (),
            types=(call.context_type,) if call.context_type else (),
            topics=(call.topic,) if call.topic else (),
            folder=call.spec_folder,
            source=call.source,
            since=call.since,
            until=call.until,
            include_deprecated=call.include_deprecated,
            min_quality_score=call.min_quality_score,
        ),
        limit=call.limit,
        offset=offset,
        intent=call.intent,
        constitutional=call.include_constitutional,
        first=first,
        rerank=call.rerank,
        length_penalty=call.apply_length_penalty,
        include_content=call.include_content,
        token_budget=call.token_budget,
        decay=call.use_decay,
        include_archived=call.include_archived,
        min_state=call.min_state,
        state_limits=call.apply_state_limits,
    )


def _context_reply(found: Context, trace: bool) -> ContextReply:
    session = found.session
    view = msgspec.to_builtins(found.pressure)
    return ContextReply(
        mode=found.mode,
        requested_mode=found.requested_mode,
        token_budget=found.token_budget,
        result=search_reply(found.result, trace=trace),
        pressure_level=found.pressure.level.upper(),
        pressure={name: value for name, value in view.items() if name != "level" and value not in (None, "")},
        session={"id": session.id, "events": session.counter, "continues": session.continues} if session else {},
        state=told(found.state),
        state_omitted=found.state_omitted,
    )


def _within_budget(reply: ContextReply) -> ContextReply:
    """The reply within the budget it states: without its last hits, then last lines of state, then its trace."""
    while (tokens := _sent_tokens(reply)) > reply.token_budget and (shorter := _shortened(reply)):
        reply = shorter
    return replace(reply, tokens=tokens)


def _sent_tokens(reply: ContextReply) -> int:
    """Tokens of the whole reply as sent; always-on memories have their own room and are not counted."""
    counted = replace(reply.result, hits=[hit for hit in reply.result.hits if not hit.always_on])
    sent = replace(reply, result=counted, tokens=_LONGEST_COUNT)
    return count_tokens(msgspec.json.encode(sent).decode())


def _shortened(reply: ContextReply) -> ContextReply | None:
    """The reply with one hit less or, where it has none left to lose, one line of state less or no trace."""
    result, hits = reply.result, reply.result.hits
    if hits and not hits[-1].always_on:
        return replace(reply, result=_without_last(result))
    if reply.state:
        return replace(reply, state=reply.state[:-1], state_omitted=reply.state_omitted + 1)
    return replace(reply, result=replace(result, trace=())) if result.trace else None


def _without_last(result: SearchReply) -> SearchReply:
    return replace(
        result,
        hits=result.hits[:-1],
        count=result.count - 1,
        tokens=result.tokens - result.hits[-1].tokens,
        omitted=result.omitted + 1,
    )


def _cursor(call: SearchCall, offset: int) -> str:
    """The whole call and where it continues, so that a page belongs to its search and to nothing else."""
    return base64.urlsafe_b64encode(msgspec.json.encode([offset, call])).decode()


def _continued(call: SearchCall) -> tuple[SearchCall, int]:
    """The call that a cursor continues, and from where; a call without a cursor starts at 0."""
    if not call.cursor:
        return call, 0
    try:
        offset, first = msgspec.json.decode(base64.urlsafe_b64decode(call.cursor), type=tuple[int, SearchCall])
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise InvalidRequest("The cursor is none of ours.", "Search again.", parameter="cursor") from error
    return first, max(0, offset)


def _new_text(engine: Engine, call: SaveCall) -> write.NewText:
    return write.NewText(
        content=call.content,
        id=call.id,
        title=call.title,
        type=call.context_type,
        tier=call.importance_tier,
        triggers=call.trigger_phrases,
        topics=call.topics,
        session=session_of(engine, call.session_id),
    )


def _plain(value: Any) -> object:
    return list(value) if isinstance(value, tuple) else str(value)


def _similar(engine: Engine, found: Sequence[Similar]) -> list[dict[str, Any]]:
    """What is like a saved text; the title of one that is gone meanwhile is not known to be harmless."""
    memories = read.traced(engine, engine.index.get([each.id for each in found]))
    titles = {name: labels(memory).title for name, memory in memories.items()}
    return [{**msgspec.to_builtins(each), "title": titles.get(each.id, each.id)} for each in found]


def _save_reply(engine: Engine, saved: write.Saved) -> SaveReply:
    return SaveReply(
        id=saved.id,
        status=saved.status,
        content_hash=saved.content_hash,
        path=saved.path,
        redacted=saved.redacted,
        spans=[(span.start, span.end, span.secret_class) for span in saved.spans],
        similar=_similar(engine, saved.similar),
        proposals=[msgspec.to_builtins(each) for each in saved.proposals],
        quality=msgspec.to_builtins(saved.quality) if saved.quality else None,
        reasons=saved.reasons,
        notices=saved.notices,
        degraded=engine.degradations.of(INDEX),
    )
