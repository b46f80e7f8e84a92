"""The commands that keep the whole memory and bring it back: checkpoint create|list|restore|delete, backup, restore."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from scrimshaw.app.cli import options, recovery
from scrimshaw.app.cli.memory import existing, open_memory
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import confirm, line, note, plain, show
from scrimshaw.engine import Engine, checkpoints, index, open_engine
from scrimshaw.engine.checkpoints import Checkpoint
from scrimshaw.engine.restore import Restored, is_lost, restore_newest, set_aside
from scrimshaw.engine.restore import restore as bring_back

app = typer.Typer(help="The whole memory, kept and brought back.", no_args_is_help=True)
files = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The checkpoint's name.")]
ClearExisting = Annotated[
    bool, typer.Option("--clear-existing", help="Exactly that state; else only what is missing comes back.")
]
OverwriteEdits = Annotated[
    bool, typer.Option("--overwrite-edits", help="Replace files edited by hand too, after a checkpoint of them.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")]
Global = Annotated[bool, typer.Option("--global", help="Your own vault of all projects as well.")]


class _How(NamedTuple):
    clear: bool
    overwrite: bool
    dry_run: bool
    yes: bool


@app.callback(epilog=example("scrimshaw checkpoint create before-the-move"))
def group() -> None:
    """The whole memory, kept and brought back."""


@app.command("create", epilog=example("scrimshaw checkpoint create before-cleanup --note 'why=spring cleaning'"))
def create(
    name: Name,
    notes: Annotated[
        list[str] | None, typer.Option("--note", metavar="KEY=TEXT", help="Kept with it (repeatable).")
    ] = None,
    include_global: Global = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Keep the whole memory as it is now; the newest ten stay."""
    metadata = dict(each.partition("=")[::2] for each in notes or ())
    with open_memory(project) as engine:
        made = checkpoints.create(engine, name, metadata=metadata, include_global=include_global)
    show(made, as_json, _made)


@app.command("list", epilog=example("scrimshaw checkpoint list --limit 3"))
def list_checkpoints(
    limit: Annotated[int, typer.Option(min=1, help="Most checkpoints.")] = 40,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """The checkpoints there are, newest first."""
    with open_memory(project, fresh=False) as engine:
        found = checkpoints.list_checkpoints(engine, limit)
    show(found, as_json, _list)


@app.command("restore", epilog=example("scrimshaw checkpoint restore before-cleanup --clear-existing --dry-run"))
def restore_checkpoint(
    name: Name,
    clear_existing: ClearExisting = False,
    overwrite_edits: OverwriteEdits = False,
    dry_run: DryRun = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Bring a checkpoint back; one of the present state is made before."""
    how = _How(clear_existing, overwrite_edits, dry_run, yes)
    show(_brought_back(project, lambda engine: checkpoints.path_of(engine, name), how), as_json, _restored)


@app.command("delete", epilog=example("scrimshaw checkpoint delete before-cleanup --yes"))
def delete(
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and delete nothing.")] = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Delete a checkpoint for good."""
    with open_memory(project, fresh=False) as engine:
        path = checkpoints.find_checkpoint(engine, name)
        if not dry_run:
            confirm(f"Delete the checkpoint {name} for good?", yes)
            checkpoints.delete(engine, name, name)
    show({"path": str(path), "dry_run": dry_run}, as_json, _deleted)


@files.command(epilog=example("scrimshaw backup ~/memory.scrim"))
def backup(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="A new file.")],
    include_global: Global = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the whole memory to a file, with checksums."""
    with open_memory(project, fresh=False) as engine:
        index.catch_up(engine)  # on a disk that cannot be written a backup is wanted most
        made = checkpoints.backup(engine, file, include_global=include_global)
    show(made, as_json, _made)


@files.command(epilog=example("scrimshaw restore ~/memory.scrim", "scrimshaw restore --newest"))
def restore(
    file: Annotated[Path | None, typer.Argument(exists=True, dir_okay=False, help="A backup.")] = None,
    newest: Annotated[
        bool, typer.Option("--newest", help="Newest checkpoint; a damaged journal is set aside.")
    ] = False,
    clear_existing: ClearExisting = False,
    overwrite_edits: OverwriteEdits = False,
    dry_run: DryRun = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Bring a backup back: what is missing, or all of it exactly."""
    if bool(file) == newest:
        raise typer.BadParameter("Give a file or --newest, one of them.")
    if newest and (clear_existing or overwrite_edits or dry_run):
        raise typer.BadParameter("--newest brings back what is missing and nothing else.")
    if file:
        how = _How(clear_existing, overwrite_edits, dry_run, yes)
        restored = _brought_back(project, lambda _: file, how, fresh=False)  # the backup fills an empty ledger
    else:
        restored = _newest(project, yes)
    show(restored, as_json, _told)


def _brought_back(project: Path | None, find: Callable[[Engine], Path], how: _How, *, fresh: bool = True) -> Restored:
    with open_memory(project, fresh=fresh) as engine:
        path = find(engine)
        planned = bring_back(engine, path, clear_existing=how.clear, overwrite_edits=how.overwrite, dry_run=True)
        if how.dry_run:
            return planned
        if how.clear and (planned.written or planned.removed):
            confirm(f"Write {len(planned.written)} files and remove {len(planned.removed)}?", how.yes)
        return bring_back(engine, path, clear_existing=how.clear, overwrite_edits=how.overwrite)


def _newest(project: Path | None, yes: bool) -> Restored:
    """What is missing from the newest checkpoint; only the journal's rows after a damaged one was moved away."""
    settings = existing(project)
    confirm(recovery.question(is_lost(settings)), yes)
    aside = set_aside(settings)
    if aside:
        recovery.tell_aside(aside)
    with open_engine(settings, anew=aside is not None) as engine:
        restored, unusable = restore_newest(engine, aside=aside)
    for error in unusable:
        note(error.message)
    return restored


def _name(text: str) -> str:
    """What an archive or a disk calls something, on one line and harmless."""
    return plain(text).replace("\n", "\N{REPLACEMENT CHARACTER}")


def _made(console: Console, made: Checkpoint) -> None:
    rows = sum(made.rows.values())
    console.print(line((_name(made.name), "cyan"), f"  {made.files} files, {rows} rows, {made.bytes} bytes"))
    console.print(line((_name(made.path), "dim")))
    for name in made.left_out:
        console.print(
            line((f"left out, since it is no UTF-8 text or no restore takes its name: {_name(name)}", "yellow"))
        )
    if made.dropped:
        console.print(line((f"dropped: {_name(', '.join(made.dropped))}", "dim")))


def _list(console: Console, found: Sequence[Checkpoint]) -> None:
    for each in found:
        moment = datetime.fromtimestamp(each.created, UTC).strftime("%Y-%m-%d %H:%M")
        what = each.problem or f"{each.files} files, {sum(each.rows.values())} rows, {each.bytes} bytes"
        made_as = f"  (made as {_name(each.made_as)})" if each.made_as else ""
        console.print(line((f"{moment}  ", "dim"), (_name(each.name), "cyan"), made_as, f"  {_name(what)}"))
        for key, text in each.metadata.items():
            console.print(line((_name(f"    {key}: {text}"), "dim")))
    if not found:
        console.print("There is no checkpoint.")


def _deleted(console: Console, gone: dict[str, object]) -> None:
    console.print(line("Would delete " if gone["dry_run"] else "Deleted ", (str(gone["path"]), "cyan")))


def _told(console: Console, restored: Restored) -> None:
    if restored.name:
        _restored(console, restored)
    if restored.recovery:
        recovery.show_recovery(console, restored.name, restored.recovery, restored.unrecorded)


def _restored(console: Console, restored: Restored) -> None:
    would = "would be " if restored.dry_run else ""
    for verb, names in (("written", restored.written), ("removed", restored.removed)):
        for name in names:
            console.print(line(f"{would}{verb}  ", (_name(name), "cyan")))
    for warning in _warnings(restored):
        console.print(line((warning, "yellow")))
    console.print(
        f"{_name(restored.name)}: {len(restored.written)} written, {len(restored.removed)} removed, "
        f"{restored.kept} left as they are, {sum(restored.rows.values())} rows."
    )
    if restored.sampled:
        console.print(f"A search finds {restored.found} of {restored.sampled} restored memories looked for.")
    if restored.backup:
        console.print(
            line((f"As it was before: scrimshaw checkpoint restore {restored.backup} --clear-existing", "dim"))
        )


def _warnings(restored: Restored) -> Iterator[str]:
    yield from (f"edited by hand: {_name(name)}" for name in restored.edits)
    yield from (f"purged since, left as it is: {_name(name)}" for name in restored.purged)
    yield from (f"came back redacted: {_name(name)}" for name in restored.redacted)
    if restored.is_purged_since:
        yield "Something was purged after this backup was made; purge it again: it may hold it."
    if restored.unrecorded:
        yield f"{restored.unrecorded} files are newer than the ledger; it took them as they are."
