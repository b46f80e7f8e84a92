"""Verdicts of lint as a SARIF 2.1.0 log, which code hosts and editors show beside the lines of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from scrimshaw import __version__
from scrimshaw.engine.linting import UNREADABLE, Linted, LintState

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
DEAD = "dead_reference"
DEFECT = "quality_defect"
SKIPPED = "skipped_file"

# What a flag means, and what to do about it.
RULES: dict[str, tuple[str, str]] = {
    "has_placeholders": (
        "A field or a section still holds a placeholder of a template.",
        "Write what belongs there, or remove the line: a section without evidence is better absent.",
    ),
    "has_fallback_decision": (
        "A stock sentence stands where decisions should.",
        "Name the decision and its reason, or remove the section and state `decision_count: 0`.",
    ),
    "has_contamination": (
        "The text holds talk about the work instead of the work.",
        "Remove announcements of the next step, tool traces and pasted replies.",
    ),
    "sparse_semantic_fields": (
        "There are too few trigger phrases or topics for it to be found by.",
        "Add two trigger_phrases and a topic to the front matter.",
    ),
    "malformed_field": (
        "A field of the front matter does not hold what it is for.",
        "Correct the value, or remove the field.",
    ),
    "generic_title": (
        "The title would fit any memory.",
        "Say in the title what the memory tells.",
    ),
    "mostly_boilerplate": (
        "Next to nothing in the file is its own.",
        "Say what was found, decided or done, or delete the file.",
    ),
    "repeated_decisions": (
        "The same decisions are written down twice.",
        "Keep one of them.",
    ),
    "foreign_references": (
        "The file is about another piece of work than the one it is filed under.",
        "Correct spec_folder, or move the file.",
    ),
    "stale_references": (
        "The file rests on temporary files, which are gone when it is read.",
        "Name what lasts, or say what they held.",
    ),
    UNREADABLE: (
        "The file cannot be read as a memory.",
        "Save it as UTF-8 text, and correct the YAML of its front matter.",
    ),
    DEAD: (
        "A reference leads to a file that is not there.",
        "Correct the path; where a folder moved, run `scrimshaw lint --fix-paths OLD=NEW`.",
    ),
    SKIPPED: ("The file was not read.", "See the message for the reason."),
    DEFECT: ("The quality gate found a defect.", "See the message for the reason."),
}
_FALLBACKS = {LintState.SKIPPED: SKIPPED}


def log(found: Sequence[Linted]) -> dict[str, Any]:
    """A log of one run: a rule per flag that occurs or is known, a result per reason and per stale reference.

    Paths are relative URIs under the project. A result has a line where it is known.
    """
    results = [result for one in found for result in _results(one)]
    names = list(dict.fromkeys([*RULES, *(str(result["ruleId"]) for result in results)]))
    for result in results:
        result["ruleIndex"] = names.index(result["ruleId"])
    driver = {
        "name": "scrimshaw lint",
        "version": __version__,
        "rules": [_rule(name) for name in names],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(name: str) -> dict[str, Any]:
    what, remedy = RULES.get(name, (f"The quality gate found {name.replace('_', ' ')}.", "See the message."))
    return {
        "id": name,
        "name": name.title().replace("_", ""),
        "shortDescription": {"text": what},
        "fullDescription": {"text": what},
        "help": {"text": remedy},
        "defaultConfiguration": {"level": "warning"},
    }


def _results(one: Linted) -> Iterator[dict[str, Any]]:
    level = {LintState.REJECTED: "error", LintState.SKIPPED: "note"}.get(one.state, "warning")
    flags = one.flags if len(one.flags) == len(one.reasons) else (_FALLBACKS.get(one.state, DEFECT),) * len(one.reasons)
    for flag, reason, line in zip(flags, one.reasons, one.lines, strict=True):
        yield _result(flag, level, reason, one.path, line)
    for reference in one.stale:
        yield _result(DEAD, "warning", f"{reference.path} leads nowhere.", one.path, reference.line)


def _result(rule: str, level: str, message: str, path: str, line: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(path)}}
    if line:
        place["region"] = {"startLine": line}
    return {"ruleId": rule, "level": level, "message": {"text": message}, "locations": [{"physicalLocation": place}]}
