"""The commands for git: how memories are merged when two branches changed them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from scrimshaw.app.cli.frame import DryRun, command, command_group
from scrimshaw.app.cli.output import Lines, line
from scrimshaw.config import Settings
from scrimshaw.errors import InvalidRequest, UnreadableFile
from scrimshaw.ingest.memory_file import edit_memory_file, merge_front_matter, parse_memory_file
from scrimshaw.storage.durable import replace_file
from scrimshaw.storage.git import ask_git, merge_texts

app = typer.Typer()
git = command_group(app, "git", "How git merges memories.", "install")

ATTRIBUTES = "# Memories are merged key by key; `scrimshaw git install` tells git how.\n/memories/** merge=scrimshaw\n"
# Without the program git merges as any other text.
DRIVER = (
    "command -v scrimshaw >/dev/null 2>&1 || exec git merge-file %A %O %B; exec scrimshaw git merge %O %A %B --path %P"
)
_SETTINGS = {"merge.scrimshaw.name": "memories, key by key", "merge.scrimshaw.driver": DRIVER}


def _render_steps(done: dict[str, Any]) -> Lines:
    verb = "would be " if done["dry_run"] else ""
    yield from (line((name, "cyan"), f"  {verb}{what}") for name, what in done["steps"].items())
    yield from [] if done["steps"] else ["There is nothing to remove."]


@command(git, "install", "", "--dry-run", render=_render_steps)
def install(settings: Settings, dry_run: DryRun = False) -> dict[str, Any]:
    """Let git merge memories by their front matter's keys.

    Writes .scrimshaw/.gitattributes, to be committed, and two settings of this clone; each clone needs its own.
    """
    path = settings.folder / ".gitattributes"
    ask_git(settings.project, "rev-parse", "--git-dir")
    if path.is_file() and path.read_text(encoding="utf-8") != ATTRIBUTES:
        raise InvalidRequest(f"{path} is there and says something else.", "Add to it: /memories/** merge=scrimshaw")
    if not dry_run:
        replace_file(path, ATTRIBUTES.encode())
        for name, value in _SETTINGS.items():
            ask_git(settings.project, "config", "--local", name, value)
    return {"steps": {str(path): "written", **dict.fromkeys(_SETTINGS, "set in git's config")}, "dry_run": dry_run}


@command(git, "uninstall", "", "--dry-run", render=_render_steps)
def uninstall(settings: Settings, dry_run: DryRun = False) -> dict[str, Any]:
    """Let git merge memories like any other text again."""
    path, steps = settings.folder / ".gitattributes", dict[str, str]()
    if path.is_file() and path.read_text(encoding="utf-8") == ATTRIBUTES:
        steps[str(path)] = "removed"
        if not dry_run:
            path.unlink()
    if ask_git(settings.project, "config", "--local", "--get-regexp", r"^merge\.scrimshaw\.", answers=(0, 1)):
        steps["merge.scrimshaw"] = "removed from git's config"
        if not dry_run:
            ask_git(settings.project, "config", "--local", "--remove-section", "merge.scrimshaw")
    return {"steps": steps, "dry_run": dry_run}


@command(git, "merge", "base.md ours.md theirs.md", render=lambda _: (), fails=lambda conflicts: conflicts, hidden=True)
def merge(
    base: Annotated[Path, typer.Argument(help="The common ancestor.")],
    ours: Annotated[Path, typer.Argument(help="Our version, which is overwritten.")],
    theirs: Annotated[Path, typer.Argument(help="The other version.")],
    path: Annotated[str, typer.Option(help="The file's path in the repository.")] = "",
) -> bool:
    """Merge a memory for git; exit code 1 if both sides changed the same lines of the text."""
    raw = [file.read_bytes() for file in (base, ours, theirs)]
    try:
        before, own, other = (parse_memory_file(text, path or str(ours)).demand_readable() for text in raw)
        body, conflicts = merge_texts(*(file.body.encode() for file in (before, own, other)))
        merged = edit_memory_file(merge_front_matter(before, own, other), {}, body.decode()).raw
    except (UnreadableFile, UnicodeError):  # then the whole file is merged as text
        merged, conflicts = merge_texts(*raw)
    ours.write_bytes(merged)
    return conflicts
