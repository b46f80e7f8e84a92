"""The settings for hooks: read from a validated copy as long as none of its sources has changed.

Reading and checking a configuration of 30 lines takes 4 ms, reading the copy half of one. The copy is next to the
databases, under a name that git ignores with the index. None is made if there is no configuration, if the
environment sets a value, if a file changed so recently that its next change could look the same, or if it would
contain a secret.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from scrimshaw import config
from scrimshaw.config import SECTIONS, Settings, SourceSettings
from scrimshaw.ingest.redact import redact
from scrimshaw.storage.durable import make_private

# A hundred concurrent hooks write one after the other, each for some milliseconds.
BUSY_MS = 3000
COPY = "index.db.settings"
LEAST_AGE_S = 2.0  # the coarsest file system clock (FAT) has steps of two seconds

# By file: its size in bytes, and when its content and its state last changed, in nanoseconds.
Stamps = dict[str, list[int]]


def load_settings(project: Path, *, least_age_s: float = LEAST_AGE_S) -> Settings:
    """The settings of `project` as from `config.load`, except peers, which hooks do not ask; raises ConfigError too.

    A copy is only made of files unchanged for `least_age_s` seconds.
    """
    home, serena_home = config.user_folders()
    stamps: Stamps = {}
    # The module that reads them counts too: another version may read them differently.
    for file in (*config.config_files(project, home), Path(config.__file__)):
        with suppress(FileNotFoundError):
            found = file.stat()
            stamps[str(file)] = [found.st_size, found.st_mtime_ns, found.st_ctime_ns]
    if not config.is_environment_silent():
        return config.load(project)
    defaults = Settings(project=project, home=home, serena_home=serena_home)
    if len(stamps) == 1:
        return defaults
    # There may be no copy, or a damaged one.
    with suppress(OSError, msgspec.MsgspecError, KeyError, TypeError):
        copy = msgspec.msgpack.decode((project / config.PROJECT_FOLDER / COPY).read_bytes())
        if copy["made_of"] == stamps:
            return _restore(copy, defaults)
    settings = replace(config.load(project), peers=())
    newest = max(max(changed) for _, *changed in stamps.values())
    if time.time_ns() - newest >= least_age_s * 1e9 and not settings.embedding.api_key:
        # Without a copy the next hook reads the files again. TOML allows larger numbers than msgpack.
        with suppress(OSError, OverflowError, UnicodeEncodeError):
            _write_copy(settings, stamps, defaults)
    return settings


def _write_copy(settings: Settings, stamps: Stamps, defaults: Settings) -> None:
    """Write a copy atomically, unless it would give other settings or contain a secret."""
    sections = {name: asdict(getattr(settings, name)) for name in SECTIONS}
    copy = {"made_of": stamps, "sections": sections, "sources": settings.sources, "rules": settings.rules}
    data = msgspec.msgpack.encode(copy)
    is_whole = _restore(msgspec.msgpack.decode(data), defaults) == settings
    if is_whole and not redact(msgspec.json.encode(copy).decode()).spans:
        aside = settings.folder / f".scrimshaw-tmp-{os.getpid()}"
        make_private(aside)
        aside.write_bytes(data)
        aside.replace(settings.folder / COPY)


def _restore(copy: dict[str, Any], defaults: Settings) -> Settings:
    """The settings of a copy, whose values were checked before they were copied."""
    sections: dict[str, Any] = {
        name: SECTIONS[name](**{key: tuple(each) if isinstance(each, list) else each for key, each in values.items()})
        for name, values in copy["sections"].items()
    }
    sources = tuple(msgspec.convert(source, SourceSettings) for source in copy["sources"])
    return replace(defaults, sources=sources, rules=tuple(copy["rules"]), **sections)
