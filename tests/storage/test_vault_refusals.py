"""What the vault says when it refuses: what happened, where, what to do, and what a program needs."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scrimshaw.errors import (
    AlreadyExists,
    Conflict,
    InvalidRequest,
    NotFound,
    ReadOnly,
    ScrimshawError,
    StorageFailure,
    VaultBusy,
)
from scrimshaw.models import Redacted, content_hash
from scrimshaw.storage.files import Vault, lock

HERE = content_hash(b"here")
STALE = content_hash(b"stale")


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    """A vault that holds one memory, `a/note`."""
    opened = Vault(tmp_path / "memories", "project", writable=True)
    write(opened, "a/note", "here", "")
    return opened


def write(vault: Vault, memory_id: str, text: str = "text", expected_hash: str | None = None) -> str:
    return vault.write(memory_id, Redacted(text=text), expected_hash=expected_hash)


def read_only(vault: Vault) -> Vault:
    return Vault(vault.root, "docs", writable=False)


def knock(vault: Vault) -> None:
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
        (lambda vault: vault.remove("a/gone", None), NotFound,
         "No memory 'a/gone' in the vault 'project'.", "Search for it, or list the vault.", {"id": "a/gone"}),
        (lambda vault: write(vault, "a/note", expected_hash=""), AlreadyExists,
         "'a/note' exists.", "Update it, or choose another id.", {"id": "a/note", "current_hash": HERE}),
        (lambda vault: write(vault, "a/note", expected_hash=STALE), Conflict,
         "'a/note' changed since it was read.", "Read it again, then repeat the change.",
         {"id": "a/note", "current_hash": HERE}),
        (lambda vault: vault.remove("a/note", STALE), Conflict,
         "'a/note' changed since it was read.", "Read it again, then repeat the change.",
         {"id": "a/note", "current_hash": HERE}),
        (lambda vault: write(vault, "a/gone", expected_hash=STALE), Conflict,
         "'a/gone' was removed since it was read.", "Read it again, then repeat the change.",
         {"id": "a/gone", "current_hash": ""}),
        (lambda vault: write(read_only(vault), "a/note"), ReadOnly,
         "The vault 'docs' is read-only.", "Save to a writable vault.", {"vault": "docs"}),
        (lambda vault: write(vault, "a/note", "a\ud800b"), InvalidRequest,
         "The text has a lone surrogate at character 1.", "Send text that can be written as UTF-8.",
         {"parameter": "content"}),
    ],
    ids=["read", "remove", "exists", "changed", "changed-remove", "removed", "read-only", "surrogate"],
)  # fmt: skip
def test_a_refusal_says_what_where_and_what_to_do(
    vault: Vault,
    act: Callable[[Vault], object],
    kind: type[ScrimshawError],
    message: str,
    hint: str,
    details: dict[str, str],
) -> None:
    error = refusal(lambda: act(vault))
    assert type(error) is kind
    assert (error.message, error.hint, error.details) == (message, hint, details)


def test_a_lock_that_is_held_says_by_which_file_and_for_how_long(vault: Vault) -> None:
    path = vault.root / "vault.lock"
    error = refusal(lambda: knock(vault))
    assert isinstance(error, VaultBusy)
    assert error.message == f"Another writer held {path} for 0.05 s."
    assert (error.hint, error.details) == ("Try again in a moment.", {"path": str(path)})


@pytest.mark.parametrize(
    ("step", "action", "act"),
    [
        ("pathlib.Path.read_bytes", "read", lambda vault: vault.read("a/note")),
        ("pathlib.Path.replace", "write", lambda vault: write(vault, "a/note")),
        ("pathlib.Path.unlink", "remove", lambda vault: vault.remove("a/note", None)),
    ],
)
def test_a_refusing_disk_is_named_with_what_was_tried_and_where(
    vault: Vault,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    action: str,
    act: Callable[[Vault], object],
) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(step, refuse)
        error = refusal(lambda: act(vault))
    path = vault.root / "a/note.md"
    assert isinstance(error, StorageFailure)
    changed = "" if action == "read" else " Nothing was changed."
    assert error.message == f"Cannot {action} {path}: {os.strerror(errno.EIO)}.{changed}"
    assert error.details == {"path": str(path), "errno": errno.EIO}


def test_a_lock_below_a_file_says_which_lock_could_not_be_made(vault: Vault) -> None:
    path = vault.root / "a/note.md/vault.lock"

    def hold() -> None:
        with lock(path, 0.05):
            pass

    error = refusal(hold)
    assert isinstance(error, StorageFailure)
    assert error.message.startswith(f"Cannot lock {path}: ")
    assert error.details["path"] == str(path)
