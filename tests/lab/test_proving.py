"""The proof of durability: clean for this build, and never for builds that are broken on purpose."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.lab.broken_writer import BREAKS

from scrimshaw.app.cli.main import main
from scrimshaw.models import content_hash
from scrimshaw_lab.commands import prove as cli
from scrimshaw_lab.proving.faults import Happened, Unforced, unforced
from scrimshaw_lab.proving.plan import (
    BEFORE_FSYNC,
    PASSAGES,
    Ack,
    Fault,
    Intent,
    Operation,
    Round,
    line,
    message,
    planned,
)
from scrimshaw_lab.proving.proof import DURABLE, Report, new_project, play, prove
from scrimshaw_lab.proving.verification import Kind, Step, expectations
from scrimshaw_lab.proving.writer import body_hash

pytestmark = pytest.mark.slow

WRITER = Path(__file__).with_name("broken_writer.py")
FOUND_BY = {
    "file_not_forced": {"acknowledged_lost", "corrupt_files"},
    "names_not_forced": {"acknowledged_lost", "ledger_breaks"},
    "written_in_place": {"corrupt_files"},
    "journal_before_file": {"ledger_breaks"},
    "answer_before_commit": {"acknowledged_lost"},
    "index_has_the_last_word": {"acknowledged_lost", "corrupt_files"},
}
# These show under few faults; of 25 rounds only theirs are played.
FOUND_UNDER = {
    "put_back_by_writing": {Fault.DISK_FULL, Fault.FULL_AT_A_STEP},
    "moves_not_seen": {Fault.GROUND_MOVED},
}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the proof makes its folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def broken(what: str, seed: int = 1) -> Report:
    return prove(rounds=25, seed=seed, most_failures=1, command=(sys.executable, str(WRITER), what))


def test_every_broken_build_is_examined() -> None:
    assert sorted([*FOUND_BY, *FOUND_UNDER]) == sorted(BREAKS)


@pytest.mark.parametrize("what", FOUND_BY)
def test_a_broken_build_is_found_out(what: str) -> None:
    # Writers are killed at random: the first failure may be another, and on a busy machine there may be none.
    reports = (broken(what, seed) for seed in range(1, 7))
    assert any(getattr(report, name) for report in reports for name in FOUND_BY[what])


@pytest.mark.parametrize("what", FOUND_UNDER)
def test_a_build_that_breaks_under_a_fault_is_found_out(scratch: Path, what: str) -> None:
    project, command = new_project(scratch, 0), (sys.executable, str(WRITER), what)
    plans = (planned(seed, number) for seed in range(1, 7) for number in range(25))
    rounds = (play(project, plan, 1, command) for plan in plans if plan.fault in FOUND_UNDER[what])
    assert any(finding.kind == Kind.LOST for played in rounds for finding in played.findings)


@pytest.mark.parametrize("number", [0, 1])
def test_a_ground_that_moves_loses_nothing(scratch: Path, number: int) -> None:
    project = new_project(scratch, number)
    plan = Round(number=0, fault=Fault.GROUND_MOVED, operations=20)
    cases = enumerate(product(PASSAGES, (1, 4, 9)))
    played = [play(project, replace(plan, number=n, point=point, passage=at), 1) for n, (point, at) in cases]
    assert [each.findings for each in played if each.findings] == []
    assert sum(each.refused for each in played) > 20


def test_a_kill_in_the_middle_of_a_write_in_place_is_seen(scratch: Path) -> None:
    project, command = new_project(scratch, 0), (sys.executable, str(WRITER), "written_in_place")
    plan = Round(number=0, fault=Fault.NONE, operations=40, point=BEFORE_FSYNC)
    played = [play(project, replace(plan, number=passage, passage=passage), 1, command) for passage in range(1, 8)]
    assert {each.point for each in played} == {BEFORE_FSYNC}
    assert Kind.CORRUPT in {finding.kind for each in played for finding in each.findings}


def test_this_build_is_clean(scratch: Path) -> None:
    report = prove(rounds=20, seed=3)
    assert report.is_clean, report.failures
    assert report.rounds == 20
    assert report.durable_settings == DURABLE
    assert report.acknowledged > 100
    assert report.refused > 0
    assert report.lost_to_power > 0
    assert sum(report.faults.values()) == 20
    assert set(report.kill_points) <= set(PASSAGES)
    assert sum(report.kill_points.values()) >= 5
    assert list(scratch.iterdir()) == []


def test_the_command_prints_a_report(scratch: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--rounds", "1", "--seed", "4", "--json", "--keep"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert (report["rounds"], report["seed"], report["acknowledged_lost"]) == (1, 4, 0)
    assert {"kill_points", "faults", "machine", "seconds"} <= set(report)
    assert (Path(report["folder"]) / "project-0/.scrimshaw/journal.db").exists()


def test_the_command_tells_how_to_repeat_a_loss(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lost = partial(prove, most_failures=1, command=(sys.executable, str(WRITER), "answer_before_commit"))
    monkeypatch.setattr(cli, "prove", lost)
    assert main(["prove", "--rounds", "25", "--seed", "1"]) == 1
    printed = capfd.readouterr().out
    assert "A check failed." in printed
    (number,) = re.findall(r"repeat: scrimshaw prove --seed 1 --round (\d+)", printed)
    assert planned(1, int(number)) == planned(1, int(number))


def test_a_round_can_be_repeated_with_those_before_it() -> None:
    seen: list[int] = []
    report = prove(rounds=1, seed=6, only=26, progress=lambda done, total, played: seen.append(played.plan.number))
    assert (seen, report.rounds) == ([25, 26], 2)


def test_plans_differ_and_repeat() -> None:
    plans = [planned(1, number) for number in range(100)]
    assert plans == [planned(1, number) for number in range(100)]
    assert plans != [planned(2, number) for number in range(100)]
    assert {plan.fault for plan in plans} == set(Fault)
    assert {plan.point for plan in plans} == {"", *PASSAGES}
    assert [plan.number for plan in plans if plan.writers == 8] == [12, 37, 62, 87]


NEW, AGAIN = Happened("written", "/v/t"), Happened("written", "/v/a", held=b"old")
RENAMED = Happened("renamed", "/v/a", source="/v/t", held=b"old", moved=b"new")
FORCED, NAMES = Happened("forced", "/v/t"), Happened("forced_names", "/v")
UNFORCED: dict[str, tuple[list[Happened], Unforced]] = {
    "a new file": ([NEW], Unforced(files={"/v/t"}, names={"/v/t": None})),
    "a new file, forced": ([NEW, FORCED], Unforced(names={"/v/t": None})),
    "bytes in place": ([AGAIN], Unforced(files={"/v/a"})),
    "a save without its folder": ([NEW, FORCED, RENAMED], Unforced(names={"/v/a": b"old", "/v/t": None})),
    "a save without its bytes": ([NEW, RENAMED, NAMES], Unforced(files={"/v/a"})),
    "a whole save": ([NEW, FORCED, RENAMED, NAMES], Unforced()),
    "a rename alone": ([RENAMED], Unforced(names={"/v/a": b"old", "/v/t": b"new"})),
    "the names of another folder": (
        [RENAMED, Happened("forced_names", "/w")],
        Unforced(names={"/v/a": b"old", "/v/t": b"new"}),
    ),
    "two saves": (
        [RENAMED, NAMES, Happened("renamed", "/v/a", source="/v/u", held=b"new", moved=b"newer")],
        Unforced(names={"/v/a": b"new", "/v/u": b"newer"}),
    ),
    "a removal": ([Happened("removed", "/v/a", held=b"old")], Unforced(names={"/v/a": b"old"})),
    "a folder": ([Happened("made", "/v/f")], Unforced(folders={"/v/f"})),
}


@pytest.mark.parametrize(("steps", "left"), UNFORCED.values(), ids=UNFORCED)
def test_what_a_power_loss_takes(steps: list[Happened], left: Unforced) -> None:
    assert unforced(steps, names_are_safe=False) == left


def test_names_are_safe_where_a_rename_is_written_through() -> None:
    steps = [Happened("renamed", "/v/a", source="/v/t", held=b"old"), Happened("made", "/v/f")]
    assert unforced(steps, names_are_safe=True) == Unforced()


def a_file(token: str, body: str) -> bytes:
    return f"---\ntitle: x\n---\n{body} {token}\n".encode()


def step(token: str, raw: bytes, *, place: int, writer: int = 0, number: int = 0) -> Step:
    """A save of a file, acknowledged as row `number` if that is given."""
    body = raw.decode().partition("\n---\n")[2]
    ack = Ack(token=token, hash=content_hash(raw), number=number) if number else None
    intent = Intent(token=token, operation=Operation.SAVE, id="m", body=body_hash(body))
    return Step(writer=writer, place=place, intent=intent, answer=ack)


OLD, ONE, TWO = a_file("t0", "old"), a_file("t1", "one"), a_file("t2", "two")
ALLOWED = {
    "nothing happened": ([], [OLD]),
    "acknowledged": ([step("t1", ONE, place=0, number=7)], [ONE]),
    "announced": ([step("t1", ONE, place=0)], [OLD, ONE]),
    "announced after": ([step("t1", ONE, place=0, number=7), step("t2", TWO, place=1)], [ONE, TWO]),
    "announced before": ([step("t2", TWO, place=0), step("t1", ONE, place=1, number=7)], [ONE]),
    "announced by another": ([step("t2", TWO, place=0, writer=1), step("t1", ONE, place=1, number=7)], [ONE, TWO]),
    "the later row": ([step("t2", TWO, place=0, number=8), step("t1", ONE, place=0, writer=1, number=7)], [TWO]),
}


@pytest.mark.parametrize(("taken", "allowed"), ALLOWED.values(), ids=ALLOWED)
def test_what_a_file_may_be(taken: list[Step], allowed: list[bytes]) -> None:
    expected = expectations({"m": content_hash(OLD)}, taken)["m"]
    assert [raw for raw in (OLD, ONE, TWO) if expected.allows(raw)] == allowed
    assert not expected.allows(None)
    assert not expected.allows(allowed[-1][:-3])


def test_a_line_that_was_cut_off_acknowledges_nothing() -> None:
    ack = Ack(token="t1", hash="ab", number=1)
    assert message(line(ack) + "\n") == ack
    assert message(line(ack)) is None


@pytest.mark.parametrize(("is_forced", "pending"), [(True, set()), (False, {"/p/x/a.md"})])
def test_a_folder_whose_removal_is_safe_takes_its_names_along(is_forced: bool, pending: set[str]) -> None:
    removal = [Happened("removed", "/p/x/a.md", held=b"old"), Happened("emptied", "/p/x")]
    forced = [Happened("forced_names", "/p")] if is_forced else []
    again = [Happened("made", "/p/x")]
    assert unforced([*removal, *forced, *again], names_are_safe=False).names.keys() == pending
