"""The quality gate: whether a memory file tells enough to be found and believed later.

Each rule looks for one class of defect and says what to do about it. The words and sentences that say nothing are in
`boilerplate.toml`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

from msgspec import Struct

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.chatter import find_chatter
from scrimshaw.ingest.front_matter import (
    compose_yaml,
    convert_node,
    parse_line,
    parse_phrases,
    parse_provenance,
    parse_title,
)
from scrimshaw.ingest.memory_file import MemoryFile
from scrimshaw.ingest.prose import Line, split_lines
from scrimshaw.ingest.tables import load_lines, load_pattern, load_words

ACCEPTED = 0.65  # score from which a file is accepted; one with a defect that rejects does not reach it
_SLIGHT, _GRAVE = 0.08, 0.16
# Defects that leave little to believe, where the others leave a file that can be mended.
_GRAVE_FLAGS = frozenset({"foreign_references", "has_contamination", "has_fallback_decision", "mostly_boilerplate"})

_HEADING = re.compile(r"[ \t]*(#{1,6})[ \t]+([^\n]*)")
_NUMBER = re.compile(r"\A(?:\d+[.)]|\d+(?:\.\d+)+[.)]?)[ \t]+")
_LABELLED = re.compile(r"(?:\*\*|__)?([A-Za-z][\w /%&-]{0,40}?)(?:\*\*|__)?:(?:\*\*|__)?[ \t]*(.*)", re.DOTALL)
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_RULE_ROW = re.compile(r"[|:\- \t]*")
_CELLS = re.compile(r"(?<!\\)\|")
_METADATA = re.compile(r"[ \t]*```ya?ml[ \t]*\n(?=(?:.*\n)??(?:.*\n)?(?:session_id|spec_folder|trigger_phrases)\b)")
_TITLE_PATH = re.compile(r"[ \t]*\[[^\]\n]*/[^\]\n]*\][ \t]*$")
_MARKUP = re.compile(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")

_MANY_TOOL_CALLS = 5  # from here on a session must be findable by trigger phrases
_FEWEST_TRIGGERS = 2
_FEWEST_WORDS = 5  # different words that a session's file says of its own
_FEWEST_WORDS_FRAMED = 30  # the same of one in a template's frame; the labelled ones worth keeping say 46 and more
_FEWEST_FOREIGN = 5  # mentions of another piece of work
_FEWEST_BLANKS = 3
_FEWEST_TEMPORARY = 3
_DECISION_WORDS = 3
_COPIED = 50  # characters that do not agree by chance
_FILLING_SPACES = 5
_NEAR = 20
_LONGEST_QUOTE = 60
_SECTION_LEVEL = 2

_MENTION = re.compile(r'`[^`]*`|"[^"]*"')
_DECISION = re.compile(r"Decision (\d+): *(.*)", re.IGNORECASE)
_FOLDER = re.compile(r"[\w@+(-][\w.@+()&,'-]*(?:[/\\ ][\w@+(&-][\w.@+()&,'-]*)*")
_WORK_ID = re.compile(r"\b\d{3}(?:-[a-z0-9]+){2,}\b")
# More than two letters, or one of another script; no number.
_TELLING = re.compile(r"(?!\d+\Z)(?:\w{3,}|\w*[^\x00-\x7f]\w*)")
_LETTERS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,2}|[^\\W\\d_]{4,}")
_ANY = re.compile(r"\w+")


class QualityVerdict(Struct, frozen=True):
    """What the gate says of a file: a score (0..1), the defects by name, and for each a sentence to act on.

    Each defect takes 0.08 off 1, never below 0.65. A file with defects that reject it scores 0.60 less 0.16 for each
    that leaves little to believe and 0.08 for each other one.
    """

    score: float
    flags: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def is_accepted(self) -> bool:
        """Whether the file may become a memory."""
        return self.score >= ACCEPTED


def judge(file: MemoryFile, *, tool_calls: int | None = None, phrases: Sequence[str] | None = None) -> QualityVerdict:
    """The verdict on a Markdown file of any shape; never raises.

    `tool_calls` is how many its session made, where that is known; `phrases` is how sentences of chatter begin.
    """
    contents = read_contents(file, tool_calls, phrases)
    defects: list[Defect] = []
    for rule in _RULES:
        defects.extend(rule(contents))
    if not defects:
        return QualityVerdict(1.0)
    defects.sort(key=lambda defect: not defect.rejects)
    rejecting = [_GRAVE if defect.flag in _GRAVE_FLAGS else _SLIGHT for defect in defects if defect.rejects]
    return QualityVerdict(
        score=round(max(0.0, 0.60 - sum(rejecting)) if rejecting else max(ACCEPTED, 1.0 - _SLIGHT * len(defects)), 2),
        flags=tuple(dict.fromkeys(defect.flag for defect in defects)),
        reasons=tuple(f"Quality gate failed: {each.reason}" if each.rejects else each.reason for each in defects),
    )


# What a file says


class Field(NamedTuple):
    """One thing a file says: under which heading, by what name (that of the heading, if it has none), and what."""

    section: str
    name: str
    value: str


class SectionHeading(NamedTuple):
    """A heading below the title, in the section it belongs to."""

    section: str
    level: int
    text: str


class FileContents(NamedTuple):
    """What a file says."""

    #: The front matter, joined with the metadata block that some tools put at the end.
    values: Mapping[str, object]
    title: str
    headings: tuple[SectionHeading, ...]
    fields: tuple[Field, ...]
    body: str
    #: What could not be read as YAML, empty where all could.
    broken: str = ""
    #: How sentences of chatter begin, None for those of the product.
    chatter: Sequence[str] | None = None
    #: Whether the file is the record of a session, and not a note somebody wrote.
    is_session: bool = False


def read_contents(
    file: MemoryFile, tool_calls: int | None = None, chatter: Sequence[str] | None = None
) -> FileContents:
    """What any Markdown file says; never raises."""
    values, body, broken = file.values, file.body, file.problem.message if file.problem else ""
    headings: list[SectionHeading] = []
    fields: list[Field] = []
    section, row = "", 0
    for line in split_lines(body):
        piece = body[line.start : line.end]
        if heading := _HEADING.match(piece):
            level, words = len(heading[1]), _MARKUP.sub("", _NUMBER.sub("", heading[2])).strip()
            section = _join_words(words) if level == 2 or (level < 2 and headings) else section
            headings.append(SectionHeading(section, level, words))
        elif _RULE_ROW.fullmatch(piece.strip()) and line.kind == "row":
            del fields[row:]  # the head of a table
        elif "metadata" in section and _METADATA.match(piece):
            found, why = _read_metadata(piece)
            lists = {
                key: [*known, *new]
                for key, new in found.items()
                if isinstance(new, list) and isinstance(known := values.get(key), list)
            }
            values, broken = {**found, **values, **lists}, broken or why
        else:
            row = len(fields)
            fields.extend(_read_fields(section, line, piece))
    title = _TITLE_PATH.sub("", parse_title(values)) or next((each.text for each in headings if each.level == 1), "")
    is_session = (
        parse_provenance(values).source == "session"
        or "session_id" in values
        or "session_id" in {name for field in fields for name in field[:2]}
        or (tool_calls or 0) >= _MANY_TOOL_CALLS
    )
    return FileContents(values, title, tuple(headings), tuple(fields), body, broken, chatter, is_session)


def _join_words(text: str) -> str:
    """A name for a heading or label: lower-case words joined by `_`."""
    return "_".join(re.findall(r"[^\W_]+", text.lower()))


def _read_metadata(fence: str) -> tuple[Mapping[str, object], str]:
    yaml = fence.partition("\n")[2].rpartition("```")[0]
    try:
        found = convert_node(node) if (node := compose_yaml(yaml, "metadata block")) else None
    except UnreadableFile as error:
        return {}, error.message
    return (found, "") if isinstance(found, dict) else ({}, "")


def _read_fields(section: str, line: Line, piece: str) -> Iterator[Field]:
    if line.kind == "row":
        first, *rest = (cell.strip() for cell in _CELLS.split(piece.strip().strip("|")))
        name = _join_words(first)
        if not rest:
            yield Field(section, section, first)
        for cell in rest:
            yield Field(section, section if name.isdigit() else name or section, cell)
    elif line.kind in ("text", "item"):
        text = piece[mark.end() :] if (mark := _ITEM.match(piece)) else piece
        label = _LABELLED.match(text)
        if label and len(label[1].split()) <= 4:
            yield Field(section, _join_words(label[1]), label[2].strip())
        elif text.strip():
            yield Field(section, section, text.strip())


# Rules


_words, _pattern = partial(load_words, __file__, "boilerplate"), partial(load_pattern, __file__, "boilerplate")


@cache
def _sentences(listing: str) -> tuple[str, ...]:
    """The lines of a listing of `boilerplate.toml`, as plain words."""
    return tuple(map(_plain_words, load_lines(__file__, "boilerplate", listing)))


def _plain_words(text: str) -> str:
    """A text as its words, lower case, for comparing."""
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


class Defect(Struct, frozen=True):
    """A defect: its flag, a sentence to act on, and whether the file is not accepted with it."""

    flag: str
    reason: str
    rejects: bool = True


def find_decisions(file: FileContents) -> tuple[str, ...]:
    """What the file records as decided: titles (`Decision 1: ...`) or, where it has none, the lines under Decisions."""
    fields = (field for field in file.fields if "decision" in field.section and field.name != "decision_count")
    # A label says something too, where a field has one of its own.
    labels = ((field, "" if field.name == field.section else field.name.replace("_", " ") + " ") for field in fields)
    stated = _decision_titles(file) or [label + field.value for field, label in labels]
    found = []
    for text in stated:
        words = _plain_words(text)
        is_none = words.count(" ") + 1 < _DECISION_WORDS or _pattern("no_decision").match(words)
        is_stock = words in _sentences("stock") or any(stock in words for stock in _sentences("fallback_decisions"))
        if not (is_none or is_stock or _pattern("pseudo_decision").fullmatch(words)):
            found.append(text)
    return tuple(found)


def _find_placeholders(file: FileContents) -> Iterator[Defect]:
    """A field that waits to be filled in; where it is required, the file waits too."""
    found = {field: mark for field in _all_fields(file) if (mark := _find_placeholder(field))}
    required = next((field for field in found if _required_name(field)), None)
    if required:
        where = f"field '{_required_name(required)}' contains {found[required]}"
        yield Defect("has_placeholders", f"placeholder leakage detected \u2014 {where}")
    elif found:
        field, mark = next(iter(found.items()))
        yield Defect("has_placeholders", f"Fill in or remove field '{field.name}': it contains {mark}.", rejects=False)
    elif _blanks(file.values) >= _FEWEST_BLANKS:
        yield Defect("has_placeholders", "Fill in or remove the blank keys of the metadata.", rejects=False)


def _find_fallback_decision(file: FileContents) -> Iterator[Defect]:
    """A sentence in place of decisions, or a decision in name only."""
    fields = [field for field in file.fields if "decision" in field.section]
    titles = _decision_titles(file) if file.headings else []
    if not (fields or titles):
        return
    text = " ".join([_plain_words(field.value) for field in fields])
    found = ""
    for title in titles:
        if not found and _pattern("pseudo_decision").fullmatch(_plain_words(title)):
            found = f"'{title}' decides nothing"
    for sentence in reversed(_sentences("fallback_decisions")) if text else ():
        if sentence in text:
            found = f"the file says '{sentence}'"
    if found:
        reason = f"generic decision \u2014 {found}; write what was decided, or leave the section out"
        yield Defect("has_fallback_decision", reason, rejects=not find_decisions(file))


def _find_narration(file: FileContents) -> Iterator[Defect]:
    """Narration, tool traces and chat replies, in the title too."""
    texts = (file.title, parse_line(file.values.get("description")), file.body)
    for text in texts:
        if found := find_chatter(text, file.chatter):
            piece = " ".join(text[found[0].start : found[0].end].split())
            yield Defect("has_contamination", f"{found[0].kind} \u2014 remove '{_short(piece)}' and the like")
            return


def _find_sparse_semantics(file: FileContents) -> Iterator[Defect]:
    """Nothing to find a session's file by."""
    if not file.is_session:
        return
    telling = _find_telling_phrases(file)
    if len(telling) < _FEWEST_TRIGGERS:
        names = f"only {telling[0]!r} tells" if telling else "none tells"
        yield Defect(
            "sparse_semantic_fields",
            "empty semantic fields \u2014 of 'trigger_phrases' "
            f"{names} what the file is about; give {_FEWEST_TRIGGERS}",
        )
    elif not (parse_phrases(file.values, "topics") or parse_phrases(file.values, "key_topics")):
        yield Defect("sparse_semantic_fields", "Give the file a topic: 'topics' is empty.", rejects=False)


def _find_malformed_field(file: FileContents) -> Iterator[Defect]:
    """A field whose value cannot be what the field is for."""
    reason = file.broken or _folder_defect(file)
    if file.is_session:
        reason = reason or _blocker_defect(file)
    if reason:
        yield Defect("malformed_field", f"malformed field \u2014 {reason}")


def _find_generic_title(file: FileContents) -> Iterator[Defect]:
    """A title that fits any session; bearable where the file tells decisions."""
    tops = [item.text for item in file.headings if item.level == 1]
    for title in (file.title, *tops[:1]):
        words = [word for word in _plain_words(title).split() if not word.isdigit()]
        is_generic = bool(words) and _words("generic_title_words").issuperset(words)
        if title and (is_generic or _pattern("session_title").fullmatch(title) or find_chatter(title, file.chatter)):
            rejects = file.is_session and not find_decisions(file)
            reason = f"generic title \u2014 '{_short(title)}' fits any session; name what the file is about"
            yield Defect("generic_title", reason, rejects)
            return


def _find_boilerplate(file: FileContents) -> Iterator[Defect]:
    """A file that says next to nothing of its own, and gives no reason for a decision either."""
    count, due = len(_ANY.findall(file.body)), 1
    if file.is_session:
        is_framed = not _words("frame").isdisjoint([heading.section for heading in file.headings])
        count, due = len(_own_words(file)), _FEWEST_WORDS_FRAMED if is_framed else _FEWEST_WORDS
    if count < due and not any(map(_pattern("reason").search, find_decisions(file))):
        words = f"{count} words" if count else "no word"
        yield Defect("mostly_boilerplate", f"nothing but boilerplate \u2014 the file has {words} of its own")


def _find_repeated_decisions(file: FileContents) -> Iterator[Defect]:
    """The same decisions written down twice."""
    if not file.headings:
        return
    numbers = [match[1] for item in file.headings if (match := _DECISION.fullmatch(item.text))]
    repeated = [number for number in dict.fromkeys(numbers) if numbers.count(number) > 1]
    if repeated:
        yield Defect("repeated_decisions", f"decisions are recorded twice \u2014 keep one 'Decision {repeated[0]}'")


def _find_foreign_references(file: FileContents) -> Iterator[Defect]:
    """A file that is about another piece of work than the one it is filed under."""
    folder = parse_line(file.values.get("spec_folder"))
    if not folder:
        return
    texts = [field.value for field in file.fields if field.section not in _words("frame")]
    named = [ids for text in texts if (ids := _WORK_ID.findall(text))]
    own = sum(any(found in folder for found in ids) for ids in named)
    others = Counter(found for ids in named if not any(one in folder for one in ids) for found in ids)
    for foreign, count in others.most_common(1):
        if count >= _FEWEST_FOREIGN and count > 2 * own:
            yield Defect("foreign_references", f"foreign content \u2014 filed under '{folder}', but about '{foreign}'")


def _find_stale_references(file: FileContents) -> Iterator[Defect]:
    """A session's file that rests on temporary files, which are gone when it is read."""
    if not file.is_session:
        return
    paths = [word for field in file.fields for word in field.value.split() if _is_path(word)]
    temporary = [path for path in paths if _pattern("temporary").match(path.strip("`'\"([{"))]
    if len(temporary) >= _FEWEST_TEMPORARY and 2 * len(temporary) > len(paths):
        yield Defect("stale_references", f"stale references \u2014 '{temporary[0]}' and others are temporary files")


# In the order in which their reasons are given.
_RULES: tuple[Callable[[FileContents], Iterator[Defect]], ...] = (
    _find_placeholders,
    _find_malformed_field,
    _find_fallback_decision,
    _find_narration,
    _find_sparse_semantics,
    _find_generic_title,
    _find_boilerplate,
    _find_repeated_decisions,
    _find_foreign_references,
    _find_stale_references,
)


def _decision_titles(file: FileContents) -> list[str]:
    return [match[2] for heading in file.headings if (match := _DECISION.fullmatch(heading.text))]


def _all_fields(file: FileContents) -> Iterator[Field]:
    """The fields of the body, and the values of the front matter as fields."""
    for key, value in file.values.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str):
                yield Field("", key, item)
    yield from file.fields


def _find_placeholder(field: Field) -> str:
    """What stands in the field until it is filled in; a text may speak of placeholders, and so may a long value."""
    told = _MENTION.sub("", field.value).strip("* _\t")
    if _pattern("to_come").fullmatch(told):
        return told
    if _plain_words(told) == _sentences("default_description")[0]:
        return f"the template's '{told}'"
    if _required_name(field) or _pattern("placeholder").sub("", told).count(" ") <= _FILLING_SPACES:
        for mark in _pattern("placeholder").finditer(told):
            before, after = told[max(0, mark.start() - _NEAR) : mark.start()], told[mark.end() : mark.end() + _NEAR]
            if not (_pattern("speaks_before").search(before) or _pattern("speaks_after").match(after)):
                return mark[0]
    return ""


def _required_name(field: Field) -> str:
    """The name under which the field is required, nothing where it is not."""
    required = _words("required")
    if field.section.removesuffix("s") in required:
        return field.section
    return field.name if field.name.removesuffix("s") in required else ""


def _blanks(values: Mapping[str, object]) -> int:
    return sum(_blanks(value) if isinstance(value, Mapping) else value is None for value in values.values())


def _find_telling_phrases(file: FileContents) -> list[str]:
    """The trigger phrases with a word that comes neither from the folder, nor from chatter, nor from every session."""
    body = file.body
    chatter = (body[piece.start : piece.end] for piece in find_chatter(body, file.chatter))
    noise = {
        word for text in (parse_line(file.values.get("spec_folder")), *chatter) for word in _plain_words(text).split()
    }
    noise |= _words("generic_words")
    return [
        phrase
        for phrase in parse_phrases(file.values, "trigger_phrases")
        if "/" not in phrase
        and _plain_words(phrase) not in _sentences("default_triggers")
        and any(map(_TELLING.fullmatch, [word for word in _plain_words(phrase).split() if word not in noise]))
    ]


def _folder_defect(file: FileContents) -> str:
    folder = parse_line(file.values.get("spec_folder")).strip("/")
    if not folder:
        return ""
    stated = next((field.value.strip("/`* ") for field in file.fields if field.name == "spec_folder"), folder)
    if not _FOLDER.fullmatch(folder):
        return f"'spec_folder' is no folder of the project: '{_short(folder)}'"
    if stated and not (folder.endswith(stated) or stated.endswith(folder)):
        return f"'spec_folder' is '{_short(folder)}', but the summary says '{_short(stated)}'"
    return ""


def _blocker_defect(file: FileContents) -> str:
    blocker = next((field.value for field in file.fields if field.name in ("blocker", "blockers")), "")
    if not _plain_words(blocker) or _plain_words(blocker).split()[0] in _words("nothing"):
        return ""
    if blocker.count("`") % 2 or (blocker[:1].islower() and not _pattern("obstacle").search(blocker)):
        return f"'blockers' is a fragment: '{_short(blocker)}'"
    others = (field.value for field in file.fields if field.name not in ("blocker", "blockers"))
    is_copied = not _pattern("obstacle").search(blocker) and any(blocker[:_COPIED] in value for value in others)
    if (_pattern("done").match(blocker) and not _pattern("obstacle").match(blocker)) or is_copied:
        return f"'blockers' names nothing that blocks: '{_short(blocker)}'"
    return ""


def _own_words(file: FileContents) -> set[str]:
    """The words a session's file does not owe to a template or to the names of its files."""
    texts = [(field.section, field.value) for field in file.fields]
    texts += [(item.section, item.text) for item in file.headings if item.level > _SECTION_LEVEL]
    words: set[str] = set()
    for section, text in texts:
        plain = _plain_words(text)
        is_template = plain in _sentences("stock") or plain.startswith(_sentences("stock_starts"))
        # A word or two is a status or a name.
        if section not in _words("frame") and not is_template and (plain.count(" ") > 1 or not plain.isascii()):
            for word in text.split():
                if not _is_path(word):
                    words.update(_LETTERS.findall(word.lower()))
    return words


def _is_path(word: str) -> bool:
    return "/" in word or "\\" in word


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 1] + "\u2026"
