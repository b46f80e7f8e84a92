"""`scrimshaw-hook CLIENT [EVENT]`: one event of a client, recorded; what the client should tell its model, printed.

It fails open: whatever goes wrong, the client goes on. It writes nothing unredacted and gives up after DEADLINE_S of
work, where a session starts and is told how things stand after START_DEADLINE_S; or after PATIENCE_S in all, where the
machine or another writer keeps it waiting. Only the end of a session starts a process: one that makes its memory, which
nobody waits for.
"""

import _thread  # all that is needed of `threading`, whose import takes a millisecond
import gc
import os
import sys
import time
import typing
from functools import partial

DEADLINE_S, START_DEADLINE_S, PATIENCE_S = 0.25, 2.0, 5.0
_WATCH_S = 0.02


def run() -> None:
    """Entry point; always exits 0."""
    import_lightly()
    try:
        from scrimshaw.app import processes  # noqa: PLC0415 - most of what a hook costs, so made light before
        from scrimshaw.app.hooks import record  # noqa: PLC0415 - see above
    except ImportError as error:
        sys.stderr.write(f"scrimshaw-hook records nothing: {error}. Install scrimshaw again.\n")
        sys.stderr.flush()
        os._exit(0)
    limits = {"work": DEADLINE_S}
    _thread.start_new_thread(_give_up_in_time, (limits,))
    allow_start = partial(limits.update, work=max(DEADLINE_S, START_DEADLINE_S))
    try:
        payload = sys.stdin.buffer.read(record.LARGEST_INPUT + 1)
        text = record.handle_payload(sys.argv[1:], payload, at_start=allow_start, at_end=processes.start_drafting)
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except Exception as error:  # noqa: BLE001 - a hook that fails must not stop its client
        record.log_error(error)
    os._exit(0)


def import_lightly() -> None:
    """Leave out what a process of some milliseconds has no use for.

    msgspec asks typing_extensions, where it is installed, for what Python's own typing offers since 3.11: 9 ms.
    """
    gc.disable()
    sys.modules.setdefault("typing_extensions", typing)


def _give_up_in_time(limits: dict[str, float]) -> None:
    """End the process when its time is over. Waiting for a processor is not its work, so that no burst loses events."""
    until = time.monotonic() + PATIENCE_S
    while time.process_time() < limits["work"] and time.monotonic() < until:
        time.sleep(_WATCH_S)
    os._exit(0)
