"""What is written into files of their own: the report, and the drawing of a memory's surroundings."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.app.command_line import Cli, command_line, enter_project
from tests.app.web.documents import Document
from tests.app.web.test_reading import HOSTILE
from tests.samples import write_memory

__all__ = ["cli"]
cli = pytest.fixture(command_line)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Memories with every way to smuggle something, all related to one."""
    vault = enter_project(tmp_path, monkeypatch) / ".scrimshaw/memories"
    for number, text in enumerate(HOSTILE):
        title = text.replace("\n", " ").replace("'", "''")
        write_memory(vault, f"m{number}", "See [[north]].\n", f"title: '{title}'\ntopics: ['{title}']")
    return vault


def test_the_report_is_one_file_that_runs_nothing(cli: Cli, vault: Path) -> None:
    assert cli("report", "--html", "report.html").code == 0
    page = Document(Path("report.html").read_text())
    assert {each.name for each in page.elements}.isdisjoint({"script", "link", "img", "iframe", "a", "form"})
    assert [each for each in page.elements if any(key.startswith("on") for key in each.attributes)] == []
    (policy,) = page.find("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'"
    for part in ("Changed last", "Health", "Everything works.", "Nothing was searched for", "placeholder leakage"):
        assert part in page.text
    assert len([*page.find("style")]) == 1


def test_the_drawing_is_a_file_of_its_own(cli: Cli, vault: Path) -> None:
    assert cli("graph", "north", "--svg", "north.svg").code == 0
    drawing = ET.parse("north.svg").getroot()
    assert drawing.tag == f"{SVG}svg"
    names = {each.tag.removeprefix(SVG) for each in drawing.iter()}
    assert names == {"svg", "style", "marker", "path", "g", "title", "rect", "text"}
    assert len(drawing.findall(f"{SVG}g")) == 13
    assert cli("graph", "--svg", "all.svg").code == 2


@pytest.mark.parametrize("command", [("report", "--html"), ("graph", "north", "--svg")])
def test_a_file_that_is_there_stays_unless_forced(cli: Cli, vault: Path, command: tuple[str, ...]) -> None:
    Path("mine").write_text("mine")
    refused = cli(*command, "mine")
    assert (refused.code, "--force" in refused.err, Path("mine").read_text()) == (1, True, "mine")
    assert cli(*command, "mine", "--force").code == 0
    assert Path("mine").read_text() != "mine"
