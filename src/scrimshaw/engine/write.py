"""Saving, changing and removing memories: redacted, locked, durable, recorded, and found at once."""

import itertools
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cache, partial
from operator import attrgetter, itemgetter
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from scrimshaw.engine.checkpoints import checkpoint_before
from scrimshaw.engine.core import GLOBAL, Engine, make_source_file
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.index import update_renames
from scrimshaw.engine.ledger import LedgerFile, RecordedChange, apply_changes, hash_of, read_file
from scrimshaw.engine.purge import erase_memories
from scrimshaw.engine.read import list_own
from scrimshaw.engine.trust import HUMAN_ACTORS, demand_changeable, demand_human, limit_reworded, vouch_changes
from scrimshaw.errors import AlreadyExists, InvalidMemoryId, InvalidRequest, NotFound, ReadOnly, ScrimshawError
from scrimshaw.ingest import front_matter as front
from scrimshaw.ingest.comparison import (
    BRIEF,
    compute_minhash,
    find_head,
    hash_normalised_text,
    jaccard,
    normalise_text,
    split_runs,
)
from scrimshaw.ingest.markdown import group_relations
from scrimshaw.ingest.memory_file import (
    BOM,
    HINTS_OF_MARKS,
    MemoryFile,
    edit_memory_file,
    find_conflict,
    parse_memory_file,
    render_memory_file,
)
from scrimshaw.ingest.quality import QualityVerdict, judge
from scrimshaw.ingest.redact import Redact, redact, redact_edit, redact_head
from scrimshaw.ingest.tables import load_pattern
from scrimshaw.models import (
    RECORD,
    Action,
    Edge,
    Entry,
    Memory,
    MemoryType,
    Quality,
    Redacted,
    Relation,
    Span,
    Tier,
    Trust,
    format_time,
)
from scrimshaw.session.keywords import describe_text, find_title, find_type
from scrimshaw.storage.paths import SUFFIX, check_id
from scrimshaw.storage.scan import IGNORED_FOLDERS, SERENA
from scrimshaw.storage.transaction import make_conflict

Edit = Callable[[MemoryFile], MemoryFile]

MANY = 10  # from this many deleted together on, restoring them one by one is impractical
# What no UTF-8 text file can hold.
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_NOT_IN_SLUG = re.compile(r"(?:\[redacted:[^\]\n]*\]|\W)+")  # a mark in place of a secret too
_SLUG_BYTES = 80
# A memory that comes from elsewhere, or from other memories, is recorded as such.
AGENT, DRAFTED, IMPORTED = "agent", "session", "import"  # origins: what agents save, sessions leave, tools bring
_ACTIONS = {IMPORTED: Action.IMPORT, "consolidation": Action.MERGE}
_TEXT_OF = attrgetter("text")
_HEADS = ("---", BOM)  # how a text begins that has front matter of its own
_UNSTATED = (None, "", (), MemoryType.GENERAL, Tier.NORMAL)  # the values of a save where nobody chose one
_OURS = ("provenance", "quality", "updated")  # keys that no text brings
LASTING = (Trust.HUMAN, Trust.FILE)  # the trust of memories that are never deleted because they are temporary
_EXPIRES = "It is temporary: {0.drafts.expire_days:g} days after its last change it is deleted."
_CANDIDATES = 10  # sketches select the likeliest; the texts themselves decide
# Of brief texts words are compared, of which more are common: 10 of 12 pairs that say the same share half of theirs,
# and 1 of 23 pieces of notes with the nearest of 3,000 others, mostly for a reason.
_SAME_WORDS = 0.5
_SAMPLE_LUCK = 0.5  # a minhash is a sample: related texts rarely share less than half of the expected number
_CUES = load_pattern(__file__, "write", "cues")


class NewText(Struct, frozen=True, kw_only=True):
    """A memory to be saved."""

    content: str
    id: str = ""  #: Made from the title when empty.
    title: str = ""  #: The first heading or line when empty.
    type: MemoryType | None = None  #: If None, guessed from the words of an agent's text, otherwise general.
    tier: Tier = Tier.NORMAL
    triggers: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()  #: Questions that it answers, in other words than the text.
    session: str = ""
    origin: str = AGENT
    actor: str = ""  #: Who saves it, if not its `origin`.
    trust: Trust = Trust.AGENT
    reason: str = "saved"
    created: str = ""  #: An ISO time, now when empty.
    tool_calls: int = 0  #: The number of calls in the session that the text was made from.
    relations: tuple[Edge, ...] = ()
    facts: Mapping[str, object] = {}  #: Further keys of the front matter.
    vault: str = ""  #: `serena` for Serena's memories, without front matter; otherwise the project's own vault.


class Similar(Struct, frozen=True, kw_only=True):
    """A memory with a similar text."""

    id: str
    title: str
    similarity: float  #: Jaccard index of word triples, or of the words of brief texts, 0..1.
    kind: str  #: `near_duplicate`, `same_title` or `related`.


class Proposal(Struct, frozen=True, kw_only=True):
    """A likely relation from the new memory to `target`; it is up to the reader to state it."""

    relation: Relation
    target: str
    why: str


class Saved(Struct, frozen=True, kw_only=True):
    """The result of a save."""

    id: str
    #: `saved`, `updated`, `unchanged`, `duplicate` (`id` has the same text), `rejected` (by the quality gate) or
    #: `dry_run`; nothing was written for the last four.
    status: str
    content_hash: str
    path: str = ""
    redacted: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()  #: Offsets into the content as it was given.
    similar: tuple[Similar, ...] = ()  #: Near duplicates and related memories, closest first.
    proposals: tuple[Proposal, ...] = ()  #: Relations worth stating; none was written.
    quality: Quality | None = None
    reasons: tuple[str, ...] = ()  #: Why the quality gate rejects it.
    notices: tuple[str, ...] = ()  #: What becomes of a claim to the constitutional tier, or of a temporary memory.


def save(engine: Engine, new: NewText, *, force: bool = False, dry_run: bool = False) -> Saved:
    """Save a new memory; unless forced, a text that already exists or fails the quality gate is not written."""
    if new.content.startswith(_HEADS):
        new = take_fields(new)
    demand_human(new.tier, new.trust)
    clean = cache(redact)  # the index asks again about what holds no secret
    content = _redact_content(engine, new.content, clean)
    describe = partial(Saved, redacted=content.classes, spans=content.spans)
    title = clean(new.title or find_title(content.text)).text
    is_bare = new.vault == SERENA
    if new.origin == AGENT and not (is_bare or (new.triggers and new.topics)):
        triggers, topics = describe_text(title, content.text)
        new = replace(new, triggers=new.triggers or triggers, topics=new.topics or topics)
    stated = new.id.removeprefix("mem:").removesuffix(SUFFIX) if is_bare else new.id  # as Serena reads a name
    memory_id = check_new_id(stated) if stated else find_free_id(engine, title, new.vault)
    equal = [] if force else engine.index.find_ids(text_hash=hash_normalised_text(content.text))
    for same in engine.index.get(equal).values() if equal else ():
        with suppress(OSError):  # an unchanged file with the same text needs no save
            if hash_of(Path(same.path).read_bytes()) == same.content_hash:
                return describe(id=same.id, status="duplicate", content_hash=same.content_hash, path=same.path)
    place = read_file(engine, memory_id, vault_name=new.vault)  # raises ReadOnly
    similar = find_similar_memories(engine, content.text, title=title, exclude=memory_id)
    file, text, verdict = compose_memory(engine, new, title, content, clean)
    is_accepted = verdict.is_accepted or force
    is_brief = file.values.get("tier") == Tier.TEMPORARY and new.trust not in LASTING
    cleaned = (content, text, *map(clean, (new.title, *new.triggers, *new.topics, *new.questions)))
    outcome = describe(
        id=memory_id,
        status="rejected" if not is_accepted else "dry_run" if dry_run else "saved",
        content_hash=file.content_hash,
        redacted=tuple(dict.fromkeys(itertools.chain.from_iterable(map(attrgetter("classes"), cleaned)))),
        similar=similar,
        proposals=propose_supersedes(engine, content.text, similar) if similar else (),
        quality=Quality(score=verdict.score, flags=verdict.flags),
        reasons=verdict.reasons,
        notices=(_EXPIRES.format(engine.settings),) if is_brief else (),
    )
    if dry_run or not is_accepted:
        return outcome
    meta = {"vouched": True} if new.trust == Trust.HUMAN and (new.actor or new.origin) in HUMAN_ACTORS else {}
    linked = (*map(attrgetter("target"), new.relations), *map(attrgetter("id"), similar))
    entry = Entry(
        action=_ACTIONS.get(new.origin, Action.CREATE),
        memory_id=memory_id,
        reason=new.reason,
        actor=new.actor or new.origin,
        session=new.session,
        linked_memory_ids=tuple(dict.fromkeys(linked)),
        decision_meta={"proposals": to_builtins(outcome.proposals), **meta} if outcome.proposals else meta,
    )
    try:
        digest, path = _write(engine, RecordedChange(entry, place, text, is_clean=True), file, new, clean)
    except AlreadyExists:
        if new.id:
            raise
        with suppress(ScrimshawError):
            engine.memory(memory_id)  # another writer had the same title just now: the index gets its text
        return save(engine, new, force=force)
    engine.known_texts[engine.person, memory_id] = hash(file.body)
    return replace(outcome, content_hash=digest, path=path)


def take_fields(new: NewText) -> NewText:
    """The same without front matter in its text, whose keys count where nothing was chosen."""
    file = parse_memory_file(new.content, "the text").demand_readable()
    for wrong in front.find_wrong_values(file.values):
        raise InvalidRequest(f"The front matter's {wrong}.", "Correct it, or leave it out.", parameter="content")
    names = dict.fromkeys(front.CREATED, "created")
    names |= {front.find_spelling(file.values, key): key for key in front.SPELLINGS}
    values = {names.get(key, key): value for key, value in file.values.items()}
    given = {"trigger_phrases": new.triggers, **asdict(new), **dict.fromkeys(_OURS, "ours")}
    facts = {key: value for key, value in values.items() if given.get(key) in _UNSTATED}
    demand_human(front.parse_member(facts, "tier", Tier.NORMAL), Trust.AGENT)  # a text can claim anything
    title = new.title or front.parse_line(values.get("title"))
    return replace(new, content=file.body if file.values else new.content, title=title, facts={**facts, **new.facts})


def _redact_content(engine: Engine, content: str, clean: Redact = redact) -> Redacted:
    if not content.strip():
        raise InvalidRequest("There is nothing to save: the content is empty.", "Send text.", parameter="content")
    if _NOT_TEXT.search(content):
        message = "The content holds a NUL character or half a surrogate pair."
        raise InvalidRequest(message, "Send plain text.", parameter="content")
    if content.startswith(_HEADS) and parse_memory_file(content, "the text").demand_readable().values:
        raise InvalidRequest("The text has front matter of its own.", "Send only the text.", parameter="content")
    redacted = clean(content)
    if redacted.removed_ratio > engine.settings.redaction.drop_ratio:
        message = "Nearly all of the content is secrets, which are never stored."
        hint = "Describe what matters without the secret itself."
        raise InvalidRequest(message, hint, parameter="content", classes=list(redacted.classes))
    return redacted


def compose_memory(
    engine: Engine, new: NewText, title: str, content: Redacted, clean: Redact = redact
) -> tuple[MemoryFile, Redacted, QualityVerdict]:
    """The file of a new memory with the verdict on it, which all but Serena's have in their front matter."""
    moment = new.created or format_time(time.time())
    about = {**({"session": new.session} if new.session else {}), **({"by": engine.person} if engine.person else {})}
    kind = new.type or (find_type(title, content.text) if new.origin == AGENT else MemoryType.GENERAL)
    values: dict[str, object] = {
        "title": title,
        "type": kind.value,
        "tier": new.tier.value,
        "trigger_phrases": [*map(_TEXT_OF, map(clean, new.triggers))],
        "topics": [*map(_TEXT_OF, map(clean, new.topics))],
        "questions": [*map(_TEXT_OF, map(clean, new.questions))],
        "relations": group_relations(new.relations),
        "provenance": {"source": new.origin, **about, "trust": new.trust.value},
        "created": moment,
        "updated": moment,
    }
    quality: dict[str, object] = {"score": 1.0, "flags": ()}  # of most texts
    file = render_memory_file({**values, "quality": quality, **new.facts}, content.text)
    verdict = judge(file, tool_calls=new.tool_calls, phrases=engine.settings.quality.phrases)
    if new.vault == SERENA:
        file = _compose_bare(new, title, content.text, values)
    elif quality != (found := {"score": verdict.score, "flags": verdict.flags}):
        file = render_memory_file({**values, "quality": found, **new.facts}, content.text)
    text = redact_head(file.text.removesuffix(content.text), content.text)
    return (file if text.text == file.text else parse_memory_file(text.text)), text, verdict


def _compose_bare(new: NewText, title: str, text: str, values: Mapping[str, object]) -> MemoryFile:
    """The file of a memory of Serena's, which its agents read as it is: the text, and only the keys that were given."""
    heading, is_headed = f"# {title}\n", text.startswith("#")
    keys = {
        **values,
        "title": title if new.title and is_headed and not text.startswith(heading) else "",
        "type": "" if new.type in (None, MemoryType.GENERAL) else str(new.type),
        "tier": "" if new.tier == Tier.NORMAL else str(new.tier),
        **dict.fromkeys(("provenance", "created", "updated")),
        **new.facts,
    }
    stated = {key: value for key, value in keys.items() if value}
    body = f"{heading}\n{text}" if new.title and not is_headed else text
    return edit_memory_file(parse_memory_file(""), stated, body)


def choose_vault(engine: Engine, memory_id: str = "") -> str:
    """The default vault of a new memory: Serena's if the project's vault has nothing but sessions' memories."""
    if engine.serena is None or memory_id.startswith(GLOBAL):
        return ""
    return SERENA if all(each.provenance.source == DRAFTED for each in list_own(engine)) else ""


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
    careful: bool = False,
) -> Saved:
    """Change keys of a memory's front matter, its text, or both; Conflict unless the file has `expected_hash`.

    With `careful` a text does not replace one that changed since this process last gave it out or took it in.
    """
    memory = engine.memory(memory_id)
    if "title" in changes and not str(changes["title"]).strip():
        raise InvalidRequest("The title is empty.", "Give it a few words.", parameter="title")
    clean = cache(redact)  # four steps ask about the new text
    if content is not None:
        _redact_content(engine, content, clean)
    if is_always_on := changes.get("tier") == Tier.CONSTITUTIONAL:
        changes = vouch_changes(engine, memory.id, changes, actor)
    meta = {"vouched": True} if actor in HUMAN_ACTORS and (content is not None or is_always_on) else {}
    entry = Entry(
        action=Action.UPDATE, memory_id=memory.id, reason=reason, actor=actor, session=session, decision_meta=meta
    )
    is_bound = careful and content is not None and expected_hash is None
    known = engine.known_texts.get((engine.person, memory.id), 0) if is_bound else 0

    def change(before: MemoryFile) -> MemoryFile:
        if known not in (0, hash(before.body)) and known != hash(clean(before.body).text):
            raise make_conflict(memory.id, before.content_hash, "known")
        renewed = {**({} if content is None else _describe_anew(before, content, clean)), **changes}
        after = edit_memory_file(before, renewed, content)
        if after.text == before.text:
            return before
        # A file without front matter does not get one just for its time.
        more: dict[str, object] = {"updated": format_time(time.time())} if renewed or before.closing else {}
        if "quality" in after.values:
            verdict = judge(after, phrases=engine.settings.quality.phrases)
            more["quality"] = {"score": verdict.score, "flags": list(verdict.flags)}
        default = Trust.AGENT if memory.source == SERENA else Trust.HUMAN
        return limit_reworded(before, edit_memory_file(after, more), actor, default)

    saved = rewrite(engine, memory, change, entry, expected_hash, clean)
    is_brief = changes.get("tier") == Tier.TEMPORARY and engine.memory(memory.id).provenance.trust not in LASTING
    return replace(saved, notices=(*saved.notices, _EXPIRES.format(engine.settings))) if is_brief else saved


def _describe_anew(before: MemoryFile, content: str, clean: Redact) -> dict[str, object]:
    """The title, phrases and topics of a new text, as far as the old ones were extracted from the old text."""
    title, text = str(before.values.get("title", "")), clean(content).text
    later = find_title(text) if title and title == find_title(before.body) else title
    pairs = zip(describe_text(title, before.body), describe_text(later, text), strict=True)
    known = zip(("trigger_phrases", "topics"), pairs, strict=True)
    found: dict[str, object] = {"title": later} if later not in ("", title) else {}
    return found | {key: [*new] for key, (old, new) in known if before.values.get(key) == [*old] != [*new]}


def rewrite(
    engine: Engine, memory: Memory, change: Edit, entry: Entry, expected_hash: str | None = None, clean: Redact = redact
) -> Saved:
    """Replace a memory's file, if it has this hash, by the result of `change`; only what changed is redacted."""
    demand_writable(memory)
    memory_id = check_id(memory.id)
    with engine.write_lock():
        place = read_file(engine, memory_id, expected_hash, memory.content_hash)
        before = parse_memory_file(_demand_data(place), memory.path)
        demand_changeable([(memory_id, before)], entry.actor, "edit ID")
        file = change(before)
        text = redact_edit(before.text, file.text, clean)
        file = file if text.text == file.text else parse_memory_file(text.text)
        describe = partial(Saved, id=memory_id, redacted=text.classes, spans=text.spans)
        if text.text == before.text:
            return describe(status="unchanged", content_hash=place.hash, path=memory.path)
        changed = RecordedChange(entry, place, text, is_clean=not clean(text.text).spans)
        digest, path = _write(engine, changed, file, clean=clean)
        if file.body != before.body:
            engine.known_texts[engine.person, memory_id] = hash(file.body)
    notices = describe_conflict(file) if HINTS_OF_MARKS.search(file.text) else ()
    return describe(status="updated", content_hash=digest, path=path, notices=notices)


def describe_conflict(file: MemoryFile) -> tuple[str, ...]:
    """What to say of the marks that a merge left in a file."""
    line, what = find_conflict(file)
    return (f"Line {line}: {what}.",) if line else ()


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
    """Retire memories, all or none; undo restores them. `purge` erases every copy; see `engine.purge`."""
    memories = [*{memory.id: memory for memory in map(partial(engine.memory, is_exact=True), memory_ids)}.values()]
    demand_writable(*memories)
    if not (purge and memories):
        return retire(engine, memories, reason, actor, session, backup=backup)
    ids = [memory.id for memory in memories]
    demand_changeable(_parse_files(read_file(engine, memory_id) for memory_id in ids), actor, "delete ID")
    erase_memories(engine, ids, Entry(action=Action.PURGE, memory_id="", reason=reason, actor=actor, session=session))
    return ids


def retire(
    engine: Engine,
    memories: Sequence[Memory],
    reason: str,
    actor: str,
    session: str = "",
    *,
    backup: bool = True,
    only_unchanged: bool = False,
) -> list[str]:
    """Remove the files of memories and record it; with `only_unchanged` only files that are as indexed."""
    if not memories:
        return []
    if len(memories) >= MANY and backup:
        checkpoint_before(engine, "delete")
    entry = Entry(action=Action.RETIRE, memory_id="", reason=reason, actor=actor, session=session)
    with engine.write_lock():
        files = [read_file(engine, memory.id) for memory in memories]
        if only_unchanged:
            files = [file for file, memory in zip(files, memories, strict=True) if file.hash == memory.content_hash]
        demand_changeable([*_parse_files(files)], actor, "delete ID")
        apply_changes(engine, [RecordedChange(replace(entry, memory_id=file.name), file, None) for file in files])
        ids = {file.name for file in files}
        gone = [memory for memory in memories if memory.id in ids]
        with engine.degradations.note_failure(INDEX):
            engine.index.retire([memory.path for memory in gone])
    return [memory.id for memory in gone]


def _parse_files(files: Iterable[LedgerFile]) -> Iterator[tuple[str, MemoryFile]]:
    for file in files:
        yield file.name, parse_memory_file(_demand_data(file).decode(errors="replace"))


def _write(
    engine: Engine, change: RecordedChange, file: MemoryFile, new: NewText | None = None, clean: Redact = redact
) -> tuple[str, str]:
    """Write the file, its ledger row and the index, in this order; returns the hash and the path.

    For a change the caller holds the vault's lock, so that the index gets two changes of a file in their order. For a
    `new` memory it is held only for file and ledger, since all other writers wait meanwhile. Raises UnreadableFile,
    InvalidRequest for a text that is too long, and AlreadyExists.
    """
    place = change.file
    size, limit = len(file.raw), engine.settings.index.max_file_bytes
    if size > limit:
        message = f"{place.name!r} would have {size} bytes; of more than {limit} no file is read."
        raise InvalidRequest(message, "Split it, or raise index.max_file_bytes.", parameter="content")
    most = engine.serena.max_chars if engine.serena and place.source == SERENA else 0
    if 0 < most < len(file.text):
        message = f"{place.name!r} would have {len(file.text)} characters; Serena's settings allow {most}."
        hint = "Split it, or raise default_max_tool_answer_chars in Serena's own configuration."
        raise InvalidRequest(message, hint, parameter="content")
    entry, meta = change.entry, change.entry.decision_meta
    # A person who edits a memory nobody vouches for, such as adding a topic, has not necessarily read its text.
    is_vouched = entry.actor in HUMAN_ACTORS and ("vouched" in meta or engine.is_vouched(place.name, place.hash))
    entry = replace(entry, decision_meta={**meta, "vouched": True}) if is_vouched else entry
    source = make_source_file(place.source, place.name, place.path)
    document = engine.parse(replace(source, is_vouched=is_vouched), file.demand_readable(), clean)
    with engine.write_lock() if new else nullcontext():
        twins = engine.index.find_ids(differing_in_case=place.name) if new and new.id else ()
        if twins and (twin := next(iter(engine.index.get(twins).values()), None)):
            raise AlreadyExists(f"{twin.id!r} exists: {twin.path}.", "Update it, or choose another id.", id=twin.id)
        if new and place.path.exists():
            raise make_conflict(place.name, "", "")
        recorded = change._replace(entry=entry, new_hash=document.content_hash)
        apply_changes(engine, [recorded], [(engine.embed_job, "")])
    with suppress(OSError):
        info = place.path.stat()
        if place.path.read_bytes() == file.raw:  # otherwise it was edited by hand meanwhile, and the next scan reads it
            document = replace(document, file=replace(document.file, size=info.st_size, mtime_ns=info.st_mtime_ns))
    with engine.degradations.note_failure(INDEX):  # the file is durable anyway, and a scan will index it
        engine.index.put([document])
        targets = map(itemgetter(1), engine.index.edges(place.name)) if document.edges else ()
        if "" in targets:  # a reference that is not resolved yet
            update_renames(engine)
    # Not from the index: a process that read the file a moment before may have put its older text there.
    return document.content_hash, document.file.path


def _demand_data(file: LedgerFile) -> bytes:
    if file.data is None:
        hint = "Search for it, or list the vault."
        raise NotFound(f"No memory {file.name!r} in the vault {file.source!r}.", hint, id=file.name)
    return file.data


def demand_writable(*memories: Memory) -> None:
    """Raise ReadOnly for documents, which are only read, and for the record of a session."""
    for memory in memories:
        if memory.source == RECORD:
            hint = f"`scrimshaw purge --session {memory.provenance.session}` erases it."
            raise ReadOnly(f"{memory.id!r} is the record of a session, which cannot be changed.", hint, id=memory.id)
        if not memory.writable:
            message = f"{memory.id!r} is read from {memory.path}, which Scrimshaw never writes."
            hint = "Edit the file yourself, or save a memory of your own that supersedes it."
            raise ReadOnly(message, hint, id=memory.id)


def slug(title: str) -> str:
    """A title as an id: lower case, words joined by dashes, letters of any script kept."""
    composed = unicodedata.normalize("NFC", unicodedata.normalize("NFC", title).casefold())
    words = _NOT_IN_SLUG.sub("-", composed).strip("-_")
    short = words.encode()[:_SLUG_BYTES].decode(errors="ignore")
    if not f"{words}-".startswith(f"{short}-"):  # it ends within a word
        short = short.rpartition("-")[0] or short
    short = short.rstrip("-_") or "memory"
    try:
        return check_id(short)
    except InvalidMemoryId:  # a name that Windows keeps for itself
        return f"memory-{short}"


def check_new_id(memory_id: str) -> str:
    """The id in its final form; names are stored unredacted, so one that contains a secret is refused."""
    if redact(memory_id).spans:
        raise InvalidMemoryId("The id holds a secret.", "Choose another.", parameter="id", rule="it holds a secret")
    if unread := IGNORED_FOLDERS.intersection(memory_id.split("/")[:-1]):
        rule = f"no memory is read from a folder {min(unread)!r}"
        raise InvalidMemoryId(f"{memory_id!r} cannot be used: {rule}.", "Choose another.", parameter="id", rule=rule)
    return check_id(memory_id)


def find_free_id(engine: Engine, title: str, vault_name: str = "") -> str:
    """An id made from the title; if another text has it, the next free number is added."""
    base = slug(title)
    for name in itertools.chain([base], map(f"{base}-{{}}".format, itertools.count(2))):
        vault, inside = engine.vault_of(name, vault_name)
        # The vault is asked too: a new file by hand may not be indexed yet.
        if not engine.index.find_ids(differing_in_case=name) and not (vault.root / f"{inside}{SUFFIX}").exists():
            return name
    raise AssertionError


def find_similar_memories(engine: Engine, text: str, *, title: str = "", exclude: str = "") -> tuple[Similar, ...]:
    """Near duplicates and related memories of a text, closest first, and those of the same title of several words."""
    settings, own_title = engine.settings.search, normalise_text(title)
    own_sketch, least = compute_minhash(text), max(settings.related, _SAME_WORDS if len(text) <= BRIEF else 0)
    shared = max(1, round(least * _SAMPLE_LUCK * len(own_sketch)))
    near = engine.index.near_duplicates(own_sketch, shared=shared, limit=_CANDIDATES + 1)
    named = engine.index.phrases([find_head(title)], titles=True, holds=lambda name: normalise_text(name) == own_title)
    if not (ids := [*dict.fromkeys([*near, *map(itemgetter(1), named)])]):
        return ()
    memories, own, found = engine.index.get(ids), split_runs(text, BRIEF), list[Similar]()
    for name, body in engine.index.bodies(ids).items():
        if name == exclude or name not in memories:  # one deleted meanwhile has no title any more
            continue
        similarity = jaccard(own, split_runs(body, BRIEF))
        is_like = name in near and similarity >= least
        if is_like or normalise_text(memories[name].title) == own_title:
            kind = "near_duplicate" if similarity >= settings.near_duplicate else "related" if is_like else "same_title"
            found.append(Similar(id=name, title=memories[name].title, similarity=round(similarity, 3), kind=kind))
    return tuple(sorted(found, key=lambda item: (-item.similarity, item.id)))


def propose_supersedes(engine: Engine, text: str, similar: Sequence[Similar]) -> tuple[Proposal, ...]:
    """Proposals to supersede similar memories: of the same title, or if only the new text has a cue of change."""
    cues, found = find_cues(text), []
    bodies = engine.index.bodies([each.id for each in similar]) if cues else {}
    for each in similar:
        why = "it has the same title" if each.kind == "same_title" else ""
        known = " ".join(bodies.get(each.id, "").casefold().split())
        if new := [cue for cue in cues if not (cue in known and re.search(rf"\b{cue}\b", known))]:
            quoted = ", ".join(f'"{cue}"' for cue in new)
            why = f"{each.kind.replace('_', ' ')} ({each.similarity:.2f}), and only the new text says {quoted}"
        if why:
            found.append(Proposal(relation=Relation.SUPERSEDES, target=each.id, why=why))
    return tuple(found)


def find_cues(text: str) -> tuple[str, ...]:
    """The cues of a change in a text, each once, in order."""
    return tuple(dict.fromkeys(_CUES.findall(" ".join(text.casefold().split()))))
