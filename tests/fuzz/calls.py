"""Calls of the MCP tools, made from the tools' own schemas: mostly right, often wrong in one place."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from docs.tool_listing import input_schema
from tests.fuzz import seeds
from tests.fuzz.mutation import MARKED, VALUES, Mutator

from scrimshaw.app.mcp.schema import ToolSpec
from scrimshaw.app.mcp.tools import ALL_TOOLS

_Make = Callable[[str, dict[str, Any], Random], Any]

_IDS = ("storage/wal", "a", "b", "global/x", "no/such", "session:S1/1", "../x", "con", "a/" * 60 + "x", "A")
_DATES = ("", "2026", "2026-11-22", "2026-11-22T00:00:00Z", "9999-99-99", "0000")
_ID_NAMES = (
    "id",
    "source_id",
    "target_id",
    "folder",
    "name",
    "confirm_name",
    "task_id",
    "session_id",
)


def call_of(random: Random) -> str:
    """One call, as JSON with `tool` and `arguments`."""
    spec = random.choice(ALL_TOOLS)
    properties = _schema(spec)["properties"]
    required = _schema(spec).get("required", ())
    chosen = [name for name in properties if name in required or random.random() < 0.4]
    arguments: Any = {name: _value(name, properties[name], random) for name in chosen}
    if random.random() < 0.15:
        arguments = Mutator(("x",), random).changed(arguments)
    return json.dumps({"tool": spec.name, "arguments": arguments if isinstance(arguments, dict) else {}})


@cache
def _schema(spec: ToolSpec) -> dict[str, Any]:
    return input_schema(spec.call)


def _value(name: str, schema: dict[str, Any], random: Random) -> Any:
    if random.random() < 0.03:
        return random.choice(VALUES)
    if "enum" in schema:
        return random.choice(schema["enum"])
    make: _Make = _MAKERS.get(str(schema.get("type")), _text)
    return make(name, schema, random)


def _number(_: str, schema: dict[str, Any], random: Random) -> Any:
    least = schema.get("minimum", 0)
    most = schema.get("maximum", least + 10)
    if random.random() < 0.1:
        return random.choice([least - 1, most + 1, 2**31, 2**63 - 1, 2**63, 10**30, -(2**70)])
    return random.randint(int(least), int(most)) if schema["type"] == "integer" else random.uniform(least, most)


def _truth(_: str, __: dict[str, Any], random: Random) -> bool:
    return random.random() < 0.5


def _list(name: str, schema: dict[str, Any], random: Random) -> list[Any]:
    return [_value(name, schema["items"], random) for _ in range(random.choice([0, 1, 2, 3, 60]))]


def _object(name: str, _: dict[str, Any], random: Random) -> dict[str, Any]:
    return {random.choice(seeds.NAUGHTY): _text(name, {}, random) for _ in range(random.randrange(4))}


def _text(name: str, schema: dict[str, Any], random: Random) -> str:
    if name in _ID_NAMES and random.random() < 0.7:
        return random.choice(_IDS)
    if "pattern" in schema and random.random() < 0.8:
        return random.choice(_DATES)
    if random.random() < 0.15:
        return MARKED
    if random.random() < 0.3:
        return random.choice(seeds.NAUGHTY)
    text = Mutator(seeds.texts(), random).text()
    return text[: schema.get("maxLength", 3000)] if random.random() < 0.9 else text


_MAKERS: dict[str, _Make] = {
    "integer": _number,
    "number": _number,
    "boolean": _truth,
    "array": _list,
    "object": _object,
}
