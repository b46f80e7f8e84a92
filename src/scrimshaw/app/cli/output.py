"""Where words go: results to standard output, everything else to standard error."""

import os
import sys
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

Lines = Iterable[str | Text]  # what a renderer gives: lines for people, plain or with styles
Advance = Callable[[int, int], None]


class _Console(Console):
    """A console that leaves the ending of the process to the program."""

    def on_broken_pipe(self) -> None:
        """The reader has gone."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """A console without guesses: no markup, no highlighting, lines of any length where nobody looks."""
    made = _Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    made.soft_wrap = not made.is_terminal
    return made


def plain(text: str) -> str:
    """The text as a terminal may be given it, since a memory's text may come from anywhere."""
    return replace_invisible(text.replace("\r\n", "\n"))


def line(*parts: str | tuple[str, str]) -> Text:
    """Parts of a line, each a text or a text with its style, safe for a terminal."""
    return Text.assemble(*(plain(part) if isinstance(part, str) else (plain(part[0]), part[1]) for part in parts))


def percent(share: float | None) -> str:
    """A share 0..1 with one decimal, a dash where there was nothing to measure."""
    return "-" if share is None else f"{share:.1%}"


def print_lines(lines: Lines, *, stderr: bool = False) -> None:
    """Lines on standard output, or beside the result."""
    target = console(stderr=stderr)
    for each in lines:
        target.print(line(each) if isinstance(each, str) else each)


def show(value: object, as_json: bool, render: Callable[[Any], Lines]) -> None:
    """The result on standard output, as JSON on one line or as `render` writes it for people."""
    if as_json:
        show_json(value)
        return
    with _reader_may_leave():
        print_lines(render(value))


def show_json(value: object) -> None:
    """The value on standard output as JSON on one line; what nobody would see in a string is spelled out."""
    with _reader_may_leave():
        typer.echo(escape_invisible(msgspec.json.encode(value).decode()))


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """A reader that has seen enough, as in `scrimshaw list | head`, is no error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(*texts: str) -> None:
    """Remarks beside the result."""
    print_lines((line((text, "yellow")) for text in texts), stderr=True)


def note_degradations(degradations: Iterable[Degradation]) -> None:
    """What could not be done, on standard error."""
    for each in degradations:
        instead = f" Instead: {each.fallback_mode}." if each.fallback_mode != "none" else ""
        note(f"Note: {each.failure_mode}{instead} {each.retry_recommendation}")


def complain(error: ScrimshawError, as_json: bool) -> None:
    """An expected error on standard error: a sentence and what to do, or a JSON object."""
    if as_json:
        fault = {"code": error.code, "message": error.message, "hint": error.hint, "details": error.details}
        typer.echo(msgspec.json.encode({"error": fault}, enc_hook=str), err=True)
    else:
        hint = [line((error.hint, "dim"))] if error.hint else []
        print_lines([line(("Error: ", "bold red"), error.message), *hint], stderr=True)


@contextmanager
def progress(what: str, as_json: bool) -> Iterator[Advance]:
    """A progress bar on a terminal, nothing elsewhere; call what it gives with (done, total)."""
    target = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=target, transient=True, disable=as_json or not target.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def confirm(question: str, yes: bool, refusal: InvalidRequest | None = None) -> None:
    """Ask before something that cannot be undone; raises InvalidRequest where nobody can answer, Abort on a no."""
    if not yes and not is_interactive():
        nobody = InvalidRequest(f"{question} Nobody is there to answer.", "Add --yes to go ahead.", parameter="yes")
        raise refusal or nobody
    if not yes:
        typer.confirm(question, abort=True, err=True)


def is_interactive() -> bool:
    """Whether a person sits at the other end."""
    return sys.stdin.isatty()
