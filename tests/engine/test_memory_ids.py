"""Names of files that are made from titles: whatever the title, they can be written on every system."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import write_memory

from scrimshaw.engine import Engine, drafts, write
from scrimshaw.engine.checkpoints import create
from scrimshaw.engine.counts import export_markdown
from scrimshaw.engine.importers import assign_ids
from scrimshaw.engine.index import scan
from scrimshaw.engine.write import NewText, slug
from scrimshaw.errors import AlreadyExists, InvalidRequest
from scrimshaw.storage.paths import MAX_ID_CHARS, check_id, fold

RESERVED = ["con", "prn", "aux", "nul", "conin$", "conout$", "com1", "lpt9", "com¹"]
FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f]')
# What systems trip over, and letters of many scripts: Turkish dotted I, Greek final sigma, ligatures, emoji, marks.
ODD = st.sampled_from(
    [
        "con",
        "NUL",
        "com1",
        *'./\\:*?"<>|~%$\0\n',
        "..",
        "\u202e",
        "İ",
        "ς",
        "ŉ",
        "ﬃ",
        "ẞ",
        "🚀",
        "e\u0301",
        "हिन्दी",
        "ไทย",
    ]
)
TITLES = st.one_of(
    st.text(max_size=300),
    st.lists(ODD | st.text(max_size=8), max_size=12).map("".join),
    st.sampled_from(RESERVED).flatmap(lambda name: st.sampled_from([name, name.upper(), f"{name}.", f" {name} "])),
)


def assert_portable(name: str) -> None:
    """What Windows, macOS and Linux all take, written out once more apart from the rules of check_id."""
    assert check_id(name) == name
    assert len(name) <= MAX_ID_CHARS
    assert not FORBIDDEN.search(name)
    for part in name.split("/"):
        assert part == part.rstrip(". ")
        assert part.partition(".")[0].strip().lower() not in RESERVED
        assert len(f"{part}.md".encode()) <= 143


@given(TITLES)
def test_a_title_becomes_an_id_for_every_system(title: str) -> None:
    name = slug(title)
    assert_portable(name)
    assert "/" not in name
    assert fold(name) == fold(slug(title.swapcase())) or name.isascii() is False
    assert slug(name) == name


@given(TITLES, TITLES)
def test_a_session_becomes_an_id_for_every_system(title: str, session: str) -> None:
    assert_portable(drafts._memory_id("2026-11-22T02:00:00Z", title, session))


@given(st.lists(TITLES, min_size=1, max_size=4), st.sampled_from(["basic-memory", "memory-json", "decisions"]))
def test_what_is_imported_gets_ids_for_every_system_and_of_its_own(names: list[str], source: str) -> None:
    others = list(dict.fromkeys(names))
    made = assign_ids(source, others, [f"p#{name}" for name in others])
    for name in made:
        if len(name) <= MAX_ID_CHARS:  # a longer one is refused when it is saved, and said to be left
            assert_portable(name)
    assert len({fold(name) for name in made}) == len(made)


@pytest.mark.parametrize(
    "title", [*RESERVED, "CON", "aux.txt", "...", "a" * 500, "é" * 200, "Straße", "İstanbul", "what?"]
)
def test_a_memory_of_any_title_is_saved_and_read_again(engine: Engine, vault: Path, title: str) -> None:
    saved = write.save(engine, NewText(content=f"# x\n\nAbout {title}.\n", title=title[:300]), force=True)
    assert_portable(saved.id)
    assert (vault / f"{saved.id}.md").is_file()
    assert engine.memory(saved.id).title == title[:300]


def test_ids_that_differ_in_case_alone_are_one(engine: Engine) -> None:
    first = write.save(engine, NewText(content="# One\n\nThe first.\n", title="Straße"), force=True)
    second = write.save(engine, NewText(content="# Two\n\nThe second.\n", title="STRASSE"), force=True)
    assert fold(first.id) != fold(second.id)
    with pytest.raises(AlreadyExists):
        write.save(engine, NewText(content="# Three\n\nThe third.\n", id=first.id.upper()), force=True)


@pytest.mark.parametrize("name", [*RESERVED, "a/b", "a\\b", "x:y", "what?", "ends.", " ", "..", "", "\0", "n" * 200])
def test_a_checkpoint_takes_a_name_for_every_system(engine: Engine, name: str) -> None:
    with pytest.raises(InvalidRequest):
        create(engine, name)


def test_an_oddly_named_file_does_not_stop_an_export(engine: Engine, vault: Path, tmp_path: Path) -> None:
    write_memory(vault, "what?", "# Odd\n\nA name that Windows has not.\n")
    write_memory(vault, "plain", "# Plain\n\nA name like any.\n")
    scan(engine)
    count = export_markdown(engine, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.md")) == ["plain.md", "what?.md"]
    assert count == 2
