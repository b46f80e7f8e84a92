"""Ingest rate, and how long a save takes while vectors are being made."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import bare
from benchmarks.corpus import Texts, made_up
from benchmarks.figures import Figure, figure, interleave, milliseconds
from scrimshaw.engine import Engine, index, write


def ingest_rate(engine: Engine, project: Path, count: int) -> Figure:
    """Files per second of a first scan, all text redacted, parsed, cut into chunks and indexed; no vectors."""
    files = sorted((project / ".scrimshaw" / "memories").rglob("*.md"))
    theirs = milliseconds(lambda: bare.ingest(files, project / "bare-ingest.db"))
    ours = milliseconds(lambda: index.scan(engine))
    rates = [count / ours * 1000], [count / theirs * 1000]
    return figure("ingest", count, "files/s", *rates, note="read, hash and FTS5, one transaction")


def save_latency(engine: Engine, texts: Texts, project: Path, count: int, saves: int) -> Figure:
    """Milliseconds of a durable save that is found at once, against a bare durable write, vectors being made."""
    chance = random.Random(3)
    new = [(f"saved-{number}", made_up(texts, chance, number)) for number in range(saves)]
    writer = bare.BareWriter(project / "bare-vault")

    def ours(item: tuple[str, str]) -> None:
        write.save(engine, write.NewText(content=item[1], id=item[0]), force=True)

    with embedding(engine):
        times = interleave(new, ours, lambda item: writer.save(*item))
    note = "file, fsync, rename, fsync folder, row committed with synchronous=FULL; both beside an embedding thread"
    return figure("save", count, "ms", *times, note=note)


@contextmanager
def embedding(engine: Engine) -> Iterator[None]:
    """Makes vectors in another thread for as long as the block lasts."""
    stop = threading.Event()

    def work() -> None:
        index.embed_pending(engine, lambda done, total: not stop.is_set())

    thread = threading.Thread(target=work, name="embedding")
    thread.start()
    try:
        yield
        if not thread.is_alive():
            raise SystemExit("All vectors were made before the saves were: use more memories or fewer saves.")
    finally:
        stop.set()
        thread.join()


def database_size(engine: Engine, count: int, text_bytes: int) -> Figure:
    """Megabytes of the index, vectors included, beside the Markdown it was made from."""
    ours, theirs = engine.maintenance.size_bytes("index") / 1e6, text_bytes / 1e6
    return figure("index on disk", count, "MB", [ours], [theirs], note="the Markdown files")
