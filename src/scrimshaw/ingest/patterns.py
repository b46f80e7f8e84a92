"""Judges one regular expression at start (REQ-012): could a backtracking engine be made to run on it without end?

The pattern becomes a position automaton. It is exponential when some loop can read one text along two paths, and
polynomial when two neighbouring loops can share a text between them in many ways. Matching itself runs on RE2, which is
linear for everything it accepts, so loops that are kept apart by other text (`error.*timeout`) are let through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise, product
from typing import NamedTuple, TypeVar

from scrimshaw.ingest.regex_syntax import Alternatives, Characters, Node, Repeat, Sequence, parse
from scrimshaw.ingest.rules import compile_pattern

MOST_REPEATS = 1_000  # RE2's own limit for one counted repeat; nested counts are held to it as a product
MOST_STEPS = 500_000  # of the search for shared texts, about half a second: what needs more is too tangled to judge

_COPIES = 3  # of a counted repeat: enough to see that its rounds can trade text
_OPTIONAL_ROUNDS = 10  # rounds of a group that may be empty: the attempts double with each

_Place = TypeVar("_Place")


class Danger(NamedTuple):
    """Why a pattern is turned away and how to rewrite it; `refused` when RE2 itself does not know the syntax."""

    why: str
    rewrite: str
    refused: bool = False


_BACKREFERENCE = Danger(
    "a backreference makes matching exponential", "match the repeated text once and compare it elsewhere"
)
_EMPTY_LOOP = Danger(
    "the repeated group can match nothing", "make the group need a character: (a+)* is a*, (a?)* is a*"
)
_COUNTS = Danger("nested counts multiply", f"keep the product of nested counts below {MOST_REPEATS}")
_EXPONENTIAL = Danger(
    "a repeated group can read the same text in two ways (nested quantifiers or overlapping alternatives)",
    "repeat once: (a+)+ is a+, (a|ab)* needs alternatives that start differently, (\\w+\\s?)* is [\\w\\s]*",
)
_POLYNOMIAL = Danger(
    "neighbouring quantifiers can share the same text", "merge them (\\s*.* is .*), or put a fixed text between them"
)
_TANGLED = Danger("the pattern is too tangled to judge", "split it into several rules")


def find_danger(pattern: str) -> Danger | None:
    """The reason to turn `pattern` away, or None; needs RE2 and takes about a millisecond."""
    import re2  # noqa: PLC0415 - native library, needed only where rules are checked

    try:
        compile_pattern(pattern)
    except re2.error as error:
        return _refusal(pattern, _reason(error))
    node = parse(pattern)
    return _count_danger(node) or _loop_danger(node)


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _refusal(pattern: str, reason: str) -> Danger:
    if any(first == "\\" and second in "123456789" for first, second in pairwise(pattern)) or "(?P=" in pattern:
        return _BACKREFERENCE
    if "repetition size" in reason:
        return _COUNTS
    return Danger(reason, "lookaround, conditionals and possessive quantifiers are not part of RE2", refused=True)


def _count_danger(node: Node) -> Danger | None:
    if _most_rounds(node) > MOST_REPEATS:
        return _COUNTS
    for repeat in _repeats(node):
        rounds = repeat.most if repeat.most is not None else _OPTIONAL_ROUNDS
        if rounds >= _OPTIONAL_ROUNDS and _is_nullable(repeat.body):
            return _EMPTY_LOOP
    return None


def _children(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Repeat):
        return (node.body,)
    return node.parts if isinstance(node, Sequence | Alternatives) else ()


def _repeats(node: Node) -> Iterator[Repeat]:
    if isinstance(node, Repeat):
        yield node
    for child in _children(node):
        yield from _repeats(child)


def _most_rounds(node: Node) -> int:
    rounds = (node.most or 1) if isinstance(node, Repeat) else 1
    return rounds * max(map(_most_rounds, _children(node)), default=1)


def _is_nullable(node: Node) -> bool:
    if isinstance(node, Characters):
        return False
    if isinstance(node, Repeat):
        return node.least == 0 or _is_nullable(node.body)
    judge = all if isinstance(node, Sequence) else any
    return judge(map(_is_nullable, node.parts))


class _Ends(NamedTuple):
    nullable: bool
    first: tuple[int, ...]
    last: tuple[int, ...]


class _TooManyStepsError(Exception):
    pass


class _Automaton:
    """Positions of characters (as bit masks) and which may follow which; `doubled` edges can be taken in two ways.

    `turns` are the positions from which a loop goes back to its start; `steps` counts the work done in `shared`.
    """

    def __init__(self, node: Node) -> None:
        self.masks: list[int] = []
        self.follow: list[set[int]] = []
        self.doubled: set[tuple[int, int]] = set()
        self.turns: set[int] = set()
        self.steps = 0
        self._build(node)

    def _build(self, node: Node) -> _Ends:
        if isinstance(node, Characters):
            self.masks.append(node.mask)
            self.follow.append(set())
            position = len(self.masks) - 1
            return _Ends(False, (position,), (position,))
        if isinstance(node, Repeat):
            return self._build_repeat(node)
        if isinstance(node, Sequence):
            return self._build_sequence(node.parts)
        ends = [self._build(part) for part in node.parts]
        return _Ends(
            any(end.nullable for end in ends),
            tuple(position for end in ends for position in end.first),
            tuple(position for end in ends for position in end.last),
        )

    def _build_sequence(self, parts: Iterable[Node]) -> _Ends:
        whole = _Ends(True, (), ())
        for part in parts:
            ends = self._build(part)
            self._link(whole.last, ends.first)
            whole = _Ends(
                whole.nullable and ends.nullable,
                whole.first + ends.first if whole.nullable else whole.first,
                ends.last + whole.last if ends.nullable else ends.last,
            )
        return whole

    def _build_repeat(self, node: Repeat) -> _Ends:
        if node.most is not None and not any(inner.most is None for inner in _repeats(node.body)):
            copies = min(node.most, _COPIES)
            parts = [Repeat(node.body, 0 if copy >= node.least else 1, 1) for copy in range(copies)]
            return self._build_copies(parts)
        ends = self._build(node.body)
        if node.most != 1:
            self.turns.update(ends.last)
            self._link(ends.last, ends.first)
        return ends._replace(nullable=ends.nullable or node.least == 0)

    def _build_copies(self, parts: list[Repeat]) -> _Ends:
        if len(parts) > 1:
            return self._build_sequence(parts)
        ends = self._build(parts[0].body) if parts else _Ends(True, (), ())
        return ends._replace(nullable=ends.nullable or not parts or parts[0].least == 0)

    def shared(self, *places: set[int]) -> Iterator[tuple[int, ...]]:
        """One position of each set, for all that a single character can match."""
        for chosen in product(*places):
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise _TooManyStepsError
            mask = -1
            for position in chosen:
                mask &= self.masks[position]
            if mask:
                yield chosen

    def _link(self, last: Iterable[int], first: Iterable[int]) -> None:
        for source, target in product(last, first):
            if target in self.follow[source]:
                self.doubled.add((source, target))
            self.follow[source].add(target)


def _loop_danger(node: Node) -> Danger | None:
    automaton = _Automaton(node)
    loops = _loops(automaton)
    try:
        if any(_is_ambiguous(automaton, loop) for loop in loops):
            return _EXPONENTIAL
        if any(_share_text(automaton, early, late) for early, late in product(loops, loops) if early is not late):
            return _POLYNOMIAL
    except _TooManyStepsError:
        return _TANGLED
    return None


def _loops(automaton: _Automaton) -> list[frozenset[int]]:
    """The strongly connected sets of positions that hold at least one edge: each has a turn."""
    before: list[set[int]] = [set() for _ in automaton.follow]
    for source, targets in enumerate(automaton.follow):
        for target in targets:
            before[target].add(source)
    loops: list[frozenset[int]] = []
    for turn in automaton.turns:
        if not any(turn in loop for loop in loops):
            onward = _reachable([turn], lambda position: automaton.follow[position])
            backward = _reachable([turn], lambda position: before[position])
            loops.append(frozenset(onward & backward))
    return loops


def _reachable(starts: Iterable[_Place], step: Callable[[_Place], Iterable[_Place]]) -> set[_Place]:
    """All that one or more steps lead to."""
    reached: set[_Place] = set()
    open_ends = list(starts)
    while open_ends:
        fresh = [target for target in step(open_ends.pop()) if target not in reached]
        reached.update(fresh)
        open_ends.extend(fresh)
    return reached


def _is_ambiguous(automaton: _Automaton, loop: frozenset[int]) -> bool:
    """Whether some text leads from a position of the loop back to it along two different paths."""
    if any(source in loop and target in loop for source, target in automaton.doubled):
        return True
    before: dict[int, set[int]] = {position: set() for position in loop}
    after = {position: automaton.follow[position] & loop for position in loop}
    for source, targets in after.items():
        for target in targets:
            before[target].add(source)
    same: list[tuple[int, ...]] = [(position, position) for position in loop]
    parted = _reachable(same, lambda pair: automaton.shared(after[pair[0]], after[pair[1]]))
    rejoining = _reachable(same, lambda pair: automaton.shared(before[pair[0]], before[pair[1]]))
    return any(left != right for left, right in parted & rejoining)


def _share_text(automaton: _Automaton, early: frozenset[int], late: frozenset[int]) -> bool:
    """Whether two neighbouring loops can read one text in the first, in the second, and across both."""
    if not any(automaton.follow[position] & late for position in early):
        return False
    both = early | late

    def step(places: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        inside = zip(places, (early, both, late), strict=True)
        return automaton.shared(*(automaton.follow[place] & allowed for place, allowed in inside))

    for first, last in product(early, late):
        start: tuple[int, ...] = (first, first, last)
        if (first, last, last) in _reachable([start], step):
            return True
    return False
