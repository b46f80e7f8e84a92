"""`make fuzz`: each target for some minutes; what breaks one is kept below `found/` and replayed by the tests.

python -m tests.fuzz.run --minutes 1 --target edits --seed 7
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from tests.fuzz.targets import TARGETS, Target, holds_secret
from tests.samples import SECRET

FOUND = Path(__file__).with_name("found")
# Files must not be taken for ones with a leaked token in them.
SECRET_MARK = "{the secret}"
# Processor time an input may take: linear work on slow machines, far below anything quadratic on 200,000 characters.
# An edit is parsed 14 times in Python: 20,000 characters of empty keys took 4 s on an idle machine.
LEAST_S, PER_CHARACTER_S = 1.5, 300e-6
HANGS_S = 60
MOST_GROWTH_BYTES = 700 * 1024 * 1024
# So many inputs share a scratch folder; so often it is searched for the secret.
PER_FOLDER, PER_SEARCH = 1000, 50
LEAKED = "the secret was written"


class Fault(NamedTuple):
    """An input that broke a target, and how."""

    target: str
    text: str
    why: str


class Hang(Exception):
    """An input takes so long that it may never end."""


def tried(target: Target, texts: Iterator[str], until: float) -> tuple[int, list[Fault]]:
    """Inputs tried until then, in one scratch folder, and the faults that showed."""
    count, faults = 0, list[Fault]()
    with _scratch() as folder, target.opened(folder) as check:
        while count < PER_FOLDER and time.monotonic() < until and (batch := list(islice(texts, PER_SEARCH))):
            faults += filter(None, (_fault(target, check, text) for text in batch))
            count += len(batch)
            if holds_secret(folder):
                faults += _leaks(target, batch)
                break
    return count, faults


def replayed(target: Target, text: str) -> str:
    """What is wrong with one input in a fresh folder; empty where all is well."""
    with _scratch() as folder, target.opened(folder) as check:
        fault = _fault(target, check, text)
        if fault is None and holds_secret(folder):
            return LEAKED
    return fault.why if fault else ""


def read_found(path: Path) -> str:
    """A kept input as it was."""
    return path.read_bytes().decode("utf-8", "surrogatepass").replace(SECRET_MARK, SECRET)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz; the exit code is 1 when something broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--target", action="append", choices=[target.name for target in TARGETS])
    parser.add_argument("--seed", type=int, default=None, help="the same seed makes the same inputs")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    chosen = [target for target in TARGETS if not options.target or target.name in options.target]
    broken = [_fuzzed(target, options.minutes * 60, seed) for target in chosen]
    return int(any(broken))


def _fuzzed(target: Target, seconds: float, seed: int) -> bool:
    numbers = random.Random(f"{target.name} {seed}")
    until, count, faults = time.monotonic() + seconds, 0, dict[str, Fault]()
    made = (target.make(numbers) for _ in iter(int, 1))
    while time.monotonic() < until:
        more, found = tried(target, made, until)
        count += more
        for fault in found:
            if fault.why not in faults:
                faults[fault.why] = fault
                _say(f"  {target.name}: {fault.why}\n    {_keep(fault)}")
    _say(f"{target.name}: {count} inputs, {len(faults)} faults (seed {seed})")
    return bool(faults)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _fault(target: Target, check: object, text: str) -> Fault | None:
    limit = LEAST_S + PER_CHARACTER_S * len(text)
    for attempt in (1, 2):  # once more where it was slow: the machine may have been
        before, memory = time.process_time(), _memory()
        try:
            with _interrupted(HANGS_S):
                check(text)  # type: ignore[operator]  # a Check
        except Hang:
            return Fault(target.name, text, f"hangs: more than {HANGS_S} s")
        except Exception as error:  # noqa: BLE001 - whatever an input can do is what is looked for
            return Fault(target.name, text, f"{type(error).__name__} at {_place(error)}")
        took = time.process_time() - before
        if _memory() - memory > MOST_GROWTH_BYTES:
            return Fault(target.name, text, "takes too much memory")
        if took <= limit:
            return None
        if attempt == 2:
            return Fault(target.name, text, f"slow: {took:.0f} s or more for {len(text) // 1000} thousand characters")
    return None


def _leaks(target: Target, texts: Sequence[str]) -> list[Fault]:
    """The inputs of those that by themselves leave the secret behind; all of them where none does alone."""
    alone = [text for text in texts if SECRET in text and replayed(target, text) == LEAKED]
    return [Fault(target.name, text, LEAKED) for text in (alone or ["\n".join(texts)])]


def _place(error: BaseException) -> str:
    frame, place = error.__traceback__, "?"
    while frame:
        path = Path(frame.tb_frame.f_code.co_filename)
        if "scrimshaw" in path.parts or path.parent == FOUND.parent:
            place = f"{path.name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place


def _keep(fault: Fault) -> Path:
    data = fault.text.replace(SECRET, SECRET_MARK).encode("utf-8", "surrogatepass")
    path = FOUND / fault.target / f"{hashlib.sha256(data).hexdigest()[:12]}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder to work in, which is the working folder meanwhile: payloads may name none."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(os.path.realpath(name))
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


@contextmanager
def _interrupted(seconds: float) -> Iterator[None]:
    """Raise Hang in what takes longer, where the system can."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(_: int, __: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _memory() -> int:
    """The most memory this process ever held, in bytes; 0 where the system does not tell."""
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    sys.exit(main())
