"""The quality gate as this project has set it up, and its verdict in a file."""

from __future__ import annotations

from scrimshaw.config import Settings
from scrimshaw.ingest.chatter import default_phrases
from scrimshaw.ingest.memory_file import MemoryFile, edit_memory_file
from scrimshaw.ingest.quality import Verdict, judge
from scrimshaw.models import Quality


def judged(settings: Settings, file: MemoryFile, *, tool_calls: int | None = None) -> Verdict:
    """The verdict on a whole Markdown file, by the phrases of the product and those of the project."""
    phrases = (*default_phrases(), *settings.quality.phrases)
    return judge(file, tool_calls=tool_calls, phrases=phrases)


def quality_of(verdict: Verdict) -> Quality:
    """A verdict as front matter keeps it."""
    return Quality(score=verdict.score, flags=verdict.flags)


def judged_again(settings: Settings, file: MemoryFile) -> MemoryFile:
    """The file with its verdict brought up to date; one that holds none stays as it is. Raises UnreadableFile."""
    if "quality" not in file.values:
        return file
    verdict = judged(settings, file)
    return edit_memory_file(file, {"quality": {"score": verdict.score, "flags": list(verdict.flags)}})
