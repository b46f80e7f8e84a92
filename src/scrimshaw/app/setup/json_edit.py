"""Edits of JSON files: an MCP entry, hooks, or both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from scrimshaw.app.setup import json_text
from scrimshaw.app.setup.edits import CORRECT_IT, merged, program_of
from scrimshaw.app.setup.hook_lists import with_hooks, without_hooks
from scrimshaw.app.setup.json_text import Json
from scrimshaw.app.setup.programs import SERVER, is_our_server
from scrimshaw.errors import ConfigError

_NOTHING: Mapping[str, Any] = {}


class JsonEdit(Struct, frozen=True, kw_only=True):
    """An MCP entry below the key `servers`, hooks by event below `hooks`, and what a new file begins with."""

    path: Path
    servers: str = ""
    entry: Mapping[str, Any] = _NOTHING
    hooks: Mapping[str, Json] = _NOTHING
    base: Mapping[str, Any] = _NOTHING
    is_executable: bool = False
    is_shared: bool = True

    def added(self, text: str) -> str:
        held = self._read(text)
        value = {**held, **_missing(self.base, held)}
        if self.servers:
            servers = self._object(value, self.servers)
            value[self.servers] = {**servers, SERVER: merged(self.path, servers.get(SERVER), self.entry)}
        if self.hooks:
            value["hooks"] = self._hooks(value)
        return json_text.rewritten(text, value)

    def removed(self, text: str) -> str:
        value = self._read(text)
        servers = value.get(self.servers) if self.servers else None
        if isinstance(servers, dict) and is_our_server(servers.get(SERVER)):
            _put(value, self.servers, {name: entry for name, entry in servers.items() if name != SERVER})
        hooks = value.get("hooks")
        if self.hooks and isinstance(hooks, dict) and (rest := without_hooks(hooks)) != hooks:
            _put(value, "hooks", rest)
        return json_text.rewritten(text, value) if text.strip() else text

    def is_same(self, one: str, other: str) -> bool:
        return json_text.same(self._read(one), self._read(other))

    def is_bare(self, text: str) -> bool:
        return self._read(text) == self.base

    def server(self, text: str) -> str:
        servers = self._read(text).get(self.servers) if self.servers else None
        return program_of(servers.get(SERVER)) if isinstance(servers, dict) else ""

    def _hooks(self, value: Json) -> Json:
        try:
            return with_hooks(self._object(value, "hooks"), self.hooks)
        except TypeError as error:
            raise ConfigError(f"{self.path}: {error}.", CORRECT_IT) from error

    def _object(self, value: Json, key: str) -> Json:
        found = value.get(key, {})
        if not isinstance(found, dict):
            raise ConfigError(f"{self.path}: `{key}` is no object.", CORRECT_IT)
        return found

    def _read(self, text: str) -> Json:
        try:
            value = json_text.read(text)
        except ValueError as error:
            raise _unreadable(self.path, text, error) from error
        if not isinstance(value, dict):
            raise ConfigError(f"{self.path}:1: the file holds no object.", CORRECT_IT)
        return value


def _missing(base: Mapping[str, Any], held: Json) -> Json:
    return {key: value for key, value in base.items() if key not in held}


def _put(value: Json, key: str, rest: Json) -> None:
    """Set the key, or take it out when nothing is left below it."""
    if rest:
        value[key] = rest
    else:
        del value[key]


def _unreadable(path: Path, text: str, error: ValueError) -> ConfigError:
    line, at = getattr(error, "lineno", 1), getattr(error, "pos", 0)
    if text[at : at + 2] in ("//", "/*"):
        hint = "Setup does not change JSON with comments: take them out, or add the entries by hand."
        return ConfigError(f"{path}:{line}: a comment.", hint)
    what = getattr(error, "msg", str(error))
    return ConfigError(f"{path}:{line}: not JSON: {what}.", CORRECT_IT)
