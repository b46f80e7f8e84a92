"""The commands on durable work: jobs list, cancel, retry; and worker, which runs it."""

from __future__ import annotations

import signal
from typing import Annotated

import typer
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import open_memory
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import line, note, show
from scrimshaw.app.worker import Worker
from scrimshaw.errors import Conflict, NotFound, ScrimshawError
from scrimshaw.models import Job, JobState

app = typer.Typer(help="Work that outlives the process that asked for it.", no_args_is_help=True)
runner = typer.Typer()

Number = Annotated[int, typer.Argument(metavar="JOB", min=1, help="The job's number, as `jobs list` tells it.")]


@app.callback(epilog=example("scrimshaw jobs list"))
def group() -> None:
    """Work that outlives the process that asked for it: vectors, drafts, imports."""


@app.command("list", epilog=example("scrimshaw jobs list --state failed"))
def list_jobs(
    state: Annotated[list[JobState] | None, typer.Option(help="Only these (repeatable).")] = None,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Jobs, newest first: how far they are, and what went wrong."""
    with open_memory(project, fresh=False) as engine:
        show(engine.journal.jobs(tuple(state or ())), as_json, _list)


@app.command("cancel", epilog=example("scrimshaw jobs cancel 12"))
def cancel(job: Number, project: options.Project = None, as_json: options.AsJson = False) -> None:
    """Cancel a job that has not ended, or put a failed one aside; one that runs stops at its next report."""
    with open_memory(project, fresh=False) as engine:
        if not engine.journal.cancel(job):
            raise NotFound(f"There is no job {job} to cancel.", "See `scrimshaw jobs list`.", job=job)
        show([engine.journal.job(job)], as_json, lambda console, _: console.print(f"Job {job} is cancelled."))


@app.command("retry", epilog=example("scrimshaw jobs retry 12"))
def retry(job: Number, project: options.Project = None, as_json: options.AsJson = False) -> None:
    """Queue a job again that failed or was cancelled."""
    with open_memory(project, fresh=False) as engine:
        if not engine.journal.retry(job):
            raise _not_retried(engine.journal.job(job), job)
        show([engine.journal.job(job)], as_json, lambda console, _: console.print(f"Job {job} is queued."))


@runner.command(epilog=example("scrimshaw worker --once"))
def worker(
    once: Annotated[bool, typer.Option("--once", help="End when nothing is due.")] = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Run durable work as a server does beside its answers, until interrupted."""
    # A service manager's way to interrupt: the job at hand is given back either way.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    done = 0
    with open_memory(project) as engine:
        working = Worker(engine)
        if not once:
            note("Working; Ctrl-C ends it, and what is at hand is taken up again later.")
            working.run()
        while working.run_once():
            done += 1
        waiting = len(engine.journal.jobs((JobState.QUEUED, JobState.RUNNING)))
    told = f"{done} jobs run, {waiting} wait or run elsewhere."
    show({"jobs": done, "waiting": waiting}, as_json, lambda console, _: console.print(told))


def _not_retried(job: Job | None, number: int) -> ScrimshawError:
    if job and job.state in (JobState.FAILED, JobState.CANCELLED):
        return Conflict(f"The same work as job {number} waits already.", "`scrimshaw jobs cancel` puts this one aside.")
    return NotFound(f"There is no failed job {number}.", "See `scrimshaw jobs list`.", job=number)


def _list(console: Console, jobs: list[Job]) -> None:
    for job in jobs:
        progress = f"  {job.done} of {job.total}" if job.total else ""
        attempts = f"  attempt {job.attempts}" if job.attempts > 1 else ""
        console.print(line((f"{job.id:>5}", "bold"), f"  {job.state:<9}  {job.kind}  {job.key}{progress}{attempts}"))
        if job.error:
            console.print(line((f"       {job.error}", "dim")))
    if not jobs:
        console.print("No job.")
