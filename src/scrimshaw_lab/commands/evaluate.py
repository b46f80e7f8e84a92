"""The group of commands that measure: eval."""

from scrimshaw_lab import (
    extraction,
    injection,
    judged_sets,
    pressure,
    projection,
    quality,
    recorded_sessions,
    redaction,
    search_quality,
    shadow,
)
from scrimshaw_lab.commands.golden import app as golden

app = search_quality.app
modules = (judged_sets, projection, redaction, extraction, injection, quality, recorded_sessions, shadow, pressure)
for part in (*(module.app for module in modules), golden):
    app.add_typer(part)
