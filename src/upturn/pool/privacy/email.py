"""E-mail addresses, also with letters beyond ASCII, and written with "(at)" and "(dot)".

Not reported: domains that are reserved for examples (RFC 2606 and 6761: .example, .test, .invalid, .localhost,
example.com, .net, .org), and ``git@host``, the user of version control.
"""

import re
from collections.abc import Iterator

from upturn.pool.privacy.finding import Finding

_LOCAL = re.compile(r"(?:\"[^\"\\\n]{1,62}\"|\w[\w.+'’&-]{0,62}|\w)$")
_DOMAIN = re.compile(
    r"(?:[^\W_](?:[^\W_]|-){0,62}\.){1,8}(?:xn--[A-Za-z0-9-]{2,59}|[^\W\d_]{2,24})(?![^\W_]|-\w)"
    r"|\[\d{1,3}(?:\.\d{1,3}){3}\]"
)
_SPELLED = re.compile(
    r"[\w.+-]{1,64}\s?[\[({]\s?at\s?[\])}]\s?(?:[\w-]{1,63}\s?(?:\.|[\[({]\s?dot\s?[\])}])\s?){1,4}[A-Za-z]{2,24}\b",
    re.IGNORECASE,
)
_NOBODY = re.compile(r"(?:git|key-[0-9a-f]{12})$")
"""The user of version control, and the pseudonym of credentials in a URL."""
_USER_OF_URL = re.compile(r"://[^\s/:@]{1,60}:$")
"""What comes before the password in a URL: a secret, and no address."""
_SPELLED_HINTS = ("at)", "at]", "at}", "at )", "at ]", "AT)", "AT]")
_RESERVED_TOP = frozenset({"example", "test", "invalid", "localhost"})
_RESERVED_SECOND = frozenset({"example.com", "example.net", "example.org"})
_LONGEST_LOCAL = 64


def emails(text: str) -> Iterator[Finding]:
    """Yields e-mail addresses."""
    at = text.find("@")
    while at >= 0:
        domain = _DOMAIN.match(text, at + 1)
        if domain is not None and not _is_reserved(domain[0]):
            local = _LOCAL.search(text[max(0, at - _LONGEST_LOCAL) : at])
            start = at - len(local[0]) if local is not None else at
            is_password = _USER_OF_URL.search(text[max(0, start - _LONGEST_LOCAL) : start])
            if local is not None and not is_password and not _NOBODY.match(local[0]):
                # after a backslash, the first letter is that of an escape, such as a new line
                is_escaped = text[start - 1 : start] == "\\" and local[0][0] in "nrtbf" and len(local[0]) > 1
                yield Finding("email", start + is_escaped, domain.end())
        at = text.find("@", at + 1)
    if any(hint in text for hint in _SPELLED_HINTS):
        for match in _SPELLED.finditer(text):
            yield Finding("email", match.start(), match.end())


def _is_reserved(domain: str) -> bool:
    labels = domain.lower().split(".")
    return labels[-1] in _RESERVED_TOP or ".".join(labels[-2:]) in _RESERVED_SECOND
