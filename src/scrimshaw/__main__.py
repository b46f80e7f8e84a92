"""The command line as `python -m scrimshaw`."""

from scrimshaw.app.cli import run

run()
