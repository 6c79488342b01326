"""A policy with one number for each state and action, and how it learns."""

from typing import NamedTuple

import numpy as np

from benchmarks.credit.mdp import Floats, Ints, TabularMdp, optimal_policy, state_values

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


def softmax(logits: Floats) -> Floats:
    """``(S, A)`` probabilities."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: Floats = raised / raised.sum(axis=1, keepdims=True)
    return found


def policy_of_skill(mdp: TabularMdp, success: float) -> Floats:
    """``(S, A)``: chance and the best policy, mixed so that it succeeds this often, to within 1e-6."""
    best = optimal_policy(mdp)
    chance = np.full_like(best, 1.0 / best.shape[1])
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        share = (low + high) / 2
        mixed = (1.0 - share) * chance + share * best
        if success_rate(mdp, mixed) < success:
            low = share
        else:
            high = share
    return (1.0 - high) * chance + high * best


def success_rate(mdp: TabularMdp, policy: Floats) -> float:
    """The exact value of the start, the mean over the tasks."""
    return float(state_values(mdp, policy)[0, list(mdp.starts)].mean())


class _Moments(NamedTuple):
    first: Floats
    second: Floats
    steps: int


class SoftmaxPolicy:
    """Logits that climb a policy gradient with Adam, whose steps do not depend on the scale of advantages."""

    def __init__(self, probabilities: Floats, learning_rate: float) -> None:
        """Starts at ``probabilities`` ``(S, A)``, all positive."""
        self.logits = np.log(probabilities)
        self.learning_rate = learning_rate
        self._moments = _Moments(np.zeros_like(self.logits), np.zeros_like(self.logits), 0)

    @property
    def probabilities(self) -> Floats:
        """``(S, A)``"""
        return softmax(self.logits)

    def learn(self, states: Ints, actions: Ints, advantages: Floats) -> None:
        """One step up the mean of A·log π(a | s) over the turns, all ``(N,)``."""
        weights = advantages / len(advantages)
        gradient = np.zeros_like(self.logits)
        np.add.at(gradient, (states, actions), weights)
        np.add.at(gradient, states, -weights[:, None] * self.probabilities[states])
        first, second, steps = self._moments
        first = _BETA1 * first + (1 - _BETA1) * gradient
        second = _BETA2 * second + (1 - _BETA2) * gradient**2
        steps += 1
        self._moments = _Moments(first, second, steps)
        step = first / (1 - _BETA1**steps) / (np.sqrt(second / (1 - _BETA2**steps)) + _EPSILON)
        self.logits = self.logits + self.learning_rate * step
