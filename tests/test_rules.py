"""Rules about the code itself that no linter knows."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import scrimshaw

PACKAGE = Path(scrimshaw.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
NAMES = [file.relative_to(PACKAGE).as_posix() for file in FILES]

LONGEST_FILE, LONGEST_FUNCTION, LONGEST_CLASS, LARGEST_PACKAGE = 500, 40, 350, 22_500
NAMELESS = {"utils", "helpers", "common", "manager", "service", "util", "helper", "misc"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)


@cache
def tree(name: str) -> ast.Module:
    return ast.parse((PACKAGE / name).read_text(encoding="utf-8"))


def lines(name: str) -> int:
    return len((PACKAGE / name).read_text(encoding="utf-8").splitlines())


def body_length(node: ast.stmt) -> int:
    """Lines from the first after the docstring to the last; the head may be as long as its parameters."""
    assert isinstance(node, (*FUNCTIONS, ast.ClassDef))
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def too_long(name: str, kinds: type[ast.stmt] | tuple[type[ast.stmt], ...], limit: int) -> list[str]:
    nodes = [node for node in ast.walk(tree(name)) if isinstance(node, kinds)]
    return [f"{name}:{node.lineno}: {body_length(node)}" for node in nodes if body_length(node) > limit]


def calls(name: str, function: str) -> Iterator[int]:
    """Lines where something of this name is called, under whatever module it is reached."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Call):
            called = node.func
            found = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if found == function:
                yield node.lineno


def environment_reads(name: str) -> Iterator[int]:
    """Lines that reach the environment through `os`, or import what does."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"}:
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from (node.lineno for alias in node.names if alias.name in {"environ", "getenv"})


def test_there_is_code() -> None:
    assert len(FILES) > 30
    assert list(environment_reads("config.py"))
    assert list(calls("ingest/redact.py", "Redacted"))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ingest/redact.py"])
def test_only_the_gate_says_that_text_is_redacted(name: str) -> None:
    assert list(calls(name, "Redacted")) == []


@pytest.mark.parametrize("name", [name for name in NAMES if name != "config.py"])
def test_only_the_configuration_reads_the_environment(name: str) -> None:
    assert list(environment_reads(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_too_long(name: str) -> None:
    assert lines(name) <= LONGEST_FILE
    assert too_long(name, FUNCTIONS, LONGEST_FUNCTION) == []
    assert too_long(name, ast.ClassDef, LONGEST_CLASS) == []


def statements(name: str) -> int:
    """Logical lines of code: a call that the formatter spreads over six lines is one; docstrings are none."""
    text = (PACKAGE / name).read_text(encoding="utf-8")
    ends = sum(token.type == tokenize.NEWLINE for token in tokenize.generate_tokens(io.StringIO(text).readline))
    documented = [node for node in ast.walk(tree(name)) if isinstance(node, DOCUMENTED)]
    return ends - sum(ast.get_docstring(node, clean=False) is not None for node in documented)


def test_the_package_stays_small() -> None:
    assert sum(map(statements, NAMES)) <= LARGEST_PACKAGE


def test_every_module_has_a_name_that_says_something() -> None:
    assert [name for name in NAMES if not NAMELESS.isdisjoint(Path(name).with_suffix("").parts)] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_module_says_what_it_is_for(name: str) -> None:
    assert ast.get_docstring(tree(name))
