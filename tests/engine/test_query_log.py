"""What is kept of searches: redacted, bounded, switched off, paired with what was read, and counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from tests.samples import SECRET, write_memory

from scrimshaw.engine import Engine, query_log
from scrimshaw.engine.index import scan
from scrimshaw.engine.query_log import FILE, OLDER, LoggedRead, LoggedSearch, pair_reads, read_log, search_figures
from scrimshaw.engine.read import search
from scrimshaw.search.results import SearchRequest


@pytest.fixture
def harbour(engine: Engine, vault: Path) -> Engine:
    write_memory(vault, "north", "The harbour of north closes at dusk.")
    write_memory(vault, "gate", "The gate is oak.")
    scan(engine)
    return engine


def ask(engine: Engine, query: str, **fields: float) -> LoggedSearch:
    search(engine, SearchRequest(query=query, **fields))  # type: ignore[arg-type]
    line = read_log(engine)[-1]
    assert isinstance(line, LoggedSearch)
    return line


def test_a_search_is_kept_as_it_was_answered(harbour: Engine) -> None:
    line = ask(harbour, "harbour dusk")
    assert line.query == "harbour dusk"
    assert line.shown[0][0] == "north"
    assert line.ms > 0
    assert ask(harbour, "zeppelin", min_confidence=1.0).shown == ()


def test_no_secret_is_kept_and_nobody_else_reads_it(harbour: Engine) -> None:
    assert SECRET not in ask(harbour, f"harbour {SECRET}").query
    path = harbour.storage.place / FILE
    assert SECRET.encode() not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0


def test_nothing_is_kept_of_who_wants_nothing_kept(harbour: Engine) -> None:
    limits = structs.replace(harbour.settings.search, log=False)
    silent = replace(harbour, settings=structs.replace(harbour.settings, search=limits))
    search(silent, SearchRequest(query="harbour"))
    query_log.append(silent, LoggedRead(at=1.0, id="north"))
    assert read_log(silent) == []
    (harbour.settings.folder / "capture.paused").touch()
    search(harbour, SearchRequest(query="harbour"))
    assert read_log(harbour) == []


def test_the_file_is_bounded_and_a_torn_line_is_passed_over(harbour: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_log, "MOST_BYTES", 2000)
    for number in range(20):
        ask(harbour, f"harbour {number}")
    place = harbour.storage.place
    assert (place / FILE).exists() or (place / OLDER).exists()
    assert sum(each.stat().st_size for each in place.glob("queries*.jsonl")) < 5000
    assert read_log(harbour)[-1].query == "harbour 19"  # type: ignore[union-attr]
    with (place / FILE).open("ab") as file:
        file.write(b'{"type":"search","at":')
    assert read_log(harbour)[-1].query == "harbour 19"  # type: ignore[union-attr]


def line(at: float, *shown: str, **values: object) -> LoggedSearch:
    known = {"session": "", "query": "q", "intent": "understand", "channels": ("text",), "confidence": 0.9}
    found = tuple((name, 1.0) for name in shown)
    stages = {"candidates": 2.0, "fusion": 1.0}
    fields = {**known, "shown": found, "lifted": 0, "stages": stages, "failures": ()} | values
    return LoggedSearch(at=at, **fields)  # type: ignore[arg-type]


def test_reads_belong_to_the_searches_that_showed_them() -> None:
    lines: list[LoggedSearch | LoggedRead] = [
        line(0, "a", "b#part"),
        LoggedRead(at=5, id="b"),
        line(10, "c"),
        LoggedRead(at=4000, id="c"),
    ]
    assert [read for _, read in pair_reads(lines)] == [("b",), ()]


def test_figures_are_counted_from_the_lines(harbour: Engine) -> None:
    now = harbour.clock()
    lines: list[LoggedSearch | LoggedRead] = [
        line(now - 9e6, "old"),
        line(now - 50, "a", "b", lifted=1),
        LoggedRead(at=now - 40, id="a"),
        line(now - 30, failures=("no_vectors",), stages={"candidates": 8.0}),
    ]
    for each in lines:
        query_log.append(harbour, each)
    found = search_figures(harbour, 14)
    assert (found.searches, found.refused, found.degraded, found.lifted) == (2, 0.5, 0.5, 0.5)
    assert (found.read, found.read_first, found.failures) == (1.0, 1.0, {"no_vectors": 1})
    assert found.stages == {"candidates": (2.0, 8.0), "fusion": (1.0, 1.0), "all": (3.0, 8.0)}
    assert search_figures(harbour, 0.0001).refused in (0.5, None)
