"""Nothing of a vault reaches a token of another one: by no tool, resource, prompt, route, error or existence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from tests.http_server import HttpServer, serve_http
from tests.samples import write_memory

from scrimshaw.app.http.tokens import TokenScope
from scrimshaw.app.mcp.tools import ALL_TOOLS

# Words, ids and names that stand only in the other vault.
OTHERS = "zanzibar"
HIDDEN_ID, ABSENT_ID = f"{OTHERS}/ledger", "nowhere/nothing"
# What each tool is asked about the other vault; `ID` is an id that is there, or one that is nowhere.
QUESTIONS: dict[str, dict[str, Any]] = {
    "memory_context": {"query": f"{OTHERS} ledger", "mode": "deep"},
    "memory_search": {"query": f"{OTHERS} ledger", "min_confidence": 0, "include_trace": True},
    "memory_get": {"id": "ID"},
    "memory_save": {"content": "See [[ID]].", "id": "note/reference", "dry_run": True},
    "memory_update": {"id": "ID", "title": "Taken"},
    "memory_match_triggers": {"prompt": f"what about the {OTHERS} rule?"},
    "memory_health": {"thorough": True},
    "memory_list": {"folder": OTHERS},
    "memory_stats": {},
    "memory_dependencies": {"id": "ID"},
    "memory_history": {"id": "ID"},
    "memory_delete": {"id": "ID", "confirm": True, "purge": True},
    "memory_bulk_delete": {"tier": "normal", "folder": OTHERS, "confirm": True, "dry_run": True},
    "memory_validate": {"id": "ID", "was_useful": True},
    "memory_causal_link": {"source_id": "gate", "target_id": "ID", "relation": "supports"},
    "memory_causal_unlink": {"source_id": "gate", "target_id": "ID", "relation": "caused"},
    "memory_causal_stats": {},
    "memory_drift_why": {"id": "ID"},
    "memory_index_scan": {"force": True},
    "memory_ingest_start": {"paths": ["ID"]},
    "memory_ingest_status": {"job_id": 1},
    "memory_ingest_cancel": {"job_id": 1},
    "checkpoint_create": {"name": "own"},
    "checkpoint_list": {},
    "checkpoint_restore": {"name": OTHERS, "dry_run": True},
    "checkpoint_delete": {"name": OTHERS, "confirm_name": OTHERS},
    "task_preflight": {
        "folder": "docks", "task_id": "1", "knowledge_score": 1, "uncertainty_score": 1, "context_score": 1,
    },
    "task_postflight": {
        "folder": "docks", "task_id": "1", "knowledge_score": 2, "uncertainty_score": 1, "context_score": 1,
    },
    "memory_get_learning_history": {"folder": OTHERS},
}  # fmt: skip
# Ways to write the id of a memory in another vault.
FORMS = ("{}", "billing/{}", "billing:{}", "../../../billing/.scrimshaw/memories/{}", "mem:{}", "[[{}]]", "{}.md")
PATHS = ("/mcp/{}", "/mcp/{}/", "/mcp/shop/../{}", "/mcp?vault={}", "/{}", "/metrics?vault={}")


class Team(NamedTuple):
    """A server of two vaults, a token for one of them as its administrator, and one for the other."""

    server: HttpServer
    own: str
    other: str
    billing: Path


@pytest.fixture
def team(shared: Team) -> Team:
    """The team with a token of this test alone: all tests at once may spend the requests of one."""
    shop = shared.billing.parent / "shop"
    return shared._replace(own=shared.server.token(f"ana-{token_hex(4)}", {shop: TokenScope.ADMIN}))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    root = tmp_path_factory.mktemp("team")
    shop, billing, home = root / "shop", root / "billing", root / "home"
    write_memory(shop / ".scrimshaw/memories", "gate", "# Gate\nThe harbour gate shuts at dusk.")
    text = f"---\ntrigger_phrases: [{OTHERS} rule]\n---\n# {OTHERS}\nThe {OTHERS} ledger is kept by Zoe.\n"
    write_memory(billing / ".scrimshaw/memories", HIDDEN_ID, text)
    home.mkdir()
    tables = (f'[[vaults]]\nname = "{each.name}"\npath = "{each.as_posix()}"\n' for each in (shop, billing))
    (home / "config.toml").write_text("".join(tables))
    with serve_http(root, home, "--toolsets", "all") as server:
        own = server.token("ana", {shop: TokenScope.ADMIN})
        other = server.token("zoe", {billing: TokenScope.ADMIN})
        yield Team(server, own, other, billing)


def fill(value: Any, memory_id: str) -> Any:
    """A question with an id in its place."""
    if isinstance(value, dict):
        return {name: fill(each, memory_id) for name, each in value.items()}
    if isinstance(value, list):
        return [fill(each, memory_id) for each in value]
    return value.replace("ID", memory_id) if isinstance(value, str) else value


def test_every_tool_has_a_question() -> None:
    assert QUESTIONS.keys() == {spec.name for spec in ALL_TOOLS}


def test_the_other_vault_is_there_for_its_own_token(team: Team) -> None:
    found = team.server.call(team.other, "memory_search", query=f"{OTHERS} ledger")
    assert [hit["id"] for hit in found["hits"]] == [HIDDEN_ID]
    assert team.server.call(team.other, "memory_match_triggers", prompt=f"the {OTHERS} rule")["matches"]


@pytest.mark.parametrize("tool", QUESTIONS)
def test_no_tool_tells_of_another_vault(team: Team, tool: str) -> None:
    for form in FORMS if "ID" in str(QUESTIONS[tool]) else FORMS[:1]:
        hidden, absent = form.format(HIDDEN_ID), form.format(ABSENT_ID)
        answers = [str(team.server.call(team.own, tool, **fill(QUESTIONS[tool], each))) for each in (hidden, absent)]
        # What was asked comes back in errors; nothing else may.
        echoed = answers[0].replace(hidden, absent).replace(HIDDEN_ID, ABSENT_ID)
        assert "Zoe" not in answers[0]
        assert str(team.billing) not in answers[0]
        if "ID" in str(QUESTIONS[tool]):
            assert OTHERS not in echoed
    assert (team.billing / f".scrimshaw/memories/{HIDDEN_ID}.md").is_file()


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
@pytest.mark.parametrize(
    "path", ["/mcp/{}", "/mcp/{}/", "/mcp/shop/../{}", "/mcp?vault={}", "/{}", "/metrics?vault={}", "/pull/{}"]
)
def test_no_route_tells_whether_another_vault_exists(team: Team, path: str, method: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    more: dict[str, Any] = {"method": method, "json": message} if method == "POST" else {"method": method}
    answers = [team.server.send(path.format(name), team.own, **more) for name in ("billing", "nothing")]
    said = [(each.status_code, each.text.replace("billing", "nothing")) for each in answers]
    if "metrics" not in path:  # which counts on
        assert said[0] == said[1]
    assert OTHERS not in said[0][1]
    assert "billing" not in answers[0].text


def test_resources_and_prompts_are_of_the_own_vault(team: Team) -> None:
    async def work(client: Client) -> list[str]:
        said = [str(await client.list_resources()), str(await client.get_prompt("recall", {"topic": "the ledger"}))]
        for form in FORMS:
            for name in (HIDDEN_ID, ABSENT_ID):
                with pytest.raises(MCPError) as refused:
                    await client.read_resource(f"memory://{form.format(name)}")
                said.append(str(refused.value).replace(name, "NAME"))
        return said

    resources, prompt, *refusals = team.server.ask(team.own, work)
    assert OTHERS not in resources + prompt
    assert "gate" in resources
    assert refusals[::2] == refusals[1::2]
