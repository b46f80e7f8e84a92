"""Tools and prompts as the protocol lists them: `make docs` writes it into the package, tests make their own.

The JSON Schemas are made from the signatures and kept short, since a client pays for them in every session:
references are inlined, and what a reader cannot use is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_type_hints

import msgspec
from mcp import types as wire

from scrimshaw.app.mcp.schema import RARE, ToolSpec

Schema = dict[str, Any]

# Redundant defaults and requirements.
SILENT: tuple[Any, ...] = (None, "", [], (), {})
_OUTPUT_WORDS = ("type", "description", "properties", "anyOf")


def list_tools(tools: Sequence[ToolSpec]) -> list[wire.Tool]:
    """What tools say of themselves."""
    return list(map(_wire_tool, tools))


def list_prompts(prompts: Sequence[ToolSpec]) -> list[wire.Prompt]:
    """What prompts say of themselves."""
    return list(map(_wire_prompt, prompts))


def input_schema(call: type[msgspec.Struct]) -> Schema:
    """JSON Schema of a tool's parameters, without the `null` that optional ones take: some model APIs refuse unions."""
    roots, definitions = msgspec.to_builtins(msgspec.json.schema_components([call]))
    return {"properties": {}, **_write_out(roots[0], definitions), "additionalProperties": False}


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


def _write_out(node: Schema, definitions: Schema) -> Schema:
    """The node with references inlined, and without words that are useless to a reader."""
    node = {word: value for word, value in resolve(node, definitions)[0].items() if value not in SILENT}
    if isinstance(node.get("default"), dict) or not node.get("default"):
        node.pop("default", None)
    for word in node.keys() & {"properties", "items", "additionalProperties", "anyOf", "prefixItems"}:
        value = node[word]
        if word == "properties":
            node[word] = {name: _write_out(child, definitions) for name, child in value.items()}
        elif isinstance(value, list):
            node[word] = [_write_out(child, definitions) for child in value]
        elif isinstance(value, dict):
            node[word] = _write_out(value, definitions)
    return node


def resolve(node: Schema, definitions: Schema) -> tuple[Schema, bool]:
    """The node's reference merged with its own keywords, without a `null` branch, and whether it had one."""
    # Class names and docstrings are not for clients; some model APIs require the type of an enum.
    target = definitions.get(node.get("$ref", "").removeprefix("#/$defs/"), {})
    merged = {word: value for word, value in target.items() if word != "description"} | node
    found = {word: value for word, value in merged.items() if word not in ("title", "$ref")}
    branches = found.get("anyOf", [])
    rest = [branch for branch in branches if branch != {"type": "null"}]
    if len(rest) == 1:  # a union left with one branch is that branch
        del found["anyOf"]
        found = resolve(rest[0], definitions)[0] | found
    elif rest:
        found["anyOf"] = rest
    if "enum" in found and all(isinstance(value, str) for value in found["enum"]):
        found = {"type": "string", **found}
    return found, len(rest) < len(branches)


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
