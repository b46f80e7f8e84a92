"""The limits of the redaction gate: a value just inside and one just outside. Every secret is invented here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scrimshaw.ingest import redact as module
from scrimshaw.ingest.redact import redact, redact_edit
from scrimshaw.models import Redacted, Span

DRAWN = "aB3dE6fG9hJ2kL5mN8pQ" * 11
UPPER = "A1B2C3D4E5F6G7H8J9K0" * 2
KEY = "gh" + "p_" + DRAWN[:36]
# Lines of a certificate are no keys, the last one included.
CERTIFICATE = f"MIID{DRAWN[:60]}\nQq+/{DRAWN[3:63]}\nZz9/{DRAWN[7:47]}"
SLACK = "xox" + "p-"
GITLAB = "gl" + "pat-"
MAIL = "jane.roe" + "@" + "corp-mail.io"
DATABASE = "postgres://app" + ":{}@db.corp.io/x"
LEADS = [".", "@", "#", "%", "base64,", "sha1: ", "md5 ", "integrity=", "id: ", "csrf ", "public ", "nonce "]

REMOVED = [
    ("12 drawn characters in braces", DATABASE, "{X1b2c3" + "D4e5F6}", "url-password"),
    ("8 drawn characters", "Authorization: {}", "a1B2" + "c3D4", "auth-header"),
    ("padding of base64", "Authorization: {}", "Abcd" + "AbcdAbc=", "auth-header"),
    ("16 characters of an entropy of 4 bits", "Bearer {}", "QwErTyUi" + "OpAsDfGh", "auth-header"),
    ("16 characters of an entropy of 3.5 bits", "Bearer {}", "QWERTYUI" + "aabbccdd", "auth-header"),
    ("9 distinct characters", "{}", GITLAB + ("123" * 7)[:20], "gitlab-token"),
    ("a digit", "{}", SLACK + "abcdefghijklm4", "slack-token"),
    ("an address behind a URL", "see https://x.io {}", MAIL, "email"),
    ("an address 101 characters into a URL", "https://" + "a" * 97 + "/{}", MAIL, "email"),
    *(
        ("an address in a sentence of commands", frame, MAIL, "email")
        for frame in (
            "Ask {} for ssh access",
            "I made ssh keys for {}",
            "ssh access: {}",
            "rsync is run by {} every night",
            "scp fails, says {}",
            "ssh\n{}",
            "Write to {}:she knows",
            "ssh-ed25519 AAAAC3Nza {}",
        )
    ),
    ("20 drawn characters", "the token is {}", DRAWN[:20], "high-entropy"),
    ("drawn characters without small letters", "the token is {}", UPPER, "high-entropy"),
    ("drawn characters without capitals", "the token is {}", UPPER.lower(), "high-entropy"),
    ("30 drawn characters without a name", "take {} today", DRAWN[:30], "high-entropy"),
    ("24 drawn characters with a prefix", "take {} today", "zq_" + DRAWN[:22], "high-entropy"),
    ("drawn characters with a prefix under a name", "colour = '{}'", "zq_" + DRAWN[:22], "high-entropy"),
    ("200 drawn characters", "the token is {}", DRAWN[:200], "high-entropy"),
    ("a word for a secret at the start", "token at\n{}", DRAWN[:40], "high-entropy"),
    ("text that goes on", "the token is at {} today.\n" + "And so on.\n" * 20, DRAWN[:40], "high-entropy"),
    ("a number with many zeros", "call {}", "+49150" + "00000012", "phone"),
    ("public, 31 characters before", "a secret is no public" + " " * 31 + "{}", DRAWN[:40], "high-entropy"),
    ("a line that is continued", "before\n{}\nafter", KEY[:20] + "\\\n" + KEY[20:], "github-token"),
]

KEPT = [
    ("11 drawn characters in braces", DATABASE.format("{X1b2c3" + "D4e5F}")),
    ("7 drawn characters", "Authorization: a1B2" + "c3D"),
    ("an entropy of 2 bits", "Authorization: Abcd" + "AbcdAbcdAbcd"),
    ("15 characters without a digit", "Authorization: QwErTyUi" + "OpAsDfG"),
    ("small letters alone", "Bearer qwertyui" + "opasdfgh"),
    ("8 distinct characters", GITLAB + "12" * 10),
    ("no digit", SLACK + "abcdefghijklmn"),
    ("a masked key with a digit", SLACK + "1-" + "x" * 12),
    ("an address in the rest of a URL", "://" + MAIL),
    ("an address 100 characters into a URL", "https://" + "a" * 96 + "/" + MAIL),
    ("a reserved top level", "jane.roe@corp.test"),
    ("a reserved top level below others", "jane.roe@mail.corp.invalid"),
    ("an address that nobody reads", "noreply@corp-mail.io"),
    ("an address that nobody reads, spelled out", "No-Reply@corp-mail.io"),
    *(
        ("an account on a host", frame.replace("{}", "deploy" + "@" + "db1.corp.io"))
        for frame in (
            "ssh {} then sudo systemctl restart api",
            "ssh -i key.pem -p 2222 {}",
            "ssh -J {} -v '{}' uptime",
            "`ssh -L 8080:localhost:80 {}`",
            "ssh-copy-id -i ~/.ssh/id.pub {}",
            "scp dump.sql {}:",
            "scp {}:/tmp/dump.sql .",
            "rsync -a --delete dist/ {}:site",
            "git remote add origin {}:shop.git",
            "the copy is at {}:~/shop",
        )
    ),
    ("a picture for dense screens", "icon@2x.png"),
    ("a picture for half dense screens", "icon@1.5x.png"),
    ("19 drawn characters", "the token is " + DRAWN[:19]),
    ("29 drawn characters without a name", f"take {DRAWN[:29]} today"),
    ("23 drawn characters with a prefix", f"take zq_{DRAWN[:21]} today"),
    ("an id that is the whole text", "zq_" + DRAWN[:40]),
    ("an id by its prefix", f"call toolu_{DRAWN[:24]} failed"),
    ("a file of drawn characters", f"see {DRAWN[:34]}.wav there"),
    ("a path of drawn characters", f"see zq-{DRAWN[:30]}/x there"),
    ("digests in a row", "00-" + "0af7651916cd43dd" * 2 + "-b7ad6b7169203331-01 is a trace"),
    ("a key of a known vendor that is too short", f"take gl{'pat-'}{DRAWN[:19]}/ today"),
    ("drawn characters of an entropy below 3 bits", "the token is " + DRAWN[:7] * 4),
    ("drawn characters under a name of something else", f"colour = '{DRAWN[:40]}'"),
    ("drawn characters in a property of something else", f'{{"colour": "{DRAWN[:40]}"}}'),
    ("drawn characters in a row of values", f"take red,{DRAWN[:40]},blue today"),
    ("letters in their order", "the token is 00QCjAl4MlV-WPXM-ABCDEFGHIJKL-0HmjFx-vbGu"),
    ("letters and digits in their order", "the token is 1234567890aBcDeFgHiJkLmNoPqRsT1234567890abcdef"),
    ("hexadecimal that says so", "the token is x8f12fb8b20008e14b5A5ff4bad15af9b545d98144da8707892dcc2a2014ba58"),
    ("many marks", "the token is t3h_FuTUr3_15_bR1ghT_1_H0p3_y0uR3_W34r1nG_5h4d35"),
    ("a certificate", f"-----BEGIN CERTIFICATE-----\n{CERTIFICATE}\n-----END CERTIFICATE-----\n"),
    ("a certificate in a string", "-----BEGIN CERTIFICATE-----\\n" + CERTIFICATE.replace("\n", "\\n")),
    ("a certificate in a program", '"' + CERTIFICATE.replace("\n", '\\n"\n    "') + '"'),
    ("a key of hexspeak", "AKIA" + "DEADBEEF" * 2),
    ("201 drawn characters", "the token is " + DRAWN[:201]),
    ("a name of 40 letters and a digit", "the token is someVeryLongIdentifierNameForTheTest2OfIt"),
    ("a sample that says so", "the token is " + DRAWN[:34] + "EXAMPLE"),
    ("a digest", "the token is sha256:" + DRAWN[:40] + " and more"),
    ("a public token at the start", "csrf token " + DRAWN[:40]),
    *((f"what {lead!r} leads", f"the token is {lead}{DRAWN[:40]}") for lead in LEADS),
    ("public, 30 characters before", "a secret is no public" + " " * 30 + DRAWN[:40]),
    ("a call in the shape of a key", "NotificationCenterManager.shared.addObserverForNotificationName"),
    ("no digit in a token", "hv" + "s.abcdefghijklmnopqrstuvwx"),
    ("no digit in a key", "sk" + "-" + "abcdefghijkl" * 4),
    ("a placeholder in a call", 'new NetworkCredential("bob", "password")'),
    ("a placeholder on a command line", "curl -u bob:password https://api.corp.io"),
    ("7 distinct characters", "gls" + "a_" + "12" * 16 + "_" + "12" * 4),
]


@pytest.mark.parametrize(("frame", "secret", "secret_class"), [row[1:] for row in REMOVED], ids=[r[0] for r in REMOVED])
def test_just_enough_to_be_a_secret_is_removed(frame: str, secret: str, secret_class: str) -> None:
    assert redact(frame.format(secret)).text == frame.format(f"[REDACTED:{secret_class}]")


@pytest.mark.parametrize("text", [row[1] for row in KEPT], ids=[row[0] for row in KEPT])
def test_just_too_little_to_be_a_secret_is_kept(text: str) -> None:
    assert redact(text) == Redacted(text=text)


def test_an_edit_of_a_long_file_keeps_a_line_that_stands_in_it_often() -> None:
    before = "".join(f"{KEY}\nold {number}\n" for number in range(120))
    after = before.replace("old", "new")
    assert redact_edit(before, after) == Redacted(text=after)


def pem(head: str = "-----", body: str = DRAWN[:64]) -> str:
    """A private key; `head` closes its first line."""
    return "-----BEGIN RSA PRIVATE" + f" KEY{head}\n{body}\n-----END RSA PRIVATE" + f" KEY{head}"


def test_what_stands_between_two_joined_lines_is_not_taken_along() -> None:
    text = pem('-" + "----', "x - y")
    assert redact(text) == Redacted(text=text)


def test_a_private_key_with_a_run_of_zeros_is_one_all_the_same() -> None:
    assert redact(pem(body=DRAWN[:50] + "0" * 14)).text == "[REDACTED:private-key]"


def test_secrets_that_touch_become_one() -> None:
    assert redact(pem() + pem()).text == "[REDACTED:private-key]"


@pytest.mark.parametrize("inner", ["[REDACTED:x509]", "[REDACTED:high-entropy]", "[REDACTED:aws-key2]"])
def test_a_marker_before_a_secret_does_not_shield_one_inside(inner: str) -> None:
    text = "[REDACTED:email]\n" + pem(body=f"{DRAWN[:64]}\n{inner}\n{DRAWN[:64]}")
    assert redact(text).text == f"[REDACTED:email]\n[REDACTED:private-key]{inner}[REDACTED:private-key]"


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("between", [" + ", " . ", "\n  ", "\r\n  ", "\\\n", " \\\r\n  "])
def test_a_string_that_is_put_together_is_read_as_one(quote: str, between: str) -> None:
    joint = f"{quote}{between}{quote}"
    text = f"key = {quote}{KEY[:20]}{joint}{KEY[20:]}{quote}"
    assert redact(text).text == f"key = {quote}[REDACTED:github-token]{quote}"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_that_a_backslash_continues_is_read_as_one(end: str) -> None:
    assert redact(f"key={KEY[:20]}\\{end}  {KEY[20:]}{end}").text == f"key=[REDACTED:github-token]{end}"


@pytest.mark.parametrize("name", ["password", "PASSWORD"])
def test_a_letter_that_grows_in_lower_case_moves_nothing(name: str) -> None:
    text = "İ" * 30 + f"\n{name}: "
    assert redact(text + "hun" + "ter2!xQ").text == f"{text}[REDACTED:password]"


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ('one\ntwo\nx = "ab" + "cd"\nthree\nfour\ny = "e" + "f"\nfive\nsix\n', '\nx = "abcd"\n\ny = "ef"\n\n'),
        ('x = "ab" + "cd"\ny = "e" + "f"\nlast', 'x = "abcd"\ny = "ef"\n\n'),
        ('first\nx = "ab" + "cd"\n', '\nx = "abcd"\n'),
        ('first\nx = "ab" + " cd"\n', None),
    ],
    ids=["apart", "neighbours", "end", "two words"],
)
def test_only_the_lines_of_a_joined_string_are_read_again(
    monkeypatch: pytest.MonkeyPatch, text: str, again: str | None
) -> None:
    read: list[str] = []
    scan = module._scan

    def reading(given: str) -> Iterator[Span]:
        read.append(given)
        return scan(given)

    monkeypatch.setattr(module, "_scan", reading)
    redact(text)
    assert read == ([again, text] if again else [text])
