"""The error tree. Every error says what happened, where, and what to do."""

from __future__ import annotations

from typing import Any, ClassVar


class ScrimshawError(Exception):
    """Base of all errors a caller may handle.

    `code` is stable and machine-readable, `message` says what happened and where,
    `hint` says what to do, `details` carries values a program may need.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


def describe_os_error(error: Exception) -> str:
    """What an error of the system or of a decoder says, without Python's own words for it."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 at byte {error.start + 1}"
    return str(error)


class ConfigError(ScrimshawError):
    """A setting cannot be used; names file, key, value and allowed range."""

    code = "config"
    exit_code = 2


class InvalidRequest(ScrimshawError):
    """An argument cannot be used; `details["parameter"]` names it."""

    code = "invalid"


class InvalidMemoryId(InvalidRequest):
    """A name that cannot be a memory id: absolute, climbing, empty or unsafe segments."""

    code = "invalid_id"


class UnusableArchive(InvalidRequest):
    """A checkpoint or backup that is damaged, unsafe or of a newer make; nothing of it was used."""

    code = "archive"


class NotFound(ScrimshawError):
    """No memory, job or file of that name."""

    code = "not_found"


class Conflict(ScrimshawError):
    """The file changed since it was read; `details["current_hash"]` is what it is now."""

    code = "conflict"


class AlreadyExists(Conflict):
    """A new memory would replace an existing one."""

    code = "exists"


class ReadOnly(ScrimshawError):
    """The memory lives in a source that Scrimshaw never writes."""

    code = "read_only"


class UnreadableFile(ScrimshawError):
    """A file that cannot be a memory: binary, too large, not UTF-8, broken front matter."""

    code = "unreadable"


class VaultBusy(ScrimshawError):
    """Another writer held the vault's lock for the whole waiting time."""

    code = "busy"
    exit_code = 3


class StorageFailure(ScrimshawError):
    """The disk or the database refused; nothing was acknowledged."""

    code = "storage"
    exit_code = 3


class DamagedDatabase(StorageFailure):
    """A database file is damaged or of a make this version does not know; `details["path"]` names it."""

    code = "damaged"


class NewerDatabase(StorageFailure):
    """A later version made or changed this database; it was left alone. `details["path"]` names it."""

    code = "newer"
