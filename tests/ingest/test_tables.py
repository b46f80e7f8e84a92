from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import scrimshaw
from scrimshaw.ingest.tables import parse_table

OTHERS = {"health.toml", "kinds.toml"}  # nested, and read where a few milliseconds do not matter
TABLES = [path for path in sorted(Path(scrimshaw.__file__).parent.rglob("*.toml")) if path.name not in OTHERS]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_a_table_is_read_as_toml_reads_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert parse_table(text) == tomllib.loads(text) != {}
