"""An index whose bytes were changed behind its back says so, instead of failing in some other way."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.samples import document

from scrimshaw.errors import DamagedDatabase
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.index import Index
from scrimshaw.storage.sqlite.database import Database

DAMAGE = {
    "text that is no UTF-8": "UPDATE files SET path = CAST(x'87ff' AS TEXT)",
    "a list that is no JSON": "UPDATE memories SET triggers = CAST(x'00' AS TEXT)",
    "a tier that does not exist": "UPDATE memories SET tier = 'nprmal'",
    "a row that should have gone": "CREATE TABLE stray (memory REFERENCES memories); INSERT INTO stray VALUES (1)",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named(tmp_path: Path, damage: str) -> None:
    storage = Storage(tmp_path, busy_timeout_ms=1000)
    index = storage.index
    index.put([document("a", "text")])
    raw = Database(tmp_path / "index.db", "index", durable=False, busy_timeout_ms=1000)
    raw.rows(damage)
    raw.close()
    with pytest.raises(DamagedDatabase, match="rebuild") as caught:
        use(index)
    assert caught.value.details["path"] == str(tmp_path / "index.db")
    storage.close()


def use(index: Index) -> None:
    """What a scan and a question do."""
    index.manifest("vault")
    index.get(["a"])
    index.put([document("a", "other text")])
