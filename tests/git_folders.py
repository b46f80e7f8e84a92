"""Git in the folders of tests, and a memory that two sides of a merge change."""

from __future__ import annotations

import subprocess
from pathlib import Path

IDENTITY = ("-c", "user.name=Cy", "-c", "user.email=cy@example.org")


def run_git(folder: Path, *arguments: str) -> str:
    """What git prints in a folder, without space around it; its failure fails the test."""
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def write_gate(sentence: str, more: str = "") -> str:
    """A memory with front matter and three paragraphs, the first of which a test chooses."""
    head = f"---\ntitle: Gate\n{more}topics: [tide]\nupdated: 2026-01-01\n---\n"
    return f"{head}{sentence}\n\nIt was built in 1840.\n\nThe keeper lives beside it.\n"
