"""The commands about how memories relate and how they changed: link, unlink, why, graph, log."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import command
from scrimshaw.app.cli.output import Lines, line, note_degradations, plain
from scrimshaw.engine import Engine, links
from scrimshaw.engine.links import Drift, GraphStats, Linked
from scrimshaw.engine.revisions import MemoryLog, read_log
from scrimshaw.models import Neighbor, Relation, format_count

app = typer.Typer()

Direction = Literal["both", "incoming", "outgoing"]
DANGLING_SHOWN = 20
Source = Annotated[str, frame.complete(metavar="ID", help="The memory that states the relation.")]
Target = Annotated[str, frame.complete(metavar="OTHER", help="The memory it relates to.")]
Kind = Annotated[Relation, typer.Argument(help="Read from the first to the other: the new one supersedes the old.")]
Hops = Annotated[int, typer.Option(min=1, max=links.DEEPEST, help="Maximum number of steps.")]


def _render_linked(linked: Linked) -> Lines:
    named = (linked.source, "cyan"), f" {linked.relation} ", (linked.target, "cyan")
    yield line(*named, f"  {linked.status}", (f"  {linked.path}", "dim"))


def _render_edges(edges: Sequence[Neighbor]) -> Lines:
    for edge in edges:
        why = f"  {edge.evidence}" if edge.evidence else ""
        gone = ("  leads nowhere", "yellow") if edge.unresolved else ""
        yield line("  " * edge.hop, (edge.source, "cyan"), f" {edge.relation} ", (edge.target, "cyan"), why, gone)


def _render_drift(found: Drift) -> Lines:
    later = [edge.source for edge in found.replaced_by]
    yield f"Replaced by {', '.join(later)}; the first is the newest." if later else "Nothing replaced it."
    yield from _render_edges(sorted({edge for edges in found.chain.values() for edge in edges}, key=lambda x: x.hop))


def _render_graph(found: GraphStats | Sequence[Neighbor] | Mapping[str, str]) -> Lines:
    if isinstance(found, Mapping):
        yield line("Drawn in ", (found["place"], "cyan"))
        return
    if not isinstance(found, GraphStats):
        yield from _render_edges(found)
        return
    linked = f"{found.linked} of {format_count(found.memories, 'memory')}"
    yield f"{format_count(found.edges, 'relation')}; in {linked} ({found.coverage:.1%})"
    yield from (f"{count:>7}  {name}" for name, count in found.by_relation.items() if count)
    for edge in found.dangling[:DANGLING_SHOWN]:
        yield line((edge.source, "cyan"), f" {edge.relation} {edge.target}", ("  leads nowhere", "yellow"))


def _render_log(log: MemoryLog) -> Lines:
    for each in log.changes:
        source = each.commit[:10] or f"entry {each.entry}"
        was = f"  as {each.id}" if each.id != log.id else ""
        by = f"{each.by}, session {each.session}" if each.session else each.by
        when = each.at[:16].replace("T", " ")
        yield line((f"{when}  ", "dim"), (f"{source:<11}", "cyan"), each.what, (was, "yellow"))
        yield line((f"                  {by}", "dim"))
        yield from [plain(each.patch)] if each.patch else ()
    note_degradations(filter(None, [log.degradation]))


@command(app, "link", "storage/new supersedes storage/old --evidence 'bench 3'", render=_render_linked)
def link(
    engine: Engine,
    source: Source,
    relation: Kind,
    target: Target,
    strength: Annotated[float | None, typer.Option(min=0, max=1, help="How certain it is, 0 to 1; default 1.")] = None,
    evidence: Annotated[str | None, typer.Option(help="The reason for it.")] = None,
) -> Linked:
    """Add a relation between two memories."""
    source, target = frame.find_id(engine, source), frame.find_id(engine, target)
    return links.link(engine, source, target, relation, strength, evidence, actor="human")


@command(app, "unlink", "storage/new supersedes storage/old", render=_render_linked)
def unlink(engine: Engine, source: Source, relation: Kind, target: Target) -> Linked:
    """Remove a relation."""
    source, target = frame.find_id(engine, source), frame.find_id(engine, target)
    return links.unlink(engine, source, target, relation, actor="human")


@command(app, "why", "storage/old", render=_render_drift, reads=True)
def why(engine: Engine, memory_id: frame.MemoryId, hops: Hops = 3) -> Drift:
    """Show what replaced a memory, its causes and its effects."""
    return links.explain_drift(engine, frame.find_id(engine, memory_id), max_depth=hops)


@command(
    app, "graph", "", "storage/old --direction incoming", "storage/old --svg old.svg",
    render=_render_graph, reads=True, empty="No relation leads there.",
)  # fmt: skip
def graph(
    engine: Engine,
    memory_id: Annotated[str, frame.complete(metavar="[ID]", help="A memory; default: counts of all.")] = "",
    hops: Hops = 1,
    direction: Annotated[Direction, typer.Option(help="Only relations to it, or only from it.")] = "both",
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw two steps around it.", **frame.OUTPUT)] = None,
    force: frame.Force = False,
) -> GraphStats | list[Neighbor] | dict[str, str]:
    """Show the relations of a memory, or counts of all."""
    if not memory_id:
        if svg:
            raise typer.BadParameter("--svg draws the surroundings of one memory; name it.")
        return links.count_relations(engine)
    found = frame.find_id(engine, memory_id)
    if svg:
        from scrimshaw.app.web.graph import draw_file  # noqa: PLC0415 - only for a drawing

        return {"place": frame.write_output(svg, draw_file(engine, found), force=force)}
    return links.list_dependencies(engine, found, hops=hops, direction=direction)


@command(app, "log", "storage/wal-reset --patch", render=_render_log, reads=True)
def log(
    engine: Engine,
    memory_id: frame.MemoryId,
    patch: Annotated[bool, typer.Option("--patch", "-p", help="Show the lines that each commit changed.")] = False,
) -> MemoryLog:
    """Show who changed a memory and when, across renames.

    Lists its commits and its entries in the ledger.
    """
    return read_log(engine, frame.find_id(engine, memory_id), patches=patch)
