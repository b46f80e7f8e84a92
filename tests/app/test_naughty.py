"""The big list of naughty strings through every tool and command: never a crash, and what is stored comes back exactly.

The tests take some strings of each kind; `SCRIMSHAW_ALL_NAUGHTY=1`, as `make fuzz` sets it, takes all 515.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from docs.tool_listing import input_schema

from scrimshaw.app.cli.main import main
from scrimshaw.app.mcp.backend import Memories
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import ALL_TOOLS
from scrimshaw.engine import Engine, read, write
from scrimshaw.engine.write import NewText
from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.comparison import hash_normalised_text
from scrimshaw.ingest.memory_file import LONGEST_QUESTION
from scrimshaw.ingest.redact import redact

pytestmark = pytest.mark.slow

STRINGS: list[str] = json.loads((Path(__file__).parents[1] / "data/naughty_strings.json").read_text(encoding="utf-8"))
WHOLE = bool(os.environ.get("SCRIMSHAW_ALL_NAUGHTY"))
# What a call needs besides the text in question.
NEEDED: dict[str, dict[str, Any]] = {
    "memory_context": {"input": "x"},
    "memory_get": {"id": "known"},
    "memory_save": {"content": "# Some\n\nText of its own.\n", "dry_run": True},
    "memory_update": {"id": "known"},
    "memory_match_triggers": {"prompt": "x"},
    "memory_dependencies": {"id": "known"},
    "memory_delete": {"confirm": True, "id": "none"},
    "memory_bulk_delete": {"tier": "temporary", "confirm": True, "dry_run": True},
    "memory_validate": {"id": "none", "was_useful": True},
    "memory_causal_link": {"source_id": "known", "target_id": "other", "relation": "supports"},
    "memory_causal_unlink": {"source_id": "known", "target_id": "other", "relation": "supports"},
    "memory_drift_why": {"id": "known"},
    "memory_ingest_start": {"paths": ["none.md"]},
    "memory_ingest_status": {"job_id": 1},
    "memory_ingest_cancel": {"job_id": 1},
    "checkpoint_create": {"name": "x"},
    "checkpoint_restore": {"name": "x", "dry_run": True},
    "checkpoint_delete": {"name": "x", "confirm_name": "x"},
    "task_preflight": {
        "folder": "s", "task_id": "t", "knowledge_score": 1, "uncertainty_score": 1, "context_score": 1,
    },
    "memory_get_learning_history": {"folder": "s"},
}  # fmt: skip
NEEDED["task_postflight"] = NEEDED["task_preflight"]


def strings(every: int) -> list[str]:
    """All strings, or one of so many where the whole list was not asked for."""
    return STRINGS if WHOLE else STRINGS[::every]


def takes_text(schema: dict[str, Any]) -> bool:
    inner = schema.get("items") or schema.get("additionalProperties") or schema
    return bool(inner.get("type") == "string" and "enum" not in inner)


def given(schema: dict[str, Any], text: str) -> Any:
    """The text in the shape that a parameter takes."""
    kind = schema["type"]
    return [text] if kind == "array" else {"key": text} if kind == "object" else text


PARAMETERS = [
    (spec.name, name)
    for spec in ALL_TOOLS
    for name, schema in input_schema(spec.call)["properties"].items()
    if takes_text(schema)
]


@pytest.fixture
def filled(engine: Engine) -> Engine:
    """A memory with two memories in it."""
    for name in ("known", "other"):
        write.save(engine, NewText(content=f"# About {name}\n\nWhat {name} is.\n", id=name), force=True)
    return engine


@pytest.mark.parametrize(("tool", "parameter"), PARAMETERS, ids=[".".join(pair) for pair in PARAMETERS])
def test_no_text_breaks_a_tool(filled: Engine, tool: str, parameter: str) -> None:
    schema = next(input_schema(spec.call)["properties"][parameter] for spec in ALL_TOOLS if spec.name == tool)
    dispatcher = Dispatcher(ALL_TOOLS, filled)
    for text in strings(45):
        outcome = dispatcher.dispatch(tool, NEEDED.get(tool, {}) | {parameter: given(schema, text)})
        assert outcome.error in ("", "invalid", "invalid_id", "not_found", "exists", "conflict", "unreadable"), text
        if outcome.error:
            assert outcome.reply["error"]["message"], text


def test_a_text_that_is_stored_comes_back_exactly(engine: Engine) -> None:
    for number, text in enumerate(strings(9)):
        content = f"# Number {number}\n\n{text}\n"
        saved = write.save(engine, NewText(content=content, id=f"n/{number}", title=text[:300]), force=True)
        found = read.get(engine, saved.id)
        assert found.body == redact(content).text, text
        title = " ".join(redact(text[:300]).text.split())
        assert not title or " ".join(engine.memory(saved.id).title.split()) == title, text
        assert saved.id in engine.index.find_ids(text_hash=hash_normalised_text(found.body)), text


def test_labels_that_are_stored_come_back_exactly(engine: Engine) -> None:
    for number, text in enumerate(strings(45)):
        label = " ".join(redact(text).text.split())
        new = NewText(
            content=f"# Number {number}\n\nSome text.\n{number}", id=f"n/{number}", triggers=(text,), topics=(text,),
            questions=(text,),
        )  # fmt: skip
        memory = engine.memory(write.save(engine, new, force=True).id)
        if label:
            assert [" ".join(each.split()) for each in (*memory.triggers, *memory.topics)] == [label, label], text
            assert memory.questions == (label[:LONGEST_QUESTION],), text


COMMANDS: list[list[str]] = [
    ["search", "{}"],
    ["search", "x", "--folder", "{}"],
    ["search", "x", "--topic", "{}"],
    ["search", "x", "--since", "{}"],
    ["search", "x", "--source", "{}"],
    ["search", "x", "--channels", "{}"],
    ["get", "{}"],
    ["get", "known", "--anchor", "{}"],
    ["list", "--folder", "{}"],
    ["stats", "--exclude", "{}"],
    ["save", "{}"],
    ["edit", "{}", "--title", "x"],
    ["edit", "known", "--title", "{}"],
    ["purge", "--memory", "{}", "--dry-run"],
    ["purge", "--secret", "{}", "--dry-run"],
    ["drafts", "consolidate", "--topic", "{}", "--dry-run"],
    ["golden", "add", "{}", "known"],
    ["lint", "{}"],
    ["rules", "test", "{}"],
    ["import", "files", "{}", "--dry-run"],
    ["delete", "{}", "--yes"],
    ["ledger", "show", "--memory", "{}"],
    ["undo", "--session", "{}", "--dry-run"],
    ["checkpoint", "create", "{}"],
    ["checkpoint", "delete", "{}", "--yes"],
    ["restore", "{}", "--dry-run"],
    ["drafts", "show", "{}"],
    ["resume", "--session", "{}"],
    ["{}"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_text_breaks_a_command(
    filled: Engine,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
) -> None:
    monkeypatch.setenv("SCRIMSHAW_HOME", str(project.parent / "home"))
    monkeypatch.chdir(project)
    for text in (*strings(180), "n" * 300):
        code = main([part.replace("{}", text) for part in command])
        assert code in (0, 1, 2, 3), text  # the codes of errors that are told; a crash raises
        told = capsys.readouterr()
        assert told.err or told.out or code == 0, text
        assert not set(told.out + told.err) & set("\x1b\x07\x08"), "a terminal would obey this"


@pytest.mark.parametrize("cursor", ["x", "-1", "²", "9" * 5000])
def test_a_foreign_cursor_is_refused(engine: Engine, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        Memories(engine).page(cursor)


def test_a_number_without_end_is_refused(engine: Engine) -> None:
    for tool, name in (("memory_ingest_status", "job_id"), ("memory_list", "offset")):
        assert Dispatcher(ALL_TOOLS, engine).dispatch(tool, {name: 2**64}).error == "invalid"


def test_half_a_character_is_refused(engine: Engine) -> None:
    outcome = Dispatcher(ALL_TOOLS, engine).dispatch("memory_search", {"query": "a \ud800"})
    assert outcome.error == "invalid"


def test_all_strings_are_taken_by_make_fuzz() -> None:
    assert len(STRINGS) == 515
    assert len(strings(9)) == (515 if WHOLE else 58)
