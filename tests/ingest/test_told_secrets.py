"""Secrets that a sentence or a command tells, and sentences and code that only mention one. All are invented."""

from __future__ import annotations

import pytest

from scrimshaw.ingest.redact import redact
from scrimshaw.models import Redacted

MARKED = "Lamp" + "post!73"
INNER = "river7" + "Bank"
SEASON = "Autumn" + "2031!"
SHORT = "k7#" + "Tq9z"
DRAWN = "q7Rw2Lx9" + "Vb4Nd6Ys"
HEXADECIMAL = "5d0f93b05fa84d26" + "e8b1907f3da6c4e1"

REMOVED = [
    ("you get into the dashboard with the passphrase {}", MARKED),
    ("Old password {} no longer works, ask Rita", INNER),
    ("The password for the staging box is {} (until May)", MARKED),
    ("its password is now {}.", SEASON),
    ("the password ({}) has been rotated", MARKED),
    ("my temporary password: `{}`", SHORT),
    ("password -> {}", MARKED),
    ("passcode for the meeting room is {}", SHORT),
    ("Das Root-Passwort ist jetzt {}.", MARKED),
    ("neues Kennwort: {}", INNER),
    ("Das Kennwort der Datenbank lautet {}", SEASON),
    ("Benutzer rita, Passwort {}", MARKED),
    ("mit Kennwort {} anmelden", INNER),
    ("PW={}", MARKED),
    ("pw for the NAS is {}", MARKED),
    ("user: rita pw: {}", INNER),
    ("username rita, password {}", MARKED),
    ("rita's pass is {}", MARKED),
    ("pwd {} for the printer", SHORT),
    ("le mot de passe pour rita : {}", MARKED),
    ("nouveau mot de passe {}", INNER),
    ("contraseña del servidor: {}", MARKED),
    ("su contraseña es {}", SEASON),
    ("Zugangsdaten: rita / {}", MARKED),
    ("credentials: rita:{}", MARKED),
    ("the creds were rita / {}", INNER),
    ("log in as rita:{}", SEASON),
    ("sign in with rita / {}", MARKED),
    ("Anmeldung mit rita/{}", INNER),
    ("Login for the wiki: rita@example.com / {}", MARKED),
    ("session.auth = ('rita', '{}')", MARKED),
    ('HTTPBasicAuth("rita", "{}")', INNER),
    ("smtp.login('rita', '{}')", SEASON),
    ("redis-cli -h cache -p 6380 -a {} info", MARKED),
    ("printf '%s\\n' '{}' | sudo -S systemctl restart nginx", MARKED),
    ("echo {} | sudo -kS whoami", "letme" + "inplease"),
    ("echo 'rita:{}' | sudo chpasswd", "plain" + "word"),
    ("10.0.0.5:5432:*:rita:{}", MARKED),
    ("Cookie: theme=dark; sessionid={}", DRAWN),
    ("Set-Cookie: JSESSIONID={}; Path=/", DRAWN),
    ("curl -b 'session={}' https://app.corp.io", DRAWN),
    ("unzip -P {} backup.zip", "plain" + "word"),
    ("7z x -p{} backup.7z", MARKED),
    ("mosquitto_pub -u rita -P {} -t lamp", MARKED),
    ("ldapsearch -D cn=admin -w {} -b dc=corp", MARKED),
    ("smbclient //srv/share -U rita%{}", INNER),
    ("xfreerdp /u:rita /p:{} /v:host", MARKED),
    ("Zugriffstoken: {}", DRAWN),
    ("der Schlüssel lautet {}", DRAWN + "Kf3Z"),
    ("clé API : {}", DRAWN + "Kf3Z"),
    ("API key {} stopped working", DRAWN),
    ("TOTP seed {}", "MFRG" + "G43F" + "NRZW" + "6ZLO"),
    ("Datadog API key: {}", HEXADECIMAL),
    ("**API key:** {}", HEXADECIMAL),
    ("the API KEY for Datadog is `{}`", HEXADECIMAL.upper()),
    ("use access key {} for it", HEXADECIMAL),
    ("Twilio auth token {}", HEXADECIMAL),
    ("The token is {}", HEXADECIMAL + "07f3da6c"),
    ("the client secret is {}", HEXADECIMAL),
    ("the password {} works", HEXADECIMAL),
    ("Der API-Schlüssel lautet {}", HEXADECIMAL),
]

KEPT = [
    "the password is salted with sha256 before bcrypt2b runs",
    "The token is 32 bytes long, base64url-encoded",
    "tokens: 4096 in, 512 out",
    "token refresh fails with HTTP401Error in oauth2Client.ts",
    "the token endpoint /oauth2/token returns 400",
    "2nd pass: O(n*m) over edges, first pass was O(n2)",
    "pass 3 of 5",
    "pass --dry-run2 to skip, pass -p8080:80 to publish",
    "all tests pass (58/58), 3x faster",
    "pass@1: 63.4, pass@10: 88.1",
    "pass: test_login_with_oauth2_token",
    "pass: 12 fail: 3 skip: 1",
    "the key is `tenant_id2`, not `tenant`",
    "press the key F12 twice, or Ctrl+Shift+F5",
    "cache key is v2:user:{id}, the key for the map is i18n.title",
    "foreign key is orders2.customer_id",
    "the sort key created_at_2024 is unique",
    "auth=HTTPBasicAuth(user2, pw2)",
    "auth=('user', 'pass')",
    'assert login("alice", "wrong") is None',
    "login with Google/Apple2 or GitHub/OAuth2",
    "login: see docs/auth2/login.md",
    "credentials: 'same-origin'",
    "creds are in ~/.aws2/credentials, creds: see vault/kv2",
    "log in as root@db2:5432",
    "set the password to null, reset the password to its default",
    "the password must have 8-64chars and 1digit",
    "the password for user2 is stored in vault-kv2",
    "the password field is called j_password2",
    "passwords are never logged since PR#1234",
    "password reset flow v2 (RFC-6238) is done, see AUTH-1234",
    "redis-cli -a $REDIS_PASSWORD ping",
    'echo "$PW" | sudo -S apt update',
    'echo "$user:$pass" | chpasswd',
    "zip -r out2.zip dist, unzip -P <password> a.zip",
    "ports: 127.0.0.1:5432:5432",
    "a line is host:5432:database:user:password",
    "Set-Cookie: session=<value>; HttpOnly",
    "Set-Cookie: theme=dark2; Path=/",
    "Das Passwort ist falsch, das Kennwort muss 12 Zeichen haben",
    "das Passwort steht in .env.local2",
    "Schlüssel: user_id2, der Schlüssel ist 256-bit",
    "le mot de passe est haché avec bcrypt2",
    "la contraseña es obligatoria",
    "pw = os.environ['PW2']; pw: string; pw is None",
    "user admin, pass through to step2",
    "password_hash = bcrypt2.hash(x)",
    "token type is JWT/RS256, the token bucket v3",
    "the secret is rotated every 90d, the token expires after 15m",
    "the password was changed on 2024-05-03 at 10:15",
    "token expires at 2024-05-03T10:15:00Z",
    "password strength >= 3/4 (zxcvbn4)",
    "the token `<|endoftext|>` has id50256",
    "pass `--with-deps=1` or pass x=3 to f()",
    "the password prompt at auth.py:42:13 blocks",
    "password column varchar(255), password char(60) not null",
    "the password argon2id hash is checked in verifyPassword2()",
    "token claude-3-5-sonnet limit, token gpt-4o-mini price",
    "password: min12 chars; Password1Input component",
    "the API key lives in config/prod2.yaml:17",
    "the login was on node3:api2, and auth: jwt/HS256",
    *(
        each.replace("{}", HEXADECIMAL)
        for each in (
            "the cache key is {}",
            "the key is {}, the image key is sha256:{}",
            "the API key's sha256 is {}",
            "private key fingerprint: {}",
            "the API key rule is in commit {}",
            "api key rotation: {}",
            "the password reset was merged as {}",
            "auth: fixed in {}",
            "login at {}",
            "the token hash is {}, the token of the page is {}",
            "the page token is {}, the cache token is {}",
            "API key 00000000000000000000000000000000",
        )
    ),
]


@pytest.mark.parametrize(("frame", "secret"), REMOVED, ids=[frame for frame, _ in REMOVED])
def test_a_secret_that_a_sentence_or_a_command_tells_is_removed(frame: str, secret: str) -> None:
    before, after = frame.split("{}")
    redacted = redact(frame.format(secret)).text

    assert secret not in redacted
    assert redacted.endswith(after)
    assert redacted.startswith(before.partition("rita")[0])


@pytest.mark.parametrize("text", KEPT)
def test_a_text_that_only_mentions_secrets_is_kept(text: str) -> None:
    assert redact(text) == Redacted(text=text)


def test_a_secret_that_was_told_is_removed_wherever_the_text_repeats_it() -> None:
    text = f"the password is {MARKED}\n> {MARKED} accepted, {MARKED}x refused"

    assert redact(text).text.count("[REDACTED:password]") == 3
    assert MARKED not in redact(text).text


def test_a_plain_word_is_not_removed_elsewhere() -> None:
    word = "plain" + "word"

    assert redact(f"unzip -P {word} a.zip\na {word} follows").text.endswith(f"a {word} follows")
