"""Agent clients as `scrimshaw setup` finds them: told of a model and of what their user agreed to, of nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tomlkit
from tests.e2e.clients import SERVER, Client, Launch
from tests.e2e.workspace import SERVER_ENVIRONMENT, Workspace

Configure = Callable[[Workspace, str, str], Launch]
"""Points a client at the model under an address and hands it a prompt."""


@dataclass(frozen=True)
class Agent:
    """A client whose work is recorded. `reader` and `shell` are its names for the tools; `numbers_calls` where its
    hooks tell the ids that the model gave its calls. It compacts its context when the model has used `compacts_at`
    tokens; 0 for a client that is asked to. Its model is told of a start with the answers of `told_after` calls. It
    goes on with a session by the flags `goes_on_with`; only what came before a prompt may be compacted."""

    name: str
    package: str
    reader: str
    shell: str
    configure: Configure
    numbers_calls: bool = True
    compacts_at: int = 195_000
    told_after: int = 0
    goes_on_with: tuple[str, ...] = ()

    def client(self, prompt: str, *flags: str) -> Client:
        """The client with a prompt to work on."""
        return Client(self.name, self.package, partial(self._launch, prompt=prompt, flags=flags))

    def _launch(self, workspace: Workspace, url: str, prompt: str, flags: tuple[str, ...]) -> Launch:
        temporary = workspace.root / "tmp"
        temporary.mkdir(exist_ok=True)
        launch = self.configure(workspace, url, prompt)
        environment = {"TMPDIR": str(temporary), **SERVER_ENVIRONMENT, **launch.environment}
        return Launch([*launch.arguments, *flags], environment)


def _claude(workspace: Workspace, url: str, prompt: str) -> Launch:
    _write(workspace.home / ".claude/settings.json", json.dumps({"enableAllProjectMcpServers": True}))
    allowed = f"Read,Bash,mcp__{SERVER}__memory_save,mcp__{SERVER}__memory_search"
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "true",
    }
    flags = ["--model", "claude-sonnet-4-5", "--output-format", "json", "--allowedTools", allowed]
    return Launch(["-p", prompt, *flags], environment)


_CODEX_CONFIG = """\
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
model_context_window = 200000
[model_providers.scripted]
name = "Scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
[projects.{project}]
trust_level = "trusted"
"""


def _codex(workspace: Workspace, url: str, prompt: str) -> Launch:
    folder = workspace.home / ".codex"
    _write(folder / "config.toml", _CODEX_CONFIG.format(url=url, project=json.dumps(str(workspace.project))))
    # Only a person can trust hooks, in a dialog; a test has none.
    flags = ["--json", "--dangerously-bypass-hook-trust"]
    return Launch(["exec", *flags, prompt], {"CODEX_HOME": str(folder), "SCRIPTED_KEY": "none"})


def _opencode(workspace: Workspace, url: str, prompt: str) -> Launch:
    model = {"name": "Scripted", "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"scripted": model},
    }
    names = dict.fromkeys(("model", "small_model"), "scripted/scripted")
    config = {**names, "autoupdate": False, "share": "disabled", "provider": {"scripted": provider}}
    _write(workspace.home / ".config/opencode/opencode.json", json.dumps(config))
    quiet = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
    return Launch(["run", prompt, "--format", "json"], {f"OPENCODE_DISABLE_{name}": "1" for name in quiet})


def _gemini(workspace: Workspace, url: str, prompt: str) -> Launch:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
    }
    _write(workspace.home / ".gemini/settings.json", json.dumps(settings))
    flags = ["--approval-mode", "yolo", "--output-format", "json", "-m", "gemini-2.5-pro"]
    return Launch(["-p", prompt, *flags], {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url})


def _qwen(workspace: Workspace, url: str, prompt: str) -> Launch:
    settings = {
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
    }
    _write(workspace.home / ".qwen/settings.json", json.dumps(settings))
    model = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "scripted"}
    return Launch(["-p", prompt, "--approval-mode", "yolo", "--output-format", "json"], model)


def _copilot(workspace: Workspace, url: str, prompt: str) -> Launch:
    provider = {"BASE_URL": f"{url}/v1", "TYPE": "openai", "API_KEY": "none"}
    environment = {f"COPILOT_PROVIDER_{name}": value for name, value in provider.items()}
    return Launch(
        ["-p", prompt, "--allow-all-tools"], {"COPILOT_OFFLINE": "true", "COPILOT_MODEL": "scripted", **environment}
    )


_CLINE_PROVIDER = "openai-compatible"


def _cline(workspace: Workspace, url: str, prompt: str) -> Launch:
    provider = {"provider": _CLINE_PROVIDER, "apiKey": "none", "model": "scripted", "baseUrl": f"{url}/v1"}
    settings = {
        "version": 1,
        "lastUsedProvider": _CLINE_PROVIDER,
        "modes": {},
        "providers": {
            _CLINE_PROVIDER: {"settings": provider, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
        },
    }
    _write(workspace.home / ".cline/data/settings/providers.json", json.dumps(settings))
    return Launch(["--json", "-P", _CLINE_PROVIDER, "-m", "scripted", prompt], {})


def _write(path: Path, text: str) -> None:
    """Write settings beside those that set-up put into the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if path.suffix == ".toml":
        document = tomlkit.parse(before)
        document.update(tomlkit.parse(text))
        path.write_text(tomlkit.dumps(document), encoding="utf-8")
    else:
        path.write_text(json.dumps(json.loads(before or "{}") | json.loads(text)), encoding="utf-8")


AGENTS = (
    Agent("claude", "@anthropic-ai/claude-code", "Read", "Bash", _claude, compacts_at=0),
    Agent("codex", "@openai/codex", "Bash", "Bash", _codex),
    Agent("opencode", "opencode-ai", "read", "bash", _opencode),
    Agent(
        "gemini",
        "@google/gemini-cli",
        "read_file",
        "run_shell_command",
        _gemini,
        numbers_calls=False,
        compacts_at=800_000,
        goes_on_with=("--resume", "latest"),
    ),
    Agent(
        "qwen",
        "@qwen-code/qwen-code",
        "read_file",
        "run_shell_command",
        _qwen,
        numbers_calls=False,
        compacts_at=172_000,
    ),
    Agent("copilot", "@github/copilot", "view", "bash", _copilot, numbers_calls=False),
    Agent("cline", "cline", "run_commands", "run_commands", _cline, numbers_calls=False, told_after=1),
)
