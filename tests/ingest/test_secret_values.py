"""Values that a name marks as secret, at the edge of where they could be something else. Every secret is invented."""

from __future__ import annotations

import pytest

from scrimshaw.ingest.redact import redact
from scrimshaw.models import Redacted

DRAWN = "aB3dE6fG9hJ2kL5mN8pQ" * 2
PASSWORD = "hun" + "ter2!xQ"
WORD = "sword" + "fish"
UUID = "ff083f76-7804-4ef1" + "-80e4-fe975bb9141b"
HEX = "0a1b2c3d4e5f6789" * 2

REMOVED = [
    ("a name with a stage behind it", 'api_key_prod = "{}"', DRAWN[:24], "api-key"),
    ("a name with a number behind it", "DB_PASSWORD_2={}", PASSWORD, "password"),
    ("a name in one word", 'myapikey: "{}"', DRAWN[:24], "api-key"),
    ("a word below a user", "user = bob\npassword = {}\n", WORD, "password"),
    ("two words below a user", 'user = bob\npassword = "{}"\n', "two " + WORD, "password"),
    ("a drawn argument behind a name", 'define("DB_PASSWORD", "{}")', DRAWN[:12], "password"),
    ("a secret that is compared", 'if (clientSecret === "{}") {{', PASSWORD, "secret"),
    ("a UUID under a name in capitals", "DEPLOY_KEY = '{}'", UUID, "api-key"),
    ("six digits under a password", "password = {}", "123" + "456", "password"),
    ("ten digits under a token", "token = {}", "12345" + "67890", "token"),
    ("ten quoted digits under a key", 'api_key: "{}"', "12345" + "67890", "api-key"),
    ("drawn hexadecimal under a token", 'token: "{}"', HEX, "token"),
]

KEPT = [
    ("a reference below a user", "user: bob\npassword: ${PASS}"),
    ("a word as an argument", f'define("DB_PASSWORD", "{WORD}")'),
    ("a bare argument", f"check(password, {PASSWORD})"),
    ("a bare value that is compared", f"if password == {PASSWORD}:"),
    ("prose", f"the password is {PASSWORD}"),
    ("a verb and a quoted word", f'use pass "{PASSWORD}" here'),
    ("a call", "password = (ask"),
    ("five digits under a password", "password = 12345"),
    ("nine digits under a token", "token = 123456789"),
    ("nine quoted digits under a key", 'api_key: "123456789"'),
    ("a digest under a key of a lookup", f'session_key = "{HEX}"'),
    ("quoted text with a blank", 'secret: "abc def12"'),
    ("a quoted version", 'secret = "1.2.3.4567890"'),
    ("a version", "api_key = v1.2.3.4567"),
    ("a path", "api_key: /etc/keys/thing2"),
]


@pytest.mark.parametrize(("frame", "secret", "secret_class"), [row[1:] for row in REMOVED], ids=[r[0] for r in REMOVED])
def test_a_value_that_its_name_gives_away_is_removed(frame: str, secret: str, secret_class: str) -> None:
    assert redact(frame.format(secret)).text == frame.format(f"[REDACTED:{secret_class}]")


@pytest.mark.parametrize("text", [row[1] for row in KEPT], ids=[row[0] for row in KEPT])
def test_a_value_that_may_be_something_else_is_kept(text: str) -> None:
    assert redact(text) == Redacted(text=text)
