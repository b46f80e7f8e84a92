"""What `make demo` shows: a session of an agent is recorded, becomes a memory, and the next session knows of it.

`session.jsonl` is a session of Claude Code as it keeps them. Each of its rows is reported to `scrimshaw-hook` as Claude
Code does it, in processes of their own; all else is done by the command line that users have.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding

HERE = Path(__file__).parent
PROJECT = HERE.parent / ".demo"
MEMORIES = PROJECT / ".scrimshaw" / "memories"
TRANSCRIPT = PROJECT / "session.jsonl"
NEXT_SESSION = "a-session-on-the-next-day"

QUESTIONS = (
    ("a decision", "why do we count in Decimal and not in float"),
    ("an error that was met before", "ModuleNotFoundError: No module named 'invoices'"),
    ("what a person asked for", "how does bookkeeping want amounts in the CSV"),
    ("a note that was there before", "why does git say my branch is not merged after a squash"),
)

Row = Mapping[str, Any]
console = Console(highlight=False)


def main() -> None:
    """Let a session happen, end it, begin the next one, ask."""
    began = time.monotonic()
    shutil.rmtree(PROJECT, ignore_errors=True)
    shutil.copytree(HERE / "memories", MEMORIES, ignore=shutil.ignore_patterns("LICENSE.txt"))
    subprocess.run(
        ["git", "init", "--quiet", str(PROJECT)], check=True
    )  # what Scrimshaw knows by itself stays there too
    _say("A project that has notes already. `scrimshaw init` indexes them:")
    made = json.loads(_run("scrimshaw", "init", "--no-import", "--json"))
    _show(f"{sum(source['memories'] for source in made['sources'])} notes, Markdown files in {MEMORIES}")

    _say("A session of Claude Code, recorded and replayed. Nobody saves anything; a hook is told of each step:")
    rows = [json.loads(line) for line in _read_session().splitlines()]
    reports, transcript_tokens = _replay(rows), _count_tokens("\n".join(_texts([row["message"] for row in rows])))
    _show(f"{reports} steps. To read this session again would cost an agent {transcript_tokens:,} tokens.")

    _say(
        "The session has ended and becomes a memory, a Markdown file; (e5) is the 5th step, where the line comes from:"
    )
    _run("scrimshaw", "jobs", "run", "--once")
    memory = next((MEMORIES / "sessions").glob("*.md"))
    text = memory.read_text(encoding="utf-8")
    _show(f"{memory.relative_to(PROJECT)}, {_count_tokens(text)} tokens", text.split("\n---\n", 1)[-1])

    _say("The next session begins. Before the first prompt the hook tells the agent where things stand:")
    state = _report("SessionStart", NEXT_SESSION, source="startup")
    _show(f"{_count_tokens(state)} tokens instead of {transcript_tokens:,}", state)

    _say("Notes and the record of sessions are searched as one; session:f7cc547b#e5 is the 5th step of that session.")
    for about, question in QUESTIONS:
        _say(f"A search for {about}: {question}")
        answer = _run("scrimshaw", "search", question, "--limit", "1")
        _show(f"{_count_tokens(answer)} tokens", answer)

    _say(f"That took {time.monotonic() - began:.0f} seconds. To have it in a project of yours:")
    _show("scrimshaw init && scrimshaw setup claude", f"The demo's files stay in {PROJECT}.")


def _read_session() -> str:
    return (HERE / "session.jsonl").read_text(encoding="utf-8").replace("$PROJECT", str(PROJECT))


def _replay(rows: list[Row]) -> int:
    """Write the transcript row by row, as it grew, and report each event when its row is there; how many."""
    session, calls = rows[0]["sessionId"], dict[str, Row]()
    reports = [_report("SessionStart", session, source="startup")]
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        with TRANSCRIPT.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        content = row["message"]["content"]
        blocks = content if isinstance(content, list) else []
        calls |= {block["id"]: block for block in blocks if block["type"] == "tool_use"}
        if isinstance(content, str):
            reports.append(_report("UserPromptSubmit", session, prompt=content))
        elif results := [block for block in blocks if block["type"] == "tool_result"]:
            reports += [_report_call(session, calls[result["tool_use_id"]], result, row) for result in results]
        elif following is None or isinstance(following["message"]["content"], str):
            reports.append(_report("Stop", session, last_assistant_message=blocks[-1]["text"]))
    reports.append(_report("SessionEnd", session, reason="exit"))
    return len(reports)


def _report_call(session: str, call: Row, result: Row, row: Row) -> str:
    fields = {"tool_name": call["name"], "tool_input": call["input"], "tool_use_id": call["id"]}
    if result.get("is_error"):
        return _report("PostToolUseFailure", session, error=result["content"], **fields)
    return _report("PostToolUse", session, tool_response=row["toolUseResult"], **fields)


def _report(event: str, session: str, **fields: Any) -> str:
    """Give an event to the hook; what it tells the agent."""
    about = {"hook_event_name": event, "session_id": session, "cwd": str(PROJECT), "transcript_path": str(TRANSCRIPT)}
    reply = _run("scrimshaw-hook", "claude", given=json.dumps({**about, **fields}))
    return str(json.loads(reply)["hookSpecificOutput"]["additionalContext"]) if reply else ""


def _run(program: str, *arguments: str, given: str = "") -> str:
    """What a program of this installation prints, in the demo's project and with a home of its own."""
    home = PROJECT / "home"
    home.mkdir(exist_ok=True)
    environment = {**os.environ, "HOME": str(home), "USERPROFILE": str(home), "COLUMNS": "116"}
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    return subprocess.run(
        command, cwd=PROJECT, env=environment, input=given, capture_output=True, text=True, check=True
    ).stdout


def _texts(value: Any) -> Iterator[str]:
    """The texts in a JSON value: what an agent would read."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _count_tokens(text: str) -> int:
    """About: four characters are a token."""
    return len(text) // 4


def _say(text: str) -> None:
    console.print(f"\n[bold cyan]{text}[/]")


def _show(*texts: str) -> None:
    for text in texts:
        console.print(Padding(text.strip(), (0, 0, 0, 2)), markup=False)


if __name__ == "__main__":
    main()
