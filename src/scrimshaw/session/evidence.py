"""What was said in a session, sentence by sentence, each with the event that holds it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from scrimshaw.ingest.contamination import clean
from scrimshaw.models import EventKind, RecordedEvent

LONGEST_LINE = 200  # characters of a quoted line
USER, AGENT, SUMMARY = "user", "agent", "summary"
LONGEST_SENTENCE, SHORTEST_SENTENCE, SHORTEST_PROMPT = 360, 12, 4  # characters

# What a client or a harness puts around a prompt; a text may have been cut before the closing tag.
_BLOCKS = re.compile(
    r"(?is)<(system-reminder|local-command-\w+|task-notification|command-(?:name|message|contents)|bash-std\w+"
    r"|user-prompt-submit-hook|ide_\w+|instructions|important)>.*?(?:</\1>|\Z)"
)
_TAGS = re.compile(r"</?[a-z][\w-]{0,40}>")
_NOTES = re.compile(r"\[(?:Request interrupted by user[^\]]*|Image #\d+|Pasted text[^\]]*)\]")
_COMMAND = re.compile(r"\A/[\w:-]+(?:\s+\S+)?\Z")
_FROM_HERE_ON_RULES = re.compile(r"(?ms)^INSTRUCTIONS:.*")
_COMMENT = re.compile(r"(?s)<!--.*?(?:-->|\Z)")
_FENCE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)")
_WRAPPED = 76  # a line at least this long goes on in the next one
_CUT = "\n\f\n"  # where something was left out; a form feed breaks paragraphs and stands in no prompt
_LEAD = re.compile(r"\A(?:[-*+•⎿☐☒✓✔]\s+|\d{1,2}[.)]\s+|#{1,6}\s+|>\s+|\[[ x]\]\s+|THOUGHT:\s*)+")
_ITEM = re.compile(r"\s*(?:[-*+•☐☒✓✔]|\d{1,2}[.)])\s+\S")
_HEADING = re.compile(r"\A\s*#{1,6}\s|\A\s*\*\*[^*]{2,80}\*\*:?\s*\Z|:\s*\Z")
_NO_PROSE = re.compile(
    r"\A(?:\s{6,}\S|[|+╭│╰─=]|\$ |(?:remote|error|fatal|warning|hint|Traceback|E ): ?|\d{2}:\d{2}:\d{2}|[\w./-]+:\d+:"
    r"|\S+@\S+[ :~]|>>> |\(.{1,30}\) \S+@|diff --git|@@ |[+-]{3} |/\S+\Z|(?:def|class|import|from|return) \S+[(:. ])"
)
_QUOTED = re.compile(r"`[^`\n]{1,200}`")
_SENTENCE_END = re.compile(
    r"(?<=[^\s.][.!?])(?<!\b[a-z]\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\betc\.)[\"')\]*`]*\s+(?=[^\sa-z.,;:)])"
    r"|(?<=[。！？])|(?<=\.\.\.)\s+(?=[A-Z✅❌])"
)
_SUMMARY_OPENING = "This session is being continued from a previous conversation"


class Statement(Struct, frozen=True, kw_only=True):
    """One piece of evidence: `text` stands in event number `event`; `note` is what the events around it tell."""

    text: str
    event: int
    note: str = ""


class Sentence(Struct, frozen=True, kw_only=True):
    """A sentence or list item; `turn` counts the user's prompts, `heading` is the line above its list or section.

    `place` is 0 for the first sentence of its event.
    """

    text: str
    event: int
    by: str
    turn: int
    place: int
    heading: str = ""
    is_item: bool = False


def sentences(events: Sequence[RecordedEvent]) -> list[Sentence]:
    """What users and agents said, without client noise and chatter, in order; repeated texts once."""
    found: list[Sentence] = []
    answered = {flat(event.text) for event in events if event.kind == EventKind.ANSWER}
    known: set[str] = set()
    turn = 0
    for event in events:
        by = _speaker(event)
        turn += by == USER and event.kind == EventKind.PROMPT
        text = spoken(event) if by else ""
        repeats = event.kind == EventKind.STOP and flat(event.text) in answered
        if text and not repeats and flat(text) not in known:
            known.add(flat(text))
            found += _of_text(text, event.number, by, turn)
    return found


def spoken(event: RecordedEvent) -> str:
    """The words of a prompt, answer or summary: client noise, code and chatter removed."""
    return clean(_CUT.join(prose(event))).text


def prose(event: RecordedEvent) -> list[str]:
    """The pieces of a prompt, answer or summary that stand together: client noise and code part them."""
    text = asked(event.text) if event.kind == EventKind.PROMPT else event.text
    return [part for part in _FENCE.sub(_CUT, text).split(_CUT) if part.strip()]


def asked(text: str) -> str:
    """A prompt without what the client or a harness added to it; empty for a bare command such as `/model opus`."""
    bare = _NOTES.sub(_CUT, _TAGS.sub(_CUT, _COMMENT.sub(_CUT, _BLOCKS.sub(_CUT, text))))
    told = _FROM_HERE_ON_RULES.sub("", bare).strip() or bare.strip()
    return "" if _COMMAND.match(told) else told


def is_summary(event: RecordedEvent) -> bool:
    """Whether an event brings the summary of a compacted conversation."""
    return event.kind == EventKind.COMPACT or event.text.startswith(_SUMMARY_OPENING)


def flat(text: str) -> str:
    """Text as it is compared: white space collapsed, emphasis left out."""
    return " ".join(text.replace("**", "").split())


def cut(line: str, most: int = LONGEST_LINE) -> str:
    """The beginning of a line, up to a word."""
    return line if len(line) <= most else line[:most].rpartition(" ")[0] or line[:most]


def holds(event: RecordedEvent, text: str) -> bool:
    """Whether an event contains a statement's text."""
    return flat(text) in flat(event.text) or text == event.path


def _speaker(event: RecordedEvent) -> str:
    if event.kind in (EventKind.ANSWER, EventKind.STOP):
        return AGENT
    if event.kind in (EventKind.PROMPT, EventKind.COMPACT):
        return SUMMARY if is_summary(event) else USER
    return ""


def _of_text(text: str, event: int, by: str, turn: int) -> Iterator[Sentence]:
    heading, place = "", 0
    for block in _paragraphs(text):
        if _HEADING.search(block) and len(block) < 100:
            heading = _trimmed(block)
            continue
        for part in parts_of(block):
            words = _trimmed(part)
            if _fits(words, by):
                is_item = bool(_ITEM.match(block))
                yield Sentence(text=words, event=event, by=by, turn=turn, place=place, heading=heading, is_item=is_item)
                place += 1


def _fits(words: str, by: str) -> bool:
    """What a user says counts however long it is."""
    return len(words) >= SHORTEST_PROMPT if by == USER else SHORTEST_SENTENCE <= len(words) <= LONGEST_SENTENCE


def parts_of(block: str) -> Iterator[str]:
    """The sentences of a paragraph; a stop within a code span ends none."""
    hidden = _QUOTED.sub(lambda span: "`" + "x" * (len(span[0]) - 2) + "`", block)
    begin = 0
    for end in _SENTENCE_END.finditer(hidden):
        yield block[begin : end.end()]
        begin = end.end()
    yield block[begin:]


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and list items; lines that are output, code or a table are left out."""
    gathered = ""
    for line in [*text.splitlines(), ""]:
        breaks = not line.strip() or _ITEM.match(line) or _HEADING.search(line) or _NO_PROSE.match(line)
        if breaks or (gathered and not _continues(gathered, line)):
            if gathered:
                yield gathered
            gathered = ""
        if line.strip() and not _NO_PROSE.match(line):
            gathered = f"{gathered} {line.strip()}" if gathered else line.rstrip()
            if _HEADING.search(line):
                yield gathered
                gathered = ""


def _continues(gathered: str, line: str) -> bool:
    return len(gathered.rpartition("\n")[2]) >= _WRAPPED or line.strip()[:1].islower()


def _trimmed(text: str) -> str:
    words = " ".join(_LEAD.sub("", text.strip()).replace("**", "").split()).rstrip(" ,;")
    return words[:-1] if words.endswith('"') and words.count('"') % 2 else words
