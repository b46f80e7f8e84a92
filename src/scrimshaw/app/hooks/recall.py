"""What a prompt brings up by itself: memories whose trigger phrases stand in it, or that hold most of its words.

Without a model and without a tokenizer: a hook has a few milliseconds. Nothing is brought up that is not certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.app.hooks import inject
from scrimshaw.ingest.phrases import heads
from scrimshaw.models import Filters, Memory
from scrimshaw.search import lineage
from scrimshaw.search.tokens import excerpt, find_phrases, match_expression, query_terms
from scrimshaw.storage.ports import Match
from scrimshaw.storage.sqlite_index import SqliteIndex

MOST_HITS = 3
TOKENS = 400
LONGEST_PROMPT = 20_000
# Of the telling words of a prompt, so many must stand in one piece of a memory, and at least so large a share.
LEAST_WORDS, LEAST_SHARE = 3, 0.6
_LOOKED_AT = 8
_EXCERPT_TOKENS = 90
_STEM = 5


class Recall(Struct, frozen=True, kw_only=True):
    """The text for a prompt, and the memories in it with their content hashes."""

    text: str
    shown: Mapping[str, str]


def recall(
    index_path: Path, prompt: str, shown: Mapping[str, str], *, busy_timeout_ms: int, min_quality_score: float
) -> Recall:
    """The memories that a prompt brings up, that search would show, and that the session was not shown as they are."""
    index = SqliteIndex(index_path, busy_timeout_ms=busy_timeout_ms, ram_scan_max=0)
    try:
        wanted = query_terms(prompt[:LONGEST_PROMPT])
        visible = Filters(min_quality_score=min_quality_score)
        chunks = _certain(index, prompt[:LONGEST_PROMPT], wanted, visible)
        found = index.select(replace(visible, only=tuple(chunks)), sort="id", limit=-1, offset=0)
        memories = {memory.id: memory for memory in found}
        fresh = [
            memories[name] for name in chunks if name in memories and shown.get(name) != memories[name].content_hash
        ][:MOST_HITS]
        return _recalled(index, fresh, chunks, wanted)
    finally:
        index.close()


def _certain(index: SqliteIndex, prompt: str, wanted: Sequence[str], visible: Filters) -> dict[str, int]:
    """Memory ids with the chunk to show: those by phrase, longest phrase first, then those by words."""
    phrases = find_phrases(prompt, index.phrases(heads(prompt), titles=True))
    by_phrase = sorted(phrases, key=lambda name: (-len(phrases[name][0]), name))
    found = dict.fromkeys(by_phrase, 0)
    if len(wanted) >= LEAST_WORDS:
        matches = index.match_text(match_expression(wanted), visible, _LOOKED_AT)
        found |= {match.id: match.chunk for match in _covering(index, matches, wanted) if match.id not in found}
    return found


def _covering(index: SqliteIndex, matches: Sequence[Match], wanted: Sequence[str]) -> list[Match]:
    pieces = index.pieces([(match.id, max(match.chunk, 0)) for match in matches])
    least = max(LEAST_WORDS, LEAST_SHARE * len(wanted))
    return [match for match in matches if match.id in pieces and _present(pieces[match.id].text, wanted) >= least]


def _present(text: str, wanted: Sequence[str]) -> int:
    folded = text.casefold()
    return sum(word[:_STEM] in folded for word in wanted)


def _recalled(
    index: SqliteIndex, memories: Sequence[Memory], chunks: Mapping[str, int], wanted: Sequence[str]
) -> Recall:
    pieces = index.pieces([(memory.id, max(chunks[memory.id], 0)) for memory in memories])
    lines: list[str] = []
    shown: dict[str, str] = {}
    room = TOKENS
    for memory in lineage.with_inherited_trust(index, {memory.id: memory for memory in memories}).values():
        text, _ = excerpt(pieces[memory.id].text if memory.id in pieces else "", wanted, _EXCERPT_TOKENS, _head)
        line = _line(memory, text)
        room -= inject.count(line)
        if room < 0:
            break
        lines.append(line)
        shown[memory.id] = memory.content_hash
    note = "Notes of this project that the prompt brings up; memory_get reads one whole."
    return Recall(text=inject.fenced(note, lines), shown=shown)


def _line(memory: Memory, text: str) -> str:
    """What is known, where it stands and who vouches; what speaks to the agent is only named."""
    trust = memory.provenance.trust
    if inject.is_withheld(f"{memory.title}\n{text}", trust):
        return f"memory {memory.id}, trust {trust}: held instruction-like text, not shown"
    return f"{memory.title} (memory {memory.id}, trust {trust}): {text}"


def _head(text: str, limit: int) -> tuple[str, int]:
    cut = text[: limit * inject.CHARACTERS_PER_TOKEN]
    return cut, inject.count(cut)
