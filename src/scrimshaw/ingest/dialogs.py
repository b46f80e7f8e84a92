"""What an agent shows a person through a tool: its tasks, questions and plans. One form for all clients."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from scrimshaw.ingest.payload import first_text, read_object, section, sections, text

# The first line of what is recorded: of a whole list, of one task, and of what a person answered or approved.
TASK_LIST, FINDINGS, TASK = "task list", "findings reported", "task #"
ANSWERED, APPROVED = "questions answered", "plan approved"
_LIST_KEYS = ("todos", "plan", "tasks")
_TASK_KEYS = ("content", "subject", "step", "description", "title")
_CREATED = r"\ATask #(\S+) created"
_PLAN_BELOW = "\n## Approved Plan"
_ANSWER_END = r'"(?:, "|[.,]? |\Z)'
_REPLY_BEGIN = r"(?i)\A(?:<answer>|User (?:selected|responded|answered|replied):)"  # what a client puts before words
_ADVICE = r" ?\(Recommended\)"


def read_dialog(tool: str, arguments: Mapping[str, Any], output: str) -> tuple[str, str] | None:
    """The heading and the lines to record of a call; None if it shows none of these."""
    listed = (task for key in _LIST_KEYS for task in sections(arguments.get(key)))
    if tasks := [*filter(None, map(_describe_task, listed))]:
        return TASK_LIST, "\n".join(tasks)
    heading = lines = ""
    match tool:
        case "TaskCreate":
            created = re.match(_CREATED, output)
            number = created[1] if created else text(section(read_object(output), "task").get("id"))
            heading, lines = f"{TASK}{number}", _describe_task(arguments)
        case "TaskUpdate" if "status" in arguments:  # mostly without the task's text
            renamed = " ".join(text(arguments.get("subject")).split())
            heading, lines = f"{TASK}{arguments.get('taskId')}", f"[{arguments['status']}] {renamed}".rstrip()
        case "ReportFindings":
            heading, lines = FINDINGS, "\n".join(map(_describe_finding, sections(arguments.get("findings"))))
        case "Ask":
            heading, lines = ANSWERED, "\n".join(_describe_answers(arguments, read_object(output), output))
        case "Plan":
            shown, reply = output.partition(_PLAN_BELOW)[2].partition("\n")[2], read_object(output)
            stated = "" if reply.get("awaitingLeaderApproval") else text(reply.get("plan"))
            asked = first_text(arguments, "plan", "summary") * output.startswith(("User has approved", "Plan approved"))
            heading, lines = APPROVED, (shown or stated or asked).strip()
    return (heading, lines) if lines else None


def _describe_task(task: Mapping[str, Any]) -> str:
    """`[status] task`; empty if it has no text."""
    content = " ".join(first_text(task, *_TASK_KEYS).split())
    return f"[{task.get('status', 'pending')}] {content}" if content else ""


def _describe_finding(finding: Mapping[str, Any]) -> str:
    """`[outcome] file:line summary`."""
    place = ":".join(str(finding[key]) for key in ("file", "line") if key in finding)
    return " ".join(f"[{finding.get('outcome', 'open')}] {place} {first_text(finding, 'summary')}".split())


def _describe_answers(arguments: Mapping[str, Any], reply: Mapping[str, Any], output: str) -> Iterator[str]:
    """`question answer: what it means (not the other options)`, a line for every question that was answered."""
    questions = [*sections(arguments.get("questions"))]
    for place, asked in enumerate(questions or [arguments]):
        question = first_text(asked, "question", "message")
        answer = _find_answer(section(reply, "answers"), question, str(place), text(asked.get("id")))
        header = first_text(asked, "header") or f"Question {place + 1}"
        if not answer and (printed := output.partition(f'"{question}"="')[2]):
            answer = re.split(_ANSWER_END, printed, maxsplit=1)[0]
        answer = answer or output.partition(f"**{header}**: ")[2].partition("\n")[0]
        if not answer and not questions:
            answer = re.sub(_REPLY_BEGIN, "", output.strip()).removesuffix("</answer>").strip()
        if not question or answer in ("", "Unanswered"):
            continue
        offered = next((each for key in ("options", "choices") if isinstance(each := asked.get(key), list)), [])
        meanings = {first_text(each, "label"): first_text(each, "description") for each in sections(offered)}
        labels = [each for each in (*meanings, *filter(None, map(text, offered))) if each]
        others = [each for each in labels if each not in answer.split(", ") and each != answer]
        meaning = f": {meanings[answer].rstrip('.')}" if meanings.get(answer) else ""
        notes = text(section(reply, "annotations", question).get("notes"))
        rejected = f" (not {', '.join(others)})" if others and len(others) < len(labels) else ""
        line = f"{question} {answer}{meaning}{rejected}{f' — {notes}' if notes else ''}"
        yield " ".join(re.sub(_ADVICE, "", line).split())


def _find_answer(given: Mapping[str, Any], *names: str) -> str:
    """The answer under one of these names: a text, a list of chosen labels, or an object with either."""
    found = next((given[name] for name in names if name in given), "")
    while isinstance(found, Mapping):
        found = found.get("answers", "")
    return ", ".join(map(str, found)) if isinstance(found, list) else text(found)
