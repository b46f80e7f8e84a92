"""Replays recorded sessions beside our answers, to see how full the context gets with and without a policy. Pure.

A session is the tokens of its tool calls in order, behind what its context held before them. Now and then the agent
asks for context; the answer takes room too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from msgspec import Struct

# What pressure must save: payload at least 15 % lower, at most a quarter of the overflows.
TOKENS_SHARE, OVERFLOWS_SHARE = 0.85, 0.25
LEAST_TURNS = 21


class Recording(Struct, frozen=True, kw_only=True):
    """A recorded session: tokens in its context before its first turn, then the tokens of each turn."""

    id: str
    before: int
    turns: tuple[int, ...]


class Reply(Struct, frozen=True, kw_only=True):
    """An answer as sent: its tokens, the budget it states, its pressure level, and the relevant memories it brings."""

    tokens: int
    budget: int
    level: str = ""
    relevant: frozenset[str] = frozenset()


# Called with the number of the question within the session, from 0, and the share 0..1 of the context in use.
Ask = Callable[[int, float], Reply]


class Overflow(StrEnum):
    """What came in when the context was first exceeded."""

    REPLY = "reply"
    TURN = "turn"


class Replayed(Struct, frozen=True, kw_only=True):
    """A session after its replay. `own` are the tokens without our replies, `overflow` is None when all fitted."""

    id: str
    own: int
    replies: tuple[Reply, ...]
    overflow: Overflow | None

    @property
    def tokens(self) -> int:
        """The tokens of all our replies."""
        return sum(reply.tokens for reply in self.replies)


class PressureFigures(Struct, frozen=True, kw_only=True):
    """What a policy changes. Overflows count sessions, off and on; `by_reply` those of `on` that a reply of ours tipped
    over, `full_anyway` those that need no reply to overflow. Tokens are those of our replies, mean over the sessions;
    `tokens_share` is on to off, and `saving` the sessions where it is low enough. `relevant_kept` is the share of
    relevant memories brought with the policy off that are brought with it on, to the same question; `over_budget`
    counts replies of both sides.
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
    saving: int
    relevant_off: int
    relevant_on: int
    relevant_kept: float


def replay(recording: Recording, ask: Ask, context_size: int, every: int) -> Replayed:
    """Run a session in a context of so many tokens, asking before its first turn and after each `every` turns.

    A session that overflows goes on, at a full context, so that both sides of a comparison ask the same questions.
    """
    used = recording.before
    replies: list[Reply] = []
    overflow: Overflow | None = None
    for number, tokens in enumerate(recording.turns):
        if number % every == 0:
            reply = ask(len(replies), min(1.0, used / context_size))
            replies.append(reply)
            used += reply.tokens
            overflow = overflow or (Overflow.REPLY if used > context_size else None)
        used += tokens
        overflow = overflow or (Overflow.TURN if used > context_size else None)
    own = recording.before + sum(recording.turns)
    return Replayed(id=recording.id, own=own, replies=tuple(replies), overflow=overflow)


def filled(name: str, turns: Sequence[int], share: float, context_size: int) -> Recording:
    """A recording that ends with `share` of the context in use, our replies apart.

    A short one comes after other work; of a long one the last turns are kept, as after a compaction.
    """
    room = int(share * context_size)
    kept = list(turns)
    while kept and sum(kept) > room:
        kept.pop(0)
    return Recording(id=name, before=room - sum(kept), turns=tuple(kept))


def compare(off: Sequence[Replayed], on: Sequence[Replayed], context_size: int) -> PressureFigures:
    """The figures of the same sessions without and with the policy; ValueError for none or for different ones."""
    pairs = [(before, after) for before, after in zip(off, on, strict=True) if before.id == after.id]
    if not pairs or len(pairs) != len(off):
        raise ValueError("the two sides are not the same sessions")
    shares = [after.tokens / before.tokens if before.tokens else 1.0 for before, after in pairs]
    replies = [reply for session in (*off, *on) for reply in session.replies]
    brought = [_relevant(session) for session in off]
    kept = [before & _relevant(after) for before, (_, after) in zip(brought, pairs, strict=True)]
    return PressureFigures(
        sessions=len(pairs),
        off_overflows=_overflows(off),
        on_overflows=_overflows(on),
        by_reply=sum(session.overflow == Overflow.REPLY for session in on),
        full_anyway=sum(session.own > context_size for session in on),
        replies=len(replies),
        over_budget=sum(reply.tokens > reply.budget for reply in replies),
        tokens_off=sum(session.tokens for session in off) / len(pairs),
        tokens_on=sum(session.tokens for session in on) / len(pairs),
        tokens_share=sum(shares) / len(pairs),
        saving=sum(share <= TOKENS_SHARE for share in shares),
        relevant_off=sum(map(len, brought)),
        relevant_on=sum(len(_relevant(session)) for session in on),
        relevant_kept=sum(map(len, kept)) / max(1, sum(map(len, brought))),
    )


def missed(found: PressureFigures) -> tuple[str, ...]:
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
    """What was relevant, by the question it answered."""
    return {(number, name) for number, reply in enumerate(session.replies) for name in reply.relevant}
