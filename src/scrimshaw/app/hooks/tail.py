"""What the end of a client's transcript adds to an event: context use, how a call ended, what the agent said."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.app.hooks.transcript import assistant_turns, call_failed, context_used

# Enough for the last turns of any client; a transcript grows to many megabytes.
TAIL_BYTES = 256 * 1024
_RESTING = (EventName.STOP, EventName.COMPACT)


def with_transcript(event: Event) -> tuple[Event, list[str]]:
    """The event with what its transcript tells, and what the agent said since; unchanged where nothing can be read."""
    asks_outcome = event.client == "codex" and event.name == EventName.TOOL and event.failed is None
    if not event.transcript or event.agent or not (asks_outcome or event.name in _RESTING):
        return event, []
    lines = _tail(Path(event.transcript))
    if asks_outcome:
        return replace(event, failed=call_failed(event.client, lines, event.call_id)), []
    used = event.context_used if event.context_used is not None else context_used(event.client, lines)
    return replace(event, context_used=used), assistant_turns(event.client, lines)


def _tail(path: Path) -> list[str]:
    """The last lines of a file, whole ones only; none when it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    lines = text.splitlines()
    return lines if size <= TAIL_BYTES else lines[1:]
