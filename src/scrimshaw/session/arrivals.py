"""Memories at a start: those of sessions that ran elsewhere, whose files git brought, and the rules that any has."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from scrimshaw.config import MEMORIES
from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.ingest.redact import redact
from scrimshaw.models import SESSIONS, EventKind, Filters, MemoryType, RecordedEvent, Tier, Trust
from scrimshaw.search.lineage import lowest_trust
from scrimshaw.search.results import StateLine
from scrimshaw.session.draft import read_lines
from scrimshaw.session.keywords import find_topics
from scrimshaw.session.statements import PATTERNS, cut_line
from scrimshaw.storage.index import Index
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.sessions import Sessions

MOST_READ, MOST_ARRIVED = 20, 5  # files that are read, a millisecond each, and memories of which a start hears
LARGEST = 64 * 1024  # bytes of a file; the longest memories of sessions have a tenth
LONGEST_HEARD = 25  # words of a line that name subjects; a longer one, such as a quoted request, speaks of many things
_DONE = ("Outcome", "Changed", "Decisions")  # the sections that say what became of a point
MOST_RULED, LONGEST_RULE = 60, 160  # memories in which rules are looked for, and characters of one
# A part of a line with what a person added when they agreed, and the sections in which people rule.
_NOTED_PART = re.compile(r"(?:\A| — (?:agreed in e(?P<event>\d+): )?)(?P<text>.+?)(?= — |\Z)")
_RULING, _SENTENCES = ("Decisions", "Task", "Asked later"), re.compile(r"(?<=[.!?;]) ")
_DECISION, _RULE = PATTERNS["decisions"], PATTERNS["rules"]


class Arrival(Struct, frozen=True):
    """The memory of a session that is not in the journal here."""

    id: str
    title: str
    body: str
    trust: Trust
    last_event: float  #: when it was written, in seconds since 1970
    arrived: float = 0.0  #: when its file came here

    def find_subjects(self) -> list[frozenset[str]]:
        """The words that name subjects of the title, and of each line that says what was done."""
        lines = (text for _, text, _ in read_lines(self.body, _DONE))
        return [words for words in map(find_topics, (self.title, *lines)) if len(words) <= LONGEST_HEARD]


def read_arrivals(sessions: Sessions, folder: Path) -> list[Arrival]:
    """Those that came last into the vault of a `.scrimshaw` folder, the last written first.

    They are read as files: a start does not wait until a server has indexed what was pulled.
    """
    place, own = folder / MEMORIES / SESSIONS, {each.draft.memory_id for each in sessions.records() if each.draft}
    files = list[tuple[float, Path]]()
    with suppress(OSError), os.scandir(place) as entries:
        for each in entries:
            found = each.stat(follow_symlinks=False)
            is_memory = each.name.endswith(SUFFIX) and each.is_file(follow_symlinks=False) and found.st_size <= LARGEST
            if is_memory and f"{SESSIONS}/{each.name.removesuffix(SUFFIX)}" not in own:
                files.append((found.st_mtime, Path(each.path)))
    if not files or place.is_symlink():
        return []
    from scrimshaw.ingest import front_matter as front  # noqa: PLC0415 - few starts need YAML
    from scrimshaw.ingest.memory_file import is_private, parse_memory_file  # noqa: PLC0415 - likewise

    arrivals = list[Arrival]()
    for arrived, path in sorted(files, reverse=True)[:MOST_READ]:
        with suppress(OSError, UnreadableFile, ValueError):
            file = parse_memory_file(path.read_bytes())
            origin, tier = front.parse_provenance(file.values), front.parse_member(file.values, "tier", Tier.NORMAL)
            written = datetime.fromisoformat(front.parse_time(file.values.get("updated"))).timestamp()
            is_strange = origin.session and not sessions.get(origin.session) and tier != Tier.DEPRECATED
            if is_strange and not (is_private(file) or is_suspicious(path.stem.replace("-", " "))):
                title, body = redact(front.parse_line(file.values.get("title"))).text, redact(file.body).text
                trust = lowest_trust((origin.trust, Trust.AGENT))  # nobody here vouches for it
                name = f"{SESSIONS}/{path.stem}"
                arrivals.append(Arrival(name, title, body, trust, min(written, arrived), arrived))
    return sorted(arrivals[:MOST_ARRIVED], key=attrgetter("last_event"), reverse=True)


def find_rules(sessions: Sessions, index: Index, told: Sequence[StateLine]) -> Iterator[StateLine]:
    """What people ruled for good in the last sessions, and what memories of preferences say, the newest first."""
    known, kinds = "\n".join(map(attrgetter("text"), told)), (MemoryType.SESSION, MemoryType.PREFERENCE)
    memories = index.select(Filters(types=kinds), sort="updated", limit=MOST_RULED)
    bodies = index.bodies([*map(attrgetter("id"), memories)])
    for each in memories:
        trust, body = each.provenance.trust, bodies.get(each.id, "")
        if each.type == MemoryType.PREFERENCE:
            items = (line.strip(" -*") for line in body.splitlines() if not line.startswith("#"))
            texts = [] if trust == Trust.WEB else ["; ".join(filter(None, items))]
        else:
            texts = [*list_rules(body, partial(sessions.events, each.provenance.session, EventKind.PROMPT))]
        for text in texts:
            if text and text not in known and not is_suspicious(text):
                yield StateLine(part="rule", text=cut_line(text, LONGEST_RULE), origin=each.id, trust=trust)


def _is_rule(sentence: str) -> bool:
    """Whether it says what is to hold for good; not what always happens, or is not to be done at the moment."""
    is_order = _RULE["order"].search(sentence) and not _RULE["passing"].search(sentence)
    return bool(is_order or _DECISION["lasting"].search(sentence)) and not _DECISION["no_rule"].search(sentence)


def list_rules(body: str, read_prompts: Callable[[], Sequence[RecordedEvent]]) -> Iterator[str]:
    """The sentences of a session's memory that rule for good and, if its prompts are here, come from one of these."""
    prompts = None
    for _, line, number in read_lines(body, _RULING):
        for said in _NOTED_PART.finditer(line):
            if ruled := " ".join(filter(_is_rule, _SENTENCES.split(said["text"]))):
                prompts = {event.number for event in read_prompts()} if prompts is None else prompts
                if not prompts or int(said["event"] or number or 0) in prompts:
                    yield ruled if ruled.count(" ") > 2 else said["text"]  # "always 16 bits."
