"""One open memory: its vaults and sources, its index, journal and sessions, and the searcher over them."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from operator import attrgetter, itemgetter
from pathlib import Path

from msgspec import structs

from scrimshaw import config
from scrimshaw.config import Settings, limit_native_threads
from scrimshaw.engine.degradations import ProcessDegradations
from scrimshaw.errors import (
    ConfigError,
    InvalidMemoryId,
    NotFound,
    ReadOnly,
    StorageFailure,
    UnreadableFile,
    find_nearest,
)
from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.ingest.invisible_characters import replace_invisible
from scrimshaw.ingest.markdown import parse_reference
from scrimshaw.ingest.memory_file import MemoryFile, build_document, is_private, parse_memory_file
from scrimshaw.ingest.quality import find_blank_title, grade_record
from scrimshaw.ingest.redact import Redact, redact
from scrimshaw.models import CLIENT_TOOL, Action, ArtifactClass, Degradation, Document, Memory, SourceFile, Trust
from scrimshaw.search.embedders import Embedder, open_embedder
from scrimshaw.search.pipeline import Searcher
from scrimshaw.storage import transaction
from scrimshaw.storage.databases import Storage, move_journal, note_ledger_end
from scrimshaw.storage.durable import PRIVATE_FOLDER, make_folders
from scrimshaw.storage.engines import open_storage
from scrimshaw.storage.git import PRESENT_S, ask_git, is_left_out, list_moved_files
from scrimshaw.storage.index import Index
from scrimshaw.storage.journal import Journal
from scrimshaw.storage.maintenance import Maintenance
from scrimshaw.storage.paths import SUFFIX, Vault, check_id
from scrimshaw.storage.place import JOURNAL, hide_from_git
from scrimshaw.storage.scan import SERENA, SERENA_MEMORIES, Source, discover
from scrimshaw.storage.sessions import Sessions

MEMORIES, GLOBAL, TEAM = config.MEMORIES, config.GLOBAL, config.TEAM
LOCK_FILE, LOCK_TIMEOUT_S = "vault.lock", 30.0  # a restore of ten thousand memories takes some 13 s
EMBED, EMBED_TEAM = "embed", "embed-team"
PRIVATE = "it is private"  # why a team's index skipped a file; no answer mentions it
GLOBAL_LOCK = "global.lock"  # of the user's own vault, which every project writes


@dataclass(frozen=True)
class Engine(AbstractContextManager["Engine"]):
    """An open memory. Safe to use from several threads; several engines may share a project."""

    settings: Settings
    sources: tuple[Source, ...]
    storage: Storage
    index: Index
    journal: Journal
    sessions: Sessions
    maintenance: Maintenance
    embedder: Embedder | Degradation
    searcher: Searcher
    folder: Path
    clock: Callable[[], float] = time.time  #: Seconds since 1970.
    degradations: ProcessDegradations = field(default_factory=ProcessDegradations)  #: what does not work at the moment
    #: For a team's server, its own databases: their index has only what everybody may see, and they contain no
    #: recorded session. Ledger and files are the project's.
    team: Storage | None = None
    embed_job: str = EMBED  #: The kind of job that makes the vectors of this index.
    #: The memories to search instead of this one, by name; ids are then NAME:ID.
    vaults: Mapping[str, "Engine"] = field(default_factory=dict)
    person: str = ""  #: Who asks, if a team's server knows it.
    #: By person and id, the hash of the text of a memory that this process last gave out or took in.
    known_texts: dict[tuple[str, str], int] = field(default_factory=dict)

    def vault_of(self, memory_id: str, vault: str = "") -> tuple[Vault, str]:
        """The writable vault of a memory of this id, and its id inside that vault; raises ReadOnly.

        If both Serena's memories and the own vault could have it, `vault` chooses. The default is the one that has
        the file, the canonical one first, then the one that had it last, then the project's.
        """
        project, user = self.sources[0], self.sources[-1]
        if user.id_prefix == GLOBAL and memory_id.startswith(GLOBAL) and vault != SERENA:
            return Vault(user.root, user.name, self.settings.home / GLOBAL_LOCK), memory_id.removeprefix(GLOBAL)
        if not project.writable:
            raise ReadOnly(f"{project.root} was opened for reading only.", "Run `scrimshaw init` to get a vault.")
        if vault == SERENA:
            self.demand_open_to_writers(memory_id)
        if self.serena and (vault or self._find_vault(memory_id)) == SERENA:
            return Vault(self.serena.root, SERENA), memory_id
        return Vault(project.root, project.name), memory_id

    @cached_property
    def serena(self) -> Source | None:
        """Serena's memories of the project, if they are writable."""
        return next((each for each in self.sources if each.name == SERENA and each.writable), None)

    def demand_open_to_writers(self, memory_id: str) -> None:
        """Raise ReadOnly for an id that Serena's settings, as they are now, close to writers."""
        if self.serena is None:
            reason = f"there is no {SERENA_MEMORIES} that may be written"
        elif memory_id.startswith(GLOBAL):
            reason = "Serena has such names for all projects, and those memories are only read"
        elif not self.serena.takes(memory_id):
            reason = "Serena's settings close this name to writers"
        else:
            return
        hint = "Choose another id, leave the vault out, or change Serena's settings."
        raise ReadOnly(f"{memory_id!r} cannot be written among Serena's memories: {reason}.", hint, id=memory_id)

    def _find_vault(self, memory_id: str) -> str:
        """The name of the vault that has a memory's file, or had it last; empty for a new one."""
        vaults = [each for each in (self.sources[0], self.serena) if each]
        for vault in sorted(vaults, key=lambda each: each.name != self.settings.index.canonical):
            if (vault.root / f"{memory_id}{SUFFIX}").exists() and vault.takes(memory_id):
                return vault.name
        newest = self.journal.history(memory_id, 1) if memory_id else []
        return str(newest[0]["decision_meta"].get("vault", "")) if newest else ""

    def name_file(self, path: Path) -> str:
        """The id of the memory that a file has or would have in a vault; empty outside of them."""
        for source in self.sources:
            root = source.root.resolve()
            if source.writable and path.is_relative_to(root):
                return source.id_prefix + path.relative_to(root).as_posix().removesuffix(SUFFIX)
        return ""

    @contextmanager
    def write_lock(self) -> Iterator[None]:
        """Hold the vault's writer lock; first finish or undo what a killed process left half done. Raises VaultBusy."""
        self.storage.demand_in_place()  # so that no file is made where the project used to be
        with transaction.lock(self.folder / LOCK_FILE, LOCK_TIMEOUT_S):
            roots = [self.settings.folder, *map(attrgetter("root"), filter(attrgetter("writable"), self.sources))]
            transaction.recover(self.folder, lambda mark: bool(self.journal.history(limit=1, mark=mark)), roots)
            yield

    def parse(self, source: SourceFile, file: bytes | MemoryFile, clean: Redact = redact) -> Document:
        """The document of a file, redacted by `clean`; raises UnreadableFile, also for a deceptive name."""
        name = source.memory_id
        if _is_deceptive(name):  # no fence protects from it
            fault = "its name has invisible characters or reads like an instruction"
            raise UnreadableFile(f"{replace_invisible(source.path)}: {fault}.", "Give it another name.")
        parsed = parse_memory_file(file, source.path) if isinstance(file, bytes) else file
        if self.team and is_private(parsed):
            hint = "A server takes only what the team may read: leave `visibility` out, or save it on your own machine."
            raise UnreadableFile(PRIVATE, hint)
        if not source.is_vouched and self.is_vouched(name, parsed.content_hash):
            source = structs.replace(source, is_vouched=True)
        document = build_document(source, parsed, clean)
        if not source.writable and (blank := find_blank_title(document.title)):  # its examples are no knowledge
            raise UnreadableFile(f"{source.path}: its title has {blank}, so it is a template.", "Fill it in.")
        if source.artifact == ArtifactClass.MEMORY and not source.writable:  # none of our own tools has judged it
            document = grade_record(document, parsed, self.settings.quality.phrases)
        if source.writable and document.provenance.trust == Trust.FILE:
            with suppress(StorageFailure):  # files that a client's own tool wrote, says its hook, are an agent's
                if CLIENT_TOOL in map(itemgetter("actor"), self.journal.history(name, new_hash=parsed.content_hash)):
                    return structs.replace(document, provenance=structs.replace(document.provenance, trust=Trust.AGENT))
        return document

    def is_vouched(self, memory_id: str, digest: str) -> bool:
        """Whether a person's newest command on exactly these bytes of a file vouches for them; an undo does not."""
        with suppress(StorageFailure):
            for row in self.journal.history(memory_id, new_hash=digest):
                is_word = "vouched" in row["decision_meta"]
                if row["new_hash"] == digest and (is_word or row["prior_hash"] == digest):
                    return is_word and self._is_own_journal
        return False

    @cached_property
    def _is_own_journal(self) -> bool:
        """Whether the journal is outside git: one that came with a clone may contain anything anybody wanted."""
        with suppress(StorageFailure):  # without git nothing was cloned, and a clone never fills git's own folder
            command = ("ls-files", "--", f":(icase){JOURNAL}")
            return self.storage.place != self.folder or not ask_git(self.settings.folder, *command, answers=(0, 128))
        return True

    @cached_property
    def committed_renames(self) -> Mapping[str, str]:
        """The new ids by the old ones of memories that git says were renamed, maybe before this clone was made."""
        vault, project = self.sources[0].root.resolve(), self.settings.project.resolve()
        with suppress(StorageFailure):  # without git, or with a history that takes too long to read
            moved = list_moved_files(project, str(vault), timeout_s=PRESENT_S)
            return {self.name_file(project / old): self.name_file(project / new) for old, new in moved}
        return {}

    def find_new_name(self, memory_id: str) -> str:
        """The new id of a memory whose file was renamed, as git or a scan says, or its content appeared; or ""."""
        names = [memory_id] if memory_id else []
        for name in names:  # the list grows with every further rename
            newest = next(iter(self.journal.history(name, 1)), None)
            if newest is None:
                names += {self.committed_renames.get(name, "")} - {"", *names}
            if newest is None or newest["new_hash"] or not newest["prior_hash"]:
                continue
            appeared = self.journal.history(new_hash=newest["prior_hash"])
            later = [row["memory_id"] for row in appeared if row["action"] == Action.EXTERNAL and not row["prior_hash"]]
            later.insert(0, newest["decision_meta"].get("renamed_to", name))
            names += dict.fromkeys(each for each in later if each not in names)
        return next(iter(self.index.get(names[1:])), "")

    def memory(self, memory_id: str, *, is_exact: bool = False) -> Memory:
        """The memory with this id or `mem:NAME`, `NAME.md`, `[[NAME]]`, its path or earlier id; raises NotFound."""
        found = self.index.get([memory_id]).get(memory_id)
        if found is None:  # while the index is rebuilt or has not caught up
            with suppress(NotFound, InvalidMemoryId, ReadOnly, UnreadableFile, OSError):
                vault, name = self.vault_of(memory_id)
                if vault.name == SERENA:
                    self.demand_open_to_writers(memory_id)  # the next scan knows whether it may be read
                path = vault.root.resolve() / f"{check_id(name)}.md"
                info, raw = path.stat(), vault.read(name)  # in this order: a later scan sees a change in between
                if len(raw) <= self.settings.index.max_file_bytes:
                    file = make_source_file(vault.name, memory_id, path, size=info.st_size, mtime_ns=info.st_mtime_ns)
                    self.index.put([self.parse(file, raw)])
                    found = self.index.get([memory_id]).get(memory_id)
        if found is None and "#" not in memory_id and (name := parse_reference(memory_id)) not in ("", memory_id):
            with suppress(NotFound):
                return self.memory(name, is_exact=is_exact)
        if found is None:
            known = sorted(each.memory_id for each in self.index.manifest().values())
            link = parse_reference(memory_id).casefold() if re.match(r"(\[\[|mem:)[^#]+\Z", memory_id) else None
            places = self.index.find_ids(paths=[str(self.settings.project / memory_id)])
            same = (each for each in known if each.split("/")[-1].casefold() == link)
            others = (self.find_new_name(memory_id), *places, *same)
            if (other := next(filter(None, others), "")) and not is_exact:
                return self.memory(other)
            hint = find_nearest(memory_id, known) or "Search for it, or list the memories."
            hint = f"Its id is {other!r}." if other else hint
            raise NotFound(f"There is no memory {memory_id!r}.", hint, id=memory_id)
        return found

    def close(self) -> None:
        """Release databases and locks."""
        note_ledger_end(self.folder)
        self.storage.close()
        if self.team:
            self.team.close()

    def __exit__(self, *_: object) -> None:
        self.close()


@lru_cache(maxsize=1024)  # a file is read again with each change of it
def _is_deceptive(name: str) -> bool:
    return replace_invisible(name) != name or is_suspicious(name.replace("_", " "))


def make_source_file(source: str, memory_id: str, path: Path, *, size: int = 0, mtime_ns: int = 0) -> SourceFile:
    """A memory's file in a writable vault."""
    return SourceFile(
        source=source,
        memory_id=memory_id,
        path=str(path),
        size=size,
        mtime_ns=mtime_ns,
        writable=True,
        artifact=ArtifactClass.MEMORY,
        trust=Trust.AGENT if source == SERENA else Trust.HUMAN,
    )


def load_memory(project: Path, unreadable: list[ConfigError] | None = None) -> Settings:
    """The settings of a project that has a memory, as from `load`; raises ConfigError also for one that has none."""
    settings = config.load(project, unreadable=unreadable)
    if not settings.folder.is_dir():
        raise explain_missing(settings)
    return settings


def explain_missing(settings: Settings) -> ConfigError:
    """The error for a project without a memory, or with one in git that is not checked out."""
    if is_left_out(settings.folder):
        what = f"{settings.project} has a memory in git, but the sparse checkout leaves it out."
        return ConfigError(what, f"Run `git sparse-checkout add {settings.folder.name}` there.")
    return ConfigError(f"{settings.project} has no memory yet.", "Run `scrimshaw init` there first.")


def open_engine(
    settings: Settings,
    *,
    sources: Sequence[Source] | None = None,
    folder: Path | None = None,
    replace_lost_journal: bool = False,
    for_team: bool = False,
) -> Engine:
    """Open a project's memory; raises DamagedDatabase for a lost journal, unless a new one may replace it.

    With `for_team` it only has what every reader of the project may see: not the user's own vault and peers,
    recorded sessions, or anything marked as private.
    """
    limit_native_threads()
    if for_team:
        (vault, *others), top = list_project_sources(settings)[:-1], settings.project.resolve()
        # A configuration that came with a clone could name any folder of this machine.
        sources = [vault, *(each for each in others if each.root.resolve().is_relative_to(top))]
        settings = structs.replace(settings, peers=())
    folder = folder or settings.folder
    move_journal(folder)
    hide_from_git(folder)
    storage = open_storage(settings, folder=folder, replace_lost_journal=replace_lost_journal)
    storage.demand_sound()
    team = None
    if for_team:  # in a folder of their own, or in a vault of their own on PostgreSQL
        make_folders(folder / TEAM, PRIVATE_FOLDER)
        apart = structs.replace(settings.storage, vault=settings.storage.vault and f"{settings.storage.vault}_team")
        team = open_storage(structs.replace(settings, storage=apart), folder=folder / TEAM)
    read = team or storage
    embedder = open_embedder(settings.embedding)
    engine = Engine(
        settings=settings,
        sources=tuple(list_project_sources(settings) if sources is None else sources),
        storage=storage,
        index=read.index,
        journal=storage.journal,
        sessions=read.sessions,
        maintenance=storage.maintenance,
        embedder=embedder,
        searcher=Searcher(read.index, settings, embedder),
        folder=folder,
        team=team,
        embed_job=EMBED_TEAM if team else EMBED,
    )
    if transaction.is_interrupted(folder):
        with engine.write_lock():  # which cleans up after a killed process
            pass
    return engine


def list_project_sources(settings: Settings) -> list[Source]:
    """The sources of a project, in order: its vault, Serena's, its documents, the user's own vault."""
    memory = ArtifactClass.MEMORY
    # Every document, so that one in another format than a memory's is named.
    vault = Source(name="vault", root=settings.folder / MEMORIES, include=("**/*",), writable=True, artifact=memory)
    user = replace(vault, name="global", root=settings.home / MEMORIES, id_prefix=GLOBAL)
    stated = [Source(**{**structs.asdict(each), "root": settings.project / each.root}) for each in settings.sources]
    documents = stated or discover(settings.project, settings.serena_home)
    if settings.index.include:
        documents.append(Source(name="included", root=settings.project, include=settings.index.include))
    exclude = settings.index.exclude  # files that no document source reads; hand-written memories are not split
    limited = [each if each.artifact == memory else replace(each, exclude=each.exclude + exclude) for each in documents]
    return [vault, *limited, user]
