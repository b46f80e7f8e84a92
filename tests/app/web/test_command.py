"""`scrimshaw ui` as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.app.command_line import Cli, command_line, enter_project

COMMAND = [str(Path(sys.executable).with_name("scrimshaw")), "ui", "--no-open", "--json"]

__all__ = ["cli"]
cli = pytest.fixture(command_line)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C reaches a process of Windows only from its own console")
def test_it_serves_this_machine_alone_until_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_project(tmp_path, monkeypatch)
    with subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert process.stdout
        assert process.stderr
        try:
            address = urlsplit(json.loads(process.stdout.readline())["url"])
            assert address.hostname == "127.0.0.1"
            connection = HTTPConnection("127.0.0.1", address.port or 0, timeout=60)
            connection.request("GET", f"/?{address.query}")
            opened = connection.getresponse()
            opened.read()
            cookie = (opened.getheader("Set-Cookie") or "").partition(";")[0]
            connection.request("GET", "/memory/north", headers={"Cookie": cookie})
            assert "closes at dusk" in connection.getresponse().read().decode()
            connection.request("GET", "/memory/north")
            assert connection.getresponse().status == 403
            connection.close()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""


def test_a_port_in_use_is_named(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_project(tmp_path, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = cli("ui", "--no-open", "--port", port)
    assert result.code == 1
    assert port in result.err
