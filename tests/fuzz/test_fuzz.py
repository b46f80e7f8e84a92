"""What fuzzing once found stays mended, and the fuzzer itself works."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fuzz.run import FOUND, LEAKED, read_found, replayed, tried
from tests.fuzz.targets import TARGETS, Check, Target
from tests.samples import SECRET

pytestmark = pytest.mark.slow

BY_NAME = {target.name: target for target in TARGETS}
KEPT = sorted(FOUND.glob("*/*.txt"))
SMOKE_S = 2.0


@pytest.mark.parametrize("path", KEPT, ids=[f"{path.parent.name}/{path.stem}" for path in KEPT])
def test_what_was_found_stays_mended(path: Path) -> None:
    assert replayed(BY_NAME[path.parent.name], read_found(path)) == ""


def test_every_target_survives_some_inputs() -> None:
    for target in TARGETS:
        numbers = random.Random(f"smoke {target.name}")
        inputs = (target.make(numbers) for _ in range(5))
        _, faults = tried(target, inputs, time.monotonic() + SMOKE_S / len(TARGETS))
        assert faults == [], target.name


@contextmanager
def breaking(folder: Path) -> Iterator[Check]:
    def check(text: str) -> None:
        if "boom" in text:
            raise KeyError(text)
        if "leak" in text:
            (folder / "log").write_text(text, encoding="utf-8")

    yield check


def test_a_fault_is_seen_for_what_it_is() -> None:
    broken = Target("broken", lambda _: "", breaking)
    texts = ["fine", "boom", "fine", f"leak {SECRET}"]
    count, faults = tried(broken, iter(texts), time.monotonic() + 60)
    assert [(fault.text, fault.why.partition(" at ")[0]) for fault in faults] == [
        ("boom", "KeyError"),
        (f"leak {SECRET}", LEAKED),
    ]
    assert count == 4
    assert replayed(broken, "fine") == ""
