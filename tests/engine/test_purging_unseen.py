"""A purge says that nothing is left only of what it looked into: packed files, links, names, odd bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.conftest import OpenMemory
from tests.samples import write_memory

from scrimshaw.engine import Engine, checkpoints, purge_targets, purging, write
from scrimshaw.engine.purging import Purged
from scrimshaw.errors import StorageFailure
from scrimshaw.storage import erasing_files, packed

NEEDLE = "zanzibar-walrus-77-keel"
TEXT = f"It is {NEEDLE}.\n".encode() * 3


def purge(engine: Engine, **how: bool) -> Purged:
    target = purge_targets.secret(NEEDLE)
    return purging.purge(engine, target, purging.plan(engine, target), **how)


def names(done: Purged) -> dict[str, list[str]]:
    """What was told, by where it was told, without folders."""
    told = {"unreadable": done.unreadable, "foreign": done.foreign, "left": done.left}
    return {where: sorted(Path(trace.place).name for trace in traces) for where, traces in told.items() if traces}


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def zipped(data: bytes, name: str = "a.md") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return buffer.getvalue()


def tarred(data: bytes, name: str = "a.md") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def rows(data: bytes) -> bytes:
    """A database in which a text is cut over pages."""
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute("PRAGMA page_size = 512; CREATE TABLE notes (text)")
        connection.execute("INSERT INTO notes VALUES (?)", (b"x" * 480 + data + b"y" * 2000,))
        return connection.serialize("main")


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "gzip, not squeezed": lambda data: gzip.compress(data, 0),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda data: lzma.compress(data, format=lzma.FORMAT_ALONE),
    "zlib": zlib.compress,
    "zlib, fast": lambda data: zlib.compress(data, 1),
    "two of zlib": lambda data: zlib.compress(b"first") + zlib.compress(data),
    "zip": zipped,
    "zip in zip": lambda data: zipped(zipped(data)),
    "tar": tarred,
    "tar in gzip": lambda data: gzip.compress(tarred(data)),
    "gzip in tar": lambda data: tarred(gzip.compress(data)),
    "database": rows,
    "name in zip": lambda data: zipped(b"x", data.decode().splitlines()[0]),
    "zip behind a first line": lambda data: b"#!/usr/bin/env python3\n" + zipped(data),
}
CLOSED: dict[str, bytes] = {
    "zstandard": b"\x28\xb5\x2f\xfd" + b"\x24" * 30,
    "7-zip": b"7z\xbc\xaf\x27\x1c" + b"\x01" * 30,
    "pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "cut off gzip": gzip.compress(os.urandom(1000))[:500],
    "cut off zlib": zlib.compress(os.urandom(1000))[:500],
    "damaged bzip2": bz2.compress(os.urandom(1000))[:200] + b"\0" * 800,
    "torn zip": zipped(os.urandom(1000))[:500],
    "torn database": b"SQLite format 3\0" + b"\1" * 600,
    "log of a database": b"7\x7f\x06\x82" + b"\0" * 600,
    "rollback journal": b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 600,
    "zstandard in frames": b"\x50\x2a\x4d\x18\x04\0\0\0" + b"\x24" * 30,
    "bundle of git": b"# v2 git bundle\n\nPACK\0\0\0\x02\xff",
    "four deep": gzip.compress(gzip.compress(gzip.compress(gzip.compress(b"x")))),
}


@pytest.mark.parametrize("packing", PACKED)
def test_what_is_packed_is_found_and_never_cut(engine: Engine, vault: Path, packing: str) -> None:
    path = vault / "a.data"
    path.write_bytes(PACKED[packing](TEXT))
    before = path.read_bytes()
    done = purge(engine)
    assert names(done) == {"unreadable": ["a.data"]}
    assert not done.is_clean
    assert path.read_bytes() == before
    done = purge(engine, remove_unreadable=True)
    assert (done.is_clean, done.removed) == (True, (str(path.resolve()),))
    assert not path.exists()


@pytest.mark.parametrize("packing", PACKED)
def test_what_is_packed_and_does_not_hold_it_is_no_hindrance(engine: Engine, vault: Path, packing: str) -> None:
    path = vault / "a.data"
    path.write_bytes(PACKED[packing](b"It is nothing of the kind.\n"))
    done = purge(engine, remove_unreadable=True, remove_closed=True)
    assert done.is_clean
    assert path.exists()


@pytest.mark.parametrize("kind", CLOSED)
def test_what_cannot_be_looked_into_is_told_and_goes_only_if_asked(engine: Engine, vault: Path, kind: str) -> None:
    path = vault / "notes.md"
    path.write_bytes(CLOSED[kind])
    done = purge(engine, remove_unreadable=True)
    assert (names(done), done.is_clean) == ({"unreadable": ["notes.md"]}, False)
    assert "cannot be looked into" in done.unreadable[0].why
    assert path.read_bytes() == CLOSED[kind]
    assert purge(engine, remove_closed=True).is_clean
    assert not path.exists()


def test_a_damaged_journal_that_is_no_database_cannot_be_looked_into(engine: Engine) -> None:
    aside = engine.folder / "journal.db.damaged-20261121T080000Z"
    aside.write_bytes(b"\0" * 512 + NEEDLE[:9].encode() + b"\0\0\0\x03" + NEEDLE[9:].encode())
    aside.with_name(f"{aside.name}-shm").write_bytes(b"\x18\xe2\x2d\0" * 100)
    done = purge(engine, remove_unreadable=True)
    assert (names(done), done.is_clean) == ({"unreadable": [aside.name]}, False)
    assert purge(engine, remove_closed=True).is_clean
    assert not aside.exists()


def test_an_encrypted_zip_cannot_be_looked_into(engine: Engine, vault: Path) -> None:
    data = bytearray(zipped(TEXT))
    for mark in (data.index(b"PK\x03\x04") + 6, data.index(b"PK\x01\x02") + 8):
        data[mark] |= 1
    (vault / "a.zip").write_bytes(data)
    assert names(purge(engine)) == {"unreadable": ["a.zip"]}


def test_a_trap_is_not_unpacked(engine: Engine, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MOST_BYTES", 10_000)
    (vault / "a.gz").write_bytes(gzip.compress(b"\0" * 10_001))
    (vault / "b.zip").write_bytes(zipped(b"\0" * 9_000))
    (vault / "c.zip").write_bytes(zipped(zipped(b"\0" * 6_000) + b"\0" * 6_000))
    assert names(purge(engine)) == {"unreadable": ["a.gz", "c.zip"]}


@pytest.mark.parametrize(
    "text", ["x^2 + y^2", "x\x9c", "8 of them", "H\tx", "BZh9 is a header", "%PDF- is too", "x^", "# v2 git bundle"]
)
def test_a_note_may_begin_like_a_packed_file(engine: Engine, vault: Path, text: str) -> None:
    (vault / "note.md").write_text(f"{text}\n{NEEDLE}\n")
    assert purge(engine).is_clean
    assert (vault / "note.md").read_text() == f"{text}\n[REDACTED:purged]\n"


def test_delete_with_purge_tells_what_it_could_not_look_into(engine: Engine, vault: Path) -> None:
    write.save(engine, write.NewText(content="A note that goes for good.", id="note"))
    (vault / "a.7z").write_bytes(CLOSED["7-zip"])
    with pytest.raises(StorageFailure, match=r"a\.7z"):
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
def test_the_file_behind_a_link_is_told(engine: Engine, vault: Path, outside: Path) -> None:
    (vault / "one.md").symlink_to(outside / "deep/held.txt")
    done = purge(engine, remove_unreadable=True, remove_closed=True)
    assert (names(done), done.is_clean) == ({"foreign": ["held.txt"]}, False)
    assert done.foreign[0].place == str((outside / "deep/held.txt").resolve())
    assert "one.md" in done.foreign[0].why
    assert (vault / "one.md").read_bytes() == TEXT


@needs_links
def test_the_folder_behind_a_link_is_searched(engine: Engine, vault: Path, outside: Path) -> None:
    (vault / "linked").symlink_to(outside)
    (outside / "again").symlink_to(vault)
    (outside / "a.gz").write_bytes(gzip.compress(TEXT))
    (outside / "b.7z").write_bytes(CLOSED["7-zip"])
    done = purge(engine)
    assert names(done) == {"foreign": ["a.gz", "b.7z", "held.txt"]}
    for path in (outside / "deep/held.txt", outside / "a.gz", outside / "b.7z"):
        path.unlink()
    assert purge(engine).is_clean


@needs_links
def test_links_behind_links_are_followed(engine: Engine, vault: Path, outside: Path, tmp_path: Path) -> None:
    (tmp_path / "between").mkdir()
    (tmp_path / "between/further").symlink_to(outside / "deep")
    (tmp_path / "between/circle").symlink_to(tmp_path / "between/circle")
    (vault / "linked").symlink_to(tmp_path / "between")
    assert names(purge(engine)) == {"foreign": ["held.txt"]}


@needs_links
def test_a_link_to_too_much_is_told(
    engine: Engine, vault: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing_files, "MOST_LINKED", 3)
    for number in range(5):
        (outside / f"a{number}").write_text("Fine.")
    (vault / "linked").symlink_to(outside)
    done = purge(engine)
    assert "not searched" in done.foreign[0].why
    assert not done.is_clean


@needs_links
def test_a_large_file_behind_a_link_is_told(
    engine: Engine, vault: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing_files, "MOST_BYTES", 10)
    (vault / "linked").symlink_to(outside / "deep")
    assert "more than 10 bytes" in purge(engine).foreign[0].why


@needs_links
def test_the_path_in_a_link_goes(engine: Engine, vault: Path) -> None:
    for name, target in (("dangling.md", f"nowhere/{NEEDLE}"), ("circle", f"{NEEDLE}/../circle"), ("fine", "nowhere")):
        (vault / name).symlink_to(target)
    done = purge(engine)
    assert done.is_clean
    assert sorted(Path(name).name for name in done.removed) == ["circle", "dangling.md"]
    assert listed(vault) == ["fine"]


@needs_links
def test_what_a_link_led_to_by_its_name_is_still_told(engine: Engine, vault: Path, tmp_path: Path) -> None:
    (tmp_path / NEEDLE).mkdir()
    (tmp_path / NEEDLE / "note.txt").write_text("Fine.")
    (vault / "linked").symlink_to(tmp_path / NEEDLE)
    done = purge(engine)
    assert not os.path.lexists(vault / "linked")
    assert names(done) == {"foreign": ["[REDACTED:purged]", "note.txt"]}
    assert NEEDLE not in repr(done)


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
    target = purge_targets.memories(engine, ["note"])
    assert purging.purge(engine, target, purging.plan(engine, target)).is_clean
    assert listed(vault) == []


# Names


def test_the_name_of_an_empty_folder_is_searched(engine: Engine, vault: Path) -> None:
    (vault / f"deep/{NEEDLE}/empty").mkdir(parents=True)
    (vault / "other").mkdir()
    target = purge_targets.secret(NEEDLE)
    assert [trace.count for trace in purging.plan(engine, target).places] == [1]
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
        purging.plan(engine, purge_targets.secret(NEEDLE))


# Of git


def test_what_git_keeps_in_our_folders_is_told_and_never_changed(engine: Engine) -> None:
    objects = engine.folder / ".git/objects"
    (objects / "pack").mkdir(parents=True)
    (objects / "1234").write_bytes(zlib.compress(TEXT))
    (objects / "pack/a.pack").write_bytes(b"PACK\0\0\0\2" + b"\1" * 30)
    (engine.folder / ".git/COMMIT_EDITMSG").write_bytes(TEXT)
    done = purge(engine, remove_unreadable=True, remove_closed=True)
    assert names(done) == {"foreign": ["1234", "COMMIT_EDITMSG", "a.pack"]}
    assert (engine.folder / ".git/COMMIT_EDITMSG").read_bytes() == TEXT
    assert not done.is_clean


# Odd bytes and names: whatever there is, a purge ends with an answer

BYTES = st.one_of(
    st.binary(max_size=200),
    st.tuples(st.sampled_from([b"PK\x03\x04", b"\x1f\x8b", b"BZh91AY&SY", b"\xfd7zXZ\0", b"x\x9c", b"SQLite format 3\0",
                               b"7\x7f\x06", b"PK\x05\x06", b"\x5d\0\0"]), st.binary(max_size=200)).map(b"".join),
    st.tuples(st.sampled_from(sorted(PACKED)), st.binary(max_size=3), st.integers(0, 400), st.integers(0, 255)).map(
        lambda drawn: changed(PACKED[drawn[0]](TEXT), drawn[1], drawn[2], drawn[3])
    ),
)  # fmt: skip
NAMES = st.one_of(
    st.sampled_from(["a.scrim", "a.md", "index.db.x", ".scrimshaw-tmp-1", "links.toml", "a", "A.SCRIM"]),
    st.binary(min_size=1, max_size=20).filter(lambda name: name not in (b".", b"..") and not {0, 47} & set(name)),
)


def changed(data: bytes, put: bytes, place: int, cut: int) -> bytes:
    """Some bytes, with others put into them, and the end cut off."""
    return (data[:place] + put + data[place + len(put) :])[: len(data) - cut % 50]


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


def test_the_forms_that_were_looked_for_are_told(engine: Engine) -> None:
    told = " ".join(purge(engine).forms)
    for form in ("base64", "UTF-32", "over lines", "JSON"):
        assert form in told
    assert "expression" in purging.plan(engine, purge_targets.secret("zanzibar-[a-z]+", is_pattern=True)).forms[0]


def test_the_lines_of_a_memory_that_are_not_looked_for_are_told(engine: Engine, vault: Path) -> None:
    write_memory(vault, "short", "The walrus is 77.\n")
    (engine.folder / "hook.log").write_text("The walrus is 77.\n")
    done = purging.plan(engine, purge_targets.memories(engine, ["short"]))
    assert "hook.log" not in {Path(trace.place).name for trace in done.places}
    assert f"{purge_targets.PASSAGE_CHARACTERS} characters" in done.forms[0]
    assert "no other" in done.forms[0]


def test_a_repository_around_the_users_own_vault_is_told_as_not_searched(engine: Engine) -> None:
    assert any(place.startswith("git") and "your own vault" in place for place in purge(engine).outside)
