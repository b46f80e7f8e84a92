"""What a person is told after the journal was lost."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from rich.console import Console

from scrimshaw.app.cli.output import line, note
from scrimshaw.engine.restore import Recovery

_NAMED = 20
_NOTHING = (
    "No checkpoint could be used: the ledger, what undo needs, sessions, reviews and jobs begin anew. The memories are "
    "files and stand as they are."
)


def tell_aside(aside: Path) -> None:
    """Where the journal went, before anything is restored."""
    if aside.exists():
        note(f"The journal was damaged; it is kept as {aside}. The files are left as they are.")
    else:
        note("The journal was missing. The files are left as they are.")


def question(is_lost: bool) -> str:
    """What to ask before `restore --newest`."""
    if is_lost:
        return "The journal is damaged. Move it away and begin with the newest checkpoint's rows? Stop servers first."
    return "Bring back what is missing from the newest checkpoint? Stop running servers first."


def show_recovery(console: Console, name: str, recovery: Recovery, unrecorded: int) -> None:
    """How old the checkpoint of this name is, the rows that are lost by table, and what was deleted since."""
    if recovery.age_s is None:
        said = [_NOTHING, f"The ledger took {unrecorded} files as they are."]
    else:
        age = timedelta(seconds=round(recovery.age_s))
        said = [f"The checkpoint is {age} old (days, hours:minutes:seconds)."]
    for text in (*said, *_lost(recovery), *_absent(name, recovery)):
        console.print(line((text, "yellow")))


def _lost(recovery: Recovery) -> list[str]:
    """A line a table; what nobody can read is said to be unknown."""
    partly = {table: count for table, count in recovery.lost.items() if table in recovery.unread}
    unknown = [table for table in recovery.unread if table not in partly]
    said = [f"lost since: {table} {count}" for table, count in sorted(recovery.lost.items()) if table not in partly]
    said += [
        f"lost since: {table} at least {count}, the rest cannot be read" for table, count in sorted(partly.items())
    ]
    if unknown:
        said.append(f"lost since: unknown for {', '.join(unknown)}, which cannot be read")
    at_least = "at least " if recovery.unread else ""
    where = f" What can be read of them is in {recovery.aside}." if recovery.aside else ""
    return [*said, f"Rows lost since: {at_least}{sum(recovery.lost.values())}.{where}"]


def _absent(name: str, recovery: Recovery) -> list[str]:
    if not recovery.absent:
        return []
    more = len(recovery.absent) - _NAMED
    names = ", ".join(recovery.absent[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return [
        f"In the checkpoint but deleted since, and not brought back: {names}.",
        f"To have them back: scrimshaw checkpoint restore {name}",
    ]
