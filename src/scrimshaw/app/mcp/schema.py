"""What a tool is, free of any protocol: a plain function, the parameters it takes, the struct it answers.

    @tool(toolset="core", layer="L1", read_only=True)
    def echo(engine: Engine, text: Annotated[str, Meta(description="What to repeat.", max_length=200)]) -> EchoReply:
        "Repeat a text."

The JSON Schemas are made from the signatures and kept short, since a client pays for them in every session:
references are written out, and what a reader cannot use is dropped.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from scrimshaw.errors import InvalidRequest

Schema = dict[str, Any]
Run = Callable[..., Any]

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
    """One tool, or one prompt: `run(engine, ...)` takes what `call` describes, and returns a `reply`.

    `toolset` is the group a user switches on or off, `layer` the tool's place in the order from L1 to L7; `read_only`,
    `destructive` and `idempotent` are the hints of the same names in MCP.
    """

    name: str
    description: str
    call: type[msgspec.Struct]
    takes_struct: bool
    reply: type
    run: Run
    toolset: str = ""
    layer: str = ""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


def tool(*, toolset: str = "", layer: str = "", **hints: bool) -> Callable[[Run], ToolSpec]:
    """Make a `ToolSpec` of a function `(engine, ...) -> reply` with a docstring, which is what the agent reads.

    Its parameters are the tool's, or the fields of a `Call` where it takes one as `call`. A prompt is a tool of no
    toolset that returns text. The types named in the signature must be importable at run time.
    """

    def build(run: Run) -> ToolSpec:
        types = get_type_hints(run, include_extras=True)
        reply, call = types.pop("return"), types.get("call")
        if call is None:
            _, *parameters = inspect.signature(run).parameters.values()
            fields = [
                (each.name, types[each.name], msgspec.NODEFAULT if each.default is each.empty else each.default)
                for each in parameters
            ]
            call = msgspec.defstruct("Parameters", fields, bases=(Call,), frozen=True)
        return ToolSpec(
            name=run.__name__,
            description=inspect.getdoc(run) or "",
            call=call,
            takes_struct="call" in types,
            reply=reply,
            run=run,
            toolset=toolset,
            layer=layer,
            **hints,
        )

    return build


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


def decode(name: str, spec: ToolSpec, arguments: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
    """What tool or prompt `name` is called with for these arguments; not strict reads numbers out of strings.

    Raises InvalidRequest that names the parameter and says what it takes, or for text that no file can hold.
    """
    try:
        msgspec.json.encode(arguments)
        call = msgspec.convert(arguments, spec.call, strict=strict)
    except UnicodeEncodeError:
        raise InvalidRequest(f"{name} was given half a character (a lone surrogate).", "Send UTF-8.") from None
    except msgspec.ValidationError as error:
        raise _explain_refusal(name, spec.call, str(error)) from None
    return {"call": call} if spec.takes_struct else msgspec.structs.asdict(call)


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
