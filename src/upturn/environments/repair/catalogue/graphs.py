"""Inputs of ``graphs``."""

from random import Random

from upturn.environments.repair.catalogue.samples import Package

_NODES = "abcdef"


def _graph(rng: Random) -> dict[str, list[str]]:
    graph: dict[str, list[str]] = {}
    is_acyclic = rng.random() < 0.6
    for node in rng.sample(_NODES, rng.randint(1, 5)):
        others = [other for other in _NODES if other > node] if is_acyclic else list(_NODES)
        graph[node] = rng.sample(others, min(len(others), rng.randint(0, 3)))
    return graph


PACKAGE = Package(
    "graphs",
    {
        "walks": {
            "neighbours": lambda rng: (_graph(rng), rng.choice(_NODES)),
            "reachable": lambda rng: (_graph(rng), rng.choice(_NODES)),
            "distance": lambda rng: (_graph(rng), rng.choice(_NODES), rng.choice(_NODES)),
        },
        "structure": {
            "nodes": lambda rng: (_graph(rng),),
            "in_degrees": lambda rng: (_graph(rng),),
            "order": lambda rng: (_graph(rng),),
            "sources": lambda rng: (_graph(rng),),
            "is_connected_from": lambda rng: (_graph(rng), rng.choice(_NODES)),
        },
    },
)
