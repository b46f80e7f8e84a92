"""Memory for coding agents: Markdown files in the user's repository, and an index that finds them.

import scrimshaw

with scrimshaw.open() as memory:
    for hit in memory.search("why apsw"):
        print(hit.memory.title, hit.text)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrimshaw.app.library import OpenMemory
    from scrimshaw.app.library import open_memory as open
    from scrimshaw.engine.read import MemoryText
    from scrimshaw.engine.write import Saved
    from scrimshaw.errors import ScrimshawError
    from scrimshaw.models import Memory, MemoryType, Tier
    from scrimshaw.search.results import Hit

__version__ = "0.1.0"

# The modules of the public names, imported on first use: a hook imports this package and needs none of them.
_PUBLIC = {
    "app.library": ("OpenMemory", "open"),
    "engine.read": ("MemoryText",),
    "engine.write": ("Saved",),
    "errors": ("ScrimshawError",),
    "models": ("Memory", "MemoryType", "Tier"),
    "search.results": ("Hit",),
}

__all__ = [
    "Hit",
    "Memory",
    "MemoryText",
    "MemoryType",
    "OpenMemory",
    "Saved",
    "ScrimshawError",
    "Tier",
    "__version__",
    "open",
]


def __getattr__(name: str) -> Any:
    for module, names in _PUBLIC.items():
        if name in names:
            return getattr(importlib.import_module(f"scrimshaw.{module}"), "open_memory" if name == "open" else name)
    raise AttributeError(f"module 'scrimshaw' has no attribute {name!r}")
