"""Memories at a start: those of sessions that ran elsewhere, whose files git brought, and the rules that any has."""

import math
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import MEMORIES
from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.ingest.redact import redact
from scrimshaw.models import (
    SESSIONS,
    EventKind,
    Filters,
    Memory,
    MemoryType,
    Provenance,
    RecordedEvent,
    Session,
    Tier,
    Trust,
)
from scrimshaw.search.lineage import lowest_trust
from scrimshaw.search.results import StateLine
from scrimshaw.search.tokens import STEM, query_terms
from scrimshaw.session.failures import CommandRun, find_runs
from scrimshaw.session.keywords import find_topics
from scrimshaw.session.statements import BY_REPLY, PATTERNS, WORDS, cut_line
from scrimshaw.storage.index import Index
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.place import find_branch
from scrimshaw.storage.ports import Query
from scrimshaw.storage.sessions import Sessions

MOST_FOLDERS, _ACTS = 300, (EventKind.PROMPT, EventKind.TOOL, EventKind.ANSWER)  # folders searched for files
MOST_READ, MOST_ARRIVED = 20, 5  # files that are parsed, a millisecond each, and memories of which a start hears
LARGEST = 64 * 1024  # bytes of a file; the longest memories of sessions have a tenth
LONGEST_HEARD = 25  # words of a line that name subjects; a longer one, such as a quoted request, speaks of many things
MOST_RULED, LONGEST_RULE = 60, 160  # memories in which rules are looked for, and characters of one
MOST_TOUCHED, MOST_OF_RULE, SOME_PIECES = 2, 0.6, 6  # rules told, share of one's words, pieces that have a rare word
_LINE = re.compile(r"(?m)^- (.+?)(?: \(e(\d+)(?:, e\d+)*\))?$")
_ITEM = re.compile(r"(?m)^(?!#)[ *-]*([^\s*-](?:.*[^\s*-])?)")
# A part of a line with what a person added when they agreed, and the sections in which people rule.
_NOTED_PART = re.compile(rf"(?:\A| — (?:(?:{'|'.join(BY_REPLY)})(?P<event>\d+): )?)(?P<text>.+?)(?= — |\Z)")
_RULING, _SENTENCES = ("Decisions", "Task", "Asked later"), re.compile(r"(?<=[.!?;]) ")
_HEAD = 2048  # bytes of a file in which it says when it was written
_WRITTEN = re.compile(rb"(?m)^updated: *['\"]?([\dT:.+Z-]+)")
_DECISION, _RULE, _NOTED_RUN = PATTERNS["decisions"], PATTERNS["rules"], PATTERNS["failures"]["noted"]
# The words that do not name what a rule is about: all but names of files.
_OF_ANY_RULE = {word[:STEM] for name, words in WORDS.items() if name != "stems" for word in words}


class Arrival(Struct, frozen=True, dict=True):
    """The memory of a session, such as one that is not in the journal here."""

    id: str
    title: str
    body: str
    session: str
    trust: Trust
    last_event: float  #: when it was written, in seconds since 1970
    arrived: float = 0.0  #: when its file came here
    runs = cached_property[list[CommandRun]](lambda self: find_runs(self.list_events(), ()))  #: of which it tells

    def find_subjects(self) -> list[frozenset[str]]:
        """The words that name subjects of the title, and of each line that says what was done."""
        lines = (text for _, text, _ in read_lines(self.body, ("Outcome", "Changed", "Decisions")))
        return [words for words in map(find_topics, (self.title, *lines)) if len(words) <= LONGEST_HEARD]

    def list_events(self) -> list[RecordedEvent]:
        """The runs of which it tells, as calls, with what cured a failed one and, last, how it ended, as answers."""
        told, kind, at = list[RecordedEvent](), EventKind.TOOL, self.last_event
        call = RecordedEvent(session=self.id, number=0, kind=kind, tool="Bash", call_id="", text="", at=at)
        answer = replace(call, kind=EventKind.ANSWER, tool="")
        lines = (line for _, line, _ in read_lines(self.body, ("Tests", "Learned", "Problems", "Open")))
        for noted in filter(None, map(_NOTED_RUN.match, lines)):
            error, command, passed, cure = noted.group("error", "command", "passed", "cure")
            green = replace(call, text=command, failed=None if error and not passed else False)  # None: it got further
            red, said = replace(call, text=f"{command}\n{error}", failed=True), replace(answer, text=cure or "")
            told += [red] * bool(error) + [said] * bool(cure) + [green] * bool(cure or not error)
        ended = ". ".join([self.title, *(line for _, line, _ in read_lines(self.body, ("Outcome",)))])
        return [replace(each, number=number) for number, each in enumerate([*told, replace(answer, text=ended)])]

    def has_passed(self, failure: str) -> bool:
        """Whether what failed, as a line of an earlier memory tells it, passed when last run."""
        left = Arrival("", "", f"## Open\n- {failure}", "", self.trust, 0.0).runs
        return any([x.event.failed for x in self.runs if x.repeats(run)][-1:] == [False] for run in left)


def list_arrivals(sessions: Sessions, index: Index, memories: Iterable[Memory]) -> Iterator[Arrival]:
    """Those of these memories whose sessions are not in the journal here."""
    for each in memories:
        made, at = each.provenance, datetime.fromisoformat(each.updated).timestamp()
        if each.type == MemoryType.SESSION and made.session and not each.faults and not sessions.get(made.session):
            yield Arrival(each.id, each.title, index.bodies([each.id]).get(each.id, ""), made.session, made.trust, at)


def read_arrivals(folder: Path, known: Container[str], since: float = 0.0) -> Iterator[Arrival]:
    """Those in the vault of a `.scrimshaw` folder: a start does not wait until files are indexed.

    Those that came since a moment are first, and of these the sessions that ended last; most are without their text.
    """
    place, files = folder / MEMORIES / SESSIONS, list[tuple[bool, float, str, float]]()
    with suppress(OSError), os.scandir(place) as entries:
        for each in () if place.is_symlink() else entries:
            found = each.stat(follow_symlinks=False)
            is_memory = each.name.endswith(SUFFIX) and each.is_file(follow_symlinks=False) and found.st_size <= LARGEST
            if is_memory and (name := f"{SESSIONS}/{each.name.removesuffix(SUFFIX)}") not in known:
                with suppress(OSError, ValueError):
                    ended = found.st_mtime
                    with Path(each.path).open("rb") as raw:
                        dates = _WRITTEN.findall(raw.read(_HEAD))
                    for stated in dates[:1]:
                        ended = min(ended, datetime.fromisoformat(stated.decode()).timestamp())
                    files.append((found.st_mtime > since, ended, name, found.st_mtime))
    if files:
        from scrimshaw.ingest import front_matter as front  # noqa: PLC0415 - few starts need YAML
        from scrimshaw.ingest.memory_file import find_conflict, is_private, parse_memory_file  # noqa: PLC0415 - likewise
    for number, (_, ended, name, arrived) in enumerate(sorted(files, reverse=True)):
        if number >= MOST_READ:
            yield Arrival(name, "", "", "", Trust.AGENT, ended, arrived)
            continue
        with suppress(OSError, UnreadableFile, ValueError):
            file = parse_memory_file((place / f"{name.removeprefix(f'{SESSIONS}/')}{SUFFIX}").read_bytes())
            origin, tier = front.parse_provenance(file.values), front.parse_member(file.values, "tier", Tier.NORMAL)
            is_shared = origin.session and tier != Tier.DEPRECATED and not is_private(file)
            if is_shared and not find_conflict(file)[0] and not is_suspicious(name.replace("-", " ")):
                title, body = redact(front.parse_line(file.values.get("title"))).text, redact(file.body).text
                trust = lowest_trust((origin.trust, Trust.AGENT))  # nobody here vouches for it
                yield Arrival(name, title, body, origin.session, trust, ended, arrived)


def find_other_branch(sessions: Sessions, project: Path, session: str, at: str | float, *, asks: bool = False) -> str:
    """The branch of a session here at a moment; empty if the current one has its work, as only git knows of a pull."""
    branch, commit = find_branch(project, datetime.fromisoformat(at).timestamp() if isinstance(at, str) else at)
    known = sessions.get(session) if branch and not is_suspicious(re.sub("[-/_]", " ", branch)) else None
    if known and commit and asks:
        from scrimshaw.storage.git import is_in_history  # noqa: PLC0415 - few starts ask git

        branch = "" if is_in_history(project, commit) else branch
    return branch if known and not known.work_tree else ""  # a work tree has a log of its own


def name_place(
    sessions: Sessions, lines: Sequence[StateLine], about: Session, project: Path, *, asks: bool = False
) -> Iterator[StateLine]:
    """The lines about a session, the first with its other work tree or branch; without files that are gone."""
    is_shown = about.work_tree and not is_suspicious(about.work_tree.replace("-", " "))
    place = f"in work tree {about.work_tree}: " if is_shown else ""
    for act in () if about.work_tree else sessions.events(about.id, *_ACTS, last=1):  # its client may end elsewhere
        branch = find_other_branch(sessions, project, about.id, act.at, asks=asks)
        place = f"on branch {branch}: " if branch else ""
    for one in lines:
        text = one.text
        if one.part == "not committed" and not about.work_tree:
            folders = [project, *project.glob("*/"), *project.glob("*/*/")]  # a path may begin in one
            if len(folders) <= MOST_FOLDERS:
                kept = (x for x in text.split(", ") if " " in x or any(os.path.lexists(top / x) for top in folders))
                text = ", ".join(kept)
        if text != "unless by hand since then":
            yield replace(one, text=f"{place if one is lines[0] else ''}{text}")


def find_rules(sessions: Sessions, index: Index | None, told: str, folder: Path | None) -> Iterator[StateLine]:
    """What people ruled for good, in new files of a `folder`, then in the last memories, and what preferences say."""
    kinds = (MemoryType.SESSION, MemoryType.PREFERENCE)
    memories = index.select(Filters(types=kinds), sort="updated", limit=MOST_RULED) if index else []
    bodies = index.bodies([*map(attrgetter("id"), memories)]) if index else {}
    for each in (*(read_arrivals(folder, bodies) if folder and len(memories) < MOST_RULED else ()), *memories):
        origin: Arrival | Provenance = each if isinstance(each, Arrival) else each.provenance
        body = each.body if isinstance(each, Arrival) else bodies.get(each.id, "")
        if isinstance(each, Arrival) or each.type == MemoryType.SESSION:
            texts = list_rules(body, partial(sessions.events, origin.session, EventKind.PROMPT))
        else:
            texts = iter([] if origin.trust == Trust.WEB else ["; ".join(_ITEM.findall(body))])
        for text in texts:
            if text and text not in told and not is_suspicious(text):
                yield StateLine(part="rule", text=cut_line(text, LONGEST_RULE), origin=each.id, trust=origin.trust)


def find_touched(sessions: Sessions, index: Index, text: str) -> list[StateLine]:
    """The newest prohibitions with half of whose nouns, one of them rare, or most of whose words a text has."""
    asked, touched = {word[:STEM] for word in query_terms(text)}, dict[str, StateLine]()
    rare = math.log(max(index.count(None)[""] / SOME_PIECES, 1))  # the score of a word that so many pieces have
    for rule in find_rules(sessions, index, "", None):
        for piece in filter(is_rule, filter(_RULE["forbids"].search, _RULE["reason"].split(rule.text))):
            words = {*query_terms(piece)} - WORDS["any_rule"]
            shared = {word for word in words - WORDS["any_work"] if word[:STEM] in asked}
            names = {word for word in words if len(word) > 2 and word[:STEM] not in _OF_ANY_RULE}
            best = [index.match_text(Query(((word,),)), Filters(), 1) for word in names & shared]
            is_named = 2 * len(best) >= len(names) and any(not each or each[0].score >= rare for each in best)
            if is_named or len(shared) >= max(2, MOST_OF_RULE * len(words)):
                touched.setdefault(rule.text, rule)
    return [*touched.values()][:MOST_TOUCHED]


def read_lines(body: str, headings: Container[str]) -> Iterator[tuple[str, str, str]]:
    """The heading, the text and the number of the event, if it has one, of each line below these headings of a body."""
    for section in f"\n{body}".split("\n## ")[1:]:
        heading, _, rest = section.partition("\n")
        if (name := heading.strip()) in headings:
            yield from ((name, text, number) for text, number in _LINE.findall(rest))


def is_rule(sentence: str) -> bool:
    """Whether it says what is to hold for good; not what always happens, or is not to be done at the moment."""
    is_order = _RULE["order"].search(sentence) and not _RULE["passing"].search(sentence)
    return bool(is_order or _DECISION["lasting"].search(sentence)) and not _DECISION["no_rule"].search(sentence)


def list_rules(body: str, read_prompts: Callable[[], Sequence[RecordedEvent]]) -> Iterator[str]:
    """The sentences of a session's memory that rule for good and, if its prompts are here, come from one of these."""
    prompts = None
    for _, line, number in read_lines(body, _RULING):
        for said in _NOTED_PART.finditer(line):
            if ruled := " ".join(filter(is_rule, _SENTENCES.split(said["text"]))):
                prompts = {event.number for event in read_prompts()} if prompts is None else prompts
                if not prompts or int(said["event"] or number or 0) in prompts:
                    yield ruled if ruled.count(" ") > 2 else said["text"]  # "always 16 bits."
