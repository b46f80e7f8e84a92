"""The commands that keep the index in step with the files: scan, rebuild."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import Vectors, fill_vectors, open_memory, render_coverage, settings_of_memory, vectors_of
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import confirm, note, progress, show
from scrimshaw.config import Settings
from scrimshaw.engine import Engine, index, open_engine
from scrimshaw.errors import DamagedDatabase, NewerDatabase, StorageFailure
from scrimshaw.models import Skip
from scrimshaw.storage.sync import Change, SyncReport

app = typer.Typer()


class Scanned(Struct, frozen=True, kw_only=True):
    """What a scan did; counts are memories, `changes` names them."""

    files: int
    unchanged: int
    added: int
    updated: int
    removed: int
    changes: tuple[Change, ...]
    skipped: tuple[Skip, ...]
    vectors: Vectors


@app.command(epilog=example("scrimshaw scan"))
def scan(
    force: Annotated[bool, typer.Option("--force", help="Read every file again.")] = False,
    no_vectors: options.NoVectors = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Bring the index up to date with the files."""
    with open_memory(project, fresh=False, with_rules=True) as engine:
        with progress("Reading files", as_json) as advance:
            report = index.scan(engine, force=force, progress=advance)
        if report.mended and not force:
            note(f"The index had lost {report.mended} memories; their files were read again.")
        scanned = _scanned(engine, report, no_vectors, as_json)
    show(scanned, as_json, _render_scanned)


@app.command(epilog=example("scrimshaw rebuild --yes"))
def rebuild(
    no_vectors: options.NoVectors = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Make the index anew from the files; the journal stays."""
    settings = settings_of_memory(project)
    confirm("Read every file again and make all vectors anew?", yes)
    with _sound_index(settings) as engine:
        with progress("Reading files", as_json) as advance:
            report = index.rebuild(engine, progress=advance)
        scanned = _scanned(engine, report, no_vectors, as_json)
    show(scanned, as_json, _render_scanned)


def _scanned(engine: Engine, report: SyncReport, no_vectors: bool, as_json: bool) -> Scanned:
    vectors = vectors_of(engine) if no_vectors else fill_vectors(engine, as_json)
    return Scanned(
        files=report.files,
        unchanged=report.unchanged,
        added=report.added,
        updated=report.updated,
        removed=report.removed,
        changes=report.changes,
        skipped=report.skipped,
        vectors=vectors,
    )


@contextmanager
def _sound_index(settings: Settings) -> Iterator[Engine]:
    """The memory, its index set aside and begun anew if it cannot be read."""
    if _is_unusable(settings):
        for file in settings.folder.glob("index.db*"):
            file.unlink()
        note("The index was damaged or of a newer version; it is made from nothing.")
    with open_engine(settings) as engine:
        yield engine


def _is_unusable(settings: Settings) -> bool:
    try:
        with open_engine(settings) as engine:
            return bool(engine.index.check())
    except StorageFailure as error:
        if _unusable_file(error) != settings.folder / "index.db":
            raise
        return True


def _unusable_file(error: StorageFailure) -> Path | None:
    """The database that cannot be read; None where it was merely busy, full or not permitted."""
    return Path(error.details["path"]) if isinstance(error, DamagedDatabase | NewerDatabase) else None


def _render_scanned(console: Console, result: Scanned) -> None:
    changes = f"{result.added} added, {result.updated} updated, {result.removed} removed"
    console.print(f"{result.files} files: {changes}, {result.unchanged} unchanged")
    render_coverage(console, result.skipped, result.vectors)
