"""What the model is told by hooks: at a start where things stand, at a prompt the memories that it brings up.

Without a model and without a tokenizer: a hook has a few milliseconds. Nothing is brought up that is not certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from scrimshaw.app.clients.client import Client
from scrimshaw.app.hooks.fencing import CHARACTERS_PER_TOKEN, fence_list, fence_state, is_withheld, max_tokens
from scrimshaw.config import Settings
from scrimshaw.ingest.comparison import find_heads
from scrimshaw.ingest.events import Event
from scrimshaw.models import EventKind, Filters, Injected, Memory
from scrimshaw.search import lineage
from scrimshaw.search.tokens import excerpt, find_phrases, query_terms
from scrimshaw.session.resume import Occasion
from scrimshaw.storage.databases import INDEX, Storage
from scrimshaw.storage.ports import Index, Query, Sessions

# Tokens of an injected text: what a start is worth without crowding the context; a resume has context.resume_tokens.
START_TOKENS, CLEAR_TOKENS, RECALL_TOKENS = 930, 200, 400
MOST_RECALLED = 3
LONGEST_PROMPT = 20_000
# Of the telling words of a prompt, so many must stand in one piece of a memory, and at least so large a share.
LEAST_WORDS, LEAST_SHARE = 3, 0.6
_MOST_MATCHES = 8
_EXCERPT_TOKENS = 90
_STEM = 5
_OCCASIONS = {"resume": Occasion.RESUME, "compact": Occasion.COMPACT, "clear": Occasion.CLEAR}
_RECALL_NOTE = "Notes of this project that the prompt brings up; memory_get reads one whole."


def context_injection(client: Client, storage: Storage, event: Event, settings: Settings, now: float) -> str:
    """What to print. Only what the client hands on is looked for, counted, and held to be known to its model."""
    if event.kind not in client.reply_kinds or not settings.session.injection:
        return ""
    text, recalled, sessions = "", dict[str, str](), storage.sessions
    if event.kind is EventKind.START and settings.features.auto_resume:
        text = _tell_state(sessions, event, settings)
    elif event.kind is EventKind.PROMPT and not event.agent and (settings.folder / INDEX).exists():
        text, recalled = _recall_memories(storage.index, sessions, event, settings)
    if text:
        occasion = _OCCASIONS.get(event.occasion, event.kind)
        hits = text.count("\n- ")
        cost = Injected(session=event.session, occasion=occasion, tokens=max_tokens(text), hits=hits, at=now)
        sessions.mark_shown(event.session, recalled, now=now, injected=cost)
    return client.format_reply(event.kind, text)


def _tell_state(sessions: Sessions, event: Event, settings: Settings) -> str:
    """What a starting session should know of the one before, or of itself when it comes back."""
    from scrimshaw.session.state import fit_lines, tell_state  # noqa: PLC0415 - only a start needs its many patterns

    occasion, own = _OCCASIONS.get(event.occasion, Occasion.START), sessions.get(event.session)
    goes_on = occasion in (Occasion.RESUME, Occasion.COMPACT)
    lines = tell_state(sessions, own, occasion, with_own=goes_on) if own else []
    budget = {Occasion.START: START_TOKENS, Occasion.CLEAR: CLEAR_TOKENS}.get(occasion, settings.context.resume_tokens)
    if goes_on and lines and not lines[0].origin.startswith((f"session:{event.session}#", f"session:{event.session}/")):
        occasion = Occasion.START  # its own holds no work yet
    return fence_state(fit_lines(lines, budget, max_tokens)[0], occasion)


def _recall_memories(index: Index, sessions: Sessions, event: Event, settings: Settings) -> tuple[str, dict[str, str]]:
    """What a prompt brings up that a search shows and the session has not seen as it is; hashes by memory id."""
    prompt, known = event.prompt[:LONGEST_PROMPT], sessions.hashes_shown(event.session)
    words = query_terms(prompt)
    filters = Filters(min_quality_score=settings.search.min_quality_score)
    chunks = _certain_chunks(index, prompt, words, filters)
    found = index.select(replace(filters, only=tuple(chunks)), sort="id", limit=-1, offset=0)
    memories = {memory.id: memory for memory in found}
    new = [name for name in chunks if name in memories and known.get(name) != memories[name].content_hash]
    traced = lineage.with_inherited_trust(index, {name: memories[name] for name in new[:MOST_RECALLED]})
    pieces = index.pieces([(name, max(chunks[name], 0)) for name in traced])
    lines: list[str] = []
    recalled: dict[str, str] = {}
    room = RECALL_TOKENS
    for name, memory in traced.items():
        line = _recall_line(memory, pieces[name].text if name in pieces else "", words)
        room -= max_tokens(line)
        if room < 0:
            break
        lines.append(line)
        recalled[name] = memory.content_hash
    return fence_list(_RECALL_NOTE, lines), recalled


def _certain_chunks(index: Index, prompt: str, words: Sequence[str], filters: Filters) -> dict[str, int]:
    """Memory ids with the chunk to show: those by phrase, longest phrase first, then those by words."""
    phrases: Mapping[str, Sequence[str]] = find_phrases(prompt, index.phrases(find_heads(prompt), titles=True))
    found = dict.fromkeys(sorted(phrases, key=lambda name: (-len(phrases[name][0]), name)), 0)
    matches = index.match_text(Query((words,)), filters, _MOST_MATCHES) if len(words) >= LEAST_WORDS else []
    pieces = index.pieces([(match.id, max(match.chunk, 0)) for match in matches])
    least = max(LEAST_WORDS, LEAST_SHARE * len(words))
    for match in matches:
        text = pieces[match.id].text.casefold() if match.id in pieces else ""
        if match.id not in found and text and sum(word[:_STEM] in text for word in words) >= least:
            found[match.id] = match.chunk
    return found


def _recall_line(memory: Memory, text: str, words: Sequence[str]) -> str:
    """What is known, where it stands and who vouches; what speaks to the agent is only named."""

    def cut_head(text: str, limit: int) -> tuple[str, int]:
        cut = text[: limit * CHARACTERS_PER_TOKEN]
        return cut, max_tokens(cut)

    text, _ = excerpt(text, words, _EXCERPT_TOKENS, cut_head)
    trust = memory.provenance.trust
    if is_withheld(f"{memory.title}\n{text}", trust):
        return f"memory {memory.id}, trust {trust}: held instruction-like text, not shown"
    return f"{memory.title} (memory {memory.id}, trust {trust}): {text}"
