"""Replacing findings in texts and in JSON values: names of fields, numbers, and JSON inside texts included."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from upturn.pool.privacy.detection import findings
from upturn.pool.privacy.finding import Finding, FindingKind
from upturn.records import JsonValue

Replacer: TypeAlias = Callable[[FindingKind, str], str]
"""Returns what stands for a finding, from its kind and its text as it stands."""

_LARGEST_EXACT = 2**63
"""Above it, an integral float is no number that somebody wrote down."""


def mask(kind: FindingKind, _text: str) -> str:
    """Returns the kind in angle brackets, such as ``<EMAIL>``."""
    return f"<{kind.upper()}>"


def redact(text: str) -> str:
    """Returns the text with every finding replaced by its kind, such as ``<EMAIL>``; the result has no findings.

    A text that is a JSON object or array stays one.
    """
    return replace_text(text, mask)


def redact_json(value: JsonValue) -> JsonValue:
    """Returns the JSON value with the findings in texts, numbers and names of fields replaced by their kinds."""
    return replace_json(value, mask)


def replace_text(text: str, replacer: Replacer, *, name: str = "") -> str:
    """Returns the text with its findings replaced; ``name`` is that of the field that the text is the value of."""
    return Replacement(findings_of, replacer).text(text, name)


def replace_json(value: JsonValue, replacer: Replacer, *, name: str = "") -> JsonValue:
    """Returns the JSON value with the findings in its texts, numbers and names of fields replaced.

    Fields whose names become equal get a number: ``<EMAIL>``, ``<EMAIL> 2``. A number that is a finding becomes a
    text, unless its replacement is a number. ``name`` is that of the field with the value.
    """
    return Replacement(findings_of, replacer).json(value, name)


class Replacement:
    """Replaces what ``find`` finds in a text, given also the name of its field ("" = of none)."""

    def __init__(
        self, find: Callable[[str, str], list[Finding]], replacer: Replacer, last: Replacer = mask
    ) -> None:
        """``last`` replaces what a replacement made findable; ``find`` does not find it."""
        self._find, self._replacer, self._last = find, replacer, last

    def text(self, text: str, name: str = "") -> str:
        """Returns the text with its findings replaced; a JSON object or array stays one."""
        matches = self._find(text, name)
        if not matches:
            return text
        changed = self._inside(text)
        text = _replaced(text, matches, self._replacer) if changed in (None, text) else changed or ""
        while matches := self._find(text, name):
            text = _replaced(text, matches, self._last)
        return text

    def json(self, value: JsonValue, name: str = "") -> JsonValue:
        """Returns the JSON value with the findings in its texts, numbers and names of fields replaced."""
        if isinstance(value, str):
            return self.text(value, name)
        if isinstance(value, list):
            return [self.json(item, name) for item in value]
        if isinstance(value, dict):
            names = self._names(value)
            return {names[key]: self.json(item, key) for key, item in value.items()}
        if (digits := _digits(value)) is None:
            return value
        replaced = self.text(digits, name)
        if replaced == digits:
            return value
        return int(replaced) if replaced.isdecimal() else replaced

    def _names(self, value: Mapping[str, JsonValue]) -> dict[str, str]:
        """Returns the new name of each field; two fields never get the same."""
        names: dict[str, str] = {}
        used: set[str] = set()
        for key in sorted(value, key=lambda key: bool(self._find(key, ""))):  # the others stay as they are
            new = base = self.text(key)
            number = 2
            while new in used:
                new, number = f"{base} {number}", number + 1
            used.add(new)
            names[key] = new
        return names

    def _inside(self, text: str) -> str | None:
        """Returns a text that is a JSON object or array with its findings replaced; None for any other text."""
        stripped = text.strip()
        if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
            return None
        try:
            replaced = self.json(json.loads(stripped))
            is_spaced, is_indented = '": ' in stripped or ", " in stripped, stripped[1:2] == "\n"
            return json.dumps(
                replaced,
                ensure_ascii=stripped.isascii(),
                indent=2 if is_indented else None,
                separators=("," if is_indented or not is_spaced else ", ", ": " if is_spaced else ":"),
            )
        except (ValueError, RecursionError):
            return None


def findings_of(text: str, name: str) -> list[Finding]:
    """Returns the findings of a text that is the value of the field ``name`` ("" = of none)."""
    if not name:
        return findings(text)
    prefix = f'"{name}": "'
    start = len(prefix)
    matches = findings(f'{prefix}{text}"')
    placed = (Finding(kind, max(0, begin - start), min(len(text), stop - start)) for kind, begin, stop in matches)
    return [finding for finding in placed if finding.stop > finding.start]


def json_findings(value: JsonValue | Mapping[str, JsonValue], name: str = "") -> Iterator[Finding]:
    """Yields the findings of all texts, numbers and names of fields; positions are those in each text."""
    if isinstance(value, str):
        yield from findings_of(value, name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from findings(key)
            yield from json_findings(item, key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from json_findings(item, name)
    elif (digits := _digits(value)) is not None:
        yield from findings_of(digits, name)


def _digits(value: JsonValue) -> str | None:
    """Returns a number as text; None for what is no whole number of seven digits or more."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 10**6 <= value < 10**40:
        return None
    return str(value)


def _replaced(text: str, matches: list[Finding], replacer: Replacer) -> str:
    pieces: list[str] = []
    end = 0
    for finding in matches:
        pieces += [text[end : finding.start], replacer(finding.kind, text[finding.start : finding.stop])]
        end = finding.stop
    return "".join([*pieces, text[end:]])
