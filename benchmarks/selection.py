"""Fit the weights by which the sentences of a session are selected, and judge them on sessions they were not fitted on:

    python -m benchmarks.selection [--recorded HOME] [--write]

`selection.tar.xz` has 180 invented sessions in nineteen sets, and the sentences of these and of recorded sessions
that a careful reader wants in a note for a successor, by kind. HOME has the recorded sessions, as `scrimshaw eval
drafts` reads them; without it the weights are fitted on the invented ones alone. Each set, and each fifth of the
recorded sessions, is judged with weights that were fitted on all others. `--write` replaces session/selection.json.

The first five sets and the others had different readers: of the first half of all sentences is wanted, of the others a
third. So each of these groups has a constant of its own, and the one of the stricter readers is the one that is kept.
"""

from __future__ import annotations

import argparse
import json
import math
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from msgspec import Struct
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit

from scrimshaw.config import Settings
from scrimshaw.engine import open_engine
from scrimshaw.session import selection
from scrimshaw.session.record import Record
from scrimshaw.session.selection import KINDS, LEAST_WORTH, describe_sentences
from scrimshaw_lab.recorded_sessions import NAMES, import_sessions

DATA, WEIGHTS = Path(__file__).with_suffix(".tar.xz"), Path(selection.__file__).with_suffix(".json")
RECORDED, FOLDS = "recorded", 5
# Readers of the first sets wanted more; all other sets had strict ones, whose sentences count SHARE times.
READERS = {
    RECORDED: "readers: recorded",
    **dict.fromkeys(("first", "second", "third", "fourth", "fifth"), "readers: first"),
}
STRICT, SHARE = "readers: strict", 2
LEAST_SESSIONS = 20  # that have a feature; others belong to a subject
LEAST_WEIGHT = 12  # hundredths; a feature with less in all outputs is left out
STRENGTH, OF_KINDS = 0.05, 0.2  # of the fit against the penalty on the squares of the weights
LONG = 250  # sentences; those of a longer session count less, as the root of how much longer it is


class Example(Struct, frozen=True):
    """A sentence with its features and the kinds that a reader gave it."""

    session: str
    fold: str
    group: str  #: the readers
    features: frozenset[str]
    kinds: frozenset[str]
    weight: float


def main(arguments: list[str] | None = None) -> None:
    """Read, fit, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorded", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args(arguments)
    with TemporaryDirectory() as scratch, tarfile.open(DATA) as archive:
        archive.extractall(scratch, filter="data")
        examples = [*read_examples(Path(scratch) / "selection", given.recorded)]
    counts = Counter(name for name, _ in {(name, each.session) for each in examples for name in each.features})
    names = sorted(name for name, count in counts.items() if count >= LEAST_SESSIONS)
    for fold in sorted({each.fold for each in examples}):
        print(judge_fold(examples, names, fold), flush=True)
    if given.write:
        weights = fit(examples, names)
        lines = (f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(weights[name])}" for name in sorted(weights))
        WEIGHTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        print(f"{len(weights)} weights in {WEIGHTS}")


def read_examples(data: Path, recorded: Path | None) -> Iterator[Example]:
    """The sentences of all labelled sessions."""
    kinds = defaultdict[tuple[str, ...], set[str]](set)
    for line in (data / "labels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        *sentence, kind = line.split("\t")
        kinds[tuple(sentence)].add(kind)
    labelled = {sentence[:2] for sentence in kinds}
    homes = {path.name: path for path in data.iterdir() if path.is_dir()} | ({RECORDED: recorded} if recorded else {})
    for number, (name, home) in enumerate(sorted(homes.items())):
        sessions = {key: each["session"] for key, each in json.loads((home / NAMES).read_text()).items()}
        place = data.parent / str(number)
        import_sessions(place, [home], "--no-vectors")
        with open_engine(Settings(project=place / "project", home=place / "home")) as engine:
            for key, session in sorted(sessions.items()):
                if (name, session) in labelled and engine.sessions.get(key):
                    record = Record(engine.sessions.events(key), engine.sessions.items(key))
                    fold = f"{name} {sum(map(ord, session)) % FOLDS}" if name == RECORDED else name
                    group = READERS.get(name, STRICT)
                    weight = math.sqrt(min(1.0, LONG / max(1, len(record.sentences))))
                    weight *= SHARE if group == STRICT else 1
                    for said, features in zip(record.sentences, describe_sentences(record), strict=True):
                        found = kinds.get((name, session, str(said.event), str(said.place)), ())
                        yield Example(session, fold, group, frozenset(features), frozenset(found), weight)


def judge_fold(examples: Sequence[Example], names: Sequence[str], fold: str) -> str:
    """How weights that were fitted on the other parts select the sentences of one."""
    weights = fit([each for each in examples if each.fold != fold], names)
    held = [each for each in examples if each.fold == fold]
    right, named, chosen = 0, 0, 0
    for each in held:
        known = [weights[name] for name in ("", *each.features) if name in weights]
        worth, *odds = map(sum, zip(*known, strict=True))
        if expit(worth / 100) >= LEAST_WORTH:
            chosen += 1
            right += bool(each.kinds)
            named += KINDS[int(np.argmax(odds))] in each.kinds
    wanted = sum(bool(each.kinds) for each in held)
    return f"{fold}: {len(held)} sentences, {wanted} wanted; {chosen} selected, {right} of them wanted, {named} by kind"


def fit(examples: Sequence[Example], names: Sequence[str]) -> dict[str, list[int]]:
    """The weights times 100 by feature, `""` for the constant: of being wanted, then of each kind if it is."""
    groups = sorted({each.group for each in examples})
    column = {name: place for place, name in enumerate([*names, *groups])}
    found = [[column[name] for name in (*each.features, each.group) if name in column] for each in examples]
    ends = np.cumsum([0, *map(len, found)])
    places = np.concatenate([*map(np.array, found)]).astype(int)
    matrix = csr_array((np.ones(len(places)), places, ends), shape=(len(examples), len(column)))
    share = np.array([each.weight for each in examples])
    wanted = np.array([bool(each.kinds) for each in examples])
    worth = fit_logistic(matrix, wanted, share, STRENGTH)
    worth[0] += worth[1 + column[STRICT]]
    told, of_names = [each for each in examples if each.kinds], matrix[wanted][:, : len(names)]
    kinds = [fit_logistic(of_names, [x in each.kinds for each in told], share[wanted], OF_KINDS) for x in KINDS]
    fitted = np.rint(100 * np.array([worth[: 1 + len(names)], *kinds])).astype(int)
    by_name = dict(zip(["", *names], fitted.T, strict=True))
    return {name: each.tolist() for name, each in by_name.items() if not name or abs(each).max() >= LEAST_WEIGHT}


def fit_logistic(matrix: Any, wanted: Any, share: Any, strength: float) -> Any:
    """A logistic regression with a penalty on the squares of its weights; the constant comes first."""
    sign = np.where(wanted, 1.0, -1.0)

    def loss(weights: Any) -> tuple[float, Any]:
        margins = sign * (matrix @ weights[1:] + weights[0])
        slope = -strength * share * sign * expit(-margins)
        value = strength * float(share @ np.logaddexp(0, -margins)) + float(weights[1:] @ weights[1:]) / 2
        return value, np.concatenate([[slope.sum()], matrix.T @ slope + weights[1:]])

    return minimize(loss, np.zeros(matrix.shape[1] + 1), jac=True, method="L-BFGS-B").x


if __name__ == "__main__":
    main()
