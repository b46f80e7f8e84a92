"""The pages of sessions: what was asked, done and said, what came of it, and what was sent to the model."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.app.hooks.events import bash, report
from tests.app.web.test_reading import HOSTILE, read

from scrimshaw.app.web.page import link_event
from scrimshaw.engine import Engine
from scrimshaw.engine.counts import list_tokens
from scrimshaw.engine.drafts import make_draft
from scrimshaw.engine.sessions import rank_working_memory
from scrimshaw.models import EventKind, Injected, Observation, Redacted
from scrimshaw.storage.ports import Admission


def work(project: Path, number: int = 1, what: str = "gate", output: str = "3 passed") -> None:
    """A turn of the session S1 that changes something and says why."""
    report(project, "UserPromptSubmit", prompt=f"Please mend the {what} of the harbour crane in the storage module")
    bash(project, "pytest tests", output, f"t{number}")
    bash(project, f"git commit -m 'fix: mend the {what}'", f"[main 1a2b3c{number}] fix: mend the {what}", f"c{number}")


def test_a_session_is_shown_event_by_event(browser: TestClient, engine: Engine, project: Path) -> None:
    work(project)
    bash(project, "pytest more", "FAILED tests/test_gate.py - assert 1 == 2\n1 failed", "t9")
    engine.sessions.tick(
        "S1", now=0, modulus=99, injected=Injected(session="S1", occasion="start", tokens=70, hits=2, at=0)
    )
    assert "Please mend" in read(browser, "/sessions").text  # until there is a memory
    made = make_draft(engine, "S1")
    assert made.status == "accepted"
    listed, title = read(browser, "/sessions"), engine.memory(made.memory_id).title
    assert [each.attributes["href"] for each in listed.find("a") if each.text == title] == ["/sessions/S1"]
    assert "Please mend" not in listed.text
    assert "70" in listed.text
    page = read(browser, "/sessions/S1")
    events = [each.text for each in page.find("li") if each.attributes.get("id", "").startswith("e")]
    assert [text.split()[:2] for text in events][-2:] == [["e3", "Bash"], ["e4", "Bash"]]
    assert "asked" in events[0]
    assert "Please mend the gate" in events[0]
    assert "failed" in events[-1]
    assert "start 1 70 2" in page.text
    assert "Working memory" in page.text
    assert [each.text for each in page.find("a") if each.text.startswith("sessions/")]


def test_how_an_agent_used_what_it_was_shown_unasked(browser: TestClient, engine: Engine, project: Path) -> None:
    decided = "I decided to oil the gate of the crane in spring, because the harbour freezes."
    work(project)
    report(project, "Stop", last_assistant_message=decided)
    assert "Sessions: 0; texts they were shown unasked: 0" in read(browser, "/stats?usage=1").text
    report(project, "SessionStart", "S2", source="startup")
    report(project, "Stop", "S2", last_assistant_message="We oil the gate of the crane in spring.")
    (row,) = (each.text for each in read(browser, "/sessions/S2").find("tr") if decided in each.text)
    assert row.endswith(f"e1 {len(decided) // 3 + 1} written")
    assert "How the last sessions used it" in read(browser, "/stats").text
    (counted,) = list_tokens(engine)
    assert (counted.uses, counted.used_tokens) == (1, len(decided) // 3 + 1)
    assert (
        f"Sessions: 1; texts they were shown unasked: {counted.unasked}; repeated or read: 1"
        in read(browser, "/stats?usage=1").text
    )


def test_attention_is_drawn_over_the_events(browser: TestClient, engine: Engine, project: Path) -> None:
    for number in range(9):
        work(project, number, f"gate{number}")
    session, items = engine.sessions.get("S1"), engine.sessions.items("S1")
    assert session
    page = read(browser, "/sessions/S1")
    assert f"{len(items)} entries over {session.counter} events" in page.text
    curves = [(each.attributes["class"], each.attributes["points"].split()) for each in page.find("polyline")]
    assert [kind for kind, _ in curves] == ["" if item.held else "left" for item in items]
    worth = {item.number: worth for item, worth in rank_working_memory(engine, session)}
    assert len(worth) < len(items)
    for item, (_, points) in zip(items, curves, strict=True):
        heights = [float(point.partition(",")[2]) for point in points]  # measured from above
        assert heights[:-1] == sorted(heights[:-1])
        assert heights[0] == pytest.approx(100 - 100 * item.attention)
        if item.held:
            assert points[-1] == f"{session.counter},{100 - 100 * worth[item.number]:g}"


def test_a_long_session_has_several_pages(browser: TestClient, engine: Engine) -> None:
    for number in range(1, 452):
        seen = Observation(session="S1", kind=EventKind.TOOL, text=Redacted(text=f"call {number}"), call_id=str(number))
        engine.sessions.observe(seen, lambda *_: Admission(admitted=False), now=float(number), modulus=2**31)
    page = read(browser, "/sessions/S1?first=201")
    assert [each.text for each in page.find("a") if each.text.startswith("events")] == [
        "events 1 to 200", "events 201 to 400", "events 401 to 451",
    ]  # fmt: skip
    assert "call 201" in page.text
    assert "call 401" not in page.text
    assert 'href="/sessions/S1?first=401#e451"' in link_event("S1", 451, "e451")
    assert 'href="/sessions/S1#e200"' in link_event("S1", 200, "e200")


@pytest.mark.parametrize("query", ["first=-1", "first=x", "first=99999999999999999999", "first=%C2%B2", "first="])
def test_a_number_that_is_none_counts_as_nothing(browser: TestClient, project: Path, query: str) -> None:
    work(project)
    read(browser, f"/sessions/S1?{query}")


def test_what_a_tool_printed_does_nothing(browser: TestClient, engine: Engine, project: Path) -> None:
    for number, text in enumerate(HOSTILE):
        work(project, number, text, output=text)
    make_draft(engine, "S1")
    for path in ("/", "/sessions", "/sessions/S1"):
        read(browser, path)


def test_a_session_that_is_not_there(browser: TestClient) -> None:
    assert "There is no session" in read(browser, "/sessions/none", 404).text
