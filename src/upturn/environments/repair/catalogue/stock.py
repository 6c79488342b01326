"""Inputs of ``stock``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package, number

_ITEMS = ("nail", "bolt", "plank", "rope")
_PRICES = {"nail": 3, "bolt": 25, "plank": 450, "rope": 120}


def _stock(rng: Random) -> dict[str, int]:
    return {item: rng.randint(0, 20) for item in rng.sample(_ITEMS, rng.randint(1, 4))}


def _order(rng: Random, most: int = 12) -> list[tuple[str, int]]:
    return [(rng.choice(_ITEMS), rng.randint(1, most)) for _ in range(rng.randint(0, 4))]


PACKAGE = Package(
    "stock",
    {
        "pieces": {
            "receive": lambda rng: (_stock(rng), rng.choice(_ITEMS), number(rng, 1, 9)),
            "take": lambda rng: (_stock(rng), rng.choice(_ITEMS), number(rng, 1, 20)),
            "short": lambda rng: (_stock(rng), _stock(rng)),
        },
        "orders": {
            "line_total": lambda rng: (number(rng, 1, 300), rng.choice((1, 9, 10, 11, 49, 50, 60))),
            "order_total": lambda rng: (_order(rng, 60), _PRICES),
            "fill": lambda rng: (_stock(rng), _order(rng)),
            "can_fill": lambda rng: (_stock(rng), _order(rng)),
        },
    },
)
