"""Starting with what exists, on real files in a home of their own."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.app.clients.record import Json, Store, load_records, write_rows
from tests.conftest import OpenMemory
from tests.git_folders import run_git

from scrimshaw.app.cli.main import main
from scrimshaw.app.clients import all_clients
from scrimshaw.app.importing import find_sources, plan_import
from scrimshaw.engine import Engine, index, read
from scrimshaw.engine.drafts import TALK
from scrimshaw.engine.importers import ImportResult, import_session, read_session
from scrimshaw.ingest.events import StoredSession, Transcript
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EventKind, Observation, SessionState, content_hash
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.ports import Admission

SECRET = "ghp_" + "a1B2" * 9
DRAWN = "zq_live_" + "aB3dE6fG9hJ2kL5mN8pQ" + "r4T7"
START = 1_772_366_400.0  # 2026-03-01T12:00:00Z
DAY = 86_400.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's home, with nothing in it."""
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def session_rows(name: str, cwd: Path, at: float, topic: str = "till") -> list[Json]:
    """A session of Claude Code that asks, decides, fails, edits and commits; a row a second."""
    steps: list[tuple[str, Any, Json]] = [
        ("user", f"Make the receipt printer of the {topic} speak two languages, with gettext catalogues.", {}),
        (
            "assistant",
            f"I decided to use gettext catalogues for the receipt printer of the {topic}: people edit them by hand.",
            {},
        ),
    ]
    calls = [
        ("Read", {"file_path": f"src/{topic}.py"}, "def receipt(order):\n    return render(order)\n", False),
        (
            "Bash",
            {"command": f"make test-{topic}"},
            f"Exit code 2\nFAILED {topic}_test.py::test_receipt - KeyError",
            True,
        ),
        (
            "Edit",
            {"file_path": f"src/receipt_printer_{topic}.py", "old_string": "render(order)", "new_string": "_(order)"},
            "ok",
            False,
        ),
        ("Bash", {"command": f"make test-{topic}"}, "12 passed in 0.3s", False),
        (
            "Bash",
            {"command": f"git commit -m 'Print {topic} receipts in two languages'"},
            "[main 1a2b3c4] Print",
            False,
        ),
        ("Bash", {"command": "cat .env"}, f"GITHUB_TOKEN={SECRET}\n", False),
    ]
    for number, (tool, arguments, output, failed) in enumerate(calls):
        call_id = f"{name}-{number}"
        part = {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": failed}
        steps += [("assistant", [part], {}), ("user", [result], {})]
    steps.append(
        (
            "assistant",
            f"The receipt printer of the {topic} reads gettext catalogues. Next: translate the refund slip.",
            {},
        )
    )
    about = {"sessionId": name, "cwd": str(cwd), "isSidechain": False}
    return [
        {**about, "type": kind, "timestamp": _iso(at + number), "message": {"role": kind, "content": content}, **more}
        for number, (kind, content, more) in enumerate(steps)
    ]


def put_session(home: Path, cwd: Path, name: str, at: float = START, rows: list[Json] | None = None) -> Path:
    """A session where Claude Code keeps it."""
    encoded = "".join(char if char.isalnum() else "-" for char in str(cwd))
    file = home / ".claude/projects" / encoded / f"{name}.jsonl"
    write_rows(file, *(session_rows(name, cwd, at) if rows is None else rows))
    return file


def stored_sessions(project: Path, home: Path) -> list[StoredSession]:
    """The sessions of a project that all clients keep, oldest first."""
    found = [each for client in all_clients().values() for each in client.find_sessions(project, home)]
    return sorted(found, key=lambda stored: (stored.began, stored.place))


def take(engine: Engine, home: Path, source: str = "transcripts", **more: Any) -> list[ImportResult]:
    return list(plan_import(engine, source, home, **more)[1])


def statuses(taken: list[ImportResult]) -> list[str]:
    return [each.status for each in taken]


# Sessions


def test_a_session_is_recorded_as_hooks_would_have_and_becomes_a_memory(engine: Engine, home: Path) -> None:
    put_session(home, engine.settings.project, "s-1")
    (taken,) = take(engine, home)
    assert (taken.source, taken.status, taken.skipped, len(taken.memories)) == ("claude", "taken", 0, 1)
    events = engine.sessions.events("s-1")
    assert taken.events == len(events)
    assert [event.kind for event in events] == [
        EventKind.START,
        EventKind.PROMPT,
        EventKind.ANSWER,
        *[EventKind.TOOL] * 6,
        EventKind.ANSWER,
        EventKind.END,
    ]
    assert [event.failed for event in events if event.kind is EventKind.TOOL][:2] == [False, True]
    assert events[3].path == "src/till.py"
    assert [event.at - START for event in events] == [0, 0, 1, 3, 5, 7, 9, 11, 13, 14, 14]
    session = engine.sessions.get("s-1")
    assert session is not None
    assert (session.client, session.state, session.counter) == ("claude", SessionState.COMPLETED, 7)
    assert session.task.startswith("Make the receipt printer")
    assert (session.started, session.last_event) == (START, START + 14)
    assert {item.kind.value for item in engine.sessions.items("s-1")} >= {"error", "commit"}
    memory = engine.memory(taken.memories[0])
    assert (memory.provenance.session, memory.created[:10]) == ("s-1", "2026-03-01")


def test_an_old_session_is_found_by_a_search(engine: Engine, home: Path) -> None:
    put_session(home, engine.settings.project, "s-1", at=START - 300 * DAY)
    (taken,) = take(engine, home)
    assert len(taken.memories) == 1
    found = read.search(engine, SearchRequest(query="gettext catalogues"))
    assert [hit.memory.id for hit in found.hits] == list(taken.memories)


@pytest.mark.parametrize("name", ["s-1", f"s-{SECRET}", DRAWN])
def test_nothing_unredacted_reaches_the_disk(engine: Engine, home: Path, name: str) -> None:
    put_session(home, engine.settings.project, name)
    assert statuses(take(engine, home)) == ["taken"]
    assert statuses(take(engine, home)) == ["unchanged"]
    engine.close()
    for file in engine.settings.project.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert SECRET.encode() not in content, file
        assert DRAWN.encode() not in content, file


def test_a_second_import_changes_nothing(engine: Engine, home: Path) -> None:
    put_session(home, engine.settings.project, "s-1")
    first = take(engine, home)
    before = (engine.sessions.events("s-1"), engine.sessions.items("s-1"), engine.sessions.get("s-1"))
    assert statuses(take(engine, home)) == ["unchanged"]
    assert (engine.sessions.events("s-1"), engine.sessions.items("s-1"), engine.sessions.get("s-1")) == before
    assert statuses(first) == ["taken"]


def test_a_session_that_went_on_is_continued(engine: Engine, home: Path) -> None:
    rows = session_rows("s-1", engine.settings.project, START)
    put_session(home, engine.settings.project, "s-1", rows=rows[:8])
    take(engine, home)
    count = len(engine.sessions.events("s-1"))
    put_session(home, engine.settings.project, "s-1", rows=rows)
    (taken,) = take(engine, home)
    kept = engine.sessions.events("s-1")
    ids = [(event.kind, event.call_id) for event in kept]
    assert (taken.status, taken.events, len(ids)) == ("taken", len(kept) - count, len(set(ids)))
    assert sum(kind is EventKind.TOOL for kind, _ in ids) == 6


class Interrupted(Exception):
    """Stands for Ctrl-C or a kill."""


@pytest.mark.parametrize("after", range(1, 22, 3))
def test_an_interrupted_import_goes_on_and_ends_like_one_that_was_not(
    open_memory: OpenMemory, home: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_memory("[features]\ndrafts = false\n")
    for number in range(2):
        put_session(home, engine.settings.project, f"s-{number}", START + number * DAY)
    observe, calls = type(engine.sessions).observe, iter(range(1000))

    def cut(*arguments: Any, **named: Any) -> bool:
        if next(calls) == after:
            raise Interrupted
        return observe(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(type(engine.sessions), "observe", cut)
        with pytest.raises(Interrupted):
            take(engine, home)
    assert sum(len(engine.sessions.events(f"s-{number}")) for number in range(2)) == after
    take(engine, home)
    for number in range(2):
        name = f"s-{number}"
        assert len(engine.sessions.events(name)) == 11
        session = engine.sessions.get(name)
        assert session is not None
        assert (session.state, session.counter) == (SessionState.COMPLETED, 7)
    assert set(statuses(take(engine, home))) == {"unchanged"}


def test_sessions_go_on_from_the_one_before_and_never_from_a_later_one(engine: Engine, home: Path) -> None:
    now = START + 30 * DAY
    engine.sessions.open("live", client="claude", process=7, now=now)
    for name, at in (("a", START + DAY), ("b", START)):
        put_session(home, engine.settings.project, name, at)
    take(engine, home)
    found = {name: engine.sessions.get(name) for name in ("b", "a", "live")}
    assert [each.continues if each else None for each in found.values()] == ["", "b", ""]
    assert [each.id for each in engine.sessions.latest(limit=3)] == ["live", "a", "b"]
    assert engine.sessions.open("next", now=now + 1).continues == "live"


def test_what_hooks_recorded_is_left_alone(engine: Engine, home: Path) -> None:
    begun = Observation(session="s-1", kind=EventKind.START, text=redact(""), client="claude", call_id="of a hook")
    engine.sessions.observe(begun, lambda held, new, counter: Admission(admitted=True), now=START, modulus=100)
    put_session(home, engine.settings.project, "s-1")
    for dry_run in (True, False):
        (taken,) = take(engine, home, dry_run=dry_run)
        assert (taken.status, taken.events) == ("left", 0)
        assert "hooks" in taken.reasons[0]
    assert len(engine.sessions.events("s-1")) == 1


def test_a_session_without_calls_is_left(engine: Engine, home: Path) -> None:
    rows = session_rows("s-1", engine.settings.project, START)[:2]
    put_session(home, engine.settings.project, "s-1", rows=rows)
    (taken,) = take(engine, home)
    assert (taken.status, taken.reasons) == ("left", (TALK,))
    assert engine.sessions.get("s-1") is None


def test_what_cannot_be_read_is_not_called_talk(engine: Engine, home: Path) -> None:
    put_session(home, engine.settings.project, "s-1").write_text("no JSON at all\n")
    assert [each.reasons for each in take(engine, home)] == [("it holds no prompt and no answer",)]


def test_a_dry_run_writes_nothing(engine: Engine, home: Path) -> None:
    put_session(home, engine.settings.project, "s-1")
    (found,) = take(engine, home, dry_run=True)
    assert engine.sessions.latest(limit=9) == []
    (taken,) = take(engine, home)
    assert (found.status, found.events) == ("found", taken.events)
    assert statuses(take(engine, home, dry_run=True)) == ["unchanged"]


def test_a_dry_run_counts_only_the_new_events_of_a_session_that_went_on(engine: Engine, home: Path) -> None:
    project = engine.settings.project
    rows = session_rows("s-1", project, START)
    put_session(home, project, "s-1", rows=[*rows[:-1], rows[1]])
    (dry,), (real,) = take(engine, home, dry_run=True), take(engine, home)
    assert dry.events == real.events
    put_session(home, project, "s-1", rows=rows)
    (dry,), (real,) = take(engine, home, dry_run=True), take(engine, home)
    assert dry.events == real.events


def test_the_calls_of_sub_agents_count_to_their_session(engine: Engine, home: Path) -> None:
    project = engine.settings.project
    rows = session_rows("s-1", project, START)
    main = put_session(home, project, "s-1", rows=rows)
    below = main.with_suffix("") / "subagents" / "agent-a1.jsonl"
    below.parent.mkdir(parents=True)
    side = [{**row, "isSidechain": True, "agentId": "a1"} for row in session_rows("s-1", project, START + 2.5, "safe")]
    text = "".join(msgspec.json.encode(row).decode() + "\n" for row in side).replace("s-1-", "a1-")
    below.write_text(text, encoding="utf-8")
    (stored,) = stored_sessions(project, home)
    assert (stored.place, len(stored.read_texts())) == (str(main), 2)
    transcript, _ = read_session(stored)
    assert [event.at for event in transcript.events] == sorted(event.at for event in transcript.events)
    take(engine, home)
    events = engine.sessions.events("s-1")
    assert sum(event.kind is EventKind.TOOL for event in events) == 12
    assert sum(event.kind is EventKind.PROMPT for event in events) == 1


def test_a_parser_that_reads_more_of_the_same_file_adds_nothing_behind_its_end(engine: Engine, home: Path) -> None:
    put_session(home, engine.settings.project, "s-1")
    (stored,) = stored_sessions(engine.settings.project, home)

    def parse_less(text: str) -> Transcript:
        whole = stored.parse(text)
        return replace(whole, events=whole.events[1:])

    assert import_session(engine, replace(stored, parse=parse_less), ()).status == "taken"
    again = import_session(engine, stored, ())
    assert (again.status, again.events) == ("unchanged", 0)


def test_an_import_is_done_piece_by_piece(engine: Engine, home: Path) -> None:
    """Whoever stops asking stops the work."""
    for number in range(3):
        put_session(home, engine.settings.project, f"s-{number}", START + number * DAY)
    work = plan_import(engine, "transcripts", home)[1]
    assert len(list(islice(work, 1))) == 1
    assert [each.id for each in engine.sessions.latest(limit=9)] == ["s-0"]


def test_the_index_needs_no_scan_afterwards(engine: Engine, home: Path) -> None:
    put_session(home, engine.settings.project, "s-1")
    take(engine, home)
    report = index.scan(engine)
    assert (report.added, report.updated, report.removed) == (0, 0, 0)


# Which transcripts belong to a project


def test_only_sessions_of_this_project_and_its_folders_are_taken(engine: Engine, home: Path) -> None:
    project = engine.settings.project
    (project / "web").mkdir()
    for number, cwd in enumerate((project, project / "web", project.parent / "project-2", project.parent)):
        put_session(home, cwd, f"s-{number}", START + number)
    assert [each.session for each in stored_sessions(project, home)] == ["s-0", "s-1"]


_STORES = [(client, store) for client, record in load_records().items() for store in record.stores]


@pytest.mark.parametrize(("client", "store"), _STORES)
def test_every_client_is_read_where_it_keeps_its_sessions(
    engine: Engine, home: Path, client: str, store: Store
) -> None:
    store.lay_out(home, engine.settings.project)
    taken = take(engine, home)
    assert {(each.source, each.status) for each in taken} == {(client, "taken")}
    assert sorted(each.id for each in engine.sessions.latest(limit=9)) == store.sessions
    events = [event for name in store.sessions for event in engine.sessions.events(name)]
    assert sum(event.kind is EventKind.TOOL for event in events) == store.calls
    assert set(statuses(take(engine, home, client))) == {"unchanged"}


def test_a_damaged_database_of_a_client_is_told_and_hides_no_other(engine: Engine, home: Path) -> None:
    database = home / ".local/share/opencode/opencode.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"no database at all" * 300)
    put_session(home, engine.settings.project, "s-1")
    taken = take(engine, home)
    assert sorted((each.source, each.status) for each in taken) == [("claude", "taken"), ("opencode", "left")]
    assert [each.kind for each in find_sources(engine, home)] == ["claude"]


def test_a_file_by_name_is_taken_wherever_it_ran(engine: Engine, home: Path, tmp_path: Path) -> None:
    file = put_session(home, tmp_path / "elsewhere", "s-1")
    assert take(engine, home) == []
    assert statuses(take(engine, home, "claude", path=file)) == ["taken"]


def test_of_a_folder_only_the_sessions_of_this_repository_are_taken(engine: Engine, home: Path, tmp_path: Path) -> None:
    project, tree = engine.settings.project, tmp_path / "tree"
    run_git(project, "init", "-q")
    run_git(project, "commit", "-q", "--allow-empty", "-m", "Begin")
    run_git(project, "worktree", "add", "-q", str(tree))
    for name, cwd in {"s-1": project / "src", "s-2": tree, "s-3": tmp_path / "other", "s-4": Path("C:/other")}.items():
        put_session(home, cwd, name)
    folder = home / ".claude/projects"
    left, *taken = take(engine, home, "claude", path=folder)
    assert (left.status, left.reasons) == ("left", ("sessions of other projects (--all-projects takes them too): 2",))
    assert sorted(each.id for each in engine.sessions.latest(limit=9)) == ["s-1", "s-2"]
    assert len(taken) == 2
    assert statuses(take(engine, home, "claude", path=folder, all_projects=True)).count("taken") == 2


def test_a_folder_of_gemini_is_judged_by_the_hash_of_a_path(engine: Engine, home: Path, tmp_path: Path) -> None:
    for number, place in enumerate((engine.settings.project, tmp_path / "other")):
        about = {"sessionId": f"s-{number}", "projectHash": content_hash(str(place).encode()), "startTime": _iso(START)}
        write_rows(home / f".gemini/tmp/{number}/chats/session-{number}.jsonl", about)
    found = take(engine, home, "gemini", path=home / ".gemini/tmp", dry_run=True)
    assert [each.place.endswith("session-0.jsonl") for each in found] == [False, True]


def test_what_ran_while_recording_was_paused_is_left_out(engine: Engine, home: Path) -> None:
    project, now = engine.settings.project, time.time()
    for name, age in {"s-before": 900, "s-both": 110, "s-in": 60}.items():
        put_session(home, project, name, now - age)
    assert main(["capture", "pause", "--project", str(project)]) == 0
    os.utime(project / ".scrimshaw/capture.paused", (now - 100, now - 100))
    assert ("left", ("its recording was paused",)) in [(each.status, each.reasons) for each in take(engine, home)]
    for act in ("pause", "resume"):
        assert main(["capture", act, "--project", str(project)]) == 0
    taken = take(engine, home)
    assert [(each.status, each.reasons) for each in taken][2:] == [("left", ("its recording was paused",))]
    known = [event for name in ("s-before", "s-both", "s-in") for event in engine.sessions.events(name)]
    assert sorted({each.session for each in known}) == ["s-before", "s-both"]
    assert not any("refund" in each.text for each in engine.sessions.events("s-both"))
    assert max(each.at for each in known) < now - 100
