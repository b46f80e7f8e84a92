"""Draws the pictures of the documentation: one of the concepts, and terminals with real answers, light and dark.

    python -m docs.pictures

The terminals show what the commands print in a scratch project, so they change with the product and the date.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, DIMMED_MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
COLUMNS = 92
THEMES = {"light": DEFAULT_TERMINAL_THEME, "dark": DIMMED_MONOKAI}
MEMORIES = {
    "count-in-decimal": (
        "Count in Decimal",
        "We count money in Decimal and not in float, because a float lost a cent on invoice 2044.",
    ),
    "retry-with-a-key": (
        "Retry with a key",
        "A payment is sent again with the same idempotency key, since the bank answered twice in March.",
    ),
    "tides": ("Tides", "The harbour falls dry at spring tide, so the survey waits for the neap."),
}
PICTURES = {
    "search": ["scrimshaw search why not float", "scrimshaw search best pizza in town"],
    "doctor": ["scrimshaw scan", "scrimshaw doctor"],
}

# Of the drawing of the concepts: name, left, top, width, lines.
_BOXES = (
    ("files", 20, 40, 190, ("your repository", ".scrimshaw/memories/*.md", "docs, ADRs, specs")),
    ("index", 300, 40, 190, ("index", "words, vectors,", "phrases, relations")),
    ("agent", 580, 40, 190, ("your agent", "asks over MCP, is told", "at start and at prompts")),
    ("journal", 580, 200, 190, ("journal", "events, working memory,", "ledger; redacted first")),
    ("draft", 300, 200, 190, ("draft", "decided, done, open, next;", "judged by the quality gate")),
)
_ARROWS = (
    (210, 80, 300, 80, "read"),
    (490, 80, 580, 80, "what answers"),
    (675, 130, 675, 200, "hooks"),
    (580, 240, 490, 240, "session ends"),
    (300, 240, 115, 130, "becomes a file"),
)
_STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1f2328}.s{font-size:12px;fill:#59636e}"
    "rect{fill:#f6f8fa;stroke:#8b949e;rx:8}path{stroke:#59636e;fill:none}#a path{fill:#59636e}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9198a1}rect{fill:#161b22;stroke:#6e7681}"
    "path{stroke:#9198a1}#a path{fill:#9198a1}}"
)


def draw_concepts() -> str:
    """The way from files to the agent and back, as SVG that follows the reader's light or dark."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 790 300" role="img" aria-label="Files are indexed; the'
        " agent asks the index over MCP; its hooks feed the journal; a session's end makes a draft, which becomes a"
        f' file."><style>{_STYLE}</style><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="4"'
        ' orient="auto"><path d="M0 0L8 4L0 8z"/></marker>'
    ]
    for _, left, top, width, lines in _BOXES:
        parts.append(f'<rect x="{left}" y="{top}" width="{width}" height="90"/>')
        for number, text in enumerate(lines):
            kind = ' class="s"' if number else ' font-weight="600"'
            parts.append(f'<text x="{left + 14}" y="{top + 30 + 22 * number}"{kind}>{text}</text>')
    for x1, y1, x2, y2, label in _ARROWS:
        parts.append(f'<path d="M{x1} {y1}L{x2} {y2}" marker-end="url(#a)"/>')
        x, y, anchor = (x1 + x2) // 2, (y1 + y2) // 2 - 8, "middle"
        if y1 != y2:  # beside a line that does not lie
            x, y, anchor = x + 8, y + 2, "start"
        parts.append(f'<text class="s" x="{x}" y="{y}" text-anchor="{anchor}">{label}</text>')
    return "".join([*parts, "</svg>\n"])


def record_terminal(commands: Sequence[str]) -> Text:
    """The commands and what they answer in a project of three memories, with their colours."""
    with TemporaryDirectory(prefix="scrimshaw-") as folder:
        project = Path(folder) / "harbour"
        project.mkdir()
        programs = str(Path(sys.executable).parent)
        path = os.pathsep.join((programs, os.environ["PATH"]))
        keep = {"PATH": path, "HOME": folder, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}

        def run(command: str) -> str:
            done = subprocess.run(
                ["bash", "-c", command], cwd=project, env=keep, capture_output=True, text=True, check=False
            )
            return done.stdout

        run("git init --quiet && scrimshaw init")
        for name, (title, text) in MEMORIES.items():
            run(f"scrimshaw save '# {title}\n\n{text}' --id {name} --yes")
        shown = Text()
        for command in commands:
            shown.append("$ ", "dim").append(f"{command}\n", "bold")
            shown.append_text(
                Text.from_ansi(run(command).replace(programs, "~/.local/bin").replace(folder, "~").rstrip())
            ).append("\n\n")
        return shown


def draw_terminal(shown: Text, title: str, theme: str) -> str:
    """A terminal as SVG without anything that a browser would have to fetch."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - the console's own output goes nowhere
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(shown, end="")
        drawn = console.export_svg(title=title, theme=THEMES[theme], unique_id=f"{title}-{theme}")
    return re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)


def main() -> None:
    """Write all pictures beside the pages."""
    (HERE / "concepts.svg").write_text(draw_concepts(), encoding="utf-8")
    for name, commands in PICTURES.items():
        shown = record_terminal(commands)
        for theme in THEMES:
            (HERE / f"{name}-{theme}.svg").write_text(draw_terminal(shown, name, theme), encoding="utf-8")


if __name__ == "__main__":
    main()
