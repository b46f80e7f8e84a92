"""Embedders turn texts into vectors; `open_embedder` opens the one that the settings name."""

from __future__ import annotations

from scrimshaw.config import EmbeddingSettings
from scrimshaw.models import Degradation
from scrimshaw.search.embedders.base import Embedder, EmbedderUnavailable
from scrimshaw.search.embedders.fastembed import FastembedEmbedder
from scrimshaw.search.embedders.http import HttpEmbedder
from scrimshaw.search.embedders.minilm import MiniLMEmbedder

__all__ = ["Embedder", "EmbedderUnavailable", "open_embedder"]


def open_embedder(settings: EmbeddingSettings) -> Embedder | Degradation:
    """The embedder of `settings`, or why there is none.

    Cheap: it imports no numpy and no onnxruntime, reads no model and opens no connection. The first `embed` does.
    """
    try:
        match settings.provider:
            case "minilm":
                return MiniLMEmbedder(batch=settings.batch, max_tokens=settings.max_tokens)
            case "fastembed":
                return FastembedEmbedder(settings)
            case "http":
                return HttpEmbedder(settings)
            case "none":
                raise EmbedderUnavailable(
                    "embedder_off",
                    "Embedding is switched off.",
                    "Set `provider` in the section embedding of the configuration to search by meaning.",
                )
    except EmbedderUnavailable as error:
        return error.degradation
