"""Memories that other tools keep, taken in from real files in a home of their own."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.app.clients.record import write_rows
from tests.app.test_importing_sessions import SECRET, put_session, statuses, take

from scrimshaw.app.importing import FoundSource, find_sources
from scrimshaw.engine import Engine, index, write
from scrimshaw.errors import InvalidRequest, NotFound, UnreadableFile
from scrimshaw.models import MemoryType, Tier, Trust
from scrimshaw.storage.git import Commit


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's home, with nothing in it."""
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


def test_notes_of_basic_memory_with_their_relations(engine: Engine, home: Path) -> None:
    folder = home / "basic-memory"
    _note(folder / "queue.md", "Foo queue", "- [decision] Orders go through the foo queue, since it keeps them.", "bar")
    _note(folder / "sub/bar.md", "Bar queue", "- [fact] The bar queue lost messages whenever it was restarted.", "none")
    (folder / "broken.md").write_text("---\ntitle: [\n---\n", encoding="utf-8")
    taken = take(engine, home, "basic-memory")
    assert sorted((each.status, each.memories) for each in taken) == [
        ("left", ()),
        ("taken", ("notes/queue",)),
        ("taken", ("notes/sub/bar",)),
    ]
    assert engine.memory("notes/queue").provenance.trust is Trust.AGENT
    assert [
        (edge.relation, target) for edge, target in engine.index.edges("notes/queue") if edge.kind == "relation"
    ] == [("supersedes", "notes/sub/bar")]
    assert set(statuses(take(engine, home, "basic-memory"))) == {"left", "unchanged"}


def test_a_single_note_of_basic_memory_whatever_its_suffix(engine: Engine, home: Path) -> None:
    note = home / "basic-memory/quay.Markdown"
    _note(note, "Quay", "- [decision] The quay takes one ship at a time, since it is short.", "none")
    assert statuses(take(engine, home, "basic-memory", path=note, dry_run=True)) == ["found"]
    (taken,) = take(engine, home, "basic-memory")
    assert taken.memories == ("notes/quay",)


def _note(file: Path, title: str, observation: str, target: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    relation = "- supersedes [[Bar queue]]\n" if target == "bar" else ""
    text = f"---\ntitle: {title}\ntags: [orders]\ncreated: 2024-01-02\n---\n# {title}\n\n{observation}\n{relation}"
    file.write_text(text, encoding="utf-8")


GUIDANCE = (
    "# Shop\n\n## Style\n\n- Always use tabs in Makefiles and spaces everywhere else; lines end at 120 characters.\n"
)


def test_guidance_is_taken_once_and_brought_up_to_date_until_somebody_changes_it(engine: Engine, home: Path) -> None:
    file = engine.settings.project / "CLAUDE.md"
    file.write_text(GUIDANCE, encoding="utf-8")
    file.with_name("AGENTS.md").symlink_to(file)
    (taken,) = take(engine, home, "instructions")
    assert (taken.status, taken.memories) == ("taken", ("guidance/claude-style",))
    memory = engine.memory("guidance/claude-style")
    assert (memory.type.value, memory.provenance.trust) == ("preference", Trust.FILE)
    assert statuses(take(engine, home, "instructions")) == ["unchanged"]
    file.write_text(GUIDANCE.replace("120", "100"), encoding="utf-8")
    assert statuses(take(engine, home, "instructions", dry_run=True)) == ["found"]
    assert statuses(take(engine, home, "instructions")) == ["taken"]
    assert "100 characters" in engine.index.bodies([memory.id])[memory.id]
    write.update(engine, memory.id, {}, content="Changed here, and longer than before: no tabs at all.")
    file.write_text(GUIDANCE.replace("120", "80"), encoding="utf-8")
    (last,) = take(engine, home, "instructions")
    assert (last.status, last.reasons) == ("left", (f"{memory.id} was changed here since",))


def test_guidance_that_is_read_in_place_is_not_copied(engine: Engine, home: Path) -> None:
    file = engine.settings.project / "GEMINI.md"
    file.write_text(GUIDANCE, encoding="utf-8")
    (copied,) = take(engine, home, "instructions")  # as before the first scan
    index.scan(engine)
    file.write_text(GUIDANCE.replace("120", "100"), encoding="utf-8")
    (read,) = take(engine, home, "instructions")
    assert (read.status, read.memories) == ("read", ("GEMINI",))
    assert "120" in engine.index.bodies([*copied.memories])[copied.memories[0]]
    assert [each.live for each in find_sources(engine, home)] == [True]


def test_the_graph_of_a_memory_server_named_in_the_project(engine: Engine, home: Path) -> None:
    project = engine.settings.project
    servers = {"mcpServers": {"memory": {"command": "npx", "env": {"MEMORY_FILE_PATH": "data/graph.jsonl"}}}}
    (project / ".mcp.json").write_bytes(msgspec.json.encode(servers))
    entity = {
        "type": "entity",
        "name": "Foo queue",
        "entityType": "component",
        "observations": ["Keeps orders until the till has printed them.", f"Its token is {SECRET}."],
    }
    write_rows(project / "data/graph.jsonl", entity)
    (taken,) = take(engine, home, "memory-json")
    assert taken.memories == ("entities/foo-queue",)
    assert SECRET not in engine.index.bodies(["entities/foo-queue"])["entities/foo-queue"]


def test_links_between_imported_memories_lead_to_their_ids(engine: Engine, home: Path) -> None:
    project = engine.settings.project
    servers = {"mcpServers": {"memory": {"command": "npx", "env": {"MEMORY_FILE_PATH": "graph.jsonl"}}}}
    (project / ".mcp.json").write_bytes(msgspec.json.encode(servers))
    about = ["Keeps orders until the till has printed them.", "Asks [[till printer|the printer]], not [[Nobody]]."]
    entities: dict[str, list[str]] = {"Foo queue": about, "Till printer": []}
    rows = [{"type": "entity", "name": name, "observations": words} for name, words in entities.items()]
    ends = (("Foo queue", "Till printer"), ("Till printer", "Foo queue"))
    relations = [{"type": "relation", "from": a, "to": b, "relationType": "maintains"} for a, b in ends]
    write_rows(project / "graph.jsonl", *rows, *relations)
    assert statuses(take(engine, home, "memory-json")) == ["taken"] * 2
    body = engine.index.bodies(["entities/foo-queue"])["entities/foo-queue"]
    assert "Asks [[entities/till-printer|the printer]], not [[Nobody]]." in body
    assert "- maintains [[entities/till-printer|Till printer]]" in body
    assert {target for _, target in engine.index.edges("entities/till-printer")} == {"entities/foo-queue"}
    assert statuses(take(engine, home, "memory-json")) == ["unchanged"] * 2


def test_what_a_graph_has_no_use_for_is_told(engine: Engine, home: Path) -> None:
    project = engine.settings.project
    servers = {"mcpServers": {"memory": {"command": "npx", "env": {"MEMORY_FILE_PATH": "graph.jsonl"}}}}
    (project / ".mcp.json").write_bytes(msgspec.json.encode(servers))
    write_rows(project / "graph.jsonl", {"type": "entity", "name": "Ledger", "observations": []})
    (left,) = take(engine, home, "memory-json")
    assert (left.status, left.reasons) == ("left", ("entities with neither observations nor relations to others: 1",))


def test_names_that_differ_in_signs_alone_do_not_overwrite_each_other(engine: Engine, home: Path) -> None:
    project = engine.settings.project
    servers = {"mcpServers": {"memory": {"command": "npx", "env": {"MEMORY_FILE_PATH": "graph.jsonl"}}}}
    (project / ".mcp.json").write_bytes(msgspec.json.encode(servers))
    names = ("C", "C++", "C#", "Go")
    rows = [{"type": "entity", "name": name, "observations": [f"{name} is what the printer speaks."]} for name in names]
    write_rows(project / "graph.jsonl", *rows)
    taken = take(engine, home, "memory-json")
    assert statuses(taken) == ["taken"] * 4
    bodies = [engine.index.bodies(each.memories)[each.memories[0]] for each in taken]
    assert [f"{name} is what" in body for name, body in zip(names, bodies, strict=True)] == [True] * 4
    assert taken[3].memories == ("entities/go",)
    assert statuses(take(engine, home, "memory-json")) == ["unchanged"] * 4


def git(project: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=project, check=True, capture_output=True)


def test_decision_records_that_only_history_knows(engine: Engine, home: Path) -> None:
    project = engine.settings.project
    records = project / "docs/adr"
    records.mkdir(parents=True)
    for number, name in enumerate(("foo", "gone", "renamed")):
        text = f"# Use the {name} queue\n\nThe {name} queue keeps orders when the broker restarts; others lose them.\n"
        (records / f"000{number}-{name}.md").write_text(text, encoding="utf-8")
    (project / "notes.md").write_text("# Notes\n\nno decision\n", encoding="utf-8")
    git(project, "init", "-q")
    git(project, "config", "diff.renames", "false")
    git(project, "add", "docs", "notes.md")
    git(project, "commit", "-qm", "all")
    git(project, "rm", "-q", "docs/adr/0001-gone.md", "notes.md")
    git(project, "mv", "docs/adr/0002-renamed.md", "docs/adr/0009-renamed.md")
    git(project, "commit", "-qm", "less")
    (taken,) = take(engine, home, "decisions")
    assert (taken.status, taken.memories) == ("taken", ("decisions/0001-gone",))
    body = engine.index.bodies(["decisions/0001-gone"])["decisions/0001-gone"]
    assert body.startswith("> Deleted from the project on ")
    assert "docs/adr/0001-gone.md" in body.splitlines()[0]
    assert engine.memory("decisions/0001-gone").type.value == "decision"
    assert statuses(take(engine, home, "decisions")) == ["unchanged"]


def test_decision_records_of_a_project_below_the_top_of_its_repository(engine: Engine, home: Path) -> None:
    project = engine.settings.project
    (project / "docs/adr").mkdir(parents=True)
    text = "# Use the heron queue\n\nThe heron queue keeps orders when the broker restarts; others lose them.\n"
    (project / "docs/adr/0001-gone.md").write_text(text, encoding="utf-8")
    git(project.parent, "init", "-q")
    git(project.parent, "add", "project/docs")
    git(project.parent, "commit", "-qm", "all")
    git(project.parent, "rm", "-q", "project/docs/adr/0001-gone.md")
    git(project.parent, "commit", "-qm", "less")
    (taken,) = take(engine, home, "decisions")
    assert (taken.status, taken.memories) == ("taken", ("decisions/0001-gone",))


def test_a_deleted_record_whose_text_cannot_be_had_is_told(
    engine: Engine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, at = "docs/adr/0001-gone.md", "2026-01-01T00:00:00Z"
    gone = Commit(commit="0" * 40, at=at, author="A", subject="Remove", path=path)
    git(engine.settings.project, "init", "-q")
    monkeypatch.setattr("scrimshaw.engine.importers.list_deleted_notes", lambda project: [gone])
    (taken,) = take(engine, home, "decisions")
    assert (taken.status, taken.place) == ("left", "000000000000:docs/adr/0001-gone.md")
    assert "git could not be asked" in taken.reasons[0]


def test_without_a_repository_nothing_is_taken_and_it_says_why(engine: Engine, home: Path) -> None:
    (taken,) = take(engine, home, "decisions")
    assert taken.status == "left"
    assert "git" in taken.reasons[0]


def test_a_folder_of_markdown(engine: Engine, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "old notes"
    folder.mkdir()
    (folder / "till.md").write_text(
        "# Till\n\nThe till prints receipts in two languages, by gettext.\n", encoding="utf-8"
    )
    (folder / "crane.Markdown").write_text("# Crane\n\nThe crane on the quay lifts forty tonnes.\n", encoding="utf-8")
    (folder / "bad.md").write_bytes(b"\xff\xfe\x00")
    (folder / "folder.md").mkdir()
    assert sorted(statuses(take(engine, home, str(folder)))) == ["left", "taken", "taken"]
    assert sorted(statuses(take(engine, home, str(folder)))) == ["left", "unchanged", "unchanged"]


FORGETFUL = """
CREATE TABLE memories (id INTEGER PRIMARY KEY, title TEXT, content TEXT, context TEXT, keywords JSON, tags JSON,
  importance INTEGER, is_obsolete BOOLEAN, created_at DATETIME);
CREATE TABLE projects (id INTEGER PRIMARY KEY, name TEXT, repo_name TEXT);
CREATE TABLE memory_project_association (memory_id INTEGER, project_id INTEGER);
INSERT INTO projects VALUES (1, 'Till', 'ann/project'), (2, 'Website', NULL);
INSERT INTO memory_project_association VALUES (2, 1), (3, 2), (5, 9);
INSERT INTO memories VALUES
 (1, 'Tabs in makefiles', 'Makefiles of all our projects are written with tabs, never with spaces.', 'Asked for twice.',
  '["make"]', '["preference"]', 7, 0, '2025-03-04 05:06:07.123456'),
 (2, 'Foo queue', 'Orders go through the foo queue; its token is SECRET and it keeps them over a restart.',
  'Chosen after the outage in May.', '["queue"]', '["decision"]', 9, 0, '2025-05-06 07:08:09'),
 (3, 'Landing page', 'The landing page of the website is written in plain HTML without a framework.', '',
  '[]', '[]', 5, 0, '2025-05-06 07:08:09'),
 (4, 'Bar queue', 'Orders go through the bar queue, which loses them whenever it is restarted.', '',
  '[]', '[]', 5, 1, '2025-05-06 07:08:09'),
 (5, 'Ferry times', 'The ferry leaves at nine, and its project was deleted from this database since.', '',
  '[]', '[]', 5, 0, '2025-05-06 07:08:09');
"""
CLAUDE_MEM = """
CREATE TABLE observations (id INTEGER PRIMARY KEY, project TEXT, text TEXT, type TEXT, title TEXT, subtitle TEXT,
  facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT, created_at TEXT);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, project TEXT, request TEXT, learned TEXT, next_steps TEXT,
  created_at TEXT);
INSERT INTO observations VALUES
 (1, 'project', NULL, 'bugfix', 'Receipts print twice', 'The printer acknowledged too late',
  '["The till waits two seconds for the printer now"]', 'The printer of the till acknowledged after the timeout.',
  '["gotcha"]', '[]', '["src/till.py"]', '2026-01-02T03:04:05.678Z'),
 (2, 'project/tree', NULL, 'sensitive', 'Salaries', '', '[]', 'What the staff earns.', '[]', '[]', '[]', ''),
 (3, 'other', NULL, 'decision', 'Elsewhere', '', '[]', 'Another project decided something else.', '[]', '[]', '[]', '');
INSERT INTO session_summaries VALUES
 (1, 'project', 'Make the till print once', 'The printer needs two seconds.', 'Tell the shop.', '2026-01-02T04:00:00Z');
"""


def _make_database(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script.replace("SECRET", SECRET))
    return path


def test_memories_of_forgetful_are_taken_with_dates_and_without_those_of_other_projects(
    engine: Engine, home: Path, tmp_path: Path
) -> None:
    database = _make_database(tmp_path / "f.db", FORGETFUL)
    before = sorted(tmp_path.iterdir())
    assert statuses(take(engine, home, "forgetful", path=database, dry_run=True)) == ["left", "left", "found", "found"]
    taken = take(engine, home, "forgetful", path=database)
    assert [(each.status, each.memories or each.reasons) for each in taken] == [
        ("left", ("entries of other projects (--all-projects takes them too): 2",)),
        ("left", ("entries that are obsolete there: 1",)),
        ("taken", ("forgetful/tabs-in-makefiles",)),
        ("taken", ("forgetful/foo-queue",)),
    ]
    memory = engine.memory("forgetful/foo-queue")
    assert (memory.type, memory.tier, memory.created) == (MemoryType.DECISION, Tier.IMPORTANT, "2025-05-06T07:08:09Z")
    assert (memory.topics, memory.provenance.trust) == (("decision", "queue"), Trust.AGENT)
    text = Path(memory.path).read_text(encoding="utf-8")
    assert SECRET not in text
    assert "imported_from: forgetful memory 2" in text
    assert "Chosen after the outage in May." in text
    assert statuses(take(engine, home, "forgetful", path=database)) == ["left", "left", "unchanged", "unchanged"]
    assert statuses(take(engine, home, "forgetful", path=database, all_projects=True)).count("taken") == 2
    assert sorted(tmp_path.iterdir()) == before


def test_observations_and_summaries_of_claude_mem_from_their_usual_place(engine: Engine, home: Path) -> None:
    (home / ".claude-mem").mkdir()
    _make_database(home / ".claude-mem/claude-mem.db", CLAUDE_MEM)
    taken = take(engine, home, "claude-mem")
    assert [(each.status, each.memories or each.reasons) for each in taken] == [
        ("left", ("entries marked as sensitive there: 1",)),
        ("left", ("entries of other projects (--all-projects takes them too): 1",)),
        ("taken", ("claude-mem/receipts-print-twice",)),
        ("taken", ("claude-mem/make-the-till-print-once",)),
    ]
    memory = engine.memory("claude-mem/receipts-print-twice")
    assert (memory.type, memory.created) == (MemoryType.IMPLEMENTATION, "2026-01-02T03:04:05.678000Z")
    body = engine.index.bodies([memory.id])[memory.id]
    assert "- The till waits two seconds for the printer now" in body
    assert "Changed: `src/till.py`" in body
    assert engine.memory("claude-mem/make-the-till-print-once").type is MemoryType.SESSION
    assert statuses(take(engine, home, "claude-mem")) == ["left", "left", "unchanged", "unchanged"]


def test_what_mem0_answers_is_taken_once(engine: Engine, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    row = {"id": "a-1", "memory": "Ann writes Makefiles with tabs and never with spaces.", "created_at": "2026-02-03"}
    file.write_bytes(msgspec.json.encode({"results": [{**row, "categories": ["preference"]}, {"id": "a-2"}]}))
    left, taken = take(engine, home, "mem0", path=file)
    assert (left.reasons, taken.status) == (("entries without a text: 1",), "taken")
    memory = engine.memory(taken.memories[0])
    assert (memory.type, memory.created) == (MemoryType.PREFERENCE, "2026-02-03")
    assert statuses(take(engine, home, "mem0", path=file)) == ["left", "unchanged"]


def test_a_file_that_is_no_database_of_the_tool_is_refused(engine: Engine, home: Path, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, but some text", encoding="utf-8")
    other = _make_database(tmp_path / "other.db", "CREATE TABLE other (id INTEGER)")
    for path in (tmp_path / "text.db", other):
        with pytest.raises(UnreadableFile, match=path.name):
            take(engine, home, "forgetful", path=path)


@pytest.mark.parametrize("source", ["mem0", "memory-json"])
def test_a_file_without_json_is_refused(engine: Engine, home: Path, tmp_path: Path, source: str) -> None:
    file = tmp_path / "README.md"
    file.write_text("# Harbour\n\nThe gate shuts at dusk.\n", encoding="utf-8")
    with pytest.raises(UnreadableFile, match=r"README\.md has no memories; lines that are not JSON: 2\."):
        take(engine, home, source, path=file)


@pytest.mark.parametrize(
    ("source", "more", "error"),
    [
        ("serena", {}, InvalidRequest),
        ("nonsense", {}, InvalidRequest),
        ("transcripts", {"path": Path("x")}, InvalidRequest),
        ("claude", {"path": Path("not there")}, NotFound),
        ("instructions", {}, NotFound),
        ("memory-json", {}, NotFound),
        ("memory.json", {}, NotFound),
        ("mem0", {}, NotFound),
        ("forgetful", {}, NotFound),
        ("claude-mem", {"path": Path("not there")}, NotFound),
        ("basic-memory", {}, NotFound),
    ],
)
def test_what_cannot_be_imported_is_said(
    engine: Engine, home: Path, source: str, more: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        take(engine, home, source, **more)


def test_every_source_of_memories_is_found(engine: Engine, home: Path) -> None:
    project = engine.settings.project
    assert find_sources(engine, home) == []
    put_session(home, project, "s-1")
    (project / "GEMINI.md").write_text(GUIDANCE, encoding="utf-8")
    (project / ".serena/memories").mkdir(parents=True)
    (project / ".serena/memories/style.md").write_text("# Style\n", encoding="utf-8")
    notes = project / "notes"
    _note(notes / "queue.md", "Foo queue", "- [decision] Orders go through the foo queue, since it keeps them.", "")
    config = home / ".basic-memory/config.json"
    config.parent.mkdir()
    config.write_bytes(msgspec.json.encode({"projects": {"shop": {"path": str(notes)}, "main": "/elsewhere"}}))
    found = find_sources(engine, home)
    assert [(each.kind, each.count, each.live) for each in found] == [
        ("claude", 1, False),
        ("serena", 1, True),
        ("basic-memory", 1, False),
        ("instructions", 1, False),
    ]
    assert all(isinstance(each, FoundSource) for each in found)
    assert [(each.source, each.status) for each in take(engine, home, "all")] == [
        ("claude", "taken"),
        ("instructions", "taken"),
        ("basic-memory", "taken"),
    ]
