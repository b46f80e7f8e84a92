"""Settings: every key bounded, every bad value named, every source of values in its turn."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import msgspec.inspect
import pytest

from scrimshaw.config import CONFIG_FILE, SECTIONS, KeyInfo, Settings, all_keys, find_project, load
from scrimshaw.errors import ConfigError
from scrimshaw.models import ArtifactClass

KEYS = {f"{info.section}.{info.key}": info for info in all_keys()}


def bounds(section: str, key: str) -> tuple[float, float] | None:
    """The range of a numeric key as its type states it."""
    field = next(field for field in msgspec.structs.fields(SECTIONS[section]) if field.encode_name == key)
    kind: Any = msgspec.inspect.type_info(field.type)
    kind = kind.type if isinstance(kind, msgspec.inspect.Metadata) else kind
    if not isinstance(kind, msgspec.inspect.IntType | msgspec.inspect.FloatType):
        return None
    assert kind.ge is not None, f"{section}.{key} has no lower end"
    assert kind.le is not None, f"{section}.{key} has no upper end"
    return kind.ge, kind.le


NUMBERS = {name: (info, *ends) for name, info in KEYS.items() if (ends := bounds(info.section, info.key)) is not None}


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """(project, home), both without a configuration."""
    (tmp_path / "project/.scrimshaw").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return tmp_path / "project", tmp_path / "home"


def loaded(
    places: tuple[Path, Path], project: str = "", home: str = "", environment: Mapping[str, str] | None = None
) -> Settings:
    (places[0] / ".scrimshaw" / CONFIG_FILE).write_text(project)
    (places[1] / CONFIG_FILE).write_text(home)
    return load(places[0], home=places[1], environment=environment or {})


def refused(places: tuple[Path, Path], project: str = "", **others: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(places, project, **others)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return caught.value.message


def value_of(settings: Settings, name: str) -> Any:
    section, _, key = name.partition(".")
    return getattr(getattr(settings, section), key)


# What is documented


def test_every_key_says_what_it_is() -> None:
    assert len(KEYS) > 50
    for name, info in KEYS.items():
        assert info.description, name
        assert info.allowed, name
        assert info.environment, name
        assert info.environment[0] == info.environment[0].upper()
    assert len({variable for info in KEYS.values() for variable in info.environment}) >= len(KEYS)


def test_numbers_say_their_range() -> None:
    """`bounds` has met every number already, and stops at one without both ends."""
    assert len(NUMBERS) > 40
    assert all(" from " in info.allowed and " to " in info.allowed for info, _, _ in NUMBERS.values())


def test_the_defaults_keep_to_their_own_ranges() -> None:
    for section, kind in SECTIONS.items():
        for field in msgspec.structs.fields(kind):
            assert msgspec.convert(field.default, field.type) == field.default, f"{section}.{field.name}"


# Values


def all_numbers(write: Callable[[float, float], object]) -> str:
    """A configuration with every number at once; `write` makes its value of the ends of its range."""
    lines: dict[str, list[str]] = {}
    for info, low, high in NUMBERS.values():
        lines.setdefault(info.section, []).append(f"{info.key} = {write(low, high)}\n")
    return "".join(f"[{section}]\n{''.join(keys)}" for section, keys in lines.items())


@pytest.mark.parametrize("end", [min, max])
def test_the_ends_of_every_range_are_allowed(places: tuple[Path, Path], end: Callable[..., float]) -> None:
    settings = loaded(places, all_numbers(end))
    assert {name: value_of(settings, name) for name in NUMBERS} == {
        name: end(low, high) for name, (_, low, high) in NUMBERS.items()
    }


@pytest.mark.parametrize("beyond", [lambda low, _: low - 1, lambda _, high: high + 1])
def test_what_lies_beyond_a_range_is_refused(places: tuple[Path, Path], beyond: Callable[..., float]) -> None:
    message = refused(places, all_numbers(beyond))
    for name, (info, low, high) in NUMBERS.items():
        assert f"{name} = {beyond(low, high)!r} is not allowed; expected {info.allowed}" in message


@pytest.mark.parametrize("text", ['"invalid"', "nan", "inf", "-inf", "true", "[]", "{}"])
def test_what_is_no_number_is_refused_for_every_number(places: tuple[Path, Path], text: str) -> None:
    message = refused(places, all_numbers(lambda low, high: text))
    assert [name for name in NUMBERS if f"{name} = " not in message] == []


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("features.session_boost", '"yes"'),
        ("features.session_boost", "1"),
        ("features.profile", '"fast"'),
        ("session.pressure_thresholds", "[]"),
        ("session.pressure_thresholds", "[0.6]"),
        ("session.pressure_thresholds", "[0.6, 1.1]"),
        ("session.pressure_thresholds", "[0.6, 0.7, 0.8]"),
        ("session.pressure_thresholds", '["a", "b"]'),
        ("forgetting.state_thresholds", "[0.8, 0.5, 0.35]"),
        ("embedding.provider", '"gpt"'),
        ("embedding.model", "3"),
        ("search.limit", "1.5"),
        ("search.strict_queries", '"on"'),
    ],
)
def test_a_value_of_another_kind_is_refused(places: tuple[Path, Path], key: str, text: str) -> None:
    section, _, name = key.partition(".")
    message = refused(places, f"[{section}]\n{name} = {text}\n")
    assert f"{key} = " in message
    assert f"expected {KEYS[key].allowed}" in message


@pytest.mark.parametrize(
    ("key", "text", "way"),
    [
        ("session.pressure_thresholds", "[0.8, 0.6]", "rising"),
        ("forgetting.state_thresholds", "[0.25, 0.35, 0.5, 0.8]", "falling"),
        ("forgetting.state_thresholds", "[0.8, 0.5, 0.55, 0.25]", "falling"),
    ],
)
def test_thresholds_out_of_order_are_refused(places: tuple[Path, Path], key: str, text: str, way: str) -> None:
    section, _, name = key.partition(".")
    assert f"{key} = {text} is not in {way} order" in refused(places, f"[{section}]\n{name} = {text}\n")
    variable = f"SCRIMSHAW_{section}_{name}".upper()
    assert f"environment: {key}" in refused(places, environment={variable: text})


def test_thresholds_may_fall_together(places: tuple[Path, Path]) -> None:
    assert loaded(places, "[session]\npressure_thresholds = [0.7, 0.7]\n").session.pressure_thresholds == (0.7, 0.7)


def test_every_bad_value_is_named_at_once(places: tuple[Path, Path]) -> None:
    message = refused(
        places,
        "[session]\nboost_limit = 3\ndecay_rate = -1\n[search]\nlimit = 0\n",
        home="[context]\nquick_tokens = 1\n",
        environment={"SCRIMSHAW_EMBEDDING_TIMEOUT_S": "soon"},
    )
    for name in ("session.boost_limit", "session.decay_rate", "search.limit", "context.quick_tokens",
                 "embedding.timeout_s"):  # fmt: skip
        assert name in message
    assert f"{places[1] / CONFIG_FILE}: context.quick_tokens" in message
    assert "environment: embedding.timeout_s" in message


def test_unknown_keys_and_sections_are_named_and_have_no_effect(places: tuple[Path, Path]) -> None:
    path = places[0] / ".scrimshaw" / CONFIG_FILE
    unknown = "is not known, and has no effect"
    settings = loaded(places, "[search]\nlimits = 3\ncandidates = 20\n")
    assert settings.ignored == (f"{path}: search.limits = 3 {unknown}. Did you mean limit?",)
    assert settings.search.candidates == 20
    (section,) = loaded(places, "[serach]\nlimit = 3\n").ignored
    assert f"{unknown}; the sections are features, rollout, session" in section
    (misplaced,) = loaded(places, home="boost_limit = 0.1\n").ignored
    assert misplaced.startswith(f"{places[1] / CONFIG_FILE}: ")
    assert "it belongs to [session] boost_limit: a number from 0 to 0.2" in misplaced
    (variable,) = loaded(places, environment={"SCRIMSHAW_SEARCH_LIMITS": "3"}).ignored
    assert variable.startswith(f"environment: SCRIMSHAW_SEARCH_LIMITS {unknown}. Did you mean SCRIMSHAW_SEARCH_LIMIT")


def test_a_section_that_is_no_table_is_refused(places: tuple[Path, Path]) -> None:
    assert "search = 3 is not known" in refused(places, "search = 3\n")
    assert "storage = 3 is not known" in refused(places, "storage = 3\n")


@pytest.mark.parametrize(
    "text",
    [
        "[embedding]\napi_key = 7070\n",
        "api_key = '7070'\n",
        "[embeding]\napi_key = '7070'\n",
        "[embedding]\nkey = 7070\n",
        "[embedding]\nAPI_KEY = '7070'\n",
        "[embedding]\nextra = [{api_key = '7070'}]\n",
        "[[embeding]]\napi_key = '7070'\n",
    ],
)
def test_a_key_that_is_refused_or_without_effect_is_not_shown(places: tuple[Path, Path], text: str) -> None:
    is_refused = text == "[embedding]\napi_key = 7070\n"
    message = refused(places, text) if is_refused else "".join(loaded(places, text).ignored)
    assert "(not shown)" in message
    assert "7070" not in message


@pytest.mark.parametrize(
    ("given", "wanted"), [("7070", "7070"), ("off", "off"), ("a key", "a key"), ("'quoted'", "quoted"), ('"q"', "q")]
)
def test_a_text_in_the_environment_needs_no_quotes(places: tuple[Path, Path], given: str, wanted: str) -> None:
    assert loaded(places, environment={"SCRIMSHAW_EMBEDDING_API_KEY": given}).embedding.api_key == wanted


@pytest.mark.parametrize("raw", [b"[search\n", b"\xff\xfe", b"limit = \n", b"a = 1\na = 2\n"])
def test_a_file_that_is_no_toml_is_named(places: tuple[Path, Path], raw: bytes) -> None:
    path = places[0] / ".scrimshaw" / CONFIG_FILE
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match=re.escape(str(path))):
        load(places[0], home=places[1], environment={})


def test_a_file_with_a_byte_order_mark_is_read(places: tuple[Path, Path]) -> None:
    assert loaded(places, "\ufeff[search]\nlimit = 3\n").search.limit == 3


@pytest.mark.parametrize(
    ("text", "limit"), [("# limit = 3\n\t # more\n\r\n", 10), ("# why\n \t[search]\n limit = 3", 3)]
)
def test_comments_set_nothing(places: tuple[Path, Path], text: str, limit: int) -> None:
    assert loaded(places, text).search.limit == limit


# Where values come from


def test_later_sources_win(places: tuple[Path, Path]) -> None:
    home, project = "[search]\nlimit = 2\ncandidates = 20\n", "[search]\nlimit = 3\n"
    settings = loaded(places, project, home, {"SCRIMSHAW_SEARCH_TOKEN_BUDGET": "333"})
    assert (settings.search.limit, settings.search.candidates, settings.search.token_budget) == (3, 20, 333)
    assert loaded(places, project, home, {"SCRIMSHAW_SEARCH_LIMIT": "4"}).search.limit == 4
    assert loaded(places).search.limit == 10


def test_every_key_can_be_set_in_the_environment(places: tuple[Path, Path]) -> None:
    for name, info in KEYS.items():
        default = list(info.default) if isinstance(info.default, tuple) else info.default
        text = str(default).lower() if isinstance(default, bool) else str(default)
        for variable in info.environment:
            assert value_of(loaded(places, environment={variable: text}), name) == info.default, variable


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("false", False), ("on", True), ("OFF", False), ("Yes", True), ("no", False)]
)
def test_flags_in_the_environment(places: tuple[Path, Path], text: str, value: bool) -> None:
    for variable in ("SCRIMSHAW_EXTRACTION", "SPECKIT_EXTRACTION"):
        assert loaded(places, environment={variable: text}).features.extraction is value


def test_the_own_name_wins_over_the_older_one(places: tuple[Path, Path]) -> None:
    both = {"SCRIMSHAW_EXTRACTION": "true", "SPECKIT_EXTRACTION": "false"}
    assert loaded(places, environment=both).features.extraction is True


def test_lists_in_the_environment(places: tuple[Path, Path]) -> None:
    given = {"SCRIMSHAW_SESSION_PRESSURE_THRESHOLDS": "[0.5, 0.9]"}
    assert loaded(places, environment=given).session.pressure_thresholds == (0.5, 0.9)
    assert "pressure_thresholds" in refused(places, environment={"SCRIMSHAW_SESSION_PRESSURE_THRESHOLDS": "0.5"})


@pytest.mark.parametrize("text", ["", "nan", "many", "1.5", "0", "101"])
def test_a_bad_value_in_the_environment_is_named(places: tuple[Path, Path], text: str) -> None:
    assert "environment: search.limit" in refused(places, environment={"SCRIMSHAW_SEARCH_LIMIT": text})


def test_the_baseline_profile_switches_all_off_but_what_was_set(places: tuple[Path, Path]) -> None:
    switches = [info.key for info in KEYS.values() if info.section == "features" and info.key != "profile"]
    standard = loaded(places).features
    assert all(getattr(standard, key) for key in switches)
    baseline = loaded(places, '[features]\nprofile = "baseline"\n').features
    assert not any(getattr(baseline, key) for key in switches)
    mixed = loaded(places, "[features]\nextraction = true\n", environment={"SCRIMSHAW_PROFILE": "baseline"}).features
    assert [key for key in switches if getattr(mixed, key)] == ["extraction"]


# Sources and places


def test_sources_are_read_and_the_project_replaces_those_of_the_home(places: tuple[Path, Path]) -> None:
    home = '[[sources]]\nname = "h"\ninclude = ["*.md"]\n'
    project = '[[sources]]\nname = "p"\ninclude = ["a/*.md"]\nartifact = "spec"\n'
    assert [source.name for source in loaded(places, "", home).sources] == ["h"]
    (source,) = loaded(places, project, home).sources
    assert (source.name, source.artifact) == ("p", ArtifactClass.SPEC)


@pytest.mark.parametrize(
    "text", ["sources = 3", '[[sources]]\nname = "x"\n', '[[sources]]\nname = "x"\ninclude = []\nwritable = true\n']
)
def test_a_bad_source_is_refused(places: tuple[Path, Path], text: str) -> None:
    assert "sources is not allowed" in refused(places, text)


PEER = '[[peers]]\nname = "notes"\nurl = "http://127.0.0.1:9/mcp"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PEER * 2, "several [[peers]] have the name 'notes'"),
        (f'{PEER}kind = "x"\n', "kind`, which is one of forgetful, memory, scrimshaw"),
        (f'{PEER}search = {{ tol = "x" }}\n', "`tol`"),
        (f'{PEER}get = {{ id = "x" }}\n', "array"),
    ],
)
def test_a_bad_peer_is_refused(places: tuple[Path, Path], text: str, said: str) -> None:
    assert said in refused(places, text)
    assert said in refused(places, home=text)


def test_the_home_is_told_by_the_environment(places: tuple[Path, Path]) -> None:
    (places[1] / CONFIG_FILE).write_text("[search]\nlimit = 7\n")
    settings = load(places[0], environment={"SCRIMSHAW_HOME": str(places[1])})
    assert (settings.home, settings.search.limit) == (places[1], 7)


def test_the_project_is_the_nearest_folder_with_a_mark(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c"
    deep.mkdir(parents=True)
    (tmp_path / "a/.git").mkdir()
    assert find_project(deep) == tmp_path / "a"
    (tmp_path / ".scrimshaw").mkdir()
    assert find_project(deep) == tmp_path
    (tmp_path / "a/b/.scrimshaw").mkdir()
    assert find_project(deep) == tmp_path / "a/b"


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_the_user_s_own_folder_is_no_project_by_any_of_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "var/home/ann/shop"
    (project / ".git").mkdir(parents=True)
    (project.parent / ".scrimshaw").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "var/home")
    monkeypatch.setenv("HOME", str(tmp_path / "home/ann"))
    assert find_project(project) == project
    assert find_project(tmp_path / "home/ann/shop") == tmp_path / "home/ann/shop"


def test_a_key_is_documented_as_it_is(places: tuple[Path, Path]) -> None:
    info: KeyInfo = KEYS["session.boost_limit"]
    assert (info.default, info.allowed, info.unit) == (0.20, "a number from 0 to 0.2", "share of score")
    assert info.environment == ("SCRIMSHAW_SESSION_BOOST_LIMIT",)
    assert KEYS["features.extraction"].environment == ("SCRIMSHAW_EXTRACTION", "SPECKIT_EXTRACTION")
