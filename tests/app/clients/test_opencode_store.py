"""OpenCode's sessions, read out of its database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.app.clients.records.opencode import TABLES

from scrimshaw.app.clients import all_clients
from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.events import StoredSession

SESSIONS = [("ses_2", "ses_1", "/p", 3000, None), ("ses_1", None, "/p", 1500, '{"messageID": "msg_3"}')]
MESSAGES = [
    ("ses_1", "msg_1", {"id": "msg_1", "role": "user"}),
    ("ses_1", "msg_2", {"role": "assistant"}),
    ("ses_1", "msg_3", {"role": "user"}),
]
PARTS = [
    ("ses_1", "msg_1", "prt_1", {"type": "text", "text": "why?"}),
    ("ses_1", "msg_2", "prt_2", {"type": "text", "text": "because"}),
    ("ses_1", "msg_2", "prt_3", {"type": "text", "text": "so"}),
    ("ses_1", "msg_3", "prt_4", {"type": "text", "text": "undone"}),
]


def in_database(folder: Path) -> None:
    connection = apsw.Connection(str(folder / "opencode.db"))
    connection.execute(TABLES)
    connection.executemany("INSERT INTO session VALUES (?, ?, ?, ?, ?)", SESSIONS)
    for number, (session, message, about) in enumerate(MESSAGES):
        row = (message, session, number, json.dumps(about))
        connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
    for session, message, part, about in PARTS:
        connection.execute("INSERT INTO part VALUES (?, ?, ?, ?)", (part, message, session, json.dumps(about)))
    connection.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """OpenCode's data folder."""
    in_database(tmp_path)
    return tmp_path


def sessions_in(folder: Path) -> list[StoredSession]:
    return all_clients()["opencode"].sessions_at(folder)


def exported(stored: StoredSession) -> list[dict[str, Any]]:
    return [json.loads(text) for text in stored.read_texts()]


def test_a_session_comes_with_those_that_it_started(folder: Path) -> None:
    (stored,) = sessions_in(folder)
    assert (stored.session, stored.place, stored.began) == ("ses_1", f"{folder}#ses_1", 1.5)
    own, started = exported(stored)
    assert started == {"info": {"id": "ses_2", "parentID": "ses_1", "directory": "/p", "revert": None}, "messages": []}
    assert own["info"] == {"id": "ses_1", "parentID": "", "directory": "/p", "revert": '{"messageID": "msg_3"}'}
    assert [message["info"]["role"] for message in own["messages"]] == ["user", "assistant", "user"]
    assert [[part["text"] for part in message["parts"]] for message in own["messages"]] == [
        ["why?"],
        ["because", "so"],
        ["undone"],
    ]


def test_what_a_person_undid_is_left_out(folder: Path) -> None:
    (stored,) = sessions_in(folder)
    events = stored.parse(stored.read_texts()[0]).events
    assert [event.prompt or event.output for event in events] == ["why?", "because", "so"]


def test_a_folder_that_holds_none_has_none(tmp_path: Path) -> None:
    assert sessions_in(tmp_path) == []


@pytest.mark.parametrize("data", ["{half", "[1]", '"text"'])
def test_a_message_that_is_no_object_is_exported_as_an_empty_one(tmp_path: Path, data: str) -> None:
    in_database(tmp_path)
    connection = apsw.Connection(str(tmp_path / "opencode.db"))
    connection.execute("UPDATE message SET data = ?", (data,))
    connection.close()
    own, _ = exported(sessions_in(tmp_path)[0])
    assert [message["info"] for message in own["messages"]] == [{"id": f"msg_{number}"} for number in (1, 2, 3)]


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be one" * 99, b""])
def test_a_database_that_cannot_be_read_says_what_to_do(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "opencode.db").write_bytes(content)
    with pytest.raises(UnreadableFile, match=r"opencode\.db cannot be read: ") as caught:
        sessions_in(tmp_path)
    assert "opencode export" in caught.value.hint
