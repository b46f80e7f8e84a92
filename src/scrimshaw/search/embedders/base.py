"""What all embedders share: the protocol, their one error, and rows of length one."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from scrimshaw.config import EmbeddingSettings, silence_runtime
from scrimshaw.errors import ScrimshawError
from scrimshaw.models import Degradation
from scrimshaw.search.degradation import WITHOUT, IndexPart
from scrimshaw.search.tokens import clip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


class Embedder(Protocol):
    """Turns texts into vectors. Safe to call from several threads at once."""

    @property
    def model(self) -> str:
        """The id that is stored with vectors; vectors of different ids cannot be compared."""

    @property
    def dimension(self) -> int:
        """Numbers in a vector; 0 while only the first answer can tell."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length 1 per text, shape (n, dimension); raises EmbedderUnavailable and nothing else."""


class EmbedderUnavailable(ScrimshawError):
    """No vectors from this embedder now; `degradation` is what the answer should report.

    `mode` is stable: embedder_off, _missing, _corrupt, _failed, _misconfigured, _unreachable, _refused or _bad_answer.
    """

    code = "embedder_unavailable"
    exit_code = 3

    def __init__(self, mode: str, message: str, hint: str) -> None:
        super().__init__(message, hint, mode=mode)
        self.degradation = Degradation(
            failure_mode=f"{mode}: {message}",
            fallback_mode=WITHOUT[IndexPart.VECTORS]["fallback"],
            confidence_impact=WITHOUT[IndexPart.VECTORS]["impact"],
            retry_recommendation=hint,
        )


def require_package(name: str, requirement: str) -> ModuleSpec:
    """Where the package `name` is installed; imports nothing. Raises EmbedderUnavailable when it is not."""
    spec = find_spec(name)
    if spec is None:
        raise EmbedderUnavailable(
            "embedder_missing",
            f"The package {name} is not installed.",
            f"Install it with `pip install {requirement}`, then start again.",
        )
    return spec


class BatchEmbedder:
    """Embeds `batch` texts at a time, each cut to `max_tokens`; a subclass makes the rows of a batch."""

    def __init__(self, settings: EmbeddingSettings, model: str) -> None:
        self.settings, self.model, self.dimension = settings, model, settings.dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length 1 per text, shape (n, dimension); raises EmbedderUnavailable."""
        import numpy as np  # noqa: PLC0415 - heavy, only where vectors are made

        parts = []
        for start in range(0, len(texts), self.settings.batch):
            batch = [clip(text, self.settings.max_tokens) for text in texts[start : start + self.settings.batch]]
            parts.append(unit_rows(self.embed_batch(batch), len(batch), self.dimension))
            self.dimension = parts[-1].shape[1]
        return np.concatenate(parts) if parts else np.empty((0, self.dimension), np.float32)

    def embed_batch(self, texts: Sequence[str]) -> ArrayLike:
        """The vectors of a few texts, of any length; raises EmbedderUnavailable."""
        raise NotImplementedError


def unit_rows(rows: ArrayLike, count: int, dimension: int) -> NDArray[np.float32]:
    """`rows` as float32 of length 1; raises EmbedderUnavailable for another shape (0 is any) or infinite numbers."""
    import numpy as np  # noqa: PLC0415 - heavy, only where vectors are made

    try:
        matrix = np.asarray(rows, dtype=np.float32)
    except ValueError as error:
        raise _bad_answer("vectors of different lengths") from error
    if matrix.ndim != 2 or matrix.shape[0] != count or dimension not in (0, matrix.shape[1]):
        raise _bad_answer(f"vectors of shape {matrix.shape} where ({count}, {dimension or 'any'}) was expected")
    if not np.isfinite(matrix).all():
        raise _bad_answer("numbers that are not finite")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    unit: NDArray[np.float32] = (matrix / lengths).astype(np.float32, copy=False)
    return unit


def runtime_errors() -> tuple[type[Exception], ...]:
    """Every error of onnxruntime; they share no base class of their own. Empty where it cannot be imported."""
    silence_runtime()
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: PLC0415 - heavy
    except ImportError:
        return ()
    return tuple(kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception))


def model_errors() -> tuple[type[Exception], ...]:
    """Every error with which loading or running a local model may fail."""
    return (OSError, ValueError, RuntimeError, ImportError, *runtime_errors())


def _bad_answer(what: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(
        "embedder_bad_answer",
        f"The embedder returned {what}.",
        "Check `model` and `dimension` in the section embedding of the configuration.",
    )
