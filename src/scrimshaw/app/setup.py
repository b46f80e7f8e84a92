"""Connecting clients: plan, show and write changes to their files; and check how they are connected."""

import difflib
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PureWindowsPath
from typing import Any

import tomlkit
from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.app.clients import all_clients
from scrimshaw.app.clients.client import HOOK, SERVER, Client, OwnFile, Programs, Scope, SetupFiles, SharedFile
from scrimshaw.app.json_text import edit_json, parse_json
from scrimshaw.errors import ConfigError, Conflict, InvalidRequest, NotFound, ScrimshawError, StorageFailure
from scrimshaw.ingest.payload import section
from scrimshaw.storage.durable import read_if_there, remove_file, replace_file, storage_errors
from scrimshaw.storage.place import exclude_files, find_git, find_projects
from scrimshaw.toml_text import parse_toml

CORRECT_IT = "Correct it, then run setup again."
_ALL_USE_IT = "is for all who clone the project, so it stays; with --shared too it is changed."
Json = dict[str, Any]
Read = Callable[[Path], str | None]


class SetupChange(Struct, frozen=True):
    """A file below `root` before and after; None for no file."""

    root: Path
    path: Path
    before: str | None
    after: str | None
    is_executable: bool = False
    needs_backup: bool = False  #: whether to keep a copy of the original
    is_original: bool = False  #: whether it is restored from its copy, which is then removed
    stays: str = ""  #: why it is not made, as the end of a sentence

    @property
    def action(self) -> str:
        """The action on the file: create, change or remove."""
        return "create" if self.before is None else "remove" if self.after is None else "change"

    def diff(self) -> str:
        """The change as a unified diff."""
        old, new = ("/dev/null" if text is None else str(self.path) for text in (self.before, self.after))
        before, after = (self.before or "").splitlines(), (self.after or "").splitlines()
        return "\n".join(difflib.unified_diff(before, after, old, new, lineterm=""))


class Connection(Struct, frozen=True, kw_only=True):
    """A client in a scope, or installed but in none."""

    client: str
    scope: Scope | None = None
    fault: str = ""
    fix: str = ""
    is_broken: bool = False  #: whether it cannot work; otherwise the fault is just worth knowing


def read_file(path: Path) -> str | None:
    """A file's text with its own line ends, None if there is no file; raises ConfigError, StorageFailure."""
    with storage_errors("read", path):
        data = read_if_there(path)
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8.", CORRECT_IT) from error


def plan_changes(
    chosen: Sequence[Client], scope: Scope | None, remove: bool, project: Path, with_status_line: bool
) -> Iterator[tuple[Client, Scope, SetupChange]]:
    """All changes with client and scope; by default additions go where a client is connected, or in its usual scope."""
    programs = Programs() if remove or scope is Scope.SHARED else find_programs()
    planned = dict[Path, str | None]()  # what files will contain: two scopes may share one
    for client in chosen:
        scopes: Sequence[Scope] = (scope,) if scope else client.scopes
        if not (scope or remove):
            found = (_check_scope(client, each, project, programs) for each in scopes)
            scopes = [each.scope for each in found if each and each.scope and not each.is_broken] or scopes[:1]
        for each in scopes:
            root, own = each.root(project), Programs() if each is Scope.SHARED else programs
            files = client.setup_files(root, each, replace(own, has_status_line=with_status_line or remove))
            plan = plan_removals if remove else plan_additions
            texts = {file.path: read_file(file.path) for file in files} | planned
            for change in plan(files, root, texts.__getitem__):
                is_kept = remove and not scope and each is Scope.SHARED
                stays = _ALL_USE_IT if is_kept else find_other_use(client, each, change, project) if remove else ""
                planned |= {} if stays else {change.path: change.after}
                yield client, each, replace(change, stays=stays)


def find_other_use(client: Client, scope: Scope, change: SetupChange, project: Path) -> str:
    """Why a change does not remove what a file has for a whole repository: another of its projects is connected too."""
    for other in find_projects(project):
        files = client.setup_files(root := scope.root(other), scope, Programs())
        rest = tuple(file for file in files if file.path != change.path)
        try:
            if len(rest) < len(files) and root.resolve() != change.root.resolve() and any(plan_removals(rest, root)):
                return f"is used in {other} too, so it stays."
        except (ConfigError, StorageFailure) as error:
            return f"may be used in {other} too, so it stays: {error.message}"
    return ""


def plan_additions(files: SetupFiles, root: Path, read: Read = read_file) -> Iterator[SetupChange]:
    """The changes that add our part to files without it; raises ConfigError, with text to paste, and Conflict."""
    for file in files:
        editor, before = editor_of(file), read(file.path)
        try:
            after = editor.add(before or "")
        except ConfigError as error:
            raise ConfigError(error.message, f"{error.hint} Or put this into it:\n{editor.add('')}") from error
        if after == before:
            continue
        # A copy is made if removing our part would not restore every byte.
        is_foreign = isinstance(file, SharedFile) and before is not None and editor.remove(before) == before
        needs_backup = is_foreign and (editor.is_bare(before or "") or editor.remove(after) != before)
        is_executable = isinstance(file, OwnFile) and file.is_executable
        yield SetupChange(root, file.path, before, after, is_executable=is_executable, needs_backup=needs_backup)


def plan_removals(files: SetupFiles, root: Path, read: Read = read_file) -> Iterator[SetupChange]:
    """The changes that remove our part from files; byte for byte the original, if nothing else changed since."""
    for file in files:
        editor, before = editor_of(file), read(file.path)
        if before is None or (rest := editor.remove(before)) == before:
            continue
        original, is_original = read_file(backup_of(file.path)), False
        if original is not None:
            with suppress(ConfigError, Conflict):  # the copy differs from the file only by our part
                is_origin = editor.remove(original) == original
                is_original = is_origin and editor.remove(editor.add(original)) == rest
        after = None if original is None and editor.is_bare(rest) else original if is_original else rest
        yield SetupChange(root, file.path, before, after, is_original=is_original)


def apply_changes(changes: Sequence[SetupChange]) -> None:
    """Make all changes, or none: a client with only half of them would not work. Raises Conflict, StorageFailure."""
    for number, change in enumerate(changes):
        try:
            apply_change(change)
        except ScrimshawError:
            for done in reversed(changes[:number]):
                copies = {"needs_backup": done.is_original, "is_original": done.needs_backup}
                apply_change(replace(done, before=done.after, after=done.before, **copies))
            raise


def apply_change(change: SetupChange) -> None:
    """Make a change; folders emptied by a removal are deleted too. Raises Conflict, StorageFailure."""
    if read_file(change.path) != change.before:
        raise Conflict(f"{change.path} was changed in the meantime.", "Run the same command again.")
    with storage_errors("write", change.path):
        if change.after is None:
            remove_file(change.path, change.root if change.path.is_relative_to(change.root) else Path.home())
            return
        if change.needs_backup:
            shutil.copy2(change.path, backup_of(change.path))
        target = change.path.resolve()  # a link to the file stays a link
        replace_file(target, change.after.encode())
        if change.is_executable:
            target.chmod(0o755)
        if change.is_original:
            backup_of(change.path).unlink()


def hide_local_files(clients: Iterable[Client], project: Path) -> bool:
    """Let git ignore a project's files with paths of this machine while a work tree has them; whether it now does."""
    is_hidden, local = False, [each for each in clients if Scope.LOCAL in each.scopes]
    with suppress(OSError, ValueError):
        top, _, common = find_git(real := project.resolve())
        tops = [top, common.parent, *(Path(x.read_text().strip()).parent for x in common.glob("worktrees/*/gitdir"))]
        for path in (file.path for each in local for file in each.setup_files(real, Scope.LOCAL, Programs())):
            if path.is_relative_to(real):
                name = path.relative_to(top)
                is_used = any(HOOK.encode() in (read_if_there(each / name) or b"") for each in tops)
                pattern = re.sub(r"[\\*?\[\n]", "?", name.as_posix())  # `?` is any character; names of copies go on
                line = f"\n/{pattern}*\n".encode(errors="surrogateescape")
                is_hidden |= exclude_files(real, line, is_wanted=is_used)
    return is_hidden


def backup_of(path: Path) -> Path:
    """The path for the copy of a file from before our part was added."""
    return path.with_name(path.name + ".before-scrimshaw")


def find_programs() -> Programs:
    """The programs next to this interpreter, never a shim that would search for one; raises ConfigError."""
    for folder in (sysconfig.get_path("scripts"), str(Path(sys.argv[0]).absolute().parent)):
        server, hook = (shutil.which(name, path=folder) for name in (SERVER, HOOK))
        if server and hook and Path(folder).name != "shims":
            return Programs(server=str(Path(server).resolve()), hook=str(Path(hook).resolve()))
    message = f"{SERVER} and {HOOK} are not installed next to {sys.executable}."
    raise ConfigError(message, "Install scrimshaw with uv, pipx or pip.")


def choose_clients(name: str, scope: Scope | None, remove: bool) -> tuple[Client, ...]:
    """The client of a name, or all on this machine, with `remove` all; raises NotFound, InvalidRequest for a scope."""
    clients = all_clients()
    if client := clients.get(name):
        if scope and scope not in client.scopes:
            others = " or ".join(f"--{each}" for each in client.scopes)
            raise InvalidRequest(f"{client.title} has no {scope} scope.", f"Use {others}.", parameter=scope)
        return (client,)
    found = [client for client in clients.values() if remove or _is_installed(client, Path.home())]
    if not found:
        raise NotFound("No agent client was found.", f"Name one: {', '.join(clients)}.")
    return tuple(each for each in found if scope is None or scope in each.scopes)


def check_connections(project: Path, programs: Programs) -> Iterator[Connection]:
    """One for each scope in which a client is connected, one for each client that is only installed."""
    for client in all_clients().values():
        found = [*filter(None, (_check_scope(client, scope, project, programs) for scope in client.scopes))]
        works = next((each.scope for each in found if not each.is_broken), None)
        for each in found:
            if works and each.is_broken and each.scope is Scope.SHARED:  # others may have the programs on their PATH
                yield replace(each, is_broken=False)
            elif works and each.scope is not works and not each.fault and Scope.SHARED in (works, each.scope):
                # Both in a user's own files name the same command, which a client runs once.
                fault = f"connected in the {works} scope too, so a session starts with two summaries"
                yield replace(each, fault=fault, fix=f"Run `scrimshaw setup {client.name} --{each.scope} --remove`.")
            else:
                yield each
        if not found and _is_installed(client, Path.home()):
            yield Connection(client=client.name, fault="not connected", fix=f"Run `scrimshaw setup {client.name}`.")


def _check_scope(client: Client, scope: Scope, project: Path, programs: Programs) -> Connection | None:
    root = scope.root(project)
    files = client.setup_files(root, scope, Programs() if scope is Scope.SHARED else programs)
    fault, fix, is_broken = "", f"Run `scrimshaw setup {client.name} --{scope}`.", True
    try:
        texts = [(editor_of(file), read_file(file.path)) for file in files]
        if not any(text is not None and editor.remove(text) != text for editor, text in texts):
            return None
        if lost := [x for editor, text in texts if (x := editor.read_program(text or "")) and shutil.which(x) is None]:
            fault = f"{lost[0]} is missing"
            if lost[0] == SERVER:
                fault, fix = f"{SERVER} is not on the PATH", "Put it there, as `uv tool install` does."
        elif changed := [str(change.path) for change in plan_additions(files, root)]:
            fault, is_broken = f"not up to date: {', '.join(changed)}", False
        else:
            fault, fix, is_broken = client.check_trust(root), "", False
    except (ConfigError, Conflict, StorageFailure) as error:
        fault, fix = error.message, error.hint
    return Connection(client=client.name, scope=scope, fault=fault, fix=fix, is_broken=is_broken)


def _is_installed(client: Client, home: Path) -> bool:
    """Whether its command or its folder exists."""
    return shutil.which(client.program) is not None or (home / client.folder).is_dir()


# Editing the text of one file: our part is added and removed; what others wrote stays


class Editor:
    """Edits a client's file that is ours alone. Its functions are pure, and raise ConfigError for unreadable texts."""

    def __init__(self, file: OwnFile) -> None:
        self.file = file

    def add(self, text: str) -> str:
        """The text with our part, unchanged if it has it; raises Conflict for a foreign entry of our name."""
        if not text or self.file.mark in text:
            return self.file.text
        if self.file.served_by and self.file.served_by in text:
            return text
        hint = f"Let it run `{self.file.served_by}` with its own input, or move it away."
        raise Conflict(f"{self.file.path} was not written by Scrimshaw.", hint)

    def remove(self, text: str) -> str:
        """The text without our part, unchanged if it has none."""
        return "" if self.file.mark in text else text

    def is_bare(self, text: str) -> bool:
        """Whether the text has only what setup put there."""
        return not text

    def read_program(self, text: str) -> str:
        """The program that our MCP entry in the text starts; empty without an entry."""
        return ""


class JsonEditor(Editor):
    """Edits a JSON file that others write too: an entry, hooks, or both. Comments stay."""

    container = "an object"

    def __init__(self, shared: SharedFile) -> None:
        self.shared, self.path = shared, shared.path

    def add(self, text: str) -> str:
        value = self._parse(text)
        value |= {key: each for key, each in self.shared.base.items() if key not in value}
        if self.shared.place:
            *outer, name = self.shared.place
            table = self._enter(value, outer)
            if (found := table.get(name)) is not None and not _program_of(found):
                raise Conflict(f"{self.path} has an entry `{name}` that runs something else.", "Rename or remove it.")
            table[name] = {**(found or {}), **self.shared.entry}  # other keys in our entry are the user's
        if self.shared.hooks:
            hooks = self._enter(value, ["hooks"])
            if broken := [event for event in self.shared.hooks if not isinstance(hooks.get(event, []), list)]:
                raise ConfigError(f"{self.path}: `hooks.{broken[0]}` is not a list.", CORRECT_IT)
            value["hooks"] = _replace_hooks(hooks, self.shared.hooks)
        return self._rewrite(text, value)

    def remove(self, text: str) -> str:
        value = self._parse(text)
        _remove_entry(value, self.shared.place)
        if self.shared.hooks and isinstance(hooks := value.get("hooks"), dict) and hooks:
            value["hooks"] = _replace_hooks(hooks, {})
            value = {key: each for key, each in value.items() if key != "hooks" or each}
        return self._rewrite(text, value) if text.strip() else text

    def is_bare(self, text: str) -> bool:
        return self._parse(text) == self.shared.base

    def read_program(self, text: str) -> str:
        return _program_of(section(self._parse(text), *self.shared.place)) if self.shared.place else ""

    def _enter(self, value: Json, keys: Iterable[str]) -> Json:
        """The table that keys lead to, created if missing."""
        for key in keys:
            value = value.setdefault(key, {})
            if not isinstance(value, dict):
                raise ConfigError(f"{self.path}: `{key}` is not {self.container}.", CORRECT_IT)
        return value

    def _parse(self, text: str) -> Json:
        try:
            value = parse_json(text)
        except ValueError as error:
            line, fault = getattr(error, "lineno", 1), getattr(error, "msg", str(error))
            raise ConfigError(f"{self.path}:{line}: not JSON: {fault}.", CORRECT_IT) from error
        if not isinstance(value, dict):
            raise ConfigError(f"{self.path}:1: the file does not contain an object.", CORRECT_IT)
        return value

    def _rewrite(self, text: str, value: Json) -> str:
        """The text with `value`, parsed again to check it: a comment may hide what follows on its line."""
        result = edit_json(text, value)
        with suppress(ConfigError):
            if self._parse(result) == value:
                return result
        raise ConfigError(f"{self.path} cannot be changed safely.", "Put each `//` comment on a line of its own.")


class TomlEditor(JsonEditor):
    """Edits a TOML file: an MCP entry as the table `[servers.scrimshaw]`; comments and order stay."""

    container = "a table"

    def is_bare(self, text: str) -> bool:
        return not text.strip()

    def _parse(self, text: str) -> Json:
        try:
            return parse_toml(text)
        except ValueError as error:
            raise ConfigError(f"{self.path} is not TOML: {error}.", CORRECT_IT) from error

    def _rewrite(self, text: str, value: Json) -> str:
        """The text with our table set to `value`, parsed again to check it: the library is not fully trusted."""
        if self._parse(text) == value:
            return text
        document, (name, _) = tomlkit.parse(text), self.shared.place
        if SERVER in value.get(name, {}):
            tables: Any = document.setdefault(name, tomlkit.table(is_super_table=True))
            inline = isinstance(tables, tomlkit.items.InlineTable)
            tables.setdefault(SERVER, tomlkit.inline_table() if inline else tomlkit.table()).update(self.shared.entry)
        else:
            ours: Any = document[name]
            del ours[SERVER]
            if name not in value:
                del document[name]
        result = tomlkit.dumps(document)
        if text.count("\r\n") == text.count("\n") > 0:
            result = re.sub("(?<!\r)\n", "\r\n", result)
        with suppress(ValueError):
            if parse_toml(result) == value:
                return result
        raise ConfigError(f"{self.path} cannot be changed safely.", f"Change [{name}.{SERVER}] in it by hand.")


def editor_of(file: SharedFile | OwnFile) -> Editor:
    """The editor of a client's file, by its format."""
    if isinstance(file, OwnFile):
        return Editor(file)
    return TomlEditor(file) if file.path.suffix == ".toml" else JsonEditor(file)


def _remove_entry(table: Json, place: Sequence[str]) -> None:
    """Remove our entry from a table, and tables on the way that this empties."""
    name, *rest = place or ("",)
    found = table.get(name)
    if not rest and _program_of(found):
        del table[name]
    elif rest and found and isinstance(found, dict):
        _remove_entry(found, rest)
        if not found:
            del table[name]


def _replace_hooks(found: Json, wanted: Mapping[str, Json]) -> Json:
    """The lists of hooks by event with our element for each wanted event and nowhere else.

    An element is a handler, or a group with handlers under `hooks`; foreign ones stay, emptied lists are removed.
    """
    result: Json = {}
    for event in dict.fromkeys((*found, *wanted)):
        elements, ours = found.get(event, []), wanted.get(event)
        if isinstance(elements, list):
            parts = [(each, _without_our_hooks(each)) for each in elements]
            if [each for each, rest in parts if rest != [each]] != [ours]:
                elements = [each for _, rest in parts for each in rest] + ([ours] if ours else [])
        if elements or not found.get(event):
            result[event] = elements
    return result


def _without_our_hooks(element: Any) -> list[Any]:
    """The element without our handlers; nothing if it has no others."""
    found = element.get("hooks") if isinstance(element, dict) else None
    handlers = found if isinstance(found, list) else []
    rest = [handler for handler in handlers if not _is_our_hook(handler)]
    if len(rest) == len(handlers) and not _is_our_hook(element):
        return [element]
    return [{**element, "hooks": rest}] if rest else []


def _is_our_hook(handler: object) -> bool:
    """Whether a handler runs our hook, under any of the clients' keys for the command."""
    for command in handler.values() if isinstance(handler, Mapping) else ():
        with suppress(ValueError):  # an unclosed quote: not written by us
            words = shlex.split(command) if isinstance(command, str) else []
            if words and _runs_program(HOOK, words[0]):
                return True
    return False


def _program_of(entry: object) -> str:
    """The program of an MCP entry that starts our server, by path or through a runner such as uvx; otherwise empty."""
    parts = (entry.get("command"), entry.get("args")) if isinstance(entry, Mapping) else ()
    lists = (part if isinstance(part, list) else [part] for part in parts)  # a text and arguments, or one list
    words = [word for each in lists for word in each if isinstance(word, str)]
    if words[:1] and words[0].endswith(" statusline"):
        words = shlex.split(words[0])
    return words[0] if words and (_runs_program(SERVER, words[0]) or SERVER in words[1:]) else ""


def _runs_program(program: str, word: str) -> bool:
    """Whether a path in either system's spelling ends in the program."""
    return PureWindowsPath(word).name.removesuffix(".exe") == program
