"""Generalised advantage estimation and discounted returns, by turn or by token, in plain numpy.

Arrays are ``(..., T)``: T steps in time, any axes before. The mask excludes positions that are no steps, such as
observations between written tokens: values and TD errors there are skipped (as verl does), so that they cannot
affect a result. A reward at a masked position is lost. ``credit_units`` defines steps and their rewards; its arrays
need no mask."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upturn.errors import TrainingError
from upturn.training.advantages import whitening

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


class GeneralisedAdvantages(NamedTuple):
    """Both ``(..., T)``; at a masked position the numbers of the next valid step, 0 after the last."""

    advantages: Floats
    returns: Floats
    """λ-returns: advantage plus value, the targets of a value function."""


def generalised_advantages(
    rewards: ArrayLike, values: ArrayLike, mask: ArrayLike | None = None, *, gamma: float, trace: float
) -> GeneralisedAdvantages:
    """Returns GAE(γ, λ) of Schulman et al. (arXiv 1506.02438), equation 16, computed from the last step back.

    ``rewards``, ``values``: ``(..., T)``; the value after the last step is 0. ``mask``: ``(..., T)``, True = a
    valid step, None = all are. ``trace``: λ. Raises TrainingError for different shapes and for γ or λ outside [0,
    1]."""
    reward, value, valid = _align(rewards, values, mask)
    _check_share("gamma", gamma)
    _check_share("trace", trace)
    reward, value = np.where(valid, reward, 0.0), np.where(valid, value, 0.0)  # may be NaN elsewhere
    advantages, returns = np.zeros_like(reward), np.zeros_like(reward)
    advantage = np.zeros(reward.shape[:-1])
    next_value = np.zeros(reward.shape[:-1])
    for step in range(reward.shape[-1] - 1, -1, -1):
        is_step = valid[..., step]
        td_error = reward[..., step] + gamma * next_value - value[..., step]
        advantage = np.where(is_step, td_error + gamma * trace * advantage, advantage)
        next_value = np.where(is_step, value[..., step], next_value)
        advantages[..., step] = advantage
        returns[..., step] = advantage + next_value
    return GeneralisedAdvantages(advantages, returns)


def discounted_returns(rewards: ArrayLike, mask: ArrayLike | None = None, *, gamma: float) -> Floats:
    """Returns ``(..., T)``: G_t = r_t + γ·G of the next valid step; masked positions neither discount nor
    propagate.

    Departure from common implementations of REINFORCE++, where the sum restarts after every masked position, so
    that a turn gets no credit for rewards after the next observation."""
    reward, _, valid = _align(rewards, rewards, mask)
    _check_share("gamma", gamma)
    returns = np.zeros_like(reward)
    following = np.zeros(reward.shape[:-1])
    for step in range(reward.shape[-1] - 1, -1, -1):
        returns[..., step] = reward[..., step] + gamma * following
        following = np.where(valid[..., step], returns[..., step], following)
    return returns


def whitened(values: ArrayLike, mask: ArrayLike | None = None) -> Floats:
    """Returns the values after the map of ``whitening`` for the valid ones, also applied to the others."""
    numbers, _, valid = _align(values, values, mask)
    chosen: list[float] = numbers[valid].tolist()
    change = whitening(chosen, [1] * len(chosen))
    return np.array([change(value) for value in numbers.flat], dtype=np.float64).reshape(numbers.shape)


def _align(rewards: ArrayLike, values: ArrayLike, mask: ArrayLike | None) -> tuple[Floats, Floats, Mask]:
    first = np.asarray(rewards, dtype=np.float64)
    second = np.asarray(values, dtype=np.float64)
    valid = np.ones(first.shape, dtype=np.bool_) if mask is None else np.asarray(mask).astype(np.bool_)
    if first.ndim == 0 or first.shape != second.shape or first.shape != valid.shape:
        raise TrainingError(
            f"rewards, values and mask have the shapes {first.shape}, {second.shape} and {valid.shape}; they must "
            "be equal, with time as the last axis"
        )
    return first, second, valid


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise TrainingError(f"{name} must be in [0, 1], got {value!r}")
