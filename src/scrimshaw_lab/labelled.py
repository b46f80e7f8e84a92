"""Reads labelled data: JSON objects, one a line, in files that may be compressed with gzip."""

import codecs
import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from scrimshaw.errors import InvalidRequest, describe_os_error
from scrimshaw.ingest.tool_calls import ToolCall

_Line = TypeVar("_Line")


class LabelledText(Struct, frozen=True, kw_only=True):
    """A text with or without a secret; `how` says whether it was found (literal, file) or generated."""

    text: str
    label: str = "benign"
    source: str = ""
    rule: str = ""
    kind: str = ""
    how: str = ""

    @property
    def group(self) -> str:
        """Its source, its label and `how`."""
        return ", ".join(filter(None, (self.source, self.label, self.how)))


class RecordedCall(Struct, frozen=True, kw_only=True):
    """A tool call of a real session; `exit_code` and `is_error` are None if the client does not report them."""

    source: str
    session: str
    step: int
    tool: str
    args: dict[str, object] | str | None = None
    output: str = ""
    exit_code: int | None = None
    is_error: bool | None = None


class CallLabel(Struct, frozen=True, kw_only=True):
    """Whether a call should be recorded, and what its summary must then contain."""

    source: str
    session: str
    step: int
    capture: Literal["yes", "no", "maybe"]
    kind: str = ""
    key: tuple[str, ...] = ()


class LabelledCall(NamedTuple):
    """A call and its label."""

    call: ToolCall
    label: CallLabel


def lines_of(
    path: Path, kind: type[_Line], check: Callable[[_Line], object] = bool, hint: str = "Write one JSON object a line."
) -> Iterator[_Line]:
    """The objects of a file; raises InvalidRequest naming the first line that is not one, or that `check` refuses."""
    decoder = msgspec.json.Decoder(kind)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                place, content = f"{path}, line {number}", line.removeprefix(codecs.BOM_UTF8)
                if content.strip():
                    found = decoder.decode(content)
                    check(found)
                    yield found
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidRequest) as error:
        problem = error.message if isinstance(error, InvalidRequest) else f"{error}."
        raise InvalidRequest(f"{place}: {problem}", hint, file=str(path), line=number) from error
    except (OSError, EOFError, zlib.error) as error:
        message = f"{path} cannot be read: {describe_os_error(error)}."
        raise InvalidRequest(message, "Name a .jsonl or .jsonl.gz file.") from error


def labelled_calls(calls: Path, labels: Path) -> list[LabelledCall]:
    """The recorded calls that have a label; raises InvalidRequest if a label has no call."""
    wanted = {(label.source, label.session, label.step): label for label in lines_of(labels, CallLabel)}
    found = []
    for call in lines_of(calls, RecordedCall):
        label = wanted.pop((call.source, call.session, call.step), None)
        if label:
            found.append(LabelledCall(tool_call(call), label))
    if wanted:
        missing = ", ".join(f"{session} step {step}" for _, session, step in list(wanted)[:3])
        raise InvalidRequest(f"{len(wanted)} labels have no call: {missing}.", "Name the calls that were labelled.")
    return found


def tool_call(call: RecordedCall) -> ToolCall:
    """The call as a client's hook would report it."""
    failed = call.is_error if call.exit_code is None else call.exit_code != 0
    arguments = {"input": call.args} if isinstance(call.args, str) else call.args or {}
    return ToolCall(tool=call.tool, arguments=arguments, output=call.output, failed=failed)
