"""The commands that read: search, get, list, stats, resume."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import typer
from msgspec.structs import replace
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.examine import show_quality
from scrimshaw.app.cli.memory import fill_few, open_memory, settings_of_memory
from scrimshaw.app.cli.options import command, example, with_filters
from scrimshaw.app.cli.output import line, note_degradations, plain, show
from scrimshaw.app.hooks.fencing import neutralise, neutralise_state_lines
from scrimshaw.engine import Engine, counts, index, read
from scrimshaw.engine.context import resume_state
from scrimshaw.engine.counts import MemoryPage, SessionTokens, Stats
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.lint import DAYS
from scrimshaw.engine.read import MemoryText
from scrimshaw.errors import NotFound
from scrimshaw.ingest.instructions import FLAG, is_suspicious
from scrimshaw.models import Filters, Intent, Memory, Trust
from scrimshaw.search.results import Hit, SearchRequest, SearchResult
from scrimshaw.session.resume import Occasion

app = typer.Typer()

SESSIONS_SHOWN = 20

Sort = Literal["id", "title", "created", "updated"]


class Group(StrEnum):
    """What memories can be counted by."""

    TIER = "tier"
    TYPE = "type"
    ARTIFACT = "artifact"
    SOURCE = "source"
    FOLDER = "folder"


@app.command(epilog=example('scrimshaw search "why not the standard sqlite3" --tier important --limit 5'))
@with_filters
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
    request = SearchRequest(
        query=query,
        filters=filters,
        limit=limit,
        channels=options.channels_of(channels),
        intent=intent,
        include_content=content,
        token_budget=budget,
    )
    with open_memory(project, fresh=False, with_rules=True) as engine:
        if not no_scan:
            index.catch_up(engine)
            fill_few(engine)
        result = read.search(engine, request)
        noted = engine.degradations.of(INDEX)
    show(result, as_json, partial(_render_hits, explain=explain, trace=trace))
    if not as_json:
        note_degradations(tuple(each for each in result.degradations if each not in noted))


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
    show(found, as_json, render_text)
    if not as_json:
        note_degradations(found.degradations)


def _render_page(console: Console, result: MemoryPage) -> None:
    """One line a memory, on a terminal with its place among all; elsewhere fields between tabs."""
    for memory in result.memories:
        fields = [memory.tier, memory.type, memory.updated[:10], " ".join(memory.title.split())]
        if console.is_terminal:
            console.print(line((memory.id, "cyan"), "  ", "  ".join(fields)))
        else:
            sys.stdout.write(plain("\t".join([memory.id, *fields])) + "\n")
    if console.is_terminal:
        last = result.offset + len(result.memories)
        console.print(line((f"up to {last} of {result.total}", "dim")))


@command(app, "list", "scrimshaw list --type decision --sort updated --limit 50", render=_render_page)
@with_filters
def list_memories(
    engine: Engine,
    filters: Filters,
    sort: Annotated[Sort, typer.Option(help="The order; dates newest first.")] = "updated",
    limit: Annotated[int, typer.Option(min=1, max=counts.LARGEST_PAGE, help="Most memories.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="Pass over so many.")] = 0,
    no_scan: options.NoScan = False,
) -> MemoryPage:
    """List memories in an exact order.

    In a pipe one line each, fields separated by tabs.
    """
    return counts.page(engine, filters, sort=sort, limit=limit, offset=offset)


@app.command(epilog=example("scrimshaw stats --by folder --type decision"))
@with_filters
def stats(
    filters: Filters,
    by: Annotated[list[Group] | None, typer.Option(help="Show counts by this (repeatable).")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Not these ids (repeatable).")] = None,
    context: Annotated[bool, typer.Option("--context", help="What sessions were handed, in tokens.")] = False,
    quality: Annotated[bool, typer.Option("--quality", help="What the newest memories are worth.")] = False,
    days: Annotated[float | None, typer.Option(min=0.01, help=f"For --quality; else {DAYS:g}.")] = None,
    no_scan: options.NoScan = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Count memories, or measure their quality and cost.

    Counts are exact, and say how large and how complete the index is.
    """
    counted_by = filters != Filters() or by or exclude
    if (quality and context) or ((quality or context) and counted_by):
        raise typer.BadParameter("--quality and --context each answer alone, without filters, --by and --exclude.")
    if days is not None and not quality:
        raise typer.BadParameter("--days belongs to --quality.")
    if quality:
        show_quality(settings_of_memory(project), days or DAYS, as_json)
        return
    if context:
        with open_memory(project, fresh=False) as engine:
            handed = counts.contexts(engine)
        show(handed, as_json, _render_contexts)
        return
    groups = by or [Group.SOURCE, Group.TIER, Group.TYPE]
    with open_memory(project, fresh=not no_scan) as engine:
        counted = counts.stats(engine, filters, exclude=exclude or ())
    show(counted, as_json, partial(_render_stats, by=groups))
    if not as_json:
        note_degradations(counted.degradations)


def _render_state(console: Console, resumed: Mapping[str, Any]) -> None:
    part = ""
    for each in resumed["lines"]:
        if each.part != part:
            part = each.part
            console.print(line((part, "bold")))
        console.print(line(f"  {each.text}", (f"  {each.origin}, trust {each.trust}", "dim")))
    if not resumed["lines"]:
        console.print("The session recorded nothing.")


@command(app, "resume", "scrimshaw resume --occasion start --budget 400", render=_render_state, fresh=False)
def resume(
    engine: Engine,
    session: Annotated[str, typer.Option(help="A session; else the last one.")] = "",
    occasion: Annotated[Occasion, typer.Option(help="What it is for; each brings something else.")] = Occasion.RESUME,
    budget: Annotated[int | None, typer.Option(min=1, help="Most tokens; else context.resume_tokens.")] = None,
) -> dict[str, Any]:
    """Where the last session was.

    Its task, decisions, failures, commits, files, and what it paid attention to.
    """
    found = engine.sessions.get(session) if session else next(iter(engine.sessions.latest()), None)
    if found is None:
        raise NotFound("There is no session to resume.", "Sessions come from the hooks of an agent client.")
    lines, tokens, omitted = resume_state(engine, found, occasion, budget or engine.settings.context.resume_tokens)
    about = replace(found, task=neutralise(found.task))
    return {"session": about, "lines": neutralise_state_lines(lines), "tokens": tokens, "omitted": omitted}


def _render_hits(console: Console, result: SearchResult, *, explain: bool, trace: bool) -> None:
    """Hits, best first, each with its excerpt."""
    for hit in result.always_on:
        console.print(line(("always on  ", "yellow"), (hit.memory.id, "cyan"), "  ", hit.memory.title))
    for number, hit in enumerate(result.hits, start=1):
        _render_hit(console, number, hit, explain)
    if not result.hits:
        console.print("No memory matches.")
    if result.omitted:
        console.print(line((f"{result.omitted} more did not fit the budget.", "dim")))
    if trace:
        console.print(line((f"intent {result.intent} ({result.confidence:g}), {result.tokens} tokens", "dim")))
        for stage in result.trace:
            notes = msgspec.json.encode(stage.notes).decode()
            counts = f"{stage.stage:<10} {stage.entered:>5} -> {stage.left:<5} {stage.ms:>8.2f} ms"
            console.print(line((f"{counts}  {notes}", "dim")))


def _render_hit(console: Console, number: int, hit: Hit, explain: bool) -> None:
    memory = hit.memory
    place = f"{memory.id}#{hit.anchor}" if hit.anchor else memory.id
    console.print(line((f"{number}. ", "dim"), (memory.title, "bold"), (f"  {hit.score:.3f}", "dim")))
    console.print(line("   ", (place, "cyan"), (f"  {_describe(memory, hit.text)}", "dim")))
    if hit.text.strip():
        console.print(line(textwrap.indent(hit.text.strip(), "   ")))
    if explain:
        console.print(line((f"   {_explain(hit)}", "dim")))
    console.print()


def _describe(memory: Memory, text: str = "") -> str:
    """Tier, type, source and date; who vouches where that is no person, and a warning of what speaks to an agent."""
    trust = memory.provenance.trust
    unvouched = trust != Trust.HUMAN
    warning = FLAG if unvouched and is_suspicious(f"{memory.title}\n{text}") else ""
    stated = (memory.tier, memory.type, memory.source, memory.updated[:10])
    return "  ".join(filter(None, (*stated, f"trust {trust}" if unvouched else "", warning)))


def _explain(hit: Hit) -> str:
    why = hit.explanation
    found = [f"{channel} rank {rank} ({why.raw.get(channel, 0):g})" for channel, rank in why.ranks.items()]
    lowered = [f"{name} x{factor:g}" for name, factor in why.factors.items()]
    lifted = [f"{name} +{boost:g}" for name, boost in why.boosts.items()]
    phrases = [f"trigger {phrase!r}" for phrase in why.phrases]
    return "; ".join([*found, f"fused {why.fused:g}", *lowered, *lifted, *phrases])


def render_text(console: Console, found: MemoryText) -> None:
    """The text under its title on a terminal; elsewhere the text as it is."""
    if not console.is_terminal:
        sys.stdout.write(found.body if found.body.endswith("\n") else f"{found.body}\n")
        return
    memory = found.memory
    console.print(line((memory.title, "bold"), ("  " + _describe(memory, found.body), "dim")))
    console.print(line((f"{memory.path}  {found.content_hash}", "dim")))
    console.print()
    console.print(line(found.body))


def _render_stats(console: Console, result: Stats, *, by: Sequence[str]) -> None:
    """Counts by group, then the condition of the index."""
    console.print(f"{result.total} memories, updated {result.oldest[:10] or '-'} to {result.newest[:10] or '-'}")
    counts: Mapping[str, Mapping[str, int]] = {
        "tier": result.by_tier,
        "type": result.by_type,
        "artifact": result.by_artifact,
        "source": result.by_source,
        "folder": {folder.name: folder.count for folder in result.folders},
    }
    for name in by:
        console.print(line((f"by {name}", "bold")))
        for key, count in sorted(counts[name].items(), key=lambda pair: (-pair[1], pair[0])):
            console.print(line(f"{count:>7}  ", key or "-"))
    ready, total = result.vectors
    console.print(
        f"vectors {ready} of {total}, waiting jobs {result.waiting_jobs}, skipped files {len(result.skipped)}"
    )
    console.print(f"index {_format_size(result.index_bytes)}, journal {_format_size(result.journal_bytes)}")


def _format_size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{count / 1000:.0f} KB"


def _render_contexts(console: Console, results: Sequence[SessionTokens]) -> None:
    """What the newest sessions were handed, by occasion, and what all were."""
    for each in results[:SESSIONS_SHOWN]:
        used = "unknown" if each.context_used is None else f"{each.context_used:.0%}"
        console.print(line((each.session, "cyan"), f"  {each.client or '-'}, context in use {used}"))
        for row in each.occasions:
            console.print(line(f"  {row.occasion:<22}", _format_counts(row.times, row.tokens, row.hits)))
        console.print(line((f"  {'in all':<22}{_format_counts(each.times, each.tokens, each.hits)}", "bold")))
    tokens, times = sum(each.tokens for each in results), sum(each.times for each in results)
    console.print(f"{len(results)} sessions were handed {times} texts of {tokens} tokens in all.")


def _format_counts(times: int, tokens: int, hits: int) -> str:
    return f"{times:>6} texts {tokens:>9} tokens {hits:>7} hits"
