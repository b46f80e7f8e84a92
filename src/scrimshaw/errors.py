"""The error tree. Every error says what happened, where, and what to do."""

from collections.abc import Iterable
from typing import Any, ClassVar


class ScrimshawError(Exception):
    """Base of all errors a caller may handle: a stable `code`, what happened, what to do, details for programs."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init_subclass__(cls, *, code: str = "", exit_code: int = 0) -> None:
        """Set the class attributes of a kind of error; others are inherited."""
        cls.code, cls.exit_code = code or cls.code, exit_code or cls.exit_code

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message, self.hint, self.details = message, hint, details

    def __str__(self) -> str:
        stop = "." if self.hint and self.message[-1:] not in ".!?:" else ""
        return f"{self.message}{stop} {self.hint}".strip()


def find_nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the most similar known names, or those that contain it; empty if there is none."""
    from difflib import get_close_matches  # noqa: PLC0415 - only to tell of a mistake

    names = [*filter(None, known)]
    found = get_close_matches(name, names, 2, 0.75) or [each for each in names if name and name in each][:2]
    return f"Did you mean {' or '.join(found)}?" if found else ""


def describe_os_error(error: Exception) -> str:
    """The message of a system or decoding error, without Python's additions."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"it is not UTF-8 at byte {error.start + 1}" if isinstance(error, UnicodeDecodeError) else str(error)


class ConfigError(ScrimshawError, code="config", exit_code=2):
    """A setting cannot be used; names file, key, value and allowed range."""


class InvalidRequest(ScrimshawError, code="invalid"):
    """An argument cannot be used; `details["parameter"]` names it."""


class InvalidMemoryId(InvalidRequest, code="invalid_id"):
    """A name that cannot be a memory id: absolute, climbing, empty or unsafe segments."""


class UnusableArchive(InvalidRequest, code="archive"):
    """A checkpoint or backup that is damaged, unsafe or from a newer version; nothing of it was used."""


class NotFound(ScrimshawError, code="not_found"):
    """No memory, job or file of that name."""


class Conflict(ScrimshawError, code="conflict"):
    """The file changed since it was read; `details["current_hash"]` is what it is now."""


class AlreadyExists(Conflict, code="exists"):
    """A new memory would replace an existing one, of which nothing is told but its id."""


class ReadOnly(ScrimshawError, code="read_only"):
    """The memory lives in a source that Scrimshaw never writes."""


class Forbidden(ScrimshawError, code="forbidden"):
    """The token does not allow it; `details["scope"]` names the scope that would."""


class UnreadableFile(ScrimshawError, code="unreadable"):
    """A file that cannot be a memory: binary, too large, not UTF-8, broken front matter."""


class VaultBusy(ScrimshawError, code="busy", exit_code=3):
    """Another writer held the vault's lock for the whole waiting time."""


class PeerFailed(ScrimshawError, code="peer", exit_code=3):
    """Another memory server gave no answer."""


class PeerRefused(PeerFailed, code="peer_refused"):
    """Another memory server refused the request."""


class PeerDenied(PeerFailed, code="peer_denied", exit_code=4):
    """Another memory server rejected the credentials."""


class NoSemanticSearch(ScrimshawError, code="no_semantic_search", exit_code=3):
    """A search by meaning alone that neither vectors nor a peer can answer."""


class StorageFailure(ScrimshawError, code="storage", exit_code=3):
    """The disk or the database failed; nothing was acknowledged."""


class DamagedDatabase(StorageFailure, code="damaged"):
    """A database file is damaged or in an unknown format; `details["path"]` names it."""


class NewerDatabase(StorageFailure, code="newer"):
    """A later version made or changed this database; it was left alone. `details["path"]` names it."""
