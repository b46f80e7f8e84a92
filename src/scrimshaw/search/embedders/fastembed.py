"""Opt-in models through the package fastembed, from its local cache only: Scrimshaw downloads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from scrimshaw.config import EmbeddingSettings, silence_runtime
from scrimshaw.search.embedders.base import BatchEmbedder, EmbedderUnavailable, model_errors, require_package

DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"


class FastembedEmbedder(BatchEmbedder):
    """Embeds with a fastembed model on one thread; the first batch loads it, and threads take turns per batch."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        require_package("fastembed", "'scrimshaw[fastembed]'")
        self._name = settings.model or DEFAULT_MODEL
        super().__init__(settings, f"fastembed/{self._name}")
        self._model: Any = None
        self._lock = Lock()

    def embed_batch(self, texts: Sequence[str]) -> list[Any]:
        """The model's vectors."""
        try:
            with self._lock:
                if self._model is None:
                    silence_runtime()
                    import fastembed  # noqa: PLC0415 - optional

                    self._model = fastembed.TextEmbedding(self._name, threads=1, local_files_only=True)
                return list(self._model.embed(list(texts), batch_size=len(texts)))
        except model_errors() as error:
            hint = "Download it once while online: python -c"
            raise EmbedderUnavailable(
                "embedder_failed",
                f"The model {self._name} cannot be used: {error}.",
                f'{hint} "import fastembed; fastembed.TextEmbedding({self._name!r})".',
            ) from error
