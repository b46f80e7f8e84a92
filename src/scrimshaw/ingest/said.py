"""Finds what a session should keep of a person's or agent's words: decisions, and what to do next. Pure.

A hook reads every answer this way, so it is only a few patterns on sentences; a draft reads more closely.
"""

from functools import partial

from scrimshaw.ingest.tables import load_pattern
from scrimshaw.models import ItemKind

LONGEST_SAID, MOST_SENTENCES = 480, 3  # characters and sentences of one item
_SHORTEST, _LONGEST = 20, 400  # characters of a sentence
_pattern = partial(load_pattern, __file__, "said")


def find_said(text: str, *, by_person: bool = False) -> tuple[ItemKind, str] | None:
    """The decisions in a text, or else its next steps, in the speaker's words: the last sentences; usually none."""
    pieces = _pattern("sentence_end").split(_pattern("fenced").sub("\n", text))
    bare = (" ".join(_pattern("marks").sub("", piece).split()) for piece in pieces)
    sentences = [each for each in bare if _SHORTEST <= len(each) <= _LONGEST and not _pattern("unsettled").search(each)]
    choices = ("decided", "wished") if by_person else ("decided",)
    for kind, cues in ((ItemKind.DECISION, choices), (ItemKind.PLAN, ("planned",))):
        patterns = [*map(_pattern, cues)]
        found = [each for each in sentences if any(cue.search(each) for cue in patterns)][-MOST_SENTENCES:]
        while len(" ".join(found)) > LONGEST_SAID:
            del found[0]
        if found:
            return kind, " ".join(found)
    return None
