"""The past of memories in a real repository: the log of one across renames, a search as of a commit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.app.command_line import Cli
from tests.app.test_git_merge import cli, project, run_git, start  # noqa: F401 - fixtures
from tests.conftest import OpenMemory

from scrimshaw.config import StorageSettings
from scrimshaw.engine.revisions import search_past
from scrimshaw.errors import NotFound
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.git import find_commit

SECRET = "ghp_" + "a1B2c3D4e5" * 4


def commit(project: Path, subject: str) -> str:  # noqa: F811
    run_git(project, "add", "-A")
    run_git(project, "commit", "-qm", subject)
    return run_git(project, "rev-parse", "HEAD").strip()


def test_log_follows_a_memory_across_a_rename(project: Path, cli: Cli) -> None:  # noqa: F811
    path = start(project)
    cli("scan")
    (path.parent / "harbour").mkdir()
    run_git(project, "mv", str(path), str(path.parent / "harbour/sluice.md"))
    commit(project, "Move the gate")
    moved = path.parent / "harbour/sluice.md"
    moved.write_text(moved.read_text().replace("oak.", "iron."))
    commit(project, "The gate is iron")
    log = json.loads(cli("log", "harbour/sluice", "--json", "--patch").out)
    commits = [(each["what"], each["id"]) for each in log["changes"] if each["commit"]]
    assert commits == [("The gate is iron", "harbour/sluice"), ("Move the gate", "harbour/sluice"), ("start", "gate")]
    assert "+The gate is iron." in "".join(each["patch"] for each in log["changes"])
    entries = {each["id"] for each in log["changes"] if each["entry"]}
    assert entries == {"gate", "harbour/sluice"}
    assert "The gate is iron" in cli("log", "harbour/sluice").out


def test_a_clone_made_after_a_rename_knows_the_old_name(project: Path, cli: Cli) -> None:  # noqa: F811
    path = start(project)
    name = "relations: {supersedes: [gate]}"
    text = f"---\ntitle: Iron\n{name}\n---\nThe gate is iron. It shuts at noon, says `mem:gate`.\n"
    (path.parent / "iron.md").write_text(text)
    commit(project, "The gate is iron")
    for old, new in (("gate", "harbour/sluice"), ("harbour/sluice", "harbour/door")):
        (path.parent / new).parent.mkdir(exist_ok=True)
        run_git(project, "mv", str(path.parent / f"{old}.md"), str(path.parent / f"{new}.md"))
        commit(project, f"Move {old}")
    cli("scan")  # for the first time, so as in a new clone
    assert json.loads(cli("get", "gate", "--json").out)["memory"]["id"] == "harbour/door"
    assert "Replaced by" in (why := cli("why", "harbour/door").out)
    assert "iron" in why
    first, old = json.loads(cli("search", "which gate is it", "--json").out)["hits"]
    assert (first["memory"]["id"], old["memory"]["id"], old["superseded_by"]) == ("iron", "harbour/door", ["iron"])
    cli("save", "See `mem:gate` too.", "--id", "other")
    assert "leads nowhere" not in cli("graph", "harbour/door").out
    assert cli("get", "gait").code == 1


def test_log_tells_of_a_memory_that_is_gone(project: Path, cli: Cli) -> None:  # noqa: F811
    start(project).unlink()
    commit(project, "No gate any more")
    assert "No gate any more" in cli("log", "gate").out
    assert cli("log", "nothing/here").code == 1


def test_log_shows_no_secret_of_the_past(project: Path, cli: Cli) -> None:  # noqa: F811
    path = start(project)
    path.write_text(path.read_text() + f"\nThe token is {SECRET}\n")
    commit(project, f"Add {SECRET}")
    shown = cli("log", "gate", "--patch").out
    assert "The token is" in shown
    assert SECRET not in shown


def test_search_as_of_a_commit_finds_what_there_was(project: Path, cli: Cli) -> None:  # noqa: F811
    path = start(project)
    first = run_git(project, "rev-parse", "HEAD").strip()
    path.write_text(path.read_text().replace("oak.", "iron."))
    (path.parent / "pump.md").write_text("# Pump\n\nThe pump runs on oak coal.\n")
    commit(project, "later")
    assert "pump" in cli("search", "oak coal").out
    then = json.loads(cli("search", "oak", "gate", "--at", first, "--json", "--min-confidence", "0").out)
    assert [hit["memory"]["id"] for hit in then["hits"]] == ["gate"]
    assert "oak" in then["hits"][0]["text"]
    assert then["hits"][0]["memory"]["path"] == f"{first[:12]}:.scrimshaw/memories/gate.md"
    shown = cli("search", "oak", "--at", "HEAD~1")
    assert f"as of {then['degradations'][0]['failure_mode'][6:16]}" in shown.out + shown.err
    assert "no commit" in cli("search", "oak", "--at", "v9").err


@pytest.mark.parametrize("revision", ["HEAD", "2026-01-31"])
def test_a_folder_without_git_or_without_a_commit_is_named(
    tmp_path: Path,
    cli: Cli,  # noqa: F811
    revision: str,
) -> None:
    assert cli("init", "--project", str(tmp_path)).code == 0
    refused = cli("search", "oak", "--at", revision, "--project", str(tmp_path)).err
    assert ("git init" in refused, "has no commit" in refused) == (True, False)
    run_git(tmp_path, "init", "--quiet")
    assert "There is no commit yet" in cli("search", "oak", "--at", revision, "--project", str(tmp_path)).err


def test_the_past_is_searched_in_files_where_the_databases_are_on_a_server(
    project: Path,  # noqa: F811
    cli: Cli,  # noqa: F811
    open_memory: OpenMemory,
) -> None:
    start(project)
    engine = open_memory()
    server = msgspec.structs.replace(engine.settings, storage=StorageSettings(engine="postgres", vault="harbour"))
    result = search_past(replace(engine, settings=server), SearchRequest(query="oak"), "HEAD")
    assert [hit.memory.id for hit in result.hits] == ["gate"]


def test_a_bare_date_means_the_end_of_that_day(
    project: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for clock in ("00:00:01", "23:59:58"):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2020-01-31T{clock}")
        run_git(project, "commit", "-q", "--allow-empty", "-m", clock)
    assert find_commit(project, "2020-01-31").subject == "23:59:58"
    assert find_commit(project, "2020-01-31T12:00:00").subject == "00:00:01"
    with pytest.raises(NotFound, match=r"no commit '2019-01-31'. Its first commit is newer."):
        find_commit(project, "2019-01-31")


def test_the_old_id_leads_to_a_renamed_memory(project: Path, cli: Cli) -> None:  # noqa: F811
    path = start(project)
    cli("scan")
    for name in ("sluice", "weir", "gate", "lock"):  # a name that comes back and goes again is no circle
        path = path.rename(path.with_name(f"{name}.md"))
        cli("scan")
        assert "The gate is oak." in cli("get", "gate").out
        assert json.loads(cli("get", "gate", "--json").out)["memory"]["id"] == name
    path.unlink()
    assert cli("get", "gate").code == 1
