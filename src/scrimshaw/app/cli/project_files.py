"""The files of a new project folder: vault, configuration, and what git should not see."""

import json
import os

from scrimshaw.config import CONFIG_FILE, Settings, all_keys
from scrimshaw.engine.core import MEMORIES, explain_missing
from scrimshaw.errors import ConfigError
from scrimshaw.ingest.tables import load_table
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.git import is_left_out

_TEXTS = load_table(__file__, "project_files", dict[str, str])
GITIGNORE = _TEXTS["gitignore"]
HIDDEN = ("index.db", "journal.db", "vault.lock", "hook.log", "drafts/x.md", "checkpoints/x.scrim")


def create(settings: Settings) -> tuple[list[str], list[str]]:
    """Create what is missing in a project's Scrimshaw folder: (names created, names that existed)."""
    folder = settings.folder
    if os.path.realpath(folder) == os.path.realpath(settings.home):
        raise ConfigError(f"{folder} is your own vault, which every project reads.", "Run init in a project's folder.")
    vault = folder / MEMORIES
    if not (folder / CONFIG_FILE).exists() and is_left_out(folder):
        raise explain_missing(settings)
    made, kept = ([f"{MEMORIES}/"], []) if not vault.is_dir() else ([], [f"{MEMORIES}/"])
    with storage_errors("make", folder):
        vault.mkdir(parents=True, exist_ok=True)
        for name, text in ((CONFIG_FILE, render_config()), (".gitignore", GITIGNORE)):
            if is_new := not os.path.lexists(folder / name):
                (folder / name).write_text(text, encoding="utf-8", newline="\n")
            (made if is_new else kept).append(name)
    return made, kept


def render_config() -> str:
    """A configuration without effect: each key with its default, meaning and range, commented out."""
    parts = [_TEXTS["head"]]
    for section in ("search", "context", "embedding", "index", "features"):
        parts.append(f"\n# [{section}]\n")
        # Strings, numbers, lists and booleans look the same in TOML and JSON.
        keys = [info for info in all_keys() if info.section == section]
        parts += (f"# {x.key} = {json.dumps(x.default)}  # {x.description} ({x.allowed})\n" for x in keys)
    return "".join([*parts, _TEXTS["sources"]])
