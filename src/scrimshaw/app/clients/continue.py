"""Continue, in an editor or as the command line `cn`."""

from pathlib import Path

import msgspec

from scrimshaw.app.clients.client import SERVER, Client, OwnFile, Programs, Scope, SetupFiles, name_events

_MARK = "Written by `scrimshaw setup continue`; `--remove` takes it away."
_RULE = Path(__file__).with_name("continue_rule.md")  # has the mark too


class Continue(Client):
    """Continue. `cn` 1.5.47 reads settings of hooks but runs none, and does not pass on a server's instructions.

    So a rule tells its model to use the memory, and only its requests to the server are recorded.
    """

    name, title, program, folder = "continue", "Continue", "cn", ".continue"
    events = name_events()
    reply_kinds = ()
    keeps_transcripts = False
    advice = (
        "Editors read this by themselves. `cn` does where ~/.continue/config.yaml lists, below `mcpServers`, "
        f"`- uses: ./mcpServers/{SERVER}.yaml`."
    )

    def setup_files(self, root: Path, scope: Scope, programs: Programs) -> SetupFiles:
        servers = msgspec.json.encode([{"name": SERVER, **programs.server_entry()}]).decode()  # JSON is YAML too
        block = f"# {_MARK}\nname: {SERVER}\nversion: 0.0.1\nschema: v1\nmcpServers: {servers}\n"
        rule = _RULE.read_text(encoding="utf-8")
        return (
            OwnFile(path=root / self.folder / f"mcpServers/{SERVER}.yaml", text=block, mark=_MARK),
            OwnFile(path=root / self.folder / f"rules/{SERVER}.md", text=rule, mark=_MARK),
        )


CLIENT = Continue()
