"""Changes to files that survive a crash once they return. Light to import: hooks use it."""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scrimshaw.errors import StorageFailure
from scrimshaw.toml_text import read_regular_file

TEMP_PREFIX = ".scrimshaw-tmp-"
_HANDLES = Path("/proc/self/fd")
PUBLIC_FILE, PUBLIC_FOLDER = 0o666, 0o777  # before the umask, as everybody makes files
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700  # for text of sessions and what is derived from it
STALE_AFTER_S = 3600.0  # no write takes an hour: an older file belongs to a killed writer

_HINTS = {
    errno.ENOSPC: "The disk is full: free some space and try again.",
    errno.EDQUOT: "The disk quota is used up: free some space and try again.",
    errno.EROFS: "The file system is read-only: mount it writable, or work in a copy of the project.",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "Give this user access to file and folder, or act as their owner."),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "A file is where a folder is needed: rename one of them."),
    errno.EISDIR: "A folder is where a file is needed: rename one of them.",
    errno.ENAMETOOLONG: "Use a shorter name or move the vault up.",
    errno.ELOOP: "A link leads in a circle, or is where none is followed: remove it.",
}


@contextmanager
def storage_errors(action: str, path: Path) -> Iterator[None]:
    """Turn the system's errors into StorageFailure, naming the path and what to do."""
    try:
        yield
    except OSError as error:
        raise failure_of(error, action, path) or error from error


def failure_of(error: Exception, action: str = "use", path: Path | None = None) -> StorageFailure | None:
    """The system's error as a StorageFailure for the user, None for any other error."""
    if str(error).startswith("Symlink loop"):  # what `Path.resolve` says before Python 3.13
        error = OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(error).partition("'")[2].rstrip("'"))
    if not isinstance(error, OSError):
        return None
    place, hint = str(path or error.filename or "a file"), "Check the path and the disk, then try again."
    message = f"Cannot {action} {place}: {error.strerror or error}."
    return StorageFailure(message, _HINTS.get(error.errno or 0, hint), path=place, errno=error.errno)


def make_private(path: Path) -> None:
    """Create an empty file that only its owner can read, if possible; Windows gives it the rights of its folder."""
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Windows has no such call and needs none."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folders(folder: Path, mode: int = PUBLIC_FOLDER) -> None:
    """Create a folder and its missing parents, each durable in the folder above it."""
    if folder.exists():
        return
    make_folders(folder.parent, mode)
    folder.mkdir(mode, exist_ok=True)
    sync_folder(folder.parent)


def replace_file(
    path: Path, data: bytes, *, private: bool = False, check: Callable[[], object] = bool, root: Path | None = None
) -> None:
    """Put `data` at `path` below `root` durably, all or nothing, with an existing file's mode unless `private`."""
    with pin_folder(path.parent, root) as folder:
        temporary = stage_file(folder / path.name, data, private=private)
        try:
            check()  # right before the rename: syncing takes long enough for a person to save
            temporary.replace(folder / path.name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(folder)


def write_file(path: Path, data: bytes, *, private: bool = False) -> None:
    """Replace a file as `replace_file` does; raises StorageFailure."""
    with storage_errors("write", path):
        replace_file(path, data, private=private)


@contextmanager
def pin_folder(folder: Path, root: Path | None) -> Iterator[Path]:
    """A path to a folder through its handle, so that it cannot be swapped; its own path if the system has no such."""
    if not root or not _HANDLES.is_dir():
        yield folder
        return
    make_folders(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not (_HANDLES / str(handle)).readlink().is_relative_to(root):
            raise OSError(errno.ELOOP, "A link leads out of its folder")
        yield _HANDLES / str(handle)
    finally:
        os.close(handle)


def temporary_of(path: Path) -> Path:
    """A new name next to a file, for its next or previous version."""
    return path.with_name(TEMP_PREFIX + os.urandom(8).hex())


def read_if_there(path: Path) -> bytes | None:
    """A file's bytes, None for no file; raises OSError if that is unclear, as for a pipe in its place."""
    try:
        return read_regular_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def stage_file(path: Path, data: bytes, *, private: bool = False, temporary: Path | None = None) -> Path:
    """Write `data` durably next to `path`, with an existing file's mode; returns the file to rename. Raises OSError."""
    make_folders(path.parent, PRIVATE_FOLDER if private else PUBLIC_FOLDER)
    temporary = temporary or temporary_of(path)
    mode = PRIVATE_FILE if private else None
    if not private:
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(path.stat().st_mode)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(temporary, flags, PUBLIC_FILE if mode is None else mode), "wb") as file:
            if mode is not None:
                temporary.chmod(mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def remove_file(path: Path, root: Path) -> None:
    """Remove a file, and the folders this empties below `root`, durably. Raises OSError."""
    path.unlink()
    prune(path.parent, root)


def prune(folder: Path, root: Path) -> None:
    """Remove a folder and its parents below `root` if they are empty, durably. Raises OSError."""
    while folder != root:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            break
        folder = folder.parent
    sync_folder(folder)


def delete_leftovers(folder: Path, pattern: str = "") -> None:
    """Remove what killed writers left in a folder, with the pattern `**/` below it too; needs the vault's lock."""
    import shutil  # noqa: PLC0415 - hooks have no use for it

    for leftover in list(folder.glob(f"{pattern}{TEMP_PREFIX}*")):
        with suppress(OSError):  # its writer may be done with it now; as far as the system allows
            if time.time() - leftover.lstat().st_mtime <= STALE_AFTER_S:
                continue
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
