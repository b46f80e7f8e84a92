"""Output: results to standard output, everything else to standard error."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from scrimshaw.errors import InvalidRequest, ScrimshawError
from scrimshaw.ingest.invisible_characters import escape_invisible, replace_invisible
from scrimshaw.models import Degradation

Lines = Iterable[str | Text]  # the result of a renderer: lines for people, plain or with styles
LINE_S = 30.0  # between lines of progress in a log; most commands end before the first
Advance = Callable[[int, int], None]


class _Console(Console):
    """A console that does not end the process."""

    def on_broken_pipe(self) -> None:
        """Raise the error for a reader that is gone."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """A console without markup or highlighting, and with lines of any length in a pipe."""
    made = _Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    made.soft_wrap = not made.is_terminal
    return made


def plain(text: str) -> str:
    """The text made safe for a terminal, since a memory's text may come from anywhere."""
    return replace_invisible(text.replace("\r\n", "\n"))


def line(*parts: str | tuple[str, str]) -> Text:
    """Parts of a line, each a text or a text with its style, safe for a terminal; what has a style breaks no line."""
    return Text.assemble(*(plain(part) if isinstance(part, str) else (flatten(part[0]), part[1]) for part in parts))


def flatten(text: str) -> str:
    """A name or title, which may have line breaks and tabs, as part of a line or of a table."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def percent(share: float | None) -> str:
    """A share 0..1 with one decimal, a dash if there was nothing to measure."""
    return "-" if share is None else f"{share:.1%}"


def print_lines(lines: Lines, *, stderr: bool = False) -> None:
    """Print lines on standard output, or on standard error."""
    target = console(stderr=stderr)
    for each in lines:
        target.print(line(each) if isinstance(each, str) else each)


def show(value: object, as_json: bool, render: Callable[[Any], Lines]) -> None:
    """Print the result on standard output, as JSON on one line without invisible characters, or as `render` says."""
    try:
        if as_json:
            typer.echo(escape_invisible(msgspec.json.encode(value).decode()))
        else:
            print_lines(render(value))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, as in `scrimshaw list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(*texts: str) -> None:
    """Print remarks on standard error."""
    print_lines((Text(plain(text), "yellow") for text in texts), stderr=True)


def note_degradations(degradations: Iterable[Degradation]) -> None:
    """Print degradations on standard error."""
    for each in degradations:
        instead = f" Instead: {each.fallback_mode}." if each.fallback_mode != "none" else ""
        advice = each.retry_recommendation.removesuffix(".")
        note(f"Note: {each.failure_mode.rstrip('.')}.{instead} {advice[:1].upper()}{advice[1:]}.".removesuffix(" ."))


def complain(error: ScrimshawError, as_json: bool) -> None:
    """Print an expected error on standard error: a sentence and what to do, or a JSON object."""
    if as_json:
        fault = {"code": error.code, "message": error.message, "hint": error.hint, "details": error.details}
        typer.echo(msgspec.json.encode({"error": fault}, enc_hook=str), err=True)
    else:
        hint = [Text(plain(error.hint), "dim")] if error.hint else []
        print_lines([line(("Error: ", "bold red"), error.message), *hint], stderr=True)


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """A progress bar on a terminal, elsewhere a line now and then; call the result with (done, total)."""
    target, told = console(stderr=True), [time.monotonic()]
    if not target.is_terminal:

        def tell(done: int, total: int) -> None:
            if time.monotonic() - told[0] >= LINE_S:
                told[0] = time.monotonic()
                target.print(f"{what}: {done} of {total}")

        yield tell
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=target, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def confirm(question: str, yes: bool, option: str = "yes") -> None:
    """Ask before what cannot be undone, unless an option says yes; InvalidRequest without a terminal, Abort on a no."""
    if yes:
        return
    if not is_interactive():
        message = f"{question} There is no terminal to ask."
        raise InvalidRequest(message, f"Add --{option} to confirm.", parameter=option)
    typer.confirm(question, abort=True, err=True)


def is_interactive() -> bool:
    return sys.stdin.isatty()
