"""One search over several memories: each ranks its own hits, and the most confident of all come first."""

from collections.abc import Mapping
from heapq import merge
from itertools import chain
from operator import attrgetter

from msgspec.structs import replace

from scrimshaw.engine import Engine, read
from scrimshaw.search.results import Hit, SearchRequest, SearchResult

_SURENESS = attrgetter("confidence")
SEPARATOR = ":"  # between a vault and an id in it; no id contains one


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
