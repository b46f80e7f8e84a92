"""The ports of storage: what the rest of the product may ask of a database, in words.

`Index` holds what was derived from files; dropping it loses nothing. `Sessions` and `Journal` are durable: when a
method that writes has returned, its effect survives a crash. Implementations are safe to call from several threads and,
for one database, from several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from scrimshaw.models import (
    Chunk,
    Document,
    Drafted,
    Edge,
    Entry,
    Filters,
    Injected,
    Item,
    Job,
    Memory,
    NewItem,
    Observation,
    RecordedEvent,
    Session,
    SessionState,
    Skip,
    SourceFile,
)
from scrimshaw.storage.kept import Kept, Recorded


class Match(Struct, frozen=True, kw_only=True):
    """A candidate of one channel: higher `score` is better, its scale is the channel's own.

    `chunk` is the ordinal of the best chunk where the channel knows it, else -1.
    """

    id: str
    score: float
    chunk: int = -1


class FileState(Struct, frozen=True, kw_only=True):
    """What the index last saw of a file. `memory_id` is empty for a file that was skipped for `reason`."""

    path: str
    size: int
    mtime_ns: int
    content_hash: str
    memory_id: str
    reason: str = ""


class Neighbor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An edge met on a walk from a start: `hop` counts from 1; `start` is the memory the walk began at.

    `outward` says that the walk went from source to target, `path_strength` is the product of the strengths of the
    edges walked before this one, on the strongest of the shortest ways. `unresolved`: no memory is meant by the target.
    """

    start: str
    hop: int
    source: str
    target: str
    relation: str
    strength: float
    evidence: str
    path_strength: float = 1.0
    outward: bool = True
    unresolved: bool = False

    @property
    def place(self) -> str:
        """The memory that the walk reached over this edge."""
        return self.target if self.outward else self.source


class Piece(Struct, frozen=True, kw_only=True):
    """The text of a chunk, and the heading above it with its anchor."""

    anchor: str
    heading: str
    text: str


class PendingChunk(Struct, frozen=True, kw_only=True):
    """A chunk text that has no vector of the model yet; `key` names the text, `place` its row, which only grows."""

    place: int
    key: str
    text: str


class Review(Struct, frozen=True, kw_only=True):
    """Durable review state of a memory: what forgetting and validation know of it. Times are seconds since 1970."""

    memory_id: str
    stability: float
    difficulty: float
    last_review: float
    reviews: int = 0
    useful: int = 0
    not_useful: int = 0
    confidence: float = 0.5


class Admission(Struct, frozen=True, kw_only=True):
    """Whether a newcomer enters working memory, and the numbers of the items that leave it."""

    admitted: bool
    leaving: tuple[int, ...] = ()


# Decides over the items held now, the newcomer and the session's counter.
Admit = Callable[[Sequence[Item], NewItem, int], Admission]


class Learning(Struct, frozen=True, kw_only=True):
    """Self-assessed scores 0..100 of a task before (`pre`) or after it (`post`)."""

    folder: str
    task: str
    phase: str
    session: str
    knowledge: float
    uncertainty: float
    context: float
    gaps: tuple[str, ...] = ()
    at: float = 0.0


class Traces(Protocol):
    """A text that has to go, in every form it may have taken."""

    def count(self, data: bytes) -> int:
        """How often it stands in some bytes."""

    def erase(self, data: bytes) -> bytes:
        """The bytes with a marker in its place."""


class Wipe(Struct, frozen=True):
    """What a purge erases: traces of a text wherever they stand, and rows about these memories or their files."""

    traces: Traces
    memory_ids: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class Index(Protocol):
    """Derived, disposable: everything here can be rebuilt from the files."""

    def put(self, documents: Sequence[Document]) -> None:
        """Store documents, replacing those of the same id, in one transaction."""

    def retire(self, paths: Sequence[str]) -> None:
        """Forget the files at these paths and the memories read from them."""

    def clear(self) -> None:
        """Forget everything."""

    def merge_text(self) -> None:
        """Write the full-text index anew, without the words of rows that went."""

    def traces(self, wipe: Wipe) -> dict[str, int]:
        """How many rows hold what a purge is to erase, by table."""

    def compact(self) -> list[Path]:
        """Give up the room of what was erased; the files that could not be written anew, since others hold them."""

    def touch(self, file: SourceFile, content_hash: str) -> None:
        """Remember new size and time of a file whose content did not change."""

    def skip(self, file: SourceFile, content_hash: str, reason: str) -> None:
        """Remember that a file cannot be a memory; a memory read from it earlier is forgotten."""

    def manifest(self, source: str) -> Mapping[str, FileState]:
        """What is known of the files of a source, by path."""

    def torn(self) -> list[str]:
        """Paths of files whose memory is not held whole, and of memories of which no file is known."""

    def sweep(self) -> None:
        """Forget what belongs to no memory."""

    def skips(self) -> list[Skip]:
        """The files that were passed over, by path."""

    def get(self, ids: Sequence[str]) -> dict[str, Memory]:
        """The memories of these ids; an unknown id is absent."""

    def bodies(self, ids: Sequence[str]) -> dict[str, str]:
        """The redacted bodies of these memories."""

    def chunks(self, ids: Sequence[str]) -> dict[str, list[Chunk]]:
        """The chunks of these memories, in order."""

    def pieces(self, wanted: Sequence[tuple[str, int]]) -> dict[str, Piece]:
        """The chunks named by memory id and ordinal, one per memory; what does not exist is absent."""

    def select(self, filters: Filters, *, sort: str, limit: int, offset: int) -> list[Memory]:
        """A page of the memories that satisfy the filters; `sort` is `id`, `title`, `created` or `updated`."""

    def count(self, filters: Filters, *, by: str = "") -> dict[str, int]:
        """Exact counts by `tier`, `type`, `artifact`, `source`, `folder` or `topic`; else the only key is `""`."""

    def at_paths(self, paths: Sequence[str]) -> dict[str, str]:
        """Path -> the id of the memory read from that file; a path that holds none is absent."""

    def same_text(self, text_hash: str) -> list[str]:
        """The ids of memories whose normalised body has this hash."""

    def twins(self, memory_id: str) -> list[str]:
        """The ids that differ from this one in case at most."""

    def match_text(self, expression: str, filters: Filters, limit: int) -> list[Match]:
        """The best memories for a full-text expression."""

    def match_vector(self, model: str, vector: Any, filters: Filters, limit: int) -> list[Match]:
        """The nearest memories by cosine to `vector`, a normalised float32 array; the best chunk counts."""

    def phrases(self, heads: Collection[str], *, titles: bool) -> list[tuple[str, str]]:
        """(phrase, memory id) of the phrases with one of these heads; with `titles` also the titles of memories."""

    def alike(self, sketch: Sequence[int], *, shared: int, limit: int) -> list[str]:
        """The ids of memories that share at least so many hashes with a sketch, those with most first."""

    def generation(self) -> int:
        """A number that changes whenever the index does."""

    def neighbors(
        self, ids: Sequence[str], *, hops: int, direction: str, relations: Sequence[str] = ()
    ) -> list[Neighbor]:
        """Edges within `hops` of the starts; direction is `outgoing`, `incoming` or `both`."""

    def edges(self, source: str = "") -> list[tuple[Edge, str]]:
        """Edges as they are written, of one memory or of all, each with the id it means; empty while it dangles."""

    def dangling(self, ids: Sequence[str], relation: str) -> set[str]:
        """Those of the memories that state this relation to what is no memory."""

    def put_links(self, links: Sequence[Edge]) -> None:
        """Replace the edges of kind `external` by these; one whose source is no memory, or states it, is left out."""

    def pending(self, model: str, *, after: int, limit: int) -> list[PendingChunk]:
        """Chunk texts without a vector of this model in the order of their places, those behind `after`."""

    def put_vectors(self, model: str, rows: Iterable[tuple[str, Any]]) -> None:
        """Store one normalised vector per chunk key; raises StorageFailure if the model's dimension differs."""

    def vector_progress(self, model: str) -> tuple[int, int]:
        """(chunk texts with a vector of this model, all chunk texts)."""

    def vector_models(self) -> dict[str, int]:
        """Models with vectors in the index, and how many vectors each has."""

    def drop_vectors(self, model: str) -> None:
        """Forget the vectors of a model."""

    def version(self) -> str:
        """The database behind the index, by name and version."""

    def missing(self) -> list[str]:
        """Tables that are gone."""

    def check(self) -> list[str]:
        """Faults found by the database's own integrity check; empty when sound."""

    def size_bytes(self) -> int:
        """Bytes on disk."""

    def close(self) -> None:
        """Release files and connections."""


class Change(Struct, frozen=True, kw_only=True):
    """The status of a part since `at`, in seconds since 1970; `was` is the one before, empty at the first look."""

    status: str
    was: str
    at: float


class Conditions(Protocol):
    """Durable: which parts could do their work, and since when."""

    def probe(self) -> None:
        """Write, read back and undo it; raises StorageFailure where that does not work."""

    def record(self, seen: Mapping[str, str], *, now: float) -> None:
        """Keep the statuses by name, as far as they are not the last ones kept."""

    def changes(self) -> dict[str, Change]:
        """The last change of every part, by name."""


class Sessions(Protocol):
    """Durable: sessions, what happened in them, and what they were shown."""

    def open(self, session: str, *, client: str = "", process: int = 0, now: float) -> tuple[Session, bool]:
        """The session of this id and whether it is new; one that had ended is active again, its counter goes on."""

    def get(self, session: str) -> Session | None:
        """A session by id."""

    def latest(self, *, before: str = "", limit: int = 1) -> list[Session]:
        """Sessions by their last event, newest first, without `before`."""

    def of_process(self, processes: Sequence[int]) -> Session | None:
        """The active session whose client is one of these processes; the most recent, if several."""

    def tick(self, session: str, *, now: float, modulus: int, injected: Injected | None = None) -> int:
        """Count one event, and what the model was handed with it; the counter after it. No two callers get the same."""

    def close(self, session: str, state: SessionState, *, now: float) -> None:
        """End a session."""

    def sweep(self, *, silent_since: float) -> list[str]:
        """Interrupt the active sessions without an event since then; their ids."""

    def describe(self, session: str, *, task: str | None = None, context_used: float | None = None) -> None:
        """Store what was learned about a session; None leaves as it is."""

    def remember(self, session: str, item: NewItem, admit: Admit, *, now: float, modulus: int) -> Item:
        """Record an item at the counter; `admit` decides in one transaction what working memory holds."""

    def observe(self, seen: Observation, admit: Admit, *, now: float, modulus: int) -> bool:
        """Open the session, keep the event and remember its item, all or nothing; calls and prompts are counted.

        An item that working memory holds already, or the same file again, is a mention of it. False for an event that
        was reported before: then nothing changes.
        """

    def events(self, session: str, *, after: int = 0) -> list[RecordedEvent]:
        """The events of a session behind a number, in order."""

    def drafted(self, session: str) -> Drafted | None:
        """The last draft made of a session."""

    def record_draft(self, draft: Drafted) -> None:
        """Store or replace what is known of a session's last draft."""

    def undrafted(self, *, silent_since: float) -> list[str]:
        """Sessions that ended, or fell silent before then, with tool calls behind their last draft; oldest first."""

    def mention(self, session: str, number: int) -> None:
        """Add 1 to the mentions of an item; neither its base nor its clock changes."""

    def items(self, session: str, *, held: bool | None = None) -> list[Item]:
        """The items of a session in order; only those in working memory, or only those outside, if asked."""

    def drop(self, session: str, numbers: Sequence[int]) -> None:
        """Take items out of working memory; they stay in the record."""

    def show(self, session: str, shown: Mapping[str, str], *, now: float) -> None:
        """Remember that the session was shown these memories (id -> content hash)."""

    def shown(self, session: str) -> dict[str, str]:
        """What the session was shown: id -> content hash."""

    def record_injected(self, row: Injected) -> None:
        """Add a text to what the session's model was handed on its occasion; raises NotFound without such a session."""

    def injected(self, session: str = "") -> list[Injected]:
        """What the model of a session, or of every session, was handed, summed by session and occasion, in order."""

    def record_learning(self, row: Learning) -> None:
        """Store or replace the pre- or postflight of a task."""

    def learnings(self, folder: str, *, session: str = "", limit: int = 10) -> list[Learning]:
        """Pre- and postflights of a folder's tasks, newest first."""


class Staged(Protocol):
    """Rows that were found sound, ready to be taken over."""

    def commit(self, entries: Sequence[Recorded], *, clear: bool) -> dict[str, int]:
        """Take over rows that are missing and append entries, in one transaction; rows taken per table.

        With `clear` the tables hold these rows and no others. The ledger is taken only where there is none and
        contents are only added, those of purged memories never.
        """

    def close(self) -> None:
        """Release the database."""


class Journal(Protocol):
    """Durable: ledger, prior contents, review state and jobs."""

    def record(
        self, entries: Sequence[Recorded], jobs: Sequence[tuple[str, str]] = (), kept: Sequence[Kept] = ()
    ) -> list[int]:
        """Append ledger entries, each with the content it replaced, enqueue (kind, key) jobs, and keep texts for undo.

        One transaction; the numbers of the entries are returned in order.
        """

    def history(self, memory_id: str = "", limit: int = -1, *, session: str = "") -> list[Mapping[str, Any]]:
        """The newest ledger rows, newest first: of a memory, of a session, or of all; a negative limit means none."""

    def last_hashes(self) -> dict[str, str]:
        """The newest recorded hash of every file, by memory id or by the `file` of the entry's decision_meta.

        Empty string for one that was removed.
        """

    def prior(self, memory_id: str, content_hash: str) -> str | None:
        """A content that a file of this name has or had, by the hash of its bytes; redacted."""

    def traces(self, wipe: Wipe) -> dict[str, int]:
        """How many rows hold what a purge is to erase, by table, sessions included."""

    def erase(self, wipe: Wipe, purge: Entry, files: Sequence[Entry] = ()) -> dict[str, int]:
        """Take it out of every row and append `purge` and the rows of `files`, in one transaction; rows by table.

        A ledger row whose text holds it is rewritten, and so is the chain; the decision_meta of `purge` tells the rows
        erased, the last hash of the chain before, and where that was broken, if it was.
        """

    def compact(self) -> list[Path]:
        """Give up the room of what was erased; the files that could not be written anew, since others hold them."""

    def verify(self) -> tuple[int, int]:
        """(rows checked, number of the first row that breaks the chain or was cut off its end, 0 when sound)."""

    def schema(self) -> int:
        """The number of the schema that `dump` gives its rows in; it only grows."""

    def dump(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """(table, row) of everything durable, sessions included, as of one moment."""

    def stage(self, path: Path, schema: int, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Staged:
        """Check dumped rows (bytes as base64) against their schema, in a database at `path`; nothing else changes.

        Raises UnusableArchive naming what is wrong.
        """

    def transaction_committed(self, mark: str) -> bool:
        """Whether an entry whose decision_meta has this `mark` was committed."""

    def reviews(self, ids: Sequence[str]) -> dict[str, Review]:
        """Review states of these memories; an unreviewed one is absent."""

    def review(self, memory_id: str, change: Callable[[Review | None], Review]) -> Review:
        """Store what `change` makes of a memory's review state, None where there is none, in one transaction."""

    def rename(self, old: str, new: str) -> None:
        """Carry the review state of a memory to its new id."""

    def enqueue(self, kind: str, key: str, payload: Mapping[str, Any], total: int = 0) -> int:
        """Add a job and return its id; while one of the same kind and key waits, that one's id."""

    def claim(self, kinds: Sequence[str], lease_s: float) -> Job | None:
        """Take the oldest job that is due, or None. A job whose lease ran out is due again.

        While one of the same kind and key runs, its like waits.
        """

    def heartbeat(self, job: Job, done: int, total: int, lease_s: float) -> bool:
        """Report progress and keep the lease; False when the job was cancelled or lost to another worker."""

    def finish(self, job: Job, state: str, error: str = "", retry_in_s: float | None = None) -> None:
        """End a claimed job, or queue it again after `retry_in_s` seconds; nothing if another worker has it now.

        A done one is forgotten after 30 days, and puts its like aside that failed before.
        """

    def release(self, job: Job, why: str) -> None:
        """Queue a claimed job again at once; the attempt does not count. Nothing if another worker has it now."""

    def job(self, job: int) -> Job | None:
        """A job by id."""

    def jobs(self, states: Sequence[str] = ()) -> list[Job]:
        """Jobs, newest first, of these states or of all."""

    def cancel(self, job: int) -> bool:
        """Cancel a job that has not ended, or put one aside that failed; False if it was done or cancelled."""

    def retry(self, job: int) -> bool:
        """Queue a job again that failed or was cancelled; False if it did neither, or if its like waits already."""

    def check(self) -> list[str]:
        """Faults found by the database's own integrity check; empty when sound."""

    def size_bytes(self) -> int:
        """Bytes on disk."""

    def close(self) -> None:
        """Release files and connections."""
