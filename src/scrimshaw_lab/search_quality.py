"""Measures search on a vault with judged queries, by each channel and by all of them; the vault is only read."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import typer
from msgspec import Meta, Struct
from msgspec.structs import replace

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example, settings_of
from scrimshaw.app.cli.output import Advance, Lines, line, note_degradations, progress, show
from scrimshaw.config import Settings
from scrimshaw.engine.core import Engine, open_engine
from scrimshaw.engine.index import embed_pending, scan
from scrimshaw.engine.read import search
from scrimshaw.errors import InvalidRequest
from scrimshaw.models import Channel, Degradation, Filters
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.scan import Source
from scrimshaw_lab.labelled import lines_of
from scrimshaw_lab.metrics import answers_among, hit_at, mean, mrr_at, ndcg_at, percentile

CUTOFF = 10
_EXPECTED = 'Write a line per query: {"id": "q1", "query": "why apsw", "relevant": {"storage/apsw": 2}}.'
SINGLE = (Channel.TEXT, Channel.VECTOR)

Ranking = list[str]
Grade = Annotated[int, Meta(ge=0, le=10)]


class JudgedQuery(Struct, frozen=True, kw_only=True):
    """A query and its judgements, id -> grade: 2 answers, 1 helps, 0 is irrelevant. `intent` is only a label."""

    id: str
    query: str
    relevant: dict[str, Grade]
    intent: str = ""


class Quality(Struct, frozen=True, kw_only=True, rename=lambda name: name.replace("_", "@")):
    """Means over the queries, 0..1; `answers_among` defines an answer for `mrr` and `hit`."""

    ndcg_10: float
    mrr_10: float
    hit_1: float
    hit_5: float
    hit_10: float


class Sureness(Struct, frozen=True, kw_only=True):
    """How well the confidence of answers is calibrated: shares 0..1, and the mean error in ten bins."""

    true_refused: float
    others: int  #: questions that the vault has no answer to
    others_answered: float
    calibration_error: float


class SearchEvaluation(Struct, frozen=True, kw_only=True):
    """What was measured. Times are milliseconds of the first fused search for each query, with the model loaded.

    `missed` are the queries without an answer among the first ten of the fused ranking; `unknown` the judged ids
    that the vault does not have. A channel that could not be searched is missing from `channels`;
    `degradations` say why.
    """

    queries: int
    memories: int
    fused: Quality
    channels: Mapping[Channel, Quality]
    p50_ms: float
    p95_ms: float
    sureness: Sureness | None = None
    missed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    degradations: tuple[Degradation, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The figures as plain values, rounded: `fused` with its times, and each channel; and what to know of them."""
        times = {"p50_ms": round(self.p50_ms, 2), "p95_ms": round(self.p95_ms, 2)}
        singles = {str(channel): _rounded(quality) for channel, quality in self.channels.items()}
        names = ("queries", "memories", "sureness", "missed", "unknown", "degradations")
        return {"fused": {**_rounded(self.fused), **times}, **singles, **{name: getattr(self, name) for name in names}}


def evaluate(
    vault: Path,
    queries: Path,
    *,
    exclude: Sequence[str] = (),
    channels: Sequence[Channel] | None = None,
    advance: Advance = lambda done, total: None,
    settings: Settings | None = None,
    others: Path | None = None,
) -> SearchEvaluation:
    """Search `vault` for every line of `queries` and measure the rankings.

    `exclude` are globs on ids or paths; one without a folder matches at any depth. `channels` are measured singly
    in addition to the fused search; default: text and vector. `settings` are those of search and embedding, the
    defaults unless given. `others` are questions that the vault has no answer to. Raises InvalidRequest naming file
    and line of a query that cannot be used, EmbedderUnavailable if the model fails.
    """
    source = Source(name="vault", root=vault, exclude=tuple(map(_path_glob, exclude)))
    with TemporaryDirectory(prefix="scrimshaw-") as folder:
        settings = settings or Settings(project=vault, home=Path(folder))
        with open_engine(settings, sources=[source], folder=Path(folder)) as engine:
            judged = read_queries(queries, engine.searcher.validate)
            fill_index(engine, advance)
            measured = _measure(engine, judged, channels or SINGLE, advance)
            return replace(measured, sureness=_measure_sureness(engine, judged, others)) if others else measured


def fill_index(engine: Engine, advance: Advance) -> None:
    """Read the files of an engine, and make all vectors."""

    def keep_going(done: int, total: int) -> bool:
        advance(done, total)
        return True

    scan(engine, progress=advance)
    embed_pending(engine, keep_going)


def read_queries(path: Path, validate: Callable[[str], str] = str) -> list[JudgedQuery]:
    """The queries of a file with a JSON object a line; raises InvalidRequest naming file and line.

    `validate` raises InvalidRequest for a query that cannot be searched. Blank lines are skipped.
    """

    def check(judged: JudgedQuery) -> None:
        validate(judged.query)
        if not any(judged.relevant.values()):
            raise InvalidRequest("no memory has a grade above 0.", _EXPECTED)

    judged = [*lines_of(path, JudgedQuery, check, _EXPECTED)]
    if not judged:
        raise InvalidRequest(f"{path} contains no queries.", _EXPECTED, parameter="queries")
    return judged


def _path_glob(glob: str) -> str:
    """A glob on ids or paths as one on the paths of files."""
    whole = glob if glob.endswith(("/", SUFFIX)) else glob + SUFFIX
    return whole if "/" in glob else f"**/{whole}"


def _measure(
    engine: Engine, judged: Sequence[JudgedQuery], channels: Sequence[Channel], advance: Advance
) -> SearchEvaluation:
    fused, times = _time_searches(engine, judged, advance)
    degradation = engine.embedder if isinstance(engine.embedder, Degradation) else None
    usable = [channel for channel in channels if not (degradation and channel == Channel.VECTOR)]
    wanted = {name for query in judged for name in query.relevant}
    return SearchEvaluation(
        queries=len(judged),
        memories=engine.index.count(Filters())[""],
        fused=_quality(judged, fused),
        channels={
            channel: _quality(judged, [_search(engine, query.query, (channel,)) for query in judged])
            for channel in usable
        },
        p50_ms=percentile(times, 0.50),
        p95_ms=percentile(times, 0.95),
        missed=tuple(query.id for query, found in zip(judged, fused, strict=True) if not _is_hit(query, found)),
        unknown=tuple(sorted(wanted - engine.index.get(sorted(wanted)).keys())),
        degradations=(degradation,) if degradation else (),
    )


def _measure_sureness(engine: Engine, judged: Sequence[JudgedQuery], others: Path) -> Sureness:
    """The confidence of answers to judged queries, and to the `query` or `text` of each line of another file."""
    foreign = [str(line.get("query") or line.get("text")) for line in lines_of(others, dict[str, object])]
    least = engine.settings.search.min_confidence
    pairs = [(_ask_sureness(engine, each.query), True) for each in judged]
    pairs += [(_ask_sureness(engine, each), False) for each in foreign]
    bins = [[pair for pair in pairs if int(pair[0] * 9.999) == number] for number in range(10)]
    gaps = (abs(sum(sure for sure, _ in some) - sum(holds for _, holds in some)) for some in bins)
    return Sureness(
        true_refused=mean([sure < least for sure, holds in pairs if holds]),
        others=len(foreign),
        others_answered=mean([sure >= least for sure, holds in pairs if not holds]),
        calibration_error=sum(gaps) / len(pairs),
    )


def _ask_sureness(engine: Engine, query: str) -> float:
    return search(engine, SearchRequest(query=query[: engine.settings.search.query_max])).confidence


def _time_searches(
    engine: Engine, judged: Sequence[JudgedQuery], advance: Advance
) -> tuple[list[Ranking], list[float]]:
    """The fused ranking of every query, and its milliseconds. Runs before any other search: vectors are cached."""
    rankings, times = [], []
    for done, query in enumerate(judged, start=1):
        start = time.perf_counter()
        rankings.append(_search(engine, query.query, tuple(Channel)))
        times.append((time.perf_counter() - start) * 1000)
        advance(done, len(judged))
    return rankings, times


def _search(engine: Engine, query: str, channels: tuple[Channel, ...]) -> Ranking:
    request = SearchRequest(query=query, limit=CUTOFF, channels=channels, constitutional=False)
    return [hit.memory.id for hit in search(engine, request).hits]


def _quality(judged: Sequence[JudgedQuery], rankings: Sequence[Ranking]) -> Quality:
    pairs = [(answers_among(query.relevant), found) for query, found in zip(judged, rankings, strict=True)]
    return Quality(
        ndcg_10=mean([ndcg_at(found, each.relevant, CUTOFF) for each, found in zip(judged, rankings, strict=True)]),
        mrr_10=mean([mrr_at(found, answers, CUTOFF) for answers, found in pairs]),
        hit_1=mean([hit_at(found, answers, 1) for answers, found in pairs]),
        hit_5=mean([hit_at(found, answers, 5) for answers, found in pairs]),
        hit_10=mean([hit_at(found, answers, CUTOFF) for answers, found in pairs]),
    )


def _is_hit(query: JudgedQuery, found: Ranking) -> bool:
    return bool(hit_at(found, answers_among(query.relevant), CUTOFF))


def _rounded(quality: Quality) -> dict[str, float]:
    figures: dict[str, float] = msgspec.to_builtins(quality)
    return {name: round(value, 4) for name, value in figures.items()}


app = typer.Typer(add_completion=False, help="Measure on your own memory.", no_args_is_help=True)


@app.callback(epilog=example("scrimshaw eval golden"))
def group() -> None:
    """Measure on your own memory."""


@app.command(
    "search", epilog=example("scrimshaw eval search --vault notes --queries judged.jsonl --exclude 'drafts/*'")
)
def run_search(
    vault: Annotated[Path, typer.Option(exists=True, file_okay=False, help="The folder of memories.")],
    queries: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Judged queries, as JSON lines.")],
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Leave these out (repeatable).")] = None,
    channels: Annotated[str, typer.Option(help="Channels to measure separately too.")] = "text,vector",
    others: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Questions without an answer, as JSON lines.")
    ] = None,
    project: frame.Project = None,
    as_json: frame.AsJson = False,
) -> None:
    """Search a vault with judged queries, and measure how well the answers rank."""
    wanted = frame.channels_of(channels, alone=True)
    with progress("Searching") as advance:
        result = evaluate(
            vault,
            queries,
            exclude=exclude or (),
            channels=wanted,
            advance=advance,
            settings=settings_of(project),
            others=others,
        )
    show(result.as_json() if as_json else result, as_json, _render)
    if not as_json:
        note_degradations(result.degradations)


def _render(result: SearchEvaluation) -> Lines:
    """The figures of the fused ranking and of each channel."""
    yield f"{result.queries} queries over {result.memories} memories"
    yield from _figures("fused", result.fused)
    for channel, quality in result.channels.items():
        yield from _figures(channel, quality)
    yield f"fused search: median {result.p50_ms:.1f} ms, 95 % within {result.p95_ms:.1f} ms"
    if sure := result.sureness:
        yield f"true questions refused {sure.true_refused:.1%}, calibration error {sure.calibration_error:.3f}"
        yield f"of {sure.others} questions without an answer there {sure.others_answered:.1%} get one"
    if result.missed:
        yield line(("missed: ", "yellow"), ", ".join(result.missed))
    if result.unknown:
        yield line(("judged but not in the vault: ", "yellow"), ", ".join(result.unknown))


def _figures(name: str, quality: Quality) -> Lines:
    figures: dict[str, float] = msgspec.to_builtins(quality)
    yield f"{name:<8} " + "  ".join(f"{key} {value:.3f}" for key, value in figures.items())
