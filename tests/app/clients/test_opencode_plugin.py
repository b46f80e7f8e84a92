"""The OpenCode plugin, run by node against a stand-in for the hook command."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scrimshaw.app.clients import all_clients

_NODE = shutil.which("node")
_COMMAND = '["scrimshaw-hook", "opencode"]'
_PATIENCE = "PATIENCE_MS = 5000"
_RECORDER = """
import pathlib, sys, time
seen = pathlib.Path(sys.argv[1])
written = seen / f"{time.time_ns()}.txt"
written.write_text(sys.stdin.read())
written.rename(written.with_suffix(".json"))
print('{"context": "remembered"}')
"""
_SESSION = """
import { readdirSync } from "node:fs"
import { ScrimshawPlugin } from "./plugin.mjs"
const hooks = await ScrimshawPlugin({ directory: "/home/dev/project" })
const recorded = () => readdirSync("seen").filter((name) => name.endsWith(".json")).length
let reports = 0
const report = async () => {
  for (reports++; recorded() < reports;) await new Promise((go) => setTimeout(go, 20))
}
const emit = async (type, properties) => { await hooks.event({ event: { type, properties } }); await report() }
const shown = []
const ask = async (start) => {
  const output = { system: [start] }
  await hooks["experimental.chat.system.transform"](
    { sessionID: "ses_1", model: { limit: { context: 200000 } } }, output)
  shown.push(output.system)
}
await emit("session.created", { sessionID: "ses_1", info: { id: "ses_1" } })
await hooks["chat.message"]({ sessionID: "ses_1" }, { message: { id: "msg_1" }, parts: [{ type: "text", text: "go" }] })
await report()
await ask("You are a title generator. You output ONLY a thread title.")
await ask("You are opencode")
await hooks.event({ event: { type: "message.updated", properties: { info: {
  role: "assistant", sessionID: "ses_1", modelID: "m",
  tokens: { input: 99000, output: 1000, cache: { read: 0, write: 0 } } } } } })
await hooks["tool.execute.after"](
  { tool: "bash", sessionID: "ses_1", callID: "call_1", args: { command: "make" } },
  { output: "boom", metadata: { exit: 2 } })
await report()
await hooks["experimental.text.complete"]({ sessionID: "ses_1" }, { text: "May I?" })
await hooks.event({ event: { type: "message.part.updated", properties: { part: {
  type: "tool", sessionID: "ses_1", tool: "bash", callID: "call_3",
  state: { status: "error", input: {}, error: "The user rejected permission to use this specific tool call." } } } } })
await hooks["experimental.text.complete"]({ sessionID: "ses_1" }, { text: "Done." })
await emit("session.idle", { sessionID: "ses_1" })
await emit("session.created", { sessionID: "ses_2", info: { id: "ses_2", parentID: "ses_1" } })
await emit("message.part.updated", { part: {
  type: "tool", sessionID: "ses_2", tool: "edit", callID: "call_2",
  state: { status: "error", input: {}, error: "no" } } })
await emit("message.part.updated", { part: {
  type: "tool", sessionID: "ses_2", tool: "task", callID: "call_4",
  state: { status: "error", input: {}, error: "Tool execution aborted", metadata: { interrupted: true } } } })
await emit("session.compacted", { sessionID: "ses_1" })
await hooks.event({ event: { type: "session.status", properties: { sessionID: "ses_1" } } })
await hooks["tool.execute.after"](undefined, undefined)
await hooks.event({})
console.log(JSON.stringify(shown))
"""

pytestmark = [pytest.mark.skipif(_NODE is None, reason="node is not installed"), pytest.mark.slow]


def _run(folder: Path, command: list[str], script: str, patience: str = _PATIENCE) -> str:
    source = resources.files("scrimshaw.app.clients").joinpath("opencode_plugin.js").read_text(encoding="utf-8")
    assert _COMMAND in source
    assert _PATIENCE in source
    source = source.replace(_COMMAND, msgspec.json.encode(command).decode()).replace(_PATIENCE, patience)
    (folder / "plugin.mjs").write_text(source, encoding="utf-8")
    (folder / "session.mjs").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [str(_NODE), "session.mjs"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def _told(folder: Path) -> list[Any]:
    return [msgspec.json.decode(path.read_bytes()) for path in sorted(folder.glob("*.json"))]


def test_every_event_of_a_session_is_reported_and_its_answer_shown(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    shown = msgspec.json.decode(
        _run(tmp_path, [sys.executable, "-c", _RECORDER, str(seen)], _SESSION, "PATIENCE_MS = 60000")
    )
    assert shown == [
        ["You are a title generator. You output ONLY a thread title."],
        ["You are opencode", "remembered", "remembered"],
    ]
    events = [all_clients()["opencode"].parse_payload(payload) for payload in _told(seen)]
    assert [(e.kind, e.session, e.agent, e.occasion, e.failed) for e in events if e] == [
        ("start", "ses_1", "", "startup", None),
        ("prompt", "ses_1", "", "", None),
        ("tool", "ses_1", "", "", True),
        ("stop", "ses_1", "", "", None),
        ("start", "ses_1", "ses_2", "startup", None),
        ("tool", "ses_1", "ses_2", "", True),
        ("tool", "ses_1", "ses_2", "", None),
        ("start", "ses_1", "", "compact", None),
    ]
    stop = events[3]
    assert stop is not None
    assert (stop.output, stop.said, stop.context_used) == ("Done.", ("May I?", "Done."), 0.5)
    assert stop.cwd == "/home/dev/project"


_ONE_PROMPT = """
import { ScrimshawPlugin } from "./plugin.mjs"
const hooks = await ScrimshawPlugin({ directory: "/p" })
await hooks["chat.message"]({ sessionID: "s" }, { message: {}, parts: [] })
const output = { system: ["You are opencode"] }
await hooks["experimental.chat.system.transform"]({ sessionID: "s" }, output)
console.log(JSON.stringify(output.system))
"""


@pytest.mark.parametrize(
    "command",
    [
        ["/no/such/command"],
        [sys.executable, "-c", "import time; time.sleep(600)"],
        [sys.executable, "-c", "print('not JSON')"],
        [sys.executable, "-c", "raise SystemExit(1)"],
    ],
    ids=["missing", "hanging", "babbling", "failing"],
)
def test_a_broken_command_disturbs_nothing(tmp_path: Path, command: list[str]) -> None:
    assert msgspec.json.decode(_run(tmp_path, command, _ONE_PROMPT)) == ["You are opencode"]
