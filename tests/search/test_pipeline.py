"""A search over a real index: stages, explanations, budgets, pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict, replace
from tests.samples import WordEmbedder, document, edge, source_file
from tests.storage.contract import open_storage

from scrimshaw.config import SearchSettings, Settings
from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.comparison import count_tokens
from scrimshaw.models import (
    ArtifactClass,
    Channel,
    Degradation,
    Document,
    Filters,
    Intent,
    Provenance,
    Quality,
    Stage,
    Tier,
    Trust,
)
from scrimshaw.search.embedders import EmbedderUnavailable
from scrimshaw.search.passages import pack_hits
from scrimshaw.search.pipeline import Searcher
from scrimshaw.search.results import SearchRequest, SearchResult, SessionSignals
from scrimshaw.search.token_vectors import pack_tokens
from scrimshaw.storage.index import Index
from scrimshaw.storage.ports import Query, Review

OFF = Degradation(failure_mode="embedder_off: x", fallback_mode="y", confidence_impact="z", retry_recommendation="w")
AGENT = Provenance(source="agent", trust=Trust.AGENT)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with open_storage("sqlite", tmp_path) as storage:
        yield storage.index


class Search:
    """A searcher over documents; `ask` searches with the fields of a SearchRequest."""

    def __init__(self, index: Index, *documents: Document, vectors: bool = False, **settings: Any) -> None:
        self.index = index
        index.put([measured(each) for each in documents])
        embedder = WordEmbedder()
        if vectors:
            pending = index.chunks_to_embed(embedder.model, after=0, limit=1000)
            rows = {chunk.key: embedder.embed(chunk.text) for chunk in pending}
            packed = {key: pack_tokens(tokens) for key, (_, tokens) in rows.items()}
            index.put_vectors(embedder.model, [(key, row) for key, (row, _) in rows.items()], tokens=packed)
        self.searcher = Searcher(index, configured(**settings), embedder if vectors else OFF)

    def ask(self, query: str, **fields: Any) -> SearchResult:
        around = {name: fields.pop(name) for name in ("boosts", "reviews", "recalled", "now") if name in fields}
        return self.searcher.search(SearchRequest(query=query, **fields), SessionSignals(**around))


def configured(**settings: Any) -> Settings:
    """Default settings with these of the search."""
    return Settings(project=Path("project"), home=Path("home"), search=SearchSettings(**settings))


def measured(each: Document) -> Document:
    """A document with its count of tokens, as the parser gives it."""
    return replace(each, tokens=count_tokens(each.body.text))


def ids(result: SearchResult) -> list[str]:
    return [hit.memory.id for hit in result.hits]


def note(name: str, text: str, **fields: Any) -> Document:
    """A document long enough for the length factor to leave it alone."""
    return document(name, f"{text} and some more words that fill the note up to a fair length.", **fields)


# Queries


@pytest.mark.parametrize("query", ["", "   ", "x" * 51, "bell \x07", "escape \x1b[0m", "nul \0"])
def test_what_cannot_be_a_query_is_refused(index: Index, query: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Search(index, query_max=50).ask(query)
    assert caught.value.details["parameter"] == "query"


@pytest.mark.parametrize("query", ["what is this?", "path/to/file", "日本語 🚀", "a" * 50, 'say "hi" (now) -x', "1\n2"])
def test_any_printable_text_is_a_query(index: Index, query: str) -> None:
    assert Search(index, note("a", "text"), query_max=50).ask(query).hits == ()


@pytest.mark.parametrize("name", ["parse_front_matter", "parse.front.matter", "parse/front/matter.py", "E_PARSE_FRONT"])
def test_a_name_is_found_before_what_only_holds_its_parts(index: Index, name: str) -> None:
    parts = " ".join(name.replace("_", ".").replace("/", ".").split(".")[::-1])
    others = [note(f"n{number}", f"{parts}: {parts}, {parts}") for number in range(4)]
    search = Search(index, note("z", f"The call {name} fails on tabs"), *others)
    assert ids(search.ask(f"where is {name} used?"))[0] == "z"


def test_strict_queries_are_an_option(index: Index) -> None:
    search = Search(index, strict_queries=True)
    assert search.ask("plain words, (a.b) & c-d_e:").hits == ()
    for query in ("what?", "a/b", "naïve", "100%"):
        with pytest.raises(InvalidRequest, match="strict_queries"):
            search.ask(query)
    assert search.ask("w" * 500).hits == ()
    with pytest.raises(InvalidRequest, match="500 characters"):
        search.ask("w" * 501)


# Stages and explanations


def test_the_trace_names_the_six_stages_in_order(index: Index) -> None:
    search = Search(index, note("a", "wal reset"), note("b", "wal"), vectors=True)
    for query in ("wal reset", "nothing at all"):
        trace = search.ask(query).trace
        assert [stage.stage for stage in trace] == list(Stage)
        assert all(stage.ms >= 0 for stage in trace)
    trace = search.ask("wal reset").trace
    by_stage = {stage.stage: stage for stage in trace}
    assert by_stage[Stage.CANDIDATE].notes["channels"] == {"text": 2, "vector": 2}
    assert by_stage[Stage.FUSION].left == by_stage[Stage.FINAL_RANK].left == 2
    assert set(by_stage[Stage.FUSION].notes) == {"weights", "scales", "other_words"}


def test_explained_ranks_are_those_of_the_channels(index: Index) -> None:
    documents = [note(f"n{number}", "wal " * number + "reset", triggers=("reset",)) for number in range(1, 6)]
    search = Search(index, *documents, vectors=True)
    hits = search.ask("wal reset").hits
    filters = Filters(min_quality_score=0.3)
    text = [match.id for match in index.match_text(Query((("wal", "reset"),)), filters, 100)]
    vector = [m.id for m in index.match_vector("words", WordEmbedder().embed("wal reset")[0], filters, 100)]
    assert len(hits) == 5
    for hit in hits:
        ranks = hit.explanation.ranks
        assert ranks[Channel.TEXT] == text.index(hit.memory.id) + 1
        assert ranks[Channel.VECTOR] == vector.index(hit.memory.id) + 1
        assert Channel.TRIGGER in ranks
        assert hit.explanation.phrases == ("reset",)
        assert set(hit.explanation.raw) == set(ranks)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_reader_can_compute_every_score_from_its_explanation(index: Index) -> None:
    documents = [note(f"n{number}", "wal " * number + "reset", triggers=("reset",)) for number in range(1, 5)]
    stale = note("stale", "wal reset " * 9, tier=Tier.TEMPORARY, edges=(edge("stale", "n1", "caused"),))
    search = Search(index, *documents, stale, note("far", "the wal of a harbour"), vectors=True)
    result = search.ask("wal reset", boosts=lambda ids, seeds: {"n2": {"session": 0.15, "causal": 0.05}})
    (fusion,) = [stage.notes for stage in result.trace if stage.stage == Stage.FUSION]
    weights, scales = (msgspec.convert(fusion[name], dict[str, Any]) for name in ("weights", "scales"))
    assert {name for hit in result.hits for name in hit.explanation.terms} >= {"tokens", "agreement", "length"}
    assert {name for hit in result.hits for name in (*hit.explanation.factors, *hit.explanation.boosts)} > {"tier"}
    for hit in result.hits:
        why = hit.explanation
        shares = {name: (score - scales[name][0]) / scales[name][1] for name, score in why.raw.items()}
        shares = {name: min(1, max(0, share)) for name, share in shares.items()}
        shares["text"] = max(
            shares.get("text", 0), shares.get("vector", 0) - msgspec.convert(fusion["other_words"], float)
        )
        fused = sum(weights[name] * share for name, share in shares.items()) / sum(weights.values())
        assert fused == pytest.approx(why.fused, abs=1e-5)  # engine scores are shown with six digits
        score = max(0, why.fused + sum(why.terms.values())) * math.prod(why.factors.values())
        assert score * (1 + sum(why.boosts.values())) == pytest.approx(hit.score, abs=2e-6)


def test_a_memory_is_read_again_once_it_has_changed(index: Index) -> None:
    search = Search(index, note("a", "wal", title="Before"))
    assert [hit.memory.title for hit in search.ask("wal").hits] == ["Before"]
    index.put([note("a", "wal", title="After")])
    assert [hit.memory.title for hit in search.ask("wal").hits] == ["After"]
    index.retire(None)
    assert search.ask("wal").hits == ()


@pytest.mark.parametrize("channel", [Channel.TEXT, Channel.VECTOR, Channel.TRIGGER])
def test_only_the_channels_asked_for_are_asked(index: Index, channel: Channel) -> None:
    search = Search(index, note("a", "wal reset", triggers=("wal",)), vectors=True)
    (hit,) = search.ask("wal", channels=(channel,)).hits
    assert set(hit.explanation.ranks) == {channel}


def test_without_an_embedder_the_answer_says_so(index: Index) -> None:
    search = Search(index, note("a", "wal"))
    result = search.ask("wal")
    assert (ids(result), result.degradations) == (["a"], (OFF,))
    assert search.ask("wal", channels=(Channel.TEXT,)).degradations == ()


def test_an_embedder_that_fails_is_told_and_words_still_find(index: Index) -> None:
    class Failing(WordEmbedder):
        def embed(self, text: str) -> Any:
            raise EmbedderUnavailable("embedder_failed", "It stopped.", "Try again.")

    Search(index, note("a", "wal"))
    result = Searcher(index, configured(), Failing()).search(SearchRequest(query="wal"))
    assert ids(result) == ["a"]
    assert [degradation.failure_mode for degradation in result.degradations] == ["embedder_failed: It stopped."]


def test_intent_and_artifact_come_with_the_answer(index: Index) -> None:
    search = Search(index, note("a", "wal"))
    found = search.ask("why does the checklist crash with an error")
    assert (found.intent, found.artifact) == (None, ArtifactClass.CHECKLIST)
    given = search.ask("wal", intent=Intent.REFACTOR)
    assert (given.intent, given.artifact) == (Intent.REFACTOR, None)


def test_an_intent_changes_no_ranking(index: Index) -> None:
    search = Search(index, note("a", "wal reset fails"), note("b", "wal error of the checklist"), vectors=True)
    found = [[(hit.memory.id, hit.score) for hit in search.ask("wal error", intent=intent).hits] for intent in Intent]
    assert found == found[:1] * len(Intent)


# Filters, quality, tiers


def test_deprecated_memories_are_seen_only_when_asked_for(index: Index) -> None:
    search = Search(index, note("old", "wal reset", tier=Tier.DEPRECATED), note("new", "wal reset"), vectors=True)
    assert ids(search.ask("wal reset")) == ["new"]
    assert ids(search.ask("wal reset", filters=Filters(include_deprecated=True))) == ["new", "old"]


def test_low_quality_hides_what_an_agent_wrote_and_nothing_else(index: Index) -> None:
    low = Quality(score=0.1)
    search = Search(
        index, note("agent", "wal", quality=low, provenance=AGENT), note("hand", "wal", quality=low),
        note("unjudged", "wal", provenance=AGENT), min_quality_score=0.3,
    )  # fmt: skip
    assert sorted(ids(search.ask("wal"))) == ["hand", "unjudged"]
    assert len(ids(search.ask("wal", filters=Filters(min_quality_score=0.0)))) == 3
    assert len(ids(search.ask("wal", filters=Filters(min_quality_score=0.05)))) == 3


@pytest.mark.parametrize("filters", [Filters(only=("in/0", "absent")), Filters(exclude=("in/1", "out/2"))])
def test_ids_are_allowed_and_excluded_in_every_channel(index: Index, filters: Filters) -> None:
    edges = (edge("in/0", "in/1"), edge("in/0", "out/2"))
    search = Search(
        index,
        note("in/0", "wal", triggers=("wal",), edges=edges),
        note("in/1", "wal", triggers=("wal",)),
        note("out/2", "other"),
        vectors=True,
    )
    assert ids(search.ask("wal", filters=filters)) == ["in/0"]
    assert ids(search.ask("wal")) == ["in/0", "in/1", "out/2"]


def test_a_causal_neighbour_comes_behind_the_hit_that_leads_to_it(index: Index) -> None:
    search = Search(index, note("a", "wal", edges=(edge("a", "b", "caused"), edge("a", "c", "link"))),
                    note("b", "other"), note("c", "more"))  # fmt: skip
    first, second = search.ask("wal").hits
    assert (first.memory.id, second.memory.id) == ("a", "b")
    assert second.score < first.score
    assert set(second.explanation.ranks) == {Channel.GRAPH}
    assert ids(search.ask("wal", channels=(Channel.TEXT,))) == ["a"]


@pytest.mark.parametrize("vectors", [False, True])
def test_a_filter_holds_in_every_channel(index: Index, vectors: bool) -> None:
    pairs = [(f"{folder}/{n}", folder) for folder in ("in", "out") for n in range(3)]
    search = Search(index, *(note(name, "wal", triggers=("wal",)) for name, _ in pairs), vectors=vectors)
    assert ids(search.ask("wal", filters=Filters(folder="in"))) == ["in/0", "in/1", "in/2"]


def test_every_concept_must_stand(index: Index) -> None:
    search = Search(index, note("both", "wal and reset"), note("one", "wal alone"), vectors=True)
    assert ids(search.ask("wal", all_of=("wal", "reset journal"))) == ["both"]
    assert ids(search.ask("wal", all_of=("wal", "absent"))) == []


def test_concepts_do_not_lift_other_filters(index: Index) -> None:
    search = Search(index, note("a", "wal reset"), note("b", "wal reset"), note("c", "wal", tier=Tier.DEPRECATED))
    assert ids(search.ask("wal", all_of=("reset",), filters=Filters(only=("a", "c")))) == ["a"]
    assert ids(search.ask("wal", all_of=("wal",), filters=Filters(tiers=(Tier.DEPRECATED,)))) == ["c"]


def test_constitutional_memories_are_on_top_and_not_twice(index: Index) -> None:
    search = Search(index, note("law", "reset", tier=Tier.CONSTITUTIONAL), note("a", "wal"), vectors=True)
    result = search.ask("wal")
    assert [hit.memory.id for hit in result.always_on] == ["law"]
    assert result.always_on[0].always_on
    assert ids(result) == ["a"]
    index.put([note("law", "wal", tier=Tier.CONSTITUTIONAL)])
    without = search.ask("wal", constitutional=False)
    assert (without.always_on, sorted(ids(without))) == ((), ["a", "law"])
    index.put([note("law", "wal")])
    assert search.ask("wal").always_on == ()


def test_a_constitutional_memory_that_surely_answers_is_a_hit_in_its_place_alone(index: Index) -> None:
    law = note("law", "# Headers\n\nNever log the authorization header. " + "x " * 400, tier=Tier.CONSTITUTIONAL)
    other = note("other", "Tabs, not spaces.", tier=Tier.CONSTITUTIONAL)
    search = Search(index, law, other, note("a", "The log has a header line."), note("b", "Blank."))
    result = search.ask("may I log the authorization header", min_confidence=0.5)
    assert (ids(result), [hit.memory.id for hit in result.always_on]) == (["law", "a"], ["other"])
    assert (result.hits[0].always_on, result.hits[0].confidence > 0.5) == (True, True)
    assert len(result.hits[0].text) > 800
    following = search.ask("may I log the authorization header", first=False)
    assert (ids(following), following.always_on) == (["a"], ())


def test_no_budget_leaves_out_or_cuts_a_constitutional_memory(index: Index) -> None:
    law = note("law", "Never log the authorization header. " + "x " * 800, tier=Tier.CONSTITUTIONAL)
    search = Search(index, law, *(note(f"n{number}", "Log the header. " * 50) for number in range(4)))
    result = search.ask("log authorization header")
    assert result.hits[0].memory.id == "law"
    spent = result.keep_hits(
        pack_hits(result.hits, ("log",), lambda hits: 300 - sum(len(hit.text) for hit in hits[1:]))
    )
    assert (len(spent.hits[0].text), 1 <= len(spent.hits) < 5) == (len(result.hits[0].text), True)
    last = replace(result, hits=(*result.hits[1:], result.hits[0]))
    cut = last.keep_hits(last.hits[:2])
    assert ([hit.memory.id for hit in cut.always_on], cut.omitted) == (["law"], 2)


@pytest.mark.parametrize("room", [0, 5, 40, 100, 2000])
def test_constitutional_memories_keep_to_their_room(index: Index, room: int) -> None:
    laws = [note(f"law/{number}", "wal " * 20, tier=Tier.CONSTITUTIONAL) for number in range(9)]
    search = Search(index, *laws, constitutional_tokens=room)
    result = search.ask("wal", limit=20)
    assert sum(count_tokens(f"{hit.memory.title}{hit.text}") for hit in result.always_on) <= room
    assert len(result.always_on) + len(result.hits) == 9


# Budgets, pages, boosts


def test_a_hit_has_its_best_chunk_or_the_whole(index: Index) -> None:
    body = "Opening words.\n" + "filler line\n" * 200 + "The walrus stands here.\n"
    search = Search(index, document("a", body[:1000], body[1000:]))
    assert search.ask("walrus").hits[0].text == body[1000:]
    assert search.ask("walrus", include_content=True).hits[0].text == body


def test_the_best_chunk_is_shown(index: Index) -> None:
    search = Search(index, document("a", "first about ships\n", "second about walrus ivory\n", "third\n"), vectors=True)
    assert search.ask("walrus ivory").hits[0].text.strip() == "second about walrus ivory"


@pytest.mark.parametrize("vectors", [False, True])
def test_a_question_in_other_words_brings_the_best_of_the_text(index: Index, vectors: bool) -> None:
    asked = document("a", "about ships\n", "about walrus ivory\n", questions=("Who swims?", "Which tusk is carved?"))
    search = Search(index, asked, note("b", "which of them"), vectors=vectors)
    hit = search.ask("which ivory tusk is carved").hits[0]
    assert (hit.memory.id, hit.text.strip()) == ("a", "about walrus ivory")
    assert hit.explanation.answers == "Which tusk is carved?"
    (other,) = search.ask("carved tusk", channels=(Channel.TEXT,)).hits
    assert (other.text.strip(), other.explanation.answers) == ("about ships", "Which tusk is carved?")
    assert search.ask("about walrus ivory").hits[0].explanation.answers == ""


def test_the_tokens_of_a_question_count_for_its_memory(index: Index) -> None:
    asked = note("a", "about ships", questions=("Which tusk is carved?",))
    hits = Search(index, asked, note("b", "about ships"), vectors=True).ask("which tusk is carved").hits
    terms = {hit.memory.id: hit.explanation.terms["tokens"] for hit in hits}
    assert terms["a"] > 0 > terms["b"]


def test_pages_join_to_the_whole(index: Index) -> None:
    tiers = [Tier.NORMAL, Tier.TEMPORARY]
    documents = [note(f"n{n:02}", "wal " * (n % 7 + 1), tier=tiers[n % 2]) for n in range(25)]
    search = Search(index, *documents, vectors=True)
    whole = search.ask("wal", limit=25)
    pages = [search.ask("wal", limit=5, offset=offset) for offset in range(0, 30, 5)]
    assert [name for page in pages for name in ids(page)] == ids(whole)
    assert len(ids(whole)) == 25
    assert [page.next_offset for page in pages] == [5, 10, 15, 20, None, None]


def test_prefixes_are_tried_where_nothing_was_found(index: Index) -> None:
    search = Search(index, *(note(f"n{number}", "concurrency") for number in range(6)))
    result = search.ask("concu", limit=2)
    assert ids(result) == ["n0", "n1"]
    assert result.next_offset == 2
    assert ids(search.ask("concu", limit=2, offset=2)) == ["n2", "n3"]
    stage = next(stage for stage in result.trace if stage.stage == Stage.FALLBACK)
    assert stage.notes["used"] == "prefix"
    assert search.ask("concu", channels=(Channel.TRIGGER,)).hits == ()


def test_boosts_lift_and_are_explained(index: Index) -> None:
    search = Search(index, note("a", "wal wal wal"), note("b", "wal"))

    def boosts(names: Sequence[str], seeds: Mapping[str, float]) -> Mapping[str, Mapping[str, float]]:
        assert sorted(names) == sorted(seeds) == ["a", "b"]
        assert all(0 < score <= 1 for score in seeds.values())
        return {"b": {"session": 0.15, "causal": 0.05}}

    plain, boosted = (search.ask("wal", **extra) for extra in ({}, {"boosts": boosts}))
    scores = {hit.memory.id: hit.score for hit in plain.hits}
    lifted = {hit.memory.id: hit for hit in boosted.hits}
    assert lifted["b"].score == pytest.approx(scores["b"] * 1.2, rel=1e-4)
    assert lifted["b"].explanation.boosts == {"session": 0.15, "causal": 0.05}
    assert lifted["a"].score == scores["a"]
    assert search.ask("absent", boosts=boosts).hits == ()


def test_what_only_a_relation_brought_in_lifts_nothing(index: Index) -> None:
    search = Search(index, note("a", "wal", edges=(edge("a", "b", "caused"),)), note("b", "other"))
    told: list[tuple[Sequence[str], Sequence[str]]] = []

    def boosts(names: Sequence[str], seeds: Mapping[str, float]) -> Mapping[str, Mapping[str, float]]:
        told.append((list(names), list(seeds)))
        return {}

    hits = search.ask("wal", boosts=boosts).hits
    assert [set(hit.explanation.ranks) for hit in hits] == [{Channel.TEXT}, {Channel.GRAPH}]
    assert told == [(["a", "b"], ["a"])]


def test_a_memory_validated_as_useless_is_lowered(index: Index) -> None:
    search = Search(index, note("a", "wal"), note("b", "wal"))
    bad = Review(memory_id="a", stability=1, difficulty=5, last_review=0, confidence=0.0)
    result = search.ask("wal", reviews=lambda _: {"a": bad})
    assert ids(result) == ["b", "a"]
    assert result.hits[1].explanation.factors == {"validation": pytest.approx(0.9)}
    assert ids(search.ask("wal", reviews=lambda _: {"a": bad}, rerank=False)) == ["a", "b"]


def test_a_short_memory_is_lowered_unless_told_otherwise(index: Index) -> None:
    search = Search(index, document("a", "wal"))
    assert "length" in search.ask("wal").hits[0].explanation.factors
    assert search.ask("wal", length_penalty=False).hits[0].explanation.factors == {}


def test_a_class_named_in_the_query_comes_first(index: Index) -> None:
    spec = source_file("b/spec", artifact=ArtifactClass.SPEC, path="/b/spec.md")
    search = Search(index, note("a", "export wal"), note("b/spec", "export wal", file=spec))
    assert ids(search.ask("spec of the wal export"))[0] == "b/spec"


def test_the_same_question_gets_the_same_answer(index: Index) -> None:
    search = Search(index, *(note(f"n{number}", "wal reset") for number in range(9)), vectors=True)
    answers = [[asdict(hit) for hit in search.ask("wal reset").hits] for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert ids(search.ask("wal reset")) == [f"n{number}" for number in range(9)]
