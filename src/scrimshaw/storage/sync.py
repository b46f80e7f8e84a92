"""Keeping the index in step with the files.

A file is looked at again only when its size or time changed, and parsed again only when its bytes did, or when the
index does not hold whole what it says it read. What the index knows of a file is written after the file was read, so
that a failure is met again at the next scan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from scrimshaw.errors import DamagedDatabase, UnreadableFile
from scrimshaw.models import Document, Skip, SourceFile, content_hash
from scrimshaw.storage.ports import FileState, Index
from scrimshaw.storage.scan import Limits, Source, scan

# A commit costs about as much as indexing a few files.
BATCH = 100
# The size of what was passed over unread: that of no file, so that it is read once it may be.
_UNREAD = -1

Parse = Callable[[SourceFile, bytes], Document]
Progress = Callable[[int, int], None]


class Change(Struct, frozen=True, kw_only=True):
    """A file whose content changed, appeared (no prior hash) or went away (no new hash)."""

    memory_id: str
    path: str
    prior_hash: str
    new_hash: str
    writable: bool


class SyncReport(Struct, frozen=True, kw_only=True):
    """What a scan did. `changes` are those of memories, `skipped` the files that cannot be one, with reasons.

    `mended` counts the unchanged files that were read again all the same, since the index did not hold them whole.
    """

    files: int
    unchanged: int
    changes: tuple[Change, ...]
    skipped: tuple[Skip, ...]
    mended: int = 0

    @property
    def added(self) -> int:
        """Memories that appeared."""
        return sum(not change.prior_hash for change in self.changes)

    @property
    def removed(self) -> int:
        """Memories that went away."""
        return sum(not change.new_hash for change in self.changes)

    @property
    def updated(self) -> int:
        """Memories whose content changed."""
        return len(self.changes) - self.added - self.removed

    def renames(self) -> Iterator[tuple[str, str]]:
        """(old id, new id) of memories that went away while one of the same content appeared."""
        gone = {change.prior_hash: change.memory_id for change in self.changes if not change.new_hash}
        for change in self.changes:
            if not change.prior_hash and change.new_hash in gone:
                yield gone.pop(change.new_hash), change.memory_id


class Synchronizer:
    """Brings one index up to date with the sources; the first source that has an id keeps it."""

    def __init__(self, index: Index, parse: Parse, limits: Limits) -> None:
        self._index = index
        self._parse = parse
        self._limits = limits

    def sync(self, sources: Sequence[Source], *, force: bool = False, progress: Progress | None = None) -> SyncReport:
        """Scan all sources; with `force` every file is read again."""
        # Before the files: what another process adds meanwhile is not taken for gone.
        known = {path: state for source in sources for path, state in self._index.manifest(source.name).items()}
        incomplete = self._incomplete_files()
        files, passed = self._scan(sources)
        skips = [skip for _, skip in passed]
        changes: list[Change] = []
        batch: list[Document] = []
        unread = mended = 0
        for number, file in enumerate(files, start=1):
            state = known.pop(file.path, None)
            result = self._look(file, state, force or file.path in incomplete)
            if isinstance(result, Document):
                batch.append(result)
                if file.path in incomplete and state and state.content_hash == result.content_hash:
                    mended += 1
                else:
                    changes.append(_change(file, state, result.content_hash))
            elif result:
                skips.append(result)
                unread += 1
            if batch and (len(batch) >= BATCH or number == len(files)):
                self._index.put(batch)
                batch = []
            if progress:
                progress(number, len(files))
        unchanged = len(files) - len(changes) - unread
        changes += self._pass_over(passed, known, {file.path for file in files})
        if incomplete:
            gone = incomplete.difference(file.path for file in files)
            self._index.retire(sorted(gone), orphans=True)
        return SyncReport(
            files=len(files),
            unchanged=unchanged,
            changes=tuple(changes),
            skipped=tuple(sorted(skips, key=lambda skip: skip.path)),
            mended=mended,
        )

    def _incomplete_files(self) -> set[str]:
        """Paths of what the index lacks in part; in a damaged one nobody can tell, and its searches report it."""
        try:
            return set(self._index.incomplete_files())
        except DamagedDatabase:
            return set()

    def _scan(self, sources: Sequence[Source]) -> tuple[list[SourceFile], list[tuple[str, Skip]]]:
        """The files to read, and those that are none, each with the name of its source."""
        files: dict[str, SourceFile] = {}
        skips: list[tuple[str, Skip]] = []
        for source in sources:
            for found in scan(source, self._limits):
                if isinstance(found, Skip):
                    skips.append((source.name, found))
                elif found.memory_id in files:
                    other = files[found.memory_id].path
                    if other != found.path:
                        reason = f"{found.memory_id} is read from {other}"
                        skips.append((source.name, Skip(path=found.path, reason=reason)))
                else:
                    files[found.memory_id] = found
        return list(files.values()), skips

    def _pass_over(
        self, passed: Sequence[tuple[str, Skip]], left: dict[str, FileState], read: Collection[str]
    ) -> list[Change]:
        """Forget the files that are gone of those `left`, and remember why the others are passed over."""
        told = {skip.path: (source, skip.reason) for source, skip in passed if skip.path not in read}
        known = {path for path, (_, reason) in told.items() if path in left and left[path].reason == reason}
        for path in known:
            del left[path]
        changes = self._retire(left)
        for path, (source, reason) in told.items():
            if path not in known:
                nothing = SourceFile(source=source, memory_id="", path=path, size=_UNREAD, mtime_ns=0)
                self._index.record_file(nothing, "", skipped=reason)
        return changes

    def _look(self, file: SourceFile, state: FileState | None, force: bool) -> Document | Skip | None:
        """The parsed file, why it cannot be parsed, or None when its content did not change."""
        if state and not force and (state.size, state.mtime_ns) == (file.size, file.mtime_ns):
            return Skip(path=file.path, reason=state.reason) if state.reason else None
        try:
            raw = Path(file.path).read_bytes()
        except OSError as error:
            return Skip(path=file.path, reason=f"it cannot be read: {error.strerror}")
        digest = content_hash(raw)
        if state and not force and state.content_hash == digest and state.memory_id == file.memory_id:
            self._index.record_file(file, digest)
            return None
        try:
            return self._parse(file, raw)
        except UnreadableFile as error:
            self._index.record_file(file, digest, skipped=error.message)
            return Skip(path=file.path, reason=error.message)

    def _retire(self, gone: dict[str, FileState]) -> list[Change]:
        if gone:
            self._index.retire(list(gone))
        return [
            Change(memory_id=s.memory_id, path=s.path, prior_hash=s.content_hash, new_hash="", writable=False)
            for s in gone.values()
            if s.memory_id
        ]


def _change(file: SourceFile, state: FileState | None, digest: str) -> Change:
    prior = state.content_hash if state and state.memory_id else ""
    return Change(memory_id=file.memory_id, path=file.path, prior_hash=prior, new_hash=digest, writable=file.writable)
