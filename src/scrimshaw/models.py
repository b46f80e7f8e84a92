"""Frozen values and enums: the vocabulary every room shares. No behaviour beyond reading oneself."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct


def content_hash(data: bytes) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, which a hook has no use for

    return hashlib.sha256(data).hexdigest()


def format_count(number: float, noun: str, spec: str = "") -> str:
    """A number with its noun: `1 file`, `2 files`, `3 memories`; `spec` formats the number."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") and noun != "day" else f"{noun}s"
    return f"{number:{spec}} {noun if number == 1 else several}"


def format_time(at: float) -> str:
    """Seconds since 1970 as files write them: ISO in UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# The vocabulary of files, databases and tools: each member's value is its name in lower case.

# How much a memory matters, descending.
Tier = StrEnum("Tier", "CONSTITUTIONAL CRITICAL IMPORTANT NORMAL TEMPORARY DEPRECATED")
VaultName = StrEnum("VaultName", "VAULT SERENA")  # where a project keeps memories: its own folder, or Serena's
# What kind of knowledge a memory holds.
MemoryType = StrEnum("MemoryType", "DECISION IMPLEMENTATION RESEARCH DISCOVERY SESSION PREFERENCE REFERENCE GENERAL")
# What the answer is for.
Intent = StrEnum("Intent", "ADD_FEATURE FIX_BUG REFACTOR SECURITY_AUDIT UNDERSTAND FIND_SPEC FIND_DECISION")
# A causal edge between two memories, read from source to target.
Relation = StrEnum("Relation", "CAUSED ENABLED SUPERSEDES CONTRADICTS DERIVED_FROM SUPPORTS")
# Where an edge is written: a relation in front matter, a link in the text, or outside a read-only file; one of
# neighbours follows from the names of two files in a folder, and only exists if both do.
EdgeKind = StrEnum("EdgeKind", "RELATION LINK EXTERNAL NEIGHBOURS")
# Who vouches for a text, a person by a recorded command; a derived text has the lowest trust of its sources.
Trust = StrEnum("Trust", "HUMAN FILE AGENT TOOL WEB")
Channel = StrEnum("Channel", "TEXT VECTOR TRIGGER GRAPH")  # one way of finding candidates
# What a ledger entry records.
Action = StrEnum("Action", "CREATE UPDATE RETIRE RESTORE MERGE LINK UNLINK IMPORT PURGE EXTERNAL TRUST")
JobState = StrEnum("JobState", "QUEUED RUNNING DONE FAILED CANCELLED")  # the life of a job; the last three are final
UNFINISHED = (JobState.QUEUED, JobState.RUNNING)
Grade = StrEnum("Grade", "AGAIN HARD GOOD EASY")  # how well a memory was remembered at a review (FSRS)
# How present a memory still is, by its retrievability, descending.
Retention = StrEnum("Retention", "HOT WARM COLD DORMANT ARCHIVED")
Status = StrEnum("Status", "ON DEGRADED OFF")  # whether a part does what it should, does it in part, or not at all
Mode = StrEnum("Mode", "AUTO QUICK FOCUSED DEEP RESUME")  # how much context an answer may have
# The life of a session; an active one that falls silent is interrupted.
SessionState = StrEnum("SessionState", "ACTIVE COMPLETED INTERRUPTED PURGED")
ItemKind = StrEnum("ItemKind", "DECISION PLAN ERROR FILE COMMIT RESULT")  # what an entry of working memory is about
# How full the client's context is; unknown if nobody reports it.
Pressure = StrEnum("Pressure", "UNKNOWN NORMAL ELEVATED HIGH")
EventKind = StrEnum("EventKind", "START PROMPT TOOL ANSWER COMPACT STOP END")  # what a client reports


class ArtifactClass(StrEnum):
    """What a document is for, according to its file name."""

    SPEC, PLAN, TASKS, CHECKLIST = "spec", "plan", "tasks", "checklist"
    DECISION_RECORD, IMPLEMENTATION_SUMMARY = "decision-record", "implementation-summary"
    MEMORY, RESEARCH, UNKNOWN = "memory", "research", "unknown"


class Stage(StrEnum):
    """The steps of a search, in order; a trace names all six."""

    CANDIDATE, FILTER, FUSION = "candidate", "filter", "fusion"
    RERANK, FALLBACK, FINAL_RANK = "rerank", "fallback", "final-rank"


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


PURGED = "[REDACTED:purged]"  # replaces a purged text
# The source of recorded sessions, whose chunks are passages; filters leave it out unless they name it.
RECORD = "record"


class Redacted(Struct, frozen=True, kw_only=True):
    """Text that has passed the redaction gate, the only text that storage accepts; only `ingest.redact` builds it."""

    text: str
    classes: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()  #: offsets into the original text
    removed_ratio: float = 0.0  #: share of the original's characters, 0..1


class Provenance(Struct, frozen=True, kw_only=True):
    """Where a memory came from."""

    source: str = "file"
    trust: Trust = Trust.HUMAN
    session: str = ""


# Flags of quality for a file that is only indexed by its text, and why.
BROKEN, CONFLICT = "broken_front_matter", "merge_conflict"


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
    """A piece of a memory small enough to embed; `start` and `end` are character offsets into the body."""

    ordinal: int
    anchor: str
    heading: str
    start: int
    end: int
    context: str  #: the title and the heading path above the piece
    at: str = ""  #: for a passage of a record: its ISO time, its trust, and its worth if its session has a memory
    trust: str = ""
    worth: float | None = None

    def embedded_text(self, body: str) -> str:
        """What is embedded for this piece of `body`: its context, a line break, the piece without outer blanks."""
        return f"{self.context}\n{body[self.start : self.end].strip()}".strip()


class Phrase(Struct, frozen=True, kw_only=True):
    """A phrase that triggers a memory: one its author named, or its title. `head` is its lookup key."""

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


class Neighbor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An edge on a walk from a start."""

    start: str  #: the memory that the walk began at
    hop: int  #: counts from 1
    source: str
    target: str
    relation: str
    strength: float
    evidence: str
    path_strength: float = 1.0  #: product of the strengths of the edges before this one, on the strongest shortest path
    outward: bool = True  #: the walk went from source to target
    unresolved: bool = False  #: the target does not exist

    @property
    def place(self) -> str:
        """The memory that the walk reached over this edge."""
        return self.target if self.outward else self.source


# Chunks numbered from here on are questions that a memory answers; lower ones cover its body.
QUESTIONS = 1 << 19


class Match(Struct, frozen=True, kw_only=True):
    """A candidate of one channel."""

    id: str
    score: float  #: higher is better, on the channel's own scale
    chunk: int = -1  #: the ordinal of the best chunk of the body, if the channel knows it
    question: int = -1  #: the index of the question that matches better than the body


class SourceFile(Struct, frozen=True, kw_only=True):
    """A file of a source as the scan found it."""

    source: str
    memory_id: str  #: its path under the source without `.md`
    path: str
    size: int
    mtime_ns: int
    writable: bool = False
    artifact: ArtifactClass = ArtifactClass.UNKNOWN
    trust: Trust = Trust.HUMAN  #: its trust if it does not state one
    is_vouched: bool = False  #: a person does so by a recorded command
    link: str = ""  #: the symbolic link that led to it
    #: ISO times of its first and last commit, for a file that states none; empty if unknown.
    created: str = ""
    updated: str = ""


class Skip(Struct, frozen=True, kw_only=True):
    """A file that was skipped, and why."""

    path: str
    reason: str
    is_found: bool = False  #: still found by its text, since only the parts around it are broken


class Metadata(Struct, frozen=True, kw_only=True):
    """What is known of a memory besides its text."""

    title: str
    content_hash: str = ""
    type: MemoryType = MemoryType.GENERAL
    tier: Tier = Tier.NORMAL
    triggers: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()  #: questions it answers, in other words than its own; chunks too
    provenance: Provenance = Provenance()
    quality: Quality | None = None  #: None if no gate has judged the file
    created: str = ""
    updated: str = ""
    tokens: int = 0  #: of the body


class Document(Metadata, frozen=True, kw_only=True):
    """One memory as the index stores it: parsed and redacted."""

    file: SourceFile
    text_hash: str  #: SHA-256 of the body without case, white space and last full stop; exact duplicates share it
    body: Redacted
    chunks: tuple[Chunk, ...] = ()
    edges: tuple[Edge, ...] = ()
    aliases: tuple[str, ...] = ()  #: other titles
    phrases: tuple[Phrase, ...] = ()  #: those that trigger the memory
    sketch: tuple[int, ...] = ()  #: a MinHash to find similar texts
    problem: str = ""  #: why the front matter could not be read, or where the conflict marks are


class Memory(Metadata, frozen=True, kw_only=True):
    """One memory as the index returns it, without its text, which has `length` characters and `tokens` tokens."""

    id: str
    source: str
    path: str
    artifact: ArtifactClass = ArtifactClass.MEMORY
    length: int
    writable: bool = False
    worth: float | None = None  #: of a passage whose session has a memory: the share of it that a successor needs

    @property
    def faults(self) -> list[str]:
        """What is wrong with the file of a memory that is only indexed by its text."""
        return [flag for flag in (BROKEN, CONFLICT) if self.quality and flag in self.quality.flags]


class Filters(Struct, frozen=True, kw_only=True):
    """Exact conditions on memories; an empty field does not restrict."""

    tiers: tuple[Tier, ...] = ()
    types: tuple[MemoryType, ...] = ()
    artifacts: tuple[ArtifactClass, ...] = ()
    topics: tuple[str, ...] = ()
    folder: str = ""  #: a prefix of the id; if no id has it, folders at any depth whose path ends in it
    source: str = ""
    #: ISO dates compared with `updated`, in UTC without a zone; a bare date means the start or end of its day.
    since: str = ""
    until: str = ""
    only: tuple[str, ...] | None = None  #: the ids allowed
    exclude: tuple[str, ...] = ()
    include_deprecated: bool = False
    min_quality_score: float | None = None


class PeerTool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool of a peer: its arguments, and the names in its answer."""

    tool: str
    arguments: Mapping[str, Any] = {}
    by_word: bool = False  #: it searches for its query literally, so each word is searched for separately
    hits: str = ""  #: the key of the list in an object; if empty, the object is the only entry
    id: tuple[str, ...] = ()
    title: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    page: int = 0  #: entries of a full page of the list; 0 if all come at once
    mark: tuple[str, ...] = ()  #: the field with an entry's label, if the answer has entries of others too
    most_characters: int = 0  #: of a text that it takes; 0 for any number
    renames: bool = False  #: an update changes the name too


EVERY = Filters(include_deprecated=True)  # all memories; a search still asks for its least quality
CLIENT_TOOL = "client-tool"  # the actor of a row about a memory's file that an agent wrote without this server


class Entry(Struct, frozen=True, kw_only=True):
    """One row of the ledger: hashes and ids, never content."""

    action: Action
    memory_id: str
    reason: str
    actor: str
    prior_hash: str = ""  #: hashes of the file before and after; empty if there was none
    new_hash: str = ""
    session: str = ""
    linked_memory_ids: tuple[str, ...] = ()
    decision_meta: Mapping[str, Any] = {}


class Job(Struct, frozen=True, kw_only=True):
    """Durable work: `kind` names the handler, a second request with the same `key` is ignored while one waits."""

    id: int
    kind: str
    key: str
    payload: Mapping[str, Any]
    state: JobState
    attempts: int = 0
    done: int = 0
    total: int = 0
    error: str = ""
    created: float = 0.0  #: seconds since 1970


class Capability(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part as it was just measured."""

    name: str
    status: Status
    detail: str
    was: str = ""  #: its status before the last change, empty while it never changed
    since: str = ""  #: ISO time when that change was seen


SESSIONS = "sessions"  # the folder of a vault in which memories of sessions are
DRAFTS, WAITS = "drafts", "it waits for a review"  # the folder of drafts, and the reason of one under review
DRAFT_JOB = "draft"  # the kind of job that makes a memory of a session; its key is the session's id
DRAFTS_LOCK = "drafts.lock"  # held by the process that makes memories of sessions that are over


class ItemSource(Struct, frozen=True, kw_only=True):
    """Provenance of an item: the tool call it came from and the rule that matched."""

    source_tool: str = ""
    source_call_id: str = ""
    extraction_rule_id: str = ""
    redaction_applied: bool = False
    trust: Trust = Trust.TOOL


class NewItem(Struct, frozen=True, kw_only=True):
    """Something to remember in a session; `attention` is 0..1 and is clamped."""

    text: Redacted
    kind: ItemKind
    attention: float
    source: ItemSource = ItemSource()
    memory_id: str = ""
    path: str = ""


class Item(Struct, frozen=True, kw_only=True):
    """An entry of a session's record, and of its working memory while `held`."""

    session: str
    number: int  #: counts from 1 within the session
    text: str
    kind: ItemKind
    attention: float  #: base score 0..1 at `event`; its current value is computed when read
    event: int  #: the session's counter
    at: float  #: seconds since 1970
    source: ItemSource
    mentions: int = 0
    memory_id: str = ""
    path: str = ""
    held: bool = True


class Session(Struct, frozen=True, kw_only=True):
    """A run of one client on one project; times are seconds since 1970."""

    id: str
    client: str = ""
    process: int = 0
    state: SessionState = SessionState.ACTIVE
    counter: int = 0  #: events so far, modulo `session.counter_modulus`
    task: str = ""
    started: float = 0.0
    last_event: float = 0.0
    context_used: float | None = None  #: share of the client's context in use, as last reported
    continues: str = ""  #: the session this one continues
    work_tree: str = ""  #: where it ran, with the branch there now; empty in the work tree that asks


class Injected(Struct, frozen=True, kw_only=True):
    """Text that a session's model was given."""

    session: str
    occasion: str  #: the hook's event, or the tool that answered
    tokens: int
    hits: int  #: memories and items in the texts
    at: float  #: time of the last text, in seconds since 1970
    times: int = 1  #: number of texts


class Observation(Struct, frozen=True, kw_only=True):
    """One event as a client reported it, redacted."""

    session: str
    kind: EventKind
    text: Redacted  #: what later drafts may read
    client: str = ""
    process: int = 0  #: the client's process id, 0 where unknown
    call_id: str = ""  #: equal in repeated reports of one event
    tool: str = ""
    path: str = ""  #: the file that a call is about
    failed: bool | None = None  #: None if unknown
    item: NewItem | None = None  #: what is worth remembering of the event
    task: Redacted | None = None  #: stored with the session if given, like `context_used`
    context_used: float | None = None
    injected: Injected | None = None  #: what the model was given with the event


class RecordedEvent(Struct, frozen=True, kw_only=True):
    """An event as stored."""

    session: str
    number: int  #: counts from 1 within the session
    kind: EventKind
    tool: str
    call_id: str
    text: str  #: for a tool call the first line is its input, and the rest its output
    at: float  #: seconds since 1970
    path: str = ""
    failed: bool | None = None

    @property
    def input(self) -> str:
        """What a tool was called with: the path, the command or the search."""
        return self.text.partition("\n")[0]

    @property
    def command(self) -> str:
        """What was run in a shell; empty for any other event."""
        return self.text.partition("\n")[0] if self.tool == "Bash" else ""


class Drafted(Struct, frozen=True, kw_only=True):
    """The last draft made of a session: of its first `events` events, kept as memory `memory_id`, "" if rejected."""

    session: str
    events: int
    memory_id: str
    at: float


class Traces(Protocol):
    """A text to erase, in every form it may have."""

    def count(self, data: bytes) -> int:
        """How often it occurs in some bytes."""

    def erase(self, data: bytes) -> bytes:
        """The bytes with it replaced by a marker."""

    def mask(self, text: str) -> str:
        """The text, or the name of a file, with it replaced by a marker."""


class Wipe(Struct, frozen=True):
    """What a purge erases: traces of a text anywhere, rows about these memories or their files, and sessions."""

    traces: Traces
    memory_ids: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
