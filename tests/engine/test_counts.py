"""Exact answers: pages, counts, health."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import OpenMemory
from tests.engine.breaking import tamper
from tests.samples import WordEmbedder, write_memory
from tests.storage.contract import LIFT_GUARDS, TAMPER

from scrimshaw.app.mcp.tools.browse import StatsCall, memory_stats
from scrimshaw.engine import Engine
from scrimshaw.engine.counts import Folder, count_memories, page
from scrimshaw.engine.health import check_health
from scrimshaw.engine.index import embed_pending, scan
from scrimshaw.engine.write import NewText, save
from scrimshaw.models import Filters, JobState

EVERY = Filters(include_deprecated=True)


@pytest.fixture
def library(engine: Engine, vault: Path) -> Engine:
    write_memory(vault, "a", "text", "tier: critical\ntype: decision\nupdated: 2026-01-01")
    write_memory(vault, "in/b", "text", "tier: temporary\nupdated: 2026-02-01")
    write_memory(vault, "in/deep/c", "text", "updated: 2026-03-01")
    write_memory(vault, "old", "text", "tier: deprecated\nupdated: 2026-01-01")
    (vault / "broken.md").write_bytes(b"\xff")
    scan(engine)
    return engine


def test_pages_together_hold_every_memory_once(library: Engine) -> None:
    first = page(library, EVERY, sort="id", limit=3, offset=0)
    second = page(library, EVERY, sort="id", limit=3, offset=3)
    assert [memory.id for memory in (*first.memories, *second.memories)] == ["a", "in/b", "in/deep/c", "old"]
    assert (first.total, second.total, second.offset) == (4, 4, 3)
    assert page(library, Filters(), sort="id", limit=1, offset=0).total == 3
    assert page(library, Filters(), sort="id", limit=1, offset=99).memories == ()


def test_counts_are_exact(library: Engine) -> None:
    found = count_memories(library, EVERY)
    assert found.total == 4
    assert found.by_tier == {"critical": 1, "deprecated": 1, "normal": 1, "temporary": 1}
    assert found.by_type == {"decision": 1, "general": 3}
    assert found.by_artifact == {"memory": 4}
    assert found.by_source == {"vault": 4}
    assert (found.oldest, found.newest) == ("2026-01-01", "2026-03-01")
    assert [Path(skip.path).name for skip in found.skipped] == ["broken.md"]
    assert found.index_bytes > 0
    assert found.journal_bytes > 0
    assert found.waiting_jobs == 0


@pytest.mark.parametrize(
    ("table", "said"), [("vectors", "vectors_damaged"), ("chunks", "vectors_damaged"), ("files", "files_damaged")]
)
def test_counts_do_without_a_table_that_they_do_not_count(
    open_memory: OpenMemory, vault: Path, table: str, said: str
) -> None:
    engine = open_memory(embedder=WordEmbedder())
    write_memory(vault, "a", "text")
    scan(engine)
    tamper(engine.folder / "index.db", f"DROP TABLE {table}")
    told = memory_stats.run(engine, StatsCall())
    assert (told.total, told.by_tier) == (1, {"normal": 1})
    assert [each.failure_mode.partition(":")[0] for each in told.degraded] == [said]
    assert told.degraded[0].retry_recommendation == "Run `scrimshaw rebuild`."
    assert f"the table {table} is missing or not ours" in str(check_health(engine).degradations)


def test_counts_keep_to_filters_and_globs(library: Engine) -> None:
    assert count_memories(library, Filters()).total == 3
    assert count_memories(library, Filters(folder="in")).total == 2
    assert count_memories(library, EVERY, exclude=("in/*", "o*")).total == 1
    nothing = count_memories(library, Filters(folder="nowhere"))
    assert (nothing.total, nothing.oldest, nothing.newest, nothing.folders) == (0, "", "", ())


def test_folders(library: Engine) -> None:
    folders = {folder.name: folder for folder in count_memories(library, EVERY).folders}
    assert folders["in"] == Folder(name="in", count=2, updated="2026-03-01")
    assert folders[""] == Folder(name="", count=2, updated="2026-01-01")


# Health


def test_an_embedder_that_is_switched_off_is_told_and_no_fault(library: Engine) -> None:
    found = check_health(library, thorough=True)
    assert (found.status, found.memories, found.problems) == ("healthy", 4, ())
    assert found.verdicts["vectors"] == "note"
    assert found.degradations[0].failure_mode.startswith("embedder_off")
    assert {capability.name for capability in found.capabilities} >= {"full_text", "vectors"}


def test_health_waits_for_vectors(open_memory: OpenMemory) -> None:
    engine = open_memory(embedder=WordEmbedder())
    assert check_health(engine, thorough=True).status == "healthy"
    save(engine, NewText(content="text"))
    waiting = check_health(engine)
    assert (waiting.status, waiting.vectors, waiting.verdicts["vectors"]) == ("healthy", (0, 1), "note")
    assert waiting.degradations[0].failure_mode.startswith("vectors_pending: 1 of 1")
    (job,) = engine.journal.jobs((JobState.QUEUED,))
    found = count_memories(replace(engine, clock=lambda: job.created + 90), EVERY)
    assert (found.waiting_jobs, found.job_lag_s) == (1, 90.0)
    assert engine.journal.change_job(job.id, JobState.CANCELLED)
    waiting = check_health(engine)
    assert (waiting.status, waiting.verdicts["vectors"]) == ("degraded", "warning")
    embed_pending(engine)
    assert check_health(engine, thorough=True).status == "healthy"


def test_a_broken_chain_breaks_health(library: Engine) -> None:
    TAMPER["sqlite"](library.folder, f"{LIFT_GUARDS['sqlite']} UPDATE ledger SET reason = 'x' WHERE seq = 2")
    assert check_health(library).status == "healthy"
    found = check_health(library, thorough=True)
    assert found.status == "broken"
    assert "the ledger has 2 rows, and entry 2 was changed or removed" in found.problems
