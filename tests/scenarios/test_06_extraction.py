"""Scenario 6: fifty sessions of twenty calls; what matters is kept, little else is, and working memory stays small."""

from __future__ import annotations

import random
import time
from collections import Counter
from functools import partial
from itertools import product

from scrimshaw.engine import Engine
from scrimshaw.ingest.events import Event, make_observation
from scrimshaw.ingest.extraction import default_rules, order_rules
from scrimshaw.models import EventKind, Observation
from scrimshaw.session import working_memory
from scrimshaw_lab.targets import EXTRACTION_PRECISION, EXTRACTION_RECALL

SESSIONS, CALLS = 50, 20
RULES = order_rules(default_rules())
COMMIT, TESTS = "git commit -m 'fix: port'", "npm test"
Call = tuple[str, dict[str, object], str]

WORTH: tuple[Call, ...] = (
    ("Read", {"file_path": "specs/001/spec.md"}, "# Goal\nServe on port 8443."),
    ("Grep", {"pattern": "timeout", "path": "app.log"}, "app.log:9: ERROR: timeout after 30 s"),
    ("Bash", {"command": COMMIT}, "[main 1a2b3c4] fix: port\n 1 file changed, 2 insertions(+)"),
    (
        "Edit",
        {"file_path": "src/app.py", "old_string": "port = 1", "new_string": "port = 8443"},
        "The file is updated.",
    ),
    ("Bash", {"command": TESTS}, "Tests: 2 failed, 7 passed\nFAIL src/port.test.js\n  Error: expected 8443"),
)
NOISE: tuple[Call, ...] = (
    ("Bash", {"command": "ls -la"}, "total 8\ndrwxr-xr-x 2 dev dev 4096 src"),
    ("Read", {"file_path": "src/app.py", "offset": 40, "limit": 9}, "40\tdef step(): ..."),
    ("Grep", {"pattern": "port", "path": "src"}, "No matches found"),
    ("Glob", {"pattern": "**/*.py"}, "src/app.py"),
    ("Bash", {"command": "pwd"}, "/home/dev/project"),
)


def event(session: str, number: int, call: Call) -> Event:
    tool, arguments, output = call
    return Event(
        client="claude",
        kind=EventKind.TOOL,
        session=session,
        tool=tool,
        tool_name=tool,
        arguments=arguments,
        output=f"{output}\nrun {number}",
        failed=False,
        call_id=f"{session}-{number}",
    )


def happens(engine: Engine, seen: Observation) -> None:
    now, settings = time.time(), engine.settings.session
    admit = partial(working_memory.admit, now=now, settings=settings, event_decay=True)
    engine.sessions.observe(seen, admit, now=now, modulus=settings.counter_modulus)


def observed(session: str, number: int, call: Call) -> Observation:
    return make_observation(event(session, number, call), RULES, process=0, extraction=True)


def test_precision_recall_and_capacity(engine: Engine) -> None:
    draw = random.Random(6)
    outcomes: Counter[tuple[bool, bool]] = Counter()
    for session, number in product((f"S{number}" for number in range(SESSIONS)), range(CALLS)):
        worth = draw.random() < 0.6
        seen = observed(session, number, draw.choice(WORTH if worth else NOISE))
        happens(engine, seen)
        outcomes[worth, seen.item is not None] += 1
        assert len(engine.sessions.items(session, held=True)) <= engine.settings.session.capacity
    kept, wrong, missed = outcomes[True, True], outcomes[False, True], outcomes[True, False]
    assert kept / (kept + wrong) >= EXTRACTION_PRECISION
    assert kept / (kept + missed) >= EXTRACTION_RECALL


def test_what_leaves_a_full_memory_is_attended_least(engine: Engine) -> None:
    for number, call in enumerate([*WORTH, *WORTH]):
        happens(engine, observed("S", number, call))
    session, settings = engine.sessions.get("S"), engine.settings.session
    assert session
    ranked = working_memory.rank_items(
        engine.sessions.items("S"), session.counter, now=time.time(), settings=settings, event_decay=True
    )
    held = {item.number for item in engine.sessions.items("S", held=True)}
    assert [item.number for item, _ in ranked][: settings.capacity] == [
        item.number for item, _ in ranked if item.number in held
    ]
    assert len(held) == settings.capacity < len(ranked)
