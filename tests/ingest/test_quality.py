"""The gate turns away a file for each class of defect, says why, and lets in what is worth keeping."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.ingest import quality
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.quality import ACCEPTED, QualityVerdict, find_decisions, read_contents

FIXTURES = Path(__file__).parent / "quality_fixtures"

BAD = {
    "blocker_is_done_work": ("malformed_field",),
    "fallback_decision": ("has_fallback_decision",),
    "filed_elsewhere": ("foreign_references",),
    "folder_is_a_question": ("malformed_field",),
    "generic_title": ("generic_title",),
    "narrated_intent": ("has_contamination",),
    "no_trigger_phrases": ("sparse_semantic_fields",),
    "only_a_frame": ("mostly_boilerplate",),
    "placeholder_in_decisions": ("has_placeholders",),
    "tool_trace": ("has_contamination",),
}
GOOD: dict[str, tuple[str, ...]] = {
    "brief_session": (),
    "framed_with_open_scores": ("has_placeholders", "generic_title"),
    "note_about_templates": (),
    "note_that_quotes": (),
    "recipe": (),
    "session_in_japanese": (),
    "session_that_is_blocked": (),
    "session_with_decisions": (),
    "session_without_decisions": (),
    "short_note": (),
}
SESSION = """---
title: Port of the ingest worker
trigger_phrases: [ingest worker port, bind address]
topics: [ingest]
provenance: {source: session, session: S-1, trust: agent}
---
"""
DECIDED = "## Decisions\n\n- Use 8443 because the proxy already terminates TLS there.\n"


def judge(text: str, *, name: str = "note", tool_calls: int = 0, phrases: tuple[str, ...] = ()) -> QualityVerdict:
    return quality.judge(parse_memory_file(text, name), tool_calls=tool_calls, phrases=phrases)


def fixture(kind: str, name: str) -> QualityVerdict:
    return judge((FIXTURES / kind / f"{name}.md").read_text(encoding="utf-8"), name=name)


@pytest.mark.parametrize(("name", "flags"), BAD.items())
def test_a_bad_file_is_turned_away_for_its_defect(name: str, flags: tuple[str, ...]) -> None:
    verdict = fixture("bad", name)
    assert (verdict.is_accepted, verdict.flags) == (False, flags)
    assert all(reason.startswith("Quality gate failed: ") for reason in verdict.reasons)


@pytest.mark.parametrize(("name", "flags"), GOOD.items())
def test_a_good_file_is_let_in(name: str, flags: tuple[str, ...]) -> None:
    verdict = fixture("good", name)
    assert (verdict.is_accepted, verdict.flags, len(verdict.reasons)) == (True, flags, len(flags))


def test_every_fixture_is_in_a_table() -> None:
    assert {path.stem for path in (FIXTURES / "bad").iterdir()} == set(BAD)
    assert {path.stem for path in (FIXTURES / "good").iterdir()} == set(GOOD)


@pytest.mark.parametrize(
    ("added", "flag"),
    [
        ("## Next\n\n- Next action: TBD\n", "has_placeholders"),
        ("## Summary\n\n{{SUMMARY}}\n", "has_placeholders"),
        ("- Keep the cache in [TBD] instead of the index, because [TBD].\n", "has_placeholders"),
        ("### Decision 1: observation decision 3\n", "has_fallback_decision"),
        ("### Decision 1: Use 8443 here\n\n### Decision 1: Use 8443 here\n", "repeated_decisions"),
        ("| Field | Value |\n|---|---|\n| Blockers | src/app/tests/error-gate. |\n", "malformed_field"),
        ("- **Blockers**: `Task` returned a `ProviderMod\n", "malformed_field"),
        ("| Field | Value |\n|---|---|\n| Blockers | New files match the rules of the house, headers and types |\n\n"
         "New files match the rules of the house, headers and types included.\n", "malformed_field"),
        ("- See /tmp/a.log\n- See /tmp/b.log\n- See /private/tmp/c.log\n", "stale_references"),
        ("<system-reminder>\nSave it.\n</system-reminder>\n", "has_contamination"),
        ("## Next\n\n- Shall I commit it anyway, or wait for the image?\n", "has_contamination"),
    ],
)  # fmt: skip
def test_a_defect_is_found_in_an_otherwise_good_session(added: str, flag: str) -> None:
    assert judge(SESSION + DECIDED).flags == ()
    body = added if added.startswith("### Decision") else DECIDED + "\n" + added
    verdict = judge(SESSION + body)
    assert flag in verdict.flags
    assert not verdict.is_accepted


@pytest.mark.parametrize(
    "added",
    [
        "## Next\n\n- TODO list of the vendor is at https://example.org/todo\n",
        "## Next\n\n- Shall I commit it anyway, or wait for the image? (e31)\n",
        "- **Blockers**: None\n",
        "- **Blockers**: the vendor has not answered, CI is red\n",
        "- **Blockers**: Denied access to the staging network\n",
        "- Completed 100 % of 40/100 files\n",
        "We dropped [TBD] and [N/A] placeholders: a report that contains [TBD] is set aside.\n",
        "The template had [N/A] in the learning table of all the files that were moved.\n",
        "- See /tmp/a.log and src/app.py, src/port.py, src/health.py\n",
    ],
)
def test_near_misses_are_no_defects(added: str) -> None:
    assert judge(SESSION + DECIDED + "\n" + added).flags == ()


def test_front_matter_that_is_not_yaml_is_malformed_and_named() -> None:
    verdict = judge('---\ntitle: "a "quoted" title"\n---\nUse apsw.\n', name="note")
    assert verdict.flags == ("malformed_field",)
    assert "note, line 2" in verdict.reasons[0]


def test_a_summary_that_names_another_folder_is_malformed() -> None:
    table = "| Meta | Value |\n|---|---|\n| Spec Folder | specs/018-billing |\n\n"
    text = SESSION.replace("topics", "spec_folder: specs/017-worker\ntopics") + table + DECIDED
    assert judge(text).flags == ("malformed_field",)
    assert judge(text.replace("018-billing", "017-worker")).flags == ()


def test_triggers_made_of_chatter_and_of_the_folder_name_nothing() -> None:
    text = SESSION.replace("ingest worker port, bind address", "worker, let start reading changelog")
    text = text.replace("topics", "spec_folder: specs/017-worker\ntopics")
    verdict = judge(text + DECIDED + "\nLet me start by reading the changelog.\n")
    assert verdict.flags == ("has_contamination", "sparse_semantic_fields")


def test_many_tool_calls_make_a_session_of_a_note() -> None:
    note = "Use apsw, not sqlite3: the reset bug of the log is fixed there, and hooks can be set on commits."
    assert judge(note, tool_calls=4).is_accepted
    assert judge(note, tool_calls=5).flags == ("sparse_semantic_fields",)


def test_a_topic_can_be_missed_out_but_not_the_triggers() -> None:
    verdict = judge(SESSION.replace("topics: [ingest]\n", "") + DECIDED)
    assert (verdict.is_accepted, verdict.flags) == (True, ("sparse_semantic_fields",))


def test_chatter_in_the_title_counts() -> None:
    assert judge("# Let me check the port\n\nThe port is 8443.\n").flags == ("has_contamination", "generic_title")


BUILD = "\n".join(f"[{number}/60] CC src/part{number}.o -> build/part{number}.o" for number in range(1, 61))
LOREM = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore. " * 3


@pytest.mark.parametrize("text", ["x", "ok", "Done. All good now, thanks!", BUILD, LOREM, "The test passes. " * 20])
def test_what_tells_nothing_is_no_memory(text: str) -> None:
    assert judge(text).flags == ("mostly_boilerplate",)


@pytest.mark.parametrize(
    "text",
    [
        "Port 8443.",
        "Cats are grey.",
        "部署端口是 8443，因为 8080 被 nginx 占用。",
        f"The build prints one line for each part:\n\n```\n{BUILD}\n```\n",
        "warning: the proxy drops idle sockets\n\nSet keepalive to 30 s; the error is gone since.",
        "Never write lorem ipsum into a fixture: a customer saw it once.",
    ],
)
def test_a_short_note_or_one_that_quotes_is_kept(text: str) -> None:
    assert judge(text).is_accepted


def test_a_session_that_tells_more_scores_more() -> None:
    tale = "## Changed\n\n- I moved the listener of the worker to port 8443 in `serve.py`\n" * 3
    cure = "## Problems\n\n- error: address in use \u2014 `make serve` passed in e9 after (e7): I stop the worker\n"
    bare, told, cured = (judge(SESSION + DECIDED + more, tool_calls=7).score for more in ("", tale, tale + cure))
    assert ACCEPTED <= bare < told < cured


def test_a_users_phrase_counts() -> None:
    note = "Beep boop. The port is 8443.\n"
    assert judge(note).is_accepted
    assert judge(note, phrases=("Beep",)).flags == ("has_contamination",)


@pytest.mark.parametrize("text", ["", "\n", "---\n---\n", "# Port\n"])
def test_a_file_without_a_text_of_its_own_is_turned_away_if_it_has_no_word(text: str) -> None:
    assert judge(text).is_accepted is ("Port" in text)


def test_more_defects_never_score_more_and_rejection_caps() -> None:
    clean = judge(SESSION + DECIDED)
    one = judge(SESSION + DECIDED + "\nLet me check.\n")
    two = judge(SESSION + DECIDED + "\nLet me check.\n\n## Next\n\n- TBD\n")
    assert clean.score >= ACCEPTED > one.score > two.score > 0.0


def test_decisions_are_told_from_titles_else_from_lines() -> None:
    lines = "## Key decisions\n\n- Use 8443 for the worker\n- decision_count: 0\n"
    lines += "- No decision on TLS yet\n- No second host\n"
    titles = "## Decisions\n\n### Decision 1: Bind to 8443 only\n\n**Rationale**: one port is enough for all\n"
    assert [text.split()[-1] for text in find_decisions(read_contents(parse_memory_file(lines)))] == ["worker", "host"]
    assert find_decisions(read_contents(parse_memory_file(titles))) == ("Bind to 8443 only",)


PIECES = st.sampled_from(
    ["---\n", "title: x\n", "a: [\n", "# T\n", "## Decisions\n", "- [TBD]\n", "| a | b |\n", "|---|---|\n", "```yaml\n",
     "session_id: s\n", "```\n", "**Blockers**: x\n", "Let me check.\n", "## Metadata\n", "<!--\n", "\u3042\n", "\0"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=20).map("".join) | st.text(max_size=300), st.integers(0, 99))
def test_any_text_is_judged_alike_twice(text: str, tool_calls: int) -> None:
    verdict = judge(text, name="n", tool_calls=tool_calls)
    assert verdict == judge(text, name="n", tool_calls=tool_calls)
    assert 0.0 <= verdict.score <= 1.0
    assert len(verdict.reasons) >= len(verdict.flags)
    assert verdict.is_accepted is not any(reason.startswith("Quality gate failed") for reason in verdict.reasons)
