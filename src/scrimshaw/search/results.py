"""Request and result of a search: hits with their explanations, fitted to a budget, and a trace."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.models import ArtifactClass, Channel, Degradation, Filters, Intent, ItemSource, Memory, Retention, Stage
from scrimshaw.search.periods import Period
from scrimshaw.storage.ports import Review


class SearchRequest(Struct, frozen=True, kw_only=True):
    """A search request, its types already validated."""

    query: str
    all_of: tuple[str, ...] = ()  #: concepts that must each occur in a memory
    filters: Filters = Filters()
    limit: int | None = None  #: hits from `offset` on; if None, the limit of the settings
    offset: int = 0
    channels: tuple[Channel, ...] = tuple(Channel)
    intent: Intent | None = None  #: what the answer is for: it is logged, and changes no ranking
    constitutional: bool = True
    #: Only the first page has session entries and the constitutional memories, among the hits if they surely answer.
    first: bool = True
    rerank: bool = True
    length_penalty: bool = True
    include_content: bool = False
    decay: bool = True  #: faded memories sink, and archived ones are left out without `include_archived`
    include_archived: bool = True
    min_state: Retention | None = None  #: applies without `decay` too
    state_limits: bool = False
    min_confidence: float = 0.0  #: if no hit is this likely to answer, there are none, only `nearest`
    record: bool = False  #: passages of recorded sessions too, unless a filter asks for what only memories have


class Explanation(Struct, frozen=True, kw_only=True):
    """Why a hit ranks where it does: its score is (fused + terms, at least 0) x factors x (1 + boosts)."""

    ranks: Mapping[str, int]  #: rank (from 1) and engine score in each channel that found it
    raw: Mapping[str, float]
    fused: float  #: the fusion of the channels, 0..1
    terms: Mapping[str, float] = {}  #: added terms, then factors and boosts of the sum
    factors: Mapping[str, float] = {}
    boosts: Mapping[str, float] = {}
    phrases: tuple[str, ...] = ()  #: its trigger phrases that occur in the query
    answers: str = ""  #: its question that is nearer to the query than its text
    source: ItemSource | None = None  #: the tool call that an entry of a session's record came from


class Hit(Struct, frozen=True, kw_only=True, eq=False):
    """A memory that answers a query; `text` is its best chunk or, when asked for, the content. Compared by identity."""

    memory: Memory
    score: float
    text: str
    explanation: Explanation
    anchor: str = ""
    heading: str = ""
    always_on: bool = False
    state: Retention = Retention.HOT
    confidence: float = 0.0  #: the probability 0..1 that it answers
    digest: str = ""  #: names the passage in `text`; empty where only a part of it was cut out
    superseded_by: tuple[str, ...] = ()  #: memories, found or not, that state to supersede it
    is_known: bool = False  #: the session has seen the passage, so `text` is a sentence of it


class PeerHit(Struct, frozen=True, kw_only=True):
    """A hit of another memory server: its own text, or a memory of ours that it has a copy of."""

    peer: str
    id: str  #: `peer:NAME/ID`; the memory's own id if it is ours
    title: str
    text: str
    marks: tuple[str, ...] = ()  #: the peer's labels of it, among them the project whose copy it is


# From the ids of all candidates, and the scores of the few best that answer by themselves, to the boosts by name.
Boosts = Callable[[Sequence[str], Mapping[str, float]], Mapping[str, Mapping[str, float]]]


class SessionSignals(Struct, frozen=True, kw_only=True):
    """What the session and the current time add to a search."""

    now: float = 0.0  #: seconds since 1970; nothing fades without it
    reviews: Callable[[Sequence[str]], Mapping[str, Review]] | None = None  #: review states by id
    boosts: Boosts | None = None
    dark_boosts: Boosts | None = None  #: those of a session that gets all; only to log the order that they would give
    #: The asking session, and the number of the first event that is in its context.
    in_context: tuple[str, int] = ("", 0)
    recalled: tuple[Hit, ...] = ()  #: hits from the session's own record, which memories never push out
    read_prompts: Callable[[], Iterable[tuple[Memory, str]]] = tuple  #: of the asking session; they are no hits


class StageTrace(Struct, frozen=True, kw_only=True):
    """One stage of a search: how many memories entered and left it, how long it took, and what it noted."""

    stage: Stage
    entered: int
    left: int
    ms: float
    notes: Mapping[str, object] = {}


class StateLine(Struct, frozen=True, kw_only=True):
    """One thing to know of a session, and the item or event it comes from (`session:SID/N`, `session:SID#eN`)."""

    part: str
    text: str
    origin: str
    trust: str


class SearchResult(Struct, frozen=True, kw_only=True):
    """The answer to a search, best hit first."""

    hits: tuple[Hit, ...]
    always_on: tuple[Hit, ...]  #: constitutional memories, which come before the hits
    confidence: float = 0.0  #: of its surest hit, 0..1
    nearest: tuple[Hit, ...] = ()  #: the best results, if none is sure enough to be a hit
    intent: Intent | None = None  #: as given in the request
    artifact: ArtifactClass | None
    offset: int
    next_offset: int | None  #: offset of the next page, which begins with what was left out here
    omitted: int = 0  #: hits of the page that were left out
    archived: int = 0  #: memories that match by words, but are left out because they have faded
    trace: tuple[StageTrace, ...]
    degradations: tuple[Degradation, ...]
    period: Period | None = None  #: the days that the query names, if sessions may answer it
    state: tuple[StateLine, ...] = ()  #: where the last session ended, or what those of the named days did
    peers: tuple[PeerHit, ...] = ()  #: hits of other memory servers; they never change `hits`
    sources: Mapping[str, float] = {}  #: the peers that answered, and how many seconds ago

    def keep_hits(self, hits: Sequence[Hit]) -> "SearchResult":
        """The answer with only these, cut as they are, of its first hits."""
        reached = [*map(attrgetter("memory.id"), self.hits)].index(hits[-1].memory.id) + 1 if hits else 0
        known = ["session" not in hit.explanation.ranks and not hit.always_on for hit in self.hits]
        following = self.next_offset if not any(known[reached:]) else self.offset + sum(known[:reached])
        rules = [hit for hit in self.hits[reached:] if hit.always_on]
        omitted, always_on = len(self.hits) - reached - len(rules), (*self.always_on, *rules)
        return replace(self, hits=tuple(hits), always_on=always_on, omitted=omitted, next_offset=following)
