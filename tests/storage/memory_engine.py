"""A second engine of the ports that lives in the memory of one process: proof that the contracts fit more than SQLite.

It is written for plainness. A folder stands for a database: whoever opens the same folder gets the same rows.
"""

from __future__ import annotations

import copy
import hashlib
import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from scrimshaw.errors import NotFound, StorageFailure
from scrimshaw.models import (
    QUESTIONS,
    RECORD,
    Document,
    Drafted,
    Edge,
    EdgeKind,
    Entry,
    EventKind,
    Filters,
    Injected,
    Item,
    ItemKind,
    Job,
    JobState,
    Match,
    Memory,
    Neighbor,
    NewItem,
    Observation,
    RecordedEvent,
    Session,
    SessionState,
    SourceFile,
    Tier,
    Trust,
    Wipe,
)
from scrimshaw.search.tokens import query_terms
from scrimshaw.storage.graph import Link, walk
from scrimshaw.storage.paths import fold
from scrimshaw.storage.ports import (
    Admit,
    CommitRows,
    DatabaseName,
    FileState,
    Learning,
    PendingChunk,
    Piece,
    Query,
    Review,
    ReviewState,
    Row,
    SessionRecord,
    StatusChange,
    StoredText,
    VectorCounts,
)
from scrimshaw.storage.sql import earliest, latest

_SORTS: Mapping[str, Callable[[Memory], Any]] = {
    "id": lambda memory: memory.id,
    "title": lambda memory: (memory.title, memory.id),
}
_GROUPS = ("", "tier", "type", "artifact", "source", "folder", "topic")


class MemoryIndex:
    """The Index port."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._documents: dict[str, Document] = {}
        self._files: dict[str, FileState] = {}
        self._sources: dict[str, str] = {}
        self._places: dict[tuple[str, int], int] = {}
        self._keys: dict[tuple[str, int], str] = {}  # the text that identifies a chunk, by memory and ordinal
        self._vectors: dict[tuple[str, str, int], Any] = {}
        self._tokens: dict[tuple[str, str], bytes] = {}  # by model and key
        self._links: list[Edge] = []
        self._renames: dict[str, str] = {}
        self._generation = self._place = 0

    def put(self, documents: Sequence[Document]) -> None:
        with self._guard:
            for document in documents:
                document.body.text.encode()  # refused before anything is stored
            for document in documents:
                known = {(model, self._keys[name, number]): row for (model, name, number), row in self._vectors.items()}
                for name in [d.file.memory_id for d in self._documents.values() if d.file.path == document.file.path]:
                    self._remove(name)
                self._remove(document.file.memory_id)
                self._documents[document.file.memory_id] = document
                self._remember_file(document.file, document.content_hash, document.file.memory_id, document.problem)
                for chunk in document.chunks:
                    self._place += 1
                    place = document.file.memory_id, chunk.ordinal
                    self._places[place] = self._place
                    self._keys[place] = chunk.embedded_text(document.body.text)
                    for (model, key), row in known.items():
                        if key == self._keys[place]:
                            self._vectors[model, *place] = row
            self._generation += 1

    def retire(self, paths: Sequence[str] | None, *, merge_words: bool = False) -> None:
        with self._guard:
            for path in list(self._files) if paths is None else paths:
                self._files.pop(path, None)
                for name in [d.file.memory_id for d in self._documents.values() if d.file.path == path]:
                    self._remove(name)
            self._generation += 1

    def record_file(self, file: SourceFile, content_hash: str, *, skipped: str = "") -> None:
        with self._guard:
            if skipped:
                for name in [d.file.memory_id for d in self._documents.values() if d.file.path == file.path]:
                    self._remove(name)
                self._remember_file(file, content_hash, "", skipped)
                self._generation += 1
            elif file.path in self._files:
                state = self._files[file.path]
                self._files[file.path] = replace(
                    state, size=file.size, mtime_ns=file.mtime_ns, content_hash=content_hash
                )

    def manifest(self, source: str = "") -> Mapping[str, FileState]:
        return {path: state for path, state in sorted(self._files.items()) if source in ("", self._sources[path])}

    def get(self, ids: Sequence[str]) -> dict[str, Memory]:
        return {name: _memory(self._documents[name]) for name in ids if name in self._documents}

    def bodies(self, ids: Sequence[str]) -> dict[str, str]:
        return {name: self._documents[name].body.text for name in ids if name in self._documents}

    def pieces(self, wanted: Collection[tuple[str, int]], *, vectors_of: str = "") -> dict[tuple[str, int], Piece]:
        found = {}
        for name, ordinal in wanted:
            for chunk in self._documents[name].chunks if name in self._documents else ():
                if chunk.ordinal == ordinal:
                    text = self._documents[name].body.text[chunk.start : chunk.end]
                    tokens = self._tokens.get((vectors_of, self._keys[name, ordinal]), b"")
                    named = {"anchor": chunk.anchor, "heading": chunk.heading, "context": chunk.context}
                    row = self._vectors.get((vectors_of, name, ordinal))
                    own = b"" if row is None else np.asarray(row, np.float16).tobytes()
                    text = "" if vectors_of else text
                    found[name, ordinal] = Piece(text=text, tokens=tokens, vector=own, **named)
        return found

    def passages(
        self, places: Collection[tuple[str, int]], records: Mapping[str, Memory]
    ) -> dict[tuple[str, int], Memory]:
        found = {}
        for name, ordinal in places:
            if (document := self._documents.get(name)) and name in records and ordinal < len(document.chunks):
                chunk, whole = document.chunks[ordinal], records[name]
                origin = replace(whole.provenance, trust=Trust(chunk.trust))
                own = {"id": f"{name}#{chunk.anchor}", "updated": chunk.at, "length": chunk.end - chunk.start}
                found[name, ordinal] = replace(whole, provenance=origin, **own)
        return found

    def select(self, filters: Filters, *, sort: str = "id", limit: int = -1, offset: int = 0) -> list[Memory]:
        found = sorted(self._satisfying(filters), key=_SORTS["id"])
        if sort in ("created", "updated"):
            found.sort(key=lambda memory: str(getattr(memory, sort)), reverse=True)
        else:
            found.sort(key=_SORTS[sort])
        return found[offset : None if limit < 0 else offset + limit]

    def count(self, filters: Filters | None, *, by: str = "") -> dict[str, int]:
        if filters is None:
            return {"": sum(len(document.chunks) for document in self._documents.values())}
        if by not in _GROUPS:
            raise KeyError(by)
        counts: Counter[str] = Counter()
        for memory in self._satisfying(filters):
            if by == "topic":
                counts.update({topic.casefold() for topic in memory.topics})
            elif by == "folder":
                counts[memory.id.partition("/")[0] if "/" in memory.id else ""] += 1
            else:
                counts[str(getattr(memory, by)) if by else ""] += 1
        return dict(sorted(counts.items())) if by else {"": counts[""]}

    def find_ids(
        self, *, paths: Sequence[str] | None = None, text_hash: str | None = None, differing_in_case: str | None = None
    ) -> list[str]:
        folded = None if differing_in_case is None else fold(differing_in_case)
        return sorted(
            name
            for name, document in self._documents.items()
            if (paths is not None and document.file.path in paths)
            or document.text_hash == text_hash
            or fold(name) == folded
        )

    def match_text(self, query: Query, filters: Filters, limit: int) -> list[Match]:
        found = []
        for memory in self._satisfying(filters) if any(query.groups) else ():
            document = self._documents[memory.id]
            words = _words(
                " ".join((memory.id, memory.title, *memory.triggers, *memory.topics, document.body.text)).lower()
            )
            body, parts = document.body.text, [(0, words)]
            parts += [
                (each.ordinal, _words((body[each.start : each.end] or each.context).lower()))
                for each in document.chunks
                if memory.source == RECORD or each.ordinal >= QUESTIONS
            ]
            scored = []
            for ordinal, part in parts[memory.source == RECORD :]:
                hits = [sum(_is_hit(word, some, query.is_prefix) for word in part) for some in query.groups if some]
                if all(hits):
                    scored.append((sum(hits) / len(part), ordinal))
            if memory.source == RECORD:
                found += [Match(id=memory.id, score=score, chunk=ordinal) for score, ordinal in scored]
            elif scored:
                found.append(_fold(memory.id, scored))
        return sorted(found, key=lambda match: (-match.score, match.id, match.chunk))[:limit]

    def match_vector(self, model: str, vector: Any, filters: Filters, limit: int) -> list[Match]:
        near: dict[tuple[str, int], list[tuple[float, int]]] = {}
        allowed = {memory.id for memory in self._satisfying(filters)}
        for (own, name, ordinal), row in self._vectors.items():
            if own == model and name in allowed:
                place = (name, ordinal if filters.source == RECORD else 0)
                near.setdefault(place, []).append((float(row @ vector), ordinal))
        found = [_fold(name, scored) for (name, _), scored in near.items()]
        return sorted(found, key=lambda match: (-match.score, match.id, match.chunk))[:limit]

    def phrases(self, heads: Collection[str], *, titles: bool, holds: Callable[[str], bool]) -> list[tuple[str, str]]:
        return sorted(
            (phrase.text, name)
            for name, document in self._documents.items()
            for phrase in document.phrases
            if phrase.head in heads and (titles or not phrase.is_title) and holds(phrase.text)
        )

    def near_duplicates(self, sketch: Sequence[int], *, shared: int, limit: int) -> list[str]:
        counts = {name: len(set(sketch) & set(document.sketch)) for name, document in self._documents.items()}
        found = [name for name, count in counts.items() if count >= shared]
        return sorted(found, key=lambda name: (-counts[name], name))[:limit]

    def generation(self) -> int:
        return self._generation

    def neighbors(
        self, ids: Sequence[str], *, hops: int, direction: str, relations: Sequence[str] = ()
    ) -> list[Neighbor]:
        links = [
            Link(edge.source, target, edge.relation, edge.strength, edge.evidence)
            for edge, target in self.edges()
            if target and (not relations or edge.relation in relations)
        ]
        return walk(ids, links, hops=hops, direction=direction)

    def edges(self, *names: str, relation: str = "", into: bool = False) -> list[tuple[Edge, str]]:
        stated = {
            (edge.source, edge.target, edge.relation): edge
            for document in self._documents.values()
            for edge in document.edges
        }
        outside = {(e.source, e.target, e.relation): e for e in self._links if e.source in self._documents}
        found = (outside | stated).values()
        wanted = [x for x in found if not names or (self._meant(x.target) if into else x.source) in names]
        ordered = sorted(wanted, key=lambda edge: (edge.source, edge.relation, edge.target))
        pairs = [(edge, self._meant(edge.target)) for edge in ordered if relation in ("", edge.relation)]
        return [(edge, meant) for edge, meant in pairs if meant or edge.kind != EdgeKind.NEIGHBOURS]

    def put_links(self, links: Sequence[Edge]) -> None:
        links = [replace(link, kind=EdgeKind.EXTERNAL) for link in links]
        self._generation += links != self._links
        self._links = links

    def put_renames(self, renames: Mapping[str, str]) -> None:
        self._generation += renames != self._renames
        self._renames = dict(renames)

    def chunks_to_embed(
        self, model: str, *, after: int, limit: int, record: bool = False, tokens: bool = False
    ) -> list[PendingChunk]:
        found, complete = [], self._with_tokens() if tokens else self._vectors.keys()
        for (name, ordinal), place in self._places.items():
            if self._is_of_record(name) == record and place > after and (model, name, ordinal) not in complete:
                key = self._keys[name, ordinal]
                found.append(PendingChunk(place=place, key=key, text=key))
        return sorted(found, key=lambda chunk: chunk.place, reverse=record)[:limit]

    def put_vectors(
        self, model: str, rows: Iterable[tuple[str, Any]], *, tokens: Mapping[str, bytes] = {}, only: bool = False
    ) -> None:
        with self._guard:
            size = next((len(row) for (own, _, _), row in self._vectors.items() if own == model), 0)
            fresh, places = {}, defaultdict(list)
            for place, key in self._keys.items():
                places[key].append(place)
            for key, row in rows:
                size = size or len(row)
                if len(row) != size:
                    raise StorageFailure(
                        f"The model {model} gave a vector of {len(row)} numbers; the index holds {size}.", ""
                    )
                stored = np.asarray(row, dtype="<f2").astype(np.float32)
                fresh.update({(model, *place): stored for place in places[key]})
            kept = {place: row for place, row in self._vectors.items() if not only or place[0] == model}
            self._vectors = fresh | kept
            self._tokens |= {(model, key): packed for key, packed in tokens.items()}
            self._generation += 1

    def vector_counts(self, *, record: bool = False) -> VectorCounts:
        models = Counter(model for model, name, _ in self._vectors if self._is_of_record(name) == record)
        chunks = sum(self._is_of_record(name) == record for name, _ in self._places)
        return VectorCounts(chunks, dict(sorted(models.items())), len(self._with_tokens()))

    def _with_tokens(self) -> set[tuple[str, str, int]]:
        """The vectors of texts that have token vectors of the same model."""
        return {place for place in self._vectors if (place[0], self._keys[place[1:]]) in self._tokens}

    def _is_of_record(self, name: str) -> bool:
        return self._documents[name].file.source == RECORD

    def _satisfying(self, filters: Filters) -> list[Memory]:
        with self._guard:
            memories = [_memory(document) for document in self._documents.values()]
        since = earliest(filters.since) if filters.since else ""
        until = latest(filters.until) if filters.until else ""
        folder = filters.folder.strip("/")
        is_in = _is_below if any(_is_below(each.id, folder) for each in memories) else _is_inside
        return [each for each in memories if is_in(each.id, folder) and _is_wanted(each, filters, since, until)]

    def _meant(self, reference: str) -> str:
        named = sorted(name for name in self._documents if name.rpartition("/")[2] == reference)
        meant = [reference, self._renames.get(reference, ""), *named]
        return next((name for name in meant if name in self._documents), "")

    def _remember_file(self, file: SourceFile, content_hash: str, memory_id: str, reason: str) -> None:
        self._sources[file.path] = file.source
        self._files[file.path] = FileState(
            path=file.path,
            source=file.source,
            size=file.size,
            mtime_ns=file.mtime_ns,
            content_hash=content_hash,
            memory_id=memory_id,
            reason=reason,
        )

    def _remove(self, name: str) -> None:
        for chunk in self._documents[name].chunks if name in self._documents else ():
            self._places.pop((name, chunk.ordinal), None)
            self._keys.pop((name, chunk.ordinal), None)
        self._documents.pop(name, None)
        self._vectors = {place: row for place, row in self._vectors.items() if place[1] != name}


class MemoryJournal:
    """The Journal port over rows by table."""

    def __init__(self, tables: dict[str, list[dict[str, Any]]], guard: threading.RLock) -> None:
        self._tables = tables
        self._guard = guard

    def record(
        self, entries: Sequence[Entry], jobs: Sequence[tuple[str, str]] = (), texts: Sequence[StoredText] = ()
    ) -> list[int]:
        with self._guard, undone_on_error(self._tables):
            numbers = [*map(self.append, entries)]
            for text in texts:
                self._store(text)
            for kind, key in jobs:
                self.enqueue(kind, key, {})
            return numbers

    def append(self, entry: Entry) -> int:
        ledger = self._tables["ledger"]
        number = len(ledger) + 1
        row = asdict(entry) | {"seq": number, "at": time.time(), "linked_memory_ids": list(entry.linked_memory_ids)}
        row["chain"] = _chain(ledger[-1]["chain"] if ledger else "", row)
        ledger.append(row)
        return number

    def history(
        self, memory_id: str = "", limit: int = -1, *, session: str = "", mark: str = "", new_hash: str = ""
    ) -> list[Row]:
        found: list[Row] = [
            dict(row)
            for row in reversed(self._tables["ledger"])
            if memory_id in ("", row["memory_id"]) and session in ("", row["session"])
            if mark in ("", row["decision_meta"].get("mark")) and new_hash in ("", row["new_hash"])
        ]
        return found if limit < 0 else found[:limit]

    def last_hashes(self) -> dict[str, str]:
        return {row["decision_meta"].get("file", row["memory_id"]): row["new_hash"] for row in self._tables["ledger"]}

    def prior_text(self, memory_id: str, content_hash: str) -> str | None:
        rows = (row["content"] for row in self._tables["contents"] if row["key"] == (memory_id, content_hash))
        found = next(rows, None)
        return None if found is None else str(found, "utf-8")

    def verify(self) -> tuple[int, int]:
        last = ""
        for number, row in enumerate(self._tables["ledger"], start=1):
            last = _chain(last, row)
            if last != row["chain"]:
                return number, number
        return len(self._tables["ledger"]), 0

    def reviews(self, ids: Sequence[str]) -> dict[str, Review]:
        return {row["memory_id"]: row["state"] for row in self._tables["reviews"] if row["memory_id"] in ids}

    def update_review(self, memory_id: str, change: Callable[[Review | None], ReviewState]) -> ReviewState:
        with self._guard:
            state = change(self.reviews([memory_id]).get(memory_id))
            self._forget_reviews(memory_id)
            if state:
                self._forget_reviews(state.memory_id)
                self._tables["reviews"].append({"memory_id": state.memory_id, "state": state})
            return state

    def enqueue(self, kind: str, key: str, payload: Mapping[str, Any], total: int = 0) -> int:
        with self._guard:
            rows = self._tables["jobs"]
            for row in rows:
                if (row["kind"], row["key"], row["state"]) == (kind, key, JobState.QUEUED):
                    return int(row["id"])
            number = 1 + max((row["id"] for row in rows), default=0)
            job = Job(id=number, kind=kind, key=key, payload=dict(payload), state=JobState.QUEUED, total=total)
            rows.append(asdict(job) | {"due": time.time(), "lease": 0.0, "created": time.time()})
            return number

    def claim(self, kinds: Sequence[str], lease_s: float) -> Job | None:
        with self._guard:
            now, rows = time.time(), self._tables["jobs"]
            running = {(row["kind"], row["key"]) for row in rows if self._is_running(row, now)}
            due = [
                row
                for row in rows
                if row["kind"] in kinds
                and (
                    (row["state"] == JobState.RUNNING and row["lease"] < now)
                    or (
                        row["state"] == JobState.QUEUED
                        and row["due"] <= now
                        and (row["kind"], row["key"]) not in running
                    )
                )
            ]
            if not due:
                return None
            row = min(due, key=lambda row: (kinds.index(row["kind"]), row["due"], row["id"]))
            row.update(state=JobState.RUNNING, attempts=row["attempts"] + 1, lease=now + lease_s)
            return _job(row)

    def renew_lease(self, job: Job, done: int, total: int, lease_s: float) -> bool:
        with self._guard:
            row = self._claimed(job)
            if row is not None:
                row.update(done=done, total=total, lease=time.time() + lease_s)
            return row is not None

    def finish(self, job: Job, state: JobState, error: str = "", retry_in_s: float | None = None) -> None:
        with self._guard:
            now, rows = time.time(), self._tables["jobs"]
            row = self._claimed(job)
            if row is not None:
                is_queued = state == JobState.QUEUED or retry_in_s is not None
                row.update(state=JobState.QUEUED if is_queued else state, error=error, due=now + (retry_in_s or 0.0))
                row["attempts"] -= state == JobState.QUEUED and retry_in_s is None
                if is_queued:
                    rows[:] = [other for other in rows if other is row or not self._waits_like(other, row)]
            rows[:] = [row for row in rows if row["state"] != JobState.DONE or row["due"] >= now - 30 * 86_400.0]
            for other in rows:
                is_like = (other["kind"], other["key"]) == (job.kind, job.key) and other["id"] < job.id
                if state == JobState.DONE and other["state"] == JobState.FAILED and is_like:
                    other["state"] = JobState.CANCELLED

    def jobs(self, states: Sequence[str] = (), *, number: int | None = None) -> list[Job]:
        rows = sorted(self._tables["jobs"], key=lambda row: -int(row["id"]))
        found = [_job(row) for row in rows if not states or row["state"] in states]
        return [job for job in found if number in (None, job.id)]

    def change_job(self, number: int, state: JobState) -> bool:
        allowed = {
            JobState.CANCELLED: (JobState.QUEUED, JobState.RUNNING, JobState.FAILED),
            JobState.QUEUED: (JobState.FAILED, JobState.CANCELLED),
        }[state]
        with self._guard:
            rows = self._tables["jobs"]
            row = next((row for row in rows if row["id"] == number and row["state"] in allowed), None)
            if row is None or (state == JobState.QUEUED and any(self._waits_like(other, row) for other in rows)):
                return False
            row["state"] = state
            if state == JobState.QUEUED:
                row.update(attempts=0, error="", due=time.time())
            return True

    def _claimed(self, job: Job) -> dict[str, Any] | None:
        rows = (row for row in self._tables["jobs"] if (row["id"], row["attempts"]) == (job.id, job.attempts))
        return next((row for row in rows if row["state"] == JobState.RUNNING), None)

    @staticmethod
    def _is_running(row: Mapping[str, Any], now: float) -> bool:
        return bool(row["state"] == JobState.RUNNING and row["lease"] >= now)

    @staticmethod
    def _waits_like(other: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
        like = (other["kind"], other["key"]) == (row["kind"], row["key"])
        return like and other is not row and other["state"] == JobState.QUEUED

    def _store(self, text: StoredText) -> None:
        key = (text.memory_id, text.content_hash)
        if all(row["key"] != key for row in self._tables["contents"]):
            content = text.text.text.encode()
            self._tables["contents"].append({"memory_id": text.memory_id, "key": key, "content": content})

    def _forget_reviews(self, *ids: str) -> None:
        rows = self._tables["reviews"]
        rows[:] = [row for row in rows if row["memory_id"] not in ids]


class MemorySessions:
    """The Sessions port over rows by table."""

    def __init__(self, tables: dict[str, list[Any]], guard: threading.RLock) -> None:
        self._guard = guard
        self._tables = tables

    def open(
        self, session: str, *, client: str = "", process: int = 0, now: float, silent_since: float | None = None
    ) -> Session:
        with self._guard:
            for known in self._rows("sessions"):
                if silent_since is not None and known.state == SessionState.ACTIVE and known.last_event < silent_since:
                    self._change(known.id, state=SessionState.INTERRUPTED)
            before = self.get(session)
            if before is None:
                others = [each for each in self._newest() if each.last_event <= now]
                continues = others[0].id if others else ""
                self._rows("sessions").append(
                    Session(
                        id=session, client=client, process=process, started=now, last_event=now, continues=continues
                    )
                )
            else:
                is_purged = before.state is SessionState.PURGED
                self._change(
                    session,
                    state=before.state if is_purged else SessionState.ACTIVE,
                    last_event=max(before.last_event, now),
                    client=client or before.client,
                    process=process or before.process,
                )
            return self._existing(session)

    def _open(self, seen: Observation, now: float) -> None:
        self.open(seen.session, client=seen.client, process=seen.process, now=now)
        if seen.kind is EventKind.END and self._existing(seen.session).state is not SessionState.PURGED:
            self._change(seen.session, state=SessionState.COMPLETED)

    def get(self, session: str) -> Session | None:
        return next((row for row in self._rows("sessions") if row.id == session), None)

    def latest(
        self,
        *,
        before: str = "",
        processes: Sequence[int] | None = None,
        limit: int = 1,
        with_work: bool = False,
        with_changes: bool = False,
    ) -> list[Session]:
        found, past = list[Session](), -math.inf
        for each in self._rows("sessions"):
            is_ahead = each.last_event > time.time() and past > -math.inf
            found.append(replace(each, last_event=past) if is_ahead else each)
            past = past if each.last_event > time.time() else max(past, each.last_event)
        found = [each for each in found[::-1] if each.id != before and each.state is not SessionState.PURGED]
        found.sort(key=lambda each: -each.last_event)
        if with_changes:
            found = [each for each in found if any(_is_change(item) for item in self.items(each.id))]
        if with_work:
            kinds = (EventKind.PROMPT, EventKind.TOOL, EventKind.ANSWER)
            found = [each for each in found if self.events(each.id, *kinds)]
        if processes is not None:
            wanted = set(processes) - {0}
            found = [each for each in found if each.state == SessionState.ACTIVE and each.process in wanted]
        return found[:limit]

    def tick(self, session: str, *, now: float, modulus: int, injected: Injected | None = None) -> int:
        with self._guard:
            known = self._existing(session)
            if injected:
                self._add_injected(injected)
            counter = (known.counter + 1) % modulus
            self._change(session, counter=counter, last_event=max(known.last_event, now))
            return counter

    def _remember(self, session: str, item: NewItem, admit: Admit, now: float, modulus: int) -> None:
        with self._guard:
            newcomer = replace(item, attention=min(1.0, max(0.0, item.attention)))
            counter = self._existing(session).counter % modulus
            admission = admit(self.items(session, held=True), newcomer, counter)
            rows = self._rows("items")
            for place, row in enumerate(rows):
                if row.session == session and row.number in admission.leaving:
                    rows[place] = replace(row, held=False)
            number = 1 + len(self.items(session))
            values = asdict(newcomer) | {"text": item.text.text}
            rows.append(Item(**values, session=session, number=number, event=counter, at=now, held=admission.admitted))

    def observe(self, seen: Observation, admit: Admit, *, now: float, modulus: int) -> bool:
        with self._guard, undone_on_error(self._tables):
            snapshot = copy.copy(self._rows("sessions"))
            self._open(seen, now)
            is_purged = self._existing(seen.session).state is SessionState.PURGED
            known = {
                row.call_id for row in self._rows("events") if row.session == seen.session and row.kind == seen.kind
            }
            if is_purged or (seen.call_id and seen.call_id in known):
                self._rows("sessions")[:] = snapshot
                self._open(seen, now)
                return False
            if seen.kind in (EventKind.START, EventKind.COMPACT):
                self._rows("shown")[:] = [row for row in self._rows("shown") if row[0] != seen.session]
            self._rows("events").append(
                RecordedEvent(
                    session=seen.session,
                    number=1 + len(self.events(seen.session)),
                    kind=seen.kind,
                    tool=seen.tool,
                    call_id=seen.call_id,
                    text=seen.text.text,
                    at=now,
                    path=seen.path,
                    failed=seen.failed,
                )
            )
            session = self._existing(seen.session)
            if seen.kind in (EventKind.TOOL, EventKind.PROMPT):
                self.tick(seen.session, now=now, modulus=modulus)
            if seen.task and not session.task:
                self._change(seen.session, task=seen.task.text)
            if seen.context_used is not None:
                self._change(seen.session, context_used=seen.context_used)
            if seen.injected:
                self._add_injected(seen.injected)
            if seen.item and not self._mention_held(seen.session, seen.item, now, modulus):
                self._remember(seen.session, seen.item, admit, now, modulus)
            return True

    def events(self, session: str, *kinds: EventKind) -> list[RecordedEvent]:
        rows = [row for row in self._rows("events") if row.session == session]
        return [row for row in rows if not kinds or row.kind in kinds]

    def find_calls(self, words: Sequence[str], limit: int) -> list[RecordedEvent]:
        calls = [row for row in self._rows("events") if row.kind == EventKind.TOOL]
        found = [row for row in calls if any(word.lower() in row.text.lower() for word in words)]
        return sorted(found, key=lambda row: (-row.at, -row.number))[:limit]

    def records(self, session: str = "") -> list[SessionRecord]:
        found = []
        for each in self._newest():
            if (events := self.events(each.id)) and session in ("", each.id):
                draft = next((row for row in self._rows("drafts") if row.session == each.id), None)
                kinds = {EventKind.TOOL} if draft and draft.memory_id else {EventKind.TOOL, EventKind.PROMPT}
                is_new = any(x.kind in kinds and x.number > (draft.events if draft else 0) for x in events)
                is_over = each.state != SessionState.ACTIVE
                last = max(event.number for event in events)
                found.append(SessionRecord(each.id, len(events), last, each.last_event, is_over, is_new, draft))
        return found

    def mention(self, session: str, number: int) -> None:
        for place, row in enumerate(self._rows("items")):
            if (row.session, row.number) == (session, number):
                self._rows("items")[place] = replace(row, mentions=row.mentions + 1)
                return
        raise NotFound(f"Session {session!r} has no item {number}.", "")

    def items(self, session: str, *, held: bool = False) -> list[Item]:
        return [row for row in self._rows("items") if row.session == session and row.held >= held]

    def record_draft(self, draft: Drafted) -> None:
        rows = self._rows("drafts")
        rows[:] = [*(row for row in rows if row.session != draft.session), draft]

    def mark_shown(
        self, session: str, hashes: Mapping[str, str], *, now: float, injected: Injected | None = None
    ) -> None:
        self._existing(session)
        self._rows("shown").extend((session, *pair, now) for pair in hashes.items())
        if injected:
            self._add_injected(injected)

    def hashes_shown(self, session: str, *, since: float = 0.0, until: float = math.inf) -> dict[str, str]:
        rows = {name: (digest, at) for own, name, digest, at in self._rows("shown") if own == session}
        newest = sorted(rows.items(), key=lambda row: -row[1][1])
        return dict([(name, digest) for name, (digest, at) in newest if since <= at <= until][:100])

    def _add_injected(self, row: Injected) -> None:
        self._existing(row.session)
        rows = self._rows("injected")
        for place, known in enumerate(rows):
            if (known.session, known.occasion) == (row.session, row.occasion):
                sums = {name: getattr(known, name) + getattr(row, name) for name in ("times", "tokens", "hits")}
                rows[place] = replace(known, **sums, at=max(known.at, row.at))
                return
        rows.append(row)

    def injections(self, session: str = "") -> list[Injected]:
        found = [row for row in self._rows("injected") if session in ("", row.session)]
        return sorted(found, key=lambda row: (row.session, row.occasion))

    def record_learning(self, row: Learning) -> None:
        rows = self._rows("learnings")
        key = (row.folder, row.task, row.phase)
        rows[:] = [*(known for known in rows if (known.folder, known.task, known.phase) != key), row]

    def learnings(self, folder: str, *, session: str = "") -> list[Learning]:
        found = [row for row in self._rows("learnings") if row.folder == folder and session in ("", row.session)]
        found.reverse()
        return sorted(found, key=lambda row: -row.at)

    def _rows(self, table: str) -> list[Any]:
        return self._tables[table]

    def _newest(self) -> list[Session]:
        newest_first = self._rows("sessions")[::-1]
        newest_first.sort(key=lambda session: -session.last_event)
        return newest_first

    def _existing(self, session: str) -> Session:
        found = self.get(session)
        if found is None:
            raise NotFound(f"There is no session {session!r}.", "Open it first.")
        return found

    def _change(self, session: str, **values: Any) -> None:
        rows = self._rows("sessions")
        place = next(place for place, row in enumerate(rows) if row.id == session)
        rows[place] = replace(rows[place], **values)

    def _mention_held(self, session: str, item: NewItem, now: float, modulus: int) -> bool:
        for held in self.items(session, held=True):
            is_same_file = held.kind == "file" and held.path and held.path == item.path
            if held.kind == item.kind and (held.text == item.text.text or is_same_file):
                self.mention(session, held.number)
                if item.source.extraction_rule_id == "edit":
                    place = self._rows("items").index(replace(held, mentions=held.mentions + 1))
                    values = {"text": item.text.text, "attention": item.attention, "source": item.source, "at": now}
                    event = self._existing(session).counter % modulus
                    self._rows("items")[place] = replace(self._rows("items")[place], **values, event=event)
                return True
        return False


class MemoryMaintenance:
    """The Maintenance port; what is in memory has no files to check and no rows to dump."""

    version = "memory"
    schema = 1

    def __init__(self, tables: dict[str, list[Any]], journal: MemoryJournal, guard: threading.RLock) -> None:
        self._tables = tables
        self._journal = journal
        self._guard = guard
        self._statuses: dict[str, StatusChange] = {}

    def check(self, database: DatabaseName, *, quick: bool = False) -> list[str]:
        return []

    def size_bytes(self, database: DatabaseName, *, tokens: bool = False) -> int:
        return 1

    def count_traces(self, database: DatabaseName, wipe: Wipe) -> dict[str, int]:
        counts = {name: len(self._touched(name, wipe)) for name in ("contents", "jobs", "ledger", "reviews")}
        return {name: count for name, count in counts.items() if count} if database == "journal" else {}

    def erase(self, wipe: Wipe, purge: Entry, files: Sequence[Entry] = ()) -> dict[str, int]:
        with self._guard:
            counts = self.count_traces("journal", wipe)
            facts: dict[str, Any] = {"rows": counts} if counts else {}
            ledger = self._tables["ledger"]
            if "ledger" in counts:
                facts["chain_before"] = ledger[-1]["chain"]
            for table in counts:
                for row in self._touched(table, wipe):
                    if table != "ledger" and row.get("memory_id") in wipe.memory_ids:
                        self._tables[table].remove(row)
                    else:
                        row.update({name: _cleaned(value, wipe) for name, value in row.items()})
            for table in ("events", "items", "drafts"):
                gone = [row for row in self._tables[table] if row.session in wipe.sessions]
                counts |= {table: len(gone)} if gone else {}
                self._tables[table][:] = [row for row in self._tables[table] if row not in gone]
            self._tables["sessions"][:] = [
                replace(row, state=SessionState.PURGED, task="", continues="", context_used=None)
                if row.id in wipe.sessions
                else row
                for row in self._tables["sessions"]
            ]
            last = ""
            for row in ledger:
                last = row["chain"] = _chain(last, row)
            for entry in (*files, replace(purge, decision_meta={**purge.decision_meta, **facts})):
                self._journal.append(entry)
            return counts

    def compact(self) -> list[Path]:
        return []

    def dump_rows(self) -> Iterator[tuple[str, Row]]:
        raise NotImplementedError

    @contextmanager
    def stage_rows(self, path: Path, schema: int, rows: Iterable[tuple[str, Row]]) -> Iterator[CommitRows]:
        yield lambda entries, clear: {}

    def record_statuses(self, seen: Mapping[str, str], *, now: float) -> dict[str, StatusChange]:
        for name, status in seen.items():
            known = self._statuses.get(name)
            if known is None or known.status != status:
                self._statuses[name] = StatusChange(status=status, was=known.status if known else "", at=now)
        return dict(self._statuses)

    def _touched(self, table: str, wipe: Wipe) -> list[dict[str, Any]]:
        return [
            row
            for row in self._tables[table]
            if (table != "ledger" and row.get("memory_id") in wipe.memory_ids) or _cleaned(row, wipe) != row
        ]


class MemoryStorage:
    """The ports over one folder."""

    _opened: dict[Path, MemoryStorage] = {}  # noqa: RUF012 - what stands for the disk

    def __init__(self) -> None:
        guard = threading.RLock()
        tables: dict[str, list[Any]] = defaultdict(list)
        self.index = MemoryIndex()
        self.journal = MemoryJournal(tables, guard)
        self.sessions = MemorySessions(tables, guard)
        self.maintenance = MemoryMaintenance(tables, self.journal, guard)

    @classmethod
    def open(cls, folder: Path) -> MemoryStorage:
        """The storage that stands for this folder."""
        return cls._opened.setdefault(folder, cls())

    def close(self) -> None:
        """There is nothing to release."""


@contextmanager
def undone_on_error(tables: dict[str, list[Any]]) -> Iterator[None]:
    """All rows are as before when the block raises."""
    before = {name: copy.copy(rows) for name, rows in tables.items()}
    try:
        yield
    except BaseException:
        for name, rows in tables.items():
            rows[:] = before.get(name, [])
        raise


def _fold(name: str, scored: Sequence[tuple[float, int]]) -> Match:
    """The best of the scores by ordinal, with the best part of the body and the question that is better."""
    ranked = sorted(scored, key=lambda each: (-each[0], each[1]))
    body = next((ordinal for _, ordinal in ranked if ordinal < QUESTIONS), -1)
    return Match(id=name, score=ranked[0][0], chunk=body, question=max(-1, ranked[0][1] - QUESTIONS))


def _memory(document: Document) -> Memory:
    names = set(Memory.__struct_fields__) & set(Document.__struct_fields__)
    file = document.file
    return Memory(
        **{name: getattr(document, name) for name in names},
        id=file.memory_id,
        source=file.source,
        path=file.path,
        artifact=file.artifact,
        length=len(document.body.text),
        writable=file.writable,
    )


def _is_change(item: Item) -> bool:
    return item.kind == ItemKind.COMMIT or item.source.extraction_rule_id == "edit"


def _is_below(memory_id: str, folder: str) -> bool:
    return not folder or memory_id == folder or memory_id.startswith(f"{folder}/")


def _is_inside(memory_id: str, folder: str) -> bool:
    return f"/{folder}/" in f"/{memory_id}"


def _is_wanted(memory: Memory, filters: Filters, since: str, until: str) -> bool:
    updated = f"{memory.updated}T00:00:00" if len(memory.updated) == 10 else memory.updated.rstrip("Z")
    topics = {topic.casefold() for topic in memory.topics}
    least = filters.min_quality_score
    return all(
        (
            not filters.tiers or memory.tier in filters.tiers,
            not filters.types or memory.type in filters.types,
            not filters.artifacts or memory.artifact in filters.artifacts,
            filters.include_deprecated or Tier.DEPRECATED in filters.tiers or memory.tier != Tier.DEPRECATED,
            topics >= {topic.casefold() for topic in filters.topics},
            memory.source == filters.source if filters.source else memory.source != RECORD,
            not since or updated >= since,
            not until or (memory.updated and updated <= until),
            filters.only is None or memory.id in filters.only,
            memory.id not in filters.exclude,
            least is None
            or memory.provenance.source == "file"
            or memory.quality is None
            or memory.quality.score >= least,
        )
    )


def _words(text: str) -> list[str]:
    return [word.rstrip("s") for word in query_terms(text.replace("\n", " "), limit=10**6)] + [
        word.rstrip("s") for word in "".join(c if c.isalnum() else " " for c in text).split()
    ]


def _is_hit(word: str, wanted: Sequence[str], is_prefix: bool) -> bool:
    stems = [each.rstrip("s") for each in wanted]
    return word.startswith(tuple(stems)) if is_prefix else word in stems


def _chain(before: str, row: Mapping[str, Any]) -> str:
    values = [value for name, value in sorted(row.items()) if name != "chain"]
    return hashlib.sha256(repr([before, values]).encode()).hexdigest()


def _job(row: Mapping[str, Any]) -> Job:
    return Job(**{name: row[name] for name in Job.__struct_fields__})


def _cleaned(value: Any, wipe: Wipe) -> Any:
    if isinstance(value, str):
        return wipe.traces.erase(value.encode()).decode()
    if isinstance(value, bytes):
        return wipe.traces.erase(value)
    if isinstance(value, dict):
        return {name: _cleaned(each, wipe) for name, each in value.items()}
    return type(value)(_cleaned(each, wipe) for each in value) if isinstance(value, list | tuple) else value
