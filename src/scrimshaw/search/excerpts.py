"""The lines of a text that answer a query. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_STEM = 5
_NEAR = 3


Head = Callable[[str, int], tuple[str, int]]


def excerpt(text: str, terms: Sequence[str], limit: int, head: Head) -> tuple[str, int]:
    """At most `limit` tokens of the text, from the line where most terms begin to stand, and how many they are."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return "", 0
    stems = {term[:_STEM].casefold() for term in terms}
    present = [{stem for stem in stems if stem in line.casefold()} for line in lines]
    near = [len(set().union(*present[place : place + _NEAR])) for place in range(len(lines))]
    return head("\n".join(lines[near.index(max(near)) :]), limit)
