"""Every command and tool beside files that are not what they should be: it ends soon, with a sentence and no bug."""

from __future__ import annotations

import faulthandler
import io
import json
import os
import shutil
import signal
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from scrimshaw.app.cli.main import main
from scrimshaw.app.hooks import record
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.errors import ScrimshawError

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")]

NOBODY = 65534
SECONDS = 240  # for the commands at one place; what waits for a pipe never ends
# Of this many commands one runs at a place of a kind, another one at the next: each meets every place, and every kind.
SHARE = 8
COMMANDS: Sequence[Sequence[str]] = (
    ("save", "A new note about tides and moons.", "--yes"),
    ("save", "--file", "../in.md", "--yes"),
    ("search", "walrus"),
    ("get", "a/walrus"),
    ("list",),
    ("edit", "crane", "--content", "New quays."),
    ("resume",),
    ("import", "../in.md"),
    ("import", "all"),
    ("export", "../out"),
    ("drafts", "list"),
    ("lint",),
    ("stats",),
    ("golden", "list"),
    ("rules", "list"),
    ("undo", "1", "--yes"),
    ("ledger", "show"),
    ("ledger", "verify"),
    ("checkpoint", "create", "two"),
    ("checkpoint", "list"),
    ("checkpoint", "restore", "one", "--yes"),
    ("backup", "../backup.scrim"),
    ("restore", "../kept.scrim"),
    ("purge", "--secret", "Zanzibar77", "--yes"),
    ("scan",),
    ("rebuild",),
    ("jobs", "list"),
    ("jobs", "run", "--once"),
    ("doctor",),
    ("capabilities",),
    ("init",),
    ("setup", "claude", "--dry-run"),
    ("delete", "crane", "--yes"),
    ("checkpoint", "delete", "one", "--yes"),
    ("restore", "--newest", "--yes"),
)
CALLS: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("memory_context", {"input": "walrus"}),
    ("memory_search", {"query": "walrus"}),
    ("memory_save", {"title": "T", "content": "A note on tides and cables."}),
    ("memory_get", {"id": "a/walrus"}),
    ("memory_list", {}),
    ("memory_update", {"id": "crane", "title": "New title"}),
    ("memory_causal_link", {"source_id": "crane", "target_id": "a/walrus", "relation": "supports"}),
    ("memory_health", {}),
    ("memory_stats", {}),
    ("memory_index_scan", {}),
    ("memory_ingest_start", {"paths": ["docs"]}),
    ("checkpoint_list", {}),
    ("checkpoint_create", {"name": "three"}),
    ("checkpoint_restore", {"name": "one"}),
    ("memory_delete", {"id": "crane", "confirm": True}),
    ("checkpoint_delete", {"name": "one", "confirm_name": "one"}),
)
OWN, USERS = "project/.scrimshaw", "user/.scrimshaw"
GIT = "project/.git/scrimshaw/main-" + blake2b(b".\n.", digest_size=4).hexdigest()
PLACES = (
    OWN, f"{OWN}/memories", f"{OWN}/memories/a", f"{OWN}/memories/crane.md", f"{OWN}/config.toml",
    f"{OWN}/links.toml", f"{OWN}/golden.toml", f"{OWN}/vault.lock", f"{OWN}/drafts", f"{OWN}/checkpoints",
    f"{GIT}/checkpoints", f"{GIT}/checkpoints/one.scrim", f"{GIT}/project",
    USERS, f"{USERS}/memories", f"{USERS}/config.toml", f"{USERS}/global.lock",
    "project/docs", "project/docs/guide.md", "project/.serena/memories", "project/.serena/project.yml",
    "project/AGENTS.md", "project/.mcp.json", "kept.scrim", "user/.claude",
)  # fmt: skip


def make_unreadable(place: Path) -> None:
    if place.exists():
        place.chmod(0)
        if not os.geteuid():
            os.chown(place, 0, 0)


def make_file(place: Path) -> None:
    clear(place).write_bytes(b"not what it should be\n")


KINDS: Mapping[str, Callable[[Path], object]] = {
    "unreadable": make_unreadable,
    "pipe": lambda place: os.mkfifo(clear(place), 0o666),
    "folder": lambda place: clear(place).mkdir(),
    "file": make_file,
    "endless": lambda place: clear(place).symlink_to("/dev/zero"),
    "dangling link": lambda place: clear(place).symlink_to("nowhere/at/all"),
    "circle of links": lambda place: clear(place).symlink_to(place.name),
    "name too long": lambda place: clear(place).symlink_to("x" * 255 + ".md"),
}


def clear(place: Path) -> Path:
    """The place with nothing at it."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    elif os.path.lexists(place):
        place.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def run(root: Path, arguments: Sequence[str]) -> tuple[int, str]:
    """Exit code of a command, and what it said."""
    os.chdir(root / "project")
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main(arguments)
    return code, out.getvalue() + err.getvalue()


def report(root: Path) -> None:
    payload = {"session_id": "S1", "cwd": str(root / "project"), "hook_event_name": "UserPromptSubmit", "prompt": "hi"}
    with suppress(ScrimshawError, OSError), redirect_stdout(io.StringIO()):  # the hook's own door takes any error
        record.handle_payload(["claude"], json.dumps(payload).encode())


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A project with memories, a checkpoint and a home; every command ran once, so that its modules are loaded."""
    # Not where pytest keeps its own, since only their owner may look into these.
    root, before, folder = Path(tempfile.mkdtemp(prefix="hostile-")), dict(os.environ), Path.cwd()
    root.chmod(0o755)
    kept = root / "kept"
    (kept / "project/docs").mkdir(parents=True)
    (kept / "project/.serena/memories").mkdir(parents=True)
    (kept / "project/docs/guide.md").write_text("# Guide\nThe harbour closes at dusk.\n")
    (kept / "user/.scrimshaw/memories").mkdir(parents=True)
    (kept / "user/.scrimshaw/memories/shared.md").write_text("Shared whale.\n")
    (kept / "in.md").write_text("# In\nA text to import.\n")
    enter(kept)
    subprocess.run(["git", "init", "-q", str(kept / "project")], check=True)
    golden = '[[query]]\ntext = "walrus harbour"\nexpect = ["a/walrus"]\n'
    for made in (
        ("init",),
        ("save", "The walrus rests on the harbour wall.", "--id", "a/walrus", "--yes"),
        ("save", "Another note on cranes and quays.", "--id", "crane", "--yes"),
        ("checkpoint", "create", "one"),
        ("backup", "../kept.scrim"),
    ):
        assert run(kept, made)[0] == 0
    (kept / OWN / "golden.toml").write_text(golden)
    warm = copy(kept, root / "warm")
    for arguments in COMMANDS:
        run(warm, arguments)
    report(warm)
    yield kept
    os.chdir(folder)  # else what this worker runs next has no working folder
    shutil.rmtree(root)
    os.environ.clear()
    os.environ.update(before)


def enter(root: Path) -> None:
    home = str(root / "user")
    os.environ.update(HOME=home, SCRIMSHAW_HOME=f"{home}/.scrimshaw", SCRIMSHAW_EMBEDDING_PROVIDER="none")


def copy(template: Path, root: Path) -> Path:
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(template, root, symlinks=True)
    enter(root)
    return root


Work = Callable[[Path, Callable[[], None], int], Iterator[str]]


def examine_places(template: Path, places: Sequence[str], kind: str, work: Work) -> dict[str, str]:
    """By place what a process has to complain of that runs its share of commands there."""
    first = [*KINDS].index(kind)
    found = {
        place: examine(template, place, kind, work, (first + number) % SHARE) for number, place in enumerate(places)
    }
    return {place: said for place, said in found.items() if said}


def examine(template: Path, place: str, kind: str, work: Work, first: int) -> str:
    """What a process that is no superuser has to complain of, with a place made hostile."""
    root = copy(template, template.parent / "case")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover - another process
        try:
            with os.fdopen(writer, "w") as out:
                faulthandler.dump_traceback_later(SECONDS - 5, file=out)
                signal.alarm(SECONDS)
                try:
                    if not os.geteuid():
                        give_away(root)
                        os.seteuid(NOBODY)
                    out.writelines(work(root, lambda: spoil(root / place, kind), first))
                except BaseException:  # noqa: BLE001 - the test's process reports it
                    traceback.print_exc(file=out)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        found = stream.read()
    _, status = os.waitpid(child, 0)
    return found + ("hung\n" if os.WIFSIGNALED(status) else "")


def give_away(root: Path) -> None:
    for folder, inside, names in os.walk(root):
        for name in (".", *inside, *names):
            os.chown(Path(folder, name), NOBODY, NOBODY, follow_symlinks=False)


def spoil(place: Path, kind: str) -> None:
    is_root = not os.getuid()
    if is_root:
        os.seteuid(0)
    KINDS[kind](place)
    if is_root:
        if kind != "unreadable":
            os.chown(place, NOBODY, NOBODY, follow_symlinks=False)
        os.seteuid(NOBODY)


def run_commands(root: Path, spoil: Callable[[], None], first: int) -> Iterator[str]:
    spoil()
    for arguments in COMMANDS[first::SHARE]:
        try:
            code, said = run(root, arguments)
        except BaseException:  # noqa: BLE001 - what a user would see
            code, said = 98, traceback.format_exc()
        if code not in range(4) or "Traceback (most recent" in said or "[Errno" in said:
            yield f"{' '.join(arguments)}: {code} {said[-1500:]}\n"
    report(root)


def call_tools(root: Path, spoil: Callable[[], None], first: int) -> Iterator[str]:
    with open_engine(load(root / "project")) as engine:
        dispatcher = Dispatcher(choose("all"), engine)
        spoil()
        with redirect_stderr(io.StringIO()) as err:
            for name, arguments in CALLS[first::SHARE]:
                finished = dispatcher.dispatch(name, arguments)
                if finished.error == "internal" or "[Errno" in finished.text:
                    yield f"{name}: {finished.text} {err.getvalue()[-1500:]}\n"


@pytest.mark.parametrize("kind", KINDS)
def test_no_command_shows_a_bug_beside_a_hostile_file(template: Path, kind: str) -> None:
    assert examine_places(template, PLACES, kind, run_commands) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_no_tool_calls_a_hostile_file_a_bug(template: Path, kind: str) -> None:
    assert examine_places(template, PLACES[:16], kind, call_tools) == {}
