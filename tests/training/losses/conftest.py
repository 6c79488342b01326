"""Batches for the tests of losses."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch

from upturn.training.loss import TokenBatch


def _tokens(
    logprobs: Sequence[float],
    old: Sequence[float],
    weights: Sequence[float],
    *,
    mask: Sequence[bool] | None = None,
    corrections: Sequence[float] | None = None,
    reference: Sequence[float] | None = None,
    sequences: Sequence[int] | None = None,
    turns: Sequence[int] | None = None,
) -> TokenBatch:
    """A flat batch in float64 whose log-probs carry a gradient; all take part unless a mask says otherwise."""

    def column(values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64)

    return TokenBatch(
        column(logprobs).requires_grad_(),
        column(old),
        column(weights),
        torch.ones(len(logprobs), dtype=torch.bool) if mask is None else torch.tensor(mask),
        None if corrections is None else column(corrections),
        None if reference is None else column(reference),
        None if sequences is None else torch.tensor(sequences, dtype=torch.int64),
        None if turns is None else torch.tensor(turns, dtype=torch.int64),
    )


@pytest.fixture
def tokens() -> Callable[..., TokenBatch]:
    """A flat batch from lists."""
    return _tokens


@pytest.fixture
def noisy() -> Callable[[], TokenBatch]:
    """Three tokens that take part, in three turns of two sequences, with NaN and infinity in all other slots."""
    nan, inf = math.nan, math.inf
    return lambda: _tokens(
        [-1.0, nan, -2.0, inf, -0.5],
        [-1.2, nan, -1.5, nan, -1.0],
        [2.0, nan, -1.0, nan, -3.0],
        mask=[True, False, True, False, True],
        corrections=[1.0, nan, 0.5, inf, 1.0],
        reference=[-1.1, nan, -1.9, nan, -0.9],
        sequences=[0, 0, 0, 1, 1],
        turns=[0, 0, 1, 2, 2],
    )
