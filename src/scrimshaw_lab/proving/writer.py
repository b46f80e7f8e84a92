"""A process that works until it is killed: `python -m scrimshaw_lab.proving.writer ORDER`.

It says what it will do, does it through the engine, and says what the engine answered, a line of JSON each.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path
from random import Random

import msgspec

from scrimshaw.config import Settings, load
from scrimshaw.engine import index, open_engine
from scrimshaw.errors import DamagedDatabase, ScrimshawError
from scrimshaw_lab.proving import faults, points
from scrimshaw_lab.proving.disk import Recorder
from scrimshaw_lab.proving.operations import Desk, next_plan, own_memories
from scrimshaw_lab.proving.protocol import Message, Order, Point, Ready, Refused, line


def say(message: Message) -> None:
    """Send a line to the prover before anything else happens."""
    sys.stdout.write(f"{line(message)}\n")
    sys.stdout.flush()


def main(order: Order) -> None:
    """Carry out an order."""
    chance = Random(order.seed)
    settings = load(Path(order.project), home=Path(order.home), environment={})
    if order.disk_log:
        Recorder(settings.folder, Path(order.disk_log)).install()
    weather = faults.install(order.fault, chance, settings.folder / "memories")
    points.install(points.Points(order.point, order.passage, _stand_still))
    desk = _opened(order, settings, chance)
    say(Ready())
    with desk.engine:
        for number in range(order.operations):
            weather()
            _perform(desk, f"{order.prefix}x{number}")


def _perform(desk: Desk, token: str) -> None:
    try:
        planned = next_plan(desk, token)
        say(planned.intent)
        ack = planned.act()
    except ScrimshawError as error:
        say(Refused(token=token, code=error.code, message=error.message))
    except OSError as error:  # the hand that edits a file has no engine to put it into words
        say(Refused(token=token, code="os", message=str(error)))
    else:
        say(ack)


def _opened(order: Order, settings: Settings, chance: Random) -> Desk:
    """A desk with the memory on it; a damaged index is made anew, as its error advises."""
    try:
        return _desk(order, settings, chance)
    except DamagedDatabase as error:
        if Path(error.details["path"]).name != "index.db":
            raise
    for path in settings.folder.glob("index.db*"):
        path.unlink(missing_ok=True)
    return _desk(order, settings, chance)


def _desk(order: Order, settings: Settings, chance: Random) -> Desk:
    engine = dataclasses.replace(open_engine(settings), clock=lambda: time.time())
    try:
        index.scan(engine)
        return Desk(engine, order.name, order.role, chance, own_memories(engine, order.name))
    except ScrimshawError:
        engine.close()
        raise


def _stand_still(name: str) -> None:
    """Wait to be killed; without a prover at the other end there is nothing to wait for."""
    say(Point(name))
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Order))
