"""Events from a client's reports or its transcript, in one form for all clients, and what is recorded of them."""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.ingest.extraction import Rule, extract, find_statement
from scrimshaw.ingest.payload import number
from scrimshaw.ingest.redact import MOSTLY_REMOVED_RATIO, redact
from scrimshaw.ingest.tool_calls import Activity, ToolCall, canonical_tool, describe_call, is_own_tool, join_commands
from scrimshaw.models import EventKind, ItemKind, ItemSource, NewItem, Observation, Redacted, Trust

# How much of an event is recorded for later drafts; the client's own transcript has the rest.
RECORDED_CHARACTERS, RECORDED_TAIL = 4_000, 1_000  # the end of an output says how the run went
CUT_MIDDLE = "\n[...]\n"
SUBJECT_CHARACTERS = 500
READ_CHARACTERS = 64_000  # only head and tail of a tool's output are judged: the middle takes time and says little
PRIVATE = "[REDACTED:private]"  # in place of a private passage
_PRIVATE_TAG = re.compile(r"(?i)(</?private>)")
_LEAST_DEPTH = 2  # a folder nearer to the root is too general to be cut off the paths below it
_GO_NOWHERE = re.compile(r"(?m)^cd \. *(?:&&|;) *")  # what is left of `cd PROJECT && pytest`
# A decision counts as much as one in a tool's output, a plan as much as an installation.
_ATTENTION_STATED = {ItemKind.DECISION: 0.8, ItemKind.PLAN: 0.6}
_MILLISECONDS_FROM = 1e11  # as seconds that is the year 5138, as milliseconds 1973


class Event(Struct, frozen=True, kw_only=True):
    """One thing a client reports. Its text is raw: `make_observation` redacts it before anything is stored."""

    kind: EventKind
    client: str = ""
    session: str = ""
    at: float = 0.0  #: seconds since 1970; 0.0 for an event that happens now, or if a transcript does not say
    cwd: str = ""
    transcript: str = ""  #: the path of the client's transcript, or empty
    prompt: str = ""
    tool: str = ""  #: as `canonical_tool` names it; `tool_name` has the client's own name
    tool_name: str = ""
    arguments: Mapping[str, Any] = {}
    output: str = ""  #: the tool's text; at a stop the agent's last words, at a compaction its summary, if any
    failed: bool | None = None  #: None if unknown
    call_id: str = ""
    #: At a start startup, resume, compact or clear; at a compaction auto, manual or maybe; at the end the reason.
    occasion: str = ""
    said: tuple[str, ...] = ()  #: what the agent said since the last report, if the client reports it
    agent: str = ""  #: the sub-agent; empty for the main one
    context_used: float | None = None  #: the share of the context in use, 0..1


def add_call_id(event: Event, turn: str) -> Event:
    """Give an event an id made of its content and `turn`, the client's mark of the turn; equal reports get the same."""
    parts = (event.session, event.agent, event.kind.value, turn, event.occasion, event.tool_name, event.arguments)
    return replace(event, call_id=hash_text(repr((*parts, event.output, event.prompt)), "backslashreplace"))


def hash_text(content: str, errors: str = "replace") -> str:
    """A hash of a text with 24 hexadecimal digits."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, 3 ms, and most events bring an id

    return hashlib.blake2b(content.encode("utf-8", errors), digest_size=12).hexdigest()


def redact_id(value: str) -> str:
    """An id in the stored form, without secrets; one that may be a secret as a whole is hashed, to stay distinct."""
    found = redact(f"{value}\n")  # a text of one token would count as a name
    return f"id-{hash_text(value)}" if found.classes == ("high-entropy",) else found.text.removesuffix("\n")


def redact_names(event: Event) -> Event:
    """The event with its ids and tool names redacted: they are stored as they are, whatever a client puts there."""
    names = ("session", "agent", "call_id", "tool", "tool_name")
    return replace(event, **{name: redact_id(value) for name in names if (value := getattr(event, name))})


def make_observation(
    event: Event, rules: Sequence[Rule], *, process: int, extraction: bool, drop_ratio: float = MOSTLY_REMOVED_RATIO
) -> Observation:
    """The observation to record of an event; everything in it has passed the redaction gate."""
    activity = describe_call(redact_call(event)) if event.kind is EventKind.TOOL else None
    is_prompt = event.kind is EventKind.PROMPT
    content = hide_private(event.prompt) if is_prompt else event.output
    if activity:
        is_look = activity.name in ("Glob", "Grep") and not activity.path  # of `ls src` the command, not "src"
        subject = ((is_look and activity.command) or activity.subject)[:SUBJECT_CHARACTERS]
        is_script = "\n" in subject and event.tool == "Bash" and activity.name not in ("Edit", "Write")
        content = f"{join_commands(subject) if is_script else ' '.join(subject.split())}\n{activity.output}"
    text = _clip(content if extraction else "")
    is_asked = is_prompt and extraction and not event.agent
    task = redact(text.text.replace(PRIVATE, " ").strip()) if PRIVATE in text.text else text  # may become a title
    item = _hear_item(text, event.call_id, Trust.FILE) if is_asked else None
    if activity and extraction:
        item = _extract_item(event, activity, rules, drop_ratio)
    return Observation(
        session=event.session,
        kind=event.kind,
        text=text,
        client=event.client,
        process=process,
        call_id=event.call_id,
        # a shell command that changes a file counts as an edit
        tool=activity.name if activity and activity.name in ("Edit", "Write") else event.tool,
        path=activity.path if activity and extraction else "",
        failed=activity.failed if activity else None,
        item=item,
        task=task if is_asked else None,
        context_used=event.context_used,
    )


def hide_private(prompt: str) -> str:
    """A prompt without its private passages: each to the end of the outermost one, or of the prompt if it has none."""
    shown, depth = list[str](), 0
    for piece in _PRIVATE_TAG.split(prompt):
        if piece.lower() == "<private>":
            shown += [] if depth else [PRIVATE]
            depth += 1
        elif piece.lower() == "</private>" and depth:
            depth -= 1
        elif not depth:
            shown.append(piece)
    return "".join(shown)


def make_answers(event: Event, texts: Sequence[str], known: Container[str] = ()) -> list[Observation]:
    """The agent's texts whose hash is not `known`, each once, with the item to keep of it."""
    names = dict(zip(map(hash_text, texts), texts, strict=True))
    spoken = [(name, _clip(text)) for name, text in names.items() if name not in known]
    answer = partial(Observation, session=event.session, kind=EventKind.ANSWER, client=event.client)
    return [answer(text=text, call_id=name, item=_hear_item(text, name, Trust.AGENT)) for name, text in spoken]


def _hear_item(text: Redacted, call_id: str, trust: Trust) -> NewItem | None:
    """The decision or next step in a text by an agent, or by a person, who has not vouched for it."""
    if not (found := find_statement(text.text, by_person=trust is Trust.FILE)):
        return None
    kind, words = found
    rule, is_redacted = f"said-{kind}", "[REDACTED:" in words
    source = ItemSource(source_call_id=call_id, extraction_rule_id=rule, redaction_applied=is_redacted, trust=trust)
    return NewItem(text=redact(words), kind=kind, attention=_ATTENTION_STATED[kind], source=source)


def find_redactions(observation: Observation) -> tuple[str, ...]:
    """The classes of secrets that the redaction gate removed from an observation, sorted."""
    item = observation.item.text.text if observation.item else ""
    return tuple(sorted(set(re.findall(r"\[REDACTED:([a-z0-9-]+)\]", f"{observation.text.text} {item}"))))


def redact_call(event: Event, known: tuple[tuple[str, str], ...] = ()) -> ToolCall:
    """The tool call of an event for the rules: redacted, only the ends of long output, paths below `cwd` relative."""
    secrets = dict(known)  # with their classes: what a command names is removed from its output too

    def clean(value: Any) -> Any:
        if isinstance(value, str):  # records may go to other machines, where the folder has another name
            return redact(_make_relative(_cut_middle(value), event.cwd), secrets).text
        if isinstance(value, Mapping):
            return dict(zip(map(str, value), map(clean, value.values()), strict=True))
        return [*map(clean, value)] if isinstance(value, list | tuple) else value

    call = ToolCall(tool=event.tool, arguments=clean(event.arguments), output=clean(event.output), failed=event.failed)
    return call if len(secrets) == len(known) else redact_call(event, (*secrets.items(),))


def _extract_item(event: Event, activity: Activity, rules: Sequence[Rule], drop_ratio: float) -> NewItem | None:
    rule, text = extract(activity, rules) or (None, "")
    if rule is None or not text.strip():
        return None
    before = redact(_cut_middle(event.output))
    if before.removed_ratio > drop_ratio:
        return None
    return NewItem(
        text=redact(text),
        kind=rule.kind,
        attention=rule.attention,
        path=redact(activity.path).text,
        source=ItemSource(
            source_tool=event.tool_name or event.tool,
            source_call_id=event.call_id,
            extraction_rule_id=rule.id,
            redaction_applied=bool(before.spans) or "[REDACTED:" in text,
            trust=Trust.WEB if event.tool == "Web" else Trust.TOOL,
        ),
    )


def _clip(text: str) -> Redacted:
    """The head and the tail of a text, redacted before it is cut: half a secret is not recognised."""
    clean = redact(_cut_middle(text))
    if len(clean.text) <= RECORDED_CHARACTERS:
        return clean
    return redact(_cut_middle(clean.text, RECORDED_CHARACTERS, RECORDED_TAIL))


def _make_relative(text: str, folder: str) -> str:
    folder = folder.rstrip("/\\")
    if folder.count("/") + folder.count("\\") < _LEAST_DEPTH or folder not in text:
        return text
    below = re.sub(rf"{re.escape(folder)}[/\\](?=[\w.~-])", "", text)
    return _GO_NOWHERE.sub("", re.sub(rf"{re.escape(folder)}(?![\w.-])", ".", below))


def _cut_middle(text: str, most: int = READ_CHARACTERS, tail: int = 0) -> str:
    """The head and the tail of a text of more characters, cut at line ends so that no secret is cut in two."""
    if len(text) <= most:
        return text
    tail = tail or most // 2
    first, last = text[: most - tail], text[-tail:]
    return f"{first[: first.rfind(chr(10)) + 1] or first}{CUT_MIDDLE}{last[last.find(chr(10)) + 1 :]}"


class Transcript(Struct, frozen=True, kw_only=True):
    """A session as its client recorded it, in order; its text is raw."""

    session: str
    client: str
    cwd: str = ""  #: the folder it ran in; empty if the transcript does not say
    #: Prompts, answers (kind ANSWER, text in `output`), finished tool calls and compactions.
    events: tuple[Event, ...] = ()
    skipped: int = 0  #: lines that could not be read


class StoredSession(Struct, frozen=True, kw_only=True):
    """A session that a client keeps on this machine."""

    client: str
    session: str
    place: str  #: the file or folder that holds it, for people
    folder: str
    size: int  #: bytes of all its files
    began: float  #: seconds since 1970; 0.0 if the beginning of its files does not say
    cwd: str  #: the folder it ran in, or the SHA-256 of its path; empty if they do not say
    read_texts: Callable[[], list[str]]  #: the session's own text, then those of its sub-agents; raises UnreadableFile
    parse: Callable[[str], Transcript]


class TranscriptBuilder:
    """Collects events in the order of a file. A call becomes one with its result, except of own tools."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.events: list[Event] = []
        self._waiting: dict[str, tuple[str, Mapping[str, Any]]] = {}

    def add_text(self, kind: EventKind, text: str, at: float, agent: str = "", call_id: str = "") -> None:
        """Add a prompt, answer or summary of a compaction; an empty text is ignored, except for a compaction."""
        if (words := text.strip()) or kind is EventKind.COMPACT:
            prompt, output = (words, "") if kind is EventKind.PROMPT else ("", words)
            self.events.append(Event(kind=kind, at=at, agent=agent, prompt=prompt, output=output, call_id=call_id))

    def add_compaction(self, summary: str, at: float) -> None:
        """Add a compaction; a boundary and a summary in succession are one."""
        if self.events and self.events[-1].kind is EventKind.COMPACT and not self.events[-1].output:
            self.events.pop()
        self.add_text(EventKind.COMPACT, summary, at)

    def begin_call(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> None:
        """Remember a call until its result comes."""
        if name and not is_own_tool(name):
            self._waiting[call_id] = (name, arguments)

    def drop_call(self, call_id: str) -> None:
        """Forget a call that was refused and never ran."""
        self._waiting.pop(call_id, None)

    def tool_of(self, call_id: str) -> str:
        """The client's name of the tool of a call that waits for its result; empty if there is none."""
        return self._waiting.get(call_id, ("", {}))[0]

    def end_call(
        self, call_id: str, output: str, failed: bool | None, at: float, *, agent: str = "", tool: str = ""
    ) -> None:
        """Add a finished call; `tool` overrides the canonical name. A result without a call is left out."""
        name, arguments = self._waiting.pop(call_id, ("", {}))
        if name:
            call = Event(kind=EventKind.TOOL, tool=tool or canonical_tool(name), tool_name=name, arguments=arguments)
            self.events.append(replace(call, at=at, output=output, failed=failed, call_id=call_id, agent=agent))

    def build(self, session: str, *, cwd: str = "", skipped: int = 0) -> Transcript:
        """The transcript, its ids as they are stored; an event without a time gets that of the event before it."""
        at, found, session = 0.0, [], redact_id(session)
        for event in self.events:
            at = event.at or at
            found.append(replace(redact_names(event), client=self.client, session=session, cwd=cwd, at=at))
        return Transcript(session=session, client=self.client, cwd=cwd, events=tuple(found), skipped=skipped)


def parse_epoch(value: object) -> float:
    """Seconds since 1970 of an ISO time or a number of seconds or milliseconds; 0.0 for anything else."""
    if (count := number(value)) is not None:
        return max(0.0, count / 1000 if count > _MILLISECONDS_FROM else count)
    if not isinstance(value, str) or not re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", value):
        return 0.0
    try:
        found = datetime.fromisoformat(value)
        return max(0.0, (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0.0
