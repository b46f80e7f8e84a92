"""Memories as other tools write them down: text in, `OtherMemory` out."""

from __future__ import annotations

from msgspec import Struct

from scrimshaw.models import Edge, MemoryType


class OtherMemory(Struct, frozen=True, kw_only=True):
    """A memory of another tool. `name` is what it is called there, unique among its own; `created` is ISO or empty.

    `relations` name their targets in the other tool's words.
    """

    name: str
    title: str
    content: str
    type: MemoryType = MemoryType.GENERAL
    topics: tuple[str, ...] = ()
    relations: tuple[Edge, ...] = ()
    created: str = ""
