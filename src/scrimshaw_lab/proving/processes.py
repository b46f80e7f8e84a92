"""Starting the processes of a round, listening to all of them at once, and killing them."""

from __future__ import annotations

import queue
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO

import msgspec

from scrimshaw.config import limit_native_threads
from scrimshaw_lab.proving.plan import Round
from scrimshaw_lab.proving.protocol import Message, Order, Point, Ready, message

WRITER = (sys.executable, "-m", "scrimshaw_lab.proving.writer")
# No round needs so long, even of a dozen processes on a slow machine.
PATIENCE_S = 120.0

_Heard = tuple[int, Message | None]


@dataclass
class Talk:
    """What the processes of a round said, each its list; how they ended, and the kill point where one stood."""

    messages: list[list[Message]]
    point: str = ""
    hung: bool = False
    crashes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Running:
    process: subprocess.Popen[str]
    errors: Path
    listener: Thread


def run(plan: Round, orders: Sequence[Order], scratch: Path, command: Sequence[str] = WRITER) -> Talk:
    """Start a process per order, and kill all when the plan says so; what they said until then."""
    limit_native_threads()
    heard: queue.Queue[_Heard] = queue.Queue()
    started = time.monotonic()
    running = [_start(place, order, scratch, command, heard) for place, order in enumerate(orders)]
    talk = Talk([[] for _ in orders])
    try:
        _listen(plan, started, heard, talk)
    finally:
        _end(running, talk)
    while not heard.empty():
        _note(talk, heard.get_nowait())
    return talk


def _start(place: int, order: Order, scratch: Path, command: Sequence[str], heard: queue.Queue[_Heard]) -> _Running:
    errors = scratch / f"errors-{order.name}.txt"
    with errors.open("w") as file:
        process = subprocess.Popen(
            [*command, msgspec.json.encode(order).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            encoding="utf-8",
            cwd=scratch,
        )
    assert process.stdout is not None
    listener = Thread(target=_pass_on, args=(place, process.stdout, heard), daemon=True)
    listener.start()
    return _Running(process, errors, listener)


def _pass_on(place: int, lines: IO[str], heard: queue.Queue[_Heard]) -> None:
    for text in lines:
        found = message(text)
        if found is not None:
            heard.put((place, found))
    heard.put((place, None))


def _listen(plan: Round, started: float, heard: queue.Queue[_Heard], talk: Talk) -> None:
    """Return when it is time to kill, or when all have finished."""
    patience = deadline = started + PATIENCE_S
    if plan.delay_s is not None and plan.from_start:
        deadline = started + plan.delay_s
    at_work = to_open = len(talk.messages)
    while at_work:
        try:
            place, found = heard.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            talk.hung = deadline == patience
            return
        _note(talk, (place, found))
        if found is None:
            at_work -= 1
        elif isinstance(found, Point):
            return
        elif isinstance(found, Ready):
            to_open -= 1
            if to_open == 0 and plan.delay_s is not None:
                deadline = min(deadline, time.monotonic() + plan.delay_s)


def _note(talk: Talk, heard: _Heard) -> None:
    place, found = heard
    if isinstance(found, Point):
        talk.point = talk.point or found.name
    if found is not None:
        talk.messages[place].append(found)


def _end(running: Sequence[_Running], talk: Talk) -> None:
    """Kill who still runs; who ended otherwise than well has crashed."""
    for each in running:
        if each.process.poll() is None:
            each.process.kill()
        elif each.process.returncode != 0:
            talk.crashes.append(f"exit code {each.process.returncode}: {each.errors.read_text()[-2000:]}")
    for each in running:
        each.process.wait()
        each.listener.join()
        for stream in (each.process.stdin, each.process.stdout):
            if stream:
                stream.close()
