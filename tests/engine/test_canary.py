"""The canary: what it asks, what turns it red, and how answers say so."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import OpenMemory
from tests.engine.breaking import tamper
from tests.samples import WordEmbedder, vouch_for, write_memory

from scrimshaw.config import load
from scrimshaw.engine import Engine, canary, open_engine, read
from scrimshaw.engine.canary import SAMPLES, WORDS, add_golden, choose_own_words, choose_samples, read_golden_file
from scrimshaw.engine.counts import count_memories
from scrimshaw.engine.degradations import RECALL
from scrimshaw.engine.health import check_health
from scrimshaw.engine.index import embed_pending, scan
from scrimshaw.errors import AlreadyExists, InvalidRequest, NotFound, UnreadableFile
from scrimshaw.models import Degradation, Filters, Redacted
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.toml_files import Golden, add_query, read_golden

# Every row is there, and no word of it.
OTHER_WORDS = "UPDATE memory_text SET name = 'x', title = 'x', triggers = 'x', body = 'x'"


@pytest.fixture
def library(engine: Engine, vault: Path) -> Engine:
    write_memory(vault, "tides", "# Tides\nThe tide turns at noon. Nobody waits for it.")
    write_memory(vault, "beef", "# Salt beef\nIt is kept in barrels.")
    write_memory(vault, "ropes", "# Ropes\nTar keeps them dry.")
    scan(engine)
    return engine


def golden(engine: Engine, text: str) -> None:
    (engine.folder / "golden.toml").write_text(text, encoding="utf-8")


def test_a_sound_index_is_green(library: Engine) -> None:
    add_golden(library, "when does the tide turn", ["tides"], 5)
    found = canary.check(library)
    assert (found.asked, found.judged, found.lost, found.unjudged) == (4, 4, (), 0)
    assert library.degradations.of(RECALL) == ()


def test_an_empty_memory_has_nothing_to_lose(engine: Engine) -> None:
    assert canary.check(engine) == canary.Recall(
        asked=0, judged=0, notes=("There are no golden queries of your own.", "There are no memories.")
    )


def test_full_text_of_other_words_is_healthy_by_count_and_red_by_canary(library: Engine) -> None:
    tamper(library.folder / "index.db", OTHER_WORDS)
    assert count_memories(library, Filters()).total == 3
    assert library.maintenance.check("index") == []
    found = canary.check(library)
    assert sorted(lost.missing[0] for lost in found.lost) == ["beef", "ropes", "tides"]
    told = check_health(library)
    assert (told.status, told.memories) == ("broken", 3)
    assert "is not found by words of its own" in told.problems[0] + told.problems[-1]


def test_vectors_emptied_by_hand_are_red_while_words_still_find(open_memory: OpenMemory, vault: Path) -> None:
    write_memory(vault, "tides", "# Tides\nThe tide turns at noon.")
    engine = open_memory(embedder=WordEmbedder())
    scan(engine)
    embed_pending(engine)
    assert not canary.check(engine).lost
    tamper(engine.folder / "index.db", "UPDATE vectors SET memory = memory + 1000")
    (lost,) = canary.check(open_memory(embedder=WordEmbedder())).lost
    assert "is not found by meaning of its own" in lost.sentence
    assert read.search(engine, SearchRequest(query="tide")).hits[0].memory.id == "tides"


def test_a_deleted_memory_is_named_with_the_query_that_lost_it(library: Engine, vault: Path) -> None:
    add_golden(library, "how is meat kept", ["beef", "ropes"], 5)
    (vault / "beef.md").unlink()
    scan(library)
    (lost,) = canary.check(library).lost
    assert lost.missing == ("beef", "ropes")
    assert (
        "'how is meat kept' in golden.toml lost 2 of 2; no longer exists: beef; not among its first 5 hits: ropes."
        in lost.sentence
    )


def test_answers_say_it_while_it_is_red_and_stop_when_it_is_mended(library: Engine) -> None:
    golden(library, '[[query]]\ntext = "tide"\nexpect = ["tides", "moon"]\n')
    canary.check(library)
    (said,) = (each for each in ask(library) if each.failure_mode.startswith("recall_red"))
    assert "'tide' in golden.toml lost 1 of 2; no longer exists: moon." in said.failure_mode
    assert "\n" not in said.failure_mode
    golden(library, '[[query]]\ntext = "tide"\nexpect = ["tides"]\n')
    canary.check(library)
    assert not any(each.failure_mode.startswith("recall_red") for each in ask(library))


def ask(engine: Engine) -> tuple[Degradation, ...]:
    return read.search(engine, SearchRequest(query="tide")).degradations


@pytest.mark.parametrize(("within", "lost"), [(1, True), (2, False)])
def test_a_golden_answer_beyond_its_place_is_lost(library: Engine, vault: Path, within: int, lost: bool) -> None:
    write_memory(vault, "more-tides", "# Tides and tide tables\ntide tide tide")
    scan(library)
    hits = [hit.memory.id for hit in read.search(library, SearchRequest(query="tide")).hits]
    golden(library, f'[[query]]\ntext = "tide"\nexpect = ["{hits[1]}"]\nwithin = {within}\n')
    assert bool(canary.check(library).lost) == lost


def test_a_memory_among_its_like_is_not_lost(engine: Engine, vault: Path) -> None:
    for number in range(30):
        write_memory(vault, f"log-{number:02}", "# Ship's log\nCalm sea.")
    scan(engine)
    found = canary.check(engine)
    assert (found.lost, found.asked) == ((), SAMPLES)


def test_deprecated_and_poor_memories_are_no_false_alarm(engine: Engine, vault: Path) -> None:
    write_memory(vault, "old", "# Old\nNot so any more.", "tier: deprecated")
    write_memory(vault, "poor", "# Poor\nx", "provenance: {source: agent}\nquality: {score: 0.01}")
    write_memory(vault, "law", "# Law\nAlways so.", "tier: constitutional")
    write_memory(vault, "empty", "")
    vouch_for(engine, "law")
    assert canary.check(engine).lost == ()


@pytest.mark.parametrize(
    ("title", "words"),
    [("🦀Rust and 🚀 launch", "launch"), ("", ""), ("naïve Straße", "naïve straße"), ("🫠", ""), ("the", "the")],
)
def test_the_words_that_are_asked(title: str, words: str) -> None:
    assert choose_own_words(title, "") == words


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=SAMPLES))
def test_no_text_is_a_false_alarm(tmp_path: Path, texts: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        vault = Path(folder) / ".scrimshaw/memories"
        vault.mkdir(parents=True)
        for number, text in enumerate(texts):
            (vault / f"n{number}.md").write_bytes(f"# {text}\n{text}".encode("utf-8", "replace"))
        (vault.parent / "config.toml").write_text('[embedding]\nprovider = "none"\n')
        with open_engine(load(Path(folder), home=tmp_path / "home", environment={})) as engine:
            scan(engine)
            assert canary.check(engine).lost == ()


@given(st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=4))
def test_whatever_stands_in_a_memory_its_words_can_be_asked(lines: list[str]) -> None:
    words = choose_own_words(lines[0], "\n".join(lines))
    assert len(words.split()) <= WORDS
    assert words == choose_own_words(lines[0], "\n".join(lines))


@pytest.mark.parametrize("count", [1, 7, SAMPLES, 100])
def test_the_same_memories_are_asked_each_time(engine: Engine, vault: Path, count: int) -> None:
    for number in range(count):
        write_memory(vault, f"note-{number:03}", f"# Note {number}\nText.", "tier: deprecated")
    scan(engine)
    first = choose_samples(engine)
    assert first == sorted(set(first)) == choose_samples(engine)
    assert len(first) == min(count, SAMPLES)


# By words alone


def test_by_words_alone_the_model_stays_asleep(open_memory: OpenMemory, vault: Path) -> None:
    write_memory(vault, "tides", "# Tides\nThe tide turns at noon.")
    embedder = WordEmbedder()
    engine = open_memory(embedder=embedder)
    scan(engine)
    golden(
        engine, '[[query]]\ntext = "ebb and flow"\nexpect = ["tides"]\n\n[[query]]\ntext = "moon"\nexpect = ["moon"]\n'
    )
    found = canary.check(engine, by_meaning=False)
    assert embedder.calls == []
    assert (found.asked, found.judged, found.unjudged) == (4, 2, 2)
    assert [lost.missing for lost in found.lost] == [("moon",)]  # no model finds what does not exist


# The file


def test_a_query_is_added_at_the_end_and_the_rest_is_left_as_it_was(library: Engine) -> None:
    golden(library, "# mine\n[[query]]\ntext = 'a'  # why\nexpect = [\"beef\"]")
    added = add_golden(library, ' when "does" it turn\\ ', ["tides", "tides"], 3)
    assert added == Golden('when "does" it turn\\', ("tides",), 3)
    assert read_golden_file(library).queries == (Golden("a", ("beef",), 5), added)
    assert (library.folder / "golden.toml").read_text().startswith("# mine\n[[query]]\ntext = 'a'  # why\n")


def test_a_query_expects_the_memory_and_not_the_name_given_for_it(library: Engine) -> None:
    added = add_golden(library, "when does the tide turn", ["mem:tides", "tides.md"], 5)
    assert added.expect == ("tides",)
    assert canary.check(library).lost == ()


def test_what_cannot_be_added(library: Engine) -> None:
    add_golden(library, "tide", ["tides"], 5)
    before = (library.folder / "golden.toml").read_bytes()
    with pytest.raises(AlreadyExists):
        add_golden(library, "tide", ["beef"], 5)
    with pytest.raises(NotFound):
        add_golden(library, "moon", ["moon"], 5)
    with pytest.raises(InvalidRequest):
        add_golden(library, " ", ["tides"], 5)
    assert (library.folder / "golden.toml").read_bytes() == before


def test_a_secret_in_a_query_does_not_reach_the_file(library: Engine) -> None:
    secret = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    add_golden(library, f"who uses {secret}", ["tides"], 5)
    assert secret not in (library.folder / "golden.toml").read_text()


@pytest.mark.parametrize(
    "text",
    ["not toml", "[query]\n", "query = 1\n", "surely = 1\n", "[[query]]\ntext = 'x'\n[[query]]\ntext = 'x\n"],
)
def test_a_file_that_cannot_be_used_is_red_and_named(library: Engine, text: str) -> None:
    golden(library, text)
    with pytest.raises(UnreadableFile, match=r"golden\.toml"):
        read_golden_file(library)
    (lost,) = canary.check(library).lost
    assert "golden.toml" in lost.sentence
    assert "Correct the file." in lost.sentence
    assert lost.advice == "Correct golden.toml."


@given(st.text(min_size=1, max_size=200), st.lists(st.text(min_size=1, max_size=30), min_size=1), st.integers(1, 100))
def test_what_is_written_is_read_back(text: str, expect: list[str], within: int) -> None:
    one = Golden(text, tuple(expect), within)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "golden.toml"
        for _ in range(2):
            add_query(path, one, lambda _, after: Redacted(text=after), len)
        back = read_golden(path, len).queries
    clean = text.encode("utf-8", "replace").decode()
    assert [each.within for each in back] == [within, within]
    assert back[0].text == clean
