"""What works here and now: every row is measured by doing the thing, none is assumed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from tempfile import TemporaryFile
from typing import Literal

from msgspec import Struct

from scrimshaw.engine import canary
from scrimshaw.engine.core import Engine
from scrimshaw.engine.indexing import vectors_ready
from scrimshaw.errors import ScrimshawError, StorageFailure, VaultBusy
from scrimshaw.ingest.phrases import head
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Capability, Degradation, Filters, Job, JobState, Memory, Status
from scrimshaw.search.candidates import vectors_pending
from scrimshaw.search.embedder import EmbedderUnavailable
from scrimshaw.search.terms import match_expression, terms
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.files import lock
from scrimshaw.storage.git import work_tree

# A write holds the lock for milliseconds.
LOCK_PATIENCE_S = 0.2
# Memories that a probe looks through for one it can ask for.
LOOKED_THROUGH = 50
PROBE_TEXT = "a sentence to test the model with"

_EVERY = Filters(include_deprecated=True)
_BLOCK = b"\0" * 4096


class Finding(Struct, frozen=True, kw_only=True):
    """What a probe found; a `degradation` where the part has words of its own for what is missing."""

    status: Status
    detail: str
    degradation: Degradation | None = None


class Probe(Struct, frozen=True, kw_only=True):
    """How one part is measured, what is lost without it and what happens instead; `run` may raise ScrimshawError.

    `when_off` is what health then says: some parts the memory does without, others it cannot be trusted without.
    """

    name: str
    measures: str
    lost: str
    instead: str
    run: Callable[[Engine], Finding]
    when_off: Literal["healthy", "degraded", "broken"] = "degraded"


class Truth(Struct, frozen=True, kw_only=True):
    """All parts as they were just measured, what they cannot do, and what of it breaks the memory."""

    capabilities: tuple[Capability, ...]
    degradations: tuple[Degradation, ...]
    problems: tuple[str, ...] = ()


def measured(engine: Engine, probes: Sequence[Probe]) -> Truth:
    """Run the probes, compare with what they found before, and keep what changed."""
    findings = {probe.name: _run(probe, engine) for probe in probes}
    degradations = [
        finding.degradation or _degradation(probe, finding.detail, "Run `scrimshaw doctor`, then try again.")
        for probe in probes
        if probe.when_off != "healthy" and (finding := findings[probe.name]).status != Status.ON
    ]
    broken = [
        probe.name for probe in probes if probe.when_off == "broken" and findings[probe.name].status == Status.OFF
    ]
    return Truth(
        capabilities=_with_history(engine, findings),
        degradations=tuple(degradations),
        problems=tuple(f"{name}: {findings[name].detail}" for name in broken),
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
        degradation = _degradation(probe, error.message, error.hint)
        return Finding(status=Status.OFF, detail=error.message, degradation=degradation)


def _degradation(probe: Probe, detail: str, hint: str) -> Degradation:
    return Degradation(
        failure_mode=f"{probe.name}_off: {detail}",
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


def _text(engine: Engine) -> Finding:
    memory, word = _known_word(engine)
    only = None if memory is None else (memory.id,)
    expression = match_expression([word])
    found = engine.index.match_text(expression, Filters(only=only, include_deprecated=True), 1)
    if memory and not found:
        return off(f"the word {word!r} does not find {memory.id}, which holds it; run `scrimshaw rebuild`")
    told = f"the word {word!r} finds {memory.id}" if memory else "answers, and holds no memory yet"
    return on(f"{engine.index.version()}; {told}")


def _known_word(engine: Engine) -> tuple[Memory | None, str]:
    """A memory and a word of its title."""
    for memory in engine.index.select(_EVERY, sort="id", limit=LOOKED_THROUGH, offset=0):
        for word in terms(memory.title):
            if word.isascii():
                return memory, word
    return None, "memory"


def _vectors(engine: Engine) -> Finding:
    embedder = engine.embedder
    if isinstance(embedder, Degradation):
        return Finding(status=Status.OFF, detail=embedder.failure_mode, degradation=embedder)
    try:
        vector = embedder.embed([PROBE_TEXT])[0]
    except EmbedderUnavailable as error:
        return Finding(status=Status.OFF, detail=error.message, degradation=error.degradation)
    done, total = vectors_ready(engine)
    nearest = engine.index.match_vector(embedder.model, vector, _EVERY, 1)
    if done and not nearest:
        return off(f"{done} pieces have a vector, and none is found; run `scrimshaw rebuild`")
    detail = f"{embedder.model}, {len(vector)} numbers; {done} of {total} pieces have one"
    if done < total:
        pending = vectors_pending(done, total)
        return Finding(status=Status.DEGRADED, detail=detail, degradation=pending)
    return on(detail)


def _triggers(engine: Engine) -> Finding:
    for memory in engine.index.select(_EVERY, sort="id", limit=LOOKED_THROUGH, offset=0):
        for phrase in filter(head, memory.triggers):
            if memory.id in engine.searcher.phrases(phrase):
                return on(f"{phrase!r} brings {memory.id}")
            return off(f"{phrase!r} does not bring {memory.id}, which names it; run `scrimshaw rebuild`")
    engine.searcher.phrases(PROBE_TEXT)
    return on("answers, and no memory near the first names a phrase")


def _graph(engine: Engine) -> Finding:
    edges = [(edge.source, place) for edge, place in engine.index.edges() if place not in ("", edge.source)]
    if not edges:
        engine.index.neighbors(["memory"], hops=1, direction="both")
        return on("answers, and no memory links to another yet")
    source, target = edges[0]
    reached = {step.place for step in engine.index.neighbors([source], hops=1, direction="outgoing")}
    if target not in reached:
        return off(f"{source} links to {target}, and the walk does not get there; run `scrimshaw rebuild`")
    return on(f"{len(edges)} links; {source} leads to {target}")


def _recall(engine: Engine) -> Finding:
    found = canary.check(engine)
    if found.lost:
        sentences = " ".join(lost.sentence for lost in found.lost[:3])
        return Finding(status=Status.OFF, detail=sentences, degradation=canary.degradation(found))
    behind = f", {found.outranked} behind others" if found.outranked else ""
    return on(f"{found.asked} questions with known answers, all found{behind}")


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
        return off(f"{vault.root} was opened for reading only")
    with storage_errors("write in", vault.root), TemporaryFile(dir=vault.root) as file:
        file.write(_BLOCK)
        file.flush()
        os.fsync(file.fileno())
    return on(f"{vault.root} takes a file")


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
        name="full_text",
        measures="a word out of a memory's title is searched in the full-text index",
        lost="memories that merely share words with the query are missed",
        instead="search by meaning and by trigger phrases",
        run=_text,
    ),
    Probe(
        name="vectors",
        measures="a sentence is embedded, and its nearest memory looked up",
        lost="memories that say the same in other words are missed",
        instead="keyword search",
        run=_vectors,
    ),
    Probe(
        name="triggers",
        measures="a trigger phrase of a memory is looked for in a text",
        lost="phrases in a prompt no longer bring their memories up",
        instead="search by words and by meaning",
        run=_triggers,
    ),
    Probe(
        name="graph",
        measures="a link between two memories is walked",
        lost="related memories are missed, and nothing derived is trusted",
        instead="hits without their neighbours",
        run=_graph,
    ),
    Probe(
        name="recall",
        measures="golden queries, and the first words of eight memories, must bring what is known to answer them",
        lost="what is not found may be there all the same",
        instead="none",
        run=_recall,
        when_off="broken",
    ),
    Probe(
        name="redaction",
        measures="a made-up token is put through the redaction gate",
        lost="secrets may reach the disk",
        instead="none",
        run=_redaction,
        when_off="broken",
    ),
    Probe(
        name="journal",
        measures="a row is written to journal.db, read back and undone",
        lost="no save, no session and no undo",
        instead="reading goes on",
        run=_journal,
    ),
    Probe(
        name="jobs",
        measures="the jobs that failed as often as they may are counted",
        lost="a draft, an import or vectors are not there",
        instead="everything else goes on",
        run=_jobs,
    ),
    Probe(
        name="vault",
        measures="a file of 4 KB is written to the vault, forced out and removed",
        lost="no memory can be saved",
        instead="reading and searching go on",
        run=_vault,
    ),
    Probe(
        name="lock",
        measures="the vault's writer lock is taken and given back",
        lost="a save waits up to 10 s, then is refused",
        instead="reading and searching go on",
        run=_lock,
    ),
    Probe(
        name="git",
        measures="git is asked for the project's work tree",
        lost="none on search; decision records that were deleted are not found at the first start",
        instead="everything but the look into history",
        run=_git,
    ),
)
