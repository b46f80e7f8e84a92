"""What a session's record tells: its state for an agent that returns, and the entries that answer a query. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.models import Item, ItemKind, Session, Trust
from scrimshaw.search.boosts import session_boost
from scrimshaw.search.tokens import STOP_WORDS, query_terms

# Stands for what speaks to the agent and no person said; the entry can still be read by its id.
WITHHELD = "held instruction-like text, not shown"


# Why a state is asked for; each brings something different.
Occasion = StrEnum("Occasion", "START RESUME COMPACT CLEAR")


class StateLine(Struct, frozen=True, kw_only=True):
    """One thing to know, and the item it comes from (`session:SID/N`)."""

    part: str
    text: str
    origin: str
    trust: str


# A new session wants the outcome of the last one, a resumed one its working memory, a compacted one all that the
# summary may lose; whoever cleared the context wants it clear, and is only told the task, which comes first always.
# Each with the number of items of a part.
_PARTS: Mapping[Occasion, tuple[int, Sequence[str]]] = {
    Occasion.START: (3, ("decisions", "failures", "commits")),
    Occasion.RESUME: (5, ("failures", "decisions", "commits", "files", "attention")),
    Occasion.COMPACT: (8, ("decisions", "failures", "files", "commits", "attention")),
    Occasion.CLEAR: (1, ()),
}
_KINDS: Mapping[str, ItemKind] = {
    "decisions": ItemKind.DECISION,
    "failures": ItemKind.ERROR,
    "commits": ItemKind.COMMIT,
    "files": ItemKind.FILE,
}
# Wording that asks for the session itself, whatever its subject.
RECALL = re.compile(
    r"\b(recent(?:ly)?|last|latest|previous(?:ly)?|earlier|so far|just (?:did|done|now)|"
    r"where (?:were|was|did) (?:we|i)|left off|continue|resume|current (?:work|task|session)|this session|today|"
    r"what (?:did|have) (?:we|i)|progress)\b",
    re.IGNORECASE,
)
# What names no subject of its own: "recent work", "the last changes".
_SUBJECTLESS = STOP_WORDS.union(
    ["change", "changes", "context", "done", "session", "stuff", "thing", "things", "work", "worked", "working"]
)
_STEM = 5
# Half of the words that name a subject must occur in an entry that was not asked for by recall wording.
_LEAST_SHARE = 0.5
_RECALLED = 0.5  # an entry recalled as such counts at least this much, the rest comes from its first attention


def state_lines(
    session: Session, items: Sequence[Item], attention: Sequence[Item], occasion: Occasion
) -> list[StateLine]:
    """What to say about a session from its record `items` and its working memory `attention`, most useful first."""
    task = StateLine(part="task", text=session.task, origin=f"session:{session.id}", trust="human")
    lines = [task] if session.task else []
    most, parts = _PARTS[occasion]
    used: set[int] = set()
    for part in parts:
        of_kind = [item for item in items if item.kind == _KINDS.get(part)]
        ranked = sorted(of_kind, key=lambda item: (-item.attention, -item.number)) if part in _KINDS else attention
        chosen = [item for item in ranked if item.number not in used][:most]
        used.update(item.number for item in chosen)
        lines += [_item_line(part, item) for item in chosen]
    return lines


def fit_lines(lines: Sequence[StateLine], budget: int, count: Callable[[str], int]) -> tuple[list[StateLine], int, int]:
    """The first lines that fit a budget in tokens, their tokens, and how many were left out."""
    fitting, used = list[StateLine](), 0
    for line in lines:
        cost = count(f"{line.part} {line.text} {line.origin}")
        if used + cost <= budget:
            fitting.append(line)
            used += cost
    return fitting, used, len(lines) - len(fitting)


def _item_line(part: str, item: Item) -> StateLine:
    text = f"{item.path}: {item.text}" if item.path and item.path not in item.text else item.text
    if item.source.trust != Trust.HUMAN and is_suspicious(text):
        text = WITHHELD
    return StateLine(part=part, text=text, origin=f"session:{item.session}/{item.number}", trust=item.source.trust)


class RecalledItem(Struct, frozen=True, kw_only=True):
    """An item that answers a query; `score` is 0..1, `boost` the share that its attention adds."""

    item: Item
    score: float
    boost: float = 0.0


def recall_items(query: str, items: Sequence[Item], limit: int, attention_boost: float) -> list[RecalledItem]:
    """The items that answer the query, best and newest first; all, boosted, where it asks for the session itself."""
    stems = {term[:_STEM] for term in query_terms(query)}
    asks_for_session = bool(RECALL.search(query))
    has_no_subject = asks_for_session and _SUBJECTLESS.issuperset(query_terms(RECALL.sub(" ", query)))
    found = []
    for item in items:
        score, boost = 1.0, 0.0
        if has_no_subject:
            boost = session_boost(item.attention, attention_boost)
        else:
            text = f"{item.path} {item.text}".casefold()
            share = sum(stem in text for stem in stems) / len(stems) if stems else 0.0
            recalled = _RECALLED + (1 - _RECALLED) * item.attention if asks_for_session else 0.0
            score = max(share if share >= _LEAST_SHARE else 0.0, recalled)
        if score > 0:
            found.append(RecalledItem(item=item, score=score, boost=boost))
    return sorted(found, key=lambda each: (-each.score, -each.boost, -each.item.event, -each.item.number))[:limit]
