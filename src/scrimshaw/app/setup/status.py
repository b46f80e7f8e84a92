"""How the clients of this machine are connected, for the doctor."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from scrimshaw.app.setup.client import Client, Scope
from scrimshaw.app.setup.clients import CLIENTS
from scrimshaw.app.setup.edits import Edit
from scrimshaw.app.setup.plan import additions, read
from scrimshaw.app.setup.programs import Programs
from scrimshaw.errors import ConfigError, Conflict, StorageFailure


class Connection(Struct, frozen=True, kw_only=True):
    """A client in a scope, or installed but in none. `is_broken`: it cannot work; else `fault` is worth knowing."""

    client: str
    scope: Scope | None = None
    fault: str = ""
    fix: str = ""
    is_broken: bool = False


def connections(project: Path, programs: Programs) -> Iterator[Connection]:
    """One for each scope in which a client is connected, one for each client that is only installed."""
    for client in CLIENTS.values():
        found = [each for scope in client.scopes if (each := _connection(client, scope, project, programs))]
        yield from found
        if not found and client.is_installed(Path.home()):
            yield Connection(client=client.name, fault="not connected", fix=f"Run `scrimshaw setup {client.name}`.")


def _connection(client: Client, scope: Scope, project: Path, programs: Programs) -> Connection | None:
    root = scope.root(project)
    edits = client.edits(root, scope, programs)
    fix = f"Run `scrimshaw setup {client.name} --scope {scope}`."
    try:
        if not any(_holds_ours(edit) for edit in edits):
            return None
        lost = [program for edit in edits if (program := edit.server(read(edit.path) or "")) and not _runs(program)]
        if lost:
            return Connection(client=client.name, scope=scope, fault=f"{lost[0]} is gone", fix=fix, is_broken=True)
        changed = [str(change.path) for change in additions(edits, root)]
    except (ConfigError, Conflict, StorageFailure) as error:
        return Connection(client=client.name, scope=scope, fault=error.message, fix=error.hint, is_broken=True)
    if changed:
        return Connection(client=client.name, scope=scope, fault=f"not up to date: {', '.join(changed)}", fix=fix)
    return Connection(client=client.name, scope=scope, fault=client.unready(root))


def _holds_ours(edit: Edit) -> bool:
    text = read(edit.path)
    return text is not None and edit.removed(text) != text


def _runs(program: str) -> bool:
    return shutil.which(program) is not None
