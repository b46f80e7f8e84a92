"""What the server sees of a session: finished calls of its own tools, which the hooks of clients pass over.

Runs after the answer has gone out. A call that the extraction rules keep becomes an event and an item of its session,
any other is counted; what was sent is counted too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from scrimshaw.app.hooks.capture import observation, removed_classes
from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.app.mcp.protocol import AfterTool, FinishedCall
from scrimshaw.app.processes import ancestors
from scrimshaw.engine import Engine, sessions
from scrimshaw.ingest.redact import redact
from scrimshaw.ingest.rules import Rule, compile_pattern, order_rules
from scrimshaw.models import Injected, Memory, NewItem, Observation, Session, Trust
from scrimshaw.search.tokens import count_tokens

_log = logging.getLogger(__name__)

# What a tool of ours does to a memory's file, in the words of the rules; other tools keep their names.
_ACTS: Mapping[str, str] = MappingProxyType({"memory_get": "Read", "memory_save": "Write", "memory_update": "Write"})
_NOTHING_WRITTEN = frozenset({"dry_run", "duplicate", "rejected"})
MEMORY_READ = "memory-read"


def callback(engine: Engine, rules: Sequence[Rule]) -> AfterTool:
    """What to register with the server's hook pipeline; `rules` are all rules in the order of trial."""
    # A rule for every tool is about what clients answer; ours answer with memories that may quote anything.
    # What ours read is a memory wherever its file lies.
    ours = order_rules(replace(rule, argument="") if rule.id == MEMORY_READ else rule for rule in rules if rule.tool)
    return partial(capture, engine, ours)


def capture(engine: Engine, rules: Sequence[Rule], call: FinishedCall) -> None:
    """Count a call and its answer in their session, and remember what the rules keep of it, in one transaction."""
    session = _session(engine, call)
    if session is None:
        return
    injected = _injected(engine, session, call)
    seen = _seen(engine, rules, session, call)
    if seen is None:
        sessions.tick(engine, session.id, injected)
        return
    removed = removed_classes(seen)
    if removed:
        _log.warning("Redaction applied: %s", ", ".join(removed))
    sessions.record_event(engine, replace(seen, injected=injected))


def _seen(engine: Engine, rules: Sequence[Rule], session: Session, call: FinishedCall) -> Observation | None:
    """What the rules keep of a call; its event says what was asked, not what was answered."""
    memory = _memory(engine, call)
    event = _event(engine, session, call, memory)
    # Most answers are long and no rule is about them: redacting them would be for nothing.
    meant = [rule for rule in rules if compile_pattern(rule.tool).search(event.tool)]
    if not meant or not engine.settings.features.extraction:
        return None
    drop_ratio = engine.settings.redaction.drop_ratio
    seen = observation(event, meant, process=0, extraction=True, drop_ratio=drop_ratio)
    if seen.item is None:
        return None
    asked = redact(seen.text.text.partition("\n")[0])
    return replace(seen, tool=call.tool, text=asked, item=_linked(seen.item, call, memory))


def _injected(engine: Engine, session: Session, call: FinishedCall) -> Injected:
    """What the answer puts into the model's context."""
    found = call.reply.get("result", call.reply)
    hits = found.get("hits") or found.get("matches") or ()
    tokens = count_tokens(_text(call.reply))
    return Injected(session=session.id, occasion=call.tool, tokens=tokens, hits=len(hits), at=engine.clock())


def _session(engine: Engine, call: FinishedCall) -> Session | None:
    """The session that a call names, if there is one of this name, else that of the client which started the server."""
    named = str(call.arguments.get("session_id") or "")
    return engine.sessions.get(named) if named else engine.sessions.of_process(ancestors())


def _memory(engine: Engine, call: FinishedCall) -> Memory | None:
    """The memory that a call read or wrote."""
    if call.tool not in _ACTS or call.reply.get("status") in _NOTHING_WRITTEN:
        return None
    name = str(call.reply.get("memory", call.reply).get("id", ""))
    return engine.index.get([name]).get(name)


def _event(engine: Engine, session: Session, call: FinishedCall, memory: Memory | None) -> Event:
    path = {"file_path": _path(engine, memory)} if memory else {}
    return Event(
        client="",
        name=EventName.TOOL,
        session=session.id,
        tool=_ACTS[call.tool] if memory else call.tool,
        tool_name=call.tool,
        arguments={**call.arguments, **path},
        output=str(call.reply.get("content") or _text(call.reply)),
        failed=bool(call.error),
        call_id=call.call_id,
    )


def _path(engine: Engine, memory: Memory) -> str:
    """The memory's file, told from the project where it lies inside."""
    path, project = Path(memory.path), engine.settings.project.resolve()
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else memory.path


def _linked(item: NewItem, call: FinishedCall, memory: Memory | None) -> NewItem:
    """The item with its memory, and no more trusted than what it quotes."""
    trust = Trust.WEB if f'"trust":"{Trust.WEB}"' in _text(call.reply) else item.source.trust
    return replace(item, memory_id=memory.id if memory else "", source=replace(item.source, trust=trust))


def _text(reply: Mapping[str, object]) -> str:
    """An answer as it was sent."""
    return msgspec.json.encode(reply).decode()
