"""What a purge is after: a secret in all its forms, or memories with what only they said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from scrimshaw.engine.checkpoints import newest_first
from scrimshaw.engine.core import GLOBAL, MEMORIES, Engine
from scrimshaw.errors import NotFound, ReadOnly, UnusableArchive
from scrimshaw.ingest.traces import ByteTraces, of_passages, of_pattern, of_secret, passage_forms
from scrimshaw.models import SourceFile
from scrimshaw.storage.erasing_archives import texts_in_archive
from scrimshaw.storage.erasing_files import contents
from scrimshaw.storage.paths import SUFFIX, locate
from scrimshaw.storage.ports import Wipe
from scrimshaw.storage.scan import scan

# A shorter line is no memory's own: headings and stock phrases stand in many.
PASSAGE_CHARACTERS = 24
# The longest lines of a memory; a text of more is told by them.
MOST_PASSAGES = 200
_WHICH = f"lines of at least {PASSAGE_CHARACTERS} characters that no other file has, at most {MOST_PASSAGES},"


class Target(Struct, frozen=True, kw_only=True):
    """What is purged: `traces` of a text; memories, their files, the names of these in checkpoints and in rows."""

    traces: ByteTraces
    memory_ids: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    reason: str = "a secret was purged"
    actor: str = "human"
    session: str = ""

    @property
    def wipe(self) -> Wipe:
        """What the databases are told."""
        return Wipe(self.traces, self.memory_ids, self.paths)


def secret(text: str, *, is_pattern: bool = False) -> Target:
    """A secret, or what an expression (RE2) describes; raises InvalidRequest."""
    return Target(traces=of_pattern(text) if is_pattern else of_secret(text))


def memories(
    engine: Engine, ids: Sequence[str], *, reason: str = "purged", actor: str = "human", session: str = ""
) -> Target:
    """Memories, also those that were retired, with every line that stands in nothing else that is read.

    Raises NotFound for one of which nothing is known, ReadOnly for one that is not ours, InvalidMemoryId.
    """
    files = tuple(_file(engine, memory_id) for memory_id in ids)
    names = tuple(_name(memory_id) for memory_id in ids)
    texts = [text for file in files if (text := contents(file).decode(errors="replace"))]
    texts += [*_prior_texts(engine, ids), *_archived_texts(engine, names)]
    for memory_id, file in zip(ids, files, strict=True):
        _demand_known(engine, memory_id, file, texts)
    return Target(
        traces=of_passages(_passages(engine, texts, files), _WHICH),
        memory_ids=tuple(ids),
        files=files,
        names=names,
        paths=tuple(path for file in files for path in _spellings(engine, file)),
        reason=reason,
        actor=actor,
        session=session,
    )


def _file(engine: Engine, memory_id: str) -> Path:
    known = engine.index.get([memory_id]).get(memory_id)
    if known and not known.writable:
        raise ReadOnly(
            f"{memory_id!r} is read from {known.path}, which Scrimshaw never writes.",
            "Remove the file yourself, then purge what stood in it with --secret.",
            id=memory_id,
        )
    vault, name = engine.vault_of(memory_id)
    return Path(known.path).resolve() if known else locate(vault.root, name)


def _name(memory_id: str) -> str:
    """The name of a memory's file in a checkpoint."""
    return f"{memory_id}{SUFFIX}" if memory_id.startswith(GLOBAL) else f"{MEMORIES}/{memory_id}{SUFFIX}"


def _demand_known(engine: Engine, memory_id: str, file: Path, texts: Sequence[str]) -> None:
    if not (file.is_file() or engine.journal.history(memory_id, 1) or texts):
        raise NotFound(
            f"Nothing is known of a memory {memory_id!r}.", "See `scrimshaw ledger show` for past ones.", id=memory_id
        )


def _spellings(engine: Engine, file: Path) -> Iterator[str]:
    """The path as rows may have it: whole, or from the project on."""
    project = engine.settings.project
    for root in (project, project.resolve()):
        if file.is_relative_to(root):
            inside = file.relative_to(root)
            yield from (inside.as_posix(), str(project / inside))
    yield str(file)


def _prior_texts(engine: Engine, ids: Iterable[str]) -> Iterator[str]:
    for memory_id in ids:
        for row in engine.journal.history(memory_id):
            text = engine.journal.prior(memory_id, row["prior_hash"])
            if text:
                yield text


def _archived_texts(engine: Engine, names: Sequence[str]) -> Iterator[str]:
    for path in newest_first(engine):
        try:
            yield from texts_in_archive(path, engine.journal.schema(), names)
        except UnusableArchive:  # the purge itself reports it
            continue


def _passages(engine: Engine, texts: Sequence[str], files: Sequence[Path]) -> list[str]:
    """The lines that only these memories have."""
    lines = {line.strip() for text in texts for line in text.splitlines()}
    own = sorted((line for line in lines if len(line) >= PASSAGE_CHARACTERS), key=lambda line: (-len(line), line))
    own = own[:MOST_PASSAGES]
    while shared := _shared(engine, of_passages(own), files):
        # Again, since a line may stand in the longer one that was found.
        own = [line for line in own if shared.isdisjoint(passage_forms(line))]
    return own


def _shared(engine: Engine, passages: ByteTraces, files: Sequence[Path]) -> set[bytes]:
    found: set[bytes] = set()
    for path in read_files(engine):
        if path.resolve() not in files:
            found |= passages.found(contents(path))
    return found


def read_files(engine: Engine) -> Iterator[Path]:
    """The files that memories are read from, documents as well."""
    for source in engine.sources:
        for file in scan(source, engine.limits()):
            if isinstance(file, SourceFile):
                yield Path(file.path)
