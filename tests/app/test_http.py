"""The memory over HTTP: the SDK's own client and raw requests against a real server process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.client.client import Client
from tests.http_server import PROGRAM, HttpServer, serve_http, write_shop
from tests.samples import write_memory

from scrimshaw.app.http.server import RATE_PER_S, Gate
from scrimshaw.app.http.tokens import Token, TokenFile, TokenScope
from scrimshaw.app.http.vaults import Vaults
from scrimshaw.app.mcp.tools import choose
from scrimshaw.errors import ConfigError

SEARCH = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
          "params": {"name": "memory_search", "arguments": {"query": "harbour gate"}}}  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a memory."""
    return write_shop(tmp_path_factory.mktemp("team"))


@pytest.fixture(scope="module")
def server(shop: Path) -> Iterator[HttpServer]:
    home = shop.parent / "home"
    write_memory(home / "memories", "tides", "# Tides\nMy own note on the harbour gate.")
    with serve_http(shop, home, "--toolsets", "all") as server:
        yield server


@pytest.fixture(scope="module")
def writer(server: HttpServer, shop: Path) -> str:
    """A secret that may write."""
    return server.token("ana", {shop: TokenScope.WRITE})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_both_eras_have_tools_resources_and_prompts(server: HttpServer, writer: str, mode: str) -> None:
    async def work(client: Client) -> Any:
        found = await client.call_tool("memory_search", {"query": "harbour gate"})
        resources = await client.list_resources()
        gate = await client.read_resource("memory://gate")
        prompt = await client.get_prompt("recall", {"topic": "harbour gate"})
        tools = await client.list_tools()
        return found.structured_content, resources, gate, prompt, tools

    found, resources, gate, prompt, tools = server.ask(writer, work, mode=mode)
    assert [hit["id"] for hit in found["hits"]] == ["gate"]
    assert [str(each.uri) for each in resources.resources if "gate" in str(each.uri)] == ["memory://gate"]
    assert "shuts at dusk" in gate.contents[0].text
    assert "shuts at dusk" in prompt.messages[0].content.text
    assert {each.name for each in tools.tools} == {
        each.name for each in choose("all") if each.read_only or each.toolset != "maintenance"
    }


def test_a_save_is_a_file_and_found_at_once(server: HttpServer, writer: str, shop: Path) -> None:
    saved = server.call(writer, "memory_save", content="The pilot boat is moored at the quay.", id="pilot/boat")
    assert saved["status"] == "saved"
    assert (shop / ".scrimshaw/memories/pilot/boat.md").is_file()
    hits = server.call(writer, "memory_search", query="pilot boat moored")["hits"]
    assert [hit["id"] for hit in hits] == ["pilot/boat"]


def test_a_reader_is_told_only_of_tools_that_it_may_call(server: HttpServer, shop: Path) -> None:
    reader = server.token("reader", {shop: TokenScope.READ})

    async def work(client: Client) -> Any:
        return await client.list_tools()

    assert {each.name for each in server.ask(reader, work).tools} == {
        each.name for each in choose("all") if each.read_only
    }
    assert server.call(reader, "memory_save", content="The crane is red.")["error"]["code"] == "forbidden"


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("memory_delete", {"id": "gate", "confirm": True, "purge": True}, "forbidden"),
        ("checkpoint_create", {"name": "before"}, "forbidden"),
        ("memory_save", {"file_path": "README.md"}, "forbidden"),
        ("memory_save", {"content": "The crane is green.", "id": "global/crane"}, "read_only"),
        ("memory_get", {"id": "global/tides"}, "not_found"),
    ],
)
def test_what_a_writer_may_not_do(
    server: HttpServer, writer: str, shop: Path, tool: str, arguments: dict[str, Any], code: str
) -> None:
    assert server.call(writer, tool, **arguments)["error"]["code"] == code
    assert (shop / ".scrimshaw/memories/gate.md").is_file()


def test_an_administrator_names_no_file_of_the_server_either(server: HttpServer, shop: Path) -> None:
    admin = server.token("root", {shop: TokenScope.ADMIN})
    assert server.call(admin, "checkpoint_create", name="before")["name"] == "before"
    assert server.call(admin, "memory_ingest_start", paths=["/etc"])["error"]["code"] == "forbidden"


def test_the_users_own_notes_are_not_served(server: HttpServer, writer: str) -> None:
    found = server.call(writer, "memory_search", query="my own note on the harbour gate", min_confidence=0)
    assert not [hit["id"] for hit in found["hits"] if hit["id"].startswith("global/")]
    assert "global" not in server.call(writer, "memory_stats")["by_source"]


def test_a_token_that_is_revoked_or_has_expired_opens_nothing(server: HttpServer, shop: Path) -> None:
    secret = server.token("bob", {shop: TokenScope.READ})
    assert server.send("/mcp", secret, json=SEARCH).status_code == 200
    TokenFile(server.home).revoke("bob")
    assert server.send("/mcp", secret, json=SEARCH).status_code == 401
    late = server.token("late", {shop: TokenScope.READ}, days=-1)
    assert server.send("/mcp", late, json=SEARCH).status_code == 401


def test_the_file_of_tokens_holds_no_secret(server: HttpServer, writer: str) -> None:
    file = server.home / "tokens.json"
    assert writer.removeprefix("scrimshaw_") not in file.read_text()
    if os.name != "nt":
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_server_whose_database_does_not_answer_is_not_ready(tmp_path: Path) -> None:
    shop = write_shop(tmp_path)
    with serve_http(shop, tmp_path / "home") as server:
        (index,) = (shop / ".scrimshaw/team").glob("index.db")
        for file in index.parent.glob("index.db*"):
            file.unlink()
        index.mkdir()
        assert server.send("/readyz").status_code == 503
        assert server.send("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/mcp", {}, 401),
        ("/metrics", {}, 401),
        ("/nothing", {}, 401),
        ("/mcp", {"Authorization": "Bearer scrimshaw_guess"}, 401),
        ("/mcp", {"Authorization": "Basic YTpi"}, 401),
        ("/mcp", {"Host": "evil.example"}, 421),
        ("/mcp", {"Origin": "https://evil.example"}, 421),
        ("/mcp", {"Host": "[::1"}, 421),
        ("/healthz", {"Host": "evil.example"}, 421),
        ("/healthz", {"Origin": "http://localhost:3000"}, 200),
    ],
)
def test_who_does_not_belong_here_is_refused(
    server: HttpServer, path: str, headers: dict[str, str], status: int
) -> None:
    answer = server.send(path, headers=headers)
    assert answer.status_code == status
    assert "shop" not in answer.text


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"path": "/mcp/other", "json": SEARCH}, 404),
        ({"path": "/nothing"}, 404),
        ({"path": "/mcp"}, 405),
        ({"path": "/mcp", "method": "DELETE"}, 405),
        ({"path": "/mcp", "content": b"x" * (4 * 1024 * 1024 + 1)}, 413),
        ({"path": "/mcp", "content": b"no JSON", "headers": {"Content-Type": "application/json"}}, 400),
    ],
)
def test_requests_that_cannot_be_answered(
    server: HttpServer, writer: str, request_: dict[str, Any], status: int
) -> None:
    assert server.send(secret=writer, **request_).status_code == status


def test_a_token_that_asks_without_end_is_slowed_down(server: HttpServer, shop: Path) -> None:
    secret = server.token("wild", {shop: TokenScope.READ})
    url = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((url[0], int(url[2]))) as connection:
        connection.sendall(
            f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\r\n".encode() * 2000
        )
        connection.shutdown(socket.SHUT_WR)
        answers = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert b" 429 " in answers
    assert b"Retry-After: 1" in answers or b"retry-after: 1" in answers


def test_a_token_that_never_waits_still_gets_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, secret = TokenFile(tmp_path).create("wild", {}, 1.0)
    clock, passed = [0.0], list[float]()

    async def answer(*_: Any) -> None:
        passed.append(clock[0])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(_: Any) -> None:
        pass

    monkeypatch.setattr("scrimshaw.app.http.server.time", SimpleNamespace(monotonic=lambda: clock[0]))
    gate = Gate(answer, TokenFile(tmp_path), SimpleNamespace(admit=lambda token: token), frozenset({"localhost"}))  # type: ignore[arg-type]
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {secret}".encode())]
    for number in range(1500):
        clock[0] = number / (2 * RATE_PER_S)
        asyncio.run(gate({"type": "http", "method": "GET", "path": "/mcp", "headers": headers}, receive, send))
    assert len([at for at in passed if at > 10.0]) >= 4 * RATE_PER_S


def test_metrics_count_calls_and_tell_sizes(server: HttpServer, writer: str) -> None:
    server.call(writer, "memory_search", query="harbour gate")
    server.call(writer, "memory_get", id="nowhere")
    text = server.send("/metrics", writer).text
    assert 'scrimshaw_calls_total{vault="shop",tool="memory_get",outcome="not_found"}' in text
    assert 'scrimshaw_call_seconds_bucket{vault="shop",le="+Inf"}' in text
    assert 'scrimshaw_memories{vault="shop"}' in text
    for gauge in (
        "jobs",
        "job_lag_seconds",
        "searches_degraded_share",
        "searches_refused_share",
        "searches_read_share",
    ):
        assert f'scrimshaw_{gauge}{{vault="shop"}}' in text
    assert 'scrimshaw_searches_degraded_share{vault="shop"} 1' in text  # by words alone


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signal")
def test_a_signal_ends_it_without_an_error(shop: Path, tmp_path: Path) -> None:
    with serve_http(shop, tmp_path) as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0


@pytest.mark.parametrize(
    ("options", "has_token", "words"),
    [
        (("--host", "0.0.0.0"), False, "token create"),
        (("--host", "0.0.0.0"), True, "--tls-cert"),
        (("--host", "0.0.0.0", "--behind-proxy"), True, "--name"),
        (("--tls-cert", "NAMES"), True, "--tls-key"),
        (("--port", "TAKEN"), True, "--port"),
    ],
)
def test_a_server_that_would_not_be_safe_does_not_start(
    shop: Path, tmp_path: Path, options: tuple[str, ...], has_token: bool, words: str
) -> None:
    if has_token:
        TokenFile(tmp_path).create("ana", {}, 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"TAKEN": str(taken.getsockname()[1]), "NAMES": str(shop / ".scrimshaw/memories/gate.md")}
        command = [*PROGRAM, *(places.get(each, each) for each in options)]
        environment = {**os.environ, "SCRIMSHAW_HOME": str(tmp_path)}
        done = subprocess.run(command, cwd=shop, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode in (2, 3)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_vault_that_cannot_be_opened_is_logged_and_keeps_no_other_from_being_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    folders = {"bad": tmp_path, "good": write_shop(tmp_path)}
    vaults, scopes = Vaults(folders, "core"), {str(folder): TokenScope.READ for folder in folders.values()}
    with vaults.open_all() as names:
        assert (names, vaults.is_ready) == (["good"], False)
        caller = vaults.admit(Token(name="ana", digest="", scopes=scopes, created=0, expires=0))
        assert ([*caller.scopes], [*caller.waiting]) == (["good"], ["bad"])
    assert "The vault bad is not served" in caplog.text
    with pytest.raises(ConfigError, match="no memory"), Vaults({"bad": tmp_path}, "core").open_all():
        pass


def test_a_clone_cannot_name_vaults(project: Path, tmp_path: Path) -> None:
    (project / ".scrimshaw/config.toml").write_text('[[vaults]]\nname = "shop"\npath = "/"\n')
    environment = {**os.environ, "SCRIMSHAW_HOME": str(tmp_path)}
    done = subprocess.run(PROGRAM, cwd=project, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 2
    assert "[[vaults]]" in done.stderr
