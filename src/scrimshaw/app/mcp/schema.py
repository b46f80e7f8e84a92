"""A tool, independent of any protocol: a plain function, its parameters, and the struct it returns.

    @tool(toolset="core", read_only=True)
    def echo(engine: Engine, text: Annotated[str, describe("What to repeat.", max_length=200)]) -> EchoReply:
        "Repeat a text."

`make docs` writes the JSON Schemas of all tools into `tools.json`, which is sent before the tools are imported.
"""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.tables import load_table

DEFAULT_TOOLSETS = "core"
TOOLSETS = (DEFAULT_TOOLSETS, "discovery", "mutation", "analysis", "maintenance", "learning")

# Marks a parameter that few calls need: always accepted, but only listed if all toolsets are requested.
RARE = msgspec.Meta(extra={"rare": True})
OTHER_NAMES = load_table(__file__, "other_names", dict[str, str])

LISTING = Path(__file__).with_name("tools.json")
Run = Callable[..., Any]

_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_NO_LIST = re.compile(r"^Expected `array`, got `str` - at `\$\.(?P<name>\w+)`$")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FIELD = re.compile(r"^Object (?P<fault>contains unknown|missing required) field `(?P<field>.*)`$")


def describe(what: str, **bounds: Any) -> msgspec.Meta:
    """What a parameter means, as listed, and the bounds of its values."""
    return msgspec.Meta(description=what, **bounds)


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a tool or prompt; unknown ones are rejected."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One tool, or one prompt: `run(engine, ...)` takes what `call` describes, and returns a `reply`."""

    name: str
    description: str
    call: type[msgspec.Struct]
    takes_struct: bool
    reply: type
    run: Run
    toolset: str = ""  #: the group that users switch on or off
    read_only: bool = False  #: this and the next two are MCP hints of these names
    destructive: bool = False
    idempotent: bool = False


def tool(*, toolset: str = "", **hints: bool) -> Callable[[Run], ToolSpec]:
    """Make a `ToolSpec` of `(engine, parameters...) -> reply`, or of one that takes them as a `Call` named `call`."""

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
            **hints,
        )

    return build


def choose_toolsets(toolsets: str) -> list[str]:
    """Comma-separated toolsets, or `all`, in the usual order; raises InvalidRequest for an unknown name."""
    wanted = [name.strip() for name in toolsets.split(",") if name.strip()] or [DEFAULT_TOOLSETS]
    if unknown := [name for name in wanted if name not in (*TOOLSETS, "all")]:
        known = ", ".join((*TOOLSETS, "all"))
        raise InvalidRequest(f"There is no toolset {', '.join(unknown)}.", f"Toolsets: {known}.", parameter="toolsets")
    return [name for name in TOOLSETS if name in wanted or "all" in wanted]


def load_listing() -> dict[str, list[dict[str, Any]]]:
    """The tools as listed, with the schemas of their parameters, by toolset; and the prompts as `prompts`."""
    listing: dict[str, list[dict[str, Any]]] = msgspec.json.decode(LISTING.read_bytes())
    return listing


def decode(name: str, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The parsed arguments of a tool or prompt; strings may hold numbers and lists. Raises InvalidRequest."""
    fields, named = spec.call.__struct_fields__, dict(arguments)
    for given in arguments.keys() - set(fields):  # by another name; unknown and repeated ones keep theirs
        if (plain := find_own_name(given, fields)) in fields and plain not in named:
            named[plain] = named.pop(given)
    try:
        msgspec.json.encode(named)
        call = msgspec.convert(named, spec.call, strict=False)
    except UnicodeEncodeError:
        raise InvalidRequest(f"{name} was given half a character (a lone surrogate).", "Send UTF-8.") from None
    except msgspec.ValidationError as error:
        if match := _NO_LIST.match(str(error)):
            return decode(name, spec, named | {match["name"]: split_list(named[match["name"]])})
        raise _explain_refusal(name, spec.call, str(error)) from None
    return {"call": call} if spec.takes_struct else msgspec.structs.asdict(call)


def split_list(text: str) -> list[Any]:
    """The values in a JSON array, on lines, or else between commas; a question may have some."""
    with suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(text, type=list)
    return [part.strip() for part in text.split("\n" if {"\n", "?"} & {*text} else ",") if part.strip()]


def find_own_name(given: str, fields: Collection[str]) -> str:
    """The name that a parameter has here, if it is one of the fields under another name."""
    plain = _HUMP.sub("_", given).lower()
    return plain if plain in fields else OTHER_NAMES.get(plain, plain)


def _explain_refusal(name: str, call: type[msgspec.Struct], text: str) -> InvalidRequest:
    """An error for msgspec's message that names the parameter and what it accepts, or the existing parameters."""
    place = _PLACE.search(text)
    what, path = (text[: place.start()], place["path"]) if place else (text, "")
    message = f"{name} cannot use `{path}`: {what}." if path else f"{name} cannot use its parameters: {what}."
    if field := _FIELD.match(what):
        path = f"{path}.{field['field']}" if path else field["field"]
        verb = "has no" if field["fault"] == "contains unknown" else "needs the"
        message = f"{name} {verb} parameter `{path}`."
    hint = f"{name} takes: {', '.join(call.__struct_fields__) or 'no parameters'}."
    listed = {each["name"]: each for each in chain.from_iterable(load_listing().values())}
    known = listed.get(name, {}).get("inputSchema", {}).get("properties", {})
    parameter = re.split(r"[.\[]", path)[0]
    if parameter in known:
        hint = f"`{parameter}` takes {msgspec.json.encode(known[parameter]).decode()}"
    return InvalidRequest(message, hint, parameter=path)
