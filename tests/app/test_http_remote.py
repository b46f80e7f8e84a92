"""Two people, a clone each, and one server, which has a clone too: real git remotes and a real process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.app.command_line import Cli, command_line
from tests.git_folders import run_git, write_gate
from tests.http_server import PATIENCE_S, PROGRAM, HttpServer, serve_http

from scrimshaw.app.http.tokens import TokenFile, TokenScope, find_vaults
from scrimshaw.config import load
from scrimshaw.errors import ConfigError, NotFound

HOOK = "from scrimshaw.app.hooks import main; main.PATIENCE_S = main.DEADLINE_S = 120; main.run()"
# A server that asks a remote again at once, not after two seconds.
HURRIED = (
    *PROGRAM[:2],
    f"from scrimshaw.app.http import commits; commits.FIRST_RETRY_S = 0.1; {PROGRAM[2]}",
    *PROGRAM[3:],
)
MEMORIES = ".scrimshaw/memories"
GATE = write_gate("The harbour gate shuts at dusk.")


def wait_until(is_so: Callable[[], Any]) -> Any:
    """What a question answers once that is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := is_so()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return answer


class Place(NamedTuple):
    """A bare repository, Bo's clone, and where the server keeps its own."""

    shared: Path
    bo: Path
    served: Path
    home: Path

    @contextmanager
    def serve(self, **stated: object) -> Iterator[tuple[HttpServer, str]]:
        """A server of the repository, with the token of Ana, who may write."""
        known: dict[str, object] = {"name": "shop", "path": self.served, "remote": self.shared, "pull_minutes": 0}
        lines = [f"{key} = {json.dumps(each if isinstance(each, bool | int) else str(each))}"
                 for key, each in {**known, **stated}.items()]  # fmt: skip
        self.home.mkdir(exist_ok=True)
        (self.home / "config.toml").write_text("\n".join(["[[vaults]]", *lines]))
        with serve_http(self.home, self.home, "--toolsets", "all", program=HURRIED) as server:
            with suppress(NotFound):  # after an earlier start
                TokenFile(self.home).revoke("ana@example.org")
            yield server, server.token("ana@example.org", {self.served: TokenScope.WRITE})

    def push_by_bo(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            (self.bo / MEMORIES / f"{name}.md").write_text(text)
        run_git(self.bo, "add", "--all")
        run_git(self.bo, "commit", "-qm", "Change memories")
        run_git(self.bo, "pull", "-q", "--rebase", "origin", "main")
        run_git(self.bo, "push", "-q", "origin", "HEAD:main")

    def refs(self) -> list[str]:
        return run_git(self.shared, "for-each-ref", "--format=%(refname:short)").split()

    def show(self, revision: str, name: str) -> str:
        path = f"{revision}:{MEMORIES}/{name}.md"
        done = subprocess.run(["git", "show", path], cwd=self.shared, check=False, capture_output=True, text=True)
        return done.stdout


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    found = Place(tmp_path / "shared.git", tmp_path / "bo", tmp_path / "srv/shop", tmp_path / "home")
    run_git(tmp_path, "init", "-q", "--bare", "-b", "main", "shared.git")
    run_git(tmp_path, "clone", "-q", "shared.git", "bo")
    run_git(found.bo, "config", "user.name", "Bo")
    run_git(found.bo, "config", "user.email", "bo@example.org")
    run_git(found.bo, "checkout", "-q", "-b", "main")
    (found.bo / MEMORIES).mkdir(parents=True)
    (found.bo / ".scrimshaw/.gitignore").write_text("/*\n!/.gitignore\n!/memories/\n")
    (found.bo / MEMORIES / "gate.md").write_text(GATE)
    run_git(found.bo, "add", "--all")
    run_git(found.bo, "commit", "-qm", "Begin")
    run_git(found.bo, "push", "-q", "origin", "main")
    return found


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home of bo"))
    return command_line(capsys)


def start_session(clone: Path, session: str) -> str:
    """Begin a session of Claude Code; what its model is told."""
    payload = {
        "session_id": session, "cwd": str(clone), "hook_event_name": "SessionStart", "transcript_path": "",
        "source": "startup",
    }  # fmt: skip
    command = [sys.executable, "-c", HOOK, "claude"]
    done = subprocess.run(command, input=json.dumps(payload).encode(), capture_output=True, check=True)
    return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""


def edit(place: Place, server: HttpServer, secret: str, old: str, new: str) -> None:
    """Change the gate over HTTP."""
    before = server.call(secret, "memory_get", id="gate")
    body = before["content"].replace(old, new)
    assert body != before["content"]
    answer = server.call(secret, "memory_update", id="gate", content=body)
    assert "error" not in answer, answer


def pull(server: HttpServer, secret: str, vault: str = "shop") -> int:
    return server.send(f"/pull/{vault}", secret, method="POST").status_code


@pytest.mark.slow
def test_a_save_over_http_is_told_in_the_others_clone_and_a_push_is_found_over_http(place: Place, cli: Cli) -> None:
    assert "ana" not in start_session(place.bo, "one")
    with place.serve(commit=True, push=True) as (server, secret):
        (place.served / MEMORIES / "diary.md").write_text("---\nvisibility: private\n---\nMy zanzibar diary.\n")
        assert server.call(secret, "memory_save", content="The pilot boat is moored at the quay.", id="boat")["id"]
        wait_until(lambda: "moored" in place.show("main", "boat"))
        run_git(place.bo, "pull", "-q", "origin", "main")
        told = start_session(place.bo, "two")
        assert "ana@example.org saved boat" in told
        place.push_by_bo({"crane": "# Crane\nThe crane lifts forty tons.\n"})
        assert pull(server, secret) == 202
        hits = wait_until(lambda: server.call(secret, "memory_search", query="crane lifts forty tons")["hits"])
        assert hits[0]["id"] == "crane"
        assert run_git(place.shared, "log", "--all", "--format=%h", "-S", "zanzibar") == ""


@pytest.mark.slow
def test_edits_of_one_memory_by_both_are_merged(place: Place) -> None:
    with place.serve(commit=True, push=True) as (server, secret):
        text = GATE.replace("[tide]", "[tide, oak]").replace("in 1840", "of oak in 1840")
        place.push_by_bo({"gate": text})
        edit(place, server, secret, "beside it", "in the tower")
        merged = wait_until(lambda: "tower" in (said := place.show("main", "gate")) and said)
        assert "of oak in 1840" in merged
        assert "oak" in merged.partition("topics:")[2].partition("]")[0]
        wait_until(lambda: "of oak" in server.call(secret, "memory_get", id="gate")["content"])


@pytest.mark.slow
def test_a_conflict_ends_on_a_branch_and_is_told(place: Place, cli: Cli, tmp_path: Path) -> None:
    with place.serve(commit=True, push=True) as (server, secret):
        place.push_by_bo({"gate": GATE.replace("at dusk", "at noon")})
        edit(place, server, secret, "at dusk", "at dawn")
        (branch,) = wait_until(lambda: [each for each in place.refs() if "conflict-" in each])
        assert "at dawn" in place.show(branch, "gate")
        assert "at noon" in wait_until(lambda: place.show("main", "gate"))
        wait_until(lambda: branch in str(server.call(secret, "memory_health").get("degraded")))
        (tmp_path / "token").write_text(secret)
        said = cli("doctor", "--server", server.url, "--token-file", str(tmp_path / "token")).out
        assert branch in " ".join(said.split())
        server.call(secret, "memory_save", content="The quay is dry at every tide.", id="quay")
        wait_until(lambda: place.show("main", "quay"))
        run_git(place.bo, "push", "-q", "origin", f":{branch}")
        pull(server, secret)
        wait_until(lambda: branch not in str(server.call(secret, "memory_health").get("degraded")))


@pytest.mark.slow
def test_a_change_for_review_waits_on_a_branch_until_it_is_merged(place: Place) -> None:
    with place.serve(commit=True, write="branch") as (server, secret):
        saved = server.call(secret, "memory_save", content="The pilot boat is moored at the quay.", id="boat")
        assert saved["status"] == "saved"
        assert "scrimshaw/ana-example-org" in saved["review"]
        assert server.call(secret, "memory_get", id="boat")["error"]["code"] == "not_found"
        edit(place, server, secret, "at dusk", "at dawn")
        assert "at dusk" in server.call(secret, "memory_get", id="gate")["content"]
        wait_until(lambda: "at dawn" in place.show("scrimshaw/ana-example-org", "gate"))
        assert "at dusk" in place.show("main", "gate")
        run_git(place.bo, "pull", "-q", "--no-rebase", "origin", "scrimshaw/ana-example-org")
        run_git(place.bo, "push", "-q", "origin", "HEAD:main")
        pull(server, secret)
        wait_until(lambda: "content" in server.call(secret, "memory_get", id="boat"))
        assert "at dawn" in server.call(secret, "memory_get", id="gate")["content"]


@pytest.mark.slow
def test_a_remote_that_is_away_hinders_no_other_vault_and_is_asked_again(
    place: Place, cli: Cli, tmp_path: Path
) -> None:
    away = place.shared.rename(tmp_path / "away.git")
    (tmp_path / "mill" / MEMORIES).mkdir(parents=True)
    (tmp_path / "mill" / MEMORIES / "wheel.md").write_text("# Wheel\nThe wheel turns at dawn.\n")
    other = f'true\n[[vaults]]\nname = "mill"\npath = "{(tmp_path / "mill").as_posix()}"'
    place.home.mkdir()
    with place.serve(commit=True) as (server, secret):
        pass
    config = place.home / "config.toml"
    config.write_text(config.read_text().replace("commit = true", f"commit = {other}"))
    with serve_http(place.home, place.home) as server:
        scopes = {place.served: TokenScope.WRITE, tmp_path / "mill": TokenScope.READ}
        secret = server.token("cy", scopes)
        assert "dawn" in server.call(secret, "memory_get", path="/mcp/mill", id="wheel")["content"]
        assert server.send("/mcp/shop", secret, json={}).status_code == 503
        (tmp_path / "token").write_text(secret)
        said = cli("doctor", "--server", server.url, "--token-file", str(tmp_path / "token")).out
        assert "has not opened it" in " ".join(said.split())
        away.rename(place.shared)
        assert pull(server, secret) == 202
        wait_until(lambda: server.send("/mcp/shop", secret, json={}).status_code != 503)
        wait_until(lambda: "content" in server.call(secret, "memory_get", path="/mcp/shop", id="gate"))


@pytest.mark.slow
def test_what_is_committed_while_the_remote_is_away_is_pushed_later_but_nothing_private(
    place: Place, tmp_path: Path
) -> None:
    with place.serve(commit=True, push=True) as (server, secret):
        wait_until(lambda: server.send("/readyz").status_code == 200 and place.served.is_dir())
        away = place.shared.rename(tmp_path / "away.git")
        assert server.call(secret, "memory_save", content="The pilot boat is moored.", id="boat")["status"] == "saved"
        wait_until(lambda: "remote_behind" in str(server.call(secret, "memory_health").get("degraded")))
        away.rename(place.shared)
        wait_until(lambda: place.show("main", "boat"))
        (place.served / MEMORIES / "diary.md").write_text("---\nvisibility: private\n---\nMy diary.\n")
        run_git(place.served, "add", "--all")
        run_git(place.served, "-c", "user.name=Cy", "-c", "user.email=cy@example.org", "commit", "-qm", "By hand")
        pull(server, secret)
        wait_until(lambda: "remote_behind" in str(server.call(secret, "memory_health").get("degraded")))
        assert place.show("main", "diary") == ""


@pytest.mark.slow
@pytest.mark.parametrize("write", ["checkout", "branch"])
def test_saves_of_many_clients_all_arrive_while_others_push_and_the_server_is_killed(place: Place, write: str) -> None:
    text = "The pier {0} of the harbour {0} has {0} bollards for {0} boats."
    shown = "main" if write == "checkout" else "scrimshaw/ana-example-org"

    def save(number: int) -> str:
        words: dict[str, Any] = {"content": text.format(number), "id": f"pier/{number}", "force": True}
        return str(server.call(secret, "memory_save", **words).get("status"))

    with place.serve(commit=True, push=True, write=write) as (server, secret), ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(save, number) for number in range(20)]
        for number in range(4):
            place.push_by_bo({f"crane{number}": f"# Crane {number}\nIt lifts {number} tons.\n"})
        assert {each.result() for each in waiting} == {"saved"}
        server.process.kill()
    with place.serve(commit=True, push=True, write=write):
        wait_until(lambda: all(f"pier {number} of" in place.show(shown, f"pier/{number}") for number in range(20)))
    assert all(place.show("main", f"crane{number}") for number in range(4))
    assert run_git(place.served, "status", "--porcelain", "-uall") == ""


@pytest.mark.slow
def test_a_configuration_in_the_repository_opens_no_other_folder(place: Place, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/key.md").write_text("# Key\nThe zanzibar key is under the mat.\n")
    stated = f'[[sources]]\nname = "out"\nroot = "{(tmp_path / "secrets").as_posix()}"\ninclude = ["*.md"]\n'
    stated += '[[sources]]\nname = "notes"\nroot = "notes"\ninclude = ["*.md"]\n'
    (place.bo / ".scrimshaw/config.toml").write_text(stated)
    (place.bo / "notes").mkdir()
    (place.bo / "notes/tides.md").write_text("# Tides\nThe tide table hangs in the office.\n")
    run_git(place.bo, "add", "--force", ".scrimshaw/config.toml")
    place.push_by_bo({})
    with place.serve() as (server, secret):
        found = server.call(secret, "memory_search", query="zanzibar key under the mat, tide table", min_confidence=0)
        assert [hit["id"] for hit in found["hits"]] == ["tides", "gate"]


@pytest.mark.slow
def test_who_may_ask_for_a_pull(place: Place, tmp_path: Path) -> None:
    with place.serve() as (server, secret):
        reader = server.token("reader", {place.served: TokenScope.READ})
        stranger = server.token("stranger", {tmp_path: TokenScope.ADMIN})
        assert [pull(server, each) for each in (secret, reader, stranger, "")] == [202, 403, 404, 401]
        refusals = [server.send(f"/pull/{each}", stranger, method="POST").text for each in ("shop", "nowhere")]
        assert refusals[0] == refusals[1]
        assert server.send("/pull/shop", secret).status_code == 405


@pytest.mark.parametrize(
    "stated",
    ["commit = true\npush = true", 'commit = true\nwrite = "branch"', "push = true\nremote = 'x'", "pull_minutes = -1"],
)
def test_settings_that_cannot_be_meant(tmp_path: Path, stated: str) -> None:
    (tmp_path / "config.toml").write_text(f'[[vaults]]\nname = "shop"\npath = "shop"\n{stated}\n')
    (tmp_path / "shop").mkdir()
    with pytest.raises(ConfigError, match="vaults"):
        find_vaults(load(tmp_path, home=tmp_path))


def test_a_clone_names_no_remote(tmp_path: Path) -> None:
    (tmp_path / ".scrimshaw").mkdir()
    text = '[[vaults]]\nname = "shop"\npath = "shop"\nremote = "https://example.org/shop.git"\n'
    (tmp_path / ".scrimshaw/config.toml").write_text(text)
    with pytest.raises(ConfigError, match="user's own"):
        load(tmp_path, home=tmp_path / "home")
