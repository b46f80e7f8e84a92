"""The line below a client's prompt: the size of the memory, what the session was given, and what is broken."""

import sys
from contextlib import closing
from pathlib import Path

from scrimshaw.config import HOOK_BUSY_MS, find_project, load
from scrimshaw.errors import ScrimshawError
from scrimshaw.ingest.payload import read_object, section, text
from scrimshaw.models import Filters, format_count
from scrimshaw.storage.engines import open_storage

_RED = "\033[31m{}\033[0m"


def print_line() -> None:
    """Answer a client's request on standard input; an empty line if the project has no memory."""
    payload = read_object(sys.stdin.buffer.read().decode(errors="replace"))
    folder = Path(text(section(payload, "workspace").get("current_dir")) or text(payload.get("cwd")) or ".")
    sys.stdout.buffer.write(f"{describe_memory(folder, text(payload.get('session_id')))}\n".encode())


def describe_memory(folder: Path, session: str) -> str:
    """The number of memories and of tokens that a session was given; red if they cannot be read."""
    try:
        settings = load(find_project(folder))
        if not settings.folder.is_dir():
            return ""
        with closing(open_storage(settings, busy_timeout_ms=HOOK_BUSY_MS)) as storage:
            if not storage.has_index:
                return _RED.format("no index: run `scrimshaw scan`")
            memories = sum(storage.index.count(Filters()).values())
            tokens = sum(each.tokens for each in storage.sessions.injections(session)) if session else 0
    except ScrimshawError as error:
        first = error.message.partition("\n")[0].rstrip(":.")
        return _RED.format(f"memory: {first}. See `scrimshaw doctor`.")
    return f"{format_count(memories, 'memory', ',')}, {format_count(tokens, 'token', ',')} given"
