"""What every evaluation has, whoever judges."""

import hashlib
from collections.abc import Iterable

from upturn.records import Turn


def evaluation_id(evaluator: str, trajectory_id: str) -> str:
    """The id of this evaluator's judgement of this trajectory: judging again gives the same evaluation."""
    return f"v-{hashlib.blake2b(f'{evaluator}/{trajectory_id}'.encode(), digest_size=8).hexdigest()}"


def summed_costs(turns: Iterable[Turn], known: Iterable[str]) -> dict[str, float]:
    """The turns' costs by component; components in ``known`` are there even where no turn had them."""
    costs = dict.fromkeys(known, 0.0)
    for turn in turns:
        for name, cost in turn.costs.items():
            costs[name] = costs.get(name, 0.0) + cost
    return costs
