"""Memory for coding agents: Markdown files in the user's repository, and an index that finds them.

import scrimshaw

with scrimshaw.open() as engine:
    result = scrimshaw.search(engine, scrimshaw.SearchRequest(query="why apsw"))
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrimshaw.config import Settings
    from scrimshaw.engine.core import Engine
    from scrimshaw.engine.core import open_project as open
    from scrimshaw.engine.index import scan
    from scrimshaw.engine.read import get, search
    from scrimshaw.engine.write import NewText, delete, save, update
    from scrimshaw.errors import ScrimshawError
    from scrimshaw.models import Filters, Memory
    from scrimshaw.search.results import Hit, SearchRequest, SearchResult

__version__ = "0.1.0"

# Where the public names live. They are looked up when first used: a hook imports this package and needs none of them.
_PUBLIC = {
    "config": ("Settings",),
    "engine.core": ("Engine", "open"),
    "engine.index": ("scan",),
    "engine.read": ("get", "search"),
    "engine.write": ("NewText", "delete", "save", "update"),
    "errors": ("ScrimshawError",),
    "models": ("Filters", "Memory"),
    "search.results": ("Hit", "SearchRequest", "SearchResult"),
}

__all__ = [
    "Engine", "Filters", "Hit", "Memory", "NewText", "ScrimshawError", "SearchRequest", "SearchResult", "Settings",
    "__version__", "delete", "get", "open", "save", "scan", "search", "update",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _PUBLIC.items():
        if name in names:
            return getattr(importlib.import_module(f"scrimshaw.{module}"), "open_project" if name == "open" else name)
    raise AttributeError(f"module 'scrimshaw' has no attribute {name!r}")
