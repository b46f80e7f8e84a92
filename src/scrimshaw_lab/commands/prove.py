"""The command that proves durability on the user's machine: prove."""

import secrets
from typing import Annotated

import typer

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example
from scrimshaw.app.cli.output import Lines, line, progress, show
from scrimshaw_lab.proving.proof import DURABLE, Report, prove

app = typer.Typer(add_completion=False)

_DEFAULT_ROUNDS = 100
_SEEDS = 10_000


@app.command("prove", epilog=example("scrimshaw prove --rounds 50", "scrimshaw prove --seed 7 --round 31"))
def prove_durability(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, of about a second each.")] = _DEFAULT_ROUNDS,
    minutes: Annotated[float | None, typer.Option(min=0.01, help="Stop after this many minutes.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of another proof, to repeat it.")] = None,
    only: Annotated[
        int | None, typer.Option("--round", min=0, help="Repeat this round, after the earlier ones of its project.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the scratch folder in any case.")] = False,
    as_json: frame.AsJson = False,
) -> None:
    """Kill real writers, and count the acknowledged writes lost.

    Also breaks their disk, clock and index. Works in a scratch folder; your own memory is not touched.
    """
    with progress("Rounds") as advance:
        report = prove(
            rounds=rounds,
            seed=secrets.randbelow(_SEEDS) if seed is None else seed,
            seconds=None if minutes is None else minutes * 60,
            only=only,
            keep=keep,
            progress=lambda done, total, played: advance(done, total),
        )
    show(report, as_json, _render)
    if not report.is_clean:
        raise typer.Exit(1)


def _render(report: Report) -> Lines:
    verdict = ("Nothing acknowledged was lost.", "green") if report.is_clean else ("A check failed.", "bold red")
    yield line(verdict, f"  {report.rounds} rounds in {report.seconds:.0f} s, seed {report.seed}.")
    yield from (f"{text:<36}{count:>8}" for text, count in _counts(report).items())
    for title, counts in (("Killed at", report.kill_points), ("Rounds with", report.faults)):
        yield f"{title}: {', '.join(f'{name} {count}' for name, count in counts.items()) or 'nothing'}"
    if report.durable_settings != DURABLE:
        yield line((f"The durable database runs with {report.durable_settings}, not {DURABLE}.", "red"))
    for failure in report.failures:
        yield line((f"Round {failure.round} ({failure.fault}):", "red"))
        yield from (f"  {finding}" for finding in failure.findings)
        yield line((f"  repeat: scrimshaw prove --seed {report.seed} --round {failure.round}", "dim"))
        yield line((f"  folder: {failure.folder}", "dim"))
    if report.folder:
        yield line((f"Folder: {report.folder}", "dim"))


def _counts(report: Report) -> dict[str, int]:
    return {
        "writes acknowledged": report.acknowledged,
        "acknowledged writes lost": report.acknowledged_lost,
        "corrupt files": report.corrupt_files,
        "differences of index and files": report.index_differences,
        "breaks of the ledger": report.ledger_breaks,
        "other failures": report.other_failures,
        "errors under a fault": report.refused,
        "files undone by power losses": report.lost_to_power,
        "rounds without acknowledgement": report.rounds_without_acknowledgement,
    }
