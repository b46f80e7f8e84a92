"""The Python interface: an open memory with the operations of people and agents as methods."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path

from scrimshaw.config import find_project
from scrimshaw.engine import Engine, index, open_engine, read, write
from scrimshaw.engine.core import load_memory
from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.front_matter import find_wrong_values
from scrimshaw.ingest.rule_checks import check_rules
from scrimshaw.models import Filters, Memory, MemoryType, Tier, VaultName
from scrimshaw.search.results import Hit, SearchRequest


class OpenMemory(AbstractContextManager["OpenMemory"]):
    """The memory of a project. Safe to use from several threads; close it, or use it in a `with`.

    What a program saves counts as an agent's: only a person vouches for a text.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def search(
        self, query: str, *, limit: int = 5, folder: str = "", tiers: Iterable[Tier | str] = ()
    ) -> Sequence[Hit]:
        """The memories that answer best, best first, each with its passage in `text`; none if none is likely to."""
        index.catch_up(self.engine)
        filters = Filters(folder=folder, tiers=tuple(map(Tier, tiers)))
        sure = self.engine.settings.search.min_confidence
        request = SearchRequest(query=query, limit=limit, filters=filters, min_confidence=sure, record=True)
        return [*read.search(self.engine, request).hits]

    def get(self, memory_id: str, anchor: str = "") -> read.MemoryText:
        """A memory with its text, or one section of it; raises NotFound."""
        index.catch_up(self.engine)
        return read.get(self.engine, memory_id, anchor)

    def list(self, *, folder: str = "", tiers: Iterable[Tier | str] = ()) -> Sequence[Memory]:
        """All memories, newest first."""
        index.catch_up(self.engine)
        return self.engine.index.select(Filters(folder=folder, tiers=tuple(map(Tier, tiers))), sort="updated")

    def save(
        self,
        text: str,
        *,
        title: str = "",
        id: str = "",
        type: MemoryType | str | None = None,
        tier: Tier | str = Tier.NORMAL,
        triggers: Iterable[str] = (),
        topics: Iterable[str] = (),
        vault: VaultName | str = "",
    ) -> write.Saved:
        """Save a new memory: redacted, durable, found at once; `status` says whether it was saved, and why not.

        It goes into the project's own vault, or among Serena's memories where these are all there is; `vault` chooses.
        """
        new = write.NewText(
            content=text.removesuffix("\n") + "\n",  # like any text file
            id=id,
            title=title,
            type=MemoryType(type) if type else None,
            tier=Tier(tier),
            triggers=tuple(triggers),
            topics=tuple(topics),
            vault=VaultName(vault) if vault else write.choose_vault(self.engine, id),
        )
        return write.save(self.engine, new)

    def update(self, memory_id: str, text: str | None = None, **changes: object) -> write.Saved:
        """Change a memory's text, keys of its front matter, or both: `memory.update("gate", tier="important")`."""
        for wrong in find_wrong_values(changes):
            raise InvalidRequest(f"{wrong}.", "Nothing was changed.", parameter="changes")
        return write.update(self.engine, memory_id, changes, content=text and text.removesuffix("\n") + "\n")

    def delete(self, *memory_ids: str) -> Sequence[str]:
        """Delete memories, all or none; `scrimshaw undo` restores them."""
        return write.delete(self.engine, memory_ids)

    def close(self) -> None:
        """Release databases and locks."""
        self.engine.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def open_memory(path: str | PathLike[str] = ".") -> OpenMemory:
    """Open the memory of the project at or around a folder; raises ConfigError if there is none."""
    settings = load_memory(find_project(Path(path)))
    check_rules(settings.rules)
    return OpenMemory(open_engine(settings))
