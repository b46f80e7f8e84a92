from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrimshaw.config import EmbeddingSettings
from scrimshaw.models import Degradation
from scrimshaw.search import embedders, tokens
from scrimshaw.search.embedders import (
    DIMENSION,
    Embedder,
    EmbedderUnavailable,
    MiniLMEmbedder,
    open_embedder,
    scale_vector,
)
from scrimshaw.search.token_vectors import DIMENSIONS

LOCKED = "The database is locked by another writer."
PARAPHRASE = "SQLite reports that someone else holds the write lock."
README = Path(__file__).parents[2] / "README.md"
BREAD = "Bake the bread for forty minutes."
LONG = "The parser rejects tabs in YAML front matter, so we convert them before reading the file. " * 3


def opened(**settings: Any) -> Embedder:
    result = open_embedder(EmbeddingSettings(**settings))
    assert not isinstance(result, Degradation)
    return result


def vectors_for(embedder: Embedder, *texts: str) -> Any:
    return np.array([embedder.embed(text)[0] for text in texts])


def refusal(embedder: Embedder) -> Degradation:
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed("text")
    degradation = caught.value.degradation
    assert all((degradation.fallback_mode, degradation.confidence_impact, degradation.retry_recommendation))
    assert degradation.failure_mode.startswith(caught.value.details["mode"])
    return degradation


# Opening


def test_provider_none_is_a_degradation() -> None:
    result = open_embedder(EmbeddingSettings(provider="none"))
    assert isinstance(result, Degradation)
    assert result.failure_mode.startswith("embedder_off")


@pytest.mark.parametrize(
    ("provider", "package"), [("minilm", "onnxruntime"), ("minilm", embedders.PACKAGE), ("fastembed", "fastembed")]
)
def test_a_missing_package_is_a_degradation(monkeypatch: pytest.MonkeyPatch, provider: Any, package: str) -> None:
    monkeypatch.setattr(embedders, "find_spec", lambda name: None if name == package else object())
    result = open_embedder(EmbeddingSettings(provider=provider))
    assert isinstance(result, Degradation)
    assert result.failure_mode.startswith("embedder_missing")
    assert package in result.failure_mode


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "", "model": "m"},
        {"url": "http://localhost/v1", "model": ""},
        {"url": "file:///etc/passwd", "model": "m"},
        {"url": "localhost:11434/v1", "model": "m"},
    ],
)
def test_an_http_embedder_needs_a_url_and_a_model(settings: dict[str, Any]) -> None:
    result = open_embedder(EmbeddingSettings(provider="http", **settings))
    assert isinstance(result, Degradation)
    assert result.failure_mode.startswith("embedder_misconfigured")


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "http://[::1/v1", "model": "m"},
        {"url": "http://localhost:1/vü1", "model": "m"},
        {"url": "http://localhost/v 1", "model": "m"},
        {"url": "http://localhost:port/v1", "model": "m"},
        {"url": "http://a..b/v1", "model": "m"},
        {"url": f"http://{'a' * 64}.example/v1", "model": "m"},
        {"url": "http://localhost/v1", "model": "m", "api_key": "line\nbreak"},
    ],
)
def test_a_url_or_key_that_cannot_be_sent_is_named_at_the_first_text(settings: dict[str, Any]) -> None:
    embedder = open_embedder(EmbeddingSettings(provider="http", **settings))
    assert not isinstance(embedder, Degradation)
    with pytest.raises(EmbedderUnavailable) as raised:
        embedder.embed("text")
    assert raised.value.degradation.failure_mode.startswith("embedder_misconfigured")
    assert "break" not in str(raised.value)


def in_a_fresh_process(code: str, **changed: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **changed}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout


def test_opening_imports_nothing_heavy() -> None:
    heavy = in_a_fresh_process(
        "import sys\n"
        "from scrimshaw.config import EmbeddingSettings\n"
        "from scrimshaw.search.embedders import open_embedder\n"
        "for name in ('minilm', 'fastembed', 'http', 'none'):\n"
        "    open_embedder(EmbeddingSettings(provider=name, url='http://localhost/v1', model='m'))\n"
        "print(sorted({'numpy', 'onnxruntime', 'fastembed'} & set(sys.modules)))\n"
    )
    assert heavy.strip() == "[]"


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_small() -> None:
    """The whole process after loading, 50 queries and long texts: 165-176 MB measured."""
    resident = in_a_fresh_process(
        "from scrimshaw.search.embedders import MiniLMEmbedder\n"
        "embedder = MiniLMEmbedder(max_tokens=256)\n"
        "for n in range(50):\n"
        "    embedder.embed(f'query number {n}')\n"
        "for _ in range(12):\n"
        "    embedder.embed('a longer text about memory and files ' * 40)\n"
        "status = open('/proc/self/status').read()\n"
        "print(int(status.split('VmRSS:')[1].split()[0]) // 1024)\n"
    )
    assert int(resident) <= 190


def test_the_runtime_reports_to_nobody(tmp_path: Path) -> None:
    """onnxruntime would write a device id and a log of events below the user's cache, and send them."""
    in_a_fresh_process(
        "from scrimshaw.search.embedders import MiniLMEmbedder\nMiniLMEmbedder(max_tokens=256).embed('a query')\n",
        HOME=str(tmp_path),
        USERPROFILE=str(tmp_path),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    assert list(tmp_path.rglob("*")) == []


# The bundled model


@pytest.fixture(scope="module")
def bundled() -> MiniLMEmbedder:
    return MiniLMEmbedder(max_tokens=256)


def test_vectors_are_unit_float32(bundled: MiniLMEmbedder) -> None:
    vectors = vectors_for(bundled, LOCKED, "", "x" * 5000, "日本 😀", "lone \ud800")
    assert vectors.shape == (5, DIMENSION)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_it_agrees_with_the_float_model(bundled: MiniLMEmbedder) -> None:
    """Cosines and first numbers as sentence-transformers computes them from the float32 weights."""
    vectors = vectors_for(bundled, LOCKED, PARAPHRASE, BREAD, LONG)
    cosines = vectors @ vectors.T
    assert cosines[0, 1:] == pytest.approx([0.6863, 0.0768, 0.0433], abs=0.02)
    assert cosines[1, 2:] == pytest.approx([-0.0163, 0.0543], abs=0.02)
    assert vectors[0, :4] == pytest.approx([-0.0107, -0.0804, -0.0793, -0.0024], abs=0.01)
    assert vectors[3, :4] == pytest.approx([0.0427, -0.0219, -0.0143, -0.0469], abs=0.01)


def test_integers_are_as_exact_on_every_processor(bundled: MiniLMEmbedder) -> None:
    """Compared with the model's own graph, in floating point: sums are not cut off where AVX2 is and VNNI is not."""
    import onnxruntime

    given = onnxruntime.InferenceSession(str(bundled._path), providers=["CPUExecutionProvider"])
    texts = [LOCKED, PARAPHRASE, BREAD, LONG, Path(__file__).read_text("utf-8")[:900], README.read_text("utf-8")[:900]]
    for text in texts:
        pieces = np.array([bundled.read_pieces(text)])
        masks = {"attention_mask": np.ones_like(pieces), "token_type_ids": np.zeros_like(pieces)}
        (hidden,) = given.run(["last_hidden_state"], {"input_ids": pieces, **masks})
        exact = hidden[0].sum(axis=0)
        assert bundled.embed(text)[0] @ exact / np.linalg.norm(exact) > 0.997


def test_a_longer_text_is_cut(bundled: MiniLMEmbedder) -> None:
    start = "memory " * 254
    assert np.abs(bundled.embed(start)[0] - bundled.embed(start + BREAD)[0]).max() < 1e-5


def test_threads_get_their_own_rows(bundled: MiniLMEmbedder) -> None:
    texts = [f"note {n} about {word}" for n, word in enumerate(["locks", "bread", "rivers", "taxes"])]
    expected = vectors_for(bundled, *texts)
    found: dict[int, Any] = {}

    def work(index: int) -> None:
        found[index] = [bundled.embed(texts[index])[0] for _ in range(5)]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, rows in found.items():
        assert np.abs(np.array(rows) - expected[index]).max() < 1e-4


class SlowSession:
    """Stands in for the runtime: each inference takes 10 ms, without the interpreter's lock."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def run(self, _outputs: list[str], feed: dict[str, Any]) -> tuple[Any]:
        time.sleep(0.01)
        self.sizes.append(feed["input_ids"].shape[0])
        return (np.ones((*feed["input_ids"].shape, DIMENSION), np.float32),)


@pytest.mark.slow
def test_a_query_does_not_wait_for_a_whole_document(monkeypatch: pytest.MonkeyPatch) -> None:
    session = SlowSession()
    monkeypatch.setattr(embedders, "_load_session", lambda _: session)
    embedder = MiniLMEmbedder(max_tokens=256)
    background = threading.Thread(target=vectors_for, args=(embedder, *["a document chunk"] * 800))
    background.start()
    while len(session.sizes) < 3:
        time.sleep(0.001)
    embedder.embed("query")
    served_after = session.sizes.index(1)
    background.join()
    assert served_after < 400  # on a busy machine it takes a while until the query is asked at all
    assert len(session.sizes) == 801


def test_another_model_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not the model")
    assert "SHA-256" in refusal(MiniLMEmbedder(max_tokens=256, path=path)).failure_mode


def test_a_missing_model_file_is_refused(tmp_path: Path) -> None:
    embedder = MiniLMEmbedder(max_tokens=256, path=tmp_path / "gone.onnx")
    assert refusal(embedder).failure_mode.startswith("embedder_corrupt")


def test_a_file_the_runtime_cannot_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not the model")
    monkeypatch.setattr(embedders, "SHA256", hashlib.sha256(b"not the model").hexdigest())
    assert refusal(MiniLMEmbedder(max_tokens=256, path=path)).failure_mode.startswith("embedder_corrupt")


@pytest.mark.parametrize("content", [None, b"garbage", b"{}"])
def test_a_broken_tokenizer_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr(tokens, "TOKENIZER_FILE", path)
    tokens.load_vocabulary.cache_clear()
    try:
        assert refusal(MiniLMEmbedder(max_tokens=256)).failure_mode.startswith("embedder_corrupt")
    finally:
        tokens.load_vocabulary.cache_clear()


def test_a_failing_inference_is_an_embedder_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException

    class Broken:
        def run(self, *_: Any) -> None:
            raise RuntimeException("out of memory")

    monkeypatch.setattr(embedders, "_load_session", lambda _: Broken())
    assert "out of memory" in refusal(MiniLMEmbedder(max_tokens=256)).failure_mode


# Vectors


def test_a_vector_of_zeros_stays() -> None:
    assert scale_vector([3.0, 4.0], 2).tolist() == [pytest.approx(0.6), pytest.approx(0.8)]
    assert scale_vector([0.0, 0.0], 2).tolist() == [0, 0]


@pytest.mark.parametrize("numbers", [[[1.0, 2.0]], [1.0], [1.0, 2.0, 3.0], [1.0, float("nan")]])
def test_a_vector_that_was_not_expected_is_refused(numbers: list[Any]) -> None:
    with pytest.raises(EmbedderUnavailable):
        scale_vector(numbers, 2)


# HTTP

Reply = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply: Reply = vectors_of(3)
        self.requests: list[tuple[str, str, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers.get("Authorization", ""), body))
        self.server.reply(self, body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def answer(handler: BaseHTTPRequestHandler, status: int, body: bytes, location: str = "") -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    if location:
        handler.send_header("Location", location)
    handler.end_headers()
    handler.wfile.write(body)


def vectors_of(dimension: int) -> Reply:
    """Each points along the diagonal."""

    def reply(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        rows = [{"index": n, "embedding": [1] * dimension} for n in range(len(body["input"]))]
        answer(handler, 200, json.dumps({"data": rows, "model": body["model"]}).encode())

    return reply


def always(status: int, body: bytes = b"", location: str = "") -> Reply:
    return lambda handler, _: answer(handler, status, body, location)


def silent(handler: BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
    time.sleep(1.0)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def remote(server: Server, **settings: Any) -> Embedder:
    return opened(**{"provider": "http", "url": server.url, "model": "m", "timeout_s": 0.3, **settings})


def test_http_asks_as_the_protocol_says(server: Server) -> None:
    embedder = remote(server, api_key="a-key", timeout_s=60.0)
    vector, tokens = embedder.embed("one")
    assert server.requests == [
        ("/v1/embeddings", "Bearer a-key", {"model": "m", "input": ["one"], "encoding_format": "float"})
    ]
    assert embedder.model == "http/m"
    assert vector.dtype == np.float32
    assert vector == pytest.approx([1 / 3**0.5] * 3)
    assert tokens.shape == (0, DIMENSIONS)


def test_http_sends_no_key_without_one(server: Server) -> None:
    remote(server, timeout_s=60.0).embed("one")
    assert server.requests[0][1] == ""


def test_http_cuts(server: Server) -> None:
    remote(server, max_tokens=16, timeout_s=60.0).embed("word " * 40)
    assert [body["input"] for _, _, body in server.requests] == [[("word " * 16).strip()]]


def test_http_asks_for_the_dimension_that_was_set(server: Server) -> None:
    assert remote(server, dimension=3, timeout_s=60.0).embed("one")[0].shape == (3,)
    unset = remote(server, timeout_s=60.0)
    for _ in range(2):  # what was learnt is not asked for
        unset.embed("one")
    assert [body.get("dimensions") for _, _, body in server.requests] == [3, None, None]


def test_http_takes_a_query_that_no_terminal_could_spell(server: Server) -> None:
    remote(server, timeout_s=60.0).embed("broken \udcff text")
    assert server.requests[0][2]["input"] == ["broken ? text"]


def test_http_learns_the_dimension_once(server: Server) -> None:
    embedder = remote(server, timeout_s=60.0)
    embedder.embed("one")
    server.reply = vectors_of(4)
    assert "shape (1, 4)" in refusal(embedder).failure_mode


@pytest.mark.parametrize(
    ("reply", "mode"),
    [
        (vectors_of(4), "embedder_bad_answer"),
        (always(200, b"<html>hello"), "embedder_bad_answer"),
        (always(200, b"\xff\xfe\x00"), "embedder_bad_answer"),
        (always(200, b'{"data": []}'), "embedder_bad_answer"),
        (always(200, b'{"data": [{"index": 0, "embedding": [1, 1, 1]}, {}]}'), "embedder_bad_answer"),
        (always(200, b'{"data": [{"index": 0, "embedding": ["a"]}]}'), "embedder_bad_answer"),
        (always(200, b'{"data": [{"index": 0, "embedding": [1e999, 1, 1]}]}'), "embedder_bad_answer"),
        (always(500), "embedder_refused"),
        (always(401), "embedder_refused"),
        (always(404), "embedder_refused"),
        (always(302, location="http://127.0.0.1:9/elsewhere"), "embedder_refused"),
        (silent, "embedder_unreachable"),
    ],
)
def test_http_failures_are_embedder_errors(server: Server, reply: Reply, mode: str) -> None:
    server.reply = reply
    slow = mode == "embedder_unreachable"
    embedder = remote(server, dimension=3, timeout_s=0.3 if slow else 60.0)
    assert refusal(embedder).failure_mode.startswith(mode)
    deadline = time.monotonic() + 60
    while not server.requests and time.monotonic() < deadline:  # it may read the request when nobody waits any more
        time.sleep(0.01)
    assert len(server.requests) == 1


def test_http_refused_connection_names_the_server_but_no_password() -> None:
    embedder = opened(provider="http", url="http://user:pass@127.0.0.1:9/v1", model="m", timeout_s=1.0)
    message = refusal(embedder).failure_mode
    assert "127.0.0.1:9" in message
    assert "pass" not in message


def test_http_a_dead_server_is_asked_again_only_after_a_while(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.reply = lambda *_: None  # the connection ends without an answer
    embedder = remote(server, timeout_s=60.0)
    assert refusal(embedder).failure_mode.startswith("embedder_unreachable")
    refusal(embedder)
    assert len(server.requests) == 1
    later = time.monotonic() + embedders.COOL_DOWN
    monkeypatch.setattr(time, "monotonic", lambda: later)
    server.reply = vectors_of(3)
    assert embedder.embed("back")[0].shape == (3,)


# fastembed


@pytest.mark.parametrize("name", ["", "no/such-model"])
def test_fastembed_without_a_model_gives_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pytest.importorskip("fastembed")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    embedder = opened(provider="fastembed", model=name)
    assert refusal(embedder).failure_mode.startswith("embedder_failed")


def test_fastembed_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastembed")
    import fastembed

    class Loaded:
        def embed(self, texts: list[str]) -> Iterator[Any]:
            return iter([np.array([len(text), 0.0]) for text in texts])

    monkeypatch.setattr(fastembed, "TextEmbedding", lambda _name, **_options: Loaded())
    embedder = opened(provider="fastembed")
    assert embedder.embed("ccc")[0].tolist() == [1, 0]
    assert embedder.model == "fastembed/BAAI/bge-small-en-v1.5"
