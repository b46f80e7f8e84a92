"""Merges the front matter of a memory that two sides changed, key by key. Pure."""

from collections.abc import Mapping
from functools import partial
from itertools import chain

from scrimshaw.ingest.front_matter import parse_time
from scrimshaw.ingest.memory_file import MemoryFile, edit_memory_file


def merge_front_matter(base: MemoryFile, ours: MemoryFile, theirs: MemoryFile) -> MemoryFile:
    """Our file with the other side's changes to the front matter since `base`, each key in its form there.

    Lists are sets: additions and removals of both sides apply. Of two changed values the later `updated` wins.
    """
    sides = [(parse_time(file.values.get("updated")), file.text) for file in (ours, theirs)]
    merge = partial(_merge_value, theirs_wins=sides[1] > sides[0])
    keys = dict.fromkeys([*ours.values, *theirs.values])
    merged = {key: merge(*(file.values.get(key) for file in (base, ours, theirs))) for key in keys}
    changes = {key: value for key, value in merged.items() if value != ours.values.get(key)}
    return edit_memory_file(ours, changes) if changes else ours


def _merge_value(before: object, own: object, other: object, *, theirs_wins: bool) -> object:
    """The merged value of three sides; None for none."""
    if other in (before, own):
        return own
    if own == before:
        return other
    sides = (before, own, other)
    if all(side is None or isinstance(side, Mapping) for side in sides) and own is not None and other is not None:
        tables = [side if isinstance(side, Mapping) else {} for side in sides]
        keys = dict.fromkeys(chain(*tables[1:]))
        values = {key: _merge_value(*(each.get(key) for each in tables), theirs_wins=theirs_wins) for key in keys}
        return {key: value for key, value in values.items() if value is not None}
    if all(side is None or isinstance(side, list) for side in sides):
        old, ours, theirs = (side if isinstance(side, list) else [] for side in sides)
        kept = [each for each in ours if each not in old or each in theirs]
        return [*kept, *(each for each in theirs if each not in old and each not in ours)]
    if own is None or other is None:  # one side removed what the other changed
        return other if own is None else own
    return other if theirs_wins else own
