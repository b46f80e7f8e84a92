"""The quality gate as this project has set it up, and its verdict in a file."""

from __future__ import annotations

from scrimshaw.config import Settings
from scrimshaw.ingest import contamination, front_matter
from scrimshaw.ingest.edits import edit
from scrimshaw.ingest.quality import Verdict, judge
from scrimshaw.models import Quality


def judged(settings: Settings, text: str, *, name: str = "", tool_calls: int | None = None) -> Verdict:
    """The verdict on a whole Markdown file, by the phrases of the product and those of the project."""
    phrases = (*contamination.DEFAULT, *settings.quality.phrases)
    return judge(text, name=name, tool_calls=tool_calls, phrases=phrases)


def quality_of(verdict: Verdict) -> Quality:
    """A verdict as front matter keeps it."""
    return Quality(score=verdict.score, flags=verdict.flags)


def judged_again(settings: Settings, text: str) -> str:
    """The file with its verdict brought up to date; one that holds none stays as it is. Raises UnreadableFile."""
    if "quality" not in front_matter.read(text).values:
        return text
    verdict = judged(settings, text)
    return edit(text, {"quality": {"score": verdict.score, "flags": list(verdict.flags)}})
