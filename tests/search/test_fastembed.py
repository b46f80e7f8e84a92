"""The opt-in embedder over a package of the same shape as fastembed, which most machines lack."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from scrimshaw.config import EmbeddingSettings
from scrimshaw.search.embedders import DEFAULT_FASTEMBED, EmbedderUnavailable, FastembedEmbedder
from scrimshaw.search.token_vectors import DIMENSIONS

PACKAGE = """
class TextEmbedding:
    loaded = []

    def __init__(self, name, threads, local_files_only):
        assert threads == 1 and local_files_only
        if name == "no/such-model":
            raise ValueError("no such model")
        self.loaded.append(name)

    def embed(self, texts):
        return iter([[3.0 * len(text), 4.0 * len(text)] for text in texts])
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module `fastembed` that can be imported, before an installed one."""
    (tmp_path / "fastembed.py").write_text(PACKAGE)
    monkeypatch.delitem(sys.modules, "fastembed", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("fastembed", None)


def test_a_vector_has_length_one_and_tokens_have_none() -> None:
    embedder = FastembedEmbedder(EmbeddingSettings(provider="fastembed"))
    vector, tokens = embedder.embed("ccc")
    assert vector.dtype == np.float32
    assert vector.tolist() == [pytest.approx(0.6), pytest.approx(0.8)]
    assert tokens.shape == (0, DIMENSIONS)
    assert (embedder.model, embedder.dimension) == (f"fastembed/{DEFAULT_FASTEMBED}", 2)


def test_the_model_is_loaded_once_and_only_when_it_is_needed() -> None:
    embedder = FastembedEmbedder(EmbeddingSettings(provider="fastembed", model="some/model"))
    assert "fastembed" not in sys.modules
    embedder.embed("a")
    embedder.embed("b")
    assert sys.modules["fastembed"].TextEmbedding.loaded == ["some/model"]


def test_a_model_that_is_not_there_says_how_to_get_it() -> None:
    embedder = FastembedEmbedder(EmbeddingSettings(provider="fastembed", model="no/such-model"))
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed("a")
    assert caught.value.message == "The model no/such-model cannot be used: no such model."
    assert "fastembed.TextEmbedding('no/such-model')" in caught.value.hint
    assert caught.value.details["mode"] == "embedder_failed"


def test_a_vector_of_another_dimension_than_before_are_refused() -> None:
    embedder = FastembedEmbedder(EmbeddingSettings(provider="fastembed", dimension=3))
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed("a")
    assert caught.value.details["mode"] == "embedder_bad_answer"
