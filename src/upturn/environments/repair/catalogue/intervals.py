"""Inputs of ``intervals``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package


def _interval(rng: Random, most: int = 12) -> tuple[int, int]:
    start = rng.randint(0, most)
    return (start, start + rng.randint(-1, 6))


def _intervals(rng: Random) -> list[tuple[int, int]]:
    return [_interval(rng, 14) for _ in range(rng.randint(0, 5))]


PACKAGE = Package(
    "intervals",
    {
        "pairs": {
            "length": lambda rng: (_interval(rng),),
            "overlaps": lambda rng: (_interval(rng, 6), _interval(rng, 6)),
            "intersect": lambda rng: (_interval(rng, 6), _interval(rng, 6)),
        },
        "lists": {
            "merge": lambda rng: (_intervals(rng),),
            "total": lambda rng: (_intervals(rng),),
            "gaps": lambda rng: (_intervals(rng), rng.randint(0, 6), rng.randint(6, 18)),
            "busiest": lambda rng: (_intervals(rng),),
        },
    },
)
