"""Copies in a real Forgetful: made, changed, renamed, retired, compared, and Forgetful killed in the middle of a sync.

Run `make e2e-router`, which installs Forgetful where `tests/e2e/router.py` says.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from tests.e2e.router import CHECK_S, FOREIGN, NOTES, Forgetful, check, install, open_project

from scrimshaw.engine import Engine, index
from scrimshaw.models import Filters
from scrimshaw.router import ask
from scrimshaw.router.peer_copies import compare_peer, sync_peer
from scrimshaw.router.peers import close_peers
from scrimshaw.router.sync import PeerSync
from scrimshaw.search.results import SearchRequest

MANY = 40


def sync(engine: Engine, **options: Any) -> tuple[PeerSync, list[tuple[str, str]]]:
    """What a sync did, and its steps by action and name."""
    index.scan(engine)
    result = sync_peer(engine, engine.settings.peers[0], **options)
    return result, sorted((step.action, step.name) for step in result.steps)


def check_fresh(engine: Engine, what: str) -> None:
    """Compare by what Forgetful itself lists."""
    found = compare_peer(engine, engine.settings.peers[0])
    check(
        found.exit_code == 0, f"freshness {what}", f"{found.in_sync} in sync {found.stale}{found.missing}{found.fault}"
    )


def list_titles(peer: Forgetful) -> list[str]:
    """The titles of all memories that are not obsolete, whoever made them."""

    async def ask() -> list[str]:
        async with Client(peer.url) as client:
            arguments = {"tool_name": "get_recent_memories", "arguments": {"limit": 100}}
            answer = await client.call_tool("execute_forgetful_tool", arguments)
            content: Any = answer.structured_content
            return [each["title"] for each in content.get("result", content)["memories"]]

    return sorted(asyncio.run(ask()))


def check_life(engine: Engine, vault: Path, peer: Forgetful) -> None:
    """A memory's whole life, followed by its copy."""
    result, steps = sync(engine)
    check(steps == [("create", name) for name in sorted(NOTES)], "created", result.fault or result.failed)
    check_fresh(engine, "after the first sync")
    check(sync(engine)[1] == [], "nothing to do the second time")
    check(sync(engine, full=True)[1] == [], "nor in full")
    (vault / "db/pooling.md").write_text("A pool shares the connections, at most fifty of them.\n\n    indented: yes\n")
    (vault / "web/login.md").rename(vault / "web/entering.md")
    (vault / "deploy/canary.md").unlink()
    long = "\n\n".join(f"Step {number}: look at the dashboard, and wait for a minute." for number in range(90))
    (vault / "long.md").write_text(long)
    wanted = [("create", "long"), ("rename", "web/entering"), ("retire", "deploy/canary"), ("update", "db/pooling")]
    result, steps = sync(engine)
    check(steps == wanted, "created, renamed, retired and changed", result.fault or result.failed or steps)
    check_fresh(engine, "after changes")
    names = [memory.id for memory in engine.index.select(Filters())]
    check(list_titles(peer) == sorted([*names, *FOREIGN]), "it lists these and its own", list_titles(peer))


def check_two_projects(engine: Engine, second: Engine) -> None:
    """Another project with the same ids keeps its own copies there, and each is shown what is the other's."""
    name = "db/backups"
    (second.settings.folder / f"memories/{name}.md").write_text("Here tapes are carried to the bank on Fridays.\n")
    result, steps = sync(second)
    check(not result.exit_code and len(steps) == len(NOTES), "a second project with the same ids", result.fault)
    check(sync(engine, full=True)[1] == [], "nothing of it is taken for the first one's")
    for each, what in ((engine, "the first"), (second, "the second")):
        check_fresh(each, f"of {what}")
    found = ask.search(engine, SearchRequest(query="tapes carried to the bank", min_confidence=0), wait_s=60.0)
    told = [hit for hit in found.peers if hit.title == name]
    check([hit.id[:5] for hit in told] == ["peer:"], "what the second one says is told beside", [*told])
    for path in (second.settings.folder / "memories").rglob("*.md"):
        path.unlink()
    check(len(sync(second)[1]) == len(NOTES), "its copies are retired")
    check_fresh(engine, "of the first, without the second")


def check_death(engine: Engine, vault: Path, peer: Forgetful) -> None:
    """Forgetful killed while it makes copies, and back."""
    for number in range(MANY):
        (vault / f"many-{number}.md").write_text(f"Number {number} of many notes, about machine {number * 7}.\n")
    killer = threading.Timer(3.0, peer.stop)
    killer.start()
    result, steps = sync(engine)
    killer.join()
    check(result.exit_code == 3 and 0 < len(steps) < MANY, "killed in the middle", f"{len(steps)} done: {result.fault}")
    result, _ = sync(engine)
    check(result.exit_code == 3, "dead", result.fault)
    peer.start()
    time.sleep(CHECK_S + 0.5)
    result, steps = sync(engine)
    check(result.is_full and not result.exit_code, "back", f"{len(steps)} more, {result.in_sync} were there")
    check_fresh(engine, "after its death")
    titles = list_titles(peer)
    check(len(set(titles)) == len(titles), "nothing is there twice", len(titles))


def main() -> int:
    """Install what is missing, and look at everything."""
    install()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = Forgetful(folder)
        try:
            peer.start()
            asyncio.run(peer.keep(FOREIGN))
            stated = f"name = 'forgetful'\nurl = '{peer.url}'\n"
            with open_project(folder, stated) as engine:
                vault = engine.settings.folder / "memories"
                check_life(engine, vault, peer)
                with open_project(folder / "second", stated) as second:
                    check_two_projects(engine, second)
                check_death(engine, vault, peer)
        finally:
            peer.stop(signal.SIGTERM)
        close_peers(10)
    return 0


if __name__ == "__main__":
    sys.exit(main())
