"""Every number and flag of the product with its unit and range, and the only reader of the environment.

Values come, later ones winning, from the defaults below, `~/.scrimshaw/config.toml`, the project's
`.scrimshaw/config.toml`, and the environment. A key `k` of section `s` is `SCRIMSHAW_S_K` in the environment;
a flag of section `features` is `SCRIMSHAW_K`, or `SPECKIT_K` as older set-ups call it. A value in the environment
is written as in TOML (`0.2`, `true`, `[0.6, 0.8]`), a string without quotes too.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from zlib import crc32

import msgspec
import msgspec.inspect
import msgspec.structs
from msgspec import Meta, Struct

from scrimshaw.errors import ConfigError, describe_os_error, find_nearest
from scrimshaw.models import ArtifactClass, PeerTool
from scrimshaw.toml_text import parse_toml, read_regular_file

PROJECT_FOLDER = ".scrimshaw"
TEAM, NO_PROJECT = "team", "no-project"  # databases of a team's server, and of servers without a project's memory
MEMORIES, GLOBAL = "memories", "global/"  # the folder of a vault; what the ids of the user's own begin with
LONGEST_PATH = 32_767  # characters; no system opens a longer one, and walking up it would take gigabytes
CONFIG_FILE = "config.toml"
PAUSED = "capture.paused"  # exists in the project's folder while recording is paused
RESUMED = "capture.resumed"  # the begin and end of each pause; as old as the last end: hooks read nothing before it
HOOK_BUSY_MS = 3000  # a hundred concurrent hooks write one after the other, each for some milliseconds
_PREFIXES = ("SCRIMSHAW_", "SPECKIT_", "MEMORY_SYNC_")
_OTHER_NAMES = {"sync_immediate": ["MEMORY_SYNC_IMMEDIATE"]}  # of variables, as in other memory routers
_LOCAL_URL = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?(/|$)")
_NO_COMMENT = re.compile(r"^\s*[^\s#]", re.MULTILINE)
_NO_CAPTURE = re.compile(r"^[^#\n]*\bcapture[\"']?\s*=\s*false", re.MULTILINE)  # also of a file that is no TOML
_SECRET = ("key", "token", "password", "secret")
_OF_USER = (("storage", "engine"), ("storage", "url"), ("router", "sync_immediate"))  # never a project's to set
# Thresholds that must be in order, and whether that is descending.
_FALLING = {("session", "pressure_thresholds"): False, ("forgetting", "state_thresholds"): True}


def _within(low: float, high: float, unit: str, what: str) -> Meta:
    return Meta(ge=low, le=high, description=what, extra={"unit": unit})


def _note(what: str) -> Meta:
    return Meta(description=what)


# Test data, scratch files and files of others are not knowledge of this project.
_NO_KNOWLEDGE = (
    "**/*fixtures/**", "**/__fixtures__/**", "**/testdata/**", "**/scratch/**", "**/vendor/**", "**/third_party/**",
)  # fmt: skip
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Shares = tuple[Share, Share]


class FeatureSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Switches. `profile = "baseline"` turns every switch off that is not set by itself."""

    profile: Annotated[Literal["standard", "baseline"], _note("all on, or all off")] = "standard"
    session_boost: Annotated[bool, _note("boost what this session works with")] = True
    causal_boost: Annotated[bool, _note("boost causal neighbours of strong hits")] = True
    pressure_policy: Annotated[bool, _note("shorten answers as the context fills")] = True
    event_decay: Annotated[bool, _note("attention fades by events, not minutes")] = True
    extraction: Annotated[bool, _note("remember what tools returned")] = True
    auto_resume: Annotated[bool, _note("summarise the last session at a start")] = True
    drafts: Annotated[bool, _note("make memories of ended sessions")] = True


class RolloutSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parts that only some sessions have, so that those with and without can be compared."""

    session_boost: Annotated[int, _within(0, 100, "of 100 sessions", "have features.session_boost")] = 100
    causal_boost: Annotated[int, _within(0, 100, "of 100 sessions", "have features.causal_boost")] = 100
    injection: Annotated[int, _within(0, 100, "of 100 sessions", "get memories without asking")] = 100
    dark_launch: Annotated[bool, _note("log what the other sessions would have got")] = False

    def includes(self, part: str, session: str) -> bool:
        """Whether a session is among those of a hundred that have a part: always the same answer."""
        return bool(getattr(self, part) > crc32(f"{part}\n{session}".encode()) % 100)


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Working memory, boosts and pressure."""

    capture: Annotated[bool, _note("record what clients report")] = True
    injection: Annotated[bool, _note("give a client's model memories without asking")] = True
    # A boost reorders neighbours; capped at a fifth, it lifts no weak hit over one that is clearly better.
    boost_limit: Annotated[float, _within(0, 0.20, "share of score", "cap of all boosts")] = 0.20
    attention_boost: Annotated[float, _within(0, 0.20, "share of score", "boost at full attention")] = 0.15
    causal_boost: Annotated[float, _within(0, 0.20, "share of score per hop", "boost of a causal neighbour")] = 0.05
    causal_hops: Annotated[int, _within(1, 4, "hops", "how far a causal boost reaches")] = 2
    # Half the attention is left after four events, a fifth after ten; a pause changes nothing.
    decay_rate: Annotated[float, _within(0, 1, "per event", "share of attention kept per event")] = 0.85
    time_decay_rate: Annotated[float, _within(0, 1, "per minute", "the same per minute, without event decay")] = 0.95
    mention_boost: Annotated[float, _within(0, 1, "attention per mention", "attention added by a mention")] = 0.05
    attention_floor: Annotated[float, _within(0, 1, "attention", "lowest attention returned")] = 0.05
    delete_threshold: Annotated[float, _within(0, 1, "attention", "items below this leave working memory")] = 0.01
    counter_modulus: Annotated[int, _within(2, 2**53, "events", "the event counter wraps here")] = 2**31
    # As many things as a person keeps in mind.
    capacity: Annotated[int, _within(1, 100, "items", "size of working memory")] = 7
    pressure_thresholds: Annotated[Shares, _note("context use above which answers get shorter")] = (0.60, 0.80)
    # No client reports when it drops an old answer from its context.
    shown_minutes: Annotated[float, _within(0, 1e6, "minutes", "passages shown longer ago are shown again")] = 30.0
    stale_hours: Annotated[float, _within(1, 8760, "hours", "silence after which it is interrupted")] = 24.0


class DraftSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memories made of sessions."""

    idle_minutes: Annotated[float, _within(1, 1e6, "minutes", "a session silent for this long is drafted")] = 30.0
    review: Annotated[bool, _note("drafts wait in `scrimshaw review` until somebody accepts them")] = False
    expire_days: Annotated[float, _within(0.01, 36_500, "days", "of rejected drafts and temporary memories")] = 7.0
    consolidate_days: Annotated[float, _within(1, 36_500, "days", "sessions of the last days are combined")] = 7.0


class SearchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How candidates are found, weighed and cut."""

    limit: Annotated[int, _within(1, 100, "hits", "hits by default")] = 10
    query_max: Annotated[int, _within(2, 20_000, "characters", "longest query")] = 2000
    strict_queries: Annotated[bool, _note("accept only 500 letters, digits and - . , _ ( ) & : as a query")] = False
    # Deeper channels find nothing more on judged queries (docs/evaluation.md).
    candidates: Annotated[int, _within(10, 1000, "candidates per channel", "depth of channels and search")] = 100
    constitutional_tokens: Annotated[int, _within(0, 20_000, "tokens", "budget of always-on memories")] = 2000
    # Of four characters of the whole reply: 350 answer a third of the questions about recorded sessions.
    token_budget: Annotated[int, _within(50, 50_000, "tokens", "budget of an answer to an agent")] = 600
    min_confidence: Annotated[float, _within(0, 1, "probability", "no hits unless one is this sure; 0 shows all")] = 0.5
    min_quality_score: Annotated[float, _within(0, 1, "score", "hide memories below, unless a person wrote them")] = 0.3
    near_duplicate: Annotated[float, _within(0.5, 1, "Jaccard of word triples", "near duplicates have this much")] = 0.8
    related: Annotated[float, _within(0.05, 1, "Jaccard of word triples", "related ones have it; brief ones .5")] = 0.3
    log: Annotated[bool, _note("log searches in a file next to the journal, for `stats` and `eval shadow`")] = True


class ContextSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Token budgets of memory_context, per mode."""

    quick_tokens: Annotated[int, _within(50, 50_000, "tokens", "budget of quick")] = 800
    focused_tokens: Annotated[int, _within(50, 50_000, "tokens", "budget of focused")] = 3000
    deep_tokens: Annotated[int, _within(50, 50_000, "tokens", "budget of deep")] = 3500
    resume_tokens: Annotated[int, _within(50, 50_000, "tokens", "budget of resume")] = 1200
    quick_limit: Annotated[int, _within(1, 100, "hits", "hits of quick")] = 5
    focused_limit: Annotated[int, _within(1, 100, "hits", "hits of focused")] = 8
    deep_limit: Annotated[int, _within(1, 100, "hits", "hits of deep")] = 10
    resume_limit: Annotated[int, _within(1, 100, "hits", "hits of resume")] = 5


class EmbeddingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that turns text into vectors."""

    provider: Annotated[Literal["minilm", "fastembed", "http", "none"], _note("which embedder")] = "minilm"
    model: Annotated[str, _note("model name for fastembed and http")] = ""
    url: Annotated[str, _note("OpenAI-compatible endpoint for http, up to and with /v1")] = ""
    api_key: Annotated[str, _note("bearer key for http; better set in the environment")] = ""
    dimension: Annotated[int, _within(0, 8192, "numbers", "length of a vector; 0 means the model's")] = 0
    timeout_s: Annotated[float, _within(0.1, 600, "seconds", "timeout of an http embedder")] = 10.0
    max_tokens: Annotated[int, _within(16, 8192, "tokens", "a longer text is cut")] = 256


class IndexSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files and their index."""

    exclude: Annotated[tuple[str, ...], _note("globs that no document source reads")] = _NO_KNOWLEDGE
    include: Annotated[tuple[str, ...], _note("globs to read besides, hidden or ignored by git as they may be")] = ()
    canonical: Annotated[Literal["serena", "vault"], _note("whose file counts where both have one name")] = "serena"
    max_file_bytes: Annotated[int, _within(1024, 2**30, "bytes", "a larger file is skipped by name")] = 2 * 1024 * 1024
    busy_timeout_ms: Annotated[int, _within(1, 600_000, "milliseconds", "patience with another writer")] = 10_000
    record_days: Annotated[float, _within(0, 36_500, "days", "sessions of so many days are searched")] = 1_095.0
    # So many events take about 30 MB with vectors; token vectors up to 8 KB each, read only for the best of a search.
    record_events: Annotated[int, _within(0, 10**7, "events", "how many of the newest events are searched")] = 50_000
    token_vectors: Annotated[int, _within(0, 10**7, "passages", "so many are compared word by word; 0 is off")] = 10**5
    ram_scan_max: Annotated[int, _within(0, 10_000_000, "chunks", "above this vectors stay on the disk")] = 1_000_000
    word_lists_mb: Annotated[int, _within(0, 100_000, "MB", "memory for where words are; 0 has FTS5 rank them")] = 512


class StorageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where index and journal are; engine and url are the user's to say, never a project's that came with a clone."""

    engine: Annotated[Literal["sqlite", "postgres"], _note("files of the project, or a server")] = "sqlite"
    url: Annotated[str, _note("of the server's database; empty means PGHOST and the like")] = ""
    vault: Annotated[
        Annotated[str, Meta(pattern=r"^([a-z][a-z0-9_]{0,39})?$")],
        _note("name of this checkout's memory on the server, which no other may use; empty: after its folder"),
    ] = ""


class ForgettingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retrievability and its states (FSRS v4)."""

    # With the half-life below: 11, 60, 143 and 300 days after the last review.
    state_thresholds: Annotated[
        tuple[Share, Share, Share, Share], _note("retrievability of hot, warm, cold, dormant; else archived")
    ] = (0.80, 0.50, 0.35, 0.25)
    half_life_days: Annotated[float, _within(1, 36_500, "days", "of memories whose type has none of its own")] = 60.0


class RedactionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The redaction gate."""

    drop_ratio: Annotated[float, _within(0, 1, "share removed", "a text that lost more is dropped")] = 0.90


class QualitySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The quality gate."""

    phrases: Annotated[tuple[str, ...], _note("more beginnings of chatter sentences, which are removed")] = ()


class SourceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Documents to read besides the vault; never written."""

    name: str
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    root: str = ""
    artifact: ArtifactClass | None = None


class RouterSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How other memory servers, the peers of `[[peers]]`, are asked."""

    deadline_ms: Annotated[float, _within(1, 60_000, "milliseconds", "how long to wait for a peer's answer")] = 600.0
    check_ms: Annotated[float, _within(1, 60_000, "milliseconds", "how long to wait for a connection to a url")] = 500.0
    check_s: Annotated[float, _within(0, 3600, "seconds", "a peer that failed is not asked for this long")] = 30.0
    # A command imports the client library first; a server works without a peer that is still starting.
    start_s: Annotated[float, _within(0, 600, "seconds", "how long a command waits for a peer to start")] = 3.0
    cache_s: Annotated[float, _within(0, 86_400, "seconds", "a peer's answer is cached for this long")] = 300.0
    slots: Annotated[int, _within(1, 20, "hits", "maximum hits of peers next to own ones")] = 3
    sync_immediate: Annotated[bool, _note("a server syncs peers that have sync = true after every change")] = False


class PeerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another memory server that adds to what is found; asked over MCP by its command, or at its url."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
    kind: Literal["forgetful", "scrimshaw", "memory"] = "memory"
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""
    token: str = ""  #: bearer token for the url
    #: What differs from the tools of the kind, as in `PeerTool`; with a `tool` of its own, nothing is of the kind.
    search: Mapping[str, Any] = {}
    get: Mapping[str, Any] = {}
    list: Mapping[str, Any] = {}
    create: Mapping[str, Any] = {}
    update: Mapping[str, Any] = {}
    retire: Mapping[str, Any] = {}
    sync: bool = False  #: `scrimshaw sync` without a name keeps copies of the memories there
    exclude: tuple[str, ...] = ("private/**",)  #: globs on the ids of memories that never go there

    def __post_init__(self) -> None:
        for use in (self.search, self.get, self.list, self.create, self.update, self.retire):
            msgspec.convert({"tool": "", **use}, PeerTool)
        if bool(self.command) == bool(self.url):
            raise ValueError(f"the peer {self.name} needs a command or a url, not both")
        if self.url and not _LOCAL_URL.match(self.url) and not (self.url.startswith("https://") and self.token):
            raise ValueError(f"the url of the peer {self.name} is neither local nor https with a token")

    @property
    def is_harmless(self) -> bool:
        """Whether a configuration that came with a clone may state it: it runs nothing, and no text leaves."""
        return bool(_LOCAL_URL.match(self.url)) and not self.sync


class VaultSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project whose memory `scrimshaw serve --http` serves, under its name."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
    path: str  #: the project's folder; `~` is the user's home
    commit: bool = False  #: whether each change over HTTP is committed, with its token for the author
    remote: str = ""  #: where the folder is cloned from, pulled and pushed, as git takes it
    branch: str = ""  #: which is cloned; what is checked out is pulled and pushed
    pull_minutes: Annotated[float, Meta(ge=0, le=1440)] = 5.0  #: between two pulls; 0 for only when asked
    push: bool = False  #: whether what is committed is pushed
    write: Literal["checkout", "branch"] = "checkout"  #: where a change goes; on branches of its own it is for review


class _ClientServers(Struct, frozen=True, rename="camel"):
    """What `.mcp.json` says: the servers of a project's clients, by name."""

    mcp_servers: Mapping[str, Mapping[str, Any]] = {}


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of one project, checked. Made by `load`."""

    project: Path
    home: Path  #: the user's Scrimshaw folder
    serena_home: Path | None = None  #: the user's Serena folder, where it is looked at
    features: FeatureSettings = FeatureSettings()
    rollout: RolloutSettings = RolloutSettings()
    session: SessionSettings = SessionSettings()
    drafts: DraftSettings = DraftSettings()
    search: SearchSettings = SearchSettings()
    context: ContextSettings = ContextSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    index: IndexSettings = IndexSettings()
    storage: StorageSettings = StorageSettings()
    forgetting: ForgettingSettings = ForgettingSettings()
    redaction: RedactionSettings = RedactionSettings()
    quality: QualitySettings = QualitySettings()
    router: RouterSettings = RouterSettings()
    sources: tuple[SourceSettings, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()  #: the user's extraction rules as written
    peers: tuple[PeerSettings, ...] = ()
    vaults: tuple[VaultSettings, ...] = ()
    ignored: tuple[str, ...] = ()  #: what is said of keys that are not known, with their file

    @property
    def folder(self) -> Path:
        """The project's Scrimshaw folder."""
        return self.project / PROJECT_FOLDER

    @property
    def is_capturing(self) -> bool:
        """Whether sessions are recorded now."""
        return self.session.capture and not (self.folder / PAUSED).exists()


SECTIONS: Mapping[str, type[Struct]] = {
    name: type(value)
    for name, value in msgspec.structs.asdict(Settings(project=Path(), home=Path())).items()
    if isinstance(value, Struct)
}
_TABLES = (*SECTIONS, "sources", "rules", "peers", "vaults")
_ENVIRONMENT, _UNKNOWN = "environment", "is not known, and has no effect"
_OF_GIT_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_Faults = list[ConfigError] | None
_Given = dict[str, dict[str, tuple[Any, str]]]  # by section and key: a value, and where it is stated


class KeyInfo(Struct, frozen=True, kw_only=True):
    """One configuration key as documented: what it means, its unit, range, default and names."""

    section: str
    key: str
    default: Any
    allowed: str
    unit: str
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
                allowed=_describe_range(info),
                unit=extra.get("unit", ""),
                description=schema.get("description", ""),
                environment=_environment_names(section, field.encode_name),
            )


def load(
    project: Path, *, home: Path | None = None, environment: Mapping[str, str] | None = None, unreadable: _Faults = None
) -> Settings:
    """The settings of `project`; raises ConfigError for unusable values, and files unless added to `unreadable`."""
    env = os.environ if environment is None else environment
    serena_home = None if home else Path.home() / ".serena"
    home = (files := config_files(project, home, env))[0].parent
    given, tables, peers = _Given(), dict[str, Any](), find_local_peers(project)
    problems, ignored = list[str](), list[str]()
    for path in files:
        # The user's own file may say on which server the memory is: nothing holds in its place.
        if not (table := _read_toml(path, unreadable if path != files[0] else None)):
            continue
        for name, kind in (("sources", SourceSettings), ("rules", dict[str, Any])):
            tables[name] = _tables(table, name, kind, path, problems) or tables.get(name, ())
        stated: tuple[PeerSettings, ...] = _tables(table, "peers", PeerSettings, path, problems)
        twice = [name for name, many in Counter(peer.name for peer in stated).items() if many > 1]
        problems += [f"{path}: several [[peers]] have the name {name!r}" for name in twice]
        peers |= {peer.name: peer for peer in stated}
        if path.parent == home:
            tables["vaults"] = _tables(table, "vaults", VaultSettings, path, problems)
        else:  # what came with a clone must not run a command or send text away
            foreign = [f"the peer {peer.name}" for peer in stated if not peer.is_harmless]
            stated_in = {section: content for section, content in table.items() if isinstance(content, dict)}
            foreign += [f"{key} of [{section}]" for section, key in _OF_USER if key in stated_in.get(section, ())]
            problems += [f"{path}: {each} belongs in {home / CONFIG_FILE}" for each in foreign]
        _merge(table, str(path), given, problems, ignored)
    if own := {name: env[name] for name in env if name.startswith(_PREFIXES) and name != "SCRIMSHAW_HOME"}:
        ignored += _merge_environment(own, given)
    sections: dict[str, Any] = {
        name: _section(name, given[name], problems, ignored) if name in given else kind()
        for name, kind in SECTIONS.items()
    }
    if problems:
        raise ConfigError("\n  ".join(("The configuration cannot be used:", *problems)), "Correct it and start again.")
    if sections["features"].profile == "baseline":
        switches = [field.encode_name for field in msgspec.structs.fields(FeatureSettings) if field.type is not str]
        off = {key: False for key in switches if key != "profile" and key not in given.get("features", ())}
        sections["features"] = msgspec.structs.replace(sections["features"], **off)
    tables |= {"peers": (*peers.values(),), "ignored": (*ignored,)}
    return Settings(project=project, home=home, serena_home=serena_home, **tables, **sections)


def find_local_peers(project: Path) -> dict[str, PeerSettings]:
    """Forgetful servers on this machine, by name, from the urls in `.mcp.json`; no command of a clone is ever run."""
    found = dict[str, PeerSettings]()
    try:
        servers = msgspec.json.decode(read_regular_file(project / ".mcp.json"), type=_ClientServers).mcp_servers
    except (OSError, ValueError):  # no file, or not ours to complain about
        return found
    for name, server in servers.items():
        if "forgetful" in name and "url" in server:
            with suppress(msgspec.ValidationError):
                peer = msgspec.convert({"name": name, "kind": "forgetful", "url": server["url"]}, PeerSettings)
                found |= {name: peer} if peer.is_harmless else {}
    return found


def environment_for_git() -> dict[str, str]:
    """The environment without git's variables for hooks, so that git looks at the folder it is given."""
    return {name: value for name, value in os.environ.items() if name not in _OF_GIT_HOOKS}


def config_files(project: Path, home: Path | None = None, env: Mapping[str, str] = os.environ) -> tuple[Path, Path]:
    """The files that settings are read from, the later one winning."""
    home = home or Path(env.get("SCRIMSHAW_HOME") or Path.home() / PROJECT_FOLDER)
    return home / CONFIG_FILE, project / PROJECT_FOLDER / CONFIG_FILE


def find_project(start: Path) -> Path:
    """The nearest folder at or above `start` with a `.scrimshaw`, or else with a `.git`, or else `start`."""
    start = start.absolute()
    if len(str(start)) > LONGEST_PATH:
        return start
    users = os.path.realpath(Path.home() / PROJECT_FOLDER)  # no project, whichever way a home that is a link is named
    for marker in (PROJECT_FOLDER, ".git"):
        for folder in (start, *start.parents):
            if (folder / marker).exists() and os.path.realpath(folder / marker) != users:
                return folder
    return start


def limit_native_threads() -> None:
    """Keep numpy to one thread unless the user says otherwise: a scan is too short. Call it before numpy is loaded."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def release_freed_memory() -> None:
    """Give pages that native code freed back to the system: 56 MB after a model was loaded. Only glibc keeps them."""
    import ctypes  # noqa: PLC0415 - only after a model or many vectors were read

    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def silence_runtime() -> None:
    """Forbid onnxruntime to report to its maker. Call it before the import, which would be reported already."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def editor() -> str:
    """The command that opens a file in the user's editor; empty when none is named."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""


def traces_exporter() -> str:
    """The exporter that the user named for OpenTelemetry; empty when none is named."""
    return os.environ.get("OTEL_TRACES_EXPORTER", "")


def _read_toml(path: Path, unreadable: _Faults) -> dict[str, Any]:
    text = "capture = false"  # to be assumed of what cannot be read at all
    try:
        text = read_regular_file(path).decode("utf-8-sig")
        # A file of comments, such as `init` writes, sets nothing; parsing it would take a hook 3 ms.
        return parse_toml(text) if _NO_COMMENT.search(text) else {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:  # ValueError: neither UTF-8 nor TOML
        fault = ConfigError(f"{path} cannot be read: {describe_os_error(error)}.", "Correct the file.")
        if unreadable is None:
            raise fault from error
        unreadable.append(fault)
        return {"session": {"capture": False}} if _NO_CAPTURE.search(text) else {}


def _merge(table: Mapping[str, Any], origin: str, given: _Given, problems: list[str], ignored: list[str]) -> None:
    for section, content in table.items():
        if section in SECTIONS and isinstance(content, dict):
            given.setdefault(section, {}).update({key: (value, origin) for key, value in content.items()})
        elif section == "vaults":  # a clone could name any folder
            problems.append(f"{origin}: [[vaults]] belong in the user's own {CONFIG_FILE}")
        else:
            places = [f"[{info.section}] {info.key}: {info.allowed}" for info in all_keys() if info.key == section]
            hint = f"it belongs to {', '.join(places)}" if places else f"the sections are {', '.join(_TABLES)}"
            found = problems if section in SECTIONS else ignored
            found.append(f"{origin}: {_quote(section, content)} {_UNKNOWN}; {hint}")


def _merge_environment(env: Mapping[str, str], given: _Given) -> list[str]:
    """Merge the values of variables; returns what is said of unknown names, with the nearest known one."""
    known = set[str]()
    for section, kind in SECTIONS.items():
        for key in kind.__struct_encode_fields__:
            for name in reversed(_environment_names(section, key)):
                known.add(name)
                if name in env:
                    value = _environment_value(env[name], _types(kind)[key])
                    given.setdefault(section, {})[key] = value, _ENVIRONMENT
    unknown = [(name, find_nearest(name, known)) for name in sorted(env.keys() - known)]
    # Spec-kit has its own variables; one that is unlike any of ours is not a mistake.
    ours = [(name, hint) for name, hint in unknown if hint or name.startswith(_PREFIXES[0])]
    return [f"{_ENVIRONMENT}: {name} {_UNKNOWN}. {hint}".strip() for name, hint in ours]


@cache
def _types(kind: type[Struct]) -> dict[str, Any]:
    """The type of each key of a section; msgspec evaluates all annotations of one for a third of a millisecond."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}


def _section(name: str, stated: Mapping[str, tuple[Any, str]], problems: list[str], ignored: list[str]) -> Any:
    """The checked section; every unusable value is added to `problems`, and every unknown key to `ignored`."""
    kinds, good = _types(SECTIONS[name]), dict[str, Any]()
    for key, (value, origin) in stated.items():
        what = f"{origin}: {name}.{_quote(key, value)}"
        if key not in kinds:
            ignored.append(f"{what} {_UNKNOWN}. {find_nearest(key, kinds) or 'Remove it.'}")
            continue
        try:
            good[key] = msgspec.convert(value, kinds[key], strict=origin != _ENVIRONMENT)
        except msgspec.ValidationError:
            problems.append(f"{what} is not allowed; expected {_describe_range(msgspec.inspect.type_info(kinds[key]))}")
            continue
        falling = _FALLING.get((name, key))
        if falling is not None and list(good[key]) != sorted(good[key], reverse=falling):
            problems.append(f"{what} is not in {'falling' if falling else 'rising'} order")
    return SECTIONS[name](**good)


def _quote(key: str, value: object) -> str:
    """A key and its value for a message that may be logged; a possible secret is left out."""
    is_table = any(isinstance(each, dict) and each for each in (value if isinstance(value, list) else [value]))
    return f"{key} (not shown)" if is_table or key.lower().endswith(_SECRET) else f"{key} = {value!r}"


def _tables(table: dict[str, Any], name: str, kind: Any, path: Path, problems: list[str]) -> tuple[Any, ...]:
    """The list of tables of that name, removed from `table`; unreadable ones are added to `problems`."""
    try:
        return tuple(msgspec.convert(table.pop(name, []), list[kind]))
    except msgspec.ValidationError as error:
        allowed = ", which is one of forgetful, memory, scrimshaw" if ".kind`" in str(error) else ""  # of a peer
        problems.append(f"{path}: {name} is not allowed; {error}{allowed}")
        return ()


@cache
def _environment_names(section: str, key: str) -> tuple[str, ...]:
    names = (f"SCRIMSHAW_{key}", f"SPECKIT_{key}") if section == "features" else (f"SCRIMSHAW_{section}_{key}",)
    return (*map(str.upper, names), *_OTHER_NAMES.get(key, ()))


def _environment_value(text: str, kind: Any) -> Any:
    if _describe_range(msgspec.inspect.type_info(kind)) == "text" and not text.startswith(("'", '"')):
        return text
    if text.strip().lower() in {"on", "yes", "off", "no"}:
        return text.strip().lower() in {"on", "yes"}
    with suppress(ValueError):
        return parse_toml(f"value = {text}")["value"]
    return text


def _describe_range(info: Any) -> str:
    """The allowed values in words, such as `a number from 0 to 0.2`."""
    inner = info.type if isinstance(info, msgspec.inspect.Metadata) else info
    match inner:
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.LiteralType():
            return "one of " + ", ".join(str(value) for value in inner.values)
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            kind = "a whole number" if isinstance(inner, msgspec.inspect.IntType) else "a number"
            return kind if inner.ge is None else f"{kind} from {inner.ge:g} to {inner.le:g}"
        case msgspec.inspect.TupleType():
            items = [_describe_range(item) for item in inner.item_types]
            return f"a list of {len(items)}, each {items[0]}"
        case msgspec.inspect.VarTupleType():
            return f"a list, each {_describe_range(inner.item_type)}"
        case _:
            return "text"
