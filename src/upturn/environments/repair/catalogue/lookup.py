"""Inputs of ``lookup``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package, number, numbers, some

_WORDS = ("red", "blue", "Old", "new", "car", "Boat")


def _sorted(rng: Random) -> list[int]:
    return sorted(numbers(rng, 0, 20, 8))


def _texts(rng: Random) -> list[str]:
    return [" ".join(some(rng, _WORDS, 4)) for _ in range(rng.randint(0, 5))]


PACKAGE = Package(
    "lookup",
    {
        "sorted_list": {
            "lower_bound": lambda rng: (_sorted(rng), number(rng, 0, 21)),
            "contains": lambda rng: (_sorted(rng), number(rng, 0, 21)),
            "count_between": lambda rng: (_sorted(rng), number(rng, 0, 12), number(rng, 6, 21)),
            "closest": lambda rng: (_sorted(rng), number(rng, 0, 21)),
        },
        "index": {
            "build_index": lambda rng: (_texts(rng),),
            "find_all": lambda rng: (_texts(rng), " ".join(some(rng, _WORDS, 2))),
            "find_any": lambda rng: (_texts(rng), " ".join(some(rng, _WORDS, 3))),
        },
    },
)
