"""What mutation starts from: the repository's own tests, examples and documents."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.app.clients.record import load_records

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
NAUGHTY: tuple[str, ...] = tuple(json.loads((TESTS / "data/naughty_strings.json").read_text(encoding="utf-8")))


@cache
def literals(folder: str) -> tuple[str, ...]:
    """The texts that stand in the tests of a room, from which their tables are made."""
    found: dict[str, None] = {}
    for path in sorted((TESTS / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = (
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        found |= dict.fromkeys(text for text in texts if len(text) > 3)
    return tuple(found)


@cache
def documents() -> tuple[str, ...]:
    """Markdown files: the good and bad ones of the quality gate, the examples, the project's own pages."""
    folders = (TESTS / "ingest/quality_fixtures", ROOT / "examples/memories", ROOT / "docs")
    files = (path for folder in folders for path in sorted(folder.rglob("*.md"))[:60])
    return tuple(path.read_text(encoding="utf-8") for path in files) + literals("ingest")


def texts() -> tuple[str, ...]:
    """Anything that people, agents and tools write."""
    return (*documents(), *literals("session"), *NAUGHTY)


def payloads(client: str) -> tuple[str, ...]:
    """What a client's hooks send, as `[event hint, payload]`."""
    return tuple(json.dumps([case.hint, case.payload]) for case in load_records()[client].events)


def transcripts(client: str) -> tuple[str, ...]:
    """Sessions as a client writes them down."""
    record = load_records()[client].transcript
    return (record.source,) if record else ()


def configurations() -> tuple[str, ...]:
    """Configurations in TOML, as tests and the generated page write them."""
    found = (each for folder in (".", "app", "scenarios", "engine") for each in literals(folder) if "=" in each)
    return tuple(dict.fromkeys([*found, *_commented()]))


def _commented() -> Iterable[str]:
    from scrimshaw.app.cli.project_files import render_config

    text = render_config()
    return text, "\n".join(line.removeprefix("# ") for line in text.splitlines())
