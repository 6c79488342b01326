"""Inputs of ``codes``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package, number, word


def _code(rng: Random) -> str:
    return "".join(letter + rng.choice(("", "2", "3", "11")) for letter in word(rng, "abc", 4))


def _luhn(rng: Random) -> str:
    digits = word(rng, "0123456789", 8, 1)
    return digits + rng.choice("0123456789")


PACKAGE = Package(
    "codes",
    {
        "runs": {
            "encode": lambda rng: (word(rng, "ab", 9),),
            "decode": lambda rng: (_code(rng),),
            "saved": lambda rng: (word(rng, "ab", 5) + rng.choice("ab") * rng.randint(0, 6),),
        },
        "digits": {
            "luhn_sum": lambda rng: (word(rng, "0123456789", 8),),
            "is_luhn": lambda rng: (
                _luhn(rng) if rng.random() < 0.5 else rng.choice(("79927398713", "0", "18", "59")),
            ),
            "with_check_digit": lambda rng: (word(rng, "0123456789", 8),),
            "shift": lambda rng: (word(rng, "abxyz Z.", 8), number(rng, 0, 30)),
            "grouped": lambda rng: (word(rng, "0123456789", 10), number(rng, 1, 4)),
        },
    },
)
