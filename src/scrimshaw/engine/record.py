"""The record of sessions: passages of prompts, answers and calls, indexed as long as the journal has the events."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, repeat

from scrimshaw.engine.core import Engine
from scrimshaw.engine.sessions import ITEM_PREFIX
from scrimshaw.errors import NotFound
from scrimshaw.ingest.comparison import count_tokens
from scrimshaw.ingest.redact import redact
from scrimshaw.models import RECORD, Chunk, Document, EventKind, Memory, Provenance, SourceFile, format_time
from scrimshaw.search.candidates import DAY_S
from scrimshaw.search.lineage import lowest_trust
from scrimshaw.session.record import Passage, Record, find_passage, make_passages, name_edited_files
from scrimshaw.session.selection import rate_passages
from scrimshaw.session.state import title_session
from scrimshaw.storage.ports import SessionRecord

_CUT = "\n\f\n"  # separates passages, so that redacting the whole text keeps the borders


def sync_record(engine: Engine) -> None:
    """Update the passages of every session from the journal; old or excess ones leave the index."""
    settings, now = engine.settings.index, engine.clock()
    records = engine.sessions.records()
    totals = accumulate(each.events for each in records)  # the newest sessions come first
    wanted = {
        f"{ITEM_PREFIX}{each.session}": each
        for each, total in zip(records, totals, strict=True)
        if total <= settings.record_events and now - each.at <= settings.record_days * DAY_S
    }
    known = engine.index.manifest(RECORD)
    gone = known.keys() - wanted.keys()
    for path, each in wanted.items():
        state = known.get(path)
        if state and (state.size, state.mtime_ns, state.content_hash) == (each.events, each.last, each.final_memory):
            continue
        if document := _make_document(engine, path, each):
            engine.index.put([document])
        elif state:
            gone.add(path)
    if gone:
        engine.index.retire(sorted(gone))


def read_passage(engine: Engine, passage_id: str) -> tuple[Memory, str]:
    """The passage with an id such as `session:SID#e12`, or that contains this event, with its neighbours."""
    path, _, anchor = passage_id.rpartition("#")
    session = path.removeprefix(ITEM_PREFIX)
    passages = make_passages(engine.sessions.events(session))
    place = find_passage(passages, anchor)
    if place is None:
        raise NotFound(f"There is no passage {passage_id!r}.", "Search for it.", id=passage_id)
    near, own = passages[max(place - 1, 0) : place + 2], passages[place]
    body = redact("\n\n".join(f"[{each.anchor}] {each.text}" for each in near)).text
    memory = Memory(
        id=f"{path}#{own.anchor}",
        source=RECORD,
        path=path,
        title=title_session(engine.sessions, engine.index, next(iter(engine.sessions.records(session)))),
        provenance=_provenance(session, near),
        updated=format_time(own.at),
        tokens=count_tokens(body),
        length=len(body),
    )
    return memory, body


def read_prompts(engine: Engine, session: str) -> Iterator[tuple[Memory, str]]:
    """The prompts of a session, in the form of passages of its record."""
    for each in engine.sessions.events(session, EventKind.PROMPT):
        name, said = f"{ITEM_PREFIX}{session}#e{each.number}", Provenance(session=session)
        at = format_time(each.at)
        yield Memory(id=name, source=RECORD, path="", title="", length=0, provenance=said, updated=at), each.text


def _make_document(engine: Engine, path: str, record: SessionRecord) -> Document | None:
    """The record of a session for the index, one chunk per passage; None if it is empty."""
    events = engine.sessions.events(record.session)
    passages = make_passages(events)
    body = redact("".join(each.text.replace("\f", " ") + _CUT for each in passages))
    ends = [*accumulate(len(piece) + len(_CUT) for piece in body.text.split(_CUT)[:-1])]
    if not passages or len(ends) != len(passages):  # or a secret crossed a border
        return None
    worths: Iterable[float | None] = repeat(None)
    if record.final_memory:  # a session that goes on would be rated anew by each scan
        worths = rate_passages(Record(events, engine.sessions.items(record.session)), passages)
    chunks = [
        Chunk(
            ordinal=number,
            anchor=each.anchor,
            heading="",
            start=start,
            end=end,
            context=each.prompt,
            at=format_time(each.at),
            trust=each.trust,
            worth=worth,
        )
        for number, (each, start, end, worth) in enumerate(zip(passages, [0, *ends], ends, worths, strict=False))
    ]
    title = title_session(engine.sessions, engine.index, record)
    return Document(
        file=SourceFile(source=RECORD, memory_id=path, path=path, size=record.events, mtime_ns=record.last),
        content_hash=record.final_memory,  # like size and time, it only tells whether the record changed
        text_hash="",
        title=title,
        topics=name_edited_files(events),
        body=body,
        chunks=tuple(chunks),
        tokens=count_tokens(body.text),
        provenance=_provenance(record.session, passages),
        updated=format_time(passages[-1].at),
    )


def _provenance(session: str, passages: Sequence[Passage]) -> Provenance:
    return Provenance(source="session", trust=lowest_trust(each.trust for each in passages), session=session)
