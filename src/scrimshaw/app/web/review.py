"""The pages on which a person decides about drafts and changes, and the actions of their buttons."""

import secrets
from collections.abc import Callable
from datetime import datetime

from scrimshaw.app.web.markdown import render_markdown
from scrimshaw.app.web.markup import Child, Html, join, link, make_table, make_url, tag
from scrimshaw.app.web.memory import render_diff
from scrimshaw.app.web.page import Page, Site, Values, format_moment, link_memory, make_form, parse_number
from scrimshaw.engine import drafts, history
from scrimshaw.errors import Conflict, NotFound
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.models import WAITS, Action, JobState

_MOST_DRAFTS, _MOST_ROWS, _MOST_JOBS = 20, 50, 50
_NONE = (
    "No draft waits. Sessions leave memories by themselves; with ", tag("code", "review = true"), " below ",
    tag("code", "[drafts]"), " in .scrimshaw/config.toml each of them waits here first.",
)  # fmt: skip


def show_drafts(site: Site, values: Values) -> Page:
    """The drafts that wait for a person, then those that the quality gate set aside."""
    found = drafts.list_rejected(site.engine)
    waiting = [each for each in found if WAITS in each.reasons]
    aside = [each for each in found if WAITS not in each.reasons]
    parts = []
    for title, some in (("They wait for you", waiting), ("Set aside", aside)):
        cards = [tag("li", _render_draft(site, each)) for each in some[:_MOST_DRAFTS]]
        more = tag("p", f"and {len(some) - len(cards)} more", class_="dim") if len(some) > len(cards) else None
        parts.append(tag("section", tag("h2", title), tag("ul", cards, class_="hits"), more) if some else None)
    parts += [] if found else [tag("p", *_NONE)]
    return Page("Review", join(parts), "/drafts")


def accept_draft(site: Site, values: Values) -> str:
    """Make a memory of a draft; raises NotFound, and the errors of a save."""
    engine, name = site.engine, values.get("name", "")
    text = drafts.read_rejected(engine, name)
    saved = drafts.promote_draft(engine, name)
    entry = next((row["seq"] for row in engine.journal.history(saved.id, 1) if saved.status in ("saved", "updated")), 0)

    def take_back() -> None:
        steps = history.undo(engine, entry=entry).steps if entry else ()
        if trouble := next((step.trouble for step in steps if step.trouble), ""):
            raise Conflict(f"The memory stays: {trouble}.", "`scrimshaw log` shows what became of it.")
        drafts.restore_draft(engine, name, text)

    return _note_done(site, join("Accepted: ", link_memory(saved.id)), take_back)


def reject_draft(site: Site, values: Values) -> str:
    """Remove a draft; raises NotFound."""
    engine, name = site.engine, values.get("name", "")
    text = drafts.read_rejected(engine, name)
    drafts.discard_drafts(engine, [name])
    return _note_done(site, join(f"Rejected: {name}"), lambda: drafts.restore_draft(engine, name, text))


def take_back(site: Site, values: Values) -> str:
    """Undo the action in a banner; raises NotFound for one that is not of this server, or already undone."""
    if (name := values.get("done", "")) not in site.done:
        raise NotFound("There is nothing to undo here any more.", "`scrimshaw ledger show` lists all changes.")
    _, restore = site.done[name]
    restore()
    del site.done[name]
    return "/drafts"


def show_changes(site: Site, values: Values) -> Page:
    """The newest entries of the ledger, and the jobs that are not done."""
    journal = site.engine.journal
    rows = journal.history(limit=_MOST_ROWS)
    known = site.engine.index.get([row["memory_id"] for row in rows])
    # An undo is newer than what it undoes, so both are among these rows.
    undone = {row["decision_meta"].get("undoes"): row["seq"] for row in rows}
    changes = []
    for row in rows:
        number, name = row["seq"], row["memory_id"]
        end: Child = f"by {undone[number]}" if number in undone else ""
        if name and not end and row["action"] != Action.EXTERNAL:  # what somebody wrote by hand is left to git
            end = make_form(site, "/changes/undo", "Undo", entry=str(number))
        memory = link_memory(name) if name in known else name or "the whole memory"
        changes.append((memory, row["action"], format_moment(row["at"]), row["actor"], row["reason"], str(number), end))
    jobs = [job for job in journal.jobs() if job.state is not JobState.DONE][:_MOST_JOBS]
    waiting = [
        (job.key or job.kind, job.kind, job.state, f"{job.done} of {job.total}", format_moment(job.created), job.error)
        for job in jobs
    ]
    columns = ("memory", "change", "when", "by", "reason", "entry", "undo")
    of_jobs = ("job", "kind", "state", "progress", "requested", "error")
    session, everything = tag("code", "scrimshaw undo --session ID"), tag("code", "scrimshaw ledger show")
    table = make_table("The newest changes", columns, changes) if changes else tag("p", "Nothing was changed yet.")
    hint = tag("p", session, " undoes a session; ", everything, " lists all changes.", class_="dim")
    to_do = make_table("Jobs that are not done", of_jobs, waiting) if waiting else tag("p", "Every job is done.")
    return Page("Changes", join(table, hint, tag("h2", "Jobs"), to_do), "/changes")


def undo_change(site: Site, values: Values) -> str:
    """Undo one entry of the ledger; raises NotFound, and Conflict for a file that was changed since."""
    (step,) = history.undo(site.engine, entry=parse_number(values, "entry")).steps
    if step.trouble:
        raise Conflict(f"Entry {step.entry} was not undone: {step.trouble}.", "Undo the newer change first.")
    return "/changes"


def _note_done(site: Site, message: Html, restore: Callable[[], None]) -> str:
    """Remember how to undo an action, as long as the server runs; returns the address of the page that offers it."""
    name = secrets.token_urlsafe(8)
    site.done[name] = message, restore
    return make_url("/drafts", done=name)


def _render_draft(site: Site, draft: drafts.RejectedDraft) -> Html:
    engine = site.engine
    before = drafts.find_draft(engine, draft.session)
    is_renewal = bool(before and before.memory_id and engine.index.get([before.memory_id]))
    if is_renewal:
        body = render_diff(drafts.compare_draft(engine, draft))
    else:
        file = parse_memory_file(drafts.read_rejected(engine, draft.name).encode(), draft.path)
        body = tag("div", render_markdown(file.body, draft.name, {}, draft.session), class_="markdown")
    waits = WAITS in draft.reasons
    reasons = [tag("p", reason, class_="note") for reason in draft.reasons if reason != WAITS]
    quality = f"quality {draft.quality.score:.2f}" if draft.quality else ""
    ends = "" if waits else f"goes {datetime.fromtimestamp(draft.expires):%Y-%m-%d}"
    facts = [tag("span", fact) for fact in (quality, ends, "renews its memory" if is_renewal else "") if fact]
    session = link("its session", make_url("/sessions", draft.session)) if draft.session else None
    label, kind = ("Accept", "main") if waits else ("Accept all the same", "")
    accept = make_form(site, "/drafts/accept", label, kind, name=draft.name)
    reject = make_form(site, "/drafts/reject", "Reject", name=draft.name)
    head = [tag("h3", draft.title), tag("p", facts, session, class_="facts")]
    return tag("article", head, reasons, body, tag("div", accept, reject))
