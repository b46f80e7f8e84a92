"""The record of a session as passages: a few sentences of what was said each, and a line per call. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from scrimshaw.ingest.tool_calls import LOOKS, parse_command
from scrimshaw.models import EventKind, RecordedEvent, Trust
from scrimshaw.session.statements import PATTERNS, cut_line, flatten, repeats_answers, split_paragraph

# Measured on recorded sessions: 450 and 900 characters answer fewer questions for the same tokens.
PASSAGE_CHARACTERS = 600
PROMPT_CHARACTERS = 120  # of the prompt that a passage follows, embedded before it
LINE_CHARACTERS, ERROR_LINES = 200, 3  # of a call, its result line and each line of its error
_OPENINGS = (EventKind.PROMPT, EventKind.START, EventKind.COMPACT)  # no passage spans them
_BOUNDARIES = ("\n\n", "\n", ". ", " ")  # where a text may be cut, best first
_SILENT_TOOLS = ("Read", "Grep", "Glob", "TodoWrite", "TaskCreate", "TaskUpdate", "TaskOutput")
_TELLING_TOOLS = ("Ask", "Plan", "Agent", "ReportFindings")  # what they show or report is recorded whole
_ERROR = re.compile(r"(?i)\b(?:\w*(?:error|exception)|fail(?:ed|ure)?|fatal|cannot|denied|not found|traceback)\b")


class Passage(Struct):
    """A part of a session's record: of events that follow each other, or a piece of a long one."""

    event: int  #: the number of the event where it begins
    part: int  #: counts from 1 among the passages that begin in this event
    events: list[int]
    text: str
    prompt: str  #: the head of the prompt before it
    at: float  #: time of its last event, seconds since 1970
    trust: Trust

    @property
    def anchor(self) -> str:
        """Its name within the session: `e12`, and `e12.2` for the second that begins there."""
        return f"e{self.event}" if self.part == 1 else f"e{self.event}.{self.part}"


def make_passages(events: Iterable[RecordedEvent]) -> list[Passage]:
    """The passages of a session in order; a prompt, a start or another trust begins a new one."""
    made, last, prompt, answers = list[Passage](), dict[bool, Passage](), "", list[str]()
    for event in events:
        trust, text = _describe_event(event)
        if event.kind is EventKind.ANSWER:
            answers.append(flatten(text))
        elif event.kind is EventKind.STOP and repeats_answers(flatten(text), answers):
            continue
        stream = event.kind is EventKind.TOOL
        if event.kind in _OPENINGS:
            _add_refusal(last.pop(False, None), event)
            last.clear()
        for number, piece in enumerate(_cut(text), start=1):
            before = last.get(stream)
            if before and before.trust == trust and len(before.text) + len(piece) < PASSAGE_CHARACTERS:
                before.text, before.at = f"{before.text}\n{piece}", event.at
                before.events.append(event.number)
                continue
            last[stream] = Passage(event.number, number, [event.number], piece, prompt, event.at, trust)
            made.append(last[stream])
        if event.kind is EventKind.PROMPT:
            prompt = " ".join(event.text.split())[:PROMPT_CHARACTERS]
    return made


def find_passage(passages: Sequence[Passage], anchor: str) -> int | None:
    """The index of the passage with this anchor, else of the one with its event, before it, or the first of all."""
    named = next((place for place, each in enumerate(passages) if each.anchor == anchor), None)
    if named is not None:
        return named
    number = int(re.sub(r"\D.*", "", anchor[1:]) or 0)
    holding = (place for place, each in enumerate(passages) if number in each.events)
    before = (place for place in reversed(range(len(passages))) if passages[place].event <= number)
    return next(holding, next(before, 0 if passages else None))  # a start is in no passage


def _add_refusal(proposed: Passage | None, prompt: RecordedEvent) -> None:
    """End a passage with a person's refusal: whoever finds what was proposed has to learn that it was refused."""
    if proposed and prompt.kind is EventKind.PROMPT and PATTERNS["decisions"]["refusal"].search(prompt.text):
        proposed.text += f"\n> {cut_line(next(split_paragraph(prompt.text.strip())).strip())}"


def _describe_event(event: RecordedEvent) -> tuple[Trust, str]:
    """The trust and the text that an event adds to the record; the text is empty if it proves nothing."""
    match event.kind:
        case EventKind.PROMPT:
            return Trust.AGENT, f"> {event.text.strip()}" if event.text.strip() else ""
        case EventKind.ANSWER | EventKind.STOP | EventKind.COMPACT:
            return Trust.AGENT, event.text
        case EventKind.TOOL if event.tool not in _SILENT_TOOLS or event.failed:
            return Trust.WEB if event.tool == "Web" else Trust.TOOL, _describe_call(event)
    return Trust.TOOL, ""


def _describe_call(event: RecordedEvent) -> str:
    """A call and its result line; for a failed one its error."""
    subject, _, output = event.text.partition("\n")
    if event.tool == "Bash" and not event.failed and parse_command(subject).name in LOOKS:
        return ""
    lines = [" ".join(line.split())[:LINE_CHARACTERS] for line in output.splitlines() if line.strip()]
    if event.failed:
        errors = [line for line in lines if _ERROR.search(line)] or lines
        shown = [f"failed: {line}" for line in errors[-ERROR_LINES:]] or ["failed"]
    else:
        shown = [output.strip()] if event.tool in _TELLING_TOOLS else lines[-1:] if event.tool == "Bash" else []
    return "\n".join([f"{event.tool}: {subject.strip()[: 2 * LINE_CHARACTERS]}", *shown])


def _cut(text: str) -> Iterator[str]:
    """The text in pieces of at most PASSAGE_CHARACTERS, cut between paragraphs, lines, sentences or words."""
    rest = text.strip()
    while len(rest) > PASSAGE_CHARACTERS:
        found = (rest.rfind(mark, PASSAGE_CHARACTERS // 2, PASSAGE_CHARACTERS) + len(mark) for mark in _BOUNDARIES)
        place = next((each for each in found if each > PASSAGE_CHARACTERS // 2), PASSAGE_CHARACTERS)
        yield rest[:place].strip()
        rest = rest[place:].strip()
    if rest:
        yield rest
