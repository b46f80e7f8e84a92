"""The single entry for searches: the project's memory, or several vaults, and hits that peers add within a deadline."""

import time
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, zip_longest
from operator import attrgetter
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import PeerSettings, Settings
from scrimshaw.engine import Engine, read
from scrimshaw.errors import NoSemanticSearch, NotFound, PeerFailed
from scrimshaw.ingest.comparison import count_tokens, find_heads, hash_normalised_text
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Channel, Degradation, Filters, Memory, Provenance, Session, Trust, format_time
from scrimshaw.router.copies import MARK, IdMap, label_copies
from scrimshaw.router.kinds import PREFIX
from scrimshaw.search.results import Hit, PeerHit, SearchRequest, SearchResult
from scrimshaw.search.tokens import STEM, count_shared, query_terms

_SPARE = 7  # hits to ask for beyond those wanted, as some are copies of own memories
# Servers that search by meaning always answer. Of true answers to judged queries 95 to 99 of 100 have this share of the
# words, of the nearest texts on other subjects 2 to 18, or 68 to queries of four words.
LEAST_SHARED = 0.2
_SURENESS = attrgetter("confidence")
SEPARATOR = ":"  # between a vault and an id in it; no id contains one


class SourceStatus(Struct, frozen=True, kw_only=True):
    """A place that a search reads from; for a peer `memories` counts the copies of ours there."""

    name: str
    kind: Literal["folder", "journal", "peer"]
    place: str = ""  #: folder, address or command; empty for the journal's
    memories: int
    answered_ms: float | None = None  #: how long a peer took, with its start; None if it did not answer
    synced: str = ""  #: when a copy last changed at a peer, ISO in UTC; empty for never
    fault: str = ""  #: why it did not answer
    exit_code: int = 0


def list_sources(engine: Engine) -> Iterator[SourceStatus]:
    """The folders, the sessions in the journal, and each peer, which is asked and waited for."""
    start_peers(engine.settings)  # all at once: some take seconds
    counts = engine.index.count(Filters(), by="source")
    for source in engine.sources:
        # A writable one is created by the first memory.
        fault = "" if source.writable or source.root.is_dir() else "there is no such folder"
        count = counts.pop(source.name, 0)
        yield SourceStatus(name=source.name, kind="folder", place=str(source.root), memories=count, fault=fault)
    yield from (SourceStatus(name=name, kind="journal", memories=count) for name, count in counts.items())
    yield from (probe_peer(engine, stated) for stated in engine.settings.peers)


def probe_peer(engine: Engine, stated: PeerSettings) -> SourceStatus:
    """Whether a peer answers, and how many copies of ours it has."""
    from scrimshaw.router.peer_copies import find_id_map  # noqa: PLC0415 - asyncio, for who has peers
    from scrimshaw.router.peers import connect_peer  # noqa: PLC0415 - as above

    known = IdMap(find_id_map(engine.settings.home, stated, label_copies(engine.settings.project)))
    synced = format_time(known.path.stat().st_mtime) if known.copies else ""
    place, copies = stated.url or " ".join(stated.command), len(known.copies)
    status = SourceStatus(name=stated.name, kind="peer", place=place, memories=copies, synced=synced)
    try:
        took_s = connect_peer(stated, engine.settings.router).probe()
    except PeerFailed as error:
        return replace(status, fault=error.message, exit_code=error.exit_code)
    return replace(status, answered_ms=round(took_s * 1000, 1))


def start_peers(settings: Settings) -> None:
    """Connect to the peers before the first question: some take seconds to start."""
    if settings.peers:
        from scrimshaw.router.peers import connect_peer  # noqa: PLC0415 - asyncio, for who has peers

        for peer in settings.peers:
            connect_peer(peer, settings.router).start()


def search(
    engine: Engine, request: SearchRequest, session: Session | None = None, *, wait_s: float = 0.0
) -> SearchResult:
    """The best memories for a query, and the peers' hits; `wait_s` is the time for peers that have to start.

    Peers are asked unless channels leave out vectors, or filters, concepts or pages ask for what only memories have.
    Raises InvalidRequest for a query that cannot be searched, NoSemanticSearch if only meaning was asked for and
    nothing can search by it.
    """
    if engine.vaults:
        return search_vaults(engine.vaults, request)
    is_open = request.filters == Filters() and request.first and not request.all_of
    if is_open and engine.settings.peers and Channel.VECTOR in request.channels:
        result = search_with_peers(engine, request, session, wait_s)
    else:
        result = read.search(engine, request, session)
    is_semantic = not {Channel.TEXT, Channel.TRIGGER}.intersection(request.channels)
    if is_semantic and isinstance(engine.embedder, Degradation) and not result.sources:
        hint = "Search by words too, or start a peer; `scrimshaw doctor` says why there are no vectors."
        raise NoSemanticSearch("Neither vectors nor a peer can search by meaning now.", hint)
    return result


def get_from_peer(engine: Engine, memory_id: str) -> read.MemoryText:
    """The entry of a peer with an id such as `peer:NAME/17`; raises NotFound or PeerFailed."""
    name, _, native_id = memory_id.removeprefix(PREFIX).partition("/")
    stated = next((peer for peer in engine.settings.peers if peer.name == name), None)
    if stated is None:
        raise NotFound(f"There is no peer {name!r}.", "Search again.", id=memory_id)
    from scrimshaw.router.peers import connect_peer  # noqa: PLC0415 - asyncio, for who has peers

    limits = engine.settings.router
    try:
        hit = connect_peer(stated, limits).read(native_id, limits.start_s + limits.deadline_ms / 1000)
    except PeerFailed as error:
        raise type(error)(f"The peer {name} gave nothing: {error.message}", error.hint) from error
    text, title = redact(hit.text), redact(hit.title or native_id)
    memory = Memory(
        id=memory_id,
        source="peer",
        path="",
        title=title.text,
        provenance=Provenance(source=name, trust=Trust.WEB),
        tokens=count_tokens(text.text),
        length=len(text.text),
    )
    return read.MemoryText(memory=memory, body=text.text, content_hash="", redacted=text.classes)


def search_with_peers(engine: Engine, request: SearchRequest, session: Session | None, wait_s: float) -> SearchResult:
    """A search while peers work on the same query, and their answers that came in time."""
    from scrimshaw.router.peers import connect_peer  # noqa: PLC0415 - asyncio, for who has peers

    limits, began = engine.settings.router, time.monotonic()
    query = redact(engine.searcher.validate(request.query)).text
    wanted = (request.limit or engine.settings.search.limit) + _SPARE
    peers = [connect_peer(peer, limits) for peer in engine.settings.peers]
    questions = [(peer, peer.begin(query, wanted, engine.index.generation())) for peer in peers]
    result = read.search(engine, request, session)
    answers, sources, lost = list[Sequence[PeerHit]](), dict[str, float](), list[Degradation]()
    for peer, question in questions:
        patience_s = limits.deadline_ms / 1000 + (0.0 if peer.is_open else wait_s)
        try:
            found, age = peer.finish(question, max(0.0, began + patience_s - time.monotonic()))
        except PeerFailed as error:
            loss = Degradation(
                failure_mode=f"peer_silent ({peer.name}): {error.message}",
                fallback_mode="own memories, and peers that answer",
                confidence_impact=f"what only {peer.name} knows is missing",
                retry_recommendation=error.hint or "Look at the peer's own log.",
            )
            lost.append(loss)
        else:
            answers.append(found)
            sources[peer.name] = round(age, 1)
    added = choose_added(engine, query, result, answers, limits.slots if result.hits else wanted - _SPARE)
    return replace(result, peers=added, sources=sources, degradations=(*result.degradations, *lost))


def choose_added(
    engine: Engine, query: str, own: SearchResult, answers: Sequence[Sequence[PeerHit]], slots: int
) -> tuple[PeerHit, ...]:
    """The peers' hits to add to the own ones, in turn and without duplicates or what is on another subject.

    A copy of a memory, recognised by id as title, by id and title, or by its text, is left to the own search: it
    is only returned, as that memory, if there are no vectors to find it by, and never if a search would hide it. One
    labelled as a copy of another project counts as one of this project only by its text, and is told with its project.
    """
    hits = [hit for hit in chain.from_iterable(zip_longest(*answers)) if hit]
    label = label_copies(engine.settings.project)
    names = [list_possible_names(hit, label) for hit in hits]
    known = engine.index.get([*{*chain.from_iterable(names)}])
    found = list[tuple[PeerHit, str, str]]()  # each with the memory that it is a copy of, if any, and its digest
    for hit, possible in zip(hits, names, strict=True):
        digest = hash_normalised_text(parse_memory_file(hit.text).body)
        named = next((name for name in possible if name in known and hit.title in (name, known[name].title)), "")
        found.append((hit, named or next(iter(engine.index.find_ids(text_hash=digest)), ""), digest))
    quality = engine.settings.search.min_quality_score
    only = tuple({copy for _, copy, _ in found} - {""}) if isinstance(engine.embedder, Degradation) else ()
    visible = {memory.id: memory for memory in engine.index.select(Filters(only=only, min_quality_score=quality))}
    bodies = engine.index.bodies([*visible])
    # The beginnings of the query's words; of a script without spaces, its characters.
    stems = {word[:STEM] for word in find_heads(" ".join(query_terms(query)))}
    seen, added = {hit.memory.id for hit in (*own.always_on, *own.hits)}, list[PeerHit]()
    for hit, copy, digest in found:
        mark = copy or digest
        if mark in seen or (copy and copy not in visible):
            continue
        seen.add(mark)
        if copy:
            added.append(replace(hit, id=copy, title=visible[copy].title, text=bodies.get(copy, "")))
        elif count_shared(f"{hit.title}\n{hit.text}", stems) >= LEAST_SHARED * len(stems):
            project = find_other_label(hit, label).removeprefix(MARK).rpartition("-")[0]
            title = f"{hit.title}, of the project {project}" if project else hit.title
            added.append(replace(hit, title=redact(title).text, text=redact(hit.text).text))
    return tuple(added[:slots])


def list_possible_names(hit: PeerHit, label: str) -> tuple[str, ...]:
    """The ids of memories of which this may be a copy; none if its label is another project's."""
    native_id = hit.id.partition("/")[2]
    if native_id.startswith(f"{label}/"):
        return (native_id.removeprefix(f"{label}/"),)
    return () if find_other_label(hit, label) else (hit.title, native_id)


def find_other_label(hit: PeerHit, label: str) -> str:
    """The label of the other project that this is a copy of, empty for what is no such copy."""
    labels = [mark.partition("/")[0] for mark in (hit.id.partition("/")[2], *hit.marks) if mark.startswith(MARK)]
    return "" if label in labels else next(iter(labels), "")


def search_vaults(vaults: Mapping[str, Engine], request: SearchRequest) -> SearchResult:
    """The best memories of all vaults, each named `VAULT:ID`; raises InvalidRequest if it cannot be searched.

    Scores only compare within a vault's candidates; the probability that a hit answers compares across vaults. Each
    vault keeps its own order: of the vaults' next hits, the most confident comes next.
    """
    limit = request.limit or next(iter(vaults.values())).settings.search.limit
    deep = replace(request, offset=0, limit=request.offset + limit)
    results = [_name_vault(name, read.search(engine, deep)) for name, engine in vaults.items()]
    hits = list(merge(*(result.hits for result in results), key=_SURENESS, reverse=True))
    has_more = len(hits) > request.offset + limit or any(result.next_offset is not None for result in results)
    page = hits[request.offset : request.offset + limit]
    nearest = sorted(chain.from_iterable(result.nearest for result in results), key=_SURENESS, reverse=True)
    return replace(
        results[0],
        hits=tuple(page),
        always_on=tuple(chain.from_iterable(result.always_on for result in results)),
        confidence=max(result.confidence for result in results),
        nearest=() if hits else tuple(nearest),
        offset=request.offset,
        next_offset=request.offset + limit if page and has_more else None,
        archived=sum(result.archived for result in results),
        trace=tuple(chain.from_iterable(result.trace for result in results)),
        degradations=tuple(chain.from_iterable(result.degradations for result in results)),
    )


def _name_vault(vault: str, result: SearchResult) -> SearchResult:
    """The result with the vault's name in every id, in its trace and in its degradations."""

    def name(hit: Hit) -> Hit:
        later = tuple(f"{vault}{SEPARATOR}{each}" for each in hit.superseded_by)
        return replace(hit, memory=replace(hit.memory, id=f"{vault}{SEPARATOR}{hit.memory.id}"), superseded_by=later)

    hits = {part: tuple(map(name, getattr(result, part))) for part in ("hits", "always_on", "nearest")}
    trace = (replace(stage, notes={**stage.notes, "vault": vault}) for stage in result.trace)
    faults = (replace(each, failure_mode=f"{vault}: {each.failure_mode}") for each in result.degradations)
    return replace(result, **hits, trace=tuple(trace), degradations=tuple(faults))
