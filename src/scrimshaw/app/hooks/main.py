"""`scrimshaw-hook CLIENT [EVENT]`: records one event of a client and prints what it should tell its model.

It fails open: whatever goes wrong, the client continues. It writes nothing unredacted and gives up after DEADLINE_S of
work, or LONG_DEADLINE_S when a session starts and gets its summary or when the memory is on a server; or after
PATIENCE_S in all, if the machine or another writer keeps it waiting. Only a session's end starts a process: one that
makes its memory, which nobody waits for.
"""

import _thread  # enough of `threading`, whose import takes a millisecond
import gc
import os
import sys
import time
import typing
from collections.abc import Callable
from functools import partial

DEADLINE_S, LONG_DEADLINE_S, PATIENCE_S = 0.5, 2.0, 5.0
_WATCH_S, _LOG_S = 0.02, 0.1
OUT_OF_TIME = "It ran out of time"


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
    _thread.start_new_thread(_give_up_in_time, (limits, record.log))
    allow_longer = partial(limits.update, work=max(DEADLINE_S, LONG_DEADLINE_S))
    try:
        payload = sys.stdin.buffer.read(record.LARGEST_INPUT + 1)
        text = record.handle_payload(sys.argv[1:], payload, allow_longer=allow_longer, at_end=processes.start_drafting)
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except Exception as error:  # noqa: BLE001 - a hook that fails must not stop its client
        record.log_error(error)
    os._exit(0)


def import_lightly() -> None:
    """Skip imports that a process of some milliseconds does not need."""
    gc.disable()
    sys.modules.setdefault("typing_extensions", typing)  # msgspec needs only what Python has since 3.11: 9 ms


def _give_up_in_time(limits: dict[str, float], log: Callable[[str], None]) -> None:
    """End the process when its time is over. Waiting for a processor does not count, so no burst loses events."""
    until = time.monotonic() + PATIENCE_S
    while time.process_time() < limits["work"] and time.monotonic() < until:
        time.sleep(_WATCH_S)
    _thread.start_new_thread(log, (OUT_OF_TIME,))
    time.sleep(_LOG_S)  # a disk that does not answer must not keep the client waiting
    os._exit(0)
