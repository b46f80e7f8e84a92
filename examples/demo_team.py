"""What `make demo-team` shows: two repositories, two people, one server, and each is told only what is theirs.

The server is `scrimshaw serve --http`, the tokens are those of `scrimshaw token create`, and the agents are the MCP
SDK's own client; all else is git and the command line that users have.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from rich.console import Console
from rich.padding import Padding

ROOT = Path(__file__).parent.parent / ".demo-team"
HOME, LOG = ROOT / "home", ROOT / "server.log"
ANA, BO = "ana@example.org", "bo@example.org"
PATIENCE_S = 60.0
QUESTION = "How often is a failed card payment retried?"
NOTES = {
    "shop/checkout/retries": "# Retries at checkout\nThe shop retries a failed card payment once, after two seconds, "
    "and then shows the page for another card.\n",
    "shop/checkout/carts": "# Carts\nA cart is kept for thirty days, also of a guest, under a cookie of its own.\n",
    "shop/checkout/layoff": "---\nvisibility: private\n---\n# Card terminals\nA failed card payment is retried by "
    "hand; the terminal team will be told on Friday that it is dissolved.\n",
    "billing/invoices/retries": "# Retries of direct debits\nBilling retries a failed card payment on three days in "
    "a row, at six in the morning, before an invoice is overdue.\n",
    "billing/invoices/rounding": "# Rounding\nAmounts are counted in Decimal and rounded half up, "
    "once for each invoice.\n",
}
LEARNED = "Since the bank's limit of May, a failed card payment is retried on two days only, Monday and Wednesday."

console = Console(highlight=False)


def main() -> None:
    """Make two repositories, serve them, and let two people ask the same."""
    began = time.monotonic()
    shutil.rmtree(ROOT, ignore_errors=True)
    HOME.mkdir(parents=True)
    for name, text in NOTES.items():
        vault, _, memory = name.partition("/")
        path = ROOT / vault / ".scrimshaw/memories" / f"{memory}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for vault in ("shop", "billing"):
        _run("git", "init", "--quiet", "-b", "main", cwd=ROOT / vault)
        _run("scrimshaw", "init", "--no-import", cwd=ROOT / vault)
        _commit(ROOT / vault, "Begin")
    vaults = [
        f'[[vaults]]\nname = "{name}"\npath = "{(ROOT / name).as_posix()}"\ncommit = true\n'
        for name in ("shop", "billing")
    ]
    (HOME / ".scrimshaw").mkdir(exist_ok=True)
    (HOME / ".scrimshaw/config.toml").write_text("\n".join(vaults), encoding="utf-8")

    _say("Two repositories, shop and billing, each with its memories. Ana works in both, Bo in billing:")
    secrets = {
        ANA: _run("scrimshaw", "token", "create", ANA, "--scope", "write", "--json"),
        BO: _run("scrimshaw", "token", "create", BO, "--scope", "read", "--vault", "billing", "--json"),
    }
    tokens = {name: str(json.loads(answer)["token"]) for name, answer in secrets.items()}
    _show(*(f"{name}: {json.loads(answer)['scopes']}" for name, answer in secrets.items()))
    with _serve() as address:
        _say(f"One server has both: {address}. Ana's agent asks it: {QUESTION}")
        _show(*_search(address, tokens[ANA], 2))
        _say("Bo's agent asks the same:")
        _show(*_search(address, tokens[BO], 1))
        _say("Bo's agent asks for the shop's memory by its id, and for one that does not exist. The answers are alike:")
        _show(*(_call(address, tokens[BO], "memory_get", id=each)["error"]["message"] for each in (
            "shop:checkout/retries", "nowhere:checkout/retries",
        )))  # fmt: skip
        _say("The shop has a note that says `visibility: private`. Ana's agent, who may enter the shop, asks for it:")
        _show(_call(address, tokens[ANA], "memory_get", id="shop:checkout/layoff")["error"]["message"])

        _say("Bo cloned billing before lunch. Meanwhile Ana's agent saves what it learned, and the server commits it:")
        _run("git", "clone", "--quiet", str(ROOT / "billing"), "bo", cwd=ROOT)
        _run("git", "config", "user.email", BO, cwd=ROOT / "bo")
        saved = _call(address, tokens[ANA], "memory_save", vault="billing", content=LEARNED, title="Retries since May")
        _show(saved["id"], _run("git", "log", "-1", "--format=%h  %an  %s", cwd=ROOT / "billing"))
        _say("Bo pulls. `scrimshaw digest` says what others did:")
        _run("git", "pull", "--quiet", cwd=ROOT / "bo")
        _show(_run("scrimshaw", "digest", "--since", "1h", cwd=ROOT / "bo"))
    _say(f"That took {time.monotonic() - began:.0f} seconds. To serve memories of your own:")
    _show("scrimshaw token create NAME --scope write && scrimshaw serve --http", f"The demo's files stay in {ROOT}.")


@contextmanager
def _serve() -> Iterator[str]:
    """A server of all vaults, once it is ready; its address."""
    with LOG.open("wb") as log:
        command = [_find_program("scrimshaw"), "serve", "--http", "--port", "0"]
        server = subprocess.Popen(
            command, cwd=ROOT / "shop", env=_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            yield _await_ready(server)
        finally:
            server.terminate()
            server.wait()


def _await_ready(server: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and server.poll() is None:
        if found := re.search(r"(http://\S+)/mcp", LOG.read_text(encoding="utf-8")):
            try:
                with urlopen(f"{found[1]}/readyz"):
                    return f"{found[1]}/mcp"
            except URLError:  # not yet
                pass
        time.sleep(0.1)
    raise SystemExit(f"The server did not start:\n{LOG.read_text(encoding='utf-8')}")


def _search(address: str, token: str, limit: int) -> list[str]:
    """The hits of a search, a line each."""
    reply = _call(address, token, "memory_search", query=QUESTION, limit=limit)
    return [f"{hit['id']}: {' '.join(hit['text'].split())}" for hit in reply["hits"]]


def _call(address: str, token: str, tool: str, **arguments: str | int) -> Mapping[str, Any]:
    """What a tool answers the MCP SDK's client."""

    async def ask() -> Mapping[str, Any]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            return (await client.call_tool(tool, arguments)).structured_content or {}

    return asyncio.run(ask())


def _commit(folder: Path, message: str) -> None:
    _run("git", "add", "--all", cwd=folder)
    author = ("-c", f"user.name={ANA}", "-c", f"user.email={ANA}", "-c", "commit.gpgSign=false")
    _run(
        "git", *author, "commit", "--quiet", "--message", message, cwd=folder, GIT_COMMITTER_DATE="2026-01-05T09:00:00Z"
    )


def _run(program: str, *arguments: str, cwd: Path = ROOT / "shop", **environment: str) -> str:
    """What a program prints, with a home of its own."""
    command, environment = [_find_program(program), *arguments], {**_environment(), **environment}
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr}")
    return done.stdout


def _find_program(name: str) -> str:
    """A program of this installation, else that of the system."""
    own = Path(sys.executable).with_name(name)
    return str(own) if own.exists() else name


def _environment() -> dict[str, str]:
    return {**os.environ, "HOME": str(HOME), "USERPROFILE": str(HOME), "COLUMNS": "116"}


def _say(text: str) -> None:
    console.print(f"\n[bold cyan]{text}[/]")


def _show(*texts: str) -> None:
    for text in texts:
        console.print(Padding(text.strip(), (0, 0, 0, 2)), markup=False)


if __name__ == "__main__":
    main()
