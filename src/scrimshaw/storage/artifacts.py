"""What a document is for, told by its path alone."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from scrimshaw.models import ArtifactClass

_BY_NAME = {
    "spec": ArtifactClass.SPEC,
    "plan": ArtifactClass.PLAN,
    "tasks": ArtifactClass.TASKS,
    "checklist": ArtifactClass.CHECKLIST,
    "decision-record": ArtifactClass.DECISION_RECORD,
    "implementation-summary": ArtifactClass.IMPLEMENTATION_SUMMARY,
    "research": ArtifactClass.RESEARCH,
}
_BY_FOLDER = {
    "adr": ArtifactClass.DECISION_RECORD,
    "adrs": ArtifactClass.DECISION_RECORD,
    "decisions": ArtifactClass.DECISION_RECORD,
    "checklists": ArtifactClass.CHECKLIST,
    "research": ArtifactClass.RESEARCH,
}
_MEMORY_FOLDERS = frozenset({"memory", "memories"})
_GUIDES = frozenset({"readme", "index", "template", "adr-template"})
_NUMBERED_ADR = re.compile(r"adr[-_ ]?\d+([-_ .].*)?")


def artifact_class(path: PurePosixPath) -> ArtifactClass:
    """The class of a document: memory folder, then file name, then the innermost folder that tells."""
    folders = [part.lower() for part in path.parts[:-1]]
    name = path.stem.lower()
    if not _MEMORY_FOLDERS.isdisjoint(folders):
        return ArtifactClass.MEMORY
    if name in _BY_NAME:
        return _BY_NAME[name]
    if _NUMBERED_ADR.fullmatch(name):
        return ArtifactClass.DECISION_RECORD
    if name in _GUIDES:
        return ArtifactClass.UNKNOWN
    return next((_BY_FOLDER[part] for part in reversed(folders) if part in _BY_FOLDER), ArtifactClass.UNKNOWN)
