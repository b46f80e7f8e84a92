"""Trigger phrases that stand in a text as whole phrases, in any script, without a model. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from scrimshaw.ingest.phrases import normalise, spaced, stands_in


def standing(text: str, phrases: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Of (phrase, memory id) pairs those whose phrase stands in the text: memory id -> its phrases, longest first."""
    text = normalise(text)
    words = spaced(text)
    found: dict[str, set[str]] = {}
    for phrase, memory_id in phrases:
        if stands_in(phrase, words, text):
            found.setdefault(memory_id, set()).add(phrase)
    return {memory_id: sorted(own, key=lambda phrase: (-len(phrase), phrase)) for memory_id, own in found.items()}
