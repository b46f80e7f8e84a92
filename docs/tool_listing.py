"""Tools and prompts as the protocol lists them: `make docs` writes it into the package, tests make their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_type_hints

import msgspec
from mcp import types as wire

from scrimshaw.app.mcp.schema import RARE, SILENT, Schema, ToolSpec, input_schema, resolve

_OUTPUT_WORDS = ("type", "description", "properties", "anyOf")


def list_tools(tools: Sequence[ToolSpec]) -> list[wire.Tool]:
    """What tools say of themselves."""
    return list(map(_wire_tool, tools))


def list_prompts(prompts: Sequence[ToolSpec]) -> list[wire.Prompt]:
    """What prompts say of themselves."""
    return list(map(_wire_prompt, prompts))


def output_schema(reply: type[msgspec.Struct]) -> Schema:
    """JSON Schema of a tool's reply, shortened to what readers need: names and types, nested values as `object`."""
    roots, definitions = msgspec.to_builtins(msgspec.json.schema_components([reply]))
    fields = resolve(roots[0], definitions)[0]["properties"]
    return {"type": "object", "properties": {name: _shorten(child, definitions) for name, child in fields.items()}}


def find_rare(call: type[msgspec.Struct]) -> list[str]:
    """The names of parameters that few calls need."""
    hints = get_type_hints(call, include_extras=True)
    return [name for name, hint in hints.items() if RARE in getattr(hint, "__metadata__", ())]


def _shorten(node: Schema, definitions: Schema) -> Schema:
    """The node with references resolved, and without words that are useless to a reader."""
    node, is_nullable = resolve(node, definitions)
    node = {word: node[word] for word in _OUTPUT_WORDS if node.get(word) not in SILENT}
    if "properties" in node:
        node = {"type": "object"}
    if "anyOf" in node:
        node["anyOf"] = [_shorten(child, definitions) for child in node["anyOf"]] + [{"type": "null"}] * is_nullable
    elif is_nullable and "type" in node:
        node["type"] = [node["type"], "null"]
    return node


def _wire_tool(spec: ToolSpec) -> wire.Tool:
    # The protocol ignores the other two hints for a tool that only reads.
    hints: dict[str, Any] = {"destructive_hint": spec.destructive, "idempotent_hint": spec.idempotent or None}
    return wire.Tool(
        name=spec.name,
        description=spec.description,
        input_schema=input_schema(spec.call),
        output_schema=output_schema(spec.reply),
        annotations=wire.ToolAnnotations(
            read_only_hint=spec.read_only, open_world_hint=False, **({} if spec.read_only else hints)
        ),
    )


def _wire_prompt(spec: ToolSpec) -> wire.Prompt:
    schema = input_schema(spec.call)
    required = schema.get("required", ())
    arguments = [
        wire.PromptArgument(name=name, description=parameter.get("description"), required=name in required)
        for name, parameter in schema["properties"].items()
    ]
    return wire.Prompt(name=spec.name, description=spec.description, arguments=arguments)
