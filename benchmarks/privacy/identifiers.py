"""Random identifiers of all kinds that are found by form, each in the spellings that people and programs use."""

import random
import string
from collections.abc import Callable, Mapping

Maker = Callable[[random.Random], str]

_DIGITS, _UPPER = string.digits, string.ascii_uppercase
_FIRST = (
    "maria", "jürgen", "o.connor", "li-wei", "thomas", "aïcha", "sven", "zoë", "rahul", "natalia", "k.müller",
    "d'arcy", "Ørsted", "peter_pan", "j", "anne-marie", "иван", "françois", "bo", "s.b+news",
)  # fmt: skip
_DOMAINS = (
    "gmail.com", "müller.de", "corp.co.uk", "mail.uni-bonn.de", "yahoo.fr", "proton.me", "a-b.io",
    "acme.travel", "qq.com", "bücher.example.de", "hotmail.com.br", "company.internal.net", "students.ox.ac.uk",
    "xn--mller-kva.de", "bank.jp",
)  # fmt: skip


def _digits(source: random.Random, count: int, first: str = _DIGITS) -> str:
    return source.choice(first) + "".join(source.choice(_DIGITS) for _ in range(count - 1))


_ALPHABETS = {
    "#": _DIGITS,
    "^": "23456789",
    "§": _UPPER,
    "°": "0123456789abcdef",
    "*": string.ascii_letters + _DIGITS,
}


def _fill(source: random.Random, form: str) -> str:
    """Returns the form with # = any digit, ^ = 2 to 9, § = a capital, ° = hexadecimal, * = a letter or digit."""
    return "".join(source.choice(_ALPHABETS.get(sign, sign)) for sign in form)


def _email(source: random.Random) -> str:
    local, domain = source.choice(_FIRST), source.choice(_DOMAINS)
    if source.random() < 0.3:
        local += source.choice((".", "_", "-", "")) + str(source.randrange(1950, 2012))
    if source.random() < 0.15:
        return f"{local}@{domain}".upper()
    return f"{local}@{domain}"


_PHONES = (
    "(415) 867 ####", "415 867 ####", "312-555-^^##", "212.736.####", "1-646-736-####", "+1 646 736 ####",
    "+1 (646) 736-####", "+1646736####", "(646)736-####", "646/736-####", "646-736-#### ext. ##",
    "+44 20 7946 ####", "020 7946 ####", "07911 ######", "+44 (0)161 496 ####", "+49 30 ########",
    "030 #######", "0176 ########", "0171-#######", "+49-89-####-##", "(089) ### ## ##", "+33 6 ## ## ## ##",
    "06 ## ## ## ##", "01.##.##.##.##", "+33.1.##.##.##.##", "+34 6## ### ###", "+39 339 ### ####",
    "02 #### ####", "+31 6 ########", "06-########", "+41 44 ### ## ##", "044 ### ## ##", "+43 664 #######",
    "+46 70 ### ## ##", "08-### ## ##", "+48 6## ### ###", "+7 (495) ###-##-##", "8 (495) ###-##-##",
    "+86 138 #### ####", "138 #### ####", "+81 90-####-####", "090-####-####", "03-####-####",
    "+82 10-####-####", "010-####-####", "+91 98### #####", "98### #####", "+55 11 #####-####",
    "(11) 98###-####", "+52 55 #### ####", "+61 4## ### ###", "04## ### ###", "(02) #### ####",
    "0044 20 7946 ####", "0049/30/#######", "+27 82 ### ####", "+90 532 ### ## ##", "+971 50 ### ####",
    "+65 #### ####", "+353 87 ### ####", "+1-800-736-####",
)  # fmt: skip


def _phone(source: random.Random) -> str:
    number = _fill(source, source.choice(_PHONES))
    return number.replace(" ", "\u00a0") if source.random() < 0.05 else number


def _luhn_digit(body: str) -> str:
    doubled = [int(digit) * 2 if place % 2 == 0 else int(digit) for place, digit in enumerate(body[::-1])]
    return str(-sum(value // 10 + value % 10 for value in doubled) % 10)


def _card(source: random.Random) -> str:
    prefix, length = source.choice(
        (("4", 16), ("52", 16), ("2301", 16), ("34", 15), ("6011", 16), ("3530", 16), ("62", 16))
    )
    body = prefix + _digits(source, length - 1 - len(prefix))
    number = body + _luhn_digit(body)
    separator = source.choice(("", " ", "-", " ", "."))
    groups = (4, 6, 5) if length == 15 else (4, 4, 4, 4)
    parts, start = [], 0
    for size in groups:
        parts.append(number[start : start + size])
        start += size
    return separator.join(parts)


_IBANS = (
    "DE##################", "GB§§§§##############", "FR###########§###########", "ES####################",
    "NL§§§§##########", "CH#################", "IT§######################", "AT################",
    "PL########################", "BE############",
)  # fmt: skip


def _iban(source: random.Random) -> str:
    form = source.choice(_IBANS)
    country, body = form[:2], _fill(source, form[2:])
    value = int("".join(str(int(sign, 36)) for sign in f"{body}{country}00"))
    iban = f"{country}{98 - value % 97:02d}{body}"
    if source.random() < 0.5:
        return " ".join(iban[start : start + 4] for start in range(0, len(iban), 4))
    return iban.lower() if source.random() < 0.1 else iban


def _ssn(source: random.Random) -> str:
    separator = source.choice("-- ")
    area = source.choice([number for number in range(1, 900) if number != 666])
    return separator.join((f"{area:03d}", f"{source.randrange(1, 100):02d}", f"{source.randrange(1, 10000):04d}"))


def _cpf(source: random.Random) -> str:
    digits = [source.randrange(10) for _ in range(9)]
    for _ in range(2):
        rest = sum(digit * weight for digit, weight in zip(digits[::-1], range(2, 12), strict=False)) % 11
        digits.append(0 if rest < 2 else 11 - rest)
    text = "".join(map(str, digits))
    return f"{text[:3]}.{text[3:6]}.{text[6:9]}-{text[9:]}"


def _dni(source: random.Random) -> str:
    number = source.randrange(10**7, 10**8)
    return f"{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}"


def _nir(source: random.Random) -> str:
    body = f"{source.choice('12')}{source.randrange(100):02d}{source.randrange(1, 13):02d}"
    body += f"{source.randrange(1, 96):02d}"
    body += f"{source.randrange(1, 990):03d}{source.randrange(1, 999):03d}"
    key = f"{97 - int(body) % 97:02d}"
    if source.random() < 0.5:
        return body + key
    return f"{body[0]} {body[1:3]} {body[3:5]} {body[5:7]} {body[7:10]} {body[10:]} {key}"


def _nino(source: random.Random) -> str:
    start = source.choice("ABCEHJLMPRSW") + source.choice("ABCEHJLMPRSX")
    return start + _fill(source, source.choice((" ## ## ## ", "######"))) + source.choice("ABCD")


def _chinese(source: random.Random) -> str:
    body = f"110105{source.randrange(1950, 2005)}{source.randrange(1, 13):02d}{source.randrange(1, 29):02d}"
    body += f"{source.randrange(1000):03d}"
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(digit) * weight for digit, weight in zip(body, weights, strict=True))
    return body + "10X98765432"[total % 11]


def _short_date(source: random.Random) -> str:
    return f"{source.randrange(40, 99):02d}{source.randrange(1, 13):02d}{source.randrange(1, 29):02d}"


def _belgian(source: random.Random) -> str:
    body = f"{_short_date(source)}{source.randrange(1, 998):03d}"
    return f"{body[:2]}.{body[2:4]}.{body[4:6]}-{body[6:]}.{97 - int(body) % 97:02d}"


def _swedish(source: random.Random) -> str:
    body = f"{_short_date(source)}{source.randrange(1000):03d}"
    return f"{body[:6]}-{body[6:]}{_luhn_digit(body)}"


def _national_id(source: random.Random) -> str:
    return source.choice((_ssn, _ssn, _cpf, _dni, _nir, _nino, _chinese, _belgian, _swedish))(source)


def _ip(source: random.Random) -> str:
    if source.random() < 0.3:
        return _fill(
            source,
            source.choice(
                ("2a0°:°°°°:°°°°:^::^°°", "2606:4700:°°°°:°°°°::^", "2001:^°°:°°°°:°^:°°°°:°°°°:°°°°:°°°°")
            ),
        )
    return ".".join(
        map(str, (source.choice((5, 31, 54, 77, 91, 151, 185, 212)), *(source.randrange(1, 255) for _ in range(3))))
    )


def _mac(source: random.Random) -> str:
    pairs = [source.choice(("a4", "3c", "f0", "d8")), *(_fill(source, "°°") for _ in range(5))]
    joined = source.choice((":", "-", ":")).join(pairs)
    return joined.upper() if source.random() < 0.5 else joined


_KEY_FORMS = (
    "sk_live_" + "*" * 24, "rk_live_" + "*" * 24, "ghp_" + "*" * 36, "github_pat_" + "*" * 22 + "_" + "*" * 59,
    "glpat-" + "*" * 20, "xoxb-" + "#" * 12 + "-" + "#" * 12 + "-" + "*" * 24, "AKIA" + "§2" * 8,
    "AIza" + "*" * 35, "sk-proj-" + "*" * 48, "sk-ant-api03-" + "*" * 95, "hf_" + "*" * 34, "npm_" + "*" * 36,
    "pypi-AgEIcHlwaS5vcmc" + "*" * 120, "SK" + "°" * 32, "SG." + "*" * 22 + "." + "*" * 43,
    "#" * 10 + ":AA" + "*" * 33, "M" + "*" * 23 + "." + "*" * 6 + "." + "*" * 27, "shpat_" + "°" * 32,
    "sq0atp-" + "*" * 22, "dop_v1_" + "°" * 64, "dapi" + "°" * 32, "dp.pt." + "*" * 43, "lin_api_" + "*" * 40,
    "ntn_" + "*" * 46, "***8Q~" + "*" * 34, "eyJhbGciOiJIUzI1NiJ9.eyJ" + "*" * 40 + "." + "*" * 43,
    "gsk_" + "*" * 52, "key-" + "°" * 32, "ya29." + "*" * 60,
)  # fmt: skip


def _key(source: random.Random) -> str:
    return (
        _fill(source, source.choice(_KEY_FORMS).replace("§2" * 8, "A2" * 8))
        if source.random() < 0.9
        else _pem(source)
    )


def _pem(source: random.Random) -> str:
    kind = source.choice(("RSA ", "EC ", "", "OPENSSH "))
    body = "\n".join(_fill(source, "*" * 64) for _ in range(4))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"


def _password(source: random.Random) -> str:
    return source.choice(
        ("Tr0ub4dor&3", "hunter2", "S3cret!pass", "correct-horse-9", "P@ssw0rd2024", _fill(source, "********#*"))
    )


def _birth_date(source: random.Random) -> str:
    year, month, day = source.randrange(1940, 2010), source.randrange(1, 13), source.randrange(2, 29)
    name = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ][month - 1]
    return source.choice(
        (
            f"{year}-{month:02d}-{day:02d}",
            f"{day:02d}.{month:02d}.{year}",
            f"{month}/{day}/{year}",
            f"{day} {name} {year}",
            f"{name} {day}, {year}",
            f"{day}-{name[:3]}-{year}",
            f"{name[:3]} {day}th, {year}",
        )
    )


def _passport(source: random.Random) -> str:
    return _fill(source, source.choice(("#########", "§########", "C#§§##§##", "##§§#####")))


def _credentials(source: random.Random) -> str:
    return f"{source.choice(('admin', 'svc-user', 'root', 'app'))}:{_password(source).replace('@', '')}"


MAKERS: Mapping[str, Maker] = {
    "email": _email,
    "phone": _phone,
    "card": _card,
    "iban": _iban,
    "national_id": _national_id,
    "ip": _ip,
    "mac": _mac,
    "key": _key,
    "password": _password,
    "birth_date": _birth_date,
    "passport": _passport,
    "credentials": _credentials,
}
"""By kind."""
