"""The commands of the documentation run in a scratch project, block by block, as a newcomer types them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from functools import partial
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


def follow_page(page: Path, folder: Path, environment: dict[str, str]) -> None:
    """Type the commands of a page in a new project; what it shows stands in what they say."""
    project = folder / "project"
    for each in (project, folder / "home"):
        each.mkdir()
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


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_newcomer_gets_what_the_page_shows(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    follow_page(page, tmp_path, environment)


@pytest.mark.slow
def test_a_newcomer_installs_the_wheel_and_follows_the_quickstart(tmp_path: Path, environment: dict[str, str]) -> None:
    run = partial(subprocess.run, check=True, capture_output=True, text=True)
    run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)])
    (wheel,) = tmp_path.glob("*.whl")
    home = tmp_path / "environment"
    venv.create(home, with_pip=True)
    run([str(home / "bin/pip"), "install", "--no-deps", str(wheel)])
    # The packages that it needs are here already; what is installed itself comes before them.
    (own,) = home.glob("lib/python*/site-packages")
    (own / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    follow_page(ROOT / "docs/quickstart.md", tmp_path, environment | {"PATH": f"{home}/bin{os.pathsep}/usr/bin:/bin"})
    assert (home / "share/man/man1/scrimshaw.1").is_file()
    where = run([str(home / "bin/python"), "-c", "import scrimshaw; print(scrimshaw.__file__)"]).stdout
    assert where.startswith(str(home))
