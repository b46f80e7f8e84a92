"""What memory files say without saying anything: frames, template sentences and words that fit every session."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")


def plain(text: str) -> str:
    """A text as its words, lower case, for comparing."""
    return " ".join(_WORD.findall(text.lower()))


def vocabulary(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(plain(text).split())


FRAME = frozenset(
    {
        "canonical_sources",
        "conversation",
        "diagnostic_commands",
        "memory_metadata",
        "metadata",
        "postflight",
        "postflight_learning_delta",
        "preflight",
        "preflight_baseline",
        "project_state_snapshot",
        "recovery_hints",
        "table_of_contents",
    }
)
"""Sections of a session's file that its template fills by itself."""

REQUIRED = frozenset(
    {
        "blocker",
        "decision",
        "description",
        "key_decision",
        "key_outcome",
        "key_topic",
        "last_action",
        "next",
        "next_action",
        "next_step",
        "outcome",
        "overview",
        "pending_work",
        "spec_folder",
        "summary",
        "title",
        "topic",
        "trigger_phrase",
    }
)
"""Fields and sections, in the singular, that must not be left to be filled in (REQ-018)."""

NOTHING = frozenset({"", "-", "n/a", "na", "nil", "no", "none", "nothing"})
"""How a field says that there is nothing to say."""

FALLBACK_DECISIONS = (
    "did not involve significant architectural or technical decisions",
    "no significant decisions were made",
    "no major decisions were made",
    "no decisions were made during this session",
    "no key decisions were recorded",
    "no specific decisions were made",
)
"""Sentences written where nothing was decided. `decision_count: 0` tells a program so, a missing section tells all."""

GENERIC_TITLE_WORDS = vocabulary(
    "a and changes complete completed completion comprehensive context continuation continued continue development"
    " done feature features fixes folder follow followup for general implementation implemented in manual memory"
    " memories misc miscellaneous new next note notes of on progress save saved session spec specification status step"
    " steps summary task tasks technical the to todo todos untitled up update updates various with work"
)
"""Words of which a title must not wholly consist."""

GENERIC_WORDS = vocabulary(
    "also and context description file files execute feature features focused for from general implementation"
    " implementing let memory merged modified next pending progress script session small spec start step steps summary"
    " tasks test testing the thinning this tree update updated with work"
)
"""Words of a trigger phrase by which nothing is found again."""


STOCK = frozenset(
    map(
        plain,
        (
            "Add new modules following the existing file structure patterns",
            "Apply validation patterns to new input handling",
            "Chosen Approach",
            "Clean and standardize data before use",
            "Continue implementation",
            "Create corresponding test files for new implementations",
            "Encapsulate reusable logic in dedicated utility functions",
            "File modified (description pending)",
            "Follow the established API pattern for new endpoints",
            "Legacy content migrated to v2.2",
            "Chain filters for data transformation",
            "Input validation before processing",
            "Learning metrics will be calculated when both preflight and postflight data are provided.",
            "Maintain consistent error handling approach",
            "Manual context save",
            "Context save initiated",
            "Modified during session",
            "Next Steps",
            "No pending tasks - session completed",
            "No pending tasks - session completed successfully",
            "Or paste this continuation prompt:",
            "Organize code into importable modules",
            "Provide sensible defaults when primary method fails",
            "Quick resume context for session continuation and handover.",
            "Session focused on implementing and testing features.",
            "Session in progress",
            "Technical Implementation Details",
            "To continue this work, use:",
            "Use established template patterns for new outputs",
            "Use functional methods for data transformation",
            "Use templates with placeholder substitution",
            "User initiated conversation",
        ),
    )
)
"""Sentences that templates write whatever happened."""

STOCK_STARTS = tuple(
    map(
        plain,
        (
            "Authoritative documentation for this packet",
            "Compact session-specific evidence that distinguishes this memory",
            "PI-B1 merged",
            "This session did not involve significant",
            "This session followed a",
            "This session was migrated from an older format",
            "Tree-thinning merged",
        ),
    )
)
"""How sentences begin that templates complete with a number or a name."""

DEFAULT_DESCRIPTION = plain("Session context memory template for Spec Kit indexing.")
DEFAULT_TRIGGERS = frozenset({"context template", "memory dashboard", "session summary"})
"""What a template says until it is filled in."""
