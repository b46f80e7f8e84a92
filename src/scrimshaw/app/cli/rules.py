"""The commands on extraction rules: rules list, rules test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import settings_of
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import line, show
from scrimshaw.app.hooks.capture import observation, redacted_call, removed_classes
from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.app.hooks.parse import CLIENTS, parse
from scrimshaw.app.rules import check_rules
from scrimshaw.errors import InvalidRequest, said
from scrimshaw.ingest.extract import winner
from scrimshaw.ingest.rules import Rule
from scrimshaw.ingest.tool_calls import describe
from scrimshaw.models import NewItem

app = typer.Typer(help="What is kept of tool calls.", no_args_is_help=True)


class Listed(Struct, frozen=True, kw_only=True):
    """A rule in the order of trial; `own` when it stands in the configuration."""

    own: bool
    rule: Rule


class Explanation(Struct, frozen=True, kw_only=True):
    """What becomes of an event.

    `activity` and `subject` are what rules are matched with, `rule` the one that matched and None where none did,
    `reason` a sentence on what follows; `text` is what is kept of the event, `item` what enters working memory.
    """

    event: str
    tool: str = ""
    activity: str = ""
    subject: str = ""
    rule: Rule | None = None
    reason: str
    redacted: tuple[str, ...] = ()
    text: str = ""
    item: NewItem | None = None


@app.callback(epilog=example("scrimshaw rules list"))
def group() -> None:
    """What is kept of tool calls."""


@app.command("list", epilog=example("scrimshaw rules list"))
def list_rules(project: options.Project = None, as_json: options.AsJson = False) -> None:
    """All extraction rules in the order they are tried, your own among them."""
    settings = settings_of(project)
    own = {table.get("id") for table in settings.rules}
    listed = [Listed(own=rule.id in own, rule=rule) for rule in check_rules(settings)[0]]
    show(listed, as_json, _list)


@app.command("test", epilog=example("scrimshaw rules test event.json --client claude"))
def try_rules(
    event: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A hook payload as the client sends it.")],
    client: Annotated[str, typer.Option(help=f"Whose payload it is: {', '.join(CLIENTS)}.")] = "claude",
    name: Annotated[str, typer.Option("--event", help="The event, where the payload does not say it.")] = "",
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Which rule matches a client's event, and what would be stored of it; nothing is."""
    if client not in CLIENTS:
        raise typer.BadParameter(f"{client!r} is no client; there are {', '.join(CLIENTS)}.")
    settings = settings_of(project)
    found = parse(client, _payload(event), name)
    if found is None:
        show(Explanation(event="", reason="Nothing is stored: the event is not used."), as_json, _explain)
        return
    rules, _ = check_rules(settings)
    show(explained(found, rules, settings.features.extraction), as_json, _explain)


def explained(event: Event, rules: tuple[Rule, ...], extraction: bool) -> Explanation:
    """What `rules` make of an event that a hook reports."""
    kept = observation(event, rules, process=0, extraction=extraction)
    told = Explanation(
        event=event.name,
        reason="Kept as an event.",
        redacted=removed_classes(kept),
        text=kept.text.text,
        item=kept.item,
    )
    if event.name != EventName.TOOL:
        return told
    call = redacted_call(event)
    activity, rule = describe(call), winner(call, rules)
    return msgspec.structs.replace(
        told,
        tool=event.tool_name,
        activity=activity.name,
        subject=activity.subject,
        rule=rule,
        reason=_reason(rule, kept.item, extraction),
    )


def _reason(rule: Rule | None, item: NewItem | None, extraction: bool) -> str:
    if not extraction:
        return "Kept as an event; extraction is switched off."
    if rule is None:
        return "Kept as an event; no rule matches, so nothing enters working memory."
    if not rule.attention:
        return f"Kept as an event; rule {rule.id!r} says to leave such calls alone."
    if item is None:
        return f"Kept as an event; rule {rule.id!r} matches, but nothing of the call is left to remember."
    return f"Rule {rule.id!r} matches: the item enters working memory with attention {item.attention:g}."


def _payload(path: Path) -> dict[str, object]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidRequest(f"{path} is no hook payload: {said(error)}.", "Give one JSON object.") from error


def _list(console: Console, listed: list[Listed]) -> None:
    for entry in listed:
        rule = entry.rule
        patterns = {"tool": rule.tool, "argument": rule.argument, "content": rule.content}
        console.print(line((rule.id, "cyan"), f"  {rule.kind}, attention {rule.attention:g}", _mark(entry)))
        for name, pattern in patterns.items():
            if pattern:
                console.print(line((f"    {name:<9}", "dim"), pattern))


def _mark(entry: Listed) -> str:
    return f", priority {entry.rule.priority}{', your own' if entry.own else ''}"


def _explain(console: Console, told: Explanation) -> None:
    console.print(line((told.reason, "bold")))
    shown = {"event": told.event, "tool": told.tool, "activity": told.activity, "subject": told.subject}
    shown |= {"redacted": ", ".join(told.redacted), "text": told.text, "item": told.item.text.text if told.item else ""}
    for name, value in shown.items():
        if value:
            console.print(line((f"{name:<10}", "dim"), value))
