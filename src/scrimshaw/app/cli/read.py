"""The commands that read: search, get, list, stats, resume."""

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from msgspec.structs import replace

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import command, open_memory, settings_of_memory
from scrimshaw.app.cli.output import Lines, console, flatten, line, note, note_degradations
from scrimshaw.app.hooks.fencing import is_withheld, neutralise, neutralise_state_lines
from scrimshaw.engine import Engine, counts, index, query_log, read
from scrimshaw.engine.context import add_state, resume_state
from scrimshaw.engine.counts import MemoryPage, SessionTokens, Stats
from scrimshaw.engine.degradations import SCAN_PENDING
from scrimshaw.engine.lint import DAYS, measure_quality
from scrimshaw.engine.query_log import SHARES, LoggedRead, SearchFigures, describe_dark, search_figures
from scrimshaw.engine.read import MemoryText
from scrimshaw.engine.revisions import search_past
from scrimshaw.engine.sessions import ITEM_PREFIX
from scrimshaw.engine.usage import Uplift, measure_uplift
from scrimshaw.errors import InvalidRequest, NotFound
from scrimshaw.ingest.comparison import TOKEN_CHARACTERS, count_characters
from scrimshaw.ingest.instructions import FLAG
from scrimshaw.models import EVERY, RECORD, Filters, Memory, MemoryType, Session, Tier, Trust, format_count
from scrimshaw.router import ask
from scrimshaw.router.kinds import PREFIX
from scrimshaw.search.passages import PASSAGE, cut_passage, pack_hits
from scrimshaw.search.results import Hit, SearchRequest, SearchResult
from scrimshaw.search.tokens import query_terms
from scrimshaw.session.fixes import MOST_FIXES, Fix, find_fixes
from scrimshaw.session.resume import Occasion, shorten_origins

app = typer.Typer()

SESSIONS_SHOWN = 20
MOST_HITS, MOST_LISTED = 5, 20  # on a screen by default
_USUAL = frozenset({Tier.NORMAL, MemoryType.GENERAL, "vault", Trust.HUMAN, Trust.FILE})
_TELLING = 60  # characters of a passage used to find its line in the file
_NO_FIX = "No recorded session failed with this."
Sort = Literal["id", "title", "created", "updated"]
Group = StrEnum("Group", "tier type artifact source folder")  # for counting memories


def _render_found(result: SearchResult, query: Sequence[str], explain: bool, trace: bool) -> Lines:
    yield from _render_state({"lines": neutralise_state_lines(result.state)}) if result.state else ()
    yield from _render_hits(result, query_terms(" ".join(query)), explain)
    for stage in result.trace if trace else ():
        counts = f"{stage.stage:<10} {stage.entered:>5} -> {stage.left:<5} {stage.ms:>8.2f} ms"
        yield line((f"{counts}  {msgspec.json.encode(stage.notes).decode()}", "dim"))
    # Notes from opening the memory are not repeated, and the files were just scanned.
    said = ("index_behind: ", SCAN_PENDING.failure_mode)
    note_degradations(each for each in result.degradations if not each.failure_mode.startswith(said))


def _render_hits(result: SearchResult, terms: Sequence[str], explain: bool) -> Lines:
    mark = ("always on  ", "yellow")
    yield from (line(mark, (hit.memory.id, "cyan"), "  ", hit.memory.title) for hit in result.always_on)
    for number, hit in enumerate(result.hits, start=1):
        place = f"{hit.memory.id.partition('#')[0]}#{hit.anchor}" if hit.anchor else hit.memory.id
        yield line((f"{number}. ", "dim"), (hit.memory.title, "bold"), (f"  {hit.confidence:.0%}", "dim"))
        yield line("   ", (place, "cyan"), (f"  {_describe(hit.memory, hit.text)}", "dim"))
        question = hit.explanation.answers
        if text := f"{f'Answers: {question}' if question else ''}\n{hit.text}".strip():
            shown = line(textwrap.indent(text, "   "))
            if terms:  # words that begin like one of them stand out on a terminal
                shown.highlight_regex(rf"(?i)\b(?:{'|'.join(map(re.escape, terms))})\w*", "bold yellow")
            yield shown
        if hit.memory.path and hit.memory.source != RECORD:  # which is no file
            yield line((f"   {_find_place(hit)}", "dim"))
        yield from (line(("   superseded by ", "yellow"), (name, "cyan")) for name in hit.superseded_by)
        if explain:
            why = hit.explanation
            found = [f"{channel} rank {rank} ({why.raw.get(channel, 0):g})" for channel, rank in why.ranks.items()]
            found += (f"fused {why.fused:g}", *(f"{name} {term:+g}" for name, term in why.terms.items()))
            found += (f"{name} x{factor:g}" for name, factor in why.factors.items())
            found += (f"{name} +{boost:g}" for name, boost in why.boosts.items())
            found += (f"trigger {phrase!r}" for phrase in why.phrases)
            yield line((f"   score {hit.score:.3f}: {'; '.join(found)}", "dim"))
        yield ""
    if not result.hits and not result.state:
        other = " else" * bool(result.always_on)
        yield (
            f"Nothing{other} is known about this; --min-confidence 0 shows:" if result.nearest else "No memory matches."
        )
    near = ((hit.memory.id, hit.text if hit.memory.source == RECORD else hit.memory.title) for hit in result.nearest)
    yield from (line("   ", (name, "cyan"), f"  {' '.join(said.split())}") for name, said in near)
    yield from render_peers(result)
    if result.omitted:
        yield line((f"{result.omitted} more did not fit the budget.", "dim"))


def render_peers(result: SearchResult) -> Lines:
    """The hits of other memory servers, with the age of their answers."""
    for hit in result.peers:
        yield line(("+  ", "dim"), (hit.title, "bold"), (f"  {hit.peer}, {result.sources[hit.peer]:g} s old", "dim"))
        yield line("   ", (hit.id, "cyan"))
        yield f"{textwrap.indent(neutralise(hit.text), '   ')}\n"


def _find_place(hit: Hit) -> str:
    """The file of a hit and the line of its passage, in the form that terminals and editors open."""
    path, first = Path(hit.memory.path), (hit.text.strip().splitlines() or [""])[0][:_TELLING]
    text = ""
    with suppress(OSError):
        text = path.read_text(encoding="utf-8", errors="replace")
    if not text:  # such as a hit from a commit
        return hit.memory.path
    number = text.count("\n", 0, max(0, text.find(first))) + 1
    return f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{number}"


def _describe(memory: Memory, text: str = "") -> str:
    """Tier, type, source and trust if they are unusual, the date, and a warning if the text speaks to an agent."""
    trust = memory.provenance.trust
    stated = [each for each in (memory.tier, memory.type, memory.source) if each not in _USUAL]
    marks = ("" if trust in _USUAL else f"trust {trust}", FLAG if is_withheld(f"{memory.title}\n{text}", trust) else "")
    return "  ".join(filter(None, (*stated, memory.updated[:10], *marks, *memory.faults)))


def render_text(found: MemoryText) -> Lines:
    """The text under its title on a terminal; elsewhere only the text."""
    if console().is_terminal:
        yield line((found.memory.title, "bold"), ("  " + _describe(found.memory, found.body), "dim"))
        yield line((f"{found.memory.path}  {found.content_hash}", "dim"))
        yield from (line(("superseded by ", "yellow"), (name, "cyan")) for name in found.superseded_by)
        yield from ("", found.body)
    else:
        sys.stdout.write(found.body if found.body.endswith("\n") else f"{found.body}\n")
    note_degradations(found.degradations)


def _render_page(result: MemoryPage) -> Lines:
    """One line per memory, on a terminal with its position; elsewhere fields separated by tabs."""
    is_terminal = console().is_terminal
    for memory in result.memories:
        fields = [memory.tier, memory.type, memory.updated[:10], " ".join(memory.title.split())]
        if is_terminal:
            yield line((memory.id, "cyan"), "  ", "  ".join(fields))
        else:
            sys.stdout.write("\t".join(map(flatten, [memory.id, *fields])) + "\n")
    if is_terminal:
        yield line((f"up to {result.offset + len(result.memories)} of {result.total}", "dim"))


def _render_stats(result: Stats, by: Sequence[str] | None) -> Lines:
    yield f"{format_count(result.total, 'memory')}, updated {result.oldest[:10] or '-'} to {result.newest[:10] or '-'}"
    folders = {folder.name: folder.count for folder in result.folders}
    for name in by or ("source", "tier", "type"):
        yield line((f"by {name}", "bold"))
        counts: Mapping[str, int] = folders if name == "folder" else getattr(result, f"by_{name}")
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        yield from (f"{count:>7}  {key or '-'}" for key, count in ordered)
    ready, total = result.vectors
    jobs = f"waiting jobs {result.waiting_jobs} ({result.job_lag_s:.0f} s)"
    yield f"vectors {ready} of {total}, {jobs}, skipped files {len(result.skipped)}"
    databases = {"index": result.index_bytes, "journal": result.journal_bytes}
    sizes = {name: f"{n / 1e6:.1f} MB" if n >= 1e6 else f"{n / 1000:.0f} KB" for name, n in databases.items()}
    yield ", ".join(f"{name} {size}" for name, size in sizes.items())
    note_degradations(result.degradations)


def _render_contexts(results: Sequence[SessionTokens]) -> Lines:
    row = "  {:<22}{:>6} texts {:>9} tokens {:>7} hits"
    for each in results[:SESSIONS_SHOWN]:
        used = "unknown" if each.context_used is None else f"{each.context_used:.0%}"
        yield line((each.session, "cyan"), f"  {each.client or '-'}, context in use {used}")
        yield from (row.format(one.occasion, one.times, one.tokens, one.hits) for one in each.occasions)
        yield line((row.format("in all", each.times, each.tokens, each.hits), "bold"))
    names = ("tokens", "times", "unasked", "unasked_tokens", "uses", "used_tokens", "redactions")
    sums = {name: sum(getattr(each, name) for each in results) for name in names}
    given = f"{format_count(sums['times'], 'text')} of {format_count(sums['tokens'], 'token')}"
    yield f"Given in {format_count(len(results), 'session')}: {given} in all."
    yield "{unasked_tokens} of these tokens were given unasked. Of the {unasked} lines in them still known,".format_map(
        sums
    )
    yield "the model repeated or read {uses}, of {used_tokens} tokens.".format_map(sums)
    kept = Counter(chain.from_iterable(Counter(each.rules).elements() for each in results)).most_common()
    rules = ", ".join(f"{name} {count}" for name, count in kept) or "none"
    yield f"Recorded by rule: {rules}; a secret was removed from {sums['redactions']}"


def _render_figures(figures: Mapping[str, Any]) -> Lines:
    days = format_count(figures["days"], "day", "g")
    yield f"{format_count(figures['files'], 'memory')} created since {figures['since'][:10]} ({days})"
    for each in figures["measures"]:
        word, style = ("met", "green") if each["met"] else ("missed", "bold red")
        word, style = ("none", "dim") if each["share"] is None else (word, style)
        share = "     -" if each["share"] is None else f"{each['share']:6.1%}"
        bound = f"{'at most' if each['at_most'] else 'at least'} {each['target']:.0%}"
        yield line((f"{word:<7}", style), f"{each['name']:<24}{share}  {each['count']} of {each['of']}, {bound}")
    yield "bands " + ", ".join(f"{name} {count}" for name, count in figures["bands"].items())
    if figures["undated"]:
        yield f"Left out, since they say no time of creation: {format_count(figures['undated'], 'file')}"
    if figures["unreadable"]:
        yield f"Not readable: {format_count(figures['unreadable'], 'file')}; see `scrimshaw lint`"


def _render_searches(found: SearchFigures) -> Lines:
    yield f"Searches: {found.searches} in {format_count(found.days, 'day', 'g')}"
    shares = ((words, getattr(found, name)) for name, words in SHARES.items())
    yield from (f"{'     -' if share is None else f'{share:6.1%}'}  {words}" for words, share in shares)
    yield from (line(f"{count:>6}  {name}", ("  degraded", "yellow")) for name, count in found.failures.items())
    yield from describe_dark(found.dark)
    if found.searches:
        yield line(("milliseconds       median      p95", "dim"))
    yield from (f"{stage:<16}{median:>9.2f}{late:>9.2f}" for stage, (median, late) in found.stages.items())


def _render_uplift(found: Uplift) -> Lines:
    yield f"{format_count(found.told, 'session')} given what is known, {found.untold} not (injection {found.percent})"
    for each in found.differences:
        gap = f"{each.told - each.untold:+.2f} ({each.low:+.2f} to {each.high:+.2f})"
        mark = ("  more or less than chance", "bold") if each.is_sure else ("", "dim")
        yield line(f"{each.name:<17}{each.told:>9.2f} against {each.untold:.2f}  {gap}", mark)
    if not found.differences:
        yield "There is nothing to compare: set rollout.injection below 100, and work for a while."
    elif not any(each.is_sure for each in found.differences):
        yield "No measurable benefit so far: every interval includes zero."


def _render_counted(result: Any, by: Sequence[str] | None) -> Lines:
    if isinstance(result, Stats):
        return _render_stats(result, by)
    others: Mapping[type, Callable[[Any], Lines]]
    others = {SearchFigures: _render_searches, Uplift: _render_uplift, list: _render_contexts, dict: _render_figures}
    return others[type(result)](result)


def _render_fixes(found: Sequence[Fix]) -> Lines:
    for each in found:
        outcome = {True: f"gone in {each.passed}", False: "failed again", None: "not run again"}[each.helped]
        yield line((each.date, "dim"), "  ", (neutralise(each.error), "bold"), (f"  {each.origin}", "dim"))
        ran = neutralise(each.command) or "(reported)"
        yield line(f"   $ {ran}  ", (outcome, "green" if each.helped else "yellow"))
        yield from (f"   {neutralise(told)}" for told in (each.said, *each.done) if told)


def _render_state(resumed: Mapping[str, Any]) -> Lines:
    for part, lines in groupby(shorten_origins(resumed["lines"]), key=lambda each: each.part):
        yield line((part, "bold"))
        for each in lines:  # output and code keep their lines
            text = each.text.replace("\n", "\n    ")
            yield line(f"  {text}", (f"  {each.origin}, trust {each.trust}", "dim"))
    if not resumed["lines"]:
        yield "The session recorded nothing."


@command(app, "search", '"why not the standard sqlite3" --tier important --limit 5', render=_render_found, fresh=False)
def search(
    engine: Engine,
    query: Annotated[list[str], typer.Argument(help="A question, some words or an error message.")],
    filters: Filters,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Maximum number of hits.")] = MOST_HITS,
    open_: Annotated[int, typer.Option("--open", metavar="N", min=0, help="Open the N-th hit in your $EDITOR.")] = 0,
    channels: Annotated[str, typer.Option(help="Only these, of: text, vector, trigger, graph.")] = "",
    lexical_only: Annotated[bool, typer.Option("--lexical-only", help="By words only, without peers.")] = False,
    semantic_only: Annotated[bool, typer.Option("--semantic-only", help="By meaning only, with peers.")] = False,
    budget: Annotated[int | None, typer.Option(min=1, help="Token budget for all hits, four characters each.")] = None,
    min_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Show hits only if one is this sure to answer; default 0.5.")
    ] = None,
    content: Annotated[bool, typer.Option("--content", help="Show whole texts, not excerpts.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain each score: (fused + terms) x factors x (1 + boosts).")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show the stages of the search and their times.")] = False,
    at: Annotated[str, typer.Option(metavar="REV", help="As of a commit, tag, branch or ISO date; by words.")] = "",
    no_scan: frame.NoScan = False,
) -> SearchResult:
    """Find memories by words, by meaning and by trigger phrases."""
    if bool(channels) + lexical_only + semantic_only > 1:
        raise typer.BadParameter("Give one of --channels, --lexical-only and --semantic-only.")
    named = "text,trigger,graph" if lexical_only else "vector,graph" if semantic_only else channels
    words = " ".join(query)
    request = SearchRequest(
        query=words,
        filters=filters,
        limit=limit,
        channels=frame.channels_of(named),
        include_content=content,
        min_confidence=engine.settings.search.min_confidence if min_confidence is None else min_confidence,
        record=True,
    )
    if not (at or no_scan):
        index.catch_up(engine)
        frame.fill_few(engine)
    wait_s = engine.settings.router.start_s
    result = search_past(engine, request, at) if at else ask.search(engine, request, wait_s=wait_s)
    result = add_state(engine, words, result, None, 0 if at else budget or engine.settings.context.resume_tokens)
    terms = query_terms(words)
    if not at and not (result.hits or result.state) and not engine.index.count(EVERY)[""]:
        note("This project has no memories yet: `scrimshaw save` writes one, `scrimshaw import` imports sessions.")
    if open_:
        _open_hit(result, open_)
    if not content:
        added = (replace(hit, text=cut_passage(hit.text, terms, PASSAGE)) for hit in result.peers)
        result = replace(result, peers=tuple(added))

    def spare(hits: Sequence[Hit]) -> int:
        texts = ((hit.memory.id, hit.memory.title, hit.text) for hit in hits)
        return (budget or 0) * TOKEN_CHARACTERS - sum(map(count_characters, chain.from_iterable(texts)))

    if budget:
        return result.keep_hits(pack_hits(result.hits, terms, spare))
    cut = (replace(hit, text=hit.text if content else cut_passage(hit.text, terms, PASSAGE)) for hit in result.hits)
    return result.keep_hits([*cut])


def _open_hit(result: SearchResult, number: int) -> None:
    """Open the file of a hit in the user's editor, at its passage."""
    hit = next(iter(result.hits[number - 1 : number]), None)
    if hit is None or not Path(hit.memory.path).is_absolute():
        raise InvalidRequest(f"There is no hit {number} with a file.", "Search without --open.")
    place = _find_place(hit).rpartition(":")[2]
    frame.run_editor(Path(hit.memory.path), int(place) if place.isdigit() else 1)


@command(
    app, "get", "storage/wal-reset --anchor decision", "storage/wal-reset#decision", render=render_text, fresh=False
)
def get(
    engine: Engine,
    memory_id: frame.MemoryId,
    anchor: Annotated[str, typer.Option(help="Only the section of this heading, or of an ANCHOR comment.")] = "",
    no_scan: frame.NoScan = False,
) -> MemoryText:
    """Print the text of a memory; in a pipe only the text."""
    if not no_scan:
        index.catch_up(engine)
    if memory_id.startswith(PREFIX):
        found = ask.get_from_peer(engine, memory_id)
    else:
        is_part = memory_id.startswith(ITEM_PREFIX)  # part of a session, which are numbered
        name, _, section = (memory_id, "", "") if is_part else re.sub(r"\A\[\[|\]\]\Z", "", memory_id).partition("#")
        name = f"[[{name}]]" if memory_id.startswith("[[") else frame.find_id(engine, name)
        found = read.get(engine, name, anchor or section)
    read.touch(engine, [found.memory])
    query_log.append(engine, LoggedRead(at=engine.clock(), id=found.memory.id))
    return found


@command(app, "list", "--type decision --sort updated --limit 50", render=_render_page, reads=True)
def list_memories(
    engine: Engine,
    filters: Filters,
    sort: Annotated[Sort, typer.Option(help="Sort order; dates newest first.")] = "updated",
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Maximum number; in a pipe all.")] = None,
    offset: Annotated[int, typer.Option(min=0, help="Skip this many.")] = 0,
    no_scan: frame.NoScan = False,
) -> MemoryPage:
    """List memories in an exact order.

    In a pipe: one line each, fields separated by tabs.
    """
    most = limit or (MOST_LISTED if console().is_terminal else -1)
    return counts.page(engine, filters, sort=sort, limit=most, offset=offset)


@command(
    app, "stats", "--by folder --type decision", "--searches --days 7",
    render=_render_counted, fails=lambda found: isinstance(found, dict) and found["is_missed"],
)  # fmt: skip
def stats(
    project: Path | None,
    filters: Filters,
    by: Annotated[list[Group] | None, typer.Option(help="Group counts by this (repeatable).")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Leave out these ids (repeatable).")] = None,
    context: Annotated[bool, typer.Option("--context", help="Tokens that each session was given.")] = False,
    quality: Annotated[bool, typer.Option("--quality", help="Quality of the newest memories.")] = False,
    searches: Annotated[bool, typer.Option("--searches", help="What was searched, how fast, what was read.")] = False,
    uplift: Annotated[bool, typer.Option("--uplift", help="Compare sessions given memories with the others.")] = False,
    check: Annotated[bool, typer.Option("--check", help="For --quality: exit code 1 if a target is missed.")] = False,
    days: Annotated[float | None, typer.Option(min=0.01, help=f"For --quality, --searches; default {DAYS:g}.")] = None,
    no_scan: frame.NoScan = False,
) -> Stats | SearchFigures | Uplift | list[SessionTokens] | dict[str, Any]:
    """Count memories, or measure quality, cost and searches.

    Counts are exact, and include the size and completeness of the index.
    """
    counted_by = filters != Filters() or by or exclude
    if (chosen := context + quality + searches + uplift) > 1 or (chosen and counted_by):
        alone = "--quality, --context, --searches and --uplift"
        raise typer.BadParameter(f"{alone} answer alone, without filters, --by and --exclude.")
    if (days is not None and not (quality or searches)) or (check and not quality):
        raise typer.BadParameter("--days belongs to --quality and --searches, --check to --quality.")
    if quality:  # reads only files, no index
        figures = measure_quality(settings_of_memory(project), days=days or DAYS)
        return figures | {"is_missed": check and not all(each["met"] for each in figures["measures"])}
    with open_memory(project, fresh=None if no_scan else not chosen, reads=True) as engine:
        if searches or uplift:
            return search_figures(engine, days or DAYS) if searches else measure_uplift(engine)
        return counts.list_tokens(engine) if context else counts.count_memories(engine, filters, exclude=exclude or ())


@command(app, "fix", '"ModuleNotFoundError: No module named yaml"', render=_render_fixes, reads=True, empty=_NO_FIX)
def fix(
    engine: Engine,
    error: Annotated[str, typer.Argument(help="The error message, or all of the output.")],
    limit: Annotated[int, typer.Option(min=1, max=50, help="Maximum number of answers.")] = MOST_FIXES,
) -> list[Fix]:
    """Show what was done about an error before, and if it helped."""
    if not re.search(r"\w", error):
        raise typer.BadParameter("Give the error message, or all of the output.")
    return find_fixes(engine.sessions, error, limit, index=engine.index)


@command(app, "resume", "--occasion resume --budget 400", render=_render_state, fresh=False)
def resume(
    engine: Engine,
    session: Annotated[str, typer.Option(help="A session; default: the last one.")] = "",
    occasion: Annotated[Occasion, typer.Option(help="What it is for; each shows other parts.")] = Occasion.START,
    budget: Annotated[int | None, typer.Option(min=1, help="Token budget; default: context.resume_tokens.")] = None,
) -> dict[str, Any]:
    """Show where the last session ended.

    Its task and later requests, next steps and open points, decisions, tests, commits, changes.
    """
    session = session and frame.find_session(engine, session)
    found = engine.sessions.get(session) if session else next(iter(engine.sessions.latest()), None)
    own = found if found and (session or occasion == Occasion.COMPACT) else Session(id="")  # it tells only its own
    lines, tokens, omitted = resume_state(engine, own, occasion, budget or engine.settings.context.resume_tokens)
    if not (found or lines):
        raise NotFound("There is no session to resume.", "Sessions come from the hooks of an agent client.")
    about = replace(found, task=neutralise(found.task)) if found else None
    return {"session": about, "lines": neutralise_state_lines(lines), "tokens": tokens, "omitted": omitted}
