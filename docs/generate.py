"""Writes the reference pages from the code, or with --check fails when a page differs from it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from docs.tool_listing import find_rare, input_schema, list_prompts, list_tools, output_schema

from scrimshaw import config
from scrimshaw.app.checks import ALL_CHECKS
from scrimshaw.app.cli.main import COMMAND
from scrimshaw.app.mcp.backend import PROMPTS
from scrimshaw.app.mcp.schema import LISTING, TOOLSETS, ToolSpec
from scrimshaw.app.mcp.tools import ALL_TOOLS

HERE = Path(__file__).parent


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; the first row is its head."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def tools_page() -> str:
    """Every tool by toolset: what it does, what it takes, what it answers."""
    lines = ["# Tools", "", "Made from the code by `make docs`. `scrimshaw serve --toolsets core,discovery` or `all`."]
    for toolset in TOOLSETS:
        chosen = [spec for spec in ALL_TOOLS if spec.toolset == toolset]
        size = sum(len(msgspec.json.encode([input_schema(spec.call), output_schema(spec.reply)])) for spec in chosen)
        lines += ["", f"## Toolset `{toolset}`", "", f"{len(chosen)} tools, {size:,} bytes of schema."]
        for spec in chosen:
            lines += _tool(spec)
    return "\n".join(lines) + "\n"


def config_page() -> str:
    """Every configuration key."""
    lines = [
        "# Configuration",
        "",
        "Made from the code by `make docs`. Keys go into `.scrimshaw/config.toml` (the project's) or",
        "`~/.scrimshaw/config.toml` (yours); the environment wins over both. A value that is not allowed stops the",
        "start and is named with its file, key and range. A key that is not known, such as one of another version, has",
        "no effect; commands and `scrimshaw doctor` name it, and `scrimshaw config edit` opens the file.",
    ]
    section = ""
    for info in config.all_keys():
        if info.section != section:
            section = info.section
            lines += ["", f"## [{section}]", "", "| key | default | allowed | unit | meaning | environment |"]
            lines += ["|---|---|---|---|---|---|"]
        cells = (info.key, _shown(info.default), info.allowed, info.unit, info.description)
        lines.append("| " + " | ".join((*cells, ", ".join(info.environment))) + " |")
    return "\n".join(lines) + "\n"


def capabilities_page() -> str:
    """Every part that is measured, and what is lost without it."""
    rows = [(f"`{probe.name}`", probe.measures, probe.lost, probe.instead, probe.when_off) for probe in ALL_CHECKS]
    lines = [
        "# Capabilities",
        "",
        "Made from the code by `make docs`. `scrimshaw capabilities` and `memory_health` measure each part when asked,",
        "by using it, and keep what changed: `on -> off since 2026-11-20`. A part is on, degraded or off.",
        "",
        *table([("part", "measured by", "lost when off", "instead", "health is then"), *rows]),
    ]
    return "\n".join(lines) + "\n"


class CommandEntry(NamedTuple):
    """A command as its help has it: its name with that of its group, and the options that others lack."""

    name: str
    help: str
    usage: str
    options: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]


def list_commands(group: Any = COMMAND, prefix: str = "scrimshaw") -> Iterator[CommandEntry]:
    """All commands but hidden ones, in the order of the help, those of a group behind its name."""
    for name in group.list_commands(None):
        command, whole = group.get_command(None, name), f"{prefix} {name}"
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from list_commands(command, whole)
            continue
        arguments = [each for each in command.params if not each.opts[0].startswith("-")]
        options = [each for each in command.params if each.opts[0].startswith("-") and each.name not in _COMMON]
        named = [
            (", ".join((*each.opts, *each.secondary_opts)), each.help or "") for each in options if not each.hidden
        ]
        shown = [each.metavar or str(each.name).upper() for each in arguments]
        usage = " ".join(
            [whole, *(each if one.required else f"[{each}]" for one, each in zip(arguments, shown, strict=True))]
        )
        text = " ".join((command.help or "").split())
        examples = (command.epilog or "").removeprefix("Example: ").split("   or: ")
        yield CommandEntry(whole, text, usage, tuple(named), tuple(filter(None, examples)))


def cli_page() -> str:
    """Every command with its options."""
    lines = [
        "# Command line",
        "",
        "Made from the code by `make docs`. Every command has `--help` and `--project DIR`; nearly every one `--json`.",
    ]
    for each in list_commands():
        lines += ["", f"## {each.name.removeprefix('scrimshaw ')}", "", each.help, "", f"`{each.usage}`"]
        lines += ["", *(f"- `{names}`: {text}" for names, text in each.options)] if each.options else []
        lines += ["", *(f"    {example}" for example in each.examples)] if each.examples else []
    return "\n".join(lines) + "\n"


def man_page() -> str:
    """The same as a manual page, which the wheel installs."""

    def clean(text: str) -> str:
        escaped = text.replace("\\", "\\e").replace("-", "\\-")
        return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped

    lines = ['.TH SCRIMSHAW 1 "" "" "Scrimshaw"', ".SH NAME", "scrimshaw \\- memory for coding agents", ".SH SYNOPSIS"]
    lines += [".B scrimshaw", ".I command", "[options]", ".SH DESCRIPTION"]
    lines += ["Markdown files in your git repository are the memory, and an index finds them.", ".SH COMMANDS"]
    for each in list_commands():
        lines += [f".SS {clean(each.usage)}", clean(each.help)]
        for names, text in each.options:
            lines += [".TP", f".B {clean(names)}", clean(text)]
        lines += [line for example in each.examples for line in (".PP", ".EX", clean(example), ".EE")]
    lines += [".SH FILES", ".TP", ".I .scrimshaw/memories", "The memories of a project.", ".TP"]
    lines += [".I ~/.scrimshaw", "Your own memories and settings.", ".SH EXIT STATUS"]
    lines += [
        "0 for success, 1 where the answer is no, 2 for a usage or a setting that is wrong, 3 for what is outside."
    ]
    return "\n".join(lines) + "\n"


_COMMON = frozenset({"project", "as_json", "help"})  # options of every command


def tools_listing() -> str:
    """What a server tells of tools and prompts before they are loaded, by toolset."""
    listing: dict[str, list[Any]] = {"prompts": list(map(_dump, list_prompts([*PROMPTS.values()])))}
    for name in TOOLSETS:
        chosen = [spec for spec in ALL_TOOLS if spec.toolset == name]
        rare = ({"rare": rare} if (rare := find_rare(spec.call)) else {} for spec in chosen)
        listing[name] = [_dump(tool) | more for tool, more in zip(list_tools(chosen), rare, strict=True)]
    return msgspec.json.format(msgspec.json.encode(listing), indent=1).decode() + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "tools.md": tools_page,
    "config.md": config_page,
    "capabilities.md": capabilities_page,
    "cli.md": cli_page,
    "scrimshaw.1": man_page,
    os.path.relpath(LISTING, HERE): tools_listing,
}


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when a page is out of date")
    check = parser.parse_args().check
    stale = [name for name, make in PAGES.items() if _current(name) != make()]
    if check and stale:
        sys.stderr.write(f"Out of date: {', '.join(stale)}. Run `make docs` and commit.\n")
        return 1
    for name in stale:
        (HERE / name).write_text(PAGES[name](), encoding="utf-8")
    return 0


def _dump(listed: Any) -> dict[str, Any]:
    found: dict[str, Any] = listed.model_dump(by_alias=True, exclude_none=True)
    return found


def _tool(spec: ToolSpec) -> Iterable[str]:
    yield from (
        "",
        f"### {spec.name}",
        "",
        spec.description,
        "",
        "| parameter | takes | default | |",
        "|---|---|---|---|",
    )
    schema = input_schema(spec.call)
    required = schema.get("required", [])
    for name, kind in schema["properties"].items():
        default = "required" if name in required else _shown(kind.get("default", ""))
        yield f"| {name} | {_takes(kind)} | {default} | {kind.get('description', '')} |"
    yield from ("", "Answers: " + ", ".join(f"`{name}`" for name in output_schema(spec.reply)["properties"]) + ".")


def _takes(kind: Mapping[str, Any]) -> str:
    if "enum" in kind:
        return ", ".join(map(str, kind["enum"]))
    bounds = [f"{word} {kind[key]}" for key, word in _BOUNDS.items() if key in kind]
    return " ".join([str(kind.get("type", "any")), *bounds])


_BOUNDS = {"minimum": "from", "maximum": "to", "minLength": "at least", "maxLength": "at most"}


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode() if value != "" else ""


def _current(name: str) -> str:
    page = HERE / name
    return page.read_text(encoding="utf-8") if page.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
