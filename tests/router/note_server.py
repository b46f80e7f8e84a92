"""A memory server with the tools of the example in docs/peers.md, which answers in the form that it is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

FILE, FORM, PORT = sys.argv[1:]
server = MCPServer("notes")
Note = dict[str, Any]


def read() -> list[Note]:
    found: list[Note] = json.loads(Path(FILE).read_text())
    return found


def write(notes: list[Note]) -> None:
    Path(FILE).write_text(json.dumps(notes))


def wrap(value: Any) -> Any:
    """The value, as JSON in a text if answers are such."""
    return json.dumps(value) if FORM == "text" else value


def wrap_list(notes: list[Note]) -> Any:
    """A list of notes, under a name unless answers are bare lists; among them is an entry that is no object."""
    mixed = [notes[0], "not a note", *notes[1:]] if notes else []
    return mixed if FORM.endswith("list") else wrap({"results": mixed})


async def find_notes(text: str, count: int) -> Any:
    """The notes that contain the text as it is."""
    return wrap_list([note for note in read() if text.casefold() in json.dumps(note).casefold()][:count])


async def open_note(id: int) -> Any:
    """A note, whole."""
    return wrap(next(note for note in read() if note["id"] == id))


async def list_notes(first: int, count: int, tag: str) -> Any:
    """The notes with a tag, in pages."""
    return wrap_list([note for note in read() if note["tag"] == tag][first : first + count])


async def add_note(title: str, body: str, tag: str) -> Any:
    """Keep a new note."""
    notes = read()
    write([*notes, {"id": len(notes) + 1, "title": title, "body": body, "tag": tag}])
    return wrap({"id": len(notes) + 1})


async def change_note(id: int, title: str, body: str) -> Any:
    """Change a note that is there."""
    write([{**note, "title": title, "body": body} if note["id"] == id else note for note in read()])
    return wrap({"id": id})


async def archive_note(id: int, why: str) -> Any:
    """Take the tag from a note, so that no list has it."""
    write([{**note, "tag": "", "why": why} if note["id"] == id else note for note in read()])
    return wrap({})


RETURNED = {"text": str, "list": list[Any], "bare list": list[Any]}
for tool in (find_notes, open_note, list_notes, add_note, change_note, archive_note):
    has_list = tool in (find_notes, list_notes)
    tool.__annotations__["return"] = RETURNED.get(FORM, Note) if FORM == "text" or has_list else Note
    server.add_tool(tool, structured_output=FORM != "bare list")
server.run(transport="streamable-http", host="127.0.0.1", port=int(PORT))
