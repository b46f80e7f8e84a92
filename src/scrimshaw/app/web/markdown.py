"""A memory's Markdown as inert HTML: without markup of its own or pictures, and with links only where safe."""

import posixpath
import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from scrimshaw.app.web.markup import Html, escape, link, make_url, tag
from scrimshaw.app.web.page import link_event
from scrimshaw.ingest.invisible_characters import replace_invisible
from scrimshaw.ingest.markdown import MEM_LINK, WIKI_LINK, parse_headings, parse_reference, resolve_link, resolve_name

LONGEST = 200_000  # characters rendered; a longer text would keep a browser busy for seconds
_Env = MutableMapping[str, Any]
_EVENTS, _EVENT = re.compile(r"\(e\d{1,9}(?:, e\d{1,9})*\)\Z"), re.compile(r"e(\d+)")
_REFERENCE = re.compile(f"{WIKI_LINK.pattern}|{MEM_LINK.pattern}")


def render_markdown(body: str, memory_id: str, known: Mapping[str, str], session: str = "") -> Html:
    """The body of a memory; `known` has the ids of its references by their words. Events of a `session` are links."""
    shown = replace_invisible(body[:LONGEST])
    env = {"known": known, "folder": posixpath.dirname(memory_id), "headings": list(parse_headings(shown))}
    env["session"] = session
    return Html(_MARKDOWN.render(shown, env))


class _Renderer(RendererHTML):
    """The differences from plain CommonMark; each method has the name of the token that it renders."""

    def text(self, tokens: Sequence[Token], idx: int, options: object, env: _Env) -> str:
        """Text, in which references to memories are links."""
        parts, end, content = [], 0, tokens[idx].content
        for found in _REFERENCE.finditer(content):
            alias = found[0].partition("|")[2].rstrip("]").strip()  # of `[[name|alias]]`
            parts += [escape(content[end : found.start()]), _refer(found[1] or found[2], env, alias)]
            end = found.end()
        rest = escape(content[end:])
        if (session := env["session"]) and (named := _EVENTS.search(rest)):
            events = _EVENT.sub(lambda found: link_event(session, int(found[1]), found[0]), named[0])
            rest = rest[: named.start()] + events
        return "".join([*parts, rest])

    def code_inline(self, tokens: Sequence[Token], idx: int, options: object, env: _Env) -> str:
        """Code, which is a link if it is only the name of a memory."""
        content = tokens[idx].content
        found = MEM_LINK.fullmatch(content.strip())
        return tag("code", _refer(found[1], env) if found else content)

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        """A heading one level lower, since the page has a title, with the anchor that links name."""
        beginning, end = tokens[idx], tokens[idx + 2]  # with the text between them
        beginning.tag = end.tag = f"h{min(6, int(beginning.tag[1:]) + 1)}"
        if env["headings"] and not beginning.level:
            beginning.attrSet("id", f"s-{env['headings'].pop(0).anchor}")
        return self.renderToken(tokens, idx, options, env)

    def link_open(self, tokens: Sequence[Token], idx: int, options: object, env: _Env) -> str:
        """A link to a memory, to a place on the page or to the web, with its target shown; others lead nowhere."""
        href = str(tokens[idx].attrGet("href") or "")
        memory_id = env["known"].get(resolve_link(href, env["folder"]))
        anchor = href.partition("#")[2]
        if memory_id:
            return f'<a href="{escape(make_url("/memory", memory_id) + (f"#s-{anchor}" if anchor else ""))}">'
        if href.startswith("#"):
            return f'<a href="#s-{escape(anchor)}">'
        if href.startswith(("http://", "https://")):
            return f'<a class="out" rel="noopener noreferrer nofollow" title="{escape(href)}" href="{escape(href)}">'
        return f'<a class="dead" title="{escape(href)}">'

    def image(self, tokens: Sequence[Token], idx: int, options: object, env: _Env) -> str:
        """A picture as words: loading it would reveal the reader to its host."""
        source = str(tokens[idx].attrGet("src") or "")
        return tag("span", "picture: ", tokens[idx].content or source, class_="dead", title=source)


def _refer(name: str, env: _Env, alias: str = "") -> Html:
    """A link to the memory that a text names, or the name if there is none."""
    memory_id = env["known"].get(resolve_name(parse_reference(name), env["folder"]))
    if memory_id is None:
        return tag("span", alias or name, class_="dead", title="There is no such memory.")
    return link(alias or name, make_url("/memory", memory_id))


_MARKDOWN = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable(["table", "strikethrough"])
