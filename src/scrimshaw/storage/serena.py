"""Serena's own rules for its memories: which are ignored, which are read-only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from scrimshaw.errors import ConfigError


@dataclass(frozen=True)
class SerenaRules:
    """Regular expressions over whole memory names; what is ignored may not even be read."""

    ignored: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()


def serena_rules(project: Path, home: Path | None) -> SerenaRules:
    """The rules of a project and of Serena's home folder, merged; ConfigError names a file that is broken.

    `project.local.yml` replaces what it names in `project.yml`.
    """
    own = _settings(project / ".serena/project.yml") | _settings(project / ".serena/project.local.yml")
    shared = _settings(home / "serena_config.yml") if home else {}
    return SerenaRules(
        ignored=_patterns(shared, own, "ignored_memory_patterns"),
        read_only=_patterns(shared, own, "read_only_memory_patterns"),
    )


def _settings(path: Path) -> dict[str, object]:
    try:
        loaded = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise ConfigError(f"Serena's settings in {path} cannot be read.", "Repair the file.", path=str(path)) from error
    return loaded if isinstance(loaded, dict) else {}


def _patterns(shared: dict[str, object], own: dict[str, object], key: str) -> tuple[str, ...]:
    lists = (shared.get(key), own.get(key))
    return tuple(str(pattern) for patterns in lists if isinstance(patterns, list) for pattern in patterns)
