"""The toolset `core`: what an agent needs in every session."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from scrimshaw.app.hooks.fencing import fence_if_suspicious, neutralise_state_lines, remove_marks
from scrimshaw.app.mcp import replies
from scrimshaw.app.mcp.schema import RARE, Call, describe, tool
from scrimshaw.app.processes import list_ancestors
from scrimshaw.engine import Engine, counts, importers, links, query_log, read, sessions, write
from scrimshaw.engine.context import ContextRequest, add_state, context
from scrimshaw.engine.degradations import INDEX, SESSION
from scrimshaw.engine.trust import describe_claim
from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.comparison import TOKEN_CHARACTERS
from scrimshaw.ingest.events import redact_id
from scrimshaw.ingest.markdown import parse_headings
from scrimshaw.ingest.memory_file import LONGEST_QUESTION, MOST_QUESTIONS
from scrimshaw.models import (
    Channel,
    Degradation,
    Filters,
    Intent,
    MemoryType,
    Mode,
    Pressure,
    Retention,
    Session,
    Tier,
    VaultName,
)
from scrimshaw.router import ask
from scrimshaw.router.kinds import PREFIX
from scrimshaw.search.results import SearchRequest, SearchResult, StateLine
from scrimshaw.search.tokens import query_terms
from scrimshaw.session.fixes import Fix, recall_fixes
from scrimshaw.session.resume import RECALL, find_asked, shorten_origins

LONGEST_TEXT = 24_000  # characters of a memory in one answer: clients refuse answers of more than some 25,000 tokens
_LONGEST_COUNT = 99_999  # a reply contains its own token count, and no budget is larger

Limit = Annotated[int, describe("Maximum hits.", ge=1, le=100)]
Folder = Annotated[str, describe("Only below this folder, or any whose path ends in it.", max_length=240)]
Until = Annotated[str, describe("Updated on this ISO date or before.")]
IncludeDeprecated = Annotated[bool, describe("Retired memories too.")]
SessionId = Annotated[str, RARE, describe("Default: the session of the client that started the server.")]
DryRun = Annotated[bool, describe("Only say what would happen.")]
MemoryId = Annotated[str, describe("Id of a memory.", min_length=1, max_length=400)]
Questions = Annotated[
    tuple[Annotated[str, Meta(max_length=LONGEST_QUESTION)], ...],
    describe("2-5 future questions that it answers, in other words.", max_length=MOST_QUESTIONS),
]

Asks = Annotated[Intent, describe("Purpose: decides mode auto, does not affect ranking.")]
Share = Annotated[float, Meta(ge=0, le=1)]
WholeTexts = Annotated[bool, describe("Whole texts, as the budget allows.")]
Deduplicate = Annotated[bool, RARE, describe("Shorten what you were already shown to a sentence.")]
Explain = Annotated[bool, RARE, describe("Explain the rank of each hit.")]
Phrases = Annotated[tuple[str, ...], describe("Phrases that trigger it.")]
Topics = Annotated[tuple[str, ...], describe("Subjects, one or two words each.")]
StatedVault = Annotated[
    VaultName, describe("Serena's memories or the project's own vault; default: Serena's if it has only those.")
]
StatedTier = Annotated[Tier, describe("Importance; temporary is deleted after a week, constitutional needs a person.")]


class FilterCall(Call, frozen=True, kw_only=True):
    """Parameters of a tool that chooses memories; they come after its own."""

    folder: Folder = ""
    source: Annotated[str, describe("Only this source, such as vault, docs, specs.")] = ""
    tier: Annotated[Tier, describe("Only this tier.")] | None = None
    type: Annotated[MemoryType, describe("Only this type.")] | None = None
    topic: Annotated[str, describe("Only with this topic.")] = ""
    since: Annotated[str, describe("Updated on this ISO date or later.")] = ""


class SearchCall(FilterCall, frozen=True, omit_defaults=True):
    query: Annotated[str, describe("Question, words or an error message.", max_length=20_000)] = ""
    concepts: Annotated[tuple[str, ...], RARE, describe("Instead: 2-5 concepts that must all occur.")] = ()
    cursor: Annotated[str, describe("next_cursor of this query's previous page.", pattern=r"^\d{0,9}$")] = ""
    limit: Limit | None = None
    until: Annotated[Until, RARE] = ""
    intent: Annotated[Asks | None, RARE] = None
    include_content: WholeTexts = False
    include_constitutional: Annotated[bool, RARE, describe("Always-on memories first.")] = True
    include_deprecated: Annotated[IncludeDeprecated, RARE] = False
    min_quality_score: Annotated[Share | None, RARE, describe("Only memories of this quality or better.")] = None
    min_confidence: Annotated[
        Share | None, RARE, describe("No hits unless one is this sure; 0 shows all; default 0.5.")
    ] = None
    channels: Annotated[tuple[Channel, ...], RARE, describe("Only these; vector includes peers.")] = ()
    rerank: Annotated[bool, RARE, describe("Compare the best hits with the query once more.")] = True
    apply_length_penalty: Annotated[bool, RARE, describe("Rank very short and very long texts lower.")] = True
    use_decay: Annotated[bool, RARE, describe("Rank faded memories lower.")] = True
    include_archived: Annotated[bool, RARE, describe("False leaves out what has faded.")] = True
    min_state: Annotated[Retention | None, RARE, describe("Only at least this fresh.")] = None
    apply_state_limits: Annotated[bool, RARE, describe("Limit hits per state of freshness.")] = False
    session_id: SessionId = ""
    enable_dedup: Deduplicate = True
    track_access: Annotated[bool, RARE, describe("Count hits as read; always on in a session.")] = False
    token_budget: Annotated[
        Annotated[int, Meta(ge=50)] | None, RARE, describe("Tokens of the reply, 4 characters each; default 600.")
    ] = None
    include_trace: Explain = False


class ContextReply(Struct, frozen=True, omit_defaults=True):
    """Context for a task; the whole reply has at most `token_budget` tokens of four characters, except always-on
    memories and one hit.
    """

    mode: str
    requested_mode: str
    token_budget: int
    result: replies.SearchReply
    tokens: int = 0
    pressure_level: str = ""
    pressure: Mapping[str, Any] = {}
    session: Mapping[str, Any] = {}
    state: Sequence[StateLine] = ()
    state_omitted: int = 0
    extraction_count: int = 0  #: what was kept of the session's calls and words, and of how much a secret was taken out
    redaction_count: int = 0


class GetReply(Struct, frozen=True, omit_defaults=True):
    """A memory with its text, fenced if `flags` warn of it; `redacted` names classes of secrets removed from it."""

    memory: Mapping[str, Any]
    content: str
    content_hash: str
    superseded_by: Sequence[str] = ()
    flags: Sequence[str] = ()
    redacted: Sequence[str] = ()
    omitted: int = 0  #: the characters after those that are sent of a long text
    notices: Sequence[str] = ()
    degraded: Sequence[Degradation] = ()


class SaveReply(write.Saved, frozen=True, kw_only=True, omit_defaults=True):
    """`status`: saved, updated, unchanged, indexed, duplicate, dry_run, or rejected by the quality gate for `reasons`
    (correct the text, or save with force). `spans` are [start, end, class] of what was redacted.
    """

    spans: tuple[Any, ...] = ()
    degraded: Sequence[Degradation] = ()


class TriggersReply(Struct, frozen=True, omit_defaults=True):
    """Memories whose phrases occur in the prompt, strongest first; `flags` warn of a text, which is then fenced."""

    matches: Sequence[Mapping[str, Any]]
    degraded: Sequence[Degradation] = ()


@tool(toolset="core", read_only=True)
def memory_context(
    engine: Engine,
    query: Annotated[str, describe("The task or question at hand.", min_length=1, max_length=20_000)],
    mode: Annotated[
        Literal["auto", "quick", "focused", "deep", "resume"], describe("resume: where the last session ended.")
    ] = "auto",
    intent: Annotated[Asks | None, RARE] = None,
    folder: Folder = "",
    limit: Annotated[Limit | None, RARE] = None,
    session_id: SessionId = "",
    enable_dedup: Deduplicate = True,
    token_usage: Annotated[Share, describe("Share of your context in use.")] | None = None,
    include_content: WholeTexts = False,
    include_trace: Explain = False,
) -> ContextReply:
    """Get what is known for a task, within a token budget. Call it first when a task begins."""
    request = ContextRequest(
        query=query,
        mode=Mode(mode),
        intent=intent,
        filters=Filters(folder=folder),
        limit=limit,
        include_content=include_content,
        token_usage=token_usage,
        record=True,
        min_confidence=engine.settings.search.min_confidence,
    )
    session = find_session(engine, session_id)
    found = context(engine, request, session, find=ask.search)
    pressure = msgspec.to_builtins(found.pressure) if found.pressure.source != "unknown" else {}
    sources = [item.source for item in engine.sessions.items(session.id)] if session else []
    result = _leave_out_old_news(engine, found.result, session, include_trace)
    reply = replies.copy_fields(
        ContextReply,
        found,
        result=replies.search_reply(result),
        pressure_level="" if found.pressure.level == Pressure.UNKNOWN else found.pressure.level.upper(),
        pressure={name: each for name, each in pressure.items() if name != "level" and each not in (None, "")},
        session={"id": session.id, "events": session.counter, "continues": session.continues} if session else {},
        state=(*shorten_origins(neutralise_state_lines(found.state)),),
        extraction_count=len(sources),
        redaction_count=sum(each.redaction_applied for each in sources),
    )
    known = sessions.find_shown(engine, session) if session and enable_dedup else {}
    reply, sent = _fit_context(reply, result, request, known, trace=include_trace)
    _mark_shown(engine, session, sent)
    return reply


@tool(toolset="core", read_only=True)
def memory_search(engine: Engine, call: SearchCall) -> replies.SearchReply:
    """Search memories by meaning and words. Look here before deciding or debugging: it may be known already."""
    if bool(call.query.strip()) == bool(call.concepts):
        raise InvalidRequest("A search takes a query or concepts.", "Give exactly one.", parameter="query")
    if call.concepts and not 2 <= len(call.concepts) <= 5:
        raise InvalidRequest("A search takes 2 to 5 concepts.", "Use query for one.", parameter="concepts")
    session, settings = find_session(engine, call.session_id), engine.settings.search
    request = replies.copy_fields(
        SearchRequest,
        call,
        query=call.query or " ".join(call.concepts),
        all_of=call.concepts,
        channels=call.channels or tuple(Channel),
        filters=filters_of(engine, call),
        offset=int(call.cursor or 0),
        constitutional=call.include_constitutional,
        first=not call.cursor,
        record=True,
        min_confidence=settings.min_confidence if call.min_confidence is None else call.min_confidence,
        length_penalty=call.apply_length_penalty,
        decay=call.use_decay,
        state_limits=call.apply_state_limits,
    )
    result = ask.search(engine, request, session)
    known = sessions.find_shown(engine, session) if session and call.enable_dedup else {}
    result = _leave_out_old_news(engine, result, session, call.include_trace)
    budget = call.token_budget or settings.token_budget
    # Few queries ask for sessions; what looks for them is not in the path of the others.
    if result.period or RECALL.search(call.query) or find_asked(call.query):
        result = add_state(engine, call.query, result, session, budget)
        result = replace(result, state=(*shorten_origins(neutralise_state_lines(result.state)),))
    fixes = list[Fix]()
    with engine.degradations.note_failure(SESSION):
        fixes += () if request.offset else recall_fixes(engine.sessions, engine.index, call.query, budget)
    tell = partial(replace, fixes=tuple(replies.public_words(fixes)), state=result.state)
    terms = query_terms(request.query)
    result = replies.fit_reply(result, terms, budget, known, is_whole=call.include_content, wrap=tell)
    if call.track_access or session:
        read.touch(engine, [hit.memory for hit in result.hits])
    _mark_shown(engine, session, result)
    return tell(replies.search_reply(result, trace=call.include_trace))


@tool(toolset="core", read_only=True, idempotent=True)
def memory_get(
    engine: Engine,
    id: MemoryId,
    anchor: Annotated[str, describe("Only the section of this heading or ANCHOR; e12: that event.")] = "",
    offset: Annotated[int, RARE, describe("Of a long text, go on from this character.", ge=0)] = 0,
) -> GetReply:
    """Read a memory, or one section of it."""
    found = ask.get_from_peer(engine, id) if id.startswith(PREFIX) else read.get(engine, id, anchor)
    read.touch(engine, [found.memory])
    query_log.append(engine, query_log.LoggedRead(at=engine.clock(), id=found.memory.id))
    trust, notices = found.memory.provenance.trust, [*filter(None, [describe_claim(found.memory)])]
    end = offset + LONGEST_TEXT
    if omitted := len(found.body[end:]):
        names = () if anchor else (each.anchor for each in parse_headings(found.body, name=found.memory.path))
        sections = ", ".join(replies.visible_phrases(islice(names, 40), trust))
        notices.append(f"It is long: go on with offset {end}{' or an anchor: ' if sections else ''}{sections}.")
    return GetReply(
        memory=replies.public_memory(found.memory),
        content=fence_if_suspicious(found.body, trust, slice(offset, end)),
        content_hash=found.content_hash,
        superseded_by=[*map(remove_marks, found.superseded_by)],
        flags=replies.warnings(found.body, trust),
        redacted=found.redacted,
        omitted=omitted,
        notices=tuple(notices),
        degraded=found.degradations,
    )


@tool(toolset="core")
def memory_save(
    engine: Engine,
    content: Annotated[str, describe("Markdown.", max_length=1_000_000)] = "",
    file_path: Annotated[str, describe("Instead: a Markdown file to index or copy.")] = "",
    id: Annotated[str, describe("Default: from the title.", max_length=240)] = "",
    title: Annotated[str, describe("One line; default: from the text.", max_length=300)] = "",
    type: Annotated[MemoryType, describe("Default: guessed from the text.")] | None = None,
    tier: StatedTier = Tier.NORMAL,
    trigger_phrases: Phrases = (),
    topics: Topics = (),
    questions: Questions = (),
    supersedes: Annotated[tuple[str, ...], describe("Ids that it replaces.")] = (),
    vault: Annotated[StatedVault | None, RARE] = None,
    session_id: SessionId = "",
    force: Annotated[bool, describe("Save even if the same text exists.")] = False,
    dry_run: Annotated[DryRun, RARE] = False,
) -> SaveReply:
    """Save a decision, finding or fix as Markdown for later sessions, with the questions that it answers.

    Secrets are removed; duplicates reported.
    """
    if bool(content) == bool(file_path):
        raise InvalidRequest("A save takes content or a file_path.", "Give exactly one.", parameter="content")
    session, replaced = session_id_of(engine, session_id), (*map(engine.memory, supersedes),)
    if file_path:
        importers.demand_inside(engine, file_path)
        place, where = Path(file_path), vault or ""
        saved = importers.save_file(engine, place, force=force, dry_run=dry_run, session=session, vault=where)
    else:
        text = write.NewText(
            content=content.removesuffix("\n") + "\n",  # as text files end
            id=id,
            title=title,
            type=type,
            tier=tier,
            triggers=trigger_phrases,
            topics=topics,
            questions=questions,
            vault=vault or write.choose_vault(engine, id),
            session=session,
        )
        saved = write.save(engine, text, force=force, dry_run=dry_run)
    return _save_reply(engine, links.supersede(engine, saved, replaced, session) if replaced else saved)


@tool(toolset="core", idempotent=True)
def memory_update(
    engine: Engine,
    id: MemoryId,
    content: Annotated[str, describe("New text of the memory.", max_length=1_000_000)] | None = None,
    title: Annotated[str, describe("One line.")] | None = None,
    type: Annotated[MemoryType, describe("Kind of knowledge.")] | None = None,
    tier: StatedTier | None = None,
    trigger_phrases: Phrases | None = None,
    topics: Topics | None = None,
    questions: Questions | None = None,
    expected_hash: Annotated[str | None, RARE, describe("content_hash you read; refused if changed since.")] = None,
    session_id: SessionId = "",
) -> SaveReply:
    """Change a memory's text or front matter; omitted parameters stay unchanged."""
    given: dict[str, Any] = {"title": title, "type": type, "tier": tier}
    given |= {"trigger_phrases": trigger_phrases, "topics": topics, "questions": questions}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes and content is None:
        raise InvalidRequest("There is nothing to change.", "Name a key or content.", parameter="content")
    session, text = session_id_of(engine, session_id), content and content.removesuffix("\n") + "\n"
    saved = write.update(engine, id, changes, content=text, expected_hash=expected_hash, session=session, careful=True)
    return _save_reply(engine, saved)


@tool(toolset="core", read_only=True)
def memory_match_triggers(
    engine: Engine,
    prompt: Annotated[str, describe("The person's prompt.", min_length=1, max_length=100_000)],
    limit: Annotated[int, describe("Maximum memories.", ge=1, le=50)] = 3,
    folder: Folder = "",
    session_id: SessionId = "",
    turn_number: Annotated[
        Annotated[int, Meta(ge=1)] | None, RARE, describe("Turn of the conversation; default: counted.")
    ] = None,
    include_cognitive: Annotated[bool, RARE, describe("Text by attention: whole, a start, or none.")] = True,
) -> TriggersReply:
    """Find memories whose trigger phrases occur in a prompt, without a model."""
    session = find_session(engine, session_id)
    found = read.match_triggers(
        engine, prompt, limit, folder=folder, session=session, turn=turn_number, cognitive=include_cognitive
    )
    return TriggersReply(matches=[_public_match(match) for match in found], degraded=engine.degradations.of(INDEX))


def find_session(engine: Engine, session_id: str) -> Session | None:
    """The session a question belongs to; if the journal fails, none, and the answer says so.

    None on a team's server: sessions are stored where they run, on each person's machine.
    """
    if not engine.team:
        with engine.degradations.note_failure(SESSION):
            found = sessions.bind_session(engine, session_id, list_ancestors())
            engine.degradations.clear(SESSION)
            return found
    return None


def session_id_of(engine: Engine, session_id: str) -> str:
    """The named session, otherwise that of the client which started this server, otherwise none."""
    if session_id:
        return redact_id(session_id)
    found = engine.sessions.latest(processes=list_ancestors())
    return found[0].id if found else ""


def filters_of(engine: Engine, call: FilterCall) -> Filters:
    """The filters in a call that searches, lists or counts; raises NotFound for an unknown source or folder."""
    if (call.source or call.folder) and not engine.vaults:  # of several, each has its own
        counts.demand_known(engine, Filters(source=call.source, folder=call.folder))
    tiers, types = (call.tier,) if call.tier else (), (call.type,) if call.type else ()
    return replies.copy_fields(Filters, call, tiers=tiers, types=types, topics=(call.topic,) if call.topic else ())


def _leave_out_old_news(engine: Engine, result: SearchResult, session: Session | None, trace: bool) -> SearchResult:
    """The result without degradations that the session got recently, unless it asks for a trace."""
    if session is None or trace:
        return result
    now = engine.clock()
    since = now - engine.settings.session.shown_minutes * 60
    news = engine.degradations.find_news(session.id, result.degradations, now=now, since=since)
    return replace(result, degradations=news)


def _mark_shown(engine: Engine, session: Session | None, result: SearchResult) -> None:
    """Remember which passages a session is shown; if the journal fails, it will be shown them again."""
    if session:
        with engine.degradations.note_failure(SESSION):
            sessions.mark_shown(engine, session, (*result.always_on, *result.hits))


def _fit_context(
    reply: ContextReply, found: SearchResult, asked: SearchRequest, known: Mapping[str, str], *, trace: bool
) -> tuple[ContextReply, SearchResult]:
    """The reply within its budget, except one hit and always-on memories; first the state is cut, then hits."""
    room = reply.token_budget * TOKEN_CHARACTERS

    def wrap(result: replies.SearchReply) -> ContextReply:
        return replace(reply, result=result, tokens=_LONGEST_COUNT)

    def measure(result: SearchResult, *, explain: bool = False) -> int:
        return replies.count_reply(replies.search_reply(result, trace=explain), wrap)

    fit = partial(replies.fit_reply, found, query_terms(asked.query), reply.token_budget, known, wrap=wrap)
    result = fit(is_whole=asked.include_content)
    while reply.state and measure(result) > room:
        reply = replace(reply, state=reply.state[:-1], state_omitted=reply.state_omitted + 1)
        result = fit(is_whole=asked.include_content)
    is_explained = trace and measure(result, explain=True) <= room
    tokens = -(-measure(result, explain=is_explained) // TOKEN_CHARACTERS)
    return replace(reply, result=replies.search_reply(result, trace=is_explained), tokens=tokens), result


def _public_match(match: read.TriggerMatch) -> dict[str, Any]:
    memory, trust = match.memory, match.memory.provenance.trust
    return {
        "id": memory.id,
        "title": replies.public_title(memory),
        "matched_phrases": replies.visible_phrases(match.phrases, trust),
        "tier": memory.tier,
        "content": fence_if_suspicious(match.body, trust),
        "attention": round(match.attention, 3),
        "state": match.state,
        "trust": trust,
        "flags": replies.warnings("\n".join((memory.title, *match.phrases, match.body)), trust),
    }


def _save_reply(engine: Engine, saved: write.Saved) -> SaveReply:
    similar, spans = saved.similar, tuple(map(msgspec.structs.astuple, saved.spans))
    if similar:  # the title of one that was deleted meanwhile may not be harmless
        known = read.with_trust(engine, engine.index.get([each.id for each in similar]))
        titles = {each.id: replies.public_title(known[each.id]) if each.id in known else each.id for each in similar}
        similar = tuple(replace(each, title=titles[each.id]) for each in similar)
    if saved.proposals:
        saved = replace(saved, notices=(*saved.notices, "To state a proposal, save the same text with `supersedes`."))
    return replies.copy_fields(SaveReply, saved, spans=spans, similar=similar, degraded=engine.degradations.of(INDEX))
