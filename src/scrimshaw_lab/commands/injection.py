"""The command that measures the defence against poisoned texts: eval injection."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import line, show
from scrimshaw.app.hooks import fencing
from scrimshaw.errors import InvalidRequest, describe_os_error
from scrimshaw.models import Trust
from scrimshaw.session.resume import Occasion, StateLine
from scrimshaw_lab.injection import InjectionReport, Sample, evaluate_injection
from scrimshaw_lab.redaction import Rate

app = typer.Typer()

# The fields that hold the document in known sets; the first one present counts.
FIELDS = ("injected", "text", "prompt", "attack", "content", "output")
# Sets mark what is no attack: a benign control among the attacks is measured as benign.
_CONTROL = "control"


@app.command("injection", epilog=example("scrimshaw eval injection --attacks attacks.jsonl --benign docs"))
def evaluate(
    attacks: Annotated[list[Path], typer.Option(exists=True, help="Attacks: a file or a folder (repeatable).")],
    benign: Annotated[
        list[Path] | None, typer.Option(exists=True, help="Real texts: a file or a folder (repeatable).")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure how much text that speaks to an agent is flagged, and whether the fence holds all of it."""
    bad = [(control, sample) for path in attacks for control, sample in _samples(path)]
    good = [sample for path in benign or () for _, sample in _samples(path)]
    good += [sample for control, sample in bad if control]
    report = evaluate_injection([sample for control, sample in bad if not control], good, fencing.FENCE, WAYS_IN)
    show(report, as_json, _render)


def _in_state(text: str) -> str:
    line_of_state = StateLine(part="decisions", text=text, origin="session:s/1", trust=Trust.TOOL)
    return fencing.fence_state([line_of_state], Occasion.START)


def _in_recall(text: str) -> str:
    return fencing.fence_list("Notes.", [text])


def _in_answer(text: str) -> str:
    return fencing.fence("Trust web.", text)


WAYS_IN = (_in_state, _in_recall, _in_answer)


def _samples(path: Path) -> Iterator[tuple[bool, Sample]]:
    """The documents of a file, or of a folder's files, and whether each is a control."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    for file in files:
        for control, text in _texts(file):
            if text.strip():
                yield control, Sample(path.name, text)


def _texts(file: Path) -> Iterator[tuple[bool, str]]:
    try:
        raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        name = file.name.removesuffix(".gz")
        if name.endswith(".jsonl"):
            yield from (_document(msgspec.json.decode(each)) for each in raw.splitlines() if each.strip())
        elif name.endswith(".json"):
            found = msgspec.json.decode(raw)
            yield from map(_document, found if isinstance(found, list) else [found])
        elif name.endswith((".md", ".txt")):
            yield False, raw.decode(errors="replace")
    except (OSError, EOFError, zlib.error, msgspec.DecodeError) as error:
        raise InvalidRequest(
            f"{file} cannot be read: {describe_os_error(error)}.", "Name .jsonl, .json, .md or .txt files."
        ) from error


def _document(value: Any) -> tuple[bool, str]:
    if isinstance(value, str):
        return False, value
    fields = value if isinstance(value, dict) else {}
    text = next((fields[name] for name in FIELDS if isinstance(fields.get(name), str)), "")
    return fields.get("family") == _CONTROL, text


def _render(console: Console, report: InjectionReport) -> None:
    console.print(f"attacks flagged: {_share(report.flagged)}")
    console.print(f"  tuned on: {_share(report.flagged_tuned)}; held out: {_share(report.flagged_held_out)}")
    console.print(f"attacks kept in the fence: {_share(report.fenced)}; forged marks that got through: {report.broken}")
    console.print(f"real texts flagged: {_share(report.false_flags)}")
    console.print(f"time for 10 KB: median {report.p50_ms:.2f} ms, 95 % within {report.p95_ms:.2f} ms")
    for title, rates in (("Attacks", report.attacks_by_source), ("Real texts", report.benign_by_source)):
        console.print(line((f"\n{title} flagged", "bold")))
        for name, rate in rates.items():
            console.print(f"{rate.hit:>6} of {rate.total:<6}{rate.value:7.1%}  {name}")


def _share(rate: Rate) -> str:
    return f"{rate.value:.1%} of {rate.total}"
