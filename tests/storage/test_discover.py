import subprocess
from pathlib import Path

import pytest

from scrimshaw.errors import ConfigError
from scrimshaw.models import ArtifactClass, Skip, SourceFile
from scrimshaw.storage.scan import discover, scan


def put(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")


def found(project: Path, home: Path | None = None) -> dict[str, list[tuple[str, str]]]:
    """Ids and classes by source."""
    return {
        source.name: [(file.memory_id, file.artifact.value) for file in scan(source) if isinstance(file, SourceFile)]
        for source in discover(project, home)
    }


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("has_git", [True, False])
def test_documents_are_found_wherever_they_are(tmp_path: Path, has_git: bool) -> None:
    put(
        tmp_path,
        "README.md",
        "CHANGELOG.rst",
        "AGENTS.md",
        ".cursor/rules/style.mdc",
        ".cursorrules",
        ".eslintrc",
        "packages/web/.windsurfrules",
        ".github/CONTRIBUTING.md",
        ".github/instructions/api.md",
        ".claude/private/x.md",
        "old/.opencode/specs/001/spec.md",
        "old/.opencode/command/x.md",
        ".venv/lib/x.md",
        "src/code.py",
        "node_modules/left-pad/README.md",
        "packages/web/docs/deep/guide.adoc",
        "packages/api/adr/0001-x.md",
        "wissen/2024/notiz.markdown",
    )
    if has_git:
        git(tmp_path, "init")
        (tmp_path / ".gitignore").write_text("*.log\n")
    assert sorted(name for name, _ in found(tmp_path)["docs"]) == [
        ".cursor/rules/style.mdc",
        ".cursorrules",
        ".github/CONTRIBUTING",
        ".github/instructions/api",
        "AGENTS",
        "CHANGELOG.rst",
        "README",
        "old/.opencode/specs/001/spec",
        "packages/api/adr/0001-x",
        "packages/web/.windsurfrules",
        "packages/web/docs/deep/guide.adoc",
        "wissen/2024/notiz.markdown",
    ]


def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "build/b.md", "sub/out/c.md", "sub/d.md", "tracked/e.md", "gone.md")
    git(tmp_path, "init")
    (tmp_path / ".gitignore").write_text("build/\ntracked/\n")
    (tmp_path / "sub/.gitignore").write_text("/out\n")
    git(tmp_path, "add", "--force", "tracked/e.md", "gone.md")
    (tmp_path / "gone.md").unlink()
    assert [name for name, _ in found(tmp_path)["docs"]] == ["a", "sub/d", "tracked/e"]
    assert [name for name, _ in found(tmp_path / "sub")["docs"]] == ["d"]


def test_of_specs_too_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, "specs/001-x/spec.md", "specs/005-local/spec.md", ".specify/memory/law.md", "plans/y/spec.md")
    (tmp_path / ".gitignore").write_text("specs/005-local/\n")
    (tmp_path / ".opencode").mkdir()
    (tmp_path / ".opencode/specs").symlink_to("../plans")
    git(tmp_path, "init")
    names = [".opencode/specs/y/spec", ".specify/memory/law", "specs/001-x/spec"]
    assert sorted(name for name, _ in found(tmp_path)["specs"]) == names


def test_a_walk_without_git_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a.md", "b/c.md", "d/e.md")
    monkeypatch.setattr("scrimshaw.storage.scan.MOST_FOLDERS", 2)
    (skip,) = (each for each in scan(discover(tmp_path)[0]) if isinstance(each, Skip))
    assert skip.path.endswith("/d")


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
        "docs": [
            ("README", "unknown"),
            ("doc/adr/0002-y", "decision-record"),
            ("docs/guide", "unknown"),
            ("docs/adr/0001-x", "decision-record"),
        ],
    }


def test_of_two_names_for_one_folder_the_real_one_counts(tmp_path: Path) -> None:
    put(tmp_path, ".opencode/specs/001-x/spec.md")
    (tmp_path / "specs").symlink_to(".opencode/specs")
    assert found(tmp_path) == {"specs": [(".opencode/specs/001-x/spec", "spec")], "docs": []}


def test_serenas_rules_are_honoured(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    put(
        project,
        ".serena/memories/_old/a.md",
        ".serena/memories/b.md",
        ".serena/memories/c.md",
        ".serena/memories/draft.md",
    )
    put(home, "memories/global/c.md", "memories/global/secret.md", "memories/elsewhere.md")
    (home / "serena_config.yml").write_text("ignored_memory_patterns: ['global/secret']\n")
    (project / ".serena/project.yml").write_text("ignored_memory_patterns: [never]\nname: x\n")
    (project / ".serena/project.local.yml").write_text(
        "ignored_memory_patterns: ['_old/.*', draft]\nread_only_memory_patterns: [b]\n"
    )
    expected = {"serena": [("b", "memory"), ("c", "memory")], "serena-global": [("global/c", "memory")], "docs": []}
    assert found(project, home) == expected
    serena = discover(project, home)[0]
    assert serena.artifact is ArtifactClass.MEMORY
    assert not serena.takes("b")
    written = {
        source.name: [file.memory_id for file in scan(source) if isinstance(file, SourceFile) and file.writable]
        for source in discover(project, home)
    }
    assert written == {"serena": ["c"], "serena-global": [], "docs": []}


def test_broken_serena_settings_are_named(tmp_path: Path) -> None:
    put(tmp_path, ".serena/memories/a.md")
    (tmp_path / ".serena/project.yml").write_text("ignored: [unclosed")
    with pytest.raises(ConfigError, match=r"project\.yml"):
        found(tmp_path)
