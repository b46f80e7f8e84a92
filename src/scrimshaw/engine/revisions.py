"""The past of memories: who changed one and when, and all of them as of a commit."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import Settings, StorageSettings
from scrimshaw.engine import read
from scrimshaw.engine.core import Engine, open_engine
from scrimshaw.engine.degradations import describe_loss
from scrimshaw.engine.index import scan
from scrimshaw.errors import NotFound, StorageFailure
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Degradation
from scrimshaw.search.results import Hit, SearchRequest, SearchResult
from scrimshaw.storage.git import Commit, find_commit, list_commits, read_tree, work_tree
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.scan import SUFFIXES

_CONFIG_SUFFIXES = (".toml", ".yml")  # settings of how documents are read


class MemoryChange(Struct, frozen=True, kw_only=True):
    """A change of a memory, from git or the ledger."""

    at: str  #: ISO time in UTC
    id: str  #: the memory's id at the time
    what: str  #: the subject of the commit, or the action and its reason
    by: str  #: the author of the commit, or `human`, `agent` and the like
    session: str = ""
    entry: int = 0  #: of the ledger; 0 for a commit
    commit: str = ""
    patch: str = ""


class MemoryLog(Struct, frozen=True, kw_only=True):
    """The changes of a memory, newest first."""

    id: str
    changes: tuple[MemoryChange, ...]
    degradation: Degradation | None = None


def read_log(engine: Engine, memory_id: str, *, patches: bool = False) -> MemoryLog:
    """The commits and ledger entries of a memory, across renames, even of a deleted one; raises NotFound."""
    known = engine.index.get([memory_id]).get(memory_id)
    vault, inside = engine.vault_of(memory_id)
    path = Path(known.path) if known else vault.root / f"{inside}{SUFFIX}"
    commits, degradation = list[Commit](), None
    try:
        commits = list_commits(path, patches=patches)
    except StorageFailure as error:
        degradation = describe_loss("commits", error.message, error.hint)
    top = Path(work_tree(next(each for each in path.parents if each.is_dir()))) if commits else Path()
    names = {each.path: engine.name_file(top / each.path) or memory_id for each in commits}
    changes = [
        MemoryChange(
            at=datetime.fromisoformat(each.at).astimezone(UTC).isoformat(timespec="seconds"),
            id=names[each.path],
            what=redact(each.subject).text,
            by=each.author,
            commit=each.commit,
            patch=redact(each.patch).text,
        )
        for each in commits
    ]
    for name in _find_earlier_ids(engine, {memory_id: None, **dict.fromkeys(names.values())}):
        changes += (
            MemoryChange(
                at=datetime.fromtimestamp(row["at"], UTC).isoformat(timespec="seconds"),
                id=row["memory_id"],
                what=f"{row['action']}: {row['reason']}" if row["reason"] else str(row["action"]),
                by=row["actor"],
                session=row["session"],
                entry=row["seq"],
            )
            for row in engine.journal.history(name)
        )
    if not changes:
        raise NotFound(f"Nothing is known of a memory {memory_id!r}.", "Search for it.", id=memory_id)
    ordered = sorted(changes, key=lambda each: (each.at, each.entry), reverse=True)
    return MemoryLog(id=memory_id, changes=tuple(ordered), degradation=degradation)


def search_past(engine: Engine, request: SearchRequest, revision: str) -> SearchResult:
    """What a search by words would have found at a commit, `COMMIT:PATH` as the paths; raises NotFound."""
    commit = find_commit(engine.settings.project, revision)
    with _open_past(engine.settings, commit) as past:
        result = read.search(past, replace(request, record=False))

    def place(hit: Hit) -> Hit:
        name = Path(hit.memory.path).relative_to(past.settings.project).as_posix() if hit.memory.path else ""
        return replace(hit, memory=replace(hit.memory, path=f"{commit.commit[:12]}:{name}"))

    as_of = Degradation(
        failure_mode=f"as of {commit.at[:10]}, commit {commit.commit[:12]}: {redact(commit.subject).text}",
        fallback_mode="searched by words, in the memories and documents of that commit",
        confidence_impact="what says it in other words may be missing; sessions and your own vault are not searched",
        retry_recommendation=f"`git show {commit.commit[:12]}:./PATH` prints a file of then",
    )
    moved = {name: tuple(map(place, getattr(result, name))) for name in ("hits", "always_on", "nearest")}
    return replace(result, **moved, degradations=(as_of,))


@contextmanager
def _open_past(settings: Settings, commit: Commit) -> Iterator[Engine]:
    """The project's memory as of a commit, without vectors: making them for all texts would take minutes."""
    with TemporaryDirectory(prefix="scrimshaw-", ignore_cleanup_errors=True) as folder:
        project = Path(folder).resolve() / settings.project.name
        moment = datetime.fromisoformat(commit.at).timestamp()
        suffixes = (*SUFFIXES, *_CONFIG_SUFFIXES)
        for name, content in read_tree(settings.project, commit.commit, suffixes, settings.index.max_file_bytes):
            file = project / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            os.utime(file, (moment, moment))
        past = replace(
            settings,
            project=project,
            home=project.parent / "home",
            serena_home=None,
            embedding=replace(settings.embedding, provider="none"),
            storage=StorageSettings(),  # a server's databases are those of now
            sources=tuple(each for each in settings.sources if not Path(each.root).is_absolute()),
            peers=(),
        )
        past.folder.mkdir(parents=True, exist_ok=True)
        with open_engine(past) as engine:
            scan(engine)
            yield engine


def _find_earlier_ids(engine: Engine, names: Iterable[str]) -> dict[str, None]:
    """These ids, and those that the ledger saw the same file have before."""
    known = dict[str, None]()
    pending = [*names]
    while pending:
        if (name := pending.pop()) in known:
            continue
        known[name] = None
        rows = engine.journal.history(name)
        if rows and rows[-1]["action"] == Action.EXTERNAL and not rows[-1]["prior_hash"]:
            gone = (row for row in engine.journal.history() if row["action"] == Action.EXTERNAL and not row["new_hash"])
            pending += (row["memory_id"] for row in gone if row["prior_hash"] == rows[-1]["new_hash"])
    return known
