"""The canary: questions whose answers are known. What they do not bring is lost, however healthy the counts look.

Two kinds are asked. Golden queries are the user's and are asked as an agent asks. Samples are made from the memories
themselves, the same ones each time, and each way of finding is asked by itself: together they would cover for one
another until the last one fails.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.canary_questions import Answer, Good, Question, Unjudged, paper
from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import RECALL, Lost
from scrimshaw.errors import DamagedDatabase
from scrimshaw.models import Degradation

NO_TIME = "the time for a quick look was over"


class Recall(Struct, frozen=True, kw_only=True):
    """How recall fares: all questions, those that could be judged and those that could not, what was lost.

    `outranked` samples were found behind others. `notes` say why questions were not judged, or not even asked.
    """

    asked: int
    judged: int
    lost: tuple[Lost, ...] = ()
    outranked: int = 0
    unjudged: int = 0
    notes: tuple[str, ...] = ()


def check(engine: Engine, *, budget_s: float | None = None) -> Recall:
    """Ask the golden queries and the samples, and let later answers say so when something is lost.

    With a budget, in seconds, it stops when that is over and asks by words alone, for loading the model takes longer;
    what was lost before or never judged is asked first, so that check after check all have their turn.
    """
    until = None if budget_s is None else time.monotonic() + budget_s
    today = paper(engine, by_meaning=budget_s is None)
    answers = {question.key: _answer(question, until) for question in _in_turn(engine, today.questions)}
    if budget_s is None and (torn := _torn(engine)):
        answers["torn"] = torn
    return _kept(engine, answers, today.notes)


def degradation(found: Recall) -> Degradation:
    """What it means for an answer that something is lost."""
    more = f" So do {len(found.lost) - 1} more." if len(found.lost) > 1 else ""
    return Degradation(
        failure_mode=f"recall_red: {found.lost[0].sentence}{more}",
        fallback_mode="none",
        confidence_impact="what is not found may be there all the same",
        retry_recommendation=found.lost[0].advice,
    )


def summary(found: Recall) -> str:
    """A check in one sentence, with what it could not measure."""
    behind = f", {found.outranked} behind others" if found.outranked else ""
    judged = f"{found.judged} of {found.asked} questions with known answers judged, {len(found.lost)} lost{behind}"
    return "; ".join((judged, *(note.removesuffix(".") for note in found.notes)))


def _in_turn(engine: Engine, questions: Iterable[Question]) -> list[Question]:
    urgency = engine.degradations.verdicts.urgency()
    return sorted(questions, key=lambda question: urgency.get(question.key, 1))


def _answer(question: Question, until: float | None) -> Answer:
    return Unjudged(NO_TIME) if until is not None and time.monotonic() >= until else question.ask()


def _torn(engine: Engine) -> Lost | None:
    """What the index says it read and does not hold; a damaged one has other rows to say so."""
    try:
        paths = engine.index.torn()
    except DamagedDatabase:
        return None
    if not paths:
        return None
    sentence = f"The index does not hold whole {len(paths)} files that it has read, the first is {paths[0]}."
    return Lost(query="", missing=(), sentence=sentence, advice="Run `scrimshaw scan`, which reads them again.")


def _kept(engine: Engine, answers: dict[str, Answer], notes: tuple[str, ...]) -> Recall:
    """Remember what each question lost until it is judged again."""
    judged = {key: answer for key, answer in answers.items() if not isinstance(answer, Unjudged)}
    verdicts = {key: answer if isinstance(answer, Lost) else None for key, answer in judged.items()}
    reasons = Counter(answer.reason for answer in answers.values() if isinstance(answer, Unjudged))
    found = Recall(
        asked=len(answers),
        judged=len(judged),
        lost=tuple(lost for lost in verdicts.values() if lost),
        outranked=sum(answer == Good.OUTRANKED for answer in judged.values()),
        unjudged=len(answers) - len(judged),
        notes=(*(f"{count} not judged: {reason}" for reason, count in reasons.items()), *notes),
    )
    if known := engine.degradations.verdicts.renew(answers.keys(), verdicts):
        engine.degradations.put(RECALL, degradation(replace(found, lost=known)))
    else:
        engine.degradations.clear(RECALL)
    return found
