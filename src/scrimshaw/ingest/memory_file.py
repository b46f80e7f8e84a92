"""A memory file, parsed once: the value that is passed on instead of its text.

An edit leaves every byte outside the changed keys alone: order, comments, quoting, indentation and line ends. It is
planned on the YAML that was parsed first, so editing a file, even several times, parses nothing again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec.structs import replace
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest import front_matter as front
from scrimshaw.ingest import markdown
from scrimshaw.ingest.chatter import FENCED
from scrimshaw.ingest.comparison import compute_minhash, count_tokens, find_head, hash_normalised_text
from scrimshaw.ingest.redact import Redact
from scrimshaw.models import (
    BROKEN,
    CONFLICT,
    QUESTIONS,
    ArtifactClass,
    Chunk,
    Document,
    MemoryType,
    Phrase,
    Quality,
    Relation,
    SourceFile,
    Tier,
    Trust,
    content_hash,
    format_time,
)

BOM = "\ufeff"
MOST_QUESTIONS, LONGEST_QUESTION = 8, 240  # indexed per file, and characters of each
_OPENING = re.compile(r"---[ \t]*\r?\n")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_LINES = re.compile(r"[^\n]*\n|[^\n]+\Z")
# What a merge leaves; a row of equals signs underlines a heading, but hardly a line that ends a sentence.
_MARK = re.compile(r"(?m)^(?:([<|>])\1{6} |(?:(?<=[.!?;]\n)|(?<=[.!?;]\r\n))={7}\r?$)")
HINTS_OF_MARKS = re.compile(r"<{7} |[|]{7} |={7}|>{7} ")  # without one a text has no mark, which is quick to see
# Where front matter belongs: what may be meant as its beginning, or keys at once; and what states a visibility there.
_BEGINNING = re.compile(r"[\s\ufeff]*(?:--|[\u2010-\u2015]|\+{3}|<{7}|<!--)")
_KEYS_AT_ONCE = re.compile(r"[\s\ufeff]*(?:[\w\"'].*:.*\n?|[ \t-].*\n?)*")
_PRIVATE = re.compile(r"(?im)(?:^[^\w\n]*|[{,]\s*[\"']?)visibility\W*?[:=](?![ \t]*[\"']?team[\"']?\s*(?:[#,}]|$))")
_UNCLOSED = re.compile(r"(\s*)-{2,}[ \t]*\r?\n[A-Za-z_][\w-]*[ \t]*:(?:[ \t]|\r?\n)")
_COLON = re.compile(r"[ \t]*:")
_IDLE = re.compile(r"( *)(?:#.*)?\r?\n?")
# Anchors, aliases, tags, explicit keys and tabs: with these an entry may depend on text elsewhere.
_ENTANGLED = re.compile(r"[&*!?%\t]")
_SPELLINGS = (*front.SPELLINGS, *chain(*front.SPELLINGS.values()))
_KEPT_BY_MACHINES = {"updated", "quality", "provenance", *front.CREATED}
_KEYS = {"title", "relations", "provenance", "created", "updated", "quality", *_SPELLINGS}


@dataclass(frozen=True, eq=False)
class MemoryFile:
    """A file's text in four pieces that join back to it; without front matter only `body` and a BOM have text."""

    opening: str
    yaml: str
    closing: str
    body: str
    #: Front matter as plain mappings, lists, None and text; numbers and dates stay as they are written.
    values: Mapping[str, object] = field(default_factory=dict)
    problem: UnreadableFile | None = None  #: Why the front matter could not be read; `values` is empty then.
    base: "MemoryFile | None" = None  #: The parsed file that this one was edited from.
    changes: Mapping[str, object] = field(default_factory=dict)  #: The keys that differ from it.

    @cached_property
    def text(self) -> str:
        """The whole file."""
        return self.opening + self.yaml + self.closing + self.body

    @cached_property
    def raw(self) -> bytes:
        return self.text.encode(errors="replace")

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the file's bytes, in hex."""
        return content_hash(self.raw)

    @cached_property
    def root(self) -> MappingNode | None:
        """The YAML mapping with its offsets into `yaml`, None if there is none or it is empty."""
        node = front.compose_yaml(self.yaml, "front matter") if self.yaml else None
        return node if isinstance(node, MappingNode) else None

    def demand_readable(self) -> "MemoryFile":
        """The file itself; raises UnreadableFile if its front matter could not be read."""
        if self.problem:
            raise self.problem
        return self


def is_private(file: MemoryFile) -> bool:
    """Whether a file is private: a line of its front matter, or where that belongs, has a `visibility` but `team`."""
    if file.problem:
        return "visibility" in file.text.casefold()
    pairs = file.root.value if file.root else ()  # a key may be there twice
    stated = [front.convert_node(value) for key, value in pairs if str(key.value).strip().lower() == "visibility"]
    if any(value is not None and front.parse_line(value).lower() != "team" for value in stated):
        return True
    text = "\n".join(file.body.splitlines())
    if not _BEGINNING.match(text):
        keys = None if file.closing else _KEYS_AT_ONCE.match(text)
        text = keys[0] if keys else ""
    return bool(_PRIVATE.search(text))


def is_private_text(text: str) -> bool:
    """Whether a file's text is private; parsed, which takes a millisecond, only if it may state a visibility."""
    return ("visibility" in text.casefold() or "\\" in text) and is_private(parse_memory_file(text))


def parse_memory_file(raw: bytes | str, name: str = "front matter") -> MemoryFile:
    """A file of any shape, broken front matter in its `problem`; raises UnreadableFile if it is not UTF-8 text."""
    text = raw if isinstance(raw, str) else decode_text(raw, name)
    bom = BOM if text.startswith(BOM) else ""
    start = _OPENING.match(text, len(bom))
    end = _CLOSING.search(text, start.end()) if start else None
    if start is None or end is None:
        return MemoryFile(bom, "", "", text[len(bom) :])
    pieces = text[: start.end()], text[start.end() : end.start()], end[0], text[end.end() :]
    try:
        root = front.compose_yaml(pieces[1], name)
    except UnreadableFile as error:
        line, what = find_conflict(MemoryFile(*pieces))
        torn = UnreadableFile(f"{name}, line {line}, column 1: {what}.", "Edit the file by hand.", line=line)
        return MemoryFile(*pieces, problem=torn if 0 < line <= text.count("\n", 0, end.end()) else error)
    if root is None:
        return MemoryFile(*pieces)
    if not isinstance(root, MappingNode):
        return MemoryFile(bom, "", "", text[len(bom) :])
    values = front.convert_node(root)
    file = MemoryFile(*pieces, values=values if isinstance(values, dict) else {})
    file.__dict__["root"] = root
    return file


def find_conflict(file: MemoryFile) -> tuple[int, str]:
    """The line of the first mark of a merge that is not in code between fences, 0 for none, and what to say of it."""
    text = file.text
    closed = (each for each in FENCED.finditer(text, len(text) - len(file.body)) if each[0].rstrip().endswith(each[1]))
    code = [each.span() for each in closed]
    marks = [each for each in _MARK.finditer(text) if not any(start < each.start() < end for start, end in code)]
    if not marks:
        return 0, ""
    first = marks[0].start()
    both = "a merge left both sides between its marks; keep one"
    one = f"a merge left the mark '{text[first : first + 7]}'; remove it"
    return text.count("\n", 0, first) + 1, both if {"<", ">"}.issubset(each[1] for each in marks) else one


def find_flaw(file: MemoryFile) -> tuple[int, str]:
    """The line of what makes a file say something else than it seems to, 0 for nothing, and what it is."""
    line, what = find_conflict(file) if HINTS_OF_MARKS.search(file.text) else (0, "")
    if not line and not file.closing and (opened := _UNCLOSED.match(file.body)):
        line, what = opened[1].count("\n") + 1, "front matter begins in line 1, and ends with a line of three dashes"
    known, root = set[str](), file.__dict__.get("root")
    for key, _ in root.value if root and not line else ():
        if key.value in known:
            return key.start_mark.line + 2, f"the key '{key.value}' is there twice; keep one"
        known.add(key.value)
    return line, what


def decode_text(raw: bytes, name: str) -> str:
    """A file's bytes as text; raises UnreadableFile, naming `name` and line, if they are not UTF-8."""
    offset, found = raw.find(b"\0"), "a NUL byte: it is binary or UTF-16"
    try:
        if offset < 0:
            return raw.decode()
    except UnicodeDecodeError as error:
        offset, found = error.start, "a byte that is not UTF-8"
    line = raw.count(b"\n", 0, offset) + 1
    raise UnreadableFile(f"{name}, line {line}: the file holds {found}.", "Save it as UTF-8 text.", line=line)


def render_memory_file(values: Mapping[str, object], body: str) -> MemoryFile:
    """A new file: front matter with the keys that have values, then `body` exactly as given."""
    yaml, parsed = "", dict[str, Any]()
    for key, value in values.items():
        if value or isinstance(value, int):
            yaml += f"{front.format_entry(key, value)}\n"
            parsed[key] = front.convert_value(value)
    file = MemoryFile("---\n", yaml, "---\n", body, parsed)
    return file if len(yaml) <= front.LONGEST else parse_memory_file(file.text)


def edit_memory_file(file: MemoryFile, changes: Mapping[str, object], body: str | None = None) -> MemoryFile:
    """The file with the changed keys, and with `body` if one is given; None deletes a key.

    A key is changed under the file's spelling. A file without front matter gets one only if there are keys for it,
    or so that a body starting with a `---` block is not read as one. Raises UnreadableFile where that is broken.
    """
    base = file.demand_readable().base or file
    # A text of plain lines gets the file's line ends: a mixture looks changed throughout to git.
    is_windows = "\r\n" not in (body or "") and "\r\n" in (file.body if "\n" in file.body else file.opening)
    body = body and body.replace("\n", "\r\n" if is_windows else "\n")
    values, names = dict(base.values), map(partial(front.find_spelling, file.values), changes)
    named = {**file.changes, **dict(zip(names, changes.values(), strict=True))}
    for key, value in [*named.items()]:
        if value is not None:
            values[key] = front.convert_value(value)
        elif key in values:
            del values[key]
        else:
            del named[key]
    opening, closing = file.opening, file.closing
    bare = file if closing or named or body is None else parse_memory_file(body).demand_readable()
    if not closing and (named or (bare is not file and bare.body != body)):
        closing = "---" + _newline(file)
        opening += closing
    if named and base.root is not None and base.root.flow_style:
        raise UnreadableFile("The front matter is one bracketed line.", "Write one key a line, then try again.")
    # A new line among the relations belongs before a new key at the same place.
    splices, pieces, at = list[_Splice](), list[str](), 0
    for key in sorted(named, key="relations".__ne__):
        splices += _plan_change(base, key, named[key])
    for start, end, text in sorted(splices, key=itemgetter(0)):
        pieces += base.yaml[at:start], text.replace("\n", _newline(base))
        at = end
    yaml = "".join([*pieces, base.yaml[at:]])
    edited = MemoryFile(opening, yaml, closing, file.body if body is None else body, values, base=base, changes=named)
    return _check_edit(base, edited)


def add_relation(
    file: MemoryFile, relation: Relation, target: str, strength: float = 1.0, evidence: str = ""
) -> MemoryFile:
    """The file with the relation to `target`; an existing one gets the new strength (0..1) and evidence."""
    new = markdown.format_relation(target, markdown.parse_strength(strength), evidence)
    return remove_relation(file, relation, target, new)


def remove_relation(file: MemoryFile, relation: Relation, target: str, *instead: object) -> MemoryFile:
    """The file without the relation to `target`, or with others `instead`; unchanged if there is none."""
    present = file.demand_readable().values.get("relations")
    relations = dict(present) if isinstance(present, Mapping) else {}
    stated = relations.pop(relation.value, None)
    items = stated if isinstance(stated, list) else [] if stated is None else [stated]
    ids = (str(item.get("id", "") if isinstance(item, Mapping) else item) for item in items)
    names, own = map(markdown.parse_reference, ids), markdown.parse_reference(target)
    others = [*(item for item, name in zip(items, names, strict=True) if name != own), *instead]
    if len(others) == len(items) and not instead:
        return file
    return edit_memory_file(file, {"relations": {**relations, **({relation.value: others} if others else {})} or None})


def merge_front_matter(base: MemoryFile, ours: MemoryFile, theirs: MemoryFile) -> tuple[MemoryFile, ...]:
    """Our file with the other side's changes to the front matter since `base`, each key in its form there: three forms.

    Lists are sets: additions and removals of both sides apply. A key that both sides changed to different values has
    in each form the value of base, our and their side; one that machines keep has that of the later `updated` in all.
    """
    files = base, ours, theirs
    sides = [(front.parse_time(file.values.get("updated")), file.text) for file in (ours, theirs)]
    merged, split = dict[str, object](), list[str]()
    for key in dict.fromkeys([*ours.values, *theirs.values]):
        merge = partial(_merge_value, *(file.values.get(key) for file in files))
        merged[key] = merge(theirs_wins=sides[1] > sides[0])
        if key not in _KEPT_BY_MACHINES and merged[key] != merge(theirs_wins=sides[1] <= sides[0]):
            split.append(key)
    forms = [{**merged, **{key: file.values.get(key) for key in split}} for file in files]
    changes = [{key: value for key, value in form.items() if value != ours.values.get(key)} for form in forms]
    return tuple(edit_memory_file(ours, each) if each else ours for each in changes)


def _merge_value(before: object, own: object, other: object, *, theirs_wins: bool) -> object:
    """The merged value of three sides; None for none."""
    if other in (before, own):
        return own
    if own == before:
        return other
    sides = (before, own, other)
    if all(side is None or isinstance(side, Mapping) for side in sides) and own is not None and other is not None:
        tables = [side if isinstance(side, Mapping) else {} for side in sides]
        keys = dict.fromkeys(chain(*tables[1:]))
        values = {key: _merge_value(*(each.get(key) for each in tables), theirs_wins=theirs_wins) for key in keys}
        return {key: value for key, value in values.items() if value is not None}
    if all(side is None or isinstance(side, list) for side in sides):
        old, ours, theirs = (side if isinstance(side, list) else [] for side in sides)
        kept = [each for each in ours if each not in old or each in theirs]
        return [*kept, *(each for each in theirs if each not in old and each not in ours)]
    if own is None or other is None:  # one side removed what the other changed
        return other if own is None else own
    return other if theirs_wins else own


def _check_edit(base: MemoryFile, edited: MemoryFile) -> MemoryFile:
    """The edited file, parsed again if the edit may have affected more than its keys; raises UnreadableFile."""
    if not edited.changes or not (
        not _KEYS.issuperset(edited.changes)
        or len(edited.yaml) > front.LONGEST
        or len(base.root.value if base.root else ()) != len(base.values)
        or _ENTANGLED.search(base.yaml)
        or (base.root and _is_long_flow(base.root))
    ):
        return edited
    after = parse_memory_file(edited.text)
    changed = set(after.values) ^ set(base.values)
    if after.problem is None and changed <= set(edited.changes) and after.body == edited.body:
        return after
    named = ", ".join(map(repr, edited.changes))
    raise UnreadableFile(f"The key {named} cannot be changed without changing others.", "Edit the file by hand.")


def _is_long_flow(node: Node) -> bool:
    """Whether a value in brackets, in quotes or plain continues after its first line."""
    if isinstance(node, CollectionNode) and not node.flow_style:
        return any(map(_is_long_flow, chain.from_iterable(node.value) if isinstance(node, MappingNode) else node.value))
    return bool(node.end_mark.line > node.start_mark.line)


class _KeyPlace(NamedTuple):
    """Where a key is: its nodes, and the offsets of its lines; blank and comment lines after it do not belong to it."""

    key: ScalarNode
    value: CollectionNode | ScalarNode
    start: int
    end: int

    @property
    def holds_block(self) -> bool:
        """Whether the value is a list or a mapping on lines of its own."""
        is_block = isinstance(self.value, CollectionNode) and not self.value.flow_style
        return is_block and self.value.start_mark.line > self.key.end_mark.line


_Splice = tuple[int, int, str]  # a stretch of the YAML, and the text that replaces it


def _plan_change(base: MemoryFile, key: str, value: object) -> Iterator[_Splice]:
    stop, before = len(base.yaml), base.values.get(key)
    place = _find_key(base.yaml, base.root, stop, key)
    block = place.value if key == "relations" and place and place.holds_block else None
    if place and isinstance(block, MappingNode) and isinstance(before, Mapping) and isinstance(value, Mapping):
        for name in dict.fromkeys([*before, *value]):
            if before.get(name) != value.get(name):
                yield _plan_entry(base.yaml, block, place.end, name, value.get(name))
    else:
        yield _plan_entry(base.yaml, base.root, stop, key, value)


def _plan_entry(yaml: str, mapping: MappingNode | None, stop: int, key: str, value: object) -> _Splice:
    place = _find_key(yaml, mapping, stop, key)
    indent = " " * (mapping.start_mark.column if mapping is not None else 0)
    if place is None:
        return stop, stop, front.format_entry(key, value, indent) + "\n"
    if value is None:
        return place.start, place.end, ""
    node = place.value
    items: list[object] | None = None
    if isinstance(node, SequenceNode) and isinstance(value, list | tuple):
        items = _reuse_items(yaml, node, value)
    if span := _inline_span(yaml, place):
        blank = " " if node.start_mark.index == node.end_mark.index else ""
        return *span, blank + front.format_value(value if items is None else items, front.WHOLE_LINE)
    if items and place.holds_block:
        lines = front.format_items(items, " " * node.start_mark.column)
        return node.start_mark.index - node.start_mark.column, place.end, "\n".join(lines) + "\n"
    return place.start, place.end, front.format_entry(key, value, indent) + "\n"


def _newline(file: MemoryFile) -> str:
    first = _LINES.match(file.opening.removeprefix(BOM) or file.body)
    return "\r\n" if first and first[0].endswith("\r\n") else "\n"


def _find_key(yaml: str, mapping: MappingNode | None, stop: int, key: str) -> _KeyPlace | None:
    """The last entry of that name, which is the one that counts."""
    for name, value in reversed(mapping.value if mapping is not None else []):
        start = name.start_mark.index - name.start_mark.column
        if name.value == key:
            return _KeyPlace(name, value, start, _entry_end(yaml[start:stop], start, name))
        stop = start
    return None


def _entry_end(text: str, start: int, node: Node) -> int:
    """The offset where an entry's own lines end: before the blank lines and comments that follow it."""
    lines, column = _LINES.findall(text), node.start_mark.column
    while len(lines) > 1 and (idle := _IDLE.fullmatch(lines[-1])) and (lines[-1].isspace() or len(idle[1]) <= column):
        lines.pop()
    return start + sum(map(len, lines))


def _reuse_items(yaml: str, node: Node, values: Iterable[object]) -> list[object]:
    """The items, existing ones in their original spelling."""
    known, texts, items = list[object](), list[str](), list[object]()
    for child in node.value:
        start, end = child.start_mark.index, child.end_mark.index
        if isinstance(child, CollectionNode) and not child.flow_style:
            end = _entry_end(yaml[start:end], start, child)
        if text := yaml[start:end].rstrip().replace("\r\n", "\n"):
            known.append(front.convert_node(child))
            texts.append(text)
    for value in values:
        items.append(front.Verbatim(texts[known.index(value)]) if value in known else value)
    return items


def _inline_span(yaml: str, place: _KeyPlace) -> tuple[int, int] | None:
    """The span of a value that starts on its key's line and is not a block; None for an alias, which is elsewhere."""
    key, value = place.key, place.value
    start, end = value.start_mark.index, value.end_mark.index
    if start < key.end_mark.index:
        return None
    if start == end:  # an empty value: ruamel.yaml puts its mark after a comment
        colon = _COLON.match(yaml, key.end_mark.index)
        return (colon.end(), colon.end()) if colon else None
    is_flow = value.flow_style if isinstance(value, CollectionNode) else value.style not in ("|", ">")
    return (start, end) if is_flow and value.start_mark.line == key.end_mark.line else None


# How decision records and specs say when they were written, near their beginning: `Date: 2026-05-01`, in a table too.
_DATED_LINE = re.compile(r"^[\W_]*(?:date|created)\b[\W_]*(\d{4}-\d\d-\d\d)\b", re.IGNORECASE | re.MULTILINE | re.ASCII)
_HEAD = 2000  # characters


def build_document(source: SourceFile, file: MemoryFile, redact: Redact) -> Document:
    """The document that the index stores of a file, redacted by `redact`.

    One with broken front matter or conflict marks says so in `problem`; without its front matter its author is
    unknown, so it has at most an agent's trust.
    """

    def clean(text: str) -> str:
        return redact(text).text if text else ""

    problem, flag = (file.problem.message, BROKEN) if file.problem else ("", "")
    may_conflict = source.writable and HINTS_OF_MARKS.search(file.text)  # a document may explain such marks
    line, what = find_conflict(file) if may_conflict else (0, "")
    if line:
        problem, flag = f"{source.path}, line {line}, column 1: {what}.", CONFLICT
    values, body = file.values, redact(file.body)
    page = markdown.parse_page(body.text)
    headings = markdown.parse_headings(body.text, page, source.path)
    stem, triggers = source.memory_id.rpartition("/")[2], front.parse_phrases(values, "trigger_phrases", clean)
    title = (
        clean(front.parse_line(values.get("title"))).strip()
        or next((heading.text for heading in headings if heading.level == 1 and heading.text), "")
        or clean(" ".join(stem.replace("-", " ").replace("_", " ").split()) or stem)
    )
    phrases, chunks = list[Phrase](), [*markdown.split_chunks(title, body.text, headings)]
    aliases = front.parse_phrases(values, "aliases", clean)
    for text, is_title in (*zip(triggers, repeat(False)), *zip((title, *aliases), repeat(True))):
        head = find_head(text) if not is_title or len(text.split()) > 1 else ""  # a title of one word is everywhere
        phrases += [Phrase(text=text, head=head, is_title=is_title)] if head else []
    asked = front.parse_phrases(values, "questions", clean, "\n")[:MOST_QUESTIONS]
    questions = tuple(map(itemgetter(slice(LONGEST_QUESTION)), asked))
    for place, question in enumerate(questions, QUESTIONS):
        chunks.append(Chunk(ordinal=place, anchor="", heading="", start=0, end=0, context=question))
    stated = front.parse_quality(values, clean)  # the marks of a merge say nothing against a text, which stays found
    score = 0.0 if file.problem else stated.score if stated else 1.0
    tier = front.parse_member(values, "tier", Tier.NORMAL)
    provenance = front.parse_provenance(values, clean, source.trust)
    trust = Trust.AGENT if file.problem and source.writable else provenance.trust
    trust = Trust.HUMAN if source.is_vouched else Trust.FILE if trust == Trust.HUMAN else trust  # any file can claim it
    tier = Tier.IMPORTANT if tier == Tier.CONSTITUTIONAL and not (source.is_vouched and source.writable) else tier
    edges = markdown.parse_relations(values, source.memory_id, clean) + markdown.parse_links(page, source.memory_id)
    is_decision = source.artifact == ArtifactClass.DECISION_RECORD
    created, updated = _date_document(source, values, body.text)
    return Document(
        file=source,
        content_hash=file.content_hash,
        text_hash=hash_normalised_text(body.text),
        title=title,
        body=body,
        type=front.parse_member(values, "type", MemoryType.GENERAL),
        tier=tier,
        triggers=triggers,
        topics=front.parse_phrases(values, "topics", clean),
        questions=questions,
        chunks=tuple(chunks),
        edges=(*edges, *(markdown.parse_status(page, source.memory_id) if is_decision else ())),
        provenance=replace(provenance, trust=trust),
        quality=Quality(score=score, flags=(flag,)) if flag else stated,
        created=created,
        updated=updated,
        tokens=count_tokens(body.text),
        aliases=aliases,
        phrases=tuple(phrases),
        sketch=compute_minhash(body.text),
        problem=problem,
    )


def _date_document(source: SourceFile, values: front.Values, body: str) -> tuple[str, str]:
    """When a document was created and updated: as stated, or by its commits, its name or text, or the disk."""
    created = next(filter(None, map(front.parse_time, map(values.get, front.CREATED))), "")
    updated = front.parse_time(values.get("updated"))
    if created or updated:
        return created, updated
    disk = format_time(source.mtime_ns / 1e9) if source.mtime_ns else ""
    if first := front.parse_time(source.created):
        return first, front.parse_time(source.updated) or disk
    line = _DATED_LINE.search(body, 0, _HEAD)
    date = front.parse_name_date(source.memory_id.rpartition("/")[2]) or front.parse_time(line and line[1])
    return date or disk, date or disk
