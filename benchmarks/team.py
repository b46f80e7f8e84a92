"""Many people on one server: real clients of the MCP SDK over HTTP, each with a token of one of two vaults.

    python -m benchmarks.team [--clients 64] [--minutes 5] [--engine sqlite|postgres] [--memories 300] [--pause 0]
        [--data DIR] [--url URL]

A client waits for its answer before it asks again; in nine of ten calls it reads (it searches mostly, for what stands
in the other vault as often as for what stands in its own), in one of ten it saves. Every title of a vault has a word
that nobody asks for: where an answer has the other vault's word, it crossed. Half of the clients speak the older era of
the protocol. The server runs as for a team, by the command line, on SQLite or on a PostgreSQL server, which is started
unless --url names one; it has every vector before the clients begin, and makes those of what they save. In the end each
save that was acknowledged is looked for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import resource
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from msgspec import Struct

from benchmarks import corpus
from benchmarks.figures import machine
from benchmarks.postgres_scale import start_postgres
from scrimshaw.app.http.tokens import TokenFile, TokenScope
from scrimshaw_lab.metrics import percentile

VAULTS = ("shop", "billing")
# Of a hundred calls; the others save.
READS = {"memory_search": 60, "memory_context": 15, "memory_get": 10, "memory_list": 5}
SAVES = "memory_save"
PATIENCE_S = 120.0  # for one answer: what takes longer is an error
START_S = 1800.0  # for all vectors of a new memory, on a busy machine
SERVE = (sys.executable, "-c", "from scrimshaw.app.cli import run; run()", "serve", "--http", "--port", "0",
         "--toolsets", "all")  # fmt: skip


class Vault(NamedTuple):
    """A project that is served, the word in all its titles, and what can be asked about it."""

    name: str
    folder: Path
    mark: str
    ids: Sequence[str]
    questions: Sequence[str]


class Calls(Struct):
    """What the clients saw: milliseconds by tool, ids saved by vault, errors and crossings by what they said."""

    ms: dict[str, list[float]] = {}
    saved: dict[str, list[str]] = {}
    errors: Counter[str] = Counter()
    crossings: Counter[str] = Counter()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; exit code 1 after an error, a crossing or a lost save."""
    given = _parse(arguments)
    print(json.dumps(machine()))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="scrimshaw-team-"))).resolve()
        if given.engine == "postgres" and not given.url:
            given.url, _ = stack.enter_context(start_postgres(folder))
        vaults = [_write_vault(folder, name, given) for name in VAULTS]
        calls = Calls(ms={}, saved={}, errors=Counter(), crossings=Counter())
        with _serve(folder, given) as (pid, url):
            secrets_ = _create_tokens(folder / "home", vaults, given.clients)
            _await_vectors(url, secrets_)
            server, own = _cpu_seconds(pid), resource.getrusage(resource.RUSAGE_SELF).ru_utime
            began = time.monotonic()
            asyncio.run(_ask_all(url, vaults, secrets_, given, calls))
            seconds = time.monotonic() - began
            cpu = _cpu_seconds(pid) - server, resource.getrusage(resource.RUSAGE_SELF).ru_utime - own
            size = _resident_mb(pid)
            lost = asyncio.run(_find_lost(url, vaults, secrets_, calls))
    _print(given, calls, seconds, cpu, size, lost)
    raise SystemExit(1 if calls.errors or calls.crossings or lost else 0)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.team", description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--engine", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--memories", type=int, default=300, help="in each vault")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds on average between two calls of a client")
    parser.add_argument("--data", type=Path, default=corpus.EXAMPLES, help="a folder of Markdown files")
    parser.add_argument("--url", default="", help="of a PostgreSQL server; else one is started")
    return parser.parse_args(arguments)


def _write_vault(folder: Path, name: str, given: argparse.Namespace) -> Vault:
    """A project of made-up memories with the vault's word in their titles, named in the server's configuration."""
    texts, mark, project = corpus.read_texts(given.data), f"{name}-{secrets.token_hex(6)}", folder / name
    chance, ids = random.Random(name), [f"{name}/memory-{number:04}" for number in range(given.memories)]
    for number, memory_id in enumerate(ids):
        path = project / ".scrimshaw" / "memories" / f"{memory_id}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_mark(corpus.made_up(texts, chance, number), mark), encoding="utf-8")
    (project / ".scrimshaw" / "config.toml").write_text(f'[storage]\nvault = "bench_{name}"\n')
    config = folder / "home" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    with config.open("a") as file:
        file.write(f'[[vaults]]\nname = "{name}"\npath = "{project.as_posix()}"\n')
    return Vault(name, project, mark, ids, corpus.questions(texts, 1000, seed=len(name)))


def _mark(text: str, mark: str) -> str:
    return text.replace("\n", f" {mark}\n", 1)


@contextmanager
def _serve(folder: Path, given: argparse.Namespace) -> Iterator[tuple[int, str]]:
    """A server process of the vaults: its number and its address."""
    environment = {**os.environ, "SCRIMSHAW_HOME": str(folder / "home"), "SCRIMSHAW_STORAGE_ENGINE": given.engine}
    environment |= {"SCRIMSHAW_STORAGE_URL": given.url} if given.url else {}
    log = folder / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(SERVE, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stderr=output)
    try:
        while not (found := re.search(r"http://\S+(?=/mcp)", log.read_text())):
            if process.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.05)
        yield process.pid, found[0]
    finally:
        process.terminate()
        process.wait()
        print(*log.read_text().splitlines()[1:11], sep="\n")


def _create_tokens(home: Path, vaults: Sequence[Vault], clients: int) -> list[str]:
    """A token for each client, of one vault after the other."""
    tokens, chosen = TokenFile(home), [vaults[number % len(vaults)] for number in range(clients)]
    return [
        tokens.create(f"client-{number}", {str(vault.folder): TokenScope.WRITE}, 1.0)[1]
        for number, vault in enumerate(chosen)
    ]


def _await_vectors(url: str, tokens: Sequence[str]) -> None:
    """Wait until every vault is open and has a vector for all there is."""
    end = time.monotonic() + START_S
    for secret in tokens[: len(VAULTS)]:
        while True:
            text = httpx2.get(f"{url}/metrics", headers=_identify(secret), timeout=PATIENCE_S).text
            gauges = dict(re.findall(r"^scrimshaw_(chunks|vectors)\{.*\} (\d+)$", text, re.MULTILINE))
            if gauges.get("chunks", "0") == gauges.get("vectors") != "0":
                break
            if time.monotonic() > end:
                raise SystemExit(f"The server still makes vectors after {START_S:g} s: {gauges}")
            time.sleep(1)


async def _ask_all(
    url: str, vaults: Sequence[Vault], tokens: Sequence[str], given: argparse.Namespace, calls: Calls
) -> None:
    end, work = time.monotonic() + given.minutes * 60, []
    for number, secret in enumerate(tokens):
        own = number % len(vaults)
        mode = "auto" if number % 4 < 2 else "legacy"
        work.append(_be_client(url, secret, mode, vaults[own], vaults[1 - own], given, end, calls))
    await asyncio.gather(*work)


@contextmanager
def _count_errors(calls: Calls) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever a client meets is counted
        calls.errors[f"{type(error).__name__}: {str(error)[:200]}"] += 1


async def _be_client(
    url: str, secret: str, mode: Any, own: Vault, other: Vault, given: argparse.Namespace, end: float, calls: Calls
) -> None:
    """One client: it asks, looks at the answer, and asks again until the end."""
    chance, texts = random.Random(), corpus.read_texts(given.data)
    tools, shares = [*READS, SAVES], [*READS.values(), 100 - sum(READS.values())]
    with _count_errors(calls):
        async with httpx2.AsyncClient(headers=_identify(secret), timeout=PATIENCE_S) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                while time.monotonic() < end:
                    tool = chance.choices(tools, shares)[0]
                    arguments = _choose_arguments(tool, chance, own, other, texts)
                    began = time.perf_counter()
                    with _count_errors(calls):
                        reply = await client.call_tool(tool, arguments)
                        calls.ms.setdefault(tool, []).append((time.perf_counter() - began) * 1000)
                        _judge(tool, arguments, reply, own, other, calls)
                    if given.pause:
                        await asyncio.sleep(chance.expovariate(1 / given.pause))


def _choose_arguments(
    tool: str, chance: random.Random, own: Vault, other: Vault, texts: corpus.Texts
) -> dict[str, object]:
    about = chance.choice((own, other))
    if tool == SAVES:
        return {"content": _mark(corpus.made_up(texts, chance, chance.getrandbits(40)), own.mark), "force": True}
    if tool == "memory_get":
        return {"id": chance.choice(about.ids)}
    if tool == "memory_list":
        return {"folder": about.name, "limit": 20}
    return {"query": chance.choice(about.questions)}


def _judge(tool: str, arguments: dict[str, object], reply: Any, own: Vault, other: Vault, calls: Calls) -> None:
    """Count an answer that is an error or tells of the other vault; note what was saved."""
    answer = reply.structured_content or {}
    error = answer.get("error", {}).get("code", "error" if reply.is_error else "")
    is_elsewhere = arguments.get("id", "") in other.ids
    if error != ("not_found" if is_elsewhere else ""):
        calls.errors[f"{tool}: {answer.get('error', str(reply)[:200])}"] += 1
    if other.mark in str(reply):
        calls.crossings[tool] += 1
    if tool == SAVES and not error:
        calls.saved.setdefault(own.name, []).append(answer["id"])


async def _find_lost(url: str, vaults: Sequence[Vault], tokens: Sequence[str], calls: Calls) -> list[str]:
    """The acknowledged saves that are no file, or that the server does not list."""
    lost = list[str]()
    for vault, secret in zip(vaults, tokens, strict=False):
        listed, offset = set[str](), 0
        async with (
            httpx2.AsyncClient(headers=_identify(secret), timeout=PATIENCE_S) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            while True:
                reply = await client.call_tool("memory_list", {"limit": 100, "offset": offset})
                page: Any = (reply.structured_content or {})["memories"]
                listed.update(each["id"] for each in page)
                offset += len(page)
                if not page:
                    break
        files = vault.folder / ".scrimshaw" / "memories"
        lost += [
            each
            for each in calls.saved.get(vault.name, ())
            if each not in listed or not (files / f"{each}.md").is_file()
        ]
    return lost


def _identify(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    found = re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def _print(
    given: argparse.Namespace,
    calls: Calls,
    seconds: float,
    cpu: tuple[float, float],
    size: float,
    lost: Sequence[str],
) -> None:
    count = sum(map(len, calls.ms.values()))
    print(f"{given.engine}: {given.clients} clients, {seconds:.0f} s, pause {given.pause:g} s")
    print(f"{count} requests, {count / seconds:.1f} a second; {sum(calls.errors.values())} errors, "
          f"{sum(calls.crossings.values())} crossings, {sum(map(len, calls.saved.values()))} saves acknowledged, "
          f"{len(lost)} lost")  # fmt: skip
    print(f"CPU ms a request: server {1000 * cpu[0] / max(1, count):.1f}, clients {1000 * cpu[1] / max(1, count):.1f}; "
          f"server {size:.0f} MB")  # fmt: skip
    reads = [ms for tool, taken in calls.ms.items() if tool != SAVES for ms in taken]
    rows = {"reads": reads, "writes": calls.ms.get(SAVES, []), **{tool: calls.ms.get(tool, []) for tool in READS}}
    for name, taken in rows.items():
        if taken:
            p50, p95, p99 = (percentile(taken, share) for share in (0.5, 0.95, 0.99))
            print(f"{name:16}{len(taken):8,}  p50 {p50:8,.0f}  p95 {p95:8,.0f}  p99 {p99:8,.0f} ms")
    for text, times in [*calls.errors.most_common(10), *calls.crossings.most_common()]:
        print(f"  {times} x {text}")


if __name__ == "__main__":
    main()
