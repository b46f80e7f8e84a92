"""A client of a real server process that sends bytes, whatever they are."""

from __future__ import annotations

import json
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any

META = "io.modelcontextprotocol"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
ENVELOPE = {f"{META}/protocolVersion": MODERN, f"{META}/clientCapabilities": {}}
Answer = dict[str, Any]


def request(number: object, method: str, **params: object) -> bytes:
    """A request of either era: the older one takes the newer one's envelope for some remark."""
    return encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def encode(message: object) -> bytes:
    """One line, without its end."""
    return json.dumps(message).encode()


class RawSession:
    """The session has begun in the era that was asked for; `meta` is what a request of that era carries."""

    def __init__(self, command: Sequence[str], era: str, environment: dict[str, str]) -> None:
        self.meta = {"_meta": ENVELOPE} if era == MODERN else {}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the session
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        about = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        opening = "server/discover" if era == MODERN else "initialize"
        (self.opened,) = self.ask(request("opening", opening, **(self.meta or about)), 1)
        if era == LEGACY:
            self.send(encode({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def __enter__(self) -> RawSession:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        self.process.wait()
        self._log.close()

    def send(self, data: bytes) -> None:
        """Send a line, or several."""
        self._stdin.write(data + b"\n")
        self._stdin.flush()

    def read(self) -> Answer:
        """The next answer; raises EOFError when there is none."""
        line = self._stdout.readline()
        if not line:
            raise EOFError(f"the server is gone: {self.read_log()}")
        answer: Answer = json.loads(line, parse_int=lambda digits: int(digits) if len(digits) < 4000 else digits)
        return answer

    def ask(self, data: bytes, count: int = 0) -> list[Answer]:
        """Send lines; what comes before the answer to one more request, and after it until there are `count`."""
        last = uuid.uuid4().hex
        self.send(data + b"\n" + request(last, "ping", **self.meta))
        answers = list[Answer]()
        seen = False
        while not seen or len(answers) < count:
            answer = self.read()
            if answer.get("id") == last:
                seen = True
            else:
                answers.append(answer)
        return answers

    def hang_up(self) -> tuple[list[Answer], int, str]:
        """Close standard input: the answers that still come, the exit code, and standard error."""
        self._stdin.close()
        return [json.loads(line) for line in self._stdout], self.process.wait(60), self.read_log()

    def read_log(self) -> str:
        """What the server said on standard error."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    @property
    def _stdin(self) -> IO[bytes]:
        assert self.process.stdin
        return self.process.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self.process.stdout
        return self.process.stdout
