"""How much a task taught: self-assessed scores before and after it."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.errors import NotFound
from scrimshaw.ingest.events import redact_id
from scrimshaw.ingest.redact import redact
from scrimshaw.storage.ports import Learning

PRE, POST = "pre", "post"
KNOWLEDGE_WEIGHT, UNCERTAINTY_WEIGHT, CONTEXT_WEIGHT = 0.40, 0.35, 0.25


class TaskProgress(Struct, frozen=True):
    """What a task taught, in points of 0..100; `index` is their weighted sum. All are None while the task is open."""

    task: str
    session: str
    gaps: tuple[str, ...]
    knowledge: float | None = None
    uncertainty: float | None = None
    context: float | None = None
    index: float | None = None


def record(engine: Engine, row: Learning) -> TaskProgress:
    """Record the scores before or after a task and answer what it taught; raises NotFound without a preflight."""
    folder, task, gaps = redact(row.folder).text, redact(row.task).text, tuple(redact(gap).text for gap in row.gaps)
    row = replace(row, folder=folder, task=task, session=redact_id(row.session), gaps=gaps, at=engine.clock())
    others = [each for each in engine.sessions.learnings(folder) if each.task == task and each.phase != row.phase]
    if row.phase == POST and not others:
        raise NotFound(f"The task {task!r} has no preflight.", "Call task_preflight when a task begins.")
    engine.sessions.record_learning(row)
    return _compare_phases([row, *others])


def list_tasks(engine: Engine, folder: str, *, session: str, limit: int, complete: bool) -> list[TaskProgress]:
    """What the tasks of a folder taught, newest first; with `complete` only those that ended."""
    rows = engine.sessions.learnings(redact(folder).text, session=redact_id(session))
    tasks = dict.fromkeys(row.task for row in rows)
    found = [_compare_phases([row for row in rows if row.task == task]) for task in tasks]
    return [each for each in found if each.index is not None or not complete][:limit]


def _compare_phases(rows: Sequence[Learning]) -> TaskProgress:
    """The differences between the two records of a task."""
    phases = {row.phase: row for row in rows}
    before, after = phases.get(PRE), phases.get(POST)
    gaps = tuple(dict.fromkeys(gap for row in rows for gap in row.gaps))
    if before is None or after is None:
        return TaskProgress(rows[0].task, rows[0].session, gaps)
    knowledge, uncertainty = after.knowledge - before.knowledge, before.uncertainty - after.uncertainty
    context = after.context - before.context
    index = KNOWLEDGE_WEIGHT * knowledge + UNCERTAINTY_WEIGHT * uncertainty + CONTEXT_WEIGHT * context
    return TaskProgress(before.task, after.session, gaps, knowledge, uncertainty, context, round(index, 2))
