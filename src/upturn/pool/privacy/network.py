"""Addresses of devices: IPv4, IPv6 and MAC.

Not reported: addresses that name nobody on the internet (private, loopback, link-local, documentation,
benchmarking and reserved ranges), public resolvers, parts of version numbers, the null and the broadcast MAC, and
MACs that start with 02:00:00, which no manufacturer has.
"""

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from upturn.pool.privacy.finding import Finding

_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?![\w-]|\.\d)")
_VERSION = re.compile(r"(?:[A-Za-z]/|(?:version|release|build|v|ver)\.?:?\s?)$", re.IGNORECASE)
_IPV6 = re.compile(r"[23][0-9A-Fa-f]{0,3}:[0-9A-Fa-f:]{2,34}(?::\d{1,3}(?:\.\d{1,3}){3})?(?![\w:])")
_MAC = re.compile(
    r"(?<![\w:.-])(?:[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}"
    r"|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4})(?![\w:-]|\.\w)"
)
_MAC_HINT = re.compile(r"[:-][0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){4}|\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}")
"""Much faster than ``_MAC``, because it starts with a rare character."""
_RESOLVERS = frozenset({"8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9"})
_NOBODYS_MAC = ("000000000000", "ffffffffffff", "020000")


def addresses(text: str) -> Iterator[Finding]:
    """Yields IP and MAC addresses."""
    for match in _IPV4.finditer(text) if text.count(".") >= 3 else ():
        before = text[max(0, match.start() - 9) : match.start()]
        if _is_start(before) and _is_public_ipv4(match[0]) and not _VERSION.search(before):
            yield Finding("ip", match.start(), match.end())
    for match in _IPV6.finditer(text) if text.count(":") >= 2 else ():
        if _is_start(text[max(0, match.start() - 1) : match.start()], ":") and _is_public_ipv6(match[0]):
            yield Finding("ip", match.start(), match.end())
    for match in _MAC.finditer(text) if _MAC_HINT.search(text) else ():
        if not re.sub(r"[:.-]", "", match[0]).lower().startswith(_NOBODYS_MAC):
            yield Finding("mac", match.start(), match.end())


def _is_start(before: str, more: str = "") -> bool:
    """Whether no word or number goes on after ``before``."""
    last = before[-1:]
    return not last.isalnum() and (not last or last not in "_.-" + more)


def _is_public_ipv4(address: str) -> bool:
    if address in _RESOLVERS:
        return False
    try:
        parsed = IPv4Address(address)
    except AddressValueError:
        return False
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved


def _is_public_ipv6(address: str) -> bool:
    try:
        return IPv6Address(address).is_global
    except AddressValueError:
        return False
