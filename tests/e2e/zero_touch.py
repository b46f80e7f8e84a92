"""What the next session knows of a session in which nobody saved anything: ten facts, each said or seen once.

One run in which the facts come up by the way, one that asks for each; then the same with capture switched off.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.agents import Agent
from tests.e2e.capture import Bench, Captured, prepared, set_up
from tests.e2e.model import FINAL_TEXT, PROMPT, Model, Steps
from tests.e2e.recorded import all_text
from tests.e2e.workspace import Workspace

LEAST_FOUND = 6
"""Of what used to be saved by hand, 60 % must come by itself."""
PLAN_LEFT_OUT = '[index]\nexclude = ["plan.md"]\n'  # what the session reads is no document of the project
CAPTURE_OFF = f'{PLAN_LEFT_OUT}[features]\nprofile = "baseline"\n'


@dataclass(frozen=True)
class Fact:
    """Words that only the first run holds, and the question that the second run asks without using them."""

    evidence: str
    question: str


FACTS = (
    Fact("every full moon", "when do we publish the gazette"),
    Fact("cobalt cluster", "which cluster does the gazette run on"),
    Fact("quarto format", "what paper format did the user ask for"),
    Fact("margins of 17 mm", "margins in the layout plan"),
    Fact("kerning table is missing", "error of the typesetting command"),
    Fact("Hyphenate long compounds", "commit about words that are too long"),
    Fact("Pin the ink profile", "commit about colours"),
    Fact("ligatures.toml", "file with the joined letters settings"),
    Fact("spooler queue overflow", "what does the press log complain about"),
    Fact("in memory instead of on disk", "where is the proof cache kept"),
)

_ASKED = (
    "The gazette goes out every full moon. We run it on the cobalt cluster, not on the amber one. "
    "Use the quarto format for the supplement."
)
# `press` is a repository of its own: clients tell their model the last commits and new files of their project.
_STEPS: Steps = [
    {"tool": "read", "args": {"path": "$CWD/plan.md"}},
    {"tool": "bash", "args": {"command": "echo 'typeset: error: the kerning table is missing' >&2; exit 2"}},
    {
        "tool": "bash",
        "args": {"command": "git -C press commit --allow-empty -m 'Hyphenate long compounds'"},
    },
    {
        "tool": "bash",
        "args": {"command": "git -C press commit --allow-empty -m 'Pin the ink profile'"},
    },
    {"tool": "bash", "args": {"command": "cat > press/ligatures.toml <<'END'\njoined = ['fi', 'fl']\nEND"}},
    {"tool": "bash", "args": {"command": "grep -n ERROR press.log"}},
    {"text": f"I decided to keep the proof cache in memory instead of on disk, because proofs are small. {FINAL_TEXT}"},
]
_QUESTIONS: Steps = [
    {"tool": "bash", "args": {"command": "echo wait; sleep 3"}},  # some clients begin before the server is there
    *({"tool": "memory_search", "args": {"query": fact.question}} for fact in FACTS),
    {"text": FINAL_TEXT},
]


def remembered(agent: Agent, npm: Path, program: Path, folder: Path) -> Captured:
    """Let a client work and come back, with capture and without."""
    told, problems = _facts_told(agent, Bench(npm, program, _made(folder / "on")), settings=PLAN_LEFT_OUT)
    untold, more = _facts_told(agent, Bench(npm, program, _made(folder / "off")), settings=CAPTURE_OFF)
    found, kept = [fact.evidence for fact in told], [fact.evidence for fact in untold]
    missing = [fact.evidence for fact in FACTS if fact not in told]
    problems = [*problems, *more]
    if len(found) < LEAST_FOUND:
        problems.append(f"only {len(found)} of {len(FACTS)} facts came back; not {missing}")
    if kept:
        problems.append(f"with capture off the next session still knew {kept}")
    lost = f", not {', '.join(missing)}" if missing else ""
    return Captured(
        f"{len(found)} of {len(FACTS)} facts in the next session, {len(kept)} without capture{lost}", problems
    )


def _facts_told(agent: Agent, bench: Bench, settings: str) -> tuple[list[Fact], list[str]]:
    """The facts that the model of the second run was told."""
    workspace = _workspace(bench.folder, settings)
    set_up(agent, workspace)
    first = bench.run(agent, workspace, f"{PROMPT}. {_ASKED}", _STEPS)
    second = bench.run(agent, workspace, f"{PROMPT}. What do you know?", _QUESTIONS)
    said = _said(second.model)
    return [fact for fact in FACTS if fact.evidence in said], [*first.problems, *second.problems]


def _workspace(folder: Path, settings: str) -> Workspace:
    workspace = prepared(folder / "workspace")
    (workspace.project / "plan.md").write_text("# Layout plan\n\nThe pages get margins of 17 mm on all sides.\n")
    (workspace.project / ".gitignore").write_text("press/\n")
    subprocess.run(["git", "init", "--quiet", str(workspace.project / "press")], check=True)
    shutil.copy(workspace.project / ".git/config", workspace.project / "press/.git/config")
    (workspace.project / "press.log").write_text("INFO start\nERROR spooler queue overflow\n")
    (workspace.memory_folder / "config.toml").write_text(settings, encoding="utf-8")
    return workspace


def _said(model: Model) -> str:
    return "\n".join(map(all_text, model.requests()))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
