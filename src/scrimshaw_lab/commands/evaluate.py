"""The group of commands that measure: eval."""

from __future__ import annotations

from scrimshaw_lab.commands import extract, golden, injection, quality, redact, search

app = search.app
for part in (redact, extract, injection, quality, golden):
    app.add_typer(part.app)
