"""The settings for hooks, which have a few milliseconds."""

from contextlib import suppress
from pathlib import Path

from scrimshaw import config
from scrimshaw.config import Settings
from scrimshaw.toml_text import read_regular_file

# A hundred concurrent hooks write one after the other, each for some milliseconds.
BUSY_MS = 3000


def load_settings(project: Path) -> Settings:
    """The settings of `project` as from `config.load`; raises ConfigError.

    Files that set nothing, such as the one that `init` writes, are not parsed: that would take 3 ms.
    """
    home, serena_home = config.user_folders()
    lines = list[bytes]()
    try:
        for file in config.config_files(project, home):
            with suppress(FileNotFoundError):
                lines += read_regular_file(file).splitlines()
    except OSError:  # `config.load` says what is wrong
        return config.load(project)
    is_silent = config.is_environment_silent() and all(line.startswith(b"#") or not line.strip() for line in lines)
    return Settings(project=project, home=home, serena_home=serena_home) if is_silent else config.load(project)
