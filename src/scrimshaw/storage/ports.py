"""The ports of storage: everything that other rooms may ask of a database.

`Index` has what is derived from files; deleting it loses nothing. `Sessions` and `Journal` are durable: when a
method that writes has returned, its effect survives a crash. `Maintenance` looks after the files of all three. Every
implementation is safe to call from several threads and, for one database, from several processes.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from scrimshaw.models import (
    Document,
    Drafted,
    Edge,
    Entry,
    EventKind,
    Filters,
    Injected,
    Item,
    Job,
    JobState,
    Match,
    Memory,
    Neighbor,
    NewItem,
    Observation,
    RecordedEvent,
    Redacted,
    Session,
    SourceFile,
    Wipe,
)

Row = Mapping[str, Any]  # a row of a table, by column
DatabaseName = Literal["index", "journal"]


class StoredText(NamedTuple):
    """A text of a file, by the file's name in the ledger and the hash of its bytes."""

    memory_id: str
    content_hash: str
    text: Redacted


class Query(NamedTuple):
    """Words to find: a memory matches if it contains at least one word of every group."""

    groups: Sequence[Sequence[str]]
    is_prefix: bool = False  #: words of a memory that begin with a word of the query count too


class FileState(Struct, frozen=True, kw_only=True):
    """The last known state of a file."""

    path: str
    size: int
    mtime_ns: int
    content_hash: str
    memory_id: str  #: empty for a file that was skipped
    reason: str = ""  #: why it was skipped, or what is wrong with one indexed by its text only


class Piece(Struct, frozen=True, kw_only=True):
    """The text of a chunk, the heading above it with its anchor, and a line that describes its context."""

    anchor: str
    heading: str
    text: str
    context: str = ""
    #: On request, if they exist: its packed token vectors, and its own vector in float16.
    tokens: bytes = b""
    vector: bytes = b""


class PendingChunk(NamedTuple):
    """A chunk text without a vector of the model, or without token vectors."""

    place: int  #: its row, which only grows
    key: str  #: identifies the text
    text: str


class SessionRecord(NamedTuple):
    """The extent of a session's record, and its last draft."""

    session: str
    events: int
    last: int  #: the number of the last event
    at: float  #: when it happened, in seconds since 1970
    is_over: bool
    has_new_calls: bool  #: whether a tool was called after the last draft; another work tree makes its own drafts
    draft: Drafted | None

    def waits_for_draft(self, silent_since: float) -> bool:
        """Whether the session ended, or fell silent before that time, with tool calls after its last draft."""
        return self.has_new_calls and (self.is_over or self.at < silent_since)


class VectorCounts(NamedTuple):
    """How many chunk texts there are, and how many have a vector, by model."""

    chunks: int
    by_model: Mapping[str, int]
    with_tokens: int = 0  #: texts with token vectors, of any model, in records and elsewhere

    def progress(self, model: str) -> tuple[int, int]:
        """(chunk texts with a vector of this model, all chunk texts)."""
        return self.by_model.get(model, 0), self.chunks


class Review(Struct, frozen=True, kw_only=True):
    """Review state of a memory, for forgetting and validation."""

    memory_id: str
    stability: float
    difficulty: float
    last_review: float  #: seconds since 1970
    reviews: int = 0
    useful: int = 0
    not_useful: int = 0
    confidence: float = 0.5


# A review state; may be None if `change` of `update_review` may return None.
ReviewState = TypeVar("ReviewState", Review, Review | None)


class Admission(Struct, frozen=True, kw_only=True):
    """Whether a newcomer enters working memory, and the numbers of the items that leave it."""

    admitted: bool
    leaving: tuple[int, ...] = ()


# Decides from the current items, the newcomer and the session's counter. Other writers wait for it, so it may only
# compute and must not call the port.
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


class StatusChange(Struct, frozen=True, kw_only=True):
    """The status of a part since `at`, in seconds since 1970; `was` is the previous one, empty at first."""

    status: str
    was: str
    at: float


# Inserts staged rows and appends entries to the ledger, in one transaction; returns rows per table. With `clear` the
# tables have only these rows. The ledger is inserted only if there is none, and contents are only added,
# never those of purged memories.
CommitRows = Callable[[Sequence[Entry], bool], dict[str, int]]


class Index(Protocol):
    """Derived, disposable: everything here can be rebuilt from the files."""

    def put(self, documents: Sequence[Document]) -> None:
        """Store documents, replacing those of the same id, in one transaction."""

    def retire(self, paths: Sequence[str] | None, *, orphans: bool = False) -> None:
        """Forget the files at these paths, or all, and their memories; with `orphans` also what has no memory."""

    def record_file(self, file: SourceFile, content_hash: str, *, skipped: str = "") -> None:
        """Remember size and time of an unchanged file, or why a file is `skipped`, whose memory is then forgotten."""

    def manifest(self, source: str = "") -> Mapping[str, FileState]:
        """The known state of the files of a source, or of all sources, by path in order."""

    def incomplete_files(self) -> list[str]:
        """Paths of files whose memory is incomplete in the index, and of memories without a known file."""

    def get(self, ids: Sequence[str]) -> dict[str, Memory]:
        """The memories of these ids; an unknown id is absent."""

    def bodies(self, ids: Sequence[str]) -> dict[str, str]:
        """The redacted bodies of these memories."""

    def pieces(self, wanted: Collection[tuple[str, int]], *, vectors_of: str = "") -> dict[tuple[str, int], Piece]:
        """The chunks named by memory id and ordinal; unknown ones are absent.

        With `vectors_of` a model its vectors instead of the texts, which may be in very long bodies.
        """

    def select(self, filters: Filters, *, sort: str = "id", limit: int = -1, offset: int = 0) -> list[Memory]:
        """A page of the memories that satisfy the filters; `sort` is `id`, `title`, `created` or `updated`."""

    def count(self, filters: Filters | None, *, by: str = "") -> dict[str, int]:
        """Exact counts by `tier`, `type`, `artifact`, `source`, `folder` or `topic`; without one the only key is `""`.

        Without filters it counts all chunks, including those of records.
        """

    def find_ids(
        self, *, paths: Sequence[str] | None = None, text_hash: str | None = None, differing_in_case: str | None = None
    ) -> list[str]:
        """The ids of memories read from these paths, with a normalised body, or equal to an id except for case."""

    def passages(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], Memory]:
        """The chunks of records by document and ordinal, each as a memory with its own id, time and trust."""

    def match_text(self, query: Query, filters: Filters, limit: int) -> list[Match]:
        """The best memories for a query, none if it has no words; for the source `record` the best chunks."""

    def match_vector(self, model: str, vector: Any, filters: Filters, limit: int) -> list[Match]:
        """The nearest memories by cosine to `vector`, a normalised float32 array; the best chunk counts.

        For the source `record` the nearest chunks.
        """

    def phrases(self, heads: Collection[str], *, titles: bool, holds: Callable[[str], bool]) -> list[tuple[str, str]]:
        """(phrase, memory id) of the phrases, or titles too, with one of these heads for which `holds` is true."""

    def near_duplicates(self, sketch: Sequence[int], *, shared: int, limit: int) -> list[str]:
        """The ids of memories that share at least so many hashes with a sketch, most first."""

    def generation(self) -> int:
        """A number that changes whenever the index does."""

    def neighbors(
        self, ids: Sequence[str], *, hops: int, direction: str, relations: Sequence[str] = ()
    ) -> list[Neighbor]:
        """Edges within `hops` of the starts; direction is `outgoing`, `incoming` or `both`."""

    def edges(self, *sources: str, relation: str = "") -> list[tuple[Edge, str]]:
        """Edges as written, of these memories or of all, each with the id it resolves to, empty if it dangles."""

    def put_links(self, links: Sequence[Edge]) -> None:
        """Replace the edges of kind `external` by these; those with a missing source, or stated by it, are left out."""

    def put_renames(self, renames: Mapping[str, str]) -> None:
        """Replace the current meanings of names that no memory has any more: ids by reference."""

    def chunks_to_embed(
        self, model: str, *, after: int, limit: int, record: bool = False, tokens: bool = False
    ) -> list[PendingChunk]:
        """Chunk texts after `after` without a vector of this model: those of records, newest first, or all others.

        With `tokens` also those without token vectors.
        """

    def put_vectors(
        self, model: str, rows: Iterable[tuple[str, Any]], *, tokens: Mapping[str, bytes] = {}, only: bool = False
    ) -> None:
        """Store one normalised vector per chunk key, and token vectors by key; `only` drops other models.

        Raises StorageFailure by dimension.
        """

    def vector_counts(self, *, record: bool = False) -> VectorCounts:
        """The number of vectors of each model, of records or of all others."""


class Sessions(Protocol):
    """Durable: sessions of all work trees of a repository, their events, and what they were shown.

    A change of a session or an item that does not exist raises NotFound.
    """

    def open(
        self, session: str, *, client: str = "", process: int = 0, now: float, silent_since: float | None = None
    ) -> tuple[Session, bool]:
        """Open the session of this id, active again if it had ended; returns it and whether it is new.

        A client or process that is not given stays unchanged. Sessions silent since `silent_since` are interrupted.
        """

    def get(self, session: str) -> Session | None:
        """A session by id."""

    def latest(
        self, *, before: str = "", processes: Sequence[int] | None = None, limit: int = 1, with_work: bool = False
    ) -> list[Session]:
        """Sessions except `before`, newest event first; with `processes` only active ones of these clients, 0 for none.

        `with_work` leaves out those without prompts, calls or answers.
        """

    def tick(self, session: str, *, now: float, modulus: int, injected: Injected | None = None) -> int:
        """Count one event, and what the model was given with it; returns the new counter, unique for each caller."""

    def observe(self, seen: Observation, admit: Admit, *, now: float, modulus: int) -> bool:
        """Open the session, store the event, count calls and prompts, store its item; False if it is a repetition.

        All or nothing; `admit` decides what working memory keeps. An item that it already has, or the same file
        again, counts as a mention. The event `end` completes the session.
        """

    def events(self, session: str, *kinds: EventKind) -> list[RecordedEvent]:
        """The events of a session in order, of all kinds or of these."""

    def find_calls(self, words: Sequence[str], limit: int) -> list[RecordedEvent]:
        """Calls of all sessions by how many of these words they contain, ignoring case, and then the newest."""

    def records(self, session: str = "") -> list[SessionRecord]:
        """The extent of the record of every session with events, or of one, newest session first."""

    def mention(self, session: str, number: int) -> None:
        """Add 1 to the mentions of an item; neither its base nor its clock changes."""

    def items(self, session: str, *, held: bool | None = None) -> list[Item]:
        """The items of a session in order; only those in working memory, or only those outside, if asked."""

    def record_draft(self, draft: Drafted) -> None:
        """Store or replace the state of a session's last draft."""

    def mark_shown(
        self, session: str, hashes: Mapping[str, str], *, now: float, injected: Injected | None = None
    ) -> None:
        """Store that the session was shown these (id -> digest of the passage), and what it was given with them."""

    def hashes_shown(self, session: str, *, since: float = 0.0, until: float = math.inf) -> dict[str, str]:
        """The last 100 things that the session was shown from then to then, in its context of now: id -> digest."""

    def injections(self, session: str = "") -> list[Injected]:
        """What the model of a session, or of every session, was given, summed by session and occasion, in order."""

    def record_learning(self, row: Learning) -> None:
        """Store or replace the pre- or postflight of a task."""

    def learnings(self, folder: str, *, session: str = "", limit: int = 10) -> list[Learning]:
        """Pre- and postflights of a folder's tasks, newest first."""


class Journal(Protocol):
    """Durable: ledger, prior contents, review state and jobs."""

    def record(
        self, entries: Sequence[Entry], jobs: Sequence[tuple[str, str]] = (), texts: Sequence[StoredText] = ()
    ) -> list[int]:
        """Append entries, enqueue (kind, key) jobs, store texts for undo, in one transaction; the new numbers."""

    def history(
        self, memory_id: str = "", limit: int = -1, *, session: str = "", mark: str = "", new_hash: str = ""
    ) -> list[Row]:
        """Ledger rows, newest first: of a memory, a session, a `mark` in decision_meta, a new hash, or all."""

    def last_hashes(self) -> dict[str, str]:
        """The newest hash of every file, "" if removed, by memory id or the `file` in the entry's decision_meta."""

    def prior_text(self, memory_id: str, content_hash: str) -> str | None:
        """A present or past content of the file of this name, by the hash of its bytes; redacted."""

    def verify(self) -> tuple[int, int]:
        """(rows checked, number of the first row that breaks the chain or was cut off its end, 0 if intact)."""

    def reviews(self, ids: Sequence[str]) -> dict[str, Review]:
        """Review states of these memories; an unreviewed one is absent."""

    def update_review(self, memory_id: str, change: Callable[[Review | None], ReviewState]) -> ReviewState:
        """Replace a review state, None for none, by the result of `change`, in one transaction.

        The result may belong to another memory. `change` must not call the port.
        """

    def enqueue(self, kind: str, key: str, payload: Mapping[str, Any], total: int = 0) -> int:
        """Add a job and return its id; if one of the same kind and key waits, that one's id."""

    def claim(self, kinds: Sequence[str], lease_s: float) -> Job | None:
        """Take the oldest due job of the first kind that has one, also after its lease; of a key one runs at a time."""

    def renew_lease(self, job: Job, done: int, total: int, lease_s: float) -> bool:
        """Report progress and keep the lease; False when the job was cancelled or lost to another worker."""

    def finish(self, job: Job, state: JobState, error: str = "", retry_in_s: float | None = None) -> None:
        """End a claimed job, or queue it again after `retry_in_s` seconds; no effect if another worker has it now.

        Queued without `retry_in_s` it is due at once, and the attempt does not count. A done job is deleted after 30
        days, and cancels earlier failed ones like it.
        """

    def jobs(self, states: Sequence[str] = (), *, number: int | None = None) -> list[Job]:
        """Jobs, newest first, of these states or of all; with `number` only the one of this id."""

    def change_job(self, number: int, state: JobState) -> bool:
        """Cancel an unfinished job, or queue one that ended unfinished; False if that is not possible."""


class Maintenance(Protocol):
    """The health, size and bytes of the databases: `index` for the index, `journal` for journal and sessions."""

    version: str  #: the database engine, by name and version
    schema: int  #: the schema version of the rows from `dump_rows`; it only grows

    def check(self, database: DatabaseName, *, quick: bool = False) -> list[str]:
        """Faults that the database's own integrity check finds.

        A quick check reports missing tables; in the journal it writes a row and undoes it. Raises StorageFailure.
        """

    def size_bytes(self, database: DatabaseName, *, tokens: bool = False) -> int:
        """Bytes on disk, or only those of token vectors."""

    def count_traces(self, database: DatabaseName, wipe: Wipe) -> dict[str, int]:
        """The number of rows with text that a purge is to erase, by table."""

    def erase(self, wipe: Wipe, purge: Entry, files: Sequence[Entry] = ()) -> dict[str, int]:
        """Erase it from the journal and append `purge` and `files`, in one transaction; returns rows by table.

        Ledger rows that have it are rewritten, and so is the chain; the decision_meta of `purge` records the rows, the
        last hash of the old chain, and where that was broken, if it was.
        """

    def compact(self) -> list[Path]:
        """Release the space of erased rows and words; returns the files not rewritten because others hold them open."""

    def dump_rows(self) -> Iterator[tuple[str, Row]]:
        """(table, row) of everything durable, including sessions, in one snapshot."""

    def stage_rows(
        self, path: Path, schema: int, rows: Iterable[tuple[str, Row]]
    ) -> AbstractContextManager[CommitRows]:
        """Check dumped rows (bytes as base64) in a database at `path`; raises UnusableArchive naming what is wrong."""

    def record_statuses(self, seen: Mapping[str, str], *, now: float) -> dict[str, StatusChange]:
        """Store the statuses of parts that changed; returns the last change of every part, by name."""
