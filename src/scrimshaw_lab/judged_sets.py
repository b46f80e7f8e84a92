"""Measures search on public sets of judged queries: each channel, both by reciprocal ranks, fused, and reranked.

A set is read from the files that its authors publish, and written as a vault of Markdown files. A large one is cut to
the documents that its queries ask for, and others up to a number.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example
from scrimshaw.app.cli.output import Advance, Lines, progress, show
from scrimshaw.config import Settings
from scrimshaw.engine.core import Engine, open_engine
from scrimshaw.engine.read import search
from scrimshaw.errors import InvalidRequest
from scrimshaw.models import Channel
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.scan import Source
from scrimshaw_lab.labelled import lines_of
from scrimshaw_lab.metrics import answers_among, bootstrap_interval, hit_at, mean, mrr_at, ndcg_at
from scrimshaw_lab.search_quality import CUTOFF, JudgedQuery, fill_index, read_queries

DEPTH, OFFSET = 50, 60  # hits of a channel that reciprocal ranks join, and what is added to each rank
DOCUMENTS, QUERIES = 600, 150
CHATS = 4

Row = dict[str, Any]  # a line of a set
Texts = Mapping[str, str]  # by id
Judged = tuple[Texts, list[JudgedQuery]]

WAYS = ("text", "vector", "ranks", "fused", "reranked")


class SetResult(Struct, frozen=True, kw_only=True):
    """The mean of one measure for each way to search, and the lead of the last one with its 95 % interval."""

    name: str
    measure: str
    queries: int
    documents: int
    means: Mapping[str, float]
    leads: Mapping[str, tuple[float, float, float]]  #: over reciprocal ranks, and over the best channel


# One measure for each set, chosen before anything was fitted on it: what its authors use, else nDCG@10.
MEASURES: Mapping[str, tuple[str, Callable[[Sequence[str], Mapping[str, int]], float]]] = {
    "CoSQA": ("hit@10", lambda ranking, grades: hit_at(ranking, answers_among(grades), CUTOFF)),
    "LoCoMo sessions": ("MRR@10", lambda ranking, grades: mrr_at(ranking, answers_among(grades), CUTOFF)),
    "BEAM": ("recall@5", lambda ranking, grades: len({*ranking[:5]} & grades.keys()) / min(5, len(grades))),
}
_NDCG = ("nDCG@10", lambda ranking, grades: ndcg_at(ranking, grades, CUTOFF))


def read_sets(data: Path) -> Mapping[str, Callable[[int], Judged]]:
    """A reader for each set below `data`, by the set's name; it takes the maximum number of documents."""
    places: Mapping[str, tuple[str, Callable[[Path, int], Judged]]] = {
        "notes": ("serena-memories", _read_notes),
        "specifications": ("speckit/artifact_queries_dev.jsonl", _read_specifications),
        "CoSQA": ("ir_cosqa/beir", _read_beir),
        "Cranfield": ("ir_cranfield/beir", _read_beir),
        "CACM": ("ir_cacm/beir", _read_beir),
        "SciFact": ("ir_scifact/beir", _read_beir),
        "LoCoMo turns": ("locomo/locomo_dev.json", lambda path, most: _read_talks(path, whole=False)),
        "LoCoMo sessions": ("locomo/locomo_dev.json", lambda path, most: _read_talks(path, whole=True)),
        "BEAM": ("beam/probing_dev.jsonl", lambda path, most: _read_chats(path)),
    }

    found = {name: partial(read, data / path) for name, (path, read) in places.items() if (data / path).exists()}
    if not found:
        paths = ", ".join(path for path, _ in places.values())
        raise InvalidRequest(f"{data} contains no judged set.", f"Unpack one of {paths} there.", parameter="data")
    return found


def fill_vault(engine: Engine, texts: Texts, advance: Advance) -> None:
    """Write the texts into the engine's vault, unless an earlier run did, and index them."""
    root = engine.sources[0].root
    for name, text in texts.items():
        path = root / f"{name}.md"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    fill_index(engine, advance)


def open_vault(folder: Path, name: str) -> Engine:
    """An engine over a vault of its own below `folder`, which the next run reuses."""
    place = folder / name.replace(" ", "-")
    (place / "vault").mkdir(parents=True, exist_ok=True)
    source = Source(name="vault", root=place / "vault", exclude=("**/*-index.md",))
    return open_engine(Settings(project=place / "vault", home=place), sources=[source], folder=place)


def rank_ways(engine: Engine, query: str) -> dict[str, list[str]]:
    """The ids that each way to search finds, best first."""

    def find(channels: tuple[Channel, ...], limit: int = CUTOFF, *, reranks: bool = False) -> list[str]:
        asked = SearchRequest(query=query, channels=channels, limit=limit, rerank=reranks, constitutional=False)
        return [hit.memory.id for hit in search(engine, asked).hits]

    singles = [find((channel,), DEPTH) for channel in (Channel.TEXT, Channel.VECTOR)]
    sums = defaultdict[str, float](float)
    for rank, name in chain.from_iterable(enumerate(each, start=1) for each in singles):
        sums[name] += 1 / (OFFSET + rank)
    ranks = sorted(sums, key=lambda name: (-sums[name], name))
    rankings = (*singles, ranks, find(tuple(Channel)), find(tuple(Channel), reranks=True))
    return dict(zip(WAYS, rankings, strict=True))


def measure_set(name: str, engine: Engine, judged: Sequence[JudgedQuery], documents: int) -> SetResult:
    """Search every query in every way, and compare ours with reciprocal ranks and with the best channel."""
    measure, score = MEASURES.get(name, _NDCG)
    columns = defaultdict[str, list[float]](list)
    for query in judged:
        for way, ranking in rank_ways(engine, query.query).items():
            columns[way].append(score(ranking, query.relevant))
    means = {way: mean(values) for way, values in columns.items()}
    leads = dict[str, tuple[float, float, float]]()
    for other in ("ranks", max(WAYS[:2], key=lambda way: means[way])):
        gaps = [one - two for one, two in zip(columns["reranked"], columns[other], strict=True)]
        leads[other] = (mean(gaps), *bootstrap_interval([[gap] for gap in gaps]))
    return SetResult(name=name, measure=measure, queries=len(judged), documents=documents, means=means, leads=leads)


def _pick(queries: Sequence[JudgedQuery]) -> list[JudgedQuery]:
    """At most QUERIES of them, from all over the list."""
    step = max(1, len(queries) // QUERIES)
    return [*queries[::step][:QUERIES]]


def _read_notes(path: Path, most: int) -> Judged:
    """All Markdown files, and the judged queries in a file next to their folder."""
    names = (file for file in sorted(path.rglob("*.md")) if not file.stem.endswith("-index"))
    texts = {str(file.relative_to(path).with_suffix("")): file.read_text(encoding="utf-8") for file in names}
    return texts, read_queries(path.parent / "serena-queries-dev.jsonl")


def _read_specifications(path: Path, most: int) -> Judged:
    """Known-item queries over specification documents; the folders of the first queries, up to `most` files."""
    root, texts, judged = path.parent / "workspace_2026-02-22", dict[str, str](), list[JudgedQuery]()
    for number, line in enumerate(lines_of(path, Row)):
        wanted = {_spec_id(name): root / name for name in (*line["folder_docs"], line["relevant"])}
        if len(texts | wanted) <= most:
            texts |= {name: file.read_text(encoding="utf-8") for name, file in wanted.items()}
            judged.append(JudgedQuery(id=str(number), query=line["query"], relevant={_spec_id(line["relevant"]): 2}))
    return texts, _pick(judged)


def _spec_id(path: str) -> str:
    return path.removeprefix(".opencode/").removesuffix(".md").replace("/z_archive/", "/")


def _read_beir(path: Path, most: int) -> Judged:
    """A set in the format of BEIR: the documents that the queries ask for, and others up to `most`."""
    judgements = defaultdict[str, dict[str, int]](dict)
    for line in (path / "qrels_dev.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, name, grade = line.split("\t")
        if int(grade) > 0:
            judgements[query][f"d{name}"] = min(int(grade), 10)
    asked = {line["_id"]: line["text"] for line in lines_of(path / "queries_dev.jsonl", Row)}
    named = [JudgedQuery(id=name, query=asked[name][:2000], relevant=judgements[name]) for name in asked]
    judged = _pick([query for query in named if query.relevant])
    corpus = {
        f"d{line['_id']}": f"{line['title'] and '# '}{line['title']}\n\n{line['text']}\n"
        for line in lines_of(path / "corpus.jsonl", Row)
    }
    wanted = {name for query in judged for name in query.relevant} & corpus.keys()
    others = [name for name in corpus if name not in wanted][: max(0, most - len(wanted))]
    return {name: corpus[name] for name in (*wanted, *others)}, judged


def _read_talks(path: Path, *, whole: bool) -> Judged:
    """Conversations of two people: one document per turn or per session; those that prove an answer are relevant."""
    texts, judged = dict[str, str](), list[JudgedQuery]()
    for number, talk in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        for session, turns in talk["conversation"].items():
            if re.fullmatch(r"session_\d+", session):
                date = talk["conversation"][f"{session}_date_time"]
                said = {turn["dia_id"]: f"{turn['speaker']}: {turn['text']}" for turn in turns}
                parts = {name.replace(":", "-"): text for name, text in said.items()}
                if whole:
                    parts = {session: "\n\n".join(said.values())}
                texts |= {f"talk{number}/{name}": f"{date}\n\n{text}\n" for name, text in parts.items()}
        for place, question in enumerate(talk["qa"]):
            proofs = [proof for each in question["evidence"] for proof in re.findall(r"D(\d+):(\d+)", each)]
            names = {f"talk{number}/session_{one}" if whole else f"talk{number}/D{one}-{two}" for one, two in proofs}
            if names & texts.keys():
                relevant = dict.fromkeys(sorted(names & texts.keys()), 1)
                judged.append(JudgedQuery(id=f"{number}.{place}", query=question["question"], relevant=relevant))
    return texts, _pick(judged)


def _read_chats(path: Path) -> Judged:
    """The first long chats with an assistant: one document per turn, and questions about some turns."""
    asked = [line for line in lines_of(path, Row) if line["ids_valid"] and line["source_ids"]]
    chats = sorted({line["chat"] for line in asked})[:CHATS]
    texts = dict[str, str]()
    for chat in chats:
        batches = json.loads((path.parent / "chats_dev" / chat / "chat.json").read_text(encoding="utf-8"))
        for turn in (turn for batch in batches for some in batch["turns"] for turn in some):
            texts[f"{chat}/{turn['id']}"] = f"{turn['content']}\n"
    judged = [
        JudgedQuery(
            id=str(number),
            query=line["question"],
            relevant={f"{line['chat']}/{name}": 1 for name in line["source_ids"] if f"{line['chat']}/{name}" in texts},
        )
        for number, line in enumerate(asked)
        if line["chat"] in chats
    ]
    return texts, [query for query in judged if query.relevant]


app = typer.Typer(add_completion=False)


@app.command("sets", epilog=example("scrimshaw eval sets judged --folder vaults"))
def run_sets(
    data: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="The folder of the unpacked sets.")],
    folder: Annotated[Path, typer.Option(file_okay=False, help="Keep the vaults and their indexes here.")],
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Measure this set (repeatable).")] = None,
    documents: Annotated[int, typer.Option(min=1, help="Maximum number of documents per set.")] = DOCUMENTS,
    as_json: frame.AsJson = False,
) -> None:
    """Search judged sets in several ways, and compare them with their 95 % intervals."""
    results = list[SetResult]()
    for name, read in read_sets(data).items():
        if only and name not in only:
            continue
        texts, judged = read(documents)
        with open_vault(folder, name) as engine, progress(name) as advance:
            fill_vault(engine, texts, advance)
            results.append(measure_set(name, engine, judged, len(texts)))
    show(results, as_json, _render)


def _render(results: Iterable[SetResult]) -> Lines:
    """A line for each set, and below it our leads."""
    for result in results:
        means = "  ".join(f"{way} {value:.3f}" for way, value in result.means.items())
        yield f"{result.name}, {result.measure}, {result.queries} queries over {result.documents}: {means}"
        for other, (lead, low, high) in result.leads.items():
            yield f"  over {other} {lead:+.3f} ({low:+.3f} to {high:+.3f})"
