"""Records and counts finished calls of the server's own tools, which the hooks of clients skip."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from scrimshaw.app.mcp.protocol import AfterTool, FinishedCall
from scrimshaw.app.mcp.tools.core import session_id_of
from scrimshaw.engine import Engine, sessions
from scrimshaw.ingest.comparison import count_tokens
from scrimshaw.ingest.events import Event, find_redactions, make_observation
from scrimshaw.ingest.extraction import Rule, compile_pattern, order_rules
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EventKind, Injected, ItemKind, MemoryType, Observation, Session, Trust

_log = logging.getLogger(__name__)

# What our tools do to a memory's file, named as in the rules; other tools keep their names.
_ACTS: Mapping[str, str] = {"memory_get": "Read", "memory_save": "Write", "memory_update": "Write"}
_NOTHING_WRITTEN = frozenset({"dry_run", "duplicate", "rejected"})
MEMORY_READ, FACT_STATED = "memory-read", "fact-stated"


def make_recorder(engine: Engine, rules: Sequence[Rule]) -> AfterTool:
    """The callback for the server's finished calls; `rules` are all rules in the order of trial."""
    # A rule for any tool is about results from clients; our tools return memories that may quote
    # anything. A file they read is a memory wherever it is.
    about = (rule for rule in rules if rule.tool and rule.id != FACT_STATED)
    ours = order_rules(replace(rule, argument="") if rule.id == MEMORY_READ else rule for rule in about)
    return partial(record_call, engine, ours)


def record_call(engine: Engine, rules: Sequence[Rule], call: FinishedCall) -> None:
    """Count a call and its answer in their session, and store the item by the rules, in one transaction."""
    session = engine.sessions.get(session_id_of(engine, str(call.arguments.get("session_id") or "")))
    if session is None or not engine.settings.is_capturing:
        return
    found = call.reply.get("result", call.reply)
    hits = found.get("hits") or found.get("matches") or ()
    tokens, now = count_tokens(call.text), engine.clock()
    injected = Injected(session=session.id, occasion=call.tool, tokens=tokens, hits=len(hits), at=now)
    if (seen := _observe_call(engine, rules, session, call)) is None:
        sessions.tick(engine, session.id, injected)
        return
    if removed := find_redactions(seen):
        _log.warning("Redaction applied: %s", ", ".join(removed))
    sessions.record_event(engine, replace(seen, injected=injected))


def _observe_call(engine: Engine, rules: Sequence[Rule], session: Session, call: FinishedCall) -> Observation | None:
    """The observation of a call by the rules; its event has the request, not the answer."""
    memory = None  # the one that the call read or wrote
    if call.tool in _ACTS and call.reply.get("status") not in _NOTHING_WRITTEN:
        name = str(call.reply.get("memory", call.reply).get("id", ""))
        memory = engine.index.get([name]).get(name)
    tool = _ACTS[call.tool] if memory else call.tool
    # Most answers are long and match no rule: redacting them would be useless.
    relevant = [rule for rule in rules if compile_pattern(rule.tool).search(tool)]
    if not relevant or not engine.settings.features.extraction:
        return None
    event = Event(
        client="",
        kind=EventKind.TOOL,
        session=session.id,
        tool=tool,
        tool_name=call.tool,
        cwd=str(engine.settings.project.resolve()),
        arguments={**call.arguments, "file_path": memory.path} if memory else call.arguments,
        # what was saved is in its file; the reply only says so
        output=memory.title if memory and tool == "Write" else str(call.reply.get("content") or call.text),
        failed=bool(call.error),
        call_id=call.call_id,
    )
    drop_ratio = engine.settings.redaction.drop_ratio
    seen = make_observation(event, relevant, process=0, extraction=True, drop_ratio=drop_ratio)
    if (item := seen.item) is None:
        return None
    # An item has at most the trust of what it quotes.
    trust = Trust.WEB if f'"trust":"{Trust.WEB}"' in call.text else item.source.trust
    item = replace(item, memory_id=memory.id if memory else "", source=replace(item.source, trust=trust))
    if memory and tool == "Write":  # a saved memory is not a changed file of the project
        item = replace(item, kind=ItemKind.DECISION if memory.type is MemoryType.DECISION else ItemKind.RESULT)
    return replace(seen, tool=call.tool, text=redact(seen.text.text.partition("\n")[0]), item=item)
