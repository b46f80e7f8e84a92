"""What a client's transcript tells beyond its events: how full the context is, what the agent said, how calls ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from scrimshaw.app.hooks import claude, codex, copilot, gemini, qwen

MOST_TURNS = 50  # the last ones are kept: a draft of a memory quotes far fewer
LONGEST_TURN = 8_000  # characters of one turn, about 2,000 tokens

_USAGE: Mapping[str, Callable[[Iterable[str]], float | None]] = MappingProxyType(
    {
        "claude": claude.usage,
        "codex": codex.usage,
        "copilot": copilot.usage,
        "gemini": gemini.usage,
        "qwen": qwen.usage,
    }
)
_TURNS: Mapping[str, Callable[[Iterable[str]], Iterator[str]]] = MappingProxyType(
    {
        "claude": claude.turns,
        "codex": codex.turns,
        "copilot": copilot.turns,
        "gemini": gemini.turns,
        "qwen": qwen.turns,
    }
)


def context_used(client: str, transcript_lines: Iterable[str]) -> float | None:
    """The share 0..1 of the context in use at the end of a transcript (its tail will do); None where it is not told.

    OpenCode and Qwen tell it in their events instead, Cursor before a compaction, Cline nowhere.
    """
    read = _USAGE.get(client)
    return read(transcript_lines) if read else None


def assistant_turns(client: str, lines: Iterable[str]) -> list[str]:
    """What the main agent says in `lines`, in order: the last 50 texts, each cut to 8,000 characters."""
    read = _TURNS.get(client)
    said = (turn.strip()[:LONGEST_TURN] for turn in (read(lines) if read else ()))
    return list(deque((turn for turn in said if turn), maxlen=MOST_TURNS))


def call_failed(client: str, lines: Iterable[str], call_id: str) -> bool | None:
    """Whether a tool call failed, by the transcript; None where it is not told. Codex only: its events hide it."""
    return codex.outcome(lines, call_id) if client == "codex" else None
