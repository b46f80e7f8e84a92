"""The door for Python programs: what the README shows, and what its methods answer."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import scrimshaw
from scrimshaw.app.cli.main import main
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.errors import ConfigError, InvalidRequest, NotFound

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    main(["init"])
    return folder


def test_the_readme_runs(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    program = tmp_path / "program.py"
    program.write_text(snippet)
    capsys.readouterr()
    runpy.run_path(str(program))
    assert capsys.readouterr().out.startswith("why-apsw ")


def test_a_memory_is_saved_found_changed_and_deleted(project: Path) -> None:
    with scrimshaw.open(project) as memory:
        saved = memory.save("The ferry waits for the tide.", id="ferry", tier="important", triggers=["low water"])
        assert (saved.id, saved.status) == ("ferry", "saved")
        assert [(hit.memory.id, hit.memory.tier) for hit in memory.search("tide")] == [("ferry", "important")]
        assert memory.search("tide", tiers=["critical"]) == []
        memory.update("ferry", "The ferry waits for the pilot.\n", tier="critical")
        assert memory.get("ferry").body == "The ferry waits for the pilot.\n"
        assert [each.tier for each in memory.list()] == ["critical"]
        assert memory.delete("ferry") == ["ferry"]
        with pytest.raises(NotFound):
            memory.get("ferry")


def test_a_text_saved_and_changed_ends_like_any_text_file(project: Path) -> None:
    with scrimshaw.open(project) as memory:
        memory.save("The ferry waits.", id="ferry")
        assert main(["edit", "ferry", "--content", "The ferry goes."]) == 0
        assert memory.get("ferry").body == "The ferry goes.\n"
        assert memory.update("ferry", "The ferry goes.").status == "unchanged"
        assert Dispatcher(choose("all"), memory.engine).run("memory_update", {"id": "ferry", "content": "It sank."})
        assert memory.get("ferry").body == "It sank.\n"


@pytest.mark.parametrize("change", [{"tier": "vital"}, {"type": "hunch"}, {"relations": {"beats": ["gate"]}}])
def test_a_value_that_would_count_as_not_stated_is_refused(project: Path, change: dict[str, Any]) -> None:
    with scrimshaw.open(project) as memory:
        memory.save("The ferry waits.", id="ferry", tier="important")
        with pytest.raises(InvalidRequest, match="known are"):
            memory.update("ferry", **change)
        assert memory.get("ferry").memory.tier == "important"


def test_files_that_changed_meanwhile_are_followed(project: Path) -> None:
    with scrimshaw.open() as memory:
        (project / ".scrimshaw/memories/gate.md").write_text("The gate is oak.\n")
        assert memory.search("oak")[0].text.strip() == "The gate is oak."


def test_a_folder_without_a_memory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="scrimshaw init"):
        scrimshaw.open(tmp_path)


def test_every_public_name_is_there() -> None:
    assert all(getattr(scrimshaw, name) for name in scrimshaw.__all__)
    with pytest.raises(AttributeError):
        _ = scrimshaw.no_such_name
