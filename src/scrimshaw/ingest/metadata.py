"""What front matter says, in the words of the model; tolerant of older spellings and loose shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

from scrimshaw.models import MemoryType, Provenance, Quality, Tier, Trust

Values = Mapping[str, object]
Clean = Callable[[str], str]
_Member = TypeVar("_Member", bound=StrEnum)

SPELLINGS = {
    "type": ("contextType", "context_type"),
    "tier": ("importance_tier", "importanceTier"),
    "trigger_phrases": ("triggerPhrases", "triggers"),
    "topics": ("tags",),
}


def spelling(values: Values, key: str) -> str:
    """The name under which the file knows a key: its own name first, then the older ones."""
    names = (key, *SPELLINGS.get(key, ()))
    return next((name for name in names if name in values), key)


def line(value: object) -> str:
    """A scalar on one line; nothing for a list or a mapping."""
    return " ".join(value.split()) if isinstance(value, str) else ""


def title(values: Values, clean: Clean) -> str:
    return clean(line(values.get("title"))).strip()


def memory_type(values: Values) -> MemoryType:
    return _member(MemoryType, _value(values, "type"), MemoryType.GENERAL)


def tier(values: Values, trust: Trust) -> Tier:
    """The tier as stated; only what a person vouches for can be constitutional, else it is important."""
    stated = stated_tier(values)
    return Tier.IMPORTANT if stated == Tier.CONSTITUTIONAL and trust != Trust.HUMAN else stated


def stated_tier(values: Values) -> Tier:
    """The tier that the file claims."""
    return _member(Tier, _value(values, "tier"), Tier.NORMAL)


def phrases(values: Values, key: str, clean: Clean) -> tuple[str, ...]:
    """A list of texts without blanks and repeats; a single text is split at its commas."""
    value = _value(values, key)
    items = value if isinstance(value, list) else line(value).split(",")
    cleaned = (clean(line(item)).strip() for item in items if line(item))
    return tuple(dict.fromkeys(filter(None, cleaned)))


def provenance(values: Values, clean: Clean, unsaid: Trust = Trust.HUMAN) -> Provenance:
    """Who vouches, `unsaid` where the file does not say.

    A trust that is stated but unknown counts as the lowest, so that no spelling raises it.
    """
    stated = values.get("provenance")
    if stated is None:
        return Provenance(trust=unsaid)
    fields = stated if isinstance(stated, Mapping) else {"source": stated, "trust": stated}
    return Provenance(
        source=clean(line(fields.get("source"))) or Provenance().source,
        trust=_member(Trust, fields["trust"], Trust.WEB) if "trust" in fields else unsaid,
        session=clean(line(fields.get("session"))),
    )


def quality(values: Values, clean: Clean) -> Quality | None:
    """The gate's verdict, also from the older top-level keys; None without a numeric score."""
    stated = values.get("quality")
    if not isinstance(stated, Mapping):
        stated = {"score": values.get("quality_score"), "flags": values.get("quality_flags")}
    try:
        score = float(line(stated.get("score")))
    except ValueError:
        return None
    if math.isnan(score):
        return None
    return Quality(score=min(max(score, 0.0), 1.0), flags=phrases(stated, "flags", clean))


def moment(value: object) -> str:
    """An ISO date or time; a time with an offset is told in UTC. Nothing where it is neither."""
    try:
        when = datetime.fromisoformat(line(value))
        if when.tzinfo is None:
            return when.isoformat().removesuffix("T00:00:00")
        return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return ""


def _value(values: Values, key: str) -> object:
    return values.get(spelling(values, key))


def _member(kind: type[_Member], value: object, default: _Member) -> _Member:
    try:
        return kind(line(value).lower())
    except ValueError:
        return default
