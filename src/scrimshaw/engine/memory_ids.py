"""The ids of new memories: made from a title, or given and checked."""

from __future__ import annotations

import itertools
import re
import unicodedata

from scrimshaw.engine.core import Engine
from scrimshaw.errors import InvalidMemoryId
from scrimshaw.ingest.redact import redact
from scrimshaw.storage.paths import SUFFIX, check_id
from scrimshaw.storage.scan import IGNORED_FOLDERS

_NOT_IN_SLUG = re.compile(r"[^\w]+")
_SLUG_BYTES = 80


def slug(title: str) -> str:
    """A title as an id: lower case, words joined by dashes, letters of any script kept."""
    composed = unicodedata.normalize("NFC", unicodedata.normalize("NFC", title).casefold())
    words = _NOT_IN_SLUG.sub("-", composed).strip("-_")
    short = words.encode()[:_SLUG_BYTES].decode(errors="ignore").rstrip("-_") or "memory"
    try:
        return check_id(short)
    except InvalidMemoryId:  # a name that Windows keeps for itself
        return f"memory-{short}"


def given_id(memory_id: str) -> str:
    """The id as it may be written; a name is stored as it is, so that one with a secret in it is refused."""
    if redact(memory_id).spans:
        raise InvalidMemoryId("The id holds a secret.", "Choose another.", parameter="id", rule="it holds a secret")
    unread = IGNORED_FOLDERS.intersection(memory_id.split("/")[:-1])
    if unread:
        rule = f"no memory is read from a folder {min(unread)!r}"
        raise InvalidMemoryId(f"{memory_id!r} cannot be used: {rule}.", "Choose another.", parameter="id", rule=rule)
    return check_id(memory_id)


def free_id(engine: Engine, title: str) -> str:
    """An id made from the title; where it is taken by another text, the next free number is added."""
    base = slug(title)
    numbered = (f"{base}-{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([base], numbered) if _is_free(engine, name))


def _is_free(engine: Engine, memory_id: str) -> bool:
    """Whether neither the index nor the vault, where a hand may have been faster than a scan, has the id."""
    vault, name = engine.vault_of(memory_id)
    return not engine.index.find_ids(differing_in_case=memory_id) and not (vault.root / f"{name}{SUFFIX}").exists()
