"""Spans: what was logged and recorded, once, without its texts, and only if the user names an exporter."""

from __future__ import annotations

import os
import threading
from collections import Counter
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.app.hooks.events import bash, report
from tests.samples import write_memory

from scrimshaw.app import tracing
from scrimshaw.app.background import Background
from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.engine.read import search
from scrimshaw.models import Stage
from scrimshaw.search.results import SearchRequest

MADE = list[InMemorySpanExporter]()


def make_exporter() -> InMemorySpanExporter:
    """What the entry point of an exporter makes: a new one for each server."""
    MADE.append(InMemorySpanExporter())
    return MADE[-1]


@pytest.fixture(autouse=True)
def install_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter is installed under the name of memory."""
    MADE.clear()
    entry = EntryPoint("memory", f"{__name__}:make_exporter", "opentelemetry_traces_exporter")
    monkeypatch.setattr(tracing, "entry_points", lambda **_: (entry,))
    monkeypatch.setattr(tracing, "LATE_S", -5.0)


def read_spans() -> list[ReadableSpan]:
    return [span for exporter in MADE for span in exporter.get_finished_spans()]


def send(engine: Engine) -> None:
    """Send once, as a server that ends."""
    stop = threading.Event()
    stop.set()
    tracing.send_spans(engine, "memory", stop)


def test_what_happened_is_sent_once_and_without_texts(engine: Engine, project: Path, vault: Path) -> None:
    write_memory(vault, "north", "The harbour closes at dusk.\n")
    scan(engine)
    search(engine, SearchRequest(query="before"))
    send(engine)
    assert read_spans() == []  # only what happens after the first server began
    os.utime(engine.storage.place / "spans.sent", (0, 0))
    report(project, "UserPromptSubmit", prompt="mend the harbour")
    bash(project, "pytest tests", "3 passed", "t1")
    search(engine, SearchRequest(query="harbour"))
    for _ in range(2):
        send(engine)
    spans = read_spans()
    roots = [span for span in spans if span.parent is None]
    assert Counter(span.name for span in roots) == {"search": 2, "event prompt": 1, "event tool": 1}
    (call,) = (span for span in roots if span.name == "event tool")
    assert dict(call.attributes or {}) == {"session": "S1", "client": "claude", "tool": "Bash", "failed": False}
    last = next(span for span in roots if span.name == "search" and (span.attributes or {})["hits"] == 1)
    stages = [span for span in spans if span.parent and last.context and span.parent.span_id == last.context.span_id]
    assert {span.name for span in stages} == {f"search {stage}" for stage in Stage}
    assert max(span.end_time or 0 for span in stages) <= (last.end_time or 0) + 1000
    assert "harbour" not in "".join(span.to_json() for span in spans)


def test_only_an_exporter_that_the_user_named_is_started(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("", "none", "console", "otlp"):
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", name)
        threads = [thread.name for thread in Background(engine)._threads]
        assert ("send-spans" in threads) is (name == "otlp")
    monkeypatch.setattr(tracing, "entry_points", lambda **_: ())
    send(engine)
    assert "scrimshaw[otel]" in caplog.text
