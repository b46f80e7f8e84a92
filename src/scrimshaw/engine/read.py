"""Finding and reading memories, and their review state: reading slows forgetting. Text is never changed."""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine import sessions
from scrimshaw.engine.core import GLOBAL, Engine
from scrimshaw.engine.degradations import INDEX, PROJECT, RECALL, SCAN_PENDING, SESSION
from scrimshaw.engine.query_log import log_search
from scrimshaw.engine.record import read_passage, read_prompts
from scrimshaw.errors import InvalidRequest, NotFound
from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.ingest.markdown import find_marked_sections, find_section, parse_headings
from scrimshaw.ingest.memory_file import is_private_text, parse_memory_file
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Channel, Degradation, Filters, Grade, Memory, Retention, Session, Tier, Trust, content_hash
from scrimshaw.search import decay, lineage
from scrimshaw.search.candidates import DAY_S, last_access, presence
from scrimshaw.search.degradation import Degradations, IndexPart
from scrimshaw.search.results import SearchRequest, SearchResult
from scrimshaw.search.tokens import find_phrases
from scrimshaw.session.arrivals import find_other_branch
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.ports import Review

TURN_DECAY, WARM_CHARACTERS = 0.98, 150  # of attention by turn; of a warm memory that is returned
_EVENT = re.compile(r"#e\d+(\.\d+)?\Z")
_ALL_FADED = 1000  # after so many turns attention rounds to zero in an answer
# A validation changes the confidence, 0.5 at first, by these; from this on, promotion to critical is proposed.
USEFUL, NOT_USEFUL = 0.10, 0.05
PROMOTE_CONFIDENCE, PROMOTE_REVIEWS = 0.9, 5
_NOT_REVIEWED = ("session", "record", "peer")  # records fade with their session, and peers have their own state
MOST_STABLE_DAYS = 36_500.0  # a century counts as for ever


class MemoryText(Struct, frozen=True, kw_only=True):
    """A memory with its text as the file holds it now; `redacted` names the classes of secrets removed."""

    memory: Memory
    body: str
    content_hash: str
    redacted: tuple[str, ...]
    degradations: tuple[Degradation, ...] = ()
    superseded_by: tuple[str, ...] = ()


class TriggerMatch(Struct, frozen=True, kw_only=True):
    """A memory whose trigger phrases are in a text; `attention` 0..1 decides how much of its text is returned."""

    memory: Memory
    phrases: tuple[str, ...]
    body: str
    attention: float
    state: Retention


class Validated(Struct, frozen=True, kw_only=True):
    """The confidence after a validation, 0..1 from 0.5; `promotable` if the tier critical would be justified."""

    id: str
    confidence: float
    validations: int
    promotable: bool


def search(engine: Engine, request: SearchRequest, session: Session | None = None) -> SearchResult:
    """The best memories for a query; raises InvalidRequest for a query that cannot be searched."""
    if not engine.settings.features.causal_boost:
        request = replace(request, channels=tuple(c for c in request.channels if c != Channel.GRAPH))
    around = sessions.collect_signals(engine, session, request.query, request.limit or engine.settings.search.limit)
    around = replace(around, read_prompts=partial(read_prompts, engine, session.id)) if session else around
    result, dark = engine.searcher.search_both(request, around)
    found = engine.degradations.of(INDEX, RECALL, SESSION, PROJECT)
    pending = () if SCAN_PENDING in found or result.trace[0].left or engine.index.generation() else (SCAN_PENDING,)
    if red := (*pending, *found):
        result = replace(result, degradations=(*result.degradations, *red))
    log_search(engine, request, session, result, dark)
    hits, project = [*result.hits], engine.settings.project
    for place, hit in enumerate(hits):
        of, at = hit.memory.provenance.session, hit.memory.updated
        if hit.memory.source == "record" and (branch := find_other_branch(engine.sessions, project, of, at)):
            hits[place] = replace(hit, memory=replace(hit.memory, title=f"on branch {branch}: {hit.memory.title}"))
    return replace(result, hits=tuple(hits))


def get(engine: Engine, memory_id: str, anchor: str = "") -> MemoryText:
    """The text of a memory, named as for `Engine.memory` or `NAME#ANCHOR`, or of a session's item; raises NotFound."""
    if memory_id.startswith(sessions.ITEM_PREFIX):
        return get_from_session(engine, memory_id)
    degradations = Degradations()
    try:
        stored = engine.memory(memory_id)
    except NotFound:
        name, mark, rest = memory_id.partition("#")
        if not (name and mark):
            raise
        return get(engine, f"{name}]]" if name.startswith("[[") else name, anchor or rest.removesuffix("]]"))
    memory_id = stored.id  # which a text may name in another way
    memory = lineage.resolve_trust(engine.index, {memory_id: stored}, degradations)[memory_id]
    path = Path(memory.path)
    with storage_errors("read", path):
        try:
            raw = path.read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"The file of {memory_id!r} is gone: {path}.", "Run `scrimshaw scan`.") from error
    digest = content_hash(raw)
    indexed = engine.index.bodies([memory_id]).get(memory_id) if digest == memory.content_hash else None
    body, classes = indexed or "", tuple[str, ...]()
    if indexed is None or not raw.endswith(indexed.encode()):  # otherwise nothing in it was redacted
        redacted = redact(parse_memory_file(raw, memory.path).body)
        body, classes = redacted.text, redacted.classes
    engine.known_texts[engine.person, memory_id] = hash(body)
    session = memory.provenance.session
    if session and _EVENT.fullmatch(f"#{anchor}"):  # how a line in a session's memory refers to its event
        return get(engine, f"{sessions.ITEM_PREFIX}{session}#{anchor}")
    section = find_section(body, headings := parse_headings(body, name=memory.path), anchor) if anchor else body
    if section is None:
        is_own = memory.provenance.trust == Trust.HUMAN
        anchors = dict.fromkeys([*(each.anchor for each in headings), *find_marked_sections(body)])
        known = [each for each in anchors if is_own or not is_suspicious(each)]
        raise NotFound(f"{memory.id!r} has no section {anchor!r}.", f"Its sections: {', '.join(known) or 'none'}.")
    later = tuple[str, ...]()
    with degradations.tolerate(IndexPart.GRAPH):
        later = tuple(map(attrgetter("source"), dict(engine.index.edges(memory_id, relation="supersedes", into=True))))
    text = MemoryText(memory=memory, body=section, content_hash=digest, redacted=classes, superseded_by=later)
    return replace(text, degradations=degradations.as_tuple())


def get_from_session(engine: Engine, memory_id: str) -> MemoryText:
    """The text of a session's item, such as `session:SID/3`, or of a passage of its record; raises NotFound."""
    if not re.search("[/#]", memory_id):  # its memory, or the beginning of its record
        record = next(iter(engine.sessions.records(memory_id.removeprefix(sessions.ITEM_PREFIX))), None)
        own = record.memory_id if record else ""
        return get(engine, own if engine.index.get([own]) else f"{memory_id}#e1")
    if _EVENT.search(memory_id):
        memory, body = read_passage(engine, memory_id)
        return MemoryText(memory=memory, body=body, content_hash="", redacted=())
    session, _, number = memory_id.removeprefix(sessions.ITEM_PREFIX).rpartition("/")
    item = next((item for item in engine.sessions.items(session) if str(item.number) == number), None)
    if item is None:
        raise NotFound(f"There is no session item {memory_id!r}.", "Search the session again.", id=memory_id)
    engine.sessions.mention(session, item.number)
    return MemoryText(memory=sessions.item_as_memory(item), body=item.text, content_hash="", redacted=())


def match_triggers(
    engine: Engine, text: str, limit: int, *, folder: str, session: Session | None, turn: int | None, cognitive: bool
) -> list[TriggerMatch]:
    """The memories whose trigger phrases are in a text, best first; with `cognitive` attention limits the text."""
    phrases = find_phrases(text, engine.index.phrases)
    filters = Filters(only=tuple(phrases), folder=folder, min_quality_score=engine.settings.search.min_quality_score)
    memories = engine.index.select(filters, limit=len(phrases))
    memories.sort(key=lambda memory: (-sum(map(len, phrases[memory.id])), memory.id))
    memories = [*with_trust(engine, {memory.id: memory for memory in memories[:limit]}).values()]
    attention_now = sessions.attention_by_memory(engine, session) if session else {}
    faded = TURN_DECAY ** min(turn - 1, _ALL_FADED) if turn else 1.0
    bodies = engine.index.bodies([memory.id for memory in memories])
    found = []
    for memory in memories:
        if memory.id not in bodies:  # another process may have deleted it meanwhile
            continue
        body, attention = bodies[memory.id], max(faded, attention_now.get(memory.id, 0.0))
        state = decay.retention(attention, engine.settings.forgetting.state_thresholds)
        if cognitive and state != Retention.HOT:
            body = body[:WARM_CHARACTERS] if state == Retention.WARM else ""
        named = tuple(phrases[memory.id])
        found.append(TriggerMatch(memory=memory, phrases=named, body=body, attention=attention, state=state))
    return found


def bulk_select(engine: Engine, tier: Tier, *, folder: str = "", before: str = "") -> list[Memory]:
    """The writable memories a bulk delete would take; refuses a whole constitutional or critical tier."""
    if tier in (Tier.CONSTITUTIONAL, Tier.CRITICAL) and not folder:
        hint = "Name a folder, or delete them one by one."
        raise InvalidRequest(f"All {tier} memories cannot be deleted at once.", hint, parameter="tier")
    return list_writable(engine, Filters(tiers=(tier,), folder=folder, until=before))


def list_writable(engine: Engine, filters: Filters) -> list[Memory]:
    """The memories in writable vaults that satisfy the filters, by id; no documents, which are only read."""
    return [memory for memory in engine.index.select(filters) if memory.writable]


def list_own(engine: Engine) -> list[Memory]:
    """The memories of the project's own vault, deprecated ones too; none of one that is only read."""
    return list_writable(engine, Filters(source=engine.sources[0].name, include_deprecated=True))


def may_leave(memory: Memory) -> bool:
    """Whether a memory is neither marked as private, according to its file, nor in the user's own vault."""
    try:
        return not (memory.id.startswith(GLOBAL) or is_private_text(Path(memory.path).read_text("utf-8")))
    except (OSError, UnicodeDecodeError):
        return False


def with_trust(engine: Engine, memories: Mapping[str, Memory]) -> Mapping[str, Memory]:
    """The memories, each with the trust of its lineage; the lowest if that cannot be read."""
    return lineage.resolve_trust(engine.index, memories, Degradations()) if memories else {}


def touch(engine: Engine, memories: Iterable[Memory]) -> None:
    """Count an access to memories as reviews of grade good, at most one a day each; a failure is noted."""
    for vault, other in engine.vaults.items():
        own = (each for each in memories if each.id.startswith(f"{vault}:"))
        touch(other, [replace(each, id=each.id.removeprefix(f"{vault}:")) for each in own])
    with engine.degradations.note_failure(SESSION):
        for memory in () if engine.vaults else memories:
            review = engine.journal.reviews([memory.id]).get(memory.id)
            is_due = review is None or engine.clock() - review.last_review >= DAY_S
            if is_due and memory.source not in _NOT_REVIEWED:
                engine.journal.update_review(memory.id, partial(_review, engine, memory, Grade.GOOD))


def validate(engine: Engine, memory_id: str, *, useful: bool) -> Validated:
    """Record whether a memory helped: a review, and a step of its confidence. Raises NotFound."""
    memory = engine.memory(memory_id)

    def change(before: Review | None) -> Review:
        state = _review(engine, memory, Grade.GOOD if useful else Grade.AGAIN, before)
        confidence = round(min(1.0, max(0.0, state.confidence + (USEFUL if useful else -NOT_USEFUL))), 4)
        counts = {"useful": state.useful + useful, "not_useful": state.not_useful + (not useful)}
        return replace(state, confidence=confidence, **counts)

    state = engine.journal.update_review(memory.id, change)
    promotable = state.confidence >= PROMOTE_CONFIDENCE and state.useful >= PROMOTE_REVIEWS
    times = state.useful + state.not_useful  # reading it is a review too
    return Validated(id=memory.id, confidence=state.confidence, validations=times, promotable=promotable)


def _review(engine: Engine, memory: Memory, grade: Grade, before: Review | None) -> Review:
    """The state after a review of this grade now."""
    now, settings = engine.clock(), engine.settings.forgetting
    last = before or begin_review(engine, memory)
    present = presence(memory, before, now, settings)[0]
    stability, difficulty = decay.review(last.stability, last.difficulty, present, grade)
    # A memory that did not help does not become more present by being read.
    at = now if grade is not Grade.AGAIN else (last_access(memory, before) or now)
    stability = min(stability, MOST_STABLE_DAYS)
    return replace(last, stability=stability, difficulty=difficulty, last_review=at, reviews=last.reviews + 1)


def begin_review(engine: Engine, memory: Memory) -> Review:
    """The initial state of a memory that was never reviewed."""
    stability = decay.stability_of(memory.type, memory.tier, engine.settings.forgetting.half_life_days)
    stability, difficulty = min(stability, MOST_STABLE_DAYS), decay.INITIAL_DIFFICULTY
    return Review(memory_id=memory.id, stability=stability, difficulty=difficulty, last_review=0.0)
