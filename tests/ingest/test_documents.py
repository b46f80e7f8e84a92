from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.samples import NewMemory, render_new

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.comparison import count_tokens, hash_normalised_text
from scrimshaw.ingest.memory_file import build_document, parse_memory_file
from scrimshaw.models import (
    Document,
    Edge,
    EdgeKind,
    MemoryType,
    Provenance,
    Quality,
    Redacted,
    Relation,
    SourceFile,
    Tier,
    Trust,
    content_hash,
)

EXAMPLE = """\
---
title: Use apsw, not the interpreter's sqlite3
type: decision                 # why we chose
tier: important
trigger_phrases: [wal reset, database is malformed]
topics: [sqlite, concurrency]
relations:
  supersedes: [storage/stdlib-sqlite]
  supports: [{id: storage/wal, strength: 0.8, evidence: "bench 3"}]
provenance: {source: agent, session: 0e24, trust: agent}
created: 2026-11-21T20:40:00Z
quality: {score: 0.92, flags: []}
---
Plain *text*.
"""


def as_it_is(text: str) -> Redacted:
    return Redacted(text=text)


def without_pin(text: str) -> Redacted:
    return Redacted(text=re.sub(r"pin-\d+", "[REDACTED:pin]", text))


def document(raw: str | bytes, memory_id: str = "storage/apsw", gate: object = as_it_is) -> Document:
    data = raw if isinstance(raw, bytes) else raw.encode()
    file = SourceFile(
        source="vault", memory_id=memory_id, path=f"{memory_id}.md", size=len(data), mtime_ns=0, writable=True
    )
    return build_document(file, parse_memory_file(data, file.path), without_pin if gate is without_pin else as_it_is)


def render(meta: NewMemory, body: str) -> str:
    """The text of a new file, whose values must be those that reading it gives."""
    file = render_new(meta, body)
    assert parse_memory_file(file.text).values == file.values
    return file.text


def test_every_key_of_the_format_is_read() -> None:
    found = document(EXAMPLE)
    assert found.title == "Use apsw, not the interpreter's sqlite3"
    assert (found.type, found.tier) == (MemoryType.DECISION, Tier.IMPORTANT)
    assert found.triggers == ("wal reset", "database is malformed")
    assert found.topics == ("sqlite", "concurrency")
    assert found.provenance == Provenance(source="agent", trust=Trust.AGENT, session="0e24")
    assert (found.created, found.updated) == ("2026-11-21T20:40:00Z", "")
    assert found.quality == Quality(score=0.92)
    assert found.body.text == "Plain *text*.\n"
    assert found.tokens == count_tokens(found.body.text)
    assert found.content_hash == content_hash(EXAMPLE.encode())
    assert found.text_hash == hash_normalised_text("plain  *TEXT*.")
    assert {(e.relation, e.target, e.strength, e.evidence) for e in found.edges} == {
        ("supersedes", "storage/stdlib-sqlite", 1.0, ""),
        ("supports", "storage/wal", 0.8, "bench 3"),
    }


@pytest.mark.parametrize(
    ("front", "field", "value"),
    [
        ("importance_tier: critical", "tier", Tier.CRITICAL),
        ("importanceTier: Critical", "tier", Tier.CRITICAL),
        ("tier: 2", "tier", Tier.NORMAL),
        ("tier: temporary\nimportance_tier: critical", "tier", Tier.TEMPORARY),
        ("contextType: research", "type", MemoryType.RESEARCH),
        ("type: planning", "type", MemoryType.GENERAL),
        ("type: [decision]", "type", MemoryType.GENERAL),
        ("triggerPhrases:\n  - a b\n  - a b\n  - 3.10\n  - {x: y}\n  - ~", "triggers", ("a b", "3.10")),
        ("trigger_phrases: wal reset, disk full", "triggers", ("wal reset", "disk full")),
        ("tags:\n  - testing", "topics", ("testing",)),
        ("topics:", "topics", ()),
        ("title: null", "title", "apsw"),
        ('title: "null"', "title", "null"),
        ("title: 2026-05-10", "title", "2026-05-10"),
        ('title: "two\\nlines \\ud83d\\ude00 \\ud800"', "title", "two lines \U0001f600 \ufffd"),
        ("created: 2026-05-10", "created", "2026-05-10"),
        ("created: 2026-05-10 12:00:00+02:00", "created", "2026-05-10T10:00:00Z"),
        ("created: 0001-01-01T00:00:00+02:00", "created", ""),
        ("updated: yesterday", "updated", ""),
        ("quality_score: 1.00\nquality_flags: [thin]", "quality", Quality(score=1.0, flags=("thin",))),
        ("quality: {score: 7}", "quality", Quality(score=1.0)),
        ("quality: {score: nan}", "quality", None),
        ("quality: good", "quality", None),
        ("provenance: agent", "provenance", Provenance(source="agent", trust=Trust.AGENT)),
        ("provenance: {trust: robot}", "provenance", Provenance(source="file", trust=Trust.WEB)),
        ("provenance: {session: s1}", "provenance", Provenance(session="s1", trust=Trust.FILE)),
        ("unknown: {a: [1]}\nother: !tag x", "title", "apsw"),
    ],
)
def test_loose_front_matter_is_tolerated(front: str, field: str, value: object) -> None:
    assert getattr(document(f"---\n{front}\n---\nbody\n"), field) == value


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        ("# From the heading\n", "From the heading"),
        ("## Second level\n", "retry budget v2"),
        ("---\ntitle:\n---\n# From the heading\n", "From the heading"),
        ("```\n# code\n```\n", "retry budget v2"),
    ],
)
def test_a_title_is_always_found(raw: str, title: str) -> None:
    assert document(raw, "ops/retry-budget_v2").title == title


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        ("", ""),
        ("\ufeffplain", "plain"),
        ("\ufeff---\r\ntitle: x\r\n---\r\nline\r\n", "line\r\n"),
        ("---\ntitle: x\n...\nbody", "body"),
        ("---\n---\n\nbody", "\nbody"),
        ("---\ntitle: x\n---", ""),
        ("---\nno end", "---\nno end"),
        ("---\njust prose\n---\nmore", "---\njust prose\n---\nmore"),
        (" ---\ntitle: x\n---\n", " ---\ntitle: x\n---\n"),
    ],
)
def test_body_is_what_follows_the_front_matter(raw: str, body: str) -> None:
    assert document(raw).body.text == body


@pytest.mark.parametrize(
    ("raw", "line", "why"),
    [
        (b"a\nb\0c", 2, "NUL"),
        ("text".encode("utf-16"), 1, "NUL"),
        (b"one\ntwo\n\xff", 3, "not UTF-8"),
    ],
)
def test_an_unreadable_file_is_named_with_its_line(raw: bytes, line: int, why: str) -> None:
    with pytest.raises(UnreadableFile, match=why) as caught:
        document(raw, "notes/broken")
    assert f"notes/broken.md, line {line}:" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("raw", "line", "why"),
    [
        (b"---\ntitle: x\ntopics: [a\n---\n", 4, "not valid YAML"),
        (b"---\ntitle: a: b\n---\n", 2, "not valid YAML"),
        (b"---\na: *nobody\n---\n", 2, "not valid YAML"),
        (b"---\na: \x07\n---\n", 1, "not valid YAML"),
        (b"---\n%YAML 1.3\n...\n", 1, "not valid YAML"),
        (b"---\na: " + b"[" * 5000 + b"\n---\n", 1, "nested too deeply"),
        (b"---\n" + b"{a: " * 3000 + b"\n---\n", 1, "nested too deeply"),
        (b"---\n" + b"a: b\n" * 9000 + b"---\n", 1, "45000 characters"),
    ],
)
def test_broken_front_matter_is_named_with_its_line(raw: bytes, line: int, why: str) -> None:
    found = document(raw, "notes/broken")
    assert f"notes/broken.md, line {line}" in found.problem
    assert why in found.problem
    assert found.provenance.trust == Trust.AGENT


def test_no_text_of_a_document_escapes_the_gate() -> None:
    raw = """\
---
title: pin-1
trigger_phrases: [pin-2]
tags: [pin-3]
relations: {supports: [{id: x-pin-4, evidence: pin-5}]}
provenance: {source: pin-6, session: pin-7, trust: tool}
quality: {score: 1, flags: [pin-8]}
---
# pin-9
[[pin-10]] and text
"""
    found = document(raw, gate=without_pin)
    assert "pin-" not in repr(found)
    assert found.chunks[0].heading == "[REDACTED:pin]"
    assert found.body.text[found.chunks[0].start :].startswith("# [REDACTED:pin]")


def test_aliases_that_nest_end() -> None:
    doubling = "\n".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]" for n in range(1, 40))
    assert document(f"---\nk0: &k0 [x]\n{doubling}\ntopics: &t [a]\ntags: *t\n---\nbody").topics == ("a",)


@pytest.mark.parametrize("yaml", ["topics: &t [a, *t]", "relations: &r {supports: *r}", "a: &a [{b: [x, *a]}]"])
def test_an_alias_inside_of_what_it_names_is_refused(yaml: str) -> None:
    assert "nested too deeply" in document(f"---\ntitle: x\n{yaml}\n---\nbody").problem


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda raw: b"---\n" + raw + b"\n---\nbody"))
def test_bytes_make_a_document_or_are_unreadable(raw: bytes) -> None:
    try:
        found = document(raw)
    except UnreadableFile:
        return
    assert raw.endswith(found.body.text.encode())


yaml_like = st.text(st.sampled_from("ab:-[]{}#&*!|>'\"%@`,?~ \n\t\\0é\u2028\x85"), max_size=60)


@given(yaml_like)
def test_yaml_like_text_makes_a_document_or_is_unreadable(yaml: str) -> None:
    try:
        found = document(f"---\n{yaml}\n---\nbody")
    except UnreadableFile:
        return
    assert found.body.text.endswith("body")


def test_render_writes_what_a_person_would() -> None:
    meta = NewMemory(
        title="Use apsw, not the interpreter's sqlite3",
        type=MemoryType.DECISION,
        tier=Tier.IMPORTANT,
        trigger_phrases=("wal reset", "on", "3.10"),
        relations=(
            Edge(source="", target="storage/stdlib-sqlite", relation="supersedes"),
            Edge(source="", target="storage/wal", relation="supports", strength=0.8, evidence="bench 3"),
        ),
        provenance=Provenance(source="agent", trust=Trust.AGENT),
        created="2026-11-21T20:40:00Z",
        quality=Quality(score=0.92),
    )
    assert (
        render(meta, "Body.\n")
        == """\
---
title: Use apsw, not the interpreter's sqlite3
type: decision
tier: important
trigger_phrases: [wal reset, "on", "3.10"]
relations:
  supersedes: [storage/stdlib-sqlite]
  supports: [{id: storage/wal, strength: 0.8, evidence: bench 3}]
provenance: {source: agent, trust: agent}
created: 2026-11-21T20:40:00Z
quality: {score: 0.92, flags: []}
---
Body.
"""
    )


def test_a_long_list_is_written_one_item_a_line() -> None:
    meta = NewMemory(title="t", topics=tuple(f"a rather long topic {chr(97 + n)}" for n in range(9)))
    text = render(meta, "")
    assert "topics:\n  - a rather long topic a\n  - a rather" in text
    assert document(text).topics == meta.topics


bodies = st.text(st.characters(exclude_characters="\0", codec="utf-8")) | st.lists(
    st.sampled_from(["---\n", "---\r\n", "\n", "\r", "title: x\n", "...\n", "# h\n", "\ufeff", "tail"])
).map("".join)
lines = st.text(st.characters(exclude_characters="\0")).map(lambda text: " ".join(text.split())).filter(bool)
clean_lines = lines.filter(lambda text: not any("\ud800" <= char <= "\udfff" for char in text))
phrases = st.lists(clean_lines, unique=True, max_size=6).map(tuple)
edges = st.builds(
    Edge,
    source=st.just("storage/apsw"),
    target=st.from_regex(r"[a-z][a-z0-9.-]{0,20}/[a-z0-9]{1,9}", fullmatch=True),
    relation=st.sampled_from([relation.value for relation in Relation]),
    strength=st.floats(0, 1),
    evidence=st.just("") | clean_lines,
)
memories = st.builds(
    NewMemory,
    title=clean_lines,
    type=st.sampled_from(MemoryType),
    tier=st.sampled_from(Tier),
    trigger_phrases=phrases,
    topics=phrases,
    relations=st.lists(edges, unique_by=lambda edge: (edge.relation, edge.target), max_size=3).map(tuple),
    provenance=st.builds(Provenance, source=clean_lines, trust=st.sampled_from(Trust), session=clean_lines),
    created=st.dates().map(str),
    updated=st.datetimes().map(lambda when: when.replace(microsecond=0, second=1).isoformat() + "Z"),
    quality=st.builds(Quality, score=st.floats(0, 1), flags=phrases),
)


@given(bodies)
def test_any_body_comes_back_to_the_byte(body: str) -> None:
    assert document(render(NewMemory(title="t"), body)).body.text == body


@given(memories)
def test_any_metadata_comes_back(meta: NewMemory) -> None:
    found = document(render(meta, "body"))
    assert found.tier == (Tier.IMPORTANT if meta.tier == Tier.CONSTITUTIONAL else meta.tier)
    given_label = meta.provenance or Provenance()
    claimed = replace(given_label, trust=Trust.FILE) if given_label.trust == Trust.HUMAN else given_label
    assert found.provenance == claimed
    for field in ("title", "type", "topics", "created", "updated", "quality"):
        assert getattr(found, field) == getattr(meta, field)
    assert found.triggers == meta.trigger_phrases
    stated = [edge for edge in found.edges if edge.kind is EdgeKind.RELATION]
    assert sorted(stated, key=repr) == sorted(meta.relations, key=repr)


@given(lines)
def test_no_title_can_break_a_file(title: str) -> None:
    text = render(NewMemory(title=title), "body")
    assert document(text.encode()).body.text == "body"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("A  b\r\n\tc\n", "a b c", True),
        ("caf\u00e9", "CAFE\u0301", True),
        ("straße", "STRASSE", True),
        ("a b", "ab", False),
        ("We use uv.\n", "we use uv", True),
        ("a?", "a", False),
        ("a. b", "a b", False),
        ("a...", "a", False),
    ],
)
def test_text_hash_ignores_case_space_composition_and_the_last_full_stop(one: str, other: str, same: bool) -> None:
    assert (hash_normalised_text(one) == hash_normalised_text(other)) is same
