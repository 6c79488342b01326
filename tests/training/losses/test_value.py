"""The squared error of values, by hand and with its clip."""

from collections.abc import Callable

import pytest
import torch

from upturn.training.loss import TokenBatch
from upturn.training.losses.value import SquaredError

Tokens = Callable[..., TokenBatch]
VALUES, OLD, RETURNS = [0.5, 1.0, -1.0, 2.0], [0.5, 0.4, -0.5, 2.5], [1.5, 1.0, -3.0, 1.0]


def test_half_the_squared_distance_to_the_return_and_its_gradient(tokens: Tokens) -> None:
    batch = tokens(VALUES, OLD, RETURNS)
    losses = SquaredError().losses(batch)
    losses.sum().backward()
    assert losses.tolist() == [0.5, 0.0, 2.0, 0.5]
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == [-1.0, 0.0, 2.0, 1.0]
    assert SquaredError().statistics(batch).sums == {"value_loss": 3.0}


def test_a_value_that_moved_beyond_the_clip_towards_its_return_has_no_gradient(tokens: Tokens) -> None:
    """Clip .2: held at .5, .6, -.7 and 2.3. The second overshot by .6 (error .4 counts), the third goes down to its
    return and is held back (2.3 counts), the fourth likewise (1.3 counts)."""
    batch = tokens(VALUES, OLD, RETURNS)
    objective = SquaredError(0.2)
    losses = objective.losses(batch)
    assert losses.tolist() == pytest.approx([0.5, 0.08, 2.645, 0.845])
    losses[1:].sum().backward()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == [0.0] * 4
    assert objective.statistics(batch).sums == {"value_loss": 3.0, "value_clip_fraction": 3.0}


def test_a_value_that_moved_away_from_its_return_keeps_its_gradient(tokens: Tokens) -> None:
    """From 0 to 1 with return −1: the unclipped error is the larger one."""
    batch = tokens([1.0], [0.0], [-1.0])
    losses = SquaredError(0.2).losses(batch)
    losses.sum().backward()
    assert losses.tolist() == [2.0]
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == [2.0]


@pytest.mark.parametrize("clip", [None, 0.2])
def test_masked_slots_give_exactly_zero(noisy: Callable[[], TokenBatch], clip: float | None) -> None:
    batch, objective = noisy(), SquaredError(clip)
    losses = objective.losses(batch)
    losses.sum().backward()
    assert batch.logprobs.grad is not None
    for values in (losses, batch.logprobs.grad):
        assert torch.isfinite(values).all()
        assert values[~batch.mask].tolist() == [0.0, 0.0]
    assert objective.statistics(batch).sums["value_loss"] == pytest.approx(4.5 + 0.5 + 3.125)
