"""The use cases: everything that a user or an agent can do with a memory, over any interface.

`Engine` is one open memory; the other modules have the use cases as functions over it.
"""

from scrimshaw.engine.core import Engine, open_engine

__all__ = ["Engine", "open_engine"]
