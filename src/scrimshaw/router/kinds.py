"""How to call each kind of memory server and read its answers: from a table that settings can override."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from scrimshaw.config import PeerSettings
from scrimshaw.errors import ConfigError, PeerFailed
from scrimshaw.models import PeerTool
from scrimshaw.search.results import PeerHit
from scrimshaw.toml_text import parse_toml

Use = Literal["search", "get", "list", "create", "update", "retire"]
PREFIX = "peer:"  # of ids at a peer
LARGEST_LIMIT = 20  # what Forgetful allows
_NAME = re.compile(r"\{(\w+)\}")  # of a value in a template


def choose_tool(peer: PeerSettings, use: Use) -> PeerTool:
    """The tool of a peer for this use; raises ConfigError if there is none."""
    if (tool := find_tool(peer, use)) is None:
        hint = f"Name its tool in [peers.{use}] of your configuration."
        raise ConfigError(f"The peer {peer.name} has no tool to {use} memories with.", hint)
    return tool


def find_tool(peer: PeerSettings, use: Use) -> PeerTool | None:
    """The tool of the peer's kind with what the settings change; a peer whose settings name a tool has only those."""
    has_own = any("tool" in getattr(peer, each) for each in get_args(Use))
    stated = {**({} if has_own else load_kinds()[peer.kind].get(use, {})), **getattr(peer, use)}
    return msgspec.convert(stated, PeerTool) if "tool" in stated else None


@cache
def load_kinds() -> dict[str, Any]:
    """The table of kinds, tools and names."""
    return parse_toml(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def fill_in(template: Any, values: Mapping[str, Any]) -> Any:
    """Arguments with `{name}` replaced by the value of that name, of its own type if that is the whole text."""
    if isinstance(template, str):
        alone = values.get(template[1:-1]) if template.startswith("{") else None
        return _NAME.sub(lambda found: str(values.get(found[1], found[0])), template) if alone is None else alone
    if isinstance(template, Mapping):
        return {name: fill_in(each, values) for name, each in template.items()}
    return [fill_in(each, values) for each in template] if isinstance(template, list | tuple) else template


def read_hits(peer: str, tool: PeerTool, answer: Any) -> Iterator[PeerHit]:
    """The hits in an answer; raises PeerFailed if it does not have the form that the tool's names describe."""
    for entry in filter(None, read_entries(tool, answer)):
        # On one line each: a line break could forge further output.
        name, title = (" ".join(read_text(entry, names).splitlines()) for names in (tool.id, tool.title))
        text = read_text(entry, tool.text).strip()
        marks = tuple(read_text(entry, tool.mark).splitlines())
        yield PeerHit(peer=peer, id=f"{PREFIX}{peer}/{name}", title=title or name, text=text, marks=marks)


def read_entries(tool: PeerTool, answer: Any) -> list[dict[str, Any]]:
    """The entries of an answer, empty for one that is no object; raises PeerFailed for an answer of another form."""
    content = unpack_answer(answer)
    if isinstance(content, dict):
        content = content.get(tool.hits) if tool.hits else [content]
    if not isinstance(content, list):
        raise PeerFailed(f"{tool.tool} did not answer with a list of {tool.hits or 'fields'} in JSON.")
    return [entry if isinstance(entry, dict) else {} for entry in content]


def unpack_answer(answer: Any) -> Any:
    """The content of a tool's answer: JSON in its texts or in `{"result": ...}`, as libraries wrap what it returns."""
    if isinstance(answer, tuple):
        return unpack_answer(answer[0]) if len(answer) == 1 else [unpack_answer(text) for text in answer]
    if isinstance(answer, dict) and answer.keys() == {"result"}:
        return unpack_answer(answer["result"])
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(answer) if isinstance(answer, str) else answer
    return answer


def read_text(entry: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of these fields that exists, a list of texts as lines."""
    value = next((entry[name] for name in names if entry.get(name) is not None), "")
    if isinstance(value, dict | list):
        return "\n".join(str(each) for each in (value.values() if isinstance(value, dict) else value))
    return str(value)
