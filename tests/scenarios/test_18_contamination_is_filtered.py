"""Scenario 18: what an agent says about its own steps is in no memory that is made of the session."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

from tests.scenarios.client import Client

from scrimshaw.engine import Engine, drafts
from scrimshaw.ingest.chatter import find_chatter, remove_chatter
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.quality import judge
from scrimshaw_lab.targets import CONTAMINATION

FILES = 50
CHATTER = (
    "I'll execute this step by step.",
    "Let me analyze the following:",
    "Now I'll check the configuration of the worker.",
    "Perfect!",
    "Let me start by reading the current settings.",
    "Great, now let me verify that the port is open.",
)
SERVICES = ("ingest", "billing", "export", "search", "mail")
DECISION = "I decided to bind the {service} worker to port {port} instead of 80, because the proxy ends TLS there."


def works(client: Client, number: int, chatter: str, more: str) -> str:
    """A session whose narrative holds chatter; what it decided."""
    service, port = SERVICES[number % len(SERVICES)], 8400 + number
    told = DECISION.format(service=service, port=port)
    client.asks(f"Move the {service} worker of cluster {number} to a port behind the proxy.")
    client.says(f"{chatter} The {service} worker of cluster {number} listens on port 80. {more}")
    client.calls(
        "Edit", {"file_path": f"deploy/{service}_{number}.toml", "old_string": "80", "new_string": str(port)}, "ok"
    )
    client.calls("Bash", {"command": f"git commit -am 'Move {service} to {port}'"}, f"[main 1a2b3c4] Move {service}")
    client.says(f"{chatter} {told} {more}")
    client.ends()
    return told


def test_the_filter_takes_the_phrases_and_nothing_else() -> None:
    story = f"{CHATTER[0]} {CHATTER[1]} The worker listens on port 80."
    assert remove_chatter(story) == "The worker listens on port 80."
    assert tuple(story[each.start : each.end].strip() for each in find_chatter(story)) == CHATTER[:2]
    assert judge(parse_memory_file(story)).flags == ("has_contamination",)
    assert judge(parse_memory_file(remove_chatter(story))).flags == ()


def test_fifty_files_hold_no_chatter(engine: Engine, project: Path) -> None:
    spoken, contaminated = cycle(CHATTER), 0
    for number in range(FILES):
        client = Client(project, f"{number:04}-narrated")
        told = works(client, number, next(spoken), next(spoken))
        made = drafts.make_draft(engine, client.session)
        assert made.status == "accepted", made.reasons
        text = Path(engine.memory(made.memory_id).path).read_text(encoding="utf-8")
        assert told.removeprefix("I ").rstrip(".") in text
        assert "has_contamination" not in str(parse_memory_file(text).values["quality"])
        contaminated += any(phrase.rstrip(".:!") in text for phrase in CHATTER if phrase != "Perfect!")
    assert contaminated / FILES <= CONTAMINATION
