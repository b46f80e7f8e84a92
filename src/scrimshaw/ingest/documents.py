"""A memory file as the Document that the index stores."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable

from scrimshaw.ingest.chunks import chunk
from scrimshaw.ingest.front_matter import (
    limit_tier,
    parse_phrases,
    parse_provenance,
    parse_quality,
    parse_tier,
    parse_time,
    parse_title,
    parse_type,
)
from scrimshaw.ingest.markdown import parse_headings, parse_links, parse_page, parse_relations
from scrimshaw.ingest.memory_file import MemoryFile
from scrimshaw.ingest.phrases import head
from scrimshaw.ingest.sketch import sketch
from scrimshaw.models import Document, Heading, Phrase, Redacted, SourceFile


def build_document(
    source: SourceFile, file: MemoryFile, redact: Callable[[str], Redacted], *, count_tokens: Callable[[str], int]
) -> Document:
    """The document that a file holds; all its text has passed `redact`.

    Headings, chunks and offsets index `Document.body.text`, `text_hash` is that of the same text.
    Raises UnreadableFile for broken front matter. The size limit is the caller's.
    """

    def clean(text: str) -> str:
        return redact(text).text if text else ""

    file.raise_problem()
    values, body = file.values, redact(file.body)
    page = parse_page(body.text)
    found = parse_headings(body.text, page)
    title = parse_title(values, clean) or _first_title(found) or clean(_words(source.memory_id))
    triggers = parse_phrases(values, "trigger_phrases", clean)
    provenance = parse_provenance(values, clean, source.trust)
    return Document(
        file=source,
        content_hash=file.content_hash,
        text_hash=text_hash(body.text),
        title=title,
        body=body,
        type=parse_type(values),
        tier=limit_tier(parse_tier(values), provenance.trust),
        triggers=triggers,
        topics=parse_phrases(values, "topics", clean),
        headings=found,
        chunks=chunk(title, body.text, found),
        edges=parse_relations(values, source.memory_id, clean) + parse_links(page, source.memory_id),
        provenance=provenance,
        quality=parse_quality(values, clean),
        created=parse_time(values.get("created")),
        updated=parse_time(values.get("updated")),
        tokens=count_tokens(body.text),
        label_tokens=count_tokens(f"{source.memory_id}\n{title}"),
        phrases=_phrases(title, triggers),
        sketch=sketch(body.text),
    )


def text_hash(body: str) -> str:
    """SHA-256, in hex, of a body that differs from its equals only in case, white space or Unicode composition."""
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", body).casefold())
    return hashlib.sha256(" ".join(folded.split()).encode()).hexdigest()


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
