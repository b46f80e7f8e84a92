"""The settings as a hook reads them: from a checked copy, as long as nothing they were made of has changed.

Reading and checking a configuration of 30 lines takes 4 ms, reading the copy half of one. The copy lies beside the
databases, under a name that git ignores with the index. None is made where there is no configuration, where the
environment sets a value, where a file changed so lately that its next change could look the same, or where it would
hold a secret.
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

# A hundred hooks at once write one after the other, each for some milliseconds.
BUSY_MS = 3000
COPY = "index.db.settings"
LEAST_AGE_S = 2.0  # the coarsest clock of a file system (FAT) counts in steps of two seconds

# By file: its size in bytes, and when its content and its state last changed, in nanoseconds.
Stamps = dict[str, list[int]]


def load_settings(project: Path, *, least_age_s: float = LEAST_AGE_S) -> Settings:
    """The settings of `project` that `config.load` gives, but for peers, which no hook asks; raises ConfigError too.

    A copy is made of files that nobody touched for `least_age_s` seconds.
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
        # What cannot be written is read again by the next hook. TOML has larger numbers than msgpack.
        with suppress(OSError, OverflowError, UnicodeEncodeError):
            _write_copy(settings, stamps, defaults)
    return settings


def _write_copy(settings: Settings, stamps: Stamps, defaults: Settings) -> None:
    """Write a copy, unless it would give other settings or hold a secret; whoever reads meanwhile sees it whole."""
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
