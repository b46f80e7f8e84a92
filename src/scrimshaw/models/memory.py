"""Memories and what is known of them: the vocabulary of files, index, search, ledger and jobs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct


def content_hash(data: bytes) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, which a hook has no use for

    return hashlib.sha256(data).hexdigest()


class Tier(StrEnum):
    """How much a memory matters, in falling order."""

    CONSTITUTIONAL = "constitutional"
    CRITICAL = "critical"
    IMPORTANT = "important"
    NORMAL = "normal"
    TEMPORARY = "temporary"
    DEPRECATED = "deprecated"


class MemoryType(StrEnum):
    """What kind of knowledge a memory holds."""

    DECISION = "decision"
    IMPLEMENTATION = "implementation"
    RESEARCH = "research"
    DISCOVERY = "discovery"
    SESSION = "session"
    PREFERENCE = "preference"
    REFERENCE = "reference"
    GENERAL = "general"


class ArtifactClass(StrEnum):
    """What a document is for, told by its file name."""

    SPEC = "spec"
    PLAN = "plan"
    TASKS = "tasks"
    CHECKLIST = "checklist"
    DECISION_RECORD = "decision-record"
    IMPLEMENTATION_SUMMARY = "implementation-summary"
    MEMORY = "memory"
    RESEARCH = "research"
    UNKNOWN = "unknown"


class Intent(StrEnum):
    """What the asker wants to do with the answer."""

    ADD_FEATURE = "add_feature"
    FIX_BUG = "fix_bug"
    REFACTOR = "refactor"
    SECURITY_AUDIT = "security_audit"
    UNDERSTAND = "understand"
    FIND_SPEC = "find_spec"
    FIND_DECISION = "find_decision"


class Relation(StrEnum):
    """A causal edge between two memories, read from source to target."""

    CAUSED = "caused"
    ENABLED = "enabled"
    SUPERSEDES = "supersedes"
    CONTRADICTS = "contradicts"
    DERIVED_FROM = "derived_from"
    SUPPORTS = "supports"


class EdgeKind(StrEnum):
    """Where an edge is written: a relation in front matter, a link in the text, or outside a file that is not ours."""

    RELATION = "relation"
    LINK = "link"
    EXTERNAL = "external"


class Trust(StrEnum):
    """Who vouches for a text; a derived text takes the lowest trust of its sources."""

    HUMAN = "human"
    AGENT = "agent"
    TOOL = "tool"
    WEB = "web"


class Channel(StrEnum):
    """One way of finding candidates."""

    TEXT = "text"
    VECTOR = "vector"
    TRIGGER = "trigger"
    GRAPH = "graph"


class Stage(StrEnum):
    """The steps of a search, in order; a trace names all six."""

    CANDIDATE = "candidate"
    FILTER = "filter"
    FUSION = "fusion"
    RERANK = "rerank"
    FALLBACK = "fallback"
    FINAL_RANK = "final-rank"


class Action(StrEnum):
    """What a ledger entry records."""

    CREATE = "create"
    UPDATE = "update"
    RETIRE = "retire"
    RESTORE = "restore"
    MERGE = "merge"
    LINK = "link"
    UNLINK = "unlink"
    IMPORT = "import"
    PURGE = "purge"
    EXTERNAL = "external"


class JobState(StrEnum):
    """The life of a job; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Grade(StrEnum):
    """How well a memory was remembered at a review (FSRS)."""

    AGAIN = "again"
    HARD = "hard"
    GOOD = "good"
    EASY = "easy"


class Retention(StrEnum):
    """How present a memory still is, by its retrievability, in falling order."""

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"
    DORMANT = "dormant"
    ARCHIVED = "archived"


class Degradation(Struct, frozen=True, kw_only=True):
    """What could not be done, what was done instead, and when to try again."""

    failure_mode: str
    fallback_mode: str
    confidence_impact: str
    retry_recommendation: str


class Span(Struct, frozen=True, kw_only=True):
    """A stretch of text that the redaction gate replaced; offsets into the original text, in characters."""

    start: int
    end: int
    secret_class: str


# What stands in the place of a text that was purged.
PURGED = "[REDACTED:purged]"


class Redacted(Struct, frozen=True, kw_only=True):
    """Text that has passed the redaction gate: the only text that storage accepts.

    Only `scrimshaw.ingest.redact` builds it. `spans` index the original text; `removed_ratio` is the share of
    its characters that were removed (0..1).
    """

    text: str
    classes: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    removed_ratio: float = 0.0


class Provenance(Struct, frozen=True, kw_only=True):
    """Where a memory came from."""

    source: str = "file"
    trust: Trust = Trust.HUMAN
    session: str = ""


class Quality(Struct, frozen=True, kw_only=True):
    """The quality gate's verdict as stored in front matter; `score` is 0..1."""

    score: float
    flags: tuple[str, ...] = ()


class Heading(Struct, frozen=True, kw_only=True):
    """A Markdown heading outside code fences; `start` is the character offset of its line in the body."""

    level: int
    text: str
    anchor: str
    start: int


class Chunk(Struct, frozen=True, kw_only=True):
    """A piece of a memory small enough to embed; `start` and `end` are character offsets into the body.

    `context` is the title and the heading path above the piece.
    """

    ordinal: int
    anchor: str
    heading: str
    start: int
    end: int
    context: str

    def embedded_text(self, body: str) -> str:
        """What is embedded for this piece of `body`: its context, a line break, the piece without outer blanks."""
        return f"{self.context}\n{body[self.start : self.end].strip()}".strip()


class Phrase(Struct, frozen=True, kw_only=True):
    """A phrase that brings a memory up: one its author named, or its title. `head` is what it is looked up by."""

    text: str
    head: str
    is_title: bool = False


class Edge(Struct, frozen=True, kw_only=True):
    """A directed edge as written: `target` is the reference in the author's words until the index resolves it."""

    source: str
    target: str
    relation: str
    kind: EdgeKind = EdgeKind.RELATION
    strength: float = 1.0
    evidence: str = ""


class SourceFile(Struct, frozen=True, kw_only=True):
    """A file of a source as the scan found it; `memory_id` is its path under the source without `.md`.

    `trust` is who vouches for it where it does not say so itself.
    """

    source: str
    memory_id: str
    path: str
    size: int
    mtime_ns: int
    writable: bool = False
    artifact: ArtifactClass = ArtifactClass.UNKNOWN
    trust: Trust = Trust.HUMAN


class Skip(Struct, frozen=True, kw_only=True):
    """A file that was passed over, and why."""

    path: str
    reason: str


class Document(Struct, frozen=True, kw_only=True):
    """One memory as the index stores it: parsed and redacted.

    `content_hash` is the SHA-256 of the file's bytes; `text_hash` that of the normalised body (case, white space),
    used to tell exact duplicates. `quality` is None where no gate has judged the file. `tokens` counts the body,
    `label_tokens` id and title; `phrases` are those that bring the memory up, `sketch` tells texts that are much alike.
    """

    file: SourceFile
    content_hash: str
    text_hash: str
    title: str
    body: Redacted
    type: MemoryType = MemoryType.GENERAL
    tier: Tier = Tier.NORMAL
    triggers: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    headings: tuple[Heading, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    edges: tuple[Edge, ...] = ()
    provenance: Provenance = Provenance()
    quality: Quality | None = None
    created: str = ""
    updated: str = ""
    tokens: int = 0
    label_tokens: int = 0
    phrases: tuple[Phrase, ...] = ()
    sketch: tuple[int, ...] = ()


class Memory(Struct, frozen=True, kw_only=True):
    """One memory as the index answers it, without its text, which has `length` characters and `tokens` tokens."""

    id: str
    source: str
    path: str
    title: str
    type: MemoryType
    tier: Tier
    artifact: ArtifactClass
    triggers: tuple[str, ...]
    topics: tuple[str, ...]
    provenance: Provenance
    quality: Quality | None
    created: str
    updated: str
    content_hash: str
    tokens: int
    label_tokens: int
    length: int
    writable: bool


class Filters(Struct, frozen=True, kw_only=True):
    """Exact conditions on memories; an empty field does not restrict.

    `folder` is an id prefix, `only` names the ids allowed. `since` and `until` are ISO dates compared with `updated`,
    in UTC where they name no zone: a date alone is the begin of its day for `since`, the end of it for `until`.
    """

    tiers: tuple[Tier, ...] = ()
    types: tuple[MemoryType, ...] = ()
    artifacts: tuple[ArtifactClass, ...] = ()
    topics: tuple[str, ...] = ()
    folder: str = ""
    source: str = ""
    since: str = ""
    until: str = ""
    only: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    include_deprecated: bool = False
    min_quality_score: float | None = None


class Entry(Struct, frozen=True, kw_only=True):
    """One row of the ledger: hashes and ids, never content."""

    action: Action
    memory_id: str
    reason: str
    actor: str
    #: Hashes of the file before and after; empty where there was none.
    prior_hash: str = ""
    new_hash: str = ""
    session: str = ""
    linked_memory_ids: tuple[str, ...] = ()
    decision_meta: Mapping[str, Any] = {}


class Job(Struct, frozen=True, kw_only=True):
    """Durable work: `kind` names the handler, `key` makes a second request of the same work a no-op while one waits."""

    id: int
    kind: str
    key: str
    payload: Mapping[str, Any]
    state: JobState
    attempts: int = 0
    done: int = 0
    total: int = 0
    error: str = ""


class Status(StrEnum):
    """Whether a part does what it should, does it in part, or not at all."""

    ON = "on"
    DEGRADED = "degraded"
    OFF = "off"


class Capability(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part as it was just measured: `detail` says what was found.

    `was` is its status before the last change and `since` the ISO time when that was seen; empty while it never
    changed.
    """

    name: str
    status: Status
    detail: str
    was: str = ""
    since: str = ""
