"""Scenario 16: a draft that leaves a decision to be filled in is turned away, the field named, and not found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scenarios.client import Client

from scrimshaw.engine import Engine, drafts, index
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.quality import judge
from scrimshaw.models import Filters

REASON = "Quality gate failed: placeholder leakage detected \u2014 field 'decisions' contains [TBD]"
FILE = """---
title: Port of the ingest worker
trigger_phrases: [ingest worker port, bind address]
topics: [ingest]
---
## Decisions

- Bind the worker to 8443 because the proxy terminates TLS there.

## Next actions

- Open the port in the firewall of the staging network.
"""


@pytest.fixture
def client(project: Path) -> Client:
    """A client whose agent leaves a decision open."""
    client = Client(project, "undecided")
    client.starts()
    client.asks("Move the ingest worker to another port, behind the proxy.")
    client.calls("Edit", {"file_path": "deploy/worker.toml", "old_string": "80", "new_string": "8443"}, "ok")
    client.calls("Bash", {"command": "git commit -am 'Move the worker'"}, "[main 1a2b3c4] Move the worker")
    client.says("I decided to use [TBD] for the port instead of 80, because the proxy needs it.")
    client.ends()
    return client


@pytest.mark.parametrize(
    ("whole", "field"),
    [
        ("- Bind the worker to 8443 because the proxy terminates TLS there.", "decisions"),
        ("- Open the port in the firewall of the staging network.", "next_actions"),
    ],
)
def test_the_gate_names_the_field(whole: str, field: str) -> None:
    assert judge(parse_memory_file(FILE), tool_calls=7).flags == ()
    verdict = judge(parse_memory_file(FILE.replace(whole, "- [TBD]")), tool_calls=7)
    assert (verdict.is_accepted, verdict.flags) == (False, ("has_placeholders",))
    assert verdict.reasons == (REASON.replace("decisions", field),)


def test_the_draft_is_set_aside_with_its_flags_and_not_indexed(engine: Engine, client: Client, vault: Path) -> None:
    made = drafts.make_draft(engine, client.session)
    assert made.status == "rejected"
    assert REASON in made.reasons
    values = parse_memory_file(Path(made.path).read_bytes()).values
    assert values["tier"] == "temporary"
    assert isinstance(values["quality"], dict)
    assert "has_placeholders" in values["quality"]["flags"]
    index.scan(engine)
    assert not list(vault.rglob("*.md"))
    assert engine.index.count(Filters()) == {"": 0}
