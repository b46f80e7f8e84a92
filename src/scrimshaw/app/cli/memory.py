"""Opening the memory of a project, and keeping it fresh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from scrimshaw.app.cli.output import Advance, Lines, line, note_degradations, progress
from scrimshaw.config import Settings, find_project, load
from scrimshaw.engine import Engine, index, open_engine
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.index import EMBED, EMBED_BATCH
from scrimshaw.errors import ConfigError, StorageFailure
from scrimshaw.ingest.rule_checks import check_rules
from scrimshaw.models import Degradation, JobState, Skip
from scrimshaw.search.embedders import EmbedderUnavailable

# Long enough for a few batches on a slow machine; another process may take over a silent job after it.
LEASE_S = 60.0
SKIPS_SHOWN = 20


def settings_of(project: Path | None) -> Settings:
    """The settings of the named project, or of the one around the working folder."""
    return load(project.absolute() if project else find_project(Path.cwd()))


def settings_of_memory(project: Path | None) -> Settings:
    """The settings of a project that has a memory; raises ConfigError for one that has none."""
    settings = settings_of(project)
    if not settings.folder.is_dir():
        raise ConfigError(f"{settings.project} has no memory yet.", "Run `scrimshaw init` there first.")
    return settings


@contextmanager
def open_memory(project: Path | None, *, fresh: bool = True, with_rules: bool = False) -> Iterator[Engine]:
    """The memory of a project, with what changed in its files since the last look when `fresh`.

    Where the index could not follow the files, a note says so at the end. With `with_rules` a mistake in the extraction
    rules stops the start with ConfigError.
    """
    settings = settings_of_memory(project)
    if with_rules:
        check_rules(settings.rules)
    with open_engine(settings) as engine:
        if fresh:
            index.scan(engine)
        yield engine
        note_degradations(engine.degradations.of(INDEX))


def fill_few(engine: Engine) -> None:
    """Make the vectors of a handful of new chunks, so that a note of a minute ago is found by its meaning.

    A model or a table that refuses is not reported here: the search that follows says so with its answer.
    """
    with suppress(StorageFailure):
        ready, total = index.vectors_ready(engine)
        if 0 < total - ready <= EMBED_BATCH:
            _fill(engine, lambda done, total: None)


def fill_vectors(engine: Engine, as_json: bool, *, skip: bool = False) -> dict[str, Any]:
    """Make all missing vectors, with a progress bar, unless told to `skip` it; what the model refuses is reported.

    Gives the vectors made now, the chunks that have one, all chunks, and why some are missing.
    """
    made, degradation = 0, None
    if not skip and isinstance(engine.embedder, Degradation):
        degradation = engine.embedder
    elif not skip:
        with progress("Making vectors", as_json) as advance:
            made, degradation = _fill(engine, advance)
    ready, total = index.vectors_ready(engine)
    return {"made": made, "ready": ready, "total": total, "degradation": degradation}


def _fill(engine: Engine, advance: Advance) -> tuple[int, Degradation | None]:
    """Make all missing vectors in place of the job that waits for it, if one does: how many, and what stopped it."""
    job = engine.journal.claim((EMBED,), LEASE_S)

    def keep_going(done: int, total: int) -> bool:
        advance(done, total)
        return job is None or engine.journal.renew_lease(job, done, total, LEASE_S)

    try:
        made = index.embed_pending(engine, keep_going)
    except EmbedderUnavailable as error:
        if job:
            engine.journal.finish(job, JobState.QUEUED, error.message, retry_in_s=LEASE_S)
        return 0, error.degradation
    if job:
        engine.journal.finish(job, JobState.DONE)
    return made, None


def describe_skip(skip: Skip) -> str:
    """A file that was passed over, and why."""
    return skip.reason if skip.reason.startswith(skip.path) else f"{skip.path}: {skip.reason}"


def render_coverage(skips: Sequence[Skip], vectors: Mapping[str, Any]) -> Lines:
    """The files that were passed over, and how far the vectors are."""
    if skips:
        yield line((f"{len(skips)} skipped", "yellow"))
    yield from (f"         {describe_skip(skip)}" for skip in skips[:SKIPS_SHOWN])
    if len(skips) > SKIPS_SHOWN:
        yield f"         and {len(skips) - SKIPS_SHOWN} more; `scrimshaw doctor` names all"
    if vectors["degradation"]:
        note_degradations((vectors["degradation"],))
    else:
        yield "{ready} of {total} pieces have a vector, {made} made now".format_map(vectors)
