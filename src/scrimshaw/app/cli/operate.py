"""The commands that run and explain work beside the memories: scan, rebuild, jobs, rules."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from scrimshaw.app.cli import memory, options
from scrimshaw.app.cli.options import command, command_group, example
from scrimshaw.app.cli.output import confirm, line, note, progress, show
from scrimshaw.app.clients import CLIENT_NAMES, load_client
from scrimshaw.app.rules import check_rules
from scrimshaw.app.worker import Worker
from scrimshaw.engine import Engine, index, open_engine
from scrimshaw.errors import Conflict, DamagedDatabase, InvalidRequest, NewerDatabase, NotFound, describe_os_error
from scrimshaw.ingest.events import Event, find_redactions, make_observation, redact_call
from scrimshaw.ingest.extraction import Rule, find_rule
from scrimshaw.ingest.tool_calls import describe_call
from scrimshaw.models import EventKind, Job, JobState, NewItem
from scrimshaw.storage.sync import SyncReport

app = typer.Typer()
jobs = command_group("Work that outlives the process that asked for it.", "scrimshaw jobs list")
rules = command_group("What is kept of tool calls.", "scrimshaw rules list")

# What becomes of an event: what rules are matched with, the one that matched, what follows, and what is kept.
_EXPLANATION: Mapping[str, Any] = {
    **dict.fromkeys(("event", "tool", "activity", "subject"), ""),
    "rule": None,
    "reason": "Nothing is stored: the event is not used.",
    "redacted": (),
    "text": "",
    "item": None,
}

JobNumber = Annotated[int, typer.Argument(metavar="JOB", min=1, help="The job's number, as `jobs list` tells it.")]


def _render_jobs(console: Console, found: Sequence[Job]) -> None:
    for job in found:
        progress = f"  {job.done} of {job.total}" if job.total else ""
        attempts = f"  attempt {job.attempts}" if job.attempts > 1 else ""
        console.print(line((f"{job.id:>5}", "bold"), f"  {job.state:<9}  {job.kind}  {job.key}{progress}{attempts}"))
        if job.error:
            console.print(line((f"       {job.error}", "dim")))
    if not found:
        console.print("No job.")


def _render_state(console: Console, found: Sequence[Job]) -> None:
    console.print(f"Job {found[0].id} is {found[0].state}.")


def _render_run(console: Console, counts: Mapping[str, int]) -> None:
    console.print(f"{counts['jobs']} jobs run, {counts['waiting']} wait or run elsewhere.")


@app.command(epilog=example("scrimshaw scan"))
def scan(
    force: Annotated[bool, typer.Option("--force", help="Read every file again.")] = False,
    no_vectors: options.NoVectors = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Bring the index up to date with the files."""
    with memory.open_memory(project, fresh=False, with_rules=True) as engine:
        with progress("Reading files", as_json) as advance:
            report = index.scan(engine, force=force, progress=advance)
        if report.mended and not force:
            note(f"The index had lost {report.mended} memories; their files were read again.")
        _show_scanned(engine, report, no_vectors, as_json)


@app.command(epilog=example("scrimshaw rebuild --yes"))
def rebuild(
    no_vectors: options.NoVectors = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Make the index anew from the files; the journal stays."""
    settings = memory.settings_of_memory(project)
    confirm("Read every file again and make all vectors anew?", yes)
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
        note("The index was damaged or of a newer version; it is made from nothing.")
    with open_engine(settings) as engine:
        with progress("Reading files", as_json) as advance:
            report = index.rebuild(engine, progress=advance)
        _show_scanned(engine, report, no_vectors, as_json)


def _show_scanned(engine: Engine, report: SyncReport, no_vectors: bool, as_json: bool) -> None:
    vectors = memory.vectors_of(engine) if no_vectors else memory.fill_vectors(engine, as_json)
    names = ("files", "unchanged", "added", "updated", "removed", "changes", "skipped")
    show({name: getattr(report, name) for name in names} | {"vectors": vectors}, as_json, _render_scanned)


def _render_scanned(console: Console, result: Mapping[str, Any]) -> None:
    changes = "{files} files: {added} added, {updated} updated, {removed} removed, {unchanged} unchanged"
    console.print(changes.format_map(result))
    memory.render_coverage(console, result["skipped"], result["vectors"])


@command(jobs, "list", "scrimshaw jobs list --state failed", render=_render_jobs, fresh=False)
def list_jobs(
    engine: Engine,
    state: Annotated[list[JobState] | None, typer.Option(help="Only these (repeatable).")] = None,
) -> list[Job]:
    """Jobs, newest first: how far they are, and what went wrong."""
    return engine.journal.jobs(tuple(state or ()))


@command(jobs, "cancel", "scrimshaw jobs cancel 12", render=_render_state, fresh=False)
def cancel_job(engine: Engine, job: JobNumber) -> list[Job]:
    """Cancel a job that has not ended, or put a failed one aside; one that runs stops at its next report."""
    if not engine.journal.change_job(job, JobState.CANCELLED):
        raise NotFound(f"There is no job {job} to cancel.", "See `scrimshaw jobs list`.", job=job)
    return engine.journal.jobs(number=job)


@command(jobs, "retry", "scrimshaw jobs retry 12", render=_render_state, fresh=False)
def retry_job(engine: Engine, job: JobNumber) -> list[Job]:
    """Queue a job again that failed or was cancelled."""
    if not engine.journal.change_job(job, JobState.QUEUED):
        if engine.journal.jobs((JobState.FAILED, JobState.CANCELLED), number=job):
            raise Conflict(f"The same work as job {job} waits already.", "`scrimshaw jobs cancel` puts this one aside.")
        raise NotFound(f"There is no failed job {job}.", "See `scrimshaw jobs list`.", job=job)
    return engine.journal.jobs(number=job)


@command(jobs, "run", "scrimshaw jobs run --once", render=_render_run)
def run_jobs(
    engine: Engine, once: Annotated[bool, typer.Option("--once", help="End when nothing is due.")] = False
) -> dict[str, int]:
    """Run durable work as a server does, until interrupted."""
    # A service manager's way to interrupt: the job at hand is given back either way.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    done, worker = 0, Worker(engine)
    if not once:
        note("Working; Ctrl-C ends it, and what is at hand is taken up again later.")
        worker.run()
    while worker.run_once():
        done += 1
    return {"jobs": done, "waiting": len(engine.journal.jobs((JobState.QUEUED, JobState.RUNNING)))}


command(app, "worker", "scrimshaw worker --once", render=_render_run, hidden=True)(run_jobs)


@rules.command("list", epilog=example("scrimshaw rules list"))
def list_rules(project: options.Project = None, as_json: options.AsJson = False) -> None:
    """All extraction rules in the order they are tried, your own among them."""
    settings = memory.settings_of(project)
    own = {table.get("id") for table in settings.rules}
    show([{"own": rule.id in own, "rule": rule} for rule in check_rules(settings)[0]], as_json, _render_rules)


@rules.command("test", epilog=example(f"scrimshaw rules test event.json --client {CLIENT_NAMES[0]}"))
def try_rules(
    event: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A hook payload as the client sends it.")],
    client: Annotated[str, typer.Option(help=f"Whose payload it is: {', '.join(CLIENT_NAMES)}.")] = CLIENT_NAMES[0],
    name: Annotated[str, typer.Option("--event", help="The event, where the payload does not say it.")] = "",
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Which rule matches a client's event, and what would be stored of it; nothing is."""
    sender = load_client(client)
    if sender is None:
        raise typer.BadParameter(f"{client!r} is no client; there are {', '.join(CLIENT_NAMES)}.")
    settings = memory.settings_of(project)
    try:
        payload = msgspec.json.decode(event.read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidRequest(
            f"{event} is no hook payload: {describe_os_error(error)}.", "Give one JSON object."
        ) from error
    found = sender.parse_payload(payload, name)
    rules = check_rules(settings)[0] if found else ()
    explanation = explain_event(found, rules, settings.features.extraction) if found else _EXPLANATION
    show(explanation, as_json, _render_explanation)


def explain_event(event: Event, rules: tuple[Rule, ...], extraction: bool) -> Mapping[str, Any]:
    """What `rules` make of an event that a hook reports."""
    seen = make_observation(event, rules, process=0, extraction=extraction)
    explanation = {**_EXPLANATION, "event": event.kind, "reason": "Kept as an event.", "text": seen.text.text}
    explanation |= {"redacted": find_redactions(seen), "item": seen.item}
    if event.kind == EventKind.TOOL:
        activity = describe_call(redact_call(event))
        rule = find_rule(activity, rules)
        explanation |= {"tool": event.tool_name, "activity": activity.name, "subject": activity.subject}
        explanation |= {"rule": rule, "reason": _explain_rule(rule, seen.item, extraction)}
    return explanation


def _explain_rule(rule: Rule | None, item: NewItem | None, extraction: bool) -> str:
    if not extraction:
        return "Kept as an event; extraction is switched off."
    if rule is None:
        return "Kept as an event; no rule matches, so nothing enters working memory."
    if not rule.attention:
        return f"Kept as an event; rule {rule.id!r} says to leave such calls alone."
    if item is None:
        return f"Kept as an event; rule {rule.id!r} matches, but nothing of the call is left to remember."
    return f"Rule {rule.id!r} matches: the item enters working memory with attention {item.attention:g}."


def _render_rules(console: Console, listed: Sequence[Mapping[str, Any]]) -> None:
    for entry in listed:
        rule = entry["rule"]
        origin = f", priority {rule.priority}{', your own' if entry['own'] else ''}"
        console.print(line((rule.id, "cyan"), f"  {rule.kind}, attention {rule.attention:g}", origin))
        for name in ("tool", "argument", "content"):
            if pattern := getattr(rule, name):
                console.print(line((f"    {name:<9}", "dim"), pattern))


def _render_explanation(console: Console, explanation: Mapping[str, Any]) -> None:
    console.print(line((explanation["reason"], "bold")))
    item = explanation["item"]
    texts = {"redacted": ", ".join(explanation["redacted"]), "item": item.text.text if item else ""}
    for name in ("event", "tool", "activity", "subject", "redacted", "text", "item"):
        if value := texts.get(name, explanation[name]):
            console.print(line((f"{name:<10}", "dim"), value))
