"""Copies of memories at peers: real MCP servers as processes, which are killed in the middle."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.router.conftest import Notes, Open, over_stdio

from scrimshaw.app.background import SYNC, Background, Worker
from scrimshaw.app.cli.main import main
from scrimshaw.config import load
from scrimshaw.engine import Engine, index, open_engine, write
from scrimshaw.errors import ConfigError
from scrimshaw.router import ask
from scrimshaw.router.copies import cut_text, hash_text, label_copies
from scrimshaw.router.peer_copies import compare_peer, find_id_map, sync_peer
from scrimshaw.router.peers import close_peers, explain_failure
from scrimshaw.router.sync import PeerSync, compare_index
from scrimshaw.search.results import SearchRequest

KINDS = ["memory", "forgetful"]


def put(engine: Engine, name: str, text: str) -> Path:
    path = engine.settings.folder / f"memories/{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def sync(engine: Engine, **options: Any) -> PeerSync:
    index.scan(engine)
    return sync_peer(engine, engine.settings.peers[0], **options)


def steps(result: PeerSync) -> list[tuple[str, str]]:
    assert not result.fault, result
    assert not result.failed, result.failed
    return sorted((step.action, step.name) for step in result.steps)


def there(notes: Notes) -> dict[str, str]:
    found: list[dict[str, Any]] = json.loads(notes.file.read_text())
    ours = [each for each in found if not each.get("is_obsolete") and ("tags" in each or "entityType" in each)]
    assert len({each["name"] for each in ours}) == len(ours), "a copy is there twice"
    return {each["name"]: "\n".join(each["observations"]) for each in ours}


@pytest.fixture
def run(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str]]]:
    """Runs a command in the project; its exit code, and what it prints."""
    monkeypatch.setenv("SCRIMSHAW_HOME", str(project.parent / "home"))

    def run_it(*arguments: str) -> tuple[int, str]:
        code = main([*arguments, "--project", str(project)])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    yield run_it
    close_peers(10)


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it does not come about")


@pytest.mark.parametrize("kind", KINDS)
def test_copies_follow_the_files(open_with: Open, notes: Notes, kind: str) -> None:
    engine = open_with(over_stdio(notes, kind))
    put(engine, "harbour/tide", "The tide turns at nine.\n")
    crane = put(engine, "crane", "The crane is greased on Mondays.\n")
    assert steps(sync(engine, dry_run=True)) == [("create", "crane"), ("create", "harbour/tide")]
    assert there(notes) == {}
    assert steps(sync(engine)) == [("create", "crane"), ("create", "harbour/tide")]
    assert there(notes) == {"harbour/tide": "The tide turns at nine.", "crane": "The crane is greased on Mondays."}
    calls = notes.calls()
    assert steps(sync(engine)) == []
    assert notes.calls() == calls, "nothing is asked where nothing changed"
    put(engine, "harbour/tide", "The tide turns at ten.\n")
    crane.rename(crane.with_name("lift.md"))
    changed = [("rename", "lift"), ("update", "harbour/tide")]
    if kind == "memory":
        changed = [("create", "lift"), ("replace", "harbour/tide"), ("retire", "crane")]
    assert steps(sync(engine)) == changed
    assert there(notes) == {"harbour/tide": "The tide turns at ten.", "lift": "The crane is greased on Mondays."}
    write.update(engine, "lift", {"tier": "deprecated"})
    assert steps(sync(engine)) == [("retire", "lift")]
    assert [*there(notes)] == ["harbour/tide"]
    assert compare_peer(engine, engine.settings.peers[0]).exit_code == 0
    assert json.loads(notes.file.read_text())[0]["name"] == "tide", "what the peer has of its own stays"


@pytest.mark.parametrize("kind", KINDS)
def test_a_peer_that_dies_behind_a_write_has_nothing_twice_afterwards(open_with: Open, notes: Notes, kind: str) -> None:
    engine = open_with(over_stdio(notes, kind))
    for number in range(9):
        put(engine, f"note-{number}", f"Text number {number} of the harbour master.\n")
    notes.tell("die 4")
    result = sync(engine)
    assert (result.exit_code, bool(result.fault)) == (3, True)
    assert len(there(notes)) >= 4
    assert (result.left or 0) + len(result.steps) == 9
    notes.tell("")
    again = sync(engine)
    assert again.is_full
    assert again.exit_code == 0
    assert len(there(notes)) == 9
    assert steps(sync(engine, full=True)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_id_map_is_made_again_from_what_the_peer_lists(open_with: Open, notes: Notes, kind: str) -> None:
    engine = open_with(over_stdio(notes, kind))
    put(engine, "crane", "The crane is greased on Mondays.\n")
    sync(engine)
    path = find_id_map(engine.settings.home, engine.settings.peers[0], label_copies(engine.settings.project))
    assert "greased" not in path.read_text()
    path.unlink()
    assert steps(sync(engine)) == []
    put(engine, "crane", "The crane is greased on Fridays.\n")
    assert len(steps(sync(engine))) == 1
    assert there(notes) == {"crane": "The crane is greased on Fridays."}
    with path.open("ab") as file:
        file.write(b'{"name": "crane"}\n')  # a second line, as older versions wrote them
    assert sync(engine).is_full
    assert there(notes) == {"crane": "The crane is greased on Fridays."}


@pytest.mark.parametrize("kind", KINDS)
def test_two_projects_with_one_id_keep_their_copies_apart(
    open_with: Open, notes: Notes, tmp_path: Path, kind: str
) -> None:
    engine = open_with(over_stdio(notes, kind))
    other = tmp_path / "other"
    (other / ".scrimshaw/memories").mkdir(parents=True)
    with open_engine(load(other, home=engine.settings.home, environment={})) as second:
        put(engine, "crane", "The crane is greased on Mondays.\n")
        put(second, "crane", "Cranes are birds, and fly south in October.\n")
        sync(engine)
        if kind == "memory":  # where a name is there once
            assert [step.name for step in sync(second).failed] == ["crane"]
            assert there(notes) == {"crane": "The crane is greased on Mondays."}
            return
        assert steps(sync(second)) == [("create", "crane")]
        assert steps(sync(second, full=True)) == []
        assert {compare_peer(each, each.settings.peers[0]).in_sync for each in (engine, second)} == {1}
        for asking, text in ((engine, "Cranes are birds, and fly south in October."), (second, "greased on Mondays")):
            result = ask.search(asking, SearchRequest(query="what of the crane", min_confidence=0), wait_s=60.0)
            project = "other" if asking is engine else "project"
            foreign = [hit for hit in result.peers if hit.title == f"crane, of the project {project}"]
            assert [(hit.id[:5], text in hit.text) for hit in foreign] == [("peer:", True)]
        write.delete(second, ["crane"])
        assert steps(sync(second, full=True)) == [("retire", "crane")]
        assert there(notes) == {"crane": "The crane is greased on Mondays."}


def test_what_is_changed_at_the_peer_is_told_and_mended_in_full(open_with: Open, notes: Notes) -> None:
    engine = open_with(over_stdio(notes, "forgetful"))
    for name in ("a", "b", "c"):
        put(engine, name, f"Text of {name}, which nobody else has.\n")
    sync(engine)
    entries = json.loads(notes.file.read_text())
    by_name = {each["name"]: each for each in entries}
    by_name["a"]["observations"] = ["Words that somebody put here."]
    by_name["b"]["is_obsolete"] = True
    stray = by_name["c"] | {"name": "stray"}
    notes.file.write_text(json.dumps([*entries, stray, dict(by_name["c"])]))
    found = compare_peer(engine, engine.settings.peers[0])
    assert (found.stale, found.missing, sorted(found.orphaned)) == (("a",), ("b",), ["c", "stray"])
    assert (found.in_sync, found.exit_code) == (1, 1)
    assert steps(sync(engine)) == [], "an incremental sync trusts its notes"
    full = [("create", "b"), ("retire", "c"), ("retire", "stray"), ("update", "a")]
    assert steps(sync(engine, full=True)) == full
    assert compare_peer(engine, engine.settings.peers[0]).drift == 0
    assert {*there(notes)} == {"a", "b", "c"}


def test_what_a_peer_refuses_is_named_and_the_rest_goes_on(open_with: Open, notes: Notes) -> None:
    engine = open_with(over_stdio(notes, "memory"))
    put(engine, "tide", "A memory whose name the peer has for something of its own.\n")
    put(engine, "crane", "The crane is greased on Mondays.\n")
    result = sync(engine)
    assert [step.name for step in result.failed] == ["tide"]
    assert (result.exit_code, result.left, [*there(notes)]) == (1, 0, ["crane"])
    assert "did not create" in result.failed[0].reason


def test_private_and_foreign_texts_and_secrets_stay_here(open_with: Open, notes: Notes) -> None:
    engine = open_with(over_stdio(notes, "forgetful"))
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    put(engine, "deploy", f"The token is {secret} and nobody knows it.\n")
    put(engine, "private/salary", "Nobody sees this.\n")
    (engine.settings.project / "README.md").write_text("# A document\n\nIt is not a memory.\n")
    user = engine.settings.home / "memories/mine.md"
    user.parent.mkdir(parents=True)
    user.write_text("What only I know.\n")
    put(engine, "diary", "---\nvisibility: private\n---\nI like the harbour master.\n")
    put(engine, "torn", "---\nvisibility: private\ntitle: [\n---\nI like the pilot.\n")
    assert steps(sync(engine)) == [("create", "deploy")]
    assert secret not in notes.file.read_text()
    assert "REDACTED" in there(notes)["deploy"]
    put(engine, "deploy", "---\nvisibility: private\n---\nThe token is mine alone.\n")
    assert steps(sync(engine)) == [("retire", "deploy")]


def test_a_long_text_is_cut_and_a_change_behind_the_cut_is_sent(open_with: Open, notes: Notes) -> None:
    engine = open_with(over_stdio(notes, "forgetful"))
    long = "\n\n".join(f"Paragraph {number} about the harbour and its cranes." for number in range(80))
    put(engine, "long", long)
    sync(engine)
    assert len(there(notes)["long"]) <= 2000
    put(engine, "long", f"{long} And one word more.")
    assert steps(sync(engine)) == [("update", "long")]
    assert compare_peer(engine, engine.settings.peers[0]).exit_code == 0


@pytest.mark.parametrize("size", [10, 120, 200, 2000])
def test_a_cut_fits_and_says_so(size: int) -> None:
    text = "One sentence. " * 300
    cut = cut_text(text, max(size, 150))
    assert len(cut) <= max(size, 150)
    assert hash_text(text) in cut
    assert cut_text(text, 0) == text


def test_many_ends_are_asked_about(open_with: Open, notes: Notes) -> None:
    engine = open_with(over_stdio(notes, "forgetful"))
    paths = [put(engine, f"note-{number}", f"Text number {number} of the master.\n") for number in range(11)]
    sync(engine)
    for path in paths:
        path.unlink()
    asked: list[tuple[int, int]] = []

    def refuse(retired: int, total: int) -> None:
        asked.append((retired, total))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sync(engine, approve=refuse)
    assert asked == [(11, 11)]
    assert len(there(notes)) == 11


def test_another_scrimshaw_keeps_copies_in_a_folder(open_with: Open, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / ".scrimshaw/memories").mkdir(parents=True)
    (other / ".scrimshaw/memories/own.md").write_text("# Own\n\nThe lamp is lit at dusk.\n")
    program = [str(Path(sys.executable).with_name("scrimshaw")), "serve", "--toolsets", "all", "--project", str(other)]
    home = {"SCRIMSHAW_HOME": str(tmp_path / "h"), "SCRIMSHAW_EMBEDDING_PROVIDER": "none"}
    env = ", ".join(f'{name} = "{value}"' for name, value in home.items())
    stated = f'[[peers]]\nname = "other"\nkind = "scrimshaw"\ncommand = {json.dumps(program)}\nenv = {{ {env} }}\n'
    engine = open_with(stated)
    crane = put(engine, "port/crane", "# The crane\n\nIt is greased on Mondays, by two people.\n")
    tide = put(engine, "tide", "The tide turns at nine, and the ferry waits for it.\n")
    index.scan(engine)
    assert compare_peer(engine, engine.settings.peers[0]).missing == ("port/crane", "tide")
    assert steps(sync(engine)) == [("create", "port/crane"), ("create", "tide")]
    assert compare_peer(engine, engine.settings.peers[0]).exit_code == 0
    crane.rename(crane.with_name("lift.md"))
    put(engine, "tide", "The tide turns at ten, and the ferry waits for it.\n")
    assert steps(sync(engine)) == [("create", "port/lift"), ("retire", "port/crane"), ("update", "tide")]
    assert compare_peer(engine, engine.settings.peers[0]).exit_code == 0
    assert steps(sync(engine, full=True)) == []
    copies = other / ".scrimshaw/memories" / label_copies(engine.settings.project)
    assert sorted(path.relative_to(copies).as_posix() for path in copies.rglob("*.md")) == ["port/lift.md", "tide.md"]
    crane.with_name("lift.md").unlink()
    tide.unlink()
    assert steps(sync(engine)) == [("retire", "port/lift"), ("retire", "tide")]
    assert steps(sync(engine, full=True)) == []


def test_the_index_is_the_nearest_peer(engine: Engine) -> None:
    paths = [put(engine, name, f"Text of {name}, which nobody else has.\n") for name in ("a", "b", "c")]
    index.scan(engine)
    assert compare_index(engine).exit_code == 0
    info = paths[0].stat()
    paths[0].write_text("Text of A, which nobody else has.\n")  # as long as before
    os.utime(paths[0], ns=(info.st_atime_ns, info.st_mtime_ns))
    paths[1].unlink()
    put(engine, "d", "Text of d, which nobody else has.\n")
    found = compare_index(engine)
    assert (found.stale, found.missing, found.orphaned, found.in_sync) == (("a",), ("d",), ("b",), 1)
    assert found.exit_code == 1


def test_a_clone_cannot_have_memories_sent_away(project: Path) -> None:
    stated = '[[peers]]\nname = "x"\nurl = "http://127.0.0.1:9/mcp"\nsync = true\n'
    (project / ".scrimshaw/config.toml").write_text(stated)
    with pytest.raises(ConfigError):
        load(project, home=project.parent / "home", environment={})


def test_the_commands_say_what_they_did_and_end_by_it(
    open_with: Open, notes: Notes, run: Callable[..., tuple[int, str]]
) -> None:
    entry = over_stdio(notes, "forgetful")
    engine = open_with(entry)
    paths = [put(engine, f"note-{number}", f"Text number {number} of the master.\n") for number in range(12)]
    code, shown = run("sync")
    assert (code, "sync = true" in shown) == (2, True)
    code, shown = run("sync", "--peer", "nots")
    assert (code, "Did you mean notes?" in shown) == (1, True)
    code, shown = run("freshness", "--peer", "notes")
    assert (code, "12 missing, 0 orphaned; drift 100.0%" in shown) == (1, True)
    open_with(f"{entry}sync = true\n")
    assert run("sync", "--dry-run")[1].count("create ") == 12
    assert run("sync") == (0, "notes  0 in sync; done: 12 create\n")
    assert run("sync", "--full") == (0, "notes  12 in sync; done: nothing\n")
    code, shown = run("freshness", "--json")
    assert (code, [each["name"] for each in json.loads(shown)]) == (0, ["index", "notes"])
    for path in paths[1:]:
        path.unlink()
    code, shown = run("freshness")
    assert (code, shown.count("11 orphaned")) == (1, 2), shown
    code, shown = run("sync")
    assert (code, "Retire 11 of 12 copies at notes?" in shown) == (1, True)
    assert run("sync", "--yes") == (0, "notes  1 in sync; done: 11 retire\n")
    notes.tell("fail")
    code, shown = run("freshness", "--peer", "notes")
    assert (code, "not compared" in shown) == (3, True)
    code, shown = run("sync", "--full", "--peer", "notes")
    assert (code, "stopped: " in shown, "Changes left" in shown) == (3, True, False)


def test_status_names_every_place_and_who_is_silent(
    open_with: Open, notes: Notes, run: Callable[..., tuple[int, str]]
) -> None:
    put(open_with(f"{over_stdio(notes, 'forgetful')}sync = true\n"), "tide", "The tide turns at nine.\n")
    assert run("sync")[0] == 0
    code, shown = run("status", "--json")
    found = {each["name"]: each for each in json.loads(shown)}
    assert (code, found["notes"]["memories"], found["notes"]["fault"]) == (0, 1, "")
    assert found["notes"]["synced"]
    assert found["notes"]["answered_ms"] > 0
    own = [each for each in found.values() if each["kind"] == "folder" and each["memories"]]
    assert [each["memories"] for each in own] == [1]
    notes.tell("fail")
    code, shown = run("status")
    assert (code, "no answer: " in shown, "copies: 1" in shown) == (3, True, True)


def test_wrong_credentials_are_told_from_no_answer(project: Path) -> None:
    class Refusal(Exception):
        response = SimpleNamespace(status_code=401)

    assert explain_failure(ExceptionGroup("several", [Refusal()])).exit_code == 4
    assert explain_failure(OSError()).exit_code == 3


def test_a_server_syncs_after_every_change_where_it_is_told_to(open_with: Open, notes: Notes) -> None:
    engine = open_with(f"sync_immediate = true\n{over_stdio(notes, 'forgetful')}sync = true\n")
    put(engine, "crane", "The crane is greased on Mondays.\n")
    background = Background(engine)
    background.start()
    try:
        wait_until(lambda: [*there(notes)] == ["crane"])
        put(engine, "tide", "The tide turns at nine, and the ferry waits for it.\n")
        wait_until(lambda: [*there(notes)] == ["crane", "tide"])
    finally:
        background.stop()


def test_a_background_sync_retires_few_and_asks_for_the_command(open_with: Open, notes: Notes) -> None:
    engine = open_with(f"{over_stdio(notes, 'forgetful')}sync = true\n")
    paths = [put(engine, f"note-{number}", f"Text number {number} of the master.\n") for number in range(11)]
    sync(engine)
    for path in paths:
        path.unlink()
    index.scan(engine)
    engine.journal.enqueue(SYNC, "", {})
    assert Worker(engine).run_once([SYNC])
    (job,) = [each for each in engine.journal.jobs() if each.kind == SYNC]
    assert "scrimshaw sync" in job.error
    assert len(there(notes)) == 11


def test_a_variable_of_other_routers_switches_it_on(project: Path) -> None:
    environment = {"MEMORY_SYNC_IMMEDIATE": "1"}
    assert load(project, home=project.parent / "home", environment=environment).router.sync_immediate
    (project / ".scrimshaw/config.toml").write_text("[router]\nsync_immediate = true\n")
    with pytest.raises(ConfigError, match="sync_immediate"):
        load(project, home=project.parent / "home", environment={})


def test_a_purge_names_the_peers_that_have_copies(
    open_with: Open, notes: Notes, run: Callable[..., tuple[int, str]]
) -> None:
    engine = open_with(over_stdio(notes))
    put(engine, "gate", "The gate opens with zanzibar-walrus-77.\n")
    purge = ("purge", "--secret", "zanzibar-walrus-77")
    assert "copies at the peers" not in run(*purge, "--dry-run")[1]
    assert run("sync", "--peer", "notes")[0] == 0
    for how in ("--dry-run", "--yes"):
        assert "copies at the peers notes: run `scrimshaw sync`" in " ".join(run(*purge, how)[1].split())
