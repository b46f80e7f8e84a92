"""Erase a secret, or memories, wherever Scrimshaw wrote them, then search every byte for what is left.

Every step works from what is there, so the next purge completes one that was killed. What is not Scrimshaw's (git,
documents) is searched and reported, never changed.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from enum import StrEnum
from functools import cache
from itertools import chain, product
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import NO_PROJECT
from scrimshaw.engine import query_log
from scrimshaw.engine.checkpoints import list_newest_first
from scrimshaw.engine.core import GLOBAL, MEMORIES, TEAM, Engine, open_engine
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.index import scan
from scrimshaw.engine.ledger import hash_of
from scrimshaw.errors import NotFound, ReadOnly, StorageFailure, UnusableArchive
from scrimshaw.ingest import secret_encodings
from scrimshaw.ingest.redact import redact
from scrimshaw.ingest.secret_encodings import SecretTraces, traces_of_passages
from scrimshaw.ingest.tables import load_lines
from scrimshaw.models import Action, Entry, EventKind, SourceFile, Wipe
from scrimshaw.storage import erasing
from scrimshaw.storage.archive import open_archive
from scrimshaw.storage.durable import prune, remove_file, replace_file, storage_errors
from scrimshaw.storage.erasing import Kind, SearchedFile, read_bytes
from scrimshaw.storage.git import GitTraces, list_other_work_trees, search_git
from scrimshaw.storage.paths import SUFFIX, locate, replace_undecodable
from scrimshaw.storage.place import JOURNAL, describe_work_tree, find_place, find_siblings, is_removed
from scrimshaw.storage.ports import DatabaseName
from scrimshaw.storage.scan import SERENA
from scrimshaw.storage.scan import scan as list_files
from scrimshaw.storage.toml_files import LINKS_FILE
from scrimshaw.storage.transaction import FileChange, atomic_file_changes

PASSAGE_CHARACTERS = 24  # a shorter line, such as a heading or stock phrase, may be in many memories
MOST_PASSAGES = 200  # a longer memory is searched for by its longest lines
OUTSIDE = load_lines(__file__, "purge", "outside")
_WHICH = f"lines of at least {PASSAGE_CHARACTERS} characters that no other file has, at most {MOST_PASSAGES},"
_GLOBAL_ONLY = "it is your own vault of all projects: add --global"
_GIT = "it is git's, which alone may change it"
_BY_HAND = Entry(action=Action.PURGE, memory_id="", reason="purged", actor="human")


class Trace(Struct, frozen=True, kw_only=True):
    """A place that contains it, how often, and why it stays there, if it does."""

    place: str
    count: int
    why: str = ""


Fate = StrEnum("Fate", "CUT REMAKE REMOVE DELETE STAY NONE")  # DELETE: with the rows of its memory; STAY: as unreadable


class PurgeTarget(Wipe, frozen=True, kw_only=True):
    """What to purge besides database rows: the memories' files and their names in checkpoints; and how far to go."""

    traces: SecretTraces
    files: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()
    entry: Entry = replace(_BY_HAND, reason="a secret was purged")  #: template of the ledger's rows
    include_global: bool = False  #: also in the user's own vault for all projects
    remove_unreadable: bool = False  #: also files from which it cannot be cut, and unreadable checkpoints
    remove_closed: bool = False  #: also damaged databases that may contain it

    def trace(self, path: Path, count: int, why: str = "") -> Trace:
        place = str(path) if path in self.files else self.traces.mask(str(path))
        return Trace(place=place, count=count, why=why)


class Purged(Struct, frozen=True, kw_only=True):
    """What a purge found, and what a search of every byte found afterwards."""

    dry_run: bool
    places: tuple[Trace, ...] = ()  #: where it was, or is
    forms: tuple[str, ...] = ()  #: the encodings that were searched
    unreadable: tuple[Trace, ...] = ()  #: files that cannot be searched, or from which it cannot be cut
    removed: tuple[str, ...] = ()  #: files that were deleted
    searched_files: int = 0
    searched_bytes: int = 0
    left: tuple[Trace, ...] = ()  #: where it still is
    held: tuple[str, ...] = ()  #: databases whose free pages could not be released, as another process reads them
    foreign: tuple[Trace, ...] = ()  #: what contains it, or may, in git repositories within Scrimshaw's folders
    documents: tuple[Trace, ...] = ()  #: documents that are read and never written
    git: GitTraces = GitTraces()
    outside: tuple[str, ...] = OUTSIDE

    @property
    def is_clean(self) -> bool:
        """Whether nothing of it is left in Scrimshaw's folders, as far as can be known."""
        return not (self.left or self.held or self.unreadable or self.foreign)


# Every work tree of a repository has its own memory, with its share of what is purged; the project's comes first.
Scope = Sequence[tuple[Engine, PurgeTarget]]


def target_secret(text: str, *, is_pattern: bool = False) -> PurgeTarget:
    """The target for a secret or a regular expression (RE2); raises InvalidRequest."""
    find = secret_encodings.traces_of_pattern if is_pattern else secret_encodings.traces_of_secret
    return PurgeTarget(traces=find(text))


def target_memories(
    engine: Engine, ids: Sequence[str], entry: Entry = _BY_HAND, *, session: str = "", drafts: Sequence[Path] = ()
) -> PurgeTarget:
    """The target for memories, also deleted, or a session with them; raises NotFound, ReadOnly, InvalidMemoryId."""
    files, names = list[Path](), list[str]()
    for memory_id, known in zip(ids, map(engine.index.get(ids).get, ids), strict=True):
        if known and (not known.writable or known.source == SERENA):
            message = f"{memory_id!r} is read from {known.path}, which is not Scrimshaw's."
            raise ReadOnly(message, "Remove the file yourself, then purge what it said with --secret.", id=memory_id)
        vault, name = engine.vault_of(memory_id)
        files.append(Path(known.path).resolve() if known else locate(vault.root, name))
        names.append(f"{MEMORIES if vault.name == engine.sources[0].name else vault.name}/{name}{SUFFIX}")
    histories = {memory_id: engine.journal.history(memory_id) for memory_id in ids}
    files += drafts
    texts = [read_bytes(file).decode(errors="replace") for file in files]
    texts += [each.text for each in engine.sessions.events(session, EventKind.PROMPT, EventKind.ANSWER)]
    texts += [engine.journal.prior_text(id, row["prior_hash"]) or "" for id in ids for row in histories[id]]
    for path in list_newest_first(engine):
        # The purge reports an unusable one.
        with suppress(UnusableArchive), open_archive(path, engine.maintenance.schema) as archive:
            texts += [archive.text(name) for name in archive.manifest.files if name in names]
    for memory_id, file in zip(ids, files, strict=False):
        if not (file.is_file() or histories[memory_id] or any(texts)):
            hint = "See `scrimshaw ledger show` for past ones."
            raise NotFound(f"Nothing is known of a memory {memory_id!r}.", hint, id=memory_id)
    project = engine.settings.project
    named = ids if session else ()  # they are made of what was said
    inside = [file.relative_to(root) for file in files for root in (project.resolve(),) if file.is_relative_to(root)]
    return PurgeTarget(
        traces=traces_of_passages((*_list_own_passages(engine, texts, files, session), *named), _WHICH),
        memory_ids=tuple(ids),
        files=tuple(files),
        names=tuple(names),
        # As rows may store paths: absolute, or relative to the project.
        paths=(*map(str, files), *(str(project / path) for path in inside), *(path.as_posix() for path in inside)),
        sessions=(session,) if session else (),
        entry=entry,
    )


def find_traces(scope: Scope) -> Purged:
    """Find where it is now; changes nothing. Raises StorageFailure."""
    documents = tuple(
        target.trace(path, count)
        for engine, target in scope
        for path in _read_files(engine)
        if not any(path.resolve().is_relative_to(root) for root in _list_roots(engine))
        if (count := target.traces.count(read_bytes(path)))
    )
    found = replace(_search_all(scope), dry_run=True, documents=documents, git=_search_project(scope))
    return replace(found, forms=scope[0][1].traces.forms)


@contextmanager
def open_scope(engine: Engine, find_target: Callable[[Engine], PurgeTarget]) -> Iterator[Scope]:
    """The memory, and those that other work trees of its repository have, each with its target."""
    folders, scope = list[Path](), [(engine, find_target(engine))]
    with suppress(StorageFailure):  # git cannot be asked, as the search of git reports
        folders = list_other_work_trees(engine.settings.project)
    own_vaults = replace(engine.settings.storage, vault="")  # this one's, if it is named, is no other's
    with ExitStack() as others:
        for settings in (replace(engine.settings, project=folder, storage=own_vaults) for folder in folders):
            if settings.folder.is_dir() or (find_place(settings.folder) / JOURNAL).exists():
                other = others.enter_context(open_engine(settings))
                with suppress(NotFound):  # that work tree never had the memory
                    scope.append((other, find_target(other)))
        yield scope


def purge(scope: Scope, planned: Purged) -> Purged:
    """Erase it, then search every byte again. Raises ReadOnly, VaultBusy, StorageFailure."""
    erased = [erase(engine, target) for engine, target in scope]
    after = _search_all(scope)
    return replace(
        after,
        places=planned.places,
        left=after.places,
        forms=planned.forms,
        documents=planned.documents,
        outside=planned.outside,
        git=_search_project(scope),  # which searches cleaned files too
        removed=tuple(name for each in erased for name in each.removed),
        held=tuple(name for each in erased for name in each.held),
    )


def _search_project(scope: Scope) -> GitTraces:
    """What the git repository around the project contains."""
    (engine, target), roots = scope[0], [root for each, _ in scope for root in _list_roots(each)]
    return search_git(engine.settings.project, target.traces, target.files, roots)


def erase(engine: Engine, target: PurgeTarget) -> Purged:
    """Erase it from one project's memory, without a search afterwards. Raises ReadOnly, VaultBusy, StorageFailure."""
    # Rows and the memories' files go last, together: while they exist, the next purge knows what to look for.
    engine.vault_of("")  # raises ReadOnly
    home = engine.settings.home.resolve()
    roots = [root for root in _list_roots(engine) if root != home or _has_global(target)]
    redact_once = cache(redact)  # checkpoints hold much the same files
    with engine.write_lock():
        found = [file for root in roots for file in _search_root(engine, target, root)]
        fates = [(file, _decide(file, target)) for file in found]
        *files, whole = _make_entries(engine, target, [file for file, fate in fates if fate is Fate.CUT])
        for file, fate in fates:
            if fate is Fate.REMAKE:
                erasing.remake_archive(file.path, engine.maintenance.schema, target, target.names, redact_once)
            if fate is not Fate.DELETE:
                _clean(file, fate, target)
        going = [file for file, fate in fates if fate is Fate.DELETE]
        for session in target.sessions:
            query_log.forget_session(engine, session)
        changes = [FileChange(file.path, _find_floor(file), read_bytes(file.path), None) for file in going]
        meta = {**whole.decision_meta, "mark": secrets.token_hex(16)}
        with atomic_file_changes(engine.folder, str(meta["mark"]), changes) if changes else nullcontext():
            engine.maintenance.erase(target, replace(whole, decision_meta=meta), files)
    if engine.storage.vectors:  # nothing says which text a cached vector belongs to
        engine.storage.vectors.clear()
    with _open_views(engine) as views:
        held = tuple(path for view in views for path in _clean_databases(view, target))
    stay = tuple(target.trace(file.path, file.traces, file.doubt) for file, fate in fates if fate is Fate.STAY)
    removed = tuple(target.traces.mask(str(file.path)) for file, fate in fates if fate is Fate.REMOVE)
    return Purged(dry_run=False, removed=removed, unreadable=stay, held=held)


@contextmanager
def _open_views(engine: Engine) -> Iterator[list[Engine]]:
    """The memory, and one over each other pair of databases: of a team's server, and of servers without a memory."""
    views, alone = [engine], replace(engine.settings, project=engine.settings.home / NO_PROJECT, sources=())
    with ExitStack() as opened:
        if engine.team or (engine.folder / TEAM).is_dir():
            team = open_engine(engine.settings, folder=engine.folder, for_team=not engine.team)
            views.append(opened.enter_context(team))
        if alone.folder.is_dir():
            views.append(opened.enter_context(open_engine(alone)))
        yield views


def _clean_databases(engine: Engine, target: PurgeTarget) -> list[str]:
    """Update an index for the cleaned files, release free pages and logs; returns the files that others hold open."""
    storage = engine.team or engine.storage
    maintenance, held = storage.maintenance, [storage.folder / "index.db"]
    if maintenance.count_traces("journal", target):  # the memory's own is clean by now
        maintenance.erase(target, target.entry)
    with engine.degradations.note_failure(INDEX):
        scan(engine)
        stubborn = maintenance.compact()  # releases free pages and logs, except in files that others hold open
        if maintenance.count_traces("index", Wipe(target.traces)):
            engine.index.retire(None)
            scan(engine)
            stubborn = maintenance.compact()
        held = stubborn
    return [*map(str, held)]


def erase_memories(engine: Engine, ids: Sequence[str], entry: Entry) -> None:
    """Erase memories without a search afterwards; raises StorageFailure too if something may be left."""
    erased = erase(engine, target_memories(engine, ids, entry))
    if left := [*erased.held, *(trace.place for trace in erased.unreadable)]:
        hint = "Stop other servers of the project, then run `scrimshaw purge --memory ID`, which proves what is left."
        raise StorageFailure(f"It is erased, but for what may be in {', '.join(left)}.", hint, left=left)


def _list_own_passages(engine: Engine, texts: Sequence[str], files: Sequence[Path], session: str) -> list[str]:
    """The lines that no other memory has, and with a `session` no other session."""
    lines = {line.strip() for text in texts for line in text.splitlines()}
    own = sorted((line for line in lines if len(line) >= PASSAGE_CHARACTERS), key=lambda line: (-len(line), line))
    own = own[:MOST_PASSAGES]
    paths = [path for path in _read_files(engine) if path.resolve() not in files]
    records = [each.session for each in engine.sessions.records() if session and each.session != session]
    while own:
        passages = traces_of_passages(own)
        said = ("\n".join(each.text for each in engine.sessions.events(other)).encode() for other in records)
        if not (shared := {form for text in chain(map(read_bytes, paths), said) for form in passages.found(text)}):
            break
        # Again, since a line may be part of the longer one that was found.
        own = [line for line in own if shared.isdisjoint(secret_encodings.passage_forms(line))]
    return own


def _read_files(engine: Engine) -> Iterator[Path]:
    """The files that memories are read from, documents as well."""
    found = (file for source in engine.sources for file in list_files(source, engine.settings.index.max_file_bytes))
    return (Path(file.path) for file in found if isinstance(file, SourceFile))


def _list_roots(engine: Engine) -> list[Path]:
    """Scrimshaw's folders: the project's, those left by removed work trees, and the user's own."""
    left = [each for each in find_siblings(engine.folder, every=True) if is_removed(describe_work_tree(each))]
    folders = (engine.folder, engine.storage.place, *left, engine.settings.folder, engine.settings.home)
    return list(dict.fromkeys(folder.resolve() for folder in folders))


def _has_global(target: PurgeTarget) -> bool:
    return target.include_global or any(memory_id.startswith(GLOBAL) for memory_id in target.memory_ids)


def _search_all(scope: Scope) -> Purged:
    """Search every byte of the folders, every row of the databases, and the git repositories within."""
    places, unreadable, foreign = list[Trace](), list[Trace](), list[Trace]()
    files = size = 0
    for engine, target in scope:
        repositories, in_rows = set[Path](), set[Path]()
        wipes: Mapping[DatabaseName, Wipe] = {"index": Wipe(target.traces), "journal": target}
        with _open_views(engine) as views:
            for storage, (database, wipe) in product((view.team or view.storage for view in views), wipes.items()):
                counts = storage.maintenance.count_traces(database, wipe)
                name = storage.name(database)
                in_rows |= {Path(f"{Path(name).resolve()}{end}") for end in ("", "-wal") if counts}
                places += [Trace(place=f"{name}: {table}", count=count) for table, count in counts.items()]
        searches = sum(query_log.forget_session(engine, session, dry_run=True) for session in target.sessions)
        places += [Trace(place=str(engine.storage.place / query_log.FILE), count=searches)] if searches else []
        home = None if _has_global(target) else engine.settings.home.resolve()
        for file in (file for root in _list_roots(engine) for file in _search_root(engine, target, root)):
            files, size = files + 1, size + file.size
            if file.kind is Kind.GIT:
                foreign += _search_foreign(target, file, repositories)
            if file.doubt:
                unreadable.append(target.trace(file.path, file.traces, file.doubt))
            elif file.traces and file.kind is not Kind.GIT and file.path not in in_rows:  # is listed
                places.append(target.trace(file.path, file.traces, _GLOBAL_ONLY if file.root == home else ""))
    # Each once: work trees share the user's own vault.
    traces = [tuple(dict.fromkeys(found)) for found in (places, unreadable, foreign)]
    found = Purged(dry_run=False, places=traces[0], unreadable=traces[1], foreign=traces[2])
    return replace(found, searched_files=files, searched_bytes=size)


def _search_root(engine: Engine, target: PurgeTarget, root: Path) -> Iterator[SearchedFile]:
    """Every file with its number of traces, and why it cannot be searched, or the traces cut out."""
    for file in erasing.search_folder(root, target.traces):
        count, doubt = file.inside + (file.path in target.files and file.path.is_file()), file.doubt
        if file.kind is Kind.ARCHIVE:
            try:
                count += erasing.count_in_archive(file.path, engine.maintenance.schema, target, target.names)
            except UnusableArchive as error:
                doubt = error.message
        yield file._replace(inside=count, doubt=doubt)


def _search_foreign(target: PurgeTarget, file: SearchedFile, repositories: set[Path]) -> Iterator[Trace]:
    """Places of git that contain it or cannot be searched; each repository is searched once."""
    folder = Path(str(file.path).partition(f"{os.sep}.git")[0])
    if file.traces:
        yield target.trace(file.path, file.traces, _GIT)
    git = GitTraces() if folder in repositories else search_git(folder, target.traces)
    repositories.add(folder)
    if git.degradation or git.found:
        why = git.degradation.failure_mode if git.degradation else f"{_GIT}: {'; '.join(git.commands)}"
        yield target.trace(folder / ".git", git.found, why)


def _make_entries(engine: Engine, target: PurgeTarget, cut: Sequence[SearchedFile]) -> list[Entry]:
    """The ledger's rows: one for each memory whose file changes or is deleted, the last one for the whole purge."""
    keys = [(_find_ledger_key(engine, file, target), file.path) for file in cut]
    rows: list[tuple[str, Path | None]] = [(key, path) for key, path in keys if key]
    whole = zip(target.memory_ids, target.files, strict=not target.sessions)
    rows += [(target.entry.memory_id, None)] if target.sessions or not target.memory_ids else whole
    entries = []
    for key, path in rows:
        before = read_bytes(path) if path else b""
        after = b"" if path in target.files else target.traces.erase(before)
        hashes = {"prior_hash": hash_of(before or None), "new_hash": hash_of(after or None)}
        meta = {"file": LINKS_FILE} if key == LINKS_FILE else {}
        entries.append(replace(target.entry, memory_id=key, **hashes, decision_meta=meta))
    return entries


def _find_ledger_key(engine: Engine, file: SearchedFile, target: PurgeTarget) -> str:
    """The ledger's name of a file once it is clean, empty for an unknown one."""
    if file.path == engine.settings.folder.resolve() / LINKS_FILE:
        return LINKS_FILE
    clean = erasing.clean_path(file.path, file.root, target.traces)
    is_utf8 = replace_undecodable(str(clean)) == str(clean)  # otherwise no memory has the name
    return engine.name_file(clean) if is_utf8 and clean.suffix == SUFFIX else ""


def _decide(file: SearchedFile, target: PurgeTarget) -> Fate:
    if file.traces and file.path in target.files and file.kind is not Kind.LINK:
        return Fate.DELETE
    match file.kind:
        case Kind.ARCHIVE | Kind.DAMAGED if file.doubt:
            is_known = file.traces or file.kind is Kind.ARCHIVE
            return Fate.REMOVE if (target.remove_unreadable if is_known else target.remove_closed) else Fate.STAY
        case Kind.ARCHIVE | Kind.TEXT if file.traces:
            return Fate.CUT if file.kind is Kind.TEXT else Fate.REMAKE
        case Kind.SCRATCH:  # never needed, even if unreadable
            is_gone = bool(file.traces or file.doubt)
        case Kind.LINK:  # deleted for the path in it; resolve() fails in a circle
            is_gone = file.inside > 0 or Path(os.path.realpath(file.path)) in target.files
        case _:
            is_gone = file.kind is Kind.NAME and file.traces > 0 and file.path.is_dir()
    return Fate.REMOVE if is_gone else Fate.NONE


def _clean(file: SearchedFile, fate: Fate, target: PurgeTarget) -> None:
    """Remove a file and the folders this empties, or cut the traces out of the file and its name."""
    with storage_errors("remove" if fate is Fate.REMOVE else "write", file.path):
        if fate is Fate.CUT and file.path.is_file():
            replace_file(file.path, target.traces.erase(read_bytes(file.path)))
        elif fate is Fate.REMOVE and file.path.is_dir() and not file.path.is_symlink():
            prune(file.path, _find_floor(file))
        elif fate is Fate.REMOVE and (file.path.is_file() or file.path.is_symlink()):
            remove_file(file.path, _find_floor(file))
    if file.named and file.kind not in (Kind.DATABASE, Kind.GIT) and os.path.lexists(file.path):
        erasing.rename_clean(file.path, file.root, target.traces)


def _find_floor(file: SearchedFile) -> Path:
    """The folder that stays even if it is empty: the one for all files of this kind."""
    inside = file.path.relative_to(file.root).parts
    return file.root / inside[0] if len(inside) > 1 else file.root
