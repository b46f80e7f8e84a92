"""The real Serena on one folder with Scrimshaw, and a real Forgetful beside them.

Run `make e2e-router`. The first run installs Serena into `.bench/serena` through pip. It runs as a process of its own
and is asked over MCP as an agent asks it; nothing of it is imported.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.e2e.router import FOREIGN, Forgetful, check, install
from tests.interleaving import ACTS, LAW, SETTINGS, Act, Interleaving

from scrimshaw.config import load
from scrimshaw.engine import Engine, index, open_engine
from scrimshaw.engine.read import get
from scrimshaw.engine.write import NewText, delete, save, update
from scrimshaw.errors import ReadOnly
from scrimshaw.router import ask
from scrimshaw.router.peers import close_peers
from scrimshaw.search.results import SearchRequest

PLACE = Path(".bench/serena").absolute()
VERSION = "2.1.0"
CLOSED = ("rules/tabs", "global/tabs")
MIXTURES, LENGTH, SEED = 25, 14, 17
HEADLESS = (
    "start-mcp-server", "--context", "claude-code", "--agent-interface", "tools",
    "--enable-web-dashboard", "false", "--open-web-dashboard", "false",
)  # fmt: skip


def install_serena() -> None:
    """Make the virtual environment that Serena runs in."""
    if (PLACE / "ready").exists():
        return
    shutil.rmtree(PLACE, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
    pip = [str(PLACE / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", f"serena-agent=={VERSION}"], check=True)
    (PLACE / "ready").touch()


class Serena:
    """Serena's tools for memories, asked over MCP."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal, self._client = portal, client

    def ask(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        """What a tool answers, and whether it refuses."""
        answer = self._portal.call(self._client.call_tool, tool, arguments)
        text = "".join(block.text for block in answer.content if block.type == "text")
        return text, bool(answer.is_error) or text.startswith("Error")

    def write(self, name: str, content: str) -> None:
        self._do("write_memory", memory_name=name, content=content)

    def rename(self, old: str, new: str) -> None:
        self._do("rename_memory", old_name=old, new_name=new)

    def delete(self, name: str) -> None:
        self._do("delete_memory", memory_name=name)

    def read(self, name: str) -> str:
        return self._do("read_memory", memory_name=name)

    def _do(self, tool: str, **arguments: Any) -> str:
        text, refused = self.ask(tool, **arguments)
        if refused:
            raise SystemExit(f"Serena's {tool} refuses {arguments}: {text}")
        return text


@contextmanager
def start_serena(project: Path, home: Path) -> Iterator[Serena]:
    """A Serena for a project, headless, that tells nobody and looks for no language server."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SERENA_HOME": str(home / ".serena"),
        "SERENA_USAGE_REPORTING": "false",
    }
    command = StdioServerParameters(
        command=str(PLACE / "bin/serena"), args=[*HEADLESS, "--project", str(project)], env=environment
    )
    with (
        (home / "serena.log").open("a") as log,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(stdio_client(command, log))) as client,
    ):
        yield Serena(portal, client)


@contextmanager
def open_project(folder: Path, peer: str = "") -> Iterator[Engine]:
    """A project that only Serena has memories of, with a peer in the user's configuration."""
    project, home = folder / "project", folder / "home"
    for path in (project / ".serena/memories", project / ".scrimshaw/memories", home / ".serena/memories/global"):
        path.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    (project / ".serena/project.yml").write_text(f"project_name: project\n{SETTINGS}")
    (home / "config.toml").write_text(f"[embedding]\nprovider = 'none'\n{peer}")
    with open_engine(load(project, home=home)) as engine:
        yield engine


def find(engine: Engine, query: str) -> list[str]:
    """The ids that a search finds at once, as an agent's search does: after a look at the files."""
    index.scan(engine)
    return [hit.memory.id for hit in ask.search(engine, SearchRequest(query=query, min_confidence=0)).hits]


def check_both_ways(engine: Engine, serena: Serena, folder: Path) -> None:
    """What either writes, changes, renames and deletes is so for the other at once."""
    serena.write("deploy/rollback", "# Rolling back\n\nThe symlink goes to the release before.\n")
    serena.write("deploy/canary", "# Canary\n\nOne host in twenty goes first. See `mem:deploy/rollback`.\n")
    check("deploy/rollback" in find(engine, "symlink release before"), "what Serena wrote is found")
    serena.ask("edit_memory", memory_name="deploy/rollback", needle="symlink", repl="pointer", mode="literal")
    check("deploy/rollback" in find(engine, "pointer"), "what Serena changed is found as it is now")
    check("deploy/rollback" not in find(engine, "symlink"), "and no more as it was")
    serena.rename("deploy/rollback", "release/undo")
    check(find(engine, "pointer release")[:1] == ["release/undo"], "what Serena renamed has its new name")
    meant = [name for _, name in engine.index.edges("deploy/canary")]
    check(meant == ["release/undo"], "a reference follows", meant)
    check(get(engine, "mem:deploy/rollback").memory.id == "release/undo", "the older name is still a name of it")
    serena.delete("deploy/canary")
    check("deploy/canary" not in find(engine, "host in twenty goes first"), "what Serena deleted is gone")

    text = "# Pool\n\nMore than forty connections are slow. See `mem:release/undo`.\n"
    saved = save(engine, NewText(content=text, id="db/pool", vault="serena"))
    check(saved.path == str(folder / "db/pool.md"), "a save goes into Serena's folder", saved.path)
    check(serena.read("db/pool") == text, "Serena reads it as it was given")
    listed, _ = serena.ask("list_memories")
    check('"db/pool"' in listed, "Serena lists it", listed.strip())
    update(engine, "db/pool", {}, content=text.replace("forty", "fifty"))
    check(serena.read("db/pool") == text.replace("forty", "fifty"), "Serena reads the change")
    serena.rename("release/undo", "release/back")
    check("mem:release/back" in get(engine, "db/pool").body, "Serena's rename rewrites the reference in ours")
    delete(engine, ["db/pool"])
    check(serena.ask("read_memory", memory_name="db/pool")[1], "what was deleted here is gone for Serena")


def is_refused(write: Callable[[], object]) -> bool:
    """Whether what would write says that it may not."""
    try:
        write()
    except ReadOnly:
        return True
    return False


def check_rules(engine: Engine, serena: Serena, folder: Path) -> None:
    """What Serena's settings close is closed here too, and its memories for all projects are read."""
    (folder / "rules").mkdir()
    (folder / f"{LAW}.md").write_text("Indent by four.\n")
    check(serena.ask("write_memory", memory_name=LAW, content="Tabs.")[1], "Serena does not write a closed name")
    index.scan(engine)
    tabs = "# Tabs\n\nTabs.\n"
    refused = [
        is_refused(partial(update, engine, LAW, {}, content=tabs)),
        *(is_refused(partial(save, engine, NewText(content=tabs, id=id, vault="serena"))) for id in CLOSED),
    ]
    check(all(refused), "nor does Scrimshaw, nor a name that is for all projects")
    check((folder / f"{LAW}.md").read_text() == "Indent by four.\n", "and the file is as it was")
    save(engine, NewText(content="# Long\n\n" + "word " * 29_990, id="long", vault="serena"), force=True)
    check(not serena.ask("write_memory", memory_name="long", content="word " * 29_990)[1], "as long as Serena allows")
    check(serena.ask("write_memory", memory_name="longer", content="word " * 30_001)[1], "and no longer, it says too")
    serena.delete("long")


def make_acts(chance: random.Random) -> Sequence[Act]:
    return [(chance.choice(ACTS), chance.randrange(8), chance.randrange(8)) for _ in range(LENGTH)]


def check_mixtures(engine: Engine, serena: Serena, folder: Path) -> None:
    """Serena's tools, ours and a person's hand in any order: no reference is lost, nothing closed is written."""
    chance = random.Random(SEED)
    for number in range(MIXTURES):
        shutil.rmtree(folder)
        folder.mkdir()
        index.scan(engine)
        acts = make_acts(chance)
        Interleaving(engine, folder, serena, prefix=f"m{number}").carry_out(acts)
    check(True, "no mixture loses a reference", f"{MIXTURES} of {LENGTH} acts each, seed {SEED}")


def main() -> int:
    """Install what is missing, and look at everything."""
    install()
    install_serena()
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        peer = Forgetful(top)
        try:
            peer.start()
            asyncio.run(peer.keep(FOREIGN))
            stated = f"\n[[peers]]\nname = 'forgetful'\nkind = 'forgetful'\nurl = '{peer.url}'\n"
            with (
                open_project(top, stated) as engine,
                start_serena(engine.settings.project, engine.settings.home) as serena,
            ):
                folder = engine.settings.project / ".serena/memories"
                check_both_ways(engine, serena, folder)
                check_rules(engine, serena, folder)
                request = SearchRequest(query="who is called at night when something breaks", min_confidence=0)
                found = ask.search(engine, request, wait_s=60.0)
                check("Night shift" in [hit.title for hit in found.peers], "Forgetful adds to it", found.sources)
                began = time.perf_counter()
                check_mixtures(engine, serena, folder)
                check(True, "the mixtures took", f"{time.perf_counter() - began:.0f} s")
        finally:
            peer.stop(signal.SIGTERM)
        close_peers(10)
    return 0


if __name__ == "__main__":
    sys.exit(main())
