"""What is fuzzed: for each target its seeds, how inputs are made, what is done with one, and what must hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.app.clients.record import load_records
from tests.fuzz import seeds
from tests.fuzz.calls import call_of
from tests.fuzz.mutation import Mutator
from tests.fuzz.wire import lines_of, open_wires
from tests.samples import SECRET, source_file

from scrimshaw.app.clients import all_clients
from scrimshaw.app.hooks.record import handle_payload
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import ALL_TOOLS
from scrimshaw.config import load
from scrimshaw.engine import open_engine, write
from scrimshaw.engine.write import NewText
from scrimshaw.errors import ScrimshawError
from scrimshaw.ingest import chatter, instructions
from scrimshaw.ingest.extraction import default_rules, extract
from scrimshaw.ingest.front_matter import find_spelling
from scrimshaw.ingest.markdown import parse_headings
from scrimshaw.ingest.memory_file import (
    MemoryFile,
    add_relation,
    build_document,
    edit_memory_file,
    parse_memory_file,
    remove_relation,
)
from scrimshaw.ingest.quality import judge
from scrimshaw.ingest.redact import redact
from scrimshaw.ingest.references import find_references, rewrite_references
from scrimshaw.ingest.rule_checks import check_rules, usable_rules
from scrimshaw.ingest.tool_calls import ToolCall, describe_call
from scrimshaw.models import Relation

Check = Callable[[str], None]
PLACE = "/home/dev/project"  # where the recorded payloads come from
_WHOLE_SECRET = re.compile(rf"(?<![\w-]){re.escape(SECRET)}(?![\w-])")
_CONFIG = '[embedding]\nprovider = "none"\n'


class Target(NamedTuple):
    """`make` gives an input from random numbers; `opened` a check of one input, in a scratch folder of its own.

    A check raises whatever is wrong. Files below the scratch folder must never hold the secret.
    """

    name: str
    make: Callable[[Random], str]
    opened: Callable[[Path], Any]


def holds_secret(folder: Path) -> bool:
    """Whether any file below a folder has the secret in it, or in its name."""
    return any(SECRET in path.name or SECRET.encode() in _read(path) for path in folder.rglob("*"))


def _read(path: Path) -> bytes:
    """A file's bytes; none where it is a folder, or gone because a server is at work."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:
        return b""


def _documents(text: str) -> None:
    try:
        raw = text.encode("utf-8", "surrogatepass")
        document = build_document(source_file("fuzzed"), parse_memory_file(raw), redact)
    except ScrimshawError:
        return
    body = document.body.text
    assert "".join(body[chunk.start : chunk.end] for chunk in document.chunks) == body, "chunks do not cover the body"
    assert all(body[each.start :].lstrip(" >-\t") for each in parse_headings(body)), "a heading is beyond the body"


def _edits(text: str) -> None:
    """A change can be read back, leaves the other keys and the body alone, and the same change changes nothing more."""
    try:
        before = parse_memory_file(text).demand_readable()
        assert edit_memory_file(before, {}).text == text
        after = edit_memory_file(before, {"title": "new: 'title'", "topics": ["a", "b: c"]})
    except ScrimshawError:
        return
    read = parse_memory_file(after.text)
    title, topics = (find_spelling(before.values, key) for key in ("title", "topics"))
    assert after.values == read.values == {**before.values, title: "new: 'title'", topics: ["a", "b: c"]}
    assert read.body == before.body, "the body changed"
    assert edit_memory_file(read, {"title": "new: 'title'", "topics": ["a", "b: c"]}).text == after.text
    _related(read)


def _related(file: MemoryFile) -> None:
    try:
        linked = add_relation(file, Relation.SUPPORTS, "a/b", 0.5, "seen: 'it'")
        assert remove_relation(parse_memory_file(linked.text), Relation.SUPPORTS, "a/b").body == file.body
    except ScrimshawError:
        return


def _configuration(folder: Path, text: str) -> None:
    (folder / ".scrimshaw").mkdir(exist_ok=True)
    file = folder / ".scrimshaw/config.toml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        settings = load(folder, home=folder / "home", environment={})
        usable_rules(settings.rules)
        check_rules(settings.rules)
    except ScrimshawError as error:
        if not (error.message and error.hint):
            raise
    finally:
        file.unlink()


def _transcript(client: str, text: str) -> None:
    for event in all_clients()[client].parse_transcript(text).events:
        assert event.at >= 0
        assert isinstance(event.prompt + event.output, str)


def _rules(text: str) -> None:
    tool, _, rest = text.encode(errors="replace").decode().partition(" ")  # JSON is decoded so, half characters gone
    argument, _, output = rest.partition("\n")
    names = ("Bash", "Read", "Edit", "Write", "Grep", "Web", "Mcp", tool)
    for name in (names[len(text) % len(names)], tool):
        arguments = {"command": argument, "file_path": argument, "pattern": argument, "content": output}
        found = extract(describe_call(ToolCall(tool=name, arguments=arguments, output=output)), default_rules())
        assert found is None or (0 <= found[0].attention <= 1 and len(found[1]) <= 500)


def _redaction(text: str) -> None:
    once = redact(text)
    assert not _WHOLE_SECRET.search(once.text), "the secret survived"
    assert redact(once.text).text == once.text, "redaction finds more the second time"
    assert all(0 <= span.start <= span.end <= len(text) for span in once.spans)


def _contamination(text: str) -> None:
    cleaned = chatter.remove_chatter(text)
    assert len(cleaned) <= len(text)
    assert chatter.remove_chatter(cleaned) == cleaned, "cleaning finds more the second time"


def _quality(text: str) -> None:
    assert 0 <= judge(parse_memory_file(text)).score <= 1


def _instructions(text: str) -> None:
    assert instructions.is_suspicious(text) in (False, True)


def _references(text: str) -> None:
    found = find_references(text)
    for each in found:
        assert text[each.start : each.start + len(each.path)] == each.path
    assert rewrite_references(text, [(each, each.path) for each in found]) == text


@contextmanager
def _pure(check: Check, _: Path) -> Iterator[Check]:
    yield check


@contextmanager
def _in_folder(check: Callable[[Path, str], None], folder: Path) -> Iterator[Check]:
    yield partial(check, folder)


@contextmanager
def _hooks(client: str, folder: Path) -> Iterator[Check]:
    """A real project whose memory the prompts bring up. A hook may refuse an input: it fails open."""
    settings = _project(folder)
    with open_engine(settings) as engine:
        write.save(engine, NewText(content="# Why apsw\n\nThe log.\n", triggers=("wal reset",)), force=True)

    def check(text: str) -> None:
        hint, payload = _hinted(text.replace(PLACE, str(folder)))
        try:
            handle_payload([client, hint], payload.encode("utf-8", "surrogatepass"))
        except (ScrimshawError, ValueError, RecursionError):
            return

    yield check


def _hinted(text: str) -> tuple[str, str]:
    try:
        hint, payload = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return "", text
    return hint if isinstance(hint, str) else "", json.dumps(payload)


@contextmanager
def _tools(folder: Path) -> Iterator[Check]:
    with open_engine(_project(folder)) as engine:
        for name in ("storage/wal", "a", "b"):
            write.save(engine, NewText(content=f"# About {name}\n\nWhat {name} is.\n", id=name), force=True)
        dispatcher = Dispatcher(ALL_TOOLS, engine)

        def check(text: str) -> None:
            call = json.loads(text)
            arguments: Mapping[str, Any] = call["arguments"]
            outcome = dispatcher.dispatch(call["tool"], arguments)
            assert outcome.error != "internal", "a tool failed with something else than a ScrimshawError"

        yield check


@contextmanager
def _wires(folder: Path) -> Iterator[Check]:
    with open_engine(_project(folder)) as engine:
        write.save(engine, NewText(content="# About a\n\nWhat a is.\n", id="a"), force=True)
    with open_wires(folder) as check:
        yield check


def _project(folder: Path) -> Any:
    (folder / ".scrimshaw/memories").mkdir(parents=True, exist_ok=True)
    (folder / ".scrimshaw/config.toml").write_text(_CONFIG, encoding="utf-8")
    return load(folder, home=folder / "home", environment={})


def _of_texts(name: str, check: Check, texts: Callable[[], Sequence[str]]) -> Target:
    return Target(name, lambda random: Mutator(texts(), random).text(), partial(_pure, check))


def _of_client(client: str) -> Target:
    return Target(
        f"hook-{client}", lambda random: Mutator(seeds.payloads(client), random).json(), partial(_hooks, client)
    )


def _of_transcript(client: str) -> Target:
    return Target(
        f"transcript-{client}",
        lambda random: Mutator(seeds.transcripts(client), random).lines(),
        partial(_pure, partial(_transcript, client)),
    )


TARGETS: tuple[Target, ...] = (
    _of_texts("documents", _documents, seeds.documents),
    _of_texts("edits", _edits, seeds.documents),
    *map(_of_client, load_records()),
    Target("tools", call_of, _tools),
    Target("wire", lines_of, _wires),
    Target(
        "configuration",
        lambda random: Mutator(seeds.configurations(), random).text(),
        partial(_in_folder, _configuration),
    ),
    *(_of_transcript(client) for client, record in load_records().items() if record.transcript),
    _of_texts("rules", _rules, seeds.texts),
    _of_texts("redaction", _redaction, seeds.texts),
    _of_texts("contamination", _contamination, seeds.texts),
    _of_texts("quality", _quality, seeds.texts),
    _of_texts("instructions", _instructions, seeds.texts),
    _of_texts("references", _references, seeds.texts),
)
