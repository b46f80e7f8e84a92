"""Fixtures that every room's tests share: a project in a scratch folder, and engines over it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests.samples` is found however pytest was started

from scrimshaw.config import load
from scrimshaw.engine import Engine, open_engine
from scrimshaw.search.embedders import Embedder, MiniLMEmbedder
from scrimshaw.search.pipeline import Searcher

# The processes that tests start share their bytecode; without it each spends a second on compiling the package.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Temporary folders are in memory where there is room: a commit there does not wait for a disk.
MEMORY, LEAST_BYTES = Path("/dev/shm"), 4 * 2**30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > LEAST_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# No deadline: a busy machine may take any time for an example.
# The same examples every time: a gate that was green stays green until the code changes. `make fuzz` draws new ones.
settings.register_profile("patient", deadline=None, derandomize=True)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("random", deadline=None)
settings.load_profile("patient")


class OpenMemory(Protocol):
    """Opens the project once more; without an embedder it searches by words alone."""

    def __call__(self, toml: str = "", *, embedder: Embedder | None = None) -> Engine: ...


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project with a vault."""
    folder = tmp_path / "project"
    (folder / ".scrimshaw/memories").mkdir(parents=True)
    return folder


@pytest.fixture
def vault(project: Path) -> Path:
    """The folder of the project's memories."""
    return project / ".scrimshaw/memories"


@pytest.fixture
def open_memory(project: Path) -> Iterator[OpenMemory]:
    with ExitStack() as opened:

        def open_it(toml: str = "", *, embedder: Embedder | None = None) -> Engine:
            (project / ".scrimshaw/config.toml").write_text(f'[embedding]\nprovider = "none"\n{toml}')
            engine = open_engine(load(project, home=project.parent / "home", environment={}))
            if embedder:
                searcher = Searcher(engine.index, engine.settings, embedder)
                engine = replace(engine, embedder=embedder, searcher=searcher)
            return opened.enter_context(engine)

        yield open_it


@pytest.fixture
def engine(open_memory: OpenMemory) -> Engine:
    """The project's memory, searched by words alone."""
    return open_memory()


@pytest.fixture(scope="session")
def minilm() -> MiniLMEmbedder:
    """The bundled model, loaded once."""
    return MiniLMEmbedder(max_tokens=256)
