"""Answers every query twice: as now, and with the boosts of a session or with other settings.

Sessions are recorded, fade and are read as usual, in a scratch copy of the index with its own journal. The answers to
a query are the memories that judgements name, the memory with that title or heading, or what was read after the search
in the project's log.
"""

import uuid
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace as replace_field
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated

import apsw
import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example, settings_of_memory
from scrimshaw.app.cli.output import Lines, line, progress, show
from scrimshaw.config import Settings, all_keys, load
from scrimshaw.engine import Engine, open_engine, sessions
from scrimshaw.engine.core import list_project_sources
from scrimshaw.engine.index import embed_pending, scan
from scrimshaw.engine.query_log import pair_reads, read_log
from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.markdown import parse_headings
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EventKind, Filters, ItemKind, Memory, NewItem, Observation, Session
from scrimshaw.search.pipeline import Searcher
from scrimshaw.search.results import Boosts, SearchRequest, SearchResult
from scrimshaw.session import working_memory
from scrimshaw_lab import targets
from scrimshaw_lab.metrics import ANSWERS, answers_among, mean, mrr_at, rank_biased_overlap, rank_correlation
from scrimshaw_lab.search_quality import JudgedQuery, read_queries

# Rankings are compared over so many hits; their order over the first ones; MRR and payload over those shown.
DEPTH, ORDERED, SHOWN = 50, 20, 10
ITEMS = 7
# The attention that the default rules give to reading a specification; earlier items have faded with each event.
ATTENTION = 0.9
FARTHEST_FALL = 3
REVIEWED_SHARE = 0.10  # of the queries, for a person to look at
WORST = 5

_INDEX = "index.db"
_LEAST_WORDS = 3
_SELECT = 500


class Case(StrEnum):
    """How the second answer differs from the first.

    `random`: by a session that works with random hits. `relevant`: with the answers to the query. `unbounded`: as
    random, with the whole attention and no cap, which must fail. `settings`: by other settings.
    """

    RANDOM = "random"
    RELEVANT = "relevant"
    UNBOUNDED = "unbounded"
    SETTINGS = "settings"


class Shadow(Struct, frozen=True, kw_only=True):
    """One query answered twice: the ids, best first, the characters of the first ten texts, and the boosts by id."""

    query: JudgedQuery
    case: Case
    base: tuple[str, ...]
    boosted: tuple[str, ...]
    base_characters: int = 0
    boosted_characters: int = 0
    lifts: Mapping[str, float] = {}


class Fall(Struct, frozen=True, kw_only=True):
    """A memory of grade 2 or above that ranks lower now, and what passed it; places count from 1."""

    query: str
    memory: str
    before: int
    after: int
    passed_by: tuple[str, ...] = ()


class ShadowFigures(Struct, frozen=True, kw_only=True):
    """The figures of one case, means over its queries. `lifted` is the share of queries with a boost; orders are
    compared over the first 20 hits; `payload` is the ratio of the characters sent; `falls` are of more than 3 places.
    """

    case: Case
    queries: int
    lifted: float
    rank_correlation: float
    overlap: float  #: rank-biased, persistence .9
    mrr: float
    mrr_ratio: float
    payload: float
    falls: tuple[Fall, ...]


class Report(Struct, frozen=True, kw_only=True):
    """The figures of each case, the names of those that miss their targets, and the figures by intent."""

    cases: tuple[ShadowFigures, ...]
    missed: Mapping[Case, tuple[str, ...]]
    intents: Mapping[Case, Mapping[str, ShadowFigures]]


def run_shadows(
    engine: Engine, queries: Sequence[JudgedQuery], *, cases: Sequence[Case], other: Engine | None = None, seed: int = 0
) -> Iterator[Shadow]:
    """Run every query in every case. The same seed draws the same memories."""
    chance = Random(seed)
    for query in queries:
        request = SearchRequest(query=query.query, limit=DEPTH, constitutional=False)
        around = replace(sessions.collect_signals(engine, None, query.query, DEPTH), boosts=None)
        base = engine.searcher.search(request, around)
        names = _ids(base)
        drawn = chance.sample(names, min(ITEMS, len(names)))
        for case in cases:
            if case == Case.SETTINGS:
                found = (other or engine).searcher.search(request, around)
            else:
                session = working_with(engine, _best(query) if case == Case.RELEVANT else drawn)
                lifting = sessions.collect_signals(engine, session, query.query, DEPTH)
                if case == Case.UNBOUNDED:
                    lifting = replace(lifting, boosts=unbounded(sessions.attention_by_memory(engine, session)))
                # A search also returns the session's own entries; only the order of memories counts here.
                found = engine.searcher.search(request, replace(lifting, recalled=()))
            yield _shadow(query, case, base, found)


def working_with(engine: Engine, linked: Sequence[str]) -> Session:
    """A new session that has read these memories, the last one first."""
    session = engine.sessions.open(uuid.uuid4().hex, now=engine.clock())
    event_decay = engine.settings.features.event_decay
    admit = partial(working_memory.admit, settings=engine.settings.session, event_decay=event_decay)
    for memory in reversed(linked):
        text = redact(f"read {memory}")
        item = NewItem(text=text, kind=ItemKind.FILE, attention=ATTENTION, memory_id=memory)
        sessions.tick(engine, session.id)
        now, modulus = engine.clock(), engine.settings.session.counter_modulus
        seen = Observation(session=session.id, kind=EventKind.STOP, text=redact(""), item=item)
        engine.sessions.observe(seen, partial(admit, now=now), now=now, modulus=modulus)
    return engine.sessions.get(session.id) or session


def unbounded(attention: Mapping[str, float]) -> Boosts:
    """Boosts of every memory by its whole attention, without a cap, as the engine must never give."""
    return lambda names, _: {name: {"session": attention[name]} for name in names if name in attention}


def compute_figures(runs: Sequence[Shadow]) -> ShadowFigures:
    """The figures of the runs of one case; IndexError for none."""
    before = [mrr_at(run.base, answers_among(run.query.relevant), SHOWN) for run in runs]
    after = [mrr_at(run.boosted, answers_among(run.query.relevant), SHOWN) for run in runs]
    return ShadowFigures(
        case=runs[0].case,
        queries=len(runs),
        lifted=mean([bool(run.lifts) for run in runs]),
        rank_correlation=mean([rank_correlation(run.base[:ORDERED], run.boosted) for run in runs]),
        overlap=mean([rank_biased_overlap(run.base, run.boosted) for run in runs]),
        mrr=mean(after),
        mrr_ratio=sum(after) / sum(before) if any(before) else 1.0,
        payload=sum(run.boosted_characters for run in runs) / max(1, sum(run.base_characters for run in runs)),
        falls=tuple(fall for run in runs for fall in find_falls(run) if fall.after - fall.before > FARTHEST_FALL),
    )


def find_missed(found: ShadowFigures) -> tuple[str, ...]:
    """The names of the figures that miss their targets."""
    kept = {
        "rank_correlation": found.rank_correlation >= targets.RANK_CORRELATION,
        "mrr_ratio": found.mrr_ratio >= targets.MRR_RATIO,
        "falls": not found.falls,
    }
    return tuple(name for name, is_kept in kept.items() if not is_kept)


def judge(runs: Iterable[Shadow]) -> Report:
    """The figures of all runs."""
    grouped = defaultdict[Case, defaultdict[str, list[Shadow]]](lambda: defaultdict(list))
    for run in runs:
        grouped[run.case][run.query.intent].append(run)
    figures = [compute_figures([*chain.from_iterable(each.values())]) for each in grouped.values()]
    intents = {
        case: {name: compute_figures(some) for name, some in sorted(each.items()) if name}
        for case, each in grouped.items()
    }
    return Report(cases=tuple(figures), missed={each.case: find_missed(each) for each in figures}, intents=intents)


def find_falls(run: Shadow) -> Iterator[Fall]:
    """The answers of a query that rank lower than before; a missing one counts as behind the last hit."""
    after = {name: place for place, name in enumerate(run.boosted, start=1)}
    for before, name in enumerate(run.base, start=1):
        place = after.get(name, len(run.boosted) + 1)
        if run.query.relevant.get(name, 0) >= ANSWERS and place > before:
            passed = tuple(other for other in run.boosted[: place - 1] if other not in run.base[:before])
            yield Fall(query=run.query.query, memory=name, before=before, after=place, passed_by=passed)


def find_known_items(engine: Engine, count: int, *, seed: int = 0) -> list[JudgedQuery]:
    """Queries with a known answer: titles and headings of three words or more that no other memory has.

    Half of them are titles if there are enough. May be fewer than `count`.
    """
    memories = engine.index.select(Filters())
    titles = _unique([(memory.id, memory.title) for memory in memories])
    sections = _unique(list(_headings(engine, memories)), known={title for _, title in titles})
    chance = Random(seed)
    chosen = chance.sample(titles, min(len(titles), count // 2))
    chosen += chance.sample(sections, min(len(sections), count - len(chosen)))
    longest = engine.settings.search.query_max
    return [JudgedQuery(id=f"{name}#{text}", query=text[:longest], relevant={name: ANSWERS}) for name, text in chosen]


def find_asked(engine: Engine) -> list[JudgedQuery]:
    """The searches in the project's log, each once, newest first; the hits that were read are their answers."""
    found = dict[str, JudgedQuery]()
    for each, read in pair_reads(read_log(engine)):
        known = found.pop(each.query, None)
        relevant = {**(known.relevant if known else {}), **dict.fromkeys(read, ANSWERS)}
        found[each.query] = JudgedQuery(id=each.query, query=each.query, relevant=relevant, intent=each.intent)
    return [*reversed(found.values())]


@contextmanager
def copy_engine(settings: Settings) -> Iterator[Engine]:
    """A project's memory on a copy of its index, with a temporary journal."""
    with TemporaryDirectory(prefix="scrimshaw-") as name:
        folder, known = Path(name), settings.folder / _INDEX
        if known.is_file():
            with closing(apsw.Connection(str(folder / _INDEX))) as copy, closing(apsw.Connection(str(known))) as whole:
                copy.backup("main", whole, "main").step()
        sources = list_project_sources(settings)
        with open_engine(settings, sources=sources, folder=folder, replace_lost_journal=True) as engine:
            scan(engine)
            embed_pending(engine)
            yield engine


def change_settings(settings: Settings, changes: Iterable[str]) -> Settings:
    """The settings with changes such as `section.key=value`; raises InvalidRequest, ConfigError."""
    names = {f"{info.section}.{info.key}": info.environment[0] for info in all_keys()}
    stated = dict[str, str]()
    for change in changes:
        key, _, value = change.partition("=")
        if key not in names:
            raise InvalidRequest(f"{change!r} sets nothing.", "Write section.key=value, such as search.candidates=50.")
        stated[names[key]] = value
    return load(settings.project, home=settings.home, environment=stated)


def _shadow(query: JudgedQuery, case: Case, base: SearchResult, found: SearchResult) -> Shadow:
    before, after = (sum(len(hit.text) for hit in each.hits[:SHOWN]) for each in (base, found))
    gains = {hit.memory.id: sum(hit.explanation.boosts.values()) for hit in found.hits}
    return Shadow(
        query=query,
        case=case,
        base=tuple(_ids(base)),
        boosted=tuple(_ids(found)),
        base_characters=before,
        boosted_characters=after,
        lifts={name: round(gain, 4) for name, gain in gains.items() if gain > 0},
    )


def _ids(result: SearchResult) -> list[str]:
    return [hit.memory.id for hit in result.hits]


def _best(query: JudgedQuery) -> list[str]:
    """The judged memories of a query, highest grade first."""
    useful = [name for name, grade in query.relevant.items() if grade > 0]
    return sorted(useful, key=lambda name: (-query.relevant[name], name))[:ITEMS]


def _headings(engine: Engine, memories: Sequence[Memory]) -> Iterator[tuple[str, str]]:
    for start in range(0, len(memories), _SELECT):
        for name, body in engine.index.bodies([each.id for each in memories[start : start + _SELECT]]).items():
            yield from ((name, heading.text) for heading in parse_headings(body))


def _unique(named: Sequence[tuple[str, str]], known: Container[str] = ()) -> list[tuple[str, str]]:
    """The texts that are long enough to search for, occur once, and are not among the `known`."""
    times = Counter(text for _, text in named)
    long = [each for each in named if len(each[1].split()) >= _LEAST_WORDS and each[1].isprintable()]
    return [(name, text) for name, text in long if times[text] == 1 and text not in known]


app = typer.Typer()


@app.command("shadow", epilog=example("scrimshaw eval shadow", "scrimshaw eval shadow --with search.candidates=50"))
def evaluate_shadow(
    queries: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Judged queries, as JSON lines.")
    ] = None,
    total: Annotated[int, typer.Option(min=1, max=100_000, help="Queries in all: logged, judged, then derived.")] = 100,
    changed: Annotated[
        list[str] | None, typer.Option("--with", metavar="KEY=VALUE", help="Compare with this setting (repeatable).")
    ] = None,
    uncapped: Annotated[
        bool, typer.Option("--uncapped", help="Also test a boost without its cap: the check must fail.")
    ] = False,
    review: Annotated[
        Path | None, typer.Option(help="Write 10 % of the queries with both answers here, for review.")
    ] = None,
    rows: Annotated[Path | None, typer.Option(help="Write every query with both rankings here, as JSON lines.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random choices.")] = 1,
    project: frame.Project = None,
    as_json: frame.AsJson = False,
) -> None:
    """Answer queries twice, without and with a session's boosts or other settings, and compare.

    The queries are those of the project's log and of a file, then titles and headings of the memories. Exit code 1 if
    the order or the place of the answers changes more than allowed.
    """
    settings = settings_of_memory(project)
    cases = [Case.SETTINGS] if changed else [Case.RANDOM, Case.RELEVANT, *[Case.UNBOUNDED] * uncapped]
    with open_engine(settings) as own:
        asked = find_asked(own)
    with copy_engine(settings) as engine, progress("Searching") as advance:
        chosen = ((read_queries(queries, engine.searcher.validate) if queries else []) + asked)[:total]
        chosen += find_known_items(engine, total - len(chosen), seed=seed)
        other = replace_field(engine, settings=change_settings(settings, changed or ()))
        other = replace_field(other, searcher=Searcher(engine.index, other.settings, engine.embedder))
        runs = list[Shadow]()
        for run in run_shadows(engine, chosen, cases=cases, other=other, seed=seed):
            runs.append(run)
            advance(len(runs), len(chosen) * len(cases))
    if not runs:
        raise InvalidRequest("There is nothing to search for.", "Save or import memories first.")
    drawn = Random(seed).sample(runs, max(1, round(REVIEWED_SHARE * len(runs))))
    for path, some in ((rows, runs), (review, drawn)):
        if path:
            path.write_bytes(msgspec.json.Encoder().encode_lines(some))
    report = judge(runs)
    show(report, as_json, _render)
    if any(report.missed.values()):
        raise typer.Exit(1)


def _render(report: Report) -> Lines:
    for each in report.cases:
        yield line((f"{each.case}, {each.queries} queries", "bold"))
        yield _describe(each)
        for name, part in report.intents[each.case].items():
            yield line((f"  {name:<14}{part.queries:>5}  ", "dim"), _describe(part))
        for fall in sorted(each.falls, key=lambda fall: fall.before - fall.after)[:WORST]:
            passed = ", ".join(fall.passed_by[:WORST])
            yield line(
                (f"  {fall.memory}", "cyan"), f" {fall.before} -> {fall.after} for {fall.query!r}, behind {passed}"
            )
        failed = ", ".join(report.missed[each.case])
        yield line((f"  missed: {failed}", "bold red") if failed else ("  all targets are met", "green"))


def _describe(each: ShadowFigures) -> str:
    return (
        f"Spearman {each.rank_correlation:.3f}  overlap {each.overlap:.3f}"
        f"  MRR {each.mrr:.3f} ({each.mrr_ratio:.1%})  payload {each.payload:.1%}  lifted {each.lifted:.0%}"
        f"  falls {len(each.falls)}"
    )
