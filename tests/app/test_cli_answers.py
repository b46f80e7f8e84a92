"""What commands say and how they end if something is not as a person thinks: exit codes, hints, and refusals."""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.app.command_line import Cli
from tests.app.hooks.events import bash, context_of, report
from tests.samples import write_memory

from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.models import format_count


def test_a_note_that_the_gate_rejects_is_a_failure(cli: Cli) -> None:
    assert cli("save", "TODO").code == 1
    refused = cli("save", "TODO", "--json")
    assert (refused.code, refused.json["status"]) == (1, "rejected")
    assert cli("save", "TODO", "--force").code == 0


@pytest.mark.parametrize("options", [("--lexical-only", "--semantic-only"), ("--channels", "vector", "--lexical-only")])
def test_a_search_takes_one_choice_of_channels(cli: Cli, options: tuple[str, ...]) -> None:
    refused = cli("search", "gate", *options)
    assert refused.code == 2
    assert "Give one of --channels, --lexical-only and --semantic-only" in refused.err


@pytest.fixture
def worked(cli: Cli, project: Path) -> Cli:
    """Two sessions whose ids begin alike."""
    for session in ("0e24ab-1", "0e24cd-2"):
        report(project, "UserPromptSubmit", session, prompt="Please mend the gate of the harbour crane")
        bash(project, "pytest tests", "3 passed", "t1", session)
    return cli


@pytest.mark.parametrize(
    "arguments", [("resume", "--session"), ("ledger", "show", "--session"), ("undo", "--dry-run", "--session")]
)
def test_the_beginning_of_a_session_s_id_is_enough(worked: Cli, arguments: tuple[str, ...]) -> None:
    several, unknown = worked(*arguments, "0e24", "--json"), worked(*arguments, "nope", "--json")
    assert several.error["message"] == "Several sessions begin with '0e24'."
    assert all(name in several.error["hint"] for name in ("0e24ab-1", "0e24cd-2"))
    assert "0e24ab-1" in unknown.error["hint"]
    assert worked(*arguments, "0e24ab") == worked(*arguments, "0e24ab-1")


def test_drafts_and_parts_of_sessions_take_short_ids_too(worked: Cli, project: Path) -> None:
    assert worked("get", "session:0e24ab#e1").out == worked("get", "session:0e24ab-1#e1").out != ""
    assert worked("drafts", "make", "0e24ab", "--json").json[0]["session"] == "0e24ab-1"
    folder = project / ".scrimshaw/drafts"
    for name in ("0e24ab-1", "0e24cd-2"):
        write_memory(folder, name, "The gate of the crane.\n")
    assert "Several drafts" in worked("review", "0e24", "--accept").err
    assert "The gate" in worked("drafts", "show", "0e24ab").out
    assert worked("review", "--json").json == []  # these do not wait
    assert worked("review", "0e24ab", "--reject", "--dry-run", "--json").json[0]["status"] == "would be rejected"
    rejected = worked("review", "0e24ab", "--reject", "--yes", "--json").json
    assert [(each["name"], each["status"]) for each in rejected] == [("0e24ab-1", "rejected")]
    assert worked("review", "0e24ab", "--reject").code == 1
    assert worked("review", "0e24cd", "--accept", "--json").json[0]["status"] == "saved"


@pytest.mark.parametrize(
    "query", ["what is left to do?", "Where were we", "what's next?", "open points", "what is left today?"]
)
def test_who_asks_only_where_the_work_stands_is_told(worked: Cli, project: Path, query: str) -> None:
    assert "Please mend the gate of the harbour crane" in worked("search", query).out
    assert "Nothing is known" not in worked("search", query).out
    assert {"task", "tests"} <= {each["part"] for each in worked("search", query, "--json").json["state"]}
    with open_engine(load(project)) as engine:
        outcome = Dispatcher(choose("core"), engine).dispatch("memory_search", {"query": query, "token_budget": 200})
        assert outcome.reply["state"][0]["text"] == "Please mend the gate of the harbour crane"
        assert len(outcome.text) <= 200 * 4
    assert not worked("search", "what is left to do for the lighthouse", "--json").json["state"]


@pytest.mark.parametrize("query", ["what is left to do for the crane?", "Where did we leave off with the crane gate?"])
def test_who_asks_what_is_open_in_a_subject_is_told_the_session_about_it(cli: Cli, project: Path, query: str) -> None:
    for session, place in (("older", "crane"), ("newer", "lighthouse")):
        report(project, "UserPromptSubmit", session, prompt=f"Please mend the gate of the {place} and oil its chain")
        bash(project, "pytest tests", "3 passed", "t1", session)
        last = f"The {place} gate is mended. Next step: order a new chain for the {place} from Larsen."
        report(project, "Stop", session, last_assistant_message=last)
    found, day = cli("search", query, "--json").json, f"{datetime.now():%Y-%m-%d}"
    assert found["hits"]
    about = [each["origin"].partition("#")[0] for each in found["state"] if not each["part"].endswith("since")]
    assert {*about} == {"session:older"}
    assert [each["part"] for each in found["state"]][:2] == [f"task of {day}", "next"]
    with open_engine(load(project)) as engine:
        for tool in ("memory_search", "memory_context"):
            state = Dispatcher(choose("core"), engine).dispatch(tool, {"query": query}).reply["state"]
            assert "chain for the crane" in state[1]["text"]
    assert "chain for the crane" in context_of(report(project, "UserPromptSubmit", "third", prompt=query))
    assert not cli("search", "why is the crane's gate still open?", "--json").json["state"]


@pytest.mark.parametrize("query", ["what is left to do", "What is still open?", "what have we not finished"])
def test_who_asks_what_is_left_is_told_what_is_open_and_not_what_once_was(cli: Cli, project: Path, query: str) -> None:
    write_memory(project / ".scrimshaw/memories", "harbour", "What is left, still open or not finished: the quay.\n")
    said = {
        "first": ("Please mend the gate of the crane", "Left to do: order a chain for the lighthouse from Larsen."),
        "second": ("Order a chain for the lighthouse from Larsen", "The chain for the lighthouse is ordered."),
        "third": ("Please oil the winch of the ferry", "Next step: paint the hull of the ferry in red."),
    }
    for session, (prompt, last) in said.items():
        report(project, "UserPromptSubmit", session, prompt=prompt)
        bash(project, "pytest tests", "3 passed", "t1", session)
        report(project, "Stop", session, last_assistant_message=last)
    cli("scan")
    found = cli("search", query, "--min-confidence", "0", "--json").json
    assert (found["state"][0]["part"], found["state"][0]["text"][11:25]) == ("next", "paint the hull")
    assert [hit["memory"]["id"] for hit in found["hits"]] == ["harbour"]
    assert "Larsen" not in f"{found['state']}"
    with open_engine(load(project)) as engine:
        context = Dispatcher(choose("core"), engine).dispatch("memory_context", {"query": query, "mode": "resume"})
        assert (context.reply["state"][0]["part"], "Larsen" in context.text) == ("next", False)
    about = cli("search", "what is left of the chain after ordering", "--min-confidence", "0", "--json").json
    assert "Larsen" in about["hits"][0]["text"]


@pytest.mark.parametrize(
    "query", ["What did we do today?", "today", "what did I fix today", "show me the sessions of this week", "{day}"]
)
def test_who_asks_what_was_done_on_days_is_told_their_sessions(worked: Cli, project: Path, query: str) -> None:
    day = f"{datetime.now():%Y-%m-%d}"
    found = worked("search", query.format(day=day), "--json").json
    assert [each["part"] for each in found["state"] if each["text"].startswith("Please mend")] == [day, day]
    assert {each["origin"].partition("#")[0] for each in found["state"]} == {"session:0e24ab-1", "session:0e24cd-2"}
    assert not found["hits"]
    with open_engine(load(project)) as engine:
        for tool in ("memory_search", "memory_context"):
            outcome = Dispatcher(choose("core"), engine).dispatch(tool, {"query": query.format(day=day)})
            assert outcome.reply["state"][0]["part"] == day
    assert not worked("search", "what did we do today for the lighthouse", "--json").json["state"]
    of_decisions = worked("search", "what did we do today", "--type", "decision", "--json").json["state"]
    assert day not in {each["part"] for each in of_decisions}
    (none,) = worked("search", "what did we do last year?", "--json").json["state"]
    assert none["text"] == "no session was recorded here"


def test_beside_the_sessions_of_a_day_is_what_has_the_date(worked: Cli, project: Path) -> None:
    day = f"{datetime.now():%Y-%m-%d}"
    write_memory(project / ".scrimshaw/memories", day, "Standup with Ana: the lighthouse gets a new lamp.\n")
    write_memory(project / ".scrimshaw/memories", "other", "What we did with the lamp of the lighthouse.\n")
    for query in (day, f"what did we do on {day}?"):
        found = worked("search", query, "--json").json
        assert [hit["memory"]["id"] for hit in found["hits"]] == [day]
        assert found["state"]
    assert worked("search", f"notes of {day}", "--json").json["hits"][0]["memory"]["id"] == day


def test_of_many_sessions_of_a_day_the_titles_are_told_and_how_many_more(cli: Cli, project: Path) -> None:
    for number in range(40):
        report(project, "UserPromptSubmit", f"s{number}", prompt=f"Please mend the gate {number} of the harbour crane")
    state = cli("search", "what did we do today?", "--json").json["state"]
    assert state[-1]["text"] == f"{40 - (len(state) - 1)} more sessions; ask for fewer days"
    assert state[0]["text"] == "Please mend the gate 39 of the harbour crane"


@pytest.mark.parametrize("occasion", ["start", "resume", "compact", "clear"])
def test_the_last_session_is_told_for_every_occasion(worked: Cli, occasion: str) -> None:
    assert worked("resume", "--occasion", occasion, "--json").json["lines"]


def test_a_bulk_delete_counts_whole_days(cli: Cli, project: Path) -> None:
    for hours in (20, 30):
        at = datetime.now(UTC) - timedelta(hours=hours)
        write_memory(
            project / ".scrimshaw/memories", f"n{hours}", "Oil.\n", f"tier: temporary\nupdated: {at:%Y-%m-%dT%H:%M:%SZ}"
        )
    cli("scan")
    asked = {"tier": "temporary", "confirm": True, "older_than_days": 1, "dry_run": True}
    with open_engine(load(project)) as engine:
        assert Dispatcher(choose("all"), engine).dispatch("memory_bulk_delete", asked).reply["deleted"] == ["n30"]


def test_the_doctor_says_how_a_pause_ends(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("capture", "pause")
    found = {each["name"]: each for each in cli("doctor", "--json").json["findings"]}
    assert "scrimshaw capture resume" in found["hook"]["fix"]
    cli("capture", "resume")
    monkeypatch.setenv("SCRIMSHAW_SESSION_CAPTURE", "off")
    found = {each["name"]: each for each in cli("doctor", "--json").json["findings"]}
    assert "session.capture" in found["hook"]["fix"]


@pytest.mark.parametrize("command", ["unlink n supersedes m", "checkpoint delete nope"])
def test_no_error_of_a_command_names_a_tool_of_the_server(cli: Cli, project: Path, command: str) -> None:
    for name in ("n", "m"):
        write_memory(project / ".scrimshaw/memories", name, f"The gate {name} of the harbour.\n")
    refused = cli(*command.split())
    assert refused.code == 1
    assert not [each.name for each in choose("all") if str(each.name) in refused.err]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("restore", "either a backup or --newest"),
        ("restore ./notes.md --newest", "either a backup or --newest"),
        ("digest --since banana", "12h, 2d, 1w"),
        ("search gate --since banana", "12h, 2d, 1w"),
        ("export", "Give --html, or --output with --format"),
        ("export --html a.html --output b", "Give --html, or --output with --format"),
        ("export --html a.html --format jsonl", "Give --html, or --output with --format"),
    ],
)
def test_a_misuse_is_answered_with_what_can_be_given(cli: Cli, project: Path, arguments: str, said: str) -> None:
    (project / "notes.md").touch()
    refused = cli(*arguments.split())
    assert (refused.code, said in refused.err) == (2, True)


def test_a_date_can_be_so_long_ago(cli: Cli, project: Path) -> None:
    write_memory(project / ".scrimshaw/memories", "old", "---\nupdated: 2020-02-02\n---\nThe old gate.\n")
    write_memory(project / ".scrimshaw/memories", "new", "The new gate.\n")
    ids = {
        since: [each["id"] for each in cli("list", "--since", since, "--json").json["memories"]]
        for since in ("2d", "999w")
    }
    assert {since: sorted(found) for since, found in ids.items()} == {"2d": ["new"], "999w": ["new", "old"]}


@pytest.mark.parametrize("value", ["500", "many"])
def test_a_refused_setting_does_not_blame_the_file(cli: Cli, project: Path, value: str) -> None:
    refused = cli("config", "set", "search.limit", value)
    assert refused.code == 2
    assert refused.err.startswith(
        f"Error: Nothing was changed: search.limit = {value if value == '500' else repr(value)} is"
    )
    assert "config.toml" not in refused.err


def test_a_checkpoint_that_is_not_there_is_named_as_given(cli: Cli, project: Path) -> None:
    assert cli("checkpoint", "restore", "nope").err.startswith("Error: There is no checkpoint 'nope'.")
    with open_engine(load(project)) as engine:
        refused = Dispatcher(choose("all"), engine).dispatch("checkpoint_restore", {"name": "nope"})
    assert "There is no checkpoint 'nope'" in str(refused)


WRITERS = (
    "backup",
    "export --html",
    "export --format jsonl --output",
    "export --output",
    "report --html",
    "graph a --svg",
)


@pytest.mark.parametrize("command", WRITERS)
def test_a_place_to_write_to_needs_a_folder_and_is_named_in_full(cli: Cli, project: Path, command: str) -> None:
    write_memory(project / ".scrimshaw/memories", "a", "The gate of the harbour.\n")
    refused = cli(*command.split(), "../exp/new")
    assert (refused.code, f"There is no folder {project.parent / 'exp'}." in refused.err) == (2, True)
    assert not (project.parent / "exp").exists()
    (project.parent / "exp").mkdir()
    done = cli(*command.split(), "../exp/new")
    assert (done.code, str(project.parent / "exp/new") in done.out) == (0, True)


def test_a_dry_run_says_what_would_happen(cli: Cli) -> None:
    refused = cli("save", "TODO", "--dry-run", "--json")
    assert (refused.code, refused.json["status"]) == (1, "rejected")
    assert cli("save", "TODO", "--dry-run", "--force").out.endswith("would be saved\n")
    cli("save", "The gate of the harbour is shut at dusk.", "--id", "gate")
    (step, total) = cli("undo", "--dry-run").out.splitlines()
    assert (step.split("  ")[0], total) == ("would be undone", "1 of 1 change would be undone.")
    assert cli("undo", "--yes").out.startswith("undone ")


def test_an_empty_title_is_refused(cli: Cli) -> None:
    cli("save", "The gate of the harbour is shut at dusk.", "--id", "gate")
    assert "The title is empty" in cli("edit", "gate", "--title", " ").err


def test_what_has_nothing_to_do_says_so(cli: Cli, project: Path) -> None:
    assert "nothing to vouch for" in cli("trust", "--yes").out
    refused = cli("git", "install")
    assert (refused.code, "git init" in refused.err) == (3, True)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    assert cli("git", "uninstall").out == "Nothing to change.\n"


def test_an_import_says_what_is_there_and_what_is_read_in_place(cli: Cli, project: Path) -> None:
    (project / "CLAUDE.md").write_text("# Style\nSpaces, never tabs.\n")
    assert cli("import", "CLAUDE.md").out.splitlines()[-1] == "1 read in place; 0 events, 0 memories"
    other = write_memory(project.parent / "other", "tides", "# Tides\nThe tide turns at noon.\n")
    assert cli("import", str(other)).out.splitlines()[-1] == "1 taken; 0 events, 1 memory"
    assert cli("import", str(other)).out.splitlines()[-1] == "1 there already; 0 events, 0 memories"


@pytest.mark.parametrize("command", ["get", "edit --tier critical", "why", "link gates/north supersedes"])
def test_an_unknown_id_is_answered_with_near_ones(cli: Cli, project: Path, command: str) -> None:
    for name in ("gates/north", "gates/north-of-the-harbour", "tides"):
        write_memory(project / ".scrimshaw/memories", name, f"The text of {name}.\n")
    assert "Did you mean gates/north" in cli(*command.split(), "gates/nroth").err
    assert "Did you mean gates/north-of-the-harbour?" in cli(*command.split(), "of-the-harbour").err
    assert "list the memories" in cli(*command.split(), "zanzibar").err


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "memory", "1 memory"),
        (0, "memory", "0 memories"),
        (2, "day", "2 days"),
        (1, "file", "1 file"),
        (3, "row", "3 rows"),
    ],
)
def test_a_count_agrees_with_its_noun(number: int, noun: str, text: str) -> None:
    assert format_count(number, noun) == text


@pytest.mark.parametrize(
    "command",
    [
        "scan",
        "lint",
        "list",
        "stats",
        "graph",
        "doctor",
        "checkpoint create two",
        "checkpoint list",
    ],
)
def test_one_of_a_kind_is_not_many(cli: Cli, project: Path, command: str) -> None:
    write_memory(project / ".scrimshaw/memories", "north", "The gate of the crane.\n")
    done = cli(*command.split())
    assert re.findall(r"(?<![\d.,])1 \w+s\b", done.out + done.err) == []


@pytest.mark.parametrize("error", ["", " \n", "..."])
def test_an_error_without_a_word_is_asked_for(cli: Cli, error: str) -> None:
    refused = cli("fix", error)
    assert (refused.code, refused.out, "Give the error message" in refused.err) == (2, "", True)


def test_nothing_is_not_near_a_file_without_an_id(cli: Cli, project: Path) -> None:
    write_memory(project / ".scrimshaw/memories", "north", "The gate.\n").with_suffix(".rst").write_text("The gate.\n")
    assert cli("get", "").err.splitlines()[-1] == "Search for it, or list the memories."


def test_the_doctor_counts_drafts_that_nobody_has_looked_at(cli: Cli, project: Path) -> None:
    write_memory(project / ".scrimshaw/drafts", "0e24ab-1", "The gate of the crane.\n")
    found = {each["name"]: each for each in cli("doctor", "--json").json["findings"]}
    assert (found["drafts"]["verdict"], found["drafts"]["detail"]) == ("note", "set aside: 1")
    assert "scrimshaw drafts list" in found["drafts"]["fix"]


def test_an_empty_id_is_no_memory_whatever_the_ledger_says_last(cli: Cli, project: Path) -> None:
    write_memory(project / ".scrimshaw/memories", "gate", "The gate of the harbour is shut at dusk.\n")
    cli("scan")
    cli("purge", "--secret", "harpoon-88-keel", "--yes")
    assert "There is no memory ''" in cli("get", "").err
