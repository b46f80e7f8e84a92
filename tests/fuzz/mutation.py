"""Inputs made from seeds: texts torn, doubled and spliced, JSON with other values in it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.samples import SECRET

LONGEST = 200_000
# What parsers trip over: marks of Markdown and YAML, ends of lines, half characters, depth, numbers out of range.
_MARKS = r"""
--- ``` ~~~ # ## > - * 1. | [[ ]] [x](y) <!-- --> &lt; </scrimshaw-memory> mem: $( ` \ ' " : ; , { } [ ] ( ) &a [*a]
!!python/object <<: *a ? x key: [ %YAML 1.2 NaN Infinity -0 1e999 99999999999999999999999 0x10 true null
../../etc/passwd C:\x con /dev/zero file:/// password= api_key: Bearer https://u:p@h/ -----BEGIN postgres://a:b@c/d
Exit code 1 Traceback Error:
"""
_BREAKS = ("\n", "\r\n", "\r", "\t", "\0", "\x1b", "\u2028", "\u202e", "\ufeff", "\ud800", "\n---\n", "\n  ", ": |\n")
TOKENS: tuple[str, ...] = (*_MARKS.split(), *_BREAKS, "\U0001f469\u200d\U0001f680", "e\u0301", "İ", "ß")
_NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -1.5, 1e308)
_TEXTS = ("", " ", "x", "\0", "a" * 5000, "2026-11-22", "1", "/", ".", "..", "normal")
VALUES: tuple[Any, ...] = (None, True, False, *_NUMBERS, *_TEXTS, [], {}, [[]], [None], {"": None}, [1, "a", {}])
MARKED = f"note {SECRET} end"


class Mutator:
    """Makes an input from one of `seeds`; the same random numbers make the same input."""

    def __init__(self, seeds: Sequence[str], random: Random) -> None:
        self._seeds = [seed for seed in seeds if seed] or ["x"]
        self._random = random
        self._changes: tuple[Callable[[str], str], ...] = (
            self._cut, self._doubled, self._with_token, self._spliced, self._swapped, self._repeated, self._lines_mixed,
        )  # fmt: skip

    def text(self) -> str:
        """A seed with a few changes; now and then a very long one, now and then with a secret at its end."""
        text = self._seed()
        for _ in range(self._random.randrange(6)):
            text = self._random.choice(self._changes)(text)[:LONGEST]
        if self._random.random() < 0.02:
            text = (text * (LONGEST // 4 // max(len(text), 1) + 1))[: LONGEST // 4]
        return f"{text} {MARKED}" if self._random.random() < 0.2 else text

    def json(self) -> str:
        """A seed of JSON with other values, other keys, or, seldom, torn as a text."""
        if self._random.random() < 0.1:
            return self.text()
        try:
            value = json.loads(self._seed())
        except ValueError:
            return self.text()
        for _ in range(1 + self._random.randrange(4)):
            value = self.changed(value)
        return json.dumps(value)

    def lines(self) -> str:
        """Lines of JSON, each changed with some chance."""
        rows = self._seed().splitlines()
        return "\n".join(self._line(row) for row in rows if self._random.random() < 0.9)

    def changed(self, value: Any) -> Any:
        """A JSON value with something else at some place in it."""
        if not isinstance(value, list | dict) or not value or self._random.random() < 0.15:
            return self._value(value)
        place = self._random.choice(sorted(value) if isinstance(value, dict) else range(len(value)))
        if self._random.random() < 0.15:
            kept = [(key, each) for key, each in _items(value) if key != place]
            return dict(kept) if isinstance(value, dict) else [each for _, each in kept]
        changed = {**value} if isinstance(value, dict) else [*value]
        changed[place] = self.changed(value[place])
        return changed

    def _value(self, old: Any) -> Any:
        kind = self._random.randrange(6)
        if kind == 0:
            return self._random.choice(VALUES)
        if kind == 1:
            return MARKED
        if kind == 2:
            return {self._random.choice(TOKENS): old, self._seed()[:40]: self._seed()[:200]}
        if kind == 3:
            return [old] * self._random.choice([1, 2, 50])
        return self.text()[:5000] if isinstance(old, str) else self._random.choice([*VALUES, math.nan, str(old)])

    def _line(self, row: str) -> str:
        if self._random.random() < 0.6:
            return row
        try:
            return json.dumps(self.changed(json.loads(row)))
        except ValueError:
            return self._cut(row)

    def _seed(self) -> str:
        return self._random.choice(self._seeds)

    def _span(self, text: str) -> tuple[int, int]:
        start = self._random.randrange(len(text) + 1)
        return start, min(len(text), start + self._random.choice([1, 3, 10, 100, 1000]))

    def _cut(self, text: str) -> str:
        start, end = self._span(text)
        return text[:start] + text[end:]

    def _doubled(self, text: str) -> str:
        start, end = self._span(text)
        return text[:end] + text[start:end] * self._random.choice([1, 2, 20]) + text[end:]

    def _with_token(self, text: str) -> str:
        start, _ = self._span(text)
        return text[:start] + self._random.choice(TOKENS) + text[start:]

    def _spliced(self, text: str) -> str:
        other = self._seed()
        start, (first, last) = self._span(text)[0], self._span(other)
        return text[:start] + other[first : last + 200] + text[start:]

    def _swapped(self, text: str) -> str:
        start, end = self._span(text)
        return text[:start] + text[start:end][::-1] + text[end:]

    def _repeated(self, text: str) -> str:
        start, _ = self._span(text)
        token = self._random.choice([*TOKENS, text[start : start + 5] or "x"])
        return text[:start] + token * self._random.choice([10, 300, 5000]) + text[start:]

    def _lines_mixed(self, text: str) -> str:
        rows = text.splitlines(keepends=True)
        self._random.shuffle(rows)
        return "".join(rows)


def _items(value: list[Any] | dict[str, Any]) -> list[tuple[Any, Any]]:
    return list(value.items() if isinstance(value, dict) else enumerate(value))
