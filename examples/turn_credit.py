"""Which turn earned the reward? Six estimators of turn credit from scratch, in a world with a known answer.

    python examples/turn_credit.py            # numpy only, about ten seconds

A corridor of five cells: fetch the key in cell 1 and open the door in cell 4, starting in cell 2, within ten turns.
Opening the door with the key earns 1; opening it without ends the attempt. Steps slip one time in ten. The world is
so small that the value of every state is computed exactly, and with it what each turn really changed,
ΔV = r + V(s') − V(s). An estimator sees a group of attempts only; the better its numbers rank the turns as ΔV does,
the better it gives credit. A test keeps the numbers equal to those of ``upturn.training.advantages``.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

# The world: states 0 to 4 are the cells without the key, 5 to 9 with it, 10 is success, 11 the alarm.
LEFT, RIGHT, TAKE, OPEN, LOOK = range(5)
KEY, START, DOOR, SUCCESS, ALARM, TURNS = 1, 2, 4, 10, 11, 10
BEST = np.eye(5)[[RIGHT, TAKE, LEFT, LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT, OPEN, LOOK, LOOK]]

P = np.zeros((12, 5, 12))  # P[s, a, s'] is the probability of s' after action a in state s
for here in range(12):
    for action in range(5):
        cell, there = here % 5, here
        if here < SUCCESS and action in (LEFT, RIGHT):
            there = here + (action == RIGHT and cell < 4) - (action == LEFT and cell > 0)
        elif here < SUCCESS and action == TAKE and cell == KEY:
            there = cell + 5
        elif here < SUCCESS and action == OPEN and cell == DOOR:
            there = SUCCESS if here >= 5 else ALARM
        slip = 0.1 if action in (LEFT, RIGHT) else 0.0
        P[here, action, there] += 1 - slip
        P[here, action, here] += slip


def skilled(share: float) -> Array:
    """A policy, a probability for each state and action: chance and the best one, mixed."""
    return (1 - share) / 5 + share * BEST


def exact_values(policy: Array) -> Array:
    """V[t, s]: the chance of success from state s before turn t, by dynamic programming."""
    values = np.zeros((TURNS + 1, 12))
    for turn in range(TURNS - 1, -1, -1):
        ahead = P[:, :, SUCCESS] + P @ values[turn + 1]
        values[turn, :SUCCESS] = (policy * ahead).sum(1)[:SUCCESS]
    return values


class Attempt(NamedTuple):
    """What was met, done and earned."""

    states: list[int]  # one more than actions
    actions: list[int]
    reward: float  # of the last turn; the others earn nothing


def play(policy: Array, rng: np.random.Generator, state: int = START, turn: int = 0) -> Attempt:
    """One attempt, which may begin anywhere: environments that can be entered again make that possible."""
    states, actions = [state], []
    while state < SUCCESS and turn < TURNS:
        actions.append(int(np.searchsorted(np.cumsum(policy[state]), rng.random())))
        state = int(np.searchsorted(np.cumsum(P[state, actions[-1]]), rng.random()))
        states.append(state)
        turn += 1
    return Attempt(states, actions, float(state == SUCCESS))


# The estimators: a group of attempts in, one number per turn of each attempt out.
Group: TypeAlias = Sequence[Attempt]
Credit: TypeAlias = list[list[float]]


def trajectory(group: Group) -> Credit:
    """GRPO without its deviation: every turn of an attempt gets its return minus the group's mean."""
    mean = np.mean([each.reward for each in group])
    return [[float(each.reward - mean)] * len(each.actions) for each in group]


def returns_to_go(group: Group, gamma: float) -> Credit:
    """The reward at the end, discounted by the turns that it is away."""
    return [[each.reward * gamma**away for away in reversed(range(len(each.actions)))] for each in group]


def by_turn(group: Group, gamma: float = 0.95) -> Credit:
    """Returns to go, minus their mean over the attempts that made a turn of the same number."""
    to_go = returns_to_go(group, gamma)
    means = [np.mean([own[t] for own in to_go if len(own) > t]) for t in range(max(map(len, to_go)))]
    return [[float(value - means[t]) for t, value in enumerate(own)] for own in to_go]


def by_state(group: Group, gamma: float = 0.95) -> Credit:
    """GiGPO: trajectory, plus returns to go minus their mean over all turns that began in the same state."""
    to_go, met = returns_to_go(group, gamma), defaultdict(list)
    for each, own in zip(group, to_go, strict=True):
        for t, value in enumerate(own):
            met[each.states[t]].append(value)
    return [
        [float(whole + value - np.mean(met[state])) for whole, value, state in zip(*row, strict=False)]
        for row in zip(trajectory(group), to_go, (each.states for each in group), strict=True)
    ]


def by_tree(group: Group) -> Credit:
    """V(history) is the mean return of the attempts that share it; a turn's credit is how far it moved that."""

    def histories(each: Attempt) -> list[tuple[int, ...]]:
        return [(*each.states[: t + 1], *each.actions[:t]) for t in range(len(each.actions))]

    sharing = defaultdict(list)
    for each in group:
        for history in histories(each):
            sharing[history].append(each.reward)
    values = [[*(float(np.mean(sharing[h])) for h in histories(each)), each.reward] for each in group]
    return [[after - before for before, after in pairwise(own)] for own in values]


def measured(group: Group, policy: Array, rng: np.random.Generator, count: int) -> tuple[Credit, int]:
    """V̂ of each state (0 after the end) as the mean of ``count`` continuations, and the actions that they took."""
    values, taken = [], 0
    for each in group:
        further = [[play(policy, rng, s, t) for _ in range(count)] for t, s in enumerate(each.states[:-1])]
        values.append([*(float(np.mean([one.reward for one in some])) for some in further), 0.0])
        taken += sum(len(one.actions) for one in chain.from_iterable(further))
    return values, taken


def by_value(group: Group, values: Credit) -> Credit:
    """VinePPO: r + V̂(s') − V̂(s)."""
    found = [[after - before for before, after in pairwise(own)] for own in values]
    return [[*own[:-1], own[-1] + each.reward] for each, own in zip(group, found, strict=True)]


def by_divergence(group: Group, values: Credit, count: int, alpha: float = 0.05) -> Credit:
    """by_value, where it is shown: the first fall that is more than chance, and every such rise.

    Hoeffding: of T changes one is beyond the threshold by chance, up or down, with probability alpha at most.
    """
    found = []
    for own in by_value(group, values):
        noise = [2.0 / count] * (len(own) - 1) + [1.0 / count]  # the value after the end is exact
        shown = [abs(x) > np.sqrt(np.log(2 * len(own) / alpha) * n / 2) for x, n in zip(own, noise, strict=True)]
        falls = [t for t, change in enumerate(own) if shown[t] and change < 0]
        found.append([x if shown[t] and (x > 0 or t == falls[0]) else 0.0 for t, x in enumerate(own)])
    return found


def exact_changes(group: Group, values: Array) -> list[float]:
    """ΔV of all turns of a group, one after another."""
    own = [[*(float(values[t, s]) for t, s in enumerate(each.states[:-1])), 0.0] for each in group]
    return list(chain.from_iterable(by_value(group, own)))


def ranks(numbers: Sequence[float]) -> Array:
    """From 0; equal numbers share the mean of their ranks."""
    _, place, counts = np.unique(np.round(numbers, 12), return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[place])


def learn(estimator: Callable[[Group], Credit], seed: int, rate: float = 4.0, budget: int = 30_000) -> int:
    """Plain policy gradient from little skill: actions sampled until the policy succeeds four times in five."""
    rng, logits, sampled = np.random.default_rng(seed), np.log(skilled(0.2)), 0
    while sampled < budget:
        policy = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        if exact_values(policy)[0, START] >= 0.8:
            return sampled
        group = [play(policy, rng) for _ in range(16)]
        sampled += sum(len(each.actions) for each in group)
        for each, own in zip(group, estimator(group), strict=True):
            for state, action, advantage in zip(each.states, each.actions, own, strict=False):
                logits[state] += rate * advantage * (np.eye(5)[action] - policy[state]) / len(group)
    return budget


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    print("rank correlation with the exact change of value, for policies of growing skill")
    for share in (0.3, 0.5, 0.7):
        current, truth = skilled(share), list[float]()
        given = defaultdict[str, list[float]](list)
        for _ in range(10):
            some = [play(current, generator) for _ in range(8)]
            states, _ = measured(some, current, generator, 64)
            truth += exact_changes(some, exact_values(current))
            for simple in (trajectory, by_turn, by_state, by_tree):
                given[simple.__name__] += chain.from_iterable(simple(some))
            given["by_value"] += chain.from_iterable(by_value(some, states))
            given["by_divergence"] += chain.from_iterable(by_divergence(some, states, 64))
        found = {name: np.corrcoef(ranks(numbers), ranks(truth))[0, 1] for name, numbers in given.items()}
        print(f"success {exact_values(current)[0, START]:.2f}:", *(f"{n} {x:.2f}" for n, x in found.items()))
    print("actions sampled until 80 % success (at most 30,000), median of seven seeds")
    for simple in (trajectory, by_turn, by_state, by_tree):
        print(f"{simple.__name__:>10} {int(np.median([learn(simple, seed) for seed in range(7)])):>6}")
