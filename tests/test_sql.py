"""SQL in `storage` is put together of constants and marks alone (NFR-S01); values go in as arguments.

Ruff's S608 refuses every composed statement, also one of constants: it has about fifty findings here, all of constant
column lists and marks. This test reads the composed statements and lets in only what cannot come from outside.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import scrimshaw.storage

FOLDER = Path(scrimshaw.storage.__file__).parent
MAKERS = {"marks"}
# Local names that hold text, put together of constants in the same function or by `sql.conditions`; each was read.
# What purges, dumps or salvages every table takes tables, columns and triggers from the schema of the database itself.
WRITTEN_HERE = {
    "sql.py": {"table", "values", "rest", "kind"},
    "maintenance.py": {"self", "table", "values", "condition", "where"},
    "sqlite/database.py": {"name"},
    "databases.py": {"name"},
    "index.py": {"where", "starts", "joined", "select", "values", "table", "number", "step", "related"},
    "sqlite/index.py": {"where", "table"},
    "journal.py": {"where", "find", "order"},
    "sessions.py": {"which", "columns", "same"},
    "postgres/database.py": {"self"},
    "postgres/index.py": {"width", "where", "table", "hits", "size", "place", "same", "parts", "having", "select"},
    "postgres/maintenance.py": {"table", "setting", "column"},
    "sqlite/maintenance.py": {"setting", "names", "table", "where", "name"},
}
_SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|WHERE|JOIN|VALUES|ATTACH|VACUUM)\b")
_CONSTANT = re.compile(r"_?[A-Z][A-Z_]*|[A-Z][A-Za-z]+")


def test_statements_are_put_together_of_constants() -> None:
    names = {path.relative_to(FOLDER).as_posix(): path for path in sorted(FOLDER.rglob("*.py"))}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in names.items()}
    foreign = {name: list(_foreign(tree, WRITTEN_HERE.get(name, set()))) for name, tree in trees.items()}
    assert {name: found for name, found in foreign.items() if found} == {}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('f"SELECT {_COLUMNS} FROM t WHERE a IN ({marks(ids)})"', []),
        ('f"SELECT a FROM t ORDER BY {SORTS[sort]}"', []),
        ("f\"SELECT {', '.join(_COLUMNS)} FROM t\"", []),
        ("f\"SELECT {', '.join(names)} FROM t\"", ["', '.join(names)"]),
        ('f"SELECT a FROM t WHERE b = {value}"', ["value"]),
        ('f"DELETE FROM {self.table}"', ["self.table"]),
        ('f"DELETE FROM {name(x)}"', ["name(x)"]),
        ('"SELECT a FROM t WHERE b = " + value', ["value"]),
        ('"SELECT a FROM t WHERE b = %s" % value', ["value"]),
        ('"SELECT a FROM t WHERE {}".format(value)', ["value"]),
        ("_TEXT.format(value)", ["value"]),
        ('f"no statement: {value}"', []),
    ],
)
def test_what_comes_from_outside_is_seen(code: str, found: list[str]) -> None:
    assert list(_foreign(ast.parse(code), set())) == found


def test_every_name_allowed_in_a_statement_is_used() -> None:
    for name, allowed in WRITTEN_HERE.items():
        tree = ast.parse((FOLDER / name).read_text(encoding="utf-8"))
        used = {part for each in _foreign(tree, set()) for part in re.findall(r"\w+", each)}
        assert allowed <= used, name


def _foreign(tree: ast.AST, allowed: set[str]) -> Iterator[str]:
    """What goes into a statement and is neither a constant, nor marks, nor an allowed name."""
    for node in ast.walk(tree):
        for part in _parts(node):
            if not _is_known(part, allowed):
                yield ast.unparse(part)


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    """The changing parts of a statement that is put together by an f-string, by +, by % or by format."""
    if isinstance(node, ast.JoinedStr) and _SQL.search("".join(_texts(node))):
        yield from (part.value for part in node.values if isinstance(part, ast.FormattedValue))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        sides = (node.left, node.right)
        if any(isinstance(side, ast.Constant) and _SQL.search(str(side.value)) for side in sides):
            yield from (side for side in sides if not isinstance(side, ast.Constant))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        yield from node.args


def _texts(node: ast.JoinedStr) -> Iterator[str]:
    return (str(part.value) for part in node.values if isinstance(part, ast.Constant))


def _is_known(part: ast.expr, allowed: set[str]) -> bool:
    match part:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in allowed or bool(_CONSTANT.fullmatch(name))
        case ast.Attribute(attr=name) if _CONSTANT.fullmatch(name):  # of a class
            return True
        case ast.Starred(value=value) | ast.Attribute(value=value) | ast.Subscript(value=value):
            return _is_known(value, allowed)
        case ast.Call(func=ast.Name(id=name)):
            return name in MAKERS
        case ast.Call(func=ast.Attribute(attr="join", value=ast.Constant()), args=[ast.Call(args=[_, listed])]):
            return _is_known(listed, allowed)
        case ast.Call(func=ast.Attribute(attr="join", value=ast.Constant()), args=[listed]):
            return _is_known(listed, allowed)
        case _:
            return False
