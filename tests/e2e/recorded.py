"""What working memory must hold after the scenario of `capture`, and what the next run must be told of it."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tests.e2e.agents import Agent
from tests.e2e.model import Model
from tests.e2e.workspace import Workspace

from scrimshaw.app.hooks.fencing import FENCE
from scrimshaw.models import Item, ItemKind, Session
from scrimshaw.storage.place import JOURNAL, find_place
from scrimshaw.storage.sessions import Sessions
from scrimshaw.storage.sqlite.database import Database

PLAN = "plan.md"
COMPLAINT = "deploy: error: the gateway refused the connection"
SUBJECT = "Sign the release tags"

_BUSY_MS = 5_000


@dataclass(frozen=True)
class Wanted:
    """An item that must be held: its kind, the rule that keeps it, and what its text must say."""

    kind: ItemKind
    rule: str
    says: str
    is_read: bool = False
    is_redacted: bool = False


_WANTED = (
    Wanted(ItemKind.FILE, "plan-read", "[REDACTED:", is_read=True, is_redacted=True),
    Wanted(ItemKind.ERROR, "failed-command", COMPLAINT, is_redacted=True),
    Wanted(ItemKind.COMMIT, "commit", SUBJECT),
)


@dataclass(frozen=True)
class WorkingMemory:
    """The last session of a project, None where there is none, and the items it holds."""

    session: Session | None
    items: Sequence[Item]

    def problems(self, agent: Agent, model: Model) -> Iterator[str]:
        """What differs from what the client did."""
        if self.session is None:
            yield "no session was recorded"
            return
        if self.session.client != agent.name or "[REDACTED:" not in self.session.task:
            yield f"the session is not the client's, or has not its redacted task: {self.session}"
        calls = model.call_ids() if agent.numbers_calls else None
        for wanted in _WANTED:
            if not any(_is_wanted(item, wanted, agent, calls) for item in self.items):
                yield f"no item is as {wanted}: {self.items}"


def read_working_memory(workspace: Workspace) -> WorkingMemory:
    """The last session in a project's journal, and its items."""
    journal = find_place(workspace.memory_folder) / JOURNAL
    database = Database(journal, "journal", durable=True, busy_timeout_ms=_BUSY_MS)
    with closing(database):
        sessions = Sessions(database)
        session = next(iter(sessions.latest()), None)
        return WorkingMemory(session, sessions.items(session.id, held=True) if session else ())


def recall_problems(memory: WorkingMemory, model: Model, secrets: Collection[str]) -> Iterator[str]:
    """What the model of the next run was not told, or not within a fence; and secrets that it was told at all."""
    said = "\n".join(map(all_text, model.requests()))
    fences = fenced_text(said)
    origin = f"session:{memory.session.id}" if memory.session else "no session"
    for wanted in (COMPLAINT, SUBJECT, origin):
        if wanted not in fences:
            yield f"the next run was not told of {wanted!r}: {fences or 'it was told nothing'}"
    if any(secret in said for secret in secrets):
        yield "the next run was told a secret"
    if any(line.startswith("- changed") and ".scrimshaw/" in line for line in fences.splitlines()):
        yield "the next run was told of a saved memory as of a changed file"


def _is_wanted(item: Item, wanted: Wanted, agent: Agent, calls: Collection[str] | None) -> bool:
    source = item.source
    return (
        (item.kind, source.extraction_rule_id) == (wanted.kind, wanted.rule)
        and wanted.says in item.text
        and source.source_tool == (agent.reader if wanted.is_read else agent.shell)
        and source.redaction_applied == wanted.is_redacted
        and (bool(source.source_call_id) if calls is None else source.source_call_id in calls)
    )


def all_text(request: Mapping[str, Any]) -> str:
    """All that a request says; Gemini CLI escapes what hooks say."""
    return html.unescape("\n".join(texts(request["body"])))


def fenced_text(said: str) -> str:
    """What hooks say in a text, fences and all."""
    return "\n".join(re.findall(rf"<{FENCE} .*?</{FENCE}>", said, re.DOTALL))


def texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)
