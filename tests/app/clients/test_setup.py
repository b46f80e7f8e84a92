"""`scrimshaw setup` on a home and a project of its own: what each client's files hold before, between and after."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.app.clients.record import load_records
from tests.app.clients.records import cline
from tests.app.clients.words import OURS, SERVER
from tests.app.command_line import Cli, command_line
from tests.app.hooks.test_hook_process import RUN, hook

from scrimshaw.app import setup
from scrimshaw.app.clients import CLIENT_NAMES, all_clients
from scrimshaw.app.clients.client import Programs, Scope
from scrimshaw.errors import ConfigError, Conflict
from scrimshaw.ingest.memory_file import parse_memory_file

RECORDS = load_records()
FILES = {client: record.files for client, record in RECORDS.items()}
PLACES = [(client, Scope(scope)) for client in FILES for scope in all_clients()[client].scopes]
SHARED = [
    (client, scope, file)
    for client, scope in PLACES
    for file in FILES[client][all_clients()[client].scopes.index(scope)]
    if file.endswith((".json", ".toml"))
]

FOREIGN = {
    ".json": b'{"theme":"dark",\r\n\r\n "mcpServers":{"other":{"command":"x", "args":["a","b"]}},'
    b' "mcp":{"o":{"type":"remote"}},'
    b'\r\n "hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}], "Mine":[]},"n":1.50}',
    ".toml": b'# mine\nmodel = "x"   # why\n\n[mcp_servers.other]\ncommand = "y"\n\n\n[tools]\nweb = true\n',
}
GIT = shutil.which("git") or "git"
BROKEN = {".json": b'{\n  "a": 1,,\n}', ".toml": b"a = 1\nb = = 2\n"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a home `h` and a project with a memory `p`, on a machine without clients."""
    (tmp_path / "h").mkdir()
    (tmp_path / "p/.scrimshaw/memories").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "h"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "h"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    monkeypatch.chdir(tmp_path / "p")
    monkeypatch.setattr(setup, "find_programs", lambda: OURS)
    return tmp_path


@pytest.fixture
def cli(root: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys)


def tree(root: Path) -> dict[str, bytes]:
    """All files below the home and the project but those of the memory itself."""
    found = (path for path in root.rglob("*") if path.is_file() and ".scrimshaw" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def put(root: Path, file: str, content: bytes) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_bytes(content)


@pytest.mark.parametrize(("client", "scope"), PLACES)
def test_fresh_files_come_once_and_go(cli: Cli, root: Path, client: str, scope: Scope) -> None:
    files = FILES[client][all_clients()[client].scopes.index(scope)]
    arguments = ("setup", client, f"--{scope}", "--yes", "--json")
    first, made, again = cli(*arguments), tree(root), cli(*arguments)
    assert (first.code, sorted(made)) == (0, sorted(files))
    assert {file["action"] for file in first.json["files"]} == {"create"}
    assert again.json["files"] == []
    assert cli("setup", client, f"--{scope}", "--remove", "--yes").code == 0
    assert tree(root) == {}


@pytest.mark.parametrize("client", FILES)
def test_the_usual_scope_is_the_first(cli: Cli, root: Path, client: str) -> None:
    cli("setup", client, "--yes")
    assert sorted(tree(root)) == sorted(FILES[client][0])


@pytest.mark.parametrize(("client", "scope", "file"), SHARED)
def test_what_others_wrote_stays_and_comes_back_to_the_byte(
    cli: Cli, root: Path, client: str, scope: Scope, file: str
) -> None:
    content = FOREIGN[Path(file).suffix]
    put(root, file, content)
    assert cli("setup", client, f"--{scope}", "--yes").code == 0
    changed = (root / file).read_bytes()
    assert changed != content
    if file.endswith(".json"):
        assert set(json.loads(changed)) - {"version", "$schema", "projects"} == set(json.loads(content))
        assert list(json.loads(changed))[:5] == list(json.loads(content))
    assert b"say done" in changed or b"# why" in changed
    assert cli("setup", client, f"--{scope}", "--yes", "--json").json["files"] == []
    assert cli("setup", client, f"--{scope}", "--remove", "--yes").code == 0
    assert tree(root) == {file: content}


@pytest.mark.parametrize(("client", "scope", "file"), SHARED)
def test_what_changed_since_stays_when_ours_goes(cli: Cli, root: Path, client: str, scope: Scope, file: str) -> None:
    put(root, file, FOREIGN[Path(file).suffix])
    cli("setup", client, f"--{scope}", "--yes")
    text = (root / file).read_text()
    newer = text.replace('"dark"', '"light"').replace("web = true", "web = false")
    (root / file).write_text(newer, newline="")
    assert cli("setup", client, f"--{scope}", "--remove", "--yes").code == 0
    rest = (root / file).read_text()
    assert "light" in rest or "web = false" in rest
    assert "other" in rest
    assert "scrimshaw" not in rest


@pytest.mark.parametrize("client", FILES)
def test_a_dry_run_and_a_missing_answer_write_nothing(cli: Cli, root: Path, client: str) -> None:
    shown = cli("setup", client, "--dry-run")
    assert (shown.code, "Nothing was written" in shown.out) == (0, True)
    assert "+" in shown.out
    refused = cli("setup", client)
    assert (refused.code, "--yes" in refused.err) == (1, True)
    assert tree(root) == {}


@pytest.mark.parametrize(("client", "scope", "file"), SHARED)
@pytest.mark.parametrize("removal", [(), ("--remove",)])
def test_a_broken_file_is_named_and_nothing_is_written(
    cli: Cli, root: Path, client: str, scope: Scope, file: str, removal: tuple[str, ...]
) -> None:
    put(root, file, BROKEN[Path(file).suffix])
    done = cli("setup", client, f"--{scope}", "--yes", *removal)
    assert done.code == 2
    assert str(root / file) in done.err.replace("\n", "")
    assert ":2:" in done.err or "line 2" in done.err
    assert tree(root) == {file: BROKEN[Path(file).suffix]}


def hooks_of(client: str, root: Path) -> dict[str, Any]:
    """The handler of each event, as the client's file holds it."""
    for file in FILES[client][0]:
        if file.endswith(".json") and (hooks := json.loads((root / file).read_bytes()).get("hooks")):
            return {event: handler(elements) for event, elements in hooks.items()}
    return {}


def handler(elements: list[Any]) -> Any:
    (element,) = elements
    return element["hooks"][0] if "hooks" in element else element


@pytest.mark.parametrize("client", RECORDS)
def test_hooks_run_ours_in_the_clients_own_way_for_events_that_are_understood(
    cli: Cli, root: Path, client: str
) -> None:
    cli("setup", client, "--yes")
    hooks, record = hooks_of(client, root), RECORDS[client]
    assert (len(hooks) >= 6) is bool(record.handler)
    for event, found in hooks.items():
        assert record.handler
        assert record.report
        assert found == record.handler(event)
        assert all_clients()[client].parse_payload(*record.report(event)), event


def test_every_cline_hook_is_understood_and_can_be_run(cli: Cli, root: Path) -> None:
    cli("setup", "cline", "--yes")
    for file in cline.HOOKS:
        path = root / file
        section = path.name[0].lower() + path.name[1:]
        payload = {"taskId": "t", section: {"prompt": "p", "toolName": "read_file"}}
        assert all_clients()["cline"].parse_payload(payload, path.name), path.name
        assert os.access(path, os.X_OK)
        assert path.read_text().endswith(f"'/opt/my tools/scrimshaw-hook' cline {path.name} ; exit 0\n")


@pytest.mark.parametrize(
    ("hook", "in_powershell", "expected"),
    [
        ("scrimshaw-hook", False, "scrimshaw-hook gemini ; exit 0"),
        ("scrimshaw-hook", True, "scrimshaw-hook gemini ; exit 0"),  # a file that a team shares says one thing for all
        ("/opt/my tools/hook", False, "'/opt/my tools/hook' gemini ; exit 0"),
        ("/opt/my tools/hook", True, "& '/opt/my tools/hook' gemini ; exit 0"),
    ],
)
def test_a_hook_command_runs_in_its_shell(hook: str, expected: str, *, in_powershell: bool) -> None:
    assert Programs(hook=hook).hook_command("gemini", in_powershell=in_powershell) == expected


def test_what_cmd_hands_on_besides_the_client_is_not_read(project: Path) -> None:
    """cmd.exe knows no `;`: it is an argument there, like what follows."""
    (project / ".scrimshaw").mkdir(exist_ok=True)
    (_, *given) = Programs().hook_command("codex").split()
    event = {"session_id": "S1", "cwd": str(project), "hook_event_name": "UserPromptSubmit", "prompt": "Mend the mole."}
    code = f"import sys; sys.argv[1:] = {given}\n{RUN}"
    done = hook(project, json.dumps(event).encode(), run=code)
    assert (done.returncode, done.stderr) == (0, b"")
    assert not (project / ".scrimshaw/hook.log").exists()


@pytest.mark.parametrize("client", [client for client, record in RECORDS.items() if record.server])
def test_setup_writes_the_server_entry(cli: Cli, root: Path, client: str) -> None:
    cli("setup", client, "--user", "--yes")
    file, key, entry = RECORDS[client].server or ("", "", {})
    read = json.loads if file.endswith(".json") else tomllib.loads
    assert read((root / file).read_text())[key] == {"scrimshaw": entry}


def test_codex_never_requires_the_server(cli: Cli, root: Path) -> None:
    file = FILES["codex"][0][0]
    put(root, file, b'[mcp_servers.scrimshaw]\ncommand = "/old/scrimshaw"\nargs = ["serve"]\nrequired = true\n')
    cli("setup", "codex", "--yes")
    assert tomllib.loads((root / file).read_text())["mcp_servers"] == {"scrimshaw": {**SERVER, "required": False}}


@pytest.mark.parametrize("client", FILES)
def test_a_hook_that_is_gone_stops_no_client(cli: Cli, root: Path, client: str) -> None:
    cli("setup", client, "--yes")
    commands = [text for text in map(bytes.decode, tree(root).values()) if text.startswith("#!/bin/sh")]
    for text in (each.decode() for name, each in tree(root).items() if name.endswith(".json")):
        commands += re.findall(r'"(?:command|bash)": "([^"]*scrimshaw-hook[^"]*)"', text)
    for command in commands:
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, input=b"{}", check=False)
        assert (done.returncode, done.stdout) == (0, b""), command
        assert b"not found" in done.stderr
    assert commands or client in ("opencode", "continue")


@pytest.mark.parametrize(("client", "scope"), PLACES)
def test_another_installation_takes_out_what_one_put_in(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch, client: str, scope: Scope
) -> None:
    for file in FILES[client][all_clients()[client].scopes.index(scope)]:
        if content := FOREIGN.get(Path(file).suffix):
            put(root, file, content)
    before = tree(root)
    cli("setup", client, "--yes", f"--{scope}")
    for name, content in tree(root).items():  # as versions before this one wrote it
        put(root, name, content.replace(b" ; exit 0", b"").replace(b"required = false", b"required = true"))
    monkeypatch.setattr(setup, "find_programs", None)  # whoever removes need not have programs itself
    assert cli("setup", client, f"--{scope}", "--remove", "--yes").code == 0
    assert tree(root) == before


def test_opencode_gets_the_plugin_with_the_full_path(cli: Cli, root: Path) -> None:
    cli("setup", "opencode", "--yes")
    plugin = (root / "h/.config/opencode/plugin/scrimshaw.js").read_text()
    assert 'const COMMAND = ["/opt/my tools/scrimshaw-hook", "opencode"]' in plugin


def test_a_status_line_comes_only_when_it_is_asked_for_and_goes_with_the_rest(cli: Cli, root: Path) -> None:
    settings = "p/.claude/settings.local.json"
    cli("setup", "claude", "--yes")
    assert "statusLine" not in json.loads((root / settings).read_bytes())
    cli("setup", "claude", "--statusline", "--yes")
    line = json.loads((root / settings).read_bytes())["statusLine"]
    assert line == {"type": "command", "command": "'/opt/my tools/scrimshaw' statusline"}
    assert cli("setup", "claude", "--yes", "--json").json["files"] == []
    cli("setup", "claude", "--remove", "--yes")
    assert tree(root) == {}
    put(root, settings, b'{"statusLine": {"type": "command", "command": "mine"}}')
    assert cli("setup", "claude", "--statusline", "--yes").code == 1


def test_a_project_without_a_memory_is_named(cli: Cli, root: Path) -> None:
    assert "has no memory yet" not in cli("setup", "claude", "--yes").err
    shutil.rmtree(root / "p/.scrimshaw")
    assert "has no memory yet" in cli("setup", "claude", "--yes").err


def test_a_foreign_server_of_our_name_is_not_touched(cli: Cli, root: Path) -> None:
    content = b'{"mcpServers": {"scrimshaw": {"command": "node", "args": ["x.js"]}}}'
    put(root, "p/.mcp.json", content)
    assert cli("setup", "claude", "--shared", "--yes").code == 1
    assert cli("setup", "claude", "--yes", "--remove").code == 0
    assert tree(root) == {"p/.mcp.json": content}


def test_a_foreign_hook_of_cline_is_left_alone(cli: Cli, root: Path) -> None:
    file = "h/.cline/hooks/PostToolUse"
    put(root, file, b"#!/bin/sh\nlint\n")
    refused = cli("setup", "cline", "--yes")
    assert (refused.code, "scrimshaw-hook cline" in refused.err.replace("\n", " ")) == (1, True)
    assert list(tree(root)) == [file]
    shared = b"#!/bin/sh\ntee >(lint) | scrimshaw-hook cline PostToolUse\n"
    put(root, file, shared)
    assert cli("setup", "cline", "--yes").code == 0
    assert cli("setup", "cline", "--yes", "--remove").code == 0
    assert tree(root) == {file: shared}


def test_an_entry_that_was_there_before_setup_goes_too(cli: Cli, root: Path) -> None:
    put(root, "p/.mcp.json", b'{"mcpServers": {"scrimshaw": {"command": "scrimshaw", "args": ["serve"]}}, "a": 1}')
    cli("setup", "claude", "--yes")
    cli("setup", "claude", "--yes", "--remove", "--shared")
    assert json.loads((root / "p/.mcp.json").read_bytes()) == {"a": 1}


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_stays_a_link_and_a_private_file_private(cli: Cli, root: Path) -> None:
    put(root, "dotfiles/claude.json", b'{"key": "private", "mcpServers": {}}')
    (root / "dotfiles/claude.json").chmod(0o600)
    (root / "h/.claude.json").symlink_to(root / "dotfiles/claude.json")
    cli("setup", "claude", "--user", "--yes")
    assert (root / "h/.claude.json").is_symlink()
    assert b"scrimshaw" in (root / "dotfiles/claude.json").read_bytes()
    for file in ("dotfiles/claude.json", "h/.claude.json.before-scrimshaw"):
        assert stat.S_IMODE((root / file).stat().st_mode) == 0o600


def test_a_file_that_changes_while_the_user_thinks_is_not_overwritten(root: Path) -> None:
    edits = all_clients()["claude"].setup_files(root / "p", Scope.SHARED, OURS)
    change = next(setup.plan_additions(edits, root / "p"))
    put(root, "p/.mcp.json", b"{}")
    with pytest.raises(Conflict, match="in the meantime"):
        setup.apply_change(change)
    assert (root / "p/.mcp.json").read_bytes() == b"{}"


def test_a_setup_that_cannot_be_finished_leaves_nothing(cli: Cli, root: Path) -> None:
    put(root, "h/.claude.json", b'{"projects": {}, "mcpServers": {}}')
    put(root, "p/.claude", b"no folder")
    before = tree(root)
    refused = cli("setup", "claude", "--local", "--yes")
    assert (refused.code, "settings.local.json" in refused.err) == (3, True)
    assert tree(root) == before


def test_two_scopes_that_share_a_file_are_removed_at_once(cli: Cli, root: Path) -> None:
    before = b'{"theme":"dark"}'
    put(root, "h/.claude.json", before)
    for scope in ("--local", "--user"):
        cli("setup", "claude", scope, "--yes")
    assert cli("setup", "claude", "--remove", "--yes").code == 0
    assert tree(root) == {"h/.claude.json": before}


def test_the_server_of_a_repository_stays_while_another_project_in_it_is_connected(cli: Cli, root: Path) -> None:
    subprocess.run([GIT, "init", "-q", "."], check=True)
    part = root / "p/packages/api"
    part.mkdir(parents=True)
    for project in (root / "p", part):
        assert cli("init", "--project", str(project)).code == 0
        assert cli("setup", "claude", "--yes", "--project", str(project)).code == 0
    excluded = root / "p/.git/info/exclude"
    files = subprocess.run([GIT, "status", "--short", "-uall"], check=True, capture_output=True).stdout
    assert b"settings.local.json" not in files  # they have paths of this machine
    removed = cli("setup", "claude", "--remove", "--yes", "--project", str(part))
    lines = [each for each in excluded.read_text().splitlines() if "settings.local.json" in each]
    assert lines == ["/.claude/settings.local.json*"]  # only where setup wrote one
    assert f"is used in {(root / 'p').resolve()} too, so it stays" in removed.err.replace("\n", " ")
    assert [b"scrimshaw" in (root / "h/.claude.json").read_bytes(), (part / ".claude").exists()] == [True, False]
    assert cli("setup", "claude", "--remove", "--yes").code == 0
    assert not [file for file in tree(root) if "claude" in file]
    assert b"settings.local.json" not in excluded.read_bytes()


_KEEPS = "`.git/info/exclude` keeps the files out of git"


def test_only_a_file_that_setup_wrote_is_hidden_from_git(cli: Cli, root: Path) -> None:
    subprocess.run([GIT, "init", "-q", "."], check=True)
    part = root / "p/packages/a[b]"
    part.mkdir(parents=True)
    put(root, "p/other/.claude/settings.local.json", b"{}")
    assert cli("setup", "claude", "--yes", "--project", str(part)).code == 0
    status = [GIT, "status", "--short", "-uall"]
    assert b"a[b]/.claude" not in subprocess.run(status, check=True, capture_output=True).stdout
    assert b"other/.claude" in subprocess.run(status, check=True, capture_output=True).stdout
    assert cli("setup", "claude", "--remove", "--yes", "--project", str(part)).code == 0
    assert "settings.local" not in (root / "p/.git/info/exclude").read_text()


def test_a_file_of_an_earlier_setup_is_hidden_from_git_without_another_change(cli: Cli, root: Path) -> None:
    subprocess.run([GIT, "init", "-q", "."], check=True)
    excluded, yes = root / "p/.git/info/exclude", ("setup", "claude", "--yes", "--json")
    assert any(_KEEPS in each for each in cli(*yes).json["advice"])
    excluded.write_text("own\n")
    assert not any(_KEEPS in each for each in cli("setup", "claude", "--dry-run", "--json").json["advice"])
    assert excluded.read_text() == "own\n"
    again = cli(*yes).json
    assert again["files"] == []
    assert excluded.read_text() == "own\n\n/.claude/settings.local.json*\n"


def test_without_git_nothing_is_said_to_be_hidden_from_it(cli: Cli) -> None:
    advice = cli("setup", "claude", "--yes", "--json").json["advice"]
    assert not any(_KEEPS in each for each in advice)
    assert any("Keep the files out of git" in each for each in advice)


def test_a_file_stays_hidden_while_another_work_tree_has_it(cli: Cli, root: Path) -> None:
    subprocess.run([GIT, "init", "-q", "."], check=True)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    subprocess.run([GIT, *identity, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([GIT, "worktree", "add", "-q", str(root / "w")], check=True)
    for tree_ in ("p", "w"):
        assert cli("init", "--project", str(root / tree_)).code == 0
        assert cli("setup", "claude", "--yes", "--project", str(root / tree_)).code == 0
    for tree_, is_hidden in (("w", True), ("p", False)):
        assert cli("setup", "claude", "--remove", "--yes", "--project", str(root / tree_)).code == 0
        assert ("settings.local" in (root / "p/.git/info/exclude").read_text()) is is_hidden


def test_the_server_stays_where_another_projects_settings_cannot_be_read(cli: Cli, root: Path) -> None:
    subprocess.run([GIT, "init", "-q", "."], check=True)
    (root / "p/part").mkdir()
    for project in (root / "p", root / "p/part"):
        assert cli("init", "--project", str(project)).code == 0
        assert cli("setup", "claude", "--yes", "--project", str(project)).code == 0
    put(root, "p/part/.claude/settings.local.json", b"{broken")
    removed = cli("setup", "claude", "--remove", "--yes", "--json")
    place = (root / "p/part").resolve()
    said = [each for each in removed.json["advice"] if f"may be used in {place} too, so it stays: {place}" in each]
    assert (removed.code, len(said)) == (0, 1)
    assert [b"scrimshaw" in (root / "h/.claude.json").read_bytes(), (root / "p/.claude").exists()] == [True, False]


def test_what_concerns_shared_files_is_only_said_of_those(cli: Cli) -> None:
    for client, word in (("claude", "asks once"), ("gemini", "that you trust")):
        advice = {
            scope: cli("setup", client, *scope, "--dry-run", "--json").json["advice"] for scope in ((), ("--shared",))
        }
        assert [any(word in each for each in some) for some in advice.values()] == [False, True]


def test_a_copy_is_made_of_what_could_not_come_back_without(cli: Cli, root: Path) -> None:
    """What setup empties it takes away, so an empty table of before would be lost."""
    copy, before = root / "h/.cursor/mcp.json.before-scrimshaw", b'{"mcpServers": {}, "a": 1}'
    put(root, "h/.cursor/mcp.json", before)
    cli("setup", "cursor", "--yes")
    assert copy.read_bytes() == before
    (root / "h/.cursor/mcp.json").write_bytes(
        (root / "h/.cursor/mcp.json").read_bytes().replace(b"/opt/my tools", b"/older")
    )
    cli("setup", "cursor", "--yes")
    assert copy.read_bytes() == before
    cli("setup", "cursor", "--yes", "--remove")
    assert tree(root) == {"h/.cursor/mcp.json": before}


_COMMENTED = (
    b'// mine\r\n{\r\n  /* of old */ "theme": "dark", // dim, at night\r\n  "mcpServers": {\r\n'
    b'    "other": {"command": "x"} // theirs, with http://host\r\n    // none below\r\n  } /* end */\r\n}\r\n'
)


@pytest.mark.parametrize("client", ["gemini", "cursor", "claude"])
def test_comments_stay_where_they_are(cli: Cli, root: Path, client: str) -> None:
    file = FILES[client][all_clients()[client].scopes.index(Scope.SHARED)][0]
    put(root, file, _COMMENTED)
    assert cli("setup", client, "--shared", "--yes").code == 0
    changed = (root / file).read_bytes()
    assert b"scrimshaw" in changed
    assert changed.count(b"\n") == changed.count(b"\r\n")
    for line in (b'"theme": "dark", // dim, at night', b'"other": {"command": "x"}, // theirs, with http://host'):
        assert line + b"\r\n" in changed
    assert b"    // none below\r\n  }" in changed
    assert cli("setup", client, "--shared", "--remove", "--yes").code == 0
    assert tree(root) == {file: _COMMENTED}


@pytest.mark.parametrize(("file", "client"), [("h/.cursor/mcp.json", "cursor"), ("h/.codex/config.toml", "codex")])
def test_what_cannot_be_edited_is_printed_to_be_pasted(cli: Cli, root: Path, file: str, client: str) -> None:
    put(root, file, BROKEN[Path(file).suffix])
    refused = cli("setup", client, "--yes")
    assert refused.code == 2
    pasted = refused.err.partition("put this into it:\n")[2]
    read = json.loads if file.endswith(".json") else tomllib.loads
    _, key, entry = RECORDS[client].server or ("", "", {})
    assert read(pasted) == {key: {"scrimshaw": entry}}


class TestSharedScope:
    @pytest.mark.parametrize("client", [client for client, scope in PLACES if scope is Scope.SHARED])
    def test_its_files_are_the_same_on_every_machine(self, cli: Cli, root: Path, client: str) -> None:
        done = cli("setup", client, "--shared", "--yes", "--json")
        files = tree(root)
        assert files
        assert all(name.startswith("p/") for name in files)
        assert (b"scrimshaw-hook" if all_clients()[client].events else b"scrimshaw") in b"".join(files.values())
        assert not [name for name, text in files.items() if b"/opt" in text or str(root).encode() in text]
        assert any("Commit" in advice for advice in done.json["advice"])

    def test_needs_no_programs_here(self, cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(setup, "find_programs", None)
        assert cli("setup", "codex", "--shared", "--yes").code == 0

    @pytest.mark.parametrize("client", [client for client, scope in PLACES if scope is Scope.SHARED])
    def test_its_files_go_only_when_they_are_named(self, cli: Cli, root: Path, client: str) -> None:
        cli("setup", client, "--shared", "--yes")
        files = tree(root)
        cli("setup", client, "--user", "--yes")
        assert len(tree(root)) > len(files)
        removed = cli("setup", client, "--remove", "--yes", "--json")
        assert tree(root) == files
        assert all(any(name in advice for advice in removed.json["advice"]) for name in files)
        assert cli("setup", client, "--remove", "--shared", "--yes").code == 0
        assert tree(root) == {}
        assert [*root.glob("[hp]/*")] == [root / "p/.scrimshaw"]

    def test_a_clone_is_connected_where_the_programs_are_on_the_path(
        self, cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert cli("init").code == 0
        cli("setup", "gemini", "--shared", "--yes")
        lost = TestDoctor.finding(cli, "gemini")
        assert lost
        assert (lost["verdict"], "not on the PATH" in lost["detail"]) == ("problem", True)
        for name in ("scrimshaw", "scrimshaw-hook"):
            put(root, f"bin/{name}", b"#!/bin/sh\n")
            (root / "bin" / name).chmod(0o755)
        found = TestDoctor.finding(cli, "gemini")
        assert found
        assert found["verdict"] == "ok"
        assert cli("setup", "gemini", "--yes", "--json").json["files"] == []  # it is connected, so nothing is added
        monkeypatch.setattr(setup, "find_programs", lambda: Programs(server=str(root / "bin/scrimshaw")))
        cli("setup", "gemini", "--user", "--yes")
        twice = [each for each in cli("doctor", "--json").json["findings"] if each["name"] == "gemini"]
        assert any("two summaries" in each["detail"] and each["verdict"] == "note" for each in twice)


def test_what_is_local_stays_out_of_shared_files(cli: Cli, root: Path) -> None:
    """Claude Code knows a project by its first work tree, and keeps its local servers in the user's file."""
    subprocess.run([GIT, "init", "--quiet", str(root / "p")], check=True)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    subprocess.run([GIT, "-C", str(root / "p"), *identity, "commit", "--quiet", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([GIT, "-C", str(root / "p"), "worktree", "add", "--quiet", str(root / "w")], check=True)
    (root / "w/.scrimshaw").mkdir()
    put(root, "h/.claude.json", b'{"projects": {"/else": {"mcpServers": {}}}, "n": 1}')
    done = cli("setup", "claude", "--local", "--yes", "--json", "--project", str(root / "w"))
    assert [Path(each["path"]).name for each in done.json["files"]] == [".claude.json", "settings.local.json"]
    projects = json.loads((root / "h/.claude.json").read_bytes())["projects"]
    assert projects == {"/else": {"mcpServers": {}}, str(root / "p"): {"mcpServers": {"scrimshaw": SERVER}}}
    assert (root / "w/.claude/settings.local.json").exists()


def test_all_means_what_is_installed(cli: Cli, root: Path) -> None:
    none = cli("setup", "all", "--yes")
    assert (none.code, tree(root)) == (1, {})
    (root / "h/.cursor").mkdir()
    (root / "bin/codex").write_text("#!/bin/sh\n")
    (root / "bin/codex").chmod(0o755)
    done = cli("setup", "all", "--yes", "--json")
    assert done.json["clients"] == ["codex", "cursor"]
    assert any("/hooks" in advice for advice in done.json["advice"])
    assert sorted(tree(root)) == sorted(["bin/codex", *FILES["codex"][0], *FILES["cursor"][0]])
    assert cli("setup", "all", "--remove", "--yes").code == 0
    assert list(tree(root)) == ["bin/codex"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        (("emacs",), 2),
        (("claude", "--world"), 2),
        (("claude", "--user", "--local"), 2),
        (("codex", "--local"), 1),
        (("copilot", "--shared"), 1),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, root: Path, arguments: tuple[str, ...], code: int) -> None:
    assert cli("setup", *arguments, "--yes").code == code
    assert tree(root) == {}


class TestPrograms:
    @pytest.fixture
    def scripts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
        def make(name: str) -> Path:
            folder = tmp_path / name
            folder.mkdir()
            for program in ("scrimshaw", "scrimshaw-hook"):
                (folder / program).write_text("#!/bin/sh\n")
                (folder / program).chmod(0o755)
            return folder

        monkeypatch.setattr(sys, "argv", [str(tmp_path / "elsewhere/scrimshaw")])
        return make

    def test_are_those_beside_the_interpreter(
        self, scripts: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = scripts("bin")
        monkeypatch.setattr("sysconfig.get_path", lambda name: str(folder))
        found = setup.find_programs()
        assert (found.server, found.hook) == (str(folder / "scrimshaw"), str(folder / "scrimshaw-hook"))

    def test_or_beside_the_program_that_runs(
        self, scripts: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "none"))
        folder = scripts("elsewhere")
        assert setup.find_programs().server == str(folder / "scrimshaw")

    def test_but_never_shims(self, scripts: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
        folder = scripts("shims")
        monkeypatch.setattr("sysconfig.get_path", lambda name: str(folder))
        with pytest.raises(ConfigError, match="scrimshaw and scrimshaw-hook are not installed"):
            setup.find_programs()


class TestDoctor:
    @pytest.fixture(autouse=True)
    def memory(self, cli: Cli) -> None:
        assert cli("init").code == 0

    @staticmethod
    def finding(cli: Cli, name: str) -> dict[str, str] | None:
        found = [each for each in cli("doctor", "--json").json["findings"] if each["name"] == name]
        return found[0] if found else None

    def test_says_nothing_of_clients_that_are_not_there(self, cli: Cli) -> None:
        assert not any(self.finding(cli, name) for name in CLIENT_NAMES)

    def test_tells_of_a_client_that_is_not_connected(self, cli: Cli, root: Path) -> None:
        (root / "h/.gemini").mkdir()
        found = self.finding(cli, "gemini")
        assert found
        assert (found["verdict"], found["fix"]) == ("note", "Run `scrimshaw setup gemini`.")

    @pytest.fixture
    def server(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A server program that is there."""
        program = root / "bin/scrimshaw"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        monkeypatch.setattr(setup, "find_programs", lambda: Programs(server=str(program), hook=OURS.hook))
        return program

    def test_tells_a_sound_connection_from_one_whose_program_is_gone(self, cli: Cli, server: Path) -> None:
        cli("setup", "claude", "--yes")
        sound = self.finding(cli, "claude")
        assert sound
        assert sound["verdict"] == "ok"
        server.unlink()
        lost = self.finding(cli, "claude")
        assert lost
        assert (lost["verdict"], lost["fix"]) == ("problem", "Run `scrimshaw setup claude --local`.")
        assert cli("doctor").code == 1

    def test_a_command_that_two_scopes_share_is_run_once_and_nothing_to_warn_of(self, cli: Cli, server: Path) -> None:
        for scope in ("--local", "--user"):
            cli("setup", "claude", scope, "--yes")
        found = [each for each in cli("doctor", "--json").json["findings"] if each["name"] == "claude"]
        assert [each["verdict"] for each in found] == ["ok", "ok"]
        cli("setup", "claude", "--shared", "--yes")
        assert "two summaries" in cli("doctor").out

    def test_tells_of_missing_parts_and_of_broken_files(self, cli: Cli, root: Path, server: Path) -> None:
        cli("setup", "cursor", "--yes")
        (root / "h/.cursor/mcp.json").write_bytes(b"{")
        broken = self.finding(cli, "cursor")
        assert broken
        assert (broken["verdict"], "mcp.json:1" in broken["detail"]) == ("problem", True)
        (root / "h/.cursor/mcp.json").unlink()
        partial = self.finding(cli, "cursor")
        assert partial
        assert (partial["verdict"], "mcp.json" in partial["detail"]) == ("note", True)

    def test_tells_whether_codex_trusts_the_hooks(self, cli: Cli, root: Path, server: Path) -> None:
        cli("setup", "codex", "--yes")
        untrusted = self.finding(cli, "codex")
        assert untrusted
        assert (untrusted["verdict"], "/hooks" in untrusted["detail"]) == ("note", True)
        key = f"{(root / 'h/.codex/hooks.json').resolve()}:stop:0:0"
        config = (root / "h/.codex/config.toml").read_bytes()
        put(root, "h/.codex/config.toml", config + f"[hooks.state.{json.dumps(key)}]\ntrusted_hash = 'x'\n".encode())
        trusted = self.finding(cli, "codex")
        assert trusted
        assert trusted["verdict"] == "ok"

    def test_goes_on_without_knowing_its_own_programs(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> Programs:
            raise ConfigError("no programs", "install")

        monkeypatch.setattr(setup, "find_programs", fail)
        found = self.finding(cli, "clients")
        assert found
        assert found["verdict"] == "note"


def test_continue_is_given_a_server_and_a_rule_that_its_model_always_sees(cli: Cli, root: Path) -> None:
    done = cli("setup", "continue", "--yes", "--json")
    block = YAML(typ="safe").load(root / "h/.continue/mcpServers/scrimshaw.yaml")
    assert block == {
        "name": "scrimshaw",
        "version": "0.0.1",
        "schema": "v1",
        "mcpServers": [{"name": "scrimshaw", **SERVER}],
    }
    rule = parse_memory_file((root / "h/.continue/rules/scrimshaw.md").read_bytes())
    assert rule.values["alwaysApply"] == "true"
    assert "memory_context" in rule.body
    assert ["config.yaml" in advice for advice in done.json["advice"]] == [True]
