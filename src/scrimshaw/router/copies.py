"""Copies of memories at a peer: what is sent of a memory, and what a place for copies must be able to do."""

import unicodedata
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct

from scrimshaw.engine import Engine
from scrimshaw.engine.core import GLOBAL
from scrimshaw.models import ArtifactClass, Filters, Memory, Tier
from scrimshaw.storage.place import name_project
from scrimshaw.storage.scan import compile_globs

# Forgetful's scale, 1 to 10, where 7 is what an ordinary memory has.
_IMPORTANCE = {Tier.CONSTITUTIONAL: 10, Tier.CRITICAL: 9, Tier.IMPORTANT: 8, Tier.TEMPORARY: 5}
MARK = "scrimshaw-"  # how the label begins that copies of a project bear at a peer
_ORDINARY, _MOST_KEYWORDS, _MOST_CONTEXT = 7, 10, 500  # what Forgetful takes


class MemoryCopy(Struct, frozen=True, kw_only=True):
    """What a peer is given of a memory; the name is its id."""

    name: str
    title: str
    text: str
    context: str
    keywords: tuple[str, ...]
    importance: int
    text_hash: str

    @property
    def digest(self) -> str:
        """SHA-256 of everything but the text's white space at the ends of lines."""
        return sha256(msgspec.json.encode(msgspec.structs.replace(self, text=""))).hexdigest()


class PeerEntry(NamedTuple):
    """A copy as the peer lists it."""

    peer_id: str
    name: str
    text_hash: str


class CopyStore(Protocol):
    """Where copies are kept. Its methods raise PeerRefused for one that is not taken, PeerFailed for no answer."""

    can_update: bool
    can_rename: bool

    def list_copies(self) -> list[PeerEntry]:
        """All copies of this project's memories that are there."""

    def create(self, memory: MemoryCopy) -> str:
        """Make a copy; its id at the peer."""

    def update(self, peer_id: str, memory: MemoryCopy) -> None:
        """Change a copy, its name too where the peer can."""

    def retire(self, peer_id: str, reason: str) -> None:
        """Put a copy out of use."""


def label_copies(project: Path) -> str:
    """What tells the copies of this project's memories from those of others, as a tag or a folder at the peer."""
    return f"{MARK}{name_project(project)}"


def collect_copies(engine: Engine, exclude: Sequence[str], most_characters: int) -> dict[str, MemoryCopy]:
    """What a peer should have, by name: the project's own memories that are not deprecated, redacted as in the index.

    The user's own vault, documents, records of sessions and ids that match a glob of `exclude` stay here.
    """
    sources = {source.name for source in engine.sources if source.artifact == ArtifactClass.MEMORY}
    hidden = compile_globs(exclude)
    memories = [
        memory
        for memory in engine.index.select(Filters())
        if memory.source in sources and not memory.id.startswith(GLOBAL) and not hidden.fullmatch(memory.id)
    ]
    bodies = engine.index.bodies([memory.id for memory in memories])
    return {each.id: make_copy(each, bodies[each.id], most_characters) for each in memories if each.id in bodies}


def make_copy(memory: Memory, body: str, most_characters: int) -> MemoryCopy:
    """What is sent of a memory; a text of more characters than the peer takes is cut, which it says itself."""
    text = cut_text(body.strip(), most_characters)
    return MemoryCopy(
        name=memory.id,
        title=memory.title,
        text=text,
        context=f"{memory.title[: _MOST_CONTEXT // 2]}. From the memory file {memory.id}.",
        keywords=tuple(dict.fromkeys((*memory.topics, *memory.triggers)))[:_MOST_KEYWORDS] or (memory.type,),
        importance=_IMPORTANCE.get(memory.tier, _ORDINARY),
        text_hash=hash_text(text),
    )


def cut_text(text: str, most_characters: int) -> str:
    """A text of at most so many characters (any number for 0), cut where a paragraph, line or sentence ends.

    What is cut ends with the length and the hash of the whole, so that a change behind the cut is seen too.
    """
    if not most_characters or len(text) <= most_characters:
        return text
    end = f"\n\n[Cut: the whole memory has {len(text)} characters, SHA-256 {hash_text(text)}.]"
    head = text[: most_characters - len(end)]
    half = len(head) // 2
    places = (head.rfind(mark, half) + len(mark) for mark in ("\n\n", "\n", ". ", " ") if mark in head[half:])
    return head[: next(places, len(head))].rstrip() + end


def hash_text(text: str) -> str:
    """SHA-256, in hex, of a text without what peers change: composition, white space at the ends of lines and text."""
    lines = unicodedata.normalize("NFC", text).strip().splitlines()
    return sha256("\n".join(map(str.rstrip, lines)).encode()).hexdigest()
