"""Vectors of one repository: what a branch or a work tree had embedded is not embedded again in another."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.samples import WordEmbedder, write_memory

from scrimshaw.config import load
from scrimshaw.engine import Engine, open_engine
from scrimshaw.engine.index import count_vectors, embed_pending, rebuild, scan
from scrimshaw.engine.read import search
from scrimshaw.engine.write import delete
from scrimshaw.models import Channel
from scrimshaw.search.pipeline import Searcher
from scrimshaw.search.results import SearchRequest


def git(project: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(project), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(project: Path, vault: Path) -> Path:
    git(project, "init", "--initial-branch", "main")
    (project / ".gitignore").write_text(".scrimshaw/*\n!.scrimshaw/memories\n")
    for number in range(5):
        write_memory(vault, f"n{number}", f"text {number}")
    git(project, "add", "--all")
    git(project, "commit", "--message", "notes")
    return project


@contextmanager
def embed(project: Path, model: str = "words") -> Iterator[tuple[Engine, WordEmbedder]]:
    """The project's memory with all vectors made, and the embedder that was asked."""
    (project / ".scrimshaw").mkdir(exist_ok=True)
    (project / ".scrimshaw/config.toml").write_text('[embedding]\nprovider = "none"\n')
    embedder = WordEmbedder(model)
    with open_engine(load(project, home=project.parent / "home", environment={})) as engine:
        searcher = Searcher(engine.index, engine.settings, embedder)
        engine = replace(engine, embedder=embedder, searcher=searcher)
        scan(engine)
        embed_pending(engine)
        yield engine, embedder


def test_a_checkout_of_an_old_branch_embeds_nothing_twice(repository: Path, vault: Path) -> None:
    with embed(repository) as (engine, embedder):
        assert len(embedder.calls) == 5
        git(repository, "checkout", "-b", "other")
        write_memory(vault, "n0", "text of the branch")
        (vault / "n1.md").unlink()
        git(repository, "commit", "--all", "--message", "changed")
        for branch, texts in (("other", 1), ("main", 0), ("other", 0)):
            git(repository, "checkout", branch)
            scan(engine)
            assert embed_pending(engine) == texts
            done, total = count_vectors(engine)
            assert done == total
        rebuild(engine)
        assert embed_pending(engine) == 0
        assert len(embedder.calls) == 6
        request = SearchRequest(query="text of the branch", channels=(Channel.VECTOR,))
        assert search(engine, request).hits[0].memory.id == "n0"


def test_a_new_work_tree_embeds_only_what_is_new(repository: Path, tmp_path: Path) -> None:
    with embed(repository) as (engine, _):
        first = {key: piece.vector for key, piece in engine.index.pieces([("n2", 0)], vectors_of="words").items()}
    tree = tmp_path / "tree"
    git(repository, "worktree", "add", str(tree))
    write_memory(tree / ".scrimshaw/memories", "own", "text of the tree")
    with embed(tree) as (engine, embedder):
        assert len(embedder.calls) == 1
        assert {key: each.vector for key, each in engine.index.pieces([("n2", 0)], vectors_of="words").items()} == first
    with embed(tree, "another") as (_, embedder):
        assert len(embedder.calls) == 6


def test_without_a_repository_each_index_has_its_own(project: Path, vault: Path) -> None:
    write_memory(vault, "a", "text")
    with embed(project) as (engine, embedder):
        assert engine.storage.vectors is None
        assert len(embedder.calls) == 1


def test_a_file_of_vectors_that_is_no_use_is_done_without(repository: Path) -> None:
    with embed(repository) as (engine, _):
        assert engine.storage.vectors
        path = engine.storage.place.with_name("vectors.db")
    for name in ("vectors.db-wal", "vectors.db-shm"):
        path.with_name(name).unlink(missing_ok=True)
    path.write_bytes(b"no database" * 1000)
    with embed(repository) as (engine, embedder):
        rebuild(engine)
        assert embed_pending(engine) == len(embedder.calls) == 5


def test_a_purge_leaves_no_vector(repository: Path, vault: Path) -> None:
    with embed(repository) as (engine, _):
        path = engine.storage.place.with_name("vectors.db")
        (piece,) = engine.index.pieces([("n3", 0)], vectors_of="words").values()
        files = [path, path.with_name("vectors.db-wal")]
        assert any(piece.vector in file.read_bytes() for file in files)
        delete(engine, ["n3"], purge=True)
        assert not any(piece.vector in file.read_bytes() for file in files)
        write_memory(vault, "n9", "text 3")
        scan(engine)
        assert embed_pending(engine) == 1
