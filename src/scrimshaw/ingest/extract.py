"""Decides which tool calls are worth remembering, and what of them: rules in, one short text out. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from scrimshaw.ingest.rules import Kind, Rule, compile_pattern
from scrimshaw.ingest.summarize import summarize
from scrimshaw.ingest.tool_calls import Activity, ToolCall, describe_call

LONGEST_SCAN = 64_000  # characters of an output that are looked at, head and tail: keeps a hook within its 5 ms
_SCANNED_HEAD = 16_000


class Extraction(Struct, frozen=True, kw_only=True):
    """What is kept of a call: `attention` 0..1, `text` of at most 500 characters, `path` of the file it is about."""

    kind: Kind
    attention: float
    text: str
    rule_id: str
    path: str = ""


def extract(call: ToolCall, rules: Iterable[Rule]) -> Extraction | None:
    """Apply the first of `rules` (in the order of trial) that matches.

    None when no rule matches, or when the one that does says to leave the call alone.
    """
    activity = describe_call(_within_scan(call))
    rule = _winner(activity, rules)
    if not rule or not rule.attention:
        return None
    return Extraction(
        kind=rule.kind,
        attention=rule.attention,
        text=summarize(activity, rule.summarizer),
        rule_id=rule.id,
        path=activity.path,
    )


def winner(call: ToolCall, rules: Iterable[Rule]) -> Rule | None:
    """The first of `rules` that matches `call`, one that says to leave it alone included."""
    return _winner(describe_call(_within_scan(call)), rules)


def _winner(activity: Activity, rules: Iterable[Rule]) -> Rule | None:
    return next((rule for rule in rules if _matches(rule, activity)), None)


def _within_scan(call: ToolCall) -> ToolCall:
    if len(call.output) <= LONGEST_SCAN:
        return call
    head, tail = call.output[:_SCANNED_HEAD], call.output[-(LONGEST_SCAN - _SCANNED_HEAD) :]
    return ToolCall(
        tool=call.tool,
        arguments=call.arguments,
        output=f"{head}\n{tail}",
        failed=call.failed,
        call_id=call.call_id,
    )


def _matches(rule: Rule, activity: Activity) -> bool:
    return (
        rule.failed in (None, activity.failed)
        and (_finds(rule.tool, activity.name) or _finds(rule.tool, activity.tool))
        and _finds(rule.argument, activity.subject)
        and (not rule.min_lines or activity.output.count("\n") + 1 >= rule.min_lines)
        and _finds(rule.content, activity.output)
    )


def _finds(pattern: str, text: str) -> bool:
    return not pattern or bool(compile_pattern(pattern).search(text))
