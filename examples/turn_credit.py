"""Which turn earned the reward? Six estimators of turn credit from scratch, in an environment with a known answer.

    python examples/turn_credit.py            # numpy only, about ten seconds

A corridor of five cells: fetch the key in cell 1 and open the door in cell 4, starting in cell 2, within ten turns.
Opening the door with the key has reward 1; without it the episode ends. One step in ten fails. The environment is
so small that the value of every state is computed exactly, and with it the advantage of every turn,
ΔV = r + V(s') − V(s). An estimator sees only a group of episodes; the closer its ranking of the turns is to that of
ΔV, the better its credit. A test keeps the numbers equal to those of ``upturn.training.advantages``.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

# The environment: states 0 to 4 are the cells without the key, 5 to 9 with it, 10 is success, 11 the alarm.
LEFT, RIGHT, TAKE, OPEN, LOOK = range(5)
KEY, START, DOOR, SUCCESS, ALARM, TURNS = 1, 2, 4, 10, 11, 10
BEST = np.eye(5)[[RIGHT, TAKE, LEFT, LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT, OPEN, LOOK, LOOK]]

P = np.zeros((12, 5, 12))  # P[s, a, s'] is the probability of s' after action a in state s
for state in range(12):
    for action in range(5):
        cell, target = state % 5, state
        if state < SUCCESS and action in (LEFT, RIGHT):
            target = state + (action == RIGHT and cell < 4) - (action == LEFT and cell > 0)
        elif state < SUCCESS and action == TAKE and cell == KEY:
            target = cell + 5
        elif state < SUCCESS and action == OPEN and cell == DOOR:
            target = SUCCESS if state >= 5 else ALARM
        slip = 0.1 if action in (LEFT, RIGHT) else 0.0
        P[state, action, target] += 1 - slip
        P[state, action, state] += slip


def skilled(share: float) -> Array:
    """A mixture of the uniform and the best policy: a probability for every state and action."""
    return (1 - share) / 5 + share * BEST


def exact_values(policy: Array) -> Array:
    """V[t, s]: the probability of success from state s before turn t, by dynamic programming."""
    values = np.zeros((TURNS + 1, 12))
    for turn in range(TURNS - 1, -1, -1):
        ahead = P[:, :, SUCCESS] + P @ values[turn + 1]
        values[turn, :SUCCESS] = (policy * ahead).sum(1)[:SUCCESS]
    return values


class Episode(NamedTuple):
    """States, actions and the reward."""

    states: list[int]  # one more than the actions
    actions: list[int]
    reward: float  # of the last turn; the others have none


def play(policy: Array, rng: np.random.Generator, state: int = START, turn: int = 0) -> Episode:
    """One episode, from any state: this needs an environment that can restore its states."""
    states, actions = [state], []
    while state < SUCCESS and turn < TURNS:
        actions.append(int(np.searchsorted(np.cumsum(policy[state]), rng.random())))
        state = int(np.searchsorted(np.cumsum(P[state, actions[-1]]), rng.random()))
        states.append(state)
        turn += 1
    return Episode(states, actions, float(state == SUCCESS))


# The estimators: from a group of episodes to one number per turn of every episode.
Group: TypeAlias = Sequence[Episode]
Credit: TypeAlias = list[list[float]]


def trajectory(group: Group) -> Credit:
    """GRPO without the standard deviation: every turn has the episode's return minus the group's mean."""
    mean = np.mean([episode.reward for episode in group])
    return [[float(episode.reward - mean)] * len(episode.actions) for episode in group]


def returns_to_go(group: Group, gamma: float) -> Credit:
    """The final reward, discounted by its distance in turns."""
    return [[episode.reward * gamma**n for n in reversed(range(len(episode.actions)))] for episode in group]


def by_turn(group: Group, gamma: float = 0.95) -> Credit:
    """Returns to go, minus their mean over the turns with the same number."""
    to_go = returns_to_go(group, gamma)
    means = [np.mean([own[t] for own in to_go if len(own) > t]) for t in range(max(map(len, to_go)))]
    return [[float(value - means[t]) for t, value in enumerate(own)] for own in to_go]


def by_state(group: Group, gamma: float = 0.95) -> Credit:
    """GiGPO: trajectory, plus returns to go minus their mean over all turns in the same state."""
    to_go, by_state = returns_to_go(group, gamma), defaultdict(list)
    for episode, own in zip(group, to_go, strict=True):
        for t, value in enumerate(own):
            by_state[episode.states[t]].append(value)
    return [
        [float(whole + value - np.mean(by_state[state])) for whole, value, state in zip(*row, strict=False)]
        for row in zip(trajectory(group), to_go, (episode.states for episode in group), strict=True)
    ]


def by_tree(group: Group) -> Credit:
    """V(history) is the mean return of the episodes with it; a turn's credit is the change of V."""

    def histories(episode: Episode) -> list[tuple[int, ...]]:
        return [(*episode.states[: t + 1], *episode.actions[:t]) for t in range(len(episode.actions))]

    sharing = defaultdict(list)
    for episode in group:
        for history in histories(episode):
            sharing[history].append(episode.reward)
    values = [[*(float(np.mean(sharing[h])) for h in histories(episode)), episode.reward] for episode in group]
    return [[after - before for before, after in pairwise(own)] for own in values]


def measure_values(group: Group, policy: Array, rng: np.random.Generator, count: int) -> tuple[Credit, int]:
    """V̂ of each state (0 after the end) as the mean of ``count`` continuations, and their number of actions."""
    values, actions = [], 0
    for episode in group:
        continuations = [[play(policy, rng, s, t) for _ in range(count)] for t, s in enumerate(episode.states[:-1])]
        values.append([*(float(np.mean([one.reward for one in part])) for part in continuations), 0.0])
        actions += sum(len(one.actions) for one in chain.from_iterable(continuations))
    return values, actions


def by_value(group: Group, values: Credit) -> Credit:
    """VinePPO: r + V̂(s') − V̂(s)."""
    changes = [[after - before for before, after in pairwise(own)] for own in values]
    return [[*own[:-1], own[-1] + episode.reward] for episode, own in zip(group, changes, strict=True)]


def by_divergence(group: Group, values: Credit, count: int, alpha: float = 0.05) -> Credit:
    """by_value where it is significant: the first significant fall, and every significant rise.

    Hoeffding: any of T changes is beyond the threshold by chance with probability alpha at most.
    """
    credit = []
    for own in by_value(group, values):
        noise = [2.0 / count] * (len(own) - 1) + [1.0 / count]  # the value after the end is exact
        is_real = [abs(x) > np.sqrt(np.log(2 * len(own) / alpha) * n / 2) for x, n in zip(own, noise, strict=True)]
        falls = [t for t, change in enumerate(own) if is_real[t] and change < 0]
        credit.append([x if is_real[t] and (x > 0 or t == falls[0]) else 0.0 for t, x in enumerate(own)])
    return credit


def exact_changes(group: Group, values: Array) -> list[float]:
    """ΔV of all turns of a group, in order."""
    own = [[*(float(values[t, s]) for t, s in enumerate(episode.states[:-1])), 0.0] for episode in group]
    return list(chain.from_iterable(by_value(group, own)))


def ranks(numbers: Sequence[float]) -> Array:
    """Ranks from 0; equal numbers have the mean of their ranks."""
    _, positions, counts = np.unique(np.round(numbers, 12), return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[positions])


def train(estimator: Callable[[Group], Credit], seed: int, rate: float = 4.0, budget: int = 30_000) -> int:
    """Actions that a plain policy gradient samples until success 0.8, from a weak policy."""
    rng, logits, sampled = np.random.default_rng(seed), np.log(skilled(0.2)), 0
    while sampled < budget:
        policy = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        if exact_values(policy)[0, START] >= 0.8:
            return sampled
        group = [play(policy, rng) for _ in range(16)]
        sampled += sum(len(episode.actions) for episode in group)
        for episode, own in zip(group, estimator(group), strict=True):
            for state, action, advantage in zip(episode.states, episode.actions, own, strict=False):
                logits[state] += rate * advantage * (np.eye(5)[action] - policy[state]) / len(group)
    return budget


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    print("rank correlation with the exact advantage, for increasingly good policies")
    for share in (0.3, 0.5, 0.7):
        current, truth = skilled(share), list[float]()
        credit = defaultdict[str, list[float]](list)
        for _ in range(10):
            group = [play(current, generator) for _ in range(8)]
            states, _ = measure_values(group, current, generator, 64)
            truth += exact_changes(group, exact_values(current))
            for estimator in (trajectory, by_turn, by_state, by_tree):
                credit[estimator.__name__] += chain.from_iterable(estimator(group))
            credit["by_value"] += chain.from_iterable(by_value(group, states))
            credit["by_divergence"] += chain.from_iterable(by_divergence(group, states, 64))
        correlation = {name: np.corrcoef(ranks(numbers), ranks(truth))[0, 1] for name, numbers in credit.items()}
        print(f"success {exact_values(current)[0, START]:.2f}:", *(f"{n} {x:.2f}" for n, x in correlation.items()))
    print("actions sampled until 80 % success (at most 30,000), median of seven seeds")
    for estimator in (trajectory, by_turn, by_state, by_tree):
        print(f"{estimator.__name__:>10} {int(np.median([train(estimator, seed) for seed in range(7)])):>6}")
