from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scrimshaw.config import EmbeddingSettings, Settings
from scrimshaw.errors import InvalidRequest
from scrimshaw.models import Channel
from scrimshaw_lab.search_quality import evaluate, read_queries

FILES = {
    "storage/apsw.md": "# Use apsw for SQLite\n\nThe bundled SQLite is current and free of the WAL reset bug.\n",
    "storage/wal.md": "# Write-ahead log\n\nReaders do not block the writer of the database.\n",
    "food/bread.md": "# Sourdough\n\nFlour, water, salt and patience make a loaf.\n",
    "food/soup.md": "---\ntrigger_phrases: [hot lunch]\n---\n# Lentil broth\n\nSimmer for an hour.\n",
    "food-index.md": "# Sourdough, lentil broth, apsw, database, hot lunch\n",
}
QUERIES = [
    {"id": "q1", "query": "which SQLite binding", "relevant": {"storage/apsw": 2, "storage/wal": 1}},
    {"id": "q2", "query": "baking at home without yeast", "relevant": {"food/bread": 1}, "intent": "understand"},
    {"id": "q3", "query": "what about a hot lunch", "relevant": {"food/soup": 2}},
]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = tmp_path / "vault"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def write_queries(folder: Path, lines: list[Any]) -> Path:
    path = folder / "queries.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def words_only(vault: Path) -> Settings:
    return Settings(project=vault, home=vault / "nowhere", embedding=EmbeddingSettings(provider="none"))


def snapshot(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_every_channel_and_their_fusion_are_measured_and_the_vault_is_left_alone(vault: Path, tmp_path: Path) -> None:
    before = snapshot(vault)
    steps: list[tuple[int, int]] = []
    found = evaluate(
        vault,
        write_queries(tmp_path, QUERIES),
        exclude=["*-index"],
        channels=list(Channel)[:3],
        advance=lambda done, total: steps.append((done, total)),
    )
    assert snapshot(vault) == before
    assert (found.queries, found.memories, found.unknown, found.degradations) == (3, 4, (), ())
    assert (steps[-1], (4, 4) in steps) == ((3, 3), True)
    assert found.channels[Channel.TRIGGER].hit_1 == pytest.approx(1 / 3)
    assert found.channels[Channel.VECTOR].hit_1 >= 2 / 3
    assert found.fused.hit_1 == 1
    assert 0 < found.p50_ms <= found.p95_ms


def test_how_sure_answers_are_is_measured_on_questions_about_something_else(vault: Path, tmp_path: Path) -> None:
    others = tmp_path / "others.jsonl"
    others.write_text('{"query": "how long do I boil an egg"}\n{"text": "xyzzy plugh"}\n')
    sure = evaluate(vault, write_queries(tmp_path, QUERIES), others=others).sureness
    assert sure
    assert (sure.others, sure.others_answered) == (2, 0.0)
    assert sure.true_refused < 1
    assert 0 <= sure.calibration_error <= 1


def test_the_figures_as_json(vault: Path, tmp_path: Path) -> None:
    figures: dict[str, Any] = evaluate(vault, write_queries(tmp_path, QUERIES)).as_json()
    measures = {"ndcg@10", "mrr@10", "hit@1", "hit@5", "hit@10"}
    assert figures.keys() >= {"fused", "text", "vector", "queries", "memories", "missed"}
    assert figures["fused"].keys() == measures | {"p50_ms", "p95_ms"}
    assert figures["text"].keys() == figures["vector"].keys() == measures
    assert figures["queries"] == 3


def test_without_a_model_the_vector_channel_is_absent_and_says_why(vault: Path, tmp_path: Path) -> None:
    found = evaluate(vault, write_queries(tmp_path, QUERIES), settings=words_only(vault))
    assert list(found.channels) == [Channel.TEXT]
    assert found.degradations[0].failure_mode.startswith("embedder_off")
    assert found.missed == ("q2",)


@pytest.mark.parametrize(
    ("glob", "memories"),
    [
        ("*-index", 4),
        ("*-index.md", 4),
        ("**/*-index.md", 4),
        ("food/*", 3),
        ("food/", 3),
        ("bread", 4),
        ("storage/**", 3),
        ("rage/*", 5),
    ],
)
def test_globs_leave_memories_out(vault: Path, tmp_path: Path, glob: str, memories: int) -> None:
    queries = write_queries(tmp_path, QUERIES)
    assert evaluate(vault, queries, exclude=[glob], settings=words_only(vault)).memories == memories


def test_judged_ids_that_the_vault_does_not_have_are_named(vault: Path, tmp_path: Path) -> None:
    queries = write_queries(tmp_path, [{"id": "q", "query": "apsw", "relevant": {"gone": 2, "storage/apsw": 2}}])
    assert evaluate(vault, queries, settings=words_only(vault)).unknown == ("gone",)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "truncated"),
        ('{"id": "x", "query": "y"}', "relevant"),
        ('{"id": "x", "query": "y", "relevant": {}}', "no memory has a grade"),
        ('{"id": "x", "query": "y", "relevant": {"a": 0}}', "no memory has a grade"),
        ('{"id": "x", "query": "y", "relevant": {"a": "2"}}', "int"),
        ('{"id": "x", "query": "y", "relevant": {"a": -1}}', ">= 0"),
        ('{"id": "x", "query": "  ", "relevant": {"a": 1}}', "characters"),
        ('{"id": "x", "query": "y\\u0001", "relevant": {"a": 1}}', "control characters"),
        ("[]", "object"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_by_file_and_number(
    vault: Path, tmp_path: Path, line: str, problem: str
) -> None:
    queries = write_queries(tmp_path, [QUERIES[0], "", line])
    with pytest.raises(InvalidRequest) as caught:
        evaluate(vault, queries, settings=words_only(vault))
    assert f"{queries}, line 3: " in caught.value.message
    assert problem in caught.value.message
    assert caught.value.details["line"] == 3


def test_bytes_that_are_not_utf_8_are_named_too(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_bytes(b'{"id": "x", "query": "\xff", "relevant": {"a": 1}}\n')
    with pytest.raises(InvalidRequest, match="line 1"):
        read_queries(path)


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(json.dumps(query).encode() for query in QUERIES))
    assert [query.id for query in read_queries(path)] == ["q1", "q2", "q3"]


@pytest.mark.parametrize("content", [None, "", "\n\n"])
def test_a_missing_or_empty_file_of_queries_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "queries.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidRequest, match=r"queries\.jsonl"):
        read_queries(path)


def test_a_memory_that_is_always_on_takes_part_in_the_ranking(vault: Path, tmp_path: Path) -> None:
    (vault / "rule.md").write_text("---\ntier: constitutional\n---\n# Never force a push\n")
    queries = write_queries(tmp_path, [{"id": "q", "query": "force a push", "relevant": {"rule": 2}}])
    assert evaluate(vault, queries, settings=words_only(vault)).fused.hit_1 == 1
