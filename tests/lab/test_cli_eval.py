"""The commands that measure the gates and show the rules. Every secret here is put together at run time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from scrimshaw.app.cli.main import main
from scrimshaw_lab import calibration

TOKEN = "gh" + "p_" + "aB3dE6fG9" * 4
TEXTS = [
    {"text": f"key {TOKEN}", "label": "secret", "source": "one", "how": "literal", "rule": "github"},
    {"text": "nothing to see", "label": "secret", "source": "one", "how": "literal", "rule": "other"},
    {"text": "plain words", "label": "benign", "source": "two", "how": "literal", "rule": "other"},
    {"text": f"in truth {TOKEN}", "label": "benign", "source": "two", "how": "literal", "rule": "github"},
]
COMMIT = {"command": "git commit -m 'fix: port'"}
OUTPUT = "[main 1a2b3c4] fix: port\n 1 file changed"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".scrimshaw").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    return folder


def written(path: Path, lines: list[dict[str, Any]]) -> str:
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def calls(count: int) -> list[dict[str, Any]]:
    made = {"source": "agent", "session": "s", "tool": "Bash", "args": COMMIT, "output": OUTPUT, "exit_code": 0}
    return [made | {"step": step} for step in range(count)]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_redaction_is_measured_per_source_and_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labelled = written(tmp_path / "texts.jsonl", TEXTS)
    benign = written(tmp_path / "more.jsonl", [{"text": "29d0b84 fix", "kind": "short_sha", "label": "secret"}])

    found = printed(capsys, "eval", "redact", "--labelled", labelled, "--benign", benign)

    assert (found["recall"], found["secrets"]) == (0.5, 2)
    assert (found["false_positive_rate"], found["benign"]) == (pytest.approx(1 / 3), 3)
    assert found["recall_by_source"] == {"one, secret, literal": {"hit": 1, "total": 2}}
    assert found["recall_by_class"] == {"github": {"hit": 1, "total": 1}, "other": {"hit": 0, "total": 1}}
    assert found["false_positive_rate_by_class"]["github"] == {"hit": 1, "total": 1}
    assert found["outputs_touched"] is None
    assert main(["eval", "redact", "--labelled", labelled]) == 0
    assert "recall: 50.0% of 2 secrets" in capsys.readouterr().out


def test_extraction_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = written(tmp_path / "calls.jsonl.gz", [*calls(2), calls(1)[0] | {"step": 9, "args": "text", "tool": "X"}])
    label = {"source": "agent", "session": "s", "kind": "commit", "key": ["fix: port", "absent"]}
    labels = [label | {"step": 0, "capture": "yes"}, label | {"step": 1, "capture": "no"}]

    found = printed(
        capsys, "eval", "extract", "--calls", recorded, "--labels", written(tmp_path / "labels.jsonl", labels)
    )

    assert (found["precision"], found["recall"], found["key_recall"], found["calls"]) == (0.5, 1.0, 0.5, 2)
    assert found["by_kind"]["commit"]["wrong"] == found["by_source"]["agent"]["kept"] == 1


def test_a_label_without_its_call_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = [{"source": "agent", "session": "s", "step": 7, "capture": "yes"}]
    arguments = ["--calls", written(tmp_path / "c.jsonl", calls(1)), "--labels", written(tmp_path / "l.jsonl", labels)]
    assert main(["eval", "extract", *arguments]) == 1
    assert "s step 7" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "content"), [("a.jsonl", b'{"text": 3}\n'), ("a.jsonl.gz", b"no gzip")])
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    assert main(["eval", "redact", "--labelled", str(tmp_path / name)]) == 1
    assert name in capsys.readouterr().err


def test_a_record_keeps_the_other_section(tmp_path: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labelled = written(tmp_path / "texts.jsonl", TEXTS)
    recorded = written(tmp_path / "calls.jsonl", calls(50))
    label = {"source": "agent", "session": "s", "step": 0, "capture": "yes"}
    labels = written(tmp_path / "labels.jsonl", [label])
    redact = ["eval", "redact", "--labelled", labelled, "--outputs", recorded, "--record"]

    assert main(redact) == main(["eval", "extract", "--calls", recorded, "--labels", labels, "--record"]) == 0
    first = (project / calibration.PAGE).read_text()
    assert main(redact) == 0

    assert (project / calibration.PAGE).read_text() == first
    assert first.count("## Redaction\n") == first.count("## Extraction\n") == 1
    assert "recall: 50.0% of 2 secrets" in first
    assert "real Bash outputs touched: 0.00% of 50" in first
    assert str(tmp_path) not in first
    assert TOKEN not in first


def test_a_record_needs_fifty_outputs(tmp_path: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--outputs", written(tmp_path / "calls.jsonl", calls(49)), "--record"]
    assert main(["eval", "redact", "--labelled", written(tmp_path / "t.jsonl", TEXTS), *arguments]) == 1
    assert "50 real Bash outputs; there are 49" in capsys.readouterr().err
    assert not (project / calibration.PAGE).exists()


def event(path: Path, command: str, output: str) -> str:
    payload = {
        "session_id": "S1",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_use_id": "t1",
        "tool_input": {"command": command},
        "tool_response": {"stdout": output, "stderr": ""},
    }
    path.write_text(json.dumps(payload))
    return str(path)


def test_a_test_tells_the_rule_and_what_would_be_stored(
    tmp_path: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = event(tmp_path / "event.json", "git commit -m 'fix: port'", f"{OUTPUT}\n{TOKEN}")

    told = printed(capsys, "rules", "test", path)

    assert (told["rule"]["id"], told["activity"], told["item"]["attention"]) == ("commit", "Run", 0.7)
    assert told["redacted"] == ["github-token"]
    assert TOKEN not in json.dumps(told)
    assert main(["rules", "test", path]) == 0
    assert "Rule 'commit' matches" in capsys.readouterr().out
    assert list((project / ".scrimshaw").iterdir()) == []


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ('id = "quiet"\nargument = "frobnicate"\nattention = 0', "rule 'quiet' says to leave such calls alone"),
        ('id = "other"\nargument = "something else"\nattention = 1', "no rule matches"),
        ('id = "mine"\nargument = "frobnicate"\nattention = 0.4', "Rule 'mine' matches"),
    ],
)
def test_own_rules_are_tried_out(
    tmp_path: Path, project: Path, capsys: pytest.CaptureFixture[str], table: str, reason: str
) -> None:
    (project / ".scrimshaw/config.toml").write_text(f'[[rules]]\n{table}\ntool = "^Run$"\n')
    assert reason in printed(capsys, "rules", "test", event(tmp_path / "e.json", "frobnicate", "done"))["reason"]


def test_an_event_that_is_not_used_and_one_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "event.json"
    path.write_text('{"session_id": "S1", "hook_event_name": "Notification"}')
    assert "not used" in printed(capsys, "rules", "test", str(path))["reason"]
    path.write_text('{"session_id": "S1", "hook_event_name": "UserPromptSubmit", "prompt": "make it so"}')
    assert printed(capsys, "rules", "test", str(path))["text"] == "make it so"
    path.write_text("[]")
    assert main(["rules", "test", str(path)]) == 1
    assert main(["rules", "test", str(path), "--client", "nobody"]) == 2


def test_the_list_marks_own_rules(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".scrimshaw/config.toml").write_text('[[rules]]\nid = "mine"\ntool = "^Run$"\nattention = 0.4\n')
    listed = printed(capsys, "rules", "list")
    assert [entry["rule"]["id"] for entry in listed if entry["own"]] == ["mine"]
    assert listed[0]["rule"]["id"] == "mine"
    assert main(["rules", "list"]) == 0
    assert "priority 0, your own" in capsys.readouterr().out
