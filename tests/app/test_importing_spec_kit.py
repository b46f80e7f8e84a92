"""A workspace of Spec Kit with its database, inside of the project and outside of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.app.test_importing_sessions import SECRET, statuses, take
from tests.conftest import OpenMemory

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.engine.links import count_relations as graph_stats
from scrimshaw.engine.links import explain_drift, link, unlink
from scrimshaw.engine.read import get, search, validate
from scrimshaw.errors import NotFound, ReadOnly, UnreadableFile
from scrimshaw.models import EdgeKind, Filters, MemoryType, Relation, Tier, Trust
from scrimshaw.search.results import SearchRequest

GOOD = f"""\
---
title: Two languages on receipts
importance_tier: critical
contextType: implementation
trigger_phrases: [receipt languages, gettext catalogue]
---
# Two languages on receipts

The till prints receipts in two languages by gettext catalogues, since people edit those by hand; its token is {SECRET}.
"""
POOR = """\
---
title: "Session summary"
importance_tier: critical
contextType: decision
---
# Session summary

## Decisions

No specific decisions were made during this session.

## Next

[TBD]

## Metadata

session_id: session-1767312000-abc
"""
SCHEMA = """
CREATE TABLE memory_index (id INTEGER PRIMARY KEY, spec_folder TEXT, file_path TEXT, title TEXT, trigger_phrases TEXT,
  importance_tier TEXT, context_type TEXT, created_at TEXT, confidence REAL, validation_count INTEGER,
  document_type TEXT, content_text TEXT, parent_id INTEGER);
CREATE TABLE causal_edges (id INTEGER PRIMARY KEY, source_id TEXT, target_id TEXT, relation TEXT, strength REAL,
  evidence TEXT, created_by TEXT);
CREATE TABLE checkpoints (id INTEGER PRIMARY KEY, name TEXT, memory_snapshot BLOB);
INSERT INTO memory_index VALUES
 (1, '001-till', '/home/ann/shop/specs/001-till/spec.md', 'Till', '[]', 'normal', 'general', '2026-01-02', 0.5, 0,
  'spec', '# Till', NULL),
 (2, '001-till', '/home/ann/shop/specs/001-till/plan.md', 'Plan', '[]', 'normal', 'general', '2026-01-02', 0.65, 3,
  'plan', '# Plan', NULL),
 (3, '001-till', '/home/ann/shop/specs/001-till/memory/gone.md', 'Receipts are kept', '["receipt archive"]',
  'constitutional', 'decision', '2026-01-03 10:00:00', 0.5, 0, 'memory',
  '# Receipts are kept' || char(10, 10) || 'Receipts are kept for ten years, as the law demands it of shops.', NULL),
 (4, '001-till', '/home/ann/shop/specs/001-till/memory/lost.md', 'Lost', '[]', 'normal', 'general', '', 0.5, 0,
  'memory', '', NULL);
INSERT INTO causal_edges VALUES
 (1, '2', '1', 'derived_from', 0.8, 'planned from it', 'user'), (2, '3', '1', 'supports', 1.0, NULL, 'manual'),
 (3, '1', '2', 'caused', 0.4, '', 'auto'), (4, '1', '99', 'caused', 1.0, '', 'user');
INSERT INTO checkpoints VALUES (1, 'before', x'00');
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's home, with nothing in it."""
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


def _put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _make_database(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA)
    return path


def test_a_workspace_in_the_project_is_read_in_place_and_its_database_taken_once(
    open_memory: OpenMemory, project: Path, home: Path
) -> None:
    spec = "# Till\n\nThe till prints receipts.\n"
    plan = "# Plan\n\nFirst the printer.\n"
    _put(project / "specs/001-till", {"spec": spec, "plan": plan, "memory/poor": POOR})
    engine = open_memory()
    database = _make_database(project / "specs/context-index__x.sqlite")
    dry = take(engine, home, "speckit", dry_run=True)
    assert "taken" not in statuses(dry)
    taken = take(engine, home, "speckit")
    assert [(each.status, each.memories or each.reasons) for each in taken] == [
        ("read", ("documents read in place: 3, of these as temporary: 1",)),
        ("left", ("records with neither a file here nor a text in the database: 1",)),
        ("taken", ("speckit/001-till/gone",)),
        ("taken", ("causal links: 2",)),
        ("left", ("links made by a program: 1",)),
        ("left", ("links to what is not here: 1",)),
        ("taken", ("validated memories: 1",)),
        ("left", ("checkpoints with rows of that database alone, and no files: 1",)),
    ]
    gone = engine.memory("speckit/001-till/gone")
    assert (gone.tier, gone.type, gone.created) == (Tier.IMPORTANT, MemoryType.DECISION, "2026-01-03T10:00:00Z")
    assert (gone.triggers, gone.provenance.trust) == (("receipt archive",), Trust.AGENT)
    (edge,) = (edge for edge, _ in engine.index.edges("specs/001-till/plan") if edge.relation == "derived_from")
    assert (edge.target, edge.strength, edge.evidence) == ("specs/001-till/spec", 0.8, "planned from it")
    review = engine.journal.reviews(["specs/001-till/plan"])["specs/001-till/plan"]
    assert (review.useful, review.not_useful, review.confidence) == (2, 1, 0.65)
    again = take(engine, home, "speckit", path=database)
    assert "taken" not in statuses(again)
    assert {each.reasons for each in again if each.status == "unchanged"} >= {("causal links: 2",)}


def test_documents_of_a_piece_of_work_are_related_where_both_are_there(open_memory: OpenMemory, project: Path) -> None:
    names = ("spec", "plan", "tasks", "decision-record", "memory/plan", "other")
    _put(project / "specs/001-till", {name: f"# The {name}\n\nOf the till.\n" for name in names})
    _put(project / "docs", {"spec": "# A spec alone\n"})
    engine = open_memory()
    scan(engine)
    edges = {(edge.source, edge.relation, target) for edge, target in engine.index.edges()}
    assert edges == {
        ("specs/001-till/spec", "caused", "specs/001-till/plan"),
        ("specs/001-till/plan", "caused", "specs/001-till/tasks"),
        ("specs/001-till/decision-record", "supports", "specs/001-till/plan"),
    }
    assert [each.id for each in explain_drift(engine, "specs/001-till/tasks").memories.values()] == [
        f"specs/001-till/{name}" for name in ("decision-record", "plan", "spec", "tasks")
    ]
    assert graph_stats(engine).dangling == ()
    with pytest.raises(ReadOnly, match="names of the two files"):
        link(engine, "specs/001-till/spec", "specs/001-till/plan", Relation.CAUSED)
    with pytest.raises(ReadOnly, match="names of the two files"):
        unlink(engine, "specs/001-till/spec", "specs/001-till/plan", Relation.CAUSED)
    (project / "specs/001-till/tasks.md").unlink()
    scan(engine)
    assert not [edge for edge, _ in engine.index.edges("specs/001-till/plan")]


def test_what_a_file_states_itself_counts_more_than_its_name(open_memory: OpenMemory, project: Path) -> None:
    stated = "---\nrelations:\n  caused: [{id: specs/001-till/plan, strength: 0.9}]\n---\n# Till\n"
    _put(project / "specs/001-till", {"spec": stated, "plan": "# Plan"})
    engine = open_memory()
    scan(engine)
    assert [(edge.kind, edge.strength) for edge, _ in engine.index.edges()] == [(EdgeKind.RELATION, 0.9)]


def test_a_section_is_read_by_its_mark_and_a_folder_named_by_its_end(open_memory: OpenMemory, project: Path) -> None:
    spec = "# Till\n\n<!-- ANCHOR:scope -->\n## 3. SCOPE\n\nReceipts alone.\n<!-- /ANCHOR:scope -->\n\nMore.\n"
    _put(project / "specs/002-shop/001-till", {"spec": spec})
    _put(project / "specs/001-till-old", {"spec": "# Receipts of old\n"})
    engine = open_memory()
    scan(engine)
    for name in ("specs/002-shop/001-till/spec#scope", "specs/002-shop/001-till/spec.md#scope"):
        assert get(engine, name).body == "## 3. SCOPE\n\nReceipts alone."
    with pytest.raises(NotFound) as error:
        get(engine, "specs/002-shop/001-till/spec", "scop")
    assert error.value.hint == "Its sections: till, 3-scope, scope."
    request = SearchRequest(query="receipts", filters=Filters(folder="002-shop/001-till"))
    assert [hit.memory.id for hit in search(engine, request).hits] == ["specs/002-shop/001-till/spec"]


def test_what_was_stated_here_stays(open_memory: OpenMemory, project: Path, home: Path) -> None:
    _put(project / "specs/001-till", {"spec": "# Till\n\nIt prints.\n", "plan": "# Plan\n\nFirst the printer.\n"})
    engine = open_memory()
    take(engine, home, "speckit", path=project / "specs")
    link(engine, "specs/001-till/plan", "specs/001-till/spec", Relation.DERIVED_FROM, 0.3)
    validate(engine, "specs/001-till/plan", useful=True)
    take(engine, home, "speckit", path=_make_database(home / "context-index.sqlite"))
    (edge,) = (edge for edge, _ in engine.index.edges("specs/001-till/plan") if edge.relation == "derived_from")
    review = engine.journal.reviews(["specs/001-till/plan"])["specs/001-till/plan"]
    assert (edge.strength, review.useful, review.not_useful) == (0.3, 1, 0)


def test_records_outside_the_project_are_saved_and_the_poor_ones_as_temporary(
    engine: Engine, home: Path, tmp_path: Path
) -> None:
    specs = tmp_path / "elsewhere/specs"
    _put(specs / "001-till", {"spec": "# Till", "memory/good": GOOD})
    _put(specs / "002-bar/memory", {"02-01-26_10-30__poor": POOR})
    dry = take(engine, home, "speckit", path=specs, dry_run=True)
    assert (statuses(dry), engine.index.count(Filters())[""]) == (["left", "found", "found"], 0)
    assert dry[0].reasons == ("documents that are not records of sessions: 1; searches read them in the project",)
    taken = take(engine, home, "speckit", path=specs)
    assert [(each.status, each.memories) for each in taken] == [
        ("left", ()),
        ("taken", ("speckit/001-till/memory/good",)),
        ("taken", ("speckit/002-bar/memory/02-01-26_10-30__poor",)),
    ]
    good, poor = (engine.memory(each.memories[0]) for each in taken[1:])
    assert (good.tier, poor.tier, poor.created) == (Tier.CRITICAL, Tier.TEMPORARY, "2026-01-02")
    assert good.triggers == ("receipt languages", "gettext catalogue")
    assert SECRET not in Path(good.path).read_text(encoding="utf-8")
    assert statuses(take(engine, home, "speckit", path=specs)) == ["left", "unchanged", "unchanged"]


def test_documents_that_the_project_excludes_are_not_told_as_elsewhere(
    open_memory: OpenMemory, project: Path, home: Path
) -> None:
    _put(project / "specs/001-till", {"spec": "# Till\n\nThe till prints receipts.\n", "plan": "# Plan\n\nPrinter.\n"})
    engine = open_memory('[index]\nexclude = ["specs/*/plan.md"]\n')
    left = take(engine, home, "speckit")[-1]
    reason = "documents that are not records of sessions: 1; `scrimshaw init` says why no search reads them"
    assert (left.status, left.reasons) == ("left", (reason,))


def test_another_database_is_refused(engine: Engine, home: Path, tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_text("no database", encoding="utf-8")
    with pytest.raises(UnreadableFile, match=r"text\.sqlite"):
        take(engine, home, "speckit", path=tmp_path / "text.sqlite")
