from __future__ import annotations

import random
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.ingest.comparison import find_head, normalise_text
from scrimshaw.search.tokens import find_phrases

WORD = re.compile(r"\w+")


class Table:
    """Phrases by their find_heads, as an index keeps them."""

    def __init__(self, phrases: list[tuple[str, str]]) -> None:
        self._by_head: dict[str, list[tuple[str, str]]] = {}
        for phrase, memory_id in phrases:
            self._by_head.setdefault(find_head(phrase), []).append((phrase, memory_id))

    def match(self, text: str) -> dict[str, list[str]]:
        return find_phrases(text, self.look_up)

    def look_up(self, heads: set[str], *, titles: bool, holds: Callable[[str], bool]) -> list[tuple[str, str]]:
        return [each for name in heads for each in self._by_head.get(name, ()) if holds(each[0])]


def matched(phrase: str, text: str) -> bool:
    return Table([(phrase, "m")]).match(text) == {"m": [phrase]}


@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("wal reset", "the WAL  Reset\nbug", True),
        ("wal reset", "wal-reset", True),
        ("wal reset", "wal resets", False),
        ("wal reset", "reset wal", False),
        ("wal reset", "wal is reset", False),
        ("cat", "concatenate", False),
        ("cat", "(cat)", True),
        ("snake_case", "use snake_case here", True),
        ("snake", "use snake_case here", False),
        ("straße", "STRASSE", True),
        ("caf\u00e9", "cafe\u0301 noir", True),
        ("ΣΊΣΥΦΟΣ", "σίσυφος", True),
        ("データベース", "このデータベースが壊れた", True),
        ("データベース", "データ", False),
        ("数据库", "重建数据库吧", True),
        ("ฐานข้อมูล", "ซ่อมฐานข้อมูลเดี๋ยวนี้", True),
        ("데이터베이스 오류", "새 데이터베이스 오류 발생", True),
        ("сборка упала", "Сборка упала вчера", True),
        ("use 東京 db", "please use 東京 db now", True),
        ("x", "x marks", False),
        ("語", "日本語", False),
        ("c++", "c++ code", False),
        ("...", "wait...", False),
        ("", "", False),
        ("e2e", "run e2e now", True),
    ],
)
def test_whole_phrases_in_any_script(phrase: str, text: str, expected: bool) -> None:
    assert matched(phrase, text) is expected


def test_all_memories_and_phrases_are_told_longest_first() -> None:
    table = Table([("wal", "a"), ("wal reset", "a"), ("reset", "a"), ("wal", "b"), ("other", "c")])
    assert table.match("the wal reset") == {"a": ["wal reset", "reset", "wal"], "b": ["wal"]}
    assert table.match("nothing here") == {}
    assert Table([]).match("anything") == {}


def naive(phrases: list[tuple[str, str]], text: str) -> dict[str, set[str]]:
    """Every phrase against the whole text: word for word."""
    found: dict[str, set[str]] = {}
    padded = f" {' '.join(WORD.findall(normalise_text(text)))} "
    for phrase, memory_id in phrases:
        words = WORD.findall(normalise_text(phrase))
        if len("".join(words)) >= 2 and f" {' '.join(words)} " in padded:
            found.setdefault(memory_id, set()).add(phrase)
    return found


WORDS = st.sampled_from(["wal", "reset", "a", "the", "WAL", "Straße", "strasse", "é", "e\u0301", "x1", "_"])
JOINED = st.lists(WORDS, min_size=1, max_size=4).flatmap(
    lambda words: st.sampled_from([" ", "-", "\n", ", "]).map(lambda mark: mark.join(words))
)


@given(st.lists(st.tuples(JOINED, st.sampled_from("abc")), max_size=12), st.lists(JOINED, max_size=8).map(" ".join))
def test_the_table_finds_what_a_naive_matcher_finds(phrases: list[tuple[str, str]], text: str) -> None:
    found = {name: set(hits) for name, hits in Table(phrases).match(text).items()}
    assert found == naive(phrases, text)


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_and_phrase_can_be_compared(phrase: str, text: str) -> None:
    Table([(phrase, "m")]).match(text)


@given(st.text(alphabet="東京都データ", min_size=2, max_size=6), st.text(alphabet="東京都データ ", max_size=30))
def test_a_script_without_spaces_is_found_anywhere(phrase: str, text: str) -> None:
    assert matched(phrase, text) is (phrase in normalise_text(text))


def test_ten_thousand_phrases_are_matched_correctly_and_at_once() -> None:
    chance = random.Random(7)
    words = [f"w{number}" for number in range(3000)]
    phrases = [(" ".join(chance.choices(words, k=chance.randint(1, 3))), f"m{n % 500}") for n in range(10_000)]
    text = " ".join(chance.choices(words, k=300)) + " " + " ".join(phrase for phrase, _ in phrases[:20])
    table = Table(phrases)
    started = time.thread_time()
    found = {name: set(hits) for name, hits in table.match(text).items()}
    elapsed = time.thread_time() - started
    assert found == naive(phrases, text)
    assert elapsed < 1.0  # a few milliseconds; to try each phrase would take minutes
