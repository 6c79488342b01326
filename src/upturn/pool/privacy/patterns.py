"""Detection of personal data and secrets in texts, by patterns.

Covered: e-mail addresses, telephone numbers in international (+…) or North American form, payment card numbers
(issuer prefix and Luhn checksum) and the keys of common services. Not covered: names, postal addresses, dates of
birth, account numbers, numbers that are JSON numbers and not text, telephone numbers without + in the forms of
other countries, and anything in pictures or spelled out in words. A text without findings may still contain
personal data.

Not reported: addresses in domains that are reserved for examples (RFC 2606 and 6761: .example, .test, .invalid,
.localhost, example.com, .net, .org), and North American numbers reserved for fiction (555-0100 to 555-0199).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from upturn.records import JsonValue, Task, Trajectory

FindingKind = Literal["email", "phone", "card", "key"]


class Finding(NamedTuple):
    """The position of personal data or a secret in a text."""

    kind: FindingKind
    start: int
    stop: int


_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@((?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})(?![\w-])")
_PHONE = re.compile(
    r"(?<![\w+])(?:\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{2,4}(?:[ .-]?\d{2,4}){1,4}"
    r"|(?:1[ .-])?(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[.-]\d{4})(?![\w-])"
)
_CARD = re.compile(r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{2,6}){2,4}(?![\w-])")
_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?:[A-Za-z]+-)*[A-Za-z0-9_-]{20,200}"  # OpenAI, Anthropic and imitations
    r"|up-[0-9a-f]{12}-[A-Za-z0-9_-]{43}"  # Upturn
    r"|sk_live_[A-Za-z0-9]{16,200}"  # Stripe
    r"|gh[oprsu]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{22,255}"
    r"|glpat-[A-Za-z0-9_-]{20,100}"  # GitLab
    r"|hf_[A-Za-z0-9]{30,100}"  # Hugging Face
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}"  # Amazon
    r"|AIza[A-Za-z0-9_-]{35}"  # Google
    r"|xox[abprs]-[A-Za-z0-9-]{10,200}"  # Slack
    r"|eyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,2000}"  # JSON web token
    r")(?![A-Za-z0-9])"
    r"|-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY-----"  # with its body, even if that is cut off
    r"(?:[\s\S]{0,8000}?-----END (?:[A-Z]+ ){0,3}PRIVATE KEY-----|[A-Za-z0-9+/=\s]{0,8000})"
)
_RESERVED_TOP = frozenset({"example", "test", "invalid", "localhost"})
_RESERVED_SECOND = frozenset({"example.com", "example.net", "example.org"})
_FICTION = re.compile(r"555.?01\d\d$")
_CARD_LENGTHS = range(13, 20)
_PHONE_DIGITS = range(8, 16)
"""E.164 allows at most 15 digits; fewer than 8 are no international number."""


def findings(text: str) -> list[Finding]:
    """Returns the findings, ascending and disjoint; of two that overlap, the earlier and then the longer one."""
    matches = [*_emails(text), *_cards(text), *_phones(text)]
    matches += [Finding("key", match.start(), match.end()) for match in _KEY.finditer(text)]
    matches.sort(key=lambda finding: (finding.start, -finding.stop))
    disjoint: list[Finding] = []
    for finding in matches:
        if not disjoint or finding.start >= disjoint[-1].stop:
            disjoint.append(finding)
    return disjoint


def redact(text: str) -> str:
    """Returns the text with every finding replaced by its kind, e.g. ``<EMAIL>``; the result has no findings."""
    # A replacement can create a new finding next to it; each pass leaves fewer digits and @ signs.
    while matches := findings(text):
        pieces: list[str] = []
        end = 0
        for finding in matches:
            pieces += [text[end : finding.start], f"<{finding.kind.upper()}>"]
            end = finding.stop
        text = "".join([*pieces, text[end:]])
    return text


def redact_json(value: JsonValue) -> JsonValue:
    """Returns the JSON value with every text in it redacted; keys stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redact_json(item) for item in value]
    if isinstance(value, dict):
        return {name: redact_json(item) for name, item in value.items()}
    return value


def has_findings(task: Task, trajectory: Trajectory) -> bool:
    """Returns whether the task's instruction or context, or any text in the trajectory, has a finding."""
    return any(findings(text) for text in _texts(task, trajectory))


def _texts(task: Task, trajectory: Trajectory) -> Iterator[str]:
    yield task.instruction
    yield from _strings(task.context)
    for turn in trajectory.turns:
        yield turn.observation.text
        yield turn.text
        if turn.action is not None:
            yield turn.action.thought
            yield from _strings(turn.action.parameters)
    yield trajectory.final_observation.text
    yield from _strings(trajectory.final_state)
    yield trajectory.error


def _strings(value: JsonValue | Mapping[str, JsonValue]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings(item)


def _emails(text: str) -> Iterator[Finding]:
    if "@" not in text:
        return
    for match in _EMAIL.finditer(text):
        labels = match[1].lower().split(".")
        if labels[-1] not in _RESERVED_TOP and ".".join(labels[-2:]) not in _RESERVED_SECOND:
            yield Finding("email", match.start(), match.end())


def _phones(text: str) -> Iterator[Finding]:
    for match in _PHONE.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if len(digits) in _PHONE_DIGITS and not _FICTION.search(digits):
            yield Finding("phone", match.start(), match.end())


def _cards(text: str) -> Iterator[Finding]:
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if len(digits) in _CARD_LENGTHS and _has_luhn_checksum(digits):
            yield Finding("card", match.start(), match.end())


def _has_luhn_checksum(digits: str) -> bool:
    """Returns whether the digits pass the Luhn check (ISO/IEC 7812-1)."""
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + index % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0
