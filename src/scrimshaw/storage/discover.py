"""What a project already holds that is worth searching."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from scrimshaw.models import ArtifactClass, Trust
from scrimshaw.storage.scan import Source
from scrimshaw.storage.serena import serena_rules

SPEC_FOLDERS = ("specs", ".specify", ".opencode/specs")
ADR_FOLDERS = (
    "docs/adr",
    "docs/adrs",
    "docs/decisions",
    "docs/architecture/decisions",
    "doc/adr",
    "doc/architecture/decisions",
    "adr",
)
DOC_FOLDERS = ("docs",)
SERENA_MEMORIES = ".serena/memories"
NOT_DOCUMENTS = (".specify/templates/**", ".specify/scripts/**")


def discover(project: Path, serena_home: Path | None = None) -> list[Source]:
    """The sources a project's folders suggest, all read-only; ids are paths under the project.

    Serena's memories keep their bare names, and its global ones (`serena_home`, usually `~/.serena`) come with
    them. ConfigError if Serena's settings are broken.
    """
    found = _existing(project, SPEC_FOLDERS + ADR_FOLDERS + DOC_FOLDERS)
    specs, adrs, docs = (
        [folder for folder in folders if folder in found] for folders in (SPEC_FOLDERS, ADR_FOLDERS, DOC_FOLDERS)
    )
    taken = tuple(f"{folder}/**" for folder in specs + adrs)
    sources = (
        Source(name="specs", root=project, include=_below(specs), exclude=NOT_DOCUMENTS),
        Source(name="adr", root=project, include=_below(adrs)),
        Source(name="docs", root=project, include=_below(docs), exclude=taken),
    )
    return _serena(project, serena_home) + [source for source in sources if source.include]


def _existing(project: Path, folders: tuple[str, ...]) -> set[str]:
    """The folders that exist; of several names for one folder the one that is no link."""
    existing = [folder for folder in folders if (project / folder).is_dir()]
    existing.sort(key=lambda folder: not (project / folder).is_symlink())
    return set({os.path.realpath(project / folder): folder for folder in existing}.values())


def _below(folders: list[str]) -> tuple[str, ...]:
    return tuple(f"{folder}/**/*.md" for folder in folders)


def _serena(project: Path, home: Path | None) -> list[Source]:
    if not (project / SERENA_MEMORIES).is_dir():
        return []
    rules = serena_rules(project, home)
    own = Source(
        name="serena",
        root=project / SERENA_MEMORIES,
        artifact=ArtifactClass.MEMORY,
        ignored=rules.ignored,
        read_only=rules.read_only,
        trust=Trust.AGENT,  # Serena's tools let agents write them
    )
    if home is None or not (home / "memories/global").is_dir():
        return [own]
    return [own, replace(own, name="serena-global", root=home / "memories", include=("global/**/*.md",))]
