"""Pseudonyms: what stands for an identifier in all exports of a tenant, made with the tenant's key.

The same identifier in any spelling has the same pseudonym; with another key it has another one. Without the key
nobody can compute a pseudonym, or tell whether two of them were made from the same identifier under different keys.

| kind | pseudonym | how many |
|---|---|---|
| email | ``u`` and 12 letters or digits ``@example.com`` | 2^60 |
| phone | a number of North America that is reserved for fiction, in the form of the original | 80,000 |
| card | 424242…, with a valid checksum, of the same length and grouping | 10^6 for 16 digits |
| iban | of the same country and length, with a valid checksum, bank 0000 | at least 10^5 |
| id | letters for letters and digits for digits, starting with X or 99, never a valid number | 10^4 and more |
| ip | 198.18.0.0/15 (benchmarking) or 2001:db8::/32 (documentation) | 131,072; 2^96 |
| mac | 02:00:00:… | 2^24 |
| birth_date | 1 January of the year | a year is no pseudonym, but less exact |
| key | ``key-`` and 12 hexadecimal digits | 2^48 |
| person, address, organisation | a made-up word for each word, digits for digits | 512,000 words |

Where few pseudonyms exist, two identifiers may get the same one. Detection knows pseudonyms and does not report
them.
"""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from urllib.parse import quote

from upturn.pool.privacy.detection import findings
from upturn.pool.privacy.encoding import decodings
from upturn.pool.privacy.finding import NAME_KINDS, FindingKind
from upturn.pool.privacy.marks import mark_card, mark_iban, mark_id
from upturn.pool.privacy.national_id import is_number_of_person
from upturn.pool.privacy.replacement import mask
from upturn.pool.privacy.tagger import made_name

KEY_BYTES = 32
_ATTEMPTS = 200
"""Candidates that are tried until one looks like nobody's number; each fails with a probability of at most .95."""
_GROUPS: Mapping[FindingKind, Sequence[Sequence[int]]] = {
    "card": ((4, 4, 4, 4), (4, 6, 5), (4, 4, 4, 4, 3), (4, 6, 4)),
    "iban": ((4,) * 8,),
    "id": ((3, 2, 4), (3, 3, 3), (3, 3, 3, 2), (2, 2, 2, 3, 2), (2, 2, 2, 2, 1), (4, 4, 4), (1, 2, 2, 2, 3, 3, 2)),
}
"""Sizes of the groups that numbers are written in."""
_YEAR = re.compile(r"(?:19|20)\d\d")
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


class Pseudonymiser:
    """Returns the pseudonym of a finding; a ``Replacer``."""

    def __init__(self, key: bytes) -> None:
        """``key`` is secret, of ``KEY_BYTES`` bytes."""
        self._key = key

    def __call__(self, kind: FindingKind, text: str) -> str:
        """Returns what stands for the text of a finding, as it stands in its text."""
        plain = text
        for layers in decodings(text):
            plain = layers[-1].text
        if kind in NAME_KINDS:
            name = made_name(kind, plain, lambda word: _Stream(self._key, f"name\0{word}").below)
            return _encoded_as(text, plain, name) if not findings(name) else mask(kind, text)
        identifier = _normal_form(kind, plain)
        for attempt in range(_ATTEMPTS):
            stream = _Stream(self._key, f"{kind}\0{identifier}\0{attempt}")
            candidate = _MAKERS[kind](plain, stream)
            if not any(findings(spelt) or is_number_of_person(spelt) for spelt in _spellings(kind, candidate)):
                return _encoded_as(text, plain, candidate)
        return mask(kind, text)


def _encoded_as(text: str, plain: str, candidate: str) -> str:
    """Returns the pseudonym percent-encoded if the original is."""
    return quote(candidate, safe=" ()") if "%" in text and plain != text else candidate


def _spellings(kind: FindingKind, candidate: str) -> Iterator[str]:
    """Yields usual spellings of a pseudonym, the same ones for all spellings of the original."""
    if kind not in _GROUPS:
        yield candidate
        return
    plain = _plain(candidate)
    yield plain
    for sizes in _GROUPS[kind]:
        if kind == "iban" or sum(sizes) == len(plain):
            bounds = list(accumulate(sizes, initial=0))
            groups = [plain[start:stop] for start, stop in pairwise(bounds) if plain[start:stop]]
            yield from (separator.join(groups) for separator in " -.")


class _Stream:
    """Numbers that follow from a key and a text."""

    def __init__(self, key: bytes, text: str) -> None:
        digest = hmac.new(key, text.encode(errors="surrogatepass"), hashlib.sha512).digest()
        self._number = int.from_bytes(digest)

    def below(self, limit: int) -> int:
        """Returns a number from 0 to ``limit`` - 1."""
        self._number, number = divmod(self._number, limit)
        return number

    def digits(self, count: int) -> str:
        """Returns decimal digits."""
        return "".join(str(self.below(10)) for _ in range(count))


def _normal_form(kind: FindingKind, text: str) -> str:
    """Returns what all spellings of an identifier have in common."""
    text = unicodedata.normalize("NFKC", text).casefold()
    if kind == "email":
        return re.sub(r"\s?[\[({]\s?(at|dot)\s?[\])}]\s?", lambda match: {"at": "@"}.get(match[1], "."), text)
    if kind == "phone":
        return _phone_digits(text)
    if kind in ("card", "iban", "id", "mac"):
        return "".join(character for character in text if character.isalnum())
    if kind == "birth_date":
        return ""
    return text


def _phone_digits(text: str) -> str:
    """Returns the digits without the signs of an international call, a trunk zero and the 1 of North America."""
    number = re.sub(r"\(0\)", "", text.partition("x")[0].partition("e")[0])
    digits = re.sub(r"\D", "", number)
    if digits.startswith("00"):
        digits = digits[2:]
    elif "+" not in number and digits.startswith("0"):
        digits = digits[1:]
    return digits[1:] if len(digits) == 11 and digits[0] == "1" else digits


def _email(_text: str, stream: _Stream) -> str:
    return "u" + "".join(_LETTERS[stream.below(32)] for _ in range(12)) + "@example.com"


def _phone(text: str, stream: _Stream) -> str:
    area, line = 200 + stream.below(800), stream.below(100)
    digits = f"{area}55501{line:02d}"
    start = "+1" if text.startswith(("+", "00")) else ""
    separators = re.findall(r"[^\w+()]", text)
    if not separators:
        return start + digits
    sign = separators[0]
    start += sign if start else ""
    if "(" in text and not start:
        return f"({area}) 555{separators[-1]}01{line:02d}"
    return f"{start}{area}{sign}555{sign}01{line:02d}"


def _in_shape(text: str, characters: str) -> str:
    """Returns the text with its letters and digits replaced one by one."""
    remaining = iter(characters)
    return "".join(next(remaining) if character.isalnum() else character for character in text)


def _plain(text: str) -> str:
    return "".join(character for character in text.upper() if character.isalnum())


def _card(text: str, stream: _Stream) -> str:
    length = len(_plain(text))
    return _in_shape(text, mark_card("424242" + stream.digits(length - 10)))


def _iban(text: str, stream: _Stream) -> str:
    plain = _plain(text)
    body = "".join(_same_class(sign, stream) for sign in plain[8:-3])
    start = "".join("0" if sign.isdigit() else "X" for sign in plain[4:8])
    return _in_shape(text, mark_iban(plain[:2], start + body, plain[-3:]))


def _id(text: str, stream: _Stream) -> str:
    plain = _plain(text)
    start = ("9" if plain[0].isdigit() else "X") + ("9" if plain[1:2].isdigit() else "X")
    body = "".join(_same_class(sign, stream) for sign in plain[2:-3])
    last = _same_class(plain[-1], stream)
    return _in_shape(text, mark_id(start + body, plain[-3:-1], last))


def _same_class(sign: str, stream: _Stream) -> str:
    return str(stream.below(10)) if sign.isdigit() else chr(65 + stream.below(26))


def _ip(text: str, stream: _Stream) -> str:
    if ":" in text:
        groups = (f"{stream.below(65536):x}" for _ in range(6))
        return f"2001:db8:{':'.join(groups)}"
    return f"198.{18 + stream.below(2)}.{stream.below(256)}.{1 + stream.below(254)}"


def _mac(text: str, stream: _Stream) -> str:
    digits = f"020000{stream.below(1 << 24):06x}"
    return _in_shape(text, digits.upper() if text.isupper() else digits)


def _birth_date(text: str, _stream: _Stream) -> str:
    """Returns 1 January of the year in the form of the text; a year of two digits counts as of the last century."""
    year = _YEAR.search(text)
    number = year[0] if year else "19" + re.sub(r"\D", "", text)[-2:].zfill(2)
    if re.fullmatch(r"\d{8}", text):
        return f"{number}0101"
    if re.match(r"\d{4}[-/.]", text):
        return f"{number}{text[4]}01{text[4]}01"
    separators = "".join(_separators(text))
    if not any(character.isalpha() for character in text) and separators[:1] in ("/", ".", "-"):
        return f"01{separators[0]}01{separators[0]}{number}"
    return f"{number}-01-01"


def _separators(text: str) -> Iterator[str]:
    return (character for character in text if not character.isalnum())


def _key(_text: str, stream: _Stream) -> str:
    return f"key-{stream.below(1 << 48):012x}"


_MAKERS = {
    "email": _email,
    "phone": _phone,
    "card": _card,
    "iban": _iban,
    "id": _id,
    "ip": _ip,
    "mac": _mac,
    "birth_date": _birth_date,
    "key": _key,
}
