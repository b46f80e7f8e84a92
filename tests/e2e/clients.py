"""The agent clients: where they are installed, how they are configured, and how they are run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ruamel.yaml import YAML
from tests.e2e.model import PROMPT
from tests.e2e.workspace import SCRIMSHAW, SERVER_ENVIRONMENT, Workspace

SERVER = "scrimshaw"
TIMEOUT_S = 120.0
_LOOK_S = 0.2


@dataclass(frozen=True)
class Launch:
    """A configured client, ready to run."""

    arguments: list[str]
    environment: Mapping[str, str]


class Configure(Protocol):
    """Writes a client's configuration into a workspace, pointing at the model under `url`."""

    def __call__(self, workspace: Workspace, url: str) -> Launch: ...


@dataclass(frozen=True)
class Client:
    """An npm client; it lives in `<npm folder>/<name>/node_modules/.bin/<command, or name>`.

    `told` is what set-up has its model told from the first request on.
    """

    name: str
    package: str
    configure: Configure
    command: str = ""
    told: str = ""

    def program(self, npm: Path) -> Path:
        """Where the client is when it is installed."""
        return _bin(npm, self.name) / (self.command or self.name)

    def missing(self, npm: Path) -> str:
        """Why the client cannot be run; empty when it can."""
        if self.program(npm).exists() and shutil.which("node", path=_search_path(npm)):
            return ""
        if not shutil.which("npm"):
            return "it is not installed, and there is no npm to install it with"
        # Under an older Node, npm silently chooses an older release of a client.
        node, path = f"npm install --prefix {npm / 'node24'} node@24", f"PATH={_bin(npm, 'node24')}:$PATH"
        return f"it is not installed; run: {node} && {path} npm install --prefix {npm / self.name} {self.package}"

    def version(self, npm: Path) -> str:
        """The release that is installed; not all clients name it to their model."""
        about = npm / self.name / "node_modules" / self.package / "package.json"
        return str(json.loads(about.read_text(encoding="utf-8"))["version"])


@dataclass(frozen=True)
class Finished:
    """How a run ended: the exit code, None after a timeout, and what the client printed."""

    exit_code: int | None
    output: str


def run(client: Client, npm: Path, workspace: Workspace, url: str, *, killed_at: Path | None = None) -> Finished:
    """Run a client to its end, or for TIMEOUT_S, in an environment of its own; kill it when `killed_at` is there."""
    launch = client.configure(workspace, url)
    environment = {
        "PATH": _search_path(npm),
        "HOME": str(workspace.home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **launch.environment,
    }
    command = [str(client.program(npm)), *launch.arguments]
    with subprocess.Popen(
        command,
        cwd=workspace.project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        return _wait(process, killed_at)


def _wait(process: subprocess.Popen[str], killed_at: Path | None) -> Finished:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline and not (killed_at and killed_at.exists()):
        with suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=_LOOK_S)
            return Finished(process.returncode, output)
    os.killpg(process.pid, signal.SIGKILL)
    return Finished(None, process.communicate()[0])


def _bin(npm: Path, folder: str) -> Path:
    return npm / folder / "node_modules" / ".bin"


def _search_path(npm: Path) -> str:
    return os.pathsep.join([str(_bin(npm, "node24")), os.environ.get("PATH", os.defpath)])


def _configure_claude(workspace: Workspace, url: str) -> Launch:
    command, *arguments = workspace.recorded_serve()
    # Without `alwaysLoad` a run with -p asks its model at once, and a server that is not yet connected has no tools.
    server = {"command": command, "args": arguments, "env": SERVER_ENVIRONMENT, "alwaysLoad": True}
    config = workspace.root / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {SERVER: server}}))
    allowed = ["Read", f"mcp__{SERVER}__memory_search", f"mcp__{SERVER}__memory_save"]
    flags = ["--model", "claude-sonnet-4-5", "--output-format", "json", "--allowedTools", ",".join(allowed)]
    return Launch(
        ["-p", PROMPT, *flags, "--mcp-config", str(config), "--strict-mcp-config"],
        {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
        },
    )


# Codex gives a server that is not `required` one second, and then begins without its tools and without a word.
_CODEX_CONFIG = """\
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.scripted]
name = "Scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
[mcp_servers.{server}]
command = {command}
args = {arguments}
required = true
[mcp_servers.{server}.env]
PYTHONPATH = {source}
"""


def _configure_codex(workspace: Workspace, url: str) -> Launch:
    command, *arguments = workspace.recorded_serve()
    folder = workspace.home / ".codex"
    folder.mkdir()
    quoted = {"command": command, "arguments": arguments, "source": SERVER_ENVIRONMENT["PYTHONPATH"]}
    values = {name: json.dumps(value) for name, value in quoted.items()}  # JSON strings are TOML strings
    (folder / "config.toml").write_text(_CODEX_CONFIG.format(url=url, server=SERVER, **values))
    return Launch(["exec", "--json", PROMPT], {"CODEX_HOME": str(folder), "SCRIPTED_KEY": "none"})


def _configure_continue(workspace: Workspace, url: str) -> Launch:
    """What set-up writes, with a recorder before the server, and the line that makes the command line read it."""
    setup = [*SCRIMSHAW, "setup", "continue", "--yes"]
    environment = {**os.environ, **SERVER_ENVIRONMENT, "HOME": str(workspace.home)}
    subprocess.run(setup, cwd=workspace.project, env=environment, capture_output=True, check=True)
    folder = workspace.home / ".continue"
    block = YAML(typ="safe").load(folder / f"mcpServers/{SERVER}.yaml")
    command, *arguments = workspace.recorded_serve()
    block["mcpServers"][0] |= {"command": command, "args": arguments, "env": SERVER_ENVIRONMENT}
    (folder / f"mcpServers/{SERVER}.yaml").write_text(json.dumps(block))
    model = {"name": "Scripted", "provider": "openai", "model": "scripted", "apiBase": f"{url}/v1", "apiKey": "none"}
    config = {
        **dict.fromkeys(("name", "version"), "1.0.0"),
        "schema": "v1",
        "models": [{**model, "roles": ["chat"], "capabilities": ["tool_use"]}],
        "mcpServers": [{"uses": f"./mcpServers/{SERVER}.yaml"}],
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    return Launch(["--auto", "-p", PROMPT], {})


CLIENTS = (
    Client("claude", "@anthropic-ai/claude-code", _configure_claude),
    Client("codex", "@openai/codex", _configure_codex),
    Client("continue", "@continuedev/cli", _configure_continue, "cn", "Scrimshaw is this project's memory"),
)
