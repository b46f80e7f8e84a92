"""Archives that unpack to far more than a memory holds are refused with a sentence, in little memory."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import resource
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PROGRAM = (sys.executable, "-c", "from scrimshaw.app.cli.main import run; run()")
MEMORY = 900 * 1024 * 1024
MIB = b" " * 1024 * 1024


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A whole backup of a project with one memory, whose folder is the working folder."""
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    monkeypatch.chdir(tmp_path / "project")
    for arguments in (("init",), ("save", "The walrus rests.", "--yes"), ("backup", str(tmp_path / "whole.scrim"))):
        assert scrimshaw(*arguments).returncode == 0
    return tmp_path / "whole.scrim"


def scrimshaw(*arguments: str) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [*PROGRAM, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, preexec_fn=limit, env=environment
    )


def forge(whole: Path, parts: Iterable[tuple[str, Iterable[bytes], int]], notes: str = "") -> Path:
    """A copy of a backup with more or other parts, each with its number of rows; every checksum is right."""
    made = whole.with_name("bomb.scrim")
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        manifest = json.loads(old.read("manifest.json"))
        for name, chunks, rows in parts:
            digest, size = hashlib.sha256(), 0
            with new.open(name, "w", force_zip64=True) as stream:
                for chunk in chunks:
                    digest.update(chunk)
                    size += stream.write(chunk)
            manifest["parts"][name] = {"sha256": digest.hexdigest(), "size": size, "rows": rows}
        for name in (each for each in old.namelist() if each not in (*new.namelist(), "manifest.json")):
            new.writestr(name, old.read(name))
        manifest["metadata"]["why"] = notes
        data = json.dumps(manifest).encode()
        new.writestr("manifest.json", data)
        new.comment = hashlib.sha256(data).hexdigest().encode()
    return made


def long_row() -> Iterator[bytes]:
    yield b'{"memory_id": "'
    yield from itertools.repeat(MIB.replace(b" ", b"x"), 300)
    yield b'"}\n'


def test_files_that_unpack_to_gigabytes_are_refused(backup: Path) -> None:
    bomb = forge(backup, [(f"files/memories/{number}.md", [MIB] * 60, 0) for number in range(10)])
    assert bomb.stat().st_size < 10 * len(MIB)
    for arguments in (("restore", str(bomb)), ("restore", str(bomb), "--dry-run")):
        done = scrimshaw(*arguments)
        assert (done.returncode, "would unpack to more than" in done.stderr) == (1, True), done.stderr
    assert scrimshaw("restore", str(backup)).returncode == 0


def test_a_row_without_an_end_is_refused(backup: Path) -> None:
    done = scrimshaw("restore", str(forge(backup, [("tables/reviews.jsonl", long_row(), 1)])))
    assert (done.returncode, "a row that is far too large" in done.stderr) == (1, True), done.stderr


def test_a_manifest_of_gigabytes_is_refused(backup: Path) -> None:
    done = scrimshaw("restore", str(forge(backup, [], "x" * (70 * len(MIB)))))
    assert (done.returncode, "manifest is far too large" in done.stderr) == (1, True), done.stderr
