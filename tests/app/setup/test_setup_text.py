"""Changing the text of configuration files: what stays the same keeps its wording."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.app import json_text
from scrimshaw.app.clients.client import SharedFile
from scrimshaw.app.setup import Editor, editor_of
from scrimshaw.errors import ConfigError, Conflict

ENTRY = {"command": "/opt/bin/scrimshaw", "args": ["serve"]}
HANDLER = {"type": "command", "command": "/opt/bin/scrimshaw-hook claude", "timeout": 5}
GROUP = {"matcher": "*", "hooks": [HANDLER]}
FOREIGN = {"type": "command", "command": "lint --fix"}
JSON_EDIT = editor_of(
    SharedFile(
        path=Path("s.json"), place=("mcpServers", "scrimshaw"), entry=ENTRY, hooks={"Stop": GROUP, "Start": GROUP}
    )
)
FLAT_EDIT = editor_of(SharedFile(path=Path("h.json"), hooks={"stop": HANDLER}, base={"version": 1}))
TOML_EDIT = editor_of(
    SharedFile(path=Path("c.toml"), place=("mcp_servers", "scrimshaw"), entry={**ENTRY, "required": True})
)

KEYS = st.text(max_size=6) | st.sampled_from(["", "mcpServers", "a"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
SERVERS = st.dictionaries(KEYS, VALUES, max_size=3)
LISTS = st.dictionaries(KEYS | st.sampled_from(["Stop", "Start"]), st.lists(VALUES | st.just(GROUP), max_size=3))
NO_OURS = st.dictionaries(KEYS | st.sampled_from(["Stop", "Start"]), st.lists(VALUES, max_size=3), max_size=3)
DOCUMENTS = st.builds(
    lambda rest, known: rest | known,
    st.dictionaries(st.text(max_size=6), VALUES, max_size=4),
    st.fixed_dictionaries({}, optional={"mcpServers": SERVERS, "hooks": NO_OURS}),
)
LAYOUTS = st.sampled_from([{}, {"indent": 2}, {"indent": 4}, {"indent": "\t"}, {"separators": (",", ":")}])


def written(value: Any, layout: dict[str, Any]) -> str:
    return json.dumps(value, **layout)


@given(VALUES, VALUES, LAYOUTS)
def test_a_rewritten_text_says_the_new_value(old: Any, new: Any, layout: dict[str, Any]) -> None:
    text = written(old, layout)
    assert repr(json_text.parse_json(json_text.edit_json(text, new))) == repr(new)
    assert json_text.edit_json(text, old) == text


def test_what_stays_keeps_its_wording() -> None:
    text = '{\r\n\t"a": [1,2,   3.50],\r\n\t"b": {"x":1, "y":2},\r\n\t"c": "\\u00e9"\r\n}\r\n'
    value = {**json.loads(text), "b": {"x": 1, "y": 2, "z": {"k": ["v"]}}}
    assert json_text.edit_json(text, value) == (
        '{\r\n\t"a": [1,2,   3.50],\r\n\t"b": {"x":1, "y":2, "z": {"k": ["v"]}},\r\n\t"c": "\\u00e9"\r\n}\r\n'
    )


@given(DOCUMENTS, LAYOUTS, st.sampled_from(["", "\n", " \r\n"]))
def test_json_is_what_it_was_after_adding_and_removing(
    document: dict[str, Any], layout: dict[str, Any], end: str
) -> None:
    text = written(document, layout) + end
    added = JSON_EDIT.add(text)
    assert JSON_EDIT.add(added) == added
    assert JSON_EDIT.remove(text) == text
    assert without_empties(json.loads(JSON_EDIT.remove(added))) == without_empties(document)


def without_empties(document: dict[str, Any]) -> Any:
    """Containers that were empty before setup are gone after it; the copy of the file has them."""
    result = dict(document)
    if isinstance(hooks := result.get("hooks"), dict):
        result["hooks"] = {key: value for key, value in hooks.items() if value or key not in ("Stop", "Start")}
    return {key: value for key, value in result.items() if value or key not in ("hooks", "mcpServers")}


@given(DOCUMENTS, st.sampled_from(["\n", "\r\n"]))
def test_json_with_remarks_keeps_them_and_comes_back(document: dict[str, Any], end: str) -> None:
    lines = written(without_empties(document) | {"z": 1}, {"indent": 2}).split("\n")
    text = end.join(f"{line} // remark {number}, too" for number, line in enumerate(lines))
    added = JSON_EDIT.add(text)
    assert [added.count(f"// remark {number}, too") for number in range(len(lines))] == [1] * len(lines)
    assert JSON_EDIT.add(added) == added
    assert JSON_EDIT.remove(added) == text


@given(LISTS)
def test_our_hooks_stand_once_and_only_where_they_belong(lists: dict[str, Any]) -> None:
    added = json.loads(JSON_EDIT.add(json.dumps({"hooks": lists})))["hooks"]
    for event, elements in added.items():
        assert elements.count(GROUP) == (1 if event in ("Stop", "Start") else 0)


def test_a_foreign_handler_in_our_group_stays() -> None:
    mixed = {"hooks": {"Stop": [{"matcher": "*", "hooks": [FOREIGN, HANDLER]}], "Other": [{"hooks": [HANDLER]}]}}
    rest = json.loads(JSON_EDIT.remove(json.dumps(mixed)))
    assert rest == {"hooks": {"Stop": [{"matcher": "*", "hooks": [FOREIGN]}]}}


@pytest.mark.parametrize("key", ["command", "bash", "run"])
def test_flat_handlers_are_known_by_their_command_under_any_key(key: str) -> None:
    older = {"name": "an 'open quote", key: "'/old place/scrimshaw-hook' cursor", "timeout": 9}
    text = json.dumps({"hooks": {"stop": [FOREIGN, older], "gone": [older]}})
    added = json.loads(FLAT_EDIT.add(text))
    assert added == {"hooks": {"stop": [FOREIGN, HANDLER]}, "version": 1}


@pytest.mark.parametrize("command", ["echo scrimshaw-hook", "scrimshaw-hooks x", "my'scrimshaw-hook", "", 7, None])
def test_other_commands_are_not_ours(command: object) -> None:
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"command": command}]}]}})
    assert JSON_EDIT.remove(text) == text


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        ({"command": "scrimshaw", "args": ["serve"]}, True),
        ({"command": "uvx", "args": ["scrimshaw", "serve"]}, True),
        ({"command": ["C:\\bin\\scrimshaw.exe", "serve"]}, True),
        ({"command": "node", "args": ["/home/me/scrimshaw"]}, False),
        ({"url": "https://example.invalid/scrimshaw"}, False),
        ("scrimshaw", False),
    ],
)
def test_a_server_of_our_name_is_ours_by_its_command(entry: object, ours: bool) -> None:
    text = json.dumps({"mcpServers": {"scrimshaw": entry}})
    assert (JSON_EDIT.remove(text) != text) == ours
    if not ours:
        with pytest.raises(Conflict, match="runs something else"):
            JSON_EDIT.add(text)


def test_the_users_own_keys_in_our_entry_stay() -> None:
    held = {"command": "scrimshaw", "env": {"A": "1"}, "disabled": True}
    added = json.loads(JSON_EDIT.add(json.dumps({"mcpServers": {"scrimshaw": held}})))
    assert added["mcpServers"]["scrimshaw"] == {**ENTRY, "env": {"A": "1"}, "disabled": True}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  "a": 1,\n}', "s.json:[23]: not JSON"),
        ('{"a": 1, "a": 2}', "s.json:1: not JSON: a key occurs twice"),
        ("[]", "s.json:1: the file does not contain an object"),
        ('{"mcpServers": []}', "`mcpServers` is not an object"),
        ('{"hooks": 1}', "`hooks` is not an object"),
        ('{"hooks": {"Stop": {}}}', "`hooks.Stop` is not a list"),
        ("\ufeff{}", "s.json:1: not JSON"),
    ],
)
def test_json_that_cannot_be_changed_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        JSON_EDIT.add(text)


def test_json_in_which_a_comment_would_hide_what_follows_is_left_alone() -> None:
    text = '{ // mine\n  "mcpServers": {"scrimshaw": {"command": "scrimshaw"}}, "theme": "dark" }\n'
    with pytest.raises(ConfigError, match=r"s\.json cannot be changed safely"):
        JSON_EDIT.remove(text)


NAMES = st.text(st.sampled_from("abc-_ é.\"'"), min_size=1, max_size=4)
TABLES = st.dictionaries(NAMES, st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2), max_size=3)
TOML = st.fixed_dictionaries(
    {"model": st.text(max_size=5)},
    optional={"mcp_servers": st.dictionaries(NAMES, TABLES, min_size=1, max_size=3), "zz": TABLES},
)


@given(TOML)
def test_toml_is_what_it_was_after_adding_and_removing(document: dict[str, Any]) -> None:
    text = "# mine\n" + tomlkit.dumps(document)
    added = TOML_EDIT.add(text)
    assert tomllib.loads(added)["mcp_servers"]["scrimshaw"] == {**ENTRY, "required": True}
    assert TOML_EDIT.add(added) == added
    assert tomllib.loads(TOML_EDIT.remove(added)) == tomllib.loads(text)


ODD_TOML = [
    "",
    "# only a comment",
    'a = 1\n[mcp_servers.one]\ncommand = "x" # why\n[other]\nk = 1\n[mcp_servers.two]\ncommand = "y"\n',
    'mcp_servers = { one = { command = "x" } }\n',
    'mcp_servers.one.command = "x"\n',
    '[mcp_servers]\none = { command = "x" }\n\n[z]\n',
    'text = """\n[mcp_servers.scrimshaw]\n"""\n',
    'a = 1\r\n[mcp_servers.one]\r\ncommand = "x"\r\n',
]


@pytest.mark.parametrize("text", ODD_TOML)
def test_toml_of_every_form_keeps_its_lines(text: str) -> None:
    added = TOML_EDIT.add(text)
    wanted = tomllib.loads(text)
    wanted["mcp_servers"] = {**wanted.get("mcp_servers", {}), "scrimshaw": {**ENTRY, "required": True}}
    assert tomllib.loads(added) == wanted
    assert TOML_EDIT.add(added) == added
    assert tomllib.loads(TOML_EDIT.remove(added)) == tomllib.loads(text)
    if "{" not in text:
        assert set(text.splitlines()) <= set(added.splitlines())
    assert added.count("\r\n") in ((0,) if "\r" not in text else (added.count("\n"),))


def test_a_tool_approval_below_our_table_stays() -> None:
    text = TOML_EDIT.add("") + '\n[mcp_servers.scrimshaw.tools.memory_save]\napproval_mode = "approve"\n'
    newer = editor_of(
        SharedFile(
            path=Path("c.toml"),
            place=("mcp_servers", "scrimshaw"),
            entry={"command": "/new/scrimshaw", "args": ["serve"]},
        )
    )
    entry = tomllib.loads(newer.add(text))["mcp_servers"]["scrimshaw"]
    assert entry["command"] == "/new/scrimshaw"
    assert entry["tools"] == {"memory_save": {"approval_mode": "approve"}}
    assert TOML_EDIT.remove(text).strip() == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [("a = \n", "c.toml is not TOML: .*line 1"), ("mcp_servers = 1", "`mcp_servers` is not a table")],
)
def test_toml_that_cannot_be_changed_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TOML_EDIT.add(text)


@pytest.mark.parametrize("edit", [JSON_EDIT, TOML_EDIT])
def test_the_server_in_a_text_is_named(edit: Editor) -> None:
    assert edit.read_program("") == ""
    assert edit.read_program(edit.add("")) == "/opt/bin/scrimshaw"
