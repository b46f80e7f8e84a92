"""Who may make a memory constitutional: a person, and only of what comes from people."""

from __future__ import annotations

from collections.abc import Mapping

from scrimshaw.engine.core import Engine
from scrimshaw.errors import InvalidRequest
from scrimshaw.models import Document, Tier, Trust
from scrimshaw.search import lineage

# Who acts when a person gave the command.
HUMAN_ACTORS = frozenset({"human", "cli"})


def demand_human(tier: Tier, trust: Trust, memory_id: str = "") -> None:
    """Refuse the constitutional tier to whom no person vouches for; raises InvalidRequest naming the command."""
    if tier == Tier.CONSTITUTIONAL and trust != Trust.HUMAN:
        raise _refusal(memory_id)


def vouched(engine: Engine, memory_id: str, changes: Mapping[str, object], actor: str) -> Mapping[str, object]:
    """The changes, with a person's provenance where a person makes a memory constitutional.

    Raises InvalidRequest when somebody else asks for it, or when a source of the memory is not a person's.
    """
    if changes.get("tier") != Tier.CONSTITUTIONAL:
        return changes
    if actor not in HUMAN_ACTORS:
        raise _refusal(memory_id)
    trust = lineage.sources(engine.index, (memory_id,)).get(memory_id, Trust.HUMAN)
    if trust != Trust.HUMAN:
        raise InvalidRequest(
            f"{memory_id!r} was derived from what has trust {trust}; a constitutional memory comes from people alone.",
            "Write what you know yourself as a memory of its own: `scrimshaw save --tier constitutional`.",
            parameter="tier",
        )
    return {**changes, "provenance": {"source": "cli", "trust": Trust.HUMAN.value}}


def demand_unchanged(engine: Engine, document: Document, actor: str) -> None:
    """Refuse a write by which anybody but a person words a constitutional memory; raises InvalidRequest."""
    if document.tier != Tier.CONSTITUTIONAL or actor in HUMAN_ACTORS:
        return
    memory_id = document.file.memory_id
    before = engine.index.get([memory_id]).get(memory_id)
    if (
        before is None
        or before.tier != Tier.CONSTITUTIONAL
        or memory_id not in engine.index.same_text(document.text_hash)
    ):
        raise _refusal(memory_id)


def _refusal(memory_id: str) -> InvalidRequest:
    command = (
        f"scrimshaw edit {memory_id} --tier constitutional" if memory_id else "scrimshaw save --tier constitutional"
    )
    return InvalidRequest(
        "Only a person makes or words a constitutional memory.",
        f"Ask the user to run `{command}`, or save it as critical.",
        parameter="importance_tier",
    )
