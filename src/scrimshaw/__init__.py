"""Memory for coding agents: Markdown files in the user's repository, and an index that finds them.

import scrimshaw

with scrimshaw.open() as engine:
    result = scrimshaw.search(engine, scrimshaw.SearchRequest(query="why apsw"))
"""

from __future__ import annotations

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

# Where the public nouns live. They are looked up when first used: a hook imports this package and needs none of them.
_PUBLIC = {
    "Engine": "scrimshaw.engine.core:Engine",
    "Filters": "scrimshaw.models:Filters",
    "Hit": "scrimshaw.search.results:Hit",
    "Memory": "scrimshaw.models:Memory",
    "NewText": "scrimshaw.engine.write:NewText",
    "ScrimshawError": "scrimshaw.errors:ScrimshawError",
    "SearchRequest": "scrimshaw.search.results:SearchRequest",
    "SearchResult": "scrimshaw.search.results:SearchResult",
    "Settings": "scrimshaw.config:Settings",
    "delete": "scrimshaw.engine.write:delete",
    "get": "scrimshaw.engine.read:get",
    "open": "scrimshaw.engine.core:open_project",
    "save": "scrimshaw.engine.write:save",
    "scan": "scrimshaw.engine.index:scan",
    "search": "scrimshaw.engine.read:search",
    "update": "scrimshaw.engine.write:update",
}

__all__ = [
    "Engine", "Filters", "Hit", "Memory", "NewText", "ScrimshawError", "SearchRequest", "SearchResult", "Settings",
    "__version__", "delete", "get", "open", "save", "scan", "search", "update",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'scrimshaw' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
