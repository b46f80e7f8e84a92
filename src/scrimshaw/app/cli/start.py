"""The commands that begin: init, serve."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct
from rich.console import Console

from scrimshaw.app.cli import importing, options, project_files
from scrimshaw.app.cli.importing import ImportSummary, run_import, stop_if_interrupted
from scrimshaw.app.cli.memory import Vectors, fill_vectors, render_coverage, settings_of, settings_of_memory, vectors_of
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import console, is_interactive, line, progress, show
from scrimshaw.app.clients import CLIENT_NAMES
from scrimshaw.app.importing import EVERYTHING, FoundSource, ImportRequest, find_sources, plan_import
from scrimshaw.config import Settings
from scrimshaw.engine import Engine, index, open_engine
from scrimshaw.errors import ConfigError, StorageFailure, describe_os_error
from scrimshaw.models import Filters, Skip

app = typer.Typer()

CLIENT_CONFIG = {"mcpServers": {"scrimshaw": {"command": "scrimshaw", "args": ["serve"]}}}


class SourceCount(Struct, frozen=True, kw_only=True):
    """A source that is read, and how many memories it gave."""

    name: str
    root: str
    include: tuple[str, ...]
    writable: bool
    memories: int


class Initialized(Struct, frozen=True, kw_only=True):
    """What init made and found. `made` and `kept` are names in the project's Scrimshaw folder."""

    project: str
    made: tuple[str, ...]
    kept: tuple[str, ...]
    sources: tuple[SourceCount, ...]
    skipped: tuple[Skip, ...]
    vectors: Vectors
    client_config: dict[str, object]
    imported: ImportSummary | None = None


@app.command(epilog=example("cd my-project && scrimshaw init", "scrimshaw init --import"))
def init(
    import_: Annotated[
        bool | None,
        typer.Option(
            "--import/--no-import",
            help="Read transcripts of earlier sessions and other memories; without it, asked on a terminal.",
        ),
    ] = None,
    no_vectors: options.NoVectors = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Give a project its memory and index what it has; repeatable."""
    settings = settings_of(project)
    made, kept = _create_folder(settings)
    with open_engine(settings) as engine:
        with progress("Reading files", as_json) as advance:
            report = index.scan(engine, progress=advance)
        imported = _offer_import(engine, import_, as_json)
        in_haste = no_vectors or bool(imported and imported.interrupted)
        vectors = vectors_of(engine) if in_haste else fill_vectors(engine, as_json)
        result = Initialized(
            project=str(settings.project),
            made=tuple(made),
            kept=tuple(kept),
            sources=_count_sources(engine),
            skipped=report.skipped,
            vectors=vectors,
            client_config=dict(CLIENT_CONFIG),
            imported=imported,
        )
    show(result, as_json, _render_initialized)
    if imported:
        stop_if_interrupted(imported)


@app.command(epilog=example("scrimshaw serve --toolsets core,discovery"))
def serve(
    toolsets: Annotated[str, typer.Option(help="Groups of tools to offer, separated by commas, or all.")] = "core",
    project: options.Project = None,
) -> None:
    """Serve the memory to an agent over MCP on standard streams."""
    gc.disable()  # imports make no garbage, and looking for it in them costs 80 ms
    from scrimshaw.app.serve import serve as run_server  # noqa: PLC0415 - the MCP SDK is heavy, only servers need it

    gc.enable()
    run_server(settings_of_memory(project).project, toolsets)


def _offer_import(engine: Engine, wanted: bool | None, as_json: bool) -> ImportSummary | None:
    """What was taken in, if the user wants it; only a person at a terminal is asked, and only if there is something."""
    if wanted is False or (wanted is None and (as_json or not is_interactive())):
        return None
    home = Path.home()
    if wanted is None:
        found = find_sources(engine.settings.project, home)
        if all(each.live for each in found) or not _ask_for_import(found):
            return None
    result = run_import(engine, plan_import(engine, ImportRequest(source=EVERYTHING, home=home)), as_json)
    if not as_json:
        importing.render_summary(console(stderr=True), result)
    return result


def _ask_for_import(found: list[FoundSource]) -> bool:
    importing.render_sources(console(stderr=True), found)
    return typer.confirm("Start with what these hold? It is redacted first.", default=True, err=True)


def _create_folder(settings: Settings) -> tuple[list[str], list[str]]:
    if settings.folder == settings.home:
        raise ConfigError(
            f"{settings.folder} is your own vault, which every project reads.", "Run init in a project's folder."
        )
    try:
        return project_files.create(settings.folder)
    except OSError as error:
        raise StorageFailure(
            f"{settings.folder} cannot be made: {describe_os_error(error)}.", "Check permissions and space."
        ) from error


def _count_sources(engine: Engine) -> tuple[SourceCount, ...]:
    counts = engine.index.count(Filters(include_deprecated=True), by="source")
    return tuple(
        SourceCount(
            name=source.name,
            root=str(source.root),
            include=source.include,
            writable=source.writable,
            memories=counts.get(source.name, 0),
        )
        for source in engine.sources
    )


def _render_initialized(console: Console, result: Initialized) -> None:
    """What was made, what was found, and how to connect a client."""
    made = f"made {', '.join(result.made)}" if result.made else "everything was there already"
    console.print(line(("Memory of ", "bold"), (result.project, "bold"), f": {made}"))
    for source in result.sources:
        access = "" if source.writable else "  read only"
        where = source.root if source.writable else f"{source.root}: {', '.join(source.include)}"
        console.print(line(f"{source.memories:>7}  ", (source.name, "cyan"), f"  {where}{access}"))
    render_coverage(console, result.skipped, result.vectors)
    first, *others = CLIENT_NAMES
    console.print(f"\nConnect your agent:  scrimshaw setup {first}  (or {', '.join(others)})")
    console.print(f"Other clients:        {msgspec.json.encode(result.client_config).decode()}")
