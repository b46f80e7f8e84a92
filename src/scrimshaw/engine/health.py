"""One list of checks on everything a memory needs: each uses the part, none assumes that it works."""

import logging
import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine import canary
from scrimshaw.engine.core import LOCK_FILE, Engine
from scrimshaw.engine.degradations import describe_loss
from scrimshaw.engine.index import count_vectors, list_skipped_files
from scrimshaw.engine.ledger import links_path
from scrimshaw.engine.trust import describe_claims
from scrimshaw.errors import ScrimshawError, StorageFailure, UnreadableFile, VaultBusy
from scrimshaw.ingest.comparison import find_head
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EVERY, UNFINISHED, Capability, Degradation, Filters, JobState, Status, format_count
from scrimshaw.search.candidates import vectors_pending
from scrimshaw.search.tokens import find_phrases, query_terms
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.git import work_tree
from scrimshaw.storage.place import JOURNAL, place_below_git
from scrimshaw.storage.ports import DatabaseName, Query, StatusChange
from scrimshaw.storage.toml_files import read_links
from scrimshaw.storage.transaction import lock
from scrimshaw.toml_text import parse_toml

LOCK_PATIENCE_S = 0.2  # a write holds the lock for milliseconds
LOOKED_THROUGH = 50  # memories, to find one that a check can search for
PROBE_TEXT = "a sentence to test the model with"

_REPAIRS: Mapping[DatabaseName, str] = {"index": "rebuild", "journal": "restore --newest"}
_log = logging.getLogger(__name__)

Severity = StrEnum("Severity", "OK NOTE WARNING PROBLEM")  # fine, worth knowing, missing (degraded), to repair (broken)


class Finding(Struct, frozen=True):
    """One result to show; `fix` says what to do about it."""

    name: str
    verdict: Severity
    detail: str
    fix: str = ""


class Result(NamedTuple):
    status: Status
    detail: str
    degradation: Degradation | None = None  #: in the missing part's own words, if it has any
    expected: bool = False  #: off by choice, or being made just now: not a fault
    advice: str = ""  #: what to do, if it is not what the check always says


Run = Callable[[Engine], Result | str]  # a text alone means that the part works
_TEXTS: Mapping[str, Mapping[str, Any]] = parse_toml(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class Check(Struct, frozen=True, kw_only=True):
    """How one part is measured, and what it means when it is off."""

    name: str
    measures: str
    lost: str  #: what is lost without the part
    instead: str  #: what happens then
    advice: str  #: what to do, if the result does not say
    run: Run  #: may raise ScrimshawError
    #: How bad a failure is: a memory can do without some parts, but cannot be trusted without others.
    when_off: Literal["healthy", "degraded", "broken"] = "degraded"

    def verdict(self, result: Result) -> Severity:
        if result.status == Status.ON:
            return Severity.OK
        if result.expected or self.when_off == "healthy":
            return Severity.NOTE
        return Severity.PROBLEM if self.when_off == "broken" and result.status == Status.OFF else Severity.WARNING


def make_checks(**runs: Run) -> tuple[Check, ...]:
    """The checks of these names, with their texts in health.toml."""
    return tuple(Check(name=name, run=run, **_TEXTS[name]) for name, run in runs.items())


class Health(Struct, frozen=True, kw_only=True):
    """Everything as just measured; a part that is off by choice, or being made, leaves a memory healthy."""

    status: str  #: healthy, degraded (the rest works) or broken (it may answer wrongly or keep nothing)
    memories: int
    vectors: tuple[int, int]  #: pieces with a vector, and all pieces
    capabilities: tuple[Capability, ...]
    degradations: tuple[Degradation, ...]
    verdicts: Mapping[str, Severity]  #: severity by part
    advice: Mapping[str, str]  #: by part that is not on, what to do
    problems: tuple[str, ...]  #: what makes the memory broken


def check_health(engine: Engine, *, thorough: bool = False, more: Sequence[Check] = ()) -> Health:
    """Run the engine's checks and `more`, and record changes; `thorough` reads every page and the ledger's chain."""
    checks = {check.name: check for check in (*CHECKS, *more)}
    known = dict[str, str]()  # errors, each with the first part that has it: a server that is away stops most parts
    results = {name: _run(check, engine, known) for name, check in checks.items()}
    verdicts = {name: check.verdict(results[name]) for name, check in checks.items()}
    lost = {name: each.degradation for name, each in results.items() if each.degradation}
    own = engine.degradations.of()
    matters = (*(each for name, each in lost.items() if checks[name].when_off != "healthy"), *own)
    problems = [f"{name}: {results[name].detail}" for name in results if verdicts[name] == Severity.PROBLEM]
    memories, vectors, changes = 0, (0, 0), dict[str, StatusChange]()
    with suppress(StorageFailure):  # the check of the journal reports it
        statuses = {name: result.status for name, result in results.items()}
        changes = engine.maintenance.record_statuses(statuses, now=engine.clock())
    try:
        faults = examine_databases(engine) if thorough else ()
        problems += ("; ".join(filter(None, (fault.detail, fault.fix))) for fault in faults)
        memories = engine.index.count(EVERY)[""]
    except StorageFailure as error:
        problems.append(f"{error.message} {error.hint}")
    with suppress(StorageFailure):  # the check of vectors reports it
        vectors = count_vectors(engine)
    parts = [Capability(name=name, status=each.status, detail=each.detail) for name, each in results.items()]
    for place, part in enumerate(parts):
        if (last := changes.get(part.name)) and last.was:
            since = datetime.fromtimestamp(last.at, UTC).isoformat(timespec="seconds")
            parts[place] = replace(part, was=last.was, since=since)
    return Health(
        status="broken" if problems else "degraded" if own or Severity.WARNING in verdicts.values() else "healthy",
        memories=memories,
        vectors=vectors,
        capabilities=tuple(parts),
        degradations=tuple({each.failure_mode: each for each in matters}.values()),
        verdicts=verdicts,
        advice={name: degradation.retry_recommendation for name, degradation in lost.items()},
        problems=tuple(problems),
    )


def examine_databases(engine: Engine) -> Iterator[Finding]:
    """What a complete reading of both databases and of the ledger's chain finds wrong; raises StorageFailure."""
    for database, repair in _REPAIRS.items():
        for fault in engine.maintenance.check(database):
            yield Finding("databases", Severity.PROBLEM, f"{database}.db: {fault}", f"run `scrimshaw {repair}`")
    checked, broken = engine.journal.verify()
    if broken:
        what = f"the ledger has {format_count(checked, 'row')}, and entry {broken} was changed or removed"
        yield Finding("databases", Severity.PROBLEM, what)


def off(detail: str) -> Result:
    """The result for a part that does not work."""
    return Result(Status.OFF, detail)


def _run(check: Check, engine: Engine, known: dict[str, str]) -> Result:
    """What the check found; if the part is not on, also what that means for answers; no `known` error again."""
    advice = check.advice
    try:
        found = check.run(engine)
        result = Result(Status.ON, found) if isinstance(found, str) else found
    except VaultBusy as error:
        result = Result(Status.DEGRADED, error.message)
    except ScrimshawError as error:
        first, advice = known.setdefault(error.message, check.name), error.hint or advice
        why, advice = (error.message, advice) if first == check.name else (f"as {first}", f"as for {first}")
        result = Result(Status.OFF, why, getattr(error, "degradation", None))
    except Exception as error:  # noqa: BLE001 - a bug in one check must not hide what all others find
        frames, kind = "".join(traceback.format_tb(error.__traceback__)), type(error).__name__
        _log.error("The check %s failed with %s\n%s", check.name, kind, frames)  # its text may quote anything
        result = off(f"a bug in Scrimshaw stopped the probe: {kind}; the log on standard error says where")
        advice = "Report the bug with what the log says."
    if result.degradation or result.status == Status.ON:
        return result
    lost = Degradation(
        failure_mode=f"{check.name}_{result.status}: {result.detail}",
        fallback_mode=check.instead,
        confidence_impact=check.lost,
        retry_recommendation=result.advice or advice,
    )
    return result._replace(degradation=lost)


def _check_index(engine: Engine) -> Result | str:
    gone = engine.maintenance.check("index", quick=True)
    return off(f"in index.db: {', '.join(gone)}") if gone else "every table is there"


def _check_text(engine: Engine) -> Result | str:
    memories = engine.index.select(EVERY, limit=LOOKED_THROUGH)
    words = ((memory, word) for memory in memories for word in query_terms(memory.title) if word.isascii())
    memory, word = next(words, (None, "memory"))
    filters = Filters(only=None if memory is None else (memory.id,), include_deprecated=True)
    found = engine.index.match_text(Query(((word,),)), filters, 1)
    if memory is None:
        return f"{engine.maintenance.version}; answers, and holds no memory yet"
    if not found:
        return off(f"the word {word!r} does not find {memory.id}, which holds it")
    return f"{engine.maintenance.version}; a word of a memory finds it"  # unnamed, as reports leave the machine


def _check_vectors(engine: Engine) -> Result | str:
    embedder = engine.embedder
    if isinstance(embedder, Degradation):
        is_choice = engine.settings.embedding.provider == "none"
        return Result(Status.OFF, embedder.failure_mode, embedder, expected=is_choice)
    vector = embedder.embed(PROBE_TEXT)[0]  # its error carries the degradation
    done, total = count_vectors(engine)
    if done and not engine.index.match_vector(embedder.model, vector, EVERY, 1):
        return off(f"pieces with a vector: {done}, and none is found")
    tokens, size = engine.index.vector_counts().with_tokens, engine.maintenance.size_bytes("index", tokens=True)
    own = f"{embedder.model}, {len(vector)} numbers; pieces with one: {done} of {total}"
    detail = f"{own}, token vectors: {tokens} ({size / 1e6:.1f} MB)"
    if done == total:
        return detail
    is_under_way = False
    with suppress(StorageFailure):  # the check of the journal reports it
        is_under_way = any(job.kind == engine.embed_job for job in engine.journal.jobs(UNFINISHED))
    return Result(Status.DEGRADED, detail, vectors_pending(done, total), expected=is_under_way)


def _check_triggers(engine: Engine) -> Result | str:
    for memory in engine.index.select(EVERY, limit=LOOKED_THROUGH):
        for phrase in filter(find_head, memory.triggers):
            if memory.id in find_phrases(phrase, engine.index.phrases):
                return "a phrase of a memory brings it"
            return off(f"a phrase of {memory.id} does not bring it")
    find_phrases(PROBE_TEXT, engine.index.phrases)
    return "answers, and no memory near the first names a phrase"


def _check_graph(engine: Engine) -> Result | str:
    try:
        read_links(links_path(engine), str)
    except UnreadableFile as error:
        return Result(Status.DEGRADED, error.message, describe_loss("links", error.message, error.hint))
    memories = engine.index.select(EVERY, limit=LOOKED_THROUGH)
    edges = engine.index.edges(*(memory.id for memory in memories)) if memories else []
    resolved = [(edge.source, place) for edge, place in edges if place not in ("", edge.source)]
    if not resolved:
        engine.index.neighbors(["memory"], hops=1, direction="both")
        return "answers, and no memory near the first links to another"
    source, target = resolved[0]
    if target not in {step.place for step in engine.index.neighbors([source], hops=1, direction="outgoing")}:
        return off(f"{source} links to {target}, but following links does not lead there")
    return "a memory leads to the one that it names"


def _check_recall(engine: Engine) -> Result | str:
    if (found := canary.check(engine)).lost:
        return Result(Status.OFF, " ".join(lost.sentence for lost in found.lost[:3]), found.degradation)
    return found.summary


def _check_redaction(engine: Engine) -> Result | str:
    # Put together here, so that no scanner takes this file for a leak.
    secret = "_".join(("ghp", "a1B2c3D4" * 4 + "e5F6"))
    cleaned = redact(f"token {secret}")
    if secret in cleaned.text:
        return off("a made-up token was not removed")
    return f"a made-up token is removed as {', '.join(cleaned.classes)}"


def _check_journal(engine: Engine) -> Result | str:
    engine.maintenance.check("journal", quick=True)
    place, old = engine.storage.place, engine.folder / JOURNAL
    detail = f"a row was written to {engine.storage.name('journal')} and undone"
    if not (place_below_git(engine.folder) and old.exists()):
        return detail
    why, advice = f"nobody reads {old}", f"Remove {old}."
    if is_own := place == engine.folder:
        why = "`git clean` reaches it until nobody has it open and git does not hold it"
        advice = "Stop what has it open, and take it out of git if it is there."
    return Result(Status.DEGRADED, f"{detail}; {why}", expected=is_own, advice=advice)


def _check_jobs(engine: Engine) -> Result | str:
    failed = engine.journal.jobs((JobState.FAILED,))
    waiting = len(engine.journal.jobs(UNFINISHED))
    if not failed:
        return f"{waiting} wait or run, none was given up"
    newest = failed[0]
    detail = f"{len(failed)} given up; the newest is job {newest.id} ({newest.kind} {newest.key}): {newest.error}"
    numbers = ", ".join(str(job.id) for job in failed[:3])
    what = f"{format_count(len(failed), 'job')} failed as often as allowed, {numbers} last: {newest.error}"
    advice = f"Run `scrimshaw jobs retry {newest.id}`, or `scrimshaw jobs cancel` to put one aside."
    return Result(Status.DEGRADED, detail, describe_loss("given_up", what, advice))


def _check_vault(engine: Engine) -> Result | str:
    if not (vault := engine.sources[0]).writable:
        return Result(Status.OFF, f"{vault.root} was opened for reading only", expected=True)
    folder = vault.root
    # A missing folder is made by the first save, in the nearest one that is there.
    place = next(each for each in (folder, *folder.parents) if each.exists() or each.is_symlink())
    with storage_errors("write in", place), TemporaryFile(dir=place) as file:
        file.write(b"\0" * 4096)
        file.flush()
        os.fsync(file.fileno())
    return f"{folder} takes a file" if place == folder else f"{folder} is made when it is needed; {place} takes a file"


def _check_lock(engine: Engine) -> Result | str:
    engine.storage.demand_in_place()
    with lock(engine.folder / LOCK_FILE, LOCK_PATIENCE_S):
        return "acquired and released"


def _check_files(engine: Engine) -> Result | str:
    if engine.serena and (unusable := engine.serena.find_unusable()):
        what = f"RE2 rejects {', '.join(unusable)}"
        advice = "Write what is closed without look-around and back-references."
        return Result(Status.DEGRADED, what, describe_loss("patterns", what, advice))
    if broken := sum(skip.is_found for skip in list_skipped_files(engine)):
        return Result(Status.DEGRADED, f"{format_count(broken, 'file')} to correct, found by the text alone")
    return "no file is found by its text alone"


def _check_trust(engine: Engine) -> Result | str:
    claims = describe_claims(engine)
    return Result(Status.DEGRADED, " ".join(claims)) if claims else "no memory claims more than it has"


def _check_git(engine: Engine) -> Result | str:
    top = work_tree(engine.settings.project)
    return f"the project is in {top}" if top else "answers; the project is in no repository"


CHECKS = make_checks(
    index=_check_index, full_text=_check_text, vectors=_check_vectors, triggers=_check_triggers, graph=_check_graph,
    recall=_check_recall, redaction=_check_redaction, journal=_check_journal, jobs=_check_jobs, vault=_check_vault,
    lock=_check_lock, git=_check_git, files=_check_files, trust=_check_trust,
)  # fmt: skip
