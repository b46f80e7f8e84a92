"""Memory ids: which names may be written, and which file a name stands for."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

from scrimshaw.errors import InvalidMemoryId

SUFFIX = ".md"
MAX_ID_CHARS = 240  # a path of 260 characters is where Windows ends
MAX_SEGMENT_BYTES = 120  # names of 143 bytes are where eCryptfs ends; leaves room for ".md"

_UNSAFE_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_WINDOWS_ROOT = re.compile(r"\\\\|[A-Za-z]:[\\/]")
_RESERVED_NAME = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *", re.IGNORECASE)
_RESERVED_CHARACTERS = frozenset('<>:"|?*')

Rule = tuple[str, Callable[[str], bool]]


def _has_control(text: str) -> bool:
    return any(unicodedata.category(char) in _UNSAFE_CATEGORIES or char in _BIDI_CONTROLS for char in text)


def _is_reserved(segment: str) -> bool:
    return _RESERVED_NAME.fullmatch(segment.partition(".")[0]) is not None


_CONTAINMENT_RULES: tuple[Rule, ...] = (
    ("it is empty", lambda name: not name),
    ("it is an absolute path", lambda name: name.startswith("/")),
    ("it holds a NUL character", lambda name: "\0" in name),
    ("it has an empty segment", lambda name: "" in name.split("/")),
    ('it has a "." or ".." segment', lambda name: not {".", ".."}.isdisjoint(name.split("/"))),
)

_NO_BACKSLASH: Rule = ("it holds a backslash", lambda name: "\\" in name)
_NO_CONTROL: Rule = ("it holds a control character", _has_control)

_ID_RULES: tuple[Rule, ...] = (
    ("it is an absolute path of Windows", lambda name: _WINDOWS_ROOT.match(name) is not None),
    _NO_BACKSLASH,
    _NO_CONTROL,
    (f"it is longer than {MAX_ID_CHARS} characters", lambda name: len(name) > MAX_ID_CHARS),
    (f'it ends in "{SUFFIX}"', lambda name: name.lower().endswith(SUFFIX)),
)

_WINDOWS_RULES: tuple[Rule, ...] = (
    ("a segment starts or ends with a space", lambda part: part != part.strip()),
    ("a segment starts or ends with a dot", lambda part: part != part.strip(".")),
    ("a segment is a name that Windows reserves", _is_reserved),
    ('a segment holds one of < > : " | ? *', lambda part: not _RESERVED_CHARACTERS.isdisjoint(part)),
)

_SEGMENT_RULES: tuple[Rule, ...] = (
    *_WINDOWS_RULES,
    (
        f"a segment is longer than {MAX_SEGMENT_BYTES} bytes",
        lambda part: len(part.encode()) > MAX_SEGMENT_BYTES,
    ),
)

_FILE_RULES: tuple[Rule, ...] = (
    *_CONTAINMENT_RULES,
    _NO_CONTROL,
    ("it is hidden", lambda name: any(part.startswith(".") for part in name.split("/"))),
)


def _refuse(memory_id: str, text: str, rules: tuple[Rule, ...]) -> None:
    for rule, broken in rules:
        if broken(text):
            raise InvalidMemoryId(
                f"{memory_id!r} cannot be a memory id: {rule}.",
                "Use a relative path such as storage/wal-reset, without .md.",
                parameter="id",
                rule=rule,
            )


def check_id(memory_id: str) -> str:
    """The id in Unicode form NFC, if it may be written on every system; else InvalidMemoryId naming the rule.

    Files that already exist under other names stay readable: see `locate`.
    """
    name = unicodedata.normalize("NFC", memory_id)
    _refuse(memory_id, name, _CONTAINMENT_RULES + _ID_RULES)
    for segment in name.split("/"):
        _refuse(memory_id, segment, _SEGMENT_RULES)
    return name


def fault_of(memory_id: str, *, on_windows: bool = os.name == "nt") -> str:
    """Why no file of a vault should have this id on this system, empty if one may.

    Less strict than `check_id`, which is for new names: files that people named `what?` or `con` are there and read.
    """
    broken = [rule for rule, is_broken in _FILE_RULES if is_broken(memory_id)]
    if on_windows:
        parts = memory_id.split("/")
        broken += [rule for rule, is_broken in (_NO_BACKSLASH, *_WINDOWS_RULES) if any(map(is_broken, parts))]
    return broken[0] if broken else ""


def locate(root: Path, memory_id: str) -> Path:
    """The real path of a memory's file, links resolved, whether or not it exists.

    Takes any name that stays inside `root`; InvalidMemoryId otherwise, also when a link leads out.
    """
    _refuse(memory_id, memory_id, _CONTAINMENT_RULES)
    path = Path(os.path.realpath(root / f"{memory_id}{SUFFIX}"))
    if not path.is_relative_to(os.path.realpath(root)):
        raise InvalidMemoryId(
            f"{memory_id!r} cannot be a memory id: a link leads out of {root}.",
            "Move the file into the vault, or add its folder as a source of its own.",
            parameter="id",
            rule="a link leads out of the vault",
        )
    return path


def fold(memory_id: str) -> str:
    """The id as a file system sees it that ignores case and composition."""
    return unicodedata.normalize("NFC", memory_id.casefold())


def printable(path: str) -> str:
    """The path with bytes that are not UTF-8 replaced, so that it can be stored and shown."""
    return os.fsencode(path).decode(errors="replace")
