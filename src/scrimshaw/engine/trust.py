"""Who vouches for a memory: only a person, by a recorded command, for the exact bytes of a file.

Whoever can write files can claim anything in them, so a file alone is at most important, never an instruction.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.index import scan
from scrimshaw.errors import DamagedDatabase, InvalidRequest, UnreadableFile
from scrimshaw.ingest.front_matter import parse_line, parse_member, parse_phrases, parse_provenance
from scrimshaw.ingest.memory_file import MemoryFile, edit_memory_file, parse_memory_file
from scrimshaw.models import Action, Entry, Filters, Memory, Provenance, Relation, Tier, Trust
from scrimshaw.search.lineage import TRUST_RANKS, find_inherited_trusts

HUMAN_ACTORS = frozenset({"human", "cli"})  # ledger actors for a person's commands
# A repeated import brings the current text of the same source, with that source's label.
_KEEPERS = HUMAN_ACTORS | {"import"}


def demand_human(tier: Tier, trust: Trust, memory_id: str = "") -> None:
    """Refuse the constitutional tier unless a person vouches; raises InvalidRequest naming the command."""
    if tier == Tier.CONSTITUTIONAL and trust != Trust.HUMAN:
        command = f"edit {memory_id}" if memory_id else "save"
        hint = f"Ask the user to run `scrimshaw {command} --tier constitutional`, or save it as critical."
        raise InvalidRequest("Only a person makes a memory constitutional.", hint, parameter="tier")


def vouch_changes(engine: Engine, memory_id: str, changes: Mapping[str, object], actor: str) -> Mapping[str, object]:
    """The changes that make a memory constitutional, with the person's provenance; raises InvalidRequest."""
    demand_human(Tier.CONSTITUTIONAL, Trust.HUMAN if actor in HUMAN_ACTORS else Trust.AGENT, memory_id)
    _demand_people(engine, memory_id)
    return {**changes, "provenance": {"source": "cli", "trust": Trust.HUMAN.value}}


def vouch(engine: Engine, memories: Sequence[Memory]) -> None:
    """Record that a person vouches for files as they were indexed; raises InvalidRequest."""
    entries = []
    for memory in memories:
        _demand_people(engine, memory.id)
        # A row for another file, or none, does not vouch for a file of the vault.
        meta = {"vouched": True, **({} if memory.writable else {"file": ""})}
        entry = Entry(action=Action.TRUST, memory_id=memory.id, reason="vouched for", actor="human", decision_meta=meta)
        entries.append(replace(entry, prior_hash=memory.content_hash, new_hash=memory.content_hash))
    with engine.write_lock():
        engine.journal.record(entries)
        engine.index.retire([memory.path for memory in memories])  # so that they are read again with their new trust
    scan(engine)


def _demand_people(engine: Engine, memory_id: str) -> None:
    """Refuse to vouch for text derived from an agent, a tool or the web."""
    if (trust := _find_inherited_trust(engine, memory_id)) != Trust.HUMAN:
        message = f"{memory_id!r} was derived from what has trust {trust}; a person vouches for people's words alone."
        hint = "Write what you know yourself as a memory of its own: `scrimshaw save --tier constitutional`."
        raise InvalidRequest(message, hint, parameter="tier")


def demand_changeable(files: Iterable[tuple[str, MemoryFile]], actor: str, command: str) -> None:
    """Let only a person change constitutional memories; `ID` in `command` is replaced by the refused one."""
    if actor in HUMAN_ACTORS:
        return
    for name, file in files:
        tier = parse_member(file.values, "tier", Tier.NORMAL)
        if tier == Tier.CONSTITUTIONAL and parse_provenance(file.values).trust == Trust.HUMAN:
            message = f"{name!r} is constitutional: only a person changes, deletes or restores it."
            hint = f"Ask the user to run `scrimshaw {command.replace('ID', name)}`."
            raise InvalidRequest(message, hint, parameter="id")


def find_claims(engine: Engine) -> list[Memory]:
    """The memories whose files claim to be constitutional but count as important, as nobody vouches for them."""
    return [*filter(describe_claim, engine.index.select(Filters(tiers=(Tier.IMPORTANT,))))]


def describe_claims(engine: Engine) -> list[str]:
    """A sentence on each memory that claims more trust than it has, and on what to do."""
    lineages: Mapping[str, Trust] = {}
    with suppress(DamagedDatabase):  # the check of the graph reports it
        always_on = engine.index.select(Filters(tiers=(Tier.CONSTITUTIONAL,)))
        lineages = find_inherited_trusts(engine.index, tuple(each.id for each in always_on))
    return [*map(describe_claim, find_claims(engine))] + [
        f"{name!r} is constitutional, and not shown before every answer: what it was derived from has trust {trust}; "
        f"take that source out of `derived_from` with `scrimshaw edit {name}`, or undo what changed it."
        for name, trust in lineages.items()
    ]


def describe_claim(memory: Memory) -> str:
    """The notice for a memory whose file claims the constitutional tier without having it; usually empty."""
    stated = None
    with suppress(OSError, UnreadableFile):
        may_claim = memory.tier == Tier.IMPORTANT and memory.provenance.trust != Trust.HUMAN
        raw = Path(memory.path).read_bytes() if may_claim else b""
        if b"constitutional" in raw.lower():  # most are not worth parsing
            stated = parse_member(parse_memory_file(raw).values, "tier", Tier.NORMAL)
    if stated != Tier.CONSTITUTIONAL:
        return ""
    claim = f"{memory.id!r} claims to be constitutional, and counts as important: no command of a person vouches for it"
    return f"{claim}. Read {memory.path}, then `scrimshaw trust {memory.id}`; of a document it stays important."


def limit_reworded(before: MemoryFile, after: MemoryFile, actor: str, default: Trust = Trust.HUMAN) -> MemoryFile:
    """A file after an edit, of at most an agent's trust unless a person reworded it; `default` is an unstated trust."""
    old, new = before.values, after.values
    is_same = before.body == after.body and parse_line(old.get("title")) == parse_line(new.get("title"))
    for key in ("trigger_phrases", "questions"):
        is_same = is_same and parse_phrases(old, key) == parse_phrases(new, key)
    return after if is_same or actor in _KEEPERS else _limit_trust(after, Trust.AGENT, default)


def limit_unlinked(engine: Engine, memory_id: str, file: MemoryFile, actor: str) -> MemoryFile:
    """A file that is about to lose a source; unless a person removes it, it states the lower trust the source gave."""
    return file if actor in HUMAN_ACTORS else _limit_trust(file, _find_inherited_trust(engine, memory_id))


def demand_label_kept(engine: Engine, memory: Memory, relation: Relation, actor: str) -> None:
    """Let only a person remove a document's least trusted source, as the lower trust cannot be written into it."""
    if actor in HUMAN_ACTORS or relation != Relation.DERIVED_FROM:
        return
    trust = _find_inherited_trust(engine, memory.id)
    if TRUST_RANKS[trust] > TRUST_RANKS[memory.provenance.trust]:
        message = f"Without this source {memory.id!r} would be trusted more than {trust}."
        hint = "Ask the user to take the relation out of .scrimshaw/links.toml."
        raise InvalidRequest(message, hint, parameter="relation")


def _limit_trust(file: MemoryFile, trust: Trust, default: Trust = Trust.HUMAN) -> MemoryFile:
    """The file, stating at most this trust; raises UnreadableFile if its front matter is broken."""
    if TRUST_RANKS[parse_provenance(file.demand_readable().values, default=default).trust] >= TRUST_RANKS[trust]:
        return file
    stated = file.values.get("provenance")
    fields = stated if isinstance(stated, Mapping) else {"source": parse_line(stated) or Provenance().source}
    return edit_memory_file(file, {"provenance": {**fields, "trust": trust.value}})


def _find_inherited_trust(engine: Engine, memory_id: str) -> Trust:
    return find_inherited_trusts(engine.index, (memory_id,)).get(memory_id, Trust.HUMAN)
