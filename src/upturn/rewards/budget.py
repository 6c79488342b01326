"""Length and repetition rewards: pure functions of a trajectory's tokens.

``[[rewards.measures]]`` makes them components of the reward (docs/evaluation.md). Length alone must never pay: use
them in addition to a verified outcome, not instead of one.
"""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Bounds(NamedTuple):
    """Reward of the longest and of the shortest trajectory."""

    longest: float
    shortest: float


CORRECT = Bounds(longest=0.5, shortest=1.0)
"""Among correct trajectories, shorter ones earn more …"""
WRONG = Bounds(longest=-0.5, shortest=-1.0)
"""… among wrong ones, longer ones lose less: it encourages a failing policy to think longer."""


def soft_overlong(length: int, *, limit: int, buffer: int) -> float:
    """In [−1, 0]: 0 up to ``limit`` − ``buffer`` tokens, then linear down to −1 at ``limit`` and beyond.

    DAPO (arXiv 2503.14476, eq. 13). Raises ValueError unless 0 < buffer < limit and length ≥ 0.
    """
    if not 0 < buffer < limit or length < 0:
        raise ValueError(
            f"soft_overlong needs 0 < buffer < limit and length 0 or more, got {buffer=}, {limit=}, {length=}"
        )
    return -min(max((length - (limit - buffer)) / buffer, 0.0), 1.0)


def cosine_length(length: int, *, limit: int, is_correct: bool) -> float:
    """Reward by outcome and length: along half a cosine from ``shortest`` at 0 tokens to ``longest`` at ``limit``.

    Yeo et al. (arXiv 2502.03373), with the bounds CORRECT and WRONG. ``length`` is capped at ``limit``. Raises
    ValueError unless limit > 0 and length ≥ 0.
    """
    if limit <= 0 or length < 0:
        raise ValueError(f"cosine_length needs limit > 0 and length 0 or more, got {limit=}, {length=}")
    bounds = CORRECT if is_correct else WRONG
    share = (1 + math.cos(math.pi * min(length / limit, 1.0))) / 2
    return bounds.longest + (bounds.shortest - bounds.longest) * share


def repetition(tokens: Sequence[Hashable], *, size: int) -> float:
    """In (−1, 0]: minus the share of n-grams of ``size`` tokens that repeat an earlier one.

    (unique / all) − 1 (Yeo et al., arXiv 2502.03373); 0 for fewer than ``size`` tokens. Raises
    ValueError unless size ≥ 1.
    """
    if size < 1:
        raise ValueError(f"repetition needs size 1 or more, got {size!r}")
    ngrams = [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]
    return len(set(ngrams)) / len(ngrams) - 1 if ngrams else 0.0


LCPO_ALPHA, LCPO_DELTA = 3e-4, 0.5
"""Of the paper."""


def lcpo_exact(length: int, *, target: int, is_correct: bool, alpha: float = LCPO_ALPHA) -> float:
    """1 for a correct answer, else 0, less ``alpha`` for each token of difference to the target.

    LCPO-Exact (L1, arXiv 2503.04697, eq. 1). Raises ValueError unless target > 0, alpha > 0 and length ≥ 0.
    """
    _check_lcpo(length, target, alpha)
    return float(is_correct) - alpha * abs(target - length)


def lcpo_max(
    length: int, *, target: int, is_correct: bool, alpha: float = LCPO_ALPHA, delta: float = LCPO_DELTA
) -> float:
    """In [0, 1]: for a correct answer ``delta`` at the target and ``alpha`` more for each token less; 0 if wrong.

    LCPO-Max (L1, arXiv 2503.04697, eq. 2). A slightly longer answer keeps most of ``delta``. Raises ValueError as
    ``lcpo_exact``, and unless 0 ≤ delta ≤ 1.
    """
    _check_lcpo(length, target, alpha)
    if not 0 <= delta <= 1:
        raise ValueError(f"lcpo_max needs delta in [0, 1], got {delta!r}")
    return min(max(alpha * (target - length) + delta, 0.0), 1.0) if is_correct else 0.0


def _check_lcpo(length: int, target: int, alpha: float) -> None:
    if target <= 0 or alpha <= 0 or length < 0:
        raise ValueError(
            f"LCPO needs target > 0, alpha > 0 and length 0 or more, got {target=}, {alpha=}, {length=}"
        )


def within(length: int, *, limit: int, is_correct: bool) -> float:
    """1 for a correct answer of at most ``limit`` tokens, else 0: ThinkPrune's reward (arXiv 2504.01296).

    ThinkPrune trains in rounds, each with a lower limit. Raises ValueError unless limit > 0 and length ≥ 0.
    """
    if limit <= 0 or length < 0:
        raise ValueError(f"within needs limit > 0 and length 0 or more, got {limit=}, {length=}")
    return float(is_correct and length <= limit)
