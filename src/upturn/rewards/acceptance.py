"""The reward for training from a handful of tasks, and the controls that say whether its gain is real.

With few tasks there is little to tell learning from luck: models have gained from random rewards (arXiv 2506.10947:
Qwen2.5-Math-7B, 21.4 points with random against 29.1 with true ones; Llama and OLMo did not). A gain is shown where
the true reward beats the same training with each control, from several seeds. Pure functions.
"""

import hashlib
from collections.abc import Iterable

from upturn.records import Evaluation, Trajectory

FORMAT_WEIGHT = 0.1
"""Of the format beside an acceptance of 1: enough to tell failures apart, too little to aim at."""


def acceptance(evaluation: Evaluation) -> float | None:
    """1 for a judged success, 0 for a judged failure, None where the judgement is missing."""
    return None if evaluation.verdict == "missing" else float(evaluation.is_success)


def well_formed(trajectory: Trajectory) -> float:
    """1 when the agent acted and each of its turns could be read as an action, else 0."""
    return float(bool(trajectory.turns) and all(turn.action is not None for turn in trajectory.turns))


def accepted_and_formed(
    trajectory: Trajectory, evaluation: Evaluation, weight: float = FORMAT_WEIGHT
) -> float | None:
    """In [0, 1]: acceptance, and format with ``weight`` beside its 1, over what both can come to. None = missing.

    Rejection earns 0, not −1: in a group only differences count, and a negative reward would be less than that
    of an attempt that was not made. Raises ValueError for a weight with which format is worth as much as
    acceptance.
    """
    if not 0 <= weight < 1:
        raise ValueError(f"the weight of the format must be in [0, 1), got {weight!r}")
    accepted = acceptance(evaluation)
    return None if accepted is None else (accepted + weight * well_formed(trajectory)) / (1 + weight)


def acceptance_rate(evaluations: Iterable[Evaluation]) -> float | None:
    """Share of successes among what could be judged: the rate that a random reward is matched to. None =
    nothing could be judged."""
    found = [each for each in map(acceptance, evaluations) if each is not None]
    return sum(found) / len(found) if found else None


def random_acceptance(trajectory: Trajectory, *, rate: float, seed: int) -> float:
    """A control: 1 with probability ``rate``, else 0, whatever the attempt did.

    The same for the same attempt in each run with this seed: drawn from (seed, task, attempt, the attempt's own
    seed). Raises ValueError unless rate is in [0, 1].
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must be in [0, 1], got {rate!r}")
    parts = (seed, trajectory.seed, trajectory.attempt, trajectory.task_id)
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return float(int.from_bytes(digest) < rate * 2**64)
