"""The forms a text that has to go may have taken."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.secret_encodings import traces_of_passages, traces_of_pattern, traces_of_secret
from scrimshaw.models import PURGED

NEEDLE = "zanzi\"bar/walrus's + 77 ü"

texts = st.text(st.characters(exclude_categories=["Cs"]))
secrets = st.text(st.characters(exclude_categories=["Cs"]), min_size=8).filter(
    lambda text: len(text.strip()) >= 8 and text not in PURGED
)

FORMS: Mapping[str, Callable[[str], bytes]] = {
    "plain": lambda text: text.encode(),
    "json": lambda text: json.dumps({"a": text}).encode(),
    "json, unescaped": lambda text: json.dumps([text], ensure_ascii=False).encode(),
    "json in json": lambda text: json.dumps({"a": json.dumps({"b": text})}).encode(),
    "yaml": lambda text: f"a: '{text.replace(chr(39), chr(39) * 2)}'".encode(),
    "url": lambda text: f"https://x.y/?a={quote(text, safe='')}".encode(),
    "url, path": lambda text: quote(text).encode(),
    "form": lambda text: quote_plus(text).encode(),
    "base64": lambda text: base64.b64encode(text.encode()),
    "base64, shifted by 1": lambda text: base64.b64encode(b"a" + text.encode() + b"b"),
    "base64, shifted by 2": lambda text: base64.urlsafe_b64encode(b"\xff\xfe" + text.encode() + b"\xff"),
    "hex": lambda text: text.encode().hex().encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16-be": lambda text: b"\0x" + text.encode("utf-16-be"),
    "utf-32": lambda text: text.encode("utf-32"),
    "utf-32-be": lambda text: text.encode("utf-32-be"),
    "base64, in lines": lambda text: base64.encodebytes(b"x" * 40 + text.encode() + b"y" * 90),
    "base64, in lines of a key": lambda text: wrapped(base64.b64encode(b"x" * 40 + text.encode() + b"y" * 9), 64),
    "base64, in lines of Windows": lambda text: wrapped(base64.b64encode(b"x" * 40 + text.encode()), 64, b"\r\n  "),
    "base64, in lines in json": lambda text: json.dumps(
        base64.encodebytes(b"x" * 41 + text.encode()).decode()
    ).encode(),
    "broken": lambda text: wrapped(text.encode(), 7),
    "broken and indented": lambda text: wrapped(text.encode(), 5, b"\n      "),
    "broken in a shell": lambda text: wrapped(text.encode(), 5, b"\\\n"),
    "quoted-printable": lambda text: wrapped(text.encode(), 5, b"=\r\n"),
    "broken at a space": lambda text: text.replace(" ", "\n    ").encode(),
    "hex, in lines": lambda text: wrapped(text.encode().hex().encode(), 16),
    "lines of windows": lambda text: text.replace("\n", "\r\n").encode(),
}


def wrapped(data: bytes, width: int, end: bytes = b"\n") -> bytes:
    return end.join(data[at : at + width] for at in range(0, len(data), width))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_found_and_goes(form: str) -> None:
    traces, data = traces_of_secret(NEEDLE), b"before " + FORMS[form](NEEDLE) + b" after"
    assert traces.count(data) == 1
    erased = traces.erase(data)
    assert traces.count(erased) == 0
    assert PURGED.encode() in erased.replace(b"\0", b"")
    assert erased.startswith(b"before ")
    assert erased.endswith(b" after")


@pytest.mark.parametrize(
    "data",
    [
        rb'{"k":"a\u003cb\u003e c\u0026d\"e' + "'f+g é".encode() + rb'\\u00e9"}',  # Go leaves other letters alone
        rb'{"k":"a\u003Cb\u003E c\u0026d\u0022e\u0027f\u002Bg \u00E9\\u00e9"}',  # .NET
        rb"""{"k":"a<b> c&d\"e'f+g \u00E9\\u00e9"}""",  # Java
        rb"""{"k":"{\"k\":\"a\\u003cb\\u003e c\\u0026d\\\"e'f+g """ + "é".encode() + rb"""\\\\u00e9\"}"}""",
    ],
)
def test_json_of_other_writers_is_found(data: bytes) -> None:
    secret = "a<b> c&d\"e'f+g é\\u00e9"
    inner = json.loads(data)["k"]
    assert secret in (inner, inner.startswith("{") and json.loads(inner)["k"])
    traces = traces_of_secret(secret)
    assert traces.count(data) == 1
    assert json.loads(traces.erase(data))


@given(secret=secrets, before=texts, after=texts)
def test_whatever_stands_around_it_nothing_is_left(secret: str, before: str, after: str) -> None:
    traces = traces_of_secret(secret)
    for data in ((before + secret + after).encode(), base64.b64encode((before + secret + after).encode())):
        assert traces.count(data) >= 1
    assert secret.encode() not in traces.erase((before + " " + secret + " " + after).encode())


def test_every_place_is_found_whether_broken_or_not() -> None:
    traces = traces_of_secret("zanzibar-walrus-77")
    data = (
        b"\n\nzanzibar-walrus-77\n\nzanzibar-\n\n  walrus-77 zanzibar-walrus-77"
        b" a\nb zanz\nibar-wal\nrus-77zanzibar-walrus-77"
    )
    assert traces.count(data) == 5
    assert traces.erase(data) == b"\n\n%b\n\n%b %b a\nb %b%b" % ((PURGED.encode(),) * 5)


def test_a_key_of_many_lines_is_found_where_it_is_indented() -> None:
    key = "-----BEGIN KEY-----\n" + "\n".join("abcdefghij" * 6 + str(n) for n in range(60)) + "\n-----END KEY-----"
    data = ("key: |\n  " + key.replace("\n", "\n  ") + "\nother: 1\n").encode()
    assert traces_of_secret(key).erase(data) == f"key: |\n  {PURGED}\nother: 1\n".encode()


def test_pieces_that_are_not_neighbours_are_not_it() -> None:
    assert traces_of_secret("zanzibar-walrus-77").count(b"zanzibar-\n> walrus-77\nzanzibar-\nx\nwalrus-77") == 0


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"trigger_phrases: [copper lantern, ninth gate, vault]\ntopics: [copper, gate]", 2),
        (b'["ninth gate","Copper Lantern"]', 2),
        (b"- lantern ninth\n- lamp\n", 1),
        (b"open-it-with-copper-lantern-a1b2.md", 1),
        (b"copper lantern", 1),  # a row
        (b"The copper lantern of the ninth gate is old.\ncopper lantern\n", 0),  # anybody's words
        (b"[copper, lantern, ninth, gate]", 0),
    ],
)
def test_parts_of_several_words_are_found_as_values(data: bytes, count: int) -> None:
    traces = traces_of_secret("copper lantern ninth gate")
    assert traces.count(data) == count
    assert traces.count(traces.erase(data)) == 0


def test_a_drawn_word_of_several_is_found_anywhere() -> None:
    traces = traces_of_secret("Grx-kqv92mzt pelican quay")
    assert traces.count(b"the kqv92mzt of 2026, Kqv92MZT, by the pelican of the quay") == 2
    assert traces_of_secret("Pelican 20261123 quay").count(b"on 20261123 at noon") == 0


@pytest.mark.parametrize("secret", ["x" * 300_000, "walrus-\udcff-77"])
def test_what_cannot_be_looked_for_is_refused(secret: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidRequest):
        traces_of_secret(secret)
    assert capfd.readouterr() == ("", "")


def test_an_expression_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        traces_of_pattern("walrus-\udcff-77")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("title: zanzibar-Walrus-77 opens the door\n", {"title": f"{PURGED} opens the door"}),
        ("trigger_phrases: [phrase zanzibar-walrus-77]\n", {"trigger_phrases": [f"phrase {PURGED}"]}),
        ("topics: [zanzibar walrus, keel]\n", {"topics": [PURGED, "keel"]}),  # a part of it, as a value
        ("topics:\n  - zanzibar walrus 77\n  - keel\n", {"topics": [PURGED, "keel"]}),
        ("title: &t zanzibar-walrus-77\nsummary: *t\n", {"title": PURGED, "summary": PURGED}),
        ("relations:\n  relates_to: [zanzibar-walrus-77]\n", {"relations": {"relates_to": [PURGED]}}),
        (
            "provenance: {source: cli, session: zanzibar-walrus-77}\n",
            {"provenance": {"source": "cli", "session": PURGED}},
        ),
    ],
)
def test_front_matter_stays_readable_without_it(before: str, after: dict[str, object]) -> None:
    traces = traces_of_secret("zanzibar-walrus-77")
    clean = traces.erase(f"---\ntype: decision  # settled\n{before}---\nIt is zanzibar-walrus-77.\n".encode())
    file = parse_memory_file(clean)
    assert (file.problem, traces.count(clean)) == (None, 0)
    assert file.values == {"type": "decision", **after}
    assert file.body == f"It is {PURGED}.\n"
    assert file.yaml.startswith("type: decision  # settled\n")


@pytest.mark.parametrize(
    "yaml", ["[zanzibar-walrus-77", "title: [a\nx: zanzibar-walrus-77\n", "zanzibar-walrus-77: a\n"]
)
def test_it_goes_from_front_matter_that_cannot_be_read_too(yaml: str) -> None:
    traces = traces_of_secret("zanzibar-walrus-77")
    assert traces.count(traces.erase(f"---\n{yaml}---\nText.\n".encode())) == 0


@given(data=st.binary())
def test_what_does_not_hold_it_stays_as_it_is(data: bytes) -> None:
    assert traces_of_secret(NEEDLE).erase(data) == data


@pytest.mark.parametrize("secret", ["", "short", "     a     ", "purged", PURGED, "REDACTED"])
def test_what_stands_everywhere_is_refused(secret: str) -> None:
    with pytest.raises(InvalidRequest):
        traces_of_secret(secret)


@pytest.mark.parametrize("pattern", ["", "a*", ".+", "[a-z]+", "x(", r"(a)\1", r"\[REDACTED"])
def test_a_pattern_that_describes_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        traces_of_pattern(pattern)
    assert raised.value.details["parameter"] == "pattern"


def test_a_pattern_reads_characters_and_lives_with_other_bytes() -> None:
    traces = traces_of_pattern(r"key-.ü-\d{4}")
    assert traces.erase("a key-ß".encode() + b"\xff" + "key-ßü-1234!".encode()) == (
        "a key-ß".encode() + b"\xff" + PURGED.encode() + b"!"
    )
    assert traces.mask("the key-aü-9999") == f"the {PURGED}"


def test_of_two_passages_the_longer_one_goes() -> None:
    traces = traces_of_passages(["the walrus", "the walrus sleeps"])
    assert traces.erase(b"the walrus sleeps; the walrus") == f"{PURGED}; {PURGED}".encode()
    assert traces.found(b"the walrus sleeps") == {b"the walrus sleeps"}


def test_without_passages_nothing_is_found() -> None:
    traces = traces_of_passages([])
    assert (traces.count(b"x"), traces.found(b"x"), traces.erase(b"x")) == (0, set(), b"x")
