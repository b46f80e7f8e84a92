"""Tools and prompts as the protocol lists them: `make docs` writes it into the package, tests make their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp import types as wire

from scrimshaw.app.mcp.schema import ToolSpec, input_schema, output_schema


def list_tools(tools: Sequence[ToolSpec]) -> list[wire.Tool]:
    """What tools say of themselves."""
    return list(map(_wire_tool, tools))


def list_prompts(prompts: Sequence[ToolSpec]) -> list[wire.Prompt]:
    """What prompts say of themselves."""
    return list(map(_wire_prompt, prompts))


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
