"""The commands for indexing, background jobs and rules: scan, rebuild, jobs, rules, capture."""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from scrimshaw.app.background import Worker
from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import command, command_group, settings_of, settings_of_memory
from scrimshaw.app.cli.output import Lines, confirm, line, note, progress
from scrimshaw.config import PAUSED, RESUMED
from scrimshaw.engine import Engine, index, open_engine
from scrimshaw.errors import Conflict, DamagedDatabase, NewerDatabase, NotFound
from scrimshaw.ingest.rule_checks import check_rules
from scrimshaw.models import Job, JobState
from scrimshaw.storage.durable import storage_errors

app = typer.Typer()
jobs = command_group(app, "jobs", "Background work that survives restarts.", "list")
rules = command_group(app, "rules", "Rules for what to remember of tool calls.", "list")
capture = command_group(app, "capture", "Pause and resume recording of sessions.", "pause")

JobNumber = Annotated[int, typer.Argument(metavar="JOB", min=1, help="The job's number, as shown by `jobs list`.")]


def _render_scan(result: Mapping[str, Any]) -> Lines:
    yield "{files} files: {added} added, {updated} updated, {removed} removed, {unchanged} unchanged".format_map(result)
    yield from frame.render_coverage(result["skipped"], result["vectors"])


def _render_jobs(found: Sequence[Job]) -> Lines:
    for job in found:
        progress = f"  {job.done} of {job.total}" if job.total else ""
        attempts = f"  attempt {job.attempts}" if job.attempts > 1 else ""
        yield line((f"{job.id:>5}", "bold"), f"  {job.state:<9}  {job.kind}  {job.key}{progress}{attempts}")
        if job.error:
            yield line((f"       {job.error}", "dim"))


def _render_state(found: Sequence[Job]) -> Lines:
    yield f"Job {found[0].id} is {found[0].state}."


def _render_run(counts: Mapping[str, int]) -> Lines:
    yield f"{counts['jobs']} jobs were run; {counts['waiting']} are waiting or running elsewhere."


def _render_rules(found: Sequence[Mapping[str, Any]]) -> Lines:
    for entry in found:
        rule = entry["rule"]
        origin = f", priority {rule.priority}{', your own' if entry['own'] else ''}"
        yield line((rule.id, "cyan"), f"  {rule.kind}, attention {rule.attention:g}", origin)
        for name in ("tool", "argument", "content"):
            if pattern := getattr(rule, name):
                yield line((f"    {name:<9}", "dim"), pattern)


@command(app, "scan", render=_render_scan, fresh=False, with_rules=True)
def scan(
    engine: Engine,
    as_json: bool,
    force: Annotated[bool, typer.Option("--force", help="Read every file again.")] = False,
    no_vectors: frame.NoVectors = False,
) -> dict[str, Any]:
    """Bring the index up to date with the files."""
    return _read_files(engine, as_json, no_vectors, force=force)


@command(app, "rebuild", "--yes", render=_render_scan)
def rebuild(
    project: Path | None, as_json: bool, no_vectors: frame.NoVectors = False, yes: frame.Yes = False
) -> dict[str, Any]:
    """Build the index again from the files; keeps the journal."""
    settings = settings_of_memory(project)
    confirm("Read every file and make all vectors again?", yes)
    try:
        with open_engine(settings) as engine:
            is_unusable = bool(engine.maintenance.check("index"))
    except (DamagedDatabase, NewerDatabase) as error:
        if Path(error.details["path"]) != settings.folder / "index.db":
            raise
        is_unusable = True
    if is_unusable:
        for file in settings.folder.glob("index.db*"):
            file.unlink()
        note("The index was damaged or of a newer version; it is built from scratch.")
    with open_engine(settings) as engine:
        return _read_files(engine, as_json, no_vectors, clear=True)


def _read_files(
    engine: Engine, as_json: bool, no_vectors: bool, *, force: bool = False, clear: bool = False
) -> dict[str, Any]:
    with progress("Reading files", as_json) as advance:
        report = index.rebuild(engine, progress=advance) if clear else index.scan(engine, force=force, progress=advance)
    if report.mended and not (force or clear):
        note(f"The index had lost {report.mended} memories; their files were read again.")
    names = ("files", "unchanged", "added", "updated", "removed", "changes", "skipped")
    counts = {name: getattr(report, name) for name in names}
    return counts | {"vectors": frame.fill_vectors(engine, as_json, skip=no_vectors)}


@command(jobs, "list", "--state failed", render=_render_jobs, fresh=False, empty="No job.")
def list_jobs(
    engine: Engine, state: Annotated[list[JobState] | None, typer.Option(help="Only these (repeatable).")] = None
) -> list[Job]:
    """List jobs, newest first, with progress and errors."""
    return engine.journal.jobs(tuple(state or ()))


@command(jobs, "cancel", "12", render=_render_state, fresh=False)
def cancel_job(engine: Engine, job: JobNumber) -> list[Job]:
    """Cancel an unfinished job, or dismiss a failed one; a running job stops at its next report."""
    if not engine.journal.change_job(job, JobState.CANCELLED):
        raise NotFound(f"There is no job {job} to cancel.", "See `scrimshaw jobs list`.", job=job)
    return engine.journal.jobs(number=job)


@command(jobs, "retry", "12", render=_render_state, fresh=False)
def retry_job(engine: Engine, job: JobNumber) -> list[Job]:
    """Queue a failed or cancelled job again."""
    if not engine.journal.change_job(job, JobState.QUEUED):
        if engine.journal.jobs((JobState.FAILED, JobState.CANCELLED), number=job):
            raise Conflict(f"The work of job {job} is queued already.", "`scrimshaw jobs cancel` dismisses this job.")
        raise NotFound(f"There is no failed job {job}.", "See `scrimshaw jobs list`.", job=job)
    return engine.journal.jobs(number=job)


@command(app, "worker", "--once", render=_render_run, hidden=True)
@command(jobs, "run", "--once", render=_render_run)
def run_jobs(
    engine: Engine, once: Annotated[bool, typer.Option("--once", help="Stop when no job is due.")] = False
) -> dict[str, int]:
    """Run jobs as a server does, until interrupted."""
    # Service managers send SIGTERM: the current job is given back either way.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    done, worker = 0, Worker(engine)
    if not once:
        note("Running jobs until Ctrl-C; an unfinished one is continued later.")
        worker.run()
    while worker.run_once():
        done += 1
    return {"jobs": done, "waiting": len(engine.journal.jobs((JobState.QUEUED, JobState.RUNNING)))}


@command(rules, "list", render=_render_rules)
def list_rules(project: Path | None) -> list[dict[str, Any]]:
    """List all extraction rules in the order of trial, including your own."""
    settings = settings_of(project)
    own = {table.get("id") for table in settings.rules}
    return [{"own": rule.id in own, "rule": rule} for rule in check_rules(settings.rules)[0]]


def _render_capture(is_capturing: bool) -> Lines:
    yield f"Sessions of this project are {'' if is_capturing else 'not '}recorded."


@command(capture, "pause", render=_render_capture)
def pause_capture(project: Path | None) -> bool:
    """Stop recording sessions and giving clients memories, until `capture resume`."""
    settings = settings_of_memory(project)
    with storage_errors("write", settings.folder / PAUSED):
        (settings.folder / PAUSED).touch()
    return settings.is_capturing


@command(capture, "resume", render=_render_capture)
def resume_capture(project: Path | None) -> bool:
    """Record sessions again; events of the pause stay unrecorded."""
    settings = settings_of_memory(project)
    with storage_errors("remove", settings.folder / PAUSED):
        if (settings.folder / PAUSED).exists():
            (settings.folder / PAUSED).replace(settings.folder / RESUMED)
            (settings.folder / RESUMED).touch()
    return settings.is_capturing


@command(capture, "status", render=_render_capture)
def show_capture(project: Path | None) -> bool:
    """Show whether sessions are recorded now."""
    return settings_of_memory(project).is_capturing
