"""Draft memories from real sessions and check every statement against its event:

    python -m benchmarks.drafts --data DIR --out DIR [--pool dev|rest]

`--data` holds transcripts_claude_code, transcripts_console, transcripts_mini_swe_agent and transcripts_sweagent. Every
draft is written to `--out`; the table and the checks are printed. The exit code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.recordings import Recording, console, cut, mini_swe, recorded, swe_agent
from scrimshaw.app.clients.claude import CLIENT
from scrimshaw.ingest.chatter import find_chatter
from scrimshaw.ingest.events import Transcript
from scrimshaw.ingest.memory_file import parse_memory_file, render_memory_file
from scrimshaw.ingest.quality import judge
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EventKind
from scrimshaw.session.draft import Draft, build_draft, render_body
from scrimshaw.session.statements import Statement, contains_text

LEAST_CALLS = 10
_CHOSEN = """
psf__requests-1921 django__django-11740 pydata__xarray-3677 sympy__sympy-15345 matplotlib__matplotlib-25122
pytest-dev__pytest-8399 sphinx-doc__sphinx-8269 django__django-13401 i_got_id_demo marshmallow-code__marshmallow-1867
day-002-1 day-004-1 day-004-2 day-004-5 day-005-1 day-006-1 day-007-1 day-007-3 day-008-1 day-008-7 day-009-2
day-009-3 day-010-2
"""
_PLACEHOLDER = re.compile(
    r"(?i)\[(?:TBD|N/A|TODO)\]|\bTBD\b|\bno (?:specific )?decisions? (?:were|was)\b|\bN/A\b|lorem"
)


class Result(Struct, frozen=True, kw_only=True):
    """One session and what became of it."""

    source: str
    recording: Recording
    draft: Draft
    text: str
    seconds: float


def main(arguments: list[str] | None = None) -> None:
    """Draft, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pool", choices=("dev", "rest"), default="dev")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    results = [_result(source, transcript) for source, transcript in _pool(given.data, given.pool)]
    for each in results:
        (given.out / f"{each.draft.session}.md").write_text(each.text, encoding="utf-8")
    print_table(results)
    sys.exit(0 if print_checks(results) else 1)


def _pool(data: Path, pool: str) -> Iterator[tuple[str, Transcript]]:
    for source, transcript in _all(data):
        calls = sum(event.kind is EventKind.TOOL for event in transcript.events)
        chosen = source == "claude" or transcript.session in _CHOSEN.split()
        if calls >= LEAST_CALLS and chosen == (pool == "dev"):
            yield source, transcript


def _all(data: Path) -> Iterator[tuple[str, Transcript]]:
    for path in sorted((data / "transcripts_claude_code").glob("*.jsonl")):
        for part in cut(CLIENT.parse_transcript(path.read_text(encoding="utf-8"))):
            yield "claude", part
    for path in sorted((data / "transcripts_console").glob("day-*.md")):
        for transcript in console(path):
            yield "console", transcript
    for path in sorted((data / "transcripts_mini_swe_agent").glob("dev/*.json")):
        yield "mini-swe", mini_swe(path)
    seen: set[str] = set()
    for path in sorted((data / "transcripts_sweagent").rglob("*.traj")):
        if path.stem not in seen:
            seen.add(path.stem)
            yield "swe-agent", swe_agent(path)


def _result(source: str, transcript: Transcript) -> Result:
    recording = recorded(transcript)
    began = time.perf_counter()
    made = build_draft(recording.session, recording.events, recording.items)
    text = _file(made)
    return Result(source=source, recording=recording, draft=made, text=text, seconds=time.perf_counter() - began)


def _file(made: Draft) -> str:
    """The draft as a file; the product's own front matter is written by the engine."""
    meta: dict[str, object] = {"title": made.title, "type": "general", "tier": "normal"}
    meta |= {"trigger_phrases": made.trigger_phrases, "topics": made.topics}
    return render_memory_file(meta, "\n" + render_body(made)).text


def print_table(results: Sequence[Result]) -> None:
    """A line per session."""
    print(
        "| session | source | calls | asked | dec | chg | prob | open | next | trig | topics | lines | ms | verdict |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for each in results:
        made = each.draft
        verdict = judge(parse_memory_file(each.text), tool_calls=made.tool_calls)
        cells = (
            made.session,
            each.source,
            made.tool_calls,
            len(made.requests),
            len(made.decisions),
            len(made.changed),
            len(made.problems),
            len(made.open),
            "yes" if made.next_step else "",
            len(made.trigger_phrases),
            len(made.topics),
            each.text.count("\n"),
            round(each.seconds * 1000),
            f"{verdict.score:.2f} {' '.join(verdict.flags)}",
        )
        print("| " + " | ".join(str(cell) for cell in cells) + " |")


def print_checks(results: Sequence[Result]) -> bool:
    """The automatic checks; whether all hold."""
    told = [(each, statement) for each in results for statement in statements(each.draft)]
    missing = [(each.draft.session, statement) for each, statement in told if not _held(each, statement)]
    busy = [each for each in results if each.draft.tool_calls >= 5]
    counts = {
        "statements not in their event": len(missing),
        "placeholders": sum(bool(_PLACEHOLDER.search(render_body(each.draft))) for each in results),
        "contaminated": sum(bool(find_chatter(render_body(each.draft))) for each in results),
        "fewer than two triggers": sum(len(each.draft.trigger_phrases) < 2 for each in busy),
        "no topic": sum(not each.draft.topics for each in busy),
        "secrets": sum(bool(redact(each.text).spans) for each in results),
    }
    print(f"\n{len(results)} drafts, {len(told)} statements, {sum(len(e.recording.events) for e in results)} events")
    print(f"with a decision: {sum(bool(each.draft.decisions) for each in results)}")
    print(f"slowest: {max(1000 * each.seconds for each in results):.0f} ms; longest: {_longest(results)} characters")
    for name, count in counts.items():
        print(f"{name}: {count}")
    for session, statement in missing:
        print(f"  {session} e{statement.event}: {statement.text}")
    return not any(counts.values())


def statements(made: Draft) -> list[Statement]:
    """Every statement of a draft."""
    single = [each for each in (made.task, made.next_step) if each]
    return [*single, *made.requests, *made.decisions, *made.changed, *made.findings, *made.problems, *made.open]


def _held(each: Result, statement: Statement) -> bool:
    return any(
        contains_text(event, statement.text) for event in each.recording.events if event.number == statement.event
    )


def _longest(results: Sequence[Result]) -> int:
    return max(len(each.text) for each in results)


if __name__ == "__main__":
    main()
