"""From what a session recorded to the draft of a memory: only what its events say, each statement with its event. Pure.

A section without evidence is empty; nothing stands in for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from scrimshaw.models import EventKind, Item, RecordedEvent, Session
from scrimshaw.session import phrases
from scrimshaw.session.changes import COMMIT, changed, commits, edited_files, findings, relative
from scrimshaw.session.decisions import decisions
from scrimshaw.session.evidence import Statement, flat, holds, sentences
from scrimshaw.session.failures import problems, runs, unsolved
from scrimshaw.session.prospects import next_step, open_points
from scrimshaw.session.requests import later_requests, subject, task_of, title_of

__all__ = ["Draft", "Statement", "draft"]

# How much a phrase counts by where it stands; own numbers, tuned on real sessions.
_IN_TITLE, _IN_TASK, _IN_REQUEST, _IN_DECISION, _IN_COMMIT, _IN_RESULT = 2.5, 0.8, 1.0, 1.5, 2.0, 1.0
_A_SENTENCE = 4  # spaces; what is shorter may well stand in a longer statement and still be news


class Draft(Struct, frozen=True, kw_only=True):
    """What a session leaves to know. `requests` are later ones of the user, `problems` what failed and what solved it,
    `open` what was left, `findings` what the last answer says where little was changed; `started` and `ended` are in
    seconds since 1970.
    """

    session: str
    title: str
    task: Statement | None
    decisions: tuple[Statement, ...]
    changed: tuple[Statement, ...]
    problems: tuple[Statement, ...]
    open: tuple[Statement, ...]
    next_step: Statement | None
    topics: tuple[str, ...]
    trigger_phrases: tuple[str, ...]
    tool_calls: int
    started: float
    ended: float
    requests: tuple[Statement, ...] = ()
    findings: tuple[Statement, ...] = ()

    @property
    def decision_count(self) -> int:
        """The number of choices found; 0 says that none was stated."""
        return len(self.decisions)


def draft(session: Session, events: Sequence[RecordedEvent], items: Sequence[Item]) -> Draft:
    """The draft of a session from its events, in order, and the items extracted from them."""
    said, ran, edits = sentences(events), runs(events, items), edited_files(events, items)
    calls = sum(event.kind == EventKind.TOOL for event in events)
    last = events[-1].number if events else 0
    proven = _Proven(events)
    task = _Proven(events).one(task_of(events, said))  # what it says may count as a choice as well
    chosen = proven.new(decisions(said, commits(events), calls))
    done = proven.new(changed(events, items, edits, said, calls))
    failed = proven.new(problems(ran, edits, said, calls))
    step = proven.one(next_step(events, said))
    left = proven.new(open_points(events, said, unsolved(ran, last), last))
    found = proven.new(findings(said, done))
    requests = proven.new(later_requests(said, task))
    title = title_of(task, said, requests, done)
    texts, whole = _weighted(title, task, requests, chosen, done), "\n".join(each.text for each in said)
    return Draft(
        session=session.id,
        title=title,
        task=task,
        decisions=chosen,
        changed=done,
        problems=failed,
        findings=found,
        open=left,
        next_step=step,
        topics=phrases.topics(texts, [relative(path, edits) for path in edits], whole),
        trigger_phrases=phrases.trigger_phrases(texts, phrases.stems(edits), whole),
        tool_calls=calls,
        started=events[0].at if events else session.started,
        ended=events[-1].at if events else session.last_event,
        requests=requests,
    )


class _Proven:
    """Lets through what stands in the event it names, each text once."""

    def __init__(self, events: Sequence[RecordedEvent]) -> None:
        self._events = {event.number: event for event in events}
        self._known: set[str] = set()

    def new(self, told: Iterable[Statement]) -> tuple[Statement, ...]:
        """Those of the statements that are proven and were not let through before."""
        return tuple(each for each in told if self._is_new(each))

    def one(self, told: Statement | None) -> Statement | None:
        """The statement, or None."""
        return told if told and self._is_new(told) else None

    def _is_new(self, told: Statement) -> bool:
        event, text = self._events.get(told.event), flat(told.text).casefold()
        if event is None or not text or not holds(event, told.text):
            return False
        if text in self._known or (text.count(" ") >= _A_SENTENCE and any(text in known for known in self._known)):
            return False
        self._known.add(text)
        return True


def _weighted(
    title: str,
    task: Statement | None,
    requests: Sequence[Statement],
    chosen: Sequence[Statement],
    done: Sequence[Statement],
) -> list[phrases.Weighted]:
    """The pieces of a draft with how much a phrase in them counts."""
    return [
        (title, _IN_TITLE),
        *([(task.text, _IN_TASK)] if task else []),
        *((each.text, _IN_REQUEST) for each in requests),
        *((each.text, _IN_DECISION) for each in chosen),
        *((subject(each.text), _IN_COMMIT) for each in done if each.note == COMMIT),
        *((each.text, _IN_RESULT) for each in done if each.note != COMMIT),
    ]
