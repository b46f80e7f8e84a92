from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scrimshaw.models import ArtifactClass, Memory, MemoryType, Provenance, Tier
from scrimshaw.search.rerank import (
    FLOOR,
    LONG,
    OTHER_ARTIFACT,
    SHORT,
    TIER_FACTORS,
    compare_values,
    score_factors,
)

MEMORY = Memory(
    id="a", source="vault", path="/a.md", title="A", type=MemoryType.GENERAL, tier=Tier.NORMAL,
    artifact=ArtifactClass.MEMORY, triggers=(), topics=(), provenance=Provenance(), quality=None, created="",
    updated="", content_hash="", tokens=100, length=1000, writable=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "arguments", "expected"),
    [
        ({}, {}, {}),
        ({"tier": Tier.CRITICAL}, {}, {}),
        ({"tier": Tier.TEMPORARY}, {}, {"tier": 0.9}),
        ({"tier": Tier.DEPRECATED}, {}, {"tier": 0.5}),
        ({}, {"artifact": ArtifactClass.MEMORY}, {}),
        ({}, {"artifact": ArtifactClass.SPEC}, {"artifact": OTHER_ARTIFACT}),
        ({"length": SHORT - 1}, {}, {"length": 0.9}),
        ({"length": SHORT}, {}, {}),
        ({"length": LONG}, {}, {}),
        ({"length": LONG + 1}, {}, {"length": 0.97}),
        ({"length": 1}, {"length_penalty": False}, {}),
        ({}, {"confidence": 0.0}, {"validation": 0.9}),
        ({}, {"confidence": 0.25}, {"validation": 0.95}),
        ({}, {"confidence": 1.0}, {}),
        ({}, {"retrievability": 0.0}, {"retrievability": 0.9}),
        ({}, {"retrievability": 0.5}, {"retrievability": 0.95}),
    ],
)
def test_what_lowers_a_memory(changes: dict[str, Any], arguments: dict[str, Any], expected: dict[str, float]) -> None:
    found = score_factors(replace(MEMORY, **changes), **{"artifact": None, **arguments})
    assert found == pytest.approx(expected)


MEMORIES = st.builds(
    lambda tier, artifact, length: replace(MEMORY, tier=tier, artifact=artifact, length=length),
    st.sampled_from(Tier),
    st.sampled_from(ArtifactClass),
    st.integers(0, 10**6),
)


@given(
    MEMORIES,
    st.sampled_from([None, *ArtifactClass]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
    st.floats(0, 1),
)
def test_no_factor_is_a_bonus_and_the_floor_holds(
    memory: Memory,
    artifact: ArtifactClass | None,
    confidence: float,
    retrievability: float,
    penalty: bool,
    score: float,
) -> None:
    found = score_factors(
        memory, artifact=artifact, confidence=confidence, retrievability=retrievability, length_penalty=penalty
    )
    assert all(0 < factor < 1 for name, factor in found.items() if name != "floor")
    lowered = score * math.prod(found.values())
    assert lowered <= score
    assert lowered >= score * FLOOR * TIER_FACTORS.get(memory.tier, 1.0) * 0.999_999


def test_the_worst_normal_memory_keeps_the_floor() -> None:
    worst = score_factors(replace(MEMORY, length=1), artifact=ArtifactClass.SPEC, confidence=0.0, retrievability=0.0)
    assert len(worst) == 5
    assert math.prod(worst.values()) == pytest.approx(FLOOR)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([0.7], [0.0]),
        ([0.1, 0.1, 0.1], [0.0, 0.0, 0.0]),
        ([0.9, 0.1], [0.5, -0.5]),
        ([0.4, 0.2, 0.0], [0.6124, 0.0, -0.6124]),
    ],
)
def test_a_value_counts_by_its_distance_from_the_mean(values: list[float], expected: list[float]) -> None:
    assert compare_values(values, 0.5) == pytest.approx(expected, abs=1e-4)
