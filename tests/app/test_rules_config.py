"""The user's own extraction rules: read from the configuration, joined with the default ones, never able to break."""

from __future__ import annotations

from pathlib import Path

import pytest

from scrimshaw.config import Settings, load
from scrimshaw.errors import ConfigError
from scrimshaw.ingest.extraction import default_rules, order_rules
from scrimshaw.ingest.rule_checks import check_rules, usable_rules

DEPLOY = """
[[rules]]
id = "deploy"
tool = "^Run$"
argument = "make deploy"
attention = 0.9
kind = "decision"
"""


def settings(tmp_path: Path, project: str, home: str = "") -> Settings:
    for folder, text in ((tmp_path / "p/.scrimshaw", project), (tmp_path / "home", home)):
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(text)
    return load(tmp_path / "p", home=tmp_path / "home", environment={})


def test_an_own_rule_is_tried_before_the_default_ones(tmp_path: Path) -> None:
    rules, warnings = check_rules(settings(tmp_path, DEPLOY).rules)
    assert [rule.id for rule in rules] == ["deploy", *(rule.id for rule in order_rules(default_rules()))]
    assert warnings == []
    assert usable_rules(settings(tmp_path / "b", DEPLOY).rules) == rules


def test_an_own_rule_takes_the_place_of_the_default_of_its_name(tmp_path: Path) -> None:
    found = settings(tmp_path, DEPLOY.replace('"deploy"', '"commit"'))
    rules, _ = check_rules(found.rules)
    assert [rule.attention for rule in rules if rule.id == "commit"] == [0.9]


def test_the_rules_of_the_project_stand_for_those_of_the_user(tmp_path: Path) -> None:
    other = DEPLOY.replace('"deploy"', '"of-the-user"')
    assert [rule["id"] for rule in settings(tmp_path, DEPLOY, other).rules] == ["deploy"]
    assert [rule["id"] for rule in settings(tmp_path / "b", "", other).rules] == ["of-the-user"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('id = "a"\nattention = 1', "ExtractionRule #1 (a) cannot be used: Object missing required field `tool`"),
        ('tool = "Read"\nattention = 1', "ExtractionRule #1 (without an id)"),
        ('id = "a"\ntool = "Read"\nattention = 2', "`$.attention`"),
        ('id = "a"\ntool = "Read"\nattention = 1\ncolour = 3', "unknown field `colour`"),
        ('id = "a"\ntool = "Read"\nattention = 1\nkind = "song"', "'song'"),
        ('id = "a"\ntool = "(a+)+$"\nattention = 1', "potentially catastrophic regex: (a+)+$ (rule 'a'"),
        ('id = "a"\ntool = "(["\nattention = 1', "RE2 cannot compile: (["),
    ],
)
def test_a_rule_that_cannot_be_used_is_named(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_rules(settings(tmp_path, f"[[rules]]\n{table}\n").rules)
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "table", ['id = "a"', 'id = "a"\ntool = "(["\nattention = 1', 'id = "a"\ntool = "(a+)*"\nattention = 1']
)
def test_a_hook_skips_the_rule_that_cannot_be_used_and_no_other(tmp_path: Path, table: str) -> None:
    found = settings(tmp_path, f"[[rules]]\n{table}\n{DEPLOY}")
    assert [rule.id for rule in usable_rules(found.rules)] == [
        "deploy",
        *(rule.id for rule in order_rules(default_rules())),
    ]


def test_rules_that_are_no_tables_stop_the_loading(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rules is not allowed"):
        settings(tmp_path, "rules = 3\n")


def test_a_rule_that_can_never_win_is_a_warning(tmp_path: Path) -> None:
    late = DEPLOY.replace('"deploy"', '"late"')
    _, (warning,) = check_rules(settings(tmp_path, DEPLOY + late).rules)
    assert warning.message.startswith("rule 'late' can never win")
    assert not warning.fatal
