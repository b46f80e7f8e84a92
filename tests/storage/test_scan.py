import os
import sys
from pathlib import Path

import pytest

from scrimshaw.models import ArtifactClass, Skip, SourceFile
from scrimshaw.storage.scan import MAX_BYTES, Source, scan


def put(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}")


def ids(source: Source, max_bytes: int = MAX_BYTES) -> list[str]:
    return [file.memory_id for file in scan(source, max_bytes) if isinstance(file, SourceFile)]


def skips(source: Source, max_bytes: int = MAX_BYTES) -> dict[str, str]:
    found = (skip for skip in scan(source, max_bytes) if isinstance(skip, Skip))
    return {os.path.relpath(skip.path, os.path.realpath(source.root)): skip.reason for skip in found}


def test_order_is_fixed_and_ids_are_paths(tmp_path: Path) -> None:
    put(tmp_path, "b.md", "a.md", "z/1.md", "m/2.md", "m/deep/er/3.md", "notes.txt", "with space/日本 🚀.md")
    source = Source("v", tmp_path, id_prefix="global/")
    assert ids(source) == [f"global/{name}" for name in ("a", "b", "m/2", "m/deep/er/3", "with space/日本 🚀", "z/1")]
    assert skips(source) == {}


def test_a_file_carries_what_the_index_needs(tmp_path: Path) -> None:
    put(tmp_path, "001-x/plan.md")
    (file,) = scan(Source("specs", tmp_path, writable=True))
    info = (tmp_path / "001-x/plan.md").stat()
    assert file == SourceFile(
        source="specs",
        memory_id="001-x/plan",
        path=os.path.realpath(tmp_path / "001-x/plan.md"),
        size=info.st_size,
        mtime_ns=info.st_mtime_ns,
        writable=True,
        artifact=ArtifactClass.PLAN,
    )
    (forced,) = scan(Source("m", tmp_path, artifact=ArtifactClass.MEMORY))
    assert isinstance(forced, SourceFile)
    assert forced.artifact is ArtifactClass.MEMORY


TREE = (
    "README.md",
    "docs/a.md",
    "docs/adr/1.md",
    "docs/deep/er/b.md",
    "docs/.hidden/c.md",
    "src/code.md",
    ".opencode/x/d.md",
    ".opencode/x/.git/e.md",
    ".git/f.md",
    "node_modules/p/g.md",
    ".venv/h.md",
    ".serena/memories/i.md",
)


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["**/*.md"], [], ["README", "docs/a", "docs/adr/1", "docs/deep/er/b", "src/code"]),
        (["*.md"], [], ["README"]),
        (["docs/*.md"], [], ["docs/a"]),
        (["docs/*/*.md"], [], ["docs/adr/1"]),
        (["docs/**"], ["docs/adr/**"], ["docs/a", "docs/deep/er/b"]),
        (["**/?.md"], ["**/a.md"], ["docs/adr/1", "docs/deep/er/b"]),
        (["docs/**/*.md", "docs/a.md", "**/a.md"], [], ["docs/a", "docs/adr/1", "docs/deep/er/b"]),
        ([".opencode/**/*.md"], [], [".opencode/x/d"]),
        ([".serena/memories/**", "README.md"], [], [".serena/memories/i", "README"]),
        (["no/such/**"], [], []),
        ([], [], []),
    ],
)
def test_include_and_exclude_patterns_choose_files(
    tmp_path: Path, include: list[str], exclude: list[str], expected: list[str]
) -> None:
    put(tmp_path, *TREE)
    source = Source("s", tmp_path, include=tuple(include), exclude=tuple(exclude))
    assert ids(source) == expected
    assert skips(source) == {}


def test_a_hidden_root_is_read(tmp_path: Path) -> None:
    put(tmp_path / ".scrimshaw/memories", "a.md")
    assert ids(Source("v", tmp_path / ".scrimshaw/memories")) == ["a"]


def test_a_fixed_depth_walks_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, *TREE)
    visited: list[str] = []
    real = os.scandir

    def scandir(path: str) -> object:
        visited.append(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    ids(Source("s", tmp_path, include=("README.md",)))
    assert visited == [os.path.realpath(tmp_path)]


def test_every_markdown_file_that_is_passed_over_has_a_reason(tmp_path: Path) -> None:
    put(tmp_path, "good.md", "LOUD.MD", ".hidden.md")
    (tmp_path / "huge.md").touch()
    os.truncate(tmp_path / "huge.md", 30 * 1024 * 1024)
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "dangling.md").symlink_to("nowhere.md")
    source = Source("v", tmp_path)
    assert ids(source) == ["good"]
    reasons = skips(source)
    assert sorted(reasons) == [".hidden.md", "LOUD.MD", "dangling.md", "huge.md", "pipe.md"]
    assert str(30 * 1024 * 1024) in reasons["huge.md"]
    assert all(reasons.values())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_that_is_no_utf8_is_shown_with_replacements(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.md")).touch()
    assert skips(Source("v", tmp_path)) == {"caf\ufffd.md": "its name is not UTF-8"}


def test_the_size_limit_is_the_callers(tmp_path: Path) -> None:
    put(tmp_path, "a.md")
    size = (tmp_path / "a.md").stat().st_size
    assert ids(Source("v", tmp_path), size) == ["a"]
    assert list(skips(Source("v", tmp_path), size - 1)) == ["a.md"]


def test_unreadable_files_and_folders_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "open.md", "closed.md", "vault/x.md")
    real = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("vault"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "access", lambda path, mode: not path.endswith("closed.md"))
    assert ids(Source("v", tmp_path)) == ["open"]
    assert sorted(skips(Source("v", tmp_path))) == ["closed.md", "vault"]


def test_links_are_neither_followed_out_nor_round_in_circles(tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(root, "a/one.md", "a/plain.txt")
    put(tmp_path, "outside/secret.md")
    (root / "a/self").symlink_to(root)
    (root / "door").symlink_to(tmp_path / "outside")
    (root / "leak.md").symlink_to(tmp_path / "outside/secret.md")
    (root / "0-again.md").symlink_to("a/one.md")
    (root / "only.md").symlink_to("a/plain.txt")
    (root / "round.md").symlink_to("round.md")
    source = Source("v", root)
    assert ids(source) == ["a/one", "only"]
    assert sorted(skips(source)) == ["0-again.md", "a/self", "door", "leak.md", "round.md"]
    assert skips(Source("v", root, include=("door/**",))) == {"door": "symbolic link out of the source"}


def test_a_linked_root_and_a_linked_start_inside_are_read(tmp_path: Path) -> None:
    put(tmp_path, "real/documentation/a.md")
    (tmp_path / "real/docs").symlink_to("documentation")
    (tmp_path / "link").symlink_to("real")
    (file,) = scan(Source("d", tmp_path / "link", include=("docs/**/*.md",)))
    assert isinstance(file, SourceFile)
    assert file.memory_id == "docs/a"
    assert file.path == os.path.realpath(tmp_path / "real/documentation/a.md")


@pytest.mark.parametrize(
    ("ignored", "read_only", "files"),
    [
        ("[_archive/.*]", "[rules/.*, 'no']", [("note", True), ("rules/one", False)]),
        ("_archive/.*", "rules/.*", [("note", True), ("rules/one", False)]),
        ("[_archive/.*]", "['^(?!notes/).*']", [("note", False), ("rules/one", False)]),
        ("['(?!x)y']", "[]", []),
        ("7", "{a: b}", [("_archive/old", True), ("note", True), ("rules/one", True)]),
    ],
)
def test_serenas_settings_close_ids_and_what_re2_rejects_closes_all(
    tmp_path: Path, ignored: str, read_only: str, files: list[tuple[str, bool]]
) -> None:
    put(tmp_path, "_archive/old.md", "rules/one.md", "note.md")
    settings = tuple(tmp_path / name for name in ("project.yml", "project.local.yml"))
    source = Source("serena", tmp_path, writable=True, settings=settings)
    assert len([*scan(source)]) == 3
    settings[0].write_text(f"ignored_memory_patterns: {ignored}\nread_only_memory_patterns: {read_only}\n")
    assert sorted((file.memory_id, file.writable) for file in scan(source) if isinstance(file, SourceFile)) == files
    assert skips(source) == {}
