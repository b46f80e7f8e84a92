"""Who vouches for a memory: a person alone makes one constitutional, and no hand but a person's keeps a person's label.

Files are truth, so a file of a person's vault is believed when it says that it is constitutional; no door of an agent's
leads there. Whoever can write files can write such a one: the doctor names those that no command made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from scrimshaw.engine.core import Engine
from scrimshaw.errors import InvalidRequest, UnreadableFile
from scrimshaw.ingest.front_matter import (
    limit_tier,
    parse_line,
    parse_phrases,
    parse_provenance,
    parse_tier,
    parse_title,
)
from scrimshaw.ingest.memory_file import MemoryFile, edit_memory_file, parse_memory_file
from scrimshaw.models import Action, Filters, Memory, Provenance, Relation, Tier, Trust
from scrimshaw.search import lineage

# Who acts when a person gave the command.
HUMAN_ACTORS = frozenset({"human", "cli"})
# An import that is run again brings what the same source says now, under the label that source has.
_KEEPERS = HUMAN_ACTORS | {"import"}


def demand_human(tier: Tier, trust: Trust, memory_id: str = "") -> None:
    """Refuse the constitutional tier to whom no person vouches for; raises InvalidRequest naming the command."""
    if tier == Tier.CONSTITUTIONAL and trust != Trust.HUMAN:
        raise _refusal(memory_id)


def vouched(engine: Engine, memory_id: str, changes: Mapping[str, object], actor: str) -> Mapping[str, object]:
    """The changes, with a person's provenance where a person makes a memory constitutional.

    Raises InvalidRequest when somebody else asks for it, or when a source of the memory is not a person's.
    """
    if not asks(changes):
        return changes
    if actor not in HUMAN_ACTORS:
        raise _refusal(memory_id)
    trust = lineage.inherited_trusts(engine.index, (memory_id,)).get(memory_id, Trust.HUMAN)
    if trust != Trust.HUMAN:
        raise InvalidRequest(
            f"{memory_id!r} was derived from what has trust {trust}; a constitutional memory comes from people alone.",
            "Write what you know yourself as a memory of its own: `scrimshaw save --tier constitutional`.",
            parameter="tier",
        )
    return {**changes, "provenance": {"source": "cli", "trust": Trust.HUMAN.value}}


def asks(changes: Mapping[str, object]) -> bool:
    """Whether these changes make a memory constitutional."""
    return changes.get("tier") == Tier.CONSTITUTIONAL


def demand_changeable(files: Iterable[tuple[str, MemoryFile]], actor: str, command: str) -> None:
    """Refuse to change, delete or restore constitutional memories to all but a person; raises InvalidRequest.

    `files` are as they are, or will be, by id or name: a person's edit counts before a scan has met it.
    In `command`, which a person gives instead, `ID` stands for the one that is refused.
    """
    if actor in HUMAN_ACTORS:
        return
    for name, file in files:
        if _is_constitutional(file):
            raise InvalidRequest(
                f"{name!r} is constitutional: only a person changes, deletes or restores it.",
                f"Ask the user to run `scrimshaw {command.replace('ID', name)}`.",
                parameter="id",
            )


def by_hand(engine: Engine) -> list[Memory]:
    """The constitutional memories whose files no command of Scrimshaw's left as they are."""
    every = engine.index.select(Filters(tiers=(Tier.CONSTITUTIONAL,)), sort="id", limit=-1, offset=0)
    return [memory for memory in every if _is_external(engine.journal.history(memory.id, 1))]


def claimants(engine: Engine) -> list[Memory]:
    """The memories whose files claim to be constitutional and that count as important."""
    every = engine.index.select(Filters(tiers=(Tier.IMPORTANT,)), sort="id", limit=-1, offset=0)
    return [memory for memory in every if notice(memory)]


def silenced(engine: Engine) -> Mapping[str, Trust]:
    """Constitutional memory -> the trust of its lineage, where that is no person's: it is not shown by itself."""
    every = engine.index.select(Filters(tiers=(Tier.CONSTITUTIONAL,)), sort="id", limit=-1, offset=0)
    traced = lineage.inherited_trusts(engine.index, tuple(memory.id for memory in every))
    return {name: trust for name, trust in traced.items() if trust != Trust.HUMAN}


def notice(memory: Memory) -> str:
    """What to tell of a memory whose file claims the constitutional tier that it does not have; usually nothing."""
    if memory.tier != Tier.IMPORTANT or not _claims(Path(memory.path)):
        return ""
    claim = f"{memory.id!r} claims to be constitutional, and counts as important"
    if not memory.writable:
        return f"{claim}: {memory.path} is read only, and nothing but a memory of the vault can be constitutional."
    return f"{claim}, since its trust is {memory.provenance.trust}: `scrimshaw edit {memory.id} --tier constitutional`."


def reworded(before: MemoryFile, after: MemoryFile, actor: str) -> MemoryFile:
    """A file after an edit; where anybody but a person worded it anew, at most an agent vouches for it."""
    if actor in _KEEPERS or _wording(before) == _wording(after):
        return after
    return lowered(after, Trust.AGENT)


def unlinked(engine: Engine, memory_id: str, file: MemoryFile, actor: str) -> MemoryFile:
    """A file that keeps, when a source is taken from it by anybody but a person, the label it had by it."""
    if actor in HUMAN_ACTORS:
        return file
    return lowered(file, lineage.inherited_trusts(engine.index, (memory_id,)).get(memory_id, Trust.HUMAN))


def demand_label_kept(engine: Engine, memory: Memory, relation: Relation, actor: str) -> None:
    """Refuse to anybody but a person to take a source from a document that cannot keep the label it had by it."""
    if actor in HUMAN_ACTORS or relation != Relation.DERIVED_FROM:
        return
    trust = lineage.inherited_trusts(engine.index, (memory.id,)).get(memory.id, Trust.HUMAN)
    if lineage.trust_rank(trust) > lineage.trust_rank(memory.provenance.trust):
        raise InvalidRequest(
            f"Without this source {memory.id!r} would be trusted more than {trust}.",
            "Ask the user to take the relation out of .scrimshaw/links.toml.",
            parameter="relation",
        )


def lowered(file: MemoryFile, trust: Trust) -> MemoryFile:
    """The file, stating this trust at most; raises UnreadableFile where its front matter is broken."""
    file.raise_problem()
    if lineage.trust_rank(parse_provenance(file.values).trust) >= lineage.trust_rank(trust):
        return file
    stated = file.values.get("provenance")
    fields = stated if isinstance(stated, Mapping) else {"source": parse_line(stated) or Provenance().source}
    return edit_memory_file(file, {"provenance": {**fields, "trust": trust.value}})


def _wording(file: MemoryFile) -> tuple[Any, ...]:
    """What a memory is called, what brings it up, and what it says."""
    return parse_title(file.values), parse_phrases(file.values, "trigger_phrases"), file.body


def _claims(path: Path) -> bool:
    with suppress(OSError, UnreadableFile):
        return parse_tier(parse_memory_file(path.read_bytes()).values) == Tier.CONSTITUTIONAL
    return False


def _is_constitutional(file: MemoryFile) -> bool:
    return limit_tier(parse_tier(file.values), parse_provenance(file.values).trust) == Tier.CONSTITUTIONAL


def _is_external(rows: Sequence[Mapping[str, Any]]) -> bool:
    return not rows or rows[0]["action"] == Action.EXTERNAL


def _refusal(memory_id: str) -> InvalidRequest:
    command = (
        f"scrimshaw edit {memory_id} --tier constitutional" if memory_id else "scrimshaw save --tier constitutional"
    )
    return InvalidRequest(
        "Only a person makes a memory constitutional.",
        f"Ask the user to run `{command}`, or save it as critical.",
        parameter="importance_tier",
    )
