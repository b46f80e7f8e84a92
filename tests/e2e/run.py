"""`make e2e SHARED=DIR`: real clients work with this checkout's server, and what they leave is judged from outside.

Claude Code and Codex are driven by a scripted model, `DIR/clients/fakellm.py`: read a file, search, save, finish.
The official SDK's client needs neither. Exit code 1 when a client that is there fails; a missing one is only named.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.e2e import clients, drive
from tests.e2e.processes import end_left_behind
from tests.e2e.traffic import read_traffic
from tests.e2e.vault import vault_problems
from tests.e2e.workspace import Workspace, make_workspace

KEPT = Path(__file__).parents[2] / ".e2e"
"""Where the folders of failed runs go."""

USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Run every client that is there and print a line for each; the exit code."""
    options = _options(arguments)
    model = options.shared / "clients" / "fakellm.py" if options.shared else None
    if model and not model.is_file():
        _print(f"There is no scripted model {model}; --shared names the folder that holds `clients/`.")
        return USAGE
    shutil.rmtree(KEPT, ignore_errors=True)
    passed = [_passes(name, client) for name, client in _present(model, options.clients)]
    return 0 if all(passed) else 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    npm = Path(os.environ.get("CLIENTS_NPM") or Path.home() / ".cache" / "agent-clients")
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.run", description="Real clients against the server.")
    parser.add_argument("--shared", type=Path, metavar="DIR", help="folder with clients/fakellm.py, the scripted model")
    parser.add_argument("--clients", type=Path, metavar="DIR", default=npm, help="npm folder (default: %(default)s)")
    return parser.parse_args(arguments)


def _present(model: Path | None, npm: Path) -> Iterator[tuple[str, drive.Drive]]:
    """The clients that can be run; the others get their line here."""
    yield "sdk-modern", drive.sdk_client("auto")
    yield "sdk-legacy", drive.sdk_client("legacy")
    for client in clients.CLIENTS:
        if model is None:
            _print(f"{client.name:<10}  not run: it needs the scripted model; give --shared DIR (make: SHARED=DIR)")
        elif missing := client.missing(npm):
            _print(f"{client.name:<10}  not run: {missing}")
        else:
            yield client.name, drive.agent(client, npm, model)


def _passes(name: str, client: drive.Drive) -> bool:
    """Let a client work in a folder of its own; the folder is kept when something was wrong."""
    with tempfile.TemporaryDirectory(prefix="scrimshaw-e2e-") as scratch:
        folder = Path(scratch).resolve() / "run"
        problems = _judge(name, client, make_workspace(folder / "workspace"))
        if problems:
            shutil.copytree(folder, KEPT / name, symlinks=True)
            problems.append(f"see {KEPT / name}")
    for problem in problems:
        _print(f"            {problem}")
    return not problems


def _judge(name: str, client: drive.Drive, workspace: Workspace) -> list[str]:
    """Drive a client, print its line, and say what was wrong."""
    began = time.monotonic()
    driven = client(workspace)
    seconds = time.monotonic() - began
    left_behind = [f"it left a process behind: {command}" for command in end_left_behind(workspace.root)]
    traffic = read_traffic(workspace.traffic)
    problems = [*driven.problems, *traffic.problems(), *left_behind, *vault_problems(workspace, driven.saved_id)]
    verdict, tools = "failed" if problems else "ok", ", ".join(driven.tools)
    startup = f"{traffic.startup_s:.1f} s to first answer"
    _print(f"{name:<10}  {verdict:<6}  {seconds:5.1f} s  {startup}  {traffic.era():<29}  {tools}  [{driven.client}]")
    return problems


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
