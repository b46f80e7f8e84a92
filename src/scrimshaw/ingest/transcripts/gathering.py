"""Turns in the making: what every client's parser collects, in the order of the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from scrimshaw.ingest.payload import number
from scrimshaw.ingest.tool_calls import ToolCall
from scrimshaw.ingest.tool_names import is_ours, normalised
from scrimshaw.ingest.turns import Turn
from scrimshaw.models import EventKind

_MILLISECONDS_FROM = 1e11  # as seconds that is the year 5138, as milliseconds 1973
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")


@dataclass(frozen=True)
class _Asked:
    """A tool call whose result has not come yet."""

    name: str
    arguments: Mapping[str, Any]


@dataclass
class Gathering:
    """The turns so far. A call becomes a turn when its result is there; this server's own tools never do."""

    turns: list[Turn] = field(default_factory=list)
    _asked: dict[str, _Asked] = field(default_factory=dict)

    def say(self, kind: EventKind, text: str, at: float, agent: str = "") -> None:
        """Add a prompt, answer or summary of a compaction; an empty text is none, except for a compaction."""
        words = text.strip()
        if words or kind is EventKind.COMPACT:
            self.turns.append(Turn(kind=kind, at=at, text=words, agent=agent))

    def compact(self, summary: str, at: float) -> None:
        """Add a compaction; its boundary and its summary, one after the other, are one."""
        if self.turns and self.turns[-1].kind is EventKind.COMPACT and not self.turns[-1].text:
            self.turns.pop()
        self.say(EventKind.COMPACT, summary, at)

    def ask(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> None:
        """A tool call began."""
        if name and not is_ours(name):
            self._asked[call_id] = _Asked(name, arguments)

    def drop(self, call_id: str) -> None:
        """A tool call was refused and never ran."""
        self._asked.pop(call_id, None)

    def tool_of(self, call_id: str) -> str:
        """The client's name of the tool of a call that waits for its result; empty where there is none."""
        asked = self._asked.get(call_id)
        return asked.name if asked else ""

    def finish(
        self, call_id: str, output: str, failed: bool | None, at: float, *, agent: str = "", tool: str = ""
    ) -> None:
        """A tool call ended; `tool` overrides the normalised name. A result without a call is left out."""
        asked = self._asked.pop(call_id, None)
        if asked is None:
            return
        call = ToolCall(
            tool=tool or normalised(asked.name),
            arguments=asked.arguments,
            output=output,
            failed=failed,
            call_id=call_id,
        )
        self.turns.append(Turn(kind=EventKind.TOOL, at=at, call=call, tool_name=asked.name, agent=agent))

    def in_order(self) -> tuple[Turn, ...]:
        """The turns; one without a time has that of the turn before it."""
        at, found = 0.0, []
        for turn in self.turns:
            at = turn.at or at
            found.append(turn if turn.at else replace(turn, at=at))
        return tuple(found)


def moment(value: object) -> float:
    """Seconds since 1970 of an ISO time or a number of seconds or milliseconds; 0.0 for anything else."""
    count = number(value)
    if count is not None:
        return max(0.0, count / 1000 if count > _MILLISECONDS_FROM else count)
    return _of_iso(value) if isinstance(value, str) and _ISO.match(value) else 0.0


def _of_iso(value: str) -> float:
    try:
        told = datetime.fromisoformat(value)
        return max(0.0, (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0.0
