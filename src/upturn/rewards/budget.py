"""Penalties and rewards for how long an attempt is and how often it says the same; pure functions of its tokens.

They are meant to be added to what an attempt earned, before it is compared with others, or to be components of a
verifier's rubric (docs/environments.md). Length alone must never pay: apply them beside a verified outcome, not
instead of one.
"""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Bounds(NamedTuple):
    """Reward of the longest and of the shortest attempt."""

    longest: float
    shortest: float


CORRECT = Bounds(longest=0.5, shortest=1.0)
"""Among correct attempts the short ones earn more …"""
WRONG = Bounds(longest=-0.5, shortest=-1.0)
"""… among wrong ones the long ones lose less: thinking longer is what a failure should try."""


def soft_overlong(length: int, *, limit: int, buffer: int) -> float:
    """In [−1, 0]: 0 up to ``limit`` − ``buffer`` tokens, falling in a straight line to −1 at ``limit`` and beyond.

    DAPO (arXiv 2503.14476, eq. 13). Raises ValueError unless 0 < buffer < limit and length ≥ 0.
    """
    if not 0 < buffer < limit or length < 0:
        raise ValueError(
            f"soft_overlong needs 0 < buffer < limit and length 0 or more, got {buffer=}, {limit=}, {length=}"
        )
    return -min(max((length - (limit - buffer)) / buffer, 0.0), 1.0)


def cosine_length(length: int, *, limit: int, is_correct: bool) -> float:
    """Reward by outcome and length: along half a cosine from ``shortest`` at 0 tokens to ``longest`` at ``limit``.

    Yeo et al. (arXiv 2502.03373), with the bounds CORRECT and WRONG. A longer attempt counts as one of ``limit``
    tokens. Raises ValueError unless limit > 0 and length ≥ 0.
    """
    if limit <= 0 or length < 0:
        raise ValueError(f"cosine_length needs limit > 0 and length 0 or more, got {limit=}, {length=}")
    bounds = CORRECT if is_correct else WRONG
    share = (1 + math.cos(math.pi * min(length / limit, 1.0))) / 2
    return bounds.longest + (bounds.shortest - bounds.longest) * share


def repetition(tokens: Sequence[Hashable], *, size: int) -> float:
    """In (−1, 0]: minus the share of runs of ``size`` tokens that have occurred before.

    (unique / all) − 1 over the n-grams (Yeo et al., arXiv 2502.03373). 0 for fewer than ``size`` tokens. Raises
    ValueError unless size ≥ 1.
    """
    if size < 1:
        raise ValueError(f"repetition needs size 1 or more, got {size!r}")
    runs = [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]
    return len(set(runs)) / len(runs) - 1 if runs else 0.0
