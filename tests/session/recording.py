"""A session written down by hand: what was said and done, as the journal keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field

from scrimshaw.models import EventKind, Item, ItemKind, ItemSource, RecordedEvent, Session
from scrimshaw.session.decisions import find_decisions
from scrimshaw.session.draft import Draft, build_draft, find_task
from scrimshaw.session.record import Record
from scrimshaw.session.statements import Statement


@dataclass
class Recording:
    """Events in order; a second passes with each."""

    events: list[RecordedEvent] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    def prompt(self, text: str) -> Recording:
        return self._add(EventKind.PROMPT, text)

    def answer(self, text: str) -> Recording:
        return self._add(EventKind.ANSWER, text)

    def stop(self, text: str) -> Recording:
        return self._add(EventKind.STOP, text)

    def compact(self, text: str) -> Recording:
        return self._add(EventKind.COMPACT, text)

    def bash(self, command: str, output: str = "", *, failed: bool = False) -> Recording:
        return self._add(EventKind.TOOL, f"{command}\n{output}", tool="Bash", failed=failed)

    def edit(self, path: str, change: str = "+something new", *, tool: str = "Edit") -> Recording:
        return self._add(EventKind.TOOL, f"{path} {change}\ndone", tool=tool, path=path, failed=False)

    def read(self, path: str) -> Recording:
        return self._add(EventKind.TOOL, f"{path}\n1 some line", tool="Read", path=path, failed=False)

    def dialog(self, heading: str, *lines: str) -> Recording:
        """The agent shows something; a line of a list of tasks is `[status] task`."""
        return self._add(EventKind.TOOL, "\n".join([heading, *lines]), tool="Ask", failed=False)

    def item(self, kind: ItemKind, text: str, rule: str = "") -> Recording:
        """What was extracted from the last event."""
        event = self.events[-1]
        source = ItemSource(source_tool=event.tool, source_call_id=event.call_id, extraction_rule_id=rule)
        self.items.append(
            Item(
                session="s",
                number=len(self.items) + 1,
                text=text,
                kind=kind,
                attention=0.7,
                event=event.number,
                at=event.at,
                source=source,
                path=event.path,
            )
        )
        return self

    def draft(self) -> Draft:
        return build_draft(Session(id="s", counter=len(self.events)), self.events, self.items)

    def decisions(self) -> tuple[Statement, ...]:
        """What is known as a decision by its words and place, before the selection leaves out or adds sentences."""
        record = Record(self.events, self.items)
        task = find_task(record)
        return tuple(each for each in find_decisions(record) if not (task and each.text in task.text))

    def _add(
        self, kind: EventKind, text: str, *, tool: str = "", path: str = "", failed: bool | None = None
    ) -> Recording:
        number = len(self.events) + 1
        self.events.append(
            RecordedEvent(
                session="s",
                number=number,
                kind=kind,
                tool=tool,
                call_id=f"c{number}",
                text=text,
                at=float(number),
                path=path,
                failed=failed,
            )
        )
        return self
