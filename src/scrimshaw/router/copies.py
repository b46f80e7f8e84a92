"""Copies of memories at a peer: what is sent of a memory, the port for a place that keeps copies, and the id map.

The id map, from memories to their copies at a peer, is a file in the user's Scrimshaw folder. It has names and hashes,
no text.
"""

import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from scrimshaw.engine import Engine
from scrimshaw.engine.read import may_leave
from scrimshaw.ingest.comparison import find_break
from scrimshaw.models import ArtifactClass, Filters, Memory, Tier, content_hash
from scrimshaw.storage.durable import read_if_there, storage_errors, write_file
from scrimshaw.storage.place import name_project
from scrimshaw.storage.scan import compile_globs

# Forgetful's scale, 1 to 10, where 7 is an ordinary memory.
_IMPORTANCE = {Tier.CONSTITUTIONAL: 10, Tier.CRITICAL: 9, Tier.IMPORTANT: 8, Tier.TEMPORARY: 5}
MARK = "scrimshaw-"  # prefix of the label on a project's copies at a peer
FOLDER = "sync"  # of the id maps, in the user's Scrimshaw folder
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
        return content_hash(msgspec.json.encode(msgspec.structs.replace(self, text="")))


class CopyRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A copy as last sent: its id at the peer, and hashes of everything sent and of the text alone."""

    peer_id: str
    digest: str = ""  #: empty if the copy was found at the peer, and only its text compared
    text_hash: str


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


def list_receivers(home: Path, project: Path) -> list[str]:
    """The names of the peers to which copies of this project's memories were ever sent, according to the id maps."""
    return sorted(path.stem.rpartition("-")[0] for path in (home / FOLDER / label_copies(project)).glob("*.jsonl"))


def collect_copies(engine: Engine, exclude: Sequence[str], most_characters: int) -> dict[str, MemoryCopy]:
    """Copies of the project's memories by name, redacted as in the index; none deprecated, private or in `exclude`."""
    sources = {source.name for source in engine.sources if source.artifact == ArtifactClass.MEMORY}
    hidden = compile_globs(exclude)
    found = (memory for memory in engine.index.select(Filters()) if memory.source in sources)
    memories = [memory for memory in found if not hidden.fullmatch(memory.id) and may_leave(memory)]
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
    """A text of at most so many characters (0 for any number), cut at the end of a paragraph, line or sentence."""
    if not most_characters or len(text) <= most_characters:
        return text
    # So that a change after the cut is noticed too.
    end = f"\n\n[Cut: the whole memory has {len(text)} characters, SHA-256 {hash_text(text)}.]"
    head = text[: most_characters - len(end)]
    return head[: find_break(head, len(head) // 2, len(head))].rstrip() + end


def hash_text(text: str) -> str:
    """SHA-256, in hex, of a text ignoring what peers change: composition, white space at the ends of lines and text."""
    lines = unicodedata.normalize("NFC", text).strip().splitlines()
    return content_hash("\n".join(map(str.rstrip, lines)).encode())


class _Noted(Struct, frozen=True, kw_only=True):
    copies: dict[str, CopyRecord]
    is_open: bool


class IdMap:
    """The copies at a peer by memory, as noted in a file; if changes are under way (`is_open`) it may have others."""

    def __init__(self, path: Path) -> None:
        self.path, self.copies, self.is_open = path, dict[str, CopyRecord](), True
        with storage_errors("read", path), suppress(msgspec.DecodeError):  # such as the lines of older versions
            noted = msgspec.json.decode(read_if_there(path) or b"", type=_Noted)
            self.copies, self.is_open = noted.copies, noted.is_open

    def write(self) -> None:
        """Note the copies, and whether changes are under way; raises StorageFailure."""
        write_file(self.path, msgspec.json.encode(_Noted(copies=self.copies, is_open=self.is_open)), private=True)
