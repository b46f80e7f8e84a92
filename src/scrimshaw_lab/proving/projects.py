"""The scratch projects that are worked on: made with a few memories and a journal of an older version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scrimshaw.config import CONFIG_FILE, PROJECT_FOLDER, Settings, load
from scrimshaw.engine import write
from scrimshaw.engine.core import MEMORIES, open_engine
from scrimshaw.storage.ports import Row
from scrimshaw.storage.sqlite.database import newest_migration
from scrimshaw.storage.sqlite.rows import SCHEMA, rewind
from scrimshaw_lab.proving.account import Account
from scrimshaw_lab.proving.operations import SHARED

# Words only: a process shall start in a moment.
_CONFIG = '[embedding]\nprovider = "none"\n'
_OWN = ("w0/first", "w0/second")


@dataclass
class Project:
    """A scratch project with what it must hold."""

    folder: Path
    settings: Settings
    account: Account = field(default_factory=Account)

    @property
    def vault(self) -> Path:
        """The folder of its memories."""
        return self.settings.folder / MEMORIES


def new_project(scratch: Path, number: int) -> Project:
    """A project with some memories; its journal is as one of the older versions left it, each in its turn."""
    folder = scratch / f"project-{number}"
    home = folder / PROJECT_FOLDER
    (home / MEMORIES).mkdir(parents=True)
    (home / CONFIG_FILE).write_text(_CONFIG, encoding="utf-8")
    project = Project(folder, load(folder, home=folder / "home", environment={}))
    with open_engine(project.settings) as engine:
        for name, token in _seeds():
            new = write.NewText(content=f"# What {token} says\n\nIt was there before: {token}\n", id=name)
            project.account.files[name] = write.save(engine, new, force=True).content_hash
        rows = list(engine.maintenance.dump_rows())
    _make_older(home, 1 + number % newest_migration(SCHEMA), rows)
    return project


def _seeds() -> Iterator[tuple[str, str]]:
    for number, name in enumerate((*SHARED, *_OWN)):
        yield name, f"seed{number}x"


def _make_older(home: Path, schema: int, rows: list[tuple[str, Row]]) -> None:
    for path in home.glob("journal.db*"):
        path.unlink()
    rewind(home / "journal.db", schema, rows)
