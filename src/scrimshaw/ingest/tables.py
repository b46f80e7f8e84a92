"""The loader of tables: TOML files next to the modules that use them.

Hooks load tables too, and reading one with `tomllib` takes longer than all their other work. Tables are therefore
written in a subset of TOML that one expression parses: headers, and one `key = value` per line; a value is a literal
string, a listing between three quotes, or anything written as in JSON. A test reads every table with `tomllib` as well.
"""

import re
from functools import cache, partial
from typing import Any, TypeVar, cast

import msgspec

_Table = TypeVar("_Table")
_LINE = re.compile(
    r"^(?:\[\[(\w+)\]\]|\[(\w+)\]|([\w-]+) = (?:'''\n?(.*?)'''|'([^'\n]*)'|([^\n]+)))$", re.MULTILINE | re.DOTALL
)


def load_table(module_file: str, name: str, kind: type[_Table]) -> _Table:
    """The table `name` next to a module, whose `__file__` is `module_file`, as a `kind`."""
    folder = module_file[: max(module_file.rfind("/"), module_file.rfind("\\")) + 1]
    data: bytes = cast(Any, __spec__).loader.get_data(f"{folder}{name}.toml")
    return msgspec.convert(parse_table(data.decode()), kind)


_load_listings = cache(partial(load_table, kind=dict[str, str]))


@cache
def load_lines(module_file: str, name: str, listing: str) -> tuple[str, ...]:
    """The lines of a listing in the table `name` next to a module."""
    return tuple(_load_listings(module_file, name)[listing].splitlines())


@cache
def load_words(module_file: str, name: str, *listings: str) -> frozenset[str]:
    """The words of listings in the table `name` next to a module."""
    return frozenset(word for listing in listings for word in _load_listings(module_file, name)[listing].split())


@cache
def load_pattern(module_file: str, name: str, listing: str) -> re.Pattern[str]:
    """The pattern written as a listing in the table `name` next to a module."""
    return re.compile("".join(load_lines(module_file, name, listing)))


def parse_table(text: str) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    part = whole
    for match in _LINE.finditer(text.replace("\r\n", "\n")):
        record, section, key, listing, literal, other = match.groups()
        if record:
            part = {}
            whole.setdefault(record, []).append(part)
        elif section:
            part = whole[section] = {}
        else:
            written = literal if listing is None else listing
            part[key] = msgspec.json.decode(other) if written is None else written
    return whole
