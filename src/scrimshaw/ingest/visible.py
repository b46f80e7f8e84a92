"""Characters that nobody sees and that act all the same: what a terminal obeys, what turns a line round, what hides.

A text of a memory or an event may come from anywhere. Letters of every script stay, and so do the marks that join them.
"""

from __future__ import annotations

import re

SHOWN = "\N{REPLACEMENT CHARACTER}"

# A terminal obeys the controls, C1 among them; the others turn the direction of what is read.
_OBEYED = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069"
# No width at all: what they hide in a word is read with it once they are gone.
_HIDING = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
# Joiners are at home between letters that are not Latin, and in emoji; a variation selector behind what it varies.
_JOINERS = r"(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}"
_FLAG_OF_REGION = "\U0001f3f4[\U000e0061-\U000e007a]{2,6}\U000e007f"

_UNSEEN = re.compile(f"({_FLAG_OF_REGION})|([{_OBEYED}]|\r(?!\n))|[{_HIDING}]|{_JOINERS}")
_IN_JSON = re.compile(f"[{_OBEYED}{_HIDING}\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def visible(text: str) -> str:
    """The text with a replacement character for each control and each turn of direction, and without what hides."""
    if text.isprintable() and text.isascii():
        return text
    return _UNSEEN.sub(_seen, text)


def escaped(encoded: str) -> str:
    """JSON that says the same, in which every such character of a string is spelled out."""
    return encoded if encoded.isascii() and "\x7f" not in encoded else _IN_JSON.sub(_spelled, encoded)


def _seen(found: re.Match[str]) -> str:
    if found[1]:
        return found[1]
    return SHOWN if found[2] else ""


def _spelled(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
