"""Values for tests: documents for an index, files for a vault, an embedder that needs no model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.engine.trust import vouch
from scrimshaw.ingest.comparison import find_head, hash_normalised_text
from scrimshaw.ingest.markdown import group_relations
from scrimshaw.ingest.memory_file import MemoryFile, render_memory_file
from scrimshaw.models import (
    QUESTIONS,
    Chunk,
    Document,
    Edge,
    EventKind,
    Job,
    MemoryType,
    Observation,
    Phrase,
    Provenance,
    Quality,
    Redacted,
    SourceFile,
    Tier,
)
from scrimshaw.search.token_vectors import DIMENSIONS
from scrimshaw.storage.journal import Journal
from scrimshaw.storage.ports import Admission
from scrimshaw.storage.sessions import Sessions

SECRET = "ghp_" + "a1B2c3D4" * 4 + "e5F6"


def digest(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def source_file(memory_id: str, **fields: Any) -> SourceFile:
    """A file of the source `vault` as a scan would find it."""
    defaults: dict[str, Any] = {
        "source": "vault",
        "path": f"/vault/{memory_id}.md",
        "size": 10,
        "mtime_ns": 1,
        "writable": True,
    }
    return SourceFile(memory_id=memory_id, **{**defaults, **fields})


def document(memory_id: str, *pieces: str, file: SourceFile | None = None, **fields: Any) -> Document:
    """A document whose body is the `pieces` joined, each a chunk of its own."""
    pieces = pieces or (f"The text of {memory_id}.",)
    body = "".join(pieces)
    questions = [
        Chunk(ordinal=number, anchor="", heading="", start=0, end=0, context=text)
        for number, text in enumerate(fields.get("questions", ()), start=QUESTIONS)
    ]
    defaults: dict[str, Any] = {
        "content_hash": digest(body),
        "text_hash": hash_normalised_text(body),
        "title": memory_id.rpartition("/")[2],
        "body": Redacted(text=body),
        "chunks": (*_chunks(pieces), *questions),
        "phrases": tuple(phrase(text) for text in fields.get("triggers", ())),
    }
    return Document(file=file or source_file(memory_id), **{**defaults, **fields})


def report(sessions: Sessions, session: str, *, context_used: float | None = None, task: str = "") -> None:
    """Have a client say how full the context of a session is, or what its task is."""
    seen = Observation(
        session=session,
        kind=EventKind.STOP,
        text=Redacted(text=""),
        context_used=context_used,
        task=Redacted(text=task) if task else None,
    )
    sessions.observe(seen, lambda *_: Admission(admitted=True), now=0.0, modulus=2**31)


def phrase(text: str, *, is_title: bool = False) -> Phrase:
    """A phrase as the parser gives it."""
    return Phrase(text=text, head=find_head(text), is_title=is_title)


def edge(source: str, target: str, relation: str = "supports", **fields: Any) -> Edge:
    """A relation from `source` to `target`."""
    return Edge(source=source, target=target, relation=relation, **fields)


def write_memory(vault: Path, memory_id: str, body: str, front_matter: str = "") -> Path:
    """A file as a person writes it; `front_matter` are lines of YAML."""
    path = vault / f"{memory_id}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"---\n{front_matter.strip()}\n---\n" if front_matter else ""
    path.write_bytes((head + body).encode())
    return path


def vouch_for(engine: Engine, *memory_ids: str) -> None:
    """Have a person vouch for files as they are, as `scrimshaw trust` does."""
    scan(engine)
    vouch(engine, [*map(engine.memory, memory_ids)])


def keeping(journal: Journal, job: Job, lease_s: float = 60.0) -> Callable[[int, int], bool]:
    """What a worker passes to a job: report progress, and learn whether to go on."""
    return lambda done, total: journal.renew_lease(job, done, total, lease_s)


class WordEmbedder:
    """Vectors of word counts: texts that share words are near. `calls` lists every text that was embedded."""

    def __init__(self, model: str = "words", dimension: int = 64) -> None:
        self.model = model
        self.dimension = dimension
        self.calls: list[str] = []

    def embed(self, text: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The vector of a text, and one of 64 numbers for each of its words."""
        self.calls.append(text)
        words = re.findall(r"\w+", text) or [""]
        return self._vector(text, self.dimension), np.stack([self._vector(word, DIMENSIONS) for word in words])

    def _vector(self, text: str, dimension: int) -> NDArray[np.float32]:
        vector = np.full(dimension, 1e-3, dtype=np.float32)
        for word in re.findall(r"\w+", text.lower()):
            vector[int(digest(word)[:8], 16) % dimension] += 1
        unit: NDArray[np.float32] = vector / np.linalg.norm(vector)
        return unit


def _chunks(pieces: Sequence[str]) -> list[Chunk]:
    found, start = [], 0
    for ordinal, piece in enumerate(pieces):
        found.append(Chunk(ordinal=ordinal, anchor="", heading="", start=start, end=start + len(piece), context=""))
        start += len(piece)
    return found


class NewMemory(Struct, frozen=True, kw_only=True):
    """The front matter of a memory to be written."""

    title: str
    type: MemoryType = MemoryType.GENERAL
    tier: Tier = Tier.NORMAL
    trigger_phrases: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    relations: tuple[Edge, ...] = ()
    provenance: Provenance | None = None
    created: str = ""
    updated: str = ""
    quality: Quality | None = None


def render_new(meta: NewMemory, body: str) -> MemoryFile:
    """The file of a new memory."""
    origin, quality = meta.provenance, meta.quality
    session = {"session": origin.session} if origin and origin.session else {}
    values = {name: getattr(meta, name) for name in meta.__struct_fields__} | {
        "type": meta.type.value,
        "tier": meta.tier.value,
        "relations": group_relations(meta.relations),
        "provenance": {"source": origin.source, **session, "trust": origin.trust.value} if origin else {},
        "quality": {"score": quality.score, "flags": quality.flags} if quality else {},
    }
    return render_memory_file(values, body)
