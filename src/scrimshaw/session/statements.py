"""What was said in a session, sentence by sentence, each with the event that contains it. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, cast

from msgspec import Struct

from scrimshaw.ingest.chatter import FENCED, remove_chatter
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import EventKind, RecordedEvent

# `cues.toml`: patterns for reading the prompts, answers and calls of a session.
_CUES = load_table(__file__, "cues", dict[str, dict[str, str]])
WORDS: Mapping[str, frozenset[str]] = {name: frozenset(text.split()) for name, text in _CUES.pop("words").items()}
LANGUAGES: Mapping[str, str] = _CUES.pop("languages")  #: by file extension
# In a pattern the apostrophes that may be typographic; and left out, as in "dont": "were" is another word.
_APOSTROPHE = re.compile(r"'(?=(?:d|ll|m|re|s|t|ve)\b)")
_NEEDLESS = re.compile(r"(?<=[a-z]n)'(?=t\b)|(?<=let|hat)'(?=s\b)|(?<=I)'(?=(?:m|ve|ll)\b|d \w)|(?<=I\(\?:)'(?=d\b)")


class LazyPattern:
    """A pattern that is compiled when it is first used: compiling all costs a hook 25 ms, and it needs only some."""

    def __init__(self, lines: str) -> None:
        self._text = "".join(map(str.strip, lines.split("\n")))

    def __getattr__(self, name: str) -> Any:
        text = _NEEDLESS.sub("['’]?", self._text)
        return self.__dict__.setdefault(name, getattr(re.compile(_APOSTROPHE.sub("['’]", text)), name))


# By section and name; a pattern may span several lines.
PATTERNS: Mapping[str, Mapping[str, re.Pattern[str]]] = {
    section: {name: cast("re.Pattern[str]", LazyPattern(lines)) for name, lines in patterns.items()}
    for section, patterns in _CUES.items()
}

LONGEST_LINE = 200  # characters of a quoted line
USER, AGENT, SUMMARY = "user", "agent", "summary"
LONGEST_SENTENCE, SHORTEST_SENTENCE, SHORTEST_PROMPT = 360, 9, 4  # characters
AGREED, CHOSEN = BY_REPLY = "agreed in e", "chosen in e"  # how notes begin, before the number of the reply's event

_CUE, _BRACKETS = PATTERNS["statements"], re.compile(r"\(\w[^()\n]{1,80}\)")
_WRAPPED = 76  # a line at least this long continues in the next one
_CUT = "\n\f\n"  # marks an omission; a form feed breaks paragraphs and never occurs in a prompt
_ITEM = re.compile(r"\s*(?:[-*+•☐☒✓✔]|\d{1,2}[.)])\s+\S")
_BOX = re.compile(r"\s*[-*+] \[([ x])\] ")
# The marks are a power in code, between words or numbers, or with space on both sides.
_EMPHASIS = re.compile(r"(`[^`\n]{1,200}`)|(?<![\w*])\*\*(?=\S)|(?<=\S)\*\*(?![\w*])")
_IMPERATIVE = re.compile(rf"(?i)\A(?:{'|'.join(sorted(WORDS['verbs']))})\b")
strip_courtesy = partial(PATTERNS["requests"]["courtesy"].sub, "")
_SUMMARY_OPENING = "This session is being continued from a previous conversation"


class Statement(Struct, frozen=True):
    """One piece of evidence."""

    text: str
    event: int  #: the number of the event that contains the text
    note: str = ""  #: a note from the events around it
    commit: str | None = None  #: the short hash, if the text is the subject of a commit; empty if git did not show it


class Sentence(Struct, frozen=True, kw_only=True):
    """A sentence or list item."""

    text: str
    event: int
    by: str  #: USER, AGENT or SUMMARY
    turn: int  #: counts the user's prompts
    place: int  #: 0 for the first sentence of its event
    heading: str = ""  #: the line above its list or section
    is_item: bool = False


def split_sentences(events: Sequence[RecordedEvent]) -> list[Sentence]:
    """What users and agents said, without client noise and chatter, in order; repeated texts once."""
    found, known, turn = list[Sentence](), set[str](), 0
    answers = [flatten(event.text) for event in events if event.kind == EventKind.ANSWER]
    for event in events:
        by = _speaker(event)
        turn += begins_turn(event)
        text = _CUE["lead_in"].sub(r"\n## \1", _CUT.join(prose_parts(event))) if by else ""
        if by == USER and turn > 1:  # what a mail says is nobody's wish, unless it is all there is
            text = _CUE["quotation"].sub(_CUT, text).strip() or text
        repeats = event.kind == EventKind.STOP and _repeats_answers(flatten(event.text), answers)
        if text and not repeats and flatten(text) not in known:
            known.add(flatten(text))
            if by != USER:  # a row of a table is an item; what a person pastes stays as it is
                text = _CUE["table_of_ways"].sub(r"\n## \1: possibilities", text)
                text = remove_chatter(_CUE["table_row"].sub(r"- \1", _CUE["table_head"].sub("", text)))
            found += _sentences_of(text, event.number, by, turn)
    return found


def leave_out_repeats(events: Iterable[RecordedEvent], *, keeps_last: bool = False) -> Sequence[RecordedEvent]:
    """The events without ends of turns that only repeat an answer; `keeps_last` keeps one after the last act."""
    kept, answers, last = list[RecordedEvent](), list[str](), None
    for event in events:
        if event.kind == EventKind.STOP and _repeats_answers(flatten(event.text), answers):
            last = event
            continue
        if event.kind in (EventKind.PROMPT, EventKind.TOOL, EventKind.ANSWER):
            last = None
        answers += [flatten(event.text)] if event.kind == EventKind.ANSWER else []
        kept.append(event)
    return [*kept, last] if last and keeps_last else kept


def _repeats_answers(text: str, answers: Sequence[str]) -> bool:
    """Whether a text is one of the answers, or several joined, as some clients end a turn."""
    for answer in sorted(filter(None, answers), key=len, reverse=True) if text not in answers else [text]:
        text = text.replace(answer, "", 1)
    return not text.strip()


def prose_parts(event: RecordedEvent) -> list[str]:
    """The coherent pieces of a prompt, answer or summary: client noise and code separate them."""
    text = strip_client_noise(event.text) if event.kind == EventKind.PROMPT else event.text
    return [part for part in FENCED.sub(_CUT, text).split(_CUT) if part.strip()]


def split_prose(event: RecordedEvent) -> list[str]:
    """The pieces of a prompt, answer or summary between client noise, code, output and what is indented below these."""
    pieces = list[str]()
    for part in prose_parts(event):
        lines, is_code = list[str](), False
        for line in part.splitlines():
            is_code = bool(_CUE["code_line"].match(line)) or (is_code and line[:1].isspace())
            lines.append(_CUT if is_code else line)
        pieces += [piece for piece in "\n".join(lines).split(_CUT) if piece.strip()] or [part]
    return pieces


def strip_client_noise(prompt: str) -> str:
    """A prompt without additions of the client or a harness; empty for a bare command such as `/model opus`."""
    for noise in ("blocks", "comment", "tags", "notes"):
        prompt = _CUE[noise].sub(_CUT, prompt)
    text = _CUE["rules_follow"].sub("", prompt).strip() or prompt.strip()
    return "" if _CUE["client_command"].match(text) else text


def flatten(text: str) -> str:
    """Text in the form for comparison: white space collapsed, emphasis removed."""
    return " ".join(_EMPHASIS.sub(r"\1", text).split())


def cut_line(line: str, most: int = LONGEST_LINE) -> str:
    """The beginning of a line, up to a word."""
    words = line[:most].rpartition(" ")[0]  # little in front of a long path
    return line if len(line) <= most else words if len(words) > most // 2 else line[:most]


def list_options(text: str) -> Mapping[str, Sequence[str]]:
    """The items of an answer's lists by number or letter; one that is a heading with the points below it as a line."""
    cues, items = PATTERNS["decisions"], defaultdict[str, list[str]](list)
    listed = [*cues["listed"].finditer(text)]
    marks, ends = [each[1].lower() for each in listed], [*(after.start() for after in listed[1:]), len(text)]
    for each, mark, before, end in zip(listed, marks, ["", *marks], ends, strict=False):
        if mark == before:  # "d) would be the least code" below "d) drop the plugin"
            continue
        points = cues["bullet"].findall(text[each.end() : end].partition("\n#")[0]) if each[0][0] in "#*" else ()
        items[mark].append(":\n".join(filter(None, [trim(each[2]), "; ".join(map(trim, points))])))
    for number, item in cues["listed_inline"].findall(text):
        items[number].append(trim(item))
    return items


def find_last_list(answer: str) -> list[str]:
    """The items of an answer's last list or table."""
    items, ends = list[str](), True
    for line in filter(str.strip, _CUE["table_row"].sub(r"- \1", _CUE["table_head"].sub("", answer)).splitlines()):
        if not line[:1].isspace():  # what belongs to an item
            is_item = bool(_ITEM.match(line))
            items = [*(() if ends and is_item else items), *([trim(line)] if is_item else [])]
            ends = not is_item
    return items


def contains_text(event: RecordedEvent, text: str) -> bool:
    """Whether an event contains a statement's text, or the parts of a path: `cd lib && rm a.py` has `lib/a.py`."""
    whole = flatten(event.text)
    is_path = " " not in text and "/" in text and all(part in whole for part in text.split("/"))
    return is_path or flatten(text) in whole or text == event.path


def begins_turn(event: RecordedEvent) -> bool:
    """Whether an event is a user's prompt."""
    return event.kind == EventKind.PROMPT and _speaker(event) == USER


def is_reply(answer: str, prompt: str) -> bool:
    """Whether a prompt refuses what was done, or replies to options, or to what an answer asks or proposes last."""
    last = " ".join(answer.rstrip().rpartition("\n\n")[2].split())
    sentences, cues = [*split_paragraph(last)][-3:], PATTERNS["decisions"]
    tail = " ".join(sentences)
    asks = any(cues["asks_to_choose"].search(each) for each in (tail, *sentences))
    offers = cues["proposes"].search(tail) or cues["last_option"].match(last) or cues["offers"].search(answer)
    return bool(asks or offers or cues["refusal"].match(prompt) or cues["declines"].match(prompt))


def is_left(said: Sentence) -> bool:
    """Whether a sentence begins with, or an item stands below, the words that name what is left."""
    return any(map(PATTERNS["open_points"]["label"].match, (said.text, said.heading * said.is_item)))


def is_imperative(text: str) -> bool:
    """Whether a sentence begins with what is to be done, after "could you please" and the like."""
    return bool(_IMPERATIVE.match(strip_courtesy(text)))


def _speaker(event: RecordedEvent) -> str:
    if event.kind in (EventKind.ANSWER, EventKind.STOP):
        return AGENT
    is_summary = event.kind == EventKind.COMPACT or event.text.startswith(_SUMMARY_OPENING)
    return "" if event.kind not in (EventKind.PROMPT, EventKind.COMPACT) else SUMMARY if is_summary else USER


def _sentences_of(text: str, event: int, by: str, turn: int) -> Iterator[Sentence]:
    heading, place = "", 0
    for block, following in pairwise([*_paragraphs(text), ""]):
        title, is_item, box = trim(block), bool(_ITEM.match(block)), _BOX.match(block)
        # "That fails. Let's keep it so:" introduces the next call, but counts as a statement.
        is_title = _CUE["heading"].search(block) and len(block) < 100 and len([*split_paragraph(title)]) == 1
        if is_title and (following or by != USER):  # "it crashes since today:" above a log that is left out
            heading = title
            continue
        for words in map(trim, split_paragraph(block, by)):
            # a user's sentence counts whatever its length
            if len(words) >= SHORTEST_PROMPT if by == USER else SHORTEST_SENTENCE <= len(words) <= LONGEST_SENTENCE:
                above = heading if box is None else "To do" if box[1] == " " else "Done"
                yield Sentence(text=words, event=event, by=by, turn=turn, place=place, heading=above, is_item=is_item)
                place += 1


def join_sentences(sentences: Sequence[Sentence]) -> str:
    """Sentences as running text: a list after its heading, its items parted by semicolons."""
    parts, heading = list[str](), ""
    for each in sentences:
        parts += [f"{each.heading.rstrip(':')}:"] if each.heading not in ("", heading) else []
        parts.append(each.text if each.text.endswith((".", "!", "?", ":")) else f"{each.text};")
        heading = each.heading
    return " ".join(parts).rstrip(";")


def split_paragraph(block: str, by: str = "") -> Iterator[str]:
    """The sentences of a paragraph; a full stop within a code span or brackets does not end one: "(Art. 15)"."""
    hidden = _CUE["quoted"].sub(lambda span: "`" + "x" * (len(span[0]) - 2) + "`", block)
    hidden = _BRACKETS.sub(lambda span: "x" * (len(span[0]) - 2) + span[0][-2:], hidden)
    ends = {*map(re.Match.end, _CUE["sentence_end"].finditer(hidden))}
    small = {*map(re.Match.end, _CUE["small_sentence_end"].finditer(hidden))}
    if block.lstrip()[:1].islower() or (by == USER and len(small) > len(ends)):  # "16 bits. always 16 bits."
        ends |= small
    for begin, end in pairwise([0, *sorted(ends), len(block)]):
        yield block[begin:end]


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and list items; lines that are output, code or a table are left out."""
    heading, not_prose = _CUE["heading"], _CUE["not_prose"]
    gathered = ""
    for line in [*text.splitlines(), ""]:
        breaks = not line.strip() or _ITEM.match(line) or heading.search(line) or not_prose.match(line)
        goes_on = len(gathered.rpartition("\n")[2]) >= _WRAPPED or line.strip()[:1].islower()
        if gathered and (breaks or not goes_on):
            yield gathered
            gathered = ""
        if line.strip() and not not_prose.match(line):
            gathered = f"{gathered} {line.strip()}" if gathered else line.rstrip()
            if heading.search(line):
                yield gathered
                gathered = ""


def trim(text: str) -> str:
    """A sentence or line without the marks of a list, a heading or emphasis."""
    words = " ".join(_EMPHASIS.sub(r"\1", _CUE["list_marks"].sub("", text.strip())).split()).rstrip(" ,;")
    return words[:-1] if words.endswith('"') and words.count('"') % 2 else words
