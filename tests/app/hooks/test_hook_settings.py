"""The hook's copy of the settings: never other than what the files say, never with a secret, never in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scrimshaw.app.cli.project_files import GITIGNORE, config_text
from scrimshaw.app.hooks.settings import COPY, load_settings
from scrimshaw.config import load
from scrimshaw.errors import ConfigError

SECRET = "ghp_" + "a1B2" * 9
RULE = '[[rules]]\nid = "mine"\ntool = "^Deploy$"\nattention = 0.9\n'
SOURCE = '[[sources]]\nname = "docs"\ninclude = ["docs/**/*.md"]\nexclude = ["docs/old/**"]\nartifact = "spec"\n'
VALUES = (
    "[search]\nlimit = 12\n[session]\npressure_thresholds = [0.5, 1]\n[features]\nprofile = 'baseline'\ndrafts = true\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without a configuration, and a user's folder without one."""
    for name in [name for name in os.environ if name.startswith(("SCRIMSHAW_", "SPECKIT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "project" / ".scrimshaw").mkdir(parents=True)
    return tmp_path / "project"


def write(project: Path, text: str) -> Path:
    path = project / ".scrimshaw" / "config.toml"
    path.write_text(text)
    return path


def copy_of(project: Path) -> Path:
    return project / ".scrimshaw" / COPY


def change(project: Path, limit: int) -> None:
    """Give the copy another value, by which its reader can be told."""
    content = msgspec.msgpack.decode(copy_of(project).read_bytes())
    content["sections"]["search"]["limit"] = limit
    copy_of(project).write_bytes(msgspec.msgpack.encode(content))


@pytest.mark.parametrize("text", ["", VALUES, SOURCE, RULE, VALUES + SOURCE + RULE, config_text()])
def test_the_copy_gives_what_the_files_give(project: Path, text: str) -> None:
    write(project, text)
    first, second = (load_settings(project, least_age_s=0) for _ in range(2))
    assert first == second == load(project)
    assert copy_of(project).exists()


def test_the_copy_leaves_out_peers(project: Path) -> None:
    entry = '[[peers]]\nname = "notes"\nurl = "https://notes.example/mcp"\ntoken = "tide"\n'
    (project.parent / "home/config.toml").write_text(entry)
    first, second = (load_settings(project, least_age_s=0) for _ in range(2))
    assert first == second == msgspec.structs.replace(load(project), peers=())
    assert b"tide" not in copy_of(project).read_bytes()


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(
    limit=st.integers(1, 100),
    decay=st.floats(0, 1),
    hot=st.lists(st.floats(0, 1), min_size=4, max_size=4),
    boost=st.booleans(),
    model=st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=20),
)
def test_any_value_comes_back(
    project: Path, limit: int, decay: float, hot: list[float], boost: bool, model: str
) -> None:
    lines = (
        f"search.limit = {limit}",
        f"session.decay_rate = {decay!r}",
        f"forgetting.state_thresholds = {sorted(hot, reverse=True)!r}",
        f"features.session_boost = {str(boost).lower()}",
        f"embedding.model = {json.dumps(model, ensure_ascii=False)}",
    )
    write(project, "\n".join(lines))
    copy_of(project).unlink(missing_ok=True)
    for _ in range(2):
        assert load_settings(project, least_age_s=0) == load(project)


def test_the_copy_is_what_is_read(project: Path) -> None:
    write(project, VALUES)
    load_settings(project, least_age_s=0)
    change(project, 77)
    assert load_settings(project).search.limit == 77


def test_a_change_of_the_same_size_and_time_is_seen(project: Path) -> None:
    path = write(project, "[search]\nlimit = 12\n")
    times = path.stat()
    load_settings(project, least_age_s=0)
    time.sleep(0.05)  # a step of the coarsest clock in use
    write(project, "[search]\nlimit = 13\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load_settings(project, least_age_s=0).search.limit == 13


def test_a_file_that_comes_or_goes_is_seen(project: Path, tmp_path: Path) -> None:
    path = write(project, "[search]\nlimit = 12\n")
    load_settings(project, least_age_s=0)
    (tmp_path / "home" / "config.toml").write_text("[context]\nquick_tokens = 900\n")
    assert load_settings(project, least_age_s=0).context.quick_tokens == 900
    path.unlink()
    assert load_settings(project, least_age_s=0).search.limit == 10
    (tmp_path / "home" / "config.toml").unlink()
    assert load_settings(project, least_age_s=0) == load(project)


def test_another_user_folder_is_another_configuration(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, VALUES)
    load_settings(project, least_age_s=0)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "other"))
    assert load_settings(project).home == tmp_path / "other"


@pytest.mark.parametrize("name", ["SCRIMSHAW_SEARCH_LIMIT", "SPECKIT_EXTRACTION"])
def test_the_environment_is_never_copied(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    write(project, VALUES)
    monkeypatch.setenv(name, "1")
    assert load_settings(project, least_age_s=0) == load(project)
    assert not copy_of(project).exists()
    monkeypatch.delenv(name)
    load_settings(project, least_age_s=0)
    change(project, 77)
    monkeypatch.setenv(name, "1")
    assert load_settings(project, least_age_s=0) == load(project)


def test_a_file_just_written_is_not_copied(project: Path) -> None:
    write(project, VALUES)
    assert load_settings(project) == load(project)
    assert not copy_of(project).exists()


@pytest.mark.parametrize(
    "text",
    [
        "[embedding]\nprovider = 'http'\nurl = 'http://localhost/v1'\napi_key = 'plain-words'\n",
        f"{RULE}content = '{SECRET}'\n",
        f"{RULE}priority = {2**70}\n",
        f"{RULE}since = 2026-01-01\n",
    ],
    ids=["key", "secret", "number", "date"],
)
def test_what_must_not_or_cannot_be_copied_is_not(project: Path, text: str) -> None:
    write(project, text)
    assert load_settings(project, least_age_s=0) == load(project)
    assert not copy_of(project).exists()


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x90", b"\x80", b"\xc0", b"\x81\xa7made_of\x80", b"x" * 9000])
def test_a_damaged_copy_is_made_again(project: Path, data: bytes) -> None:
    write(project, VALUES)
    load_settings(project, least_age_s=0)
    sound = copy_of(project).read_bytes()
    for damaged in (data, sound[: len(sound) // 2]):
        copy_of(project).write_bytes(damaged)
        assert load_settings(project, least_age_s=0) == load(project)
        assert copy_of(project).read_bytes() == sound


def test_a_copy_that_cannot_be_written_stops_nobody(project: Path) -> None:
    write(project, VALUES)
    copy_of(project).mkdir()
    assert load_settings(project, least_age_s=0) == load(project)


def test_a_wrong_configuration_is_refused_as_ever(project: Path) -> None:
    write(project, "[search]\nlimit = 0\n")
    with pytest.raises(ConfigError, match=r"search\.limit"):
        load_settings(project, least_age_s=0)


@pytest.mark.parametrize("ignored", [GITIGNORE, "index.db*\n"], ids=["now", "older projects"])
def test_git_ignores_the_copy(project: Path, ignored: str) -> None:
    (project / ".scrimshaw" / ".gitignore").write_text(ignored)
    subprocess.run(["git", "init", "-q", project], check=True)
    done = subprocess.run(["git", "check-ignore", "-q", copy_of(project)], cwd=project, check=False)
    assert done.returncode == 0


@pytest.mark.slow
def test_many_that_write_it_at_once_leave_one_that_is_whole(project: Path) -> None:
    write(project, VALUES)
    code = "import sys, pathlib; from scrimshaw.app.hooks.settings import load_settings\n"
    code += "print(load_settings(pathlib.Path(sys.argv[1]), least_age_s=0).search.limit)"

    def limit(_: int) -> bytes:
        return subprocess.run([sys.executable, "-c", code, project], capture_output=True, check=True).stdout.strip()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(limit, range(16))) == {b"12"}
    assert sorted(file.name for file in (project / ".scrimshaw").iterdir()) == ["config.toml", COPY]


def test_a_tool_event_imports_nothing_it_can_do_without(project: Path) -> None:
    """Each of these costs one to ten milliseconds, of the 60 that a hook may take."""
    write(project, VALUES)
    load_settings(project, least_age_s=0)
    event: dict[str, Any] = {
        "session_id": "S1",
        "cwd": str(project),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_use_id": "t1",
        "tool_input": {"command": "make test"},
        "tool_response": {"stdout": "3 passed", "stderr": ""},
    }
    code = "import sys; from scrimshaw.app.hooks import main; main.import_lightly()\n"
    code += "from scrimshaw.app.hooks import record; record.handle_payload(['claude'], sys.stdin.buffer.read())\n"
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(event).encode(), capture_output=True)
    loaded = done.stdout.decode().split()
    heavy = {"hashlib", "inspect", "json", "tomllib", "subprocess", "dataclasses", "numpy", "html", "asyncio"}
    assert "scrimshaw.storage.sessions" in loaded, done.stderr
    assert heavy.isdisjoint(loaded)
