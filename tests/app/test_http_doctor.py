"""`scrimshaw doctor --server` against real servers: one that is well, and what may be wrong with one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.app.command_line import Cli, command_line
from tests.http_server import HttpServer, serve_http, write_shop
from tests.samples import write_memory

from scrimshaw import __version__
from scrimshaw.app.http.tokens import TokenFile, TokenScope

NAME = "memory.example.org"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shop(tmp_path_factory.mktemp("team"))


@pytest.fixture(scope="module")
def server(shop: Path) -> Iterator[HttpServer]:
    with serve_http(shop, shop.parent / "home") as server:
        yield server


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A command line on the machine of a member of the team, who has no memory there."""
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return command_line(capsys)


@pytest.fixture
def token(server: HttpServer, shop: Path, tmp_path: Path) -> Iterator[Path]:
    """A file with a token for a month."""
    (tmp_path / "token").write_text(server.token("ana", {shop: TokenScope.WRITE}, days=30) + "\n")
    yield tmp_path / "token"
    TokenFile(server.home).revoke("ana")


def examine(cli: Cli, url: str, *options: str) -> tuple[int, dict[str, dict[str, str]]]:
    done = cli("doctor", "--json", "--server", url, *options)
    return done.code, {each["name"]: each for each in done.json["findings"]}


@pytest.mark.parametrize("path", ["", "/", "/mcp", "/mcp/shop"])
def test_a_server_that_is_well(server: HttpServer, cli: Cli, token: Path, path: str) -> None:
    code, found = examine(cli, server.url + path, "--token-file", str(token))
    assert code == 0
    assert [*found] == ["answers", "ready", "token", "protocol", "version", "vault:shop"]
    assert {each["verdict"] for each in found.values()} == {"ok"}
    assert found["token"]["detail"].startswith("ana, shop: write, until 20")
    assert found["protocol"]["detail"] == "it speaks 2026-07-28 and 2025-11-25"
    assert found["version"]["detail"] == f"{__version__}, as here"
    assert found["vault:shop"]["detail"].startswith("healthy; 1 memories")


def test_a_token_comes_from_standard_input_too(
    server: HttpServer, cli: Cli, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with token.open() as text:
        monkeypatch.setattr("sys.stdin", text)
        assert "vault:shop" in examine(cli, server.url, "--token-file", "-")[1]


def test_without_a_token_only_the_process_is_examined(server: HttpServer, cli: Cli) -> None:
    code, found = examine(cli, server.url)
    assert code == 0
    assert [*found] == ["answers", "ready", "token"]
    assert found["token"]["verdict"] == "note"


@pytest.mark.parametrize(
    ("has_scope", "days", "code", "verdict", "words"),
    [
        (True, 3, 0, "warning", "until"),
        (True, -1, 1, "problem", "expired or was revoked"),
        (False, 30, 1, "problem", "for no vault of this server"),
    ],
)
def test_what_is_wrong_with_a_token(
    server: HttpServer, shop: Path, cli: Cli, tmp_path: Path, has_scope: bool, days: float, code: int, verdict: str,
    words: str,
) -> None:  # fmt: skip
    (tmp_path / "token").write_text(server.token(f"{words} {days}", {shop: TokenScope.READ} if has_scope else {}, days))
    done, found = examine(cli, server.url, "--token-file", str(tmp_path / "token"))
    assert (done, found["token"]["verdict"]) == (code, verdict)
    assert words in found["token"]["detail"]
    assert "scrimshaw token create" in found["token"]["fix"]


def test_a_file_of_a_token_that_is_not_there(server: HttpServer, cli: Cli) -> None:
    done = cli("doctor", "--server", server.url, "--token-file", "nowhere")
    assert done.code
    assert "nowhere" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("url", ["memory.example.org", "ftp://memory.example.org", "https://"])
def test_what_is_no_address(cli: Cli, url: str) -> None:
    done = cli("doctor", "--server", url, "--json")
    assert done.code == 1
    assert "https://HOST" in done.err


def test_a_vault_that_lost_what_its_golden_query_finds(cli: Cli, tmp_path: Path) -> None:
    mill = tmp_path / "mill"
    write_memory(mill / ".scrimshaw/memories", "wheel", "# Wheel\nThe wheel turns at dawn.")
    (mill / ".scrimshaw/golden.toml").write_text('[[query]]\ntext = "turns at dawn"\nexpect = ["gone"]\n')
    with serve_http(mill, tmp_path / "server") as server:
        (tmp_path / "token").write_text(server.token("ana", {mill: TokenScope.READ}, days=30))
        code, found = examine(cli, server.url, "--token-file", str(tmp_path / "token"))
    assert found["vault:mill"]["verdict"] != "ok"
    assert "gone" in found["vault:mill"]["detail"] + found["vault:mill"]["fix"]
    assert code == (found["vault:mill"]["verdict"] == "problem")


def test_nobody_answers(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    code, found = examine(cli, f"http://127.0.0.1:{port}")
    assert (code, [*found]) == (1, ["answers"])
    assert "refused" in found["answers"]["detail"]


def test_a_server_of_another_name(cli: Cli, server: HttpServer) -> None:
    code, found = examine(cli, server.url.replace("127.0.0.1", "127.0.0.2"))
    assert (code, found["answers"]["verdict"]) == (1, "problem")
    assert "--name" in found["answers"]["fix"]


def test_what_answers_is_no_scrimshaw(cli: Cli) -> None:

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answer) as other:
        threading.Thread(target=other.serve_forever).start()
        url = f"http://127.0.0.1:{other.server_address[1]}"
        try:
            code, found = examine(cli, url)
        finally:
            other.shutdown()
    assert (code, [*found]) == (1, ["answers"])
    assert "<html>" in found["answers"]["detail"]
