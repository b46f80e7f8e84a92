"""Results as people read them; in a pipe without colours or decoration."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console

from scrimshaw.app.cli.output import line, note, note_degradations, plain
from scrimshaw.engine.counts import Page, SessionContext, Stats
from scrimshaw.engine.read import MemoryText
from scrimshaw.engine.write import Saved
from scrimshaw.ingest.instructions import FLAG, is_suspicious
from scrimshaw.models import Memory, Skip, Trust
from scrimshaw.search.results import Hit, SearchResult, StageTrace

if TYPE_CHECKING:
    from scrimshaw.app.cli.change import Deleted
    from scrimshaw.app.cli.memory import Vectors
    from scrimshaw.app.cli.start import Initialized
    from scrimshaw.app.cli.upkeep import Scanned

SKIPS_SHOWN = 20
SESSIONS_SHOWN = 20


def search(console: Console, result: SearchResult, *, explain: bool, trace: bool) -> None:
    """Hits, best first, each with its excerpt."""
    for hit in result.always_on:
        console.print(line(("always on  ", "yellow"), (hit.memory.id, "cyan"), "  ", hit.memory.title))
    for number, hit in enumerate(result.hits, start=1):
        _hit(console, number, hit, explain)
    if not result.hits:
        console.print("No memory matches.")
    if result.omitted:
        console.print(line((f"{result.omitted} more did not fit the budget.", "dim")))
    if trace:
        _trace(console, result)


def _hit(console: Console, number: int, hit: Hit, explain: bool) -> None:
    memory = hit.memory
    place = f"{memory.id}#{hit.anchor}" if hit.anchor else memory.id
    console.print(line((f"{number}. ", "dim"), (memory.title, "bold"), (f"  {hit.score:.3f}", "dim")))
    console.print(line("   ", (place, "cyan"), (f"  {_labels(memory, hit.text)}", "dim")))
    if hit.text.strip():
        console.print(line(textwrap.indent(hit.text.strip(), "   ")))
    if explain:
        console.print(line((f"   {_reasons(hit)}", "dim")))
    console.print()


def _labels(memory: Memory, text: str = "") -> str:
    """Tier, type, source and date; who vouches where that is no person, and a warning of what speaks to an agent."""
    trust = memory.provenance.trust
    vouched = trust == Trust.HUMAN
    warning = FLAG if not vouched and is_suspicious(f"{memory.title}\n{text}") else ""
    stated = (
        memory.tier,
        memory.type,
        memory.source,
        memory.updated[:10],
        "" if vouched else f"trust {trust}",
        warning,
    )
    return "  ".join(filter(None, stated))


def _reasons(hit: Hit) -> str:
    why = hit.explanation
    found = [f"{channel} rank {rank} ({why.raw.get(channel, 0):g})" for channel, rank in why.ranks.items()]
    lowered = [f"{name} x{factor:g}" for name, factor in why.factors.items()]
    lifted = [f"{name} +{boost:g}" for name, boost in why.boosts.items()]
    phrases = [f"trigger {phrase!r}" for phrase in why.phrases]
    return "; ".join([*found, f"fused {why.fused:g}", *lowered, *lifted, *phrases])


def _trace(console: Console, result: SearchResult) -> None:
    console.print(line((f"intent {result.intent} ({result.confidence:g}), {result.tokens} tokens", "dim")))
    for stage in result.trace:
        console.print(line((_stage(stage), "dim")))


def _stage(stage: StageTrace) -> str:
    notes = msgspec.json.encode(stage.notes).decode()
    return f"{stage.stage:<10} {stage.entered:>5} -> {stage.left:<5} {stage.ms:>8.2f} ms  {notes}"


def text(console: Console, found: MemoryText) -> None:
    """The text under its title on a terminal; elsewhere the text as it is."""
    if not console.is_terminal:
        sys.stdout.write(found.body if found.body.endswith("\n") else f"{found.body}\n")
        return
    memory = found.memory
    console.print(line((memory.title, "bold"), ("  " + _labels(memory, found.body), "dim")))
    console.print(line((f"{memory.path}  {found.content_hash}", "dim")))
    console.print()
    console.print(line(found.body))


def page(console: Console, result: Page) -> None:
    """One line a memory, on a terminal with its place among all; elsewhere fields between tabs."""
    for memory in result.memories:
        fields = [memory.tier, memory.type, memory.updated[:10], " ".join(memory.title.split())]
        if console.is_terminal:
            console.print(line((memory.id, "cyan"), "  ", "  ".join(fields)))
        else:
            sys.stdout.write(plain("\t".join([memory.id, *fields])) + "\n")
    if console.is_terminal:
        last = result.offset + len(result.memories)
        console.print(line((f"up to {last} of {result.total}", "dim")))


def stats(console: Console, result: Stats, *, by: Sequence[str]) -> None:
    """Counts by group, then the condition of the index."""
    console.print(f"{result.total} memories, updated {result.oldest[:10] or '-'} to {result.newest[:10] or '-'}")
    counts = {
        "tier": result.by_tier,
        "type": result.by_type,
        "artifact": result.by_artifact,
        "source": result.by_source,
        "folder": {folder.name: folder.count for folder in result.folders},
    }
    for name in by:
        console.print(line((f"by {name}", "bold")))
        _counts(console, counts[name])
    ready, total = result.vectors
    console.print(
        f"vectors {ready} of {total}, waiting jobs {result.waiting_jobs}, skipped files {len(result.skipped)}"
    )
    console.print(f"index {_size(result.index_bytes)}, journal {_size(result.journal_bytes)}")


def contexts(console: Console, results: Sequence[SessionContext]) -> None:
    """What the newest sessions were handed, by occasion, and what all were."""
    for each in results[:SESSIONS_SHOWN]:
        used = "unknown" if each.context_used is None else f"{each.context_used:.0%}"
        console.print(line((each.session, "cyan"), f"  {each.client or '-'}, context in use {used}"))
        for row in each.occasions:
            console.print(line(f"  {row.occasion:<22}", _handed(row.times, row.tokens, row.hits)))
        console.print(line((f"  {'in all':<22}{_handed(each.times, each.tokens, each.hits)}", "bold")))
    tokens, times = sum(each.tokens for each in results), sum(each.times for each in results)
    console.print(f"{len(results)} sessions were handed {times} texts of {tokens} tokens in all.")


def _handed(times: int, tokens: int, hits: int) -> str:
    return f"{times:>6} texts {tokens:>9} tokens {hits:>7} hits"


def _counts(console: Console, counts: Mapping[str, int]) -> None:
    for key, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        console.print(line(f"{count:>7}  ", key or "-"))


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{count / 1000:.0f} KB"


def saved(console: Console, result: Saved) -> None:
    """What became of a save."""
    said = {
        "duplicate": "the same text is there already; nothing was written",
        "dry_run": "would be saved",
        "rejected": "rejected; nothing was written (correct it, or save with --force)",
    }
    console.print(line((result.id, "cyan"), "  ", said.get(result.status, result.status)))
    for reason in (*result.reasons, *result.notices):
        note(reason)
    if result.redacted:
        note(f"Redacted: {', '.join(result.redacted)}.")
    for other in result.similar:
        note(f"{'Nearly the same' if other.kind == 'near_duplicate' else 'Related'}: {other.id} ({other.similarity:g})")


def deleted(console: Console, result: Deleted) -> None:
    """The memories that went, or would go."""
    verb = "would be " if result.dry_run else ""
    for memory_id in result.ids:
        console.print(line((memory_id, "cyan"), f"  {verb}{'purged' if result.purged else 'deleted'}"))


def scanned(console: Console, result: Scanned) -> None:
    """What changed, and what was passed over."""
    changes = f"{result.added} added, {result.updated} updated, {result.removed} removed"
    console.print(f"{result.files} files: {changes}, {result.unchanged} unchanged")
    _skips(console, result.skipped)
    _vectors(console, result.vectors)


def initialized(console: Console, result: Initialized) -> None:
    """What was made, what was found, and how to connect a client."""
    made = f"made {', '.join(result.made)}" if result.made else "everything was there already"
    console.print(line(("Memory of ", "bold"), (result.project, "bold"), f": {made}"))
    for source in result.sources:
        access = "" if source.writable else "  read only"
        where = source.root if source.writable else f"{source.root}: {', '.join(source.include)}"
        console.print(line(f"{source.memories:>7}  ", (source.name, "cyan"), f"  {where}{access}"))
    _skips(console, result.skipped)
    _vectors(console, result.vectors)
    console.print(
        "\nConnect your agent:  scrimshaw setup claude  (or codex, opencode, gemini, qwen, copilot, cline, cursor)"
    )
    console.print(f"Other clients:        {msgspec.json.encode(result.client_config).decode()}")


def _skips(console: Console, skips: Sequence[Skip]) -> None:
    if skips:
        console.print(line((f"{len(skips)} skipped", "yellow")))
    for skip in skips[:SKIPS_SHOWN]:
        console.print(line(f"         {skipped(skip)}"))
    if len(skips) > SKIPS_SHOWN:
        console.print(f"         and {len(skips) - SKIPS_SHOWN} more; `scrimshaw doctor` names all")


def skipped(skip: Skip) -> str:
    """A file that was passed over, and why."""
    return skip.reason if skip.reason.startswith(skip.path) else f"{skip.path}: {skip.reason}"


def _vectors(console: Console, vectors: Vectors) -> None:
    if vectors.degradation:
        note_degradations((vectors.degradation,))
    else:
        console.print(f"{vectors.ready} of {vectors.total} pieces have a vector, {vectors.made} made now")
