"""Judged sets are read in their authors' forms and searched in every way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scrimshaw.errors import InvalidRequest
from scrimshaw_lab.judged_sets import WAYS, fill_vault, measure_set, open_vault, read_sets

TEXTS = {
    "1": "The kraken sinks ships in northern seas.",
    "2": "Barnacles slow a hull down.",
    "3": "Lanterns burn whale oil.",
}


def write_corpus(data: Path, name: str) -> None:
    place = data / name / "beir"
    place.mkdir(parents=True)
    corpus = [json.dumps({"_id": key, "title": f"Chapter {key}", "text": text}) for key, text in TEXTS.items()]
    (place / "corpus.jsonl").write_text("\n".join(corpus), encoding="utf-8")
    asked = [{"_id": "a", "text": "what sinks ships"}, {"_id": "b", "text": "what slows a hull"}]
    (place / "queries_dev.jsonl").write_text("\n".join(map(json.dumps, asked)), encoding="utf-8")
    (place / "qrels_dev.tsv").write_text("query-id\tcorpus-id\tscore\na\t1\t1\nb\t2\t1\nb\t3\t0\n", encoding="utf-8")


def test_every_way_is_measured_and_compared(tmp_path: Path) -> None:
    write_corpus(tmp_path, "ir_cacm")
    ((name, read),) = read_sets(tmp_path).items()
    texts, judged = read(3)
    assert (name, len(texts), [query.relevant for query in judged]) == ("CACM", 3, [{"d1": 1}, {"d2": 1}])
    with open_vault(tmp_path / "vaults", name) as engine:
        fill_vault(engine, texts, lambda done, total: None)
        found = measure_set(name, engine, judged, len(texts))
    assert set(found.means) == set(WAYS)
    assert (found.means["text"], found.means["reranked"]) == (1.0, 1.0)
    assert found.leads["ranks"] == (0.0, 0.0, 0.0)


def test_a_large_set_keeps_what_its_queries_ask_for(tmp_path: Path) -> None:
    write_corpus(tmp_path, "ir_scifact")
    texts, _ = read_sets(tmp_path)["SciFact"](2)
    assert set(texts) == {"d1", "d2"}


def test_turns_and_sessions_of_a_talk_are_documents(tmp_path: Path) -> None:
    turns = [{"speaker": "Ann", "dia_id": "D1:1", "text": "I saw a whale."}]
    talk = {
        "conversation": {"session_1": turns, "session_1_date_time": "May 1"},
        "qa": [{"question": "What did Ann see?", "evidence": ["D1:1; D9:9"]}],
    }
    (tmp_path / "locomo").mkdir()
    (tmp_path / "locomo/locomo_dev.json").write_text(json.dumps([talk]), encoding="utf-8")
    sets = read_sets(tmp_path)
    assert sets["LoCoMo turns"](9)[1][0].relevant == {"talk0/D1-1": 1}
    texts, (query,) = sets["LoCoMo sessions"](9)
    assert texts == {"talk0/session_1": "May 1\n\nAnn: I saw a whale.\n"}
    assert query.relevant == {"talk0/session_1": 1}


def test_a_folder_without_a_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="contains no judged set"):
        read_sets(tmp_path)
