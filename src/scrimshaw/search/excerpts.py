"""The lines of a text that answer a query. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_STEM = 5


Head = Callable[[str, int], tuple[str, int]]


def excerpt(text: str, terms: Sequence[str], limit: int, head: Head) -> tuple[str, int]:
    """At most `limit` tokens of the text, from the line where most terms begin to stand, and how many they are."""
    stems = {term[:_STEM].casefold() for term in terms}
    lines = [line for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return "", 0
    windows = ["\n".join(lines[start : start + 3]) for start in range(len(lines))]
    start = max(range(len(lines)), key=lambda place: (_present(windows[place], stems), -place))
    return head("\n".join(lines[start:]), limit)


def _present(text: str, stems: set[str]) -> int:
    folded = text.casefold()
    return sum(stem in folded for stem in stems)
