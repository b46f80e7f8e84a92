"""Find the documents of a source in a fixed order, and the sources that a project has."""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile
from math import inf
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from scrimshaw.errors import ConfigError
from scrimshaw.models import ArtifactClass, Skip, SourceFile, Trust
from scrimshaw.storage.git import list_visible_files
from scrimshaw.storage.paths import SUFFIX, replace_undecodable
from scrimshaw.toml_text import read_regular_file

# Some 500,000 tokens: a larger file is not a note that a person wrote.
MAX_BYTES = 2 * 1024 * 1024
MOST_FOLDERS = 20_000  # without git, as in a home folder; some two seconds
IGNORED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages"})
_MACHINERY = frozenset({".git", ".scrimshaw", ".venv", ".tox"})  # never searched for documents
OTHER_SUFFIXES = (".markdown", ".mdx", ".mdc", ".rst", ".adoc", ".asciidoc")
SUFFIXES = (SUFFIX, *OTHER_SUFFIXES)
SPEC_FOLDERS = ("specs", ".specify", ".opencode/specs")
# Hidden folders are private to a tool, except these, wherever they are.
_SHARED_FOLDERS = (".github", ".cursor/rules", *(each for each in SPEC_FOLDERS if each.startswith(".")))
_SHARED = re.compile(rf"(?:^|/)(?:{'|'.join(map(re.escape, _SHARED_FOLDERS))})(?=/)")
_SHARED_TOPS = frozenset(each.partition("/")[0] for each in _SHARED_FOLDERS)
SERENA_MEMORIES, SERENA = ".serena/memories", "serena"  # the folder, and the name of its source
_SERENA_CHARACTERS = 150_000  # Serena's own limit of a memory, if its settings state none
UNREAD = "it cannot be read"  # how the reason begins if the system refuses
SECOND_NAME = "symbolic link to a file that has its own entry"  # why such a link is skipped
NOT_DOCUMENTS = ("**/.specify/templates/**", "**/.specify/scripts/**")

_BY_NAME = {str(each): each for each in ArtifactClass if each not in (ArtifactClass.MEMORY, ArtifactClass.UNKNOWN)}
_BY_FOLDER = {
    **dict.fromkeys(("adr", "adrs", "decisions"), ArtifactClass.DECISION_RECORD),
    "checklists": ArtifactClass.CHECKLIST,
    "research": ArtifactClass.RESEARCH,
}

_IdTest = Callable[[str], bool]
_GLOB_TOKEN = re.compile(r"(\*\*/|\*\*|\*|\?)")
_GLOB_MEANING = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True)
class Source:
    """A folder to read, and how."""

    name: str
    root: Path
    #: Patterns relative to `root`, see `compile_globs`. Most hidden folders are entered only if a pattern names them.
    include: tuple[str, ...] = ("**/*.md",)
    exclude: tuple[str, ...] = ()
    writable: bool = False
    artifact: ArtifactClass | None = None  #: overrides the class derived from the path
    id_prefix: str = ""  #: prefix of every id
    ignored: tuple[str, ...] = ()  #: regular expressions (RE2) over whole ids, like `read_only`
    read_only: tuple[str, ...] = ()
    trust: Trust = Trust.HUMAN  #: the trust of a file that does not state one
    honours_git: bool = False  #: skip what git ignores
    max_chars: int = 0  #: the longest text that may be written, 0 for any

    def takes(self, memory_id: str) -> bool:
        """Whether the source accepts a memory of this id; raises ConfigError."""
        return self.writable and not _compile_ids(self.ignored + self.read_only)(memory_id)


class _DocumentFile(NamedTuple):
    """A file found by the walk, named by its path below the source's root."""

    path: str
    name: str
    entry: os.DirEntry[str] | Path


def scan(source: Source, max_bytes: int = MAX_BYTES) -> Iterator[SourceFile | Skip]:
    """Every document that belongs to the source, as SourceFile or, with the reason, as Skip; raises ConfigError."""
    # Linked folders are not followed. A linked file comes after plain ones, if its target is inside the root and not
    # itself in the source.
    root = os.path.realpath(source.root)
    classify = partial(_classify, source, max_bytes, _compile_ids(source.ignored), _compile_ids(source.read_only))
    seen, links = set[str](), list[_DocumentFile]()
    for found in _walk_patterns(source, root):
        if found.path in seen:
            continue
        seen.add(found.path)
        if isinstance(found, Skip):
            yield found
        elif found.entry.is_symlink():
            links.append(found)
        else:
            yield from classify(found, found.path)
    for link in links:
        target = os.path.realpath(link.path)
        if not Path(target).is_relative_to(root):
            yield _skip(link.path, "symbolic link out of the source")
        elif target in seen and target != link.path:
            yield _skip(link.path, SECOND_NAME)
        else:
            seen.add(target)
            yield from classify(link, target)


def discover(project: Path, serena_home: Path | None = None) -> list[Source]:
    """The sources found in a project's folders; only Serena's memories are writable; raises ConfigError."""
    existing = [folder for folder in SPEC_FOLDERS if (project / folder).is_dir()]
    # Of several names for one folder the one that is not a link counts.
    existing.sort(key=lambda folder: not (project / folder).is_symlink())
    found = set({os.path.realpath(project / folder): folder for folder in existing}.values())
    specs = tuple(f"{folder}/**/*" for folder in SPEC_FOLDERS if folder in found)
    no_docs = (*(f"{folder}/**" for folder in SPEC_FOLDERS), *NOT_DOCUMENTS)
    sources = (
        Source(name="specs", root=project, include=specs, exclude=NOT_DOCUMENTS),
        Source(name="docs", root=project, include=("**/*",), exclude=no_docs, honours_git=True),
    )
    return _serena_sources(project, serena_home) + [source for source in sources if source.include]


def find_left_out(project: Path, read: Collection[str], exclude: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name of each document below a project that is not among the paths `read`, and the first reason that applies."""
    excluded, top, apart = compile_globs(exclude), os.path.realpath(project), ""
    for folder, below, names in islice(os.walk(top), MOST_FOLDERS):
        apart = folder if folder != top and ".git" in (*below, *names) else apart  # folders come depth first
        below[:] = sorted(set(below) - IGNORED_FOLDERS - (_MACHINERY if folder == top else _MACHINERY - {".scrimshaw"}))
        for path in (Path(folder, name) for name in names if name.lower().endswith(SUFFIXES)):
            name = replace_undecodable(path.relative_to(top).as_posix())
            of_part = name.partition("/.scrimshaw/")[2]
            if replace_undecodable(os.path.realpath(path)) not in read and of_part[:9] in ("", "memories/"):
                reason = (
                    "excluded" if excluded.fullmatch(name) else "apart" if path.is_relative_to(apart) else "ignored"
                )
                yield name, "nested" if of_part else "hidden" if _is_hidden(name) else reason


def classify_artifact(path: PurePosixPath) -> ArtifactClass:
    """The class of a document by its path: memory folder, then file name, then the innermost telling folder."""
    folders = [part.lower() for part in path.parts[:-1]]
    name = path.stem.lower()
    if not {"memory", "memories"}.isdisjoint(folders):
        return ArtifactClass.MEMORY
    if name in _BY_NAME:
        return _BY_NAME[name]
    if re.fullmatch(r"adr[-_ ]?\d+([-_ .].*)?", name):
        return ArtifactClass.DECISION_RECORD
    if name in ("readme", "index", "template", "adr-template"):
        return ArtifactClass.UNKNOWN
    return next((_BY_FOLDER[part] for part in reversed(folders) if part in _BY_FOLDER), ArtifactClass.UNKNOWN)


def compile_globs(globs: Iterable[str]) -> re.Pattern[str]:
    """An expression for what any of the globs matches: `*` and `?` stay within a path segment, `**` crosses them."""
    parts = ("".join(_GLOB_MEANING.get(each) or re.escape(each) for each in _GLOB_TOKEN.split(glob)) for glob in globs)
    return re.compile("|".join(parts) or r"(?!)", re.DOTALL)


def _walk_patterns(source: Source, root: str) -> Iterator[_DocumentFile | Skip]:
    """The files of each pattern, in turn; a file may occur more than once."""
    excluded = compile_globs(source.exclude)
    listed = list_visible_files(source.root, SUFFIXES) if source.honours_git else None
    for glob in source.include:
        # The folders in front of the first wildcard: `docs` of `docs/**/*.md`.
        literal = list(takewhile(lambda segment: not _GLOB_TOKEN.search(segment), glob.split("/")[:-1]))
        start = "/".join(literal)
        folder = os.path.realpath(f"{root}/{start}")
        if not Path(folder).is_relative_to(root):
            yield _skip(f"{root}/{start}", "symbolic link out of the source")
            continue
        wanted = compile_globs([glob])
        depth = inf if "**" in glob else glob.count("/") - len(literal)
        prefix = f"{start}/" if start else ""
        if listed is None:
            walk = _walk(folder, prefix, depth, excluded)
            yield from (found for found in walk if isinstance(found, Skip) or _takes(wanted, prefix, found.name))
            continue
        yield from (
            _DocumentFile(str(path := Path(root, name)), lowered, path)  # as the system writes it, like all others
            for name in listed
            if name.startswith(prefix) and IGNORED_FOLDERS.isdisjoint(name.split("/")) and not excluded.fullmatch(name)
            if _takes(wanted, prefix, lowered := _lower_suffix(name))
        )


def _takes(wanted: re.Pattern[str], prefix: str, name: str) -> bool:
    """Whether a pattern, whose folders before the first wildcard are `prefix`, matches a file."""
    return bool(wanted.fullmatch(name)) and not _is_hidden(name.removeprefix(prefix).rpartition("/")[0])


def _is_hidden(path: str) -> bool:
    """Whether a path leads through a hidden folder, or to a hidden file, except those that are for everybody."""
    return "/." in f"/{path}" and "/." in f"/{_SHARED.sub('', path + '/')}"


def _lower_suffix(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return stem + dot + suffix.lower()


def _walk(top: str, prefix: str, depth: float, excluded: re.Pattern[str]) -> Iterator[_DocumentFile | Skip]:
    """Documents, each folder's own before those below it, and folders not entered; `prefix` ends in `/`."""
    pending, entered = [(top, prefix, depth)], 0
    while pending:
        folder, prefix, depth = pending.pop()
        if (entered := entered + 1) > MOST_FOLDERS:
            yield _skip(folder, f"{MOST_FOLDERS} folders were read before it; name it in [index] include")
            break
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=attrgetter("name"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield _skip(folder, f"the folder cannot be read: {error.strerror}")
            continue
        below = [
            entry
            for entry in entries
            if depth and entry.name not in IGNORED_FOLDERS
            if not entry.name.startswith(".") or entry.name in _SHARED_TOPS
            if _is_folder(entry) and not excluded.fullmatch(f"{prefix}{entry.name}/")
        ]
        for entry in entries:
            name = _lower_suffix(f"{prefix}{entry.name}")
            if name.endswith(SUFFIXES) and not _is_folder(entry) and not excluded.fullmatch(name):
                yield _DocumentFile(entry.path, name, entry)
        yield from (_skip(entry.path, "symbolic link to a folder") for entry in below if entry.is_symlink())
        plain = (entry for entry in reversed(below) if not entry.is_symlink())
        pending += [(entry.path, f"{prefix}{entry.name}/", depth - 1) for entry in plain]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    # An entry's own is_dir() raises on a link that points at itself.
    return Path(entry.path).is_dir() if entry.is_symlink() else entry.is_dir()


def _classify(
    source: Source, max_bytes: int, is_ignored: _IdTest, is_read_only: _IdTest, found: _DocumentFile, path: str
) -> Iterator[SourceFile | Skip]:
    """One SourceFile or Skip; nothing for an ignored id or a file that is gone."""
    memory_id = f"{source.id_prefix}{found.name.removesuffix(SUFFIX)}"
    try:
        info = found.entry.stat()
    except OSError as error:
        if not isinstance(error, FileNotFoundError) or found.entry.is_symlink():
            yield _skip(found.path, f"{UNREAD}: {error.strerror}")
        return
    objections = {
        "hidden file": found.entry.name.startswith("."),
        "its name ends in capital letters": not found.entry.name.endswith(SUFFIXES),
        f"a memory's name ends in {SUFFIX}": source.writable and not found.name.endswith(SUFFIX),
        "its name is not UTF-8": not found.path.isascii() and replace_undecodable(found.path) != found.path,
        "not a regular file": not stat.S_ISREG(info.st_mode),
        f"{info.st_size} bytes are more than the limit of {max_bytes}": info.st_size > max_bytes,
        f"{UNREAD}: no permission": not os.access(path, os.R_OK),
    }
    if reason := next((text for text, applies in objections.items() if applies), ""):
        yield _skip(found.path, reason)
    elif not is_ignored(memory_id):
        yield SourceFile(
            source=source.name,
            memory_id=memory_id,
            path=path,
            size=info.st_size,
            mtime_ns=info.st_mtime_ns,
            writable=source.writable and not is_read_only(memory_id),
            artifact=source.artifact or classify_artifact(PurePosixPath(found.name)),
            trust=source.trust,
            link=found.path if found.entry.is_symlink() else "",
        )


def _compile_ids(patterns: tuple[str, ...]) -> _IdTest:
    """A function that tests whether any of the expressions matches a whole id."""
    if not patterns:
        return lambda memory_id: False
    import re2  # noqa: PLC0415 - native and needed only where a source has expressions

    try:
        compiled = [re2.compile(pattern) for pattern in patterns]
    except re2.error as error:
        hint = "Use RE2 syntax: no look-around, no back-references."
        raise ConfigError(f"The sources' id patterns {patterns} cannot be used: {error}.", hint) from error
    return lambda memory_id: any(pattern.fullmatch(memory_id) for pattern in compiled)


def _skip(path: str, reason: str) -> Skip:
    return Skip(path=replace_undecodable(path), reason=reason)


def _serena_sources(project: Path, home: Path | None) -> list[Source]:
    """Serena's memories under Serena's own rules; files that its settings ignore must not even be read."""
    if not (project / SERENA_MEMORIES).is_dir():
        return []
    # Keys of the local file replace those of the project's.
    own = _serena_settings(project / ".serena/project.yml") | _serena_settings(project / ".serena/project.local.yml")
    shared = _serena_settings(home / "serena_config.yml") if home else {}

    def patterns(key: str) -> tuple[str, ...]:
        lists = (shared.get(key), own.get(key))
        return tuple(str(pattern) for each in lists if isinstance(each, list) for pattern in each)

    limit = shared.get("default_max_tool_answer_chars")
    memories = Source(
        name=SERENA,
        root=project / SERENA_MEMORIES,
        writable=True,
        artifact=ArtifactClass.MEMORY,
        ignored=patterns("ignored_memory_patterns"),
        read_only=patterns("read_only_memory_patterns"),
        trust=Trust.AGENT,  # Serena's tools let agents write them
        max_chars=limit if isinstance(limit, int) and limit > 0 else _SERENA_CHARACTERS,
    )
    of_user = replace(memories, name="serena-global", writable=False, include=("global/**/*.md",))
    if (memories.root / "global").is_dir():  # Serena takes such names for the user's and never reads these
        memories = replace(memories, read_only=(*memories.read_only, "global/.*"))
    if home is None or not (home / "memories/global").is_dir():
        return [memories]
    return [memories, replace(of_user, root=home / "memories")]


def _serena_settings(path: Path) -> dict[str, object]:
    try:
        loaded = YAML(typ="safe", pure=True).load(read_regular_file(path).decode())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise ConfigError(f"Serena's settings in {path} cannot be read.", "Repair the file.", path=str(path)) from error
    return loaded if isinstance(loaded, dict) else {}
