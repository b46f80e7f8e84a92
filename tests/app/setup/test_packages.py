"""What `make packages` makes: for any machine, and with what setup writes."""

from __future__ import annotations

import base64
import json
import tomllib
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from docs import packages

import scrimshaw
from scrimshaw.app.clients import all_clients
from scrimshaw.app.clients.client import Programs, Scope, SharedFile
from scrimshaw.app.mcp.backend import PROMPTS
from scrimshaw.app.mcp.protocol import read_listing
from scrimshaw.app.mcp.schema import decode

FILES = dict(packages.list_files())
ENTRY = {"command": "scrimshaw", "args": ["serve"]}


def test_files_are_for_any_machine(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("of an earlier version")
    packages.write_files(tmp_path)
    files = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == FILES
    assert not [
        name for name, text in files.items() if str(Path.home()) in text or str(Path(scrimshaw.__file__)) in text
    ]
    for name in (name for name in files if name.endswith(".json")):
        assert json.loads(files[name]).get("version", scrimshaw.__version__) == scrimshaw.__version__


@pytest.mark.parametrize(
    ("client", "folder"), [("claude", "claude"), ("codex", "codex/plugins/scrimshaw"), ("gemini", "gemini")]
)
def test_plugins_have_the_hooks_that_setup_writes(client: str, folder: str) -> None:
    shared = all_clients()[client].setup_files(Path("p"), Scope.SHARED, Programs())
    wanted = {event: [each] for file in shared if isinstance(file, SharedFile) for event, each in file.hooks.items()}
    assert wanted
    assert json.loads(FILES[f"{folder}/hooks/hooks.json"])["hooks"] == wanted
    servers = FILES.get(f"{folder}/.mcp.json") or FILES[f"{folder}/gemini-extension.json"]
    assert json.loads(servers)["mcpServers"] == {"scrimshaw": ENTRY}


def test_the_plugin_of_opencode_runs_the_hook_that_is_on_the_path() -> None:
    assert 'const COMMAND = ["scrimshaw-hook", "opencode"]' in FILES["opencode/scrimshaw.js"]
    assert json.loads(FILES["opencode/opencode.json"])["mcp"]["scrimshaw"]["command"] == ["scrimshaw", "serve"]


def test_the_server_offers_the_commands_as_prompts() -> None:
    _, prompts = read_listing("core")
    assert [(each.name, each.description) for each in prompts] == [
        (name, about) for name, (about, _) in packages.COMMANDS.items()
    ]
    assert [[each.required for each in prompt.arguments or ()] for prompt in prompts] == [[True], [False], [False]]
    for spec in (PROMPTS["remember"], PROMPTS["handoff"]):
        assert "memory_save" in spec.run(None, **decode(spec.name, spec, {}))
    assert "the lock order" in PROMPTS["remember"].run(
        None, **decode("remember", PROMPTS["remember"], {"what": "the lock order"})
    )


def test_links_hold_the_server() -> None:
    links = [line.partition("](")[2].rstrip(")") for line in FILES["links.md"].splitlines() if "](" in line]
    cursor, code = map(urlsplit, links)
    assert json.loads(base64.b64decode(parse_qs(cursor.query)["config"][0])) == ENTRY
    assert json.loads(unquote(code.query)) == {"name": "scrimshaw", **ENTRY}


def test_the_registry_takes_a_description_of_a_hundred_characters() -> None:
    assert len(json.loads(FILES["server.json"])["description"]) <= 100


def test_commands_take_what_is_typed_after_them() -> None:
    opencode = json.loads(FILES["opencode/opencode.json"])["command"]
    assert [*opencode] == ["recall", "remember", "handoff"]
    for name, command in opencode.items():
        gemini = tomllib.loads(FILES[f"gemini/commands/{name}.toml"])
        asked = gemini["prompt"].replace("{{args}}", "$ARGUMENTS")
        assert asked == command["template"]
        assert asked.count("$ARGUMENTS") == 1
        assert asked in FILES[f"claude/commands/{name}.md"]
        assert gemini["description"] == command["description"]
