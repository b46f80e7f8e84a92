"""Fit the weights by which texts that ask where the work stands are found, and judge them on other writers' texts:

    python -m benchmarks.asking [--others FILE] [--write]

`asking.tar.xz` has invented texts that people type to a coding agent, in sets of different writers, by language: those
that ask for the state of the work on a subject, those that ask for it without one, and others. FILE has more others,
one per line, such as prompts of recorded sessions. Each set is judged with weights that were fitted on the rest, FILE
by fifths. `--write` replaces session/asking.json.
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

import numpy as np
from msgspec import Struct
from scipy.sparse import csr_array

from benchmarks.selection import fit_logistic
from scrimshaw.session import resume
from scrimshaw.session.resume import ASKING_WORD, Asked, Asking, describe_text, find_asked

DATA, WEIGHTS = Path(__file__).with_suffix(".tar.xz"), Path(resume.__file__).with_name("asking.json")
KINDS = {"subject": Asked.SUBJECT, "session": Asked.SESSION, "other": None}  # by file
OTHERS, FOLDS = "others", 5
WORDS = ("cues", "others")
# Texts that have a word or a feature that is known: of those that name no subject, of others, of all.
LEAST_CUES, LEAST_OTHERS, LEAST_TEXTS = 2, 10, 2
LEAST_SHARE = 0.05  # of the texts on subjects in a language, that have a word which names none
MOST_FEATURES = 3000  # kept by weight and frequency
ROUNDS = 3  # in which words of no cue lose what they had in favour of asking
STRENGTH = 2.0  # of the fit against the penalty on the squares of the weights


class Example(Struct, frozen=True):
    """A text and what it asks for."""

    fold: str
    group: str  #: its set and kind of language
    language: str
    text: str
    asked: Asked | None


def main(arguments: list[str] | None = None) -> None:
    """Read, fit, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args(arguments)
    with TemporaryDirectory() as scratch, tarfile.open(DATA) as archive:
        archive.extractall(scratch, filter="data")
        examples = [*read_examples(Path(scratch) / "asking")]
    lines = given.others.read_text(encoding="utf-8").splitlines() if given.others else ()
    examples += [Example(f"{OTHERS} {place % FOLDS}", OTHERS, "", text, None) for place, text in enumerate(lines)]
    judged = Counter[tuple[str, str, bool]]()
    for fold in sorted({each.fold for each in examples}):
        fitted = fit([each for each in examples if each.fold != fold])
        resume.load_asking = lambda fitted=fitted: fitted  # type: ignore[assignment]
        for each in (each for each in examples if each.fold == fold):
            found = find_asked(each.text)
            judged[each.group, f"{each.asked or 'other'}", found == each.asked] += 1
            judged[each.group, f"{each.asked or 'other'} (asks or not)", bool(found) == bool(each.asked)] += 1
    for group, kind in sorted({key[:2] for key in judged}):
        right = judged[group, kind, True]
        print(f"{group}, {kind}: {right} of {right + judged[group, kind, False]} right")
    if given.write:
        fitted = fit(examples)
        words = (f'"{name}": {json.dumps(sorted(getattr(fitted, name)), ensure_ascii=False)}' for name in WORDS)
        weights = (f"{json.dumps(x, ensure_ascii=False)}: {json.dumps(y)}" for x, y in sorted(fitted.weights.items()))
        WEIGHTS.write_text("{\n" + ",\n".join([*words, '"weights": {\n' + ",\n".join(weights)]) + "\n}}\n", "utf-8")
        print(f"{len(fitted.weights)} weights in {WEIGHTS}")


def read_examples(data: Path) -> Iterator[Example]:
    """The texts of all sets; each is a folder of languages, a language one of files by kind."""
    for file in sorted(data.glob("*/*/*.txt")):
        writer, language = file.parts[-3:-1]
        group = f"{writer} {'English' if language == 'en' else 'other languages'}"
        for text in file.read_text(encoding="utf-8").splitlines():
            yield Example(writer, group, language, text, KINDS[file.stem])


def fit(examples: Sequence[Example]) -> Asking:
    """Cues are words of texts without a subject, and what a language has beside any subject.

    No other word counts for asking: it may be of a subject.
    """
    counts, beside = defaultdict[Asked | None, Counter[str]](Counter), defaultdict[str, Counter[str]](Counter)
    for each in examples:
        words = {word for word in ASKING_WORD.findall(each.text.lower()) if not word.isdecimal()}
        counts[each.asked].update(words)
        beside[each.language].update(words if each.asked == Asked.SUBJECT else ())
    subjects = Counter(each.language for each in examples if each.asked == Asked.SUBJECT)
    common = (word for name, many in subjects.items() for word, x in beside[name].items() if x >= LEAST_SHARE * many)
    cues = frozenset([*common, *(word for word, count in counts[Asked.SESSION].items() if count >= LEAST_CUES)])
    others = frozenset(word for word, count in counts[None].items() if count >= LEAST_OTHERS) - cues
    asking = Asking(cues, others, {})
    features = [frozenset(describe_text(each.text, asking)) for each in examples]
    found = Counter(name for each in features for name in each)
    names, weights = [name for name, count in found.items() if count >= LEAST_TEXTS], dict[str, tuple[int, int]]()
    for _ in range(ROUNDS):
        weights = _fit(examples, features, names)
        names = [name for name in names if weights[name][0] <= 0 or others.isdisjoint(name.split())]
    kept = sorted(names, key=lambda name: -max(map(abs, weights[name])) * math.sqrt(found[name]))[:MOST_FEATURES]
    weights = _fit(examples, features, kept)
    clear = {
        name: (min(0, asks), names) for name, (asks, names) in weights.items() if not others.isdisjoint(name.split())
    }
    return Asking(cues, others, weights | clear)


def _fit(
    examples: Sequence[Example], features: Sequence[frozenset[str]], names: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """The weights of these features and the constant: of asking, and of a subject among texts that ask."""
    column = {name: place for place, name in enumerate(names)}
    found = [[column[name] for name in each if name in column] for each in features]
    ends = np.cumsum([0, *map(len, found)])
    places = np.array([place for each in found for place in each], dtype=int)
    matrix = csr_array((np.ones(len(places)), places, ends), shape=(len(examples), len(names)))
    is_asked = np.array([bool(each.asked) for each in examples])
    asks = fit_logistic(matrix, is_asked, np.ones(len(examples)), STRENGTH)
    names_subject = [each.asked == Asked.SUBJECT for each in examples]
    subject = fit_logistic(matrix, names_subject, is_asked.astype(float), STRENGTH)
    fitted = np.rint(100 * np.array([asks, subject])).astype(int).T.tolist()
    return {name: (asks, subject) for name, (asks, subject) in zip(["", *names], fitted, strict=True)}


if __name__ == "__main__":
    main()
