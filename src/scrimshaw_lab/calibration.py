"""The page that records how the gates were measured; each measurement replaces its own section."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

PAGE = "docs/calibration.md"
_HEAD = (
    "# Calibration\n\n"
    "How well the redaction gate, the extraction rules and the quality gate do on labelled data. Written by\n"
    "`scrimshaw eval redact --record`, `eval extract --record` and `eval quality --record`, each its own section; the\n"
    "data are not part of this repository.\n"
)

Table = Mapping[str, Iterable[str]]


def write_section(project: Path, title: str, body: str) -> Path:
    """Replace the section with this title, or add it; returns the page's path."""
    page = project / PAGE
    text = page.read_text(encoding="utf-8") if page.exists() else _HEAD
    section = f"## {title}\n\n{body.strip()}\n"
    old = re.search(rf"(?ms)^## {re.escape(title)}\n.*?(?=^## |\Z)", text)
    before, after = (text[: old.start()], text[old.end() :]) if old else (text, "")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"{before.rstrip()}\n\n{section}{f'{chr(10)}{after}' if after else ''}", encoding="utf-8")
    return page


def table(head: Iterable[str], rows: Table) -> str:
    """A Markdown table; each row begins with its name."""
    names = list(head)
    lines = [names, ["---"] * len(names), *([name, *cells] for name, cells in rows.items())]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
