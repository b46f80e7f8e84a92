import errno
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.storage.vault_files import VaultFiles

from scrimshaw.errors import (
    AlreadyExists,
    Conflict,
    InvalidMemoryId,
    NotFound,
    StorageFailure,
    VaultBusy,
)
from scrimshaw.models import SourceFile, content_hash
from scrimshaw.storage.durable import TEMP_PREFIX, delete_leftovers
from scrimshaw.storage.scan import Source, scan
from scrimshaw.storage.transaction import lock


@pytest.fixture
def vault(tmp_path: Path) -> VaultFiles:
    return VaultFiles(tmp_path / "memories")


def leftovers(vault: VaultFiles) -> list[Path]:
    return list(vault.root.rglob(f"{TEMP_PREFIX}*"))


@pytest.mark.parametrize("memory_id", ["plain", "deep/er/still", "with space/ünï", "rocket 🚀/日本"])
def test_what_is_written_is_read(vault: VaultFiles, memory_id: str) -> None:
    text = "línea\r\n🚀\n"
    assert vault.write(memory_id, text) == content_hash(text.encode())
    assert vault.read(memory_id) == text.encode()
    assert (vault.root / f"{memory_id}.md").is_file()
    assert leftovers(vault) == []


def test_the_current_folder_can_be_a_vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = VaultFiles(Path())
    here.write("topic/note")
    here.remove("topic/note")
    assert list(tmp_path.iterdir()) == []


def test_reading_takes_odd_names_that_writing_refuses(vault: VaultFiles) -> None:
    vault.root.mkdir()
    (vault.root / "what?.md").write_bytes(b"odd")
    assert vault.read("what?") == b"odd"
    with pytest.raises(InvalidMemoryId):
        vault.write("what?")


@pytest.mark.parametrize("memory_id", ["missing", "no/folder", "x" * 400, "file/below"])
def test_what_is_not_there_is_not_found(vault: VaultFiles, memory_id: str) -> None:
    vault.root.mkdir()
    (vault.root / "file").write_bytes(b"a file where a folder is asked for")
    with pytest.raises(NotFound):
        vault.read(memory_id)


def test_a_file_that_may_not_be_read_is_a_storage_failure(vault: VaultFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.write("note")
    monkeypatch.setattr(Path, "read_bytes", refuse(errno.EACCES))
    with pytest.raises(StorageFailure, match="access"):
        vault.read("note")


def test_a_folder_or_pipe_is_no_memory(vault: VaultFiles) -> None:
    (vault.root / "folder.md").mkdir(parents=True)
    os.mkfifo(vault.root / "pipe.md")
    for memory_id in ("folder", "pipe"):
        with pytest.raises(NotFound):
            vault.read(memory_id)


def test_a_new_memory_never_replaces_one(vault: VaultFiles) -> None:
    vault.write("note", "first", "")
    with pytest.raises(AlreadyExists) as caught:
        vault.write("note", "second", "")
    assert caught.value.details == {"id": "note"}
    assert vault.read("note") == b"first"


def test_a_stale_edit_is_refused_with_the_current_hash(vault: VaultFiles) -> None:
    stale = vault.write("note", "first")
    current = vault.write("note", "second", stale)
    for change in (lambda: vault.write("note", "third", stale), lambda: vault.remove("note", stale)):
        with pytest.raises(Conflict) as caught:
            change()
        assert not isinstance(caught.value, AlreadyExists)
        assert caught.value.details["current_hash"] == current
    assert vault.read("note") == b"second"


def test_an_edit_of_a_removed_memory_is_a_conflict(vault: VaultFiles) -> None:
    old = vault.write("note")
    vault.remove("note", old)
    with pytest.raises(Conflict) as caught:
        vault.write("note", "again", old)
    assert caught.value.details["current_hash"] == ""
    assert not vault.root.joinpath("note.md").exists()


def test_removing_takes_empty_folders_along(vault: VaultFiles) -> None:
    vault.write("a/b/c/one", "one")
    vault.write("a/two", "two")
    vault.remove("a/b/c/one", content_hash(b"one"))
    assert sorted(path.name for path in (vault.root / "a").iterdir()) == ["two.md"]
    vault.remove("a/two", None)
    assert list(vault.root.iterdir()) == []


def test_links_stay_inside_the_vault(vault: VaultFiles, tmp_path: Path) -> None:
    vault.write("real", "inside")
    secret = tmp_path / "secret.md"
    secret.write_bytes(b"outside")
    (vault.root / "leak.md").symlink_to(secret)
    (vault.root / "door").symlink_to(tmp_path)
    (vault.root / "alias.md").symlink_to("real.md")
    (vault.root / "loop.md").symlink_to("loop.md")
    for memory_id in ("leak", "door/secret"):
        for use in (vault.read, lambda name: vault.write(name, "x"), lambda name: vault.remove(name, None)):
            with pytest.raises(InvalidMemoryId):
                use(memory_id)
    assert secret.read_bytes() == b"outside"
    assert vault.read("alias") == b"inside"
    with pytest.raises(NotFound):
        vault.read("loop")
    vault.write("alias", "changed")
    assert vault.read("real") == b"changed"
    assert (vault.root / "alias.md").is_symlink()


def test_the_mode_of_a_file_is_kept_and_new_ones_follow_the_umask(vault: VaultFiles) -> None:
    vault.write("note")
    path = vault.root / "note.md"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o600)
    vault.write("note", "private")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def refuse(code: int) -> Callable[..., None]:
    def call(*_args: object, **_kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace", "os.open"])
def test_a_refusing_disk_leaves_the_old_file(
    vault: VaultFiles, monkeypatch: pytest.MonkeyPatch, code: int, step: str
) -> None:
    vault.write("note", "old")
    with monkeypatch.context() as patch:
        patch.setattr(step, refuse(code))
        with pytest.raises(StorageFailure) as caught:
            vault.write("note", "new")
    assert str(vault.root / "note.md") in caught.value.message
    assert caught.value.details["errno"] == code
    assert caught.value.hint
    assert vault.read("note") == b"old"
    assert leftovers(vault) == []


def test_a_file_where_a_folder_is_needed_is_named(vault: VaultFiles) -> None:
    vault.root.mkdir()
    (vault.root / "topic").write_bytes(b"")
    with pytest.raises(StorageFailure, match="A file is where a folder is needed"):
        vault.write("topic/note")


def test_every_new_name_is_synced_after_its_file(vault: VaultFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int | str] = []
    real_sync, real_replace = os.fsync, Path.replace

    def sync(handle: int) -> None:
        steps.append(os.fstat(handle).st_ino)
        real_sync(handle)

    def replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return real_replace(self, target)

    vault.root.mkdir()
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    vault.write("a/b/note")
    root, a, b, note = ((vault.root / name).stat().st_ino for name in (".", "a", "a/b", "a/b/note.md"))
    assert steps == [root, a, note, "rename", b]
    steps.clear()
    vault.remove("a/b/note", None)
    assert steps == ["rename", b, root]


def test_old_leftovers_of_killed_writers_go_and_young_ones_stay(vault: VaultFiles) -> None:
    vault.write("topic/note")
    old, young = (vault.root / "topic" / f"{TEMP_PREFIX}{name}" for name in ("old", "young"))
    for leftover in (old, young):
        leftover.write_bytes(b"half a mem")
    os.utime(old, (time.time() - 3700, time.time() - 3700))
    found = [file.memory_id for file in scan(Source("v", vault.root)) if isinstance(file, SourceFile)]
    assert found == ["topic/note"]
    delete_leftovers(vault.root, "**/")
    assert leftovers(vault) == [young]


def test_a_lock_makes_no_folder_unless_it_is_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "moved" / ".scrimshaw" / "vault.lock"
    with pytest.raises(StorageFailure), lock(path, 1):
        pass
    assert not (tmp_path / "moved").exists()
    with lock(path, 1, makes_folder=True):
        assert path.exists()


def test_the_lock_keeps_others_out_for_as_long_as_they_wait(tmp_path: Path) -> None:
    path = tmp_path / "vault.lock"
    refused: list[VaultBusy] = []

    def knock() -> None:
        try:
            with lock(path, 0.05):
                pass
        except VaultBusy as error:
            refused.append(error)

    with lock(path, 1):
        visitor = threading.Thread(target=knock)
        visitor.start()
        visitor.join()
    assert [error.details["path"] for error in refused] == [str(path)]
    with lock(path, 0.05):
        pass


def test_a_lock_that_cannot_be_made_is_a_storage_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailure), lock(tmp_path / "file" / "vault.lock", 0.05):
        pass


def test_the_lock_opens_again_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "vault.lock"
    with pytest.raises(KeyError), lock(path, 1):
        raise KeyError
    with lock(path, 0.05):
        pass


def test_what_a_person_saves_while_bytes_are_forced_out_stays(
    vault: VaultFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.write("plan", "old")
    path, forced = vault.root / "plan.md", os.fsync

    def slow(handle: int) -> None:
        path.write_bytes(b"by hand")
        forced(handle)

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(Conflict) as caught:
        vault.write("plan", "new", expected_hash=content_hash(b"old"))
    assert caught.value.details == {"id": "plan", "current_hash": content_hash(b"by hand")}
    assert (path.read_bytes(), leftovers(vault)) == (b"by hand", [])
