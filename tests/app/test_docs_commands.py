"""The commands of the documentation run in a scratch project, block by block, as a newcomer types them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("quickstart", "concepts", "clients", "recipes", "rollout", "troubleshooting", "uninstall")
PAGES = [ROOT / f"docs/{name}.md" for name in NAMES]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = "$ "
FOREIGN = ("SCRIMSHAW_", "SPECKIT_", "XDG_", "CLAUDE", "CODEX_", "COPILOT_", "GEMINI_", "QWEN_", "OPENCODE_", "CLINE_")


def read_commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The commands of a page, each with the lines that it shows as its output; a line after ``> `` continues one."""
    for block in BLOCK.findall(page.read_text()):
        command, shown = "", list[str]()
        for line in block.splitlines():
            if line.startswith(PROMPT):
                if command:
                    yield command, shown
                command, shown = line.removeprefix(PROMPT), []
            elif line.startswith("> ") and not shown:
                command += "\n" + line.removeprefix("> ")
            elif line.strip():
                shown.append(line)
        if command:
            yield command, shown


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A person with an empty home, in whose shell the commands are."""
    programs = os.environ.get("SCRIMSHAW_PROGRAMS", str(Path(sys.executable).parent))
    path = os.pathsep.join((programs, os.environ["PATH"]))
    keep = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    person = {f"GIT_{role}_{what}": "me@example.com" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return keep | person | {"PATH": path, "HOME": str(tmp_path / "home"), "NO_COLOR": "1", "COLUMNS": "100"}


def test_the_python_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".scrimshaw/memories").mkdir(parents=True)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/python.md").read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(code, "docs/python.md", "exec"), {})


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_newcomer_gets_what_the_page_shows(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    project = tmp_path / "project"
    for folder in (project, tmp_path / "home"):
        folder.mkdir()
    commands = [*read_commands(page)]
    assert commands
    for command, shown in commands:
        result = subprocess.run(
            ["bash", "-c", command], cwd=project, env=environment, capture_output=True, text=True, timeout=120
        )
        assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
        said = " ".join(result.stdout.split())
        for line in shown:
            for part in line.split("..."):
                assert " ".join(part.split()) in said, f"{command} does not say: {line}\n{result.stdout}"
