"""What is to be erased, and where it stands in a text, in whatever spelling.

E-mail addresses are recognised with ``(at)`` and ``(dot)``, telephone, card, account and personal numbers with any
separators, telephone numbers with and without their country code; other texts in any case and with any blanks. All
of them also encoded (``privacy.encoding``).
"""

import re
import unicodedata

from upturn.errors import ConfigError
from upturn.pool.privacy import Finding, decodings, findings, phone_spellings

MASK = "<ERASED>"
_SEPARATORS = r"[ .\-/()\u00a0\u2009\u202f\u2010-\u2013]{0,3}"
_SHORTEST = 4
"""A shorter subject stands in too many texts that do not mean it."""


class Subject:
    """A value that names somebody."""

    def __init__(self, value: str) -> None:
        """Raises ConfigError for a value that is too short."""
        text = unicodedata.normalize("NFKC", value).strip()
        if len(text) < _SHORTEST or not any(character.isalnum() for character in text):
            raise ConfigError(
                [f"a subject has {_SHORTEST} characters or more, got {value!r}; name the person by a longer value"]
            )
        self._pattern = re.compile(_pattern(text), re.IGNORECASE)
        self.literal = text
        """The value as it is searched for in files."""

    def __call__(self, text: str) -> list[Finding]:
        """Returns where the subject stands in the text, ascending and disjoint."""
        matches = [(match.start(), match.end()) for match in self._pattern.finditer(text)]
        for layers in decodings(text):
            for match in self._pattern.finditer(layers[-1].text):
                start, stop = match.span()
                for layer in reversed(layers):
                    start, stop = layer.place(start, stop)
                matches.append((start, stop))
        disjoint: list[Finding] = []
        for start, stop in sorted(matches):
            if not disjoint or start >= disjoint[-1].stop:
                disjoint.append(Finding("id", start, stop))
            elif stop > disjoint[-1].stop:
                disjoint[-1] = disjoint[-1]._replace(stop=stop)
        return disjoint


def _pattern(text: str) -> str:
    kinds = {finding.kind for finding in findings(f"phone: {text}") if finding.stop - finding.start >= len(text)}
    kinds |= {finding.kind for finding in findings(text)}
    if "email" in kinds and text.count("@") == 1:
        local, domain = text.split("@")
        at = r"(?:@|\s?[\[({]\s?at\s?[\])}]\s?)"
        dot = r"(?:\.|\s?[\[({]\s?dot\s?[\])}]\s?)"
        return rf"(?<![\w.+-]){re.escape(local)}{at}{dot.join(map(re.escape, domain.split('.')))}(?![\w-])"
    plain = "".join(character for character in text if character.isalnum())
    if "phone" in kinds and not kinds & {"card", "iban"}:
        spelt = "|".join(_SEPARATORS.join(digits) for digits in phone_spellings(text))
        return rf"(?<!\d)(?:(?:\+|00)?\d{{1,3}}{_SEPARATORS})?(?:\(?0\)?{_SEPARATORS})?\(?(?:{spelt})(?!\d)"
    if kinds & {"card", "iban", "id", "mac"} and sum(map(str.isdigit, plain)) >= _SHORTEST:
        return rf"(?<![^\W_]){'[ .:/-]{0,2}'.join(map(re.escape, plain))}(?![^\W_])"
    start, end = (r"(?<![^\W_])" if text[0].isalnum() else ""), (r"(?![^\W_])" if text[-1].isalnum() else "")
    return start + r"\s+".join(map(re.escape, text.split())) + end
