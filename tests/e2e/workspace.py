"""A throw-away home and a git repository with memories, as a fresh clone has them: Markdown files, no index."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.samples import write_memory

import scrimshaw

SCRIMSHAW = (sys.executable, "-c", "from scrimshaw.app.cli.main import run; run()")
"""The command line of this checkout, installed or not."""
SERVER_ENVIRONMENT = {"PYTHONPATH": str(Path(scrimshaw.__file__).parents[1])}

NOTES = "Read me first.\n"
PORT_MEMORY = "operations/deploy-port"
MEMORIES = {
    PORT_MEMORY: "# Deploy port\n\nThe deploy port is 8443, because 8080 belongs to the proxy.\n",
    "operations/rollback": "# Rollback\n\nA rollback is `release undo`; it needs the tag of the last good release.\n",
    "storage/wal": "# Write-ahead log\n\nThe database runs in WAL mode. Copy it with the backup API, never with cp.\n",
    "style/commits": "# Commits\n\nCommit messages say why; the diff says what.\n",
}
# Enough that the server still makes vectors when its client hangs up.
MEMORIES |= {
    f"components/widget-{number}": f"# Widget {number}\n\nWidget {number} starts after widget {number - 1} and keeps "
    f"{number * 7 % 31} items in its queue. It is cached for {number % 13} minutes.\n"
    for number in range(1, 400)
}


@dataclass(frozen=True)
class Workspace:
    """What one client gets: `home`, and `project` with its vault."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def memory_folder(self) -> Path:
        return self.project / ".scrimshaw"

    @property
    def vault(self) -> Path:
        return self.memory_folder / "memories"

    @property
    def traffic(self) -> Path:
        """The log of what client and server said to each other."""
        return self.root / "traffic.jsonl"

    def serve(self) -> list[str]:
        """The command of this project's MCP server."""
        return [*SCRIMSHAW, "serve", "--project", str(self.project)]

    def recorded_serve(self) -> list[str]:
        """The same, with the traffic written down."""
        recorder = Path(__file__).with_name("recorder.py")
        return [sys.executable, str(recorder), str(self.traffic), *self.serve()]


def make_workspace(root: Path) -> Workspace:
    """Lay out a workspace in an empty folder."""
    workspace = Workspace(root)
    workspace.home.mkdir(parents=True)
    for memory_id, text in MEMORIES.items():
        write_memory(workspace.vault, memory_id, text)
    (workspace.project / "notes.txt").write_text(NOTES)
    identity = ("-c", "user.name=e2e", "-c", "user.email=e2e@example.invalid")
    for arguments in (("init", "--quiet"), ("add", "--all"), (*identity, "commit", "--quiet", "--message", "start")):
        subprocess.run(["git", "-C", str(workspace.project), *arguments], check=True)
    return workspace
