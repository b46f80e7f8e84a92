"""Connecting clients: changes of their files are worked out, shown, then written. And how clients are connected."""

from __future__ import annotations

import difflib
import json
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from scrimshaw import __version__
from scrimshaw.app.clients import all_clients
from scrimshaw.app.clients.client import HOOK, SERVER, Client, OwnFile, Programs, Scope, SharedFile
from scrimshaw.app.setup.editors import editor_of
from scrimshaw.errors import ConfigError, Conflict, InvalidRequest, NotFound, StorageFailure
from scrimshaw.storage.durable import remove_file, replace_file, storage_errors

BACKUP = ".before-scrimshaw"
_DESCRIPTION = "Memory for coding agents: Markdown in your git repository, searched and kept up to date."


class SetupChange(Struct, frozen=True):
    """A file below `root` as it is and as it shall be; None where there is no file."""

    root: Path
    path: Path
    before: str | None
    after: str | None
    is_executable: bool = False
    needs_backup: bool = False  #: whether a copy of what it was is made
    is_original: bool = False  #: whether it becomes what its copy says; the copy goes then

    @property
    def action(self) -> str:
        """What happens to the file: create, change or remove."""
        return "create" if self.before is None else "remove" if self.after is None else "change"

    def diff(self) -> str:
        """The change as a unified diff."""
        old, new = ("/dev/null" if text is None else str(self.path) for text in (self.before, self.after))
        before, after = (self.before or "").splitlines(), (self.after or "").splitlines()
        return "\n".join(difflib.unified_diff(before, after, old, new, lineterm=""))


class Connection(Struct, frozen=True, kw_only=True):
    """A client in a scope, or installed but in none."""

    client: str
    scope: Scope | None = None
    fault: str = ""
    fix: str = ""
    is_broken: bool = False  #: whether it cannot work; else the fault is worth knowing


def plan_additions(files: Iterable[SharedFile | OwnFile], root: Path) -> Iterator[SetupChange]:
    """The changes that put our part into files; none for a file that has it. Raises ConfigError, Conflict."""
    for file in files:
        editor, before = editor_of(file), read_file(file.path)
        after = editor.add(before or "")
        if after == before:
            continue
        # A copy is made where our part is not in the file yet, or was put there by other means than setup.
        has_copy = backup_of(file.path).exists()
        needs_backup = editor.is_shared and before is not None and (editor.remove(before) == before or not has_copy)
        is_executable = isinstance(file, OwnFile) and file.is_executable
        yield SetupChange(root, file.path, before, after, is_executable=is_executable, needs_backup=needs_backup)


def plan_removals(files: Iterable[SharedFile | OwnFile], root: Path) -> Iterator[SetupChange]:
    """The changes that take our part out of files: to the byte as they were, if nothing else changed since."""
    for file in files:
        editor, before = editor_of(file), read_file(file.path)
        if before is None or (rest := editor.remove(before)) == before:
            continue
        original, is_original = read_file(backup_of(file.path)), False
        if original is not None:
            with suppress(ConfigError, Conflict):  # the copy differs from the file by our part alone
                is_origin = editor.remove(original) == original
                is_original = is_origin and editor.is_same(editor.remove(editor.add(original)), rest)
        after = None if original is None and editor.is_bare(rest) else original if is_original else rest
        yield SetupChange(root, file.path, before, after, is_original=is_original)


def apply_change(change: SetupChange) -> None:
    """Make a change; folders that a removal empties go too. Raises Conflict, StorageFailure."""
    if read_file(change.path) != change.before:
        raise Conflict(f"{change.path} was changed meanwhile.", "Run the same command again.")
    with storage_errors("write", change.path):
        if change.after is None:
            remove_file(change.path, change.root)
            return
        if change.needs_backup:
            shutil.copy2(change.path, backup_of(change.path))
        target = change.path.resolve()  # a link to the file stays a link
        replace_file(target, change.after.encode())
        if change.is_executable:
            target.chmod(0o755)
        if change.is_original:
            backup_of(change.path).unlink()


def read_file(path: Path) -> str | None:
    """A file's text with its own line ends, None where there is no file; raises ConfigError, StorageFailure."""
    with storage_errors("read", path):
        try:
            return path.read_bytes().decode()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not UTF-8.", "Correct it, then run setup again.") from error


def backup_of(path: Path) -> Path:
    """Where the copy of a file is that was made before our part came in."""
    return path.with_name(path.name + BACKUP)


def find_programs() -> Programs:
    """The programs beside this interpreter, never a shim that would look for one first; raises ConfigError."""
    for folder in (sysconfig.get_path("scripts"), str(Path(sys.argv[0]).absolute().parent)):
        server, hook = (shutil.which(name, path=folder) for name in (SERVER, HOOK))
        if server and hook and Path(folder).name != "shims":
            return Programs(server=str(Path(server).resolve()), hook=str(Path(hook).resolve()))
    message = f"There is no {SERVER} and {HOOK} beside {sys.executable}."
    raise ConfigError(message, "Install scrimshaw with uv, pipx or pip.")


def choose_clients(name: str, scope: Scope | None, remove: bool) -> tuple[Client, ...]:
    """The client of a name, or all that are on this machine; with `remove` all there are.

    Raises NotFound where there is none, InvalidRequest for a scope that a client has not.
    """
    clients = all_clients()
    if client := clients.get(name):
        if scope and scope not in client.scopes:
            message = f"{client.title} has no {scope} scope."
            raise InvalidRequest(message, f"Leave out --scope {scope}.", parameter="scope")
        return (client,)
    found = [client for client in clients.values() if remove or _is_installed(client, Path.home())]
    if not found:
        raise NotFound("No agent client was found.", f"Name one: {', '.join(clients)}.")
    return tuple(each for each in found if scope is None or scope in each.scopes)


def plugin_files(folder: Path) -> tuple[OwnFile, ...]:
    """The files of every client's plugin below a folder, for other machines, which find programs by their path."""
    about = {"name": SERVER, "version": __version__, "description": _DESCRIPTION}
    files = (item for client in all_clients().values() for item in client.plugin_files(about).items())
    return tuple(OwnFile(path=folder / name, text=json.dumps(value, indent=2) + "\n") for name, value in files)


def check_connections(project: Path, programs: Programs) -> Iterator[Connection]:
    """One for each scope in which a client is connected, one for each client that is only installed."""
    for client in all_clients().values():
        scopes = (_check_scope(client, scope, project, programs) for scope in client.scopes)
        found = [each for each in scopes if each]
        yield from found
        if not found and _is_installed(client, Path.home()):
            yield Connection(client=client.name, fault="not connected", fix=f"Run `scrimshaw setup {client.name}`.")


def _check_scope(client: Client, scope: Scope, project: Path, programs: Programs) -> Connection | None:
    root = scope.root(project)
    files = client.setup_files(root, scope, programs)
    fault, fix, is_broken = "", f"Run `scrimshaw setup {client.name} --scope {scope}`.", True
    try:
        texts = [(editor_of(file), read_file(file.path)) for file in files]
        if not any(text is not None and editor.remove(text) != text for editor, text in texts):
            return None
        starts = [editor.read_program(text or "") for editor, text in texts]
        lost = [program for program in starts if program and shutil.which(program) is None]
        if lost:
            fault = f"{lost[0]} is gone"
        elif changed := [str(change.path) for change in plan_additions(files, root)]:
            fault, is_broken = f"not up to date: {', '.join(changed)}", False
        else:
            fault, fix, is_broken = client.check_trust(root), "", False
    except (ConfigError, Conflict, StorageFailure) as error:
        fault, fix = error.message, error.hint
    return Connection(client=client.name, scope=scope, fault=fault, fix=fix, is_broken=is_broken)


def _is_installed(client: Client, home: Path) -> bool:
    """Whether its command or its folder is there."""
    return shutil.which(client.program) is not None or (home / client.folder).is_dir()
