"""Copies of memories at a peer: what is sent of a memory, and the port for a place that keeps copies."""

import unicodedata
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from scrimshaw.engine import Engine
from scrimshaw.engine.core import GLOBAL
from scrimshaw.models import ArtifactClass, Filters, Memory, Tier
from scrimshaw.router.id_map import CopyRecord
from scrimshaw.storage.place import name_project
from scrimshaw.storage.scan import compile_globs

# Forgetful's scale, 1 to 10, where 7 is an ordinary memory.
_IMPORTANCE = {Tier.CONSTITUTIONAL: 10, Tier.CRITICAL: 9, Tier.IMPORTANT: 8, Tier.TEMPORARY: 5}
MARK = "scrimshaw-"  # prefix of the label on a project's copies at a peer
_ORDINARY, _MOST_KEYWORDS, _MOST_CONTEXT = 7, 10, 500  # Forgetful's default and limits


class MemoryCopy(Struct, frozen=True, kw_only=True):
    """The content sent to a peer for a memory; the name is its id."""

    name: str
    title: str
    text: str
    context: str
    keywords: tuple[str, ...]
    importance: int
    text_hash: str

    @property
    def digest(self) -> str:
        """SHA-256 of everything, ignoring white space at the ends of lines."""
        return sha256(msgspec.json.encode(msgspec.structs.replace(self, text=""))).hexdigest()


class CopyStore(Protocol):
    """Where copies are kept. Its methods raise PeerRefused if the peer rejects it, PeerFailed if there is no answer."""

    can_update: bool
    can_rename: bool

    def list_copies(self) -> list[tuple[str, CopyRecord]]:
        """(name, copy) of all copies of this project's memories at the peer."""

    def create(self, memory: MemoryCopy) -> str:
        """Make a copy; returns its id at the peer."""

    def update(self, peer_id: str, memory: MemoryCopy) -> None:
        """Change a copy, and its name if the peer can."""

    def retire(self, peer_id: str, reason: str) -> None:
        """Retire a copy."""


def label_copies(project: Path) -> str:
    """The label of this project's copies, to tell them from those of others: a tag or a folder at the peer."""
    return f"{MARK}{name_project(project)}"


def collect_copies(engine: Engine, exclude: Sequence[str], most_characters: int) -> dict[str, MemoryCopy]:
    """Copies of the project's own memories by name, redacted as in the index; no deprecated ones, none in `exclude`."""
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
    """The copy of a memory; a text of more characters than the peer takes is cut and says so."""
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
    """A text of at most so many characters (0 for any number), cut at the end of a paragraph, line or sentence.

    A cut text ends with the length and hash of the whole, so that a change after the cut is noticed too.
    """
    if not most_characters or len(text) <= most_characters:
        return text
    end = f"\n\n[Cut: the whole memory has {len(text)} characters, SHA-256 {hash_text(text)}.]"
    head = text[: most_characters - len(end)]
    half = len(head) // 2
    places = (head.rfind(mark, half) + len(mark) for mark in ("\n\n", "\n", ". ", " ") if mark in head[half:])
    return head[: next(places, len(head))].rstrip() + end


def hash_text(text: str) -> str:
    """SHA-256, in hex, of a text ignoring what peers change: composition, white space at the ends of lines and text."""
    lines = unicodedata.normalize("NFC", text).strip().splitlines()
    return sha256("\n".join(map(str.rstrip, lines)).encode()).hexdigest()
