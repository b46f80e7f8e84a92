"""The opt-in embedder over a package of the same shape as fastembed, which most machines lack."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from scrimshaw.config import EmbeddingSettings
from scrimshaw.search.embedders import DEFAULT_FASTEMBED, EmbedderUnavailable, FastembedEmbedder

PACKAGE = """
class TextEmbedding:
    loaded = []

    def __init__(self, name, threads, local_files_only):
        assert threads == 1 and local_files_only
        if name == "no/such-model":
            raise ValueError("no such model")
        self.loaded.append(name)

    def embed(self, texts, batch_size):
        assert len(texts) <= batch_size
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


def test_rows_have_length_one_and_come_in_the_order_of_the_texts() -> None:
    embedder = FastembedEmbedder(EmbeddingSettings(provider="fastembed", batch=2))
    rows = embedder.embed(["a", "bb", "ccc"])
    assert rows.dtype == np.float32
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]] * 3
    assert (embedder.model, embedder.dimension) == (f"fastembed/{DEFAULT_FASTEMBED}", 2)


def test_the_model_is_loaded_once_and_only_when_it_is_needed() -> None:
    embedder = FastembedEmbedder(EmbeddingSettings(provider="fastembed", model="some/model"))
    assert "fastembed" not in sys.modules
    embedder.embed(["a"])
    embedder.embed(["b"])
    assert sys.modules["fastembed"].TextEmbedding.loaded == ["some/model"]


def test_no_texts_have_no_rows_and_need_no_model() -> None:
    embedder = FastembedEmbedder(EmbeddingSettings(provider="fastembed", dimension=3))
    assert embedder.embed([]).shape == (0, 3)
    assert "fastembed" not in sys.modules


def test_a_model_that_is_not_there_says_how_to_get_it() -> None:
    embedder = FastembedEmbedder(EmbeddingSettings(provider="fastembed", model="no/such-model"))
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed(["a"])
    assert caught.value.message == "The model no/such-model cannot be used: no such model."
    assert "fastembed.TextEmbedding('no/such-model')" in caught.value.hint
    assert caught.value.details["mode"] == "embedder_failed"


def test_rows_of_another_dimension_than_before_are_refused() -> None:
    embedder = FastembedEmbedder(EmbeddingSettings(provider="fastembed", dimension=3))
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed(["a"])
    assert caught.value.details["mode"] == "embedder_bad_answer"
