"""What a tool is, free of any protocol: a plain function, the struct it takes, the struct it answers.

    class EchoCall(Call, frozen=True):
        text: Annotated[str, msgspec.Meta(description="What to repeat.", max_length=200)]

    @tool(toolset="core", layer="L1", read_only=True)
    def echo(engine: Engine, call: EchoCall) -> EchoReply:
        "Repeat a text."

    TOOLS = (echo,)

The JSON Schemas are made from the structs and kept short, since a client pays for them in every session:
references are written out, and what a reader cannot use is dropped.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints

import msgspec

from scrimshaw.errors import InvalidRequest

_StructT = TypeVar("_StructT", bound=msgspec.Struct)
Schema = dict[str, Any]
Run = Callable[[Any, Any], Any]

# Defaults and requirements that say nothing.
_SILENT: tuple[Any, ...] = (None, "", [], (), {})
_OUTPUT_WORDS = ("type", "description", "properties", "items", "prefixItems", "additionalProperties", "anyOf")
_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_FIELD = re.compile(r"^Object (?P<fault>contains unknown|missing required) field `(?P<field>.*)`$")


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a tool or prompt; a parameter that does not exist is refused."""


class Reply(msgspec.Struct, frozen=True):
    """What a tool answers; with `omit_defaults` what is empty is left out."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `call` and `reply` are the struct types that `run(engine, call)` takes and returns.

    `toolset` is the group a user switches on or off, `layer` the tool's place in the order from L1 to L7; `read_only`,
    `destructive` and `idempotent` are the hints of the same names in MCP.
    """

    name: str
    toolset: str
    layer: str
    description: str
    call: type[msgspec.Struct]
    reply: type[msgspec.Struct]
    run: Run
    read_only: bool
    destructive: bool
    idempotent: bool

    def __call__(self, engine: Any, call: Any) -> Any:
        """Run the tool as the plain function it is."""
        return self.run(engine, call)


class PromptSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt: `run(engine, call)` returns the text of a single user message."""

    name: str
    description: str
    call: type[msgspec.Struct]
    run: Run


def tool(
    *,
    toolset: str,
    layer: str,
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
) -> Callable[[Run], ToolSpec]:
    """Make a `ToolSpec` of a function: name, parameters, reply and description are read off it.

    Raises TypeError when the function is not of the shape `(engine, call: Struct) -> Struct` with a docstring.
    The types named in its signature must be importable at run time.
    """

    def build(run: Run) -> ToolSpec:
        call, reply, description = _read_signature(run)
        return ToolSpec(
            name=run.__name__,
            toolset=toolset,
            layer=layer,
            description=description,
            call=call,
            reply=_demand_struct(reply, run),
            run=run,
            read_only=read_only,
            destructive=destructive,
            idempotent=idempotent,
        )

    return build


def prompt(run: Run) -> PromptSpec:
    """Make a `PromptSpec` of a function `(engine, call: Struct) -> str`; raises TypeError like `tool`."""
    call, reply, description = _read_signature(run)
    if reply is not str:
        raise TypeError(f"prompt {run.__name__} must return str")
    return PromptSpec(name=run.__name__, description=description, call=call, run=run)


def input_schema(call: type[msgspec.Struct]) -> Schema:
    """JSON Schema of a tool's parameters.

    Nothing but the named parameters is allowed. An optional parameter is described by what it takes when given:
    `null` is accepted but not advertised, since some model APIs refuse unions in parameters.
    """
    root, definitions = _components(call)
    return {"properties": {}, **_as_input(root, definitions), "additionalProperties": False}


def output_schema(reply: type[msgspec.Struct]) -> Schema:
    """JSON Schema of a tool's reply: field names and types; a nested object is described as `object` only.

    It tells what to expect and is no contract: limits, enums and which fields are always there are left out.
    """
    root, definitions = _components(reply)
    return _as_output(root, definitions)


def decode(name: str, call: type[_StructT], arguments: Mapping[str, Any], *, strict: bool = True) -> _StructT:
    """The arguments of tool or prompt `name` as its parameter struct; not strict reads numbers out of strings.

    Raises InvalidRequest that names the parameter and says what it takes, or for text that no file can hold.
    """
    try:
        msgspec.json.encode(arguments)
        return msgspec.convert(arguments, call, strict=strict)
    except UnicodeEncodeError:
        raise InvalidRequest(f"{name} was given half a character (a lone surrogate).", "Send UTF-8.") from None
    except msgspec.ValidationError as error:
        raise _explain_refusal(name, call, str(error)) from None


def _explain_refusal(name: str, call: type[msgspec.Struct], text: str) -> InvalidRequest:
    """What msgspec says, as an error that names the parameter and what it takes, or else which parameters there are."""
    place = _PLACE.search(text)
    what, path = (text[: place.start()], place["path"]) if place else (text, "")
    message = f"{name} cannot use `{path}`: {what}." if path else f"{name} cannot use its parameters: {what}."
    if field := _FIELD.match(what):
        path = f"{path}.{field['field']}" if path else field["field"]
        verb = "has no" if field["fault"] == "contains unknown" else "needs the"
        message = f"{name} {verb} parameter `{path}`."
    known = input_schema(call)["properties"]
    parameter = re.split(r"[.\[]", path)[0]
    hint = f"{name} takes: {', '.join(known) or 'no parameters'}."
    if parameter in known:
        hint = f"`{parameter}` takes {msgspec.json.encode(known[parameter]).decode()}"
    return InvalidRequest(message, hint, parameter=path)


def _read_signature(run: Run) -> tuple[type[msgspec.Struct], Any, str]:
    """The type of the second parameter, checked, the return type, and the docstring."""
    parameters = list(inspect.signature(run).parameters)
    hints = get_type_hints(run)
    if len(parameters) != 2 or parameters[1] not in hints or "return" not in hints:
        raise TypeError(f"{run.__name__} must be annotated as (engine, call: Struct) -> reply")
    call = _demand_struct(hints[parameters[1]], run)
    if not (call.__struct_config__.frozen and call.__struct_config__.forbid_unknown_fields):
        raise TypeError(f"{call.__name__} must be frozen and forbid unknown fields")
    description = inspect.getdoc(run)
    if not description:
        raise TypeError(f"{run.__name__} needs a docstring: it is what the agent reads")
    return call, hints["return"], description


def _demand_struct(annotation: Any, run: Run) -> type[msgspec.Struct]:
    if not (isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)):
        raise TypeError(f"{run.__name__} must take and return a msgspec.Struct, not {annotation!r}")
    return annotation


def _components(struct: type[msgspec.Struct]) -> tuple[Schema, Schema]:
    """The schema as plain JSON values, and the definitions its references name."""
    roots, definitions = msgspec.json.schema_components([struct])
    return msgspec.to_builtins(roots[0]), msgspec.to_builtins(definitions)


def _as_input(node: Schema, definitions: Schema) -> Schema:
    node, _ = _without_null(_resolve(node, definitions), definitions)
    stated = {word: value for word, value in node.items() if value not in _SILENT}
    if not stated.get("default") or isinstance(stated["default"], dict):
        stated.pop("default", None)
    return _map_children(_with_enum_type(stated), lambda child: _as_input(child, definitions))


def _as_output(node: Schema, definitions: Schema, *, nested: bool = False) -> Schema:
    node, nullable = _without_null(_resolve(node, definitions), definitions)
    node = _with_enum_type(node)
    described = {word: node[word] for word in _OUTPUT_WORDS if node.get(word) not in _SILENT}
    if "properties" in described and nested:
        described = {"type": "object"}
    described = _map_children(described, lambda child: _as_output(child, definitions, nested=True))
    if not nullable:
        return described
    if "anyOf" in described:
        return {**described, "anyOf": [*described["anyOf"], {"type": "null"}]}
    return {**described, "type": [described["type"], "null"]} if "type" in described else described


def _resolve(node: Schema, definitions: Schema) -> Schema:
    """What the node refers to, under the node's own words; class names and class docstrings are not for clients."""
    target = definitions.get(node.get("$ref", "").removeprefix("#/$defs/"), {})
    merged = {word: value for word, value in target.items() if word != "description"} | node
    return {word: value for word, value in merged.items() if word not in ("title", "$ref")}


def _without_null(node: Schema, definitions: Schema) -> tuple[Schema, bool]:
    """The node without its `null` branch, and whether it had one; a union left with one branch is that branch."""
    branches = node.get("anyOf", [])
    rest = [branch for branch in branches if branch != {"type": "null"}]
    if len(rest) == len(branches):
        return node, False
    if len(rest) > 1:
        return {**node, "anyOf": rest}, True
    own = {word: value for word, value in node.items() if word != "anyOf"}
    return _resolve(rest[0], definitions) | own, True


def _with_enum_type(node: Schema) -> Schema:
    """Say that names are strings: some model APIs want the type beside the enum."""
    if "enum" in node and all(isinstance(value, str) for value in node["enum"]):
        return {"type": "string", **node}
    return node


def _map_children(node: Schema, convert: Callable[[Schema], Schema]) -> Schema:
    """The node with `convert` applied to every schema inside it."""
    changed = dict(node)
    if "properties" in node:
        changed["properties"] = {name: convert(child) for name, child in node["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), dict):
            changed[word] = convert(node[word])
    for word in ("anyOf", "prefixItems"):
        if word in node:
            changed[word] = [convert(branch) for branch in node[word]]
    return changed
