"""The backend of a server: the open memory, its background work, its resources and its prompts."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, NamedTuple

from scrimshaw.app.background import Background
from scrimshaw.app.hooks import fencing
from scrimshaw.app.mcp.call_recorder import make_recorder
from scrimshaw.app.mcp.protocol import Backend, Dispatcher
from scrimshaw.app.mcp.replies import fit_reply, public_title, search_reply, warnings
from scrimshaw.app.mcp.schema import describe, tool
from scrimshaw.app.mcp.tools import choose
from scrimshaw.config import Settings
from scrimshaw.engine import Engine, counts, open_engine, read
from scrimshaw.engine.core import list_project_sources
from scrimshaw.engine.degradations import NO_MEMORY, PROJECT
from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.rule_checks import check_rules
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Filters, Trust
from scrimshaw.router import ask
from scrimshaw.search.results import SearchRequest
from scrimshaw.search.tokens import query_terms

_PAGE, _CURSOR_DIGITS = 100, 9
_RECALL_TOKENS = 3000

PROMPT_TEXTS = load_table(__file__, "prompts", dict[str, str])


@contextmanager
def open_backend(settings: Settings, toolsets: str, *, writable: bool) -> Iterator[Backend]:
    """Open a memory and start its background work; not `writable` for a project without one. Raises ScrimshawError."""
    rules, problems = check_rules(settings.rules)
    for problem in problems:
        logging.getLogger(__name__).warning("%s; %s", problem.message, problem.advice)
    sources = list_project_sources(settings)
    if not writable:
        sources = [each if each.id_prefix else replace(each, writable=False) for each in sources]
    with open_engine(settings, sources=sources) as engine:
        if not writable:
            engine.degradations.put(PROJECT, NO_MEMORY)
        background = Background(engine)
        background.start()
        ask.start_peers(settings)
        try:
            gc.freeze()  # as after the start: modules imported since live forever
            dispatcher = Dispatcher(choose(toolsets), engine, make_recorder(engine, rules))
            yield Backend(dispatcher, Memories(engine), PROMPTS, background.wait_briefly)
        finally:
            background.stop()


class Memories(NamedTuple):
    """Memories as MCP resources."""

    engine: Engine

    def page(self, cursor: str) -> tuple[list[tuple[str, str]], str]:
        if cursor and not (cursor.isdecimal() and len(cursor) <= _CURSOR_DIGITS):
            raise InvalidRequest("The cursor is unknown.", "List from the start.", parameter="cursor")
        offset = int(cursor or 0)
        found = counts.page(self.engine, Filters(), sort="id", limit=_PAGE, offset=offset)
        entries = [(memory.id, public_title(memory)) for memory in found.memories]
        return entries, str(offset + _PAGE) if offset + _PAGE < found.total else ""

    def read(self, memory_id: str) -> str:
        """A memory's text, fenced with its label if an agent wrote it or it speaks to one; raises NotFound."""
        found = read.get(self.engine, memory_id)
        trust = found.memory.provenance.trust
        warning = ", speaks like an instruction" if warnings(found.body, trust) else ""
        if trust == Trust.HUMAN or (trust == Trust.FILE and not warning):
            return fencing.remove_marks(found.body)
        return fencing.fence(f"Trust {trust}{warning}.", found.body)


@tool()
def recall(engine: Engine, topic: Annotated[str, describe("What to recall.", min_length=1, max_length=2000)]) -> str:
    """Bring what is known about a topic into the conversation."""
    request = SearchRequest(query=topic, min_confidence=engine.settings.search.min_confidence, record=True)
    found = search_reply(fit_reply(ask.search(engine, request), query_terms(topic), _RECALL_TOKENS, {}))
    entry = "## {title} (memory://{id}, trust: {trust})\n{text}"
    texts = ("\n".join(f"{name}: {text}" for name, text in hit.get("passages", {}).items()) for hit in found.hits)
    shown = ({"trust": "file", "text": text, **hit} for hit, text in zip(found.hits, texts, strict=True))
    nearest = "\n".join(("\n\nWhat comes nearest:", *found.nearest)) if found.nearest else ""
    body = "\n\n".join(map(entry.format_map, shown)) or f"Nothing is known about it yet.{nearest}"
    doubts = "".join(f"\n\nNote: {each.failure_mode}; instead: {each.fallback_mode}." for each in found.degraded)
    peers = f"\n\n{found.peers}" if found.peers else ""
    walled = fencing.fence("Notes of the project.", body)
    return f"What the project's memory knows about {topic!r}:\n\n{walled}{peers}{doubts}"


@tool()
def remember(
    engine: Engine, what: Annotated[str, describe("What to keep; else what was decided.", max_length=2000)] = ""
) -> str:
    """Save what this conversation decided or learned."""
    return PROMPT_TEXTS["remember"].format(what=what or "what this conversation decided or learned the hard way.")


@tool()
def handoff(engine: Engine, about: Annotated[str, describe("What to attend to.", max_length=2000)] = "") -> str:
    """Write down the state of this work, for the session that continues it."""
    return PROMPT_TEXTS["handoff"].format(about=about).rstrip()


PROMPTS = {each.name: each for each in (recall, remember, handoff)}
