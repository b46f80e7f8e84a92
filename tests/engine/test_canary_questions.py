"""What the canary asks: that it goes red when a way of finding fails, and never for a text that is merely unusual."""

from __future__ import annotations

import sys
from pathlib import Path

import apsw
import pytest
from tests.conftest import OpenMemory
from tests.engine.breaking import tamper
from tests.samples import WordEmbedder, write_memory

from scrimshaw.engine import Engine
from scrimshaw.engine.canary import SAMPLES, _is_parted_alike, check, choose_own_words, choose_samples, read_golden_file
from scrimshaw.engine.degradations import RECALL
from scrimshaw.engine.health import check_health
from scrimshaw.engine.index import embed_pending, scan
from scrimshaw.models import Status
from scrimshaw.search.embedders import Embedder, MiniLMEmbedder

OTHER_WORDS = "UPDATE memory_text SET name = 'x', title = 'x', triggers = 'x', body = 'x'"
SUBJECTS = ("tides", "beef", "ropes", "sails", "biscuits", "anchors", "charts", "lamps", "whales", "pumps")


def write_subjects(vault: Path) -> None:
    for subject in SUBJECTS:
        write_memory(vault, subject, f"# About {subject}\nWhat the crew knows of {subject}.")


def golden(engine: Engine, text: str) -> None:
    (engine.folder / "golden.toml").write_text(text, encoding="utf-8")


def recall_row(engine: Engine) -> tuple[Status, str]:
    return next((row.status, row.detail) for row in check_health(engine).capabilities if row.name == "recall")


# What the index lost


@pytest.mark.parametrize("at", ["get", "bodies"])
def test_a_memory_that_is_deleted_meanwhile_is_no_loss(
    engine: Engine, vault: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    write_subjects(vault)
    scan(engine)
    look = getattr(engine.index, at)

    def when_deleted(names: list[str]) -> object:
        engine.index.retire([str(vault / "beef.md")])
        return look(names)

    monkeypatch.setattr(engine.index, at, when_deleted)
    found = check(engine)
    assert (found.lost, found.unjudged) == ((), 1)
    assert "1 not judged: it was deleted meanwhile" in found.notes


def test_samples_come_from_the_files_and_not_from_the_table_that_is_looked_through(engine: Engine, vault: Path) -> None:
    write_subjects(vault)
    scan(engine)
    before = choose_samples(engine)
    tamper(engine.folder / "index.db", "DELETE FROM memories")
    assert choose_samples(engine) == before
    found = check(engine, by_meaning=False)
    assert sorted(lost.missing[0] for lost in found.lost) == sorted(before)


# By meaning


def with_vectors(open_memory: OpenMemory, embedder: Embedder) -> Engine:
    engine = open_memory(embedder=embedder)
    scan(engine)
    embed_pending(engine)
    return engine


@pytest.mark.parametrize(
    "spoiled",
    [
        "zeroblob(length(vector))",
        "(SELECT vector FROM vectors ORDER BY seq LIMIT 1)",
        "(SELECT o.vector FROM vectors o WHERE o.seq = (vectors.seq % 10) + 1)",
    ],
    ids=["zero", "all alike", "of others"],
)
def test_vectors_that_lead_nowhere_are_red(open_memory: OpenMemory, vault: Path, spoiled: str) -> None:
    write_subjects(vault)
    engine = with_vectors(open_memory, WordEmbedder())
    found = check(engine)
    assert (found.lost, found.judged) == ((), 2 * SAMPLES)
    tamper(engine.folder / "index.db", f"CREATE TEMP TABLE new AS SELECT seq, {spoiled} AS vector FROM vectors;"
           "UPDATE vectors SET vector = (SELECT new.vector FROM new WHERE new.seq = vectors.seq)")  # fmt: skip
    lost = check(open_memory(embedder=WordEmbedder())).lost
    assert len(lost) > SAMPLES / 2
    assert all("by meaning of its own" in each.sentence for each in lost)


UNUSUAL = {
    "none": [],
    "one": ["x"],
    "identical": ["# Same title\nThe very same sentence."] * 40,
    "nearly identical": [f"# Ship's log\nCalm sea, day {number}." for number in range(40)],
    "thai": ["# การตัดสินใจ\nเราเลือกใช้ฐานข้อมูล", "# เรือ\nเรือลำนี้เก่ามาก"],
    "chinese": [f"# 数据库 决策 {number}\n我们选择使用数据库索引来加速搜索，编号{number}。" for number in range(6)],
    "symbols": ["# 🐳🐳\n🐳 🎉", "```\n{}[]()<>\n```", "$ls -la | grep"],
    "control": ["# a\x07b\nbell \x1b[31mred", "line\x0btab"],
    "long": ["# " + "a" * 3000 + "\n" + "b" * 500, "# " + " ".join(f"w{number}" for number in range(400))],
    "accents apart": ["# Cafe\u0301 re\u0301sume\u0301\nNai\u0308ve e\u0301tude", "# Zu\u0308rich\nThe lake."],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_vault_is_no_false_alarm_by_meaning(
    open_memory: OpenMemory, vault: Path, minilm: MiniLMEmbedder, name: str
) -> None:
    for number, text in enumerate(UNUSUAL[name]):
        write_memory(vault, f"n{number:02}", text)
    found = check(with_vectors(open_memory, minilm))
    assert (found.lost, found.unjudged) == ((), 0)
    assert found.judged >= min(len(UNUSUAL[name]), SAMPLES)


# Words that may be asked


@pytest.mark.parametrize("rule", ["query_max = 30", "query_max = 2", "strict_queries = true"])
def test_the_products_own_limits_are_no_loss(open_memory: OpenMemory, vault: Path, rule: str) -> None:
    for number, text in enumerate(UNUSUAL["long"] + UNUSUAL["thai"] + UNUSUAL["chinese"]):
        write_memory(vault, f"n{number:02}", text)
    write_memory(vault, "plain", "# Why the tide table was kept on the quarterdeck\nSo that everybody saw it.")
    engine = open_memory(f"[search]\n{rule}\n")
    scan(engine)
    found = check(engine)
    assert found.lost == ()
    assert found.unjudged == 0


@pytest.mark.parametrize(
    ("title", "body"),
    [("การตัดสินใจ", "เราเลือกใช้ฐานข้อมูล"), ("निर्णय", "हमने डेटाबेस चुना"), ("הַחְלָטָה", "בָּחַרְנוּ"), ("قرار", "اخترنا")],
)
def test_every_script_has_a_canary(engine: Engine, vault: Path, title: str, body: str) -> None:
    write_memory(vault, "note", f"# {title}\n{body}")
    scan(engine)
    assert choose_own_words(title, body)
    assert (check(engine).judged, check(engine).lost) == (1, ())
    tamper(engine.folder / "index.db", OTHER_WORDS)
    assert len(check(engine).lost) == 1


def test_where_words_end_is_where_the_index_ends_them() -> None:
    tokenize = apsw.Connection(":memory:").fts5_tokenizer("unicode61", [])

    def parts(text: str) -> list[object]:
        return list(tokenize(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False))

    trusted = (chr(code) for code in range(0x80, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    joined = [
        hex(ord(character))
        for character in trusted
        if _is_parted_alike(character) and not character.isalnum() and len(parts(f"a{character}b")) != 2
    ]
    assert joined == []


def test_what_holds_no_word_is_not_called_found(engine: Engine, vault: Path) -> None:
    write_memory(vault, "whale", "# 🐳🐳\n🐳 🎉")
    scan(engine)
    found = check(engine)
    assert (found.asked, found.judged) == (0, 0)
    assert any("1 of 1 memories have no word" in each and "not measured" in each for each in found.notes)
    assert "not measured" in recall_row(engine)[1]


# Golden queries that cannot be asked


def test_a_query_that_cannot_be_asked_is_named_and_the_others_are_asked(engine: Engine, vault: Path) -> None:
    write_subjects(vault)
    scan(engine)
    good = '[[query]]\ntext = "tides"\nexpect = ["tides"]\n'
    golden(engine, f'\ufeff# mine\n{good}\n[[query]]\ntext = "   "\nexpect = ["beef"]\n\n[[query]]\n'
           'text = "a\\u0001b"\nexpect = ["beef"]\n[[query]]\ntext = "x"\n')  # fmt: skip
    read = read_golden_file(engine)
    assert [query.text for query in read.queries] == ["tides"]
    assert ["query 2: A query has 1 to" in read.flaws[0], "query 3: The query holds" in read.flaws[1]] == [True, True]
    assert "query 4: Object missing required field `expect`" in read.flaws[2]
    found = check(engine)
    assert (found.asked, found.judged, len(found.lost)) == (4 + SAMPLES, 4 + SAMPLES, 3)
    assert all("golden.toml, query" in lost.sentence and "Correct the file." in lost.sentence for lost in found.lost)
    assert {lost.advice for lost in found.lost} == {"Correct golden.toml."}
    assert engine.degradations.of(RECALL)[0].retry_recommendation == "Correct golden.toml."


def test_a_query_beyond_the_limits_of_this_project_is_named(open_memory: OpenMemory, vault: Path) -> None:
    write_subjects(vault)
    engine = open_memory("[search]\nstrict_queries = true\n")
    scan(engine)
    golden(engine, '[[query]]\ntext = "what about tides?"\nexpect = ["tides"]\n')
    (lost,) = check(engine).lost
    assert "golden.toml, query 1: The query holds characters outside" in lost.sentence


# What was not judged


def test_a_loss_is_forgotten_when_its_question_is_answered_or_gone(open_memory: OpenMemory, vault: Path) -> None:
    write_subjects(vault)
    engine = with_vectors(open_memory, WordEmbedder())
    unanswered = '[[query]]\ntext = "tar and hemp"\nexpect = ["ropes"]\n'  # by words alone nobody can tell
    gone = '[[query]]\ntext = "tides"\nexpect = ["moon"]\n'
    golden(engine, unanswered + gone)
    assert len(check(engine, by_meaning=False).lost) == 1
    assert engine.degradations.of(RECALL)
    golden(engine, unanswered + gone.replace("moon", "tides"))
    assert check(engine, by_meaning=False).unjudged
    assert engine.degradations.of(RECALL) == ()


def test_a_loss_by_meaning_stays_while_only_words_are_asked(open_memory: OpenMemory, vault: Path) -> None:
    write_subjects(vault)
    with_vectors(open_memory, WordEmbedder())
    engine = open_memory(embedder=WordEmbedder())
    tamper(engine.folder / "index.db", "UPDATE vectors SET vector = zeroblob(length(vector))")
    assert check(engine).lost
    assert check(engine, by_meaning=False).lost == ()
    assert engine.degradations.of(RECALL)


def test_health_says_what_was_not_judged(open_memory: OpenMemory, vault: Path) -> None:
    write_subjects(vault)
    engine = open_memory(embedder=WordEmbedder())
    scan(engine)
    detail = recall_row(engine)[1]
    assert f"{SAMPLES} of {SAMPLES} questions found the known answer" in detail
    assert f"{SAMPLES} not judged: pieces with a vector: only 0 of {len(SUBJECTS)}" in detail
