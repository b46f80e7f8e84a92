"""A peer's side of the benchmark, with nothing but the standard library: it runs in the peer's own environment.

`serve` answers a line of JSON on standard input with one on standard output: it adds notes, or finds some. Processor
time and memory are those of this process and of those that the peer started.
"""

import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

PASSAGE = 900  # characters of a passage, for peers that leave the cutting to their users


class Peer(Protocol):
    """What a module in this folder makes of its peer; a hit may name a note more than once."""

    def add(self, notes: Mapping[str, str]) -> None:
        """Take notes in, all that searching them needs included."""

    def search(self, query: str, count: int) -> Sequence[str]:
        """The ids of so many notes, best first, or more."""


def serve(open_peer: Callable[[Path], Peer]) -> None:
    """Open the peer with a folder for its data and answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    peer = open_peer(Path(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        before, found = _used_s(), list[str]()
        if "notes" in request:
            peer.add(request["notes"])
        else:
            found = list(dict.fromkeys(peer.search(request["query"], request["count"])))[: request["count"]]
        answer = {"ids": found, "cpu_ms": (_used_s() - before) * 1000, "rss_mb": _resident_mb()}
        print(json.dumps(answer), file=answers, flush=True)


def split_note(text: str) -> Iterator[str]:
    """The paragraphs of a note, joined to passages of at most PASSAGE characters; only a longer paragraph is cut."""
    passage = ""
    for piece in re.findall(rf"(?s).{{1,{PASSAGE}}}?(?:\n\s*\n|\Z)|.{{1,{PASSAGE}}}", text):
        if passage and len(passage) + len(piece) > PASSAGE:
            yield passage
            passage = ""
        passage += piece
    if passage.strip():
        yield passage


def _processes() -> list[int]:
    """This process and all below it."""
    found = [os.getpid()]
    for pid in found:
        for each in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, each.read_text().split())
    return found


def _used_s() -> float:
    """The processor seconds of the processes, in all their threads, and of those that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = sum(time.clock_gettime(~pid << 3 | 2) for pid in _processes())  # how Linux numbers the clock of a process
    return running + ended.ru_utime + ended.ru_stime


def _resident_mb() -> float:
    statuses = (Path(f"/proc/{pid}/status").read_text() for pid in _processes())
    return sum(int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) for status in statuses) / 1000


class MiniLM:
    """The model all-MiniLM-L6-v2 as int8 ONNX, for peers that take an embedder of their user's."""

    def __init__(self) -> None:
        from importlib import import_module

        place = Path(os.environ["MINILM"])
        runtime: Any = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        self._numpy: Any = import_module("numpy")
        self._tokenizer = import_module("tokenizers").Tokenizer.from_file(str(place / "tokenizer.json"))
        self._tokenizer.enable_truncation(256)
        self._tokenizer.no_padding()
        self._session = runtime.InferenceSession(str(place / "model.onnx"), options)
        self._inputs = {each.name for each in self._session.get_inputs()}

    def embed(self, text: str) -> Any:
        """A vector of length 1, float32."""
        read = self._tokenizer.encode(text)
        given = {"input_ids": read.ids, "attention_mask": read.attention_mask, "token_type_ids": read.type_ids}
        arrays = {name: self._numpy.array([each]) for name, each in given.items() if name in self._inputs}
        row = self._session.run(None, arrays)[0][0].mean(axis=0)
        return row / self._numpy.linalg.norm(row)
