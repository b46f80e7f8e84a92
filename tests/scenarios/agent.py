"""An agent at work: it calls the tools as a client does, reports its events as hooks do, and lives by its own clock."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.config import load
from scrimshaw.engine import Engine, open_engine, sessions
from scrimshaw.ingest.comparison import count_tokens
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EventKind, Item, ItemKind, ItemSource, NewItem, Observation
from scrimshaw.session import working_memory

START = datetime(2026, 6, 1, 9, tzinfo=UTC)


class Clock:
    """Seconds since 1970 that pass only when told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now.timestamp()

    def wait(self, **time: float) -> None:
        """Let time pass: days, hours, minutes."""
        self.now += timedelta(**time)

    def ago(self, days: float) -> str:
        """The ISO time so many days ago."""
        return (self.now - timedelta(days=days)).isoformat()


class Agent:
    """One session of a client; with an empty name it belongs to none."""

    def __init__(self, engine: Engine, session: str = "", clock: Clock | None = None) -> None:
        self.engine = replace(engine, clock=clock) if clock else engine
        self.session = session
        self._dispatcher = Dispatcher(choose("all"), self.engine)

    def sent(self, tool: str, **arguments: Any) -> str:
        """The text a tool answers with, word for word; the call must not fail."""
        if self.session and tool in ("memory_search", "memory_context", "memory_match_triggers"):
            arguments.setdefault("session_id", self.session)
        outcome = self._dispatcher.dispatch(tool, arguments)
        assert not outcome.error, outcome.text
        return outcome.text

    def dispatch(self, tool: str, **arguments: Any) -> str:
        """The text a tool answers with, which may be an error."""
        return self._dispatcher.dispatch(tool, arguments).text

    def call(self, tool: str, **arguments: Any) -> Any:
        """The same, read."""
        return json.loads(self.sent(tool, **arguments))

    def search(self, query: str, **arguments: Any) -> list[dict[str, Any]]:
        """The hits of a search with their reasons, all of them; shown ones come whole unless asked otherwise."""
        given = {"enable_dedup": False, "include_trace": True, "token_budget": 100_000, **arguments}
        hits: list[dict[str, Any]] = self.call("memory_search", query=query, **given)["hits"]
        return hits

    def found(self, query: str, **arguments: Any) -> list[str]:
        """The ids of the hits of a search."""
        return [hit["id"] for hit in self.search(query, **arguments)]

    def context(self, task: str, **arguments: Any) -> Any:
        """The reply of memory_context."""
        return self.call("memory_context", input=task, **arguments)

    def did(self, tool: str, text: str, attention: float, kind: ItemKind = ItemKind.RESULT, **fields: Any) -> Item:
        """A finished tool call that is worth remembering."""
        sessions.bind_session(self.engine, self.session)
        source = ItemSource(source_tool=tool, source_call_id=f"call-{text[:8]}", extraction_rule_id=f"rule-{kind}")
        item = NewItem(text=redact(text), kind=kind, attention=attention, source=source, **fields)
        return self.remember(item)

    def remember(self, item: NewItem) -> Item:
        """Count one event of the session, and take what it brought into working memory."""
        engine, settings, features = self.engine, self.engine.settings.session, self.engine.settings.features
        sessions.tick(engine, self.session)
        now = engine.clock()
        admit = partial(working_memory.admit, now=now, settings=settings, event_decay=features.event_decay)
        seen = Observation(session=self.session, kind=EventKind.STOP, text=redact(""), item=item)
        assert engine.sessions.observe(seen, admit, now=now, modulus=settings.counter_modulus)
        return next(each for each in reversed(engine.sessions.items(self.session)) if each.text == item.text.text)

    def passes(self, events: int) -> None:
        """Tool calls that are not worth remembering."""
        sessions.bind_session(self.engine, self.session)
        for _ in range(events):
            sessions.tick(self.engine, self.session)

    def attention(self) -> list[float]:
        """What working memory holds, most attended first, as attention now."""
        session = sessions.bind_session(self.engine, self.session)
        assert session
        return [attention for _, attention in sessions.rank_working_memory(self.engine, session)]


def started(project: Path, environment: dict[str, str] | None = None, clock: Clock | None = None) -> Engine:
    """The project's memory as a new process opens it with these environment variables, without vectors."""
    variables = {"SCRIMSHAW_EMBEDDING_PROVIDER": "none", **(environment or {})}
    engine = open_engine(load(project, home=project.parent / "home", environment=variables))
    return replace(engine, clock=clock) if clock else engine


def cost(reply: dict[str, Any]) -> int:
    """The tokens of four characters of a reply as it is sent, always-on memories apart."""
    hits = [hit for hit in reply["result"]["hits"] if not hit.get("always_on")]
    sent = reply | {"result": reply["result"] | {"hits": hits}}
    return count_tokens(msgspec.json.encode(sent).decode())  # `json` writes 2e-06 where the server sends 2e-6
