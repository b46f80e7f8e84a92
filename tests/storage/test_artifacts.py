from pathlib import PurePosixPath

import pytest

from scrimshaw.models import ArtifactClass
from scrimshaw.storage.scan import classify_artifact


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("specs/001-x/spec.md", ArtifactClass.SPEC),
        ("specs/001-x/Plan.md", ArtifactClass.PLAN),
        ("tasks.md", ArtifactClass.TASKS),
        ("a/checklist.md", ArtifactClass.CHECKLIST),
        ("specs/001-x/checklists/requirements.md", ArtifactClass.CHECKLIST),
        ("a/decision-record.md", ArtifactClass.DECISION_RECORD),
        ("a/implementation-summary.md", ArtifactClass.IMPLEMENTATION_SUMMARY),
        ("a/research.md", ArtifactClass.RESEARCH),
        ("a/research/peers.md", ArtifactClass.RESEARCH),
        ("a/memory/21-02-26__note.md", ArtifactClass.MEMORY),
        ("a/memory/deeper/plan.md", ArtifactClass.MEMORY),
        (".serena/memories/x.md", ArtifactClass.MEMORY),
        ("docs/adr/0007-use-apsw.md", ArtifactClass.DECISION_RECORD),
        ("docs/decisions/use-apsw.md", ArtifactClass.DECISION_RECORD),
        ("docs/adr/research/x.md", ArtifactClass.RESEARCH),
        ("docs/ADR-037-routing.md", ArtifactClass.DECISION_RECORD),
        ("docs/adr/README.md", ArtifactClass.UNKNOWN),
        ("docs/adr/template.md", ArtifactClass.UNKNOWN),
        ("docs/0007-use-apsw.md", ArtifactClass.UNKNOWN),
        ("docs/adrenaline.md", ArtifactClass.UNKNOWN),
        ("memory.md", ArtifactClass.UNKNOWN),
        ("handover.md", ArtifactClass.UNKNOWN),
        ("my-spec.md", ArtifactClass.UNKNOWN),
    ],
)
def test_the_path_tells_the_class(path: str, expected: ArtifactClass) -> None:
    assert classify_artifact(PurePosixPath(path)) is expected
