"""The settings for hooks, which have a few milliseconds."""

from pathlib import Path

from scrimshaw import config
from scrimshaw.config import Settings
from scrimshaw.storage.durable import read_if_there, storage_errors

# A hundred concurrent hooks write one after the other, each for some milliseconds.
BUSY_MS = 3000


def load_settings(project: Path) -> Settings:
    """The settings of `project` as from `config.load`; raises ConfigError and StorageFailure.

    Files that set nothing, such as the one that `init` writes, are not parsed: that would take 3 ms.
    """
    home, serena_home = config.user_folders()
    lines = list[bytes]()
    for file in config.config_files(project, home):
        with storage_errors("read", file):
            lines += (read_if_there(file) or b"").splitlines()
    is_silent = config.is_environment_silent() and all(line.startswith(b"#") or not line.strip() for line in lines)
    return Settings(project=project, home=home, serena_home=serena_home) if is_silent else config.load(project)
