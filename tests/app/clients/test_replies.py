"""What a hook prints is what its client reads."""

from __future__ import annotations

import msgspec
import pytest
from tests.app.clients.record import load_records
from tests.app.clients.words import CONTENT

from scrimshaw.app.clients import all_clients
from scrimshaw.models import EventKind

_RECORDS = load_records()


@pytest.mark.parametrize("client", _RECORDS)
def test_the_answer_has_the_shape_of_the_client_and_there_is_none_where_it_takes_none(client: str) -> None:
    printed = {event: all_clients()[client].format_reply(event, CONTENT) for event in EventKind}
    assert not any("\n" in text for text in printed.values())
    assert {event: msgspec.json.decode(text) for event, text in printed.items() if text} == _RECORDS[client].replies


@pytest.mark.parametrize("client", _RECORDS)
def test_nothing_to_say_prints_nothing(client: str) -> None:
    assert all(all_clients()[client].format_reply(event, "") == "" for event in EventKind)
