"""The commands that keep the whole memory and bring it back: checkpoint create|list|restore|delete, backup, restore."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import existing, open_memory
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import confirm, line, note, show
from scrimshaw.engine import Engine, checkpoints, open_engine, restoring
from scrimshaw.engine.checkpoints import Checkpoint
from scrimshaw.engine.restoring import Restored

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


@app.callback()
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
        found = checkpoints.listed(engine, limit)
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
    with open_memory(project) as engine:
        path = checkpoints.path_of(engine, name)
        restored = _asked(engine, path, clear_existing, overwrite_edits, dry_run, yes)
    show(restored, as_json, _restored)


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
        path = checkpoints.path_of(engine, name)
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
    with open_memory(project) as engine:
        made = checkpoints.backup(engine, file, include_global=include_global)
    show(made, as_json, _made)


@files.command(epilog=example("scrimshaw restore ~/memory.scrim", "scrimshaw restore --newest"))
def restore(
    file: Annotated[Path | None, typer.Argument(exists=True, dir_okay=False, help="A backup.")] = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest checkpoint; a damaged journal goes.")] = False,
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
        with open_memory(project, fresh=False) as engine:  # so that an empty ledger is filled from the backup
            restored = _asked(engine, file, clear_existing, overwrite_edits, dry_run, yes)
    else:
        restored = _newest(project, yes)
    show(restored, as_json, _restored)


def _asked(engine: Engine, path: Path, clear: bool, overwrite: bool, dry_run: bool, yes: bool) -> Restored:
    planned = restoring.restore(engine, path, clear_existing=clear, overwrite_edits=overwrite, dry_run=True)
    if dry_run:
        return planned
    if clear and (planned.written or planned.removed):
        confirm(f"Write {len(planned.written)} files and remove {len(planned.removed)}?", yes)
    return restoring.restore(engine, path, clear_existing=clear, overwrite_edits=overwrite)


def _newest(project: Path | None, yes: bool) -> Restored:
    """What is missing from the newest checkpoint; only the journal's rows after a damaged one was moved away."""
    settings = existing(project)
    confirm("Bring back what is missing from the newest checkpoint? Stop running servers first.", yes)
    aside = restoring.set_aside(settings)
    if aside:
        note(f"The journal was damaged; it is kept as {aside}. The files are left as they are.")
    with open_engine(settings) as engine:
        restored, unusable = restoring.restore_newest(engine, rows_only=aside is not None)
    for error in unusable:
        note(error.message)
    return restored


def _made(console: Console, made: Checkpoint) -> None:
    rows = sum(made.rows.values())
    console.print(line((made.name, "cyan"), f"  {made.files} files, {rows} rows, {made.bytes} bytes"))
    console.print(line((made.path, "dim")))
    for name in made.left_out:
        console.print(line((f"left out, since it is no UTF-8 text: {name}", "yellow")))
    if made.dropped:
        console.print(line((f"dropped: {', '.join(made.dropped)}", "dim")))


def _list(console: Console, found: Sequence[Checkpoint]) -> None:
    for each in found:
        moment = datetime.fromtimestamp(each.created, UTC).strftime("%Y-%m-%d %H:%M")
        what = each.problem or f"{each.files} files, {sum(each.rows.values())} rows, {each.bytes} bytes"
        console.print(line((f"{moment}  ", "dim"), (each.name, "cyan"), f"  {what}"))
        for key, text in each.metadata.items():
            console.print(line((f"    {key}: {text}", "dim")))
    if not found:
        console.print("There is no checkpoint.")


def _deleted(console: Console, gone: dict[str, object]) -> None:
    console.print(line("Would delete " if gone["dry_run"] else "Deleted ", (str(gone["path"]), "cyan")))


def _restored(console: Console, restored: Restored) -> None:
    would = "would be " if restored.dry_run else ""
    for verb, names in (("written", restored.written), ("removed", restored.removed)):
        for name in names:
            console.print(line(f"{would}{verb}  ", (name, "cyan")))
    for name in restored.edits:
        console.print(line((f"edited by hand: {name}", "yellow")))
    for name in restored.purged:
        console.print(line((f"purged since, stays away: {name}", "yellow")))
    console.print(
        f"{restored.name}: {len(restored.written)} written, {len(restored.removed)} removed, "
        f"{restored.kept} left as they are, {sum(restored.rows.values())} rows."
    )
    if restored.sampled:
        console.print(f"A search finds {restored.found} of {restored.sampled} restored memories looked for.")
    if restored.backup:
        console.print(
            line((f"As it was before: scrimshaw checkpoint restore {restored.backup} --clear-existing", "dim"))
        )
    if restored.unrecorded:
        console.print(
            line((f"{restored.unrecorded} files are newer than the ledger; it took them as they are.", "yellow"))
        )
