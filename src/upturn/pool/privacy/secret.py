"""Secrets: keys of services by their prefixes, web tokens, private keys, passwords next to their name, URLs with
credentials.

Not reported: what only stands for a value (``password=required``, ``<KEY>``, ``$TOKEN``), the publishable keys of
services, and the pseudonyms of secrets (``key-`` and twelve hexadecimal digits).
"""

import re
from collections.abc import Iterator

from upturn.pool.privacy.finding import Finding
from upturn.pool.privacy.words import ends_of, lowered

_WORD = "[A-Za-z0-9_-]"
_PREFIXES = (
    rf"sk-(?:[A-Za-z]+-)*{_WORD}{{20,200}}",  # OpenAI, Anthropic, OpenRouter and imitations
    rf"up-[0-9a-f]{{12}}-{_WORD}{{43}}",  # Upturn
    r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,200}|whsec_[A-Za-z0-9+/=]{20,100}",  # Stripe
    r"gh[oprsu]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{22,255}",
    rf"gl(?:pat|dt|ptt|rt|soat|cbt|agent|ft|imt)-{_WORD}{{20,100}}",  # GitLab
    r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9.-]{10,300}",  # Slack
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}",  # Amazon
    rf"AIza{_WORD}{{35}}|GOCSPX-{_WORD}{{28}}|ya29\.[A-Za-z0-9._-]{{20,400}}",  # Google
    r"[A-Za-z0-9_~.]{3}8Q~[A-Za-z0-9_~.-]{31,34}",  # Azure: client secret
    r"hf_[A-Za-z0-9]{30,100}|npm_[A-Za-z0-9]{36}",  # Hugging Face
    rf"pypi-AgE{_WORD}{{50,400}}",
    r"(?:SK|AC)[0-9a-f]{32}",  # Twilio
    rf"SG\.{_WORD}{{16,32}}\.{_WORD}{{32,64}}",  # SendGrid
    rf"\d{{8,10}}:AA{_WORD}{{33}}",  # Telegram bot
    rf"[MNO][A-Za-z0-9_-]{{23,27}}\.{_WORD}{{6}}\.{_WORD}{{27,40}}",  # Discord bot
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",  # Shopify
    rf"sq0(?:atp|csp|idp)-{_WORD}{{22,60}}|EAAA{_WORD}{{56,64}}",  # Square
    r"do[opr]_v1_[0-9a-f]{64}",  # DigitalOcean
    r"dapi[0-9a-f]{32}(?:-\d)?|dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,60}",  # Databricks, Doppler
    r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}",  # Linear
    r"(?:ntn_|secret_)[A-Za-z0-9]{40,60}",  # Notion
    r"key-[0-9a-f]{32}|[0-9a-f]{32}-us\d{1,2}",  # Mailgun, Mailchimp
    r"gsk_[A-Za-z0-9]{40,60}|r8_[A-Za-z0-9]{30,45}|pplx-[A-Za-z0-9]{40,60}|xai-[A-Za-z0-9]{60,100}",
    rf"(?:hvs|hvb|hvr)\.{_WORD}{{20,200}}",  # HashiCorp Vault
    r"(?:NRAK|NRJS|NRII)-?[A-Za-z0-9_-]{20,50}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}",  # New Relic, Postman
    r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|sntry[su]_[A-Za-z0-9+/=_-]{40,200}",  # Grafana, Sentry
    r"dckr_pat_[A-Za-z0-9_-]{20,40}|figd_[A-Za-z0-9_-]{20,60}|pscale_tkn_[A-Za-z0-9_.-]{32,64}",
    r"rubygems_[0-9a-f]{48}|ATATT3[A-Za-z0-9_=-]{60,250}|AGE-SECRET-KEY-1[A-Z0-9]{58}",
    rf"eyJ{_WORD}{{10,2000}}\.eyJ{_WORD}{{10,2000}}\.{_WORD}{{10,2000}}",  # JSON web token
)
_CANDIDATE = re.compile(r"[A-Za-z0-9](?<![A-Za-z0-9].)[A-Za-z0-9_.:~-]{15,}")
"""Words that are long enough for a key; only these are compared with the prefixes."""
_KEY = re.compile(f"(?:{'|'.join(_PREFIXES)})(?![A-Za-z0-9])")
_LATER_START = re.compile(r"(?<=[_.:~-])(?=[A-Za-z0-9])")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"  # with its body, even if that is cut off
    r"(?:[\s\S]{0,8000}?-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s]{0,8000})"
)
_AZURE_CONNECTION = re.compile(
    r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,90}={0,2})|[?&]sig=([\w%+/=-]{20,})"
)
_HEADER = re.compile(r"\s*([A-Za-z0-9._~+/-]{12,}={0,2})(?![A-Za-z0-9])")
_COOKIE = re.compile(r"(?:id)?=([A-Za-z0-9._~%+/-]{16,})", re.IGNORECASE)
_CREDENTIALS = re.compile(r"://([^\s/:@\"'<>]{1,100}:[^\s/@\"'<>]{1,200})@(?=[\w\[])")
_PASSWORD = re.compile(
    r"(?P<sign>[\"'`]?\s{0,3}(?::=|=>|=|:)\s{0,3}|\s(?:is|was|lautet|ist|es|est|to)(?: now|:)?\s)"
    r"(?P<quote>[\"'`]?)(?P<value>(?:[^\s\"'`<>,;&{}\[\]()]|&(?![\w-]{1,40}=|\w{2,8};)){4,200})",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"s?(?![a-z])[\w ]{0,20}"
    r"[\"'`]?\s{0,3}(?::=|=>|=|:|\bis\b)\s{0,3}[\"'`]?(?P<value>[A-Za-z0-9+/_.~-]{16,400}={0,2})",
    re.IGNORECASE,
)
_CARD_CODE = re.compile(
    r"(?:[\"':=#\s(]|is |code |number |value ){0,6}(?P<value>\d{3,4})(?![\d.])",
    re.IGNORECASE,
)
_STANDS_FOR_VALUE = re.compile(
    r"[$%<{*•]|key-[0-9a-f]{12}$|(?:your|my|the|a|new|old|example|string|required|optional|null|none|true|false"
    r"|password|passwort|secret|token|undefined|redacted|hidden|changed?|invalid|incorrect|reset|protected|expired"
    r"|missing|empty|os|env|process|self|config|getpass|str|input|hashed|text|value)(?![A-Za-z0-9]*\d)\b",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$|[a-z]+(?:_[a-z0-9]+)+$")
"""What a program may assign to a name that ends with ``token``: an attribute or a variable."""
_PASSWORD_WORDS = (
    "password",
    "passwd", "passphrase", "passwort", "kennwort", "contraseña", "contrasena", "mot de passe", "senha", "pwd",
    "密码",
)  # fmt: skip
_TOKEN_WORDS = ("secret", "token", "key", "credential")
_CARD_CODE_WORDS = ("cvv", "cvv2", "cvc", "cvc2", "card verification", "security code")
_HEADER_WORDS = ("bearer ", "basic ", "token ", "negotiate ", "digest ")
_COOKIE_WORDS = ("session_id", "session", "connect.sid", "sid")


def secrets(text: str) -> Iterator[Finding]:
    """Yields keys, tokens, passwords and other secrets."""
    for candidate in _CANDIDATE.finditer(text):
        yield from _keys(text, *candidate.span())
    if "-----BEGIN" in text:
        yield from (Finding("key", *match.span()) for match in _PRIVATE_KEY.finditer(text))
    if "://" in text and "@" in text:
        yield from (Finding("key", *match.span(1)) for match in _CREDENTIALS.finditer(text))
    lower = lowered(text)
    yield from _passwords(text, lower)
    yield from _tokens(text, lower)
    for end in ends_of(lower, _CARD_CODE_WORDS):
        if code := _CARD_CODE.match(text, end):
            yield Finding("key", *code.span("value"))
    if "sig=" in lower or "accesskey=" in lower or "accountkey=" in lower:
        yield from (Finding("key", *match.span(match.lastindex or 0)) for match in _AZURE_CONNECTION.finditer(text))


def _keys(text: str, start: int, stop: int) -> Iterator[Finding]:
    """Yields the keys in a long word; a key may follow a sign inside it, as in ``id:key``."""
    starts = [start, *(match.start() for match in _LATER_START.finditer(text, start, stop))]
    end = start
    for position in starts:
        if position >= end and (match := _KEY.match(text, position)):
            end = match.end()
            yield Finding("key", position, end)


def _passwords(text: str, lower: str) -> Iterator[Finding]:
    for end in ends_of(lower, _PASSWORD_WORDS):
        match = _PASSWORD.match(text, end)
        if match is None:
            continue
        value = match["value"] if match["quote"] else match["value"].rstrip(".:!?")
        if len(value) < 4 or _STANDS_FOR_VALUE.match(value):
            continue
        # "the password is wrong" and "password: str" are no secrets; "password=wrong" may be one
        is_word = value.isalpha() and (value.islower() or value.istitle())
        if not is_word or "=" in match["sign"] or (match["quote"] and len(value) >= 6):
            yield Finding("key", match.start("value"), match.start("value") + len(value))


def _tokens(text: str, lower: str) -> Iterator[Finding]:
    for words, pattern in ((_TOKEN_WORDS, _TOKEN), (_HEADER_WORDS, _HEADER), (_COOKIE_WORDS, _COOKIE)):
        for end in ends_of(lower, words):
            match = pattern.match(text, end)
            if match is None:
                continue
            value = match[1].rstrip(".")
            if _is_random(value) and not _STANDS_FOR_VALUE.match(value) and not _ATTRIBUTE.match(value):
                yield Finding("key", match.start(1), match.start(1) + len(value))


def _is_random(value: str) -> bool:
    """Whether the value mixes digits and letters, or cases inside a word, as no word of a language does."""
    letters = sum(character.isalpha() for character in value)
    has_digit = any(character.isdigit() for character in value)
    return (has_digit and letters > 3) or (
        value.isalpha() and not (value.islower() or value.isupper() or value[1:].islower())
    )
