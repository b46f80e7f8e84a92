"""Replays recorded sessions with our answers, to see how full the context gets with and without a policy.

A session is the tokens of its tool calls in order, behind what its context held before them. Now and then the agent
asks for context; the answer takes room too. The sessions end with 60 % to 95 % of the context in use, evenly spread: a
short one follows other work, and of a long one the last calls are used.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated, Literal

import msgspec
import typer
from msgspec import Struct, structs

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example, settings_of_memory
from scrimshaw.app.cli.output import Lines, line, progress, show
from scrimshaw.app.clients import all_clients
from scrimshaw.engine import Engine
from scrimshaw.engine.importers import read_session
from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.comparison import TOKEN_CHARACTERS
from scrimshaw.ingest.events import StoredSession
from scrimshaw.models import EventKind
from scrimshaw_lab.recorded_sessions import call_tool
from scrimshaw_lab.search_quality import JudgedQuery, read_queries
from scrimshaw_lab.shadow import copy_engine, find_known_items

# What pressure must save: payload at least 15 % lower, at most a quarter of the overflows.
TOKENS_SHARE, OVERFLOWS_SHARE = 0.85, 0.25
LEAST_TURNS = 21
FIRST_SHARE, LAST_SHARE = 0.60, 0.95
MOST_QUESTIONS = 200


class Recording(Struct, frozen=True, kw_only=True):
    """A recorded session: the tokens in its context before the first turn, and those of each turn."""

    id: str
    before: int
    turns: tuple[int, ...]


class Reply(Struct, frozen=True, kw_only=True):
    """An answer as sent: its tokens, its budget, its pressure level, and the relevant memories in it."""

    tokens: int
    budget: int
    level: str = ""
    relevant: frozenset[str] = frozenset()


# Called with the number of the question within the session, from 0, and the share 0..1 of the context in use.
Ask = Callable[[int, float], Reply]


Overflow = Literal["reply", "turn"]  # what first exceeded the context


class Replayed(Struct, frozen=True, kw_only=True):
    """A replayed session. `own` are the tokens without our replies, `overflow` is None if everything fitted."""

    id: str
    own: int
    replies: tuple[Reply, ...]
    overflow: Overflow | None

    @property
    def tokens(self) -> int:
        """The tokens of all our replies."""
        return sum(reply.tokens for reply in self.replies)


class PressureFigures(Struct, frozen=True, kw_only=True):
    """What a policy changes. Overflows count sessions, with it off and on; `by_reply` those with it on that one of our
    replies caused, `full_anyway` those that overflow without replies. Tokens are of our replies, means over sessions;
    `tokens_share` is on by off. `relevant_kept` is the share of relevant memories in the replies with the policy off
    that are in those with it on; `over_budget` counts replies of both.
    """

    sessions: int
    off_overflows: int
    on_overflows: int
    by_reply: int
    full_anyway: int
    replies: int
    over_budget: int
    tokens_off: float
    tokens_on: float
    tokens_share: float
    relevant_kept: float


def replay(recording: Recording, ask: Ask, context_size: int, every: int) -> Replayed:
    """Run a session in a context of so many tokens, asking before its first turn and after each `every` turns.

    A session that overflows continues with a full context, so that both sides of a comparison ask the same questions.
    """
    used = recording.before
    replies: list[Reply] = []
    overflow: Overflow | None = None
    for number, tokens in enumerate(recording.turns):
        if number % every == 0:
            reply = ask(len(replies), min(1.0, used / context_size))
            replies.append(reply)
            used += reply.tokens
            overflow = overflow or ("reply" if used > context_size else None)
        used += tokens
        overflow = overflow or ("turn" if used > context_size else None)
    own = recording.before + sum(recording.turns)
    return Replayed(id=recording.id, own=own, replies=tuple(replies), overflow=overflow)


def fill_context(name: str, turns: Sequence[int], share: float, context_size: int) -> Recording:
    """A recording that ends with `share` of the context in use, without our replies.

    A short one follows other work; of a long one the last turns are used, as after a compaction.
    """
    room = int(share * context_size)
    kept = list(turns)
    while kept and sum(kept) > room:
        kept.pop(0)
    return Recording(id=name, before=room - sum(kept), turns=tuple(kept))


def compare_sides(off: Sequence[Replayed], on: Sequence[Replayed], context_size: int) -> PressureFigures:
    """The figures of the same sessions, in the same order, without and with the policy."""
    pairs = [*zip(off, on, strict=True)]
    shares = [after.tokens / before.tokens if before.tokens else 1.0 for before, after in pairs]
    replies = [reply for session in (*off, *on) for reply in session.replies]
    brought = [_relevant(session) for session in off]
    kept = [before & _relevant(after) for before, (_, after) in zip(brought, pairs, strict=True)]
    return PressureFigures(
        sessions=len(pairs),
        off_overflows=_overflows(off),
        on_overflows=_overflows(on),
        by_reply=sum(session.overflow == "reply" for session in on),
        full_anyway=sum(session.own > context_size for session in on),
        replies=len(replies),
        over_budget=sum(reply.tokens > reply.budget for reply in replies),
        tokens_off=sum(session.tokens for session in off) / len(pairs),
        tokens_on=sum(session.tokens for session in on) / len(pairs),
        tokens_share=sum(shares) / len(pairs),
        relevant_kept=sum(map(len, kept)) / max(1, sum(map(len, brought))),
    )


def find_missed(found: PressureFigures) -> tuple[str, ...]:
    """The names of the figures that miss their targets."""
    kept = {
        "overflows": found.on_overflows <= OVERFLOWS_SHARE * found.off_overflows,
        "by_reply": found.by_reply == 0,
        "over_budget": found.over_budget == 0,
        "tokens_share": found.tokens_share <= TOKENS_SHARE,
    }
    return tuple(name for name, is_kept in kept.items() if not is_kept)


def _overflows(sessions: Sequence[Replayed]) -> int:
    return sum(session.overflow is not None for session in sessions)


def _relevant(session: Replayed) -> set[tuple[int, str]]:
    """The relevant memories, each with the number of its question."""
    return {(number, name) for number, reply in enumerate(session.replies) for name in reply.relevant}


def read_calls(sessions: Iterable[StoredSession]) -> dict[str, list[int]]:
    """The tokens (of four characters) of each call with its output, for every session that is long enough."""
    found = dict[str, list[int]]()
    for session in sessions:
        calls = (each for each in read_session(session)[0].events if each.kind is EventKind.TOOL)
        texts = (msgspec.json.encode(each.arguments).decode() + each.output for each in calls)
        turns = [len(text) // TOKEN_CHARACTERS for text in texts]
        if len(turns) >= LEAST_TURNS:
            found[session.session] = turns
    return found


def spread_sessions(sessions: Mapping[str, Sequence[int]], size: int, seed: int) -> list[Recording]:
    """The sessions in a context of this size, filled to evenly spread shares in random order."""
    last = max(1, len(sessions) - 1)
    shares = [FIRST_SHARE + (LAST_SHARE - FIRST_SHARE) * number / last for number in range(len(sessions))]
    Random(seed).shuffle(shares)
    found = [
        fill_context(name, turns, share, size) for (name, turns), share in zip(sessions.items(), shares, strict=True)
    ]
    return [each for each in found if len(each.turns) >= LEAST_TURNS]


def replay_all(
    engine: Engine, side: str, recordings: Sequence[Recording], questions: Sequence[JudgedQuery], size: int, every: int
) -> list[Replayed]:
    """Replay every recording in a session of its own; both sides get the same questions."""
    found = []
    for number, recording in enumerate(recordings):
        asked = Random(number).sample([*questions], len(questions))
        found.append(replay(recording, make_ask(engine, f"{side}-{number}", asked), size, every))
    return found


def make_ask(engine: Engine, session: str, questions: Sequence[JudgedQuery]) -> Ask:
    """A function that asks memory_context through the server's dispatcher; the reply is the JSON text for a client."""

    def ask(number: int, share: float) -> Reply:
        question = questions[number % len(questions)]
        call = {"query": question.query, "session_id": session, "token_usage": share}
        outcome = call_tool(engine, "memory_context", call)
        shown = {hit["id"] for hit in outcome.reply["result"]["hits"]}
        return Reply(
            tokens=len(outcome.text) // TOKEN_CHARACTERS,
            budget=outcome.reply["token_budget"],
            level=outcome.reply.get("pressure_level", ""),
            relevant=frozenset(name for name in shown if question.relevant.get(name, 0) > 0),
        )

    return ask


app = typer.Typer()


@app.command("pressure", epilog=example("scrimshaw eval pressure --sessions ~/.claude/projects"))
def evaluate_pressure(
    sessions: Annotated[Path, typer.Option(exists=True, file_okay=False, help="Transcripts of Claude Code.")],
    queries: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Judged queries; default: titles and headings.")
    ] = None,
    context: Annotated[int, typer.Option(min=1000, help="Size of the agent's context, in tokens.")] = 128_000,
    every: Annotated[int, typer.Option(min=1, help="Calls between two questions.")] = 5,
    most: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of sessions.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the random choices.")] = 1,
    project: frame.Project = None,
    as_json: frame.AsJson = False,
) -> None:
    """Replay recorded sessions that ask this memory now and then, with the pressure policy off and on.

    Exit code 1 if the policy saves less than 15 % of the tokens, or leaves more than a quarter of the overflows.
    """
    calls = read_calls(all_clients()["claude"].sessions_at(sessions))
    recordings = spread_sessions(dict([*calls.items()][:most]), context, seed)
    if not recordings:
        raise InvalidRequest(f"{sessions} has no session of {LEAST_TURNS} calls.", "Name a folder of transcripts.")
    with copy_engine(settings_of_memory(project)) as engine, progress("Replaying") as advance:
        judged = read_queries(queries) if queries else find_known_items(engine, MOST_QUESTIONS, seed=seed)
        if not judged:
            raise InvalidRequest("There is nothing to ask for.", "Save or import memories first.")
        features = structs.replace(engine.settings.features, pressure_policy=False)
        sides = list[list[Replayed]]()
        for name, settings in (("off", structs.replace(engine.settings, features=features)), ("on", engine.settings)):
            side = replace(engine, settings=settings)
            sides.append(replay_all(side, f"{name}-{seed}", recordings, judged, context, every))
            advance(len(sides), 2)
    figures = compare_sides(sides[0], sides[1], context)
    missed = find_missed(figures)
    show({"figures": figures, "missed": missed, "off": sides[0], "on": sides[1]}, as_json, _render)
    if missed:
        raise typer.Exit(1)


def _render(report: Mapping[str, object]) -> Lines:
    for name, value in msgspec.to_builtins(report["figures"]).items():
        yield f"{name:<16}{value:>10.4g}"
    for side in ("off", "on"):
        levels = dict[str, list[int]]()
        for session in report[side]:  # type: ignore[attr-defined]
            for reply in session.replies:
                levels.setdefault(reply.level or "-", []).append(reply.tokens)
        counts = (f"{level} {len(sizes)} of {sum(sizes) / len(sizes):.0f} tokens" for level, sizes in levels.items())
        yield line((f"  {side}: replies {', '.join(counts)}", "dim"))
    missed = ", ".join(report["missed"])  # type: ignore[arg-type]
    yield line((f"missed: {missed}", "bold red") if missed else ("all targets are met", "green"))
