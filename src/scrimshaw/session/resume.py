"""What a returning agent should know first: the state of its session, in order of use, within a budget. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.models import Item, ItemKind, Session, Trust

# Stands for what a tool or the web said to the agent; the entry can still be read by its id.
WITHHELD = "a tool output held instruction-like text"


class Occasion(StrEnum):
    """Why a state is asked for; each brings something different."""

    START = "start"
    RESUME = "resume"
    COMPACT = "compact"
    CLEAR = "clear"


class StateLine(Struct, frozen=True, kw_only=True):
    """One thing to know, and the item it comes from (`session:SID/N`)."""

    part: str
    text: str
    origin: str
    trust: str


# A new session wants the outcome of the last one, a resumed one its working memory, a compacted one all that the
# summary may lose; whoever cleared the context wants it clear, and is only told what was going on.
PARTS: Mapping[Occasion, tuple[str, ...]] = MappingProxyType(
    {
        Occasion.START: ("task", "decisions", "failures", "commits"),
        Occasion.RESUME: ("task", "failures", "decisions", "commits", "files", "attention"),
        Occasion.COMPACT: ("task", "decisions", "failures", "files", "commits", "attention"),
        Occasion.CLEAR: ("task",),
    }
)
_KINDS: Mapping[str, ItemKind] = MappingProxyType(
    {
        "decisions": ItemKind.DECISION,
        "failures": ItemKind.ERROR,
        "commits": ItemKind.COMMIT,
        "files": ItemKind.FILE,
    }
)
_MOST_PER_PART: Mapping[Occasion, int] = MappingProxyType(
    {Occasion.START: 3, Occasion.RESUME: 5, Occasion.COMPACT: 8, Occasion.CLEAR: 1}
)


def state_lines(
    session: Session, items: Sequence[Item], attention: Sequence[Item], occasion: Occasion
) -> list[StateLine]:
    """What there is to say about a session, most useful first.

    `items` are its whole record, ranked here by first attention and newness; `attention` its working memory, best
    first. Nothing is said twice, and what has no evidence is not said.
    """
    most = _MOST_PER_PART[occasion]
    lines: list[StateLine] = []
    said: set[int] = set()
    for part in PARTS[occasion]:
        if part == "task":
            lines += [_task(session)] if session.task else []
            continue
        chosen = [item for item in _of_part(part, items, attention) if item.number not in said][:most]
        said |= {item.number for item in chosen}
        lines += [_line(part, item) for item in chosen]
    return lines


def fitted(lines: Sequence[StateLine], budget: int, count: Callable[[str], int]) -> tuple[list[StateLine], int, int]:
    """The first lines that fit a budget in tokens, their tokens, and how many were left out."""
    kept: list[StateLine] = []
    used = 0
    for line in lines:
        cost = count(f"{line.part} {line.text} {line.origin}")
        if used + cost <= budget:
            kept.append(line)
            used += cost
    return kept, used, len(lines) - len(kept)


def _of_part(part: str, items: Sequence[Item], attention: Sequence[Item]) -> list[Item]:
    if part == "attention":
        return list(attention)
    of_kind = [item for item in items if item.kind == _KINDS[part]]
    return sorted(of_kind, key=lambda item: (-item.attention, -item.number))


def _task(session: Session) -> StateLine:
    return StateLine(part="task", text=session.task, origin=f"session:{session.id}", trust="human")


def _line(part: str, item: Item) -> StateLine:
    text = f"{item.path}: {item.text}" if item.path and item.path not in item.text else item.text
    if item.source.trust in (Trust.TOOL, Trust.WEB) and is_suspicious(text):
        text = WITHHELD
    return StateLine(part=part, text=text, origin=f"session:{item.session}/{item.number}", trust=item.source.trust)
