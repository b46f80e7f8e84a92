"""A search, stage by stage: candidate, filter, fusion, rerank, fallback, final-rank."""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, chain
from operator import attrgetter, itemgetter

from msgspec.structs import asdict, replace

from scrimshaw.config import Settings
from scrimshaw.errors import InvalidRequest, ScrimshawError
from scrimshaw.ingest.comparison import count_tokens
from scrimshaw.models import QUESTIONS, Channel, Degradation, Filters, Match, Relation, Retention, Stage, Tier, Trust
from scrimshaw.search import lineage, rerank
from scrimshaw.search.candidates import Candidate, CandidateFinder, SearchState, presence, tokens_pending
from scrimshaw.search.confidence import CALIBRATIONS, NAMED, has_identifier, judge_answer
from scrimshaw.search.degradation import Degradations, IndexPart
from scrimshaw.search.embedders import Embedder
from scrimshaw.search.fusion import DIGITS, OTHER_WORDS, Fused, fuse, scale_scores
from scrimshaw.search.passages import CODES, SENTENCE, cut_passage, find_copies, find_revoked, list_open_items
from scrimshaw.search.periods import find_period
from scrimshaw.search.results import Boosts, Explanation, Hit, SearchRequest, SearchResult, SessionSignals
from scrimshaw.search.routing import LISTS, route
from scrimshaw.search.token_vectors import compare_vectors, match_tokens
from scrimshaw.search.tokens import find_names, query_terms
from scrimshaw.storage.index import Index
from scrimshaw.storage.ports import Piece, Query, Review

SEEDS = 5  # hits whose causal neighbours are looked at; more seeds lift what answers nothing
# Beside a sure hit others are shown that are at least this part of the asked confidence sure; of fewer passages than
# FEW, among which the others hardly answer, it is more, by the square root of how many fewer (docs/evaluation.md).
BESIDE, MOST_BESIDE, FEW = 0.04, 0.3, 2_000
PENDING = 0.4  # the part of the asked confidence that is enough while many vectors are missing (docs/evaluation.md)
FALL = 4  # a hit is as sure as the answer times its share of the best score to this power (docs/evaluation.md)
NEAREST = 3  # hits that are named where nothing is sure to answer
RECALLED_STAY = 3  # so many hits from the session's record stay, however good the memories are
GATHERED = 0.5  # the part of the way up to the best hit that others of its session go (docs/evaluation.md)
PREFIX = 0.5  # a word that only begins like one of the query's says half as much
NO_SIGNALS = SessionSignals()
ALL_OF_LIMIT = 1000

STRICT_MAX, ANY_LENGTH = 500, 20_000  # characters of a query, with `strict_queries` and without

_NO_PIECE = Piece(anchor="", heading="", text="")
_STATES = list(Retention)
_STRICT, _CONTROL = re.compile(r"[\w\s\-.,()&:]+", re.ASCII), re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f]")


class Searcher:
    """Searches one index. Safe to use from several threads."""

    def __init__(self, index: Index, settings: Settings, embedder: Embedder | Degradation) -> None:
        self._index, self._settings, self._forgetting = index, settings.search, settings.forgetting
        self._has_tokens = settings.index.token_vectors > 0
        hops = settings.session.causal_hops
        self._finder = CandidateFinder(index, embedder, depth=settings.search.candidates, hops=hops)
        self._model = "" if isinstance(embedder, Degradation) else embedder.model
        self._always_on: tuple[int, tuple[Hit, ...]] = (-1, ())

    def search(self, request: SearchRequest, signals: SessionSignals = NO_SIGNALS) -> SearchResult:
        """The best memories for a query; raises InvalidRequest for one that cannot be searched."""
        return self.search_both(request, signals)[0]

    def search_both(self, request: SearchRequest, signals: SessionSignals) -> tuple[SearchResult, SearchResult | None]:
        """The answer, and the one with the boosts that the session does not get; only the last stage runs for it."""
        state = self._begin(request, signals)
        self._finder.find(state)
        depth, weights = self._settings.candidates, state.profile.weights
        found = fuse(state.lists, weights, depth, without_vector=state.without_vector)
        sizes = {str(channel): len(matches) for channel, matches in state.lists.items()}
        state.note(Stage.CANDIDATE, 0, len(found), channels=sizes)
        known = self._look_up(state, found[:depth])
        if len(known) < depth:  # some have faded, or are gone
            known |= self._look_up(state, found[depth:])
        anything = asdict(Filters())
        conditions = {name: value for name, value in asdict(state.filters).items() if value != anything[name]}
        state.note(Stage.FILTER, len(found), len(known), conditions=conditions)
        candidates = self._add_neighbours(state, [item for item in found if item.id in known][:depth], known)
        ranked = self._rank(state, candidates)
        state.note(Stage.RERANK, len(candidates), len(ranked), lowered=sum(bool(each.factors) for each in ranked))
        ranked = self._fall_back(state, ranked)
        if not (signals.dark_boosts and request.first):
            return self._answer(state, ranked, signals.boosts), None
        copies, apart = [replace(each) for each in ranked], replace(state, degradations=Degradations(), trace=[])
        result = self._answer(state, ranked, signals.boosts)
        with suppress(ScrimshawError):  # it is only logged, so it must not cost the answer
            return result, self._answer(apart, copies, signals.dark_boosts)
        return result, None

    def validate(self, query: str) -> str:
        """The query without surrounding space; raises InvalidRequest when it cannot be searched."""
        query = query.strip()
        longest = min(self._settings.query_max, STRICT_MAX if self._settings.strict_queries else ANY_LENGTH)
        if not 1 <= len(query) <= longest:
            problem = f"A query has 1 to {longest} characters; this one has {len(query)}."
            hint = "Ask in a sentence or a few words."
        elif _CONTROL.search(query):
            problem, hint = "The query holds control characters.", "Send plain text."
        elif self._settings.strict_queries and not _STRICT.fullmatch(query):
            problem = "The query holds characters outside letters, digits and - . , _ ( ) & : and space."
            hint = "Rephrase it, or switch off search.strict_queries."
        else:
            return query
        raise InvalidRequest(problem, hint, parameter="query")

    def read_always_on(self, generation: int) -> tuple[Hit, ...]:
        """Constitutional memories written only by people, by id, as many as fit their own token budget."""
        if self._always_on[0] != generation:
            memories = self._index.select(Filters(tiers=(Tier.CONSTITUTIONAL,)), sort="id", limit=100, offset=0)
            trusts = lineage.find_inherited_trusts(self._index, tuple(memory.id for memory in memories))
            memories = [memory for memory in memories if trusts.get(memory.id, Trust.HUMAN) == Trust.HUMAN]
            bodies = self._index.bodies([memory.id for memory in memories])
            why = Explanation(ranks={}, raw={}, fused=1.0)
            hits = [
                Hit(memory=memory, score=1.0, text=bodies[memory.id], explanation=why, always_on=True)
                for memory in memories
                if memory.id in bodies  # another process may have deleted one meanwhile
            ]
            sums = accumulate(count_tokens(f"{hit.memory.id}{hit.memory.title}{hit.text}") for hit in hits)
            most = self._settings.constitutional_tokens
            self._always_on = (generation, tuple(hit for hit, sum_ in zip(hits, sums, strict=True) if sum_ <= most))
        return self._always_on[1]

    def _begin(self, request: SearchRequest, signals: SessionSignals) -> SearchState:
        reached, degradations, query = time.perf_counter(), Degradations(), self.validate(request.query)
        filters, generation = request.filters, self._index.generation()
        always_on, only = tuple[Hit, ...](), () if request.all_of else filters.only
        if request.constitutional:
            with degradations.tolerate(IndexPart.GRAPH):
                always_on = self.read_always_on(generation)
        if request.all_of:
            concepts = Query(tuple(query_terms(concept) for concept in request.all_of))
            with degradations.tolerate(IndexPart.FULL_TEXT):
                only = tuple(match.id for match in self._index.match_text(concepts, filters, ALL_OF_LIMIT))
        quality = filters.min_quality_score
        least = self._settings.min_quality_score if quality is None else quality
        filters = replace(filters, only=only, min_quality_score=least)  # without those the quality gate hides
        return SearchState(
            request=replace(request, query=query),
            limit=request.limit or self._settings.limit,
            signals=signals,
            terms=query_terms(query),
            profile=route(query),
            period=find_period(query, signals.now) if signals.now else None,
            filters=filters,
            always_on=always_on,
            degradations=degradations,
            generation=generation,
            reached=reached,
        )

    def _look_up(self, state: SearchState, fused: Sequence[Fused]) -> dict[str, Candidate]:
        """These memories as candidates, without those in an excluded retention state."""
        request, signals = state.request, state.signals
        ids = [item.id for item in fused if item.id not in state.record]
        reviews: Mapping[str, Review] = {}
        if signals.reviews:
            with state.degradations.tolerate(IndexPart.REVIEWS):
                reviews = signals.reviews(ids)
        faintest = len(_STATES) - 1 - (request.decay and not request.include_archived)
        faintest = min(faintest, _STATES.index(request.min_state or Retention.ARCHIVED))
        words = {match.id for name in (Channel.TEXT, Channel.TRIGGER) for match in state.lists.get(name, ())}
        found, now = dict[str, Candidate](), signals.now
        memories = self._finder.read_memories(ids, state)
        for one in fused:
            name, is_passage, review = one.id, one.id in state.record, reviews.get(one.id)
            if (memory := state.record[name][-1] if is_passage else memories.get(name)) is None:
                continue
            does_fade = now and not is_passage
            left, state_now = presence(memory, review, now, self._forgetting) if does_fade else (1.0, Retention.HOT)
            if _STATES.index(state_now) <= faintest:
                sure = review.confidence if review else 0.5
                found[name] = Candidate(memory=memory, fused=one, retrievability=left, state=state_now, confidence=sure)
            elif state_now == Retention.ARCHIVED and name in words and not request.min_state:
                state.archived.append(name)
        return found

    def _add_neighbours(self, state: SearchState, fused: list[Fused], known: dict[str, Candidate]) -> list[Candidate]:
        """The candidates in fused order, with causal neighbours of the best that no channel found."""
        entered, weights, near = len(fused), state.profile.weights, list[Match]()
        if Channel.GRAPH in state.request.channels:
            with state.degradations.tolerate(IndexPart.GRAPH):
                seeds = [item for item in fused if item.id not in state.record][:SEEDS]
                near = self._finder.find_neighbours({item.id: item.score for item in seeds}, state)
        ranked_ids = {item.id for item in fused} if near else set[str]()
        new = [
            Fused(match.id, round(match.score, DIGITS), {Channel.GRAPH: rank}, {Channel.GRAPH: match.score})
            for rank, match in enumerate(near, start=1)
            if match.id not in ranked_ids
        ]
        if new:
            known |= self._look_up(state, new)
            fused = sorted([*fused, *(item for item in new if item.id in known)], key=lambda x: (-x.score, x.id))
        used = {str(channel): weights[channel] for channel in state.lists}
        scales = {str(name): scale_scores(name, some, self._settings.candidates) for name, some in state.lists.items()}
        state.note(Stage.FUSION, entered, len(fused), weights=used, scales=scales, other_words=OTHER_WORDS)
        return [known[item.id] for item in fused]

    def _rank(self, state: SearchState, candidates: Sequence[Candidate]) -> list[Candidate]:
        """All of them by their lowered scores: a page must not depend on how many were looked at for it."""
        request = state.request
        if request.rerank:
            self._compare_passages(state, candidates[: rerank.COMPARED])
        losses = rerank.lower_earlier(map(itemgetter(-1), state.record.values()))  # of the sessions with a passage
        find_factors = partial(rerank.score_factors, artifact=state.profile.artifact, period=state.period)
        find_factors = partial(find_factors, length_penalty=request.length_penalty, recorded=losses)
        for each in candidates:
            if request.rerank:
                left = each.retrievability if request.decay else 1.0
                each.factors = find_factors(each.memory, confidence=each.confidence, retrievability=left)
                if each.memory.provenance.session:
                    each.terms = {**each.terms, **rerank.score_session(each.memory, losses)}
            each.score = max(0.0, each.fused.score + sum(each.terms.values())) * math.prod(each.factors.values())
        if request.rerank and candidates:
            _put_newest_first(self._index, state, candidates[: rerank.COMPARED])
        ranked = sorted(candidates, key=_sort_key)
        if not request.state_limits:
            return ranked
        limited, spare = list[Candidate](), 0
        for retention, limit in rerank.STATE_LIMITS.items():
            members = [each for each in ranked if each.state == retention][: limit + spare]
            spare = limit + spare - len(members)
            limited += members
        return sorted(limited, key=_sort_key)

    def _compare_passages(self, state: SearchState, best: Sequence[Candidate]) -> None:
        """Add terms from comparing the best passages with each other, for those that have token vectors."""
        if not (self._has_tokens and best and state.query_tokens is not None and len(state.query_tokens)):
            return
        with state.degradations.tolerate(IndexPart.VECTORS):
            places = {each.memory.id: state.place_of(each.memory.id) for each in best}
            near = {name: (place[0], state.nearest.get(name, place[1])) for name, place in places.items()}
            asked = {places[name]: (name, QUESTIONS + at) for name, at in state.questions.items() if name in places}
            found = self._finder.read_vectors({*places.values(), *near.values(), *asked.values()})
            compared = {place: found[place].tokens for place in (*places.values(), *asked.values()) if place in found}
            packed = {place: tokens for place, tokens in compared.items() if tokens}
            if len(packed) < len(compared) and state.has_all_vectors:  # otherwise that is already reported
                state.degradations.note(tokens_pending(len(compared) - len(packed), len(compared)))
            means, coverage = match_tokens(state.query_tokens, [*packed.values()])
            matches = dict(zip(packed, means, strict=True))
            state.coverage = coverage if packed and len(packed) == len(compared) else None
            for place, question in asked.items():
                if question in matches:
                    matches[place] = max(matches[question], matches.get(place, 0.0))
            vectors = {name: found[near[name]].vector for name, place in places.items() if near[name] in found}
            known = [each for each in best if places[each.memory.id] in matches and vectors.get(each.memory.id)]
            if known:
                own = [vectors[each.memory.id] for each in known]
                versions = _set_terms(known, [matches[places[each.memory.id]] for each in known], own)
                # A passage without a vector is taken to match the query's tokens as well as its words.
                guesses = rerank.compare_values([each.fused.score for each in best], rerank.COEFFICIENTS["tokens"])
                for each, term in zip(best, guesses, strict=True):
                    if each.memory.id in state.without_vector:
                        each.terms = {"tokens": term}
                pairs = ((known[one].memory.id, known[other].memory.id) for one, other in versions)
                state.versions = [pair for pair in pairs if not state.record.keys() & {*pair}]

    def _fall_back(self, state: SearchState, ranked: list[Candidate]) -> list[Candidate]:
        """If nothing was found, memories with words that begin like those of the query."""
        if ranked or not state.terms or Channel.TEXT not in state.request.channels:
            state.note(Stage.FALLBACK, len(ranked), len(ranked), used="none")
            return ranked
        matches: list[Match] = []
        with state.degradations.tolerate(IndexPart.FULL_TEXT):
            query = Query((state.terms,), is_prefix=True)
            matches = self._index.match_text(query, state.filters, self._settings.candidates)
        fused = fuse({Channel.TEXT: matches}, {Channel.TEXT: 1.0}, self._settings.candidates)
        known = self._look_up(state, fused)
        ranked = self._rank(state, [known[item.id] for item in fused if item.id in known])
        for each in ranked:
            each.score *= PREFIX
            each.factors = {**each.factors, "prefix": PREFIX}
        state.note(Stage.FALLBACK, 0, len(ranked), used="prefix")
        return ranked

    def _judge_passages(self, state: SearchState, ranked: list[Candidate]) -> tuple[list[Candidate], dict[str, str]]:
        """Without passages that answer nothing, of those on the first two pages; what sessions and decisions say."""
        best = ranked[: self._settings.limit * 2]
        best = [each for each in best if each.memory.provenance.session or each.memory.type in lineage.DECIDING]
        if not best:
            return ranked, {}
        passages = [each for each in best if each.memory.id in state.record]
        texts = {name: piece.text for name, piece in self._read_pieces(state, passages).items()} if passages else {}
        copies = {*find_copies([(each.memory, texts[each.memory.id]) for each in passages])}
        if told := [each.memory.id for each in best if each.memory.id not in texts]:
            texts |= self._index.bodies(told)
        return [each for each in ranked if each.memory.id not in copies], texts

    def _read_pieces(self, state: SearchState, page: Sequence[Candidate]) -> dict[str, Piece]:
        """The passage of each, or the chunk that was found; empty if it is gone."""
        pieces = {each.memory.id: _NO_PIECE for each in page}
        with state.degradations.tolerate(IndexPart.EXCERPTS):
            places = {name: state.place_of(name) for name in pieces}
            found = self._index.pieces(places.values())
            pieces |= {name: found[place] for name, place in places.items() if place in found}
            for name in state.record.keys() & pieces.keys():  # between which are marks
                pieces[name] = replace(pieces[name], text=pieces[name].text.strip())
        return pieces

    def _answer(self, state: SearchState, ranked: list[Candidate], find_boosts: Boosts | None) -> SearchResult:
        """One page, with these boosts: memories from the offset on, and hits of the session's record."""
        request, profile = state.request, state.profile
        _apply_boosts(state, ranked, find_boosts)
        ranked, texts = self._judge_passages(state, ranked)
        ranked = _gather_session(state, ranked, texts, self._settings.limit)
        ranked = _put_revoked_behind(state, ranked, texts) if texts else ranked
        hits, ranked = _make_page(state, ranked, partial(self._make_hits, state), self._settings.min_confidence)
        recalled = state.signals.recalled if request.first else ()
        left = len(hits) - sum(map(attrgetter("always_on"), hits))
        if recalled:
            room = max(state.limit - min(len(recalled), RECALLED_STAY), 0)
            hits = [*hits[:room], *recalled[:RECALLED_STAY], *hits[room:], *recalled[RECALLED_STAY:]][: state.limit]
            hits.sort(key=lambda hit: (-hit.score, lineage.TRUST_RANKS[hit.memory.provenance.trust], hit.memory.id))
            left = sum(hit not in recalled and not hit.always_on for hit in hits)
        confidence, nearest = max((hit.confidence for hit in hits), default=0.0), list[Hit]()
        # refuse only what was searched by meaning, with a calibrated model
        by_meaning = Channel.VECTOR in state.lists and self._model in CALIBRATIONS
        may_refuse = by_meaning and not (request.all_of or state.signals.recalled)
        needed = request.min_confidence * (1 if state.has_most_vectors else PENDING)
        beside = min(BESIDE * max(1.0, math.sqrt(FEW / max(state.searched, 1))), MOST_BESIDE)
        least = beside * (min(request.min_confidence, confidence) if request.first else request.min_confidence)
        if confidence < needed and may_refuse and request.first:
            titles = [hit.memory.title for hit in hits]
            first = [hit for place, hit in enumerate(hits) if titles.index(hit.memory.title) == place][:NEAREST]
            nearest = [replace(hit, text=cut_passage(hit.text, state.terms, SENTENCE)) for hit in first]
            hits, ranked, left = [], [], 0
        elif may_refuse and hits and hits[-1].confidence < least:  # and so is all that follows
            hits, ranked = [hit for hit in hits if hit.confidence >= least], ranked[: request.offset + left]
        always_on, shown = state.always_on if request.first else (), [*map(attrgetter("memory.id"), hits)]
        always_on = tuple(rule for rule in always_on if rule.memory.id not in shown) if always_on else ()
        following = request.offset + left
        boosted = sum(map(bool, map(attrgetter("boosts"), ranked)))
        state.note(Stage.FINAL_RANK, len(ranked), left, boosted=boosted, recalled=len(hits) - left)
        return SearchResult(
            hits=tuple(hits),
            confidence=confidence,
            nearest=tuple(nearest),
            always_on=always_on,
            intent=request.intent,
            artifact=profile.artifact,
            period=state.period if state.wants_sessions else None,
            offset=request.offset,
            archived=len(state.archived),
            next_offset=following if following < len(ranked) else None,
            trace=tuple(state.trace),
            degradations=state.degradations.as_tuple(),
        )

    def _make_hits(self, state: SearchState, page: Sequence[Candidate], best: float) -> list[Hit]:
        pieces = self._read_pieces(state, page)
        whole, texts = list[str](), list[str]()
        for each in page:  # what a session's memory says of a matter is spread over its short sections
            of_session = each.memory.provenance.session and each.memory.id not in state.record
            whole += [each.memory.id] if state.request.include_content or of_session else []
        bodies = self._index.bodies(whole) if whole else {}
        open_items = dict[str, str]()
        if state.profile.asks_for_open:
            lists = self._index.bodies([each.memory.id for each in page if each.memory.artifact in LISTS])
            open_items = {name: list_open_items(body, state.terms) for name, body in lists.items()}
        # One that was not found by meaning is no nearer than the last that was.
        near, hits = state.lists.get(Channel.VECTOR, ()), list[Hit]()
        floor = near[-1].score if near and state.has_all_vectors else None
        for each in page:
            name, fused, piece = each.memory.id, each.fused, pieces[each.memory.id]
            text = bodies.get(name) or open_items.get(name) or piece.text
            texts.append(f"{each.memory.title}\n{text}")
            said, cosine = f"{each.memory.title}\n{piece.context}\n{piece.text}", fused.raw.get(Channel.VECTOR, floor)
            probability = judge_answer(said, state.terms, cosine, state.coverage, self._model, state.searched)
            questions = each.memory.questions[state.questions.get(name, len(each.memory.questions)) :]
            explanation = Explanation(
                ranks=fused.ranks,
                raw={channel: float(f"{score:.6g}") for channel, score in fused.raw.items()},
                fused=fused.score,
                terms=each.terms,
                factors=each.factors,
                boosts=each.boosts,
                phrases=tuple(state.phrases.get(name, ())),
                answers=questions[0] if questions else "",
            )
            hits.append(
                Hit(
                    memory=each.memory,
                    score=round(each.score, DIGITS),
                    anchor="" if open_items.get(name) else piece.anchor,
                    heading=piece.heading,
                    text=text,
                    explanation=explanation,
                    state=each.state,
                    superseded_by=each.superseded_by,
                    confidence=probability,
                )
            )
        is_known = has_identifier(texts, state.request.query)
        sure = max(map(attrgetter("confidence"), hits), default=0.0)
        sure = max(sure, NAMED) if is_known else sure
        for place, hit in enumerate(hits):
            hits[place] = replace(hit, confidence=round(sure * max(0.0, hit.score / best) ** FALL, 3))
        return hits


def _make_page(
    state: SearchState, ranked: list[Candidate], make_hits: Callable[[list[Candidate], float], list[Hit]], least: float
) -> tuple[list[Hit], list[Candidate]]:
    """The hits of the page, on the first one with always-on memories that are `least` sure; all results but these."""
    offset, limit, best = state.request.offset, state.limit, max(1e-9, ranked[0].score) if ranked else 1.0
    if not state.always_on:
        return make_hits(ranked[offset : offset + limit], best), ranked
    rules = {hit.memory.id: hit.text for hit in state.always_on}
    others = [each for each in ranked if each.memory.id not in rules]
    answering = [each for each in ranked[:limit] if state.request.first and each.memory.id in rules]
    hits = make_hits(sorted([*others[offset : offset + limit], *answering], key=_sort_key), best)
    for place, hit in enumerate(hits):
        if text := rules.get(hit.memory.id):
            hits[place] = replace(hit, text=text, always_on=True)
    return [hit for hit in hits if not hit.always_on or hit.confidence >= least][:limit], others


def _set_terms(best: Sequence[Candidate], token_matches: Sequence[float], vectors: Sequence[bytes]) -> list[list[int]]:
    """Set the terms that comparison with the others adds to each score: by tokens, vector and length.

    Returns the pairs, by position, with nearly the same passages.
    """
    tokens = rerank.compare_values(token_matches, rerank.COEFFICIENTS["tokens"])
    scores = [each.fused.score + term for each, term in zip(best, tokens, strict=True)]
    agreement, versions = compare_vectors(vectors, scores, rerank.SAME_TEXT)
    near = rerank.compare_values(agreement, rerank.COEFFICIENTS["agreement"])
    lengths = [math.log1p(each.memory.length) for each in best]
    shorter = rerank.compare_values(lengths, rerank.COEFFICIENTS["length"], rerank.MOST_LENGTHS)
    for each, *terms in zip(best, tokens, near, shorter, strict=True):
        each.terms = dict(zip(rerank.COEFFICIENTS, terms, strict=True))
    return versions


def _put_newest_first(index: Index, state: SearchState, best: Sequence[Candidate]) -> None:
    """Raise a memory that supersedes another of the best, or is a later version of it, just above that one.

    Of different titles, one is no later version for a query with a word that only the other has: "who released 1.2.0".
    """
    known, stated = {each.memory.id: each for each in best}, list[tuple[str, str]]()
    with state.degradations.tolerate(IndexPart.GRAPH):
        for edge, older in index.edges(*known, relation=Relation.SUPERSEDES, into=True):
            known[older].superseded_by += (edge.source,)
            stated += [(edge.source, older)] if edge.source in known else []
    dates = {name: each.memory.updated or each.memory.created for name, each in known.items()}
    later = [sorted(pair, key=dates.__getitem__, reverse=True) for pair in state.versions if set(pair) <= set(known)]
    later = [pair for pair in later if dates[pair[1]] and dates[pair[0]] > dates[pair[1]]]
    if later:
        titles = {name: each.memory.title for name, each in known.items()}
        asked = sorted({*find_names(state.request.query.lower()), *state.terms}, key=len, reverse=True)
        find = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, asked))})(?!\w)").findall
        pieces = index.pieces([*map(state.place_of, {*chain.from_iterable(later)})])
        words = dict[str, set[str]]()  # of the query, in the title and passage of each
        for name in {*chain.from_iterable(later)}:
            text = pieces[place].text if (place := state.place_of(name)) in pieces else ""
            words[name] = {*find(f"{titles[name]}\n{text}".lower())}
        later = [pair for pair in later if len({*map(titles.get, pair)}) == 1 or words[pair[1]] <= words[pair[0]]]
    scores = dict(zip(known, map(attrgetter("score"), best), strict=True))  # before any lift
    for newer, older in sorted([*stated, *map(tuple, later)], key=lambda pair: (dates[pair[0]], pair)):
        new, old = known[newer], known[older]
        if scores[older] - scores[newer] <= rerank.NEWER_REACH or (newer, older) in stated:
            _lift_above(new, old)


def _lift_above(new: Candidate, old: Candidate) -> bool:
    """Raise one just above the other that it replaces, and whether it may: not if that is more trusted."""
    ranks = [lineage.rank_trust(new.memory), lineage.TRUST_RANKS[old.memory.provenance.trust]]
    if old.score >= new.score and ranks[0] <= ranks[1]:
        share = math.prod(new.factors.values()) * (1 + sum(new.boosts.values()))
        rest = new.fused.score + sum(new.terms.values()) - new.terms.get("newer", 0.0)
        new.terms = {**new.terms, "newer": round(old.score / share - rest + 2 * 10**-DIGITS, DIGITS)}
        new.score = (rest + new.terms["newer"]) * share
    return ranks[0] <= ranks[1]


def _put_revoked_behind(state: SearchState, ranked: list[Candidate], texts: Mapping[str, str]) -> list[Candidate]:
    """Raise what says that something is over just above what said it before; a call says neither, a prompt marks it."""
    calls = {name for name, (*_, memory) in state.record.items() if memory.provenance.trust != Trust.AGENT}
    known = {each.memory.id: each for each in ranked if each.memory.id in texts and each.memory.id not in calls}
    said = [(each.memory, texts[name]) for name, each in known.items()]
    for newer, older in find_revoked([*said, *state.signals.read_prompts()], state.terms):
        old, new = known.get(older), known.get(newer)
        if old and not old.superseded_by and (new is None or _lift_above(new, old)):
            old.superseded_by = (newer,)
    return sorted(ranked, key=_sort_key)


def _gather_session(state: SearchState, ranked: list[Candidate], said: Mapping[str, str], most: int) -> list[Candidate]:
    """Raise passages of the best hit's session: they complete it, and share its label in the reply.

    Among each other those with an identifier of the query go first, then what was said with a word of it, and else they
    are in the order of their scores with the comparison by tokens counted twice: in one session most passages have the
    same words, so that these tell less (docs/evaluation.md).
    """
    passages = [each for each in ranked[:most] if each.memory.id in state.record and each.score > 0]
    if not passages:
        return [*ranked]
    best = ranked[0]
    beside = [each for each in passages if each.memory.provenance.session == best.memory.provenance.session]
    scores = [each.score + GATHERED * (best.score - each.score) for each in beside]
    in_order = sorted(beside, key=lambda each: -each.score - each.terms.get("tokens", 0.0))
    in_order.sort(key=lambda each: each.memory.provenance.trust != Trust.AGENT or Channel.TEXT not in each.fused.ranks)
    names = CODES.findall(state.request.query)
    in_order.sort(key=lambda each: -sum(name in said.get(each.memory.id, "") for name in names))
    for each, score in zip(in_order, scores, strict=True):
        if score != each.score:
            each.factors, each.score = {**each.factors, "session record": score / each.score}, score
    return sorted(ranked, key=_sort_key)


def _apply_boosts(state: SearchState, ranked: list[Candidate], find_boosts: Boosts | None) -> None:
    """Raise what the session works with. Nothing else raises a score, and the source of the boosts caps their sum."""
    boosts: Mapping[str, Mapping[str, float]] = {}
    if find_boosts and ranked:
        # a memory found only by a relation does not answer itself, and so boosts nothing
        answers = [each for each in ranked if each.fused.ranks.keys() != {Channel.GRAPH}]
        with state.degradations.tolerate(IndexPart.GRAPH):
            boosts = find_boosts([each.memory.id for each in ranked], {x.memory.id: x.score for x in answers[:SEEDS]})
    if any(boosts.values()):
        for each in ranked:
            each.boosts = boosts.get(each.memory.id, {})
            each.score *= 1 + sum(each.boosts.values())
        ranked.sort(key=_sort_key)


def _sort_key(each: Candidate) -> tuple[float, int, str]:
    """Best first; of scores that look equal in a hit, the more trusted."""
    return -round(each.score, DIGITS), lineage.TRUST_RANKS[each.memory.provenance.trust], each.memory.id
