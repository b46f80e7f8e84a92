"""Parses the memories of other tools into `OtherMemory`."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.ingest.front_matter import parse_line, parse_member, parse_name_date, parse_phrases, parse_time
from scrimshaw.ingest.markdown import parse_headings
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.payload import Json, decode_json, first_text, number, parse_rows, sections, text
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Edge, Heading, MemoryType, Relation, Tier

# A section with fewer letters and digits, about a line, is not worth a memory of its own.
LEAST_SUBSTANCE = 60
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_WORD_CHARACTERS = re.compile(r"[^\W_]")
_OBSERVATION = re.compile(r"^[ \t]*[-*][ \t]+\[([^\]\[()]{2,60})\][ \t]+(\S.*)$", re.MULTILINE)
_RELATION = re.compile(
    r"^[ \t]*[-*][ \t]+(\w[\w \t-]{0,60}?)[ \t]+\[\[([^\]\[\n]+)\]\](?:[ \t]*\(([^()\n]*)\))?", re.MULTILINE
)
_LINK = re.compile(r"\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]+))?\]\]")
_TAG = re.compile(r"(?<!\S)#([^\W\d_][\w/-]*)")
_WORDS = load_table(__file__, "other_memories", dict[str, dict[str, str]])
_RULE = re.compile(_WORDS["patterns"]["rule"].replace("\n", ""))
_CATEGORIES = {word: MemoryType(name) for name, words in _WORDS["types"].items() for word in words.split()}
_RELATIONS = {word: Relation(name) for name, words in _WORDS["relations"].items() for word in words.split()}
# Forgetful grades memories 1..10 and reserves the two highest for what a project is built on.
_LEAST_IMPORTANT = 9
# What claude-mem calls observations and parts of a session's summary; other observations are implementation.
_OBSERVED = {"decision": MemoryType.DECISION, "discovery": MemoryType.DISCOVERY}
_SENSITIVE = "sensitive"
_SUMMARY_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")
_LONGEST_TITLE = 80
_OF_ANOTHER = "entries of other projects (--all-projects takes them too)"

Tables = Mapping[str, Sequence[Json]]


class OtherMemory(Struct, frozen=True, kw_only=True):
    """A memory of another tool."""

    id: str  #: Its name there, unique in its source.
    title: str
    content: str
    type: MemoryType = MemoryType.GENERAL
    topics: tuple[str, ...] = ()
    relations: tuple[Edge, ...] = ()  #: Their targets are the other tool's names.
    created: str = ""  #: ISO, or empty.
    tier: Tier = Tier.NORMAL
    triggers: tuple[str, ...] = ()
    place: str = ""  #: Its place in the other tool's file, such as its row; empty if `id` says it.


# The memories of a file, and the number of skipped ones by reason.
NO_JSON = "lines that are not JSON"  # a reason
ParsedMemories = tuple[list[OtherMemory], Counter[str]]


def parse_note(source: str, path: str) -> OtherMemory:
    """A note of basic-memory; `path` names one without a permalink. Raises UnreadableFile for broken front matter."""
    file = parse_memory_file(source, path).demand_readable()
    values, body = file.values, file.body.strip()
    observations = _OBSERVATION.findall(body)
    tags = (tag for _, words in observations for tag in _TAG.findall(words))
    # The stated type, or that of the most frequent category.
    counted = Counter(category.lower() for category, _ in observations).most_common()
    words = (parse_line(values.get("type")), *(category for category, _ in counted))
    return OtherMemory(
        id=parse_line(values.get("permalink")) or path,
        title=parse_line(values.get("title")) or first_heading(body) or path.rpartition("/")[2],
        content=body,
        type=_find_category(words),
        topics=tuple(dict.fromkeys((*parse_phrases(values, "topics"), *tags))),
        relations=map_relations(_RELATION.findall(body)),
        created=parse_time(values.get("created")),
    )


def parse_graph(source: str) -> ParsedMemories:
    """The entities of the reference MCP memory server, with their observations and what they are related to."""
    whole, left = decode_json(source) if '"entities"' in source else None, Counter[str]()
    if isinstance(whole, Mapping):
        rows: list[Json] = [{**each, "type": "entity"} for each in sections(whole.get("entities"))]
        rows += [{**each, "type": "relation"} for each in sections(whole.get("relations"))]
    else:
        rows, broken = parse_rows(source)
        left[NO_JSON] = broken
    links: dict[str, list[tuple[str, str]]] = {}
    entities: dict[str, tuple[str, list[str]]] = {}
    for row in rows:
        kind, name, target = row.get("type"), text(row.get("name")).strip(), text(row.get("to")).strip()
        if kind == "relation" and target:
            links.setdefault(text(row.get("from")).strip(), []).append((text(row.get("relationType")), target))
        elif kind == "entity" and name:
            _, observations = entities.setdefault(name, (text(row.get("entityType")), []))
            stated = row.get("observations")
            for each in stated if isinstance(stated, list) else ():  # texts, or objects with one
                words = first_text(each, "content", "text") if isinstance(each, Mapping) else text(each)
                observations += [" ".join(words.split())] if words.strip() else []
        else:
            left["entries that are neither entities with a name nor relations of two"] += 1
    found = []
    for name, (kind, observations) in entities.items():
        stated_links = links.pop(name, [])
        lines = [f"# {name}", "", *(f"- {each}" for each in dict.fromkeys(observations))]
        lines += ["", "## Relations", ""] if stated_links else []
        lines += [f"- {word} [[{target}]]" for word, target in stated_links]
        memory = OtherMemory(
            id=name,
            title=name,
            content="\n".join(lines),
            type=MemoryType.PREFERENCE if "preference" in kind.lower() else MemoryType.REFERENCE,
            topics=(kind,) if kind else (),
            relations=map_relations((word, target, "") for word, target in stated_links),
        )
        found += [memory] if observations or stated_links else []
        left["entities with neither observations nor relations to others"] += not (observations or stated_links)
    left["relations of entities that the file does not have"] = sum(map(len, links.values()))
    return found, +left  # those above zero


def parse_guidance(source: str, stem: str) -> tuple[OtherMemory, ...]:
    """The sections of guidance for agents, such as `AGENTS.md`, and what comes before them; raises UnreadableFile."""
    body = _COMMENT.sub("", parse_memory_file(source, stem).demand_readable().body)
    headings, memories = parse_headings(body), []
    top = next((each for each in headings if each.level == 1), Heading(level=1, text="", anchor="", start=0))
    # Text before the first section belongs to the first heading of level 1.
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


def parse_record(source: str, path: str) -> OtherMemory:
    """A record of a session as Spec Kit writes it, named by its path; raises UnreadableFile for broken front matter."""
    file = parse_memory_file(source, path).demand_readable()
    values, body = file.values, file.body.strip()
    return OtherMemory(
        id=path,
        title=parse_line(values.get("title")) or first_heading(body) or path.rpartition("/")[2],
        content=body,
        type=parse_member(values, "type", MemoryType.SESSION),
        triggers=parse_phrases(values, "trigger_phrases"),
        topics=parse_phrases(values, "topics"),
        created=parse_time(values.get("created")) or parse_name_date(path.rpartition("/")[2]),
        tier=_parse_tier(values, Tier.NORMAL),
    )


def parse_record_row(row: Json) -> OtherMemory:
    """A record of a session from its row in Spec Kit's database."""
    name = text(row.get("file_path")).replace("\\", "/").rpartition("/")[2].removesuffix(".md")
    source = text(row.get("content_text"))
    record = parse_record(source, f"{text(row.get('spec_folder')).strip('/')}/{name}".strip("/"))
    return replace(
        record,
        title=text(row.get("title")).strip() or record.title,
        triggers=record.triggers or _texts(row.get("trigger_phrases")),
        tier=_parse_tier(row, record.tier),
        type=parse_member(row, "type", record.type),
        created=record.created or _read_time(row.get("created_at")),
        place=f"row {row.get('id')}",
    )


def _parse_tier(values: Mapping[str, object], default: Tier) -> Tier:
    """The stated tier; only a person's command makes a memory constitutional."""
    tier = parse_member(values, "tier", default)
    return Tier.IMPORTANT if tier == Tier.CONSTITUTIONAL else tier


def parse_mem0(source: str) -> ParsedMemories:
    """The memories of mem0's `get_all` or of an export: a list of memories, an object with one, or a line for each."""
    whole, found, left = decode_json(source), list[OtherMemory](), Counter[str]()
    if isinstance(whole, Mapping):
        rows = next((list(sections(whole[key])) for key in ("results", "memories") if key in whole), [whole])
    elif isinstance(whole, list):
        rows = list(sections(whole))
    else:
        rows, broken = parse_rows(source)
        left += Counter({NO_JSON: broken})
    for row in rows:
        if not (words := first_text(row, "memory", "data", "content", "text").strip()):
            left["entries without a text"] += 1
            continue
        more = row.get("metadata")
        stated = (*_texts(row.get("categories")), *_texts(more.get("category") if isinstance(more, Mapping) else ""))
        memory = OtherMemory(
            id=_shorten(words),
            title=_shorten(words),
            content=words,
            type=_find_category(stated),
            topics=stated,
            created=_read_time(row.get("created_at")),
            place=text(row.get("id")),
        )
        found.append(memory)
    return found, left


def parse_forgetful(tables: Tables, project: str) -> ParsedMemories:
    """The memories in Forgetful's database of a project, by its folder's name, or of none; all if no name is given."""
    names = {
        row.get("id"): {text(row.get("name")), text(row.get("repo_name")).rpartition("/")[2]}
        for row in tables["projects"]
    }
    owners = dict[object, set[str]]()
    for row in tables["memory_project_association"]:
        owners.setdefault(row.get("memory_id"), set()).update(names.get(row.get("project_id"), ()))
    found, left = list[OtherMemory](), Counter[str]()
    for row in tables["memories"]:
        owned = owners.get(row.get("id"), {project})  # one of no project belongs to all
        if project and project.casefold() not in map(str.casefold, owned):
            left[_OF_ANOTHER] += 1
        elif row.get("is_obsolete"):
            left["entries that are obsolete there"] += 1
        else:
            title, words = text(row.get("title")), [*_texts(row.get("tags")), *_texts(row.get("keywords"))]
            memory = OtherMemory(
                id=title,
                title=title,
                content="\n\n".join(filter(None, (text(row.get("content")).strip(), text(row.get("context")).strip()))),
                type=_find_category(words),
                topics=tuple(dict.fromkeys(words)),
                tier=Tier.IMPORTANT if (number(row.get("importance")) or 0) >= _LEAST_IMPORTANT else Tier.NORMAL,
                created=_read_time(row.get("created_at")),
                place=f"memory {row.get('id')}",
            )
            found.append(memory)
    return found, left


def parse_claude_mem(tables: Tables, project: str) -> ParsedMemories:
    """Observations and summaries of sessions in claude-mem's database; of a project, by its folder's name, if given."""
    found, left = list[OtherMemory](), Counter[str]()
    for kind, parse in (("observations", _parse_observation), ("session_summaries", _parse_summary)):
        for row in tables[kind]:
            # Work trees are called `project/work tree`; their rows may be merged into the project later.
            names = (text(row.get("project")).partition("/")[0], text(row.get("merged_into_project")))
            if project and project.casefold() not in map(str.casefold, names):
                left[_OF_ANOTHER] += 1
            elif row.get("type") == _SENSITIVE:
                left["entries marked as sensitive there"] += 1
            elif content := "\n\n".join(parse(row)):
                title = _shorten(first_text(row, "title", "request") or content)
                memory = OtherMemory(
                    id=title,
                    title=title,
                    content=content,
                    type=_OBSERVED.get(text(row.get("type")), MemoryType.IMPLEMENTATION),
                    topics=tuple(_texts(row.get("concepts"))),
                    created=_read_time(row.get("created_at")),
                    place=f"{kind} {row.get('id')}",
                )
                found.append(memory if kind == "observations" else replace(memory, type=MemoryType.SESSION))
            else:
                left["entries without a text"] += 1
    return found, left


def _parse_observation(row: Json) -> Iterator[str]:
    """The paragraphs of an observation; older versions of claude-mem wrote one text."""
    yield from filter(None, (text(row.get(key)).strip() for key in ("subtitle", "narrative", "text")))
    for key, lead in (("facts", ""), ("files_modified", "Changed: "), ("files_read", "Read: ")):
        if words := _texts(row.get(key)):
            yield f"{lead}{', '.join(map('`{}`'.format, words))}" if lead else "\n".join(map("- {}".format, words))


def _parse_summary(row: Json) -> Iterator[str]:
    for key in _SUMMARY_PARTS:
        if words := text(row.get(key)).strip():
            yield f"## {key.replace('_', ' ').capitalize()}\n\n{words}"


def _texts(value: object) -> tuple[str, ...]:
    """The texts of a list, of one in JSON, or of a text alone."""
    if isinstance(value, str):
        decoded = decode_json(value) if value.lstrip().startswith("[") else None
        value = decoded if isinstance(decoded, list) else [value]
    return tuple(each.strip() for each in value if text(each).strip()) if isinstance(value, list) else ()


def _find_category(words: Iterable[str]) -> MemoryType:
    return next((_CATEGORIES[word] for each in words if (word := each.lower()) in _CATEGORIES), MemoryType.GENERAL)


def _shorten(words: str) -> str:
    """The first line, shortened to a title at a word."""
    line = " ".join(words.strip().partition("\n")[0].strip(" #*_-").split())
    return line if len(line) <= _LONGEST_TITLE else f"{line[:_LONGEST_TITLE].rpartition(' ')[0]} ..."


def _read_time(value: object) -> str:
    """A database's time in UTC; one without an offset is in UTC already."""
    found = parse_time(text(value))
    return f"{found}Z" if "T" in found and datetime.fromisoformat(found).tzinfo is None else found


def first_heading(body: str) -> str:
    """The text of the first heading that has one; empty without."""
    return next((each.text for each in parse_headings(body) if each.text), "")


def map_relations(stated: Iterable[tuple[str, str, str]]) -> tuple[Edge, ...]:
    """The edges of (foreign relation, target, evidence) that correspond to one of our relations."""
    found: dict[tuple[Relation, str], Edge] = {}
    for word, target, evidence in stated:
        relation, name = _RELATIONS.get(re.sub(r"[\s-]+", "_", word.strip().lower())), target.strip()
        if relation and name:
            found[relation, name] = Edge(source="", target=name, relation=relation, evidence=evidence.strip())
    return tuple(found.values())


def rewrite_links(content: str, ids: Mapping[str, str]) -> str:
    """The text with `[[Name]]` as `[[id|Name]]` for each casefolded name in `ids`."""
    return _LINK.sub(lambda m: f"[[{found}|{m[2] or m[1]}]]" if (found := ids.get(m[1].casefold())) else m[0], content)
