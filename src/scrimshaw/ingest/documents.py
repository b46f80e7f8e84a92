"""A Markdown file as a Document, and a new memory as the text of a file."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Mapping

from msgspec import Struct

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest import front_matter, markdown, metadata, yaml_text
from scrimshaw.ingest.chunks import chunk
from scrimshaw.ingest.headings import headings
from scrimshaw.ingest.links import links, relations, stated
from scrimshaw.ingest.phrases import head
from scrimshaw.ingest.sketch import sketch
from scrimshaw.models import (
    Document,
    Edge,
    Heading,
    MemoryType,
    Phrase,
    Provenance,
    Quality,
    Redacted,
    SourceFile,
    Tier,
)


class NewMemory(Struct, frozen=True, kw_only=True):
    """The front matter of a memory to be written; `relations` say target, strength and evidence, not the source.

    `facts` are further keys, written last.
    """

    title: str
    type: MemoryType = MemoryType.GENERAL
    tier: Tier = Tier.NORMAL
    trigger_phrases: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    relations: tuple[Edge, ...] = ()
    provenance: Provenance | None = None
    created: str = ""
    updated: str = ""
    quality: Quality | None = None
    facts: Mapping[str, object] = {}


def parse(
    file: SourceFile, raw: bytes, redact: Callable[[str], Redacted], *, count_tokens: Callable[[str], int]
) -> Document:
    """The document that a file's bytes hold; all its text has passed `redact`.

    Headings, chunks and offsets index `Document.body.text`, `text_hash` is that of the same text. The body is
    everything after the front matter, to the byte. Raises UnreadableFile, naming path and line, for bytes that
    are no UTF-8 text and for broken front matter. The size limit is the caller's.
    """

    def clean(text: str) -> str:
        return redact(text).text if text else ""

    parts = front_matter.read(decoded(raw, file.path), file.path)
    values, body = parts.values, redact(parts.body)
    page = markdown.read(body.text)
    found = headings(page, body.text)
    title = metadata.title(values, clean) or _first_title(found) or clean(_words(file.memory_id))
    triggers = metadata.phrases(values, "trigger_phrases", clean)
    provenance = metadata.provenance(values, clean, file.trust)
    return Document(
        file=file,
        content_hash=content_hash(raw),
        text_hash=text_hash(body.text),
        title=title,
        body=body,
        type=metadata.memory_type(values),
        tier=metadata.tier(values, provenance.trust),
        triggers=triggers,
        topics=metadata.phrases(values, "topics", clean),
        headings=found,
        chunks=chunk(title, body.text, found),
        edges=relations(values, file.memory_id, clean) + links(page, file.memory_id),
        provenance=provenance,
        quality=metadata.quality(values, clean),
        created=metadata.moment(values.get("created")),
        updated=metadata.moment(values.get("updated")),
        tokens=count_tokens(body.text),
        label_tokens=count_tokens(f"{file.memory_id}\n{title}"),
        phrases=_phrases(title, triggers),
        sketch=sketch(body.text),
    )


def render(meta: NewMemory, body: str) -> str:
    """The text of a new file: front matter with the keys that have values, then `body` exactly as given."""
    keys = {
        "title": meta.title,
        "type": meta.type.value,
        "tier": meta.tier.value,
        "trigger_phrases": meta.trigger_phrases,
        "topics": meta.topics,
        "relations": _relations(meta.relations),
        "provenance": _provenance(meta.provenance),
        "created": meta.created,
        "updated": meta.updated,
        "quality": _quality(meta.quality),
    }
    entries = [yaml_text.entry(key, value) for key, value in keys.items() if value]
    entries += [yaml_text.entry(key, value) for key, value in meta.facts.items()]
    return "\n".join(["---", *entries, "---", body])


def content_hash(raw: bytes) -> str:
    """SHA-256 of a file's bytes, in hex."""
    return hashlib.sha256(raw).hexdigest()


def text_hash(body: str) -> str:
    """SHA-256, in hex, of a body that differs from its equals only in case, white space or Unicode composition."""
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", body).casefold())
    return hashlib.sha256(" ".join(folded.split()).encode()).hexdigest()


def decoded(raw: bytes, path: str) -> str:
    """A file's bytes as text; raises UnreadableFile, naming path and line, for what is no UTF-8 text."""
    if (null := raw.find(b"\0")) >= 0:
        raise _not_text(path, raw, null, "a NUL byte: it is binary or UTF-16")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _not_text(path, raw, error.start, "a byte that is not UTF-8") from error


def _not_text(path: str, raw: bytes, offset: int, what: str) -> UnreadableFile:
    line = raw.count(b"\n", 0, offset) + 1
    return UnreadableFile(f"{path}, line {line}: the file holds {what}.", "Save it as UTF-8 text.", line=line)


def _phrases(title: str, triggers: tuple[str, ...]) -> tuple[Phrase, ...]:
    """The named phrases, and the title where it has at least two words: a single one stands everywhere."""
    named = tuple(Phrase(text=phrase, head=head(phrase)) for phrase in triggers if head(phrase))
    return (
        (*named, Phrase(text=title, head=head(title), is_title=True))
        if len(title.split()) > 1 and head(title)
        else named
    )


def _first_title(found: tuple[Heading, ...]) -> str:
    return next((heading.text for heading in found if heading.level == 1 and heading.text), "")


def _words(memory_id: str) -> str:
    stem = memory_id.rpartition("/")[2]
    return " ".join(stem.replace("-", " ").replace("_", " ").split()) or stem


def _relations(edges: tuple[Edge, ...]) -> Mapping[str, list[object]]:
    grouped: dict[str, list[object]] = {}
    for edge in edges:
        item = stated(edge.target, edge.strength, edge.evidence)
        grouped.setdefault(str(edge.relation), []).append(item)
    return grouped


def _provenance(value: Provenance | None) -> Mapping[str, str]:
    if value is None:
        return {}
    session = {"session": value.session} if value.session else {}
    return {"source": value.source, **session, "trust": value.trust.value}


def _quality(value: Quality | None) -> Mapping[str, object]:
    return {} if value is None else {"score": value.score, "flags": value.flags}
