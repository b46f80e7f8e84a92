"""Who vouches for a memory: only a person makes one constitutional, and only a person's edit keeps a person's label.

Files are truth, so a file of a person's vault is believed when it says that it is constitutional; no tool of an agent
writes that. Whoever can write files can write such a one: the doctor names those that no command made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from scrimshaw.engine.core import Engine
from scrimshaw.errors import InvalidRequest, UnreadableFile
from scrimshaw.ingest.front_matter import parse_line, parse_member, parse_phrases, parse_provenance
from scrimshaw.ingest.memory_file import MemoryFile, edit_memory_file, parse_memory_file
from scrimshaw.models import Action, Filters, Memory, Provenance, Relation, Tier, Trust
from scrimshaw.search.lineage import find_inherited_trusts, trust_rank

HUMAN_ACTORS = frozenset({"human", "cli"})  # who acts when a person gave the command
# An import that is run again brings what the same source says now, under the label that source has.
_KEEPERS = HUMAN_ACTORS | {"import"}


def demand_human(tier: Tier, trust: Trust, memory_id: str = "") -> None:
    """Refuse the constitutional tier where no person vouches; raises InvalidRequest naming the command."""
    if tier == Tier.CONSTITUTIONAL and trust != Trust.HUMAN:
        command = f"edit {memory_id}" if memory_id else "save"
        hint = f"Ask the user to run `scrimshaw {command} --tier constitutional`, or save it as critical."
        raise InvalidRequest("Only a person makes a memory constitutional.", hint, parameter="importance_tier")


def vouch_changes(engine: Engine, memory_id: str, changes: Mapping[str, object], actor: str) -> Mapping[str, object]:
    """The changes, with a person's provenance where a person makes a memory constitutional; raises InvalidRequest."""
    if changes.get("tier") != Tier.CONSTITUTIONAL:
        return changes
    demand_human(Tier.CONSTITUTIONAL, Trust.HUMAN if actor in HUMAN_ACTORS else Trust.AGENT, memory_id)
    trust = _inherited_trust(engine, memory_id)
    if trust != Trust.HUMAN:
        message = (
            f"{memory_id!r} was derived from what has trust {trust}; a constitutional memory comes from people alone."
        )
        hint = "Write what you know yourself as a memory of its own: `scrimshaw save --tier constitutional`."
        raise InvalidRequest(message, hint, parameter="tier")
    return {**changes, "provenance": {"source": "cli", "trust": Trust.HUMAN.value}}


def demand_changeable(files: Iterable[tuple[str, MemoryFile]], actor: str, command: str) -> None:
    """Refuse to change constitutional memories to all but a person; `ID` in `command` names the refused one."""
    if actor in HUMAN_ACTORS:
        return
    for name, file in files:
        tier = parse_member(file.values, "tier", Tier.NORMAL)
        if tier == Tier.CONSTITUTIONAL and parse_provenance(file.values).trust == Trust.HUMAN:
            message = f"{name!r} is constitutional: only a person changes, deletes or restores it."
            hint = f"Ask the user to run `scrimshaw {command.replace('ID', name)}`."
            raise InvalidRequest(message, hint, parameter="id")


def find_edited_constitutional(engine: Engine) -> list[Memory]:
    """The constitutional memories whose files no command of Scrimshaw's left as they are."""
    newest = ((memory, engine.journal.history(memory.id, 1)) for memory in _of_tier(engine, Tier.CONSTITUTIONAL))
    return [memory for memory, rows in newest if not rows or rows[0]["action"] == Action.EXTERNAL]


def find_claims(engine: Engine) -> list[Memory]:
    """The memories whose files claim to be constitutional and that count as important."""
    return [memory for memory in _of_tier(engine, Tier.IMPORTANT) if describe_claim(memory)]


def find_untrusted_constitutional(engine: Engine) -> Mapping[str, Trust]:
    """Constitutional memory -> the trust of its lineage, where that is no person's: it is not shown by itself."""
    ids = tuple(memory.id for memory in _of_tier(engine, Tier.CONSTITUTIONAL))
    return {name: trust for name, trust in find_inherited_trusts(engine.index, ids).items() if trust != Trust.HUMAN}


def describe_claim(memory: Memory) -> str:
    """What to say of a memory whose file claims the constitutional tier that it does not have; usually nothing."""
    stated = None
    with suppress(OSError, UnreadableFile):
        if memory.tier == Tier.IMPORTANT:
            stated = parse_member(parse_memory_file(Path(memory.path).read_bytes()).values, "tier", Tier.NORMAL)
    if stated != Tier.CONSTITUTIONAL:
        return ""
    claim = f"{memory.id!r} claims to be constitutional, and counts as important"
    if not memory.writable:
        return f"{claim}: {memory.path} is read only, and nothing but a memory of the vault can be constitutional."
    return f"{claim}, since its trust is {memory.provenance.trust}: `scrimshaw edit {memory.id} --tier constitutional`."


def limit_reworded(before: MemoryFile, after: MemoryFile, actor: str) -> MemoryFile:
    """A file after an edit; where anybody but a person changed its wording, at most an agent vouches for it."""

    def read_wording(file: MemoryFile) -> tuple[object, ...]:
        return parse_line(file.values.get("title")), parse_phrases(file.values, "trigger_phrases"), file.body

    is_same = actor in _KEEPERS or read_wording(before) == read_wording(after)
    return after if is_same else _limit_trust(after, Trust.AGENT)


def limit_unlinked(engine: Engine, memory_id: str, file: MemoryFile, actor: str) -> MemoryFile:
    """A file that keeps, when anybody but a person takes a source from it, the trust that it had by that source."""
    return file if actor in HUMAN_ACTORS else _limit_trust(file, _inherited_trust(engine, memory_id))


def demand_label_kept(engine: Engine, memory: Memory, relation: Relation, actor: str) -> None:
    """Refuse to anybody but a person to take a source from a document that cannot keep the trust it had by it."""
    if actor in HUMAN_ACTORS or relation != Relation.DERIVED_FROM:
        return
    trust = _inherited_trust(engine, memory.id)
    if trust_rank(trust) > trust_rank(memory.provenance.trust):
        message = f"Without this source {memory.id!r} would be trusted more than {trust}."
        hint = "Ask the user to take the relation out of .scrimshaw/links.toml."
        raise InvalidRequest(message, hint, parameter="relation")


def _limit_trust(file: MemoryFile, trust: Trust) -> MemoryFile:
    """The file, stating this trust at most; raises UnreadableFile where its front matter is broken."""
    file.raise_problem()
    if trust_rank(parse_provenance(file.values).trust) >= trust_rank(trust):
        return file
    stated = file.values.get("provenance")
    fields = stated if isinstance(stated, Mapping) else {"source": parse_line(stated) or Provenance().source}
    return edit_memory_file(file, {"provenance": {**fields, "trust": trust.value}})


def _inherited_trust(engine: Engine, memory_id: str) -> Trust:
    return find_inherited_trusts(engine.index, (memory_id,)).get(memory_id, Trust.HUMAN)


def _of_tier(engine: Engine, tier: Tier) -> list[Memory]:
    return engine.index.select(Filters(tiers=(tier,)), sort="id", limit=-1, offset=0)
