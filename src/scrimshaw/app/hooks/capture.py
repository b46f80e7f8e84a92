"""From an event to what is kept of it: redacted first, then judged by the extraction rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import structs

from scrimshaw.app.hooks.event import Event, EventName, digest
from scrimshaw.ingest.extract import extract
from scrimshaw.ingest.redact import MOSTLY_REMOVED_RATIO, is_mostly_removed, redact
from scrimshaw.ingest.rules import Rule
from scrimshaw.ingest.tool_calls import Activity, ToolCall, describe
from scrimshaw.models import EventKind, ItemKind, ItemSource, NewItem, Observation, Redacted, Trust

# What is kept of an event for later drafts; more of it is in the client's own transcript.
KEPT_CHARACTERS = 4_000
ASKED_CHARACTERS = 500
# A tool's output is judged by its head and tail: what lies between costs time and tells little.
READ_CHARACTERS = 64_000
_LEAST_DEPTH = 2
_NAMES = ("session", "agent", "call_id", "tool", "tool_name")

_KINDS: Mapping[EventName, EventKind] = {
    EventName.START: EventKind.START,
    EventName.PROMPT: EventKind.PROMPT,
    EventName.TOOL: EventKind.TOOL,
    EventName.STOP: EventKind.STOP,
    EventName.COMPACT: EventKind.COMPACT,
    EventName.END: EventKind.END,
}


def with_clean_names(event: Event) -> Event:
    """The event with its ids and names of tools redacted: they are stored as they are, whatever a client puts there."""
    names = {name: redact(getattr(event, name)).text for name in _NAMES}
    return structs.replace(event, **names)


def observation(
    event: Event, rules: Sequence[Rule], *, process: int, extraction: bool, drop_ratio: float = MOSTLY_REMOVED_RATIO
) -> Observation:
    """What is kept of an event; everything in it has passed the redaction gate."""
    call = redacted_call(event) if event.name == EventName.TOOL else None
    item = _item(event, call, rules, drop_ratio) if call and extraction else None
    activity = describe(call) if call else None
    text = _kept(event, activity) if extraction else redact("")
    return Observation(
        session=event.session,
        kind=_KINDS[event.name],
        text=text,
        client=event.client,
        process=process,
        call_id=event.call_id,
        tool=event.tool,
        path=activity.path if activity and extraction else "",
        failed=activity.failed if activity else None,
        item=item,
        task=text if event.name == EventName.PROMPT and extraction and not event.agent else None,
        context_used=event.context_used,
    )


def answers(event: Event, said: Sequence[str]) -> list[Observation]:
    """What the agent said, each text once however often a transcript is read."""
    return [
        Observation(
            session=event.session,
            kind=EventKind.ANSWER,
            text=_clipped(text),
            client=event.client,
            call_id=digest(text.encode("utf-8", "replace")),
        )
        for text in said
    ]


def removed_classes(seen: Observation) -> tuple[str, ...]:
    """The classes of what the redaction gate took out of what is kept, sorted."""
    texts = (seen.text.text, seen.item.text.text if seen.item else "")
    return tuple(sorted({name for text in texts for name in re.findall(r"\[REDACTED:([a-z0-9-]+)\]", text)}))


def redacted_call(event: Event) -> ToolCall:
    """The tool call of an event as rules see it: redacted, long output cut to its ends, paths below its `cwd` relative.

    What is kept goes to other machines, where the folder has another name.
    """

    def clean(text: str) -> str:
        return redact(_relative(_ends(text), event.cwd)).text

    return ToolCall(
        tool=event.tool,
        arguments=_cleaned(event.arguments, clean),
        output=clean(event.output),
        failed=event.failed,
        call_id=event.call_id,
    )


def _item(event: Event, call: ToolCall, rules: Sequence[Rule], drop_ratio: float) -> NewItem | None:
    found = extract(call, rules)
    if found is None or not found.text.strip():
        return None
    before = redact(_ends(event.output))
    if is_mostly_removed(before, drop_ratio):
        return None
    return NewItem(
        text=redact(found.text),
        kind=ItemKind(found.kind),
        attention=found.attention,
        path=redact(found.path).text,
        source=ItemSource(
            source_tool=event.tool_name or event.tool,
            source_call_id=event.call_id,
            extraction_rule_id=found.rule_id,
            redaction_applied=bool(before.spans) or "[REDACTED:" in found.text,
            trust=Trust.WEB if event.tool == "Web" else Trust.TOOL,
        ),
    )


def _kept(event: Event, activity: Activity | None) -> Redacted:
    if activity is None:
        return _clipped(event.prompt if event.name == EventName.PROMPT else event.output)
    asked = " ".join(activity.subject[:ASKED_CHARACTERS].split())
    return _clipped(f"{asked}\n{activity.output}")


def _clipped(text: str) -> Redacted:
    """The start of a text, redacted before it is cut: half a secret looks like none."""
    return redact(redact(_ends(text)).text[:KEPT_CHARACTERS])


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """The same structure with every text cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {str(key): _cleaned(each, clean) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(each, clean) for each in value]
    return value


def _relative(text: str, folder: str) -> str:
    """The text with paths below a folder told from there; a folder near the root says too little to be taken out."""
    folder = folder.rstrip("/\\")
    if folder.count("/") + folder.count("\\") < _LEAST_DEPTH or folder not in text:
        return text
    below = re.sub(rf"{re.escape(folder)}[/\\](?=[\w.~-])", "", text)
    return re.sub(rf"{re.escape(folder)}(?![\w.-])", ".", below)


def _ends(text: str) -> str:
    """The head and the tail of a long text, cut at line ends so that no secret is cut in two."""
    if len(text) <= READ_CHARACTERS:
        return text
    half = READ_CHARACTERS // 2
    head, tail = text[:half], text[-half:]
    return f"{head[: head.rfind(chr(10)) + 1] or head}\n[...]\n{tail[tail.find(chr(10)) + 1 :]}"
