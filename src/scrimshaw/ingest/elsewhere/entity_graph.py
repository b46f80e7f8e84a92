"""The graph of the reference MCP memory server: JSON lines of entities with observations, and relations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scrimshaw.ingest.elsewhere import OtherMemory
from scrimshaw.ingest.elsewhere.relation_words import relations_of
from scrimshaw.ingest.jsonl import all_rows
from scrimshaw.ingest.payload import Json, decoded, first_text, sections, text
from scrimshaw.models import MemoryType


def parse_graph(source: str) -> tuple[tuple[OtherMemory, ...], int]:
    """One memory per entity that has observations, and how many lines could not be read.

    An entity told twice is one, with the observations of both. Relations are links in the text, and ours where they
    mean one.
    """
    rows, skipped = _rows(source)
    relations: dict[str, list[Json]] = {}
    entities: dict[str, tuple[str, list[str]]] = {}
    for row in rows:
        if row.get("type") == "relation":
            relations.setdefault(text(row.get("from")), []).append(row)
        elif row.get("type") == "entity" and text(row.get("name")).strip():
            known = entities.setdefault(text(row["name"]).strip(), (text(row.get("entityType")), []))
            known[1].extend(_observations(row.get("observations")))
    found = (_memory(name, kind, said, relations.get(name, [])) for name, (kind, said) in entities.items() if said)
    return tuple(found), skipped


def _rows(source: str) -> tuple[list[Json], int]:
    """The lines of a file, or what stands in its one object with `entities` and `relations`."""
    whole = decoded(source) if '"entities"' in source else None
    if not isinstance(whole, Mapping):
        return all_rows(source)
    entities = [{**each, "type": "entity"} for each in sections(whole.get("entities"))]
    return entities + [{**each, "type": "relation"} for each in sections(whole.get("relations"))], 0


def _observations(value: object) -> list[str]:
    """The texts in a list of texts, or of objects with one."""
    if not isinstance(value, list):
        return []
    said = (each if isinstance(each, str) else first_text(each, "content", "text") for each in value if _is_told(each))
    return [" ".join(each.split()) for each in said if each.strip()]


def _is_told(value: object) -> bool:
    return isinstance(value, str | Mapping)


def _memory(name: str, kind: str, said: Iterable[str], stated: list[Json]) -> OtherMemory:
    links = [(text(each.get("relationType")), text(each.get("to"))) for each in stated]
    lines = [f"# {name}", "", *(f"- {each}" for each in dict.fromkeys(said))]
    if links:
        lines += ["", "## Relations", "", *(f"- {word} [[{target}]]" for word, target in links if target)]
    return OtherMemory(
        name=name,
        title=name,
        content="\n".join(lines),
        type=MemoryType.PREFERENCE if "preference" in kind.lower() else MemoryType.REFERENCE,
        topics=(kind,) if kind else (),
        relations=relations_of((word, target, "") for word, target in links),
    )
