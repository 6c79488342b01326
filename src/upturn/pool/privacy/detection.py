"""All findings of a text: every detector on the text as it stands and as it reads when decoded."""

import re
from collections.abc import Iterator
from functools import lru_cache

from upturn.pool.privacy.account import cards, ibans
from upturn.pool.privacy.birth_date import birth_dates
from upturn.pool.privacy.digit_run import digit_runs
from upturn.pool.privacy.email import emails
from upturn.pool.privacy.encoding import Decoded, decodings
from upturn.pool.privacy.finding import NAME_KINDS, Detector, Finding
from upturn.pool.privacy.national_id import national_ids
from upturn.pool.privacy.network import addresses
from upturn.pool.privacy.phone import phones
from upturn.pool.privacy.secret import secrets
from upturn.pool.privacy.tagger import is_plausible, names

_REACH = 300
"""Characters around something encoded that are searched again when it is decoded; longer than any identifier but
private keys, whose lines overlap."""
_CACHED_LENGTH = 20_000
_DIGIT = re.compile("[0-9]")


def numbers(text: str) -> list[Finding]:
    """Returns card, telephone and personal numbers."""
    if not _DIGIT.search(text):
        return []
    runs = digit_runs(text)
    return [*cards(text, runs), *national_ids(text, runs), *phones(text, runs)]


DETECTORS: tuple[Detector, ...] = (emails, numbers, ibans, addresses, birth_dates, secrets, names)
"""All detectors. A detector is any function of a text that returns findings."""
_OTHER_DETECTORS = tuple(detector for detector in DETECTORS if detector is not names)
_ENCODED_WORDS = re.compile("%[0-9A-Fa-f]{2}|&[#A-Za-z]|\\\\[ux]|[\u00ad\u200b-\u200f\u2060\ufeff\uff01-\uff5e]")
"""Encodings of letters and spaces; the tagger reads escapes such as those of quotes and new lines itself."""


def findings(text: str) -> list[Finding]:
    """Returns the findings, ascending and disjoint; those that overlap are one, of the kind of the longest."""
    if len(text) <= _CACHED_LENGTH:
        return list(_cached(text))
    return _search(text)


@lru_cache(maxsize=2048)
def _cached(text: str) -> tuple[Finding, ...]:
    """Prompts and results of tools repeat from trajectory to trajectory."""
    return tuple(_search(text))


def _search(text: str) -> list[Finding]:
    if len(text) < 4:
        return []
    matches = [finding for detector in DETECTORS for finding in detector(text)]
    encoded = text
    for layers in decodings(text):
        decoded = layers[-1]
        detectors = DETECTORS if _ENCODED_WORDS.search(encoded) else _OTHER_DETECTORS
        encoded = decoded.text
        for start, stop in decoded.windows(_REACH):
            window = decoded.text[start:stop]
            found = [finding for detector in detectors for finding in detector(window)]
            matches += [_placed(finding, start, layers) for finding in found]
    return merged(text, matches)


def merged(text: str, matches: list[Finding]) -> list[Finding]:
    """Returns findings ascending and disjoint; identifiers cut names and addresses, the longest gives the kind."""
    identifiers = _merged([finding for finding in matches if finding.kind not in NAME_KINDS])
    spans = _merged([finding for finding in matches if finding.kind in NAME_KINDS])
    if not spans:
        return identifiers
    return sorted([*identifiers, *_cut(text, spans, identifiers)], key=lambda finding: finding.start)


def _cut(text: str, spans: list[Finding], identifiers: list[Finding]) -> Iterator[Finding]:
    """Yields what is left of names and addresses beside identifiers; both ascend."""
    position = 0
    for kind, start, stop in spans:
        while position < len(identifiers) and identifiers[position].stop <= start:
            position += 1
        begin = start
        for identifier in identifiers[position:]:
            if identifier.start >= stop:
                break
            if is_plausible(kind, text[begin : identifier.start]):
                yield Finding(kind, begin, identifier.start)
            begin = identifier.stop
        if begin == start or (begin < stop and is_plausible(kind, text[begin:stop])):
            yield Finding(kind, begin, stop)


def _placed(finding: Finding, offset: int, layers: list[Decoded]) -> Finding:
    start, stop = finding.start + offset, finding.stop + offset
    for layer in reversed(layers):
        start, stop = layer.place(start, stop)
    return Finding(finding.kind, start, stop)


def _merged(matches: list[Finding]) -> list[Finding]:
    matches.sort(key=lambda finding: (finding.start, -finding.stop))
    merged: list[Finding] = []
    longest = 0
    for finding in matches:
        if not merged or finding.start >= merged[-1].stop:
            merged.append(finding)
            longest = finding.stop - finding.start
            continue
        last = merged[-1]
        kind = last.kind
        if finding.stop - finding.start > longest:
            kind, longest = finding.kind, finding.stop - finding.start
        merged[-1] = Finding(kind, last.start, max(last.stop, finding.stop))
    return merged
