"""The commands for other memory servers: copies of the memories there, and whether these are up to date."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer

from scrimshaw.app.cli.frame import DryRun, Yes, command
from scrimshaw.app.cli.output import Lines, confirm, line, percent, progress
from scrimshaw.config import PeerSettings
from scrimshaw.engine import Engine, index
from scrimshaw.errors import ConfigError, NotFound, find_nearest
from scrimshaw.models import format_count
from scrimshaw.router.ask import SourceStatus, list_sources
from scrimshaw.router.sync import Freshness, PeerSync, compare_index

app = typer.Typer()
PeerName = Annotated[str, typer.Option("--peer", metavar="NAME", help="This peer; default: all with sync = true.")]
MOST_SHOWN = 20  # names of each kind, for people


def _find_peers(engine: Engine, name: str) -> list[PeerSettings]:
    """The peer of that name, or all that are synced; raises NotFound."""
    peers = engine.settings.peers
    if name and name not in (names := [peer.name for peer in peers]):
        known = f"There are {', '.join(names)}." if names else "[[peers]] in your configuration names them."
        raise NotFound(f"There is no peer {name!r}.", find_nearest(name, names) or known, parameter="peer")
    return [peer for peer in peers if (peer.name == name if name else peer.sync)]


def _render_sync(results: Sequence[PeerSync]) -> Lines:
    for each in results:
        counts = Counter(step.action for step in each.steps)
        verb = "to do" if each.dry_run else "done"
        what = ", ".join(f"{count} {action}" for action, count in sorted(counts.items())) or "nothing"
        yield line((each.peer, "bold"), f"  {each.in_sync} in sync; {verb}: {what}")
        for step in each.steps if each.dry_run else ():
            former = f" from {step.former_name}" if step.former_name else ""
            yield line(f"  {step.action:<8}", (step.name, "cyan"), former)
        for step in each.failed[:MOST_SHOWN]:
            yield line(("  failed  ", "bold red"), (step.name, "cyan"), f"  {step.reason}")
        if len(each.failed) > MOST_SHOWN:
            yield f"  and {len(each.failed) - MOST_SHOWN} more failed; --json names all"
        if each.fault:
            left = "" if each.left is None else f" Changes left for the next sync: {each.left}."
            yield line(("  stopped: ", "bold red"), each.fault, left)


def _highest(results: Sequence[Any]) -> int:
    return max((each.exit_code for each in results), default=0)


@command(app, "sync", "", "--peer forgetful --dry-run", render=_render_sync, fails=_highest)
def sync(
    engine: Engine,
    peer: PeerName = "",
    full: Annotated[bool, typer.Option("--full", help="Compare with the peer's list, not with what was sent.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> list[PeerSync]:
    """Bring copies of the memories at peers up to date.

    One way, from here to the peer. Exit code 1 if a peer refused some, 3 if one did not answer, 4 if it rejected the
    credentials.
    """
    if not (peers := _find_peers(engine, peer)):
        raise ConfigError("No peer is to be synced.", "Name one with --peer, or set sync = true in its [[peers]].")
    from scrimshaw.router.peer_copies import sync_peer  # noqa: PLC0415 - asyncio, for who has peers

    def approve(stated: PeerSettings, retired: int, total: int) -> None:
        confirm(f"Retire {retired} of {format_count(total, 'copy')} at {stated.name}?", yes)

    results = list[PeerSync]()
    for stated in peers:
        with progress(f"To {stated.name}") as advance:
            allow = partial(approve, stated)
            results.append(sync_peer(engine, stated, full=full, dry_run=dry_run, advance=advance, approve=allow))
    return results


def _render_freshness(found: Sequence[Freshness]) -> Lines:
    for each in found:
        if each.fault:
            yield line((each.name, "bold"), ("  not compared: ", "bold red"), each.fault)
            continue
        names = {kind: getattr(each, kind) for kind in ("stale", "missing", "orphaned")}
        counts = ", ".join(f"{len(ids)} {kind}" for kind, ids in names.items())
        yield line((each.name, "bold"), f"  {each.in_sync} in sync, {counts}; drift {percent(each.drift)}")
        for kind, ids in names.items():
            yield from (line(f"  {kind:<9}", (one, "cyan")) for one in ids[:MOST_SHOWN])
            if len(ids) > MOST_SHOWN:
                yield f"  and {len(ids) - MOST_SHOWN} more {kind}; --json names all"


@command(app, "freshness", "", "--peer forgetful", render=_render_freshness, fresh=False, fails=_highest)
def compare(engine: Engine, peer: PeerName = "") -> list[Freshness]:
    """Compare the index and the copies at peers with the files.

    Exit code 1 if they differ, 3 if a peer does not answer, 4 if it rejects the credentials.
    """
    from scrimshaw.router.peer_copies import compare_peer  # noqa: PLC0415 - asyncio, for who has peers

    peers = _find_peers(engine, peer)
    found = [] if peer else [compare_index(engine)]
    index.catch_up(engine)  # so that copies are compared with the current files
    return found + [compare_peer(engine, stated) for stated in peers]


def _render_status(found: Sequence[SourceStatus]) -> Lines:
    for each in found:
        what = {"folder": "memories", "journal": "passages of sessions", "peer": "copies"}[each.kind]
        took = "" if each.answered_ms is None else f", answered in {each.answered_ms:.0f} ms"
        synced = f", changed there {each.synced}" if each.synced else ""
        yield line((each.name, "bold"), f"  {what}: {each.memories}{took}{synced}  ", (each.place, "dim"))
        if each.fault:
            yield line(("  no answer: " if each.kind == "peer" else "  ", "bold red"), each.fault)


@command(app, "status", "", "--json", render=_render_status, fails=_highest, reads=True)
def show_status(engine: Engine) -> list[SourceStatus]:
    """List where a search reads from, and check that peers answer.

    Exit code 3 if a peer does not answer, 4 if it rejects the credentials.
    """
    return [*list_sources(engine)]
