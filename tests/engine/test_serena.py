"""Serena's memories, which Serena's own tools write too: saved, changed, deleted and brought back in their folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.conftest import OpenMemory
from tests.samples import SECRET, write_memory

from scrimshaw.app.mcp.backend import open_backend
from scrimshaw.config import load
from scrimshaw.engine import Engine
from scrimshaw.engine.checkpoints import create, path_of
from scrimshaw.engine.health import check_health
from scrimshaw.engine.history import undo
from scrimshaw.engine.index import list_skipped_files, scan
from scrimshaw.engine.links import link
from scrimshaw.engine.read import get, search
from scrimshaw.engine.restore import restore
from scrimshaw.engine.write import NewText, choose_vault, delete, save, update
from scrimshaw.errors import AlreadyExists, InvalidRequest, NotFound, ReadOnly, ScrimshawError
from scrimshaw.models import MemoryType, Relation, Tier, Trust
from scrimshaw.search.results import SearchRequest

TEXT = "# Walrus\n\nThe walrus index is rebuilt nightly.\n"
CLOSED = "read_only_memory_patterns: ['rules/.*']\nignored_memory_patterns: ['_old/.*']\n"


@pytest.fixture
def memories(project: Path) -> Path:
    """The folder of Serena's memories, with one that only its own tools may write."""
    folder = project / ".serena/memories"
    write_file(folder / "rules/law.md", "Indent by four.\n")
    (project / ".serena/project.yml").write_text(CLOSED)
    return folder


@pytest.fixture
def serena(memories: Path, open_memory: OpenMemory) -> Engine:
    engine = open_memory()
    scan(engine)
    return engine


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


@pytest.mark.parametrize(
    ("new", "name", "text"),
    [
        (NewText(content=TEXT), "walrus", TEXT),
        (NewText(content=TEXT, id="deep/er/walrus"), "deep/er/walrus", TEXT),
        (NewText(content=TEXT, id="mem:walrus.md"), "walrus", TEXT),
        (NewText(content="Rebuilt nightly.\n", title="Walrus"), "walrus", "# Walrus\n\nRebuilt nightly.\n"),
        (NewText(content=TEXT, title="Walrus"), "walrus", TEXT),
        (NewText(content=TEXT, title="Index"), "index", f"---\ntitle: Index\n---\n{TEXT}"),
        (NewText(content=TEXT, type=MemoryType.GENERAL, topics=("x",)), "walrus", f"---\ntopics: [x]\n---\n{TEXT}"),
        (NewText(content=TEXT, tier=Tier.CRITICAL), "walrus", f"---\ntier: critical\n---\n{TEXT}"),
        (NewText(content=f"---\na: b\n---\n{TEXT}", id="own"), "own", f"---\na: b\n---\n{TEXT}"),
        (NewText(content=f"{TEXT}{SECRET}\n", id="key"), "key", f"{TEXT}[REDACTED:github-token]\n"),
    ],
)
def test_a_save_is_the_text_and_no_more_than_was_stated(
    serena: Engine, memories: Path, new: NewText, name: str, text: str
) -> None:
    saved = save(serena, replace(new, vault="serena"), force=True)
    assert (saved.id, saved.path) == (name, str((memories / f"{name}.md").resolve()))
    assert (memories / f"{name}.md").read_text() == text
    memory = serena.memory(name)
    assert (memory.source, memory.writable, memory.provenance.trust) == ("serena", True, Trust.AGENT)
    assert name in [hit.memory.id for hit in search(serena, SearchRequest(query="rebuilt nightly")).hits]
    assert scan(serena).changes == ()


@pytest.mark.parametrize("name", ["rules/more", "_old/note", "global/style"])
def test_what_serenas_settings_close_is_not_written(serena: Engine, memories: Path, name: str) -> None:
    before = sorted(memories.rglob("*"))
    with pytest.raises(ReadOnly):
        save(serena, NewText(content=TEXT, id=name, vault="serena"))
    assert sorted(memories.rglob("*")) == before
    with pytest.raises(ReadOnly):
        update(serena, "rules/law", {}, content="Tabs.\n")
    with pytest.raises(ReadOnly):
        delete(serena, ["rules/law"])
    assert (memories / "rules/law.md").read_text() == "Indent by four.\n"


def test_a_text_beyond_serenas_limit_is_refused(serena: Engine, memories: Path) -> None:
    save(serena, NewText(content=TEXT, vault="serena"))
    long = "word " * 30_001
    with pytest.raises(InvalidRequest, match="150000"):
        save(serena, NewText(content=long, id="long", vault="serena"))
    with pytest.raises(InvalidRequest, match="150000"):
        update(serena, "walrus", {}, content=long)
    assert sorted(path.name for path in memories.rglob("*.md")) == ["law.md", "walrus.md"]
    save(serena, NewText(content=long, id="long"))


def test_changes_leave_the_text_bare_and_can_be_taken_back(serena: Engine, memories: Path) -> None:
    write_file(memories / "topic/note.md", "# Note\r\n\r\nBefore.\r\n")
    scan(serena)
    update(serena, "topic/note", {}, content="# Note\n\nAfter.\n")
    assert (memories / "topic/note.md").read_bytes() == b"# Note\r\n\r\nAfter.\r\n"
    delete(serena, ["topic/note"])
    assert not (memories / "topic").exists()
    rows = serena.journal.history("topic/note")
    undo(serena, entry=rows[0]["seq"])
    assert (memories / "topic/note.md").read_bytes() == b"# Note\r\n\r\nAfter.\r\n"
    undo(serena, entry=rows[1]["seq"])
    assert (memories / "topic/note.md").read_bytes() == b"# Note\r\n\r\nBefore.\r\n"
    assert get(serena, "mem:topic/note").memory.source == "serena"


def test_a_checkpoint_has_serenas_memories_too(serena: Engine, memories: Path, vault: Path, tmp_path: Path) -> None:
    save(serena, NewText(content=TEXT, id="walrus", vault="serena"))
    save(serena, NewText(content="# Own\n\nThe harbour closes at dusk in May.\n", id="own", vault="vault"))
    assert create(serena, "one").files == 3  # with the configuration
    (memories / "walrus.md").unlink()
    scan(serena)
    assert restore(serena, path_of(serena, "one")).written == ("serena/walrus.md",)
    assert (memories / "walrus.md").read_text() == TEXT
    (row,) = serena.journal.history("walrus", 1)
    assert row["decision_meta"]["vault"] == "serena", "so an undo brings it back there"

    write_file(memories / "later.md", "Came later.\n")
    (vault / "own.md").unlink()
    scan(serena)
    path = path_of(serena, "one")
    outcome = restore(serena, path, clear_existing=True, overwrite_edits=True)
    assert (outcome.written, outcome.removed) == (("memories/own.md",), ("serena/later.md",))
    assert (memories / "rules/law.md").exists(), "what Serena's settings close is neither kept nor removed"


def test_a_checkpoint_without_serenas_memories_leaves_them(serena: Engine, memories: Path) -> None:
    create(serena, "one")
    write_file(memories / "later.md", "Came later.\n")
    scan(serena)
    assert restore(serena, path_of(serena, "one"), clear_existing=True).removed == ()
    assert (memories / "later.md").exists()


def test_serenas_memories_are_named_if_a_restore_cannot_write_them(
    serena: Engine, memories: Path, vault: Path, open_memory: OpenMemory
) -> None:
    save(serena, NewText(content=TEXT, id="walrus", vault="serena"))
    save(serena, NewText(content="# Own\n\nThe harbour closes at dusk in May.\n", id="own", vault="vault"))
    create(serena, "one")
    shutil.rmtree(memories.parent)
    (vault / "own.md").unlink()
    without = open_memory()
    outcome = restore(without, path_of(without, "one"))
    assert (outcome.written, outcome.closed) == (("memories/own.md",), ("serena/walrus.md",))
    assert not memories.exists()


def test_a_relation_of_a_bare_memory_stands_in_the_links_file(serena: Engine, memories: Path, project: Path) -> None:
    save(serena, NewText(content=TEXT, vault="serena"))
    linked = link(serena, "walrus", "rules/law", Relation.SUPPORTS)
    assert linked.path == str(project / ".scrimshaw/links.toml")
    assert (memories / "walrus.md").read_text() == TEXT


@pytest.mark.parametrize(
    ("own", "id", "expected"),
    [
        ([], "", "serena"),
        (["provenance: {source: session}"], "", "serena"),
        (["provenance: {source: session}", "type: decision"], "", ""),
        ([], "global/style", ""),
    ],
)
def test_serenas_memories_are_the_default_where_there_are_no_others(
    serena: Engine, vault: Path, own: list[str], id: str, expected: str
) -> None:
    for number, line in enumerate(own):
        write_memory(vault, f"n{number}", "Text.", line)
    scan(serena)
    assert choose_vault(serena, id) == expected


def test_without_serenas_memories_there_is_no_such_vault(engine: Engine, vault: Path) -> None:
    assert choose_vault(engine) == ""
    with pytest.raises(ReadOnly, match="there is no"):
        save(engine, NewText(content=TEXT, vault="serena"))


@pytest.mark.parametrize(("canonical", "wins"), [("serena", "serena"), ("vault", "vault")])
def test_of_two_files_of_one_name_the_canonical_one_counts_and_the_other_is_named(
    memories: Path, vault: Path, open_memory: OpenMemory, canonical: str, wins: str
) -> None:
    files = {"serena": memories / "twin.md", "vault": vault / "twin.md"}
    engine = open_memory(f'[index]\ncanonical = "{canonical}"\n')
    order = sorted(files, key=lambda name: name == wins)  # the other one is there first
    for name in order:
        write_file(files[name], f"# Twin\n\nAs the {name} has it.\n")
        scan(engine)
    other = str(files[order[0]])
    found = get(engine, "twin")
    assert (found.memory.source, found.body) == (wins, f"# Twin\n\nAs the {wins} has it.\n")
    assert [(each.path, each.reason) for each in list_skipped_files(engine)] == [
        (other, f"twin is read from {files[wins]}")
    ]
    update(engine, "twin", {}, content="# Twin\n\nChanged.\n")
    assert files[wins].read_text().endswith("# Twin\n\nChanged.\n")
    assert files[order[0]].read_text() == f"# Twin\n\nAs the {order[0]} has it.\n"
    delete(engine, ["twin"])
    scan(engine)
    assert engine.memory("twin").source == order[0]


@pytest.mark.parametrize("vault_name", ["", "vault", "serena"])
@pytest.mark.parametrize("there", ["serena", "vault"])
def test_a_save_makes_no_second_file_of_a_name(
    serena: Engine, memories: Path, vault: Path, there: str, vault_name: str
) -> None:
    path = (memories if there == "serena" else vault) / "twin.md"
    write_file(path, "Here first.\n")
    scan(serena)
    with pytest.raises(AlreadyExists) as error:
        save(serena, NewText(content=TEXT, id="twin", vault=vault_name))
    assert str(path) in str(error.value)
    assert save(serena, NewText(content=TEXT, title="Twin", vault=vault_name)).id == "twin-2"


def test_a_project_opened_for_reading_writes_nothing_of_serenas(memories: Path, project: Path) -> None:
    settings = load(project, home=project.parent / "home", environment={"SCRIMSHAW_EMBEDDING_PROVIDER": "none"})
    with open_backend(settings, "all", writable=False) as backend:
        engine = backend.dispatcher.engine
        scan(engine)
        with pytest.raises(ScrimshawError):
            save(engine, NewText(content=TEXT, vault="serena"))
        assert not engine.memory("rules/law").writable


def test_a_change_of_serenas_settings_holds_for_what_is_indexed(serena: Engine, memories: Path, project: Path) -> None:
    for name in ("style", "lamp"):
        write_file(memories / f"{name}.md", f"Of the {name}.\n")
    scan(serena)
    (project / ".serena/project.yml").write_text("read_only_memory_patterns: style\nignored_memory_patterns: [lamp]\n")
    for name in ("style", "lamp"):
        with pytest.raises(ReadOnly, match="settings"):
            update(serena, name, {}, content="Another.\n")
        with pytest.raises(ReadOnly, match="settings"):
            delete(serena, [name])
    scan(serena)
    assert (get(serena, "style").memory.writable, get(serena, "rules/law").memory.writable) == (False, True)
    with pytest.raises(NotFound):
        get(serena, "lamp")
    with pytest.raises(NotFound):
        update(serena, "lamp", {}, content="Another.\n")
    assert [(memories / f"{name}.md").read_text() for name in ("style", "lamp")] == [
        "Of the style.\n",
        "Of the lamp.\n",
    ]
    assert scan(serena).changes == ()
    assert serena.journal.history("lamp")[0]["new_hash"], "its file is there"
    (project / ".serena/project.yml").write_text("{}")
    scan(serena)
    delete(serena, ["style", "lamp"])


def test_a_pattern_that_cannot_be_judged_closes_all_and_health_names_it(
    serena: Engine, memories: Path, project: Path
) -> None:
    settings = project / ".serena/project.yml"
    settings.write_text("read_only_memory_patterns: ['^(?!notes/).*']\n")
    scan(serena)
    assert not get(serena, "rules/law").memory.writable
    health = check_health(serena)
    (fault,) = (each for each in health.degradations if "patterns_unusable" in each.failure_mode)
    assert f"{settings}: ^(?!notes/).*" in fault.failure_mode
    assert health.status == "degraded"
