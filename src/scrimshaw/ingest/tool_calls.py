"""What an agent's tool call does: one name for a tool whatever its client calls it, and the activity behind a call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.ingest.payload import first_text, sections
from scrimshaw.ingest.shell import parse_command

# Spelled without case and separators: read_file, ReadFile and readFile are one name.
_TOOL_NAMES: Mapping[str, str] = {
    "Read": "read readfile readfiles readmanyfiles view notebookread",
    "Grep": "grep grepsearch searchfilecontent searchfiles search codebasesearch codesearch ripgrep",
    "Glob": "glob globfilesearch filesearch ls list listdir listdirectory listfiles",
    "Bash": "bash shell powershell runshellcommand runterminalcmd runterminalcommand runcommands executecommand "
    "execcommand shellcommand localshell unifiedexec",
    "Edit": "edit multiedit editfile editor replace replaceinfile strreplace strreplaceeditor searchreplace "
    "notebookedit applypatch applydiff patch",
    "Write": "write writefile writetofile create createfile newfile",
    "Web": "webfetch websearch googlewebsearch fetchwebcontent fetch browseraction",
}
_CANONICAL = {name: tool for tool, names in _TOOL_NAMES.items() for name in names.split()}
_OWN_TOOL = (
    r"(?:^|[^a-z0-9])"
    r"(?:memory_[a-z][a-z_]*|task_(?:pre|post)flight|checkpoint_(?:create|list|restore|delete)|eval_run_[a-z_]+)$"
)
_PATH_KEYS = ("file_path", "path", "filePath", "absolute_path", "notebook_path", "filename", "uri")
_COMMAND_KEYS = ("command", "cmd", "script")
_SEARCH_KEYS = ("pattern", "query", "regex", "url", "prompt", "description")
_NEW_TEXT_KEYS = ("new_string", "newString", "new_str", "content", "contents", "file_text", "new_source")
_OLD_TEXT_KEYS = ("old_string", "oldString", "old_str")
_PATCH_KEYS = ("patch", "diff", "input")
_TASK_LIST_KEYS = ("todos", "plan", "tasks")
_TASK_KEYS = ("content", "step", "description", "title")
_PATCH_PATH = r"(?m)^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ b/)(\S+)"
_PRINTED_PATH = r"(?m)^\[File: (\S+) \("
_EXIT_CODE = r"\A\s*(?:Error: )?(?:Exit code:?|Command failed with exit code|exited with code) (\d{1,3})\b"


class ToolCall(Struct, frozen=True, kw_only=True):
    """A finished tool call, already redacted."""

    #: Read, Grep, Glob, Bash, Edit, Write, Web, Mcp or the client's own name.
    tool: str
    arguments: Mapping[str, Any] = {}
    output: str = ""
    #: None where the client does not say.
    failed: bool | None = None
    call_id: str = ""


class Activity(Struct, frozen=True, kw_only=True):
    """What a call does, whatever its tool: `cat notes.md` in a shell is a Read of notes.md."""

    tool: str
    #: Read (a whole file), ReadRange (lines further down), ReadPart (head or tail), Grep, Glob, Edit, Write, Run (any
    #: other shell command) or the tool's own name.
    name: str
    path: str
    #: What rules match: the path (of an edit the changed lines too), the search, or the command without here-documents.
    subject: str
    command: str
    change: str
    output: str
    failed: bool | None


def canonical_tool(name: str) -> str:
    """Read, Grep, Glob, Bash, Edit, Write, Web or Mcp; a name that is none of them stays as it is."""
    if name.startswith(("mcp_", "MCP:")):
        return "Mcp"
    return _CANONICAL.get(name.replace("_", "").replace("-", "").lower(), name)


def is_own_tool(name: str) -> bool:
    """Whether a tool is one of this server's, whatever server and plugin names a client puts before its name."""
    return re.search(_OWN_TOOL, name) is not None


def describe_call(call: ToolCall) -> Activity:
    """What `call` does; a shell command is read for its intent."""
    line = _command_line(call)
    if line:
        command = parse_command(line)
        printed = re.search(_PRINTED_PATH, call.output)
        path = command.path or (printed[1] if printed and command.name != "Run" else "")
        return _activity(call, command.name, path, command.change, command.pattern, command=command.line)
    tasks = "\n".join(_task_lines(call.arguments))
    if tasks:
        return _activity(replace(call, output=tasks), call.tool, "", "", "task list")
    change = "\n".join(_changed_lines(call.arguments))
    path = first_text(call.arguments, *_PATH_KEYS)
    if not path and (patched := re.search(_PATCH_PATH, change)):
        path = patched[1]
    name = call.tool
    if name == "Read":
        offset = call.arguments.get("offset")
        is_further_down = isinstance(offset, int) and offset > 1
        name = "ReadRange" if is_further_down else "ReadPart" if call.arguments.get("limit") else "Read"
    return _activity(call, name, path, change, first_text(call.arguments, *_SEARCH_KEYS))


def _activity(call: ToolCall, name: str, path: str, change: str, query: str, *, command: str = "") -> Activity:
    parts = (command,) if name == "Run" else (path, change or query)
    failed = call.failed
    if failed is None and (code := re.match(_EXIT_CODE, call.output)):
        failed = int(code[1]) != 0
    return Activity(
        tool=call.tool,
        name=name,
        path=path,
        subject="\n".join(part for part in parts if part),
        command=command,
        change=change,
        output=call.output,
        failed=failed,
    )


def _command_line(call: ToolCall) -> str:
    for key in _COMMAND_KEYS:
        value = call.arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            words = [str(word) for word in value]
            return words[-1] if words[1:2] in (["-c"], ["-lc"]) else " ".join(words)
    return ""


def _task_lines(arguments: Mapping[str, Any]) -> Iterator[str]:
    """`[status] task`, for every task of a list that an agent keeps; the tool's own answer says less."""
    for key in _TASK_LIST_KEYS:
        for task in sections(arguments.get(key)):
            if content := first_text(task, *_TASK_KEYS):
                yield f"[{task.get('status', 'pending')}] {' '.join(content.split())}"


def _changed_lines(arguments: Mapping[str, Any]) -> Iterator[str]:
    """The lines that an edit adds and removes, without those that both its texts hold; then the lines of a patch."""
    for edit in (arguments, *sections(arguments.get("edits"))):
        before = first_text(edit, *_OLD_TEXT_KEYS).splitlines()
        after = first_text(edit, *_NEW_TEXT_KEYS).splitlines()
        unchanged = set(before) & set(after)
        yield from ("+" + line for line in after if line.strip() and line not in unchanged)
        yield from ("-" + line for line in before if line.strip() and line not in unchanged)
    yield from first_text(arguments, *_PATCH_KEYS).splitlines()
