"""Every help and the everyday answers on a narrow terminal, and without colours where NO_COLOR asks for that."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from tests.app.command_line import Cli, command_line, enter_project

from scrimshaw.app.cli.main import COMMAND

COLUMNS = 50
COLOUR = re.compile(r"\x1b\[(?:\d;)?[39]\d")


def list_names(group: Any = COMMAND, *before: str) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield (*before, name)
        if hasattr(command, "commands"):
            yield from list_names(command, *before, name)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    enter_project(tmp_path, monkeypatch)
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("TERMINAL_WIDTH", str(COLUMNS))
    return command_line(capsys)


def test_every_help_fits_a_narrow_terminal(cli: Cli) -> None:
    for name in list_names():
        shown = cli(*name, "--help")
        assert shown.code == 0
        assert max(map(len, shown.out.splitlines())) <= COLUMNS, " ".join(name)


def test_no_help_loses_words_in_brackets() -> None:
    """Rich takes `[storage]` for a style, and prints nothing of it."""
    for name in list_names():
        command: Any = COMMAND
        for part in name:
            command = command.get_command(None, part)
        texts = [command.help, command.epilog, *(getattr(each, "help", "") for each in command.params)]
        for text in filter(None, texts):
            assert Text.from_markup(text).plain == text, " ".join(name)


@pytest.mark.parametrize("arguments", [("search", "harbour"), ("list",), ("doctor",)])
def test_answers_wrap_and_have_no_colour_where_nobody_wants_any(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    said = list[str]()
    monkeypatch.setenv("TERM", "xterm-256color")
    for wish in ("", "1"):
        monkeypatch.setenv("NO_COLOR", wish)
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        assert cli(*arguments).code == 0
        said.append(terminal.getvalue())
    coloured, bare = said
    assert COLOUR.search(coloured)
    assert not COLOUR.search(bare)
    assert max(map(len, re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines())) <= COLUMNS
