"""What each page of the dashboard costs in a large memory: milliseconds of processor time, children's included.

    python -m benchmarks.dashboard [--memories 5000 50000] [--sessions 200]

Each memory is a note of some 1,500 characters that links to others, in a git repository; 2,000 link to the first. No
vectors are made. Each page is asked for once before it is measured, as the files of a system in use are in its cache,
and a second passes between two pages, so that the files are looked at again. A page has 300 ms with 5,000 notes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

from starlette.testclient import TestClient

from benchmarks.figures import machine
from scrimshaw.app.web.report import export_html
from scrimshaw.app.web.server import HOST, Access, build_app
from scrimshaw.config import load
from scrimshaw.engine import Engine, open_engine
from scrimshaw.engine.index import scan
from scrimshaw.engine.sessions import record_event
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EventKind, Injected, Observation

LIMIT_MS, LIMITED = 300.0, 5_000
ROUNDS, NEIGHBOURS, EVENTS = 3, 2_000, 60
READ_S = 1.1
SYLLABLES = ("ba", "cor", "di", "fen", "gu", "hal", "jo", "lim", "mar", "pe", "qui", "ros", "sta", "tun", "wex", "zi")
WORDS = [
    f"{one}{two}{three}" for one in ("ka", "me", "so", "tri", "vul", "nor") for two in SYLLABLES for three in SYLLABLES
]
# As in any language, few words are most of a text.
RARITY = [1 / (place + 3) for place in range(len(WORDS))]
PAGES = (
    "/",
    "/?q=why+does+mecorlim+wait+for+the+sodifen",
    "/memory/notes/0",
    "/memory/notes/77",
    "/graph",
    "/graph/notes/0",
    "/graph/notes/77",
    "/sessions",
    "/sessions/S7",
    "/drafts",
    "/health",
    "/stats",
    "/quality",
    "/quality?days=90",
    "/stats?usage=1",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.dashboard", description=__doc__)
    parser.add_argument("--memories", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--sessions", type=int, default=200)
    given = parser.parse_args(arguments)
    print(machine())
    for count in given.memories:
        with TemporaryDirectory(prefix="scrimshaw-bench-") as folder:
            project = Path(folder) / "project"
            os.environ["SCRIMSHAW_HOME"] = str(Path(folder) / "home")
            write_notes(project, count)
            with open_engine(load(project)) as engine:
                began = read_cpu_ms()
                scan(engine)
                print(f"{count} notes, read in {(read_cpu_ms() - began) / 1000:.1f} s of processor time")
                record_sessions(engine, given.sessions)
                measure_pages(engine, count)


def write_notes(project: Path, count: int) -> None:
    """Write notes with links, as one commit."""
    draw = Random(1)
    for number in range(count):
        folder = project / ".scrimshaw/memories/notes"
        folder.mkdir(parents=True, exist_ok=True)
        sentences = (f"The {' '.join(draw.choices(WORDS, RARITY, k=9))} of {draw.randrange(count)}." for _ in range(20))
        links = [draw.randrange(count), draw.randrange(count), *([0] if 0 < number <= NEIGHBOURS else [])]
        title, phrase = (" ".join(draw.choices(WORDS, RARITY, k=size)) for size in (5, 2))
        head = f"---\ntitle: {title}\ntrigger_phrases: [{phrase}]\n"
        head += f"relations: {{supports: [notes/{draw.randrange(count)}]}}\n---\n"
        body = "\n\n".join((*sentences, " ".join(f"[[notes/{link}]]" for link in links)))
        (folder / f"{number}.md").write_text(f"{head}\n{body}\n")
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm notes"):
        subprocess.run(["git", *command.split()], cwd=project, check=True)


def record_sessions(engine: Engine, count: int) -> None:
    """Sessions of some events, each told something at its start."""
    for number in range(count):
        name, at = f"S{number}", engine.clock() - 3600 * (count - number)
        kinds = [EventKind.START, EventKind.PROMPT, *[EventKind.TOOL] * (EVENTS - 3), EventKind.STOP]
        for place, kind in enumerate(kinds):
            text = redact(
                f"make {WORDS[place % len(WORDS)]} {number}\nI decided to use note {place}, because it waits."
            )
            told = Injected(session=name, occasion="start", tokens=700, hits=9, at=at) if place == 0 else None
            call = Observation(
                session=name, kind=kind, text=text, tool="Bash", call_id=f"{name}/{place}", injected=told
            )
            record_event(engine, call, at=at + place)


def measure_pages(engine: Engine, count: int) -> None:
    """Ask for each page and print what it took."""
    access = Access(port=80, token="token")
    browser = TestClient(build_app(engine, access), base_url=f"http://{HOST}:80", headers={"Host": f"{HOST}:80"})
    browser.get("/?token=token")
    for page in PAGES:
        answer, spent = browser.get(page), list[float]()
        for _ in range(ROUNDS):
            time.sleep(READ_S)
            began = read_cpu_ms()
            browser.get(page)
            spent.append(read_cpu_ms() - began)
        print_line(page, median(spent), f"{len(answer.content) / 1000:7.0f} KB, {answer.status_code}", count)
    with TemporaryDirectory() as folder:
        began = read_cpu_ms()
        export_html(engine, Path(folder) / "all.html", with_private=False)
        size = (Path(folder) / "all.html").stat().st_size
        print(f"  export --html: {(read_cpu_ms() - began) / 1000:.1f} s of processor time, {size / 1e6:.1f} MB")


def print_line(page: str, ms: float, size: str, count: int) -> None:
    """One page beside its limit."""
    verdict = "TOO MUCH" if count <= LIMITED and ms > LIMIT_MS else ""
    print(f"  {page:<46}{ms:8.0f} ms{size:>18}  {verdict}")


def read_cpu_ms() -> float:
    """Processor time of this process and of those that it waited for."""
    return 1000 * sum(os.times()[:4])


if __name__ == "__main__":
    main()
