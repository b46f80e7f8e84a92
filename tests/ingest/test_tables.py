from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import scrimshaw
from scrimshaw.ingest.tables import parse_table

ROOMS = ("ingest", "search", "session")
TABLES = [path for room in ROOMS for path in sorted((Path(scrimshaw.__file__).parent / room).glob("*.toml"))]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_a_table_is_read_as_toml_reads_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert parse_table(text) == tomllib.loads(text) != {}
