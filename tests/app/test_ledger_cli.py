"""Every door that changes a memory leaves one row, and the commands that show, check, undo and restore."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.app.command_line import Cli, Run
from tests.samples import SECRET, keeping, write_memory

from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.config import load
from scrimshaw.engine import Engine, importers, open_engine
from scrimshaw.engine.drafts import consolidate, propose
from scrimshaw.engine.index import rebuild, scan
from scrimshaw.engine.write import DRAFTED, NewText, save
from scrimshaw.models import MemoryType


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a vault, a document, and a file to import; the working folder."""
    folder = tmp_path / "project"
    (folder / ".scrimshaw/memories").mkdir(parents=True)
    (folder / "docs").mkdir()
    (folder / "docs/guide.md").write_text("# Guide\nHow to steer by the stars.\n")
    (folder / ".elsewhere").mkdir()
    (folder / ".elsewhere/note.md").write_text("# Note\nThe anchor weighs four hundred pounds, as the log says.\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    return folder


@pytest.fixture
def vault(project: Path) -> Path:
    return project / ".scrimshaw/memories"


@pytest.fixture
def engine(project: Path) -> Iterator[Engine]:
    with open_engine(load(project)) as opened:
        yield opened


class Doors:
    """Counts the rows that each step leaves."""

    def __init__(self, engine: Engine, cli: Cli) -> None:
        self._engine = engine
        self._cli = cli
        self._mcp = Dispatcher(choose("all"), engine)

    def mcp(self, tool: str, *rows: tuple[str, str], **arguments: Any) -> Any:
        outcome = self._mcp.dispatch(tool, arguments)
        assert not outcome.error, outcome
        self.left(tool, *rows)
        return outcome.reply

    def cli(self, *arguments: str, rows: tuple[tuple[str, str], ...] = ()) -> Run:
        run = self._cli(*arguments)
        assert run.code == 0, run.err
        self.left(" ".join(arguments), *rows)
        return run

    def left(self, door: str, *rows: tuple[str, str]) -> None:
        """The new rows are these (action, id), oldest first, and every one is chained."""
        found = self._engine.journal.history()
        new, self._seen = found[: len(found) - self._seen], len(found)
        assert [(row["action"], row["memory_id"]) for row in reversed(new)] == list(rows), door
        assert self._engine.journal.verify() == (len(found), 0)

    _seen = 0


LONG = "The compass is read at noon since the needle swings in the morning, and the log says so twice."
OTHER = "Sails are mended with waxed thread because plain thread rots within a single month at sea."


def test_every_door_leaves_one_row(
    engine: Engine, cli: Cli, vault: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doors = Doors(engine, cli)
    # MCP
    doors.mcp("memory_save", ("create", "a"), content=LONG, id="a", title="Compass", session_id="s", force=True)
    doors.mcp("memory_save", content=LONG, session_id="s")  # a duplicate is no change
    doors.mcp("memory_update", ("update", "a"), id="a", tier="important", session_id="s")
    doors.mcp("memory_save", ("create", "b"), content=OTHER, id="b", title="Sails", force=True)
    link = {"source_id": "a", "target_id": "b", "relation": "caused", "session_id": "s"}
    doors.mcp("memory_causal_link", ("link", "a"), **link)
    doors.mcp("memory_causal_unlink", ("unlink", "a"), **link)
    outside = {**link, "source_id": "docs/guide"}
    doors.mcp("memory_index_scan")
    doors.mcp("memory_causal_link", ("link", "docs/guide"), **outside)
    doors.mcp("memory_causal_unlink", ("unlink", "docs/guide"), **outside)
    doors.mcp("memory_delete", ("retire", "b"), id="b", confirm=True, session_id="s")
    doors.mcp("memory_bulk_delete", ("retire", "a"), tier="important", confirm=True, session_id="s")
    assert {row["session"] for row in engine.journal.history("a")} == {"s"}
    doors.mcp("checkpoint_create", name="one")
    # Files in, by tool and by job
    elsewhere = project / ".elsewhere/note.md"
    doors.mcp("memory_save", ("import", "note"), file_path=str(elsewhere), force=True, session_id="s")
    assert [row["session"] for row in engine.journal.history("note")] == ["s"]
    engine.index.retire([])
    importers.start_ingest(engine, [str(_written(project / ".elsewhere/second.md", OTHER))])
    job = engine.journal.claim((importers.INGEST,), 60.0)
    assert job
    importers.run_ingest_job(engine, job, keeping(engine.journal, job))
    doors.left("an import job", ("import", "second"))
    # The command line
    doors.cli("save", LONG, "--id", "c", "--force", rows=(("create", "c"),))
    doors.cli("edit", "c", "--tier", "critical", rows=(("update", "c"),))
    monkeypatch.setenv("EDITOR", f"{sys.executable} -c \"import sys; open(sys.argv[1], 'a').write('More.')\"")
    doors.cli("edit", "c", rows=(("external", "c"), ("trust", "c")))  # whoever edited it vouches for it
    doors.cli("delete", "c", "--yes", rows=(("retire", "c"),))
    doors.cli("undo", "--entry", str(_newest(engine)), "--yes", rows=(("restore", "c"),))
    doors.cli("delete", "c", "--purge", "--yes", rows=(("purge", "c"),))
    doors.cli("checkpoint", "restore", "one", rows=(("restore", ""),))
    # Hands
    write_memory(vault, "hand", "Written by hand.")
    doors.cli("scan", rows=(("external", "hand"),))
    (vault / "hand.md").write_bytes(b"---\ntitle: [\n---\n\x00")
    doors.cli("scan", rows=(("external", "hand"),))
    doors.cli("scan")
    (vault / "hand.md").write_text("Mended.")
    doors.cli("scan", rows=(("external", "hand"),))
    (vault / "hand.md").rename(vault / "moved.md")
    doors.cli("scan", rows=(("external", "hand"), ("external", "moved")))
    (vault / "moved.md").unlink()
    rebuild(engine)
    doors.left("a file that went before a rebuild", ("external", "moved"))
    (project / ".scrimshaw/links.toml").write_text(
        '[[link]]\nsource = "docs/guide"\ntarget = "c"\nrelation = "caused"\n'
    )
    doors.cli("scan", rows=(("external", "links.toml"),))
    doors.cli("rebuild", "--yes")


def test_a_merge_of_memories_is_recorded_as_such(engine: Engine) -> None:
    for number, text in enumerate((LONG, OTHER)):
        new = NewText(
            content=f"# Session {number}\n\n{text}\n", id=f"s{number}", type=MemoryType.SESSION, topics=("ship",),
            triggers=("ship compass", "waxed thread"), origin=DRAFTED,
        )  # fmt: skip
        save(engine, new, force=True)
    (proposal,) = propose(engine)
    saved = consolidate(engine, proposal)
    (row,) = engine.journal.history(saved.id)
    assert (row["action"], {"s0", "s1"} <= set(row["linked_memory_ids"])) == ("merge", True)


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _newest(engine: Engine) -> int:
    return int(engine.journal.history(limit=1)[0]["seq"])


# Commands


@pytest.fixture
def three(engine: Engine) -> Engine:
    """Three rows of two memories, one of them of a session."""
    save(engine, NewText(content=LONG, id="a", session="s1"), force=True)
    save(engine, NewText(content=OTHER, id="b"), force=True)
    scan(engine)
    return engine


def tamper(project: Path, sql: str) -> None:
    connection = apsw.Connection(str(project / ".scrimshaw/journal.db"))
    connection.execute("DROP TRIGGER ledger_no_update; DROP TRIGGER ledger_no_delete")
    connection.execute(sql)
    connection.close()


def test_show_filters_and_limits(three: Engine, cli: Cli) -> None:
    assert [row["id"] for row in cli("ledger", "show", "--json").json] == ["b", "a"]
    assert [row["id"] for row in cli("ledger", "show", "--memory", "a", "--json").json] == ["a"]
    assert [row["id"] for row in cli("ledger", "show", "--session", "s1", "--json").json] == ["a"]
    assert [row["id"] for row in cli("ledger", "show", "--limit", "1", "--json").json] == ["b"]
    assert "create  a" in cli("ledger", "show").out
    assert "No such entry" in cli("ledger", "show", "--memory", "nothing").out


def test_a_memory_is_named_as_answers_print_it(three: Engine, cli: Cli) -> None:
    (name,) = {row["memory_id"] for row in three.journal.history(limit=1)}
    for given in (f"{name}.md", f".scrimshaw/memories/{name}.md:1"):
        assert [row["id"] for row in cli("ledger", "show", "--memory", given, "--limit", "1", "--json").json] == [name]
        assert cli("golden", "add", f"what stands in {given}", given, "--json").json["expect"] == [name]
        assert f"{name}.md" in cli("purge", "--memory", given, "--dry-run").out


@pytest.mark.parametrize(
    ("sql", "broken"),
    [
        ("UPDATE ledger SET reason = 'x' WHERE seq = 1", 1),
        ("DELETE FROM ledger WHERE seq = 1", 1),
        ("DELETE FROM ledger WHERE seq = 2", 2),
        ("DELETE FROM ledger", 1),
    ],
)
def test_verify_says_where_the_ledger_is_broken(three: Engine, project: Path, cli: Cli, sql: str, broken: int) -> None:
    assert "as they were written: 2." in cli("ledger", "verify").out
    tamper(project, sql)
    run = cli("ledger", "verify")
    assert (run.code, f"Entry {broken} of the ledger" in run.out) == (1, True)
    assert cli("ledger", "verify", "--json").json["broken"] == broken


def test_undo_asks_and_tells(three: Engine, vault: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert cli("undo", "--session", "s1").code == 1
    planned = cli("undo", "--session", "s1", "--dry-run").out
    assert "1 of 1 change would be undone" in planned
    assert (vault / "a.md").exists()
    assert cli("undo", "--session", "s1", "--yes", "--json").json["steps"][0]["trouble"] == ""
    assert not (vault / "a.md").exists()
    (vault / "b.md").write_text("By hand.")
    run = cli("undo", "--entry", "2", "--yes")
    assert (run.code, "the file was changed since" in run.out) == (1, True)
    assert cli("undo", "--session", "s1", "--entry", "2").code == 2


def test_the_last_change_is_named_and_never_an_edit_by_hand(
    three: Engine, vault: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    (vault / "a.md").write_text("What a person wrote by hand.\n")
    scan(three)
    assert "Entry 2: create b" in cli("undo").err
    assert cli("undo", "--yes").code == 0
    assert not (vault / "b.md").exists()
    assert (vault / "a.md").read_text() == "What a person wrote by hand.\n"


def test_an_undo_of_a_part_is_told_by_its_exit_code(three: Engine, vault: Path, cli: Cli) -> None:
    save(three, NewText(content="Of the same session.", id="c", session="s1"), force=True)
    (vault / "a.md").write_text("By hand.")
    run = cli("undo", "--session", "s1", "--yes")
    assert (run.code, "1 of 2 changes undone" in run.out, (vault / "c.md").exists()) == (1, True, False)
    assert cli("undo", "--session", "s1", "--redo", "--yes").code == 0
    assert (vault / "c.md").exists()
    assert cli("undo", "--entry", "1", "--redo").code == 2
    assert "default: 0" not in cli("undo", "--help").out


def test_an_undo_says_first_which_secrets_stay_away(three: Engine, vault: Path, cli: Cli) -> None:
    write_memory(vault, "leak", f"The token is {SECRET}.\n")
    cli("scan")
    cli("delete", "leak", "--yes")
    entry = str(_newest(three))
    assert "1 secret, never stored" in cli("undo", "--entry", entry, "--dry-run").out
    run = cli("undo", "--entry", entry, "--yes")
    assert (run.code, f"Entry {entry}: the file will differ" in run.err) == (0, True)


def test_who_sits_at_the_terminal_is_human(engine: Engine, cli: Cli) -> None:
    cli("save", LONG, "--id", "a", "--force")
    cli("edit", "a", "--tier", "critical")
    cli("delete", "a", "--yes")
    assert [row["actor"] for row in engine.journal.history("a")] == ["human"] * 3


def test_a_backup_goes_to_a_file_and_back(three: Engine, vault: Path, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "safe.scrim"
    assert "2 files" in cli("backup", str(file)).out
    (vault / "a.md").unlink()
    assert cli("restore", str(file), "--dry-run", "--json").json["written"] == ["memories/a.md"]
    assert not (vault / "a.md").exists()
    assert "A search finds 1 of 1" in cli("restore", str(file)).out
    (vault / "b.md").write_text("By hand.")
    refused = cli("restore", str(file), "--clear-existing", "--yes")
    assert (refused.code, "memories/b.md" in refused.err) == (1, True)
    assert cli("restore", str(file), "--clear-existing", "--overwrite-edits", "--yes").code == 0
    file.write_bytes(file.read_bytes()[:-30])
    cut = cli("restore", str(file))
    assert (cut.code, "safe.scrim cannot be used" in cut.err) == (1, True)
    assert cli("restore").code == cli("restore", "--newest", "--dry-run").code == 2


def test_checkpoints_by_name(three: Engine, vault: Path, cli: Cli) -> None:
    assert cli("checkpoint", "create", "one", "--note", "why=because", "--json").json["metadata"] == {"why": "because"}
    assert [each["name"] for each in cli("checkpoint", "list", "--limit", "1", "--json").json] == ["one"]
    assert "because" in cli("checkpoint", "list").out
    cli("delete", "a", "--yes")
    assert cli("checkpoint", "restore", "one", "--json").json["written"] == ["memories/a.md"]
    assert cli("checkpoint", "delete", "one", "--dry-run").code == 0
    assert cli("checkpoint", "delete", "one", "--yes").code == 0
    assert cli("checkpoint", "delete", "one", "--yes").code == 1


def test_a_damaged_journal_is_named_and_mended(three: Engine, project: Path, cli: Cli) -> None:
    cli("checkpoint", "create", "one")
    three.storage.close()
    journal = project / ".scrimshaw/journal.db"
    journal.write_bytes(b"no database at all" * 1000)
    refused = cli("list")
    assert (refused.code, "scrimshaw restore --newest" in refused.err) == (3, True)
    assert "scrimshaw restore --newest" in cli("doctor").out
    mended = cli("restore", "--newest", "--yes")
    assert (mended.code, "moved to" in mended.err) == (0, True)
    assert [row["id"] for row in cli("ledger", "show", "--json").json] == ["", "b", "a"]
    assert cli("ledger", "verify").code == 0


def test_the_tools_do_what_the_commands_do(three: Engine, vault: Path) -> None:
    dispatcher = Dispatcher(choose("all"), three)

    def call(tool: str, **arguments: Any) -> Any:
        outcome = dispatcher.dispatch(tool, arguments)
        return outcome.error or outcome.reply

    assert call("memory_history", id="a")["entries"][0]["session"] == "s1"
    assert [row["id"] for row in call("memory_history", limit=1)["entries"]] == ["b"]
    assert [row["id"] for row in call("memory_history", session_id="s1")["entries"]] == ["a"]
    assert call("checkpoint_create", name="one", metadata={"why": "x"})["metadata"] == {"why": "x"}
    call("memory_delete", id="a", confirm=True)
    assert call("checkpoint_restore", name="one", dry_run=True)["written"] == ["memories/a.md"]
    back = call("checkpoint_restore", name="one")
    assert (back["written"], back["found"]) == (["memories/a.md"], 1)
    (vault / "b.md").unlink()
    save(three, NewText(content=f"{LONG} Or not.", id="c"), force=True)
    assert call("checkpoint_restore", name="one", clear_existing=True)["removed"] == ["memories/c.md"]
    names = [each["name"] for each in call("checkpoint_list", limit=1)["checkpoints"]]
    assert names[0].startswith("auto-restore-")
    assert call("checkpoint_delete", name="one", confirm_name="two") == "invalid"
    assert call("checkpoint_delete", name="one", confirm_name="one") == {"deleted": "one"}
    gone = call("memory_bulk_delete", tier="normal", confirm=True)
    assert gone["checkpoint"].startswith("auto-bulk-delete-")
    assert call("checkpoint_restore", name=gone["checkpoint"])["found"] == gone["count"]
    kept = call("memory_bulk_delete", tier="normal", confirm=True, skip_checkpoint=True)
    assert (kept["count"], kept["checkpoint"]) == (gone["count"], "")
