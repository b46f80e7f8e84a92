"""What hooks give the model: at a start the state of the work, at a prompt the memories that it triggers.

Without a model or a tokenizer: a hook has a few milliseconds. Only certain matches are included.
"""

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress

from msgspec.structs import replace

from scrimshaw.app.clients.client import Client
from scrimshaw.app.hooks.fencing import (
    CHARACTERS_PER_TOKEN,
    NOTES,
    STATE_LINE,
    fence,
    fence_list,
    fence_state,
    is_withheld,
    max_tokens,
)
from scrimshaw.config import MEMORIES, TEAM, Settings
from scrimshaw.errors import NotFound, ScrimshawError, StorageFailure
from scrimshaw.ingest.events import Event
from scrimshaw.ingest.redact import redact
from scrimshaw.models import (
    CONFLICT,
    DRAFTS,
    RECORD,
    SESSIONS,
    WAITS,
    EventKind,
    Filters,
    Injected,
    Memory,
    MemoryType,
    Provenance,
    Session,
    Tier,
    Trust,
    format_time,
)
from scrimshaw.search import lineage
from scrimshaw.search.degradation import Degradations
from scrimshaw.search.passages import cut_passage, find_copies, find_revoked
from scrimshaw.search.periods import find_period
from scrimshaw.search.tokens import STEM, count_shared, find_phrases, query_terms
from scrimshaw.session.arrivals import find_other_branch, find_touched, read_arrivals
from scrimshaw.session.resume import (
    Asked,
    Occasion,
    find_asked,
    find_asked_days,
    find_subject,
    shorten_origins,
    sort_sections,
)
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.index import Index
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.place import find_arrivals
from scrimshaw.storage.ports import Query

# Tokens of an injected text: what a start is worth without crowding the context; a resume has context.resume_tokens.
START_TOKENS, CLEAR_TOKENS, RECALL_TOKENS = 930, 500, 250
MOST_RECALLED = 3
LONGEST_PROMPT = 20_000
# Of a prompt's content words, so many (or both, if it has two) must begin words of one piece of a memory, its title or
# its phrases, or of a passage of the record, and at least such a share. Together they must be as rare as so many words
# that six pieces have, each worth about the logarithm of a sixth of the number of pieces: the first number holds for
# the least share of the words, the second for all of them. Chosen on questions about recorded sessions and two young
# projects, asked of other projects too (docs/evaluation.md).
LEAST_WORDS, LEAST_SHARE, RARE_WORDS, SOME_PIECES = 3, 0.5, (3.4, 2.0), 6
_MOST_MATCHES = 8
_LABEL_TOKENS = 7  # of a line of a state beside its part, its origin and its text
_LEAST_EXCERPT, _LONGEST_EXCERPT, _LONGEST_TITLE, _LONGEST_REASON = 80, 300, 50, 1000  # characters
_LATE_SESSIONS = 2  # last sessions with work, of whose memories open points are told
_AS_SURE = 0.75  # share of the words of the best match with which a newer one goes before it
_SECOND = 200  # characters left for the line of the second best
_QUOTED_ERROR = re.compile(r"\b(?:[\w.]*(?:Error|Exception)|[Ee]rror|ERROR|fatal|panic)\b[^:\n]{0,12}: *\S.*")
_SAME_ERROR = 0.75  # share of a quoted error's words that a passage must have
_OCCASIONS = {"resume": Occasion.RESUME, "compact": Occasion.COMPACT, "clear": Occasion.CLEAR}
_LAST_ANSWERS = 40  # of the session itself, which may be on the subject that a prompt names
_OTHERS_NOTE = "What else others did to this project's memories since the last work here; see `scrimshaw digest`."
_UNRECORDED_NOTE = "This session's start could not be recorded, so it may leave no memory. The person may not know."
DEFAULTS_NOTE = "This project's settings cannot be read, so it is recorded by the defaults. The person may not know."
_DAYS_NOTE = "The sessions of the days that the prompt names."
_SUBJECT_NOTE = "Where the last session ended that the prompt brings up."
_FIX_NOTE = "What helped against such an error in an earlier session."
_RULES_NOTE = "What people of this project ruled for good about what the prompt brings up."
_RECALL_NOTE = "Notes of this project that the prompt brings up; memory_get reads one whole."


def context_injection(storage: Storage, events: Sequence[Event], settings: Settings, now: float) -> str:
    """What to tell the model. Only text that the client passes on is searched for, counted, and assumed known to it."""
    if not settings.session.injection or not settings.rollout.includes("injection", events[0].session):
        return ""
    sessions, told = storage.sessions, list[str]()
    for asked in events:
        text, recalled = "", dict[str, str]()
        if asked.kind is EventKind.START and settings.features.auto_resume:
            text = _tell_state(storage, asked, settings, now)
        elif asked.kind is EventKind.PROMPT and not asked.agent and storage.has_index:
            told_of = _tell_asked(storage, asked, settings, now)
            text = _tell_fix(storage, asked) if told_of is None else told_of
            if not text and told_of is None:
                known = sessions.hashes_shown(asked.session, since=now - settings.session.shown_minutes * 60)
                text, recalled = _recall_memories(storage, known, asked, settings)
            touched = find_touched(sessions, storage.index, asked.prompt[:LONGEST_PROMPT])
            text = "\n".join(filter(None, (fence_list(_RULES_NOTE, map(STATE_LINE.format, touched)), text)))
        if asked.kind is EventKind.START and asked.occasion != "resume" and storage.has_index:
            rules, recalled = _tell_rules(storage.index, settings.search.constitutional_tokens)
            text = "\n".join(filter(None, (rules, text)))
        if text:
            told.append(text)
            occasion, tokens, hits = _OCCASIONS.get(asked.occasion, asked.kind), max_tokens(text), text.count("\n- ")
            cost = Injected(session=asked.session, occasion=occasion, tokens=tokens, hits=hits, at=now)
            with suppress(StorageFailure, NotFound):  # what can only be read is told all the same
                sessions.mark_shown(asked.session, recalled, now=now, injected=cost)
    return "\n".join(told)


def answer_unrecorded(
    client: Client, connect: Callable[..., Storage], event: Event, settings: Settings | None, failure: ScrimshawError
) -> str:
    """What a start or prompt can be told though it was not recorded, nothing without settings; a start hears why."""
    if event.kind is EventKind.TOOL or event.kind not in client.reply_kinds:
        raise failure
    text = ""
    if settings:
        with suppress(StorageFailure), closing(connect(settings)) as storage:
            text = context_injection(storage, [event], settings, time.time())
    is_told = event.kind is EventKind.START and (settings is None or settings.session.injection)
    cure = f"Later `scrimshaw import {client.name}` brings in what was missed."
    return tell_fault(text, _UNRECORDED_NOTE, failure, cure) if is_told else text


def tell_fault(text: str, note: str, fault: ScrimshawError, *more: str) -> str:
    """The text, then what is wrong; of a value that speaks to the agent, which may have come with a clone, nothing."""
    why = redact(str(fault)).text[:_LONGEST_REASON]
    if is_withheld(re.sub("['\"]", "", why), Trust.FILE):
        why = "`scrimshaw doctor` says why."
    return f"{text}\n{fence_list(note, [why, *more])}".strip()


def _tell_state(storage: Storage, event: Event, settings: Settings, now: float) -> str:
    """What a starting session should know of the previous one, or of itself if it is resumed."""
    from scrimshaw.session.state import LONGEST_AGO_S, tell_state  # noqa: PLC0415 - only a start needs its many patterns

    occasion, unrecorded = _OCCASIONS.get(event.occasion, Occasion.START), Session(id=event.session, started=now)
    own = storage.sessions.get(event.session) or unrecorded
    index = storage.index if storage.has_index else None
    goes_on = occasion in (Occasion.RESUME, Occasion.COMPACT)
    authors, others = dict[str, str](), ""
    earlier = storage.sessions.latest(before=event.session, with_changes=True)
    earlier = earlier or storage.sessions.latest(before=event.session)  # one that only asked hides no news
    since = earlier[0].started if earlier else now - LONGEST_AGO_S
    is_new = event.occasion not in _OCCASIONS
    if is_new and (find_arrivals(settings.project, since)[1] or (settings.folder / TEAM).is_dir()):
        from scrimshaw.session import digest  # noqa: PLC0415 - few starts need to ask git

        with suppress(StorageFailure):  # git cannot be asked
            changes = digest.list_others_changes(storage, settings, since)
            authors = {each.id: " and ".join(each.by) for each in changes}
    lines = tell_state(storage.sessions, index, own, occasion, settings.folder, own_first=goes_on)
    for place, each in enumerate(lines if authors else ()):
        if each.origin in authors:
            lines[place] = replace(each, part=each.part.replace(" of ", f" of {authors[each.origin]} on ", 1))
    budget = {Occasion.START: START_TOKENS, Occasion.CLEAR: CLEAR_TOKENS}.get(occasion, settings.context.resume_tokens)
    if goes_on and lines and not lines[0].origin.startswith((f"session:{event.session}#", f"session:{event.session}/")):
        occasion = Occasion.START  # its own has no work yet
    text = fence_state(NOTES[occasion], lines, budget)
    waiting = count_waiting_drafts(settings) if settings.drafts.review else 0
    note = f"Drafts of sessions that wait for review: {waiting}; see `scrimshaw review`." if waiting else ""
    if authors:
        others = digest.describe_changes(each for each in changes if f"({each.id}, trust " not in text)
    return "\n".join(filter(None, (text, note, fence_list(_OTHERS_NOTE, [others] if others else []))))


def _tell_asked(storage: Storage, event: Event, settings: Settings, now: float) -> str | None:
    """What a prompt asks of sessions: those of days, or the last one about a subject; empty if the start told it."""
    days, words = find_asked_days(event.prompt, find_period(event.prompt, now)), tuple[str, ...]()
    if not days and find_asked(event.prompt) == Asked.SUBJECT:
        words = find_subject(event.prompt)
    if not (days or words):
        return None
    from scrimshaw.session.state import find_about, fit_lines, tell_days, tell_subject  # noqa: PLC0415 - few need its many patterns

    sessions, index, note = storage.sessions, storage.index, _DAYS_NOTE if days else _SUBJECT_NOTE
    room = RECALL_TOKENS - max_tokens(fence_list(note, [""]))
    if days:
        lines = tell_days(sessions, index, days, event.session, room, max_tokens)
        return fence_list(note, map(STATE_LINE.format, lines)) or None
    answers = sessions.events(event.session, EventKind.ANSWER, last=_LAST_ANSWERS)
    if any(count_shared(each.text, words) >= LEAST_SHARE * len(words) for each in answers):
        return None  # the session itself knows more of it
    about = find_about(index, words, event.session)
    if not (lines := tell_subject(sessions, index, about, settings.folder)):
        return None
    known = find_just_told(storage, event, settings, now)
    lines = [each for each in lines if (each.origin, each.text) not in known]
    lines, *_ = fit_lines(lines, room, lambda text: max_tokens(text) + _LABEL_TOKENS)
    return fence_list(note, map(STATE_LINE.format, shorten_origins(lines)))


def find_just_told(storage: Storage, event: Event, settings: Settings, now: float) -> set[tuple[str, str]]:
    """Origins and texts of the lines that the start told, if this prompt is the first, and no other session went on."""
    from scrimshaw.session.state import fit_lines, tell_state  # noqa: PLC0415 - as above

    sessions = storage.sessions
    starts, prompts = (sessions.events(event.session, kind) for kind in (EventKind.START, EventKind.PROMPT))
    is_told = any(each.occasion == Occasion.START for each in sessions.injections(event.session))
    others = sessions.latest(before=event.session)
    if not (is_told and starts) or len(prompts) > 1 or any(each.last_event > starts[-1].at for each in others):
        return set()
    own = sessions.get(event.session) or Session(id=event.session, started=now)
    lines = tell_state(sessions, storage.index, own, Occasion.START, settings.folder, own_first=False)
    return {(each.origin, each.text) for each in fit_lines(lines, START_TOKENS, max_tokens)[0]}


def _tell_fix(storage: Storage, event: Event) -> str:
    """What helped against the prompt's last error, without what a log puts in front, where it most likely was met."""
    *_, quoted = ("", *_QUOTED_ERROR.findall(event.prompt[:LONGEST_PROMPT]))
    words = [word for word in query_terms(quoted) if not word.isdigit()]  # numbers differ from run to run
    found = _find_passages(storage.index, words, 0.0, event)
    among = [each.provenance.session for each, text in found if count_shared(text, words) >= _SAME_ERROR * len(words)]
    if not among:
        return ""
    from scrimshaw.session.fixes import recall_fixes  # noqa: PLC0415 - few prompts quote an error

    fixes = recall_fixes(storage.sessions, None, quoted, 2 * RECALL_TOKENS, among[:1])  # a long session takes .1 s
    lines = (f"{x.date} ({x.origin}, trust {Trust.TOOL}): {x.error} - {'; '.join(x.done)}. {x.said}" for x in fixes)
    return fence_list(_FIX_NOTE, [line for line in lines if not is_withheld(line, Trust.TOOL)])


def count_waiting_drafts(settings: Settings) -> int:
    """How many drafts wait for a person, by their front matter alone."""
    waiting = 0
    for path in (settings.folder / DRAFTS).glob("*.md"):
        with suppress(OSError):  # a person may decide on it now
            waiting += WAITS.encode() in path.read_bytes().removeprefix(b"---").partition(b"\n---")[0]
    return waiting


def _tell_rules(index: Index, limit: int) -> tuple[str, dict[str, str]]:
    """Constitutional memories of at most so many tokens for the start of a context; hashes by id."""
    if not (found := index.select(Filters(tiers=(Tier.CONSTITUTIONAL,)))):
        return "", {}
    ids = tuple(memory.id for memory in found)
    trusts, bodies = lineage.find_inherited_trusts(index, ids), index.bodies(ids)
    text, hashes = "", dict[str, str]()
    for memory in found:
        if CONFLICT in memory.faults:
            continue
        longer = f"{text}{memory.title} (memory {memory.id}):\n{bodies.get(memory.id, '').strip()}\n"
        if trusts.get(memory.id, Trust.HUMAN) == Trust.HUMAN and max_tokens(longer) <= limit:
            text, hashes[memory.id] = longer, memory.content_hash
    return fence("What the people of this project decided for good.", text.rstrip()) if hashes else "", hashes


def _recall_memories(
    storage: Storage, known: Mapping[str, str], event: Event, settings: Settings
) -> tuple[str, dict[str, str]]:
    """Certain matches of a prompt that a search may show and the session has not seen in this form; hashes by id."""
    prompt, index = event.prompt[:LONGEST_PROMPT], storage.index
    words = [*{word[:STEM]: word for word in query_terms(prompt)}.values()]
    filters = Filters(min_quality_score=settings.search.min_quality_score)
    rare = math.log(max(index.count(None)[""] / SOME_PIECES, 1))
    found = _find_passages(index, words, rare, event)
    sure, others = _find_memories(storage, event, words, rare, filters, {each.provenance.session for each, _ in found})
    found += sure
    said = [each for each in found if each[0].source != RECORD or each[0].provenance.trust == Trust.AGENT]
    others += read_new_files(index, settings, said[0][0], words) if said else ()
    ranks = {each.id: lineage.rank_trust(each) for each, _ in (*said, *others)}
    pairs = [(new, old) for new, old in find_revoked([*said, *others], words) if ranks[new] <= ranks[old]]
    if over := {old for _, old in pairs} & {each.id for each, _ in said}:  # which never comes alone
        later = {new for new, old in pairs if old in over} - over
        kept = {each.id for each, _ in found} - over | later
        found = [each for each in (*found, *others) if each[0].id in kept]
    best = dict[str, tuple[tuple[int, int, str], Memory, str]]()  # by session: what has most words, or its memory
    for each, text in found:
        key = (each.provenance.session if each.provenance.source == "session" else "") or each.id
        is_known = key == event.session or (each.id in known and known[each.id].startswith(each.content_hash))
        told = cut_passage(text, words, _LONGEST_EXCERPT, f"{prompt}\n{each.title}")
        kind = 2 * (each.source != RECORD) or int(each.provenance.trust == Trust.AGENT)
        rank = (count_shared(f"{each.title}\n{told}", words) + (kind > 1), kind, each.updated)
        if told and not is_known and (key not in best or rank >= best[key][0]):
            best[key] = rank, each, text
    enough = _AS_SURE * max((shared for (shared, _, _), _, _ in best.values()), default=0)
    new = sorted(best.values(), key=lambda x: (min(x[0][0], enough), x[0][2]), reverse=True)[:MOST_RECALLED]
    shown = lineage.resolve_trust(index, {each.id: each for _, each, _ in new}, Degradations())
    lines, recalled = dict[str, str](), dict[str, str]()
    for _, each, text in new:
        room = RECALL_TOKENS * CHARACTERS_PER_TOKEN - len(fence_list(_RECALL_NOTE, [*lines, ""]))
        place = (settings.project, each.provenance.session, each.updated)
        branch = find_other_branch(storage.sessions, *place) if each.source == RECORD else ""
        room -= _SECOND if new[1:] and not lines else 0
        line = _recall_line(shown[each.id], text, words, prompt, room, f"branch {branch}, " if branch else "")
        if max_tokens(fence_list(_RECALL_NOTE, [*lines, line])) <= RECALL_TOKENS:
            lines[line], recalled[each.id] = each.updated, each.content_hash
    # What is said anew may replace what was said before, so it comes first.
    return fence_list(_RECALL_NOTE, sorted(lines, key=lines.__getitem__, reverse=True)), recalled


def _find_memories(
    storage: Storage, event: Event, words: Sequence[str], rare: float, filters: Filters, sessions: Iterable[str]
) -> tuple[list[tuple[Memory, str]], list[tuple[Memory, str]]]:
    """Memories that the prompt is surely about, by phrase or words, or of `sessions`, then other decisions; as told."""
    prompt, index = event.prompt[:LONGEST_PROMPT], storage.index
    made = {record.memory_id for name in sessions for record in storage.sessions.records(name)}
    late = {each.id for each in storage.sessions.latest(before=event.session, limit=_LATE_SESSIONS, with_work=True)}
    phrases = find_phrases(prompt, index.phrases, titles=True)
    found = index.match_text(Query((words,)), filters, _MOST_MATCHES)
    matches = {x.id: x for x in found}
    chunks = {**dict.fromkeys([*phrases, *made], 0), **{name: max(x.chunk, 0) for name, x in matches.items()}}
    memories = index.select(replace(filters, only=tuple(chunks))) if chunks else []
    texts = dict.fromkeys(chunks, "")
    texts |= {name: piece.text for (name, _), piece in index.pieces([*chunks.items()]).items()}
    sure = list[Memory]()
    for each in memories:
        # A single word that a session used often would trigger too much.
        is_single = each.provenance.source == "session" and all(" " not in x.strip() for x in phrases.get(each.id, ()))
        text = "\n".join((each.title, *each.triggers, *each.questions, texts[each.id]))
        is_meant = each.id in made or (each.id in phrases and not is_single)
        if is_meant or (each.id in matches and is_about(text, words, matches[each.id].score, rare)):
            sure.append(each)
    others = [each for each in memories if each not in sure and each.type in lineage.DECIDING]
    bodies = index.bodies([each.id for each in (*sure, *others) if each.type == MemoryType.SESSION])
    for each in (*sure, *others):
        if each.id in bodies:
            texts[each.id] = sort_sections(bodies[each.id], words, is_late=each.provenance.session in late)
    return [(each, texts[each.id]) for each in sure], [(each, texts[each.id]) for each in others]


def read_new_files(index: Index, settings: Settings, like: Memory, words: Sequence[str]) -> list[tuple[Memory, str]]:
    """Memories of sessions whose files came since the last scan, with the fields of another, and what they say."""
    files = (settings.folder.resolve() / MEMORIES / SESSIONS).glob(f"*{SUFFIX}")
    indexed = {*index.find_ids(paths=[*map(str, files)])}
    found = list[tuple[Memory, str]]()
    for each in (x for x in read_arrivals(settings.folder, indexed) if x.session):
        made = Provenance(source="session", session=each.session, trust=each.trust)
        about = {"title": each.title, "type": MemoryType.SESSION, "provenance": made, "content_hash": ""}
        one = replace(like, id=each.id, source="vault", updated=format_time(each.last_event), **about)
        found.append((one, sort_sections(each.body, words)))
    return found


def _find_passages(index: Index, words: Sequence[str], rare: float, event: Event) -> list[tuple[Memory, str]]:
    """Passages of other sessions that certainly match these words and say more than the prompt, best first."""
    filters = Filters(source=RECORD, exclude=(f"session:{event.session}",))
    matches = index.match_text(Query((words,)), filters, _MOST_MATCHES)
    scores = {(x.id, x.chunk): x.score for x in matches if x.score >= RARE_WORDS[-1] * rare}
    records, pieces = index.get([name for name, _ in scores]), index.pieces([*scores])
    texts = {place: f"{records[place[0]].title}\n{pieces[place].text}" for place in scores}
    sure = [place for place, score in scores.items() if is_about(texts[place], words, score, rare)]
    passages = index.passages(sure, records)
    found = [(passages[place], pieces[place].text) for place in sure]
    copies = {*find_copies(found, event.prompt)}
    return [each for each in found if each[0].id not in copies]


def is_about(text: str, words: Sequence[str], score: float, rare: float) -> bool:
    """Whether a text has enough of the words, and rare ones; `rare` is the score of a word that some pieces have."""
    count = count_shared(text, words)
    share = count / max(len(words), 1)
    least = RARE_WORDS[0] + (RARE_WORDS[1] - RARE_WORDS[0]) * (share - LEAST_SHARE) / (1 - LEAST_SHARE)
    has_both = count == len(words) == LEAST_WORDS - 1 and rare > 0  # among few pieces no word is rare
    is_enough = count >= LEAST_WORDS or has_both
    return is_enough and share >= LEAST_SHARE and score >= least * rare


def _recall_line(memory: Memory, text: str, words: Sequence[str], prompt: str, room: int, place: str) -> str:
    """A match with its day, place and trust, in so many characters; text that speaks to the agent is only named."""
    trust, title = memory.provenance.trust, cut_passage(memory.title, words, _LONGEST_TITLE)
    # The id of a session's memory has the day and the title in it.
    names = () if f"/{memory.updated[:10]}-" in memory.id else (memory.updated[:10], title)
    label = " ".join([*names, f"(memory {memory.id}, {place}trust {trust})"])
    if CONFLICT in memory.faults:
        return f"memory {memory.id}, trust {trust}: {CONFLICT}, not shown"
    text = cut_passage(text, words, max(_LEAST_EXCERPT, room - len(label) - 3), f"{prompt}\n{memory.title}")
    if is_withheld(f"{memory.title}\n{text}", trust):
        return f"memory {memory.id}, trust {trust}: contains instruction-like text, not shown"
    return ": ".join(filter(None, (label, text)))
