"""A client is known by its own file alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.app.clients.record import load_records
from tests.app.clients.words import OURS

import scrimshaw
from scrimshaw.app.clients import CLIENT_NAMES, all_clients

PACKAGE = Path(scrimshaw.__file__).parent


def test_every_file_of_the_folder_holds_the_client_of_its_name() -> None:
    assert {name: client.name for name, client in all_clients().items()} == {name: name for name in CLIENT_NAMES}
    assert len(CLIENT_NAMES) >= 8


def test_every_client_has_a_whole_record() -> None:
    """A client is one file, and one record of what it sends, writes and takes."""
    records = load_records()
    missing = [f"Write tests/app/clients/records/{name}.py." for name in CLIENT_NAMES if name not in records]
    for name, record in records.items():
        client = all_clients()[name]
        files = client.setup_files(Path("p"), client.scopes[0], OURS)
        needed = [*(["events", "unused", "own_calls"] if client.events else [])]
        needed += ["transcript", "stores"] if client.keeps_transcripts else []
        needed += ["server"] if any(getattr(file, "servers", "") for file in files) else []
        needed += ["handler", "report"] if any(getattr(file, "hooks", {}) for file in files) else []
        missing += [f"{name}: state {field}." for field in needed if not getattr(record, field)]
        missing += [f"{name}: list files for each of its scopes."] * (len(record.files) != len(client.scopes))
    assert not missing, "\n".join(missing)


def test_no_other_file_names_a_client() -> None:
    """But for a folder of specs and a memory server that are named after one.

    A cursor in a list of pages is none, and no statement is.
    """
    names = [*CLIENT_NAMES, *(client.title for client in all_clients().values())]
    words = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent != PACKAGE / "app/clients"
        for line in path.read_text(encoding="utf-8").splitlines()
        if set(words.findall(re.sub(r"(?i)\.opencode/specs|claude-mem", "", line))) - {"cursor", "Cursor", "continue"}
    ]
    assert found == []


def test_a_client_loads_nothing_that_only_set_up_needs() -> None:
    code = "import sys; from scrimshaw.app.clients import all_clients; all_clients(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "scrimshaw.app.clients.claude" in loaded
    assert {"tomlkit", "difflib", "typer", "scrimshaw.engine", "scrimshaw.app.setup"}.isdisjoint(loaded)
