"""Inputs of ``workload``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package, names, number, numbers


def _jobs(rng: Random, least: int = 0) -> list[tuple[str, int]]:
    return [(name, rng.randint(1, 9)) for name in names(rng, rng.randint(least, 6))]


PACKAGE = Package(
    "workload",
    {
        "batches": {
            "chunks": lambda rng: (numbers(rng, 0, 9, 9), number(rng, 1, 4)),
            "by_weight": lambda rng: (_jobs(rng), number(rng, 5, 14)),
            "interleave": lambda rng: (numbers(rng, 0, 9, 4), numbers(rng, 10, 19, 4)),
        },
        "queues": {
            "round_robin": lambda rng: (_jobs(rng), number(rng, 1, 4)),
            "shortest_first": lambda rng: (_jobs(rng),),
            "waiting_time": lambda rng: (_jobs(rng),),
            "on_workers": lambda rng: (_jobs(rng), number(rng, 1, 3)),
            "rounds": lambda rng: (_jobs(rng), number(rng, 1, 3)),
        },
    },
)
