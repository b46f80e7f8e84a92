"""The frame of commands: shared options, the open memory, its vectors, and printing the answer."""

import inspect
import math
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from scrimshaw import config
from scrimshaw.app import processes
from scrimshaw.app.background import LEASE_S
from scrimshaw.app.cli.output import Lines, confirm, line, note, note_degradations, progress, show
from scrimshaw.config import Settings, find_project, load
from scrimshaw.engine import Engine, counts, index, open_engine
from scrimshaw.engine.core import load_memory
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.sessions import ITEM_PREFIX
from scrimshaw.errors import InvalidRequest, NotFound, ScrimshawError, StorageFailure, describe_os_error
from scrimshaw.models import SESSIONS, Channel, Degradation, Filters, JobState, MemoryType, Skip, Tier
from scrimshaw.search.embedders import EmbedderUnavailable
from scrimshaw.storage.durable import write_file
from scrimshaw.storage.sql import earliest

_WorkT = TypeVar("_WorkT", bound=Callable[..., Any])
STDIN = "-"
SKIPS_SHOWN, NAMES_SHOWN = 20, 8
_AGO, _UNITS = re.compile(r"(\d{1,4})([hdw])"), {"h": "hours", "d": "days", "w": "weeks"}
IN_BACKGROUND = (
    "Search works at once; vectors are made in the background, and `scrimshaw doctor` shows how many are ready."
)
HEAD_START_S = 2.0  # enough for all vectors of a small project, with the model loaded


def _inherit(ctx: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """Allow options of every command in front of the command too."""
    return value or ctx.find_root().params.get(str(parameter.name), value)


def parse_date(value: str) -> str:
    """An option's ISO date as it is, or that of a time such as 2d ago."""
    if ago := _AGO.fullmatch(value):
        return (datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})).isoformat()
    try:
        if value:
            earliest(value)
    except InvalidRequest as error:
        raise typer.BadParameter(f"{error.message} {error.hint.removesuffix('.')}, or 12h, 2d, 1w ago.") from error
    return value


def demand_folder(place: Path | None) -> Path | None:
    """A place to write to, which needs a folder: a missing one is a typo, or a disk that is not there."""
    if place and not place.parent.is_dir():
        raise typer.BadParameter(f"There is no folder {place.parent}.")
    return place


def complete_id(incomplete: str) -> list[str]:
    """Shell completion: the ids that begin with the text; none without a memory."""
    with suppress(ScrimshawError), open_engine(load_memory(find_project(Path.cwd()))) as engine:
        return [each.id for each in engine.index.select(Filters()) if each.id.startswith(incomplete)]
    return []


_every_command = partial(typer.Option, callback=_inherit, rich_help_panel="Options of every command")
_PROJECT_HELP = "The project's folder; default: found from here."
Project = Annotated[Path | None, _every_command(exists=True, file_okay=False, help=_PROJECT_HELP)]
AsJson = Annotated[bool, _every_command("--json", help="Print JSON and nothing else.")]
NoScan = Annotated[bool, typer.Option("--no-scan", help="Do not look for changed files first.")]
NoVectors = Annotated[bool, typer.Option("--no-vectors", help="Do not make missing vectors now.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until all vectors are made, not in the background.")]
Texts = list[str] | None
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file, without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
complete = partial(typer.Argument, autocompletion=complete_id)
date = partial(typer.Option, metavar="DATE|12h|2d|1w", callback=parse_date)  # an ISO date in UTC, or so long ago
OUTPUT: Mapping[str, Any] = {"callback": demand_folder, "resolve_path": True}  # what a file or folder to write takes
MemoryId = Annotated[str, complete(metavar="ID", help="The memory's id, its path without .md.")]


def _common(project: Project = None, as_json: AsJson = False) -> None:
    """The options of every command."""


def _filters(
    tiers: Annotated[list[Tier] | None, typer.Option("--tier", help="Only this tier (repeatable).")] = None,
    types: Annotated[list[MemoryType] | None, typer.Option("--type", help="Only this type (repeatable).")] = None,
    topics: Annotated[Texts, typer.Option("--topic", metavar="TEXT", help="Only with all these (repeatable).")] = None,
    folder: Annotated[str, typer.Option(help="Only below this folder, or any whose path ends in it.")] = "",
    source: Annotated[str, typer.Option(help="Only this source, such as docs.")] = "",
    since: Annotated[
        str, date(help="Only updated (or created, or changed on disk) since this ISO date in UTC, or 2d ago.")
    ] = "",
    until: Annotated[str, date(help="Only updated (or else created) before this time, or on this day.")] = "",
    include_deprecated: Annotated[bool, typer.Option("--include-deprecated", help="Also deprecated memories.")] = False,
    min_quality_score: Annotated[
        float | None, typer.Option("--min-quality", min=0, max=1, help="Hide memories with a lower score.")
    ] = None,
) -> None:
    """The options that choose memories, by the fields of Filters."""


_COMMON = inspect.signature(_common, eval_str=True).parameters
_FILTERS = inspect.signature(_filters, eval_str=True).parameters
_GIVEN = {"engine", "settings", *_COMMON}


def example(*lines: str) -> str:
    """The last line of a command's help."""
    return "Example: " + "   or: ".join(lines)


def command_group(app: typer.Typer, name: str, what: str, arguments: str) -> typer.Typer:
    group = typer.Typer(name=name, help=what, epilog=example(f"scrimshaw {name} {arguments}"), no_args_is_help=True)
    app.add_typer(group)
    return group


def command(
    app: typer.Typer,
    name: str,
    *arguments: str,
    render: Callable[..., Lines],
    fresh: bool = True,
    reads: bool = False,
    fails: Callable[[Any], int] = lambda _: 0,
    empty: str = "",
    hidden: bool = False,
) -> Callable[[_WorkT], _WorkT]:
    """Make a command of a function that takes its own options and returns the answer that `render` writes for people.

    It may take what every command has: `engine`, the open memory, compared with its files if `fresh`; `filters`,
    from the options that choose memories; `settings`, of a project that has a memory; `project` and `as_json`.
    `render` may take options too; `empty` tells whether the answer is empty. `fails` returns the exit code. Examples
    are `arguments` after the command's name, or whole lines of a shell.
    """

    def build(work: _WorkT) -> _WorkT:
        named, (_, *wanted) = inspect.signature(work, eval_str=True).parameters, inspect.signature(render).parameters

        @wraps(work)
        def run(**values: Any) -> None:
            project, as_json = values["project"], values["as_json"]
            if "filters" in named:
                given = {key: values[key] for key in _FILTERS if values[key] is not None}
                values["filters"] = msgspec.convert(given, Filters)
            if "settings" in named:
                values["settings"] = settings_of_memory(project)
            with ExitStack() as stack:
                if "engine" in named:
                    opening = open_memory(project, None if values.get("no_scan") else fresh, reads=reads)
                    values["engine"] = stack.enter_context(opening)
                    counts.demand_known(values["engine"], values.get("filters", Filters()))
                answer = work(**{key: values[key] for key in named})
            chosen = {key: values[key] for key in wanted}
            show(answer, as_json, lambda each: render(each, **chosen) if each or not empty else [empty])
            if code := int(fails(answer)):
                raise typer.Exit(code)

        options: list[inspect.Parameter] = []
        for key, each in named.items():
            options += _FILTERS.values() if key == "filters" else () if key in _GIVEN else (each,)
        signature = inspect.Signature([*options, *_COMMON.values()])
        run.__signature__ = signature  # type: ignore[attr-defined]  # what typer reads
        before = " ".join(filter(None, ("scrimshaw", app.info.name, name)))
        examples = (each if "scrimshaw" in each else f"{before} {each}".strip() for each in arguments or ("",))
        app.command(name, epilog=example(*examples), hidden=hidden)(run)
        return work

    return build


def channels_of(names: str, *, alone: bool = False) -> tuple[Channel, ...]:
    """The channels in a list such as `text,vector`, all without one; BadParameter for `graph` alone, or if `alone`."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in set(Channel)]:
        raise typer.BadParameter(f"{unknown[0]!r} is not a channel; there are {', '.join(Channel)}.")
    if Channel.GRAPH in wanted and (alone or {*wanted} == {Channel.GRAPH}):
        raise typer.BadParameter("graph finds nothing by itself; it leads on from what text, vector and trigger found.")
    return tuple(map(Channel, wanted)) or tuple(Channel)


def content_of(text: str, file: Path | None = None) -> str:
    """A text as given, from standard input for `-`, or from a file; raises InvalidRequest if it is not UTF-8."""
    try:
        if file is not None:
            return file.read_text(encoding="utf-8-sig")
        return sys.stdin.buffer.read().decode("utf-8-sig") if text == STDIN else text
    except UnicodeDecodeError as error:
        name = "standard input" if file is None else str(file)
        raise InvalidRequest(f"The text from {name} is not UTF-8.", "Convert it first.", parameter="content") from error


def find_id(engine: Engine, name: str) -> str:
    """The id of a memory as printed in answers: its id, with or without .md, or its path, even with a line.

    Of a session's memory the end is enough. The id of a part of a session may have a short id for the session.
    """
    if part := re.fullmatch(rf"{ITEM_PREFIX}(.+)([/#]e?[\d.]+)", name):
        return f"{ITEM_PREFIX}{find_session(engine, part[1])}{part[2]}"
    path = re.sub(r":\d+\Z", "", name)
    ids = {file: state.memory_id for file, state in engine.index.manifest().items()}
    ends = [each for each in ids.values() if re.fullmatch(rf"({SESSIONS}/.*-)?{re.escape(name)}", each)]
    return ids.get(str(Path(path).absolute())) or (ends[0] if len(ends) == 1 else path.removesuffix(".md"))


def find_session(engine: Engine, name: str) -> str:
    """The id of a session, of which the beginning is enough; raises NotFound."""
    known = [each.id for each in engine.sessions.latest(limit=sys.maxsize)]
    known += (row["session"] for row in engine.journal.history())  # also of clients whose sessions are not recorded
    return find_by_beginning("session", name, known)


def find_recorded(engine: Engine, name: str) -> str:
    """The id of a session by that, its beginning, its name in answers, or its memory; raises NotFound."""
    by_memory = {each.memory_id: each.session for each in engine.sessions.records()}
    named = name.removeprefix(ITEM_PREFIX)
    known = engine.sessions.get(named)  # one already purged too, whose purge may have been killed
    return known.id if known else by_memory.get(find_id(engine, named)) or find_session(engine, named)


def note_records(engine: Engine, ids: Sequence[str]) -> None:
    """Tell of the sessions whose memories these are that searches still find them."""
    for each in engine.sessions.records():
        if each.memory_id in ids:
            note(f"The record of its session is still searched; `scrimshaw purge --session {each.session}` removes it.")


def find_by_beginning(kind: str, name: str, names: Iterable[str]) -> str:
    """The name itself, or the only one that begins with it; raises NotFound, which lists the candidates."""
    known = [*dict.fromkeys(filter(None, names))]
    found = [each for each in known if each.startswith(name)]
    if name in found or len(found) == 1:
        return name if name in found else found[0]
    hint = f"{'There are' if known else 'There is none'} {', '.join((found or known)[:NAMES_SHOWN])}".strip()
    raise NotFound(f"{'Several' if found else 'No'} {kind}s begin with {name!r}.", f"{hint}.", name=name)


def write_output(path: Path, text: str, *, force: bool) -> str:
    """Write a file that a person named, asking before replacing one; returns its path. Raises StorageFailure."""
    confirm(f"{path} exists already. Replace it?", force or not path.exists(), "force")
    write_file(path, text.encode())
    return str(path)


def run_editor(path: Path, line: int = 0) -> None:
    """Wait for the user's editor on a file; raises InvalidRequest if there is none, or it fails."""
    if not (editor := split_command(config.editor())):
        raise InvalidRequest("No editor is set.", "Set EDITOR, or give the changes as options.")
    program, place = Path(editor[0]).stem, [str(path)]
    if line and program in ("vi", "vim", "nvim", "nano", "emacs", "micro"):
        place = [f"+{line}", str(path)]
    elif line and program in ("code", "codium", "cursor"):
        place = ["--goto", f"{path}:{line}"]
    try:
        code = subprocess.run([*editor, *place], check=False).returncode
        fault = f"it ended with exit code {code}" if code else ""
    except OSError as error:
        fault = describe_os_error(error)
    if fault:
        raise InvalidRequest(f"The editor {' '.join(editor)!r} failed: {fault}.", "Set EDITOR to one that works.")


def split_command(command: str, *, on_windows: bool = os.name == "nt") -> list[str]:
    """The words of a command line as the system's own shell reads them; raises InvalidRequest."""
    try:  # backslashes are part of a path on Windows
        words = shlex.split(command, posix=not on_windows)
    except ValueError as error:
        raise InvalidRequest(f"EDITOR cannot be read: {error}.", "Set EDITOR to one that works.") from error
    return [word.strip('"') for word in words] if on_windows else words


def find_folder(project: Path | None) -> Path:
    """The folder of the named project, or of the one around the working folder."""
    return project.absolute() if project else find_project(Path.cwd())


def settings_of(project: Path | None, read: Callable[[Path], Settings] = load) -> Settings:
    """The settings of the named project, or of the one around the working folder; keys without effect are noted."""
    settings = read(find_folder(project))
    note(*settings.ignored)
    return settings


settings_of_memory = partial(settings_of, read=load_memory)  # raises ConfigError for a project without a memory


@contextmanager
def open_memory(project: Path | None, fresh: bool | None = True, *, reads: bool = False) -> Iterator[Engine]:
    """Open the memory of a project; if `fresh`, including changes of its files since the last scan.

    None reads the files only if the index was removed, which would answer with nothing. If the index could not follow
    the files, a note at the end says so.
    """
    with open_engine(settings_of_memory(project)) as engine:
        if fresh or (fresh is None and not engine.index.generation()):
            (index.catch_up if reads else index.scan)(engine)  # what changes files must know how they are
        yield engine
        note_degradations(engine.degradations.of(INDEX))


def fill_few(engine: Engine) -> None:
    """Make the vectors of a few new chunks, so that a note just written is found by meaning."""
    with suppress(StorageFailure, EmbedderUnavailable):  # the following search reports it with its answer
        ready, total = index.count_vectors(engine, record=False)
        if 0 < total - ready <= index.EMBED_BATCH:
            index.embed_pending(engine, record=False)
            _settle_embed_job(engine)


def begin_vectors(engine: Engine, *, skip: bool, wait: bool) -> dict[str, Any]:
    """Make missing vectors for a moment, with `wait` all; what `fill_vectors` returns, and if a process makes more."""
    vectors = fill_vectors(engine, skip=skip, most_s=math.inf if wait else HEAD_START_S)
    in_background = not (skip or wait or vectors["degradation"]) and index.lacks_vectors(engine)
    if in_background:
        processes.start_worker("make_vectors", engine.settings.project)
    return vectors | {"in_background": in_background}


def fill_vectors(engine: Engine, *, skip: bool = False, most_s: float = math.inf) -> dict[str, Any]:
    """Make missing vectors for so many seconds, unless `skip`; how many were made, are there and are due, any error."""
    made, began, degradation = 0, time.monotonic(), None
    if not skip and isinstance(engine.embedder, Degradation):
        degradation = engine.embedder
    elif not skip:
        with progress("Making vectors") as advance, engine.degradations.note_failure(INDEX):

            def keep_going(done: int, total: int) -> bool:
                advance(done, total)
                return time.monotonic() - began <= most_s

            try:
                made = index.embed_pending(engine, keep_going)
            except EmbedderUnavailable as error:
                degradation = error.degradation
            except KeyboardInterrupt:
                ready, total = index.count_vectors(engine)
                note(f"Vectors: {ready} of {total}. `scrimshaw scan` continues; a server does so by itself.")
                raise
            _settle_embed_job(engine)
    ready, total = index.count_vectors(engine)
    return {"made": made, "ready": ready, "total": total, "degradation": degradation}


def _settle_embed_job(engine: Engine) -> None:
    """End the waiting job if every vector is made."""
    if job := engine.journal.claim((engine.embed_job,), LEASE_S):
        engine.journal.finish(job, JobState.QUEUED if index.lacks_vectors(engine) else JobState.DONE)


def describe_skip(skip: Skip) -> str:
    """A skipped file and why, or what is wrong with it."""
    reason = skip.reason if skip.reason.startswith(skip.path) else f"{skip.path}: {skip.reason}"
    return f"{reason.removesuffix('.')}; found by its text alone." if skip.is_found else reason


def render_coverage(skips: Sequence[Skip], vectors: Mapping[str, Any]) -> Lines:
    """The skipped files, and how many vectors are made."""
    if skips:
        yield line((f"{len(skips)} skipped, or broken and found by their text alone", "yellow"))
    yield from (f"         {describe_skip(skip)}" for skip in skips[:SKIPS_SHOWN])
    if len(skips) > SKIPS_SHOWN:
        yield f"         and {len(skips) - SKIPS_SHOWN} more; `scrimshaw doctor` names all"
    if vectors["degradation"]:
        note_degradations((vectors["degradation"],))
    else:
        yield "Pieces with a vector: {ready} of {total}, {made} made now".format_map(vectors)
    if vectors.get("in_background"):
        yield IN_BACKGROUND
