"""What an agent client does when the installation that set it up is gone: its work, and nothing worse than a complaint.

Then another installation takes out what the lost one put in.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from tests.e2e.agents import Agent
from tests.e2e.capture import Bench, Captured, prepared, set_up
from tests.e2e.model import FINAL_TEXT, PROMPT, Steps

_MARK = "pressed.txt"
_STEPS: Steps = [{"tool": "bash", "args": {"command": f"echo ok > {_MARK}"}}, {"text": FINAL_TEXT}]


def stranded(agent: Agent, npm: Path, program: Path, folder: Path) -> Captured:
    """Let a client work whose server and hooks are gone, then take them out of its files."""
    workspace = prepared(folder / "workspace")
    files = [workspace.root / name for name in set_up(agent, workspace)]
    moved = sum(_move_programs(file, folder / "gone") for file in files)
    ran = Bench(npm, program, folder).run(agent, workspace, f"{PROMPT}. Press the cider.", _STEPS)
    set_up(agent, workspace, "--remove")
    texts = {file.name: file.read_text(encoding="utf-8") for file in files if file.exists()}
    rest = [name for name, text in texts.items() if "scrimshaw" in text.replace(str(workspace.root), "")]
    problems = [
        *ran.problems,
        *(["setup named no program by its path"] if not moved else []),
        *(["the client did none of its work"] if not (workspace.project / _MARK).exists() else []),
        *(f"{name} still names what is gone" for name in rest),
    ]
    return Captured(f"works without {moved} programs, which are taken out", problems)


def _move_programs(file: Path, folder: Path) -> int:
    """Let a file name programs in a folder that does not exist; how many there are."""
    text, scripts = file.read_text(encoding="utf-8"), sysconfig.get_path("scripts")
    file.write_text(text.replace(scripts, str(folder)), encoding="utf-8")
    return text.count(scripts)
