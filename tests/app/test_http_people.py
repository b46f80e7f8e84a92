"""Who wrote what over HTTP, and what is told to nobody but who has it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.http_server import HttpServer, serve_http
from tests.samples import write_memory

from scrimshaw.app.http.tokens import TokenScope
from scrimshaw.models import content_hash

HIDDEN = "zanzibar"
PRIVATE_FILES = {
    f"{HIDDEN}/own": f"---\nvisibility: private\n---\n# {HIDDEN} own\nThe {HIDDEN} diary.\n",
    f"{HIDDEN}/letters": f"---\nVisibility: Private\n---\n# {HIDDEN}\nThe {HIDDEN} letters.\n",
    f"{HIDDEN}/typo": f"---\nvisibility: privat\n---\n# {HIDDEN}\nThe {HIDDEN} typo.\n",
    f"{HIDDEN}/list": f"---\nvisibility: [ana]\n---\n# {HIDDEN}\nThe {HIDDEN} list.\n",
    f"{HIDDEN}/broken": f"---\nvisibility: private\ntitle: [\n---\n# {HIDDEN}\nThe {HIDDEN} wreck.\n",
    f"{HIDDEN}/open": f"---\ntitle: a\n\nvisibility: private\n\nThe {HIDDEN} oar.\n",
    f"{HIDDEN}/late": f"\n \n---\nvisibility: private\n---\nThe {HIDDEN} mast.\n",
    f"{HIDDEN}/four": f"---\nvisibility: private\n----\nThe {HIDDEN} keel.\n",
    f"{HIDDEN}/twice": f"---\nvisibility: private\nvisibility: team\n---\nThe {HIDDEN} sail.\n",
    f"{HIDDEN}/dash": f"\u2014\nvisibility: private\n\u2014\nThe {HIDDEN} rope.\n",
    f"{HIDDEN}/bare": f"title: a\nvisibility: private\n---\nThe {HIDDEN} hold.\n",
    f"{HIDDEN}/second": f"---\ntitle: a\n---\n---\nvisibility: private\n---\nThe {HIDDEN} deck.\n",
    f"{HIDDEN}/torn": f"<<<<<<< a\n---\nvisibility: team\n=======\n---\nvisibility: x\n>>>>>>> b\n---\n{HIDDEN}.\n",
}
# What says `visibility` elsewhere, or that it is the team's.
TOLD = {
    "told/prose": "# Front matter\n\nWith\n\nvisibility: private\n\na file is dry.\n",
    "told/body": "---\ntitle: a\n---\nIt is dry.\n\nvisibility: private\n",
    "told/late": '\n---\nvisibility: "team" # dry\n---\nIt is dry.\n',
    "told/twice": "---\nvisibility: team\nvisibility: team\n---\nIt is dry.\n",
}


class Team(NamedTuple):
    """A server of one vault, which commits, and an administrator's token."""

    server: HttpServer
    secret: str
    project: Path


def git(project: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(project), *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    root = tmp_path_factory.mktemp("team")
    project, home = root / "shop", root / "home"
    write_memory(project / ".scrimshaw/memories", "gate", "# Gate\nThe harbour gate shuts at dusk.\n")
    write_memory(project / ".scrimshaw/memories", "quay", "---\nvisibility: team\n---\n# Quay\nThe quay is dry.\n")
    for name, text in TOLD.items():
        write_memory(project / ".scrimshaw/memories", name, text)
    for name, text in PRIVATE_FILES.items():
        write_memory(project / ".scrimshaw/memories", name, text)
    git(root, "init", "-q", str(project))
    home.mkdir()
    (home / "config.toml").write_text(f'[[vaults]]\nname = "shop"\npath = "{project.as_posix()}"\ncommit = true\n')
    with serve_http(root, home, "--toolsets", "all") as server:
        yield Team(server, server.token("ana@example.org", {project: TokenScope.ADMIN}), project)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_search", {"query": f"{HIDDEN} diary", "min_confidence": 0}),
        ("memory_context", {"query": f"{HIDDEN} diary"}),
        ("memory_list", {"limit": 100}),
        ("memory_stats", {}),
        ("memory_health", {"thorough": True}),
        ("memory_history", {"limit": 100}),
        ("memory_index_scan", {"force": True}),
        ("memory_causal_stats", {}),
    ],
)
def test_what_is_private_is_told_to_nobody(team: Team, tool: str, arguments: dict[str, object]) -> None:
    assert HIDDEN not in str(team.server.call(team.secret, tool, **arguments))  # type: ignore[arg-type]  # of any tool


@pytest.mark.parametrize("name", PRIVATE_FILES)
def test_a_private_memory_is_not_there(team: Team, name: str) -> None:
    answers = [team.server.call(team.secret, "memory_get", id=each) for each in (name, "nowhere/own")]
    assert [answer["error"]["code"] for answer in answers] == ["not_found", "not_found"]
    assert str(answers[0]).replace(name, "nowhere/own") == str(answers[1])


@pytest.mark.parametrize("name", PRIVATE_FILES)
def test_a_private_memory_is_neither_replaced_nor_described(team: Team, name: str) -> None:
    path = team.project / f".scrimshaw/memories/{name}.md"
    answer = team.server.call(team.secret, "memory_save", content="The harbour is mine from now on.", id=name)
    assert answer["error"]["code"] == "exists"
    assert content_hash(path.read_bytes()) not in str(answer)
    assert path.read_text() == PRIVATE_FILES[name]


def test_saving_what_is_private_says_where_it_belongs(team: Team) -> None:
    text = "---\nvisibility: private\n---\nThe tide table is in my drawer."
    error = team.server.call(team.secret, "memory_save", content=text, id="drawer")["error"]
    assert "save it on your own machine" in str(error)
    assert not (team.project / ".scrimshaw/memories/drawer.md").exists()


@pytest.mark.parametrize("name", ["quay", *TOLD])
def test_what_is_for_the_team_is_told(team: Team, name: str) -> None:
    assert "dry" in team.server.call(team.secret, "memory_get", id=name)["content"]


def test_a_memory_that_becomes_private_is_forgotten(team: Team) -> None:
    team.server.call(team.secret, "memory_save", content="The buoy is lit at night.", id="buoy")
    path = team.project / ".scrimshaw/memories/buoy.md"
    path.write_text(path.read_text().replace("---\n", "---\nvisibility: private\n", 1))
    team.server.call(team.secret, "memory_index_scan")
    assert team.server.call(team.secret, "memory_get", id="buoy")["error"]["code"] == "not_found"
    hits = team.server.call(team.secret, "memory_search", query="buoy lit at night", min_confidence=0)["hits"]
    assert "buoy" not in [hit["id"] for hit in hits]


def test_a_save_says_who_asked_for_it_in_file_ledger_and_commit(team: Team) -> None:
    write_memory(team.project / ".scrimshaw/memories", "draft", "# Draft\nA person is in the midst of this.\n")
    team.server.call(team.secret, "memory_save", content="The lock keeper is Ida.", id="keeper", title="Keeper")
    assert "by: ana@example.org" in (team.project / ".scrimshaw/memories/keeper.md").read_text()
    entry = team.server.call(team.secret, "memory_history", id="keeper")["entries"][0]
    assert entry["actor"] == "agent:ana@example.org"
    shown = git(team.project, "show", "--format=%an <%ae> %s", "--name-only", "HEAD").split("\n")
    assert shown[0] == "ana@example.org <ana@example.org> memory_save: keeper"
    assert [line for line in shown[1:] if line] == [".scrimshaw/memories/keeper.md"]
    assert "draft.md" in git(team.project, "status", "--porcelain", "-uall")


def test_a_delete_is_committed_too(team: Team) -> None:
    team.server.call(team.secret, "memory_save", content="The old crane was scrapped.", id="crane", title="Crane")
    team.server.call(team.secret, "memory_delete", id="crane", confirm=True)
    assert git(team.project, "show", "--format=%s", "--name-status", "HEAD").split() == [
        "memory_delete:", "crane", "D", ".scrimshaw/memories/crane.md",
    ]  # fmt: skip
