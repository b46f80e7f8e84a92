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
        (
            "Write the parser. Don't use pandas in this repo, it is too heavy.",
            "Don't use pandas in this repo, it is too heavy.",
        ),
        (
            "Our own index. Not PyPI, ever: the library is under contract.",
            "Not PyPI, ever: the library is under contract.",
        ),
        ("Please do not edit files in src/vendored.", "Please do not edit files in src/vendored."),
        ("add a queue — chosen in e1: from now on always use uuids", "from now on always use uuids"),
        ("add a queue — agreed in e1: from now on always use uuids", "from now on always use uuids"),
        ("but dont put comments into bash snippets", "but dont put comments into bash snippets"),
        ("pls leave the old importer alone. it is fragile", "pls leave the old importer alone."),
        ("every commit must build, we bisect", "every commit must build, we bisect"),
        ("don't commit yet, I want to look at it", ""),
        ("The export does not work in this project.", ""),
        ("This is the only bug in our codebase.", ""),
        ("Please do not edit src/a.py until I have read it.", ""),
        ("Don't run it now.", ""),
        ("don't change the tests", ""),
        ("never mind the tests in src/vendored", ""),
        ("So we don't touch files in src/vendored?", ""),
        ("I don't know why the tests fail in this repo now", ""),
        ("1 in 6 joins fails outdoors, never on my desk.", ""),
        ("the delay of the old cranes (they are always broken)", ""),
        ("NO wait, the crane writes at 1.8 V", ""),
        ("I thought it was always per session", ""),
        ("tillamook: hourly is NOT ok", ""),
    ],
)
def test_a_rule_is_what_is_to_hold_and_not_what_always_happens(line: str, rule: str) -> None:
    assert [*list_rules(f"## Decisions\n\n- {line} (e2)\n", list)] == [rule] * bool(rule)
