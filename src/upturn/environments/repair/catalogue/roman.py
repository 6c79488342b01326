"""Inputs of ``roman``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package, number, sentence, word

_NUMERALS = (
    "IV",
    "IX",
    "XIV",
    "XL",
    "LX",
    "XC",
    "CD",
    "CM",
    "MCM",
    "MMXX",
    "III",
    "VI",
    "CDXLIV",
    "IIII",
    "VX",
    "A",
    "",
)


def _numeral(rng: Random) -> str:
    return rng.choice(_NUMERALS) if rng.random() < 0.7 else word(rng, "IVXLC", 4, 1)


PACKAGE = Package(
    "roman",
    {
        "numerals": {
            "to_roman": lambda rng: (number(rng, 1, 3999),),
            "from_roman": lambda rng: (word(rng, "IVXLCDM", 6, 1),),
        },
        "lists": {
            "is_numeral": lambda rng: (_numeral(rng),),
            "in_order": lambda rng: ([_numeral(rng) for _ in range(rng.randint(0, 5))],),
            "chapter": lambda rng: (number(rng, 1, 60), sentence(rng, 3)),
            "sum_of": lambda rng: ([_numeral(rng) for _ in range(rng.randint(0, 5))],),
        },
    },
)
