"""What an agent client's model is told in the next request: after an end, a kill, a compaction, and when it asks twice.

Six lines and, where a client offers a list of tasks, a seventh: each said or done once by the way, and looked for in
what hooks and tools tell the model afterwards.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.agents import Agent
from tests.e2e.capture import Bench, Captured, prepared, set_up
from tests.e2e.model import FINAL_TEXT, LOOK, PROMPT, Model, Steps
from tests.e2e.recorded import all_text, fenced_text
from tests.e2e.workspace import Workspace

COMPLAINT, CURE = "kerning table is missing", "kerning.tbl"
DECISION = "proofs in memory instead of on disk"
OPEN_POINT = "covers are still set in the old face"
KILLED_TASK, BROKE_OFF = "Renumber the plates of the atlas", "broke off"
COMPACTED_DECISION = "atlas in linen instead of leather"

# What a client gives no way to, and why; a line that is shown all the same is reported, so that its entry goes.
KNOWN_GAPS: Mapping[tuple[str, str], str] = {
    ("cline", "compaction"): "its command line runs no hook when it compacts its context",
}

_TYPESET = (
    f"test -f {CURE} || {{ echo 'typeset: error: the {COMPLAINT}' >&2; sleep 1; exit 2; }}\n"
    "echo 'typeset: ok, 12 pages'\n"
)
_WAIT = "touch killed.mark\nsleep 20\n"
_WORK: Steps = [
    {"tool": "bash", "args": {"command": "sh typeset.sh"}},
    {
        "say": f"I decided to keep the {DECISION}, because a proof is small.",
        "tool": "bash",
        "args": {"command": f"echo 'AV -20' > {CURE}"},
    },
    {"tool": "bash", "args": {"command": "sh typeset.sh"}},
    {"text": f"The almanac prints. Still open: the {OPEN_POINT}. {FINAL_TEXT}"},
]
# The agent's own list, where a client offers a tool for it to a scripted run.
OPEN_TASK = "Index the plates by engraver"
_LISTS: Mapping[str, Steps] = {
    "claude": [{"tool": "TaskCreate", "args": {"subject": OPEN_TASK, "description": "All twelve."}}],
    "opencode": [
        {"tool": "todowrite", "args": {"todos": [{"content": OPEN_TASK, "status": "pending", "priority": "low"}]}}
    ],
    "gemini": [{"tool": "write_todos", "args": {"todos": [{"description": OPEN_TASK, "status": "pending"}]}}],
}
_QUESTION = "where do we keep the proofs"
_ASKED_TWICE: Steps = [
    {"tool": "bash", "args": {"command": "echo wait; sleep 8"}},  # some clients begin before the server is there
    {"tool": "memory_search", "args": {"query": _QUESTION}},
    {"tool": "memory_search", "args": {"query": _QUESTION}},
    {"text": FINAL_TEXT},
]
_KILLED: Steps = [
    {"tool": "bash", "args": {"command": "echo 12 > plates.txt"}},
    {"tool": "bash", "args": {"command": "sh $CWD/wait.sh"}},
]
_LONG: Steps = [
    {
        "say": f"I decided to bind the {COMPACTED_DECISION}, because leather swells.",
        "tool": "bash",
        "args": {"command": "echo linen > binding.txt"},
    },
    {"tool": "bash", "args": {"command": "cat binding.txt"}},
    {"tool": "bash", "args": {"command": "echo wait; sleep 2"}},
    {"tool": "bash", "args": {"command": "cat binding.txt"}},
    {"text": FINAL_TEXT},
]
_REST: Steps = [{"text": FINAL_TEXT}]


def continued(agent: Agent, npm: Path, program: Path, folder: Path) -> Captured:
    """Let a client work and come back, be killed and come back, and have its context compacted."""
    bench, workspace = Bench(npm, program, folder), _workspace(folder)
    set_up(agent, workspace)
    steps = [*_LISTS.get(agent.name, ()), *_WORK]
    worked = bench.run(agent, workspace, f"{PROMPT}. Make the almanac print.", steps)
    returned = bench.run(agent, workspace, f"{PROMPT}. Good morning.", _ASKED_TWICE)
    mark = workspace.project / "killed.mark"
    bench.run(agent, workspace, f"{PROMPT}. {KILLED_TASK}.", _KILLED, killed_at=mark)
    after_kill = bench.run(agent, workspace, f"{PROMPT}. Good morning again.", LOOK)
    compacted = _compact(agent, bench, workspace)
    at_start, at_return = _told_first(agent, returned.model), _told_first(agent, after_kill.model)
    told = {
        "decision in mid-turn": DECISION in at_start,
        "open point": OPEN_POINT in at_start,
        "failure with cure": any(COMPLAINT in line and CURE in line for line in at_start.splitlines()),
        "question asked twice": _answers_twice(returned.model),
        "killed session": KILLED_TASK in at_return and BROKE_OFF in at_return,
        "compaction": COMPACTED_DECISION in compacted,
    }
    if agent.name in _LISTS:
        told["unfinished task"] = OPEN_TASK in at_start
    problems = [*worked.problems, *returned.problems, *after_kill.problems, *_gaps(agent, told)]
    shown = ", ".join(line for line, is_told in told.items() if is_told) or "nothing"
    gaps = [f"; not {line}, as known: {why}" for (name, line), why in KNOWN_GAPS.items() if name == agent.name]
    return Captured(f"{shown}{''.join(gaps)}", problems)


def _gaps(agent: Agent, told: Mapping[str, bool]) -> Iterator[str]:
    for line, is_told in told.items():
        reason = KNOWN_GAPS.get((agent.name, line))
        if not is_told and not reason:
            yield f"the next request does not show: {line}"
        if is_told and reason:
            yield f"the next request shows what it was not expected to, take it out of KNOWN_GAPS: {line}"


def _compact(agent: Agent, bench: Bench, workspace: Workspace) -> str:
    """What hooks tell in the requests after a compaction; Qwen Code adds it one request later than the others."""
    if agent.compacts_at:
        prompt = f"{PROMPT} [[usage-once:{agent.compacts_at}]]. Bind the atlas."
        requests = _main_requests(bench.run(agent, workspace, prompt, _LONG, *agent.goes_on_with).model)
        full = next(n for n, request in enumerate(requests) if request["answer"]["usage"] == agent.compacts_at)
        following = requests[full + 1 :]
    else:
        bench.run(agent, workspace, f"{PROMPT}. Bind the atlas.", _LONG)
        bench.run(agent, workspace, "/compact", _REST, "--continue")
        following = _main_requests(bench.run(agent, workspace, f"{PROMPT}. Go on.", _REST, "--continue").model)
    return fenced_text("\n".join(map(all_text, following)))


def _main_requests(model: Model) -> list[Mapping[str, Any]]:
    """The requests that may call tools: not those for a title or a summary."""
    return [request for request in model.requests() if request["body"].get("tools")]


def _told_first(agent: Agent, model: Model) -> str:
    requests = _main_requests(model)[agent.told_after :]
    return fenced_text(all_text(requests[0])) if requests else ""


def _answers_twice(model: Model) -> bool:
    """Whether the answer comes with each of the two searches: the text is once more in the request that follows."""
    counts = [all_text(request).count(DECISION) for request in _main_requests(model)]
    return len(counts) > 3 and counts[-1] > counts[-2] > counts[-3]


def _workspace(folder: Path) -> Workspace:
    workspace = prepared(folder / "workspace")
    shutil.rmtree(workspace.vault / "components")  # 400 notes that none of this is about
    for name, text in {"typeset.sh": _TYPESET, "wait.sh": _WAIT}.items():
        (workspace.project / name).write_text(text, encoding="utf-8")
    return workspace
