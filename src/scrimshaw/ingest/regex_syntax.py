"""Parses RE2's syntax into four kinds of node, enough to ask which texts a pattern can read in several ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

_SIZE = 129  # ASCII, and one bit for everything beyond it
ANYTHING = (1 << _SIZE) - 1


class Characters(NamedTuple):
    """One character out of a set: bit n stands for the ASCII code n, bit 128 for all others."""

    mask: int


class Sequence(NamedTuple):
    """Parts that follow each other; no parts match the empty text, as anchors do."""

    parts: tuple[Node, ...]


class Alternatives(NamedTuple):
    """Parts of which one matches."""

    parts: tuple[Node, ...]


class Repeat(NamedTuple):
    """`body` from `least` to `most` times; `most` is None where there is no end."""

    body: Node
    least: int
    most: int | None


Node: TypeAlias = Characters | Sequence | Alternatives | Repeat


def parse(pattern: str) -> Node:
    """The nodes of `pattern`, which RE2 must have accepted before; flags hold for the whole of it."""
    return _Parser(pattern).alternatives()


def _mask(characters: Iterable[str]) -> int:
    mask = 0
    for character in characters:
        mask |= 1 << min(ord(character), _SIZE - 1)
    return mask


def _span(low: str, high: str) -> int:
    return _mask(map(chr, range(ord(low), min(ord(high), _SIZE - 1) + 1)))


_NEWLINE = _mask("\n")
_DIGIT = _span("0", "9")
_LOWER = _span("a", "z")
_UPPER = _span("A", "Z")
_WORD = _DIGIT | _LOWER | _UPPER | _mask("_")
_SPACE = _mask("\t\n\f\r ")
_PRINT = _span(" ", "~")
_PUNCTUATION = _PRINT & ~_mask(" ") & ~_WORD | _mask("_")

_CLASSES = {
    "d": _DIGIT,
    "w": _WORD,
    "s": _SPACE,
    "D": ANYTHING & ~_DIGIT,
    "W": ANYTHING & ~_WORD,
    "S": ANYTHING & ~_SPACE,
    "C": ANYTHING,
}
_POSIX = {
    "alnum": _WORD & ~_mask("_"),
    "alpha": _LOWER | _UPPER,
    "ascii": ANYTHING >> 1,
    "blank": _mask("\t "),
    "cntrl": _span("\0", "\x1f") | _mask("\x7f"),
    "digit": _DIGIT,
    "graph": _PRINT & ~_mask(" "),
    "lower": _LOWER,
    "print": _PRINT,
    "punct": _PUNCTUATION,
    "space": _SPACE | _mask("\v"),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGIT | _span("a", "f") | _span("A", "F"),
}
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ANCHORS = "AbBzZ"


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.folds = False
        self.dot = ANYTHING & ~_NEWLINE

    def alternatives(self) -> Node:
        parts = [self._sequence()]
        while self._takes("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            if self._takes("\\Q"):
                parts.extend(self._quoted())
            else:
                parts.append(self._repeated(self._atom()))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _takes(self, text: str) -> bool:
        if not self.pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def _until(self, end: str) -> str:
        start = self.at
        found = self.pattern.find(end, start)
        self.at = found + len(end) if found >= 0 else len(self.pattern)
        return self.pattern[start:found] if found >= 0 else self.pattern[start:]

    def _next(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def _quoted(self) -> list[Node]:
        return [self._characters(_mask(character)) for character in self._until("\\E")]

    def _characters(self, mask: int) -> Characters:
        if self.folds:
            offset = ord("a") - ord("A")
            mask |= (mask & _UPPER) << offset | (mask & _LOWER) >> offset
        return Characters(mask)

    def _repeated(self, node: Node) -> Node:
        while self.at < len(self.pattern):
            bounds = self._bounds()
            if bounds is None:
                break
            self._takes("?")
            node = Repeat(node, *bounds)
        return node

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._takes(sign):
                return bounds
        counts, closed, _ = self.pattern[self.at + 1 :].partition("}")
        least, comma, most = counts.partition(",")
        if self.pattern[self.at] != "{" or not closed or not least.isdigit() or not (most.isdigit() or not most):
            return None
        self.at += len(counts) + 2
        return int(least), int(most) if most else (None if comma else int(least))

    def _atom(self) -> Node:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._characters(self._set())
        if character == "\\":
            return self._escape()
        if character == ".":
            return Characters(self.dot)
        return Sequence(()) if character in "^$" else self._characters(_mask(character))

    def _group(self) -> Node:
        if self._takes("?") and not self._takes("P<") and not self._takes("<"):
            flags = self._flags()
            if self.pattern[self.at - 1] == ")":
                return Sequence(())
            if not flags and self.pattern[self.at - 1] != ":":
                return Sequence(())
        elif self.pattern[self.at - 1] == "<":
            self._until(">")
        inner = self.alternatives()
        self._takes(")")
        return inner

    def _flags(self) -> str:
        start = self.at
        while self._next() not in ":)":
            pass
        flags = self.pattern[start : self.at - 1]
        switched_on = flags.partition("-")[0]
        self.folds |= "i" in switched_on
        if "s" in switched_on:
            self.dot = ANYTHING
        return flags

    def _escape(self) -> Node:
        if self.pattern[self.at] in _ANCHORS:
            self.at += 1
            return Sequence(())
        return self._characters(self._escaped())

    def _escaped(self) -> int:
        character = self._next()
        if character in _CLASSES:
            return _CLASSES[character]
        if character in "pP":
            return self._property()
        if character == "x":
            return _mask(chr(self._code()))
        if character.isdigit():
            return _mask(chr(self._octal(character)))
        return _mask(_CONTROLS.get(character, character))

    def _property(self) -> int:
        if self._next() == "{":
            self._until("}")
        return ANYTHING

    def _code(self) -> int:
        if self._takes("{"):
            return int(self._until("}"), 16)
        self.at += 2
        return int(self.pattern[self.at - 2 : self.at], 16)

    def _octal(self, digits: str) -> int:
        while len(digits) < 3 and self.pattern[self.at : self.at + 1] in tuple("01234567"):
            digits += self._next()
        return int(digits, 8)

    def _set(self) -> int:
        negated = self._takes("^")
        mask = 0
        first = True
        while first or self.pattern[self.at] != "]":
            mask |= self._set_item()
            first = False
        self.at += 1
        return ANYTHING & ~mask if negated else mask

    def _set_item(self) -> int:
        if self._takes("[:"):
            negated = self._takes("^")
            named = _POSIX[self._until(":]")]
            return ANYTHING & ~named if negated else named
        low = self._set_character()
        if self.pattern[self.at] != "-" or self.pattern[self.at + 1] == "]" or low.bit_count() != 1:
            return low
        self.at += 1
        return _between(low, self._set_character())

    def _set_character(self) -> int:
        character = self._next()
        return self._escaped() if character == "\\" else _mask(character)


def _between(low: int, high: int) -> int:
    return (high << 1) - low
