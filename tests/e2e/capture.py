"""What an agent client leaves in the memory of a project by working there, and what its next run is told of it.

One run in a project that knows nothing of Scrimshaw, then two in its like that `scrimshaw setup` has set up.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e import clients
from tests.e2e.agents import Agent
from tests.e2e.leaks import Leaks
from tests.e2e.model import FINAL_TEXT, LOOK, PROMPT, SAVED_TEXT, SAVED_TITLE, Model, Steps, running_model
from tests.e2e.processes import end_left_behind
from tests.e2e.recorded import COMPLAINT, PLAN, SUBJECT, read_working_memory, recall_problems
from tests.e2e.watch import Sightings, watched
from tests.e2e.workspace import SCRIMSHAW, SERVER_ENVIRONMENT, Workspace, make_workspace

# Where the scenario has a secret, each its own; put together here, so that no scanner takes them for real ones.
PLACES = ("file", "stdout", "prompt", "save")
SECRETS = {place: "ghp_" + f"{place[:2]}7K{place[-2:]}9x" * 4 + "e5F6" for place in PLACES}

DEPLOY = "deploy.sh"
# The secret is parted, so that only what is printed holds it. Qwen Code may lose what a command prints right before its
# end: its own transcript says `(empty)`, with and without Scrimshaw.
_DEPLOYING = (
    f"echo 'the token is {SECRETS['stdout'][:9]}''{SECRETS['stdout'][9:]}'; echo '{COMPLAINT}' >&2; sleep 1; exit 3\n"
)
_SAVED = f"{SAVED_TEXT}\n\nThe token was {SECRETS['save']}.\n"
_STEPS: Steps = [
    {"tool": "read", "args": {"path": f"$CWD/{PLAN}"}},
    {"tool": "bash", "args": {"command": f"echo signed >> notes.txt && git commit -a -m '{SUBJECT}'"}},
    {"tool": "bash", "args": {"command": "echo wait; sleep 8"}},  # some clients begin before the server is there
    {"tool": "memory_save", "args": {"title": SAVED_TITLE, "content": _SAVED}},
    {"tool": "bash", "args": {"command": f"sh {DEPLOY}"}},
    {"text": FINAL_TEXT},
]
_PROMPT = f"{PROMPT}. Sign the tags and deploy; the token is {SECRETS['prompt']}."
_IDENTITY = "[user]\n\tname = e2e\n\temail = e2e@example.invalid\n"


@dataclass(frozen=True)
class Captured:
    """What is to be said of a client in one line, and what was wrong."""

    line: str
    problems: Sequence[str]


@dataclass(frozen=True)
class Ran:
    """A run of a client: what the model was sent, the files that were seen, and what was wrong."""

    model: Model
    seen: Sightings
    problems: Sequence[str]


@dataclass(frozen=True)
class Bench:
    """Where a client works: its npm folder, the scripted model's program, and a folder for the runs."""

    npm: Path
    program: Path
    folder: Path

    def run(
        self,
        agent: Agent,
        workspace: Workspace,
        prompt: str,
        steps: Steps,
        *flags: str,
        killed_at: Path | None = None,
    ) -> Ran:
        """Let a client work to its end, or until it is killed, with an eye on its files."""
        folder = self.folder / f"run-{len(list(self.folder.glob('run-*')))}"
        folder.mkdir()
        with (
            running_model(self.program, folder, workspace.project, steps) as model,
            watched(workspace.root, list(SECRETS.values())) as sightings,
        ):
            finished = clients.run(agent.client(prompt, *flags), self.npm, workspace, model.url, killed_at=killed_at)
            left = [f"it left a process behind: {command}" for command in end_left_behind(workspace.root)]
        (folder / "output.txt").write_text(finished.output, encoding="utf-8")
        return Ran(model, sightings, [] if killed_at else [*_run_problems(finished), *left])


def captured(agent: Agent, npm: Path, program: Path, folder: Path) -> Captured:
    """Let a client work without Scrimshaw, with it, and once more."""
    bench = Bench(npm, program, folder)
    control = bench.run(agent, _workspace(folder), _PROMPT, _STEPS)
    (folder / "workspace").rename(folder / "control")  # the others run at the same place: clients name files after it
    workspace = _workspace(folder)
    touched = set_up(agent, workspace)
    first = bench.run(agent, workspace, _PROMPT, _STEPS)
    memory = read_working_memory(workspace)
    second = bench.run(agent, workspace, f"{PROMPT}. Where were we?", LOOK)
    leaks = Leaks(control.seen, [first.seen, second.seen], touched)
    problems = [
        *first.problems,
        *second.problems,
        *memory.problems(agent, first.model),
        *recall_problems(memory, second.model, SECRETS.values()),
        *leaks.problems(SECRETS),
        *_file_problems(workspace),
    ]
    counts = f"{len(memory.items)} items held, {len(leaks.ours)} files searched for {len(SECRETS)} secrets"
    return Captured(counts, problems)


def _workspace(folder: Path) -> Workspace:
    """A workspace with a plan that holds a secret, and a program that prints another and fails."""
    workspace = prepared(folder / "workspace")
    (workspace.project / DEPLOY).write_text(_DEPLOYING)
    (workspace.project / PLAN).write_text(f"# Plan\n\nDeploy with {SECRETS['file']} on Friday.\n")
    return workspace


def prepared(root: Path) -> Workspace:
    """A workspace that anyone can commit in."""
    workspace = make_workspace(root)
    with (workspace.project / ".git" / "config").open("a", encoding="utf-8") as config:
        config.write(_IDENTITY)  # not in the home, where Gemini's shell does not look
    return workspace


def set_up(agent: Agent, workspace: Workspace, *flags: str) -> list[str]:
    """Run `scrimshaw setup`; the files it changed, by their path below the workspace."""
    command = [*SCRIMSHAW, "setup", agent.name, "--yes", "--json", *flags]
    environment = {**os.environ, **SERVER_ENVIRONMENT, "HOME": str(workspace.home)}
    result = subprocess.run(command, cwd=workspace.project, env=environment, stdout=subprocess.PIPE, check=True)
    files = json.loads(result.stdout)["files"]
    return [Path(file["path"]).relative_to(workspace.root).as_posix() for file in files]


def _run_problems(finished: clients.Finished) -> Iterator[str]:
    if finished.exit_code != 0:
        yield f"a run ended with exit code {finished.exit_code}"
    if FINAL_TEXT not in finished.output:
        yield "a run did not reach the last step of the script"


def _file_problems(workspace: Workspace) -> Iterator[str]:
    """A hook that failed says so in a log, where warnings of redaction stand too; what the model saved is a file."""
    log = workspace.memory_folder / "hook.log"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    failed = [line for line in lines if " WARN " not in line]
    if failed:
        yield f"a hook failed: {failed}"
    if not lines:
        yield "no redaction was logged"
    if not any(SAVED_TEXT in path.read_text(encoding="utf-8") for path in workspace.vault.rglob("*.md")):
        yield "nothing was saved"
