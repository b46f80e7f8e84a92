"""Real processes, really killed: what was acknowledged is there, and nothing torn is ever seen."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.storage.vault_files import VaultFiles

from scrimshaw.models import SourceFile, content_hash
from scrimshaw.storage.durable import TEMP_PREFIX
from scrimshaw.storage.scan import Source, scan

WRITER = """
import itertools, sys
from pathlib import Path
from scrimshaw.storage.transaction import lock
from tests.storage.vault_files import VaultFiles

root, tag = Path(sys.argv[1]), sys.argv[2]
vault = VaultFiles(root / "memories")
for number in itertools.count():
    for memory_id, size in ((f"{tag}/{number % 7}/note-{number}", 2_000), ("hot", 300_000)):
        text = f"{tag} {number}\\n" + "carved line\\n" * (size // 12) + "end\\n"
        with lock(root / "vault.lock", 30):
            digest = vault.write(memory_id, text, None)
        print(memory_id, digest, flush=True)
"""

DIER = """
import os, signal, sys
from pathlib import Path
from tests.storage.vault_files import VaultFiles

vault = VaultFiles(Path(sys.argv[1]))
target, name = (os, "fsync") if sys.argv[2] == "fsync" else (Path, "replace")
setattr(target, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
vault.write("note", "new", None)
"""

COUNTER = """
import sys
from pathlib import Path
from scrimshaw.storage.transaction import lock
from tests.storage.vault_files import VaultFiles
from scrimshaw.models import content_hash

root, rounds = Path(sys.argv[1]), int(sys.argv[2])
vault = VaultFiles(root / "memories")
for _ in range(rounds):
    with lock(root / "vault.lock", 30):
        old = vault.read("counter")
        vault.write("counter", str(int(old) + 1), content_hash(old))
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def kill_at_a_random_moment(root: Path, tag: str) -> dict[str, str]:
    """Ids the writer acknowledged before it was killed, with the hash of the last acknowledged bytes."""
    with start(WRITER, str(root), tag) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline() + writer.stdout.readline()
        watch(root / "memories" / "hot.md", random.uniform(0.0, 0.08))
        writer.kill()
        rest = writer.stdout.read()
    whole = [line.split() for line in (first + rest).splitlines(keepends=True) if line.endswith("\n")]
    return dict(pair for pair in whole if len(pair) == 2)


def watch(path: Path, seconds: float) -> None:
    """A reader beside the writer never meets a missing or half-written file."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert is_whole(path.read_text())


def is_whole(text: str) -> bool:
    head, _, body = text.partition("\n")
    return bool(head) and body.replace("carved line\n", "") == "end\n"


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    vault = VaultFiles(tmp_path / "memories")
    acknowledged: dict[str, str] = {}
    for number in range(5):
        acknowledged |= kill_at_a_random_moment(tmp_path, f"round{number}")
        files = list(scan(Source("v", vault.root)))
        assert all(isinstance(file, SourceFile) and is_whole(Path(file.path).read_text()) for file in files)
    # The file that is rewritten all the time may be one unacknowledged write ahead.
    del acknowledged["hot"]
    assert len(acknowledged) >= 5
    assert {name: content_hash(vault.read(name)) for name in acknowledged} == acknowledged


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_writer_killed_in_the_middle_leaves_the_old_file(tmp_path: Path, step: str) -> None:
    vault = VaultFiles(tmp_path)
    vault.write("note", "old", "")
    with start(DIER, str(tmp_path), step) as writer:
        assert writer.wait(timeout=120) == -signal.SIGKILL
    assert vault.read("note") == b"old"
    assert [Path(file.path).name for file in scan(Source("v", tmp_path))] == ["note.md"]
    leftovers = set(tmp_path.iterdir()) - {tmp_path / "note.md"}
    assert leftovers
    assert all(each.name.startswith(TEMP_PREFIX) for each in leftovers)


@pytest.mark.slow
def test_two_processes_under_the_lock_lose_no_update(tmp_path: Path) -> None:
    vault = VaultFiles(tmp_path / "memories")
    vault.root.mkdir()
    (vault.root / "counter.md").write_bytes(b"0")
    writers = [start(COUNTER, str(tmp_path), "40") for _ in range(2)]
    for writer in writers:
        writer.communicate(timeout=120)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert vault.read("counter") == b"80"
