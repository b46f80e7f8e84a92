"""Real sessions as the product would have recorded them: console logs and benchmark runs read into transcripts, then
sent through the hooks' own path (redaction, extraction, cutting).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.app.hooks.record import LONGEST_ANSWER
from scrimshaw.ingest.events import Event, Transcript, add_call_id, make_answers, make_observation
from scrimshaw.ingest.extraction import default_rules
from scrimshaw.ingest.tool_calls import canonical_tool
from scrimshaw.models import EventKind, Item, Observation, RecordedEvent, Session

PAUSE_S = 30 * 60
_MINUTE_S = 60.0
_MARK = re.compile(r"^(> |⏺ |✻ |⎿ |  ⎿|=====|╭─)")
_CALL = re.compile(r"\A([A-Z][A-Za-z]+)\((.*?)\)?…?\Z", re.S)
_DECLINED = ("No (tell Claude", "Interrupted by user", "User rejected", "No content")
_ERRORS = ("Error", "File has been modified", "File has not been read", "String to replace")
_CONTINUED = "This session is being continued"


class Recording(Struct, frozen=True, kw_only=True):
    """One session as the journal holds it."""

    session: Session
    events: tuple[RecordedEvent, ...]
    items: tuple[Item, ...]


def recorded(transcript: Transcript) -> Recording:
    """What a live session leaves: before each call what the agent said since the last one; known answers once."""
    seen: dict[str, Observation] = {}
    for number, event in enumerate(transcript.events):
        client, session, cwd = transcript.client, transcript.session, transcript.cwd
        ours = replace(event, client=client, session=session, cwd=cwd)
        if event.kind is EventKind.ANSWER:
            kept = make_answers(ours, [text] if (text := event.output.strip()[:LONGEST_ANSWER]) else [])
        elif event.kind in (EventKind.TOOL, EventKind.PROMPT, EventKind.COMPACT):
            ours = ours if ours.call_id else add_call_id(ours, str(number))
            kept = [make_observation(ours, default_rules(), process=0, extraction=True)]
        else:
            continue
        seen.update({each.call_id: each for each in kept if each.call_id not in seen})
    return _stored(transcript, list(seen.values()))


def _stored(transcript: Transcript, seen: list[Observation]) -> Recording:
    events: list[RecordedEvent] = []
    items: list[Item] = []
    start = transcript.events[0].at if transcript.events else 0.0
    for number, each in enumerate(seen, 1):
        event = RecordedEvent(
            session=transcript.session,
            number=number,
            kind=each.kind,
            tool=each.tool,
            call_id=each.call_id,
            text=each.text.text,
            at=start + number * _MINUTE_S,
            path=each.path,
            failed=each.failed,
        )
        events.append(event)
        if each.item:
            items.append(_item(each, event, len(items) + 1))
    task = next((event.text for event in events if event.kind == EventKind.PROMPT), "")
    session = Session(id=transcript.session, client=transcript.client, counter=len(events), task=task, started=start)
    return Recording(session=session, events=tuple(events), items=tuple(items))


def _item(seen: Observation, event: RecordedEvent, number: int) -> Item:
    if seen.item is None:
        raise ValueError("an observation without an item")
    new = seen.item
    return Item(
        session=event.session,
        number=number,
        text=new.text.text,
        kind=new.kind,
        attention=new.attention,
        event=event.number,
        at=event.at,
        source=new.source,
        path=new.path,
    )


def cut(transcript: Transcript) -> list[Transcript]:
    """A long conversation parted where it was compacted or rested for more than PAUSE_S; no part without a call."""
    parts: list[list[Event]] = [[]]
    for turn in transcript.events:
        last = parts[-1][-1].at if parts[-1] else 0.0
        if parts[-1] and (turn.at - last > PAUSE_S > 0 < last or parts[-1][-1].kind == EventKind.COMPACT):
            parts.append(parts[-1][-1:] if parts[-1][-1].kind == EventKind.COMPACT else [])
        parts[-1].append(turn)
    return [
        replace(transcript, session=f"{transcript.session}.{number}", events=tuple(part))
        for number, part in enumerate(parts, 1)
        if any(turn.tool for turn in part)
    ]


def console(path: Path) -> list[Transcript]:
    """The sessions of a console log of Claude Code; thinking is not reported to hooks and is left out."""
    sessions: list[list[Event]] = [[]]
    for mark, text in _blocks(path.read_text(encoding="utf-8")):
        if (mark == "╭" and "Welcome to Claude" in text) or text.startswith(_CONTINUED):
            sessions.append([])
        if mark == "⎿":
            _finish(sessions[-1], text)
        elif turn := _console_turn(mark, text, f"{path.stem}-{len(sessions)}-{len(sessions[-1])}"):
            sessions[-1].append(turn)
    return [
        Transcript(session=f"{path.stem}-{number}", client="claude", events=tuple(turns))
        for number, turns in enumerate(sessions)
        if any(turn.tool for turn in turns)
    ]


def _console_turn(mark: str, text: str, call_id: str) -> Event | None:
    if mark == ">" and text.startswith(_CONTINUED):
        return Event(kind=EventKind.COMPACT, output=text)
    if mark == ">" and text and not text.startswith("/cost"):
        return Event(kind=EventKind.PROMPT, prompt=text)
    if mark == "⏺" and (call := _CALL.match(text)):
        return _console_call(call[1], call[2], call_id)
    told = mark == "⏺" and not text.startswith("Update Todos")
    return Event(kind=EventKind.ANSWER, output=text) if told else None


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    mark, lines = "", list[str]()
    for line in text.splitlines():
        found = _MARK.match(line)
        if found:
            yield mark, _unwrapped(lines)
            mark, lines = found[1].strip()[:1], [line[len(found[1]) :].strip()]
        else:
            lines.append(line.removeprefix("     ") if mark == "⎿" else line.removeprefix("  "))
    yield mark, _unwrapped(lines)


def _unwrapped(lines: list[str]) -> str:
    """Lines as written: the console breaks them at about 170 columns."""
    text = ""
    width = 0
    for line in lines:
        wraps = width > 130 and line.strip() and not re.match(r"\s*(?:[-*•☐☒] |\d+\. )", line)
        text += (" " if wraps else "\n") + (line.strip() if wraps else line.rstrip())
        width = len(line)
    return text.strip()


def _console_call(name: str, argument: str, call_id: str) -> Event:
    tool = canonical_tool({"Update": "Edit", "Create": "Write"}.get(name, name))
    arguments = _arguments(tool, argument)
    return Event(kind=EventKind.TOOL, tool=tool, tool_name=name, arguments=arguments, failed=False, call_id=call_id)


def _arguments(tool: str, argument: str) -> Mapping[str, Any]:
    argument = re.split(r"\)…", re.sub(r"\A(?:file_path|notebook_path): ", "", argument))[0]
    if tool == "Bash":
        return {"command": argument}
    if tool == "Grep":
        found = re.search(r'pattern: "([^"]*)"(?:, path: "([^"]*)")?', argument)
        return {"pattern": found[1], "path": found[2] or ""} if found else {"pattern": argument}
    return {"file_path": argument} if tool in ("Read", "Edit", "Write") else {"description": argument}


def _finish(turns: list[Event], output: str) -> None:
    """Give the last call its output; a call the user refused was never made."""
    call = turns[-1] if turns else None
    if call is None or not call.tool:
        return
    if output.startswith(_DECLINED):
        turns.pop()
        return
    changed = [line.split(maxsplit=1)[1] for line in output.splitlines() if re.match(r"\s*\d+\s+[-+]\s", line)]
    arguments = dict(call.arguments)
    if call.tool in ("Edit", "Write") and changed:
        arguments["new_string"] = "\n".join(line[1:].strip() for line in changed if line.startswith("+"))
        arguments["old_string"] = "\n".join(line[1:].strip() for line in changed if line.startswith("-"))
        output = output.splitlines()[0]
    joined = f"{call.output}\n{output}".strip()
    turns[-1] = replace(call, arguments=arguments, output=joined, failed=output.startswith(_ERRORS))


def mini_swe(path: Path) -> Transcript:
    """A run of mini-swe-agent."""
    messages = json.loads(path.read_text(encoding="utf-8"))["messages"]
    turns = [Event(kind=EventKind.PROMPT, prompt=str(messages[1]["content"]))]
    for number, (said, result) in enumerate(zip(messages[2::2], messages[3::2], strict=False)):
        text, commands = str(said["content"]), re.findall(r"(?s)```bash\n(.*?)```", str(said["content"]))
        turns.append(Event(kind=EventKind.ANSWER, output=re.sub(r"(?s)```bash\n.*?```", "", text)))
        if len(commands) == 1:
            turns.append(_shell_turn(commands[0], str(result["content"]), f"c{number}"))
    return Transcript(session=path.stem, client="mini-swe", events=tuple(turns))


def _shell_turn(command: str, output: str, call_id: str) -> Event:
    code = re.search(r"<returncode>(-?\d+)</returncode>", output)
    text = re.sub(r"</?(?:returncode|output)>", "", re.sub(r"<returncode>.*?</returncode>", "", output)).strip()
    return Event(
        kind=EventKind.TOOL,
        tool="Bash",
        tool_name="bash",
        arguments={"command": command},
        output=text,
        failed=code[1] != "0" if code else None,
        call_id=call_id,
    )


def swe_agent(path: Path) -> Transcript:
    """A run of SWE-agent."""
    run = json.loads(path.read_text(encoding="utf-8"))
    asked = [str(each["content"]) for each in run["history"] if each["role"] == "user" and not each.get("is_demo")]
    turns = [Event(kind=EventKind.PROMPT, prompt=asked[0] if asked else "")]
    for number, step in enumerate(run.get("trajectory", ())):
        turns.append(Event(kind=EventKind.ANSWER, output=step.get("thought", "")))
        turns.append(_shell_turn(step["action"], step["observation"], f"c{number}"))
    return Transcript(session=path.stem, client="swe-agent", events=tuple(turns))
