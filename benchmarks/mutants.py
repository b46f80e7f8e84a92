"""What the last `mutmut run` found: a table by file, and the survivors that docs/mutants.md does not judge.

    python -m benchmarks.mutants

A mutant counts as killed when a test fails or never ends. Exit code 1 where a survivor is not judged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

CHANGED = Path("mutants/src")
JUDGED = Path("docs/mutants.md")
SURVIVED = (0, 5, 33)  # as mutmut says it: the tests passed, or no test reaches the function


def main() -> None:
    """Print the table and what is left to judge."""
    found = {path: json.loads(path.read_bytes())["exit_code_by_key"] for path in sorted(CHANGED.rglob("*.py.meta"))}
    print("| file | mutants | killed | survived |\n| --- | --- | --- | --- |")
    for path, codes in found.items():
        print(row(path.relative_to(CHANGED).as_posix().removesuffix(".meta"), codes))
    judged = JUDGED.read_text(encoding="utf-8")
    left = [name for codes in found.values() for name in survivors(codes) if f"`{name}`" not in judged]
    for name in left:
        print(f"Nobody has judged {name}: see `mutmut show scrimshaw.{name}`, then write a test or a line in {JUDGED}.")
    sys.exit(bool(left))


def row(name: str, codes: Mapping[str, int | None]) -> str:
    """A line of the table; mutants that were not tested are left out."""
    tested = {mutant: code for mutant, code in codes.items() if code is not None}
    survived = len(survivors(tested))
    return f"| `{name}` | {len(tested)} | {len(tested) - survived} | {survived} |"


def survivors(codes: Mapping[str, int | None]) -> list[str]:
    """The names of the mutants that no test told from the original."""
    return [mutant.removeprefix("scrimshaw.") for mutant, code in codes.items() if code in SURVIVED]


if __name__ == "__main__":
    main()
