"""Who may read what: sessions are their user's alone whatever the umask, memories are shared as git shares them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.samples import write_memory
from tests.storage.vault_files import VaultFiles

from scrimshaw.app.hooks.record import handle_payload, log
from scrimshaw.engine import Engine, write
from scrimshaw.storage.durable import replace_file
from scrimshaw.storage.sqlite.database import Database

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")


@pytest.fixture(params=[0o000, 0o022, 0o077], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("schema", ["index", "journal"])
def test_databases_and_their_companions_are_private(tmp_path: Path, schema: str) -> None:
    database = Database(tmp_path / "x.db", schema, durable=True, busy_timeout_ms=1000)
    with database.write() as write:
        write.execute("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    found = {path.name: mode(path) for path in tmp_path.iterdir()}
    database.close()
    assert found == {"x.db": 0o600, "x.db-wal": 0o600, "x.db-shm": 0o600}


def test_what_hooks_leave_behind_is_private(engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    for name in [name for name in os.environ if name.startswith(("SCRIMSHAW_", "SPECKIT_"))]:
        monkeypatch.delenv(name)
    payload = {"session_id": "S1", "cwd": str(project), "hook_event_name": "UserPromptSubmit", "prompt": "hello"}
    handle_payload(["claude"], json.dumps(payload).encode())
    log("something went wrong")
    made = {name: mode(project / ".scrimshaw" / name) for name in ("journal.db", "hook.log")}
    assert made == dict.fromkeys(made, 0o600)


def test_private_files_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "drafts/sessions/one.md"
    replace_file(path, b"one", private=True)
    assert mode(tmp_path / "drafts") == mode(tmp_path / "drafts/sessions") == 0o700
    assert mode(path) == 0o600
    path.chmod(0o644)
    replace_file(path, b"two", private=True)
    assert mode(path) == 0o600


def test_memories_have_the_modes_that_git_gives(engine: Engine, vault: Path, umask: int) -> None:
    write.save(engine, write.NewText(content="# Shared\n\nWith everybody.\n", id="a/shared"), force=True)
    assert mode(vault / "a/shared.md") == 0o666 & ~umask
    assert mode(vault / "a") == 0o777 & ~umask
    path = write_memory(vault, "mine", "# Mine\n")
    path.chmod(0o640)
    VaultFiles(engine.vault_of("mine")[0].root).write("mine", "# Mine again\n")
    assert mode(path) == 0o640
