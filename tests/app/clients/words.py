"""What the records of several clients say."""

from __future__ import annotations

from scrimshaw.app.clients.client import Programs

# What payloads say.
CWD = "/home/dev/project"
COMMIT = "git add -A && git commit -q -m 'scripted commit' && git log --oneline | head -1"
ENDS_WITH_3 = "echo to-stdout; echo to-stderr >&2; exit 3"
DONE = "Done: read, committed, searched memory."
MCP_TEXT = [{"type": "text", "text": "two hits"}]
# What transcripts say.
NOON = "2026-03-01T12:00:00.000Z"
AT = 1772366400.0
# What a hook hands to the model.
CONTENT = 'Ports: "8443"\nnächster Schritt'
# What set-up writes.
OURS = Programs(server="/opt/my tools/scrimshaw", hook="/opt/my tools/scrimshaw-hook")
HOOK = "'/opt/my tools/scrimshaw-hook'"
SERVER = {"command": OURS.server, "args": ["serve"]}
