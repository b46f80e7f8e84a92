"""The commands for indexing, jobs, rules and settings: scan, rebuild, jobs, rules, capture, config, git."""

import signal
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import tomlkit
import typer
from tomlkit.exceptions import ParseError

from scrimshaw import errors
from scrimshaw.app.background import Worker
from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import command, command_group, settings_of, settings_of_memory
from scrimshaw.app.cli.output import Lines, confirm, line, note, progress
from scrimshaw.app.clients import CLIENT_NAMES, load_client
from scrimshaw.config import PAUSED, RESUMED, Settings, all_keys, config_files, load
from scrimshaw.engine import Engine, index, open_engine
from scrimshaw.ingest.events import Event, find_redactions, make_observation, redact_call
from scrimshaw.ingest.extraction import Rule, find_rule
from scrimshaw.ingest.memory_file import edit_memory_file, merge_front_matter, parse_memory_file
from scrimshaw.ingest.rule_checks import check_rules
from scrimshaw.ingest.tool_calls import describe_call
from scrimshaw.models import UNFINISHED, EventKind, Job, JobState, format_count
from scrimshaw.storage.durable import replace_file, storage_errors
from scrimshaw.storage.git import ask_git, merge_texts
from scrimshaw.storage.toml_files import GOLDEN_FILE, merge_queries

app = typer.Typer()
jobs = command_group(app, "jobs", "Background work that survives restarts.", "list")
rules = command_group(app, "rules", "Rules for what to remember of tool calls.", "list")
capture = command_group(app, "capture", "Pause and resume recording of sessions.", "pause")
config = command_group(app, "config", "Show and change the configuration.", "get search.limit")
git = command_group(app, "git", "How git merges memories.", "install")

ATTRIBUTES = "# Memories are merged key by key; `scrimshaw git install` tells git how.\n/memories/** merge=scrimshaw\n"
ATTRIBUTES += "/golden.toml merge=scrimshaw\n"  # earlier versions wrote the lines before
DRIVER = (  # without the program git merges as any other text
    "command -v scrimshaw >/dev/null 2>&1 || exec git merge-file %A %O %B; exec scrimshaw git merge %O %A %B --path %P"
)
_SETTINGS = {"merge.scrimshaw.name": "memories, key by key", "merge.scrimshaw.driver": DRIVER}

JobNumber = Annotated[int, typer.Argument(metavar="JOB", min=1, help="The job's number, as shown by `jobs list`.")]
User = Annotated[bool, typer.Option("--user", help="Use your own file, for all projects.")]


def _render_scan(result: Mapping[str, Any]) -> Lines:
    counts = "{added} added, {updated} updated, {removed} removed, {unchanged} unchanged".format_map(result)
    yield f"{format_count(result['files'], 'file')}: {counts}"
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
    yield f"Jobs run: {counts['jobs']}; waiting or running elsewhere: {counts['waiting']}."


def _render_rules(found: Sequence[Mapping[str, Any]]) -> Lines:
    for entry in found:
        rule = entry["rule"]
        origin = f", priority {rule.priority}{', your own' if entry['own'] else ''}"
        yield line((rule.id, "cyan"), f"  {rule.kind}, attention {rule.attention:g}", origin)
        for name in ("tool", "argument", "content"):
            if pattern := getattr(rule, name):
                yield line((f"    {name:<9}", "dim"), pattern)


def _render_explanation(explanation: Mapping[str, Any]) -> Lines:
    yield line((explanation["reason"], "bold"))
    item = explanation["item"]
    texts = {"redacted": ", ".join(explanation["redacted"]), "item": item.text.text if item else ""}
    for name in ("event", "tool", "activity", "subject", "redacted", "text", "item"):
        if value := texts.get(name, explanation[name]):
            yield line((f"{name:<10}", "dim"), value)


@command(app, "scan", render=_render_scan, fresh=False)
def scan(
    engine: Engine,
    force: Annotated[bool, typer.Option("--force", help="Read every file again.")] = False,
    no_vectors: frame.NoVectors = False,
) -> dict[str, Any]:
    """Bring the index up to date with the files."""
    return _read_files(engine, no_vectors, force=force)


@command(app, "rebuild", "--yes", render=_render_scan)
def rebuild(settings: Settings, no_vectors: frame.NoVectors = False, yes: frame.Yes = False) -> dict[str, Any]:
    """Build the index again from the files; keeps the journal."""
    confirm("Read every file and make all vectors again?", yes)
    try:
        with open_engine(settings) as engine:
            is_unusable = bool(engine.maintenance.check("index"))
    except (errors.DamagedDatabase, errors.NewerDatabase) as error:
        if Path(error.details["path"]) != settings.folder / "index.db":
            raise
        is_unusable = True
    if is_unusable:
        for file in settings.folder.glob("index.db*"):
            file.unlink()
        note("The index was damaged or of a newer version; it is built from scratch.")
    with open_engine(settings) as engine:
        return _read_files(engine, no_vectors, clear=True)


def _read_files(engine: Engine, no_vectors: bool, *, force: bool = False, clear: bool = False) -> dict[str, Any]:
    with progress("Reading files") as advance:
        report = index.rebuild(engine, progress=advance) if clear else index.scan(engine, force=force, progress=advance)
    names = ("files", "unchanged", "added", "updated", "removed", "changes", "skipped")
    counts = {name: getattr(report, name) for name in names}
    return counts | {"vectors": frame.fill_vectors(engine, skip=no_vectors)}


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
        raise errors.NotFound(f"There is no job {job} to cancel.", "See `scrimshaw jobs list`.", job=job)
    return engine.journal.jobs(number=job)


@command(jobs, "retry", "12", render=_render_state, fresh=False)
def retry_job(engine: Engine, job: JobNumber) -> list[Job]:
    """Queue a failed or cancelled job again."""
    if not engine.journal.change_job(job, JobState.QUEUED):
        if engine.journal.jobs((JobState.FAILED, JobState.CANCELLED), number=job):
            message, hint = f"The work of job {job} is queued already.", "`scrimshaw jobs cancel` dismisses this job."
            raise errors.Conflict(message, hint)
        raise errors.NotFound(f"There is no failed job {job}.", "See `scrimshaw jobs list`.", job=job)
    return engine.journal.jobs(number=job)


@command(jobs, "run", "--once", render=_render_run)
def run_jobs(
    engine: Engine, once: Annotated[bool, typer.Option("--once", help="Stop when no job is due.")] = False
) -> dict[str, int]:
    """Run jobs as a server does, until interrupted."""
    # Service managers send SIGTERM: the current job is given back either way.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    worker = Worker(engine)
    if not once:
        note("Running jobs until Ctrl-C; an unfinished one is continued later.")
        worker.run()
    done = sum(1 for _ in iter(worker.run_once, False))
    return {"jobs": done, "waiting": len(engine.journal.jobs(UNFINISHED))}


@command(rules, "list", render=_render_rules)
def list_rules(project: Path | None) -> list[dict[str, Any]]:
    """List all extraction rules in the order of trial, including your own."""
    settings = settings_of(project)
    own = {table.get("id") for table in settings.rules}
    return [{"own": rule.id in own, "rule": rule} for rule in check_rules(settings.rules)[0]]


@command(rules, "test", f"event.json --client {CLIENT_NAMES[0]}", render=_render_explanation)
def try_rules(
    project: Path | None,
    event: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A hook payload, as sent by the client.")],
    client: Annotated[str, typer.Option(help=f"Whose payload it is: {', '.join(CLIENT_NAMES)}.")] = CLIENT_NAMES[0],
    name: Annotated[str, typer.Option("--event", help="The event, if the payload does not name it.")] = "",
) -> dict[str, Any]:
    """Show which rule matches a client's event, and what would be stored. Nothing is stored."""
    if (sender := load_client(client)) is None:
        raise typer.BadParameter(f"{client!r} is not a client; there are {', '.join(CLIENT_NAMES)}.")
    settings = settings_of(project)
    try:
        payload = msgspec.json.decode(event.read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError) as error:
        message = f"{event} is not a hook payload: {errors.describe_os_error(error)}."
        raise errors.InvalidRequest(message, "Give one JSON object.") from error
    explanation: dict[str, Any] = dict.fromkeys(("event", "tool", "activity", "subject"), "")
    explanation |= {"rule": None, "reason": "Nothing is stored: the event is not used."}
    explanation |= {"redacted": (), "text": "", "item": None}
    if found := sender.parse_payload(payload, name):
        explanation |= _explain_event(found, check_rules(settings.rules)[0], settings.features.extraction)
    return explanation


def _render_capture(is_capturing: bool) -> Lines:
    yield f"Sessions of this project are {'' if is_capturing else 'not '}recorded."


@command(capture, "pause", render=_render_capture)
def pause_capture(settings: Settings) -> bool:
    """Stop recording sessions and giving clients memories, until `capture resume`."""
    with storage_errors("write", settings.folder / PAUSED):
        if not (settings.folder / PAUSED).exists():  # as old as the begin of the pause
            (settings.folder / PAUSED).touch()
    return settings.is_capturing


@command(capture, "resume", render=_render_capture)
def resume_capture(settings: Settings) -> bool:
    """Record sessions again; events of the pause stay unrecorded."""
    with storage_errors("remove", settings.folder / PAUSED):
        if (paused := settings.folder / PAUSED).exists():
            with (settings.folder / RESUMED).open("a") as file:
                file.write(f"{paused.stat().st_mtime} {time.time()}\n")
            paused.unlink()
    return settings.is_capturing


@command(capture, "status", render=_render_capture)
def show_capture(settings: Settings) -> bool:
    """Show whether sessions are recorded now."""
    return settings.is_capturing


def _explain_event(event: Event, rules: tuple[Rule, ...], extraction: bool) -> dict[str, Any]:
    """How an event is handled: the input of the rules, the matching rule, its effect, and what is stored."""
    seen = make_observation(event, rules, process=0, extraction=extraction)
    explanation: dict[str, Any] = {"event": event.kind, "reason": "Kept as an event.", "text": seen.text.text}
    explanation |= {"redacted": find_redactions(seen), "item": seen.item}
    if event.kind != EventKind.TOOL:
        return explanation
    activity = describe_call(redact_call(event))
    rule = find_rule(activity, rules)
    if not extraction:
        reason = "Kept as an event; extraction is switched off."
    elif rule is None:
        reason = "Kept as an event; no rule matches, so nothing enters working memory."
    elif not rule.attention:
        reason = f"Kept as an event; rule {rule.id!r} says to leave such calls alone."
    elif seen.item is None:
        reason = f"Kept as an event; rule {rule.id!r} matches, but nothing of the call is left to remember."
    else:
        reason = f"Rule {rule.id!r} matches: the item enters working memory with attention {seen.item.attention:g}."
    known = {"tool": event.tool_name, "activity": activity.name, "subject": activity.subject}
    return {**explanation, **known, "rule": rule, "reason": reason}


def _render_values(values: dict[str, Any]) -> Lines:
    yield from (line((name, "cyan"), f" = {msgspec.json.encode(value).decode()}") for name, value in values.items())


@command(config, "get", "", "search.limit", render=_render_values)
def get_values(
    settings: Settings, key: Annotated[str, typer.Argument(metavar="[KEY]", help="Section and key; default: all.")] = ""
) -> dict[str, Any]:
    """Show the settings in effect, from all files, the environment and the defaults."""
    return {name: _read_value(settings, name) for name in _find_keys(key)}


@command(config, "set", "search.limit 10", render=_render_values)
def set_value(
    settings: Settings,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Section and key, such as search.limit.")],
    value: Annotated[str, typer.Argument(help="As TOML: 10, true, 'a text', [1, 2]; or a bare word.")],
    user: User = False,
) -> dict[str, Any]:
    """Set one key in a file, keeping its comments and order."""
    section, _, name = key.partition(".")
    _find_keys(key)
    path = config_files(settings.project, settings.home)[not user]
    before = path.read_bytes() if path.is_file() else None
    table = tomlkit.parse((before or b"").decode("utf-8-sig"))
    try:
        parsed = tomlkit.value(value)
    except (ParseError, ValueError):
        parsed = tomlkit.item(value)
    if section not in table:
        table[section] = tomlkit.table()
    table[section][name] = parsed
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, tomlkit.dumps(table).encode())
    try:
        return {key: _read_value(load(settings.project), key)}
    except errors.ConfigError as error:
        if before is None:
            path.unlink()
        else:
            replace_file(path, before)
        fault = error.message.partition("\n")[2].replace(f"{path}: ", "").strip()
        raise errors.ConfigError(f"Nothing was changed: {fault}.", "`scrimshaw config get` lists all.") from error


@command(config, "edit", "", render=lambda path: [str(path)])
def edit_file(project: Path | None, user: User = False) -> Path:
    """Open the configuration in your $EDITOR, and check it afterwards."""
    path = config_files(frame.find_folder(project))[not user]
    if not path.exists():  # one that exists may be what keeps the settings from being read
        settings_of_memory(project)
    frame.run_editor(path)
    settings_of(project)
    return path


def _read_value(settings: Settings, key: str) -> Any:
    section, _, name = key.partition(".")
    return msgspec.to_builtins(getattr(settings, section))[name]


def _find_keys(key: str) -> list[str]:
    """The key itself, or all keys if it is empty; raises InvalidRequest for an unknown one."""
    known = [f"{each.section}.{each.key}" for each in all_keys()]
    if key and key not in known:
        hint = errors.find_nearest(key, known) or "`scrimshaw config get` lists all."
        raise errors.InvalidRequest(f"There is no key {key!r}.", hint)
    return [key] if key else known


def _render_steps(done: dict[str, Any]) -> Lines:
    verb = "would be " if done["dry_run"] else ""
    yield from (line((name, "cyan"), f"  {verb}{what}") for name, what in done["steps"].items())
    yield from [] if done["steps"] else ["Nothing to change."]


@command(git, "install", "", "--dry-run", render=_render_steps)
def install(settings: Settings, dry_run: frame.DryRun = False) -> dict[str, Any]:
    """Let git merge memories by their front matter's keys.

    Writes .scrimshaw/.gitattributes, to be committed, and two settings of this clone; each clone needs its own.
    """
    path = settings.folder / ".gitattributes"
    ask_git(settings.project, "rev-parse", "--git-dir")
    known = path.read_text(encoding="utf-8") if path.is_file() else ""
    if not ATTRIBUTES.startswith(known):
        message = f"{path} is there and says something else."
        raise errors.InvalidRequest(message, "Add to it: /memories/** merge=scrimshaw")
    config = partial(ask_git, settings.project, "config", "--local")
    new = {each: x for each, x in _SETTINGS.items() if config("--get", each, answers=(0, 1)) != f"{x}\n"}
    steps = ({} if known == ATTRIBUTES else {str(path): "written"}) | dict.fromkeys(new, "set in git's config")
    if not dry_run:
        replace_file(path, ATTRIBUTES.encode())
        for name, value in new.items():
            config(name, value)
    return {"steps": steps, "dry_run": dry_run}


@command(git, "uninstall", "", "--dry-run", render=_render_steps)
def uninstall(settings: Settings, dry_run: frame.DryRun = False) -> dict[str, Any]:
    """Let git merge memories like any other text again, in this clone."""
    path, steps = settings.folder / ".gitattributes", dict[str, str]()
    if path.is_file() and b"merge=scrimshaw" in path.read_bytes():
        steps[str(path)] = "left, as all clones share it: `git rm` it once no clone needs it"
    if ask_git(settings.project, "config", "--local", "--get-regexp", r"^merge\.scrimshaw\.", answers=(0, 1)):
        steps["merge.scrimshaw"] = "removed from git's config"
        if not dry_run:
            ask_git(settings.project, "config", "--local", "--remove-section", "merge.scrimshaw")
    return {"steps": steps, "dry_run": dry_run}


@command(git, "merge", "base.md ours.md theirs.md", render=lambda _: (), fails=lambda conflicts: conflicts, hidden=True)
def merge(
    base: Annotated[Path, typer.Argument(help="The common ancestor.")],
    ours: Annotated[Path, typer.Argument(help="Our version, which is overwritten.")],
    theirs: Annotated[Path, typer.Argument(help="The other version.")],
    path: Annotated[str, typer.Option(help="The file's path in the repository.")] = "",
) -> bool:
    """Merge a memory for git; exit code 1 if both sides changed the same key or the same lines of the text."""
    raw = [file.read_bytes() for file in (base, ours, theirs)]
    if Path(path).name == GOLDEN_FILE and (both := merge_queries(*raw)):
        ours.write_bytes(both)
        return False
    try:
        before, own, other = (parse_memory_file(text, path or str(ours)).demand_readable() for text in raw)
        body, conflicts = merge_texts(*(file.body.encode() for file in (before, own, other)))
        forms = (edit_memory_file(each, {}, body.decode()).raw for each in merge_front_matter(before, own, other))
        merged, is_split = merge_texts(*forms)
        conflicts |= is_split
    except (errors.UnreadableFile, UnicodeError):  # then the whole file is merged as text
        merged, conflicts = merge_texts(*raw)
    ours.write_bytes(merged)
    return conflicts
