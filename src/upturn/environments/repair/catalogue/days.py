"""Inputs of ``days``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package, number

_YEARS = (1900, 1999, 2000, 2023, 2024, 2100)


def _date(rng: Random) -> tuple[int, int, int]:
    return (rng.choice(_YEARS), rng.randint(1, 12), rng.randint(1, 28))


PACKAGE = Package(
    "days",
    {
        "months": {
            "is_leap": lambda rng: (rng.choice((*_YEARS, rng.randint(1, 3000))),),
            "days_in_month": lambda rng: (rng.choice(_YEARS), rng.choice((2, 2, rng.randint(1, 12)))),
            "is_date": lambda rng: (rng.choice(_YEARS), number(rng, 0, 13), number(rng, 0, 32)),
            "next_month": lambda rng: (rng.choice(_YEARS), number(rng, 1, 12)),
        },
        "counting": {
            "day_of_year": _date,
            "day_number": _date,
            "days_between": lambda rng: (_date(rng), _date(rng)),
            "weekday": _date,
            "add_days": lambda rng: (_date(rng), number(rng, 0, 400)),
            "days_left": _date,
        },
    },
)
