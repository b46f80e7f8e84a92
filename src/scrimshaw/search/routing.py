"""Routing: the artifact class that a query names, and the resulting weights. Pure."""

import re
from collections.abc import Mapping

from msgspec import Struct

from scrimshaw.ingest.tables import load_table
from scrimshaw.models import ArtifactClass, Channel


class Profile(Struct, frozen=True, kw_only=True):
    """How a query is searched."""

    artifact: ArtifactClass | None
    weights: Mapping[str, float]  #: by channel
    asks_for_open: bool = False  #: it wants the open items of a list rather than what its words are nearest to


_CUES = load_table(__file__, "routing", dict[str, dict[str, str]])
LISTS = (ArtifactClass.TASKS, ArtifactClass.CHECKLIST)
_ARTIFACT_CUES = {
    ArtifactClass(name): re.compile("".join(map(str.strip, cues.split("\n"))))
    for name, cues in _CUES["artifacts"].items()
}
OPEN = re.compile("".join(map(str.strip, _CUES["lists"]["open"].split("\n"))))

# Measured on six judged sets: a vector weight from 1.2 to 1.6 changes none by more than .015 nDCG@10.
# The fused channels; graph neighbours get a share of the score of the hit that leads to them.
_BASE: Mapping[str, float] = {Channel.TEXT: 1.0, Channel.VECTOR: 1.4, Channel.TRIGGER: 0.5}

# A query that names a class of document often names the document: words count more than meaning (measured).
_NAMED_ARTIFACT_VECTOR = 0.4


def route(query: str) -> Profile:
    """The profile of a query: the artifact class that it names, of several the longest name, and what follows."""
    text, weights = query.lower(), {**_BASE}
    named = {kind: sum(map(len, cues.findall(text))) for kind, cues in _ARTIFACT_CUES.items()}
    best = max(named, key=lambda kind: named[kind])
    artifact = best if named[best] else None
    if artifact not in (None, ArtifactClass.MEMORY):
        weights[Channel.VECTOR] *= _NAMED_ARTIFACT_VECTOR
    asks_for_open = artifact in LISTS and bool(OPEN.search(text))
    return Profile(artifact=artifact, weights=weights, asks_for_open=asks_for_open)
