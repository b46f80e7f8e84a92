"""The commands to begin and to move memories in and out: init, serve, setup, import, export."""

import sys
import webbrowser
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from msgspec.structs import replace

from scrimshaw.app import processes
from scrimshaw.app import setup as clients_setup
from scrimshaw.app.cli import frame, project_files, write
from scrimshaw.app.cli.frame import Texts, command, example, open_memory, settings_of
from scrimshaw.app.cli.output import Lines, confirm, is_interactive, line, note, print_lines, progress, show
from scrimshaw.app.clients import CLIENT_NAMES
from scrimshaw.app.clients.client import Scope
from scrimshaw.app.importing import EVERYTHING, ImportPlan, find_sources, name_guidance, name_sources, plan_import
from scrimshaw.engine import Engine, index, open_engine, trust
from scrimshaw.engine.core import explain_missing
from scrimshaw.engine.counts import export_jsonl, export_lines, export_markdown
from scrimshaw.engine.importers import ImportResult
from scrimshaw.errors import InvalidRequest, StorageFailure
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Filters, format_count
from scrimshaw.storage.scan import Source

app = typer.Typer()

Format = Literal["markdown", "jsonl", "html"]
CLIENT_CONFIG = {"mcpServers": {"scrimshaw": {"command": "scrimshaw", "args": ["serve"]}}}
MOST_LINES = 30
_SCOPE_ADVICE = {
    Scope.SHARED: "Commit the files; they work for all who have `scrimshaw` on the PATH, as after `uv tool install`.",
    Scope.LOCAL: "{} the files out of git: they name programs by paths of this machine.",
}
# Kinds of files recognised by name, besides guidance for clients.
_KINDS = {"readme": "readme", "changelog": "changelog", "changes": "changelog", "contributing": "contributing"}
PLACES_SHOWN = 5
_LEFT_OUT = load_table(__file__, "left_out", dict[str, dict[str, str]])
_WORDS = {"unchanged": "there already", "read": "read in place", "left": "left out"}
_STYLES = {"taken": "green", "left": "yellow", "failed": "red", "found": "cyan"}
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def _render_initialized(result: Mapping[str, Any]) -> Lines:
    made = f"created {', '.join(result['made'])}" if result["made"] else "everything existed already"
    yield line(("Memory of ", "bold"), (result["project"], "bold"), f": {made}")
    for source in result["sources"]:
        kinds = ", ".join(f"{count} {kind}" for kind, count in source["kinds"].items())
        yield line(f"{source['memories']:>7}  ", (source["name"], "cyan"), f"  {kinds or source['root']}")
    for reason, folders in result["left_out"].items():
        words, count = _LEFT_OUT[reason], sum(folders.values())
        places = ", ".join(f"{place} ({many})" for place, many in [*folders.items()][:PLACES_SHOWN])
        more = f" and {format_count(len(folders) - PLACES_SHOWN, 'more place')}" * (len(folders) > PLACES_SHOWN)
        yield line(f"{count:>7}  ", ("left out", "yellow"), f", {words['why']}: {places}{more}")
        yield line((f"         {words['change'].format(next(iter(folders)))}", "dim"))
    yield from frame.render_coverage(result["skipped"], result["vectors"])
    first, *others = CLIENT_NAMES
    yield f"\nConnect your agent:  scrimshaw setup {first}  (or {', '.join(others)})"
    yield f"Other clients:        {msgspec.json.encode(result['client_config']).decode()}"


def _render_sums(summary: Mapping[str, Any]) -> Lines:
    """A line for everything new, then the sums."""
    new = [each for each in summary["taken"] if each.status != "unchanged"]
    for each in new[:MOST_LINES]:
        details = [format_count(each.events, "event")] * bool(each.events) + [*each.memories, *each.reasons]
        status = (f"{each.status:<6}", _STYLES.get(each.status, ""))
        yield line(status, f" {each.source}  ", (each.place, "dim"))
        if details:
            yield line((f"       {'; '.join(details)}", "dim"))
    if len(new) > MOST_LINES:
        yield line((f"and {len(new) - MOST_LINES} more; --json lists all", "dim"))
    sums = (f"{count} {_WORDS.get(status, status)}" for status, count in sorted(summary["counts"].items()))
    counts = ", ".join(sums) or "nothing found"
    amounts = [format_count(summary["events"], "event"), format_count(summary["memories"], "memory")]
    is_early = summary["counts"]["found"] and summary["events"]  # sessions become memories later
    yield f"{counts}; {amounts[0] if is_early and not summary['memories'] else ', '.join(amounts)}"
    if (summary["vectors"] or {}).get("in_background"):
        yield frame.IN_BACKGROUND


def _exit_code(summary: Mapping[str, Any]) -> int:
    return StorageFailure.exit_code if summary["counts"]["failed"] else summary["interrupted"]


def _render_changes(result: Mapping[str, Any]) -> Lines:
    for file in result["files"]:
        yield line((f"{file['action']} ", "bold"), (file["path"], "cyan"))
        yield from (line((each, _DIFF_STYLES.get(each[:1], ""))) for each in file["diff"].splitlines()[2:])


def _render_setup(result: Mapping[str, Any]) -> Lines:
    if result["dry_run"] or not result["files"]:
        yield "Nothing was written." if result["files"] else "Nothing to change."
    note(*result["advice"])


@command(
    app, "init", "cd my-project && scrimshaw init", "--import",
    render=_render_initialized, fails=lambda result: _exit_code(result["imported"]) if result["imported"] else 0,
)  # fmt: skip
def init(
    project: Path | None,
    as_json: bool,
    import_: Annotated[bool | None, typer.Option("--import/--no-import", help="Earlier sessions; else asked.")] = None,
    no_vectors: frame.NoVectors = False,
    wait: frame.Wait = False,
) -> dict[str, Any]:
    """Create a project's memory and index its files; repeatable."""
    settings = settings_of(project)
    made, kept = project_files.create(settings)  # names in the project's Scrimshaw folder
    with open_engine(settings) as engine:
        with progress("Reading files") as advance:
            report = index.scan(engine, progress=advance)
        if claims := [] if as_json else trust.find_claims(engine):  # such as in a fresh clone
            note(f"Files that claim to be constitutional, and are important: {len(claims)}; see `scrimshaw trust`.")
            with suppress(typer.Abort, InvalidRequest):  # nobody can answer, or the answer is no
                write.vouch_for(engine)
        imported = _offer_import(engine, import_, as_json)
        in_haste = no_vectors or bool(imported and imported["interrupted"])
        index.catch_up(engine)  # including what was imported
        vectors = frame.begin_vectors(engine, skip=in_haste, wait=wait)
        sources = [describe_source(engine, each) for each in engine.sources]
        left_out = index.count_left_out_documents(engine)
    about = {"project": str(settings.project), "made": made, "kept": kept, "sources": sources, "left_out": left_out}
    return about | {"skipped": report.skipped, "vectors": vectors, "client_config": CLIENT_CONFIG, "imported": imported}


def describe_source(engine: Engine, source: Source) -> dict[str, Any]:
    """A source with how many memories it has, and of what kinds."""
    found = engine.index.select(Filters(source=source.name, include_deprecated=True))
    by_name = _KINDS | {Path(name).stem.lower(): "instructions" for name in name_guidance()}
    names = ((each, each.id.rpartition("/")[2].partition(".")[0].lower()) for each in found)
    kinds = Counter(by_name.get(name) or str(each.artifact).replace("unknown", "document") for each, name in names)
    fields = {"name": source.name, "root": str(source.root), "include": source.include, "writable": source.writable}
    return fields | {"memories": len(found), "kinds": dict(kinds.most_common())}


@app.command(epilog=example("scrimshaw serve --toolsets core,discovery", "scrimshaw serve --http"))
def serve(
    toolsets: Annotated[str, typer.Option(help="Groups of tools to offer, separated by commas, or all.")] = "core",
    http: Annotated[bool, typer.Option("--http", help="Over HTTP instead, for clients with a token.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 means any free port.")] = 7433,
    name: Annotated[Texts, typer.Option(help="What clients call the server (repeatable).")] = None,
    tls_cert: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Its key, PEM.")] = None,
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="A proxy in front handles TLS.")] = False,
    project: frame.Project = None,
) -> None:
    """Serve the memory to an agent over MCP, or a team over HTTP."""
    if http:
        from scrimshaw.app.http.server import Listener, serve_http  # noqa: PLC0415 - as heavy

        listener = Listener(host, port, tuple(name or ()), tls_cert, tls_key, behind_proxy)
        serve_http(settings_of(project), toolsets, listener)
        return
    from scrimshaw.app.serve import serve as run_server  # noqa: PLC0415 - the MCP SDK is heavy, only servers need it

    run_server(frame.find_folder(project), toolsets)


@app.command(epilog=example("scrimshaw ui", "scrimshaw ui --edit", "scrimshaw ui --port 8300 --no-open"))
def ui(
    edit: Annotated[bool, typer.Option("--edit", help="Add buttons to accept and reject drafts and to undo.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; default: any free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, do not open a browser.")] = False,
    project: frame.Project = None,
    as_json: frame.AsJson = False,
) -> None:
    """Show the memory in a browser, until Ctrl-C.

    Search, sessions, drafts to review, health, statistics: only for you, on this machine.
    """
    from scrimshaw.app.web.server import run_dashboard  # noqa: PLC0415 - a web server, only for this command

    def announce(url: str) -> None:
        show({"url": url}, as_json, lambda _: [url])
        if not no_open:
            webbrowser.open(url)

    with open_memory(project) as engine:
        if index.lacks_vectors(engine):
            processes.start_worker("make_vectors", engine.settings.project)
        run_dashboard(engine, port, announce, can_edit=edit)


@command(app, "import", "transcripts --dry-run", "claude-mem", "mem0 all.json", render=_render_sums, fails=_exit_code)
def import_(
    engine: Engine,
    source: Annotated[str, typer.Argument(help=f"One of {', '.join(name_sources())}; or a path to Markdown.")],
    path: Annotated[Path | None, typer.Argument(help="Its path, if not the usual one.")] = None,
    dry_run: frame.DryRun = False,
    all_projects: Annotated[bool, typer.Option("--all-projects", help="Take those of other projects too.")] = False,
    no_vectors: frame.NoVectors = False,
    wait: frame.Wait = False,
) -> dict[str, Any]:
    """Import earlier sessions or other memories.

    Redacted, checked for quality and imported only once. Safe to interrupt and to repeat.
    """
    plan = plan_import(engine, source, Path.home(), path, dry_run=dry_run, all_projects=all_projects)
    summary = _run_import(plan)
    if not any(summary["counts"].values()):
        advice = "name the folder of its sessions: `scrimshaw import CLIENT FOLDER --all-projects`."
        note(f"If the project had another path then, {advice}")
    if not (dry_run or summary["interrupted"]):
        index.catch_up(engine)
        summary["vectors"] = frame.begin_vectors(engine, skip=no_vectors, wait=wait)
    return summary


@app.command(epilog=example("scrimshaw export --output ../backup", "scrimshaw export --html memories.html"))
def export(
    format_: Annotated[Format, typer.Option("--format", help="How to write.")] = "markdown",
    output: Annotated[Path | None, typer.Option(help="A folder or file; else standard output.", **frame.OUTPUT)] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="One page to search in.", **frame.OUTPUT)] = None,
    private: Annotated[bool, typer.Option("--private", help="With --html: private ones and your vault too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there, without asking.")] = False,
    project: frame.Project = None,
    as_json: frame.AsJson = False,
) -> None:
    """Write the memories somewhere else, redacted once more."""
    from scrimshaw.app.web.report import export_html  # noqa: PLC0415 - only for this command

    if (output or format_ != "markdown") if html else not (output or format_ == "jsonl"):
        raise typer.BadParameter("Give --html, or --output with --format; only jsonl goes to standard output too.")
    format_, output = ("html", html) if html else (format_, output)
    with open_memory(project) as engine:
        if output is None:
            sys.stdout.buffer.writelines(export_lines(engine))
            return
        is_filled = any(output.iterdir()) if output.is_dir() else output.exists()
        confirm(f"{output} is not empty. Replace files of the same name?", force or not is_filled, "force")
        writers = {"markdown": export_markdown, "jsonl": export_jsonl}
        write = writers.get(format_, partial(export_html, with_private=private))
        if format_ == "markdown" and output.resolve().is_relative_to(engine.settings.project.resolve()):
            note(f"Searches find these copies too, unless git or index.exclude leaves out {output}.")
        exported = {"memories": write(engine, output), "format": format_, "place": str(output)}
    show(exported, as_json, lambda x: [line(f"Memories as {format_}: {x['memories']}, in ", (x["place"], "cyan"))])


@command(app, "report", "--html memory.html", render=lambda x: [line("Written to ", (x["place"], "cyan"))])
def report(
    engine: Engine,
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="The file to write.", **frame.OUTPUT)],
    force: frame.Force = False,
) -> dict[str, str]:
    """Write health, statistics and sessions as one page.

    The file is self-contained and runs nothing.
    """
    from scrimshaw.app.web.report import render_report  # noqa: PLC0415 - only for this command

    return {"place": frame.write_output(html, render_report(engine), force=force)}


def _run_import(plan: ImportPlan) -> dict[str, Any]:
    """Carry out an import plan with a progress bar; after Ctrl-C returns what was done so far."""
    results, texts = list[ImportResult](), set[str]()
    (total, work), interrupted = plan, False
    try:
        with progress("Importing") as advance:
            for result in work:  # a dry run does not see what it would have saved before
                results.append(replace(result, status="unchanged") if result.text_hash in texts else result)
                texts |= {result.text_hash} - {""}
                advance(len(results), max(total, len(results)))
    except KeyboardInterrupt:
        interrupted = True
        note("Interrupted. Run the same command again to continue.")
    new = [each for each in results if each.status in ("taken", "found")]
    return {
        "counts": Counter(each.status for each in results),
        "events": sum(each.events for each in results),
        "memories": len({(each.place, name) for each in new for name in each.memories}),  # one title has one id yet
        "taken": results,
        "interrupted": interrupted,
        "vectors": None,
    }


def _offer_import(engine: Engine, wanted: bool | None, as_json: bool) -> dict[str, Any] | None:
    """Offer an import to a person at a terminal, if there is something to import; returns the results."""
    if wanted is False or (wanted is None and (as_json or not is_interactive())):
        return None
    home = Path.home()
    if wanted is None:
        found = find_sources(engine, home)
        if all(each.live for each in found):
            return None
        for each in found:
            size = f", {each.size / 1e6:.1f} MB" if each.size >= 1e5 else ""
            live = "  read in place, nothing to import" if each.live else ""
            print_lines([line((each.kind, "cyan"), f"  {each.count}{size}  ", (each.place, "dim"), live)], stderr=True)
        if not typer.confirm("Import these? They are redacted first.", default=True, err=True):
            return None
    summary = _run_import(plan_import(engine, EVERYTHING, home))
    if not as_json:
        print_lines(_render_sums(summary), stderr=True)
    return summary


@command(app, "setup", CLIENT_NAMES[0], "all --dry-run", render=_render_setup)
def setup(
    project: Path | None,
    as_json: bool,
    client: Annotated[str, typer.Argument(help=f"One of {', '.join(CLIENT_NAMES)}; or all that are found.")],
    shared: Annotated[bool, typer.Option("--shared", help="In files to commit, for all who clone it.")] = False,
    local: Annotated[bool, typer.Option("--local", help="In your own files for this project.")] = False,
    user: Annotated[bool, typer.Option("--user", help="In your own files for all projects.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove our entries, shared ones with --shared.")] = False,
    dry_run: frame.DryRun = False,
    statusline: Annotated[bool, typer.Option("--statusline", help="Also a status line, if it can show one.")] = False,
    yes: frame.Yes = False,
) -> dict[str, Any]:
    """Connect an agent client: MCP server and hooks.

    Changes the client's own files after showing a diff: where it is connected already, or in your own files.
    """
    settings = settings_of(project)
    if client not in ("all", *CLIENT_NAMES):
        raise typer.BadParameter(f"{client!r} is not a client; there are {', '.join(CLIENT_NAMES)}.")
    scope = next((each for each, wanted in zip(Scope, (shared, local, user), strict=True) if wanted), None)
    if shared + local + user > 1:
        raise typer.BadParameter("Give one of --shared, --local and --user.")
    chosen = clients_setup.choose_clients(client, scope, remove)
    plans = list(clients_setup.plan_changes(chosen, scope, remove, settings.project, statusline))
    changes, planned = [x for *_, x in plans if not x.stays], {(each, where) for each, where, _ in plans}
    files = [{"path": str(each.path), "action": each.action, "diff": each.diff()} for each in changes]
    result = {"clients": [each.name for each in chosen], "dry_run": dry_run, "files": files}
    if not as_json:
        show(result, as_json, _render_changes)
    elif changes and not (dry_run or yes):
        print_lines(_render_changes(result), stderr=True)
    if changes and not dry_run:
        confirm("Make these changes?", yes)
        clients_setup.apply_changes(changes)
    is_hidden = not dry_run and clients_setup.hide_local_files(chosen, settings.project)
    advice = [each.advice for each in chosen]
    advice += [each.shared_advice for each in chosen if (each, Scope.SHARED) in planned]
    keeps = "`.git/info/exclude` keeps" if is_hidden else "Keep"
    advice += [text.format(keeps) for each, text in _SCOPE_ADVICE.items() if each in {where for _, where in planned}]
    kept = [f"{change.path} {change.stays}" for *_, change in plans if change.stays]
    advice = kept if remove else [*filter(None, advice)]
    if not (remove or settings.folder.is_dir()):
        advice.append(f"Nothing is recorded: {explain_missing(settings)}")
    return result | {"advice": advice}
