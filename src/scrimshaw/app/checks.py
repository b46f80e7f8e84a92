"""Checks of what only a process that was started knows: the watcher, the hooks, the clients."""

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from scrimshaw.app import setup
from scrimshaw.app.background import outermost_folders
from scrimshaw.app.setup import Connection, check_connections
from scrimshaw.engine import Engine
from scrimshaw.engine.health import CHECKS, Check, Result, make_checks, off
from scrimshaw.errors import ConfigError
from scrimshaw.models import Status


def process_checks(project: Path) -> tuple[Check, ...]:
    """The process's checks, and one for each client that is on this machine or connected."""
    found: dict[str, list[Connection]] = {}
    try:
        for connection in check_connections(project, setup.find_programs()):
            found.setdefault(connection.client, []).append(connection)
    except ConfigError:  # the check of the hook says so
        return PROCESS
    runs = {name: partial(_check_client, scopes) for name, scopes in found.items()}
    advice = "Run `scrimshaw setup {}`."
    clients = (replace(CLIENT, name=f"client:{n}", advice=advice.format(n), run=run) for n, run in runs.items())
    return (*PROCESS, *clients)


def _check_watcher(engine: Engine) -> Result | str:
    """Start to watch, and stop at once."""
    from watchfiles import watch  # noqa: PLC0415 - native and slow to import; a server starts without it

    stop = threading.Event()
    stop.set()
    roots = outermost_folders(source.root for source in engine.sources)
    if not roots:
        return "there is no folder to watch yet"
    try:
        next(watch(*roots, stop_event=stop), None)
    except (OSError, RuntimeError) as error:  # watchfiles' own failures are RuntimeErrors
        return off(f"the files cannot be watched: {error}")
    return f"{len(roots)} folders can be watched"


def _check_hook(engine: Engine) -> Result | str:
    if not engine.settings.is_capturing:
        return Result(Status.DEGRADED, "capture is paused; `scrimshaw capture resume` ends that", expected=True)
    try:
        found = setup.find_programs()
        from scrimshaw.app.hooks import record  # noqa: PLC0415 - that it can be imported is what is measured
    except (ConfigError, ImportError) as error:
        return off(str(error))
    return f"{found.hook} runs {record.handle_payload.__module__}"


def _check_client(found: Sequence[Connection], _engine: Engine) -> Result | str:
    """The worst of a client's scopes, in words."""
    works = "server and hooks are set"
    text = "; ".join(f"{each.scope}: {each.fault or works}" if each.scope else each.fault for each in found)
    if any(each.is_broken or each.scope is None for each in found):
        return off(text)
    return Result(Status.DEGRADED if any(each.fault for each in found) else Status.ON, text)


PROCESS = make_checks(watcher=_check_watcher, hook=_check_hook)
(CLIENT,) = make_checks(**{"client:NAME": partial(_check_client, ())})
ALL_CHECKS = (*CHECKS, *PROCESS, CLIENT)  # every kind of check, as docs/capabilities.md lists them
