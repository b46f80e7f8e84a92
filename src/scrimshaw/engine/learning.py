"""How much a task taught: self-assessed scores before and after it, kept side by side."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.errors import NotFound
from scrimshaw.ingest.redact import redact
from scrimshaw.storage.ports import Learning

PRE, POST = "pre", "post"
# spec-kit: knowledge gained, uncertainty lost, context gained.
KNOWLEDGE_WEIGHT, UNCERTAINTY_WEIGHT, CONTEXT_WEIGHT = 0.40, 0.35, 0.25
_ALL = 1000


class Progress(Struct, frozen=True, kw_only=True):
    """What a task taught, in points of 0..100; `index` is their weighted sum, None while the task is open."""

    task: str
    session: str
    knowledge: float | None
    uncertainty: float | None
    context: float | None
    index: float | None
    gaps: tuple[str, ...]


def preflight(engine: Engine, row: Learning) -> None:
    """Record the scores before a task."""
    engine.sessions.record_learning(_clean(engine, row))


def postflight(engine: Engine, row: Learning) -> Progress:
    """Record the scores after a task and answer what it taught; raises NotFound without a preflight."""
    row = _clean(engine, row)
    rows = engine.sessions.learnings(row.folder, limit=_ALL)
    if not any(each.task == row.task and each.phase == PRE for each in rows):
        raise NotFound(f"The task {row.task!r} has no preflight.", "Call task_preflight when a task begins.")
    engine.sessions.record_learning(row)
    return next(each for each in history(engine, row.folder) if each.task == row.task)


def history(
    engine: Engine, folder: str, *, session: str = "", limit: int = 10, complete: bool = False
) -> list[Progress]:
    """What the tasks of a folder taught, newest first; with `complete` only those that ended."""
    rows = engine.sessions.learnings(_redacted(folder), session=_redacted(session), limit=_ALL)
    tasks = list(dict.fromkeys(row.task for row in rows))
    found = [_progress([row for row in rows if row.task == task]) for task in tasks]
    return [each for each in found if each.index is not None or not complete][:limit]


def mean_index(found: Sequence[Progress]) -> float | None:
    """The mean of the tasks that ended; None without any."""
    ended = [each.index for each in found if each.index is not None]
    return round(sum(ended) / len(ended), 2) if ended else None


def _clean(engine: Engine, row: Learning) -> Learning:
    """The row as it is stored, and as it is asked for."""
    return replace(
        row,
        folder=_redacted(row.folder),
        task=_redacted(row.task),
        session=_redacted(row.session),
        gaps=tuple(map(_redacted, row.gaps)),
        at=engine.clock(),
    )


def _redacted(text: str) -> str:
    return redact(text).text


def _progress(rows: Sequence[Learning]) -> Progress:
    """The two records of a task as what lies between them."""
    phases = {row.phase: row for row in rows}
    before, after = phases.get(PRE), phases.get(POST)
    gaps = tuple(dict.fromkeys(gap for row in rows for gap in row.gaps))
    if before is None or after is None:
        return Progress(
            task=rows[0].task,
            session=rows[0].session,
            knowledge=None,
            uncertainty=None,
            context=None,
            index=None,
            gaps=gaps,
        )
    knowledge = after.knowledge - before.knowledge
    uncertainty = before.uncertainty - after.uncertainty
    context = after.context - before.context
    index = KNOWLEDGE_WEIGHT * knowledge + UNCERTAINTY_WEIGHT * uncertainty + CONTEXT_WEIGHT * context
    return Progress(
        task=before.task,
        session=after.session,
        knowledge=knowledge,
        uncertainty=uncertainty,
        context=context,
        index=round(index, 2),
        gaps=gaps,
    )
