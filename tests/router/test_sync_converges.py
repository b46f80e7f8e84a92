"""Whatever happens to memories, peer and process in between, a sync that ends well leaves the same on both sides."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scrimshaw.errors import PeerFailed, PeerRefused
from scrimshaw.router import sync
from scrimshaw.router.copies import CopyRecord, IdMap, MemoryCopy, hash_text
from scrimshaw.router.sync import PeerSync, compare_copies, sync_copies

names = st.sampled_from(["a", "b", "port/a", "port/b"])
texts = st.sampled_from(["one", "two", "Two", "three  \n"])


class Killed(BaseException):
    """The process ends here."""


class Shelf:
    """Keeps copies in memory, like a peer, and fails at a call: before it, or behind it so that the answer is lost."""

    def __init__(self, can_update: bool, can_rename: bool) -> None:
        self.can_update, self.can_rename = can_update, can_update and can_rename
        self.copies: dict[str, tuple[str, str]] = {}
        self.reasons: list[str] = []
        self.numbers, self._fails_in, self._is_late, self._error = count(), -1, False, PeerFailed("gone")

    def fail(self, calls: int, is_late: bool, error: BaseException) -> None:
        self._fails_in, self._is_late, self._error = calls, is_late, error  # type: ignore[assignment]

    def list_copies(self) -> list[tuple[str, CopyRecord]]:
        copies = self.copies.items()
        return [(name, CopyRecord(peer_id=key, text_hash=hash_text(text))) for key, (name, text) in copies]

    def create(self, memory: MemoryCopy) -> str:
        key = str(next(self.numbers))
        self._change(key, (memory.name, memory.text))
        return key

    def update(self, peer_id: str, memory: MemoryCopy) -> None:
        assert self.can_update
        if peer_id not in self.copies:
            raise PeerRefused("there is no such entry")
        name = memory.name if self.can_rename else self.copies[peer_id][0]
        assert name == memory.name
        self._change(peer_id, (name, memory.text))

    def retire(self, peer_id: str, reason: str) -> None:
        self.reasons.append(reason)
        if peer_id not in self.copies:
            raise PeerRefused("there is no such entry")
        self._change(peer_id, None)

    def _change(self, key: str, copy: tuple[str, str] | None) -> None:
        self._fails_in -= 1
        if self._fails_in == -1 and not self._is_late:
            raise self._error
        if copy:
            self.copies[key] = copy
        else:
            del self.copies[key]
        if self._fails_in == -1:
            raise self._error


def make_copy(name: str, text: str) -> MemoryCopy:
    sent: dict[str, Any] = {"context": "", "keywords": (), "importance": 7, "text_hash": hash_text(text)}
    return MemoryCopy(name=name, title=name, text=text, **sent)


def test_a_peer_is_told_that_a_copy_is_replaced_and_not_that_its_memory_is_gone(tmp_path: Path) -> None:
    shelf, known = Shelf(can_update=False, can_rename=False), tmp_path / "map.jsonl"
    for text in ("one", "two"):
        sync_copies("shelf", shelf, {"a": make_copy("a", text)}, IdMap(known))
    assert shelf.reasons == [sync.CHANGED]
    sync_copies("shelf", shelf, {}, IdMap(known))
    assert shelf.reasons == [sync.CHANGED, sync.GONE]


def test_a_copy_that_is_updated_needs_no_reason(tmp_path: Path) -> None:
    shelf, known = Shelf(can_update=True, can_rename=False), tmp_path / "map.jsonl"
    done = [sync_copies("shelf", shelf, {"a": make_copy("a", text)}, IdMap(known)) for text in ("one", "two")]
    assert [(step.action, step.reason) for each in done for step in each.steps] == [("create", ""), ("update", "")]


class Syncing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.map = Path(self.scratch.name, "map.jsonl")
        self.memories: dict[str, str] = {}
        self.is_touched = False
        self.workers, sync.WORKERS = sync.WORKERS, 1  # so that a failure can be repeated

    def teardown(self) -> None:
        sync.WORKERS = self.workers
        self.scratch.cleanup()

    @initialize(can_update=st.booleans(), can_rename=st.booleans())
    def open_peer(self, can_update: bool, can_rename: bool) -> None:
        self.peer = Shelf(can_update, can_rename)

    @rule(name=names, text=texts)
    def save(self, name: str, text: str) -> None:
        self.memories[name] = text

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.memories.pop(name, None)

    @rule(old=names, new=names)
    def rename(self, old: str, new: str) -> None:
        if old in self.memories:
            self.memories[new] = self.memories.pop(old)

    @rule(data=st.data(), text=texts, is_lost=st.booleans())
    def change_at_the_peer(self, data: st.DataObject, text: str, is_lost: bool) -> None:
        if self.peer.copies:
            key = data.draw(st.sampled_from(sorted(self.peer.copies)))
            name, _ = self.peer.copies.pop(key)
            if not is_lost:
                self.peer.copies[key] = (name, text)
            self.is_touched = True

    @rule(data=st.data())
    def double_at_the_peer(self, data: st.DataObject) -> None:
        if self.peer.copies:
            copy = data.draw(st.sampled_from(sorted(self.peer.copies.values())))
            self.peer.copies[str(next(self.peer.numbers))] = copy
            self.is_touched = True

    @rule()
    def lose_the_map(self) -> None:
        self.map.unlink(missing_ok=True)

    @rule(calls=st.integers(0, 3), is_late=st.booleans(), is_killed=st.booleans(), torn=st.integers(0, 20))
    def fail_in_the_middle(self, calls: int, is_late: bool, is_killed: bool, torn: int) -> None:
        self.peer.fail(calls, is_late, Killed() if is_killed else PeerFailed("gone"))
        try:
            result = self.sync()
        except Killed:
            if torn:
                with self.map.open("ab") as file:
                    file.write(b'{"name": "port/a", "co'[:torn])
        else:
            assert result.left == 0 or result.fault
        self.peer.fail(-1, False, PeerFailed("gone"))

    @rule()
    def follow(self) -> None:
        result = self.sync(full=self.is_touched)
        assert (result.exit_code, result.left) == (0, 0), result
        self.is_touched = False
        there = {name: hash_text(text) for name, text in self.peer.copies.values()}
        assert len(there) == len(self.peer.copies), "a copy is there twice"
        assert there == {name: hash_text(text) for name, text in self.memories.items()}
        assert compare_copies("shelf", self.peer, self.wanted()).exit_code == 0
        assert not self.sync().steps
        assert not self.sync(full=True).steps

    @invariant()
    def a_dry_run_changes_nothing(self) -> None:
        before = dict(self.peer.copies), self.map.read_bytes() if self.map.exists() else b""
        self.sync(dry_run=True)
        assert before == (self.peer.copies, self.map.read_bytes() if self.map.exists() else b"")

    def sync(self, **options: Any) -> PeerSync:
        return sync_copies("shelf", self.peer, self.wanted(), IdMap(self.map), **options)

    def wanted(self) -> dict[str, MemoryCopy]:
        return {name: make_copy(name, text) for name, text in self.memories.items()}


TestSyncing = pytest.mark.slow(Syncing.TestCase)
TestSyncing.settings = settings(max_examples=150, stateful_step_count=30)
