"""Inputs of ``figures``."""

from upturn.environments.repair.catalogue.samples import Package, number, numbers

PACKAGE = Package(
    "figures",
    {
        "centre": {
            "mean": lambda rng: (numbers(rng, -9, 20, 6),),
            "median": lambda rng: (numbers(rng, -9, 20, 7),),
            "mode": lambda rng: (numbers(rng, 0, 4, 8),),
        },
        "spread": {
            "variance": lambda rng: (numbers(rng, -5, 9, 5),),
            "spread": lambda rng: (numbers(rng, -9, 20, 6),),
            "outliers": lambda rng: (numbers(rng, -9, 20, 7), number(rng, 1, 9)),
        },
        "series": {
            "moving_mean": lambda rng: (numbers(rng, 0, 20, 8), number(rng, 1, 3)),
            "changes": lambda rng: (numbers(rng, 0, 20, 8),),
            "longest_rise": lambda rng: (numbers(rng, 0, 9, 9),),
            "largest_drop": lambda rng: (numbers(rng, 0, 20, 8),),
        },
    },
)
