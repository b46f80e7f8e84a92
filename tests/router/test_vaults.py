"""How the hits of several vaults become one list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.engine import read
from scrimshaw.models import Memory, MemoryType, Provenance, Trust
from scrimshaw.router.ask import search_vaults
from scrimshaw.search.results import Explanation, Hit, SearchRequest, SearchResult


def make_hit(name: str, confidence: float) -> Hit:
    provenance = Provenance(source="agent", trust=Trust.AGENT)
    about: dict[str, Any] = {"source": "vault", "path": name, "title": name, "type": MemoryType.GENERAL}
    memory = Memory(id=name, tokens=1, length=1, provenance=provenance, **about)
    reason = Explanation(ranks={}, raw={}, fused=0)
    return Hit(memory=memory, score=1.0, text="", explanation=reason, confidence=confidence)


def merge_hits(results: Sequence[Sequence[Hit]]) -> list[Hit]:
    """The hits of a search over vaults that answer with these."""
    vaults: dict[str, Any] = {str(number): hits for number, hits in enumerate(results)}

    def search(hits: Any, _: SearchRequest) -> SearchResult:
        return SearchResult(
            hits=tuple(hits), always_on=(), artifact=None, offset=0, next_offset=None, trace=(), degradations=()
        )

    with patch.object(read, "search", search):
        return list(search_vaults(vaults, SearchRequest(query="x", limit=1000)).hits)


@given(st.lists(st.lists(st.floats(0, 1)), min_size=1, max_size=4))
def test_each_vault_keeps_its_order_and_the_surest_comes_first(vaults: list[list[float]]) -> None:
    results = [[make_hit(f"{v}/{n}", sure) for n, sure in enumerate(each)] for v, each in enumerate(vaults)]
    merged = merge_hits(results)
    ids = [hit.memory.id for hit in merged]
    for v, each in enumerate(vaults):
        assert [one for one in ids if one.startswith(f"{v}:")] == [f"{v}:{v}/{n}" for n in range(len(each))]
    if merged:
        assert merged[0].confidence == max(result[0].confidence for result in results if result)


def test_hits_in_falling_order_are_merged_in_falling_order() -> None:
    first, second = [make_hit("a", 0.9), make_hit("b", 0.5)], [make_hit("c", 0.7), make_hit("d", 0.6)]
    assert [hit.memory.id for hit in merge_hits([first, second])] == ["0:a", "1:c", "1:d", "0:b"]
