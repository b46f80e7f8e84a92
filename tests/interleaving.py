"""Serena's tools, ours and a person's hand on one folder of memories, in any order; and what references mean then."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.engine.read import get
from scrimshaw.engine.write import NewText, delete, save, update

SETTINGS = "language_servers: []\nread_only_memory_patterns: ['rules/.*']\n"
LAW = "rules/law"  # a memory that neither Serena's tools nor ours may write
Act = tuple[str, int, int]  # what is done, to which memory, and which it names; both by number, as far as there are any


class SerenaTools(Protocol):
    """The tools of Serena's that change memories."""

    def write(self, name: str, content: str) -> None: ...
    def rename(self, old: str, new: str) -> None: ...
    def delete(self, name: str) -> None: ...


class ToolsByTheRules:
    """What Serena's documentation says of its tools, for machines without Serena."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, content: str) -> None:
        path = self._folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def rename(self, old: str, new: str) -> None:
        move_file(self._folder, old, new)
        for path in sorted(self._folder.rglob("*.md")):
            if path.parent.name != "rules":
                text = path.read_text()
                renamed = re.sub(rf"mem:{old}(?![\w/-])", f"mem:{new}", text)
                if renamed != text:
                    path.write_text(renamed)

    def delete(self, name: str) -> None:
        (self._folder / f"{name}.md").unlink()


def move_file(folder: Path, old: str, new: str) -> None:
    """Rename a memory's file as a person does, who rewrites no reference."""
    (folder / new).parent.mkdir(parents=True, exist_ok=True)
    (folder / f"{old}.md").rename(folder / f"{new}.md")


class Interleaving:
    """Changes of the memories in a folder, with the memory that each reference was written for."""

    def __init__(self, engine: Engine, folder: Path, theirs: SerenaTools, prefix: str = "n") -> None:
        self._engine, self._folder, self._theirs, self._prefix = engine, folder, theirs, prefix
        self._names: dict[int, str] = {}  # of the memories there are, by number
        self._named: dict[int, int] = {}  # the memory that each of them names
        self._count = 0
        self._names[0] = first = f"{prefix}-first"
        theirs.write(first, self._compose(-1))
        self._law = f"Mind `mem:{first}`.\n"
        (folder / LAW).parent.mkdir(exist_ok=True)
        (folder / f"{LAW}.md").write_text(self._law)
        scan(engine)

    def carry_out(self, acts: Sequence[Act]) -> None:
        """Do what the acts say, and check the references at each scan and at the end."""
        does: dict[str, Callable[[int, int], None]] = {
            "their write": lambda number, target: self._add(target, self._theirs.write),
            "our save": lambda number, target: self._add(target, self._save),
            "their rename": lambda number, target: self._rename(number, self._theirs.rename),
            "their delete": lambda number, target: self._remove(number, self._theirs.delete),
            "our delete": lambda number, target: self._remove(number, lambda name: delete(self._scanned(), [name])),
            "our change": lambda number, target: self._change(number),
            "our late change": self._change_late,
            "a move": lambda number, target: self._rename(number, self._move),
            "a scan": lambda number, target: self.check(),
        }
        for act, number, target in acts:
            there = sorted(self._names)
            if there:
                does[act](there[number % len(there)], there[target % len(there)])
        self.check()

    def check(self) -> None:
        """Every reference means the memory that it was written for, under the name that this has now, or nothing."""
        scan(self._engine)
        meanings = {edge.source: meant for edge, meant in self._engine.index.edges()}
        expected = {self._names[number]: self._names.get(named, "") for number, named in self._named.items()}
        assert meanings == {**expected, LAW: self._names.get(0, "")}
        assert (self._folder / f"{LAW}.md").read_text() == self._law

    def _scanned(self) -> Engine:
        scan(self._engine)
        return self._engine

    def _compose(self, target: int) -> str:
        words = " ".join(f"{self._prefix}{self._count}of{place}" for place in range(30))
        reference = f"\nSee `mem:{self._names[target]}`.\n" if target >= 0 else ""
        return f"# Note {self._count}\n\n{words}\n{reference}"

    def _new_name(self) -> str:
        self._count += 1
        return f"{'topic/' * (self._count % 3 == 0)}{self._prefix}-{self._count}"

    def _add(self, target: int, write: Callable[[str, str], object]) -> None:
        name = self._new_name()
        write(name, self._compose(target))
        self._names[self._count], self._named[self._count] = name, target

    def _save(self, name: str, content: str) -> None:
        assert save(self._scanned(), NewText(content=content, id=name, vault="serena"), force=True).status == "saved"

    def _rename(self, number: int, rename: Callable[[str, str], object]) -> None:
        name = self._new_name()
        rename(self._names[number], name)
        self._names[number] = name

    def _move(self, old: str, new: str) -> None:
        self._scanned()  # nothing is known of a file that comes and moves between two scans
        move_file(self._folder, old, new)

    def _remove(self, number: int, remove: Callable[[str], object]) -> None:
        remove(self._names.pop(number))
        self._named.pop(number, None)

    def _change(self, number: int) -> None:
        name = self._names[number]
        text = get(self._scanned(), name).body
        update(self._engine, name, {}, content=f"{text}More {self._count}.\n")

    def _change_late(self, number: int, target: int) -> None:
        """An agent read the text before Serena renamed what it names, and writes it back with the older name."""
        text = get(self._scanned(), self._names[number]).body
        self._rename(
            self._named.get(number, target) if self._named.get(number, target) in self._names else target,
            self._theirs.rename,
        )
        update(self._scanned(), self._names[number], {}, content=f"{text}More {self._count}.\n")


ACTS = (
    "their write", "our save", "their rename", "their delete", "our delete", "our change", "our late change", "a move",
    "a scan",
)  # fmt: skip
