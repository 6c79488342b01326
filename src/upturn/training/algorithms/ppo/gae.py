"""Generalised advantage estimation and discounted returns, by turn or by token, in plain numpy.

Arrays are ``(..., T)``: T steps in time, any axes before. What is no step, such as observations between written
tokens, the mask leaves out of everything: values and TD errors there are skipped (as verl does), so that what
stands there cannot change a result. A reward on a masked place is lost. What the steps of an attempt are, and where
its rewards stand, is ``credit_units``'s; where those are all that is there, nothing is masked.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upturn.errors import TrainingError
from upturn.training.advantages import whitening

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


class GeneralisedAdvantages(NamedTuple):
    """Both ``(..., T)``; at a masked place the numbers of the next step that counts, 0 after the last."""

    advantages: Floats
    returns: Floats
    """λ-returns: advantage plus value, what a value function is fitted to."""


def generalised_advantages(
    rewards: ArrayLike, values: ArrayLike, mask: ArrayLike | None = None, *, gamma: float, trace: float
) -> GeneralisedAdvantages:
    """GAE(γ, λ) of Schulman et al. (arXiv 1506.02438), equation 16, from the last step back.

    ``rewards``, ``values``: ``(..., T)``; the value after the last step is 0. ``mask``: ``(..., T)``, True = a step
    that counts, None = all do. ``trace``: λ. Raises TrainingError for shapes that differ and for γ or λ outside
    [0, 1].
    """
    earned, valued, counts = _aligned(rewards, values, mask)
    _check_share("gamma", gamma)
    _check_share("trace", trace)
    earned, valued = np.where(counts, earned, 0.0), np.where(counts, valued, 0.0)  # NaN may stand elsewhere
    advantages, returns = np.zeros_like(earned), np.zeros_like(earned)
    ahead = np.zeros(earned.shape[:-1])
    next_value = np.zeros(earned.shape[:-1])
    for step in range(earned.shape[-1] - 1, -1, -1):
        is_step = counts[..., step]
        surprise = earned[..., step] + gamma * next_value - valued[..., step]
        ahead = np.where(is_step, surprise + gamma * trace * ahead, ahead)
        next_value = np.where(is_step, valued[..., step], next_value)
        advantages[..., step] = ahead
        returns[..., step] = ahead + next_value
    return GeneralisedAdvantages(advantages, returns)


def discounted_returns(rewards: ArrayLike, mask: ArrayLike | None = None, *, gamma: float) -> Floats:
    """``(..., T)``: G_t = r_t + γ·G of the next step that counts; masked places neither discount nor pass on.

    Departure from REINFORCE++ as its peers write it: there the sum starts anew behind every masked place, so that a
    turn would never learn of what came after the next observation.
    """
    earned, _, counts = _aligned(rewards, rewards, mask)
    _check_share("gamma", gamma)
    found = np.zeros_like(earned)
    ahead = np.zeros(earned.shape[:-1])
    for step in range(earned.shape[-1] - 1, -1, -1):
        found[..., step] = earned[..., step] + gamma * ahead
        ahead = np.where(counts[..., step], found[..., step], ahead)
    return found


def whitened(values: ArrayLike, mask: ArrayLike | None = None) -> Floats:
    """The values as ``whitening`` changes those of all places that count, and changed alike elsewhere."""
    numbers, _, counts = _aligned(values, values, mask)
    chosen: list[float] = numbers[counts].tolist()
    change = whitening(chosen, [1] * len(chosen))
    return np.array([change(value) for value in numbers.flat], dtype=np.float64).reshape(numbers.shape)


def _aligned(rewards: ArrayLike, values: ArrayLike, mask: ArrayLike | None) -> tuple[Floats, Floats, Mask]:
    first = np.asarray(rewards, dtype=np.float64)
    second = np.asarray(values, dtype=np.float64)
    counts = np.ones(first.shape, dtype=np.bool_) if mask is None else np.asarray(mask).astype(np.bool_)
    if first.ndim == 0 or first.shape != second.shape or first.shape != counts.shape:
        raise TrainingError(
            f"rewards, values and mask have the shapes {first.shape}, {second.shape} and {counts.shape}; they must "
            "be equal, with time as the last axis"
        )
    return first, second, counts


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise TrainingError(f"{name} must be in [0, 1], got {value!r}")
