"""The use cases: everything that a user or an agent can do with a memory, as functions over an open `Engine`."""

from scrimshaw.engine.core import Engine, open_engine

__all__ = ["Engine", "open_engine"]
