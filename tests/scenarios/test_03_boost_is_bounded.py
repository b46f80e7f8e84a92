"""Scenario 3: a thousand searches with and without a session: the order stays, answers stay, replies shrink.

The memories are the documentation of Python's own library as this interpreter carries it, so that the words are real;
a query is a few words out of one of them, which is what it asks for.
"""

from __future__ import annotations

import importlib
import inspect
import random
from collections.abc import Iterator
from pathlib import Path
from statistics import correlation
from typing import NamedTuple

import pytest
from tests.samples import write_memory
from tests.scenarios.agent import Agent, cost, started

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.search.tokens import query_terms

MODULES = [
    "argparse",
    "configparser",
    "csv",
    "decimal",
    "email.message",
    "logging",
    "os",
    "pathlib",
    "shutil",
    "smtplib",
    "socket",
    "statistics",
    "subprocess",
    "tarfile",
    "textwrap",
    "threading",
    "zipfile",
]
QUERIES, SESSIONS = 1000, 50


class Ask(NamedTuple):
    query: str
    answer: str


def library() -> Iterator[tuple[str, str]]:
    """Name and text of what the modules document in twenty words or more."""
    for name in MODULES:
        module = importlib.import_module(name)
        for member, value in sorted(vars(module).items()):
            text = inspect.getdoc(value) if inspect.isroutine(value) or inspect.isclass(value) else None
            if text and len(text.split()) >= 20 and getattr(value, "__module__", name) == name:
                yield f"{name.replace('.', '-')}/{member}", text


@pytest.fixture
def texts() -> dict[str, str]:
    return dict(library())


@pytest.fixture
def asks(texts: dict[str, str]) -> list[Ask]:
    """Three to six telling words of one text each, always the same ones."""
    chance = random.Random(1)
    found = []
    for _ in range(QUERIES):
        name = chance.choice(sorted(texts))
        words = query_terms(texts[name], limit=200)
        found.append(Ask(" ".join(chance.sample(words, min(len(words), chance.randint(3, 6)))), name))
    return found


@pytest.fixture
def base(project: Path, vault: Path, texts: dict[str, str]) -> Iterator[Engine]:
    """All features off: the ranking that everything is compared with."""
    for name, text in texts.items():
        write_memory(vault, name, f"# {name}\n\n{text}\n")
    with started(project, {"SCRIMSHAW_PROFILE": "baseline"}) as engine:
        scan(engine)
        yield engine


def at_work(engine: Engine, session: str, names: list[str], chance: random.Random) -> Agent:
    """A session that works with seven of the memories."""
    agent = Agent(engine, session)
    for name in chance.sample(names, 7):
        agent.did("Read", f"{name} was read", chance.uniform(0.3, 1.0), memory_id=name)
    return agent


def places(ids: list[str], wanted: list[str]) -> list[int]:
    """Where each wanted id stands, from 1; those that are absent all stand right behind the last."""
    place = {name: number for number, name in enumerate(ids, start=1)}
    return [place.get(name, len(ids) + 1) for name in wanted]


@pytest.mark.parametrize("count", [100, pytest.param(QUERIES, marks=pytest.mark.slow)])
def test_many_searches_keep_their_order(
    base: Engine, project: Path, texts: dict[str, str], asks: list[Ask], count: int
) -> None:
    plain, chance = Agent(base), random.Random(2)
    correlations, lost, boosted = [], [], 0
    with started(project) as engine:
        for number in range(SESSIONS):
            agent = at_work(engine, f"s{number}", sorted(texts), chance)
            for ask in asks[number:count:SESSIONS]:
                before = plain.found(ask.query)
                hits = agent.search(ask.query)
                after = [hit["id"] for hit in hits]
                boosted += any(hit["why"].get("boosts") for hit in hits)
                if len(before) > 2:
                    correlations.append(correlation(range(len(before)), places(after, before)))
                lost.append(places(after, [ask.answer])[0] - places(before, [ask.answer])[0])
    assert boosted > count / 10
    assert sum(correlations) / len(correlations) >= 0.90
    assert max(lost) <= 3


def test_long_sessions_are_sent_less(base: Engine, project: Path, texts: dict[str, str], asks: list[Ask]) -> None:
    """Tokens of whole replies over sessions of 25 turns, while the context fills from 50 to 95 % (scenario 8)."""
    tokens = {"base": 0, "session": 0}
    with started(project) as engine:
        for number in range(4):
            agents = {"base": Agent(base), "session": at_work(engine, f"s{number}", sorted(texts), random.Random(3))}
            for turn, ask in enumerate(asks[number * 25 : number * 25 + 25]):
                for name, agent in agents.items():
                    tokens[name] += cost(agent.context(ask.query, token_usage=0.5 + 0.45 * turn / 24))
    assert tokens["session"] <= 0.85 * tokens["base"], tokens
