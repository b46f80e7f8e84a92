"""How the hits of several vaults become one list."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.models import Memory, MemoryType, Provenance, Trust
from scrimshaw.router.vaults import merge_hits
from scrimshaw.search.results import Explanation, Hit


def make_hit(name: str, confidence: float) -> Hit:
    provenance = Provenance(source="agent", trust=Trust.AGENT)
    about: dict[str, Any] = {"source": "vault", "path": name, "title": name, "type": MemoryType.GENERAL}
    memory = Memory(id=name, tokens=1, label_tokens=1, length=1, provenance=provenance, **about)
    reason = Explanation(ranks={}, raw={}, fused=0)
    return Hit(memory=memory, score=1.0, text="", explanation=reason, confidence=confidence)


@given(st.lists(st.lists(st.floats(0, 1)), max_size=4))
def test_each_vault_keeps_its_order_and_the_surest_comes_first(vaults: list[list[float]]) -> None:
    results = [[make_hit(f"{v}/{n}", sure) for n, sure in enumerate(each)] for v, each in enumerate(vaults)]
    merged = merge_hits(results)
    assert [[hit for hit in merged if hit in result] for result in results] == results
    if merged:
        assert merged[0].confidence == max(result[0].confidence for result in results if result)


def test_hits_in_falling_order_are_merged_in_falling_order() -> None:
    first, second = [make_hit("a", 0.9), make_hit("b", 0.5)], [make_hit("c", 0.7), make_hit("d", 0.6)]
    assert [hit.memory.id for hit in merge_hits([first, second])] == ["a", "c", "d", "b"]
