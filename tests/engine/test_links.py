"""Relations between memories: in the source's front matter, or in the links file for what is never written."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from tests.conftest import OpenMemory
from tests.samples import SECRET, write_memory

from scrimshaw.engine import Engine
from scrimshaw.engine.index import list_skipped_files, rebuild, scan
from scrimshaw.engine.links import count_relations, explain_drift, link, list_dependencies, unlink
from scrimshaw.engine.read import get, search
from scrimshaw.engine.write import NewText, find_cues, save, update
from scrimshaw.errors import InvalidRequest, NotFound, ReadOnly, UnreadableFile
from scrimshaw.models import EdgeKind, Relation
from scrimshaw.search.results import SearchRequest

CAUSED, SUPERSEDES, SUPPORTS = Relation.CAUSED, Relation.SUPERSEDES, Relation.SUPPORTS


@pytest.fixture
def notes(open_memory: OpenMemory, vault: Path, project: Path) -> Engine:
    """Three memories that are ours and a document that is not."""
    for name in ("old", "new", "storage/wal"):
        write_memory(vault, name, f"# {name}\n\nText of {name}.\n", "title: a  # kept")
    write_memory(project / "docs", "guide", "# Guide\n\nNobody writes here.\n")
    engine = open_memory()
    scan(engine)
    return engine


def stated(engine: Engine) -> list[tuple[str, str, str, float, str]]:
    return [
        (edge.source, edge.relation, meant, edge.strength, edge.evidence)
        for edge, meant in engine.index.edges()
        if edge.kind != EdgeKind.LINK
    ]


def links_file(project: Path) -> Path:
    return project / ".scrimshaw/links.toml"


# Decision records


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Superseded by [ADR-2](0002-go.md)", "Accepted"),
        ("Accepted", "Accepted. Supersedes [ADR-1](0001-kotlin.md)"),
        ("Superseded by [ADR-2](0002-go.md)", "Accepted. Supersedes [ADR-1](0001-kotlin.md)"),
    ],
)
def test_a_decision_record_is_superseded_by_the_word_of_either(
    open_memory: OpenMemory, project: Path, old: str, new: str
) -> None:
    folder, older, newer = project / "docs/adr", "docs/adr/0001-kotlin", "docs/adr/0002-go"
    write_memory(folder, "0001-kotlin", f"# Use Kotlin\n\n{old}\n\nWe write services in Kotlin.\n")
    scan(engine := open_memory())
    write_memory(folder, "0002-go", f"# Use Go\n\n{new}\n\nWe write new services in Go.\n")
    scan(engine)

    first, second = search(engine, SearchRequest(query="Do we write services in Kotlin?")).hits
    assert (first.memory.id, second.memory.id, second.superseded_by) == (newer, older, (newer,))
    assert get(engine, older).superseded_by == (newer,)
    assert get(engine, newer).superseded_by == ()
    assert [edge.source for edge in explain_drift(engine, older).replaced_by] == [newer]
    with pytest.raises(ReadOnly):
        unlink(engine, newer, older, SUPERSEDES)

    link(engine, newer, "docs/adr/0001-kotlin", SUPPORTS)
    assert stated(engine)[0] == (newer, "supersedes", older, 1.0, "")
    write_memory(folder, "0001-kotlin", "# Use Kotlin\n\nAccepted\n\nWe write services in Kotlin.\n")
    write_memory(folder, "0002-go", "# Use Go\n\nAccepted\n\nWe write new services in Go.\n")
    scan(engine)
    assert get(engine, older).superseded_by == ()


# Our own memories


@pytest.mark.parametrize("form", ["mem:{}", "{}.md", "[[{}]]"])
@pytest.mark.parametrize("source", ["new", "docs/guide"])
def test_a_memory_is_linked_by_the_name_that_texts_give_it(notes: Engine, source: str, form: str) -> None:
    linked = link(notes, form.format(source), form.format("old"), SUPERSEDES)
    assert stated(notes) == [(linked.source, "supersedes", "old", 1.0, "")]
    (row,) = notes.journal.history(linked.source, 1)
    assert (row["action"], row["linked_memory_ids"]) == ("link", [linked.source, "old"])
    assert [edge.source for edge in explain_drift(notes, form.format("old")).replaced_by] == [linked.source]
    assert [edge.source for edge in list_dependencies(notes, form.format("old"), hops=1, direction="both")] == [
        linked.source
    ]
    with pytest.raises(InvalidRequest):
        link(notes, form.format("new"), "new", SUPERSEDES)
    unlink(notes, form.format(source), form.format("old"), SUPERSEDES)
    assert stated(notes) == []


def test_a_link_stands_in_the_front_matter_of_its_source(notes: Engine, vault: Path) -> None:
    linked = link(notes, "new", "old", SUPERSEDES, 0.8, "bench\n 3")
    assert (linked.status, linked.strength, linked.evidence) == ("linked", 0.8, "bench 3")
    assert linked.path == str((vault / "new.md").resolve())
    text = (vault / "new.md").read_text()
    assert "title: a  # kept" in text
    assert "supersedes: [{id: old, strength: 0.8, evidence: bench 3}]" in text
    assert text.endswith("# new\n\nText of new.\n")
    assert stated(notes) == [("new", "supersedes", "old", 0.8, "bench 3")]
    before = stated(notes)
    rebuild(notes)
    assert stated(notes) == before


def test_a_second_link_changes_strength_and_evidence(notes: Engine) -> None:
    link(notes, "new", "old", SUPERSEDES, 0.8, "a guess")
    assert link(notes, "new", "old", SUPERSEDES, 1.0, "").status == "updated"
    assert stated(notes) == [("new", "supersedes", "old", 1.0, "")]
    assert link(notes, "new", "old", CAUSED).status == "linked"
    assert len(stated(notes)) == 2


@pytest.mark.parametrize("source", ["new", "docs/guide"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (0.8, "bench 3")),
        ({"strength": 0.5}, (0.5, "bench 3")),
        ({"evidence": ""}, (0.8, "")),
        ({"evidence": "x"}, (0.8, "x")),
    ],
)
def test_a_repeated_link_keeps_what_it_does_not_say(
    notes: Engine, source: str, given: dict[str, object], expected: tuple[float, str]
) -> None:
    link(notes, source, "old", SUPERSEDES, 0.8, "bench 3")
    again = link(notes, source, "old", SUPERSEDES, **given)  # type: ignore[arg-type]  # of two kinds
    assert (again.strength, again.evidence) == expected
    assert stated(notes) == [(source, "supersedes", "old", *expected)]


@pytest.mark.parametrize("between", [[], ["storage/wal"], ["docs/guide", "storage/wal"]])
def test_what_is_superseded_does_not_supersede_in_turn(notes: Engine, between: list[str]) -> None:
    chain = ["new", *between, "old"]
    for source, target in pairwise(chain):
        link(notes, source, target, SUPERSEDES)
    with pytest.raises(InvalidRequest, match="'new' supersedes 'old' already"):
        link(notes, "old", "new", SUPERSEDES)
    assert len(stated(notes)) == len(chain) - 1
    link(notes, "old", "new", CAUSED)
    unlink(notes, chain[0], chain[1], SUPERSEDES)
    link(notes, "old", "new", SUPERSEDES)


def test_a_link_that_named_its_target_in_other_words_is_the_same_link(notes: Engine, vault: Path) -> None:
    write_memory(vault, "new", "Text.\n", "relations:\n  supports: [wal, old]")
    scan(notes)
    assert link(notes, "new", "storage/wal", SUPPORTS, 0.5).status == "updated"
    assert stated(notes) == [("new", "supports", "old", 1.0, ""), ("new", "supports", "storage/wal", 0.5, "")]
    unlink(notes, "new", "storage/wal", SUPPORTS)
    assert stated(notes) == [("new", "supports", "old", 1.0, "")]


def test_a_link_is_recorded_with_what_it_joins_and_can_be_undone(notes: Engine, vault: Path) -> None:
    before = (vault / "new.md").read_text()
    link(notes, "new", "old", SUPERSEDES)
    row = notes.journal.history("new", 1)[0]
    assert row["action"] == "link"
    assert tuple(row["linked_memory_ids"]) == ("new", "old")
    assert notes.journal.prior_text("new", row["prior_hash"]) == before
    unlink(notes, "new", "old", SUPERSEDES)
    assert notes.journal.history("new", 1)[0]["action"] == "unlink"
    assert "relations" not in (vault / "new.md").read_text()
    assert stated(notes) == []
    assert notes.journal.verify()[1] == 0


def test_evidence_is_redacted_before_it_is_written(notes: Engine, vault: Path, project: Path) -> None:
    assert SECRET not in link(notes, "new", "old", CAUSED, evidence=f"token {SECRET}").evidence
    link(notes, "docs/guide", "old", CAUSED, evidence=f"token {SECRET}")
    assert SECRET not in (vault / "new.md").read_text() + links_file(project).read_text()
    assert all(SECRET not in evidence for *_, evidence in stated(notes))


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        ("new", "new", InvalidRequest),
        ("new", "nothing", NotFound),
        ("nothing", "new", NotFound),
        ("docs/guide", "docs/guide", InvalidRequest),
        ("docs/guide", "nothing", NotFound),
    ],
)
def test_what_cannot_be_linked_is_refused_and_nothing_is_written(
    notes: Engine, vault: Path, project: Path, source: str, target: str, error: type[Exception]
) -> None:
    before = (vault / "new.md").read_bytes()
    with pytest.raises(error):
        link(notes, source, target, SUPPORTS)
    assert (vault / "new.md").read_bytes() == before
    assert not links_file(project).exists()
    assert notes.journal.history("new", 1) == [] or notes.journal.history("new", 1)[0]["action"] == "external"


def test_what_is_not_linked_cannot_be_unlinked(notes: Engine) -> None:
    link(notes, "new", "old", SUPERSEDES)
    with pytest.raises(NotFound):
        unlink(notes, "new", "old", SUPPORTS)
    with pytest.raises(NotFound):
        unlink(notes, "old", "new", SUPERSEDES)


def test_a_link_to_what_is_gone_can_be_taken_back(notes: Engine, vault: Path) -> None:
    link(notes, "new", "old", SUPERSEDES)
    (vault / "old.md").unlink()
    scan(notes)
    assert count_relations(notes).dangling[0].target == "old"
    unlink(notes, "new", "old", SUPERSEDES)
    assert count_relations(notes).edges == 0


# Documents that are never written


def test_a_document_is_linked_outside_of_itself(notes: Engine, project: Path) -> None:
    document = (project / "docs/guide.md").read_bytes()
    linked = link(notes, "docs/guide", "old", SUPPORTS, 0.7, 'says "so"')
    assert (linked.status, linked.path) == ("linked", str(links_file(project)))
    assert (project / "docs/guide.md").read_bytes() == document
    assert stated(notes) == [("docs/guide", "supports", "old", 0.7, 'says "so"')]
    assert notes.journal.history("docs/guide", 1)[0]["action"] == "link"
    assert link(notes, "docs/guide", "old", SUPPORTS, 1.0, "").status == "updated"
    assert stated(notes) == [("docs/guide", "supports", "old", 1.0, "")]
    unlink(notes, "docs/guide", "old", SUPPORTS)
    assert stated(notes) == []
    assert "[[link]]" not in links_file(project).read_text()


def test_links_travel_with_their_file(notes: Engine, project: Path, open_memory: OpenMemory) -> None:
    link(notes, "docs/guide", "old", SUPPORTS, 0.7)
    link(notes, "docs/guide", "new", CAUSED)
    before = stated(notes)
    (project / ".scrimshaw/index.db").rename(project / "gone.db")
    cloned = open_memory()
    scan(cloned)
    assert stated(cloned) == before
    links_file(project).unlink()
    scan(cloned)
    assert stated(cloned) == []


def test_links_survive_a_change_of_their_document(notes: Engine, project: Path) -> None:
    link(notes, "docs/guide", "old", SUPPORTS, 0.7)
    write_memory(project / "docs", "guide", "# Guide\n\nSomebody else wrote here.\n")
    scan(notes)
    assert stated(notes) == [("docs/guide", "supports", "old", 0.7, "")]


def test_a_broken_links_file_is_reported_and_what_it_held_stays(notes: Engine, project: Path) -> None:
    link(notes, "docs/guide", "old", SUPPORTS)
    whole = links_file(project).read_text()
    links_file(project).write_text(whole + "<<<<<<< HEAD\n")
    assert [skip.path for skip in scan(notes).skipped] == [str(links_file(project))]
    assert [skip.path for skip in list_skipped_files(notes)] == [str(links_file(project))]
    assert stated(notes) == [("docs/guide", "supports", "old", 1.0, "")]
    with pytest.raises(UnreadableFile):
        link(notes, "docs/guide", "new", SUPPORTS)
    links_file(project).write_text(whole)
    assert scan(notes).skipped == ()
    assert list_skipped_files(notes) == []


def test_what_a_document_states_itself_is_its_own(notes: Engine, project: Path) -> None:
    write_memory(project / "docs", "guide", "Text.\n", "relations:\n  supports: [old]")
    scan(notes)
    with pytest.raises(ReadOnly):
        unlink(notes, "docs/guide", "old", SUPPORTS)
    with pytest.raises(ReadOnly):
        link(notes, "docs/guide", "old", SUPPORTS, 0.5)
    assert stated(notes) == [("docs/guide", "supports", "old", 1.0, "")]


# Asking


def test_counts_are_exact(notes: Engine, vault: Path) -> None:
    empty = count_relations(notes)
    assert (empty.edges, empty.linked, empty.coverage, empty.dangling) == (0, 0, 0.0, ())
    write_memory(vault, "old", "See [[new]].\n", "relations:\n  caused: [gone]")
    scan(notes)
    link(notes, "new", "old", SUPERSEDES)
    link(notes, "docs/guide", "old", SUPERSEDES)
    found = count_relations(notes)
    assert (found.edges, found.memories, found.linked, found.coverage) == (3, 4, 3, 0.75)
    assert {name: count for name, count in found.by_relation.items() if count} == {"caused": 1, "supersedes": 2}
    assert [edge.target for edge in found.dangling] == ["gone"]


def test_an_empty_memory_has_no_coverage(engine: Engine) -> None:
    assert (count_relations(engine).memories, count_relations(engine).coverage) == (0, 0.0)


@pytest.fixture
def history(engine: Engine, vault: Path) -> Engine:
    """v3 supersedes v2 and v1, v2 supersedes v1; a failure caused v2."""
    dates = {"v1": "2026-03-01", "v2": "2026-02-01", "v3": "2026-01-01", "failure": "2026-01-01"}
    relations = {
        "v2": "relations: {supersedes: [{id: v1, evidence: too slow}]}",
        "v3": "relations:\n  supersedes: [{id: v2, evidence: it lost writes}, v1]",
        "failure": "relations: {caused: [v2]}",
    }
    for name, date in dates.items():
        write_memory(vault, name, f"Text of {name}.\n", f"created: {date}\n{relations.get(name, '')}")
    scan(engine)
    return engine


def test_what_replaced_a_memory_is_told_newest_first(history: Engine) -> None:
    found = explain_drift(history, "v1", max_depth=1, direction="outgoing", relations=(CAUSED,))
    assert [(edge.source, edge.target, edge.evidence) for edge in found.replaced_by] == [
        ("v3", "v1", ""), ("v3", "v2", "it lost writes"), ("v2", "v1", "too slow"),
    ]  # fmt: skip
    assert (found.replaces, found.chain) == ((), {})
    newest = explain_drift(history, "v3")
    assert newest.replaced_by == ()
    assert [(edge.hop, edge.target) for edge in newest.replaces] == [(1, "v1"), (1, "v2"), (2, "v1")]


def test_replacements_in_a_circle_are_told_once(engine: Engine, vault: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        write_memory(vault, name, "Text.\n", f"relations: {{supersedes: [{other}]}}")
    scan(engine)
    assert [edge.source for edge in explain_drift(engine, "a").replaced_by] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {"caused": ["failure>v2"], "supersedes": ["v2>v1", "v3>v2", "v3>v1"]}),
        ({"max_depth": 1}, {"caused": ["failure>v2"], "supersedes": ["v2>v1", "v3>v2"]}),
        ({"direction": "outgoing"}, {"supersedes": ["v2>v1"]}),
        ({"direction": "incoming"}, {"caused": ["failure>v2"], "supersedes": ["v3>v2"]}),
        ({"relations": (CAUSED,)}, {"caused": ["failure>v2"]}),
        ({"relations": (Relation.ENABLED,)}, {}),
    ],
)
def test_the_chain_is_grouped_by_relation(
    history: Engine, arguments: dict[str, object], expected: dict[str, list[str]]
) -> None:
    chain = explain_drift(history, "v2", **arguments).chain  # type: ignore[arg-type]  # a table of arguments
    assert {name: [f"{edge.source}>{edge.target}" for edge in edges] for name, edges in chain.items()} == expected


def test_details_name_every_memory_of_the_answer(history: Engine) -> None:
    assert set(explain_drift(history, "v2").memories) == {"v1", "v2", "v3", "failure"}


def test_a_question_about_nothing_is_refused(history: Engine) -> None:
    with pytest.raises(NotFound):
        explain_drift(history, "nothing")


# Contradictions

OLD = "We keep the event log in MySQL because the operations team knows how to back it up and to restore it quickly."
NEW = "We no longer keep the event log in MySQL because the operations team knows how to back it up and to restore it."


def test_a_text_that_says_something_changed_proposes_and_does_nothing_else(engine: Engine, vault: Path) -> None:
    save(engine, NewText(content=OLD, id="old"))
    before = (vault / "old.md").read_bytes()
    saved = save(engine, NewText(content=NEW, id="new"))
    (proposal,) = saved.proposals
    assert (proposal.relation, proposal.target) == (SUPERSEDES, "old")
    assert '"no longer"' in proposal.why
    assert (vault / "old.md").read_bytes() == before
    assert "supersedes" not in (vault / "new.md").read_text()
    assert engine.index.edges() == []
    assert save(engine, NewText(content=NEW + " Yes."), dry_run=True).proposals


def test_a_cue_that_the_old_text_has_too_or_an_unrelated_text_proposes_nothing(engine: Engine) -> None:
    save(engine, NewText(content=NEW, id="old"))
    assert save(engine, NewText(content=NEW + " Since May.")).proposals == ()
    assert save(engine, NewText(content="Tabs instead of spaces.")).proposals == ()
    assert save(engine, NewText(content=OLD)).proposals == ()
    assert update(engine, "old", {"title": "b"}).proposals == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use B instead of A.", ("instead",)),
        ("It is NO\n LONGER true; B replaces A, which was wrong.", ("no longer", "replaces", "was wrong")),
        ("Moved from A to B. The old one is deprecated.", ("moved from", "deprecated")),
        ("Contrary to X, superseded: migrated to Y.", ("contrary to", "superseded", "migrated to")),
        ("It turned out that we rolled back.", ("turned out", "rolled back")),
        ("Replacement parts wronged the insteadfast.", ()),
        ("", ()),
    ],
)
def test_cues_of_change(text: str, expected: tuple[str, ...]) -> None:
    assert find_cues(text) == expected
