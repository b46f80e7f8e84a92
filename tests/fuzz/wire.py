"""Lines for the protocol's raw door: requests of both eras, mostly right, and what is owed for any bytes."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import seeds
from tests.fuzz.calls import call_of
from tests.fuzz.mutation import VALUES, Mutator
from tests.raw_session import ENVELOPE, LEGACY, MODERN, Answer, RawSession, request

_START = "from scrimshaw.app.cli.main import run; run()"
_IDS = (*VALUES, 1, 2, 3, "1", "a", 1.5, "\ud83d", "id", "7\0")
_METHODS = (
    *("ping", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read"),
    *("prompts/list", "prompts/get", "initialize", "server/discover", "logging/setLevel", "completion/complete"),
    *("resources/subscribe", "subscriptions/listen", "tasks/list", "x", "notifications/initialized"),
    *("notifications/progress", "notifications/roots/list_changed"),
)
_BLANK = "\ufeff \t\r\n"
# Above these, and on all that is no JSON, parsers may disagree.
_DEEPEST, _LONGEST_NUMBER = 150, re.compile(r"\d{4000}")


def lines_of(random: Random) -> str:
    """A few lines, each changed with some chance."""
    return "\n".join(_line(random) for _ in range(random.choice([1, 1, 1, 2, 5])))


def _line(random: Random) -> str:
    message: Any = _message(random)
    if random.random() < 0.05:
        message = [_message(random) for _ in range(random.randrange(4))]
    line = json.dumps(message, ensure_ascii=random.random() < 0.7)
    chance = random.random()
    if chance < 0.35:
        return line
    mutator = Mutator((line, *seeds.NAUGHTY) if chance > 0.95 else (line,), random)
    return mutator.json() if chance < 0.7 else mutator.text()


def _message(random: Random) -> dict[str, Any]:
    kind = random.random()
    if kind < 0.002:
        return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": random.choice((1, "a"))}}
    if kind < 0.1:
        return {"jsonrpc": "2.0", "id": random.choice(_IDS), random.choice(("result", "error")): {"code": 1}}
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": random.choice(_METHODS), "params": _params(random)}
    if kind < 0.9:
        message["id"] = random.choice(_IDS) if random.random() < 0.3 else random.randrange(10**9)
    if kind > 0.5:
        call = json.loads(call_of(random))
        message["method"] = "tools/call"
        message["params"] |= {"name": call["tool"], "arguments": call["arguments"]}
    return message


def _params(random: Random) -> dict[str, Any]:
    given = {"uri": "memory://a", "name": "recall", "arguments": {"topic": "wal"}, "cursor": "0", "level": "error"}
    chosen = {name: value for name, value in given.items() if random.random() < 0.5}
    return chosen | ({"_meta": ENVELOPE} if random.random() < 0.7 else {})


@contextmanager
def open_wires(folder: Path) -> Iterator[Callable[[str], None]]:
    """A check of a server of each era over real pipes; `folder` holds a project."""
    wires = [_Door(folder, era) for era in (LEGACY, MODERN)]

    def check(text: str) -> None:
        for wire in wires:
            wire.check(text.encode("utf-8", "surrogatepass"))

    try:
        yield check
    finally:
        for wire in wires:
            wire.close()


class _Door:
    """A server that is started at the first input, and again after one that broke it."""

    def __init__(self, folder: Path, era: str) -> None:
        self._command = [sys.executable, "-c", _START, "--project", str(folder), "serve"]
        self._environment = {**os.environ, "SCRIMSHAW_HOME": str(folder / "home")}
        self._era = era
        self._session: RawSession | None = None
        self._count = 0

    def check(self, data: bytes) -> None:
        session = self._session = self._session or self._open()
        try:
            self._exchange(session, data)
        except BaseException:
            self._session = None
            session.__exit__(None, None, None)
            raise

    def _open(self) -> RawSession:
        """A server that has opened its memory: until then an answer to a torn line may come after the next line."""
        session = RawSession(self._command, self._era, self._environment)
        session.ask(request("first", "tools/call", name="memory_health", arguments={}, **session.meta), 1)
        return session

    def close(self) -> None:
        """Hang up; nothing may be left to say, and nothing may have failed unseen."""
        session, self._session = self._session, None
        if session:
            with session:
                self._end(session)

    def _end(self, session: RawSession) -> list[Answer]:
        answers, code, log = session.hang_up()
        assert code == 0, "the server failed"
        assert "Traceback" not in log, f"something failed unseen: {log[-3000:]}"
        return answers

    def _exchange(self, session: RawSession, data: bytes) -> None:
        debts = [_owed(line) for line in data.split(b"\n")]
        owed = Counter(each for ids, _ in debts for each in ids)
        self._count += 1
        # One for each era: what one of them answers may overtake the other.
        ends = Counter[object]([f"the end of {self._count}", f"the very end of {self._count}"])
        plain, enveloped = ends
        session.send(b"\n".join([data, request(plain, "ping"), request(enveloped, "ping", _meta=ENVELOPE)]))
        paid = Counter[object]()
        cancelled = b"notifications/cancelled" in data
        torn = [least for _, least in debts if least is not None]
        least = owed.total() + ends.total() + sum(torn)
        while not ends <= paid or not (cancelled or (owed <= paid and paid.total() >= least)):
            paid[_id_of(session.read())] += 1
        if cancelled:
            self._session = None
            with session:
                paid.update(map(_id_of, self._end(session)))
            owed &= paid
        extra = paid - owed - ends
        assert torn or not extra, f"answers to nothing: {extra}"


def _owed(line: bytes) -> tuple[list[object], int | None]:
    """The ids that a line is owed answers for, and the least more where it cannot be read: None where it can."""
    text = line.decode("utf-8", "replace").strip(_BLANK)
    if not text:
        return [], None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [], int(not re.search('"(result|error)', text))
    parts = [part for part in value if isinstance(part, dict)] if isinstance(value, list) else [value]
    ids = [each for part in parts or [None] for each in _ids(part)]
    return ids, 0 if _depth(text) > _DEEPEST or _LONGEST_NUMBER.search(text) else None


def _ids(message: object) -> list[object]:
    if not isinstance(message, dict):
        return [None]
    if "method" not in message and not message.keys().isdisjoint(("result", "error")):
        return []
    return [] if "method" in message and "id" not in message else [_plain(message.get("id"))]


def _id_of(answer: Answer) -> object:
    """The id of an answer, which is seen to be one."""
    assert answer["jsonrpc"] == "2.0"
    assert ("result" in answer) != ("error" in answer)
    if error := answer.get("error"):
        assert isinstance(error["code"], int)
        assert isinstance(error["message"], str)
    return _plain(answer["id"])


def _plain(number: object) -> object:
    """An id as both sides can say it."""
    if isinstance(number, str):
        return number.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _depth(text: str) -> int:
    """No less than the depth of a JSON text."""
    depth = deepest = 0
    for each in text:
        depth += (each in "[{") - (each in "]}")
        deepest = max(deepest, depth)
    return deepest
