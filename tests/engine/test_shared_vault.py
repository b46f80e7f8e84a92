"""The user's own vault, which several projects write at once."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.engine.write import NewText, save
from scrimshaw.errors import AlreadyExists

pytestmark = pytest.mark.slow

SPAWN = multiprocessing.get_context("spawn")
NAMES = 60


def test_of_two_projects_one_gets_a_name(tmp_path: Path) -> None:
    meeting = SPAWN.Barrier(2)
    projects = [tmp_path / "one", tmp_path / "two"]
    writers = [SPAWN.Process(target=write, args=(project, tmp_path / "home", meeting)) for project in projects]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    acknowledged = {project.name: (project / "acknowledged").read_text().split() for project in projects}
    assert sum(map(len, acknowledged.values())) == NAMES
    for project, names in acknowledged.items():
        for name in names:
            assert f"Said by {project}." in (tmp_path / f"home/memories/{name}.md").read_text()


def write(project: Path, home: Path, meeting: Barrier) -> None:
    """Save the same ids as the other project, each at the same moment, and note which were acknowledged."""
    (project / ".scrimshaw/memories").mkdir(parents=True)
    (project / ".scrimshaw/config.toml").write_text('[embedding]\nprovider = "none"\n')
    acknowledged = []
    with open_engine(load(project, home=home, environment={})) as engine:
        for number in range(NAMES):
            meeting.wait(60)
            try:
                save(engine, NewText(content=f"Said by {project.name}.", id=f"global/n{number}"), force=True)
            except AlreadyExists:
                continue
            acknowledged.append(f"n{number}")
    (project / "acknowledged").write_text(" ".join(acknowledged))
