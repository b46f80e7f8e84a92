"""Measures a memory into which recorded sessions of Claude Code were imported: its answers, and its start summaries.

A question is answered if all its keys (regular expressions) match in what is returned of one session. A token is four
characters of all that is sent: the whole reply as compact JSON, or the bare passages of plain text.

A fact is covered if one line contains its evidence word for word, or at least half of the content words, and three, of
its evidence or its statement. The same facts looked up in the summary of another session show the rate of chance.
"""

import os
import re
import subprocess
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeVar

import apsw
import msgspec
import typer
from msgspec import Struct

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example
from scrimshaw.app.cli.output import Lines, line, progress, show
from scrimshaw.app.clients import all_clients
from scrimshaw.config import Settings
from scrimshaw.engine import Engine, open_engine
from scrimshaw.engine.importers import read_session
from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.events import StoredSession
from scrimshaw.models import EventKind, RecordedEvent
from scrimshaw.search.tokens import query_terms
from scrimshaw.session.draft import build_draft, render_body
from scrimshaw.session.keywords import find_stems
from scrimshaw_lab.labelled import lines_of
from scrimshaw_lab.metrics import bootstrap_interval, mean

FOLDS, BUDGETS, TOKEN_CHARACTERS = 5, (350, 600, 1200), 4
NAMES = "sessions.json"
PIECE_CHARACTERS, MOST_PIECES = 900, 20
LEAST_WORDS, LEAST_SHARE = 3, 0.5
_COMMAND = "from scrimshaw.app.cli.main import run; run()"
# A hook without its time limit, which would silence it on a slow machine.
_HOOK = "import sys, scrimshaw.app.hooks.record as r; print(r.handle_payload(['claude'], sys.stdin.buffer.read()))"
_ORIGIN = re.compile(r"\bsession:([^\s,;()/#]+)(?:/(\d+)|#e(\d+))?")
_TASK, _FAILURE = re.compile(r"- task\b"), re.compile(r"- (?:fail|error|problem|broken|red\b|open(?! be))")
_TIME, _OTHERS = re.compile(r'"timestamp": *"([^"]+)"'), re.compile(r"- (?:\w+ )?(?:before|beside it|since|rule) \(")

# An answer: (session, text) of each passage, best first, and the tokens sent; asked by a query and a budget.
Answer = tuple[Sequence[tuple[str, str]], int]
Ask = Callable[[str, int], Answer]
Measures = dict[str, float]


class Question(Struct, frozen=True, kw_only=True):
    """A question about one session: the kind of thing it asks for, and whether in the session's own words."""

    id: str
    session: str
    query: str
    keys: tuple[str, ...]
    kind: str = ""
    wording: str = ""

    def is_answered(self, passages: Iterable[tuple[str, str]]) -> bool:
        """Whether all keys match in the texts of one session."""
        texts: defaultdict[str, str] = defaultdict(str)
        for session, text in passages:
            texts[session] += f"{text}\n"
        return any(all(re.search(key, text, re.IGNORECASE) for key in self.keys) for text in texts.values())

    def measure(self, answer: Answer, budget: int, names: Mapping[str, str]) -> Measures:
        """The measures of an answer, shares as 0 or 1."""
        first, tokens = "".join(names.get(session, session) for session, _ in answer[0][:1]), answer[1]
        hit = float(self.is_answered(answer[0]))
        known = {
            "answered": hit,
            "right session first": float(first == self.session),
            "over budget": float(tokens > budget),
        }
        return {**known, "tokens": tokens, self.kind: hit, self.wording: hit}


class Fact(Struct, frozen=True, kw_only=True):
    """What the next session needs to know, in a reader's words (`what` failed, its cure) and in the transcript's."""

    text: str | None = ""
    what: str = ""
    cure: str = ""
    evidence: str | None = ""

    def is_told(self, lines: Iterable[str]) -> bool:
        """Whether one of the lines covers it."""
        statements = [each for each in (self.evidence, self.text, self.what) if each]
        evidence, wanted = _fold(self.evidence or ""), [*map(find_stems, statements)]
        return any(
            (evidence and evidence in _fold(line))
            or any(len(stems & find_stems(line)) >= max(LEAST_WORDS, LEAST_SHARE * len(stems)) for stems in wanted)
            for line in lines
        )


class Needs(Struct, frozen=True, kw_only=True):
    """What a reader noted that the session after this one needs."""

    session: str
    task: str
    task_evidence: str = ""
    decisions: tuple[Fact, ...] = ()
    failures: tuple[Fact, ...] = ()
    changed: tuple[Fact, ...] = ()
    open: tuple[Fact, ...] = ()
    next: str | None = None
    next_evidence: str | None = None

    def find_told(self, text: str) -> dict[str, float]:
        """Which needs a text meets; the task has to be in a line of that name."""
        lines, following = text.splitlines(), [Fact(text=self.next, evidence=self.next_evidence)] * bool(self.next)
        task = Fact(text=self.task, evidence=self.task_evidence).is_told(filter(_TASK.match, lines))
        facts = {"next or open point": [*self.open, *following], "latest decision": self.decisions[-1:]}
        facts["any decision"] = [*self.decisions]
        told = {name: float(any(each.is_told(lines) for each in some)) for name, some in facts.items() if some}
        return {"task": float(task), **told}

    def compare_draft(self, body: str) -> Iterator[Measures]:
        """A row for each line of the noted sections, and for each note: whether the other side has it."""
        sections = dict(part.partition("\n")[::2] for part in f"\n{body}".split("\n## ")[1:])
        following = [Fact(text=self.next, evidence=self.next_evidence)] * bool(self.next)
        cures = [Fact(text=each.cure) for each in self.failures if each.cure]
        kinds = {
            "Decisions": self.decisions,
            "Learned": [*self.failures, *cures],
            "Open": [*self.open, *following],
            "Next": [*following, *self.open],
        }
        for name, facts in kinds.items():
            for told in filter(None, sections.get(name, "").splitlines()):
                yield {f"{name}: lines noted": float(any(each.is_told([told]) for each in facts))}
        lines = body.splitlines()
        carried = {"decisions": self.decisions, "failures": self.failures, "cures": cures, "changes": self.changed}
        for name, facts in {**carried, "open points": self.open, "next step": following}.items():
            yield from ({f"{name} carried": float(each.is_told(lines))} for each in facts)
        task = Fact(text=self.task, evidence=self.task_evidence)
        yield {"task carried": float(task.is_told(sections.get("Task", "").splitlines())), "characters": len(body)}

    def is_overcome(self, engine: Engine, line: str) -> bool:
        """Whether a failure in a line is over: its call passed later, or a reader noted its cure, not as open."""
        if origin := _ORIGIN.search(line):
            events = engine.sessions.events(origin[1])
            times = {item.at for item in engine.sessions.items(origin[1]) if str(item.number) == origin[2]}
            failed = {
                _call(each): each.number
                for each in events
                if each.failed and (str(each.number) == origin[3] or each.at in times)
            }
            if any(each.failed is False and each.number > failed.get(_call(each), each.number) for each in events):
                return True
        cured = (each for each in self.failures if each.cure and not Fact(text=each.cure).is_told([line]))
        return any(each.is_told([line]) for each in cured) and not any(each.is_told([line]) for each in self.open)


_LabelT = TypeVar("_LabelT", Question, Needs)


def import_sessions(folder: Path, transcripts: Sequence[Path], *options: str) -> Path:
    """Import files or folders into a new project in `folder`, with its own home; raises InvalidRequest."""
    project = folder / "project"
    (folder / "home").mkdir(parents=True)
    project.mkdir()
    _run_program(project, _COMMAND, "init", "--no-import")
    for each in transcripts:
        _run_program(project, _COMMAND, "import", "claude", str(each.absolute()), "--all-projects", *options)
    return project


def _run_program(project: Path, program: str, *arguments: str, payload: bytes = b"") -> bytes:
    """The output of a program in the project, with the project's own home and no other environment."""
    bare = ["env", "-i", f"HOME={project.parent / 'home'}", f"PATH={os.defpath}"]
    command = [*bare, sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, input=payload, capture_output=True, cwd=project, check=False)
    if done.returncode:
        problem = done.stderr.decode(errors="replace").strip()
        raise InvalidRequest(f"scrimshaw {' '.join(arguments)} failed: {problem}", "Look at the transcripts.")
    return done.stdout


def call_tool(engine: Engine, name: str, arguments: Mapping[str, object]) -> Any:
    """What a client gets from a tool; raises InvalidRequest."""
    from scrimshaw.app.mcp.protocol import Dispatcher  # noqa: PLC0415 - the help lists this package's commands
    from scrimshaw.app.mcp.tools import choose  # noqa: PLC0415 - likewise

    if (outcome := Dispatcher(choose("core"), engine).dispatch(name, arguments)).error:
        raise InvalidRequest(f"The question failed: {outcome.text}", "Correct the question.")
    return outcome


def ask_memory(engine: Engine, query: str, budget: int) -> Answer:
    """The answer of the tool that agents call, for a query and a budget."""
    call, passages = call_tool(engine, "memory_search", {"query": query, "token_budget": budget}), []
    nearest = (name.split(": ", 1) for name in call.reply.get("nearest", ()))  # of an uncertain answer
    for hit in (*call.reply["hits"], *({"id": name, "title": title} for name, title in nearest)):
        part, memory = _ORIGIN.match(hit["id"]), engine.index.get([hit["id"]]).get(hit["id"])
        session = part[1] if part else memory.provenance.session if memory else ""
        texts = hit.get("passages", {"": hit.get("text", "")}).values()
        passages.append((session or hit["id"], "\n".join((hit["title"], hit.get("anchor", ""), *texts))))
    return passages, len(call.text) // TOKEN_CHARACTERS


def index_plain_text(sessions: Iterable[StoredSession]) -> Ask:
    """The baseline: pieces of prompts and answers by bm25, best first until the budget is spent."""
    base = apsw.Connection(":memory:")
    base.execute("create virtual table pieces using fts5(text, session unindexed, tokenize='porter unicode61')")
    for session in sessions:
        events = (event for event in read_session(session)[0].events if event.kind is not EventKind.TOOL)
        texts = [event.prompt or event.output for event in events if not event.agent]
        pieces = (text[at : at + PIECE_CHARACTERS] for text in texts for at in range(0, len(text), PIECE_CHARACTERS))
        base.executemany("insert into pieces values (?, ?)", ((each, session.session) for each in pieces))

    def ask(query: str, budget: int) -> Answer:
        words = " OR ".join(f'"{word}"' for word in query_terms(query))
        matches = "select session, text from pieces where pieces match ? order by bm25(pieces) limit ?"
        passages, room = list[tuple[str, str]](), budget * TOKEN_CHARACTERS
        for session, text in base.execute(matches, (words, MOST_PIECES)) if words else ():
            passages += [(session, text[:room])] if room else []
            room -= len(text[:room])
        return passages, budget - room // TOKEN_CHARACTERS

    return ask


def start_after(needs: Needs, session: str, transcripts: Sequence[Path]) -> tuple[str, Measures]:
    """The start summary in a project of these transcripts, and how many of its lines are wrong."""
    with TemporaryDirectory(prefix="scrimshaw-") as scratch:
        project = import_sessions(Path(scratch) / "new", transcripts, "--no-vectors")
        payload = {"session_id": "next", "hook_event_name": "SessionStart", "source": "startup", "cwd": str(project)}
        reply = _run_program(project, _HOOK, payload=msgspec.json.encode(payload)).strip()
        sent = msgspec.json.decode(reply)["hookSpecificOutput"]["additionalContext"] if reply else ""
        text = _complete_origins(sent)
        lines, failures = text.splitlines(), [line for line in text.splitlines() if _FAILURE.match(line)]
        with open_engine(Settings(project=project, home=project.parent / "home")) as engine:
            overcome = sum(needs.is_overcome(engine, line) for line in failures)
    foreign = sum(any(x[1] != session for x in _ORIGIN.finditer(each)) for each in lines if not _OTHERS.match(each))
    wrong = {"failures told": len(failures), "of them overcome": overcome, "lines of another session": foreign}
    return text, {**wrong, "tokens": len(sent) // TOKEN_CHARACTERS}


def average(columns: Mapping[str, Sequence[Measures]]) -> dict[str, dict[str, float]]:
    """For each measure, how many have it, and its mean in each column."""
    names = dict.fromkeys(name for rows in columns.values() for row in rows for name in row if name)
    table = dict[str, dict[str, float]]()
    for name in names:
        values = {column: [row[name] for row in rows if name in row] for column, rows in columns.items()}
        table[name] = {"count": max(map(len, values.values()))}
        table[name] |= {column: mean(had) for column, had in values.items() if had}
    return table


def find_intervals(questions: Sequence[Question], columns: Mapping[str, Sequence[Measures]]) -> dict[str, Any]:
    """95 % intervals of each column's share of answers, and of the first one's lead, with sessions resampled."""
    values = {column: [float(row["answered"]) for row in rows] for column, rows in columns.items()}
    values["lead"] = [ours - theirs for ours, theirs in zip(*values.values(), strict=True)]
    sessions = dict.fromkeys(each.session for each in questions)  # in a fixed order, so that runs repeat
    drawn = {
        name: [[v for v, q in zip(all_, questions, strict=True) if q.session == s] for s in sessions]
        for name, all_ in values.items()
    }
    return {name: bootstrap_interval(groups) for name, groups in drawn.items()}


def _complete_origins(text: str) -> str:
    """The text with the last named session added to each `#eN` and `/N` that lacks one."""
    session, parts = "", list[str]()
    for part in re.split(r"(?m)^(?=- )", text):
        found = _ORIGIN.search(part)
        session = f"session:{found[1]}" if found else session
        parts.append(re.sub(r"\((?=(?:#e|/)\d)", lambda _, session=session: f"({session}", part, count=1))
    return "".join(parts)


def _call(event: RecordedEvent) -> tuple[str, str]:
    return event.tool, event.text.partition("\n")[0]


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


app = typer.Typer()

_labels = partial(typer.Option, exists=True, dir_okay=False)
Sessions = Annotated[
    Path, typer.Option(exists=True, file_okay=False, help=f"Transcripts of Claude Code; {NAMES} there names them.")
]
Fold = Annotated[
    int | None, typer.Option(min=0, max=FOLDS - 1, help=f"Leave out this one of {FOLDS} folds of sessions.")
]
HeldOut = Annotated[bool, typer.Option("--held-out", help="Measure only that fold, which no fit has seen.")]


@app.command("answers", epilog=example("scrimshaw eval answers --sessions sessions --questions questions.jsonl"))
def evaluate_answers(
    sessions: Sessions,
    questions: Annotated[Path, _labels(help="Questions with keys, as JSON lines.")],
    budget: Annotated[list[int] | None, typer.Option(min=50, help="Token budget of an answer (repeatable).")] = None,
    folder: Annotated[Path | None, typer.Option(help="Import into this folder; an existing one is reused.")] = None,
    fold: Fold = None,
    held_out: HeldOut = False,
    as_json: frame.AsJson = False,
) -> None:
    """Import recorded sessions, ask about them, and compare with plain full-text search over their text."""
    stored, asked = _read_labels(sessions, questions, Question, fold, held_out)
    names, reports = {each.session: name for name, each in stored.items()}, list[dict[str, Any]]()
    with TemporaryDirectory(prefix="scrimshaw-") as scratch, progress("Asking") as advance:
        place = (folder or Path(scratch) / "new").absolute()
        project = place / "project" if place.exists() else import_sessions(place, [sessions], "--wait")
        with open_engine(Settings(project=project, home=place / "home")) as engine:
            memory, plain = partial(ask_memory, engine), index_plain_text(stored.values())
            for size in budget or BUDGETS:
                columns, answers = dict[str, list[Measures]](), dict[str, dict[str, Answer]]()
                for name, ask in (("memory", memory), ("plain", plain)):
                    answers[name] = {each.id: ask(each.query, size) for each in asked}
                    columns[name] = [each.measure(answers[name][each.id], size, names) for each in asked]
                report = {"title": f"At most {size} tokens", "table": average(columns), "answers": answers}
                reports.append({**report, "intervals": find_intervals(asked, columns)})
                advance(len(reports), len(budget or BUDGETS))
    show(reports, as_json, lambda found: chain.from_iterable(map(_render, found)))


@app.command("start", epilog=example("scrimshaw eval start --sessions sessions --needs needs.jsonl"))
def evaluate_starts(
    sessions: Sessions,
    needs: Annotated[Path, _labels(help="What the next sessions need, as JSON lines.")],
    fold: Fold = None,
    held_out: HeldOut = False,
    as_json: frame.AsJson = False,
) -> None:
    """Start a session after each recorded one, and judge its summary."""
    stored, wanted = _read_labels(sessions, needs, Needs, fold, held_out)
    starts = list[tuple[str, Measures]]()
    times = {each.place: sorted(_TIME.findall(Path(each.place).read_text("utf-8"))) for each in stored.values()}
    with progress("Starting sessions") as advance:
        for each in wanted:
            own = stored[each.session]
            earlier = [place for place, at in times.items() if at and at[-1] < times[own.place][0]]
            before = sorted(earlier, key=lambda place: times[place][-1])[-1:]
            starts.append(start_after(each, own.session, [Path(place) for place in (*before, own.place)]))
            advance(len(starts), len(wanted))
    # The rate of chance: the summary of the next session, judged by the same needs.
    told = [each.find_told(text) | wrong for each, (text, wrong) in zip(wanted, starts, strict=True)]
    by_chance = [each.find_told(text) for each, (text, _) in zip(wanted, (*starts[1:], starts[0]), strict=True)]
    texts = {each.session: text for each, (text, _) in zip(wanted, starts, strict=True)}
    table = average({"told": told, "chance": by_chance})
    show({"title": "Needs that a start summary covers", "table": table, "texts": texts}, as_json, _render)


@app.command("drafts", epilog=example("scrimshaw eval drafts --sessions sessions --needs needs.jsonl"))
def evaluate_drafts(
    sessions: Sessions,
    needs: Annotated[Path, _labels(help="What the next sessions need, as JSON lines.")],
    folder: Annotated[Path | None, typer.Option(help="Import into this folder; an existing one is reused.")] = None,
    fold: Fold = None,
    held_out: HeldOut = False,
    as_json: frame.AsJson = False,
) -> None:
    """Import recorded sessions, and compare the lines of their drafts with what a reader noted."""
    stored, wanted = _read_labels(sessions, needs, Needs, fold, held_out)
    with TemporaryDirectory(prefix="scrimshaw-") as scratch:
        place = (folder or Path(scratch) / "new").absolute()
        project = place / "project" if place.exists() else import_sessions(place, [sessions], "--no-vectors")
        with open_engine(Settings(project=project, home=place / "home")) as engine:
            bodies = {each.session: draft_body(engine, stored[each.session].session) for each in wanted}
    rows = list(chain.from_iterable(each.compare_draft(bodies[each.session]) for each in wanted))
    report = {"title": "Drafts compared with a reader's notes", "table": average({"share": rows}), "texts": bodies}
    show(report, as_json, _render)


def draft_body(engine: Engine, session: str) -> str:
    """The draft of a recorded session as made now, not when it was imported."""
    known = engine.sessions.get(session)
    events, items = engine.sessions.events(session), engine.sessions.items(session)
    draft = build_draft(known, events, items) if known else None
    return f"# {draft.title}\n\n{render_body(draft)}" if draft else ""


def _read_labels(
    sessions: Path, labels: Path, kind: type[_LabelT], fold: int | None, held_out: bool
) -> tuple[dict[str, StoredSession], list[_LabelT]]:
    """The sessions by name, and what to measure; a session's fold depends only on its name."""
    names = msgspec.json.decode((sessions / NAMES).read_bytes(), type=dict[str, dict[str, str]])
    stored = {
        names[each.session]["session"]: each
        for each in all_clients()["claude"].sessions_at(sessions)
        if each.session in names
    }
    folds = (
        (zlib.crc32(each.session.encode()) % FOLDS, each) for each in lines_of(labels, kind) if each.session in stored
    )
    if wanted := [each for number, each in folds if fold is None or (number == fold) == held_out]:
        return stored, wanted
    raise InvalidRequest(f"{labels} says nothing of the sessions in {sessions}.", "Name other ones, or another fold.")


def _render(report: Mapping[str, Any]) -> Lines:
    yield line((report["title"], "bold"))
    for name, cells in report["table"].items():
        yield f"  {name:<25}" + "".join(f"  {column} {value:<8.4g}" for column, value in cells.items())
    for name, (low, high) in report.get("intervals", {}).items():
        yield f"  95 % of {name:<19}{low:+.3f} to {high:+.3f}"
