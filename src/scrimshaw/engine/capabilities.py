"""What works here and now: every row is measured by doing the thing, none is assumed."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal

from msgspec import Struct

from scrimshaw.engine import canary
from scrimshaw.engine.core import LOCK_TIMEOUT_S, Engine
from scrimshaw.engine.index import EMBED, vectors_ready
from scrimshaw.engine.ledger import links_path
from scrimshaw.errors import ScrimshawError, StorageFailure, UnreadableFile, VaultBusy
from scrimshaw.ingest.phrases import head
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Capability, Degradation, Filters, Job, JobState, Memory, Status
from scrimshaw.search.candidates import vectors_pending
from scrimshaw.search.embedders.base import EmbedderUnavailable
from scrimshaw.search.tokens import match_expression, query_terms
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.files import lock
from scrimshaw.storage.git import work_tree
from scrimshaw.storage.links import read_links

# A write holds the lock for milliseconds.
LOCK_PATIENCE_S = 0.2
# Memories that a probe looks through for one it can ask for.
LOOKED_THROUGH = 50
PROBE_TEXT = "a sentence to test the model with"

REBUILD = "Run `scrimshaw rebuild`."

_EVERY = Filters(include_deprecated=True)
_BLOCK = b"\0" * 4096
_log = logging.getLogger(__name__)


class Verdict(StrEnum):
    """What a finding means: nothing, worth knowing, something is missing (degraded), in need of repair (broken)."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(Struct, frozen=True, kw_only=True):
    """What a probe found; a `degradation` where the part has words of its own for what is missing.

    `expected`: it is off by choice, or is being made just now; that is told and is no fault.
    """

    status: Status
    detail: str
    degradation: Degradation | None = None
    expected: bool = False


class Probe(Struct, frozen=True, kw_only=True):
    """How one part is measured, what is lost without it and what happens instead; `run` may raise ScrimshawError.

    `advice` says what to do where the finding does not. `when_off` is what health then says: some parts the memory
    does without, others it cannot be trusted or kept without.
    """

    name: str
    measures: str
    lost: str
    instead: str
    advice: str
    run: Callable[[Engine], Finding]
    when_off: Literal["healthy", "degraded", "broken"] = "degraded"


class Truth(Struct, frozen=True, kw_only=True):
    """All parts as they were just measured, what they cannot do, and what of it breaks the memory.

    `verdicts` say by part what its status means, `advice` what to do about each part that is not on.
    """

    capabilities: tuple[Capability, ...]
    degradations: tuple[Degradation, ...]
    verdicts: Mapping[str, Verdict]
    advice: Mapping[str, str]
    problems: tuple[str, ...] = ()


def measured(engine: Engine, probes: Sequence[Probe]) -> Truth:
    """Run the probes, compare with what they found before, and keep what changed."""
    findings = {probe.name: _run(probe, engine) for probe in probes}
    verdicts = {probe.name: _verdict(probe, findings[probe.name]) for probe in probes}
    lost = {
        probe.name: finding.degradation or _degradation(probe, finding.status, finding.detail, probe.advice)
        for probe in probes
        if (finding := findings[probe.name]).status != Status.ON
    }
    return Truth(
        capabilities=_with_history(engine, findings),
        degradations=tuple(lost[probe.name] for probe in probes if probe.name in lost and probe.when_off != "healthy"),
        verdicts=verdicts,
        advice={name: degradation.retry_recommendation for name, degradation in lost.items()},
        problems=tuple(f"{name}: {findings[name].detail}" for name in findings if verdicts[name] == Verdict.PROBLEM),
    )


def on(detail: str) -> Finding:
    """The part works."""
    return Finding(status=Status.ON, detail=detail)


def off(detail: str) -> Finding:
    """The part does not work."""
    return Finding(status=Status.OFF, detail=detail)


def _run(probe: Probe, engine: Engine) -> Finding:
    try:
        return probe.run(engine)
    except ScrimshawError as error:
        degradation = _degradation(probe, Status.OFF, error.message, error.hint or probe.advice)
        return Finding(status=Status.OFF, detail=error.message, degradation=degradation)
    except Exception as error:  # noqa: BLE001 - a bug in one probe must not hide what all others find
        # Its text may quote anything.
        frames = "".join(traceback.format_tb(error.__traceback__))
        _log.error("The probe %s failed with %s\n%s", probe.name, type(error).__name__, frames)
        detail = f"a bug in Scrimshaw stopped the probe: {type(error).__name__}; the log on standard error says where"
        advice = "Report the bug with what the log says."
        return Finding(status=Status.OFF, detail=detail, degradation=_degradation(probe, Status.OFF, detail, advice))


def _verdict(probe: Probe, finding: Finding) -> Verdict:
    """The one rule: broken is a problem, degraded a warning, and what is off by choice a note."""
    if finding.status == Status.ON:
        return Verdict.OK
    if finding.expected or probe.when_off == "healthy":
        return Verdict.NOTE
    is_broken = probe.when_off == "broken" and finding.status == Status.OFF
    return Verdict.PROBLEM if is_broken else Verdict.WARNING


def _degradation(probe: Probe, status: Status, detail: str, hint: str) -> Degradation:
    return Degradation(
        failure_mode=f"{probe.name}_{status}: {detail}",
        fallback_mode=probe.instead,
        confidence_impact=probe.lost,
        retry_recommendation=hint,
    )


def _with_history(engine: Engine, findings: dict[str, Finding]) -> tuple[Capability, ...]:
    """The findings with their last change; a journal that cannot be used has a row of its own to say so."""
    try:
        engine.conditions.record({name: found.status for name, found in findings.items()}, now=engine.clock())
        changes = engine.conditions.changes()
    except StorageFailure:
        changes = {}
    rows = []
    for name, found in findings.items():
        change = changes.get(name)
        since = datetime.fromtimestamp(change.at, UTC).isoformat(timespec="seconds") if change and change.was else ""
        was = change.was if change else ""
        rows.append(Capability(name=name, status=found.status, detail=found.detail, was=was, since=since))
    return tuple(rows)


def _index(engine: Engine) -> Finding:
    gone = engine.index.missing()
    if gone:
        return off(f"missing in index.db: {', '.join(gone)}")
    return on("every table is there")


def _text(engine: Engine) -> Finding:
    memory, word = _known_word(engine)
    only = None if memory is None else (memory.id,)
    expression = match_expression([word])
    found = engine.index.match_text(expression, Filters(only=only, include_deprecated=True), 1)
    if memory and not found:
        return off(f"the word {word!r} does not find {memory.id}, which holds it")
    told = f"the word {word!r} finds {memory.id}" if memory else "answers, and holds no memory yet"
    return on(f"{engine.index.version()}; {told}")


def _known_word(engine: Engine) -> tuple[Memory | None, str]:
    """A memory and a word of its title."""
    for memory in engine.index.select(_EVERY, sort="id", limit=LOOKED_THROUGH, offset=0):
        for word in query_terms(memory.title):
            if word.isascii():
                return memory, word
    return None, "memory"


def _vectors(engine: Engine) -> Finding:
    embedder = engine.embedder
    if isinstance(embedder, Degradation):
        chosen = engine.settings.embedding.provider == "none"
        return Finding(status=Status.OFF, detail=embedder.failure_mode, degradation=embedder, expected=chosen)
    try:
        vector = embedder.embed([PROBE_TEXT])[0]
    except EmbedderUnavailable as error:
        return Finding(status=Status.OFF, detail=error.message, degradation=error.degradation)
    done, total = vectors_ready(engine)
    nearest = engine.index.match_vector(embedder.model, vector, _EVERY, 1)
    if done and not nearest:
        return off(f"{done} pieces have a vector, and none is found")
    detail = f"{embedder.model}, {len(vector)} numbers; {done} of {total} pieces have one"
    if done < total:
        pending = vectors_pending(done, total)
        return Finding(
            status=Status.DEGRADED, detail=detail, degradation=pending, expected=_is_under_way(engine, EMBED)
        )
    return on(detail)


def _is_under_way(engine: Engine, kind: str) -> bool:
    """Whether a job of this kind waits or runs; a journal that cannot tell has a row of its own."""
    try:
        return any(job.kind == kind for job in engine.journal.jobs((JobState.QUEUED, JobState.RUNNING)))
    except StorageFailure:
        return False


def _triggers(engine: Engine) -> Finding:
    for memory in engine.index.select(_EVERY, sort="id", limit=LOOKED_THROUGH, offset=0):
        for phrase in filter(head, memory.triggers):
            if memory.id in engine.searcher.match_phrases(phrase):
                return on(f"a phrase of {memory.id} brings it")
            return off(f"a phrase of {memory.id} does not bring it")
    engine.searcher.match_phrases(PROBE_TEXT)
    return on("answers, and no memory near the first names a phrase")


def _graph(engine: Engine) -> Finding:
    try:
        read_links(links_path(engine), str)
    except UnreadableFile as error:
        return Finding(status=Status.DEGRADED, detail=error.message, degradation=_unreadable_links(error))
    edges = [(edge.source, place) for edge, place in engine.index.edges() if place not in ("", edge.source)]
    if not edges:
        engine.index.neighbors(["memory"], hops=1, direction="both")
        return on("answers, and no memory links to another yet")
    source, target = edges[0]
    reached = {step.place for step in engine.index.neighbors([source], hops=1, direction="outgoing")}
    if target not in reached:
        return off(f"{source} links to {target}, and the walk does not get there")
    return on(f"{len(edges)} links; {source} leads to {target}")


def _unreadable_links(error: UnreadableFile) -> Degradation:
    return Degradation(
        failure_mode=f"links_unreadable: {error.message}",
        fallback_mode="the links of memories, and those of the file as it could be read last",
        confidence_impact="links from documents are missing or old",
        retry_recommendation=error.hint,
    )


def _recall(engine: Engine) -> Finding:
    found = canary.check(engine)
    if found.lost:
        sentences = " ".join(lost.sentence for lost in found.lost[:3])
        return Finding(status=Status.OFF, detail=sentences, degradation=canary.degradation(found))
    return on(canary.summary(found))


def _redaction(engine: Engine) -> Finding:
    # Put together here, so that no scanner takes this file for a leak.
    secret = "_".join(("ghp", "a1B2c3D4" * 4 + "e5F6"))
    cleaned = redact(f"token {secret}")
    if secret in cleaned.text:
        return off("a made-up token went through")
    return on(f"a made-up token is taken out as {', '.join(cleaned.classes)}")


def _journal(engine: Engine) -> Finding:
    engine.conditions.probe()
    return on("a row was written, read back and undone")


def _jobs(engine: Engine) -> Finding:
    failed = engine.journal.jobs((JobState.FAILED,))
    waiting = len(engine.journal.jobs((JobState.QUEUED, JobState.RUNNING)))
    if not failed:
        return on(f"{waiting} wait or run, none was given up")
    newest = failed[0]
    detail = f"{len(failed)} given up; the newest is job {newest.id} ({newest.kind} {newest.key}): {newest.error}"
    return Finding(status=Status.DEGRADED, detail=detail, degradation=given_up(failed))


def given_up(jobs: Sequence[Job]) -> Degradation:
    """What it means that jobs failed as often as they may."""
    numbers = ", ".join(str(job.id) for job in jobs[:3])
    return Degradation(
        failure_mode=f"jobs_given_up: {len(jobs)} jobs failed as often as they may, {numbers} last: {jobs[0].error}",
        fallback_mode="everything else goes on; what they would have done is missing",
        confidence_impact="a draft, an import or vectors are not there",
        retry_recommendation=f"Run `scrimshaw jobs retry {jobs[0].id}`, or `scrimshaw jobs cancel` to put one aside.",
    )


def _vault(engine: Engine) -> Finding:
    vault = engine.sources[0]
    if not vault.writable:
        return Finding(status=Status.OFF, detail=f"{vault.root} was opened for reading only", expected=True)
    return on(takes_a_file(vault.root))


def takes_a_file(folder: Path) -> str:
    """Write 4 KB in a folder, or in the one it would be made in, and remove it; raises StorageFailure."""
    place = next(each for each in (folder, *folder.parents) if each.exists() or each.is_symlink())
    with storage_errors("write in", place), TemporaryFile(dir=place) as file:
        file.write(_BLOCK)
        file.flush()
        os.fsync(file.fileno())
    return f"{folder} takes a file" if place == folder else f"{folder} is made when it is needed; {place} takes a file"


def _lock(engine: Engine) -> Finding:
    try:
        with lock(engine.lock_path(), LOCK_PATIENCE_S):
            return on("taken and given back")
    except VaultBusy as error:
        return Finding(status=Status.DEGRADED, detail=error.message)


def _git(engine: Engine) -> Finding:
    top = work_tree(engine.settings.project)
    return on(f"the project is in {top}" if top else "answers; the project is in no repository")


PROBES: tuple[Probe, ...] = (
    Probe(
        name="index",
        measures="every table of index.db is looked for",
        lost="what needs the table fails or finds less",
        instead="what does without it goes on",
        advice=REBUILD,
        run=_index,
    ),
    Probe(
        name="full_text",
        measures="a word out of a memory's title is searched in the full-text index",
        lost="memories that merely share words with the query are missed",
        instead="search by meaning and by trigger phrases",
        advice=REBUILD,
        run=_text,
    ),
    Probe(
        name="vectors",
        measures="a sentence is embedded, and its nearest memory looked up",
        lost="memories that say the same in other words are missed",
        instead="keyword search",
        advice=REBUILD,
        run=_vectors,
    ),
    Probe(
        name="triggers",
        measures="a trigger phrase of a memory is looked for in a text",
        lost="phrases in a prompt no longer bring their memories up",
        instead="search by words and by meaning",
        advice=REBUILD,
        run=_triggers,
    ),
    Probe(
        name="graph",
        measures="a link between two memories is walked",
        lost="related memories are missed, and nothing derived is trusted",
        instead="hits without their neighbours",
        advice=REBUILD,
        run=_graph,
    ),
    Probe(
        name="recall",
        measures="golden queries, and the first words of eight memories, must bring what is known to answer them",
        lost="what is not found may be there all the same",
        instead="none",
        advice=REBUILD,
        run=_recall,
        when_off="broken",
    ),
    Probe(
        name="redaction",
        measures="a made-up token is put through the redaction gate",
        lost="secrets may reach the disk",
        instead="none",
        advice="Save nothing, and report the bug.",
        run=_redaction,
        when_off="broken",
    ),
    Probe(
        name="journal",
        measures="a row is written to journal.db, read back and undone",
        lost="no save, no session and no undo",
        instead="reading goes on",
        advice="Check free space and permissions.",
        run=_journal,
        when_off="broken",
    ),
    Probe(
        name="jobs",
        measures="the jobs that failed as often as they may are counted",
        lost="a draft, an import or vectors are not there",
        instead="everything else goes on",
        advice="See `scrimshaw jobs list`.",
        run=_jobs,
    ),
    Probe(
        name="vault",
        measures="a file of 4 KB is written to the vault, forced out and removed",
        lost="no memory can be saved",
        instead="reading and searching go on",
        advice="Check free space and permissions, or run `scrimshaw init`.",
        run=_vault,
        when_off="broken",
    ),
    Probe(
        name="lock",
        measures="the vault's writer lock is taken and given back",
        lost=f"a save waits up to {LOCK_TIMEOUT_S:g} s, then is refused",
        instead="reading and searching go on",
        advice="Try again when the other writer has ended.",
        run=_lock,
    ),
    Probe(
        name="git",
        measures="git is asked for the project's work tree",
        lost="none on search; decision records that were deleted are not found at the first start",
        instead="everything but the look into history",
        advice="Install git, or put it on the PATH.",
        run=_git,
    ),
)
