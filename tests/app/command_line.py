"""A command line run in this process, and what it said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from scrimshaw.app.cli.main import main


@dataclass(frozen=True)
class Run:
    """What a command line left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


Cli = Callable[..., Run]


def command_line(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs command lines in the working folder."""

    def run(*arguments: str) -> Run:
        code = main(arguments)
        said = capsys.readouterr()
        return Run(code, said.out, said.err)

    return run
