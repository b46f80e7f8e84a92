"""Memories as other tools write them down: text in, `OtherMemory` out."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

from msgspec import Struct

from scrimshaw.ingest.front_matter import parse_line, parse_phrases, parse_time
from scrimshaw.ingest.markdown import parse_headings
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.payload import Json, decode_json, first_text, parse_rows, sections, text
from scrimshaw.models import Edge, Heading, MemoryType, Relation

# Letters and digits below which a section holds nothing worth finding on its own: about a line.
LEAST_SUBSTANCE = 60
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_WORD_CHARACTERS = re.compile(r"[^\W_]")
# How somebody speaks who says how work is to be done.
_RULE = re.compile(
    r"\b(?:always|never|must(?: not)?|should(?: not)?|do not|don't|prefer|avoid|make sure|ensure|only use|keep)\b"
    r"|^[ \t]*(?:[-*]|\d+\.)[ \t]+(?:\*\*)?(?:use|write|run|follow|add|put|name|test|check|ask|commit|stick)\b",
    re.IGNORECASE | re.MULTILINE,
)
_OBSERVATION = re.compile(r"^[ \t]*[-*][ \t]+\[([^\]\[()]{2,60})\][ \t]+(\S.*)$", re.MULTILINE)
_RELATION = re.compile(
    r"^[ \t]*[-*][ \t]+(\w[\w \t-]{0,60}?)[ \t]+\[\[([^\]\[\n]+)\]\](?:[ \t]*\(([^()\n]*)\))?", re.MULTILINE
)
_TAG = re.compile(r"(?<!\S)#([^\W\d_][\w/-]*)")
# What observations are called: as types of memories here, or in other words.
_OTHER_WORDS = {"convention": "preference", "fact": "reference", "insight": "discovery", "problem": "discovery"}
_TYPES = "decision preference reference discovery research implementation"
_CATEGORIES = {word: MemoryType(_OTHER_WORDS.get(word, word)) for word in (*_TYPES.split(), *_OTHER_WORDS)}
# Read from source to target, so that `caused_by` is not among them.
_RELATION_WORDS: Mapping[Relation, str] = {
    Relation.SUPERSEDES: "supersedes replaces obsoletes deprecates",
    Relation.CONTRADICTS: "contradicts conflicts_with contrasts_with disagrees_with",
    Relation.CAUSED: "caused causes led_to leads_to resulted_in results_in triggered",
    Relation.ENABLED: "enabled enables unblocks unblocked allows",
    Relation.DERIVED_FROM: "derived_from based_on builds_on extends inspired_by learned_from originated_from",
    Relation.SUPPORTS: "supports validates confirms proves evidence_for",
}
_RELATIONS = {word: relation for relation, words in _RELATION_WORDS.items() for word in words.split()}


class OtherMemory(Struct, frozen=True, kw_only=True):
    """A memory of another tool."""

    id: str  #: What it is called there, unique among its own.
    title: str
    content: str
    type: MemoryType = MemoryType.GENERAL
    topics: tuple[str, ...] = ()
    relations: tuple[Edge, ...] = ()  #: Their targets are named in the other tool's words.
    created: str = ""  #: ISO, or empty.


def parse_note(source: str, path: str) -> OtherMemory:
    """A note of basic-memory; `path` names one without a permalink. Raises UnreadableFile for broken front matter."""
    file = parse_memory_file(source, path)
    file.raise_problem()
    values, body = file.values, file.body.strip()
    observations = _OBSERVATION.findall(body)
    tags = (tag for _, words in observations for tag in _TAG.findall(words))
    # The type that is stated, or that of the most frequent category.
    counted = Counter(category.lower() for category, _ in observations).most_common()
    words = (parse_line(values.get("type")).lower(), *(category for category, _ in counted))
    return OtherMemory(
        id=parse_line(values.get("permalink")) or path,
        title=parse_line(values.get("title")) or first_heading(body) or path.rpartition("/")[2],
        content=body,
        type=next((_CATEGORIES[word] for word in words if word in _CATEGORIES), MemoryType.GENERAL),
        topics=tuple(dict.fromkeys((*parse_phrases(values, "topics"), *tags))),
        relations=map_relations(_RELATION.findall(body)),
        created=parse_time(values.get("created")),
    )


def parse_graph(source: str) -> tuple[tuple[OtherMemory, ...], int]:
    """The entities of the reference MCP memory server that have observations, and how many lines could not be read."""
    whole = decode_json(source) if '"entities"' in source else None
    if isinstance(whole, Mapping):
        rows: list[Json] = [{**each, "type": "entity"} for each in sections(whole.get("entities"))]
        rows += [{**each, "type": "relation"} for each in sections(whole.get("relations"))]
        skipped = 0
    else:
        rows, skipped = parse_rows(source)
    links: dict[str, list[tuple[str, str]]] = {}
    entities: dict[str, tuple[str, list[str]]] = {}
    for row in rows:
        if row.get("type") == "relation":
            links.setdefault(text(row.get("from")), []).append((text(row.get("relationType")), text(row.get("to"))))
        elif row.get("type") == "entity" and (name := text(row.get("name")).strip()):
            _, observations = entities.setdefault(name, (text(row.get("entityType")), []))
            stated = row.get("observations")
            for each in stated if isinstance(stated, list) else ():  # texts, or objects with one
                words = first_text(each, "content", "text") if isinstance(each, Mapping) else text(each)
                observations += [" ".join(words.split())] if words.strip() else []
    found = []
    for name, (kind, observations) in entities.items():
        stated_links = links.get(name, [])
        lines = [f"# {name}", "", *(f"- {each}" for each in dict.fromkeys(observations))]
        lines += ["", "## Relations", ""] if stated_links else []
        lines += [f"- {word} [[{target}]]" for word, target in stated_links if target]
        memory = OtherMemory(
            id=name,
            title=name,
            content="\n".join(lines),
            type=MemoryType.PREFERENCE if "preference" in kind.lower() else MemoryType.REFERENCE,
            topics=(kind,) if kind else (),
            relations=map_relations((word, target, "") for word, target in stated_links),
        )
        found += [memory] if observations else []
    return tuple(found), skipped


def parse_guidance(source: str, stem: str) -> tuple[OtherMemory, ...]:
    """The sections of guidance for agents, such as `AGENTS.md`, and what comes before them; raises UnreadableFile."""
    file = parse_memory_file(source, stem)
    file.raise_problem()
    body = _COMMENT.sub("", file.body)
    headings, memories = parse_headings(body), []
    top = next((each for each in headings if each.level == 1), Heading(level=1, text="", anchor="", start=0))
    # What comes before the first section stands under the first heading of level 1.
    starts = {each.start: each for each in headings if each.level == 2 or (each.level == 1 and each.start > top.start)}
    for start, end in pairwise(sorted({0, len(body), *starts})):
        heading, part = top if start == 0 else starts[start], body[start:end].strip()
        words = "\n".join(line for line in part.splitlines() if not line.startswith("#"))
        if len(_WORD_CHARACTERS.findall(words)) >= LEAST_SUBSTANCE:
            memory = OtherMemory(
                id="-".join(filter(None, (stem.lower(), heading.anchor))),
                title=heading.text or stem,
                content=part,
                type=MemoryType.PREFERENCE if _RULE.search(part) else MemoryType.REFERENCE,
            )
            memories.append(memory)
    return tuple(memories)


def first_heading(body: str) -> str:
    """The text of the first heading that has one; empty without."""
    return next((each.text for each in parse_headings(body) if each.text), "")


def map_relations(stated: Iterable[tuple[str, str, str]]) -> tuple[Edge, ...]:
    """The edges of (relation in other words, target, evidence) that mean one of ours."""
    found: dict[tuple[Relation, str], Edge] = {}
    for word, target, evidence in stated:
        relation, name = _RELATIONS.get(re.sub(r"[\s-]+", "_", word.strip().lower())), target.strip()
        if relation and name:
            found[relation, name] = Edge(source="", target=name, relation=relation, evidence=evidence.strip())
    return tuple(found.values())
