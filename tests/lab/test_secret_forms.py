"""Made secrets: what the generator draws, and what the gate does with vendors that its rules do not know."""

from __future__ import annotations

import re
import zlib
from random import Random

import msgspec
import pytest

from scrimshaw.app.cli.main import main
from scrimshaw.ingest.redact import TOKENS
from scrimshaw.ingest.secret_values import TABLE
from scrimshaw_lab.secret_forms import FormReport, draw_value, make_forms, render_forms

SEED = 3


def test_the_same_seed_makes_the_same_forms_and_another_one_others() -> None:
    forms = list(make_forms(SEED))

    assert forms == list(make_forms(SEED))
    assert forms != list(make_forms(SEED + 1))
    assert all("@" + name not in form.text for form in forms for name in ("NAME@", "name@", "VALUE@", "words@"))


def test_each_form_says_where_its_secret_stands_and_which_half_it_is_in() -> None:
    forms = list(make_forms(SEED))

    assert {form.tuned for form in forms} == {"tuned", "half seen", "unseen"}
    assert all(form.text[form.start : form.end].strip() for form in forms)
    assert {form.vendor for form in forms if form.tuned == "tuned"}.isdisjoint(
        form.vendor for form in forms if form.tuned == "unseen"
    )


def test_a_value_follows_its_grammar_to_the_checksum() -> None:
    value = draw_value("ghp_{A:30}{crc}", Random(SEED))

    assert re.fullmatch(r"ghp_[A-Za-z0-9]{36}", value)
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    checksum = sum(digits.index(digit) * 62**place for place, digit in enumerate(reversed(value[-6:])))
    assert checksum == zlib.crc32(value[4:-6].encode())
    assert not set(draw_value("{s:200}", Random(SEED), "!#$")) & set("!#$")


def test_vendors_without_their_rules_are_found_and_the_rules_are_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = [*TOKENS], [*TABLE.shapes]

    assert main(["eval", "redact", "--forms", "--seed", str(SEED), "--misses", "5", "--json"]) == 0

    assert ([*TOKENS], [*TABLE.shapes]) == before
    report = msgspec.json.decode(capsys.readouterr().out, type=FormReport)
    assert report.with_all_rules.total > 1000
    assert sum(rate.hit for rate in report.named.values()) >= 0.97 * sum(rate.total for rate in report.named.values())
    assert sum(rate.hit for rate in report.bare.values()) >= 0.85 * sum(rate.total for rate in report.bare.values())
    assert report.exact.value >= 0.99
    assert len(report.misses) <= 5
    assert "Recall on vendors without their rules" in "\n".join(map(str, render_forms(report)))


def test_the_command_needs_something_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "redact"]) == 1
    assert "--labelled" in capsys.readouterr().err
