"""Inputs of ``money``."""

from upturn.environments.repair.catalogue.samples import Package, number

PACKAGE = Package(
    "money",
    {
        "rates": {
            "percent_of": lambda rng: (number(rng, 0, 3000), number(rng, 0, 60)),
            "tax": lambda rng: (rng.choice((1000, 5000, 20000, rng.randint(0, 40000))),),
            "compound": lambda rng: (number(rng, 100, 5000), number(rng, 1, 9), number(rng, 0, 5)),
            "years_until": lambda rng: (number(rng, 100, 900), number(rng, 500, 1500), number(rng, 0, 9)),
        },
        "payments": {
            "change": lambda rng: (number(rng, 0, 700),),
            "split": lambda rng: (number(rng, 0, 100), number(rng, 1, 7)),
            "schedule": lambda rng: (number(rng, 100, 900), number(rng, 0, 3), number(rng, 50, 200)),
        },
    },
)
