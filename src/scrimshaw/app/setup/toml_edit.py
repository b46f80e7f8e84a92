"""Edits of TOML files: an MCP entry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from msgspec import Struct

from scrimshaw.app.setup.edits import CORRECT_IT, merged, program_of
from scrimshaw.app.setup.json_text import Json
from scrimshaw.app.setup.programs import SERVER, is_our_server
from scrimshaw.errors import ConfigError
from scrimshaw.toml_text import parse_toml


class TomlEdit(Struct, frozen=True, kw_only=True):
    """An MCP entry as the table `[servers.scrimshaw]`; comments and order stay."""

    path: Path
    servers: str
    entry: Mapping[str, Any]
    is_executable: bool = False
    is_shared: bool = True

    def added(self, text: str) -> str:
        servers = self._servers(text)
        entry = merged(self.path, servers.get(SERVER), self.entry)
        if servers.get(SERVER) == entry:
            return text
        document = tomlkit.parse(text)
        tables: Any = document.setdefault(self.servers, tomlkit.table(is_super_table=True))
        inline = isinstance(tables, tomlkit.items.InlineTable)
        table = tables.setdefault(SERVER, tomlkit.inline_table() if inline else tomlkit.table())
        for key, value in self.entry.items():
            table[key] = value
        return self._checked(tomlkit.dumps(document), {**servers, SERVER: entry}, text)

    def removed(self, text: str) -> str:
        servers = self._servers(text)
        if not is_our_server(servers.get(SERVER)):
            return text
        document = tomlkit.parse(text)
        tables: Any = document[self.servers]
        del tables[SERVER]
        rest = {name: entry for name, entry in servers.items() if name != SERVER}
        if not rest:
            del document[self.servers]
        return self._checked(tomlkit.dumps(document), rest, text)

    def is_same(self, one: str, other: str) -> bool:
        return self._read(one) == self._read(other)

    def is_bare(self, text: str) -> bool:
        return not text.strip()

    def server(self, text: str) -> str:
        return program_of(self._servers(text).get(SERVER))

    def _checked(self, text: str, servers: Json, before: str) -> str:
        """The text if it says what it should: the editing library is trusted only so far."""
        wanted = {**self._read(before), self.servers: servers}
        if not servers:
            del wanted[self.servers]
        if _parsed(text) == wanted:
            return text
        raise ConfigError(f"{self.path} cannot be changed safely.", f"Change [{self.servers}.{SERVER}] in it by hand.")

    def _servers(self, text: str) -> Json:
        found = self._read(text).get(self.servers, {})
        if isinstance(found, dict):
            return found
        raise ConfigError(f"{self.path}: `{self.servers}` is no table.", CORRECT_IT)

    def _read(self, text: str) -> Json:
        try:
            return parse_toml(text)
        except ValueError as error:
            raise ConfigError(f"{self.path} is not TOML: {error}.", CORRECT_IT) from error


def _parsed(text: str) -> Json | None:
    try:
        return parse_toml(text)
    except ValueError:
        return None
