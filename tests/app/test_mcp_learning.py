from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.config import load
from scrimshaw.engine import open_engine

BEFORE = {"knowledge_score": 20, "uncertainty_score": 80, "context_score": 30}
AFTER = {"knowledge_score": 70, "uncertainty_score": 30, "context_score": 50}


@pytest.fixture
def call(tmp_path: Path) -> Any:
    settings = load(tmp_path, home=tmp_path / "home", environment={"SCRIMSHAW_EMBEDDING_PROVIDER": "none"})
    with open_engine(settings) as engine:
        dispatcher = Dispatcher(choose("learning"), engine)
        yield lambda name, **arguments: dispatcher.dispatch(name, arguments).reply


def task(name: str, scores: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"folder": "specs/1", "task_id": name, **scores, **more}


def test_a_task_teaches_what_lies_between_its_records(call: Any) -> None:
    call("task_preflight", **task("t1", BEFORE, gaps=["locking"]))
    reply = call("task_postflight", **task("t1", AFTER))
    assert reply["learning_index"] == pytest.approx(0.40 * 50 + 0.35 * 50 + 0.25 * 20)


def test_a_task_is_recorded_after_others_that_seem_later(tmp_path: Path) -> None:
    settings = load(tmp_path, home=tmp_path / "home", environment={"SCRIMSHAW_EMBEDDING_PROVIDER": "none"})
    with open_engine(settings) as engine:
        later = replace(engine, clock=lambda: engine.clock() + 86_400)  # somebody sets the clock back afterwards
        for number in range(12):
            Dispatcher(choose("learning"), later).dispatch("task_preflight", task(f"later {number}", BEFORE))
        assert not Dispatcher(choose("learning"), engine).dispatch("task_preflight", task("now", BEFORE)).error


def test_a_postflight_without_preflight_is_refused(call: Any) -> None:
    assert call("task_postflight", **task("t1", AFTER))["error"]["code"] == "not_found"


def test_history_counts_filters_and_sums_up(call: Any) -> None:
    call("task_preflight", **task("open", BEFORE, session_id="s2"))
    call("task_preflight", **task("done", BEFORE, session_id="s1"))
    call("task_postflight", **task("done", AFTER, session_id="s1"))
    history = call("memory_get_learning_history", folder="specs/1")
    assert {each["task"] for each in history["tasks"]} == {"open", "done"}
    assert history["summary"] == {"tasks": 2, "mean_learning_index": 42.5}
    complete = call("memory_get_learning_history", folder="specs/1", only_complete=True, include_summary=False)
    assert [each["task"] for each in complete["tasks"]] == ["done"]
    assert not complete.get("summary")
    of_session = call("memory_get_learning_history", folder="specs/1", session_id="s2")
    assert [each["task"] for each in of_session["tasks"]] == ["open"]
    assert len(call("memory_get_learning_history", folder="specs/1", limit=1)["tasks"]) == 1
    assert call("memory_get_learning_history", folder="specs/2")["tasks"] == []


def test_secrets_in_gaps_are_taken_out(call: Any) -> None:
    secret = "ghp_" + "a1B2" * 9
    call("task_preflight", **task("t1", BEFORE, gaps=[f"what is {secret}"]))
    assert secret not in str(call("memory_get_learning_history", folder="specs/1"))


@pytest.mark.parametrize("score", [-1, 101, "high"])
def test_scores_are_0_to_100(call: Any, score: Any) -> None:
    refused = call("task_preflight", **task("t1", {**BEFORE, "knowledge_score": score}))
    assert refused["error"]["parameter"] == "knowledge_score"


def test_a_task_is_found_again_by_the_name_it_was_asked_with(call: Any) -> None:
    name = "Answer bob" + "@" + "corp-mail.org soon"
    call("task_preflight", **task(name, BEFORE) | {"folder": name})
    reply = call("task_postflight", **task(name, AFTER) | {"folder": name})
    assert reply["learning_index"] == pytest.approx(42.5)
    history = call("memory_get_learning_history", folder=name)
    assert len(history["tasks"]) == 1
    assert "bob" not in str(history)
