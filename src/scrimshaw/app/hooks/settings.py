"""The settings as a hook reads them: from a checked copy, as long as nothing they were made of has changed.

Reading and checking a configuration of 30 lines takes 4 ms, reading the copy half of one. The copy lies beside the
databases, under a name that git ignores with the index. It is not made where there is no configuration, where
the environment sets a value, where a file changed so lately that its next change could look the same, or where it
would hold a secret.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from scrimshaw import config
from scrimshaw.config import SECTIONS, Settings, SourceSettings
from scrimshaw.ingest.redact import redact
from scrimshaw.storage.private import make_private

# A hundred hooks at once write one after the other, each for some milliseconds.
BUSY_MS = 3000
COPY = "index.db.settings"
# The coarsest clock of a file system (FAT) counts in steps of two seconds.
SETTLED_S = 2.0

# Of each file there is: its size in bytes, and when its content and its state last changed, in nanoseconds.
Stamps = dict[str, list[int]]


def settings_of(project: Path, *, settled_s: float = SETTLED_S) -> Settings:
    """The settings of `project`, those that `config.load` gives; raises ConfigError as it does.

    A copy is made of files that nobody touched for `settled_s` seconds.
    """
    home, _ = config.user_folders()
    made_of = _stamps(config.config_files(project, home))
    if not made_of or not config.is_environment_silent():
        return config.load(project)
    # The module that reads them counts too: another version may read them differently.
    made_of |= _stamps([Path(config.__file__)])
    return _read(project, made_of) or _loaded(project, made_of, settled_s)


def _stamps(files: Iterable[Path]) -> Stamps:
    stamps: Stamps = {}
    for file in files:
        with suppress(FileNotFoundError):
            found = file.stat()
            stamps[str(file)] = [found.st_size, found.st_mtime_ns, found.st_ctime_ns]
    return stamps


def _read(project: Path, made_of: Stamps) -> Settings | None:
    try:
        copy = msgspec.msgpack.decode(_place(project).read_bytes())
        return _restored(copy, project) if copy["made_of"] == made_of else None
    except (OSError, msgspec.MsgspecError, KeyError, TypeError):  # no copy, or a damaged one
        return None


def _loaded(project: Path, made_of: Stamps, settled_s: float) -> Settings:
    settings = config.load(project)
    newest = max(max(changed) for _, *changed in made_of.values())
    if time.time_ns() - newest >= settled_s * 1e9 and not settings.embedding.api_key:
        # What cannot be written is read anew by the next hook. TOML has larger numbers than msgpack.
        with suppress(OSError, OverflowError, UnicodeEncodeError):
            _keep(settings, made_of)
    return settings


def _keep(settings: Settings, made_of: Stamps) -> None:
    """Write a copy, unless it would give other settings or hold a secret; whoever reads meanwhile sees it whole."""
    copy = _copied(settings, made_of)
    data = msgspec.msgpack.encode(copy)
    again = _restored(msgspec.msgpack.decode(data), settings.project)
    if again != settings or redact(msgspec.json.encode(copy).decode()).spans:
        return
    aside = settings.folder / f".scrimshaw-tmp-{os.getpid()}"
    make_private(aside)
    aside.write_bytes(data)
    aside.replace(_place(settings.project))


def _copied(settings: Settings, made_of: Stamps) -> dict[str, Any]:
    """The files that settings were made of, and what in them is not the default."""
    sections = {name: _own_values(getattr(settings, name)) for name in SECTIONS}
    return {"made_of": made_of, "sections": sections, "sources": settings.sources, "rules": settings.rules}


def _own_values(section: Struct) -> dict[str, Any]:
    default = asdict(type(section)())
    return {key: value for key, value in asdict(section).items() if value != default[key]}


def _restored(copy: dict[str, Any], project: Path) -> Settings:
    home, serena_home = config.user_folders()
    return Settings(
        project=project,
        home=home,
        serena_home=serena_home,
        sources=tuple(msgspec.convert(source, SourceSettings) for source in copy["sources"]),
        rules=tuple(copy["rules"]),
        **{name: _section(name, values) for name, values in copy["sections"].items()},
    )


def _section(name: str, values: dict[str, Any]) -> Any:
    """A section of values that were checked before they were copied."""
    return SECTIONS[name](**{key: tuple(each) if isinstance(each, list) else each for key, each in values.items()})


def _place(project: Path) -> Path:
    return project / config.PROJECT_FOLDER / COPY
