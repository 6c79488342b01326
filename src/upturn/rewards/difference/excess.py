"""How much larger a patch is than the best known fix, and the reward for a small one."""

from upturn.records import EvaluationVerdict
from upturn.rewards.difference.patch import PatchDifference


def excess(edits: int, best: int) -> float:
    """Edits over those of the best known fix: ``edits / max(1, best)``. 1 = as small, 0 = nothing changed.

    Raises ValueError for negative numbers.
    """
    if edits < 0 or best < 0:
        raise ValueError(f"excess needs numbers of edits of 0 or more, got {edits=}, {best=}")
    return edits / max(1, best)


def minimal_difference(
    verdict: EvaluationVerdict, candidate: PatchDifference, fix: PatchDifference
) -> float | None:
    """In [0, 1]: 1 for a passing patch no larger than the best known fix, else 1 / excess.

    0 for a patch that fails: doing nothing is small, and never pays. None = the verdict is missing.
    """
    if verdict == "missing":
        return None
    if verdict == "failure":
        return 0.0
    return 1 / max(1.0, excess(candidate.edits, fix.edits))
