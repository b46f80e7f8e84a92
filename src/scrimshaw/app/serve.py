"""The MCP server of one project on standard input and output; it imports only what the first answers need."""

import logging
import sys
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from scrimshaw.app.mcp.protocol import Backend, build_server, read_listing, serve_stdio
from scrimshaw.app.mcp.schema import DEFAULT_TOOLSETS
from scrimshaw.config import NO_PROJECT, load
from scrimshaw.ingest.tables import load_lines

INSTRUCTIONS = " ".join(load_lines(__file__, "serve", "instructions"))
NO_MEMORY = " ".join(load_lines(__file__, "serve", "no_memory"))


def serve(project: Path, toolsets: str = DEFAULT_TOOLSETS) -> None:
    """Serve until the client hangs up; raises ConfigError and InvalidRequest before the first byte."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="scrimshaw: %(message)s")
    (tools, prompts), settings = read_listing(toolsets), load(project)
    for ignored in settings.ignored:
        logging.getLogger(__name__).warning(ignored)
    if settings.rules:
        from scrimshaw.ingest.rule_checks import check_rules  # noqa: PLC0415 - few users have rules of their own

        check_rules(settings.rules)
    instructions = INSTRUCTIONS if settings.folder.is_dir() else NO_MEMORY
    with ExitStack() as closing:

        def provide() -> Backend:
            from scrimshaw.app.mcp.backend import open_backend  # noqa: PLC0415 - a server answers before that is loaded

            current = load(project)
            if current.folder.is_dir():
                return closing.enter_context(open_backend(current, toolsets, writable=True))
            alone = replace(current, project=current.home / NO_PROJECT, sources=())
            backend = closing.enter_context(open_backend(alone, toolsets, writable=False))
            return replace(backend, is_outdated=current.folder.is_dir)  # once `scrimshaw init` was run

        serve_stdio(build_server(tools, prompts, provide, instructions))
