"""The reward for training on a handful of tasks, and control rewards that show whether its gain is real.

With few tasks, learning is hard to tell from chance: models have gained from random rewards (arXiv 2506.10947:
Qwen2.5-Math-7B, 21.4 points with random against 29.1 with true ones; Llama and OLMo did not). A gain counts where
the true reward beats the same training with each control reward, over several seeds. Pure functions.
"""

import hashlib
from collections.abc import Iterable

from upturn.records import Evaluation, Trajectory

FORMAT_WEIGHT = 0.1
"""Weight of the format; acceptance has weight 1. Enough to distinguish failures, too little to optimise for."""


def acceptance(evaluation: Evaluation) -> float | None:
    """1 for a success, 0 for a failure, None for a missing evaluation."""
    return None if evaluation.verdict == "missing" else float(evaluation.is_success)


def format_reward(trajectory: Trajectory) -> float:
    """1 when there is at least one turn and every turn parses as an action, else 0."""
    return float(bool(trajectory.turns) and all(turn.action is not None for turn in trajectory.turns))


def acceptance_with_format(
    trajectory: Trajectory, evaluation: Evaluation, weight: float = FORMAT_WEIGHT
) -> float | None:
    """In [0, 1]: (acceptance + ``weight`` · format) / (1 + ``weight``). None = missing.

    A failure earns 0, not −1: in a group only differences count. Raises ValueError for a weight outside [0, 1):
    format must be worth less than acceptance.
    """
    if not 0 <= weight < 1:
        raise ValueError(f"the weight of the format must be in [0, 1), got {weight!r}")
    accepted = acceptance(evaluation)
    return None if accepted is None else (accepted + weight * format_reward(trajectory)) / (1 + weight)


def acceptance_rate(evaluations: Iterable[Evaluation]) -> float | None:
    """Share of successes among evaluations that are not missing: the rate of the random control reward.

    None = all are missing.
    """
    rewards = [reward for reward in map(acceptance, evaluations) if reward is not None]
    return sum(rewards) / len(rewards) if rewards else None


def random_acceptance(trajectory: Trajectory, *, rate: float, seed: int) -> float:
    """A control reward: 1 with probability ``rate``, else 0, independent of what the agent did.

    A function of (seed, trajectory seed, attempt, task), so it repeats from run to run. Raises ValueError unless
    rate is in [0, 1].
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must be in [0, 1], got {rate!r}")
    parts = (seed, trajectory.seed, trajectory.attempt, trajectory.task_id)
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return float(int.from_bytes(digest) < rate * 2**64)
