"""Several vaults as one memory over HTTP: one search over all, ids that carry the vault, and everything else in one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp.client.client import Client
from tests.http_server import HttpServer, serve_http
from tests.samples import write_memory

from scrimshaw.app.http.tokens import TokenScope
from scrimshaw.config import load
from scrimshaw.engine import open_engine

NAMES = ("shop", "billing", "wages")


class Team(NamedTuple):
    """A server of three vaults, and a token that writes in the first and reads the second."""

    server: HttpServer
    secret: str
    root: Path


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    root = tmp_path_factory.mktemp("team")
    for name in NAMES:
        folder = root / name / ".scrimshaw/memories"
        write_memory(folder, "gate", f"# Gate of {name}\nThe harbour gate of {name} shuts at dusk.")
        for number in range(4):
            write_memory(folder, f"tide/{number}", f"# Tide {number}\nThe spring tide of {name} turns at {number}.")
    (root / "home").mkdir()
    tables = (f'[[vaults]]\nname = "{name}"\npath = "{(root / name).as_posix()}"\n' for name in NAMES)
    (root / "home/config.toml").write_text("".join(tables))
    with serve_http(root, root / "home", "--toolsets", "all") as server:
        secret = server.token("ana", {root / "shop": TokenScope.WRITE, root / "billing": TokenScope.READ})
        yield Team(server, secret, root)


def ids(found: Any) -> list[str]:
    return [hit["id"] for hit in found["hits"]]


def test_a_search_finds_what_all_vaults_of_the_token_hold_and_no_more(team: Team) -> None:
    found = team.server.call(team.secret, "memory_search", query="harbour gate shuts at dusk")
    assert {"shop:gate", "billing:gate"} <= {*ids(found)}
    assert "wages" not in str(found)


def test_context_comes_from_all_vaults(team: Team) -> None:
    found = team.server.call(team.secret, "memory_context", query="harbour gate shuts at dusk")
    assert {"shop:gate", "billing:gate"} <= {*ids(found["result"])}


def test_a_search_may_be_limited_to_one_vault(team: Team) -> None:
    by_argument = team.server.call(team.secret, "memory_search", query="harbour gate", vault="billing")
    by_path = team.server.call(team.secret, "memory_search", query="harbour gate", path="/mcp/billing")
    assert by_argument["vault"] == "billing"
    assert ids(by_argument) == ids(by_path)
    assert ids(by_path)[0] == "gate"


def test_pages_of_all_vaults_hold_each_hit_once(team: Team) -> None:
    seen, cursor = list[str](), ""
    for _ in range(9):
        more: dict[str, Any] = {
            "query": "spring tide",
            "limit": 3,
            "min_confidence": 0,
            "token_budget": 5000,
            "cursor": cursor,
            "use_decay": False,  # which may order equal hits in another way some seconds later
        }
        found = team.server.call(team.secret, "memory_search", **more)
        seen += ids(found)
        cursor = found.get("next_cursor", "")
        if not cursor:
            break
    assert len(seen) == len({*seen})
    assert {f"{vault}:tide/{number}" for vault in NAMES[:2] for number in range(4)} <= {*seen}


def test_an_id_of_a_search_is_read_and_an_access_is_counted_in_its_vault(team: Team) -> None:
    read = team.server.call(team.secret, "memory_get", id="billing:gate")
    assert (read["vault"], "of billing" in read["content"]) == ("billing", True)
    team.server.call(team.secret, "memory_search", query="harbour gate", track_access=True)
    for name in NAMES[:2]:
        with open_engine(load(team.root / name, home=team.root / "home", environment={})) as engine:
            assert [*engine.journal.reviews(["gate", "shop:gate", "billing:gate"])] == ["gate"]


def test_a_save_goes_into_the_vault_that_it_names(team: Team) -> None:
    saved = team.server.call(team.secret, "memory_save", content="The crane is painted red.", id="crane", vault="shop")
    assert (saved["vault"], saved["status"]) == ("shop", "saved")
    assert (team.root / "shop/.scrimshaw/memories/crane.md").is_file()
    assert "shop:crane" in ids(team.server.call(team.secret, "memory_search", query="crane painted red"))


def test_a_tools_own_vault_is_written_behind_the_name(team: Team) -> None:
    text = "The pilot's launch is moored at the old quay."
    saved = team.server.call(team.secret, "memory_save", content=text, id="launch", vault="shop:vault")
    assert (saved["vault"], saved["status"]) == ("shop", "saved")
    refused = team.server.call(team.secret, "memory_save", content="The buoy is lit.", id="buoy", vault="shop:serena")
    assert "there is no .serena/memories" in refused["error"]["message"]


def test_the_ids_that_a_save_replaces_carry_the_vault(team: Team) -> None:
    given: dict[str, Any] = {"content": "The winch was mended.", "supersedes": ["shop:tide/3", "shop:tide/2"]}
    saved = team.server.call(team.secret, "memory_save", **given)
    assert (saved["vault"], saved["status"]) == ("shop", "saved")
    for name in given["supersedes"]:
        assert team.server.call(team.secret, "memory_get", id=name)["superseded_by"] == [saved["id"]]


def test_an_id_carries_the_vault_under_another_name_of_its_parameter(team: Team) -> None:
    assert team.server.call(team.secret, "memory_get", memory_id="billing:gate")["vault"] == "billing"


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("memory_save", {"content": "The crane is green.", "vault": "billing"}, "forbidden"),
        ("memory_update", {"id": "billing:gate", "title": "Other"}, "forbidden"),
        ("memory_save", {"content": "The crane is green."}, "invalid"),
        ("memory_get", {"id": "gate"}, "invalid"),
        ("memory_get", {"id": "wages:gate"}, "invalid"),
        ("memory_get", {"id": "gate", "vault": "wages"}, "not_found"),
        ("memory_get", {"id": "gate", "vault": "nowhere"}, "not_found"),
        ("memory_search", {"query": "gate", "vault": "wages"}, "not_found"),
        (
            "memory_causal_link",
            {"source_id": "shop:gate", "target_id": "billing:gate", "relation": "supports"},
            "invalid",
        ),
        ("memory_nothing", {}, "not_found"),
    ],
)
def test_what_no_vault_answers(team: Team, tool: str, arguments: dict[str, Any], code: str) -> None:
    assert team.server.call(team.secret, tool, **arguments)["error"]["code"] == code


def test_a_token_for_one_vault_may_name_it(team: Team) -> None:
    secret = team.server.token("cy", {team.root / "shop": TokenScope.WRITE})
    for path in ("/mcp", "/mcp/shop"):
        call = partial(team.server.call, secret, path=path)
        assert call("memory_get", id="shop:gate") == call("memory_get", id="gate")
        assert "of shop" in call("memory_get", id="gate", vault="shop")["content"]
        assert "gate" in ids(call("memory_search", query="harbour gate shuts at dusk", vault="shop"))
        assert call("memory_get", id="billing:gate")["error"]["code"] == "not_found"
        assert "no parameter" in call("memory_search", query="gate", vault="billing")["error"]["message"]
        refused = call("memory_save", content="The buoy is lit.", id="buoy", vault="serena")
        assert "there is no .serena/memories" in refused["error"]["message"]


def test_resources_prompts_and_schemas_name_the_vault(team: Team) -> None:
    async def work(client: Client) -> Any:
        listed, cursor = list[str](), None
        while True:
            page = await client.list_resources(cursor=cursor)
            listed += [each.name for each in page.resources]
            cursor = page.next_cursor
            if not cursor:
                break
        gate = await client.read_resource("memory://billing:gate")
        prompt = await client.get_prompt("recall", {"topic": "harbour gate"})
        tools = await client.list_tools()
        return listed, str(gate.contents[0]), str(prompt.messages[0].content), tools.tools

    listed, gate, prompt, tools = team.server.ask(team.secret, work)
    assert {"shop:gate", "billing:tide/3"} <= {*listed}
    assert not [name for name in listed if name.startswith("wages")]
    assert "of billing" in gate
    assert "memory://shop:gate" in prompt
    assert "memory://billing:gate" in prompt
    places = {each.name: each.input_schema["properties"]["vault"]["enum"] for each in tools}
    assert places.pop("memory_save") == [
        *("shop", "billing"),
        *(f"{name}:{place}" for name in ("shop", "billing") for place in ("serena", "vault")),
    ]
    assert {*map(tuple, places.values())} == {("shop", "billing")}
