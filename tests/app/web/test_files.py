"""What is written into files of their own: the report, and the drawing of a memory's surroundings."""

from __future__ import annotations

import base64
import hashlib
import os
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
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


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
    assert policy.attributes["content"] == POLICY
    for part in ("Changed last", "Health", "Everything works.", "Nothing was searched for", "placeholder leakage"):
        assert part in page.text
    assert len([*page.find("style")]) == 1


def test_the_report_names_nothing_private(cli: Cli, vault: Path) -> None:
    own = Path(os.environ["SCRIMSHAW_HOME"]) / "memories"
    for folder, name, stated in ((vault, "a-salary", "visibility: private"), (own, "tabs", ""), (vault, "pier", "")):
        head = f"trigger_phrases: [of {name}]\nupdated: 2099-01-01\n{stated}"
        write_memory(folder, name, f"# About {name}\n\nSee [[pier]].\n", head)
    assert cli("report", "--html", "report.html").code == 0
    text = Path("report.html").read_text()
    assert "pier" in text
    assert [word for word in ("salary", "tabs") if word in text] == []


def test_all_memories_are_one_file_in_which_one_script_searches(cli: Cli, vault: Path) -> None:
    write_memory(vault, "tide gate", "# Rules\n\nShut it.\n\n[rules](#rules), [[north]]\n", "trigger_phrases: [wet]")
    write_memory(vault, "lock", "[the rules](tide%20gate.md#rules)\n", "relations: {supports: [north]}")
    assert cli("export", "--html", "all.html").code == 0
    page = Document(Path("all.html").read_text())
    (script,) = (each.texts[0] for each in page.elements if each.name == "script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = page.find("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy.attributes["content"] == f"{POLICY}; script-src 'sha256-{digest}'"
    assert {each.name for each in page.elements}.isdisjoint({"link", "img", "iframe"})
    assert [
        each for each in page.elements if any(key.startswith("on") or key == "src" for key in each.attributes)
    ] == []
    places = {each.attributes["id"] for each in page.elements if "id" in each.attributes}
    leads = [each.attributes["href"] for each in page.find("a")]
    assert {lead for lead in leads if not lead.startswith("https://")} == {
        "#memory/north", "#memory/tide%20gate#s-rules",
    }  # fmt: skip
    assert {lead[1:] for lead in leads if lead.startswith("#")} <= places
    entries = [each.text for each in page.find("details")]
    assert len(entries) == len(HOSTILE) + 3
    assert any("wet" in text and "Shut it." in text for text in entries)
    assert any("supports north" in text for text in entries)


def test_what_is_private_stays_out_of_the_file_unless_asked_for(cli: Cli, vault: Path) -> None:
    write_memory(vault, "salary", "Ann earns much.\n", "visibility: private")
    write_memory(vault, "torn", "Ben earns little.\n", "visibility: private\ntitle: [")
    write_memory(vault, "open", "---\nvisibility: private\nCleo earns nothing.\n")
    write_memory(vault, "pier", "See [[salary|what Ann gets]].\n", "visibility: team")
    write_memory(Path(os.environ["SCRIMSHAW_HOME"]) / "memories", "own", "I like tabs.\n")
    assert cli("export", "--html", "all.html").code == 0
    text = Path("all.html").read_text()
    assert "what Ann gets" in text
    assert [word for word in ("earns", "salary", "tabs") if word in text] == []
    assert cli("export", "--html", "all.html", "--private", "--force").code == 0
    text = Path("all.html").read_text()
    assert [word for word in ("earns much", "earns little", "#memory/salary", "tabs") if word not in text] == []


def test_the_drawing_is_a_file_of_its_own(cli: Cli, vault: Path) -> None:
    assert cli("graph", "north", "--svg", "north.svg").code == 0
    drawing = ET.parse("north.svg").getroot()
    assert drawing.tag == f"{SVG}svg"
    names = {each.tag.removeprefix(SVG) for each in drawing.iter()}
    assert names == {"svg", "style", "marker", "path", "g", "title", "rect", "text"}
    assert len(drawing.findall(f"{SVG}g")) == 13
    assert cli("graph", "--svg", "all.svg").code == 2


@pytest.mark.parametrize("command", [("report", "--html"), ("export", "--html"), ("graph", "north", "--svg")])
def test_a_file_that_is_there_stays_unless_forced(cli: Cli, vault: Path, command: tuple[str, ...]) -> None:
    Path("mine").write_text("mine")
    refused = cli(*command, "mine")
    assert (refused.code, "--force" in refused.err, Path("mine").read_text()) == (1, True, "mine")
    assert cli(*command, "mine", "--force").code == 0
    assert Path("mine").read_text() != "mine"
