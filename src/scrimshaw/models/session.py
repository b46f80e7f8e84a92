"""Sessions and what happens in them: the vocabulary of hooks and working memory."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from scrimshaw.models.memory import Redacted, Trust

# The kind of job that makes a memory of a session; its key is the session's id.
DRAFT_JOB = "draft"


class Mode(StrEnum):
    """How much context an answer may bring."""

    AUTO = "auto"
    QUICK = "quick"
    FOCUSED = "focused"
    DEEP = "deep"
    RESUME = "resume"


class SessionState(StrEnum):
    """The life of a session; an active one that falls silent is interrupted."""

    ACTIVE = "active"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"


class ItemKind(StrEnum):
    """What an entry of working memory is about."""

    DECISION = "decision"
    ERROR = "error"
    FILE = "file"
    COMMIT = "commit"
    RESULT = "result"


class Pressure(StrEnum):
    """How full the client's context is; unknown where nobody says."""

    UNKNOWN = "unknown"
    NORMAL = "normal"
    ELEVATED = "elevated"
    HIGH = "high"


class ItemSource(Struct, frozen=True, kw_only=True):
    """Provenance of an item: the tool call it came from and the rule that kept it."""

    source_tool: str = ""
    source_call_id: str = ""
    extraction_rule_id: str = ""
    redaction_applied: bool = False
    trust: Trust = Trust.TOOL


class NewItem(Struct, frozen=True, kw_only=True):
    """What is to be remembered in a session; `attention` is 0..1 and is clamped."""

    text: Redacted
    kind: ItemKind
    attention: float
    source: ItemSource = ItemSource()
    memory_id: str = ""
    path: str = ""
    pinned: bool = False


class Item(Struct, frozen=True, kw_only=True):
    """An entry of a session's record, and of its working memory while `held`.

    `attention` is the base score 0..1 at `event` (the session's counter) and `at` (seconds since 1970); what it is
    worth now is computed when read. `number` counts from 1 within the session.
    """

    session: str
    number: int
    text: str
    kind: ItemKind
    attention: float
    event: int
    at: float
    source: ItemSource
    mentions: int = 0
    memory_id: str = ""
    path: str = ""
    pinned: bool = False
    held: bool = True


class Session(Struct, frozen=True, kw_only=True):
    """A run of one client on one project. Times are seconds since 1970.

    `counter` is the number of events so far (modulo the configured modulus), `context_used` the share of the
    client's context in use as the client last reported it, `continues` the session this one goes on from.
    """

    id: str
    client: str = ""
    process: int = 0
    state: SessionState = SessionState.ACTIVE
    counter: int = 0
    task: str = ""
    started: float = 0.0
    last_event: float = 0.0
    context_used: float | None = None
    continues: str = ""


class EventKind(StrEnum):
    """What a client reports."""

    START = "start"
    PROMPT = "prompt"
    TOOL = "tool"
    ANSWER = "answer"
    COMPACT = "compact"
    STOP = "stop"
    END = "end"


class Injected(Struct, frozen=True, kw_only=True):
    """Text that a session's model was handed on an occasion: the hook's event, or the tool that answered.

    `times` counts texts, `hits` the memories and items in them; `at` is the time of the last, in seconds since 1970.
    """

    session: str
    occasion: str
    tokens: int
    hits: int
    at: float
    times: int = 1


class Observation(Struct, frozen=True, kw_only=True):
    """One event as a client reported it, redacted; `item` is what of it is worth remembering.

    `process` is the client's process id or 0, `call_id` tells a repeated report of the same event, `text` is what is
    kept for later drafts, `path` the file a call is about, `failed` None where nothing tells. `task` and `context_used`
    are stored with the session where they are given, `injected` is what the model was handed with the event.
    """

    session: str
    kind: EventKind
    text: Redacted
    client: str = ""
    process: int = 0
    call_id: str = ""
    tool: str = ""
    path: str = ""
    failed: bool | None = None
    item: NewItem | None = None
    task: Redacted | None = None
    context_used: float | None = None
    injected: Injected | None = None


class RecordedEvent(Struct, frozen=True, kw_only=True):
    """An event as kept; `number` counts from 1 within the session, `at` is in seconds since 1970.

    The first line of a tool call's `text` is what it was asked: the path, the command or the search.
    """

    session: str
    number: int
    kind: EventKind
    tool: str
    call_id: str
    text: str
    at: float
    path: str = ""
    failed: bool | None = None


class Drafted(Struct, frozen=True, kw_only=True):
    """The last draft made of a session: of its first `events` events, kept as memory `memory_id`, "" if rejected."""

    session: str
    events: int
    memory_id: str
    at: float
