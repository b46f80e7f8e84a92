"""What a session made of what its hooks told it, from the events that a client reports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.app.hooks.events import bash, context_of, report
from tests.samples import write_memory

from scrimshaw.app.hooks.fencing import max_tokens
from scrimshaw.app.mcp.call_recorder import make_recorder
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.engine import Engine
from scrimshaw.engine.counts import list_tokens
from scrimshaw.engine.index import scan
from scrimshaw.engine.usage import WITHIN, InjectedPiece, find_uses, measure_usage
from scrimshaw.ingest.extraction import default_rules
from scrimshaw.models import EventKind, RecordedEvent

DECIDED = "I decided that the till listens on port 8443, because the scanner in the harbour shop holds port 443."
SCALES = "The scales in the shop weigh in ounces since the fair of Stockholm."


def begin(engine: Engine, project: Path, vault: Path) -> list[str]:
    """A session with a decision, then another that is told it and a memory; the texts that this one was handed."""
    write_memory(
        vault,
        "ops/scales",
        f"{SCALES}\n",
        "title: Scales\ntrigger_phrases: [scales of the shop]",
    )
    scan(engine)
    report(project, "UserPromptSubmit", prompt="Please move the till of the shop to another port")
    bash(project, "make till", "made", "t1")
    report(project, "Stop", last_assistant_message=DECIDED)
    report(project, "SessionEnd", reason="exit")
    start = report(project, "SessionStart", "S2", source="startup")
    asked = report(project, "UserPromptSubmit", "S2", prompt="Please mend the scales of the shop")
    return [context_of(start), context_of(asked)]


def measure(engine: Engine) -> tuple[InjectedPiece, ...]:
    session = engine.sessions.get("S2")
    assert session
    return measure_usage(engine, session, engine.sessions.latest(limit=9))


def test_what_was_told_is_found_again_line_by_line(engine: Engine, project: Path, vault: Path) -> None:
    told = begin(engine, project, vault)
    found = measure(engine)
    lines = [line for text in told for line in text.splitlines() if line.startswith("- ")]
    assert len(found) == len(lines)
    assert [piece.text in line for piece, line in zip(found, lines, strict=True)] == [True] * len(lines)
    assert [(piece.event, piece.id) for piece in found][-1] == (2, "ops/scales")
    assert [piece.use for piece in found] == [""] * len(lines)
    (counted,) = list_tokens(engine)
    assert (counted.unasked, counted.uses, counted.used_tokens) == (len(lines), 0, 0)
    assert counted.unasked_tokens == counted.tokens == sum(map(max_tokens, told))


def test_what_a_start_told_of_rules_arrivals_and_many_sessions_is_counted(
    engine: Engine, project: Path, vault: Path
) -> None:
    of_session = "title: Till\ntype: session\nprovenance: {source: session, session: S9, trust: agent}"
    body = "## Decisions\n\n- from now on always use UUIDs for the keys (e1)\n\n## Changed\n\n- made the till (e2)\n"
    write_memory(vault, "sessions/2026-01-01-till-abc", body, of_session)
    for number in range(21):
        report(project, "UserPromptSubmit", f"old{number}", prompt="Please move the till of the shop to another port")
        bash(project, "make till", "made", f"t{number}", f"old{number}")
        report(project, "SessionEnd", f"old{number}", reason="exit")
    told = begin(engine, project, vault)
    counted = next(each for each in list_tokens(engine) if each.session == "S2")
    assert counted.unasked
    assert counted.unasked_tokens <= counted.tokens == sum(map(max_tokens, told))


def test_what_the_agent_writes_again_or_opens_is_of_use(engine: Engine, project: Path, vault: Path) -> None:
    begin(engine, project, vault)
    bash(project, "curl localhost:9000", "refused", "t2", "S2")
    report(project, "Stop", "S2", last_assistant_message="The till listens on port 8443, the scanner holds port 443.")
    file = vault / "ops/scales.md"
    report(project, "PostToolUse", "S2", tool_name="Read", tool_use_id="t3", tool_input={"file_path": str(file)})
    found = measure(engine)
    assert [(piece.use, piece.id, piece.text) for piece in found if piece.use] == [
        ("written", "session:S1#e3", DECIDED), ("read", "ops/scales", SCALES),
    ]  # fmt: skip
    (counted,) = list_tokens(engine)
    assert (len(DECIDED), len(SCALES)) == (101, 67)  # three characters a token, and one more
    assert (counted.unasked, counted.uses, counted.used_tokens) == (len(found), 2, 34 + 23)


def test_what_the_agent_reads_by_the_tool_is_of_use(engine: Engine, project: Path, vault: Path) -> None:
    begin(engine, project, vault)
    dispatcher = Dispatcher(choose("core"), engine, make_recorder(engine, default_rules()))
    engine.sessions.open("S2", process=os.getppid(), now=engine.clock())  # whose client started this server
    assert not dispatcher.dispatch("memory_get", {"id": "ops/scales"}).error
    dispatcher.stop()
    assert [(piece.use, piece.id) for piece in measure(engine) if piece.use] == [("read", "ops/scales")]


def test_what_the_agent_could_have_from_elsewhere_shows_no_use(engine: Engine, project: Path, vault: Path) -> None:
    begin(engine, project, vault)
    bash(project, "cat till.toml", "# the till listens on port 8443, the scanner in the harbour shop", "t2", "S2")
    report(
        project, "Stop", "S2", last_assistant_message="The till listens on port 8443 for the scanner in the harbour."
    )
    assert not any(piece.use for piece in measure(engine))


def test_a_compaction_takes_what_was_told_before_out_of_the_count(engine: Engine, project: Path, vault: Path) -> None:
    begin(engine, project, vault)
    bash(project, "make scales", "made", "t2", "S2")
    report(project, "PreCompact", "S2", trigger="auto")
    report(project, "SessionStart", "S2", source="compact")
    report(project, "Stop", "S2", last_assistant_message="First I was to mend the scales of the shop.")
    found = measure(engine)
    assert "ops/scales" not in {piece.id for piece in found}
    assert [piece.text for piece in found if piece.use] == ["Please mend the scales of the shop"]


TOLD = InjectedPiece(event=1, id="ops/till", text="The till listens on port 8443.")


def events(*texts: str, first: int = 2, kind: EventKind = EventKind.STOP) -> Sequence[RecordedEvent]:
    return [
        RecordedEvent(session="s", number=number, kind=kind, tool="", call_id="", text=text, at=0.0)
        for number, text in enumerate(texts, first)
    ]


@pytest.mark.parametrize(
    ("happened", "use"),
    [
        (events("So the till listens on port 8443"), "written"),
        (events("The till LISTENS on\nport 8443!"), "written"),
        (events("nothing"), ""),
        (events("It listens on port 8443"), "written"),  # two runs of words, and the name of a port
        (events("It listens on port 443"), ""),
        (events("The till has port 8443"), ""),
        (events("The till listens", "till listens on", "on port 8443"), ""),  # never three at once
        (events("The till listens on port 8443", first=1 + WITHIN), "written"),
        (events("The till listens on port 8443", first=2 + WITHIN), ""),
        (events("The till listens on port 8443", first=1), ""),
        (events("The till listens on port 8443", kind=EventKind.PROMPT), ""),
        (events("echo the till listens on port 8443\nok", kind=EventKind.TOOL), "written"),
        (events("cat till.toml\nthe till listens on port 8443", kind=EventKind.TOOL), ""),
        (events(".scrimshaw/memories/ops/till.md\nabc", kind=EventKind.TOOL, first=99), "read"),
        (events(".scrimshaw/memories/shops/till.md\nabc", kind=EventKind.TOOL), ""),
        (events("ops/till.md", kind=EventKind.STOP), ""),
        ([*events("The till listens on port 8443"), *events("ops/till.md", kind=EventKind.TOOL, first=3)], "read"),
    ],
)
def test_what_counts_as_use(happened: Sequence[RecordedEvent], use: str) -> None:
    assert [each.use for each in find_uses(happened, [TOLD])] == [use]


@pytest.mark.parametrize(("path", "use"), [(".scrimshaw/memories/till.md", "read"), ("docs/till.md", "")])
def test_only_the_memory_s_own_file_is_its_reading(path: str, use: str) -> None:
    told = InjectedPiece(event=1, id="till", text="")
    assert [each.use for each in find_uses(events(f"{path}\nabc", kind=EventKind.TOOL), [told])] == [use]


def test_a_session_that_was_told_nothing_has_no_figures(engine: Engine, project: Path) -> None:
    bash(project, "make till", "made", "t1", "S2")
    assert measure(engine) == ()
