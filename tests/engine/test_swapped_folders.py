"""A folder of the vault that somebody swaps for a link, over and over, while memories are written."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from scrimshaw.engine import Engine, write
from scrimshaw.errors import ScrimshawError

SWAP = """
import ctypes, sys
system, (one, other) = ctypes.CDLL(None), map(str.encode, sys.argv[1:])
while True:
    system.renameat2(-100, one, -100, other, 2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not swap two names at once")
def test_no_write_leaves_a_vault_whose_folder_is_swapped_for_a_link(
    engine: Engine, vault: Path, tmp_path: Path
) -> None:
    outside, folder, link = tmp_path / "outside", vault / "sub", vault / ".link"
    outside.mkdir()
    folder.mkdir()
    link.symlink_to(outside)
    swapper, written = subprocess.Popen([sys.executable, "-c", SWAP, str(folder), str(link)]), 0
    try:
        for number in range(5_000):  # how many meet the folder and not the link depends on the machine
            if number >= 100 and written > 3:
                break
            with suppress(ScrimshawError, OSError):
                write.save(engine, write.NewText(content=f"Walrus {number} came ashore.", id=f"sub/n{number}"))
                written += 1
    finally:
        swapper.kill()
        swapper.wait()
    assert written > 3
    assert list(outside.iterdir()) == []
