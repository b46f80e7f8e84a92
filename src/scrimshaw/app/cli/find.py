"""The commands that read: search, get, list, stats."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from scrimshaw.app.cli import options, render
from scrimshaw.app.cli.lint import show_quality
from scrimshaw.app.cli.memory import existing, fill_few, open_memory
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import note_degradations, show
from scrimshaw.engine import counts, index, read
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.lint import DAYS
from scrimshaw.models import Filters, Intent
from scrimshaw.search.results import SearchRequest

app = typer.Typer()


class Sort(StrEnum):
    """The orders of a list; dates newest first."""

    ID = "id"
    TITLE = "title"
    CREATED = "created"
    UPDATED = "updated"


class Group(StrEnum):
    """What memories can be counted by."""

    TIER = "tier"
    TYPE = "type"
    ARTIFACT = "artifact"
    SOURCE = "source"
    FOLDER = "folder"


@app.command(epilog=example('scrimshaw search "why not the standard sqlite3" --tier important --limit 5'))
@options.filtered
def search(
    query: Annotated[str, typer.Argument(help="A question, some words, an error message.")],
    filters: Filters,
    limit: Annotated[int | None, typer.Option(min=1, max=100, help="Most hits.")] = None,
    intent: Annotated[Intent | None, typer.Option(help="What the answer is for; else guessed.")] = None,
    channels: Annotated[str, typer.Option(help="Only some of: text, vector, trigger, graph.")] = "",
    budget: Annotated[int | None, typer.Option(min=1, help="Most tokens of all hits.")] = None,
    content: Annotated[bool, typer.Option("--content", help="Whole texts, not excerpts.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Why each hit stands where it stands.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="The stages of the search and their times.")] = False,
    no_scan: options.NoScan = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Find memories by words, by meaning and by trigger phrases."""
    wanted = options.channels_of(channels)
    with open_memory(project, fresh=False, with_rules=True) as engine:
        if not no_scan:
            index.catch_up(engine)
            fill_few(engine)
        request = SearchRequest(
            query=query,
            filters=filters,
            limit=limit,
            channels=wanted,
            intent=intent,
            include_content=content,
            token_budget=budget,
        )
        result = read.search(engine, request)
        told = engine.degradations.of(INDEX)
    show(result, as_json, partial(render.search, explain=explain, trace=trace))
    if not as_json:
        note_degradations(tuple(each for each in result.degradations if each not in told))


@app.command(epilog=example("scrimshaw get storage/wal-reset --anchor decision"))
def get(
    memory_id: options.MemoryId,
    anchor: Annotated[str, typer.Option(help="Only the section with this anchor.")] = "",
    no_scan: options.NoScan = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Print the text of a memory; in a pipe the text alone."""
    with open_memory(project, fresh=False) as engine:
        if not no_scan:
            index.catch_up(engine)
        found = read.get(engine, memory_id, anchor)
    show(found, as_json, render.text)
    if not as_json:
        note_degradations(found.degradations)


@app.command("list", epilog=example("scrimshaw list --type decision --sort updated --limit 50"))
@options.filtered
def list_(
    filters: Filters,
    sort: Annotated[Sort, typer.Option(help="The order; dates newest first.")] = Sort.UPDATED,
    limit: Annotated[int, typer.Option(min=1, max=counts.LARGEST_PAGE, help="Most memories.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="Pass over so many.")] = 0,
    no_scan: options.NoScan = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """List memories in an exact order; in a pipe one line each, fields separated by tabs."""
    with open_memory(project, fresh=not no_scan) as engine:
        page = counts.page(engine, filters, sort=sort, limit=limit, offset=offset)
    show(page, as_json, render.page)


@app.command(epilog=example("scrimshaw stats --by folder --type decision"))
@options.filtered
def stats(
    filters: Filters,
    by: Annotated[list[Group] | None, typer.Option(help="Show counts by this (repeatable).")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Not these ids (repeatable).")] = None,
    context: Annotated[bool, typer.Option("--context", help="What sessions were handed, in tokens.")] = False,
    quality: Annotated[bool, typer.Option("--quality", help="What the newest memories are worth.")] = False,
    days: Annotated[
        float | None, typer.Option(min=0.01, help=f"With --quality: created in so many days; {DAYS:g} without.")
    ] = None,
    no_scan: options.NoScan = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Count memories exactly, and say how large and how complete the index is; or what sessions were handed."""
    counted_by = filters != Filters() or by or exclude
    if (quality and context) or ((quality or context) and counted_by):
        raise typer.BadParameter("--quality and --context each answer alone, without filters, --by and --exclude.")
    if days is not None and not quality:
        raise typer.BadParameter("--days belongs to --quality.")
    if quality:
        show_quality(existing(project), days or DAYS, as_json)
        return
    if context:
        with open_memory(project, fresh=False) as engine:
            handed = counts.contexts(engine)
        show(handed, as_json, render.contexts)
        return
    groups = by or [Group.SOURCE, Group.TIER, Group.TYPE]
    with open_memory(project, fresh=not no_scan) as engine:
        counted = counts.stats(engine, filters, exclude=exclude or ())
    show(counted, as_json, partial(render.stats, by=groups))
    if not as_json:
        note_degradations(counted.degradations)
