"""Passages: whole sentences that most words of a query stand in, packed into a budget that counts all that is sent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.app.hooks.test_fencing import hit_of

from scrimshaw.ingest.comparison import count_characters, count_tokens
from scrimshaw.models import MemoryType, Provenance, Trust
from scrimshaw.search.passages import (
    LEAST,
    PASSAGE,
    cut_passage,
    find_copies,
    find_revoked,
    list_open_items,
    pack_hits,
)
from scrimshaw.search.results import Hit

TEXT = """# Rollback

The old journal mode copies pages. It is slow.
Nothing of note here.
WAL reset corrupts the database (e12). It was fixed in a later version.
The end.
"""


TASKS = """# Tasks: Crane

- [x] T000 Ask the harbour

## Phase 1: Base
- [x] T001 Weld the beam
* [X] T002 Paint it
  1. [ ] T003 Ship it
## Phase 2: Jib
Not before May.
- [ ] T004 Weld the jib
- [a link] is no task
## Phase 3
- [x] T005 Celebrate
"""


@pytest.mark.parametrize(
    ("text", "terms", "listed"),
    [
        (
            TASKS,
            ("open", "tasks", "crane"),
            "2 of 6 open:|## Phase 1: Base|  1. [ ] T003 Ship it|## Phase 2: Jib|- [ ] T004 Weld the jib",
        ),
        (TASKS, ("open", "phase", "2"), "2 of 6 open:|## Phase 2: Jib|- [ ] T004 Weld the jib"),
        (TASKS.replace("[ ]", "[x]"), ("phase", "2"), "0 of 6 open:"),
        (TASKS.replace("[ ]", "[?]").replace("[x]", "").replace("[X]", ""), ("open",), ""),
        ("- [ ] one\r\n- [ ] two", (), "2 of 2 open:|- [ ] one|- [ ] two"),
        ("", (), ""),
    ],
)
def test_the_open_items_of_a_list_and_how_many_there_are(text: str, terms: Sequence[str], listed: str) -> None:
    assert list_open_items(text, terms) == listed.replace("|", "\n")


@pytest.mark.parametrize(
    ("terms", "room", "passage"),
    [
        (("corrupts",), 40, "WAL reset corrupts the database (e12)."),
        (("corruption", "fixed"), 75, "WAL reset corrupts the database (e12). It was fixed in a later version."),
        (("journal", "end"), 60, "# Rollback\n\nThe old journal mode copies pages. ... The end."),
        (("absent",), 12, "The old"),
        ((), 60, "# Rollback\n\nThe old journal mode copies pages."),
        (("slow",), 999, TEXT.strip()),
    ],
)
def test_a_passage_has_the_sentences_that_the_words_stand_in(terms: tuple[str, ...], room: int, passage: str) -> None:
    assert cut_passage(TEXT, terms, room) == passage


@pytest.mark.parametrize(
    ("lines", "is_one"),
    [
        ("- A hook writes one line to a file beside the memory\n  queue and ends at once.", True),
        ("The branch is gone, whose name no longer appears in\n`git branch` with the queue.", True),
        ("Do not ask for ancestors of it: only two signals do the\nqueue:", True),
        ("Bash: make check, which takes four minutes on a laptop\nqueue: 3 failed", False),
        ("All of this is run in the folder of the project itself:\nqueue add, then commit", False),
        ("A line\nqueue and so on", False),
        ("A line of a table of contents that is as long as this\n\nqueue and so on", False),
    ],
)
def test_a_sentence_goes_on_where_its_author_wrapped_a_line(lines: str, is_one: bool) -> None:
    _, _, second = lines.rpartition("\n")
    found = cut_passage(f"# Hooks\n\n{lines}\n\nThe journal is in another room, far away.", ("queue",), len(lines))
    assert found.startswith(lines if is_one else second)


@pytest.mark.parametrize(
    ("said", "tells"),
    [
        ("Now let me look at the queue:", False),
        ("Great! I'll read the queue now.", False),
        ("I'll keep the queue, because two processes write.", True),
        ("The tests let me skip the queue, it seems.", True),
        ("> It is slow. Let's drop the queue.", True),
    ],
)
def test_an_announcement_gives_its_room_to_what_tells(said: str, tells: bool) -> None:
    rest = "It keeps its rows in a file.\nNobody knows of another writer."
    assert (said in cut_passage(f"{said}\n{rest}", ("queue",), len(said) + 33)) is tells


SESSION = """## Task

- Rig the Albatros with hemp above the deck (e2)

## Changed

- commit: Rig the Albatros with hemp above the deck (e5)

## Outcome

- The Albatros is rigged with hemp up to the lower mast; the topmast is not. (e6)

## Open
"""


def test_what_only_repeats_the_asker_says_nothing() -> None:
    asked = "Rig the Albatros with hemp above the deck at last"
    told = "## Outcome\n\n- The Albatros is rigged with hemp up to the lower mast; the topmast is not. (e6)"
    terms = ("rig", "albatros", "hemp", "above", "deck", "last")
    assert cut_passage(SESSION, terms, len(told) + 20, asked) == told
    assert "## Task" not in cut_passage(SESSION, terms, 999, asked)
    assert cut_passage("> Rig the Albatros with hemp above the deck, please.", terms, 999, asked) == ""


def test_a_number_that_was_not_said_is_no_repetition() -> None:
    said = "The harbour has berths for the boats of the guild."
    assert cut_passage(said, (), 99, said) == ""
    assert "41" in cut_passage("The harbour has 41 berths for the boats of the guild.", (), 99, said)


def test_an_item_of_a_list_stands_for_itself() -> None:
    text = "- The walrus sings.\n- Ropes are tarred in the spring of each year.\n\n"
    text += "The walrus sleeps. It has a bed of ropes that are tarred."
    assert cut_passage(text, ("walrus",), 85).endswith("It has a bed of ropes that are tarred.")
    assert "spring" not in cut_passage(text, ("walrus",), 85)


def test_a_heading_is_only_told_with_what_it_names() -> None:
    assert cut_passage("## Ropes\n\n## Masts\n\nThe walrus sings up there.\n\n## Walrus", ("walrus",), 50) == (
        "## Masts\n\nThe walrus sings up there."
    )


def test_fences_and_marks_of_gaps_are_no_sentences() -> None:
    text = "Nothing is collected.\n[...]\n```python\nyield from self.collect()\n```\nSo the walrus is missing here.\n"
    assert cut_passage(text, ("walrus",), 45) == "So the walrus is missing here."
    assert cut_passage("---\n" * 20, ("walrus",), 7) == "---\n---"


def test_a_word_in_a_path_counts_less_than_one_that_is_said() -> None:
    text = (
        "- Start in scripts/publish.sh, to https://pypi.example/simple. Not PyPI, ever: it is under contract.\n"
        "- `sh scripts/publish.sh` printed: View at https://pypi.example/simple/tides/\n"
        "- 403 Forbidden from https://pypi.example/simple when scripts/publish.sh ran\n"
    )
    assert "Not PyPI, ever" in cut_passage(text, ("publish", "pypi"), 160)


@pytest.mark.parametrize(
    ("later", "is_over"),
    [
        ("> No wait, forget Redis: we cache in memory.", True),
        ("The cache is a dict. This replaces the Redis decision.", True),
        ("We cache in memory instead of Redis.", True),
        ("> We dropped Redis, the cache is in memory.", True),
        ("> Redis is out, cache in memory", True),
        ("We do not use Redis any more, the cache is in memory.", True),
        ("The cache is no longer shared.", False),
        ("Don't forget Redis when you clear the cache.", False),
        ("Should we cache in memory instead of Redis?", False),
        ("The cache replaces the file.", False),
        ("We dropped Redis.", False),  # of what is asked it says nothing
        ("The cache is in Redis.", False),
    ],
)
def test_what_is_called_over_later_is_known(later: str, is_over: bool) -> None:
    texts = {"old": "> We cache in Redis, in the file of the cache.", "new": later, "other": "> We log as JSON."}
    memories = [
        replace(
            hit_of(text, Trust.AGENT).memory,
            id=name,
            updated=f"2026-11-{10 + (name == 'new')}",
            provenance=Provenance(session=name, trust=Trust.AGENT),
        )
        for name, text in texts.items()
    ]
    passages = [*zip(memories, texts.values(), strict=True)]
    assert [*find_revoked(passages, ("cache",))] == [("new", "old")] * is_over
    before = [(replace(memory, updated="2026-11-09"), text) for memory, text in passages[1:2]]
    assert not [*find_revoked([*passages[:1], *before], ("cache",))]


@pytest.mark.parametrize(
    ("query", "earlier", "later", "is_anew"),
    [
        ("csv export separator", "the CSV export uses semicolons", "the CSV export uses commas and not semicolons", 1),
        ("csv export separator", "the CSV export uses semicolons", "the CSV export uses commas, since Excel does", 1),
        ("csv export separator", "the CSV export uses semicolons", "the CSV export is written as UTF-8 with a BOM", 0),
        ("csv export separator", "the CSV export uses semicolons", "the CSV import uses commas", 0),
        ("csv export separator", "the CSV export uses semicolons", "the CSV export uses semicolons", 0),
        ("queue shops", "RabbitMQ is the queue of the shops", "the shops' queue is NATS instead of rabbitmq", 1),
        ("session expire", "sessions expire after 24 hours", "sessions expire after 2 hours, because of an audit", 1),
        ("session expire", "sessions expire after 24 hours", "sessions are kept in Redis, not in cookies", 0),
        ("broker port", "the broker listens on port 7001", "the broker listens on port 7443", 1),
        ("broker port", "the broker listens on port 7001", "the gateway listens on port 7443", 0),
        ("tests of the back end", "the back end is tested with pytest", "the front end is tested with Vitest", 0),
        ("password hash", "passwords hash with bcrypt, cost 12", "passwords hash with argon2id rather than bcrypt", 1),
    ],
)
def test_a_later_decision_on_the_same_matter_is_known(query: str, earlier: str, later: str, is_anew: int) -> None:
    memory = replace(hit_of("", Trust.AGENT).memory, provenance=Provenance(session="old"), updated="2026-11-10")
    old, new = replace(memory, id="old"), replace(memory, id="new", updated="2026-11-20", provenance=Provenance())
    said = (old, f"> Go on.\nDecision: {earlier}. Still open: the rest.")
    for kind, text in (
        (MemoryType.SESSION, f"## Task\n- Look at it. (e2)\n\n## Decisions\n\n- {later}. (e8)\n\n## Changed\n- It."),
        (MemoryType.DECISION, f"# A title\n\n{later}.\n"),
        (MemoryType.GENERAL, f"Decided: {later}."),
    ):
        made = replace(new, type=kind)
        assert {*find_revoked([said, (made, text)], query.split())} == ({("new", "old")} if is_anew else set())
    assert not [*find_revoked([said, (new, f"Perhaps {later}?")], query.split())]
    before = replace(new, updated="2026-11-09")
    assert ("new", "old") not in find_revoked([said, (before, f"Decided: {later}.")], query.split())


def test_of_a_long_output_the_first_stays() -> None:
    lines = {"session:s#e2": "One.", "session:s#e2.4": "Four.", "session:s#e2.3": "Three.", "session:s#e5.2": "Two."}
    for trust, copies in ((Trust.TOOL, ["session:s#e2.4", "session:s#e2.3"]), (Trust.AGENT, [])):
        own = Provenance(session="s", trust=trust)
        found = [
            (replace(hit_of(text, Trust.AGENT).memory, id=name, provenance=own), text) for name, text in lines.items()
        ]
        assert [*find_copies(found)] == copies


@example(f"One two.{' ' * 40}Three four.\nFive six seven eight nine ten.", [], 30)
@given(st.text(max_size=300), st.lists(st.text(min_size=1, max_size=8), max_size=4), st.integers(0, 400))
def test_the_room_holds_and_every_part_is_of_the_text(text: str, terms: list[str], room: int) -> None:
    found = cut_passage(text, terms, room)
    assert count_characters(found) <= room
    assert " ... " in found or found in text


def test_a_token_is_four_ascii_characters_or_another_one() -> None:
    assert [count_tokens(text) for text in ("", "a", "abcd", "abcde", "日本", "ab日")] == [0, 1, 1, 2, 2, 2]


def hits(*texts: str) -> list[Hit]:
    found = [hit_of(text, Trust.HUMAN) for text in texts]
    return [replace(hit, memory=replace(hit.memory, id=f"n{place}")) for place, hit in enumerate(found)]


def room_of(characters: int) -> object:
    def spare(packed: Sequence[Hit]) -> int:
        return characters - sum(10 + len(hit.text) for hit in packed)

    return spare


SONG = "The walrus sang. " * 100


@pytest.mark.parametrize("room", [80, 300, 700, 2000, 9000])
def test_the_first_hits_fill_the_room(room: int) -> None:
    packed = pack_hits(hits(*[SONG] * 8), ("walrus",), room_of(room))  # type: ignore[arg-type]
    assert room - PASSAGE - LEAST < sum(10 + len(hit.text) for hit in packed) <= room or len(packed) == 8
    assert [hit.memory.id for hit in packed] == [f"n{place}" for place in range(len(packed))]


def test_without_room_a_sentence_of_the_first_comes() -> None:
    (one,) = pack_hits(hits(SONG, SONG), ("walrus",), room_of(-500))  # type: ignore[arg-type]
    assert one.text.startswith("The walrus sang.")
    assert one.digest == ""


def test_hits_of_one_session_say_each_thing_once() -> None:
    memory, passage, calls = hits(
        "## Outcome\n- The walrus sang on the mole at noon. (e6)",
        "> sing\nThe walrus sang on the mole at noon. Nobody paid for its song.",
        "The walrus sang on the mole at noon.",
    )
    one = [replace(x, memory=replace(x.memory, provenance=Provenance(session="s"))) for x in (memory, passage, calls)]
    assert [hit.text for hit in pack_hits(one, ("walrus",), room_of(9000))] == [  # type: ignore[arg-type]
        memory.text,
        "> sing ... Nobody paid for its song.",
    ]
    brief = replace(calls, text="# n2\n\nThe walrus sings.", memory=replace(calls.memory, title="n2"))
    assert [hit.text for hit in pack_hits([one[0], brief], ("walrus",), room_of(9000))][1] == "The walrus sings."  # type: ignore[arg-type]
    other = replace(calls, memory=replace(calls.memory, provenance=Provenance(session="t")))
    assert pack_hits([one[0], other], ("walrus",), room_of(9000))[1].text == calls.text  # type: ignore[arg-type]


def test_a_text_that_is_the_title_is_sent() -> None:
    text = "Exports are signed with the key of the release, and readers refuse what is not signed."
    titled = [replace(hit, memory=replace(hit.memory, title=f"file: {text}")) for hit in hits(text)]
    assert [hit.text for hit in pack_hits(titled, ("recent",), room_of(9000))] == [text]  # type: ignore[arg-type]


def test_room_that_is_left_goes_to_the_first() -> None:
    first, second, third = pack_hits(hits(SONG, SONG, SONG), ("walrus",), room_of(1800))  # type: ignore[arg-type]
    assert len(first.text) > PASSAGE + LEAST > max(len(second.text), len(third.text))


def test_whole_texts_are_cut_and_push_no_hit_out() -> None:
    packed = pack_hits(hits(*[SONG] * 3), ("walrus",), room_of(1200), margin=600)  # type: ignore[arg-type]
    assert len(packed) == 3
    assert len(packed[0].text) > PASSAGE


def test_of_a_known_passage_a_sentence_comes_and_its_room_goes_to_others() -> None:
    whole = pack_hits(hits(SONG, SONG), ("walrus",), room_of(1300))  # type: ignore[arg-type]
    known = {"n0": whole[0].digest}
    first, second = pack_hits(hits(SONG, SONG), ("walrus",), room_of(1300), known=known)  # type: ignore[arg-type]
    assert (first.is_known, second.is_known) == (True, False)
    assert len(first.text) < len(whole[0].text) <= len(second.text)
