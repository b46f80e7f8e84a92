"""Finding entries of a session's record by words: what was read, decided, committed or went wrong. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from scrimshaw.models import Item
from scrimshaw.search.boosts import session_boost
from scrimshaw.search.tokens import STOP_WORDS, query_terms

# Wording that asks for the session itself, whatever its subject.
RECALL = re.compile(
    r"\b(recent(?:ly)?|last|latest|previous(?:ly)?|earlier|so far|just (?:did|done|now)|"
    r"where (?:were|was|did) (?:we|i)|left off|continue|resume|current (?:work|task|session)|this session|today|"
    r"what (?:did|have) (?:we|i)|progress)\b",
    re.IGNORECASE,
)
# What names no subject of its own: "recent work", "the last changes".
_SUBJECTLESS = STOP_WORDS.union(
    ["change", "changes", "context", "done", "session", "stuff", "task", "thing", "things", "work", "worked", "working"]
)
_STEM = 5
# Half of the telling words must stand in an entry that was not asked for by recall wording.
_LEAST_SHARE = 0.5
# An entry recalled as such counts at least this much, the rest comes from its first attention.
_RECALLED = 0.5


class Recalled(Struct, frozen=True, kw_only=True):
    """An item that answers a query; `score` is 0..1, `boost` the share that its attention adds."""

    item: Item
    score: float
    boost: float = 0.0


def recall(query: str, items: Sequence[Item], limit: int, attention_boost: float) -> list[Recalled]:
    """The items that answer the query, best first; newer ones first among equals.

    A query for nothing but the session itself is answered by all of them, and they are boosted by their attention.
    """
    wanted = {term[:_STEM] for term in query_terms(query)}
    asked = bool(RECALL.search(query))
    if asked and _SUBJECTLESS.issuperset(query_terms(RECALL.sub(" ", query))):
        found = [Recalled(item=item, score=1.0, boost=session_boost(item.attention, attention_boost)) for item in items]
    else:
        found = [Recalled(item=item, score=_score(item, wanted, asked)) for item in items]
    kept = [each for each in found if each.score > 0]
    return sorted(kept, key=lambda each: (-each.score, -each.boost, -each.item.event, -each.item.number))[:limit]


def _score(item: Item, wanted: set[str], asked: bool) -> float:
    text = f"{item.path} {item.text}".casefold()
    share = sum(stem in text for stem in wanted) / len(wanted) if wanted else 0.0
    matched = share if share >= _LEAST_SHARE else 0.0
    recalled = _RECALLED + (1 - _RECALLED) * item.attention if asked else 0.0
    return max(matched, recalled)
