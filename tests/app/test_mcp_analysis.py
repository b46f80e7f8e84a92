"""The toolset `analysis` over real storage: every parameter has its effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenMemory
from tests.samples import write_memory

from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.app.mcp.tools.browse import DANGLING_SHOWN
from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan


class Client:
    """Calls tools by name and answers their bodies; a failure is answered by its code."""

    def __init__(self, engine: Engine) -> None:
        self._dispatcher = Dispatcher(choose("all"), engine)

    def __call__(self, tool: str, **arguments: Any) -> Any:
        outcome = self._dispatcher.dispatch(tool, arguments)
        return outcome.error or outcome.reply


@pytest.fixture
def engine(open_memory: OpenMemory, vault: Path, project: Path) -> Engine:
    """Four memories that are ours and a document that is not."""
    for name in ("a", "b", "c", "d"):
        write_memory(vault, name, f"Text of {name}.\n")
    write_memory(project / "docs", "guide", "Not ours.\n")
    engine = open_memory()
    scan(engine)
    return engine


@pytest.fixture
def call(engine: Engine) -> Client:
    return Client(engine)


def link(call: Client, source: str, target: str, relation: str = "caused", **more: Any) -> Any:
    return call("memory_causal_link", source_id=source, target_id=target, relation=relation, **more)


def test_the_toolset_holds_four_tools() -> None:
    assert [spec.name for spec in choose("analysis")] == [
        "memory_causal_link", "memory_causal_unlink", "memory_causal_stats", "memory_drift_why",
    ]  # fmt: skip


def test_a_link_is_written_and_taken_back_by_unlink(call: Client, vault: Path) -> None:
    path = str((vault / "a.md").resolve())
    expected = {"source_id": "a", "target_id": "b", "relation": "supports", "path": path}
    assert link(call, "a", "b", "supports") == {**expected, "status": "linked", "strength": 1.0}
    changed = link(call, "a", "b", "supports", strength=0.4, evidence="bench 3")
    assert changed == {**expected, "status": "updated", "strength": 0.4, "evidence": "bench 3"}
    edge = call("memory_drift_why", id="b")["chain"]["supports"][0]
    assert edge == {"hop": 1, "source": "a", "target": "b", "strength": 0.4, "evidence": "bench 3"}
    gone = call("memory_causal_unlink", source_id="a", target_id="b", relation="supports")
    assert gone == {**changed, "status": "unlinked"}
    assert call("memory_drift_why", id="b")["chain"] == {}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"source_id": "a", "target_id": "a", "relation": "caused"}, "invalid"),
        ({"source_id": "a", "target_id": "b", "relation": "likes"}, "invalid"),
        ({"source_id": "a", "target_id": "b", "relation": "caused", "strength": 1.1}, "invalid"),
        ({"source_id": "a", "target_id": "b", "relation": "caused", "strength": -0.1}, "invalid"),
        ({"source_id": "a", "target_id": "b", "relation": "caused", "evidence": "x" * 2001}, "invalid"),
        ({"source_id": "a", "target_id": "b", "relation": "caused", "force": True}, "invalid"),
        ({"source_id": "a", "target_id": "b"}, "invalid"),
        ({"source_id": "a", "target_id": "nothing", "relation": "caused"}, "not_found"),
        ({"source_id": "nothing", "target_id": "b", "relation": "caused"}, "not_found"),
    ],
)
def test_a_link_that_cannot_be_made_is_refused_with_its_code(
    call: Client, arguments: dict[str, Any], code: str
) -> None:
    assert call("memory_causal_link", **arguments) == code
    assert call("memory_causal_stats")["edges"] == 0


def test_unlink_names_the_edge(call: Client) -> None:
    link(call, "a", "b")
    for source, target, relation in (("b", "a", "caused"), ("a", "c", "caused"), ("a", "b", "enabled")):
        assert call("memory_causal_unlink", source_id=source, target_id=target, relation=relation) == "not_found"
    assert call("memory_causal_stats")["edges"] == 1


def test_a_document_is_linked_beside_itself(call: Client, project: Path) -> None:
    assert link(call, "docs/guide", "a")["path"] == str(project / ".scrimshaw/links.toml")
    assert (project / "docs/guide.md").read_text() == "Not ours.\n"
    assert call("memory_causal_stats")["by_relation"]["caused"] == 1


def test_stats_counts_what_the_index_holds(call: Client, engine: Engine, vault: Path) -> None:
    link(call, "a", "b", "supersedes")
    many = ", ".join(f"gone{number}" for number in range(DANGLING_SHOWN + 5))
    write_memory(vault, "d", "Text.\n", f"relations: {{caused: [{many}]}}")
    scan(engine)
    found = call("memory_causal_stats")
    assert (found["edges"], found["memories"], found["linked"], found["coverage"]) == (26, 5, 2, 0.4)
    assert found["by_relation"] == {
        "caused": 25, "enabled": 0, "supersedes": 1, "contradicts": 0, "derived_from": 0, "supports": 0,
    }  # fmt: skip
    assert (found["dangling_count"], len(found["dangling"])) == (25, DANGLING_SHOWN)
    assert found["dangling"][0] == {"source_id": "d", "target_id": "gone0", "relation": "caused"}


@pytest.fixture
def chain(call: Client) -> Client:
    """a caused b caused c; d supersedes c."""
    link(call, "a", "b")
    link(call, "b", "c")
    link(call, "d", "c", "supersedes", evidence="it lost writes")
    return call


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {"caused": ["b>c", "a>b"], "supersedes": ["d>c"]}),
        ({"max_depth": 1}, {"caused": ["b>c"], "supersedes": ["d>c"]}),
        ({"direction": "outgoing"}, {}),
        ({"direction": "incoming", "relations": ["caused"]}, {"caused": ["b>c", "a>b"]}),
        ({"relations": ["supersedes"]}, {"supersedes": ["d>c"]}),
    ],
)
def test_drift_why_walks_as_asked(chain: Client, arguments: dict[str, Any], expected: dict[str, list[str]]) -> None:
    found = chain("memory_drift_why", id="c", **arguments)
    edges = {name: [f"{edge['source']}>{edge['target']}" for edge in group] for name, group in found["chain"].items()}
    assert edges == expected
    assert [(edge["source"], edge["evidence"]) for edge in found["replaced_by"]] == [("d", "it lost writes")]


def test_drift_why_tells_what_a_memory_replaces(chain: Client) -> None:
    assert [edge["target"] for edge in chain("memory_drift_why", id="d")["replaces"]] == ["c"]


def test_details_can_be_left_out(chain: Client) -> None:
    told = chain("memory_drift_why", id="c")
    assert sorted(memory["id"] for memory in told["memories"]) == ["a", "b", "c", "d"]
    assert "memories" not in chain("memory_drift_why", id="c", include_memory_details=False)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"id": "nothing"}, "not_found"),
        ({"id": "a", "max_depth": 0}, "invalid"),
        ({"id": "a", "max_depth": 11}, "invalid"),
        ({"id": "a", "direction": "up"}, "invalid"),
        ({"id": "a", "relations": ["link"]}, "invalid"),
    ],
)
def test_drift_why_refuses(call: Client, arguments: dict[str, Any], code: str) -> None:
    assert call("memory_drift_why", **arguments) == code


def test_a_save_that_contradicts_says_what_it_might_supersede(call: Client) -> None:
    text = "the event log is kept in MySQL because the operations team knows how to back it up and restore it."
    call("memory_save", content=f"Today {text}", id="old")
    saved = call("memory_save", content=f"It was wrong that {text}", id="new")
    assert saved["proposals"][0].keys() == {"relation", "target", "why"}
    assert saved["proposals"][0]["target"] == "old"
    assert call("memory_causal_stats")["edges"] == 0
