"""What `make demo` shows: real memories indexed, three questions answered, and why each answer stands where it does."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from scrimshaw.config import load
from scrimshaw.engine import Engine, index, open_engine, read
from scrimshaw.search.results import Hit, SearchRequest

HERE = Path(__file__).parent
PROJECT = HERE.parent / ".demo"

QUESTIONS = (
    "How do I stop myself from claiming work is finished before anything has really been tested?",
    "after rewording a code comment the test run dies with DID-NOT-APPLY",
    "What must an unattended agent check before it merges overnight?",
)


def main() -> None:
    """Copy the examples into a fresh project, index them, ask."""
    console = Console()
    shutil.rmtree(PROJECT, ignore_errors=True)
    memories = PROJECT / ".scrimshaw" / "memories"
    shutil.copytree(HERE / "memories", memories, ignore=shutil.ignore_patterns("LICENSE.txt"))
    with open_engine(load(PROJECT, home=PROJECT / "home")) as engine:
        _index(engine, console)
        for question in QUESTIONS:
            _ask(engine, console, question)
    console.print("\nThe memories are Markdown files you can read, edit and commit:", style="bold")
    console.print(f"  {memories}")
    console.print("\nGive them to an agent, for example in .mcp.json:", style="bold")
    command = str(Path(sys.executable).with_name("scrimshaw"))
    console.print_json(data={"mcpServers": {"scrimshaw": {"command": command, "args": ["serve"]}}})


def _index(engine: Engine, console: Console) -> None:
    with Progress(console=console, transient=True) as bars:
        reading_bar, vector_bar = bars.add_task("Reading files"), bars.add_task("Embedding")
        report = index.scan(engine, progress=lambda done, all_: bars.update(reading_bar, completed=done, total=all_))

        def embedded(done: int, all_: int) -> bool:
            bars.update(vector_bar, completed=done, total=all_)
            return True

        index.embed_pending(engine, embedded)
    done, _ = index.vectors_ready(engine)
    console.print(f"[bold]Indexed {report.added} memories[/] in {done} pieces, {len(report.skipped)} files skipped.")


def _ask(engine: Engine, console: Console, question: str) -> None:
    result = read.search(engine, SearchRequest(query=question, limit=3))
    stages = ", ".join(f"{stage.stage} {stage.ms:.1f} ms" for stage in result.trace if stage.ms >= 0.1)
    console.print(f"\n[bold cyan]? {question}[/]")
    console.print(f"  [dim]taken for {result.intent}; {stages}[/]")
    for number, hit in enumerate(result.hits, start=1):
        console.print(f"  [bold]{number}. {hit.memory.title}[/]  [green]{hit.score:.3f}[/]  [dim]{hit.memory.id}[/]")
        console.print(f"     [dim]why: {_why(hit)}[/]")
        console.print(f"     {' '.join(hit.text.split())[:160]}", highlight=False, markup=False)


def _why(hit: Hit) -> str:
    why = hit.explanation
    ranks = [f"{channel} rank {rank} (score {why.raw[channel]:.2f})" for channel, rank in why.ranks.items()]
    factors = [f"{name} x{factor:g}" for name, factor in why.factors.items()]
    return ", ".join(ranks + factors)


if __name__ == "__main__":
    main()
