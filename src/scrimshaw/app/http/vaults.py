"""The memories that a server has open, and what a token may do with them."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import to_builtins
from msgspec.structs import replace as replace_fields

from scrimshaw.app.background import Background
from scrimshaw.app.http.across import AcrossDispatcher, AcrossMemories, drop_vault
from scrimshaw.app.http.commits import Exchange, commit_changes
from scrimshaw.app.http.metrics import Metrics
from scrimshaw.app.http.tokens import Token, TokenScope
from scrimshaw.app.mcp.backend import PROMPTS, Memories
from scrimshaw.app.mcp.protocol import Backend, Dispatcher
from scrimshaw.app.mcp.schema import ToolSpec
from scrimshaw.app.mcp.tools import choose
from scrimshaw.config import VaultSettings
from scrimshaw.engine import Engine, open_engine
from scrimshaw.engine.core import GLOBAL, load_memory
from scrimshaw.engine.index import count_vectors
from scrimshaw.engine.query_log import search_figures
from scrimshaw.errors import Forbidden, ReadOnly, ScrimshawError, StorageFailure
from scrimshaw.models import EVERY, UNFINISHED

_ID_PARAMETERS = ("id", "source_id", "target_id", "folder")
_log = logging.getLogger(__name__)
_Commit = Callable[[Engine, str], AbstractContextManager[Mapping[str, str]]]


class Caller(NamedTuple):
    """The owner of a request's token, and what it may do in the vaults of this server, by name."""

    token: Token
    scopes: Mapping[str, TokenScope]
    waiting: Mapping[str, TokenScope]  #: of vaults that are not open, such as one whose remote was not reached


class Vaults:
    """All memories of a server, open until the block ends."""

    def __init__(self, folders: Mapping[str, Path], toolsets: str, stated: Iterable[VaultSettings] = ()) -> None:
        self._folders, self._tools, self._stated = folders, choose(toolsets), {each.name: each for each in stated}
        self._open, self.exchanges = dict[str, Background](), dict[str, Exchange]()
        self._commits = dict[str, _Commit]()
        self.metrics = Metrics()

    @contextmanager
    def open_all(self) -> Iterator[list[str]]:
        """Open every memory, and start its background work; yields the names of those that can be served.

        One with a remote is opened once its folder exists; the log says what keeps another closed. Raises
        ScrimshawError if there is no other.
        """
        with ExitStack() as closing:
            try:
                for name, folder in self._folders.items():
                    open_vault, stated = partial(self._open_vault, closing, name), self._stated.get(name)
                    exchange = Exchange(stated, folder, open_vault) if stated and stated.remote else None
                    if stated and stated.commit:
                        self._commits[name] = partial(commit_changes, exchange=exchange)
                    if exchange:
                        self.exchanges[name] = exchange
                        exchange.start()
                        continue
                    try:
                        open_vault()
                    except ScrimshawError as error:
                        if len(self._folders) == 1:
                            raise
                        _log.warning("The vault %s is not served until a restart: %s", name, error)
                yield sorted({*self._open, *self.exchanges})
            finally:
                for each in self.exchanges.values():
                    each.stop()

    def _open_vault(self, closing: ExitStack, name: str) -> Engine:
        engine = closing.enter_context(open_engine(load_memory(self._folders[name]), for_team=True))
        background = Background(engine)
        closing.callback(background.stop)
        background.start()
        self._open[name] = background
        return engine

    @property
    def is_ready(self) -> bool:
        """Whether all but those whose remote failed are open and scanned, and their databases answer."""
        failed = {name for name, each in self.exchanges.items() if each.has_failed}
        is_open = self._folders.keys() - failed <= self._open.keys()
        with suppress(StorageFailure):  # such as a database server that is away
            opened = self._open.copy().values() if is_open else ()
            return is_open and all(each.wait_until_fresh(0) and each.engine.index.generation() >= 0 for each in opened)
        return False

    def admit(self, token: Token) -> Caller:
        """What a token may do here; it does not learn of other vaults."""
        known = [(name, token.scopes.get(str(folder))) for name, folder in self._folders.items()]
        scopes = {name: scope for name, scope in known if scope and name in self._open}
        return Caller(token, scopes, {name: scope for name, scope in known if scope and name not in scopes})

    def find_backend(self, caller: Caller, names: Sequence[str]) -> Backend:
        """The backend that answers a caller, for one vault that it may enter or for several."""
        engines = {name: replace(self._open[name].engine, person=caller.token.name) for name in names}
        single = dict[str, CountingDispatcher]()
        for name, engine in engines.items():
            tools = [_limit_tool(spec, caller.scopes[name], self._commits.get(name)) for spec in self._tools]
            observe, alone = partial(self.metrics.observe, (name,)), name if len(names) == 1 else ""
            single[name] = CountingDispatcher(tools, engine, observe, alone)

        def wait() -> None:
            for name in names:
                self._open[name].wait_briefly()

        dispatcher = single[names[0]]
        if len(names) == 1:
            return Backend(dispatcher, Memories(dispatcher.engine), PROMPTS, wait)
        everything = replace(dispatcher.engine, vaults=engines)
        over_all = CountingDispatcher(self._tools, everything, partial(self.metrics.observe, names))
        resources = {name: Memories(engine) for name, engine in engines.items()}
        return Backend(AcrossDispatcher(over_all, single), AcrossMemories(resources), PROMPTS, wait)

    def measure(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Gauges by name and vault."""
        gauges = defaultdict[str, dict[str, float]](dict)
        for name in names:
            engine = self._open[name].engine
            gauges["memories"][name] = engine.index.count(EVERY)[""]
            gauges["vectors"][name], gauges["chunks"][name] = count_vectors(engine)
            jobs = engine.journal.jobs(UNFINISHED)
            gauges["jobs"][name] = len(jobs)
            gauges["job_lag_seconds"][name] = max((engine.clock() - job.created for job in jobs), default=0.0)
            searches = search_figures(engine, 1)
            for share in ("refused", "degraded", "lifted", "read"):
                gauges[f"searches_{share}_share"][name] = getattr(searches, share) or 0.0
        return gauges


class CountingDispatcher(Dispatcher):
    """Runs tools, and reports how long each took; calls may name the vault, if it is the only one."""

    def __init__(
        self, tools: Sequence[ToolSpec], engine: Engine, observe: Callable[[str, float, str], None], vault: str = ""
    ) -> None:
        super().__init__(tools, engine)
        self._observe, self._vault = observe, vault

    def run(self, name: str, arguments: Mapping[str, Any]) -> Any:
        began, error = time.perf_counter(), "internal"
        try:
            given = drop_vault(self._vault, arguments) if self._vault else arguments
            reply, error = super().run(name, given), ""
        except ScrimshawError as refusal:
            error = refusal.code
            raise
        finally:
            self._observe(name if name in self.tools else "unknown", time.perf_counter() - began, error)
        return reply


def find_required_scope(spec: ToolSpec) -> TokenScope:
    """The scope that a token needs in a vault to call a tool there."""
    if spec.read_only:
        return TokenScope.READ
    # Tools that affect more than single memories are for administrators.
    return TokenScope.ADMIN if spec.toolset == "maintenance" else TokenScope.WRITE


def _limit_tool(spec: ToolSpec, scope: TokenScope, commit: _Commit | None) -> ToolSpec:
    """The tool as a token of this scope may call it; `commit` commits its changes."""

    def run(engine: Engine, **arguments: Any) -> Any:
        needed = TokenScope.ADMIN if arguments.get("purge") else find_required_scope(spec)
        if not scope.includes(needed):
            message = f"`{spec.name}` needs the scope {needed}; this token has {scope}."
            raise Forbidden(message, "Ask who runs the server for another token.", scope=needed)
        if arguments.get("file_path") or arguments.get("paths"):
            message = "A file of the server cannot be named over HTTP."
            raise Forbidden(message, "Send the text as `content`.", parameter="file_path")
        if not spec.read_only and any(str(arguments.get(key, "")).startswith(GLOBAL) for key in _ID_PARAMETERS):
            message = f"`{GLOBAL}...` is each person's own vault, which a server cannot change."
            raise ReadOnly(message, "Choose another id, or save it on your own machine.", parameter="id")
        if spec.read_only or commit is None:
            return spec.run(engine, **arguments)
        with commit(engine, spec.name) as more:
            reply = spec.run(engine, **arguments)
        return {**to_builtins(reply), **more} if more else reply

    return replace_fields(spec, run=run)
