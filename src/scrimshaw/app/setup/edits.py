"""What setup does to one file of a client: our part put into its text, and taken out of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from scrimshaw.app.setup.json_text import Json
from scrimshaw.app.setup.programs import SERVER, is_our_server, server_words
from scrimshaw.errors import Conflict

CORRECT_IT = "Correct it, then run setup again."


class Edit(Protocol):
    """An edit of the file at `path`. Its functions are pure; they raise ConfigError for a text they cannot read."""

    @property
    def path(self) -> Path: ...

    @property
    def is_shared(self) -> bool:
        """Whether others write into the file, so that it is worth a copy before it is changed."""
        ...

    @property
    def is_executable(self) -> bool: ...

    def added(self, text: str) -> str:
        """The text with our part, the same text when it has it; raises Conflict for another's entry of our name."""
        ...

    def removed(self, text: str) -> str:
        """The text without our part, the same text when it has none."""
        ...

    def is_same(self, one: str, other: str) -> bool:
        """Whether two texts mean the same."""
        ...

    def is_bare(self, text: str) -> bool:
        """Whether nothing is in the text that setup did not put there."""
        ...

    def server(self, text: str) -> str:
        """The program that our MCP entry in the text starts; empty without an entry."""
        ...


class OwnFile(Struct, frozen=True, kw_only=True):
    """A file that is all ours, known by a `mark` in it; one that mentions `is_served_by` does our part by itself."""

    path: Path
    text: str
    mark: str = ""
    is_served_by: str = ""
    is_executable: bool = False
    is_shared: bool = False

    def added(self, text: str) -> str:
        if not text or self.mark in text:
            return self.text
        if self.is_served_by and self.is_served_by in text:
            return text
        hint = f"Let it run `{self.is_served_by}` with its own input, or move it away."
        raise Conflict(f"{self.path} is a file of yours.", hint)

    def removed(self, text: str) -> str:
        return "" if self.mark in text else text

    def is_same(self, one: str, other: str) -> bool:
        return one == other

    def is_bare(self, text: str) -> bool:
        return not text

    def server(self, text: str) -> str:
        return ""


def merged(path: Path, held: object, entry: Mapping[str, Any]) -> Json:
    """Our MCP entry over the one that is there, whose other keys are the user's; raises Conflict for a foreign one."""
    if held is None:
        return dict(entry)
    if isinstance(held, dict) and is_our_server(held):
        return {**held, **entry}
    raise Conflict(f"{path} has a server `{SERVER}` that runs something else.", "Rename or remove it first.")


def program_of(entry: object) -> str:
    """The program that an MCP entry of ours starts; empty for another."""
    return server_words(entry)[0] if is_our_server(entry) else ""
