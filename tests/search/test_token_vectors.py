"""Token vectors: what packing keeps of them, and how a query meets them."""

from __future__ import annotations

import numpy as np
import pytest

from scrimshaw.search.embedders import MiniLMEmbedder
from scrimshaw.search.token_vectors import DIMENSIONS, compare_vectors, match_tokens, pack_tokens

PASSAGES = (
    "The parser rejects tabs in front matter, so they become spaces before it reads the file.",
    "Bake the bread for forty minutes.",
    "Writers wait: the database is locked while another one holds it.",
)


def test_each_token_has_a_row_of_length_one(minilm: MiniLMEmbedder) -> None:
    _, tokens = minilm.embed(PASSAGES[0])
    assert tokens.shape[1] == DIMENSIONS
    assert np.linalg.norm(tokens, axis=1) == pytest.approx(1, abs=1e-5)


def test_packed_tokens_match_nearly_as_they_were(minilm: MiniLMEmbedder) -> None:
    query = minilm.embed("why do tabs break the parser")[1]
    rows = [minilm.embed(text)[1] for text in PASSAGES]
    exact = [float((query @ each.T).max(axis=1).mean()) for each in rows]
    packed = [pack_tokens(each) for each in rows]
    assert [len(each) for each in packed] == [len(each) * DIMENSIONS // 2 for each in rows]
    matches, coverage = match_tokens(query, packed)
    assert matches == pytest.approx(exact, abs=0.04)
    assert coverage == pytest.approx((query @ np.concatenate(rows).T).max(axis=1).mean(), abs=0.04)
    assert match_tokens(query, []) == ([], 0.0)
    assert exact[0] > max(exact[1:]) + 0.1


def test_a_passage_is_matched_by_its_own_tokens_only(minilm: MiniLMEmbedder) -> None:
    query = minilm.embed("database lock")[1]
    packed = [pack_tokens(minilm.embed(text)[1]) for text in PASSAGES]
    alone = [match_tokens(query, [each])[0][0] for each in packed]
    assert match_tokens(query, packed)[0] == pytest.approx(alone, abs=1e-6)


def test_a_passage_agrees_with_the_best_of_the_others_and_not_with_itself() -> None:
    north, east = (np.array(row, np.float16).tobytes() for row in ([0, 1, 0], [1, 0, 0]))
    agreement, alike = compare_vectors([north, north, east, east], [1.0, 0.9, 0.9, 0.9], 0.9)
    assert agreement == pytest.approx([1 / 3, 0.576, 0.212, 0.212], abs=1e-3)
    assert alike == [[0, 1], [2, 3]]
    assert compare_vectors([north], [1.0], 0.9) == ([0.0], [])
