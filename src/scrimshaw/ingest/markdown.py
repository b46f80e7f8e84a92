"""Markdown as tokens: blocks in one pass, the text inside a block only when somebody asks for it."""

from __future__ import annotations

from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.utils import EnvType

# Without the table rule, a table that is followed by `---` would be one long heading.
_MARKDOWN = MarkdownIt("commonmark").enable("table").disable("inline")


class Page(NamedTuple):
    """The block tokens of a body and the link definitions found in it."""

    blocks: list[Token]
    env: EnvType


def read(body: str) -> Page:
    """The blocks of a body. Line numbers in the tokens count LF, CRLF and CR as line ends."""
    env: EnvType = {}
    return Page(_MARKDOWN.parse(body, env), env)


def inline(page: Page, content: str) -> list[Token]:
    """The tokens of one block's text, with the page's link definitions."""
    tokens: list[Token] = []
    _MARKDOWN.inline.parse(content, _MARKDOWN, page.env, tokens)
    return tokens


def readable_url(url: str) -> str:
    """A link's address with its percent signs resolved."""
    return _MARKDOWN.normalizeLinkText(url) if "%" in url else url
