"""Reads the intent of a shell command: which file it shows, searches or changes, or that it runs something."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

LONGEST_COMMAND = 20_000

# Patterns are compiled when first used: the import is on the path of every hook.
_HEREDOC = r"(?s)<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(.*?)(?:\n[ \t]*\2(?=\n|\Z)|\Z)"
_WORD = r"(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s'\"\\;&|]|&(?=[>\d])|(?<=>)&)+"
_COMMENT = r"(?m)^[ \t]*#[^\n]*$"
_TOKEN = rf"(?s){_WORD}|&&|\|\||[;&|\n]"
_ASSIGNMENT = r"\A\w+="
_RANGE = r"\A(\d+),?(?:\d+|\$)?p\Z"
_WRITES_FILE = r"open\(\s*['\"]([^'\"\n]+)['\"]\s*,\s*['\"][wa]|Path\(\s*['\"]([^'\"\n]+)['\"]\)\.write_text"

_WRAPPERS = frozenset({"sudo", "time", "nohup", "env", "exec", "command", "stdbuf", "nice"})
_NEUTRAL = frozenset(
    {"cd", "echo", "printf", "export", "source", ".", "true", "set", "pushd", "popd", "sleep", "wait"}
    | {"rm", "mkdir", "touch", "chmod", "cp", "mv", "ln"}
)
_READERS = frozenset({"cat", "nl", "less", "more", "bat", "open", "view", "goto", "scroll_down", "scroll_up"})
_PARTS = frozenset({"head", "tail"})
_WINDOWS = ("ReadRange", "ReadPart")
_SEARCHERS = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "search_dir", "search_file"})
_LISTERS = frozenset({"ls", "find", "fd", "tree", "pwd", "wc", "which", "du", "stat", "file", "find_file", "type"})
_EDITORS = frozenset({"edit", "create", "str_replace_editor", "apply_patch", "patch", "insert"})
_INTERPRETERS = frozenset({"python", "python3", "node", "ruby", "perl"})
_COPIERS = frozenset({"cat", "echo", "printf", "tee"})

_WEIGHT = {"": 0, "Glob": 1, "Grep": 2, "ReadPart": 3, "ReadRange": 3, "Read": 3, "Edit": 4, "Write": 4, "Run": 5}


class Command(NamedTuple):
    """What a command line does. `line` is the command without here-documents, `change` what it writes into `path`."""

    name: str
    line: str
    path: str = ""
    pattern: str = ""
    change: str = ""


class _Step(NamedTuple):
    words: tuple[str, ...]
    piped: bool


def parse_command(line: str) -> Command:
    """The weightiest intent among the commands of `line`: running beats writing beats reading beats searching."""
    line = line.strip()[:LONGEST_COMMAND]
    bodies = "\n".join(match[4] for match in re.finditer(_HEREDOC, line))
    bare = re.sub(_COMMENT, "", re.sub(_HEREDOC, r"\3", line)).strip()
    first = bare.split(maxsplit=1)[:1]
    if first and first[0] in _EDITORS and "\n" in bare:
        return _block_edit(bare)
    steps = _steps(bare)
    commands = [_judge(step, bare) for step in steps]
    leading = [each for each, step in zip(commands, steps, strict=True) if not (step.piped and each.name in _WINDOWS)]
    strongest = max(leading, key=lambda command: _WEIGHT[command.name], default=Command("Run", bare))
    if strongest.name == "Run":
        return _script_edit(bare, line, bodies, steps) or strongest
    if strongest.name == "Write" and bodies:
        return strongest._replace(change=bodies)
    return _narrowed(strongest, commands) if strongest.name else strongest._replace(name="Run")


def _block_edit(bare: str) -> Command:
    head, _, body = bare.partition("\n")
    return Command("Edit", head, change=body.removesuffix("\nend_of_edit"))


def _steps(bare: str) -> list[_Step]:
    steps: list[_Step] = []
    words: list[str] = []
    piped = False
    for token in [*re.findall(_TOKEN, bare), ";"]:
        if token not in ("&&", "||", ";", "&", "|", "\n"):
            words.append(token)
            continue
        kept = _without_wrappers(words)
        if kept:
            steps.append(_Step(kept, piped))
        words, piped = [], token == "|"
    return steps


def _without_wrappers(words: Iterable[str]) -> tuple[str, ...]:
    kept = [_unquote(word) for word in words]
    while kept and (kept[0] in _WRAPPERS or re.match(_ASSIGNMENT, kept[0])):
        del kept[0]
    if kept and kept[0] == "timeout":
        del kept[:2]
    return tuple(kept)


def _unquote(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        return word[1:-1]
    return word


def _judge(step: _Step, bare: str) -> Command:
    program = step.words[0].rpartition("/")[2] if step.words[0] != "." else "."
    if program in _COPIERS and _target(step.words):
        return Command("Write", bare, _target(step.words), change=_copied(step.words))
    if program in ("sed", "perl") and any(word.startswith(("-i", "-pi", "--in-place")) for word in step.words):
        return _in_place(step.words, bare)
    if program in _NEUTRAL or (step.piped and program not in _SEARCHERS | _PARTS | {"sed", "patch", "xargs"}):
        return Command("", bare)
    return _plain(program, step, bare)


def _plain(program: str, step: _Step, bare: str) -> Command:
    operands = _operands(step.words)
    if program in _SEARCHERS or step.words[:2] == ("git", "grep"):
        return Command("Grep", bare, operands[-1] if len(operands) > 1 else "", operands[0] if operands else "")
    if program in _LISTERS:
        return Command("Glob", bare, pattern=" ".join(operands))
    if program in _READERS | _PARTS or (program == "sed" and "-n" in step.words):
        return Command(_read_name(program, operands), bare, _file_of(program, operands))
    if program in _EDITORS:
        return Command("Edit", bare, operands[0] if operands else "")
    return Command("" if program == "sed" else "Run", bare)


def _read_name(program: str, operands: list[str]) -> str:
    if program in _PARTS:
        return "ReadPart"
    if program == "sed":
        span = re.match(_RANGE, operands[0]) if operands else None
        return "ReadRange" if span and int(span[1]) > 1 else "ReadPart"
    return "ReadRange" if program in ("open", "goto") and operands[-1:] and operands[-1].isdigit() else "Read"


def _file_of(program: str, operands: list[str]) -> str:
    files = operands[1:] if program == "sed" else operands
    return next((word for word in files if not word.isdigit()), "")


def _narrowed(strongest: Command, commands: list[Command]) -> Command:
    """`nl file | sed -n 9,20p` reads a range, `cat file | grep x` searches; several edits are one change."""
    if strongest.name == "Edit":
        return strongest._replace(change="\n".join(command.change for command in commands if command.name == "Edit"))
    for command in commands:
        if strongest.name == "Read" and command.name in (*_WINDOWS, "Grep") and not command.path:
            return strongest._replace(name=command.name, pattern=command.pattern)
    return strongest


def _in_place(words: tuple[str, ...], bare: str) -> Command:
    operands = [word for word in words[1:] if not word.startswith("-")]
    script, files = operands[:1], operands[1:]
    return Command("Edit", bare, files[-1] if files else "", change="".join(script))


def _operands(words: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in ("-n", "-A", "-B", "-C", "-m", "--include") and words[0] not in ("sed", "nl", "cat"):
            skip = word != "-n" or words[0] in _PARTS
        elif not word.startswith("-") and ">" not in word:
            kept.append(word)
    return kept[1:] if words[:2] == ("git", "grep") else kept


def _target(words: tuple[str, ...]) -> str:
    """The file that standard output goes to, by `>`, `>>` or tee; nothing for /dev/null and descriptors."""
    if words[0] == "tee":
        return next(iter(_operands(words)), "")
    for position, word in enumerate(words):
        if word.startswith(">"):
            name = word.lstrip(">") or "".join(words[position + 1 : position + 2])
            return "" if name.startswith(("&", "/dev/")) else _unquote(name)
    return ""


def _copied(words: tuple[str, ...]) -> str:
    return "" if words[0] == "cat" else " ".join(word for word in words[1:] if ">" not in word)


def _script_edit(bare: str, line: str, bodies: str, steps: list[_Step]) -> Command | None:
    """A script that reads a file and writes the same file back is an edit, not a run."""
    if not any(step.words[0].rpartition("/")[2] in _INTERPRETERS for step in steps):
        return None
    for match in re.finditer(_WRITES_FILE, line):
        path = match[1] or match[2]
        if line.count(path) > 1:
            script = bodies or max((word for step in steps for word in step.words), key=len)
            return Command("Edit", bare, path, change=_written_lines(script))
    return None


def _written_lines(script: str) -> str:
    """The lines of an editing script that hold the new text: string literals with a line end; all lines if none do."""
    lines = script.splitlines()
    written = [line.strip() for line in lines if '\\n"' in line or "\\n'" in line]
    return "\n".join(written) or script
