"""What the vault says when it refuses: what happened, where, what to do, and what a program needs."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.storage.vault_files import VaultFiles

from scrimshaw.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    ScrimshawError,
    StorageFailure,
    VaultBusy,
)
from scrimshaw.models import content_hash
from scrimshaw.storage.transaction import lock

HERE = content_hash(b"here")
STALE = content_hash(b"stale")


@pytest.fixture
def vault(tmp_path: Path) -> VaultFiles:
    """A vault that holds one memory, `a/note`."""
    opened = VaultFiles(tmp_path / "memories")
    opened.write("a/note", "here", "")
    return opened


def knock(vault: VaultFiles) -> None:
    path = vault.root / "vault.lock"
    with lock(path, 1), lock(path, 0.05):
        pass


def refusal(act: Callable[[], object]) -> ScrimshawError:
    with pytest.raises(ScrimshawError) as caught:
        act()
    return caught.value


@pytest.mark.parametrize(
    ("act", "kind", "message", "hint", "details"),
    [
        (lambda vault: vault.read("a/gone"), NotFound,
         "No memory 'a/gone' in the vault 'project'.", "Search for it, or list the vault.", {"id": "a/gone"}),
        (lambda vault: vault.write("a/note", expected_hash=""), AlreadyExists,
         "'a/note' exists.", "Update it if you can, or choose another id.", {"id": "a/note"}),
        (lambda vault: vault.write("a/note", expected_hash=STALE), Conflict,
         "'a/note' changed since it was read.", "Read it again, then repeat the change.",
         {"id": "a/note", "current_hash": HERE}),
        (lambda vault: vault.remove("a/note", STALE), Conflict,
         "'a/note' changed since it was read.", "Read it again, then repeat the change.",
         {"id": "a/note", "current_hash": HERE}),
        (lambda vault: vault.write("a/gone", expected_hash=STALE), Conflict,
         "'a/gone' was removed since it was read.", "Read it again, then repeat the change.",
         {"id": "a/gone", "current_hash": ""}),
    ],
    ids=["read", "exists", "changed", "changed-remove", "removed"],
)  # fmt: skip
def test_a_refusal_says_what_where_and_what_to_do(
    vault: VaultFiles,
    act: Callable[[VaultFiles], object],
    kind: type[ScrimshawError],
    message: str,
    hint: str,
    details: dict[str, str],
) -> None:
    error = refusal(lambda: act(vault))
    assert type(error) is kind
    assert (error.message, error.hint, error.details) == (message, hint, details)


def test_a_lock_that_is_held_says_by_which_file_and_for_how_long(vault: VaultFiles) -> None:
    path = vault.root / "vault.lock"
    error = refusal(lambda: knock(vault))
    assert isinstance(error, VaultBusy)
    assert error.message == f"Another writer held {path} for 0.05 s."
    assert (error.hint, error.details) == ("Try again in a moment.", {"path": str(path)})


@pytest.mark.parametrize(
    ("step", "action", "act"),
    [
        ("pathlib.Path.replace", "write", lambda vault: vault.write("a/note")),
        ("pathlib.Path.replace", "remove", lambda vault: vault.remove("a/note", None)),
    ],
)
def test_a_refusing_disk_is_named_with_what_was_tried_and_where(
    vault: VaultFiles,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    action: str,
    act: Callable[[VaultFiles], object],
) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(step, refuse)
        error = refusal(lambda: act(vault))
    path = vault.root / "a/note.md"
    assert isinstance(error, StorageFailure)
    assert error.message == f"Cannot {action} {path}: {os.strerror(errno.EIO)}. Nothing was changed."
    assert error.details == {"path": str(path), "errno": errno.EIO}


def test_a_lock_below_a_file_says_which_lock_could_not_be_made(vault: VaultFiles) -> None:
    path = vault.root / "a/note.md/vault.lock"

    def hold() -> None:
        with lock(path, 0.05):
            pass

    error = refusal(hold)
    assert isinstance(error, StorageFailure)
    assert error.message.startswith(f"Cannot lock {path}: ")
    assert error.details["path"] == str(path)
