"""A command on a disk that fills up at any step does all of it or nothing, and its exit code and words say which."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.app.command_line import Cli, Run, command_line
from tests.engine.breaking import small_disk

from scrimshaw.app.cli.main import main
from scrimshaw.config import load
from scrimshaw.engine import Engine, open_engine, write
from scrimshaw.engine.index import scan
from scrimshaw.models import Action, Filters, content_hash
from scrimshaw.storage.durable import TEMP_PREFIX
from scrimshaw.storage.sqlite.database import Database

SESSION, PAGE = "voyage", 4096
KEPT = {
    "rope": "Ropes are coiled clockwise, so that they run out freely when the boat is away.",
    "deep/anchor": "Anchors are weighed at dawn, before the wind turns and the tide sets in.",
    "gone/oil": "Whale oil burns without smoke, which is why lamps are filled with nothing else.",
}
FOUND = {
    "blubber": "# Blubber\n\nBlubber is rendered at sea in iron pots, since it spoils within days.\n",
    "harpoon": "# Harpoon\n\nHarpoons are kept dry and sharp, each in its own sheath below deck.\n",
}


@dataclass(frozen=True)
class Command:
    """A command line, and the memories there are once it has done its work."""

    arguments: Sequence[str]
    leaves: frozenset[str]
    is_as_kept: bool = False  #: whether every file then is as the checkpoint has it

    def is_done(self, before: Mapping[str, str], after: Mapping[str, str], kept: Mapping[str, str]) -> bool:
        return after.keys() == self.leaves and after != before and (not self.is_as_kept or after == kept)


COMMANDS = {
    "save": Command(
        ("save", "Salt beef is kept in barrels.", "--id", "new/beef"),
        frozenset({"rope", "deep/anchor", "lime", "new/beef"}),
    ),
    "update": Command(("edit", "rope", "--content", "Ropes are cut."), frozenset({"rope", "deep/anchor", "lime"})),
    "delete": Command(("delete", "deep/anchor", "--yes"), frozenset({"rope", "lime"})),
    "delete of two": Command(("delete", "rope", "deep/anchor", "--yes"), frozenset({"lime"})),
    "undo": Command(("undo", "--session", SESSION, "--yes"), frozenset(KEPT), is_as_kept=True),
    "restore": Command(
        ("checkpoint", "restore", "kept", "--clear-existing", "--yes"), frozenset(KEPT), is_as_kept=True
    ),
}


@pytest.fixture(scope="module")
def voyage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Memories in a checkpoint, and a session that changed one, made one and deleted one since."""
    folder = tmp_path_factory.mktemp("voyage") / "project"
    (folder / ".scrimshaw/memories").mkdir(parents=True)
    (folder / ".scrimshaw/config.toml").write_text('[embedding]\nprovider = "none"\n')
    (folder / ".found").mkdir()
    for name, text in FOUND.items():
        (folder / f".found/{name}.md").write_text(text)
    with open_project(folder) as engine:
        for name, text in KEPT.items():
            write.save(engine, write.NewText(content=text, id=name))
    (folder / "kept.json").write_text(json.dumps(files_of(folder)))
    assert main(["--project", str(folder), "checkpoint", "create", "kept"]) == 0
    with open_project(folder) as engine:
        write.update(engine, "rope", {"tier": "critical"}, session=SESSION)
        write.save(engine, write.NewText(content="Limes are for the crew.", id="lime", session=SESSION))
        write.delete(engine, ["gone/oil"], session=SESSION)
    return folder


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    return command_line(capsys)


def open_project(folder: Path) -> Engine:
    return open_engine(load(folder, home=folder.parent / "home", environment={}))


def files_of(folder: Path) -> dict[str, str]:
    """The memories by id with the hashes of their files."""
    vault = folder / ".scrimshaw/memories"
    found = (path for path in vault.rglob("*.md") if not path.name.startswith(TEMP_PREFIX))
    return {path.relative_to(vault).with_suffix("").as_posix(): content_hash(path.read_bytes()) for path in found}


def indexed(engine: Engine) -> dict[str, str]:
    found = engine.index.select(Filters(include_deprecated=True), sort="id", limit=-1, offset=0)
    return {memory.id: memory.content_hash for memory in found}


def agreed(folder: Path, run: Run) -> dict[str, str]:
    """The files; ledger and index agree with them, but for an index that the answer says is behind."""
    after = files_of(folder)
    with open_project(folder) as engine:
        recorded = {name: digest for name, digest in engine.journal.last_hashes().items() if name and digest}
        assert recorded == after, run
        if "index_behind" not in run.err and "It is erased, but" not in run.err:
            assert indexed(engine) == after, run
        scan(engine)
        assert indexed(engine) == after
        assert Action.EXTERNAL not in [row["action"] for row in engine.journal.history()]
    return after


def verify(command: Command, voyage: Path, folder: Path, run: Run) -> None:
    """All was done or nothing, and the exit code says which."""
    before, after, kept = files_of(voyage), agreed(folder, run), json.loads((voyage / "kept.json").read_text())
    is_done = command.is_done(before, after, kept)
    assert after == before or is_done, run
    assert run.code == (0 if is_done else 3), run


class Trouble:
    """Counts the steps that write; the chosen one fails, and with `stays` all that need room from then on."""

    def __init__(self, chosen: int, *, stays: bool) -> None:
        self.chosen, self.stays, self.passed = chosen, stays, 0

    @property
    def is_reached(self) -> bool:
        return self.passed >= self.chosen

    def step(self, *, needs_room: bool) -> bool:
        """Whether this step fails."""
        if self.stays and not needs_room:
            return False
        self.passed += 1
        return self.passed == self.chosen or (self.stays and self.is_reached)

    @contextmanager
    def happens(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("mkdir", "link", "fsync"):
                self.wrap(patch, os, name, lambda *_, **__: True)
            for name in ("replace", "rename", "unlink", "rmdir"):
                self.wrap(patch, os, name, lambda *_, **__: False)
            self.wrap(patch, os, "open", opening)
            self.wrap(patch, io, "open", lambda _, mode="r", *__, **___: None if mode in ("r", "rb") else True)
            original = Database.write

            @contextmanager
            def write(database: Database) -> Iterator[Any]:
                with original(database) as connection:
                    yield connection
                    if self.step(needs_room=True):
                        raise apsw.FullError("database or disk is full")

            patch.setattr(Database, "write", write)
            yield

    def wrap(self, patch: pytest.MonkeyPatch, place: Any, name: str, needs_room: Callable[..., bool | None]) -> None:
        """Make a step of a function; `needs_room` is asked with its arguments, and answers None for no step."""
        original = getattr(place, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            needs = needs_room(*arguments, **options)
            if needs is not None and self.step(needs_room=needs):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a file")
            return original(*arguments, **options)

        patch.setattr(place, name, wrapped)


def opening(path: Any, flags: int, *_: object, **__: object) -> bool | None:
    """A file that is there takes no room to open."""
    return not Path(path).exists() if flags & os.O_CREAT else None


@pytest.mark.slow
@pytest.mark.parametrize("stays", [True, False], ids=["full from there on", "refused once"])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_change_that_fails_at_any_step_is_done_or_not(
    voyage: Path, tmp_path: Path, cli: Cli, command: Command, stays: bool
) -> None:
    for chosen in count(1):
        folder = tmp_path / f"{chosen}" / "project"
        shutil.copytree(voyage, folder)
        trouble = Trouble(chosen, stays=stays)
        with trouble.happens():
            run = cli("--project", str(folder), *command.arguments)
        verify(command, voyage, folder, run)
        if not trouble.is_reached:
            assert run.code == 0
            break


@pytest.mark.slow
@pytest.mark.parametrize("stays", [True, False], ids=["full from there on", "refused once"])
def test_a_purge_that_fails_at_any_step_says_whether_it_erased(
    voyage: Path, tmp_path: Path, cli: Cli, stays: bool
) -> None:
    for chosen in count(1):
        folder = tmp_path / f"{chosen}" / "project"
        shutil.copytree(voyage, folder)
        trouble = Trouble(chosen, stays=stays)
        with trouble.happens():
            run = cli("--project", str(folder), "delete", "deep/anchor", "--purge", "--yes")
        is_gone = "deep/anchor" not in agreed(folder, run)
        assert run.code == (0 if is_gone and "It is erased, but" not in run.err else 3), run
        assert is_gone or "It is erased" not in run.err, run
        if not trouble.is_reached:
            assert run.code == 0
            break


@pytest.mark.slow
def test_an_import_says_which_files_it_could_not_write(voyage: Path, tmp_path: Path, cli: Cli) -> None:
    for chosen in count(1):
        folder = tmp_path / f"{chosen}" / "project"
        shutil.copytree(voyage, folder)
        trouble = Trouble(chosen, stays=True)
        with trouble.happens():
            run = cli("--project", str(folder), "import", str(folder / ".found"), "--json")
        after = agreed(folder, run)
        assert run.code == (0 if after.keys() >= FOUND.keys() else 3), run
        for each in run.json["taken"] if run.out else ():
            assert (each["status"] == "taken") == (Path(each["place"]).stem in after), run
        if not trouble.is_reached:
            assert run.code == 0
            break


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_disk_that_is_really_full(voyage: Path, tmp_path: Path, cli: Cli, command: Command) -> None:
    """With every number of free pages, from none to enough."""
    folder = tmp_path / "disk/project"
    with small_disk(folder.parent, "8m") as mounted:
        if not mounted:
            pytest.skip("this user may not mount a file system")
        for pages in count(0, 3):
            shutil.copytree(voyage, folder)
            leave_room(folder.parent / "filler", pages)
            run = cli("--project", str(folder), *command.arguments)
            folder.with_name("filler").unlink()
            verify(command, voyage, folder, run)
            shutil.rmtree(folder)
            if (run.code, run.err) == (0, ""):
                assert pages > 0
                break


def leave_room(filler: Path, pages: int) -> None:
    with filler.open("wb", buffering=0) as file:
        with suppress(OSError):
            while file.write(b"x" * PAGE) == PAGE:
                pass
        file.truncate(max(0, file.tell() - pages * PAGE))
