"""The page of the ledger: who changed what, with a button to undo it; and the jobs that are not done."""

from scrimshaw.app.web.markup import Child, join, make_table, tag
from scrimshaw.app.web.page import Page, Site, Values, format_moment, link_memory, make_form, parse_number
from scrimshaw.engine import history
from scrimshaw.errors import Conflict
from scrimshaw.models import Action, JobState

_MOST_ROWS, _MOST_JOBS = 50, 50


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
