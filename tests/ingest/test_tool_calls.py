"""What a call does, whatever its tool is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scrimshaw.ingest.tool_calls import ToolCall, describe_call

LISTS: tuple[tuple[Mapping[str, Any], str], ...] = (
    ({"todos": [{"content": "Write it", "status": "pending", "activeForm": "Writing it"}]}, "[pending] Write it"),
    ({"plan": [{"step": "Read", "status": "completed"}, {"step": "Act"}]}, "[completed] Read\n[pending] Act"),
    ({"todos": [{"description": "Two\nlines", "status": "in_progress"}]}, "[in_progress] Two lines"),
)


@pytest.mark.parametrize(("arguments", "tasks"), LISTS)
def test_a_task_list_is_what_it_says(arguments: Mapping[str, Any], tasks: str) -> None:
    activity = describe_call(ToolCall(tool="TodoWrite", arguments=arguments, output="Todos have been modified."))
    assert (activity.subject, activity.output) == ("task list", tasks)


@pytest.mark.parametrize("arguments", [{"todos": "all"}, {"todos": [1, {"status": "pending"}]}, {"plan": []}])
def test_what_is_no_list_stays_as_it_is(arguments: Mapping[str, Any]) -> None:
    assert describe_call(ToolCall(tool="TodoWrite", arguments=arguments, output="fine")).output == "fine"


def test_the_colours_of_an_output_are_left_out() -> None:
    call = ToolCall(tool="Bash", arguments={"command": "npx vitest"}, output="\x1b[31m FAIL \x1b[39m till.test.ts")
    assert describe_call(call).output == " FAIL  till.test.ts"
