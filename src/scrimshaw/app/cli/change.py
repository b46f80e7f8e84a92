"""The commands that write: save, edit, delete."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from scrimshaw import config
from scrimshaw.app.cli import options, render
from scrimshaw.app.cli.memory import open_memory
from scrimshaw.app.cli.options import content_of, example
from scrimshaw.app.cli.output import confirm, plain, show
from scrimshaw.engine import Engine, index, read, trust, write
from scrimshaw.errors import InvalidRequest, ReadOnly, said
from scrimshaw.ingest.instructions import FLAG, is_suspicious
from scrimshaw.models import Memory, MemoryType, Tier, Trust

app = typer.Typer()


class Deleted(Struct, frozen=True, kw_only=True):
    """What a deletion took, or would take."""

    ids: tuple[str, ...]
    purged: bool
    dry_run: bool


@app.command(epilog=example('scrimshaw save "We use apsw, since ..." --type decision --trigger "wal reset"'))
def save(
    text: Annotated[str, typer.Argument(help="The text in Markdown; - reads standard input.")] = "",
    file: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Take the text from a file.")] = None,
    title: Annotated[str, typer.Option(help="Without it, the first heading or line.")] = "",
    memory_id: Annotated[str, typer.Option("--id", help="Without it, made from the title.")] = "",
    type_: Annotated[MemoryType, typer.Option("--type", help="What kind of knowledge.")] = MemoryType.GENERAL,
    tier: Annotated[Tier, typer.Option(help="How much it matters.")] = Tier.NORMAL,
    trigger: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Words that bring it up (repeatable).")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="A topic (repeatable).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Even if the same text is there already.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be saved, and write nothing.")] = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Save a new memory: redacted, durable, found at once."""
    if bool(text) == bool(file):
        raise typer.BadParameter("Give the text, or - for standard input, or --file; one of them.")
    new = write.NewText(
        content=content_of(text, file),
        id=memory_id,
        title=title,
        type=type_,
        tier=tier,
        triggers=tuple(trigger or ()),
        topics=tuple(topic or ()),
        origin="cli",
        actor="human",
        trust=Trust.HUMAN,
    )
    if not dry_run:
        _demand_will(tier, yes)
    with open_memory(project) as engine:
        saved = write.save(engine, new, force=force, dry_run=dry_run)
    show(saved, as_json, render.saved)


@app.command(epilog=example("scrimshaw edit storage/wal-reset --tier critical --add-trigger 'disk image is malformed'"))
def edit(
    memory_id: options.MemoryId,
    title: Annotated[str | None, typer.Option(help="A new title.")] = None,
    tier: Annotated[Tier | None, typer.Option(help="A new tier.")] = None,
    type_: Annotated[MemoryType | None, typer.Option("--type", help="A new type.")] = None,
    add_trigger: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="One more trigger phrase (repeatable).")
    ] = None,
    remove_trigger: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="One trigger phrase less (repeatable).")
    ] = None,
    add_topic: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="One more topic (repeatable).")] = None,
    remove_topic: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="One topic less (repeatable).")] = None,
    content: Annotated[str | None, typer.Option(help="A new text; - reads standard input.")] = None,
    expect: Annotated[str, typer.Option(metavar="HASH", help="Only if the file has this content_hash.")] = "",
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Change a memory; without options in your $EDITOR."""
    changes: dict[str, object] = {"title": title, "tier": tier, "type": type_}
    with open_memory(project) as engine:
        memory = engine.memory(memory_id)
        doubts = _doubts(engine, memory_id) if tier == Tier.CONSTITUTIONAL else ()
        _demand_will(tier, yes, doubts)
        changes |= {
            "trigger_phrases": _changed(memory.triggers, add_trigger, remove_trigger),
            "topics": _changed(memory.topics, add_topic, remove_topic),
        }
        stated = {key: value for key, value in changes.items() if value is not None}
        if stated or content is not None:
            text = None if content is None else content_of(content)
            expected = expect or memory.content_hash
            saved = write.update(engine, memory_id, stated, content=text, expected_hash=expected, actor="human")
            saved = replace(saved, notices=doubts)
        else:
            saved = _edited_by_hand(engine, memory, yes)
    show(saved, as_json, render.saved)


@app.command(epilog=example("scrimshaw delete drafts/old drafts/older --yes"))
def delete(
    memory_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The memories.")],
    purge: Annotated[bool, typer.Option("--purge", help="Keep nothing for undo, in no checkpoint either.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and delete nothing.")] = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Delete memories with their files; their last content stays in the journal unless purged."""
    with open_memory(project) as engine:
        ids = tuple(dict.fromkeys(memory_ids))
        if dry_run:
            _demand_writable([engine.memory(memory_id) for memory_id in ids])
        else:
            confirm(f"Delete {', '.join(ids)}{' without a trace' if purge else ''}?", yes)
            write.delete(engine, ids, purge=purge, reason="deleted from the command line", actor="human")
    show(Deleted(ids=ids, purged=purge, dry_run=dry_run), as_json, render.deleted)


def _demand_will(tier: Tier | None, yes: bool, doubts: tuple[str, ...] = ()) -> None:
    """A constitutional memory stands above every answer, so a person says so twice, and knows whose words it holds."""
    if tier == Tier.CONSTITUTIONAL:
        confirm(" ".join((*doubts, "Show this memory before every answer from now on, to every agent?")), yes)


def _doubts(engine: Engine, memory_id: str) -> tuple[str, ...]:
    """What a person should know of a memory's words before vouching for them."""
    found = read.get(engine, memory_id)
    memory, words = found.memory, found.memory.provenance
    text = "\n".join((memory.title, *memory.triggers, found.body))
    whose = f"{plain(memory_id)} comes from {plain(words.source)}, trust {words.trust}."
    flagged = f"It is flagged as {FLAG}: it speaks to an agent."
    return tuple(
        sentence for sentence, holds in ((whose, words.trust != Trust.HUMAN), (flagged, is_suspicious(text))) if holds
    )


def _changed(present: tuple[str, ...], add: list[str] | None, remove: list[str] | None) -> list[str] | None:
    """The list with the additions and without the removals; None when there are neither."""
    if not add and not remove:
        return None
    return [item for item in dict.fromkeys((*present, *(add or ()))) if item not in (remove or ())]


def _demand_writable(memories: list[Memory]) -> None:
    for memory in memories:
        if not memory.writable:
            raise ReadOnly(f"{memory.id!r} is read from {memory.path}, which Scrimshaw never writes.")


def _edited_by_hand(engine: Engine, memory: Memory, yes: bool) -> write.Saved:
    """What the file says after the user's editor has closed; what a person wrote into a constitutional one stands."""
    _demand_writable([memory])
    editor = config.editor()
    if not editor:
        raise InvalidRequest("There is nothing to change.", "Name a change such as --title, or set EDITOR.")
    hint = "Set EDITOR to one that works."
    try:
        code = subprocess.run([*shlex.split(editor), memory.path], check=False).returncode
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"The editor {editor!r} failed: {said(error)}.", hint) from error
    if code:
        raise InvalidRequest(f"The editor {editor!r} failed: it ended with exit code {code}.", hint)
    index.scan(engine)
    after = engine.memory(memory.id)
    status = "unchanged" if after.content_hash == memory.content_hash else "updated"
    if status == "updated" and trust.notice(after):
        if memory.tier != Tier.CONSTITUTIONAL:
            _demand_will(Tier.CONSTITUTIONAL, yes, _doubts(engine, after.id))
        return write.update(engine, after.id, {"tier": Tier.CONSTITUTIONAL.value}, actor="human")
    return write.Saved(id=after.id, status=status, content_hash=after.content_hash, path=after.path)
