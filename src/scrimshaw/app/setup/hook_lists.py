"""Our hooks among those of others, in the lists that clients keep by event.

An element of such a list is a handler, or a group that holds handlers under `hooks`; foreign ones are never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scrimshaw.app.setup.json_text import Json
from scrimshaw.app.setup.programs import is_our_hook


def with_hooks(held: Json, wanted: Mapping[str, Json]) -> Json:
    """The lists with our element for each wanted event and nowhere else; raises TypeError for what is no list."""
    result: Json = {}
    for event in dict.fromkeys((*held, *wanted)):
        elements = held.get(event, [])
        if isinstance(elements, list):
            settled = _settled(elements, wanted.get(event))
            if settled or not elements:
                result[event] = settled
        elif event in wanted:
            raise TypeError(f"`hooks.{event}` is no list")
        else:
            result[event] = elements
    return result


def without_hooks(held: Json) -> Json:
    """The lists without our elements, and without the lists that this empties."""
    return with_hooks(held, {})


def _settled(elements: list[Any], wanted: Json | None) -> list[Any]:
    if wanted is not None and [each for each in elements if _holds_ours(each)] == [wanted]:
        return elements
    kept = [rest for each in elements for rest in _without_ours(each)]
    return kept if wanted is None else [*kept, wanted]


def _holds_ours(element: Any) -> bool:
    return is_our_hook(element) or any(map(is_our_hook, _handlers(element)))


def _without_ours(element: Any) -> list[Any]:
    """The element alone, or without our handlers; nothing when it has no others."""
    if not _holds_ours(element):
        return [element]
    kept = [handler for handler in _handlers(element) if not is_our_hook(handler)]
    return [{**element, "hooks": kept}] if kept else []


def _handlers(element: Any) -> list[Any]:
    found = element.get("hooks") if isinstance(element, dict) else None
    return found if isinstance(found, list) else []
