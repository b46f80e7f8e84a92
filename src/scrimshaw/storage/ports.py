"""The values that go into the ports of storage and come out of them.

The ports are everything that other rooms may ask of a database. `index.Index` has what is derived from files; deleting
it loses nothing. `sessions.Sessions` and `journal.Journal` are durable: when a method that writes has returned, its
effect survives a crash. `maintenance.Maintenance` looks after the files of all three. Each takes values, never the
syntax of a database, and is safe to call from several threads and, for one database, from several processes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct

from scrimshaw.models import Drafted, Entry, Item, NewItem, Redacted

Row = Mapping[str, Any]  # a row of a table, by column
DumpedRow = tuple[str, Row]  # with the name of its table
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
    source: str
    size: int
    mtime_ns: int
    content_hash: str
    memory_id: str  #: empty for a file that was skipped
    reason: str = ""  #: why it was skipped, or what is wrong with one indexed by its text only


class Piece(Struct, frozen=True):
    """The text of a chunk, the heading above it with its anchor, and a line that describes its context."""

    anchor: str
    heading: str
    text: str
    context: str = ""
    tokens: bytes = b""  #: on request, if they exist: its packed token vectors, and its own vector in float16
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
    has_news: bool  #: a call after the last draft, or a prompt if it has no memory; another work tree makes its own
    draft: Drafted | None

    @property
    def memory_id(self) -> str:
        """The id of the memory made of the session; empty without one."""
        return self.draft.memory_id if self.draft else ""

    @property
    def final_memory(self) -> str:
        """The same, while no tool was called after it was made; otherwise empty."""
        return "" if self.has_news else self.memory_id

    def waits_for_draft(self, silent_since: float) -> bool:
        """Whether the session ended, or fell silent before that time, with something to draft since."""
        return self.has_news and (self.is_over or self.at < silent_since)


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
