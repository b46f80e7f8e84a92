"""`redaction.drop_ratio` decides how much of a text may be secrets before the text is refused."""

from __future__ import annotations

import pytest
from tests.conftest import OpenMemory
from tests.samples import SECRET

from scrimshaw.engine.write import NewText, save
from scrimshaw.errors import InvalidRequest


def test_the_share_that_may_be_removed_is_a_setting(open_memory: OpenMemory) -> None:
    half = NewText(content=f"{SECRET} {'x ' * (len(SECRET) // 2)}")
    with pytest.raises(InvalidRequest, match="secrets"):
        save(open_memory("[redaction]\ndrop_ratio = 0.2"), half)
    assert save(open_memory("[redaction]\ndrop_ratio = 0.9"), half).status == "saved"
