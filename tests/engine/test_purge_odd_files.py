"""A purge ends with an answer whatever lies in the folders: links, odd names, damaged databases and checkpoints."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.conftest import OpenMemory
from tests.samples import write_memory

from scrimshaw.engine import Engine, checkpoints, write
from scrimshaw.engine import purge as purging
from scrimshaw.engine.purge import PASSAGE_CHARACTERS, Purged, find_traces, target_memories, target_secret
from scrimshaw.errors import StorageFailure

pytestmark = pytest.mark.slow

NEEDLE = "zanzibar-walrus-77-keel"
TEXT = f"It is {NEEDLE}.\n".encode() * 3


def purge(engine: Engine, **how: bool) -> Purged:
    scope = [(engine, target_secret(NEEDLE))]
    return purging.purge([(engine, structs.replace(scope[0][1], **how))], find_traces(scope))


def names(done: Purged) -> dict[str, list[str]]:
    """What was told, by where it was told, without folders."""
    told = {"unreadable": done.unreadable, "foreign": done.foreign, "left": done.left}
    return {where: sorted(Path(trace.place).name for trace in traces) for where, traces in told.items() if traces}


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_database_in_the_vault_cannot_be_cut(engine: Engine, vault: Path) -> None:
    path = vault / "a.data"
    path.write_bytes(b"SQLite format 3\0" + b"\1" * 600 + TEXT)
    assert (names(purge(engine)), path.exists()) == ({"unreadable": ["a.data"]}, True)
    assert purge(engine, remove_unreadable=True).is_clean
    assert not path.exists()


def test_a_damaged_journal_that_is_no_database_cannot_be_looked_into(engine: Engine) -> None:
    aside = engine.folder / "journal.db.damaged-20261121T080000Z"
    aside.write_bytes(b"\0" * 512 + NEEDLE[:9].encode() + b"\0\0\0\x03" + NEEDLE[9:].encode())
    aside.with_name(f"{aside.name}-shm").write_bytes(b"\x18\xe2\x2d\0" * 100)
    done = purge(engine, remove_unreadable=True)
    assert (names(done), done.is_clean) == ({"unreadable": [aside.name]}, False)
    assert purge(engine, remove_closed=True).is_clean
    assert not aside.exists()


def test_delete_with_purge_names_what_it_could_not_search(engine: Engine, vault: Path) -> None:
    write.save(engine, write.NewText(content="A note that goes for good.", id="note"))
    (vault / "a.db").write_bytes(b"SQLite format 3\0" + b"\1" * 600)
    with pytest.raises(StorageFailure, match=r"a\.db"):
        write.delete(engine, ["note"], purge=True)


# Links

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that is not Scrimshaw's, with a file that holds it."""
    folder = tmp_path / "outside"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/held.txt").write_bytes(TEXT)
    (folder / "fine.txt").write_text("Fine.")
    return folder


@needs_links
def test_the_path_in_a_link_goes(engine: Engine, vault: Path) -> None:
    for name, target in (("dangling.md", f"nowhere/{NEEDLE}"), ("circle", f"{NEEDLE}/../circle"), ("fine", "nowhere")):
        (vault / name).symlink_to(target)
    done = purge(engine)
    assert done.is_clean
    assert sorted(Path(name).name for name in done.removed) == ["circle", "dangling.md"]
    assert listed(vault) == ["fine"]


@needs_links
def test_a_link_within_is_left_alone(engine: Engine, vault: Path) -> None:
    write_memory(vault, "note", f"It is {NEEDLE}.\n")
    (vault / "linked.md").symlink_to("note.md")
    (vault / "all").symlink_to(vault)
    assert purge(engine).is_clean
    assert (vault / "linked.md").read_text() == "It is [REDACTED:purged].\n"
    assert (vault / "all").is_symlink()


@needs_links
def test_the_name_of_a_link_is_changed(engine: Engine, vault: Path, outside: Path) -> None:
    (vault / f"{NEEDLE}.md").symlink_to(outside / "fine.txt")
    assert purge(engine).is_clean
    (left,) = vault.iterdir()
    assert (left.is_symlink(), NEEDLE in left.name) == (True, False)


@needs_links
def test_a_link_to_a_memory_goes_with_it(engine: Engine, vault: Path) -> None:
    write.save(engine, write.NewText(content="A note that goes for good.", id="note"))
    (vault / "linked.md").symlink_to("note.md")
    scope = [(engine, target_memories(engine, ["note"]))]
    assert purging.purge(scope, find_traces(scope)).is_clean
    assert listed(vault) == []


# Names


def test_the_name_of_an_empty_folder_is_searched(engine: Engine, vault: Path) -> None:
    (vault / f"deep/{NEEDLE}/empty").mkdir(parents=True)
    (vault / "other").mkdir()
    assert [trace.count for trace in find_traces([(engine, target_secret(NEEDLE))]).places] == [1]
    done = purge(engine)
    assert done.is_clean
    assert sorted(path.name for path in vault.rglob("*")) == ["other"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no FIFO")
def test_what_is_no_file_has_a_name(engine: Engine, vault: Path) -> None:
    os.mkfifo(vault / f"{NEEDLE}.scrim")
    assert purge(engine).is_clean
    assert NEEDLE not in listed(vault)[0]


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode elsewhere")
def test_names_that_are_no_utf8_stay_as_they_are(engine: Engine, vault: Path) -> None:
    for name in (b"fine-\xff.md", b"held-\xfe.md", b"\xff" + NEEDLE.encode() + b".md"):
        (vault / os.fsdecode(name)).write_text("Fine.\n" if name.startswith(b"fine") else NEEDLE)
    assert purge(engine).is_clean
    assert [os.fsencode(name) for name in listed(vault)] == [
        b"fine-\xff.md",
        b"held-\xfe.md",
        b"\xffredacted-purged.md",
    ]


def test_a_folder_that_cannot_be_listed_is_no_clean_one(
    engine: Engine, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (vault / "shut").mkdir()
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StorageFailure, match="Permission denied"):
        find_traces([(engine, target_secret(NEEDLE))])


# Of git


def test_what_git_keeps_in_our_folders_is_reported_and_never_changed(engine: Engine) -> None:
    objects = engine.folder / ".git/objects"
    objects.mkdir(parents=True)
    (objects / "1234").write_bytes(zlib.compress(TEXT))
    (engine.folder / ".git/COMMIT_EDITMSG").write_bytes(TEXT)
    done = purge(engine, remove_unreadable=True, remove_closed=True)
    assert names(done) == {"foreign": [".git", "COMMIT_EDITMSG"]}
    assert (engine.folder / ".git/COMMIT_EDITMSG").read_bytes() == TEXT
    assert not done.is_clean


def test_the_history_of_a_repository_in_the_vault_is_searched(engine: Engine, vault: Path) -> None:
    write_memory(vault, "note", f"It is {NEEDLE}.\n")
    for command in (("init", "-q"), ("add", "-A"), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")):
        subprocess.run(("git", *command), cwd=vault, check=True)
    done = purge(engine)
    assert names(done) == {"foreign": [".git"]}
    assert "git filter-repo" in done.foreign[0].why


# Odd bytes and names: whatever there is, a purge ends with an answer

BYTES = st.one_of(
    st.binary(max_size=200),
    st.tuples(st.sampled_from([b"PK\x03\x04", b"SQLite format 3\0", b"PK\x05\x06"]), st.binary(max_size=200)).map(
        b"".join
    ),
    st.binary(max_size=100).map(lambda data: data + TEXT),
)
NAMES = st.one_of(
    st.sampled_from(["a.scrim", "a.md", "index.db.x", ".scrimshaw-tmp-1", "links.toml", "a", "A.SCRIM"]),
    st.binary(min_size=1, max_size=20).filter(lambda name: name not in (b".", b"..") and not {0, 47} & set(name)),
)


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode elsewhere")
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES, data=BYTES, folder=st.sampled_from(["memories", "checkpoints", "."]))
@example(name="a.scrim", data=b"PK\x05\x06" + b"\0" * 18, folder="checkpoints")
def test_whatever_lies_there_a_purge_ends_with_an_answer(
    open_memory: OpenMemory, name: str | bytes, data: bytes, folder: str
) -> None:
    engine = open_memory()
    path = engine.folder / folder / os.fsdecode(name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    try:
        done = purge(engine)
        told = {trace.place for trace in done.unreadable}
        assert done.is_clean or told or done.left
        assert purge(engine, remove_unreadable=True, remove_closed=True).is_clean
        assert NEEDLE not in repr(done)
    finally:
        path.unlink(missing_ok=True)
        engine.close()


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 5_000), put=st.binary(min_size=1, max_size=3), method=st.sampled_from([0, 8, 12, 14]))
def test_whatever_became_of_a_checkpoint_a_purge_ends_with_an_answer(
    open_memory: OpenMemory, place: int, put: bytes, method: int
) -> None:
    engine = open_memory()
    if not (kept := engine.folder / "checkpoints/kept.scrim").exists():
        write.save(engine, write.NewText(content=f"It is {NEEDLE}, told once.", id="note"))
        checkpoints.create(engine, "kept")
    whole = kept.read_bytes()
    packed_anew = io.BytesIO()
    with zipfile.ZipFile(kept) as old, zipfile.ZipFile(packed_anew, "w", method) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
        new.comment = old.comment
    data = packed_anew.getvalue()
    odd = kept.with_name("odd.scrim")
    odd.write_bytes(data[: place % len(data)] + put + data[place % len(data) + len(put) :])
    try:
        done = purge(engine)
        assert {Path(trace.place).name for trace in done.unreadable} <= {"odd.scrim"}
        assert purge(engine, remove_unreadable=True).is_clean
    finally:
        odd.unlink(missing_ok=True)
        kept.write_bytes(whole)
        engine.close()


def test_the_encodings_that_were_searched_are_listed(engine: Engine) -> None:
    forms = " ".join(purge(engine).forms)
    for form in ("base64", "UTF-32", "over lines", "JSON"):
        assert form in forms
    pattern = target_secret("zanzibar-[a-z]+", is_pattern=True)
    assert "expression" in find_traces([(engine, pattern)]).forms[0]


def test_short_lines_of_a_memory_are_named_as_not_searched(engine: Engine, vault: Path) -> None:
    write_memory(vault, "short", "The walrus is 77.\n")
    (engine.folder / "hook.log").write_text("The walrus is 77.\n")
    done = find_traces([(engine, target_memories(engine, ["short"]))])
    assert "hook.log" not in {Path(trace.place).name for trace in done.places}
    assert f"{PASSAGE_CHARACTERS} characters" in done.forms[0]
    assert "no other" in done.forms[0]


def test_compressed_files_and_other_repositories_are_named_as_not_searched(engine: Engine) -> None:
    outside = " ".join(purge(engine).outside)
    assert "compressed" in outside
    assert "git, where it keeps another folder" in outside
