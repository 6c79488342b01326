"""A tabular softmax policy, and its training."""

import numpy as np

from benchmarks.credit.mdp import Floats, Ints, TabularMdp, optimal_policy, state_values

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


def softmax(logits: Floats) -> Floats:
    """``(S, A)`` probabilities."""
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: Floats = exponentials / exponentials.sum(axis=1, keepdims=True)
    return probabilities


def policy_of_skill(mdp: TabularMdp, success: float) -> Floats:
    """``(S, A)``: a mixture of the uniform and the best policy with this success rate, to within 1e-6."""
    best = optimal_policy(mdp)
    uniform = np.full_like(best, 1.0 / best.shape[1])
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        share = (low + high) / 2
        if success_rate(mdp, (1.0 - share) * uniform + share * best) < success:
            low = share
        else:
            high = share
    return (1.0 - high) * uniform + high * best


def success_rate(mdp: TabularMdp, policy: Floats) -> float:
    """The exact value of the start states, averaged over the tasks."""
    return float(state_values(mdp, policy)[0, list(mdp.starts)].mean())


class SoftmaxPolicy:
    """Logits trained with a policy gradient and Adam, whose steps do not depend on the scale of advantages."""

    def __init__(self, probabilities: Floats, learning_rate: float) -> None:
        """Starts at ``probabilities`` ``(S, A)``, all positive."""
        self.logits = np.log(probabilities)
        self.learning_rate = learning_rate
        self._first_moment = np.zeros_like(self.logits)
        self._second_moment = np.zeros_like(self.logits)
        self._steps = 0

    @property
    def probabilities(self) -> Floats:
        """``(S, A)``"""
        return softmax(self.logits)

    def step(self, states: Ints, actions: Ints, advantages: Floats) -> None:
        """One step up the mean of A·log π(a | s) over the turns, all ``(N,)``."""
        weights = advantages / len(advantages)
        gradient = np.zeros_like(self.logits)
        np.add.at(gradient, (states, actions), weights)
        np.add.at(gradient, states, -weights[:, None] * self.probabilities[states])
        self._first_moment = _BETA1 * self._first_moment + (1 - _BETA1) * gradient
        self._second_moment = _BETA2 * self._second_moment + (1 - _BETA2) * gradient**2
        self._steps += 1
        mean = self._first_moment / (1 - _BETA1**self._steps)
        deviation = np.sqrt(self._second_moment / (1 - _BETA2**self._steps))
        self.logits = self.logits + self.learning_rate * (mean / (deviation + _EPSILON))
