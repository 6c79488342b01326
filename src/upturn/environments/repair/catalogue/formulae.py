"""Inputs of ``formulae``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package, word


def _formula(rng: Random, levels: int = 3) -> str:
    if not levels or rng.random() < 0.3:
        return str(rng.randint(0, 30))
    inner = f"{_formula(rng, levels - 1)}{rng.choice(('+', ' - ', '*', ' + '))}{_formula(rng, levels - 1)}"
    return f"({inner})" if rng.random() < 0.4 else inner


def _brackets(rng: Random) -> str:
    return word(rng, "()1", 7) if rng.random() < 0.6 else _formula(rng)


PACKAGE = Package(
    "formulae",
    {
        "tokens": {
            "tokens": lambda rng: (_formula(rng, 2) + rng.choice(("", "", "", " x")),),
            "is_balanced": lambda rng: (_brackets(rng),),
            "depth": lambda rng: (_brackets(rng),),
        },
        "values": {
            "to_postfix": lambda rng: (_formula(rng),),
            "calculate": lambda rng: (rng.randint(-9, 20), rng.choice("+-*"), rng.randint(-9, 20)),
            "value": lambda rng: (_formula(rng) + rng.choice(("", "", "", ")")),),
        },
    },
)
