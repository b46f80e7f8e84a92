"""Working memory over the real database, against a model of thirty lines, through any run of operations."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scrimshaw.config import SessionSettings
from scrimshaw.models import EventKind, ItemKind, NewItem, Observation, Redacted
from scrimshaw.session import working_memory
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.ports import Admission

pytestmark = pytest.mark.slow

CAPACITY = 3
MODULUS = 40  # so small that the counter wraps within a run
SETTINGS = SessionSettings(capacity=CAPACITY, counter_modulus=MODULUS)


@dataclass
class Entry:
    attention: float
    event: int
    mentions: int = 0
    held: bool = True


@dataclass
class Model:
    """The rules once more, told as steps in a list."""

    entries: list[Entry] = field(default_factory=list)
    events: int = 0

    def raw(self, entry: Entry) -> float:
        return entry.attention * 0.85 ** ((self.events - entry.event) % MODULUS) + 0.05 * entry.mentions

    def score(self, entry: Entry) -> float:
        return max(0.05, min(1.0, self.raw(entry)))

    def remember(self, attention: float) -> None:
        self.entries.append(Entry(attention, self.events))
        for entry in self.held():
            entry.held = self.raw(entry) >= 0.01
        while len(self.held()) > CAPACITY:
            weakest = min(self.held(), key=self.score)
            weakest.held = False

    def held(self) -> list[Entry]:
        """What is held, oldest first, so that of equals `min` takes the older."""
        return [entry for entry in self.entries if entry.held]


class WorkingMemoryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.model = Model()

    @initialize()
    def start(self) -> None:
        self.storage = Storage(Path(self.folder.name), busy_timeout_ms=1000)
        self.sessions = self.storage.sessions
        self.sessions.open("s", now=0.0)

    @rule(events=st.integers(1, 45))
    def work(self, events: int) -> None:
        for _ in range(events):
            self.model.events += 1
            assert self.sessions.tick("s", now=0.0, modulus=MODULUS) == self.model.events % MODULUS

    @rule(attention=st.sampled_from([0.0, 0.005, 0.3, 0.5, 0.5, 0.9, 1.0]))
    def remember(self, attention: float) -> None:
        admit = partial(working_memory.admit, now=0.0, settings=SETTINGS, event_decay=True)
        text = Redacted(text=f"x{len(self.model.entries)}")
        item = NewItem(text=text, kind=ItemKind.FILE, attention=attention)
        seen = Observation(session="s", kind=EventKind.STOP, text=text, item=item)
        assert self.sessions.observe(seen, admit, now=0.0, modulus=MODULUS)
        kept = self.sessions.items("s")[-1]
        self.model.remember(attention)
        assert (kept.number, kept.held) == (len(self.model.entries), self.model.entries[-1].held)

    @precondition(lambda self: self.model.entries)
    @rule(data=st.data())
    def mention(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, len(self.model.entries)))
        self.sessions.mention("s", number)
        self.model.entries[number - 1].mentions += 1

    @rule()
    def end_and_come_back(self) -> None:
        seen = Observation(session="s", kind=EventKind.END, text=Redacted(text=""))
        self.sessions.observe(seen, lambda *_: Admission(admitted=False), now=0.0, modulus=MODULUS)
        self.storage.close()
        self.sessions.open("s", now=0.0)

    @invariant()
    def both_hold_the_same(self) -> None:
        items = self.sessions.items("s")
        assert [item.held for item in items] == [entry.held for entry in self.model.entries]
        assert sum(item.held for item in items) <= CAPACITY

    @invariant()
    def both_read_the_same_scores(self) -> None:
        counter = self.model.events % MODULUS
        read = [
            working_memory.score(item, counter, 0.0, SETTINGS, event_decay=True) for item in self.sessions.items("s")
        ]
        assert read == [self.model.score(entry) for entry in self.model.entries]

    def teardown(self) -> None:
        self.storage.close()
        self.folder.cleanup()


TestWorkingMemory = WorkingMemoryMachine.TestCase
TestWorkingMemory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
