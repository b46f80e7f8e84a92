"""Noticing that a new text says something changed. It only proposes: nothing is hidden, nothing is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from scrimshaw.engine.core import Engine
from scrimshaw.engine.similar import Similar
from scrimshaw.models import Relation

# What people write when something took the place of something else; compared without case.
_CUES = re.compile(
    r"\b(?:instead|no longer|not any ?more|replac(?:es|ed|ing)|supersed(?:es|ed|ing)|deprecat(?:es|ed|ing)|obsolete"
    r"|outdated|(?:was|were|is) wrong|turned out|contrary to|revert(?:s|ed|ing)|rolled back"
    r"|(?:switched|moved|migrated|changed) (?:away )?(?:from|to))\b"
)


class Proposal(Struct, frozen=True, kw_only=True):
    """A relation from the new memory to `target` that seems true; stating it is up to the reader."""

    relation: Relation
    target: str
    why: str


def propose_supersedes(engine: Engine, text: str, similar: Sequence[Similar]) -> tuple[Proposal, ...]:
    """For each similar memory whose text lacks a cue of change that the new text has, the proposal to supersede it."""
    said = cues(text)
    if not said or not similar:
        return ()
    bodies = engine.index.bodies([each.id for each in similar])
    return tuple(_proposals(said, similar, {name: cues(body) for name, body in bodies.items()}))


def cues(text: str) -> tuple[str, ...]:
    """The wordings in a text that tell of a change, each once, in order."""
    return tuple(dict.fromkeys(" ".join(match.split()) for match in _CUES.findall(" ".join(text.casefold().split()))))


def _proposals(
    said: Sequence[str], similar: Sequence[Similar], known: dict[str, tuple[str, ...]]
) -> Iterator[Proposal]:
    for each in similar:
        new = [cue for cue in said if cue not in known.get(each.id, ())]
        if new:
            quoted = ", ".join(f'"{cue}"' for cue in new)
            why = f"{each.kind.replace('_', ' ')} ({each.similarity:.2f}), and only the new text says {quoted}"
            yield Proposal(relation=Relation.SUPERSEDES, target=each.id, why=why)
