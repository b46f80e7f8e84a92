"""What a search answers: hits with their explanations, and a trace of its stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from scrimshaw.models import ArtifactClass, Channel, Degradation, Filters, Intent, ItemSource, Memory, Retention, Stage
from scrimshaw.storage.ports import Review


class SearchRequest(Struct, frozen=True, kw_only=True):
    """A search as asked, already validated in its types.

    `limit` counts hits from `offset` on (that of the settings without one), `token_budget` the tokens of all; `all_of`
    are concepts that must each stand in a memory. With `decay` what has faded sinks, and what is archived is left out
    unless asked for; `min_state` holds without it too. Of a search in pages the `first` alone brings entries of the
    session's record and the constitutional memories that stand before the hits, which no page has as hits.
    """

    query: str
    all_of: tuple[str, ...] = ()
    filters: Filters = Filters()
    limit: int | None = None
    offset: int = 0
    channels: tuple[Channel, ...] = tuple(Channel)
    intent: Intent | None = None
    artifact: ArtifactClass | None = None
    constitutional: bool = True
    first: bool = True
    rerank: bool = True
    length_penalty: bool = True
    include_content: bool = False
    excerpt_tokens: int | None = None
    token_budget: int | None = None
    decay: bool = True
    include_archived: bool = False
    min_state: Retention | None = None
    state_limits: bool = False


class Explanation(Struct, frozen=True, kw_only=True):
    """Why a hit stands where it stands.

    `ranks` (from 1) and `raw` scores are those of each channel that found it, `fused` is their fusion in 0..1,
    `factors` lowered it, `boosts` lifted it, `phrases` are the trigger phrases that stood in the query; `source` is
    the tool call that an entry of a session's record came from.
    """

    ranks: Mapping[str, int]
    raw: Mapping[str, float]
    fused: float
    factors: Mapping[str, float] = {}
    boosts: Mapping[str, float] = {}
    phrases: tuple[str, ...] = ()
    source: ItemSource | None = None


class Hit(Struct, frozen=True, kw_only=True):
    """A memory that answers a query; `text` is an excerpt or, when asked for, the content."""

    memory: Memory
    score: float
    anchor: str
    heading: str
    text: str
    tokens: int
    explanation: Explanation
    always_on: bool = False
    state: Retention = Retention.HOT


# The ids of all candidates, and the scores of the few best that answer the query themselves, to the boosts by name.
Boosts = Callable[[Sequence[str], Mapping[str, float]], Mapping[str, Mapping[str, float]]]


class Surroundings(Struct, frozen=True, kw_only=True):
    """What the moment adds to a search.

    `now` is in seconds since 1970; `reviews` answers review states by id; `boosts` names what lifts a hit;
    `recalled` are hits out of the session's own record, which memories never push out.
    """

    now: float = 0.0
    reviews: Callable[[Sequence[str]], Mapping[str, Review]] | None = None
    boosts: Boosts | None = None
    recalled: tuple[Hit, ...] = ()


class StageTrace(Struct, frozen=True, kw_only=True):
    """One stage of a search: how many memories entered and left it, how long it took, and what it noted."""

    stage: Stage
    entered: int
    left: int
    ms: float
    notes: Mapping[str, object] = {}


class SearchResult(Struct, frozen=True, kw_only=True):
    """The answer to a search, best hit first; always-on memories stand before the hits.

    `omitted` hits did not fit the token budget. The next page begins at `next_offset`, None where there is none: what
    did not fit here stands there, but for a hit whose name and title alone are more than the budget.
    """

    hits: tuple[Hit, ...]
    always_on: tuple[Hit, ...]
    intent: Intent
    confidence: float
    artifact: ArtifactClass | None
    tokens: int
    omitted: int
    next_offset: int | None
    trace: tuple[StageTrace, ...]
    degradations: tuple[Degradation, ...]
