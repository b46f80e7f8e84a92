"""Texts that ask where the work stands, on a subject or not, and texts that use the same words otherwise."""

from __future__ import annotations

import pytest

from scrimshaw.session.resume import LONGEST_QUESTION, Asked, find_asked, find_subject


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("what is left to do for the csv importer?", Asked.SUBJECT),
        ("how far are we with the postgres upgrade", Asked.SUBJECT),
        ("continue with the payment work", Asked.SUBJECT),
        ("where did we leave off with moving the mailer to asyncio so that retries do not block?", Asked.SUBJECT),
        ("wie weit sind wir mit dem CSV-Import?", Asked.SUBJECT),
        ("où en est la migration de la base ?", Asked.SUBJECT),
        ("¿qué falta por hacer en el importador?", Asked.SUBJECT),
        ("支付模块还剩什么没做", Asked.SUBJECT),
        ("where were we?", Asked.SESSION),
        ("what's next", Asked.SESSION),
        ("go on please", Asked.SESSION),
        ("wo waren wir stehen geblieben?", Asked.SESSION),
        ("продолжай", Asked.SESSION),
        ("add a status column to the orders table", None),
        ("continue on error in the import loop", None),
        ("is the file handle left open if the parser throws", None),
        ("the next button stays disabled after validation", None),
        ("why did we remove the sorting from list_books?", None),
        ("harbour crane grease", None),
        ("füge der Tabelle eine Statusspalte hinzu", None),
        ("", None),
        ("where were we? " + "x " * (LONGEST_QUESTION // 2), None),
    ],
)
def test_what_a_text_asks_for(text: str, asked: Asked | None) -> None:
    assert find_asked(text) == asked


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("how far are we with the kafka consumer?", ("kafka", "consumer")),
        ("csv 导入还剩什么没做", ("csv",)),
        ("where were we?", ()),
    ],
)
def test_the_words_of_a_subject(text: str, words: tuple[str, ...]) -> None:
    assert find_subject(text) == words
