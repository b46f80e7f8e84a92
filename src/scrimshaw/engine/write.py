"""Saving, changing and removing memories: redacted, locked, durable, recorded, and found at once.

A write is: file renamed into place, journal committed, index updated, answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from scrimshaw.clock import format_time
from scrimshaw.engine.checkpoints import checkpoint_before
from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import INDEX, index_behind
from scrimshaw.engine.index import EMBED
from scrimshaw.engine.ledger import RecordedChange, apply_changes, read_file
from scrimshaw.engine.memory_ids import free_id, given_id
from scrimshaw.engine.proposals import Proposal, propose_supersedes
from scrimshaw.engine.purge import demand_erased, erase, memory_target
from scrimshaw.engine.quality import judged, judged_again, quality_of
from scrimshaw.engine.similar import Similar, similar_memories
from scrimshaw.engine.trust import demand_changeable, demand_human, reworded, vouched
from scrimshaw.errors import AlreadyExists, InvalidRequest, ReadOnly, StorageFailure
from scrimshaw.ingest.comparison import hash_normalised_text
from scrimshaw.ingest.memory_file import (
    MemoryFile,
    NewMemory,
    edit_memory_file,
    parse_memory_file,
    render_memory_file,
)
from scrimshaw.ingest.quality import Verdict
from scrimshaw.ingest.redact import is_mostly_removed, redact, redact_edit
from scrimshaw.models import (
    Action,
    ArtifactClass,
    Document,
    Edge,
    Entry,
    Filters,
    Memory,
    MemoryType,
    Provenance,
    Quality,
    Redacted,
    SourceFile,
    Span,
    Tier,
    Trust,
    content_hash,
)
from scrimshaw.storage.paths import check_id

# What no UTF-8 text file can hold.
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
# So many memories are deleted together that one by one is no way to bring them back.
MANY = 10
# A memory that comes from elsewhere, or from other memories, is recorded as such.
_ACTIONS = {"import": Action.IMPORT, "consolidation": Action.MERGE}
_SAVE_JOBS = ((EMBED, ""),)
# What a memory has in common with the document it is read from.
_SHARED = (
    "title", "type", "tier", "triggers", "topics", "provenance", "quality", "created", "updated", "content_hash",
    "tokens", "label_tokens",
)  # fmt: skip


class NewText(Struct, frozen=True, kw_only=True):
    """A memory to be saved; without `id` one is made from the title, without `title` from the first heading or line.

    `created` is an ISO time, now when empty. `tool_calls` counts those of the session the text was made of, `facts` are
    further keys of the front matter. `actor` is who saves it, where that is not its `origin`.
    """

    content: str
    id: str = ""
    title: str = ""
    type: MemoryType = MemoryType.GENERAL
    tier: Tier = Tier.NORMAL
    triggers: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    session: str = ""
    origin: str = "agent"
    actor: str = ""
    trust: Trust = Trust.AGENT
    reason: str = "saved"
    created: str = ""
    tool_calls: int | None = None
    relations: tuple[Edge, ...] = ()
    facts: Mapping[str, object] = {}


class Saved(Struct, frozen=True, kw_only=True):
    """What became of a save.

    `status` is `saved`, `updated`, `unchanged`, `duplicate` (the same text stands in `id`; nothing was written),
    `rejected` (by the quality gate, for `reasons`; nothing was written) or `dry_run`. `spans` index the content as it
    was given. `similar` are near duplicates and related memories, closest first. `proposals` are relations worth
    stating; nothing was done about them. `notices` tell what became of a claim to the constitutional tier, or who
    vouches for one.
    """

    id: str
    status: str
    content_hash: str
    path: str
    redacted: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    similar: tuple[Similar, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    quality: Quality | None = None
    reasons: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def save(engine: Engine, new: NewText, *, force: bool = False, dry_run: bool = False) -> Saved:
    """Save a new memory.

    A text that is already there, or that the quality gate rejects, is reported and not written unless forced. Raises
    InvalidRequest for an empty text or one that is nearly all secrets, InvalidMemoryId, AlreadyExists for an id in
    use, ReadOnly, VaultBusy, StorageFailure.
    """
    demand_human(new.tier, new.trust)
    content = _accepted(engine, new.content)
    title = redact(new.title or _first_line(content.text)).text
    with engine.write_lock():
        existing = None if force else _same(engine, content)
        if existing:
            return _saved(existing, "duplicate", content)
        memory_id = given_id(new.id) if new.id else free_id(engine, title)
        similar = similar_memories(engine, content.text, exclude=memory_id)
        file, text, verdict = composed(engine, new, title, content)
        outcome = Saved(
            id=memory_id,
            status="dry_run" if dry_run else "saved" if verdict.accepted or force else "rejected",
            content_hash=file.content_hash,
            path="",
            redacted=content.classes,
            spans=content.spans,
            similar=similar,
            proposals=propose_supersedes(engine, content.text, similar),
            quality=quality_of(verdict),
            reasons=verdict.reasons,
        )
        if outcome.status != "saved":
            return outcome
        memory = _write(engine, memory_id, file, text, expected_hash="", entry=_entry(outcome, new))
    return replace(outcome, content_hash=memory.content_hash, path=memory.path)


def _same(engine: Engine, content: Redacted) -> Memory | None:
    """A memory that says this already, in a file that still stands as it was read."""
    found = engine.index.get(engine.index.find_ids(text_hash=hash_normalised_text(content.text)))
    return next((memory for memory in found.values() if _is_as_read(memory)), None)


def _is_as_read(memory: Memory) -> bool:
    with suppress(OSError):
        return content_hash(Path(memory.path).read_bytes()) == memory.content_hash
    return False


def composed(engine: Engine, new: NewText, title: str, content: Redacted) -> tuple[MemoryFile, Redacted, Verdict]:
    """The file of a new memory with the verdict on it written into its front matter."""
    meta = _meta(new, title)
    verdict = judged(engine.settings, render_memory_file(meta, content.text), tool_calls=new.tool_calls)
    meta = replace(meta, quality=quality_of(verdict))
    return *_redact_file(content.text, render_memory_file(meta, content.text)), verdict


def _redact_file(before: str, file: MemoryFile) -> tuple[MemoryFile, Redacted]:
    """The file with what changed in it redacted."""
    text = redact_edit(before, file.text)
    return (file if text.text == file.text else parse_memory_file(text.text)), text


def update(
    engine: Engine,
    memory_id: str,
    changes: Mapping[str, object],
    *,
    content: str | None = None,
    expected_hash: str | None = None,
    reason: str = "updated",
    actor: str = "agent",
    session: str = "",
) -> Saved:
    """Change keys of a memory's front matter, its text, or both; only what changed is redacted and rewritten.

    `expected_hash` is that of the file the caller read: a file changed since is refused with Conflict. Raises
    NotFound, ReadOnly, InvalidRequest, UnreadableFile, VaultBusy, StorageFailure.
    """
    if content is not None:
        _accepted(engine, content)
    changes = vouched(engine, memory_id, changes, actor)
    entry = Entry(
        action=Action.UPDATE,
        memory_id=memory_id,
        reason=reason,
        prior_hash="",
        new_hash="",
        actor=actor,
        session=session,
    )

    def change(before: MemoryFile) -> MemoryFile:
        if edit_memory_file(before, changes, content).text == before.text:
            return before
        after = judged_again(engine.settings, edit_memory_file(before, _stamped(before, changes), content))
        return reworded(before, after, actor)

    former = engine.memory(memory_id)
    memory, after = rewrite(engine, memory_id, change, entry, expected_hash=expected_hash)
    return _saved(memory, "unchanged" if memory.content_hash == former.content_hash else "updated", after)


def rewrite(
    engine: Engine,
    memory_id: str,
    change: Callable[[MemoryFile], MemoryFile],
    entry: Entry,
    *,
    expected_hash: str | None = None,
) -> tuple[Memory, Redacted]:
    """Replace the text of a memory's file by what `change` makes of it, under the vault's lock.

    Only what changed is redacted; `entry` is recorded with both hashes, the text before is kept for undo. Where
    nothing changes nothing is written. Raises like `update`, and what `change` raises.
    """
    memory = _writable(engine, memory_id)
    vault, name = engine.vault_of(memory_id)
    with engine.write_lock():
        before = parse_memory_file(vault.read(name), memory.path)
        demand_changeable([(memory_id, before)], entry.actor, "edit ID")
        file, after = _redact_file(before.text, change(before))
        expected = before.content_hash if expected_hash is None else expected_hash
        if after.text == before.text and expected == before.content_hash:
            return replace(memory, content_hash=expected), after
        return _write(engine, memory_id, file, after, expected_hash=expected, entry=entry), after


def delete(
    engine: Engine,
    memory_ids: Sequence[str],
    *,
    purge: bool = False,
    reason: str = "deleted",
    actor: str = "agent",
    session: str = "",
    backup: bool = True,
) -> list[str]:
    """Retire memories: their files go, their last content stays in the journal for undo.

    With `purge` every copy of them goes, in checkpoints too; see `engine.purge`. All go or none, and before many a
    checkpoint is made, but none of what is purged or with `backup` off. Raises NotFound, ReadOnly, VaultBusy,
    StorageFailure, this one also where a purge could not reach a copy.
    """
    memories = [_writable(engine, memory_id) for memory_id in dict.fromkeys(memory_ids)]
    files = ((memory.id, _content(engine, memory.id)) for memory in memories)
    if purge and memories:
        demand_changeable(files, actor, "delete ID")
        return _purged(engine, memories, reason, actor, session)
    if len(memories) >= MANY and backup:
        checkpoint_before(engine, "delete")
    entry = Entry(
        action=Action.RETIRE, memory_id="", reason=reason, prior_hash="", new_hash="", actor=actor, session=session
    )
    with engine.write_lock():
        demand_changeable(files, actor, "delete ID")
        rows = [replace(entry, memory_id=memory.id) for memory in memories]
        apply_changes(engine, [RecordedChange(row, read_file(engine, row.memory_id), None) for row in rows])
        unindex(engine, memories)
    return [memory.id for memory in memories]


def _content(engine: Engine, memory_id: str) -> MemoryFile:
    vault, name = engine.vault_of(memory_id)
    return parse_memory_file(vault.read(name).decode(errors="replace"))


def _purged(engine: Engine, memories: Sequence[Memory], reason: str, actor: str, session: str) -> list[str]:
    ids = [memory.id for memory in memories]
    target = memory_target(engine, ids, reason=reason, actor=actor, session=session)
    demand_erased(erase(engine, target))
    return ids


def bulk_select(engine: Engine, tier: Tier, *, folder: str = "", before: str = "") -> list[Memory]:
    """The writable memories a bulk delete would take; refuses a whole constitutional or critical tier."""
    if tier in (Tier.CONSTITUTIONAL, Tier.CRITICAL) and not folder:
        raise InvalidRequest(
            f"All {tier} memories cannot be deleted at once.",
            "Name a folder, or delete them one by one.",
            parameter="tier",
        )
    filters = Filters(tiers=(tier,), folder=folder, until=before)
    every = engine.index.select(filters, sort="id", limit=-1, offset=0)
    return [memory for memory in every if memory.writable]


def now() -> str:
    """The time in UTC to the second, as files write it."""
    return format_time(time.time())


def _stamped(before: MemoryFile, changes: Mapping[str, object]) -> Mapping[str, object]:
    """The changes with the time; a file without front matter gets none for its time alone."""
    return {**changes, "updated": now()} if changes or before.closing else changes


def _accepted(engine: Engine, content: str) -> Redacted:
    if not content.strip():
        raise InvalidRequest("There is nothing to save: the content is empty.", "Send text.", parameter="content")
    if _NOT_TEXT.search(content):
        raise InvalidRequest(
            "The content holds a NUL character or half a surrogate pair.", "Send plain text.", parameter="content"
        )
    redacted = redact(content)
    if is_mostly_removed(redacted, engine.settings.redaction.drop_ratio):
        raise InvalidRequest(
            "Nearly all of the content is secrets, which are never stored.",
            "Describe what matters without the secret itself.",
            parameter="content",
            classes=list(redacted.classes),
        )
    return redacted


def _first_line(text: str) -> str:
    line = next((line for line in text.splitlines() if line.strip(" #*_-\t")), text)
    return " ".join(line.strip(" #*_-\t").split())[:120]


def _meta(new: NewText, title: str) -> NewMemory:
    moment = now()
    return NewMemory(
        title=title,
        type=new.type,
        tier=new.tier,
        trigger_phrases=tuple(redact(phrase).text for phrase in new.triggers),
        topics=tuple(redact(topic).text for topic in new.topics),
        provenance=Provenance(source=new.origin, trust=new.trust, session=new.session),
        created=new.created or moment,
        updated=new.created or moment,
        relations=new.relations,
        facts=new.facts,
    )


def _entry(outcome: Saved, new: NewText) -> Entry:
    """The ledger's row of a new memory; what it may supersede and what is like it stand there to be looked up."""
    related = [edge.target for edge in new.relations]
    return Entry(
        action=_ACTIONS.get(new.origin, Action.CREATE),
        memory_id=outcome.id,
        reason=new.reason,
        prior_hash="",
        new_hash="",
        actor=new.actor or new.origin,
        session=new.session,
        linked_memory_ids=tuple(dict.fromkeys([*related, *(each.id for each in outcome.similar)])),
        decision_meta={"proposals": [to_builtins(each) for each in outcome.proposals]} if outcome.proposals else {},
    )


def _write(
    engine: Engine,
    memory_id: str,
    file: MemoryFile,
    text: Redacted,
    *,
    expected_hash: str,
    entry: Entry,
) -> Memory:
    """File, journal, index, in this order; the vault's lock is held. What could not be read again is not written."""
    twins = engine.index.find_ids(differing_in_case=memory_id)
    if expected_hash == "" and twins:
        raise AlreadyExists(f"{twins[0]!r} exists.", "Update it, or choose another id.", id=twins[0])
    vault, name = engine.vault_of(memory_id)
    check_id(name)
    _demand_utf8(text.text)
    place = read_file(engine, memory_id, expected_hash)
    size, limit = len(file.raw), engine.limits().max_bytes
    if size > limit:
        raise InvalidRequest(
            f"{memory_id!r} would have {size} bytes; of more than {limit} no file is read.",
            "Split it, or raise index.max_file_bytes.",
            parameter="content",
        )
    document = engine.document(_file(vault.name, memory_id, place.path), file)
    apply_changes(engine, [RecordedChange(entry, place, text)], _SAVE_JOBS)
    return _indexed(engine, replace(document, file=_seen(document.file, file.raw)))


def _demand_utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"The text has a lone surrogate at character {error.start}.",
            "Send text that can be written as UTF-8.",
            parameter="content",
        ) from error


def _indexed(engine: Engine, document: Document) -> Memory:
    """The memory as it was written; where the index refuses it, it is durable all the same, and a scan brings it in.

    It is not read back: a process that read the file a moment before may have put its older text there meanwhile.
    """
    try:
        engine.index.put([document])
    except StorageFailure as error:
        engine.degradations.put(INDEX, index_behind(error))
    return _as_written(document)


def unindex(engine: Engine, memories: Sequence[Memory]) -> None:
    """Take memories out of the index; where it refuses, a scan does."""
    try:
        engine.index.retire([memory.path for memory in memories])
    except StorageFailure as error:
        engine.degradations.put(INDEX, index_behind(error))


def _as_written(document: Document) -> Memory:
    file = document.file
    return Memory(
        id=file.memory_id,
        source=file.source,
        path=file.path,
        artifact=file.artifact,
        writable=file.writable,
        length=len(document.body.text),
        **{name: getattr(document, name) for name in _SHARED},
    )


def _seen(file: SourceFile, data: bytes) -> SourceFile:
    """The file as it stands; one that a hand changed since is left for the next scan to read."""
    path = Path(file.path)
    with suppress(OSError):
        info = path.stat()
        if path.read_bytes() == data:
            return replace(file, size=info.st_size, mtime_ns=info.st_mtime_ns)
    return file


def _file(source: str, memory_id: str, path: Path) -> SourceFile:
    """A file of a vault that is about to be written."""
    return SourceFile(
        source=source,
        memory_id=memory_id,
        path=str(path),
        size=0,
        mtime_ns=0,
        writable=True,
        artifact=ArtifactClass.MEMORY,
    )


def _writable(engine: Engine, memory_id: str) -> Memory:
    memory = engine.memory(memory_id)
    if not memory.writable:
        raise ReadOnly(
            f"{memory_id!r} is read from {memory.path}, which Scrimshaw never writes.",
            "Edit the file yourself, or save a memory of your own that supersedes it.",
            id=memory_id,
        )
    return memory


def _saved(memory: Memory, status: str, content: Redacted) -> Saved:
    return Saved(
        id=memory.id,
        status=status,
        content_hash=memory.content_hash,
        path=memory.path,
        redacted=content.classes,
        spans=content.spans,
    )
