"""Memories to measure with: real texts first, then new ones put together from real sections.

Vectors are real for as many chunks as are asked for; every other chunk gets one of those with a little jitter,
which keeps distances life-like at a cost that stays bearable.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from scrimshaw.config import Settings
from scrimshaw.engine import Engine, open_engine
from scrimshaw.models import Degradation
from scrimshaw.search.embedders import Embedder

EXAMPLES = Path(__file__).parents[1] / "examples"
SECTIONS = re.compile(r"^(?=#{1,3} )", re.MULTILINE)
SENTENCE = re.compile(r"[A-Za-z][^.!?\n|`#*]{30,120}")
# Of the length of a unit vector: copies of one chunk come out about as near as two chunks of one memory.
JITTER = 0.4
BATCH = 5000


class Texts(Struct, frozen=True, kw_only=True):
    """The real material: whole texts, and the sections they are made of."""

    whole: tuple[str, ...]
    sections: tuple[str, ...]


def read_texts(folder: Path) -> Texts:
    """All Markdown below a folder; SystemExit where there is none."""
    whole = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.rglob("*.md"))]
    if not whole:
        raise SystemExit(f"{folder} holds no Markdown files.")
    sections = [part for text in whole for part in SECTIONS.split(text) if len(part) > 80]
    return Texts(whole=tuple(whole), sections=tuple(sections or whole))


def memories(texts: Texts, count: int, seed: int = 7) -> Iterator[str]:
    """So many different texts: the real ones, then new ones."""
    chance = random.Random(seed)
    yield from texts.whole[:count]
    for number in range(len(texts.whole), count):
        yield made_up(texts, chance, number)


def made_up(texts: Texts, chance: random.Random, number: int) -> str:
    """A memory of two to five real sections under a title of real words."""
    parts = chance.choices(texts.sections, k=chance.randint(2, 5))
    words = re.findall(r"[A-Za-z]{4,}", " ".join(parts)) or ["memory"]
    return f"# {' '.join(chance.choices(words, k=5))} {number}\n\n" + "\n\n".join(parts)


def questions(texts: Texts, count: int, seed: int = 11) -> list[str]:
    """So many different queries: sentences and titles out of the texts."""
    found = sorted({match.strip() for text in texts.whole for match in SENTENCE.findall(text)})
    chance = random.Random(seed)
    chance.shuffle(found)
    return found[:count]


def asked(path: Path, seed: int = 11) -> list[str]:
    """The queries of a file with a JSON object per line, shuffled."""
    found: list[str] = [json.loads(line)["query"] for line in path.read_text(encoding="utf-8").splitlines() if line]
    random.Random(seed).shuffle(found)
    return found


def write_project(project: Path, texts: Texts, count: int) -> int:
    """A project whose vault holds `count` memories; the bytes written."""
    vault, size = project / ".scrimshaw" / "memories", 0
    for number, text in enumerate(memories(texts, count)):
        path = vault / f"{number // 1000:03}" / f"memory-{number:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(data)
        size += len(data)
    return size


def open_project(project: Path) -> Engine:
    """The memory of the project alone: nobody's own settings or memories."""
    return open_engine(Settings(project=project, home=project / "home"))


def embedder_of(engine: Engine) -> Embedder:
    """The engine's model; SystemExit where there is none."""
    if isinstance(engine.embedder, Degradation):
        raise SystemExit(engine.embedder.failure_mode)
    return engine.embedder


def fill_vectors(engine: Engine, real: int) -> tuple[int, int]:
    """A vector for every chunk: (embedded for real, resampled with jitter)."""
    embedder = embedder_of(engine)
    first = engine.index.chunks_to_embed(embedder.model, after=0, limit=real)
    vectors = np.array([embedder.embed(chunk.text)[0] for chunk in first])
    engine.index.put_vectors(embedder.model, [(chunk.key, row) for chunk, row in zip(first, vectors, strict=True)])
    chance, resampled = np.random.default_rng(5), 0
    place = 0
    while pending := engine.index.chunks_to_embed(embedder.model, after=place, limit=BATCH):
        place = pending[-1].place
        rows = jittered(vectors, len(pending), chance)
        engine.index.put_vectors(embedder.model, [(c.key, row) for c, row in zip(pending, rows, strict=True)])
        resampled += len(pending)
    return len(first), resampled


def jittered(vectors: NDArray[np.float32], count: int, chance: np.random.Generator) -> NDArray[np.float32]:
    """`count` unit vectors near randomly chosen ones, shape (count, dimension)."""
    picked = vectors[chance.integers(len(vectors), size=count)]
    noise = chance.standard_normal(picked.shape, dtype=np.float32) * (JITTER / np.sqrt(picked.shape[1]))
    moved = picked + noise.astype(np.float32)
    unit: NDArray[np.float32] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return unit


def bodies(engine: Engine, ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Id and body of memories, in portions that SQLite takes."""
    for start in range(0, len(ids), 500):
        yield from engine.index.bodies(ids[start : start + 500]).items()
