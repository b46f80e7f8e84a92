"""The commands for history, recovery and erasure: ledger, undo, checkpoint, backup, restore, purge."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import Texts, command, command_group, open_memory, settings_of_memory
from scrimshaw.app.cli.output import Lines, confirm, flatten, is_interactive, line, note, note_degradations
from scrimshaw.app.importing import search_transcripts
from scrimshaw.config import Settings
from scrimshaw.engine import Engine, checkpoints, history, index, open_engine, purge
from scrimshaw.engine.checkpoints import Checkpoint
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.drafts import target_session
from scrimshaw.engine.history import Undone
from scrimshaw.engine.ledger import PUBLIC_NAMES
from scrimshaw.engine.migrate import EngineName, Table, migrate
from scrimshaw.engine.purge import Purged, PurgeTarget, Trace
from scrimshaw.engine.restore import Recovery, Restored, is_lost, restore_newest, set_aside
from scrimshaw.engine.restore import restore as bring_back
from scrimshaw.engine.sessions import ITEM_PREFIX
from scrimshaw.errors import InvalidRequest, NotFound
from scrimshaw.models import Action, format_count
from scrimshaw.router.copies import list_receivers
from scrimshaw.storage.git import SECRET_FILE, GitTraces
from scrimshaw.storage.ports import Row

app = typer.Typer()
ledger = command_group(app, "ledger", "The ledger: the record of all changes.", "verify")
checkpoint = command_group(app, "checkpoint", "Snapshots of the whole memory.", "create before-the-move")

_NAMES_SHOWN, _TRACES_SHOWN = 20, 40
_NOTHING = (
    "No checkpoint could be used: the ledger, the texts for undo, sessions, reviews and jobs start empty. The memories "
    "are files and stay as they are."
)
_SEARCHED = "In files, their names, paths of links, rows of databases, checkpoints, and all objects of git."

Name = Annotated[str, typer.Argument(metavar="NAME", help="The checkpoint's name.")]
ClearExisting = Annotated[bool, typer.Option("--clear-existing", help="Exactly that state, not just what is missing.")]
OverwriteEdits = Annotated[bool, typer.Option("--overwrite-edits", help="Replace files edited by hand too.")]
Global = Annotated[bool, typer.Option("--global", help="Include your own vault for all projects.")]


def _render_rows(rows: Sequence[Row]) -> Lines:
    for row in rows:
        moment = datetime.fromtimestamp(row["at"], UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        by = f"{row['actor']}, session {row['session']}" if row["session"] else row["actor"]
        yield line((f"{row['seq']:>5}  {moment}  ", "dim"), row["action"], "  ", (row["id"], "cyan"))
        yield line((f"       {row['reason']} ({by})", "dim"))


def _render_verified(verified: Mapping[str, int]) -> Lines:
    if not verified["broken"]:
        return [f"All entries of the ledger are as they were written: {verified['rows']}."]
    broken = (f"Entry {verified['broken']} of the ledger was changed, removed or cut off.", "bold red")
    return [line(broken), "The entries before it are intact. `scrimshaw checkpoint list` shows older copies."]


def _render_migrated(tables: Mapping[str, Table]) -> Lines:
    for name, each in tables.items():
        yield f"{each.rows:>8}  {name}  {each.digest[:16]}"
    yield "All rows are the same in both. Set [storage] engine, then run `scrimshaw scan`, which reads the files again."
    yield "The old journal and index still hold all texts, and no purge changes them: remove them once all is well."


def _render_undo(undone: Undone) -> Lines:
    done = f"{'would be ' if undone.dry_run else ''}undone"
    for step in undone.steps:
        mark = ("left".ljust(len(done)), "yellow") if step.trouble else (done, "green")
        why = f"  {step.trouble or step.note or step.reason}"
        yield line(mark, f"  {step.entry:>5}  {step.action}  ", (step.memory_id, "cyan"), (why, "dim"))
    yield f"{undone.undone} of {format_count(len(undone.steps), 'change')} {done}."


def _describe_size(made: Checkpoint) -> str:
    """How many files, rows and bytes a checkpoint has."""
    sizes = {"file": made.files, "row": sum(made.rows.values()), "byte": made.bytes}
    return ", ".join(map(format_count, sizes.values(), sizes))


def _render_made(made: Checkpoint) -> Lines:
    yield line((made.name, "cyan"), f"  {_describe_size(made)}")
    yield line((made.path, "dim"))
    why = "left out, since it is not UTF-8 text or its name cannot be restored"
    yield from (line((f"{why}: {name}", "yellow")) for name in made.left_out)
    if made.dropped:
        yield line((f"dropped: {', '.join(made.dropped)}", "dim"))


def _render_checkpoints(found: Sequence[Checkpoint]) -> Lines:
    for each in found:
        moment = datetime.fromtimestamp(each.created, UTC).strftime("%Y-%m-%d %H:%MZ")
        what = each.problem or _describe_size(each)
        made_as = f"  (made as {flatten(each.made_as)})" if each.made_as else ""
        yield line((f"{moment}  ", "dim"), (each.name, "cyan"), made_as, f"  {flatten(what)}")
        yield from (line((f"    {key}: {text}", "dim")) for key, text in each.metadata.items())


def _render_deleted(gone: Mapping[str, Any]) -> Lines:
    yield line("Would delete " if gone["dry_run"] else "Deleted ", (gone["path"], "cyan"))


def _render_restored(restored: Restored) -> Lines:
    """What was restored and, after a lost journal, how old it is and what is missing."""
    if restored.name:
        would = "would be " if restored.dry_run else ""
        for verb, names in (("written", restored.written), ("removed", restored.removed)):
            yield from (line(f"{would}{verb}  ", (name, "cyan")) for name in names)
        doubts = [f"edited by hand: {name}" for name in restored.edits]
        doubts += (f"purged since, left as it is: {name}" for name in restored.purged)
        doubts += (f"not written, as Serena's folder is not here or closes it: {n}" for n in restored.closed)
        doubts += (f"restored with redactions: {name}" for name in restored.redacted)
        if restored.is_purged_since:
            doubts.append("Something was purged after this backup was made and may be in it: purge it again.")
        if restored.unrecorded:
            doubts.append(f"Files newer than the ledger, which recorded them as they are: {restored.unrecorded}.")
        yield from (line((doubt, "yellow")) for doubt in doubts)
        counts = f"{len(restored.written)} written, {len(restored.removed)} removed, {restored.kept} left as they are"
        yield f"{flatten(restored.name)}: {counts}, {format_count(sum(restored.rows.values()), 'row')}."
        if restored.sampled:
            yield f"A search finds {restored.found} of {format_count(restored.sampled, 'memory')} that it looked for."
        if restored.backup:
            command = f"scrimshaw checkpoint restore {restored.backup} --clear-existing"
            yield line((f"As it was before: {command}", "dim"))
    if restored.recovery:
        yield from (line((text, "yellow")) for text in _describe_loss(restored, restored.recovery))


def _describe_loss(restored: Restored, recovery: Recovery) -> Iterator[str]:
    """How old the checkpoint is, how many entries are lost, and which files of it are not restored."""
    if recovery.age_s is None:
        yield from (_NOTHING, f"The ledger recorded {format_count(restored.unrecorded, 'file')} as found.")
    else:
        yield f"The checkpoint is {timedelta(seconds=round(recovery.age_s))} old (days, hours:minutes:seconds)."
    where = f" What can be read of the lost journal is in {recovery.aside}." if recovery.aside else ""
    yield f"Entries of the ledger lost since: at least {recovery.lost}.{where}"
    if recovery.absent:
        more = len(recovery.absent) - _NAMES_SHOWN
        names = ", ".join(recovery.absent[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
        yield f"In the checkpoint but deleted since, and not restored: {names}."
        yield f"To restore them: scrimshaw checkpoint restore {restored.name}"


def _render_purge(purged: Purged) -> Lines:
    yield from _render_traces("It is in:" if purged.dry_run else "It was in:", purged.places)
    yield from _render_traces("Cannot be read or edited (--remove deletes these files):", purged.unreadable, "yellow")
    yield from _render_traces("Not Scrimshaw's, so not changed; check them yourself:", purged.foreign, "yellow")
    yield from (line(("removed as a whole: ", "yellow"), name) for name in purged.removed)
    found, verb = (purged.places, "found") if purged.dry_run else (purged.left, "left")
    times = sum(trace.count for trace in found)
    sizes = f"{format_count(purged.searched_files, 'file')}, {format_count(purged.searched_bytes, 'byte')}"
    searched = f"  {sizes} searched; found {format_count(times, 'time')}."
    if purged.is_clean and not found:
        yield line((f"Nothing is {verb} in Scrimshaw's folders.", "green"), searched)
    elif not purged.dry_run:
        yield line(("Something is left.", "bold red"), searched)
    yield from _render_traces("Left in:", purged.left, "red")
    stop = "  Stop the other servers, then repeat."
    yield from (line(("in use by another process: ", "red"), name, stop) for name in purged.held)
    yield line(("Looked for: ", "dim"), (f"{'; '.join(purged.forms)}.", "dim"))
    yield line((_SEARCHED, "dim"))
    documents = "Documents and transcripts that contain it, which Scrimshaw never changes:"
    yield from _render_traces(documents, purged.documents, "yellow")
    yield from _render_git(purged.git)
    yield line(("Not searched, since Scrimshaw cannot reach it:", "dim"))
    yield from (line((f"  {place}", "dim")) for place in purged.outside)
    yield line(("A secret that was ever stored should be replaced where it is used.", "dim"))


def _render_git(git: GitTraces) -> Lines:
    if git.degradation:
        yield line((f"{git.degradation.failure_mode} {git.degradation.retry_recommendation}", "yellow"))
    elif git.objects and not git.found:
        yield f"Git has {format_count(git.objects, 'object')}, and it is in none of them, no names, logs or settings."
    yield from (line(("Git keeps this, and it was not searched: ", "yellow"), name) for name in git.unsearched)
    if not git.found:
        return
    where = "Places in git" if git.commands else "Files that git does not have yet"
    yield line((f"{where}: {git.found}; objects read: {git.objects}.", "bold yellow"))
    for place in git.places[:_TRACES_SHOWN]:
        commit = place.commit[:12] or ("in no commit" if place.object else "")
        yield f"  {place.kind}  {commit}  {place.path}"
    if not git.commands:
        return
    yield "Only you can rewrite history. Commit first, then, in a fresh clone or after a backup:"
    yield from (line((f"  {each}", "cyan")) for each in git.commands)
    yield "git-filter-repo is a program of its own: `pip install git-filter-repo`."
    yield f"{SECRET_FILE}, where it is named, is a file of yours with the text in one line; remove it afterwards."
    yield "What these commands may leave, or remove as well:"
    yield from (f"  {text}" for text in git.stays)
    yield "Tell everybody who has a clone to clone again, ask the host to drop its caches, replace the secret."


def _render_traces(title: str, traces: Sequence[Trace], style: str = "") -> Lines:
    if traces:
        yield line((title, style))
    yield from (line(f"  {trace.count:>6}  {trace.place}  ", (trace.why, "dim")) for trace in traces[:_TRACES_SHOWN])
    if len(traces) > _TRACES_SHOWN:
        yield line((f"  and {len(traces) - _TRACES_SHOWN} more", "dim"))


@command(ledger, "show", "--memory storage/wal --limit 5", render=_render_rows, reads=True, empty="No such entry.")
def show_ledger(
    engine: Engine,
    memory: Annotated[str, typer.Option(metavar="ID", help="Only of this memory.")] = "",
    session: Annotated[str, typer.Option(metavar="ID", help="Only what this session changed.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of entries.")] = 20,
) -> Sequence[Row]:
    """Show the newest changes: which memory, what, by whom and why."""
    session, memory = session and frame.find_session(engine, session), memory and frame.find_id(engine, memory)
    rows = engine.journal.history(memory, limit, session=session)
    return [{PUBLIC_NAMES.get(name, name): value for name, value in row.items()} for row in rows]


@command(ledger, "verify", render=_render_verified, fresh=False, fails=lambda verified: verified["broken"] > 0)
def verify_ledger(engine: Engine) -> dict[str, int]:
    """Check that no entry was changed, removed or cut off; exit code 1 if one was."""
    # The second is the number of the first entry that is wrong or missing, 0 if the ledger is intact.
    return dict(zip(("rows", "broken"), engine.journal.verify(), strict=True))


@command(
    app, "undo", "", "--session 0e24 --dry-run", "--entry 17",
    render=_render_undo, fails=lambda x: x.undone < len(x.steps),
)  # fmt: skip
def undo(
    engine: Engine,
    session: Annotated[str, typer.Option(metavar="ID", help="All changes of this session.")] = "",
    entry: Annotated[int | None, typer.Option(min=1, metavar="N", help="One entry of the ledger.")] = None,
    redo: Annotated[bool, typer.Option("--redo", help="Redo what an undo of the session undid.")] = False,
    dry_run: frame.DryRun = False,
    yes: frame.Yes = False,
) -> Undone:
    """Undo the changes of a session, one entry, or the last change.

    Restores files, index and relations. Files edited since then stay as they are: exit code 1.
    """
    if session and entry:
        raise typer.BadParameter("Give --session or --entry, not both.")
    if redo and not session:
        raise typer.BadParameter("--redo goes with --session; an undo of one entry is an entry itself.")
    session = session and frame.find_session(engine, session)
    entry = entry or (0 if session else _find_last_change(engine))
    take_back = partial(history.undo, engine, session=session, entry=entry, redo=redo)
    planned = take_back(dry_run=True)
    if dry_run or not planned.undone:
        return planned
    shown = [] if yes else [step for step in planned.steps if not step.trouble][:_NAMES_SHOWN]
    note(*(flatten(f"Entry {each.entry}: {each.action} {each.memory_id}, {each.reason}") for each in shown))
    note(*(f"Entry {step.entry}: {step.note}." for step in planned.steps if step.note))
    confirm(f"Undo {planned.undone} of {format_count(len(planned.steps), 'change')}?", yes)
    return take_back()


def _find_last_change(engine: Engine) -> int:
    """The newest ledger entry that changed a file, is not an undo, and was not undone; git undoes edits by hand."""
    rows = engine.journal.history()
    undone = {row["decision_meta"].get("undoes") for row in rows}
    for row in rows:
        changes = row["memory_id"] and row["prior_hash"] != row["new_hash"] and row["action"] != Action.EXTERNAL
        if changes and row["seq"] not in undone and "undoes" not in row["decision_meta"]:
            return int(row["seq"])
    raise NotFound("There is no change to undo.", "`scrimshaw ledger show` lists the changes.")


@command(app, "migrate", "sqlite postgres", render=_render_migrated)
def migrate_journal(
    settings: Settings,
    source: Annotated[EngineName, typer.Argument(help="The engine that has the journal now.")],
    target: Annotated[EngineName, typer.Argument(help="The engine to copy it to.")],
) -> Mapping[str, Table]:
    """Copy the journal to another engine, and compare all rows.

    The source is not changed. Repeat it after an interruption. Server and vault are those of the section `storage`.
    """
    return migrate(settings, source, target)


@command(checkpoint, "create", "before-cleanup --note 'why=spring'", render=_render_made)
def create_checkpoint(
    engine: Engine,
    name: Name,
    notes: Annotated[Texts, typer.Option("--note", metavar="KEY=TEXT", help="Stored with it (repeatable).")] = None,
    include_global: Global = False,
) -> Checkpoint:
    """Save the whole memory as it is now; the newest ten are kept."""
    metadata = dict(each.partition("=")[::2] for each in notes or ())
    return checkpoints.create(engine, name, metadata=metadata, include_global=include_global)


@command(checkpoint, "list", "--limit 3", render=_render_checkpoints, fresh=False, empty="There is no checkpoint.")
def list_checkpoints(
    engine: Engine, limit: Annotated[int, typer.Option(min=1, help="Maximum number of checkpoints.")] = 40
) -> Sequence[Checkpoint]:
    """List the checkpoints, newest first."""
    return checkpoints.list_checkpoints(engine, limit)


@command(checkpoint, "restore", "before-cleanup --dry-run", render=_render_restored)
def restore_checkpoint(
    engine: Engine,
    name: Name,
    clear_existing: ClearExisting = False,
    overwrite_edits: OverwriteEdits = False,
    dry_run: frame.DryRun = False,
    yes: frame.Yes = False,
) -> Restored:
    """Restore a checkpoint, after making one of the present state."""
    return _bring_back(engine, checkpoints.find_checkpoint(engine, name), clear_existing, overwrite_edits, dry_run, yes)


@command(checkpoint, "delete", "before-cleanup", render=_render_deleted, fresh=False)
def delete_checkpoint(
    engine: Engine, name: Name, dry_run: frame.DryRun = False, yes: frame.Yes = False
) -> dict[str, object]:
    """Delete a checkpoint permanently."""
    path = str(checkpoints.find_checkpoint(engine, name))
    if not dry_run:
        confirm(f"Delete the checkpoint {name} permanently?", yes)
        checkpoints.delete(engine, name, name)
    return {"path": path, "dry_run": dry_run}


@command(app, "backup", "~/memory.scrim", render=_render_made, fresh=False)
def backup(
    engine: Engine,
    file: Annotated[Path, typer.Argument(dir_okay=False, help="A new file.", **frame.OUTPUT)],
    include_global: Global = False,
) -> Checkpoint:
    """Write the whole memory to a file, with checksums."""
    index.catch_up(engine)  # must also work on a read-only disk, when a backup is needed most
    return checkpoints.backup(engine, file, include_global=include_global)


@command(app, "restore", "~/memory.scrim", "--newest", render=_render_restored)
def restore(
    project: Path | None,
    file: Annotated[Path | None, typer.Argument(exists=True, dir_okay=False, help="A backup.")] = None,
    newest: Annotated[bool, typer.Option("--newest", help="Newest checkpoint; moves a damaged journal away.")] = False,
    clear_existing: ClearExisting = False,
    overwrite_edits: OverwriteEdits = False,
    dry_run: frame.DryRun = False,
    yes: frame.Yes = False,
) -> Restored:
    """Restore a backup: what is missing, or its exact state."""
    if bool(file) == newest:
        raise typer.BadParameter("Give either a backup or --newest.")
    if newest and (clear_existing or overwrite_edits or dry_run):
        raise typer.BadParameter("--newest takes neither --clear-existing, nor --overwrite-edits, nor --dry-run.")
    if file:
        with open_memory(project, fresh=False) as engine:  # an empty ledger is filled from the backup
            return _bring_back(engine, file, clear_existing, overwrite_edits, dry_run, yes)
    settings = settings_of_memory(project)
    replace = "The journal is damaged. Move it away and start from the newest checkpoint? Stop servers"
    fill = "Restore what is missing from the newest checkpoint? Stop running servers"
    confirm(f"{replace if is_lost(settings) else fill} first.", yes)
    if aside := set_aside(settings):
        damaged = f"The journal was damaged; it was moved to {aside}."
        note(f"{damaged if aside.exists() else 'The journal was missing.'} The files are left as they are.")
    with open_engine(settings, replace_lost_journal=aside is not None) as engine:
        restored, unusable = restore_newest(engine, aside=aside)
        note_degradations(engine.degradations.of(INDEX))
    note(*(error.message for error in unusable))
    return restored


def _bring_back(engine: Engine, path: Path, clear: bool, overwrite: bool, dry_run: bool, yes: bool) -> Restored:
    bring = partial(bring_back, engine, path, clear_existing=clear, overwrite_edits=overwrite)
    planned = bring(dry_run=True)
    if clear and not dry_run:  # even without a file: what the journal recorded since is removed too
        files = f"Write {format_count(len(planned.written), 'file')}, remove {len(planned.removed)}"
        confirm(f"{files}, and replace sessions, reviews and jobs by those of then?", yes)
    return planned if dry_run else bring()


@command(
    app, "purge", "--dry-run", "--secret - --yes < FILE", "--memory ID", "--session ID --dry-run", render=_render_purge,
    fails=lambda it: not (it.dry_run or (it.is_clean and not (it.documents or it.git.found or it.git.degradation))),
)  # fmt: skip
def purge_traces(
    project: Path | None,
    secret: Annotated[str, typer.Option(metavar="TEXT", help="The secret; - is stdin. Default: ask for it.")] = "",
    secret_file: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Read it from a file.")] = None,
    pattern: Annotated[bool, typer.Option("--pattern", help="The secret is a regular expression (RE2).")] = False,
    memory: Annotated[str, typer.Option(metavar="ID", help="Purge a memory instead, even a deleted one.")] = "",
    session: Annotated[str, typer.Option(metavar="ID", help="Purge a session with its memory and draft.")] = "",
    include_global: Global = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show where it is, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; also remove unreadable files.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Also remove databases that cannot be searched.")] = False,
) -> Purged:
    """Erase a secret, memory or session everywhere; check it.

    A session is not recorded again, by no hook and no import; its ID may be cut, or that of its memory.
    Searches every byte afterwards. Git's history is searched but never rewritten. Exit code 1 if anything is
    left anywhere.
    """
    if sum(map(bool, (memory, session, secret or secret_file or pattern))) > 1:
        raise typer.BadParameter("Give a secret, --memory or --session, only one of them.")
    text = "" if memory or session else _read_secret(secret, secret_file)

    def find_target(engine: Engine) -> PurgeTarget:
        if session or memory.startswith(ITEM_PREFIX):
            found = target_session(engine, frame.find_recorded(engine, session or memory))
        elif memory:
            found = purge.target_memories(engine, [frame.find_id(engine, memory)])
        else:
            found = purge.target_secret(text, is_pattern=pattern)
        return replace(found, include_global=include_global)

    with open_memory(project, fresh=False) as engine, purge.open_scope(engine, find_target) as scope:
        found, target = purge.find_traces(scope), scope[0][1]
        frame.note_records(engine, () if target.sessions else target.memory_ids)
        where = search_transcripts(engine.settings.project, Path.home(), target.traces)
        documents = (*found.documents, *(target.trace(*each) for each in where))
        receivers = ", ".join(list_receivers(engine.settings.home, engine.settings.project))
        copies = [f"copies at the peers {receivers}: run `scrimshaw sync`, then purge there"] if receivers else []
        planned = replace(found, documents=documents, outside=(*copies, *found.outside))
        if dry_run:
            return planned
        confirm(f"Erase it permanently, in {format_count(len(planned.places), 'place')}?", yes)
        names = ", ".join(trace.place for trace in planned.unreadable)
        question = f"{names} cannot be searched or cleaned. Remove?"
        may_remove = bool(names) and not yes and typer.confirm(question, err=True)
        how = {"remove_unreadable": yes or may_remove, "remove_closed": remove or may_remove}
        return purge.purge([(each, replace(target, **how)) for each, target in scope], planned)


def _read_secret(given: str, file: Path | None) -> str:
    """Read the secret from where no shell history keeps it; without the end of the line."""
    if given and file:
        raise typer.BadParameter("Give --secret or --secret-file, not both.")
    if given and given != frame.STDIN:
        note("The secret is in your shell's history now: remove it there, and use the prompt, - or --secret-file.")
    if not given and not file:
        if not is_interactive():
            raise InvalidRequest("There is no terminal to ask for the secret.", "Use --secret - or --secret-file.")
        given = typer.prompt("Secret", hide_input=True, err=True)
    secret = frame.content_of(given, file).rstrip("\r\n")
    if not secret:
        raise InvalidRequest("The secret is empty.", "Give the text to erase.", parameter="secret")
    return secret
