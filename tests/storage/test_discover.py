from pathlib import Path

import pytest

from scrimshaw.errors import ConfigError
from scrimshaw.models import ArtifactClass, SourceFile
from scrimshaw.storage.scan import discover, scan


def put(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")


def found(project: Path, home: Path | None = None) -> dict[str, list[tuple[str, str]]]:
    """Ids and classes by source."""
    return {
        source.name: [
            (file.memory_id, file.artifact.value)
            for file in scan(source)
            if isinstance(file, SourceFile) and not file.writable
        ]
        for source in discover(project, home)
    }


def test_an_empty_project_suggests_nothing(tmp_path: Path) -> None:
    put(tmp_path, "README.md", "src/x.md")
    assert discover(tmp_path) == []


def test_what_exists_is_suggested_and_no_file_twice(tmp_path: Path) -> None:
    put(
        tmp_path,
        "specs/001-x/spec.md",
        ".specify/memory/constitution.md",
        ".specify/templates/spec-template.md",
        ".opencode/specs/002-y/tasks.md",
        "docs/guide.md",
        "docs/adr/0001-x.md",
        "doc/adr/0002-y.md",
        ".serena/memories/deep/note.md",
        "README.md",
    )
    assert found(tmp_path) == {
        "serena": [("deep/note", "memory")],
        "specs": [
            ("specs/001-x/spec", "spec"),
            (".specify/memory/constitution", "memory"),
            (".opencode/specs/002-y/tasks", "tasks"),
        ],
        "adr": [("docs/adr/0001-x", "decision-record"), ("doc/adr/0002-y", "decision-record")],
        "docs": [("docs/guide", "unknown")],
    }


def test_of_two_names_for_one_folder_the_real_one_counts(tmp_path: Path) -> None:
    put(tmp_path, ".opencode/specs/001-x/spec.md")
    (tmp_path / "specs").symlink_to(".opencode/specs")
    assert found(tmp_path) == {"specs": [(".opencode/specs/001-x/spec", "spec")]}


def test_serenas_rules_are_honoured(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    put(project, ".serena/memories/_old/a.md", ".serena/memories/b.md", ".serena/memories/draft.md")
    put(home, "memories/global/c.md", "memories/global/secret.md", "memories/elsewhere.md")
    (home / "serena_config.yml").write_text("ignored_memory_patterns: ['global/secret']\n")
    (project / ".serena/project.yml").write_text("ignored_memory_patterns: [never]\nname: x\n")
    (project / ".serena/project.local.yml").write_text(
        "ignored_memory_patterns: ['_old/.*', draft]\nread_only_memory_patterns: [b]\n"
    )
    assert found(project, home) == {"serena": [("b", "memory")], "serena-global": [("global/c", "memory")]}
    serena = discover(project, home)[0]
    assert serena.artifact is ArtifactClass.MEMORY
    assert serena.read_only == ("b",)


def test_broken_serena_settings_are_named(tmp_path: Path) -> None:
    put(tmp_path, ".serena/memories/a.md")
    (tmp_path / ".serena/project.yml").write_text("ignored: [unclosed")
    with pytest.raises(ConfigError, match=r"project\.yml"):
        discover(tmp_path)
