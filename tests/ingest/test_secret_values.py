"""Values that a name marks as secret, at the edge of where they could be something else. Every secret is invented."""

from __future__ import annotations

import pytest

from scrimshaw.ingest.redact import redact
from scrimshaw.models import Redacted

DRAWN = "aB3dE6fG9hJ2kL5mN8pQ" * 2
PASSWORD = "hun" + "ter2!xQ"
WORD = "sword" + "fish"
MIXED = "Blau-" + "Wal7x"
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
    ("prose", "the password is {}", PASSWORD, "password"),
    ("prose with a remark", "The new password (valid until May): {}", PASSWORD, "password"),
    ("an assignment in R", 'password <- "{}"', PASSWORD, "password"),
    ("prose that changes it", "I set the password to {} yesterday", PASSWORD, "password"),
    ("an instruction of Docker", "ENV DB_PASSWORD {}\n", PASSWORD, "password"),
    ("a command of fish", "set -gx DB_PASSWORD {}\n", PASSWORD, "password"),
    ("a default of Terraform", 'variable "db_password" {{\n  default = "{}"\n}}', PASSWORD, "password"),
    ("a constant of PHP", "define('DB_PASSWORD', '{}');", PASSWORD, "password"),
    ("a constant of C", '#define DB_PASSWORD "{}"', PASSWORD, "password"),
    ("a property of C#", 'string Password {{ get; set; }} = "{}";', PASSWORD, "password"),
    ("a setter", 'config.setPassword("{}");', PASSWORD, "password"),
    ("a table", "| db password | {} | test |", PASSWORD, "password"),
    ("a name in bold letters", "**Password:** {}\n", PASSWORD, "password"),
    ("netrc", "machine api.corp.io login bob password {}\n", PASSWORD, "password"),
    ("a login", "docker login -u bob -p {} registry.corp.io", PASSWORD, "password"),
    ("an option with user", "http -a bob:{} https://api.corp.io", PASSWORD, "password"),
    ("what is piped into a login", 'echo "{}" | docker login --password-stdin', PASSWORD, "password"),
    ("SQL", "CREATE USER app IDENTIFIED BY '{}';", PASSWORD, "password"),
    ("a command with a body", 'gh secret set DB_PASSWORD --body "{}"', PASSWORD, "password"),
    ("marks at the end of a line", "    DB_PASSWORD={}\n", PASSWORD + "&;)#", "password"),
    ("marks within a line of YAML", "  password: {}\n", "hun" + "ter2&;)#x", "password"),
    ("marks within a row of pairs", "host=db.corp.io password={} dbname=shop", "hun" + "ter2;x&(y)z", "password"),
    ("marks before another pair", "jdbc:x://db.corp.io/shop?password={}&useSSL=true", "hun" + "ter2,(x", "password"),
    ("marks before another pair of words", "Password={};Initial Catalog=shop", "hun" + "ter2,(x", "password"),
    ("marks in prose", "My password: {}, as you know", "hun" + "ter2&x;y", "password"),
    ("the end of a string", 'Environment="DB_PASSWORD={}"', PASSWORD + ";", "password"),
    ("a value behind its name", '[{{"name": "DB_PASSWORD", "value": "{}"}}]', PASSWORD, "password"),
    ("a default of a program", "process.env.DB_PASSWORD || '{}'", PASSWORD, "password"),
    ("an earlier value in prose", 'changed the password from "{}" to another', PASSWORD, "password"),
    ("marks within quotes", 'password = "{}"', "hun" + "ter2&;)#'", "password"),
    ("marks within an element", "<password>{}</password>", "hun" + "ter2(;)#", "password"),
    ("drawn hexadecimal under a token", 'token: "{}"', HEX, "token"),
    ("a column of a table", "| user | password |\n|---|---|\n| admin | {} |\n", PASSWORD, "password"),
    ("a column without bars outside", "pwd (test) | user\n--- | ---\n **{}** | admin", "Demo" + "@12345", "password"),
    ("a column behind an escaped bar", "> | user | Passwort |\n> |:-|:-:|\n> | a\\|b | `{}` |", MIXED, "password"),
    ("a column of a file of Windows", "|Contraseña|x|\r\n|-|-|\r\n|{}|y|\r\n", MIXED, "password"),
    ("a column behind an empty cell", "| host | | password |\n|-|-|-|\n| a || {} |", "winter" + "2031", "password"),
    ("a short name", "login rita, pass: {}", MIXED, "password"),
    ("a short name without spaces", "smtp user=mailer pass={}", MIXED, "password"),
    ("a name in French", "mot de passe : {}", MIXED, "password"),
    ("a name in Spanish", "contraseña: {}", MIXED, "password"),
]

CELLS = """SHOP-1207 SHA-256 bcrypt12 AES-256 Argon2id Node-v18.2 1Password Vault-Item3 KeePass-DB2 PROD_DB1_PASSWORD
250ms 1200ms 100% 12/20 2026-01-01 v2.3.1 #1207 10.0.0.1:5432 op://vault/Item1x/password min-8-chars Utf8Encoder"""
KEPT = [
    *((f"{cell} in a column", f"| x | Password |\n|---|---|\n| a | {cell} |") for cell in CELLS.split()),
    ("a column of another name", f"| user | password set by |\n|---|---|\n| a | {MIXED} |"),
    ("a row without a heading", f"password\n| a | {MIXED} |\n| b | c |"),
    ("passes of tests", "pass: 100/100, pass: 99.95%\nPass: 2026-01-01\npass: test-foo-2.sh, pass: Test_Foo2a"),
    ("a test that passes", "--- PASS: TestFoo/Bar-Baz2x (0.00s)\nPASS: gdb.base/foo2.exp"),
    ("a reference below a user", "user: bob\npassword: ${PASS}"),
    ("a word as an argument", f'define("DB_PASSWORD", "{WORD}")'),
    ("a bare argument", f"check(password, {PASSWORD})"),
    ("a bare value that is compared", f"if password == {PASSWORD}:"),
    ("prose", "the password is wrong and the token is missing"),
    ("an argument in prose", "Extra arguments to pass to `func`."),
    ("an option in prose", "the --username and --password options"),
    ("a regular expression", r'ZONE_PAT = "(?:%25|%)(?:[a-f0-9])"'),
    ("a verb and a quoted word", f'use pass "{PASSWORD}" here'),
    ("a call", "password = (ask"),
    ("a parameter that is described", "password (str): The base64 text of it"),
    ("a call with a digit", 'password = md5sum256("text")'),
    ("a call in a call", "connect(password=get_pw2(name), port=3)"),
    ("an argument whose result is used", "login(password=passw2).check2()"),
    ("a condition", "if (password=passw2&&name2) {"),
    ("a call below a user", "user = name;\npassword = Buffer.from(text2)"),
    ("a default in words", "const text = password || 'password needed'"),
    ("names in a row", "['ssh2_password', 'ssh2_pubkey_file']"),
    ("a placeholder in a URL", 'url="socks5h://<username>:<password>@proxy-host2"'),
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
