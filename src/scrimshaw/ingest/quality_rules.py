"""The rules of the quality gate: each looks for one class of defect in a memory file and says what to do about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from scrimshaw.ingest import boilerplate, contamination
from scrimshaw.ingest.boilerplate import plain
from scrimshaw.ingest.front_matter import parse_provenance
from scrimshaw.ingest.sheet import Field, Sheet

MANY_TOOL_CALLS = 5  # from here on a session must be findable by trigger phrases, REQ-021
FEWEST_TRIGGERS = 2  # REQ-021
FEWEST_WORDS = 5  # different words that a session's file says of its own
FEWEST_WORDS_FRAMED = 30  # the same of one in a template's frame; the labelled ones worth keeping say 46 and more
FEWEST_FOREIGN = 5  # mentions of another piece of work
FEWEST_BLANKS = 3
FEWEST_TEMPORARY = 3
DECISION_WORDS = 3
_COPIED = 50  # characters that do not agree by chance
_FILLING_SPACES = 5
_NEAR = 20
_SHOWN = 60
_SECTION_LEVEL = 2
_STATEMENT_SPACES = 2

_PLACEHOLDER = re.compile(
    r"\[(?:TBD|TODO|N/?A|PLACEHOLDER|INSERT [^\]\n]{0,80}|Not (?:assessed|available|provided|recorded|set|specified)"
    r"[^\]\n]{0,80})\](?!\()|\{\{[^{}\n]{0,80}\}\}",
    re.IGNORECASE,
)
_TO_COME = re.compile(r"(?:TBD|TODO|FIXME|\?{2,}|/\d+|%)[.!]?", re.IGNORECASE)
_SPEAKS_BEFORE = re.compile(
    r"\b(?:an?|all|any|contain(?:s|ed|ing)?|each|every|ha[ds]|have|hold(?:s|ing)?|leav(?:es?|ing)|left|literal|no|of|or"
    r"|re(?:ject|mov|plac)(?:s|e[sd]?|ed|ing)|sa(?:ys|id)|strip(?:s|ped|ping)?|the|unfilled)\s$",
    re.IGNORECASE,
)
_SPEAKS_AFTER = re.compile(
    r"\s(?:default|entr|field|leak|literal|mark|placeholder|string|tag|text|token|value)|(?:/|,| and| or)\s?\[",
    re.IGNORECASE,
)
_MENTION = re.compile(r'`[^`]*`|"[^"]*"')
_NO_DECISION = re.compile(r"no (?:\w+ )?decisions?\b")
_PSEUDO_DECISION = re.compile(r"(?:observation|user|assistant|message) decision(?: \d+)?")
_DECISION = re.compile(r"Decision (\d+): *(.*)", re.IGNORECASE)
_SESSION_TITLE = re.compile(r"(?:\S+ ){0,4}session(?: \d\d-\d\d-\d\d)?", re.IGNORECASE)  # a name, not a sentence
_FOLDER = re.compile(r"[\w@+(-][\w.@+()&,'-]*(?:[/\\ ][\w@+(&-][\w.@+()&,'-]*)*")
_WORK_ID = re.compile(r"\b\d{3}(?:-[a-z0-9]+){2,}\b")
_TEMPORARY = re.compile(r"(?:/private)?/tmp/\S|/var/folders/|\\Temp\\", re.IGNORECASE)
_OBSTACLE = re.compile(
    r"\b(?:await|block|broken|can'?t|cannot|conflict|crash|denied|depend|down|expired|fail(?:s|ed|ing|ure)|flaky|hang|issue"
    r"|lack|limit|missing|must|need|no longer|not|outage|pending|problem|red|refus|require|stuck|timeout|unable"
    r"|unavailable|unclear|until|wait|without)",
    re.IGNORECASE,
)
_REASON = re.compile(r"\b(?:because|since|so that|rather than|instead of|due to|over)\b", re.IGNORECASE)
_DONE = re.compile(r"Decision:|[A-Z][a-z]+(?:ed|lt|nt) |(?:Made|Wrote|Chose|Ran) ")
_LETTERS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,2}|[^\\W\\d_]{4,}")
_ANY = re.compile(r"\w+")


class Defect(Struct, frozen=True):
    """A defect: its flag, a sentence to act on, and whether the file is not accepted with it."""

    flag: str
    reason: str
    rejects: bool = True


class Case(NamedTuple):
    """A file at the gate, the tool calls of its session where they are known, and the phrases of chatter."""

    sheet: Sheet
    tool_calls: int | None
    phrases: Sequence[str]

    @property
    def shows_session(self) -> bool:
        """Whether the file is the record of a session, and not a note somebody wrote."""
        made_of_one = parse_provenance(self.sheet.values).source == "session"
        says_so = made_of_one or "session_id" in self.sheet.values or any(self.sheet.named("session_id"))
        return says_so or (self.tool_calls or 0) >= MANY_TOOL_CALLS


Rule = Callable[[Case], Iterator[Defect]]


def decisions(sheet: Sheet) -> tuple[str, ...]:
    """What the file records as decided: titles (`Decision 1: ...`) or, where it has none, the lines under Decisions."""
    lines = (field for field in sheet.fields if "decision" in field.section and field.name != "decision_count")
    stated = _decision_titles(sheet) or [_told(field) for field in lines]
    return tuple(text for text in stated if _is_decision(plain(text)))


def placeholders(case: Case) -> Iterator[Defect]:
    """A field that waits to be filled in; where it is required, the file waits too (REQ-018 a)."""
    found = {field: mark for field in _all_fields(case.sheet) if (mark := _placeholder(field))}
    required = next((field for field in found if _required(field)), None)
    if required:
        name = _required(required)
        yield Defect(
            "has_placeholders", f"placeholder leakage detected \u2014 field '{name}' contains {found[required]}"
        )
    elif found:
        field, mark = next(iter(found.items()))
        yield Defect("has_placeholders", f"Fill in or remove field '{field.name}': it contains {mark}.", rejects=False)
    elif _blanks(case.sheet.values) >= FEWEST_BLANKS:
        yield Defect("has_placeholders", "Fill in or remove the blank keys of the metadata.", rejects=False)


def fallback_decision(case: Case) -> Iterator[Defect]:
    """A sentence in place of decisions, or a decision in name only (REQ-018 d)."""
    told = " ".join(plain(field.value) for field in case.sheet.fields if "decision" in field.section)
    stock = next((text for text in boilerplate.FALLBACK_DECISIONS if text in told), "")
    pseudo = next((title for title in _decision_titles(case.sheet) if _PSEUDO_DECISION.fullmatch(plain(title))), "")
    if stock or pseudo:
        said = f"the file says '{stock}'" if stock else f"'{pseudo}' decides nothing"
        hint = "write what was decided, or leave the section out"
        yield Defect("has_fallback_decision", f"generic decision \u2014 {said}; {hint}", not decisions(case.sheet))


def chatter(case: Case) -> Iterator[Defect]:
    """Narration, tool traces and chat replies (REQ-019), in the title too."""
    texts = (case.sheet.title, case.sheet.line("description"), case.sheet.body)
    for text in texts:
        if found := contamination.find(text, case.phrases):
            piece = " ".join(text[found[0].start : found[0].end].split())
            yield Defect("has_contamination", f"{found[0].kind} \u2014 remove '{_short(piece)}' and the like")
            return


def sparse_semantics(case: Case) -> Iterator[Defect]:
    """Nothing to find a session's file by (REQ-018 c, REQ-021)."""
    if not case.shows_session:
        return
    telling = _telling(case)
    if len(telling) < FEWEST_TRIGGERS:
        names = f"only {telling[0]!r} tells" if telling else "none tells"
        yield Defect(
            "sparse_semantic_fields",
            f"empty semantic fields \u2014 of 'trigger_phrases' {names} what the file is about; give {FEWEST_TRIGGERS}",
        )
    elif not (case.sheet.phrases("topics") or case.sheet.phrases("key_topics")):
        yield Defect("sparse_semantic_fields", "Give the file a topic: 'topics' is empty.", rejects=False)


def malformed(case: Case) -> Iterator[Defect]:
    """A field whose value cannot be what the field is for (REQ-018 b)."""
    reason = case.sheet.broken or _folder_defect(case.sheet)
    if case.shows_session:
        reason = reason or _blocker_defect(case.sheet)
    if reason:
        yield Defect("malformed_field", f"malformed field \u2014 {reason}")


def generic_title(case: Case) -> Iterator[Defect]:
    """A title that fits any session; bearable where the file tells decisions."""
    titles = (case.sheet.title, next((item.text for item in case.sheet.headings if item.level == 1), ""))
    generic = next((title for title in titles if title and _is_generic(title, case.phrases)), None)
    if generic:
        rejects = case.shows_session and not decisions(case.sheet)
        hint = "name what the file is about"
        yield Defect("generic_title", f"generic title \u2014 '{_short(generic)}' fits any session; {hint}", rejects)


def mostly_boilerplate(case: Case) -> Iterator[Defect]:
    """A file that says next to nothing of its own, and gives no reason for a decision either."""
    words = _own_words(case)
    if len(words) < _words_due(case) and not any(map(_REASON.search, decisions(case.sheet))):
        count = f"{len(words)} words" if words else "no word"
        yield Defect("mostly_boilerplate", f"nothing but boilerplate \u2014 the file has {count} of its own")


def repeated_decisions(case: Case) -> Iterator[Defect]:
    """The same decisions written down twice."""
    numbers = Counter(match[1] for item in case.sheet.headings if (match := _DECISION.fullmatch(item.text)))
    repeated = next((number for number, count in numbers.items() if count > 1), None)
    if repeated:
        yield Defect("repeated_decisions", f"decisions are recorded twice \u2014 keep one 'Decision {repeated}'")


def foreign_references(case: Case) -> Iterator[Defect]:
    """A file that is about another piece of work than the one it is filed under."""
    folder = case.sheet.line("spec_folder")
    told = [field.value for field in case.sheet.fields if field.section not in boilerplate.FRAME]
    named = [ids for text in told if (ids := _WORK_ID.findall(text))]
    own = sum(any(found in folder for found in ids) for ids in named)
    others = Counter(found for ids in named if not any(one in folder for one in ids) for found in ids)
    for foreign, count in others.most_common(1):
        if folder and count >= FEWEST_FOREIGN and count > 2 * own:
            yield Defect("foreign_references", f"foreign content \u2014 filed under '{folder}', but about '{foreign}'")


def stale_references(case: Case) -> Iterator[Defect]:
    """A file that rests on temporary files, which are gone when it is read."""
    paths = [word for field in case.sheet.fields for word in field.value.split() if _is_path(word)]
    temporary = [path for path in paths if _TEMPORARY.match(path.strip("`'\"([{"))]
    if case.shows_session and len(temporary) >= FEWEST_TEMPORARY and 2 * len(temporary) > len(paths):
        yield Defect("stale_references", f"stale references \u2014 '{temporary[0]}' and others are temporary files")


RULES: tuple[Rule, ...] = (
    placeholders,
    malformed,
    fallback_decision,
    chatter,
    sparse_semantics,
    generic_title,
    mostly_boilerplate,
    repeated_decisions,
    foreign_references,
    stale_references,
)
"""All rules, in the order in which their reasons are given."""


def _is_decision(text: str) -> bool:
    if len(text.split()) < DECISION_WORDS or _NO_DECISION.match(text):
        return False
    is_stock = text in boilerplate.STOCK or any(stock in text for stock in boilerplate.FALLBACK_DECISIONS)
    return not is_stock and not _PSEUDO_DECISION.fullmatch(text)


def _told(field: Field) -> str:
    """A field as a sentence: its label says something too, where it has one of its own."""
    return field.value if field.name == field.section else f"{field.name.replace('_', ' ')} {field.value}"


def _decision_titles(sheet: Sheet) -> list[str]:
    return [match[2] for heading in sheet.headings if (match := _DECISION.fullmatch(heading.text))]


def _all_fields(sheet: Sheet) -> Iterator[Field]:
    """The fields of the body, and the values of the front matter as fields."""
    for key, value in sheet.values.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str):
                yield Field("", key, item)
    yield from sheet.fields


def _placeholder(field: Field) -> str:
    """What stands in the field until it is filled in; a text may speak of placeholders, and so may a long value."""
    told = _MENTION.sub("", field.value).strip("* _\t")
    if _TO_COME.fullmatch(told):
        return told
    if plain(told) == boilerplate.DEFAULT_DESCRIPTION:
        return f"the template's '{told}'"
    meant = (mark[0] for mark in _PLACEHOLDER.finditer(told) if not _is_spoken_of(told, mark))
    if _required(field) or _PLACEHOLDER.sub("", told).count(" ") <= _FILLING_SPACES:
        return next(meant, "")
    return ""


def _is_spoken_of(told: str, mark: re.Match[str]) -> bool:
    before, after = told[max(0, mark.start() - _NEAR) : mark.start()], told[mark.end() : mark.end() + _NEAR]
    return bool(_SPEAKS_BEFORE.search(before) or _SPEAKS_AFTER.match(after))


def _required(field: Field) -> str:
    """The name under which the field is required, nothing where it is not."""
    return next((name for name in (field.section, field.name) if name.removesuffix("s") in boilerplate.REQUIRED), "")


def _blanks(values: Mapping[str, object]) -> int:
    nested = (_blanks(value) for value in values.values() if isinstance(value, Mapping))
    return sum(value is None for value in values.values()) + sum(nested)


def _telling(case: Case) -> list[str]:
    """The trigger phrases with a word that comes neither from the folder, nor from chatter, nor from every session."""
    body = case.sheet.body
    chatter = (body[piece.start : piece.end] for piece in contamination.find(body, case.phrases))
    noise = {word for text in (case.sheet.line("spec_folder"), *chatter) for word in plain(text).split()}
    noise |= boilerplate.GENERIC_WORDS
    return [phrase for phrase in case.sheet.phrases("trigger_phrases") if _tells(phrase, noise)]


def _tells(phrase: str, noise: set[str]) -> bool:
    words = (word for word in plain(phrase).split() if word not in noise and not word.isdigit())
    if "/" in phrase or plain(phrase) in boilerplate.DEFAULT_TRIGGERS:
        return False
    return any(len(word) > 2 or not word.isascii() for word in words)


def _folder_defect(sheet: Sheet) -> str:
    folder = sheet.line("spec_folder").strip("/")
    stated = next((field.value.strip("/`* ") for field in sheet.fields if field.name == "spec_folder"), folder)
    if folder and not _FOLDER.fullmatch(folder):
        return f"'spec_folder' is no folder of the project: '{_short(folder)}'"
    if folder and stated and not (folder.endswith(stated) or stated.endswith(folder)):
        return f"'spec_folder' is '{_short(folder)}', but the summary says '{_short(stated)}'"
    return ""


def _blocker_defect(sheet: Sheet) -> str:
    blocker = next((field.value for field in sheet.fields if field.name in ("blocker", "blockers")), "")
    if plain(blocker).partition(" ")[0] in boilerplate.NOTHING:
        return ""
    if blocker.count("`") % 2 or (blocker[:1].islower() and not _OBSTACLE.search(blocker)):
        return f"'blockers' is a fragment: '{_short(blocker)}'"
    if (_DONE.match(blocker) and not _OBSTACLE.match(blocker)) or _is_copied(blocker, sheet):
        return f"'blockers' names nothing that blocks: '{_short(blocker)}'"
    return ""


def _is_copied(blocker: str, sheet: Sheet) -> bool:
    """Whether the text comes from elsewhere in the file and says nothing of an obstacle."""
    start = blocker[:_COPIED]
    elsewhere = any(start in field.value for field in sheet.fields if field.name not in ("blocker", "blockers"))
    return elsewhere and not _OBSTACLE.search(blocker)


def _is_generic(title: str, phrases: Sequence[str]) -> bool:
    words = [word for word in plain(title).split() if not word.isdigit()]
    if words and all(word in boilerplate.GENERIC_TITLE_WORDS for word in words):
        return True
    return bool(_SESSION_TITLE.fullmatch(title) or contamination.find(title, phrases))


def _words_due(case: Case) -> int:
    if not case.shows_session:
        return 1
    is_framed = any(heading.section in boilerplate.FRAME for heading in case.sheet.headings)
    return FEWEST_WORDS_FRAMED if is_framed else FEWEST_WORDS


def _own_words(case: Case) -> set[str]:
    """The words a file does not owe to a template or to the names of its files."""
    if not case.shows_session:
        return set(_ANY.findall(case.sheet.body))
    told = [(field.section, field.value) for field in case.sheet.fields]
    told += ((item.section, item.text) for item in case.sheet.headings if item.level > _SECTION_LEVEL)
    own = (text for section, text in told if section not in boilerplate.FRAME)
    said = (word for text in own if _is_statement(plain(text)) for word in text.split() if not _is_path(word))
    return {part for word in said for part in _LETTERS.findall(word.lower())}


def _is_path(word: str) -> bool:
    return "/" in word or "\\" in word


def _is_statement(text: str) -> bool:
    """Whether a plain text says something: a word or two is a status or a name, and templates write the rest."""
    if text in boilerplate.STOCK or text.startswith(boilerplate.STOCK_STARTS):
        return False
    return text.count(" ") >= _STATEMENT_SPACES or not text.isascii()


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "\u2026"
