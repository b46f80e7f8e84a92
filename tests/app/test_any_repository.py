"""`scrimshaw init` in repositories that look nothing alike: it finds what there is, and names what it leaves out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.app.command_line import Cli, command_line, wait_for_vectors

from scrimshaw.engine.index import EMBED_BATCH
from scrimshaw.search.embedders import MiniLMEmbedder


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    monkeypatch.setattr("scrimshaw.app.setup.all_clients", dict)
    return folder


@pytest.fixture
def cli(repository: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys)


def fill(folder: Path, *names: str, text: str = "The whale surfaced.\n") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def make_git(folder: Path, ignored: str) -> None:
    subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)
    (folder / ".gitignore").write_text(ignored)


def documents(cli: Cli, *options: str) -> dict[str, Any]:
    done = cli("init", "--json", *options)
    assert done.code == 0
    (docs,) = (each for each in done.json["sources"] if each["name"] == "docs")
    return {"kinds": docs["kinds"], "left_out": done.json["left_out"]}


def test_documents_in_odd_places(cli: Cli, repository: Path) -> None:
    fill(repository, "Readme.markdown", "wissen/2024/notiz.md", "src/deep/down/DESIGN.md", ".claude/plan.md")
    fill(repository, "ADR/0001-whales.md", "tests/fixtures/sample.md", "build/site/page.md")
    make_git(repository, "build/\n")
    assert documents(cli) == {
        "kinds": {"document": 2, "decision-record": 1, "readme": 1},
        "left_out": {
            "hidden": {".claude": 1},
            "excluded": {"tests/fixtures": 1},
            "ignored": {"build/site": 1},
        },
    }
    said = cli("init").out
    assert "ignored by git: build/site (1)" in said
    assert 'include = ["build/site/**"]' in said


def test_templates_are_told_from_what_git_ignores(cli: Cli, repository: Path) -> None:
    fill(repository, ".specify/templates/plan-template.md", "build/site/page.md")
    make_git(repository, "build/\n")
    assert documents(cli)["left_out"] == {"unfilled": {".specify/templates": 1}, "ignored": {"build/site": 1}}
    assert "templates and scripts of Spec Kit: .specify/templates (1)" in cli("init").out


def test_why_git_lists_no_document_is_told_of_submodules_and_odd_names(cli: Cli, repository: Path) -> None:
    fill(repository / "lib", "guide.md")
    fill(repository, "plain.md", "ignored/x.md")
    for folder, ignored in ((repository / "lib", ""), (repository, "ignored/\n")):
        make_git(folder, ignored)
    odd = os.fsdecode(os.fsencode(repository) + b"/caf\xe9.md")
    Path(odd).write_text("# Coffee\n")
    for folder in (repository / "lib", repository):
        git = ("git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@b.c")
        for command in (("add", "--all"), ("commit", "--quiet", "--message", "Begin")):
            subprocess.run([*git, *command], check=True, capture_output=True)
    done = cli("init")
    assert "1  left out, in a repository of its own: lib (1)" in done.out
    assert "1  left out, ignored by git: ignored (1)" in done.out
    assert f"{repository}/caf\N{REPLACEMENT CHARACTER}.md: its name is not UTF-8" in done.out
    assert "its name is not UTF-8" in cli("doctor").out
    cli("config", "set", "index.include", '["lib/**"]')
    assert {"lib/guide", "plain"} == {each["id"] for each in cli("list", "--json").json["memories"]}


def test_memories_of_a_part_are_named_until_they_are_read(cli: Cli, repository: Path) -> None:
    fill(repository, "packages/x/.scrimshaw/memories/till.md", "packages/x/.scrimshaw/drafts/no.md")
    make_git(repository, "nothing\n")
    done = cli("init")
    assert "1  left out, memories of a part: packages/x (1)" in done.out
    cli("config", "set", "index.include", '["packages/x/.scrimshaw/memories/**"]')
    assert "left out" not in cli("init").out
    assert [each["id"] for each in cli("list", "--json").json["memories"]] == ["packages/x/.scrimshaw/memories/till"]


def test_what_was_left_out_is_read_once_the_settings_say_so(cli: Cli, repository: Path) -> None:
    fill(repository, ".claude/plan.md", "build/site/page.md")
    make_git(repository, "build/\n")
    fill(repository, ".scrimshaw/config.toml", text='[index]\ninclude = [".claude/**", "build/site/**"]\n')
    assert documents(cli) == {"kinds": {}, "left_out": {}}
    assert sorted(each["id"] for each in cli("list", "--json").json["memories"]) == [".claude/plan", "build/site/page"]


def test_stated_sources_alone_count(cli: Cli, repository: Path) -> None:
    fill(repository, "a/x.md", "b/y.md")
    fill(repository, ".scrimshaw/config.toml", text='[[sources]]\nname = "docs"\ninclude = ["a/**"]\n')
    assert documents(cli) == {"kinds": {"document": 1}, "left_out": {"unnamed": {"b": 1}}}


def test_a_branch_from_before_the_memory_does_not_commit_the_index(cli: Cli, repository: Path) -> None:
    make_git(repository, "")
    git = ("git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b")

    def run(*arguments: str) -> str:
        return subprocess.run([*git, *arguments], check=True, capture_output=True, text=True).stdout

    for name, prepare in (("before", list), ("memory", lambda: cli("init", "--no-import"))):
        run("switch", "-qc", name)
        prepare()
        run("add", "-A")
        run("commit", "-qm", name)
    run("switch", "-q", "before")
    assert (repository / ".scrimshaw/index.db").exists()
    assert cli("save", "The harbour of south closes at dusk.", "--id", "south").code == 0
    run("add", "-A")
    assert run("diff", "--cached", "--name-only").split() == [".scrimshaw/memories/south.md"]
    run("commit", "-qm", "south")
    run("switch", "-q", "memory")


def test_a_monorepo(cli: Cli, repository: Path) -> None:
    make_git(repository, "node_modules\n")
    for name in ("web", "api"):
        fill(repository, *(f"packages/{name}/{each}.md" for each in ("README", "CHANGELOG", "docs/adr/0001-use-it")))
        fill(repository, f"packages/{name}/node_modules/left-pad/README.md")
    fill(repository, "AGENTS.md", "packages/web/CLAUDE.md", ".cursor/rules/style.mdc")
    kinds = {"readme": 2, "changelog": 2, "decision-record": 2, "instructions": 2, "document": 1}
    assert documents(cli) == {"kinds": kinds, "left_out": {}}
    fill(repository, "packages/new/README.md", "packages/new/node_modules/left-pad/README.md")
    found = documents(cli, "--project", "packages/new")  # of which git has no file yet
    assert found == {"kinds": {"readme": 1}, "left_out": {}}


def test_other_markup(cli: Cli, repository: Path) -> None:
    fill(repository, ".cursorrules", text="Always answer in Cornish.\nUse tabs in Makefiles only, never elsewhere.\n")
    fill(repository, "README.rst", text="Whales\n======\n\nText.\n\nDepths\n------\n\nThe sperm whale dives deepest.\n")
    fill(repository, "doc/guide.adoc", text="= Guide\n\n== Harpoons\n\nNobody throws a harpoon here.\n")
    assert documents(cli) == {"kinds": {"document": 2, "readme": 1}, "left_out": {}}
    assert ".cursorrules" in cli("search", "answer in Cornish").out
    assert cli("import", ".cursorrules").out.splitlines()[-1] == "1 read in place; 0 events, 0 memories"
    assert "README.rst" in cli("search", "which one dives deepest").out
    assert "sperm whale" in cli("get", "README.rst", "--anchor", "depths").out
    assert "harpoon here" in cli("get", "doc/guide.adoc", "--anchor", "harpoons").out


def test_no_documents(cli: Cli, repository: Path) -> None:
    fill(repository, "src/main.py", "package.json")
    assert documents(cli) == {"kinds": {}, "left_out": {}}


def test_two_thousand_documents(cli: Cli, repository: Path) -> None:
    fill(repository, *(f"area{number % 40}/notes/{number}.md" for number in range(2000)))
    make_git(repository, "")
    assert documents(cli) == {"kinds": {"document": 2000}, "left_out": {}}


def test_an_interrupted_init_says_how_far_it_got_and_goes_on_later(
    cli: Cli, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCRIMSHAW_EMBEDDING_PROVIDER")
    for number in range(20):
        fill(repository, f"{number}.md", text=f"Whale {number} surfaced.\n")
    embed, texts = MiniLMEmbedder.embed, list[str]()

    def embed_some(self: MiniLMEmbedder, text: str) -> Any:
        texts.append(text)
        if len(texts) == 18:
            raise KeyboardInterrupt
        return embed(self, text)

    monkeypatch.setattr(MiniLMEmbedder, "embed", embed_some)
    stopped = cli("init")
    assert stopped.code != 0
    assert "Vectors: 16 of 20. `scrimshaw scan` continues" in " ".join(stopped.err.split())
    assert "Whale 3" in cli("search", "whale 3", "--channels", "text").out
    assert cli("scan", "--json").json["vectors"]["ready"] == 20
    assert len(texts) == 18 + 4


def test_init_returns_while_vectors_are_made_in_the_background(
    cli: Cli, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCRIMSHAW_EMBEDDING_PROVIDER")
    monkeypatch.setattr("scrimshaw.app.cli.frame.HEAD_START_S", 0.0)
    for number in range(60):
        fill(repository, f"{number}.md", text=f"Whale {number} surfaced.\n")
    vectors = cli("init", "--json").json["vectors"]
    assert (vectors["ready"], vectors["total"], vectors["in_background"]) == (EMBED_BATCH, 60, True)
    assert "Whale 3" in cli("search", "whale 3", "--channels", "text").out
    assert wait_for_vectors(cli) == [60, 60]
    again = cli("init", "--json").json["vectors"]
    assert (again["made"], again["in_background"]) == (0, False)


def test_init_waits_for_all_vectors_when_asked(cli: Cli, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCRIMSHAW_EMBEDDING_PROVIDER")
    monkeypatch.setattr("scrimshaw.app.cli.frame.HEAD_START_S", 0.0)
    for number in range(20):
        fill(repository, f"{number}.md", text=f"Whale {number} surfaced.\n")
    vectors = cli("init", "--wait", "--json").json["vectors"]
    assert (vectors["ready"], vectors["total"], vectors["in_background"]) == (20, 20, False)
