"""Memory ids: which names may be written, and which file a name means."""

import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from scrimshaw.errors import InvalidMemoryId, NotFound
from scrimshaw.storage.durable import storage_errors

SUFFIX = ".md"
MAX_ID_CHARS = 240  # Windows allows paths of 260 characters
MAX_SEGMENT_BYTES = 120  # eCryptfs allows names of 143 bytes; leaves room for ".md"

_HINT = "Use a relative path such as storage/wal-reset, without .md."
# Each rule with the pattern that breaks it anywhere in a name, compiled at the first check.
_Rules = Sequence[tuple[str, str]]
_CONTAINMENT_RULES: _Rules = (
    ("it is empty", r"\A\Z"),
    ("it is an absolute path", r"\A/"),
    ("it holds a NUL character", "\0"),
    ("it has an empty segment", r"//|/\Z"),
    ('it has a "." or ".." segment', r"(?:\A|/)\.{1,2}(?:/|\Z)"),
)
_NO_BACKSLASH = ("it holds a backslash", r"\\")
# Control characters, half surrogate pairs, line separators, and marks that change the direction of text.
_CONTROLS = "[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069]"
_NO_CONTROL = ("it holds a control character", _CONTROLS)
_RESERVED = r"con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]"
_WINDOWS_RULES: _Rules = (
    ("a segment starts or ends with a space", r"(?:\A|/)\s|\s(?:/|\Z)"),
    ("a segment starts or ends with a dot", r"(?:\A|/)\.|\.(?:/|\Z)"),
    ("a segment is a name that Windows reserves", rf"(?i)(?:\A|/)(?:{_RESERVED}) *(?:[./]|\Z)"),
    ('a segment holds one of < > : " | ? *', r'[<>:"|?*]'),
)
_ID_RULES: _Rules = (
    *_CONTAINMENT_RULES,
    ("it is an absolute path of Windows", r"\A(?:\\\\|[A-Za-z]:[\\/])"),
    _NO_BACKSLASH,
    _NO_CONTROL,
    (f"it is longer than {MAX_ID_CHARS} characters", rf"(?s)\A.{{{MAX_ID_CHARS + 1}}}"),
    (f'it ends in "{SUFFIX}"', rf"(?i){re.escape(SUFFIX)}\Z"),
    *_WINDOWS_RULES,
)
_FILE_RULES: _Rules = (*_CONTAINMENT_RULES, _NO_CONTROL, ("it is hidden", r"(?:\A|/)\."))


def _find_broken_rule(name: str, rules: _Rules) -> str:
    for rule, broken in rules:
        if re.search(broken, name):
            return rule
    return ""


def _refusal(memory_id: str, rule: str, hint: str = _HINT) -> InvalidMemoryId:
    return InvalidMemoryId(f"{memory_id!r} cannot be a memory id: {rule}.", hint, parameter="id", rule=rule)


def check_id(memory_id: str) -> str:
    """The id in Unicode form NFC, if it may be written on every system; otherwise InvalidMemoryId naming the rule."""
    name = unicodedata.normalize("NFC", memory_id)
    rule = _find_broken_rule(name, _ID_RULES)
    if not rule and max(map(len, name.encode().split(b"/"))) > MAX_SEGMENT_BYTES:
        rule = f"a segment is longer than {MAX_SEGMENT_BYTES} bytes"
    if rule:
        raise _refusal(memory_id, rule)
    return name


def find_name_fault(memory_id: str, *, on_windows: bool = os.name == "nt") -> str:
    """Why a vault's file must not have this id on this system, empty if it may.

    Less strict than `check_id`, which is for new names: existing files that people named `what?` or `con` are read.
    """
    return _find_broken_rule(memory_id, (*_FILE_RULES, *((_NO_BACKSLASH, *_WINDOWS_RULES) if on_windows else ())))


def locate(root: Path, memory_id: str) -> Path:
    """The real path of a memory's file, links resolved, there or not; raises InvalidMemoryId for one outside `root`."""
    if rule := _find_broken_rule(memory_id, _CONTAINMENT_RULES):
        raise _refusal(memory_id, rule)
    with storage_errors("find", root):  # a link may be replaced while it is read
        path, top = Path(os.path.realpath(root / f"{memory_id}{SUFFIX}")), os.path.realpath(root)
    if not path.is_relative_to(top):
        hint = "Move the file into the vault, or add its folder as a source of its own."
        raise _refusal(memory_id, "a link leads out of the vault", hint)
    return path


class Vault(NamedTuple):
    """A writable folder of memories."""

    root: Path
    name: str
    shared: Path | None = None  #: the lock, for a vault that several projects write

    def read(self, memory_id: str) -> bytes:
        """The bytes of a memory's file, whatever its name; NotFound, InvalidMemoryId, StorageFailure."""
        path = locate(self.root, memory_id)
        with storage_errors("read", path):
            if os.path.isfile(path):  # noqa: PTH113 - `Path.is_file` fails for a name that is too long
                return path.read_bytes()
        message = f"No memory {memory_id!r} in the vault {self.name!r}."
        raise NotFound(message, "Search for it, or list the vault.", id=memory_id)


def fold(memory_id: str) -> str:
    """The id as seen by a file system that ignores case and composition."""
    return unicodedata.normalize("NFC", memory_id.casefold())


def replace_undecodable(path: str) -> str:
    """The path with bytes that are not UTF-8 replaced, so that it can be stored and shown."""
    return os.fsencode(path).decode(errors="replace")
