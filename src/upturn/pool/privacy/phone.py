"""Telephone numbers: international, of North America, and in the national forms that cannot be much else.

A number needs a form (``+49 30 …``, ``(415) 867 5309``, ``020 7946 0958``) or, without one, a word such as
``phone``, ``call`` or ``Tel.`` in front. Not reported: numbers of North America that are reserved for fiction
(555-0100 to 555-0199).
"""

import re
from collections.abc import Iterator

from upturn.pool.privacy.digit_run import DigitRun
from upturn.pool.privacy.finding import Finding

_SEPARATOR = r"[ .\-/\u00a0\u2009\u202f\u2010-\u2013]"
_GAP = rf"(?:{_SEPARATOR}|\s?[–-]\s|{_SEPARATOR}?\(0?\d{{0,4}}\){_SEPARATOR}?)?"
_EXTENSION = r"(?:,?\s?(?:ext\.?|extension|x|durchwahl)\s?\d{1,5})?"
_INTERNATIONAL = re.compile(
    rf"(?:\+\s?|(?<![\d.])00{_SEPARATOR}?)[1-9]\d{{0,2}}(?:{_GAP}\d{{1,9}}){{1,7}}{_EXTENSION}(?![\w])"
)
_NORTH_AMERICA = re.compile(
    rf"(?:\+?1{_SEPARATOR}?)?(?:\([2-9]\d\d\){_SEPARATOR}{{0,2}}|[2-9]\d\d{_SEPARATOR})"
    rf"[2-9]\d\d{_SEPARATOR}\d{{4}}{_EXTENSION}(?![\w]|-\d)"
)
_TRUNK = re.compile(
    rf"(?:\(0[1-9]\d{{0,4}}\)|0[1-9]\d{{0,4}})(?:{_SEPARATOR}{{1,2}}\d{{1,8}}){{1,5}}(?![\w]|[-./]\d)"
)
_NATIONAL = re.compile(
    r"(?:\(\d\d\)\s?9?\d{4}[-\s]\d{4}"  # Brazil
    r"|[6-9]\d{4}[\s-]\d{5}"  # India
    rf"|1[3-9]\d({_SEPARATOR})\d{{4}}\1\d{{4}}"  # China
    r"|8[\s-]?\(?\d{3}\)?[\s-]?\d{3}-\d\d-\d\d"  # Russia
    r")(?![\w]|[-./]\d)"
)
_WORDS = (
    r"(?:phone|telephone|tel|telefon|tél|téléphone|teléfono|telefone|telefono|mobile|mobil|cell|cellphone|handy|fax"
    r"|whatsapp|sms|hotline|landline|festnetz|rufnummer|móvil|celular|portable|cellulare|phone_?no|msisdn|电话|手机)"
)
_VERBS = (
    r"(?:call|dial|ring|text|reach|signal|callback|rufen sie|appelez|llame)(?:ing)? "
    r"(?:(?:me|us|him|her|them|back|at|on|under|my|the|please|now|number|new|cell|mobile|home|office|work"
    r"|mich|au|al|is|it's)[: ] ?){0,6}"
)
"""Words that are names of fields too, where they say nothing about a telephone: a blank must follow."""
_FILLER = (
    r"(?:[\"':=#.,()_\s-]|\b(?:number|numbers|no|nr|num|nummer|numéro|número|is|are|was|at|me|us|him|her|them|on"
    r"|under|or|home|work|office|mobile|cell|back|my|your|the|new|please|ist|unter|mich|au|al|ao|es|est|contact"
    r"|primary|phone|customer)\b){0,14}"
)
_CONTEXT = re.compile(
    rf"(?:(?:^|[^A-Za-z])(?:{_WORDS}s?{_FILLER}|{_VERBS})"
    r"|(?:phone|mobile|tel|fax|msisdn|whatsapp)[A-Za-z_]{0,12}[\"']?\s?[:=]\s?[\"']?)$",
    re.IGNORECASE,
)
_REACH = 60
"""Characters in front of a number that are searched for words of context."""
_PLAIN = re.compile(rf"[(+]?\d(?:{_SEPARATOR}?[()]?{_SEPARATOR}?\d){{6,14}}{_EXTENSION}(?![\w])", re.IGNORECASE)
_DATE = re.compile(r"\(?\d{1,2}[./-]\d{1,2}[./-](?:19|20)?\d\d(?!\d)")
_PAIRS = re.compile(rf"0[1-9](?:({_SEPARATOR})\d\d)(?:\1\d\d){{3}}$")
_FICTION = re.compile(r"[2-9]\d\d55501\d\d$")
_CALLING_CODES = frozenset(
    [
        "1",
        "7",
        "20",
        "27",
        "30",
        "31",
        "32",
        "33",
        "34",
        "36",
        "39",
        "40",
        "41",
        "43",
        "44",
        "45",
        "46",
        "47",
        "48",
        "49",
        "51",
        "52",
        "53",
        "54",
        "55",
        "56",
        "57",
        "58",
        "60",
        "61",
        "62",
        "63",
        "64",
        "65",
        "66",
        "81",
        "82",
        "84",
        "86",
        "90",
        "91",
        "92",
        "93",
        "94",
        "95",
        "98",
        "211",
        "212",
        "213",
        "216",
        "218",
        "220",
        "221",
        "222",
        "223",
        "224",
        "225",
        "226",
        "227",
        "228",
        "229",
        "230",
        "231",
        "232",
        "233",
        "234",
        "235",
        "236",
        "237",
        "238",
        "239",
        "240",
        "241",
        "242",
        "243",
        "244",
        "245",
        "246",
        "247",
        "248",
        "249",
        "250",
        "251",
        "252",
        "253",
        "254",
        "255",
        "256",
        "257",
        "258",
        "260",
        "261",
        "262",
        "263",
        "264",
        "265",
        "266",
        "267",
        "268",
        "269",
        "290",
        "291",
        "297",
        "298",
        "299",
        "350",
        "351",
        "352",
        "353",
        "354",
        "355",
        "356",
        "357",
        "358",
        "359",
        "370",
        "371",
        "372",
        "373",
        "374",
        "375",
        "376",
        "377",
        "378",
        "379",
        "380",
        "381",
        "382",
        "383",
        "385",
        "386",
        "387",
        "389",
        "420",
        "421",
        "423",
        "500",
        "501",
        "502",
        "503",
        "504",
        "505",
        "506",
        "507",
        "508",
        "509",
        "590",
        "591",
        "592",
        "593",
        "594",
        "595",
        "596",
        "597",
        "598",
        "599",
        "670",
        "672",
        "673",
        "674",
        "675",
        "676",
        "677",
        "678",
        "679",
        "680",
        "681",
        "682",
        "683",
        "685",
        "686",
        "687",
        "688",
        "689",
        "690",
        "691",
        "692",
        "800",
        "808",
        "850",
        "852",
        "853",
        "855",
        "856",
        "870",
        "878",
        "880",
        "881",
        "882",
        "883",
        "886",
        "888",
        "960",
        "961",
        "962",
        "963",
        "964",
        "965",
        "966",
        "967",
        "968",
        "970",
        "971",
        "972",
        "973",
        "974",
        "975",
        "976",
        "977",
        "979",
        "992",
        "993",
        "994",
        "995",
        "996",
        "998",
    ]
)
"""ITU-T E.164, list of assigned country codes."""
_SHORTEST_PART = 7
_LENGTHS = range(8, 16)
"""E.164 allows at most 15 digits; fewer than 8 are no international number."""


def phones(text: str, runs: list[DigitRun]) -> Iterator[Finding]:
    """Yields telephone numbers; ``runs`` are the parts of the text with many digits."""
    for start, stop, digits in runs:
        for pattern, fewest, is_valid in _FORMS:
            if digits < fewest:
                continue
            for match in pattern.finditer(text, start, stop):
                if _is_free(text, match.start()) and is_valid(text, match):
                    yield from _finding(match)
        plain = _PLAIN.match(text, start, stop)
        if plain is None or _DATE.match(plain[0]) or not _is_free(text, start):
            continue
        if _CONTEXT.search(text[max(0, start - _REACH) : start]):
            yield from _finding(plain)


def phone_spellings(text: str) -> list[str]:
    """Returns the digits of a number with and without its country code, and with the zero that replaces it."""
    digits = _digits(text.replace("(0)", "")).removeprefix("00")
    if not text.lstrip("( ").startswith(("+", "00")):
        own = digits.removeprefix("0")
        return [own] if len(own) < 10 or not own.startswith("1") else [own, own[1:]]
    rests = [digits[length:] for length in (1, 2, 3) if digits[:length] in _CALLING_CODES]
    return [digits, *(rest for rest in rests if len(rest) >= _SHORTEST_PART)]


def _finding(match: re.Match[str]) -> Iterator[Finding]:
    if not _FICTION.search(_digits(match[0].partition("x")[0])):
        yield Finding("phone", match.start(), match.end())


def _digits(text: str) -> str:
    return "".join(character for character in text if character.isdigit())


def _is_free(text: str, start: int) -> bool:
    """Whether no other number or word continues into the position."""
    before = text[max(0, start - 2) : start]
    return not (
        before[-1:].isalnum() or before[-1:] in ("_", "+") or (before[-1:] in ".-/" and before[:1].isdigit())
    )


def _is_outside_table(text: str, match: re.Match[str]) -> bool:
    """False for three numbers with only blanks between them in a row of more numbers."""
    if re.search(r"[^\d ]", match[0]):
        return True
    before, after = text[max(0, match.start() - 2) : match.start()], text[match.end() : match.end() + 2]
    return not (re.match(r"\d\s", before) or re.match(r"\s\d", after))


def _is_international(_text: str, match: re.Match[str]) -> bool:
    number = _digits(match[0].partition("x")[0]).removeprefix("00")
    is_known = any(number[:length] in _CALLING_CODES for length in (1, 2, 3))
    return is_known and len(number) in _LENGTHS


def _is_national(_text: str, match: re.Match[str]) -> bool:
    """Whether a number with a leading zero has the length of a telephone number and is no date."""
    if _PAIRS.match(match[0]):
        return True
    return len(_digits(match[0])) in range(9, 13) and not _DATE.match(match[0])


def _is_any(_text: str, _match: re.Match[str]) -> bool:
    return True


_FORMS = (
    (_INTERNATIONAL, 8, _is_international),
    (_NORTH_AMERICA, 10, _is_outside_table),
    (_TRUNK, 9, _is_national),
    (_NATIONAL, 10, _is_any),
)
"""Pattern, fewest digits, and whether a match is a number."""
