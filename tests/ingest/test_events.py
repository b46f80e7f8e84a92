"""What is kept goes to other machines: paths below the project are told from there, others stay as they are."""

from __future__ import annotations

import pytest

from scrimshaw.ingest.events import RECORDED_CHARACTERS, Event, make_observation, redact_call
from scrimshaw.ingest.extraction import default_rules
from scrimshaw.models import EventKind

HOME = "/home/ann/shop"


def event(output: str = "", folder: str = HOME, tool: str = "Bash", **arguments: object) -> Event:
    return Event(
        client="claude", kind=EventKind.TOOL, session="s", cwd=folder, tool=tool, arguments=arguments, output=output
    )


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"cd {HOME} && make", "make"),
        (f"cd {HOME}", "cd ."),
        (f"cd {HOME}/src && make", "cd src && make"),
        (f"cat {HOME}/src/app.py", "cat src/app.py"),
        (f"cat {HOME}/.env.example", "cat .env.example"),
        (f"cat {HOME}-old/app.py", f"cat {HOME}-old/app.py"),
        ("cat /home/ann/other/app.py", "cat /home/ann/other/app.py"),
    ],
)
def test_commands_and_outputs(text: str, kept: str) -> None:
    call = redact_call(event(output=text, command=text))
    assert (call.arguments["command"], call.output) == (kept, kept)


def test_a_windows_folder() -> None:
    call = redact_call(event(folder="C:\\Users\\ann\\shop", command="type C:\\Users\\ann\\shop\\src\\app.py"))
    assert call.arguments["command"] == "type src\\app.py"


@pytest.mark.parametrize("folder", ["", "/", "/home"])
def test_a_folder_near_the_root_is_left(folder: str) -> None:
    assert redact_call(event(folder=folder, command="ls /home/x")).arguments["command"] == "ls /home/x"


def test_a_secret_of_a_command_is_removed_from_its_output_and_the_reverse() -> None:
    told, shown = "Lamp" + "post!73", "river7" + "Bank"
    command = f"zip -P {told} a.zip && retry {shown}"

    call = redact_call(event(output=f"packed with {told}; the password is {shown}", command=command))

    assert call.arguments["command"] == "zip -P [REDACTED:password] a.zip && retry [REDACTED:password]"
    assert call.output == "packed with [REDACTED:password]; the password is [REDACTED:password]"


def test_the_path_of_an_event_and_its_item() -> None:
    read = event(tool="Read", output="# Plan\n\nShip it.", file_path=f"{HOME}/docs/plan.md")
    seen = make_observation(read, default_rules(), process=0, extraction=True)
    assert seen.item
    assert (seen.path, seen.item.path) == ("docs/plan.md", "docs/plan.md")
    assert HOME not in seen.text.text + seen.item.text.text


def test_without_extraction_nothing_is_kept() -> None:
    seen = make_observation(event(output="words", command="ls"), default_rules(), process=0, extraction=False)
    assert (seen.text.text, seen.path, seen.item) == ("", "", None)


def test_of_a_long_output_the_end_is_recorded_too() -> None:
    output = "collected 900 items\n" + "x.py ....\n" * 900 + "== 3 failed in 2s =="
    text = make_observation(event(output, command="pytest"), (), process=0, extraction=True).text.text
    assert "collected 900 items" in text
    assert text.endswith("[...]\n" + "x.py ....\n" * 97 + "== 3 failed in 2s ==")
    assert len(text) <= RECORDED_CHARACTERS
