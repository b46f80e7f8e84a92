"""What secrets look like: the rule tables of the redaction gate. Data only; patterns are compiled when first needed."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """One shape of secret.

    `hint` is a literal that every match contains: a text without it is not scanned. `pattern` is case-sensitive;
    its group `secret`, where there is one, is the part to remove, else the whole match is.
    """

    secret_class: str
    hint: str
    pattern: str


def _token(secret_class: str, prefix: str, body: str) -> Rule:
    """A vendor's key: its literal prefix, standing at the start of a word, and the body that follows.

    The look-behind stands after the prefix, because a pattern that begins with a literal is searched much faster.
    """
    literal = prefix.replace(".", "[.]").replace("+", "[+]")
    return Rule(secret_class, prefix, rf"{literal}(?<![A-Za-z0-9]{literal}){body}")


TOKENS: tuple[Rule, ...] = (
    _token("openai-key", "sk-", r"[\w-]{20,90}T3BlbkFJ[\w-]{20,90}(?![\w-])"),  # the base64 of `OpenAI` in the middle
    _token("openai-key", "sk-", r"(?:[A-Za-z0-9]{48}|[0-9a-f]{32})(?![\w-])"),
    _token("openrouter-key", "sk-or-v1-", r"[0-9a-f]{64}(?![\w-])"),
    _token("langfuse-key", "sk-lf-", r"[0-9a-f-]{36}(?![\w-])"),
    _token("anthropic-key", "sk-ant-", r"[a-z]{3,8}\d\d-[\w-]{80,120}AA(?![\w-])"),
    _token("github-token", "gh", r"[pour]_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _token("github-token", "ghs_", r"[\w.-]{30,}"),
    _token("github-token", "ghr_", r"[A-Za-z0-9]{76}(?![A-Za-z0-9])"),
    _token("github-token", "github_pat_", r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}(?!\w)"),
    _token("gitlab-token", "gl", r"(?:pat|dt|rt|ft|soat|cbt|ffct|wt)-[\w-]{20,50}(?![\w-])"),
    _token("gitlab-token", "gl", r"(?:pat|rt)-[\w-]{27,300}\.[0-9a-z]{9}(?!\w)"),
    _token("gitlab-token", "gl", r"(?:imt-[\w-]{25}|ptt-[\w-]{40}|oas-[\w-]{64}|agent-[\w-]{50,1024})(?![\w-])"),
    _token("gitlab-token", "GR1348941", r"[\w-]{20,50}(?![\w-])"),
    _token("slack-token", "xoxb-", r"\d{8,14}-[A-Za-z0-9-]{18,}"),
    _token("slack-token", "xox", r"(?:[aeprs]-(?:\d-)?|o-\d)[A-Za-z0-9-]{10,}"),
    _token("slack-token", "xoxe.xox", r"[bp]-[A-Za-z0-9-]{10,}"),
    _token("slack-token", "xapp-", r"[A-Za-z0-9/-]{10,}"),
    _token("stripe-key", "sk_", r"(?:live|test|prod)_[A-Za-z0-9]{10,}"),
    _token("stripe-key", "rk_", r"(?:live|test|prod)_[A-Za-z0-9]{10,}"),
    _token("stripe-key", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    _token("google-key", "AIza", r"[\w-]{35}(?![\w-])"),
    _token("google-key", "ya29.", r"[\w-]{20,}"),
    _token("google-key", "GOCSPX-", r"[\w-]{20,}"),
    _token("google-key", "1//0", r"[\w-]{40,}"),
    Rule("aws-key", "A", r"A(?<![A-Za-z0-9].)(?:KIA|SIA|BIA|CCA|3T[A-Z0-9])[A-Z2-7]{16}(?![A-Za-z0-9])"),
    _token("aws-key", "ABSK", r"[A-Za-z0-9+/]{100,}={0,2}"),
    _token("aws-key", "bedrock-api-key-", r"YmVkcm9jay5hbWF6b25hd3MuY29t[A-Za-z0-9+/=]*"),
    _token("aws-key", "amzn.mws.", r"[0-9a-f-]{36}"),
    _token("npm-token", "npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _token("pypi-token", "pypi-", r"[\w-]{50,}"),
    _token("huggingface-token", "hf_", r"[A-Za-z]{34}(?![A-Za-z0-9])"),
    _token("huggingface-token", "api_org_", r"[A-Za-z]{34}"),
    _token("sendgrid-key", "SG.", r"[\w-]{22}\.[\w-]{43}(?![\w-])"),
    _token("twilio-key", "SK", r"[0-9a-f]{32}(?![A-Za-z0-9])"),
    _token("twilio-key", "AC", r"[0-9a-f]{32}(?![A-Za-z0-9])"),
    _token("mailgun-key", "key-", r"[0-9a-f]{32}(?![A-Za-z0-9])"),
    _token("digitalocean-token", "do", r"[opr]_v1_[0-9a-f]{64}(?![A-Za-z0-9])"),
    _token("shopify-token", "shp", r"(?:at|ca|pa|ss|tk|ua)_[0-9A-Fa-f]{32}(?![A-Za-z0-9])"),
    _token("databricks-token", "dapi", r"[0-9A-Fa-f]{32}(?:-\d)?(?![A-Za-z0-9])"),
    _token("linear-key", "lin_", r"(?:api|oauth)_[A-Za-z0-9]{32,}"),
    _token("notion-key", "ntn_", r"\d{11}[A-Za-z0-9]{35}(?![A-Za-z0-9])"),
    _token("notion-key", "secret_", r"[A-Za-z0-9]{43}(?![A-Za-z0-9])"),
    _token("doppler-token", "dp.", r"(?:ct|pt|st|sa|scim|audit)\.(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    _token("postman-key", "PMAK-", r"[0-9A-Fa-f]{24}-[0-9A-Fa-f]{34}(?![A-Za-z0-9])"),
    _token("vault-token", "hv", r"[bsr]\.[\w-]{24,}"),
    _token("vault-token", "s.", r"[A-Za-z0-9]{24,26}(?![\w.-])"),
    _token("vault-token", "r.", r"[A-Za-z0-9]{24,26}(?![\w.-])"),
    _token("vault-token", "s.CAES", r"[\w-]{60,}"),
    _token("age-key", "AGE-SECRET-KEY-", r"1[A-Z0-9]{50,}"),
    _token("onepassword-key", "ops_eyJ", r"[\w+/=-]{60,}"),
    _token("onepassword-key", "A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{6}-[A-Z0-9]{5}|[A-Z0-9]{11})(?:-[A-Z0-9]{5}){3}"),
    _token("cloudflare-key", "v1.0-", r"[0-9a-f]{24}-[0-9a-f]{100,}"),
    _token("docker-token", "dckr_", r"(?:pat|oat)_[\w-]{24,}"),
    _token("groq-key", "gsk_", r"[A-Za-z0-9]{52}(?![A-Za-z0-9])"),
    _token("xai-key", "xai-", r"[A-Za-z0-9]{60,}"),
    _token("perplexity-key", "pplx-", r"[A-Za-z0-9]{48}(?![A-Za-z0-9])"),
    _token("replicate-key", "r8_", r"[A-Za-z0-9]{37}(?![A-Za-z0-9])"),
    _token("tavily-key", "tvly-", r"[A-Za-z0-9-]{30,}"),
    _token("jina-key", "jina_", r"[\w]{40,}"),
    _token("grafana-token", "gls", r"a_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}(?!\w)"),
    _token("grafana-token", "glc_", r"[A-Za-z0-9+/]{32,}={0,2}"),
    _token("grafana-token", "eyJrIjoi", r"[A-Za-z0-9+/_-]{40,}={0,2}"),
    _token("sentry-token", "sntry", r"[su]_[\w+/=-]{40,}"),
    _token("newrelic-key", "NR", r"(?:AK|AA|II|IQ|JS|RA|SP)-[\w-]{19,}"),
    _token("atlassian-token", "AT", r"[AC]TT3[\w=-]{60,}"),
    _token("atlassian-token", "ATBB", r"[\w-]{24,}"),
    _token("facebook-token", "EAA", r"[A-Za-z0-9]{60,}"),
    _token("square-token", "sq0", r"[a-z]{3}-[\w-]{22,}"),
    _token("heroku-key", "HRKU-", r"AA[\w-]{58}(?![\w-])"),
    _token("planetscale-token", "pscale_", r"(?:pw|tkn|oauth)_[\w=.-]{32,}"),
    _token("supabase-token", "sbp_", r"[0-9a-f]{40}(?![A-Za-z0-9])"),
    _token("supabase-token", "sb_secret_", r"[\w-]{20,}"),
    _token("netlify-token", "nfp_", r"[A-Za-z0-9]{36,}"),
    _token("vercel-token", "vc", r"[a-z]_[A-Za-z0-9]{24,}"),
    _token("fly-token", "fo1_", r"[\w-]{40,}"),
    _token("fly-token", "fm2_", r"[A-Za-z0-9+/=]{60,}"),
    _token("figma-token", "fig", r"[a-z]_[\w-]{36,}"),
    _token("dropbox-token", "sl.", r"[\w-]{60,}"),
    _token("dynatrace-token", "dt0", r"[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _token("pulumi-token", "pul-", r"[0-9a-f]{40}(?![A-Za-z0-9])"),
    _token("rubygems-token", "rubygems_", r"[0-9a-f]{48}(?![A-Za-z0-9])"),
    _token("clojars-token", "CLOJARS_", r"[0-9a-f]{60}(?![A-Za-z0-9])"),
    _token("cargo-token", "cio", r"[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _token("nuget-key", "oy2", r"[a-z0-9]{43}(?![A-Za-z0-9])"),
    _token("readme-key", "rdme_", r"[a-z0-9]{70}(?![A-Za-z0-9])"),
    _token("prefect-key", "pn", r"[ub]_[A-Za-z0-9]{36}"),
    _token("sendinblue-key", "xkeysib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    _token("flutterwave-key", "FLWSECK", r"(?:_TEST)?-[0-9A-Za-z]{12,}(?:-X)?"),
    _token("shippo-token", "shippo_", r"(?:live|test)_[0-9a-fA-F]{40}"),
    _token("duffel-token", "duffel_", r"(?:live|test)_[\w=-]{40,}"),
    _token("frameio-token", "fio-u-", r"[\w=-]{60,}"),
    _token("easypost-key", "EZ", r"[AT]K[A-Za-z0-9]{54}"),
    _token("typeform-token", "tfp_", r"[\w.=-]{40,}"),
    _token("settlemint-token", "sm_", r"(?:pat|aat|sat)_[A-Za-z0-9]{16,}"),
    _token("harness-key", "sat.", r"[\w-]{22}\.[0-9A-Za-z]{24}\.[0-9A-Za-z]{20}"),
    _token("harness-key", "pat.", r"[\w-]{22}\.[0-9A-Za-z]{24}\.[0-9A-Za-z]{20}"),
    _token("adafruit-key", "aio_", r"[A-Za-z0-9]{28}"),
    _token("plaid-token", "access-", r"(?:sandbox|development|production)-[0-9a-f-]{36}"),
    _token("openshift-token", "sha256~", r"[\w-]{43}"),
    _token("yandex-key", "AQVN", r"[\w-]{35,}"),
    _token("yandex-key", "YC", r"[a-zA-Z0-9_-]{38}(?![\w-])"),
    _token("yandex-key", "t1.", r"[A-Z0-9a-z_-]+=*\.[A-Z0-9a-z_-]{86}={0,2}"),
    _token("artifactory-token", "AP", r"(?:[2-9][A-Za-z0-9]{10,}|[A-F][A-Za-z0-9]{60,})"),
    _token("artifactory-token", "AKC", r"[a-zA-Z0-9]{10,}"),
    _token("artifactory-token", "cmVmd", r"[A-Za-z0-9]{59}(?![A-Za-z0-9])"),
    _token("stackhawk-key", "hawk.", r"[\w-]{20}\.[\w-]{20}"),
    _token("dtrack-key", "odt_", r"[A-Za-z0-9_]{32,}"),
    _token("infracost-key", "ico-", r"[A-Za-z0-9]{32}"),
    _token("contentful-token", "CFPAT-", r"[\w-]{43}"),
    _token("airtable-token", "pat", r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _token("mapbox-token", "sk.eyJ", r"[\w-]{40,}(?:\.[\w-]{10,})?"),
    _token("langsmith-key", "lsv2_", r"(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    _token("brevo-key", "xsmtpsib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    _token("sonarqube-token", "sq", r"[apu]_[0-9a-f]{40}(?![A-Za-z0-9])"),
    _token("terraform-token", "atlasv1", r"\.[\w-]{60,}"),
)

_OKTA_VALUE = r"[^\n]{0,40}?[\s\"':=](?P<secret>00[\w-]{40})(?![\w-])"

SHAPES: tuple[Rule, ...] = (
    Rule("phone", "+", r"\+(?<![\w.+/)-].)\d{1,3}(?:[ .-]\(?\d{2,4}\)?){2,4}(?![\w.-])"),
    Rule("phone", "+", r"\+(?<=[ :\"'(].)[1-9]\d{10,13}(?!\w)"),
    Rule(
        "private-key",
        "PRIVATE KEY",
        r"-----BEGIN[^\n-]{0,40}PRIVATE KEY[^\n-]{0,10}-----"
        r"(?:(?:[^-\[]++|\[(?:REDACTED:[\w-]{1,40}\])?+)*+-----END[^\n-]{0,60}-----|[\s\\\"'n+]{0,80}[A-Za-z0-9+/=]{16,}[A-Za-z0-9+/=\s\\\"']*)",
    ),
    Rule(
        "private-key", "PRIVATE KEY", r"-----BEGIN PGP PRIVATE KEY BLOCK-----[\s\S]{0,20000}?-----END[^\n-]{0,60}-----"
    ),
    Rule("private-key", "Private-Lines:", r"Private-Lines: \d+\s+(?P<secret>[A-Za-z0-9+/=\s]+)"),
    Rule("private-key", "LS0tLS1CRUdJTi", r"LS0tLS1CRUdJTi(?!BDRVJU|BQVUJM)[A-Za-z0-9+/=]{20,}"),
    Rule("jwt", "ey", r"ey(?<![A-Za-z0-9]ey)[A-Za-z0-9_-]{15,}\.ey[\w\\/-]{15,}(?:\.[\w\\/=-]{8,})?"),
    Rule(
        "url-password",
        "://",
        r"://(?P<user>[^\s/:@'\"<>]{0,80}):(?!(?P=user)@)(?P<secret>[^\s'\"<>/]{1,200})@(?=[\w\[%*({.-])",
    ),
    Rule("url-password", "://", r"://(?P<secret>[A-Za-z0-9_-]{20,200})@(?=[\w.-]+\.)"),
    Rule("auth-header", "earer", r"[Bb]earer[: ]\s{0,3}[\"']?(?P<secret>[\w.~+/-]{16,}={0,2})"),
    Rule("auth-header", "asic ", r"[Bb]asic\s{1,3}(?P<secret>[A-Za-z0-9+/]{8,}={0,2})"),
    Rule(
        "auth-header",
        "uthorization",
        r"uthorization[\"']?\s{0,3}[:=,]\s{0,3}[\"'`]?(?:[A-Za-z-]{3,20}\s{1,3})?(?P<secret>[\w.~+/!:-]{8,}={0,2})",
    ),
    Rule(
        "slack-webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w+/-]{20,})",
    ),
    Rule("discord-webhook", "/api/webhooks/", r"/api/webhooks/(?P<secret>\d{15,20}/[\w-]{40,})"),
    Rule("teams-webhook", "/IncomingWebhook/", r"webhook(?:b2)?/(?P<secret>[\w@/-]{36,}/IncomingWebhook/[\w/-]{32,})"),
    Rule("discord-token", ".", r"[MNO](?<![\w-].)[\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])"),
    Rule("telegram-token", ":AA", r"\d(?<![A-Za-z0-9].)\d{7,9}:AA[\w-]{32,}"),
    Rule("azure-key", "Q~", r"[\w~.-](?<![\w~.-].)[\w~.-]{2}\dQ~[\w~.-]{31,34}(?![\w~.-])"),
    Rule("azure-key", "AZDO", r"[A-Za-z0-9](?<![A-Za-z0-9].)[A-Za-z0-9]{75}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])"),
    Rule("okta-token", "kta", r"kta(?<![A-Za-z][Oo]kta)(?<=[Oo]kta)" + _OKTA_VALUE),
    Rule("okta-token", "OKTA", r"OKTA(?<![A-Za-z]OKTA)" + _OKTA_VALUE),
    Rule("azure-key", "sig=", r"[?&]sig=(?P<secret>[A-Za-z0-9%+/=]{40,})"),
    Rule("newrelic-key", "NRAL", r"[A-Za-z0-9](?<![A-Za-z0-9].)[A-Za-z0-9]{35}NRAL(?![A-Za-z0-9])"),
    Rule("maxmind-key", "_mmk", r"[A-Za-z0-9](?<![A-Za-z0-9].)[A-Za-z0-9]{5}_[A-Za-z0-9]{29}_mmk"),
    Rule("softlayer-key", "api.softlayer.com", r"api\.softlayer\.com/soap/v\d[\d.]*/(?P<secret>[0-9a-z]{64})"),
    Rule("codeclimate-token", "REPORTER_ID", r"REPORTER_ID[\"']?\s?[:=]\s?[\"']?(?P<secret>[0-9a-f]{64})"),
    Rule("mailchimp-key", "-us", r"[0-9a-f](?<![A-Za-z0-9].)[0-9a-f]{31}-us\d{1,2}(?!\w)"),
    Rule("salesforce-token", "!", r"00(?<![A-Za-z0-9]00)[A-Za-z0-9]{13}![\w.]{80,}"),
    Rule("truenas-key", "api_key", r"\d(?<![\w-].)\d{0,2}-[A-Za-z0-9]{64}(?!\w)"),
    Rule("facebook-token", "|", r"\d(?<!\w.)\d{14,15}\|[\w-]{27,40}(?!\w)"),
    Rule(
        "password-hash",
        "$",
        r"\$(?<![\w$].)(?:1|5|6|apr1|sha1|md5)\$(?:rounds=\d{1,9}\$)?[\w./-]{1,20}\$[\w./-]{22,90}",
    ),
    Rule("password-hash", "$2", r"\$(?<![\w$].)2[abxy]?\$\d\d\$[\w./]{53}"),
    Rule("password-hash", "$argon2", r"\$argon2(?:id|i|d)\$[\w=,$+/-]{30,}"),
    Rule("password-hash", "pbkdf2_", r"pbkdf2_sha\d{1,3}\$\d{1,8}\$[\w./+]{4,40}\$[\w+/=]{28,90}"),
    Rule(
        "credential",
        "redential(",
        r"NetworkCredential\(\s{0,3}\"[^\"\n]{0,100}\",\s{0,3}\"(?P<secret>[^\"\n]{1,200})\"",
    ),
    Rule(
        "password",
        "curl",
        r"curl(?=\s)(?:(?!curl\s)(?:[^\n]|(?<=\\)\n)){0,1500}?"
        r"\s(?:-u|--user|-U|--proxy-user)[ =]{0,3}[\"']?[^\s\"':]{0,200}"
        r"[\"']?:[\"']?(?P<secret>[^\s\"']{3,200})",
    ),
    Rule(
        "password",
        "curl",
        r"curl(?=\s)(?:(?!curl\s)[^\n]){0,400}?\s(?:-u|--user)[ =]{0,3}[\"']?(?P<secret>[^\s\"':$]{8,200}):[\"'\s]",
    ),
    Rule("password", "mysql", r"mysql(?:dump|admin)?\s[^\n]{0,200}?\s-p(?P<secret>[^\s\"'$]{3,200})"),
    Rule(
        "password",
        "assword ",
        r"assword (?:for|of)\s[^\n]{1,60}? is [\"'`](?P<secret>[^\s\"'`]{3,200})[\"'`]",
    ),
    Rule(
        "sonarqube-token",
        "sonar",
        r"sonar[\w.-]{0,20}(?:login|token)[\"']?\s{0,3}(?:=>?|:|,)\s{0,3}[\"']?(?P<secret>[0-9a-f]{40})(?!\w)",
    ),
    Rule("password", "sshpass", r"sshpass\s{1,3}-p\s{0,3}[\"']?(?P<secret>[^\s\"']{3,200})"),
)

PERSONAL: tuple[Rule, ...] = (
    Rule("phone", "-", r"[2-9](?<![\w.+/(-].)\d\d[- ][2-9]\d\d-\d{4}(?![\w-])"),
    Rule("phone", "-", r"1(?<![\w.+/-].)-[2-9]\d\d-[2-9]\d\d-\d{4}(?![\w-])"),
    Rule("phone", ") ", r"\([2-9]\d\d\) [2-9]\d\d-\d{4}(?![\w-])"),
    Rule("phone", ".", r"[2-9](?<![\w.+/-].)\d\d\.[2-9]\d\d\.\d{4}(?![\w.-])"),
    Rule("ssn", "-", r"\d(?<![\w.-].)(?<!9)\d\d-(?!00)\d\d-(?!0000)\d{4}(?![\w.-])"),
)

DIGIT_GROUPS = r"\d{3}\)?[-. ]\d{2,3}[-. ]\d{4}"
LONG_WORD = r"[^\s\"'<>(),;`]{13,}"

MAIL_DOMAIN = r"@(?<=[\w.+%-]@)(?P<domain>[\w-]{1,63}(?:\.[\w-]{1,63}){0,5}\.[A-Za-z]{2,24})(?![\w-])"
MAIL_LOCAL = r"\w[\w.+%-]{0,63}\Z"
PUBLIC_MAIL_DOMAINS = ("example.com", "example.org", "example.net", "noreply.github.com", "localhost.localdomain")
RESERVED_TOP_LEVELS = frozenset({"example", "invalid", "localhost", "local", "test"})

# A run is tried once and whole: a shorter piece of it could not match either, and trying them all is quadratic.
ENTROPY_TOKEN = r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{32,}+={0,2}+(?![A-Za-z0-9+/_=-]|\.\.\.)"
SECRET_WORD_NEAR = r"(?i)(?:secret|token|passw|credential|auth|api.?key|access.?key)[^\n]{0,80}(?:\n[^\n]{0,40})?\Z"


def _words(listing: str) -> frozenset[str]:
    return frozenset(listing.split())


ASSIGNMENT_HINTS = ("pass", "pwd", "secret", "token", "credential", "key", "auth", "login", "_pat")
PASSWORD_WORDS = _words("password passwd passphrase passcode passwort pwd pass")
WEAK_WORDS = frozenset({"login", "auth"})
# What is left alone, as the record of a calibration tells it.
EXEMPTIONS = (
    "commit hashes, digests and UUIDs that no name marks as secret",
    "paths, URLs without credentials, dotted names, versions",
    "placeholders, templates, references to variables, masked and hand-typed samples",
    "public, CSRF and paging tokens, publishable keys",
    "keys of a known vendor with the wrong length, alphabet or structure",
    "drawn characters without a word for a secret close before them",
    "addresses of reserved domains and of git remotes",
)
LOOKUP_QUALIFIERS = _words(
    "cache primary foreign partition sort bucket object schema index row map hash content file group routing item "
    "registry composite kms id session lookup unique dedup idempotency natural host dict name translation i18n"
)
KEY_QUALIFIERS = _words(
    "api access secret private account shared preshared encryption signing master license licence auth client "
    "server service app subscription storage deploy insert io developer consumer"
)
NEUTRAL_TAILS = _words(
    "base base64 b64 b prod production dev test live staging value default string str text sid old new current "
    "plain clear env here primary secondary"
)
PUBLIC_QUALIFIERS = _words(
    "public csrf xsrf csrfmiddleware total max min num page next pad eos bos unk mask sep cls stop start end "
    "continuation cancellation cancel sync syntax lexer current peek prev previous no not non"
)

PLACEHOLDER_WORDS = _words(
    "password passwd passphrase pass passcode pwd pw secret token key apikey user username name string str text "
    "bytes int integer number bool boolean true false none null nil undefined void any object unknown never "
    "optional required hidden missing invalid empty default changeme changeit todo tbd fixme test testing example "
    "sample dummy fake mock foo bar baz value auto yes no on off enabled disabled self cls private public "
    "redacted masked hash credentials login auth bearer basic type read write admin-password file env prompt"
)
PLACEHOLDER_PARTS = (
    "your",
    "example",
    "placeholder",
    "changeme",
    "change-me",
    "change_me",
    "replace",
    "insert",
    "redacted",
    "dummy",
    "not_a_real",
    "notareal",
    "xxxx",
    "****",
    "....",
    "<",
    "my-secret",
    "my_secret",
    "...",
    "####",
    "todo",
)
