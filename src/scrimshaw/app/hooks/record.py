"""Parse, redact, extract and record one event of a client; returns what the client should tell its model."""

import os
import re
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from scrimshaw.app.clients import load_client
from scrimshaw.app.clients.client import HEAD_BYTES, Client
from scrimshaw.app.processes import find_client_process
from scrimshaw.config import GLOBAL, HOOK_BUSY_MS, MEMORIES, PROJECT_FOLDER, RESUMED, Settings, find_project, load
from scrimshaw.errors import ConfigError, StorageFailure
from scrimshaw.ingest.events import Event, find_redactions, make_answers, make_observation, parse_epoch, redact_names
from scrimshaw.ingest.extraction import default_rules
from scrimshaw.ingest.redact import redact
from scrimshaw.models import CLIENT_TOOL, DRAFT_JOB, Action, Entry, EventKind, Observation, Session, content_hash
from scrimshaw.session import working_memory
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.durable import make_private
from scrimshaw.storage.engines import open_storage

LARGEST_INPUT, LARGEST_LOG = 8 * 1024 * 1024, 256 * 1024
# How much is read of a transcript, which may have many megabytes: its end, up to the beginning of the turn. A
# turn that was interrupted has no stop event, so a few turns are read again.
TAIL_BYTES, LONGEST_LINE, LONGEST_TURN = 256 * 1024, 4 * 1024 * 1024, 16 * 1024 * 1024
RECENT_ROWS = 40  # of a transcript, read before each call: all of a tail of 300 KB would cost 22 ms, these 1
MOST_ANSWERS = 300  # the last ones are recorded; a turn of hours has some hundreds
LONGEST_ANSWER = 8_000  # characters, about 2,000 tokens


def handle_payload(
    arguments: list[str],
    payload: bytes,
    *,
    allow_longer: Callable[[], object] = bool,
    at_end: Callable[[Storage, Settings], None] | None = None,
) -> str:
    """Record the event in a payload; returns what to print. Raises ScrimshawError, ValueError for an invalid payload.

    `allow_longer` is called before a session gets its summary or a server is asked, `at_end` when it is over.
    """
    client = load_client(arguments[0]) if arguments else None
    if client is None or len(payload) > LARGEST_INPUT:
        return ""
    fields = msgspec.json.decode(payload, type=dict[str, Any])
    event = client.parse_payload(fields, arguments[1] if len(arguments) > 1 else "")
    if event is None or event.occasion == "maybe":  # before every model call: not necessarily a compaction
        return ""
    has_memory, settings, unreadable = False, None, list[ConfigError]()
    with suppress(OSError):  # an impossible name of a folder
        project = find_project(Path(event.cwd or "."))
        has_memory = (project / PROJECT_FOLDER).is_dir()
    open_databases = partial(open_storage, busy_timeout_ms=HOOK_BUSY_MS, word_lists=False)
    try:
        if not has_memory or not (settings := load(project, unreadable=unreadable)).is_capturing:
            return ""
        event = structs.replace(redact_names(event), cwd=str(project))
        is_on_server = settings.storage.engine == "postgres"  # whose driver alone takes what other hooks have in all
        if event.kind is EventKind.START or EventKind.TOOL in client.reply_kinds or is_on_server:
            allow_longer()
        with closing(open_databases(settings)) as storage:
            text = _record(client, storage, event, settings)
            text = note_defaults(text, client, event, unreadable) if unreadable else text
            # A session becomes a memory when it ends, and before its context is compacted.
            if event.kind in (EventKind.END, EventKind.COMPACT) and settings.features.drafts:
                storage.journal.enqueue(DRAFT_JOB, event.session, {})
                if at_end and event.kind is EventKind.END:
                    at_end(storage, settings)
    except (ConfigError, StorageFailure) as error:
        from scrimshaw.app.hooks.injection import answer_unrecorded  # noqa: PLC0415 - see `_record`

        text = answer_unrecorded(client, open_databases, event, settings, error)
        log_error(error)
    return client.format_reply(event.kind, text) if text else ""


def note_defaults(text: str, client: Client, event: Event, unreadable: list[ConfigError]) -> str:
    """The text, at a start also that defaults hold in place of files of settings, which the log says too."""
    for fault in unreadable if event.kind is EventKind.START and event.kind in client.reply_kinds else ():
        from scrimshaw.app.hooks.injection import DEFAULTS_NOTE, tell_fault  # noqa: PLC0415 - see `_record`

        log(f"WARN Defaults hold: {redact(str(fault)).text}")
        text = tell_fault(text, DEFAULTS_NOTE, fault)
    return text


def _record(client: Client, storage: Storage, event: Event, settings: Settings) -> str:
    now, missed = time.time(), list[Event]()
    if event.transcript and not event.agent:
        event, missed = read_transcript_tail(client, event, settings)
        events = partial(storage.sessions.events, event.session)
        recent = [*events(EventKind.PROMPT), *events(last=2 * RECENT_ROWS)] if missed else []
        known = {(each.kind, each.call_id) for each in recent}  # with those of sub-agents in between
        known |= {(each.kind, each.text) for each in recent} | {(event.kind, event.prompt)}  # a hook gives another id
        missed = [each for each in missed if (each.kind, each.prompt or each.call_id) not in known]
    rules = default_rules() if missed or event.kind is EventKind.TOOL else ()
    if rules and settings.rules:
        from scrimshaw.ingest.rule_checks import usable_rules  # noqa: PLC0415 - few users have rules of their own

        rules = usable_rules(settings.rules)
    make = partial(make_observation, process=find_client_process(), extraction=settings.features.extraction)
    make = partial(make, rules=rules, drop_ratio=settings.redaction.drop_ratio)
    for each in map(redact_names, missed):
        _observe(storage, settings, now, each, make(each))
    observation = make(event)
    is_new = observation in _observe(storage, settings, now, event, observation)
    is_start = event.kind is EventKind.START
    for earlier in storage.sessions.latest(before=event.session, with_work=True) if is_start else ():
        record_late_answers(storage, settings, earlier, TAIL_BYTES)
    # Few events get a reply. Clients report a second compaction of a session exactly like the first.
    asked = [event] if (is_start or is_new) and event.kind in client.reply_kinds else []
    if asked and EventKind.TOOL in client.reply_kinds and not is_start:
        asked = [*_find_held_back(client, storage, event), *(asked if event.kind is EventKind.PROMPT else ())]
    if asked:
        from scrimshaw.app.hooks.injection import context_injection  # noqa: PLC0415 - costs most events 8 ms for nothing

        return context_injection(storage, asked, settings, now)
    return ""


def _find_held_back(client: Client, storage: Storage, call: Event) -> list[Event]:
    """The start, prompts and compaction before a call or prompt, since the previous event with a reply."""
    kinds = (EventKind.START, EventKind.PROMPT, EventKind.COMPACT, EventKind.TOOL)
    *earlier, _ = storage.sessions.events(call.session, *kinds, last=RECENT_ROWS)
    since = [*takewhile(lambda x: x.kind not in client.reply_kinds, () if call.agent else reversed(earlier))]
    is_first = not since or len(storage.sessions.events(call.session, EventKind.START)) < 2
    starts = {EventKind.START: "startup" if is_first else "resume", EventKind.COMPACT: "compact"}
    found = ((EventKind.START if x.kind in starts else x.kind, starts.get(x.kind, ""), x.text) for x in reversed(since))
    return [structs.replace(call, kind=kind, occasion=when, prompt=text) for kind, when, text in found]


def _observe(storage: Storage, settings: Settings, now: float, event: Event, *seen: Observation) -> list[Observation]:
    """Record what the agent said before an event, then what was `seen` of it; returns what was new."""
    admit = partial(working_memory.admit, now=now, settings=settings.session, event_decay=settings.features.event_decay)
    observe = partial(storage.sessions.observe, admit=admit, now=now, modulus=settings.session.counter_modulus)
    if event.said and settings.features.extraction and not event.agent:
        known = {each.call_id for each in storage.sessions.events(event.session, EventKind.ANSWER)}
        seen = (*make_answers(event, [each[:LONGEST_ANSWER] for each in event.said], known), *seen)
    new = [*filter(observe, seen)]
    for each in new:
        if classes := find_redactions(each):
            log(f"WARN Redaction applied: {', '.join(classes)}")
        if MEMORIES in each.path:
            _record_vault_write(storage, settings, each)
    return new


def record_late_answers(storage: Storage, settings: Settings, session: Session, most: int = LONGEST_TURN) -> None:
    """Record what an agent said after its session's last hook: written down late, or before the client was killed."""
    client, rested = load_client(session.client), session.last_event
    path = client.find_transcript(session.id, Path.home()) if client else None
    with suppress(OSError):  # the file may be gone by now
        if client and path and settings.is_capturing and path.stat().st_mtime > rested:
            lines = skip_pause(read_turn(client, path, most), settings.folder / RESUMED, session.id)
            event = Event(kind=EventKind.STOP, session=session.id, said=tuple(read_last_answers(client, lines)))
            _observe(storage, settings, rested - 1, event)  # a past event does not reopen the session


def _record_vault_write(storage: Storage, settings: Settings, seen: Observation) -> None:
    """Note in the ledger that a client's own tool wrote a memory's file, which then has an agent's trust."""
    if not (seen.tool in ("Edit", "Write") or (seen.item and seen.item.text.text.startswith(("Edit ", "Write ")))):
        return
    file = Path(os.path.realpath(settings.project / seen.path))
    for prefix, folder in (("", settings.folder), (GLOBAL, settings.home)):
        vault = Path(os.path.realpath(folder / MEMORIES))
        if file.suffix == ".md" and file.is_relative_to(vault) and file.is_file():
            name = prefix + file.relative_to(vault).with_suffix("").as_posix()
            why, new_hash = "written by a tool of the client", content_hash(file.read_bytes())
            entry = partial(Entry, action=Action.EXTERNAL, reason=why, actor=CLIENT_TOOL, session=seen.session)
            storage.journal.record([entry(memory_id=name, new_hash=new_hash)])


def read_transcript_tail(client: Client, event: Event, settings: Settings) -> tuple[Event, list[Event]]:
    """The event with additions from the end of its transcript, and calls and prompts there that no hook reported.

    Before a call or prompt these are what the agent said and did since the last one, so all is recorded in its order.
    """
    is_next = event.kind in (EventKind.TOOL, EventKind.PROMPT)
    is_at_rest = event.kind in (EventKind.STOP, EventKind.COMPACT, EventKind.END)
    if not (is_next or is_at_rest or (client.hides_prompts and event.kind is EventKind.START)):
        return event, []
    lines = read_turn(client, Path(event.transcript), TAIL_BYTES if is_next else LONGEST_TURN)
    if is_next:
        if event.failed is None:
            event = structs.replace(event, failed=client.read_outcome(lines, event.call_id))
        place = next((place for place, row in enumerate(lines) if event.call_id in row), len(lines))
        lines = lines[max(0, place - RECENT_ROWS) : place]
    lines = skip_pause(lines, settings.folder / RESUMED, event.session)
    missed = [structs.replace(each, session=event.session, cwd=event.cwd) for each in client.read_missed_events(lines)]
    event = structs.replace(event, said=(*event.said, *read_last_answers(client, lines)))
    if event.context_used is None and not is_next:
        event = structs.replace(event, context_used=client.read_context_share(lines))
    return event, missed


def skip_pause(lines: list[str], resumed: Path, session: str) -> list[str]:
    """The lines after the last pause, by the times in them: text of the pause stays unrecorded."""
    begun = re.match(r"\d{13}(?=_)", session)  # of one client, whose lines have no times: milliseconds
    since = resumed.stat().st_mtime if resumed.exists() else 0.0
    if since <= (int(begun[0]) / 1000 if begun else 0.0):
        return lines
    times = (re.search(r'"timestamp":\s*"([^"]+)"', line) for line in lines)
    return lines[next((place for place, at in enumerate(times) if at and parse_epoch(at[1]) >= since), len(lines)) :]


def read_last_answers(client: Client, lines: list[str]) -> list[str]:
    """The main agent's texts in the lines of a transcript: the last 300, each cut to 8,000 characters."""
    answers = (answer.strip()[:LONGEST_ANSWER] for answer in client.read_answers(lines))
    return list(deque(filter(None, answers), maxlen=MOST_ANSWERS))


def read_turn(client: Client, path: Path, most: int) -> list[str]:
    """The last lines of a file, back to the prompt of the turn; none when it cannot be read.

    The lines are whole, but of a rewritten history that does not fit there is only the beginning.
    """
    length = TAIL_BYTES
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            while True:
                file.seek(max(0, size - length))
                lines = file.read(length).decode("utf-8", "replace").split("\n")
                cut, lines = ("", lines) if length >= size else (lines[0], lines[1:])
                if length >= min(size, most) or any(map(client.begins_turn, reversed(lines))):
                    break
                length *= 4
            if client.rewrite_mark and client.rewrite_mark in cut[-60:]:
                file.seek(start := max(0, size - length - LONGEST_LINE))
                head = file.read(size - length - start).rpartition(b"\n")[2][:HEAD_BYTES]
                lines.insert(0, head.decode("utf-8", "replace"))
            return lines
    except OSError:
        return []


def log(line: str) -> None:
    """Add a line to the hook's log: what went wrong or was removed, never its content."""
    with suppress(OSError):  # a log that is unwritable, or has no folder, must not fail the hook
        path = find_project(Path.cwd()) / PROJECT_FOLDER / "hook.log"
        make_private(path)
        if path.stat().st_size > LARGEST_LOG:  # only its newer half is kept, from the start of a line
            path.write_bytes(path.read_bytes()[-LARGEST_LOG // 2 :].partition(b"\n")[2])
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {line}\n")


def log_error(error: BaseException) -> None:
    """Log what was raised and where; a message that may contain the input is left out."""
    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    place = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else "an unknown place"
    why = f": {redact(str(error)).text}" if isinstance(error, ConfigError | StorageFailure) else ""
    log(" ".join(f"{type(error).__name__} in {place}{why}".split()))
