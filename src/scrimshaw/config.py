"""Every number and flag of the product, with unit and source, and the only reader of the environment.

Values come, later ones winning, from the defaults below, `~/.scrimshaw/config.toml`, the project's
`.scrimshaw/config.toml`, and the environment. A key `k` of section `s` is `SCRIMSHAW_S_K` in the environment;
a flag of section `features` is `SCRIMSHAW_K`, or `SPECKIT_K` as older set-ups call it. A value in the environment
is written as in TOML (`0.2`, `true`, `[0.6, 0.8]`), a string without quotes too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import msgspec.inspect
import msgspec.structs
from msgspec import Meta, Struct

from scrimshaw.errors import ConfigError, describe_os_error
from scrimshaw.models import ArtifactClass
from scrimshaw.toml_text import parse_toml

PROJECT_FOLDER = ".scrimshaw"
# Characters; no system opens a longer one, and to climb it would take gigabytes.
LONGEST_PATH = 32_767
CONFIG_FILE = "config.toml"
_PREFIXES = ("SCRIMSHAW_", "SPECKIT_")
# Sections of older versions; an old file that has one is no reason to refuse to start.
_RETIRED = frozenset({"targets"})
_SECRET = ("key", "token", "password", "secret")
# Thresholds that mean nothing out of their order, and whether that is falling.
_FALLING = {("session", "pressure_thresholds"): False, ("forgetting", "state_thresholds"): True}


def _within(low: float, high: float, unit: str, source: str, what: str) -> Meta:
    return Meta(ge=low, le=high, description=what, extra={"unit": unit, "source": source})


def _note(source: str, what: str) -> Meta:
    return Meta(description=what, extra={"unit": "", "source": source})


Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class FeatureSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Switches. `profile = "baseline"` turns every switch off that is not set by itself."""

    profile: Annotated[Literal["standard", "baseline"], _note("001 REQ-004", "all on, or all off")] = "standard"
    session_boost: Annotated[bool, _note("001 REQ-001", "lift what this session works with")] = True
    causal_boost: Annotated[bool, _note("001 REQ-010", "lift causal neighbours of strong hits")] = True
    pressure_policy: Annotated[bool, _note("001 REQ-002", "answer with less as the context fills")] = True
    event_decay: Annotated[bool, _note("000 ADR-003", "attention fades by events, not minutes")] = True
    extraction: Annotated[bool, _note("001 REQ-007", "keep what tools returned")] = True
    auto_resume: Annotated[bool, _note("001 REQ-013", "bring the last session back at start")] = True
    drafts: Annotated[bool, _note("001 SC-003", "make a memory of a session that ended")] = True


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Working memory, boosts and pressure."""

    boost_limit: Annotated[float, _within(0, 0.20, "share of score", "000 ADR-002", "cap of all boosts")] = 0.20
    attention_boost: Annotated[float, _within(0, 0.20, "share of score", "000 ADR-002", "boost at full attention")] = (
        0.15
    )
    causal_boost: Annotated[
        float, _within(0, 0.20, "share of score per hop", "000 ADR-002", "boost of a causal neighbour")
    ] = 0.05
    causal_hops: Annotated[int, _within(1, 4, "hops", "000 ADR-002", "how far a causal boost reaches")] = 2
    decay_rate: Annotated[float, _within(0, 1, "per event", "000 ADR-003", "attention kept per event")] = 0.85
    time_decay_rate: Annotated[
        float, _within(0, 1, "per minute", "000 ADR-003", "attention kept per minute, with event decay off")
    ] = 0.95
    mention_boost: Annotated[float, _within(0, 1, "attention per mention", "000 ADR-003", "what a mention adds")] = 0.05
    attention_floor: Annotated[float, _within(0, 1, "attention", "000 ADR-003", "lowest score read")] = 0.05
    delete_threshold: Annotated[
        float, _within(0, 1, "attention", "000 ADR-003", "an unfloored score below this leaves")
    ] = 0.01
    counter_modulus: Annotated[int, _within(2, 2**53, "events", "000 ADR-003", "the event counter wraps here")] = 2**31
    capacity: Annotated[int, _within(1, 100, "items", "001 scenario 12", "size of working memory")] = 7
    pressure_thresholds: Annotated[
        tuple[Share, Share], _note("001 REQ-002", "context use that narrows to focused (>=) and to quick (>), rising")
    ] = (0.60, 0.80)
    stale_hours: Annotated[
        float, _within(1, 8760, "hours", "spec-kit session sweep", "a silent session is interrupted after")
    ] = 24.0


class DraftSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memories made of sessions."""

    idle_minutes: Annotated[
        float, _within(1, 1e6, "minutes", "own choice", "a session silent for so long is drafted like one that ended")
    ] = 30.0
    expire_days: Annotated[
        float, _within(0.01, 36_500, "days", "spec-kit tiers", "rejected drafts and temporary memories are kept for")
    ] = 7.0
    consolidate_days: Annotated[
        float, _within(1, 36_500, "days", "own choice", "sessions of so many days are put together")
    ] = 7.0


class SearchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How candidates are found, weighed and cut."""

    limit: Annotated[int, _within(1, 100, "hits", "spec-kit memory_search", "hits by default")] = 10
    query_max: Annotated[int, _within(2, 20_000, "characters", "DESIGN 6", "longest query")] = 2000
    strict_queries: Annotated[bool, _note("002", "accept only letters, digits and - . , _ ( ) & : in queries")] = False
    candidates: Annotated[
        int, _within(10, 1000, "candidates per channel", "measured, docs/evaluation", "depth of each channel")
    ] = 100
    constitutional_tokens: Annotated[
        int, _within(0, 20_000, "tokens", "spec-kit auto-surface", "room of always-on memories")
    ] = 2000
    snippet_tokens: Annotated[int, _within(10, 2000, "tokens", "own choice", "length of a hit's excerpt")] = 60
    min_quality_score: Annotated[
        float, _within(0, 1, "score", "001 REQ-023", "drafts, imports and agent saves below stay hidden")
    ] = 0.3
    near_duplicate: Annotated[
        float, _within(0.5, 1, "Jaccard of word triples", "own choice", "near duplicate from")
    ] = 0.8
    related: Annotated[float, _within(0.05, 1, "Jaccard of word triples", "own choice", "related from")] = 0.3


class ContextSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Token budgets of memory_context, per mode."""

    quick_tokens: Annotated[int, _within(50, 50_000, "tokens", "spec-kit modes", "budget of quick")] = 800
    focused_tokens: Annotated[int, _within(50, 50_000, "tokens", "spec-kit modes", "budget of focused")] = 3000
    deep_tokens: Annotated[int, _within(50, 50_000, "tokens", "spec-kit modes", "budget of deep")] = 3500
    resume_tokens: Annotated[int, _within(50, 50_000, "tokens", "DESIGN 7", "budget of resume")] = 1200
    quick_limit: Annotated[int, _within(1, 100, "hits", "spec-kit modes", "hits of quick")] = 5
    focused_limit: Annotated[int, _within(1, 100, "hits", "spec-kit modes", "hits of focused")] = 8
    deep_limit: Annotated[int, _within(1, 100, "hits", "spec-kit modes", "hits of deep")] = 10
    resume_limit: Annotated[int, _within(1, 100, "hits", "spec-kit modes", "hits of resume")] = 5
    quick_excerpt: Annotated[int, _within(10, 10_000, "tokens", "budget / limit", "excerpt of a hit in quick")] = 60
    focused_excerpt: Annotated[int, _within(10, 10_000, "tokens", "budget / limit", "excerpt of a hit in focused")] = (
        300
    )
    deep_excerpt: Annotated[int, _within(10, 10_000, "tokens", "budget / limit", "excerpt of a hit in deep")] = 300


class EmbeddingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that turns text into vectors."""

    provider: Annotated[Literal["minilm", "fastembed", "http", "none"], _note("DESIGN 5", "which embedder")] = "minilm"
    model: Annotated[str, _note("", "model name for fastembed and http")] = ""
    url: Annotated[str, _note("", "OpenAI-compatible endpoint for http, up to and with /v1")] = ""
    api_key: Annotated[str, _note("", "bearer key for http; better set in the environment")] = ""
    dimension: Annotated[int, _within(0, 8192, "numbers", "", "length of a vector; 0 takes what the model says")] = 0
    timeout_s: Annotated[float, _within(0.1, 600, "seconds", "", "patience with an http embedder")] = 10.0
    batch: Annotated[int, _within(1, 256, "texts", "measured, docs/evaluation", "texts per inference")] = 8
    max_tokens: Annotated[int, _within(16, 8192, "tokens", "model card", "a longer text is cut")] = 256


class IndexSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files and their index."""

    exclude: Annotated[
        tuple[str, ...], _note("003 QP-4", "globs no document source reads: test data and scratch are not knowledge")
    ] = ("**/*fixtures/**", "**/__fixtures__/**", "**/testdata/**", "**/scratch/**")
    max_file_bytes: Annotated[int, _within(1024, 2**30, "bytes", "DESIGN 4", "a larger file is skipped by name")] = (
        2 * 1024 * 1024
    )
    busy_timeout_ms: Annotated[
        int, _within(1, 600_000, "milliseconds", "own choice", "patience with another writer")
    ] = 10_000
    ram_scan_max: Annotated[
        int,
        _within(0, 10_000_000, "chunks", "component measurements", "above this vectors are scanned on disk"),
    ] = 1_000_000


class ForgettingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retrievability and its states (FSRS v4)."""

    state_thresholds: Annotated[
        tuple[Share, Share, Share, Share],
        _note("DESIGN 2", "retrievability from which a memory is hot, warm, cold, dormant, falling; else archived"),
    ] = (0.80, 0.50, 0.35, 0.25)
    half_life_days: Annotated[
        float,
        _within(1, 36_500, "days", "spec-kit declarative", "of a memory whose type has none of its own"),
    ] = 60.0


class RedactionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The redaction gate."""

    drop_ratio: Annotated[float, _within(0, 1, "share removed", "001 8", "a text that lost more is dropped")] = 0.90


class QualitySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The quality gate."""

    phrases: Annotated[
        tuple[str, ...], _note("001 REQ-019", "further wordings of talk about the work; their sentences are dropped")
    ] = ()


class SourceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Documents to read besides the vault; never written."""

    name: str
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    root: str = ""
    artifact: ArtifactClass | None = None


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of one project, checked. Built by `load`.

    `home` is the user's Scrimshaw folder, `serena_home` the user's Serena folder if it is to be looked at. `rules` are
    the tables of the user's extraction rules as written; who applies them makes rules of them.
    """

    project: Path
    home: Path
    serena_home: Path | None = None
    features: FeatureSettings = FeatureSettings()
    session: SessionSettings = SessionSettings()
    drafts: DraftSettings = DraftSettings()
    search: SearchSettings = SearchSettings()
    context: ContextSettings = ContextSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    index: IndexSettings = IndexSettings()
    forgetting: ForgettingSettings = ForgettingSettings()
    redaction: RedactionSettings = RedactionSettings()
    quality: QualitySettings = QualitySettings()
    sources: tuple[SourceSettings, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()

    @property
    def folder(self) -> Path:
        """The project's Scrimshaw folder."""
        return self.project / PROJECT_FOLDER


SECTIONS: Mapping[str, type[Struct]] = {
    name: type(value)
    for name, value in msgspec.structs.asdict(Settings(project=Path(), home=Path())).items()
    if isinstance(value, Struct)
}


class KeyInfo(Struct, frozen=True, kw_only=True):
    """One configuration key as documented: what it means, its unit, range, default and names."""

    section: str
    key: str
    default: Any
    allowed: str
    unit: str
    source: str
    description: str
    environment: tuple[str, ...]


def all_keys() -> Iterator[KeyInfo]:
    """Every key of every section, in order."""
    for section, kind in SECTIONS.items():
        for field in msgspec.structs.fields(kind):
            info: Any = msgspec.inspect.type_info(field.type)
            extra = getattr(info, "extra", None) or {}
            schema = getattr(info, "extra_json_schema", None) or {}
            yield KeyInfo(
                section=section,
                key=field.encode_name,
                default=field.default,
                allowed=_allowed(info),
                unit=extra.get("unit", ""),
                source=extra.get("source", ""),
                description=schema.get("description", ""),
                environment=_environment_names(section, field.encode_name),
            )


def load(project: Path, *, home: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of `project`; raises ConfigError naming every value that cannot be used."""
    env = os.environ if environment is None else environment
    home, serena_home = (home, None) if home else user_folders(env)
    values: dict[str, dict[str, Any]] = {}
    origins: dict[tuple[str, str], str] = {}
    sources: tuple[SourceSettings, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    problems: list[str] = []
    for path in config_files(project, home):
        table = _read_toml(path)
        sources = _tables(table, "sources", SourceSettings, path, problems) or sources
        rules = _tables(table, "rules", dict[str, Any], path, problems) or rules
        _merge(table, str(path), values, origins, problems)
    _merge(_from_environment(env), "environment", values, origins, problems)
    sections = {name: _section(name, values.get(name, {}), origins, problems) for name in SECTIONS}
    if problems:
        raise ConfigError(
            "The configuration cannot be used:\n  " + "\n  ".join(problems), "Correct it and start again."
        )
    sections["features"] = _apply_profile(sections["features"], values.get("features", {}))
    return Settings(project=project, home=home, serena_home=serena_home, sources=sources, rules=rules, **sections)


def user_folders(environment: Mapping[str, str] = os.environ) -> tuple[Path, Path]:
    """The user's Scrimshaw folder and Serena folder."""
    return Path(environment.get("SCRIMSHAW_HOME") or Path.home() / PROJECT_FOLDER), Path.home() / ".serena"


def config_files(project: Path, home: Path) -> tuple[Path, Path]:
    """The files that settings are read from, the later one winning."""
    return home / CONFIG_FILE, project / PROJECT_FOLDER / CONFIG_FILE


def is_environment_silent() -> bool:
    """Whether no variable of the environment sets a value."""
    return not any(name.startswith(_PREFIXES) and name != "SCRIMSHAW_HOME" for name in os.environ)


def find_project(start: Path) -> Path:
    """The nearest folder at or above `start` with a `.scrimshaw`, else the nearest with a `.git`, else `start`."""
    start = start.absolute()
    if len(str(start)) > LONGEST_PATH:
        return start
    for marker in (PROJECT_FOLDER, ".git"):
        for folder in (start, *start.parents):
            if (folder / marker).exists() and folder / marker != Path.home() / PROJECT_FOLDER:
                return folder
    return start


def limit_native_threads() -> None:
    """Keep numpy to one thread, unless the user says otherwise: a scan is too short. To be said before it is loaded."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def release_freed_memory() -> None:
    """Give pages that native code freed back to the system: 56 MB after a model was loaded. Only glibc keeps them."""
    import ctypes  # noqa: PLC0415 - only after a model or many vectors were read

    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def silence_runtime() -> None:
    """Forbid onnxruntime to report to its maker; to be said before it is imported, since it reports that already."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def editor() -> str:
    """The command that opens a file in the user's editor; empty when none is named."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:  # ValueError: neither UTF-8 nor TOML
        raise ConfigError(
            f"{path} cannot be read: {describe_os_error(error)}.", "Correct the file or remove it."
        ) from error


def _merge(
    table: Mapping[str, Any],
    origin: str,
    values: dict[str, dict[str, Any]],
    origins: dict[tuple[str, str], str],
    problems: list[str],
) -> None:
    for section, content in table.items():
        if section in _RETIRED:
            continue
        if section not in SECTIONS or not isinstance(content, dict):
            problems.append(f"{origin}: {_shown(section, content)} is not known{_did_you_mean(section)}")
            continue
        for key, value in content.items():
            values.setdefault(section, {})[key] = value
            origins[section, key] = origin


def _did_you_mean(key: str) -> str:
    """Where a key that was written in the wrong place belongs."""
    places = [f"[{info.section}] {key}: {info.allowed}" for info in all_keys() if info.key == key]
    if places:
        return "; it belongs to " + ", ".join(places)
    return "; the sections are " + ", ".join([*SECTIONS, "sources", "rules"])


def _section(name: str, values: Mapping[str, Any], origins: Mapping[tuple[str, str], str], problems: list[str]) -> Any:
    """The checked section; every unusable value is added to `problems`."""
    if not values:
        return SECTIONS[name]()
    fields = {field.encode_name: field for field in msgspec.structs.fields(SECTIONS[name])}
    good: dict[str, Any] = {}
    for key, value in values.items():
        if key not in fields:
            known = ", ".join(fields)
            problems.append(f"{origins[name, key]}: {name}.{_shown(key, value)} is not known; the keys are {known}")
            continue
        try:
            good[key] = msgspec.convert(value, fields[key].type, strict=origins[name, key] != "environment")
        except msgspec.ValidationError:
            allowed = _allowed(msgspec.inspect.type_info(fields[key].type))
            problems.append(f"{origins[name, key]}: {name}.{_shown(key, value)} is not allowed; expected {allowed}")
    for key in [key for key in good if (name, key) in _FALLING]:
        if list(good[key]) != sorted(good[key], reverse=_FALLING[name, key]):
            way = "falling" if _FALLING[name, key] else "rising"
            problems.append(f"{origins[name, key]}: {name}.{key} = {values[key]!r} is not in {way} order")
    return SECTIONS[name](**good)


def _shown(key: str, value: object) -> str:
    """A value for a message, which may be logged; what could be a secret is not said."""
    is_table = any(isinstance(each, dict) and each for each in (value if isinstance(value, list) else [value]))
    return f"{key} (not shown)" if is_table or key.lower().endswith(_SECRET) else f"{key} = {value!r}"


def _tables(table: dict[str, Any], name: str, kind: Any, path: Path, problems: list[str]) -> tuple[Any, ...]:
    """The list of tables of that name, taken out of `table`; what cannot be read is added to `problems`."""
    try:
        return tuple(msgspec.convert(table.pop(name, []), list[kind]))
    except msgspec.ValidationError as error:
        problems.append(f"{path}: {name} is not allowed; {error}")
        return ()


def _apply_profile(features: FeatureSettings, given: Mapping[str, Any]) -> FeatureSettings:
    """With the baseline profile every switch is off unless it was set by itself."""
    if features.profile == "standard":
        return features
    switches = {f.encode_name: False for f in msgspec.structs.fields(features) if f.type is not str}
    switches = {key: getattr(features, key) if key in given else False for key in switches if key != "profile"}
    return msgspec.structs.replace(features, **switches)


def _from_environment(env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if not any(name.startswith(_PREFIXES) for name in env):
        return found
    for section, kind in SECTIONS.items():
        for field in msgspec.structs.fields(kind):
            for name in reversed(_environment_names(section, field.encode_name)):
                if name in env:
                    found.setdefault(section, {})[field.encode_name] = _environment_value(env[name], field.type)
    return found


def _environment_names(section: str, key: str) -> tuple[str, ...]:
    if section == "features":
        return f"SCRIMSHAW_{key}".upper(), f"SPECKIT_{key}".upper()
    return (f"SCRIMSHAW_{section}_{key}".upper(),)


def _environment_value(text: str, kind: Any) -> Any:
    if _allowed(msgspec.inspect.type_info(kind)) == "text" and not text.startswith(("'", '"')):
        return text
    if text.strip().lower() in {"on", "yes", "off", "no"}:
        return text.strip().lower() in {"on", "yes"}
    try:
        return parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text


def _allowed(info: Any) -> str:
    """The allowed values in words, such as `a number from 0 to 0.2`."""
    inner = info.type if isinstance(info, msgspec.inspect.Metadata) else info
    match inner:
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.LiteralType():
            return "one of " + ", ".join(str(value) for value in inner.values)
        case msgspec.inspect.IntType():
            return f"a whole number{_range(inner)}"
        case msgspec.inspect.FloatType():
            return f"a number{_range(inner)}"
        case msgspec.inspect.TupleType():
            items = [_allowed(item) for item in inner.item_types]
            return f"a list of {len(items)}, each {items[0]}"
        case msgspec.inspect.VarTupleType():
            return f"a list, each {_allowed(inner.item_type)}"
        case _:
            return "text"


def _range(info: Any) -> str:
    return "" if info.ge is None else f" from {info.ge:g} to {info.le:g}"
