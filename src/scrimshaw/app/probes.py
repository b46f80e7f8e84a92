"""Probes of what only a process that was started knows: the watcher, the hooks, the clients."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from scrimshaw.app.background import POLL_S, existing
from scrimshaw.app.setup import programs
from scrimshaw.app.setup.status import Connection, connections
from scrimshaw.engine import Engine
from scrimshaw.engine.capabilities import Finding, Probe, off, on
from scrimshaw.errors import ConfigError
from scrimshaw.models import Status


def probes(project: Path) -> tuple[Probe, ...]:
    """The process's probes, and one for each client that is on this machine or connected."""
    return (*PROCESS, *map(_client_probe, _clients(project).items()))


def _watcher(engine: Engine) -> Finding:
    """Start to watch, and stop at once."""
    from watchfiles import watch  # noqa: PLC0415 - native and slow to import; a server starts without it

    stop = threading.Event()
    stop.set()
    roots = existing(source.root for source in engine.sources)
    if not roots:
        return on("there is no folder to watch yet")
    try:
        for _ in watch(*roots, stop_event=stop):
            break
    except (OSError, RuntimeError) as error:  # watchfiles' own failures are RuntimeErrors
        return off(f"the files cannot be watched: {error}")
    return on(f"{len(roots)} folders can be watched")


def _hook(_engine: Engine) -> Finding:
    try:
        found = programs.installed()
        from scrimshaw.app.hooks import record  # noqa: PLC0415 - that it can be imported is what is measured
    except (ConfigError, ImportError) as error:
        return off(str(error))
    return on(f"{found.hook} runs {record.handle.__module__}")


def _clients(project: Path) -> dict[str, list[Connection]]:
    """The connections by client, one that is installed and not connected with its only fault."""
    found: dict[str, list[Connection]] = {}
    try:
        for connection in connections(project, programs.installed()):
            found.setdefault(connection.client, []).append(connection)
    except ConfigError:  # the probe of the hook says so
        return {}
    return found


def _client_probe(item: tuple[str, Sequence[Connection]]) -> Probe:
    name, found = item
    return replace(CLIENT, name=f"client:{name}", advice=f"Run `scrimshaw setup {name}`.", run=partial(_client, found))


def _client(found: Sequence[Connection], _engine: Engine) -> Finding:
    """The worst of a client's scopes, in words."""
    told = [f"{each.scope}: {each.fault or 'server and hooks are set'}" if each.scope else each.fault for each in found]
    if any(each.is_broken or each.scope is None for each in found):
        return off("; ".join(told))
    status = Status.DEGRADED if any(each.fault for each in found) else Status.ON
    return Finding(status=status, detail="; ".join(told))


PROCESS: tuple[Probe, ...] = (
    Probe(
        name="watcher",
        measures="a watch on the folders of memories is started and stopped",
        lost="a change by hand is found later",
        instead=f"a server looks at the files every {POLL_S:g} s",
        advice="Raise the system's limit on watched files (fs.inotify), then start the server again.",
        run=_watcher,
    ),
    Probe(
        name="hook",
        measures="the hook program is looked up beside the server's, and its code imported",
        lost="what happens in sessions is not captured",
        instead="tools of the server, called by the agent itself",
        advice="Install Scrimshaw again, so that its programs lie beside each other.",
        run=_hook,
        when_off="healthy",
    ),
)
CLIENT = Probe(
    name="client:NAME",
    measures="the configuration of a client on this machine is compared with what `scrimshaw setup NAME` writes",
    lost="that client neither asks the memory nor feeds it",
    instead="other clients and the command line",
    advice="Run `scrimshaw setup NAME`.",
    run=partial(_client, ()),
    when_off="healthy",
)
