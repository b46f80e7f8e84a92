"""Which sentences of a memory are rules that a start tells."""

from __future__ import annotations

import pytest

from scrimshaw.session.arrivals import list_rules


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("hands off the harbour script. the crane reads it", "hands off the harbour script."),
        ("pin gcc 12.3, fail if its anything else. or nobody signs it", "pin gcc 12.3, fail if its anything else."),
        (
            "No! deploy/ is of Davide, we don't touch nothing in there",
            "deploy/ is of Davide, we don't touch nothing in there",
        ),
        ("python stays 3.11 on the servers", "python stays 3.11 on the servers"),
        ("16 bits. always 16 bits. put an assert there", "16 bits. always 16 bits. put an assert there"),
        ("1 in 6 joins fails outdoors, never on my desk.", ""),
        ("the delay of the old cranes (they are always broken)", ""),
        ("NO wait, the crane writes at 1.8 V", ""),
        ("I thought it was always per session", ""),
        ("tillamook: hourly is NOT ok", ""),
    ],
)
def test_a_rule_is_what_is_to_hold_and_not_what_always_happens(line: str, rule: str) -> None:
    assert [*list_rules(f"## Decisions\n\n- {line} (e2)\n", list)] == [rule] * bool(rule)
