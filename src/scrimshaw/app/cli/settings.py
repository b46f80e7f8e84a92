"""The commands about the configuration: config get, set, edit."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import tomlkit
import typer
from tomlkit.exceptions import ParseError

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import command, command_group, settings_of, settings_of_memory
from scrimshaw.app.cli.output import Lines, line
from scrimshaw.config import Settings, all_keys, config_files, load
from scrimshaw.errors import ConfigError, InvalidRequest, find_nearest
from scrimshaw.storage.durable import replace_file

app = typer.Typer()
config = command_group(app, "config", "Show and change the configuration.", "get search.limit")

User = Annotated[bool, typer.Option("--user", help="Use your own file, for all projects.")]


def _render_values(values: dict[str, Any]) -> Lines:
    yield from (line((name, "cyan"), f" = {msgspec.json.encode(value).decode()}") for name, value in values.items())


@command(config, "get", "", "search.limit", render=_render_values)
def get_values(
    settings: Settings,
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="Section and key; default: all.")] = "",
) -> dict[str, Any]:
    """Show the settings in effect, from all files, the environment and the defaults."""
    return {name: _read_value(settings, name) for name in _find_keys(key)}


@command(config, "set", "search.limit 10", render=_render_values)
def set_value(
    settings: Settings,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Section and key, such as search.limit.")],
    value: Annotated[str, typer.Argument(help="As TOML: 10, true, 'a text', [1, 2]; or a bare word.")],
    user: User = False,
) -> dict[str, Any]:
    """Set one key in a file, keeping its comments and order."""
    section, _, name = key.partition(".")
    _find_keys(key)
    path = config_files(settings.project, settings.home)[not user]
    before = path.read_bytes() if path.is_file() else None
    table = tomlkit.parse((before or b"").decode("utf-8-sig"))
    try:
        parsed = tomlkit.value(value)
    except (ParseError, ValueError):
        parsed = tomlkit.item(value)
    if section not in table:
        table[section] = tomlkit.table()
    table[section][name] = parsed
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, tomlkit.dumps(table).encode())
    try:
        return {key: _read_value(load(settings.project), key)}
    except ConfigError as error:
        if before is None:
            path.unlink()
        else:
            replace_file(path, before)
        fault = error.message.partition("\n")[2].replace(f"{path}: ", "").strip()
        raise ConfigError(f"Nothing was changed: {fault}.", "`scrimshaw config get` lists all.") from error


@command(config, "edit", "", render=lambda path: [str(path)])
def edit_file(project: Path | None, user: User = False) -> Path:
    """Open the configuration in your $EDITOR, and check it afterwards."""
    path = config_files(frame.find_folder(project))[not user]
    if not path.exists():  # one that exists may be what keeps the settings from being read
        settings_of_memory(project)
    frame.run_editor(path)
    settings_of(project)
    return path


def _read_value(settings: Settings, key: str) -> Any:
    section, _, name = key.partition(".")
    return msgspec.to_builtins(getattr(settings, section))[name]


def _find_keys(key: str) -> list[str]:
    """The key itself, or all keys if it is empty; raises InvalidRequest for an unknown one."""
    known = [f"{each.section}.{each.key}" for each in all_keys()]
    if key and key not in known:
        hint = find_nearest(key, known) or "`scrimshaw config get` lists all."
        raise InvalidRequest(f"There is no key {key!r}.", hint)
    return [key] if key else known
