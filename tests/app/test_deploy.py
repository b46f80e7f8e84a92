"""The files of `deploy/`: what they start is a server that becomes ready."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.http_server import serve_http, write_shop
from tests.storage import postgres_server

from scrimshaw.app.http.tokens import TokenScope

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE: Any = YAML(typ="safe").load(DEPLOY / "compose.yaml")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The server's folder, whose configuration names a project; its working directory too."""
    write_shop(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(f'[[vaults]]\nname = "shop"\npath = {str(tmp_path / "shop")!r}\n')
    return home


def find_in_server(home: Path, options: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The ids that a server with these options finds; it starts in its home and takes any free port."""
    with serve_http(home, home, *options, environment=environment) as server:
        secret = server.token("ana", {home.parent / "shop": TokenScope.READ})
        name = options[options.index("--name") + 1]
        message = {"name": "memory_search", "arguments": {"query": "harbour gate"}}
        answer = server.send(
            "/mcp/shop",
            secret,
            headers={"Host": name},
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": message},
        )
        return [hit["id"] for hit in answer.json()["result"]["structuredContent"]["hits"]]


def read_unit() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # its documented way
    unit.read(DEPLOY / "scrimshaw.service")
    return unit["Service"]


@pytest.mark.slow
def test_what_the_unit_starts_becomes_ready(home: Path) -> None:
    program, serve, http, *options = shlex.split(read_unit()["ExecStart"])
    assert (Path(program).name, serve, http) == ("scrimshaw", "serve", "--http")
    assert find_in_server(home, options, {}) == ["gate"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "scrimshaw.service").read_text()
    file = tmp_path / "scrimshaw.service"
    # The program and the user of the installation are not on this machine.
    file.write_text(
        re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", text).replace("=scrimshaw\n", "=root\n")
    )
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if file.name in line] == []


@pytest.mark.slow
@pytest.mark.skipif(not postgres_server.IS_HERE, reason="there is no PostgreSQL")
def test_what_compose_starts_becomes_ready_on_its_database(home: Path) -> None:
    service = COMPOSE["services"]["memory"]
    serve, http, *options = (re.sub(r"\$\{SERVER_NAME.*\}", "memory.example.org", each) for each in service["command"])
    assert (serve, http) == ("serve", "--http")
    options[options.index("0.0.0.0")] = "127.0.0.1"
    stated = {**service["environment"], "SCRIMSHAW_STORAGE_URL": postgres_server.start()}
    assert find_in_server(home, options, {**stated, "SCRIMSHAW_STORAGE_VAULT": f"compose_{os.getpid()}"}) == ["gate"]


def test_compose_names_only_what_it_has() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        assert {*service.get("depends_on", ())} <= services.keys()
        named = {volume.partition(":")[0] for volume in service["volumes"]}
        assert {name for name in named if re.match(r"\w", name)} <= COMPOSE["volumes"].keys()
    address = services["memory"]["environment"]["SCRIMSHAW_STORAGE_URL"]
    user = services["database"]["environment"]["POSTGRES_USER"]
    assert re.fullmatch(rf"postgresql://{user}:\$\{{DATABASE_PASSWORD\S* \S+\}}@database/{user}", address)
    assert all(port.startswith("127.0.0.1:") for port in services["memory"]["ports"])
