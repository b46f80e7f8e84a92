from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from tests.samples import write_memory

from scrimshaw.engine import Engine, sessions
from scrimshaw.engine.index import scan
from scrimshaw_lab.metrics import rank_biased_overlap, rank_correlation
from scrimshaw_lab.search_quality import JudgedQuery
from scrimshaw_lab.shadow import (
    ATTENTION,
    ITEMS,
    Case,
    Fall,
    Shadow,
    compute_figures,
    find_falls,
    find_known_items,
    find_missed,
    run_shadows,
    unbounded,
    working_with,
)

BOOSTS = (Case.RANDOM, Case.RELEVANT, Case.UNBOUNDED)


def shadow(base: str, boosted: str, *, lifted: bool = True, **relevant: int) -> Shadow:
    query = JudgedQuery(id="q", query="which", relevant=relevant)
    return Shadow(
        query=query,
        case=Case.RANDOM,
        base=tuple(base),
        boosted=tuple(boosted),
        lifts={"a": 0.1} if lifted else {},
    )


@given(st.permutations(range(12)))
def test_rank_correlation_is_spearmans(order: list[int]) -> None:
    base = [str(number) for number in range(12)]
    expected = spearmanr(range(12), [order.index(number) for number in range(12)]).statistic
    assert rank_correlation(base, [str(number) for number in order]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [("", "", 1.0), ("abc", "abc", 1.0), ("abc", "xyz", 0.0), ("ab", "ba", 0.9), ("a", "", 0.0)],
)
def test_overlap_counts_what_two_rankings_share_from_the_top(one: str, two: str, expected: float) -> None:
    assert rank_biased_overlap(one, two) == pytest.approx(expected)
    assert rank_biased_overlap("abcdef", "bacdef") < rank_biased_overlap("abcdef", "abcdfe")


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        ("", "", 1.0),
        ("a", "ba", 1.0),
        ("abcd", "xaybczd", 1.0),
        ("abcd", "dcba", -1.0),
        ("abc", "bc", -0.5),
        ("abc", "ab", 1.0),
    ],
)
def test_rank_correlation_compares_the_first_ids_only(base: str, other: str, expected: float) -> None:
    assert rank_correlation(base, other) == pytest.approx(expected)


def test_answers_that_sink_are_listed_with_both_places() -> None:
    run = shadow("abcde", "bcdea", a=2, b=2, e=1, c=3)
    assert list(find_falls(run)) == [Fall(query="which", memory="a", before=1, after=5, passed_by=("b", "c", "d", "e"))]
    assert [fall.after for fall in find_falls(shadow("abc", "bc", a=2))] == [3]


def test_the_figures_of_a_case() -> None:
    runs = [shadow("abcdef", "bcdeaf", a=2), shadow("abcdef", "bacdef", lifted=False, b=2)]
    found = compute_figures(runs)
    assert (found.queries, found.lifted) == (2, 0.5)
    assert found.mrr == pytest.approx((1 / 5 + 1) / 2)
    assert found.mrr_ratio == pytest.approx((1 / 5 + 1) / (1 + 1 / 2))
    assert [(fall.before, fall.after) for fall in found.falls] == [(1, 5)]


def test_figures_that_miss_their_targets_are_named() -> None:
    same = compute_figures([shadow("abcdef", "abcdef", a=2)])
    upset = compute_figures([shadow("abcdef", "bfedca", lifted=False, a=2)])
    assert find_missed(same) == ()
    assert find_missed(upset) == ("rank_correlation", "mrr_ratio", "falls")


def test_a_fall_of_three_places_is_no_miss() -> None:
    assert compute_figures([shadow("abcdef", "bcdaef", a=2)]).falls == ()


@pytest.fixture
def filled(engine: Engine, vault: Path) -> Engine:
    for number in range(30):
        text = f"# Harbour number {number} of the northern coast\n\n" + "boat " * (number + 1)
        text += "whale " * max(0, 12 - number)  # a word of few, so that it counts
        write_memory(
            vault,
            f"harbours/{number:02}",
            f"{text}\n\n## When tides come\n\nLow.\n\n## What {number} boats need\n\nRope.\n",
        )
    scan(engine)
    return engine


def test_a_session_works_with_memories_as_real_ones_do(filled: Engine) -> None:
    linked = [f"harbours/{number:02}" for number in range(ITEMS)]
    attention = sessions.attention_by_memory(filled, working_with(filled, linked))
    assert list(attention) == linked
    assert list(attention.values()) == pytest.approx([ATTENTION * 0.85**age for age in range(ITEMS)])


def test_each_query_runs_in_every_case_and_the_seed_decides_what_is_drawn(filled: Engine) -> None:
    queries = [JudgedQuery(id="q", query="boat rope", relevant={"harbours/03": 2, "harbours/04": 0})]
    first, again = (
        list(run_shadows(filled, queries, cases=BOOSTS, seed=3)),
        list(run_shadows(filled, queries, cases=BOOSTS, seed=3)),
    )
    assert [run.case for run in first] == list(BOOSTS)
    assert [run.boosted for run in first] == [run.boosted for run in again]
    assert all(run.lifts and sorted(run.base) == sorted(run.boosted) and len(run.base) == 30 for run in first)
    _, relevant, _ = first
    assert relevant.boosted.index("harbours/03") < relevant.base.index("harbours/03")


def test_without_a_cap_the_order_is_upset(filled: Engine) -> None:
    queries = [JudgedQuery(id=str(n), query=f"whale {n}", relevant={f"harbours/{n:02}": 2}) for n in range(5)]
    runs = list(run_shadows(filled, queries, cases=BOOSTS))
    capped, whole = ([run for run in runs if run.case == case] for case in (Case.RANDOM, Case.UNBOUNDED))
    assert compute_figures(whole).rank_correlation < compute_figures(capped).rank_correlation
    boosts = unbounded({"a": 0.9})(["a", "b"], {})
    assert boosts == {"a": {"session": 0.9}}


def test_known_items_are_titles_and_headings_that_stand_once(filled: Engine) -> None:
    found = find_known_items(filled, 20, seed=1)
    assert found == find_known_items(filled, 20, seed=1) != find_known_items(filled, 20, seed=2)
    titles = [each for each in found if each.query.startswith("Harbour")]
    headings = [each for each in found if each.query.startswith("What")]
    assert len(titles) == len(headings) == 10
    assert all(each.relevant == {f"harbours/{int(each.query.split()[1]):02}": 2} for each in headings)


def test_there_may_be_fewer_known_items_than_asked_for(filled: Engine) -> None:
    assert len(find_known_items(filled, 1000)) == 60
    assert find_known_items(filled, 0) == []
