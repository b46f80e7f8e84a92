"""The commands that write memories: save, edit, delete, drafts, consolidate."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import Texts, command, command_group, content_of
from scrimshaw.app.cli.output import Lines, confirm, is_interactive, line, note, plain, print_lines
from scrimshaw.engine import Engine, index, read, trust, write
from scrimshaw.engine import drafts as drafting
from scrimshaw.engine.drafts import Consolidation, DraftOutcome, RejectedDraft
from scrimshaw.engine.read import MemoryText
from scrimshaw.engine.write import Saved
from scrimshaw.ingest.instructions import FLAG, is_suspicious
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.models import DRAFTS, WAITS, Memory, MemoryType, Tier, Trust, VaultName, format_count

app = typer.Typer()
drafts = command_group(app, "drafts", "Drafts of sessions that are not memories yet.", "list")

_OUTCOMES = {
    "duplicate": "the same text exists already; nothing was written",
    "dry_run": "would be saved",
    "rejected": "rejected; nothing was written (correct it, or save with --force)",
}

_ALWAYS_ON = "Show this memory before every answer from now on, to every agent?"
_NONE_WAITS = "No draft is waiting for review."
_NOTHING_SHARED = "No two sessions of these days share a topic."
_NO_CLAIM = "No file claims more than it has, so there is nothing to vouch for."


def _render_saved(result: Saved) -> Lines:
    yield line((result.id, "cyan"), "  ", _OUTCOMES.get(result.status, result.status))
    note(*result.reasons, *result.notices)
    if result.redacted:
        note(f"Redacted: {', '.join(result.redacted)}.")
    kinds = {"near_duplicate": "Nearly the same", "same_title": "Has the same title"}
    note(*(f"{kinds.get(other.kind, 'Related')}: {other.id} ({other.similarity:g})" for other in result.similar))


def _render_deleted(gone: Mapping[str, Any]) -> Lines:
    verb = f"{'would be ' if gone['dry_run'] else ''}{'purged' if gone['purged'] else 'deleted'}"
    yield from (line((name, "cyan"), f"  {verb}") for name in gone["ids"])


def _render_drafts(found: Sequence[RejectedDraft]) -> Lines:
    for each in found:
        left = f"expires in {max(0.0, each.expires - time.time()) / 86_400:.1f} days"
        score = f"score {each.quality.score:.2f}, " if each.quality else ""
        left = "waits for review" if WAITS in each.reasons else left if each.path else "no draft; searches here find it"
        yield line((each.name, "bold"), f"  {each.title}", (f"  {score}{left}", "dim"))
        yield from (f"  {reason}" for reason in each.reasons if reason != WAITS)
        yield from [line((f"  {each.path}", "dim"))] if each.path else []


def _render_reviews(found: Sequence[Mapping[str, str]]) -> Lines:
    for each in found:
        yield line((each["name"], "bold"), f"  {each['title']}", (f"  {each['status']}", "dim"))
        yield from each["diff"].splitlines() if each["status"] == "waiting" else ()


def _render_outcomes(made: Sequence[DraftOutcome]) -> Lines:
    for each in made:
        where = each.memory_id or each.path
        yield line((each.status, "bold"), f"  {each.session}", f"  {where}" if where else "")
        yield from (f"  {reason}" for reason in each.reasons)


def _render_consolidated(found: Sequence[Consolidation | Saved]) -> Lines:
    for each in found:
        if isinstance(each, Saved):
            yield line((each.status, "bold"), f"  {each.id}", (f"  {each.path}", "dim"))
        else:
            yield line((each.title, "bold"))
            yield from [f"from {', '.join(each.sources)}", each.content] if each.content else []


@command(
    app, "save", '"We use apsw, since ..." --type decision --trigger "wal reset"',
    render=_render_saved, fails=lambda saved: saved.status == "rejected",
)  # fmt: skip
def save(
    engine: Engine,
    text: Annotated[str, typer.Argument(help="The text in Markdown; - reads standard input.")] = "",
    file: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Take the text from a file.")] = None,
    title: Annotated[str, typer.Option(help="Default: the first heading or line.")] = "",
    memory_id: Annotated[str, typer.Option("--id", help="Default: made from the title.")] = "",
    type_: Annotated[MemoryType, typer.Option("--type", help="The kind of knowledge.")] = MemoryType.GENERAL,
    tier: Annotated[Tier, typer.Option(help="How much it matters.")] = Tier.NORMAL,
    trigger: Annotated[Texts, typer.Option(metavar="TEXT", help="A trigger phrase (repeatable).")] = None,
    topic: Annotated[Texts, typer.Option(metavar="TEXT", help="A topic (repeatable).")] = None,
    question: Annotated[Texts, typer.Option(metavar="TEXT", help="A question that it answers (repeatable).")] = None,
    vault: Annotated[VaultName | None, typer.Option(help="Where; default: Serena's, if it is the only one.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Save even if the same text exists.")] = False,
    dry_run: frame.DryRun = False,
    yes: frame.Yes = False,
) -> Saved:
    """Save a new memory: redacted, durable, searchable at once.

    Without a text it is read from a pipe, or written in your $EDITOR.
    """
    if text and file:
        raise typer.BadParameter("Give either the text or --file.")
    if text or file or not is_interactive():
        content = content_of(text or frame.STDIN, file)
    else:
        with TemporaryDirectory(prefix="scrimshaw-") as folder:
            path = Path(folder) / "memory.md"
            path.touch(mode=0o600)
            frame.run_editor(path)
            content = content_of("", path)
    new = write.NewText(
        content=content.removesuffix("\n") + "\n",  # like any text file
        id=memory_id,
        title=title,
        type=type_,
        tier=tier,
        triggers=tuple(trigger or ()),
        topics=tuple(topic or ()),
        questions=tuple(question or ()),
        vault=vault or write.choose_vault(engine, memory_id),
        origin="cli",
        actor="human",
        trust=Trust.HUMAN,
    )
    if tier == Tier.CONSTITUTIONAL and not dry_run:
        _confirm_words(_ALWAYS_ON, yes)
    return write.save(engine, new, force=force, dry_run=dry_run)


@command(app, "edit", "storage/wal-reset --tier critical --add-trigger 'disk image is malformed'", render=_render_saved)
def edit(
    engine: Engine,
    memory_id: frame.MemoryId,
    title: Annotated[str | None, typer.Option(help="A new title.")] = None,
    tier: Annotated[Tier | None, typer.Option(help="A new tier.")] = None,
    type_: Annotated[MemoryType | None, typer.Option("--type", help="A new type.")] = None,
    add_trigger: Annotated[Texts, typer.Option(metavar="TEXT", help="Add a trigger phrase (repeatable).")] = None,
    remove_trigger: Annotated[Texts, typer.Option(metavar="TEXT", help="Remove a phrase (repeatable).")] = None,
    add_topic: Annotated[Texts, typer.Option(metavar="TEXT", help="Add a topic (repeatable).")] = None,
    remove_topic: Annotated[Texts, typer.Option(metavar="TEXT", help="Remove a topic (repeatable).")] = None,
    add_question: Annotated[Texts, typer.Option(metavar="TEXT", help="Add a question (repeatable).")] = None,
    remove_question: Annotated[Texts, typer.Option(metavar="TEXT", help="Remove a question (repeatable).")] = None,
    content: Annotated[str | None, typer.Option(help="A new text; - reads standard input.")] = None,
    expect: Annotated[str, typer.Option(metavar="HASH", help="Only if the file has this content_hash.")] = "",
    yes: frame.Yes = False,
) -> Saved:
    """Change a memory; by default in your $EDITOR."""
    memory_id = frame.find_id(engine, memory_id)
    memory = engine.memory(memory_id)
    doubts = _confirm_words(_ALWAYS_ON, yes, read.get(engine, memory_id)) if tier == Tier.CONSTITUTIONAL else ()
    changes: dict[str, object] = {
        "title": title,
        "tier": tier,
        "type": type_,
        "trigger_phrases": _merge(memory.triggers, add_trigger, remove_trigger),
        "topics": _merge(memory.topics, add_topic, remove_topic),
        "questions": _merge(memory.questions, add_question, remove_question),
    }
    stated = {key: value for key, value in changes.items() if value is not None}
    if not stated and content is None:
        return _edit_by_hand(engine, memory, yes)
    text = None if content is None else content_of(content).removesuffix("\n") + "\n"
    known = expect or memory.content_hash
    saved = write.update(engine, memory_id, stated, content=text, expected_hash=known, actor="human")
    return replace(saved, notices=(*doubts, *saved.notices))


@command(app, "trust", "docs/agents.md", render=lambda ids: [f"{each}  vouched for" for each in ids], empty=_NO_CLAIM)
def vouch_for(
    engine: Engine,
    files: Annotated[Texts, typer.Argument(metavar="[FILE...]", help="Paths or ids; default: all claims.")] = None,
    yes: frame.Yes = False,
) -> list[str]:
    """Vouch for files in their present form, until they change."""
    ids = [frame.find_id(engine, name) for name in files or ()]
    if memories := [*map(engine.memory, ids)] if ids else trust.find_claims(engine):
        names = ", ".join(plain(f"{each.id} ({each.path})") for each in memories)
        _confirm_words(f"Vouch for {names} as it is?", yes, *[read.get(engine, each.id) for each in memories])
        trust.vouch(engine, memories)
    return [memory.id for memory in memories]


@command(app, "delete", "drafts/old drafts/older --yes", render=_render_deleted)
def delete(
    engine: Engine,
    memory_ids: Annotated[list[str], frame.complete(metavar="ID...", help="The memories.")],
    purge: Annotated[bool, typer.Option("--purge", help="Erase it from undo and checkpoints too.")] = False,
    dry_run: frame.DryRun = False,
    yes: frame.Yes = False,
) -> dict[str, Any]:
    """Delete memories with their files.

    Their last content stays in the journal unless purged.
    """
    ids = tuple(dict.fromkeys(frame.find_id(engine, name) for name in memory_ids))
    if dry_run:
        write.demand_writable(*map(engine.memory, ids))
    else:
        confirm(f"Delete {', '.join(ids)}{' without a trace' if purge else ''}?", yes)
        write.delete(engine, ids, purge=purge, reason="deleted from the command line", actor="human")
    frame.note_records(engine, ids)
    return {"ids": ids, "purged": purge, "dry_run": dry_run}


@command(drafts, "list", render=_render_drafts, fresh=False, empty="There is no rejected draft.")
def list_drafts(engine: Engine) -> list[RejectedDraft]:
    """List rejected drafts with the reasons, newest first, then sessions that left nothing to draft."""
    return [*drafting.list_rejected(engine), *drafting.list_talks(engine)]


@command(drafts, "show", "0e24ab", render=lambda text: [text], fresh=False)
def show_draft(
    engine: Engine,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The draft's name, as shown by `drafts list`.")],
) -> str:
    """Print the text of a rejected draft."""
    return drafting.read_rejected(engine, _find_draft(engine, name))


@command(drafts, "make", "", "0e24ab", render=_render_outcomes, fresh=False, empty="No session is waiting for a draft.")
def make_drafts(
    engine: Engine,
    session: Annotated[str, typer.Argument(metavar="[SESSION]", help="A session; default: all without a draft.")] = "",
) -> list[DraftOutcome]:
    """Make pending drafts now, instead of in the background."""
    waiting = [frame.find_session(engine, session)] if session else drafting.find_undrafted(engine, engine.clock())
    return [drafting.make_draft(engine, each) for each in waiting]


@command(app, "review", "", "0e24ab --accept", "--all --accept", render=_render_reviews, fresh=False, empty=_NONE_WAITS)
def review_drafts(
    engine: Engine,
    names: Annotated[Texts, typer.Argument(metavar="[NAME...]", help="The drafts; default: ask about each.")] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Make memories of them.")] = False,
    edit: Annotated[bool, typer.Option("--edit", help="Edit them first, in your $EDITOR.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Remove them permanently.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="All that are waiting.")] = False,
    dry_run: frame.DryRun = False,
    yes: frame.Yes = False,
) -> list[dict[str, str]]:
    """Accept, edit or reject drafts that wait, or that you name."""
    if accept + edit + reject > bool(names or all_):
        raise typer.BadParameter("Name drafts, or --all, with one of --accept, --edit and --reject.")
    names = [_find_draft(engine, name) for name in names or ()]
    waiting = [one for one in drafting.list_rejected(engine) if (one.name in names if names else WAITS in one.reasons)]
    if reject and waiting and not dry_run:
        confirm(f"Remove {format_count(len(waiting), 'draft')} permanently?", yes)
    answers = {"a": "accept", "e": "edit", "r": "reject"}
    chosen = "accept" if accept else "edit" if edit else "reject" if reject else ""
    done = []
    for each in waiting:
        status, action = ("waiting", chosen) if not (chosen and dry_run) else (f"would be {chosen}ed", "")
        found = {"name": each.name, "title": each.title, "status": status}
        found["diff"] = drafting.compare_draft(engine, each)
        if not (action or dry_run) and is_interactive():
            print_lines(_render_reviews([found]))
            action = answers.get(typer.prompt("accept, edit, reject or skip", default="skip", err=True)[:1].lower(), "")
        if action == "edit":
            frame.run_editor(Path(each.path))
        if action in ("accept", "edit"):
            found["status"] = drafting.promote_draft(engine, each.name).status
        elif action == "reject":
            drafting.discard_drafts(engine, [each.name])
            found["status"] = "rejected"
        done.append(found)
    return done


@command(drafts, "consolidate", "--topic sqlite --dry-run", render=_render_consolidated, empty=_NOTHING_SHARED)
def consolidate(
    engine: Engine,
    topic: Annotated[str, typer.Option(help="Only sessions about this topic.")] = "",
    days: Annotated[float | None, typer.Option(min=0.01, help="Default: drafts.consolidate_days.")] = None,
    content: Annotated[bool, typer.Option("--content", help="Show the texts that would be written.")] = False,
    dry_run: frame.DryRun = False,
    yes: frame.Yes = False,
) -> Sequence[Consolidation | Saved]:
    """Combine the sessions on one topic into one memory.

    The memory links to them; the sessions themselves stay.
    """
    proposals = drafting.propose(engine, topic=topic, days=days)
    if dry_run or not proposals:
        return proposals if content else [replace(each, content="") for each in proposals]
    confirm(f"Write {format_count(len(proposals), 'memory')} ({', '.join(each.title for each in proposals)})?", yes)
    return [drafting.consolidate(engine, each) for each in proposals]


def _confirm_words(question: str, yes: bool, *found: MemoryText) -> tuple[str, ...]:
    """Ask a person, after saying whose words the memories contain; returns those notices."""
    doubts = []
    for memory, source, body in ((each.memory, each.memory.provenance, each.body) for each in found):
        if source.trust not in (Trust.HUMAN, Trust.FILE):
            doubts.append(f"{plain(memory.id)} comes from {plain(source.source)}, trust {source.trust}.")
        if is_suspicious("\n".join((memory.title, *memory.triggers, *memory.questions, body))):
            doubts.append(f"It is flagged as {FLAG}: it speaks to an agent.")
    confirm(" ".join((*doubts, question)), yes)
    return tuple(doubts)


def _find_draft(engine: Engine, name: str) -> str:
    """The name of a rejected draft, of which the beginning is enough; raises NotFound."""
    known = (path.stem for path in (engine.settings.folder / DRAFTS).glob("*.md"))
    return frame.find_by_beginning("draft", name, known)


def _merge(present: Iterable[str], add: Texts, remove: Texts) -> Texts:
    """The list with the additions and without the removals; None if there are neither."""
    merged = [item for item in dict.fromkeys((*present, *(add or ()))) if item not in (remove or ())]
    return merged if add or remove else None


def _edit_by_hand(engine: Engine, memory: Memory, yes: bool) -> Saved:
    """The file's text after the user's editor has closed; a person can vouch for a constitutional memory this way."""
    write.demand_writable(memory)
    frame.run_editor(Path(memory.path))
    index.scan(engine)
    after = engine.memory(memory.id)
    status = "unchanged" if after.content_hash == memory.content_hash else "updated"
    if status == "updated":
        if trust.describe_claim(after) and memory.tier != Tier.CONSTITUTIONAL:
            _confirm_words(_ALWAYS_ON, yes, read.get(engine, after.id))
        trust.vouch(engine, [after])
    torn = write.describe_conflict(parse_memory_file(Path(after.path).read_bytes()))
    return Saved(id=after.id, status=status, content_hash=after.content_hash, path=after.path, notices=torn)
