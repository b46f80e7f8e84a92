"""The quality gate: whether a memory file says enough to be found and trusted later."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, partial
from itertools import chain, filterfalse
from operator import attrgetter, itemgetter
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.chatter import Line, find_chatter, remove_code, split_lines
from scrimshaw.ingest.extraction import shorten
from scrimshaw.ingest.front_matter import compose_yaml, convert_node, parse_line, parse_phrases, parse_provenance
from scrimshaw.ingest.memory_file import HINTS_OF_MARKS, MemoryFile, find_flaw
from scrimshaw.ingest.tables import load_lines, load_pattern, load_words
from scrimshaw.models import Document, Quality, Tier

ACCEPTED = 0.65  # least score of an accepted file; a file with a rejecting defect does not reach it
# Least score of each band; chosen so that a note with one weakness is still a B.
BANDS: Mapping[str, float] = {"A": 0.85, "B": ACCEPTED, "C": 0.40, "D": 0.0}
_SLIGHT, _GRAVE = 0.08, 0.16
# Defects after which little can be trusted; with the others a file can be repaired.
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

_MANY_TOOL_CALLS = 5  # from this many on, a session needs trigger phrases
_FEWEST_TRIGGERS, _FEWEST_TEMPORARY = 2, 3
_FEWEST_WORDS = 5  # different words of its own in a session's file
_FEWEST_WORDS_FRAMED = 30  # the same for a filled-in template; the labelled ones worth keeping have 46 or more
_FEWEST_FOREIGN = 5  # mentions of another piece of work
_DECISION_WORDS, _FILLING_SPACES, _SECTION_LEVEL = 3, 5, 2
_COPIED = 50  # characters that are not equal by chance
_NEAR = 20
_quote = partial(shorten, longest=60)

# Signs of a text of nothing but filler, output or repetition.
_FILLER_SHARE, _OUTPUT_SHARE, _FEWEST_LINES, _FEWEST_PIECES, _MOST_REPEATED = 0.25, 0.6, 5, 8, 3
_DIGITS = re.compile(r"\d+")
_TABLE_ROW = re.compile(r"\s*\|")
_SENTENCE_END = re.compile(r"\s(?<=[.!?].)\s*", re.DOTALL)  # a blank is found faster than what is before it
# Weights of the parts of a session's file, by section; fitted on drafts read by a person.
_WORTH: Mapping[str, float] = {"decisions_in": 0.35, "changes_in": 0.35, "cures_in": 0.15, "rest_in": 0.15}
_ENOUGH_CHANGES, _NAMES = 5, re.compile(r"`|\w_\w|\w\.\w")

_MENTION = re.compile(r'`[^`]*`|"[^"]*"')
_DECISION = re.compile(r"Decision (\d+): *(.*)", re.IGNORECASE)
_FOLDER = re.compile(r"[\w@+(-][\w.@+()&,'-]*(?:[/\\ ][\w@+(&-][\w.@+()&,'-]*)*")
_WORK_ID = re.compile(r"\b\d{3}(?:-[a-z0-9]+){2,}\b")
# More than two letters, or one of another script; not a number.
_TELLING = re.compile(r"(?!\d+\Z)(?:\w{3,}|\w*[^\x00-\x7f]\w*)")
_LETTERS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,2}|[^\\W\\d_]{4,}")
_WORD = re.compile(r"[^\W_]+")
_PATH_MARK = re.compile(r"[/\\]")
_QUOTED_EVENT = re.compile(r"\(e\d+\)\Z")  # a draft quotes what was asked last, as it was said
_SESSION_ID = re.compile(r"session[ _]id", re.IGNORECASE)
_SECTION_OF, _NAME_OF = attrgetter("section"), attrgetter("name")


class QualityVerdict(Struct, frozen=True):
    """The gate's verdict on a file: a score (0..1), the defects by name, and for each a sentence with advice.

    An accepted note scores 1, a session's file 0.65 to 1 by how much a successor can use it. Each
    defect takes 0.08 off, never below 0.65. A rejected file scores 0.60 less 0.16 for each defect that
    leaves little to trust and 0.08 for each other one.
    """

    score: float
    flags: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def is_accepted(self) -> bool:
        """Whether the file may become a memory."""
        return self.score >= ACCEPTED


class Field(NamedTuple):
    """One entry of a file: its heading, its name (or the heading's), and its text."""

    section: str
    name: str
    value: str


class SectionHeading(NamedTuple):
    """A heading below the title, with the section it belongs to."""

    section: str
    level: int
    text: str


class FileContents(NamedTuple):
    values: Mapping[str, object]  #: The front matter, joined with the metadata block that some tools put at the end.
    title: str
    top: str  #: The first heading of level 1.
    headings: tuple[SectionHeading, ...]
    fields: tuple[Field, ...]
    body: str
    folder: str  #: The piece of work that the file is filed under.
    broken: str = ""  #: What could not be read as YAML, empty if all could.
    phrases: tuple[str, ...] = ()  #: More beginnings of chatter sentences.
    is_session: bool = False  #: Whether the file is the record of a session, and not a note somebody wrote.


@lru_cache(maxsize=1)  # a record is judged right after it was found to be one
def read_contents(file: MemoryFile, tool_calls: int = 0, phrases: tuple[str, ...] = ()) -> FileContents:
    """The contents of any Markdown file; never raises."""
    values, body, broken = file.values, file.body, file.problem.message if file.problem else ""
    root = file.__dict__.get("root")  # as parsed; an edit adds no key twice
    is_odd = not file.closing or HINTS_OF_MARKS.search(file.text) or (root and len(root.value) > len(file.values))
    place, what = find_flaw(file) if is_odd and not broken else (0, "")
    broken = f"at line {place}: {what}" if place else broken
    headings, fields, section, top, row = list[SectionHeading](), list[Field](), "", "", 0
    for line in split_lines(body):
        piece = body[line.start : line.end]
        if line.kind in ("other", "trace") and (heading := _HEADING.match(piece)):
            level, words = len(heading[1]), _MARKUP.sub("", _NUMBER.sub("", heading[2])).strip()
            section = _plain_words(words, "_") if level == 2 or (level < 2 and headings) else section
            headings.append(SectionHeading(section, level, words))
            top = top or (words if level == 1 else "")
        elif line.kind == "row" and _RULE_ROW.fullmatch(piece.strip()):
            del fields[row:]  # the head of a table
        elif "metadata" in section and _METADATA.match(piece):
            try:
                node = compose_yaml(piece.partition("\n")[2].rpartition("```")[0], "metadata block")
                found = convert_node(node) if node else None
            except UnreadableFile as error:
                found, broken = None, broken or error.message
            if isinstance(found, dict):
                own = {key: known for key, known in values.items() if isinstance(known, list)}
                joined = {key: [*own[key], *new] for key, new in found.items() if key in own and isinstance(new, list)}
                values = {**found, **values, **joined}
        else:
            row = len(fields)
            fields.extend(_read_fields(section, line, piece))
    return FileContents(
        values=values,
        title=_TITLE_PATH.sub("", parse_line(values.get("title"))) or top,
        top=top,
        headings=tuple(headings),
        fields=tuple(fields),
        body=body,
        folder=parse_line(values.get("spec_folder")),
        broken=broken,
        phrases=phrases,
        is_session=parse_provenance(values).source == "session"
        or "session_id" in chain(values, map(_SECTION_OF, fields), map(_NAME_OF, fields))
        or tool_calls >= _MANY_TOOL_CALLS,
    )


def _plain_words(text: str, joint: str = " ") -> str:
    """A text as its words, lower case, for comparison; joined by `_` for the name of a heading or label."""
    return joint.join(_WORD.findall(text.lower()))


def _read_fields(section: str, line: Line, piece: str) -> Iterator[Field]:
    if line.kind == "row":
        first, *rest = (cell.strip() for cell in _CELLS.split(piece.strip().strip("|")))
        name = _plain_words(first, "_")
        if not rest:
            yield Field(section, section, first)
        for cell in rest:
            yield Field(section, section if name.isdigit() else name or section, cell)
    elif line.kind in ("text", "item"):
        text = piece[mark.end() :] if (mark := _ITEM.match(piece)) else piece
        label = _LABELLED.match(text) if ":" in text else None
        if label and len(label[1].split()) <= 4:
            yield Field(section, _plain_words(label[1], "_"), label[2].strip())
        elif text.strip():
            yield Field(section, section, text.strip())


# Rules: each returns a sentence with advice and whether the defect rejects the file, or None

_Defect = tuple[str, bool]
_MALFORMED, _BOILERPLATE = "malformed field \u2014 ", "nothing but boilerplate \u2014 "
_words, _pattern = partial(load_words, __file__, "boilerplate"), partial(load_pattern, __file__, "boilerplate")


@cache
def _sentences(listing: str) -> tuple[str, ...]:
    """The lines of a listing of `boilerplate.toml`, as plain words."""
    return tuple(map(_plain_words, load_lines(__file__, "boilerplate", listing)))


def find_decisions(file: FileContents) -> tuple[str, ...]:
    """The decisions in the file: titles (`Decision 1: ...`) or, if it has none, the lines under Decisions."""
    fields = (field for field in file.fields if "decision" in field.section and field.name != "decision_count")
    # A label counts too, if a field has one of its own.
    labels = ((field, "" if field.name == field.section else field.name.replace("_", " ") + " ") for field in fields)
    stated = [title for _, title in _list_decision_titles(file)] or [label + field.value for field, label in labels]
    found = []
    for text in stated:
        words = _plain_words(text)
        is_none = words.count(" ") + 1 < _DECISION_WORDS or _pattern("no_decision").match(words)
        is_stock = words in _sentences("stock") or any(stock in words for stock in _sentences("fallback_decisions"))
        if not (is_none or is_stock or _pattern("pseudo_decision").fullmatch(words)):
            found.append(text)
    return tuple(found)


def _list_decision_titles(file: FileContents) -> list[tuple[str, str]]:
    """The number and title of each heading that states a decision."""
    return [(match[1], match[2]) for heading in file.headings if (match := _DECISION.fullmatch(heading.text))]


def _find_placeholders(file: FileContents) -> _Defect | None:
    """A field that is not filled in yet; a required one rejects the file."""
    fields, words, first = list[Field](), _words("required"), ""
    for key, value in file.values.items():
        for item in value if isinstance(value, list) else [value]:
            fields.append(Field("", key, item if isinstance(item, str) else ""))
    for field in (*fields, *file.fields):
        in_required_section = field.section.removesuffix("s") in words
        is_required = in_required_section or field.name.removesuffix("s") in words
        mark = _find_placeholder(field.value, is_required=is_required)
        if mark and is_required:
            where = f"field '{field.section if in_required_section else field.name}' contains {mark}"
            return f"placeholder leakage detected \u2014 {where}", True
        if mark and not first:
            first = f"Fill in or remove field '{field.name}': it contains {mark}."
    return (first, False) if first else None


def _find_placeholder(value: str, *, is_required: bool) -> str:
    """The placeholder in a field that is not filled in; text and long values may mention placeholders."""
    text = _MENTION.sub("", value).strip("* _\t")
    if _pattern("to_come").fullmatch(text):
        return text
    if _pattern("default_description").fullmatch(text):
        return f"the template's '{text}'"
    marks = [*_pattern("placeholder").finditer(text)] if "[" in text or "{{" in text else []
    is_filling = marks and (is_required or _pattern("placeholder").sub("", text).count(" ") <= _FILLING_SPACES)
    for mark in marks if is_filling else ():
        before, after = text[max(0, mark.start() - _NEAR) : mark.start()], text[mark.end() : mark.end() + _NEAR]
        if not (_pattern("speaks_before").search(before) or _pattern("speaks_after").match(after)):
            return mark[0]
    return ""


def find_blank_title(title: str) -> str:
    """What a template's title has in place of a name, such as `[FEATURE NAME]`; empty for a title that is filled in."""
    found = _pattern("blank_title").search(title)
    return found[0] if found else ""


def _find_malformed_folder(file: FileContents) -> _Defect | None:
    """A work folder that is not a folder's name, or another one than in the text."""
    folder = file.folder.strip("/")
    stated = next((field.value.strip("/`* ") for field in file.fields if field.name == "spec_folder"), folder)
    if folder and not _FOLDER.fullmatch(folder):
        return f"{_MALFORMED}'spec_folder' is not a folder of the project: '{_quote(folder)}'", True
    if folder and stated and not (folder.endswith(stated) or stated.endswith(folder)):
        return _MALFORMED + f"'spec_folder' is '{_quote(folder)}', but the summary says '{_quote(stated)}'", True
    return None


def _find_malformed_blocker(file: FileContents) -> _Defect | None:
    """A stated blocker that cannot be one."""
    blocker = next((field.value for field in file.fields if field.name in ("blocker", "blockers")), "")
    if not _plain_words(blocker) or _plain_words(blocker).split()[0] in _words("nothing"):
        return None
    names_obstacle = _pattern("obstacle").search(blocker)
    if blocker.count("`") % 2 or (blocker[:1].islower() and not names_obstacle):
        return f"{_MALFORMED}'blockers' is a fragment: '{_quote(blocker)}'", True
    others = (field.value for field in file.fields if field.name not in ("blocker", "blockers"))
    is_copied = not names_obstacle and any(blocker[:_COPIED] in value for value in others)
    if (_pattern("done").match(blocker) and not _pattern("obstacle").match(blocker)) or is_copied:
        return f"{_MALFORMED}'blockers' names nothing that blocks: '{_quote(blocker)}'", True
    return None


def _find_fallback_decision(file: FileContents) -> _Defect | None:
    """A sentence in place of decisions, or a decision in name only."""
    text = " ".join(_plain_words(field.value) for field in file.fields if "decision" in field.section)
    titles = (title for _, title in _list_decision_titles(file))
    pseudo = (title for title in titles if _pattern("pseudo_decision").fullmatch(_plain_words(title)))
    faults = [f"the file says '{sentence}'" for sentence in _sentences("fallback_decisions") if sentence in text]
    faults += (f"'{title}' decides nothing" for title in pseudo)
    if not faults:
        return None
    reason = f"generic decision \u2014 {faults[0]}; write what was decided, or leave the section out"
    return reason, not find_decisions(file)


def _find_narration(file: FileContents) -> _Defect | None:
    """Narration, tool traces and chat replies, even in the title."""
    for text in filter(None, (file.title, parse_line(file.values.get("description")), file.body)):
        for piece in find_chatter(text, file.phrases):
            if not _QUOTED_EVENT.search(text, piece.block.start, piece.block.end):
                said = " ".join(text[piece.start : piece.end].split())
                return f"{piece.kind} \u2014 remove '{_quote(said)}' and the like", True
    return None


def _find_sparse_semantics(file: FileContents) -> _Defect | None:
    """A session's file without anything to find it by."""
    body = file.body
    chatter = (body[piece.start : piece.end] for piece in find_chatter(body, file.phrases))
    noise = {word for text in (file.folder, *chatter) for word in _plain_words(text).split()} | _words("generic_words")
    phrases = [each for each in parse_phrases(file.values, "trigger_phrases") if "/" not in each]
    own = [each for each in phrases if _plain_words(each) not in _sentences("default_triggers")]
    # The phrases with a word that is not from the folder, from chatter, or common to all sessions.
    telling = [each for each in own if any(map(_TELLING.fullmatch, {*_plain_words(each).split()} - noise))]
    if len(telling) < _FEWEST_TRIGGERS:
        names = f"only {telling[0]!r} tells" if telling else "none tells"
        reason = f"of 'trigger_phrases' {names} what the file is about; give {_FEWEST_TRIGGERS}"
        return f"empty semantic fields \u2014 {reason}", True
    has_topic = parse_phrases(file.values, "topics") or parse_phrases(file.values, "key_topics")
    return None if has_topic else ("Give the file a topic: 'topics' is empty.", False)


def _find_generic_title(file: FileContents) -> _Defect | None:
    """A title that fits any session; tolerated if the file has decisions."""
    for title in (file.title, file.top):
        words = [*filterfalse(str.isdigit, _plain_words(title).split())]
        is_generic = bool(words) and _words("generic_title_words").issuperset(words)
        if title and (is_generic or _pattern("session_title").fullmatch(title) or find_chatter(title, file.phrases)):
            reason = f"generic title \u2014 '{_quote(title)}' fits any session; name what the file is about"
            return reason, file.is_session and not find_decisions(file)
    return None


def _find_boilerplate(file: FileContents) -> _Defect | None:
    """A session's file with hardly any words of its own, and no reason for a decision."""
    texts = [(field.section, field.value) for field in file.fields]
    texts += [(item.section, item.text) for item in file.headings if item.level > _SECTION_LEVEL]
    own: set[str] = set()  # words that are not from a template or the names of its files
    for section, text in texts:
        plain = _plain_words(text)
        is_template = plain in _sentences("stock") or plain.startswith(_sentences("stock_starts"))
        # A word or two is a status or a name.
        if section not in _words("frame") and not is_template and (plain.count(" ") > 1 or not plain.isascii()):
            own.update(*(_LETTERS.findall(word.lower()) for word in text.split() if not _PATH_MARK.search(word)))
    is_framed = not _words("frame").isdisjoint([heading.section for heading in file.headings])
    due = _FEWEST_WORDS_FRAMED if is_framed else _FEWEST_WORDS
    if len(own) >= due or any(map(_pattern("reason").search, find_decisions(file))):
        return None
    return f"{_BOILERPLATE}the file has {len(own) or 'no'} words of its own", True


def _find_filling(file: FileContents) -> _Defect | None:
    """A text without content."""
    text, prose = file.body.lower(), remove_code(file.body)
    telling = filter(_TELLING.fullmatch, map(itemgetter(0), _WORD.finditer(text)))
    if not _WORD.search(text):
        return f"{_BOILERPLATE}the file has no words of its own", True
    if not next(filterfalse(_words("acknowledgements").__contains__, telling), ""):
        return f"{_BOILERPLATE}the text is too short to say anything", True
    words = _WORD.findall(text) if any(map(text.__contains__, _words("filler"))) else ()  # as in hardly any text
    if sum(map(_words("filler").__contains__, words)) > _FILLER_SHARE * len(words):
        return f"{_BOILERPLATE}the text is filling text", True
    lines = [*filterfalse(_TABLE_ROW.match, filter(str.strip, prose.splitlines()))]
    outputs = sum(map(bool, map(_pattern("output").match, lines)))
    if len(lines) >= _FEWEST_LINES and outputs > _OUTPUT_SHARE * len(lines):
        return f"{_BOILERPLATE}the text is the output of a program", True
    pieces = [*chain.from_iterable(map(_SENTENCE_END.split, _DIGITS.sub("0", "\n".join(lines)).split("\n")))]
    is_repeated = len(pieces) >= _FEWEST_PIECES and len({*pieces}) * _MOST_REPEATED < len(pieces)
    return (f"{_BOILERPLATE}the text is the same again and again", True) if is_repeated else None


def measure_worth(file: FileContents) -> float:
    """How useful a session's file is to a successor, 0..1: decisions, changes, fixes, open points."""
    values = {kind: [each.value for each in file.fields if _pattern(kind).search(each.section)] for kind in _WORTH}
    decisions = values["decisions_in"] = [*find_decisions(file)]
    shares = {
        "decisions_in": sum(map(bool, map(_NAMES.search, decisions))) / max(1, len(decisions)),
        "changes_in": sum(each.count(" ") >= _DECISION_WORDS for each in values["changes_in"]) / _ENOUGH_CHANGES,
        "cures_in": sum(map(bool, map(_pattern("cured").search, values["cures_in"]))),
        "rest_in": len(values["rest_in"]),
    }
    return sum(weight * min(1.0, shares[kind]) for kind, weight in _WORTH.items())


def _find_repeated_decisions(file: FileContents) -> _Defect | None:
    """The same decisions written down twice."""
    numbers = [number for number, _ in _list_decision_titles(file)]
    repeated = next((number for number in numbers if numbers.count(number) > 1), None)
    return (f"decisions are recorded twice \u2014 keep one 'Decision {repeated}'", True) if repeated else None


def _find_foreign_references(file: FileContents) -> _Defect | None:
    """A file about another piece of work than the one it is filed under."""
    folder = file.folder
    texts = [field.value for field in file.fields if field.section not in _words("frame")]
    named = [ids for text in texts if (ids := _WORK_ID.findall(text))]
    own = sum(any(found in folder for found in ids) for ids in named)
    others = Counter(found for ids in named if not any(one in folder for one in ids) for found in ids)
    for foreign, count in others.most_common(1):
        if count >= _FEWEST_FOREIGN and count > 2 * own:
            return f"foreign content \u2014 filed under '{folder}', but about '{foreign}'", True
    return None


def _find_stale_references(file: FileContents) -> _Defect | None:
    """A session's file that refers to temporary files, which are gone when it is read."""
    paths = [word for field in file.fields for word in field.value.split() if _PATH_MARK.search(word)]
    temporary = [path for path in paths if _pattern("temporary").match(path.strip("`'\"([{"))]
    if len(temporary) < _FEWEST_TEMPORARY or 2 * len(temporary) <= len(paths):
        return None
    return f"stale references \u2014 '{temporary[0]}' and others are temporary files", True


# In the order of their reasons, each with the attribute of a file that must be set for the rule to apply.
_RULES: tuple[tuple[str, Callable[[FileContents], _Defect | None], str], ...] = (
    ("has_placeholders", _find_placeholders, ""),
    ("malformed_field", lambda file: (_MALFORMED + file.broken, True), "broken"),
    ("malformed_field", _find_malformed_folder, "folder"),
    ("malformed_field", _find_malformed_blocker, "is_session"),
    ("has_fallback_decision", _find_fallback_decision, "headings"),
    ("has_contamination", _find_narration, ""),
    ("sparse_semantic_fields", _find_sparse_semantics, "is_session"),
    ("generic_title", _find_generic_title, ""),
    ("mostly_boilerplate", _find_filling, ""),
    ("mostly_boilerplate", _find_boilerplate, "is_session"),
    ("repeated_decisions", _find_repeated_decisions, "headings"),
    ("foreign_references", _find_foreign_references, "folder"),
    ("stale_references", _find_stale_references, "is_session"),
)


def judge(file: MemoryFile, *, tool_calls: int = 0, phrases: tuple[str, ...] = ()) -> QualityVerdict:
    """The verdict on a file of a session with so many tool calls; never raises. `phrases` also begin chatter."""
    contents = read_contents(file, tool_calls, phrases)
    rejecting, bearable = dict[str, str](), dict[str, str]()
    for flag, find, needed in _RULES:
        if (not needed or getattr(contents, needed)) and (defect := find(contents)):
            (rejecting if defect[1] else bearable).setdefault(flag, defect[0])
    best = ACCEPTED + (1.0 - ACCEPTED) * (measure_worth(contents) if contents.is_session else 1.0)
    score = max(ACCEPTED, best - _SLIGHT * len(bearable))
    if rejecting:
        grave = len(rejecting.keys() & _GRAVE_FLAGS)
        score = max(0.0, 0.60 - _GRAVE * grave - _SLIGHT * (len(rejecting) - grave))
    reasons = (*map("Quality gate failed: {}".format, rejecting.values()), *bearable.values())
    return QualityVerdict(score=round(score, 2), flags=(*rejecting, *bearable), reasons=reasons)


def band(score: float) -> str:
    """The band of a score, A to D."""
    return next(name for name, least in BANDS.items() if score >= least)


def grade_record(document: Document, file: MemoryFile, phrases: tuple[str, ...]) -> Document:
    """A document with the gate's verdict, if it is the record of a session; in the lowest band it becomes temporary.

    Such a file's own claims of quality and tier were written by the tool that made it, whatever its content.
    """
    # The first test spares most notes the second, which takes milliseconds.
    if not _SESSION_ID.search(file.text) or not read_contents(file, phrases=phrases).is_session:
        return document
    verdict = judge(file, phrases=phrases)
    tier = Tier.TEMPORARY if band(verdict.score) == "D" and document.tier != Tier.DEPRECATED else document.tier
    return replace(document, tier=tier, quality=Quality(score=verdict.score, flags=verdict.flags))
