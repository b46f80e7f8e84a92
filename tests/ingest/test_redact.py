"""The redaction gate. Every secret here is invented and put together at run time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrimshaw.ingest.redact import MOSTLY_REMOVED_RATIO, redact, redact_edit
from scrimshaw.models import Redacted
from scrimshaw_lab.labelled import LabelledText
from scrimshaw_lab.redaction import evaluate_redaction, removed_token_rate

MIXED = "aB3dE6fG9hJ2kL5mN8pQ" * 8
HEX = "0a1b2c3d4e5f6789" * 12
BASE32 = "A2B3C4D5E6F7G2H3"
UPPER = "A1B2C3D4E5F6G7H8J9K0" * 4
LETTERS = "qWeRtYuIoPaSdFgHjKlZxCvBnM" * 3
PEM = "-----BEGIN RSA PRIVATE" + " KEY-----\n" + (MIXED[:64] + "\n") * 4 + "-----END RSA PRIVATE" + " KEY-----"
JWT = ".".join(["ey" + "J" + MIXED[:30], "ey" + "J" + MIXED[:60], MIXED[:43]])

TOKENS = [
    ("openai-key", "sk-" + "proj-" + MIXED[:74] + "T3Blbk" + "FJ" + MIXED[:74]),
    ("openai-key", "sk-" + MIXED[:48]),
    ("anthropic-key", "sk-" + "ant-api03-" + MIXED[:93] + "AA"),
    ("github-token", "gh" + "p_" + MIXED[:36]),
    ("github-token", "gh" + "s_" + MIXED[:36]),
    ("github-token", "github" + "_pat_" + MIXED[:22] + "_" + MIXED[:59]),
    ("gitlab-token", "gl" + "pat-" + MIXED[:20]),
    ("slack-token", "xox" + "b-123456789012-" + MIXED[:24]),
    ("stripe-key", "sk" + "_live_" + MIXED[:24]),
    ("google-key", "AI" + "za" + MIXED[:35]),
    ("aws-key", "AK" + "IA" + BASE32[:16]),
    ("npm-token", "np" + "m_" + MIXED[:36]),
    ("pypi-token", "py" + "pi-AgEI" + MIXED[:80]),
    ("huggingface-token", "h" + "f_" + LETTERS[:34]),
    ("sendgrid-key", "S" + "G." + MIXED[:22] + "." + MIXED[:43]),
    ("twilio-key", "S" + "K" + HEX[:32]),
    ("mailgun-key", "ke" + "y-" + HEX[:32]),
    ("digitalocean-token", "do" + "p_v1_" + HEX[:64]),
    ("shopify-token", "shp" + "at_" + HEX[:32]),
    ("databricks-token", "da" + "pi" + HEX[:32]),
    ("linear-key", "lin" + "_api_" + MIXED[:40]),
    ("notion-key", "nt" + "n_" + "01234567899" + MIXED[:35]),
    ("doppler-token", "d" + "p.pt." + MIXED[:43]),
    ("postman-key", "PM" + "AK-" + HEX[:24] + "-" + HEX[:34]),
    ("telegram-token", "123456789" + ":AA" + MIXED[:33]),
    ("discord-token", "M" + MIXED[:23] + "." + MIXED[:6] + "." + MIXED[:27]),
    ("vault-token", "hv" + "s." + MIXED[:30]),
    ("age-key", "AGE-SECRET" + "-KEY-1" + UPPER[:58]),
    ("jwt", JWT),
    ("private-key", PEM),
    ("password-hash", "$2" + "b$12$" + MIXED[:53]),
    ("email", "jane.roe" + "@" + "corp-mail.io"),
    ("phone", "+1 415" + "-555-2671"),
    ("phone", "(415) 555" + "-2671"),
    ("ssn", "536-22" + "-1234"),
]

PASSWORD = "hun" + "ter2!xQ"
ASSIGNED = [
    ("password", 'password = "{}"', PASSWORD),
    ("password", '  "db_password": "{}",', PASSWORD),
    ("password", "DB_PASSWORD={}", "letme" + "inplease"),
    ("password", "spring.datasource.password={}", "plain" + "word"),
    ("password", "password: {}", PASSWORD),
    ("password", "mysql --password {} -h db", PASSWORD),
    ("password", "mysql -u root -p{} app", "Sup3r" + "pw"),
    ("password", "mysql -u root -p'{}' app", PASSWORD),
    ("password", 'mysqldump -u root -p"{}" app', PASSWORD),
    ("password", "Server=db;User Id=sa;Password={};Database=x", "open" + "sesame"),
    ("password", "<password>{}</password>", PASSWORD),
    ("password", 'if password == "{}":', PASSWORD),
    ("password", "curl -u bob:{} https://api.corp.io", "s3cr" + "etPw"),
    ("password", 'password: str = "{}"', PASSWORD),
    ("token", "auth_token: '{}'", MIXED[:20]),
    ("token", "https://api.corp.io/get?token={}&x=1", MIXED[:24]),
    ("secret", 'client_secret="{}"', HEX[:40]),
    ("api-key", "X-Api-Key: {}", MIXED[:24]),
    ("api-key", "aws_secret_access_key = {}", MIXED[:40]),
    ("high-entropy", "the token for staging:\n{}", MIXED[:40]),
    ("high-entropy", "the build is {}", MIXED[:40]),
    ("password", "the password for user 'app' is '{}'", "ad" + "min"),
    ("password", "$user = 'app'; $password = {};", "good" + "word"),
    ("okta-token", "okta = {}", "0" + "0" + MIXED[:40]),
    ("sonarqube-token", "sonar.login', '{}'", HEX[:40]),
    ("api-key", "DefaultEndpointsProtocol=https;AccountKey={};", MIXED[:86] + "=="),
    ("auth-header", "Authorization: Bearer {}", MIXED[:40]),
    ("auth-header", "Authorization: Basic {}", "dXNlcjpwYXNz" + "d29yZDEyMw=="),
    ("url-password", "postgres://app:{}@db.corp.io:5432/x", "s3cr" + "et"),
    ("url-password", "redis://:{}@cache:6379/0", "s3cr" + "et"),
    ("slack-webhook", "https://hooks.slack.com/services/{}", "T0000AAAA/B0000BBBB/" + MIXED[:24]),
]

BENIGN = [
    "Author: Jane Roe, " + MIXED[:24],
    "commit " + HEX[:40],
    "export TOKEN=ops_" + MIXED[:36] + "...",
    "pk" + "_live_" + MIXED[:24],
    "sk-" + "ant-api03-" + MIXED[:50] + "AA",
    "sk-" + "ant-api03-" + MIXED[:93] + "BB",
    "sk-" + "proj-" + MIXED[:48],
    "gh" + "p_" + MIXED[:30],
    "gl" + "ptt-" + MIXED[:20],
    "nt" + "n_" + MIXED[:46],
    "xox" + "b-12345-" + MIXED[:7],
    "AK" + "IA" + "ABCDEFGHIJKLMNOP",
    "AI" + "za" + "a" * 35,
    "my $password = shift;",
    'mysql -u root -p"$PASSWORD" app',
    "29d0b84 fix: the build",
    "sha256:" + HEX[:64],
    '"integrity": "sha512-' + MIXED[:86] + '=="',
    "id 50199023-1a27-4bef-b27c-5db62b3a15b3",
    "/home/user/projects/a-rather-long-name/src/module/Sub2/tests/test_Thing3.py",
    "https://docs.python.org/3/library/re.html#re.compile",
    "test_list_display_links_check_skipped_if_get_list_display_overridden",
    "data:image/png;base64," + MIXED * 3,
    "password: str",
    "password: Optional[str] = None",
    "password = get_password()",
    'password = self.cleaned_data["password1"]',
    "token = self.lexer.token",
    "token = tok",
    'api_key = os.environ["API_KEY"]',
    "apiKey: process.env.API_KEY,",
    'password = "<your-password>"',
    "password=changeme",
    "DB_PASSWORD=${DB_PASSWORD}",
    "password: {{ vault_password }}",
    "token: null",
    'token = "xxxxxxxxxxxxxxxx"',
    "AKIA" + "IOSFODNN7EXAMPLE",
    "total_tokens: 43179",
    "max_tokens = 4096",
    "next_page_token = " + MIXED[:30],
    "author user@example.com",
    "git clone git@github.com:org/repo.git",
    "12+bot@users.noreply.github.com",
    "mongodb://username:password@localhost:27017/db",
    "postgres://db.corp.io:5432/x",
    "version 1.22.333-4567",
    "2024-01-02 10:11:12.123456",
    '"tool_use_id": "toolu_' + MIXED[:24] + '"',
    "secretary: Jane",
    "credentialsId: 'ff083f76-7804-4ef1-80e4-fe975bb9141b'",
    "echo 'password = '.$config['daemon']",
    "-----BEGIN RSA PRIVATE" + " KEY----- is the header of such a file",
]


@pytest.mark.parametrize(("secret_class", "secret"), TOKENS)
def test_a_secret_that_shows_by_itself_is_removed_wherever_it_stands(secret_class: str, secret: str) -> None:
    for frame in ("{}", "see {} here", 'x = "{}"', "line\n{}\nline", "- {}, then"):
        redacted = redact(frame.format(secret))

        assert secret not in redacted.text
        assert redacted.classes == (secret_class,)
        assert redacted.text == frame.format(f"[REDACTED:{secret_class}]")


@pytest.mark.parametrize(("secret_class", "frame", "secret"), ASSIGNED)
def test_a_value_that_a_name_marks_as_secret_is_removed(secret_class: str, frame: str, secret: str) -> None:
    assert redact(frame.format(secret)).text == frame.format(f"[REDACTED:{secret_class}]")


@pytest.mark.parametrize("text", BENIGN)
def test_what_only_looks_like_a_secret_is_kept(text: str) -> None:
    assert redact(text) == Redacted(text=text)


@pytest.mark.parametrize("joint", ['" + "', '"\n    "', '" \\\n    "', "\\\n"])
def test_a_secret_split_over_strings_is_removed_whole(joint: str) -> None:
    key = "gh" + "p_" + MIXED[:36]
    text = f'before\nkey = "{key[:20]}{joint}{key[20:]}"\nafter "{"plain"}"\n'

    redacted = redact(text)

    assert redacted.text == 'before\nkey = "[REDACTED:github-token]"\nafter "plain"\n'


def test_a_private_key_that_is_cut_off_goes_to_the_end_of_its_lines() -> None:
    cut = PEM[: PEM.index("-----END")]

    assert redact(f"{cut}\n# done").text == "[REDACTED:private-key]# done"


def test_overlapping_and_touching_secrets_become_one_span() -> None:
    key = "gh" + "p_" + MIXED[:36]

    redacted = redact(f"token={key} and {key}:{key}")

    assert [span.secret_class for span in redacted.spans] == ["github-token"] * 3
    assert redact("redis://:" + key + "@cache").text == "redis://:[REDACTED:url-password]@cache"


def test_spans_and_ratio_count_characters_of_the_original() -> None:
    secret = "gh" + "p_" + MIXED[:36]

    redacted = redact(f"é {secret}")

    (span,) = redacted.spans
    assert (span.start, span.end) == (2, 2 + len(secret))
    assert redacted.removed_ratio == pytest.approx(len(secret) / (len(secret) + 2))


def test_a_marker_does_not_shield_what_stands_beside_it() -> None:
    secret = "gh" + "p_" + MIXED[:36]

    assert redact(f"[REDACTED:email]{secret}").text == "[REDACTED:email][REDACTED:github-token]"
    around = redact(PEM.replace(MIXED[:64], "[REDACTED:jwt]", 1)).text
    assert around == "[REDACTED:private-key][REDACTED:jwt][REDACTED:private-key]"


@pytest.mark.parametrize(
    "line", ["Author: Jane Roe <{}>", "authors = ['Jane Roe <{}>']", "Signed-off-by: Jane Roe <{}>"]
)
def test_an_author_keeps_the_name_and_loses_the_address(line: str) -> None:
    assert redact(line.format("jane.roe" + "@" + "corp-mail.io")).text == line.format("[REDACTED:email]")


def test_a_text_is_mostly_removed_above_ninety_percent() -> None:
    secret = "gh" + "s_" + MIXED[:86]  # 90 characters

    assert redact(f"{secret} 12345678").removed_ratio > MOSTLY_REMOVED_RATIO
    assert redact(f"{secret} 123456789").removed_ratio <= MOSTLY_REMOVED_RATIO
    assert redact("").removed_ratio == 0


def test_an_edit_keeps_the_lines_it_did_not_touch() -> None:
    old = "DB_PASSWORD=" + "hun" + "ter2x"
    new = "API_TOKEN=" + MIXED[:24]

    redacted = redact_edit(f"a\n{old}\nb\n", f"a\n{old}\nb\n{new}\n")

    assert redacted.text == f"a\n{old}\nb\nAPI_TOKEN=[REDACTED:token]\n"
    assert redact_edit("", f"{old}\n") == redact(f"{old}\n")
    assert redact_edit(old, old) == Redacted(text=old)


@pytest.mark.parametrize(("before", "after", "kept"), [(1, 2, 1), (2, 3, 2), (2, 2, 2), (3, 1, 1)])
def test_a_line_is_kept_as_often_as_it_stood_there(before: int, after: int, kept: int) -> None:
    line = "DB_PASSWORD=" + "hun" + "ter2x\n"
    edited = redact_edit(line * before, line * after).text
    assert edited == line * kept + redact(line).text * (after - kept)


def test_evaluation_counts_hits_per_group_and_leaves_addresses_out() -> None:
    secret = [
        LabelledText(text="gh" + "p_" + MIXED[:36], source="github", label=""),
        LabelledText(text="nothing here", source="github", label=""),
        LabelledText(text="jane.roe@corp-mail.io", source="mail", label=""),
    ]

    report = evaluate_redaction(secret, [LabelledText(text="plain text")], redact)

    assert report.recall == pytest.approx(1 / 3)
    assert report.secrets == 3
    assert report.recall_by_source["github"].value == 0.5
    assert report.false_positive_rate == 0.0
    assert removed_token_rate(["a b jane.roe@corp-mail.io d", ""], redact).value == 0.25


secrets = st.sampled_from([secret for _, secret in TOKENS])
prose = st.text(alphabet=st.sampled_from("abc xyz =:\"'\\\n.,+-/@[]0129ABİß"), max_size=40)
marked = st.sampled_from(["[REDACTED:password]", "password=", "token: ", '" + "', "://u:", "@host.io "])
texts = st.lists(st.one_of(prose, secrets, marked), max_size=8).map("".join)


@settings(deadline=None)
@given(texts)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)

    assert redact(once.text) == Redacted(text=once.text)
    assert redact(text) == once


@settings(deadline=None)
@given(texts)
def test_spans_are_sorted_apart_and_the_rest_is_untouched(text: str) -> None:
    redacted = redact(text)

    rebuilt, end = [], 0
    for span in redacted.spans:
        assert end <= span.start < span.end <= len(text)
        rebuilt += [text[end : span.start], f"[REDACTED:{span.secret_class}]"]
        end = span.end
    assert "".join([*rebuilt, text[end:]]) == redacted.text
    assert 0.0 <= redacted.removed_ratio <= 1.0


@settings(deadline=None)
@given(prose, secrets, prose)
def test_a_planted_secret_never_comes_through_whole(before: str, secret: str, after: str) -> None:
    assert secret not in redact(f"{before}\n{secret}\n{after}").text


@settings(deadline=None)
@given(st.lists(prose, max_size=6), st.lists(secrets, max_size=3))
def test_an_edit_that_changes_nothing_is_left_alone(lines: list[str], planted: list[str]) -> None:
    text = "\n".join([*lines, *planted])

    assert redact_edit(text, text) == Redacted(text=text)


PERSONAL = {
    "phone": [
        "+49 171 2345678", "+49 (0)171 2345678", "+49 30 1234-567", "+44 20 7946 0958", "+33 6 12 34 56 78",
        "0171 2345678", "0171-2345678", "0171/2345678", "0171 234 56 78", "030/1234567",
        "089 / 123 45 67", "(030) 123 45 67",
    ],
    "iban": ["DE02120300000000202051", "DE89 3704 0044 0532 0130 00", "GB82 WEST 1234 5698 7654 32"],
    "card": ["4539 1488 0343 6467", "4539-1488-0343-6467", "3782 822463 10005"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in PERSONAL.items() for value in values])
def test_numbers_of_persons_are_removed(name: str, value: str) -> None:
    assert redact(f"Write to her, {value}, at once.").text == f"Write to her, [REDACTED:{name}], at once."


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Telefon: 0221 4710-123.", "Telefon: [REDACTED:phone]."),
        ("The card number is 4539148803436467", "The card number is [REDACTED:card]"),
        ("The database password: hunter2", "The database password: [REDACTED:password]"),
        ("the db password is walrus7 now", "the db password is [REDACTED:password] now"),
    ],
)
def test_a_word_before_it_tells_what_a_number_or_a_word_is(text: str, kept: str) -> None:
    assert redact(text).text == kept


@pytest.mark.parametrize(
    "text",
    [
        "commit 0171234567890abcdef0171234567890abcdef01",
        "00000010: 0450 1234 5678 9012 0171 2345 6789 0123",
        "2024-01-01 10:00:00.123456 at 1796077519947 and 1796077519947123456",
        "0150 2024-01-01 done, build 20241130123456, version 1.2.3.4567.89012",
        "order 4539148803436467, 4539-1488-0343-6468 and 4711-0815-2024-0001",
        "x +10 - 20000000, +12.34567890, +100 200 insertions, +35 (93-129, 899-944)",
        "034/1234567.png of cache/034/1234567, 02000/10000 done",
        "DE02120300000000202052, the samples 4242 4242 4242 4242 and 4111 1111 1111 1111",
        "const password: string1, the password is argon2",
    ],
)
def test_numbers_that_are_no_persons_are_kept(text: str) -> None:
    assert redact(text) == Redacted(text=text)
