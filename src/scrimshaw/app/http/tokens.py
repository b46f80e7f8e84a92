"""Who may enter over HTTP: bearer tokens, of which only the hashes are stored, and their permissions by vault."""

import hashlib
import re
import secrets
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from scrimshaw.config import Settings
from scrimshaw.errors import AlreadyExists, ConfigError, InvalidRequest, NotFound, find_nearest
from scrimshaw.storage.durable import read_if_there, storage_errors, write_file
from scrimshaw.storage.transaction import lock

PREFIX = "scrimshaw_"  # by which people and secret scanners recognize a token
_SECRET_BYTES = 32  # as long as the hash: impossible to guess, so a slow hash would protect nothing
_NAME = re.compile(r"\w[\w.@+ -]{0,59}")  # used in the ledger, in memories and in commits
_RESERVED = {"session", "peer", "mem", "memory", "global"}
_LOCK_TIMEOUT_S = 10.0
_DAY_S = 86_400.0


class TokenScope(StrEnum):
    """What a token may do in a vault; each scope includes those before it."""

    READ, WRITE, ADMIN = "read", "write", "admin"

    def includes(self, other: "TokenScope") -> bool:
        """Whether this scope permits everything that `other` permits."""
        order = [*TokenScope]
        return order.index(self) >= order.index(other)


class Token(Struct, frozen=True, kw_only=True):
    """A token of a person or a program: the SHA-256 of its secret, and its scope by the folder of each project."""

    name: str
    digest: str
    scopes: Mapping[str, TokenScope]
    created: float  #: Seconds since 1970, as `expires`.
    expires: float


class TokenFile:
    """The tokens of a machine's user, in a file that only this user can read."""

    def __init__(self, home: Path) -> None:
        self._path, self._lock = home / "tokens.json", home / "tokens.lock"

    def find(self, secret: str) -> Token | None:
        """The token with this secret, unless it has expired. The file is read each time: revoking works at once."""
        digest = hashlib.sha256(secret.encode(errors="replace")).hexdigest()
        return next((each for each in self.tokens() if each.digest == digest and each.expires > time.time()), None)

    def tokens(self) -> list[Token]:
        """All tokens, expired ones too, by name; raises ConfigError for a file that cannot be read."""
        with storage_errors("read", self._path):
            data = read_if_there(self._path)
        try:
            return msgspec.json.decode(data, type=list[Token]) if data else []
        except msgspec.DecodeError as error:
            message = f"{self._path} cannot be used: {error}."
            raise ConfigError(message, "Remove it and create the tokens again.") from error

    def create(self, name: str, scopes: Mapping[str, TokenScope], days: float) -> tuple[Token, str]:
        """A new token and its secret, which is stored nowhere; raises AlreadyExists if the name is taken."""
        if not _NAME.fullmatch(name):
            hint = "Use up to 60 letters, digits, spaces and . _ @ + -"
            raise InvalidRequest(f"{name!r} cannot be a token's name.", hint, parameter="name")
        secret, now = PREFIX + secrets.token_urlsafe(_SECRET_BYTES), time.time()
        digest = hashlib.sha256(secret.encode()).hexdigest()
        token = Token(name=name, digest=digest, scopes=scopes, created=now, expires=now + days * _DAY_S)
        with lock(self._lock, _LOCK_TIMEOUT_S, makes_folder=True):
            known = self.tokens()
            if any(each.name == name for each in known):
                raise AlreadyExists(f"There is a token {name!r}.", f"Choose another name, or revoke {name!r} first.")
            self._write([*known, token])
        return token, secret

    def revoke(self, name: str) -> None:
        """Delete a token; raises NotFound."""
        with lock(self._lock, _LOCK_TIMEOUT_S, makes_folder=True):
            known = {each.name: each for each in self.tokens()}
            if known.pop(name, None) is None:
                hint = find_nearest(name, known) or "`scrimshaw token list` shows all."
                raise NotFound(f"There is no token {name!r}.", hint, name=name)
            self._write([*known.values()])

    def _write(self, tokens: list[Token]) -> None:
        write_file(self._path, msgspec.json.encode(sorted(tokens, key=lambda each: each.name)), private=True)


def find_vaults(settings: Settings) -> dict[str, Path]:
    """The folders of the projects that this machine serves, by name: those of [[vaults]], or the current project."""
    if not settings.vaults:
        name = re.sub(r"[^a-z0-9_-]+", "-", settings.project.name.lower()).strip("-_")[:40]
        return {name or "vault": settings.project.resolve()}
    if reserved := {each.name for each in settings.vaults} & _RESERVED:
        raise ConfigError(f"No vault can be called {min(reserved)!r}: some ids begin with it.", "Give it another name.")
    found = {each.name: Path(each.path).expanduser().resolve() for each in settings.vaults}
    for each in settings.vaults:
        path, is_pushed = found[each.name], each.push or each.write == "branch"
        faults = {
            "two have the same name": len(found) < len(settings.vaults),
            f"the folder {path} is not there": not (each.remote or path.is_dir()),
            "what is pushed needs `remote` and `commit = true`": is_pushed and not (each.remote and each.commit),
        }
        if true := [fault for fault, is_true in faults.items() if is_true]:
            message = f"The vault {each.name!r} of [[vaults]] cannot be used: {true[0]}."
            raise ConfigError(message, "Correct the configuration.")
    return found
