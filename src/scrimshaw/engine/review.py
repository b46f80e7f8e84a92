"""Review state: what was read stays present, what was judged useless loses confidence. Text is never touched."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.models import Grade, Memory
from scrimshaw.search import decay
from scrimshaw.search.candidates import presence
from scrimshaw.storage.ports import Review

# spec-kit memory_validate: confidence moves by these from 0.5; promotion to critical is proposed from here.
USEFUL, NOT_USEFUL = 0.10, 0.05
PROMOTE_CONFIDENCE, PROMOTE_REVIEWS = 0.9, 5
# Longer than a century is for ever.
MOST_STABLE_DAYS = 36_500.0


class Validated(Struct, frozen=True, kw_only=True):
    """Review state after a validation; `promotable` says that `critical` would be justified."""

    id: str
    confidence: float
    reviews: int
    promotable: bool


def touch(engine: Engine, memories: Iterable[Memory]) -> None:
    """Count the reading of memories as reviews of grade good."""
    for memory in memories:
        if memory.source != "session":
            engine.journal.update_review(memory.id, partial(_reviewed, engine, memory, Grade.GOOD))


def validate(engine: Engine, memory_id: str, *, useful: bool) -> Validated:
    """Record whether a memory helped: a review, and a step of its confidence. Raises NotFound."""
    memory = engine.memory(memory_id)
    grade = Grade.GOOD if useful else Grade.AGAIN

    def change(before: Review | None) -> Review:
        return _judged(_reviewed(engine, memory, grade, before), useful)

    state = engine.journal.update_review(memory_id, change)
    return Validated(
        id=memory_id,
        confidence=state.confidence,
        reviews=state.reviews,
        promotable=state.confidence >= PROMOTE_CONFIDENCE and state.useful >= PROMOTE_REVIEWS,
    )


def _judged(state: Review, useful: bool) -> Review:
    confidence = min(1.0, max(0.0, state.confidence + (USEFUL if useful else -NOT_USEFUL)))
    return replace(
        state,
        confidence=round(confidence, 4),
        useful=state.useful + useful,
        not_useful=state.not_useful + (not useful),
    )


def _reviewed(engine: Engine, memory: Memory, grade: Grade, before: Review | None) -> Review:
    """The state after a review of this grade now."""
    now, settings = engine.clock(), engine.settings.forgetting
    half_life = decay.half_life(memory.type, memory.tier, settings.half_life_days)
    stability = before.stability if before else min(decay.stability_of(half_life), MOST_STABLE_DAYS)
    difficulty = before.difficulty if before else decay.INITIAL_DIFFICULTY
    present = presence(memory, before, now, settings).retrievability
    stability, difficulty = decay.review(stability, difficulty, present, grade)
    return replace(
        before or Review(memory_id=memory.id, stability=0.0, difficulty=0.0, last_review=0.0),
        stability=min(stability, MOST_STABLE_DAYS),
        difficulty=difficulty,
        last_review=now,
        reviews=(before.reviews if before else 0) + 1,
    )
