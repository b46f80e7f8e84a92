"""What a recorded client and its server said to each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


@dataclass(frozen=True)
class Traffic:
    """Messages in their order, and what the server wrote that is no message.

    `startup_s` are the seconds from start to first answer, `exit_code` is None for a server that was killed.
    """

    client: Sequence[Mapping[str, Any]]
    server: Sequence[Mapping[str, Any]]
    noise: Sequence[str]
    startup_s: float
    exit_code: int | None

    def era(self) -> str:
        """The protocol version of the tool calls, and the request that settled it."""
        calls = [
            _of(_of(message, "params"), "_meta") for message in self.client if message.get("method") == "tools/call"
        ]
        modern = next((meta[VERSION_KEY] for meta in calls if VERSION_KEY in meta), "")
        if modern:
            return f"{modern} (server/discover)"
        agreed = (_of(message, "result").get("protocolVersion") for message in self.server)
        return next((f"{version} (initialize)" for version in agreed if version), "none")

    def problems(self) -> list[str]:
        """What the server must never do: write anything but messages, refuse a request of a real client, crash."""
        refused = [str(message["error"]) for message in self.server if "error" in message]
        crashed = [f"the server ended with {self.exit_code}"] if self.exit_code else []
        return [*(f"the server wrote {line!r}" for line in self.noise), *(f"refused: {e}" for e in refused), *crashed]


def read_traffic(log: Path) -> Traffic:
    """Read the recorder's log; empty when the server was never started."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    records = [json.loads(line) for line in lines]
    messages = [(record["from"], _message(record["line"])) for record in records]
    began = next((record["at"] for record in records), 0.0)
    return Traffic(
        client=[message for sender, message in messages if sender == "client" and message],
        server=[message for sender, message in messages if sender == "server" and message],
        startup_s=next((record["at"] - began for record in records if record["from"] == "server"), 0.0),
        exit_code=next((int(record["line"]) for record in records if record["from"] == "end"), None),
        noise=[record["line"] for record in records if record["from"] == "server" and not _message(record["line"])],
    )


def _message(line: str) -> Mapping[str, Any]:
    try:
        message = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return message if isinstance(message, dict) else {}


def _of(message: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = message.get(key)
    return value if isinstance(value, dict) else {}
