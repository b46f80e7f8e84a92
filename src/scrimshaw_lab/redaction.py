"""Measures the redaction gate on labelled texts: how much it removes of secrets, and of texts without one."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example, settings_of
from scrimshaw.app.cli.output import Lines, line, note, show
from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.redact import TOKENS, redact
from scrimshaw.ingest.secret_values import TABLE
from scrimshaw.models import Redacted
from scrimshaw_lab import calibration, targets
from scrimshaw_lab.labelled import LabelledText, RecordedCall, lines_of
from scrimshaw_lab.metrics import PERSONAL_CLASSES, Rate, count_hits, group_hits
from scrimshaw_lab.secret_forms import evaluate_forms, render_forms

app = typer.Typer()

Redact = Callable[[str], Redacted]
FEWEST_OUTPUTS = 50  # real shell outputs; of fewer a rate of false positives says little


class RedactionFigures(Struct, frozen=True, kw_only=True):
    """What the gate removed, shares 0..1: of secret and of benign texts, also by their source and class.

    `outputs_touched` and `tokens_removed` are shares of real outputs without secrets, None if none were given.
    """

    recall: float
    false_positive_rate: float
    secrets: int
    benign: int
    outputs: int
    outputs_touched: float | None
    tokens_removed: float | None
    recall_by_source: dict[str, Rate]
    false_positive_rate_by_source: dict[str, Rate]
    recall_by_class: dict[str, Rate]
    false_positive_rate_by_class: dict[str, Rate]


def evaluate_redaction(
    secrets: Iterable[LabelledText], plain: Iterable[LabelledText], redact: Redact, outputs: Sequence[str] = ()
) -> RedactionFigures:
    """Run `redact` over texts with and without a secret; an address removed next to a secret is no secret found."""
    secret = [(each, _is_hit(redact(each.text))) for each in secrets]
    benign = [(each, _is_hit(redact(each.text))) for each in plain]
    return RedactionFigures(
        recall=count_hits(hit for _, hit in secret).value,
        false_positive_rate=count_hits(hit for _, hit in benign).value,
        secrets=len(secret),
        benign=len(benign),
        outputs=len(outputs),
        outputs_touched=count_hits(_is_hit(redact(text)) for text in outputs).value if outputs else None,
        tokens_removed=removed_token_rate(outputs, redact).value if outputs else None,
        recall_by_source=group_hits((each.group, hit) for each, hit in secret),
        false_positive_rate_by_source=group_hits((each.group, hit) for each, hit in benign),
        recall_by_class=group_hits((each.rule or each.kind, hit) for each, hit in secret),
        false_positive_rate_by_class=group_hits((each.rule or each.kind, hit) for each, hit in benign),
    )


def removed_token_rate(texts: Iterable[str], redact: Redact) -> Rate:
    """The share of tokens, separated by white space, that the gate removes from texts without secrets."""
    hit = total = 0
    for text in texts:
        spans = redact(text).spans
        total += len(text.split())
        hit += sum(max(1, len(text[span.start : span.end].split())) for span in spans)
    return Rate(hit=hit, total=total)


def _is_hit(redacted: Redacted) -> bool:
    return any(span.secret_class not in PERSONAL_CLASSES for span in redacted.spans)


@app.command(
    "redact",
    epilog=example(
        "scrimshaw eval redact --labelled secrets.jsonl --benign plain.jsonl", "scrimshaw eval redact --forms --seed 7"
    ),
)
def evaluate_redact(
    labelled: Annotated[
        list[Path] | None, typer.Option(exists=True, dir_okay=False, help="Texts labelled secret or not (repeatable).")
    ] = None,
    benign: Annotated[
        list[Path] | None, typer.Option(exists=True, dir_okay=False, help="Texts without secrets (repeatable).")
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Real tool calls without secrets.")
    ] = None,
    forms: Annotated[bool, typer.Option("--forms", help="Make secrets of unseen vendors in many contexts.")] = False,
    seed: Annotated[int, typer.Option(help="With --forms: seed for values and halves of the data.")] = 1,
    misses: Annotated[int, typer.Option(min=0, help="With --forms: how many misses of the tuned half to show.")] = 0,
    record: Annotated[bool, typer.Option("--record", help=f"Write the run to {calibration.PAGE}.")] = False,
    project: frame.Project = None,
    as_json: frame.AsJson = False,
) -> None:
    """Measure what the redaction gate removes: of secrets, of look-alikes and of real outputs.

    With --forms the secrets are made at run time, and a vendor's own rules are left out while its keys are judged.
    """
    if forms:
        show(evaluate_forms(seed, misses), as_json, render_forms)
        return
    if not labelled:
        raise InvalidRequest("There is nothing to measure.", "Name texts by --labelled, or give --forms.")
    shell = [call.output for call in lines_of(outputs, RecordedCall) if call.tool == "Bash"] if outputs else []
    if record and len(shell) < FEWEST_OUTPUTS:
        message = f"A record needs {FEWEST_OUTPUTS} real Bash outputs; there are {len(shell)}."
        raise InvalidRequest(message, "Name calls by --outputs.")
    texts = [each for path in labelled for each in lines_of(path, LabelledText)]
    secrets, plain = ([each for each in texts if (each.label == "secret") == kind] for kind in (True, False))
    plain += [each for path in benign or () for each in lines_of(path, LabelledText)]  # whatever their labels
    figures = evaluate_redaction(secrets, plain, redact, shell)
    settings = settings_of(project)
    show(figures, as_json, _render)
    if record:
        names = [path for path in (*labelled, *(benign or ()), outputs) if path]
        page = calibration.write_section(settings.project, "Redaction", _section(figures, names))
        note(f"Recorded in {page}.")


def _render(figures: RedactionFigures) -> Lines:
    yield from (f"{name}: {value}" for name, value in _totals(figures).items())
    for title, rates in _tables(figures).items():
        yield line("\n", (title, "bold"))
        yield from (f"{rate.hit:>6} of {rate.total:<6}{rate.value:7.1%}  {name or '-'}" for name, rate in rates.items())


def _totals(figures: RedactionFigures) -> dict[str, str]:
    totals = {
        "recall": f"{figures.recall:.1%} of {figures.secrets} secrets",
        "false positives": f"{figures.false_positive_rate:.1%} of {figures.benign} benign texts "
        f"(target: at most {targets.REDACTION_FALSE_POSITIVES:.0%})",
    }
    if figures.outputs_touched is not None and figures.tokens_removed is not None:
        totals["real Bash outputs touched"] = f"{figures.outputs_touched:.2%} of {figures.outputs}"
        totals["their tokens removed"] = f"{figures.tokens_removed:.4%}"
    return totals


def _tables(figures: RedactionFigures) -> dict[str, dict[str, Rate]]:
    """All rates by source, and by class only those with errors."""
    wrong = figures.false_positive_rate_by_class
    return {
        "Recall by source": figures.recall_by_source,
        "False positives by source": figures.false_positive_rate_by_source,
        "Classes with misses": {name: rate for name, rate in figures.recall_by_class.items() if rate.hit < rate.total},
        "Classes with false positives": {name: rate for name, rate in wrong.items() if rate.hit},
    }


def _section(figures: RedactionFigures, names: list[Path]) -> str:
    rules = (*TABLE.shapes, *TOKENS, *TABLE.commands, *TABLE.personal)
    classes = sorted({rule.secret_class for rule in rules})
    parts = [
        f"Data: {', '.join(f'`{path.name}`' for path in names)}.",
        "\n".join(f"- {name}: {value}" for name, value in _totals(figures).items()),
        f"Rules: {len(rules)} patterns of {len(classes)} classes, and values that a "
        f"name marks as secret. Classes: {', '.join(classes)}.",
        f"Exempt: {'; '.join(TABLE.exemptions.splitlines())}.",
    ]
    for title, rates in _tables(figures).items():
        rows = {name or "-": (f"{rate.hit}", f"{rate.total}", f"{rate.value:.1%}") for name, rate in rates.items()}
        parts += [f"### {title}", calibration.table(("", "removed", "of", "share"), rows)]
    return "\n\n".join(parts)
