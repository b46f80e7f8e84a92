"""Every parameter of every tool, and what it changes: in the answer, in another tool's answer, or on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from docs.tool_listing import input_schema
from tests.engine.breaking import tamper
from tests.samples import vouch_for, write_memory
from tests.scenarios.agent import Agent, started
from tests.storage.contract import LIFT_GUARDS

from scrimshaw.app.background import Worker
from scrimshaw.app.mcp.protocol import Dispatcher, FinishedCall
from scrimshaw.app.mcp.tools import choose
from scrimshaw.engine import Engine
from scrimshaw.engine.degradations import INDEX, SCAN_PENDING
from scrimshaw.engine.importers import INGEST

ROOT = Path(__file__).parents[2]
NOW = datetime.now(UTC)


def ago(days: int) -> str:
    """Front matter of a memory that was last changed so many days ago."""
    return f"updated: {NOW - timedelta(days=days):%Y-%m-%d}"


LOGIN = "type: decision\ntier: important\ntopics: [security]\ntrigger_phrases: [key rotation]"
LINKS = "relations: {caused: [auth/login], supports: [bill/rates]}"
AGENT = "provenance: {source: agent, trust: agent}"
MEMORIES = {
    "auth/login": (
        f"title: Tokens\n{LOGIN}\ncreated: 2023-05-01\nupdated: 2024-03-01",
        "The walrus signs every login token with a rotating key.\n\n## Rotation\n\nThe key changes every month.\n",
    ),
    "auth/session": (
        f"title: Sessions\ntype: decision\ntopics: [storage]\ncreated: 2024-01-01\nupdated: 2024-02-01\n{LINKS}",
        "The walrus keeps its sessions in SQLite because one file is enough.\n",
    ),
    "bill/invoice": (
        f"title: Invoices\ntype: reference\ntopics: [storage]\n{ago(1)}\nrelations: {{derived_from: [auth/session]}}",
        "The walrus counts invoices without a gap, because the tax office asks for it.\n",
    ),
    "bill/rates": (f"title: Rates\ntier: critical\n{ago(2)}", "The walrus rounds each rate to the cent, half up.\n"),
    "note/fresh": (
        f"title: Song\ntrigger_phrases: [key rotation plan]\n{ago(0)}",
        "The walrus sang all night while nobody on board could sleep.\n\n" + "Then it was quiet for a while. " * 99,
    ),
    "note/faded": (f"title: Faded\n{ago(200)}", "The walrus of last winter was heard far beyond the pier.\n"),
    "note/gone": (f"title: Gone\n{ago(400)}", "The walrus of the year before was heard at the lighthouse.\n"),
    "note/plain": (f"title: Plain\n{ago(0)}", "A harpoon hangs on the wall beside the door, oiled and dry.\n"),
    "note/brief": (
        f"title: Brief\ntier: temporary\n{ago(0)}",
        "A harpoon lies on the floor, wet and blunt, as it must.\n",
    ),
    "note/retired": (f"title: Retired\ntier: deprecated\n{ago(0)}", "The walrus used to keep everything in MySQL.\n"),
    "note/doubt": (
        f"title: Doubt\n{AGENT}\nquality: {{score: 0.5}}\n{ago(0)}",
        "The walrus may be the reason why the build is slow on some machines.\n",
    ),
    "rule/style": (f"title: Style\ntier: constitutional\n{ago(3)}", "Each walrus note is written in plain English.\n"),
}


class World:
    """A project with a memory, and its tools by name: a call answers the reply's body, or an error's code."""

    def __init__(self, project: Path, engine: Engine) -> None:
        self.project, self.engine = project, engine
        self._dispatcher = Dispatcher(choose("all"), engine)

    def __call__(self, tool: str, **arguments: Any) -> Any:
        outcome = self.answer(tool, **arguments)
        return outcome.error or outcome.reply

    def answer(self, tool: str, **arguments: Any) -> FinishedCall:
        return self._dispatcher.dispatch(tool, arguments)


Show = Callable[[World, Any], Any]
Check = Callable[[Any, Any], None]


class Row(NamedTuple):
    """A parameter, and how a call with `value` differs from one with `base` alone; a function as value is asked."""

    parameter: str
    value: Any
    check: Check
    show: Show | None = None  #: what of the answer, or of the state after it, is compared; the tool's own when absent
    base: dict[str, Any] | None = None  #: the tool's own when absent
    first: Callable[[World], object] = bool  #: done before both calls


class Tool(NamedTuple):
    """The parameters of one tool, with the call and the view that most of them share."""

    base: dict[str, Any]
    show: Show
    rows: tuple[Row, ...]


# How two answers differ


def becomes(before: Any, after: Any) -> Check:
    """The one answer is `before`, the other `after`."""

    def check(without: Any, given: Any) -> None:
        assert (without, given) == (before, after)
        assert before != after

    return check


def drops(*names: str) -> Check:
    """Exactly these are left out, and everything else stays in its order."""

    def check(without: list[str], given: list[str]) -> None:
        assert {*names} <= {*without}
        assert given == [name for name in without if name not in names]

    return check


def brings(*names: str) -> Check:
    """Exactly these come in addition."""

    def check(without: list[str], given: list[str]) -> None:
        drops(*names)(given, without)

    return check


def loses(*names: str) -> Check:
    """Exactly these are left out; what they lifted may stand elsewhere."""

    def check(without: list[str], given: list[str]) -> None:
        drops(*names)(sorted(without), sorted(given))

    return check


def keeps(*names: str) -> Check:
    """Of many, exactly these are left."""

    def check(without: list[str], given: list[str]) -> None:
        assert sorted(given) == sorted(names)
        assert {*given} < {*without}

    return check


# What is looked at


def show_hits(_: World, reply: Any) -> Any:
    return reply if isinstance(reply, str) else [hit["id"] for hit in reply["hits"]]


def show_context(_: World, reply: Any) -> list[str]:
    return [hit["id"] for hit in reply["result"]["hits"]]


def show_memories(_: World, reply: Any) -> list[str]:
    return [memory["id"] for memory in reply["memories"]]


def show_matches(_: World, reply: Any) -> list[str]:
    return [match["id"] for match in reply["matches"]]


def show_entries(_: World, reply: Any) -> list[str]:
    return [entry["id"] for entry in reply["entries"]]


def show_field(*names: str) -> Show:
    """One field of the answer, by its way from the top; an error's code as it is."""

    def show(_: World, reply: Any) -> Any:
        for name in () if isinstance(reply, str) else names:
            reply = reply.get(name)
        return reply

    return show


def show_saved(name: str) -> Show:
    """A field of the memory that the call wrote, as memory_get tells it."""

    def show(world: World, reply: Any) -> Any:
        read = world("memory_get", id=reply["id"])
        return {**read["memory"], "content": read["content"].strip()}.get(name)

    return show


def show_session_changes(world: World, _: Any) -> list[str]:
    """What the ledger says that session `s` changed."""
    return show_entries(world, world("memory_history", session_id="s"))


def show_remaining(world: World, _: Any) -> list[str]:
    """The memories of the vault by id."""
    page = world("memory_list", source="vault", include_deprecated=True, limit=100, sort_by="id")
    return show_memories(world, page)


def show_checkpoints(world: World, _: Any) -> list[str]:
    return sorted(each["name"] for each in world("checkpoint_list")["checkpoints"])


def show_fields(*names: str) -> Show:
    """Several fields of the answer."""
    return lambda _, reply: tuple(reply.get(name) for name in names)


def show_whole_song(_: World, reply: Any) -> bool:
    """Whether the hit on the song brings all of it, not an excerpt."""
    (hit,) = [hit for hit in reply.get("result", reply)["hits"] if hit["id"] == "note/fresh"]
    return bool(hit["text"] == MEMORIES["note/fresh"][1].strip())


def show_trace(*names: str) -> Show:
    """The stages that the trace tells of, and whether the last hit says why it stands there."""

    def show(world: World, reply: Any) -> Any:
        found = show_field(*names)(world, reply)
        return [each["stage"] for each in found.get("trace", ())], "why" in found["hits"][-1]

    return show


def show_room(_: World, reply: Any) -> Any:
    """Whether the reply has at most 200 tokens of four characters, and whether any hits were left out."""
    return len(json.dumps(reply, separators=(",", ":"))) <= 800, reply.get("omitted", 0) > 0


def show_known(*names: str) -> Show:
    """How many hits were shown before."""
    return lambda world, reply: len(show_field(*names, "already_shown")(world, reply) or ())


def show_broken_chain(_: World, reply: Any) -> list[str]:
    """The entries of the ledger that somebody rewrote, as the problems name them."""
    return re.findall(r"entry \d+ was changed", "\n".join(reply.get("problems", ())))


def show_triggered(world: World, _: Any) -> list[str]:
    """What the words `white paint` bring up."""
    return show_matches(world, world("memory_match_triggers", prompt="more white paint"))


def show_answer(world: World, _: Any) -> list[str]:
    """The memories that a question about whitewash finds."""
    return [hit["id"] for hit in world("memory_search", query="whitewash", include_constitutional=False)["hits"]]


def show_topic(world: World, _: Any) -> list[str]:
    """The memories on the topic `tower`."""
    return show_memories(world, world("memory_list", topic="tower"))


def show_titles(world: World, _: Any) -> list[str]:
    return [world("memory_get", id=name)["memory"]["title"] for name in ("note/plain", "note/brief")]


def show_folders(_: World, reply: Any) -> list[str]:
    return [folder["name"] for folder in reply["folders"]]


def show_edges(_: World, reply: Any) -> list[str]:
    return sorted(f"{edge['source']} > {edge['target']}" for edge in reply["edges"])


def show_links(world: World, _: Any) -> list[str]:
    """The relations of three notes."""
    replies = [world("memory_dependencies", id=f"note/{name}") for name in ("plain", "brief", "doubt")]
    edges = [edge for reply in replies for edge in reply["edges"]]
    return sorted({"{source} {relation} {target}".format(**edge).replace("note/", "") for edge in edges})


def show_chain(_: World, reply: Any) -> list[str]:
    return sorted(reply["chain"])


def show_restorable(world: World, _: Any) -> bool:
    """Whether the checkpoint `kept` can bring the deleted memory back."""
    world("checkpoint_restore", name="kept")
    return "note/plain" in show_remaining(world, None)


def show_judged(world: World, _: Any) -> list[str]:
    """The memories that somebody judged."""
    return sorted(world.engine.journal.reviews(list(MEMORIES)))


def show_imported(world: World, _: Any) -> list[str]:
    """What is in the vault once the import ran."""
    while Worker(world.engine).run_once():
        pass
    return show_remaining(world, None)


def show_jobs(world: World, _: Any) -> list[str]:
    """The states of both imports."""
    jobs = (1, waiting_import(world))
    return [world("memory_ingest_status", job_id=number)["state"] for number in jobs]


def waiting_import(world: World) -> int:
    """The second import, which nobody began to work on."""
    (job,) = [job.id for job in world.engine.journal.jobs() if job.kind == INGEST and job.id != 1]
    return job


def show_notes(world: World, _: Any) -> list[Any]:
    return [each.get("metadata") for each in world("checkpoint_list")["checkpoints"]]


def show_names(_: World, reply: Any) -> list[str]:
    return [each["name"] for each in reply["checkpoints"]]


def show_ended(world: World, _: Any) -> list[tuple[str, str]]:
    """Folder and name of each task that ended."""
    return [
        (folder, task["task"])
        for folder in ("specs/1", "specs/2")
        for task in world("memory_get_learning_history", folder=folder, only_complete=True)["tasks"]
    ]


def show_history(field: str) -> Show:
    """A field of each task of the folder `specs/1`."""

    def show(world: World, _: Any) -> list[Any]:
        tasks = world("memory_get_learning_history", folder="specs/1")["tasks"]
        return [task[field] for task in tasks]

    return show


def end_task(field: str) -> Show:
    """What a task taught, once it ended with 80, 10 and 90."""

    def show(world: World, _: Any) -> Any:
        scores = {"knowledge_score": 80, "uncertainty_score": 10, "context_score": 90}
        return world("task_postflight", **{**SCORES, **scores})[field]

    return show


# What is done before


def show_all_to_session(world: World) -> None:
    world("memory_search", **SEARCH, session_id="s")


def read_tokens(world: World) -> None:
    """Session `s` works with the memory on tokens."""
    Agent(world.engine, "s").did("Read", "the key is in the vault", 0.9, memory_id="auth/login")


def change_memories(world: World) -> None:
    """Sessions `s` and `t` change a memory each."""
    world("memory_update", id="note/plain", title="New", session_id="s")
    world("memory_update", id="note/brief", title="New", session_id="t")


def keep_and_change(world: World) -> None:
    """A checkpoint `kept`, after which one memory is deleted and another is added."""
    world("checkpoint_create", name="kept")
    world("memory_delete", id="note/plain", confirm=True)
    world("memory_save", id="note/added", content="The gulls came back in March, two weeks early.")


def keep_two(world: World) -> None:
    world("checkpoint_create", name="one")
    world("checkpoint_create", name="two")


def start_two_imports(world: World) -> None:
    """Two imports, of which the first is through."""
    world("memory_ingest_start", paths=[str(write_outside(world, "first"))])
    while Worker(world.engine).run_once():
        pass
    world("memory_ingest_start", paths=["docs"])


def write_outside(world: World, name: str = "tide") -> Path:
    """A file that no source holds."""
    return write_memory(world.project / ".elsewhere", name, "# Tide\n\nHigh water comes an hour later each day.\n")


def link_notes(world: World) -> None:
    world("memory_causal_link", source_id="note/plain", target_id="note/brief", relation="caused")


def tamper_with_ledger(world: World) -> None:
    """Somebody rewrites an entry of the ledger."""
    change_memories(world)
    sql = f"{LIFT_GUARDS['sqlite']} UPDATE ledger SET reason = 'x' WHERE seq = 1"
    tamper(world.project / ".scrimshaw/journal.db", sql)


def next_cursor(world: World) -> str:
    """Where a search for the better of two hits goes on."""
    cursor: str = world("memory_search", **{**SEARCH, "query": "harpoon", "limit": 1})["next_cursor"]
    return cursor


def keep_one(world: World) -> None:
    world("checkpoint_create", name="kept")


def keep_early_and_late(world: World) -> None:
    """A memory is deleted between the checkpoint `full` and the checkpoint `kept`."""
    world("checkpoint_create", name="full")
    world("memory_delete", id="note/plain", confirm=True)
    world("checkpoint_create", name="kept")


def begin_tasks(world: World) -> None:
    """Tasks `t` and `u` begin in one folder, `t` in another as well."""
    for folder, task in (("specs/1", "t"), ("specs/1", "u"), ("specs/2", "t")):
        world("task_preflight", **{**SCORES, "folder": folder, "task_id": task})


# The table

SEARCH = {"query": "walrus", "limit": 100, "include_constitutional": False, "token_budget": 9000}
FILTERED = {"limit": 100, "sort_by": "id"}
SAVE = {"content": "The lantern room is painted white every third spring.", "id": "room"}
SCORES = {"folder": "specs/1", "task_id": "t", "knowledge_score": 50, "uncertainty_score": 50, "context_score": 50}
COUNTED = 12  #: memories that are not deprecated, and the document
NORMAL = (
    "auth/session", "bill/invoice", "note/doubt", "note/faded", "note/fresh", "note/gone", "note/plain",
)  # fmt: skip
STAGES = ["candidate", "filter", "fusion", "rerank", "fallback", "final-rank"]


def filter_rows(*, counted: bool = False) -> tuple[Row, ...]:
    """The filters that searching, listing and counting share, by what they leave; where only counted, by how much."""

    def left(*names: str) -> Check:
        return becomes(COUNTED, len(names)) if counted else keeps(*names)

    return (
        Row("folder", "auth", left("auth/login", "auth/session")),
        Row("tier", "important", left("auth/login")),
        Row("type", "decision", left("auth/login", "auth/session")),
        Row("topic", "storage", left("auth/session", "bill/invoice")),
        Row("source", "docs", left("docs/guide")),
        Row("until", "2024-02-15", left("auth/session")),
    )


TOOLS: dict[str, Tool] = {
    "memory_context": Tool(
        {"query": "walrus"},
        show_context,
        (
            Row(
                "query",
                "harpoon",
                becomes(True, False),
                lambda world, reply: "auth/login" in show_context(world, reply),
            ),
            Row("mode", "quick", becomes(("focused", 3000), ("quick", 800)), show_fields("mode", "token_budget")),
            Row("intent", "refactor", becomes(("focused", 3000), ("deep", 3500)), show_fields("mode", "token_budget")),
            Row("folder", "auth", keeps("rule/style", "auth/login", "auth/session")),
            Row("limit", 2, becomes(8, 2), show_field("result", "count")),
            Row("session_id", "s", becomes(0, 8), show_known("result"), first=show_all_to_session),
            Row(
                "enable_dedup",
                False,
                becomes(8, 0),
                show_known("result"),
                {"query": "walrus", "session_id": "s"},
                show_all_to_session,
            ),
            Row(
                "token_usage",
                0.9,
                becomes(("focused", None), ("quick", "HIGH")),
                show_fields("mode", "pressure_level"),
            ),
            Row("include_content", True, becomes(False, True), show_whole_song, {"query": "sang", "mode": "deep"}),
            Row("include_trace", True, becomes(([], False), (STAGES, True)), show_trace("result")),
        ),
    ),
    "memory_search": Tool(
        SEARCH,
        show_hits,
        (
            *filter_rows(),
            Row(
                "query",
                "sang",
                becomes(["note/plain", "note/brief"], ["note/fresh"]),
                base={**SEARCH, "query": "harpoon"},
            ),
            Row(
                "concepts",
                ["walrus", "sqlite"],
                becomes(["auth/login"], ["auth/session"]),
                base={"concepts": ["walrus", "token"], "include_constitutional": False},
            ),
            Row("cursor", next_cursor, drops("note/plain"), base={**SEARCH, "query": "harpoon"}),
            Row("limit", 2, becomes(10, 2), show_field("count")),
            Row("since", "2024-03-01", loses("auth/session")),
            Row("intent", "fix_bug", becomes(None, "fix_bug"), show_field("intent"), {**SEARCH, "include_trace": True}),
            Row(
                "include_content", True, becomes(False, True), show_whole_song, {"query": "sang", "token_budget": 2000}
            ),
            Row("include_constitutional", False, drops("rule/style"), base={"query": "harpoon"}),
            Row("include_deprecated", True, brings("note/retired")),
            Row("min_quality_score", 0.6, drops("note/doubt")),
            Row(
                "rerank",
                False,
                becomes(["note/plain", "note/brief"], ["note/brief", "note/plain"]),
                base={**SEARCH, "query": "harpoon"},
            ),
            Row(
                "use_decay",
                False,
                brings("note/gone"),
                lambda world, reply: sorted(show_hits(world, reply)),
                {**SEARCH, "include_archived": False},
            ),
            Row("include_archived", False, drops("note/gone")),
            Row("min_state", "hot", drops("note/faded", "note/gone")),
            Row("session_id", "s", becomes(0, 10), show_known(), first=show_all_to_session),
            Row(
                "enable_dedup",
                False,
                becomes(10, 0),
                show_known(),
                {**SEARCH, "session_id": "s"},
                show_all_to_session,
            ),
            Row("token_budget", 200, becomes((False, False), (True, True)), show_room),
            Row("include_trace", True, becomes(([], False), (STAGES, True)), show_trace()),
        ),
    ),
    "memory_get": Tool(
        {"id": "auth/login"},
        show_field("content"),
        (
            Row("id", "note/plain", becomes(MEMORIES["auth/login"][1], MEMORIES["note/plain"][1])),
            Row(
                "anchor",
                "rotation",
                becomes(MEMORIES["auth/login"][1], "## Rotation\n\nThe key changes every month.\n"),
            ),
            Row("offset", 4, becomes(MEMORIES["auth/login"][1], MEMORIES["auth/login"][1][4:])),
        ),
    ),
    "memory_save": Tool(
        SAVE,
        show_saved("content"),
        (
            Row("content", "Now it is green.", becomes(SAVE["content"], "Now it is green.")),
            Row("file_path", lambda world: str(write_outside(world)), becomes("invalid", "tide"), show_field("id"), {}),
            Row("id", "tower/room", becomes("room", "tower/room"), show_field("id")),
            Row(
                "title",
                "Paint",
                becomes("The lantern room is painted white every third spring.", "Paint"),
                show_saved("title"),
            ),
            Row("type", "decision", becomes("general", "decision"), show_saved("type")),
            Row("tier", "important", becomes("normal", "important"), show_saved("tier")),
            Row("trigger_phrases", ["white paint"], becomes([], ["room"]), show_triggered),
            Row("topics", ["tower"], becomes([], ["room"]), show_topic),
            Row("questions", ["When is whitewash bought?"], becomes([], ["room"]), show_answer),
            Row(
                "supersedes",
                ["note/plain"],
                becomes([], ["room"]),
                lambda world, _: world("memory_get", id="note/plain")["superseded_by"],
            ),
            Row("session_id", "s", becomes([], ["room"]), show_session_changes),
            Row(
                "force",
                True,
                becomes(("duplicate", "note/plain"), ("saved", "room")),
                show_fields("status", "id"),
                {**SAVE, "content": MEMORIES["note/plain"][1]},
            ),
            Row("dry_run", True, becomes(True, False), lambda world, _: "room" in show_remaining(world, None)),
        ),
    ),
    "memory_update": Tool(
        {"id": "note/plain", "title": "Wall"},
        show_saved("title"),
        (
            Row("id", "note/brief", becomes(["Wall", "Brief"], ["Plain", "Wall"]), show_titles),
            Row(
                "content",
                "It hangs in the hall.",
                becomes(MEMORIES["note/plain"][1].strip(), "It hangs in the hall."),
                show_saved("content"),
            ),
            Row("title", "Door", becomes("Wall", "Door")),
            Row("type", "decision", becomes("general", "decision"), show_saved("type")),
            Row("tier", "important", becomes("normal", "important"), show_saved("tier")),
            Row("trigger_phrases", ["white paint"], becomes([], ["note/plain"]), show_triggered),
            Row("topics", ["tower"], becomes([], ["note/plain"]), show_topic),
            Row("questions", ["When is whitewash bought?"], becomes([], ["note/plain"]), show_answer),
            Row(
                "expected_hash",
                "0" * 64,
                becomes("Wall", "Plain"),
                lambda world, _: world("memory_get", id="note/plain")["memory"]["title"],
            ),
            Row("session_id", "s", becomes([], ["note/plain"]), show_session_changes),
        ),
    ),
    "memory_match_triggers": Tool(
        {"prompt": "the key rotation plan"},
        show_matches,
        (
            Row("prompt", "no key rotation", drops("note/fresh")),
            Row("limit", 1, drops("auth/login")),
            Row("folder", "auth", keeps("auth/login")),
            Row(
                "session_id",
                "s",
                becomes(
                    {"auth/login": "archived", "note/fresh": "archived"},
                    {"auth/login": "hot", "note/fresh": "archived"},
                ),
                lambda _, reply: {match["id"]: match["state"] for match in reply["matches"]},
                {"prompt": "the key rotation plan", "turn_number": 99},
                read_tokens,
            ),
        ),
    ),
    "memory_health": Tool(
        {},
        show_broken_chain,
        (Row("thorough", True, becomes([], ["entry 1 was changed"]), first=tamper_with_ledger),),
    ),
    "memory_list": Tool(
        FILTERED,
        show_memories,
        (
            *filter_rows(),
            Row("since", "2024-03-01", drops("auth/session")),
            Row("limit", 2, keeps("auth/login", "auth/session")),
            Row("offset", 2, drops("auth/login", "auth/session")),
            Row(
                "sort_by",
                "title",
                becomes(["docs/guide", "note/brief", "note/doubt"], ["note/brief", "note/doubt", "note/faded"]),
                base={"limit": 3},
            ),
            Row("include_deprecated", True, brings("note/retired")),
        ),
    ),
    "memory_stats": Tool(
        {},
        show_field("total"),
        (
            *filter_rows(counted=True),
            Row("since", "2024-03-01", becomes(COUNTED, COUNTED - 1)),
            Row("include_deprecated", True, becomes(COUNTED, COUNTED + 1)),
            Row(
                "folder_ranking",
                "recency",
                becomes(["note", "auth", "bill", "docs", "rule"], ["docs", "note", "bill", "rule", "auth"]),
                show_folders,
            ),
            Row("exclude_patterns", ["note/*", "*/login"], becomes(COUNTED, COUNTED - 7)),
            Row("limit", 1, keeps("note"), show_folders),
        ),
    ),
    "memory_dependencies": Tool(
        {"id": "bill/invoice"},
        show_edges,
        (
            Row("id", "bill/rates", becomes(["bill/invoice > auth/session"], ["auth/session > bill/rates"])),
            Row("max_depth", 2, brings("auth/session > auth/login", "auth/session > bill/rates")),
            Row("direction", "incoming", keeps("bill/invoice > auth/session"), base={"id": "auth/session"}),
        ),
    ),
    "memory_history": Tool(
        {},
        show_entries,
        (
            Row("id", "note/plain", keeps("note/plain", "note/plain"), first=change_memories),
            Row("session_id", "t", keeps("note/brief"), first=change_memories),
            Row("limit", 1, keeps("note/brief"), first=change_memories),
        ),
    ),
    "memory_delete": Tool(
        {"id": "note/plain", "confirm": True},
        show_remaining,
        (
            Row("confirm", True, drops("note/plain"), base={"id": "note/plain", "confirm": False}),
            Row("id", "note/brief", becomes(["note/plain"], ["note/brief"]), show_field("deleted")),
            Row("folder", "bill", drops("bill/invoice", "bill/rates"), base={"confirm": True}),
            Row("purge", True, becomes(True, False), show_restorable, first=keep_one),
            Row("session_id", "s", becomes([], ["note/plain"]), show_session_changes),
        ),
    ),
    "memory_bulk_delete": Tool(
        {"tier": "normal", "confirm": True},
        show_remaining,
        (
            Row("tier", "temporary", becomes([*NORMAL], ["note/brief"]), show_field("deleted")),
            Row("confirm", True, drops("note/brief"), base={"tier": "temporary", "confirm": False}),
            Row("folder", "auth", keeps("auth/session"), show_field("deleted")),
            Row("older_than_days", 300, keeps("auth/session", "note/gone"), show_field("deleted")),
            Row("dry_run", True, brings(*NORMAL)),
            Row("skip_checkpoint", True, becomes(1, 0), lambda world, _: len(show_checkpoints(world, None))),
            Row(
                "session_id",
                "s",
                becomes([], ["note/brief"]),
                show_session_changes,
                {"tier": "temporary", "confirm": True},
            ),
        ),
    ),
    "memory_validate": Tool(
        {"id": "note/plain", "was_useful": True},
        show_field("confidence"),
        (
            Row("id", "note/brief", becomes(["note/plain"], ["note/brief"]), show_judged),
            Row("was_useful", False, becomes(0.6, 0.45)),
        ),
    ),
    "memory_causal_link": Tool(
        {"source_id": "note/plain", "target_id": "note/brief", "relation": "caused"},
        show_links,
        (
            Row("source_id", "note/doubt", becomes(["plain caused brief"], ["doubt caused brief"])),
            Row("target_id", "note/doubt", becomes(["plain caused brief"], ["plain caused doubt"])),
            Row("relation", "enabled", becomes(["plain caused brief"], ["plain enabled brief"])),
            Row("session_id", "s", becomes([], ["note/plain"]), show_session_changes),
        ),
    ),
    "memory_causal_unlink": Tool(
        {"source_id": "note/plain", "target_id": "note/brief", "relation": "caused"},
        show_links,
        (Row("session_id", "s", becomes([], ["note/plain"]), show_session_changes, first=link_notes),),
    ),
    "memory_drift_why": Tool(
        {"id": "auth/login", "max_depth": 1},
        show_chain,
        (Row("id", "bill/rates", becomes(["caused"], ["supports"])),),
    ),
    "memory_index_scan": Tool(
        {},
        show_fields("updated", "unchanged"),
        (Row("force", True, becomes((0, 13), (13, 0))),),
    ),
    "memory_ingest_start": Tool(
        {"paths": ["docs"]},
        show_imported,
        (Row("paths", lambda world: [str(write_outside(world))], brings("tide")),),
    ),
    "memory_ingest_status": Tool(
        {"job_id": 1},
        show_field("state"),
        (Row("job_id", waiting_import, becomes("done", "queued"), first=start_two_imports),),
    ),
    "memory_ingest_cancel": Tool(
        {"job_id": 1},
        show_jobs,
        (Row("job_id", waiting_import, becomes(["done", "queued"], ["done", "cancelled"]), first=start_two_imports),),
    ),
    "checkpoint_create": Tool(
        {"name": "one"},
        show_checkpoints,
        (
            Row("name", "two", becomes(["one"], ["two"])),
            Row("metadata", {"why": "before the move"}, becomes([None], [{"why": "before the move"}]), show_notes),
        ),
    ),
    "checkpoint_list": Tool({}, show_names, (Row("limit", 1, keeps("two"), first=keep_two),)),
    "checkpoint_restore": Tool(
        {"name": "kept"},
        show_remaining,
        (
            Row("name", "full", brings("note/plain"), first=keep_early_and_late),
            Row("clear_existing", True, drops("note/added"), first=keep_and_change),
            Row("dry_run", True, drops("note/plain"), first=keep_and_change),
        ),
    ),
    "checkpoint_delete": Tool(
        {"name": "one", "confirm_name": "one"},
        show_checkpoints,
        (
            Row("name", "two", drops("two"), base={"name": "one", "confirm_name": "two"}, first=keep_two),
            Row("confirm_name", "one", drops("one"), base={"name": "one", "confirm_name": "two"}, first=keep_two),
        ),
    ),
    "task_preflight": Tool(
        SCORES,
        show_ended,
        (
            Row("folder", "specs/2", becomes(["t"], []), show_history("task")),
            Row("task_id", "u", becomes(["t"], ["u"]), show_history("task")),
            Row("gaps", ["locks"], becomes([[]], [["locks"]]), show_history("gaps")),
            Row("session_id", "s", becomes([""], ["s"]), show_history("session")),
            Row("knowledge_score", 20, becomes(30, 60), end_task("knowledge_gain")),
            Row("uncertainty_score", 90, becomes(40, 80), end_task("uncertainty_loss")),
            Row("context_score", 0, becomes(40, 90), end_task("context_gain")),
        ),
    ),
    "task_postflight": Tool(
        SCORES,
        show_ended,
        (
            Row("folder", "specs/2", becomes([("specs/1", "t")], [("specs/2", "t")]), first=begin_tasks),
            Row("task_id", "u", becomes([("specs/1", "t")], [("specs/1", "u")]), first=begin_tasks),
            Row("knowledge_score", 80, becomes(0, 30), show_field("knowledge_gain"), first=begin_tasks),
            Row("uncertainty_score", 10, becomes(0, 40), show_field("uncertainty_loss"), first=begin_tasks),
            Row("context_score", 70, becomes(0, 20), show_field("context_gain"), first=begin_tasks),
            Row("gaps", ["locks"], becomes([[], []], [["locks"], []]), show_history("gaps"), first=begin_tasks),
            Row("session_id", "s", becomes(["", ""], ["s", ""]), show_history("session"), first=begin_tasks),
        ),
    ),
}

ROWS = [pytest.param(name, row, id=f"{name}-{row.parameter}") for name, tool in TOOLS.items() for row in tool.rows]
ANALYSIS, LEARNING = "tests/app/test_mcp_analysis.py::test_", "tests/app/test_mcp_learning.py::test_"
REVIEW = "tests/engine/test_review.py::test_"
TESTED_ELSEWHERE = {
    (
        "memory_save",
        "vault",
    ): "tests/app/test_serena_vault.py::test_an_agent_saves_changes_and_deletes_in_the_vault_it_names",
    ("memory_search", "channels"): "tests/router/test_ask.py::test_an_answer_to_an_agent_fences_what_peers_add",
    ("memory_search", "min_confidence"): "tests/search/test_confidence.py::test_whoever_asks_for_all_gets_all",
    **dict.fromkeys(
        [("memory_causal_link", name) for name in ("strength", "evidence")],
        ANALYSIS + "a_link_is_written_and_taken_back_by_unlink",
    ),
    **dict.fromkeys(
        [("memory_causal_unlink", name) for name in ("source_id", "target_id", "relation")],
        ANALYSIS + "unlink_names_the_edge",
    ),
    **dict.fromkeys(
        [("memory_drift_why", name) for name in ("max_depth", "direction", "relations")],
        ANALYSIS + "drift_why_walks_as_asked",
    ),
    ("memory_drift_why", "include_memory_details"): ANALYSIS + "details_can_be_left_out",
    **dict.fromkeys(
        [
            ("memory_get_learning_history", name)
            for name in ("folder", "session_id", "limit", "only_complete", "include_summary")
        ],
        LEARNING + "history_counts_filters_and_sums_up",
    ),
    ("memory_search", "apply_length_penalty"): REVIEW + "the_length_penalty_can_be_switched_off",
    ("memory_search", "apply_state_limits"): REVIEW + "state_limits_pass_on_what_a_state_leaves",
    ("memory_search", "track_access"): REVIEW + "track_access_makes_a_review_and_nothing_else_does",
    ("memory_match_triggers", "turn_number"): REVIEW + "text_follows_attention_by_turn",
    ("memory_match_triggers", "include_cognitive"): REVIEW + "text_follows_attention_by_turn",
}


@pytest.fixture
def open_world(tmp_path: Path) -> Iterator[Callable[[str], World]]:
    """Opens a project of this name with all memories."""
    with ExitStack() as opened:

        def open_it(name: str) -> World:
            project = tmp_path / name
            for memory_id, (front_matter, body) in MEMORIES.items():
                write_memory(project / ".scrimshaw/memories", memory_id, body, front_matter)
            write_memory(project / "docs", "guide", "# Guide\n\nThe walrus is fed at noon.\n")
            engine = opened.enter_context(started(project))
            vouch_for(engine, "rule/style")
            return World(project, engine)

        yield open_it


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_a_parameter_has_its_effect(open_world: Callable[[str], World], name: str, row: Row) -> None:
    tool, shown = TOOLS[name], []
    base = tool.base if row.base is None else row.base
    for kind in ("without", "given"):
        world = open_world(kind)
        row.first(world)
        value = row.value(world) if callable(row.value) else row.value
        reply = world(name, **base) if kind == "without" else world(name, **{**base, row.parameter: value})
        shown.append((row.show or tool.show)(world, reply))
    row.check(*shown)


@pytest.mark.parametrize("tool", ["memory_search", "memory_list", "memory_stats"])
def test_an_unknown_source_or_folder_is_an_error_and_no_empty_answer(
    open_world: Callable[[str], World], tool: str
) -> None:
    world, query = open_world(""), {"query": "walrus"} if tool == "memory_search" else {}
    for name, value, nearest in (("source", "vualt", "vault"), ("folder", "biil", "bill")):
        outcome = world.answer(tool, **query, **{name: value})
        fault = outcome.reply["error"]
        assert (outcome.error, fault["parameter"], nearest in fault["hint"]) == ("not_found", name, True)
    assert world(tool, **query, source="record")["count" if tool == "memory_search" else "total"] == 0
    world.engine.index.retire(None)
    world.engine.degradations.put(INDEX, SCAN_PENDING)  # what is not indexed yet may be there
    assert world.answer(tool, **query, folder="biil").error == ""


def test_every_parameter_has_a_test_of_its_effect() -> None:
    here = {(name, row.parameter) for name, tool in TOOLS.items() for row in tool.rows}
    there = {(spec.name, parameter) for spec in choose("all") for parameter in input_schema(spec.call)["properties"]}
    assert not there - here - {*TESTED_ELSEWHERE}, "these need a row above that shows what they change"
    assert not (here | {*TESTED_ELSEWHERE}) - there, "no tool takes these"


@pytest.mark.parametrize("place", sorted({*TESTED_ELSEWHERE.values()}))
def test_a_test_that_is_named_exists(place: str) -> None:
    path, _, test = place.partition("::")
    assert re.search(rf"^def {test}\(", (ROOT / path).read_text(), re.MULTILINE)
