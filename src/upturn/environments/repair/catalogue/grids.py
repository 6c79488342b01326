"""Inputs of ``grids``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package, number


def _grid(rng: Random) -> list[str]:
    width = rng.randint(2, 5)
    return ["".join(rng.choice("...#") for _ in range(width)) for _ in range(rng.randint(2, 4))]


def _cell(rng: Random) -> tuple[int, int]:
    return (number(rng, 0, 3), number(rng, 0, 4))


PACKAGE = Package(
    "grids",
    {
        "cells": {
            "is_inside": lambda rng: (_grid(rng), (number(rng, -1, 4), number(rng, -1, 5))),
            "is_free": lambda rng: (_grid(rng), (number(rng, -1, 4), number(rng, -1, 5))),
            "around": lambda rng: (_grid(rng), _cell(rng)),
            "count_walls": lambda rng: (_grid(rng), _cell(rng)),
        },
        "regions": {
            "region": lambda rng: (_grid(rng), _cell(rng)),
            "count_regions": lambda rng: (_grid(rng),),
            "steps": lambda rng: (_grid(rng), _cell(rng), _cell(rng)),
        },
    },
)
