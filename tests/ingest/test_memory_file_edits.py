from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest import memory_file
from scrimshaw.ingest.memory_file import MemoryFile, edit_memory_file, parse_memory_file
from scrimshaw.models import Relation


def checked(file: MemoryFile) -> str:
    """The text of an edited file, whose values must be those that reading it gives."""
    again = parse_memory_file(file.text)
    assert (file.values, file.body, again.problem) == (again.values, again.body, None)
    return file.text


def edit(text: str, changes: dict[str, object], body: str | None = None) -> str:
    return checked(edit_memory_file(parse_memory_file(text), changes, body))


def add_relation(text: str, relation: Relation, target: str, strength: float = 1.0, evidence: str = "") -> str:
    return checked(memory_file.add_relation(parse_memory_file(text), relation, target, strength, evidence))


def remove_relation(text: str, relation: Relation, target: str) -> str:
    return checked(memory_file.remove_relation(parse_memory_file(text), relation, target))


FILE = """\
---
# who reads this
title:   'Odd   spacing'   # keep me
importance_tier: "normal"  # older spelling
trigger_phrases:  # words
    - "wal reset"  # first
    - 'disk full'

# about the next key
custom: {b: 1,a:  2}
text: |
  keep
    this
relations:
  supersedes: [x]   # old one
  # a remark
  supports:
    - id: z
      strength: 0.50

# at the end
---

Body --- with
---
rules
"""


@pytest.mark.parametrize(
    ("changes", "old", "new"),
    [
        ({"title": "New: it's"}, "'Odd   spacing'   # keep", '"New: it\'s"   # keep'),
        ({"tier": "critical"}, '"normal"  #', "critical  #"),
        (
            {"trigger_phrases": ["wal reset", "new"]},
            "\"wal reset\"  # first\n    - 'disk full'",
            '"wal reset"\n    - new',
        ),
        (
            {"trigger_phrases": []},
            "trigger_phrases:  # words\n    - \"wal reset\"  # first\n    - 'disk full'",
            "trigger_phrases: []",
        ),
        ({"trigger_phrases": None}, "trigger_phrases:  # words\n    - \"wal reset\"  # first\n    - 'disk full'\n", ""),
        ({"custom": {"b": 1}}, "{b: 1,a:  2}", "{b: 1}"),
        ({"text": "short"}, "text: |\n  keep\n    this\n", "text: short\n"),
        ({"updated": "2026-11-22"}, "# at the end\n", "# at the end\nupdated: 2026-11-22\n"),
        ({"absent": None}, "", ""),
        ({"title": None}, "title:   'Odd   spacing'   # keep me\n", ""),
    ],
)
def test_edit_touches_only_its_key(changes: dict[str, object], old: str, new: str) -> None:
    assert FILE.count(old) == 1 or old == ""
    assert edit(FILE, changes) == FILE.replace(old, new)


@pytest.mark.parametrize(
    ("text", "changes", "body", "expected"),
    [
        ("body", {"title": "t"}, None, "---\ntitle: t\n---\nbody"),
        ("body", {"title": None}, None, "body"),
        ("body", {}, "other", "other"),
        ("\ufeffa\r\nb", {"title": "t"}, None, "\ufeff---\r\ntitle: t\r\n---\r\na\r\nb"),
        ("\ufeffa", {}, "b", "\ufeffb"),
        ("---\ntitle: t\n---\nold", {}, "---\nnew", "---\ntitle: t\n---\n---\nnew"),
        ("old", {}, "---\ntitle: not mine\n---\n", "---\n---\n---\ntitle: not mine\n---\n"),
        ("---\r\na: 1\r\n---\r\nb\n", {"topics": ["x"]}, None, "---\r\na: 1\r\ntopics: [x]\r\n---\r\nb\n"),
        ("---\r\na: 1\r\n---\r\nb\r\n", {}, "c\n\nd\n", "---\r\na: 1\r\n---\r\nc\r\n\r\nd\r\n"),
        ("---\r\na: 1\r\n---\r\nb", {"a": 2}, "c\nd", "---\r\na: 2\r\n---\r\nc\r\nd"),
        ("a\r\nb", {}, "c\n", "c\r\n"),
        ("a\r\nb", {}, "c\r\nd\n", "c\r\nd\n"),
        ("---\r\na: 1\r\n---\r\nb\n", {}, "c\n", "---\r\na: 1\r\n---\r\nc\n"),
        ("---\na: 1\n---\nb\n", {}, "c\r\n", "---\na: 1\n---\nc\r\n"),
        ("---\na:\nb:   # c\n---\n", {"a": 1, "b": ["x"]}, None, "---\na: 1\nb: [x]   # c\n---\n"),
        ("---\n---\nb", {"a": True}, None, "---\na: true\n---\nb"),
        ("---\na: 1\n---\nb", {"a": None}, None, "---\n---\nb"),
        ("---\n  a: 1\n---\nb", {"b": 2}, None, "---\n  a: 1\n  b: 2\n---\nb"),
        ("---\na: 1\na: 2\n---\n", {"a": 3}, None, "---\na: 1\na: 3\n---\n"),
        ("---\na: b\n  c\nd: [x,\n y]\n---\n", {"a": "z", "d": ["x", "w"]}, None, "---\na: z\nd: [x, w]\n---\n"),
        ("---\na: &x 1\nb: *x\n---\n", {"b": 2}, None, "---\na: &x 1\nb: 2\n---\n"),
        ("---\n? a\n: 1\nb: 2\n---\n", {"a": 3}, None, "---\na: 3\nb: 2\n---\n"),
    ],
)
def test_edit_of_odd_files(text: str, changes: dict[str, object], body: str | None, expected: str) -> None:
    assert edit(text, changes, body) == expected


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("---\na: [\n---\n", {"b": 1}),
        ("---\n{a: 1}\n---\n", {"b": 1}),
        ("---\na: &x [1]\nb: *x\n---\n", {"a": None}),
    ],
)
def test_what_cannot_be_edited_is_refused(text: str, changes: dict[str, object]) -> None:
    with pytest.raises(UnreadableFile):
        edit(text, changes)


def test_relations_are_added_beside_those_that_stand() -> None:
    assert add_relation(FILE, Relation.SUPERSEDES, "w") == FILE.replace("[x]", "[x, w]")
    assert add_relation(FILE, Relation.SUPPORTS, "w", 0.7, "bench 3") == FILE.replace(
        "strength: 0.50\n", "strength: 0.50\n    - {id: w, strength: 0.7, evidence: bench 3}\n"
    )
    assert add_relation(FILE, Relation.CAUSED, "w") == FILE.replace("0.50\n", "0.50\n  caused: [w]\n")


def test_a_relation_that_stands_is_restated_not_repeated() -> None:
    assert add_relation(FILE, Relation.SUPERSEDES, "x.md", 7, "again") == FILE.replace(
        "[x]", "[{id: x.md, strength: 1.0, evidence: again}]"
    )


@pytest.mark.parametrize(
    ("relation", "target", "old", "new"),
    [
        (Relation.SUPERSEDES, "x.md", "  supersedes: [x]   # old one\n", ""),
        (Relation.SUPPORTS, "z", "  supports:\n    - id: z\n      strength: 0.50\n", ""),
        (Relation.SUPPORTS, "nobody", "", ""),
        (Relation.CAUSED, "x", "", ""),
    ],
)
def test_relations_are_removed_alone(relation: Relation, target: str, old: str, new: str) -> None:
    assert remove_relation(FILE, relation, target) == FILE.replace(old, new)


@pytest.mark.parametrize(
    "front", ["", "---\na: 1\n---\n", "---\nrelations:\n---\n", "---\nrelations: {caused: [z]}\n---\n"]
)
def test_a_relation_can_be_added_to_any_file_and_taken_back(front: str) -> None:
    text = add_relation(front + "body", Relation.SUPPORTS, "a/b", 0.5, "why: so")
    stated = parse_memory_file(text).values["relations"]
    assert isinstance(stated, dict)
    assert stated["supports"] == [{"id": "a/b", "strength": "0.5", "evidence": "why: so"}]
    back = parse_memory_file(remove_relation(text, Relation.SUPPORTS, "a/b"))
    assert back.body == "body"
    assert back.values.get("relations") == ({"caused": ["z"]} if "caused" in front else None)


keys = st.sampled_from(["title", "topics", "custom", "tier", "last"])
texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
values = st.one_of(st.none(), texts, st.lists(texts, max_size=4), st.dictionaries(texts, texts, max_size=3))
styles = st.sampled_from(
    [
        "{}: 'x'  # c\n",
        "{}:\n- a\n- b # c\n\n",
        "{}: [a,  b]\n",
        "{}: |\n  a\n  # b\n\n",
        "# c\n{}:\n",
        "{}: a\n  b\n",
        "{}:\n  x: 1\n",
    ]
)


@given(st.lists(st.tuples(keys, styles), unique_by=lambda pair: pair[0]), keys, values, st.booleans(), texts)
def test_any_edit_changes_its_key_and_no_other_line(
    entries: list[tuple[str, str]], key: str, value: object, crlf: bool, body: str
) -> None:
    text = "---\n" + "".join(style.format(name) for name, style in entries) + "---\n"
    text = (text.replace("\n", "\r\n") if crlf else text) + body
    before, after = parse_memory_file(text), parse_memory_file(edit(text, {key: value}))
    assert after.body == body
    assert {**before.values, key: None} == {**after.values, key: None}
    assert after.values.get(key) == value
    assert (after.opening, after.closing) == (before.opening, before.closing)
    for name, style in entries:
        written = style.format(name).replace("\n", "\r\n" if crlf else "\n").rstrip()
        assert name == key or written in after.yaml


ends = st.sampled_from([{}, {"updated": "2026"}, {"title": None}, {"topics": ["a", "b"], "quality": {"score": 0.5}}])


@given(st.lists(st.tuples(keys, styles), unique_by=lambda pair: pair[0]), keys, values, ends)
def test_an_edited_file_is_edited_again_as_its_text_would_be(
    entries: list[tuple[str, str]], key: str, value: object, then: dict[str, object]
) -> None:
    text = "---\n" + "".join(style.format(name) for name, style in entries) + "---\nbody"
    once = edit_memory_file(parse_memory_file(text), {key: value})
    twice = edit_memory_file(memory_file.add_relation(once, Relation.CAUSED, "x"), then)
    checked(twice)
    read = parse_memory_file(edit(add_relation(once.text, Relation.CAUSED, "x"), then))
    assert (twice.values, twice.body) == (read.values, read.body)


@pytest.mark.parametrize("key", ["title", "topics", "custom"])
def test_a_key_of_an_entangled_file_is_changed_alone_or_refused(key: str) -> None:
    text = '---\ntitle: "x\n# y"\ntopics: &t [a]\ntags: *t\ncustom: [x,\n# c\n  y]\n---\nbody'
    for value in (None, "z", ["a", "b"]):
        with contextlib.suppress(UnreadableFile):
            before, after = parse_memory_file(text), edit_memory_file(parse_memory_file(text), {key: value})
            assert {**before.values, key: None} == {**parse_memory_file(after.text).values, key: None}
