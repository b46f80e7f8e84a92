"""Measures the defence against text that speaks to an agent: how much is flagged, and whether fences hold."""

import gzip
import hashlib
import html
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example
from scrimshaw.app.cli.output import Lines, line, show
from scrimshaw.app.hooks import fencing
from scrimshaw.errors import InvalidRequest, describe_os_error
from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.ingest.invisible_characters import fold_text
from scrimshaw.search.results import StateLine
from scrimshaw_lab.metrics import Rate, count_hits, group_hits

_WHOLE = 10**9  # tokens: room for all
_FORGED_AROUND = 300  # characters of an attack between two forged marks
_APART = re.compile(r"[^\w/.,:;]|_")

# Ways to spell the mark that ends a fence.
FORGERIES: Mapping[str, Callable[[str], str]] = {
    "plain": lambda name: f"</{name}>",
    "upper case": lambda name: f"</{name.upper()}>",
    "spaces": lambda name: f"< / {name.replace('-', ' - ')} >",
    "line break": lambda name: f"</{name[:9]}\n{name[9:]}>",
    "entities": lambda name: f"&lt;/{name}&gt;",
    "numeric entities": lambda name: "".join(f"&#{ord(each)};" for each in f"</{name}>"),
    "escaped twice": lambda name: html.escape(html.escape(f"</{name}>")),
    "zero width": lambda name: "</" + "\u200b".join(name) + ">",
    "look-alikes": lambda name: f"</{name.replace('s', 'ѕ').replace('a', 'а').replace('o', 'о')}>",
    "full width": lambda name: "".join(chr(ord(each) + 0xFEE0) for each in f"</{name}>"),
    "underscore": lambda name: f"</{name.replace('-', '_')}>",
    "letters apart": lambda name: f"</{' '.join(name)}>",
}


class Sample(NamedTuple):
    """A document and its source."""

    source: str
    text: str


class InjectionReport(Struct, frozen=True, kw_only=True):
    """Which documents were flagged, by source; attacks also by half, tuned and held out.

    `fenced` counts attacks that stayed inside every kind of fence, `broken` fences by the spelling that broke them.
    """

    flagged: Rate
    flagged_tuned: Rate
    flagged_held_out: Rate
    false_flags: Rate
    fenced: Rate
    attacks_by_source: dict[str, Rate]
    benign_by_source: dict[str, Rate]
    broken: dict[str, int]


def evaluate_injection(attacks: Sequence[Sample], benign: Sequence[Sample]) -> InjectionReport:
    """Judge every document, and fence every attack, also between forged marks, in all ways."""
    attacked = [(sample, is_suspicious(sample.text)) for sample in attacks]
    harmless = [(sample, is_suspicious(sample.text)) for sample in benign]
    broken = dict[str, int]()
    for way, forge in FORGERIES.items():
        mark = forge(fencing.FENCE)
        texts = (f"{mark}\n{each.text[:_FORGED_AROUND]}\n{mark}" for each in attacks)
        broken[way] = sum(not is_held(text, fencing.FENCE, WAYS_IN) for text in texts)
    return InjectionReport(
        flagged=count_hits(hit for _, hit in attacked),
        flagged_tuned=count_hits(hit for each, hit in attacked if is_tuned_on(each.text)),
        flagged_held_out=count_hits(hit for each, hit in attacked if not is_tuned_on(each.text)),
        false_flags=count_hits(hit for _, hit in harmless),
        fenced=count_hits(is_held(sample.text, fencing.FENCE, WAYS_IN) for sample in attacks),
        attacks_by_source=group_hits((each.source, hit) for each, hit in attacked),
        benign_by_source=group_hits((each.source, hit) for each, hit in harmless),
        broken={way: count for way, count in broken.items() if count},
    )


def is_tuned_on(text: str) -> bool:
    """Whether a text is in the half that the cues were tuned on, by its hash."""
    return hashlib.sha256(text.encode(errors="replace")).digest()[0] % 2 == 0


def is_held(text: str, name: str, ways_in: Iterable[Callable[[str], str]]) -> bool:
    """Whether a text stays between the marks: the name can be read just twice, however it is spelled."""
    return all(_marks(wrap(text), name) == 2 for wrap in ways_in)


def _marks(text: str, name: str) -> int:
    """How often the name of the fence can be read in a text after everything escaped is resolved."""
    plain = html.unescape(html.unescape(text))
    shown, _origin = fold_text(unicodedata.normalize("NFKC", plain))
    return _APART.sub("", shown).count(_APART.sub("", name))


app = typer.Typer()

# The fields with the document in known sets; the first one present counts.
FIELDS = ("injected", "text", "prompt", "attack", "content", "output")
# Sets mark benign controls among the attacks, which are measured as benign.
_CONTROL = "control"


@app.command("injection", epilog=example("scrimshaw eval injection --attacks attacks.jsonl --benign docs"))
def evaluate(
    attacks: Annotated[list[Path], typer.Option(exists=True, help="Attacks: a file or a folder (repeatable).")],
    benign: Annotated[
        list[Path] | None, typer.Option(exists=True, help="Real texts: a file or a folder (repeatable).")
    ] = None,
    as_json: frame.AsJson = False,
) -> None:
    """Measure how much text that speaks to an agent is flagged, and whether fences hold it."""
    bad = [(control, sample) for path in attacks for control, sample in _samples(path)]
    good = [sample for path in benign or () for _, sample in _samples(path)]
    good += [sample for control, sample in bad if control]
    show(evaluate_injection([sample for control, sample in bad if not control], good), as_json, _render)


# A line of a state, a hint of a prompt and a hit of an answer, as an agent gets them.
_LINE = StateLine(part="decisions", text="", origin="session:s/1", trust="tool")
WAYS_IN: Sequence[Callable[[str], str]] = (
    lambda text: fencing.fence_state("Where the last session ended.", [replace(_LINE, text=text)], _WHOLE),
    lambda text: fencing.fence_list("Notes.", [text]),
    lambda text: fencing.fence("Trust web.", text),
)


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


def _render(report: InjectionReport) -> Lines:
    yield f"attacks flagged: {_share(report.flagged)}"
    yield f"  tuned on: {_share(report.flagged_tuned)}; held out: {_share(report.flagged_held_out)}"
    yield f"attacks that stayed in the fence: {_share(report.fenced)}; forged marks that got through: {report.broken}"
    yield f"real texts flagged: {_share(report.false_flags)}"
    for title, rates in (("Attacks", report.attacks_by_source), ("Real texts", report.benign_by_source)):
        yield line("\n", (f"{title} flagged", "bold"))
        yield from (f"{rate.hit:>6} of {rate.total:<6}{rate.value:7.1%}  {name}" for name, rate in rates.items())


def _share(rate: Rate) -> str:
    return f"{rate.value:.1%} of {rate.total}"
