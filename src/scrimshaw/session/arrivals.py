"""Memories of sessions that ran elsewhere: another person's, or those of another machine. git brought their files."""

from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from scrimshaw.config import MEMORIES
from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.models import SESSIONS, Trust
from scrimshaw.search.lineage import lowest_trust
from scrimshaw.session.keywords import find_stems
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.sessions import Sessions

MOST_READ, MOST_ARRIVED = 10, 5  # files that are read, a millisecond each, and memories of which a start hears


class Arrival(Struct, frozen=True):
    """The memory of a session that is not in the journal here."""

    id: str
    title: str
    body: str
    trust: Trust
    last_event: float  #: when it was written, in seconds since 1970

    def find_subjects(self) -> list[frozenset[str]]:
        """The words of each line that name its subjects."""
        return [*map(find_stems, self.body.splitlines())]


def find_arrivals(sessions: Sessions, folder: Path, since: float) -> list[Arrival]:
    """Those in the vault of a `.scrimshaw` folder that were written after a time (seconds since 1970), newest first.

    They are read as files: a start does not wait until a server has indexed what was pulled.
    """
    paths = (folder / MEMORIES / SESSIONS).glob(f"*{SUFFIX}")
    names = {f"{SESSIONS}/{each.stem}": each for each in paths if not is_suspicious(each.stem.replace("-", " "))}
    own = {each.draft.memory_id for each in sessions.records() if each.draft}
    strange = sorted(names.keys() - own, reverse=True)  # a name begins with its day
    if not strange:
        return []
    from scrimshaw.ingest import front_matter as front  # noqa: PLC0415 - few starts need YAML
    from scrimshaw.ingest.memory_file import is_private, parse_memory_file  # noqa: PLC0415 - likewise

    found = list[Arrival]()
    for name in strange[:MOST_READ]:
        with suppress(OSError, UnreadableFile, ValueError):
            file = parse_memory_file(names[name].read_bytes())
            origin, title = front.parse_provenance(file.values), front.parse_line(file.values.get("title"))
            at = datetime.fromisoformat(front.parse_time(file.values.get("updated"))).timestamp()
            if at > since and origin.session and not is_private(file) and not sessions.get(origin.session):
                trust = lowest_trust((origin.trust, Trust.AGENT))  # nobody here vouches for it
                found.append(Arrival(name, title, file.body, trust, at))
    return sorted(found, key=attrgetter("last_event"), reverse=True)[:MOST_ARRIVED]
