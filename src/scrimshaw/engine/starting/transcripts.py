"""The transcripts that clients keep in the user's home, and which of them belong to a project."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.transcripts import PARSERS
from scrimshaw.ingest.transcripts.gemini import project_hash
from scrimshaw.ingest.turns import Transcript
from scrimshaw.storage.opencode_store import OpenCodeSession, holds_sessions, opencode_export, opencode_sessions

# The beginning of a file tells its session and folder: its first line, which holds some 50 KB at Codex, and this much.
HEAD_BYTES = 64 * 1024
# A larger file would take gigabytes of memory to read as a whole.
LARGEST_FILE = 256 * 1024 * 1024
OPENCODE_DATA = (".local", "share", "opencode")
_IsOurs = Callable[[Path, str, Transcript], bool]
_NOT_IN_FOLDER = re.compile(r"[^A-Za-z0-9]")


class Stored(Struct, frozen=True, kw_only=True):
    """A session as its client keeps it: `files`, those of its sub-agents last, and their `size` in bytes together.

    `began` is in seconds since 1970, 0.0 where the file's beginning does not tell. For OpenCode, which keeps no file
    per session, `inside` names the sessions in its data folder `files[0]`.
    """

    client: str
    session: str
    files: tuple[Path, ...]
    size: int
    began: float = 0.0
    inside: tuple[OpenCodeSession, ...] = ()

    @property
    def place(self) -> str:
        """Where it lies, for people."""
        return f"{self.files[0]}#{self.session}" if self.inside else str(self.files[0])


def stored_transcripts(project: Path, home: Path, clients: Iterable[str] = tuple(PARSERS)) -> list[Stored]:
    """The sessions of this project, or of folders in it, that clients keep below `home`; oldest first."""
    return _oldest_first(each for client in clients for each in _FINDERS[client](project, home))


def stored_at(client: str, place: Path) -> list[Stored]:
    """The sessions of a client in a file, or in all files below a folder, whatever project they belong to."""
    if client == "opencode" and holds_sessions(place):
        return _oldest_first(_opencode_in(place, None))
    files = sorted(place.rglob("*.json*")) if place.is_dir() else [place]
    readable = [file for file in files if file.suffix in (".json", ".jsonl")]
    return _oldest_first(_grouped(client, readable, lambda file, head, about: True))


def read_transcript(stored: Stored) -> tuple[Transcript, str]:
    """The session with the turns of its sub-agents in between, by time, and the SHA-256 of all that was read.

    Raises UnreadableFile, also for a file above LARGEST_FILE.
    """
    texts = [opencode_export(stored.files[0], each) for each in stored.inside] or [_text(file) for file in stored.files]
    main, *others = (PARSERS[stored.client](text) for text in texts)
    turns = [turn for part in (main, *others) for turn in part.turns]
    merged = replace(
        main,
        session=stored.session,
        turns=tuple(sorted(turns, key=lambda turn: turn.at)),
        skipped=sum(part.skipped for part in (main, *others)),
    )
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "replace"))
    return merged, digest.hexdigest()


# Where each client keeps them


def _claude(project: Path, home: Path) -> list[Stored]:
    """`~/.claude/projects/FOLDER/SESSION.jsonl`, sub-agents in `SESSION/subagents/`, in old versions beside it."""
    names = {_NOT_IN_FOLDER.sub("-", str(place)) for place in (project, project.resolve())}
    folders = _folders(home / ".claude" / "projects")
    ours = [folder for folder in folders if any(f"{folder.name}-".startswith(f"{name}-") for name in names)]
    files = [file for folder in ours for pattern in ("*.jsonl", "*/subagents/*.jsonl") for file in folder.glob(pattern)]

    def is_ours(file: Path, head: str, about: Transcript) -> bool:
        """A long first prompt may hide the folder; then its encoded name has to do."""
        return _is_within(about.cwd, project) if about.cwd else not names.isdisjoint(each.name for each in file.parents)

    return _grouped("claude", files, is_ours)


def _codex(project: Path, home: Path) -> list[Stored]:
    """`~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, and the archived ones."""
    places = (home / ".codex" / "sessions", home / ".codex" / "archived_sessions")
    return _grouped("codex", [file for place in places for file in place.rglob("rollout-*.jsonl")], _ran_in(project))


def _copilot(project: Path, home: Path) -> list[Stored]:
    """`~/.copilot/session-state/SESSION/events.jsonl`."""
    files = (home / ".copilot" / "session-state").glob("*/events.jsonl")
    return _grouped("copilot", list(files), _ran_in(project))


def _gemini(project: Path, home: Path) -> list[Stored]:
    """`~/.gemini/tmp/NAME/chats/`: the files tell a hash of the project's path, the folder may tell the path."""
    hashes = {hashlib.sha256(str(place).encode()).hexdigest() for place in (project, project.resolve())}
    files = (home / ".gemini" / "tmp").glob("*/chats/**/*.json*")

    def is_ours(file: Path, head: str, about: Transcript) -> bool:
        chats = next(folder for folder in file.parents if folder.name == "chats")
        return project_hash(head) in hashes or _is_within(_line(chats.parent / ".project_root"), project)

    return _grouped("gemini", files, is_ours)


def _opencode(project: Path, home: Path) -> list[Stored]:
    return _opencode_in(home.joinpath(*OPENCODE_DATA), project)


def _opencode_in(folder: Path, project: Path | None) -> list[Stored]:
    groups: dict[str, list[OpenCodeSession]] = {}
    for session in opencode_sessions(folder):
        if project is None or _is_within(session.directory, project):
            groups.setdefault(session.parent or session.id, []).append(session)
    return [
        Stored(
            client="opencode",
            session=name,
            files=(folder,),
            size=0,
            began=group[0].created,
            inside=_parent_first(name, group),
        )
        for name, group in groups.items()
    ]


_FINDERS: Mapping[str, Callable[[Path, Path], list[Stored]]] = MappingProxyType(
    {"claude": _claude, "codex": _codex, "copilot": _copilot, "gemini": _gemini, "opencode": _opencode}
)


# Telling files apart


def _grouped(client: str, files: Iterable[Path], is_ours: _IsOurs) -> list[Stored]:
    """One entry per session: its own file, then those of its sub-agents. A file that tells no session is left out."""
    groups: dict[str, list[tuple[Path, float]]] = {}
    for file in sorted(files):
        head = _head(file)
        about = PARSERS[client](head)
        session = _parent(client, file) or about.session or (file.stem if client == "claude" else "")
        if session and is_ours(file, head, about):
            groups.setdefault(session, []).append((file, about.turns[0].at if about.turns else 0.0))
    return [_stored(client, session, group) for session, group in groups.items()]


def _stored(client: str, session: str, group: list[tuple[Path, float]]) -> Stored:
    """Every client puts the session's id, or its beginning, into the name of the session's own file or folder."""
    own_first = sorted((file for file, _ in group), key=lambda file: session[:8] not in file.name)
    return Stored(
        client=client,
        session=session,
        files=tuple(own_first),
        size=sum(_size(file) for file in own_first),
        began=min((at for _, at in group if at), default=0.0),
    )


def _oldest_first(found: Iterable[Stored]) -> list[Stored]:
    return sorted(found, key=lambda each: (each.began, each.place))


def _parent(client: str, file: Path) -> str:
    """The session that a sub-agent's file belongs to where its folder tells; empty for other files."""
    if client == "claude" and file.parent.name == "subagents":
        return file.parent.parent.name
    return file.parent.name if client == "gemini" and file.parent.parent.name == "chats" else ""


def _ran_in(project: Path) -> _IsOurs:
    return lambda file, head, about: _is_within(about.cwd, project)


def _is_within(cwd: str, project: Path) -> bool:
    """Whether a session ran in the project or in a folder of it."""
    return bool(cwd) and any(Path(cwd).is_relative_to(place) for place in (project, project.resolve()))


def _parent_first(name: str, group: list[OpenCodeSession]) -> tuple[OpenCodeSession, ...]:
    return tuple(sorted(group, key=lambda session: session.id != name))


# Reading


def _head(file: Path) -> str:
    """The first lines of a file; all of one that holds a single object. Empty where it cannot be read."""
    try:
        with file.open("rb") as stream:
            if file.suffix == ".json":
                raw = stream.read(LARGEST_FILE)
            else:
                raw = stream.readline(LARGEST_FILE) + stream.read(HEAD_BYTES)
    except OSError:
        return ""
    return raw.decode("utf-8", "replace")


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise UnreadableFile(f"{file} is larger than {LARGEST_FILE >> 20} MB.", "Split it, or leave it.")
        return file.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read: {error.strerror}.", "Check its permissions.") from error


def _line(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _folders(place: Path) -> list[Path]:
    return [folder for folder in place.iterdir() if folder.is_dir()] if place.is_dir() else []


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
