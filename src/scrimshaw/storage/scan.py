"""Find the documents of a source in a fixed order, and the sources that a project has."""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import chain, islice, takewhile
from math import inf
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from scrimshaw.errors import ConfigError
from scrimshaw.models import ArtifactClass, Skip, SourceFile, Trust
from scrimshaw.storage.git import list_visible_files
from scrimshaw.storage.paths import SUFFIX, replace_undecodable
from scrimshaw.toml_text import read_regular_file

MAX_BYTES = 2 * 1024 * 1024  # some 500,000 tokens: a larger file is not a note that a person wrote
MOST_FOLDERS = 20_000  # without git, as in a home folder; some two seconds
IGNORED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages"})
_MACHINERY = frozenset({".git", ".scrimshaw", ".venv", ".tox"})  # never searched for documents
RULES_FILES = (".cursorrules", ".clinerules", ".windsurfrules")  # Markdown without a suffix, for all in the project
OTHER_SUFFIXES = (*RULES_FILES, ".markdown", ".mdx", ".mdc", ".rst", ".adoc", ".asciidoc")
SUFFIXES = (SUFFIX, *OTHER_SUFFIXES)
SPEC_FOLDERS = ("specs", ".specify", ".opencode/specs")
# Hidden folders are private to a tool, except these, wherever they are.
_SHARED_FOLDERS = (".github", ".cursor/rules", *(each for each in SPEC_FOLDERS if each.startswith(".")))
_SHARED = re.compile(rf"(?:^|/)(?:{'|'.join(map(re.escape, _SHARED_FOLDERS))})(?=/)")
_SHARED_TOPS = frozenset(each.partition("/")[0] for each in _SHARED_FOLDERS)
SERENA_MEMORIES, SERENA = ".serena/memories", "serena"  # the folder, and the name of its source
SERENA_SETTINGS = ".serena/project.yml", ".serena/project.local.yml"
_CLOSING_KEYS = ("ignored_memory_patterns", "read_only_memory_patterns")
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
    #: Serena's: the project's, its local ones, the user's. The ids that they close are asked for each time.
    settings: tuple[Path, ...] = ()
    read_only: tuple[str, ...] = ()  #: regular expressions over whole ids that are closed to writers anyway
    trust: Trust = Trust.HUMAN  #: the trust of a file that does not state one
    honours_git: bool = False  #: skip what git ignores
    max_chars: int = 0  #: the longest text that may be written, 0 for any

    def takes(self, memory_id: str) -> bool:
        """Whether the source accepts a memory of this id now; raises ConfigError."""
        return self.writable and not any(is_closed(memory_id) for is_closed in self.compile_rules())

    def compile_rules(self) -> tuple[_IdTest, _IdTest]:
        """Tests for the ids that are ignored now and for those that are only read; raises ConfigError."""
        # Keys of the local file replace those of the project's; the user's are added.
        project, local, *user = map(_serena_settings, self.settings) if self.settings else ({}, {})
        stated = ([each.get(key) for each in (*user, project | local)] for key in _CLOSING_KEYS)
        ignored, read_only = ([*chain.from_iterable(map(_as_patterns, lists))] for lists in stated)
        return _compile_ids(ignored), _compile_ids([*read_only, *self.read_only])

    def find_unusable(self) -> list[str]:
        """The patterns of Serena's settings that cannot be compiled and so close every id; raises ConfigError."""
        values = ((path, _serena_settings(path).get(key)) for path in self.settings for key in _CLOSING_KEYS)
        return [f"{path}: {each}" for path, value in values for each in _as_patterns(value) if not _compile(each)]


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
    classify = partial(_classify, source, max_bytes, *source.compile_rules())
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
        Source(name="specs", root=project, include=specs, exclude=NOT_DOCUMENTS, honours_git=True),
        Source(name="docs", root=project, include=("**/*",), exclude=no_docs, honours_git=True),
    )
    return _serena_sources(project, serena_home) + [source for source in sources if source.include]


def find_left_out(project: Path, read: Collection[str], exclude: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name of each document below a project that is not among the paths `read`, and why: a key of `init`'s table."""
    top, apart = os.path.realpath(project), ""
    reasons = {"excluded": compile_globs(exclude), "unfilled": compile_globs(NOT_DOCUMENTS)}
    for folder, below, names in islice(os.walk(top), MOST_FOLDERS):
        apart = folder if folder != top and ".git" in (*below, *names) else apart  # folders come depth first
        below[:] = sorted(set(below) - IGNORED_FOLDERS - (_MACHINERY if folder == top else _MACHINERY - {".scrimshaw"}))
        for path in (Path(folder, name) for name in names if name.lower().endswith(SUFFIXES)):
            name = replace_undecodable(path.relative_to(top).as_posix())
            of_part = name.partition("/.scrimshaw/")[2]
            if replace_undecodable(os.path.realpath(path)) not in read and of_part[:9] in ("", "memories/"):
                reason = "nested" if of_part else "hidden" if _is_hidden(name) else ""
                reason = reason or next((why for why, globs in reasons.items() if globs.fullmatch(name)), "")
                yield name, reason or ("apart" if path.is_relative_to(apart) else "ignored")


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
    starts = [glob.partition("*")[0] for glob in source.include]  # git walks through no other folder
    listed = list_visible_files(source.root, SUFFIXES, starts) if source.honours_git else None
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
        if listed is None or (start and folder != f"{root}/{start}"):  # git names nothing below a link
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
        "hidden file": found.entry.name.startswith(".") and found.entry.name not in RULES_FILES,
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


def _compile_ids(patterns: Iterable[str]) -> _IdTest:
    """A function that tests whether any of the expressions matches a whole id; one that RE2 rejects could match any."""
    compiled = [*map(_compile, patterns)]
    return lambda memory_id: any(pattern is None or pattern.fullmatch(memory_id) for pattern in compiled)


@cache
def _compile(pattern: str) -> Any:
    """An expression compiled by RE2, which matches in linear time; None for one that only other engines accept."""
    import re2  # noqa: PLC0415 - native and needed only where a source has expressions

    options = re2.Options()
    options.log_errors = False
    with suppress(re2.error):
        return re2.compile(pattern, options)
    return None


def _skip(path: str, reason: str) -> Skip:
    return Skip(path=replace_undecodable(path), reason=reason)


def _serena_sources(project: Path, home: Path | None) -> list[Source]:
    """Serena's memories under Serena's own rules; files that its settings ignore must not even be read."""
    if not (project / SERENA_MEMORIES).is_dir():
        return []
    settings = tuple(project / each for each in SERENA_SETTINGS)
    settings += (home / "serena_config.yml",) if home else ()
    limit = _serena_settings(settings[-1]).get("default_max_tool_answer_chars") if home else None
    memories = Source(
        name=SERENA,
        root=project / SERENA_MEMORIES,
        writable=True,
        artifact=ArtifactClass.MEMORY,
        settings=settings,
        trust=Trust.AGENT,  # Serena's tools let agents write them
        max_chars=limit if isinstance(limit, int) and limit > 0 else _SERENA_CHARACTERS,
    )
    of_user = replace(memories, name="serena-global", writable=False, include=("global/**/*.md",))
    if (memories.root / "global").is_dir():  # Serena takes such names for the user's and never reads these
        memories = replace(memories, read_only=(*memories.read_only, "global/.*"))
    if home is None or not (home / "memories/global").is_dir():
        return [memories]
    return [memories, replace(of_user, root=home / "memories")]


def _as_patterns(stated: object) -> list[str]:
    return [stated] if isinstance(stated, str) else [*map(str, stated)] if isinstance(stated, list) else []


def _serena_settings(path: Path) -> dict[str, object]:
    """The settings in a file, which may be absent; raises ConfigError."""
    try:
        return _parse_settings(read_regular_file(path))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise ConfigError(f"Serena's settings in {path} cannot be read.", "Repair the file.", path=str(path)) from error


@lru_cache(maxsize=8)  # they are read for every write
def _parse_settings(raw: bytes) -> dict[str, object]:
    loaded = YAML(typ="safe", pure=True).load(raw.decode())
    return loaded if isinstance(loaded, dict) else {}
