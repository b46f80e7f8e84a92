"""What may stand in the folder of checkpoints and in an archive, and what stays when there are too many."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests.conftest import OpenMemory
from tests.samples import write_memory

from scrimshaw.engine import Engine, checkpoints
from scrimshaw.engine.checkpoints import (
    Checkpoint,
    checkpoint_before,
    create,
    delete,
    list_checkpoints,
    list_newest_first,
    path_of,
)
from scrimshaw.engine.index import scan
from scrimshaw.engine.restore import restore
from scrimshaw.engine.write import NewText, save
from scrimshaw.errors import AlreadyExists, InvalidRequest, NotFound, StorageFailure, UnusableArchive
from scrimshaw.models import Redacted
from scrimshaw.storage.archive import LATEST, ArchivedFile, Manifest, read_age, write_archive

NOON = 1_800_000_000.0


@pytest.fixture
def notes(open_memory: OpenMemory, vault: Path) -> Engine:
    """A vault with one memory, at noon."""
    write_memory(vault, "a", "Harpoons are kept dry.\n")
    engine = replace(open_memory(), clock=lambda: NOON)
    scan(engine)
    return engine


@pytest.fixture
def kept(notes: Engine) -> Path:
    """The folder of the checkpoints."""
    folder = notes.folder / "checkpoints"
    folder.mkdir()
    return folder


def at(engine: Engine, moment: float) -> Engine:
    return replace(engine, clock=partial(float, moment))


def names(found: list[Checkpoint]) -> list[str]:
    return [each.name for each in found]


def forged(engine: Engine, file: Path, *held: str, **head: object) -> Path:
    """An archive as somebody else may write it, with files of these names."""
    manifest = Manifest(format=1, schema=engine.maintenance.schema, name=file.stem, created=NOON, metadata={}, parts={})
    manifest = msgspec.structs.replace(manifest, **head)
    write_archive(
        file, manifest, [ArchivedFile(name=name, text=Redacted(text="x"), content_hash="") for name in held], []
    )
    return file


# Which ones go


@pytest.mark.parametrize("ahead", ["by their file's time", "by the manifest"])
@pytest.mark.parametrize(
    "make", [lambda notes: checkpoint_before(notes, "delete"), lambda notes: create(notes, "mine")]
)
def test_the_one_just_made_is_never_dropped(notes: Engine, ahead: str, make: Callable[[Engine], Checkpoint]) -> None:
    for number in range(10):
        early = NOON + 3600 + number if ahead == "by the manifest" else NOON - 3600 + number
        for made in (create(at(notes, early), f"n{number}"), checkpoint_before(at(notes, early), "delete")):
            os.utime(made.path, (NOON + 9e6, NOON + 9e6))
    made = make(notes)
    assert Path(made.path).is_file()
    assert len(made.dropped) == 1
    assert not path_of(notes, made.dropped[0]).exists()
    is_automatic = made.name.startswith("auto-")
    assert sum(name.startswith("auto-") == is_automatic for name in names(list_checkpoints(notes, 100))) == 10


def test_what_cannot_be_read_goes_first(notes: Engine, kept: Path) -> None:
    (kept / "torn.scrim").write_bytes(b"PK")
    os.utime(kept / "torn.scrim", (NOON + 9e6, NOON + 9e6))
    for number in range(9):
        create(at(notes, NOON - 100 + number), f"n{number}")
    assert create(notes, "last").dropped == ("torn",)


def test_one_of_a_newer_version_has_an_age(notes: Engine, kept: Path) -> None:
    assert read_age(forged(notes, kept / "newer.scrim", schema=999, created=NOON - 10)) == (True, 0, NOON - 10)
    assert [each.name for each in list_checkpoints(notes) if "newer version" in each.problem] == ["newer"]


def test_the_order_is_that_of_their_making(notes: Engine) -> None:
    for number, name in enumerate(["first", "second", "third"]):
        made = create(at(notes, NOON + number), name)
        os.utime(made.path, (NOON - number, NOON - number))
    assert names(list_checkpoints(notes)) == ["third", "second", "first"]
    assert [path.stem for path in list_newest_first(notes)] == ["third", "second", "first"]


def test_a_clock_that_jumped_makes_none_newer(notes: Engine, kept: Path) -> None:
    create(at(notes, NOON + 400 * 86_400), "ahead")
    save(notes, NewText(content="Ropes are tarred.", id="tar"))
    create(at(notes, NOON), "newest")
    (kept / "torn.scrim").write_bytes(b"PK")
    os.utime(kept / "torn.scrim", (NOON + 1, NOON + 1))
    assert [path.stem for path in list_newest_first(notes)] == ["torn", "newest", "ahead"]
    assert names(list_checkpoints(notes)) == ["torn", "newest", "ahead"]


def test_a_clock_that_jumped_drops_none_that_is_newer(notes: Engine) -> None:
    for number in range(9):
        create(at(notes, NOON - 100 + number), f"n{number}")
    save(notes, NewText(content="Ropes are tarred.", id="tar"))
    create(at(notes, NOON + 400 * 86_400), "ahead")
    assert create(at(notes, NOON - 30 * 86_400), "behind").dropped == ("n0",)
    save(notes, NewText(content="Sails are mended.", id="sail"))
    assert create(notes, "last").dropped == ("n1",)


def test_all_that_were_dropped_are_named(notes: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        create(at(notes, NOON - 100 + number), f"n{number}")
    history = iter([[{"seq": 1}], [{"seq": 2}]])
    monkeypatch.setattr(type(notes.journal), "history", lambda *_, **__: next(history, []))
    assert create(notes, "last").dropped == ("n0",)


# Odd entries in the folder


@pytest.mark.parametrize("created", [1e300, -1.0, LATEST + 1, -1e300])
def test_a_day_that_no_calendar_has_is_a_fault(notes: Engine, kept: Path, created: float) -> None:
    forged(notes, kept / "odd.scrim", created=created)
    (found,) = list_checkpoints(notes)
    assert (found.name, 0 <= found.created <= LATEST, "created" in found.problem) == ("odd", True, True)


def a_folder(path: Path) -> None:
    (path / "inside").mkdir(parents=True)


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_file_of_another_age(path: Path) -> None:
    path.write_bytes(b"nothing of the kind")
    os.utime(path, (1e15, 1e15))


ENTRIES = [a_folder, a_link_to_nothing, a_link_to_itself, a_pipe, a_file_of_another_age]


@pytest.mark.skipif(sys.platform == "win32", reason="no such links and pipes")
@pytest.mark.parametrize("entry", ENTRIES)
def test_an_odd_file_is_listed_with_its_fault(notes: Engine, kept: Path, entry: Callable[[Path], None]) -> None:
    for number in range(12):
        entry(kept / f"odd{number:02}.scrim")
    made = create(notes, "one")
    found = {each.name: each for each in list_checkpoints(notes, 100)}
    one = msgspec.structs.replace(made, dropped=())
    assert (found.pop("one"), len(found)) == (one, 9 if entry is a_file_of_another_age else 0)
    assert all("cannot be used" in each.problem for each in found.values())
    assert all(0 <= each.created <= LATEST for each in found.values())
    with pytest.raises(AlreadyExists):
        create(notes, "odd11")
    with pytest.raises((UnusableArchive, NotFound)):
        restore(notes, kept / "odd11.scrim")


@pytest.mark.skipif(sys.platform == "win32", reason="no such links")
def test_a_link_to_nothing_can_be_deleted(notes: Engine, kept: Path) -> None:
    a_link_to_nothing(kept / "odd.scrim")
    delete(notes, "odd", "odd")
    assert list_checkpoints(notes) == []


@pytest.mark.skipif(sys.platform != "linux", reason="no such names")
def test_a_file_name_of_bytes_is_shown(notes: Engine, kept: Path) -> None:
    made = create(notes, "one")
    shutil.copy(made.path, kept / os.fsdecode(b"\xff.scrim"))
    (kept / os.fsdecode(b"\xfe.scrim")).write_bytes(b"PK")
    assert msgspec.json.encode(list_checkpoints(notes))
    assert {each.name for each in list_checkpoints(notes)} == {"one", "\ufffd"}


def test_a_copy_has_the_name_of_its_file(notes: Engine, kept: Path) -> None:
    made = create(notes, "one")
    shutil.copy(made.path, kept / "two.scrim")
    assert {each.name: each.made_as for each in list_checkpoints(notes)} == {"one": "", "two": "one"}
    delete(notes, "one", "one")
    assert restore(notes, path_of(notes, list_checkpoints(notes)[0].name)).name == "one"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("../x", "segment"),
        ("con", "reserves"),
        ("a/b", "slash"),
        ("e\u0301", "NFC"),
        ("x" * 300, "longer"),
        ("", "empty"),
    ],
)
def test_a_bad_name_is_refused_as_that_of_a_checkpoint(notes: Engine, name: str, rule: str) -> None:
    with pytest.raises(InvalidRequest, match=rule) as refused:
        create(notes, name)
    assert "cannot name a checkpoint" in refused.value.message
    assert "before-cleanup" in refused.value.hint
    assert refused.value.code == "invalid"


def test_a_checkpoint_that_is_not_there_is_not_found(notes: Engine) -> None:
    with pytest.raises(NotFound):
        checkpoints.find_checkpoint(notes, "nope")


# Names in an archive

REFUSED = [
    "memories/a\x01b.md", "memories/a\nb.md", "memories/a\x1b[2Jb.md", "memories/a\u202eb.md", "memories/.hidden.md",
    "memories/.git/x.md", "memories/.scrimshaw-tmp-1.md", "memories/deep/.scrimshaw-tmp-1/x.md", "memories/.md",
    "memories/node_modules/x.md", "memories/__pycache__/x.md", "global/.hidden.md", "memories/" + "x" * 300 + ".md",
]  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_no_memory_can_have_is_refused(notes: Engine, vault: Path, tmp_path: Path, name: str) -> None:
    file = forged(notes, tmp_path / "x.scrim", "memories/fine.md", name)
    ledger = notes.journal.verify()
    for dry_run in (True, False):
        with pytest.raises((UnusableArchive, StorageFailure)) as refused:
            restore(notes, file, dry_run=dry_run)
        assert refused.value.message.isprintable()
    assert sorted(path.name for path in vault.rglob("*")) == ["a.md"]
    assert (notes.journal.verify(), list_checkpoints(notes)) == (ledger, [])


@pytest.mark.skipif(sys.platform == "win32", reason="no such names")
@pytest.mark.parametrize(
    "name", ["con", "deep/aux", "what?", "a:b", "a\\b", "ends.", " led", "y.md", "e\u0301", "x" * 250, "node_modules"]
)
def test_a_file_of_an_odd_name_goes_and_comes_back(notes: Engine, vault: Path, name: str) -> None:
    write_memory(vault, name, "Ropes are coiled clockwise.\n")
    made = create(notes, "one")
    assert made.left_out == ()
    (vault / f"{name}.md").unlink()
    back = restore(notes, Path(made.path))
    assert (back.written, back.found) == ((f"memories/{name}.md",), 1)
    assert (vault / f"{name}.md").read_text() == "Ropes are coiled clockwise.\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no such names")
@pytest.mark.parametrize("name", ["a\x01b", "a\nb", "a\u202eb"])
def test_a_file_that_no_restore_takes_is_named_as_left_out(notes: Engine, vault: Path, name: str) -> None:
    write_memory(vault, name, "Ropes are coiled clockwise.\n")
    scan(notes)
    made = create(notes, "one")
    assert (made.left_out, made.files) == ((f"memories/{name}.md",), 2)
    with zipfile.ZipFile(made.path) as opened:
        assert f"files/memories/{name}.md" not in opened.namelist()
    (vault / "a.md").unlink()
    back = restore(notes, Path(made.path), clear_existing=True)
    assert (back.written, back.removed) == (("memories/a.md",), ())
    assert (vault / f"{name}.md").exists()
