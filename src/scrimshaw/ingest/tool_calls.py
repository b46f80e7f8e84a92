"""What an agent's tool call does: one name for each tool in all clients, and the activity of a call."""

import re
from collections.abc import Iterator, Mapping
from itertools import repeat
from operator import itemgetter
from posixpath import join
from typing import Any, NamedTuple

from msgspec import Struct

from scrimshaw.ingest.dialogs import read_dialog
from scrimshaw.ingest.payload import first_text, sections
from scrimshaw.ingest.tables import load_table

_TABLE = load_table(__file__, "tool_calls", dict[str, dict[str, str]])
_CANONICAL = {name: tool for tool, names in _TABLE["tools"].items() for name in names.split()}
_KEYS = {use: names.split() for use, names in _TABLE["keys"].items()}
_PROGRAMS = {kind: frozenset(names.split()) for kind, names in _TABLE["programs"].items()}
_OWN_PARTS = ("memory_", "task_p", "checkpoint_", "eval_run_", "tool_search", "ToolSearch")
_OWN_TOOL = (
    r"^(?:tool_search|ToolSearch)|(?:^|[^a-z0-9])"
    r"(?:memory_[a-z][a-z_]*|task_(?:pre|post)flight|checkpoint_(?:create|list|restore|delete)|eval_run_[a-z_]+)$"
)
_PATCH_PATH = r"(?m)^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ b/)(\S+)"
_PRINTED_PATH = r"(?m)^\[File: (\S+) \("
_COLOUR = r"\x1b\[[0-9;?]*[A-Za-z]"
_EXIT_CODE = r"\A\s*(?:Error: )?(?:Exit code:?|Command failed with exit code|exited with code) (\d{1,3})\b"

LONGEST_COMMAND = 20_000

# Patterns are compiled when first used: every hook imports this module.
_HEREDOC = r"(?s)<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(.*?)(?:\n[ \t]*\2(?=\n|\Z)|\Z)"
_WORD = r"(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s'\"\\;&|]|&(?=[>\d])|(?<=>)&)+"
# The message of a commit that is read from a here-document, as it is without that.
_COMMIT_TEXT = r"\bgit\b[^;&|\n]* commit\b[^;&|\n]*?((?:-\w*F|--file)[ =]?\S+|-\w*m[ =]?\"\$\(cat\s*\)\")"
_COMMENT = r"(?m)^[ \t]*#[^\n]*$"
_TOKEN = rf"(?s){_WORD}|&&|\|\||[;&|\n]"
_ASSIGNMENT = r"\A\w+="
_RANGE = r"\A(\d+),?(?:\d+|\$)?p\Z"
_FILE = r"\S*[./]\S*"  # an operand that is a file, unlike `True` or a line of code
_WRITES_FILE = r"open\(\s*['\"]([^'\"\n]+)['\"]\s*,\s*['\"][wa]|Path\(\s*['\"]([^'\"\n]+)['\"]\)\.write_text"

_SEARCHERS, _PARTS = _PROGRAMS["searchers"], _PROGRAMS["parts"]
_READ_WHEN_PIPED = _SEARCHERS | _PARTS | {"sed", "patch", "xargs"}
_WINDOWS = ("ReadRange", "ReadPart")

_WEIGHT = {"": 0, "Glob": 1, "Grep": 2, "ReadPart": 3, "ReadRange": 3, "Read": 3, "Edit": 4, "Write": 4, "Run": 5}


class ToolCall(Struct, frozen=True, kw_only=True):
    """A finished tool call, already redacted."""

    tool: str  #: Read, Grep, Glob, Bash, Edit, Write, Web, Ask, Plan, Agent, Mcp or the client's own name
    arguments: Mapping[str, Any] = {}
    output: str = ""
    failed: bool | None = None  #: None if the client does not say


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
    """Read, Grep, Glob, Bash, Edit, Write, Web, Ask, Plan, Agent or Mcp; any other name is unchanged."""
    if name.startswith(("mcp_", "MCP:")):
        return "Mcp"
    return _CANONICAL.get(name.replace("_", "").replace("-", "").lower(), name)


def is_own_tool(name: str) -> bool:
    """Whether a tool is this server's, whatever the client prefixes, or the one by which clients find such tools."""
    # Most tools are recognised without the pattern, which takes a hook half a millisecond to compile.
    return any(map(name.__contains__, _OWN_PARTS)) and re.search(_OWN_TOOL, name) is not None


def describe_call(call: ToolCall) -> Activity:
    """What `call` does; a shell command is read for its intent."""
    name, output, line = call.tool, re.sub(_COLOUR, "", call.output), _command_line(call)
    path = change = query = ""
    if line:
        name, line, path, query, change = parse_command(line)
        if not path and name != "Run" and (printed := re.search(_PRINTED_PATH, output)):
            path = printed[1]
    elif not call.failed and (shown := read_dialog(name, call.arguments, output)):
        query, output = shown
    else:
        change = "\n".join(_edit_lines(call.arguments))
        patched = re.search(_PATCH_PATH, change)
        path = first_text(call.arguments, *_KEYS["path"]) or (patched[1] if patched else "")
        query = first_text(call.arguments, *_KEYS["search"])
        if name == "Read":
            offset = call.arguments.get("offset", call.arguments.get("start_line"))
            is_further_down = isinstance(offset, int) and offset > 1
            is_part = call.arguments.get("limit") or call.arguments.get("end_line")
            name = "ReadRange" if is_further_down else "ReadPart" if is_part else "Read"
    failed = call.failed
    if failed is None and (code := re.match(_EXIT_CODE, output)):
        failed = int(code[1]) != 0
    return Activity(
        tool=call.tool,
        name=name,
        path=path,
        subject="\n".join(filter(None, (line,) if name == "Run" else (path, change or query))),
        command=line,
        change=change,
        output=output,
        failed=failed,
    )


def _command_line(call: ToolCall) -> str:
    for key in _KEYS["command"]:
        value = call.arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            words = [*map(str, value)]
            return words[-1] if words[1:2] in (["-c"], ["-lc"]) else " ".join(words)
    return ""


def _edit_lines(arguments: Mapping[str, Any]) -> Iterator[str]:
    """The lines that an edit adds and removes, without those in both its texts; then the lines of a patch."""
    for edit in (arguments, *sections(arguments.get("edits"))):
        before = first_text(edit, *_KEYS["old_text"]).splitlines()
        after = first_text(edit, *_KEYS["new_text"]).splitlines()
        for sign, lines, others in (("+", after, {*before}), ("-", before, {*after})):
            yield from (sign + line for line in lines if line.strip() and line not in others)
    yield from first_text(arguments, *_KEYS["patch"]).splitlines()


class ShellCommand(NamedTuple):
    """What a command line does. `line` is the command without here-documents, `change` what it writes into `path`."""

    name: str
    line: str
    path: str = ""
    pattern: str = ""
    change: str = ""


class _ShellStep(NamedTuple):
    program: str
    words: tuple[str, ...]
    piped: bool


_GOES_ON = ("\\", "&", "|", ";", "(", "{", " do", " then", " else")  # at the end of a line of a script
LOOKS = ("Read", "ReadRange", "ReadPart", "Grep", "Glob", "")  # shell commands that neither change nor prove anything


def parse_command(line: str) -> ShellCommand:
    """The main intent of the commands in `line`: running before writing before reading before searching."""
    line = line.strip()[:LONGEST_COMMAND]
    bare, bodies = _split_heredocs(line) if "<<" in line else (line, "")
    bare = re.sub(_COMMENT, "", bare).strip()
    if "apply_patch" in bare and (patched := re.search(_PATCH_PATH, line)):
        return ShellCommand("Edit", bare.partition("\n")[0], patched[1], change=line[line.find("*** Begin Patch") :])
    if "\n" in bare and bare.split(maxsplit=1)[0] in _PROGRAMS["editors"]:
        head, _, body = bare.partition("\n")
        return ShellCommand("Edit", head, change=body.removesuffix("\nend_of_edit"))
    steps = _split_steps(bare)
    commands = [*map(_judge_step, steps, repeat(bare))]
    strongest: ShellCommand | None = None
    for command, step in zip(commands, steps, strict=True):
        if step.piped and command.name in _WINDOWS:
            continue
        if strongest is None or _WEIGHT[command.name] > _WEIGHT[strongest.name]:
            strongest = command
    if strongest is None or strongest.name == "Run":
        return _script_edit(bare, line, bodies, steps) or strongest or ShellCommand("Run", bare)
    if strongest.name == "Write" and bodies:
        return strongest._replace(change=bodies)
    return _narrow_read(strongest, commands) if strongest.name else strongest._replace(name="Run")


def _split_heredocs(line: str) -> tuple[str, str]:
    """A command line without its here-documents, and their texts; a commit keeps the subject that the last one has."""
    texts = [*map(itemgetter(3), re.findall(_HEREDOC, line))]
    bare, subject = re.sub(_HEREDOC, r"\3", line), "".join(texts[-1:]).strip().partition("\n")[0].replace('"', "'")
    if commit := re.search(_COMMIT_TEXT, bare):
        bare = f'{bare[: commit.start(1)]}-m "{subject}"{bare[commit.end() :]}'
    return bare, "\n".join(texts)


def join_commands(script: str) -> str:
    """The lines of a script as one: semicolons part the commands, and what goes on in the next line is joined."""
    joined = ""
    for line in filter(None, (" ".join(each.split()) for each in script.splitlines())):
        goes_on = any(joined.count(mark) % 2 for mark in "\"'") or joined.endswith(_GOES_ON)
        joined += f"{' ' if goes_on else '; '}{line}" if joined else line
    return joined


def find_written_files(line: str) -> Iterator[tuple[str, str]]:
    """The files that the steps of a command line edit, write or move, whatever else it runs: old and new name.

    The old name is empty if there is none: `sed -i s/a/b/ x.py && git mv y.py z.py && pytest` gives `x.py` and both.
    Names after `cd lib` have that folder.
    """
    folder = ""
    for step in _split_steps(line):
        if step.program == "cd" and step.words[1:] and not re.search(r"\A[-.]|\.\.|\$", step.words[1]):
            folder = join(folder, step.words[1])
        yield from ((old and join(folder, old), join(folder, new)) for old, new in _find_written_names(step, line))


def _find_written_names(step: _ShellStep, line: str) -> Iterator[tuple[str, str]]:
    """The files that a step of a command line edits, writes or moves, as it names them."""
    names = [word for word in step.words[1:] if re.fullmatch(_FILE, word) and word[0] != "-" and ">" not in word]
    command = _judge_step(step, line)
    if step.program == "mv" or step.words[:2] == ("git", "mv"):
        for source in names[:-1]:
            name = source.rpartition("/")[2]
            if "." in name:  # the files of a moved folder are not known
                is_named = "." in names[-1].rpartition("/")[2]
                yield source, names[-1] if is_named else f"{names[-1].rstrip('/')}/{name}"
    elif command.name == "Edit" and step.program == "sed":
        script = next((word for word in step.words[1:] if word and not word.startswith("-")), "")
        yield from (("", name) for name in names if name != script)
    elif command.name in ("Edit", "Write") and command.path:
        yield "", command.path


def _split_steps(bare: str) -> list[_ShellStep]:
    """The commands of a line, without wrappers: `sudo`, `timeout 5`, assignments."""
    steps: list[_ShellStep] = []
    words: list[str] = []
    piped = False
    for token in [*re.findall(_TOKEN, bare), ";"]:
        if token not in ("&&", "||", ";", "&", "|", "\n"):
            words.append(_unquote(token))
            continue
        while words and (words[0] in _PROGRAMS["wrappers"] or re.match(_ASSIGNMENT, words[0])):
            del words[0]
        if words and words[0] == "timeout":
            del words[:2]
        if words:
            steps.append(_ShellStep(words[0].rpartition("/")[2], tuple(words), piped))
        words, piped = [], token == "|"
    return steps


def _unquote(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def _judge_step(step: _ShellStep, bare: str) -> ShellCommand:
    program, words, piped = step
    if program in _PROGRAMS["copiers"] and (target := _target(words)):
        copied = "" if words[0] == "cat" else " ".join(word for word in words[1:] if ">" not in word)
        return ShellCommand("Write", bare, target, change=copied)
    if program in ("sed", "perl") and any(word.startswith(("-i", "-pi", "--in-place")) for word in words):
        script, *files = [word for word in words[1:] if not word.startswith("-")] or [""]
        return ShellCommand("Edit", bare, files[-1] if files else "", change=script)
    if program in _PROGRAMS["neutral"] or (piped and program not in _READ_WHEN_PIPED):
        return ShellCommand("", bare)
    operands = _operands(words)
    if program in _SEARCHERS or words[:2] == ("git", "grep"):
        return ShellCommand("Grep", bare, operands[-1] if len(operands) > 1 else "", operands[0] if operands else "")
    if program in _PROGRAMS["listers"]:
        return ShellCommand("Glob", bare, pattern=" ".join(operands))
    if program in _PROGRAMS["readers"] | _PARTS or (program == "sed" and "-n" in words):
        files = operands[1:] if program == "sed" else operands
        path = next((word for word in files if not word.isdigit()), "")
        return ShellCommand(_name_of_read(program, operands), bare, path)
    if program in _PROGRAMS["editors"]:
        return ShellCommand("Edit", bare, next((word for word in operands if re.fullmatch(_FILE, word)), ""))
    return ShellCommand("" if program == "sed" else "Run", bare)


def _name_of_read(program: str, operands: list[str]) -> str:
    if program in ("open", "goto"):
        return "ReadRange" if operands[-1:] and operands[-1].isdigit() else "Read"
    span = re.match(_RANGE, operands[0]) if program == "sed" and operands else None
    is_part = program == "sed" or program in _PARTS
    return "ReadRange" if span and int(span[1]) > 1 else "ReadPart" if is_part else "Read"


def _narrow_read(strongest: ShellCommand, commands: list[ShellCommand]) -> ShellCommand:
    """`nl file | sed -n 9,20p` reads a range, `cat file | grep x` searches; several edits of a file are one change."""
    if len({name for _, name in find_written_files(strongest.line)}) > 1:
        return ShellCommand("Run", strongest.line)  # which names them all
    if strongest.name == "Edit":
        return strongest._replace(change="\n".join(command.change for command in commands if command.name == "Edit"))
    filters = (each for each in commands if each.name in (*_WINDOWS, "Grep") and not each.path)
    narrow = next(filters, None) if strongest.name == "Read" else None
    return strongest._replace(name=narrow.name, pattern=narrow.pattern) if narrow else strongest


def _operands(words: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if word in ("-n", "-A", "-B", "-C", "-m", "--include") and words[0] not in ("sed", "nl", "cat"):
            if word != "-n" or words[0] in _PARTS:
                next(rest, "")  # its value
        elif not word.startswith("-") and ">" not in word:
            found.append(word)
    return found[1:] if words[:2] == ("git", "grep") else found


def _target(words: tuple[str, ...]) -> str:
    """The file that standard output goes to, by `>`, `>>` or tee; nothing for /dev/null and descriptors."""
    if words[0] == "tee":
        return next(iter(_operands(words)), "")
    place = next((place for place, word in enumerate(words) if word.startswith(">")), len(words))
    name = "".join(words[place : place + 1]).lstrip(">") or "".join(words[place + 1 : place + 2])
    return "" if name.startswith(("&", "/dev/")) else _unquote(name)


def _script_edit(bare: str, line: str, bodies: str, steps: list[_ShellStep]) -> ShellCommand | None:
    """A script that reads a file and writes the same file back is an edit, not a run."""
    if _PROGRAMS["interpreters"].isdisjoint(map(itemgetter(0), steps)):
        return None
    for match in re.finditer(_WRITES_FILE, line):
        path = match[1] or match[2]
        if line.count(path) > 1:
            script = bodies or max((word for step in steps for word in step.words), key=len)
            # String literals with a line end have the new text, or all lines if there are none.
            lines = [line.strip() for line in script.splitlines() if '\\n"' in line or "\\n'" in line]
            return ShellCommand("Edit", bare, path, change="\n".join(lines) or script)
    return None
