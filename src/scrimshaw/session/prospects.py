"""What a session leaves to do: open points and the next step. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from scrimshaw.ingest.contamination import clean
from scrimshaw.models import EventKind, RecordedEvent
from scrimshaw.session.evidence import AGENT, LONGEST_SENTENCE, USER, Sentence, Statement, cut

MOST_OPEN = 6
# What was left is mostly done later, so only the end counts; what was put off stays open.
_RECENT_SHARE, _LATER_SHARE = 0.85, 0.3
_LONGEST_STEP = 300  # characters
_FEWEST_WORDS = 4
_LAST_CALLS = 2

_LEFT = re.compile(
    r"(?i)\b(?:still (?:needs?|to be|missing|open)|remaining|left to do|TODO:|pending|unresolved"
    r"|not (?:yet )?(?:implemented|done|finished|fixed|covered|tested|supported)"
    r"|needs? (?:to be )?(?:updated|fixed|done|tested|verified))"
)
_PUT_OFF = re.compile(
    r"(?i)\b(?:put a pin|come back to|follow[- ]?up (?:issue|task|ticket|PR|item|session)|out of scope|deferred"
    r"|known limitation|filed|left for later|in (?:the|a) (?:next|later|separate) (?:session|PR|step))\b"
)
_NOT_LEFT = re.compile(
    r"(?i)\?\W*\Z|[✅❌]|\b(?:nothing|no) (?:\w+ )?(?:remaining|left|pending|open)|\b0 remaining\b"
    r"|\bremaining (?:changes|edits|files|work)\b|\bunrelated\b|\bno longer\b"
    r"|\A(?:let me|now|let's|first|next|I'll|I still|updated|added|fixed|all)\b"
)
_NEXT = re.compile(
    r"(?i)\bnext (?:steps?|tasks?|up|is|thing)\b|\bwant me to\b|\bwould you like\b|\bshould I\b|\bshall I\b"
    r"|\bready to (?!use|go)\w+|\bdo you want\b|\bnext,|\bwe (?:should|can) (?:now|next)\b"
    r"|\bremaining (?:tasks?|steps?|work)\b"
)
# How a call that sets the agent's task list is recorded: ingest.tool_calls.
TASK_LIST = "task list\n"
_TASK = re.compile(r"\[(?:pending|in_progress|in-progress|todo)\] (.+)")
_READY = re.compile(r"(?i)\bready to (\w+)")
_LEAD_IN = re.compile(
    r"(?i)\A(?:(?:good|great|perfect|excellent|ok|okay|right|alright|clean compile|now|next|first|then|so|and|also|just"
    r"|let me|let's|I'll|I will|I need to|I should|I'm going to|we need to|go ahead and)\b[,.!—– ]*)+"
)
_INTENT = re.compile(r"(?i)\b(?:let me|let's|I'll|I will|I need to|now|next|I should|I'm going to|we need to)\b")


def open_points(
    events: Sequence[RecordedEvent], said: Sequence[Sentence], failed: Sequence[Statement], last_event: int
) -> list[Statement]:
    """What failed at its last run, what the agent's task list says is not done, and what was said to be left."""
    told = [each for each in said if _is_left(each, each.event / max(1, last_event))]
    left = [*_unfinished(events), *(Statement(text=each.text, event=each.event) for each in told)]
    return [*failed, *left[-(MOST_OPEN - len(failed)) :]]


def _unfinished(events: Sequence[RecordedEvent]) -> list[Statement]:
    """The tasks that the last task list names as not done."""
    lists = [event for event in events if event.kind == EventKind.TOOL and event.text.startswith(TASK_LIST)]
    tasks = [(_TASK.match(line), lists[-1].number) for line in lists[-1].text.splitlines()] if lists else []
    return [Statement(text=task[1], event=number) for task, number in tasks if task]


def next_step(events: Sequence[RecordedEvent], said: Sequence[Sentence]) -> Statement | None:
    """What was to be done when the session ended: asked and not answered, offered, announced, in this order."""
    return _unanswered(events, said) or _offered(events, said) or _announced(events)


def _is_left(sentence: Sentence, share: float) -> bool:
    """Whether a sentence tells of something left; `share` is how much of the session lay behind it."""
    text = sentence.text
    told = (share >= _RECENT_SHARE and _LEFT.search(text)) or (share >= _LATER_SHARE and _PUT_OFF.search(text))
    return bool(told) and not _NOT_LEFT.search(text) and len(text.split()) >= _FEWEST_WORDS


def _unanswered(events: Sequence[RecordedEvent], said: Sequence[Sentence]) -> Statement | None:
    """The user's last words, if nothing came after them."""
    telling = [each for each in events if each.kind in (EventKind.PROMPT, EventKind.TOOL, EventKind.ANSWER)]
    if not telling or telling[-1].kind != EventKind.PROMPT:
        return None
    last = [each for each in said if each.event == telling[-1].number and each.by == USER]
    return Statement(text=cut(last[0].text, LONGEST_SENTENCE), event=last[0].event) if last else None


def _offered(events: Sequence[RecordedEvent], said: Sequence[Sentence]) -> Statement | None:
    """What the last answer names as next, unless the last calls did it already."""
    answers = [each for each in said if each.by == AGENT]
    closing = [each for each in answers if each.event == answers[-1].event]
    told = [each for each in closing if _NEXT.search(each.text) or _NEXT.search(each.heading)]
    if not told or any(_carried_out(events, word) for word in _READY.findall(told[0].text)):
        return None
    return Statement(text=told[0].text, event=told[0].event)


def _announced(events: Sequence[RecordedEvent]) -> Statement | None:
    """The last sentence of the last answer, without the words that only announce it."""
    answers = [each for each in events if each.kind == EventKind.ANSWER]
    lines = answers[-1].text.split("\n") if answers else []
    last = re.split(r"(?<=[.!?])\s+", next((line.strip() for line in reversed(lines) if line.strip()), ""))[-1]
    step = _LEAD_IN.sub("", last).rstrip(" .:")
    if not _INTENT.search(last) or not last.rstrip(" .:").endswith(step) or step == last.rstrip(" .:"):
        return None
    fits = len(step.split()) > 1 and len(step) <= _LONGEST_STEP and clean(step).text.strip() == step
    return Statement(text=step, event=answers[-1].number) if fits and not _carried_out(events, step) else None


def _carried_out(events: Sequence[RecordedEvent], step: str) -> bool:
    """Whether the last calls did what a step says first: `submit`, `commit`, `push`."""
    asked = [event.text.partition("\n")[0].lower() for event in events if event.kind == EventKind.TOOL]
    return any(step.split()[0].lower() in each for each in asked[-_LAST_CALLS:])
