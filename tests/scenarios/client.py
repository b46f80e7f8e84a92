"""A client at work: every event is a payload of Claude Code through the hook's own door, and nobody saves anything."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

from scrimshaw.app.hooks.record import handle_payload

_calls = count(1)


class Client:
    """One session of a client in a project."""

    def __init__(self, project: Path, session: str) -> None:
        self.project, self.session = project, session

    def event(self, name: str, **fields: Any) -> str:
        """Report an event; the text that the hook answers with."""
        payload = {"session_id": self.session, "cwd": str(self.project), "hook_event_name": name, **fields}
        return handle_payload(["claude"], json.dumps(payload).encode())

    def starts(self, source: str = "startup") -> str:
        return self.event("SessionStart", source=source)

    def asks(self, prompt: str) -> str:
        return self.event("UserPromptSubmit", prompt=prompt, prompt_id=f"p{next(_calls)}")

    def calls(self, tool: str, arguments: dict[str, Any], output: str, *, failed: bool = False) -> None:
        call = {"tool_name": tool, "tool_input": arguments, "tool_use_id": f"toolu_{next(_calls):04}"}
        if failed:
            self.event("PostToolUseFailure", **call, error=output)
        else:
            self.event("PostToolUse", **call, tool_response={"stdout": output, "stderr": "", "content": output})

    def says(self, text: str) -> None:
        """The agent ends its turn with these words."""
        self.event("Stop", last_assistant_message=text)

    def ends(self) -> None:
        self.event("SessionEnd", reason="other")
