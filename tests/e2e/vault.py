"""What a save must leave behind in the project, seen from the outside."""

from __future__ import annotations

from collections.abc import Iterator

from tests.e2e.model import SAVED_TEXT
from tests.e2e.workspace import MEMORIES, Workspace
from tests.samples import SECRET

from scrimshaw.storage.place import find_place


def vault_problems(workspace: Workspace, saved_id: str) -> list[str]:
    """What is wrong with the saved file, and files of the memory that hold a secret's bytes."""
    saved = _file_problems(workspace, saved_id) if saved_id else ["nothing was saved"]
    return [*saved, *_leaks(workspace)]


def _file_problems(workspace: Workspace, saved_id: str) -> Iterator[str]:
    found = {path.relative_to(workspace.vault).as_posix() for path in workspace.vault.rglob("*") if path.is_file()}
    wanted = {f"{memory_id}.md" for memory_id in (*MEMORIES, saved_id)}
    if found != wanted:
        yield f"the vault differs from what was saved: {sorted(found ^ wanted)}"
    saved = workspace.vault / f"{saved_id}.md"
    if not saved.is_file() or SAVED_TEXT not in saved.read_text(encoding="utf-8"):
        yield f"{saved_id}.md does not hold the saved text"


def _leaks(workspace: Workspace) -> Iterator[str]:
    """Also the databases are searched for bytes: a secret must not reach the disk in any form."""
    folders = (workspace.memory_folder, find_place(workspace.memory_folder), workspace.home / ".scrimshaw")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    if not any(path.suffix == ".db" for path in files):
        yield "there is no database to search for secrets"
    for path in files:
        if SECRET.encode() in path.read_bytes():
            yield f"{path.relative_to(workspace.root)} holds the secret"
