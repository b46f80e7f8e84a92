"""The one ladder of sameness: the same text, a near duplicate, a related memory."""

from __future__ import annotations

from msgspec import Struct

from scrimshaw.engine.core import Engine
from scrimshaw.ingest.comparison import compute_minhash, jaccard, split_runs

# Sketches name the likeliest; the texts themselves decide.
_LOOKED_AT = 10
# A minhash is a sample: texts that just are related share rarely less than half of what is expected.
_SAMPLE_LUCK = 0.5


class Similar(Struct, frozen=True, kw_only=True):
    """A memory that says much the same; `similarity` is the Jaccard index of word triples, `kind` the rung."""

    id: str
    title: str
    similarity: float
    kind: str


def similar_memories(engine: Engine, text: str, *, exclude: str = "") -> tuple[Similar, ...]:
    """Near duplicates and related memories of a text, closest first."""
    settings = engine.settings.search
    own_sketch = compute_minhash(text)
    shared = max(1, round(settings.related * _SAMPLE_LUCK * len(own_sketch)))
    ids = [
        name
        for name in engine.index.near_duplicates(own_sketch, shared=shared, limit=_LOOKED_AT + 1)
        if name != exclude
    ]
    memories, own = engine.index.get(ids), split_runs(text)
    found = []
    for name, body in engine.index.bodies(ids).items():
        similarity = jaccard(own, split_runs(body))
        if similarity >= settings.related and name in memories:  # what is deleted meanwhile has no title any more
            kind = "near_duplicate" if similarity >= settings.near_duplicate else "related"
            found.append(Similar(id=name, title=memories[name].title, similarity=round(similarity, 3), kind=kind))
    return tuple(sorted(found, key=lambda item: (-item.similarity, item.id)))
