"""The group of commands that measure: eval."""

from scrimshaw_lab import extraction, injection, projection, quality, recorded_sessions, redaction, search_quality
from scrimshaw_lab.commands.golden import app as golden

app = search_quality.app
for part in (projection.app, redaction.app, extraction.app, injection.app, quality.app, recorded_sessions.app, golden):
    app.add_typer(part)
