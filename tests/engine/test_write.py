"""Saving, changing, removing: real files, a real index, a real journal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.conftest import OpenMemory
from tests.samples import SECRET, write_memory

from scrimshaw.engine import Engine, write
from scrimshaw.engine.core import EMBED
from scrimshaw.engine.history import undo
from scrimshaw.engine.index import scan
from scrimshaw.engine.read import bulk_select, get, search, validate
from scrimshaw.engine.write import NewText, delete, save, slug, update
from scrimshaw.errors import (
    AlreadyExists,
    Conflict,
    InvalidMemoryId,
    InvalidRequest,
    NotFound,
    ReadOnly,
    UnreadableFile,
)
from scrimshaw.ingest import chatter
from scrimshaw.ingest import redact as redact_module
from scrimshaw.ingest.memory_file import MOST_QUESTIONS
from scrimshaw.ingest.redact import MOSTLY_REMOVED_RATIO, redact
from scrimshaw.models import Filters, MemoryType, Span, Tier, Trust
from scrimshaw.search.results import SearchRequest

PARAGRAPH = (
    "We chose apsw over the standard library because the interpreter links an old SQLite whose write-ahead log "
    "can be reset twice and then corrupts the database under two writers. "
)


def found(engine: Engine, query: str, **filters: Any) -> list[str]:
    result = search(engine, SearchRequest(query=query, filters=Filters(**filters)))
    return [hit.memory.id for hit in result.hits]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# Save


NOTE = """\
---
title: The tide gate
contextType: decision
tier: critical
triggers: [tide gate, low water]
tags: harbour, gates
questions: ["When does the gate open?"]
date: 2024-03-04
visibility: private
relations: {supports: [pilots]}
provenance: {source: cli, trust: human}
quality: {score: 0.1}
updated: 2024-03-05
---
We open the tide gate at low water, because the pilots asked for it.
"""


def test_the_front_matter_of_a_text_becomes_the_memorys_own(engine: Engine, vault: Path) -> None:
    saved = save(engine, NewText(content=NOTE, topics=("tides",)))
    memory = engine.memory(saved.id)
    assert (saved.id, memory.title, memory.type, memory.tier) == (
        "the-tide-gate",
        "The tide gate",
        "decision",
        "critical",
    )
    assert (memory.triggers, memory.topics) == (("tide gate", "low water"), ("tides",))
    assert (memory.questions, memory.created) == (("When does the gate open?",), "2024-03-04")
    assert (memory.provenance.trust, memory.quality and memory.quality.score != 0.1) == (Trust.AGENT, True)
    assert [edge.target for edge, _ in engine.index.edges(saved.id)] == ["pilots"]
    text = (vault / "the-tide-gate.md").read_text()
    assert (text.count("---\n"), text.count("visibility: private"), "2024-03-05" in text) == (2, 1, False)
    assert get(engine, saved.id).body == NOTE.rpartition("---\n")[2]
    chosen = NewText(content=NOTE, id="own", title="Own", type=MemoryType.RESEARCH, tier=Tier.IMPORTANT)
    save(engine, chosen, force=True)
    own = engine.memory("own")
    assert (own.title, own.type, own.tier) == ("Own", MemoryType.RESEARCH, Tier.IMPORTANT)


@pytest.mark.parametrize("head", ["title: [", "tier: urgent", "tier: constitutional", "created: soon"])
def test_front_matter_that_cannot_be_taken_is_refused(engine: Engine, head: str) -> None:
    with pytest.raises((InvalidRequest, UnreadableFile)):
        save(engine, NewText(content=f"---\n{head}\n---\nThe walrus sleeps.\n", trust=Trust.HUMAN))


def test_a_new_text_with_front_matter_is_refused(engine: Engine, vault: Path) -> None:
    saved = save(engine, NewText(content="The walrus sleeps in the dry dock, because it is warm.\n"))
    before = digest(vault / f"{saved.id}.md")
    with pytest.raises(InvalidRequest, match="has front matter of its own"):
        update(engine, saved.id, {}, content=NOTE)
    assert digest(vault / f"{saved.id}.md") == before
    assert update(engine, saved.id, {}, content="---\nThe walrus wakes.\n").status == "updated"


def test_a_saved_memory_is_a_file_a_row_and_a_hit(engine: Engine, vault: Path) -> None:
    new = NewText(
        content="The walrus ivory index is rebuilt nightly.\n", title="Nightly: rebuild", type=MemoryType.DECISION,
        tier=Tier.IMPORTANT, triggers=("nightly rebuild",), topics=("index",), session="s1", reason="asked to",
    )  # fmt: skip
    saved = save(engine, new)
    path = vault / "nightly-rebuild.md"
    assert (saved.id, saved.status, saved.path) == ("nightly-rebuild", "saved", str(path.resolve()))
    assert saved.content_hash == digest(path)
    assert found(engine, "walrus ivory") == ["nightly-rebuild"]
    memory = engine.memory(saved.id)
    assert (memory.title, memory.type, memory.tier) == ("Nightly: rebuild", MemoryType.DECISION, Tier.IMPORTANT)
    assert (memory.triggers, memory.topics, memory.writable) == (("nightly rebuild",), ("index",), True)
    assert (memory.provenance.source, memory.provenance.trust, memory.provenance.session) == (
        "agent", Trust.AGENT, "s1",
    )  # fmt: skip
    assert memory.created == memory.updated != ""
    (row,) = engine.journal.history(saved.id, 5)
    assert (row["action"], row["reason"], row["new_hash"], row["session"]) == (
        "create", "asked to", saved.content_hash, "s1",
    )  # fmt: skip
    assert [job.kind for job in engine.journal.jobs()] == [EMBED]


def test_questions_are_redacted_kept_and_bounded(engine: Engine, vault: Path) -> None:
    questions = (f"Which key opens {SECRET}?", *(f"What is number {number}?" for number in range(20)))
    saved = save(engine, NewText(content="The harbour opens at dawn.", questions=questions))
    text = Path(saved.path).read_text()
    assert "questions:" in text
    assert SECRET not in text
    found = engine.memory(saved.id).questions
    assert (len(found), found[1]) == (MOST_QUESTIONS, "What is number 0?")
    update(engine, saved.id, {"questions": [f"Is it {SECRET}?"]})
    assert SECRET not in Path(saved.path).read_text()
    assert len(engine.memory(saved.id).questions) == 1
    undo(engine, entry=engine.journal.history(saved.id, 1)[0]["seq"])
    assert engine.memory(saved.id).questions == found
    delete(engine, [saved.id], purge=True)
    assert search(engine, SearchRequest(query="What is number 0?")).hits == ()


def test_a_save_splits_its_text_into_lines_once(engine: Engine) -> None:
    before = chatter.split_lines.cache_info().misses
    save(engine, NewText(content=f"{PARAGRAPH}\n", title="Why apsw was chosen", topics=("sqlite",)))
    assert chatter.split_lines.cache_info().misses - before == 1  # the text


@pytest.mark.parametrize(("text", "times"), [(PARAGRAPH, 1), (f"{PARAGRAPH}key: {SECRET}\n", 2)])
def test_a_save_looks_for_secrets_in_its_text_again_only_if_it_had_some(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, text: str, times: int
) -> None:
    read, scan_text = list[str](), redact_module._scan

    def note(text: str) -> Iterator[Span]:
        read.append(text)
        return scan_text(text)

    monkeypatch.setattr(redact_module, "_scan", note)
    result = save(engine, NewText(content=text, title="The log", triggers=("wal",), topics=("storage",)))
    assert result.status == "saved"
    clean = engine.index.bodies([result.id])[result.id]
    assert SECRET not in clean
    assert sum(each == clean for each in read) == times


def test_a_scan_after_a_save_has_nothing_to_do(engine: Engine) -> None:
    save(engine, NewText(content=PARAGRAPH))
    report = scan(engine)
    assert (report.changes, report.unchanged) == ((), 1)


def test_another_process_finds_it_too(engine: Engine, open_memory: OpenMemory) -> None:
    save(engine, NewText(content=PARAGRAPH, id="one"))
    assert found(open_memory(), "apsw") == ["one"]


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("# A heading\n\ntext", "A heading"),
        ("\n\n***\n\n- first item, spaced   out\n", "first item, spaced out"),
        ("x" * 300, "x" * 120),
        ("whales " * 30, ("whales " * 17).strip()),
        ("***", "memory"),
        ("```sql\nSELECT 1 FROM stuck;\n```\nfinds stuck orders.", "finds stuck orders."),
        ("~~~\nmake release\n~~~\n", "make release"),
        ("| env | url |\n|---|---|\n| prod | here |\n\nWhere it runs.", "Where it runs."),
        ("| env | url |\n|---|---|\n| prod | here |", "env | url"),
        ("=====\nHosts\n=====\n", "Hosts"),
        (
            "Cause: the cache was cold. It is warmed in the deploy job, for about " + "two minutes more " * 9,
            "Cause: the cache was cold.",
        ),
        ("E.g. " + "whales " * 30, "E.g. " + ("whales " * 16).strip()),
    ],
)
def test_a_title_is_made_from_the_first_line(engine: Engine, content: str, title: str) -> None:
    saved = save(engine, NewText(content=content), force=True)
    assert engine.memory(saved.id).title == title


def test_an_id_ends_with_a_word_and_names_no_secret(engine: Engine) -> None:
    text = (
        "Rotate AKIAQ3EGWXYZLMNPQRST before friday, since the pipeline caches what the harbour master signed last week."
    )
    saved = save(engine, NewText(content=text), force=True)
    assert saved.id == "rotate-before-friday-since-the-pipeline-caches-what-the-harbour-master-signed"
    assert (slug("whales " * 30), slug("harpoons " * 30)) == ("-".join(["whales"] * 11), "-".join(["harpoons"] * 9))


@pytest.mark.parametrize(
    "title",
    [
        "日本語の長い題名" * 20, "Ж" * 100, "con", "NUL", "com1", "aux.txt", "../../etc/passwd", "a/b\\c", "...", "🚀",
        "\u01f0" * 50, "cafe\u0301", "e\u0301" * 90, "-_-", "ﬁ" * 80, "con\u00b9", "İstanbul", ".md", "note.md",
    ],
)  # fmt: skip
def test_any_title_gets_an_id_that_can_be_written(engine: Engine, vault: Path, title: str) -> None:
    saved = save(engine, NewText(content="text about it", title=title))
    path = Path(saved.path)
    assert path.is_file()
    assert path.resolve().is_relative_to(vault.resolve())
    assert engine.memory(saved.id).path == str(path)
    assert scan(engine).changes == ()


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60))
def test_no_title_breaks_a_save(engine: Engine, title: str) -> None:
    assume(title.strip())
    assert slug(title)
    saved = save(engine, NewText(content="text about it", title=title), force=True)
    assert Path(saved.path).is_file()


def test_the_same_title_gets_the_next_number(engine: Engine) -> None:
    ids = [save(engine, NewText(content=f"text {number}", title="Same")).id for number in range(3)]
    assert ids == ["same", "same-2", "same-3"]


def test_a_title_that_differs_in_case_from_a_file_gets_the_next_number(engine: Engine, vault: Path) -> None:
    write_memory(vault, "README", "by hand")
    scan(engine)
    assert save(engine, NewText(content="other text", title="Readme")).id == "readme-2"


@pytest.mark.parametrize("memory_id", ["../out", "/abs", "a//b", "a/../b", "con", "x.md", "a\0b", "a:b", " a", ""])
def test_an_id_that_cannot_be_written_is_refused(engine: Engine, vault: Path, memory_id: str) -> None:
    if not memory_id:
        assert save(engine, NewText(content="text", id="")).id == "text"
        return
    with pytest.raises(InvalidMemoryId):
        save(engine, NewText(content="text", id=memory_id))
    assert list(vault.rglob("*.md")) == []
    assert engine.journal.verify() == (0, 0)


def test_an_id_is_taken_in_composed_form(engine: Engine) -> None:
    saved = save(engine, NewText(content="text", id="cafe\u0301/note"))
    assert saved.id == "caf\u00e9/note"
    assert get(engine, "caf\u00e9/note").body == "text"


def test_an_id_in_use_is_refused(engine: Engine, vault: Path) -> None:
    save(engine, NewText(content="one", id="taken"))
    before = digest(vault / "taken.md")
    for name in ("taken", "Taken"):
        with pytest.raises(AlreadyExists):
            save(engine, NewText(content="two", id=name))
    assert digest(vault / "taken.md") == before


def test_a_global_memory_goes_to_the_users_vault(engine: Engine, project: Path) -> None:
    saved = save(engine, NewText(content="for all projects", id="global/tabs"))
    assert Path(saved.path) == (project.parent / "home/memories/tabs.md").resolve()
    assert found(engine, "projects") == ["global/tabs"]
    assert scan(engine).changes == ()
    update(engine, "global/tabs", {"tier": "critical"})
    assert delete(engine, ["global/tabs"]) == ["global/tabs"]
    assert not Path(saved.path).exists()


@pytest.mark.parametrize("content", ["", "  \n\t", "a\0b", "lone \ud800 surrogate"])
def test_what_is_no_text_is_refused(engine: Engine, vault: Path, content: str) -> None:
    for dry_run in (True, False):
        with pytest.raises(InvalidRequest):
            save(engine, NewText(content=content), dry_run=dry_run)
    assert list(vault.rglob("*")) == []


@pytest.mark.parametrize("field", ["title", "triggers", "topics"])
def test_odd_metadata_is_escaped_or_refused(engine: Engine, field: str) -> None:
    odd = 'x: "y" # z\n---\n[a, {b}] \x07 \u2028'
    new: dict[str, Any] = {field: odd if field == "title" else (odd,)}
    saved = save(engine, NewText(content="the body", **new))
    assert get(engine, saved.id).body == "the body"
    assert scan(engine, force=True).skipped == ()


def test_a_dry_run_writes_nothing(engine: Engine, vault: Path) -> None:
    saved = save(engine, NewText(content=PARAGRAPH, id="one"), dry_run=True)
    assert (saved.id, saved.status, saved.path) == ("one", "dry_run", "")
    assert list(vault.rglob("*.md")) == []
    assert (engine.journal.verify(), engine.index.count(Filters())) == ((0, 0), {"": 0})


# Sameness


def test_the_same_text_is_reported_not_written(engine: Engine, vault: Path) -> None:
    first = save(engine, NewText(content=PARAGRAPH, title="First"))
    again = save(engine, NewText(content=f"  {PARAGRAPH.upper()}\n", title="Second", triggers=("x",)))
    assert (again.id, again.status, again.content_hash) == (first.id, "duplicate", first.content_hash)
    assert [path.name for path in vault.iterdir()] == ["first.md"]
    assert engine.journal.verify()[0] == 1
    forced = save(engine, NewText(content=PARAGRAPH, title="Second"), force=True)
    assert (forced.id, forced.status) == ("second", "saved")


@pytest.mark.parametrize("left", [None, "Something else."])
def test_a_text_whose_file_is_gone_or_changed_is_no_duplicate(engine: Engine, vault: Path, left: str | None) -> None:
    save(engine, NewText(content=PARAGRAPH, id="original"))
    path = vault / "original.md"
    path.unlink() if left is None else path.write_text(left)
    assert save(engine, NewText(content=PARAGRAPH, id="again")).status == "saved"
    scan(engine)
    assert found(engine, "interpreter links SQLite")[0] == "again"


def test_an_id_is_made_beside_a_file_that_no_scan_has_met(engine: Engine, vault: Path) -> None:
    (vault / "nightly.md").write_text("By hand.")
    assert save(engine, NewText(content=PARAGRAPH, title="Nightly")).id == "nightly-2"
    assert (vault / "nightly.md").read_text() == "By hand."


def test_what_a_scan_would_not_read_is_not_saved(open_memory: OpenMemory, vault: Path) -> None:
    engine = open_memory("[index]\nmax_file_bytes = 1024\n")
    with pytest.raises(InvalidRequest, match=r"would have \d+ bytes; of more than 1024 no file is read"):
        save(engine, NewText(content="long " * 300, id="long"), force=True)
    for folder in ("node_modules", "a/__pycache__"):
        with pytest.raises(InvalidMemoryId, match="no memory is read from a folder"):
            save(engine, NewText(content="short", id=f"{folder}/x"))
    assert list(vault.rglob("*")) == []
    save(engine, NewText(content="short", id="short"))
    with pytest.raises(InvalidRequest, match="no file is read"):
        update(engine, "short", {}, content="long " * 300)
    assert "short" in (vault / "short.md").read_text()


def test_a_hand_that_is_faster_than_the_index_is_read_by_the_next_scan(
    engine: Engine, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = type(engine.journal).record

    def edited_after(*given: Any) -> None:
        record(*given)
        path = vault / "note.md"
        path.write_text(path.read_text().replace("Cats are grey", "Dogs are grey"))

    monkeypatch.setattr(type(engine.journal), "record", edited_after)
    save(engine, NewText(content="Cats are grey.", id="note", triggers=("pets",), topics=("pets",)))
    monkeypatch.undo()
    scan(engine)
    assert found(engine, "dogs") == ["note"]
    assert found(engine, "cats") == []


def test_near_duplicates_and_related_memories_are_told(engine: Engine) -> None:
    save(engine, NewText(content=PARAGRAPH * 2, id="original"))
    save(engine, NewText(content="Bread is baked for forty minutes in a hot oven.", id="bread"))
    near = save(engine, NewText(content=PARAGRAPH * 2 + "Everything else stays.", id="near"))
    assert [(item.id, item.kind) for item in near.similar] == [("original", "near_duplicate")]
    assert 0.8 <= near.similar[0].similarity < 1
    half = PARAGRAPH + "The other half of this text is about something else: walrus ivory, carved by sailors on trips."
    related = save(engine, NewText(content=half, id="related"), dry_run=True)
    assert {item.kind for item in related.similar} == {"related"}
    assert save(engine, NewText(content="Nothing alike anywhere.", id="lonely")).similar == ()


# Redaction


@pytest.mark.parametrize("place", ["title", "triggers", "topics", "questions", "front matter"])
@pytest.mark.parametrize("force", [False, True])
def test_a_secret_beside_the_content_is_told_too(engine: Engine, place: str, *, force: bool) -> None:
    named: dict[str, Any] = {place: f"Token {SECRET}" if place == "title" else (f"token {SECRET}",)}
    head = "" if place != "front matter" else f"---\nnote: token {SECRET}\n---\n"
    new = NewText(
        content=f"{head}The lamp is lit at dusk by whoever is on watch.", id="lamp", **(named if not head else {})
    )
    saved = save(engine, new, force=force)
    assert SECRET not in Path(saved.path).read_text()
    assert (saved.redacted, saved.spans) == (redact_module.redact(SECRET).classes, ())


def test_a_secret_reaches_no_disk_and_its_place_is_told(engine: Engine, project: Path) -> None:
    content = f"Deploy with the token {SECRET} and nothing else, as the runbook says."
    saved = save(engine, NewText(content=content, title=f"Token {SECRET}", triggers=(SECRET,), topics=(SECRET,)))
    (span,) = saved.spans
    assert content[span.start : span.end] == SECRET
    assert saved.redacted == (span.secret_class,)
    for file in project.rglob("*"):
        assert SECRET.encode() not in (file.read_bytes() if file.is_file() else b""), file
    assert SECRET not in saved.id
    assert found(engine, "runbook") == [saved.id]
    assert f"[REDACTED:{span.secret_class}]" in get(engine, saved.id).body


def test_a_text_that_is_nearly_all_secret_is_refused(engine: Engine, vault: Path) -> None:
    with pytest.raises(InvalidRequest, match="secrets") as caught:
        save(engine, NewText(content=SECRET))
    assert SECRET not in str(caught.value)
    assert list(vault.iterdir()) == []


def test_an_update_redacts_what_it_adds_and_leaves_the_rest(engine: Engine, vault: Path) -> None:
    path = write_memory(vault, "hand", f"mine: {SECRET}\n", "title: Hand")
    scan(engine)
    update(engine, "hand", {"topics": [SECRET, "plain"]})
    text = path.read_text()
    assert f"mine: {SECRET}" in text  # what a person wrote is theirs
    assert text.count(SECRET) == 1
    assert SECRET not in str(engine.memory("hand").topics)
    assert SECRET not in engine.index.bodies(["hand"])["hand"]
    prior = engine.journal.prior_text("hand", engine.journal.history("hand", 1)[0]["prior_hash"])
    assert prior is not None
    assert SECRET not in prior


# Update


def test_an_update_changes_what_was_asked_and_no_more(engine: Engine, vault: Path) -> None:
    head = "# a comment\ntitle:   'Odd  spacing'\ncustom: [1,  2]\ntier: normal"
    path = write_memory(vault, "note", "Body\r\nwith ends\r\n", head)
    scan(engine)
    saved = update(engine, "note", {"tier": "critical"}, reason="matters")
    text = path.read_bytes().decode()
    assert "# a comment\ntitle:   'Odd  spacing'\ncustom: [1,  2]\ntier: critical" in text
    assert text.endswith("---\nBody\r\nwith ends\r\n")
    assert (saved.status, engine.memory("note").tier, saved.content_hash) == ("updated", Tier.CRITICAL, digest(path))
    assert found(engine, "ends", tiers=(Tier.CRITICAL,)) == ["note"]


def test_a_new_body_replaces_the_old_and_the_old_is_kept_for_undo(engine: Engine) -> None:
    saved = save(engine, NewText(content="old walrus", id="note", title="Note"))
    after = update(engine, "note", {}, content="new narwhal")
    assert get(engine, "note").body == "new narwhal"
    assert (found(engine, "walrus"), found(engine, "narwhal")) == ([], ["note"])
    prior = engine.journal.prior_text("note", saved.content_hash)
    assert prior is not None
    assert prior.endswith("old walrus")
    row = engine.journal.history("note", 1)[0]
    assert (row["prior_hash"], row["new_hash"]) == (saved.content_hash, after.content_hash)


def test_a_stale_edit_is_refused_with_the_current_hash(engine: Engine, vault: Path) -> None:
    saved = save(engine, NewText(content="one", id="note"))
    path = vault / "note.md"
    path.write_text(path.read_text() + "\nby hand")
    with pytest.raises(Conflict) as caught:
        update(engine, "note", {}, content="two", expected_hash=saved.content_hash)
    assert caught.value.details["current_hash"] == digest(path)
    assert "by hand" in path.read_text()
    assert engine.journal.verify()[0] == 1
    update(engine, "note", {}, content="two", expected_hash=digest(path))


@pytest.mark.parametrize("content", ["a\0b", "lone \ud800", SECRET])
def test_an_update_to_what_is_no_text_is_refused(engine: Engine, vault: Path, content: str) -> None:
    save(engine, NewText(content="one", id="note"))
    before = digest(vault / "note.md")
    with pytest.raises(InvalidRequest):
        update(engine, "note", {}, content=content)
    assert digest(vault / "note.md") == before
    assert engine.journal.verify()[0] == 1


def test_a_file_that_broke_since_is_refused_by_name(engine: Engine, vault: Path) -> None:
    save(engine, NewText(content="one", id="note"))
    (vault / "note.md").write_bytes(b"\xff\xfe broken")
    with pytest.raises(UnreadableFile, match=r"note\.md"):
        update(engine, "note", {"tier": "critical"})
    (vault / "note.md").unlink()
    with pytest.raises(NotFound):
        update(engine, "note", {"tier": "critical"})


def test_what_is_not_ours_is_never_written(open_memory: OpenMemory, project: Path) -> None:
    path = write_memory(project / "docs", "guide", "A guide to walrus carving.")
    engine = open_memory()
    scan(engine)
    before = path.stat().st_mtime_ns
    for act in (
        lambda: update(engine, "docs/guide", {"tier": "critical"}),
        lambda: delete(engine, ["docs/guide"]),
    ):
        with pytest.raises(ReadOnly, match="docs/guide"):
            act()
    assert path.stat().st_mtime_ns == before
    assert found(engine, "walrus") == ["docs/guide"]


def test_hand_written_files_are_never_rewritten(engine: Engine, vault: Path) -> None:
    raw = b"\xef\xbb\xbf---\r\ntags: a, b\r\nunknown: {x: 1}\r\n---\r\n# T\r\n\r\nbody \r\n"
    path = vault / "hand.md"
    path.write_bytes(raw)
    info = path.stat()
    scan(engine)
    found(engine, "body")
    get(engine, "hand")
    validate(engine, "hand", useful=True)
    save(engine, NewText(content="another one"))
    scan(engine, force=True)
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == (raw, info.st_mtime_ns, info.st_ino)


# Delete


def test_a_deleted_memory_is_gone_and_can_be_undone(engine: Engine, vault: Path) -> None:
    saved = save(engine, NewText(content="old walrus", id="deep/note"))
    assert delete(engine, ["deep/note"], reason="outdated") == ["deep/note"]
    assert list(vault.iterdir()) == []
    assert found(engine, "walrus") == []
    with pytest.raises(NotFound):
        get(engine, "deep/note")
    prior = engine.journal.prior_text("deep/note", saved.content_hash)
    assert prior is not None
    assert prior.endswith("old walrus")
    row = engine.journal.history("deep/note", 1)[0]
    assert (row["action"], row["reason"], row["new_hash"]) == ("retire", "outdated", "")
    assert scan(engine).changes == ()
    assert engine.journal.verify()[0] == 2


def test_a_purge_leaves_no_text_behind(engine: Engine, project: Path) -> None:
    needle = "narwhal" + "-tusk-42"
    save(engine, NewText(content=f"about the {needle}", id="note"))
    update(engine, "note", {}, content=f"still about the {needle}")
    validate(engine, "note", useful=True)
    delete(engine, ["note"], purge=True)
    assert engine.journal.history("note", 1)[0]["action"] == "purge"
    assert engine.journal.reviews(["note"]) == {}
    holders = [file.name for file in project.rglob("*") if file.is_file() and needle.encode() in file.read_bytes()]
    assert holders == []


def test_all_are_checked_before_the_first_is_touched(open_memory: OpenMemory, project: Path, vault: Path) -> None:
    write_memory(project / "docs", "guide", "text")
    engine = open_memory()
    save(engine, NewText(content="one", id="a"))
    scan(engine)
    for ids, error in ((["a", "absent"], NotFound), (["a", "docs/guide"], ReadOnly)):
        with pytest.raises(error):
            delete(engine, ids)
    assert (vault / "a.md").exists()
    assert delete(engine, ["a", "a"]) == ["a"]


def test_a_whole_tier_that_matters_is_not_deleted_at_once(open_memory: OpenMemory, project: Path) -> None:
    write_memory(project / "docs", "guide", "text", "tier: temporary")
    engine = open_memory()
    for name, tier in (("x/a", Tier.CRITICAL), ("b", Tier.CRITICAL), ("c", Tier.CONSTITUTIONAL), ("d", Tier.TEMPORARY)):
        save(engine, NewText(content=f"text {name}", id=name, tier=tier, trust=Trust.HUMAN, origin="cli"))
    scan(engine)
    for tier in (Tier.CRITICAL, Tier.CONSTITUTIONAL):
        with pytest.raises(InvalidRequest, match=f"All {tier} memories"):
            bulk_select(engine, tier)
    assert [memory.id for memory in bulk_select(engine, Tier.CRITICAL, folder="x")] == ["x/a"]
    assert [memory.id for memory in bulk_select(engine, Tier.TEMPORARY)] == ["d"]


def test_a_bulk_delete_by_age_takes_no_undated_memory(engine: Engine, vault: Path) -> None:
    write_memory(vault, "old", "text one", "tier: deprecated\nupdated: 2020-01-01")
    write_memory(vault, "new", "text two", "tier: deprecated\nupdated: 2026-01-01")
    write_memory(vault, "undated", "text three", "tier: deprecated")
    scan(engine)
    assert [memory.id for memory in bulk_select(engine, Tier.DEPRECATED, before="2025-01-01")] == ["old"]
    assert len(bulk_select(engine, Tier.DEPRECATED)) == 3


# Validation


def test_validation_moves_confidence_within_its_bounds(engine: Engine, vault: Path) -> None:
    save(engine, NewText(content="one", id="note"))
    before = digest(vault / "note.md")
    assert validate(engine, "note", useful=False).confidence == 0.45
    steps = [validate(engine, "note", useful=True) for _ in range(7)]
    assert [step.confidence for step in steps] == pytest.approx([0.55, 0.65, 0.75, 0.85, 0.95, 1.0, 1.0])
    assert [step.promotable for step in steps] == [False] * 4 + [True] * 3
    state = engine.journal.reviews(["note"])["note"]
    assert (state.reviews, state.useful, state.not_useful) == (8, 7, 1)
    assert state.last_review == pytest.approx(engine.clock(), abs=60)
    for _ in range(30):
        last = validate(engine, "note", useful=False)
    assert last.confidence == 0.0
    assert digest(vault / "note.md") == before
    with pytest.raises(NotFound):
        validate(engine, "absent", useful=True)


# To the byte

NAUGHTY = [
    "plain", "---\nfake\n---\nbody", "---", "---\n", "\n\nleading", "trailing   \n\n\n", "\ufeffbom inside",
    "crlf\r\nlines\r\n", "old mac\rlines", "tab\tand\vvertical\fform", "nul-free \x01\x02\x1f\x7f", "quote ' \" ` \\",
    "{{ template }} ${var} %s %n", "<script>alert(1)</script>", "'; DROP TABLE memories; --", "日本語 中文 한국어",
    "🚀👩‍👩‍👧‍👦🇩🇪", "e\u0301 vs \u00e9", "\u202eright to left\u202c", "zero\u200bwidth\u200d", "\u2028line\u2029para",
    "A" * 20_000, "word " * 3_000, "# h\n" * 500, "[[link]] mem:name [x](y.md)", "```\nunclosed", "a\n---\nb\n---\n",
    "\U0010ffff last", "\ufffe\uffff non-characters", "Ω≈ç√∫˜µ≤≥÷", "ﷺ", "ﬁ ligature ß İ", "%00 &#0; \\u0000",
    "...\n...",
]  # fmt: skip


def assert_round_trip(engine: Engine, memory_id: str, text: str) -> None:
    saved = save(engine, NewText(content=text, id=memory_id, title="Title"), force=True)
    assert saved.spans == ()
    assert Path(saved.path).read_bytes().endswith(text.encode())
    assert get(engine, memory_id).body == text
    assert engine.index.bodies([memory_id])[memory_id] == text
    request = SearchRequest(query="title", filters=Filters(only=(memory_id,)), include_content=True)
    assert [hit.text for hit in search(engine, request).hits] == [text]


@pytest.mark.parametrize("text", NAUGHTY)
def test_naughty_text_comes_back_to_the_byte(engine: Engine, text: str) -> None:
    assert_round_trip(engine, "note", text)
    assert scan(engine, force=True).skipped == ()
    assert get(engine, "note").body == text


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_any_text_comes_back_to_the_byte(engine: Engine, text: str) -> None:
    assume(text.strip() and not redact(text).spans and redact(text).removed_ratio <= MOSTLY_REMOVED_RATIO)
    delete(engine, [name for name in ("note",) if engine.index.get([name])])
    assert_round_trip(engine, "note", text)


def test_the_answer_is_what_was_written_whatever_another_process_indexes(
    engine: Engine, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(engine, NewText(content="The first text.", id="a"))
    monkeypatch.setattr(type(engine.index), "put", lambda index, documents: None)
    updated = update(engine, "a", {}, content="The second text.")
    saved = save(engine, NewText(content="Another note.", id="b"))
    for answer in (updated, saved):
        assert answer.content_hash == digest(vault / f"{answer.id}.md")


# What an agent leaves out


def test_an_agents_memory_gets_what_it_left_out_from_its_text(engine: Engine) -> None:
    text = f"# Database driver\n\nWe decided to use apsw, not sqlite3. {PARAGRAPH}"
    memory = engine.memory(save(engine, NewText(content=text)).id)
    assert memory.type == MemoryType.DECISION
    assert "apsw" in " ".join(memory.triggers)
    assert len(memory.triggers) >= 2
    assert memory.topics


def test_what_was_taken_from_a_text_is_taken_anew_from_the_next(engine: Engine) -> None:
    saved = save(engine, NewText(content="The walrus server needs port 8443.", title="Server"))
    update(engine, saved.id, {}, content="The narwhal server needs port 8443.")
    triggers = engine.memory(saved.id).triggers
    assert any("narwhal" in phrase for phrase in triggers)
    assert not any("walrus" in phrase for phrase in triggers)


def test_what_an_agent_says_of_its_memory_stands(engine: Engine) -> None:
    new = NewText(content=PARAGRAPH, type=MemoryType.GENERAL, triggers=("wal",), topics=("storage",))
    memory = engine.memory(save(engine, new).id)
    assert (memory.type, memory.triggers, memory.topics) == (MemoryType.GENERAL, ("wal",), ("storage",))


def test_a_persons_memory_says_only_what_the_person_said(engine: Engine) -> None:
    memory = engine.memory(save(engine, NewText(content=PARAGRAPH, origin="human", trust=Trust.HUMAN)).id)
    assert (memory.type, memory.triggers, memory.topics) == (MemoryType.GENERAL, (), ())


@pytest.mark.parametrize("name", ["mem:notes/a", "notes/a.md", "[[notes/a]]"])
def test_a_memory_is_changed_and_deleted_by_the_name_that_texts_give_it(engine: Engine, vault: Path, name: str) -> None:
    path = write_memory(vault, "notes/a", "The gate is oak.")
    scan(engine)
    assert update(engine, name, {"title": "Gate"}).id == "notes/a"
    assert "title: Gate" in path.read_text()
    assert delete(engine, [name, "notes/a"]) == ["notes/a"]
    assert not path.exists()
    with pytest.raises(NotFound, match="notes/a"):
        delete(engine, [name])


def test_a_save_prepares_without_keeping_others_waiting(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    others, compose = [NewText(content="# Pool size\n\nEight connections are enough.")], write.compose_memory

    def compose_late(*given: Any) -> Any:
        if others:  # another writer, who needs the lock
            save(engine, others.pop(), force=True)
        return compose(*given)

    monkeypatch.setattr(write, "compose_memory", compose_late)
    another = save(engine, NewText(content="# Pool size\n\nSixteen were tried as well."), force=True)
    same = NewText(content=f"# Write-ahead log\n\n{PARAGRAPH}")
    others.append(same)
    refused = save(engine, same)
    assert [another.id, refused.id, refused.status] == ["pool-size-2", "write-ahead-log", "duplicate"]
    assert engine.journal.verify() == (3, 0)
