"""Keeping the index in step with the files.

A file is read again only if its size or time changed, and parsed again only if its bytes did. The index records a file
after the file was read, so that a failure is repeated at the next scan.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.errors import UnreadableFile
from scrimshaw.models import EVERY, RECORD, ArtifactClass, Document, Skip, SourceFile, content_hash
from scrimshaw.storage.index import Index
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.ports import FileState
from scrimshaw.storage.scan import SECOND_NAME, UNREAD, Source, scan
from scrimshaw.storage.toml_files import LINKS_FILE

BATCH = 100  # a commit costs about as much as indexing a few files
_DAY_NS = 86_400 * 10**9  # within a day, such as in a fresh clone, the smallest files come first
_UNREAD = -1  # an impossible size, for a file skipped unread, so that it is read once it is allowed

Parse = Callable[[SourceFile, bytes], Document]
Progress = Callable[[int, int], None]


class Change(Struct, frozen=True, rename={"memory_id": "id"}):
    """A file whose content changed, that appeared (no prior hash) or disappeared (no new hash)."""

    memory_id: str
    path: str
    prior_hash: str
    new_hash: str


class SyncReport(Struct, frozen=True):
    files: int
    unchanged: int
    changes: tuple[Change, ...]  #: of memories
    skipped: tuple[Skip, ...]  #: the files that cannot be memories, with reasons
    added: int  #: memories that appeared
    removed: int
    updated: int  #: memories whose content changed

    def renames(self) -> Iterator[tuple[str, str]]:
        """(old id, new id) of memories that disappeared while one of the same content appeared."""
        gone = {change.prior_hash: change.memory_id for change in self.changes if not change.new_hash}
        for change in self.changes:
            if not change.prior_hash and change.new_hash in gone:
                yield gone.pop(change.new_hash), change.memory_id


def sync_index(
    index: Index,
    sources: Sequence[Source],
    parse: Parse,
    max_bytes: int,
    *,
    force: bool,
    progress: Progress | None,
    is_kept: Callable[[str], bool] = lambda _: False,
) -> SyncReport:
    """Bring an index up to date with the sources, and others to keep; with `force` every file is read again."""
    # Before the files, so that what another process adds meanwhile does not look deleted.
    known = _find_known(index, sources, is_kept)
    # A file that Serena's settings open or close to writers is read again too.
    ruled = [index.select(replace(EVERY, source=source.name)) for source in sources if source.settings]
    writable = {memory.path: memory.writable for memory in chain.from_iterable(ruled)}
    files, skips = _find_files(sources, max_bytes)
    skipped = [skip for _, skip in skips]
    changes, batch, rewritten, broken = list[Change](), list[Document](), 0, list[Skip]()
    # Vectors are made in the order in which files are indexed: the last changed are likely to be needed first.
    newest_first = sorted(files.values(), key=lambda file: (-file.mtime_ns // _DAY_NS, file.size))
    for number, file in enumerate(newest_first, start=1):
        state = known.pop(file.path, None)
        is_due = force or writable.get(file.path, file.writable) != file.writable
        result = _read_changed(index, parse, file, state, is_due)
        if isinstance(result, Document):
            batch.append(result)
            rewritten += bool(state and state.memory_id)
            broken += [Skip(path=file.path, reason=result.problem, is_found=True)] if result.problem else []
            prior = state.content_hash if state and state.memory_id else ""
            changes.append(Change(file.memory_id, file.path, prior, result.content_hash))
        elif result:
            skipped.append(result)
        if batch and (len(batch) >= BATCH or number == len(files)):
            index.put(batch)
            batch = []
        if progress:
            progress(number, len(files))
    unchanged = len(files) - len(changes) - (len(skipped) - len(skips))
    read = {file.path for file in files.values()}
    changes += _update_skips(index, skips, known, read)
    if not index.generation():
        index.retire([])  # nothing was found, but all was read
    if rewritten > len(files) // 2:  # their old words slow text queries threefold
        index.retire([], merge_words=True)
    skipped += broken
    skipped.sort(key=attrgetter("path"))
    added = [*map(attrgetter("prior_hash"), changes)].count("")
    removed = [*map(attrgetter("new_hash"), changes)].count("")
    counts = (added, removed, len(changes) - added - removed)
    return SyncReport(len(files), unchanged, tuple(changes), tuple(skipped), *counts)


def compare_files(index: Index, sources: Sequence[Source], max_bytes: int) -> dict[str, list[str]]:
    """The ids that are `fresh`, `stale`, `missing` and `orphaned` in an index, given the files; changes nothing."""
    found: dict[str, list[str]] = {"fresh": [], "stale": [], "missing": [], "orphaned": []}
    known = _find_known(index, sources, lambda _: False)
    for file in _find_files(sources, max_bytes)[0].values():
        state = known.pop(file.path, None)
        with suppress(OSError):  # a scan reports it
            digest = content_hash(Path(file.path).read_bytes())
            is_same = state and (state.content_hash, state.memory_id or file.memory_id) == (digest, file.memory_id)
            found["missing" if state is None else "fresh" if is_same else "stale"].append(file.memory_id)
    found["orphaned"] += (state.memory_id for state in known.values() if state.memory_id)
    return found


def _find_known(index: Index, sources: Sequence[Source], is_kept: Callable[[str], bool]) -> dict[str, FileState]:
    """The files that the index knows from these sources, and from those that are gone."""
    states = index.manifest()
    others = {state.source for state in states.values()} - {source.name for source in sources}
    kept = {name for name in others if name in (RECORD, LINKS_FILE) or is_kept(name)}
    return {path: state for path, state in states.items() if state.source not in kept}


def _find_files(sources: Sequence[Source], max_bytes: int) -> tuple[dict[str, SourceFile], list[tuple[str, Skip]]]:
    """The files to read by id, and skipped ones with their source; the first source with either keeps it.

    A document whose id a memory has keeps the end of its file's name in its id: no memory hides what others wrote.
    """
    memories = {source.name for source in sources if source.artifact == ArtifactClass.MEMORY}
    files, skips, paths = dict[str, SourceFile](), list[tuple[str, Skip]](), set[str]()
    each_found = [(source.name, found) for source in sources for found in scan(source, max_bytes)]
    # Links last, so that no file gets another id because something links to it.
    for source, found in sorted(each_found, key=lambda each: isinstance(each[1], SourceFile) and bool(each[1].link)):
        if isinstance(found, Skip):
            skips.append((source, found))
        elif found.path in paths:
            skips += [(source, Skip(path=found.link, reason=SECOND_NAME))] if found.link else []
        else:
            if found.memory_id in files and files[found.memory_id].source in memories and source not in memories:
                found = replace(found, memory_id=f"{found.memory_id}{SUFFIX}")
            if (first := files.setdefault(found.memory_id, found)) is found:
                paths.add(found.path)
            else:
                skips.append((source, Skip(path=found.path, reason=f"{found.memory_id} is read from {first.path}")))
    return files, skips


def _read_changed(
    index: Index, parse: Parse, file: SourceFile, state: FileState | None, force: bool
) -> Document | Skip | None:
    """The parsed file, why it cannot be parsed, or None when its content did not change."""
    # It may have had the id of a link to it, or have come from another source.
    force = force or bool(state and (state.source != file.source or state.memory_id not in ("", file.memory_id)))
    if state and not force and (state.size, state.mtime_ns) == (file.size, file.mtime_ns):
        return _remember_skip(state)
    try:
        raw = Path(file.path).read_bytes()
    except OSError as error:
        return Skip(path=file.path, reason=f"{UNREAD}: {error.strerror}")
    digest = content_hash(raw)
    if state and not force and state.content_hash == digest and state.memory_id == file.memory_id:
        index.record_file(file, digest)
        return _remember_skip(state)
    try:
        return parse(file, raw)
    except UnreadableFile as error:
        index.record_file(file, digest, skipped=error.message)
        return Skip(path=file.path, reason=error.message)


def _remember_skip(state: FileState) -> Skip | None:
    """Why an unchanged file was skipped."""
    return Skip(path=state.path, reason=state.reason, is_found=bool(state.memory_id)) if state.reason else None


def _update_skips(
    index: Index, skips: Sequence[tuple[str, Skip]], left: Mapping[str, FileState], read: Collection[str]
) -> list[Change]:
    """Of the files `left`, forget those that are gone and store why the others are skipped."""
    reasons = {skip.path: (source, skip.reason) for source, skip in skips if skip.path not in read}
    gone = {path: state for path, state in left.items() if reasons.get(path) != (state.source, state.reason)}
    if gone:
        index.retire(list(gone))
    for path, (source, reason) in reasons.items():
        if path in gone or path not in left:
            nothing = SourceFile(source=source, memory_id="", path=path, size=_UNREAD, mtime_ns=0)
            index.record_file(nothing, "", skipped=reason)
    return [Change(each.memory_id, each.path, each.content_hash, "") for each in gone.values() if each.memory_id]
