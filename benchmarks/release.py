"""`make release-check`: what a user installs is built, installed in a clean environment, measured and tried.

The wheel is built from the source distribution, so that both are known to be whole. The demo and the commands run
with nothing of this checkout on the path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build/release"
MOST_MB, MOST_PACKAGES = 260, 50


def main() -> int:
    """Build, install, run; fails where a step does, or where the installation outgrew its bounds."""
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    dist, home = BUILD / "dist", BUILD / "environment"
    _run([sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT)])
    (wheel,) = dist.glob("*.whl")
    venv.create(home, with_pip=True)
    before = _packages(home)
    _run([str(home / "bin/pip"), "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)])
    packages = _packages(home) - before
    size = sum(_measure(folder) for folder in _site(home).iterdir() if not folder.name.startswith("pip"))
    shutil.copytree(ROOT / "examples", BUILD / "examples")
    _run([str(home / "bin/python"), str(BUILD / "examples/demo.py")])
    _run([str(home / "bin/scrimshaw"), "search", "why Decimal", "--project", ".demo"])
    # The newcomer's hour, as the page has it, with the installed programs first on the path.
    page = [str(ROOT / "tests/app/test_docs_commands.py"), "-k", "quickstart or uninstall", "--rootdir", str(ROOT)]
    programs = {"SCRIMSHAW_PROGRAMS": str(home / "bin"), "PYTHONPATH": str(ROOT)}
    _run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), *page],
        programs,
    )
    megabytes = size / 1e6
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; installed {megabytes:.0f} MB, {len(packages)} packages")
    return int(megabytes > MOST_MB or len(packages) > MOST_PACKAGES)


def _run(command: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})) -> None:
    subprocess.run(command, check=True, cwd=BUILD, env={**os.environ, "PYTHONPATH": "", **environment})


def _site(home: Path) -> Path:
    return next(home.glob("lib/python*/site-packages"))


def _packages(home: Path) -> set[str]:
    return {path.name for path in _site(home).glob("*.dist-info")}


def _measure(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


if __name__ == "__main__":
    sys.exit(main())
