"""Copies at a peer over MCP: listed, made, changed and retired by the peer's tools."""

from pathlib import Path
from typing import Any

import msgspec

from scrimshaw.config import PeerSettings, RouterSettings
from scrimshaw.engine import Engine
from scrimshaw.errors import NotFound, PeerRefused
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.models import PeerTool
from scrimshaw.router.copies import FOLDER, CopyRecord, IdMap, MemoryCopy, collect_copies, hash_text, label_copies
from scrimshaw.router.kinds import PREFIX, choose_tool, find_tool, read_entries, read_hits, read_text
from scrimshaw.router.peers import ANSWER_S, connect_peer, parse_native_id
from scrimshaw.router.sync import Freshness, PeerSync, compare_copies, sync_copies
from scrimshaw.storage.transaction import lock

LOCK_TIMEOUT_S = 5.0  # a sync may take minutes, and the next one does the rest


class PeerCopies:
    """The copies of one project's memories at a peer, a `CopyStore`."""

    def __init__(self, stated: PeerSettings, limits: RouterSettings, project: str) -> None:
        self._stated, self._project = stated, project
        self._peer = connect_peer(stated, limits)
        self._list, self._create = choose_tool(stated, "list"), choose_tool(stated, "create")
        self._retire = choose_tool(stated, "retire")
        self.can_update = bool(update := find_tool(stated, "update"))
        self._update = update or PeerTool(tool="")
        self.can_rename, self.most_characters = self._update.renames, self._create.most_characters

    def list_copies(self) -> list[tuple[str, CopyRecord]]:
        found, tool, offset = list[tuple[str, CopyRecord]](), self._list, 0
        while True:
            values = {"project": self._project, "limit": tool.page, "offset": offset}
            try:
                entries = read_entries(tool, self._peer.call(tool, values))
            except PeerRefused as refusal:
                if refusal.details.get("code") != NotFound.code:
                    raise
                entries = []  # a Scrimshaw has no folder without a memory
            for entry in filter(None, entries):
                if not tool.mark or self._project in read_text(entry, tool.mark).splitlines():
                    peer_id = read_text(entry, tool.id)
                    text = read_text(entry, tool.text) if tool.text else self._peer.read(peer_id, ANSWER_S).text
                    name = read_text(entry, tool.title).removeprefix(f"{self._project}/")
                    copy = CopyRecord(peer_id=peer_id, text_hash=hash_text(parse_memory_file(text).body))
                    found.append((name, copy))
            if not tool.page or len(entries) < tool.page:
                return found
            offset += tool.page

    def create(self, memory: MemoryCopy) -> str:
        hits = [*read_hits(self._stated.name, self._create, self._peer.call(self._create, self._describe(memory)))]
        peer_id = hits[0].id.removeprefix(f"{PREFIX}{self._stated.name}/") if hits else ""
        if not peer_id:
            hint = "Check whether something else there has that name."
            raise PeerRefused(f"{self._stated.name} did not create a copy of {memory.name}.", hint)
        return peer_id

    def update(self, peer_id: str, memory: MemoryCopy) -> None:
        self._peer.call(self._update, {**self._describe(memory), "id": parse_native_id(peer_id)})

    def retire(self, peer_id: str, reason: str) -> None:
        self._peer.call(self._retire, {"id": parse_native_id(peer_id), "reason": reason})

    def _describe(self, memory: MemoryCopy) -> dict[str, object]:
        return {**msgspec.structs.asdict(memory), "project": self._project, "place": f"{self._project}/{memory.name}"}


def sync_peer(engine: Engine, stated: PeerSettings, **options: Any) -> PeerSync:
    """Sync a peer as `sync_copies`; raises ConfigError if it lacks the tools, VaultBusy while another process does."""
    project = label_copies(engine.settings.project)
    store = PeerCopies(stated, engine.settings.router, project)
    path = find_id_map(engine.settings.home, stated, project)
    with lock(path.with_suffix(".lock"), LOCK_TIMEOUT_S, makes_folder=True):
        wanted = collect_copies(engine, stated.exclude, store.most_characters)
        return sync_copies(stated.name, store, wanted, IdMap(path), **options)


def compare_peer(engine: Engine, stated: PeerSettings) -> Freshness:
    """How the copies that a peer lists compare with the memories; raises ConfigError for a peer without the tools."""
    store = PeerCopies(stated, engine.settings.router, label_copies(engine.settings.project))
    return compare_copies(stated.name, store, collect_copies(engine, stated.exclude, store.most_characters))


def find_id_map(home: Path, stated: PeerSettings, project: str) -> Path:
    """The id map of a project at a peer; another server under the same name gets another one."""
    digest = hash_text(repr((stated.url, stated.command, sorted(stated.env.items()))))
    return home / FOLDER / project / f"{stated.name}-{digest[:8]}.jsonl"
