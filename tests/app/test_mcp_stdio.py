"""Bytes on the wire of a real server process: every request gets one answer, whatever it looks like.

Run as a script, this file is the server that the tests start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.raw_session import ENVELOPE, LEGACY, MODERN, Answer, RawSession, encode, request
from tests.tool_server import build_server

from scrimshaw.app.mcp.protocol import serve_stdio
from scrimshaw.app.mcp.schema import tool

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602
COMMAND = (sys.executable, str(Path(__file__).absolute()))
HALF = "\ud83d"  # of an emoji that was cut
SHORT_S = 0.3


class NoteCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str = ""


class NoteReply(msgspec.Struct, frozen=True, kw_only=True):
    text: str


@tool(toolset="core")
def note_echo(_: Any, call: NoteCall) -> NoteReply:
    """Says the same."""
    return NoteReply(text=call.text)


@tool(toolset="core")
def note_slowly(_: Any, call: NoteCall) -> NoteReply:
    """Writes a file after a while."""
    time.sleep(SHORT_S)
    Path(call.text).write_text("done", encoding="utf-8")
    return NoteReply(text="done")


@tool(toolset="core")
def note_child(_: Any, call: NoteCall) -> NoteReply:
    """Runs a program that reads its input and prints."""
    code = "import sys; print('stray', flush=True); sys.exit(len(sys.stdin.read()))"
    return NoteReply(text=str(subprocess.run([sys.executable, "-c", code], check=False).returncode))


class Nothing:
    def page(self, cursor: str) -> tuple[list[tuple[str, str]], str]:
        return [], cursor

    def read(self, memory_id: str) -> str:
        return memory_id


def environment() -> dict[str, str]:
    root = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}


@pytest.fixture(params=[MODERN, LEGACY])
def session(request: pytest.FixtureRequest) -> Iterator[RawSession]:
    with RawSession(COMMAND, request.param, environment()) as session:
        yield session


def call(session: RawSession, number: object, tool: str = "note_echo", **arguments: object) -> bytes:
    return request(number, "tools/call", name=tool, arguments=arguments, **session.meta)


def outcomes(answers: list[Answer]) -> list[tuple[Any, Any]]:
    """Of each answer its id, and the error's code or what the tool said."""
    return [(each["id"], each["error"]["code"] if "error" in each else text_of(each)) for each in answers]


def text_of(answer: Answer) -> Any:
    return answer["result"].get("structuredContent", {}).get("text")


def ping(**fields: object) -> bytes:
    return encode({"jsonrpc": "2.0", "id": 7, "method": "ping", **fields})


DEEP = b"[" * 100_000
REFUSED: list[tuple[bytes, list[tuple[Any, int]]]] = [
    (b"{nonsense", [(None, PARSE_ERROR)]),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":', [(None, PARSE_ERROR)]),
    (b'{"method":"id","params":{"id":1},"x":nope,"id":"b\\"7"}', [(None, PARSE_ERROR)]),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping"}{"jsonrpc":"2.0","id":8,"method":"ping"}', [(None, PARSE_ERROR)]),
    (b"\xff\xfe\x00", [(None, PARSE_ERROR)]),
    (b"\0" * 10, [(None, PARSE_ERROR)]),
    (DEEP, [(None, PARSE_ERROR)]),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + DEEP + b"]" * 100_000 + b"}}", [(None, PARSE_ERROR)]),
    (b'{"params":{"a":' + DEEP + b"]" * 100_000 + b'},"id":7}', [(None, PARSE_ERROR)]),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + b"9" * 5000 + b"}}", [(None, PARSE_ERROR)]),
    (ping(params=[]), [(7, INVALID_PARAMS)]),
    (ping(params="x"), [(7, INVALID_PARAMS)]),
    (ping(id=1.5), [(None, INVALID_REQUEST)]),
    (ping(id=True), [(None, INVALID_REQUEST)]),
    (ping(id=None), [(None, INVALID_REQUEST)]),
    (ping(id={"id": 7}), [(None, INVALID_REQUEST)]),
    (ping(id=[7]), [(None, INVALID_REQUEST)]),
    (ping(jsonrpc="1.0"), [(7, INVALID_REQUEST)]),
    (encode({"id": 7, "method": "ping"}), [(7, INVALID_REQUEST)]),
    (encode({"jsonrpc": "2.0", "id": 7}), [(7, INVALID_REQUEST)]),
    (ping(method=5), [(7, INVALID_REQUEST)]),
    (ping(method=5, result={}), [(7, INVALID_REQUEST)]),
    (encode({"foo": "boo"}), [(None, INVALID_REQUEST)]),
    (b"5", [(None, INVALID_REQUEST)]),
    (b'"x"', [(None, INVALID_REQUEST)]),
    (b"[]", [(None, INVALID_REQUEST)]),
    (b"[1,2]", [(None, INVALID_REQUEST)]),
    (b"[" + ping() + b"," + ping(id="8") + b',{"jsonrpc":"2.0","method":"x"}]', [(None, INVALID_REQUEST)]),
    (b"", []),
    (b" \t\r", []),
    (encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": []}), []),
    (encode({"jsonrpc": "2.0", "method": "tools/list"}), []),
    (encode({"jsonrpc": "2.0", "id": 7, "result": {}}), []),
    (encode({"jsonrpc": "2.0", "id": 7, "result": 5}), []),
    (encode({"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": ""}}), []),
    (encode({"jsonrpc": "2.0", "id": None, "error": 5}), []),
]


def test_what_is_no_request_is_answered_and_the_session_goes_on(session: RawSession) -> None:
    for line, expected in REFUSED:
        assert outcomes(session.ask(line)) == expected, line[:200]
    assert outcomes(session.ask(call(session, 9, text="still here"), 1)) == [(9, "still here")]
    assert session.hang_up() == ([], 0, "")


def test_half_a_character_reads_as_a_mark(session: RawSession) -> None:
    lines = {
        call(session, 1, text=f"cut {HALF}"): "cut \ufffd",
        call(session, 2, text=f"{HALF}{HALF}\ude00 \ude00 C:\\ud83d"): "\ufffd\U0001f600 \ufffd C:\\ud83d",
        call(session, 3, text="bytes").replace(b"bytes", b"\xed\xa0\xbd|\xff"): "\ufffd\ufffd\ufffd|\ufffd",
        b"\xef\xbb\xbf" + call(session, 4, text="a mark of order"): "a mark of order",
        call(session, 5, text="a return") + b"\r": "a return",
    }
    for number, (line, text) in enumerate(lines.items(), 1):
        assert outcomes(session.ask(line, 1)) == [(number, text)]


def test_a_large_message_is_answered_once(session: RawSession) -> None:
    text = '{"id":7,' * 1_000_000
    (answer,) = session.ask(call(session, 1, text=text), 1)
    assert text_of(answer) == text
    assert outcomes(session.ask(call(session, 2, text=text)[:-1])) == [(None, PARSE_ERROR)]


def test_an_id_in_flight_is_refused_and_then_free_again(session: RawSession, tmp_path: Path) -> None:
    slow = call(session, 1, "note_slowly", text=str(tmp_path / "file"))
    answers = session.ask(b"\n".join([slow, slow, call(session, "1", text="other"), slow]), 4)
    assert sorted(outcomes(answers), key=str) == [("1", "other"), (1, "done"), (1, -32600), (1, -32600)]
    assert outcomes(session.ask(call(session, 1, text="free"), 1)) == [(1, "free")]


def test_a_cancelled_request_is_not_answered_and_holds_nothing(session: RawSession, tmp_path: Path) -> None:
    slow = call(session, 1, "note_slowly", text=str(tmp_path / "file"))
    cancel = encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    assert session.ask(slow + b"\n" + cancel) == []
    answers, code, log = session.hang_up()
    assert (answers, code, log) == ([], 0, "")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "done"


def test_who_hangs_up_still_gets_every_answer(session: RawSession, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}" for number in range(6)]
    session.send(b"\n".join(call(session, file.name, "note_slowly", text=str(file)) for file in files) + b"\n{torn")
    answers, code, log = session.hang_up()
    assert sorted(outcomes(answers), key=str) == [*((file.name, "done") for file in files), (None, PARSE_ERROR)]
    assert (code, log) == (0, "")


def test_a_client_that_reads_nothing_for_a_while_loses_nothing(session: RawSession) -> None:
    text = "x" * 1000
    session.send(b"\n".join(call(session, number, text=text) for number in range(1500)))
    answers, code, _ = session.hang_up()
    assert sorted(outcomes(answers)) == [(number, text) for number in range(1500)]
    assert code == 0


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("gone", [False, True])
def test_a_client_that_reads_no_more_ends_the_server_quietly(busy: bool, gone: bool, tmp_path: Path) -> None:
    with RawSession(COMMAND, MODERN, environment()) as session:
        assert session.process.stdout
        assert session.process.stdin
        if busy:
            session.send(call(session, 1, "note_slowly", text=str(tmp_path / "file")))
        session.process.stdout.close()
        session.send(call(session, 2))
        if gone:
            session.process.stdin.close()
        assert (session.process.wait(60), session.read_log()) == (0, "")
        assert (tmp_path / "file").exists() == busy


def test_a_child_reads_nothing_and_its_words_go_to_the_log(session: RawSession) -> None:
    assert outcomes(session.ask(call(session, 1, "note_child"), 1)) == [(1, "0")]
    assert session.hang_up() == ([], 0, "stray\n")


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors of POSIX")
def test_a_server_without_standard_error_serves() -> None:
    command = ("sh", "-c", 'exec "$0" "$1" 2>&-', *COMMAND)
    with RawSession(command, LEGACY, environment()) as session:
        assert outcomes(session.ask(call(session, 1, text="heard"), 1)) == [(1, "heard")]
        assert session.hang_up() == ([], 0, "")


def test_a_client_that_waits_too_long_may_begin_again_in_the_other_era(session: RawSession) -> None:
    """As Copilot CLI does, which asks `server/discover` and shakes hands where no answer comes in time."""
    about = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    modern = {"_meta": ENVELOPE}
    opening = (
        request("again", "server/discover", **modern) if not session.meta else request("again", "initialize", **about)
    )
    (opened,) = session.ask(opening, 1)
    assert opened["result"]["capabilities"] == session.opened["result"]["capabilities"]
    for number, each in enumerate((modern, {}), 1):
        (listed,) = session.ask(request(number, "tools/list", **each), 1)
        assert len(listed["result"]["tools"]) == 3
    assert outcomes(session.ask(call(session, 9, text="heard"), 1)) == [(9, "heard")]
    assert session.hang_up() == ([], 0, "")


def test_requests_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "requests"
    file.write_bytes(request(1, "ping") + b"\n" + ping(id=2))
    with file.open("rb") as lines:
        done = subprocess.run(COMMAND, env=environment(), stdin=lines, capture_output=True, check=True)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


if __name__ == "__main__":
    tools = (note_echo, note_slowly, note_child)
    serve_stdio(build_server(tools, None, resources=Nothing()))
