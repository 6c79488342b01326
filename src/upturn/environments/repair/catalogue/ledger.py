"""Inputs of ``ledger``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package, number

_ACCOUNTS = ("rent", "food", "pay", "fuel")


def _bookings(rng: Random) -> list[tuple[str, int]]:
    return [(rng.choice(_ACCOUNTS), rng.randint(-300, 300)) for _ in range(rng.randint(0, 8))]


PACKAGE = Package(
    "ledger",
    {
        "balances": {
            "balance": lambda rng: (_bookings(rng), rng.choice(_ACCOUNTS)),
            "balances": lambda rng: (_bookings(rng),),
            "overdrawn": lambda rng: (_bookings(rng), rng.choice((0, 0, 100, 200))),
            "running": lambda rng: (_bookings(rng), rng.choice(_ACCOUNTS)),
        },
        "reports": {
            "as_money": lambda rng: (number(rng, -2000, 2000),),
            "lowest": lambda rng: (_bookings(rng), rng.choice(_ACCOUNTS)),
            "table": lambda rng: (_bookings(rng),),
            "expenses": lambda rng: (_bookings(rng),),
        },
    },
)
