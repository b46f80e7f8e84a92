"""Several vaults as one memory: a search covers all of them; any other call goes to the vault that it names."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from scrimshaw.app.mcp.backend import Memories
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.schema import find_own_name
from scrimshaw.errors import InvalidRequest, NotFound
from scrimshaw.router.ask import SEPARATOR

_ID_PARAMETERS = ("id", "source_id", "target_id", "supersedes")


class AcrossDispatcher(Dispatcher):
    """Runs a tool in the vault that its `vault` or id names; searches without one cover all vaults."""

    def __init__(self, over_all: Dispatcher, single: Mapping[str, Dispatcher]) -> None:
        super().__init__([*over_all.tools.values()], over_all.engine)
        self._over_all, self._single = over_all, single

    def run(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """A tool's answer, with its vault if it comes from one; may raise anything."""
        if name not in self.tools:
            return self._over_all.run(name, arguments)  # raises NotFound
        vault, rest = choose_vault(self._single, arguments)
        if vault:
            return {"vault": vault, **msgspec.to_builtins(self._single[vault].run(name, rest))}
        if name in ("memory_search", "memory_context"):
            return self._over_all.run(name, rest)
        hint = f"Give `vault`, one of {', '.join(self._single)}, or write an id as VAULT{SEPARATOR}ID."
        raise InvalidRequest(f"`{name}` works in one vault.", hint, parameter="vault")


class AcrossMemories(NamedTuple):
    """The memories of several vaults as MCP resources, one vault after the other."""

    vaults: Mapping[str, Memories]

    def page(self, cursor: str) -> tuple[list[tuple[str, str]], str]:
        names = [*self.vaults]
        vault, _, inner = (cursor or names[0]).partition(SEPARATOR)
        if vault not in self.vaults:
            raise InvalidRequest("The cursor is unknown.", "List from the start.", parameter="cursor")
        entries, following = self.vaults[vault].page(inner)
        after = names[names.index(vault) + 1 :]
        following = f"{vault}{SEPARATOR}{following}" if following else after[0] if after else ""
        return [(f"{vault}{SEPARATOR}{memory_id}", title) for memory_id, title in entries], following

    def read(self, memory_id: str) -> str:
        """A memory's text, by VAULT:ID; raises NotFound."""
        vault, _, name = memory_id.partition(SEPARATOR)
        if vault not in self.vaults or not name:
            raise NotFound(f"There is no memory {memory_id!r}.", f"Write VAULT{SEPARATOR}ID.", id=memory_id)
        return self.vaults[vault].read(name)


def choose_vault(names: Collection[str], arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The vault that a call names, empty if it names none, and its arguments without the vault.

    A tool may have a parameter `vault` of its own, which is written behind the name: `vault = "shop:serena"`.
    Raises NotFound for a vault that is not among the names, InvalidRequest for two.
    """
    rest = dict(arguments)
    stated, _, own = str(rest.pop("vault", None) or "").partition(SEPARATOR)
    rest |= {"vault": own} if own else {}
    found = {stated} - {""}
    for key, value in arguments.items():
        ids = value if isinstance(value, list) else [value]
        stated_in = {str(each).partition(SEPARATOR)[0] for each in ids if SEPARATOR in str(each)}.intersection(names)
        if stated_in and find_own_name(key, _ID_PARAMETERS) in _ID_PARAMETERS:
            found |= stated_in
            plain = [str(each).removeprefix(f"{min(stated_in)}{SEPARATOR}") for each in ids]
            rest[key] = plain if isinstance(value, list) else plain[0]
    if unknown := found.difference(names):
        hint = f"There are {', '.join(names)}."
        raise NotFound(f"There is no vault {min(unknown)!r} for this token.", hint, parameter="vault")
    if len(found) > 1:
        raise InvalidRequest("A call concerns one vault.", "Name ids of the same vault.", parameter="vault")
    return next(iter(found), ""), rest


def drop_vault(vault: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call without the only vault, which a call may name as if there were several."""
    is_other = str(arguments.get("vault") or vault).partition(SEPARATOR)[0] != vault  # a value of the tool's own
    _, rest = choose_vault((vault,), {key: value for key, value in arguments.items() if key != "vault" or not is_other})
    return {**rest, "vault": arguments["vault"]} if is_other else rest


def add_vault(schema: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The schema of a tool's parameters, with the vault added; values of a `vault` of its own come behind the name."""
    about = f"Only this vault; else a search goes over all. An id may name it too: VAULT{SEPARATOR}ID."
    own = schema["properties"].get("vault", {"enum": ()})
    places = [f"{name}{SEPARATOR}{each}" for name in names for each in own["enum"]]
    about = " ".join(filter(None, (about, own.get("description"))))
    vault = {"type": "string", "enum": [*names, *places], "description": about}
    return {**schema, "properties": {**schema["properties"], "vault": vault}}
