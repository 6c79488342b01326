"""Inputs of ``matrix``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package


def _rows(rng: Random, height: int | None = None, width: int | None = None) -> list[list[int]]:
    height = rng.randint(0, 4) if height is None else height
    width = rng.randint(1, 4) if width is None else width
    return [[rng.randint(-4, 9) for _ in range(width)] for _ in range(height)]


def _square(rng: Random) -> list[list[int]]:
    size = rng.randint(1, 3)
    rows = _rows(rng, size, size)
    if rng.random() < 0.6:
        rows = [[rows[max(y, x)][min(y, x)] for x in range(size)] for y in range(size)]
    return rows if rng.random() < 0.8 else _rows(rng)


def _factors(rng: Random) -> tuple[list[list[int]], list[list[int]]]:
    inner = rng.randint(1, 3)
    other = inner if rng.random() < 0.8 else inner + 1
    return _rows(rng, rng.randint(1, 3), inner), _rows(rng, other, rng.randint(1, 3))


PACKAGE = Package(
    "matrix",
    {
        "shape": {
            "shape": lambda rng: (_rows(rng),),
            "transpose": lambda rng: (_rows(rng),),
            "rotate": lambda rng: (_rows(rng),),
            "border": lambda rng: (_rows(rng),),
        },
        "arithmetic": {
            "multiply": _factors,
            "trace": lambda rng: (_rows(rng),),
            "row_sums": lambda rng: (_rows(rng),),
            "is_symmetric": lambda rng: (_square(rng),),
            "heaviest_row": lambda rng: (_rows(rng),),
        },
    },
)
