"""What clients wrote down of their sessions: one parser per client, text in, `Transcript` out; no text is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from scrimshaw.ingest.transcripts.claude import parse_claude
from scrimshaw.ingest.transcripts.codex import parse_codex
from scrimshaw.ingest.transcripts.copilot import parse_copilot
from scrimshaw.ingest.transcripts.gemini import parse_gemini
from scrimshaw.ingest.transcripts.opencode import parse_opencode
from scrimshaw.ingest.turns import Transcript

PARSERS: Mapping[str, Callable[[str], Transcript]] = MappingProxyType(
    {
        "claude": parse_claude,
        "codex": parse_codex,
        "copilot": parse_copilot,
        "gemini": parse_gemini,
        "opencode": parse_opencode,
    }
)
