"""Makes secrets in the forms in which people write them, and counts what the gate finds by vendor and context.

A vendor's own rules are left out while its keys are judged, so each counts as a vendor that the rules never saw. The
seed makes half of the vendors and of the contexts `tuned`: only their misses are shown to who writes rules.
"""

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

from msgspec import Struct

from scrimshaw.app.cli.output import Lines, line
from scrimshaw.ingest.redact import TOKENS, redact
from scrimshaw.ingest.secret_values import TABLE, SecretRule
from scrimshaw.ingest.tables import load_table
from scrimshaw_lab.metrics import PERSONAL_CLASSES, Rate, count_hits, group_hits

_LOWER = "abcdefghijklmnopqrstuvwxyz"
_LETTERS = _LOWER + _LOWER.upper()
_DIGITS = "0123456789"
_ALPHABETS = {
    "a": _LOWER + _DIGITS,
    "A": _LETTERS + _DIGITS,
    "u": _LOWER.upper() + _DIGITS,
    "L": _LETTERS,
    "l": _LOWER,
    "d": _DIGITS,
    "x": "0123456789abcdef",
    "w": _LETTERS + _DIGITS + "_-",
    "b": _LETTERS + _DIGITS + "+/",
    "2": _LOWER.upper() + "234567",
}
_BASE_62 = _DIGITS + _LOWER.upper() + _LOWER
_MARKS = "!#$%&()*+,-./:;=?@^_~"
_SENTENCE_MARKS = ".,;:!?)"  # they end a password in prose, but may be part of a key
_OWNERS = ("", "app ", "billing ", "my ", "staging ")
_DRAWN = r"\{(?:(?P<alphabet>\w):(?P<length>\d+)|crc)\}"


class Context(Struct, frozen=True, kw_only=True):
    """A place for a secret: what it takes, whether it announces one, and the marks that would end a value."""

    name: str
    takes: str
    named: bool
    stops: str
    text: str


class FormTable(Struct, frozen=True):
    """`secret_forms.toml`."""

    vendors: str
    hexadecimal: str
    passwords: str
    key_names: str
    password_names: str
    contexts: list[Context]


class Form(NamedTuple):
    """A secret in its context; `tuned` says whether rules may be written for its vendor and context."""

    vendor: str
    context: Context
    text: str
    start: int
    end: int
    tuned: str


class FormJudgement(NamedTuple):
    """Whether the gate removed the whole value of a form, and whether nothing else."""

    form: Form
    found: bool
    exact: bool


class FormReport(Struct, frozen=True, kw_only=True):
    """Recall on made forms: of vendors without their own rules, and of passwords."""

    named: dict[str, Rate]
    bare: dict[str, Rate]
    bare_hexadecimal: Rate
    passwords: dict[str, Rate]
    exact: Rate
    with_all_rules: Rate
    by_vendor: dict[str, Rate]
    by_context: dict[str, Rate]
    misses: list[str]


def make_forms(seed: int) -> Iterator[Form]:
    """Every vendor and kind of password in every context that takes it, with values drawn by `seed`."""
    table = load_table(__file__, "secret_forms", FormTable)
    tuned = _choose_half([context.name for context in table.contexts], Random(f"contexts {seed}"))
    for takes, grammars, names in (
        ("key", table.vendors, table.key_names.splitlines()),
        ("key", table.hexadecimal, table.key_names.splitlines()),
        ("password", table.passwords, table.password_names.splitlines()),
    ):
        rows = [row.split(maxsplit=1) for row in grammars.splitlines()]
        tuned |= _choose_half([vendor for vendor, _ in rows], Random(f"{takes} {seed}"))
        for vendor, grammar in rows:
            for context in (context for context in table.contexts if takes in context.takes.split()):
                chance = Random(f"{seed} {vendor} {context.name}")
                value = draw_value(grammar, chance, context.stops)
                stops = set(context.stops) - set(_SENTENCE_MARKS if takes == "key" else "")
                if stops.isdisjoint(value):
                    halves = [name in tuned for name in (vendor, context.name)]
                    fold = "tuned" if all(halves) else "unseen" if not any(halves) else "half seen"
                    before, after = _name(context.text, chance.choice(_OWNERS) + chance.choice(names)).split("@VALUE@")
                    end = len(before) + len(value)
                    yield Form(vendor, context, before + value + after, len(before), end, fold)


def draw_value(grammar: str, chance: Random, stops: str = "") -> str:
    """A random value of a grammar, without the marks in `stops`."""
    marks = [mark for mark in _MARKS if mark not in stops] or ["x"]
    value = ""
    end = 0
    for drawn in re.finditer(_DRAWN, grammar):
        value += grammar[end : drawn.start()]
        end = drawn.end()
        if drawn["alphabet"]:
            letters = marks if drawn["alphabet"] == "s" else _ALPHABETS[drawn["alphabet"]]
            value += "".join(chance.choices(letters, k=int(drawn["length"])))
        else:
            number = zlib.crc32(value.rpartition("_")[2].encode())
            value += "".join(_BASE_62[number // 62**place % 62] for place in reversed(range(6)))
    return value + grammar[end:]


def evaluate_forms(seed: int, most_misses: int = 0) -> FormReport:
    """Judge every form, without the rules that know the keys of its vendor."""
    judged = []
    with_all_rules = []
    forms = defaultdict(list)
    for form in make_forms(seed):
        forms[form.vendor].append(form)
    for group in forms.values():
        with_all_rules += [_judge(form).found for form in group[:: max(1, len(group) // 10)]]
        with _without_rules_of({form.text[form.start : form.end] for form in group}):
            judged += [_judge(form) for form in group]
    passwords = set(load_table(__file__, "secret_forms", FormTable).passwords.split()[::2])
    keys = [each for each in judged if each.form.vendor not in passwords]
    bare = [each for each in keys if not each.form.context.named]
    missed = [each.form for each in judged if each.form.tuned == "tuned" and not each.exact]
    return FormReport(
        named=_by_fold(each for each in keys if each.form.context.named),
        bare=_by_fold(each for each in bare if not _is_bare_hex(each.form)),
        bare_hexadecimal=count_hits(each.found for each in bare if _is_bare_hex(each.form)),
        passwords=_by_fold(each for each in judged if each.form.vendor in passwords),
        exact=count_hits(each.exact for each in judged if each.found),
        with_all_rules=count_hits(with_all_rules),
        by_vendor=group_hits((each.form.vendor, each.found) for each in judged),
        by_context=group_hits((each.form.context.name, each.found) for each in judged),
        misses=[f"{form.vendor} in {form.context.name}: {form.text!r}" for form in missed[:most_misses]],
    )


def render_forms(report: FormReport) -> Lines:
    """The report in lines: the totals, then vendors and contexts with misses."""
    rates = {
        **{f"named, {fold}": rate for fold, rate in report.named.items()},
        **{f"bare in prose, {fold}": rate for fold, rate in report.bare.items()},
        "bare hexadecimal": report.bare_hexadecimal,
        **{f"passwords, {fold}": rate for fold, rate in report.passwords.items()},
        "of those found, nothing else removed": report.exact,
        "with the vendors' own rules": report.with_all_rules,
    }
    titles = {
        "Recall on vendors without their rules": rates,
        "Vendors with misses": {name: rate for name, rate in report.by_vendor.items() if rate.hit < rate.total},
        "Contexts with misses": {name: rate for name, rate in report.by_context.items() if rate.hit < rate.total},
    }
    for title, shown in titles.items():
        yield line("\n", (title, "bold"))
        for name, rate in sorted(shown.items(), key=lambda row: row[1].value) if shown is not rates else shown.items():
            yield f"{rate.hit:>6} of {rate.total:<6}{rate.value:7.1%}  {name}"
    yield from report.misses


def _choose_half(names: list[str], chance: Random) -> set[str]:
    return set(chance.sample(names, len(names) // 2))


def _name(text: str, words: str) -> str:
    parts = words.split()
    camel = "".join(map(str.capitalize, parts))
    spellings = {
        "NAME": "_".join(parts).upper(),
        "name": "_".join(parts),
        "camel": camel[0].lower() + camel[1:],
        "Pascal": camel,
        "kebab": "-".join(parts),
        "Kebab": "-".join(map(str.capitalize, parts)),
        "words": words,
    }
    for name, spelling in spellings.items():
        text = text.replace(f"@{name}@", spelling)
    return text


@contextmanager
def _without_rules_of(values: set[str]) -> Iterator[None]:
    """Leave out the rules that match one of these values while the block runs."""
    kept: list[tuple[list[SecretRule], list[SecretRule]]] = [(rules, rules[:]) for rules in (TOKENS, TABLE.shapes)]
    try:
        for rules, whole in kept:
            rules[:] = [rule for rule in whole if not any(re.search(rule.pattern, value) for value in values)]
        yield
    finally:
        for rules, whole in kept:
            rules[:] = whole


def _judge(form: Form) -> FormJudgement:
    spans = [span for span in redact(form.text).spans if span.secret_class not in PERSONAL_CLASSES]
    found = any(span.start <= form.start and form.end <= span.end for span in spans)
    return FormJudgement(form, found, [(span.start, span.end) for span in spans] == [(form.start, form.end)])


def _is_bare_hex(form: Form) -> bool:
    return bool(re.fullmatch(r"[0-9a-f-]+", form.text[form.start : form.end]))


def _by_fold(judged: Iterable[FormJudgement]) -> dict[str, Rate]:
    return group_hits((each.form.tuned, each.found) for each in judged)
