"""OpenCode: a session with its messages and their parts, as `opencode export` prints them."""

from __future__ import annotations

from collections.abc import Mapping

from scrimshaw.ingest.payload import Json, decoded, number, section, sections, shown, text
from scrimshaw.ingest.transcripts.gathering import Gathering, moment
from scrimshaw.ingest.turns import Transcript
from scrimshaw.models import EventKind

_REFUSED = "The user rejected permission"


def parse_opencode(source: str) -> Transcript:
    """The session in `{"info": ..., "messages": [{"info": ..., "parts": [...]}]}`.

    A sub-agent's session counts to the one that started it.
    """
    whole = decoded(source)
    known = whole if isinstance(whole, Mapping) else {}
    about = section(known, "info")
    own, parent = text(about.get("id")), text(about.get("parentID"))
    gathered = Gathering()
    for message in sections(known.get("messages")):
        _read_message(message, gathered, own if parent else "")
    return Transcript(
        session=parent or own,
        client="opencode",
        cwd=text(about.get("directory")),
        turns=gathered.in_order(),
        skipped=0 if known or not source.strip() else 1,
    )


def _read_message(message: Json, gathered: Gathering, agent: str) -> None:
    about = section(message, "info")
    parts, at = list(sections(message.get("parts"))), moment(section(about, "time").get("created"))
    words = "\n".join(text(part.get("text")) for part in parts if part.get("type") == "text" and _is_said(part))
    if about.get("role") == "user":
        gathered.say(EventKind.PROMPT, words, at, agent)
    elif about.get("summary") is True:
        gathered.compact(words, at)
    elif about.get("role") == "assistant":
        for part in parts:
            _read_part(part, gathered, at, agent)


def _read_part(part: Json, gathered: Gathering, at: float, agent: str) -> None:
    if part.get("type") == "text" and _is_said(part):
        gathered.say(EventKind.ANSWER, text(part.get("text")), moment(section(part, "time").get("start")) or at, agent)
    elif part.get("type") == "tool":
        _read_call(part, gathered, at, agent)


def _read_call(part: Json, gathered: Gathering, at: float, agent: str) -> None:
    state, call_id = section(part, "state"), text(part.get("callID"))
    error = text(state.get("error"))
    if state.get("status") not in ("completed", "error") or error.startswith(_REFUSED):
        return
    failed = bool(error) or bool(number(section(state, "metadata").get("exit")))
    gathered.ask(call_id, text(part.get("tool")), section(state, "input"))
    ended = moment(section(state, "time").get("end")) or at
    gathered.finish(call_id, error or shown(state.get("output")), failed, ended, agent=agent)


def _is_said(part: Json) -> bool:
    return not part.get("synthetic") and not part.get("ignored")
