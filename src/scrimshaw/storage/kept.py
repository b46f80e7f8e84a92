"""What the journal takes beside a row of the ledger: the texts that undo lives from."""

from __future__ import annotations

from typing import NamedTuple

from scrimshaw.models import Entry, Redacted

# An entry, and the text it replaced.
Recorded = tuple[Entry, Redacted | None]


class Kept(NamedTuple):
    """A text that a file held, by the name the ledger has for the file and the hash of its bytes."""

    memory_id: str
    content_hash: str
    text: Redacted
