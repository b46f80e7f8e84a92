"""Deceptive characters: terminal controls, changes of direction, invisible ones, and look-alikes of letters.

Texts of memories and events may come from anywhere. Letters of every script stay, and so do marks that join them.
"""

import re
import unicodedata
from functools import cache

from scrimshaw.ingest.redact import View

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# A terminal obeys the controls, including C1; the others change the direction of reading.
_OBEYED = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069"
_HIDING = (  # characters without width: once they are removed, the word that they split is readable
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
# Joiners are legitimate between non-Latin letters and in emoji; a variation selector after what it varies.
_JOINERS = r"(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}"
_FLAG_OF_REGION = "\U0001f3f4[\U000e0061-\U000e007a]{2,6}\U000e007f"

_UNSEEN = re.compile(f"({_FLAG_OF_REGION})|([{_OBEYED}]|\r(?!\n))|[{_HIDING}]|{_JOINERS}")
UNSEEN_IN_JSON = re.compile(f"[{_OBEYED}{_HIDING}\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_INVISIBLE = re.compile(
    "[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f\U000e0100-\U000e01ef]+"
)

_LOOK_ALIKES = "аеорсухіјѕһԁԛԝвмнткАВЕНІЈКМОРСТУХЅαεικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧɑıɡ‘’İ"
_LATIN = "aeopcyxijshdqwbmhtkabehijkmopctyxsaeiknoptuxabezhikmnoptyxaig''i"
# Letters in circles, in mathematical styles, of full width. Ranges, since a class of single astral characters is slow.
_STYLED = (range(0x24B6, 0x24EA), range(0x1D400, 0x1D800), range(0xFF01, 0xFF5F))
_FOREIGN = re.compile(f"[{_LOOK_ALIKES}\u24b6-\u24e9\uff01-\uff5e\U0001d400-\U0001d7ff]")


def replace_invisible(text: str) -> str:
    """The text with a replacement character for each control and change of direction, and without invisible ones."""
    if "\r" not in text and not UNSEEN_IN_JSON.search(text):  # a tenth of the cost of trying to replace
        return text
    return _UNSEEN.sub(lambda found: found[1] or (REPLACEMENT if found[2] else ""), text)


def escape_invisible(encoded: str) -> str:
    """Equivalent JSON in which every such character of a string is escaped."""
    import json  # noqa: PLC0415 - hooks escape nothing

    return UNSEEN_IN_JSON.sub(lambda found: json.dumps(found[0])[1:-1], encoded)


def fold_text(text: str) -> tuple[str, View]:
    """The text in lower case, with Latin letters for look-alikes and without invisible characters; with its offsets."""
    if text.isascii():
        return text.lower(), View(text, ())
    view = View(text, ((*found.span(), "") for found in _INVISIBLE.finditer(text)))
    latin = view.text.translate(_latin_letters()) if _FOREIGN.search(view.text) else view.text
    return latin.lower(), view


@cache
def _latin_letters() -> dict[int, int]:
    """A map from look-alikes and styled letters to plain ones; each is one character, so that offsets stay."""
    styled = {code: ord(unicodedata.normalize("NFKC", chr(code))) for codes in _STYLED for code in codes}
    return str.maketrans(_LOOK_ALIKES, _LATIN) | styled
