"""Serena's memories as the vault of a project, through the tools, the command line and Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.command_line import Cli
from tests.conftest import OpenMemory

from scrimshaw.app.library import open_memory as open_library
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose

TEXT = "# Walrus\n\nThe walrus index is rebuilt nightly.\n"


@pytest.fixture
def memories(project: Path) -> Path:
    folder = project / ".serena/memories"
    folder.mkdir(parents=True)
    (folder / "style.md").write_text("Spaces, never tabs.\n")
    return folder


@pytest.mark.parametrize(
    ("given", "folder"), [({}, "serena"), ({"vault": "serena"}, "serena"), ({"vault": "vault"}, "vault")]
)
def test_an_agent_saves_changes_and_deletes_in_the_vault_it_names(
    open_memory: OpenMemory, memories: Path, vault: Path, given: dict[str, str], folder: str
) -> None:
    tools = Dispatcher(choose("all"), open_memory())
    saved = tools.dispatch("memory_save", {"content": TEXT, "id": "index/walrus", **given}).reply
    path = {"serena": memories, "vault": vault}[folder] / "index/walrus.md"
    assert saved["path"] == str(path)
    assert path.read_text().endswith(TEXT)
    assert path.read_text().startswith("#") == (folder == "serena")
    found = tools.dispatch("memory_search", {"query": "walrus rebuilt", "source": folder}).reply
    assert [hit["id"] for hit in found["hits"]] == ["index/walrus"]
    tools.dispatch("memory_update", {"id": "mem:index/walrus", "content": "# Walrus\n\nWeekly.\n"})
    assert path.read_text().endswith("# Walrus\n\nWeekly.\n")
    tools.dispatch("memory_delete", {"id": "index/walrus", "confirm": True})
    assert not path.exists()


def test_the_command_line_and_python_save_there_too(cli: Cli, project: Path, memories: Path, vault: Path) -> None:
    assert cli("save", TEXT, "--id", "one").code == 0
    assert (memories / "one.md").read_text() == TEXT
    assert cli("save", TEXT, "--id", "two", "--vault", "vault", "--force").code == 0
    assert (vault / "two.md").exists()
    assert cli("save", "# Gulls\n\nThey came back in March.", "--id", "three", "--vault", "serena").code == 0
    assert (memories / "three.md").read_text() == "# Gulls\n\nThey came back in March.\n"
    with open_library(project) as memory:
        assert memory.save("# Tide\n\nLater each day.", vault="serena").path == str(memories / "tide.md")
        assert memory.save("# Foam\n\nWhite in winter.").path == str(vault / "foam.md")


def test_a_copied_file_goes_where_it_is_told(open_memory: OpenMemory, memories: Path, project: Path) -> None:
    (project / ".elsewhere").mkdir()
    (project / ".elsewhere/tide.md").write_text("# Tide\n\nHigh water comes an hour later each day.\n")
    tools = Dispatcher(choose("all"), open_memory())
    tools.dispatch("memory_save", {"file_path": ".elsewhere/tide.md", "vault": "serena"})
    assert (memories / "tide.md").read_text() == "# Tide\n\nHigh water comes an hour later each day.\n"
