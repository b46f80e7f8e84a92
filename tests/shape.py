"""The shape of the code, measured as a whole: `python -m tests.shape` prints each measure beside its bound.

Every measure has its definition in `MEASURES`; the bounds are in `shape.toml` and may only fall.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]
BOUNDS = Path(__file__).with_suffix(".toml")

MEASURES = {
    "package_lines": "physical lines of src/scrimshaw",
    "package_files": "Python files of src/scrimshaw",
    "lab_lines": "physical lines of src/scrimshaw_lab",
    "single_call_privates": "private functions (one leading underscore) that their file calls in one place",
    "repeated_class_names": "class names that two classes of src/scrimshaw have",
    "participle_permille": "functions of src/scrimshaw whose name begins with a participle, of a thousand",
    "import_circles": "groups of modules that import each other, imports for type checkers included",
    "port_methods": "methods of the ports of storage that other rooms name",
    "get_functions": "distinct functions run to read one memory by id through its tool",
    "save_functions": "distinct functions run to save a memory through its tool",
    "update_functions": "distinct functions run to change a memory through its tool",
    "search_functions": "distinct functions run to search by words through the tool",
    "hook_functions": "distinct functions run for a finished tool call that a client reports",
    "start_functions": "distinct functions run when a session starts after another one",
    "update_parses": "times that an update parses front matter",
    "update_hashes": "times that an update hashes a file's content",
}


_PRIVATE = re.compile(r"_[^_]")


@cache
def trees(package: str) -> Mapping[str, ast.Module]:
    """The files of a package below `src` by their names, parsed."""
    folder = ROOT / "src" / package
    return {
        file.relative_to(folder.parent).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(folder.rglob("*.py"))
    }


def count_lines(package: str) -> int:
    """Physical lines of the package's Python files."""
    return sum(len(file.read_bytes().splitlines()) for file in (ROOT / "src" / package).rglob("*.py"))


def find_single_call_privates() -> list[str]:
    """Private functions that are called in one place of their file and named nowhere else in it."""
    found = []
    for name, tree in trees("scrimshaw").items():
        nodes = list(ast.walk(tree))
        named = Counter(
            node.attr if isinstance(node, ast.Attribute) else node.id
            for node in nodes
            if isinstance(node, ast.Attribute | ast.Name)
        )
        called = Counter(
            node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
        )
        found += [
            f"{name}:{node.lineno}: {node.name}"
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if _PRIVATE.match(node.name) and named[node.name] == called[node.name] == 1
        ]
    return found


def find_repeated_class_names() -> dict[str, list[str]]:
    """The names that two or more classes have, with their files."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in trees("scrimshaw").items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{name}:{node.lineno}")
    return {name: found for name, found in places.items() if len(found) > 1}


def find_participles() -> tuple[list[str], int]:
    """Functions whose name begins with a participle, and the number of all functions; double underscores apart."""
    found, total = [], 0
    for name, tree in trees("scrimshaw").items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
                total += 1
                if is_participle(node.name.strip("_").partition("_")[0]):
                    found.append(f"{name}:{node.lineno}: {node.name}")
    return found, total


def is_participle(word: str) -> bool:
    """Whether a word is a participle and nothing else."""
    words = read_settings()
    if word in words["no_participles"]:
        return False
    return word in words["participles"] or (len(word) > 4 and word.endswith(("ed", "ing")))


def find_import_circles() -> list[list[str]]:
    """Groups of modules that reach each other by imports, whoever reads those: the interpreter or a type checker."""
    files = trees("scrimshaw").items()
    modules = {name.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): tree for name, tree in files}
    graph = {name: set(_imports(tree, modules)) - {name} for name, tree in modules.items()}
    reach = {name: _reachable(graph, name) for name in graph}
    circles = {tuple(sorted(other for other in reach[name] if name in reach[other])) for name in graph}
    return [list(circle) for circle in sorted(circles) if len(circle) > 1]


def _imports(tree: ast.Module, modules: Mapping[str, object]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            # A name may be a module of the package or something that the package's own file holds.
            whole = {each.name: f"{node.module}.{each.name}" for each in node.names}
            yield from (whole[name] if whole[name] in modules else str(node.module) for name in whole)


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for other in graph[waiting.pop()] - seen:
            seen.add(other)
            waiting.append(other)
    return seen


def find_port_methods() -> list[str]:
    """The methods of the ports of storage that other rooms name; the rest is for the engines."""
    storage = "scrimshaw/storage/"
    outside = [
        node for name, tree in trees("scrimshaw").items() if not name.startswith(storage) for node in ast.walk(tree)
    ]
    named = {node.attr for node in outside if isinstance(node, ast.Attribute)}
    return [
        f"{port.name}.{node.name}"
        for name in ("Index", "Sessions", "Journal", "Maintenance")
        for port in trees("scrimshaw")[f"{storage}{name.lower()}.py"].body
        if isinstance(port, ast.ClassDef) and port.name == name
        for node in port.body
        if isinstance(node, ast.FunctionDef) and node.name in named - {"__init__"}
    ]


class Trace:
    """The functions of the package that a piece of work runs, counted; lambdas and comprehensions are functions too."""

    def __init__(self, calls: Mapping[str, int] | None = None) -> None:
        self.calls = Counter(calls)
        self._folder = str(ROOT / "src/scrimshaw") + os.sep

    def __enter__(self) -> Trace:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self._folder):
            name = f"{code.co_filename.removeprefix(self._folder)}:{code.co_qualname}"
            self.calls[f"{name}:{code.co_firstlineno}" if name.endswith(">") else name] += 1

    @property
    def functions(self) -> int:
        return len(self.calls)

    @property
    def files(self) -> int:
        return len({name.partition(":")[0] for name in self.calls})


def trace_main_paths() -> dict[str, Trace]:
    """Every main path, run a second time after one like it, over a small project without vectors.

    Run in a process of its own: what others computed before and cached would be missing from the trace.
    """
    output = subprocess.check_output([sys.executable, "-m", "tests.shape", _TRACES], cwd=ROOT, text=True)
    return {name: Trace(calls) for name, calls in json.loads(output).items()}


def _print_traces() -> None:
    with TemporaryDirectory(prefix="scrimshaw-shape-") as folder:
        environment = {"SCRIMSHAW_HOME": f"{folder}/home", "SCRIMSHAW_EMBEDDING_PROVIDER": "none"}
        with mock.patch.dict(os.environ, environment):
            traces = _run_main_paths(Path(folder) / "project")
    sys.stdout.write(json.dumps({name: trace.calls for name, trace in traces.items()}))


def _run_main_paths(project: Path) -> dict[str, Trace]:
    from scrimshaw.app.hooks.record import handle_payload
    from scrimshaw.app.mcp.protocol import Dispatcher
    from scrimshaw.app.mcp.tools import choose
    from scrimshaw.config import load
    from scrimshaw.engine import open_engine

    (project / ".scrimshaw/memories").mkdir(parents=True)
    with open_engine(load(project)) as engine:
        dispatcher = Dispatcher(choose("all"), engine)

        def call(tool: str, **arguments: Any) -> None:
            outcome = dispatcher.dispatch(tool, arguments)
            assert not outcome.error, outcome.text

        def report(event: str, session: str, **fields: Any) -> None:
            payload = {"session_id": session, "cwd": str(project), "hook_event_name": event, **fields}
            with mock.patch.dict(os.environ):
                del os.environ["SCRIMSHAW_EMBEDDING_PROVIDER"]  # no hook asks for it, and few users set one
                handle_payload(["claude"], json.dumps(payload).encode())

        def finish_call(number: int) -> None:
            call = {"tool_name": "Bash", "tool_input": {"command": "git commit -m 'Close the harbour at dusk'"}}
            output = f"[main 1a2b3c{number}] Close the harbour at dusk\n 1 file changed"
            report("PostToolUse", "s0", **call, tool_use_id=f"t{number}", tool_response={"stdout": output})

        paths: dict[str, Callable[[int], None]] = {
            "save": lambda n: call(
                "memory_save", title=_TITLES[n], content=_TEXTS[n], trigger_phrases=[_TITLES[n]], topics=["harbour"]
            ),
            "get": lambda n: call("memory_get", id=_IDS[n]),
            "update": lambda n: call("memory_update", id=_IDS[n], topics=["harbour", f"topic {n}"]),
            "search": lambda n: call("memory_search", query=f"{_WORDS[n]} at dusk"),
            "hook": finish_call,
            "start": lambda n: report("SessionStart", f"s{n + 1}", source="startup"),
        }
        traces = {}
        for name, run in paths.items():
            run(0)
            with Trace() as trace:
                run(1)
            traces[name] = trace
    return traces


_WORDS = ("lighthouse", "breakwater")
_TITLES = ("Lighthouse keys hang in the office", "Breakwater gates close at dusk")
_IDS = ("lighthouse-keys-hang-in-the-office", "breakwater-gates-close-at-dusk")
_TEXTS = (
    "The keys of the lighthouse hang in the harbour office, beside the log of the last keeper. Ask for them at dusk.",
    "The gates of the breakwater close at dusk, because the ferry needs quiet water. Only the pilot opens them again.",
)


def measure() -> dict[str, int]:
    """Every measure's value."""
    settings = read_settings()
    participles, functions = find_participles()
    traces = trace_main_paths()
    values = {
        "package_lines": count_lines("scrimshaw"),
        "package_files": len(trees("scrimshaw")),
        "lab_lines": count_lines("scrimshaw_lab"),
        "single_call_privates": len(find_single_call_privates()),
        "repeated_class_names": len(find_repeated_class_names()),
        "participle_permille": round(1000 * len(participles) / functions),
        "import_circles": len(find_import_circles()),
        "port_methods": len(find_port_methods()),
        **{f"{name}_functions": trace.functions for name, trace in traces.items()},
        "update_parses": sum(traces["update"].calls[name] for name in settings["parsers"]),
        "update_hashes": sum(traces["update"].calls[name] for name in settings["hashers"]),
    }
    return {name: values[name] for name in MEASURES}


@cache
def read_settings() -> dict[str, Any]:
    """What `shape.toml` says."""
    return tomllib.loads(BOUNDS.read_text(encoding="utf-8"))


def is_loose(value: int, bound: int) -> bool:
    """Whether a bound could be lowered by more than a fiftieth.

    Only on the oldest interpreter: later ones run comprehensions without a function of their own.
    """
    return bound - value > bound / 50 and sys.version_info[:2] == (3, 11)


def _list_calls(path: str) -> list[tuple[str, int]]:
    return sorted(trace_main_paths()[path].calls.items())


def main() -> None:
    """Print the measures; with the name of a measure, what it counts."""
    listings: dict[str, Callable[[], object]] = {
        "single_call_privates": find_single_call_privates,
        "repeated_class_names": find_repeated_class_names,
        "participle_permille": lambda: find_participles()[0],
        "import_circles": find_import_circles,
        "port_methods": find_port_methods,
        **{f"{name}_functions": partial(_list_calls, name) for name in _PATHS},
    }
    write = sys.stdout.write
    if _TRACES in sys.argv:
        _print_traces()
        return
    if len(sys.argv) > 1:
        found: Any = listings[sys.argv[1]]()
        write("\n".join(map(str, found.items() if isinstance(found, dict) else found)) + "\n")
        return
    bounds = read_settings()["bounds"]
    for name, value in measure().items():
        bound = bounds[name]
        verdict = "TOO MUCH" if value > bound else "could be lowered" if is_loose(value, bound) else ""
        write(f"{name:22}{value:>8}  of {bound:>6}  {MEASURES[name]}  {verdict}\n")


_TRACES = "traces"
_PATHS = ("get", "save", "update", "search", "hook", "start")


if __name__ == "__main__":
    main()
