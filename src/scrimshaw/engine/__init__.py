"""The use cases: what a user or an agent can ask of a memory, whichever door they come through.

`Engine` is one open memory; the modules beside it hold the use cases as functions over it.
"""

from scrimshaw.engine.core import Engine, open_engine

__all__ = ["Engine", "open_engine"]
