"""The error tree. Every error says what happened, where, and what to do."""

from collections.abc import Iterable
from typing import Any, ClassVar


class ScrimshawError(Exception):
    """Base of all errors a caller may handle: a stable `code`, what happened, what to do, values for programs."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init_subclass__(cls, *, code: str = "", exit_code: int = 0) -> None:
        """Take what a kind of error states; the rest is its base's."""
        cls.code, cls.exit_code = code or cls.code, exit_code or cls.exit_code

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message, self.hint, self.details = message, hint, details

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


def find_nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names what is most like a name; empty where nothing is."""
    from difflib import get_close_matches  # noqa: PLC0415 - only to tell of a mistake

    found = get_close_matches(name, [*known], 2, 0.75)
    return f"Did you mean {' or '.join(found)}?" if found else ""


def describe_os_error(error: Exception) -> str:
    """What an error of the system or of a decoder says, without Python's own words for it."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 at byte {error.start + 1}"
    return str(error)


class ConfigError(ScrimshawError, code="config", exit_code=2):
    """A setting cannot be used; names file, key, value and allowed range."""


class InvalidRequest(ScrimshawError, code="invalid"):
    """An argument cannot be used; `details["parameter"]` names it."""


class InvalidMemoryId(InvalidRequest, code="invalid_id"):
    """A name that cannot be a memory id: absolute, climbing, empty or unsafe segments."""


class UnusableArchive(InvalidRequest, code="archive"):
    """A checkpoint or backup that is damaged, unsafe or of a newer make; nothing of it was used."""


class NotFound(ScrimshawError, code="not_found"):
    """No memory, job or file of that name."""


class Conflict(ScrimshawError, code="conflict"):
    """The file changed since it was read; `details["current_hash"]` is what it is now."""


class AlreadyExists(Conflict, code="exists"):
    """A new memory would replace an existing one."""


class ReadOnly(ScrimshawError, code="read_only"):
    """The memory lives in a source that Scrimshaw never writes."""


class Forbidden(ScrimshawError, code="forbidden"):
    """The token does not allow it; `details["scope"]` names what would."""


class UnreadableFile(ScrimshawError, code="unreadable"):
    """A file that cannot be a memory: binary, too large, not UTF-8, broken front matter."""


class VaultBusy(ScrimshawError, code="busy", exit_code=3):
    """Another writer held the vault's lock for the whole waiting time."""


class PeerFailed(ScrimshawError, code="peer", exit_code=3):
    """Another memory server gave no answer."""


class PeerRefused(PeerFailed, code="peer_refused"):
    """Another memory server answered that it would not do what it was asked."""


class PeerDenied(PeerFailed, code="peer_denied", exit_code=4):
    """Another memory server wants other credentials."""


class NoSemanticSearch(ScrimshawError, code="no_semantic_search", exit_code=3):
    """A search by meaning alone, and neither vectors nor a peer can answer it."""


class StorageFailure(ScrimshawError, code="storage", exit_code=3):
    """The disk or the database refused; nothing was acknowledged."""


class DamagedDatabase(StorageFailure, code="damaged"):
    """A database file is damaged or of a make this version does not know; `details["path"]` names it."""


class NewerDatabase(StorageFailure, code="newer"):
    """A later version made or changed this database; it was left alone. `details["path"]` names it."""
