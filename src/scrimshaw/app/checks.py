"""Health checks that need a running process: the watcher, the hooks, the clients."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from scrimshaw.app import setup
from scrimshaw.app.background import find_outermost_folders
from scrimshaw.config import PeerSettings, Settings
from scrimshaw.engine import Engine
from scrimshaw.engine.health import CHECKS, Check, Result, make_checks, off
from scrimshaw.errors import ConfigError, PeerFailed
from scrimshaw.models import Status, format_count

_MISSED = "Each line of {} says why. `scrimshaw import CLIENT` brings what they missed; then remove that file."


def list_process_checks(settings: Settings) -> tuple[Check, ...]:
    """The process's checks, and one for each peer, and for each client that is on this machine or connected."""
    found: dict[str, list[setup.Connection]] = {}
    with suppress(ConfigError):  # the check of the hook reports it
        for connection in setup.check_connections(settings.project, setup.find_programs()):
            found.setdefault(connection.client, []).append(connection)
    runs = {name: partial(_check_client, scopes) for name, scopes in found.items()}
    advice = "Run `scrimshaw setup {}`."
    clients = (replace(CLIENT, name=f"client:{n}", advice=advice.format(n), run=run) for n, run in runs.items())
    peers = (replace(PEER, name=f"peer:{each.name}", run=partial(_check_peer, each)) for each in settings.peers)
    return (*PROCESS, *peers, *clients)


def _check_watcher(engine: Engine) -> Result | str:
    """Start to watch, and stop at once."""
    from watchfiles import watch  # noqa: PLC0415 - native and slow to import; a server starts without it

    stop = threading.Event()
    stop.set()
    if not (roots := find_outermost_folders(source.root for source in engine.sources)):
        return "there is no folder to watch yet"
    try:
        next(watch(*roots, stop_event=stop), None)
    except (OSError, RuntimeError) as error:  # watchfiles' own failures are RuntimeErrors
        return off(f"the files cannot be watched: {error}")
    return f"{format_count(len(roots), 'folder')} can be watched"


def _check_hook(engine: Engine) -> Result | str:
    if not engine.settings.is_capturing:
        advice = "Run `scrimshaw capture resume`." if engine.settings.session.capture else "Switch session.capture on."
        return Result(Status.DEGRADED, "capture is paused", expected=True, advice=advice)
    try:
        found = setup.find_programs()
        from scrimshaw.app.hooks import main, record  # noqa: PLC0415 - that it can be imported is what is measured
    except (ConfigError, ImportError) as error:
        return off(str(error))
    log = engine.settings.folder / "hook.log"
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    if failed := [line for line in lines if " WARN " not in line]:
        late = sum(main.OUT_OF_TIME in line for line in failed)
        text = f"hooks that failed: {len(failed)}, for lack of time: {late}, the last at {failed[-1]}"
        return Result(Status.DEGRADED, text, expected=True, advice=_MISSED.format(log))
    return f"{found.hook} runs {record.handle_payload.__module__}"


def _check_peer(stated: PeerSettings, engine: Engine) -> Result | str:
    """Send the peer a query, and wait for its answer."""
    from scrimshaw.router.peers import connect_peer  # noqa: PLC0415 - asyncio, for who has peers

    try:
        return f"an answer after {connect_peer(stated, engine.settings.router).probe() * 1000:.0f} ms"
    except PeerFailed as error:
        return off(error.message)


def _check_client(found: Sequence[setup.Connection], _engine: Engine) -> Result | str:
    """The result for a client: that of its worst scope."""
    works = "server and hooks are set"
    text = "; ".join(f"{each.scope}: {each.fault or works}" if each.scope else each.fault for each in found)
    if any(each.is_broken or each.scope is None for each in found):
        return off(text)
    return Result(Status.DEGRADED if any(each.fault for each in found) else Status.ON, text)


PROCESS = make_checks(watcher=_check_watcher, hook=_check_hook)
(CLIENT,) = make_checks(**{"client:NAME": partial(_check_client, ())})
(PEER,) = make_checks(**{"peer:NAME": partial(_check_peer, PeerSettings(name="name", url="http://localhost"))})
ALL_CHECKS = (*CHECKS, *PROCESS, PEER, CLIENT)  # every kind of check, as docs/capabilities.md lists them
