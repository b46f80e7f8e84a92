"""What an agent's tool call does: the call as reported, and the activity behind it whatever its tool is called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.ingest.shell import Command, parse_command

_PATH_KEYS = ("file_path", "path", "filePath", "absolute_path", "notebook_path", "filename", "uri")
_COMMAND_KEYS = ("command", "cmd", "script")
_SEARCH_KEYS = ("pattern", "query", "regex", "url", "prompt", "description")
_NEW_TEXT_KEYS = ("new_string", "newString", "new_str", "content", "contents", "file_text", "new_source")
_OLD_TEXT_KEYS = ("old_string", "oldString", "old_str")
_PATCH_KEYS = ("patch", "diff", "input")
_TASK_LIST_KEYS = ("todos", "plan", "tasks")
_TASK_KEYS = ("content", "step", "description", "title")
_PATCH_PATH = r"(?m)^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ b/)(\S+)"
_SHOWN_PATH = r"(?m)^\[File: (\S+) \("
_EXIT_CODE = r"\A\s*(?:Error: )?(?:Exit code:?|Command failed with exit code|exited with code) (\d{1,3})\b"


class ToolCall(Struct, frozen=True, kw_only=True):
    """A finished tool call, already redacted.

    `tool` is Read, Grep, Glob, Bash, Edit, Write, Web, Mcp or the client's own name; `failed` is None where the client
    does not say.
    """

    tool: str
    arguments: Mapping[str, Any] = {}
    output: str = ""
    failed: bool | None = None
    call_id: str = ""


class Activity(Struct, frozen=True, kw_only=True):
    """A call seen through: `cat notes.md` in a shell is a Read of notes.md.

    `name` is Read (a whole file), ReadRange (lines further down), ReadPart (its head or tail), Grep, Glob, Edit, Write,
    Run (any other shell command) or the tool's own name. `subject` is what rules match as the argument: the path (and
    for edits the changed lines after it), the search, or the command without its here-documents.
    """

    tool: str
    name: str
    path: str
    subject: str
    command: str
    change: str
    output: str
    failed: bool | None


def describe(call: ToolCall) -> Activity:
    """Tell what `call` does; a shell command is read for its intent."""
    line = _command_line(call)
    if line:
        return _describe_command(call, parse_command(line))
    tasks = "\n".join(_task_lines(call.arguments))
    if tasks:
        return _activity(replace(call, output=tasks), name=call.tool, path="", change="", asked="task list")
    change = "\n".join(_changed_lines(call.arguments))
    path = _first_text(call.arguments, _PATH_KEYS) or _patched_path(change)
    name = _read_name(call.arguments) if call.tool == "Read" else call.tool
    return _activity(call, name=name, path=path, change=change, asked=_first_text(call.arguments, _SEARCH_KEYS))


def _describe_command(call: ToolCall, command: Command) -> Activity:
    shown = re.search(_SHOWN_PATH, call.output)
    path = command.path or (shown[1] if shown and command.name != "Run" else "")
    return _activity(
        call, name=command.name, path=path, change=command.change, asked=command.pattern, command=command.line
    )


def _activity(call: ToolCall, *, name: str, path: str, change: str, asked: str, command: str = "") -> Activity:
    parts = (command,) if name == "Run" else (path, change or asked)
    return Activity(
        tool=call.tool,
        name=name,
        path=path,
        subject="\n".join(part for part in parts if part),
        command=command,
        change=change,
        output=call.output,
        failed=_outcome(call),
    )


def _outcome(call: ToolCall) -> bool | None:
    if call.failed is not None:
        return call.failed
    code = re.match(_EXIT_CODE, call.output)
    return int(code[1]) != 0 if code else None


def _command_line(call: ToolCall) -> str:
    for key in _COMMAND_KEYS:
        value = call.arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            words = [str(word) for word in value]
            return words[-1] if words[1:2] in (["-c"], ["-lc"]) else " ".join(words)
    return ""


def _first_text(arguments: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    values = (arguments.get(key) for key in keys)
    return next((value for value in values if isinstance(value, str) and value), "")


def _task_lines(arguments: Mapping[str, Any]) -> Iterator[str]:
    """`[status] task`, for every task of a list that an agent keeps; what the tool answers says less."""
    for key in _TASK_LIST_KEYS:
        tasks = arguments.get(key)
        for task in tasks if isinstance(tasks, list) else ():
            if isinstance(task, Mapping) and (told := _first_text(task, _TASK_KEYS)):
                yield f"[{task.get('status', 'pending')}] {' '.join(told.split())}"


def _read_name(arguments: Mapping[str, Any]) -> str:
    offset = arguments.get("offset")
    if isinstance(offset, int) and offset > 1:
        return "ReadRange"
    return "ReadPart" if arguments.get("limit") else "Read"


def _changed_lines(arguments: Mapping[str, Any]) -> Iterator[str]:
    edits = arguments.get("edits")
    for edit in [arguments, *(edits if isinstance(edits, list) else [])]:
        if isinstance(edit, Mapping):
            yield from _difference(_first_text(edit, _OLD_TEXT_KEYS), _first_text(edit, _NEW_TEXT_KEYS))
    yield from _first_text(arguments, _PATCH_KEYS).splitlines()


def _difference(old: str, new: str) -> Iterator[str]:
    """The lines that came and the lines that went, without those that both texts hold."""
    before, after = old.splitlines(), new.splitlines()
    kept = set(before) & set(after)
    yield from ("+" + line for line in after if line.strip() and line not in kept)
    yield from ("-" + line for line in before if line.strip() and line not in kept)


def _patched_path(change: str) -> str:
    found = re.search(_PATCH_PATH, change)
    return found[1] if found else ""
