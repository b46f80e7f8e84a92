"""Vectors from any server that speaks the OpenAI embeddings protocol: Ollama, vLLM, llama.cpp, hosted ones."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import msgspec

from scrimshaw.config import EmbeddingSettings
from scrimshaw.search.embedders.base import BatchEmbedder, EmbedderUnavailable

# Bytes; 256 vectors of 8,192 numbers take about 45 MB as JSON.
LARGEST_ANSWER = 64 * 1024 * 1024
BLOCK = 64 * 1024
# Seconds; as long as a router peer's health is believed, so that searches do not each wait for a dead server.
COOL_DOWN = 30.0

CHECK_SERVER = "Check that the embedding server runs, and `url` and `timeout_s` in the section embedding."
CHECK_KEY = "Check `api_key` in the section embedding."
CHECK_MODEL = "Check `url` (up to and with /v1) and `model` in the section embedding."


class _Row(msgspec.Struct, frozen=True):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct, frozen=True):
    data: list[_Row]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key and the text to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class HttpEmbedder(BatchEmbedder):
    """Embeds over HTTP without retries; after a server could not be reached, calls fail at once for COOL_DOWN."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self._host = _check_settings(settings)
        super().__init__(settings, f"http/{settings.model}")
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._unreachable_until = 0.0

    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """The server's vectors, in the order of the texts."""
        try:
            rows = msgspec.json.decode(self._post(texts), type=_Answer).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _bad_answer(f"not an embeddings answer ({error})") from error
        by_index = {row.index: row.embedding for row in rows}
        if sorted(by_index) != list(range(len(texts))):
            raise _bad_answer(f"{len(rows)} vectors for {len(texts)} texts")
        return [by_index[index] for index in range(len(texts))]

    def _post(self, texts: Sequence[str]) -> bytes:
        """The body of the answer; a server that drips bytes or never ends is cut off at the timeout."""
        now = time.monotonic()
        if now < self._unreachable_until:
            raise self._unreachable("was not reachable a moment ago")
        body = bytearray()
        try:
            with self._opener.open(self._make_request(texts), timeout=self.settings.timeout_s) as response:
                while block := response.read1(BLOCK):
                    body += block
                    if len(body) > LARGEST_ANSWER:
                        raise OSError("the answer is too large")
                    if time.monotonic() > now + self.settings.timeout_s:
                        raise TimeoutError("timed out")
        except urllib.error.HTTPError as error:
            with error:
                status = error.code
            hint = CHECK_KEY if status in {401, 403} else CHECK_SERVER if status >= 500 else CHECK_MODEL
            problem = f"The embedding server {self._host} answered {status}."
            raise EmbedderUnavailable("embedder_refused", problem, hint) from error
        except (OSError, HTTPException) as error:
            self._unreachable_until = time.monotonic() + COOL_DOWN
            raise self._unreachable(f"did not answer: {getattr(error, 'reason', error)}") from error
        return bytes(body)

    def _make_request(self, texts: Sequence[str]) -> urllib.request.Request:
        settings = self.settings
        encodable = list(map(_encodable, texts))
        body: dict[str, object] = {"model": settings.model, "input": encodable, "encoding_format": "float"}
        if settings.dimension:
            body["dimensions"] = settings.dimension
        headers = {"Content-Type": "application/json", "User-Agent": "scrimshaw"}
        if settings.api_key:
            headers["Authorization"] = f"Bearer {settings.api_key}"
        url = settings.url.rstrip("/") + "/embeddings"
        return urllib.request.Request(url, data=msgspec.json.encode(body), headers=headers, method="POST")

    def _unreachable(self, what: str) -> EmbedderUnavailable:
        return EmbedderUnavailable("embedder_unreachable", f"The embedding server {self._host} {what}.", CHECK_SERVER)


def _check_settings(settings: EmbeddingSettings) -> str:
    """Host and port for messages, without the user and password a URL may hold."""
    url, key, hint = settings.url, settings.api_key, CHECK_MODEL
    host = _host(url)
    if not host or not settings.model:
        problem = "needs an http(s) `url` and a `model`"
    elif not (url.isascii() and url.isprintable() and " " not in url):
        problem = "needs a `url` in ASCII; write other letters percent-encoded"
    elif _encodable(settings.model) != settings.model:
        problem = "has a `model` whose name is not UTF-8"
    elif not (key.isascii() and key.isprintable()):
        problem, hint = "has a key with characters no header can hold", CHECK_KEY
    else:
        return host
    raise EmbedderUnavailable("embedder_misconfigured", f"The http embedder {problem}.", hint)


def _host(url: str) -> str:
    """Host and port of a URL that can be asked; empty for any other."""
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")  # as the resolver will: no empty part, none too long
        is_usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        return ""
    return parts.netloc.rpartition("@")[2] if is_usable else ""


def _encodable(text: str) -> str:
    """The text without halves of characters, which JSON cannot hold; a query from a command line may have some."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _bad_answer(what: str) -> EmbedderUnavailable:
    return EmbedderUnavailable("embedder_bad_answer", f"The embedding server returned {what}.", CHECK_MODEL)
