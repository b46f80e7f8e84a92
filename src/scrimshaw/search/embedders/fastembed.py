"""Opt-in models through the package fastembed, from its local cache only: Scrimshaw downloads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from scrimshaw.config import EmbeddingSettings, silence_runtime
from scrimshaw.search.embedders.base import EmbedderUnavailable, in_batches, model_errors, require_package, unit_rows
from scrimshaw.search.tokens import clip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"


class FastembedEmbedder:
    """Embeds with a fastembed model on one thread, `batch` texts at a time, each cut to `max_tokens`.

    The first `embed` loads the model. Threads take turns per batch.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        require_package("fastembed", "'scrimshaw[fastembed]'")
        self._settings = settings
        self._name = settings.model or DEFAULT_MODEL
        self._model: Any = None
        self._lock = Lock()
        self.model = f"fastembed/{self._name}"
        self.dimension = settings.dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length 1 per text, shape (n, dimension); raises EmbedderUnavailable."""
        return in_batches(texts, self._settings.batch, self._embed_batch, self.dimension)

    def _embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        clipped = [clip(text, self._settings.max_tokens) for text in texts]
        with self._lock:
            rows = self._infer(clipped)
        vectors = unit_rows(rows, len(texts), self.dimension)
        self.dimension = vectors.shape[1]
        return vectors

    def _infer(self, texts: list[str]) -> list[Any]:
        try:
            if self._model is None:
                silence_runtime()
                import fastembed  # noqa: PLC0415 - optional

                self._model = fastembed.TextEmbedding(self._name, threads=1, local_files_only=True)
            return list(self._model.embed(texts, batch_size=len(texts)))
        except model_errors() as error:
            hint = "Download it once while online: python -c"
            raise EmbedderUnavailable(
                "embedder_failed",
                f"The model {self._name} cannot be used: {error}.",
                f'{hint} "import fastembed; fastembed.TextEmbedding({self._name!r})".',
            ) from error
