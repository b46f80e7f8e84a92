"""Spans for OpenTelemetry, of searches and of events that clients report, from what is logged and recorded anyway.

The user names the exporter. A span has times, counts and names of tools, and no text of a query or a session.
"""

import logging
import os
import threading
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

from scrimshaw.engine import Engine
from scrimshaw.engine.query_log import LoggedSearch, read_log
from scrimshaw.errors import VaultBusy
from scrimshaw.storage.transaction import lock

PAUSE_S, LATE_S, _MOST_SESSIONS, _NS = 30.0, 1.0, 100, 1_000_000_000


def send_spans(engine: Engine, exporter: str, stop: threading.Event) -> None:
    """Send new spans now and then until `stop`; only warns if the exporter is missing."""
    try:
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra

        (found,) = entry_points(group="opentelemetry_traces_exporter", name=exporter)
    except (ImportError, ValueError):
        logging.getLogger(__name__).warning("No spans are sent: %r is not installed; see scrimshaw[otel]", exporter)
        return
    provider, is_over = TracerProvider(shutdown_on_exit=False), False  # nobody waits for an exporter
    provider.add_span_processor(BatchSpanProcessor(found.load()()))
    sent = engine.storage.place / "spans.sent"  # its time is that of the last spans, of any server of this memory
    while not is_over:
        is_over = stop.wait(PAUSE_S)
        with suppress(VaultBusy), lock(sent.with_suffix(".lock"), 0.0):
            until = engine.clock() - LATE_S  # what is newer may not be written yet
            since = sent.stat().st_mtime if sent.exists() else until
            make_spans(engine, provider.get_tracer("scrimshaw"), since, until)
            sent.touch()
            os.utime(sent, (until, until))
    provider.shutdown()


def make_spans(engine: Engine, tracer: Any, since: float, until: float) -> None:
    """Make the spans of what happened after one moment and not after another, in seconds since 1970."""
    for search in (each for each in read_log(engine) if isinstance(each, LoggedSearch) and since < each.at <= until):
        at, about = int((search.at - search.ms / 1000) * _NS), {"session": search.session, "intent": search.intent}
        with tracer.start_as_current_span("search", start_time=at, attributes=about, end_on_exit=False) as span:
            span.set_attributes({"hits": len(search.shown), "lifted": search.lifted, "failures": search.failures})
            for stage, ms in search.stages.items():
                child, at = tracer.start_span(f"search {stage}", start_time=at), at + int(ms * _NS / 1000)
                child.end(at)
        span.end(at)
    for session in engine.sessions.latest(limit=_MOST_SESSIONS):
        for event in engine.sessions.events(session.id) if session.last_event > since else ():
            if since < event.at <= until:
                at, facts = int(event.at * _NS), {"session": session.id, "client": session.client, "tool": event.tool}
                span = tracer.start_span(f"event {event.kind}", start_time=at, attributes=facts)
                span.set_attribute("failed", bool(event.failed))
                span.end(at)
