"""`make e2e SHARED=DIR`: real clients work with this checkout's server, and what they leave is judged from outside.

The agent clients are driven by a scripted model, `DIR/clients/fakellm.py`. First the server alone: read a file, search,
save, finish. Then all that `scrimshaw setup` sets up: what is captured of a run, and what the next run is told of it,
also after a kill and after a compaction; and how a client works on when the installation is gone.
The official SDK's client needs no model. Exit code 1 when a client that is there fails; a missing one is only named.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from tests.e2e import clients, drive
from tests.e2e.agents import AGENTS
from tests.e2e.capture import Captured, captured
from tests.e2e.missing import stranded
from tests.e2e.next_session import KNOWN_GAPS, continued
from tests.e2e.processes import end_left_behind
from tests.e2e.traffic import read_traffic
from tests.e2e.vault import vault_problems
from tests.e2e.workspace import make_workspace
from tests.e2e.zero_touch import remembered

KEPT = Path(__file__).parents[2] / ".e2e"
"""Where the folders of failed runs go."""

USAGE = 2
COLUMN = 30
NAMES = 20
STEPS = {
    "capture": "set up, captured, told",
    "memory": "facts in the next session",
    "next": "killed, compacted, come back",
    "missing": "missing program, removed",
}

Judge = Callable[[Path], list[str]]
"""Lets a client work below a folder, prints its line, and says what was wrong."""


def main(arguments: Sequence[str]) -> int:
    """Run every client that is there and print a line for each; the exit code."""
    options = _options(arguments)
    model = options.shared / "clients" / "fakellm.py" if options.shared else None
    if model and not model.is_file():
        _print(f"There is no scripted model {model}; --shared names the folder that holds `clients/`.")
        return USAGE
    shutil.rmtree(KEPT, ignore_errors=True)
    lines = [line for line in _lines(model, options.clients) if fnmatch(line[0], options.only)]
    present = [(name, judge) for name, client, judge in lines if not client or _is_there(name, client, options.clients)]
    passed = {name: _passes(name, judge) for name, judge in present}
    _print_table(passed, options.clients)
    return 0 if all(passed.values()) else 1


def _print_table(passed: Mapping[str, bool], npm: Path) -> None:
    """What holds for which agent; a gap is told with its reason in the agent's line."""
    _print(f"\n{'':<{NAMES}}" + "".join(f"{title:<{COLUMN}}" for title in STEPS.values()))
    for agent in AGENTS:
        cells = {kind: passed.get(f"{kind}-{agent.name}") for kind in STEPS}
        words = {kind: "not run" if ok is None else "ok" if ok else "failed" for kind, ok in cells.items()}
        if cells["next"]:
            gaps = [line for name, line in KNOWN_GAPS if name == agent.name]
            words["next"] = f"ok but {', '.join(gaps)}" if gaps else "ok"
        client = agent.client("")
        release = "" if client.missing(npm) else client.version(npm)
        _print(f"{f'{agent.name} {release}':<{NAMES}}" + "".join(f"{word:<{COLUMN}}" for word in words.values()))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    npm = Path(os.environ.get("CLIENTS_NPM") or Path.home() / ".cache" / "agent-clients")
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.run", description="Real clients against the server.")
    parser.add_argument("--shared", type=Path, metavar="DIR", help="folder with clients/fakellm.py, the scripted model")
    parser.add_argument("--clients", type=Path, metavar="DIR", default=npm, help="npm folder (default: %(default)s)")
    parser.add_argument("--only", metavar="NAME", default="*", help="lines to run, such as 'next-*' (default: all)")
    return parser.parse_args(arguments)


def _lines(model: Path | None, npm: Path) -> Iterator[tuple[str, clients.Client | None, Judge]]:
    """All that can be run, with the client that has to be there for it."""
    yield "sdk-modern", None, partial(_judge, "sdk-modern", drive.sdk_client("auto"))
    yield "sdk-legacy", None, partial(_judge, "sdk-legacy", drive.sdk_client("legacy"))
    if model is None:
        _print("The agent clients are not run: they need the scripted model; give --shared DIR (make: SHARED=DIR)")
        return
    for client in clients.CLIENTS:
        yield client.name, client, partial(_judge, client.name, drive.agent(client, npm, model))
    for kind, judge in {"capture": captured, "memory": remembered, "next": continued, "missing": stranded}.items():
        for agent in AGENTS:
            name = f"{kind}-{agent.name}"
            yield name, agent.client(""), partial(_judge_capture, name, partial(judge, agent, npm, model))


def _is_there(name: str, client: clients.Client, npm: Path) -> bool:
    missing = client.missing(npm)
    if missing:
        _print(f"{name:<16}  not run: {missing}")
    return not missing


def _passes(name: str, judge: Judge) -> bool:
    """Let a client work in a folder of its own; the folder is kept when something was wrong."""
    with tempfile.TemporaryDirectory(prefix="scrimshaw-e2e-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch).resolve() / "run"
        folder.mkdir()
        problems = judge(folder)
        if problems:
            shutil.copytree(folder, KEPT / name, symlinks=True)
            problems.append(f"see {KEPT / name}")
    for problem in problems:
        _print(f"                  {problem}")
    return not problems


def _judge(name: str, client: drive.Drive, folder: Path) -> list[str]:
    """A Judge of what a client and the server say to each other."""
    workspace = make_workspace(folder / "workspace")
    began = time.monotonic()
    driven = client(workspace)
    seconds = time.monotonic() - began
    left_behind = [f"it left a process behind: {command}" for command in end_left_behind(workspace.root)]
    traffic = read_traffic(workspace.traffic)
    problems = [*driven.problems, *traffic.problems(), *left_behind, *vault_problems(workspace, driven.saved_id)]
    verdict, tools = "failed" if problems else "ok", ", ".join(driven.tools)
    startup = f"{traffic.startup_s:.1f} s to first answer"
    _print(f"{name:<16}  {verdict:<6}  {seconds:5.1f} s  {startup}  {traffic.era():<29}  {tools}  [{driven.client}]")
    return problems


def _judge_capture(name: str, capture: Callable[[Path], Captured], folder: Path) -> list[str]:
    """A Judge of what is kept of a client's work."""
    began = time.monotonic()
    try:
        result = capture(folder)
    except subprocess.CalledProcessError as error:
        result = Captured("setup failed", [str(error)])
    verdict = "failed" if result.problems else "ok"
    _print(f"{name:<16}  {verdict:<6}  {time.monotonic() - began:5.1f} s  {result.line}")
    return list(result.problems)


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
