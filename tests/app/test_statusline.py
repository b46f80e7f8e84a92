"""The line below a client's prompt, as the installed program prints it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.samples import write_memory

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.models import Injected

CODE = "import sys; sys.argv[1:] = ['statusline']; from scrimshaw.app.cli import run; run()"


def ask(payload: object, folder: Path) -> str:
    sent = json.dumps(payload).encode()
    done = subprocess.run([sys.executable, "-c", CODE], input=sent, capture_output=True, check=True, cwd=folder)
    return done.stdout.decode()


def test_it_counts_memories_and_what_the_session_was_told(engine: Engine, project: Path, vault: Path) -> None:
    write_memory(vault, "one", "# One\n\nThe first.")
    write_memory(vault, "two", "# Two\n\nThe second.")
    scan(engine)
    told = Injected(session="s-1", occasion="start", tokens=1200, hits=1, at=1.0)
    engine.sessions.open("s-1", now=1.0)
    engine.sessions.mark_shown("s-1", {}, now=1.0, injected=told)
    sent = {"session_id": "s-1", "workspace": {"current_dir": str(project)}}
    assert ask(sent, project.parent) == "2 memories, 1,200 tokens given\n"


def test_it_says_in_red_what_cannot_be_read_and_nothing_where_there_is_no_memory(tmp_path: Path) -> None:
    assert ask([], tmp_path) == "\n"
    (tmp_path / ".scrimshaw/memories").mkdir(parents=True)
    assert ask({}, tmp_path).startswith("\033[31mno index")
    (tmp_path / ".scrimshaw/index.db").write_bytes(b"no database" * 1000)
    assert ask({"session_id": "s"}, tmp_path).startswith("\033[31m")


def test_a_configuration_that_cannot_be_used_is_one_short_line(project: Path, vault: Path) -> None:
    (vault.parent / "config.toml").write_text("[search]\nlimit = 0\ncandidates = 0\n")
    said = "memory: The configuration cannot be used. See `scrimshaw doctor`."
    assert ask({}, project) == f"\033[31m{said}\033[0m\n"


def test_it_loads_no_engine() -> None:
    code = "import sys; import scrimshaw.app.statusline; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "scrimshaw.app.statusline" in loaded
    assert {"scrimshaw.engine", "typer", "numpy", "mcp", "scrimshaw.search.embedders"}.isdisjoint(loaded)
