"""Names that a record states, such as in a header, a signature or a field ``first_name``, found in all its texts.

A name counts as stated where a key or header such as ``From:`` or ``"name": "`` stands before it, or a closing such
as ``Best regards`` in the line before. It is then found everywhere in the record, in any casing; its parts alone
where they begin with a capital, if they are no ordinary words; and in identifiers such as ``mia_li_3668``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from upturn.pool.privacy.detection import merged
from upturn.pool.privacy.finding import Finding
from upturn.pool.privacy.replacement import findings_of
from upturn.records import JsonValue

_KEYS = (
    r"from|to|cc|bcc|name|(?:first|last|full|given|family|middle)[_ ]?name|surname|customer|client|patient"
    r"|passenger|guest|user|author|contact|employee|owner|requester|reporter|assignee|sender|recipient"
    r"|attendee|signed|nombre|nom|prenom|prénom|vorname|nachname|nome|kunde|kundin|cliente|von|an|de"
    r"|cognome|apellidos?"
)
"""Words in front of a name."""
_STATED = re.compile(
    rf"(?:^|[\s\"'{{(,;<>|*_-])(?:{_KEYS})(?:\\?[\"'])?\s{{0,2}}[:=]\s{{0,2}}(?:\\?[\"'])?$", re.IGNORECASE
)
_CLOSING = re.compile(
    r"(?:regards|sincerely|thanks|thank you|cheers|wishes|yours|truly|grüßen?|gruß|cordialement|saludos"
    r"|atentamente|saluti|groet|pozdrawiam|saygılarımla|hälsningar|obrigad[oa]|atenciosamente|уважением)"
    r"[ ,.!]{0,3}(?:\n|\\n){1,2}$",
    re.IGNORECASE,
)
_REACH = 40
_PART = re.compile(r"[^\W\d_]+")
_BETWEEN = frozenset((" ", "_", ".", "-", ", ", "'", "’"))
"""What stands between the parts of a name or of an identifier."""
_NUMBER = re.compile(r"[_.-]?\d{1,6}(?!\w)")
_SHORTEST = 3
"""Letters of a part that is found alone; shorter ones are found in identifiers and beside the other parts only."""
_MOST = 400
"""Names of a record; more are those of a table, whose rows are found one by one."""
_ORDINARY_WORDS = (
    "will may mark rose grace hope faith joy april june august bill rich frank grant chase drew page long young "
    "king brown white black green price hall hill park street wood woods stone rivers banks bush field ford cook "
    "baker carter mason hunter fisher cooper miller taylor smith summer autumn sky rain dawn eve daisy lily ivy "
    "olive ruby pearl amber crystal jade jasmine violet iris heather ginger sandy penny miles jack rob sue pat "
    "art gene dean dale glen heath cliff ray max guy sterling christian mercy patience honor chance major love "
    "day west north church bishop pope abbot knight noble sharp strong wise good best case post bond cash gold "
    "silver cross bell ball fox wolf lamb bird swan fish rice berry cherry victoria florence austin paris london "
    "chelsea india china israel jordan georgia virginia carolina dallas houston madison lincoln washington "
    "jackson franklin santiago diego san santa von van der den del bin user name customer support admin test "
    "guest team "
)
_ORDINARY = frozenset(_ORDINARY_WORDS.split())
"""Names that are words, or stand for somebody in general."""


class KnownNames:
    """Names of persons, which are found in all texts of a record."""

    def __init__(self, names: Iterable[str]) -> None:
        """``names``: whole names or parts, as they stand in the texts."""
        whole = {tuple(_PART.findall(name.casefold())) for name in sorted(set(names))[:_MOST]}
        self._parts = {part for parts in whole for part in parts if len(part) > 1}
        self._alone = {part for part in self._parts if len(part) >= _SHORTEST and part not in _ORDINARY}

    def __bool__(self) -> bool:
        return bool(self._parts)

    def findings(self, text: str) -> Iterator[Finding]:
        """Yields the names in a text: known parts in a row, or one alone that begins with a capital."""
        if self._parts.isdisjoint(_PART.findall(text.casefold())):
            return
        row: list[re.Match[str]] = []
        for word in _PART.finditer(text):
            if word[0].casefold() not in self._parts:
                continue
            if row and text[row[-1].end() : word.start()] not in _BETWEEN:
                yield from self._found(text, row)
                row = []
            row.append(word)
        yield from self._found(text, row)

    def _found(self, text: str, row: list[re.Match[str]]) -> Iterator[Finding]:
        """Yields the finding of known parts in a row, if they are enough for one."""
        parts = {word[0].casefold() for word in row}
        is_written_so = any(word[0][0].isupper() for word in row)
        if parts & self._alone and (is_written_so or len(parts) > 1):
            stop = row[-1].end()
            number = _NUMBER.match(text, stop)
            yield Finding("person", row[0].start(), number.end() if number else stop)


def stated_names(text: str, name: str = "") -> Iterator[str]:
    """Yields the names that a text states; ``name`` is that of the field that it is the value of."""
    for kind, start, stop in findings_of(text, name):
        if kind != "person":
            continue
        before = text[max(0, start - _REACH) : start]
        if start == 0 and name:
            before = f'"{name}": "'
        if _STATED.search(before) or _CLOSING.search(before):
            yield text[start:stop]


def names_in(value: JsonValue | Mapping[str, JsonValue], name: str = "") -> Iterator[str]:
    """Yields the names that the texts of a JSON value state, also in JSON inside a text."""
    if isinstance(value, str):
        yield from stated_names(value, name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from names_in(item, key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from names_in(item, name)


def with_known(found: list[Finding], known: KnownNames, text: str) -> list[Finding]:
    """Returns the findings of a text and the known names in it, ascending and disjoint."""
    more = list(known.findings(text))
    return merged(text, [*found, *more]) if more else found
