"""What a search is asked and what it answers: hits with their explanations, fitted to a budget, and a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.models import ArtifactClass, Channel, Degradation, Filters, Intent, ItemSource, Memory, Retention, Stage
from scrimshaw.search.tokens import clip, count_tokens
from scrimshaw.storage.ports import Review


class SearchRequest(Struct, frozen=True, kw_only=True):
    """A search as asked, its types already validated."""

    query: str
    all_of: tuple[str, ...] = ()  #: concepts that must each occur in a memory
    filters: Filters = Filters()
    limit: int | None = None  #: hits from `offset` on; the limit of the settings where None
    offset: int = 0
    channels: tuple[Channel, ...] = tuple(Channel)
    intent: Intent | None = None
    artifact: ArtifactClass | None = None
    constitutional: bool = True
    #: The first page alone brings session entries, and the constitutional memories that no page has among its hits.
    first: bool = True
    rerank: bool = True
    length_penalty: bool = True
    include_content: bool = False
    excerpt_tokens: int | None = None
    token_budget: int | None = None  #: tokens of all hits together
    decay: bool = True  #: what faded sinks, and archived memories are left out unless `include_archived`
    include_archived: bool = False
    min_state: Retention | None = None  #: holds without `decay` too
    state_limits: bool = False


class Explanation(Struct, frozen=True, kw_only=True):
    """Why a hit has its place."""

    ranks: Mapping[str, int]  #: rank (from 1) and engine score in each channel that found it
    raw: Mapping[str, float]
    fused: float  #: the fusion of the channels, 0..1
    factors: Mapping[str, float] = {}  #: what lowered and what lifted it
    boosts: Mapping[str, float] = {}
    phrases: tuple[str, ...] = ()  #: its trigger phrases that occur in the query
    source: ItemSource | None = None  #: the tool call that an entry of a session's record came from


class Hit(Struct, frozen=True, kw_only=True):
    """A memory that answers a query; `text` is an excerpt or, when asked for, the content."""

    memory: Memory
    score: float
    text: str
    tokens: int
    explanation: Explanation
    anchor: str = ""
    heading: str = ""
    always_on: bool = False
    state: Retention = Retention.HOT


# The ids of all candidates, and the scores of the few best that answer the query themselves, to the boosts by name.
Boosts = Callable[[Sequence[str], Mapping[str, float]], Mapping[str, Mapping[str, float]]]


class SessionContext(Struct, frozen=True, kw_only=True):
    """What the moment and the session add to a search."""

    now: float = 0.0  #: seconds since 1970; nothing fades without it
    reviews: Callable[[Sequence[str]], Mapping[str, Review]] | None = None  #: review states by id
    boosts: Boosts | None = None
    recalled: tuple[Hit, ...] = ()  #: hits from the session's own record, which memories never push out


class StageTrace(Struct, frozen=True, kw_only=True):
    """One stage of a search: how many memories entered and left it, how long it took, and what it noted."""

    stage: Stage
    entered: int
    left: int
    ms: float
    notes: Mapping[str, object] = {}


class SearchResult(Struct, frozen=True, kw_only=True):
    """The answer to a search, best hit first."""

    hits: tuple[Hit, ...]
    always_on: tuple[Hit, ...]  #: constitutional memories, which come before the hits
    intent: Intent
    confidence: float
    artifact: ArtifactClass | None
    tokens: int
    omitted: int  #: hits that did not fit the token budget
    #: Where the next page begins, with what did not fit here; hits whose title alone exceeds the budget are skipped.
    next_offset: int | None
    trace: tuple[StageTrace, ...]
    degradations: tuple[Degradation, ...]


def fit_budget(hits: Sequence[Hit], budget: int | None) -> tuple[tuple[Hit, ...], int, int]:
    """The first hits that fit, their tokens, and how many hits were used up from the front; None fits all.

    The first is cut to the budget; one whose title alone exceeds it is skipped, since no page can hold it.
    """
    page: list[Hit] = []
    used = consumed = 0
    for consumed, hit in enumerate(hits, start=1):
        label = hit.memory.label_tokens
        if budget is None or used + hit.tokens <= budget:
            page.append(hit)
            used += hit.tokens
        elif page and label <= budget:
            return tuple(page), used, consumed - 1
        elif not page:
            text = clip(hit.text, max(budget - label, 0))
            tokens = label + count_tokens(text)
            if tokens <= budget:
                return (replace(hit, text=text, tokens=tokens),), tokens, consumed
    return tuple(page), used, consumed
