"""Rules about the code itself that no linter knows; each test lists what breaks its rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import scrimshaw
import scrimshaw_lab

SOURCE = Path(scrimshaw.__file__).parents[1]
PACKAGES = (Path(scrimshaw.__file__).parent, Path(scrimshaw_lab.__file__).parent)
TEXTS = {
    file.relative_to(SOURCE).as_posix(): file.read_text(encoding="utf-8")
    for package in PACKAGES
    for file in sorted(package.rglob("*.py"))
}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}

LONGEST_FILE, LONGEST_FUNCTION, LONGEST_CLASS = 600, 60, 350
NAMELESS = {"utils", "helpers", "common", "manager", "service", "util", "helper", "misc"}


def body_length(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """Lines from the first after the docstring to the last; the head may be as long as its parameters."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def calls(function: str) -> Iterator[str]:
    """Files and lines where something of this name is called, under whatever module it is reached."""
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = node.func
                if function == (called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")):
                    yield f"{name}:{node.lineno}"


def environment_reads() -> Iterator[str]:
    """Files and lines that reach the environment through `os`, or import what does."""
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"}:
                yield f"{name}:{node.lineno}"
            if isinstance(node, ast.ImportFrom) and node.module == "os":
                yield from (f"{name}:{node.lineno}" for each in node.names if each.name in {"environ", "getenv"})


def outside(places: Iterator[str], home: str) -> list[str]:
    """The places that are not in the file `home`, which must have at least one."""
    found = list(places)
    assert any(place.startswith(f"{home}:") for place in found)
    return [place for place in found if not place.startswith(f"{home}:")]


def test_only_the_gate_says_that_text_is_redacted() -> None:
    assert outside(calls("Redacted"), "scrimshaw/ingest/redact.py") == []


def test_only_the_configuration_reads_the_environment() -> None:
    assert outside(environment_reads(), "scrimshaw/config.py") == []


def test_no_file_is_too_long() -> None:
    lengths = {name: len(text.splitlines()) for name, text in TEXTS.items()}
    assert [f"{name}: {length}" for name, length in lengths.items() if length > LONGEST_FILE] == []


def test_no_function_and_no_class_is_too_long() -> None:
    long = []
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                limit = LONGEST_CLASS if isinstance(node, ast.ClassDef) else LONGEST_FUNCTION
                if body_length(node) > limit:
                    long.append(f"{name}:{node.lineno}: {body_length(node)}")
    assert long == []


def test_every_module_has_a_name_that_says_something() -> None:
    assert [name for name in TEXTS if not NAMELESS.isdisjoint(Path(name).with_suffix("").parts)] == []


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, tree in TREES.items() if not ast.get_docstring(tree)] == []
