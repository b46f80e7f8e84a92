"""What other tools call a relation, in the words of ours; a relation that means none of them stays a link."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from scrimshaw.models import Edge, Relation

# Read from source to target, so that `caused_by` is not among them.
_WORDS: Mapping[Relation, str] = MappingProxyType(
    {
        Relation.SUPERSEDES: "supersedes replaces obsoletes deprecates",
        Relation.CONTRADICTS: "contradicts conflicts_with contrasts_with disagrees_with",
        Relation.CAUSED: "caused causes led_to leads_to resulted_in results_in triggered",
        Relation.ENABLED: "enabled enables unblocks unblocked allows",
        Relation.DERIVED_FROM: "derived_from based_on builds_on extends inspired_by learned_from originated_from",
        Relation.SUPPORTS: "supports validates confirms proves evidence_for",
    }
)
_RELATIONS: Mapping[str, Relation] = MappingProxyType(
    {word: relation for relation, words in _WORDS.items() for word in words.split()}
)


def relations_of(stated: Iterable[tuple[str, str, str]]) -> tuple[Edge, ...]:
    """The edges of (relation in other words, target, evidence) that mean one of ours."""
    named = ((_RELATIONS.get(_folded(word)), target.strip(), evidence.strip()) for word, target, evidence in stated)
    found = {
        (relation, target): Edge(source="", target=target, relation=relation, evidence=evidence)
        for relation, target, evidence in named
        if relation and target
    }
    return tuple(found.values())


def _folded(word: str) -> str:
    return re.sub(r"[\s-]+", "_", word.strip().lower())
