"""The agent clients, one file each: every module here except `client` has one, as `CLIENT`."""

import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from scrimshaw.app.clients.client import Client

CLIENT_NAMES: tuple[str, ...] = tuple(
    sorted({name[:-3] for name in os.listdir(__path__[0]) if name.endswith(".py")} - {"__init__", "client"})  # noqa: PTH208
)


def load_client(name: str) -> Client | None:
    """The client of a name, importing no other; None for an unknown one."""
    if name not in CLIENT_NAMES:
        return None
    client: Client = import_module(f"{__name__}.{name}").CLIENT
    return client


@cache
def all_clients() -> Mapping[str, Client]:
    """Every client by its name."""
    return {name: client for name in CLIENT_NAMES if (client := load_client(name))}
